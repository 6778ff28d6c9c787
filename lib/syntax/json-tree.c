/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how jansson reads a document and how its tree is copied into an arena; knows
 * nothing of what any document means. No other file knows jansson.
 *
 * jansson's parser calls itself, so brackets are counted before it sees a byte. The copy
 * is made level by level: the items of a container lie one behind the other, and the row
 * of containers still to be filled is a list threaded through the copies themselves.
 */
#include <errno.h>
#include <jansson.h>

#include "base/limits.h"
#include "syntax/json-tree.h"

enum { JANSSON_DEPTH = 2048 }; /* its own ceiling, fixed when it is built */

static void json_cleanup(json_t **value)
{
	json_decref(*value);
}

const char *fsdp_json_version(void)
{
	return "jansson " JANSSON_VERSION;
}

/* Brackets outside of strings. Quotes and escapes are all that matters here; whether the
 * rest is JSON is for the parser to say. */
static bool check_depth(
	struct fsdp_span bytes, uint64_t limit, struct fsdp_error **ret_error)
{
	uint64_t depth = 0;
	bool quoted = false;
	if (limit > JANSSON_DEPTH)
		limit = JANSSON_DEPTH;
	for (size_t i = 0; i < bytes.size; i++) {
		unsigned char c = bytes.data[i];
		if (quoted) {
			if (c == '\\')
				i++;
			else if (c == '"')
				quoted = false;
			continue;
		}
		if (c == '"')
			quoted = true;
		else if (c == '[' || c == '{')
			depth++;
		else if ((c == ']' || c == '}') && depth > 0)
			depth--;
		if (depth > limit)
			return fsdp_fail_limit(ret_error, FSDP_LIMIT_JSON_DEPTH, limit);
	}
	return true;
}

/* The offset is where the parser stood: behind the token that it refused. A token for
 * which it had no memory is one that it refuses; malloc knows better. */
static bool fail_parse(const json_error_t *error, struct fsdp_error **ret_error)
{
	if (errno == ENOMEM || json_error_code(error) == json_error_out_of_memory)
		return fsdp_fail_memory(ret_error);
	uint64_t offset = error->position >= 0 ? (uint64_t)error->position : FSDP_UNKNOWN;
	return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, offset, "line %d, column %d: %s",
		error->line, error->column, error->text);
}

static struct fsdp_span keep(struct fsdp_arena *arena, const char *text, size_t size)
{
	return fsdp_arena_copy(arena, fsdp_span(text, size));
}

/* One value without its items. `pending` remembers the original of a container. */
struct pending {
	json_t *from;
	struct fsdp_json *to;
	struct pending *next;
};

struct copy {
	struct fsdp_arena *arena;
	struct fsdp_arena scratch;
	struct pending *first, *last; /* containers with items, still to be filled */
};

static bool postpone(struct copy *copy, json_t *from, struct fsdp_json *to, size_t count)
{
	if (count > UINT32_MAX)
		return false;
	to->count = (uint32_t)count;
	if (count == 0)
		return true;
	struct pending *pending = fsdp_arena_take(
		&copy->scratch, sizeof *pending, _Alignof(struct pending));
	if (pending == NULL)
		return false;
	*pending = (struct pending){ from, to, NULL };
	if (copy->last != NULL)
		copy->last->next = pending;
	else
		copy->first = pending;
	copy->last = pending;
	return true;
}

static bool copy_value(struct copy *copy, json_t *from, struct fsdp_json *to)
{
	switch (json_typeof(from)) {
	case JSON_NULL:
		to->kind = FSDP_JSON_NULL;
		return true;
	case JSON_TRUE:
	case JSON_FALSE:
		to->kind = FSDP_JSON_BOOL;
		to->integer = json_is_true(from);
		return true;
	case JSON_INTEGER:
		to->kind = FSDP_JSON_INTEGER;
		to->integer = json_integer_value(from);
		to->real = (double)to->integer;
		return true;
	case JSON_REAL:
		to->kind = FSDP_JSON_REAL;
		to->real = json_real_value(from);
		return true;
	case JSON_STRING:
		to->kind = FSDP_JSON_TEXT;
		to->text = keep(
			copy->arena, json_string_value(from), json_string_length(from));
		return to->text.data != NULL;
	case JSON_ARRAY:
		to->kind = FSDP_JSON_ARRAY;
		return postpone(copy, from, to, json_array_size(from));
	case JSON_OBJECT:
		to->kind = FSDP_JSON_OBJECT;
		return postpone(copy, from, to, json_object_size(from));
	}
	return false;
}

static bool fill_array(struct copy *copy, json_t *from, struct fsdp_json *items)
{
	for (size_t i = 0; i < json_array_size(from); i++)
		if (!copy_value(copy, json_array_get(from, i), &items[i]))
			return false;
	return true;
}

static bool fill_object(struct copy *copy, json_t *from, struct fsdp_json *items)
{
	for (void *at = json_object_iter(from); at != NULL;
		at = json_object_iter_next(from, at), items++) {
		items->key = keep(copy->arena, json_object_iter_key(at),
			json_object_iter_key_len(at));
		if (items->key.data == NULL ||
			!copy_value(copy, json_object_iter_value(at), items))
			return false;
	}
	return true;
}

static bool fill(struct copy *copy, const struct pending *pending)
{
	struct fsdp_json *items = fsdp_arena_take(copy->arena,
		pending->to->count * sizeof *items, _Alignof(struct fsdp_json));
	if (items == NULL)
		return false;
	pending->to->items = items;
	return pending->to->kind == FSDP_JSON_ARRAY
		       ? fill_array(copy, pending->from, items)
		       : fill_object(copy, pending->from, items);
}

static struct fsdp_json *copy_tree(struct copy *copy, json_t *from)
{
	struct fsdp_json *root =
		fsdp_arena_take(copy->arena, sizeof *root, _Alignof(struct fsdp_json));
	if (root == NULL || !copy_value(copy, from, root))
		return NULL;
	for (; copy->first != NULL; copy->first = copy->first->next)
		if (!fill(copy, copy->first))
			return NULL;
	return root;
}

bool fsdp_json_read(struct fsdp_span bytes, uint64_t depth_limit,
	struct fsdp_arena *arena, const struct fsdp_json **ret_root,
	struct fsdp_error **ret_error)
{
	if (!check_depth(bytes, depth_limit, ret_error))
		return false;
	json_error_t error;
	errno = 0;
	__attribute__((cleanup(json_cleanup))) json_t *document = json_loadb(
		bytes.data != NULL ? (const char *)bytes.data : "", bytes.size,
		JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (document == NULL)
		return fail_parse(&error, ret_error);
	struct copy copy = { .arena = arena };
	fsdp_arena_init(&copy.scratch, arena->budget);
	const struct fsdp_json *root = copy_tree(&copy, document);
	fsdp_arena_done(&copy.scratch);
	if (root == NULL)
		return fsdp_arena_fail(arena, ret_error);
	*ret_root = root;
	return true;
}

const struct fsdp_json *fsdp_json_get(const struct fsdp_json *object, const char *key)
{
	if (object == NULL || object->kind != FSDP_JSON_OBJECT)
		return NULL;
	for (uint32_t i = 0; i < object->count; i++)
		if (fsdp_span_is(object->items[i].key, key))
			return &object->items[i];
	return NULL;
}
