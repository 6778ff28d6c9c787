/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_QUICK_H
#define FSDP_SYNTAX_JSON_QUICK_H

#include "syntax/json-scan.h"

/*
 * Objects that look alike, one after the other, as programs write them: what stands
 * between two values of one stands there in the next one too, keys, commas, blanks and
 * all. So these texts are looked at once and remembered, each with what may follow it;
 * from then on an object is passed by comparing sixty-four bytes at a time. What is
 * remembered is bounded, and texts beyond that are looked at each time.
 *
 * Only what is plain JSON is passed, and only if all of it lies in the window; the rest
 * is left to json-scan.c, untouched.
 */
struct fsdp_json_value {
	enum fsdp_json_token_kind kind; /* FSDP_SCAN_END: absent */
	bool escaped;
	struct fsdp_span span; /* of a text without its quotes; nested: of it all */
};

/* Members that are wanted: of the object itself, and of one object in it. */
struct fsdp_json_wanted {
	const struct fsdp_span *keys, *inner;
	unsigned key_count, inner_count; /* together FSDP_QUICK_VALUES at most */
	unsigned inner_of;               /* the place of a key */
};

enum {
	FSDP_QUICK_VALUES = 31,
	FSDP_QUICK_TEXT = 64,
	FSDP_QUICK_PIECES = 512,
	FSDP_QUICK_NEXT = 6
};

struct fsdp_json_piece {
	unsigned char text[FSDP_QUICK_TEXT];
	unsigned char mask[FSDP_QUICK_TEXT]; /* 0xff where it has a byte */
	uint32_t size;      /* of a piece that is not kept it may be more */
	unsigned char kind; /* of the value behind it: TEXT, NUMBER, or END */
	unsigned char place;
	unsigned char mark_count, turn;
	struct fsdp_json_piece *next[FSDP_QUICK_NEXT]; /* what came behind its value */
	struct {
		uint32_t offset;
		unsigned char place; /* what begins here; CLOSES: it ends */
	} marks[3];
	/* where it begins, and where it leads to */
	struct fsdp_json_level {
		uint64_t objects; /* a bit a level, the innermost last */
		unsigned char depth;
		bool inner, fresh; /* in the wanted one; nothing is in there yet */
	} from, to;
};

struct fsdp_json_quick {
	struct fsdp_json_wanted wanted;
	/* of the object that was passed last; those of the inner one come behind */
	struct fsdp_json_value values[FSDP_QUICK_VALUES + 1];
	uint32_t present;
	unsigned count;
	uint64_t seeds[2]; /* of the hash that finds a piece */
	uint16_t buckets[2 * FSDP_QUICK_PIECES];
	struct fsdp_json_piece start, other, none;
	struct fsdp_json_piece pieces[FSDP_QUICK_PIECES];
};

/* 100 KB; what it does not use yet is not touched. NULL: out of memory. */
struct fsdp_json_quick *fsdp_json_quick_new(const struct fsdp_json_wanted *wanted);
void fsdp_json_quick_free(struct fsdp_json_quick *quick);

/*
 * Behind the begin of an object: all of it, to quick->values. What is absent is of the
 * kind FSDP_SCAN_END. False: nothing happened, read it token by token.
 */
bool fsdp_json_quick_object(struct fsdp_json_quick *quick, struct fsdp_json_scan *scan);

/* Of the object that was passed last, what was wanted of the inner one, if it has it. */
const struct fsdp_json_value *fsdp_json_quick_inner(struct fsdp_json_quick *quick);

/* The begin of another object in an array: a comma and a brace. */
bool fsdp_json_quick_another(struct fsdp_json_scan *scan);

#endif
