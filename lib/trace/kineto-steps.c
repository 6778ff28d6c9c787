/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a trace, and the sums of what lies in them.
 */
#include <stdlib.h>

#include "trace/kineto-steps.h"

void fsdp_kineto_steps_init(struct fsdp_kineto_steps *steps, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options)
{
	*steps = (struct fsdp_kineto_steps){ .arena = arena, .options = options };
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
	*step = (struct fsdp_kineto_step){ number, ts_ns, dur_ns, count, NULL,
		chooses(steps->options, number) };
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

/* The step that holds a moment, or NULL; they are sorted. */
static struct fsdp_kineto_step *find_step(
	const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	size_t low = 0, high = steps->list.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (fsdp_kineto_step_at(steps, middle)->ts_ns <= ts_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, low - 1);
	return ts_ns < step->ts_ns + step->dur_ns ? step : NULL;
}

bool fsdp_kineto_steps_put(struct fsdp_kineto_steps *steps, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns)
{
	if (!fsdp_kineto_steps_sort(steps))
		return false;
	struct fsdp_kineto_step *step = find_step(steps, ts_ns);
	if (step == NULL)
		return true;
	if (step->sums == NULL)
		step->sums = FSDP_TAKE(steps->arena, step->sums, FSDP_TIME_COUNT);
	if (step->sums == NULL)
		return false;
	step->sums[type].count++;
	fsdp_sum_ns(&step->sums[type].sum_ns, dur_ns, &steps->overflow);
	return true;
}

void fsdp_kineto_steps_forget(struct fsdp_kineto_steps *steps)
{
	for (size_t i = 0; i < steps->list.count; i++)
		fsdp_kineto_step_at(steps, i)->sums = NULL;
}

bool fsdp_kineto_steps_chosen_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	const struct fsdp_kineto_step *step = find_step(steps, ts_ns);
	return step != NULL && step->chosen;
}

struct fsdp_tally fsdp_kineto_steps_sum(
	struct fsdp_kineto_steps *steps, enum fsdp_time_type type)
{
	struct fsdp_tally sum = { .count = 0 };
	for (size_t i = 0; i < steps->list.count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		if (!step->chosen || step->sums == NULL)
			continue;
		sum.count += step->sums[type].count;
		fsdp_sum_ns(&sum.sum_ns, step->sums[type].sum_ns, &steps->overflow);
	}
	return sum;
}

bool fsdp_kineto_steps_keep_chosen(
	struct fsdp_kineto_steps *steps, struct fsdp_intervals *times)
{
	size_t kept = 0;
	for (size_t i = 0; i < steps->list.count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		if (!step->chosen)
			continue;
		if (!fsdp_intervals_add(times, step->ts_ns, step->ts_ns + step->dur_ns))
			return false;
		*fsdp_kineto_step_at(steps, kept++) = *step;
	}
	fsdp_vec_truncate(&steps->list, kept);
	return fsdp_intervals_settle(times);
}

bool fsdp_kineto_steps_list(
	struct fsdp_kineto_steps *steps, struct fsdp_recording *recording)
{
	size_t count = steps->list.count;
	struct fsdp_step *list = FSDP_TAKE(steps->arena, list, count);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		size_t used = 0;
		for (int type = 0; step->sums != NULL && type < FSDP_TIME_COUNT; type++) {
			if (step->sums[type].count == 0)
				continue;
			step->sums[used] = step->sums[type];
			step->sums[used++].name =
				fsdp_time_type_name((enum fsdp_time_type)type);
		}
		list[i] = (struct fsdp_step){ step->number, step->ts_ns, step->dur_ns,
			step->sums, used };
	}
	recording->steps = list;
	recording->step_count = count;
	return true;
}
