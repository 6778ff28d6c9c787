/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGS_TOPICS_H
#define ARGS_TOPICS_H

#include "args/parse.h"

/* All commands on one screen. */
void help_overview(FILE *stream, const struct command *const *commands);

/* One command: what it answers, its options, outputs and examples. */
void help_command(FILE *stream, const struct command *command);

/* The n-th topic that is not a rule; NULL past the end. */
const char *help_topic_name(size_t index);

/* The glossary: words that messages and manual use, one line per word. */
extern const char help_words[];

/* Of an enum option_kind: "flag", "count", "integer", "size", "word", "text", "words". */
const char *help_kind_name(unsigned kind);

/* Help that is not a table of the program: one row per topic. */
struct topic {
	const char *name;
	const char *text; /* lines of at most 80 columns, the last ended too */
};

/* NULL past the end. */
const struct topic *topic_at(size_t index);

/* NULL: unknown name. */
const struct topic *topic_find(const char *name);

/* What to type instead of a command, an option ("--name") or an output of an earlier version;
 * NULL: it is none. `command` has the option or output; NULL: any, and dashes may lack. */
const char *removed_word(const char *word, const char *command);

#endif
