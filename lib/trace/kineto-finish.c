/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the end of a trace tells: the layer on which collectives are counted, and what
 * is left with --steps.
 */
#include <stdlib.h>

#include "trace/kineto-busy.h"
#include "trace/kineto.h"

/* ---- the second pass ---- */

bool fsdp_kineto_needs_second(struct fsdp_kineto *kineto, bool can, bool *ret_needs)
{
	bool missing;
	kineto->launches.all &= fsdp_kineto_units_any(&kineto->units);
	if (!fsdp_kineto_times_end_pass(&kineto->times, can) ||
		!fsdp_kineto_launches_miss(&kineto->launches, &missing))
		return false;
	if (can && missing)
		fsdp_kineto_launches_restart(&kineto->launches);
	if (kineto->times.again)
		fsdp_step_sums_forget(&kineto->names.steps);
	if (kineto->times.again && fsdp_kineto_steps_limited(&kineto->times.steps)) {
		fsdp_kineto_busy_forget(&kineto->busy);
		fsdp_kineto_kernels_forget(&kineto->names);
		fsdp_kineto_idle_forget(&kineto->idle);
	}
	if (!can && kineto->times.late) {
		kineto->reading->recording.steps_incomplete = true;
		FSDP_TRACE_FIND(kineto->reading, TIMES_UNUSABLE,
			"more than 250,000 calls came before their steps, which a pipe cannot show");
	}
	*ret_needs = kineto->times.again || (can && missing);
	return true;
}

/* ---- collectives ---- */

/* Work of the device in a chosen step. */
static bool choose(void *context, const struct fsdp_kineto_call *call)
{
	struct fsdp_kineto *kineto = context;
	struct fsdp_kineto_work work = { call->ts_ns, call->ts_ns + (int64_t)call->dur_ns,
		call->correlation, call->kernel };
	fsdp_kineto_kernels_add(&kineto->names, call->kernel, (int64_t)call->dur_ns);
	return fsdp_kineto_idle_work(&kineto->idle, &work) &&
	       fsdp_kineto_busy_add(&kineto->busy, (enum fsdp_time_type)call->type,
		       call->ts_ns, (int64_t)call->dur_ns);
}

static bool place(void *context, const struct fsdp_kineto_call *call, int64_t moment_ns)
{
	struct fsdp_kineto *kineto = context;
	return fsdp_kineto_kernels_add_step(&kineto->names, call->kernel,
		fsdp_kineto_steps_number_at(&kineto->times.steps, moment_ns),
		(int64_t)call->dur_ns);
}

/* Puts each into its step, and with --steps leaves those in chosen ones. */
static bool put_collectives(struct fsdp_kineto *kineto, bool device)
{
	struct fsdp_vec *list = &kineto->kernels.list;
	struct fsdp_kineto_times *times = &kineto->times;
	bool limited = fsdp_kineto_steps_limited(&times->steps);
	size_t kept = 0;
	for (size_t i = 0; i < list->count; i++) {
		struct fsdp_comm *comm = fsdp_comm_at(list, i);
		struct fsdp_kineto_call call = fsdp_kineto_call(comm->ts_ns, comm->dur_ns,
			(enum fsdp_time_type)comm->type, device, FSDP_ABSENT);
		if (device) {
			call.correlation = comm->host_ns;
			comm->host_ns = fsdp_kineto_times_moment(
				times, comm->host_ns, comm->ts_ns);
			call.kernel =
				fsdp_kineto_kernels_row(&kineto->names, comm->order);
		}
		if (!limited)
			fsdp_kineto_kernels_add(
				&kineto->names, call.kernel, comm->dur_ns);
		bool chosen = !limited ||
			      fsdp_kineto_steps_chosen_at(&times->steps, comm->host_ns);
		if (!fsdp_kineto_times_put(times, comm->host_ns, &call) ||
			(!limited && !fsdp_durations_add(&times->durations[comm->type],
					     comm->dur_ns)) ||
			(limited && chosen && !device &&
				!fsdp_intervals_add(&kineto->busy.lists[FSDP_KINETO_HOST],
					comm->ts_ns, comm->ts_ns + comm->dur_ns)))
			return false;
		kineto->reading->recording.resolution[comm->how] += chosen;
		if (chosen)
			*fsdp_comm_at(list, kept++) = *comm;
	}
	fsdp_vec_truncate(list, kept);
	return true;
}

/* With units, where each collective was issued; in the arena. */
static bool take_places(struct fsdp_kineto *kineto, bool device)
{
	size_t count = kineto->kernels.list.count;
	if (!kineto->units.wanted)
		return true;
	kineto->places = FSDP_TAKE(&kineto->reading->arena, kineto->places, count);
	if (kineto->places == NULL || !fsdp_kineto_launches_places(&kineto->launches,
					      device, count, kineto->places))
		return false;
	for (size_t i = 0; !device && i < count; i++)
		kineto->places[i].lane =
			fsdp_kineto_units_process(&kineto->units, kineto->places[i].lane);
	return true;
}

static bool take_units(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	bool device = recording->layer == FSDP_LAYER_DEVICE;
	if (!kineto->units.wanted)
		return true;
	/* Steps that were not chosen are gone. */
	if (fsdp_kineto_steps_limited(&kineto->times.steps))
		fsdp_kineto_units_choose(&kineto->units, &kineto->times.steps);
	return fsdp_kineto_units_settle(&kineto->units, &kineto->kernels, kineto->places,
		device ? &kineto->busy : NULL, &kineto->times.steps, recording);
}

/* Kernels if there are any, else notes of the host. */
static bool take_collectives(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_vec *list = &kineto->kernels.list;
	bool device = list->count != 0;
	if (!fsdp_kineto_launches_resolve(&kineto->launches, list) ||
		!take_places(kineto, device))
		return false;
	fsdp_kineto_launches_done(&kineto->launches);
	if (list->count != 0)
		recording->layer = device ? FSDP_LAYER_DEVICE : FSDP_LAYER_HOST;
	if (!put_collectives(kineto, device))
		return false;
	struct fsdp_collectives *all = FSDP_TAKE(&kineto->reading->arena, all, 1);
	if (all == NULL || !fsdp_comm_sort(list))
		return false;
	*all = kineto->kernels;
	recording->collectives = all;
	recording->collective_count = list->count;
	return true;
}

/* ---- times ---- */

static bool settle_times(struct fsdp_kineto *kineto)
{
	struct fsdp_kineto_steps *steps = &kineto->times.steps;
	struct fsdp_recording *recording = &kineto->reading->recording;
	if (steps->list.count != 0)
		recording->by_start = kineto->times.by_start;
	fsdp_kineto_calls_count(&kineto->times.calls, &recording->launches,
		&recording->launches_without_work);
	if (fsdp_kineto_steps_limited(steps))
		fsdp_kineto_steps_keep_chosen(steps);
	return fsdp_kineto_busy_settle(&kineto->busy);
}

/* ---- why idle ---- */

static int compare_idles(const void *a, const void *b)
{
	const struct fsdp_idle_time *left = a, *right = b;
	if (left->cause != right->cause)
		return left->cause < right->cause ? -1 : 1;
	bool none = left->kernel.data == NULL;
	if (none || right->kernel.data == NULL)
		return (right->kernel.data == NULL) - none;
	return fsdp_span_compare(left->kernel, right->kernel);
}

/* Adds up what is before kernels of one name, on any stream. */
static size_t join_idles(struct fsdp_idle_time *list, size_t count)
{
	size_t kept = 0;
	if (count != 0)
		qsort(list, count, sizeof *list, compare_idles);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_idle_time *last = kept != 0 ? &list[kept - 1] : NULL;
		if (last == NULL || compare_idles(last, &list[i]) != 0) {
			list[kept++] = list[i];
			continue;
		}
		last->gaps += list[i].gaps;
		last->ns += list[i].ns;
		if (list[i].longest_ns > last->longest_ns)
			last->longest_ns = list[i].longest_ns;
	}
	return kept;
}

/* Of what time the shares are. */
static bool take_base(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_device_times *base = &recording->base, *times;
	struct fsdp_interval whole = { recording->first_ts_ns, recording->last_end_ns };
	int64_t begin, end;
	if (!fsdp_kineto_busy_extent(&kineto->busy, true, &begin, &end))
		return true;
	if (!fsdp_kineto_steps_windows(&kineto->times.steps, whole, end, &kineto->windows,
		    &kineto->window_count))
		return false;
	times = FSDP_TAKE(&kineto->reading->arena, times, kineto->window_count);
	if (times == NULL || !fsdp_kineto_busy_inside(&kineto->busy, kineto->windows,
				     kineto->window_count, times))
		return false;
	for (size_t i = 0; i < kineto->window_count; i++) {
		base->span_ns += times[i].span_ns;
		base->busy_ns += times[i].busy_ns;
		base->idle_ns += times[i].idle_ns;
		base->comm_busy_ns += times[i].comm_busy_ns;
		base->compute_busy_ns += times[i].compute_busy_ns;
		base->mem_busy_ns += times[i].mem_busy_ns;
		base->overlap_ns += times[i].overlap_ns;
		base->exposed_ns += times[i].exposed_ns;
	}
	return true;
}

static bool take_idle(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_arena *arena = &kineto->reading->arena;
	struct fsdp_vec rows;
	if (!kineto->idle.wanted)
		return true;
	fsdp_vec_init(&rows, arena, sizeof(struct fsdp_kineto_idle_row));
	struct fsdp_step_sums sums;
	bool by_step = kineto->reading->options->by_step;
	fsdp_step_sums_init(&sums, arena);
	if (!fsdp_kineto_idle_settle(&kineto->idle, &kineto->times.steps, kineto->windows,
		    kineto->window_count, by_step ? &sums : NULL, &rows) ||
		!fsdp_step_sums_list(&sums, NULL, arena, recording->idle_by_step))
		return false;
	struct fsdp_idle_time *list = FSDP_TAKE(arena, list, rows.count);
	for (size_t i = 0; list != NULL && i < rows.count; i++) {
		const struct fsdp_kineto_idle_row *row = fsdp_vec_at(&rows, i);
		list[i] = row->time;
		list[i].kernel =
			row->kernel == FSDP_NONE
				? FSDP_SPAN("(end)")
				: fsdp_kineto_kernels_name(&kineto->names, row->kernel);
	}
	recording->idles = list;
	recording->idle_count = list != NULL ? join_idles(list, rows.count) : 0;
	return list != NULL;
}

/* Steps, and what was allocated in each of them. */
static bool take_steps(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_steps *steps = &kineto->times.steps;
	struct fsdp_step *list;
	return fsdp_kineto_steps_list(steps, &kineto->busy, recording, &list) &&
	       fsdp_kineto_allocs_settle(&kineto->allocs, &kineto->reading->arena, list,
		       fsdp_kineto_steps_limited(steps), recording);
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
		if (!fsdp_durations_add(all, step->dur_ns))
			return false;
	}
	if (kineto->times.steps.list.count != 0) {
		recording->all_source = "ProfilerStep";
	} else if (recording->first_ts_ns != FSDP_ABSENT) {
		recording->all_source = "span";
		if (!fsdp_durations_add(
			    all, recording->last_end_ns - recording->first_ts_ns))
			return false;
	}
	return true;
}

/* ---- the strip ---- */

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
	fsdp_kineto_busy_strip_copies(&kineto->busy, strip);
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

/* Those that are not known, out of all. */
static bool take_unknown(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_tally *list =
		FSDP_TAKE(&kineto->reading->arena, list, recording->category_count);
	for (size_t i = 0; list != NULL && i < recording->category_count; i++)
		if (!fsdp_kineto_knows_category(recording->categories[i].name))
			list[recording->unknown_count++] = recording->categories[i];
	recording->unknown = list;
	return list != NULL;
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

void fsdp_kineto_prepare(struct fsdp_kineto *kineto)
{
	kineto->times.choose = choose;
	if (kineto->names.by_step)
		kineto->times.place = place;
	kineto->times.context = kineto;
}

bool fsdp_kineto_settle(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	recording->categories = take_tallies(kineto, &kineto->words.categories);
	recording->category_count = kineto->words.categories.count;
	recording->phases = take_tallies(kineto, &kineto->words.phases);
	recording->phase_count = kineto->words.phases.count;
	if (recording->categories == NULL || recording->phases == NULL ||
		!take_unknown(kineto))
		return false;
	if (!take_collectives(kineto) || !settle_times(kineto) || !take_units(kineto) ||
		!take_all(kineto) || !take_steps(kineto) || !take_base(kineto) ||
		!take_idle(kineto))
		return false;
	recording->has_device =
		fsdp_kineto_busy_device(&kineto->busy, &recording->device);
	if (recording->layer == FSDP_LAYER_HOST && !recording->has_device)
		recording->host_comm_busy_ns =
			fsdp_intervals_length(&kineto->busy.lists[FSDP_KINETO_HOST]);
	if (!take_strip(kineto) || (kineto->reading->options->spans &&
					   !fsdp_kineto_spans_keep(&kineto->busy,
						   &kineto->reading->arena, recording)))
		return false;
	recording->reduce_scatter_as_all_reduce =
		kineto->any_reduce_scatter_op && recording->layer == FSDP_LAYER_HOST &&
		kineto->times.durations[FSDP_TIME_REDUCE_SCATTER].count == 0;
	if (!take_types(kineto) || !fsdp_kineto_kernels_settle(&kineto->names,
					   &kineto->reading->arena, recording))
		return false;
	if (kineto->words.overflow || kineto->times.steps.overflow)
		FSDP_TRACE_FIND(kineto->reading, TIMES_UNUSABLE,
			"a sum of times does not fit 64 bits of nanoseconds");
	return true;
}
