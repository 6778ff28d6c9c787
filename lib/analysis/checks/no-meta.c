/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sharded save of Lightning's Trainer whose last file is not there: rank 0 writes
 * meta.pt when the states are. ModelParallelStrategy keeps the module below `state_dict`
 * and each optimizer below `optimizer_N`. FSDPStrategy has `model` instead, as programs of
 * other people may: that proves nothing.
 *
 * Origin: lightning/pytorch/strategies/model_parallel.py (2.6).
 */
#include <string.h>

#include "analysis/checks/checking.h"

struct parts {
	bool has_module, has_optimizer, has_other;
};

static bool is_optimizer(struct fsdp_span text)
{
	return fsdp_span_behind(text, "optimizer_", &text) && text.size > 0 &&
	       fsdp_is_digit(text.data[0]);
}

static void look(struct fsdp_checking *checking, uint32_t index, struct parts *parts)
{
	struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, index);
	struct fsdp_span raw =
		fsdp_scratch_name(&checking->name, checking->checkpoint, tensor.raw_name);
	struct fsdp_path_part part;
	uint64_t state = 0;

	if (tensor.path == FSDP_NONE ||
		!fsdp_path_next(checking->checkpoint, tensor.path, raw, &state, &part))
		parts->has_other = true;
	else if (fsdp_span_is(part.text, "state_dict"))
		parts->has_module = true;
	else if (is_optimizer(part.text))
		parts->has_optimizer = true;
	else
		parts->has_other = true;
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const char *family = fsdp_checkpoint_format(checking->checkpoint).family;
	struct parts parts = { 0 };

	(void)ret_error;
	if (family == NULL || strcmp(family, "dcp") != 0)
		return true;
	for (uint32_t i = 0; i < fsdp_tensor_count(checking->checkpoint); i++) {
		look(checking, i, &parts);
		if (parts.has_other)
			return true;
	}
	if (parts.has_optimizer && parts.has_module)
		fsdp_find(checking->findings, FSDP_RULE_UNCOMMITTED_SAVE,
			FSDP_PLACE(.file = FSDP_SPAN("meta.pt")),
			"meta.pt, which Lightning writes last, is missing");
	return true;
}

const struct fsdp_check fsdp_check_no_meta = {
	FSDP_CHECK_RULES(FSDP_RULE_UNCOMMITTED_SAVE),
	.run = run,
};
