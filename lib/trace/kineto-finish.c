/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the end of a trace tells: the layer on which collectives are counted, and what
 * is left with --steps.
 */
#include <stdlib.h>

#include "trace/kineto.h"

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

/* ---- collectives ---- */

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

/* Kernels if there are any, else notes of the host. */
static bool take_collectives(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_vec *list = &kineto->kernels.list;
	bool device = list->count != 0;
	if (!fsdp_kineto_launches_resolve(&kineto->launches, list))
		return false;
	fsdp_kineto_launches_done(&kineto->launches);
	if (list->count != 0)
		recording->layer = device ? FSDP_LAYER_DEVICE : FSDP_LAYER_HOST;
	if (fsdp_kineto_steps_limited(&kineto->times.steps))
		choose_collectives(&kineto->times.steps, list);
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

/* ---- times ---- */

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

/* ---- the strip ---- */

/* Copies by direction where each of them is kept; else busy times as the direction that
 * took longest. */
static void strip_copies(struct fsdp_kineto *kineto, struct fsdp_strip *strip)
{
	static const enum fsdp_time_type types[] = { FSDP_TIME_H2D, FSDP_TIME_D2H,
		FSDP_TIME_D2D, FSDP_TIME_P2P, FSDP_TIME_HTOH, FSDP_TIME_MEMSET };
	enum { COUNT = FSDP_COUNT(types) };
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

bool fsdp_kineto_settle(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	recording->categories = take_tallies(kineto, &kineto->words.categories);
	recording->category_count = kineto->words.categories.count;
	recording->phases = take_tallies(kineto, &kineto->words.phases);
	recording->phase_count = kineto->words.phases.count;
	if (recording->categories == NULL || recording->phases == NULL)
		return false;
	if (!take_collectives(kineto) || !settle_times(kineto) || !take_all(kineto) ||
		!fsdp_kineto_steps_list(&kineto->times.steps, recording))
		return false;
	recording->has_device =
		fsdp_kineto_busy_device(&kineto->busy, &recording->device);
	if (recording->layer == FSDP_LAYER_HOST && !recording->has_device)
		recording->host_comm_busy_ns =
			fsdp_intervals_length(&kineto->busy.lists[FSDP_KINETO_HOST]);
	if (!take_strip(kineto))
		return false;
	recording->reduce_scatter_as_all_reduce =
		kineto->any_reduce_scatter_op && recording->layer == FSDP_LAYER_HOST &&
		kineto->times.durations[FSDP_TIME_REDUCE_SCATTER].count == 0;
	if (!take_types(kineto))
		return false;
	if (kineto->words.overflow || kineto->times.steps.overflow)
		FSDP_TRACE_FIND(kineto->reading, TIMES_UNUSABLE,
			"a sum of times does not fit 64 bits of nanoseconds");
	return true;
}
