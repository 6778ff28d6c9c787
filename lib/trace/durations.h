/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_DURATIONS_H
#define FSDP_TRACE_DURATIONS_H

#include <fsdp/trace.h>

#include "base/arena.h"
#include "base/names.h"

/*
 * The durations of one type: sums, extremes, percentiles by nearest rank. The first
 * million are kept (8 bytes each) and are exact; from then on there is
 * a histogram whose cells are less than one per cent wide.
 */
enum { FSDP_DURATIONS_EXACT = 1000000 };

struct fsdp_durations {
	struct fsdp_arena arena; /* of the values: given back when they are too many */
	struct fsdp_budget *budget;
	struct fsdp_vec values; /* int64_t */
	uint64_t *histogram;    /* NULL: exact */
	uint64_t count;
	int64_t sum_ns, min_ns, max_ns;
	bool overflow; /* the sum does not fit: absent */
};

void fsdp_durations_init(struct fsdp_durations *durations, struct fsdp_budget *budget);
void fsdp_durations_done(struct fsdp_durations *durations);

/* To another place; `from` is empty then. */
void fsdp_durations_move(struct fsdp_durations *to, struct fsdp_durations *from);

/* False when out of memory. */
bool fsdp_durations_add(struct fsdp_durations *durations, int64_t dur_ns);

/* All of `more` as well. */
bool fsdp_durations_join(
	struct fsdp_durations *durations, const struct fsdp_durations *more);

/* False when out of memory. */
bool fsdp_durations_times(
	const struct fsdp_durations *durations, struct fsdp_times *ret_times);

/* Durations by type, in order of first use. */
struct fsdp_typed {
	struct fsdp_span name; /* borrowed */
	struct fsdp_durations durations;
};
struct fsdp_types {
	struct fsdp_names names; /* the id of a type, less one, is its index */
	struct fsdp_vec list;    /* struct fsdp_typed */
};
bool fsdp_types_init(struct fsdp_types *types, struct fsdp_arena *arena);
void fsdp_types_done(struct fsdp_types *types);

/* The index of a type, which may be new; FSDP_NONE when out of memory. */
uint32_t fsdp_types_find(struct fsdp_types *types, struct fsdp_span name);

static inline struct fsdp_typed *fsdp_types_at(
	const struct fsdp_types *types, size_t index)
{
	return fsdp_vec_at(&types->list, index);
}

/* Adds; what does not fit makes *overflow true and stays. */
static inline void fsdp_sum_ns(int64_t *sum, int64_t ns, bool *overflow)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*overflow = true;
}

/*
 * Sums by a row and a column, which is mostly a step. Events of one column mostly follow
 * each other, so a row looks at its last sum only; equal columns that are apart are added
 * up at the end.
 */
struct fsdp_time_sums {
	struct fsdp_vec list; /* struct fsdp_sum */
	struct fsdp_vec last; /* uint32_t: by row its last in the list, from 1 */
	bool overflow;        /* a sum does not fit */
};

void fsdp_time_sums_init(struct fsdp_time_sums *sums, struct fsdp_arena *arena);

/* One event. All that return bool are false when out of memory. */
bool fsdp_time_sums_add(struct fsdp_time_sums *sums, uint32_t row, int64_t column,
	int64_t ns, int64_t exposed_ns);

/* The sums of each row by column, in the arena: those of a row go to ret_lists of its
 * place, which several rows may share; a place of UINT32_MAX is skipped. places NULL:
 * its own. */
bool fsdp_time_sums_list(struct fsdp_time_sums *sums, const uint32_t *places,
	struct fsdp_arena *arena, struct fsdp_step_list *ret_lists);

#endif
