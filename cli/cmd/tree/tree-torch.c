/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes PyTorch's own form, byte for byte.
 */
#include <string.h>

#include "cmd/tree/tree.h"
#include "session/session.h"

static bool is_marked_by_torch(const struct tree *tree, const struct fsdp_module *module)
{
	struct fsdp_unit unit;

	if (module->unit == FSDP_NONE)
		return false;
	unit = fsdp_unit(tree->run->checkpoint, module->unit);
	return unit.api != NULL && strcmp(unit.api, "fsdp1") == 0;
}

bool tree_as_torch(struct tree *tree)
{
	struct run *run = tree->run;
	int64_t limit = run->select->depth;

	if (!fsdp_has_visits(run->checkpoint))
		return refuse(run, "name one with --plan FILE: fsdp-inspect help plan",
			"--style=torch needs a sharding plan: the checkpoint has no classes");
	if (!selection_is_all(tree->selection))
		return refuse(run, "omit --style=torch",
			"PyTorch's own form shows all modules, so there is nothing to select");
	run_begin(run, STATUS_GOOD);
	for (uint32_t i = 0; i < fsdp_module_count(run->checkpoint); i++) {
		struct fsdp_module module = fsdp_module(run->checkpoint, i);
		if (limit >= 0 && module.depth > (uint64_t)limit)
			continue;
		out_line_begin(run->out, NULL);
		if (module.depth > 0)
			out_line_text(run->out, "%*s", (int)(4 * module.depth), "");
		out_line_name(
			run->out, name_text(&tree->buffers.name, run->checkpoint,
					  fsdp_module_torch_prefix(run->checkpoint, i)));
		out_line_text(run->out, "[");
		if (module.class_name != NULL)
			out_line_name(run->out, text_of(module.class_name));
		out_line_text(run->out,
			is_marked_by_torch(tree, &module) ? "] FULLY SHARDED" : "]");
		out_line_end(run->out);
	}
	return true;
}
