/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up distances of numbers of 16 bits. To make doubles takes longest, so only the
 * distance becomes one where single precision has it without rounding.
 */
#include "analysis/compare/apart-pairs.h"

#include <math.h>
#include <string.h>

#include "base/vector-loops.h"

enum {
	WORDS = FSDP_APART_LANES / 2, /* of a row */
	SPREAD = 15 << 7,             /* 15 exponents of bfloat16 */
	HALF_OF_ONE = 0x3800,         /* of float16 */
	HALF_INFINITE = 0x7c00,
	FACTOR_BITS = 13,
};

/* What none may exceed: a share, and a distance. */
struct bounds {
	float near;
	int32_t most;
	int32_t more; /* 1: what equals the product of `near` may exceed it */
};

static inline int32_t size_of(float number)
{
	int32_t bits;

	memcpy(&bits, &number, sizeof bits);
	return bits & INT32_MAX;
}

static inline uint32_t word_at(const unsigned char *from)
{
	uint32_t word;

	memcpy(&word, from, sizeof word);
	return word;
}

/* Of two neighbours one is there when the word is shifted, and the other when it is
 * masked. */
static inline float first_brain(uint32_t word)
{
	return fsdp_float_of_bits(word << 16);
}

static inline float second_brain(uint32_t word)
{
	return fsdp_float_of_bits(word & UINT32_C(0xffff0000));
}

/* Values of float16 are scaled by 2^-112, NaN and Inf too: their distance from any other number exceeds every bound,
 * unless both are the same. */
static inline float second_half(uint32_t word)
{
	return fsdp_float_of_bits((uint32_t)((int32_t)word >> 3) & UINT32_C(0x8fffe000));
}

static inline float first_half(uint32_t word)
{
	return second_half(word << 16);
}

/* Below zero if a bound may be exceeded. What does not differ exceeds none. */
static inline int32_t exceeds(const struct bounds *bounds, int32_t gap, int32_t limit)
{
	return (bounds->most - gap) | ((limit - bounds->more - gap) & -gap);
}

#define ADD_PAIRS(name, first, second, scale, far)                                     \
	FSDP_CLONES static bool name(struct fsdp_apart *apart, const unsigned char *a, \
		const unsigned char *b, size_t rows, const struct bounds *given)       \
	{                                                                              \
		const struct bounds bounds = *given;                                   \
		double sums[2][WORDS];                                                 \
		int32_t over[WORDS] = { 0 }, any = 0;                                  \
		for (size_t k = 0; k < WORDS; k++) {                                   \
			sums[0][k] = apart->sums[2 * k] / (scale);                     \
			sums[1][k] = apart->sums[2 * k + 1] / (scale);                 \
		}                                                                      \
		for (size_t at = 0; at < rows * WORDS; at += WORDS)                    \
			for (size_t k = 0; k < WORDS; k++) {                           \
				uint32_t x = word_at(a + (at + k) * sizeof x);         \
				uint32_t y = word_at(b + (at + k) * sizeof y);         \
				int32_t gap = size_of(first(x) - first(y));            \
				int32_t next = size_of(second(x) - second(y));         \
				int32_t limit = size_of(bounds.near * first(y));       \
				int32_t other = size_of(bounds.near * second(y));      \
				over[k] |= exceeds(&bounds, gap, limit) |              \
					   exceeds(&bounds, next, other);              \
				sums[0][k] += far(gap, first(x), first(y));            \
				sums[1][k] += far(next, second(x), second(y));         \
			}                                                              \
		for (size_t k = 0; k < WORDS; k++)                                     \
			any |= over[k];                                                \
		for (size_t k = 0; any >= 0 && k < WORDS; k++) {                       \
			apart->sums[2 * k] = sums[0][k] * (scale);                     \
			apart->sums[2 * k + 1] = sums[1][k] * (scale);                 \
		}                                                                      \
		return any >= 0;                                                       \
	}
#define IS_EXACT(gap, x, y) ((double)fsdp_float_of_bits((uint32_t)(gap)))
#define IS_ROUNDED(gap, x, y) fabs((double)(x) - (double)(y))
ADD_PAIRS(add_near_brains, first_brain, second_brain, 1, IS_EXACT)
ADD_PAIRS(add_brains, first_brain, second_brain, 1, IS_ROUNDED)
ADD_PAIRS(add_near_halves, first_half, second_half, 0x1p112, IS_EXACT)
ADD_PAIRS(add_halves, first_half, second_half, 0x1p112, IS_ROUNDED)
#undef ADD_PAIRS

/* How large numbers are, and how unlike those of both sides, as their bits are. */
struct pair_sizes {
	int16_t most, spread;
};

FSDP_CLONES
static void look_at_sizes(const unsigned char *a, const unsigned char *b, size_t count,
	struct pair_sizes *ret)
{
	int16_t largest = 0, widest = 0;

	for (size_t i = 0; i < count; i++) {
		int16_t x, y;
		memcpy(&x, a + i * sizeof x, sizeof x);
		memcpy(&y, b + i * sizeof y, sizeof y);
		x &= INT16_MAX;
		y &= INT16_MAX;
		int16_t least = x < y ? x : y, most = x < y ? y : x;
		int16_t spread = (int16_t)(most - least);
		spread &= (int16_t) - (least > 0);
		widest = spread > widest ? spread : widest;
		largest = most > largest ? most : largest;
	}
	*ret = (struct pair_sizes){ largest, widest };
}

/* A float that is not larger. */
static float below(double number)
{
	float nearest = (float)number;

	return (double)nearest > number ? nextafterf(nearest, 0) : nearest;
}

/* The product of so few bits and a number of 16 is exact. */
static bool has_few_bits(double number)
{
	int exponent;
	double share = ldexp(frexp(number, &exponent), FACTOR_BITS);
	double units = ldexp(number, FACTOR_BITS);

	return share == rint(share) && units == rint(units);
}

/* 24 bits reach from twice the larger number to the last bit of the smaller one. */
static bool add_any_brains(struct fsdp_apart *apart, const unsigned char *a,
	const unsigned char *b, size_t rows, struct bounds *bounds)
{
	struct pair_sizes sizes;

	look_at_sizes(a, b, rows * FSDP_APART_LANES, &sizes);
	if (sizes.spread < SPREAD)
		return add_near_brains(apart, a, b, rows, bounds);
	bounds->most--;
	bounds->more = 1;
	return add_brains(apart, a, b, rows, bounds);
}

/* Distances below one are exact, since all numbers are multiples of one. After an inexact distance there may be
 * more. */
static bool add_any_halves(struct fsdp_apart *apart, const unsigned char *a,
	const unsigned char *b, size_t rows, struct bounds *bounds)
{
	const int32_t one = size_of(0x1p-112f);
	struct pair_sizes sizes = { 0 };

	if (bounds->most >= one)
		look_at_sizes(a, b, rows * FSDP_APART_LANES, &sizes);
	if (sizes.most < HALF_OF_ONE)
		return add_near_halves(apart, a, b, rows, bounds);
	bounds->most--;
	bounds->more = 1;
	return sizes.most < HALF_INFINITE && add_halves(apart, a, b, rows, bounds);
}

bool fsdp_apart_add_pairs(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t rows)
{
	bool brain = kind == FSDP_APART_BRAINS;
	double most = fmin(fsdp_apart_max(apart), 0x1.fffffep127);
	struct bounds bounds = { .near = below(apart->max_rel),
		.most = size_of(below(most) * (brain ? 1 : 0x1p-112f)),
		.more = !has_few_bits(apart->max_rel) };

	return (brain ? add_any_brains : add_any_halves)(apart, a, b, rows, &bounds);
}
