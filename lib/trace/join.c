/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins what the ranks of a set say: sums of times over all, the timeline, collectives
 * and orders that are set against each other, and the findings that follow.
 */
#include <stdlib.h>

#include "trace/join.h"
#include "trace/match.h"
#include "trace/kineto-units.h"

static int compare_ranks(const void *a, const void *b)
{
	const struct fsdp_recording *left = *(struct fsdp_recording *const *)a;
	const struct fsdp_recording *right = *(struct fsdp_recording *const *)b;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->input < right->input ? -1 : left->input > right->input;
}

void fsdp_trace_sort(struct fsdp_recording **recordings, size_t count)
{
	qsort(recordings, count, sizeof *recordings, compare_ranks);
}

const struct fsdp_trace_reading *fsdp_trace_reading_of(
	const struct fsdp_recording *recording)
{
	const char *begin = (const char *)recording;
	return (const void *)(begin - offsetof(struct fsdp_trace_reading, recording));
}

/* Types that have names of their own come first, in their order; others as they come. */
struct joined_type {
	struct fsdp_span name;
	struct fsdp_durations durations;
	enum fsdp_time_type type;
	size_t order;
};

static int compare_joined(const void *a, const void *b)
{
	const struct joined_type *left = *(struct joined_type *const *)a;
	const struct joined_type *right = *(struct joined_type *const *)b;
	if (left->type != right->type)
		return left->type < right->type ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static bool join_one(struct fsdp_joined *set, struct fsdp_names *names,
	struct fsdp_vec *list, const struct fsdp_recording *recording)
{
	const struct fsdp_trace_reading *reading = fsdp_trace_reading_of(recording);
	for (size_t i = 0; i < recording->type_count; i++) {
		struct fsdp_span name = recording->types[i].name;
		uint32_t id = fsdp_names_child(names, 0, name);
		if (id == FSDP_NONE)
			return false;
		if (id > list->count) {
			struct joined_type *fresh = fsdp_vec_push(list);
			if (fresh == NULL)
				return false;
			*fresh = (struct joined_type){ .name = name,
				.type = fsdp_time_type_of(name),
				.order = list->count };
			fsdp_durations_init(&fresh->durations, set->arena->budget);
		}
		struct joined_type *joined = fsdp_vec_at(list, id - 1);
		if (!fsdp_durations_join(&joined->durations, &reading->durations[i]))
			return false;
	}
	return true;
}

static bool take_joined(struct fsdp_joined *set, const struct fsdp_vec *list)
{
	struct joined_type **order = FSDP_TAKE(set->arena, order, list->count);
	set->types = FSDP_TAKE(set->arena, set->types, list->count);
	if (order == NULL || set->types == NULL)
		return false;
	for (size_t i = 0; i < list->count; i++)
		order[i] = fsdp_vec_at(list, i);
	qsort(order, list->count, sizeof *order, compare_joined);
	for (size_t i = 0; i < list->count; i++) {
		set->types[i].name = order[i]->name;
		if (!fsdp_durations_times(&order[i]->durations, &set->types[i].times))
			return false;
	}
	set->type_count = list->count;
	return true;
}

/* A single recording says already what all of them say. */
static bool join_types(struct fsdp_joined *set)
{
	struct fsdp_names names;
	struct fsdp_vec list;
	if (set->count == 1) {
		const struct fsdp_recording *only = set->by_rank[0];
		set->types = FSDP_TAKE(set->arena, set->types, only->type_count);
		if (set->types == NULL)
			return false;
		if (only->type_count != 0)
			memcpy(set->types, only->types,
				only->type_count * sizeof *set->types);
		set->type_count = only->type_count;
		return true;
	}
	fsdp_vec_init(&list, set->arena, sizeof(struct joined_type));
	bool good = fsdp_names_init(&names, set->arena);
	for (size_t i = 0; good && i < set->count; i++)
		good = join_one(set, &names, &list, set->by_rank[i]);
	good = good && take_joined(set, &list);
	for (size_t i = 0; i < list.count; i++)
		fsdp_durations_done(
			&((struct joined_type *)fsdp_vec_at(&list, i))->durations);
	return good;
}

static bool join_strips(struct fsdp_joined *set)
{
	const struct fsdp_strip **strips =
		malloc((set->count + 1) * sizeof(struct fsdp_strip *));
	for (size_t i = 0; strips != NULL && i < set->count; i++)
		strips[i] = &fsdp_trace_reading_of(set->by_rank[i])->strip;
	bool good = strips != NULL &&
		    fsdp_timeline_make(set->by_rank, strips, set->count,
			    set->matching.aligned, set->arena, &set->timeline);
	free(strips);
	return good;
}

/* Of the recording that was named first. */
static const char *first_path(const struct fsdp_joined *set)
{
	const struct fsdp_recording *first = set->by_rank[0];
	for (size_t i = 1; i < set->count; i++)
		if (set->by_rank[i]->input < first->input)
			first = set->by_rank[i];
	return first->path;
}

/* What is about all of them stands at the first one. */
static void judge_ranks(struct fsdp_joined *set, struct fsdp_span path)
{
	if (set->matching.stopped != FSDP_ABSENT)
		fsdp_find(&set->findings, FSDP_RULE_MATCHING_STOPPED,
			FSDP_PLACE(.file = path),
			"from collective %lld on the ranks cannot be set against each other (%s)",
			(long long)set->matching.stopped, set->matching.stopped_why);
	if (!set->divergence.agree)
		fsdp_find(&set->findings, FSDP_RULE_ORDER_RANKS_DIFFER,
			FSDP_PLACE(.file = path), "%.*s",
			FSDP_TEXT(set->divergence.message));
}

bool fsdp_trace_join(struct fsdp_recording **by_rank, size_t count,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_joined *ret_joined, struct fsdp_error **ret_error)
{
	struct fsdp_joined *set = ret_joined;
	*set = (struct fsdp_joined){ .arena = arena, .by_rank = by_rank, .count = count };
	fsdp_findings_init(&set->findings, arena, limits);
	bool good =
		join_types(set) &&
		fsdp_match_collectives(by_rank, count, arena, &set->matching) &&
		join_strips(set) &&
		fsdp_unit_rows_join(
			by_rank, count, arena, &set->units, &set->unit_count) &&
		fsdp_match_orders(by_rank, count, arena, &set->divergence, &set->diff);
	if (good)
		judge_ranks(set, fsdp_span_text(first_path(set)));
	return (good && !set->findings.lost) || fsdp_arena_fail(arena, ret_error);
}
