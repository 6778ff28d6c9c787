/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters of PEFT: pairs of matrices, and what adapter_config.json says of them.
 */
#include <stdarg.h>
#include <stdio.h>

#include "analysis/checks/complete.h"

static struct fsdp_setting at(const struct fsdp_complete *complete, uint32_t index)
{
	return fsdp_setting(complete->checkpoint, index);
}

static struct fsdp_span config_file(const struct fsdp_complete *complete)
{
	return fsdp_file(
		complete->checkpoint, at(complete, complete->config.adapter).file)
		.path;
}

static const char *const pairs[][2] = { { "lora_A", "lora_B" }, { "lora_B", "lora_A" },
	{ "lora_embedding_A", "lora_embedding_B" },
	{ "lora_embedding_B", "lora_embedding_A" }, { "lora_down", "lora_up" },
	{ "lora_up", "lora_down" }, { "lora_a", "lora_b" }, { "lora_b", "lora_a" } };

/* The node of a tensor's name that is this segment, or FSDP_NONE. */
static uint32_t find_node(
	const struct fsdp_complete *complete, uint32_t tensor, const char *segment)
{
	uint32_t name = complete->folded[tensor];

	while (name != 0 && name != FSDP_NONE &&
		!fsdp_span_is(fsdp_names_segment(&complete->names, name), segment))
		name = fsdp_names_at(&complete->names, name)->parent;
	return name == 0 ? FSDP_NONE : name;
}

/* The module above that node, or FSDP_NONE. */
static uint32_t find_module(
	const struct fsdp_complete *complete, uint32_t tensor, const char *segment)
{
	uint32_t node = find_node(complete, tensor, segment);

	return node != FSDP_NONE ? fsdp_names_at(&complete->names, node)->parent
				 : FSDP_NONE;
}

/* The stored name of a tensor with another segment in place of one. */
static struct fsdp_span rename_segment(struct fsdp_complete *complete, uint32_t tensor,
	const char *segment, const char *other)
{
	struct fsdp_span stored = fsdp_complete_stored(complete, tensor);
	const unsigned char *place =
		memmem(stored.data, stored.size, segment, strlen(segment));
	size_t size = strlen(segment), more = strlen(other), before;
	unsigned char *text = fsdp_arena_take(&complete->work, stored.size + more, 1);

	if (text == NULL || place == NULL) {
		complete->failed |= text == NULL;
		return FSDP_SPAN("");
	}
	before = (size_t)(place - stored.data);
	memcpy(text, stored.data, before);
	memcpy(text + before, other, more);
	memcpy(text + before + more, place + size, stored.size - before - size);
	return fsdp_span(text, stored.size - size + more);
}

static bool lacks(
	const struct fsdp_complete *complete, uint32_t module, const char *member)
{
	return !complete->is_silent && fsdp_names_find_child(&complete->names, module,
					       fsdp_span_text(member)) == FSDP_NONE;
}

static void judge_pairs(struct fsdp_complete *complete, uint32_t tensor)
{
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++) {
		const char *segment = pairs[i][0], *other = pairs[i][1];
		uint32_t module = find_module(complete, tensor, segment);

		if (module != FSDP_NONE && lacks(complete, module, other))
			fsdp_complete_tell_lacking(complete, tensor, module,
				fsdp_span_text(other),
				rename_segment(complete, tensor, segment, other),
				"the adapter has %s and no %s", segment, other);
	}
}

/* ---- magnitudes of DoRA ---- */

static const char MAGNITUDE[] = "lora_magnitude_vector";

/* The magnitude is the only tensor of its module, or has a name of its own below it:
 * others show how this release stores it. */
static void judge_magnitude(
	struct fsdp_complete *complete, uint32_t tensor, const char *why)
{
	uint32_t module = find_module(complete, tensor, "lora_A");
	struct fsdp_span missing;

	if (module == FSDP_NONE || !lacks(complete, module, MAGNITUDE))
		return;
	missing = rename_segment(complete, tensor, "lora_A", MAGNITUDE);
	if (complete->bare_magnitudes)
		missing = fsdp_span(missing.data,
			missing.size - fsdp_span_last(missing, '.').size - 1);
	fsdp_complete_tell_lacking(complete, tensor, module, fsdp_span_text(MAGNITUDE),
		missing, "%s is missing (%s)", MAGNITUDE, why);
}

/* How it is known that all pairs have one; NULL: it is not. */
static const char *find_dora(struct fsdp_complete *complete)
{
	uint32_t index =
		fsdp_complete_get(complete, complete->config.adapter, "use_dora");
	const char *why = NULL;

	if (index != FSDP_NONE && at(complete, index).value.kind == FSDP_TOKEN_BOOL &&
		at(complete, index).value.integer != 0)
		why = "adapter_config.json: use_dora";
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		uint32_t name = complete->folded[i];

		if (name == FSDP_NONE || find_node(complete, i, MAGNITUDE) == FSDP_NONE)
			continue;
		why = why != NULL ? why : "other modules have one";
		complete->bare_magnitudes |= fsdp_span_is(
			fsdp_names_segment(&complete->names, name), MAGNITUDE);
	}
	return why;
}

/* ---- rank ---- */

/* Whether the configuration gives all matrices of LoRA one rank. Of other types of adapters
 * `r` can mean something else. */
static bool has_rank(const struct fsdp_complete *complete, uint64_t *ret_rank)
{
	uint32_t adapter = complete->config.adapter;
	struct fsdp_span type = fsdp_complete_get_text(complete, adapter, "peft_type");
	uint32_t pattern = fsdp_complete_get(complete, adapter, "rank_pattern");
	uint32_t parameters = fsdp_complete_get(complete, adapter, "target_parameters");

	if (type.size != 0 && !fsdp_span_is(type, "LORA"))
		return false;
	if (pattern != FSDP_NONE && at(complete, pattern).value.count > 0)
		return false;
	if (parameters != FSDP_NONE &&
		at(complete, parameters).value.kind != FSDP_TOKEN_NONE)
		return false;
	return fsdp_complete_get_integer(complete, adapter, "r", ret_rank) &&
	       *ret_rank > 0;
}

/* The dimension of a matrix that is the rank; -1: it is not a matrix of an adapter. */
static int64_t rank_of(const struct fsdp_complete *complete, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);

	if (tensor.dims < 2 || tensor.numel == 0)
		return -1;
	if (find_node(complete, index, "lora_A") != FSDP_NONE ||
		find_node(complete, index, "lora_embedding_A") != FSDP_NONE)
		return tensor.shape[0];
	if (find_node(complete, index, "lora_B") != FSDP_NONE ||
		find_node(complete, index, "lora_embedding_B") != FSDP_NONE)
		return tensor.shape[1];
	return -1;
}

/* The second matrix of a convolution in groups has its rank cut among them. */
static bool is_cut(const struct fsdp_complete *complete, uint32_t index, uint64_t rank)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);

	return tensor.dims > 2 && tensor.shape[1] > 0 &&
	       rank % (uint64_t)tensor.shape[1] == 0 &&
	       find_node(complete, index, "lora_B") != FSDP_NONE;
}

/* Names of tensors that one finding is about. */
struct affected {
	struct fsdp_span *names;
	size_t count;
	int64_t found; /* rank of the last one */
};

static void keep_affected(
	struct fsdp_complete *complete, struct affected *affected, uint32_t index)
{
	if (affected->names == NULL)
		affected->names =
			FSDP_COMPLETE_TAKE(complete, affected->names, FSDP_AFFECTED_KEPT);
	complete->failed |= affected->names == NULL;
	if (!complete->failed && affected->count < FSDP_AFFECTED_KEPT)
		affected->names[affected->count] = fsdp_arena_copy(
			&complete->work, fsdp_complete_stored(complete, index));
	affected->count++;
}

static void __attribute__((format(printf, 5, 6)))
tell_affected(struct fsdp_complete *complete, const struct affected *affected,
	enum fsdp_rule_index rule, const char *next, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fsdp_find_list(complete->checking->findings, rule,
		FSDP_PLACE(.file = rule == FSDP_RULE_CONFIG_MISMATCH
					   ? config_file(complete)
					   : (struct fsdp_span){ 0 },
			.tensor = affected->names[0], .affected = affected->names,
			.affected_count = affected->count, .fix = next,
			.severity = FSDP_ERROR + 1),
		format, arguments);
	va_end(arguments);
}

/* Whether the sides of a matrix are exchanged: what should be the rank is not, and the other
 * side is. */
static bool is_transposed(
	const struct fsdp_complete *complete, uint32_t index, uint64_t rank)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	bool is_first = find_node(complete, index, "lora_A") != FSDP_NONE;

	return tensor.dims == 2 && (uint64_t)tensor.shape[is_first] == rank;
}

/* The other matrix of the pair, or FSDP_NONE. */
static uint32_t find_other(const struct fsdp_complete *complete, uint32_t index)
{
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++) {
		uint32_t node = find_node(complete, index, pairs[i][0]), other;

		if (node == FSDP_NONE)
			continue;
		other = fsdp_names_find_child(&complete->names,
			fsdp_names_at(&complete->names, node)->parent,
			fsdp_span_text(pairs[i][1]));
		return node == complete->folded[index]
			       ? fsdp_complete_find(complete, other)
			       : fsdp_complete_find_below(complete, other, "weight");
	}
	return FSDP_NONE;
}

/* A transposed matrix alone is not enough if the rank of its pair differs too: its lengths may be equal by chance. */
static bool is_turned(const struct fsdp_complete *complete, uint32_t index, uint64_t rank)
{
	uint32_t other = find_other(complete, index);

	return is_transposed(complete, index, rank) &&
	       (other == FSDP_NONE || rank_of(complete, other) == (int64_t)rank ||
		       is_transposed(complete, other, rank));
}

/* Whether the matrix is the part of one rank: the other one of its pair has W times its rank. */
static bool is_part(const struct fsdp_complete *complete, uint32_t index, int64_t r)
{
	uint32_t other = find_other(complete, index);
	int64_t whole = other != FSDP_NONE ? rank_of(complete, other) : -1;

	return whole > r && whole % r == 0 && whole / r <= FSDP_COMPLETE_RANKS_MOST &&
	       !is_cut(complete, index, (uint64_t)whole) &&
	       fsdp_tensor(complete->checkpoint, index).dims == 2;
}

/* PEFT before 0.3 kept the adapters of a fused projection in one: lora_A has a rank for each of
 * its parts, and lora_B is a convolution. */
static bool is_of_old_peft(const struct fsdp_complete *complete)
{
	uint32_t index =
		fsdp_complete_get(complete, complete->config.adapter, "enable_lora");

	return index != FSDP_NONE && at(complete, index).value.kind == FSDP_TOKEN_LIST &&
	       at(complete, index).value.count > 0;
}

static void judge_rank(struct fsdp_complete *complete)
{
	struct affected parts = { 0 }, turned = { 0 }, others = { 0 };
	bool are_alike = true;
	char next[64] = "";
	uint64_t rank;
	size_t of = 0;

	if (!has_rank(complete, &rank))
		return;
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		int64_t r = complete->folded[i] != FSDP_NONE ? rank_of(complete, i) : -1;
		struct affected *affected = &others;

		of += r > 0;
		if (r <= 0 || (uint64_t)r == rank || is_cut(complete, i, rank))
			continue;
		if (is_turned(complete, i, rank))
			affected = &turned;
		else if (is_part(complete, i, r))
			affected = &parts;
		are_alike &= affected->count == 0 || affected->found == r;
		affected->found = r;
		keep_affected(complete, affected, i);
	}
	if (complete->failed || others.count + turned.count + parts.count == 0)
		return;
	if (is_of_old_peft(complete)) {
		struct affected *some = others.count > 0   ? &others
					: turned.count > 0 ? &turned
							   : &parts;

		tell_affected(complete, some, FSDP_RULE_CONFIG_MISMATCH,
			"load it with the release of PEFT that saved it, and merge it into its base there",
			"the adapter was saved by PEFT before 0.3 (enable_lora): %zu of %zu matrices hold the ranks of several parts of a projection, which later releases refuse",
			others.count + turned.count + parts.count, of);
		return;
	}
	if (parts.count > 0)
		tell_affected(complete, &parts, FSDP_RULE_PARTIAL_TENSOR, NULL,
			"%zu of %zu matrices have the rank %lld, and the other one of their pair has a multiple of it: they are the parts of one rank",
			parts.count, of, (long long)parts.found);
	if (turned.count > 0)
		tell_affected(complete, &turned, FSDP_RULE_CONFIG_MISMATCH,
			"save each of them transposed",
			"%zu of %zu matrices are transposed: config has r = %llu, which is their other side",
			turned.count, of, FSDP_LLU(rank));
	if (others.count == of && are_alike)
		snprintf(next, sizeof next, "set r to %lld in adapter_config.json",
			(long long)others.found);
	if (others.count > 0)
		tell_affected(complete, &others, FSDP_RULE_CONFIG_MISMATCH,
			next[0] != '\0' ? next : NULL,
			are_alike
				? "config has r = %llu, but %zu of %zu matrices have rank %lld"
				: "config has r = %llu, but %zu of %zu matrices have other ranks, for example %lld",
			FSDP_LLU(rank), others.count, of, (long long)others.found);
}

/* ---- matrices that are none, and names that none has ---- */

/* A tensor that PEFT puts into a module: of any type of adapter. */
static bool is_of_adapter(const struct fsdp_complete *complete, uint32_t index)
{
	static const char *const members[] = { "lora_A", "lora_B", "lora_embedding_A",
		"lora_embedding_B", "ia3_l", "oft_R", "boft_R", "boft_s" };

	for (size_t i = 0; i < FSDP_COUNT(members); i++)
		if (find_node(complete, index, members[i]) != FSDP_NONE)
			return true;
	return false;
}

/* LoRA may train a bias of its second matrix, too. */
static bool is_matrix(const struct fsdp_complete *complete, uint32_t index)
{
	if (fsdp_span_is(fsdp_names_segment(&complete->names, complete->folded[index]),
		    "bias"))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++)
		if (find_node(complete, index, pairs[i][0]) != FSDP_NONE)
			return true;
	return false;
}

static void judge_flat(struct fsdp_complete *complete)
{
	struct affected flat = { 0 };
	size_t of = 0;

	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (complete->folded[i] == FSDP_NONE || !is_matrix(complete, i))
			continue;
		of++;
		if (tensor.dims != 1 || tensor.numel == 0)
			continue;
		complete->told[i] = 1;
		keep_affected(complete, &flat, i);
	}
	if (flat.count > 0 && !complete->failed)
		tell_affected(complete, &flat, FSDP_RULE_FLATTENED_PARAMETER,
			"gather the parameters before the adapter is saved",
			"%zu of %zu matrices of the adapter are one row of numbers: the flat shards of one rank",
			flat.count, of);
}

#define PREFIX "base_model.model."

/* PEFT looks below its own wrapper, once. */
static void judge_prefix(struct fsdp_complete *complete)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	struct affected twice = { 0 }, without = { 0 }, bare = { 0 };
	bool has_head = fsdp_span_is(
		fsdp_complete_get_text(complete, complete->config.adapter, "task_type"),
		"CAUSAL_LM");
	size_t of = 0;

	if (family == NULL || strncmp(family, "peft", 4) != 0)
		return;
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		struct fsdp_span name;

		if (complete->folded[i] == FSDP_NONE || !is_of_adapter(complete, i))
			continue;
		of++;
		name = fsdp_complete_stored(complete, i);
		if (!fsdp_complete_contains(name, PREFIX))
			keep_affected(complete, &without, i);
		else if (fsdp_span_begins(name, FSDP_SPAN(PREFIX PREFIX)))
			keep_affected(complete, &twice, i);
		else if (has_head &&
			 fsdp_span_begins(name, FSDP_SPAN(PREFIX "layers.")) &&
			 (fsdp_complete_contains(name, ".self_attn.") ||
				 fsdp_complete_contains(name, ".mlp.")))
			keep_affected(complete, &bare, i);
	}
	if (complete->failed || of == 0)
		return;
	if (bare.count == of)
		tell_affected(complete, &bare, FSDP_RULE_WRAPPER_PREFIX,
			"insert \"model.\" after \"base_model.model.\" in the names, if the base is called so",
			"all %zu names of the adapter go from \"base_model.model.\" straight to \"layers.\": if the base has \"model.layers.\", as models with a head (task_type CAUSAL_LM) do, PEFT uses none of them",
			of);
	if (twice.count == of)
		tell_affected(complete, &twice, FSDP_RULE_WRAPPER_PREFIX,
			"remove one \"base_model.model.\" from the names",
			"all %zu names of the adapter begin with \"base_model.model.\" twice: PEFT uses none of them",
			of);
	if (without.count == of)
		tell_affected(complete, &without, FSDP_RULE_WRAPPER_PREFIX,
			"insert \"base_model.model.\" before the names",
			"none of the %zu names of the adapter begins with \"base_model.model.\": PEFT uses none of them",
			of);
}

enum { WORDS_MOST = 64 };

/* Whether a module's name is this, or ends with a dot and this. */
static bool is_module(const struct fsdp_complete *complete, struct fsdp_span word)
{
	size_t count = complete->names.list.count;
	struct fsdp_span last = fsdp_span_last(word, '.');

	for (uint32_t i = 1; i < count; i++) {
		struct fsdp_span rest = word;
		uint32_t name = i;

		if (!fsdp_span_equal(fsdp_names_segment(&complete->names, i), last))
			continue;
		while (rest.size != 0 && name != 0 && name != FSDP_NONE) {
			last = fsdp_span_last(rest, '.');
			if (!fsdp_span_equal(
				    fsdp_names_segment(&complete->names, name), last))
				break;
			rest.size -= last.size + (rest.size > last.size);
			name = fsdp_names_at(&complete->names, name)->parent;
		}
		if (rest.size == 0)
			return true;
		last = fsdp_span_last(word, '.');
	}
	return false;
}

/* The library lists two names for the head of a classifier; a model has one of them. */
static bool is_other_head(const struct fsdp_complete *complete, struct fsdp_span word)
{
	return (fsdp_span_is(word, "score") &&
		       is_module(complete, FSDP_SPAN("classifier"))) ||
	       (fsdp_span_is(word, "classifier") &&
		       is_module(complete, FSDP_SPAN("score")));
}

static void judge_words(struct fsdp_complete *complete, const char *key,
	enum fsdp_severity severity, bool one_is_enough)
{
	uint32_t list = fsdp_complete_get(complete, complete->config.adapter, key), end;
	uint32_t matched = 0, looked_at = 0;
	char room[FSDP_SHOWN];

	if (list == FSDP_NONE || at(complete, list).value.kind != FSDP_TOKEN_LIST ||
		at(complete, list).value.count > WORDS_MOST)
		return;
	end = at(complete, list).end;
	for (uint32_t i = list + 1; i < end; i = at(complete, i).end, looked_at++)
		matched += is_module(complete, at(complete, i).value.text);
	if (matched == looked_at || (one_is_enough && matched == 0))
		return;
	for (uint32_t i = list + 1; i < end; i = at(complete, i).end)
		if (!is_module(complete, at(complete, i).value.text) &&
			!is_other_head(complete, at(complete, i).value.text))
			fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
				FSDP_PLACE(.file = config_file(complete),
					.module = at(complete, i).value.text,
					.severity = (int)severity + 1),
				"%s names %s, and no tensor is of such a module", key,
				fsdp_shown(at(complete, i).value.text, room));
}

/* Layers that the configuration adapts, without an adapter in the outermost stack. */
static void judge_layer(struct fsdp_complete *complete, int64_t number)
{
	const struct fsdp_complete_stack *stack = NULL;

	for (size_t i = 0; i < complete->stack_count && stack == NULL; i++)
		if (complete->stacks[i].is_deep && !complete->stacks[i].is_inner)
			stack = &complete->stacks[i];
	if (stack == NULL || complete->is_silent)
		return;
	for (uint32_t i = 0; i < stack->element_count; i++)
		if (stack->elements[i].number == number)
			return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(complete)),
		"layers_to_transform names layer %lld, and the adapter has nothing of it",
		(long long)number);
}

static void judge_transformed(struct fsdp_complete *complete)
{
	uint32_t list = fsdp_complete_get(
			 complete, complete->config.adapter, "layers_to_transform"),
		 end;

	if (list == FSDP_NONE || at(complete, list).value.count > WORDS_MOST * 16)
		return;
	end = at(complete, list).end;
	for (uint32_t i = list; i < end; i++)
		if (at(complete, i).value.kind == FSDP_TOKEN_INTEGER)
			judge_layer(complete, at(complete, i).value.integer);
}

/* ---- adapters inside of a model ---- */

/* A tensor below an adapted module that is not an adapter file: names of PEFT, of MLX, and of training loops that
 * keep the weight in its place. */
static bool is_wrapped(const struct fsdp_complete *complete, uint32_t index)
{
	static const char *const firsts[] = { "lora_A", "lora_a" };
	static const char *const inner[] = { "base_layer", "linear", "weight" };
	uint32_t module = FSDP_NONE;

	for (size_t i = 0; i < FSDP_COUNT(firsts) && module == FSDP_NONE; i++)
		module = find_module(complete, index, firsts[i]);
	for (size_t i = 0; i < FSDP_COUNT(inner) && module != FSDP_NONE; i++)
		if (fsdp_names_find_child(&complete->names, module,
			    fsdp_span_text(inner[i])) != FSDP_NONE)
			return true;
	return false;
}

/* A model that is only loaded does not use them; a resumed training run needs them. */
static void judge_unmerged(struct fsdp_complete *complete)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	bool is_model = family != NULL && strncmp(family, "hf", 2) == 0;
	struct affected affected = { 0 };
	int64_t rank = 0;

	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (complete->folded[i] == FSDP_NONE || tensor.dims != 2 ||
			!is_wrapped(complete, i))
			continue;
		rank = tensor.shape[0] < tensor.shape[1] ? tensor.shape[0]
							 : tensor.shape[1];
		keep_affected(complete, &affected, i);
	}
	if (complete->failed || affected.count == 0)
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_WRAPPER_PREFIX,
		FSDP_PLACE(.tensor = affected.names[0], .affected = affected.names,
			.affected_count = affected.count,
			.severity = (is_model ? FSDP_WARNING : FSDP_NOTE) + 1,
			.fix = is_model
				       ? "merge them in the program that trained them, and save the model again"
				       : ""),
		"LoRA of rank %lld in %zu modules is not merged: a model without LoRA has no such names; lora_alpha, which a merge needs, is %s",
		(long long)rank, affected.count,
		fsdp_complete_get(complete, complete->config.adapter, "lora_alpha") !=
				FSDP_NONE
			? "in adapter_config.json"
			: "not stored");
}

/* Pairs that are called as PEFT does and pairs that are called as kohya's scripts do: what reads the ones looks for
 * none of the others. */
static void judge_conventions(struct fsdp_complete *complete)
{
	struct affected down = { 0 };
	size_t pairs_of_peft = 0;

	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		if (complete->folded[i] == FSDP_NONE)
			continue;
		pairs_of_peft += find_node(complete, i, "lora_A") != FSDP_NONE;
		if (find_node(complete, i, "lora_down") != FSDP_NONE)
			keep_affected(complete, &down, i);
	}
	if (complete->failed || pairs_of_peft == 0 || down.count == 0)
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_NAME_CONFLICT,
		FSDP_PLACE(.tensor = down.names[0], .affected = down.names,
			.affected_count = down.count,
			.fix = "convert all names to one convention, or save them as two files"),
		"names of two conventions: %zu modules have lora_A (PEFT), %zu have lora_down (kohya): a loader reads one of them",
		pairs_of_peft, down.count);
}

void fsdp_complete_judge_adapters(struct fsdp_complete *complete)
{
	const char *dora = find_dora(complete);

	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		if (complete->folded[i] == FSDP_NONE)
			continue;
		judge_pairs(complete, i);
		if (dora != NULL && !complete->failed)
			judge_magnitude(complete, i, dora);
	}
	if (!complete->failed)
		judge_flat(complete);
	judge_unmerged(complete);
	judge_conventions(complete);
	if (complete->config.adapter == FSDP_NONE || complete->failed)
		return;
	judge_prefix(complete);
	judge_rank(complete);
	judge_words(complete, "target_modules", FSDP_NOTE, true);
	judge_words(complete, "modules_to_save", FSDP_WARNING, false);
	judge_transformed(complete);
}
