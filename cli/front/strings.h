/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OWNED_H
#define OWNED_H

#include <stddef.h>

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
