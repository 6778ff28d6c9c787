/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files by name, from a directory or from memory.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/num.h"
#include "io/folder.h"

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

/* From the folder on: "name" or "sub/name". */
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

static int compare_packed(const void *a, const void *b, void *context)
{
	const struct fsdp_folder *folder = context;
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
	const struct fsdp_packed *one = fsdp_vec_at(folder->packed, first);
	const struct fsdp_packed *other = fsdp_vec_at(folder->packed, second);
	int order = fsdp_span_compare(one->name, other->name);
	/* Of two of the same name the earlier stays the earlier. */
	return order != 0 ? order : (first > second) - (first < second);
}

/* Of a member below: bytes of the name of the folder here that it lies in; 0: none. */
static size_t folder_part(const struct fsdp_folder *folder, size_t index)
{
	struct fsdp_span name = packed_name(folder, index);
	const unsigned char *slash =
		name.size != 0 ? memchr(name.data, '/', name.size) : NULL;
	return slash != NULL ? (size_t)(slash - name.data) : 0;
}

/* What a directory's list would show of the members below. */
static bool list_packed(struct fsdp_folder *folder, struct fsdp_arena *arena,
	struct fsdp_error **ret_error)
{
	struct fsdp_entry *entries = FSDP_TAKE(arena, entries, folder->below + 1);
	if (entries == NULL)
		return fsdp_arena_fail(arena, ret_error);
	folder->count = 0;
	for (size_t i = 0; i < folder->below; i++) {
		size_t part = folder_part(folder, i);
		struct fsdp_entry entry = {
			.name = packed_name(folder, i),
			.kind = part != 0 ? FSDP_ENTRY_DIRECTORY : FSDP_ENTRY_FILE,
			.size = part != 0 ? 0 : packed_at(folder, i)->source.size,
		};
		/* In the same folder here as the one before it. */
		if (part != 0 && i != 0 && folder_part(folder, i - 1) == part &&
			memcmp(packed_name(folder, i).data,
				packed_name(folder, i - 1).data, part) == 0)
			continue;
		if (part != 0)
			entry.name =
				fsdp_arena_copy(arena, fsdp_span(entry.name.data, part));
		if (entry.name.data == NULL)
			return fsdp_arena_fail(arena, ret_error);
		entries[folder->count++] = entry;
	}
	/* "a/b" stands behind "a-b", but the folder "a" does not. */
	qsort(entries, folder->count, sizeof *entries, fsdp_entry_compare);
	folder->entries = entries;
	return true;
}

bool fsdp_folder_of_packed(struct fsdp_folder *folder, struct fsdp_vec *packed,
	struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	uint32_t *sorted = FSDP_TAKE(arena, sorted, packed->count + 1);
	*folder = (struct fsdp_folder){
		.packed = packed,
		.strip = common_directory(packed),
		.below = packed->count,
		.sorted = sorted,
	};
	if (sorted == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (size_t i = 0; i < packed->count; i++)
		sorted[i] = (uint32_t)i;
	if (packed->count != 0)
		qsort_r(sorted, packed->count, sizeof *sorted, compare_packed, folder);
	return list_packed(folder, arena, ret_error);
}

/* Whether a member stands before all that lie in the folder of this name (-1), is one of
 * them (0), or stands behind them. */
static int compare_below(struct fsdp_span member, struct fsdp_span name)
{
	size_t size = member.size < name.size ? member.size : name.size;
	int order = size != 0 ? memcmp(member.data, name.data, size) : 0;
	if (order != 0)
		return order;
	if (member.size <= name.size)
		return -1;
	return (member.data[name.size] > '/') - (member.data[name.size] < '/');
}

/* The first that is not before those in the folder, or (past) the first behind them. */
static size_t find_below(
	const struct fsdp_folder *folder, struct fsdp_span name, bool past)
{
	size_t low = 0, high = folder->below;
	FSDP_HALVE(low, high, middle,
		compare_below(packed_name(folder, middle), name) < (past ? 1 : 0));
	return low;
}

/* The members below a folder stand together in the order of names. */
static bool narrow(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_folder *ret_folder)
{
	size_t begin = find_below(folder, name, false);
	*ret_folder = (struct fsdp_folder){
		.packed = folder->packed,
		.strip = folder->strip + name.size + 1,
		.sorted = folder->sorted + begin,
		.below = find_below(folder, name, true) - begin,
	};
	return ret_folder->below != 0;
}

bool fsdp_folder_open_child(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_folder *ret_folder,
	struct fsdp_error **ret_error)
{
	*ret_dir = (struct fsdp_dir){ .fd = -1 };
	if (folder->dir == NULL) {
		if (narrow(folder, name, ret_folder))
			return list_packed(ret_folder, arena, ret_error);
		return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"no such folder in the archive");
	}
	struct fsdp_span text = fsdp_arena_copy(arena, name);
	if (text.data == NULL)
		return fsdp_arena_fail(arena, ret_error);
	if (!fsdp_dir_open_child(folder->dir, (const char *)text.data, arena, limits,
		    ret_dir, ret_error))
		return false;
	fsdp_folder_of_dir(ret_folder, ret_dir);
	return true;
}

struct fsdp_entry fsdp_folder_entry(const struct fsdp_folder *folder, size_t index)
{
	if (folder->dir == NULL)
		return folder->entries[index];
	return *fsdp_dir_entry(
		folder->dir, folder->picked != NULL ? folder->picked[index] : index);
}

static struct fsdp_span entry_name(const struct fsdp_folder *folder, size_t index)
{
	return fsdp_folder_entry(folder, index).name;
}

/* Binary search in names that are sorted bytewise. */
static bool find_name(const struct fsdp_folder *folder,
	struct fsdp_span (*name_at)(const struct fsdp_folder *folder, size_t index),
	size_t count, struct fsdp_span name, size_t *ret_index)
{
	size_t low = 0, high = count;
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
	if (!find_name(folder, entry_name, folder->count, name, &index))
		return false;
	*ret_entry = fsdp_folder_entry(folder, index);
	return true;
}

bool fsdp_folder_has(
	const struct fsdp_folder *folder, const char *name, enum fsdp_entry_kind kind)
{
	struct fsdp_entry entry;
	return fsdp_folder_find(folder, fsdp_span_text(name), &entry) &&
	       entry.kind == kind;
}

bool fsdp_folder_source(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	size_t index;
	if (folder->dir != NULL &&
		(folder->picked == NULL ||
			find_name(folder, entry_name, folder->count, name, &index)))
		return fsdp_dir_source(folder->dir, name, ret_source, ret_error);
	if (folder->dir != NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"no such file among those that were named");
	if (!find_name(folder, packed_name, folder->below, name, &index))
		return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"no such file in the archive");
	*ret_source = packed_at(folder, index)->source;
	return true;
}

uint64_t fsdp_folder_offset(const struct fsdp_folder *folder, struct fsdp_span name)
{
	size_t index;
	return folder->dir == NULL &&
			       find_name(folder, packed_name, folder->below, name, &index)
		       ? packed_at(folder, index)->offset
		       : FSDP_UNKNOWN;
}

/*
 * Goes through a folder and all folders below it, with a stack of those that are open.
 */

enum { DEPTH_MOST = 64 };

struct tree_level {
	struct fsdp_arena arena;
	struct fsdp_dir dir;
	struct fsdp_folder folder;
	size_t next;      /* first all files, then all folders: up to twice the count */
	size_t path_size; /* of the folder, with its slash */
};

struct fsdp_tree {
	struct fsdp_budget *budget;
	const struct fsdp_limits *limits;
	size_t depth; /* levels that are open */
	struct tree_level levels[DEPTH_MOST];
	char path[PATH_MAX];
};

bool fsdp_tree_new(const struct fsdp_folder *root, struct fsdp_budget *budget,
	const struct fsdp_limits *limits, struct fsdp_tree **ret_tree,
	struct fsdp_error **ret_error)
{
	struct fsdp_tree *tree = calloc(1, sizeof *tree);
	if (tree == NULL)
		return fsdp_fail_memory(ret_error);
	tree->budget = budget;
	tree->limits = limits;
	tree->depth = 1;
	tree->levels[0].folder = *root;
	tree->levels[0].dir.fd = -1;
	fsdp_arena_init(&tree->levels[0].arena, budget);
	*ret_tree = tree;
	return true;
}

/* The folder of this item, whose path is set, becomes the one that is gone through. */
static bool enter(struct fsdp_tree *tree, const struct fsdp_tree_item *item,
	struct fsdp_error **ret_error)
{
	uint64_t deepest = fsdp_limit(tree->limits, FSDP_LIMIT_BESIDE_DEPTH);
	struct tree_level *level = &tree->levels[tree->depth];
	if (tree->depth > deepest || tree->depth == DEPTH_MOST)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_BESIDE_DEPTH,
			fsdp_min(deepest, DEPTH_MOST - 1));
	*level = (struct tree_level){ .path_size = item->path.size + 1 };
	fsdp_arena_init(&level->arena, tree->budget);
	if (!fsdp_folder_open_child(item->folder, item->entry.name, &level->arena,
		    tree->limits, &level->dir, &level->folder, ret_error)) {
		fsdp_arena_done(&level->arena);
		return false;
	}
	tree->path[item->path.size] = '/';
	tree->depth++;
	return true;
}

static void leave(struct fsdp_tree *tree)
{
	struct tree_level *level = &tree->levels[--tree->depth];
	fsdp_dir_close(&level->dir);
	fsdp_arena_done(&level->arena);
}

bool fsdp_tree_next(struct fsdp_tree *tree, struct fsdp_tree_item *ret_item)
{
	while (tree->depth != 0) {
		struct tree_level *level = &tree->levels[tree->depth - 1];
		size_t count = level->folder.count, index = level->next++;
		if (index >= 2 * count) {
			leave(tree);
			continue;
		}
		struct fsdp_entry entry = fsdp_folder_entry(
			&level->folder, index < count ? index : index - count);
		if (entry.kind !=
			(index < count ? FSDP_ENTRY_FILE : FSDP_ENTRY_DIRECTORY))
			continue;
		*ret_item = (struct fsdp_tree_item){
			.folder = &level->folder,
			.entry = entry,
		};
		size_t size = level->path_size + entry.name.size;
		bool fits = size + 1 < sizeof tree->path;
		if (fits)
			memcpy(tree->path + level->path_size, entry.name.data,
				entry.name.size);
		ret_item->path = fsdp_span(tree->path, fits ? size : level->path_size);
		if (!fits)
			fsdp_fail(&ret_item->error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
				"a path below it is too long");
		else if (index >= count)
			(void)enter(tree, ret_item, &ret_item->error);
		return true;
	}
	return false;
}

void fsdp_tree_free(struct fsdp_tree *tree)
{
	if (tree == NULL)
		return;
	while (tree->depth != 0)
		leave(tree);
	free(tree);
}
