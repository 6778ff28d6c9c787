/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "io/archive.h"

#define MAGIC "\x28\xb5\x2f\xfd"
#define BEHIND "................"

enum { KIB = 1 << 10, MIB = 1 << 20 };

struct header {
	struct fsdp_span bytes;
	uint64_t reach;
};

#define HEADER(text, reach)                        \
	{                                          \
		FSDP_SPAN_INIT(text BEHIND), reach \
	}

static uint64_t reach_of(const struct fsdp_reach_look *look, struct fsdp_span bytes)
{
	struct fsdp_reach reach = { .look = look };
	fsdp_reach_see(&reach, bytes);
	return reach.most;
}

/* A descriptor without bit 5, then exponent (from 10 on) and eighths. */
static void windows_of_zstd(void **state)
{
	static const struct header headers[] = {
		HEADER(MAGIC "\x00\x00", KIB),
		HEADER(MAGIC "\x00\x01", KIB + KIB / 8),
		HEADER(MAGIC "\x00\x07", KIB + 7 * (KIB / 8)),
		HEADER(MAGIC "\x00\x08", 2 * KIB),
		HEADER(MAGIC "\x00\x50", MIB),
		HEADER(MAGIC "\xc4\x8a", UINT64_C(128) * MIB + 32 * MIB),
		HEADER("\x28\xb5\x2f\xfe\x00\x08", 0),
	};
	(void)state;
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
		assert_int_equal(
			reach_of(&fsdp_reach_zstd, headers[i].bytes), headers[i].reach);
}

/* With bit 5 the content is the window: its size stands behind the number of a
 * dictionary, which has as many bytes as the lowest two bits say. */
static void contents_of_zstd(void **state)
{
	static const struct header headers[] = {
		HEADER(MAGIC "\x20\x05", 5),
		HEADER(MAGIC "\x21\xff\x05", 5),
		HEADER(MAGIC "\x22\xff\xff\x05", 5),
		HEADER(MAGIC "\x23\xff\xff\xff\xff\x05", 5),
		HEADER(MAGIC "\x60\x05\x01", 0x105 + 256),
		HEADER(MAGIC "\x63\xff\xff\xff\xff\x05\x01", 0x105 + 256),
		HEADER(MAGIC "\xa0\x05\x01\x02\x03", 0x03020105),
		HEADER(MAGIC "\xe0\x05\x01\x02\x03\x04\x06\x07\x01",
			UINT64_C(0x0107060403020105)),
	};
	(void)state;
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
		assert_int_equal(
			reach_of(&fsdp_reach_zstd, headers[i].bytes), headers[i].reach);
}

/* Two and three times the powers of two, from 4 KiB on; 40 is the largest there is. */
static void dictionaries_of_xz(void **state)
{
	static const struct header headers[] = {
		HEADER("\x21\x01\x00", 4 * KIB),
		HEADER("\x21\x01\x01", 6 * KIB),
		HEADER("\x21\x01\x02", 8 * KIB),
		HEADER("\x21\x01\x16", 8 * MIB),
		HEADER("\x21\x01\x17", 12 * MIB),
		HEADER("\x21\x01\x27", UINT64_C(3072) * MIB),
		HEADER("\x21\x01\x28", UINT32_MAX),
		HEADER("\x21\x01\x29", 0),
		HEADER("\x22\x01\x16", 0),
		HEADER("\x21\x02\x16", 0),
	};
	(void)state;
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
		assert_int_equal(
			reach_of(&fsdp_reach_xz, headers[i].bytes), headers[i].reach);
}

/* The largest counts, wherever a block ends; of one that is cut off nothing is known. */
static void headers_are_found_across_blocks(void **state)
{
	static const char text[] = "...." MAGIC "\x00\x08........" MAGIC
				   "\x00\x50" BEHIND MAGIC "\x00\x10" BEHIND;
	const size_t size = sizeof text - 1;
	(void)state;
	for (size_t cut = 0; cut <= size; cut++) {
		struct fsdp_reach reach = { .look = &fsdp_reach_zstd };
		fsdp_reach_see(&reach, fsdp_span(text, cut));
		fsdp_reach_see(&reach, fsdp_span(text + cut, size - cut));
		assert_int_equal(reach.most, MIB);
	}
	for (size_t step = 1; step < size; step++) {
		struct fsdp_reach reach = { .look = &fsdp_reach_zstd };
		for (size_t at = 0; at < size; at += step)
			fsdp_reach_see(
				&reach, fsdp_span(text + at,
						step < size - at ? step : size - at));
		assert_int_equal(reach.most, MIB);
	}
	for (size_t left = 0; left < 17; left++)
		assert_int_equal(
			reach_of(&fsdp_reach_zstd, fsdp_span(text + 4, left)), 0);
	assert_int_equal(reach_of(&fsdp_reach_zstd, fsdp_span(text + 4, 17)), 2 * KIB);
	assert_int_equal(reach_of(NULL, fsdp_span(text, size)), 0);
}

/* No more is kept than came out, and what is kept is charged once. */
static void what_is_kept_counts(void **state)
{
	struct fsdp_budget budget = { .ceiling = 10 * KIB };
	struct fsdp_reach reach = { .budget = &budget, .look = &fsdp_reach_xz };
	(void)state;
	assert_true(fsdp_reach_charge(&reach, KIB));
	assert_int_equal(budget.used, 0);
	fsdp_reach_see(&reach, fsdp_span("\x21\x01\x02", 3));
	assert_true(fsdp_reach_charge(&reach, KIB));
	assert_int_equal(budget.used, KIB);
	assert_true(fsdp_reach_charge(&reach, KIB));
	assert_int_equal(budget.used, KIB);
	assert_true(fsdp_reach_charge(&reach, 100 * KIB));
	assert_int_equal(budget.used, 8 * KIB);
	fsdp_reach_see(&reach, fsdp_span("\x21\x01\x16", 3));
	assert_false(fsdp_reach_charge(&reach, 100 * KIB));
	assert_int_equal(budget.used, 8 * KIB);
	fsdp_reach_done(&reach);
	assert_int_equal(budget.used, 0);
	fsdp_reach_done(&reach);
	assert_int_equal(budget.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_of_zstd),
		cmocka_unit_test(contents_of_zstd),
		cmocka_unit_test(dictionaries_of_xz),
		cmocka_unit_test(headers_are_found_across_blocks),
		cmocka_unit_test(what_is_kept_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
