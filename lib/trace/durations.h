/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_DURATIONS_H
#define FSDP_TRACE_DURATIONS_H

#include <fsdp/trace.h>

#include "base/arena.h"

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

/* Whether the next one is more than can be exact. */
static inline bool fsdp_durations_is_full(const struct fsdp_durations *durations)
{
	return durations->histogram == NULL && durations->count >= FSDP_DURATIONS_EXACT;
}

/* False when out of memory. */
bool fsdp_durations_add(struct fsdp_durations *durations, int64_t dur_ns);

/* All of `more` as well. */
bool fsdp_durations_join(
	struct fsdp_durations *durations, const struct fsdp_durations *more);

/* False when out of memory. */
bool fsdp_durations_times(
	const struct fsdp_durations *durations, struct fsdp_times *ret_times);

/* Adds; what does not fit makes *overflow true and stays. */
static inline void fsdp_sum_ns(int64_t *sum, int64_t ns, bool *overflow)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*overflow = true;
}

#endif
