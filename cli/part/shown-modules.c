/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses which visits are shown, and where they hang. Visits come in pre-order with
 * their depth, so everything is a loop over arrays: once up (what is needed), once down
 * (what is shown).
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "part/shown-modules.h"
#include "part/units.h"
#include "run/answer.h"

struct text module_tree_name(
	const struct module_tree *tree, struct name_buffer *buffer, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);
	return name_text(buffer, tree->run->checkpoint,
		tree->run->common->raw ? module.raw_name : module.name);
}

enum mark module_tree_mark(const struct module_tree *tree, const struct shown *shown)
{
	if (shown->marked == FSDP_NONE)
		return tree->likely != NULL &&
				       fsdp_likely_unit(tree->likely, shown->module)
			       ? MARK_LIKELY
			       : MARK_NONE;
	return module_at(tree, shown->marked).unit_inferred ? MARK_INFERRED
							    : MARK_SHARDED;
}

const char *module_mark_text(enum mark mark)
{
	static const char *const texts[] = { NULL, "FULLY SHARDED",
		"FULLY SHARDED (inferred)", "FULLY SHARDED (likely: repeated block)" };

	return texts[mark];
}

/* ---- which visits are shown ---- */

/* A unit may belong to a wrapper (activation checkpointing inside of FSDP): its mark goes
 * to the module that stands for both. */
static bool mark_modules(struct module_tree *tree)
{
	tree->marks = malloc((tree->module_count + 1) * sizeof *tree->marks);
	if (tree->marks == NULL)
		return false;
	for (uint32_t i = 0; i < tree->module_count; i++) {
		struct fsdp_module module = module_at(tree, i);
		tree->marks[i] = module.unit != FSDP_NONE ? i : FSDP_NONE;
		if (module.unit != FSDP_NONE || module.parent == FSDP_NONE ||
			module.parent >= i)
			continue;
		if (wrapper_is_folded(tree->run, module.parent))
			tree->marks[i] = tree->marks[module.parent];
	}
	return true;
}

/* With more than names to go by, a module is selected if one of its own tensors is. */
static bool takes_some_tensor(struct module_tree *tree, const struct fsdp_module *module)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;

	for (uint32_t i = 0; i < module->tensor_count; i++) {
		uint32_t index = fsdp_module_tensor(checkpoint, module, i);
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
		struct text name = tensor_shown_name(tree->run, &tree->name, &tensor);
		if (selection_takes_tensor(
			    tree->selection, checkpoint, index, span_of_text(name)))
			return true;
	}
	return false;
}

static bool is_selected(struct module_tree *tree, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);

	if (tree->wanted.sharded_only && tree->marks[index] == FSDP_NONE)
		return false;
	if (tree->selection == NULL || selection_is_all(tree->selection))
		return true;
	if (!selection_is_by_name(tree->selection))
		return takes_some_tensor(tree, &module);
	return selection_takes_module(tree->selection,
		span_of_text(module_tree_name(tree, &tree->name, index)));
}

/* Upwards: what is selected keeps all that is above it. */
static bool keep_selected(struct module_tree *tree)
{
	bool some = false;

	tree->kept = calloc(tree->module_count + 1, sizeof *tree->kept);
	if (tree->kept == NULL)
		return false;
	for (size_t i = tree->module_count; i-- > 0;) {
		uint32_t parent = module_at(tree, (uint32_t)i).parent;
		if (!tree->kept[i])
			tree->kept[i] = is_selected(tree, (uint32_t)i);
		if (tree->kept[i] && parent != FSDP_NONE && parent < i)
			tree->kept[parent] = true;
		some |= tree->kept[i];
	}
	if (!some)
		memset(tree->kept, 0, tree->module_count * sizeof *tree->kept);
	return true;
}

/* Where a visit hangs, and whether it hangs at all. */
static uint32_t place_module(struct module_tree *tree, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);
	int64_t limit = tree->wanted.depth;
	uint32_t parent = (uint32_t)NOT_SHOWN, depth = 0;
	struct shown *shown;

	if (module.parent != FSDP_NONE && module.parent < index)
		parent = tree->places[module.parent];
	if (!tree->kept[index] || parent == (uint32_t)CUT_OFF)
		return (uint32_t)CUT_OFF;
	if (wrapper_is_folded(tree->run, index))
		return parent;
	if (parent != (uint32_t)NOT_SHOWN)
		depth = tree->shown[parent].depth + 1;
	if (limit >= 0 && depth > (uint64_t)limit)
		return (uint32_t)CUT_OFF;
	shown = &tree->shown[tree->shown_count];
	*shown = (struct shown){ .module = index, .depth = depth, .emitted = FSDP_NONE };
	shown->marked = tree->marks[index];
	shown->parent = parent == (uint32_t)NOT_SHOWN ? FSDP_NONE : parent;
	if (depth > tree->deepest)
		tree->deepest = depth;
	return (uint32_t)tree->shown_count++;
}

static bool choose_shown(struct module_tree *tree)
{
	tree->places = malloc((tree->module_count + 1) * sizeof *tree->places);
	tree->shown = malloc((tree->module_count + 1) * sizeof *tree->shown);
	if (tree->places == NULL || tree->shown == NULL)
		return false;
	for (uint32_t i = 0; i < tree->module_count; i++)
		tree->places[i] = place_module(tree, i);
	for (size_t i = tree->shown_count; i-- > 0;) {
		struct shown *shown = &tree->shown[i];
		if (shown->end == 0)
			shown->end = (uint32_t)i + 1;
		if (shown->parent != FSDP_NONE &&
			tree->shown[shown->parent].end < shown->end)
			tree->shown[shown->parent].end = shown->end;
	}
	return true;
}

/* ---- sizes ---- */

/* The library looks at all visits, shown or not. */
static bool sum_rank_bytes(struct module_tree *tree)
{
	struct fsdp_shares *shares;

	if (!fsdp_shares_new(tree->run->checkpoint, &shares, NULL))
		return false;
	for (size_t i = 0; i < tree->shown_count; i++)
		tree->sums[i].rank_bytes = fsdp_shares_of(shares, tree->shown[i].module);
	fsdp_shares_free(shares);
	return true;
}

static bool sum_sizes(struct module_tree *tree)
{
	if (!tree->wanted.sums && !tree->wanted.rank_bytes)
		return true;
	tree->sums = malloc((tree->shown_count + 1) * sizeof *tree->sums);
	if (tree->sums == NULL)
		return false;
	for (size_t i = 0; i < tree->shown_count; i++) {
		struct fsdp_module module = module_at(tree, tree->shown[i].module);
		tree->sums[i] =
			(struct sums){ module.parameters, module.bytes, FSDP_UNKNOWN };
	}
	return !tree->wanted.rank_bytes || sum_rank_bytes(tree);
}

struct sums module_tree_sums(const struct module_tree *tree, size_t index)
{
	struct fsdp_module module;

	if (tree->sums != NULL)
		return tree->sums[index];
	module = module_at(tree, tree->shown[index].module);
	return (struct sums){ module.parameters, module.bytes, FSDP_UNKNOWN };
}

/* ---- both ---- */

bool module_tree_choose(struct module_tree *tree)
{
	struct fsdp_plan_facts plan;

	tree->module_count = fsdp_module_count(tree->run->checkpoint);
	/* A plan knows all units. */
	if (!fsdp_checkpoint_plan(tree->run->checkpoint, &plan) &&
		!fsdp_likely_new(tree->run->checkpoint, &tree->likely, NULL))
		return false;
	return mark_modules(tree) && keep_selected(tree) && choose_shown(tree) &&
	       sum_sizes(tree) && !tree->name.failed;
}

void module_tree_done(struct module_tree *tree)
{
	free(tree->kept);
	free(tree->marks);
	free(tree->places);
	free(tree->shown);
	free(tree->sums);
	fsdp_likely_free(tree->likely);
	name_buffer_done(&tree->name);
}
