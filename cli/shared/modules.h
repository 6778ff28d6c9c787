/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_MODULES_H
#define SHARED_MODULES_H

#include <fsdp/analysis.h>

#include "args/select.h"
#include "shared/tensor-row.h"

/* The objects *unit* and *mesh* of the machine outputs. Their context is a struct
 * row_context. The second mesh has `ranks`. */
extern const struct record unit_record;                    /* struct fsdp_unit */
extern const struct record mesh_record, mesh_ranks_record; /* struct fsdp_mesh */

/* The wrapper of a module; NULL: it is none. */
const char *wrapper_word(unsigned wrapper);

/* For MADE_AT. */
const void *find_mesh(struct subject of, size_t mesh, void *room);

/* "dp_replicate=2 x dp_shard=4", or "2x4" without names, into an open line. */
void mesh_line(struct run *run, uint32_t mesh);

/* Whether it is a wrapper that is not shown: the module in it is, which comes next. */
bool wrapper_is_folded(const struct run *run, uint32_t module);

/*
 * The visits of modules that are shown, in pre-order, each with the index of the one it
 * hangs below: wrappers are folded into the module that they wrap, and unselected
 * ones are omitted.
 */

/* A visit that is shown. Indices are of this list. */
struct shown_visit {
	uint32_t module;
	uint32_t parent; /* FSDP_NONE: none */
	uint32_t depth;
	uint32_t end;     /* after the last one below it */
	uint32_t jump;    /* where the walk continues instead of here, or 0 */
	uint32_t emitted; /* its index in the output, or FSDP_NONE */
	uint32_t marked;  /* the visit that is fully sharded: it or a wrapper around it */
};

struct sums {
	uint64_t parameters, bytes;
	uint64_t
		rank_bytes; /* the most that one rank holds; FSDP_UNKNOWN: not asked for */
};

enum { NOT_SHOWN = -1, CUT_OFF = -2 };

enum mark { MARK_NONE, MARK_SHARDED, MARK_INFERRED, MARK_LIKELY };

/* The caller fills the first three and the name, and all else is zero. No selection: all
 * modules. */
struct module_tree {
	struct run *run;
	struct selection *selection; /* the caller's, and it outlives the tree, or NULL */
	struct {
		bool sharded_only; /* only modules that are, and those above them */
		bool sums;         /* that may be changed */
		bool rank_bytes;
		int64_t depth; /* levels; below 0: all */
	} wanted;

	size_t module_count;
	bool *kept;       /* by module: selected, or something below it is */
	uint32_t *marks;  /* by module: as in struct shown_visit */
	uint32_t *places; /* by module: index of a shown visit, NOT_SHOWN or CUT_OFF */
	struct shown_visit *shown;
	size_t shown_count;
	uint32_t deepest;
	struct sums *sums; /* by shown visit; NULL: neither of them was wanted */
	struct fsdp_inferred_units *likely;
	struct name_buffer *name;
};

/* Chooses the visits and adds up their sizes, in lists of the run. */
void module_tree_choose(struct module_tree *tree);

static inline struct fsdp_module module_at(const struct module_tree *tree, uint32_t index)
{
	return fsdp_module(tree->run->checkpoint, index);
}

/* The mark of a visit that is shown. */
enum mark module_tree_mark(
	const struct module_tree *tree, const struct shown_visit *shown);

/* "FULLY SHARDED", with what makes it a guess; NULL: it has no mark. */
const char *module_mark_text(enum mark mark);

/* The full name of a module, of any visit. */
struct text module_tree_name(
	const struct module_tree *tree, struct name_buffer *buffer, uint32_t module);

/* What is shown of a visit: the sums of those that were folded into it, too. */
struct sums module_tree_sums(const struct module_tree *tree, size_t index);

/*
 * Writes modules and units as a sharding plan (fsdp-inspect-plan(5)), if requested. Only
 * of the input of --units-from: an exported plan contains more than a checkpoint that was
 * opened with it. Before run_begin.
 */
void plan_document_check(struct run *run);

/* After run_begin. */
void plan_document_write(struct run *run, struct row_buffers *buffers);

#endif
