/* SPDX-License-Identifier: Apache-2.0 */
/* Texts against lists of words, and arrays sorted by fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sort.h"

static void a_word_is_compared_whole(void **state)
{
	(void)state;
	assert_true(fsdp_span_is_any(FSDP_SPAN("scales"), "qzeros scales g_idx"));
	assert_true(fsdp_span_is_any(FSDP_SPAN("g_idx"), "qzeros scales g_idx"));
	assert_true(fsdp_span_is_any(FSDP_SPAN("scale"), "scales my_scale scale"));
	assert_false(fsdp_span_is_any(FSDP_SPAN("scale"), "scales my_scale"));
	assert_false(fsdp_span_is_any(FSDP_SPAN("qzeros scales"), "qzeros scales"));
	assert_false(fsdp_span_is_any(FSDP_SPAN("qzeros\0"), "qzeros"));
	assert_false(fsdp_span_is_any(FSDP_SPAN("\0"), "qzeros"));
	assert_false(fsdp_span_is_any(FSDP_SPAN(" "), "qzeros scales"));
	assert_false(fsdp_span_is_any(fsdp_span(NULL, 0), "qzeros"));
	assert_false(fsdp_span_is_any(FSDP_SPAN("a"), ""));
}

static void a_text_contains_a_word_or_ends_in_it(void **state)
{
	(void)state;
	assert_true(fsdp_span_has_any(FSDP_SPAN("mlp.experts.0"), "router experts"));
	assert_false(fsdp_span_has_any(FSDP_SPAN("mlp.up"), "router experts"));
	assert_true(fsdp_span_ends_any(FSDP_SPAN("model.bin"), ".pt .bin"));
	assert_false(fsdp_span_ends_any(FSDP_SPAN("model.bin.tmp"), ".pt .bin"));
}

static void the_first_field_that_differs_decides(void **state)
{
	struct item {
		int64_t time;
		struct fsdp_span name;
		uint32_t rank;
		bool last;
	} items[] = {
		{ 5, FSDP_SPAN_INIT("b"), 1, false },
		{ -7, FSDP_SPAN_INIT("b"), 2, true },
		{ 5, FSDP_SPAN_INIT("a"), 3, false },
		{ -7, FSDP_SPAN_INIT("b"), UINT32_MAX, false },
		{ INT64_MIN, FSDP_SPAN_INIT("c"), 4, false },
	};
	static const uint32_t ranks[] = { 4, UINT32_MAX, 2, 3, 1 };

	(void)state;
	FSDP_SORT(items, 5, FSDP_BY(items, time), FSDP_BY(items, name),
		FSDP_BY(items, last));
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(items[i].rank, ranks[i]);
	FSDP_SORT(items, 5, FSDP_BY_LARGEST(items, rank));
	assert_int_equal(items[0].rank, UINT32_MAX);
	assert_int_equal(items[4].rank, 1);
}

static void values_are_sorted_by_themselves(void **state)
{
	int numbers[] = { 3, -1, 2 };

	(void)state;
	FSDP_SORT(numbers, 3, FSDP_BY_VALUE(numbers));
	assert_int_equal(numbers[0], -1);
	assert_int_equal(numbers[2], 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_word_is_compared_whole),
		cmocka_unit_test(a_text_contains_a_word_or_ends_in_it),
		cmocka_unit_test(the_first_field_that_differs_decides),
		cmocka_unit_test(values_are_sorted_by_themselves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
