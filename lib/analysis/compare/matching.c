/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs tensors of both sides by name, and separates tensors that one side lacks from those it has under the name of a
 * tied tensor.
 */
#include <stdlib.h>

#include "analysis/compare/comparing.h"

/* ---- sorting ---- */

static int compare_names(const void *left, const void *right, void *context)
{
	const struct fsdp_compared *list = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	int order = fsdp_span_compare(list[a].facts.name, list[b].facts.name);
	return order != 0 ? order : a < b ? -1 : a > b;
}

static void sort(struct fsdp_compared_side *side)
{
	for (size_t i = 0; i < side->count; i++)
		side->sorted[i] = (uint32_t)i;
	qsort_r(side->sorted, side->count, sizeof *side->sorted, compare_names,
		side->list);
}

/* Both lists are in order of names; of one name the first with the first, and so on. */
static void match_names(struct fsdp_compare *compare)
{
	const struct fsdp_compared_side *a = &compare->sides[0], *b = &compare->sides[1];
	size_t i = 0, k = 0;
	while (i < a->count && k < b->count) {
		int order = fsdp_span_compare(a->list[a->sorted[i]].facts.name,
			b->list[b->sorted[k]].facts.name);
		if (order == 0)
			fsdp_compare_join(compare, a->sorted[i], b->sorted[k]);
		i += order <= 0;
		k += order >= 0;
	}
}

/* ---- other names of one tensor ---- */

/* The tensor that it is another name of, or itself. */
static uint32_t root_of(
	const struct fsdp_compared_side *side, const struct fsdp_compared *one)
{
	uint32_t alias = fsdp_tensor(side->checkpoint, one->facts.tensor).alias;
	return alias != FSDP_NONE ? alias : one->facts.tensor;
}

/* Tied tensors with one of them in a pair: writers keep one name. A tensor made by a map is not tied to its source. */
static void excuse_tied(struct fsdp_compared_side *side, unsigned char *told)
{
	for (size_t i = 0; i < side->count; i++)
		if (side->list[i].paired && side->list[i].mapped == NULL)
			told[root_of(side, &side->list[i])] = 1;
	for (size_t i = 0; i < side->count; i++) {
		struct fsdp_compared *one = &side->list[i];
		one->excused = !one->paired && one->mapped == NULL &&
			       told[root_of(side, one)] != 0;
	}
}

/* By name; the count of the side if there is none. */
static size_t find_name(const struct fsdp_compared_side *side, struct fsdp_span name)
{
	size_t low = 0, high = side->count;
	FSDP_HALVE(low, high, middle,
		fsdp_span_compare(side->list[side->sorted[middle]].facts.name, name) < 0);
	return low < side->count &&
			       fsdp_span_equal(
				       side->list[side->sorted[low]].facts.name, name)
		       ? side->sorted[low]
		       : side->count;
}

/* DeepSpeed has weights twice: those of the optimizer by their names, and the module's
 * own, which say nothing new where the first are there. */
static void excuse_copies(struct fsdp_compared_side *side)
{
	for (size_t i = 0; i < side->count; i++) {
		struct fsdp_compared *one = &side->list[i];
		struct fsdp_span rest;
		if (one->paired || one->excused ||
			!fsdp_span_behind(one->facts.name, "module.", &rest) ||
			fsdp_tensor(side->checkpoint, one->facts.tensor).role !=
				FSDP_ROLE_OTHER)
			continue;
		size_t other = find_name(side, rest);
		one->excused = other < side->count && side->list[other].paired;
	}
}

static bool excuse(struct fsdp_compare *compare, struct fsdp_error **ret_error)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fsdp_compared_side *side = &compare->sides[i];
		if (side->checkpoint == NULL)
			continue;
		unsigned char *told = calloc(fsdp_tensor_count(side->checkpoint) + 1, 1);
		if (told == NULL)
			return fsdp_fail_memory(ret_error);
		excuse_tied(side, told);
		excuse_copies(side);
		free(told);
	}
	return true;
}

bool fsdp_compare_match(struct fsdp_compare *compare, struct fsdp_error **ret_error)
{
	size_t most = (size_t)fsdp_min(compare->sides[0].count, compare->sides[1].count);
	compare->pairs = FSDP_TAKE(&compare->arena, compare->pairs, most + 1);
	compare->renamed = FSDP_TAKE(&compare->arena, compare->renamed, most + 1);
	if (compare->pairs == NULL || compare->renamed == NULL)
		return fsdp_arena_fail(&compare->arena, ret_error);
	sort(&compare->sides[0]);
	sort(&compare->sides[1]);
	match_names(compare);
	fsdp_compare_match_prefixes(compare);
	return excuse(compare, ret_error);
}

static int compare_pairs(const void *left, const void *right)
{
	const struct fsdp_compared_pair *a = left, *b = right;
	return a->sides[0] < b->sides[0] ? -1 : a->sides[0] > b->sides[0];
}

/* What is neither paired nor excused, in the order of the side. */
static void list_only(struct fsdp_compared_side *side)
{
	side->only_count = 0;
	for (uint32_t i = 0; i < side->count; i++)
		if (!side->list[i].paired && !side->list[i].excused)
			side->only[side->only_count++] = i;
	side->kept[0] = 0;
	for (size_t i = 0; i < side->count; i++) {
		const struct fsdp_compared *one = &side->list[side->sorted[i]];
		side->kept[i + 1] = side->kept[i] + (one->paired || one->excused);
	}
}

void fsdp_compare_list(struct fsdp_compare *compare)
{
	struct fsdp_compare_facts *facts = &compare->facts;
	qsort(compare->pairs, facts->pair_count, sizeof *compare->pairs, compare_pairs);
	facts->rename_count = 0;
	for (size_t i = 0; i < facts->pair_count; i++)
		if (compare->pairs[i].renamed)
			compare->renamed[facts->rename_count++] = i;
	facts->tied = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct fsdp_compared_side *side = &compare->sides[i];
		for (uint32_t k = 0; k < side->count; k++)
			facts->tied += side->list[k].excused;
		list_only(side);
		facts->only_count[i] = side->only_count;
	}
}

/* ---- folding what was left over ---- */

/* Where in `sorted` names begin that begin with this prefix, or follow on those. */
static size_t bound(
	const struct fsdp_compared_side *side, struct fsdp_span prefix, bool behind)
{
	size_t low = 0, high = side->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct fsdp_span name = side->list[side->sorted[middle]].facts.name;
		name.size = (size_t)fsdp_min(name.size, prefix.size);
		int order = fsdp_span_compare(name, prefix);
		if (order < 0 || (behind && order == 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t fsdp_compare_only_below(const struct fsdp_compare *compare, unsigned side,
	size_t index, size_t *ret_prefix_size)
{
	const struct fsdp_compared_side *of = &compare->sides[side];
	struct fsdp_span name = of->list[of->only[index]].facts.name;
	*ret_prefix_size = 0;
	for (size_t i = 0; i < name.size; i++) {
		struct fsdp_span prefix = fsdp_span(name.data, i + 1);
		if (name.data[i] != '.')
			continue;
		size_t begin = bound(of, prefix, false), end = bound(of, prefix, true);
		if (of->kept[begin] != of->kept[end])
			continue;
		if (end - begin < 2)
			return 1;
		*ret_prefix_size = prefix.size;
		return end - begin;
	}
	return 1;
}
