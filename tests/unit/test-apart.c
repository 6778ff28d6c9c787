/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of numbers: as a plain loop finds them, however a run is cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compare/comparing.h"

enum { COUNT = 3000, LANES = FSDP_APART_LANES };

static double a[COUNT], b[COUNT];

static uint64_t random_bits(void)
{
	static uint64_t state = 1;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static double any_number(unsigned kind)
{
	static const double odd[] = { 0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-1074,
		-0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023 };
	double number;
	uint64_t bits = random_bits();

	if (kind == 0)
		return odd[bits % (sizeof odd / sizeof *odd)];
	if (kind == 1)
		return (double)(int64_t)bits * 0x1p-63;
	memcpy(&number, &bits, sizeof number);
	return number;
}

static void fill(unsigned kind)
{
	for (size_t i = 0; i < COUNT; i++) {
		a[i] = any_number(kind == 3 ? (unsigned)(random_bits() % 3) : kind);
		b[i] = random_bits() % 4 == 0 ? a[i] : any_number(kind == 3 ? 0 : kind);
	}
}

/* What the header says, number by number. */
static struct fsdp_apart plain(size_t count)
{
	struct fsdp_apart apart = { 0 };

	for (size_t i = 0; i < count; i++) {
		bool finite = isfinite(a[i]) && isfinite(b[i]);
		double far = finite ? fabs(a[i] - b[i]) : (double)INFINITY;
		double share = finite && b[i] != 0 ? far / fabs(b[i]) : (double)INFINITY;

		if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
			continue;
		apart.most[i % LANES] = fmax(apart.most[i % LANES], far);
		apart.max_rel = fmax(apart.max_rel, share);
		apart.sums[i % LANES] += finite ? far : 0;
	}
	return apart;
}

static void check(size_t count, size_t step)
{
	struct fsdp_apart expected = plain(count), apart = { 0 };

	for (size_t at = 0; at < count; at += step)
		fsdp_apart_add(&apart, a + at, b + at,
			step < count - at ? step : count - at, at);
	for (size_t k = 0; k < LANES; k++) {
		assert_memory_equal(&apart.sums[k], &expected.sums[k], sizeof(double));
		assert_memory_equal(&apart.most[k], &expected.most[k], sizeof(double));
	}
	assert_memory_equal(&apart.max_rel, &expected.max_rel, sizeof(double));
}

static void all_kinds_of_numbers_in_all_cuts(void **state)
{
	static const size_t counts[] = { 0, 1, 15, 16, 17, 1024, COUNT };
	static const size_t steps[] = { 1, 7, 16, 33, 1000, 1024, COUNT };

	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		fill(kind);
		for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
			for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
				check(counts[i], steps[k]);
	}
}

/* A number of single precision, or what is left of it as one of 16 bits. */
static void keep(enum fsdp_apart_kind kind, double *number, unsigned char *to)
{
	float narrow = (float)*number;
	uint32_t bits;
	uint16_t half;

	memcpy(&bits, &narrow, sizeof bits);
	half = (uint16_t)(kind == FSDP_APART_BRAINS ? bits >> 16 : bits >> 7);
	if (kind == FSDP_APART_FLOATS) {
		memcpy(to, &narrow, sizeof narrow);
		*number = (double)narrow;
		return;
	}
	memcpy(to, &half, sizeof half);
	if (kind == FSDP_APART_BRAINS) {
		bits &= UINT32_C(0xFFFF0000);
		memcpy(&narrow, &bits, sizeof bits);
		*number = (double)narrow;
		return;
	}
	/* As the format is defined. */
	int exponent = half >> 10 & 31, fraction = half & 1023;
	*number = exponent == 0   ? ldexp(fraction, -24)
		  : exponent < 31 ? ldexp(1024 + fraction, exponent - 25)
				  : (fraction == 0 ? (double)INFINITY : (double)NAN);
	if ((half & 0x8000) != 0)
		*number = -*number;
}

static void same(const struct fsdp_apart *apart, const struct fsdp_apart *expected)
{
	double most[2] = { fsdp_apart_max(apart), fsdp_apart_max(expected) };

	assert_memory_equal(apart->sums, expected->sums, sizeof apart->sums);
	assert_memory_equal(&most[0], &most[1], sizeof most[0]);
	assert_memory_equal(&apart->max_rel, &expected->max_rel, sizeof apart->max_rel);
}

static void check_singles(enum fsdp_apart_kind of)
{
	static const size_t steps[] = { 1, 7, 16, 1024, COUNT };
	static unsigned char one[COUNT * sizeof(float)], other[COUNT * sizeof(float)];
	size_t width = of == FSDP_APART_FLOATS ? 4 : 2;

	for (size_t i = 0; i < COUNT; i++) {
		keep(of, &a[i], one + i * width);
		keep(of, &b[i], other + i * width);
	}
	struct fsdp_apart expected = plain(COUNT);
	for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
		struct fsdp_apart apart = { 0 };
		for (size_t at = 0; at < COUNT; at += steps[k])
			fsdp_apart_add_singles(&apart, of, one + at * width,
				other + at * width,
				steps[k] < COUNT - at ? steps[k] : COUNT - at, at);
		same(&apart, &expected);
	}
}

/* Numbers of less precision as they lie in memory are apart as they are when widened. */
static void singles_are_apart_as_doubles(void **state)
{
	static const enum fsdp_apart_kind kinds[] = { FSDP_APART_FLOATS,
		FSDP_APART_BRAINS, FSDP_APART_HALVES };

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (unsigned kind = 0; kind < 4; kind++) {
			fill(kind);
			check_singles(kinds[i]);
		}
}

/* Behind a first block that is farther apart than the others most are only added up; one
 * of them, in turn, is farther than all by little. */
static void what_is_farther_by_little_is_found(void **state)
{
	static const double first[][2] = { { 3, 2 }, { 0x1p-149, 0x1p-148 },
		{ 0x1p127, 0x1p-140 }, { 1, 0 }, { 0x1p-10, 0x1p100 }, { 0, 1000 } };
	static const double more[][2] = { { 3.0000002384185791, 2 },
		{ 3 * 0x1p-149, 0x1p-149 }, { 1, 0 }, { 0, 0x1p-149 }, { 40000, 7 },
		{ 1, -0x1p-24 }, { -0x1p-30, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof first / sizeof *first; i++)
		for (size_t k = 0; k < sizeof more / sizeof *more; k++)
			for (enum fsdp_apart_kind of = 0; of <= FSDP_APART_HALVES; of++) {
				for (size_t at = 0; at < COUNT; at++) {
					a[at] = 1 + (double)(random_bits() % 8) / 1024;
					b[at] = 1;
				}
				a[5] = first[i][0];
				b[5] = first[i][1];
				a[1024 + 250 * k] = more[k][0];
				b[1024 + 250 * k] = more[k][1];
				check_singles(of);
			}
}

/* Behind a first number that is farther apart than all others, those are numbers of very
 * different sizes: their distances have more bits than single precision holds. */
static void what_single_precision_cannot_hold_is_added_up(void **state)
{
	(void)state;
	for (int spread = 0; spread < 40; spread++)
		for (enum fsdp_apart_kind of = 0; of <= FSDP_APART_HALVES; of++) {
			for (size_t i = 0; i < COUNT; i++) {
				a[i] = ldexp(any_number(1), 4 + (int)i % 3);
				b[i] = ldexp(any_number(1), 4 - spread + (int)i % 3);
			}
			a[5] = 60000;
			b[5] = 0x1p-24;
			check_singles(of);
		}
}

/* The share of the last number is just above that of the first. */
static void the_largest_share_is_found_late(void **state)
{
	struct fsdp_apart apart = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		a[i] = 3;
		b[i] = 2;
	}
	a[COUNT - 1] = 2 + 0x1.0000000000001p0;
	fsdp_apart_add(&apart, a, b, COUNT, 0);
	assert_true(apart.max_rel == fabs(a[COUNT - 1] - 2) / 2);
	assert_true(fsdp_apart_max(&apart) >= 1);
	assert_true(fsdp_apart_sum(&apart) >= COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_of_numbers_in_all_cuts),
		cmocka_unit_test(singles_are_apart_as_doubles),
		cmocka_unit_test(what_is_farther_by_little_is_found),
		cmocka_unit_test(what_single_precision_cannot_hold_is_added_up),
		cmocka_unit_test(the_largest_share_is_found_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
