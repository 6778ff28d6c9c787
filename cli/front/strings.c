/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists that grow, and texts that are kept until they are freed together.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "front/strings.h"

void *list_grown(void *items, size_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return items;
	return count <= SIZE_MAX / 2
		       ? reallocarray(items, count != 0 ? count * 2 : 1, size)
		       : NULL;
}

char *owned_take(struct owned *owned, char *text)
{
	char **items;

	if (text == NULL)
		return NULL;
	items = list_grown(owned->items, owned->count, sizeof *items);
	if (items == NULL) {
		free(text);
		return NULL;
	}
	owned->items = items;
	items[owned->count++] = text;
	return text;
}

char *owned_copy(struct owned *owned, const char *data, size_t size)
{
	char *copy = malloc(size + 1);

	if (copy != NULL) {
		if (size > 0)
			memcpy(copy, data, size);
		copy[size] = '\0';
	}
	return owned_take(owned, copy);
}

void owned_free(struct owned *owned)
{
	for (size_t i = 0; i < owned->count; i++)
		free(owned->items[i]);
	free(owned->items);
	*owned = (struct owned){ 0 };
}
