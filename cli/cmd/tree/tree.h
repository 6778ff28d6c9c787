/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREE_H
#define TREE_H

#include "part/modules.h"
#include "part/shown-names.h"
#include "part/tensor-row.h"

/*
 * What `tree` shows: the visits that part/modules.c chooses. tree-fold.c joins
 * siblings, tree-rows.c describes each, tree-torch.c writes PyTorch's own form.
 */
struct tree_options {
	bool sizes, fold, no_fold, full, sharded_only, params;
	const char *style, *units_from;
};

struct tree {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct tree_options *options;
	struct selection *selection;
	struct module_tree modules;
	uint64_t *hashes; /* by shown visit; only for --fold */
	struct mixer mixer;
	size_t *name_sizes; /* by depth: how much of a shown name is the ancestor's; --fold */

	struct row_buffers buffers;
	struct join join;
	bool summed;       /* what was folded away is in the sums of its representative */
	bool folding;      /* the rows that are emitted now are joined … */
	bool numbers_only; /* … where they differ in a number, not in a word */
	bool inferred_units, inferred_classes;
};

/* Makes ready to fold. False: out of memory. */
bool tree_fold_begin(struct tree *tree);

/* Folds equal siblings that follow a visit; the walk skips them. */
void tree_fold(struct tree *tree, uint32_t first);

/* The name of a shown visit, made of joined segments when they are folded; and the part after the parent's name, or
 * all of it if that is empty. */
struct text tree_shown_name(struct tree *tree, size_t index, struct text *ret_leaf);

/* Emits all rows. params: with each module's own parameters, which only people see. */
extern const struct record module_record, tree_record;
/* Columns before the modules with --sizes. */
extern const char *const tree_heads[];
void tree_walk(struct tree *tree, struct record_table *table, bool params);

/* Emits them with their tensors as weighed parts. */
void tree_weigh(struct tree *tree);

/* False: out of memory. */
bool tree_as_torch(struct tree *tree);

#endif
