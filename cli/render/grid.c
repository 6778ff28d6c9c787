/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines up cells by their widths. What comes in is escaped already.
 */
#include "render/escape.h"
#include "render/fit.h"
#include "render/grid.h"

enum {
	KEPT_ROWS = 1000,
	KEPT_BYTES = 448 << 10, /* so that the buffer stays at 512 KiB */
};

bool grid_init(struct grid *grid, struct writer *to, const struct looks *looks)
{
	*grid = (struct grid){ .to = to, .looks = looks };
	bool ok = writer_init(&grid->kept, NULL);
	grid->kept.ascii = looks->seven_bits;
	return ok;
}

void grid_done(struct grid *grid)
{
	writer_done(&grid->kept);
}

void grid_begin(struct grid *grid, size_t column_count, size_t indent)
{
	grid->indent = indent;
	grid->column_count = column_count < COLUMNS_MAX ? column_count : COLUMNS_MAX;
	memset(grid->columns, 0, sizeof grid->columns);
	grid->settled = false;
	grid->slack = 0;
	grid_drop(grid);
}

void grid_drop(struct grid *grid)
{
	grid->kept.size = 0;
	grid->kept_rows = 0;
	grid->cell_index = 0;
}

struct writer *grid_cell_begin(struct grid *grid)
{
	const struct cell none = { 0 };
	grid->cell = grid->kept.size;
	grid->hidden = 0;
	writer_put(&grid->kept, (const char *)&none, sizeof none);
	return &grid->kept;
}

void grid_style(struct grid *grid, const char *sequence)
{
	if (!grid->looks->color)
		return;
	writer_text(&grid->kept, sequence);
	grid->hidden += strlen(sequence);
}

void grid_cell_end(struct grid *grid, bool is_name)
{
	/* After a failure nothing in `kept` is what it was. */
	if (grid->kept.error != 0)
		return;
	size_t begin = grid->cell + sizeof(struct cell);
	size_t size = grid->kept.size - begin;
	size_t width = width_of(grid->kept.data + begin, size) - grid->hidden;
	struct cell cell = {
		.size = (uint32_t)size,
		.width = (uint32_t)width,
		.is_name = is_name && grid->hidden == 0,
	};
	memcpy(grid->kept.data + grid->cell, &cell, sizeof cell);
	struct grid_column *column = &grid->columns[grid->cell_index++];
	if (grid->settled)
		return;
	column->names |= is_name;
	if (column->width < width)
		column->width = width;
}

/* Whether it is a sentence at the end of a row that does not fit behind it. */
static bool goes_on(const struct grid *grid, const struct grid_column *column,
	const struct cell *cell, size_t at)
{
	return grid->looks->width > 0 && !cell->is_name &&
	       at + cell->width > (size_t)grid->looks->width &&
	       column_goes_on(grid, column);
}

/* Whether a cell begins a line: all of its column do, or it is a sentence without room. */
static bool begins_line(const struct grid *grid, const struct grid_column *column,
	const struct cell *cell, size_t at)
{
	return column->breaks ||
	       (column != grid->columns && goes_on(grid, column, cell, at) &&
		       at + SENTENCE_ROOM > (size_t)grid->looks->width);
}

/* "-" alone is worth no line. */
static bool says_nothing(const struct cell *cell, const char *text)
{
	return cell->width == 1 && memchr(text, '-', cell->size) != NULL;
}

/* A node of a tree goes on below its name. */
static size_t hang_of(
	const struct grid_column *column, const struct cell *cell, const char *text)
{
	size_t spaces = 0;
	while (column->wraps && spaces < cell->size && text[spaces] == ' ')
		spaces++;
	return column->wraps ? spaces + BREAK_INDENT : 0;
}

/* Returns the columns it took of its own. */
static size_t put_cell(struct grid *grid, const struct grid_column *column,
	struct cell cell, const char *text, size_t at)
{
	if (goes_on(grid, column, &cell, at)) {
		wrap_put(grid->to, text, cell.size, (size_t)grid->looks->width,
			at + hang_of(column, &cell, text), at);
		return cell.width;
	}
	if (!cell_fits(grid, column, cell) && !column->spills)
		return grid_put_short(grid->to, text, cell.size,
			column->width + grid->slack, grid->looks->ascii);
	writer_put(grid->to, text, cell.size);
	return cell.width;
}

/* Returns what follows the row in `kept`. */
static const char *put_row(struct grid *grid, const char *data)
{
	size_t pending = grid->indent, at = grid->indent;
	bool due = false; /* a line, once a cell has something for it */
	for (size_t i = 0; i < grid->column_count; i++) {
		const struct grid_column *column = &grid->columns[i];
		struct cell cell;
		memcpy(&cell, data, sizeof cell);
		const char *text = data + sizeof cell;
		data = text + cell.size;
		cell_cut(column, &cell, &text);
		size_t width = 0;
		if (begins_line(grid, column, &cell, at)) {
			due = true;
			pending = at = grid->indent + BREAK_INDENT;
			if (i + 1 == grid->column_count && says_nothing(&cell, text))
				cell.size = 0;
		}
		if (cell.size != 0) {
			if (due)
				writer_char(grid->to, '\n');
			due = false;
			if (column->right && cell.width < column->width) {
				pending += column->width - cell.width;
				width = column->width - cell.width;
			}
			writer_spaces(grid->to, pending);
			pending = 0;
			width += put_cell(grid, column, cell, text, at);
		}
		if (column->width != 0 || width != 0)
			at += column->width + GRID_GAP;
		if (!cell_fits(grid, column, cell) && column->spills) {
			writer_char(grid->to, '\n');
			pending = at;
			continue;
		}
		if (width < column->width)
			pending += column->width - width;
		if (column->width != 0 || width != 0)
			pending += GRID_GAP;
	}
	writer_char(grid->to, '\n');
	return data;
}

static void put_kept(struct grid *grid)
{
	const char *data = grid->kept.data;
	for (size_t i = 0; i < grid->kept_rows && grid->kept.error == 0; i++)
		data = put_row(grid, data);
	grid_drop(grid);
}

void grid_row_end(struct grid *grid)
{
	grid->cell_index = 0;
	grid->kept_rows++;
	if (!grid->settled && grid->kept_rows < KEPT_ROWS && grid->kept.size < KEPT_BYTES)
		return;
	if (!grid->settled)
		fit_columns(grid, false);
	grid->settled = true;
	put_kept(grid);
}

/* Columns for which no row has a value, their labels too. */
static void take_out_unused(struct grid *grid)
{
	char *to = grid->kept.data;
	const char *from = to;
	bool stays[COLUMNS_MAX];
	size_t count = 0;
	for (size_t i = 0; i < grid->column_count; i++) {
		stays[i] = !grid->columns[i].may_go || grid->columns[i].used;
		if (stays[i])
			grid->columns[count++] = grid->columns[i];
	}
	if (grid->kept.error != 0 || count == grid->column_count)
		return;
	for (size_t i = 0; i < grid->kept_rows * grid->column_count; i++) {
		struct cell cell;
		memcpy(&cell, from, sizeof cell);
		size_t size = sizeof cell + cell.size;
		if (stays[i % grid->column_count]) {
			memmove(to, from, size);
			to += size;
		}
		from += size;
	}
	grid->kept.size = (size_t)(to - grid->kept.data);
	grid->column_count = count;
}

void grid_end(struct grid *grid)
{
	if (!grid->settled) {
		take_out_unused(grid);
		fit_columns(grid, true);
	}
	put_kept(grid);
}
