/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the slices of ranks.
 */
#include <stdlib.h>

#include "naming/join-ranks.h"
#include "naming/map.h"

/* A slice, in the order of names, then of ranks. */
struct rank_slice {
	const struct fsdp_mapped *mapped;
	size_t at; /* in the list */
};

static int compare_slices(const void *left, const void *right)
{
	const struct rank_slice *a = left, *b = right;
	int order = fsdp_span_compare(a->mapped->name, b->mapped->name);
	if (order != 0)
		return order;
	return a->mapped->rank < b->mapped->rank ? -1 : a->mapped->rank > b->mapped->rank;
}

static bool fail_slice(
	const struct fsdp_mapped *mapped, const char *what, struct fsdp_error **ret_error)
{
	return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN, "%.*s %s",
		FSDP_TEXT_MOST(mapped->name, 200), what);
}

/* One slice a rank, all of one form. */
static bool check(const struct rank_slice *slices, size_t count, uint32_t ranks,
	struct fsdp_error **ret_error)
{
	const struct fsdp_mapped *first = slices[0].mapped;
	bool each = count == ranks, alike = true;
	for (size_t i = 0; i < count && each; i++) {
		const struct fsdp_mapped *other = slices[i].mapped;
		each = other->rank == i;
		alike = alike && other->dtype == first->dtype &&
			other->dims == first->dims && other->cut == first->cut &&
			(first->dims == 0 ||
				memcmp(other->shape, first->shape,
					first->dims * sizeof *first->shape) == 0);
	}
	if (!each)
		return fail_slice(first, "has not one slice of each rank", ret_error);
	return alike || fail_slice(first, "has another form in another rank", ret_error);
}

/* A slice as it is, as one run. */
static void fill_run(struct fsdp_block *block, struct fsdp_strand *strand,
	const struct fsdp_mapped *mapped)
{
	*strand = (struct fsdp_strand){
		.tensor = mapped->tensor,
		.counts = { 1, 1 },
		.run = mapped->numel,
	};
	*block = (struct fsdp_block){
		.turns = 1,
		.turn_numel = mapped->numel,
		.strands = strand,
		.count = 1,
	};
}

/* One behind the other. */
static bool join_rows(const struct rank_slice *slices, uint32_t ranks, int64_t *shape,
	struct fsdp_mapped *whole, struct fsdp_arena *arena,
	struct fsdp_error **ret_error)
{
	size_t count = 0;
	for (uint32_t i = 0; i < ranks; i++)
		count += slices[i].mapped->blocks != NULL ? slices[i].mapped->block_count
							  : 1;
	struct fsdp_block *blocks = FSDP_TAKE(arena, blocks, count);
	struct fsdp_strand *strands = FSDP_TAKE(arena, strands, ranks);
	if (blocks == NULL || strands == NULL)
		return fsdp_arena_fail(arena, ret_error);
	whole->block_count = 0;
	for (uint32_t i = 0; i < ranks; i++) {
		const struct fsdp_mapped *slice = slices[i].mapped;
		if (slice->blocks == NULL)
			fill_run(&blocks[whole->block_count++], &strands[i], slice);
		else
			for (size_t k = 0; k < slice->block_count; k++)
				blocks[whole->block_count++] = slice->blocks[k];
	}
	whole->blocks = blocks;
	shape[0] *= ranks;
	return true;
}

/* In each row, one behind the other. */
static bool join_columns(const struct rank_slice *slices, uint32_t ranks, int64_t *shape,
	struct fsdp_mapped *whole, struct fsdp_arena *arena,
	struct fsdp_error **ret_error)
{
	uint64_t columns = (uint64_t)shape[1];
	struct fsdp_block *block = FSDP_TAKE(arena, block, 1);
	struct fsdp_strand *strands = FSDP_TAKE(arena, strands, ranks);
	if (block == NULL || strands == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (uint32_t i = 0; i < ranks; i++)
		strands[i] = (struct fsdp_strand){
			.tensor = slices[i].mapped->tensor,
			.step = columns,
			.counts = { 1, 1 },
			.run = columns,
		};
	*block = (struct fsdp_block){
		.turns = (uint64_t)shape[0],
		.turn_numel = columns * ranks,
		.strands = strands,
		.count = ranks,
	};
	whole->blocks = block;
	whole->block_count = 1;
	shape[1] *= ranks;
	return true;
}

static bool join(const struct rank_slice *slices, uint32_t ranks,
	struct fsdp_mapped *whole, struct fsdp_arena *arena,
	struct fsdp_error **ret_error)
{
	const struct fsdp_mapped *first = slices[0].mapped;
	bool columns = first->cut == FSDP_MAP_COLUMNS;
	*whole = *first;
	whole->own = false;
	if (first->cut == FSDP_MAP_SAME || ranks == 1)
		return true;
	if ((columns ? first->dims != 2 || first->blocks != NULL : first->dims == 0) ||
		first->numel == 0)
		return fail_slice(first, "cannot be joined as the map says", ret_error);
	int64_t *shape = FSDP_TAKE(arena, shape, first->dims);
	if (shape == NULL)
		return fsdp_arena_fail(arena, ret_error);
	memcpy(shape, first->shape, first->dims * sizeof *shape);
	if (!fsdp_mul(first->numel, ranks, &whole->numel) || whole->numel > INT64_MAX)
		return fail_slice(first, "is larger than any tensor", ret_error);
	whole->shape = shape;
	return columns ? join_columns(slices, ranks, shape, whole, arena, ret_error)
		       : join_rows(slices, ranks, shape, whole, arena, ret_error);
}

bool fsdp_mapping_join_ranks(struct fsdp_mapped *list, size_t *count, uint32_t ranks,
	struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	struct rank_slice *slices = FSDP_TAKE(arena, slices, *count + 1);
	struct fsdp_mapped *made = FSDP_TAKE(arena, made, *count + 1);
	size_t found = 0, kept = 0;
	if (ranks == 0 || *count == 0)
		return true;
	if (slices == NULL || made == NULL)
		return fsdp_arena_fail(arena, ret_error);
	memcpy(made, list, *count * sizeof *made);
	for (size_t i = 0; i < *count; i++)
		if (list[i].cut != FSDP_MAP_UNTOLD)
			slices[found++] = (struct rank_slice){ &list[i], i };
	qsort(slices, found, sizeof *slices, compare_slices);
	for (size_t i = 0, some; i < found; i += some) {
		for (some = 1; i + some < found && fsdp_span_equal(slices[i].mapped->name,
							   slices[i + some].mapped->name);
			some++)
			made[slices[i + some].at].name = fsdp_span(NULL, 0);
		if (!check(&slices[i], some, ranks, ret_error) ||
			!join(&slices[i], ranks, &made[slices[i].at], arena, ret_error))
			return false;
	}
	for (size_t i = 0; i < *count; i++)
		if (made[i].name.data != NULL)
			list[kept++] = made[i];
	*count = kept;
	return true;
}
