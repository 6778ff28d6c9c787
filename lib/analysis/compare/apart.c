/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how far numbers are apart, sixteen at a time.
 */
#include "analysis/compare/apart.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/clones.h"
#include "base/num.h"

enum { LANES = FSDP_APART_LANES, BLOCK = 64 * LANES };

/* ---- one by one ---- */

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

/* Divisions are slow, and soon none gives a larger number: only then all are made. What
 * rounding takes is far less than what is taken off `near`. */
static void add_block(
	struct fsdp_apart *apart, const double *a, const double *b, size_t rows)
{
	double near = apart->max_rel * (1 - 0x1p-50);
	bool is_most = isinf(apart->max_rel);

	if (add_rows(apart, a, b, rows, is_most ? 0 : near) == 0 || is_most)
		return;
	for (size_t i = 0; i < rows * LANES; i++)
		add_relative(apart, a[i], b[i]);
}

void fsdp_apart_add(struct fsdp_apart *apart, const double *a, const double *b,
	size_t count, uint64_t first)
{
	size_t at = 0;

	for (; at < count && (first + at) % LANES != 0; at++)
		add_one(apart, (first + at) % LANES, a[at], b[at]);
	while (count - at >= LANES) {
		size_t some = (size_t)fsdp_min(BLOCK, count - at) / LANES;
		add_block(apart, a + at, b + at, some);
		at += some * LANES;
	}
	for (; at < count; at++)
		add_one(apart, (first + at) % LANES, a[at], b[at]);
}

double fsdp_apart_max(const struct fsdp_apart *apart)
{
	double most = 0;

	for (size_t k = 0; k < LANES; k++)
		if (apart->most[k] > most)
			most = apart->most[k];
	return most;
}

double fsdp_apart_sum(const struct fsdp_apart *apart)
{
	double sum = 0;

	for (size_t k = 0; k < LANES; k++)
		sum += apart->sums[k];
	return sum;
}
