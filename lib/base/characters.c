/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats characters and numbers as text.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/characters.h"

unsigned char *fsdp_utf8_put(unsigned char *out, uint32_t point)
{
	if (point < 0x80) {
		*out++ = (unsigned char)point;
		return out;
	}
	if (point < 0x800) {
		*out++ = (unsigned char)(0xc0 | point >> 6);
	} else {
		if (point < 0x10000) {
			*out++ = (unsigned char)(0xe0 | point >> 12);
		} else {
			*out++ = (unsigned char)(0xf0 | point >> 18);
			*out++ = (unsigned char)(0x80 | (point >> 12 & 0x3f));
		}
		*out++ = (unsigned char)(0x80 | (point >> 6 & 0x3f));
	}
	*out++ = (unsigned char)(0x80 | (point & 0x3f));
	return out;
}

/* Bytes of the character that begins here, or 0. Which second bytes are good depends on
 * the first: that keeps out what is overlong, surrogates, and the end of the range. */
static size_t character(const unsigned char *at, size_t left)
{
	unsigned char first = at[0];
	size_t size = first < 0x80   ? 1
		      : first < 0xc2 ? 0
		      : first < 0xe0 ? 2
		      : first < 0xf0 ? 3
		      : first < 0xf5 ? 4
				     : 0;
	if (size < 2 || size > left)
		return size > left ? 0 : size;
	unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < size; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return size;
}

bool fsdp_utf8_is_valid(struct fsdp_span text)
{
	const uint64_t high = UINT64_C(0x8080808080808080);
	for (size_t at = 0; at < text.size;) {
		size_t left = text.size - at, size = sizeof high;
		if (left < size || (fsdp_load_eight(text.data + at) & high) != 0)
			size = character(text.data + at, left);
		if (size == 0)
			return false;
		at += size;
	}
	return true;
}

static int hex_digit(unsigned char c)
{
	if (fsdp_is_digit(c))
		return c - '0';
	unsigned char low = c | 0x20;
	return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

bool fsdp_hex_take(const unsigned char **at, const unsigned char *end, int count,
	uint32_t *ret_value)
{
	if (end - *at < count)
		return false;
	uint32_t value = 0;
	for (int i = 0; i < count; i++) {
		int digit = hex_digit((*at)[i]);
		if (digit < 0)
			return false;
		value = value << 4 | (uint32_t)digit;
	}
	*at += count;
	*ret_value = value;
	return true;
}

/*
 * Numbers written in decimal.
 */

enum { ROOM_FOR_EXPONENT = 32 };

/* The number after `e`; values outside of a double's range are limited to 10^9. */
static bool parse_exponent(
	const unsigned char **at, const unsigned char *end, int64_t *ret_exponent)
{
	static const int64_t enough = 1000000000;
	bool negative = *at < end && **at == '-';
	if (*at < end && (**at == '-' || **at == '+'))
		(*at)++;
	if (*at == end)
		return false;
	int64_t exponent = 0;
	for (; *at < end; (*at)++) {
		if (!fsdp_is_digit(**at))
			return false;
		exponent = exponent * 10 + (**at - '0');
		if (exponent > enough)
			exponent = enough;
	}
	*ret_exponent = negative ? -exponent : exponent;
	return true;
}

/* ---- integers ---- */

/* A number taken apart: its digits without the point, and the power of ten. */
struct decimal {
	const unsigned char *whole, *fraction;
	size_t whole_size, fraction_size;
	int64_t exponent;
	bool negative;
};

static bool parse_parts(struct fsdp_span text, struct decimal *number)
{
	const unsigned char *at = text.data, *end = at + text.size;
	*number = (struct decimal){ .negative = at < end && *at == '-' };
	if (at < end && (*at == '-' || *at == '+'))
		at++;
	for (number->whole = at; at < end && fsdp_is_digit(*at); at++)
		number->whole_size++;
	if (at < end && *at == '.')
		at++;
	for (number->fraction = at; at < end && fsdp_is_digit(*at); at++)
		number->fraction_size++;
	if (number->whole_size + number->fraction_size == 0)
		return false;
	return at == end ||
	       ((*at++ | 0x20) == 'e' && parse_exponent(&at, end, &number->exponent));
}

static bool add_digit(uint64_t *value, unsigned digit)
{
	return !__builtin_mul_overflow(*value, UINT64_C(10), value) &&
	       !__builtin_add_overflow(*value, digit, value);
}

static unsigned digit_at(const struct decimal *number, size_t index)
{
	return index < number->whole_size
		       ? number->whole[index] - '0'
		       : number->fraction[index - number->whole_size] - '0';
}

static bool with_sign(uint64_t value, bool negative, int64_t *ret_value)
{
	if (value > (uint64_t)INT64_MAX + negative)
		return false;
	*ret_value = (int64_t)(negative ? 0 - value : value);
	return true;
}

/* What nearly all times look like: no sign, no exponent, no more digits after the point
 * than the power has, and nineteen in all at most, which 64 bits hold. */
static bool parse_plain(struct fsdp_span text, int power, int64_t *ret_value)
{
	enum { MOST = 19 };
	uint64_t value = 0;
	size_t i = text.size >= 8 ? fsdp_decimal_digits(text.data, &value) : 0;
	while (i < text.size && i <= MOST && fsdp_is_digit(text.data[i]))
		value = value * 10 + (text.data[i++] - '0');
	if (i == 0 || power < 0 || i + (size_t)power > MOST)
		return false;
	if (i < text.size && text.data[i] == '.')
		for (i++; i < text.size && power > 0 && fsdp_is_digit(text.data[i]);
			i++) {
			value = value * 10 + (text.data[i] - '0');
			power--;
		}
	for (; power > 0; power--)
		value *= 10;
	*ret_value = (int64_t)value;
	return i == text.size && value <= INT64_MAX;
}

bool fsdp_decimal_fixed(struct fsdp_span text, int power, int64_t *ret_value)
{
	struct decimal number;
	int64_t plain;
	if (parse_plain(text, power, &plain)) {
		*ret_value = plain;
		return true;
	}
	if (!parse_parts(text, &number))
		return false;
	/* Number of digits before the point of the result. */
	size_t count = number.whole_size + number.fraction_size;
	int64_t before = (int64_t)number.whole_size + number.exponent + power;
	size_t taken = before <= 0                ? 0
		       : (uint64_t)before < count ? (size_t)before
						  : count;
	uint64_t value = 0;
	for (size_t i = 0; i < taken; i++)
		if (!add_digit(&value, digit_at(&number, i)))
			return false;
	for (int64_t i = (int64_t)count; i < before && value != 0; i++)
		if (!add_digit(&value, 0))
			return false;
	/* The half is decided by the next digit alone. */
	if (before >= 0 && (uint64_t)before < count &&
		digit_at(&number, (size_t)before) >= 5 &&
		__builtin_add_overflow(value, UINT64_C(1), &value))
		return false;
	return with_sign(value, number.negative, ret_value);
}

bool fsdp_decimal_integer(struct fsdp_span text, int64_t *ret_value)
{
	struct decimal number;
	if (text.size == 0 || text.data[0] == '+' || !parse_parts(text, &number) ||
		number.whole_size == 0 ||
		text.data + text.size != number.fraction + number.fraction_size)
		return false;
	for (size_t i = 0; i < number.fraction_size; i++)
		if (number.fraction[i] != '0')
			return false;
	uint64_t value = 0;
	for (size_t i = 0; i < number.whole_size; i++)
		if (!add_digit(&value, number.whole[i] - '0'))
			return false;
	return with_sign(value, number.negative, ret_value);
}

/* ---- doubles ---- */

bool fsdp_decimal_real(struct fsdp_span text, struct fsdp_arena *scratch,
	double *ret_value, bool *ret_memory)
{
	struct decimal number;
	if (!parse_parts(text, &number))
		return false;
	char few[64 + ROOM_FOR_EXPONENT], *room = few;
	if (text.size > 64)
		room = fsdp_arena_take(scratch, text.size + ROOM_FOR_EXPONENT, 1);
	if (room == NULL) {
		*ret_memory = true;
		return false;
	}
	/* strtod reads the decimal point of the process's locale, which is none of our
	 * business. So it gets none: 1.25e3 becomes 125e1, which is the same number and
	 * rounds the same. */
	char *out = room;
	char *begin = out;
	memcpy(out, number.whole, number.whole_size);
	memcpy(out + number.whole_size, number.fraction, number.fraction_size);
	out += number.whole_size + number.fraction_size;
	snprintf(out, ROOM_FOR_EXPONENT, "e%lld",
		(long long)(number.exponent - (int64_t)number.fraction_size));
	double value = strtod(begin, NULL);
	*ret_value = number.negative ? -value : value;
	return true;
}

/*
 * Integers too large for 64 bits, as text.
 */

enum { DECIMAL_BYTES = 512, WORDS = DECIMAL_BYTES / 4, GROUP = 9, HEX_BYTES = 4096 };

static const uint32_t group_value = 1000000000;

static struct fsdp_span decimal(
	struct fsdp_span bytes, bool negative, struct fsdp_arena *arena)
{
	uint32_t words[WORDS];
	char text[DECIMAL_BYTES * 3 + 16];
	/* The absolute value as 32-bit words, least first; returns how many. */
	uint64_t carry = negative;
	size_t count = (bytes.size + 3) / 4;
	for (size_t i = 0; i < count; i++) {
		uint32_t word = 0;
		for (size_t b = 0; b < 4; b++) {
			size_t at = i * 4 + b;
			uint32_t byte = at < bytes.size ? bytes.data[at]
					: negative      ? 0xff
							: 0;
			word |= byte << (8 * b);
		}
		carry += negative ? ~word : word;
		words[i] = (uint32_t)carry;
		carry >>= 32;
	}
	size_t at = sizeof text;
	while (count != 0) {
		/* Divides by 10^9 and gives the rest. */
		uint64_t rest = 0;
		for (size_t i = count; i-- > 0;) {
			rest = rest << 32 | words[i];
			words[i] = (uint32_t)(rest / group_value);
			rest %= group_value;
		}
		while (count != 0 && words[count - 1] == 0)
			--count;
		uint32_t group = (uint32_t)rest;
		for (size_t i = 0; i < GROUP && (count != 0 || group != 0); i++) {
			text[--at] = (char)('0' + group % 10);
			group /= 10;
		}
	}
	if (at == sizeof text)
		text[--at] = '0';
	if (negative)
		text[--at] = '-';
	return fsdp_arena_copy(arena, fsdp_span(text + at, sizeof text - at));
}

struct fsdp_span fsdp_big_text(struct fsdp_span bytes, struct fsdp_arena *arena)
{
	bool negative = bytes.size != 0 && bytes.data[bytes.size - 1] & 0x80;
	if (bytes.size <= DECIMAL_BYTES)
		return decimal(bytes, negative, arena);
	static const char digits[] = "0123456789abcdef";
	size_t size = bytes.size < HEX_BYTES ? bytes.size : HEX_BYTES;
	char *text = fsdp_arena_take(arena, 2 * size + 8, 1);
	size_t at = 0;
	if (text == NULL)
		return (struct fsdp_span){ 0 };
	if (negative)
		text[at++] = '~'; /* the bits as stored, not their value */
	text[at++] = '0';
	text[at++] = 'x';
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = bytes.data[bytes.size - 1 - i];
		text[at++] = digits[byte >> 4];
		text[at++] = digits[byte & 15];
	}
	return fsdp_span(text, at);
}
