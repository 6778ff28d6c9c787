/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of safetensors as HuggingFaceStorageReader reads it: all its files, by their
 * headers; the index is not read.
 *
 * Origin: torch/distributed/checkpoint/hf_storage.py (2.13).
 */
#include <stdio.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

enum { NAME_BYTES = 4096 };

/* The next file, not in a subdirectory; *at is 0 at first. */
static bool next_shard(struct fsdp_loading *loading, size_t *at, char name[NAME_BYTES])
{
	while (*at < fsdp_survey_entry_count(loading->survey)) {
		const struct fsdp_survey_entry *entry =
			fsdp_survey_entry(loading->survey, (*at)++);
		if (entry->is_folder || entry->name.size >= NAME_BYTES ||
			!fsdp_span_ends(entry->name, FSDP_SPAN(".safetensors")) ||
			memchr(entry->name.data, '/', entry->name.size) != NULL)
			continue;
		snprintf(name, NAME_BYTES, "%.*s", FSDP_TEXT(entry->name));
		return true;
	}
	return false;
}

bool fsdp_load_has_shards(struct fsdp_loading *loading)
{
	char name[NAME_BYTES];
	size_t at = 0;

	return next_shard(loading, &at, name);
}

bool fsdp_load_has_cut_shard(struct fsdp_loading *loading)
{
	char name[NAME_BYTES];

	for (size_t at = 0; next_shard(loading, &at, name);)
		if (fsdp_load_is_cut_file(loading, name))
			return true;
	return false;
}

/* Files of ranks hold pieces, and say which. */
static bool is_of_rank(const char *name)
{
	return strncmp(name, "shard-", 6) == 0;
}

/* The first name that both have, as word 0. */
static bool share_name(struct fsdp_loading *loading, const struct fsdp_checkpoint *a,
	const struct fsdp_checkpoint *b)
{
	char text[NAME_BYTES];

	for (uint32_t i = 0; a != NULL && b != NULL && i < fsdp_tensor_count(a); i++) {
		size_t size =
			fsdp_name_write(a, fsdp_tensor(a, i).raw_name, text, sizeof text);
		struct fsdp_span name = fsdp_span(text, size);
		if (size > sizeof text || fsdp_tensor_find(b, name) == FSDP_NONE)
			continue;
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(name, 512));
		return true;
	}
	return false;
}

bool fsdp_load_has_name_twice(struct fsdp_loading *loading)
{
	char name[NAME_BYTES], other[NAME_BYTES];

	for (size_t at = 0; next_shard(loading, &at, name);)
		for (size_t next = at;
			!is_of_rank(name) && next_shard(loading, &next, other);)
			if (!is_of_rank(other) &&
				share_name(loading, fsdp_load_open(loading, name),
					fsdp_load_open(loading, other)))
				return true;
	return false;
}

/* Dtypes that safetensors has and its PyTorch binding lacks. */
static const char *foreign_type(uint32_t dtype)
{
	static const char *const types[][2] = {
		{ "float8_e8m0fnu", "F8_E8M0" },
		{ "float4_e2m1fn_x2", "F4" },
		{ "F6_E2M3", "F6_E2M3" },
		{ "F6_E3M2", "F6_E3M2" },
	};

	for (size_t i = 0; i < FSDP_COUNT(types); i++)
		if (strcmp(fsdp_dtype(dtype)->name, types[i][0]) == 0)
			return types[i][1];
	return NULL;
}

bool fsdp_load_has_foreign_type(struct fsdp_loading *loading)
{
	char name[NAME_BYTES];

	for (size_t at = 0; next_shard(loading, &at, name);) {
		const struct fsdp_checkpoint *shard = fsdp_load_open(loading, name);
		for (uint32_t i = 0; shard != NULL && i < fsdp_tensor_count(shard); i++) {
			const char *type = foreign_type(fsdp_tensor(shard, i).dtype);
			if (type == NULL)
				continue;
			fsdp_load_say(loading, 0, "%s", type);
			return true;
		}
	}
	return false;
}

bool fsdp_load_lacks_indexed_shard(struct fsdp_loading *loading)
{
	static const char *const order[] = { "*.index.json", NULL };
	const char *was = loading->weights;
	bool lacks;

	loading->weights = fsdp_load_choose(loading, order);
	lacks = fsdp_load_lacks_shard(loading);
	loading->weights = was;
	return lacks;
}
