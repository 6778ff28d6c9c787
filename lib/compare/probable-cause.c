/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds probable causes of differences: one tensor is a piece of the other, several
 * copies of it, or has its blocks in another order; unpaired tensors have equal bytes. A
 * few elements are compared first.
 */
#include <stdlib.h>

#include <fsdp/elements.h>

#include "compare/comparing.h"
#include "base/names.h"
#include "base/sort.h"

enum { LOOK_BYTES = 4096, PARTS = 1024, REPEATS = 16 };

struct explaining {
	struct fsdp_compare *compare;
	struct fsdp_locator *locators[2];
	bool failed; /* out of memory */
};

/* Elements of a tensor of one side. */
struct extract {
	unsigned side;
	uint32_t tensor;
	uint64_t first, count;
};

/* ---- reading a little ---- */

/* Takes the error. A file that cannot be read at all was reported before; a failure
 * during a read is reported once. */
static void note_error(struct explaining *explaining, struct fsdp_error *error)
{
	enum fsdp_error_code code =
		error != NULL ? fsdp_error_code(error) : FSDP_ERROR_UNSUPPORTED;
	bool is_cause = fsdp_error_is_unread(error) || code == FSDP_ERROR_DAMAGED;
	explaining->failed |= code == FSDP_ERROR_MEMORY;
	if (is_cause && explaining->compare->unread == NULL)
		explaining->compare->unread = error;
	else
		fsdp_error_free(error);
}

static struct fsdp_elements *open_extract(
	struct explaining *explaining, const struct extract *extract)
{
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.first = extract->first,
		.count = extract->count,
		.resolve = true,
	};
	struct fsdp_elements *elements = NULL;
	struct fsdp_error *error = NULL;
	fsdp_elements_open(explaining->locators[extract->side], extract->tensor, &options,
		&elements, &error);
	note_error(explaining, error);
	return elements;
}

/* The next bytes; false at the end, and where they cannot be read. */
static bool next_span(struct explaining *explaining, struct fsdp_elements *elements,
	struct fsdp_span *span)
{
	struct fsdp_error *error = NULL;
	bool good = fsdp_elements_next(elements, span, &error);
	note_error(explaining, error);
	return good && span->size != 0;
}

/* Whether both are of the same bytes; ends where they are not. */
static bool is_same(
	struct explaining *explaining, const struct extract *a, const struct extract *b)
{
	struct fsdp_elements *streams[2] = { open_extract(explaining, a),
		open_extract(explaining, b) };
	struct fsdp_span spans[2] = { { NULL, 0 }, { NULL, 0 } };
	bool same = streams[0] != NULL && streams[1] != NULL, more = same;
	while (same && more) {
		bool there[2];
		for (unsigned i = 0; i < 2; i++)
			there[i] = spans[i].size != 0 ||
				   next_span(explaining, streams[i], &spans[i]);
		size_t size = (size_t)fsdp_min(spans[0].size, spans[1].size);
		same = there[0] == there[1] &&
		       (size == 0 || memcmp(spans[0].data, spans[1].data, size) == 0);
		more = there[0] && there[1];
		for (unsigned i = 0; same && more && i < 2; i++)
			spans[i] = fsdp_span(spans[i].data + size, spans[i].size - size);
	}
	fsdp_elements_close(streams[0]);
	fsdp_elements_close(streams[1]);
	return same && !explaining->failed;
}

/* The same of the first bytes of both alone. */
static bool begins_same(
	struct explaining *explaining, struct extract a, struct extract b, uint32_t width)
{
	uint64_t most = LOOK_BYTES / width;
	a.count = fsdp_min(a.count, most);
	b.count = fsdp_min(b.count, most);
	return is_same(explaining, &a, &b);
}

/* ---- a pair ---- */

struct both {
	struct fsdp_compare_tensor facts[2];
	uint64_t numel[2];
	uint32_t width;
};

static bool add_both(const struct explaining *explaining,
	const struct fsdp_compared_pair *pair, struct both *ret)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_compared *one =
			fsdp_compared_at(explaining->compare, i, pair->sides[i]);
		ret->facts[i] = one->facts;
		struct fsdp_tensor tensor = fsdp_tensor(
			explaining->compare->sides[i].checkpoint, ret->facts[i].tensor);
		ret->numel[i] = tensor.numel;
		if (tensor.bytes / REPEATS >
			fsdp_checkpoint_bytes(explaining->compare->sides[i].checkpoint)
				.on_disk)
			return false;
		if (tensor.layout != NULL || tensor.numel == 0 || one->mapped != NULL)
			return false;
	}
	ret->width = fsdp_dtype(ret->facts[0].dtype)->storage_bytes;
	return ret->facts[0].dtype == ret->facts[1].dtype && ret->width != 0;
}

static struct extract extract_of(
	const struct both *both, unsigned side, uint64_t first, uint64_t count)
{
	return (struct extract){ side, both->facts[side].tensor, first, count };
}

/* Whether B is one of the parts of A, and which. Parts are runs of elements: rows, or
 * what was flattened. */
static void find_part(struct explaining *explaining, struct fsdp_compared_pair *pair,
	const struct both *both)
{
	uint64_t size = both->numel[1];
	if (pair->hint_side != 1 || pair->parts > PARTS || pair->dim != 0)
		return;
	for (uint64_t part = 0; part < pair->parts && part * size < both->numel[0];
		part++) {
		uint64_t count = fsdp_min(size, both->numel[0] - part * size);
		struct extract a = extract_of(both, 0, part * size, count);
		struct extract b = extract_of(both, 1, 0, count);
		if (!begins_same(explaining, a, b, both->width) ||
			!is_same(explaining, &a, &b))
			continue;
		pair->part = part;
		return;
	}
}

static void find_copies(struct explaining *explaining, struct fsdp_compared_pair *pair,
	const struct both *both)
{
	struct extract whole = extract_of(both, 0, 0, both->numel[0]);
	if (pair->dim != 0 || pair->parts > PARTS)
		return;
	FSDP_EACH(part, pair->parts, b,
		extract_of(both, 1, part * both->numel[0], both->numel[0]))
		if (!is_same(explaining, &whole, &b))
			return;
	pair->hint = FSDP_HINT_COPIES;
}

/* ---- blocks in another order ---- */

/* The block of A that block `k` of B is; `parts` if it is none. */
static uint64_t find_block(struct explaining *explaining, const struct both *both,
	uint64_t parts, uint64_t k)
{
	uint64_t size = both->numel[0] / parts;
	struct extract b = extract_of(both, 1, k * size, size);
	FSDP_EACH(j, parts, a, extract_of(both, 0, j * size, size))
		if (begins_same(explaining, a, b, both->width) &&
			is_same(explaining, &a, &b))
			return j;
	return parts;
}

/* Each block of B is one of A, and none twice. */
static bool is_shuffled(
	struct explaining *explaining, const struct both *both, uint64_t parts)
{
	uint64_t seen = 0;
	for (uint64_t k = 0; k < parts; k++) {
		uint64_t block = find_block(explaining, both, parts, k);
		if (block == parts || (seen >> block & 1) != 0)
			return false;
		seen |= UINT64_C(1) << block;
	}
	return true;
}

/* Tries first the block of B that contains the first difference: one read shows that it
 * is not a block of A. */
static void find_order(struct explaining *explaining, struct fsdp_compared_pair *pair,
	const struct both *both)
{
	static const uint64_t worlds[] = { 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 };
	uint64_t rows = both->facts[0].dims != 0 ? (uint64_t)both->facts[0].shape[0] : 0;
	for (size_t i = 0; i < FSDP_COUNT(worlds) && !explaining->failed; i++) {
		uint64_t parts = worlds[i];
		if (rows < parts || rows % parts != 0)
			continue;
		uint64_t k = pair->elements.first / (both->numel[0] / parts);
		if (find_block(explaining, both, parts, k) == parts ||
			!is_shuffled(explaining, both, parts))
			continue;
		pair->hint = FSDP_HINT_SHUFFLED;
		pair->hint_side = 1;
		pair->parts = parts;
		pair->dim = 0;
		return;
	}
}

/* ---- the same bytes under other names ---- */

struct print {
	uint64_t hash;
	uint32_t index;
	unsigned side;
};

/* Of dtype, shape and the first bytes. False: they cannot be read. */
static bool add_print(struct explaining *explaining, const struct fsdp_hasher *hasher,
	struct print *print)
{
	const struct fsdp_compared *one =
		fsdp_compared_at(explaining->compare, print->side, print->index);
	const struct fsdp_compare_tensor *facts = &one->facts;
	struct fsdp_tensor tensor = fsdp_tensor(
		explaining->compare->sides[print->side].checkpoint, facts->tensor);
	uint32_t width = fsdp_dtype(facts->dtype)->storage_bytes;
	unsigned char bytes[LOOK_BYTES];
	size_t size = 0;
	if (width == 0 || tensor.layout != NULL || tensor.numel == 0 ||
		one->mapped != NULL)
		return false;
	struct extract extract = { print->side, facts->tensor, 0,
		fsdp_min(LOOK_BYTES / width, tensor.numel) };
	struct fsdp_elements *elements = open_extract(explaining, &extract);
	struct fsdp_span span;
	while (elements != NULL && next_span(explaining, elements, &span)) {
		size_t part = (size_t)fsdp_min(span.size, sizeof bytes - size);
		memcpy(bytes + size, span.data, part);
		size += part;
	}
	fsdp_elements_close(elements);
	uint64_t hash = fsdp_hash(hasher, facts->dtype);
	for (uint32_t i = 0; i < facts->dims; i++)
		hash = fsdp_hash_more(hasher, hash, (uint64_t)facts->shape[i]);
	print->hash = fsdp_hash_span(hasher, hash, fsdp_span(bytes, size));
	return size == extract.count * width;
}

static bool is_tensor_same(
	struct explaining *explaining, const struct print *a, const struct print *b)
{
	struct both both;
	const struct fsdp_compared_pair pair = { .sides = { a->index, b->index } };
	if (!add_both(explaining, &pair, &both) ||
		!fsdp_compare_alike(&both.facts[0], &both.facts[1]))
		return false;
	struct extract one = extract_of(&both, 0, 0, both.numel[0]);
	struct extract other = extract_of(&both, 1, 0, both.numel[1]);
	return is_same(explaining, &one, &other);
}

static bool match_bytes(struct explaining *explaining, struct fsdp_error **ret_error)
{
	struct fsdp_compare *compare = explaining->compare;
	const struct fsdp_hasher hasher = fsdp_hasher_new();
	size_t most = compare->sides[0].only_count + compare->sides[1].only_count;
	size_t count = 0;
	if (compare->sides[0].only_count == 0 || compare->sides[1].only_count == 0)
		return true;
	struct print *prints = calloc(most + 1, sizeof *prints);
	if (prints == NULL)
		return fsdp_fail_memory(ret_error);
	for (unsigned side = 0; side < 2; side++)
		for (size_t i = 0; i < compare->sides[side].only_count; i++) {
			prints[count] =
				(struct print){ .index = compare->sides[side].only[i],
					.side = side };
			count += add_print(explaining, &hasher, &prints[count]);
		}
	FSDP_SORT(prints, count, FSDP_BY(prints, hash), FSDP_BY(prints, side),
		FSDP_BY(prints, index));
	for (size_t i = 0; i < count; i++) {
		/* One of each side alone have this hash. */
		if (i + 1 >= count || prints[i].hash != prints[i + 1].hash ||
			prints[i].side != 0 || prints[i + 1].side != 1 ||
			(i + 2 != count && prints[i + 2].hash == prints[i].hash) ||
			(i != 0 && prints[i - 1].hash == prints[i].hash) ||
			!is_tensor_same(explaining, &prints[i], &prints[i + 1]))
			continue;
		struct fsdp_compared_pair *pair = fsdp_compare_join(
			explaining->compare, prints[i].index, prints[i + 1].index);
		pair->renamed = true;
		pair->why = FSDP_RENAMED_BYTES;
		pair->compared = true;
		pair->elements = (struct fsdp_compare_elements){ .equal = true,
			.first = FSDP_UNKNOWN };
		fsdp_compare_describe(explaining->compare, pair);
	}
	free(prints);
	fsdp_compare_list(compare);
	return true;
}

bool fsdp_compare_explain(struct fsdp_compare *compare, struct fsdp_error **ret_error)
{
	struct explaining explaining = { .compare = compare };
	bool good = fsdp_locator_new(compare->sides[0].checkpoint,
			    &explaining.locators[0], ret_error) &&
		    fsdp_locator_new(compare->sides[1].checkpoint,
			    &explaining.locators[1], ret_error);
	for (size_t i = 0; good && i < compare->facts.pair_count && !explaining.failed;
		i++) {
		struct fsdp_compared_pair *pair = &compare->pairs[i];
		struct both both;
		if ((pair->what & (FSDP_DIFFERS_SHAPE | FSDP_DIFFERS_ELEMENTS)) == 0 ||
			!add_both(&explaining, pair, &both))
			continue;
		if (pair->hint == FSDP_HINT_PIECE || pair->hint == FSDP_HINT_FLAT_PIECE)
			find_part(&explaining, pair, &both);
		else if (pair->hint == FSDP_HINT_JOINED)
			find_copies(&explaining, pair, &both);
		else if (pair->hint == FSDP_HINT_NONE &&
			 (pair->what & FSDP_DIFFERS_ELEMENTS) != 0 && pair->compared)
			find_order(&explaining, pair, &both);
	}
	good = good && match_bytes(&explaining, ret_error);
	fsdp_locator_free(explaining.locators[0]);
	fsdp_locator_free(explaining.locators[1]);
	return good && (!explaining.failed || fsdp_fail_memory(ret_error));
}
