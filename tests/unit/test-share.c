/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of a row of things: each thing belongs to the one where it begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/tasks.h"

enum { MOST = 8 };

/* The shares that each of these things belongs to, as a text of digits. */
static void check(uint32_t parts, const uint64_t *sizes, const char *expected)
{
	uint64_t total = 0;
	size_t count = strlen(expected);

	for (size_t i = 0; i < count; i++)
		total += sizes[i];
	for (uint32_t part = 1; part <= parts; part++) {
		struct fsdp_share share = {
			.part = part, .parts = parts, .total = total
		};

		for (size_t i = 0; i < count; i++)
			assert_int_equal(fsdp_share_takes(&share, sizes[i]),
				part == (uint32_t)(expected[i] - '0'));
		assert_int_equal(share.at, total);
	}
}

static void a_thing_belongs_where_it_begins(void **state)
{
	(void)state;
	check(1, (const uint64_t[MOST]){ 3, 0, 5 }, "111");
	check(2, (const uint64_t[MOST]){ 1, 1, 1, 1 }, "1122");
	check(2, (const uint64_t[MOST]){ 3, 1 }, "12");
	check(2, (const uint64_t[MOST]){ 1, 3 }, "11");
	check(3, (const uint64_t[MOST]){ 1, 1, 1, 1, 1, 1, 1 }, "1122333");
	check(3, (const uint64_t[MOST]){ 9, 0, 0 }, "133");
	check(3, (const uint64_t[MOST]){ 0, 0 }, "33");
	check(5, (const uint64_t[MOST]){ 1, 1, 1 }, "245");
	/* The products would not fit. */
	check(3, (const uint64_t[MOST]){ UINT64_MAX / 3, UINT64_MAX / 3, UINT64_MAX / 3 },
		"123");
}

static void without_parts_all_are_taken(void **state)
{
	struct fsdp_share share = { .total = 3 };

	(void)state;
	assert_true(fsdp_share_takes(&share, 2));
	assert_true(fsdp_share_takes(&share, 2));
	assert_int_equal(share.at, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thing_belongs_where_it_begins),
		cmocka_unit_test(without_parts_all_are_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
