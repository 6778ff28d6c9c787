/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_CHARACTERS_H
#define FSDP_BASE_CHARACTERS_H

#include "base/arena.h"
#include "base/span.h"

/* Surrogates are written like any other code point. Up to four bytes; returns the
 * position after them. */
unsigned char *fsdp_utf8_put(unsigned char *out, uint32_t point);

/* No surrogates, nothing overlong, nothing beyond U+10FFFF. */
bool fsdp_utf8_is_valid(struct fsdp_span text);

/* `count` hexadecimal digits at *at, which it moves after them. */
bool fsdp_hex_take(const unsigned char **at, const unsigned char *end, int count,
	uint32_t *ret_value);

/*
 * Numbers written in decimal: [+-] digits [. digits] [e[+-]digits], at least one digit
 * before or after the point. All return false for anything else, and for what does not
 * fit.
 */

/* Appends up to eight digits to *value; returns their number. Eight bytes can be read. */
static inline unsigned fsdp_decimal_digits(const unsigned char *at, uint64_t *value)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	static const uint64_t powers[] = { 1, 10, 100, 1000, 10000, 100000, 1000000,
		10000000, 100000000 };
	uint64_t digits = fsdp_load_eight(at) ^ 0x3030303030303030;
	/* A digit plus this does not reach the top bit; only what follows the first other
	 * byte may be spoilt by a carry. */
	uint64_t other = ((digits + 0x7676767676767676) | digits) & 0x8080808080808080;
	unsigned count = other != 0 ? (unsigned)__builtin_ctzll(other) / 8 : 8;
	if (count == 0)
		return 0;
	/* Pairs of neighbors are joined, then pairs of pairs, as if each byte were a
	 * number of its own. */
	digits <<= 64 - 8 * count;
	digits = digits * 10 + (digits >> 8);
	digits = ((digits & 0x000000ff000000ff) * 0x000f424000000064 +
			 (digits >> 16 & 0x000000ff000000ff) * 0x0000271000000001) >>
		 32;
	*value = *value * powers[count] + digits;
#else
	unsigned count = 0;
	for (; count < 8 && fsdp_is_digit(at[count]); count++)
		*value = *value * 10 + at[count] - '0';
#endif
	return count;
}

/* times 10^power, to the nearest integer, halves away from zero: microseconds with power
 * 3 are nanoseconds, exactly. */
bool fsdp_decimal_fixed(struct fsdp_span text, int power, int64_t *ret_value);

/* An integer: -digits, and zeros after a point are accepted. */
bool fsdp_decimal_integer(struct fsdp_span text, int64_t *ret_value);

/* To the nearest double, whatever the locale; infinite if it is out of range.
 * *ret_memory: the scratch arena failed. */
bool fsdp_decimal_real(struct fsdp_span text, struct fsdp_arena *scratch,
	double *ret_value, bool *ret_memory);

/*
 * An integer too large for 64 bits, as text: decimal up to 512 bytes of it, hexadecimal
 * ("0x…"; negative ones as their bits, "~0x…") beyond, so that the work stays in
 * proportion to the input. `bytes` is little-endian two's complement. data NULL: out of
 * memory.
 */
struct fsdp_span fsdp_big_text(struct fsdp_span bytes, struct fsdp_arena *arena);

#endif
