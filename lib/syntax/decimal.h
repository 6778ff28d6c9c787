/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_DECIMAL_H
#define FSDP_SYNTAX_DECIMAL_H

#include "base/arena.h"

/*
 * Numbers written in decimal: [+-] digits [. digits] [e[+-]digits], at least one digit
 * before or behind the point. All return false for anything else, and for what does not
 * fit.
 */

/* The value of eight digits, each less '0', the first in the lowest byte: pairs of
 * neighbours are joined, then pairs of pairs, as if each byte were a number of its own.
 */
static inline uint64_t fsdp_decimal_eight(uint64_t digits)
{
	digits = digits * 10 + (digits >> 8);
	return ((digits & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
		       (digits >> 16 & UINT64_C(0x000000ff000000ff)) *
			       UINT64_C(0x0000271000000001)) >>
	       32;
}

/* times 10^power, to the nearest integer, halves away from zero: microseconds with power
 * 3 are nanoseconds, exactly. */
bool fsdp_decimal_fixed(struct fsdp_span text, int power, int64_t *ret_value);

/* An integer: -digits, and zeros behind a point are fine. */
bool fsdp_decimal_integer(struct fsdp_span text, int64_t *ret_value);

/* To the nearest double, whatever the locale; infinite where that is beyond. *ret_memory
 * tells that it was the scratch arena that failed. */
bool fsdp_decimal_real(struct fsdp_span text, struct fsdp_arena *scratch,
	double *ret_value, bool *ret_memory);

#endif
