/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences are broken between words only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "render/writer.h"

static void check(const char *text, size_t width, const char *expected)
{
	struct writer writer;
	size_t size = strlen(text);
	char *alone = malloc(size + (size == 0)); /* nothing lies behind it */

	assert_non_null(alone);
	memcpy(alone, text, size);
	writer_init(&writer, NULL);
	wrap_write(&writer, alone, size, width, 2, 0);
	assert_int_equal(writer.size, strlen(expected));
	assert_memory_equal(writer.data, expected, writer.size);
	writer_done(&writer);
	free(alone);
}

static void lines_end_between_words(void **state)
{
	(void)state;
	check("one two three", 7, "one two\n  three");
	check("one two three", 6, "one\n  two\n  three");
	check("one two three", 13, "one two three");
	check("one two three", 0, "one two three");
	check("", 5, "");
}

static void a_long_word_sticks_out(void **state)
{
	(void)state;
	check("abcdefghij k", 4, "abcdefghij\n  k");
	check("a  bcdefghij k", 4, "a\n  bcdefghij\n  k");
	/* A line of its own would not give it more room. */
	check("a abcdefghij k", 5, "a abcdefghij\n  k");
	check("aa abcdefghij k", 5, "aa\n  abcdefghij\n  k");
}

static void gaps_stay_where_no_line_ends(void **state)
{
	(void)state;
	check("  label    text more", 15, "  label    text\n  more");
	check("  label    text more", 14, "  label\n  text more");
}

static void a_number_keeps_its_unit(void **state)
{
	(void)state;
	check("is 1.3\x1fKiB", 8, "is\n  1.3 KiB");
	check("is 1.3\x1fKiB", 10, "is 1.3 KiB");
	check("is 1.3\x1fKiB", 0, "is 1.3 KiB");
}

static void colours_take_no_columns(void **state)
{
	(void)state;
	check("\x1b[1;31merror\x1b[0m is", 8, "\x1b[1;31merror\x1b[0m is");
	check("\x1b[1;31merror\x1b[0m is", 7, "\x1b[1;31merror\x1b[0m\n  is");
	/* One that does not end is text. */
	check("a \x1b[1", 9, "a \x1b[1");
	check("\xc3\xa4\xc3\xb6 \xc3\xbc", 4, "\xc3\xa4\xc3\xb6 \xc3\xbc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_end_between_words),
		cmocka_unit_test(a_long_word_sticks_out),
		cmocka_unit_test(gaps_stay_where_no_line_ends),
		cmocka_unit_test(a_number_keeps_its_unit),
		cmocka_unit_test(colours_take_no_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
