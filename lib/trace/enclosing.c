/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The innermost interval around another one. Both are taken in order of their begins; a
 * tree over the ends holds, for all that end at a moment or later, the innermost.
 */
#include <stdlib.h>

#include "base/arena.h"
#include "base/num.h"
#include "trace/enclosing.h"

static int compare(const void *a, const void *b)
{
	const struct fsdp_enclosed *left = a, *right = b;
	if (left->lane != right->lane)
		return left->lane < right->lane ? -1 : 1;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* The latest first. */
static int compare_ends(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return *left > *right ? -1 : *left < *right;
}

/* A Fenwick tree over the places of the ends of one lane, from 1 on. */
struct ends {
	const struct fsdp_enclosed *around;
	int64_t *ends;
	uint32_t *best; /* indexes into `around`, or FSDP_NONE */
	size_t count;
};

static bool is_inside(const struct fsdp_enclosed *a, const struct fsdp_enclosed *b)
{
	/* Lengths fit: a moment is nearer to zero than 2^62. */
	int64_t left = a->end - a->begin, right = b->end - b->begin;
	if (left != right)
		return left < right;
	if (a->begin != b->begin)
		return a->begin > b->begin;
	return a->index < b->index;
}

static void take(const struct ends *tree, uint32_t *best, uint32_t other)
{
	if (other != FSDP_NONE && (*best == FSDP_NONE || is_inside(&tree->around[other],
								 &tree->around[*best])))
		*best = other;
}

/* How many ends are not before this one. */
static size_t place_of(const struct ends *tree, int64_t end)
{
	size_t low = 0, high = tree->count;
	FSDP_HALVE(low, high, middle, tree->ends[middle] >= end);
	return low;
}

static void put(struct ends *tree, uint32_t item)
{
	/* Any place of an equal end will do: callers ask for all of them. */
	size_t at = place_of(tree, tree->around[item].end);
	for (; at <= tree->count; at += at & -at)
		take(tree, &tree->best[at], item);
}

static uint32_t best_behind(const struct ends *tree, int64_t end)
{
	uint32_t best = FSDP_NONE;
	for (size_t at = place_of(tree, end); at > 0; at -= at & -at)
		take(tree, &best, tree->best[at]);
	return best;
}

/* A lane: around[first] to around[last - 1]. */
static void plant(struct ends *tree, size_t first, size_t last)
{
	tree->count = last - first;
	for (size_t i = first; i < last; i++)
		tree->ends[i - first] = tree->around[i].end;
	qsort(tree->ends, tree->count, sizeof *tree->ends, compare_ends);
	for (size_t i = 0; i <= tree->count; i++)
		tree->best[i] = FSDP_NONE;
}

static void find(struct ends *tree, size_t around_count,
	const struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around)
{
	const struct fsdp_enclosed *around = tree->around;
	size_t next = 0, end = 0;
	for (size_t i = 0; i < inner_count; i++) {
		uint32_t lane = inner[i].lane;
		if (i == 0 || lane != inner[i - 1].lane) {
			for (next = end; next < around_count && around[next].lane < lane;)
				next++;
			for (end = next; end < around_count && around[end].lane == lane;)
				end++;
			plant(tree, next, end);
		}
		for (; next < end && around[next].begin <= inner[i].begin; next++)
			put(tree, (uint32_t)next);
		uint32_t best = best_behind(tree, inner[i].end);
		ret_around[inner[i].index] =
			best != FSDP_NONE ? around[best].index : FSDP_NONE;
	}
}

bool fsdp_enclosing_find(struct fsdp_enclosed *around, size_t around_count,
	struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around)
{
	struct ends tree = { .around = around,
		.ends = malloc((around_count + 1) * sizeof *tree.ends),
		.best = malloc((around_count + 1) * sizeof *tree.best) };
	bool good = tree.ends != NULL && tree.best != NULL;
	if (good) {
		if (around_count != 0)
			qsort(around, around_count, sizeof *around, compare);
		if (inner_count != 0)
			qsort(inner, inner_count, sizeof *inner, compare);
		find(&tree, around_count, inner, inner_count, ret_around);
	}
	free(tree.ends);
	free(tree.best);
	return good;
}
