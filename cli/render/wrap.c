/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breaks sentences into lines between words.
 */
#include "render/width.h"
#include "render/wrap.h"

/* Bytes of a colour ("\033[1;31m") that begins here; 0: none does. */
static size_t paint_size(const char *data, size_t size)
{
	size_t at = 2;

	if (size < 3 || data[0] != '\033' || data[1] != '[')
		return 0;
	while (at < size && data[at] != 'm')
		at++;
	return at < size ? at + 1 : 0;
}

static size_t columns_of(const char *data, size_t size)
{
	size_t columns = 0, begin = 0;

	for (size_t i = 0; i < size;) {
		size_t paint = paint_size(data + i, size - i);
		if (paint == 0 && data[i] != WRAP_GLUE) {
			i++;
			continue;
		}
		columns += width_of(data + begin, i - begin) + (paint == 0);
		i += paint != 0 ? paint : 1;
		begin = i;
	}
	return columns + width_of(data + begin, size - begin);
}

static void put_word(struct writer *to, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		writer_char(to, data[i] == WRAP_GLUE ? ' ' : data[i]);
}

void wrap_put(struct writer *to, const char *data, size_t size, size_t width, size_t hang,
	size_t column)
{
	bool is_new = true; /* nothing but the indent is on this line */

	for (size_t i = 0; i < size;) {
		size_t word = i, end, columns;
		while (word < size && data[word] == ' ')
			word++;
		end = word;
		while (end < size && data[end] != ' ')
			end++;
		columns = columns_of(data + word, end - word);
		/* Where the next line has no more room, none is begun. */
		if (width != 0 && !is_new && column + word - i > hang &&
			column + word - i + columns > width) {
			writer_char(to, '\n');
			writer_spaces(to, hang);
			column = hang + columns;
		} else {
			writer_spaces(to, word - i);
			column += word - i + columns;
		}
		put_word(to, data + word, end - word);
		is_new = false;
		i = end;
	}
}
