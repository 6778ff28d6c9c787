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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_error_is_out_of_memory),
		cmocka_unit_test(a_second_attempt_begins_without_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
