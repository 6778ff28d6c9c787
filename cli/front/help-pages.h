/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HELP_H
#define HELP_H

#include "front/command.h"

/* All commands on one screen. */
void help_overview(FILE *stream, const struct command *const *commands);

/* One command: what it answers, its options, outputs and examples. */
void help_command(FILE *stream, const struct command *command);

/* The n-th topic that is not a rule; NULL past the end. */
const char *help_topic_name(size_t index);

/* The glossary: a line for each word. */
extern const char help_words[];

/* Of an enum option_kind: "flag", "count", "integer", "size", "word", "text", "words". */
const char *help_kind_name(unsigned kind);

#endif
