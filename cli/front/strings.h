/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OWNED_H
#define OWNED_H

#include <stddef.h>

/* A list that grows by one element a time and may shrink: with room for one more behind
 * `count`, each of `size` bytes. Its room is the next power of two, so no caller keeps it. NULL:
 * out of memory; the list stays as it was. */
void *list_grown(void *items, size_t count, size_t size);

/* Texts that others point to, freed together. All zero is empty. */
struct owned {
	char **items;
	size_t count;
};

/* Takes a text from malloc over, also when it fails. NULL: out of memory (or text is
 * NULL). */
char *owned_take(struct owned *owned, char *text);

/* A copy with a zero byte behind it. */
char *owned_copy(struct owned *owned, const char *data, size_t size);

void owned_free(struct owned *owned);

#endif
