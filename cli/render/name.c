/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one name a line, for shells. Under -0 the names are raw and end with a zero
 * byte: the only raw output there is.
 */
#include <stdlib.h>

#include "render/escape.h"
#include "render/functions.h"

struct name {
	struct out base;
	bool raw;
	bool active; /* in the main table */
	bool decided;
	size_t column;
	size_t column_count;
	struct writer stream;
};

static struct name *name_of(struct out *out)
{
	return (struct name *)out;
}

static void table_begin(struct out *out, const struct table *table)
{
	struct name *name = name_of(out);
	name->active = table->main && !table->text_only && table->column_count != 0;
	name->decided = false;
	name->column = 0;
	name->column_count = table->column_count;
	for (size_t i = 0; i < table->column_count && !name->decided; i++) {
		name->decided = strcmp(table->columns[i].name, "name") == 0;
		name->column = name->decided ? i : 0;
	}
}

/* Names alone, chosen or not; or any, one of which will turn out to hold them. */
static void shows(const struct table *table, struct columns *ret_columns)
{
	columns_for_machine(table, ret_columns);
	for (size_t i = 0; i < table->column_count; i++)
		if (strcmp(table->columns[i].name, "name") == 0) {
			*ret_columns = (struct columns){ 1, { i } };
			return;
		}
}

/* No column of that name: the first that holds one in the first row, else the first. */
static void decide(struct name *name, const struct value *values)
{
	name->decided = true;
	size_t column = 0;
	while (column < name->column_count && values[column].type != VALUE_NAME)
		column++;
	name->column = column < name->column_count ? column : 0;
}

static void row(struct out *out, const struct value *values)
{
	struct name *name = name_of(out);
	if (!name->active)
		return;
	if (!name->decided)
		decide(name, values);
	const struct value *value = &values[name->column];
	if (value->type == VALUE_COUNT)
		writer_count(&name->stream, value->count);
	else if (value->type == VALUE_INTEGER || value->type == VALUE_NS)
		writer_integer(&name->stream, value->integer);
	else if (value->type != VALUE_NAME && value->type != VALUE_TEXT)
		return;
	else if (name->raw)
		writer_put(&name->stream, value->text.data, value->text.size);
	else
		escape_put(
			&name->stream, value->text.data, value->text.size, ESCAPE_TEXT);
	writer_char(&name->stream, name->raw ? '\0' : '\n');
}

static void table_end(struct out *out)
{
	name_of(out)->active = false;
}

static void end(struct out *out, const struct out_footer *footer)
{
	(void)footer;
	writer_flush(&name_of(out)->stream);
}

static int finish(struct out *out)
{
	return WRITERS_FINISH(&name_of(out)->stream);
}

static void free_name(struct out *out)
{
	writer_done(&name_of(out)->stream);
	free(out);
}

static struct out *new_name(FILE *stream, const struct looks *looks)
{
	struct name *name = calloc(1, sizeof *name);
	if (name == NULL)
		return NULL;
	name->base.functions = &name_functions;
	name->raw = looks->null_names;
	bool ok = writer_init(&name->stream, stream);
	name->stream.ascii = looks->seven_bits;
	if (ok)
		return &name->base;
	free(name);
	return NULL;
}

const struct out_functions name_functions = {
	.new = new_name,
	.finish = finish,
	.free = free_name,
	.end = end,
	.shows = shows,
	.table_begin = table_begin,
	.row = row,
	.table_end = table_end,
};
