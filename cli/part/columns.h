/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "front/command.h"
#include "render/record.h"

/*
 * --columns, --sort and --head for any table of records: they speak of columns by name,
 * and columns have the names of JSON fields.
 */

/* Takes --columns; "all" is every column of the machine-readable outputs. False: there is no such
 * column, and refuse() was called. */
bool choose_columns(struct run *run, struct record_table *table);

/* Whether something that costs reads is shown or sorted by. */
bool columns_read(const struct run *run, const struct record_table *table);

/* The object of a row, until the next call; *ret_order is what SORT_ROW goes by. */
typedef const void *row_function(void *context, uint32_t row, uint32_t *ret_order);

/*
 * Puts rows in the order of -S, --sort and -r; rows that are equal stay as they are.
 * usual: the key where none is given; NULL: rows stay. False: a column is unknown or
 * cannot be sorted by, and refuse() was called; or *ret_memory says that there was not
 * enough.
 */
bool sort_rows(struct run *run, const struct record_table *table, const char *usual,
	row_function *object_of, void *context, uint32_t *rows, size_t row_count,
	bool *ret_memory);

/* How many of `count` rows --head leaves. */
size_t head_of(const struct run *run, size_t count);

#endif
