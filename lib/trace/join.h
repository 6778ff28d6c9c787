/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_JOIN_H
#define FSDP_TRACE_JOIN_H

#include "trace/event.h"
#include "base/arena.h"
#include <fsdp/order.h>
#include <fsdp/trace.h>

/* What the recordings of a run say together. Lives in the arena. */
struct fsdp_joined {
	struct fsdp_arena *arena;
	struct fsdp_recording **by_rank; /* in order of rank, then of paths */
	size_t count;
	const struct fsdp_type_times *types;
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

/*
 * Which traces of several ranks were recorded together. Several of one rank are cycles of
 * its profiler, or a run before and after a change: in order of time, if they have
 * absolute times, else in the order of the paths. The nth of each rank belongs to the nth
 * run; those of a rank that lacks some belong to the runs that are nearest in time.
 *
 * `sorted` is in order of rank, then of paths, and may be put in another order. Sets the
 * run of each, from 0, by its input. Returns the number of runs. Traces of jobs of
 * different numbers of ranks are of different runs, those of the job that began first
 * before others.
 */
size_t fsdp_trace_number_runs(
	struct fsdp_recording **sorted, size_t count, size_t *ret_run_of);

/*
 * What several ranks did at the same time. `recordings` are in order of rank; those of
 * other kinds are skipped. False: out of memory.
 */

/* Sets the collectives of traces against each other; fills wait_ns and times_last of each
 * recording. */
bool fsdp_match_collectives(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_matching *ret_matching);

/* As PyTorch compares the first iteration; and where ranks diverge first in any. */
bool fsdp_match_orders(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_divergence *ret_divergence,
	struct fsdp_first_diff *ret_diff);

#endif
