/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NEAREST_H
#define NEAREST_H

#include <stddef.h>

/*
 * "Did you mean": feed it candidates, it keeps the one with the fewest edits (insert,
 * delete, replace, swap of neighbours), the first among equals. Farther than two edits,
 * or than a third of the word, is not a resemblance; of two or three letters one may differ.
 */
struct nearest {
	const char *word;
	const char *best; /* NULL: nothing is near */
	size_t distance;
};

void nearest_init(struct nearest *nearest, const char *word);
void nearest_try(struct nearest *nearest, const char *candidate);

#endif
