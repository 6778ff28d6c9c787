/* SPDX-License-Identifier: Apache-2.0 */
/* What of a module one rank holds: from pieces, from a plan, or not known. */
#include <fsdp/analysis.h>

#include "by-hand.h"
#include "open-bytes.h"

static uint64_t share_of(const struct fsdp_checkpoint *checkpoint, const char *name)
{
	struct fsdp_rank_bytes *shares;
	uint64_t bytes = 0;

	assert_true(fsdp_rank_bytes_new(checkpoint, &shares, NULL));
	for (uint32_t i = 0; i < fsdp_module_count(checkpoint); i++) {
		char text[64];
		uint32_t id = fsdp_module(checkpoint, i).name;
		size_t size = fsdp_name_write(checkpoint, id, text, sizeof text);
		if (size == strlen(name) && memcmp(text, name, size) == 0)
			bytes = fsdp_rank_bytes_of(shares, i);
	}
	assert_int_equal(fsdp_rank_bytes_of(shares, FSDP_NONE), FSDP_UNKNOWN);
	fsdp_rank_bytes_free(shares);
	return bytes;
}

/* Of each tensor the largest piece, whichever rank has it. */
static void the_largest_piece_counts(void **state)
{
	static const int64_t SHAPE[] = { 5 }, FIRST[] = { 0, 3 }, LAST[] = { 3, 2 };
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t cut =
		tensor_by_hand(checkpoint, "a.cut", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	uint32_t whole, buffer;

	piece_by_hand(checkpoint, cut, 0, FIRST, 1);
	piece_by_hand(checkpoint, cut, 1, LAST, 1);
	whole = tensor_by_hand(
		checkpoint, "b.whole", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	piece_by_hand(checkpoint, whole, 1, NULL, 1);
	buffer = tensor_by_hand(
		checkpoint, "b.buffer", "float32", FSDP_ROLE_BUFFER, SHAPE, 1);
	piece_by_hand(checkpoint, buffer, 0, NULL, 1);
	freeze_by_hand(checkpoint);
	assert_int_equal(share_of(checkpoint, "a"), 12);
	assert_int_equal(share_of(checkpoint, "b"), 20);
	assert_int_equal(share_of(checkpoint, ""), 32);
}

static void without_ranks_no_share_is_known(void **state)
{
	static const int64_t SHAPE[] = { 5 };
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t known =
		tensor_by_hand(checkpoint, "a.w", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	uint32_t other;

	piece_by_hand(checkpoint, known, 0, NULL, 1);
	other = tensor_by_hand(checkpoint, "b.w", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	piece_by_hand(checkpoint, other, FSDP_NONE, NULL, 1);
	freeze_by_hand(checkpoint);
	assert_int_equal(share_of(checkpoint, "a"), FSDP_UNKNOWN);
	assert_int_equal(share_of(checkpoint, "b"), FSDP_UNKNOWN);
}

/* Sums of bytes wrap as those of the module do: nothing traps, nothing is made up. */
static void huge_modules_have_shares(void **state)
{
	static const int64_t SHAPE[] = { INT64_C(1) << 60 };
	struct fsdp_checkpoint *checkpoint = *state;

	for (char letter = 'a'; letter <= 'd'; letter++) {
		uint32_t tensor =
			tensor_by_hand(checkpoint, (char[]){ 'm', '.', letter, '\0' },
				"float64", FSDP_ROLE_PARAM, SHAPE, 1);
		piece_by_hand(checkpoint, tensor, 0, NULL, 1);
	}
	freeze_by_hand(checkpoint);
	assert_int_equal(share_of(checkpoint, "m"), fsdp_module(checkpoint, 0).bytes);
}

/* Sharded over two ranks, without a file that has a piece. */
static void a_plan_tells_even_shares(void **unused)
{
	struct fsdp_checkpoint *checkpoint =
		open_sample("plan/fsdp1-full-w2/plan.fsdp-plan.json");

	(void)unused;
	assert_int_equal(share_of(checkpoint, "u1.l1"), 84);
	assert_int_equal(share_of(checkpoint, "u1"), 252);
	assert_int_equal(share_of(checkpoint, "u1.seq.0"), 0);
	fsdp_checkpoint_free(checkpoint);
}

static void nothing_has_no_shares(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_rank_bytes *shares;

	freeze_by_hand(checkpoint);
	assert_true(fsdp_rank_bytes_new(checkpoint, &shares, NULL));
	assert_int_equal(
		fsdp_rank_bytes_of(shares, (uint32_t)fsdp_module_count(checkpoint)),
		FSDP_UNKNOWN);
	fsdp_rank_bytes_free(shares);
	fsdp_rank_bytes_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_largest_piece_counts, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			without_ranks_no_share_is_known, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			huge_modules_have_shares, begin_by_hand, end_by_hand),
		cmocka_unit_test(a_plan_tells_even_shares),
		cmocka_unit_test_setup_teardown(
			nothing_has_no_shares, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
