/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the checkpoints below a directory, level by level, without opening any of them;
 * and what was saved in the directory of a run.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/checkpoint.h>

#include "checkpoint/opening.h"
#include "syntax/json-tree.h"

/*
 * The search below a directory. Directories are
 * searched in order; those found on the way are appended to the list.
 */
enum { FSDP_BELOW_LEVELS = 3, FSDP_BELOW_SMALL = 64, PIPELINE_BYTES = 1 << 16 };
#define PIPELINE "model_index.json"

/* A directory that is still to be searched. */
struct fsdp_discover_place {
	const char *path;
	unsigned level; /* the named directory has 0 */
	bool is_part; /* a pipeline of diffusers lists it, and the files around its weights */
	bool is_named; /* by its epoch: a checkpoint, if it contains no steps. Not the named
			 * directory: a run may be called sft_ba512 */
};

struct fsdp_discover_found {
	const char *path;
	struct fsdp_step_name step;
	/* A file that no other file of its directory concerns, except this plan (or
	 * NULL). */
	bool is_lone;
	const char *plan;
};

struct fsdp_discover {
	struct fsdp_budget budget;
	struct fsdp_limits limits;
	struct fsdp_remote *remote;
	struct fsdp_arena arena;
	struct fsdp_vec places;   /* struct fsdp_discover_place */
	struct fsdp_vec deep;     /* those too deep for a run, which is not known empty */
	struct fsdp_vec found;    /* struct fsdp_discover_found */
	struct fsdp_vec pointers; /* struct fsdp_tracker */
	struct fsdp_vec parts;    /* struct fsdp_discover_part */
	uint64_t seen, most;      /* entries */
	uint64_t unread;          /* directories and files that could not be opened */
	uint64_t others;          /* entries in no directory of a checkpoint */
	const char *first_other;
	const char *plan;    /* the only one of the directory that is searched */
	const char *unclear; /* the first entry that may be a part of a save */
	bool is_run;         /* what is named by its step counts, and pointers */
	bool is_cut, failed;
};

/* ---- Places still to be looked at, and what was found ---- */

/* "directory/name". NULL: out of memory, which is remembered. */
static const char *below_join(
	struct fsdp_discover *below, const char *folder, struct fsdp_span name)
{
	size_t size = strlen(folder), slash = size > 0 && folder[size - 1] != '/';
	char *path = fsdp_arena_take(&below->arena, size + slash + name.size + 1, 1);
	if (path == NULL) {
		below->failed = true;
		return NULL;
	}
	memcpy(path, folder, size);
	if (slash != 0)
		path[size] = '/';
	memcpy(path + size + slash, name.data, name.size);
	path[size + slash + name.size] = '\0';
	return path;
}

/* What could not be looked at is counted, unless memory is all that was missing. Takes
 * the error. */
static void below_pass_over(struct fsdp_discover *below, struct fsdp_error *error)
{
	below->failed |= error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	below->unread++;
	fsdp_error_free(error);
}

/* A name with "rank" in it may be one of a set, and another may represent its directory.
 */
static bool is_lone(struct fsdp_span name)
{
	return memmem(name.data, name.size, "rank", 4) == NULL &&
	       !fsdp_registry_may_anchor(name);
}

/* Adds a result, or a directory to search; a path that is NULL is out of memory. */
static void below_add(struct fsdp_discover *below, const char *path, bool is_file)
{
	struct fsdp_discover_found *found =
		path != NULL ? fsdp_vec_push(&below->found) : NULL;
	below->failed |= found == NULL;
	if (found == NULL)
		return;
	found->path = path;
	found->is_lone = is_file && is_lone(fsdp_span_last(fsdp_span_text(path), '/'));
	found->plan = below->plan;
	fsdp_step_name(fsdp_span_last(fsdp_span_text(path), '/'), &found->step);
}

static void below_add_place(struct fsdp_discover *below, struct fsdp_discover_place place)
{
	bool is_deep = place.level > FSDP_BELOW_LEVELS;
	if (place.path == NULL ||
		!fsdp_vec_add(is_deep ? &below->deep : &below->places, &place))
		below->failed = true;
	else if (!is_deep && !below->is_cut)
		fsdp_remote_expect_directory(below->remote, place.path, false);
}

/* Whether the directory is a checkpoint, or only leads to one; by its names. */
static bool below_is_checkpoint(const struct fsdp_folder *folder, const char *path)
{
	struct fsdp_look look = { .folder = folder, .typed = fsdp_span_text(path) };
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	return (family != NULL && !family->is_refused) ||
	       fsdp_registry_lead(folder) != NULL;
}

/* Whether the file holds tensors, and is not a plan, a bare pickle or something to
 * refuse: by its first bytes. */
static bool below_is_file(struct fsdp_discover *below, const struct fsdp_folder *folder,
	const struct fsdp_entry *entry)
{
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	struct fsdp_look look;
	if (entry->size == 0 || fsdp_plan_has_name(entry->name))
		return false;
	if (!fsdp_folder_source(folder, entry->name, &source, &error) ||
		!fsdp_look_at_head(&source, entry->name, head, &look, &error)) {
		below_pass_over(below, error);
		return false;
	}
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	return family != NULL && !family->is_refused && !family->is_beside &&
	       strcmp(family->name, "pickle") != 0;
}

/* Whether the file is of a format that is recognized and not read. */
static bool below_is_refused(
	const struct fsdp_folder *folder, const struct fsdp_entry *entry)
{
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	struct fsdp_look look;
	bool is_refused = !fsdp_folder_source(folder, entry->name, &source, &error) ||
			  !fsdp_look_at_head(&source, entry->name, head, &look, &error);
	if (!is_refused && fsdp_registry_choose(&look) == NULL) {
		fsdp_foreign(&look, &error);
		is_refused = fsdp_error_rule(error) != NULL &&
			     strcmp(fsdp_error_rule(error), "FI9002") == 0;
	}
	fsdp_error_free(error);
	return is_refused;
}

/* ---- The directory of a run: names of steps, and of files and links that name the
 * newest ---- */

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

static bool read_pointer(struct fsdp_discover *below,
	const struct fsdp_discover_place *place, const struct fsdp_folder *folder,
	const struct fsdp_entry *entry)
{
	struct fsdp_span pointed = { 0 };
	char target[PATH_MAX] = "";
	if (is_pointer_link(entry->name) &&
		fsdp_dir_link(folder->dir, entry->name, target, sizeof target)) {
		pointed = fsdp_arena_copy(&below->arena, fsdp_span_text(target));
		below->failed |= pointed.data == NULL;
	} else if (entry->kind == FSDP_ENTRY_FILE && is_pointer_file(entry->name)) {
		struct fsdp_source source;
		struct fsdp_error *error = NULL;
		if (!fsdp_folder_source(folder, entry->name, &source, &error))
			below_pass_over(below, error);
		else if (source.size <= POINTER_BYTES &&
			 !fsdp_source_read_all(&source, 0, source.size, &below->arena,
				 &pointed, &error))
			below_pass_over(below, error);
	}
	if (pointed.data != NULL)
		pointed = trim(pointed);
	if (pointed.data == NULL)
		return false;
	struct fsdp_tracker *pointer = fsdp_vec_push(&below->pointers);
	below->failed |= pointer == NULL;
	if (pointer == NULL)
		return false;
	pointer->target = pointed;
	pointer->path = below_join(below, place->path, entry->name);
	pointer->leads =
		target[0] != '\0' && (entry->kind == FSDP_ENTRY_FILE ||
					     entry->kind == FSDP_ENTRY_LINK_DIRECTORY);
	return true;
}

static bool has_suffix(struct fsdp_span name)
{
	return fsdp_span_ends_any(name, ".ckpt .pt .pth .bin .safetensors .pth.tar");
}

/* A directory or file with a step in its name, or a file with an epoch. */
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
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (is_step(&entry))
			return true;
	}
	return false;
}

/* A program that writes one file per rank writes several of one step. */
static bool is_other_rank(
	const struct fsdp_discover *below, const struct fsdp_entry *entry)
{
	struct fsdp_step_name step;
	const struct fsdp_discover_found *last;
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

/* An entry that is neither checkpoint nor pointer, but may be the rest of a save or
 * contain a checkpoint. Pictures and logs have steps in their names too. */
static bool is_unclear(const struct fsdp_folder *folder, const struct fsdp_entry *entry)
{
	bool is_hidden = entry->name.data[0] == '.';
	struct fsdp_span name = entry->name;
	struct fsdp_step_name step;
	if (is_hidden)
		name = fsdp_span(name.data + 1, name.size - 1);
	bool has_step = fsdp_step_name(name, &step);
	if (step.is_unfinished)
		return true;
	if (is_hidden)
		return (has_step && entry->kind == FSDP_ENTRY_DIRECTORY) ||
		       fsdp_span_begins(name, FSDP_SPAN("metadata"));
	if (entry->kind == FSDP_ENTRY_FILE)
		return (has_step && has_word(name)) || has_suffix(name) ||
		       is_pointer_file(name) || fsdp_registry_is_data(name) ||
		       (folder->count <= FSDP_BELOW_SMALL &&
			       below_is_refused(folder, entry));
	return entry->kind == FSDP_ENTRY_LINK_OUTSIDE ||
	       entry->kind == FSDP_ENTRY_LINK_BROKEN;
}

static void find_unclear(struct fsdp_discover *below,
	const struct fsdp_discover_place *place, const struct fsdp_folder *folder,
	const struct fsdp_entry *entry)
{
	if (below->unclear == NULL && below->found.count == 0 &&
		is_unclear(folder, entry))
		below->unclear = below_join(below, place->path, entry->name);
}

/* An entry without a step counts only if the directory is not a checkpoint itself, which
 * would contain it. */
static void look_at_saved(struct fsdp_discover *below,
	const struct fsdp_discover_place *place, const struct fsdp_folder *folder,
	bool is_own)
{
	for (size_t i = 0; i < folder->count && !below->failed; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		struct fsdp_step_name step;
		bool is_hidden = entry.name.data[0] == '.';
		if (!is_hidden && (read_pointer(below, place, folder, &entry) ||
					  is_other_rank(below, &entry)))
			continue;
		if (!is_hidden && is_step(&entry))
			below_add(below, below_join(below, place->path, entry.name),
				entry.kind == FSDP_ENTRY_FILE);
		else if (!is_hidden && !is_own && entry.kind == FSDP_ENTRY_DIRECTORY)
			below_add_place(below,
				(struct fsdp_discover_place){
					below_join(below, place->path, entry.name),
					place->level + 1,
					.is_named = fsdp_step_name(entry.name, &step) });
		else if (!is_hidden && !is_own && entry.kind == FSDP_ENTRY_FILE &&
			 folder->count <= FSDP_BELOW_SMALL &&
			 below_is_file(below, folder, &entry))
			below_add(
				below, below_join(below, place->path, entry.name), true);
		find_unclear(below, place, folder, &entry);
	}
}

/* ---- Level by level ---- */

/* Whether it only names the newest checkpoint. */
static bool is_pointer(const struct fsdp_folder *folder, const struct fsdp_entry *entry)
{
	struct fsdp_source source;
	return entry->kind == FSDP_ENTRY_FILE
		       ? is_pointer_file(entry->name) &&
				 fsdp_folder_source(folder, entry->name, &source, NULL) &&
				 source.size <= POINTER_BYTES
		       : entry->kind == FSDP_ENTRY_LINK_DIRECTORY &&
				 is_pointer_link(entry->name);
}

/* Parts that a pipeline lists by their library and class; a part that is null is not
 * needed. */
static bool list_parts(struct fsdp_discover *below,
	const struct fsdp_discover_place *place, const struct fsdp_folder *folder)
{
	const struct fsdp_json *root = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_source source;
	struct fsdp_span bytes;
	if (!fsdp_folder_has(folder, PIPELINE, FSDP_ENTRY_FILE))
		return false;
	if (!fsdp_folder_source(folder, FSDP_SPAN(PIPELINE), &source, &error) ||
		source.size > PIPELINE_BYTES ||
		!fsdp_source_read_all(
			&source, 0, source.size, &below->arena, &bytes, &error) ||
		!fsdp_json_read(bytes, &below->limits, &below->arena, &root, &error))
		fsdp_error_free(error);
	for (uint32_t i = 0; fsdp_json_is(root, FSDP_JSON_OBJECT) && i < root->count;
		i++) {
		const struct fsdp_json *of = &root->items[i];
		if (!fsdp_json_is(of, FSDP_JSON_ARRAY) || of->count != 2 ||
			!fsdp_json_is(&of->items[0], FSDP_JSON_TEXT) ||
			!fsdp_json_is(&of->items[1], FSDP_JSON_TEXT))
			continue;
		struct fsdp_discover_part *part = fsdp_vec_push(&below->parts);
		below->failed |= part == NULL;
		if (part != NULL)
			*part = (struct fsdp_discover_part){
				below_join(below, place->path, of->key),
				(const char *)of->items[1].text.data,
				fsdp_folder_has(folder, (const char *)of->key.data,
					FSDP_ENTRY_DIRECTORY),
				!fsdp_span_is_any(of->items[0].text,
					"diffusers transformers stable_diffusion") ||
					fsdp_span_begins(
						of->items[1].text, FSDP_SPAN("Flax")) ||
					fsdp_span_begins(
						of->items[1].text, FSDP_SPAN("Onnx")) ||
					fsdp_span_ends_any(of->items[1].text,
						"Scheduler Tokenizer TokenizerFast Extractor Processor Guider"),
			};
	}
	return root != NULL;
}

/* Whether weights were found under one of the names that are loaded without further
 * words. */
static bool has_weights(const struct fsdp_discover *below, const char *path)
{
	size_t size = strlen(path);
	FSDP_EACH(i, below->found.count, found, fsdp_discover_path(below, i))
		if (strncmp(found, path, size) == 0 &&
			(found[size] == '\0' ||
				(found[size] == '/' &&
					fsdp_span_is_any(fsdp_span_text(found + size + 1),
						"diffusion_pytorch_model.safetensors diffusion_pytorch_model.bin "
						"model.safetensors pytorch_model.bin"))))
			return true;
	return false;
}

/* Whether its configuration is not that of a model, whatever its class is called. */
static bool is_no_model(struct fsdp_discover *below, const char *path)
{
	static const char *const names[] = { "config.json", "tokenizer_config.json",
		"preprocessor_config.json", "processor_config.json",
		"scheduler_config.json" };
	FSDP_EACH(i, FSDP_COUNT(names), file,
		below_join(below, path, fsdp_span_text(names[i])))
		if (file != NULL && fsdp_path_exists(below->remote, file))
			return i > 0;
	return false;
}

static void look_at_entries(struct fsdp_discover *below,
	const struct fsdp_discover_place *place, const struct fsdp_folder *folder)
{
	/* Of sentence-transformers, too. */
	bool is_part = place->is_part || list_parts(below, place, folder) ||
		       fsdp_folder_has(folder, "modules.json", FSDP_ENTRY_FILE);
	/* The hub's cache has the files, by their digests, next to directories of links.
	 */
	bool is_cache = fsdp_folder_has(folder, "snapshots", FSDP_ENTRY_DIRECTORY);
	for (size_t i = 0; i < folder->count && !below->failed; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		bool is_hidden = entry.name.data[0] == '.';
		bool is_folder = entry.kind == FSDP_ENTRY_DIRECTORY && !is_hidden &&
				 place->level < FSDP_BELOW_LEVELS;
		bool is_file = !is_hidden && entry.kind == FSDP_ENTRY_FILE &&
			       !(is_cache && fsdp_span_is(entry.name, "blobs")) &&
			       folder->count <= FSDP_BELOW_SMALL &&
			       below_is_file(below, folder, &entry);
		struct fsdp_span end = fsdp_span_last(entry.name, '.');
		/* Of programs: no loader reads one as a checkpoint. */
		bool is_text =
			entry.kind == FSDP_ENTRY_FILE && end.size < entry.name.size &&
			fsdp_span_is_any(end,
				"csv err json jsonl log md out py sh txt yaml yml") &&
			!fsdp_span_ends(entry.name, FSDP_SPAN(".index.json"));
		if (!is_folder && !is_text && !is_pointer(folder, &entry) &&
			(!is_part || (!is_file && has_suffix(entry.name))) &&
			below->others++ == 0)
			below->first_other = below_join(below, place->path, entry.name);
		if (is_file)
			below_add(
				below, below_join(below, place->path, entry.name), true);
		if (!is_folder || (is_cache && fsdp_span_is(entry.name, "blobs")))
			continue;
		below_add_place(below, (struct fsdp_discover_place){
					       below_join(below, place->path, entry.name),
					       place->level + 1, .is_part = is_part });
	}
}

/* ---- all of it ---- */

static void look_at_folder(struct fsdp_discover *below,
	const struct fsdp_discover_place *place, const struct fsdp_folder *folder)
{
	below->seen += folder->count;
	/* The plan of a file in this directory; none if it has several. */
	struct fsdp_span plan = { 0 };
	size_t count = 0;

	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.kind == FSDP_ENTRY_FILE && fsdp_plan_has_name(entry.name)) {
			plan = entry.name;
			count++;
		}
	}
	below->plan = count == 1 ? below_join(below, place->path, plan) : NULL;
	/* The names of the first directory were read: the search ends below it. */
	below->is_cut = below->most != 0 && below->seen > below->most;
	if (below->is_cut && place->level > 0)
		return;
	if (place->level > FSDP_BELOW_LEVELS) {
		/* Looks in one that is too deep for what a step may be called. */
		if (below_is_checkpoint(folder, place->path))
			below->unclear = place->path;
		for (size_t i = 0;
			i < folder->count && !below->failed && below->unclear == NULL;
			i++) {
			struct fsdp_entry entry = fsdp_folder_entry(folder, i);

			find_unclear(below, place, folder, &entry);
			if (is_step(&entry))
				below->unclear =
					below_join(below, place->path, entry.name);
			else if (entry.kind == FSDP_ENTRY_DIRECTORY &&
				 entry.name.data[0] != '.')
				below_add_place(
					below, (struct fsdp_discover_place){
						       below_join(below, place->path,
							       entry.name),
						       place->level + 1 });
		}
	} else if (below->is_run) {
		/* discover.c: searches one directory of a run. */
		bool is_own = below_is_checkpoint(folder, place->path),
		     steps = has_steps(folder);
		if (!steps && (is_own || place->is_named))
			below_add(below, place->path, false);
		else
			look_at_saved(below, place, folder, is_own);
	} else if (place->level > 0 && below_is_checkpoint(folder, place->path))
		below_add(below, place->path, false);
	else
		look_at_entries(below, place, folder);
}

static void look_at_place(struct fsdp_discover *below, struct fsdp_discover_place place)
{
	struct fsdp_error *error = NULL;
	struct fsdp_arena own;
	struct fsdp_folder folder;
	struct fsdp_dir dir;
	fsdp_arena_init(&own, &below->budget);
	if (fsdp_dir_open_names(
		    below->remote, place.path, &own, &below->limits, &dir, &error)) {
		fsdp_folder_of_dir(&folder, &dir);
		look_at_folder(below, &place, &folder);
		fsdp_dir_close(&dir);
	} else {
		below_pass_over(below, error);
	}
	fsdp_arena_done(&own);
}

static bool begin(struct fsdp_discover *below, const struct fsdp_options *options,
	struct fsdp_error **ret_error)
{
	fsdp_arena_init(&below->arena, &below->budget);
	fsdp_vec_init(&below->places, &below->arena, sizeof(struct fsdp_discover_place));
	fsdp_vec_init(&below->deep, &below->arena, sizeof(struct fsdp_discover_place));
	fsdp_vec_init(&below->found, &below->arena, sizeof(struct fsdp_discover_found));
	fsdp_vec_init(&below->pointers, &below->arena, sizeof(struct fsdp_tracker));
	fsdp_vec_init(&below->parts, &below->arena, sizeof(struct fsdp_discover_part));
	if (!fsdp_limits_choose(&below->limits, options != NULL ? options->limits : NULL,
		    options != NULL ? options->limit_count : 0, ret_error))
		return false;
	fsdp_budget_init(&below->budget, &below->limits);
	below->remote = options != NULL ? options->remote : NULL;
	below->most = fsdp_limit(&below->limits, FSDP_LIMIT_BELOW);
	return true;
}

static bool look(const char *path, bool is_run, const struct fsdp_options *options,
	struct fsdp_discover **ret_below, struct fsdp_error **ret_error)
{
	struct fsdp_discover *below = calloc(1, sizeof *below);
	struct fsdp_step_name step;
	if (below == NULL)
		return fsdp_fail_memory(ret_error);
	if (!begin(below, options, ret_error)) {
		fsdp_discover_free(below);
		return false;
	}
	below->is_run = is_run;
	below_add_place(below, (struct fsdp_discover_place){ path });
	for (size_t i = 0; i < below->places.count && !below->failed && !below->is_cut;
		i++)
		look_at_place(below,
			*(struct fsdp_discover_place *)fsdp_vec_at(&below->places, i));
	if (is_run && below->found.count == 0 &&
		fsdp_step_name(fsdp_span_last(fsdp_span_text(path), '/'), &step))
		below_add(below, path, false);
	for (size_t i = 0; i < below->deep.count && below->found.count == 0 &&
			   below->unclear == NULL && !below->failed && !below->is_cut;
		i++)
		look_at_place(below,
			*(struct fsdp_discover_place *)fsdp_vec_at(&below->deep, i));
	/* Of the parts that pipelines list, keeps those that cannot be loaded. */
	size_t kept = 0;

	FSDP_ITEMS(struct fsdp_discover_part, part, &below->parts)
		if (!part->is_there ||
			!(part->has_no_weights || has_weights(below, part->path) ||
				is_no_model(below, part->path)))
			*(struct fsdp_discover_part *)fsdp_vec_at(&below->parts, kept++) =
				*part;
	fsdp_vec_truncate(&below->parts, kept);
	if (below->failed) {
		fsdp_arena_fail(&below->arena, ret_error);
		fsdp_discover_free(below);
		return false;
	}
	*ret_below = below;
	return true;
}

bool fsdp_discover_new(const char *path, const struct fsdp_options *options,
	struct fsdp_discover **ret_below, struct fsdp_error **ret_error)
{
	return look(path, false, options, ret_below, ret_error);
}

bool fsdp_discover_new_run(const char *path, const struct fsdp_options *options,
	struct fsdp_discover **ret_below, struct fsdp_error **ret_error)
{
	return look(path, true, options, ret_below, ret_error);
}

size_t fsdp_discover_count(const struct fsdp_discover *below)
{
	return below->found.count;
}

const char *fsdp_discover_path(const struct fsdp_discover *below, size_t index)
{
	return index < below->found.count
		       ? ((const struct fsdp_discover_found *)fsdp_vec_at(
				  &below->found, index))
				 ->path
		       : NULL;
}

struct fsdp_step_name fsdp_discover_step(const struct fsdp_discover *below, size_t index)
{
	return index < below->found.count
		       ? ((const struct fsdp_discover_found *)fsdp_vec_at(
				  &below->found, index))
				 ->step
		       : (struct fsdp_step_name){ .step = -1, .epoch = -1 };
}

bool fsdp_discover_is_lone(
	const struct fsdp_discover *below, size_t index, const char **ret_plan)
{
	const struct fsdp_discover_found *found =
		index < below->found.count ? fsdp_vec_at(&below->found, index) : NULL;
	*ret_plan = found != NULL ? found->plan : NULL;
	return found != NULL && found->is_lone;
}

const char *fsdp_discover_unclear(const struct fsdp_discover *below)
{
	return below->unclear;
}

struct fsdp_tracker fsdp_discover_tracker(const struct fsdp_discover *below, size_t index)
{
	return index < below->pointers.count ? *(const struct fsdp_tracker *)fsdp_vec_at(
						       &below->pointers, index)
					     : (struct fsdp_tracker){ 0 };
}

const struct fsdp_discover_part *fsdp_discover_lacking(
	const struct fsdp_discover *below, size_t index)
{
	return index < below->parts.count ? fsdp_vec_at(&below->parts, index) : NULL;
}

bool fsdp_discover_limit_reached(const struct fsdp_discover *below)
{
	return below->is_cut;
}

uint64_t fsdp_discover_others(const struct fsdp_discover *below, const char **ret_first)
{
	*ret_first = below->first_other != NULL ? below->first_other : "";
	return below->others;
}

uint64_t fsdp_discover_unread(const struct fsdp_discover *below)
{
	return below->unread;
}

void fsdp_discover_free(struct fsdp_discover *below)
{
	if (below == NULL)
		return;
	fsdp_arena_done(&below->arena);
	free(below);
}
