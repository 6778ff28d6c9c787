/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KEPT_H
#define KEPT_H

#include <stdbool.h>
#include <stddef.h>

/* Files that a run reads, and folders of them: what no output may replace. All zero is
 * an empty list. */
struct kept {
	struct kept_place *places;
	size_t count;
};

/* What is at the path, with all that is in it if it is a folder; "-" is what stdin reads
 * from. A path that leads nowhere adds nothing. False when out of memory. */
bool kept_add(struct kept *kept, const char *path);

/* Whether this is a file that is there, and one of the list or somewhere in its folders.
 * Links are followed; asks the file system anew each time. */
bool kept_holds(const struct kept *kept, const char *file);

void kept_done(struct kept *kept);

#endif
