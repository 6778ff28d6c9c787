/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of one place in a tensor, in whatever order they come. */
#include <fsdp/analysis.h>

#include "by-hand.h"

static void assert_numbers(struct fsdp_replicas *replicas,
	const struct fsdp_checkpoint *checkpoint, uint32_t index,
	const uint32_t *expected, bool expected_some)
{
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	bool some = !expected_some;

	assert_true(fsdp_replicas_find(replicas, &tensor, &some, NULL));
	assert_int_equal(some, expected_some);
	for (uint32_t i = 0; i < tensor.piece_count; i++)
		assert_int_equal(fsdp_replicas_number(replicas, i), expected[i]);
	assert_int_equal(fsdp_replicas_number(replicas, tensor.piece_count), FSDP_NONE);
	assert_int_equal(fsdp_replicas_number(replicas, FSDP_NONE), FSDP_NONE);
}

static void pieces_of_one_box_are_numbered(void **state)
{
	static const int64_t SHAPE[] = { 4, 2 };
	static const int64_t UPPER[] = { 0, 0, 2, 2 }, LOWER[] = { 2, 0, 2, 2 };
	static const int64_t NOTHING[] = { 4, 0, 0, 2 };
	static const uint32_t EXPECTED[] = { 0, 0, 1, 1, FSDP_NONE, FSDP_NONE };
	static const uint32_t NONE[] = { FSDP_NONE, FSDP_NONE };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_replicas *replicas = NULL;
	uint32_t both =
		tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	uint32_t apart;

	piece_by_hand(checkpoint, both, 0, LOWER, 2);
	piece_by_hand(checkpoint, both, 1, UPPER, 2);
	piece_by_hand(checkpoint, both, 2, UPPER, 2);
	piece_by_hand(checkpoint, both, 3, LOWER, 2);
	piece_by_hand(checkpoint, both, 4, NOTHING, 2);
	piece_by_hand(checkpoint, both, 5, NOTHING, 2);
	apart = tensor_by_hand(checkpoint, "b", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	piece_by_hand(checkpoint, apart, 0, UPPER, 2);
	piece_by_hand(checkpoint, apart, 1, LOWER, 2);
	freeze_by_hand(checkpoint);
	assert_true(fsdp_replicas_new(checkpoint, &replicas, NULL));
	assert_int_equal(fsdp_replicas_number(replicas, 0), FSDP_NONE);
	assert_numbers(replicas, checkpoint, 0, EXPECTED, true);
	/* What the tensor before had is forgotten. */
	assert_numbers(replicas, checkpoint, 1, NONE, false);
	assert_numbers(replicas, checkpoint, 0, EXPECTED, true);
	fsdp_replicas_free(replicas);
}

/* A box that says it is the whole tensor has the place of a piece without a box. */
static void whole_pieces_and_runs_have_places_too(void **state)
{
	static const int64_t SHAPE[] = { 6 }, ALL[] = { 0, 6 };
	static const uint32_t WHOLE[] = { 0, 1 };
	static const uint32_t RUNS[] = { 0, FSDP_NONE, 1, FSDP_NONE, FSDP_NONE };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_replicas *replicas = NULL;
	uint32_t whole =
		tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	uint32_t runs;

	piece_by_hand(checkpoint, whole, 0, NULL, 1);
	piece_by_hand(checkpoint, whole, 1, ALL, 1);
	runs = tensor_by_hand(checkpoint, "b", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	run_by_hand(checkpoint, runs, 0, 0, 4);
	run_by_hand(checkpoint, runs, 1, 4, 2);
	run_by_hand(checkpoint, runs, 2, 0, 4);
	run_by_hand(checkpoint, runs, 3, 6, 0);
	run_by_hand(checkpoint, runs, 4, 6, 0);
	freeze_by_hand(checkpoint);
	assert_true(fsdp_replicas_new(checkpoint, &replicas, NULL));
	assert_numbers(replicas, checkpoint, 0, WHOLE, true);
	assert_numbers(replicas, checkpoint, 1, RUNS, true);
	fsdp_replicas_free(replicas);
}

static void nothing_has_no_copies(void **state)
{
	static const int64_t EMPTY[] = { 0 };
	static const uint32_t NONE[] = { FSDP_NONE, FSDP_NONE };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_replicas *replicas = NULL;
	uint32_t empty =
		tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, EMPTY, 1);

	piece_by_hand(checkpoint, empty, 0, NULL, 1);
	piece_by_hand(checkpoint, empty, 1, NULL, 1);
	tensor_by_hand(checkpoint, "b", "float32", FSDP_ROLE_PARAM, EMPTY, 1);
	freeze_by_hand(checkpoint);
	assert_true(fsdp_replicas_new(checkpoint, &replicas, NULL));
	assert_numbers(replicas, checkpoint, 0, NONE, false);
	assert_numbers(replicas, checkpoint, 1, NONE, false);
	fsdp_replicas_free(replicas);
	fsdp_replicas_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			pieces_of_one_box_are_numbered, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(whole_pieces_and_runs_have_places_too,
			begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			nothing_has_no_copies, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
