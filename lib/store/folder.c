/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows that files by name come from a directory or from memory; knows nothing of what is
 * in them.
 */
#include "store/folder.h"

void fsdp_folder_of_dir(struct fsdp_folder *folder, struct fsdp_dir *dir)
{
	*folder = (struct fsdp_folder){ .dir = dir, .count = fsdp_dir_count(dir) };
}

void fsdp_folder_pick(struct fsdp_folder *folder, struct fsdp_dir *dir,
	const uint32_t *picked, size_t count)
{
	*folder = (struct fsdp_folder){ .dir = dir, .picked = picked, .count = count };
}

static const struct fsdp_packed *packed_at(const struct fsdp_folder *folder, size_t index)
{
	return fsdp_vec_at(folder->packed, folder->sorted[index]);
}

static struct fsdp_span packed_name(const struct fsdp_folder *folder, size_t index)
{
	struct fsdp_span name = packed_at(folder, index)->name;
	return fsdp_span(name.data + folder->strip, name.size - folder->strip);
}

static size_t without_dot_slash(struct fsdp_span name)
{
	return fsdp_span_begins(name, FSDP_SPAN("./")) ? 2 : 0;
}

/* The first directory of all names, if it is the same one. */
static size_t common_directory(const struct fsdp_vec *packed)
{
	if (packed->count == 0)
		return 0;
	struct fsdp_span first =
		((const struct fsdp_packed *)fsdp_vec_at(packed, 0))->name;
	size_t skip = without_dot_slash(first);
	const unsigned char *slash =
		first.size > skip ? memchr(first.data + skip, '/', first.size - skip)
				  : NULL;
	size_t strip = slash != NULL ? (size_t)(slash - first.data) + 1 : skip;
	for (size_t i = 1; i < packed->count; i++) {
		const struct fsdp_packed *member = fsdp_vec_at(packed, i);
		if (strip > skip &&
			!fsdp_span_begins(member->name, fsdp_span(first.data, strip)))
			strip = skip;
		if (without_dot_slash(member->name) != skip)
			return 0;
	}
	return strip;
}

/* Shell sort: few lines, no stack, and archives mostly come sorted. */
static void sort_names(struct fsdp_folder *folder)
{
	for (size_t gap = folder->count / 2; gap != 0; gap /= 2) {
		for (size_t i = gap; i < folder->count; i++) {
			uint32_t item = folder->sorted[i];
			struct fsdp_span name = ((const struct fsdp_packed *)fsdp_vec_at(
							 folder->packed, item))
							->name;
			size_t at = i;
			while (at >= gap &&
				fsdp_span_compare(
					packed_at(folder, at - gap)->name, name) > 0) {
				folder->sorted[at] = folder->sorted[at - gap];
				at -= gap;
			}
			folder->sorted[at] = item;
		}
	}
}

bool fsdp_folder_of_packed(struct fsdp_folder *folder, struct fsdp_vec *packed,
	struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	*folder = (struct fsdp_folder){
		.packed = packed,
		.strip = common_directory(packed),
		.count = packed->count,
		.sorted =
			fsdp_arena_take(arena, (packed->count + 1) * sizeof(uint32_t), 4),
	};
	if (folder->sorted == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (size_t i = 0; i < packed->count; i++)
		folder->sorted[i] = (uint32_t)i;
	sort_names(folder);
	return true;
}

struct fsdp_entry fsdp_folder_entry(const struct fsdp_folder *folder, size_t index)
{
	if (folder->dir != NULL)
		return *fsdp_dir_entry(folder->dir,
			folder->picked != NULL ? folder->picked[index] : index);
	return (struct fsdp_entry){
		.name = packed_name(folder, index),
		.kind = FSDP_ENTRY_FILE,
		.size = packed_at(folder, index)->bytes.size,
	};
}

static struct fsdp_span name_at(const struct fsdp_folder *folder, size_t index)
{
	return folder->dir != NULL ? fsdp_folder_entry(folder, index).name
				   : packed_name(folder, index);
}

static bool find_name(
	const struct fsdp_folder *folder, struct fsdp_span name, size_t *ret_index)
{
	size_t low = 0, high = folder->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = fsdp_span_compare(name_at(folder, middle), name);
		if (order == 0) {
			*ret_index = middle;
			return true;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

bool fsdp_folder_find(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_entry *ret_entry)
{
	size_t index;
	if (!find_name(folder, name, &index))
		return false;
	*ret_entry = fsdp_folder_entry(folder, index);
	return true;
}

bool fsdp_folder_source(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	size_t index;
	if (folder->dir != NULL && folder->picked == NULL)
		return fsdp_dir_source(folder->dir, name, ret_source, ret_error);
	if (!find_name(folder, name, &index))
		return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"no such file %s",
			folder->dir != NULL ? "among those that were named"
					    : "in the archive");
	if (folder->dir != NULL)
		return fsdp_dir_source(folder->dir, name, ret_source, ret_error);
	*ret_source = fsdp_source_memory(packed_at(folder, index)->bytes);
	return true;
}
