/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unions of intervals.
 *
 * Lengths fit: the ends of all intervals are 64 bits, and what is disjoint lies between
 * the first and the last.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/intervals.h"

enum { LATE_LEAST = 4096, LATE_MOST = 64 << 10, ROOM_LEAST = 256 };

static void set_up(struct fsdp_intervals *intervals)
{
	fsdp_arena_init_lean(&intervals->arena, intervals->budget);
	fsdp_vec_init(&intervals->list, &intervals->arena, sizeof(struct fsdp_interval));
}

void fsdp_intervals_init(struct fsdp_intervals *intervals, struct fsdp_budget *budget)
{
	*intervals = (struct fsdp_intervals){ .budget = budget };
	set_up(intervals);
}

/* What they take counts like what arenas take. */
static bool make_room(struct fsdp_intervals *intervals)
{
	struct fsdp_budget *budget = intervals->budget;
	size_t room = intervals->late_room;
	size_t more = room < ROOM_LEAST ? ROOM_LEAST : room / 2;
	uint64_t bytes = more * sizeof *intervals->late;
	if (!fsdp_budget_spend(budget, bytes))
		return false;
	struct fsdp_interval *bigger =
		reallocarray(intervals->late, room + more, sizeof *bigger);
	if (bigger == NULL) {
		fsdp_budget_return(budget, bytes);
		return false;
	}
	intervals->late = bigger;
	intervals->late_room += more;
	return true;
}

void fsdp_intervals_done(struct fsdp_intervals *intervals)
{
	if (intervals->budget == NULL)
		return;
	fsdp_budget_return(
		intervals->budget, intervals->late_room * sizeof *intervals->late);
	fsdp_arena_done(&intervals->arena);
	free(intervals->late);
	fsdp_intervals_init(intervals, intervals->budget);
}

static int compare(const void *a, const void *b)
{
	const struct fsdp_interval *left = a, *right = b;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	return left->end < right->end ? -1 : left->end > right->end;
}

/* Joins `one` to `last` if they touch; it does not begin before. */
static bool joins(struct fsdp_interval *last, struct fsdp_interval one)
{
	if (one.begin > last->end)
		return false;
	if (one.end > last->end)
		last->end = one.end;
	return true;
}

static size_t join_late(struct fsdp_intervals *intervals)
{
	struct fsdp_interval *late = intervals->late;
	size_t count = 0;
	for (size_t i = 0; i < intervals->late_count; i++)
		if (count == 0 || !joins(&late[count - 1], late[i]))
			late[count++] = late[i];
	return count;
}

bool fsdp_intervals_settle(struct fsdp_intervals *intervals)
{
	if (intervals->late_count == 0)
		return true;
	qsort(intervals->late, intervals->late_count, sizeof *intervals->late, compare);
	size_t a = intervals->list.count, b = join_late(intervals), to = a + b;
	for (size_t i = 0; i < b; i++)
		if (fsdp_vec_push(&intervals->list) == NULL)
			return false;
	/* From the back, so that the list itself has room for both; then once more from
	 * the front, joining what overlaps. */
	size_t total = to, count = 0;
	while (b != 0) {
		bool from_list = a != 0 && compare(fsdp_interval_at(intervals, a - 1),
						   &intervals->late[b - 1]) > 0;
		*fsdp_interval_at(intervals, --to) =
			from_list ? *fsdp_interval_at(intervals, --a)
				  : intervals->late[--b];
	}
	for (size_t i = 0; i < total; i++) {
		struct fsdp_interval one = *fsdp_interval_at(intervals, i);
		if (count == 0 || !joins(fsdp_interval_at(intervals, count - 1), one))
			*fsdp_interval_at(intervals, count++) = one;
	}
	fsdp_vec_truncate(&intervals->list, count);
	intervals->late_count = 0;
	return true;
}

/* Whether one of the list holds it already. */
static bool is_inside(const struct fsdp_intervals *intervals, int64_t begin, int64_t end)
{
	size_t low = 0, high = intervals->list.count;
	FSDP_HALVE(
		low, high, middle, fsdp_interval_at(intervals, middle)->begin <= begin);
	return low != 0 && fsdp_interval_at(intervals, low - 1)->end >= end;
}

static bool is_late_full(const struct fsdp_intervals *intervals)
{
	return intervals->late_count >= LATE_MOST ||
	       (intervals->late_count >= LATE_LEAST &&
		       intervals->late_count >= intervals->list.count / 4);
}

bool fsdp_intervals_add(struct fsdp_intervals *intervals, int64_t begin, int64_t end)
{
	struct fsdp_interval one = { begin, end };
	size_t count = intervals->list.count;
	if (count == 0 || begin >= fsdp_interval_at(intervals, count - 1)->begin) {
		if (count != 0 && joins(fsdp_interval_at(intervals, count - 1), one))
			return true;
		struct fsdp_interval *fresh = fsdp_vec_push(&intervals->list);
		if (fresh != NULL)
			*fresh = one;
		return fresh != NULL;
	}
	if (is_inside(intervals, begin, end))
		return true;
	if (is_late_full(intervals) && !fsdp_intervals_settle(intervals))
		return false;
	if (intervals->late_count == intervals->late_room && !make_room(intervals))
		return false;
	intervals->late[intervals->late_count++] = one;
	return true;
}

int64_t fsdp_intervals_length(const struct fsdp_intervals *intervals)
{
	int64_t sum = 0;
	for (size_t i = 0; i < intervals->list.count; i++) {
		const struct fsdp_interval *one = fsdp_interval_at(intervals, i);
		sum += one->end - one->begin;
	}
	return sum;
}

int64_t fsdp_intervals_common(
	const struct fsdp_intervals *a, const struct fsdp_intervals *b)
{
	int64_t sum = 0;
	size_t i = 0, j = 0;
	while (i < a->list.count && j < b->list.count) {
		const struct fsdp_interval *one = fsdp_interval_at(a, i),
					   *other = fsdp_interval_at(b, j);
		int64_t begin = one->begin > other->begin ? one->begin : other->begin;
		int64_t end = one->end < other->end ? one->end : other->end;
		if (end > begin)
			sum += end - begin;
		if (one->end < other->end)
			i++;
		else
			j++;
	}
	return sum;
}
