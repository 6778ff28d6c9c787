/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long calls took, in all and in each step, and which of them are kept.
 */
#include <stdlib.h>

#include "trace/kineto-times.h"

void fsdp_kineto_times_init(struct fsdp_kineto_times *times, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options)
{
	*times = (struct fsdp_kineto_times){ .settled_ns = INT64_MIN };
	for (int type = 0; type < FSDP_TIME_COUNT; type++)
		fsdp_durations_init(&times->durations[type], arena->budget);
	fsdp_kineto_steps_init(&times->steps, arena, options);
}

void fsdp_kineto_times_done(struct fsdp_kineto_times *times)
{
	for (int type = 0; type < FSDP_TIME_COUNT; type++)
		fsdp_durations_done(&times->durations[type]);
	free(times->waiting);
}

/* Puts the calls of a type that are kept one by one into steps. */
static bool fill_steps(struct fsdp_kineto_times *times, enum fsdp_time_type type)
{
	const struct fsdp_vec *moments = &times->durations[type].moments;
	for (size_t i = 0; i < moments->count; i++) {
		const struct fsdp_moment *moment = fsdp_vec_at(moments, i);
		if (!fsdp_kineto_steps_put(
			    &times->steps, type, moment->ts_ns, moment->dur_ns))
			return false;
	}
	return true;
}

bool fsdp_kineto_times_add_settled(struct fsdp_kineto_times *times,
	enum fsdp_time_type type, int64_t ts_ns, int64_t dur_ns)
{
	struct fsdp_durations *durations = &times->durations[type];
	if (fsdp_durations_is_full(durations) && !fill_steps(times, type))
		return false;
	if (!fsdp_durations_add(durations, ts_ns, dur_ns))
		return false;
	return durations->histogram == NULL ||
	       fsdp_kineto_steps_put(&times->steps, type, ts_ns, dur_ns);
}

/* ---- calls that wait for their step ---- */

enum { ROOM = 256 << 10, SORTS = 64 };

/* Steps that keep coming out of order count as late too: they would be sorted once for
 * each call. */
static bool settle(struct fsdp_kineto_times *times, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns)
{
	if (ts_ns > times->settled_ns)
		times->settled_ns = ts_ns;
	times->late |= times->steps.sorts > SORTS;
	if (times->late)
		return true;
	if (!fsdp_kineto_steps_sort(&times->steps))
		return false;
	if (!times->thinned[type])
		return fsdp_kineto_steps_put(&times->steps, type, ts_ns, dur_ns);
	return !fsdp_kineto_steps_chosen_at(&times->steps, ts_ns) ||
	       fsdp_kineto_times_add_settled(times, type, ts_ns, dur_ns);
}

static bool settle_first(struct fsdp_kineto_times *times)
{
	size_t at = times->waiting_at + ROOM - times->waiting_count--;
	struct fsdp_kineto_call call = times->waiting[at % ROOM];
	return settle(times, call.type, call.ts_ns, call.dur_ns);
}

/* Those in front that begin before `end_ns`. */
static bool settle_before(struct fsdp_kineto_times *times, int64_t end_ns)
{
	while (times->waiting_count != 0) {
		size_t at = times->waiting_at + ROOM - times->waiting_count;
		if (times->waiting[at % ROOM].ts_ns >= end_ns)
			break;
		if (!settle_first(times))
			return false;
	}
	return true;
}

static bool enqueue(struct fsdp_kineto_times *times, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns)
{
	if (times->waiting == NULL)
		times->waiting = malloc(ROOM * sizeof *times->waiting);
	if (times->waiting == NULL)
		return false;
	if (times->waiting_count == ROOM && !settle_first(times))
		return false;
	times->waiting[times->waiting_at] =
		(struct fsdp_kineto_call){ ts_ns, dur_ns, type };
	times->waiting_at = (times->waiting_at + 1) % ROOM;
	times->waiting_count++;
	return true;
}

/* ---- calls and steps as they come ---- */

/* The type has as many calls as are kept one by one: these go into steps, and so does each
 * that follows. With --steps only those in chosen steps are kept, which makes room. */
static bool leave_exactness(struct fsdp_kineto_times *times, enum fsdp_time_type type)
{
	struct fsdp_durations *durations = &times->durations[type], all;
	fsdp_durations_move(&all, durations);
	fsdp_durations_init(durations, all.budget);
	times->thinned[type] = fsdp_kineto_steps_limited(&times->steps);
	bool good = true;
	for (size_t i = 0; good && i < all.moments.count; i++) {
		const struct fsdp_moment *moment = fsdp_vec_at(&all.moments, i);
		good = enqueue(times, type, moment->ts_ns, moment->dur_ns);
	}
	if (good && !times->thinned[type]) {
		fsdp_durations_move(durations, &all);
		return true;
	}
	fsdp_durations_done(&all);
	return good;
}

bool fsdp_kineto_times_add(struct fsdp_kineto_times *times, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns)
{
	struct fsdp_durations *durations = &times->durations[type];
	if (fsdp_durations_is_full(durations) && !times->thinned[type] &&
		!leave_exactness(times, type))
		return false;
	if (times->thinned[type])
		return enqueue(times, type, ts_ns, dur_ns);
	if (!fsdp_durations_add(durations, ts_ns, dur_ns))
		return false;
	return durations->histogram == NULL || enqueue(times, type, ts_ns, dur_ns);
}

bool fsdp_kineto_times_add_step(
	struct fsdp_kineto_times *times, int64_t number, int64_t ts_ns, int64_t dur_ns)
{
	/* A call that begins in it may have been settled. */
	times->late |= ts_ns <= times->settled_ns;
	return fsdp_kineto_steps_add(&times->steps, number, ts_ns, dur_ns) &&
	       settle_before(times, ts_ns + dur_ns);
}

bool fsdp_kineto_times_add_again(struct fsdp_kineto_times *times,
	enum fsdp_time_type type, int64_t ts_ns, int64_t dur_ns)
{
	if (!times->over[type])
		return true;
	if (times->late && !fsdp_kineto_steps_put(&times->steps, type, ts_ns, dur_ns))
		return false;
	return !times->again || !fsdp_kineto_steps_chosen_at(&times->steps, ts_ns) ||
	       fsdp_durations_add(&times->durations[type], ts_ns, dur_ns);
}

/* ---- the end ---- */

static void forget_durations(struct fsdp_kineto_times *times, int type)
{
	struct fsdp_durations *durations = &times->durations[type];
	fsdp_durations_done(durations);
	fsdp_durations_init(durations, times->steps.arena->budget);
}

bool fsdp_kineto_times_end_pass(
	struct fsdp_kineto_times *times, bool can, bool *ret_again)
{
	bool any_over = false;
	if (!settle_before(times, INT64_MAX) || !fsdp_kineto_steps_sort(&times->steps))
		return false;
	free(times->waiting);
	times->waiting = NULL;
	for (int type = 0; type < FSDP_TIME_COUNT; type++) {
		times->over[type] = times->thinned[type]
					    ? times->late
					    : times->durations[type].histogram != NULL;
		any_over |= times->over[type];
	}
	times->again = can && any_over && fsdp_kineto_steps_limited(&times->steps);
	for (int type = 0; times->again && type < FSDP_TIME_COUNT; type++)
		if (times->over[type])
			forget_durations(times, type);
	if (can && times->late)
		fsdp_kineto_steps_forget(&times->steps);
	*ret_again = times->again || (can && times->late);
	return true;
}

static bool keep_chosen(struct fsdp_kineto_times *times, enum fsdp_time_type type)
{
	struct fsdp_durations *durations = &times->durations[type], kept;
	fsdp_durations_init(&kept, durations->budget);
	for (size_t i = 0; i < durations->moments.count; i++) {
		const struct fsdp_moment *moment = fsdp_vec_at(&durations->moments, i);
		if (fsdp_kineto_steps_chosen_at(&times->steps, moment->ts_ns) &&
			!fsdp_durations_add(&kept, moment->ts_ns, moment->dur_ns)) {
			fsdp_durations_done(&kept);
			return false;
		}
	}
	fsdp_durations_done(durations);
	fsdp_durations_move(durations, &kept);
	return true;
}

/* What was read again, or was thinned, has calls in chosen steps only. What could not be
 * read again has no more than the sums of steps. */
static bool choose(struct fsdp_kineto_times *times, enum fsdp_time_type type)
{
	if (!times->over[type] && times->durations[type].histogram == NULL)
		return keep_chosen(times, type);
	if (times->over[type] && !times->again) {
		struct fsdp_tally sum = fsdp_kineto_steps_sum(&times->steps, type);
		fsdp_durations_set(&times->durations[type], sum.count, sum.sum_ns);
	}
	return true;
}

bool fsdp_kineto_times_settle(
	struct fsdp_kineto_times *times, struct fsdp_intervals *chosen)
{
	bool limited = fsdp_kineto_steps_limited(&times->steps);
	bool any = times->steps.list.count != 0;
	for (enum fsdp_time_type type = 0; type < FSDP_TIME_COUNT; type++) {
		if (any && !times->over[type] && !fill_steps(times, type))
			return false;
		if (limited && !choose(times, type))
			return false;
	}
	return !limited || fsdp_kineto_steps_keep_chosen(&times->steps, chosen);
}
