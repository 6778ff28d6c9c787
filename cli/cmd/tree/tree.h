/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREE_H
#define TREE_H

#include <fsdp/analysis.h>

#include "part/fold.h"
#include "part/mixer.h"
#include "part/tensor-row.h"

/*
 * What `tree` shows: visits of modules in pre-order, each with the index of the one it
 * hangs below. tree-shown.c chooses them, tree-fold.c joins siblings, tree-rows.c
 * describes each, tree-torch.c writes PyTorch's own form.
 */
struct tree_options {
	bool sizes, fold, no_fold, full, sharded_only, params;
	const char *style, *units_from;
};

/* A visit that is shown. Indices are of this list. */
struct shown {
	uint32_t module;
	uint32_t parent; /* FSDP_NONE: none */
	uint32_t depth;
	uint32_t end;     /* behind the last one below it */
	uint32_t jump;    /* where the walk goes on instead of here, or 0 */
	uint32_t emitted; /* its index in the output, or FSDP_NONE */
	uint32_t marked;  /* the visit that is fully sharded: it or a wrapper around it */
};

struct sums {
	uint64_t parameters, bytes, rank_bytes;
};

struct tree {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct tree_options *options;
	struct selection *selection;
	size_t module_count;

	bool *kept;       /* by module: selected, or something below it is */
	uint32_t *marks;  /* by module: as in struct shown */
	uint32_t *places; /* by module: index of a shown visit, NOT_SHOWN or CUT_OFF */
	struct shown *shown;
	size_t shown_count;
	uint32_t deepest;
	struct sums *sums; /* by shown visit; only for --sizes and --fold */
	uint64_t *hashes;  /* by shown visit; only for --fold */
	struct mixer mixer;
	size_t *name_sizes; /* by depth: how much of a shown name is the ancestor's; --fold */

	struct row_buffers buffers;
	struct join join;
	bool summed; /* what was folded away is in the sums of its representative */
	struct fsdp_likely *likely;
	bool folding;      /* the rows that are emitted now are joined … */
	bool numbers_only; /* … where they differ in a number, not in a word */
	bool inferred_units, inferred_classes;
};

enum { NOT_SHOWN = -1, CUT_OFF = -2 };

enum mark { MARK_NONE, MARK_SHARDED, MARK_INFERRED, MARK_LIKELY };

/* The mark of a visit that is shown. */
enum mark tree_mark(const struct tree *tree, const struct shown *shown);

static inline struct fsdp_module module_at(const struct tree *tree, uint32_t index)
{
	return fsdp_module(tree->run->checkpoint, index);
}

/* Its whole name. */
struct text tree_name(
	const struct tree *tree, struct name_buffer *buffer, uint32_t module);

/* Chooses the visits and adds up their sizes. may_fold: some walk will join siblings.
 * False: out of memory. */
bool tree_choose(struct tree *tree, bool may_fold);

/* What is shown of a visit: the sums of those that were folded into it, too. */
struct sums tree_sums(const struct tree *tree, size_t index);

/* Makes ready to fold. False: out of memory. */
bool tree_fold_begin(struct tree *tree);

/* Joins the siblings behind a visit that are like it; the walk will jump over them. */
void tree_fold(struct tree *tree, uint32_t first);

/* The name under which a visit is shown, which is made of joined segments when they are
 * folded; and what of it stands behind the parent's, or all of it if that is nothing. */
struct text tree_shown_name(struct tree *tree, size_t index, struct text *ret_leaf);

/* Emits all rows. params: with each module's own parameters, which only people see. */
extern const struct record module_record, tree_record;
/* Of what stands in front of the modules with --sizes. */
extern const char *const tree_heads[];
void tree_walk(struct tree *tree, struct record_table *table, bool params);

/* Emits them with their tensors as weighed parts. */
void tree_weigh(struct tree *tree);

/* False: out of memory. */
bool tree_as_torch(struct tree *tree);

#endif
