/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON that nearly all files consist of, as long as it lies in the window: objects
 * that look alike are passed without a look at each of their bytes. What is odd, long or
 * cut is left alone, and json-scan.c reads it from the beginning.
 *
 * A piece is the text between two values, and the values are the strings and numbers:
 *
 *	{"ph": "X", "ts": 12.5, "args": {"stream": 7}}
 *	 ~~~~~~~ ~~~~~~~~ ~~~~~~    ~~~~~~~~~~~~~~~~~~~~ ~~
 *
 * It is the same piece only if it stands at the same place, which is one inside the same
 * objects and arrays; so what it means need not be found out again.
 */
#include <stdlib.h>

#include "base/mix.h"
#include "base/seed.h"
#include "syntax/json-bytes.h"
#include "syntax/json-internal.h"
#include "syntax/json-quick.h"

/* What is called for each of a trace's thousand million bytes. */
#define HOT __attribute__((always_inline)) static inline
#define COLD __attribute__((noinline)) static

enum { LEVELS = 62, CLOSES = 0xff, UNWANTED = FSDP_QUICK_VALUES };

struct quick_walk {
	const unsigned char *at, *end;
};

struct fsdp_json_quick *fsdp_json_quick_new(const struct fsdp_json_wanted *wanted)
{
	struct fsdp_json_quick *quick = calloc(1, sizeof *quick);
	if (quick == NULL)
		return NULL;
	quick->wanted = *wanted;
	fsdp_seed(quick->seeds);
	/* What is no piece: no JSON has so many of this byte, and if one had, it is of no
	 * kind. */
	memset(quick->none.text, 0xff, FSDP_QUICK_TEXT);
	memset(quick->none.mask, 0xff, FSDP_QUICK_TEXT);
	quick->none.size = FSDP_QUICK_TEXT;
	quick->none.kind = FSDP_SCAN_BAD;
	quick->start.to = (struct fsdp_json_level){ 1, 1, false, true };
	for (unsigned i = 0; i < FSDP_QUICK_NEXT; i++)
		quick->start.next[i] = &quick->none;
	return quick;
}

void fsdp_json_quick_free(struct fsdp_json_quick *quick)
{
	free(quick);
}

/* ---- byte by byte ---- */

static unsigned char next_byte(struct quick_walk *walk)
{
	const unsigned char *at = walk->at;
	if (*at > ' ')
		return *at;
	if (*at == ' ' && at[1] > ' ') {
		walk->at++;
		return at[1];
	}
	walk->at = find_not_blank(at);
	return *walk->at;
}

static bool pass_word(struct quick_walk *walk, const char *word, size_t size)
{
	if (memcmp(walk->at, word, size) != 0 || is(walk->at[size], WORD))
		return false;
	walk->at += size;
	return true;
}

static bool pass_words(struct quick_walk *walk)
{
	switch (*walk->at) {
	case 't':
		return pass_word(walk, "true", 4);
	case 'f':
		return pass_word(walk, "false", 5);
	case 'n':
		return pass_word(walk, "null", 4);
	default:
		return false;
	}
}

/* The key that begins at `at`, its colon, and to the value behind that. */
static bool pass_key(
	struct quick_walk *walk, unsigned char byte, struct fsdp_span *ret_key)
{
	const unsigned char *key = walk->at + 1;
	unsigned high = 0;
	if (byte != '"')
		return false;
	const unsigned char *close = find_special(key, &high);
	if (*close != '"' || high != 0)
		return false;
	*ret_key = fsdp_span(key, (size_t)(close - key));
	walk->at = close + 1;
	if (next_byte(walk) != ':')
		return false;
	walk->at++;
	return true;
}

static unsigned char find_key(
	const struct fsdp_span *keys, unsigned count, struct fsdp_span key)
{
	for (unsigned i = 0; i < count; i++)
		if (fsdp_span_equal(keys[i], key))
			return (unsigned char)i;
	return UNWANTED;
}

static unsigned char place_of(const struct fsdp_json_quick *quick,
	const struct fsdp_json_level *level, struct fsdp_span key)
{
	const struct fsdp_json_wanted *wanted = &quick->wanted;
	if (level->depth == 1)
		return find_key(wanted->keys, wanted->key_count, key);
	unsigned char place = UNWANTED;
	if (level->depth == 2 && level->inner)
		place = find_key(wanted->inner, wanted->inner_count, key);
	return place == UNWANTED ? place : (unsigned char)(place + wanted->key_count);
}

static bool add_mark(struct fsdp_json_piece *piece, size_t offset, unsigned char place)
{
	if (piece->mark_count == sizeof piece->marks / sizeof *piece->marks)
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
	return add_mark(piece, offset, CLOSES);
}

static bool open_level(const struct fsdp_json_quick *quick, struct fsdp_json_piece *piece,
	size_t offset, bool object, unsigned char place)
{
	struct fsdp_json_level *level = &piece->to;
	if (level->depth == LEVELS)
		return false;
	/* What is wanted in there is text and numbers. */
	if (level->depth != 1 && place != UNWANTED)
		return false;
	if (level->depth == 1) {
		level->inner = object && place == quick->wanted.inner_of;
		if (!add_mark(piece, offset, place))
			return false;
	}
	level->objects = level->objects << 1 | object;
	level->depth++;
	level->fresh = true;
	return true;
}

/* What stands from `at` to the next value, or to the end of the object. False: it is not
 * plain. */
static bool spell(struct fsdp_json_quick *quick, struct quick_walk walk,
	const struct fsdp_json_level *from, struct fsdp_json_piece *piece)
{
	const unsigned char *begin = walk.at;
	struct fsdp_json_level *level = &piece->to;
	piece->from = piece->to = *from;
	piece->mark_count = piece->turn = 0;
	for (unsigned i = 0; i < FSDP_QUICK_NEXT; i++)
		piece->next[i] = &quick->none;
	for (;;) {
		struct fsdp_span key;
		unsigned char byte = next_byte(&walk), place = UNWANTED;
		bool object = (level->objects & 1) != 0;
		piece->place = UNWANTED;
		if (byte == (object ? '}' : ']')) {
			walk.at++;
			piece->size = (uint32_t)(walk.at - begin);
			piece->kind = FSDP_SCAN_END;
			if (level->depth == 1)
				return walk.at <= walk.end;
			if (!close_level(piece, piece->size))
				return false;
			continue;
		}
		if (!level->fresh) {
			if (byte != ',')
				return false;
			walk.at++;
			byte = next_byte(&walk);
		}
		level->fresh = false;
		if (object) {
			if (!pass_key(&walk, byte, &key))
				return false;
			place = place_of(quick, level, key);
			byte = next_byte(&walk);
		}
		size_t offset = (size_t)(walk.at - begin);
		piece->place = place;
		if (byte == '"' || byte == '-' || is(byte, DIGIT)) {
			piece->kind = byte == '"' ? FSDP_SCAN_TEXT : FSDP_SCAN_NUMBER;
			piece->size = (uint32_t)(offset + (byte == '"'));
			return walk.at < walk.end;
		}
		if (byte == '{' || byte == '[') {
			if (!open_level(quick, piece, offset, byte == '{', place))
				return false;
			walk.at++;
		} else if (place != UNWANTED || !pass_words(&walk)) {
			return false;
		}
	}
}

/* ---- pieces ---- */

static bool is_same_level(
	const struct fsdp_json_level *a, const struct fsdp_json_level *b)
{
	return a->objects == b->objects && a->depth == b->depth && a->inner == b->inner &&
	       a->fresh == b->fresh;
}

static bool is_same(const struct fsdp_json_piece *a, const struct fsdp_json_piece *b)
{
	return a->size == b->size && memcmp(a->text, b->text, a->size) == 0 &&
	       is_same_level(&a->from, &b->from);
}

static size_t bucket_of(
	const struct fsdp_json_quick *quick, const struct fsdp_json_piece *piece)
{
	uint64_t hash = quick->seeds[0] ^ piece->from.objects;
	for (size_t i = 0; i < FSDP_QUICK_TEXT; i += 8)
		hash = fsdp_mix(hash ^ fsdp_load_eight(piece->text + i), quick->seeds[1]);
	return (size_t)(hash % (2 * FSDP_QUICK_PIECES));
}

/* The one that is kept for it, or a new one; NULL: there are too many. */
static struct fsdp_json_piece *keep(
	struct fsdp_json_quick *quick, const struct fsdp_json_piece *piece)
{
	size_t bucket = bucket_of(quick, piece);
	for (; quick->buckets[bucket] != 0;
		bucket = (bucket + 1) % (2 * FSDP_QUICK_PIECES))
		if (is_same(&quick->pieces[quick->buckets[bucket] - 1], piece))
			return &quick->pieces[quick->buckets[bucket] - 1];
	if (quick->count == FSDP_QUICK_PIECES)
		return NULL;
	quick->pieces[quick->count] = *piece;
	quick->buckets[bucket] = (uint16_t)(quick->count + 1);
	return &quick->pieces[quick->count++];
}

#if defined __SSE2__
/* Not 0 where a byte of it is another one. */
HOT sixteen differs(
	const struct fsdp_json_piece *piece, const unsigned char *at, size_t i)
{
	return (load(at + i) ^ load(piece->text + i)) & load(piece->mask + i);
}
#endif

HOT bool stands_at(const struct fsdp_json_piece *piece, const unsigned char *at)
{
#if defined __SSE2__
	enum { HALF = FSDP_QUICK_TEXT / 2 };
	sixteen other = differs(piece, at, 0) | differs(piece, at, 16);
	if (bits((sixteen)(other == 0)) != 0xffff)
		return false;
	if (piece->size <= HALF)
		return true;
	other = differs(piece, at, HALF) | differs(piece, at, HALF + 16);
	return bits((sixteen)(other == 0)) == 0xffff;
#else
	return memcmp(at, piece->text, piece->size) == 0;
#endif
}

/* What stands at `at`, although it is not what came there last. NULL: nothing plain. */
COLD struct fsdp_json_piece *look(struct fsdp_json_quick *quick, struct quick_walk walk,
	struct fsdp_json_piece *before)
{
	for (unsigned i = 1; i < FSDP_QUICK_NEXT; i++) {
		struct fsdp_json_piece *piece = before->next[i];
		if (stands_at(piece, walk.at))
			return piece->kind != FSDP_SCAN_BAD ? piece : NULL;
	}
	struct fsdp_json_piece *other = &quick->other;
	struct fsdp_json_level from = before->to;
	if (!spell(quick, walk, &from, other))
		return NULL;
	if (other->size > FSDP_QUICK_TEXT)
		return other;
	memset(other->text, 0, sizeof other->text);
	memcpy(other->text, walk.at, other->size);
	memset(other->mask, 0, sizeof other->mask);
	memset(other->mask, 0xff, other->size);
	struct fsdp_json_piece *kept = keep(quick, other);
	if (kept == NULL)
		return other;
	if (before != other)
		before->next[before->turn++ % FSDP_QUICK_NEXT] = kept;
	return kept;
}

/* ---- values ---- */

/* Behind the quote that ends the string whose text begins at `at`; NULL: not plain. */
COLD const unsigned char *pass_long(const unsigned char *at, bool *ret_escaped)
{
	unsigned high = 0;
	for (;;) {
		at = find_special(at, &high);
		if (high != 0)
			return NULL; /* whether these are characters is looked at
					elsewhere */
		if (*at == '"')
			return at + 1;
		size_t escape = *at == '\\' ? escape_size(at) : 0;
		if (escape == 0)
			return NULL;
		*ret_escaped = true;
		at += escape;
	}
}

HOT const unsigned char *pass_text(const unsigned char *at, bool *ret_escaped)
{
#if defined __SSE2__
	uint32_t special = find_odd(load(at)) | find_odd(load(at + 16)) << 16;
	if (special != 0) {
		const unsigned char *close = at + __builtin_ctz(special);
		if (*close == '"')
			return close + 1;
	}
#endif
	return pass_long(at, ret_escaped);
}

COLD const unsigned char *pass_odd_number(const unsigned char *at)
{
	size_t size = number_size(at);
	return size != 0 ? at + size : NULL;
}

/* What follows is looked at where a comma is looked for. Where a number ends is found in
 * as few steps as can be, for nothing else can begin before; whether it is one is asked
 * beside that. */
HOT const unsigned char *pass_number(const unsigned char *at)
{
#if defined __SSE2__
	sixteen bytes = load(at);
	unsigned other = find_not_digits(bytes), points = bits((sixteen)(bytes == '.'));
	unsigned size = (unsigned)__builtin_ctz((other ^ points) | 1u << 16);
	points &= (1u << size) - 1;
	/* Digits come before a point and behind it, and 0 only alone. */
	unsigned wrong = points & (points - 1);
	wrong |= points << 1 >> size & 1;
	wrong |= (at[0] == '0') & ~(other >> 1);
	if ((wrong | (other & 1)) == 0 && size - 1 < 15)
		return at + size;
#endif
	return pass_odd_number(at);
}

/* ---- objects ---- */

/* Wanted is what is nested in the object: where it begins and ends. */
struct nested {
	const unsigned char *begin;
	unsigned char place;
};

COLD void take_marks(struct fsdp_json_quick *quick, const struct fsdp_json_piece *piece,
	const unsigned char *at, struct nested *nested, uint32_t *present)
{
	const struct fsdp_json_wanted *wanted = &quick->wanted;
	for (unsigned i = 0; i < piece->mark_count; i++) {
		const unsigned char *to = at + piece->marks[i].offset;
		unsigned char place = piece->marks[i].place;
		if (place != CLOSES) {
			*nested = (struct nested){ to, place };
			if (place == wanted->inner_of)
				*present &= (UINT32_C(1) << wanted->key_count) - 1;
			continue;
		}
		quick->values[nested->place] = (struct fsdp_json_value){
			*nested->begin == '{' ? FSDP_SCAN_OBJECT : FSDP_SCAN_ARRAY, false,
			fsdp_span(nested->begin, (size_t)(to - nested->begin))
		};
		*present |= UINT32_C(1) << nested->place;
	}
}

HOT bool take_value(
	struct fsdp_json_value *value, unsigned char kind, struct quick_walk *walk)
{
	const unsigned char *begin = walk->at;
	bool text = kind == FSDP_SCAN_TEXT;
	value->kind = kind;
	value->escaped = false;
	if (text)
		walk->at = pass_text(begin, &value->escaped);
	else if (kind == FSDP_SCAN_NUMBER)
		walk->at = pass_number(begin);
	else
		return false;
	value->span = fsdp_span(begin, (size_t)(walk->at - begin) - text);
	return walk->at != NULL;
}

/* Those that are absent. */
static void clear(struct fsdp_json_quick *quick, unsigned from, unsigned to)
{
	uint32_t absent =
		~quick->present & ((UINT32_C(1) << to) - 1) & ~UINT32_C(0) << from;
	for (; absent != 0; absent &= absent - 1)
		quick->values[__builtin_ctz(absent)].kind = FSDP_SCAN_END;
}

bool fsdp_json_quick_object(struct fsdp_json_quick *quick, struct fsdp_json_scan *scan)
{
	struct quick_walk walk = { scan->window.bytes + scan->at,
		scan->window.bytes + scan->window.size };
	struct nested nested = { 0 };
	struct fsdp_json_piece *before = &quick->start;
	uint32_t present = 0;
	if (scan->next != WANT_FIRST_KEY || scan->depth + LEVELS > scan->depth_limit)
		return false;
	for (;;) {
		struct fsdp_json_piece *piece = before->next[0];
		if (!stands_at(piece, walk.at)) {
			piece = look(quick, walk, before);
			if (piece == NULL)
				return false;
		}
		if (piece->mark_count != 0)
			take_marks(quick, piece, walk.at, &nested, &present);
		walk.at += piece->size;
		if (piece->kind == FSDP_SCAN_END)
			break;
		if (!take_value(&quick->values[piece->place], piece->kind, &walk))
			return false;
		present |= UINT32_C(1) << piece->place;
		before = piece;
	}
	scan->at = (size_t)(walk.at - scan->window.bytes);
	fsdp_json_leave(scan);
	quick->present = present;
	clear(quick, 0, quick->wanted.key_count);
	return true;
}

const struct fsdp_json_value *fsdp_json_quick_inner(struct fsdp_json_quick *quick)
{
	const struct fsdp_json_wanted *wanted = &quick->wanted;
	clear(quick, wanted->key_count, wanted->key_count + wanted->inner_count);
	return quick->values + wanted->key_count;
}

bool fsdp_json_quick_another(struct fsdp_json_scan *scan)
{
	struct quick_walk walk = { scan->window.bytes + scan->at,
		scan->window.bytes + scan->window.size };
	uint32_t level = scan->depth - 1;
	if (scan->next != WANT_COMMA || scan->depth >= scan->depth_limit ||
		(scan->objects[level / 64] >> level % 64 & 1) != 0 ||
		next_byte(&walk) != ',')
		return false;
	walk.at++;
	if (next_byte(&walk) != '{' || walk.at >= walk.end)
		return false;
	scan->objects[scan->depth / 64] |= UINT64_C(1) << scan->depth % 64;
	scan->depth++;
	scan->at = scan->mark = (size_t)(walk.at + 1 - scan->window.bytes);
	scan->next = WANT_FIRST_KEY;
	return true;
}
