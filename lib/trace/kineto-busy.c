/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the device was busy with what, as unions of intervals.
 *
 * Lengths fit: the ends of all intervals are 64 bits, and what is disjoint lies between
 * the first and the last.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/kineto-busy.h"

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

/*
 * Busy times of a trace: lists of intervals, and what they say together.
 */

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

/*
 * Keeps when the device computed, and when it was busy with collectives and nothing that
 * computes.
 */

static bool add(struct fsdp_vec *list, int64_t begin, int64_t end)
{
	struct fsdp_busy_span span = { begin, end };
	return begin >= end || fsdp_vec_add(list, &span);
}

static bool add_all(struct fsdp_vec *list, const struct fsdp_intervals *intervals)
{
	for (size_t i = 0; i < intervals->list.count; i++) {
		const struct fsdp_interval *one = fsdp_interval_at(intervals, i);
		if (!add(list, one->begin, one->end))
			return false;
	}
	return true;
}

/* Both are disjoint and in order, so each is looked at once. */
static bool add_outside(struct fsdp_vec *list, const struct fsdp_intervals *of,
	const struct fsdp_intervals *covers)
{
	size_t next = 0;
	for (size_t i = 0; i < of->list.count; i++) {
		struct fsdp_interval rest = *fsdp_interval_at(of, i);
		while (next < covers->list.count &&
			fsdp_interval_at(covers, next)->end <= rest.begin)
			next++;
		for (size_t k = next; k < covers->list.count; k++) {
			const struct fsdp_interval *cover = fsdp_interval_at(covers, k);
			if (cover->begin >= rest.end)
				break;
			if (!add(list, rest.begin, cover->begin))
				return false;
			rest.begin = cover->end;
			next = k;
		}
		if (!add(list, rest.begin, rest.end))
			return false;
	}
	return true;
}

static const struct fsdp_busy_span *flat(
	const struct fsdp_vec *list, struct fsdp_arena *arena)
{
	struct fsdp_busy_span *spans = FSDP_TAKE(arena, spans, list->count + 1);
	for (size_t i = 0; spans != NULL && i < list->count; i++)
		spans[i] = *(struct fsdp_busy_span *)fsdp_vec_at(list, i);
	return spans;
}

bool fsdp_kineto_spans_keep(const struct fsdp_kineto_busy *busy, struct fsdp_arena *arena,
	struct fsdp_recording *recording)
{
	const struct fsdp_intervals *compute = &busy->lists[FSDP_KINETO_COMPUTE];
	struct fsdp_vec computing, exposed;
	fsdp_vec_init(&computing, arena, sizeof(struct fsdp_busy_span));
	fsdp_vec_init(&exposed, arena, sizeof(struct fsdp_busy_span));
	if (!add_all(&computing, compute) ||
		!add_outside(&exposed, &busy->lists[FSDP_KINETO_COMM], compute))
		return false;
	recording->computing = flat(&computing, arena);
	recording->computing_count = computing.count;
	recording->exposed = flat(&exposed, arena);
	recording->exposed_count = exposed.count;
	return recording->computing != NULL && recording->exposed != NULL;
}
