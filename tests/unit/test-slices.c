/* SPDX-License-Identifier: Apache-2.0 */
/* Slices as Python has them: what is one, and which elements it means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "commands/show.h"

/* "0-7 96-99", or "wrong". */
static const char *means(const char *text, uint64_t numel, uint64_t most, char out[200])
{
	struct element_range ranges[SLICES_MAX];
	struct element_slices slices;
	size_t used = 0, count;
	bool cut;

	out[0] = '\0';
	if (!slices_parse(text, &slices))
		return "wrong";
	count = slices_resolve(&slices, numel, most, ranges, &cut);
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(out + used, 200 - used, "%s%ju-%ju",
			i > 0 ? " " : "", (uintmax_t)ranges[i].start,
			(uintmax_t)ranges[i].end);
	if (cut)
		snprintf(out + used, 200 - used, " cut");
	return out;
}

static void slices_are_like_those_of_python(void **state)
{
	static const struct {
		const char *text;
		uint64_t numel;
		const char *expected;
	} cases[] = {
		{ "8", 100, "0-7" },
		{ "8", 5, "0-4" },
		{ "8", 0, "" },
		{ "0:8,-4:", 100, "0-7 96-99" },
		{ "0:8,-4:", 2, "0-1 0-1" },
		{ ":", 10, "0-9" },
		{ ":3", 10, "0-2" },
		{ "-3:-1", 10, "7-8" },
		{ "-30:-9", 10, "0-0" },
		{ "5:5", 10, "" },
		{ "5:4", 10, "" },
		{ "9:100", 10, "9-9" },
		{ "10:", 10, "" },
		{ "9223372036854775807:", 10, "" },
		{ "-9223372036854775807:1", 10, "0-0" },
	};
	char out[200];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_string_equal(means(cases[i].text, cases[i].numel, 1000, out),
			cases[i].expected);
}

static void all_else_is_wrong(void **state)
{
	static const char *const bad[] = { "", "0", "-1", "x", "1,", ",1:", "1:2,",
		"1:2,3", "1:2:3", "1 :2",
		"9223372036854775808:", "123456789012345678901234567:", "a:b", "1:2 ",
		":,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:" };
	char out[200];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_string_equal(means(bad[i], 10, 1000, out), "wrong");
	assert_string_not_equal(
		means(":,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:", 1, 1000, out), "wrong");
}

static void no_more_than_the_most(void **state)
{
	char out[200];

	(void)state;
	assert_string_equal(means(":", 10, 4, out), "0-3 cut");
	assert_string_equal(means("0:3,5:8,9:", 10, 4, out), "0-2 5-5 cut");
	assert_string_equal(means("0:3,9:", 10, 4, out), "0-2 9-9");
	assert_string_equal(means(":", UINT64_MAX, 4, out), "0-3 cut");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_are_like_those_of_python),
		cmocka_unit_test(all_else_is_wrong),
		cmocka_unit_test(no_more_than_the_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
