/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint holds, told in a few numbers however odd it is. */
#include <fsdp/analysis.h>

#include "by-hand.h"
#include "open-bytes.h"

static const int64_t SHAPE[] = { 4, 4 };

static const struct fsdp_overview_facts *look(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_overview **ret_overview)
{
	assert_true(fsdp_overview_new(checkpoint, ret_overview, NULL));
	return fsdp_overview_facts(*ret_overview);
}

static void roles_and_states_are_counted(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_overview_facts *facts;
	struct fsdp_overview *overview;

	tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	tensor_by_hand(checkpoint, "b", "bfloat16", FSDP_ROLE_PARAM, SHAPE, 2);
	tensor_by_hand(checkpoint, "c.exp_avg", "float32", FSDP_ROLE_OPTIM, SHAPE, 2);
	tensor_by_hand(checkpoint, "d.exp_avg", "float32", FSDP_ROLE_OPTIM, SHAPE, 1);
	tensor_by_hand(checkpoint, "step", "float32", FSDP_ROLE_OPTIM, NULL, 0);
	tensor_by_hand(checkpoint, "n", "int64", FSDP_ROLE_PARAM, NULL, 0);
	freeze_by_hand(checkpoint);
	facts = look(checkpoint, &overview);
	/* A lone integer is none, and has bytes. */
	assert_int_equal(facts->roles[FSDP_ROLE_PARAM].tensors, 3);
	assert_int_equal(facts->roles[FSDP_ROLE_PARAM].numel, 32);
	assert_int_equal(facts->roles[FSDP_ROLE_PARAM].bytes, 104);
	assert_int_equal(facts->roles[FSDP_ROLE_PARAM].dtype, FSDP_NONE);
	assert_int_equal(facts->roles[FSDP_ROLE_PARAM]
				 .of_dtype[fsdp_dtype_find(FSDP_SPAN("bfloat16"))],
		1);
	assert_int_equal(facts->roles[FSDP_ROLE_OPTIM].tensors, 3);
	assert_string_equal(
		fsdp_dtype(facts->roles[FSDP_ROLE_OPTIM].dtype)->name, "float32");
	assert_int_equal(facts->state_count, 2);
	assert_string_equal(facts->states[0].key, "exp_avg");
	assert_int_equal(facts->states[0].tensors, 2);
	assert_false(facts->states[0].is_scalar);
	assert_string_equal(facts->states[1].key, "step");
	assert_true(facts->states[1].is_scalar);
	assert_int_equal(facts->sharding_count, 0);
	assert_int_equal(fsdp_sums_group(fsdp_overview_sums(overview, FSDP_BY_ROLE),
				 FSDP_ROLE_OPTIM)
				 .tensors,
		3);
	assert_null(fsdp_overview_sums(overview, FSDP_BY_MODULE));
	fsdp_overview_free(overview);
}

/* Megatron-core puts the key in front of the parameter; of other words it is not known
 * whether they are keys. */
static void keys_may_come_first(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_overview_facts *facts;
	struct fsdp_overview *overview;

	tensor_by_hand(checkpoint, "optimizer.state.exp_avg.fc.bias", "float32",
		FSDP_ROLE_OPTIM, SHAPE, 2);
	tensor_by_hand(checkpoint, "optimizer.state.exp_avg.fc.weight", "float32",
		FSDP_ROLE_OPTIM, SHAPE, 2);
	tensor_by_hand(checkpoint, "optimizer.state.other.fc.weight", "float32",
		FSDP_ROLE_OPTIM, SHAPE, 2);
	freeze_by_hand(checkpoint);
	facts = look(checkpoint, &overview);
	assert_int_equal(facts->state_count, 2);
	assert_string_equal(facts->states[0].key, "exp_avg");
	assert_int_equal(facts->states[0].tensors, 2);
	assert_string_equal(facts->states[1].key, "weight");
	fsdp_overview_free(overview);
}

static void each_key_may_come_first(void **state)
{
	static const char *const WORDS[] = { "exp_avg", "exp_avg_sq", "fp32_param",
		"master_param", "max_exp_avg_sq", "momentum_buffer", "param", "step" };

	(void)state;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
		struct fsdp_overview *overview;
		char name[64];
		void *own;

		begin_by_hand(&own);
		snprintf(name, sizeof name, "optimizer.state.%s.fc.weight", WORDS[i]);
		tensor_by_hand(own, name, "float32", FSDP_ROLE_OPTIM, SHAPE, 2);
		freeze_by_hand(own);
		assert_string_equal(look(own, &overview)->states[0].key, WORDS[i]);
		fsdp_overview_free(overview);
		end_by_hand(&own);
	}
}

/* More kinds than are told apart, and keys longer than are kept. */
static void kinds_have_an_end(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_overview_facts *facts;
	struct fsdp_overview *overview;
	char name[200];

	for (char letter = 'a'; letter < 'a' + FSDP_OVERVIEW_KINDS + 3; letter++) {
		memset(name, letter, sizeof name);
		name[sizeof name - 1] = '\0';
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_OPTIM, SHAPE, 2);
	}
	freeze_by_hand(checkpoint);
	facts = look(checkpoint, &overview);
	assert_int_equal(facts->state_count, FSDP_OVERVIEW_KINDS);
	assert_int_equal(facts->other_states, 3);
	for (size_t i = 0; i < facts->state_count; i++)
		assert_int_equal(strlen(facts->states[i].key), FSDP_OVERVIEW_KEY - 1);
	fsdp_overview_free(overview);
}

static void pieces_tell_how_a_tensor_is_sharded(void **state)
{
	static const int64_t UPPER[] = { 0, 0, 2, 4 }, LOWER[] = { 2, 0, 2, 4 };
	static const int64_t CORNER[] = { 0, 0, 3, 3 }, REST[] = { 3, 3, 1, 1 };
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_overview_facts *facts;
	struct fsdp_overview *overview;
	uint32_t tensor =
		tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, SHAPE, 2);

	for (uint32_t rank = 0; rank < 4; rank++)
		piece_by_hand(checkpoint, tensor, rank, rank % 2 == 0 ? UPPER : LOWER, 2);
	tensor = tensor_by_hand(checkpoint, "b", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	piece_by_hand(checkpoint, tensor, 0, CORNER, 2);
	piece_by_hand(checkpoint, tensor, 1, REST, 2);
	tensor = tensor_by_hand(checkpoint, "c", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	for (uint32_t rank = 0; rank < 3; rank++)
		piece_by_hand(checkpoint, tensor, rank, NULL, 2);
	tensor = tensor_by_hand(checkpoint, "d", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	run_by_hand(checkpoint, tensor, 0, 0, 9);
	run_by_hand(checkpoint, tensor, 1, 9, 7);
	tensor = tensor_by_hand(checkpoint, "e", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	piece_by_hand(checkpoint, tensor, 3, NULL, 2);
	tensor = tensor_by_hand(checkpoint, "f", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	run_by_hand(checkpoint, tensor, 1, 9, 7);
	freeze_by_hand(checkpoint);
	facts = look(checkpoint, &overview);
	assert_int_equal(facts->sharding_count, 4);
	assert_int_equal(facts->shardings[0].how, FSDP_SHARDING_DIM);
	assert_int_equal(facts->shardings[0].dim, 0);
	assert_int_equal(facts->shardings[0].over, 2);
	assert_int_equal(facts->shardings[0].copies, 2);
	assert_int_equal(facts->shardings[0].pieces, 4);
	assert_int_equal(facts->shardings[1].how, FSDP_SHARDING_DIMS);
	assert_int_equal(facts->shardings[1].dim, FSDP_NONE);
	assert_int_equal(facts->shardings[1].cuts, 2);
	assert_int_equal(facts->shardings[1].cut[1].dim, 1);
	assert_int_equal(facts->shardings[1].cut[1].over, 2);
	assert_int_equal(facts->shardings[2].how, FSDP_SHARDING_REPLICATED);
	assert_int_equal(facts->shardings[2].over, 3);
	assert_int_equal(facts->shardings[3].how, FSDP_SHARDING_FLAT);
	assert_int_equal(facts->whole, 1);
	assert_int_equal(facts->whole_rank, 3);
	assert_int_equal(facts->partial, 1);
	/* A run of a FlatParameter is cut without regard to parameters. */
	assert_true(facts->resume_bytes == FSDP_UNKNOWN);
	fsdp_overview_free(overview);
}

/* Where there are more ranks than rows, all but some have a piece without rows. */
static void an_empty_piece_is_no_copy(void **state)
{
	static const int64_t ROW[] = { 1, 3 }, ALL[] = { 0, 0, 1, 3 },
			     NONE[] = { 1, 0, 0, 3 };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_overview *overview;
	const struct fsdp_overview_facts *facts;
	uint32_t tensor =
		tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, ROW, 2);

	piece_by_hand(checkpoint, tensor, 0, ALL, 2);
	for (uint32_t rank = 1; rank < 4; rank++)
		piece_by_hand(checkpoint, tensor, rank, NONE, 2);
	freeze_by_hand(checkpoint);
	facts = look(checkpoint, &overview);
	assert_int_equal(facts->sharding_count, 1);
	assert_int_equal(facts->shardings[0].how, FSDP_SHARDING_DIM);
	assert_int_equal(facts->shardings[0].dim, 0);
	assert_int_equal(facts->shardings[0].over, 4);
	assert_int_equal(facts->shardings[0].copies, 1);
	fsdp_overview_free(overview);
}

/* Of an uneven cut the larger piece, of what is whole all of it. */
static void a_rank_resumes_with_its_largest_pieces(void **state)
{
	static const int64_t UPPER[] = { 0, 0, 3, 4 }, LOWER[] = { 3, 0, 1, 4 };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_overview *overview;
	uint32_t tensor =
		tensor_by_hand(checkpoint, "a", "float32", FSDP_ROLE_PARAM, SHAPE, 2);

	piece_by_hand(checkpoint, tensor, 0, UPPER, 2);
	piece_by_hand(checkpoint, tensor, 1, LOWER, 2);
	tensor = tensor_by_hand(checkpoint, "b", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	piece_by_hand(checkpoint, tensor, 1, NULL, 2);
	freeze_by_hand(checkpoint);
	assert_int_equal(look(checkpoint, &overview)->resume_bytes, 48 + 64);
	fsdp_overview_free(overview);
}

static void nothing_is_an_overview_too(void **state)
{
	static const struct fsdp_overview_facts NOTHING = { .whole_rank = FSDP_NONE,
		.mesh = FSDP_NONE };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_overview *overview;

	freeze_by_hand(checkpoint);
	assert_memory_equal(look(checkpoint, &overview), &NOTHING, sizeof NOTHING);
	fsdp_overview_free(overview);
	fsdp_overview_free(NULL);
}

/* The same file with records, and only counted. */
static void what_was_only_counted_adds_up_to_the_same(void **unused)
{
	struct fsdp_error *error = NULL;
	const struct fsdp_overview_facts *facts[2];
	struct fsdp_checkpoint *checkpoints[2];
	struct fsdp_overview *overviews[2];
	size_t size;
	unsigned char *data =
		read_sample("safetensors/all-dtypes/model.safetensors", &size);

	(void)unused;
	for (int i = 0; i < 2; i++) {
		checkpoints[i] = open_bytes_as(data, size, i == 1, &error);
		assert_non_null(checkpoints[i]);
		facts[i] = look(checkpoints[i], &overviews[i]);
	}
	assert_true(fsdp_sum_count(checkpoints[1]) > 0);
	assert_memory_equal(facts[0]->roles, facts[1]->roles, sizeof facts[0]->roles);
	assert_int_equal(facts[0]->whole, facts[1]->whole);
	for (int i = 0; i < 2; i++) {
		fsdp_overview_free(overviews[i]);
		fsdp_checkpoint_free(checkpoints[i]);
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			roles_and_states_are_counted, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			kinds_have_an_end, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			pieces_tell_how_a_tensor_is_sharded, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			keys_may_come_first, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			an_empty_piece_is_no_copy, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(a_rank_resumes_with_its_largest_pieces,
			begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			nothing_is_an_overview_too, begin_by_hand, end_by_hand),
		cmocka_unit_test(each_key_may_come_first),
		cmocka_unit_test(what_was_only_counted_adds_up_to_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
