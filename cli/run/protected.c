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

#include "front/strings.h"
#include "render/character.h"
#include "run/protected.h"

struct kept_place {
	dev_t device;
	ino_t inode;
	/* Of a file with a set: its folder, and what the names of the set have in
	 * common. */
	dev_t folder_device;
	ino_t folder_inode;
	char *stem;
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

/* What the names of a set have in common: numbers are one digit, a shard has no part
 * "-1-of-2", and an index is called like what it lists. */
static void find_stem(const char *name, size_t size, char stem[NAME_MAX + 1])
{
	static const char part[] = "-0-of-0";
	size_t used = 0;
	char *found;

	for (size_t i = 0; i < size && used < NAME_MAX; i++) {
		if (!is_digit(name[i]))
			stem[used++] = name[i];
		else if (used == 0 || stem[used - 1] != '0')
			stem[used++] = '0';
	}
	stem[used] = '\0';
	cut_suffix(stem, ".index.json");
	found = strstr(stem, part);
	if (found != NULL)
		memmove(found, found + sizeof part - 1,
			strlen(found + sizeof part - 1) + 1);
}

/* ---- the list ---- */

/* `path` is where a file of a set is, or NULL. */
static bool add(struct kept *kept, const struct stat *status, const char *path)
{
	struct kept_place *places = list_grown(kept->places, kept->count, sizeof *places);
	struct kept_place place = { .device = status->st_dev, .inode = status->st_ino };
	char stem[NAME_MAX + 1];
	struct stat folder;
	const char *name;
	size_t size;

	if (places == NULL)
		return false;
	kept->places = places;
	if (path != NULL && kept_place(path, &folder, &name, &size)) {
		find_stem(name, size, stem);
		place.folder_device = folder.st_dev;
		place.folder_inode = folder.st_ino;
		place.stem = strdup(stem);
		if (place.stem == NULL)
			return false;
	}
	places[kept->count++] = place;
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

static bool add_file(
	struct kept *kept, const struct stat *status, const char *path, bool has_set)
{
	char *real = has_set ? realpath(path, NULL) : NULL;
	bool good = add(kept, status, has_set ? path : NULL) &&
		    (!has_set || real != NULL || errno != ENOMEM) &&
		    (real == NULL || add(kept, status, real));

	free(real);
	return good;
}

bool kept_add(struct kept *kept, const char *path, bool has_set)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat status;

	if ((is_stdin ? fstat(STDIN_FILENO, &status) : stat(path, &status)) != 0)
		return true;
	if (S_ISREG(status.st_mode))
		return add_file(
			kept, &status, is_stdin ? "/proc/self/fd/0" : path, has_set);
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

static bool is_of_set(const struct kept *kept, const char *path)
{
	char stem[NAME_MAX + 1];
	struct stat folder;
	const char *name;
	size_t size;

	if (!kept_place(path, &folder, &name, &size))
		return false;
	find_stem(name, size, stem);
	for (size_t i = 0; i < kept->count; i++)
		if (kept->places[i].stem != NULL &&
			kept->places[i].folder_device == folder.st_dev &&
			kept->places[i].folder_inode == folder.st_ino &&
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

/* Of a path without links in it but the last component, which is cut; NULL: errno says why
 * there is none. */
static enum kept_why holds_at(const struct kept *kept, char *real)
{
	if (real == NULL)
		/* Without memory to find out, rather not. */
		return errno == ENOMEM ? KEPT_READ : KEPT_NOT;
	if (is_of_set(kept, real))
		return is_below(kept, real) ? KEPT_READ : KEPT_SET;
	return is_below(kept, real) ? KEPT_READ : KEPT_NOT;
}

/* The real path of the folder, and the name. NULL with errno. */
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

enum kept_why kept_holds(const struct kept *kept, const char *path)
{
	enum kept_why why = KEPT_NOT;
	struct stat own, status = { 0 };
	char *place;

	if (kept->count == 0 || lstat(path, &own) != 0)
		return KEPT_NOT;
	if (stat(path, &status) == 0) {
		if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
			return KEPT_NOT;
		if (is_listed(kept, &status))
			return KEPT_READ;
		place = realpath(path, NULL);
		why = holds_at(kept, place);
		free(place);
	}
	/* What is in a folder is replaced, not the link to it. */
	if (why == KEPT_NOT && S_ISLNK(own.st_mode) && !S_ISDIR(status.st_mode)) {
		place = own_place(path);
		why = holds_at(kept, place);
		free(place);
	}
	return why;
}

void kept_done(struct kept *kept)
{
	for (size_t i = 0; i < kept->count; i++)
		free(kept->places[i].stem);
	free(kept->places);
	*kept = (struct kept){ 0 };
}
