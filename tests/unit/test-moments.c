/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of every dtype, set against sums that are made one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elements/elements-private.h"
#include "checkpoint/model.h"

enum { MOST = 5000 };

static uint32_t dtype_of(const char *name)
{
	uint32_t dtype = fsdp_dtype_find(fsdp_span_text(name));
	assert_int_not_equal(dtype, 0);
	return dtype;
}

static struct fsdp_moments count(const char *dtype, const void *bytes, size_t size)
{
	struct fsdp_moments moments;
	fsdp_moments_init(&moments);
	fsdp_moments_add(&moments, dtype_of(dtype), false, bytes, size, 0);
	return moments;
}

static void close_to(double a, double b)
{
	assert_true(fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b)));
}

/* ---- plain sums ---- */

static void floats_are_added_up(void **state)
{
	(void)state;
	static const size_t sizes[] = { 0, 1, 15, 16, 17, 1023, 1024, 1040, MOST };
	float numbers[MOST];
	srand(1);
	for (size_t i = 0; i < MOST; i++)
		numbers[i] = (float)(rand() - RAND_MAX / 2) / (float)RAND_MAX;
	numbers[7] = 0;
	numbers[9] = -0.0f;
	numbers[1030] = 1e-40f;
	for (size_t k = 0; k < FSDP_COUNT(sizes); k++) {
		struct fsdp_moments moments =
			count("float32", numbers, sizes[k] * sizeof *numbers);
		double sum = 0, squares = 0, min = INFINITY, max = -INFINITY;
		uint64_t zeros = 0, small = 0;
		for (size_t i = 0; i < sizes[k]; i++) {
			double x = (double)numbers[i];
			sum += x;
			squares += x * x;
			min = x < min ? x : min;
			max = x > max ? x : max;
			zeros += x == 0;
			small += x != 0 && fabs(x) < 0x1p-126;
		}
		assert_int_equal(moments.count, sizes[k]);
		close_to(moments.sum + 1, sum + 1);
		close_to(moments.squares, squares);
		assert_true(moments.min == min && moments.max == max);
		assert_int_equal(moments.zeros, zeros);
		assert_int_equal(moments.subnormals, small);
		assert_int_equal(moments.bad_index, UINT64_MAX);
	}
}

static void doubles_and_integers_are_added_up(void **state)
{
	(void)state;
	double doubles[MOST];
	int64_t longs[MOST];
	uint16_t shorts[MOST];
	int8_t bytes[MOST];
	for (size_t i = 0; i < MOST; i++) {
		doubles[i] = (double)i / 2 - 700;
		longs[i] = (int64_t)i - 2000;
		shorts[i] = (uint16_t)(60000 + i);
		bytes[i] = (int8_t)(i % 256 - 128);
	}
	doubles[3000] = 1e-310;
	struct fsdp_moments moments = count("float64", doubles, sizeof doubles);
	assert_true(moments.min == -700 && moments.max == (MOST - 1) / 2.0 - 700);
	assert_int_equal(moments.subnormals, 1);
	assert_int_equal(moments.zeros, 1);
	moments = count("int64", longs, sizeof longs);
	assert_true(moments.min == -2000 && moments.max == MOST - 2001);
	assert_true(moments.sum == (double)MOST * (MOST - 1) / 2 - 2000.0 * MOST);
	moments = count("uint16", shorts, sizeof shorts);
	assert_true(moments.min == 60000 && moments.max == 64999);
	moments = count("int8", bytes, sizeof bytes);
	assert_true(moments.min == -128 && moments.max == 127);
	moments = count("bool", "\0\1\1\2", 4);
	assert_true(moments.max == 2);
	assert_int_equal(moments.zeros, 1);
}

/* ---- what is not finite ---- */

/* The least and the largest pattern of each, of both signs. */
static void infinity_lies_between_finite_and_none(void **state)
{
	static const uint64_t infinite = UINT64_C(0x7ff) << 52, sign = UINT64_C(1) << 63;
	(void)state;
	for (size_t at = 0; at < 40; at++) {
		uint64_t patterns[40] = { 0 };
		struct fsdp_moments moments;
		patterns[at] = infinite + 1;
		patterns[(at + 1) % 40] = sign | (infinite + 1);
		patterns[(at + 2) % 40] = sign | (sign - 1);
		patterns[(at + 3) % 40] = infinite;
		patterns[(at + 4) % 40] = sign | infinite;
		patterns[(at + 5) % 40] = infinite - 1;
		moments = count("float64", patterns, sizeof patterns);
		assert_int_equal(moments.nan, 3);
		assert_int_equal(moments.pos_inf, 1);
		assert_int_equal(moments.neg_inf, 1);
		assert_int_equal(moments.zeros, 34);
		assert_true(moments.min == 0 && moments.max == DBL_MAX);
	}
}

static void the_first_that_is_not_finite_is_known(void **state)
{
	(void)state;
	float numbers[MOST] = { 0 };
	numbers[1500] = NAN;
	numbers[1501] = INFINITY;
	numbers[4999] = -INFINITY;
	numbers[10] = -3;
	struct fsdp_moments moments = count("float32", numbers, sizeof numbers);
	assert_int_equal(moments.nan, 1);
	assert_int_equal(moments.pos_inf, 1);
	assert_int_equal(moments.neg_inf, 1);
	assert_int_equal(moments.bad_index, 1500);
	assert_int_equal(moments.zeros, MOST - 4);
	assert_true(moments.min == -3 && moments.max == 0 && moments.sum == -3);
	/* It is another one in each place of a block. */
	for (size_t at = 0; at < 40; at++) {
		static const double odd[] = { NAN, -INFINITY, INFINITY };
		double one[40] = { 0 };
		one[(at + 1) % 40] = -7;
		one[(at + 2) % 40] = 3;
		one[at] = odd[at % 3];
		moments = count("float64", one, sizeof one);
		assert_int_equal(moments.bad_index, at);
		assert_int_equal(moments.nan, at % 3 == 0);
		assert_int_equal(moments.neg_inf, at % 3 == 1);
		assert_int_equal(moments.pos_inf, at % 3 == 2);
		assert_int_equal(moments.zeros, 37);
		assert_true(moments.min == -7 && moments.max == 3 && moments.sum == -4);
	}
}

/* ---- narrow floats ---- */

/* Bits of sign, exponent and fraction, as IEEE 754 has them. */
static double ieee(unsigned bits, unsigned fraction, int bias, unsigned most)
{
	unsigned exponent = bits >> fraction & most;
	double part = (double)(bits & ((1u << fraction) - 1)) / (1u << fraction);
	double sign = bits >> fraction > most ? -1 : 1;
	if (exponent == most)
		return part != 0 ? (double)NAN : sign * (double)INFINITY;
	return sign * (exponent != 0 ? ldexp(1 + part, (int)exponent - bias)
				     : ldexp(part, 1 - bias));
}

/* Every number of sixteen bits by itself, and all of them together. */
static void check_all(const char *dtype, unsigned fraction, int bias, unsigned most)
{
	static uint16_t all[1 << 16];
	uint64_t nan = 0, zeros = 0, small = 0;
	for (unsigned i = 0; i < 1 << 16; i++) {
		double due = ieee(i, fraction, bias, most);
		all[i] = (uint16_t)i;
		nan += isnan(due) != 0;
		zeros += due == 0;
		small += due != 0 && fabs(due) < ldexp(1, 1 - bias);
		struct fsdp_moments one = count(dtype, &all[i], 2);
		assert_int_equal(one.nan, isnan(due) != 0);
		assert_int_equal(one.pos_inf, due > 0 && isinf(due));
		if (isfinite(due))
			assert_true(one.sum == due && one.min == due && one.max == due);
	}
	struct fsdp_moments moments = count(dtype, all, sizeof all);
	assert_int_equal(moments.nan, nan);
	assert_int_equal(moments.pos_inf, 1);
	assert_int_equal(moments.neg_inf, 1);
	assert_int_equal(moments.zeros, zeros);
	assert_int_equal(moments.subnormals, small);
	assert_true(moments.sum == 0);
}

static void halves_are_what_they_are(void **state)
{
	(void)state;
	check_all("float16", 10, 15, 31);
	check_all("bfloat16", 7, 127, 255);
}

static void bytes_are_the_floats_of_their_dtype(void **state)
{
	(void)state;
	static const struct {
		const char *dtype;
		unsigned char byte;
		double number;
	} rows[] = {
		{ "float8_e4m3fn", 0x7e, 448 },
		{ "float8_e4m3fn", 0x01, 0x1p-9 },
		{ "float8_e4m3fn", 0xb8, -1 },
		{ "float8_e4m3fnuz", 0x7f, 240 },
		{ "float8_e4m3fnuz", 0x01, 0x1p-10 },
		{ "float8_e5m2", 0x7b, 57344 },
		{ "float8_e5m2", 0x01, 0x1p-16 },
		{ "float8_e5m2fnuz", 0x7f, 57344 },
		{ "float8_e5m2fnuz", 0x01, 0x1p-17 },
		{ "float8_e8m0fnu", 0x7f, 1 },
		{ "float8_e8m0fnu", 0x00, 0x1p-127 },
		{ "float8_e8m0fnu", 0xfe, 0x1p127 },
	};
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		struct fsdp_moments moments = count(rows[i].dtype, &rows[i].byte, 1);
		assert_true(moments.sum == rows[i].number);
		assert_int_equal(moments.subnormals,
			rows[i].byte == 1 && strstr(rows[i].dtype, "e8") == NULL);
	}
	static const struct {
		const char *dtype;
		uint64_t nan, infinite;
	} specials[] = { { "float8_e4m3fn", 2, 0 }, { "float8_e5m2", 6, 2 },
		{ "float8_e4m3fnuz", 1, 0 }, { "float8_e5m2fnuz", 1, 0 },
		{ "float8_e8m0fnu", 1, 0 } };
	unsigned char all[256];
	for (unsigned i = 0; i < 256; i++)
		all[i] = (unsigned char)i;
	for (size_t i = 0; i < FSDP_COUNT(specials); i++) {
		struct fsdp_moments moments = count(specials[i].dtype, all, sizeof all);
		assert_int_equal(moments.nan, specials[i].nan);
		assert_int_equal(moments.pos_inf + moments.neg_inf, specials[i].infinite);
	}
}

/* Many of them, set against each by itself; of all sizes of a last row. */
static void narrow_numbers_are_added_up(void **state)
{
	(void)state;
	static const struct {
		const char *dtype;
		unsigned width, mask; /* of the upper byte: it leaves what is not large */
	} rows[] = { { "float16", 2, 0xb7 }, { "bfloat16", 2, 0xbf },
		{ "float16", 2, 0x83 }, { "bfloat16", 2, 0x80 }, { "bfloat16", 2, 0xfe },
		{ "float16", 2, 0xff }, { "bfloat16", 2, 0xff }, { "bfloat16", 2, 0x8f },
		{ "float32", 4, 0xff }, { "float8_e4m3fn", 1, 0xff },
		{ "float8_e5m2", 1, 0xff }, { "float8_e8m0fnu", 1, 0xff },
		{ "float8_e4m3fn", 1, 0xbf }, { "float8_e4m3fnuz", 1, 0x7f },
		{ "float8_e5m2", 1, 0xbb }, { "float8_e5m2fnuz", 1, 0x7f },
		{ "float8_e8m0fnu", 1, 0x7f }, { "int8", 1, 0xff },
		{ "uint8", 1, 0xff } };
	static unsigned char bytes[18000];
	srand(2);
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		size_t width = rows[i].width;
		for (size_t at = 0; at < sizeof bytes; at++) {
			unsigned mask = at % width == width - 1 ? rows[i].mask : 0xff;
			bytes[at] = (unsigned char)((unsigned)rand() >> 8 & mask);
		}
		struct fsdp_moments joined = { 0 };
		double sum = 0, sizes = 0, squares = 0;
		double min = INFINITY, max = -INFINITY;
		uint64_t zeros = 0, small = 0;
		size_t k = 0;
		for (size_t size = 17968; size < sizeof bytes; size += 2 * width) {
			struct fsdp_moments all = count(rows[i].dtype, bytes, size);
			for (; k < size; k += width) {
				struct fsdp_moments one =
					count(rows[i].dtype, bytes + k, width);
				joined.nan += one.nan;
				joined.pos_inf += one.pos_inf;
				joined.neg_inf += one.neg_inf;
				joined.summed += one.summed;
				sum += one.sum;
				sizes += fabs(one.sum);
				squares += one.squares;
				min = one.min < min ? one.min : min;
				max = one.max > max ? one.max : max;
				zeros += one.zeros;
				small += one.subnormals;
			}
			assert_true(fabs(all.sum - sum) <= 1e-6 * sizes);
			assert_true(fabs(all.squares - squares) <= 1e-6 * squares);
			assert_true(all.min == min && all.max == max);
			assert_int_equal(all.zeros, zeros);
			assert_int_equal(all.subnormals, small);
			assert_int_equal(all.count, size / width);
			assert_int_equal(all.nan, joined.nan);
			assert_int_equal(all.pos_inf, joined.pos_inf);
			assert_int_equal(all.neg_inf, joined.neg_inf);
			assert_int_equal(all.summed, joined.summed);
		}
	}
}

/* ---- the rest ---- */

static void byte_order_and_complex_parts_count(void **state)
{
	(void)state;
	unsigned char big[] = { 0x40, 0x00, 0x00, 0x00, 0xc0, 0x40, 0x00, 0x00 };
	float parts[] = { 1, -2, 3, NAN };
	struct fsdp_moments moments;
	fsdp_moments_init(&moments);
	fsdp_moments_add(&moments, dtype_of("float32"), true, big, sizeof big, 400);
	assert_true(moments.min == -3 && moments.max == 2);
	moments = count("complex64", parts, sizeof parts);
	assert_int_equal(moments.count, 4);
	assert_int_equal(moments.nan, 1);
	assert_int_equal(moments.bad_index, 3);
	fsdp_moments_init(&moments);
	fsdp_moments_add(&moments, dtype_of("complex64"), false, (unsigned char *)parts,
		sizeof parts, 400);
	assert_int_equal(moments.bad_index, 103);
}

static void what_is_no_number_is_not_counted(void **state)
{
	(void)state;
	assert_false(fsdp_moments_takes(dtype_of("quint4x2")));
	assert_false(fsdp_moments_takes(dtype_of("float4_e2m1fn_x2")));
	assert_false(fsdp_moments_takes(dtype_of("uint4")));
	assert_false(fsdp_moments_takes(dtype_of("bits16")));
	assert_false(fsdp_moments_takes(dtype_of("qint8")));
	assert_false(fsdp_moments_takes(0));
	assert_true(fsdp_moments_takes(dtype_of("uint64")));
	assert_int_equal(count("quint8", "ab", 2).count, 0);
}

static void parts_are_joined(void **state)
{
	(void)state;
	float numbers[4096];
	for (size_t i = 0; i < 4096; i++)
		numbers[i] = (float)i;
	numbers[3000] = NAN;
	struct fsdp_moments whole = count("float32", numbers, sizeof numbers);
	struct fsdp_moments first = count("float32", numbers, 8192), second;
	fsdp_moments_init(&second);
	fsdp_moments_add(&second, dtype_of("float32"), false,
		(unsigned char *)numbers + 8192, 8192, 8192);
	fsdp_moments_join(&first, &second);
	assert_int_equal(first.bad_index, 3000);
	assert_int_equal(first.count, whole.count);
	assert_true(first.max == 4095 && first.min == 0 && first.sum == whole.sum);
}

/* Of 33 blocks of 8 KiB the first, the 17th and the 33rd, however they come. */
static void of_floats_a_sample_is_added_up(void **state)
{
	(void)state;
	enum { BLOCK = 2048, COUNT = 33 * BLOCK };
	static float numbers[COUNT];
	for (size_t i = 0; i < COUNT; i++)
		numbers[i] = (float)(i / BLOCK);
	numbers[5 * BLOCK + 3] = -7;
	numbers[20 * BLOCK] = NAN;
	numbers[5 * BLOCK + 9] = numbers[16 * BLOCK + 9] = 1e-41f;
	numbers[7 * BLOCK] = 0;
	struct fsdp_moments parts, whole = count("float32", numbers, sizeof numbers);
	fsdp_moments_init(&parts);
	parts.samples = true;
	for (size_t i = 0; i < 33; i += 3)
		fsdp_moments_add(&parts, dtype_of("float32"), false,
			(unsigned char *)(numbers + i * BLOCK), 3 * BLOCK * sizeof(float),
			i * BLOCK * sizeof(float));
	assert_int_equal(whole.summed, COUNT - 1);
	assert_int_equal(parts.summed, 3 * BLOCK);
	close_to(parts.sum, (16.0 + 32) * BLOCK - 16);
	assert_int_equal(whole.subnormals, 2);
	assert_int_equal(parts.subnormals, 1);
	assert_true(parts.min == -7 && parts.max == 32);
	assert_int_equal(whole.zeros, BLOCK + 1);
	assert_int_equal(parts.zeros, BLOCK);
	assert_int_equal(parts.bad_index, 20 * BLOCK);
	assert_int_equal(parts.count, COUNT);
}

/* Of 65 blocks of 8 KiB those of numbers of a byte are the first and the last, of two
 * bytes the one between them too. */
static void of_narrow_floats_fewer_blocks_are_added_up(void **state)
{
	(void)state;
	enum { BLOCK = 8192, COUNT = 65 * BLOCK };
	static unsigned char bytes[COUNT];
	for (size_t width = 1; width <= 2; width++) {
		const char *dtype = width == 1 ? "float8_e4m3fn" : "float16";
		/* 1, and 2 at the beginning of blocks that count or do not. */
		const unsigned char one = width == 1 ? 0x38 : 0x3c;
		struct fsdp_moments parts;
		for (size_t i = 0; i < COUNT; i++)
			bytes[i] = i % width == width - 1 ? one : 0;
		for (size_t i = 0; i < 65; i += 16)
			bytes[i * BLOCK + width - 1] = 0x40;
		fsdp_moments_init(&parts);
		parts.samples = true;
		fsdp_moments_add(&parts, dtype_of(dtype), false, bytes, sizeof bytes, 0);
		size_t summed = width == 1 ? 2 * BLOCK : 3 * BLOCK / 2;
		assert_int_equal(parts.count, COUNT / width);
		assert_int_equal(parts.summed, summed);
		close_to(parts.sum, (double)(summed + (width == 1 ? 2 : 3)));
		assert_true(parts.min == 1 && parts.max == 2);
	}
}

/* Blocks that are not of the sample say the same of their bits, whatever these are. */
static void what_is_not_added_up_is_seen(void **state)
{
	(void)state;
	enum { BLOCK = 8192, COUNT = 3 * BLOCK };
	static const char *const dtypes[] = { "float8_e4m3fn", "float8_e5m2",
		"float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float16",
		"bfloat16", "float32", "float64" };
	static const unsigned char bounds[][2] = { { 0, 0xff }, { 1, 0x7b },
		{ 0x81, 0xfb }, { 0, 0x7b }, { 0x80, 0xfb }, { 0x7c, 0x7f }, { 0, 0x80 },
		{ 5, 5 } };
	static unsigned char bytes[COUNT];
	srand(3);
	for (size_t i = 0; i < FSDP_COUNT(dtypes) * FSDP_COUNT(bounds); i++) {
		const char *dtype = dtypes[i / FSDP_COUNT(bounds)];
		const unsigned char *bound = bounds[i % FSDP_COUNT(bounds)];
		for (size_t k = 0; k < COUNT; k++)
			bytes[k] = (unsigned char)(bound[0] +
						   (rand() >> 8) %
							   (bound[1] - bound[0] + 1));
		struct fsdp_moments parts, whole = count(dtype, bytes, sizeof bytes);
		fsdp_moments_init(&parts);
		parts.samples = true;
		fsdp_moments_add(&parts, dtype_of(dtype), false, bytes, sizeof bytes, 0);
		assert_int_equal(parts.count, whole.count);
		assert_int_equal(parts.nan, whole.nan);
		assert_int_equal(parts.pos_inf, whole.pos_inf);
		assert_int_equal(parts.neg_inf, whole.neg_inf);
		assert_int_equal(parts.zeros, count(dtype, bytes, BLOCK).zeros);
		assert_int_equal(parts.bad_index, whole.bad_index);
		assert_true(parts.min == whole.min && parts.max == whole.max);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(floats_are_added_up),
		cmocka_unit_test(doubles_and_integers_are_added_up),
		cmocka_unit_test(infinity_lies_between_finite_and_none),
		cmocka_unit_test(the_first_that_is_not_finite_is_known),
		cmocka_unit_test(halves_are_what_they_are),
		cmocka_unit_test(bytes_are_the_floats_of_their_dtype),
		cmocka_unit_test(narrow_numbers_are_added_up),
		cmocka_unit_test(byte_order_and_complex_parts_count),
		cmocka_unit_test(what_is_no_number_is_not_counted),
		cmocka_unit_test(parts_are_joined),
		cmocka_unit_test(of_floats_a_sample_is_added_up),
		cmocka_unit_test(of_narrow_floats_fewer_blocks_are_added_up),
		cmocka_unit_test(what_is_not_added_up_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
