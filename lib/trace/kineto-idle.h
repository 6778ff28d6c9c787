/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_IDLE_H
#define FSDP_TRACE_KINETO_IDLE_H

#include <fsdp/trace.h>

#include "trace/kineto-busy.h"
#include "trace/kineto-steps.h"

/*
 * Why the device was idle. A gap ends with what the device does next; the host launched
 * that by a call with the same correlation, and what the thread of this call did from the
 * begin of the gap to the call is why the launch was late.
 *
 * Kept are 24 bytes for each work of the device and 32 for each launch, and of the host
 * the calls that can make it late and when operators ran on each thread.
 */
struct fsdp_kineto_idle {
	bool wanted; /* else nothing is kept */
	struct fsdp_budget *budget;
	struct fsdp_arena arena;
	struct fsdp_vec works;    /* struct fsdp_kineto_work */
	struct fsdp_vec launches; /* struct fsdp_kineto_issuing */
	struct fsdp_vec calls;    /* struct fsdp_kineto_host_call */
	struct fsdp_vec threads;  /* struct fsdp_intervals: of operators and launches */
};

struct fsdp_kineto_work {
	int64_t begin_ns, end_ns, correlation; /* FSDP_ABSENT: it is not known */
	uint32_t kernel;                       /* its row, see kineto-kernels.h */
};

/* A call that launched something. */
struct fsdp_kineto_issuing {
	int64_t correlation, begin_ns, end_ns;
	uint32_t thread : 31, is_launch : 1; /* "Launch" is in its name */
};

/* What a thread was in that tells why it launches nothing. */
struct fsdp_kineto_host_call {
	int64_t begin_ns, end_ns;
	uint32_t thread;
	enum fsdp_idle_cause cause;
};

/* All that return bool are false when out of memory. */
void fsdp_kineto_idle_init(
	struct fsdp_kineto_idle *idle, struct fsdp_budget *budget, bool wanted);
void fsdp_kineto_idle_done(struct fsdp_kineto_idle *idle);

bool fsdp_kineto_idle_work(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_work *work);
bool fsdp_kineto_idle_launch(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_issuing *launch);
bool fsdp_kineto_idle_call(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_host_call *call);
/* An operator, or a launch. */
bool fsdp_kineto_idle_operator(
	struct fsdp_kineto_idle *idle, uint32_t thread, int64_t begin_ns, int64_t end_ns);

/* Forgets what the device did. */
void fsdp_kineto_idle_forget(struct fsdp_kineto_idle *idle);

/* At the end: what each cause took before each kernel, with the row of that in the place
 * of its name, FSDP_NONE for what follows on the last; ret_rows has as many rows. Gaps are
 * those within the windows, which are in order: all together are the idle time. Unless
 * `sums` is NULL each cause is a row of it, in the steps, which are sorted. */
struct fsdp_kineto_idle_row {
	uint32_t kernel;
	struct fsdp_idle_time time;
};
bool fsdp_kineto_idle_settle(struct fsdp_kineto_idle *idle,
	const struct fsdp_kineto_steps *steps, const struct fsdp_interval *windows,
	size_t window_count, struct fsdp_step_sums *sums, struct fsdp_vec *ret_rows);

#endif
