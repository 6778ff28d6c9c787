/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KEPT_H
#define KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Files that a run reads, and folders of them: what no output may replace. All zero is
 * an empty list. */
struct kept {
	struct kept_place *places;
	size_t count;
};

/* What is at the path, with all that is in it if it is a folder; "-" is what stdin reads
 * from. With `has_set` a file stands for its set, too: the files beside it whose names
 * differ from its own in numbers only, and their index. A path that leads nowhere adds
 * nothing. False when out of memory. */
bool kept_add(struct kept *kept, const char *path, bool has_set);

enum kept_why {
	KEPT_NOT,
	KEPT_READ, /* it is read, or is somewhere in a folder that is */
	KEPT_SET,  /* its name is that of a file of the same set as one that is read */
};

/* Whether replacing what is at this path, or what it is a link to, would take away
 * something of the list. Pipes and devices are not replaced. Asks the file system anew
 * each time. */
enum kept_why kept_holds(const struct kept *kept, const char *path);

/* The folder that a file is in, or will be, and its name there, of *ret_size bytes. False:
 * there is no such folder. */
bool kept_place(const char *file, struct stat *ret_folder, const char **ret_name,
	size_t *ret_size);

void kept_done(struct kept *kept);

#endif
