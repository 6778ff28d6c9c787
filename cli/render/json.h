/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_JSON_H
#define RENDER_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include "render/record.h"
#include "render/out.h"
#include "render/writer.h"

/*
 * None of these is called json_something: that is how jansson names its own, and both
 * may be in one program.
 *
 * A string with its quotes. Always valid UTF-8: each maximal run of invalid
 * bytes becomes U+FFFD, and false is returned. Characters that a terminal may not show are
 * written as \uNNNN, like all beyond ASCII into a writer that is `ascii`.
 */
bool write_json_string(struct writer *writer, const char *data, size_t size);

/* Any value; absent is null. False: a text was repaired. */
bool write_json_value(struct writer *writer, const struct value *value);

/* A string with its quotes: base64 of the bytes as they are. */
void write_json_base64(struct writer *writer, struct text text);

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
 * of records. It is self-contained: a record with a name is a definition, other objects are
 * described where they are used. If the answer has items, the definition `record` is that
 * of a line of JSON Lines. Rows without `about` have no description.
 *
 * Ends with a newline. A write that fails is seen in the stream. False: out of memory.
 */
bool schema_write(FILE *stream, const struct schema_of *of);

#endif
