/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the elements of paired tensors: bits, or numbers where dtypes differ; largest
 * and mean differences, and the first different element.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "compare/comparing.h"
#include "base/num.h"
#include "base/tasks.h"
#include "base/sort.h"
#include "base/span.h"
#include "naming/naming.h"

enum {
	WORDS = FSDP_APART_LANES / 2, /* of a row */
	SPREAD = 15 << 7,             /* 15 exponents of bfloat16 */
	HALF_OF_ONE = 0x3800,         /* of float16 */
	HALF_INFINITE = 0x7c00,
	FACTOR_BITS = 13,
};

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

/* Of two neighbors one is there when the word is shifted, and the other when it is
 * masked. */
static inline float first_brain(uint32_t word)
{
	return fsdp_float_of_bits(word << 16);
}

static inline float second_brain(uint32_t word)
{
	return fsdp_float_of_bits(word & UINT32_C(0xffff0000));
}

/* Values of float16 are scaled by 2^-112, NaN and Inf too: their distance from any other
 * number exceeds every bound, unless both are the same. */
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

/* Distances below one are exact, since all numbers are multiples of one. After an inexact
 * distance there may be more. */
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

/*
 * Numbers of 16 bits, read in pairs as one word: they are only added up, which is fast.
 * `kind` is FSDP_APART_BRAINS or FSDP_APART_HALVES, and the first number is in the first
 * lane. False, and nothing was added: some of the `rows` of all lanes may be farther
 * apart than before, or single precision cannot hold a distance.
 */
static bool add_pairs(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t rows)
{
	bool brain = kind == FSDP_APART_BRAINS;
	double most = fmin(fsdp_apart_max(apart), 0x1.fffffep127);
	struct bounds bounds = { .near = below(apart->max_rel),
		.most = size_of(below(most) * (brain ? 1 : 0x1p-112f)),
		.more = !has_few_bits(apart->max_rel) };
	return (brain ? add_any_brains : add_any_halves)(apart, a, b, rows, &bounds);
}

/*
 * Measures how far numbers are apart, sixteen at a time.
 */

enum { LANES = FSDP_APART_LANES, BLOCK = 64 * LANES };

static double distance(double a, double b)
{
	if (a == b || (isnan(a) && isnan(b)))
		return 0;
	return isfinite(a) && isfinite(b) ? fabs(a - b) : (double)INFINITY;
}

static void add_relative(struct fsdp_apart *apart, double a, double b)
{
	double far = distance(a, b);
	if (far != 0)
		far = isfinite(a) && isfinite(b) && b != 0 ? far / fabs(b)
							   : (double)INFINITY;
	if (far > apart->max_rel)
		apart->max_rel = far;
}

static void add_one(struct fsdp_apart *apart, size_t lane, double a, double b)
{
	double far = distance(a, b);
	if (isfinite(a) && isfinite(b))
		apart->sums[lane] += far;
	if (far > apart->most[lane])
		apart->most[lane] = far;
	add_relative(apart, a, b);
}

/* ---- rows of all lanes ---- */

/* Without its sign a number is ordered as its bits are, and to choose by bits is quicker
 * than by numbers. Nonzero if some |a - b| / |b| may be larger than `near`. */
FSDP_CLONES
static int64_t add_rows(struct fsdp_apart *apart, const double *a, const double *b,
	size_t rows, double near)
{
	const int64_t sign = INT64_MIN, infinite = INT64_C(0x7FF) << 52;
	int64_t over = 0, most[LANES];
	memcpy(most, apart->most, sizeof most);
	for (size_t row = 0; row < rows; row++)
		for (size_t k = 0; k < LANES; k++) {
			double x = a[row * LANES + k], y = b[row * LANES + k];
			double far = x - y, limit = near * y, added;
			int64_t of_x, of_y, bits, least;
			memcpy(&of_x, &x, sizeof of_x);
			memcpy(&of_y, &y, sizeof of_y);
			memcpy(&bits, &far, sizeof bits);
			memcpy(&least, &limit, sizeof least);
			int64_t size_x = of_x & ~sign, size_y = of_y & ~sign;
			int64_t equal = -(int64_t)(of_x == of_y) |
					-(int64_t)((size_x | size_y) == 0) |
					(-(int64_t)(size_x > infinite) &
						-(int64_t)(size_y > infinite));
			int64_t finite = -(int64_t)(size_x < infinite) &
					 -(int64_t)(size_y < infinite);
			bits = (bits & ~sign & finite) | (infinite & ~finite);
			bits &= ~equal;
			over |= -(int64_t)(bits >= (least & ~sign)) &
				-(int64_t)(bits != 0);
			most[k] = bits > most[k] ? bits : most[k];
			bits &= finite;
			memcpy(&added, &bits, sizeof added);
			apart->sums[k] += added;
		}
	memcpy(apart->most, most, sizeof most);
	return over;
}

/* The same for finite numbers; false if others occur, or some are too far apart: the
 * added result is then invalid. `more` is 0 if values that equal the product of `near`
 * cannot be larger, else 1. */
#define ADD_FINITE_ROWS(name, type)                                                    \
	FSDP_CLONES static bool name(struct fsdp_apart *apart, const unsigned char *a, \
		const unsigned char *b, size_t rows, double near, int64_t more,        \
		int64_t *ret_over)                                                     \
	{                                                                              \
		const int64_t size = INT64_MAX, infinite = INT64_C(0x7FF) << 52;       \
		int64_t most[LANES], over[LANES] = { 0 }, largest = 0;                 \
		double sums[LANES];                                                    \
		memcpy(most, apart->most, sizeof most);                                \
		memcpy(sums, apart->sums, sizeof sums);                                \
		for (size_t at = 0; at < rows * LANES; at += LANES)                    \
			for (size_t k = 0; k < LANES; k++) {                           \
				type x, y;                                             \
				memcpy(&x, a + (at + k) * sizeof x, sizeof x);         \
				memcpy(&y, b + (at + k) * sizeof y, sizeof y);         \
				double far = (double)x - (double)y;                    \
				double limit = near * (double)y;                       \
				int64_t bits, least;                                   \
				memcpy(&bits, &far, sizeof bits);                      \
				memcpy(&least, &limit, sizeof least);                  \
				bits &= size;                                          \
				least &= size;                                         \
				over[k] |= -(int64_t)(bits + more > least) &           \
					   -(int64_t)(bits != 0);                      \
				most[k] = bits > most[k] ? bits : most[k];             \
				memcpy(&far, &bits, sizeof far);                       \
				sums[k] += far;                                        \
			}                                                              \
		memcpy(apart->most, most, sizeof most);                                \
		memcpy(apart->sums, sums, sizeof sums);                                \
		*ret_over = 0;                                                         \
		for (size_t k = 0; k < LANES; k++) {                                   \
			*ret_over |= over[k];                                          \
			largest |= -(int64_t)(most[k] >= infinite);                    \
		}                                                                      \
		return largest == 0;                                                   \
	}
ADD_FINITE_ROWS(add_finite_doubles, double)
ADD_FINITE_ROWS(add_finite_floats, float)
#undef ADD_FINITE_ROWS

/* Divisions are slow, and soon none gives a larger number: only then all are made. What
 * rounding takes is far less than what is taken off `near`. */
static void add_block(
	struct fsdp_apart *apart, const double *a, const double *b, size_t rows)
{
	bool is_most = isinf(apart->max_rel);
	double near = apart->max_rel * (1 - 0x1p-50);
	struct fsdp_apart sound = *apart;
	int64_t over;
	if (add_finite_doubles(&sound, (const unsigned char *)a, (const unsigned char *)b,
		    rows, near, 1, &over))
		*apart = sound;
	else
		over = add_rows(apart, a, b, rows, is_most ? 0 : near);
	if (over == 0 || is_most)
		return;
	for (size_t i = 0; i < rows * LANES; i++)
		add_relative(apart, a[i], b[i]);
}

static void add_some(struct fsdp_apart *apart, const double *a, const double *b,
	size_t count, uint64_t first)
{
	size_t at = 0;
	for (; at < count && (first + at) % LANES != 0; at++)
		add_one(apart, (first + at) % LANES, a[at], b[at]);
	if (count - at >= LANES) {
		add_block(apart, a + at, b + at, (count - at) / LANES);
		at += (count - at) / LANES * LANES;
	}
	for (; at < count; at++)
		add_one(apart, (first + at) % LANES, a[at], b[at]);
}

void fsdp_apart_add(struct fsdp_apart *apart, const double *a, const double *b,
	size_t count, uint64_t first)
{
	for (size_t at = 0; at < count; at += BLOCK)
		add_some(apart, a + at, b + at, (size_t)fsdp_min(BLOCK, count - at),
			first + at);
}

/* ---- numbers of single precision and less ---- */

static inline float float_at(const unsigned char *from)
{
	float number;
	memcpy(&number, from, sizeof number);
	return number;
}

static inline float brain_at(const unsigned char *from)
{
	uint16_t bits;
	memcpy(&bits, from, sizeof bits);
	return fsdp_float_of_bf16(bits);
}

static inline float half_at(const unsigned char *from)
{
	uint16_t half;
	memcpy(&half, from, sizeof half);
	return fsdp_float_of_f16(half, 0x7c00, 0x1p112f);
}

/* Adds numbers whose distance is at most the previous one, which single precision checks
 * quickly: a larger product or difference does not round to less. False: nothing was
 * added. */
FSDP_CLONES
static bool add_smaller(struct fsdp_apart *apart, const unsigned char *a,
	const unsigned char *b, size_t rows, float near, int32_t most)
{
	int32_t over[LANES], largest[LANES] = { 0 };
	double sums[LANES];
	memcpy(sums, apart->sums, sizeof sums);
	for (size_t k = 0; k < LANES; k++)
		over[k] = INT32_MIN;
	for (size_t at = 0; at < rows * LANES; at += LANES)
		for (size_t k = 0; k < LANES; k++) {
			float x = float_at(a + (at + k) * sizeof x);
			float y = float_at(b + (at + k) * sizeof y);
			float gap = x - y, limit = near * y;
			int32_t bits, least;
			memcpy(&bits, &gap, sizeof bits);
			memcpy(&least, &limit, sizeof least);
			bits &= INT32_MAX;
			least &= INT32_MAX;
			least = bits - (least > 1 ? least : 1);
			over[k] = least > over[k] ? least : over[k];
			largest[k] = bits > largest[k] ? bits : largest[k];
			sums[k] += fabs((double)x - (double)y);
		}
	for (size_t k = 0; k < LANES; k++)
		if (over[k] >= 0 || largest[k] >= most)
			return false;
	memcpy(apart->sums, sums, sizeof sums);
	return true;
}

#define WIDEN(name, width, at_)                                                          \
	FSDP_CLONES static void name(const unsigned char *from, size_t count, float *to) \
	{                                                                                \
		for (size_t i = 0; i < count; i++)                                       \
			to[i] = at_(from + i * width);                                   \
	}
WIDEN(widen_floats, 4, float_at)
WIDEN(widen_brains, 2, brain_at)
WIDEN(widen_halves, 2, half_at)
#undef WIDEN

static const struct {
	size_t width;
	void (*widen)(const unsigned char *from, size_t count, float *to);
} singles[] = {
	[FSDP_APART_FLOATS] = { 4, widen_floats },
	[FSDP_APART_BRAINS] = { 2, widen_brains },
	[FSDP_APART_HALVES] = { 2, widen_halves },
};

static bool add_quickly(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t rows)
{
	float near = (float)apart->max_rel, most = (float)fsdp_apart_max(apart);
	int32_t most_bits;
	if (kind != FSDP_APART_FLOATS)
		return add_pairs(apart, kind, a, b, rows);
	/* The largest share so far, or just less. */
	if ((double)near > apart->max_rel)
		near = nextafterf(near, 0);
	memcpy(&most_bits, &most, sizeof most_bits);
	return add_smaller(apart, a, b, rows, near, most_bits);
}

/* The product of two such numbers is exact, so that what equals that of the largest share
 * does not exceed it. */
static bool add_floats(struct fsdp_apart *apart, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	bool exact = (double)(float)apart->max_rel == apart->max_rel;
	double near = exact ? apart->max_rel : apart->max_rel * (1 - 0x1p-50);
	struct fsdp_apart sound = *apart;
	int64_t over;
	if (!add_finite_floats(&sound, a, b, count / LANES, near, !exact, &over) ||
		over != 0)
		return false;
	*apart = sound;
	return true;
}

void fsdp_apart_add_singles(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t count, uint64_t first)
{
	float numbers[2][BLOCK];
	for (size_t at = 0; at < count; at += BLOCK) {
		size_t some = (size_t)fsdp_min(BLOCK, count - at);
		const unsigned char *one = a + at * singles[kind].width;
		const unsigned char *other = b + at * singles[kind].width;
		bool whole = (first + at) % LANES == 0 && some % LANES == 0;
		if (whole && add_quickly(apart, kind, one, other, some / LANES))
			continue;
		singles[kind].widen(one, some, numbers[0]);
		singles[kind].widen(other, some, numbers[1]);
		if (!whole || !add_floats(apart, (const unsigned char *)numbers[0],
				      (const unsigned char *)numbers[1], some)) {
			double doubles[2][BLOCK];
			for (size_t i = 0; i < some; i++) {
				doubles[0][i] = (double)numbers[0][i];
				doubles[1][i] = (double)numbers[1][i];
			}
			add_some(apart, doubles[0], doubles[1], some, first + at);
		}
	}
}

double fsdp_apart_sum(const struct fsdp_apart *apart)
{
	double sum = 0;
	for (size_t k = 0; k < LANES; k++)
		sum += apart->sums[k];
	return sum;
}

/*
 * Spots elements that differ, block by block.
 */

enum { BLOCK_SPOTTING = 16 << 10, NUMBERS = 1 << 10 };

struct precision {
	const char *name;
	int fraction,
		least; /* bits after the first one; exponent of the smallest normal number */
	double most;
};

static const struct precision precisions[] = {
	{ "float32", 23, -126, 0x1.fffffep127 },
	{ "float16", 10, -14, 65504 },
	{ "bfloat16", 7, -126, 0x1.fep127 },
	{ "float8_e4m3fn", 3, -6, 448 },
	{ "float8_e5m2", 2, -14, 57344 },
};

struct fsdp_spotting {
	uint32_t dtypes[2];
	size_t widths[2];
	size_t parts; /* numbers of an element */
	const struct precision *narrow;
	unsigned wide; /* the side that is rounded */
	bool tolerant;
	bool are_singles; /* both of one kind that single precision holds */
	enum fsdp_apart_kind kind;
	double absolute, relative;
	uint64_t at;
	struct fsdp_spotted spotted;
	struct fsdp_apart apart;
	double numbers[2][2 * NUMBERS];
};

struct fsdp_spotting *fsdp_spotting_new(void)
{
	return calloc(1, sizeof(struct fsdp_spotting));
}

void fsdp_spotting_free(struct fsdp_spotting *spotting)
{
	free(spotting);
}

static bool is_single(const char *dtype, enum fsdp_apart_kind *ret_kind)
{
	static const char *const names[] = { [FSDP_APART_FLOATS] = "float32",
		[FSDP_APART_BRAINS] = "bfloat16",
		[FSDP_APART_HALVES] = "float16" };
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (strcmp(dtype, names[i]) == 0) {
			*ret_kind = (enum fsdp_apart_kind)i;
			return true;
		}
	return false;
}

void fsdp_spotting_begin(struct fsdp_spotting *spotting, const uint32_t dtypes[2],
	uint64_t first, bool tolerant, double absolute, double relative)
{
	const struct fsdp_dtype *a = fsdp_dtype(dtypes[0]), *b = fsdp_dtype(dtypes[1]);
	spotting->dtypes[0] = dtypes[0];
	spotting->dtypes[1] = dtypes[1];
	spotting->widths[0] = a->storage_bytes;
	spotting->widths[1] = b->storage_bytes;
	spotting->parts = a->is_complex ? 2 : 1;
	spotting->wide = b->item_bits > a->item_bits;
	spotting->narrow = NULL;
	for (size_t i = 0; dtypes[0] != dtypes[1] && i < FSDP_COUNT(precisions); i++)
		if (strcmp(precisions[i].name,
			    fsdp_dtype(dtypes[spotting->wide == 1 ? 0 : 1])->name) == 0)
			spotting->narrow = &precisions[i];
	spotting->tolerant = tolerant;
	spotting->absolute = absolute;
	spotting->relative = relative;
	spotting->at = first;
	spotting->apart = (struct fsdp_apart){ 0 };
	spotting->are_singles = dtypes[0] == dtypes[1] && !tolerant &&
				is_single(a->name, &spotting->kind);
	spotting->spotted = (struct fsdp_spotted){
		.first = FSDP_UNKNOWN,
		.has_numbers = a->is_complex == b->is_complex &&
			       fsdp_elements_are_numbers(dtypes[0]) &&
			       fsdp_elements_are_numbers(dtypes[1]),
		.zero = { true, true },
	};
}

static inline double of_bits(int64_t bits)
{
	double number;
	memcpy(&number, &bits, sizeof number);
	return number;
}

/* To the nearest number of the dtype, ties to even: a sum this much larger has no bits
 * left after it. NaN and Inf become NaN. */
static inline double rounded(double number, const struct precision *to)
{
	const int64_t exponents = INT64_C(0x7FF) << 52;
	int64_t bits, least = (int64_t)(to->least + 1023) << 52;
	memcpy(&bits, &number, sizeof bits);
	bits &= exponents;
	double larger = of_bits(bits > least ? bits : least) *
			of_bits((INT64_C(52 + 1023) - to->fraction) << 52) * 1.5;
	double nearest = number + larger - larger;
	bool overflows = fabs(number) > 2 * to->most || fabs(nearest) > to->most;
	return overflows ? copysign((double)INFINITY, number) : nearest;
}

static bool is_close(const struct fsdp_spotting *spotting, double a, double b)
{
	if (a == b || (isnan(a) && isnan(b)))
		return true;
	return isfinite(a) && isfinite(b) &&
	       fabs(a - b) <= spotting->absolute + spotting->relative * fabs(b);
}

/* Whether a number of both is the same, as it was asked for. */
static bool is_same_number(struct fsdp_spotting *spotting, double a, double b)
{
	if (is_close(spotting, a, b))
		return true;
	if (spotting->narrow == NULL)
		return false;
	double near_a = spotting->wide == 0 ? rounded(a, spotting->narrow) : a;
	double near_b = spotting->wide == 1 ? rounded(b, spotting->narrow) : b;
	if (!is_close(spotting, near_a, near_b))
		return false;
	spotting->spotted.rounded++;
	return true;
}

/* ---- elements ---- */

/* How many of so many differ; a block has less than 2^16 elements. */
#define COUNT_DIFFERING(name, type, sum)                                      \
	FSDP_CLONES static size_t name(                                       \
		const unsigned char *a, const unsigned char *b, size_t count) \
	{                                                                     \
		sum differing = 0;                                            \
		for (size_t i = 0; i < count; i++) {                          \
			type one, other;                                      \
			memcpy(&one, a + i * sizeof one, sizeof one);         \
			memcpy(&other, b + i * sizeof other, sizeof other);   \
			differing = (sum)(differing + (one != other));        \
		}                                                             \
		return differing;                                             \
	}
COUNT_DIFFERING(count_8, uint8_t, uint16_t)
COUNT_DIFFERING(count_16, uint16_t, uint16_t)
COUNT_DIFFERING(count_32, uint32_t, uint32_t)
COUNT_DIFFERING(count_64, uint64_t, uint64_t)
_Static_assert(
	BLOCK_SPOTTING <= UINT16_MAX, "the differing elements of a block are counted");

static size_t count_differing(
	const unsigned char *a, const unsigned char *b, size_t count, size_t width)
{
	size_t differing = 0;
	switch (width) {
	case 1:
		return count_8(a, b, count);
	case 2:
		return count_16(a, b, count);
	case 4:
		return count_32(a, b, count);
	case 8:
		return count_64(a, b, count);
	}
	for (size_t i = 0; i < count; i++)
		differing += memcmp(a + i * width, b + i * width, width) != 0;
	return differing;
}

/* By their bytes: of one dtype, or of what is not a number. */
static void look_at_bytes(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	size_t width = spotting->widths[0];
	bool comparable = width == spotting->widths[1];
	size_t differing = comparable ? count_differing(a, b, count, width) : count;
	size_t i = 0;
	if (differing == 0)
		return;
	spotting->spotted.differing += differing;
	if (spotting->spotted.first != FSDP_UNKNOWN)
		return;
	while (comparable && memcmp(a + i * width, b + i * width, width) == 0)
		i++;
	spotting->spotted.first = spotting->at + i;
}

/* How many are equal, and how many once the first ones are rounded. */
FSDP_CLONES
static void count_same(const double *wide, const double *narrow, size_t count,
	const struct precision *to, size_t *ret_equal, size_t *ret_rounded)
{
	const struct precision precision = *to;
	size_t equal = 0, rounds = 0;
	for (size_t i = 0; i < count; i++) {
		double a = wide[i], b = narrow[i];
		size_t is_equal = (a == b) | ((a != a) & (b != b));
		equal += is_equal;
		rounds += (rounded(a, &precision) == b) & !is_equal;
	}
	*ret_equal = equal;
	*ret_rounded = rounds;
}

/* Whether all are the same, if only rounding was asked for. */
static bool are_same(struct fsdp_spotting *spotting, size_t count)
{
	size_t equal, rounds;
	if (spotting->narrow == NULL || spotting->tolerant)
		return false;
	count_same(spotting->numbers[spotting->wide],
		spotting->numbers[1 - spotting->wide], count, spotting->narrow, &equal,
		&rounds);
	if (equal + rounds != count)
		return false;
	spotting->spotted.rounded += rounds;
	return true;
}

/* Of numbers: by their bits, unless dtypes or a tolerance ask for more. */
static void look_at_numbers(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	size_t parts = spotting->parts;
	if (spotting->are_singles) {
		fsdp_apart_add_singles(
			&spotting->apart, spotting->kind, a, b, count, spotting->at);
		look_at_bytes(spotting, a, b, count);
		return;
	}
	fsdp_elements_numbers(spotting->dtypes[0], a, count, spotting->numbers[0]);
	fsdp_elements_numbers(spotting->dtypes[1], b, count, spotting->numbers[1]);
	fsdp_apart_add(&spotting->apart, spotting->numbers[0], spotting->numbers[1],
		count * parts, spotting->at * parts);
	if (!spotting->tolerant && spotting->dtypes[0] == spotting->dtypes[1]) {
		look_at_bytes(spotting, a, b, count);
		return;
	}
	if (are_same(spotting, count * parts))
		return;
	for (size_t i = 0; i < count; i++) {
		bool same = true;
		for (size_t k = i * parts; k < (i + 1) * parts; k++)
			same = is_same_number(spotting, spotting->numbers[0][k],
				       spotting->numbers[1][k]) &&
			       same;
		if (same)
			continue;
		if (spotting->spotted.first == FSDP_UNKNOWN)
			spotting->spotted.first = spotting->at + i;
		spotting->spotted.differing++;
	}
}

static void look(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	const unsigned char *bytes[2] = { a, b };
	for (unsigned i = 0; i < 2; i++) {
		size_t size = count * spotting->widths[i];
		if (spotting->spotted.zero[i] && size != 0)
			spotting->spotted.zero[i] =
				bytes[i][0] == 0 &&
				memcmp(bytes[i], bytes[i] + 1, size - 1) == 0;
	}
	if (spotting->dtypes[0] == spotting->dtypes[1] &&
		memcmp(a, b, count * spotting->widths[0]) == 0)
		return;
	if (!spotting->spotted.has_numbers) {
		look_at_bytes(spotting, a, b, count);
		return;
	}
	for (size_t at = 0; at < count; at += NUMBERS) {
		size_t some = (size_t)fsdp_min(NUMBERS, count - at);
		uint64_t begin = spotting->at;
		spotting->at += at;
		look_at_numbers(spotting, a + at * spotting->widths[0],
			b + at * spotting->widths[1], some);
		spotting->at = begin;
	}
}

void fsdp_spot(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	size_t wide = spotting->widths[0] > spotting->widths[1] ? spotting->widths[0]
								: spotting->widths[1];
	size_t most = BLOCK_SPOTTING / wide;
	for (size_t at = 0; at < count; at += most) {
		size_t some = (size_t)fsdp_min(most, count - at);
		look(spotting, a + at * spotting->widths[0], b + at * spotting->widths[1],
			some);
		spotting->at += some;
	}
}

struct fsdp_spotted fsdp_spotting_end(const struct fsdp_spotting *spotting)
{
	struct fsdp_spotted spotted = spotting->spotted;
	spotted.max_abs = fsdp_apart_max(&spotting->apart);
	spotted.max_rel = spotting->apart.max_rel;
	spotted.sum_abs = fsdp_apart_sum(&spotting->apart);
	return spotted;
}

/*
 * Compares the elements of pairs: tensors are cut into stretches of the same elements on
 * both sides, which threads take in the order in which A stores them. What each stretch
 * says is joined in order, so no number depends on the threads.
 */

enum { STRETCH = 64 << 20, THREADS = 64 };

/* Elements of two tensors that are compared one by one. */
struct compared_stretch {
	size_t pair;
	struct fsdp_mapped sides[2];
	uint32_t file;  /* where A has them, and … */
	uint64_t order; /* … in which order there */
	uint64_t first, count;
	struct fsdp_spotted spotted;
};

struct values_comparing {
	struct fsdp_compare *compare;
	const struct fsdp_compare_values_options *options;
	struct fsdp_repeats *repeats[2];
	struct compared_stretch *stretches;
	size_t stretch_count, stretch_room;
	uint64_t total;
	_Atomic size_t next;
	_Atomic uint64_t done;
	_Atomic bool stopped;
	_Atomic(struct fsdp_error *) error;     /* that ends all of it: the first one */
	_Atomic(struct fsdp_error *) *failures; /* the first one of each pair */
};

/* A tensor as it is stored. */
static struct fsdp_mapped plain(const struct fsdp_checkpoint *checkpoint, uint32_t tensor)
{
	struct fsdp_tensor facts = fsdp_tensor(checkpoint, tensor);
	return (struct fsdp_mapped){
		.tensor = tensor,
		.dtype = facts.dtype,
		.numel = facts.numel,
	};
}

static bool add_stretches(struct values_comparing *comparing, size_t pair,
	const struct fsdp_mapped sides[2], struct fsdp_error **ret_error)
{
	struct fsdp_compare *compare = comparing->compare;
	struct fsdp_tensor a = fsdp_tensor(compare->sides[0].checkpoint, sides[0].tensor);
	uint64_t width = fsdp_dtype(sides[0].dtype)->storage_bytes;
	uint64_t other = fsdp_dtype(sides[1].dtype)->storage_bytes;
	uint64_t most = STRETCH / (width > other ? width : other);
	/* Who begins in the middle of what is packed unpacks all that is before. */
	for (unsigned i = 0; i < 2; i++)
		if (fsdp_tensor_is_packed(compare->sides[i].checkpoint, sides[i].tensor))
			most = UINT64_MAX;
	struct compared_stretch stretch = {
		.pair = pair, .sides = { sides[0], sides[1] }, .file = FSDP_NONE
	};
	if (a.piece_count != 0) {
		struct fsdp_piece piece =
			fsdp_piece(compare->sides[0].checkpoint, a.first_piece);
		stretch.file = piece.file;
		stretch.order = piece.order;
	}
	for (uint64_t first = 0; first < sides[0].numel; first += stretch.count) {
		stretch.first = first;
		stretch.count = fsdp_min(most, sides[0].numel - first);
		if (comparing->stretch_count == comparing->stretch_room) {
			size_t room = 2 * comparing->stretch_room + 256;
			struct compared_stretch *more =
				reallocarray(comparing->stretches, room, sizeof *more);
			if (more == NULL)
				return fsdp_fail_memory(ret_error);
			comparing->stretches = more;
			comparing->stretch_room = room;
		}
		comparing->stretches[comparing->stretch_count++] = stretch;
	}
	comparing->total += sides[0].numel * (width + other);
	compare->facts.compared_bytes += sides[0].numel * width;
	return true;
}

static void keep_failure(
	struct values_comparing *comparing, size_t pair, struct fsdp_error *error)
{
	struct fsdp_error *none = NULL;
	if (!atomic_compare_exchange_strong(&comparing->failures[pair], &none, error))
		fsdp_error_free(error);
}

static bool is_readable(struct values_comparing *comparing, size_t pair,
	const struct fsdp_mapped sides[2])
{
	struct fsdp_compare *compare = comparing->compare;
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_checkpoint *checkpoint = compare->sides[i].checkpoint;
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, sides[i].tensor);
		struct fsdp_span name =
			fsdp_compared_at(compare, i, compare->pairs[pair].sides[i])
				->facts.name;
		const char *what = (tensor.flags & FSDP_TENSOR_NO_DATA) != 0
					   ? "it has no bytes in any file"
				   : fsdp_dtype(tensor.dtype)->storage_bytes == 0
					   ? "its dtype is not known"
					   : NULL;
		struct fsdp_error *error = NULL;
		if (what == NULL &&
			fsdp_repeats_take(comparing->repeats[i], sides[i].tensor,
				fsdp_mapped_cost(checkpoint, &sides[i]), &error))
			continue;
		if (what == NULL)
			fsdp_error_add_member(&error, name);
		else
			fsdp_fail(&error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"%.*s was not compared: %s", FSDP_TEXT_MOST(name, 200),
				what);
		keep_failure(comparing, pair, error);
		return false;
	}
	return true;
}

static bool is_same_quantizer(
	const struct fsdp_compare *compare, const struct fsdp_tensor tensors[2])
{
	struct fsdp_quantizer of[2];
	for (unsigned i = 0; i < 2; i++) {
		if (tensors[i].quantizer == FSDP_NONE)
			return tensors[0].quantizer == tensors[1].quantizer;
		of[i] = fsdp_quantizer(
			compare->sides[i].checkpoint, tensors[i].quantizer);
	}
	return memcmp(&of[0].scale, &of[1].scale, sizeof of[0].scale) == 0 &&
	       of[0].zero_point == of[1].zero_point && of[0].axis == of[1].axis;
}

/* Both are sparse, or quantized, in the same way: their components are compared. */
static bool has_same_form(
	const struct fsdp_compare *compare, const struct fsdp_tensor tensors[2])
{
	bool sparse = tensors[0].layout != NULL, other = tensors[1].layout != NULL;
	if (sparse != other ||
		(sparse && strcmp(tensors[0].layout, tensors[1].layout) != 0) ||
		tensors[0].component_count != tensors[1].component_count ||
		!is_same_quantizer(compare, tensors))
		return false;
	FSDP_EACH(i, tensors[0].component_count, a,
		fsdp_tensor(
			compare->sides[0].checkpoint, tensors[0].first_component + i)) {
		struct fsdp_tensor b = fsdp_tensor(
			compare->sides[1].checkpoint, tensors[1].first_component + i);
		if (a.dtype != b.dtype || a.numel != b.numel)
			return false;
	}
	return true;
}

static bool add_pair(
	struct values_comparing *comparing, size_t index, struct fsdp_error **ret_error)
{
	struct fsdp_compare *compare = comparing->compare;
	struct fsdp_compared_pair *pair = &compare->pairs[index];
	struct fsdp_tensor tensors[2];
	struct fsdp_mapped sides[2];
	uint32_t ids[2];
	bool cut = false;
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_compared *one =
			fsdp_compared_at(compare, i, pair->sides[i]);
		ids[i] = one->facts.tensor;
		tensors[i] = fsdp_tensor(compare->sides[i].checkpoint, ids[i]);
		sides[i] = one->mapped != NULL
				   ? *one->mapped
				   : plain(compare->sides[i].checkpoint, ids[i]);
		cut |= one->mapped != NULL;
	}
	/* Both may be without bytes. */
	if ((pair->what & FSDP_DIFFERS_SHAPE) != 0 ||
		(tensors[0].flags & tensors[1].flags & FSDP_TENSOR_NO_DATA) != 0)
		return true;
	if (!cut && !has_same_form(compare, tensors)) {
		pair->what |= FSDP_DIFFERS_ELEMENTS;
		return true;
	}
	if (cut || tensors[0].layout == NULL) {
		if (!is_readable(comparing, index, sides))
			return true;
		if (!add_stretches(comparing, index, sides, ret_error))
			return false;
	}
	for (uint32_t i = 0; !cut && i < tensors[0].component_count; i++) {
		const uint32_t parts[2] = { tensors[0].first_component + i,
			tensors[1].first_component + i };
		for (unsigned k = 0; k < 2; k++)
			sides[k] = plain(compare->sides[k].checkpoint, parts[k]);
		if (is_readable(comparing, index, sides) &&
			!add_stretches(comparing, index, sides, ret_error))
			return false;
	}
	pair->compared = true;
	return true;
}

struct pair_reader {
	struct fsdp_locator *locators[2];
	struct fsdp_spotting *spotting;
};

/* Both streams come in spans of their own length. */
static bool spot_streams(struct values_comparing *comparing,
	struct fsdp_spotting *spotting, struct fsdp_mapped_elements *streams[2],
	const uint32_t widths[2], struct fsdp_error **ret_error)
{
	struct fsdp_span spans[2] = { { NULL, 0 }, { NULL, 0 } };
	for (;;) {
		for (unsigned i = 0; i < 2; i++)
			if (spans[i].size == 0 &&
				!fsdp_mapped_next(streams[i], &spans[i], ret_error))
				return false;
		size_t count = (size_t)fsdp_min(
			spans[0].size / widths[0], spans[1].size / widths[1]);
		if (count == 0)
			return true;
		fsdp_spot(spotting, spans[0].data, spans[1].data, count);
		for (unsigned i = 0; i < 2; i++)
			spans[i] = fsdp_span(spans[i].data + count * widths[i],
				spans[i].size - count * widths[i]);
		uint64_t bytes = count * (widths[0] + widths[1]);
		const struct fsdp_compare_values_options *options = comparing->options;
		uint64_t done = atomic_fetch_add(&comparing->done, bytes) + bytes;
		if (options->progress != NULL &&
			!options->progress(
				options->progress_context, done, comparing->total))
			atomic_store(&comparing->stopped, true);
		if (atomic_load(&comparing->stopped))
			return true;
	}
}

static bool compare_stretch(struct values_comparing *comparing,
	struct pair_reader *reader, struct compared_stretch *stretch,
	struct fsdp_error **ret_error)
{
	const struct fsdp_compare_values_options *options = comparing->options;
	struct fsdp_mapped_elements *streams[2] = { NULL, NULL };
	uint32_t widths[2], dtypes[2];
	bool good = true;
	for (unsigned i = 0; i < 2; i++) {
		dtypes[i] = stretch->sides[i].dtype;
		widths[i] = fsdp_dtype(dtypes[i])->storage_bytes;
	}
	fsdp_spotting_begin(reader->spotting, dtypes, stretch->first, options->tolerant,
		options->absolute, options->relative);
	for (unsigned i = 0; good && i < 2; i++)
		good = fsdp_mapped_open(reader->locators[i], &stretch->sides[i],
			stretch->first, stretch->count, &streams[i], ret_error);
	good = good &&
	       spot_streams(comparing, reader->spotting, streams, widths, ret_error);
	stretch->spotted = fsdp_spotting_end(reader->spotting);
	fsdp_mapped_close(streams[0]);
	fsdp_mapped_close(streams[1]);
	return good;
}

/* ---- threads ---- */

static void reader_done(struct pair_reader *reader)
{
	fsdp_locator_free(reader->locators[0]);
	fsdp_locator_free(reader->locators[1]);
	fsdp_spotting_free(reader->spotting);
}

static void end_all(struct values_comparing *comparing, struct fsdp_error *error)
{
	struct fsdp_error *none = NULL;
	if (!atomic_compare_exchange_strong(&comparing->error, &none, error))
		fsdp_error_free(error);
	atomic_store(&comparing->stopped, true);
}

static void work(void *context, size_t thread)
{
	struct values_comparing *comparing = context;
	struct pair_reader reader;
	struct fsdp_error *error = NULL;
	(void)thread;
	reader = (struct pair_reader){ { NULL, NULL }, fsdp_spotting_new() };
	if ((reader.spotting == NULL && !fsdp_fail_memory(&error)) ||
		!fsdp_locator_new(comparing->compare->sides[0].checkpoint,
			&reader.locators[0], &error) ||
		!fsdp_locator_new(comparing->compare->sides[1].checkpoint,
			&reader.locators[1], &error)) {
		end_all(comparing, error);
		reader_done(&reader);
		return;
	}
	while (!atomic_load(&comparing->stopped)) {
		size_t index = atomic_fetch_add(&comparing->next, 1);
		if (index >= comparing->stretch_count)
			break;
		struct compared_stretch *stretch = &comparing->stretches[index];
		if (atomic_load(&comparing->failures[stretch->pair]) != NULL ||
			compare_stretch(comparing, &reader, stretch, &error))
			continue;
		if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			end_all(comparing, error);
		else
			keep_failure(comparing, stretch->pair, error);
		error = NULL;
	}
	reader_done(&reader);
}

static void join(struct values_comparing *comparing)
{
	struct fsdp_compare *compare = comparing->compare;
	FSDP_EACH(i, compare->facts.pair_count, pair, &compare->pairs[i]) {
		pair->elements = (struct fsdp_compare_elements){
			.first = FSDP_UNKNOWN, .has_numbers = true, .equal = true
		};
		pair->zero[0] = pair->zero[1] = false;
	}
	/* In the order of pairs the results are joined. */
	struct compared_stretch *list = comparing->stretches;
	FSDP_SORT(list, comparing->stretch_count, FSDP_BY(list, pair),
		FSDP_BY(list, sides[0].tensor), FSDP_BY(list, first));
	for (size_t i = 0, end; i < comparing->stretch_count; i = end) {
		size_t index = comparing->stretches[i].pair;
		struct fsdp_compared_pair *pair = &compare->pairs[index];
		uint64_t counts[2] = { 0, 0 };
		pair->zero[0] = pair->zero[1] = true;
		for (end = i; end < comparing->stretch_count &&
			      comparing->stretches[end].pair == index;
			end++) {
			const struct fsdp_spotted *spotted =
				&comparing->stretches[end].spotted;
			struct fsdp_compare_elements *to = &pair->elements;
			if (to->first == FSDP_UNKNOWN && spotted->differing != 0)
				to->first = spotted->first;
			to->differing += spotted->differing;
			to->has_numbers = to->has_numbers && spotted->has_numbers;
			if (spotted->max_abs > to->max_abs)
				to->max_abs = spotted->max_abs;
			if (spotted->max_rel > to->max_rel)
				to->max_rel = spotted->max_rel;
			to->mean_abs += spotted->sum_abs;
			pair->zero[0] = pair->zero[0] && spotted->zero[0];
			pair->zero[1] = pair->zero[1] && spotted->zero[1];
			counts[0] += comparing->stretches[end].count;
			counts[1] += spotted->rounded;
		}
		struct fsdp_compare_elements *to = &pair->elements;
		to->equal = to->differing == 0;
		if (counts[0] != 0)
			to->mean_abs /= (double)counts[0];
		if (!to->equal)
			pair->what |= FSDP_DIFFERS_ELEMENTS;
		else if ((pair->what & FSDP_DIFFERS_DTYPE) != 0 && counts[1] != 0)
			pair->hint = FSDP_HINT_ROUNDED;
	}
}

static bool compare_all(struct values_comparing *comparing, struct fsdp_error **ret_error)
{
	struct fsdp_compare *compare = comparing->compare;
	for (size_t i = 0; i < compare->facts.pair_count; i++)
		if (!add_pair(comparing, i, ret_error))
			return false;
	struct compared_stretch *list = comparing->stretches;
	FSDP_SORT(list, comparing->stretch_count, FSDP_BY(list, file),
		FSDP_BY(list, order), FSDP_BY(list, pair), FSDP_BY(list, sides[0].tensor),
		FSDP_BY(list, first));
	unsigned jobs = comparing->options->jobs;
	jobs = jobs == 0 ? 1 : jobs < THREADS ? jobs : THREADS;
	if (comparing->stretch_count < jobs)
		jobs = comparing->stretch_count != 0 ? (unsigned)comparing->stretch_count
						     : 1;
	if (comparing->stretch_count != 0)
		fsdp_pool_run(jobs, jobs, work, comparing);
	struct fsdp_error *error = atomic_exchange(&comparing->error, NULL);
	if (error == NULL && atomic_load(&comparing->stopped))
		fsdp_fail(&error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "interrupted");
	if (error != NULL)
		return fsdp_fail_with(ret_error, error);
	join(comparing);
	FSDP_EACH(i, compare->facts.pair_count, pair, &compare->pairs[i]) {
		pair->failure = atomic_exchange(&comparing->failures[i], NULL);
		if (pair->failure == NULL)
			continue;
		pair->compared = pair->zero[0] = pair->zero[1] = false;
		pair->what &= ~(uint32_t)FSDP_DIFFERS_ELEMENTS;
	}
	return true;
}

bool fsdp_compare_elements(struct fsdp_compare *compare,
	const struct fsdp_compare_values_options *options, struct fsdp_error **ret_error)
{
	struct values_comparing comparing = { .compare = compare, .options = options };
	size_t count = compare->facts.pair_count;
	comparing.failures = calloc(count + 1, sizeof *comparing.failures);
	bool good = comparing.failures != NULL || fsdp_fail_memory(ret_error);
	for (unsigned i = 0; good && i < 2; i++)
		good = fsdp_repeats_new(
			compare->sides[i].checkpoint, &comparing.repeats[i], ret_error);
	good = good && compare_all(&comparing, ret_error);
	for (size_t i = 0; comparing.failures != NULL && i < count; i++)
		fsdp_error_free(atomic_load(&comparing.failures[i]));
	fsdp_repeats_free(comparing.repeats[0]);
	fsdp_repeats_free(comparing.repeats[1]);
	free(comparing.failures);
	free(comparing.stretches);
	return good;
}
