/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes through a folder and all folders below it, with a stack of those that are open.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/num.h"
#include "store/folder-tree.h"

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
