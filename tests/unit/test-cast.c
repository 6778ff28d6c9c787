/* SPDX-License-Identifier: Apache-2.0 */
/* Floating numbers of one width in another: every number of 16 bits there and back, ties,
 * subnormals, infinities and NaN; against what the compiler makes of them where it can.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "export/exporting.h"
#include "checkpoint/model.h"

static uint32_t dtype(const char *name)
{
	return fsdp_dtype_find(fsdp_span_text(name));
}

/* One number, as bits. */
static uint64_t cast(const char *from, const char *to, uint64_t bits, bool *ret_over)
{
	unsigned char in[8], out[8] = { 0 };
	uint64_t made;
	memcpy(in, &bits, sizeof in);
	uint64_t over = fsdp_cast(dtype(from), dtype(to), in, 1, out);
	if (ret_over != NULL)
		*ret_over = over == 1;
	memcpy(&made, out, sizeof made);
	return made;
}

static uint64_t bits_of(double number)
{
	uint64_t bits;
	memcpy(&bits, &number, sizeof bits);
	return bits;
}

static uint32_t bits_of_float(float number)
{
	uint32_t bits;
	memcpy(&bits, &number, sizeof bits);
	return bits;
}

static void every_number_of_16_bits_comes_back(void **state)
{
	static const char *const narrow[] = { "float16", "bfloat16" };
	static const char *const wide[] = { "float32", "float64" };
	(void)state;
	for (size_t n = 0; n < 2; n++)
		for (size_t w = 0; w < 2; w++)
			for (uint64_t bits = 0; bits < 0x10000; bits++) {
				bool over;
				uint64_t there = cast(narrow[n], wide[w], bits, &over);
				uint64_t back = cast(wide[w], narrow[n], there, NULL);
				uint64_t quiet = n == 0 ? 0x200 : 0x40;
				uint64_t infinity = n == 0 ? 0x7c00 : 0x7f80;
				bool is_nan = (bits & 0x7fff) > infinity;
				assert_false(over);
				assert_int_equal(back, is_nan ? bits | quiet : bits);
			}
}

static void floats_are_rounded_as_the_compiler_does(void **state)
{
	uint64_t random = 1;
	(void)state;
	for (size_t i = 0; i < 200000; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		/* Near the ranges of float32 and its subnormals too. */
		uint64_t bits = random & ~(UINT64_C(0x7ff) << 52);
		bits |= (1023 - 160 + (random >> 33) % 320) << 52;
		double number;
		memcpy(&number, &bits, sizeof number);
		assert_int_equal(cast("float64", "float32", bits, NULL),
			bits_of_float((float)number));
	}
}

static void ties_go_to_even(void **state)
{
	(void)state;
	/* 1 + 2^-8 lies between 1 and 1 + 2^-7; 1 + 3 * 2^-8 between that and the next.
	 */
	assert_int_equal(cast("float32", "bfloat16", 0x3f808000, NULL), 0x3f80);
	assert_int_equal(cast("float32", "bfloat16", 0x3f818000, NULL), 0x3f82);
	assert_int_equal(cast("float32", "bfloat16", 0x3f808001, NULL), 0x3f81);
	assert_int_equal(cast("float32", "bfloat16", 0x3f807fff, NULL), 0x3f80);
	/* 2049 and 2051 have no float16. */
	assert_int_equal(cast("float32", "float16", bits_of_float(2049), NULL), 0x6800);
	assert_int_equal(cast("float32", "float16", bits_of_float(2051), NULL), 0x6802);
	/* Half of the smallest one, and a little more; three halves. */
	assert_int_equal(cast("float64", "float16", bits_of(0x1p-25), NULL), 0);
	assert_int_equal(cast("float64", "float16", bits_of(0x1.001p-25), NULL), 1);
	assert_int_equal(cast("float64", "float16", bits_of(-0x1.8p-24), NULL), 0x8002);
	/* Rounding happens once: by way of float32 this would become 0x3c01. */
	assert_int_equal(
		cast("float64", "float16", bits_of(0x1.001ffffffp0), NULL), 0x3c00);
}

static void what_is_too_large_becomes_infinite(void **state)
{
	bool over;
	(void)state;
	assert_int_equal(cast("float32", "float16", bits_of_float(65519), &over), 0x7bff);
	assert_false(over);
	assert_int_equal(cast("float32", "float16", bits_of_float(65520), &over), 0x7c00);
	assert_true(over);
	assert_int_equal(cast("float32", "float16", bits_of_float(-1e9f), &over), 0xfc00);
	assert_true(over);
	assert_int_equal(cast("float32", "bfloat16", 0x7f7fffff, &over), 0x7f80);
	assert_true(over);
	/* What is infinite already does not count. */
	assert_int_equal(cast("float32", "float16", 0x7f800000, &over), 0x7c00);
	assert_false(over);
	assert_int_equal(cast("float64", "float32", bits_of(1e300), &over), 0x7f800000);
	assert_true(over);
	assert_int_equal(cast("float64", "float32", bits_of(-1e-300), &over), 0x80000000);
	assert_false(over);
}

static void a_nan_stays_one(void **state)
{
	bool over;
	(void)state;
	/* Its payload lies in bits that go: it must not become an infinity. */
	assert_int_equal(cast("float32", "bfloat16", 0x7f800001, &over), 0x7fc0);
	assert_false(over);
	assert_int_equal(cast("float32", "float16", 0xffc00000, NULL), 0xfe00);
	assert_int_equal(cast("float64", "float32", UINT64_C(0x7ff0000000000001), NULL),
		0x7fc00000);
}

static void only_floats_are_known(void **state)
{
	(void)state;
	assert_true(fsdp_cast_is_supported(dtype("float64"), dtype("bfloat16")));
	assert_false(fsdp_cast_is_supported(dtype("int32"), dtype("bfloat16")));
	assert_false(fsdp_cast_is_supported(dtype("float8_e4m3fn"), dtype("float32")));
	assert_false(fsdp_cast_is_supported(dtype("complex64"), dtype("float32")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_of_16_bits_comes_back),
		cmocka_unit_test(floats_are_rounded_as_the_compiler_does),
		cmocka_unit_test(ties_go_to_even),
		cmocka_unit_test(what_is_too_large_becomes_infinite),
		cmocka_unit_test(a_nan_stays_one),
		cmocka_unit_test(only_floats_are_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
