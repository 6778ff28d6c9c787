/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the widths of columns, and what their names share.
 */
#include <stdlib.h>

#include "render/escape.h"
#include "render/fit.h"

enum {
	NARROWEST_NAME = 16,
	LEAST_AFFIX = 6, /* bytes: leaving out less is not worth a line */
};

void cell_cut(const struct grid_column *column, struct cell *cell, const char **text)
{
	const char *end = *text + cell->size;
	if (!cell->is_name || column->prefix + column->suffix == 0)
		return;
	cell->width -= (uint32_t)(width_of(*text, column->prefix) +
				  width_of(end - column->suffix, column->suffix));
	cell->size -= (uint32_t)(column->prefix + column->suffix);
	*text += column->prefix;
}

bool cell_fits(
	const struct grid *grid, const struct grid_column *column, struct cell cell)
{
	return grid->looks->width <= 0 || !cell.is_name ||
	       cell.width <= column->width + grid->slack;
}

bool column_goes_on(const struct grid *grid, const struct grid_column *column)
{
	size_t index = (size_t)(column - grid->columns);
	if (!column->wraps)
		return index > 0 && index == grid->column_count - 1 && !column->right &&
		       !column->names;
	while (++index < grid->column_count)
		if (grid->columns[index].width != 0)
			return false;
	return true;
}

/* A sentence at the end of a row goes on in the next line, so names need not give way. */
static size_t least_width(const struct grid *grid, size_t index)
{
	const struct grid_column *column = &grid->columns[index];
	return column->width > SENTENCE_ROOM && column_goes_on(grid, column)
		       ? SENTENCE_ROOM
		       : column->width;
}

static size_t total_width(const struct grid *grid)
{
	size_t total = grid->indent;
	for (size_t i = 0; i < grid->column_count; i++)
		if (grid->columns[i].width != 0)
			total += least_width(grid, i) + (i != 0 ? GRID_GAP : 0);
	return total;
}

/* The cell of a column in the row at *data, which moves on to the next row. */
static const char *next_in_column(
	const struct grid *grid, size_t column, const char **data, struct cell *ret_cell)
{
	const char *found = NULL;
	for (size_t i = 0; i < grid->column_count; i++) {
		struct cell cell = { 0 };
		memcpy(&cell, *data, sizeof cell);
		if (i == column) {
			found = *data + sizeof cell;
			*ret_cell = cell;
		}
		*data += sizeof cell + cell.size;
	}
	return found;
}

/* ---- what names share ---- */

struct affixes {
	const char *first; /* the first name */
	size_t size;
	size_t least; /* bytes of the shortest name */
	size_t names;
	size_t prefix, suffix;
	size_t other; /* width of the widest cell that is not a name */
	size_t widest;
};

static void compare(struct affixes *affixes, struct cell cell, const char *text)
{
	const char *end = text + cell.size, *first_end;
	if (affixes->names++ == 0) {
		affixes->first = text;
		affixes->size = affixes->prefix = affixes->suffix = cell.size;
		affixes->least = cell.size;
	}
	if (affixes->least > cell.size)
		affixes->least = cell.size;
	first_end = affixes->first + affixes->size;
	for (size_t i = 0; i < affixes->prefix; i++)
		if (i >= cell.size || text[i] != affixes->first[i])
			affixes->prefix = i;
	for (size_t i = 0; i < affixes->suffix; i++)
		if (i >= cell.size ||
			end[-1 - (ptrdiff_t)i] != first_end[-1 - (ptrdiff_t)i])
			affixes->suffix = i;
	if (affixes->widest < cell.width)
		affixes->widest = cell.width;
}

static bool separates(char c)
{
	return c == '.' || c == '/' || c == '-' || c == '_';
}

/* Both end at a separator, so that what is left of a name is whole words; and something
 * is left of the shortest. */
static void cut_at_separators(struct affixes *affixes)
{
	const char *end = affixes->first + affixes->size;
	while (affixes->prefix > 0 && !separates(affixes->first[affixes->prefix - 1]))
		affixes->prefix--;
	while (affixes->suffix > 0 && !separates(*(end - affixes->suffix)))
		affixes->suffix--;
	if (affixes->prefix >= affixes->least)
		affixes->prefix = 0;
	if (affixes->prefix + affixes->suffix >= affixes->least)
		affixes->suffix = 0;
}

static void say_affixes(
	struct grid *grid, const struct affixes *affixes, const char *label)
{
	writer_spaces(grid->to, grid->indent);
	for (const char *c = label != NULL ? label : "name"; *c != '\0'; c++)
		writer_char(
			grid->to, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
	writer_text(grid->to, ": ");
	writer_put(grid->to, affixes->first, affixes->prefix);
	writer_text(grid->to, grid->looks->ascii ? "..." : "\xe2\x80\xa6");
	writer_put(grid->to, affixes->first + affixes->size - affixes->suffix,
		affixes->suffix);
	writer_char(grid->to, '\n');
}

static void take_out_affixes(struct grid *grid, size_t index)
{
	struct grid_column *column = &grid->columns[index];
	const char *data = grid->kept.data;
	struct affixes affixes = { .names = 0 };
	for (size_t i = 0; i < grid->kept_rows; i++) {
		struct cell cell = { 0 };
		const char *text = next_in_column(grid, index, &data, &cell);
		if (cell.is_name)
			compare(&affixes, cell, text);
		else if (affixes.other < cell.width)
			affixes.other = cell.width;
	}
	if (affixes.names < 2)
		return;
	cut_at_separators(&affixes);
	if (affixes.prefix + affixes.suffix < LEAST_AFFIX)
		return;
	column->prefix = affixes.prefix;
	column->suffix = affixes.suffix;
	affixes.widest -=
		width_of(affixes.first, affixes.prefix) +
		width_of(affixes.first + affixes.size - affixes.suffix, affixes.suffix);
	column->width = affixes.widest > affixes.other ? affixes.widest : affixes.other;
	say_affixes(grid, &affixes, column->label);
}

/* ---- what names become ---- */

struct shortened {
	const char *name;
	size_t size;
	size_t at, length; /* in the texts */
	const char *text;
};

static int by_text(const void *a, const void *b)
{
	const struct shortened *left = a, *right = b;
	size_t shorter = left->length < right->length ? left->length : right->length;
	int order = memcmp(left->text, right->text, shorter);
	if (order != 0)
		return order;
	return left->length < right->length ? -1 : left->length > right->length;
}

/* The names of a column that do not fit, as they would be written. */
static size_t shorten_all(
	struct grid *grid, size_t index, struct writer *texts, struct shortened *list)
{
	const struct grid_column *column = &grid->columns[index];
	const char *data = grid->kept.data;
	size_t count = 0;
	for (size_t i = 0; i < grid->kept_rows; i++) {
		struct cell cell = { 0 };
		const char *text = next_in_column(grid, index, &data, &cell);
		cell_cut(column, &cell, &text);
		if (cell_fits(grid, column, cell))
			continue;
		list[count] = (struct shortened){ text, cell.size, texts->size, 0, NULL };
		grid_put_short(texts, text, cell.size, column->width + grid->slack,
			grid->looks->ascii);
		list[count].length = texts->size - list[count].at;
		count++;
	}
	for (size_t i = 0; i < count; i++)
		list[i].text = texts->data + list[i].at;
	return count;
}

static bool same_name(const struct shortened *a, const struct shortened *b)
{
	return a->size == b->size && memcmp(a->name, b->name, a->size) == 0;
}

/* Whether two different names would be written alike. Out of memory: they might. */
static bool would_look_alike(struct grid *grid, size_t index)
{
	struct shortened *list = malloc((grid->kept_rows + 1) * sizeof *list);
	struct writer texts;
	bool alike;
	if (list == NULL)
		return true;
	alike = !writer_init(&texts, NULL);
	if (!alike) {
		size_t count = shorten_all(grid, index, &texts, list);
		alike = texts.error != 0;
		if (!alike)
			qsort(list, count, sizeof *list, by_text);
		for (size_t i = 1; i < count && !alike; i++)
			alike = by_text(&list[i - 1], &list[i]) == 0 &&
				!same_name(&list[i - 1], &list[i]);
	}
	writer_done(&texts);
	free(list);
	return alike;
}

/* ---- widths ---- */

static struct grid_column *widest_behind_first(struct grid *grid)
{
	struct grid_column *widest = NULL;
	for (size_t i = 1; i < grid->column_count; i++) {
		struct grid_column *column = &grid->columns[i];
		if (column->names && column->width > NARROWEST_NAME &&
			(widest == NULL || column->width > widest->width))
			widest = column;
	}
	return widest;
}

/* Whether names of all columns that had to give way stay apart; others get back their
 * width. */
static bool narrow_behind_first(struct grid *grid, const size_t *before, size_t most)
{
	struct grid_column *column;
	bool apart = true;
	for (size_t total = total_width(grid);
		total > most && (column = widest_behind_first(grid)) != NULL; total--)
		column->width--;
	for (size_t i = 1; i < grid->column_count; i++)
		if (grid->columns[i].width < before[i] && would_look_alike(grid, i)) {
			grid->columns[i].width = before[i];
			apart = false;
		}
	return apart;
}

/* Columns behind the first give way, or share that with it where their names would not
 * stay apart. */
static void narrow_others(struct grid *grid, const size_t *before, size_t most)
{
	const struct grid_column *first = &grid->columns[0];
	size_t room = first->names && first->width > NARROWEST_NAME
			      ? first->width - NARROWEST_NAME
			      : 0;
	if (narrow_behind_first(grid, before, most) || room == 0)
		return;
	for (size_t i = 1; i < grid->column_count; i++)
		grid->columns[i].width = before[i];
	narrow_behind_first(grid, before, most + room);
}

static void narrow_first(struct grid *grid, bool all, size_t most)
{
	struct grid_column *first = &grid->columns[0];
	size_t total = total_width(grid);
	if (!first->names || total <= most)
		return;
	for (; total > most && first->width > NARROWEST_NAME; total--)
		first->width--;
	first->spills = !all || would_look_alike(grid, 0);
}

/* A row becomes several lines, where each column may take all of one. A sentence finds its
 * line by itself. */
static void break_rows(struct grid *grid, const size_t *before, bool all, size_t most)
{
	size_t at = 0;
	for (size_t i = 0; i < grid->column_count; i++) {
		struct grid_column *column = &grid->columns[i];
		size_t begin = grid->indent + (i != 0 ? BREAK_INDENT : 0);
		size_t room =
			most > begin + NARROWEST_NAME ? most - begin : NARROWEST_NAME;
		column->width = before[i];
		column->spills = false;
		if (column->names && column->width > room) {
			column->width = room;
			column->spills = !all || would_look_alike(grid, i);
		}
		if (column->width == 0 || column_goes_on(grid, column))
			continue;
		at += i != 0 ? GRID_GAP : grid->indent;
		column->breaks = i != 0 && at + least_width(grid, i) > most;
		at = (column->breaks ? begin : at) + least_width(grid, i);
	}
}

void fit_columns(struct grid *grid, bool all)
{
	size_t most = (size_t)grid->looks->width, total, before[COLUMNS_MAX];
	if (grid->looks->width <= 0 || grid->kept.error != 0)
		return;
	for (size_t i = grid->column_count; all && i-- > 0 && total_width(grid) > most;)
		if (grid->columns[i].names)
			take_out_affixes(grid, i);
	for (size_t i = 0; i < grid->column_count; i++)
		before[i] = grid->columns[i].width;
	if (all)
		narrow_others(grid, before, most);
	total = total_width(grid);
	grid->slack = total < most ? most - total : 0;
	narrow_first(grid, all, most);
	if (total_width(grid) > most)
		break_rows(grid, before, all, most);
}
