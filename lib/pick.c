/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks the files of a folder that are meant when several are named, or one that stands
 * for its set. Opens the folder, but none of the files; never leaves it.
 */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "pick.h"

/* NULL: out of memory. */
static const char *parent_of(struct fsdp_arena *arena, const char *path)
{
	const char *slash = strrchr(path, '/');
	if (slash == NULL)
		return ".";
	while (slash > path && slash[-1] == '/')
		slash--;
	size_t size = slash == path ? 1 : (size_t)(slash - path);
	return (const char *)fsdp_arena_copy(arena, fsdp_span(path, size)).data;
}

static bool open_folder(struct fsdp_checkpoint *checkpoint, const char *path, size_t room,
	struct fsdp_pick *pick, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = &checkpoint->arena;
	*pick = (struct fsdp_pick){ .folder = parent_of(arena, path) };
	if (pick->folder == NULL)
		return fsdp_arena_fail(arena, ret_error);
	if (!fsdp_dir_open(pick->folder, arena, &checkpoint->limits, &checkpoint->dir,
		    ret_error))
		return false;
	checkpoint->has_dir = true;
	pick->positions = FSDP_TAKE(
		arena, pick->positions, fsdp_dir_count(&checkpoint->dir) + room);
	return pick->positions != NULL || fsdp_arena_fail(arena, ret_error);
}

/* A file, and in the folder of the first. */
static bool check_path(struct fsdp_checkpoint *checkpoint, const char *path,
	const char *folder, struct fsdp_error **ret_error)
{
	const char *problem = NULL;
	const char *parent = parent_of(&checkpoint->arena, path);
	if (parent == NULL)
		return fsdp_arena_fail(&checkpoint->arena, ret_error);
	if (strcmp(path, "-") == 0)
		problem = "standard input is a checkpoint of its own";
	else if (fsdp_dir_is(path))
		problem = "a directory is a checkpoint of its own";
	else if (!fsdp_dir_is_same(parent, folder))
		problem = "the files of one checkpoint lie in one folder";
	if (problem == NULL)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "%s", problem);
	fsdp_error_add_path(ret_error, path);
	return fsdp_error_add_hint(ret_error, "--separate answers for each of them");
}

static bool add_position(const struct fsdp_dir *dir, const char *path,
	struct fsdp_pick *pick, struct fsdp_error **ret_error)
{
	struct fsdp_span name = fsdp_span_last(fsdp_span_text(path), '/');
	struct fsdp_source source;
	size_t position;
	/* What is not there or no file is refused where files are opened. */
	if (!fsdp_dir_position(dir, name, &position) ||
		fsdp_dir_entry(dir, position)->kind != FSDP_ENTRY_FILE)
		return fsdp_dir_source(dir, name, &source, ret_error);
	pick->positions[pick->count++] = (uint32_t)position;
	return true;
}

static int by_position(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	return left < right ? -1 : left > right;
}

static void sort_positions(struct fsdp_pick *pick)
{
	size_t kept = 0;
	qsort(pick->positions, pick->count, sizeof *pick->positions, by_position);
	for (size_t i = 1; i < pick->count; i++)
		if (pick->positions[i] != pick->positions[kept])
			pick->positions[++kept] = pick->positions[i];
	pick->count = kept + 1;
}

bool fsdp_pick_paths(struct fsdp_checkpoint *checkpoint, const char *const *paths,
	size_t count, struct fsdp_pick *ret_pick, struct fsdp_error **ret_error)
{
	/* Before it is opened: that of a folder may be none that was named. */
	const char *folder = parent_of(&checkpoint->arena, paths[0]);
	if (folder == NULL)
		return fsdp_arena_fail(&checkpoint->arena, ret_error);
	for (size_t i = 0; i < count; i++)
		if (!check_path(checkpoint, paths[i], folder, ret_error))
			return false;
	if (!open_folder(checkpoint, paths[0], count, ret_pick, ret_error))
		return false;
	for (size_t i = 0; i < count; i++)
		if (!add_position(&checkpoint->dir, paths[i], ret_pick, ret_error))
			return false;
	sort_positions(ret_pick);
	return true;
}

bool fsdp_pick_set(struct fsdp_checkpoint *checkpoint, const char *path,
	struct fsdp_pick *ret_pick, struct fsdp_error **ret_error)
{
	struct fsdp_folder whole;
	bool sure;
	if (!open_folder(checkpoint, path, 1, ret_pick, ret_error))
		return false;
	fsdp_folder_of_dir(&whole, &checkpoint->dir);
	ret_pick->count = fsdp_rank_siblings(&whole,
		fsdp_span_last(fsdp_span_text(path), '/'), ret_pick->positions, &sure);
	return true;
}
