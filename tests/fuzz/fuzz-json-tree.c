/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a small JSON document. Every value that is read can be walked, and every
 * member found by its key; and it is what jansson reads.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "syntax/json-tree.h"

static void require(bool good)
{
	if (!good)
		abort();
}

static void look_at(struct fsdp_vec *todo, const struct fsdp_json *value)
{
	require(value->kind <= FSDP_JSON_INTEGERS);
	if (value->kind == FSDP_JSON_TEXT)
		require(value->text.data[value->text.size] == '\0');
	for (uint32_t i = 0; fsdp_json_is_list(value) && i < value->count; i++) {
		int64_t integer;
		require(fsdp_json_integer_at(value, i, &integer) ||
			value->kind == FSDP_JSON_ARRAY);
	}
	for (uint32_t i = 0; value->kind != FSDP_JSON_INTEGERS && i < value->count; i++) {
		const struct fsdp_json *item = &value->items[i];
		if (value->kind == FSDP_JSON_OBJECT && i < 16)
			require(fsdp_json_get(value, (const char *)item->key.data) ==
				item);
		const struct fsdp_json **place = fsdp_vec_push(todo);
		require(place != NULL);
		*place = item;
	}
}

static bool is_string(struct fsdp_span text, const char *data, size_t size)
{
	return fsdp_span_equal(text, fsdp_span(data, size));
}

static void compare(const struct fsdp_json *value, json_t *other);

static void compare_lists(const struct fsdp_json *list, json_t *other)
{
	require(json_array_size(other) == list->count);
	for (uint32_t i = 0; i < list->count; i++) {
		int64_t integer;
		json_t *item = json_array_get(other, i);
		if (list->kind == FSDP_JSON_ARRAY)
			compare(&list->items[i], item);
		else
			require(fsdp_json_integer_at(list, i, &integer) &&
				json_is_integer(item) &&
				json_integer_value(item) == integer);
	}
}

static void compare_objects(const struct fsdp_json *object, json_t *other)
{
	const struct fsdp_json *item = object->items;
	require(json_object_size(other) == object->count);
	for (void *at = json_object_iter(other); at != NULL;
		at = json_object_iter_next(other, at), item++) {
		const char *key = json_object_iter_key(at);
		require(is_string(item->key, key, strlen(key)));
		compare(item, json_object_iter_value(at));
	}
}

/* The limit of nesting is the limit of this. */
static void compare(const struct fsdp_json *value, json_t *other)
{
	switch (value->kind) {
	case FSDP_JSON_NULL:
		require(json_is_null(other));
		break;
	case FSDP_JSON_BOOL:
		require(json_is_boolean(other) && json_is_true(other) == value->integer);
		break;
	case FSDP_JSON_INTEGER:
		require(json_is_integer(other) &&
			json_integer_value(other) == value->integer);
		break;
	case FSDP_JSON_REAL:
		require(json_is_real(other) && !(json_real_value(other) < value->real) &&
			!(json_real_value(other) > value->real));
		break;
	case FSDP_JSON_TEXT:
		require(json_is_string(other) &&
			is_string(value->text, json_string_value(other),
				json_string_length(other)));
		break;
	case FSDP_JSON_ARRAY:
	case FSDP_JSON_INTEGERS:
		compare_lists(value, other);
		break;
	case FSDP_JSON_OBJECT:
		compare_objects(value, other);
		break;
	}
}

/* jansson loses a zero byte behind a number, and refuses half a surrogate pair and an
 * integer beyond 64 bits. */
static void compare_documents(struct fsdp_span bytes, const struct fsdp_json *root,
	const struct fsdp_error *error)
{
	static const char surrogates[][4] = { "\\ud", "\\uD" };
	bool halves = false, is_large = false;
	size_t digits = 0;
	if (bytes.data == NULL || bytes.size == 0 ||
		memchr(bytes.data, 0, bytes.size) != NULL ||
		(root == NULL && fsdp_error_code(error) == FSDP_ERROR_LIMIT))
		return;
	for (size_t i = 0; i < 2; i++)
		halves |= memmem(bytes.data, bytes.size, surrogates[i], 3) != NULL;
	for (size_t i = 0; i < bytes.size; i++) {
		digits = bytes.data[i] >= '0' && bytes.data[i] <= '9' ? digits + 1 : 0;
		is_large |= digits >= 19;
	}
	json_t *document = json_loadb((const char *)bytes.data, bytes.size,
		JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
	require((document != NULL) == (root != NULL) || halves || is_large);
	if (document != NULL && root != NULL)
		compare(root, document);
	json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsdp_budget budget = { .ceiling = UINT64_C(1) << 30 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	const struct fsdp_json *root = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	fsdp_limits_set(&limits, "json-depth", 64);
	bool good = fsdp_json_read(fsdp_span(data, size), &limits, &arena, &root, &error);
	require(good == (error == NULL) && good == (root != NULL));
	struct fsdp_vec todo;
	fsdp_vec_init(&todo, &arena, sizeof(const struct fsdp_json *));
	if (good)
		look_at(&todo, root);
	for (size_t i = 0; i < todo.count; i++)
		look_at(&todo, *(const struct fsdp_json **)fsdp_vec_at(&todo, i));
	compare_documents(fsdp_span(data, size), root, error);
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	require(budget.used == 0);
	return 0;
}
