/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters without elements: what ZeRO-3 leaves in place of a parameter that lives on
 * other ranks, saved as if it were the parameter.
 */
#include "analysis/checks/checking.h"

/* A zero in another dimension than the first is a model that was built so. */
static bool is_empty(const struct fsdp_tensor *tensor)
{
	return tensor->role == FSDP_ROLE_PARAM && tensor->dims > 0 &&
	       tensor->shape[0] == 0 && tensor->numel == 0;
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint), empty = 0, parameters = 0;

	(void)ret_error;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		parameters += tensor.role == FSDP_ROLE_PARAM;
		empty += is_empty(&tensor);
	}
	if (parameters == 0)
		fsdp_check_skip(checking, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_STATUS_NOT_APPLICABLE, FSDP_REASON_NONE);
	for (uint32_t i = 0; i < count && empty > 0; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span name;

		if (!is_empty(&tensor))
			continue;
		name = fsdp_scratch_name(&checking->name, checkpoint, tensor.name);
		fsdp_find(checking->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1,
				.severity = empty * 2 > parameters ? FSDP_ERROR + 1 : 0),
			"the parameter has no elements; so have %zu of %zu parameters",
			empty, parameters);
	}
	return true;
}

const struct fsdp_check fsdp_check_parameters = {
	FSDP_CHECK_RULES(FSDP_RULE_EMPTY_PARAMETER),
	.run = run,
};
