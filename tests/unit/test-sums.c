/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors added up by what they have in common, however many or large they are. */
#include <fsdp/analysis.h>

#include "by-hand.h"

static struct fsdp_sums *sums_new(
	const struct fsdp_checkpoint *checkpoint, enum fsdp_group_key by)
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

static void one_rank_is_even(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t tensor =
		tensor_by_hand(checkpoint, "a", "int64", FSDP_ROLE_PARAM, NULL, 0);
	struct fsdp_balance balance;
	struct fsdp_sums *sums;

	piece_by_hand(checkpoint, tensor, 3, NULL, 0);
	freeze_by_hand(checkpoint);
	sums = sums_new(checkpoint, FSDP_BY_RANK);
	balance = fsdp_sums_balance(sums);
	assert_int_equal(balance.groups, 1);
	assert_true(balance.is_even);
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
	for (int by = FSDP_BY_RANK; by <= FSDP_BY_PREFIX; by++) {
		struct fsdp_sums *sums = sums_new(checkpoint, (enum fsdp_group_key)by);
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

/* Three modules called by a number, one of them inside of another, and one that is not.
 */
static void make_layers(struct fsdp_checkpoint *checkpoint)
{
	static const int64_t SHAPE[] = { 4 }, FIRST[] = { 0, 2 }, LAST[] = { 2, 2 };
	static const char *const names[] = { "model.layers.0.w", "model.layers.0.e.3.w",
		"model.layers.10.w", "model.layers2.w" };

	for (size_t i = 0; i < 4; i++) {
		uint32_t tensor = tensor_by_hand(
			checkpoint, names[i], "float32", FSDP_ROLE_PARAM, SHAPE, 1);
		piece_by_hand(checkpoint, tensor, 0, FIRST, 1);
		piece_by_hand(checkpoint, tensor, 1, LAST, 1);
	}
	freeze_by_hand(checkpoint);
}

static void layers_are_modules_called_by_a_number(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_sums *sums;
	size_t some = 0, last;

	make_layers(checkpoint);
	sums = sums_new(checkpoint, FSDP_BY_LAYER);
	add_all(sums, checkpoint, NULL);
	last = fsdp_sums_count(sums) - 1;
	for (size_t i = 0; i < last; i++) {
		struct fsdp_group group = fsdp_sums_group(sums, i);
		if (group.tensors == 0)
			continue;
		some++;
		/* layers.0 has what is in its e.3 as well. */
		assert_int_equal(group.parameters, some == 1 ? 8 : 4);
	}
	assert_int_equal(some, 2);
	assert_group(sums, last, FSDP_NONE, 1, 2, 4, 16);
	fsdp_sums_free(sums);
}

static void names_are_cut(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_sums *sums;

	make_layers(checkpoint);
	assert_true(fsdp_sums_new(checkpoint, FSDP_BY_PREFIX, 2, &sums, NULL));
	add_all(sums, checkpoint, NULL);
	assert_group(sums, 0, 0, 3, 6, 12, 48);
	assert_group(sums, 1, 1, 0, 0, 0, 0);
	assert_group(sums, 3, 3, 1, 2, 4, 16);
	fsdp_sums_free(sums);
	assert_true(fsdp_sums_new(checkpoint, FSDP_BY_PREFIX, 0, &sums, NULL));
	add_all(sums, checkpoint, NULL);
	assert_group(sums, 0, 0, 4, 8, 16, 64);
	fsdp_sums_free(sums);
	assert_true(fsdp_sums_new(checkpoint, FSDP_BY_PREFIX, 9, &sums, NULL));
	add_all(sums, checkpoint, NULL);
	assert_group(sums, 0, 0, 1, 2, 4, 16);
	fsdp_sums_free(sums);
}

static struct fsdp_pivot *crossed_new(const struct fsdp_checkpoint *checkpoint,
	enum fsdp_group_key first, enum fsdp_group_key second, fsdp_piece_filter *takes)
{
	static const uint32_t all[] = { 0, 1, 2, 3 };
	struct fsdp_pivot *crossed;

	assert_true(fsdp_pivot_new(checkpoint,
		(const enum fsdp_group_key[]){ first, second }, -1, all,
		fsdp_tensor_count(checkpoint), takes, NULL, &crossed, NULL));
	return crossed;
}

static void assert_crossed(const struct fsdp_pivot *crossed, size_t index, uint32_t first,
	uint32_t second, uint64_t tensors, uint64_t pieces, uint64_t numel)
{
	uint32_t other;
	struct fsdp_group group = fsdp_pivot_group(crossed, index, &other);

	assert_int_equal(group.key, first);
	assert_int_equal(other, second);
	assert_int_equal(group.tensors, tensors);
	assert_int_equal(group.pieces, pieces);
	assert_int_equal(group.numel, numel);
	assert_int_equal(group.bytes, 4 * numel);
}

static void two_keys_cross(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_pivot *crossed;
	uint32_t other;

	make_layers(checkpoint);
	crossed = crossed_new(checkpoint, FSDP_BY_RANK, FSDP_BY_ROLE, NULL);
	assert_int_equal(fsdp_pivot_count(crossed), 2);
	assert_crossed(crossed, 0, 0, FSDP_ROLE_PARAM, 4, 4, 8);
	assert_crossed(crossed, 1, 1, FSDP_ROLE_PARAM, 4, 4, 8);
	assert_crossed(crossed, 2, FSDP_NONE, FSDP_NONE, 0, 0, 0);
	fsdp_pivot_free(crossed);
	crossed = crossed_new(checkpoint, FSDP_BY_LAYER, FSDP_BY_RANK, NULL);
	assert_int_equal(fsdp_pivot_count(crossed), 6);
	(void)fsdp_pivot_group(crossed, 1, &other);
	assert_int_equal(other, 1);
	/* What has no layer comes last. */
	assert_crossed(crossed, 4, FSDP_NONE, 0, 1, 1, 2);
	assert_crossed(crossed, 5, FSDP_NONE, 1, 1, 1, 2);
	fsdp_pivot_free(crossed);
	/* Whole tensors, whatever piece is asked for; pieces where one key is of them. */
	crossed = crossed_new(checkpoint, FSDP_BY_DTYPE, FSDP_BY_ROLE, is_of_rank_7);
	assert_int_equal(fsdp_pivot_count(crossed), 1);
	fsdp_pivot_free(crossed);
	crossed = crossed_new(checkpoint, FSDP_BY_DTYPE, FSDP_BY_RANK, is_of_rank_7);
	assert_int_equal(fsdp_pivot_count(crossed), 0);
	fsdp_pivot_free(crossed);
	fsdp_pivot_free(NULL);
}

static struct fsdp_total total_of(const struct fsdp_checkpoint *checkpoint)
{
	static const uint32_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct fsdp_total total;

	assert_true(fsdp_storage_total(
		checkpoint, all, fsdp_tensor_count(checkpoint), &total, NULL));
	return total;
}

/* A counter that lies beside a scale. */
static void a_lone_integer_is_no_parameter(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_sums *sums;

	piece_by_hand(checkpoint,
		tensor_by_hand(checkpoint, "scale", "float32", FSDP_ROLE_PARAM, NULL, 0),
		0, NULL, 0);
	piece_by_hand(checkpoint,
		tensor_by_hand(checkpoint, "steps", "int64", FSDP_ROLE_PARAM, NULL, 0), 0,
		NULL, 0);
	freeze_by_hand(checkpoint);
	sums = sums_new(checkpoint, FSDP_BY_RANK);
	add_all(sums, checkpoint, NULL);
	assert_group(sums, 0, 0, 2, 2, 2, 12);
	assert_int_equal(fsdp_sums_group(sums, 0).parameters, 1);
	fsdp_sums_free(sums);
	assert_int_equal(total_of(checkpoint).parameters, 1);
}

static void bytes_of_a_storage_count_once(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "x.pt", FSDP_NONE);
	uint32_t storage = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "0", 100);
	struct fsdp_total total;

	view_by_hand(checkpoint, "a", storage, 4, 0, 1);  /* 0-3 */
	view_by_hand(checkpoint, "b", storage, 4, 2, 1);  /* 2-5 */
	view_by_hand(checkpoint, "c", storage, 4, 0, 1);  /* a again */
	view_by_hand(checkpoint, "d", storage, 2, 10, 3); /* 10 and 13 */
	freeze_by_hand(checkpoint);
	total = total_of(checkpoint);
	assert_int_equal(total.bytes, 4 * 14);
	assert_int_equal(total.numel, 14);
	assert_int_equal(total.stored_bytes, 4 * (6 + 4));
	assert_int_equal(total.parameters, 4 + 4 + 2);
	assert_int_equal(total.shared, 2);
}

static void one_that_is_alone_counts_in_full(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_total total;

	make_ranks(checkpoint);
	total = total_of(checkpoint);
	assert_int_equal(total.bytes, 28);
	assert_int_equal(total.stored_bytes, 28);
	assert_int_equal(total.parameters, 5);
	assert_int_equal(total.shared, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			one_rank_is_even, begin_by_hand, end_by_hand),
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
		cmocka_unit_test_setup_teardown(layers_are_modules_called_by_a_number,
			begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			names_are_cut, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			two_keys_cross, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			bytes_of_a_storage_count_once, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			a_lone_integer_is_no_parameter, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			one_that_is_alone_counts_in_full, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
