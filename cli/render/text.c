/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes answers for people: sentences, tables whose columns fit the terminal, trees.
 * What comes from a file passes escape_write on its way.
 */
#include <stdlib.h>

#include "render/writer.h"
#include "render/output-functions.h"
#include "render/record.h"

/*
 * Cells in columns, two spaces between, no boxes, no spaces at the end of a line. The
 * first rows are held back until their widths are known (1,000, or fewer if they are
 * long); later ones go out at once in the widths of those.
 *
 * How wide each column is, and what happens to names that do not fit, fit_columns()
 * decides.
 */
enum {
	GRID_GAP = 2,       /* between columns */
	SENTENCE_ROOM = 30, /* columns in which a sentence is worth breaking … */
	SHORT_ROOM = 12,    /* … or shortening */
	BREAK_INDENT = 4,   /* of the further lines of a row */
};

struct grid_column {
	bool right;
	uint8_t digits;   /* of numbers … */
	const char *unit; /* … and after them */
	bool null_is_absent;
	bool names; /* holds names, which may be shortened */
	bool wraps; /* ends a row that continues below it, though columns without cells follow */
	size_t width;
	const char *label;     /* lower case; NULL: none */
	size_t prefix, suffix; /* bytes that all names share and that are omitted */
	bool spills;           /* names that do not fit get a line of their own */
	bool breaks;           /* begins a further line of the row */
	bool may_go, used;     /* omitted where no row has a value for it */
};

/* A cell as it is kept: this, then its text. */
struct cell {
	uint32_t size;
	uint32_t width;
	bool is_name;
};

struct grid {
	struct writer *to;
	const struct looks *looks;
	size_t indent;
	size_t column_count;
	struct grid_column columns[COLUMNS_MAX];
	struct writer kept; /* cells: a head each, then escaped text */
	size_t kept_rows;
	bool has_widths; /* widths are known */
	bool one_line;   /* a sentence at the end of a row is truncated, not continued */
	size_t slack;    /* columns of the terminal that no cell needed */
	size_t cell;     /* offset of the head of the open cell in kept */
	size_t cell_index;
	size_t hidden; /* bytes of it that take no columns */
};

/*
 * Makes the columns of a table fit the terminal, where names give way, but never so that
 * two of them look alike:
 *
 *	the shared start and end of all names of a column is omitted, and printed above;
 *	columns after the first get narrower, and names lose their middle;
 *	then the first does; where two of its names would look alike, those that do not
 *	fit get a line of their own;
 *	what is too wide even then is written in several lines for each row, with no
 *	column narrowed but those that are wider than a line.
 */

/* Escaped text in at most `columns`: the middle goes. Returns the columns taken. */
static size_t grid_put_short(
	struct writer *writer, const char *data, size_t size, size_t columns, bool ascii)
{
	const char *mark = ascii ? "..." : "\xe2\x80\xa6";
	size_t mark_width = ascii ? 3 : 1;
	size_t room = columns > mark_width ? columns - mark_width : 0;
	/* Names differ at their ends more often than at their beginnings. */
	size_t front = width_front(data, size, room / 2);
	size_t back = width_back(data, size, room - room / 2);
	writer_put(writer, data, front);
	writer_text(writer, mark);
	writer_put(writer, data + size - back, back);
	return width_of(data, front) + mark_width + width_of(data + size - back, back);
}

/* ---- Finds the widths of columns, and what their names share ---- */

enum {
	NARROWEST_NAME = 16,
	LEAST_AFFIX = 6, /* bytes: leaving out less is not worth a line */
};

/* A name without the start and end that its column shares. */
static void cell_cut(
	const struct grid_column *column, struct cell *cell, const char **text)
{
	const char *end = *text + cell->size;
	if (!cell->is_name || column->prefix + column->suffix == 0)
		return;
	cell->width -= (uint32_t)(width_of(*text, column->prefix) +
				  width_of(end - column->suffix, column->suffix));
	cell->size -= (uint32_t)(column->prefix + column->suffix);
	*text += column->prefix;
}

static bool cell_fits(
	const struct grid *grid, const struct grid_column *column, struct cell cell)
{
	return grid->looks->width <= 0 || !cell.is_name ||
	       cell.width <= column->width + grid->slack;
}

/* Whether what is too wide for the line is broken between words, below itself. */
static bool column_goes_on(const struct grid *grid, const struct grid_column *column)
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

/* A sentence at the end of a row continues in the next line, so names need not give way.
 */
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

static bool separates(char c)
{
	return c == '.' || c == '/' || c == '-' || c == '_';
}

static void remove_affixes(struct grid *grid, size_t index)
{
	struct grid_column *column = &grid->columns[index];
	const char *data = grid->kept.data;
	struct affixes affixes = { .names = 0 };
	for (size_t i = 0; i < grid->kept_rows; i++) {
		struct cell cell = { 0 };
		const char *text = next_in_column(grid, index, &data, &cell);
		if (cell.is_name) {
			const char *end = text + cell.size, *first_end;
			if (affixes.names++ == 0) {
				affixes.first = text;
				affixes.size = affixes.prefix = affixes.suffix =
					cell.size;
				affixes.least = cell.size;
			}
			if (affixes.least > cell.size)
				affixes.least = cell.size;
			first_end = affixes.first + affixes.size;
			for (size_t j = 0; j < affixes.prefix; j++)
				if (j >= cell.size || text[j] != affixes.first[j])
					affixes.prefix = j;
			for (size_t j = 0; j < affixes.suffix; j++)
				if (j >= cell.size ||
					end[-1 - (ptrdiff_t)j] !=
						first_end[-1 - (ptrdiff_t)j])
					affixes.suffix = j;
			if (affixes.widest < cell.width)
				affixes.widest = cell.width;
		} else if (affixes.other < cell.width)
			affixes.other = cell.width;
	}
	if (affixes.names < 2)
		return;
	/* Both end at a separator, so that what is left of a name is whole words; and
	 * something is left of the shortest. */
	const char *end = affixes.first + affixes.size;
	while (affixes.prefix > 0 && !separates(affixes.first[affixes.prefix - 1]))
		affixes.prefix--;
	while (affixes.suffix > 0 && !separates(*(end - affixes.suffix)))
		affixes.suffix--;
	if (affixes.prefix >= affixes.least)
		affixes.prefix = 0;
	if (affixes.prefix + affixes.suffix >= affixes.least)
		affixes.suffix = 0;
	if (affixes.prefix + affixes.suffix < LEAST_AFFIX)
		return;
	column->prefix = affixes.prefix;
	column->suffix = affixes.suffix;
	affixes.widest -=
		width_of(affixes.first, affixes.prefix) +
		width_of(affixes.first + affixes.size - affixes.suffix, affixes.suffix);
	column->width = affixes.widest > affixes.other ? affixes.widest : affixes.other;
	writer_spaces(grid->to, grid->indent);
	writer_text(grid->to, "each ");
	writer_text(grid->to, column->label != NULL ? column->label : "name");
	if (affixes.prefix > 0) {
		writer_text(grid->to, " begins with ");
		writer_put(grid->to, affixes.first, affixes.prefix);
	}
	if (affixes.suffix > 0) {
		const char *label = column->label != NULL ? column->label : "name";
		size_t width = grid->indent + strlen(label) +
			       strlen("each  begins with  and ends with ") +
			       width_of(affixes.first, affixes.prefix) +
			       width_of(affixes.first + affixes.size - affixes.suffix,
				       affixes.suffix);
		bool fits = width <= (size_t)grid->looks->width;

		if (!fits && affixes.prefix > 0) {
			writer_char(grid->to, '\n');
			writer_spaces(grid->to, grid->indent + 4);
			writer_text(grid->to, "and");
		} else if (affixes.prefix > 0)
			writer_text(grid->to, " and");
		writer_text(grid->to, " ends with ");
		writer_put(grid->to, affixes.first + affixes.size - affixes.suffix,
			affixes.suffix);
	}
	writer_char(grid->to, '\n');
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

	return text_compare((struct text){ left->text, left->length },
		(struct text){ right->text, right->length });
}

/* Whether two different names would be written alike. */
static bool would_look_alike(struct grid *grid, size_t index)
{
	struct shortened *list = memory_new(grid->kept_rows, sizeof *list);
	/* The names of a column that do not fit, as they would be written. */
	const struct grid_column *column = &grid->columns[index];
	const char *data = grid->kept.data;
	struct writer texts;
	size_t count = 0;
	bool alike = false;

	writer_init(&texts, NULL);
	for (size_t i = 0; i < grid->kept_rows; i++) {
		struct cell cell = { 0 };
		const char *text = next_in_column(grid, index, &data, &cell);
		cell_cut(column, &cell, &text);
		if (cell_fits(grid, column, cell))
			continue;
		list[count] = (struct shortened){ text, cell.size, texts.size, 0, NULL };
		grid_put_short(&texts, text, cell.size, column->width + grid->slack,
			grid->looks->ascii);
		list[count].length = texts.size - list[count].at;
		count++;
	}
	for (size_t i = 0; i < count; i++)
		list[i].text = texts.data + list[i].at;
	qsort(list, count, sizeof *list, by_text);
	for (size_t i = 1; i < count && !alike; i++)
		alike = by_text(&list[i - 1], &list[i]) == 0 &&
			!(list[i - 1].size == list[i].size &&
				memcmp(list[i - 1].name, list[i].name,
					list[i - 1].size) == 0);
	writer_done(&texts);
	memory_free(list);
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

/* Of the rows that are kept; all: none will follow. May write lines. */
static void fit_columns(struct grid *grid, bool all)
{
	size_t most = (size_t)grid->looks->width, total, before[COLUMNS_MAX];
	if (grid->looks->width <= 0)
		return;
	for (size_t i = grid->column_count; all && i-- > 0 && total_width(grid) > most;)
		if (grid->columns[i].names)
			remove_affixes(grid, i);
	for (size_t i = 0; i < grid->column_count; i++)
		before[i] = grid->columns[i].width;
	if (all) {
		const struct grid_column *first = &grid->columns[0];
		size_t room = first->names && first->width > NARROWEST_NAME
				      ? first->width - NARROWEST_NAME
				      : 0;

		/* Columns after the first get narrower, together with it where their
		 * names would become equal. */
		if (!narrow_behind_first(grid, before, most) && room != 0) {
			for (size_t i = 1; i < grid->column_count; i++)
				grid->columns[i].width = before[i];
			narrow_behind_first(grid, before, most + room);
		}
	}
	total = total_width(grid);
	grid->slack = total < most ? most - total : 0;
	narrow_first(grid, all, most);
	if (total_width(grid) > most) {
		size_t at = 0;

		/* A row becomes several lines, where each column may take all of one. A
		 * sentence finds its line by itself. */
		FOR_EACH(i, grid->column_count, column, &grid->columns[i]) {
			size_t begin = grid->indent + (i != 0 ? BREAK_INDENT : 0);
			size_t room = most > begin + NARROWEST_NAME ? most - begin
								    : NARROWEST_NAME;
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
}

/* ---- Lines up cells by their widths. What comes in is escaped already ---- */

enum {
	KEPT_ROWS = 1000,
	KEPT_BYTES = 448 << 10, /* so that the buffer stays at 512 KiB */
};

/* Drops what is held back. */
static void grid_drop(struct grid *grid)
{
	grid->kept.size = 0;
	grid->kept_rows = 0;
	grid->cell_index = 0;
}

/* Columns are left-aligned and without a label until the caller sets these. */
static void grid_begin(struct grid *grid, size_t column_count, size_t indent)
{
	grid->indent = indent;
	grid->column_count = column_count < COLUMNS_MAX ? column_count : COLUMNS_MAX;
	memset(grid->columns, 0, sizeof grid->columns);
	grid->has_widths = false;
	grid->slack = 0;
	grid_drop(grid);
}

/* A cell: begin, write escaped text to the writer, end. */
static struct writer *grid_cell_begin(struct grid *grid)
{
	const struct cell none = { 0 };
	grid->cell = grid->kept.size;
	grid->hidden = 0;
	writer_put(&grid->kept, (const char *)&none, sizeof none);
	return &grid->kept;
}

static void grid_style(struct grid *grid, const char *sequence)
{
	if (!grid->looks->color)
		return;
	writer_text(&grid->kept, sequence);
	grid->hidden += strlen(sequence);
}

static void grid_cell_end(struct grid *grid, bool is_name)
{
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
	if (grid->has_widths)
		return;
	column->names |= is_name;
	if (column->width < width)
		column->width = width;
}

/* Whether it is a sentence at the end of a row that does not fit after it. */
static bool goes_on(const struct grid *grid, const struct grid_column *column,
	const struct cell *cell, size_t at)
{
	return grid->looks->width > 0 && !cell->is_name &&
	       at + cell->width > (size_t)grid->looks->width &&
	       column_goes_on(grid, column);
}

/* Returns the columns it took of its own. */
static size_t print_cell(struct grid *grid, const struct grid_column *column,
	struct cell cell, const char *text, size_t at)
{
	if (goes_on(grid, column, &cell, at) && grid->one_line) {
		size_t room = (size_t)grid->looks->width - at;
		writer_put(grid->to, text, width_front(text, cell.size, room - 3));
		writer_text(grid->to, "...");
		return room;
	}
	if (goes_on(grid, column, &cell, at)) {
		/* A node of a tree continues below its name. */
		size_t spaces = 0;
		while (column->wraps && spaces < cell.size && text[spaces] == ' ')
			spaces++;
		wrap_write(grid->to, text, cell.size, (size_t)grid->looks->width,
			at + (column->wraps ? spaces + BREAK_INDENT : 0), at);
		return cell.width;
	}
	if (!cell_fits(grid, column, cell) && !column->spills)
		return grid_put_short(grid->to, text, cell.size,
			column->width + grid->slack, grid->looks->ascii);
	writer_put(grid->to, text, cell.size);
	return cell.width;
}

/* Returns what follows the row in `kept`. */
static const char *print_row(struct grid *grid, const char *data)
{
	size_t pending = grid->indent, at = grid->indent;
	bool due = false; /* a line, once a cell has something for it */
	FOR_EACH(i, grid->column_count, column, &grid->columns[i]) {
		struct cell cell;
		memcpy(&cell, data, sizeof cell);
		const char *text = data + sizeof cell;
		data = text + cell.size;
		cell_cut(column, &cell, &text);
		size_t width = 0;
		if (column->breaks ||
			(column != grid->columns && goes_on(grid, column, &cell, at) &&
				at + (grid->one_line ? SHORT_ROOM : SENTENCE_ROOM) >
					(size_t)grid->looks->width)) {
			due = true;
			pending = at = grid->indent + BREAK_INDENT;
			/* "-" alone is worth no line. */
			if (i + 1 == grid->column_count && cell.width == 1 &&
				memchr(text, '-', cell.size) != NULL)
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
			width += print_cell(grid, column, cell, text, at);
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

static void print_kept(struct grid *grid)
{
	const char *data = grid->kept.data;
	for (size_t i = 0; i < grid->kept_rows; i++)
		data = print_row(grid, data);
	grid_drop(grid);
}

static void grid_row_end(struct grid *grid)
{
	grid->cell_index = 0;
	grid->kept_rows++;
	if (!grid->has_widths && grid->kept_rows < KEPT_ROWS &&
		grid->kept.size < KEPT_BYTES)
		return;
	if (!grid->has_widths)
		fit_columns(grid, false);
	grid->has_widths = true;
	print_kept(grid);
}

/* Columns for which no row has a value, their labels too. */
static void remove_unused_columns(struct grid *grid)
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
	if (count == grid->column_count)
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

enum {
	LABEL_INDENT = 2,
	LABEL_WIDTH = 13,
	NAME_BYTES = 4096,
	INDENT = 4,
	TABLE_INDENT = 2, /* of a tree after numbers */
	INDENT_LEVELS = 256,
	TRAILS = 8,
	LONGEST_LABEL = 160, /* columns of the name of a node on a terminal */
	COLUMNS_MOST = 40,   /* before the last cell of a row of text */
	HANG = 4,            /* of the second line of a sentence without a label … */
	HANG_FINDING = 9,    /* … and of one that begins with a severity */
};

#define DIM "\033[2m"
#define GREEN_BOLD "\033[1;32m"
#define PLAIN "\033[0m"

/* Severities, verdicts, and the marks of a comparison. */
static const char *paint_of(const char *word)
{
	static const char *const paints[][2] = { { "note", "\033[36m" },
		{ "warning", "\033[33m" }, { "error", "\033[1;31m" },
		{ "good", "\033[1;32m" }, { "partial", "\033[1;33m" },
		{ "bad", "\033[1;31m" }, { "~", "\033[33m" }, { "-", "\033[31m" },
		{ "+", "\033[32m" }, { "=", "\033[36m" } };

	for (size_t i = 0; i < sizeof paints / sizeof *paints; i++)
		if (strcmp(paints[i][0], word) == 0)
			return paints[i][1];
	return NULL;
}

struct text_out {
	struct out base;
	struct looks looks;
	struct writer stream;
	struct writer raw; /* something to be escaped, or to be shortened */
	struct grid grid;
	struct writer line; /* the sentence so far */
	size_t pending;     /* spaces before the next piece of a line */
	size_t hang;        /* where its second line begins */
	size_t kept;        /* where what is not broken begins in it, or SIZE_MAX */

	bool hidden;  /* the table is for programs */
	size_t leads; /* values before each node of a tree */
	size_t row_count;
	struct columns columns;
};

static struct text_out *text_out_of(struct out *out)
{
	return (struct text_out *)out;
}

/* ---- values ---- */

static void print_escaped(
	struct text_out *text, struct writer *to, const char *data, size_t size)
{
	size_t most = text->looks.name_bytes != 0 ? text->looks.name_bytes : NAME_BYTES;
	size_t shown = escape_cut(data, size, most);
	escape_write(to, data, shown, ESCAPE_TEXT);
	if (shown == size)
		return;
	writer_text(to, text->looks.ascii ? "...(" : "\xe2\x80\xa6(");
	writer_count(to, size);
	writer_text(to, " bytes)");
}

static void print_raw(struct text_out *text, struct writer *to)
{
	print_escaped(text, to, text->raw.data, text->raw.size);
}

/* in_line: of a sentence, not of a table. */
static void print_value(
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
	case VALUE_BYTES: {
		char buffer[HUMAN_ROOM];
		if (text->looks.sizes == HUMAN_EXACT)
			writer_count(to, value->count);
		else
			writer_text(
				to, human_bytes(value->count, text->looks.sizes, buffer));
	} break;
	case VALUE_ELEMENTS: {
		char buffer[HUMAN_ROOM];
		if (in_line)
			writer_text(to, human_elements(value->count, buffer));
		else
			writer_count(to, value->count);
	} break;
	case VALUE_INTEGER:
		writer_integer(to, value->integer);
		break;
	case VALUE_NS:
		writer_text(to, human_ms(value->integer, (char[HUMAN_ROOM]){ 0 }));
		break;
	case VALUE_NUMBER: {
		/* To four digits: machine outputs have all. */
		char buffer[32];
		snprintf(buffer, sizeof buffer, "%.4g", value->number);
		writer_text(to, buffer);
	} break;
	case VALUE_TEXT:
	case VALUE_NAME:
		print_escaped(text, to, value->text.data, value->text.size);
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
		print_raw(text, to);
		break;
	case VALUE_PATH:
	case VALUE_TOKENS:
		text->raw.size = 0;
		write_json_value(&text->raw, value);
		print_raw(text, to);
		break;
	}
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
		escape_write(&text->line, label, size, ESCAPE_TEXT);
	}
	text->pending += width + 2 <= LABEL_WIDTH ? LABEL_WIDTH - width : 2;
	text->hang = LABEL_INDENT + LABEL_WIDTH;
}

static void print_formatted(struct text_out *text, const char *data, size_t size)
{
	if (size == 0)
		return;
	flush_pending(text);
	escape_write(&text->line, data, size, ESCAPE_TEXT);
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
		char *large = memory_vformat(format, again);
		print_formatted(text, large, (size_t)size);
		memory_free(large);
	} else if (size > 0) {
		print_formatted(text, small, (size_t)size);
	}
	va_end(again);
}

static void line_name(struct out *out, struct text name)
{
	struct text_out *text = text_out_of(out);
	if (name.size == 0)
		return;
	flush_pending(text);
	print_escaped(text, &text->line, name.data, name.size);
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
	print_value(text, &text->line, value, true);
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

static void line_painted(struct out *out, const char *word)
{
	struct text_out *text = text_out_of(out);
	const char *paint = text->looks.color ? paint_of(word) : NULL;

	flush_pending(text);
	if (strcmp(word, "note") == 0 || strcmp(word, "warning") == 0 ||
		strcmp(word, "error") == 0)
		text->hang = HANG_FINDING;
	if (paint != NULL)
		writer_text(&text->line, paint);
	writer_text(&text->line, word);
	if (paint != NULL)
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
	/* Indented text continues below its start, and cells of a row below the last one.
	 */
	if (indent > LABEL_INDENT) {
		text->hang = indent;
		for (size_t i = indent + 2; i < line->size && i < COLUMNS_MOST; i++)
			if (line->data[i] != ' ' && line->data[i - 1] == ' ' &&
				line->data[i - 2] == ' ')
				text->hang = i;
	}
	text->pending = 0;
	if (line->error == 0)
		wrap_write(&text->stream, line->data, line->size,
			(size_t)text->looks.width, text->hang, 0);
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
		escape_write(&text->stream, data, length, ESCAPE_TEXT);
		if (newline == NULL)
			return;
		writer_char(&text->stream, '\n');
		data += length + 1;
		size -= length + 1;
	}
}

/* ---- tables ---- */

static void print_head(struct text_out *text, const char *head)
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
		print_head(text, table->heads[i]);
	print_head(text, "MODULE");
	for (size_t i = 0; i < TRAILS; i++)
		print_head(text, "");
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
	text->grid.one_line = table->one_line;
	if (table->tree) {
		tree_begin(text, table);
		return;
	}
	grid_begin(&text->grid, text->columns.count, table->indent);
	for (size_t i = 0; i < text->columns.count; i++) {
		const struct column *column = &table->columns[text->columns.items[i]];
		text->grid.columns[i].right =
			column->right || column->digits != 0 ||
			(column->type >= FIELD_COUNT && column->type <= FIELD_NS);
		text->grid.columns[i].digits = column->digits;
		text->grid.columns[i].null_is_absent =
			column->digits != 0 || column->type == FIELD_NS;
		text->grid.columns[i].unit = column->percent ? " %"
					     : column->times ? "x"
							     : "";
		text->grid.columns[i].label = column_label(column);
		text->grid.columns[i].may_go = table->chosen_count == 0;
	}
	if (!table->no_header) {
		FOR_EACH(i, text->columns.count, column,
			&table->columns[text->columns.items[i]]) {
			struct writer *cell = grid_cell_begin(&text->grid);
			grid_style(&text->grid, DIM);
			for (const char *c = column_label(column); *c != '\0'; c++) {
				bool lower = *c >= 'a' && *c <= 'z';
				writer_char(cell, lower ? (char)(*c - 'a' + 'A') : *c);
			}
			grid_style(&text->grid, PLAIN);
			grid_cell_end(&text->grid, false);
		}
		grid_row_end(&text->grid);
	}
}

static bool has_text(const struct value *value)
{
	return value->type != VALUE_ABSENT &&
	       (value->type != VALUE_TEXT || value->text.size != 0);
}

static void row(struct out *out, const struct value *values)
{
	const struct value none = { .type = VALUE_ABSENT };
	struct text_out *text = text_out_of(out);
	if (text->hidden || text->columns.count == 0)
		return;
	FOR_EACH(i, text->columns.count, value, &values[text->columns.items[i]]) {
		struct writer *cell = grid_cell_begin(&text->grid);
		const char *paint = value->painted ? paint_of(value->text.data) : NULL;
		text->grid.columns[i].used |= has_text(value);
		if (value->type == VALUE_NULL && text->grid.columns[i].null_is_absent)
			value = &none;
		if (paint != NULL)
			grid_style(&text->grid, paint);
		if (value->type == VALUE_NUMBER && text->grid.columns[i].digits != 0) {
			char buffer[400];
			snprintf(buffer, sizeof buffer, "%.*f%s",
				text->grid.columns[i].digits, value->number,
				text->grid.columns[i].unit);
			writer_text(cell, buffer);
		} else
			print_value(text, cell, value, false);
		if (paint != NULL)
			grid_style(&text->grid, PLAIN);
		grid_cell_end(&text->grid, value->type == VALUE_NAME);
	}
	grid_row_end(&text->grid);
	text->row_count++;
}

static void table_end(struct out *out)
{
	struct text_out *text = text_out_of(out);
	/* A header without rows is not printed. */
	if (!text->hidden && text->row_count == 0)
		grid_drop(&text->grid);
	else if (!text->hidden) {
		if (!text->grid.has_widths) {
			remove_unused_columns(&text->grid);
			fit_columns(&text->grid, true);
		}
		print_kept(&text->grid);
	}
	text->hidden = false;
}

/* ---- trees ---- */

static void print_indent(struct text_out *text, struct writer *cell, uint32_t depth)
{
	if (depth <= INDENT_LEVELS) {
		writer_spaces(
			cell, (size_t)depth * (text->leads > 0 ? TABLE_INDENT : INDENT));
		return;
	}
	writer_char(cell, '{');
	writer_count(cell, depth);
	writer_text(cell, "} ");
}

static void print_label(struct text_out *text, const struct tree_node *node)
{
	struct writer *cell = grid_cell_begin(&text->grid);
	print_indent(text, cell, node->depth);
	/* Columns for the name on a terminal, or SIZE_MAX. Neighbors may differ in the
	 * middle of their names, so only what would fill lines is shortened. */
	size_t room = text->looks.width <= 0 ? SIZE_MAX : LONGEST_LABEL;
	if (node->name.size == 0 && node->class_name.data == NULL) {
		writer_text(cell, "(root)");
	} else if (node->name.size <= room / 8) {
		/* However it is escaped it fits: \u{nnnn} is the longest. */
		print_escaped(text, cell, node->name.data, node->name.size);
	} else {
		struct writer *raw = &text->raw;
		raw->size = 0;
		print_escaped(text, raw, node->name.data, node->name.size);
		if (width_of(raw->data, raw->size) <= room)
			writer_put(cell, raw->data, raw->size);
		else
			grid_put_short(
				cell, raw->data, raw->size, room, text->looks.ascii);
	}
	if (node->class_name.data != NULL) {
		grid_style(&text->grid, DIM);
		writer_text(cell, node->class_guessed ? "[~" : "[");
		print_escaped(text, cell, node->class_name.data, node->class_name.size);
		writer_char(cell, ']');
		grid_style(&text->grid, PLAIN);
	}
	if (node->mark != NULL) {
		writer_char(cell, ' ');
		grid_style(&text->grid, node->mark_guessed ? DIM : GREEN_BOLD);
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
			text->grid.columns[i].used |= has_text(&tree_node->lead[i]);
			print_value(text, cell, &tree_node->lead[i], true);
		}
		grid_cell_end(&text->grid, false);
	}
	print_label(text, tree_node);
	for (size_t i = 0; i < TRAILS; i++) {
		struct writer *cell = grid_cell_begin(&text->grid);
		if (tree_node->trail != NULL && i < tree_node->trail_count &&
			tree_node->trail[i].type != VALUE_ABSENT)
			print_value(text, cell, &tree_node->trail[i], true);
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

static void start(struct out *out, FILE *stream, const struct looks *looks)
{
	struct text_out *text = text_out_of(out);

	(void)stream;
	text->looks = *looks;
	text->grid.to = &text->stream;
	text->grid.looks = &text->looks;
	text->stream.ascii = text->line.ascii = text->grid.kept.ascii = looks->seven_bits;
}

const struct out_functions text_functions = {
	.size = sizeof(struct text_out),
	.writers = { offsetof(struct text_out, stream),
		offsetof(struct text_out, grid.kept), offsetof(struct text_out, line),
		offsetof(struct text_out, raw) },
	.start = start,
	.looks = looks_of,
	.end = end,
	.line_begin = line_begin,
	.line_text = line_text,
	.line_name = line_name,
	.line_value = line_value,
	.line_painted = line_painted,
	.line_keep = line_keep,
	.line_end = line_end,
	.verbatim = verbatim,
	.shows = columns_for_text,
	.table_begin = table_begin,
	.row = row,
	.table_end = table_end,
	.node = node,
};
