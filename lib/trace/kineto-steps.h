/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_STEPS_H
#define FSDP_TRACE_KINETO_STEPS_H

#include "trace/durations.h"
#include "trace/kineto-busy.h"
#include "trace/types.h"

struct fsdp_kineto_step {
	int64_t number, ts_ns, dur_ns;
	size_t order;            /* in the file */
	struct fsdp_tally *sums; /* FSDP_TIME_COUNT of them, or NULL: nothing is in it */
	int64_t first_ns, last_ns; /* its work on the device; the first is later: none */
	bool chosen;               /* by --steps */
	bool follows;              /* on one that was not chosen */
};

/*
 * The steps of a trace, and of each the sums by type of the calls that are put into it: by
 * a moment that lies in it. What lies in no step is summed up as well.
 */
struct fsdp_kineto_steps {
	const struct fsdp_recording_options *options;
	struct fsdp_arena *arena;
	struct fsdp_vec list;         /* struct fsdp_kineto_step */
	struct fsdp_kineto_step rest; /* outside of all */
	bool sorted;
	unsigned sorts; /* how often they were sorted */
	bool overflow;  /* a sum does not fit */
};

static inline struct fsdp_kineto_step *fsdp_kineto_step_at(
	const struct fsdp_kineto_steps *steps, size_t index)
{
	return fsdp_vec_at(&steps->list, index);
}

/* Steps and sums lie in the arena. */
void fsdp_kineto_steps_init(struct fsdp_kineto_steps *steps, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options);

/* Whether --steps is given. */
static inline bool fsdp_kineto_steps_limited(const struct fsdp_kineto_steps *steps)
{
	return steps->options->step_range_count != 0;
}

/* All below that return bool are false when out of memory. */
bool fsdp_kineto_steps_add(
	struct fsdp_kineto_steps *steps, int64_t number, int64_t ts_ns, int64_t dur_ns);

/* By time, if they are not. */
bool fsdp_kineto_steps_sort(struct fsdp_kineto_steps *steps);

/* Adds a call to the sums of the step that holds a moment, or of the rest. */
bool fsdp_kineto_steps_put(struct fsdp_kineto_steps *steps, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns);
/* Notes when work of that step lies on the device. */
void fsdp_kineto_steps_widen(struct fsdp_kineto_steps *steps, int64_t moment_ns,
	int64_t begin_ns, int64_t end_ns);
/* Forgets all sums. */
void fsdp_kineto_steps_forget(struct fsdp_kineto_steps *steps);

/* The index of the step that holds a moment, or SIZE_MAX; they are sorted. */
size_t fsdp_kineto_steps_index_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns);

/* Its number, or FSDP_ABSENT. */
int64_t fsdp_kineto_steps_number_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns);

/* Whether a moment lies in a step of --steps; they are sorted. */
bool fsdp_kineto_steps_chosen_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns);
/* Forgets all other steps, and the rest. */
void fsdp_kineto_steps_keep_chosen(struct fsdp_kineto_steps *steps);

/* The time of the steps: their union, with the end of the last widened to that of the last
 * work of the device; without steps one window. A step that follows on one that was not
 * chosen begins with its first work, as the device may have been busy with the other. In
 * the arena. */
bool fsdp_kineto_steps_windows(const struct fsdp_kineto_steps *steps,
	struct fsdp_interval whole, int64_t last_work_ns,
	struct fsdp_interval **ret_windows, size_t *ret_count);

/* Fills the steps of the recording, each with the types that are in it, and with when the
 * device was busy. Call it last: the sums go over to the recording. */
bool fsdp_kineto_steps_list(struct fsdp_kineto_steps *steps,
	const struct fsdp_kineto_busy *busy, struct fsdp_recording *recording,
	struct fsdp_step **ret_list);

#endif
