/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes objects and members that are written like the one before: events of traces,
 * tensors of safetensors headers, entries of indexes.
 *
 * The texts between the values are looked at once and remembered as pieces. The second
 * part goes from piece to piece, as long as they are in the window, with strings, numbers
 * and lists of counts between them. Unusual, long or truncated text is left to
 * json-scan.c, which reads it from the beginning.
 *
 *	{"ph": "X", "ts": 12.5, "args": {"stream": 7}}
 *	 ~~~~~~~ ~~~~~~~~ ~~~~~~    ~~~~~~~~~~~~~~~~~~~~ ~~
 *	, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
 *	     ~~~~~~~~~~~~~~~~~~~~~~~~~~~~     ~~~~~~~~~~~~~~~~~~~     ~~
 *
 * It is the same piece only at the same place, inside the same objects and arrays; so its
 * meaning need not be computed again. Of a member what is wanted are lists of counts, and
 * the one text is part of a piece.
 */
#include <stdlib.h>

#include "base/names.h"
#include "syntax/json-internal.h"
#include "syntax/json-template.h"

#if defined __SSE2__
/* Not 0 where a byte of it is another one. */
static inline sixteen piece_differs(
	const struct fsdp_json_piece *piece, const unsigned char *at, size_t i)
{
	return (load(at + i) ^ load(piece->text + i)) & load(piece->mask + i);
}
#endif

/* Whether its text is at `at`. */
__attribute__((always_inline)) static inline bool piece_is_at(
	const struct fsdp_json_piece *piece, const unsigned char *at)
{
#if defined __SSE2__
	sixteen other = piece_differs(piece, at, 0);
	if (bits((sixteen)(other == 0)) != 0xffff)
		return false;
	if (piece->size <= 16)
		return true;
	for (size_t i = 16; i < FSDP_QUICK_TEXT; i += 16)
		other |= piece_differs(piece, at, i);
	return bits((sixteen)(other == 0)) == 0xffff;
#else
	return memcmp(at, piece->text, piece->size) == 0;
#endif
}

enum { UNWANTED = FSDP_QUICK_UNWANTED };

struct quick_walk {
	const unsigned char *at, *end;
};

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

static unsigned char find_place(const struct fsdp_json_wanted *wanted,
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
static bool scan_object(const struct fsdp_json_wanted *wanted, struct quick_walk *walk,
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
			piece->place = find_place(wanted, level, key);
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
static bool scan_text(struct quick_walk *walk, const unsigned char *begin,
	struct fsdp_json_piece *piece)
{
	struct fsdp_span text;
	if (!pass_string(walk, &text))
		return false;
	piece->string_offset = (uint32_t)(text.data - begin);
	piece->string_size = (uint32_t)text.size;
	return true;
}

/* After the key of a member, or after a list in it: as far as the counts of a list, or to
 * its end. */
static bool scan_member(const struct fsdp_json_wanted *wanted, struct quick_walk *walk,
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
			return scan_text(walk, begin, piece);
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
		if (!scan_text(walk, begin, piece))
			return false;
	}
	return level->seen == (UINT32_C(1) << wanted->key_count) - 1;
}

/* ---- pieces ---- */

static bool is_same(const struct fsdp_json_piece *a, const struct fsdp_json_piece *b)
{
	return a->size == b->size && memcmp(a->text, b->text, a->size) == 0 &&
	       a->from.objects == b->from.objects && a->from.depth == b->from.depth &&
	       a->from.inner == b->from.inner && a->from.fresh == b->from.fresh &&
	       a->from.seen == b->from.seen;
}

/* The one that is kept for it, or a new one; NULL: too many. */
static struct fsdp_json_piece *keep(
	struct fsdp_json_pieces *pieces, const struct fsdp_json_piece *piece)
{
	uint64_t hash = pieces->seeds[0] ^ piece->from.objects;
	for (size_t i = 0; i < FSDP_QUICK_TEXT; i += 8)
		hash = fsdp_mix(
			hash ^ fsdp_load_eight(piece->text + i), pieces->seeds[1]);
	size_t bucket = (size_t)(hash % FSDP_COUNT(pieces->buckets));
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

/* Text at `at` that did not follow `before` last time. It is valid until the next
 * call. NULL: not plain, or not before `end`. */
static struct fsdp_json_piece *json_pieces_look(struct fsdp_json_pieces *pieces,
	const unsigned char *at, const unsigned char *end, struct fsdp_json_piece *before)
{
	for (unsigned i = 1; i < FSDP_QUICK_NEXT; i++) {
		struct fsdp_json_piece *piece = before->next[i];
		if (piece_is_at(piece, at))
			return piece->kind != FSDP_SCAN_BAD ? piece : NULL;
	}
	struct fsdp_json_piece *other = &pieces->other;
	/* Text from `at` to the next value, or to the end. False: it is not plain. */
	struct quick_walk walk = (struct quick_walk){ at, end };
	const struct fsdp_json_wanted *wanted = &pieces->wanted;
	const unsigned char *begin = walk.at;
	*other = (struct fsdp_json_piece){ .from = before->to, .to = before->to };
	for (unsigned i = 0; i < FSDP_QUICK_NEXT; i++)
		other->next[i] = &pieces->none;
	if (!(wanted->members ? scan_member : scan_object)(wanted, &walk, other))
		return NULL;
	other->size = (uint32_t)(walk.at - begin);
	if (!(other->kind == FSDP_SCAN_END ? walk.at <= walk.end : walk.at < walk.end))
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

/* What is called for each of a trace's thousand million bytes. */
#define HOT __attribute__((always_inline)) static inline
#define COLD __attribute__((noinline)) static

struct fsdp_json_quick *fsdp_json_quick_new(const struct fsdp_json_wanted *wanted)
{
	struct fsdp_json_quick *quick = calloc(1, sizeof *quick);
	if (quick != NULL) {
		/* All of it is zero before. */
		quick->pieces.wanted = *wanted;
		fsdp_seed(quick->pieces.seeds);
		/* What is not a piece: no JSON has so many of this byte, and if one had,
		 * it is of no kind. */
		memset(quick->pieces.none.text, 0xff, FSDP_QUICK_TEXT);
		memset(quick->pieces.none.mask, 0xff, FSDP_QUICK_TEXT);
		quick->pieces.none.size = FSDP_QUICK_TEXT;
		quick->pieces.none.kind = FSDP_SCAN_BAD;
		quick->pieces.start.to = (struct fsdp_json_level){
			.objects = 1,
			.depth = !wanted->members,
			.fresh = true,
		};
		for (unsigned i = 0; i < FSDP_QUICK_NEXT; i++)
			quick->pieces.start.next[i] = &quick->pieces.none;
	}
	return quick;
}

void fsdp_json_quick_free(struct fsdp_json_quick *quick)
{
	free(quick);
}

/* ---- values ---- */

/* Position after the quote that ends the string whose text begins at `at`; NULL: not
 * plain. */
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
	uint32_t special = find_deviation(load(at)) | find_deviation(load(at + 16)) << 16;
	if (special == 0) {
		at += 32;
		special = find_deviation(load(at)) | find_deviation(load(at + 16)) << 16;
		if (special == 0)
			return pass_long(at + 32, ret_escaped);
	}
	at += __builtin_ctz(special);
	if (*at == '"')
		return at + 1;
#endif
	return pass_long(at, ret_escaped);
}

COLD const unsigned char *skip_rare_number(const unsigned char *at)
{
	size_t size = number_size(at);
	return size != 0 ? at + size : NULL;
}

/* The next byte is checked together with the comma. The end of a number is found in as
 * few steps as possible, because no other token can begin before it; its syntax is
 * checked separately. */
HOT const unsigned char *pass_number(const unsigned char *at)
{
#if defined __SSE2__
	sixteen bytes = load(at);
	unsigned other = find_not_digits(bytes), points = bits((sixteen)(bytes == '.'));
	unsigned size = (unsigned)__builtin_ctz((other ^ points) | 1u << 16);
	points &= (1u << size) - 1;
	/* Digits come before a point and after it, and 0 only alone. */
	unsigned wrong = points & (points - 1);
	wrong |= points << 1 >> size & 1;
	wrong |= (at[0] == '0') & ~(other >> 1);
	if ((wrong | (other & 1)) == 0 && size - 1 < 15)
		return at + size;
#endif
	return skip_rare_number(at);
}

/* How many digits the count at `at` has, sixteen at most; 0: not a count. */
HOT unsigned parse_count(const unsigned char *at, uint64_t *ret_value)
{
	uint64_t value = 0;
	unsigned size = fsdp_decimal_digits(at, &value);
	if (size == 8)
		size += fsdp_decimal_digits(at + 8, &value);
	*ret_value = value;
	return *at != '0' || size <= 1 ? size : 0;
}

/* Position after the bracket that ends a list of counts; NULL: too many, or other values.
 */
HOT const unsigned char *pass_list(const unsigned char *at, struct fsdp_json_list *list)
{
	size_t size = 0;
	for (bool more = *at != ']'; more;) {
		unsigned digits = parse_count(at, &list->counts[size++]);
		at += digits;
		more = *at == ',';
		if (digits == 0 || (more && size == FSDP_QUICK_COUNTS))
			return NULL;
		if (more)
			at += at[1] == ' ' ? 2 : 1;
	}
	list->size = size;
	return *at == ']' ? at + 1 : NULL;
}

/* ---- objects ---- */

/* Wanted is what is nested in the object: where it begins and ends. */
struct nested {
	const unsigned char *begin;
	unsigned char place;
};

COLD uint32_t parse_marks(struct fsdp_json_quick *quick,
	const struct fsdp_json_piece *piece, const unsigned char *at,
	struct nested *nested, uint32_t present)
{
	const struct fsdp_json_wanted *wanted = &quick->pieces.wanted;
	for (unsigned i = 0; i < piece->mark_count; i++) {
		const unsigned char *to = at + piece->marks[i].offset;
		unsigned char place = piece->marks[i].place;
		if (place != FSDP_QUICK_CLOSES) {
			*nested = (struct nested){ to, place };
			if (place == wanted->inner_of)
				present &= (UINT32_C(1) << wanted->key_count) - 1;
			continue;
		}
		quick->values[nested->place] = (struct fsdp_json_value){
			*nested->begin == '{' ? FSDP_SCAN_OBJECT : FSDP_SCAN_ARRAY, false,
			fsdp_span(nested->begin, (size_t)(to - nested->begin))
		};
		present |= UINT32_C(1) << nested->place;
	}
	return present;
}

HOT const unsigned char *parse_value(struct fsdp_json_quick *quick,
	const struct fsdp_json_piece *piece, const unsigned char *begin,
	struct fsdp_json_list *lists)
{
	if (piece->kind == FSDP_SCAN_ARRAY)
		return pass_list(begin, &lists[piece->place]);
	struct fsdp_json_value *value = &quick->values[piece->place];
	bool text = piece->kind == FSDP_SCAN_TEXT;
	value->kind = piece->kind;
	value->escaped = false;
	if (!text && piece->kind != FSDP_SCAN_NUMBER)
		return NULL;
	const unsigned char *end =
		text ? pass_text(begin, &value->escaped) : pass_number(begin);
	value->span = fsdp_span(begin, (size_t)(end - begin) - text);
	return end;
}

static void clear(struct fsdp_json_quick *quick, unsigned from, unsigned to)
{
	uint32_t absent =
		~quick->present & ((UINT32_C(1) << to) - 1) & ~UINT32_C(0) << from;
	for (; absent != 0; absent &= absent - 1)
		quick->values[__builtin_ctz(absent)].kind = FSDP_SCAN_END;
}

/* From piece to piece, to the end of the object or member. Returns the position after it;
 * NULL: not plain. */
HOT const unsigned char *pass_pieces(struct fsdp_json_quick *quick,
	const unsigned char *at, const unsigned char *end, struct fsdp_json_list *lists,
	struct fsdp_json_member *member)
{
	struct nested nested = { 0 };
	struct fsdp_json_piece *piece, *before = &quick->pieces.start;
	uint32_t present = 0;
	for (;; before = piece) {
		piece = before->next[0];
		if (!piece_is_at(piece, at)) {
			piece = json_pieces_look(&quick->pieces, at, end, before);
			if (piece == NULL)
				return NULL;
		}
		if (member != NULL && piece->string_size != 0) {
			member->text =
				fsdp_span(at + piece->string_offset, piece->string_size);
			member->meaning = &piece->meaning;
		}
		if (piece->mark_count != 0)
			present = parse_marks(quick, piece, at, &nested, present);
		at += piece->size;
		if (piece->kind == FSDP_SCAN_END)
			break;
		at = parse_value(quick, piece, at, lists);
		if (at == NULL)
			return NULL;
		present |= UINT32_C(1) << piece->place;
	}
	quick->present = present;
	return at <= end ? at : NULL;
}

/* Position after a sign and the blanks before it; NULL: another byte. */
HOT const unsigned char *behind_sign(const unsigned char *at, unsigned char sign)
{
	if (*at <= ' ')
		at = find_not_blank(at);
	return *at == sign ? at + 1 : NULL;
}

/* Position after the next comma of an object or array, and after the start of the next
 * element or member. */
HOT const unsigned char *behind_comma(
	const struct fsdp_json_scan *scan, bool object, unsigned char sign)
{
	uint32_t level = scan->depth - 1;
	if (scan->next != EXPECT_COMMA ||
		(scan->objects[level / 64] >> level % 64 & 1) != object)
		return NULL;
	const unsigned char *at = behind_sign(scan->window.bytes + scan->at, ',');
	return at != NULL ? behind_sign(at, sign) : NULL;
}

bool fsdp_json_quick_object(struct fsdp_json_quick *quick, struct fsdp_json_scan *scan)
{
	const struct fsdp_window *window = &scan->window;
	if (scan->next != EXPECT_FIRST_KEY ||
		scan->depth + FSDP_QUICK_LEVELS > scan->depth_limit)
		return false;
	const unsigned char *behind = pass_pieces(quick, window->bytes + scan->at,
		window->bytes + window->size, NULL, NULL);
	if (behind == NULL)
		return false;
	scan->at = (size_t)(behind - window->bytes);
	fsdp_json_leave(scan);
	clear(quick, 0, quick->pieces.wanted.key_count);
	return true;
}

const struct fsdp_json_value *fsdp_json_quick_inner(struct fsdp_json_quick *quick)
{
	const struct fsdp_json_wanted *wanted = &quick->pieces.wanted;
	clear(quick, wanted->key_count, wanted->key_count + wanted->inner_count);
	return quick->values + wanted->key_count;
}

bool fsdp_json_quick_another(struct fsdp_json_scan *scan)
{
	const unsigned char *at = behind_comma(scan, false, '{');
	if (at == NULL || at > scan->window.bytes + scan->window.size ||
		scan->depth >= scan->depth_limit)
		return false;
	scan->objects[scan->depth / 64] |= UINT64_C(1) << scan->depth % 64;
	scan->depth++;
	scan->at = scan->mark = (size_t)(at - scan->window.bytes);
	scan->next = EXPECT_FIRST_KEY;
	return true;
}

bool fsdp_json_quick_member(struct fsdp_json_quick *quick,
	const struct fsdp_json_scan *scan, struct fsdp_json_list *ret_lists,
	struct fsdp_json_member *ret_member)
{
	const unsigned char *key = behind_comma(scan, true, '"');
	bool escaped = false;
	if (key == NULL || scan->depth + FSDP_QUICK_LEVELS > scan->depth_limit)
		return false;
	const unsigned char *at = pass_text(key, &escaped);
	if (at == NULL || escaped)
		return false;
	ret_member->key = fsdp_span(key, (size_t)(at - key) - 1);
	ret_member->meaning = NULL;
	ret_member->end = pass_pieces(
		quick, at, scan->window.bytes + scan->window.size, ret_lists, ret_member);
	return ret_member->end != NULL && ret_member->meaning != NULL;
}

void fsdp_json_quick_accept(
	struct fsdp_json_scan *scan, const struct fsdp_json_member *member)
{
	scan->at = scan->mark = (size_t)(member->end - scan->window.bytes);
}
