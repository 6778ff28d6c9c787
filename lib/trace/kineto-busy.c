/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Busy times of a trace: lists of intervals, and what they say together.
 */
#include <stdlib.h>

#include "trace/kineto-busy.h"

void fsdp_kineto_busy_init(
	struct fsdp_kineto_busy *busy, struct fsdp_budget *budget, bool by_copy)
{
	busy->by_copy = by_copy;
	for (int kind = 0; kind < FSDP_KINETO_KINDS; kind++)
		fsdp_intervals_init(&busy->lists[kind], budget);
	for (int copy = 0; copy < FSDP_KINETO_COPIES; copy++)
		fsdp_intervals_init(&busy->copies[copy], budget);
}

void fsdp_kineto_busy_done(struct fsdp_kineto_busy *busy)
{
	for (int kind = 0; kind < FSDP_KINETO_KINDS; kind++)
		fsdp_intervals_done(&busy->lists[kind]);
	for (int copy = 0; copy < FSDP_KINETO_COPIES; copy++)
		fsdp_intervals_done(&busy->copies[copy]);
}

static const enum fsdp_time_type copies[FSDP_KINETO_COPIES] = { FSDP_TIME_H2D,
	FSDP_TIME_D2H, FSDP_TIME_D2D, FSDP_TIME_P2P, FSDP_TIME_HTOH, FSDP_TIME_MEMSET };

void fsdp_kineto_busy_forget(struct fsdp_kineto_busy *busy)
{
	fsdp_intervals_done(&busy->lists[FSDP_KINETO_COMPUTE]);
	fsdp_intervals_done(&busy->lists[FSDP_KINETO_MEMORY]);
	for (int copy = 0; copy < FSDP_KINETO_COPIES; copy++)
		fsdp_intervals_done(&busy->copies[copy]);
}

bool fsdp_kineto_busy_add(struct fsdp_kineto_busy *busy, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns)
{
	int64_t end_ns = ts_ns + dur_ns;
	enum fsdp_kineto_kind kind =
		type == FSDP_TIME_COMPUTE ? FSDP_KINETO_COMPUTE : FSDP_KINETO_COMM;
	for (int copy = 0; copy < FSDP_KINETO_COPIES; copy++) {
		if (copies[copy] != type)
			continue;
		kind = FSDP_KINETO_MEMORY;
		if (busy->by_copy &&
			!fsdp_intervals_add(&busy->copies[copy], ts_ns, end_ns))
			return false;
	}
	return fsdp_intervals_add(&busy->lists[kind], ts_ns, end_ns);
}

bool fsdp_kineto_busy_settle(struct fsdp_kineto_busy *busy)
{
	bool good = true;
	for (int kind = 0; good && kind < FSDP_KINETO_KINDS; kind++)
		good = fsdp_intervals_settle(&busy->lists[kind]);
	for (int copy = 0; good && copy < FSDP_KINETO_COPIES; copy++)
		good = fsdp_intervals_settle(&busy->copies[copy]);
	return good;
}

bool fsdp_kineto_busy_extent(const struct fsdp_kineto_busy *busy, bool device,
	int64_t *ret_begin, int64_t *ret_end)
{
	*ret_begin = INT64_MAX;
	*ret_end = INT64_MIN;
	for (int kind = 0; kind < FSDP_KINETO_KINDS; kind++) {
		const struct fsdp_intervals *list = &busy->lists[kind];
		size_t count = list->list.count;
		if (count == 0 || device != (kind < FSDP_KINETO_DEVICE))
			continue;
		const struct fsdp_interval *first = fsdp_interval_at(list, 0);
		const struct fsdp_interval *last = fsdp_interval_at(list, count - 1);
		*ret_begin = first->begin < *ret_begin ? first->begin : *ret_begin;
		*ret_end = last->end > *ret_end ? last->end : *ret_end;
	}
	return *ret_begin < *ret_end;
}

/* A walk over the union of some lists of the device. The union is as long as all of them
 * together, so it is never kept. */
struct walk {
	const struct fsdp_kineto_busy *busy;
	unsigned kinds; /* a bit each */
	size_t at[FSDP_KINETO_DEVICE];
	const struct fsdp_interval *next;
};

/* The next interval of the lists by its begin, or NULL. */
static const struct fsdp_interval *next_of(struct walk *walk)
{
	const struct fsdp_interval *next = NULL;
	int of = 0;
	for (int kind = 0; kind < FSDP_KINETO_DEVICE; kind++) {
		const struct fsdp_intervals *list = &walk->busy->lists[kind];
		if ((walk->kinds >> kind & 1) == 0 || walk->at[kind] == list->list.count)
			continue;
		const struct fsdp_interval *one = fsdp_interval_at(list, walk->at[kind]);
		if (next == NULL || one->begin < next->begin) {
			next = one;
			of = kind;
		}
	}
	walk->at[of] += next != NULL;
	return next;
}

static void walk_begin(
	struct walk *walk, const struct fsdp_kineto_busy *busy, unsigned kinds)
{
	*walk = (struct walk){ .busy = busy, .kinds = kinds };
	walk->next = next_of(walk);
}

/* The next interval of the union. */
static bool walk_next(struct walk *walk, struct fsdp_interval *ret_one)
{
	if (walk->next == NULL)
		return false;
	*ret_one = *walk->next;
	while ((walk->next = next_of(walk)) != NULL && walk->next->begin <= ret_one->end)
		ret_one->end =
			walk->next->end > ret_one->end ? walk->next->end : ret_one->end;
	return true;
}

enum { ALL_KINDS = (1 << FSDP_KINETO_DEVICE) - 1 };

/* The length of the union of the lists of the device, and its pieces to `strip` unless
 * that is NULL. */
static int64_t unite(const struct fsdp_kineto_busy *busy, struct fsdp_strip *strip)
{
	struct fsdp_interval one;
	struct walk walk;
	int64_t sum = 0;
	walk_begin(&walk, busy, ALL_KINDS);
	while (walk_next(&walk, &one)) {
		sum += one.end - one.begin;
		if (strip != NULL)
			fsdp_strip_add(strip, FSDP_STRIP_IDLE, one.begin, one.end);
	}
	return sum;
}

/* ---- within windows ---- */

/* The begin or the end of a window. */
struct bound {
	int64_t at;
	size_t window;
	bool is_end;
};

static int compare_bounds(const void *a, const void *b)
{
	const struct bound *left = a, *right = b;
	return left->at < right->at ? -1 : left->at > right->at;
}

/* How long the union of some kinds is within each window: the difference of what lies
 * before its two bounds. */
static void cover(const struct fsdp_kineto_busy *busy, unsigned kinds,
	const struct bound *bounds, size_t count, int64_t *ret_ns)
{
	struct fsdp_interval one;
	struct walk walk;
	int64_t before = 0;
	walk_begin(&walk, busy, kinds);
	bool any = walk_next(&walk, &one);
	for (size_t i = 0; i < count; i++) {
		for (; any && one.end <= bounds[i].at; any = walk_next(&walk, &one))
			before += one.end - one.begin;
		int64_t part =
			any && one.begin < bounds[i].at ? bounds[i].at - one.begin : 0;
		ret_ns[bounds[i].window] +=
			bounds[i].is_end ? before + part : -(before + part);
	}
}

bool fsdp_kineto_busy_cover(const struct fsdp_kineto_busy *busy, unsigned kinds,
	const struct fsdp_interval *windows, size_t count, int64_t *ret_ns)
{
	struct bound *bounds = malloc((2 * count + 1) * sizeof *bounds);
	if (bounds == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		bounds[2 * i] = (struct bound){ windows[i].begin, i, false };
		bounds[2 * i + 1] = (struct bound){ windows[i].end, i, true };
		ret_ns[i] = 0;
	}
	if (count != 0)
		qsort(bounds, 2 * count, sizeof *bounds, compare_bounds);
	cover(busy, kinds, bounds, 2 * count, ret_ns);
	free(bounds);
	return true;
}

bool fsdp_kineto_busy_inside(const struct fsdp_kineto_busy *busy,
	const struct fsdp_interval *windows, size_t count,
	struct fsdp_device_times *ret_times)
{
	enum { COMM, COMPUTE, MEMORY, EITHER, ALL, SETS };
	static const unsigned kinds[SETS] = { 1 << FSDP_KINETO_COMM,
		1 << FSDP_KINETO_COMPUTE, 1 << FSDP_KINETO_MEMORY,
		1 << FSDP_KINETO_COMM | 1 << FSDP_KINETO_COMPUTE, ALL_KINDS };
	int64_t *ns = calloc(SETS * count + 1, sizeof *ns);
	bool good = ns != NULL;
	for (size_t set = 0; good && set < SETS; set++)
		good = fsdp_kineto_busy_cover(
			busy, kinds[set], windows, count, ns + set * count);
	for (size_t i = 0; good && i < count; i++) {
		struct fsdp_device_times *one = &ret_times[i];
		one->span_ns = windows[i].end - windows[i].begin;
		one->busy_ns = ns[ALL * count + i];
		one->idle_ns = one->span_ns - one->busy_ns;
		one->comm_busy_ns = ns[COMM * count + i];
		one->compute_busy_ns = ns[COMPUTE * count + i];
		one->mem_busy_ns = ns[MEMORY * count + i];
		one->exposed_ns = ns[EITHER * count + i] - one->compute_busy_ns;
		one->overlap_ns = one->comm_busy_ns - one->exposed_ns;
	}
	free(ns);
	return good;
}

bool fsdp_kineto_busy_device(
	const struct fsdp_kineto_busy *busy, struct fsdp_device_times *ret_times)
{
	const struct fsdp_intervals *comm = &busy->lists[FSDP_KINETO_COMM];
	const struct fsdp_intervals *compute = &busy->lists[FSDP_KINETO_COMPUTE];
	const struct fsdp_intervals *memory = &busy->lists[FSDP_KINETO_MEMORY];
	int64_t begin, end;
	if (comm->list.count + compute->list.count + memory->list.count == 0)
		return false;
	fsdp_kineto_busy_extent(busy, true, &begin, &end);
	ret_times->busy_ns = unite(busy, NULL);
	ret_times->span_ns = end - begin;
	ret_times->idle_ns = ret_times->span_ns - ret_times->busy_ns;
	ret_times->comm_busy_ns = fsdp_intervals_length(comm);
	ret_times->compute_busy_ns = fsdp_intervals_length(compute);
	ret_times->mem_busy_ns = fsdp_intervals_length(memory);
	ret_times->overlap_ns = fsdp_intervals_common(comm, compute);
	ret_times->exposed_ns = ret_times->comm_busy_ns - ret_times->overlap_ns;
	return true;
}

static void strip_list(
	const struct fsdp_intervals *list, struct fsdp_strip *strip, unsigned type)
{
	for (size_t i = 0; i < list->list.count; i++) {
		const struct fsdp_interval *one = fsdp_interval_at(list, i);
		fsdp_strip_add(strip, type, one->begin, one->end);
	}
}

void fsdp_kineto_busy_strip(const struct fsdp_kineto_busy *busy,
	enum fsdp_kineto_kind kind, struct fsdp_strip *strip, unsigned type)
{
	strip_list(&busy->lists[kind], strip, type);
}

void fsdp_kineto_busy_strip_copies(
	const struct fsdp_kineto_busy *busy, struct fsdp_strip *strip)
{
	for (int copy = 0; copy < FSDP_KINETO_COPIES; copy++)
		strip_list(&busy->copies[copy], strip, copies[copy]);
}

void fsdp_kineto_busy_idle(const struct fsdp_kineto_busy *busy, struct fsdp_strip *strip)
{
	unite(busy, strip);
	fsdp_strip_settle_idle(strip);
}
