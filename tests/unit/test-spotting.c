/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of two dtypes: equal once the wider one is rounded, as the processor rounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fsdp/model.h>

#include "compare/comparing.h"
#include "base/span.h"

enum { COUNT = 5000 };

static uint64_t random_bits(void)
{
	static uint64_t state = 7;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static uint32_t dtype_called(const char *name)
{
	uint32_t dtype = 1;

	while (strcmp(fsdp_dtype(dtype)->name, name) != 0)
		dtype++;
	return dtype;
}

static struct fsdp_spotted spot(
	const char *wide, const void *a, const char *narrow, const void *b, bool swapped)
{
	struct fsdp_spotting *spotting = fsdp_spotting_new();
	uint32_t dtypes[2] = { dtype_called(swapped ? narrow : wide),
		dtype_called(swapped ? wide : narrow) };
	struct fsdp_spotted spotted;

	assert_non_null(spotting);
	fsdp_spotting_begin(spotting, dtypes, 0, false, 0, 0);
	fsdp_spot(spotting, swapped ? b : a, swapped ? a : b, COUNT);
	spotted = fsdp_spotting_end(spotting);
	fsdp_spotting_free(spotting);
	return spotted;
}

/* Of all sizes, or about where the narrow dtype ends above or below. */
static double any_double(size_t i)
{
	static const uint64_t exponents[] = { 0, 1023, 1023 + 128, 1023 - 127,
		1023 - 149 };
	uint64_t bits = random_bits();
	double number;

	if (i % 5 != 0)
		bits = (bits & ~(UINT64_C(0x7FF) << 52)) | (exponents[i % 5] - i % 3)
								   << 52;
	if (i % 7 == 0)
		bits &= ~UINT64_C(0xFFFFFFF); /* ties */
	memcpy(&number, &bits, sizeof number);
	return number;
}

static void doubles_are_rounded_to_floats(void **state)
{
	static double a[COUNT];
	static float b[COUNT];
	uint64_t rounded = 0;

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		a[i] = any_double(i);
		b[i] = (float)a[i];
		rounded += (double)b[i] != a[i] && a[i] == a[i];
	}
	for (unsigned swapped = 0; swapped < 2; swapped++) {
		struct fsdp_spotted spotted =
			spot("float64", a, "float32", b, swapped != 0);
		assert_int_equal(spotted.differing, 0);
		assert_int_equal(spotted.rounded, rounded);
	}
	a[COUNT - 3] = 1;
	b[COUNT - 3] = 1 + 0x1p-23f;
	a[COUNT - 2] = 1 + 0x1p-24; /* a tie goes to the even one */
	b[COUNT - 2] = 1 + 0x1p-23f;
	assert_int_equal(spot("float64", a, "float32", b, false).differing, 2);
	assert_int_equal(spot("float64", a, "float32", b, false).first, COUNT - 3);
}

static void floats_are_rounded_to_bfloat16(void **state)
{
	static float a[COUNT];
	static uint16_t b[COUNT];
	uint64_t rounded = 0;

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		uint32_t bits = (uint32_t)random_bits();
		if (i % 3 == 0)
			bits &= UINT32_C(0xFFFF8000); /* ties */
		if (i % 5 == 0)
			bits &= UINT32_C(0x80FFFFFF); /* small, and subnormal */
		if ((bits & 0x7F800000) == 0x7F800000)
			bits &= UINT32_C(0xFF800000);
		memcpy(&a[i], &bits, sizeof bits);
		b[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
		rounded += (uint32_t)b[i] << 16 != bits;
	}
	assert_int_equal(spot("float32", a, "bfloat16", b, false).differing, 0);
	assert_int_equal(spot("float32", a, "bfloat16", b, true).rounded, rounded);
	b[1234] ^= 1;
	assert_int_equal(spot("float32", a, "bfloat16", b, true).differing, 1);
	assert_int_equal(spot("float32", a, "bfloat16", b, false).first, 1234);
}

/* Of one dtype, whatever its width. */
static void bytes_are_compared_element_by_element(void **state)
{
	static const struct {
		const char *dtype;
		size_t width;
	} dtypes[] = { { "bool", 1 }, { "uint8", 1 }, { "int16", 2 }, { "int32", 4 },
		{ "complex32", 4 }, { "bcomplex32", 4 }, { "int64", 8 },
		{ "complex64", 8 }, { "complex128", 16 } };
	static unsigned char a[COUNT * 16], b[COUNT * 16];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(dtypes); i++) {
		size_t width = dtypes[i].width;
		const char *dtype = dtypes[i].dtype;
		for (size_t k = 0; k < sizeof a; k++)
			a[k] = b[k] = (unsigned char)random_bits();
		struct fsdp_spotted spotted = spot(dtype, a, dtype, b, false);
		assert_int_equal(spotted.differing, 0);
		assert_int_equal(spotted.first, FSDP_UNKNOWN);
		b[12 * width - 1] ^= 1;
		b[12 * width] ^= 1;
		b[(COUNT - 1) * width] ^= 1;
		b[COUNT * width - 1] ^= 2;
		spotted = spot(dtype, a, dtype, b, false);
		assert_int_equal(spotted.differing, 3);
		assert_int_equal(spotted.first, 11);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubles_are_rounded_to_floats),
		cmocka_unit_test(floats_are_rounded_to_bfloat16),
		cmocka_unit_test(bytes_are_compared_element_by_element),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
