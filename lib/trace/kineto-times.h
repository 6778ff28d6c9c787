/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_TIMES_H
#define FSDP_TRACE_KINETO_TIMES_H

#include "trace/kineto-calls.h"

/*
 * How long calls of each type took, in all and in each step.
 *
 * Work of a device belongs to the step in which the host launched it, which its correlation
 * tells; the device runs it later, maybe in the next step. All else belongs to the step in
 * which it begins. A step or a launch may be written behind what belongs to it, so calls
 * wait in a row before they are put into steps. If a step comes even later, the trace is
 * read a second time, in which all steps are known. With --steps nothing but calls in the
 * chosen ones is kept.
 */
struct fsdp_kineto_call {
	int64_t ts_ns;
	int64_t correlation; /* FSDP_ABSENT: it was not launched */
	/* how long, which type, whether it is work of a device, whether it waited once;
	 * a week of nanoseconds has 50 bits */
	uint64_t dur_ns : 54, type : 8, device : 1, again : 1;
	uint32_t kernel; /* its row, see kineto-kernels.h */
};

static inline struct fsdp_kineto_call fsdp_kineto_call(int64_t ts_ns, int64_t dur_ns,
	enum fsdp_time_type type, bool device, int64_t correlation)
{
	return (struct fsdp_kineto_call){ ts_ns, correlation,
		(uint64_t)dur_ns & ((UINT64_C(1) << 54) - 1), (unsigned)type & 0xff,
		device, false, 0 };
}

/* A launch that waits, and how many calls had come before. */
struct fsdp_kineto_waiting_launch {
	int64_t correlation, ts_ns;
	uint64_t place : 63, is_launch : 1;
};

struct fsdp_kineto_times {
	struct fsdp_durations durations[FSDP_TIME_COUNT];
	struct fsdp_kineto_steps steps;
	struct fsdp_kineto_calls calls;
	struct fsdp_kineto_call *waiting; /* a ring */
	uint64_t waiting_from, waiting_to;
	struct fsdp_kineto_waiting_launch *launches; /* another */
	uint64_t launches_from, launches_to;
	int64_t settled_ns; /* the latest moment that was looked up among steps */
	bool late;          /* a step came that begins before that */
	bool again;         /* this is the second pass, because of that */
	uint64_t by_start;  /* work of the device whose launch is not known */

	/* With --steps, of each work of the device in a chosen one, when that is known.
	 * False: out of memory. */
	bool (*choose)(void *context, const struct fsdp_kineto_call *call);
	/* Unless NULL, the same of all that are chosen, and of all without --steps, with
	 * the moment that tells the step. */
	bool (*place)(
		void *context, const struct fsdp_kineto_call *call, int64_t moment_ns);
	void *context;
};

/* Steps and their sums lie in the arena. */
void fsdp_kineto_times_init(struct fsdp_kineto_times *times, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options);
void fsdp_kineto_times_done(struct fsdp_kineto_times *times);

/* All below are false when out of memory. */

/* In each pass. */
bool fsdp_kineto_times_add(
	struct fsdp_kineto_times *times, const struct fsdp_kineto_call *call);
bool fsdp_kineto_times_launch(
	struct fsdp_kineto_times *times, const struct fsdp_kineto_issued *issued);
/* In the first one. */
bool fsdp_kineto_times_add_step(
	struct fsdp_kineto_times *times, int64_t number, int64_t ts_ns, int64_t dur_ns);

/* At the end of each pass. After the first one, `can` there be a second one? It is needed
 * if `again` is set then, and begins with nothing but the steps. */
bool fsdp_kineto_times_end_pass(struct fsdp_kineto_times *times, bool can);

/* After the last pass: a moment in the step of a call. */
int64_t fsdp_kineto_times_moment(
	struct fsdp_kineto_times *times, int64_t correlation, int64_t ts_ns);

/* Puts a call into the step of a moment, and with --steps only if that is chosen. */
bool fsdp_kineto_times_put(struct fsdp_kineto_times *times, int64_t moment_ns,
	const struct fsdp_kineto_call *call);

#endif
