/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports facts that no file states and that therefore cannot be checked: the world size of shards that PyTorch's
 * HuggingFaceStorageWriter leaves without an index. A rank without data writes no shard, and the shape of a tensor is
 * only the end of its pieces.
 */
#include <string.h>

#include "analysis/checks/checking.h"

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const char *family = fsdp_checkpoint_format(checking->checkpoint).family;
	struct fsdp_plan_facts plan;

	(void)ret_error;
	if (family != NULL && strcmp(family, "dcp-safetensors") == 0 &&
		!fsdp_checkpoint_plan(checking->checkpoint, &plan))
		fsdp_check_skip(checking, FSDP_RULE_RANK_MISSING, FSDP_REASON_NEEDS_PLAN);
	return true;
}

const struct fsdp_check fsdp_check_unstated = {
	FSDP_CHECK_RULES(FSDP_RULE_RANK_MISSING),
	.run = run,
};
