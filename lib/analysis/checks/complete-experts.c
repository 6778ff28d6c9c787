/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the number of experts with the configuration: modules of a list, slices of a fused tensor, rows of a router.
 */
#include "analysis/checks/complete.h"

enum { DUE_MOST = 64 };

/* Numbers of experts that the configuration names. */
struct due {
	uint64_t numbers[2 * DUE_MOST];
	size_t count;
	const char *key;
};

static const char *key_of(struct fsdp_span key)
{
	static const char *const keys[] = { "num_local_experts", "num_experts",
		"n_routed_experts", "moe_num_experts", "n_experts", "num_moe_experts",
		"ffn_num_experts" };

	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (fsdp_span_is(key, keys[i]))
			return keys[i];
	return NULL;
}

static void read_due(const struct fsdp_complete *complete, struct due *due)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint), end = 0;
	uint64_t zero = 0;
	size_t plain;

	for (uint32_t i = 0; i < count && due->count < DUE_MOST; i++) {
		struct fsdp_setting setting = fsdp_setting(complete->checkpoint, i);
		bool is_positive = setting.value.kind == FSDP_TOKEN_INTEGER &&
				   setting.value.integer > 0 &&
				   setting.value.integer <= UINT32_MAX;

		if (key_of(setting.key) != NULL) {
			due->key = key_of(setting.key);
			end = setting.end;
		}
		if (i < end && is_positive)
			due->numbers[due->count++] = (uint64_t)setting.value.integer;
		if (is_positive && fsdp_span_is(setting.key, "zero_expert_num"))
			zero = (uint64_t)setting.value.integer;
	}
	plain = due->count;
	for (size_t i = 0; i < plain && zero > 0; i++)
		due->numbers[due->count++] = due->numbers[i] + zero;
}

/* The least of the numbers that is more than this; 0: it is one of them, or beyond. */
static uint64_t missing_of(const struct due *due, uint64_t found)
{
	uint64_t least = 0;

	for (size_t i = 0; i < due->count; i++) {
		if (due->numbers[i] == found)
			return 0;
		if (due->numbers[i] > found && (least == 0 || due->numbers[i] < least))
			least = due->numbers[i];
	}
	return least;
}

static struct fsdp_span config_file(const struct fsdp_complete *complete)
{
	uint32_t root = complete->config.root;

	return fsdp_file(
		complete->checkpoint, fsdp_setting(complete->checkpoint, root).file)
		.path;
}

/* ---- experts that are modules ---- */

/* Lists of experts that are too short. */
struct lists {
	struct fsdp_span *affected;
	size_t named, missing, count, of;
	uint64_t found, due;
};

static void name_experts(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, struct lists *lists)
{
	const struct fsdp_complete_element *model = &stack->elements[0];

	for (uint64_t n = stack->length; n < lists->due; n++) {
		struct fsdp_complete_hole hole = { .stack = stack,
			.element = (uint32_t)n };

		if (lists->named + model->count > FSDP_AFFECTED_KEPT)
			break;
		fsdp_complete_mark_gone(complete, &hole);
		for (uint32_t i = 0; i < model->count && !complete->failed; i++)
			lists->affected[lists->named++] = fsdp_complete_named(
				complete, &model->records[i], (uint32_t)n);
	}
	lists->missing += (size_t)(lists->due - stack->length) * model->count;
}

static void judge_modules(struct fsdp_complete *complete, const struct due *due)
{
	struct lists lists = { 0 };

	lists.affected = FSDP_COMPLETE_TAKE(complete, lists.affected, FSDP_AFFECTED_KEPT);
	complete->failed |= lists.affected == NULL;
	for (size_t i = 0; i < complete->stack_count && !complete->failed; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];
		uint64_t missing;

		if (!fsdp_span_is(fsdp_names_segment(&complete->names, stack->name),
			    "experts") ||
			!stack->is_deep)
			continue;
		lists.of++;
		missing = missing_of(due, stack->length);
		if (missing == 0 ||
			fsdp_complete_is_gone(complete, stack, stack->length, 0))
			continue;
		lists.found = stack->length;
		lists.due = missing;
		lists.count++;
		name_experts(complete, stack, &lists);
	}
	if (lists.count == 0 || complete->failed || complete->is_silent)
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(complete), .affected = lists.affected,
			.affected_count = lists.missing > FSDP_AFFECTED_KEPT
						  ? lists.missing
						  : lists.named),
		"config.json has %s = %llu, but %zu of %zu lists of experts have %llu",
		due->key, FSDP_LLU(lists.due), lists.count, lists.of,
		FSDP_LLU(lists.found));
}

/* ---- tensors of all experts ---- */

static uint32_t parent_of(const struct fsdp_complete *complete, uint32_t name)
{
	return fsdp_names_at(&complete->names, name)->parent;
}

static bool is_segment(
	const struct fsdp_complete *complete, uint32_t name, const char *word)
{
	return name != FSDP_NONE &&
	       fsdp_span_is(fsdp_names_segment(&complete->names, name), word);
}

/* Whether the first dimension of a tensor is that of experts. */
static bool is_of_all_experts(const struct fsdp_complete *complete, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint32_t name = complete->folded[index], above;

	if (name == FSDP_NONE || tensor.numel == 0)
		return false;
	above = parent_of(complete, name);
	if (tensor.dims >= 3)
		return is_segment(complete, above, "experts");
	return tensor.dims == 2 && is_segment(complete, name, "weight") &&
	       (is_segment(complete, above, "gate") ||
		       is_segment(complete, above, "router")) &&
	       fsdp_names_find_child(&complete->names, parent_of(complete, above),
		       FSDP_SPAN("experts")) != FSDP_NONE;
}

static void judge_tensor(
	struct fsdp_complete *complete, const struct due *due, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint64_t rows = (uint64_t)tensor.shape[0], all = missing_of(due, rows);

	if (all == 0 || complete->told[index])
		return;
	if (all % rows == 0)
		fsdp_complete_tell(complete, index, FSDP_RULE_PARTIAL_TENSOR, 0,
			"%llu experts are stored, config.json has %s = %llu: 1/%llu of them",
			FSDP_LLU(rows), due->key, FSDP_LLU(all), FSDP_LLU(all / rows));
	else
		fsdp_complete_tell(complete, index, FSDP_RULE_CONFIG_MISMATCH, 0,
			"%llu experts are stored, config.json has %s = %llu",
			FSDP_LLU(rows), due->key, FSDP_LLU(all));
}

/* ---- a router ---- */

/* It has a row per expert, and one more in models with empty experts. */
static uint64_t rows_of_router(
	const struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	static const char *const words[] = { "gate", "router" };
	uint32_t above = parent_of(complete, stack->name);

	for (size_t i = 0; i < FSDP_COUNT(words) && above != FSDP_NONE; i++) {
		uint32_t index = fsdp_complete_find_below(complete,
			fsdp_names_find_child(
				&complete->names, above, fsdp_span_text(words[i])),
			"weight");
		struct fsdp_tensor tensor;

		if (index == FSDP_NONE)
			continue;
		tensor = fsdp_tensor(complete->checkpoint, index);
		if (tensor.dims == 2 && fsdp_complete_is_plain(&tensor))
			return (uint64_t)tensor.shape[0];
	}
	return 0;
}

/* Where the configuration has the number of those that are stored, only the router has more. */
static void judge_routers(struct fsdp_complete *complete, const struct due *due)
{
	const struct fsdp_complete_stack *first = NULL;
	uint64_t rows = 0;
	size_t count = 0;

	if (complete->is_silent || fsdp_complete_config_names(complete, "zero_expert"))
		return;
	for (size_t i = 0; i < complete->stack_count; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];
		uint64_t wanted;

		if (!is_segment(complete, stack->name, "experts") || !stack->is_deep ||
			stack->element_count != stack->length ||
			fsdp_complete_is_gone(complete, stack, stack->length, 0))
			continue;
		wanted = rows_of_router(complete, stack);
		if (wanted <= stack->length ||
			wanted / stack->length > FSDP_COMPLETE_RANKS_MOST ||
			(due->count > 0 && missing_of(due, stack->length) != 0))
			continue;
		if (first == NULL) {
			first = stack;
			rows = wanted;
		}
		count++;
	}
	if (first == NULL)
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.tensor =
				   fsdp_complete_stored(complete, first->records->tensor),
			.fix = "save or convert the model again with all of its experts"),
		"experts %llu to %llu are missing in %zu layers: the router has %llu rows, and %llu experts are stored",
		FSDP_LLU(first->length), FSDP_LLU(rows - 1), count, FSDP_LLU(rows),
		FSDP_LLU(first->length));
}

void fsdp_complete_judge_experts(struct fsdp_complete *complete)
{
	struct due due = { .count = 0 };

	if (complete->config.root == FSDP_NONE)
		return;
	read_due(complete, &due);
	if (due.count > 0)
		judge_modules(complete, &due);
	judge_routers(complete, &due);
	if (due.count == 0)
		return;
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++)
		if (is_of_all_experts(complete, i))
			judge_tensor(complete, &due, i);
}
