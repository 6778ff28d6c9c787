/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers written in decimal.
 */
#include <stdio.h>
#include <stdlib.h>

#include "syntax/decimal.h"

enum { ROOM_FOR_EXPONENT = 32 };

/* The number behind `e`; what no double has is cut off at a thousand million. */
static bool take_exponent(
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

/* A number taken apart: its digits without the point, and the power of ten behind. */
struct decimal {
	const unsigned char *whole, *fraction;
	size_t whole_size, fraction_size;
	int64_t exponent;
	bool negative;
};

static bool take_apart(struct fsdp_span text, struct decimal *number)
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
	       ((*at++ | 0x20) == 'e' && take_exponent(&at, end, &number->exponent));
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

/* What nearly all times look like: no sign, no exponent, no more digits behind the point
 * than the power has, and nineteen in all at most, which 64 bits hold. */
static bool take_plain(struct fsdp_span text, int power, int64_t *ret_value)
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
	if (take_plain(text, power, &plain)) {
		*ret_value = plain;
		return true;
	}
	if (!take_apart(text, &number))
		return false;
	/* So many of the digits stand before the point of the result. */
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
	if (text.size == 0 || text.data[0] == '+' || !take_apart(text, &number) ||
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

/*
 * strtod reads the decimal point of the process's locale, which is none of our business.
 * So it gets none: 1.25e3 becomes 125e1, which is the same number and rounds the same.
 */
static double without_point(const struct decimal *number, char *out)
{
	char *begin = out;
	memcpy(out, number->whole, number->whole_size);
	memcpy(out + number->whole_size, number->fraction, number->fraction_size);
	out += number->whole_size + number->fraction_size;
	snprintf(out, ROOM_FOR_EXPONENT, "e%lld",
		(long long)(number->exponent - (int64_t)number->fraction_size));
	return strtod(begin, NULL);
}

bool fsdp_decimal_real(struct fsdp_span text, struct fsdp_arena *scratch,
	double *ret_value, bool *ret_memory)
{
	struct decimal number;
	if (!take_apart(text, &number))
		return false;
	char few[64 + ROOM_FOR_EXPONENT], *room = few;
	if (text.size > 64)
		room = fsdp_arena_take(scratch, text.size + ROOM_FOR_EXPONENT, 1);
	if (room == NULL) {
		*ret_memory = true;
		return false;
	}
	double value = without_point(&number, room);
	*ret_value = number.negative ? -value : value;
	return true;
}
