/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_TREE_H
#define FSDP_SYNTAX_JSON_TREE_H

#include "base/arena.h"
#include "base/error.h"

/*
 * A small JSON document as a tree in an arena. Objects keep their order. What is not JSON
 * or not UTF-8, keys that come twice or hold a zero byte, numbers beyond a double and
 * anything after the document are errors with a byte offset, a line and a column. For
 * documents that do not grow with the model.
 */
enum fsdp_json_kind {
	FSDP_JSON_NULL,
	FSDP_JSON_BOOL,
	FSDP_JSON_INTEGER,
	FSDP_JSON_REAL, /* also an integer beyond 64 bits: the nearest double */
	FSDP_JSON_TEXT,
	FSDP_JSON_ARRAY,
	FSDP_JSON_OBJECT,
	FSDP_JSON_INTEGERS, /* a long array of nothing but integers, packed */
};

struct fsdp_json {
	enum fsdp_json_kind kind;
	uint32_t count;       /* items or members */
	struct fsdp_span key; /* if it is a member of an object; zero-terminated */
	union {               /* by kind */
		struct fsdp_span text; /* zero-terminated; may hold zero bytes inside */
		int64_t integer;       /* also 0 and 1 of a BOOL */
		double real;
		const struct fsdp_json *items; /* count of them, contiguous */
		const int64_t *integers;       /* the same */
	};
};

static inline bool fsdp_json_is(const struct fsdp_json *value, enum fsdp_json_kind kind)
{
	return value != NULL && value->kind == kind;
}

/* How many items it has; 0: it is absent, or something other than an array. */
static inline uint32_t fsdp_json_items(const struct fsdp_json *value)
{
	return fsdp_json_is(value, FSDP_JSON_ARRAY) ? value->count : 0;
}

/* No array of integers is packed up to this length: shapes and the like stay arrays. */
enum { FSDP_JSON_PACKED = 64 };

static inline bool fsdp_json_is_list(const struct fsdp_json *value)
{
	return fsdp_json_is(value, FSDP_JSON_ARRAY) ||
	       fsdp_json_is(value, FSDP_JSON_INTEGERS);
}

/* An item of a list, packed or not, below its count. False: it is not an integer. */
static inline bool fsdp_json_integer_at(
	const struct fsdp_json *list, uint32_t n, int64_t *ret)
{
	if (list->kind == FSDP_JSON_ARRAY && list->items[n].kind != FSDP_JSON_INTEGER)
		return false;
	*ret = list->kind == FSDP_JSON_INTEGERS ? list->integers[n]
						: list->items[n].integer;
	return true;
}

/*
 * The values of a document take FSDP_JSON_GROWTH times its bytes at most, and `json-tree`
 * more; nesting has the limit `json-depth`. The tree borrows nothing from the bytes.
 */
enum { FSDP_JSON_GROWTH = 12 };

bool fsdp_json_read(struct fsdp_span bytes, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, const struct fsdp_json **ret_root,
	struct fsdp_error **ret_error);

/* What Python writes and reads: also NaN, Infinity and numbers beyond a double, which are
 * null here, and the last of the keys that come twice. */
bool fsdp_json_read_of_python(struct fsdp_span bytes, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, const struct fsdp_json **ret_root,
	struct fsdp_error **ret_error);

/* A member of an object by key; NULL if it is absent or `object` is NULL or no object. */
const struct fsdp_json *fsdp_json_get(const struct fsdp_json *object, const char *key);

/* Members of one kind. A text is data == NULL, an integer false and a truth -1 if there
 * is none, or none between the bounds. */
struct fsdp_span fsdp_json_get_text(const struct fsdp_json *object, const char *key);
bool fsdp_json_get_integer(const struct fsdp_json *object, const char *key, int64_t least,
	int64_t most, int64_t *ret);
int fsdp_json_get_truth(const struct fsdp_json *object, const char *key);

#endif
