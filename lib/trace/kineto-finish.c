/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the end of a trace tells: the layer on which collectives are counted, and what
 * is left with --steps.
 */
#include <stdlib.h>

#include "trace/kineto.h"

/* ---- times ---- */

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

/* ---- the second pass ---- */

bool fsdp_kineto_needs_second(struct fsdp_kineto *kineto, bool can, bool *ret_needs)
{
	bool again, missing;
	if (!fsdp_kineto_times_end_pass(&kineto->times, can, &again) ||
		!fsdp_kineto_launches_miss(&kineto->launches, &missing))
		return false;
	if (can && missing)
		fsdp_kineto_launches_restart(&kineto->launches);
	if (!can && kineto->times.late) {
		kineto->reading->recording.steps_incomplete = true;
		FSDP_TRACE_FIND(kineto->reading, TIMES_UNUSABLE,
			"more than a million calls of one type came before the steps that they lie in, which cannot be told of a pipe");
	}
	*ret_needs = again || (can && missing);
	return true;
}

/* The type `all`: the steps, or else all that there is. */
static bool take_all(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_durations *all = &kineto->times.durations[FSDP_TIME_ALL];
	recording->all_source = "none";
	for (size_t i = 0; i < kineto->times.steps.list.count; i++) {
		const struct fsdp_kineto_step *step =
			fsdp_kineto_step_at(&kineto->times.steps, i);
		if (!fsdp_durations_add(all, step->ts_ns, step->dur_ns))
			return false;
	}
	if (kineto->times.steps.list.count != 0) {
		recording->all_source = "ProfilerStep";
	} else if (recording->first_ts_ns != FSDP_ABSENT) {
		recording->all_source = "span";
		if (!fsdp_durations_add(all, recording->first_ts_ns,
			    recording->last_end_ns - recording->first_ts_ns))
			return false;
	}
	return true;
}

/* ---- collectives ---- */

static bool take_collectives(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_vec *list = &kineto->kernels.list;
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(list, i);
		recording->resolution[comm->how]++;
		if (!fsdp_kineto_times_add_settled(&kineto->times,
			    (enum fsdp_time_type)comm->type, comm->ts_ns, comm->dur_ns))
			return false;
	}
	struct fsdp_collectives *all = FSDP_TAKE(&kineto->reading->arena, all, 1);
	if (all == NULL || !fsdp_comm_sort(list))
		return false;
	*all = kineto->kernels;
	recording->collectives = all;
	recording->collective_count = list->count;
	return true;
}

static void choose_collectives(
	const struct fsdp_kineto_steps *steps, struct fsdp_vec *comms)
{
	size_t kept = 0;
	for (size_t i = 0; i < comms->count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(comms, i);
		if (fsdp_kineto_steps_chosen_at(steps, comm->ts_ns))
			*fsdp_comm_at(comms, kept++) = *comm;
	}
	fsdp_vec_truncate(comms, kept);
}

static bool take_layer(struct fsdp_kineto *kineto)
{
	struct fsdp_vec *list = &kineto->kernels.list;
	bool device = list->count != 0;
	bool good = fsdp_kineto_launches_resolve(&kineto->launches, list);
	fsdp_kineto_launches_done(&kineto->launches);
	if (list->count != 0)
		kineto->reading->recording.layer =
			device ? FSDP_LAYER_DEVICE : FSDP_LAYER_HOST;
	if (fsdp_kineto_steps_limited(&kineto->times.steps))
		choose_collectives(&kineto->times.steps, list);
	return good && take_collectives(kineto);
}

/* ---- the device ---- */

static void take_device(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	recording->has_device =
		fsdp_kineto_busy_device(&kineto->busy, &recording->device);
	if (recording->layer == FSDP_LAYER_HOST && !recording->has_device)
		recording->host_comm_busy_ns =
			fsdp_intervals_length(&kineto->busy.lists[FSDP_KINETO_HOST]);
}

/* ---- the strip ---- */

/* Copies by direction where each of them is kept; else busy times as the direction that
 * took longest. */
static void strip_copies(struct fsdp_kineto *kineto, struct fsdp_strip *strip)
{
	static const enum fsdp_time_type types[] = { FSDP_TIME_H2D, FSDP_TIME_D2H,
		FSDP_TIME_D2D, FSDP_TIME_P2P, FSDP_TIME_HTOH, FSDP_TIME_MEMSET };
	enum { COUNT = sizeof types / sizeof *types };
	enum fsdp_time_type most = types[0];
	bool all = true;
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_durations *durations =
			&kineto->times.durations[types[i]];
		all &= durations->count == durations->moments.count;
		if (durations->sum_ns > kineto->times.durations[most].sum_ns)
			most = types[i];
	}
	if (!all) {
		fsdp_kineto_busy_strip(&kineto->busy, FSDP_KINETO_MEMORY, strip, most);
		return;
	}
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_vec *moments =
			&kineto->times.durations[types[i]].moments;
		for (size_t j = 0; j < moments->count; j++) {
			const struct fsdp_moment *moment = fsdp_vec_at(moments, j);
			fsdp_strip_add(strip, types[i], moment->ts_ns,
				moment->ts_ns + moment->dur_ns);
		}
	}
}

/* Without a device, time on the host is that of collectives alone. */
static bool take_strip(struct fsdp_kineto *kineto)
{
	struct fsdp_strip *strip = &kineto->reading->strip;
	const struct fsdp_vec *comm = &kineto->kernels.list;
	bool device = kineto->reading->recording.has_device;
	int64_t begin, end;
	if (!kineto->reading->options->timeline ||
		!fsdp_kineto_busy_extent(&kineto->busy, device, &begin, &end))
		return true;
	if (!fsdp_strip_init(strip, begin, end, &kineto->reading->arena))
		return false;
	for (size_t i = 0; i < comm->count; i++) {
		const struct fsdp_comm *one = fsdp_comm_at(comm, i);
		fsdp_strip_add(strip, one->type, one->ts_ns, one->ts_ns + one->dur_ns);
	}
	if (!device)
		return true;
	fsdp_kineto_busy_strip(
		&kineto->busy, FSDP_KINETO_COMPUTE, strip, FSDP_TIME_COMPUTE);
	strip_copies(kineto, strip);
	fsdp_kineto_busy_idle(&kineto->busy, strip);
	return true;
}

/* ---- the end ---- */

static int compare_tallies(const void *a, const void *b)
{
	const struct fsdp_tally *left = a, *right = b;
	return fsdp_span_compare(left->name, right->name);
}

static const struct fsdp_tally *take_tallies(
	struct fsdp_kineto *kineto, const struct fsdp_vec *vec)
{
	struct fsdp_tally *list = fsdp_trace_flat(kineto->reading, vec);
	if (list != NULL)
		qsort(list, vec->count, sizeof *list, compare_tallies);
	return list;
}

static bool take_types(struct fsdp_kineto *kineto)
{
	struct fsdp_span names[FSDP_TIME_COUNT];
	struct fsdp_durations *durations[FSDP_TIME_COUNT];
	for (int i = 0; i < FSDP_TIME_COUNT; i++) {
		names[i] = fsdp_time_type_name((enum fsdp_time_type)i);
		durations[i] = &kineto->times.durations[i];
	}
	return fsdp_trace_types(kineto->reading, names, durations, FSDP_TIME_COUNT);
}

/* With --steps, only what lies in the chosen ones stays of busy times as well. */
static bool settle_times(struct fsdp_kineto *kineto)
{
	struct fsdp_intervals chosen;
	fsdp_intervals_init(&chosen, kineto->reading->budget);
	bool good = fsdp_kineto_times_settle(&kineto->times, &chosen) &&
		    fsdp_kineto_busy_settle(&kineto->busy) &&
		    (!fsdp_kineto_steps_limited(&kineto->times.steps) ||
			    fsdp_kineto_busy_clip(&kineto->busy, &chosen));
	fsdp_intervals_done(&chosen);
	return good;
}

bool fsdp_kineto_settle(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	recording->categories = take_tallies(kineto, &kineto->cats);
	recording->category_count = kineto->cats.count;
	recording->phases = take_tallies(kineto, &kineto->phases);
	recording->phase_count = kineto->phases.count;
	if (recording->categories == NULL || recording->phases == NULL)
		return false;
	if (!take_layer(kineto) || !settle_times(kineto))
		return false;
	if (!take_all(kineto) || !fsdp_kineto_steps_list(&kineto->times.steps, recording))
		return false;
	take_device(kineto);
	if (!take_strip(kineto))
		return false;
	recording->reduce_scatter_as_all_reduce =
		kineto->any_reduce_scatter_op && recording->layer == FSDP_LAYER_HOST &&
		kineto->times.durations[FSDP_TIME_REDUCE_SCATTER].count == 0;
	if (!take_types(kineto))
		return false;
	if (kineto->overflow || kineto->times.steps.overflow)
		FSDP_TRACE_FIND(kineto->reading, TIMES_UNUSABLE,
			"a sum of times does not fit 64 bits of nanoseconds");
	return true;
}
