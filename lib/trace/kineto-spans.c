/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps when the device computed, and when it was busy with collectives and nothing that
 * computes.
 */
#include "trace/kineto-spans.h"

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
