/* SPDX-License-Identifier: Apache-2.0 */
/* Dates are those of the C library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "render/writer.h"

static void check(time_t seconds)
{
	struct tm parts;
	char text[DATE_SIZE], expected[DATE_SIZE];

	date_format(text, seconds, 'T');
	assert_non_null(gmtime_r(&seconds, &parts));
	assert_int_not_equal(
		strftime(expected, DATE_SIZE, "%Y-%m-%dT%H:%M:%S", &parts), 0);
	assert_string_equal(text, expected);
}

static void each_day_has_its_date(void **state)
{
	const time_t day = 86400;

	(void)state;
	for (time_t seconds = 0; seconds / day < 366 * 500; seconds += day) {
		check(seconds);
		check(seconds + day - 1);
	}
}

static void each_second_has_its_time(void **state)
{
	(void)state;
	for (time_t seconds = 0; seconds < 86400; seconds++)
		check(seconds);
}

static void the_largest_has_a_date(void **state)
{
	char text[DATE_SIZE];

	(void)state;
	check(INT64_C(9223372036)); /* nanoseconds in 64 bits */
	check(INT64_C(67767976233532799));
	date_format(text, INT64_MAX, ' ');
	assert_string_equal(text, "292277026596-12-04 15:30:07");
}

static void before_1970_there_is_none(void **state)
{
	char text[DATE_SIZE] = "left";

	(void)state;
	date_format(text, -1, ' ');
	assert_string_equal(text, "");
	date_format(text, INT64_MIN, ' ');
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_day_has_its_date),
		cmocka_unit_test(each_second_has_its_time),
		cmocka_unit_test(the_largest_has_a_date),
		cmocka_unit_test(before_1970_there_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
