/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files an option means that names a recording or a folder of them.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/option.h"
#include "part/trace-paths.h"

enum { TRACES_MOST = 10000 };

static bool add_path(struct trace_paths *paths, const char *folder, const char *name)
{
	char **items = list_grown(paths->items, paths->count, sizeof *paths->items);
	const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";

	if (items == NULL)
		return false;
	paths->items = items;
	if (name == NULL)
		items[paths->count] = strdup(folder);
	else if (asprintf(&items[paths->count], "%s%s%s", folder, slash, name) < 0)
		items[paths->count] = NULL;
	return items[paths->count++] != NULL;
}

static int is_visible(const struct dirent *entry)
{
	return *entry->d_name != '.';
}

bool trace_paths_add(struct trace_paths *paths, const char *path)
{
	struct dirent **entries;
	int count = *path != '\0' ? scandir(path, &entries, is_visible, alphasort) : -1;
	bool good = true;

	if (count < 0)
		return add_path(paths, path, NULL);
	for (int i = 0; i < count; i++) {
		if (good && paths->count < TRACES_MOST)
			good = add_path(paths, path, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	paths->of_folder = true;
	return good;
}

void trace_paths_done(struct trace_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->items[i]);
	free(paths->items);
}
