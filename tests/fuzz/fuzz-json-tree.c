/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a small JSON document. Every value that is read can be walked, and every
 * member found by its key.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/vec.h"
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
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	require(budget.used == 0);
	return 0;
}
