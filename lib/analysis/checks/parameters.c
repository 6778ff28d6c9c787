/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters without elements: what ZeRO-3 leaves in place of a parameter that lives on
 * other ranks, saved as if it were the parameter.
 */
#include "analysis/checks/checking.h"

/* A zero in another dimension than the first is a model that was built so. */
static bool is_empty(const struct fsdp_tensor *tensor)
{
	uint32_t not_whole = FSDP_TENSOR_FLATTENED | FSDP_TENSOR_RANKS_OWN |
			     FSDP_TENSOR_SHAPE_INFERRED;

	return tensor->role == FSDP_ROLE_PARAM && tensor->dims > 0 &&
	       tensor->shape[0] == 0 && tensor->numel == 0 &&
	       (tensor->flags & not_whole) == 0;
}

/* AdaLoRA may leave a module no rank at all: its matrices are parameters themselves, and
 * keep their other size. */
static bool is_without_rank(const struct fsdp_tensor *tensor, struct fsdp_span name)
{
	struct fsdp_span last = fsdp_span_last(name, '.');

	return tensor->dims == 2 && tensor->shape[1] > 0 &&
	       (fsdp_span_is(last, "lora_A") || fsdp_span_is(last, "lora_E"));
}

/* Whether the name is that of a parameter. One empty tensor among others may be no more
 * than that, if only a guess makes it a parameter. */
static bool is_named_parameter(const struct fsdp_tensor *tensor, struct fsdp_span name)
{
	struct fsdp_span last = fsdp_span_last(name, '.');

	if (fsdp_span_is(last, "_extra_state"))
		return false;
	return (tensor->flags & FSDP_TENSOR_ROLE_INFERRED) == 0 ||
	       fsdp_span_is(last, "weight") || fsdp_span_is(last, "bias") ||
	       fsdp_span_begins(last, FSDP_SPAN("lora_")) ||
	       fsdp_span_ends(last, FSDP_SPAN("_proj")) ||
	       fsdp_span_ends(last, FSDP_SPAN("_embedding"));
}

static struct fsdp_span name_of(
	struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	return fsdp_scratch_name(&checking->name, checking->checkpoint, tensor->name);
}

static bool is_left_empty(
	struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	return is_empty(tensor) && !is_without_rank(tensor, name_of(checking, tensor));
}

static void judge(struct fsdp_checking *checking, const struct fsdp_tensor *tensor,
	size_t empty, size_t parameters)
{
	struct fsdp_span name = name_of(checking, tensor);
	bool are_most = empty * 2 > parameters;

	if (are_most || is_named_parameter(tensor, name))
		fsdp_find(checking->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1,
				.severity = are_most ? FSDP_ERROR + 1 : 0),
			"the parameter has no elements; so have %zu of %zu parameter%s",
			empty, parameters, parameters == 1 ? "" : "s");
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint), empty = 0, parameters = 0;

	(void)ret_error;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		parameters += tensor.role == FSDP_ROLE_PARAM;
		empty += is_left_empty(checking, &tensor);
	}
	if (parameters == 0)
		fsdp_check_skip(checking, FSDP_RULE_EMPTY_PARAMETER, FSDP_REASON_NONE);
	for (uint32_t i = 0; i < count && empty > 0; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		if (is_left_empty(checking, &tensor))
			judge(checking, &tensor, empty, parameters);
	}
	return true;
}

const struct fsdp_check fsdp_check_parameters = {
	FSDP_CHECK_RULES(FSDP_RULE_EMPTY_PARAMETER),
	.run = run,
};
