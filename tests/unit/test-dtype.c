/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "checkpoint/model.h"

static void test_names(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < fsdp_dtype_count(); i++) {
		const struct fsdp_dtype *dtype = fsdp_dtype(i);
		assert_int_equal(fsdp_dtype_find(fsdp_span_text(dtype->name)), i);
		assert_true(dtype->storage_bytes != 0 && dtype->item_bits != 0);
		assert_true(dtype->item_bits <= 8 * dtype->storage_bytes);
	}
	assert_int_equal(fsdp_dtype_find(FSDP_SPAN("half")),
		fsdp_dtype_find(FSDP_SPAN("float16")));
	assert_int_equal(
		fsdp_dtype_find(FSDP_SPAN("long")), fsdp_dtype_find(FSDP_SPAN("int64")));
	assert_int_equal(fsdp_dtype_find(FSDP_SPAN("unknown")), FSDP_DTYPE_UNKNOWN);
	assert_int_equal(fsdp_dtype_find(FSDP_SPAN("float3")), FSDP_DTYPE_UNKNOWN);
	assert_int_equal(fsdp_dtype_find(FSDP_SPAN("")), FSDP_DTYPE_UNKNOWN);
	assert_string_equal(fsdp_dtype(UINT32_MAX)->name, "unknown");
}

static void test_classes(void **state)
{
	(void)state;
	assert_int_equal(fsdp_dtype_of_storage(FSDP_SPAN("FloatStorage")),
		fsdp_dtype_find(FSDP_SPAN("float32")));
	assert_int_equal(fsdp_dtype_of_storage(FSDP_SPAN("UntypedStorage")),
		fsdp_dtype_find(FSDP_SPAN("uint8")));
	assert_int_equal(fsdp_dtype_of_tensor_class(FSDP_SPAN("BFloat16Tensor")),
		fsdp_dtype_find(FSDP_SPAN("bfloat16")));
	assert_int_equal(
		fsdp_dtype_of_storage(FSDP_SPAN("FloatTensor")), FSDP_DTYPE_UNKNOWN);
	assert_int_equal(fsdp_dtype_of_storage(FSDP_SPAN("Storage")), FSDP_DTYPE_UNKNOWN);
	assert_int_equal(fsdp_dtype_of_tensor_class(FSDP_SPAN("")), FSDP_DTYPE_UNKNOWN);
}

static uint64_t bytes_of(const char *name, uint64_t numel)
{
	uint64_t bytes = 0;
	assert_true(
		fsdp_dtype_bytes(fsdp_dtype_find(fsdp_span_text(name)), numel, &bytes));
	return bytes;
}

static void test_bytes(void **state)
{
	(void)state;
	uint64_t bytes;
	assert_int_equal(bytes_of("float32", 0), 0);
	assert_int_equal(bytes_of("complex128", 3), 48);
	assert_int_equal(bytes_of("quint4x2", 3), 2);
	assert_int_equal(bytes_of("quint2x4", 5), 2);
	assert_int_equal(bytes_of("quint2x4", UINT64_MAX), UINT64_MAX / 4 + 1);
	assert_int_equal(bytes_of("uint8", UINT64_MAX), UINT64_MAX);
	uint32_t wide = fsdp_dtype_find(FSDP_SPAN("float64"));
	assert_true(fsdp_dtype_bytes(wide, UINT64_MAX / 8, &bytes));
	assert_false(fsdp_dtype_bytes(wide, UINT64_MAX / 8 + 1, &bytes));
	assert_true(fsdp_dtype_bytes(FSDP_DTYPE_UNKNOWN, UINT64_MAX, &bytes));
	assert_int_equal(bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
