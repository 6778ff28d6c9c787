/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_SCAN_H
#define FSDP_SYNTAX_JSON_SCAN_H

#include "base/arena.h"
#include "base/characters.h"

/*
 * JSON as a stream of tokens, of any length, in a window of 256 KiB. Nothing is kept and
 * nothing is decoded: a token is the span of bytes that it is written in, valid until the
 * next call. One token, or what is held (below), may be as long as `event-bytes`.
 *
 * Strict by default: what is not JSON, or nested deeper than the limit, is an error with
 * its offset. Duplicate keys are checked by the caller. With `lenient` set, what programs
 * write instead of JSON is read and counted (enum fsdp_json_deviation), and what cannot
 * be read is a token of its own, FSDP_SCAN_BAD, after which fsdp_json_scan_resync
 * continues.
 */
enum fsdp_json_token_kind {
	FSDP_SCAN_END, /* the document is complete, and again with every call */
	FSDP_SCAN_OBJECT,
	FSDP_SCAN_OBJECT_END,
	FSDP_SCAN_ARRAY,
	FSDP_SCAN_ARRAY_END,
	FSDP_SCAN_KEY, /* its value is the next token */
	FSDP_SCAN_TEXT,
	FSDP_SCAN_NUMBER,
	FSDP_SCAN_TRUE,
	FSDP_SCAN_FALSE,
	FSDP_SCAN_NULL,

	FSDP_SCAN_WORD, /* NaN, Infinity; if lenient also N/A and others: no value */
	/* lenient only */
	FSDP_SCAN_BAD, /* the byte at `offset` fits nowhere */
	FSDP_SCAN_CUT, /* the input ends inside of something */
};

struct fsdp_json_token {
	enum fsdp_json_token_kind kind;
	bool escaped;  /* of a key or text: decode it before its bytes mean anything */
	bool not_utf8; /* of a key or text: some bytes are not characters */
	struct fsdp_span span; /* of a key or text without its quotes */
	uint64_t offset;       /* in the stream, of the first byte, quotes included */
};

enum fsdp_json_deviation {
	FSDP_DEVIATION_BARE_WORD,
	FSDP_DEVIATION_NUMBER,
	FSDP_DEVIATION_CONTROL_CHAR,
	FSDP_DEVIATION_BAD_ESCAPE,
	FSDP_DEVIATION_NOT_UTF8,
	FSDP_DEVIATION_TRAILING_COMMA,
	FSDP_DEVIATION_MISSING_COMMA,
	FSDP_DEVIATION_BARE_QUOTE,
	FSDP_DEVIATION_COUNT
};

enum { FSDP_SCAN_DEPTH = 4096 }; /* the most that depth_limit may be */

struct fsdp_json_scan {
	struct fsdp_window window;
	size_t at;          /* next byte, a position in the window */
	size_t mark;        /* first byte of the token */
	size_t hold;        /* what may not leave the window; SIZE_MAX: nothing */
	unsigned char next; /* what is expected, json-scan.c */
	uint32_t depth, depth_limit;

	struct fsdp_error **error;

	bool is_of_python; /* has the words that Python's json writes for some floats */
	/* lenient: set before the first token, or between tokens */
	bool lenient;
	uint32_t events_depth; /* levels round an event; 0: not among events */
	const struct fsdp_span *event_keys; /* of an event itself; empty ends */
	uint64_t deviations[FSDP_DEVIATION_COUNT];
	uint64_t deviation_sum;

	uint64_t objects[FSDP_SCAN_DEPTH / 64]; /* a bit a level: it is an object */
};

/* depth_limit is the nesting of arrays and objects (`json-depth` for documents). */
bool fsdp_json_scan_init(struct fsdp_json_scan *scan, fsdp_refill refill, void *context,
	const struct fsdp_limits *limits, struct fsdp_error **ret_error);

/* Over memory with FSDP_WINDOW_PADDING readable bytes after it, which is not written to;
 * needs no done. */
void fsdp_json_scan_over(struct fsdp_json_scan *scan, struct fsdp_span bytes,
	const struct fsdp_limits *limits);

void fsdp_json_scan_done(struct fsdp_json_scan *scan);

bool fsdp_json_scan_next(struct fsdp_json_scan *scan, struct fsdp_json_token *ret_token,
	struct fsdp_error **ret_error) __attribute__((warn_unused_result));

/*
 * Skips the value that `token` begins: after a key the value of the member, after
 * the begin of an object or array all that is in it; after anything else nothing. What is
 * in there is checked like anything else, but not handed out. `token` becomes the last
 * one of it, which lenient may be BAD or CUT.
 */
bool fsdp_json_scan_skip(struct fsdp_json_scan *scan, struct fsdp_json_token *token,
	struct fsdp_error **ret_error) __attribute__((warn_unused_result));

/* Lenient, after BAD: the value before it was read, but what should follow it was not. */
bool fsdp_json_scan_expects_comma(const struct fsdp_json_scan *scan);

/* From the last token on all bytes stay in the window until release, so that spans of it
 * can be had again: by the offset of a byte and a size. */
void fsdp_json_scan_keep(struct fsdp_json_scan *scan);
void fsdp_json_scan_release(struct fsdp_json_scan *scan);

static inline struct fsdp_span fsdp_json_scan_span(
	const struct fsdp_json_scan *scan, uint64_t offset, size_t size)
{
	return fsdp_span(scan->window.bytes + (size_t)(offset - scan->window.base), size);
}

/* The offset in the stream of a byte of the window. */
static inline uint64_t fsdp_json_scan_offset(
	const struct fsdp_json_scan *scan, const unsigned char *byte)
{
	return scan->window.base + (size_t)(byte - scan->window.bytes);
}

/*
 * Lenient, after BAD among events: continues at the next event or after the last one,
 * whichever comes first. An event is a brace and one of `event_keys`, and is not a
 * member's value. *ret_found false: the input ends before that.
 */
bool fsdp_json_scan_resync(struct fsdp_json_scan *scan, bool *ret_found,
	struct fsdp_error **ret_error) __attribute__((warn_unused_result));

/* Lenient, after BAD in an object at the root: continues at its next member called `key`.
 */
bool fsdp_json_scan_seek(struct fsdp_json_scan *scan, struct fsdp_span key,
	bool *ret_found, struct fsdp_error **ret_error)
	__attribute__((warn_unused_result));

/*
 * The text that a key or text stands for: escapes resolved, bytes that are not characters
 * as they are, half a surrogate pair as U+FFFD. `out` has room for span.size bytes;
 * returns how many were written.
 */
size_t fsdp_json_text(struct fsdp_span span, unsigned char *out);

/* The same in the arena, zero-terminated; a copy where nothing is escaped. data NULL: out
 * of memory. */
struct fsdp_span fsdp_json_text_copy(
	const struct fsdp_json_token *token, struct fsdp_arena *arena);

/* Whether a key or text is `text`, whatever the escapes. */
bool fsdp_json_text_is(const struct fsdp_json_token *token, struct fsdp_span text);

/* Reading token by token within fsdp_arena_try: what cannot be read leaves. */
struct fsdp_json_walk {
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	const struct fsdp_arena *arena;
	struct fsdp_error **error; /* of what is left */
	/* Completes it; may be NULL. */
	void (*complete)(struct fsdp_error **error);
};
void fsdp_json_walk_next(struct fsdp_json_walk *walk);
/* Skips the value that the token begins. */
void fsdp_json_walk_skip(struct fsdp_json_walk *walk);
/* The next token; false: it ends an object or array. */
bool fsdp_json_walk_more(struct fsdp_json_walk *walk);

#endif
