/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what was saved in the folder of a run, by names: of steps, and of files and links
 * that name the newest of them.
 */
#include <limits.h>
#include <string.h>

#include "below-private.h"

enum { POINTER_BYTES = 256 };

/* Files that programs read to find the newest checkpoint. */
static bool is_pointer_file(struct fsdp_span name)
{
	static const char *const NAMES[] = { "latest", "latest_universal",
		"latest_checkpointed_iteration.txt", "latest_checkpoint",
		"latest_checkpoint.txt", "latest.txt", "last_checkpoint" };

	for (size_t i = 0; i < FSDP_COUNT(NAMES); i++)
		if (strcasecmp((const char *)name.data, NAMES[i]) == 0)
			return true;
	return false;
}

static bool is_pointer_link(struct fsdp_span name)
{
	return strncasecmp((const char *)name.data, "latest", 6) == 0 ||
	       strncasecmp((const char *)name.data, "last", 4) == 0;
}

/* The last component of a path without the blanks around it; absent: it is none. */
static struct fsdp_span trim(struct fsdp_span text)
{
	while (text.size != 0 && memchr(" \t\r\n/", text.data[text.size - 1], 5) != NULL)
		text.size--;
	while (text.size != 0 && memchr(" \t", text.data[0], 2) != NULL)
		text = fsdp_span(text.data + 1, text.size - 1);
	text = fsdp_span_last(text, '/');
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] < 0x20)
			return (struct fsdp_span){ 0 };
	return text.size != 0 ? text : (struct fsdp_span){ 0 };
}

static void read_pointer(struct fsdp_below *below, const struct fsdp_folder *folder,
	struct fsdp_span name, struct fsdp_span *ret_says)
{
	struct fsdp_source source;
	struct fsdp_error *error = NULL;

	if (!fsdp_folder_source(folder, name, &source, &error))
		fsdp_below_pass_over(below, error);
	else if (source.size <= POINTER_BYTES &&
		 !fsdp_source_read_all(
			 &source, 0, source.size, &below->arena, ret_says, &error))
		fsdp_below_pass_over(below, error);
}

static bool take_pointer(struct fsdp_below *below, const struct fsdp_below_place *place,
	const struct fsdp_folder *folder, const struct fsdp_entry *entry)
{
	struct fsdp_span says = { 0 };
	struct fsdp_pointer *pointer;
	char target[PATH_MAX] = "";

	if (is_pointer_link(entry->name) &&
		fsdp_dir_link(folder->dir, entry->name, target, sizeof target)) {
		says = fsdp_arena_copy(&below->arena, fsdp_span_text(target));
		below->failed |= says.data == NULL;
	} else if (entry->kind == FSDP_ENTRY_FILE && is_pointer_file(entry->name)) {
		read_pointer(below, folder, entry->name, &says);
	}
	if (says.data != NULL)
		says = trim(says);
	if (says.data == NULL)
		return false;
	pointer = fsdp_vec_push(&below->pointers);
	below->failed |= pointer == NULL;
	if (pointer == NULL)
		return false;
	pointer->says = says;
	pointer->path = fsdp_below_join(below, place->path, entry->name);
	pointer->leads =
		target[0] != '\0' && (entry->kind == FSDP_ENTRY_FILE ||
					     entry->kind == FSDP_ENTRY_LINK_DIRECTORY);
	return true;
}

static bool has_suffix(struct fsdp_span name)
{
	static const char *const SUFFIXES[] = { ".ckpt", ".pt", ".pth", ".bin",
		".safetensors", ".pth.tar" };

	for (size_t i = 0; i < FSDP_COUNT(SUFFIXES); i++)
		if (fsdp_span_ends(name, fsdp_span_text(SUFFIXES[i])))
			return true;
	return false;
}

/* A folder or file that is named by its step, or a file by its epoch. */
static bool is_step(const struct fsdp_entry *entry)
{
	struct fsdp_step_name step;

	if (entry->name.data[0] == '.' || !fsdp_step_name(entry->name, &step))
		return false;
	return entry->kind == FSDP_ENTRY_DIRECTORY
		       ? step.step >= 0
		       : entry->kind == FSDP_ENTRY_FILE && has_suffix(entry->name);
}

static bool has_steps(const struct fsdp_folder *folder)
{
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);

		if (is_step(&entry))
			return true;
	}
	return false;
}

/* A program that writes a file for each rank writes several of one step. */
static bool is_other_rank(const struct fsdp_below *below, const struct fsdp_entry *entry)
{
	struct fsdp_step_name step;
	const struct fsdp_below_found *last;

	if (entry->kind != FSDP_ENTRY_FILE || below->found.count == 0 ||
		memmem(entry->name.data, entry->name.size, "rank", 4) == NULL)
		return false;
	last = fsdp_vec_at(&below->found, below->found.count - 1);
	fsdp_step_name(entry->name, &step);
	return strstr(last->path, "rank") != NULL && last->step.step == step.step &&
	       last->step.epoch == step.epoch;
}

static bool has_word(struct fsdp_span name)
{
	static const char *const WORDS[] = { "ckpt", "checkpoint", "model", "weights" };

	for (size_t i = 0; i < FSDP_COUNT(WORDS); i++)
		if (strcasestr((const char *)name.data, WORDS[i]) != NULL)
			return true;
	return false;
}

/* An entry that is no checkpoint and no pointer, but may be what a save left or contain a
 * checkpoint. Pictures and logs have steps in their names too. */
static bool is_unclear(const struct fsdp_folder *folder, const struct fsdp_entry *entry)
{
	bool is_hidden = entry->name.data[0] == '.';
	struct fsdp_span name = entry->name;
	struct fsdp_step_name step;
	bool has_step;

	if (is_hidden)
		name = fsdp_span(name.data + 1, name.size - 1);
	has_step = fsdp_step_name(name, &step);
	if (step.is_unfinished)
		return true;
	if (is_hidden)
		return (has_step && entry->kind == FSDP_ENTRY_DIRECTORY) ||
		       fsdp_span_begins(name, FSDP_SPAN("metadata"));
	if (entry->kind == FSDP_ENTRY_FILE)
		return (has_step && has_word(name)) || has_suffix(name) ||
		       is_pointer_file(name) || fsdp_registry_is_data(name) ||
		       (folder->count <= FSDP_BELOW_SMALL &&
			       fsdp_below_is_refused(folder, entry));
	return entry->kind == FSDP_ENTRY_LINK_OUTSIDE ||
	       entry->kind == FSDP_ENTRY_LINK_BROKEN;
}

static void find_unclear(struct fsdp_below *below, const struct fsdp_below_place *place,
	const struct fsdp_folder *folder, const struct fsdp_entry *entry)
{
	if (below->unclear == NULL && below->found.count == 0 &&
		is_unclear(folder, entry))
		below->unclear = fsdp_below_join(below, place->path, entry->name);
}

/* What is not a step counts only where the folder is not a checkpoint itself, of which it would
 * be a part. */
static void look_at_saved(struct fsdp_below *below, const struct fsdp_below_place *place,
	const struct fsdp_folder *folder, bool is_own)
{
	for (size_t i = 0; i < folder->count && !below->failed; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		struct fsdp_step_name step;
		bool is_hidden = entry.name.data[0] == '.';

		if (!is_hidden && (take_pointer(below, place, folder, &entry) ||
					  is_other_rank(below, &entry)))
			continue;
		if (!is_hidden && is_step(&entry))
			fsdp_below_add(below,
				fsdp_below_join(below, place->path, entry.name),
				entry.kind == FSDP_ENTRY_FILE);
		else if (!is_hidden && !is_own && entry.kind == FSDP_ENTRY_DIRECTORY)
			fsdp_below_add_place(below,
				fsdp_below_join(below, place->path, entry.name),
				place->level + 1, fsdp_step_name(entry.name, &step));
		else if (!is_hidden && !is_own && entry.kind == FSDP_ENTRY_FILE &&
			 folder->count <= FSDP_BELOW_SMALL &&
			 fsdp_below_is_file(below, folder, &entry))
			fsdp_below_add(below,
				fsdp_below_join(below, place->path, entry.name), true);
		find_unclear(below, place, folder, &entry);
	}
}

void fsdp_below_look_deep(struct fsdp_below *below, const struct fsdp_below_place *place,
	const struct fsdp_folder *folder)
{
	if (fsdp_below_is_checkpoint(folder))
		below->unclear = place->path;
	for (size_t i = 0; i < folder->count && !below->failed && below->unclear == NULL;
		i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);

		find_unclear(below, place, folder, &entry);
		if (is_step(&entry))
			below->unclear = fsdp_below_join(below, place->path, entry.name);
		else if (entry.kind == FSDP_ENTRY_DIRECTORY && entry.name.data[0] != '.')
			fsdp_below_add_place(below,
				fsdp_below_join(below, place->path, entry.name),
				place->level + 1, false);
	}
}

void fsdp_below_look_at_run(struct fsdp_below *below,
	const struct fsdp_below_place *place, const struct fsdp_folder *folder)
{
	bool is_own = fsdp_below_is_checkpoint(folder), steps = has_steps(folder);

	if (!steps && (is_own || place->is_named))
		fsdp_below_add(below, place->path, false);
	else
		look_at_saved(below, place, folder, is_own);
}
