/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of the ranges of UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "syntax/json-internal.h"

static const struct {
	uint32_t point;
	const char *bytes;
} POINTS[] = {
	{ 0x01, "\x01" },
	{ 0x7f, "\x7f" },
	{ 0x80, "\xc2\x80" },
	{ 0x7ff, "\xdf\xbf" },
	{ 0x800, "\xe0\xa0\x80" },
	{ 0xfff, "\xe0\xbf\xbf" },
	{ 0x1000, "\xe1\x80\x80" },
	{ 0xd7ff, "\xed\x9f\xbf" },
	{ 0xe000, "\xee\x80\x80" },
	{ 0xffff, "\xef\xbf\xbf" },
	{ 0x10000, "\xf0\x90\x80\x80" },
	{ 0x3ffff, "\xf0\xbf\xbf\xbf" },
	{ 0x40000, "\xf1\x80\x80\x80" },
	{ 0x10ffff, "\xf4\x8f\xbf\xbf" },
};

/* Behind as many letters as eight bytes may begin with, and with some behind it. */
static bool is_valid(const char *bytes, size_t size, size_t before)
{
	char text[32];

	memset(text, 'x', sizeof text);
	memcpy(text + before, bytes, size);
	return fsdp_utf8_is_valid(fsdp_span(text, before + size)) &&
	       fsdp_utf8_is_valid(fsdp_span(text, sizeof text));
}

static void points_are_written_and_known(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof POINTS / sizeof *POINTS; i++) {
		unsigned char out[4];
		size_t size = strlen(POINTS[i].bytes);

		assert_int_equal(fsdp_utf8_put(out, POINTS[i].point) - out, size);
		assert_memory_equal(out, POINTS[i].bytes, size);
		for (size_t before = 0; before <= 9; before++) {
			assert_true(is_valid(POINTS[i].bytes, size, before));
			for (size_t cut = 1; cut < size; cut++)
				assert_false(is_valid(POINTS[i].bytes, cut, before));
		}
	}
}

static void other_bytes_are_not(void **state)
{
	static const char *const OTHERS[] = { "\x80", "\xbf", "\xc0\x80", "\xc1\xbf",
		"\xc2\x7f", "\xc2\xc0", "\xdf\x7f", "\xe0\x9f\xbf", "\xe0\x80\x80",
		"\xe1\x7f\x80", "\xe1\xc0\x80", "\xed\xa0\x80", "\xed\xbf\xbf",
		"\xee\x80\x7f", "\xee\x80\xc0", "\xf0\x8f\xbf\xbf", "\xf1\x80\x80\x7f",
		"\xf1\x80\x7f\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff" };

	(void)state;
	for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
		for (size_t before = 0; before <= 9; before++)
			assert_false(is_valid(OTHERS[i], strlen(OTHERS[i]), before));
}

static void hexadecimal_digits_are_taken(void **state)
{
	static const char text[] = "09afAF/x";
	const unsigned char *at = (const unsigned char *)text, *end = at + 8;
	uint32_t value = 1;

	(void)state;
	assert_true(fsdp_hex_take(&at, end, 6, &value));
	assert_int_equal(value, 0x09afaf);
	assert_ptr_equal(at, text + 6);
	assert_false(fsdp_hex_take(&at, end, 1, &value));
	assert_false(fsdp_hex_take(&at, end, 3, &value));
	for (const char *other = "/:@G`g"; *other != '\0'; other++) {
		at = (const unsigned char *)other;
		assert_false(fsdp_hex_take(&at, at + 1, 1, &value));
	}
	assert_int_equal(value, 0x09afaf);
}

static void check_marks(const char *text, bool high, bool control, bool escaped, bool bad)
{
	struct text_marks marks;

	/* As in a string, a quote follows. */
	fsdp_json_text_marks(fsdp_span(text, strlen(text) - 1), &marks);
	assert_int_equal(marks.high != 0, high);
	assert_int_equal(marks.control, control);
	assert_int_equal(marks.escaped, escaped);
	assert_int_equal(marks.bad_escape, bad);
}

static void strings_are_marked_by_what_is_in_them(void **state)
{
	(void)state;
	check_marks("\"", false, false, false, false);
	check_marks("a b~\x7f\"", false, false, false, false);
	check_marks("a\x80\"", true, false, false, false);
	check_marks("\x1f\"", false, true, false, false);
	check_marks("a\\nb\"", false, false, true, false);
	check_marks("\\u12aF\"", false, false, true, false);
	check_marks("\\\\u12\"", false, false, true, false);
	check_marks("\\\\\\q\"", false, false, true, true);
	check_marks("\\x\"", false, false, true, true);
	check_marks("\\u12a\"", false, false, true, true);
	check_marks("\\u12ag\"", false, false, true, true);
	check_marks("a\\\"", false, false, true, true);
	/* The byte behind a backslash is not looked at, those behind that are. */
	check_marks("\\n\x01\"", false, true, true, false);
	check_marks("\\\x01\"", false, false, true, true);
	check_marks("\\x\x01\"", false, true, true, true);
	check_marks("\\u\x80\"", true, false, true, true);
}

static void numbers_end_where_json_ends_them(void **state)
{
	static const struct {
		const char *text;
		size_t size;
	} NUMBERS[] = {
		{ "0", 1 },
		{ "-0", 2 },
		{ "01", 1 },
		{ "120,", 3 },
		{ "-12.5", 5 },
		{ "1.25e-10]", 8 },
		{ "1E+5", 4 },
		{ "1e5.", 3 },
		{ "9e0", 3 },
		{ "-", 0 },
		{ "", 0 },
		{ ".5", 0 },
		{ "+1", 0 },
		{ "1.", 0 },
		{ "1.e5", 0 },
		{ "1e", 0 },
		{ "1e+", 0 },
		{ "x", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
		assert_int_equal(number_size((const unsigned char *)NUMBERS[i].text),
			NUMBERS[i].size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_are_written_and_known),
		cmocka_unit_test(other_bytes_are_not),
		cmocka_unit_test(hexadecimal_digits_are_taken),
		cmocka_unit_test(strings_are_marked_by_what_is_in_them),
		cmocka_unit_test(numbers_end_where_json_ends_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
