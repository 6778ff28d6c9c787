/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <utf8proc.h>

#include "render/writer.h"

static struct writer writer;

static int setup(void **state)
{
	(void)state;
	writer_init(&writer, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	writer_done(&writer);
	return 0;
}

static const char *escaped(const char *data, size_t size, enum escape_style style)
{
	writer.size = 0;
	escape_write(&writer, data, size, style);
	writer_char(&writer, '\0');
	return writer.data;
}

#define ESCAPED(literal) escaped(literal, sizeof(literal) - 1, ESCAPE_TEXT)
#define ESCAPED_TSV(literal) escaped(literal, sizeof(literal) - 1, ESCAPE_TSV)

static void characters_are_those_of_utf8proc(void **state)
{
	(void)state;
	for (uint32_t i = 0; i <= 0x10ffff; i++) {
		int width = utf8proc_charwidth((utf8proc_int32_t)i);
		const utf8proc_property_t *property =
			utf8proc_get_property((utf8proc_int32_t)i);
		int category = property->category;

		assert_int_equal(character_columns(i), width > 0 ? width : 0);
		assert_int_equal(character_is_hidden(i),
			property->ignorable || category == UTF8PROC_CATEGORY_CC ||
				category == UTF8PROC_CATEGORY_CF ||
				category == UTF8PROC_CATEGORY_CS ||
				category == UTF8PROC_CATEGORY_CN ||
				category == UTF8PROC_CATEGORY_ZL ||
				category == UTF8PROC_CATEGORY_ZP);
	}
}

static void ordinary_names_stay_as_they_are(void **state)
{
	(void)state;
	assert_string_equal(ESCAPED(""), "");
	assert_string_equal(ESCAPED("layers.0.weight"), "layers.0.weight");
	assert_string_equal(ESCAPED("a\\b \"c\" 'd'"), "a\\b \"c\" 'd'");
	assert_string_equal(ESCAPED("größe.重み.ñ"), "größe.重み.ñ");
	assert_string_equal(ESCAPED("größe\\x"), "größe\\x");
}

static void controls_and_tricks_are_spelled(void **state)
{
	(void)state;
	assert_string_equal(ESCAPED("\x1b[31m"), "\\x1b[31m");
	assert_string_equal(ESCAPED("a\0b"), "a\\x00b");
	assert_string_equal(ESCAPED("\x7f"), "\\x7f");
	assert_string_equal(ESCAPED("a\tb\nc\r"), "a\\x09b\\x0ac\\x0d");
	assert_string_equal(ESCAPED("\xc2\x9b"
				    "2J"),
		"\\u{009b}2J");
	assert_string_equal(ESCAPED("\u2028\u2029"), "\\u{2028}\\u{2029}");
	assert_string_equal(ESCAPED("\u202eabc\u2066"), "\\u{202e}abc\\u{2066}");
	assert_string_equal(ESCAPED("\u061c\u200e\u200f"), "\\u{061c}\\u{200e}\\u{200f}");
	assert_string_equal(ESCAPED("\u200b\u2060\ufeff"), "\\u{200b}\\u{2060}\\u{feff}");
	assert_string_equal(ESCAPED("\U000e0041"), "\\u{e0041}");
	assert_string_equal(ESCAPED("\U0010ffff"), "\\u{10ffff}");
	assert_string_equal(ESCAPED("\u3164"), "\\u{3164}");
}

static void a_backslash_is_doubled_only_beside_an_escape(void **state)
{
	(void)state;
	assert_string_equal(ESCAPED("\\x1b"), "\\x1b");
	assert_string_equal(ESCAPED("\\x1b\x1b"), "\\\\x1b\\x1b");
}

static void invalid_bytes_are_spelled_one_by_one(void **state)
{
	(void)state;
	assert_string_equal(ESCAPED("a\xff"), "a\\xff");
	assert_string_equal(ESCAPED("\xc0\x80"), "\\xc0\\x80");
	assert_string_equal(ESCAPED("\xed\xa0\x80"), "\\xed\\xa0\\x80");
	assert_string_equal(ESCAPED("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
	assert_string_equal(ESCAPED("\xe2\x82"), "\\xe2\\x82");
	assert_string_equal(ESCAPED("\xe2\x82x"), "\\xe2\\x82x");
	assert_string_equal(ESCAPED("\x80\xbf"), "\\x80\\xbf");
}

static void tsv_has_its_own_tabs_and_newlines(void **state)
{
	(void)state;
	assert_string_equal(ESCAPED_TSV("a\tb\nc\rd\\e"), "a\\tb\\nc\\rd\\\\e");
	assert_string_equal(ESCAPED_TSV("\\"), "\\\\");
	assert_string_equal(ESCAPED_TSV("\x1b"), "\\x1b");
	assert_string_equal(ESCAPED_TSV("plain"), "plain");
}

static void no_place_in_a_word_hides_a_control(void **state)
{
	(void)state;
	for (size_t size = 1; size <= 40; size++)
		for (size_t at = 0; at < size; at++) {
			char data[40];
			memset(data, 'a', sizeof data);
			data[at] = at % 2 != 0 ? '\x1b' : '\x7f';
			const char *text = escaped(data, size, ESCAPE_TEXT);
			assert_int_equal(strlen(text), size + 3);
			assert_memory_equal(
				text + at, at % 2 != 0 ? "\\x1b" : "\\x7f", 4);
		}
}

/* What leaves is valid, and nothing in it needs to be escaped again. */
static void check_harmless(const char *text)
{
	size_t size = strlen(text);
	while (size != 0) {
		uint32_t character;
		size_t length = character_decode(text, size, &character);
		assert_int_not_equal(character, CHARACTER_NONE);
		assert_false(escape_needed(character));
		text += length;
		size -= length;
	}
}

static void every_pair_of_bytes_becomes_harmless(void **state)
{
	(void)state;
	for (unsigned pair = 0; pair < 0x10000; pair++) {
		const char data[4] = { (char)(pair >> 8), (char)pair, '\x80', 'a' };
		check_harmless(escaped(data, 2, ESCAPE_TEXT));
		check_harmless(escaped(data, 4, ESCAPE_TSV));
	}
}

static size_t encode(uint32_t character, char data[4])
{
	if (character < 0x80) {
		data[0] = (char)character;
		return 1;
	}
	if (character < 0x800) {
		data[0] = (char)(0xc0 | character >> 6);
		data[1] = (char)(0x80 | (character & 0x3f));
		return 2;
	}
	if (character < 0x10000) {
		data[0] = (char)(0xe0 | character >> 12);
		data[1] = (char)(0x80 | (character >> 6 & 0x3f));
		data[2] = (char)(0x80 | (character & 0x3f));
		return 3;
	}
	data[0] = (char)(0xf0 | character >> 18);
	data[1] = (char)(0x80 | (character >> 12 & 0x3f));
	data[2] = (char)(0x80 | (character >> 6 & 0x3f));
	data[3] = (char)(0x80 | (character & 0x3f));
	return 4;
}

static void every_character_is_itself_or_spelled(void **state)
{
	(void)state;
	for (uint32_t character = 0; character < 0x110000; character++) {
		char data[4];
		uint32_t back;
		size_t size = encode(character, data);
		bool surrogate = character >= 0xd800 && character < 0xe000;
		size_t length = character_decode(data, size, &back);
		assert_int_equal(back, surrogate ? CHARACTER_NONE : character);
		assert_int_equal(length, surrogate ? 1 : size);
		const char *text = escaped(data, size, ESCAPE_TEXT);
		bool same = strlen(text) == size && memcmp(text, data, size) == 0;
		assert_int_equal(same, !surrogate && !escape_needed(character));
	}
}

/* A terminal of eight bits a character takes 0x80 to 0x9f for controls, also in the
 * middle of UTF-8. */
static void without_utf8_all_beyond_ascii_is_spelled(void **state)
{
	(void)state;
	writer.ascii = true;
	assert_string_equal(ESCAPED("layers.0\\x"), "layers.0\\x");
	assert_string_equal(ESCAPED("\xd1\x9b"
				    "31m"),
		"\\u{045b}31m");
	assert_string_equal(ESCAPED("a\\\xc3\xa9\x9b"), "a\\\\\\u{00e9}\\x9b");
	assert_string_equal(escaped("\n\xf0\x9f\x98\x80", 5, ESCAPE_CSV), "\n\\u{1f600}");
	for (uint32_t character = 0; character < 0x110000; character++) {
		char data[4];
		size_t size = encode(character, data);
		for (const char *at = escaped(data, size, ESCAPE_TEXT); *at != '\0'; at++)
			assert_in_range(*at, ' ', '~');
	}
	writer.ascii = false;
}

static void a_cut_never_parts_a_character(void **state)
{
	(void)state;
	const char *text = "aé重\U0001f600";
	const size_t expected[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10 };
	for (size_t limit = 0; limit < 12; limit++)
		assert_int_equal(escape_cut(text, 10, limit), expected[limit]);
	assert_int_equal(escape_cut("\x80\x80\x80\x80\x80", 5, 4), 4);
	assert_int_equal(escape_cut("abc", 3, 3), 3);
}

static void widths_are_those_of_a_terminal(void **state)
{
	(void)state;
	assert_int_equal(width_of("", 0), 0);
	assert_int_equal(width_of("abc", 3), 3);
	assert_int_equal(width_of("重み", 6), 4);
	assert_int_equal(width_of("e\u0301", 3), 1);
	assert_int_equal(width_front("重みab", 8, 3), 3);
	assert_int_equal(width_back("ab重み", 8, 3), 3);
	assert_int_equal(width_back("ab重み", 8, 100), 8);
	assert_int_equal(width_front("abc", 3, 0), 0);
	assert_int_equal(width_back("abc", 3, 0), 0);
}

static void check_sizes(uint64_t count, enum human_sizes sizes, const char *expected)
{
	char buffer[HUMAN_ROOM];
	assert_string_equal(human_bytes(count, sizes, buffer), expected);
}

static void check_bytes(uint64_t count, const char *expected)
{
	check_sizes(count, HUMAN_BINARY, expected);
}

static void check_elements(uint64_t count, const char *expected)
{
	char buffer[HUMAN_ROOM];
	assert_string_equal(human_elements(count, buffer), expected);
}

/* Decimal numbers are also those of the page of report, whose script has the same forms
 * (axe.py). */
static void large_numbers_are_short(void **state)
{
	(void)state;
	check_bytes(0, "0 B");
	check_bytes(1023, "1023 B");
	check_bytes(1024, "1.0 KiB");
	check_bytes(1536, "1.5 KiB");
	check_bytes(1, "1 B");
	check_bytes(10291, "10.0 KiB");
	check_bytes(10292, "10.1 KiB");
	check_bytes(1048524, "1023.9 KiB");
	check_bytes(1048525, "1.0 MiB");
	check_bytes(1048575, "1.0 MiB");
	check_bytes(1048576, "1.0 MiB");
	check_bytes(1073689395, "1023.9 MiB");
	check_bytes(1073741823, "1.00 GiB");
	check_bytes(1073741824, "1.00 GiB");
	check_bytes(117440512, "112.0 MiB");
	check_bytes(UINT64_C(13357348618), "12.44 GiB");
	check_bytes(UINT64_C(1099511627775), "1.00 TiB");
	check_bytes(UINT64_C(1125899906842623), "1.00 PiB");
	check_bytes(UINT64_MAX, "16.00 EiB");
	check_sizes(999, HUMAN_DECIMAL, "999 B");
	check_sizes(1000, HUMAN_DECIMAL, "1.0 kB");
	check_sizes(1024, HUMAN_DECIMAL, "1.0 kB");
	check_sizes(999949999, HUMAN_DECIMAL, "999.9 MB");
	check_sizes(999950000, HUMAN_DECIMAL, "1.00 GB");
	check_sizes(UINT64_MAX, HUMAN_DECIMAL, "18.45 EB");
	check_sizes(UINT64_MAX, HUMAN_EXACT, "18446744073709551615 B");
	check_elements(999, "999");
	check_elements(0, "0");
	check_elements(1000, "1.0 k");
	check_elements(1049, "1.0 k");
	check_elements(1050, "1.1 k");
	check_elements(12345, "12.3 k");
	check_elements(999949, "999.9 k");
	check_elements(999950, "1.0 M");
	check_elements(58720256, "58.7 M");
	check_elements(999949999, "999.9 M");
	check_elements(999950000, "1.00 B");
	check_elements(UINT64_C(999994999999), "999.99 B");
	check_elements(UINT64_C(8030261248), "8.03 B");
	check_elements(UINT64_C(1200000000000), "1.20 T");
	check_elements(UINT64_MAX, "18446744.07 T");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters_are_those_of_utf8proc),
		cmocka_unit_test(ordinary_names_stay_as_they_are),
		cmocka_unit_test(controls_and_tricks_are_spelled),
		cmocka_unit_test(a_backslash_is_doubled_only_beside_an_escape),
		cmocka_unit_test(invalid_bytes_are_spelled_one_by_one),
		cmocka_unit_test(tsv_has_its_own_tabs_and_newlines),
		cmocka_unit_test(no_place_in_a_word_hides_a_control),
		cmocka_unit_test(every_pair_of_bytes_becomes_harmless),
		cmocka_unit_test(every_character_is_itself_or_spelled),
		cmocka_unit_test(a_cut_never_parts_a_character),
		cmocka_unit_test(without_utf8_all_beyond_ascii_is_spelled),
		cmocka_unit_test(widths_are_those_of_a_terminal),
		cmocka_unit_test(large_numbers_are_short),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
