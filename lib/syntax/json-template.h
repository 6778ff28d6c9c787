/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_TEMPLATE_H
#define FSDP_SYNTAX_JSON_TEMPLATE_H

#include "syntax/json-scan.h"

/*
 * The texts between the values of objects that look alike (json-template.h): each is
 * looked at once and remembered, with its meaning and its successor.
 */

/* Members that are wanted: of the object itself, and of one object in it. */
struct fsdp_json_wanted {
	const struct fsdp_span *keys, *inner;
	unsigned key_count, inner_count; /* together FSDP_QUICK_VALUES at most */
	unsigned inner_of;               /* the place of a key */

	/* For fsdp_json_quick_member. Values are objects of these keys and no others, the
	 * first with lists of counts, the last with a text; without keys they are texts.
	 */
	bool members;
	unsigned list_count;
};

enum {
	FSDP_QUICK_VALUES = 31,
	FSDP_QUICK_TEXT = 64,
	FSDP_QUICK_PIECES = 512,
	FSDP_QUICK_NEXT = 6,
	FSDP_QUICK_UNWANTED = FSDP_QUICK_VALUES, /* the place of what is not wanted */
	FSDP_QUICK_CLOSES = 0xff,
	FSDP_QUICK_LEVELS = 62,
};

struct fsdp_json_piece {
	unsigned char text[FSDP_QUICK_TEXT];
	unsigned char mask[FSDP_QUICK_TEXT]; /* 0xff where it has a byte */
	uint32_t size;       /* of a piece that is not kept it may be more */
	unsigned char kind;  /* of the value after it: TEXT, NUMBER, ARRAY, or END */
	unsigned char place; /* of the value */
	unsigned char mark_count, turn;
	struct fsdp_json_piece *next[FSDP_QUICK_NEXT]; /* what followed its value */
	struct {
		uint32_t offset;
		unsigned char place; /* what begins here; CLOSES: it ends */
	} marks[3];
	uint32_t string_offset, string_size; /* of the string in it, of a member */
	uint32_t meaning;                    /* of that string: the caller's */
	/* where it begins, and where it leads to */
	struct fsdp_json_level {
		uint64_t objects;    /* a bit a level, the innermost last */
		unsigned char depth; /* 0: after the key of a member */
		bool inner, fresh;   /* in the wanted one; nothing is in there yet */
		uint32_t seen;       /* of a member's object: keys, a bit each */
	} from, to;
};

struct fsdp_json_pieces {
	struct fsdp_json_wanted wanted;
	unsigned count;
	uint64_t seeds[2]; /* of the hash that finds a piece */
	uint16_t buckets[2 * FSDP_QUICK_PIECES];
	struct fsdp_json_piece start, other, none;
	struct fsdp_json_piece kept[FSDP_QUICK_PIECES];
};

/*
 * The quick way through JSON that is like the last one: objects in an array, or members
 * of an object, that programs write by the million. The text between two values of one is
 * the same in the next one: keys, commas, blanks and all. So these texts are looked at
 * once and remembered, each with what may follow it; from then on an object is passed by
 * comparing up to sixty-four bytes at a time. What is remembered is bounded, and texts
 * beyond that are looked at each time.
 *
 * Only what is plain JSON is passed, and only if all of it is in the window; the rest is
 * left to json-scan.c, untouched.
 */
struct fsdp_json_value {
	enum fsdp_json_token_kind kind; /* FSDP_SCAN_END: absent */
	bool escaped;
	struct fsdp_span span; /* of a text without its quotes; nested: of it all */
};

/* A list of counts, which have up to sixteen digits. */
enum { FSDP_QUICK_COUNTS = 64 };

struct fsdp_json_list {
	uint64_t counts[FSDP_QUICK_COUNTS];
	size_t size;
};

struct fsdp_json_quick {
	/* of the object that was passed last; those of the inner one follow */
	struct fsdp_json_value values[FSDP_QUICK_VALUES + 1];
	uint32_t present; /* a bit a value */
	struct fsdp_json_pieces pieces;
};

/* 100 KB; unused parts are not touched. NULL: out of memory. */
struct fsdp_json_quick *fsdp_json_quick_new(const struct fsdp_json_wanted *wanted);
void fsdp_json_quick_free(struct fsdp_json_quick *quick);

/*
 * After the start of an object: all of it, to quick->values. What is absent is of the
 * kind FSDP_SCAN_END. False: nothing happened, read it token by token.
 */
bool fsdp_json_quick_object(struct fsdp_json_quick *quick, struct fsdp_json_scan *scan);

/* Of the object that was passed last, what was wanted of the inner one, if it has it. */
const struct fsdp_json_value *fsdp_json_quick_inner(struct fsdp_json_quick *quick);

/* One of these, by its place among them; NULL: it is absent. */
static inline const struct fsdp_json_value *fsdp_json_quick_one(
	const struct fsdp_json_quick *quick, unsigned place)
{
	place += quick->pieces.wanted.key_count;
	return (quick->present >> place & 1) != 0 ? &quick->values[place] : NULL;
}

/* The begin of another object in an array: a comma and a brace. */
bool fsdp_json_quick_another(struct fsdp_json_scan *scan);

/* A member of an object. */
struct fsdp_json_member {
	struct fsdp_span key, text; /* its key, and the text in its value: not escaped */
	uint32_t *meaning; /* what the caller noted of this text; 0 when it is new */
	const unsigned char *end;
};

/*
 * After a member of an object: the next one. Nothing happened yet: accept passes it. Else
 * it is there to be read token by token, as it is if this returns false.
 */
bool fsdp_json_quick_member(struct fsdp_json_quick *quick,
	const struct fsdp_json_scan *scan, struct fsdp_json_list *ret_lists,
	struct fsdp_json_member *ret_member);
void fsdp_json_quick_accept(
	struct fsdp_json_scan *scan, const struct fsdp_json_member *member);

#endif
