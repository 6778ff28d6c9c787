/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_GRID_H
#define RENDER_GRID_H

#include "render/functions.h"
#include "render/writer.h"

/*
 * Cells in columns, two spaces between, no boxes, no spaces at the end of a line. The
 * first rows are held back until their widths are known (1,000, or fewer if they are
 * long); later ones go out at once in the widths of those.
 *
 * How wide each column is, and what happens to names that do not fit, fit.h decides.
 */
enum {
	GRID_GAP = 2,       /* between columns */
	SENTENCE_ROOM = 30, /* columns in which a sentence is worth breaking */
	BREAK_INDENT = 4,   /* of the further lines of a row */
};

struct grid_column {
	bool right;
	bool names; /* holds names, which may be shortened */
	bool wraps; /* ends a row that goes on below it, though columns without cells follow */
	size_t width;
	const char *label;     /* lower case; NULL: none */
	size_t prefix, suffix; /* bytes that all names have, and that are left out */
	bool spills;           /* names that do not fit get a line of their own */
	bool breaks;           /* begins a further line of the row */
	bool may_go, used;     /* left out where no row has a value for it */
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
	bool settled; /* widths are known */
	size_t slack; /* columns of the terminal that no cell needed */
	size_t cell;  /* where the head of the open cell lies in kept */
	size_t cell_index;
	size_t hidden; /* bytes of it that take no columns */
};

bool grid_init(struct grid *grid, struct writer *to, const struct looks *looks);
void grid_done(struct grid *grid);

/* Columns are left-aligned and without a label until the caller sets these. */
void grid_begin(struct grid *grid, size_t column_count, size_t indent);

/* A cell: begin, write escaped text to the writer, end. */
struct writer *grid_cell_begin(struct grid *grid);
void grid_style(struct grid *grid, const char *sequence);
void grid_cell_end(struct grid *grid, bool is_name);

void grid_row_end(struct grid *grid);

/* Drops what is held back, or writes it. */
void grid_drop(struct grid *grid);
void grid_end(struct grid *grid);

/* Escaped text in at most `columns`: the middle goes. Returns the columns taken. */
size_t grid_put_short(
	struct writer *writer, const char *data, size_t size, size_t columns, bool ascii);

#endif
