/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no file of a checkpoint states and so cannot be judged: of how many ranks the
 * shards are that PyTorch's HuggingFaceStorageWriter leaves without an index. A rank that
 * had nothing writes none, and the shape of a tensor is only where its pieces end.
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
