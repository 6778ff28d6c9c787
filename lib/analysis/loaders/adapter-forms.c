/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that each supported type of adapter stores, in order.
 *
 * Origin: peft/tuners (0.21).
 */
#include <inttypes.h>
#include <stdio.h>

#include "analysis/loaders/adapter.h"
#include "base/num.h"

/* clang-format off */
#define MEMBER(name_, tail_, ...) { .name = name_, .tail = tail_, __VA_ARGS__ }
#define SIZE(size_, at_) .size = FSDP_ADAPTER_##size_, .at = at_
#define RANK(dim) .rank_dim = dim

enum { LORA_A = 1, LORA_B, EMBEDDING_A, EMBEDDING_B, MAGNITUDE, LORA_BIAS };
enum { BOFT_R = 1, BOFT_S };

static const struct fsdp_adapter_form forms[] = {
	{ .type = "LORA", .rank = "r", .rank_default = 8, .members = {
		[LORA_A] = MEMBER("lora_A", ".weight", .needs = LORA_B, .flag = "use_dora",
			.also_needs = MAGNITUDE, RANK(1), SIZE(IN, 1)),
		[LORA_B] = MEMBER("lora_B", ".weight", .needs = LORA_A, .flag = "lora_bias",
			.also_needs = LORA_BIAS, RANK(2), SIZE(OUT, 0)),
		[EMBEDDING_A] = MEMBER("lora_embedding_A", "", .needs = EMBEDDING_B,
			.flag = "use_dora", .also_needs = MAGNITUDE, RANK(1), SIZE(ROWS, 1)),
		[EMBEDDING_B] = MEMBER("lora_embedding_B", "", .needs = EMBEDDING_A, RANK(2),
			SIZE(COLUMNS, 0)),
		[MAGNITUDE] = MEMBER("lora_magnitude_vector", "", .live_tail = ".weight",
			.unsized_by = EMBEDDING_A, SIZE(SIDE, 0)),
		[LORA_BIAS] = MEMBER("lora_B", ".bias", SIZE(OUT, 0)) } },
	{ .type = "IA3", .members = { { 0 }, MEMBER("ia3_l", "", SIZE(SIDE, 0)) } },
	{ .type = "OFT", .members = { { 0 },
		MEMBER("oft_R", ".weight", SIZE(IN, 0), .times = "oft_block_size") } },
	{ .type = "BOFT", .rank = "boft_n_butterfly_factor", .rank_default = 1, .members = {
		[BOFT_R] = MEMBER("boft_R", "", .needs = BOFT_S, RANK(1), SIZE(IN, 1), .times_at = 2),
		[BOFT_S] = MEMBER("boft_s", "", .needs = BOFT_R, SIZE(OUT, 0)) } },
	{ .type = "PROMPT_TUNING", .is_prompt = true },
	{ .type = "PREFIX_TUNING", .is_prompt = true },
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

/* What wraps a module leaves its name in that of the tensor; that of others than
 * torch.compile ends with "module". */
bool fsdp_adapter_is_unwrapped(struct fsdp_span name)
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

/* The member's part of a name that ends with its tail. The adapter's own name may be in between. */
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
	name->is_live = fsdp_adapter_is_unwrapped(name->whole) &&
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
	uint8_t member)
{
	const struct fsdp_adapter_member *wanted = &form->members[member];

	return is_stored(checkpoint, name->module, wanted, name->adapter) ||
	       (name->adapter.size == 0 && is_stored(checkpoint, name->module, wanted,
						   FSDP_SPAN(".default"))) ||
	       (fsdp_span_is(name->adapter, ".default") &&
		       is_stored(checkpoint, name->module, wanted, FSDP_SPAN("")));
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

/* Of adapters of prompts there is nothing to walk through. */
void fsdp_adapter_begin(struct fsdp_adapter_walk *walk, struct fsdp_loading *loading)
{
	walk->form = fsdp_adapter_form(loading);
	walk->checkpoint = loading->knows_stored && !walk->form->is_prompt
				   ? fsdp_load_open(loading, loading->weights)
				   : NULL;
	walk->next = 0;
}

bool fsdp_adapter_walk_on(struct fsdp_adapter_walk *walk)
{
	if (walk->checkpoint == NULL || walk->next == fsdp_tensor_count(walk->checkpoint))
		return false;
	walk->tensor = fsdp_tensor(walk->checkpoint, walk->next);
	walk->name = fsdp_adapter_read_name(
		walk->form, walk->checkpoint, walk->next++, walk->buffer);
	return true;
}

/* On to the next that the loader puts into the model. */
bool fsdp_adapter_walk_to_live(struct fsdp_adapter_walk *walk)
{
	while (fsdp_adapter_walk_on(walk))
		if (walk->name.member != NULL && walk->name.is_live)
			return true;
	return false;
}

bool fsdp_adapter_is_stored_target(struct fsdp_loading *loading, struct fsdp_span module)
{
	bool is_unknown;

	return !fsdp_adapter_is_set(loading, "target_modules") ||
	       !fsdp_adapter_is_list(loading, "target_modules") ||
	       fsdp_adapter_is_target(loading, module, &is_unknown);
}

void fsdp_adapter_say_name(
	struct fsdp_loading *loading, const struct fsdp_adapter_walk *walk)
{
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(walk->name.whole, 512));
}

/* Says the number that is stored and the other one. */
void fsdp_adapter_say_numbers(struct fsdp_loading *loading, int64_t stored, int64_t other)
{
	fsdp_load_say(loading, 1, "%" PRId64, stored);
	fsdp_load_say(loading, 2, "%" PRId64, other);
}

int64_t fsdp_adapter_size_at(const struct fsdp_adapter_walk *walk, uint32_t dim)
{
	return dim < walk->tensor.dims ? walk->tensor.shape[dim] : -1;
}
