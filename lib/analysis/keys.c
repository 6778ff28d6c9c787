/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what a tensor or a piece is grouped by.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/keys.h"
#include "analysis/scratch.h"
#include "base/error.h"
#include "base/num.h"

static size_t key_count(const struct fsdp_checkpoint *checkpoint, enum fsdp_sums_by by)
{
	size_t count = 0;

	switch (by) {
	case FSDP_BY_RANK:
		(void)fsdp_checkpoint_ranks(checkpoint, &count);
		return count;
	case FSDP_BY_FILE:
		return fsdp_file_count(checkpoint);
	case FSDP_BY_DTYPE:
		return fsdp_dtype_count();
	case FSDP_BY_ROLE:
		return FSDP_ROLE_COUNT;
	case FSDP_BY_MODULE:
	case FSDP_BY_LAYER:
		return fsdp_module_count(checkpoint);
	case FSDP_BY_UNIT:
		return fsdp_unit_count(checkpoint);
	case FSDP_BY_PREFIX:
		return fsdp_tensor_count(checkpoint);
	}
	return 0;
}

/* The topmost visit that is called a number, of each visit at or below one. */
static void map_layers(struct fsdp_keys *keys, struct fsdp_scratch *scratch)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		struct fsdp_module module = fsdp_module(keys->checkpoint, i);
		uint32_t above = FSDP_NONE;

		if (module.parent < i)
			above = keys->map[module.parent];
		if (above == FSDP_NONE && fsdp_ends_with_number(fsdp_scratch_name(scratch,
						  keys->checkpoint, module.name)))
			above = i;
		keys->map[i] = above;
	}
}

static size_t cut_at(struct fsdp_span name, int64_t segments)
{
	size_t size = 0;

	if (segments <= 0)
		return 0;
	for (; size < name.size; size++)
		if (name.data[size] == '.' && --segments == 0)
			break;
	return size;
}

/* Tensors are in natural order, so those with the same prefix are adjacent: their key is the first of them. */
static void map_names(
	struct fsdp_keys *keys, struct fsdp_scratch *scratch, struct fsdp_scratch *last)
{
	struct fsdp_span head = FSDP_SPAN("");
	uint32_t first = FSDP_NONE;

	for (uint32_t i = 0; i < keys->count; i++) {
		struct fsdp_span name = fsdp_scratch_name(
			scratch, keys->checkpoint, fsdp_tensor(keys->checkpoint, i).name);
		name.size = cut_at(name, keys->depth);
		if (first == FSDP_NONE || !fsdp_span_equal(name, head)) {
			struct fsdp_scratch kept = *last;
			first = i;
			head = name;
			/* The next name goes where this one is not. */
			*last = *scratch;
			*scratch = kept;
		}
		keys->map[i] = first;
	}
}

static bool map_keys(struct fsdp_keys *keys, struct fsdp_error **ret_error)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	struct fsdp_scratch names = { .arena = &arena }, last = { .arena = &arena };

	keys->map = malloc((keys->count + 1) * sizeof *keys->map);
	if (keys->map == NULL)
		return fsdp_fail_memory(ret_error);
	fsdp_arena_init_lean(&arena, &budget);
	if (keys->by == FSDP_BY_LAYER)
		map_layers(keys, &names);
	else
		map_names(keys, &names, &last);
	fsdp_arena_done(&arena);
	if (names.failed || last.failed)
		return fsdp_fail_memory(ret_error);
	return true;
}

bool fsdp_keys_init(struct fsdp_keys *keys, const struct fsdp_checkpoint *checkpoint,
	enum fsdp_sums_by by, int64_t depth, struct fsdp_error **ret_error)
{
	size_t ranks;

	*keys = (struct fsdp_keys){ .checkpoint = checkpoint,
		.by = by,
		.depth = depth,
		.count = key_count(checkpoint, by) };
	if (by == FSDP_BY_RANK)
		keys->ranks = fsdp_checkpoint_ranks(checkpoint, &ranks);
	return (by != FSDP_BY_LAYER && by != FSDP_BY_PREFIX) || map_keys(keys, ret_error);
}

void fsdp_keys_done(struct fsdp_keys *keys)
{
	free(keys->map);
	keys->map = NULL;
}

uint32_t fsdp_keys_at(const struct fsdp_keys *keys, size_t position)
{
	if (position >= keys->count)
		return FSDP_NONE;
	return keys->ranks != NULL ? keys->ranks[position] : (uint32_t)position;
}

/* The visit at or above this one that has a key of its own. */
static uint32_t module_of(const struct fsdp_keys *keys, uint32_t index)
{
	while (index != FSDP_NONE && keys->depth >= 0) {
		struct fsdp_module module = fsdp_module(keys->checkpoint, index);
		if (module.shown_depth <= (uint64_t)keys->depth)
			break;
		index = module.parent;
	}
	return index;
}

size_t fsdp_keys_of_tensor(
	const struct fsdp_keys *keys, uint32_t index, const struct fsdp_tensor *tensor)
{
	size_t key = FSDP_NONE;

	switch (keys->by) {
	case FSDP_BY_DTYPE:
		key = tensor->dtype;
		break;
	case FSDP_BY_ROLE:
		key = (size_t)tensor->role;
		break;
	case FSDP_BY_MODULE:
		key = module_of(keys, tensor->module);
		break;
	case FSDP_BY_LAYER:
		if (tensor->module < keys->count)
			key = keys->map[tensor->module];
		break;
	case FSDP_BY_UNIT:
		key = tensor->unit;
		break;
	case FSDP_BY_PREFIX:
		key = index < keys->count ? keys->map[index] : FSDP_NONE;
		break;
	case FSDP_BY_RANK:
	case FSDP_BY_FILE:
		break;
	}
	return fsdp_min(key, keys->count);
}

size_t fsdp_keys_of_piece(const struct fsdp_keys *keys, uint32_t piece, uint32_t rank)
{
	size_t key = FSDP_NONE;

	if (keys->by == FSDP_BY_RANK)
		key = fsdp_find_sorted(keys->ranks, keys->count, rank);
	else if (keys->by == FSDP_BY_FILE)
		key = fsdp_piece(keys->checkpoint, piece).file;
	return fsdp_min(key, keys->count);
}
