/* SPDX-License-Identifier: Apache-2.0 */
/* What an optimizer keeps, found by the names that it gives to parameters, or by their
 * order. */
#include <fsdp/analysis.h>

#include "aggregate/aggregate.h"
#include "by-hand.h"
#include "open-bytes.h"

/* All ways to read a name, as "parameter/key …". */
static const char *readings(const char *name, char buffer[256])
{
	struct fsdp_state_reading reading = { 0, false };
	struct fsdp_state_name state;
	size_t used = 0;

	buffer[0] = '\0';
	while (fsdp_state_name_next(fsdp_span_text(name), &reading, &state))
		used += (size_t)snprintf(buffer + used, 256 - used, "%s%.*s/%.*s",
			used > 0 ? " " : "", (int)state.parameter.size,
			(const char *)state.parameter.data, (int)state.key.size,
			(const char *)state.key.data);
	return buffer;
}

static void a_state_names_its_parameter(void **unused)
{
	static const struct {
		const char *name, *expected;
	} cases[] = {
		{ "optim.state.fc.bias.exp_avg", "fc.bias/exp_avg bias.exp_avg/fc" },
		{ "state.w.step", "w/step step/w" },
		{ "optim.state.step", "" },
		{ "optim.state.", "" },
		{ "optim.state", "" },
		{ "state", "" },
		{ "", "" },
		{ "optim.mystate.w.step", "" },
		{ "optim.states.w.step", "" },
		{ "optim.state.state.w.step", "state.w/step w.step/state w/step step/w" },
		{ "optim.state..", "/ /" },
	};
	char buffer[256];

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_string_equal(readings(cases[i].name, buffer), cases[i].expected);
}

static uint32_t tensor_of(const struct fsdp_checkpoint *checkpoint, const char *name)
{
	uint32_t index = find_tensor(checkpoint, name);

	assert_int_not_equal(index, FSDP_NONE);
	return index;
}

static void assert_states(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_optimizer_states *states, uint32_t tensor, const char *expected)
{
	char text[256], keys[256] = "";
	size_t count, used = 0;
	const struct fsdp_state *found = fsdp_optimizer_states_of(states, tensor, &count);

	for (size_t i = 0; i < count; i++) {
		uint32_t name = fsdp_tensor(checkpoint, found[i].tensor).name;
		assert_true(fsdp_name_write(checkpoint, name, text, sizeof text) <=
			    sizeof text);
		used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%.*s",
			used > 0 ? " " : "", (int)found[i].key_size,
			text + found[i].key_offset);
	}
	assert_string_equal(keys, expected);
}

/* The model is below "model"; its optimizer says "head.weight". */
static void states_are_found_below_a_container(void **unused)
{
	struct fsdp_checkpoint *checkpoint = open_sample("demo/step-1234");
	const uint32_t tensors[] = {
		tensor_of(checkpoint, "model.norm.weight"),
		tensor_of(checkpoint, "model.blocks.0.down.bias"),
		tensor_of(checkpoint, "optim.state.norm.weight.exp_avg"),
		tensor_of(checkpoint, "model.norm.weight"),
	};
	struct fsdp_optimizer_states *states;

	(void)unused;
	assert_true(fsdp_optimizer_states_new(checkpoint, tensors, 4, &states, NULL));
	assert_states(checkpoint, states, tensors[0], "exp_avg exp_avg_sq step");
	assert_states(checkpoint, states, tensors[1], "exp_avg exp_avg_sq step");
	assert_states(checkpoint, states, tensors[2], "");
	fsdp_optimizer_states_free(states);
	fsdp_checkpoint_free(checkpoint);
}

/* An optimizer that counts its parameters does not name them: they are meant in the order
 * of the model, and the states fit in no other. */
static void numbers_follow_the_order_of_the_model(void **unused)
{
	struct fsdp_checkpoint *checkpoint =
		open_sample("torch-zip/nested-checkpoint/model.pt");
	size_t count = fsdp_tensor_count(checkpoint), some;
	struct fsdp_optimizer_states *states;
	uint32_t *all = calloc(count, sizeof *all);

	(void)unused;
	assert_non_null(all);
	for (uint32_t i = 0; i < count; i++)
		all[i] = i;
	assert_true(fsdp_optimizer_states_new(checkpoint, all, count, &states, NULL));
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		const struct fsdp_state *found =
			fsdp_optimizer_states_of(states, i, &some);
		assert_int_equal(some, tensor.role == FSDP_ROLE_PARAM ? 3 : 0);
		for (size_t k = 0; k < some; k++) {
			struct fsdp_tensor state =
				fsdp_tensor(checkpoint, found[k].tensor);
			assert_int_equal(state.role, FSDP_ROLE_OPTIM);
			if (state.dims > 0)
				assert_int_equal(state.numel, tensor.numel);
		}
	}
	assert_states(checkpoint, states, tensor_of(checkpoint, "model.head.weight"),
		"exp_avg exp_avg_sq step");
	fsdp_optimizer_states_free(states);
	free(all);
	fsdp_checkpoint_free(checkpoint);
}

/* Where the parts of a name begin, and which of them are numbers. */
static void path_by_hand(
	struct fsdp_checkpoint *checkpoint, uint32_t tensor, const char *name)
{
	struct fsdp_tensor_record *record =
		fsdp_vec_at(&checkpoint->model.tensors, tensor);
	struct fsdp_path_builder path = { .count = 0 };

	for (const char *end = name; *end != '\0'; name = end + 1) {
		end = name + strcspn(name, ".");
		path.parts[path.count].is_integer = *name >= '0' && *name <= '9';
		path.parts[path.count++].length = (uint32_t)(end - name);
	}
	record->path = fsdp_build_path(&checkpoint->model, &path);
}

/* What is found for a parameter of 8 times 4 elements whose optimizer counts to one. */
static void expect_numbered(const char *key, int64_t rows, int64_t columns, bool is_found)
{
	static const int64_t PARAMETER[] = { 8, 4 };
	const int64_t shape[] = { rows, columns };
	struct fsdp_optimizer_states *states;
	char name[64];
	void *made;

	assert_int_equal(begin_by_hand(&made), 0);
	struct fsdp_checkpoint *checkpoint = made;
	snprintf(name, sizeof name, "optimizer.state.0.%s", key);
	piece_by_hand(checkpoint,
		tensor_by_hand(
			checkpoint, "model.w", "float32", FSDP_ROLE_PARAM, PARAMETER, 2),
		FSDP_NONE, NULL, 0);
	path_by_hand(checkpoint,
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_OPTIM, shape, 2),
		name);
	freeze_by_hand(checkpoint);
	const uint32_t tensors[] = { tensor_of(checkpoint, "model.w") };
	assert_true(fsdp_optimizer_states_new(checkpoint, tensors, 1, &states, NULL));
	assert_states(checkpoint, states, tensors[0], is_found ? key : "");
	fsdp_optimizer_states_free(states);
	end_by_hand(&made);
}

/* What the optimizers of torch 2.13 were seen to keep for such a parameter. */
static void states_have_the_shape_of_their_parameter(void **unused)
{
	static const char *const whole[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
		"momentum_buffer", "square_avg", "grad_avg", "sum", "acc_delta",
		"exp_inf", "prev", "step_size", "ax" };

	(void)unused;
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
		expect_numbered(whole[i], 8, 4, true);
		expect_numbered(whole[i], 4, 8, false);
		expect_numbered(whole[i], 8, 1, false);
	}
	/* One factor alone does not show the shape of the parameter. */
	expect_numbered("row_var", 8, 1, false);
	expect_numbered("col_var", 1, 4, false);
}

/* A name of many segments "state", and parameters that are called like keys. */
static void hostile_names_have_states_too(void **state)
{
	static const int64_t SHAPE[] = { 1 };
	struct fsdp_checkpoint *checkpoint = *state;
	char name[600 * sizeof "state."] = "";
	struct fsdp_optimizer_states *states;
	uint32_t all[4];
	size_t count;

	for (size_t i = 0; i < 600; i++)
		memcpy(name + i * 6, "state.", 7);
	memcpy(name + 600 * 6, "w", 2);
	tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_OPTIM, SHAPE, 1);
	tensor_by_hand(checkpoint, "", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	tensor_by_hand(checkpoint, "w", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	tensor_by_hand(checkpoint, "state.w", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	freeze_by_hand(checkpoint);
	for (uint32_t i = 0; i < 4; i++)
		all[i] = i;
	assert_true(fsdp_optimizer_states_new(checkpoint, all, 4, &states, NULL));
	for (uint32_t i = 0; i < 4; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		(void)fsdp_optimizer_states_of(states, i, &count);
		assert_int_equal(
			count, tensor.name == name_by_hand(checkpoint, "w")         ? 1
			       : tensor.name == name_by_hand(checkpoint, "state.w") ? 1
										    : 0);
	}
	fsdp_optimizer_states_free(states);
}

static void no_tensors_have_no_states(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_optimizer_states *states;

	freeze_by_hand(checkpoint);
	assert_true(fsdp_optimizer_states_new(checkpoint, NULL, 0, &states, NULL));
	fsdp_optimizer_states_free(states);
	fsdp_optimizer_states_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_names_its_parameter),
		cmocka_unit_test(states_are_found_below_a_container),
		cmocka_unit_test(numbers_follow_the_order_of_the_model),
		cmocka_unit_test(states_have_the_shape_of_their_parameter),
		cmocka_unit_test_setup_teardown(
			hostile_names_have_states_too, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			no_tensors_have_no_states, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
