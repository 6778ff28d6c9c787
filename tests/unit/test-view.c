/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "elements/elements-private.h"

static void strides_in_c_order(void **state)
{
	(void)state;
	struct fsdp_view view = { .dims = 3, .shape = { 2, 3, 4 } };
	fsdp_view_set_contiguous(&view);
	assert_int_equal(view.strides[0], 12);
	assert_int_equal(view.strides[1], 4);
	assert_int_equal(view.strides[2], 1);
	assert_true(fsdp_view_is_contiguous(&view));
	view.strides[1] = 5;
	assert_false(fsdp_view_is_contiguous(&view));
	view.shape[1] = 1; /* nobody steps along it */
	view.strides[0] = 4;
	assert_true(fsdp_view_is_contiguous(&view));
}

/* What a header claims may have more elements than numbers go; asking is no accident. */
static void shapes_that_overflow_can_be_asked_about(void **state)
{
	(void)state;
	struct fsdp_view view = {
		.dims = 3,
		.shape = { 3, INT64_C(1) << 40, INT64_C(1) << 40 },
		.storage_bytes = 8,
	};
	uint64_t begin, end;
	fsdp_view_set_contiguous(&view);
	assert_true(fsdp_view_is_contiguous(&view));
	assert_false(fsdp_view_bytes(&view, &begin, &end));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strides_in_c_order),
		cmocka_unit_test(shapes_that_overflow_can_be_asked_about),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
