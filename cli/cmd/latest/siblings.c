/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a candidate with the other steps of its run: each has files of the same kinds, and
 * what resumes has a state of the optimizer where others have one.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/latest/latest.h"
#include "part/value-text.h"

enum { SIBLINGS_MOST = 3, NAME_MOST = 256, TRIED_MOST = 4 };

/* Kinds of files, sorted; owned. */
struct kinds {
	char **names;
	size_t count;
	bool is_folder;
};

static size_t folder_size(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

/* "model_rank#.pt". With a step only the number that is the step becomes #; *ret_found: it is
 * there. Without one, -1, all numbers do. */
static void generalise(const char *name, int64_t step, char *kind, bool *ret_found)
{
	size_t at = 0;

	*ret_found = false;
	while (*name != '\0' && at + 24 < NAME_MOST) {
		size_t digits = strspn(name, "0123456789");
		bool is_step =
			digits > 0 && digits < 19 &&
			(step < 0 || (!*ret_found && strtoll(name, NULL, 10) == step));

		if (is_step) {
			*ret_found = true;
			kind[at++] = '#';
			name += digits;
		} else {
			do
				kind[at++] = *name++;
			while (--digits != 0 && digits < 24 && at + 24 < NAME_MOST);
		}
	}
	kind[at] = '\0';
}

/* Written by a save, and not added to it afterwards. */
static bool is_saved(const char *name)
{
	static const char *const ends[] = { ".pt", ".pth", ".bin", ".pkl", ".ckpt",
		".json", ".yaml", ".yml", ".safetensors", ".distcp", ".metadata" };
	static const char *const later[] = { "eval", "result", "metric", "log", "pred",
		"sample", "score", "bench", "unfinished", "tmp" };
	size_t size = strlen(name);
	bool saved = false;

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		saved |= size >= strlen(ends[i]) &&
			 strcmp(name + size - strlen(ends[i]), ends[i]) == 0;
	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		saved &= strcasestr(name, later[i]) == NULL;
	return saved;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void kinds_done(struct kinds *kinds)
{
	for (size_t i = 0; i < kinds->count; i++)
		free(kinds->names[i]);
	free(kinds->names);
	*kinds = (struct kinds){ 0 };
}

static bool add_kind(struct kinds *kinds, const char *kind)
{
	char **names = reallocarray(kinds->names, kinds->count + 1, sizeof *names);

	if (names == NULL)
		return false;
	kinds->names = names;
	names[kinds->count] = strdup(kind);
	return names[kinds->count++] != NULL;
}

/* For a directory the kinds of its files; for a file those of the files of its directory with the same step. An
 * unreadable directory has none. False: out of memory. */
static bool kinds_list(const struct run_candidate *candidate, struct kinds *kinds)
{
	char folder[4096], kind[NAME_MOST];
	DIR *stream = candidate->is_lone ? NULL : opendir(candidate->path);
	bool is_folder = stream != NULL, found, good = true;
	size_t size = folder_size(candidate->path);
	const struct dirent *entry;

	*kinds = (struct kinds){ .is_folder = is_folder };
	if (size >= sizeof folder)
		size = 0;
	memcpy(folder, candidate->path, size);
	folder[size] = '\0';
	if (!is_folder)
		stream = opendir(size > 0 ? folder : ".");
	while (stream != NULL && good && (entry = readdir(stream)) != NULL) {
		if (!is_saved(entry->d_name))
			continue;
		generalise(entry->d_name, is_folder ? -1 : candidate->step_name.step,
			kind, &found);
		good = (!is_folder && !found) || add_kind(kinds, kind);
	}
	if (stream != NULL)
		closedir(stream);
	if (good && kinds->count > 1)
		qsort(kinds->names, kinds->count, sizeof *kinds->names, compare);
	return good;
}

static bool has_kind(const struct kinds *kinds, const char *kind)
{
	return kinds->count > 0 && bsearch(&kind, kinds->names, kinds->count,
					   sizeof *kinds->names, compare) != NULL;
}

/* Another step of the same run, with the same kind of name. */
static bool is_sibling(const struct run_candidate *a, const struct run_candidate *b)
{
	char of[2][NAME_MOST];
	size_t folder = folder_size(a->path);
	bool found;

	if (a->input != b->input || a->step_name.step == b->step_name.step ||
		b->step_name.step < 0 || folder != folder_size(b->path) ||
		memcmp(a->path, b->path, folder) != 0)
		return false;
	generalise(a->path + folder, a->step_name.step, of[0], &found);
	generalise(b->path + folder, b->step_name.step, of[1], &found);
	return strcmp(of[0], of[1]) == 0;
}

__attribute__((format(printf, 2, 3))) static void judge_bad(
	struct run_candidate *candidate, const char *format, ...)
{
	char why[2 * NAME_MOST];
	va_list arguments;

	candidate->result = "bad";
	va_start(arguments, format);
	vsnprintf(why, sizeof why, format, arguments);
	va_end(arguments);
	candidate->why = collected_text(&candidate->own, why).data;
}

/* Kinds that all others have. A directory that differs from only one other may have been saved in another way. */
static bool judge_kinds(struct latest *latest, struct run_candidate *candidate)
{
	struct kinds own, others[SIBLINGS_MOST];
	size_t count = 0;
	bool good = kinds_list(candidate, &own), is_lacking = false;
	const char *example = candidate->path;

	for (size_t i = 0; i < latest->count && good && count < SIBLINGS_MOST; i++) {
		const struct run_candidate *other = &latest->candidates[i];

		if ((other->result == NULL || is_good(other)) &&
			is_sibling(candidate, other)) {
			good = kinds_list(other, &others[count++]);
			example = other->path;
		}
	}
	for (size_t k = 0; good && count > own.is_folder && own.count > 0 &&
			   k < others[0].count && !is_lacking;
		k++) {
		const char *kind = others[0].names[k];

		is_lacking = !has_kind(&own, kind);
		for (size_t i = 1; i < count && is_lacking; i++)
			is_lacking = has_kind(&others[i], kind);
		if (is_lacking)
			judge_bad(candidate,
				"FI1003 uncommitted-save: it has no %.200s, which %s of the run (%.200s) %s",
				kind, count == 1 ? "the other step" : "the other steps",
				example + folder_size(example),
				count == 1 ? "has" : "have");
	}
	kinds_done(&own);
	for (size_t i = 0; i < count; i++)
		kinds_done(&others[i]);
	return good;
}

/* An adapter by itself, as is written for use, where older steps can be resumed from. */
static bool judge_adapter(struct latest *latest, struct run_candidate *candidate,
	struct fsdp_error **ret_error)
{
	size_t tried = 0;
	bool good = true;

	if (!candidate->is_adapter || candidate->optimizer != 0)
		return true;
	for (size_t i = 0; i < latest->count && good && is_good(candidate); i++) {
		struct run_candidate *other = &latest->candidates[i];

		if (other == candidate || other->input != candidate->input ||
			other->step_name.step < 0)
			continue;
		if (other->result == NULL && tried++ < TRIED_MOST)
			good = candidate_judge(
				other, latest->run, FSDP_LEVEL_QUICK, ret_error);
		if (good && is_good(other) && other->optimizer > 0 &&
			other->optimizer != UINT64_MAX)
			judge_bad(candidate,
				"it is an adapter without a state of the optimizer, and %.200s of the same run has one",
				other->path + folder_size(other->path));
	}
	return good;
}

bool siblings_judge(struct latest *latest, struct run_candidate *candidate,
	struct fsdp_error **ret_error)
{
	if (!is_good(candidate) || candidate->step_name.step < 0)
		return true;
	return judge_adapter(latest, candidate, ret_error) &&
	       (!is_good(candidate) || judge_kinds(latest, candidate));
}
