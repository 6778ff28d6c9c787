/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cycles of the profiler: the runs to which several traces of a rank belong.
 */
#include <stdlib.h>

#include "trace/cycles.h"

/* The traces of one rank: a part of the list. */
struct cycles {
	struct fsdp_recording **list;
	size_t count;
	bool timed; /* absolute times are known, and it is in order of them */
};

/* Of 2001: no clock that counts from the start of a host is that far. */
static const int64_t EPOCH_NS = INT64_C(1000000000) * 1000000000;

/* What is to be added to the times. Before PyTorch 2.3 a trace has no base, and they count
 * from 1970. */
static int64_t base_of(const struct fsdp_recording *one)
{
	bool absolute = one->base_ns == FSDP_ABSENT && one->first_ts_ns >= EPOCH_NS;
	return absolute ? 0 : one->base_ns;
}

static bool has_time(const struct fsdp_recording *one)
{
	int64_t base = base_of(one), end;
	return base != FSDP_ABSENT && one->first_ts_ns != FSDP_ABSENT &&
	       !__builtin_add_overflow(base, one->last_end_ns, &end);
}

static int64_t begin_of(const struct fsdp_recording *one)
{
	return base_of(one) + one->first_ts_ns;
}

static int compare_times(const void *a, const void *b)
{
	const struct fsdp_recording *left = *(struct fsdp_recording *const *)a;
	const struct fsdp_recording *right = *(struct fsdp_recording *const *)b;
	int64_t x = begin_of(left), y = begin_of(right);
	if (x != y)
		return x < y ? -1 : 1;
	return left->input < right->input ? -1 : left->input > right->input;
}

/* Whether ranks of a run are set against each other by what is recorded of them. */
static bool is_compared(const struct fsdp_recording *one)
{
	return one->kind == FSDP_RECORDING_KINETO ||
	       one->kind == FSDP_RECORDING_EXEC_ORDER;
}

/* Those of the rank that comes first, in order of time if that is known. */
static struct cycles cycles_of(struct fsdp_recording **list, size_t count)
{
	struct cycles cycles = { list, 1, has_time(list[0]) };
	if (!is_compared(list[0]))
		return cycles;
	for (; cycles.count < count && list[cycles.count]->rank == list[0]->rank &&
		list[cycles.count]->kind == list[0]->kind;
		cycles.count++)
		cycles.timed &= has_time(list[cycles.count]);
	if (cycles.timed)
		qsort(list, cycles.count, sizeof *list, compare_times);
	return cycles;
}

static uint64_t distance(const struct fsdp_recording *a, const struct fsdp_recording *b)
{
	int64_t x = begin_of(a), y = begin_of(b);
	return x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y;
}

/* The run of each: the nearest of those that leave enough for the ones behind it. */
static void place(
	const struct cycles *cycles, const struct cycles *most, size_t *ret_run_of)
{
	bool near = cycles->timed && most->timed && cycles->count < most->count;
	size_t next = 0;
	for (size_t i = 0; i < cycles->count; i++, next++) {
		size_t last = most->count - (cycles->count - i);
		for (size_t run = next + 1; near && run <= last; run++)
			if (distance(cycles->list[i], most->list[run]) <
				distance(cycles->list[i], most->list[next]))
				next = run;
		ret_run_of[cycles->list[i]->input] = next;
	}
}

/* The runs of one job, from `first`; how many. */
static size_t number_job(
	struct fsdp_recording **sorted, size_t count, size_t first, size_t *ret_run_of)
{
	struct cycles most = { NULL, 1, false }, one;
	for (size_t i = 0; i < count; i += one.count) {
		one = cycles_of(&sorted[i], count - i);
		if (most.list == NULL || one.count > most.count)
			most = one;
	}
	for (size_t i = 0; i < count; i += one.count) {
		one = cycles_of(&sorted[i], count - i);
		place(&one, &most, ret_run_of);
		for (size_t j = 0; j < one.count; j++)
			ret_run_of[one.list[j]->input] += first;
	}
	return most.count;
}

/* How many ranks the job has that a recording is of. Nothing sets the others against
 * recordings of other ranks. */
static int64_t world_of(const struct fsdp_recording *one)
{
	return is_compared(one) ? one->world_size : FSDP_ABSENT;
}

static int compare_worlds(const void *a, const void *b)
{
	const struct fsdp_recording *left = *(struct fsdp_recording *const *)a;
	const struct fsdp_recording *right = *(struct fsdp_recording *const *)b;
	int64_t x = world_of(left), y = world_of(right);
	if (x != y)
		return x < y ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->input < right->input ? -1 : left->input > right->input;
}

/* Whether they are known to be of several jobs. If not, what does not tell is of the same
 * as the others. */
static bool have_worlds(struct fsdp_recording *const *list, size_t count)
{
	int64_t first = FSDP_ABSENT;
	for (size_t i = 0; i < count; i++) {
		int64_t world = world_of(list[i]);
		if (world != FSDP_ABSENT && first != FSDP_ABSENT && world != first)
			return true;
		first = world != FSDP_ABSENT ? world : first;
	}
	return false;
}

/* The first in time, or else of the paths, that is of no run yet; `count`: none. */
static size_t find_first(
	struct fsdp_recording *const *list, size_t count, const size_t *run_of)
{
	size_t first = count;
	bool timed = true;
	for (size_t i = 0; i < count; i++)
		timed &= has_time(list[i]);
	for (size_t i = 0; i < count; i++)
		if (run_of[list[i]->input] == SIZE_MAX &&
			(first == count ||
				(timed ? compare_times(&list[i], &list[first]) < 0
				       : list[i]->input < list[first]->input)))
			first = i;
	return first;
}

size_t fsdp_trace_number_runs(
	struct fsdp_recording **sorted, size_t count, size_t *ret_run_of)
{
	size_t runs = 0, at;
	if (!have_worlds(sorted, count))
		return number_job(sorted, count, 0, ret_run_of);
	qsort(sorted, count, sizeof *sorted, compare_worlds);
	for (size_t i = 0; i < count; i++)
		ret_run_of[sorted[i]->input] = SIZE_MAX;
	while ((at = find_first(sorted, count, ret_run_of)) != count) {
		int64_t world = world_of(sorted[at]);
		size_t first = at, next = at + 1;
		while (first != 0 && world_of(sorted[first - 1]) == world)
			first--;
		while (next != count && world_of(sorted[next]) == world)
			next++;
		runs += number_job(&sorted[first], next - first, runs, ret_run_of);
	}
	return runs;
}
