/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/characters.h"

static struct fsdp_budget budget = { .ceiling = UINT64_MAX };

static void check(struct fsdp_span bytes, const char *text)
{
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_span found = fsdp_big_text(bytes, &arena);
	assert_string_equal((const char *)found.data, text);
	assert_int_equal(found.size, strlen(text));
	fsdp_arena_done(&arena);
}

static void integers_are_written_in_decimal(void **state)
{
	(void)state;
	check(fsdp_span("", 0), "0");
	check(fsdp_span("\0\0\0\0\0\0\0\0\0", 9), "0");
	check(FSDP_SPAN("\x01"), "1");
	check(FSDP_SPAN("\xff"), "-1");
	check(FSDP_SPAN("\x80"), "-128");
	check(FSDP_SPAN("\0\xca\x9a\x3b\0"), "1000000000");
}

static void what_python_says(void **state)
{
	(void)state;
	/* one word of 32 bits, and a byte behind it */
	check(FSDP_SPAN("\xff\xff\xff\x7f"), "2147483647");
	check(FSDP_SPAN("\0\0\0\x80"), "-2147483648");
	check(FSDP_SPAN("\0\0\0\x80\0"), "2147483648");
	check(FSDP_SPAN("\xff\xff\xff\x7f\xff"), "-2147483649");
	check(FSDP_SPAN("\xff\xc9\x9a\x3b"), "999999999");
	/* 2**64, -2**64, 10**30, -(10**30) as pickle writes them */
	check(FSDP_SPAN("\0\0\0\0\0\0\0\0\x01"), "18446744073709551616");
	check(FSDP_SPAN("\0\0\0\0\0\0\0\0\xff"), "-18446744073709551616");
	check(FSDP_SPAN("\0\0\0\x40\xea\xed\x74\x46\xd0\x9c\x2c\x9f\x0c"),
		"1000000000000000000000000000000");
	check(FSDP_SPAN("\0\0\0\xc0\x15\x12\x8b\xb9\x2f\x63\xd3\x60\xf3"),
		"-1000000000000000000000000000000");
}

static void long_ones_are_hexadecimal(void **state)
{
	(void)state;
	unsigned char bytes[513] = { 0 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	bytes[512] = 1;
	struct fsdp_span found = fsdp_big_text(fsdp_span(bytes, 513), &arena);
	assert_memory_equal(found.data, "0x0100", 6);
	assert_int_equal(found.size, 2 + 2 * 513);
	found = fsdp_big_text(fsdp_span(bytes + 1, 512), &arena);
	assert_true(found.data[0] >= '1' && found.data[0] <= '9');
	assert_int_equal(found.size, 1231);
	bytes[512] = 0xff;
	found = fsdp_big_text(fsdp_span(bytes + 1, 512), &arena);
	assert_memory_equal(found.data, "-4079", 5);
	assert_int_equal(found.size, 1 + 1231);
	/* Of a negative one the bits, as they are stored. */
	bytes[511] = 0x3a;
	found = fsdp_big_text(fsdp_span(bytes, 513), &arena);
	assert_memory_equal(found.data, "~0xff3a00", 9);
	assert_int_equal(found.size, 3 + 2 * 513);
	fsdp_arena_done(&arena);
}

static void the_longest_are_cut(void **state)
{
	(void)state;
	static unsigned char bytes[4098] = { [1] = 0x12, [4096] = 0x34, [4097] = 0x56 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_span found = fsdp_big_text(fsdp_span(bytes, 4097), &arena);
	assert_memory_equal(found.data, "0x3400", 6);
	assert_int_equal(found.size, 2 + 2 * 4096);
	assert_memory_equal(found.data + found.size - 2, "12", 2);
	found = fsdp_big_text(fsdp_span(bytes, 4098), &arena);
	assert_memory_equal(found.data, "0x5634", 6);
	assert_int_equal(found.size, 2 + 2 * 4096);
	assert_memory_equal(found.data + found.size - 2, "00", 2);
	fsdp_arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_are_written_in_decimal),
		cmocka_unit_test(what_python_says),
		cmocka_unit_test(long_ones_are_hexadecimal),
		cmocka_unit_test(the_longest_are_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
