/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes objects and members that look alike without a look at each of their bytes, as
 * long as they lie in the window: from piece to piece (json-piece.c), with strings, numbers
 * and lists of counts between them. What is odd, long or cut is left alone, and json-scan.c
 * reads it from the beginning.
 */
#include <stdlib.h>

#include "syntax/json-internal.h"
#include "syntax/json-quick.h"

/* What is called for each of a trace's thousand million bytes. */
#define HOT __attribute__((always_inline)) static inline
#define COLD __attribute__((noinline)) static

struct fsdp_json_quick *fsdp_json_quick_new(const struct fsdp_json_wanted *wanted)
{
	struct fsdp_json_quick *quick = calloc(1, sizeof *quick);
	if (quick != NULL)
		fsdp_json_pieces_init(&quick->pieces, wanted);
	return quick;
}

void fsdp_json_quick_free(struct fsdp_json_quick *quick)
{
	free(quick);
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
	if (special == 0) {
		at += 32;
		special = find_odd(load(at)) | find_odd(load(at + 16)) << 16;
		if (special == 0)
			return pass_long(at + 32, ret_escaped);
	}
	at += __builtin_ctz(special);
	if (*at == '"')
		return at + 1;
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

/* How many digits the count at `at` has, sixteen at most; 0: it is no count. */
HOT unsigned take_count(const unsigned char *at, uint64_t *ret_value)
{
	uint64_t value = 0;
	unsigned size = fsdp_decimal_digits(at, &value);
	if (size == 8)
		size += fsdp_decimal_digits(at + 8, &value);
	*ret_value = value;
	return *at != '0' || size <= 1 ? size : 0;
}

/* Behind the bracket that ends a list of counts; NULL: there are too many, or others. */
HOT const unsigned char *pass_list(const unsigned char *at, struct fsdp_json_list *list)
{
	size_t size = 0;
	for (bool more = *at != ']'; more;) {
		unsigned digits = take_count(at, &list->counts[size++]);
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

COLD uint32_t take_marks(struct fsdp_json_quick *quick,
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

HOT const unsigned char *take_value(struct fsdp_json_quick *quick,
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

/* Those that are absent. */
static void clear(struct fsdp_json_quick *quick, unsigned from, unsigned to)
{
	uint32_t absent =
		~quick->present & ((UINT32_C(1) << to) - 1) & ~UINT32_C(0) << from;
	for (; absent != 0; absent &= absent - 1)
		quick->values[__builtin_ctz(absent)].kind = FSDP_SCAN_END;
}

/* From piece to piece, to the end of the object or member. Behind it; NULL: not plain. */
HOT const unsigned char *pass_pieces(struct fsdp_json_quick *quick,
	const unsigned char *at, const unsigned char *end, struct fsdp_json_list *lists,
	struct fsdp_json_member *member)
{
	struct nested nested = { 0 };
	struct fsdp_json_piece *piece, *before = &quick->pieces.start;
	uint32_t present = 0;
	for (;; before = piece) {
		piece = before->next[0];
		if (!fsdp_json_piece_stands_at(piece, at)) {
			piece = fsdp_json_pieces_look(&quick->pieces, at, end, before);
			if (piece == NULL)
				return NULL;
		}
		if (member != NULL && piece->string_size != 0) {
			member->text =
				fsdp_span(at + piece->string_offset, piece->string_size);
			member->meaning = &piece->meaning;
		}
		if (piece->mark_count != 0)
			present = take_marks(quick, piece, at, &nested, present);
		at += piece->size;
		if (piece->kind == FSDP_SCAN_END)
			break;
		at = take_value(quick, piece, at, lists);
		if (at == NULL)
			return NULL;
		present |= UINT32_C(1) << piece->place;
	}
	quick->present = present;
	return at <= end ? at : NULL;
}

/* Behind a sign and the blanks before it; NULL: something else stands there. */
HOT const unsigned char *behind_sign(const unsigned char *at, unsigned char sign)
{
	if (*at <= ' ')
		at = find_not_blank(at);
	return *at == sign ? at + 1 : NULL;
}

/* Behind the comma that follows in an object or array, and what the next element or member
 * begins with. */
HOT const unsigned char *behind_comma(
	const struct fsdp_json_scan *scan, bool object, unsigned char sign)
{
	uint32_t level = scan->depth - 1;
	if (scan->next != WANT_COMMA ||
		(scan->objects[level / 64] >> level % 64 & 1) != object)
		return NULL;
	const unsigned char *at = behind_sign(scan->window.bytes + scan->at, ',');
	return at != NULL ? behind_sign(at, sign) : NULL;
}

bool fsdp_json_quick_object(struct fsdp_json_quick *quick, struct fsdp_json_scan *scan)
{
	const struct fsdp_window *window = &scan->window;
	if (scan->next != WANT_FIRST_KEY ||
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
	scan->next = WANT_FIRST_KEY;
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
