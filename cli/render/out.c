/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes the answer of a command to its outputs; code that several outputs share.
 */
#include <stdlib.h>
#include <string.h>

#include "render/output-functions.h"

static bool shows(const struct table *table, size_t index, bool machine)
{
	const struct column *column = &table->columns[index];

	if (machine)
		return (column->text_only >> table->view & 1) == 0;
	return table->chosen != NULL || (column->machine_only >> table->view & 1) == 0;
}

static void choose_columns(const struct table *table, bool machine, uint64_t omitted,
	struct columns *ret_columns)
{
	size_t count = table->chosen != NULL ? table->chosen_count : table->column_count;
	ret_columns->count = 0;
	for (size_t i = 0; i < count && ret_columns->count < COLUMNS_MAX; i++) {
		size_t index = table->chosen != NULL ? table->chosen[i] : i;
		if (index < table->column_count && shows(table, index, machine) &&
			(table->chosen != NULL || (omitted >> index & 1) == 0))
			ret_columns->items[ret_columns->count++] = index;
	}
}

void columns_for_machine(const struct table *table, struct columns *ret_columns)
{
	choose_columns(table, true, 0, ret_columns);
}

void columns_for_text(const struct table *table, struct columns *ret_columns)
{
	if (table->tree)
		ret_columns->count = 0;
	else
		choose_columns(table, false, table->omitted, ret_columns);
}

void columns_for_rows(const struct table *table, struct columns *ret_columns)
{
	choose_columns(table, table->tree || (table->rows_only && !table->as_text), 0,
		ret_columns);
}

/* ---- columns that were asked for ---- */

struct wanted_columns {
	struct table table;
	size_t items[COLUMNS_MAX];
};

static void choose(struct wanted_columns *choice, size_t index)
{
	if (choice->table.chosen_count < COLUMNS_MAX)
		choice->items[choice->table.chosen_count++] = index;
}

/* The table with what was asked for as its choice. */
static const struct table *with_choice(
	struct out *out, const struct table *table, struct wanted_columns *choice)
{
	if (!table->main || table->chosen != NULL || out->wanted_count == 0)
		return table;
	choice->table = *table;
	choice->table.chosen = choice->items;
	for (size_t i = 0; i < out->wanted_count; i++) {
		size_t index = 0;
		while (index < table->column_count &&
			strcmp(table->columns[index].name, out->wanted[i]) != 0)
			index++;
		bool all = strcmp(out->wanted[i], "all") == 0;
		for (size_t k = 0; all && k < table->column_count; k++)
			if (shows(table, k, true))
				choose(choice, k);
		if (index < table->column_count)
			choose(choice, index);
		else if (!all && out->unknown == NULL)
			out->unknown = out->wanted[i];
	}
	return &choice->table;
}

void out_choose(struct out *out, const char *const *names, size_t count)
{
	out->wanted = names;
	out->wanted_count = count;
}

const char *out_unknown_column(const struct out *out)
{
	return out->unknown;
}

bool out_has_chosen(const struct out *out)
{
	return out->has_chosen;
}

/* Passes a call on to each output of `out` that implements it. The
 * arguments come in parentheses and begin with *each. */
#define PASS_ON(out, function, arguments)                                            \
	do {                                                                         \
		struct out *alone = (out);                                           \
		struct out **each = &alone;                                          \
		for (size_t left = outs_of(alone, &each); left != 0; left--, each++) \
			if ((*each)->functions->function != NULL)                    \
				(*each)->functions->function arguments;              \
	} while (0)

struct many {
	struct out base;
	size_t count;
	struct out *outs[];
};

static int finish_many(struct out *out);
static void free_many(struct out *out);

static const struct out_functions many_functions = {
	.finish = finish_many,
	.free = free_many,
};

/* An output that is not many stands for itself. */
static inline size_t outs_of(struct out *out, struct out ***ret_outs)
{
	if (out->functions != &many_functions)
		return 1;
	struct many *many = (struct many *)out;
	*ret_outs = many->outs;
	return many->count;
}

static int finish_many(struct out *out)
{
	struct many *many = (struct many *)out;
	int first = 0;
	for (size_t i = 0; i < many->count; i++) {
		int error = out_finish(many->outs[i]);
		if (first == 0)
			first = error;
	}
	return first;
}

static void free_many(struct out *out)
{
	struct many *many = (struct many *)out;
	for (size_t i = 0; i < many->count; i++)
		out_free(many->outs[i]);
}

static struct writer *writer_at(struct out *out, size_t index)
{
	size_t at = index < OUT_WRITERS ? out->functions->writers[index] : 0;

	return at != 0 ? (struct writer *)(void *)((char *)out + at) : NULL;
}

struct out *out_start(
	const struct out_functions *functions, FILE *stream, const struct looks *looks)
{
	struct out *out = memory_new(1, functions->size);
	struct writer *writer;

	out->functions = functions;
	for (size_t i = 0; (writer = writer_at(out, i)) != NULL; i++)
		writer_init(writer, i == 0 ? stream : NULL);
	if (functions->start != NULL)
		functions->start(out, stream, looks);
	return out;
}

struct out *out_new(
	const struct out_format *format, FILE *stream, const struct looks *looks)
{
	return out_start(format->functions, stream, looks);
}

struct out *out_many(struct out **outs, size_t count)
{
	struct many *many = memory_new(1, sizeof *many + count * sizeof(struct out *));

	many->base = (struct out){ .functions = &many_functions };
	many->count = count;
	if (count != 0)
		memcpy(many->outs, outs, count * sizeof(struct out *));
	return &many->base;
}

const struct looks *out_looks(struct out *out)
{
	struct out *alone = out;
	struct out **each = &alone;

	for (size_t left = outs_of(out, &each); left != 0; left--, each++)
		if ((*each)->functions->looks != NULL)
			return (*each)->functions->looks(*each);
	return NULL;
}

const char *out_bytes(struct out *out, uint64_t count, char buffer[HUMAN_ROOM])
{
	const struct looks *looks = out_looks(out);

	return human_bytes(count, looks != NULL ? looks->sizes : HUMAN_BINARY, buffer);
}

int out_finish_writers(struct out *out)
{
	struct writer *writer;
	int error = 0;

	for (size_t i = 0; (writer = writer_at(out, i)) != NULL; i++) {
		writer_flush(writer);
		if (error == 0)
			error = writer->error;
	}
	return error != 0 ? error : out->error;
}

int out_finish(struct out *out)
{
	if (out->functions->finish != NULL)
		return out->functions->finish(out);
	return out_finish_writers(out);
}

struct text out_take(struct out *out)
{
	struct writer *writer = writer_at(out, 0);
	const struct text text = { writer->data, writer->size };

	*writer = (struct writer){ 0 };
	return text;
}

void out_free(struct out *out)
{
	struct writer *writer;

	if (out == NULL)
		return;
	for (size_t i = 0; (writer = writer_at(out, i)) != NULL; i++)
		writer_done(writer);
	if (out->functions->free != NULL)
		out->functions->free(out);
	memory_free(out);
}

void out_begin(struct out *out, const struct out_header *header)
{
	PASS_ON(out, begin, (*each, header));
}

void out_end(struct out *out, const struct out_footer *footer)
{
	PASS_ON(out, end, (*each, footer));
}

void out_object_begin(struct out *out, const char *key)
{
	PASS_ON(out, object_begin, (*each, text_of(key), false));
}

void out_object_begin_named(struct out *out, struct text key)
{
	PASS_ON(out, object_begin, (*each, key, true));
}

void out_object_end(struct out *out)
{
	PASS_ON(out, object_end, (*each));
}

void out_array_begin(struct out *out, const char *key)
{
	PASS_ON(out, array_begin, (*each, text_of(key), false));
}

void out_array_begin_named(struct out *out, struct text key)
{
	PASS_ON(out, array_begin, (*each, key, true));
}

void out_items_begin(struct out *out, const char *key)
{
	PASS_ON(out, items_begin, (*each, text_of(key)));
}

void out_array_end(struct out *out)
{
	PASS_ON(out, array_end, (*each));
}

void out_field(struct out *out, const char *key, struct value value)
{
	PASS_ON(out, field, (*each, text_of(key), &value, false));
}

void out_field_named(struct out *out, struct text key, struct value value)
{
	PASS_ON(out, field, (*each, key, &value, true));
}

void out_line_begin(struct out *out, const char *label)
{
	PASS_ON(out, line_begin, (*each, label));
}

/* Each output walks the arguments from their beginning. */
__attribute__((format(printf, 2, 0))) static void pass_text(
	struct out *out, const char *format, va_list arguments)
{
	struct out *alone = out;
	struct out **each = &alone;
	for (size_t left = outs_of(out, &each); left != 0; left--, each++) {
		if ((*each)->functions->line_text == NULL)
			continue;
		va_list own;
		va_copy(own, arguments);
		(*each)->functions->line_text(*each, format, own);
		va_end(own);
	}
}

void out_line_text(struct out *out, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	pass_text(out, format, arguments);
	va_end(arguments);
}

void out_line(struct out *out, const char *label, const char *format, ...)
{
	out_line_begin(out, label);
	va_list arguments;
	va_start(arguments, format);
	pass_text(out, format, arguments);
	va_end(arguments);
	out_line_end(out);
}

void out_line_name(struct out *out, struct text name)
{
	PASS_ON(out, line_name, (*each, name));
}

void out_line_shell(struct out *out, struct text word)
{
	static const char PLAIN[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%";
	bool plain = word.size > 0 && word.data[0] != '-';

	for (size_t i = 0; i < word.size; i++)
		plain = plain && word.data[i] != '\0' &&
			strchr(PLAIN, word.data[i]) != NULL;
	if (plain) {
		out_line_name(out, word);
		return;
	}
	out_line_text(out, "'");
	while (word.size > 0) {
		const char *quote = memchr(word.data, '\'', word.size);
		size_t size = quote != NULL ? (size_t)(quote - word.data) : word.size;
		out_line_name(out, (struct text){ word.data, size });
		if (quote != NULL)
			out_line_text(out, "'\\''");
		size += quote != NULL;
		word = (struct text){ word.data + size, word.size - size };
	}
	out_line_text(out, "'");
}

void out_line_value(struct out *out, struct value value)
{
	PASS_ON(out, line_value, (*each, &value));
}

void out_line_painted(struct out *out, const char *word)
{
	PASS_ON(out, line_painted, (*each, word));
}

void out_line_keep(struct out *out, bool keep)
{
	PASS_ON(out, line_keep, (*each, keep));
}

void out_line_end(struct out *out)
{
	PASS_ON(out, line_end, (*each));
}

/* Whether the values of the part up to the next bracket are there. */
static bool has_values(const char *part, const struct value *values)
{
	size_t size = strcspn(part, "]");

	for (const char *at = part;
		(at = memmem(at, size - (size_t)(at - part), "{}", 2)) != NULL;
		at += 2, values++)
		if (values->type == VALUE_ABSENT || values->type == VALUE_NULL)
			return false;
	return true;
}

void out_fill(struct out *out, const char *format, const struct value *values)
{
	bool shown = true, is_one = false;

	while (*format != '\0') {
		size_t size = strcspn(format, "[]{");

		if (size > 0 && shown)
			out_line_text(out, "%.*s", (int)size, format);
		format += size;
		if (*format == '[' || *format == ']') {
			shown = *format == ']' || has_values(format + 1, values);
			format++;
		} else if (*format == '{') {
			size = strcspn(++format, "}");
			if (size == 0) {
				/* The shape of a vector is the number of its elements. */
				if (values->type == VALUE_COUNT ||
					values->type == VALUE_ELEMENTS)
					is_one = values->count == 1;
				else if (values->type == VALUE_SHAPE &&
					 values->shape.count == 1)
					is_one = values->shape.items[0] == 1;
				if (shown)
					out_line_value(out, *values);
				values++;
			} else if (shown && (*format != 's' || !is_one)) {
				if (*format == '(')
					out_line_keep(out, true);
				out_line_text(out, "%.*s", (int)size, format);
				if (*format == '(')
					out_line_keep(out, false);
			}
			format += size + (format[size] == '}');
		}
	}
}

void out_fill_line(struct out *out, const char *label, const char *format,
	const struct value *values)
{
	out_line_begin(out, label);
	out_fill(out, format, values);
	out_line_end(out);
}

void out_verbatim(struct out *out, struct text text)
{
	PASS_ON(out, verbatim, (*each, text));
}

void out_table_begin(struct out *out, const struct table *table)
{
	struct wanted_columns choice;
	bool shown[COLUMNS_MAX];

	if (out->wanted_count != 0 && table->main) {
		out_shows(out, table, shown);
		for (size_t i = 0; i < COLUMNS_MAX; i++)
			out->has_chosen |= shown[i];
	}
	table = with_choice(out, table, &choice);
	PASS_ON(out, table_begin, (*each, table));
}

void out_shows(struct out *out, const struct table *table, bool ret_shown[COLUMNS_MAX])
{
	struct out *alone = out;
	struct out **each = &alone;
	struct wanted_columns choice;
	table = with_choice(out, table, &choice);
	memset(ret_shown, 0, COLUMNS_MAX * sizeof *ret_shown);
	for (size_t left = outs_of(out, &each); left != 0; left--, each++) {
		struct columns columns = { 0 };
		if ((*each)->functions->shows != NULL &&
			(!table->rows_only ||
				((*each)->functions->shows != columns_for_text &&
					(*each)->functions->shows !=
						columns_for_machine)))
			(*each)->functions->shows(table, &columns);
		for (size_t i = 0; i < columns.count; i++)
			ret_shown[columns.items[i]] = true;
	}
}

void out_row(struct out *out, const struct value *values)
{
	PASS_ON(out, row, (*each, values));
}

void out_table_end(struct out *out)
{
	PASS_ON(out, table_end, (*each));
}

void out_node(struct out *out, const struct tree_node *node, const struct value *values)
{
	PASS_ON(out, node, (*each, node));
	out_row(out, values);
}

void out_weighed(struct out *out, const struct weighed *part)
{
	PASS_ON(out, weighed, (*each, part));
}

void out_clock(struct out *out, const struct timed_clock *clock)
{
	PASS_ON(out, clock, (*each, clock));
}

void out_timed(struct out *out, const struct timed_span *span)
{
	PASS_ON(out, timed, (*each, span));
}

/* ---- which output has a use for a call ---- */

/* The first output of `out` that has it, or NULL. */
static struct out *first_that(
	struct out *out, bool (*has_use)(const struct out_functions *functions))
{
	struct out *alone = out;
	struct out **each = &alone;

	for (size_t left = outs_of(out, &each); left != 0; left--, each++)
		if (has_use((*each)->functions))
			return *each;
	return NULL;
}

static bool weighs(const struct out_functions *functions)
{
	return functions->weighed != NULL;
}

static bool times(const struct out_functions *functions)
{
	return functions->timed != NULL;
}

static bool only_times(const struct out_functions *functions)
{
	return functions->timed != NULL && functions->shows == NULL;
}

static bool is_separate(const struct out_functions *functions)
{
	return functions->aside != NULL;
}

bool out_weighs(struct out *out)
{
	return first_that(out, weighs) != NULL;
}

bool out_times(struct out *out)
{
	return first_that(out, times) != NULL;
}

bool out_only_times(struct out *out)
{
	return first_that(out, only_times) != NULL;
}

struct out *out_aside(struct out *out)
{
	struct out *aside = first_that(out, is_separate);

	return aside != NULL ? aside->functions->aside(aside) : NULL;
}

/* ---- Writes a list into one cell ---- */

static void write_integers(
	struct writer *writer, const int64_t *items, size_t count, char between)
{
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_char(writer, between);
		writer_integer(writer, items[i]);
	}
}

void plain_shape(struct writer *writer, const int64_t *items, size_t count)
{
	if (count == 0)
		writer_put(writer, "[]", 2);
	write_integers(writer, items, count, 'x');
}

void plain_counts(struct writer *writer, const int64_t *items, size_t count)
{
	write_integers(writer, items, count, ' ');
}

void plain_bars(struct writer *writer, const int64_t *items, size_t count, bool ascii)
{
	static const char *const blocks[] = { " ", "\xe2\x96\x81", "\xe2\x96\x82",
		"\xe2\x96\x83", "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
		"\xe2\x96\x87", "\xe2\x96\x88" };
	static const char *const digits[] = { ".", "1", "2", "3", "4", "5", "6", "7",
		"8" };
	int64_t most = 1;

	for (size_t i = 0; i < count; i++)
		most = items[i] > most ? items[i] : most;
	for (size_t i = 0; i < count; i++) {
		double part = (double)items[i] / (double)most;
		int level = items[i] <= 0 ? 0 : 1 + (int)(part * 7.999);
		writer_text(writer, (ascii ? digits : blocks)[level]);
	}
}

void plain_texts(struct writer *writer, const struct text *items, size_t count,
	const char *separator)
{
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_text(writer, separator);
		writer_put(writer, items[i].data, items[i].size);
	}
}
