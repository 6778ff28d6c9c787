/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Busy times of a trace: lists of intervals, and what they say together.
 */
#include "trace/kineto-busy.h"

void fsdp_kineto_busy_init(struct fsdp_kineto_busy *busy, struct fsdp_budget *budget)
{
	for (int kind = 0; kind < FSDP_KINETO_KINDS; kind++)
		fsdp_intervals_init(&busy->lists[kind], budget);
}

void fsdp_kineto_busy_done(struct fsdp_kineto_busy *busy)
{
	for (int kind = 0; kind < FSDP_KINETO_KINDS; kind++)
		fsdp_intervals_done(&busy->lists[kind]);
}

bool fsdp_kineto_busy_settle(struct fsdp_kineto_busy *busy)
{
	bool good = true;
	for (int kind = 0; good && kind < FSDP_KINETO_KINDS; kind++)
		good = fsdp_intervals_settle(&busy->lists[kind]);
	return good;
}

bool fsdp_kineto_busy_clip(struct fsdp_kineto_busy *busy, const struct fsdp_intervals *to)
{
	bool good = true;
	for (int kind = 0; good && kind < FSDP_KINETO_KINDS; kind++)
		good = fsdp_intervals_clip(&busy->lists[kind], to);
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

/* The next interval of all lists of the device by its begin, or NULL. */
static const struct fsdp_interval *next_of(
	const struct fsdp_kineto_busy *busy, size_t at[FSDP_KINETO_DEVICE])
{
	const struct fsdp_interval *next = NULL;
	int of = 0;
	for (int kind = 0; kind < FSDP_KINETO_DEVICE; kind++) {
		const struct fsdp_intervals *list = &busy->lists[kind];
		if (at[kind] == list->list.count)
			continue;
		const struct fsdp_interval *one = fsdp_interval_at(list, at[kind]);
		if (next == NULL || one->begin < next->begin) {
			next = one;
			of = kind;
		}
	}
	at[of] += next != NULL;
	return next;
}

/* The length of the union of the lists of the device, and its pieces to `strip` unless
 * that is NULL. The union is as long as all lists together, so it is never kept. */
static int64_t unite(const struct fsdp_kineto_busy *busy, struct fsdp_strip *strip)
{
	size_t at[FSDP_KINETO_DEVICE] = { 0 };
	int64_t sum = 0;
	const struct fsdp_interval *one = next_of(busy, at);
	while (one != NULL) {
		struct fsdp_interval now = *one;
		while ((one = next_of(busy, at)) != NULL && one->begin <= now.end)
			now.end = one->end > now.end ? one->end : now.end;
		sum += now.end - now.begin;
		if (strip != NULL)
			fsdp_strip_add(strip, FSDP_STRIP_IDLE, now.begin, now.end);
	}
	return sum;
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

void fsdp_kineto_busy_strip(const struct fsdp_kineto_busy *busy,
	enum fsdp_kineto_kind kind, struct fsdp_strip *strip, unsigned type)
{
	const struct fsdp_intervals *list = &busy->lists[kind];
	for (size_t i = 0; i < list->list.count; i++) {
		const struct fsdp_interval *one = fsdp_interval_at(list, i);
		fsdp_strip_add(strip, type, one->begin, one->end);
	}
}

void fsdp_kineto_busy_idle(const struct fsdp_kineto_busy *busy, struct fsdp_strip *strip)
{
	unite(busy, strip);
	fsdp_strip_settle_idle(strip);
}
