/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a tree of the tokens of a small JSON document.
 *
 * Texts are in one copy of the document; escapes are resolved in place.
 * Values that were read are on a stack, those of an array or object after it; when it
 * ends they move into the arena, in order.
 */
#include <float.h>
#include <stdlib.h>

#include "base/finding.h"
#include "base/num.h"
#include "syntax/json-internal.h"
#include "syntax/json-tree.h"

struct tree_reader {
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	struct fsdp_arena *arena, scratch;
	unsigned char *bytes;   /* the copy */
	struct fsdp_vec stack;  /* struct fsdp_json */
	size_t open;            /* what is innermost; it holds what is round it */
	struct fsdp_span key;   /* of the next value */
	struct fsdp_span *keys; /* of one object, sorted */
	size_t keys_room;
	uint64_t limit, ceiling; /* of values, in bytes: `json-tree`, and with it */
	uint64_t kept;           /* of these in the arena */
	struct fsdp_error **error;
	bool is_of_python;
};

static struct fsdp_json *value_at(const struct tree_reader *reader, size_t index)
{
	return fsdp_vec_of(&reader->stack, index, sizeof(struct fsdp_json));
}

static bool fail_memory(struct tree_reader *reader)
{
	return fsdp_arena_fail(reader->arena, reader->error);
}

static bool fail(struct tree_reader *reader, uint64_t offset, const char *what)
{
	return fsdp_fail(reader->error, FSDP_ERROR_DAMAGED, offset, "%s", what);
}

/* ---- scalars ---- */

/* The scanner is after the quote that ends it, which becomes a zero byte. */
static bool read_text(struct tree_reader *reader, struct fsdp_span *ret_text)
{
	struct fsdp_span span = reader->token.span;
	unsigned char *text = reader->bytes + (size_t)(span.data - reader->bytes);
	if (reader->token.not_utf8)
		return fail(reader, reader->token.offset, "a text that is not UTF-8");
	size_t size = reader->token.escaped ? fsdp_json_text(span, text) : span.size;
	text[size] = '\0';
	*ret_text = fsdp_span(text, size);
	return true;
}

/* ---- arrays and objects ---- */

static int compare_keys(const void *a, const void *b)
{
	const struct fsdp_span *left = a, *right = b;
	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	int order = memcmp(left->data, right->data, left->size);
	return order != 0 ? order : left->data < right->data ? -1 : 1;
}

/* Fails at the first key that comes twice. Python takes its last value: the others leave
 * the items, and the quotes before their keys become zero bytes. */
static bool check_keys(
	struct tree_reader *reader, struct fsdp_json *items, uint32_t *count_io)
{
	size_t count = *count_io;
	struct fsdp_span twice = { 0 };
	char room[FSDP_SHOWN];
	if (count > reader->keys_room) {
		reader->keys = FSDP_TAKE(&reader->scratch, reader->keys, count);
		reader->keys_room = reader->keys != NULL ? count : 0;
	}
	if (reader->keys == NULL)
		return fail_memory(reader);
	for (size_t i = 0; i < count; i++)
		reader->keys[i] = items[i].key;
	qsort(reader->keys, count, sizeof *reader->keys, compare_keys);
	for (size_t i = 1; i < count; i++)
		if (fsdp_span_equal(reader->keys[i - 1], reader->keys[i])) {
			reader->bytes[reader->keys[i - 1].data - 1 - reader->bytes] =
				'\0';
			if (twice.data == NULL || reader->keys[i].data < twice.data)
				twice = reader->keys[i];
		}
	if (twice.data != NULL && reader->is_of_python) {
		*count_io = 0;
		for (size_t i = 0; i < count; i++)
			if (items[i].key.data[-1] != '\0')
				items[(*count_io)++] = items[i];
		return true;
	}
	return twice.data == NULL ||
	       fsdp_fail(reader->error, FSDP_ERROR_DAMAGED,
		       (uint64_t)(twice.data - 1 - reader->bytes), "duplicate key '%s'",
		       fsdp_shown(twice, room));
}

/* A long array of nothing but integers is packed. */
static bool pack(struct tree_reader *reader, struct fsdp_json *list, size_t first)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (value_at(reader, first + i)->kind != FSDP_JSON_INTEGER)
			return true;
	int64_t *integers = FSDP_TAKE(reader->arena, integers, list->count);
	if (integers == NULL)
		return fail_memory(reader);
	for (uint32_t i = 0; i < list->count; i++)
		integers[i] = value_at(reader, first + i)->integer;
	list->kind = FSDP_JSON_INTEGERS;
	list->integers = integers;
	reader->kept += list->count * sizeof *integers;
	return true;
}

/* ---- the document ---- */

static bool read_value(struct tree_reader *reader)
{
	static const enum fsdp_json_kind kinds[] = {
		[FSDP_SCAN_OBJECT] = FSDP_JSON_OBJECT,
		[FSDP_SCAN_ARRAY] = FSDP_JSON_ARRAY,
		[FSDP_SCAN_TEXT] = FSDP_JSON_TEXT,
		[FSDP_SCAN_NUMBER] = FSDP_JSON_INTEGER,
		[FSDP_SCAN_TRUE] = FSDP_JSON_BOOL,
		[FSDP_SCAN_FALSE] = FSDP_JSON_BOOL,
		[FSDP_SCAN_NULL] = FSDP_JSON_NULL,
		[FSDP_SCAN_WORD] = FSDP_JSON_NULL,
	};
	enum fsdp_json_token_kind kind = reader->token.kind;
	struct fsdp_json *value = fsdp_vec_push(&reader->stack);
	if (value == NULL)
		return fail_memory(reader);
	/* What is on the stack is there twice when it moves. */
	if (reader->kept + 2 * reader->stack.count * sizeof *value > reader->ceiling ||
		reader->stack.count > UINT32_MAX)
		return fsdp_fail_limit(
			reader->error, FSDP_LIMIT_JSON_TREE, reader->limit);
	*value = (struct fsdp_json){
		.kind = kinds[kind],
		.key = reader->key,
		.integer = kind == FSDP_SCAN_TRUE,
	};
	reader->key = (struct fsdp_span){ 0 };
	if (kind == FSDP_SCAN_TEXT)
		return read_text(reader, &value->text);
	if (kind == FSDP_SCAN_NUMBER) {
		struct fsdp_span span = reader->token.span;
		bool memory = false, is_real = false;
		for (size_t i = 0; i < span.size; i++)
			is_real |= memchr(".eE", span.data[i], 3) != NULL;
		if (!is_real && fsdp_decimal_integer(span, &value->integer))
			return true;
		value->kind = FSDP_JSON_REAL;
		if (!fsdp_decimal_real(span, &reader->scratch, &value->real, &memory))
			return fail_memory(reader);
		if (value->real >= -DBL_MAX && value->real <= DBL_MAX)
			return true;
		value->kind =
			FSDP_JSON_NULL; /* as Infinity is, which Python makes of it */
		return reader->is_of_python ||
		       fail(reader, reader->token.offset,
			       "a number that is too large for a double");
	}
	if (kind == FSDP_SCAN_OBJECT || kind == FSDP_SCAN_ARRAY) {
		value->integer = (int64_t)reader->open;
		reader->open = reader->stack.count - 1;
	}
	return true;
}

static bool read_token(struct tree_reader *reader)
{
	enum fsdp_json_token_kind kind = reader->token.kind;
	if (kind == FSDP_SCAN_KEY) {
		if (!read_text(reader, &reader->key))
			return false;
		return !reader->token.escaped ||
		       memchr(reader->key.data, '\0', reader->key.size) == NULL ||
		       fail(reader, reader->token.offset, "a key with a zero byte");
	}
	if (kind == FSDP_SCAN_OBJECT_END || kind == FSDP_SCAN_ARRAY_END) {
		/* The values on the stack after the innermost array or object become its
		 * items. */
		struct fsdp_json *list = value_at(reader, reader->open);
		size_t first = reader->open + 1;
		list->count = (uint32_t)(reader->stack.count - first);
		reader->open = (size_t)list->integer;
		list->items = NULL;
		if (list->kind == FSDP_JSON_ARRAY && list->count > FSDP_JSON_PACKED &&
			!pack(reader, list, first))
			return false;
		if (list->kind != FSDP_JSON_INTEGERS && list->count != 0) {
			struct fsdp_json *items =
				FSDP_TAKE(reader->arena, items, list->count);
			if (items == NULL)
				return fail_memory(reader);
			for (uint32_t i = 0; i < list->count; i++)
				items[i] = *value_at(reader, first + i);
			list->items = items;
			reader->kept += list->count * sizeof *items;
			if (list->kind != FSDP_JSON_ARRAY &&
				!check_keys(reader, items, &list->count))
				return false;
		}
		fsdp_vec_truncate(&reader->stack, first);
		return true;
	}
	return kind == FSDP_SCAN_END || read_value(reader);
}

static bool read_document(struct tree_reader *reader, struct fsdp_span document,
	const struct fsdp_limits *limits)
{
	reader->limit = fsdp_limit(limits, FSDP_LIMIT_JSON_TREE);
	if (!fsdp_add(FSDP_JSON_GROWTH * (uint64_t)document.size, reader->limit,
		    &reader->ceiling))
		reader->ceiling = UINT64_MAX;
	reader->bytes =
		fsdp_arena_take(reader->arena, document.size + FSDP_WINDOW_PADDING, 1);
	if (reader->bytes == NULL)
		return fail_memory(reader);
	if (document.size != 0)
		memcpy(reader->bytes, document.data, document.size);
	if (find_not_blank(reader->bytes) == reader->bytes + document.size)
		return fail(reader, document.size, "the document is empty");
	fsdp_json_scan_over(
		&reader->scan, fsdp_span(reader->bytes, document.size), limits);
	reader->scan.is_of_python = reader->is_of_python;
	do {
		if (!fsdp_json_scan_next(&reader->scan, &reader->token, reader->error) ||
			!read_token(reader))
			return false;
	} while (reader->token.kind != FSDP_SCAN_END);
	return true;
}

static bool read_tree(struct fsdp_span bytes, bool is_of_python,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	const struct fsdp_json **ret_root, struct fsdp_error **ret_error)
{
	struct fsdp_error *error = NULL;
	struct tree_reader reader = {
		.arena = arena,
		.open = SIZE_MAX,
		.error = &error,
	};
	fsdp_arena_hold(arena);
	fsdp_arena_init(&reader.scratch, arena->budget);
	fsdp_vec_init(&reader.stack, &reader.scratch, sizeof(struct fsdp_json));
	struct fsdp_json *root = FSDP_TAKE(arena, root, 1);
	reader.is_of_python = is_of_python;
	bool read = root != NULL ? read_document(&reader, bytes, limits)
				 : fail_memory(&reader);
	if (read)
		*ret_root = memcpy(root, value_at(&reader, 0), sizeof *root);
	fsdp_arena_done(&reader.scratch);
	fsdp_arena_resume(arena);
	if (read)
		return true;
	/* The same with the line and column of what is wrong, for people who wrote it. */
	size_t line = 1, column = 1;
	if (fsdp_error_code(error) != FSDP_ERROR_DAMAGED) {
		*ret_error = error;
		return false;
	}
	uint64_t offset = fsdp_error_offset(error);
	for (size_t i = 0; i < offset && i < bytes.size; i++) {
		column = bytes.data[i] == '\n' ? 1 : column + 1;
		line += bytes.data[i] == '\n';
	}
	fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, offset, "line %zu, column %zu: %s", line,
		column, fsdp_error_message(error));
	fsdp_error_free(error);
	return false;
}

bool fsdp_json_read(struct fsdp_span bytes, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, const struct fsdp_json **ret_root,
	struct fsdp_error **ret_error)
{
	return read_tree(bytes, false, limits, arena, ret_root, ret_error);
}

bool fsdp_json_read_of_python(struct fsdp_span bytes, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, const struct fsdp_json **ret_root,
	struct fsdp_error **ret_error)
{
	return read_tree(bytes, true, limits, arena, ret_root, ret_error);
}

const struct fsdp_json *fsdp_json_get(const struct fsdp_json *object, const char *key)
{
	if (!fsdp_json_is(object, FSDP_JSON_OBJECT))
		return NULL;
	for (uint32_t i = 0; i < object->count; i++)
		if (fsdp_span_is(object->items[i].key, key))
			return &object->items[i];
	return NULL;
}

struct fsdp_span fsdp_json_get_text(const struct fsdp_json *object, const char *key)
{
	const struct fsdp_json *value = fsdp_json_get(object, key);
	return fsdp_json_is(value, FSDP_JSON_TEXT) ? value->text
						   : (struct fsdp_span){ 0 };
}

bool fsdp_json_get_integer(const struct fsdp_json *object, const char *key, int64_t least,
	int64_t most, int64_t *ret)
{
	const struct fsdp_json *value = fsdp_json_get(object, key);
	if (!fsdp_json_is(value, FSDP_JSON_INTEGER) || value->integer < least ||
		value->integer > most)
		return false;
	*ret = value->integer;
	return true;
}

int fsdp_json_get_truth(const struct fsdp_json *object, const char *key)
{
	const struct fsdp_json *value = fsdp_json_get(object, key);
	return fsdp_json_is(value, FSDP_JSON_BOOL) ? (int)value->integer : -1;
}
