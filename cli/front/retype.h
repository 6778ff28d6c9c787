/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RETYPE_H
#define RETYPE_H

#include "front/option.h"

/*
 * A line to type instead of the one that was typed: "fsdp-inspect" and words, each quoted
 * as a shell takes it. What does not fit is cut off.
 */
struct retyped {
	char text[300];
	size_t size;
};

/* Begins with these words, up to NULL. */
void retyped_line(struct retyped *line, ...) __attribute__((sentinel));
/* Behind a space. */
void retyped_word(struct retyped *line, const char *word);

/* "did you mean: fsdp-inspect …", the command first; and why, unless that is NULL. */
void retyped_hint(struct usage *usage, const struct texts *words, const char *why);

#endif
