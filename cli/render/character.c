/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks characters up in a table of ranges.
 */
#include "render/character.h"

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
