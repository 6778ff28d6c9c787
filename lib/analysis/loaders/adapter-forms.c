/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each type of adapter stores.
 *
 * Origin: peft/tuners (0.21).
 */
#include <stdio.h>

#include "analysis/loaders/adapter.h"
#include "base/num.h"

#define BIT(member) (UINT32_C(1) << (member))

/* clang-format off */
#define MEMBER(name_, tail_, ...) { .name = name_, .tail = tail_, __VA_ARGS__ }
#define SIZE(size_, at_) .size = FSDP_ADAPTER_##size_, .at = at_
#define NEEDS(...) .needs = __VA_ARGS__
#define RANK(dim) .rank_dim = dim

enum { LORA_A, LORA_B, EMBEDDING_A, EMBEDDING_B, MAGNITUDE, LORA_BIAS };
enum { ADA_A, ADA_B, ADA_E };
enum { HADA_1A, HADA_1B, HADA_2A, HADA_2B, HADA_T1, HADA_T2 };
enum { KR_1, KR_1A, KR_1B, KR_2, KR_2A, KR_2B, KR_T2 };

#define KR_LEFT (BIT(KR_1) | BIT(KR_1A) | BIT(KR_1B))
#define KR_RIGHT (BIT(KR_2) | BIT(KR_2A) | BIT(KR_2B))

#define HADA_CORE .core = BIT(HADA_T1) | BIT(HADA_T2)

static const struct fsdp_adapter_form forms[] = {
	{ .type = "LORA", .rank = "r", .rank_default = 8, .members = {
		[LORA_A] = MEMBER("lora_A", ".weight", NEEDS(BIT(LORA_B)), .flag = "use_dora",
			.also_needs = BIT(MAGNITUDE), RANK(1), SIZE(IN, 1)),
		[LORA_B] = MEMBER("lora_B", ".weight", NEEDS(BIT(LORA_A)), .flag = "lora_bias",
			.also_needs = BIT(LORA_BIAS), RANK(2), SIZE(OUT, 0)),
		[EMBEDDING_A] = MEMBER("lora_embedding_A", "", NEEDS(BIT(EMBEDDING_B)),
			.flag = "use_dora", .also_needs = BIT(MAGNITUDE), RANK(1), SIZE(ROWS, 1)),
		[EMBEDDING_B] = MEMBER("lora_embedding_B", "", NEEDS(BIT(EMBEDDING_A)), RANK(2),
			SIZE(COLUMNS, 0)),
		[MAGNITUDE] = MEMBER("lora_magnitude_vector", "", .live_tail = ".weight",
			.core = BIT(EMBEDDING_A), SIZE(SIDE, 0)),
		[LORA_BIAS] = MEMBER("lora_B", ".bias", SIZE(OUT, 0)) } },
	{ .type = "ADALORA", .rank = "init_r", .rank_default = 12, .members = {
		[ADA_A] = MEMBER("lora_A", "", NEEDS(BIT(ADA_E)), RANK(1), SIZE(IN, 1)),
		[ADA_B] = MEMBER("lora_B", "", NEEDS(BIT(ADA_A)), RANK(2), SIZE(OUT, 0)),
		[ADA_E] = MEMBER("lora_E", "", NEEDS(BIT(ADA_B)), RANK(1)) } },
	{ .type = "IA3", .members = { MEMBER("ia3_l", "", SIZE(SIDE, 0)) } },
	{ .type = "LOHA", .rank = "r", .rank_default = 8, .members = {
		[HADA_1A] = MEMBER("hada_w1_a", "", NEEDS(BIT(HADA_1B)), RANK(2), HADA_CORE, SIZE(OUT, 0)),
		[HADA_1B] = MEMBER("hada_w1_b", "", NEEDS(BIT(HADA_2A)), RANK(1), HADA_CORE, SIZE(IN, 1)),
		[HADA_2A] = MEMBER("hada_w2_a", "", NEEDS(BIT(HADA_2B)), RANK(2), HADA_CORE, SIZE(OUT, 0)),
		[HADA_2B] = MEMBER("hada_w2_b", "", NEEDS(BIT(HADA_1A)), RANK(1), HADA_CORE, SIZE(IN, 1)),
		[HADA_T1] = MEMBER("hada_t1", "", NEEDS(BIT(HADA_T2)), RANK(1)),
		[HADA_T2] = MEMBER("hada_t2", "", NEEDS(BIT(HADA_T1)), RANK(1)) } },
	{ .type = "LOKR", .rank = "r", .rank_default = 8, .has_sizes_unknown = true, .members = {
		[KR_1] = MEMBER("lokr_w1", "", NEEDS(KR_RIGHT)),
		[KR_1A] = MEMBER("lokr_w1_a", "", NEEDS(BIT(KR_1B)), .also_needs = KR_RIGHT, RANK(2)),
		[KR_1B] = MEMBER("lokr_w1_b", "", NEEDS(BIT(KR_1A)), RANK(1)),
		[KR_2] = MEMBER("lokr_w2", "", NEEDS(KR_LEFT)),
		[KR_2A] = MEMBER("lokr_w2_a", "", NEEDS(BIT(KR_2B)), .also_needs = KR_LEFT, RANK(2), .core = BIT(KR_T2)),
		[KR_2B] = MEMBER("lokr_w2_b", "", NEEDS(BIT(KR_2A)), RANK(1), .core = BIT(KR_T2)),
		[KR_T2] = MEMBER("lokr_t2", "", NEEDS(BIT(KR_2A)), RANK(1)) } },
	{ .type = "VERA", .rank = "r", .rank_default = 256, .members = {
		MEMBER("vera_lambda_b", "", NEEDS(BIT(1)), SIZE(OUT, 0)),
		MEMBER("vera_lambda_d", "", NEEDS(BIT(0)), RANK(1)) } },
	{ .type = "OFT", .members = {
		MEMBER("oft_R", ".weight", SIZE(IN, 0), .times = "oft_block_size") } },
	{ .type = "BOFT", .rank = "boft_n_butterfly_factor", .rank_default = 1, .members = {
		MEMBER("boft_R", "", NEEDS(BIT(1)), RANK(1), SIZE(IN, 1), .times_at = 2),
		MEMBER("boft_s", "", NEEDS(BIT(0)), SIZE(OUT, 0)) } },
	{ .type = "LN_TUNING", .is_of_vectors = true, .members = {
		MEMBER("ln_tuning_layers", ".weight", SIZE(ALL, 0)),
		MEMBER("ln_tuning_layers", ".bias", NEEDS(BIT(0)), SIZE(ALL, 0)) } },
	{ .type = "FOURIERFT", .rank = "n_frequency", .rank_default = 1000, .members = {
		MEMBER("fourierft_spectrum", "", RANK(1)) } },
	{ .type = "HRA", .rank = "r", .rank_default = 8, .members = {
		MEMBER("hra_u", "", RANK(2), SIZE(IN, 0)) } },
	{ .type = "MISS", .rank = "r", .rank_default = 64, .members = {
		MEMBER("miss_block", "", RANK(1), SIZE(OUT, 1)) } },
	{ .type = "RANDLORA", .rank = "r", .rank_default = 32, .has_sizes_unknown = true, .members = {
		MEMBER("randlora_lambda", "", NEEDS(BIT(1)), RANK(1)),
		MEMBER("randlora_gamma", "", NEEDS(BIT(0))) } },
	{ .type = "VBLORA", .rank = "r", .rank_default = 4, .members = {
		MEMBER("vblora_logits_A", "", NEEDS(BIT(1)), RANK(1), SIZE(IN, 1), .times = "vector_length"),
		MEMBER("vblora_logits_B", "", NEEDS(BIT(0)), RANK(2), SIZE(OUT, 0), .times = "vector_length") } },
	{ .type = "TRAINABLE_TOKENS", .rank = "token_indices", .members = {
		MEMBER("trainable_tokens_delta", "", RANK(1), SIZE(COLUMNS, 1)) } },
	{ .type = "ADAPTION_PROMPT", .has_sizes_unknown = true, .members = {
		MEMBER("adaption_prompt", "", NEEDS(BIT(1))),
		MEMBER("adaption_gate", "", NEEDS(BIT(0))) } },
	{ .type = "PROMPT_TUNING", .is_prompt = true },
	{ .type = "PREFIX_TUNING", .is_prompt = true },
	{ .type = "P_TUNING", .is_prompt = true },
};
/* clang-format on */

const struct fsdp_adapter_form *fsdp_adapter_form(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "peft_type");

	for (size_t i = 0; i < FSDP_COUNT(forms); i++)
		if (fsdp_span_is(type, forms[i].type))
			return &forms[i];
	return NULL;
}

/* ---- names ---- */

/* What wraps a module leaves its name in that of the tensor; that of others than
 * torch.compile ends with "module". */
static bool has_no_wrapper(struct fsdp_span name)
{
	static const char *const wrappers[] = { "_orig_mod.", "module." };

	for (size_t i = 0; i < FSDP_COUNT(wrappers); i++)
		if (memmem(name.data, name.size, wrappers[i], strlen(wrappers[i])) !=
			NULL)
			return false;
	return true;
}

/* Takes a tail off the end; false: the text does not end so. */
static bool cut(struct fsdp_span *text, const char *tail)
{
	if (!fsdp_span_ends(*text, fsdp_span_text(tail)))
		return false;
	text->size -= strlen(tail);
	return true;
}

/* The member's part of a name that ends with its tail. The adapter's own name may stand
 * between. */
static bool read_member(struct fsdp_adapter_name *name,
	const struct fsdp_adapter_member *member, const char *tail)
{
	struct fsdp_span rest = name->whole, last;

	if (!cut(&rest, tail))
		return false;
	last = fsdp_span_last(rest, '.');
	name->adapter = (struct fsdp_span){ 0 };
	if (!fsdp_span_is(last, member->name) && rest.size > last.size) {
		name->adapter = fsdp_span(last.data - 1, last.size + 1);
		rest.size -= last.size + 1;
		last = fsdp_span_last(rest, '.');
	}
	if (!fsdp_span_is(last, member->name) || rest.size == last.size)
		return false;
	rest.size -= last.size + 1;
	name->member = member;
	name->is_live = has_no_wrapper(name->whole) &&
			fsdp_span_begins(rest, FSDP_SPAN(FSDP_ADAPTER_PREFIX));
	name->module = name->is_live
			       ? fsdp_span(rest.data + sizeof FSDP_ADAPTER_PREFIX - 1,
					 rest.size - (sizeof FSDP_ADAPTER_PREFIX - 1))
			       : rest;
	return true;
}

struct fsdp_adapter_name fsdp_adapter_read_name(const struct fsdp_adapter_form *form,
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor, char *buffer)
{
	size_t size = fsdp_name_write(checkpoint,
		fsdp_tensor(checkpoint, tensor).raw_name, buffer, FSDP_ADAPTER_NAME);
	struct fsdp_adapter_name name = { .member = NULL };

	if (size > FSDP_ADAPTER_NAME)
		return name;
	name.whole = fsdp_span(buffer, size);
	for (size_t i = 0; i < FSDP_ADAPTER_MEMBERS; i++) {
		const struct fsdp_adapter_member *member = &form->members[i];
		if (member->name != NULL &&
			(read_member(&name, member, member->tail) ||
				(member->live_tail != NULL &&
					read_member(&name, member, member->live_tail))))
			return name;
	}
	name.adapter = (struct fsdp_span){ 0 };
	return name;
}

/* Without what wraps the model. */
static struct fsdp_span unwrap(struct fsdp_span module)
{
	const char *prefix = FSDP_ADAPTER_PREFIX;
	const unsigned char *at =
		memmem(module.data, module.size, prefix, strlen(prefix));
	size_t before = at != NULL ? (size_t)(at - module.data) + strlen(prefix) : 0;

	return fsdp_span(module.data + before, module.size - before);
}

/* Of a module in the base. */
static bool is_stored(const struct fsdp_checkpoint *checkpoint, struct fsdp_span module,
	const struct fsdp_adapter_member *member, struct fsdp_span adapter)
{
	const char *const tails[] = { member->tail, member->live_tail };
	char text[FSDP_ADAPTER_NAME];

	for (size_t i = 0; i < FSDP_COUNT(tails); i++) {
		int size = tails[i] == NULL ? -1
					    : snprintf(text, sizeof text,
						      FSDP_ADAPTER_PREFIX "%.*s.%s%.*s%s",
						      FSDP_TEXT(module), member->name,
						      FSDP_TEXT(adapter), tails[i]);
		if (size > 0 && (size_t)size < sizeof text &&
			fsdp_tensor_find(checkpoint, fsdp_span(text, (size_t)size)) !=
				FSDP_NONE)
			return true;
	}
	return false;
}

bool fsdp_adapter_has(const struct fsdp_adapter_form *form,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_adapter_name *name,
	uint32_t members)
{
	for (size_t i = 0; i < FSDP_ADAPTER_MEMBERS; i++)
		if ((members & BIT(i)) != 0 && is_stored(checkpoint, name->module,
						       &form->members[i], name->adapter))
			return true;
	return false;
}

bool fsdp_adapter_has_module(const struct fsdp_adapter_form *form,
	const struct fsdp_checkpoint *checkpoint, struct fsdp_span module)
{
	for (size_t i = 0; i < FSDP_ADAPTER_MEMBERS; i++) {
		const struct fsdp_adapter_member *member = &form->members[i];
		if (member->name != NULL &&
			(is_stored(checkpoint, module, member, FSDP_SPAN("")) ||
				is_stored(checkpoint, module, member,
					FSDP_SPAN(".default"))))
			return true;
	}
	return false;
}

void fsdp_adapter_say_live(struct fsdp_loading *loading, struct fsdp_span module,
	const struct fsdp_adapter_member *member)
{
	fsdp_load_say(loading, 0, FSDP_ADAPTER_PREFIX "%.*s.%s.default%s",
		FSDP_TEXT_MOST(unwrap(module), 512), member->name,
		member->live_tail != NULL ? member->live_tail : member->tail);
}

bool fsdp_adapter_ends(struct fsdp_span module, struct fsdp_span word)
{
	return word.size != 0 && fsdp_span_ends(module, word) &&
	       (module.size == word.size ||
		       module.data[module.size - word.size - 1] == '.');
}
