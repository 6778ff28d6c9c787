/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes from what the user named to what is read: picks files of a directory, peels
 * archives off, and enters directories that only lead to a checkpoint.
 */
#include <string.h>

#include "base/sort.h"
#include "checkpoint/opening.h"

/*
 * Selects the files of a directory if several are named, or one that represents
 * its set. Opens the directory, but none of the files; never leaves it.
 */

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

static void open_folder(struct opening *opening, size_t room, struct fsdp_pick *pick)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_arena *arena = &checkpoint->arena;
	*pick = (struct fsdp_pick){ .folder = parent_of(arena, opening->path) };
	fsdp_opening_must(
		opening, fsdp_dir_open(checkpoint->remote, pick->folder, arena,
				 &checkpoint->limits, &checkpoint->dir, &opening->error));
	checkpoint->has_dir = true;
	pick->positions = FSDP_TAKE(
		arena, pick->positions, fsdp_dir_count(&checkpoint->dir) + room);
}

/* A file, and in the directory of the first. */
static void check_path(struct opening *opening, const char *path, const char *folder)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	const char *problem = NULL;
	const char *parent = parent_of(&checkpoint->arena, path);
	if (strcmp(path, "-") == 0)
		problem = "standard input is a checkpoint of its own";
	else if (fsdp_dir_is(checkpoint->remote, path))
		problem = "a directory is a checkpoint of its own";
	else if (!fsdp_dir_is_same(parent, folder))
		problem = "the files of one checkpoint are in one directory";
	if (problem == NULL)
		return;
	fsdp_fail(&opening->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "%s", problem);
	fsdp_error_add_path(&opening->error, path);
	fsdp_error_add_hint(&opening->error, "--separate answers for each of them");
	fsdp_opening_must(opening, false);
}

void fsdp_pick_paths(struct opening *opening, struct fsdp_pick *ret_pick)
{
	/* Before it is opened: that of a directory may not be a named one. */
	const char *folder = parent_of(&opening->checkpoint->arena, opening->path);
	size_t count = opening->path_count, kept = 0;
	for (size_t i = 0; i < count; i++)
		check_path(opening, opening->paths[i], folder);
	open_folder(opening, count, ret_pick);
	for (size_t i = 0; i < count; i++) {
		const char *path = opening->paths[i];
		const struct fsdp_dir *dir = &opening->checkpoint->dir;
		struct fsdp_span name = fsdp_span_last(fsdp_span_text(path), '/');
		struct fsdp_source source;
		size_t position;
		/* What is not there or no file is refused where files are opened. */
		if (!fsdp_dir_position(dir, name, &position) ||
			fsdp_dir_entry(dir, position)->kind != FSDP_ENTRY_FILE)
			fsdp_opening_must(opening,
				fsdp_dir_source(dir, name, &source, &opening->error));
		else
			ret_pick->positions[ret_pick->count++] = (uint32_t)position;
	}
	FSDP_SORT(
		ret_pick->positions, ret_pick->count, FSDP_BY_VALUE(ret_pick->positions));
	for (size_t i = 1; i < ret_pick->count; i++)
		if (ret_pick->positions[i] != ret_pick->positions[kept])
			ret_pick->positions[++kept] = ret_pick->positions[i];
	ret_pick->count = kept + 1;
}

void fsdp_pick_set(struct opening *opening, struct fsdp_pick *ret_pick)
{
	struct fsdp_folder whole;
	bool sure;
	open_folder(opening, 1, ret_pick);
	fsdp_folder_of_dir(&whole, &opening->checkpoint->dir);
	ret_pick->count = fsdp_rank_siblings(&whole,
		fsdp_span_last(fsdp_span_text(opening->path), '/'), ret_pick->positions,
		&sure);
}

/*
 * Goes from the named path to the input to read: unpacks archives, and enters directories
 * that only lead to a checkpoint.
 */

enum { PEEK_FILES = 64, PEEK_MOST = 1024 };

/* ---- looking ---- */

bool fsdp_opening_set_source(
	struct opening *opening, struct fsdp_source source, struct fsdp_span path)
{
	if (!fsdp_look_at_head(
		    &source, path, opening->head, &opening->look, &opening->error))
		return false;
	opening->checkpoint->source = source;
	opening->checkpoint->is_folder = false;
	return true;
}

void fsdp_opening_set_folder(struct opening *opening)
{
	opening->checkpoint->is_folder = true;
	bool on_disk = opening->checkpoint->folder.dir != NULL;
	opening->look = (struct fsdp_look){
		.path = fsdp_span("", 0),
		.folder = &opening->checkpoint->folder,
		.typed = fsdp_span_text(on_disk ? opening->folder_path : ""),
	};
}

/* Peels compressed wrappers and tars off, as long as they lead somewhere. */
static void unwrap(struct opening *opening)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	uint64_t most = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_NESTING);
	while (opening->look.folder == NULL &&
		fsdp_archive_kind(opening->look.head) != NULL) {
		if (opening->wrapped++ >= most)
			fsdp_opening_must(opening, fsdp_fail_limit(&opening->error,
							   FSDP_LIMIT_NESTING, most));
		fsdp_vec_init(&checkpoint->packed, &checkpoint->arena,
			sizeof(struct fsdp_packed));
		fsdp_opening_must(
			opening, fsdp_archive_unpack(&opening->look.source,
					 &checkpoint->arena, &checkpoint->limits,
					 opening->look.path, &checkpoint->model.findings,
					 &checkpoint->packed, &opening->error));
		if (checkpoint->packed.count == 0)
			fsdp_opening_must(opening,
				fsdp_fail(&opening->error, FSDP_ERROR_NOT_A_CHECKPOINT,
					FSDP_UNKNOWN, "this archive has no files"));
		if (checkpoint->packed.count > 1) {
			/* The members of the archive. A member that a plain tar stores as
			 * is has an offset in the tar, unless it was inside of another
			 * archive. */
			struct fsdp_look file = opening->look;
			fsdp_opening_must(
				opening, fsdp_folder_of_packed(&checkpoint->folder,
						 &checkpoint->packed, &checkpoint->arena,
						 &opening->error));
			fsdp_opening_set_folder(opening);
			if (opening->wrapped == 1 && fsdp_archive_is_tar(file.head)) {
				opening->look.source = file.source;
				opening->look.tar = file.path;
			}
			return;
		}
		const struct fsdp_packed *only = fsdp_vec_at(&checkpoint->packed, 0);
		struct fsdp_span name = only->name.data != NULL
						? fsdp_span_last(only->name, '/')
						: opening->look.path;
		fsdp_opening_must(
			opening, fsdp_opening_set_source(opening, only->source, name));
	}
}

/* ---- directories that only lead to a checkpoint ---- */

/* *ret_refused: the family that only refuses it, or NULL. What cannot be opened is none;
 * that memory ran out is remembered. */
static bool bids_on_child(struct opening *opening, const struct fsdp_entry *entry,
	const struct fsdp_family **ret_refused)
{
	struct fsdp_error *error = NULL;
	struct fsdp_arena own;
	struct fsdp_dir child;
	struct fsdp_folder folder;
	bool bids = false;
	fsdp_arena_init(&own, &opening->checkpoint->budget);
	bool opened = fsdp_folder_open_child(&opening->checkpoint->folder, entry->name,
		&own, &opening->checkpoint->limits, &child, &folder, &error);
	if (opened) {
		struct fsdp_look look = { .folder = &folder };
		const struct fsdp_family *family = fsdp_registry_choose(&look);
		bids = family != NULL || fsdp_registry_lead(&folder) != NULL;
		*ret_refused = family != NULL && family->is_refused ? family : NULL;
		fsdp_dir_close(&child);
	}
	fsdp_arena_done(&own);
	if (!opened && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
		fsdp_model_leave(&opening->checkpoint->model, NULL);
	fsdp_error_free(error);
	return bids;
}

static bool bids_on_file(
	struct opening *opening, const struct fsdp_entry *entry, bool *ret_is_unread)
{
	struct fsdp_source source;
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	*ret_is_unread = false;
	if (entry->size == 0)
		return false;
	if (!fsdp_folder_source(
		    &opening->checkpoint->folder, entry->name, &source, NULL) ||
		!fsdp_look_at_head(&source, (struct fsdp_span){ 0 }, head, &look, NULL)) {
		*ret_is_unread = true;
		return false;
	}
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	/* The tar of torch 0.1 begins with this member. Others are not entered unasked:
	 * they may hold anything. */
	return (fsdp_archive_is_tar(look.head) &&
		       fsdp_span_begins(look.head, FSDP_SPAN("sys_info\0"))) ||
	       (family != NULL && !family->is_beside);
}

/* A subdirectory becomes the one to read. */
static void enter_folder(struct opening *opening, struct fsdp_span name)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_dir dir;
	struct fsdp_folder folder;
	fsdp_opening_must(opening,
		fsdp_folder_open_child(&checkpoint->folder, name, &checkpoint->arena,
			&checkpoint->limits, &dir, &folder, &opening->error));
	checkpoint->folder = folder;
	/* Names of members of an archive are relative to this directory of it. */
	if (folder.dir == NULL)
		checkpoint->base = fsdp_opening_join(
			opening, checkpoint->base != NULL ? checkpoint->base : "", name);
	else {
		if (opening->has_beside)
			fsdp_dir_close(&opening->beside);
		opening->beside = checkpoint->dir;
		opening->has_beside = true;
		opening->beside_path = opening->folder_path;
		opening->folder_path = checkpoint->base = dir.path;
		checkpoint->dir = dir;
		checkpoint->folder.dir = &checkpoint->dir;
	}
	fsdp_opening_set_folder(opening);
}

static void enter(struct opening *opening, const struct fsdp_entry *entry)
{
	const char *path = fsdp_opening_join(opening, opening->path, entry->name);
	struct fsdp_source source;
	opening->checkpoint->opened = path;
	if (entry->kind != FSDP_ENTRY_FILE) {
		enter_folder(opening, entry->name);
		return;
	}
	opening->entered = entry->name;
	fsdp_opening_must(
		opening, (fsdp_folder_source(&opening->checkpoint->folder, entry->name,
				  &source, &opening->error) &&
				 fsdp_opening_set_source(opening, source, entry->name)) ||
				 fsdp_error_add_path(&opening->error, path));
}

/* The target of a directory that only leads to another, step by step. */
static void follow_lead(struct opening *opening)
{
	struct fsdp_folder *folder = &opening->checkpoint->folder;
	const struct fsdp_family *family =
		opening->look.folder != NULL ? fsdp_registry_lead(folder) : NULL;
	struct fsdp_lead lead;
	if (family == NULL)
		return;
	fsdp_opening_must(opening,
		family->leads_to(&opening->reading, folder, &lead, &opening->error));
	fsdp_reading_note(&opening->reading, "opened %s of the %s %s, %s",
		(const char *)lead.path.data, family->title, opening->path, lead.why);
	while (lead.path.size != 0) {
		struct fsdp_span first = fsdp_span_first(lead.path, '/');
		enter_folder(
			opening, fsdp_arena_copy(&opening->checkpoint->arena, first));
		first.size += first.size != lead.path.size;
		lead.path = fsdp_span(
			lead.path.data + first.size, lead.path.size - first.size);
	}
}

/* What could be meant one level down. Of checkpoints that can only be named the first one
 * is as good as all. */
static void list_below(struct opening *opening, struct fsdp_candidates *ret_folders,
	struct fsdp_candidates *ret_files)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_candidates foreign = { .count = 0 }, unread = { .count = 0 };
	const struct fsdp_family *refused;
	bool is_unread;
	ret_folders->is_cut = checkpoint->folder.count > PEEK_MOST;
	fsdp_folder_expect_children(&checkpoint->folder, PEEK_MOST);
	for (size_t i = 0; i < checkpoint->folder.count && i < PEEK_MOST; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(&checkpoint->folder, i);
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			bids_on_child(opening, &entry, &refused)) {
			if (refused == NULL)
				fsdp_candidates_add(ret_folders, &entry);
			else if (foreign.count == 0 ||
				 refused->is_unfinished(foreign.last.name)) {
				foreign = (struct fsdp_candidates){ .count = 0 };
				fsdp_candidates_add(&foreign, &entry);
			}
		} else if (entry.kind == FSDP_ENTRY_FILE &&
			   checkpoint->folder.count <= PEEK_FILES &&
			   (bids_on_file(opening, &entry, &is_unread) || is_unread))
			fsdp_candidates_add(is_unread ? &unread : ret_files, &entry);
	}
	if (ret_folders->count == 0 && ret_files->count == 0)
		*ret_folders = foreign;
	/* Opening it reports why it cannot be read. */
	if (ret_folders->count == 0 && ret_files->count == 0)
		*ret_files = unread;
}

/* Whether a path of a checkpoint below leads through this entry of the directory. */
static bool leads_through(
	const struct opening *opening, const char *path, struct fsdp_span entry)
{
	size_t above = strlen(opening->folder_path);
	if (strncmp(path, opening->folder_path, above) != 0)
		return false;
	path += above + strspn(path + above, "/");
	return strncmp(path, (const char *)entry.data, entry.size) == 0 &&
	       (path[entry.size] == '/' || path[entry.size] == '\0');
}

/* One entry does not represent a directory with checkpoints elsewhere below it. */
static bool has_others_below(
	const struct opening *opening, const struct fsdp_entry *entry)
{
	struct fsdp_discover *below;
	bool more = false;
	if (opening->checkpoint->folder.dir == NULL ||
		!fsdp_discover_new(opening->folder_path, opening->options, &below, NULL))
		return false;
	for (size_t i = 0; i < fsdp_discover_count(below) && !more; i++)
		more = !leads_through(opening, fsdp_discover_path(below, i), entry->name);
	fsdp_discover_free(below);
	return more;
}

/* One level down, if nothing is here and exactly one thing is there. */
static void search_below(struct opening *opening)
{
	struct fsdp_candidates folders = { .count = 0 }, files = { .count = 0 };
	if (opening->look.folder == NULL)
		return;
	follow_lead(opening);
	if (fsdp_registry_choose(&opening->look) != NULL)
		return;
	list_below(opening, &folders, &files);
	const struct fsdp_candidates *found = folders.count != 0 ? &folders : &files;
	bool dumps = fsdp_foreign_has_dumps(&opening->look);
	const char *what = folders.count > 1  ? "checkpoints"
			   : found->count > 1 ? "separate checkpoints; name one of them"
			   : found->count != 0 && has_others_below(opening, &found->last)
				   ? "checkpoint next to directories of others"
				   : NULL;
	if (dumps && folders.count <= 1)
		fsdp_opening_must(opening, fsdp_foreign(&opening->look, &opening->error));
	if (what != NULL)
		fsdp_opening_must(
			opening, fsdp_candidates_fail(found, what, &opening->error));
	if (found->count == 0)
		return;
	enter(opening, &found->last);
	follow_lead(opening);
}

void fsdp_opening_enter(struct opening *opening)
{
	/* The only file of a directory may be a tar. */
	unwrap(opening);
	search_below(opening);
	unwrap(opening);
}
