/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how far numbers are apart, sixteen at a time.
 */
#include "analysis/compare/apart.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "analysis/compare/apart-pairs.h"
#include "base/num.h"
#include "base/vector-loops.h"

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

/* The same for finite numbers; false if others occur, or some are too far apart: the added result is then invalid.
 * `more` is 0 if values that equal the product of `near` cannot be larger, else 1. */
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

/* Adds numbers whose distance is at most the previous one, which single precision checks quickly: a larger product
 * or difference does not round to less. False: nothing was added. */
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

/* The largest share so far, or just less. */
static float near_of(const struct fsdp_apart *apart)
{
	float near = (float)apart->max_rel;

	return (double)near > apart->max_rel ? nextafterf(near, 0) : near;
}

/* The largest distance so far. */
static int32_t most_bits(const struct fsdp_apart *apart)
{
	float most = (float)fsdp_apart_max(apart);
	int32_t bits;

	memcpy(&bits, &most, sizeof bits);
	return bits;
}

static bool add_quickly(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t rows)
{
	if (kind != FSDP_APART_FLOATS)
		return fsdp_apart_add_pairs(apart, kind, a, b, rows);
	return add_smaller(apart, a, b, rows, near_of(apart), most_bits(apart));
}

/* The product of two such numbers is exact, so that what equals that of the largest share is
 * no larger. */
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

static void add_singles_one_by_one(struct fsdp_apart *apart, const float *a,
	const float *b, size_t count, uint64_t first)
{
	double numbers[2][BLOCK];

	for (size_t i = 0; i < count; i++) {
		numbers[0][i] = (double)a[i];
		numbers[1][i] = (double)b[i];
	}
	add_some(apart, numbers[0], numbers[1], count, first);
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
				      (const unsigned char *)numbers[1], some))
			add_singles_one_by_one(
				apart, numbers[0], numbers[1], some, first + at);
	}
}

double fsdp_apart_sum(const struct fsdp_apart *apart)
{
	double sum = 0;

	for (size_t k = 0; k < LANES; k++)
		sum += apart->sums[k];
	return sum;
}
