/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one element of a dtype as a number.
 *
 * Layouts: IEEE 754 for float16, float32, float64; bfloat16 is the upper half of float32;
 * the 8-bit floats are those of the OCP specification "OFP8" (e4m3fn, e5m2), of its
 * "fnuz" variants (bias one larger, one NaN, no infinities, no negative zero), and of the
 * OCP "MX" specification (e8m0: powers of two).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "part/element-text.h"
#include "part/value-text.h"

enum special {
	IEEE,          /* the largest exponent is infinity and NaN */
	ALL_ONES,      /* only all ones is NaN */
	UNSIGNED_ZERO, /* the pattern of minus zero is NaN */
};

struct float_format {
	const char *name;
	unsigned exponent, fraction; /* bits */
	int bias;
	enum special special;
};

static const struct float_format FLOATS[] = {
	{ "bfloat16", 8, 7, 127, IEEE },
	{ "float16", 5, 10, 15, IEEE },
	{ "float32", 8, 23, 127, IEEE },
	{ "float8_e4m3fn", 4, 3, 7, ALL_ONES },
	{ "float8_e4m3fnuz", 4, 3, 8, UNSIGNED_ZERO },
	{ "float8_e5m2", 5, 2, 15, IEEE },
	{ "float8_e5m2fnuz", 5, 2, 16, UNSIGNED_ZERO },
};

static const struct {
	const char *name, *part;
} COMPLEX[] = {
	{ "bcomplex32", "bfloat16" },
	{ "complex32", "float16" },
	{ "complex64", "float32" },
	{ "complex128", "float64" },
};

static const struct {
	const char *name;
	unsigned size;
	bool is_signed;
} INTEGERS[] = {
	{ "int16", 2, true },
	{ "int32", 4, true },
	{ "int64", 8, true },
	{ "int8", 1, true },
	{ "qint32", 4, true },
	{ "qint8", 1, true },
	{ "quint2x4", 1, false },
	{ "quint4x2", 1, false },
	{ "quint8", 1, false },
	{ "uint16", 2, false },
	{ "uint32", 4, false },
	{ "uint64", 8, false },
	{ "uint8", 1, false },
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t take(const unsigned char *bytes, unsigned size)
{
	uint64_t bits = 0;
	for (unsigned i = size; i-- > 0;)
		bits = bits << 8 | bytes[i];
	return bits;
}

/* ---- floating point ---- */

/* The value of a pattern without its sign. */
static double magnitude(const struct float_format *format, uint64_t pattern)
{
	uint64_t largest = (1ULL << format->exponent) - 1;
	uint64_t exponent = pattern >> format->fraction;
	uint64_t fraction = pattern & ((1ULL << format->fraction) - 1);

	if (exponent == largest && format->special == IEEE)
		return fraction == 0 ? (double)INFINITY : (double)NAN;
	if (exponent == largest && format->special == ALL_ONES &&
		fraction == (1ULL << format->fraction) - 1)
		return (double)NAN;
	if (exponent == 0)
		return ldexp((double)fraction, 1 - format->bias - (int)format->fraction);
	return ldexp((double)(fraction | 1ULL << format->fraction),
		(int)exponent - format->bias - (int)format->fraction);
}

static size_t spell_small(
	const struct float_format *format, uint64_t bits, char *buffer, size_t size)
{
	unsigned sign_bit = format->exponent + format->fraction;
	uint64_t pattern = bits & ((1ULL << sign_bit) - 1);
	bool negative = (bits >> sign_bit & 1) != 0;
	double value = magnitude(format, pattern), down, up;
	size_t length = 0;

	if (format->special == UNSIGNED_ZERO && negative && pattern == 0)
		return (size_t)snprintf(buffer, size, "nan");
	if (negative && !isnan(value))
		buffer[length++] = '-';
	down = pattern > 0 ? magnitude(format, pattern - 1) : 0;
	/* Past the largest number it is as far to what would be the next. */
	up = magnitude(format, pattern + 1);
	if (!isfinite(up))
		up = value + (value - down);
	return length + number_text_within(value, value - (value - down) / 2,
				value + (up - value) / 2, buffer + length, size - length);
}

static size_t spell_double(const unsigned char *bytes, char *buffer, size_t size)
{
	uint64_t bits = take(bytes, 8);
	double value;

	memcpy(&value, &bits, sizeof value);
	return number_text(value, buffer, size);
}

static const struct float_format *find_float(const char *name)
{
	for (size_t i = 0; i < COUNT(FLOATS); i++)
		if (strcmp(FLOATS[i].name, name) == 0)
			return &FLOATS[i];
	return NULL;
}

/* 0: no floating point type. */
static size_t spell_float(
	const char *name, const unsigned char *bytes, char *buffer, size_t size)
{
	const struct float_format *format = find_float(name);

	if (format != NULL)
		return spell_small(format,
			take(bytes, (1 + format->exponent + format->fraction) / 8),
			buffer, size);
	if (strcmp(name, "float64") == 0)
		return spell_double(bytes, buffer, size);
	if (strcmp(name, "float8_e8m0fnu") == 0)
		return number_text(
			bytes[0] == 0xff ? (double)NAN : ldexp(1, bytes[0] - 127), buffer,
			size);
	return 0;
}

static size_t spell_complex(const struct fsdp_dtype *dtype, const unsigned char *bytes,
	char *buffer, size_t size)
{
	for (size_t i = 0; i < COUNT(COMPLEX); i++) {
		size_t length, half = dtype->storage_bytes / 2;
		char imaginary[48];
		if (strcmp(COMPLEX[i].name, dtype->name) != 0)
			continue;
		length = spell_float(COMPLEX[i].part, bytes, buffer, size);
		spell_float(COMPLEX[i].part, bytes + half, imaginary, sizeof imaginary);
		return length + (size_t)snprintf(buffer + length, size - length, "%s%sj",
					imaginary[0] == '-' ? "" : "+", imaginary);
	}
	return 0;
}

/* ---- integers and the rest ---- */

static bool find_integer(const struct fsdp_dtype *dtype, const unsigned char *bytes,
	int64_t *ret_integer, bool *ret_large)
{
	for (size_t i = 0; i < COUNT(INTEGERS); i++) {
		uint64_t bits;
		unsigned shift = 64 - 8 * INTEGERS[i].size;
		if (strcmp(INTEGERS[i].name, dtype->name) != 0)
			continue;
		bits = take(bytes, INTEGERS[i].size);
		if (INTEGERS[i].is_signed && shift > 0 && (bits >> (63 - shift) & 1) != 0)
			bits |= UINT64_MAX << (64 - shift);
		*ret_integer = (int64_t)bits;
		*ret_large = !INTEGERS[i].is_signed && bits > INT64_MAX;
		return true;
	}
	return false;
}

static size_t spell_bytes(
	const unsigned char *bytes, size_t count, char *buffer, size_t size)
{
	size_t length = (size_t)snprintf(buffer, size, "0x");

	for (size_t i = count; i-- > 0 && length + 3 <= size;)
		length += (size_t)snprintf(
			buffer + length, size - length, "%02x", bytes[i]);
	return length;
}

struct text element_text(
	uint32_t index, const unsigned char *bytes, char buffer[ELEMENT_ROOM])
{
	const struct fsdp_dtype *dtype = fsdp_dtype(index);
	size_t length = spell_float(dtype->name, bytes, buffer, ELEMENT_ROOM);
	int64_t integer;
	bool large;

	if (length == 0)
		length = spell_complex(dtype, bytes, buffer, ELEMENT_ROOM);
	if (length == 0 && strcmp(dtype->name, "bool") == 0)
		length = (size_t)snprintf(
			buffer, ELEMENT_ROOM, "%s", bytes[0] != 0 ? "True" : "False");
	if (length == 0 && find_integer(dtype, bytes, &integer, &large))
		length = large ? (size_t)snprintf(buffer, ELEMENT_ROOM, "%" PRIu64,
					 (uint64_t)integer)
			       : (size_t)snprintf(
					 buffer, ELEMENT_ROOM, "%" PRId64, integer);
	if (length == 0)
		length = spell_bytes(bytes, dtype->storage_bytes, buffer, ELEMENT_ROOM);
	return (struct text){ buffer, length };
}

struct token element_token(
	uint32_t index, const unsigned char *bytes, char buffer[ELEMENT_ROOM])
{
	const struct fsdp_dtype *dtype = fsdp_dtype(index);
	int64_t integer;
	bool large = false;

	if (strcmp(dtype->name, "bool") == 0)
		return (struct token){ .type = TOKEN_BOOL, .integer = bytes[0] != 0 };
	if (find_integer(dtype, bytes, &integer, &large) && !large)
		return (struct token){ .type = TOKEN_INTEGER, .integer = integer };
	if (spell_float(dtype->name, bytes, buffer, ELEMENT_ROOM) > 0)
		return (struct token){ .type = TOKEN_NUMBER,
			.number = strtod(buffer, NULL) };
	return (struct token){ .type = TOKEN_TEXT,
		.text = element_text(index, bytes, buffer) };
}
