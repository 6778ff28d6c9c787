/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emits the modules that are shown, and their parameters, as parts with weights: bytes.
 */
#include "cmd/tree/tree.h"
#include "session/session.h"

/* What is in a tensor; a further name of one is in it already. */
static uint64_t weight_of(const struct fsdp_tensor *tensor)
{
	return tensor->alias == FSDP_NONE ? tensor->bytes : 0;
}

static bool is_shown(const struct fsdp_tensor *tensor)
{
	return tensor->role == FSDP_ROLE_PARAM || tensor->role == FSDP_ROLE_BUFFER;
}

/* Whether tensors are below the module, or -d cuts them off. */
static bool shows_tensors(const struct tree *tree, const struct shown_visit *shown)
{
	int64_t limit = tree->run->select->depth;

	return limit < 0 || shown->depth < (uint64_t)limit;
}

/* Of a module: bytes that none of its children has. */
static uint64_t own_weight(const struct tree *tree, size_t index, uint64_t total)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct fsdp_module module = module_at(&tree->modules, shown->module);
	uint64_t below = 0;

	for (size_t i = index + 1; i < shown->end; i = tree->modules.shown[i].end)
		below += module_tree_sums(&tree->modules, i).bytes;
	for (uint32_t i = 0; shows_tensors(tree, shown) && i < module.tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint, fsdp_module_tensor(checkpoint, &module, i));
		below += tensor.role == FSDP_ROLE_PARAM ? tensor.bytes : 0;
	}
	return total > below ? total - below : 0;
}

static void emit_tensors(struct tree *tree, const struct shown_visit *shown)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	struct fsdp_module module = module_at(&tree->modules, shown->module);

	for (uint32_t i = 0; shows_tensors(tree, shown) && i < module.tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint, fsdp_module_tensor(checkpoint, &module, i));
		struct weighed part = { .depth = shown->depth + 1,
			.own = weight_of(&tensor),
			.total = weight_of(&tensor),
			.is_leaf = true };

		if (!is_shown(&tensor))
			continue;
		part.name = text_last(
			tensor_shown_name(tree->run, &tree->buffers.name, &tensor), '.');
		out_weighed(tree->run->out, &part);
	}
}

void tree_weigh(struct tree *tree)
{
	for (size_t i = 0; i < tree->modules.shown_count; i++) {
		const struct shown_visit *shown = &tree->modules.shown[i];
		struct weighed part = { .depth = shown->depth,
			.total = module_tree_sums(&tree->modules, i).bytes };

		part.own = own_weight(tree, i, part.total);
		(void)tree_shown_name(tree, i, &part.name);
		out_weighed(tree->run->out, &part);
		emit_tensors(tree, shown);
	}
}
