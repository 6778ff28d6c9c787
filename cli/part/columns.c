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

/* Columns as people call them elsewhere, where the table has none of that name. */
static const struct {
	const char *typed, *column;
} HABITS[] = {
	{ "size", "bytes" },
	{ "params", "numel" },
};

/* The column of a name, or column_count. */
static size_t find_column(const struct record_table *table, const char *name)
{
	size_t count = table->table.column_count, found = record_table_find(table, name);

	for (size_t i = 0; found == count && i < sizeof HABITS / sizeof *HABITS; i++)
		if (strcmp(HABITS[i].typed, name) == 0)
			found = record_table_find(table, HABITS[i].column);
	return found;
}

static void choose_column(struct record_table *table, size_t column)
{
	table->table.chosen = table->chosen;
	if (table->table.chosen_count < COLUMNS_MAX)
		table->chosen[table->table.chosen_count++] = column;
}

/* Every column of the machine-readable outputs; those of the text repeat them. */
static void choose_all(struct record_table *table)
{
	for (size_t i = 0; i < table->table.column_count; i++)
		if ((table->columns[i].text_only >> table->table.view & 1) == 0)
			choose_column(table, i);
}

bool choose_columns(struct run *run, struct record_table *table)
{
	const struct texts *names = &run->select->columns;
	char known[512];

	for (size_t i = 0; i < names->count; i++) {
		size_t column = find_column(table, names->items[i]);
		if (column < table->table.column_count) {
			choose_column(table, column);
		} else if (strcmp(names->items[i], "all") == 0) {
			choose_all(table);
		} else {
			refuse(run, list_columns(table, false, known, sizeof known),
				"--columns: there is no column \"%s\" here",
				names->items[i]);
			return false;
		}
	}
	return true;
}

/* ---- order ---- */

/* The keys that rows are sorted by: -S comes before those of --sort, and what is usual
 * for a table counts where neither is given. NULL past the end. */
static const char *sort_key(const struct run *run, const char *usual, size_t nth)
{
	const struct select_options *select = run->select;

	if (select->largest && nth == 0)
		return "-bytes";
	nth -= select->largest;
	if (nth < select->sort.count)
		return select->sort.items[nth];
	return nth == 0 && !select->largest ? usual : NULL;
}

static bool is_falling(const char *key)
{
	return key[0] == '-';
}

static size_t sort_column(const struct record_table *table, const char *key)
{
	return find_column(table, key + is_falling(key));
}

bool columns_read(const struct run *run, const struct record_table *table)
{
	const char *key;

	for (size_t i = 0; (key = sort_key(run, NULL, i)) != NULL; i++) {
		size_t column = sort_column(table, key);
		if (column < table->table.column_count && table->columns[column].reads)
			return true;
	}
	return out_table_reads(run->out, table);
}

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

/* False: some key is none of this table, and refuse() was called. */
static bool check_keys(struct run *run, const struct record_table *table,
	const char *usual, size_t *ret_count)
{
	char known[512];
	const char *key;
	size_t count = 0;

	for (; (key = sort_key(run, usual, count)) != NULL; count++) {
		size_t column = sort_column(table, key);
		if (column < table->table.column_count &&
			table->columns[column].sort != SORT_NEVER)
			continue;
		refuse(run, list_columns(table, true, known, sizeof known),
			"--sort: rows cannot be sorted by \"%s\" here",
			key + is_falling(key));
		return false;
	}
	*ret_count = count;
	return true;
}

static void reverse(uint32_t *rows, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		uint32_t row = rows[i];
		rows[i] = rows[count - 1 - i];
		rows[count - 1 - i] = row;
	}
}

bool sort_rows(struct run *run, const struct record_table *table, const char *usual,
	row_function *object_of, void *context, uint32_t *rows, size_t row_count,
	bool *ret_memory)
{
	struct slot *slots;
	size_t keys;

	*ret_memory = false;
	if (!check_keys(run, table, usual, &keys))
		return false;
	slots = malloc((row_count + 1) * sizeof *slots);
	if (slots == NULL) {
		*ret_memory = true;
		return false;
	}
	/* The last key of the list is sorted by first, so that earlier ones rule. */
	for (size_t i = keys; i-- > 0;) {
		const char *name = sort_key(run, usual, i);
		size_t column = sort_column(table, name);
		for (size_t j = 0; j < row_count; j++) {
			uint32_t order;
			const void *object = object_of(context, rows[j], &order);
			uint64_t key = record_table_key(table, column, object, order);
			if (is_falling(name) && key != UINT64_MAX)
				key = UINT64_MAX - 1 - key;
			slots[j] = (struct slot){ key, (uint32_t)j, rows[j] };
		}
		qsort(slots, row_count, sizeof *slots, by_key);
		for (size_t j = 0; j < row_count; j++)
			rows[j] = slots[j].row;
	}
	free(slots);
	if (run->select->reverse)
		reverse(rows, row_count);
	return true;
}

size_t head_of(const struct run *run, size_t count)
{
	int64_t head = run->select->head;
	return head < 0 || (uint64_t)head > count ? count : (size_t)head;
}
