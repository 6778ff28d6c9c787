/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PART_DIGITS_H
#define PART_DIGITS_H

#include <stddef.h>

/* The number that a text begins with, of nine digits at most, and what follows it; NULL if
 * it begins otherwise. */
static inline const char *digits_read(const char *text, unsigned *ret_number)
{
	const char *at = text;

	for (*ret_number = 0; is_digit(*at) && at - text < 9; at++)
		*ret_number = *ret_number * 10 + (unsigned)(*at - '0');
	return at != text ? at : NULL;
}

#endif
