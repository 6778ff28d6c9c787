/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of raw weights with an index of their names. */
#include "folder-setup.h"

#include <fsdp/model.h>

#include "base/span.h"

static int begin(void **state)
{
	(void)state;
	folder_make();
	folder_write("a.dat", "12345678", 8);
	return 0;
}

/* "a float32 8; FI1001": names, types and bytes of tensors, then findings; or why it does
 * not open. */
static void expect(const char *index, const char *expected)
{
	struct fsdp_options options = { .size = sizeof options, .no_plan = true };
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	char found[256] = "", name[64];
	size_t at = 0;

	folder_write("index.json", index, strlen(index));
	if (!fsdp_checkpoint_open(&path, 1, &options, &checkpoint, &error)) {
		assert_string_equal(expected, "no");
		fsdp_error_free(error);
		return;
	}
	assert_string_equal(
		fsdp_checkpoint_format(checkpoint).family, "accelerate-offload");
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		size_t size = fsdp_name_write(checkpoint, tensor.name, name, sizeof name);
		at += (size_t)snprintf(found + at, sizeof found - at, "%.*s %s %llu; ",
			(int)size, name, fsdp_dtype(tensor.dtype)->name,
			FSDP_LLU(tensor.bytes));
	}
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		at += (size_t)snprintf(found + at, sizeof found - at, "%s ",
			fsdp_finding(checkpoint, i)->rule->id);
	assert_string_equal(found, expected);
	fsdp_checkpoint_free(checkpoint);
}

static void tensors_are_what_the_index_says(void **state)
{
	(void)state;
	expect("{\"a\": {\"dtype\": \"float32\", \"shape\": [2, 1]}}", "a float32 8; ");
	expect("{\"a\": {\"shape\": [4], \"dtype\": \"bfloat16\", \"x\": [{}]}}",
		"a bfloat16 8; ");
	expect("{\"a\": {\"dtype\": \"int64\", \"shape\": []}}", "a int64 8; ");
	expect("{}", "");
	expect("{\"e\": {\"safetensors_file\": \"/etc/passwd\", \"dtype\": \"int8\"}}",
		"");
}

static void sizes_are_compared_with_the_files(void **state)
{
	(void)state;
	expect("{\"a\": {\"dtype\": \"float32\", \"shape\": [3]}}",
		"a float32 12; FI1004 ");
	expect("{\"a\": {\"dtype\": \"float32\", \"shape\": [1]}}",
		"a float32 4; FI1025 ");
	expect("{\"b\": {\"dtype\": \"float32\", \"shape\": [1]}}",
		"b float32 4; FI1001 ");
	expect("{\"../a\": {\"dtype\": \"float32\", \"shape\": [2]}}",
		"../a float32 8; FI1001 ");
}

static void entries_are_claims(void **state)
{
	(void)state;
	expect("{\"a\": {\"dtype\": \"float32\", \"shape\": [-1]}}", "FI1025 ");
	expect("{\"a\": {\"dtype\": \"float32\", \"shape\": [9223372036854775807, 3]}}",
		"FI1025 ");
	expect("{\"a\": {\"dtype\": \"float32\", \"shape\": [[2]]}}", "FI1025 ");
	expect("{\"a\": {\"dtype\": \"float32\", \"shape\": {\"x\": 1}}}", "FI1025 ");
	expect("{\"a\": {\"dtype\": \"object\", \"shape\": [2]}}", "FI1025 ");
	expect("{\"a\": {\"dtype\": 7, \"shape\": [2]}}", "FI1025 ");
	expect("{\"a\": [1, [2]]}", "FI1025 ");
	expect("{\"a\": {\"dtype\": \"int8\", \"shape\": [8]}, \"a\": {\"dtype\": \"int16\", \"shape\": [4]}}",
		"a int8 8; FI1025 ");
	expect("[]", "no");
	expect("{\"a\": {", "no");
	expect("{} x", "no");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, folder_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tensors_are_what_the_index_says),
		TEST(sizes_are_compared_with_the_files),
		TEST(entries_are_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
