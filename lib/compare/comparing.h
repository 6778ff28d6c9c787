/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_COMPARE_COMPARING_H
#define FSDP_COMPARE_COMPARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <fsdp/compare.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"
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
	enum fsdp_rename_reason why;
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

/* Puts pairs in the order of A, and lists what was left over (compare.c). */
void fsdp_compare_list(struct fsdp_compare *compare);

/* Joins two tensors that are not in a pair yet (compare.c). */
struct fsdp_compared_pair *fsdp_compare_join(
	struct fsdp_compare *compare, uint32_t a, uint32_t b);

/* What differs in the descriptions of a pair (compare.c). */
void fsdp_compare_describe(
	const struct fsdp_compare *compare, struct fsdp_compared_pair *pair);

/* ---- the steps of comparing values, in their order ---- */

/* Elements of all pairs (elements-compared.c). */
bool fsdp_compare_elements(struct fsdp_compare *compare,
	const struct fsdp_compare_values_options *options, struct fsdp_error **ret_error);

/* How those that differ came about, and pairs of what was left over (probable-cause.c).
 */
bool fsdp_compare_explain(struct fsdp_compare *compare, struct fsdp_error **ret_error);

/* Whether both have the same shape and dtype, and these are known. */
bool fsdp_compare_alike(
	const struct fsdp_compare_tensor *a, const struct fsdp_compare_tensor *b);

/*
 * How far the numbers of two runs are apart. Sums are made of sixteen partial ones that
 * the place of a number in its run decides, so that equal runs give equal digits however
 * they are cut. Equal numbers, and two that are not numbers, are not apart; what is
 * finite on one side only, and two different infinities, are apart without end.
 */
enum { FSDP_APART_LANES = 16 };

struct fsdp_apart {
	double sums[FSDP_APART_LANES]; /* of |a - b|, where both are finite */
	double most[FSDP_APART_LANES]; /* the largest |a - b|, in one of them */
	double max_rel;                /* the largest |a - b| / |b| */
};

/* All zero is a beginning. `first` is the place of the first number in the run. */
void fsdp_apart_add(struct fsdp_apart *apart, const double *a, const double *b,
	size_t count, uint64_t first);

/* The same for numbers that single precision holds, in their stored form: 32 bits,
 * bfloat16 and float16. */
enum fsdp_apart_kind { FSDP_APART_FLOATS, FSDP_APART_BRAINS, FSDP_APART_HALVES };
void fsdp_apart_add_singles(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t count, uint64_t first);

static inline double fsdp_apart_max(const struct fsdp_apart *apart)
{
	double most = 0;

	for (size_t k = 0; k < FSDP_APART_LANES; k++)
		if (apart->most[k] > most)
			most = apart->most[k];
	return most;
}

double fsdp_apart_sum(const struct fsdp_apart *apart);

/*
 * Spots elements that differ in two runs of as many elements, which come bit by bit. Runs
 * of the same bytes are passed at the speed of memory; others are looked at as numbers.
 */
struct fsdp_spotted {
	uint64_t differing;
	uint64_t first;   /* the first of these; FSDP_UNKNOWN: none */
	bool has_numbers; /* of both dtypes */
	double max_abs, max_rel, sum_abs;
	uint64_t rounded; /* equal only once one of both was rounded */
	bool zero[2];
};

struct fsdp_spotting;

/* NULL: out of memory. */
struct fsdp_spotting *fsdp_spotting_new(void);
void fsdp_spotting_free(struct fsdp_spotting *spotting);

/* A run, whose first element is `first`. Equal dtypes are compared by their bits unless
 * `tolerant`, others as numbers, the wider rounded to the narrower. */
void fsdp_spotting_begin(struct fsdp_spotting *spotting, const uint32_t dtypes[2],
	uint64_t first, bool tolerant, double absolute, double relative);

/* The next elements of it. */
void fsdp_spot(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count);

struct fsdp_spotted fsdp_spotting_end(const struct fsdp_spotting *spotting);

#endif
