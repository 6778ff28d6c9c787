/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a list into one cell.
 */
#include "render/plain.h"

static void put_integers(
	struct writer *writer, const int64_t *items, size_t count, char between)
{
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_char(writer, between);
		writer_integer(writer, items[i]);
	}
}

void plain_shape(struct writer *writer, const int64_t *items, size_t count)
{
	if (count == 0)
		writer_put(writer, "[]", 2);
	put_integers(writer, items, count, 'x');
}

void plain_counts(struct writer *writer, const int64_t *items, size_t count)
{
	put_integers(writer, items, count, ' ');
}

void plain_bars(struct writer *writer, const int64_t *items, size_t count, bool ascii)
{
	static const char *const blocks[] = { " ", "\xe2\x96\x81", "\xe2\x96\x82",
		"\xe2\x96\x83", "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
		"\xe2\x96\x87", "\xe2\x96\x88" };
	static const char *const digits[] = { ".", "1", "2", "3", "4", "5", "6", "7",
		"8" };
	int64_t most = 1;

	for (size_t i = 0; i < count; i++)
		most = items[i] > most ? items[i] : most;
	for (size_t i = 0; i < count; i++) {
		double part = (double)items[i] / (double)most;
		int level = items[i] <= 0 ? 0 : 1 + (int)(part * 7.999);
		writer_text(writer, (ascii ? digits : blocks)[level]);
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
