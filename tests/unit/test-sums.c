/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors added up by what they have in common, however many or large they are. */
#include <fsdp/analysis.h>

#include "by-hand.h"

static struct fsdp_sums *sums_new(
	const struct fsdp_checkpoint *checkpoint, enum fsdp_sums_by by)
{
	struct fsdp_sums *sums = NULL;

	assert_true(fsdp_sums_new(checkpoint, by, -1, &sums, NULL));
	return sums;
}

static void add_all(struct fsdp_sums *sums, const struct fsdp_checkpoint *checkpoint,
	fsdp_piece_filter *takes)
{
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		fsdp_sums_add(sums, i, &tensor, takes, NULL);
	}
}

static void assert_group(const struct fsdp_sums *sums, size_t index, uint32_t key,
	uint64_t tensors, uint64_t pieces, uint64_t numel, uint64_t bytes)
{
	struct fsdp_group group = fsdp_sums_group(sums, index);

	assert_int_equal(group.key, key);
	assert_int_equal(group.tensors, tensors);
	assert_int_equal(group.pieces, pieces);
	assert_int_equal(group.numel, numel);
	assert_int_equal(group.bytes, bytes);
}

static bool is_of_rank_7(void *context, const struct fsdp_piece *piece)
{
	(void)context;
	return piece->rank == 7;
}

/* Two ranks with a gap between them, and a piece of no rank. */
static void make_ranks(struct fsdp_checkpoint *checkpoint)
{
	static const int64_t SHAPE[] = { 5 }, FIRST[] = { 0, 3 }, LAST[] = { 3, 2 };
	uint32_t cut =
		tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	uint32_t whole;

	piece_by_hand(checkpoint, cut, 2, FIRST, 1);
	piece_by_hand(checkpoint, cut, 7, LAST, 1);
	whole = tensor_by_hand(checkpoint, "b", "int64", FSDP_ROLE_BUFFER, NULL, 0);
	piece_by_hand(checkpoint, whole, FSDP_NONE, NULL, 0);
	freeze_by_hand(checkpoint);
}

static void ranks_hold_pieces(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_balance balance;
	struct fsdp_sums *sums;

	make_ranks(checkpoint);
	sums = sums_new(checkpoint, FSDP_BY_RANK);
	add_all(sums, checkpoint, NULL);
	assert_int_equal(fsdp_sums_count(sums), 3);
	assert_group(sums, 0, 2, 1, 1, 3, 12);
	assert_group(sums, 1, 7, 1, 1, 2, 8);
	assert_group(sums, 2, FSDP_NONE, 1, 1, 1, 8);
	assert_group(sums, 3, FSDP_NONE, 0, 0, 0, 0);
	balance = fsdp_sums_balance(sums);
	assert_int_equal(balance.groups, 2);
	assert_int_equal(balance.key, 2);
	assert_int_equal(balance.most, 12);
	assert_int_equal(balance.total, 20);
	assert_false(balance.is_even);
	fsdp_sums_free(sums);
}

static void a_filter_chooses_pieces(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_sums *sums;

	make_ranks(checkpoint);
	sums = sums_new(checkpoint, FSDP_BY_RANK);
	add_all(sums, checkpoint, is_of_rank_7);
	assert_group(sums, 0, 2, 0, 0, 0, 0);
	assert_group(sums, 1, 7, 1, 1, 2, 8);
	assert_group(sums, 2, FSDP_NONE, 0, 0, 0, 0);
	fsdp_sums_free(sums);
	/* It chooses pieces; a dtype has tensors. */
	sums = sums_new(checkpoint, FSDP_BY_ROLE);
	add_all(sums, checkpoint, is_of_rank_7);
	assert_group(sums, FSDP_ROLE_PARAM, FSDP_ROLE_PARAM, 1, 2, 5, 20);
	assert_group(sums, FSDP_ROLE_BUFFER, FSDP_ROLE_BUFFER, 1, 1, 1, 8);
	fsdp_sums_free(sums);
}

/* Each tensor is as large as one may be. */
static void huge_sums_saturate(void **state)
{
	static const int64_t SHAPE[] = { INT64_C(1) << 60 };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_balance balance;
	struct fsdp_sums *sums;
	uint32_t dtype;

	for (char letter = 'a'; letter <= 'h'; letter++) {
		uint32_t tensor = tensor_by_hand(checkpoint, (char[]){ letter, '\0' },
			"float64", FSDP_ROLE_PARAM, SHAPE, 1);
		piece_by_hand(checkpoint, tensor, 0, NULL, 1);
		piece_by_hand(checkpoint, tensor, 1, NULL, 1);
	}
	freeze_by_hand(checkpoint);
	dtype = fsdp_tensor(checkpoint, 0).dtype;
	sums = sums_new(checkpoint, FSDP_BY_DTYPE);
	add_all(sums, checkpoint, NULL);
	assert_group(sums, dtype, dtype, 8, 16, UINT64_C(1) << 63, FSDP_UNKNOWN);
	fsdp_sums_free(sums);
	sums = sums_new(checkpoint, FSDP_BY_RANK);
	add_all(sums, checkpoint, NULL);
	assert_group(sums, 1, 1, 8, 8, UINT64_C(1) << 63, FSDP_UNKNOWN);
	balance = fsdp_sums_balance(sums);
	assert_int_equal(balance.total, FSDP_UNKNOWN);
	assert_false(balance.is_even);
	fsdp_sums_free(sums);
}

/* Elements smaller than a byte; their bits alone would not fit into 64. */
static void sub_bytes_are_packed(void **state)
{
	static const int64_t FEW[] = { 3 }, MANY[] = { INT64_MAX };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_sums *sums;

	piece_by_hand(checkpoint,
		tensor_by_hand(checkpoint, "few", "quint2x4", FSDP_ROLE_OTHER, FEW, 1),
		FSDP_NONE, NULL, 1);
	piece_by_hand(checkpoint,
		tensor_by_hand(checkpoint, "many", "quint4x2", FSDP_ROLE_OTHER, MANY, 1),
		FSDP_NONE, NULL, 1);
	freeze_by_hand(checkpoint);
	sums = sums_new(checkpoint, FSDP_BY_RANK);
	add_all(sums, checkpoint, NULL);
	assert_int_equal(fsdp_sums_group(sums, 0).bytes,
		fsdp_tensor(checkpoint, 0).bytes + fsdp_tensor(checkpoint, 1).bytes);
	fsdp_sums_free(sums);
}

static void nothing_adds_up_to_nothing(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	freeze_by_hand(checkpoint);
	for (int by = FSDP_BY_RANK; by <= FSDP_BY_UNIT; by++) {
		struct fsdp_sums *sums = sums_new(checkpoint, (enum fsdp_sums_by)by);
		size_t count = fsdp_sums_count(sums);
		struct fsdp_balance balance = fsdp_sums_balance(sums);
		assert_true(count >= 1);
		assert_group(sums, count - 1, FSDP_NONE, 0, 0, 0, 0);
		assert_group(sums, SIZE_MAX, FSDP_NONE, 0, 0, 0, 0);
		assert_int_equal(balance.groups, count - 1);
		assert_int_equal(balance.most + balance.total, 0);
		fsdp_sums_free(sums);
	}
	fsdp_sums_free(NULL);
}

/* Rows that were added up while reading belong to a dtype and a role, and else nowhere.
 */
static void counted_rows_are_added(void **state)
{
	const struct fsdp_sum sum = { FSDP_ROLE_OPTIM, 1, 3, 30, UINT64_MAX - 5 };
	const struct fsdp_sum odd = { FSDP_ROLE_COUNT, UINT32_MAX, 1, 1, 10 };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_sums *sums;

	freeze_by_hand(checkpoint);
	sums = sums_new(checkpoint, FSDP_BY_ROLE);
	fsdp_sums_add_counted(sums, &sum);
	fsdp_sums_add_counted(sums, &sum);
	fsdp_sums_add_counted(sums, &odd);
	assert_group(sums, FSDP_ROLE_OPTIM, FSDP_ROLE_OPTIM, 6, 6, 60, FSDP_UNKNOWN);
	assert_group(sums, FSDP_ROLE_COUNT, FSDP_NONE, 1, 1, 1, 10);
	fsdp_sums_free(sums);
	sums = sums_new(checkpoint, FSDP_BY_MODULE);
	fsdp_sums_add_counted(sums, &sum);
	assert_group(
		sums, fsdp_sums_count(sums) - 1, FSDP_NONE, 3, 3, 30, UINT64_MAX - 5);
	fsdp_sums_free(sums);
}

/* Levels below the depth are added to the visit above. */
static void deep_modules_are_added_above(void **state)
{
	static const int64_t SHAPE[] = { 2 };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_sums *sums;
	uint64_t tensors = 0;

	tensor_by_hand(checkpoint, "a.b.c.w", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	tensor_by_hand(checkpoint, "a.w", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	freeze_by_hand(checkpoint);
	assert_true(fsdp_sums_new(checkpoint, FSDP_BY_MODULE, 1, &sums, NULL));
	add_all(sums, checkpoint, NULL);
	for (size_t i = 0; i + 1 < fsdp_sums_count(sums); i++) {
		struct fsdp_group group = fsdp_sums_group(sums, i);
		if (group.tensors == 0)
			continue;
		assert_int_equal(fsdp_module(checkpoint, group.key).shown_depth, 1);
		assert_int_equal(group.numel, 4);
		tensors += group.tensors;
	}
	assert_int_equal(tensors, 2);
	fsdp_sums_free(sums);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			ranks_hold_pieces, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			a_filter_chooses_pieces, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			huge_sums_saturate, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			sub_bytes_are_packed, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			nothing_adds_up_to_nothing, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			counted_rows_are_added, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			deep_modules_are_added_above, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
