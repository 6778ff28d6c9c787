/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_JOIN_H
#define FSDP_TRACE_JOIN_H

#include "trace/event.h"

/* What the recordings of a run say together. Lives in the arena. */
struct fsdp_joined {
	struct fsdp_arena *arena;
	struct fsdp_recording **by_rank; /* in order of rank, then of paths */
	size_t count;
	struct fsdp_type_times *types;
	size_t type_count;
	struct fsdp_matching matching;
	struct fsdp_timeline timeline;
	struct fsdp_unit_times *units;
	size_t unit_count;
	struct fsdp_divergence divergence;
	struct fsdp_first_diff diff;
	struct fsdp_findings findings; /* about all of them */
};

/* Orders recordings by rank, then as their paths came. */
void fsdp_trace_sort(struct fsdp_recording **recordings, size_t count);

/* Joins at least one recording that was read; `by_rank` is sorted, and stays the
 * caller's. False: out of memory. */
bool fsdp_trace_join(struct fsdp_recording **by_rank, size_t count,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_joined *ret_joined, struct fsdp_error **ret_error);

/* What a recording is part of. */
const struct fsdp_trace_reading *fsdp_trace_reading_of(
	const struct fsdp_recording *recording);

#endif
