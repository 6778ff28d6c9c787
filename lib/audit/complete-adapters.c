/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters of PEFT: pairs of matrices, and what adapter_config.json says of them.
 */
#include <stdarg.h>
#include <stdio.h>

#include "audit/complete.h"

static const char *const pairs[][2] = { { "lora_A", "lora_B" }, { "lora_B", "lora_A" },
	{ "lora_embedding_A", "lora_embedding_B" },
	{ "lora_embedding_B", "lora_embedding_A" }, { "lora_down", "lora_up" },
	{ "lora_up", "lora_down" }, { "lora_a", "lora_b" }, { "lora_b", "lora_a" } };

/* The node of a tensor's name that is this segment, or FSDP_NONE. */
static uint32_t find_node(const struct model *model, uint32_t tensor, const char *segment)
{
	return find_segment(&model->names, model->folded[tensor], segment);
}

/* Names of tensors that one finding is about. */
struct affected {
	struct fsdp_kept kept;
	int64_t found; /* rank of the last one */
};

static void keep_affected(struct model *model, struct affected *affected, uint32_t index)
{
	fsdp_check_keep(model->checking, &affected->kept, stored_name(model, index));
}

static void __attribute__((format(printf, 5, 6)))
report_affected(struct model *model, const struct affected *affected,
	enum fsdp_rule_index rule, const char *next, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fsdp_find_list(model->findings, rule,
		FSDP_PLACE(.file = rule == FSDP_RULE_CONFIG_MISMATCH
					   ? config_file(model, model->adapter)
					   : (struct fsdp_span){ 0 },
			.tensor = affected->kept.names[0],
			.affected = affected->kept.names,
			.affected_count = affected->kept.count, .fix = next,
			.severity = FSDP_ERROR + 1),
		format, arguments);
	va_end(arguments);
}

/* ---- pairs, and magnitudes of DoRA ---- */

/* The stored name of a tensor with another segment in place of one. */
static struct fsdp_span rename_segment(
	struct model *model, uint32_t tensor, const char *segment, const char *other)
{
	struct fsdp_span stored = stored_name(model, tensor);
	const unsigned char *place =
		memmem(stored.data, stored.size, segment, strlen(segment));
	size_t size = strlen(segment), more = strlen(other), before;
	unsigned char *text = MODEL_TAKE(model, text, stored.size + more);
	if (text == NULL || place == NULL)
		return FSDP_SPAN("");
	before = (size_t)(place - stored.data);
	memcpy(text, stored.data, before);
	memcpy(text + before, other, more);
	memcpy(text + before + more, place + size, stored.size - before - size);
	return fsdp_span(text, stored.size - size + more);
}

static bool lacks(const struct model *model, uint32_t module, const char *member)
{
	return !model->is_silent && module != FSDP_NONE &&
	       child_of(model, module, member) == FSDP_NONE;
}

static void check_pairs(struct model *model, uint32_t tensor)
{
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++) {
		const char *segment = pairs[i][0], *other = pairs[i][1];
		uint32_t module = parent_of(model, find_node(model, tensor, segment));
		if (lacks(model, module, other))
			fsdp_complete_report_lacking(model, tensor, module,
				fsdp_span_text(other),
				rename_segment(model, tensor, segment, other),
				"%s is missing (%s is present)", other, segment);
	}
}

static const char MAGNITUDE[] = "lora_magnitude_vector";

static void check_all_pairs(struct model *model)
{
	struct fsdp_token use_dora =
		fsdp_complete_get_value(model, model->adapter, "use_dora");
	/* How it is known that all pairs have a magnitude; NULL: it is not. */
	const char *why = use_dora.kind == FSDP_TOKEN_BOOL && use_dora.integer != 0
				  ? "adapter_config.json: use_dora"
				  : NULL;
	bool are_bare = false;

	for (uint32_t i = 0; i < model->tensor_count; i++) {
		if (find_node(model, i, MAGNITUDE) == FSDP_NONE)
			continue;
		why = why != NULL ? why : "other modules have one";
		are_bare |= is_called(model, model->folded[i], MAGNITUDE);
	}
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		if (model->folded[i] == FSDP_NONE)
			continue;
		check_pairs(model, i);
		if (why != NULL) {
			/* The magnitude is the only tensor of its module (bare), or has a
			 * name of its own below it: others show how this release stores
			 * it. */
			uint32_t module = parent_of(model, find_node(model, i, "lora_A"));
			if (!lacks(model, module, MAGNITUDE))
				continue;
			struct fsdp_span missing =
				rename_segment(model, i, "lora_A", MAGNITUDE);
			if (are_bare)
				missing.size -= fsdp_span_last(missing, '.').size + 1;
			fsdp_complete_report_lacking(model, i, module,
				fsdp_span_text(MAGNITUDE), missing, "%s is missing (%s)",
				MAGNITUDE, why);
		}
	}
}

/* ---- rank ---- */

/* Whether the configuration gives all matrices of LoRA one rank. Of other types of
 * adapters `r` can mean something else. */
static bool has_rank(const struct model *model, uint64_t *ret_rank)
{
	uint32_t adapter = model->adapter;
	struct fsdp_span type = fsdp_complete_get_text(model, adapter, "peft_type");
	return (type.size == 0 || fsdp_span_is(type, "LORA")) &&
	       fsdp_complete_get_value(model, adapter, "rank_pattern").count == 0 &&
	       fsdp_complete_get_value(model, adapter, "target_parameters").kind ==
		       FSDP_TOKEN_NONE &&
	       fsdp_complete_get_integer(model, adapter, "r", ret_rank) && *ret_rank > 0;
}

/* The dimension of a matrix that is the rank; -1: it is not a matrix of an adapter. */
static int64_t rank_of(const struct model *model, uint32_t index)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	if (tensor.dims < 2 || tensor.numel == 0)
		return -1;
	for (size_t i = 0; i < 4; i++)
		if (find_node(model, index, pairs[i][0]) != FSDP_NONE)
			return tensor.shape[i % 2];
	return -1;
}

/* The second matrix of a convolution in groups has its rank cut among them. */
static bool is_cut(const struct model *model, uint32_t index, uint64_t rank)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	return tensor.dims > 2 && tensor.shape[1] > 0 &&
	       rank % (uint64_t)tensor.shape[1] == 0 &&
	       find_node(model, index, "lora_B") != FSDP_NONE;
}

/* Whether the sides of a matrix are exchanged: what should be the rank is not, and the
 * other side is. */
static bool is_transposed(const struct model *model, uint32_t index, uint64_t rank)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	bool is_first = find_node(model, index, "lora_A") != FSDP_NONE;
	return tensor.dims == 2 && (uint64_t)tensor.shape[is_first] == rank;
}

/* The other matrix of the pair, or FSDP_NONE. */
static uint32_t find_other(const struct model *model, uint32_t index)
{
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++) {
		uint32_t node = find_node(model, index, pairs[i][0]), other;
		if (node == FSDP_NONE)
			continue;
		other = child_of(model, parent_of(model, node), pairs[i][1]);
		return find_tensor(model, node == model->folded[index]
						  ? other
						  : child_of(model, other, "weight"));
	}
	return FSDP_NONE;
}

/* PEFT before 0.3 kept the adapters of a fused projection in one: lora_A has a rank for
 * each of its parts, and lora_B is a convolution. */
static bool is_of_old_peft(const struct model *model)
{
	struct fsdp_token value =
		fsdp_complete_get_value(model, model->adapter, "enable_lora");
	return value.kind == FSDP_TOKEN_LIST && value.count > 0;
}

enum rank_fault { PARTS, TURNED, OTHERS, RANK_FAULTS };

/* A matrix whose rank is `r` and not the configured one. A transposed matrix alone is not
 * enough if the rank of its pair differs too: its lengths may be equal by chance. It is
 * the part of one rank if the other one of its pair has W times its rank. */
static enum rank_fault fault_of(
	const struct model *model, uint32_t index, int64_t r, uint64_t rank)
{
	uint32_t other = find_other(model, index);
	int64_t whole = other != FSDP_NONE ? rank_of(model, other) : -1;
	if (is_transposed(model, index, rank) &&
		(other == FSDP_NONE || whole == (int64_t)rank ||
			is_transposed(model, other, rank)))
		return TURNED;
	return whole > r && whole % r == 0 && whole / r <= RANKS_MOST &&
			       !is_cut(model, index, (uint64_t)whole) &&
			       tensor_at(model, index).dims == 2
		       ? PARTS
		       : OTHERS;
}

static void check_rank(struct model *model)
{
	struct affected faults[RANK_FAULTS] = { 0 };
	const struct affected *parts = &faults[PARTS], *turned = &faults[TURNED],
			      *others = &faults[OTHERS];
	bool are_alike = true;
	char next[160] = "";
	uint64_t rank;
	size_t of = 0, all;
	if (!has_rank(model, &rank))
		return;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		int64_t r = model->folded[i] != FSDP_NONE ? rank_of(model, i) : -1;
		of += r > 0;
		if (r <= 0 || (uint64_t)r == rank || is_cut(model, i, rank))
			continue;
		struct affected *affected = &faults[fault_of(model, i, r, rank)];
		are_alike &= affected->kept.count == 0 || affected->found == r;
		affected->found = r;
		keep_affected(model, affected, i);
	}
	all = parts->kept.count + turned->kept.count + others->kept.count;
	if (all == 0)
		return;
	if (is_of_old_peft(model)) {
		report_affected(model,
			others->kept.count > 0   ? others
			: turned->kept.count > 0 ? turned
						 : parts,
			FSDP_RULE_CONFIG_MISMATCH,
			"load it with a PEFT release before 0.3, and merge it into its base there",
			"the adapter was saved by PEFT before 0.3 (enable_lora): %zu of %zu matrices contain the factors of several fused projections; later releases reject them",
			all, of);
		return;
	}
	if (parts->kept.count > 0)
		report_affected(model, parts, FSDP_RULE_PARTIAL_TENSOR, NULL,
			"%zu of %zu matrices have rank %lld, and the other matrix of each pair has a multiple of it: they are the shards of one rank",
			parts->kept.count, of, (long long)parts->found);
	if (turned->kept.count > 0)
		report_affected(model, turned, FSDP_RULE_CONFIG_MISMATCH,
			"save each of them transposed",
			"%zu of %zu matrices are transposed: config has r = %llu, which is their other side",
			turned->kept.count, of, FSDP_LLU(rank));
	if (others->kept.count == of && are_alike)
		snprintf(next, sizeof next,
			"set r to %lld in adapter_config.json and check lora_alpha, or copy the weights of the run that has r = %llu",
			(long long)others->found, FSDP_LLU(rank));
	if (others->kept.count > 0)
		report_affected(model, others, FSDP_RULE_CONFIG_MISMATCH,
			next[0] != '\0'
				? next
				: "put the adapter_config.json that was saved with these weights in its place: rank_pattern has the ranks of single modules",
			are_alike
				? "config has r = %llu, but %zu of %zu matrices have rank %lld"
				: "config has r = %llu, but %zu of %zu matrices have other ranks, for example %lld",
			FSDP_LLU(rank), others->kept.count, of, (long long)others->found);
}

/* ---- matrices that are none, and names that none has ---- */

/* LoRA may train a bias of its second matrix, too. */
static bool is_matrix(const struct model *model, uint32_t index)
{
	if (model->folded[index] == FSDP_NONE ||
		is_called(model, model->folded[index], "bias"))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++)
		if (find_node(model, index, pairs[i][0]) != FSDP_NONE)
			return true;
	return false;
}

static void check_flat(struct model *model)
{
	struct affected flat = { 0 };
	size_t of = 0;
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i)) {
		if (!is_matrix(model, i))
			continue;
		of++;
		if (tensor.dims != 1 || tensor.numel == 0)
			continue;
		model->reported[i] = 1;
		keep_affected(model, &flat, i);
	}
	if (flat.kept.count > 0)
		report_affected(model, &flat, FSDP_RULE_FLATTENED_PARAMETER,
			"gather the parameters before the adapter is saved",
			"%zu of %zu matrices of the adapter have 1 dimension: flat shards of one rank",
			flat.kept.count, of);
}

#define PREFIX "base_model.model."

/* A tensor that PEFT puts into a module: of any type of adapter. */
static bool is_of_adapter(const struct model *model, uint32_t index)
{
	for (uint32_t name = model->folded[index]; name != 0 && name != FSDP_NONE;
		name = parent_of(model, name))
		if (fsdp_span_is_any(segment_of(model, name),
			    "lora_A lora_B lora_embedding_A lora_embedding_B ia3_l oft_R "
			    "boft_R boft_s"))
			return true;
	return false;
}

/* PEFT looks below its own wrapper, once. */
static void check_prefix(struct model *model)
{
	static const char *const fixes[] = {
		"insert \"model.\" after \"base_model.model.\" in the names, if the base is called so",
		"remove one \"base_model.model.\" from the names",
		"insert \"base_model.model.\" at the start of all names"
	};
	enum { BARE, TWICE, WITHOUT };
	struct affected found[FSDP_COUNT(fixes)] = { 0 };
	bool has_head = fsdp_span_is(
		fsdp_complete_get_text(model, model->adapter, "task_type"), "CAUSAL_LM");
	size_t of = 0;

	if (strncmp(model->family, "peft", 4) != 0)
		return;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		if (!is_of_adapter(model, i))
			continue;
		of++;
		struct fsdp_span name = stored_name(model, i);
		if (!contains(name, PREFIX))
			keep_affected(model, &found[WITHOUT], i);
		else if (fsdp_span_begins(name, FSDP_SPAN(PREFIX PREFIX)))
			keep_affected(model, &found[TWICE], i);
		else if (has_head &&
			 fsdp_span_begins(name, FSDP_SPAN(PREFIX "layers.")) &&
			 fsdp_span_has_any(name, ".self_attn. .mlp."))
			keep_affected(model, &found[BARE], i);
	}
	for (size_t i = 0; i < FSDP_COUNT(fixes) && of > 0; i++)
		if (found[i].kept.count == of)
			report_affected(model, &found[i], FSDP_RULE_WRAPPER_PREFIX,
				fixes[i],
				i == BARE
					? "all %zu names of the adapter go from \"base_model.model.\" straight to \"layers.\": if the base has \"model.layers.\", as models with a head (task_type CAUSAL_LM) do, PEFT ignores them"
				: i == TWICE
					? "all %zu names of the adapter begin with \"base_model.model.\" twice: PEFT ignores them"
					: "no name of the adapter begins with \"base_model.model.\": PEFT ignores all %zu",
				of);
}

enum { WORDS_MOST = 64 };

/* Whether a module's name is this, or ends with a dot and this. */
static bool is_module(const struct model *model, struct fsdp_span word)
{
	for (uint32_t i = 1; i < model->names.list.count; i++) {
		struct fsdp_span rest = word;
		for (uint32_t name = i; rest.size != 0 && name != 0 && name != FSDP_NONE;
			name = parent_of(model, name)) {
			struct fsdp_span last = fsdp_span_last(rest, '.');

			if (!fsdp_span_equal(segment_of(model, name), last))
				break;
			rest.size -= last.size + (rest.size > last.size);
		}
		if (rest.size == 0)
			return true;
	}
	return false;
}

/* The library lists two names for the head of a classifier; a model has one of them. */
static bool is_other_head(const struct model *model, struct fsdp_span word)
{
	return (fsdp_span_is(word, "score") &&
		       is_module(model, FSDP_SPAN("classifier"))) ||
	       (fsdp_span_is(word, "classifier") && is_module(model, FSDP_SPAN("score")));
}

static void check_words(struct model *model, const char *key, enum fsdp_severity severity,
	bool one_is_enough)
{
	uint32_t list = fsdp_complete_get(model, model->adapter, key), end;
	uint32_t matched = 0, looked_at = 0;
	char room[FSDP_SHOWN];
	if (list == FSDP_NONE || setting_at(model, list).value.kind != FSDP_TOKEN_LIST ||
		setting_at(model, list).value.count > WORDS_MOST)
		return;
	end = setting_at(model, list).end;
	for (uint32_t i = list + 1; i < end; i = setting_at(model, i).end, looked_at++)
		matched += is_module(model, setting_at(model, i).value.text);
	if (matched == looked_at || (one_is_enough && matched == 0))
		return;
	for (uint32_t i = list + 1; i < end; i = setting_at(model, i).end) {
		struct fsdp_span word = setting_at(model, i).value.text;
		if (!is_module(model, word) && !is_other_head(model, word))
			fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
				FSDP_PLACE(.file = config_file(model, model->adapter),
					.module = word, .severity = (int)severity + 1),
				"%s lists %s, but no tensor belongs to such a module",
				key, fsdp_shown(word, room));
	}
}

/* Layers that the configuration adapts, without an adapter in the outermost stack. */
static void check_layer(struct model *model, int64_t number)
{
	const struct stack *stack = NULL;
	for (size_t i = 0; i < model->stack_count && stack == NULL; i++)
		if (model->stacks[i].is_deep && !model->stacks[i].is_inner)
			stack = &model->stacks[i];
	if (stack == NULL || model->is_silent)
		return;
	for (uint32_t i = 0; i < stack->element_count; i++)
		if (stack->elements[i].number == number)
			return;
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(model, model->adapter)),
		"layers_to_transform lists layer %lld, but the adapter has no tensor of it",
		(long long)number);
}

static void check_transformed(struct model *model)
{
	uint32_t list = fsdp_complete_get(model, model->adapter, "layers_to_transform");
	if (list == FSDP_NONE || setting_at(model, list).value.count > WORDS_MOST * 16)
		return;
	for (uint32_t i = list; i < setting_at(model, list).end; i++)
		if (setting_at(model, i).value.kind == FSDP_TOKEN_INTEGER)
			check_layer(model, setting_at(model, i).value.integer);
}

/* ---- adapters inside of a model ---- */

/* A tensor below an adapted module that is not an adapter file: names of PEFT, of MLX,
 * and of training loops that keep the weight in its place. */
static bool is_wrapped(const struct model *model, uint32_t index)
{
	uint32_t node = find_node(model, index, "lora_A"), module;
	if (node == FSDP_NONE)
		node = find_node(model, index, "lora_a");
	module = parent_of(model, node);
	return child_of(model, module, "base_layer") != FSDP_NONE ||
	       child_of(model, module, "linear") != FSDP_NONE ||
	       child_of(model, module, "weight") != FSDP_NONE;
}

/* A model that is only loaded does not use them; a resumed training run needs them. */
static void check_unmerged(struct model *model)
{
	bool is_model = strncmp(model->family, "hf", 2) == 0;
	struct affected affected = { 0 };
	int64_t rank = 0;
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i)) {
		if (tensor.dims != 2 || !is_wrapped(model, i))
			continue;
		rank = tensor.shape[tensor.shape[0] >= tensor.shape[1]];
		keep_affected(model, &affected, i);
	}
	if (affected.kept.count == 0)
		return;
	fsdp_find(model->findings, FSDP_RULE_WRAPPER_PREFIX,
		FSDP_PLACE(.tensor = affected.kept.names[0],
			.affected = affected.kept.names,
			.affected_count = affected.kept.count,
			.severity = (is_model ? FSDP_WARNING : FSDP_NOTE) + 1,
			.fix = is_model
				       ? "merge them in the program that trained them (PEFT: model.merge_and_unload()), and save the model again"
				       : ""),
		"LoRA of rank %lld in %zu modules is not merged: a model without LoRA has no such names; lora_alpha, which a merge needs, is %s",
		(long long)rank, affected.kept.count,
		fsdp_complete_get(model, model->adapter, "lora_alpha") != FSDP_NONE
			? "in adapter_config.json"
			: "not stored");
}

/* Pairs that are called as PEFT does and pairs that are called as kohya's scripts do:
 * what reads the ones looks for none of the others. */
static void check_conventions(struct model *model)
{
	struct affected down = { 0 };
	size_t pairs_of_peft = 0;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		pairs_of_peft += find_node(model, i, "lora_A") != FSDP_NONE;
		if (find_node(model, i, "lora_down") != FSDP_NONE)
			keep_affected(model, &down, i);
	}
	if (pairs_of_peft == 0 || down.kept.count == 0)
		return;
	fsdp_find(model->findings, FSDP_RULE_NAME_CONFLICT,
		FSDP_PLACE(.tensor = down.kept.names[0], .affected = down.kept.names,
			.affected_count = down.kept.count,
			.fix = "convert all names to one convention, or save them as two files"),
		"names of two conventions: %zu modules have lora_A (PEFT), %zu have lora_down (kohya): a loader reads one of them",
		pairs_of_peft, down.kept.count);
}

void fsdp_complete_check_adapters(struct model *model)
{
	check_all_pairs(model);
	check_flat(model);
	check_unmerged(model);
	check_conventions(model);
	if (model->adapter == FSDP_NONE)
		return;
	check_prefix(model);
	check_rank(model);
	check_words(model, "target_modules", FSDP_NOTE, true);
	check_words(model, "modules_to_save", FSDP_WARNING, false);
	check_transformed(model);
}
