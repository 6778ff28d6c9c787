/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_CYCLES_H
#define FSDP_TRACE_CYCLES_H

#include <fsdp/trace.h>

/*
 * Which traces of several ranks were recorded together. Several of one rank are cycles of
 * its profiler, or a run before and after a change: one after the other in time, if they
 * tell absolute times, else as their paths came. The nth of each rank belongs to the nth
 * run; those of a rank that lacks some belong to the runs that are nearest in time.
 *
 * `sorted` is in order of rank, then of paths, and may be put in another order. Sets the run
 * of each, from 0, by its input. Returns the number of runs. Traces of jobs of different
 * numbers of ranks are of different runs, those of the job that began first before others.
 */
size_t fsdp_trace_number_runs(
	struct fsdp_recording **sorted, size_t count, size_t *ret_run_of);

#endif
