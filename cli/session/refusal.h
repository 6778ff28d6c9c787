/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REFUSAL_H
#define REFUSAL_H

#include <stdio.h>

#include "args/parse.h"

/* A command line that was refused, as a document, if one of its words asks for json or
 * jsonl on standard output; else nothing. `words` end with NULL; command NULL: it has
 * none. */
void refusal_put(FILE *stream, char *const *words, const struct command *command,
	const struct usage *usage);

#endif
