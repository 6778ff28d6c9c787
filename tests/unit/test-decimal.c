/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in decimal: where they round, and the last that fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/characters.h"

/* Eight bytes may be read where as many are said to be there, so the text stands alone.
 */
static struct fsdp_span given(const char *text, char *room)
{
	size_t size = strlen(text);

	memset(room, '9', 128);
	memcpy(room, text, size);
	return fsdp_span(room, size);
}

static void fixed_ones_round_to_the_nearest(void **state)
{
	static const struct {
		const char *text;
		int power;
		int64_t value;
	} NUMBERS[] = {
		{ "0", 0, 0 },
		{ "7", 3, 7000 },
		{ "12345678", 0, 12345678 },
		{ "123456789", 0, 123456789 },
		{ "1234567.5", 3, 1234567500 },
		{ "12345678.125", 3, 12345678125 },
		{ "12345678.12", 3, 12345678120 },
		{ "1.", 2, 100 },
		{ ".25", 2, 25 },
		{ "+3", 1, 30 },
		{ "-3.5", 1, -35 },
		/* more digits than the power has */
		{ "1.2344", 3, 1234 },
		{ "1.2345", 3, 1235 },
		{ "1.23449", 3, 1234 },
		{ "-1.2345", 3, -1235 },
		{ "-1.2344", 3, -1234 },
		{ "9.9995", 3, 10000 },
		{ "0.5", 0, 1 },
		{ "0.49", 0, 0 },
		{ "0.05", 0, 0 },
		{ ".05", 1, 1 },
		{ ".049", 1, 0 },
		/* a negative power */
		{ "1234", -2, 12 },
		{ "1250", -2, 13 },
		{ "50", -2, 1 },
		{ "49", -2, 0 },
		{ "50", -3, 0 },
		/* exponents */
		{ "1e3", 0, 1000 },
		{ "1E+3", 0, 1000 },
		{ "1.5e-1", 1, 2 },
		{ "1.4e-1", 1, 1 },
		{ "125e-2", 2, 125 },
		{ "12.5e1", 0, 125 },
		{ "0e1000000000000000000000", 0, 0 },
		{ "5e-1000000000000000000000", 0, 0 },
		/* nineteen digits, and the ends of 64 bits */
		{ "1000000000000000000", 0, 1000000000000000000 },
		{ "100000000000000000", 1, 1000000000000000000 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "9223372036854775.807", 3, INT64_MAX },
		{ "9223372036854775806.5", 0, INT64_MAX },
		{ "-9223372036854775808", 0, INT64_MIN },
		{ "00000000000000000000012", 0, 12 },
	};
	char room[128];
	int64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
		assert_true(fsdp_decimal_fixed(
			given(NUMBERS[i].text, room), NUMBERS[i].power, &value));
		assert_int_equal(value, NUMBERS[i].value);
	}
}

static void other_texts_are_not_fixed(void **state)
{
	static const struct {
		const char *text;
		int power;
	} OTHERS[] = {
		{ "", 0 },
		{ ".", 3 },
		{ "-", 3 },
		{ "--1", 0 },
		{ "1e", 0 },
		{ "1e+", 0 },
		{ "1e-", 0 },
		{ "1e1.", 0 },
		{ "1f1", 0 },
		{ "1:", 0 },
		{ "1/", 0 },
		{ "1.2.3", 3 },
		{ "12345678x", 0 },
		{ " 1", 0 },
		{ "9223372036854775808", 0 },
		{ "9223372036854775807.5", 0 },
		{ "-9223372036854775809", 0 },
		{ "922337203685477581", 1 },
		{ "18446744073709551616", 0 },
		{ "18446744073709551615.5", 0 },
		{ "1", 19 },
		{ "1e19", 0 },
		{ "1e1000000000000000000000", 0 },
	};
	char room[128];
	int64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
		assert_false(fsdp_decimal_fixed(
			given(OTHERS[i].text, room), OTHERS[i].power, &value));
}

static void integers_have_nothing_behind_the_point(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} NUMBERS[] = {
		{ "0", 0 },
		{ "-0", 0 },
		{ "12", 12 },
		{ "12.", 12 },
		{ "12.00", 12 },
		{ "-12.0", -12 },
		{ "9223372036854775807", INT64_MAX },
		{ "-9223372036854775808", INT64_MIN },
	};
	static const char *const OTHERS[] = { "", "+1", ".0", "-.0", "1.01", "1.10",
		"1e0", "1x", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616" };
	char room[128];
	int64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
		assert_true(fsdp_decimal_integer(given(NUMBERS[i].text, room), &value));
		assert_int_equal(value, NUMBERS[i].value);
	}
	for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
		assert_false(fsdp_decimal_integer(given(OTHERS[i], room), &value));
}

static void reals_are_the_nearest(void **state)
{
	static const struct {
		const char *text;
		double value;
	} NUMBERS[] = {
		{ "0", 0.0 },
		{ "1.25", 1.25 },
		{ "-1.25e3", -1250.0 },
		{ "+.5", 0.5 },
		{ "125e-2", 1.25 },
		{ "1e-9", 1e-9 },
		{ "0.1", 0.1 },
		/* 64 characters, and 65 of them */
		{ "0.12500000000000000000000000000000000000000000000000000000000000",
			0.125 },
		{ "0.125000000000000000000000000000000000000000000000000000000000000",
			0.125 },
	};
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	char room[128];
	double value;
	bool memory = false;

	(void)state;
	fsdp_arena_init(&arena, &budget);
	for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
		assert_true(fsdp_decimal_real(
			given(NUMBERS[i].text, room), &arena, &value, &memory));
		assert_memory_equal(&value, &NUMBERS[i].value, sizeof value);
	}
	assert_false(fsdp_decimal_real(given("1.2.", room), &arena, &value, &memory));
	assert_false(memory);
	fsdp_arena_done(&arena);
}

static void eight_digits_are_taken_at_once(void **state)
{
	static const struct {
		const char *text;
		unsigned count;
		uint64_t value;
	} TEXTS[] = {
		{ "x1234567", 0, 7 },
		{ "1xxxxxxx", 1, 71 },
		{ "12/34567", 2, 712 },
		{ "123:4567", 3, 7123 },
		{ "1234\3775.6", 4, 71234 },
		{ "98765 43", 5, 798765 },
		{ "987654-3", 6, 7987654 },
		{ "9876543e", 7, 79876543 },
		{ "98765432", 8, 798765432 },
		{ "00000009", 8, 700000009 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
		uint64_t value = 7;
		const char *text = TEXTS[i].text;

		assert_int_equal(fsdp_decimal_digits((const unsigned char *)text, &value),
			TEXTS[i].count);
		assert_int_equal(value, TEXTS[i].value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_ones_round_to_the_nearest),
		cmocka_unit_test(other_texts_are_not_fixed),
		cmocka_unit_test(integers_have_nothing_behind_the_point),
		cmocka_unit_test(reals_are_the_nearest),
		cmocka_unit_test(eight_digits_are_taken_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
