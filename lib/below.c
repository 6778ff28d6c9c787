/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the checkpoints below a folder, level by level, without opening any of them.
 */
#include <stdlib.h>
#include <string.h>

#include "below-private.h"

/* ---- one folder ---- */

static void look_at_entries(struct fsdp_below *below,
	const struct fsdp_below_place *place, const struct fsdp_folder *folder)
{
	/* The hub's cache has the files, by their digests, beside folders of links. */
	bool is_cache = fsdp_folder_has(folder, "snapshots", FSDP_ENTRY_DIRECTORY);

	for (size_t i = 0; i < folder->count && !below->failed; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.name.data[0] == '.' ||
			(is_cache && fsdp_span_is(entry.name, "blobs")))
			continue;
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			place->level < FSDP_BELOW_LEVELS)
			fsdp_below_add_place(below,
				fsdp_below_join(below, place->path, entry.name),
				place->level + 1, false);
		else if (entry.kind == FSDP_ENTRY_FILE &&
			 folder->count <= FSDP_BELOW_SMALL &&
			 fsdp_below_is_file(below, folder, &entry))
			fsdp_below_add(below,
				fsdp_below_join(below, place->path, entry.name), true);
	}
}

/* ---- all of it ---- */

/* The plan of a file in this folder; several are none. */
static void find_plan(struct fsdp_below *below, const struct fsdp_below_place *place,
	const struct fsdp_folder *folder)
{
	struct fsdp_span plan = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);

		if (entry.kind == FSDP_ENTRY_FILE && fsdp_plan_has_name(entry.name)) {
			plan = entry.name;
			count++;
		}
	}
	below->plan = count == 1 ? fsdp_below_join(below, place->path, plan) : NULL;
}

static void look_at_folder(struct fsdp_below *below, const struct fsdp_below_place *place,
	const struct fsdp_folder *folder)
{
	below->seen += folder->count;
	find_plan(below, place, folder);
	if (below->most != 0 && below->seen > below->most)
		below->is_cut = true;
	else if (place->level > FSDP_BELOW_LEVELS)
		fsdp_below_look_deep(below, place, folder);
	else if (below->is_run)
		fsdp_below_look_at_run(below, place, folder);
	else if (place->level > 0 && fsdp_below_is_checkpoint(folder))
		fsdp_below_add(below, place->path, false);
	else
		look_at_entries(below, place, folder);
}

static void look_at_place(struct fsdp_below *below, struct fsdp_below_place place)
{
	struct fsdp_error *error = NULL;
	struct fsdp_arena own;
	struct fsdp_folder folder;
	struct fsdp_dir dir;

	fsdp_arena_init(&own, &below->budget);
	if (fsdp_dir_open_names(place.path, &own, &below->limits, &dir, &error)) {
		fsdp_folder_of_dir(&folder, &dir);
		look_at_folder(below, &place, &folder);
		fsdp_dir_close(&dir);
	} else {
		fsdp_below_pass_over(below, error);
	}
	fsdp_arena_done(&own);
}

static bool begin(struct fsdp_below *below, const struct fsdp_options *options,
	struct fsdp_error **ret_error)
{
	fsdp_arena_init(&below->arena, &below->budget);
	fsdp_vec_init(&below->places, &below->arena, sizeof(struct fsdp_below_place));
	fsdp_vec_init(&below->deep, &below->arena, sizeof(struct fsdp_below_place));
	fsdp_vec_init(&below->found, &below->arena, sizeof(struct fsdp_below_found));
	fsdp_vec_init(&below->pointers, &below->arena, sizeof(struct fsdp_pointer));
	if (!fsdp_limits_choose(&below->limits, options != NULL ? options->limits : NULL,
		    options != NULL ? options->limit_count : 0, ret_error))
		return false;
	fsdp_budget_init(&below->budget, &below->limits);
	below->most = fsdp_limit(&below->limits, FSDP_LIMIT_BELOW);
	return true;
}

static bool look(const char *path, bool is_run, const struct fsdp_options *options,
	struct fsdp_below **ret_below, struct fsdp_error **ret_error)
{
	struct fsdp_below *below = calloc(1, sizeof *below);
	struct fsdp_step_name step;

	if (below == NULL)
		return fsdp_fail_memory(ret_error);
	if (!begin(below, options, ret_error)) {
		fsdp_below_free(below);
		return false;
	}
	below->is_run = is_run;
	fsdp_below_add_place(below, path, 0, false);
	for (size_t i = 0; i < below->places.count && !below->failed && !below->is_cut;
		i++)
		look_at_place(below,
			*(struct fsdp_below_place *)fsdp_vec_at(&below->places, i));
	if (is_run && below->found.count == 0 &&
		fsdp_step_name(fsdp_span_last(fsdp_span_text(path), '/'), &step))
		fsdp_below_add(below, path, false);
	for (size_t i = 0; i < below->deep.count && below->found.count == 0 &&
			   below->unclear == NULL && !below->failed && !below->is_cut;
		i++)
		look_at_place(
			below, *(struct fsdp_below_place *)fsdp_vec_at(&below->deep, i));
	if (below->failed) {
		fsdp_arena_fail(&below->arena, ret_error);
		fsdp_below_free(below);
		return false;
	}
	*ret_below = below;
	return true;
}

bool fsdp_below_new(const char *path, const struct fsdp_options *options,
	struct fsdp_below **ret_below, struct fsdp_error **ret_error)
{
	return look(path, false, options, ret_below, ret_error);
}

bool fsdp_below_new_run(const char *path, const struct fsdp_options *options,
	struct fsdp_below **ret_below, struct fsdp_error **ret_error)
{
	return look(path, true, options, ret_below, ret_error);
}

size_t fsdp_below_count(const struct fsdp_below *below)
{
	return below->found.count;
}

const char *fsdp_below_path(const struct fsdp_below *below, size_t index)
{
	return index < below->found.count ? ((const struct fsdp_below_found *)fsdp_vec_at(
						     &below->found, index))
						    ->path
					  : NULL;
}

struct fsdp_step_name fsdp_below_step(const struct fsdp_below *below, size_t index)
{
	return index < below->found.count
		       ? ((const struct fsdp_below_found *)fsdp_vec_at(
				  &below->found, index))
				 ->step
		       : (struct fsdp_step_name){ .step = -1, .epoch = -1 };
}

bool fsdp_below_is_lone(
	const struct fsdp_below *below, size_t index, const char **ret_plan)
{
	const struct fsdp_below_found *found =
		index < below->found.count ? fsdp_vec_at(&below->found, index) : NULL;

	*ret_plan = found != NULL ? found->plan : NULL;
	return found != NULL && found->is_lone;
}

const char *fsdp_below_unclear(const struct fsdp_below *below)
{
	return below->unclear;
}

struct fsdp_pointer fsdp_below_pointer(const struct fsdp_below *below, size_t index)
{
	return index < below->pointers.count ? *(const struct fsdp_pointer *)fsdp_vec_at(
						       &below->pointers, index)
					     : (struct fsdp_pointer){ 0 };
}

bool fsdp_below_is_cut(const struct fsdp_below *below)
{
	return below->is_cut;
}

uint64_t fsdp_below_unread(const struct fsdp_below *below)
{
	return below->unread;
}

void fsdp_below_free(struct fsdp_below *below)
{
	if (below == NULL)
		return;
	fsdp_arena_done(&below->arena);
	free(below);
}
