/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOPICS_H
#define TOPICS_H

#include <stddef.h>

/* Help that is not a table of the program: a row for each topic. */
struct topic {
	const char *name;
	const char *text; /* lines of at most 80 columns, the last ended too */
};

/* NULL past the end. */
const struct topic *topic_at(size_t index);

/* NULL: there is none of that name. */
const struct topic *topic_find(const char *name);

/* What to type instead of a command, an option ("--name") or an output of an earlier version;
 * NULL: it is none. `command` has the option or output; NULL: any, and dashes may lack. */
const char *removed_word(const char *word, const char *command);

#endif
