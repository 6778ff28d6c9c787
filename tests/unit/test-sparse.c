/* SPDX-License-Identifier: Apache-2.0 */
/* What the indices of sparse tensors hold: each of them is changed in turn. */
#include <fsdp/audit.h>
#include <fsdp/elements.h>

#include "verify-setup.h"

static const char SAMPLE[] = "torch-zip/sparse/model.pt";

/* How often FI1045 is found; the last message goes to `message`. */
static size_t judge(struct verified verified, enum fsdp_level level, char message[256])
{
	struct fsdp_audit_options options = {
		.size = sizeof options, .level = level, .verify = verified.verify
	};
	struct fsdp_audit *audit;
	size_t count = 0;

	assert_true(fsdp_audit_new(verified.checkpoint, &options, &audit, NULL));
	for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);

		if (strcmp(finding->rule->id, "FI1045") != 0)
			continue;
		count++;
		snprintf(message, 256, "%.*s: %.*s", FSDP_TEXT(finding->tensor),
			FSDP_TEXT(finding->message));
	}
	fsdp_audit_free(audit);
	verified_done(&verified);
	return count;
}

/* Where the first number of a part is in the file. */
static long place_of(const char *tensor, uint32_t part)
{
	struct verified verified = verify_sample(SAMPLE, FSDP_LEVEL_HEADERS, 1);
	struct fsdp_tensor whole = fsdp_tensor(verified.checkpoint,
		fsdp_tensor_find(verified.checkpoint, fsdp_span_text(tensor)));
	struct fsdp_tensor own =
		fsdp_tensor(verified.checkpoint, whole.first_component + part);
	struct fsdp_locator *locator;
	struct fsdp_place place;

	assert_true(fsdp_locator_new(verified.checkpoint, &locator, NULL));
	assert_true(fsdp_piece_locate(locator, own.first_piece, &place, NULL));
	fsdp_locator_free(locator);
	verified_done(&verified);
	return (long)place.offset;
}

static const struct {
	const char *tensor;
	uint32_t part, index;
	int64_t number;
	const char *message;
} rows[] = {
	{ "coo", 0, 0, 3, "coo: index 0 is 3, which is outside of the tensor" },
	{ "coo", 0, 1, -1, "coo: index 1 is -1, which is outside of the tensor" },
	{ "coo", 0, 7, 4, "coo: index 7 is 4, which is outside of the tensor" },
	{ "coo", 0, 7, 3, NULL }, /* no more than fits into the second dimension */
	{ "csr", 0, 0, 1, "csr: row pointer 0 is 1, which should be 0" },
	{ "csr", 0, 1, 5, "csr: row pointer 1 is 5, which is outside of the tensor" },
	{ "csr", 0, 1, 4, "csr: row pointer 2 is 2, which is less than the one before" },
	{ "csr", 0, 3, 3, "csr: row pointer 3 is 3, which is not the number of values" },
	{ "csr", 1, 3, 4, "csr: column index 3 is 4, which is outside of the tensor" },
	{ "csr", 1, 3, -1, "csr: column index 3 is -1, which is outside of the tensor" },
	{ "csr", 1, 3, 0, NULL },
};

static void numbers_outside_of_the_shape_are_found(void **state)
{
	char path[512], message[256] = "";

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		long at = place_of(rows[i].tensor, rows[i].part) + 8 * rows[i].index;

		folder_copy("torch-zip/sparse");
		folder_path("model.pt", path);
		folder_poke("model.pt", at, &rows[i].number, 8);
		assert_int_equal(judge(verify_path(path, FSDP_LEVEL_DATA, 1),
					 FSDP_LEVEL_DATA, message),
			rows[i].message != NULL);
		if (rows[i].message != NULL)
			assert_string_equal(message, rows[i].message);
		assert_int_equal(judge(verify_path(path, FSDP_LEVEL_HEADERS, 1),
					 FSDP_LEVEL_HEADERS, message),
			0);
		folder_remove();
	}
}

static void sound_ones_are_not(void **state)
{
	char message[256];

	(void)state;
	assert_int_equal(judge(verify_sample(SAMPLE, FSDP_LEVEL_DATA, 1), FSDP_LEVEL_DATA,
				 message),
		0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_outside_of_the_shape_are_found),
		cmocka_unit_test(sound_ones_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
