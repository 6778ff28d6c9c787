/* SPDX-License-Identifier: Apache-2.0 */
/* Which FSDP, which state dict, which optimizer, which step: of samples whose truth is
 * known, and of names that are made to mislead. */
#include <stdio.h>

#include <fsdp/analysis.h>

#include "by-hand.h"

static const int64_t SHAPE[] = { 4, 4 };

static struct fsdp_kind look(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_overview *overview;
	struct fsdp_kind kind;

	assert_true(fsdp_overview_new(checkpoint, &overview, NULL));
	assert_true(fsdp_checkpoint_classify(
		checkpoint, fsdp_overview_facts(overview), &kind, NULL));
	fsdp_overview_free(overview);
	return kind;
}

static struct fsdp_kind kind_of(const char *sample, bool no_plan)
{
	char path[512];
	const char *paths[] = { path };
	struct fsdp_options options = { .size = sizeof options, .no_plan = no_plan };
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_kind kind;

	snprintf(path, sizeof path, "%s/%s", getenv("TESTDATA"), sample);
	assert_true(fsdp_checkpoint_open(paths, 1, &options, &checkpoint, NULL));
	kind = look(checkpoint);
	fsdp_checkpoint_free(checkpoint);
	return kind;
}

static void samples_are_what_they_were_saved_as(void **unused)
{
	static const struct {
		const char *sample;
		enum fsdp_sharding_api flavour;
		enum fsdp_state_dict state_dict;
		bool is_hybrid, is_tensor_parallel;
		uint64_t flat_parameters;
	} ROWS[] = {
		{ "demo/step-1234", FSDP_API_FSDP2, FSDP_STATE_DICT_SHARDED, false, false,
			0 },
		{ "fsdp1/sharded-w2-orig/checkpoint", FSDP_API_FSDP1,
			FSDP_STATE_DICT_SHARDED, false, false, 0 },
		{ "fsdp1/local-w3-uneven/checkpoint", FSDP_API_FSDP1,
			FSDP_STATE_DICT_LOCAL, false, false, 3 },
		{ "fsdp2/w4-tp/checkpoint", FSDP_API_DTENSOR, FSDP_STATE_DICT_SHARDED,
			false, true, 0 },
		{ "dcp/fsdp2-w4-hsdp/checkpoint", FSDP_API_UNKNOWN,
			FSDP_STATE_DICT_SHARDED, false, false, 0 },
		{ "torch-zip/state-dict/model.pt", FSDP_API_UNKNOWN,
			FSDP_STATE_DICT_UNKNOWN, false, false, 0 },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
		struct fsdp_kind kind = kind_of(ROWS[i].sample, false);
		assert_int_equal(kind.flavour, ROWS[i].flavour);
		assert_int_equal(kind.state_dict, ROWS[i].state_dict);
		assert_int_equal(kind.is_hybrid, ROWS[i].is_hybrid);
		assert_int_equal(kind.is_tensor_parallel, ROWS[i].is_tensor_parallel);
		assert_int_equal(kind.flat_parameters, ROWS[i].flat_parameters);
	}
}

static void a_plan_tells_what_files_do_not(void **unused)
{
	struct fsdp_kind kind = kind_of("demo/step-1234", false);

	(void)unused;
	assert_string_equal(kind.strategy, "FULL_SHARD");
	assert_true(kind.is_planned);
	assert_int_not_equal(kind.mesh, FSDP_NONE);
	assert_int_equal(kind.optimizer, FSDP_OPTIMIZER_ADAM_OR_ADAMW);
	kind = kind_of("demo/step-1234", true);
	assert_null(kind.strategy);
	assert_false(kind.is_planned);
	assert_int_equal(kind.flavour, FSDP_API_UNKNOWN);
	assert_int_equal(kind.state_dict, FSDP_STATE_DICT_SHARDED);
}

static void the_step_is_that_of_the_run(void **unused)
{
	struct fsdp_kind kind = kind_of("lightning/trainer-ckpt/last.ckpt", true);

	(void)unused;
	assert_true(kind.has_step);
	assert_int_equal(kind.step, 2);
	assert_int_equal(kind.optimizer, FSDP_OPTIMIZER_ADAMW);
	/* A scheduler counts steps as well. */
	assert_false(kind_of("torch-zip/state-dict/model.pt", true).has_step);
}

static void names_of_modules_tell_an_architecture(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_kind kind;
	char name[64];

	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "layers.%d.mlp.gate_proj.weight", i);
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_PARAM, SHAPE, 2);
		snprintf(name, sizeof name, "layers.%d.attn.q_proj.weight", i);
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	}
	freeze_by_hand(checkpoint);
	kind = look(checkpoint);
	assert_string_equal(kind.looks_like, "Llama");
	assert_int_equal(kind.layers, 3);
	assert_false(kind.has_step);
}

/* Half of a pair of names says nothing, and one numbered module is not a list. */
static void one_name_is_not_enough(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_kind kind;

	tensor_by_hand(checkpoint, "layers.0.q_proj.weight", "float32", FSDP_ROLE_PARAM,
		SHAPE, 2);
	freeze_by_hand(checkpoint);
	kind = look(checkpoint);
	assert_null(kind.looks_like);
	assert_int_equal(kind.layers, 0);
	assert_int_equal(kind.mesh, FSDP_NONE);
}

static void each_pair_of_names_tells_an_architecture(void **state)
{
	static const struct {
		const char *one, *other, *is;
	} ROWS[] = {
		{ "q_proj", "gate_proj", "Llama" },
		{ "wq", "w1", "Llama" },
		{ "c_attn", "c_fc", "GPT-2" },
		{ "linear_qkv", "linear_qkv.bias", "Megatron GPT" },
		{ "SelfAttention", "SelfAttention.q", "T5" },
		{ "query", "query.bias", "BERT" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
		char name[64];
		void *own;

		begin_by_hand(&own);
		snprintf(name, sizeof name, "layers.0.%s.weight", ROWS[i].one);
		tensor_by_hand(own, name, "float32", FSDP_ROLE_PARAM, SHAPE, 2);
		snprintf(name, sizeof name, "layers.0.%s.weight", ROWS[i].other);
		tensor_by_hand(own, name, "float32", FSDP_ROLE_PARAM, SHAPE, 2);
		freeze_by_hand(own);
		assert_string_equal(look(own).looks_like, ROWS[i].is);
		end_by_hand(&own);
	}
}

static void put_integer(
	struct fsdp_checkpoint *checkpoint, const char *name, int64_t integer)
{
	struct fsdp_token *token = FSDP_TAKE(&checkpoint->arena, token, 1);
	uint32_t id = name_by_hand(checkpoint, name);

	assert_non_null(token);
	*token = (struct fsdp_token){ .kind = FSDP_TOKEN_INTEGER, .integer = integer };
	assert_int_not_equal(
		fsdp_build_value(&checkpoint->model,
			&(struct fsdp_value_record){ .name = id,
				.raw_name = id,
				.path = FSDP_NONE,
				.file = file_by_hand(checkpoint, name, FSDP_NONE),
				.rank = FSDP_NONE,
				.tokens = token,
				.token_count = 1,
				.type = "int" }),
		FSDP_NONE);
}

/* Of several words the one that is known to be the step of a run; alone each is. */
static void each_word_counts_steps(void **state)
{
	static const char *const WORDS[] = { "step", "global_step", "iteration",
		"global_steps", "steps", "iter", "iter_num", "num_updates", "other" };

	(void)state;
	for (size_t i = 0; i + 1 < sizeof WORDS / sizeof *WORDS; i++) {
		struct fsdp_kind kind;
		void *own;

		begin_by_hand(&own);
		put_integer(own, WORDS[i + 1], 7);
		put_integer(own, WORDS[i], 5);
		freeze_by_hand(own);
		kind = look(own);
		if (!kind.has_step || kind.step != 5)
			fail_msg("%s", WORDS[i]);
		end_by_hand(&own);
	}
}

static void states_tell_an_optimizer(void **state)
{
	static const struct {
		const char *name;
		enum fsdp_optimizer is;
	} ROWS[] = {
		{ "optim.state.w.momentum_buffer", FSDP_OPTIMIZER_SGD },
		{ "optim.state.w.exp_avg", FSDP_OPTIMIZER_LION },
		{ "optimizer.state.exp_avg_sq.layers.fc.weight",
			FSDP_OPTIMIZER_ADAM_OR_ADAMW },
		{ "optim.state.w.exp_avg_sq_row", FSDP_OPTIMIZER_ADAFACTOR },
		{ "optim.state.w.square_avg", FSDP_OPTIMIZER_RMSPROP },
		{ "optim.state.w.sum", FSDP_OPTIMIZER_ADAGRAD },
	};
	struct fsdp_checkpoint *checkpoint;

	(void)state;
	for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
		void *own;
		begin_by_hand(&own);
		checkpoint = own;
		tensor_by_hand(
			checkpoint, ROWS[i].name, "float32", FSDP_ROLE_OPTIM, SHAPE, 2);
		freeze_by_hand(checkpoint);
		assert_int_equal(look(checkpoint).optimizer, ROWS[i].is);
		end_by_hand(&own);
	}
}

static void nothing_has_a_kind_too(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_kind nothing = { .mesh = FSDP_NONE };
	struct fsdp_kind kind;

	freeze_by_hand(checkpoint);
	kind = look(checkpoint);
	assert_int_equal(kind.flavour, nothing.flavour);
	assert_int_equal(kind.state_dict, nothing.state_dict);
	assert_int_equal(kind.mesh, nothing.mesh);
	assert_null(kind.looks_like);
	assert_false(kind.has_step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_what_they_were_saved_as),
		cmocka_unit_test(a_plan_tells_what_files_do_not),
		cmocka_unit_test(the_step_is_that_of_the_run),
		cmocka_unit_test_setup_teardown(names_of_modules_tell_an_architecture,
			begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			one_name_is_not_enough, begin_by_hand, end_by_hand),
		cmocka_unit_test(states_tell_an_optimizer),
		cmocka_unit_test(each_pair_of_names_tells_an_architecture),
		cmocka_unit_test(each_word_counts_steps),
		cmocka_unit_test_setup_teardown(
			nothing_has_a_kind_too, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
