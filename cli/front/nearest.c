/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how alike two short words are, for "did you mean".
 */
#include <string.h>

#include "front/nearest.h"

enum { LONGEST = 48 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Three rows of the usual table: swaps look two rows back. */
static size_t edits(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t rows[3][LONGEST + 1];

	for (size_t j = 0; j <= b_size; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_size; i++) {
		const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
		size_t *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_size; j++) {
			row[j] = least(least(above[j], row[j - 1]) + 1,
				above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1])
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[a_size % 3][b_size];
}

void nearest_init(struct nearest *nearest, const char *word)
{
	size_t size = strlen(word), third = size > 3 ? size / 3 : size / 2;

	*nearest = (struct nearest){ .word = word, .distance = least(third, 2) + 1 };
}

void nearest_try(struct nearest *nearest, const char *candidate)
{
	size_t word_size = strlen(nearest->word), size = strlen(candidate);

	if (word_size > LONGEST || size > LONGEST)
		return;
	size_t distance = edits(nearest->word, word_size, candidate, size);
	if (distance < nearest->distance) {
		nearest->distance = distance;
		nearest->best = candidate;
	}
}
