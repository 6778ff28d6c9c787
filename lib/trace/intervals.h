/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_INTERVALS_H
#define FSDP_TRACE_INTERVALS_H

#include "base/arena.h"

/*
 * A union of intervals of time: disjoint ones, 16 bytes each, merged as they come. What
 * comes in order costs nothing but a look at the last; what comes late waits in a heap of
 * its own and is merged when that is large.
 */
struct fsdp_interval {
	int64_t begin, end; /* the end is not inside */
};

struct fsdp_intervals {
	struct fsdp_budget *budget;
	struct fsdp_arena arena; /* of the list, which thus takes what it holds */
	struct fsdp_vec list;    /* struct fsdp_interval: disjoint, by time */
	struct fsdp_interval *late;
	size_t late_count, late_room;
};

static inline struct fsdp_interval *fsdp_interval_at(
	const struct fsdp_intervals *intervals, size_t index)
{
	return fsdp_vec_at(&intervals->list, index);
}

void fsdp_intervals_init(struct fsdp_intervals *intervals, struct fsdp_budget *budget);
void fsdp_intervals_done(struct fsdp_intervals *intervals);

/* False when out of memory. */
bool fsdp_intervals_add(struct fsdp_intervals *intervals, int64_t begin, int64_t end);

/* Nothing is late any more: call it before the two below. */
bool fsdp_intervals_settle(struct fsdp_intervals *intervals);

/* Time covered by it, and by both. */
int64_t fsdp_intervals_length(const struct fsdp_intervals *intervals);
int64_t fsdp_intervals_common(
	const struct fsdp_intervals *a, const struct fsdp_intervals *b);

#endif
