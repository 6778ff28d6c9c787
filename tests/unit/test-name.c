/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/span.h"
#include "checkpoint/model.h"

#define F "_fsdp_wrapped_module."
#define C "_checkpoint_wrapped_module."

struct row {
	const char *raw, *clean;
};

static void test_clean(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "", "" },
		{ "a.weight", "a.weight" },
		{ F "a.weight", "a.weight" },
		{ "a." F C "b", "a.b" },
		{ F F F, "" },
		{ "x" F "y", "xy" }, /* text, not segments */
		{ "_fsdp_wrapped_module", "_fsdp_wrapped_module" }, /* no dot */
		{ "_orig_mod.module.a", "_orig_mod.module.a" },     /* nothing else */
		/* Removing the first kind may make the second, but not itself again. */
		{ "_checkpoint_" F "wrapped_module.a", "a" },
		{ "_fsdp_" F "wrapped_module.a", F "a" },
		{ "_fsdp_" C "wrapped_module.a", F "a" },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char buffer[128];
		struct fsdp_span raw = fsdp_span_text(rows[i].raw);
		size_t size = fsdp_name_clean(raw, buffer);
		assert_int_equal(size, strlen(rows[i].clean));
		assert_memory_equal(buffer, rows[i].clean, size);
		assert_int_equal(fsdp_name_is_dirty(raw), size != raw.size);
	}
}

static void test_wrappers(void **state)
{
	(void)state;
	assert_int_equal(fsdp_name_wrapper_of(FSDP_SPAN("_fsdp_wrapped_module")),
		FSDP_WRAPPER_FSDP1);
	assert_int_equal(fsdp_name_wrapper_of(FSDP_SPAN("_checkpoint_wrapped_module")),
		FSDP_WRAPPER_CHECKPOINT);
	assert_int_equal(fsdp_name_wrapper_of(FSDP_SPAN("module")), FSDP_WRAPPER_NONE);
	assert_int_equal(fsdp_name_wrapper_of(FSDP_SPAN("")), FSDP_WRAPPER_NONE);
	assert_string_equal(fsdp_name_wrapper_segment(0), F);
	assert_string_equal(fsdp_name_wrapper_segment(1), C);
	size_t count = 0;
	while (fsdp_name_wrapper_segment(count) != NULL)
		count++;
	assert_null(fsdp_name_wrapper_segment(count + 1));
	assert_null(fsdp_name_wrapper_segment(SIZE_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_wrappers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
