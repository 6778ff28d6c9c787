/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of sha256sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "elements/elements-private.h"

#define DIGITS "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

static void check_name(const char *text, const char *name)
{
	struct fsdp_sha256_line line;
	unsigned char room[128];

	assert_true(fsdp_sha256_line_read(fsdp_span_text(text), &line));
	for (size_t i = 0; i < FSDP_SHA256_DIGEST; i++)
		assert_int_equal(line.sha256[i], i % 16 * 0x11);
	struct fsdp_span found = fsdp_sha256_unescape(&line, room);
	assert_int_equal(found.size, strlen(name));
	assert_memory_equal(found.data, name, found.size);
}

static void names_stand_behind_two_characters(void **state)
{
	(void)state;
	check_name(DIGITS "  a.bin", "a.bin");
	check_name(DIGITS " *a.bin", "a.bin");
	check_name(DIGITS "  a", "a");
	check_name(DIGITS "   a ", " a ");
	check_name(DIGITS "  ./a", "a");
	check_name(DIGITS "  ././a/./b", "a/./b");
	check_name(DIGITS "  .a", ".a");
	check_name(DIGITS "  ..", "..");
}

static void a_backslash_in_front_escapes(void **state)
{
	(void)state;
	check_name("\\" DIGITS "  a\\nb\\rc\\\\d", "a\nb\rc\\d");
	check_name("\\" DIGITS "  a\\", "a\\");
	check_name("\\" DIGITS "  \\\\n", "\\n");
	check_name(DIGITS "  a\\nb", "a\\nb");
}

static void other_lines_are_none(void **state)
{
	static const char *const OTHERS[] = { "", DIGITS, DIGITS " ", DIGITS "  ",
		DIGITS " a", DIGITS "a  b", DIGITS " -b", DIGITS "* b", "\\" DIGITS "  ",
		"0" DIGITS "  a", "00112233  a" };
	static const char EDGES[] = "/:@G`g";
	struct fsdp_sha256_line line;

	(void)state;
	for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
		assert_false(fsdp_sha256_line_read(fsdp_span_text(OTHERS[i]), &line));
	/* Bytes beside those of the digits, in the first place and in the last. */
	for (size_t i = 0; EDGES[i] != '\0'; i++) {
		char text[] = DIGITS "  a";

		text[0] = EDGES[i];
		assert_false(fsdp_sha256_line_read(fsdp_span_text(text), &line));
		text[0] = '0';
		text[FSDP_SHA256_HEX - 1] = EDGES[i];
		assert_false(fsdp_sha256_line_read(fsdp_span_text(text), &line));
	}
}

static void digits_may_be_followed(void **state)
{
	unsigned char digest[FSDP_SHA256_DIGEST];

	(void)state;
	assert_true(fsdp_sha256_digits(FSDP_SPAN(DIGITS), digest));
	assert_int_equal(digest[1], 0x11);
	assert_int_equal(digest[31], 0xff);
	assert_true(fsdp_sha256_digits(FSDP_SPAN(DIGITS "x"), digest));
	assert_false(fsdp_sha256_digits(fsdp_span(DIGITS, 63), digest));
}

static void lines_end_as_they_do_elsewhere(void **state)
{
	static const char *const LINES[] = { "a", "", "b\rc", "d", "\r", "e" };
	struct fsdp_span text = FSDP_SPAN("a\n\nb\rc\r\nd\r\n\r\r\ne"), line;

	(void)state;
	for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
		assert_true(fsdp_sha256_line_next(&text, &line));
		assert_int_equal(line.size, strlen(LINES[i]));
		assert_memory_equal(line.data, LINES[i], line.size);
	}
	assert_false(fsdp_sha256_line_next(&text, &line));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_stand_behind_two_characters),
		cmocka_unit_test(a_backslash_in_front_escapes),
		cmocka_unit_test(other_lines_are_none),
		cmocka_unit_test(digits_may_be_followed),
		cmocka_unit_test(lines_end_as_they_do_elsewhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
