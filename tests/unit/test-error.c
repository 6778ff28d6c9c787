/* SPDX-License-Identifier: Apache-2.0 */
/* Errors where one is missing, or was left from an attempt before. */
#include "open-bytes.h"

#include "base/error.h"

static void no_error_is_out_of_memory(void **state)
{
	(void)state;
	assert_int_equal(fsdp_error_code(NULL), FSDP_ERROR_MEMORY);
}

/* A flat parameter takes records, so a file of which only counts are asked for is read
 * twice. What the first attempt said does not count when the second succeeds. */
static void a_second_attempt_begins_without_an_error(void **state)
{
	(void)state;
	static const char header[] =
		"{\"_flat_param\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
	unsigned char bytes[8 + sizeof header] = { sizeof header - 1 };
	memcpy(bytes + 8, header, sizeof header);
	struct fsdp_error *error = NULL;
	fsdp_fail(&error, FSDP_ERROR_DAMAGED, 0, "of the attempt before");
	struct fsdp_checkpoint *checkpoint =
		open_bytes_as(bytes, sizeof bytes, true, &error);
	assert_non_null(checkpoint);
	assert_int_equal(fsdp_sum_count(checkpoint), 0);
	fsdp_checkpoint_free(checkpoint);
}

/* What an error says of a file below a folder that was named. */
static void a_root_is_put_before_a_path_once(void **state)
{
	static const struct {
		const char *path, *root, *joined;
	} cases[] = {
		{ NULL, "model", "model" },
		{ "model", "model", "model" },
		{ "model/a", "model", "model/a" },
		{ "model-1", "model", "model/model-1" },
		{ "a", "model", "model/a" },
		{ "model/a", "model/", "model/a" },
		{ "a", "model/", "model/a" },
		{ "a", "/", "/a" },
		{ "a", "", "a" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fsdp_error *error = NULL;
		fsdp_fail(&error, FSDP_ERROR_DAMAGED, 0, "torn");
		if (cases[i].path != NULL)
			fsdp_error_add_path(&error, cases[i].path);
		fsdp_error_put_below(&error, cases[i].root);
		assert_string_equal(fsdp_error_path(error), cases[i].joined);
		fsdp_error_free(error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_error_is_out_of_memory),
		cmocka_unit_test(a_root_is_put_before_a_path_once),
		cmocka_unit_test(a_second_attempt_begins_without_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
