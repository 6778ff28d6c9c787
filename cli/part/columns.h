/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "front/command.h"

/*
 * --columns, --sort and --head for any table: they speak of columns by name, and columns
 * have the names of JSON fields.
 */

/* Which columns, in which order. All zero: what each output shows by itself. */
struct choice {
	size_t *columns;
	size_t count;
};

/* False: there is no such column, and refuse() was called. */
bool choice_new(struct run *run, const struct column *columns, size_t count,
	struct choice *ret_choice);
void choice_done(struct choice *choice);
bool choice_has(const struct choice *choice, size_t column);

/* A number by which rows are put in order; UINT64_MAX is unknown and comes last. */
typedef uint64_t sort_key_function(const void *context, size_t column, uint32_t row);

/*
 * Puts rows in the order of --sort; rows that are equal stay as they are. `sortable` has
 * a bit for each column that has a key. False: a column is unknown or cannot be sorted
 * by, and refuse() was called; or *ret_memory says that there was not enough.
 */
bool sort_rows(struct run *run, const struct column *columns, size_t count,
	uint64_t sortable, sort_key_function *key, const void *context, uint32_t *rows,
	size_t row_count, bool *ret_memory);

/* Whether --sort names this column. */
bool sort_uses(const struct run *run, const struct column *column);

/* How many of `count` rows --head leaves. */
size_t head_of(const struct run *run, size_t count);

#endif
