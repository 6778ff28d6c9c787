/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_STEPS_H
#define FSDP_TRACE_KINETO_STEPS_H

#include <fsdp/trace.h>

#include "base/arena.h"
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

/* Adds a call to the sums of the step that holds a moment, or of the rest. */
bool fsdp_kineto_steps_put(struct fsdp_kineto_steps *steps, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns);
/* Notes when work of that step lies on the device. */
void fsdp_kineto_steps_widen(struct fsdp_kineto_steps *steps, int64_t moment_ns,
	int64_t begin_ns, int64_t end_ns);

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

/*
 * What was spent on each of some rows in each step, while a trace is read. What is of the
 * same step mostly comes one after the other, so a row looks at its last sum only; sums of
 * one step that are apart meet at the end.
 */
struct fsdp_step_sums {
	struct fsdp_vec list; /* struct fsdp_step_sum */
	struct fsdp_vec last; /* uint32_t: by row its last in the list, from 1 */
	bool overflow;        /* a sum does not fit */
};

void fsdp_step_sums_init(struct fsdp_step_sums *sums, struct fsdp_arena *arena);

/* One call. All that return bool are false when out of memory. */
bool fsdp_step_sums_add(struct fsdp_step_sums *sums, uint32_t row, int64_t step,
	int64_t ns, int64_t exposed_ns);

void fsdp_step_sums_forget(struct fsdp_step_sums *sums);

/* The sums of each row by step, in the arena: those of a row go to ret_lists of its place,
 * which several rows may share; a place of UINT32_MAX is left out. places NULL: its own. */
bool fsdp_step_sums_list(struct fsdp_step_sums *sums, const uint32_t *places,
	struct fsdp_arena *arena, struct fsdp_step_list *ret_lists);

#endif
