/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that comes from files: which characters are shown, how they are escaped, how many
 * columns they take, and how sentences are wrapped.
 */
#include <stdbool.h>

#include "render/writer.h"

/*
 * Looks characters up in a table of ranges.
 */

enum { KIND_BITS = 3, COLUMNS = 3, HIDDEN = 4 };

/* Of the last range that begins no later. The first one begins at 0. */
static unsigned kind_of(uint32_t character)
{
	const uint32_t wanted = character << KIND_BITS | ((1u << KIND_BITS) - 1);
	size_t low = 0, high = character_range_count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (character_ranges[middle] <= wanted)
			low = middle;
		else
			high = middle;
	}
	return character_ranges[low] & ((1u << KIND_BITS) - 1);
}

unsigned character_columns(uint32_t character)
{
	return kind_of(character) & COLUMNS;
}

bool character_is_hidden(uint32_t character)
{
	return (kind_of(character) & HIDDEN) != 0;
}

/*
 * Writes characters that may be shown as they are, and escapes the others. Names reach a
 * terminal only through this file.
 */

/* The high bit of a byte is set if that byte is a control, DEL or not ASCII; after the
 * first such byte the others may be wrong, which does not matter for "any". */
static uint64_t suspicious(uint64_t word)
{
	uint64_t control = word - EACH_BYTE(0x20);
	uint64_t delete = (word ^ EACH_BYTE(0x7f)) - EACH_BYTE(0x01);
	return (control | delete | word) & EACH_BYTE(0x80);
}

static bool is_plain(const char *data, size_t size)
{
	size_t at = 0;
	for (; size - at >= sizeof(uint64_t); at += sizeof(uint64_t))
		if (suspicious(load_eight(data + at)) != 0)
			return false;
	for (; at < size; at++)
		if ((unsigned char)data[at] < 0x20 || (unsigned char)data[at] >= 0x7f)
			return false;
	return true;
}

size_t character_decode(const char *data, size_t size, uint32_t *ret_character)
{
	/* Bounds of the second byte are narrower after some first bytes: no overlong
	 * forms, no surrogates, nothing beyond U+10FFFF. */
	const unsigned char *bytes = (const unsigned char *)data;
	unsigned first = bytes[0];
	unsigned low = 0x80, high = 0xbf;
	size_t length;
	*ret_character = CHARACTER_NONE;
	if (first < 0x80) {
		*ret_character = first;
		return 1;
	}
	if (first < 0xc2 || first > 0xf4)
		return 1;
	if (first < 0xe0) {
		length = 2;
	} else if (first < 0xf0) {
		length = 3;
		low = first == 0xe0 ? 0xa0 : low;
		high = first == 0xed ? 0x9f : high;
	} else {
		length = 4;
		low = first == 0xf0 ? 0x90 : low;
		high = first == 0xf4 ? 0x8f : high;
	}
	uint32_t character = first & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if (i == size || bytes[i] < low || bytes[i] > high)
			return i;
		character = character << 6 | (bytes[i] & 0x3fu);
		low = 0x80;
		high = 0xbf;
	}
	*ret_character = character;
	return length;
}

bool escape_needed(uint32_t character)
{
	if (character >= 0x20 && character < 0x7f)
		return false;
	if (character < 0xa0 || character > 0x10ffff)
		return true;
	return character_is_hidden(character);
}

static void write_byte(struct writer *writer, unsigned char byte)
{
	static const char digits[] = "0123456789abcdef";
	const char text[4] = { '\\', 'x', digits[byte >> 4], digits[byte & 15] };
	writer_put(writer, text, sizeof text);
}

static void write_code(struct writer *writer, uint32_t character)
{
	char text[16];
	int size = snprintf(text, sizeof text, "\\u{%04x}", (unsigned)character);
	writer_put(writer, text, (size_t)size);
}

static bool is_line_or_tab(uint32_t character)
{
	return character == '\t' || character == '\n' || character == '\r';
}

static bool write_short(struct writer *writer, uint32_t character)
{
	if (!is_line_or_tab(character))
		return false;
	writer_char(writer, '\\');
	writer_char(writer, character == '\t' ? 't' : character == '\n' ? 'n' : 'r');
	return true;
}

static bool stays(
	const struct writer *writer, uint32_t character, enum escape_style style)
{
	if (character == CHARACTER_NONE || (writer->ascii && character >= 0x80))
		return false;
	return !escape_needed(character) ||
	       (style == ESCAPE_CSV && is_line_or_tab(character));
}

static bool any_needed(const struct writer *writer, const char *data, size_t size,
	enum escape_style style)
{
	while (size != 0) {
		uint32_t character;
		size_t length = character_decode(data, size, &character);
		if (!stays(writer, character, style))
			return true;
		data += length;
		size -= length;
	}
	return false;
}

void escape_write(
	struct writer *writer, const char *data, size_t size, enum escape_style style)
{
	bool doubled =
		style == ESCAPE_TSV && size != 0 && memchr(data, '\\', size) != NULL;
	if (!doubled && (is_plain(data, size) || !any_needed(writer, data, size, style)))
		writer_put(writer, data, size);
	else
		while (size != 0) {
			uint32_t character;
			size_t length = character_decode(data, size, &character);
			if (character == CHARACTER_NONE)
				for (size_t i = 0; i < length; i++)
					write_byte(writer, (unsigned char)data[i]);
			else if (character == '\\')
				writer_put(writer, "\\\\", 2);
			else if (stays(writer, character, style))
				writer_put(writer, data, length);
			else if (style == ESCAPE_TSV && write_short(writer, character))
				;
			else if (character < 0x80)
				write_byte(writer, (unsigned char)character);
			else
				write_code(writer, character);
			data += length;
			size -= length;
		}
}

size_t escape_cut(const char *data, size_t size, size_t limit)
{
	if (size <= limit)
		return size;
	/* A character has at most three bytes after its first. */
	size_t begin = limit;
	while (begin != 0 && limit - begin < 3 &&
		((unsigned char)data[begin] & 0xc0) == 0x80)
		begin--;
	uint32_t character;
	size_t length = character_decode(data + begin, size - begin, &character);
	return character != CHARACTER_NONE && begin + length > limit ? begin : limit;
}

/*
 * Counts the columns that characters take. Takes escaped text only, which is valid UTF-8.
 */

static size_t step(const char *data, size_t size, size_t *ret_width)
{
	if ((unsigned char)data[0] < 0x80) {
		*ret_width = 1;
		return 1;
	}
	uint32_t character;
	size_t length = character_decode(data, size, &character);
	if (character == CHARACTER_NONE) {
		*ret_width = 1;
		return 1;
	}
	*ret_width = character_columns(character);
	return length;
}

size_t width_of(const char *data, size_t size)
{
	size_t width = 0;
	unsigned char all = 0;
	for (size_t i = 0; i < size; i++)
		all |= (unsigned char)data[i];
	if (all < 0x80)
		return size;
	for (size_t at = 0; at < size;) {
		size_t columns;
		at += step(data + at, size - at, &columns);
		width += columns;
	}
	return width;
}

size_t width_front(const char *data, size_t size, size_t columns)
{
	size_t at = 0;
	while (at < size) {
		size_t width;
		size_t length = step(data + at, size - at, &width);
		if (width > columns)
			break;
		columns -= width;
		at += length;
	}
	return at;
}

size_t width_back(const char *data, size_t size, size_t columns)
{
	size_t begin = size;
	while (begin != 0) {
		size_t at = begin - 1;
		while (at != 0 && ((unsigned char)data[at] & 0xc0) == 0x80)
			at--;
		size_t width;
		step(data + at, begin - at, &width);
		if (width > columns)
			break;
		columns -= width;
		begin = at;
	}
	return size - begin;
}

/*
 * Breaks sentences into lines between words.
 */

/* Bytes of a color ("\033[1;31m") that begins here; 0: none does. */
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

static void write_word(struct writer *to, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		writer_char(to, data[i] == WRAP_GLUE ? ' ' : data[i]);
}

void wrap_write(struct writer *to, const char *data, size_t size, size_t width,
	size_t hang, size_t column)
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
		/* No line is begun if it does not fit. */
		if (width != 0 && !is_new && column + word - i > hang &&
			column + word - i + columns > width) {
			writer_char(to, '\n');
			writer_spaces(to, hang);
			column = hang + columns;
		} else {
			writer_spaces(to, word - i);
			column += word - i + columns;
		}
		write_word(to, data + word, end - word);
		is_new = false;
		i = end;
	}
}
