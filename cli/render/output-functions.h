/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_OUTPUT_FUNCTIONS_H
#define RENDER_OUTPUT_FUNCTIONS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "render/out.h"
#include "render/record.h"
#include "render/writer.h"

/* The columns that an output shows of a table: indexes, in order. */
struct columns {
	size_t count;
	size_t items[COLUMNS_MAX];
};

enum { OUT_WRITERS = 5 };

/*
 * What an output is made of; inside this room only. Every output's own struct begins with
 * a struct out. A function that is NULL means: this output has no use for that.
 */
struct out_functions {
	/* Size of its own struct, and offsets of its writers in it: the first one
	 * has the stream, the others stay in memory. 0 ends them. */
	size_t size, writers[OUT_WRITERS];
	/* Once the writers are there; NULL: nothing more is to be done. */
	void (*start)(struct out *out, FILE *stream, const struct looks *looks);
	/* How an output for people looks; NULL: it is none. */
	const struct looks *(*looks)(const struct out *out);
	/* NULL: out_finish_writers(). */
	int (*finish)(struct out *out);
	/* Its data in addition to its writers; NULL: no data. */
	void (*free)(struct out *out);
	void (*begin)(struct out *out, const struct out_header *header);
	void (*end)(struct out *out, const struct out_footer *footer);

	/* key.data NULL: none. named: the key comes from a file. */
	void (*object_begin)(struct out *out, struct text key, bool named);
	void (*object_end)(struct out *out);
	void (*array_begin)(struct out *out, struct text key, bool named);
	void (*items_begin)(struct out *out, struct text key);
	void (*array_end)(struct out *out);
	void (*field)(
		struct out *out, struct text key, const struct value *value, bool named);

	void (*line_begin)(struct out *out, const char *label);
	void (*line_text)(struct out *out, const char *format, va_list arguments);
	void (*line_name)(struct out *out, struct text name);
	void (*line_value)(struct out *out, const struct value *value);
	void (*line_painted)(struct out *out, const char *word);
	void (*line_keep)(struct out *out, bool keep);
	void (*line_end)(struct out *out);
	void (*verbatim)(struct out *out, struct text text);

	/* Which columns of a table are shown; NULL: none of any. */
	void (*shows)(const struct table *table, struct columns *ret_columns);
	void (*table_begin)(struct out *out, const struct table *table);
	void (*row)(struct out *out, const struct value *values);
	void (*table_end)(struct out *out);
	/* Before the row; NULL: the row says it all. */
	void (*node)(struct out *out, const struct tree_node *node);

	void (*weighed)(struct out *out, const struct weighed *part);
	void (*timed)(struct out *out, const struct timed_span *span);
	void (*clock)(struct out *out, const struct timed_clock *clock);
	/* Of an output that shows nothing of an answer but what is emitted for it alone:
	 * where that goes. */
	struct out *(*aside)(struct out *out);
};

struct out {
	const struct out_functions *functions;
	int error;                 /* the first that no writer has: errno, or 0 */
	const char *const *wanted; /* columns, from out_choose */
	size_t wanted_count;
	const char *unknown; /* the first of these that the table lacks */
	bool has_chosen;     /* some output showed them */
};

extern const struct out_functions chrome_functions;
extern const struct out_functions csv_functions;
extern const struct out_functions html_functions;
extern const struct out_functions json_functions;
extern const struct out_functions jsonl_functions;
extern const struct out_functions name_functions;
extern const struct out_functions ncdu_functions;
extern const struct out_functions plan_functions;
extern const struct out_functions sarif_functions;
extern const struct out_functions text_functions;
extern const struct out_functions tsv_functions;

/* What heads a column for people. */
static inline const char *column_label(const struct column *column)
{
	return column->label != NULL ? column->label : column->name;
}

/* Makes one that writes to a stream. */
struct out *out_start(
	const struct out_functions *functions, FILE *stream, const struct looks *looks);

/* Flushes its writers. 0, or the errno of the first that failed, or its own. */
int out_finish_writers(struct out *out);

void columns_for_machine(const struct table *table, struct columns *ret_columns);
/* Those of text, unless the table is not for people: all. */
void columns_for_rows(const struct table *table, struct columns *ret_columns);
void columns_for_text(const struct table *table, struct columns *ret_columns);

/* Lists as people write them, for outputs that have no lists. */

/* 4096x14336; a scalar is []. */
void plain_shape(struct writer *writer, const int64_t *items, size_t count);

/* With blanks between. */
void plain_counts(struct writer *writer, const int64_t *items, size_t count);

/* A bar for each, as high as it is compared with the largest; of 0 none. */
void plain_bars(struct writer *writer, const int64_t *items, size_t count, bool ascii);

/* Joined, bytes as they are: escape the result. */
void plain_texts(struct writer *writer, const struct text *items, size_t count,
	const char *separator);

/*
 * None of these is called json_something: that is how jansson names its own, and both may
 * be in one program.
 *
 * A string with its quotes. Always valid UTF-8: each maximal run of invalid bytes becomes
 * U+FFFD, and false is returned. Characters that a terminal may not show are written as
 * \uNNNN, like all beyond ASCII into a writer that is `ascii`.
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
 * of records. It is self-contained: a record with a name is a definition, other objects
 * are described where they are used. If the answer has items, the definition `record` is
 * that of a line of JSON Lines. Rows without `about` have no description.
 *
 * Ends with a newline. A write that fails is seen in the stream.
 */
void schema_write(FILE *stream, const struct schema_of *of);

#endif
