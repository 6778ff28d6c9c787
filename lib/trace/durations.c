/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and percentiles of durations.
 */
#include <stdlib.h>

#include "base/sort.h"
#include "trace/event.h"

void fsdp_durations_init(struct fsdp_durations *durations, struct fsdp_budget *budget)
{
	*durations = (struct fsdp_durations){ .budget = budget };
	fsdp_arena_init_lean(&durations->arena, budget);
	fsdp_vec_init(&durations->values, &durations->arena, sizeof(int64_t));
}

void fsdp_durations_done(struct fsdp_durations *durations)
{
	if (durations->budget != NULL)
		fsdp_arena_done(&durations->arena);
}

void fsdp_durations_move(struct fsdp_durations *to, struct fsdp_durations *from)
{
	*to = *from;
	to->values.arena = &to->arena;
	*from = (struct fsdp_durations){ 0 };
}

bool fsdp_durations_add(struct fsdp_durations *durations, int64_t dur_ns)
{
	if (!fsdp_vec_add(&durations->values, &dur_ns))
		return false;
	bool first = durations->count++ == 0;
	if (first || dur_ns < durations->min_ns)
		durations->min_ns = dur_ns;
	if (first || dur_ns > durations->max_ns)
		durations->max_ns = dur_ns;
	fsdp_sum_ns(&durations->sum_ns, dur_ns, &durations->overflow);
	return true;
}

bool fsdp_durations_join(
	struct fsdp_durations *durations, const struct fsdp_durations *more)
{
	for (size_t i = 0; i < more->values.count; i++)
		if (!fsdp_durations_add(
			    durations, *(int64_t *)fsdp_vec_at(&more->values, i)))
			return false;
	return true;
}

/* The nth in order, without sorting all. Pivots are random: no order is a slow one. */
static int64_t select_nth(int64_t *values, size_t count, size_t nth)
{
	int64_t low = 0, high = (int64_t)count - 1;
	uint64_t random = count;
	while (low < high) {
		random = random * 6364136223846793005 + 1442695040888963407;
		int64_t i = low, j = high,
			pivot = values[low + (int64_t)((random >> 33) %
						       (uint64_t)(high - low + 1))];
		while (i <= j) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i > j)
				break;
			int64_t value = values[i];
			values[i++] = values[j];
			values[j--] = value;
		}
		if (j < (int64_t)nth)
			low = i;
		if ((int64_t)nth < i)
			high = j;
	}
	return values[nth];
}

bool fsdp_durations_times(
	const struct fsdp_durations *durations, struct fsdp_times *ret_times)
{
	size_t count = durations->count;
	*ret_times = (struct fsdp_times){ count, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT };
	if (count == 0)
		return true;
	if (!durations->overflow)
		ret_times->sum_ns = durations->sum_ns;
	ret_times->min_ns = durations->min_ns;
	ret_times->max_ns = durations->max_ns;
	int64_t *values = malloc(count * sizeof *values);
	if (values == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		values[i] = *(int64_t *)fsdp_vec_at(&durations->values, i);
	ret_times->p50_ns = select_nth(values, count, (50 * count + 99) / 100 - 1);
	ret_times->p95_ns = select_nth(values, count, (95 * count + 99) / 100 - 1);
	free(values);
	return true;
}

/* ---- by type ---- */

bool fsdp_types_init(struct fsdp_types *types, struct fsdp_arena *arena)
{
	fsdp_vec_init(&types->list, arena, sizeof(struct fsdp_typed));
	return fsdp_names_init(&types->names, arena);
}

void fsdp_types_done(struct fsdp_types *types)
{
	for (size_t i = 0; i < types->list.count; i++)
		fsdp_durations_done(&fsdp_types_at(types, i)->durations);
}

uint32_t fsdp_types_find(struct fsdp_types *types, struct fsdp_span name)
{
	uint32_t id = fsdp_names_child(&types->names, 0, name);
	if (id == FSDP_NONE || id <= types->list.count)
		return id != FSDP_NONE ? id - 1 : FSDP_NONE;
	struct fsdp_typed *fresh = fsdp_vec_push(&types->list);
	if (fresh == NULL)
		return FSDP_NONE;
	fresh->name = name;
	fsdp_durations_init(&fresh->durations, types->list.arena->budget);
	return id - 1;
}

/* ---- sums by row and column ---- */

struct time_sum {
	uint32_t row; /* later its place */
	struct fsdp_step_time time;
};

static struct time_sum *sum_at(const struct fsdp_time_sums *sums, size_t index)
{
	return fsdp_vec_at(&sums->list, index);
}

void fsdp_time_sums_init(struct fsdp_time_sums *sums, struct fsdp_arena *arena)
{
	sums->overflow = false;
	fsdp_vec_init(&sums->list, arena, sizeof(struct time_sum));
	fsdp_vec_init(&sums->last, arena, sizeof(uint32_t));
}

static void add_time(struct fsdp_time_sums *sums, struct fsdp_step_time *time,
	const struct fsdp_step_time *more)
{
	time->count += more->count;
	fsdp_sum_ns(&time->ns, more->ns, &sums->overflow);
	if (time->exposed_ns != FSDP_ABSENT)
		fsdp_sum_ns(&time->exposed_ns, more->exposed_ns, &sums->overflow);
}

bool fsdp_time_sums_add(struct fsdp_time_sums *sums, uint32_t row, int64_t column,
	int64_t ns, int64_t exposed_ns)
{
	const struct time_sum one = { row, { column, 1, ns, exposed_ns } };
	while (sums->last.count <= row)
		if (fsdp_vec_push(&sums->last) == NULL)
			return false;
	uint32_t *last = fsdp_vec_at(&sums->last, row);
	if (*last != 0 && sum_at(sums, *last - 1)->time.step == column) {
		add_time(sums, &sum_at(sums, *last - 1)->time, &one.time);
		return true;
	}
	if (sums->list.count == UINT32_MAX || !fsdp_vec_add(&sums->list, &one))
		return false;
	*last = (uint32_t)sums->list.count;
	return true;
}

bool fsdp_time_sums_list(struct fsdp_time_sums *sums, const uint32_t *places,
	struct fsdp_arena *arena, struct fsdp_step_list *ret_lists)
{
	size_t count = sums->list.count, kept = 0;
	struct fsdp_step_time *times = FSDP_TAKE(arena, times, count);
	struct time_sum *all = malloc((count + 1) * sizeof *all);
	bool good = times != NULL && all != NULL;
	for (size_t i = 0; good && i < count; i++) {
		all[kept] = *sum_at(sums, i);
		if (places != NULL)
			all[kept].row = places[all[kept].row];
		kept += all[kept].row != UINT32_MAX;
	}
	if (good)
		FSDP_SORT(all, kept, FSDP_BY(all, row), FSDP_BY(all, time.step));
	for (size_t i = 0, next = 0; good && i < kept; i++) {
		struct fsdp_step_list *of = &ret_lists[all[i].row];
		if (i != 0 && all[i - 1].row == all[i].row &&
			all[i - 1].time.step == all[i].time.step) {
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
