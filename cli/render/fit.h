/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_FIT_H
#define RENDER_FIT_H

#include "render/grid.h"

/*
 * Makes the columns of a table fit the terminal, where names give way, but never so that
 * two of them look alike:
 *
 *	what all names of a column begin and end with is left out, and said above;
 *	columns behind the first get narrower, and names lose their middle;
 *	then the first does; where two of its names would look alike, those that do not
 *	fit get a line of their own;
 *	what is too wide even then is written in several lines for each row, with no
 *	column narrowed but those that are wider than a line.
 */

/* Of the rows that are kept; all: none will follow. May write lines. */
void fit_columns(struct grid *grid, bool all);

/* A name without what is left out of all in its column. */
void cell_cut(const struct grid_column *column, struct cell *cell, const char **text);

/* Whether what is too wide for the line is broken between words, below itself. */
bool column_goes_on(const struct grid *grid, const struct grid_column *column);

bool cell_fits(
	const struct grid *grid, const struct grid_column *column, struct cell cell);

#endif
