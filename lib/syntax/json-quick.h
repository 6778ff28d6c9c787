/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_QUICK_H
#define FSDP_SYNTAX_JSON_QUICK_H

#include "syntax/json-piece.h"

/*
 * The quick way through JSON that is like the last one: objects in an array, or members of
 * an object, that programs write by the million. What stands between two values of one
 * stands there in the next one too, keys, commas, blanks and all. So these texts are
 * looked at once and remembered, each with what may follow it; from then on an object is
 * passed by comparing up to sixty-four bytes at a time. What is remembered is bounded, and
 * texts beyond that are looked at each time.
 *
 * Only what is plain JSON is passed, and only if all of it lies in the window; the rest
 * is left to json-scan.c, untouched.
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
	/* of the object that was passed last; those of the inner one come behind */
	struct fsdp_json_value values[FSDP_QUICK_VALUES + 1];
	uint32_t present; /* a bit a value */
	struct fsdp_json_pieces pieces;
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
 * Behind a member of an object, the next one. Nothing happened yet: accept passes it. Else
 * it is there to be read token by token, as it is if this returns false.
 */
bool fsdp_json_quick_member(struct fsdp_json_quick *quick,
	const struct fsdp_json_scan *scan, struct fsdp_json_list *ret_lists,
	struct fsdp_json_member *ret_member);
void fsdp_json_quick_accept(
	struct fsdp_json_scan *scan, const struct fsdp_json_member *member);

#endif
