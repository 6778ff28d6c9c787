/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_TIMES_H
#define FSDP_TRACE_KINETO_TIMES_H

#include "trace/kineto-steps.h"

/*
 * How long calls of each type took, in all and in each step.
 *
 * As long as the calls of a type are kept one by one (durations.h) they are put into steps
 * at the end. Beyond that each is put into its step as it comes, after it has waited in a
 * row, for a step may be written behind its calls. If even that was too early, or if calls
 * of chosen steps were not kept, the trace is read a second time, in which all steps are
 * known.
 */
struct fsdp_kineto_times {
	struct fsdp_durations durations[FSDP_TIME_COUNT];
	struct fsdp_kineto_steps steps;
	struct fsdp_kineto_call {
		int64_t ts_ns, dur_ns;
		enum fsdp_time_type type;
	} * waiting; /* a ring; waiting_at is the place of the next */
	size_t waiting_count, waiting_at;
	int64_t settled_ns; /* the latest begin of a call that waits no longer */
	bool late;          /* a step came that begins before that */
	bool thinned[FSDP_TIME_COUNT]; /* only calls in chosen steps are kept */

	/* set at the end of the first pass */
	bool over[FSDP_TIME_COUNT]; /* its calls are counted in the second pass, if any */
	bool again; /* then durations in chosen steps are, not only sums of steps */
};

/* Steps and their sums lie in the arena. */
void fsdp_kineto_times_init(struct fsdp_kineto_times *times, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options);
void fsdp_kineto_times_done(struct fsdp_kineto_times *times);

/* All below are false when out of memory. */
bool fsdp_kineto_times_add(struct fsdp_kineto_times *times, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns);
bool fsdp_kineto_times_add_step(
	struct fsdp_kineto_times *times, int64_t number, int64_t ts_ns, int64_t dur_ns);

/* At the end of the first pass. `can`: there may be a second one, which is needed if
 * *ret_again. */
bool fsdp_kineto_times_end_pass(
	struct fsdp_kineto_times *times, bool can, bool *ret_again);
/* In the second pass, instead of the two above. */
bool fsdp_kineto_times_add_again(struct fsdp_kineto_times *times,
	enum fsdp_time_type type, int64_t ts_ns, int64_t dur_ns);

/* After the last pass, when all steps are known. With --steps the call must lie in a chosen
 * one. */
bool fsdp_kineto_times_add_settled(struct fsdp_kineto_times *times,
	enum fsdp_time_type type, int64_t ts_ns, int64_t dur_ns);

/* Then: fills the steps, and with --steps leaves nothing but the chosen ones and what lies
 * in them. Their times are added to `chosen`. */
bool fsdp_kineto_times_settle(
	struct fsdp_kineto_times *times, struct fsdp_intervals *chosen);

#endif
