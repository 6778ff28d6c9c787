/* SPDX-License-Identifier: Apache-2.0 */
/* Folders in which each rank has slices of its own under the same names. */
#include "folder-setup.h"

#include <fsdp/model.h>

#include "base/span.h"

/* A safetensors file with one tensor of one element. */
static void put_tensor(const char *file, const char *tensor)
{
	unsigned char bytes[256] = { 0 };
	int size = snprintf((char *)bytes + 8, 200,
		"{\"%s\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}}",
		tensor);

	bytes[0] = (unsigned char)size;
	folder_write(file, bytes, 8 + (size_t)size + 1);
}

/* "2 ranks: a@0 a@1; FI1008 1": ranks, tensors with theirs, findings with theirs. */
static void expect(const char *expected)
{
	struct fsdp_options options = { .size = sizeof options, .no_plan = true };
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;
	char found[256], name[64];
	size_t at;

	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	at = (size_t)snprintf(found, sizeof found,
		"%s %u:", fsdp_checkpoint_format(checkpoint).family,
		fsdp_checkpoint_world_size(checkpoint));
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		size_t size = fsdp_name_write(checkpoint, tensor.name, name, sizeof name);
		at += (size_t)snprintf(found + at, sizeof found - at, " %.*s@%u",
			(int)size, name, fsdp_piece(checkpoint, tensor.first_piece).rank);
	}
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		at += (size_t)snprintf(found + at, sizeof found - at, "; %s %d",
			fsdp_finding(checkpoint, i)->rule->id,
			(int)fsdp_finding(checkpoint, i)->rank);
	assert_string_equal(found, expected);
	fsdp_checkpoint_free(checkpoint);
}

static void slices_are_their_ranks_own(void **state)
{
	(void)state;
	put_tensor("model-rank-0-part-0.safetensors", "a");
	put_tensor("model-rank-0-part-1.safetensors", "b");
	put_tensor("model-rank-1-part-0.safetensors", "a");
	put_tensor("model-rank-1-part-1.safetensors", "b");
	expect("vllm-sharded-state 2: a@0 a@1 b@0 b@1");
}

static void ranks_and_parts_that_are_not_there_are_told(void **state)
{
	(void)state;
	put_tensor("model-rank-0-part-0.safetensors", "a");
	put_tensor("model-rank-0-part-2.safetensors", "b");
	put_tensor("model-rank-2-part-0.safetensors", "a");
	expect("vllm-sharded-state 3: a@0 a@2 b@0; FI1008 0; FI1008 1; FI1008 2");
}

static void numbers_in_names_are_claims(void **state)
{
	struct fsdp_options options = { .size = sizeof options, .no_plan = true };
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;

	(void)state;
	put_tensor("model-rank-9999999-part-0.safetensors", "a");
	assert_false(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_UNSUPPORTED);
	fsdp_error_free(error);
}

static void sizes_of_the_model_are_values(void **state)
{
	(void)state;
	put_tensor("consolidated.00.pth", "a");
	folder_write("params.json", "{\"dim\": 7, \"x\": [1], \"y\": null", 30);
	expect("meta-consolidated 1: a@0; FI3067 -1; FI1025 -1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_begin, folder_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slices_are_their_ranks_own),
		TEST(ranks_and_parts_that_are_not_there_are_told),
		TEST(numbers_in_names_are_claims),
		TEST(sizes_of_the_model_are_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
