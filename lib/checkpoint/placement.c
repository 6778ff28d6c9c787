/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a dimension as DTensor placements do. Arithmetic only.
 */
#include "base/num.h"
#include "checkpoint/model.h"

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* How far the old list was walked: the parts of a cut follow each other, so that all of
 * them together walk it once. */
struct reach {
	size_t run;
	int64_t at; /* positions before that run */
};

/* Appends positions [from, to) of the old list to the new one. */
static bool add_range(const struct fsdp_runs *old, struct reach *reach, int64_t from,
	int64_t to, struct fsdp_runs *taken)
{
	while (reach->run < old->count && reach->at < to) {
		const struct fsdp_run *run = &old->runs[reach->run];
		int64_t begin = from > reach->at ? from - reach->at : 0;
		int64_t end = least(run->count, to - reach->at);
		if (begin < end) {
			if (taken->count == FSDP_RUNS_MAX)
				return false;
			taken->runs[taken->count++] =
				(struct fsdp_run){ run->begin + begin, end - begin };
			taken->total += end - begin;
		}
		if (end < run->count)
			return true;
		reach->at += run->count;
		reach->run++;
	}
	return true;
}

/* The part of `length` positions that belongs to one of `ranks`. */
static void chunk(
	int64_t length, int64_t ranks, int64_t rank, int64_t *ret_begin, int64_t *ret_end)
{
	int64_t size = length / ranks + (length % ranks != 0);
	/* rank * size cannot overflow below length; beyond it the part is empty. */
	*ret_begin =
		size != 0 && rank > length / size ? length : least(length, rank * size);
	*ret_end = length - *ret_begin < size ? length : *ret_begin + size;
}

bool fsdp_placement_runs(int64_t length, int64_t dim, const struct fsdp_placed *placed,
	const int64_t *mesh_shape, const int64_t *coordinates, size_t mesh_dims,
	struct fsdp_arena *arena, struct fsdp_runs *ret_runs)
{
	struct fsdp_runs runs = { fsdp_arena_take(arena, sizeof(struct fsdp_run), 8), 1,
		length };
	if (runs.runs == NULL)
		return false;
	runs.runs[0] = (struct fsdp_run){ 0, length };
	for (size_t i = 0; i < mesh_dims; i++) {
		if ((placed[i].kind != FSDP_SHARD &&
			    placed[i].kind != FSDP_STRIDED_SHARD) ||
			placed[i].dim != dim)
			continue;
		if (mesh_shape[i] < 1 || coordinates[i] < 0 ||
			coordinates[i] >= mesh_shape[i])
			return false;
		struct fsdp_runs taken = { 0 };
		/* Each part of a cut touches at most all old runs, and together they
		 * cover them once. */
		uint64_t most = runs.count + 1;
		if (placed[i].kind == FSDP_STRIDED_SHARD && placed[i].factor > 0)
			most = runs.count +
			       (uint64_t)least(placed[i].factor, FSDP_RUNS_MAX);
		size_t room = (size_t)fsdp_min(most, FSDP_RUNS_MAX);
		taken.runs = FSDP_TAKE(arena, taken.runs, room + 1);
		if (taken.runs == NULL)
			return false;
		int64_t parts =
			placed[i].kind == FSDP_STRIDED_SHARD ? placed[i].factor : 1;
		if (parts < 1 || parts > FSDP_RUNS_MAX)
			return false;
		struct reach reach = { 0, 0 };
		for (int64_t part = 0; part < parts; part++) {
			int64_t part_begin, part_end, begin, end;
			chunk(runs.total, parts, part, &part_begin, &part_end);
			chunk(part_end - part_begin, mesh_shape[i], coordinates[i],
				&begin, &end);
			if (!add_range(&runs, &reach, part_begin + begin,
				    part_begin + end, &taken))
				return false;
		}
		runs = taken;
	}
	if (runs.count == 0) {
		runs.runs[0] = (struct fsdp_run){ length, 0 };
		runs.count = 1;
	}
	*ret_runs = runs;
	return true;
}
