/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by row and step.
 */
#include <stdlib.h>

#include "trace/durations.h"
#include "trace/kineto-step-sums.h"

struct fsdp_step_sum {
	uint32_t row; /* later its place */
	struct fsdp_step_time time;
};

static struct fsdp_step_sum *sum_at(const struct fsdp_step_sums *sums, size_t index)
{
	return fsdp_vec_at(&sums->list, index);
}

void fsdp_step_sums_init(struct fsdp_step_sums *sums, struct fsdp_arena *arena)
{
	sums->overflow = false;
	fsdp_vec_init(&sums->list, arena, sizeof(struct fsdp_step_sum));
	fsdp_vec_init(&sums->last, arena, sizeof(uint32_t));
}

static void add_time(struct fsdp_step_sums *sums, struct fsdp_step_time *time,
	const struct fsdp_step_time *more)
{
	time->count += more->count;
	fsdp_sum_ns(&time->ns, more->ns, &sums->overflow);
	if (time->exposed_ns != FSDP_ABSENT)
		fsdp_sum_ns(&time->exposed_ns, more->exposed_ns, &sums->overflow);
}

bool fsdp_step_sums_add(struct fsdp_step_sums *sums, uint32_t row, int64_t step,
	int64_t ns, int64_t exposed_ns)
{
	const struct fsdp_step_sum one = { row, { step, 1, ns, exposed_ns } };
	while (sums->last.count <= row)
		if (fsdp_vec_push(&sums->last) == NULL)
			return false;
	uint32_t *last = fsdp_vec_at(&sums->last, row);
	if (*last != 0 && sum_at(sums, *last - 1)->time.step == step) {
		add_time(sums, &sum_at(sums, *last - 1)->time, &one.time);
		return true;
	}
	if (sums->list.count == UINT32_MAX || !fsdp_vec_add(&sums->list, &one))
		return false;
	*last = (uint32_t)sums->list.count;
	return true;
}

void fsdp_step_sums_forget(struct fsdp_step_sums *sums)
{
	fsdp_vec_truncate(&sums->list, 0);
	for (size_t i = 0; i < sums->last.count; i++)
		*(uint32_t *)fsdp_vec_at(&sums->last, i) = 0;
}

static int compare(const void *a, const void *b)
{
	const struct fsdp_step_sum *left = a, *right = b;
	if (left->row != right->row)
		return left->row < right->row ? -1 : 1;
	return left->time.step < right->time.step ? -1
						  : left->time.step > right->time.step;
}

bool fsdp_step_sums_list(struct fsdp_step_sums *sums, const uint32_t *places,
	struct fsdp_arena *arena, struct fsdp_step_list *ret_lists)
{
	size_t count = sums->list.count, kept = 0;
	struct fsdp_step_time *times = FSDP_TAKE(arena, times, count);
	struct fsdp_step_sum *all = malloc((count + 1) * sizeof *all);
	bool good = times != NULL && all != NULL;
	for (size_t i = 0; good && i < count; i++) {
		all[kept] = *sum_at(sums, i);
		if (places != NULL)
			all[kept].row = places[all[kept].row];
		kept += all[kept].row != UINT32_MAX;
	}
	if (good && kept != 0)
		qsort(all, kept, sizeof *all, compare);
	for (size_t i = 0, next = 0; good && i < kept; i++) {
		struct fsdp_step_list *of = &ret_lists[all[i].row];
		if (i != 0 && compare(&all[i - 1], &all[i]) == 0) {
			add_time(sums, &times[next - 1], &all[i].time);
			continue;
		}
		times[next] = all[i].time;
		if (of->count++ == 0)
			of->times = &times[next];
		next++;
	}
	free(all);
	return good;
}
