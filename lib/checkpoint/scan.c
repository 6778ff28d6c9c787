/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists a directory as loaders do: by names, and each set of weights
 * separately.
 */
#include <fsdp/checkpoint.h>

#include <stdlib.h>
#include <unistd.h>

#include <fsdp/pickle.h>

#include "base/num.h"
#include "formats/format.h"
#include "checkpoint/opening.h"
#include "syntax/json-tree.h"

enum {
	FOLDERS_MAX = 256, /* whose entries are listed; of the others only that they are
			      there */
	PARTS_MAX = 64,    /* that are opened */
	TEXT_BYTES = 4096,
	DOCUMENT_BYTES = 16 << 20,
};

/* A request, and its result. */
struct survey_part {
	const char *name;
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_error *error;
};

struct survey_entry {
	struct fsdp_scan_entry entry;
	struct fsdp_span head;
	bool has_head; /* it was asked for */
};

struct survey_document {
	const char *name;
	struct fsdp_scan_document document;
};

struct survey_pickles {
	const char *name;
	struct fsdp_scan_pickles pickles;
};

struct fsdp_scan {
	const char *path;
	const struct fsdp_limit_setting *limit_settings;
	size_t limit_count;
	struct fsdp_remote *remote;
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_dir dir;
	bool has_dir;
	struct fsdp_vec entries;            /* struct survey_entry */
	struct fsdp_vec parts;              /* struct survey_part */
	struct fsdp_vec documents, pickles; /* of their structs: what was asked for */
	struct fsdp_error *error;           /* the first that says nothing of a file */
	bool failed;
};

/* Whether an error is about a file, or about what kept this program from reading it. */
static bool is_of_file(const struct fsdp_error *error)
{
	enum fsdp_error_code code = fsdp_error_code(error);
	return code != FSDP_ERROR_MEMORY && code != FSDP_ERROR_LIMIT &&
	       !fsdp_error_is_unread(error);
}

/* Keeps the first error. Always false. */
static bool fail_survey(struct fsdp_scan *survey, struct fsdp_error *error)
{
	if (survey->failed)
		fsdp_error_free(error);
	else
		survey->error = error;
	survey->failed = true;
	return false;
}

/* Takes the error of what could not be read. Always false. */
static bool give_up(struct fsdp_scan *survey, struct fsdp_error *error)
{
	if (!is_of_file(error))
		return fail_survey(survey, error);
	fsdp_error_free(error);
	return false;
}

bool fsdp_scan_failed(const struct fsdp_scan *survey, struct fsdp_error **ret_error)
{
	const struct fsdp_error *error = survey->error;
	if (!survey->failed)
		return false;
	if (error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		fsdp_fail_memory(ret_error);
		return true;
	}
	const char *path = fsdp_error_path(error);
	fsdp_fail(ret_error, fsdp_error_code(error), FSDP_UNKNOWN, "%s%s%s",
		path != NULL ? path : "", path != NULL ? ": " : "",
		fsdp_error_message(error));
	return true;
}

/* ---- listing ---- */

/* "directory/name" in the arena; data NULL: out of memory. */
static struct fsdp_span join(
	struct fsdp_scan *survey, struct fsdp_span folder, struct fsdp_span name)
{
	size_t size = folder.size + (folder.size != 0) + name.size;
	char *text = fsdp_arena_take(&survey->arena, size + 1, 1);
	if (text == NULL)
		return (struct fsdp_span){ 0 };
	if (folder.size != 0) {
		memcpy(text, folder.data, folder.size);
		text[folder.size] = '/';
	}
	memcpy(text + size - name.size, name.data, name.size);
	return fsdp_span(text, size);
}

static bool is_folder(const struct fsdp_entry *entry)
{
	return entry->kind == FSDP_ENTRY_DIRECTORY ||
	       entry->kind == FSDP_ENTRY_LINK_DIRECTORY;
}

static bool add_entry(
	struct fsdp_scan *survey, struct fsdp_span below, const struct fsdp_entry *from)
{
	struct survey_entry *added = fsdp_vec_push(&survey->entries);
	if (added == NULL)
		return false;
	*added = (struct survey_entry){ .entry.name = join(survey, below, from->name) };
	added->entry.is_folder = is_folder(from);
	added->entry.size = is_folder(from) ? 0 : from->size;
	return added->entry.name.data != NULL;
}

static bool is_listed(const struct fsdp_entry *entry)
{
	return entry->kind == FSDP_ENTRY_FILE || is_folder(entry);
}

/* The entries of a subdirectory; one that cannot be listed has none. */
static bool list_below(struct fsdp_scan *survey, struct fsdp_span name)
{
	struct fsdp_dir child;
	struct fsdp_error *error = NULL;
	bool added = true;
	if (!fsdp_dir_open_child(&survey->dir, (const char *)name.data, &survey->arena,
		    &survey->limits, &child, &error)) {
		give_up(survey, error);
		return true;
	}
	for (size_t i = 0; i < fsdp_dir_count(&child) && added; i++)
		if (is_listed(fsdp_dir_entry(&child, i)))
			added = add_entry(survey, name, fsdp_dir_entry(&child, i));
	fsdp_dir_close(&child);
	return added;
}

static bool list_folder(struct fsdp_scan *survey, struct fsdp_error **ret_error)
{
	size_t folders = 0;
	if (!fsdp_dir_open(survey->remote, survey->path, &survey->arena, &survey->limits,
		    &survey->dir, ret_error))
		return false;
	survey->has_dir = true;
	FSDP_EACH(
		i, fsdp_dir_count(&survey->dir), entry, fsdp_dir_entry(&survey->dir, i)) {
		if (is_listed(entry) &&
			!add_entry(survey, (struct fsdp_span){ 0 }, entry))
			return fsdp_arena_fail(&survey->arena, ret_error);
		if (is_folder(entry) && folders++ < FOLDERS_MAX &&
			!list_below(survey, entry->name))
			return fsdp_arena_fail(&survey->arena, ret_error);
	}
	return true;
}

static bool list_file(struct fsdp_scan *survey, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	if (!fsdp_file_open(survey->remote, survey->path, &source, ret_error))
		return false;
	struct survey_entry *file = fsdp_vec_push(&survey->entries);
	if (file != NULL)
		*file = (struct survey_entry){
			.entry = { .name = FSDP_SPAN(""), .size = source.size },
		};
	if (source.fd >= 0)
		close(source.fd);
	return file != NULL || fsdp_arena_fail(&survey->arena, ret_error);
}

bool fsdp_scan_new(const char *path, const struct fsdp_limit_setting *limits,
	size_t limit_count, struct fsdp_remote *remote, struct fsdp_scan **ret_survey,
	struct fsdp_error **ret_error)
{
	struct fsdp_scan *survey = calloc(1, sizeof *survey);
	if (survey == NULL)
		return fsdp_fail_memory(ret_error);
	survey->limit_settings = limits;
	survey->limit_count = limit_count;
	survey->remote = remote;
	fsdp_limits_init(&survey->limits);
	for (size_t i = 0; i < limit_count; i++)
		(void)fsdp_limits_set(&survey->limits, limits[i].name, limits[i].value);
	fsdp_budget_init(&survey->budget, &survey->limits);
	fsdp_arena_init_lean(&survey->arena, &survey->budget);
	fsdp_vec_init(&survey->entries, &survey->arena, sizeof(struct survey_entry));
	fsdp_vec_init(&survey->parts, &survey->arena, sizeof(struct survey_part));
	fsdp_vec_init(&survey->documents, &survey->arena, sizeof(struct survey_document));
	fsdp_vec_init(&survey->pickles, &survey->arena, sizeof(struct survey_pickles));
	survey->path =
		(const char *)fsdp_arena_copy(&survey->arena, fsdp_span_text(path)).data;
	if (survey->path == NULL ? !fsdp_arena_fail(&survey->arena, ret_error)
				 : !(fsdp_dir_is(remote, path) ? list_folder : list_file)(
					   survey, ret_error)) {
		fsdp_scan_free(survey);
		return false;
	}
	if (fsdp_scan_failed(survey, ret_error)) {
		fsdp_scan_free(survey);
		return false;
	}
	*ret_survey = survey;
	return true;
}

void fsdp_scan_free(struct fsdp_scan *survey)
{
	if (survey == NULL)
		return;
	FSDP_ITEMS(struct survey_part, part, &survey->parts) {
		fsdp_checkpoint_free(part->checkpoint);
		fsdp_error_free(part->error);
	}
	fsdp_error_free(survey->error);
	if (survey->has_dir)
		fsdp_dir_close(&survey->dir);
	fsdp_arena_done(&survey->arena);
	free(survey);
}

size_t fsdp_scan_entry_count(const struct fsdp_scan *survey)
{
	return survey->entries.count;
}

const struct fsdp_scan_entry *fsdp_scan_entry(
	const struct fsdp_scan *survey, size_t index)
{
	const struct survey_entry *entry = fsdp_vec_at(&survey->entries, index);
	return &entry->entry;
}

/* "a/b" before "a.x": the entries of a directory follow it. */
static int compare_names(struct fsdp_span a, struct fsdp_span b)
{
	int first = fsdp_span_compare(fsdp_span_first(a, '/'), fsdp_span_first(b, '/'));
	return first != 0 ? first : fsdp_span_compare(a, b);
}

static struct survey_entry *find_entry(const struct fsdp_scan *survey, const char *name)
{
	struct fsdp_span wanted = fsdp_span_text(name);
	size_t low = 0, high = survey->entries.count;
	FSDP_HALVE(low, high, middle,
		compare_names(fsdp_scan_entry(survey, middle)->name, wanted) < 0);
	return low < survey->entries.count &&
			       fsdp_span_equal(fsdp_scan_entry(survey, low)->name, wanted)
		       ? fsdp_vec_at(&survey->entries, low)
		       : NULL;
}

const struct fsdp_scan_entry *fsdp_scan_find(
	const struct fsdp_scan *survey, const char *name)
{
	const struct survey_entry *entry = find_entry(survey, name);
	return entry != NULL ? &entry->entry : NULL;
}

/* ---- reading ---- */

/* A file that cannot be opened has no head. One that has fewer bytes than it had when it
 * was opened is changed meanwhile. */
struct fsdp_span fsdp_scan_head(struct fsdp_scan *survey, const char *name)
{
	struct survey_entry *entry = find_entry(survey, name);
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	if (entry == NULL || entry->entry.is_folder || entry->has_head)
		return entry != NULL ? entry->head : (struct fsdp_span){ 0 };
	entry->has_head = true;
	/* The named file, or one below the directory. */
	if (!(survey->has_dir ? fsdp_dir_source(&survey->dir, fsdp_span_text(name),
					&source, &error)
			      : fsdp_file_open(
					survey->remote, survey->path, &source, &error))) {
		give_up(survey, error);
		return entry->head;
	}
	if (!fsdp_source_read_all(&source, 0, fsdp_min(source.size, FSDP_SCAN_HEAD),
		    &survey->arena, &entry->head, &error))
		fail_survey(survey, error);
	if (!survey->has_dir && source.fd >= 0)
		close(source.fd);
	return entry->head;
}

static bool read_file(struct fsdp_scan *survey, const char *name, uint64_t most, bool cut,
	struct fsdp_span *ret_bytes)
{
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	if (!survey->has_dir || fsdp_scan_find(survey, name) == NULL)
		return false;
	if (!fsdp_dir_source(&survey->dir, fsdp_span_text(name), &source, &error))
		return give_up(survey, error);
	if (!cut && source.size > most)
		return false;
	return fsdp_source_read_all(&source, 0, fsdp_min(source.size, most),
		       &survey->arena, ret_bytes, &error) ||
	       give_up(survey, error);
}

struct fsdp_span fsdp_scan_text(struct fsdp_scan *survey, const char *name)
{
	struct fsdp_span bytes = { 0 };
	if (!read_file(survey, name, TEXT_BYTES, true, &bytes))
		return (struct fsdp_span){ 0 };
	while (bytes.size != 0 && bytes.data[bytes.size - 1] <= ' ')
		bytes.size--;
	return bytes;
}

/* The path as it is opened; NULL: out of memory. */
static const char *path_of(struct fsdp_scan *survey, const char *name)
{
	return *name == '\0' ? survey->path
			     : (const char *)join(survey, fsdp_span_text(survey->path),
				       fsdp_span_text(name))
				       .data;
}

static bool open_part(struct fsdp_scan *survey, struct survey_part *part)
{
	struct fsdp_options options = {
		.size = sizeof options,
		.limits = survey->limit_settings,
		.limit_count = survey->limit_count,
		.remote = survey->remote,
		.no_plan = true,
		/* An index represents its directory. */
		.single_file = !fsdp_span_ends(
			fsdp_span_text(part->name), FSDP_SPAN(".index.json")),
	};
	const char *path = path_of(survey, part->name);
	if (path == NULL)
		return false;
	if (fsdp_checkpoint_open(&path, 1, &options, &part->checkpoint, &part->error)) {
		/* An unreadable file of the checkpoint is not damage. */
		FSDP_EACH(i, fsdp_checkpoint_error_count(part->checkpoint), error,
			fsdp_checkpoint_error(part->checkpoint, i)) {
			struct fsdp_error *copy = NULL;
			if (is_of_file(error))
				continue;
			fsdp_fail(&copy, fsdp_error_code(error), FSDP_UNKNOWN, "%s",
				fsdp_error_message(error));
			return give_up(survey, copy);
		}
		return true;
	}
	part->checkpoint = NULL;
	if (is_of_file(part->error))
		return true;
	give_up(survey, part->error);
	part->error = NULL;
	return false;
}

bool fsdp_scan_part(
	struct fsdp_scan *survey, const char *name, struct fsdp_scan_part *ret_part)
{
	struct survey_part *part = NULL;
	for (size_t i = 0; i < survey->parts.count && part == NULL; i++) {
		part = fsdp_vec_at(&survey->parts, i);
		part = strcmp(part->name, name) == 0 ? part : NULL;
	}
	*ret_part = (struct fsdp_scan_part){ 0 };
	if (part == NULL) {
		if (survey->parts.count == PARTS_MAX)
			return true;
		struct fsdp_span copy =
			fsdp_arena_copy(&survey->arena, fsdp_span_text(name));
		part = copy.data != NULL ? fsdp_vec_push(&survey->parts) : NULL;
		if (part == NULL)
			return false;
		part->name = (const char *)copy.data;
		if (!open_part(survey, part))
			return false;
	}
	*ret_part = (struct fsdp_scan_part){ part->checkpoint, part->error };
	return true;
}

/* ---- documents ---- */

static bool copy_settings(struct fsdp_scan *survey, const struct fsdp_model *model,
	struct fsdp_scan_document *document)
{
	struct fsdp_setting *settings =
		FSDP_TAKE(&survey->arena, settings, model->settings.count + 1);
	if (settings == NULL)
		return false;
	for (size_t i = 0; i < model->settings.count; i++)
		settings[i] = *fsdp_model_setting(model, i);
	document->settings = settings;
	document->count = model->settings.count;
	return true;
}

static bool read_document(struct fsdp_scan *survey, const char *name,
	struct fsdp_scan_document *ret_document)
{
	const struct fsdp_scan_entry *entry = fsdp_scan_find(survey, name);
	struct fsdp_span bytes;
	const struct fsdp_json *root = NULL;
	struct fsdp_error *error = NULL;
	*ret_document = (struct fsdp_scan_document){ .is_there = entry != NULL &&
								 !entry->is_folder };
	if (!ret_document->is_there ||
		!read_file(survey, name, DOCUMENT_BYTES, false, &bytes))
		return true;
	struct fsdp_model *model = FSDP_TAKE(&survey->arena, model, 1);
	if (model == NULL)
		return false;
	bool read = fsdp_json_read_of_python(
			    bytes, &survey->limits, &survey->arena, &root, &error) &&
		    root->kind == FSDP_JSON_OBJECT &&
		    fsdp_build_init(model, &survey->arena, &survey->limits, &error) &&
		    fsdp_hf_settings(model, FSDP_NONE, root, &survey->arena, &error);
	bool is_object = root != NULL && root->kind == FSDP_JSON_OBJECT;
	bool no_memory = !read && (root == NULL || is_object) &&
			 fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	ret_document->is_valid = read;
	return !no_memory && (!read || copy_settings(survey, model, ret_document));
}

bool fsdp_scan_document(struct fsdp_scan *survey, const char *name,
	struct fsdp_scan_document *ret_document)
{
	FSDP_ITEMS(const struct survey_document, known, &survey->documents) {
		*ret_document = known->document;
		if (strcmp(known->name, name) == 0)
			return true;
	}
	struct fsdp_span copy = fsdp_arena_copy(&survey->arena, fsdp_span_text(name));
	*ret_document = (struct fsdp_scan_document){ .is_there = false };
	if (copy.data == NULL || !read_document(survey, name, ret_document))
		return false;
	const struct survey_document read = { (const char *)copy.data, *ret_document };
	return survey->documents.count == PARTS_MAX ||
	       fsdp_vec_add(&survey->documents, &read);
}

/* ---- pickles ---- */

static bool list_refused(struct fsdp_scan *survey, const struct fsdp_pickles *pickles,
	struct fsdp_scan_pickles *result)
{
	struct fsdp_vec globals;
	fsdp_vec_init(&globals, &survey->arena, sizeof(struct fsdp_span));
	FSDP_EACH(
		i, fsdp_pickles_count(pickles), facts, fsdp_pickles_stream(pickles, i)) {
		result->is_readable &= facts.complete;
		if (facts.protocol > result->protocol)
			result->protocol = facts.protocol;
		FSDP_EACH(k, facts.refusal_count, refusal,
			fsdp_pickles_refusal(pickles, i, k)) {
			struct fsdp_span copy =
				fsdp_arena_copy(&survey->arena, refusal.what);
			if (copy.data == NULL)
				return false;
			/* Names of opcodes have no dot. */
			if (memchr(copy.data, '.', copy.size) == NULL) {
				if (result->opcode == NULL)
					result->opcode = (const char *)copy.data;
				result->opcode_offset = refusal.offset;
				continue;
			}
			if (globals.count == 0)
				result->global_offset = refusal.offset;
			if (!fsdp_vec_add(&globals, &copy))
				return false;
		}
	}
	struct fsdp_span *list = FSDP_TAKE(&survey->arena, list, globals.count + 1);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < globals.count; i++)
		list[i] = *(const struct fsdp_span *)fsdp_vec_at(&globals, i);
	result->globals = list;
	result->global_count = globals.count;
	return true;
}

static bool read_pickles(
	struct fsdp_scan *survey, const char *name, struct fsdp_scan_pickles *ret_pickles)
{
	struct fsdp_pickles_options options = {
		.size = sizeof options,
		.limits = survey->limit_settings,
		.limit_count = survey->limit_count,
		.remote = survey->remote,
	};
	struct fsdp_pickles *pickles = NULL;
	struct fsdp_error *error = NULL;
	const char *path = path_of(survey, name);
	*ret_pickles = (struct fsdp_scan_pickles){ .protocol = -1 };
	if (path == NULL)
		return false;
	bool done;
	if (fsdp_pickles_open(path, &options, &pickles, &error)) {
		ret_pickles->is_readable = true;
		done = list_refused(survey, pickles, ret_pickles) &&
		       fsdp_pickles_root(pickles, &survey->arena, &ret_pickles->root);
	} else {
		done = is_of_file(error);
		give_up(survey, error);
	}
	fsdp_pickles_free(pickles);
	return done;
}

bool fsdp_scan_pickles(
	struct fsdp_scan *survey, const char *name, struct fsdp_scan_pickles *ret_pickles)
{
	FSDP_ITEMS(const struct survey_pickles, known, &survey->pickles) {
		*ret_pickles = known->pickles;
		if (strcmp(known->name, name) == 0)
			return true;
	}
	struct fsdp_span copy = fsdp_arena_copy(&survey->arena, fsdp_span_text(name));
	*ret_pickles = (struct fsdp_scan_pickles){ .is_readable = false };
	if (copy.data == NULL || !read_pickles(survey, name, ret_pickles))
		return false;
	const struct survey_pickles read = { (const char *)copy.data, *ret_pickles };
	return survey->pickles.count == PARTS_MAX ||
	       fsdp_vec_add(&survey->pickles, &read);
}
