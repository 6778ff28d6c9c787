/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dotted names as chains of interned segments, and the hashes with secret words that find
 * them.
 */
#include <string.h>
#include <sys/random.h>

#include "base/names.h"

void fsdp_seed(uint64_t ret_seeds[2])
{
	uint64_t seeds[2] = { (uint64_t)(uintptr_t)ret_seeds,
		UINT64_C(0x9E3779B97F4A7C15) };
	if (getrandom(seeds, sizeof seeds, GRND_NONBLOCK) < 0)
		seeds[1] ^= (uint64_t)(uintptr_t)seeds;
	ret_seeds[0] = seeds[0];
	ret_seeds[1] = seeds[1] | 1;
}

/*
 * Hashes of bytes with secret words.
 */

struct fsdp_hasher fsdp_hasher_new(void)
{
	uint64_t seeds[2];
	fsdp_seed(seeds);
	return (struct fsdp_hasher){ seeds[0], seeds[1] | UINT64_C(1) << 63 };
}

uint64_t fsdp_hash_span(
	const struct fsdp_hasher *hasher, uint64_t hash, struct fsdp_span span)
{
	uint64_t word = 0;
	hash = fsdp_hash_more(hasher, hash, span.size);
	for (; span.size >= sizeof word;
		span.data += sizeof word, span.size -= sizeof word)
		hash = fsdp_hash_more(hasher, hash, fsdp_load_eight(span.data));
	if (span.size != 0)
		memcpy(&word, span.data, span.size);
	return fsdp_hash_more(hasher, hash ^ hasher->seed, word);
}

enum { FIRST_SLOTS = 256 };

/* All of up to eight bytes, some of them twice. */
static inline uint64_t load_rest(const unsigned char *text, size_t size)
{
	if (size == 8)
		return fsdp_load_eight(text);
	if (size >= 4)
		return fsdp_load_four(text) | (uint64_t)fsdp_load_four(text + size - 4)
						      << 32;
	if (size == 0)
		return 0;
	return text[0] | (uint64_t)text[size / 2] << 8 | (uint64_t)text[size - 1] << 16;
}

bool fsdp_names_init(struct fsdp_names *names, struct fsdp_arena *arena)
{
	*names = (struct fsdp_names){ .arena = arena, .slot_count = FIRST_SLOTS };
	uint64_t seeds[2];
	fsdp_seed(seeds);
	names->seed = seeds[0];
	names->seed_too = seeds[1];
	fsdp_vec_init(&names->list, arena, sizeof(struct fsdp_name));
	names->slots = FSDP_TAKE(arena, names->slots, FIRST_SLOTS);
	names->tags = fsdp_arena_take(arena, FIRST_SLOTS, 1);
	struct fsdp_name *root = fsdp_vec_push(&names->list);
	if (names->slots == NULL || names->tags == NULL || root == NULL)
		return false;
	*root = (struct fsdp_name){ .text = (const unsigned char *)"",
		.parent = FSDP_NONE };
	return true;
}

/* What a slot says of its name without a look at it: a table of a million names does
 * not fit the caches, one byte each nearly does. */
static unsigned char tag_of(uint32_t hash)
{
	return (unsigned char)(hash >> 24 | 1);
}

static bool has_text(const struct fsdp_name *name, struct fsdp_span segment)
{
	return name->size == segment.size &&
	       fsdp_bytes_equal(name->text, segment.data, segment.size);
}

/*
 * The child of that name in the parent's list; else 0, *ret_last is the last of the list
 * or 0, and *ret_full says that there may be more of them in the table.
 */
static uint32_t find_listed(const struct fsdp_names *names, uint32_t parent,
	struct fsdp_span segment, uint32_t *ret_last, bool *ret_full)
{
	unsigned count = 0;
	uint32_t id = fsdp_names_at(names, parent)->child;
	*ret_last = 0;
	while (id != 0) {
		const struct fsdp_name *name = fsdp_names_at(names, id);
		if (has_text(name, segment))
			return id;
		*ret_last = id;
		id = name->next;
		count++;
	}
	*ret_full = count >= FSDP_NAMES_LISTED;
	return 0;
}

/* The slot of a name, or the free one where it belongs. */
static size_t find_slot(const struct fsdp_names *names, uint32_t hash, uint32_t parent,
	struct fsdp_span segment)
{
	size_t mask = names->slot_count - 1;
	unsigned char tag = tag_of(hash);
	for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
		if (names->tags[slot] == 0)
			return slot;
		if (names->tags[slot] != tag)
			continue;
		if (names->slots[slot].hash != hash)
			continue;
		const struct fsdp_name *name =
			fsdp_names_at(names, names->slots[slot].id);
		if (name->parent == parent && has_text(name, segment))
			return slot;
	}
}

/* Old tables stay in the arena: together they are as large as the last one. */
static bool grow(struct fsdp_names *names)
{
	size_t count = names->slot_count * 2;
	struct fsdp_names_slot *slots = FSDP_TAKE(names->arena, slots, count);
	unsigned char *tags = fsdp_arena_take(names->arena, count, 1);
	if (slots == NULL || tags == NULL)
		return false;
	for (size_t old = 0; old < names->slot_count; old++) {
		if (names->tags[old] == 0)
			continue;
		uint32_t hash = names->slots[old].hash;
		size_t slot = hash & (count - 1);
		while (tags[slot] != 0)
			slot = (slot + 1) & (count - 1);
		slots[slot] = names->slots[old];
		tags[slot] = tag_of(hash);
	}
	names->slots = slots;
	names->tags = tags;
	names->slot_count = count;
	return true;
}

/* Where a copy of the segment is looked for. Nothing depends on whether it is found but
 * the size of the copies, so this need not be secret, nor good. */
static size_t kept_slot(struct fsdp_span segment)
{
	uint64_t word = segment.size > 8
				? fsdp_load_eight(segment.data) ^
					  fsdp_load_eight(segment.data + segment.size - 8)
				: load_rest(segment.data, segment.size);
	return (size_t)(word * UINT64_C(0x9E3779B97F4A7C15) >> 56) % FSDP_NAMES_KEPT;
}

/* A copy of the segment: one that was made lately if there is one. */
static struct fsdp_span keep(struct fsdp_names *names, struct fsdp_span segment)
{
	if (names->kept == NULL)
		names->kept = FSDP_TAKE(names->arena, names->kept, FSDP_NAMES_KEPT);
	if (names->kept == NULL)
		return (struct fsdp_span){ 0 };
	struct fsdp_span *kept = &names->kept[kept_slot(segment)];
	if (kept->data == NULL || kept->size != segment.size ||
		!fsdp_bytes_equal(kept->data, segment.data, segment.size))
		*kept = fsdp_arena_copy(names->copies, segment);
	return *kept;
}

static uint32_t new_name(
	struct fsdp_names *names, uint32_t parent, struct fsdp_span segment)
{
	uint32_t id = (uint32_t)names->list.count;
	if (names->copies != NULL)
		segment = keep(names, segment);
	if (names->copies != NULL && segment.data == NULL)
		return FSDP_NONE;
	struct fsdp_name *name = fsdp_vec_push(&names->list);
	if (name == NULL)
		return FSDP_NONE;
	*name = (struct fsdp_name){
		.text = segment.data,
		.size = (uint32_t)segment.size,
		.parent = parent,
	};
	return id;
}

/* The new name is the last of the parent's list, after `last` if that is not 0. */
static uint32_t add_listed(struct fsdp_names *names, uint32_t parent,
	struct fsdp_span segment, uint32_t last)
{
	uint32_t id = new_name(names, parent, segment);
	if (id == FSDP_NONE)
		return id;
	struct fsdp_name *before = fsdp_vec_at(&names->list, last != 0 ? last : parent);
	*(last != 0 ? &before->next : &before->child) = id;
	return id;
}

static uint32_t add_in_slot(struct fsdp_names *names, uint32_t hash, uint32_t parent,
	struct fsdp_span segment, size_t slot)
{
	if (names->slots_used * 3 >= names->slot_count * 2) {
		if (!grow(names))
			return FSDP_NONE;
		slot = find_slot(names, hash, parent, segment);
	}
	uint32_t id = new_name(names, parent, segment);
	if (id == FSDP_NONE)
		return id;
	names->slots_used++;
	names->slots[slot] = (struct fsdp_names_slot){ id, hash };
	names->tags[slot] = tag_of(hash);
	return id;
}

/* Where a segment belongs below a name. */
struct segment_place {
	uint32_t last; /* of the parent's list, or 0 */
	bool full;     /* it is, so the table counts */
	uint32_t hash;
	size_t slot;
};

/* Its id; 0: it is not there. */
static uint32_t look_up(const struct fsdp_names *names, uint32_t parent,
	struct fsdp_span segment, struct segment_place *place)
{
	place->full = false;
	uint32_t id = find_listed(names, parent, segment, &place->last, &place->full);
	if (id != 0 || !place->full)
		return id;
	const unsigned char *text = segment.data;
	size_t size = segment.size;
	uint64_t hash = fsdp_mix(names->seed ^ parent, names->seed_too ^ size);
	for (; size > 8; text += 8, size -= 8)
		hash = fsdp_mix(hash ^ fsdp_load_eight(text), names->seed_too);
	hash = fsdp_mix(hash ^ load_rest(text, size) ^ names->seed, names->seed_too);
	place->hash = (uint32_t)(hash ^ hash >> 32);
	place->slot = find_slot(names, place->hash, parent, segment);
	return names->tags[place->slot] != 0 ? names->slots[place->slot].id : 0;
}

uint32_t fsdp_names_child(
	struct fsdp_names *names, uint32_t parent, struct fsdp_span segment)
{
	if (parent == FSDP_NONE || segment.size >= UINT32_MAX ||
		names->list.count >= FSDP_NONE - 1) {
		if (fsdp_arena_leaves(names->arena))
			fsdp_arena_leave(names->arena);
		return FSDP_NONE;
	}
	struct segment_place place;
	uint32_t id = look_up(names, parent, segment, &place);
	if (id != 0)
		return id;
	return place.full ? add_in_slot(names, place.hash, parent, segment, place.slot)
			  : add_listed(names, parent, segment, place.last);
}

/* The next segment of a dotted name; false when there is none left. */
static bool next_segment(
	struct fsdp_span *rest, bool *more, struct fsdp_span *ret_segment)
{
	if (!*more)
		return false;
	const unsigned char *dot =
		rest->size != 0 ? memchr(rest->data, '.', rest->size) : NULL;
	size_t size = dot != NULL ? (size_t)(dot - rest->data) : rest->size;
	*ret_segment = fsdp_span(rest->data, size);
	*more = dot != NULL;
	if (dot != NULL)
		*rest = fsdp_span(dot + 1, rest->size - size - 1);
	return true;
}

/* How many of the last name's leading segments this one has too. */
static uint32_t shared_segments(
	const struct fsdp_names *names, uint32_t parent, struct fsdp_span dotted)
{
	const struct fsdp_names_last *last = &names->last;
	uint32_t shared = 0;
	if (last->count == 0 || last->parent != parent)
		return 0;
	size_t most = dotted.size < last->text.size ? dotted.size : last->text.size;
	/* How many bytes the two begin with in common. */
	const unsigned char *b = last->copied ? last->bytes : last->text.data;
	size_t common = 0;
	while (common + 8 <= most &&
		fsdp_load_eight(dotted.data + common) == fsdp_load_eight(b + common))
		common += 8;
	while (common < most && dotted.data[common] == b[common])
		common++;
	/* The dot after a segment must be the same too. */
	while (shared < last->count && last->segments[shared].end < common)
		shared++;
	return shared;
}

uint32_t fsdp_names_intern(
	struct fsdp_names *names, uint32_t parent, struct fsdp_span dotted)
{
	struct fsdp_names_last *last = &names->last;
	struct fsdp_span segment, whole = dotted;
	uint32_t shared = shared_segments(names, parent, dotted), id = parent;
	bool more = true;
	if (shared != 0) {
		size_t skip = (size_t)last->segments[shared - 1].end + 1;
		id = last->segments[shared - 1].id;
		dotted = fsdp_span(dotted.data + skip, dotted.size - skip);
	}
	last->parent = parent;
	/* None while names are added: where memory runs out, this function is left. */
	last->count = 0;
	uint32_t count = shared;
	while (id != FSDP_NONE && next_segment(&dotted, &more, &segment)) {
		id = fsdp_names_child(names, id, segment);
		if (!more || count >= FSDP_NAMES_LAST)
			continue;
		last->segments[count].end =
			(uint32_t)(segment.data + segment.size - whole.data);
		last->segments[count++].id = id;
	}
	if (id != FSDP_NONE && whole.size < UINT32_MAX)
		last->count = count;
	/* What is copied is not borrowed from longer than the call lasts. */
	last->text = whole;
	last->copied = names->copies != NULL;
	if (last->copied) {
		last->text.data = NULL;
		if (whole.size > sizeof last->bytes)
			last->count = 0;
		else if (whole.size != 0)
			memcpy(last->bytes, whole.data, whole.size);
	}
	return id;
}

uint32_t fsdp_names_find_child(
	const struct fsdp_names *names, uint32_t parent, struct fsdp_span segment)
{
	struct segment_place place;
	uint32_t id = look_up(names, parent, segment, &place);
	return id != 0 ? id : FSDP_NONE;
}

uint32_t fsdp_names_find(
	const struct fsdp_names *names, uint32_t parent, struct fsdp_span dotted)
{
	struct fsdp_span segment;
	bool more = true;
	while (parent != FSDP_NONE && next_segment(&dotted, &more, &segment))
		parent = fsdp_names_find_child(names, parent, segment);
	return parent;
}

size_t fsdp_names_depth(const struct fsdp_names *names, uint32_t id)
{
	size_t depth = 0;
	for (; id != 0; id = fsdp_names_at(names, id)->parent)
		depth++;
	return depth;
}

size_t fsdp_names_length(const struct fsdp_names *names, uint32_t id)
{
	size_t length = 0;
	for (const struct fsdp_name *name = fsdp_names_at(names, id);
		name->parent != FSDP_NONE; name = fsdp_names_at(names, name->parent))
		length += name->size + (name->parent != 0 ? 1 : 0);
	return length;
}

size_t fsdp_names_write(
	const struct fsdp_names *names, uint32_t id, char *buffer, size_t size)
{
	size_t length = fsdp_names_length(names, id);
	if (length > size)
		return length;
	size_t at = length;
	for (const struct fsdp_name *name = fsdp_names_at(names, id);
		name->parent != FSDP_NONE; name = fsdp_names_at(names, name->parent)) {
		at -= name->size;
		if (name->size != 0)
			memcpy(buffer + at, name->text, name->size);
		if (name->parent != 0)
			buffer[--at] = '.';
	}
	return length;
}

static size_t digits(struct fsdp_span span, size_t at)
{
	size_t end = at;
	while (end < span.size && fsdp_is_digit(span.data[end]))
		end++;
	return end - at;
}

static int compare_numbers(struct fsdp_span a, struct fsdp_span b)
{
	while (a.size > 1 && a.data[0] == '0')
		a = fsdp_span(a.data + 1, a.size - 1);
	while (b.size > 1 && b.data[0] == '0')
		b = fsdp_span(b.data + 1, b.size - 1);
	if (a.size != b.size)
		return a.size < b.size ? -1 : 1;
	return memcmp(a.data, b.data, a.size);
}

int fsdp_natural_compare(struct fsdp_span a, struct fsdp_span b)
{
	size_t i = 0, j = 0;
	while (i < a.size && j < b.size) {
		size_t left = digits(a, i), right = digits(b, j);
		if (left != 0 && right != 0) {
			int order = compare_numbers(fsdp_span(a.data + i, left),
				fsdp_span(b.data + j, right));
			if (order != 0)
				return order;
			i += left;
			j += right;
		} else {
			if (a.data[i] != b.data[j])
				return a.data[i] < b.data[j] ? -1 : 1;
			i++;
			j++;
		}
	}
	if (i < a.size || j < b.size)
		return i < a.size ? 1 : -1;
	/* "01" and "1" are equal by value; bytes decide, so the order is total. */
	return fsdp_span_compare(a, b);
}

int fsdp_names_compare(const struct fsdp_names *names, uint32_t a, uint32_t b)
{
	size_t left = fsdp_names_depth(names, a), right = fsdp_names_depth(names, b);
	int deeper = left < right ? -1 : left > right;
	for (; left > right; left--)
		a = fsdp_names_at(names, a)->parent;
	for (; right > left; right--)
		b = fsdp_names_at(names, b)->parent;
	if (a == b)
		return deeper;
	while (fsdp_names_at(names, a)->parent != fsdp_names_at(names, b)->parent) {
		a = fsdp_names_at(names, a)->parent;
		b = fsdp_names_at(names, b)->parent;
	}
	return fsdp_natural_compare(
		fsdp_names_segment(names, a), fsdp_names_segment(names, b));
}
