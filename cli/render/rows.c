/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes rows for spreadsheets and shells: the main table as CSV or TSV, or one name per
 * line.
 */
#include "render/writer.h"
#include "render/output-functions.h"

/*
 * Writes the main table, in the columns that people see, as cells between commas (csv,
 * RFC 4180) or tabs (tsv). A text that a spreadsheet would take for a formula gets a ' in
 * front; a number never does.
 */

struct separated {
	struct out base;
	bool tabs;
	bool active; /* in the main table */
	struct columns columns;
	struct writer stream;
	struct writer raw;  /* a list, before it is escaped */
	struct writer cell; /* a cell, before it is quoted */
};

static struct separated *separated_of(struct out *out)
{
	return (struct separated *)out;
}

/* A lone empty cell would be an empty line, which readers skip. */
static bool needs_quotes(const struct separated *separated, const char *data, size_t size)
{
	if (size == 0)
		return separated->columns.count == 1;
	for (size_t i = 0; i < size; i++)
		if (data[i] == ',' || data[i] == '"' || data[i] == '\n' ||
			data[i] == '\r')
			return true;
	return false;
}

static void write_quoted(struct separated *separated, const char *data, size_t size)
{
	struct writer *to = &separated->stream;
	if (separated->tabs || !needs_quotes(separated, data, size)) {
		writer_put(to, data, size);
		return;
	}
	writer_char(to, '"');
	for (size_t i = 0; i < size; i++) {
		if (data[i] == '"')
			writer_char(to, '"');
		writer_char(to, data[i]);
	}
	writer_char(to, '"');
}

static void write_text(struct separated *separated, const char *data, size_t size)
{
	struct writer *cell = &separated->cell;
	cell->size = 0;
	if (size != 0 && memchr("=+-@\t\r", data[0], 6) != NULL)
		writer_char(cell, '\'');
	escape_write(cell, data, size, separated->tabs ? ESCAPE_TSV : ESCAPE_CSV);
	write_quoted(separated, cell->data, cell->size);
}

static void write_value(struct separated *separated, const struct value *value)
{
	struct writer *to = &separated->stream;
	switch (value->type) {
	case VALUE_ABSENT:
	case VALUE_NULL:
		write_quoted(separated, "", 0);
		break;
	case VALUE_BOOL:
		writer_text(to, value->boolean ? "true" : "false");
		break;
	case VALUE_COUNT:
	case VALUE_BYTES:
	case VALUE_ELEMENTS:
		writer_count(to, value->count);
		break;
	case VALUE_INTEGER:
	case VALUE_NS:
		writer_integer(to, value->integer);
		break;
	case VALUE_NUMBER:
		writer_number(to, value->number);
		break;
	case VALUE_TEXT:
	case VALUE_NAME:
		write_text(separated, value->text.data, value->text.size);
		break;
	case VALUE_SHAPE:
		plain_shape(to, value->shape.items, value->shape.count);
		break;
	case VALUE_COUNTS:
		plain_counts(to, value->shape.items, value->shape.count);
		break;
	case VALUE_TEXTS:
	case VALUE_PATH:
	case VALUE_TOKENS: {
		struct writer *raw = &separated->raw;
		raw->size = 0;
		if (value->type == VALUE_TEXTS)
			plain_texts(raw, value->texts.items, value->texts.count, ",");
		else
			write_json_value(raw, value);
		write_text(separated, raw->data, raw->size);
	} break;
	}
}

static void end_line(struct separated *separated)
{
	if (separated->tabs)
		writer_char(&separated->stream, '\n');
	else
		writer_put(&separated->stream, "\r\n", 2);
}

static void write_separator(struct separated *separated, size_t index)
{
	if (index != 0)
		writer_char(&separated->stream, separated->tabs ? '\t' : ',');
}

static void table_begin(struct out *out, const struct table *table)
{
	struct separated *separated = separated_of(out);
	separated->active = table->main && !table->text_only;
	if (!separated->active)
		return;
	columns_for_rows(table, &separated->columns);
	if (table->no_header)
		return;
	for (size_t i = 0; i < separated->columns.count; i++) {
		write_separator(separated, i);
		writer_text(&separated->stream,
			table->columns[separated->columns.items[i]].name);
	}
	end_line(separated);
}

static void row(struct out *out, const struct value *values)
{
	struct separated *separated = separated_of(out);
	if (!separated->active)
		return;
	for (size_t i = 0; i < separated->columns.count; i++) {
		write_separator(separated, i);
		write_value(separated, &values[separated->columns.items[i]]);
	}
	end_line(separated);
}

static void table_end(struct out *out)
{
	separated_of(out)->active = false;
}

static void end(struct out *out, const struct out_footer *footer)
{
	(void)footer;
	writer_flush(&separated_of(out)->stream);
}

static void separated_start(struct out *out, FILE *stream, const struct looks *looks)
{
	(void)stream;
	separated_of(out)->tabs = out->functions == &tsv_functions;
	separated_of(out)->cell.ascii = looks->seven_bits;
}

#define SEPARATED_FUNCTIONS                                                          \
	.size = sizeof(struct separated),                                            \
	.writers = { offsetof(struct separated, stream),                             \
		offsetof(struct separated, raw), offsetof(struct separated, cell) }, \
	.start = separated_start, .end = end, .shows = columns_for_rows,             \
	.table_begin = table_begin, .row = row, .table_end = table_end

const struct out_functions csv_functions = { SEPARATED_FUNCTIONS };
const struct out_functions tsv_functions = { SEPARATED_FUNCTIONS };

/*
 * Writes one name a line, for shells. Under -0 the names are raw and end with a zero
 * byte: the only raw output there is.
 */

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

static void name_table_begin(struct out *out, const struct table *table)
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

/* Only names, chosen or not; or any columns, and one of them will contain the names. */
static void shows(const struct table *table, struct columns *ret_columns)
{
	columns_for_machine(table, ret_columns);
	for (size_t i = 0; i < table->column_count; i++)
		if (strcmp(table->columns[i].name, "name") == 0) {
			*ret_columns = (struct columns){ 1, { i } };
			return;
		}
}

static void name_row(struct out *out, const struct value *values)
{
	struct name *name = name_of(out);
	if (!name->active)
		return;
	if (!name->decided) {
		/* No column of that name: the first that holds one in the first row, else
		 * the first. */
		name->decided = true;
		size_t column = 0;
		while (column < name->column_count && values[column].type != VALUE_NAME)
			column++;
		name->column = column < name->column_count ? column : 0;
	}
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
		escape_write(
			&name->stream, value->text.data, value->text.size, ESCAPE_TEXT);
	writer_char(&name->stream, name->raw ? '\0' : '\n');
}

static void name_table_end(struct out *out)
{
	name_of(out)->active = false;
}

static void name_end(struct out *out, const struct out_footer *footer)
{
	(void)footer;
	writer_flush(&name_of(out)->stream);
}

static void name_start(struct out *out, FILE *stream, const struct looks *looks)
{
	(void)stream;
	name_of(out)->raw = looks->null_names;
	name_of(out)->stream.ascii = looks->seven_bits;
}

const struct out_functions name_functions = {
	.size = sizeof(struct name),
	.writers = { offsetof(struct name, stream) },
	.start = name_start,
	.end = name_end,
	.shows = shows,
	.table_begin = name_table_begin,
	.row = name_row,
	.table_end = name_table_end,
};
