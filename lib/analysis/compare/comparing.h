/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_COMPARE_COMPARING_H
#define FSDP_COMPARE_COMPARING_H

#include <fsdp/compare.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"
#include "naming/mapping.h"
#include "naming/naming.h"

/* What the files that compare share: the tensors of both sides, and the pairs of them. */

/* A tensor of one side, or a name of a list. */
struct fsdp_compared {
	struct fsdp_compare_tensor facts;
	const struct fsdp_mapped *mapped; /* cut or joined of stored ones; or NULL */
	bool paired;
	bool excused; /* the other side has it under another name */
};

struct fsdp_compared_side {
	const struct fsdp_checkpoint *checkpoint; /* NULL: a list */
	struct fsdp_compared *list;               /* in the order of the side */
	size_t count;
	uint32_t *sorted; /* by name, then by index */
	uint32_t *only;   /* neither paired nor excused */
	size_t only_count;
	uint32_t
		*kept; /* per entry of `sorted`: how many before it are not among these */
};

/* Two of one name, and what differs. */
struct fsdp_compared_pair {
	uint32_t sides[2]; /* in the lists */
	uint32_t what;
	uint32_t dim;
	uint8_t hint, hint_side;
	bool compared, zero[2];
	uint64_t parts, part;
	struct fsdp_compare_elements elements;
	struct fsdp_error *failure; /* why its elements were not compared; or NULL */
	bool renamed;
	enum fsdp_compare_why why;
	struct fsdp_span from, to;
};

struct fsdp_compare {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_compared_side sides[2];
	bool names_only, layout;
	struct fsdp_compared_pair *pairs; /* in the order of A */
	size_t *renamed;                  /* those whose names differ, ascending */
	struct fsdp_compare_value *values;
	size_t *failed; /* the first pairs with a failure; SIZE_MAX: `unread` */
	struct fsdp_error *unread; /* why something was not looked at again; or NULL */
	struct fsdp_compare_facts facts;
};

static inline struct fsdp_compared *fsdp_compared_at(
	const struct fsdp_compare *compare, unsigned side, size_t index)
{
	return &compare->sides[side].list[index];
}

/* ---- the steps, in their order ---- */

/* The tensors of both sides under the names that are compared (sides.c). */
bool fsdp_compare_take(struct fsdp_compare *compare,
	const struct fsdp_compare_options *options, struct fsdp_error **ret_error);

/* Pairs of one name, then of names that differ in their first segments (matching.c,
 * prefixes.c). */
bool fsdp_compare_match(struct fsdp_compare *compare, struct fsdp_error **ret_error);
void fsdp_compare_match_prefixes(struct fsdp_compare *compare);

/* Puts pairs in the order of A, and lists what was left over (matching.c). */
void fsdp_compare_list(struct fsdp_compare *compare);

/* Joins two tensors that are not in a pair yet (sides.c). */
struct fsdp_compared_pair *fsdp_compare_join(
	struct fsdp_compare *compare, uint32_t a, uint32_t b);

/* What differs in the descriptions of a pair (describing.c). */
void fsdp_compare_describe(
	const struct fsdp_compare *compare, struct fsdp_compared_pair *pair);

/* ---- the steps of comparing values, in their order ---- */

/* Elements of all pairs (elements-compared.c). */
bool fsdp_compare_elements(struct fsdp_compare *compare,
	const struct fsdp_compare_values_options *options, struct fsdp_error **ret_error);

/* How those that differ came about, and pairs of what was left over (explaining.c). */
bool fsdp_compare_explain(struct fsdp_compare *compare, struct fsdp_error **ret_error);

/* What is not a tensor (entries.c). */
bool fsdp_compare_entries(struct fsdp_compare *compare, struct fsdp_error **ret_error);

/* Counts what the pairs say (compare.c). */
void fsdp_compare_count(struct fsdp_compare *compare);

/* Whether both have the same shape and dtype, and these are known. */
bool fsdp_compare_alike(
	const struct fsdp_compare_tensor *a, const struct fsdp_compare_tensor *b);

#endif
