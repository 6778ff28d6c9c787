/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_INTERNAL_H
#define FSDP_SYNTAX_JSON_INTERNAL_H

#include "syntax/json-bytes.h"
#include "syntax/json-piece.h"

/* What the readers of JSON share. */

enum fetched { FETCHED_SOME, FETCHED_NONE, FETCHED_FAILED };
enum { PEEK_END = -1, PEEK_FAILED = -2 };

enum { /* what may come next */
	WANT_VALUE,
	WANT_FIRST_KEY, /* or the end of the object */
	WANT_KEY,
	WANT_FIRST_ELEMENT, /* or the end of the array */
	WANT_ELEMENT,
	WANT_COMMA, /* or the end of what is open */
	WANT_NOTHING,
};

/* More bytes behind those in the window; positions move. */
enum fetched fsdp_json_more(struct fsdp_json_scan *scan);

/* The next byte that is not blank, or PEEK_…. */
int fsdp_json_peek_slowly(struct fsdp_json_scan *scan, bool forget);

/* Behind the brace or bracket that ended what was innermost. */
void fsdp_json_leave(struct fsdp_json_scan *scan);

void fsdp_json_odd(struct fsdp_json_scan *scan, enum fsdp_json_oddity oddity);

/* What was seen inside a string. */
struct text_marks {
	bool escaped, bad_escape, control;
	unsigned high; /* not 0: bytes with the eighth bit */
};

/* A quote follows the text. */
void fsdp_json_text_marks(struct fsdp_span text, struct text_marks *marks);

/*
 * A string was read as the value of a member; `at` is behind its quote, which is
 * *size bytes behind `mark`. Looks whether what follows agrees; if not, the quote
 * belonged to the text, and *size, `at` and *marks are those of the one that ends it.
 */
enum quote { QUOTE_GOOD, QUOTE_BAD, QUOTE_FAILED };
enum quote fsdp_json_check_quote(
	struct fsdp_json_scan *scan, size_t *size, struct text_marks *marks);

#if defined __SSE2__
/* Not 0 where a byte of it is another one. */
static inline sixteen fsdp_json_piece_differs(
	const struct fsdp_json_piece *piece, const unsigned char *at, size_t i)
{
	return (load(at + i) ^ load(piece->text + i)) & load(piece->mask + i);
}
#endif

/* Whether its text stands at `at`. */
__attribute__((always_inline)) static inline bool fsdp_json_piece_stands_at(
	const struct fsdp_json_piece *piece, const unsigned char *at)
{
#if defined __SSE2__
	sixteen other = fsdp_json_piece_differs(piece, at, 0);
	if (bits((sixteen)(other == 0)) != 0xffff)
		return false;
	if (piece->size <= 16)
		return true;
	for (size_t i = 16; i < FSDP_QUICK_TEXT; i += 16)
		other |= fsdp_json_piece_differs(piece, at, i);
	return bits((sixteen)(other == 0)) == 0xffff;
#else
	return memcmp(at, piece->text, piece->size) == 0;
#endif
}

#endif
