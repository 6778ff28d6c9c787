/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds columns by the names on the command line, and puts rows in order by numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/columns.h"

/* "name, dtype, shape": what could have been meant. Names too long are left out. */
static const char *list_columns(
	const struct record_table *table, bool sortable, char *buffer, size_t size)
{
	size_t used = 0;

	buffer[0] = '\0';
	for (size_t i = 0; i < table->table.column_count; i++) {
		const struct column *column = &table->columns[i];
		size_t length = strlen(column->name);
		if ((sortable && column->sort == SORT_NEVER) || used + length + 3 > size)
			continue;
		if (used > 0) {
			memcpy(buffer + used, ", ", 2);
			used += 2;
		}
		memcpy(buffer + used, column->name, length + 1);
		used += length;
	}
	return buffer;
}

bool choose_columns(struct run *run, struct record_table *table)
{
	const struct texts *names = &run->select->columns;
	char known[512];

	for (size_t i = 0; i < names->count; i++) {
		size_t column = record_table_find(table, names->items[i]);
		if (column == table->table.column_count) {
			refuse(run, list_columns(table, false, known, sizeof known),
				"--columns: there is no column \"%s\" here",
				names->items[i]);
			return false;
		}
		table->table.chosen = table->chosen;
		if (table->table.chosen_count < COLUMNS_MAX)
			table->chosen[table->table.chosen_count++] = column;
	}
	return true;
}

/* The nth column of --sort, or column_count. */
static size_t sort_column(
	const struct run *run, const struct record_table *table, size_t nth)
{
	const char *name = run->select->sort.items[nth];

	return record_table_find(table, name + (name[0] == '-'));
}

bool columns_read(const struct run *run, const struct record_table *table)
{
	for (size_t i = 0; i < run->select->sort.count; i++) {
		size_t column = sort_column(run, table, i);
		if (column < table->table.column_count && table->columns[column].reads)
			return true;
	}
	return out_table_reads(run->out, table);
}

/* ---- order ---- */

struct slot {
	uint64_t key;
	uint32_t position; /* before: makes the order stable */
	uint32_t row;
};

static int by_key(const void *a, const void *b)
{
	const struct slot *left = a, *right = b;

	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	return left->position < right->position ? -1 : 1;
}

bool sort_rows(struct run *run, const struct record_table *table, row_function *object_of,
	void *context, uint32_t *rows, size_t row_count, bool *ret_memory)
{
	const struct texts *names = &run->select->sort;
	struct slot *slots;
	char known[512];

	*ret_memory = false;
	for (size_t i = 0; i < names->count; i++) {
		size_t column = sort_column(run, table, i);
		if (column < table->table.column_count &&
			table->columns[column].sort != SORT_NEVER)
			continue;
		refuse(run, list_columns(table, true, known, sizeof known),
			"--sort: rows cannot be sorted by \"%s\" here",
			names->items[i] + (names->items[i][0] == '-'));
		return false;
	}
	if (names->count == 0 || row_count < 2)
		return true;
	slots = malloc(row_count * sizeof *slots);
	if (slots == NULL) {
		*ret_memory = true;
		return false;
	}
	/* The last key of the list is sorted by first, so that earlier ones rule. */
	for (size_t i = names->count; i-- > 0;) {
		size_t column = sort_column(run, table, i);
		for (size_t j = 0; j < row_count; j++) {
			uint32_t order;
			const void *object = object_of(context, rows[j], &order);
			uint64_t key = record_table_key(table, column, object, order);
			if (names->items[i][0] == '-' && key != UINT64_MAX)
				key = UINT64_MAX - 1 - key;
			slots[j] = (struct slot){ key, (uint32_t)j, rows[j] };
		}
		qsort(slots, row_count, sizeof *slots, by_key);
		for (size_t j = 0; j < row_count; j++)
			rows[j] = slots[j].row;
	}
	free(slots);
	return true;
}

size_t head_of(const struct run *run, size_t count)
{
	int64_t head = run->select->head;
	return head < 0 || (uint64_t)head > count ? count : (size_t)head;
}
