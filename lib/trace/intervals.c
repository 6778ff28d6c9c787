/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows unions of intervals; knows nothing of what happened in them.
 *
 * Lengths fit: the ends of all intervals are 64 bits, and what is disjoint lies between
 * the first and the last.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/intervals.h"

enum { LATE_LEAST = 4096, ROOM_LEAST = 256 };

void fsdp_intervals_init(struct fsdp_intervals *intervals, struct fsdp_budget *budget)
{
	*intervals = (struct fsdp_intervals){ .budget = budget };
}

/* What they take counts like what arenas take. */
static bool grow(struct fsdp_budget *budget, struct fsdp_interval **list, size_t *room)
{
	size_t more = *room < ROOM_LEAST ? ROOM_LEAST : *room / 2;
	uint64_t bytes = more * sizeof **list;
	if (bytes > budget->ceiling || budget->used > budget->ceiling - bytes) {
		budget->over = true;
		return false;
	}
	struct fsdp_interval *bigger = reallocarray(*list, *room + more, sizeof **list);
	if (bigger == NULL)
		return false;
	budget->used += bytes;
	*list = bigger;
	*room += more;
	return true;
}

void fsdp_intervals_done(struct fsdp_intervals *intervals)
{
	if (intervals->budget == NULL)
		return;
	intervals->budget->used -=
		(intervals->room + intervals->late_room) * sizeof *intervals->list;
	free(intervals->list);
	free(intervals->late);
	*intervals = (struct fsdp_intervals){ .budget = intervals->budget };
}

static int compare(const void *a, const void *b)
{
	const struct fsdp_interval *left = a, *right = b;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	return left->end < right->end ? -1 : left->end > right->end;
}

/* Behind the last one of `count`, or into it. */
static size_t put(struct fsdp_interval *list, size_t count, struct fsdp_interval one)
{
	if (count != 0 && one.begin <= list[count - 1].end) {
		if (one.end > list[count - 1].end)
			list[count - 1].end = one.end;
		return count;
	}
	list[count] = one;
	return count + 1;
}

bool fsdp_intervals_settle(struct fsdp_intervals *intervals)
{
	if (intervals->late_count == 0)
		return true;
	qsort(intervals->late, intervals->late_count, sizeof *intervals->late, compare);
	size_t late = 0;
	for (size_t i = 0; i < intervals->late_count; i++)
		late = put(intervals->late, late, intervals->late[i]);
	while (intervals->room < intervals->count + late)
		if (!grow(intervals->budget, &intervals->list, &intervals->room))
			return false;
	/* From the back, so that the list itself has room for both; then once more from
	 * the front, joining what overlaps. */
	size_t a = intervals->count, b = late, to = a + b;
	while (b != 0) {
		bool from_list = a != 0 && compare(&intervals->list[a - 1],
						   &intervals->late[b - 1]) > 0;
		intervals->list[--to] =
			from_list ? intervals->list[--a] : intervals->late[--b];
	}
	size_t total = intervals->count + late, count = 0;
	for (size_t i = 0; i < total; i++)
		count = put(intervals->list, count, intervals->list[i]);
	intervals->count = count;
	intervals->late_count = 0;
	return true;
}

/* Whether one of the list holds it already. */
static bool is_inside(const struct fsdp_intervals *intervals, int64_t begin, int64_t end)
{
	size_t low = 0, high = intervals->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (intervals->list[middle].begin <= begin)
			low = middle + 1;
		else
			high = middle;
	}
	return low != 0 && intervals->list[low - 1].end >= end;
}

bool fsdp_intervals_add(struct fsdp_intervals *intervals, int64_t begin, int64_t end)
{
	struct fsdp_interval one = { begin, end };
	size_t count = intervals->count;
	if (count == 0 || begin >= intervals->list[count - 1].begin) {
		if (count == intervals->room &&
			!grow(intervals->budget, &intervals->list, &intervals->room))
			return false;
		intervals->count = put(intervals->list, count, one);
		return true;
	}
	if (is_inside(intervals, begin, end))
		return true;
	if (intervals->late_count >= LATE_LEAST && intervals->late_count >= count / 4 &&
		!fsdp_intervals_settle(intervals))
		return false;
	if (intervals->late_count == intervals->late_room &&
		!grow(intervals->budget, &intervals->late, &intervals->late_room))
		return false;
	intervals->late[intervals->late_count++] = one;
	return true;
}

bool fsdp_intervals_join(
	struct fsdp_intervals *intervals, const struct fsdp_intervals *more)
{
	for (size_t i = 0; i < more->count; i++)
		if (!fsdp_intervals_add(
			    intervals, more->list[i].begin, more->list[i].end))
			return false;
	return true;
}

bool fsdp_intervals_clip(
	struct fsdp_intervals *intervals, const struct fsdp_intervals *to)
{
	struct fsdp_intervals clipped;
	size_t i = 0, j = 0;
	bool good = true;
	fsdp_intervals_init(&clipped, intervals->budget);
	while (good && i < intervals->count && j < to->count) {
		const struct fsdp_interval *one = &intervals->list[i],
					   *other = &to->list[j];
		int64_t begin = one->begin > other->begin ? one->begin : other->begin;
		int64_t end = one->end < other->end ? one->end : other->end;
		if (begin < end)
			good = fsdp_intervals_add(&clipped, begin, end);
		if (one->end < other->end)
			i++;
		else
			j++;
	}
	fsdp_intervals_done(intervals);
	*intervals = clipped;
	return good;
}

int64_t fsdp_intervals_length(const struct fsdp_intervals *intervals)
{
	int64_t sum = 0;
	for (size_t i = 0; i < intervals->count; i++)
		sum += intervals->list[i].end - intervals->list[i].begin;
	return sum;
}

int64_t fsdp_intervals_common(
	const struct fsdp_intervals *a, const struct fsdp_intervals *b)
{
	int64_t sum = 0;
	size_t i = 0, j = 0;
	while (i < a->count && j < b->count) {
		const struct fsdp_interval *one = &a->list[i], *other = &b->list[j];
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
