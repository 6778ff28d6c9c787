/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says which files must not be replaced: by what they are, not by how they are spelled.
 *
 * A link has two places: its own, and that of the file it leads to. Who replaces the link
 * takes it out of a folder that is read; who follows it takes the file.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args/parse.h"
#include "render/escape.h"
#include "session/protected.h"

struct kept_place {
	dev_t device;
	ino_t inode;
	char *stem; /* what the paths of a file's set have in common, or NULL */
};

/* ---- places ---- */

bool kept_place(const char *file, struct stat *ret_folder, const char **ret_name,
	size_t *ret_size)
{
	size_t end = strlen(file), begin;
	char *folder;
	bool good;

	while (end > 1 && file[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && file[begin - 1] != '/';)
		begin--;
	folder = begin == 0 ? strdup(".") : strndup(file, begin);
	good = folder != NULL && stat(folder, ret_folder) == 0;
	free(folder);
	*ret_name = file + begin;
	*ret_size = end - begin;
	return good;
}

static void cut_suffix(char *text, const char *suffix)
{
	size_t size = strlen(text), less = strlen(suffix);

	if (size > less && strcmp(text + size - less, suffix) == 0)
		text[size - less] = '\0';
}

/* What the paths of a set have in common, in the place of one without links: a number in a
 * name is one digit, a shard has no part "-1-of-2", and an index is called like what it
 * lists. Of ranks that have a folder each ("mp_rank_00") that is a part of the name. */
static void make_stem(char *path)
{
	static const char part[] = "-0-of-0";
	char *slash = strrchr(path, '/'), *to = slash + 1, *above = NULL;

	*slash = '\0';
	above = strrchr(path, '/');
	if (above != NULL && strstr(above, "rank") != NULL)
		to = above + 1;
	*slash = '/';
	for (const char *at = to; *at != '\0'; at++)
		if (!is_digit(*at))
			*to++ = *at;
		else if (at == path || to[-1] != '0' || !is_digit(at[-1]))
			*to++ = '0';
	*to = '\0';
	cut_suffix(path, ".index.json");
	to = strstr(strrchr(path, '/'), part);
	if (to != NULL)
		memmove(to, to + sizeof part - 1, strlen(to + sizeof part - 1) + 1);
}

/* The real path of the folder of a file, and its name. NULL with errno. */
static char *own_place(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash != NULL ? strndup(path, (size_t)(slash + 1 - path))
				     : strdup("."),
	     *real = folder != NULL ? realpath(folder, NULL) : NULL, *place = NULL;

	if (real != NULL && asprintf(&place, "%s/%s", strcmp(real, "/") != 0 ? real : "",
				    slash != NULL ? slash + 1 : path) < 0) {
		place = NULL;
		errno = ENOMEM;
	}
	free(folder);
	free(real);
	return place;
}

/* ---- the list ---- */

/* Takes the stem. */
static bool add(struct kept *kept, const struct stat *status, char *stem)
{
	struct kept_place *places = list_grown(kept->places, kept->count, sizeof *places);

	if (places == NULL) {
		free(stem);
		return false;
	}
	kept->places = places;
	places[kept->count++] = (struct kept_place){
		status->st_dev,
		status->st_ino,
		stem,
	};
	return true;
}

/* The files of a snapshot in a download cache are links to …/blobs, beside …/snapshots.
 */
static bool add_blobs(struct kept *kept, const char *folder)
{
	static const char below[] = "/snapshots/";
	char *real = realpath(folder, NULL), *found = NULL;
	struct stat status;
	bool good = real != NULL || errno != ENOMEM;

	for (char *at = real; at != NULL && (at = strstr(at, below)) != NULL; at++)
		found = at;
	if (found != NULL) {
		/* Shorter than what it takes the place of. */
		strcpy(found, "/blobs");
		if (stat(real, &status) == 0 && S_ISDIR(status.st_mode))
			good = add(kept, &status, NULL);
	}
	free(real);
	return good;
}

/* A path that leads to the file; NULL with errno: none does. */
static bool add_stem(struct kept *kept, const struct stat *status, char *path)
{
	if (path == NULL)
		return errno != ENOMEM;
	make_stem(path);
	return add(kept, status, path);
}

bool kept_add(struct kept *kept, const char *path, bool has_set)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat status;

	if ((is_stdin ? fstat(STDIN_FILENO, &status) : stat(path, &status)) != 0)
		return true;
	if (S_ISREG(status.st_mode) && !has_set)
		return add(kept, &status, NULL);
	if (S_ISREG(status.st_mode) && is_stdin)
		return add(kept, &status, NULL) &&
		       add_stem(kept, &status, realpath("/proc/self/fd/0", NULL));
	if (S_ISREG(status.st_mode))
		return add_stem(kept, &status, own_place(path)) &&
		       add_stem(kept, &status, realpath(path, NULL));
	return !S_ISDIR(status.st_mode) ||
	       (add(kept, &status, NULL) && add_blobs(kept, path));
}

/* ---- asking ---- */

static bool is_listed(const struct kept *kept, const struct stat *status)
{
	for (size_t i = 0; i < kept->count; i++)
		if (kept->places[i].device == status->st_dev &&
			kept->places[i].inode == status->st_ino)
			return true;
	return false;
}

static bool is_stem(const struct kept *kept, const char *stem)
{
	for (size_t i = 0; i < kept->count; i++)
		if (kept->places[i].stem != NULL &&
			strcmp(kept->places[i].stem, stem) == 0)
			return true;
	return false;
}

/* Whether the folder that the real path lies in, or one above it, is listed. Cuts it. */
static bool is_below(const struct kept *kept, char *real)
{
	struct stat status;
	char *slash;

	while ((slash = strrchr(real, '/')) != NULL) {
		slash[slash == real] = '\0';
		if (stat(real, &status) == 0 && is_listed(kept, &status))
			return true;
		if (slash == real)
			break;
	}
	return false;
}

/* Of a path without links but in its last part. NULL: errno says why there is none. Takes
 * it. */
static enum kept_why holds_at(const struct kept *kept, char *real)
{
	char *stem = real != NULL ? strdup(real) : NULL;
	enum kept_why why = KEPT_NOT;

	if (stem != NULL) {
		make_stem(stem);
		why = is_below(kept, real)  ? KEPT_READ
		      : is_stem(kept, stem) ? KEPT_SET
					    : KEPT_NOT;
	} else if (errno == ENOMEM) {
		/* Without memory to find out, rather not. */
		why = KEPT_READ;
	}
	free(stem);
	free(real);
	return why;
}

enum kept_why kept_holds(const struct kept *kept, const char *path)
{
	enum kept_why why = KEPT_NOT;
	struct stat own, status = { 0 };

	if (kept->count == 0 || lstat(path, &own) != 0)
		return KEPT_NOT;
	if (stat(path, &status) == 0) {
		if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
			return KEPT_NOT;
		if (is_listed(kept, &status))
			return KEPT_READ;
		why = holds_at(kept, realpath(path, NULL));
	}
	/* What is in a folder is replaced, not the link to it. */
	if (why == KEPT_NOT && S_ISLNK(own.st_mode) && !S_ISDIR(status.st_mode))
		why = holds_at(kept, own_place(path));
	return why;
}

void kept_done(struct kept *kept)
{
	for (size_t i = 0; i < kept->count; i++)
		free(kept->places[i].stem);
	free(kept->places);
	*kept = (struct kept){ 0 };
}
