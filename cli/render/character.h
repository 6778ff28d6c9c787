/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARACTER_H
#define CHARACTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What Unicode says of a character, up to U+10FFFF. */

/* Columns that it takes on a terminal: 0, 1 or 2. */
unsigned character_columns(uint32_t character);

/* Whether it is a control, a format or otherwise invisible character, a separator of lines
 * or paragraphs, half of a surrogate pair, or none that is assigned. */
bool character_is_hidden(uint32_t character);

/* internal to character.c; gen-characters.c writes it while the program is built: where
 * a range begins, times eight, plus its columns, plus 4 if its characters are hidden. */
extern const uint32_t character_ranges[];
extern const size_t character_range_count;

#endif
