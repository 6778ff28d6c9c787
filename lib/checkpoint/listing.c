/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a list of the files of a bucket or directory, as other tools print it, and makes
 * it the directory that is opened: names and sizes come from the list, bytes from the
 * files that were copied into the directory that the user named.
 *
 * Origin: output of aws-cli 1.45 (s3 ls, s3api list-objects-v2), google-cloud-sdk's
 * command_lib/storage/ls_command_util.py (gsutil ls -l, gcloud storage ls -l), rclone
 * 1.60 (ls, lsl, lsjson), coreutils 9.1 (ls -lR), findutils 4.9 (find -printf '%s %p\n').
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "checkpoint/opening.h"
#include "syntax/json-tree.h"

enum { DEPTH_MOST = 64, SIZE_END_BITS = 59 };

/*
 * Lines of text. Columns: d 2026-11-29, t 13:24 or 13:24:01.5, z 2026-11-29T13:24:01Z,
 * s a size in bytes, m the mode of a regular file, w any word, n the rest: a name. A list
 * has one form, that of its first line which has any; the ones that say more come first.
 */
static const char *const forms[] = {
	"mwwwsdtwn", /* ls -lR --time-style=full-iso */
	"mwwwsdtn",  /* ls -lR --time-style=long-iso */
	"mwwwswwwn", /* ls -lR */
	"dtsn",      /* aws s3 ls --recursive */
	"szn",       /* gsutil ls -l, gcloud storage ls -l */
	"sdtn",      /* rclone lsl */
	"sn",        /* rclone ls, find -printf '%s %p\n' */
};

struct listing {
	struct opening *opening;
	struct fsdp_vec files;   /* struct fsdp_packed */
	struct fsdp_span folder; /* of ls -lR: the directory of the next names */
	const char *form;        /* NULL: not known yet */
	uint64_t line;
};

/* Leaves with this error, and the next step if there is one. */
static void __attribute__((noreturn, format(printf, 3, 4)))
refuse(const struct listing *listing, const char *hint, const char *format, ...)
{
	struct fsdp_error *error = NULL;
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fsdp_fail(&error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "%s", text);
	if (hint != NULL)
		fsdp_error_add_hint(&error, "%s", hint);
	fsdp_model_leave(&listing->opening->checkpoint->model, error);
}

static void __attribute__((noreturn))
refuse_line(const struct listing *listing, const char *what)
{
	refuse(listing,
		"sizes in bytes, as by aws s3 ls --recursive, gsutil ls -l -r, rclone lsjson -R, ls -lR or find -type f -printf '%s %p\\n'",
		"line %llu of the list %s", FSDP_LLU(listing->line), what);
}

/* Relative to where all names begin: without a scheme, "/" and "./". */
static void add_file(struct listing *listing, struct fsdp_span folder,
	struct fsdp_span name, uint64_t size)
{
	struct fsdp_arena *arena = &listing->opening->checkpoint->arena;
	uint64_t most =
		fsdp_limit(&listing->opening->checkpoint->limits, FSDP_LIMIT_FILES);
	const unsigned char *scheme =
		folder.size == 0 ? fsdp_span_find(name, FSDP_SPAN("://")) : NULL;
	if (scheme != NULL)
		name = fsdp_span(
			scheme + 3, name.size - (size_t)(scheme + 3 - name.data));
	/* Some stores keep directories as empty objects. */
	if (name.size == 0 || name.data[name.size - 1] == '/')
		return;
	char *path = fsdp_arena_take(arena, folder.size + name.size + 2, 1);
	size_t length = 0;
	if (folder.size != 0) {
		memcpy(path, folder.data, folder.size);
		length = folder.size;
		path[length++] = '/';
	}
	memcpy(path + length, name.data, name.size);
	struct fsdp_span whole = fsdp_span(path, length + name.size);
	while (fsdp_span_behind(whole, "./", &whole) ||
		fsdp_span_behind(whole, "/", &whole))
		;
	if (!fsdp_name_is_safe(whole))
		refuse_line(listing, "has an invalid file name");
	if (listing->files.count >= most) {
		struct fsdp_error *error = NULL;
		fsdp_fail_limit(&error, FSDP_LIMIT_FILES, most);
		fsdp_model_leave(&listing->opening->checkpoint->model, error);
	}
	struct fsdp_packed file = {
		.name = whole,
		.source = { .fd = -1, .size = size },
		.offset = FSDP_UNKNOWN,
	};
	fsdp_vec_append(&listing->files, &file);
}

/* ---- text ---- */

static struct fsdp_span skip_blanks(struct fsdp_span text)
{
	while (text.size != 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = fsdp_span(text.data + 1, text.size - 1);
	return text;
}

/* Whether a word has this pattern, "#" being a digit, at its start. */
static bool begins_like(struct fsdp_span word, const char *pattern)
{
	size_t size = strlen(pattern);
	if (word.size < size)
		return false;
	for (size_t i = 0; i < size; i++)
		if (pattern[i] == '#' ? !fsdp_is_digit(word.data[i])
				      : word.data[i] != (unsigned char)pattern[i])
			return false;
	return true;
}

static bool is_column(struct fsdp_span word, char column, uint64_t *ret_size)
{
	switch (column) {
	case 'd':
		return word.size == 10 && begins_like(word, "####-##-##");
	case 't':
		return begins_like(word, "##:##") &&
		       (word.size == 5 || begins_like(word, "##:##:##"));
	case 'z':
		return begins_like(word, "####-##-##T##:##:##");
	case 's':
		return fsdp_span_number(&word, UINT64_C(1) << SIZE_END_BITS, ret_size) &&
		       word.size == 0;
	case 'm':
		return word.size >= 10 && word.data[0] == '-' &&
		       (word.data[1] == 'r' || word.data[1] == '-');
	default:
		return word.size != 0;
	}
}

static bool has_form(struct fsdp_span line, const char *form, struct fsdp_span *ret_name,
	uint64_t *ret_size)
{
	for (; *form != '\0'; form++) {
		struct fsdp_span rest = skip_blanks(line);
		if (*form == 'n') {
			*ret_name = rest;
			return rest.size != 0;
		}
		size_t size = 0;
		while (size < rest.size && rest.data[size] != ' ' &&
			rest.data[size] != '\t')
			size++;
		if (!is_column(fsdp_span(rest.data, size), *form, ret_size))
			return false;
		line = fsdp_span(rest.data + size, rest.size - size);
	}
	return false;
}

static bool is_between(struct listing *listing, struct fsdp_span line)
{
	static const char *const words[] = {
		"TOTAL: ", "Total Objects: ", "Total Size: ", "total ", "PRE "
	};
	struct fsdp_span text = skip_blanks(line);
	if (text.size == 0)
		return true;
	if (text.data[text.size - 1] == ':') {
		text.size--;
		if (fsdp_span_find(text, FSDP_SPAN("://")) == NULL)
			listing->folder = text;
		return true;
	}
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_begins(text, fsdp_span_text(words[i])))
			return true;
	return (text.data[0] == 'd' && text.size > 10 &&
		       (text.data[1] == 'r' || text.data[1] == '-')) ||
	       (text.data[text.size - 1] == '/' &&
		       fsdp_span_find(text, FSDP_SPAN("://")) != NULL);
}

static void read_line(struct listing *listing, struct fsdp_span line)
{
	struct fsdp_span name;
	uint64_t size = 0;
	bool found = false;
	listing->line++;
	if (line.size != 0 && line.data[line.size - 1] == '\r')
		line.size--;
	for (size_t i = 0; i < FSDP_COUNT(forms) && listing->form == NULL; i++)
		if (has_form(line, forms[i], &name, &size))
			listing->form = forms[i];
	if (listing->form != NULL)
		found = has_form(line, listing->form, &name, &size);
	if (!found && is_between(listing, line))
		return;
	if (!found)
		refuse_line(listing,
			line.data[0] == 'l' ? "is a link, which has no size: list with -L"
					    : "does not have a size and a name");
	add_file(listing,
		listing->form[0] == 'm' ? listing->folder : (struct fsdp_span){ 0 }, name,
		size);
}

static void read_lines(struct listing *listing, struct fsdp_span text)
{
	while (text.size != 0) {
		struct fsdp_span line = fsdp_span_first(text, '\n');
		read_line(listing, line);
		line.size += line.size != text.size;
		text = fsdp_span(text.data + line.size, text.size - line.size);
	}
}

/* ---- JSON: an array of objects, or one with such an array ---- */

static const struct {
	const char *name, *within, *size; /* `within`: the object that has the size */
} members[] = {
	{ "Path", NULL, "Size" },                  /* rclone lsjson */
	{ "Key", NULL, "Size" },                   /* aws s3api list-objects-v2 */
	{ "name", "properties", "contentLength" }, /* az storage blob list */
	{ "path", NULL, "size" },                  /* the tree of the Hugging Face hub */
};

static void read_items(struct listing *listing, const struct fsdp_json *list)
{
	FSDP_EACH(i, fsdp_json_items(list), item, &list->items[i]) {
		int64_t size = -1;
		struct fsdp_span name = { 0 }, type = fsdp_json_get_text(item, "type");
		listing->line = i + 1;
		if (fsdp_json_get_truth(item, "IsDir") == 1 ||
			(type.data != NULL && fsdp_span_is(type, "directory")))
			continue;
		for (size_t k = 0; k < FSDP_COUNT(members) && size < 0; k++) {
			name = fsdp_json_get_text(item, members[k].name);
			const struct fsdp_json *holder =
				members[k].within != NULL
					? fsdp_json_get(item, members[k].within)
					: item;
			if (name.data == NULL ||
				!fsdp_json_get_integer(holder, members[k].size, 0,
					INT64_C(1) << SIZE_END_BITS, &size))
				size = -1;
		}
		if (size < 0)
			refuse(listing, NULL, "item %u of the list has no name and size",
				i + 1);
		add_file(listing, (struct fsdp_span){ 0 }, name, (uint64_t)size);
	}
}

static void read_json(struct listing *listing, struct fsdp_span text)
{
	struct opening *opening = listing->opening;
	const struct fsdp_json *root, *list;
	fsdp_opening_must(opening,
		fsdp_json_read(text, &opening->checkpoint->limits, &opening->scratch,
			&root, &opening->error) ||
			fsdp_error_add_hint(&opening->error, "write the list again"));
	list = fsdp_json_get(root, "Contents");
	/* A page of a list lacks files that the store has. */
	if (fsdp_json_get_truth(root, "IsTruncated") == 1 ||
		fsdp_json_get_text(root, "NextToken").data != NULL)
		refuse(listing, "list without --max-items",
			"the list is only a part: it has the token of the next page");
	read_items(listing, list != NULL ? list : root);
}

/* ---- which directory of the list is meant ---- */

static int compare_files(const void *a, const void *b)
{
	const struct fsdp_packed *first = a, *second = b;
	return fsdp_span_compare(first->name, second->name);
}

/* The directory of the list that has most entries of the directory on disk. */
struct folder_guess {
	struct fsdp_span folder;
	size_t votes;
	bool is_named; /* as the directory on disk */
	bool is_tie;
};

static struct fsdp_span name_at(const struct listing *listing, size_t index)
{
	return ((const struct fsdp_packed *)fsdp_vec_at(&listing->files, index))->name;
}

/* How many bytes the two have in common from the start on. */
static size_t count_shared(struct fsdp_span a, struct fsdp_span b)
{
	size_t shared = 0;
	while (shared < a.size && shared < b.size && a.data[shared] == b.data[shared])
		shared++;
	return shared;
}

/* Of sorted names each directory is complete when it is left. False: one is too deep. */
static bool guess_folder(const struct listing *listing, const struct fsdp_dir *dir,
	struct fsdp_span typed, struct folder_guess *best)
{
	/* Of the directories of the name before: where their entries begin. */
	size_t begins[DEPTH_MOST], votes[DEPTH_MOST], depth = 0;
	struct fsdp_span before = { 0 };
	for (size_t i = 0; i <= listing->files.count; i++) {
		bool is_end = i == listing->files.count;
		struct fsdp_span name = is_end ? before : name_at(listing, i);
		size_t shared = is_end ? 0 : count_shared(name, before), end = 0,
		       level = 0;
		while (depth > 0 && (is_end || begins[depth - 1] > shared)) {
			size_t begin = begins[--depth];
			struct fsdp_span folder =
				fsdp_span(before.data, begin - (begin > 0));
			bool is_named =
				fsdp_span_equal(fsdp_span_last(folder, '/'), typed);
			if (votes[depth] == 0 || votes[depth] < best->votes ||
				(votes[depth] == best->votes &&
					is_named < best->is_named))
				continue;
			best->is_tie =
				votes[depth] == best->votes && is_named == best->is_named;
			best->folder = folder;
			best->votes = votes[depth];
			best->is_named = is_named;
		}
		for (size_t begin = 0; !is_end && begin < name.size; begin = end + 1) {
			struct fsdp_span rest =
				fsdp_span(name.data + begin, name.size - begin);
			end = begin + fsdp_span_first(rest, '/').size;
			if (level == DEPTH_MOST)
				return false;
			if (level >= depth) {
				begins[level] = begin;
				votes[level] = 0;
				depth = level + 1;
			}
			const struct fsdp_entry *entry = fsdp_dir_find(
				dir, fsdp_span(name.data + begin, end - begin));
			votes[level] +=
				(i == 0 || shared <= end) && entry != NULL &&
				(entry->kind == FSDP_ENTRY_FILE) == (end == name.size);
			level++;
		}
		before = name;
	}
	return true;
}

/* Without anything on disk: the directory of all names. */
static struct fsdp_span common_folder(const struct listing *listing)
{
	struct fsdp_span first = name_at(listing, 0);
	size_t shared = count_shared(first, name_at(listing, listing->files.count - 1));
	while (shared > 0 && first.data[shared - 1] != '/')
		shared--;
	return fsdp_span(first.data, shared - (shared > 0));
}

/* A copy of another size is of another save. */
static void check_copies(const struct listing *listing)
{
	const struct fsdp_dir *dir = &listing->opening->checkpoint->dir;
	size_t at = 0;
	FSDP_EACH(i, fsdp_dir_count(dir), copy, fsdp_dir_entry(dir, i)) {
		int order = -1;
		while (at < listing->files.count &&
			(order = fsdp_span_compare(name_at(listing, at), copy->name)) < 0)
			at++;
		if (at == listing->files.count || order != 0 ||
			copy->kind != FSDP_ENTRY_FILE)
			continue;
		const struct fsdp_packed *file = fsdp_vec_at(&listing->files, at);
		if (copy->size != file->source.size)
			refuse(listing, "download it again",
				"%.*s has %llu bytes in the list, and its copy %llu",
				FSDP_TEXT_MOST(copy->name, 256),
				FSDP_LLU(file->source.size), FSDP_LLU(copy->size));
	}
}

/* Only the files below the directory of the list that is meant, and relative to it. */
static void choose_folder(struct listing *listing)
{
	struct opening *opening = listing->opening;
	struct fsdp_span typed = fsdp_span_text(opening->path);
	struct folder_guess best = { .votes = 0 };
	size_t kept = 0, count = listing->files.count;
	while (typed.size > 1 && typed.data[typed.size - 1] == '/')
		typed.size--;
	typed = fsdp_span_last(typed, '/');
	qsort(fsdp_vec_at(&listing->files, 0), count, sizeof(struct fsdp_packed),
		compare_files);
	for (size_t i = 1; i < count; i++)
		if (fsdp_span_equal(name_at(listing, i), name_at(listing, i - 1)))
			refuse(listing, NULL, "the list has %.*s twice",
				FSDP_TEXT_MOST(name_at(listing, i), 256));
	if (!guess_folder(listing, &opening->checkpoint->dir, typed, &best))
		refuse(listing, NULL,
			"the list has directories that are nested too deep");
	if (best.is_tie)
		refuse(listing, "list only the directory of this checkpoint",
			"several directories of the list have the files of %s, %.*s is one",
			opening->path, FSDP_TEXT_MOST(best.folder, 256));
	struct fsdp_span folder = best.votes != 0 ? best.folder : common_folder(listing);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_packed *file = fsdp_vec_at(&listing->files, i);
		struct fsdp_span name = file->name;
		if (folder.size != 0 &&
			(!fsdp_span_begins(name, folder) || name.size <= folder.size ||
				name.data[folder.size] != '/'))
			continue;
		size_t skip = folder.size + (folder.size != 0);
		file->name = fsdp_span(name.data + skip, name.size - skip);
		*(struct fsdp_packed *)fsdp_vec_at(&listing->files, kept++) = *file;
	}
	listing->files.count = kept;
	check_copies(listing);
	if (kept < count)
		fsdp_reading_note(&opening->reading,
			"read %.*s in the list; skipped %zu files elsewhere in it",
			FSDP_TEXT_MOST(folder, 128), count - kept);
}

/* ls without -A has no names that begin with a dot, such as .metadata. */
static void check_hidden(struct listing *listing)
{
	const struct fsdp_dir *dir = &listing->opening->checkpoint->dir;
	if (listing->form == NULL || listing->form[0] != 'm')
		return;
	for (size_t i = 0; i < listing->files.count; i++)
		if (fsdp_span_last(name_at(listing, i), '/').data[0] == '.')
			return;
	FSDP_EACH(i, fsdp_dir_count(dir), entry, fsdp_dir_entry(dir, i))
		if (entry->kind == FSDP_ENTRY_FILE && entry->name.data[0] == '.')
			refuse(listing, "list with ls -lAR",
				"the list has no names that begin with a dot, as %.*s does",
				FSDP_TEXT_MOST(entry->name, 256));
}

static void read_listing(void *context)
{
	struct listing *listing = context;
	struct opening *opening = listing->opening;
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	uint64_t limit = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_PLAN_BYTES);
	struct fsdp_source source;
	struct fsdp_span text;
	fsdp_opening_must(opening,
		fsdp_file_open(checkpoint->remote, opening->options->listing_path,
			&source, &opening->error));
	fsdp_budget_give(&checkpoint->budget, source.size);
	fsdp_arena_hold(&opening->scratch);
	bool good =
		source.size <= limit
			? fsdp_source_read_all(&source, 0, source.size, &opening->scratch,
				  &text, &opening->error)
			: fsdp_fail_limit(&opening->error, FSDP_LIMIT_PLAN_BYTES, limit);
	fsdp_arena_resume(&opening->scratch);
	if (source.fd >= 0)
		close(source.fd);
	fsdp_opening_must(opening, good);
	struct fsdp_span start = skip_blanks(text);
	bool is_json = start.size != 0 && (start.data[0] == '[' || start.data[0] == '{');
	(is_json ? read_json : read_lines)(listing, text);
	if (listing->files.count == 0)
		refuse(listing, NULL, "the list names no files");
	check_hidden(listing);
	choose_folder(listing);
}

void fsdp_listing_open(struct opening *opening)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct listing *listing = FSDP_TAKE(&checkpoint->arena, listing, 1);
	listing->opening = opening;
	fsdp_vec_init(&listing->files, &checkpoint->arena, sizeof(struct fsdp_packed));
	if (!fsdp_model_try(&checkpoint->model, &opening->scratch, read_listing, listing,
		    &opening->error))
		fsdp_opening_must(opening, fsdp_error_add_path(&opening->error,
						   opening->options->listing_path));
	fsdp_opening_must(
		opening, fsdp_folder_of_packed(&checkpoint->folder, &listing->files,
				 &checkpoint->arena, &opening->error));
	checkpoint->folder.copies = &checkpoint->dir;
	fsdp_opening_set_folder(opening);
}
