/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_JSON_SCHEMA_H
#define RENDER_JSON_SCHEMA_H

#include <stdbool.h>
#include <stdio.h>

#include "render/record.h"

/* What a schema document describes: the machine outputs of one command. */
struct schema_of {
	const char *command;
	const struct record *answer; /* `data` */
	bool separate; /* there may be an answer for each of several inputs */
};

/* Lines of JSON Lines, for who reads them. `data` of the last one is an answer. */
extern const struct record jsonl_header, jsonl_finding, jsonl_error, jsonl_end;

/*
 * Writes the JSON Schema (draft 2020-12) of a command's document, printed from the rows
 * of records. It stands alone: a record with a name is a definition, other objects are
 * described where they are used. If the answer has items, the definition `record` is that
 * of a line of JSON Lines. Rows without `about` have no description.
 *
 * Ends with a newline. A write that fails is seen in the stream. False: out of memory.
 */
bool schema_write(FILE *stream, const struct schema_of *of);

#endif
