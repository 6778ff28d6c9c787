/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the texts between the values of an object, and remembers them.
 *
 *	{"ph": "X", "ts": 12.5, "args": {"stream": 7}}
 *	 ~~~~~~~ ~~~~~~~~ ~~~~~~    ~~~~~~~~~~~~~~~~~~~~ ~~
 *	, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
 *	     ~~~~~~~~~~~~~~~~~~~~~~~~~~~~     ~~~~~~~~~~~~~~~~~~~     ~~
 *
 * It is the same piece only if it stands at the same place, which is one inside the same
 * objects and arrays; so what it means need not be found out again. Of a member what is
 * wanted are lists of counts, and the one text is part of a piece.
 */
#include "base/mix.h"
#include "base/seed.h"
#include "syntax/json-internal.h"

enum { UNWANTED = FSDP_QUICK_UNWANTED };

struct quick_walk {
	const unsigned char *at, *end;
};

void fsdp_json_pieces_init(
	struct fsdp_json_pieces *pieces, const struct fsdp_json_wanted *wanted)
{
	pieces->wanted = *wanted;
	fsdp_seed(pieces->seeds);
	/* What is not a piece: no JSON has so many of this byte, and if one had, it is of no
	 * kind. */
	memset(pieces->none.text, 0xff, FSDP_QUICK_TEXT);
	memset(pieces->none.mask, 0xff, FSDP_QUICK_TEXT);
	pieces->none.size = FSDP_QUICK_TEXT;
	pieces->none.kind = FSDP_SCAN_BAD;
	pieces->start.to = (struct fsdp_json_level){
		.objects = 1,
		.depth = !wanted->members,
		.fresh = true,
	};
	for (unsigned i = 0; i < FSDP_QUICK_NEXT; i++)
		pieces->start.next[i] = &pieces->none;
}

/* ---- byte by byte ---- */

static bool pass_sign(struct quick_walk *walk, unsigned char sign)
{
	walk->at = find_not_blank(walk->at);
	bool there = *walk->at == sign;
	walk->at += there;
	return there;
}

/* A string of ASCII without escapes. */
static bool pass_string(struct quick_walk *walk, struct fsdp_span *ret_text)
{
	unsigned high = 0;
	if (!pass_sign(walk, '"'))
		return false;
	const unsigned char *begin = walk->at, *close = find_special(begin, &high);
	*ret_text = fsdp_span(begin, (size_t)(close - begin));
	walk->at = close + 1;
	return *close == '"' && high == 0;
}

static bool pass_key(struct quick_walk *walk, struct fsdp_span *ret_key)
{
	return pass_string(walk, ret_key) && pass_sign(walk, ':');
}

static bool pass_word(struct quick_walk *walk)
{
	static const struct fsdp_span words[] = { FSDP_SPAN_INIT("true"),
		FSDP_SPAN_INIT("false"), FSDP_SPAN_INIT("null") };
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		size_t size = words[i].size;
		if (memcmp(walk->at, words[i].data, size) != 0 ||
			is(walk->at[size], WORD))
			continue;
		walk->at += size;
		return true;
	}
	return false;
}

static unsigned char find_key(
	const struct fsdp_span *keys, unsigned count, struct fsdp_span key)
{
	for (unsigned i = 0; i < count; i++)
		if (fsdp_span_equal(keys[i], key))
			return (unsigned char)i;
	return UNWANTED;
}

/* ---- objects ---- */

static unsigned char place_of(const struct fsdp_json_wanted *wanted,
	const struct fsdp_json_level *level, struct fsdp_span key)
{
	if (level->depth == 1)
		return find_key(wanted->keys, wanted->key_count, key);
	unsigned char place = UNWANTED;
	if (level->depth == 2 && level->inner)
		place = find_key(wanted->inner, wanted->inner_count, key);
	return place == UNWANTED ? place : (unsigned char)(place + wanted->key_count);
}

static bool add_mark(struct fsdp_json_piece *piece, size_t offset, unsigned char place)
{
	if (piece->mark_count == FSDP_COUNT(piece->marks))
		return false;
	piece->marks[piece->mark_count].offset = (uint32_t)offset;
	piece->marks[piece->mark_count++].place = place;
	return true;
}

static bool close_level(struct fsdp_json_piece *piece, size_t offset)
{
	struct fsdp_json_level *level = &piece->to;
	level->objects >>= 1;
	level->fresh = false;
	if (--level->depth != 1)
		return true;
	level->inner = false;
	return add_mark(piece, offset, FSDP_QUICK_CLOSES);
}

static bool open_level(const struct fsdp_json_wanted *wanted,
	struct fsdp_json_piece *piece, size_t offset, bool object)
{
	struct fsdp_json_level *level = &piece->to;
	if (level->depth == FSDP_QUICK_LEVELS)
		return false;
	/* What is wanted in there is text and numbers. */
	if (level->depth != 1 && piece->place != UNWANTED)
		return false;
	if (level->depth == 1) {
		level->inner = object && piece->place == wanted->inner_of;
		if (!add_mark(piece, offset, piece->place))
			return false;
	}
	level->objects = level->objects << 1 | object;
	level->depth++;
	level->fresh = true;
	return true;
}

/* As far as a text or number, or to the end of the object. */
static bool spell_object(const struct fsdp_json_wanted *wanted, struct quick_walk *walk,
	struct fsdp_json_piece *piece)
{
	const unsigned char *begin = walk->at;
	struct fsdp_json_level *level = &piece->to;
	for (;;) {
		struct fsdp_span key;
		bool object = (level->objects & 1) != 0;
		piece->place = UNWANTED;
		if (pass_sign(walk, object ? '}' : ']')) {
			piece->kind = FSDP_SCAN_END;
			if (level->depth == 1)
				return true;
			if (!close_level(piece, (size_t)(walk->at - begin)))
				return false;
			continue;
		}
		if (!level->fresh && !pass_sign(walk, ','))
			return false;
		level->fresh = false;
		if (object && !pass_key(walk, &key))
			return false;
		if (object)
			piece->place = place_of(wanted, level, key);
		piece->kind = FSDP_SCAN_TEXT;
		if (pass_sign(walk, '"'))
			return true;
		piece->kind = FSDP_SCAN_NUMBER;
		if (*walk->at == '-' || is(*walk->at, DIGIT))
			return true;
		size_t offset = (size_t)(walk->at - begin);
		if (pass_sign(walk, '{') || pass_sign(walk, '[')) {
			if (!open_level(wanted, piece, offset, walk->at[-1] == '{'))
				return false;
		} else if (piece->place != UNWANTED || !pass_word(walk)) {
			return false;
		}
	}
}

/* ---- members ---- */

/* The text that is part of a piece. */
static bool spell_text(struct quick_walk *walk, const unsigned char *begin,
	struct fsdp_json_piece *piece)
{
	struct fsdp_span text;
	if (!pass_string(walk, &text))
		return false;
	piece->string_offset = (uint32_t)(text.data - begin);
	piece->string_size = (uint32_t)text.size;
	return true;
}

/* Behind the key of a member, or behind a list in it: as far as the counts of a list, or
 * to its end. */
static bool spell_member(const struct fsdp_json_wanted *wanted, struct quick_walk *walk,
	struct fsdp_json_piece *piece)
{
	const unsigned char *begin = walk->at;
	struct fsdp_json_level *level = &piece->to;
	struct fsdp_span key;
	piece->kind = FSDP_SCAN_END;
	if (level->depth == 0) {
		if (!pass_sign(walk, ':'))
			return false;
		if (wanted->key_count == 0)
			return spell_text(walk, begin, piece);
		if (!pass_sign(walk, '{'))
			return false;
		level->depth = 1;
	}
	while (!pass_sign(walk, '}')) {
		if ((level->seen != 0 && !pass_sign(walk, ',')) || !pass_key(walk, &key))
			return false;
		piece->place = find_key(wanted->keys, wanted->key_count, key);
		if (piece->place == UNWANTED || (level->seen >> piece->place & 1) != 0)
			return false;
		level->seen |= UINT32_C(1) << piece->place;
		if (piece->place < wanted->list_count) {
			piece->kind = FSDP_SCAN_ARRAY;
			return pass_sign(walk, '[');
		}
		if (!spell_text(walk, begin, piece))
			return false;
	}
	return level->seen == (UINT32_C(1) << wanted->key_count) - 1;
}

/* ---- pieces ---- */

/* What stands from `at` to the next value, or to the end. False: it is not plain. */
static bool spell(struct fsdp_json_pieces *pieces, struct quick_walk walk,
	struct fsdp_json_level from, struct fsdp_json_piece *piece)
{
	const struct fsdp_json_wanted *wanted = &pieces->wanted;
	const unsigned char *begin = walk.at;
	*piece = (struct fsdp_json_piece){ .from = from, .to = from };
	for (unsigned i = 0; i < FSDP_QUICK_NEXT; i++)
		piece->next[i] = &pieces->none;
	if (!(wanted->members ? spell_member : spell_object)(wanted, &walk, piece))
		return false;
	piece->size = (uint32_t)(walk.at - begin);
	return piece->kind == FSDP_SCAN_END ? walk.at <= walk.end : walk.at < walk.end;
}

static bool is_same(const struct fsdp_json_piece *a, const struct fsdp_json_piece *b)
{
	return a->size == b->size && memcmp(a->text, b->text, a->size) == 0 &&
	       a->from.objects == b->from.objects && a->from.depth == b->from.depth &&
	       a->from.inner == b->from.inner && a->from.fresh == b->from.fresh &&
	       a->from.seen == b->from.seen;
}

static size_t bucket_of(
	const struct fsdp_json_pieces *pieces, const struct fsdp_json_piece *piece)
{
	uint64_t hash = pieces->seeds[0] ^ piece->from.objects;
	for (size_t i = 0; i < FSDP_QUICK_TEXT; i += 8)
		hash = fsdp_mix(
			hash ^ fsdp_load_eight(piece->text + i), pieces->seeds[1]);
	return (size_t)(hash % FSDP_COUNT(pieces->buckets));
}

/* The one that is kept for it, or a new one; NULL: there are too many. */
static struct fsdp_json_piece *keep(
	struct fsdp_json_pieces *pieces, const struct fsdp_json_piece *piece)
{
	size_t bucket = bucket_of(pieces, piece);
	for (; pieces->buckets[bucket] != 0;
		bucket = (bucket + 1) % FSDP_COUNT(pieces->buckets))
		if (is_same(&pieces->kept[pieces->buckets[bucket] - 1], piece))
			return &pieces->kept[pieces->buckets[bucket] - 1];
	if (pieces->count == FSDP_QUICK_PIECES)
		return NULL;
	pieces->kept[pieces->count] = *piece;
	pieces->buckets[bucket] = (uint16_t)(pieces->count + 1);
	return &pieces->kept[pieces->count++];
}

struct fsdp_json_piece *fsdp_json_pieces_look(struct fsdp_json_pieces *pieces,
	const unsigned char *at, const unsigned char *end, struct fsdp_json_piece *before)
{
	for (unsigned i = 1; i < FSDP_QUICK_NEXT; i++) {
		struct fsdp_json_piece *piece = before->next[i];
		if (fsdp_json_piece_stands_at(piece, at))
			return piece->kind != FSDP_SCAN_BAD ? piece : NULL;
	}
	struct fsdp_json_piece *other = &pieces->other;
	if (!spell(pieces, (struct quick_walk){ at, end }, before->to, other))
		return NULL;
	if (other->size > FSDP_QUICK_TEXT)
		return other;
	memcpy(other->text, at, other->size);
	memset(other->mask, 0xff, other->size);
	struct fsdp_json_piece *kept = keep(pieces, other);
	if (kept == NULL)
		return other;
	if (before != other)
		before->next[before->turn++ % FSDP_QUICK_NEXT] = kept;
	return kept;
}
