/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a trace, and the sums of what lies in them.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/kineto-steps.h"

static const struct fsdp_kineto_step none = { .first_ns = INT64_MAX,
	.last_ns = INT64_MIN };

void fsdp_kineto_steps_init(struct fsdp_kineto_steps *steps, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options)
{
	*steps = (struct fsdp_kineto_steps){
		.arena = arena, .options = options, .rest = none
	};
	fsdp_vec_init(&steps->list, arena, sizeof(struct fsdp_kineto_step));
}

static bool chooses(const struct fsdp_recording_options *options, int64_t number)
{
	for (size_t i = 0; i < options->step_range_count; i++)
		if (number >= options->steps[2 * i] &&
			number <= options->steps[2 * i + 1])
			return true;
	return false;
}

bool fsdp_kineto_steps_add(
	struct fsdp_kineto_steps *steps, int64_t number, int64_t ts_ns, int64_t dur_ns)
{
	size_t count = steps->list.count;
	bool sorted =
		count == 0 ||
		(steps->sorted && fsdp_kineto_step_at(steps, count - 1)->ts_ns <= ts_ns);
	struct fsdp_kineto_step *step = fsdp_vec_push(&steps->list);
	if (step == NULL)
		return false;
	*step = none;
	step->number = number;
	step->ts_ns = ts_ns;
	step->dur_ns = dur_ns;
	step->order = count;
	step->chosen = chooses(steps->options, number);
	steps->sorted = sorted;
	return true;
}

static int compare_steps(const void *a, const void *b)
{
	const struct fsdp_kineto_step *left = a, *right = b;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

bool fsdp_kineto_steps_sort(struct fsdp_kineto_steps *steps)
{
	size_t count = steps->list.count;
	if (steps->sorted || count == 0)
		return true;
	struct fsdp_kineto_step *list = malloc(count * sizeof *list);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		list[i] = *fsdp_kineto_step_at(steps, i);
	qsort(list, count, sizeof *list, compare_steps);
	for (size_t i = 0; i < count; i++)
		*fsdp_kineto_step_at(steps, i) = list[i];
	free(list);
	steps->sorted = true;
	steps->sorts++;
	return true;
}

size_t fsdp_kineto_steps_index_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	size_t low = 0, high = steps->list.count;
	FSDP_HALVE(low, high, middle, fsdp_kineto_step_at(steps, middle)->ts_ns <= ts_ns);
	if (low == 0)
		return SIZE_MAX;
	const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, low - 1);
	return ts_ns < step->ts_ns + step->dur_ns ? low - 1 : SIZE_MAX;
}

/* The step that holds a moment, or NULL; they are sorted. */
static struct fsdp_kineto_step *find_step(
	const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	size_t index = fsdp_kineto_steps_index_at(steps, ts_ns);
	return index != SIZE_MAX ? fsdp_kineto_step_at(steps, index) : NULL;
}

int64_t fsdp_kineto_steps_number_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	const struct fsdp_kineto_step *step = find_step(steps, ts_ns);
	return step != NULL ? step->number : FSDP_ABSENT;
}

static struct fsdp_kineto_step *step_or_rest(
	struct fsdp_kineto_steps *steps, int64_t moment_ns)
{
	struct fsdp_kineto_step *step = find_step(steps, moment_ns);
	return step != NULL ? step : &steps->rest;
}

bool fsdp_kineto_steps_put(struct fsdp_kineto_steps *steps, enum fsdp_time_type type,
	int64_t moment_ns, int64_t dur_ns)
{
	if (!fsdp_kineto_steps_sort(steps))
		return false;
	struct fsdp_kineto_step *step = step_or_rest(steps, moment_ns);
	if (step->sums == NULL)
		step->sums = FSDP_TAKE(steps->arena, step->sums, FSDP_TIME_COUNT);
	if (step->sums == NULL)
		return false;
	step->sums[type].count++;
	fsdp_sum_ns(&step->sums[type].sum_ns, dur_ns, &steps->overflow);
	return true;
}

void fsdp_kineto_steps_widen(struct fsdp_kineto_steps *steps, int64_t moment_ns,
	int64_t begin_ns, int64_t end_ns)
{
	struct fsdp_kineto_step *step = step_or_rest(steps, moment_ns);
	if (begin_ns < step->first_ns)
		step->first_ns = begin_ns;
	if (end_ns > step->last_ns)
		step->last_ns = end_ns;
}

void fsdp_kineto_steps_forget(struct fsdp_kineto_steps *steps)
{
	steps->rest = none;
	for (size_t i = 0; i < steps->list.count; i++) {
		struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		step->sums = NULL;
		step->first_ns = none.first_ns;
		step->last_ns = none.last_ns;
	}
}

bool fsdp_kineto_steps_chosen_at(const struct fsdp_kineto_steps *steps, int64_t moment_ns)
{
	const struct fsdp_kineto_step *step = find_step(steps, moment_ns);
	return step != NULL && step->chosen;
}

void fsdp_kineto_steps_keep_chosen(struct fsdp_kineto_steps *steps)
{
	size_t kept = 0;
	bool follows = false;
	for (size_t i = 0; i < steps->list.count; i++) {
		struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		step->follows = follows;
		follows = !step->chosen;
		if (step->chosen)
			*fsdp_kineto_step_at(steps, kept++) = *step;
	}
	fsdp_vec_truncate(&steps->list, kept);
	steps->rest = none;
}

bool fsdp_kineto_steps_windows(const struct fsdp_kineto_steps *steps,
	struct fsdp_interval whole, int64_t last_work_ns,
	struct fsdp_interval **ret_windows, size_t *ret_count)
{
	size_t count = steps->list.count, kept = 0;
	struct fsdp_interval *list = FSDP_TAKE(steps->arena, list, count + 1);
	for (size_t i = 0; list != NULL && i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		struct fsdp_interval one = { step->ts_ns, step->ts_ns + step->dur_ns };
		if (step->follows && step->first_ns <= step->last_ns &&
			step->first_ns > one.begin)
			one.begin = fsdp_min(step->first_ns, one.end);
		if (kept == 0 || one.begin > list[kept - 1].end)
			list[kept++] = one;
		else if (one.end > list[kept - 1].end)
			list[kept - 1].end = one.end;
	}
	if (list != NULL && count == 0)
		list[kept++] = whole;
	if (kept != 0 && last_work_ns > list[kept - 1].end)
		list[kept - 1].end = last_work_ns;
	*ret_windows = list;
	*ret_count = kept;
	return list != NULL;
}

/* ---- what the recording has of them ---- */

/* Moves those that are not empty to the front, with their names. */
static size_t take_sums(struct fsdp_tally *sums)
{
	size_t used = 0;
	for (int type = 0; sums != NULL && type < FSDP_TIME_COUNT; type++) {
		if (sums[type].count == 0)
			continue;
		sums[used] = sums[type];
		sums[used++].name = fsdp_time_type_name((enum fsdp_time_type)type);
	}
	return used;
}

/* When the device was busy between the first and the last work of each step. */
static bool measure(const struct fsdp_kineto_steps *steps,
	const struct fsdp_kineto_busy *busy, struct fsdp_step *list)
{
	size_t count = steps->list.count, kept = 0;
	struct fsdp_interval *windows = malloc((count + 1) * sizeof *windows);
	struct fsdp_device_times *times = malloc((count + 1) * sizeof *times);
	bool good = windows != NULL && times != NULL;
	for (size_t i = 0; good && i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		list[i].has_device = step->first_ns <= step->last_ns;
		if (list[i].has_device)
			windows[kept++] =
				(struct fsdp_interval){ step->first_ns, step->last_ns };
	}
	good = good && fsdp_kineto_busy_inside(busy, windows, kept, times);
	for (size_t i = 0, next = 0; good && i < count; i++)
		if (list[i].has_device)
			list[i].device = times[next++];
	for (size_t i = 0; good && i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		windows[i] =
			(struct fsdp_interval){ step->ts_ns, step->ts_ns + step->dur_ns };
		if (step->follows && list[i].has_device && step->first_ns > step->ts_ns)
			windows[i].begin = fsdp_min(step->first_ns, windows[i].end);
		if (i + 1 == count && step->last_ns > windows[i].end)
			windows[i].end = step->last_ns;
	}
	good = good && fsdp_kineto_busy_inside(busy, windows, count, times);
	for (size_t i = 0; good && i < count; i++)
		list[i].idle_ns = times[i].idle_ns;
	free(windows);
	free(times);
	return good;
}

bool fsdp_kineto_steps_list(struct fsdp_kineto_steps *steps,
	const struct fsdp_kineto_busy *busy, struct fsdp_recording *recording,
	struct fsdp_step **ret_list)
{
	size_t count = steps->list.count;
	struct fsdp_step *list = FSDP_TAKE(steps->arena, list, count);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		list[i] = (struct fsdp_step){ .step = step->number,
			.ts_ns = step->ts_ns,
			.dur_ns = step->dur_ns,
			.types = step->sums,
			.type_count = take_sums(step->sums) };
	}
	recording->steps = *ret_list = list;
	recording->step_count = count;
	if (count != 0) {
		recording->outside_count = take_sums(steps->rest.sums);
		recording->outside = steps->rest.sums;
	}
	return measure(steps, busy, list);
}
