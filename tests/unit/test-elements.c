/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of tensors through the door: rank files by torch 2.13. */
#include "open-bytes.h"

#include <fsdp/elements.h>

/* All bytes, or NULL and the message in `message`. */
static unsigned char *elements_of(const struct fsdp_checkpoint *checkpoint,
	const char *name, struct fsdp_elements_options options, size_t *ret_size,
	char message[256])
{
	struct fsdp_locator *locator = NULL;
	struct fsdp_elements *elements = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	unsigned char *all = malloc(4096);
	bool good;

	options.size = sizeof options;
	*ret_size = 0;
	assert_true(fsdp_locator_new(checkpoint, &locator, &error));
	good = fsdp_elements_open(
		locator, find_tensor(checkpoint, name), &options, &elements, &error);
	while (good && bytes.size != 0) {
		good = fsdp_elements_next(elements, &bytes, &error);
		if (!good || bytes.size == 0)
			break;
		assert_true(*ret_size + bytes.size <= 4096);
		memcpy(all + *ret_size, bytes.data, bytes.size);
		*ret_size += bytes.size;
	}
	if (!good) {
		snprintf(message, 256, "%s", fsdp_error_message(error));
		free(all);
		all = NULL;
	}
	fsdp_error_free(error);
	fsdp_elements_close(elements);
	fsdp_locator_free(locator);
	return all;
}

static struct fsdp_checkpoint *checkpoint;

static int open_set(void **state)
{
	(void)state;
	checkpoint = open_sample("fsdp2/w4-tp/checkpoint");
	return 0;
}

static int close_set(void **state)
{
	(void)state;
	fsdp_checkpoint_free(checkpoint);
	return 0;
}

/* Cut over both dimensions of a 2x2 mesh: 8x16 float32. */
static void a_part_is_a_part_of_the_whole(void **state)
{
	(void)state;
	char message[256];
	size_t size, part_size;
	unsigned char *whole = elements_of(checkpoint, "mlp1.down.weight",
		(struct fsdp_elements_options){ 0 }, &size, message);
	assert_int_equal(size, 512);
	for (uint64_t first = 0; first <= 130; first += 13) {
		unsigned char *part = elements_of(checkpoint, "mlp1.down.weight",
			(struct fsdp_elements_options){ .first = first, .count = 50 },
			&part_size, message);
		uint64_t left = first < 128 ? 128 - first : 0;
		assert_int_equal(part_size, 4 * (left < 50 ? left : 50));
		assert_memory_equal(part, whole + 4 * first, part_size);
		free(part);
	}
	free(whole);
}

/* Every half of the bias is on two ranks. */
static void copies_of_chosen_ranks_are_taken(void **state)
{
	(void)state;
	static const uint32_t OTHERS[] = { 3, 1 }, ONE[] = { 2 };
	char message[256];
	size_t size, other_size;
	unsigned char *whole = elements_of(checkpoint, "mlp1.down.bias",
		(struct fsdp_elements_options){ 0 }, &size, message);
	unsigned char *other = elements_of(checkpoint, "mlp1.down.bias",
		(struct fsdp_elements_options){ .ranks = OTHERS, .rank_count = 2 },
		&other_size, message);
	assert_int_equal(size, 32);
	assert_int_equal(other_size, 32);
	assert_memory_equal(whole, other, size);
	free(other);
	assert_null(elements_of(checkpoint, "mlp1.down.bias",
		(struct fsdp_elements_options){ .ranks = ONE, .rank_count = 1 }, &size,
		message));
	assert_string_equal(message, "no piece has the 4 elements from [0] to [3]");
	assert_null(elements_of(checkpoint, "mlp1.down.bias",
		(struct fsdp_elements_options){ .ranks = ONE, .rank_count = 0 }, &size,
		message));
	assert_string_equal(message, "the tensor has no bytes of its own");
	free(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_is_a_part_of_the_whole),
		cmocka_unit_test(copies_of_chosen_ranks_are_taken),
	};
	return cmocka_run_group_tests(tests, open_set, close_set);
}
