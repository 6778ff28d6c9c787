/* SPDX-License-Identifier: Apache-2.0 */
/* Names with numbers in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/format.h"

/* -1: not taken; else the numbers, the later ones in the higher places. */
static int64_t taken(const char *name, const char *pattern)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS] = { 0 };

	return fsdp_pattern_takes(fsdp_span_text(name), pattern, numbers)
		       ? numbers[0] + 1000 * (int64_t)numbers[1]
		       : -1;
}

static void numbers_are_those_of_the_pattern(void **state)
{
	(void)state;
	assert_int_equal(taken("", ""), 0);
	assert_int_equal(taken("7", "#"), 7);
	assert_int_equal(taken("a090", "a#"), 90);
	assert_int_equal(taken("__12_3.distcp", "__#_#.distcp"), 3012);
	assert_int_equal(taken("16777215", "#"), 16777215);
}

static void all_of_the_name_is_compared(void **state)
{
	(void)state;
	assert_int_equal(taken("a", ""), -1);
	assert_int_equal(taken("", "a"), -1);
	assert_int_equal(taken("a", "ab"), -1);
	assert_int_equal(taken("ab", "a"), -1);
	assert_int_equal(taken("b7", "a#"), -1);
	assert_int_equal(taken("a", "a#"), -1);
	assert_int_equal(taken("a7b", "a#"), -1);
	assert_int_equal(taken("a/", "a#"), -1);
	assert_int_equal(taken("a:", "a#"), -1);
	assert_int_equal(taken("-7", "#"), -1);
	assert_int_equal(taken("1_", "#_#"), -1);
	assert_int_equal(taken("16777216", "#"), -1);
	assert_int_equal(taken("99999999999999999999", "#"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_those_of_the_pattern),
		cmocka_unit_test(all_of_the_name_is_compared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
