/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two checkpoints by name, shape, dtype, role and placement: reads both lists of
 * tensors, pairs equal names, then names that differ in their first segments or by a
 * rule, and keeps the differences.
 */
#include <stdio.h>
#include <stdlib.h>

#include "compare/comparing.h"
#include "base/sort.h"

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
	/* The tensor of B that has this name; its count if there is none without a
	 * partner. */
	const struct fsdp_compared_side *side = &compare->sides[1];
	size_t low = 0, high = side->count;
	FSDP_HALVE(low, high, middle,
		compare_joined(exchange->to, rest,
			side->list[side->sorted[middle]].facts.name) > 0);
	if (low == side->count ||
		compare_joined(exchange->to, rest,
			side->list[side->sorted[low]].facts.name) != 0 ||
		side->list[side->sorted[low]].paired)
		return side->count;
	return side->sorted[low];
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

static void match_prefixes(struct fsdp_compare *compare)
{
	const struct fsdp_compared_side *side = &compare->sides[0];
	size_t tries = 0;
	for (uint32_t i = 0; i < side->count && tries < TRIES &&
			     compare->facts.pair_count < compare->sides[1].count;
		i++) {
		if (side->list[i].paired)
			continue;
		const struct fsdp_compare_tensor *a =
			&fsdp_compared_at(compare, 0, i)->facts;
		const struct fsdp_compared_side *other = &compare->sides[1];
		struct exchange exchange = { { NULL, 0 }, { NULL, 0 } };
		size_t best = 0;
		FSDP_EACH(k, other->count, b, &other->list[k].facts) {
			size_t end = other->list[k].paired ? 0 : likeness(a, b);
			if (end <= best)
				continue;
			best = end;
			exchange.from = fsdp_span(a->name.data, a->name.size - end);
			exchange.to = fsdp_span(b->name.data, b->name.size - end);
		}
		tries++;
		/* Most of the tensors renamed this way are equal. */
		if (exchange.from.data != NULL) {
			size_t count = 0, alike = 0;
			for (uint32_t k = 0; k < compare->sides[0].count; k++) {
				size_t found = partner_of(compare, &exchange, k);
				if (found == compare->sides[1].count)
					continue;
				count++;
				alike += may_be(&fsdp_compared_at(compare, 0, k)->facts,
					&fsdp_compared_at(compare, 1, found)->facts);
			}
			if (2 * alike >= count)
				apply(compare, &exchange);
		}
	}
}

/*
 * Compares the entries of both sides that are not tensors, if both have the same ones.
 * Other entries belong to other programs or settings and describe these more than the
 * model.
 */

static bool is_same_token(const struct fsdp_token *a, const struct fsdp_token *b)
{
	if (a->kind != b->kind || a->count != b->count)
		return false;
	switch (a->kind) {
	case FSDP_TOKEN_BOOL:
	case FSDP_TOKEN_INTEGER:
		return a->integer == b->integer;
	case FSDP_TOKEN_FLOAT:
		return memcmp(&a->number, &b->number, sizeof a->number) == 0;
	case FSDP_TOKEN_NONE:
	case FSDP_TOKEN_LIST:
	case FSDP_TOKEN_TUPLE:
	case FSDP_TOKEN_SET:
	case FSDP_TOKEN_DICT:
	case FSDP_TOKEN_CUT:
		return true;
	case FSDP_TOKEN_BIG_INTEGER:
	case FSDP_TOKEN_TEXT:
	case FSDP_TOKEN_BYTES:
	case FSDP_TOKEN_OBJECT:
	case FSDP_TOKEN_TENSOR:
	case FSDP_TOKEN_GLOBAL:
		break;
	}
	return fsdp_span_equal(a->text, b->text);
}

struct named_value {
	struct fsdp_span name;
	uint32_t value;
};

static void compare_entries(struct fsdp_compare *compare)
{
	struct named_value *lists[2];
	size_t counts[2];
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_checkpoint *checkpoint = compare->sides[i].checkpoint;
		size_t count = fsdp_value_count(checkpoint);
		struct named_value *list = FSDP_TAKE(&compare->arena, list, count + 1);
		for (uint32_t k = 0; k < count; k++) {
			list[k].value = k;
			/* The name of an entry, in the arena. */
			uint32_t name = fsdp_value(checkpoint, k).name;
			size_t size = fsdp_name_write(checkpoint, name, NULL, 0);
			char *text = fsdp_arena_take(&compare->arena, size + 1, 1);
			fsdp_name_write(checkpoint, name, text, size);
			list[k].name = fsdp_span(text, size);
		}
		FSDP_SORT(list, count, FSDP_BY(list, name), FSDP_BY(list, value));
		lists[i] = list;
		counts[i] = count;
	}
	compare->values = FSDP_TAKE(&compare->arena, compare->values, counts[0] + 1);
	bool same = counts[0] == counts[1];
	for (size_t i = 0; same && i < counts[0]; i++)
		same = fsdp_span_equal(lists[0][i].name, lists[1][i].name);
	size_t count = same ? counts[0] : 0;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_compare_value both = { { lists[0][i].value,
			lists[1][i].value } };
		struct fsdp_value a =
			fsdp_value(compare->sides[0].checkpoint, both.sides[0]);
		struct fsdp_value b =
			fsdp_value(compare->sides[1].checkpoint, both.sides[1]);
		bool is_read = a.tokens != NULL && b.tokens != NULL;
		bool is_same = !is_read || a.token_count == b.token_count;
		for (size_t k = 0; is_read && is_same && k < a.token_count; k++)
			is_same = is_same_token(&a.tokens[k], &b.tokens[k]);
		if (!is_same)
			compare->values[compare->facts.value_count++] = both;
	}
	FSDP_SORT(compare->values, compare->facts.value_count,
		FSDP_BY(compare->values, sides[0]));
}

/*
 * Lists the tensors of both sides under the names by which they are compared.
 */

/* ---- names of a checkpoint ---- */

static void add_names(struct fsdp_naming *naming, bool stored)
{
	size_t count = fsdp_tensor_count(naming->checkpoint);
	naming->list = FSDP_TAKE(naming->arena, naming->list, count + 1);
	FSDP_EACH(i, (uint32_t)count, tensor, fsdp_tensor(naming->checkpoint, i)) {
		/* A FlatParameter whose parameters are listed too is not a tensor of the
		 * model. */
		if (stored || (tensor.flags & FSDP_TENSOR_SPREAD) == 0)
			naming->list[naming->count++].tensor = i;
	}
	(void)fsdp_naming_take(naming, stored);
}

static void strip(struct fsdp_compare *compare, struct fsdp_naming *naming, unsigned side,
	struct fsdp_span above)
{
	if (above.data != NULL && fsdp_naming_strip(naming, above))
		compare->facts.stripped[side] = above;
}

static void add(struct fsdp_compared_side *side, const struct fsdp_compare_tensor *facts)
{
	side->list[side->count++] = (struct fsdp_compared){ .facts = *facts };
}

static bool is_chosen(const struct fsdp_compare_options *options, unsigned side,
	uint32_t tensor, struct fsdp_span name)
{
	return options->choose == NULL ||
	       options->choose(options->choose_context, side, tensor, name);
}

/* The tensors of a side, converted by the map. If one configuration lacks a setting, that
 * of the other may have it. */
static bool map_tensors(const struct fsdp_naming *naming, unsigned side,
	const struct fsdp_compare_options *options, struct fsdp_mapped **ret_list,
	size_t *ret_count, struct fsdp_error **ret_error)
{
	const struct fsdp_map_sizes sizes = {
		.given = options->sizes,
		.given_count = options->size_count,
		.checkpoints = { options->sides[side].checkpoint,
			options->sides[!side].checkpoint },
	};
	struct fsdp_mapped *list = FSDP_TAKE(naming->arena, list, naming->count + 1);
	FSDP_EACH(i, naming->count, named, &naming->list[i]) {
		struct fsdp_tensor tensor =
			fsdp_tensor(naming->checkpoint, named->tensor);
		list[i] = (struct fsdp_mapped){
			.name = named->name,
			.tensor = named->tensor,
			.dtype = tensor.dtype,
			.shape = tensor.shape,
			.dims = tensor.dims,
			.numel = tensor.numel,
		};
		fsdp_mapped_find_rank(naming->checkpoint, &list[i]);
	}
	*ret_list = list;
	*ret_count = naming->count;
	return options->map == NULL ||
	       fsdp_mapping_apply(options->map, &sizes, list, naming->count, false,
		       naming->arena, ret_list, ret_count, ret_error);
}

static void add_name(
	struct fsdp_compare *compare, unsigned side, const struct fsdp_compare_name *from)
{
	struct fsdp_compare_tensor facts = {
		.name = fsdp_arena_copy(&compare->arena, from->name),
		.tensor = FSDP_NONE,
		.dtype = from->dtype,
		.dims = from->dims,
	};
	if (from->shape != NULL) {
		int64_t *shape =
			FSDP_TAKE(&compare->arena, shape, (size_t)from->dims + 1);
		memcpy(shape, from->shape, from->dims * sizeof *shape);
		facts.shape = shape;
	}
	add(&compare->sides[side], &facts);
}

static void make_room(struct fsdp_compare *compare, unsigned side, size_t count)
{
	struct fsdp_compared_side *to = &compare->sides[side];
	to->list = FSDP_TAKE(&compare->arena, to->list, count + 1);
	to->only = FSDP_TAKE(&compare->arena, to->only, count + 1);
	to->sorted = FSDP_TAKE(&compare->arena, to->sorted, count + 1);
	to->kept = FSDP_TAKE(&compare->arena, to->kept, count + 1);
}

static bool add_side(struct fsdp_compare *compare, const struct fsdp_naming *naming,
	unsigned side, const struct fsdp_compare_options *options,
	struct fsdp_error **ret_error)
{
	struct fsdp_mapped *list;
	size_t count;
	if (naming->checkpoint == NULL) {
		const struct fsdp_compare_side *from = &options->sides[side];
		make_room(compare, side, from->name_count);
		for (size_t i = 0; i < from->name_count; i++)
			if (is_chosen(options, side, FSDP_NONE, from->names[i].name))
				add_name(compare, side, &from->names[i]);
		return true;
	}
	if (!map_tensors(naming, side, options, &list, &count, ret_error))
		return false;
	make_room(compare, side, count);
	struct fsdp_compared_side *to = &compare->sides[side];
	FSDP_EACH(i, count, mapped, &list[i]) {
		if (!is_chosen(options, side, mapped->tensor, mapped->name))
			continue;
		add(to, &(struct fsdp_compare_tensor){ .name = mapped->name,
				.tensor = mapped->tensor,
				.dtype = mapped->dtype,
				.shape = mapped->shape,
				.dims = mapped->dims });
		if (mapped->blocks != NULL)
			to->list[to->count - 1].mapped = mapped;
	}
	return true;
}

/* The tensors of both sides under the names that are compared. */
static bool list_tensors(struct fsdp_compare *compare,
	const struct fsdp_compare_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_naming naming[2];
	for (unsigned side = 0; side < 2; side++) {
		compare->sides[side].checkpoint = options->sides[side].checkpoint;
		naming[side] = (struct fsdp_naming){
			.checkpoint = options->sides[side].checkpoint,
			.arena = &compare->arena,
			.weights_only = true,
		};
		if (naming[side].checkpoint != NULL)
			add_names(&naming[side], options->stored_names);
	}
	if (options->strip == NULL && !options->stored_names) {
		/* The container of a model, unless both have the same. */
		struct fsdp_span above[2] = { { NULL, 0 }, { NULL, 0 } };
		for (unsigned side = 0; side < 2; side++)
			if (naming[side].checkpoint != NULL)
				above[side] = fsdp_naming_container(&naming[side]);
		if (above[0].data == NULL || above[1].data == NULL ||
			!fsdp_span_equal(above[0], above[1]))
			for (unsigned side = 0; side < 2; side++)
				strip(compare, &naming[side], side, above[side]);
	}
	for (unsigned side = 0; side < 2 && options->strip != NULL; side++)
		strip(compare, &naming[side], side,
			fsdp_naming_prefix(&naming[0], options->strip));
	fsdp_naming_rename(&naming[0], options->renames, options->rename_count);
	compare->facts.idle_renames = naming[0].idle_renames;
	return add_side(compare, &naming[0], 0, options, ret_error) &&
	       add_side(compare, &naming[1], 1, options, ret_error);
}

struct fsdp_compared_pair *fsdp_compare_join(
	struct fsdp_compare *compare, uint32_t a, uint32_t b)
{
	struct fsdp_compared_pair *pair = &compare->pairs[compare->facts.pair_count++];
	*pair = (struct fsdp_compared_pair){ .sides = { a, b } };
	fsdp_compared_at(compare, 0, a)->paired = true;
	fsdp_compared_at(compare, 1, b)->paired = true;
	return pair;
}

/*
 * Pairs tensors of both sides by name, and separates tensors that one side lacks from
 * those it has under the name of a tied tensor.
 */

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

/* ---- other names of one tensor ---- */

/* The tensor that it is another name of, or itself. */
static uint32_t root_of(
	const struct fsdp_compared_side *side, const struct fsdp_compared *one)
{
	uint32_t alias = fsdp_tensor(side->checkpoint, one->facts.tensor).alias;
	return alias != FSDP_NONE ? alias : one->facts.tensor;
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

static void excuse(struct fsdp_compare *compare)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fsdp_compared_side *side = &compare->sides[i];
		if (side->checkpoint == NULL)
			continue;
		unsigned char *shared = FSDP_TAKE(
			&compare->arena, shared, fsdp_tensor_count(side->checkpoint) + 1);
		/* Tied tensors with one of them in a pair: writers keep one name. A
		 * tensor made by a map is not tied to its source. */
		for (size_t k = 0; k < side->count; k++)
			if (side->list[k].paired && side->list[k].mapped == NULL)
				shared[root_of(side, &side->list[k])] = 1;
		FSDP_EACH(k, side->count, one, &side->list[k])
			one->excused = !one->paired && one->mapped == NULL &&
				       shared[root_of(side, one)] != 0;
		/* DeepSpeed has weights twice: those of the optimizer by their names, and
		 * the module's own, which say nothing new where the first are there. */
		FSDP_EACH(k, side->count, one, &side->list[k]) {
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
}

/* Pairs of one name, then of names that differ in their first segments. */
static void match(struct fsdp_compare *compare)
{
	size_t most = (size_t)fsdp_min(compare->sides[0].count, compare->sides[1].count);
	compare->pairs = FSDP_TAKE(&compare->arena, compare->pairs, most + 1);
	compare->renamed = FSDP_TAKE(&compare->arena, compare->renamed, most + 1);
	sort(&compare->sides[0]);
	sort(&compare->sides[1]);
	/* Both lists are in order of names; of one name the first with the first, and so
	 * on. */
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
	match_prefixes(compare);
	excuse(compare);
}

void fsdp_compare_list(struct fsdp_compare *compare)
{
	struct fsdp_compare_facts *facts = &compare->facts;
	FSDP_SORT(compare->pairs, facts->pair_count, FSDP_BY(compare->pairs, sides[0]));
	facts->rename_count = 0;
	for (size_t i = 0; i < facts->pair_count; i++)
		if (compare->pairs[i].renamed)
			compare->renamed[facts->rename_count++] = i;
	facts->tied = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct fsdp_compared_side *side = &compare->sides[i];
		for (uint32_t k = 0; k < side->count; k++)
			facts->tied += side->list[k].excused;
		/* What is neither paired nor excused, in the order of the side. */
		side->only_count = 0;
		for (uint32_t k = 0; k < side->count; k++)
			if (!side->list[k].paired && !side->list[k].excused)
				side->only[side->only_count++] = k;
		side->kept[0] = 0;
		FSDP_EACH(k, side->count, one, &side->list[side->sorted[k]])
			side->kept[k + 1] = side->kept[k] + (one->paired || one->excused);
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
	FSDP_EACH(i, name.size, prefix, fsdp_span(name.data, i + 1)) {
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

/*
 * Compares shape, dtype and layout of two tensors, and finds the probable cause of a
 * difference.
 */

/* ---- hints ---- */

static void hint(struct fsdp_compared_pair *pair, enum fsdp_probable_cause which,
	unsigned side, uint64_t parts, uint32_t dim)
{
	pair->hint = (uint8_t)which;
	pair->hint_side = (uint8_t)side;
	pair->parts = parts;
	pair->part = FSDP_UNKNOWN;
	pair->dim = dim;
}

/* Number of parts of a length if this is one of them; 0: not a part. The last part may be
 * shorter, all others have the maximum length. */
static uint64_t parts_of(uint64_t whole, uint64_t part)
{
	uint64_t parts = part != 0 ? whole / part + (whole % part != 0) : 0;
	return parts > 1 && whole / parts + (whole % parts != 0) == part ? parts : 0;
}

/* Counts the dimensions of different length, of two shapes with as many dimensions. */
static uint32_t differing_dims(const struct fsdp_compare_tensor *a,
	const struct fsdp_compare_tensor *b, uint32_t *ret_last)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < a->dims; i++)
		if (a->shape[i] != b->shape[i]) {
			count++;
			*ret_last = i;
		}
	return count;
}

static void hint_shape(
	struct fsdp_compared_pair *pair, const struct fsdp_compare_tensor sides[2])
{
	uint64_t numel[2];
	for (unsigned i = 0; i < 2; i++)
		if (!fsdp_numel(sides[i].shape, sides[i].dims, &numel[i]))
			return;
	if (numel[0] == numel[1])
		if (sides[1].dims == 1)
			hint(pair, FSDP_HINT_FLATTENED, 1, 0, 0);
		else if (sides[0].dims == 2 && sides[1].dims == 2 &&
			 sides[0].shape[0] == sides[1].shape[1] &&
			 sides[0].shape[1] == sides[1].shape[0])
			hint(pair, FSDP_HINT_TRANSPOSED, 1, 0, 0);
		else
			hint(pair, FSDP_HINT_RESHAPED, 1, 0, 0);
	else if (numel[0] == 0 || numel[1] == 0)
		hint(pair, FSDP_HINT_PLACEHOLDER, numel[1] == 0, 0, 0);
	else {
		unsigned less = numel[1] < numel[0];
		const struct fsdp_compare_tensor *part = &sides[less],
						 *whole = &sides[!less];
		uint64_t parts;
		uint32_t dim = 0;
		if (part->dims == whole->dims) {
			if (differing_dims(part, whole, &dim) != 1)
				return;
			parts = parts_of(
				(uint64_t)whole->shape[dim], (uint64_t)part->shape[dim]);
			if (parts != 0 && less == 1)
				hint(pair, FSDP_HINT_PIECE, 1, parts, dim);
			else if (parts != 0 && whole->shape[dim] % part->shape[dim] == 0)
				hint(pair, FSDP_HINT_JOINED, 1, parts, dim);
			return;
		}
		parts = part->dims == 1 ? parts_of(numel[!less], numel[less]) : 0;
		if (parts != 0)
			hint(pair, FSDP_HINT_FLAT_PIECE, less, parts, 0);
	}
}

/* ---- shape, dtype, role ---- */

/* ---- layout ---- */

static size_t put(char text[FSDP_LAYOUT_TEXT], size_t used, struct fsdp_span more)
{
	size_t left = FSDP_LAYOUT_TEXT - 1 - used;
	size_t size = (size_t)fsdp_min(left, more.size);
	memcpy(text + used, more.data, size);
	text[used + size] = '\0';
	return used + size;
}

/* How often a tensor of these pieces is cut along a dimension: different offsets. Copies
 * saved partly by one rank and partly by another are unordered; the longest piece decides
 * there. */
static uint64_t cuts_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, uint32_t dim)
{
	uint64_t cuts = 0, least = 0;
	int64_t last = INT64_MIN, longest = 0, before = INT64_MIN;
	bool falls = false;
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_piece(checkpoint, tensor->first_piece + i)) {
		if (piece.offsets == NULL || piece.dims <= dim)
			return 0;
		cuts += piece.offsets[dim] > last;
		if (piece.offsets[dim] > last)
			last = piece.offsets[dim];
		falls |= piece.offsets[dim] < before;
		before = piece.offsets[dim];
		if (piece.sizes != NULL && piece.sizes[dim] > longest)
			longest = piece.sizes[dim];
	}
	if (falls && longest > 0)
		least = (uint64_t)tensor->shape[dim] / (uint64_t)longest +
			(tensor->shape[dim] % longest != 0);
	return cuts > least ? cuts : least;
}

void fsdp_compare_layout(const struct fsdp_compare *compare, unsigned side,
	uint32_t index, char text[FSDP_LAYOUT_TEXT])
{
	const struct fsdp_checkpoint *checkpoint = compare->sides[side].checkpoint;
	text[0] = '\0';
	if (checkpoint == NULL || index == FSDP_NONE)
		return;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	if (tensor.placement != FSDP_NONE) {
		struct fsdp_placement placement =
			fsdp_placement(checkpoint, tensor.placement);
		char number[32];
		size_t used = 0;
		for (uint32_t i = 0; i < placement.count; i++) {
			if (i != 0)
				used = put(text, used, FSDP_SPAN(", "));
			used = put(text, used, placement.texts[i]);
		}
		if (placement.mesh == FSDP_NONE)
			return;
		struct fsdp_mesh mesh = fsdp_mesh(checkpoint, placement.mesh);
		for (uint32_t i = 0; i < mesh.dims; i++) {
			snprintf(number, sizeof number, "%s%lld", i == 0 ? " over " : "x",
				(long long)mesh.shape[i]);
			used = put(text, used, fsdp_span_text(number));
		}
	} else {
		size_t used = 0;
		char part[64];
		for (uint32_t dim = 0; dim < tensor.dims; dim++) {
			uint64_t cuts = cuts_of(checkpoint, &tensor, dim);
			if (cuts < 2)
				continue;
			snprintf(part, sizeof part, "%sShard(dim=%u) over %llu",
				used != 0 ? ", " : "", dim, FSDP_LLU(cuts));
			used = put(text, used, fsdp_span_text(part));
		}
		if (used == 0 && tensor.piece_count > 1)
			put(text, 0,
				fsdp_span_text(
					(tensor.flags & FSDP_TENSOR_FLATTENED) != 0 ||
							fsdp_piece(checkpoint,
								tensor.first_piece)
								.is_run
						? "flattened"
						: "Replicate()"));
		else if (used == 0)
			put(text, 0, FSDP_SPAN("whole"));
	}
}

/* Guesses and records are not compared with each other. */
static bool is_other_unit(
	const struct fsdp_compare *compare, const struct fsdp_tensor tensors[2])
{
	uint32_t names[2];
	bool inferred[2];
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_checkpoint *checkpoint = compare->sides[i].checkpoint;
		if (tensors[i].unit == FSDP_NONE)
			return false;
		struct fsdp_unit unit = fsdp_unit(checkpoint, tensors[i].unit);
		inferred[i] = unit.inferred;
		names[i] = fsdp_module(checkpoint, unit.module).name;
	}
	/* The last `size` bytes of names of both sides: long ones differ in front at
	 * most. */
	if (inferred[0] != inferred[1])
		return false;
	char texts[2][1024];
	size_t sizes[2];
	for (unsigned i = 0; i < 2; i++)
		sizes[i] = fsdp_name_write(compare->sides[i].checkpoint, names[i],
			texts[i], sizeof texts[i]);
	return sizes[0] != sizes[1] ||
	       (sizes[0] <= sizeof texts[0] && memcmp(texts[0], texts[1], sizes[0]) != 0);
}

void fsdp_compare_describe(
	const struct fsdp_compare *compare, struct fsdp_compared_pair *pair)
{
	struct fsdp_compare_tensor sides[2];
	for (unsigned i = 0; i < 2; i++)
		sides[i] = fsdp_compared_at(compare, i, pair->sides[i])->facts;
	pair->what = 0;
	if (compare->names_only)
		return;
	if (sides[0].dtype != 0 && sides[1].dtype != 0 &&
		sides[0].dtype != sides[1].dtype)
		pair->what |= FSDP_DIFFERS_DTYPE;
	if (!may_be(&sides[0], &sides[1])) {
		pair->what |= FSDP_DIFFERS_SHAPE;
		hint_shape(pair, sides);
	}
	struct fsdp_tensor tensors[2];
	uint32_t indices[2];
	for (unsigned i = 0; i < 2; i++) {
		indices[i] = fsdp_compared_at(compare, i, pair->sides[i])->facts.tensor;
		if (indices[i] == FSDP_NONE ||
			fsdp_compared_at(compare, i, pair->sides[i])->mapped != NULL)
			return;
		tensors[i] = fsdp_tensor(compare->sides[i].checkpoint, indices[i]);
	}
	if (((tensors[0].flags | tensors[1].flags) & FSDP_TENSOR_ROLE_INFERRED) == 0 &&
		tensors[0].role != tensors[1].role)
		pair->what |= FSDP_DIFFERS_ROLE;
	if (compare->layout) {
		char texts[2][FSDP_LAYOUT_TEXT];
		for (unsigned i = 0; i < 2; i++)
			fsdp_compare_layout(compare, i, indices[i], texts[i]);
		if (strcmp(texts[0], texts[1]) != 0)
			pair->what |= FSDP_DIFFERS_PLACEMENT;
	}
	if (compare->layout && is_other_unit(compare, tensors))
		pair->what |= FSDP_DIFFERS_UNIT;
}

/*
 * Compares two checkpoints step by step and reports the result.
 */

enum { NAME_ROOM = 1024 }; /* bytes of memory for each name of a list */

/* ---- making one ---- */

static void count_pairs(struct fsdp_compare *compare)
{
	struct fsdp_compare_facts *facts = &compare->facts;
	facts->same = facts->changed = facts->unread = 0;
	for (size_t i = 0; i < facts->pair_count; i++) {
		bool changed = compare->pairs[i].what != 0;
		bool failed = compare->pairs[i].failure != NULL;
		facts->changed += changed;
		facts->same += !changed && !failed;
		facts->unread += failed;
	}
}

/* What is asked while it runs. */
struct asked {
	struct fsdp_compare *compare;
	const struct fsdp_compare_options *options;
	struct fsdp_error *error;
	bool good;
};

static void list_pairs(void *context)
{
	struct asked *asked = context;
	struct fsdp_compare *compare = asked->compare;
	asked->good = list_tensors(compare, asked->options, &asked->error);
	if (!asked->good)
		return;
	match(compare);
	fsdp_compare_list(compare);
}

static bool make(struct fsdp_compare *compare, const struct fsdp_compare_options *options,
	struct fsdp_error **ret_error)
{
	struct asked asked = { .compare = compare, .options = options };
	/* A list is the user's own: it may have what it needs. */
	const struct fsdp_checkpoint *checkpoints[2];
	uint64_t names = 0, room;
	size_t count = 0;
	for (unsigned i = 0; i < 2; i++) {
		names += options->sides[i].name_count;
		if (options->sides[i].checkpoint != NULL)
			checkpoints[count++] = options->sides[i].checkpoint;
	}
	if (!fsdp_mul(names, NAME_ROOM, &names) ||
		!fsdp_add(fsdp_checkpoint_room(checkpoints, count), names, &room))
		room = UINT64_MAX;
	if (!fsdp_arena_init_chosen(&compare->arena, &compare->budget, options->limits,
		    options->limit_count, room, ret_error))
		return false;
	if (!fsdp_arena_try(&compare->arena, list_pairs, &asked))
		return fsdp_arena_fail(&compare->arena, ret_error);
	if (!asked.good)
		return fsdp_fail_with(ret_error, asked.error);
	for (size_t i = 0; i < compare->facts.pair_count; i++)
		fsdp_compare_describe(compare, &compare->pairs[i]);
	/* No hint "piece of one rank" where another tensor has other lengths in two
	 * dimensions: B is a model of another width, and a shard is shorter in one. */
	bool is_other_width = false;
	uint32_t dim;
	for (size_t i = 0; i < compare->facts.pair_count && !is_other_width; i++) {
		const struct fsdp_compared_pair *pair = &compare->pairs[i];
		const struct fsdp_compare_tensor
			*a = &fsdp_compared_at(compare, 0, pair->sides[0])->facts,
			*b = &fsdp_compared_at(compare, 1, pair->sides[1])->facts;
		is_other_width = (pair->what & FSDP_DIFFERS_SHAPE) != 0 &&
				 pair->hint == FSDP_HINT_NONE && a->dims == b->dims &&
				 differing_dims(a, b, &dim) > 1;
	}
	for (size_t i = 0; i < compare->facts.pair_count && is_other_width; i++)
		if (compare->pairs[i].hint == FSDP_HINT_PIECE)
			compare->pairs[i].hint = FSDP_HINT_NONE;
	count_pairs(compare);
	return true;
}

bool fsdp_compare_new(const struct fsdp_compare_options *options,
	struct fsdp_compare **ret_compare, struct fsdp_error **ret_error)
{
	struct fsdp_compare_options known = { .size = sizeof known };
	struct fsdp_compare *compare = calloc(1, sizeof *compare);
	if (compare == NULL)
		return fsdp_fail_memory(ret_error);
	memcpy(&known, options, fsdp_min(options->size, sizeof known));
	compare->names_only = known.names_only;
	compare->layout = known.layout && !known.names_only;
	if (!make(compare, &known, ret_error)) {
		fsdp_compare_free(compare);
		return false;
	}
	*ret_compare = compare;
	return true;
}

void fsdp_compare_free(struct fsdp_compare *compare)
{
	if (compare == NULL)
		return;
	for (size_t i = 0; i < compare->facts.pair_count; i++)
		fsdp_error_free(compare->pairs[i].failure);
	fsdp_error_free(compare->unread);
	if (compare->arena.budget != NULL)
		fsdp_arena_done(&compare->arena);
	free(compare);
}

static void list_values(void *context)
{
	struct fsdp_compare *compare = context;
	compare_entries(compare);
	compare->failed =
		FSDP_TAKE(&compare->arena, compare->failed, FSDP_COMPARE_FAILURES);
}

bool fsdp_compare_values(struct fsdp_compare *compare,
	const struct fsdp_compare_values_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_compare_values_options known = { .size = sizeof known };
	memcpy(&known, options, fsdp_min(options->size, sizeof known));
	if (!fsdp_compare_elements(compare, &known, ret_error) ||
		!fsdp_compare_explain(compare, ret_error))
		return false;
	if (!fsdp_arena_try(&compare->arena, list_values, compare))
		return fsdp_arena_fail(&compare->arena, ret_error);
	/* The pairs that are reported. */
	struct fsdp_compare_facts *facts = &compare->facts;
	for (size_t i = 0; i < facts->pair_count; i++) {
		facts->compared += compare->pairs[i].compared;
		if (compare->pairs[i].failure != NULL &&
			facts->failure_count < FSDP_COMPARE_FAILURES)
			compare->failed[facts->failure_count++] = i;
	}
	if (compare->unread != NULL && facts->failure_count < FSDP_COMPARE_FAILURES)
		compare->failed[facts->failure_count++] = SIZE_MAX;
	count_pairs(compare);
	return true;
}

struct fsdp_compare_facts fsdp_compare_facts(const struct fsdp_compare *compare)
{
	return compare->facts;
}

struct fsdp_compare_pair fsdp_compare_pair(
	const struct fsdp_compare *compare, size_t index)
{
	const struct fsdp_compared_pair *pair = &compare->pairs[index];
	return (struct fsdp_compare_pair){
		.sides = { fsdp_compared_at(compare, 0, pair->sides[0])->facts,
			fsdp_compared_at(compare, 1, pair->sides[1])->facts },
		.what = pair->what,
		.hint = (enum fsdp_probable_cause)pair->hint,
		.hint_side = pair->hint_side,
		.parts = pair->parts,
		.part = pair->part,
		.dim = pair->dim,
		.compared = pair->compared,
		.unread = pair->failure != NULL,
		.zero = { pair->zero[0], pair->zero[1] },
		.elements = pair->elements,
	};
}

struct fsdp_compare_tensor fsdp_compare_only(
	const struct fsdp_compare *compare, unsigned side, size_t index)
{
	return fsdp_compared_at(compare, side, compare->sides[side].only[index])->facts;
}

struct fsdp_compare_rename fsdp_compare_rename(
	const struct fsdp_compare *compare, size_t index)
{
	const struct fsdp_compared_pair *pair = &compare->pairs[compare->renamed[index]];
	return (struct fsdp_compare_rename){
		.pair = compare->renamed[index],
		.why = pair->why,
		.from = pair->from,
		.to = pair->to,
	};
}

struct fsdp_compare_value fsdp_compare_value(
	const struct fsdp_compare *compare, size_t index)
{
	return compare->values[index];
}

const struct fsdp_error *fsdp_compare_failure(
	const struct fsdp_compare *compare, size_t index)
{
	size_t pair = compare->failed[index];
	return pair != SIZE_MAX ? compare->pairs[pair].failure : compare->unread;
}
