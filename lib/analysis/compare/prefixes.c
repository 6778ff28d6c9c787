/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs names that differ only in their first segments: one wrapper more or less, or another root of the model.
 * Candidates come from the first names without a partner; one counts if names with the exchanged segments exist.
 */
#include "analysis/compare/comparing.h"

enum { TRIES = 16 };

/* What names of A begin with, and those of B instead; with the dot, or empty. */
struct exchange {
	struct fsdp_span from, to;
};

bool fsdp_compare_alike(
	const struct fsdp_compare_tensor *a, const struct fsdp_compare_tensor *b)
{
	return a->shape != NULL && b->shape != NULL && a->dtype == b->dtype &&
	       a->dims == b->dims &&
	       (a->dims == 0 ||
		       memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0);
}

/* Equal segments at the end, and their size in bytes: 0: none. */
static size_t common_end(struct fsdp_span a, struct fsdp_span b, size_t *ret_segments)
{
	size_t most = (size_t)fsdp_min(a.size, b.size), same = 0, end = 0;
	*ret_segments = 0;
	while (same < most && a.data[a.size - 1 - same] == b.data[b.size - 1 - same]) {
		if (a.data[a.size - 1 - same] == '.') {
			end = same;
			++*ret_segments;
		}
		same++;
	}
	bool bounds_a = same == a.size || a.data[a.size - 1 - same] == '.';
	bool bounds_b = same == b.size || b.data[b.size - 1 - same] == '.';
	if (same != 0 && bounds_a && bounds_b) {
		end = same;
		++*ret_segments;
	}
	return end;
}

/* A full name after a dot, or two segments of equal tensors. */
static size_t likeness(
	const struct fsdp_compare_tensor *a, const struct fsdp_compare_tensor *b)
{
	size_t segments, end = common_end(a->name, b->name, &segments);
	bool whole = end == a->name.size || end == b->name.size;
	if (end == 0 || (!whole && (segments < 2 || !fsdp_compare_alike(a, b))))
		return 0;
	return end;
}

static struct exchange guess(const struct fsdp_compare *compare, uint32_t index)
{
	const struct fsdp_compare_tensor *a = &fsdp_compared_at(compare, 0, index)->facts;
	const struct fsdp_compared_side *other = &compare->sides[1];
	struct exchange exchange = { { NULL, 0 }, { NULL, 0 } };
	size_t best = 0;
	for (size_t i = 0; i < other->count; i++) {
		const struct fsdp_compare_tensor *b = &other->list[i].facts;
		size_t end = other->list[i].paired ? 0 : likeness(a, b);
		if (end <= best)
			continue;
		best = end;
		exchange.from = fsdp_span(a->name.data, a->name.size - end);
		exchange.to = fsdp_span(b->name.data, b->name.size - end);
	}
	return exchange;
}

/* Compares the concatenation of two texts with a third. */
static int compare_joined(
	struct fsdp_span first, struct fsdp_span second, struct fsdp_span whole)
{
	struct fsdp_span begin =
		fsdp_span(whole.data, (size_t)fsdp_min(first.size, whole.size));
	int order = fsdp_span_compare(first, begin);
	if (order != 0)
		return order;
	return fsdp_span_compare(
		second, fsdp_span(whole.data + begin.size, whole.size - begin.size));
}

/* The tensor of B that has this name; its count if there is none without a partner. */
static size_t find_joined(const struct fsdp_compared_side *side, struct fsdp_span first,
	struct fsdp_span second)
{
	size_t low = 0, high = side->count;
	FSDP_HALVE(low, high, middle,
		compare_joined(
			first, second, side->list[side->sorted[middle]].facts.name) > 0);
	if (low == side->count ||
		compare_joined(first, second, side->list[side->sorted[low]].facts.name) !=
			0 ||
		side->list[side->sorted[low]].paired)
		return side->count;
	return side->sorted[low];
}

/* The partner that a name of A has by this exchange; the count of B if it has none. */
static size_t partner_of(const struct fsdp_compare *compare,
	const struct exchange *exchange, uint32_t index)
{
	const struct fsdp_compared *one = fsdp_compared_at(compare, 0, index);
	struct fsdp_span name = one->facts.name;
	if (one->paired || name.size <= exchange->from.size ||
		!fsdp_span_begins(name, exchange->from))
		return compare->sides[1].count;
	struct fsdp_span rest = fsdp_span(
		name.data + exchange->from.size, name.size - exchange->from.size);
	return find_joined(&compare->sides[1], exchange->to, rest);
}

/* Whether a name may stand for another one: their shapes do not contradict it. */
static bool may_be(
	const struct fsdp_compare_tensor *a, const struct fsdp_compare_tensor *b)
{
	return a->shape == NULL || b->shape == NULL ||
	       (a->dims == b->dims &&
		       (a->dims == 0 || memcmp(a->shape, b->shape,
						a->dims * sizeof *a->shape) == 0));
}

/* Most of the tensors renamed this way are equal. */
static bool is_likely(const struct fsdp_compare *compare, const struct exchange *exchange)
{
	size_t count = 0, alike = 0;
	for (uint32_t i = 0; i < compare->sides[0].count; i++) {
		size_t found = partner_of(compare, exchange, i);
		if (found == compare->sides[1].count)
			continue;
		count++;
		alike += may_be(&fsdp_compared_at(compare, 0, i)->facts,
			&fsdp_compared_at(compare, 1, found)->facts);
	}
	return 2 * alike >= count;
}

static void apply(struct fsdp_compare *compare, const struct exchange *exchange)
{
	bool both = exchange->from.size != 0 && exchange->to.size != 0;
	for (uint32_t i = 0; i < compare->sides[0].count; i++) {
		size_t found = partner_of(compare, exchange, i);
		if (found == compare->sides[1].count ||
			(both && !fsdp_compare_alike(
					 &fsdp_compared_at(compare, 0, i)->facts,
					 &fsdp_compared_at(compare, 1, found)->facts)))
			continue;
		struct fsdp_compared_pair *pair =
			fsdp_compare_join(compare, i, (uint32_t)found);
		pair->renamed = true;
		pair->why = FSDP_RENAMED_PREFIX;
		pair->from = exchange->from;
		pair->to = exchange->to;
	}
}

void fsdp_compare_match_prefixes(struct fsdp_compare *compare)
{
	const struct fsdp_compared_side *side = &compare->sides[0];
	size_t tries = 0;
	for (uint32_t i = 0; i < side->count && tries < TRIES &&
			     compare->facts.pair_count < compare->sides[1].count;
		i++) {
		if (side->list[i].paired)
			continue;
		struct exchange exchange = guess(compare, i);
		tries++;
		if (exchange.from.data != NULL && is_likely(compare, &exchange))
			apply(compare, &exchange);
	}
}
