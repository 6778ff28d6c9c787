/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes answers for people: sentences, tables, trees. What comes from a file passes
 * escape_put on its way.
 */
#include <errno.h>
#include <stdlib.h>

#include "render/escape.h"
#include "render/functions.h"
#include "render/grid.h"
#include "render/json-value.h"
#include "render/plain.h"
#include "render/record.h"
#include "render/writer.h"

enum {
	LABEL_INDENT = 2,
	LABEL_WIDTH = 13,
	NAME_BYTES = 4096,
	INDENT = 4,
	TABLE_INDENT = 2, /* of a tree behind numbers */
	INDENT_LEVELS = 256,
	TRAILS = 8,
	LONGEST_LABEL = 160, /* columns of the name of a node on a terminal */
	HANG = 4,            /* of the second line of a sentence without a label … */
	HANG_FINDING = 9,    /* … and of one that begins with a severity */
};

#define DIM "\033[2m"
#define GREEN_BOLD "\033[1;32m"
#define PLAIN "\033[0m"

struct text_out {
	struct out base;
	struct looks looks;
	int error;
	struct writer stream;
	struct writer raw; /* something to be escaped, or to be shortened */
	struct grid grid;
	struct writer line; /* the sentence so far */
	size_t pending;     /* spaces before the next piece of a line */
	size_t hang;        /* where its second line begins */
	size_t kept;        /* where what is not broken begins in it, or SIZE_MAX */

	bool hidden;  /* the table is for programs */
	size_t leads; /* values in front of each node of a tree */
	size_t row_count;
	struct columns columns;
};

static struct text_out *text_out_of(struct out *out)
{
	return (struct text_out *)out;
}

/* ---- values ---- */

/* To four digits: machine outputs have all. */
static void put_number(struct writer *to, double number)
{
	char buffer[32];

	snprintf(buffer, sizeof buffer, "%.4g", number);
	writer_text(to, buffer);
}

static void put_escaped(
	struct text_out *text, struct writer *to, const char *data, size_t size)
{
	size_t most = text->looks.name_bytes != 0 ? text->looks.name_bytes : NAME_BYTES;
	size_t shown = escape_cut(data, size, most);
	escape_put(to, data, shown, ESCAPE_TEXT);
	if (shown == size)
		return;
	writer_text(to, text->looks.ascii ? "...(" : "\xe2\x80\xa6(");
	writer_count(to, size);
	writer_text(to, " bytes)");
}

static void put_raw(struct text_out *text, struct writer *to)
{
	put_escaped(text, to, text->raw.data, text->raw.size);
}

static void put_bytes(struct text_out *text, struct writer *to, uint64_t count)
{
	char buffer[HUMAN_ROOM];
	if (text->looks.sizes == HUMAN_EXACT)
		writer_count(to, count);
	else
		writer_text(to, human_bytes(count, text->looks.sizes, buffer));
}

static void put_elements(struct writer *to, uint64_t count, bool short_numbers)
{
	char buffer[HUMAN_ROOM];
	if (short_numbers)
		writer_text(to, human_elements(count, buffer));
	else
		writer_count(to, count);
}

/* in_line: of a sentence, not of a table. */
static void put_value(
	struct text_out *text, struct writer *to, const struct value *value, bool in_line)
{
	switch (value->type) {
	case VALUE_ABSENT:
		writer_char(to, '-');
		break;
	case VALUE_NULL:
		writer_text(to, "none");
		break;
	case VALUE_BOOL:
		writer_text(to, value->boolean ? "yes" : "no");
		break;
	case VALUE_COUNT:
		writer_count(to, value->count);
		break;
	case VALUE_BYTES:
		put_bytes(text, to, value->count);
		break;
	case VALUE_ELEMENTS:
		put_elements(to, value->count, in_line);
		break;
	case VALUE_INTEGER:
		writer_integer(to, value->integer);
		break;
	case VALUE_NS:
		writer_text(to, human_ms(value->integer, (char[HUMAN_ROOM]){ 0 }));
		break;
	case VALUE_NUMBER:
		put_number(to, value->number);
		break;
	case VALUE_TEXT:
	case VALUE_NAME:
		put_escaped(text, to, value->text.data, value->text.size);
		break;
	case VALUE_SHAPE:
		plain_shape(to, value->shape.items, value->shape.count);
		break;
	case VALUE_COUNTS:
		plain_bars(to, value->shape.items, value->shape.count, text->looks.ascii);
		break;
	case VALUE_TEXTS:
		text->raw.size = 0;
		plain_texts(&text->raw, value->texts.items, value->texts.count,
			in_line ? ", " : ",");
		put_raw(text, to);
		break;
	case VALUE_PATH:
	case VALUE_TOKENS:
		text->raw.size = 0;
		spell_value(&text->raw, value);
		put_raw(text, to);
		break;
	}
}

void text_put_value(
	struct writer *to, const struct looks *looks, const struct value *value)
{
	struct text_out text = { .looks = *looks };
	if (!writer_init(&text.raw, NULL)) {
		to->error = ENOMEM;
		return;
	}
	put_value(&text, to, value, true);
	writer_done(&text.raw);
}

/* ---- lines ---- */

static void flush_pending(struct text_out *text)
{
	writer_spaces(&text->line, text->pending);
	text->pending = 0;
}

static void line_begin(struct out *out, const char *label)
{
	struct text_out *text = text_out_of(out);
	text->line.size = 0;
	text->pending = 0;
	text->hang = HANG;
	text->kept = SIZE_MAX;
	if (label == NULL)
		return;
	size_t size = strlen(label);
	size_t width = width_of(label, size);
	text->pending = LABEL_INDENT;
	if (size != 0) {
		flush_pending(text);
		escape_put(&text->line, label, size, ESCAPE_TEXT);
	}
	text->pending += width + 2 <= LABEL_WIDTH ? LABEL_WIDTH - width : 2;
	text->hang = LABEL_INDENT + LABEL_WIDTH;
}

static void put_formatted(struct text_out *text, const char *data, size_t size)
{
	if (size == 0)
		return;
	flush_pending(text);
	escape_put(&text->line, data, size, ESCAPE_TEXT);
}

__attribute__((format(printf, 2, 0))) static void line_text(
	struct out *out, const char *format, va_list arguments)
{
	struct text_out *text = text_out_of(out);
	char small[512];
	va_list again;
	va_copy(again, arguments);
	int size = vsnprintf(small, sizeof small, format, arguments);
	if (size >= (int)sizeof small) {
		char *large = malloc((size_t)size + 1);
		if (large != NULL) {
			vsnprintf(large, (size_t)size + 1, format, again);
			put_formatted(text, large, (size_t)size);
		} else {
			text->error = ENOMEM;
		}
		free(large);
	} else if (size > 0) {
		put_formatted(text, small, (size_t)size);
	}
	va_end(again);
}

static void line_name(struct out *out, struct text name)
{
	struct text_out *text = text_out_of(out);
	if (name.size == 0)
		return;
	flush_pending(text);
	put_escaped(text, &text->line, name.data, name.size);
}

static void glue_from(struct text_out *text, size_t begin)
{
	for (size_t i = begin; i < text->line.size; i++)
		if (text->line.data[i] == ' ')
			text->line.data[i] = WRAP_GLUE;
}

static void line_value(struct out *out, const struct value *value)
{
	struct text_out *text = text_out_of(out);
	flush_pending(text);
	size_t begin = text->line.size;
	put_value(text, &text->line, value, true);
	if (value->type == VALUE_BYTES || value->type == VALUE_ELEMENTS)
		glue_from(text, begin);
}

static void line_keep(struct out *out, bool keep)
{
	struct text_out *text = text_out_of(out);
	flush_pending(text);
	glue_from(text, text->kept);
	text->kept = keep ? text->line.size : SIZE_MAX;
}

static void line_severity(struct out *out, enum severity severity)
{
	static const char *const paints[] = {
		[SEVERITY_NOTE] = "\033[36m",
		[SEVERITY_WARNING] = "\033[33m",
		[SEVERITY_ERROR] = "\033[1;31m",
	};
	struct text_out *text = text_out_of(out);

	flush_pending(text);
	text->hang = HANG_FINDING;
	if (text->looks.color)
		writer_text(&text->line, paints[severity]);
	writer_text(&text->line, severity_name(severity));
	if (text->looks.color)
		writer_text(&text->line, PLAIN);
}

static void line_end(struct out *out)
{
	struct text_out *text = text_out_of(out);
	const struct writer *line = &text->line;
	size_t indent = 0;
	while (indent < line->size && line->data[indent] == ' ')
		indent++;
	glue_from(text, text->kept);
	/* What is indented by hand goes on below its beginning. */
	if (indent > LABEL_INDENT)
		text->hang = indent;
	text->pending = 0;
	if (line->error == 0)
		wrap_put(&text->stream, line->data, line->size, (size_t)text->looks.width,
			text->hang, 0);
	writer_char(&text->stream, '\n');
}

static void verbatim(struct out *out, struct text lines)
{
	struct text_out *text = text_out_of(out);
	const char *data = lines.data;
	size_t size = lines.size;
	while (size != 0) {
		const char *newline = memchr(data, '\n', size);
		size_t length = newline != NULL ? (size_t)(newline - data) : size;
		escape_put(&text->stream, data, length, ESCAPE_TEXT);
		if (newline == NULL)
			return;
		writer_char(&text->stream, '\n');
		data += length + 1;
		size -= length + 1;
	}
}

/* ---- tables ---- */

static void put_heading(struct writer *to, const struct column *column)
{
	for (const char *c = column_label(column); *c != '\0'; c++) {
		bool lower = *c >= 'a' && *c <= 'z';
		writer_char(to, lower ? (char)(*c - 'a' + 'A') : *c);
	}
}

static void put_header(struct text_out *text, const struct table *table)
{
	for (size_t i = 0; i < text->columns.count; i++) {
		const struct column *column = &table->columns[text->columns.items[i]];
		struct writer *cell = grid_cell_begin(&text->grid);
		grid_style(&text->grid, DIM);
		put_heading(cell, column);
		grid_style(&text->grid, PLAIN);
		grid_cell_end(&text->grid, false);
	}
	grid_row_end(&text->grid);
}

static bool is_right(const struct column *column)
{
	return column->right || (column->type >= FIELD_COUNT && column->type <= FIELD_NS);
}

static void put_head(struct text_out *text, const char *head)
{
	struct writer *cell = grid_cell_begin(&text->grid);
	if (*head != '\0') {
		grid_style(&text->grid, DIM);
		writer_text(cell, head);
		grid_style(&text->grid, PLAIN);
	}
	grid_cell_end(&text->grid, false);
}

static void tree_begin(struct text_out *text, const struct table *table)
{
	text->leads = 0;
	while (table->heads != NULL && table->heads[text->leads] != NULL)
		text->leads++;
	grid_begin(&text->grid, text->leads + 1 + TRAILS, table->indent);
	for (size_t i = 0; i < text->leads + 1 + TRAILS; i++)
		text->grid.columns[i].right = i != text->leads;
	for (size_t i = 0; i < text->leads; i++)
		text->grid.columns[i].may_go = true;
	text->grid.columns[text->leads].wraps = true;
	if (text->leads == 0)
		return;
	for (size_t i = 0; i < text->leads; i++)
		put_head(text, table->heads[i]);
	put_head(text, "MODULE");
	for (size_t i = 0; i < TRAILS; i++)
		put_head(text, "");
	grid_row_end(&text->grid);
}

static void table_begin(struct out *out, const struct table *table)
{
	struct text_out *text = text_out_of(out);
	text->hidden = table->machine_only || table->rows_only;
	if (text->hidden)
		return;
	columns_for_text(table, &text->columns);
	text->row_count = 0;
	if (table->tree) {
		tree_begin(text, table);
		return;
	}
	grid_begin(&text->grid, text->columns.count, table->indent);
	for (size_t i = 0; i < text->columns.count; i++) {
		const struct column *column = &table->columns[text->columns.items[i]];
		text->grid.columns[i].right = is_right(column);
		text->grid.columns[i].label = column_label(column);
		text->grid.columns[i].may_go = table->chosen_count == 0;
	}
	if (!table->no_header)
		put_header(text, table);
}

static bool says_something(const struct value *value)
{
	return value->type != VALUE_ABSENT &&
	       (value->type != VALUE_TEXT || value->text.size != 0);
}

static void row(struct out *out, const struct value *values)
{
	struct text_out *text = text_out_of(out);
	if (text->hidden || text->columns.count == 0)
		return;
	for (size_t i = 0; i < text->columns.count; i++) {
		const struct value *value = &values[text->columns.items[i]];
		struct writer *cell = grid_cell_begin(&text->grid);
		text->grid.columns[i].used |= says_something(value);
		put_value(text, cell, value, false);
		grid_cell_end(&text->grid, value->type == VALUE_NAME);
	}
	grid_row_end(&text->grid);
	text->row_count++;
}

static void table_end(struct out *out)
{
	struct text_out *text = text_out_of(out);
	/* A header over nothing says nothing. */
	if (!text->hidden && text->row_count == 0)
		grid_drop(&text->grid);
	else if (!text->hidden)
		grid_end(&text->grid);
	text->hidden = false;
}

/* ---- trees ---- */

static size_t indent_of(const struct text_out *text)
{
	return text->leads > 0 ? TABLE_INDENT : INDENT;
}

static void put_indent(struct text_out *text, struct writer *cell, uint32_t depth)
{
	if (depth <= INDENT_LEVELS) {
		writer_spaces(cell, (size_t)depth * indent_of(text));
		return;
	}
	writer_char(cell, '{');
	writer_count(cell, depth);
	writer_text(cell, "} ");
}

/* Columns for the name on a terminal, or SIZE_MAX. Neighbours may differ in the middle of
 * their names, so only what would fill lines is shortened. */
static size_t room_for_name(const struct text_out *text)
{
	return text->looks.width <= 0 ? SIZE_MAX : LONGEST_LABEL;
}

static void put_node_name(
	struct text_out *text, struct writer *cell, const struct tree_node *node)
{
	size_t room = room_for_name(text);
	if (node->name.size == 0 && node->class_name.data == NULL) {
		writer_text(cell, "(root)");
	} else if (node->name.size <= room / 8) {
		/* However it is escaped it fits: \u{nnnn} is the longest. */
		put_escaped(text, cell, node->name.data, node->name.size);
	} else {
		struct writer *raw = &text->raw;
		raw->size = 0;
		put_escaped(text, raw, node->name.data, node->name.size);
		if (width_of(raw->data, raw->size) <= room)
			writer_put(cell, raw->data, raw->size);
		else
			grid_put_short(
				cell, raw->data, raw->size, room, text->looks.ascii);
	}
}

static void put_class(
	struct text_out *text, struct writer *cell, const struct tree_node *node)
{
	if (node->class_name.data == NULL)
		return;
	grid_style(&text->grid, DIM);
	writer_text(cell, node->class_guessed ? "[~" : "[");
	put_escaped(text, cell, node->class_name.data, node->class_name.size);
	writer_char(cell, ']');
	grid_style(&text->grid, PLAIN);
}

static void put_label(struct text_out *text, const struct tree_node *node)
{
	struct writer *cell = grid_cell_begin(&text->grid);
	put_indent(text, cell, node->depth);
	put_node_name(text, cell, node);
	put_class(text, cell, node);
	if (node->mark != NULL) {
		writer_char(cell, ' ');
		grid_style(&text->grid, GREEN_BOLD);
		writer_text(cell, node->mark);
		grid_style(&text->grid, PLAIN);
	}
	grid_cell_end(&text->grid, false);
}

static void node(struct out *out, const struct tree_node *tree_node)
{
	struct text_out *text = text_out_of(out);
	if (text->hidden)
		return;
	for (size_t i = 0; i < text->leads; i++) {
		struct writer *cell = grid_cell_begin(&text->grid);
		if (tree_node->lead != NULL) {
			text->grid.columns[i].used |= says_something(&tree_node->lead[i]);
			put_value(text, cell, &tree_node->lead[i], true);
		}
		grid_cell_end(&text->grid, false);
	}
	put_label(text, tree_node);
	for (size_t i = 0; i < TRAILS; i++) {
		struct writer *cell = grid_cell_begin(&text->grid);
		if (tree_node->trail != NULL && i < tree_node->trail_count &&
			tree_node->trail[i].type != VALUE_ABSENT)
			put_value(text, cell, &tree_node->trail[i], true);
		grid_cell_end(&text->grid, false);
	}
	grid_row_end(&text->grid);
	text->row_count++;
}

/* ---- life ---- */

static void end(struct out *out, const struct out_footer *footer)
{
	(void)footer;
	writer_flush(&text_out_of(out)->stream);
}

static const struct looks *looks_of(const struct out *out)
{
	return &((const struct text_out *)out)->looks;
}

static int finish(struct out *out)
{
	struct text_out *text = text_out_of(out);
	int error =
		WRITERS_FINISH(&text->stream, &text->grid.kept, &text->line, &text->raw);
	return error != 0 ? error : text->error;
}

static void free_text(struct out *out)
{
	struct text_out *text = text_out_of(out);
	writer_done(&text->stream);
	writer_done(&text->line);
	writer_done(&text->raw);
	grid_done(&text->grid);
	free(text);
}

static struct out *new_text(FILE *stream, const struct looks *looks)
{
	struct text_out *text = calloc(1, sizeof *text);
	if (text == NULL)
		return NULL;
	text->base.functions = &text_functions;
	text->looks = *looks;
	bool ok = writer_init(&text->stream, stream);
	ok = writer_init(&text->line, NULL) && ok;
	ok = writer_init(&text->raw, NULL) && ok;
	ok = grid_init(&text->grid, &text->stream, &text->looks) && ok;
	text->stream.ascii = text->line.ascii = looks->seven_bits;
	if (ok)
		return &text->base;
	free_text(&text->base);
	return NULL;
}

const struct out_functions text_functions = {
	.new = new_text,
	.looks = looks_of,
	.finish = finish,
	.free = free_text,
	.end = end,
	.line_begin = line_begin,
	.line_text = line_text,
	.line_name = line_name,
	.line_value = line_value,
	.line_severity = line_severity,
	.line_keep = line_keep,
	.line_end = line_end,
	.verbatim = verbatim,
	.shows = columns_for_text,
	.table_begin = table_begin,
	.row = row,
	.table_end = table_end,
	.node = node,
};
