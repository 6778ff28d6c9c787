/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_PATHS_H
#define TRACE_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* Recordings beside the inputs, which an option names. */
struct trace_paths {
	char **items;
	size_t count;
	bool of_folder;
};

/* The files of a folder by name, the first 10,000 of them; anything else is itself. False:
 * out of memory. */
bool trace_paths_add(struct trace_paths *paths, const char *path);
void trace_paths_done(struct trace_paths *paths);

#endif
