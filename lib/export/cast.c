/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns floating numbers of one width into another: to the nearest, ties to even; a NaN
 * stays one with the upper bits of its payload, and what is too large becomes infinite, as
 * the hardware and torch do it. All goes through the bits of a double, in which each of
 * them is exact: rounding happens once.
 */
#include "export/exporting.h"

/* A binary floating format: how many bits. */
struct float_form {
	const char *name;
	unsigned bytes, exponent, fraction;
};

static const struct float_form float_forms[] = {
	{ "float64", 8, 11, 52 },
	{ "float32", 4, 8, 23 },
	{ "bfloat16", 2, 8, 7 },
	{ "float16", 2, 5, 10 },
};

static const struct float_form *form_of(uint32_t dtype)
{
	const char *name = fsdp_dtype(dtype)->name;
	for (size_t i = 0; i < FSDP_COUNT(float_forms); i++)
		if (strcmp(float_forms[i].name, name) == 0)
			return &float_forms[i];
	return NULL;
}

bool fsdp_cast_knows(uint32_t from, uint32_t to)
{
	return form_of(from) != NULL && form_of(to) != NULL;
}

enum { WIDE_FRACTION = 52, WIDE_BIAS = 1023 };
#define WIDE_ONES UINT64_C(0x7ff)

static uint64_t mask(unsigned bits)
{
	return (UINT64_C(1) << bits) - 1;
}

/* The bits of the double that has the same value. */
static inline uint64_t widen(uint64_t bits, struct float_form from)
{
	unsigned up = WIDE_FRACTION - from.fraction;
	uint64_t sign = bits >> (from.exponent + from.fraction) << 63;
	uint64_t exponent = bits >> from.fraction & mask(from.exponent);
	uint64_t fraction = bits & mask(from.fraction);
	if (from.bytes == 8)
		return bits;
	if (exponent == mask(from.exponent))
		return sign | WIDE_ONES << WIDE_FRACTION | fraction << up;
	uint64_t bias = (UINT64_C(1) << (from.exponent - 1)) - 1;
	if (exponent != 0)
		return sign | (exponent + WIDE_BIAS - bias) << WIDE_FRACTION |
		       fraction << up;
	if (fraction == 0)
		return sign;
	/* A subnormal: its highest bit becomes the one that is not stored. */
	unsigned shift = (unsigned)__builtin_clzll(fraction) - (63 - from.fraction);
	fraction = fraction << shift & mask(from.fraction);
	return sign | (WIDE_BIAS - bias + 1 - shift) << WIDE_FRACTION | fraction << up;
}

/* Drops the last bits of a number, to nearest even. */
static inline uint64_t round_off(uint64_t number, unsigned drop)
{
	if (drop > 63)
		return 0;
	uint64_t half = drop != 0 ? UINT64_C(1) << (drop - 1) : 0;
	uint64_t kept = number >> drop, rest = number & mask(drop);
	return kept + (rest > half || (rest == half && drop != 0 && (kept & 1) != 0));
}

/* The bits of the nearest number of the narrower format. */
static inline uint64_t narrow(uint64_t bits, struct float_form to)
{
	if (to.bytes == 8)
		return bits;
	unsigned down = WIDE_FRACTION - to.fraction;
	uint64_t sign = bits >> 63 << (to.exponent + to.fraction);
	int64_t exponent = (int64_t)(bits >> WIDE_FRACTION & WIDE_ONES);
	uint64_t fraction = bits & mask(WIDE_FRACTION);
	uint64_t infinity = mask(to.exponent) << to.fraction;
	if (exponent == (int64_t)WIDE_ONES) {
		uint64_t quiet = UINT64_C(1) << (to.fraction - 1);
		return sign | infinity | (fraction != 0 ? fraction >> down | quiet : 0);
	}
	if (exponent == 0)
		return sign; /* far below what the narrower ones can hold */
	int64_t bias = (INT64_C(1) << (to.exponent - 1)) - 1;
	exponent += bias - WIDE_BIAS;
	if (exponent >= (int64_t)mask(to.exponent))
		return sign | infinity;
	if (exponent > 0)
		/* Rounding up may carry into the exponent, up to infinity. */
		return sign |
		       round_off((uint64_t)exponent << WIDE_FRACTION | fraction, down);
	return sign | round_off(fraction | UINT64_C(1) << WIDE_FRACTION,
			      down + 1 + (unsigned)-exponent);
}

static inline uint64_t load(const unsigned char *bytes, unsigned size)
{
	uint64_t bits = 0;
	memcpy(&bits, bytes, size);
	return bits;
}

static inline bool is_infinite(uint64_t bits, struct float_form form)
{
	return (bits & mask(form.exponent + form.fraction)) == mask(form.exponent)
								       << form.fraction;
}

uint64_t fsdp_cast(uint32_t from, uint32_t to, const unsigned char *bytes, uint64_t count,
	unsigned char *out)
{
	struct float_form in = *form_of(from), narrower = *form_of(to);
	uint64_t overflowed = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t bits = load(bytes + i * in.bytes, in.bytes);
		uint64_t made = narrow(widen(bits, in), narrower);
		overflowed += is_infinite(made, narrower) && !is_infinite(bits, in);
		memcpy(out + i * narrower.bytes, &made, narrower.bytes);
	}
	return overflowed;
}
