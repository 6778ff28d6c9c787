/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how columns are named on the command line, and how to put rows in order by
 * numbers. Knows nothing of what is in a row.
 */
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/columns.h"

static size_t find(const struct column *columns, size_t count, const char *name)
{
	size_t i = 0;
	while (i < count && strcmp(columns[i].name, name) != 0)
		i++;
	return i;
}

/* "name, dtype, shape": what could have been meant. Names too long are left out. */
static const char *list_columns(const struct column *columns, size_t count, uint64_t mask,
	char *buffer, size_t size)
{
	size_t used = 0;

	buffer[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(columns[i].name);
		if ((mask >> i & 1) == 0 || used + length + 3 > size)
			continue;
		if (used > 0) {
			memcpy(buffer + used, ", ", 2);
			used += 2;
		}
		memcpy(buffer + used, columns[i].name, length + 1);
		used += length;
	}
	return buffer;
}

bool choice_new(struct run *run, const struct column *columns, size_t count,
	struct choice *ret_choice)
{
	const struct texts *names = &run->select->columns;
	char known[512];

	*ret_choice = (struct choice){ NULL, 0 };
	if (names->count == 0)
		return true;
	ret_choice->columns = calloc(names->count, sizeof *ret_choice->columns);
	if (ret_choice->columns == NULL) {
		run_failure(run, "memory", NULL, "out of memory");
		run_begin(run, STATUS_FAILED);
		return false;
	}
	for (size_t i = 0; i < names->count; i++) {
		size_t column = find(columns, count, names->items[i]);
		if (column == count) {
			choice_done(ret_choice);
			refuse(run,
				list_columns(
					columns, count, UINT64_MAX, known, sizeof known),
				"--columns: there is no column \"%s\" here",
				names->items[i]);
			return false;
		}
		ret_choice->columns[ret_choice->count++] = column;
	}
	return true;
}

void choice_done(struct choice *choice)
{
	free(choice->columns);
	*choice = (struct choice){ NULL, 0 };
}

bool choice_has(const struct choice *choice, size_t column)
{
	for (size_t i = 0; i < choice->count; i++)
		if (choice->columns[i] == column)
			return true;
	return false;
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

/* The last key of the list is sorted by first, so that earlier ones rule. */
static void sort_by(struct slot *slots, size_t column, bool reverse,
	sort_key_function *key, const void *context, uint32_t *rows, size_t row_count)
{
	for (size_t i = 0; i < row_count; i++) {
		uint64_t number = key(context, column, rows[i]);
		if (reverse && number != UINT64_MAX)
			number = UINT64_MAX - 1 - number;
		slots[i] = (struct slot){ number, (uint32_t)i, rows[i] };
	}
	qsort(slots, row_count, sizeof *slots, by_key);
	for (size_t i = 0; i < row_count; i++)
		rows[i] = slots[i].row;
}

bool sort_rows(struct run *run, const struct column *columns, size_t count,
	uint64_t sortable, sort_key_function *key, const void *context, uint32_t *rows,
	size_t row_count, bool *ret_memory)
{
	const struct texts *names = &run->select->sort;
	struct slot *slots;
	char known[512];

	*ret_memory = false;
	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->items[i] + (names->items[i][0] == '-');
		size_t column = find(columns, count, name);
		if (column < count && (sortable >> column & 1) != 0)
			continue;
		refuse(run, list_columns(columns, count, sortable, known, sizeof known),
			"--sort: rows cannot be sorted by \"%s\" here", name);
		return false;
	}
	if (names->count == 0 || row_count < 2)
		return true;
	slots = malloc(row_count * sizeof *slots);
	if (slots == NULL) {
		*ret_memory = true;
		return false;
	}
	for (size_t i = names->count; i-- > 0;) {
		bool reverse = names->items[i][0] == '-';
		sort_by(slots, find(columns, count, names->items[i] + reverse), reverse,
			key, context, rows, row_count);
	}
	free(slots);
	return true;
}

bool sort_uses(const struct run *run, const struct column *column)
{
	const struct texts *names = &run->select->sort;

	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->items[i] + (names->items[i][0] == '-'), column->name) ==
			0)
			return true;
	return false;
}

size_t head_of(const struct run *run, size_t count)
{
	int64_t head = run->select->head;
	return head < 0 || (uint64_t)head > count ? count : (size_t)head;
}
