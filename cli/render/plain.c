/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a list into one cell.
 */
#include "render/plain.h"

void plain_shape(struct writer *writer, const int64_t *items, size_t count)
{
	if (count == 0)
		writer_put(writer, "[]", 2);
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_char(writer, 'x');
		writer_integer(writer, items[i]);
	}
}

void plain_texts(struct writer *writer, const struct text *items, size_t count,
	const char *separator)
{
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_text(writer, separator);
		writer_put(writer, items[i].data, items[i].size);
	}
}
