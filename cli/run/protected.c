/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says which files must not be replaced: by what they are, not by how they are spelled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/protected.h"

struct kept_place {
	dev_t device;
	ino_t inode;
};

static bool add(struct kept *kept, const struct stat *status)
{
	struct kept_place *places =
		reallocarray(kept->places, kept->count + 1, sizeof *places);

	if (places == NULL)
		return false;
	kept->places = places;
	places[kept->count++] = (struct kept_place){
		.device = status->st_dev,
		.inode = status->st_ino,
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
			good = add(kept, &status);
	}
	free(real);
	return good;
}

bool kept_add(struct kept *kept, const char *path)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat status;

	if ((is_stdin ? fstat(STDIN_FILENO, &status) : stat(path, &status)) != 0)
		return true;
	if (S_ISREG(status.st_mode))
		return add(kept, &status);
	return !S_ISDIR(status.st_mode) || (add(kept, &status) && add_blobs(kept, path));
}

static bool is_listed(const struct kept *kept, const struct stat *status)
{
	for (size_t i = 0; i < kept->count; i++)
		if (kept->places[i].device == status->st_dev &&
			kept->places[i].inode == status->st_ino)
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

bool kept_holds(const struct kept *kept, const char *file)
{
	char *real = kept->count != 0 ? realpath(file, NULL) : NULL;
	struct stat status;
	bool holds = real != NULL && stat(real, &status) == 0 &&
		     S_ISREG(status.st_mode) &&
		     (is_listed(kept, &status) || is_below(kept, real));

	/* Without memory to find out, rather not. */
	holds |= real == NULL && kept->count != 0 && errno == ENOMEM;
	free(real);
	return holds;
}

void kept_done(struct kept *kept)
{
	free(kept->places);
	*kept = (struct kept){ 0 };
}
