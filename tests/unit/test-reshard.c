/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks of another world size hold and read, on facts put in by hand. */
#include <fsdp/analysis.h>

#include "by-hand.h"
#include "open-bytes.h"

static struct fsdp_reshard *reshard_to(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_reshard_options options)
{
	struct fsdp_reshard *reshard;

	options.size = sizeof options;
	assert_true(fsdp_reshard_new(checkpoint, &options, &reshard, NULL));
	return reshard;
}

static void expect_params(
	const struct fsdp_reshard *reshard, const uint64_t *bytes, size_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(fsdp_reshard_rank(reshard, i).param_bytes, bytes[i]);
}

/* Five rows over two ranks, and then over others. */
static void rows_are_cut_as_chunk_does(void **state)
{
	static const int64_t SHAPE[] = { 5, 2 }, FIRST[] = { 0, 0, 3, 2 },
			     LAST[] = { 3, 0, 2, 2 };
	static const uint64_t ON_3[] = { 16, 16, 8 }, ON_4[] = { 16, 16, 8, 0 };
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t tensor =
		tensor_by_hand(checkpoint, "a.w", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	struct fsdp_reshard *reshard;

	piece_by_hand(checkpoint, tensor, 0, FIRST, 2);
	piece_by_hand(checkpoint, tensor, 1, LAST, 2);
	freeze_by_hand(checkpoint);
	reshard = reshard_to(
		checkpoint, (struct fsdp_reshard_options){ .world = 3, .shard_dim = -1 });
	expect_params(reshard, ON_3, 3);
	assert_int_equal(fsdp_reshard_rank(reshard, 2).padding_bytes, 8);
	assert_int_equal(fsdp_reshard_rank(reshard, 0).read_bytes, 24);
	assert_int_equal(fsdp_reshard_rank(reshard, 1).read_bytes, 40);
	assert_int_equal(fsdp_reshard_uneven_count(reshard), 1);
	assert_false(fsdp_reshard_is_empty(reshard, 0, 2));
	fsdp_reshard_free(reshard);
	reshard = reshard_to(
		checkpoint, (struct fsdp_reshard_options){ .world = 4, .shard_dim = -1 });
	expect_params(reshard, ON_4, 4);
	assert_int_equal(fsdp_reshard_uneven(reshard, 0).ranks, 3);
	assert_true(fsdp_reshard_is_empty(reshard, 0, 3));
	fsdp_reshard_free(reshard);
}

/* Copies hold the same; tensor parallelism cuts first. */
static void a_mesh_has_copies_and_rows(void **state)
{
	static const int64_t SHAPE[] = { 4, 6 };
	static const uint64_t ON_8[] = { 24, 24, 24, 24, 24, 24, 24, 24 };
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t tensor = tensor_by_hand(
		checkpoint, "a.o_proj.weight", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	struct fsdp_reshard *reshard;

	piece_by_hand(checkpoint, tensor, 0, NULL, 2);
	freeze_by_hand(checkpoint);
	reshard = reshard_to(
		checkpoint, (struct fsdp_reshard_options){
				    .world = 8, .copies = 2, .tp = 2, .shard_dim = -1 });
	expect_params(reshard, ON_8, 8);
	assert_int_equal(fsdp_reshard_facts(reshard).tp_unknown, 0);
	assert_int_equal(fsdp_reshard_uneven_count(reshard), 0);
	fsdp_reshard_free(reshard);
}

/* By the names of modules: the usual plans cut some by rows and some by columns, and of
 * others nothing is known. */
static void names_tell_what_tensor_parallelism_cuts(void **state)
{
	static const int64_t SHAPE[] = { 3, 4 };
	static const uint64_t ROWS[] = { 32, 16 }, COLUMNS[] = { 24, 24 };
	static const struct {
		const char *word;
		const uint64_t *bytes;
	} WORDS[] = {
		{ "q_proj", ROWS },
		{ "k_proj", ROWS },
		{ "v_proj", ROWS },
		{ "gate_proj", ROWS },
		{ "up_proj", ROWS },
		{ "wq", ROWS },
		{ "wk", ROWS },
		{ "wv", ROWS },
		{ "w1", ROWS },
		{ "w3", ROWS },
		{ "linear_qkv", ROWS },
		{ "linear_fc1", ROWS },
		{ "embed_tokens", ROWS },
		{ "tok_embeddings", ROWS },
		{ "word_embeddings", ROWS },
		{ "lm_head", ROWS },
		{ "output", ROWS },
		{ "output_layer", ROWS },
		{ "o_proj", COLUMNS },
		{ "down_proj", COLUMNS },
		{ "wo", COLUMNS },
		{ "w2", COLUMNS },
		{ "linear_proj", COLUMNS },
		{ "linear_fc2", COLUMNS },
		{ "other", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
		struct fsdp_reshard *reshard;
		char name[64];
		void *own;

		begin_by_hand(&own);
		snprintf(name, sizeof name, "a.%s.weight", WORDS[i].word);
		piece_by_hand(own,
			tensor_by_hand(own, name, "float32", FSDP_ROLE_PARAM, SHAPE, 2),
			0, NULL, 2);
		freeze_by_hand(own);
		reshard = reshard_to(own, (struct fsdp_reshard_options){
						  .world = 2, .tp = 2, .shard_dim = -1 });
		if (fsdp_reshard_facts(reshard).tp_unknown != (WORDS[i].bytes == NULL))
			fail_msg("%s", WORDS[i].word);
		if (WORDS[i].bytes != NULL)
			expect_params(reshard, WORDS[i].bytes, 2);
		fsdp_reshard_free(reshard);
		end_by_hand(&own);
	}
}

/* What tensor parallelism alone cut: along the same dimensions again, and the rest, which
 * no rank had a part of, among the shards. */
static void what_only_tensor_parallelism_cut_is_cut_by_shards_too(void **state)
{
	static const int64_t SQUARE[] = { 4, 4 }, WHOLE[] = { 4 };
	static const int64_t TOP[] = { 0, 0, 2, 4 }, BOTTOM[] = { 2, 0, 2, 4 },
			     LEFT[] = { 0, 0, 4, 2 }, RIGHT[] = { 0, 2, 4, 2 };
	static const uint64_t ON_4[] = { 40, 40, 40, 40 };
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t up = tensor_by_hand(
			 checkpoint, "a.w", "float32", FSDP_ROLE_PARAM, SQUARE, 2),
		 down = tensor_by_hand(
			 checkpoint, "b.w", "float32", FSDP_ROLE_PARAM, SQUARE, 2),
		 norm = tensor_by_hand(
			 checkpoint, "c.w", "float32", FSDP_ROLE_PARAM, WHOLE, 1);
	struct fsdp_reshard *reshard;

	piece_by_hand(checkpoint, up, 0, TOP, 2);
	piece_by_hand(checkpoint, up, 1, BOTTOM, 2);
	piece_by_hand(checkpoint, down, 0, LEFT, 2);
	piece_by_hand(checkpoint, down, 1, RIGHT, 2);
	piece_by_hand(checkpoint, norm, 0, NULL, 1);
	freeze_by_hand(checkpoint);
	reshard = reshard_to(checkpoint,
		(struct fsdp_reshard_options){ .world = 4, .tp = 2, .shard_dim = -1 });
	expect_params(reshard, ON_4, 4);
	assert_int_equal(fsdp_reshard_facts(reshard).tp_unknown, 0);
	fsdp_reshard_free(reshard);
	/* Three ranks of tensor parallelism have 2, 2 and 0 of 4 rows or columns. */
	reshard = reshard_to(checkpoint,
		(struct fsdp_reshard_options){ .world = 3, .tp = 3, .shard_dim = -1 });
	assert_int_equal(fsdp_reshard_uneven_count(reshard), 2);
	assert_int_equal(fsdp_reshard_uneven(reshard, 1).ranks, 2);
	assert_false(fsdp_reshard_is_empty(reshard, 1, 1));
	assert_true(fsdp_reshard_is_empty(reshard, 1, 2));
	fsdp_reshard_free(reshard);
}

static void only_what_is_a_product_is_a_world(void **state)
{
	static const struct fsdp_reshard_options WRONG[] = { { .world = 0 },
		{ .world = 6, .copies = 4 }, { .world = 6, .tp = 4 },
		{ .world = 2, .copies = 2, .tp = 2 },
		{ .world = FSDP_RESHARD_WORLD_MOST + 1 } };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_reshard *reshard = NULL;
	struct fsdp_error *error;

	freeze_by_hand(checkpoint);
	for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
		error = NULL;
		assert_false(fsdp_reshard_new(checkpoint, &WRONG[i], &reshard, &error));
		assert_int_equal(fsdp_error_code(error), FSDP_ERROR_USAGE);
		fsdp_error_free(error);
	}
	fsdp_reshard_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			rows_are_cut_as_chunk_does, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			a_mesh_has_copies_and_rows, begin_by_hand, end_by_hand),
		cmocka_unit_test(names_tell_what_tensor_parallelism_cuts),
		cmocka_unit_test_setup_teardown(
			what_only_tensor_parallelism_cut_is_cut_by_shards_too,
			begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			only_what_is_a_product_is_a_world, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
