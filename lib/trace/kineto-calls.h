/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_CALLS_H
#define FSDP_TRACE_KINETO_CALLS_H

#include "trace/kineto-steps.h"

/*
 * In which step the host made each call that launches work on a device, by the correlation
 * of both. A long trace has very many calls: those of the same step with numbers close to
 * each other are a bit each.
 */
struct fsdp_kineto_calls {
	struct fsdp_vec list; /* struct fsdp_kineto_page, in order */
	size_t at;            /* what was found last */
	int64_t latest_ns;    /* the latest call of all that were taken */
};

/* A call. Of those with the same correlation what is a launch by its name counts. */
struct fsdp_kineto_issued {
	int64_t correlation, ts_ns;
	bool is_launch;
};

/* Calls of 64 correlations that lie in one step. */
struct fsdp_kineto_page {
	int64_t page;      /* the correlation / 64 */
	int64_t moment_ns; /* when the step begins, or FSDP_KINETO_OUTSIDE */
	uint64_t seen;     /* a bit for each correlation */
	uint64_t found;    /* of these, those that were asked for: work came of them */
	bool other;        /* no launches by name */
};

/* No step holds it. */
#define FSDP_KINETO_OUTSIDE INT64_MIN

/* Lies in the arena. */
void fsdp_kineto_calls_init(struct fsdp_kineto_calls *calls, struct fsdp_arena *arena);
/* Forgets all. */
void fsdp_kineto_calls_forget(struct fsdp_kineto_calls *calls);

/* Takes some calls, in any order; the steps that they lie in are known and sorted. False:
 * out of memory. */
bool fsdp_kineto_calls_take(struct fsdp_kineto_calls *calls,
	const struct fsdp_kineto_issued *issued, size_t count,
	const struct fsdp_kineto_steps *steps);

/* How many calls are launches by name, and of how many of these no work was asked for. */
void fsdp_kineto_calls_count(const struct fsdp_kineto_calls *calls,
	uint64_t *ret_launches, uint64_t *ret_without_work);

/* A moment in the step of a call whose work came. False: there is no such call. */
bool fsdp_kineto_calls_find(
	struct fsdp_kineto_calls *calls, int64_t correlation, int64_t *ret_moment_ns);

#endif
