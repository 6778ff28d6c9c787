/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the columns that characters take. Takes escaped text only, which is valid UTF-8.
 */
#include <stdbool.h>

#include "render/character.h"
#include "render/escape.h"
#include "render/width.h"

static size_t step(const char *data, size_t size, size_t *ret_width)
{
	if ((unsigned char)data[0] < 0x80) {
		*ret_width = 1;
		return 1;
	}
	uint32_t character;
	size_t length = character_take(data, size, &character);
	if (character == CHARACTER_NONE) {
		*ret_width = 1;
		return 1;
	}
	*ret_width = character_columns(character);
	return length;
}

static bool is_ascii(const char *data, size_t size)
{
	unsigned char all = 0;
	for (size_t i = 0; i < size; i++)
		all |= (unsigned char)data[i];
	return all < 0x80;
}

size_t width_of(const char *data, size_t size)
{
	size_t width = 0;
	if (is_ascii(data, size))
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
