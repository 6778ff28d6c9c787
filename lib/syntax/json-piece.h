/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_PIECE_H
#define FSDP_SYNTAX_JSON_PIECE_H

#include "syntax/json-scan.h"

/*
 * The texts between the values of objects that look alike (json-quick.h): each is looked
 * at once and remembered, with what it means and what came behind it.
 */

/* Members that are wanted: of the object itself, and of one object in it. */
struct fsdp_json_wanted {
	const struct fsdp_span *keys, *inner;
	unsigned key_count, inner_count; /* together FSDP_QUICK_VALUES at most */
	unsigned inner_of;               /* the place of a key */

	/* For fsdp_json_quick_member. Values are objects of these keys and no others, the
	 * first with lists of counts, the last with a text; without keys they are texts. */
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
	unsigned char kind;  /* of the value behind it: TEXT, NUMBER, ARRAY, or END */
	unsigned char place; /* of the value */
	unsigned char mark_count, turn;
	struct fsdp_json_piece *next[FSDP_QUICK_NEXT]; /* what came behind its value */
	struct {
		uint32_t offset;
		unsigned char place; /* what begins here; CLOSES: it ends */
	} marks[3];
	uint32_t string_offset, string_size; /* of the string in it, of a member */
	uint32_t meaning;                    /* of that string: the caller's */
	/* where it begins, and where it leads to */
	struct fsdp_json_level {
		uint64_t objects;    /* a bit a level, the innermost last */
		unsigned char depth; /* 0: behind the key of a member */
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

/* All of it is zero before. */
void fsdp_json_pieces_init(
	struct fsdp_json_pieces *pieces, const struct fsdp_json_wanted *wanted);

/* What stands at `at`, and did not come last behind `before`. It is valid until the next
 * call. NULL: nothing plain, or not in front of `end`. */
struct fsdp_json_piece *fsdp_json_pieces_look(struct fsdp_json_pieces *pieces,
	const unsigned char *at, const unsigned char *end,
	struct fsdp_json_piece *before);

#endif
