/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/show/states.h"

/* All ways to read a name, as "parameter/key …". */
static const char *readings(const char *name, char buffer[256])
{
	struct state_reading reading = { 0, false };
	struct state_name state;
	size_t used = 0;

	buffer[0] = '\0';
	while (state_name_next(text_of(name), &reading, &state))
		used += (size_t)snprintf(buffer + used, 256 - used, "%s%.*s/%.*s",
			used > 0 ? " " : "", (int)state.parameter.size,
			state.parameter.data, (int)state.key.size, state.key.data);
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

static struct fsdp_checkpoint *open_sample(const char *folder)
{
	const struct fsdp_options options = { .size = sizeof options, .no_plan = true };
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_error *error = NULL;
	char path[512];
	const char *paths[] = { path };

	snprintf(path, sizeof path, "%s/%s", getenv("TESTDATA"), folder);
	assert_true(fsdp_checkpoint_open(paths, 1, &options, &checkpoint, &error));
	return checkpoint;
}

static uint32_t tensor_of(const struct fsdp_checkpoint *checkpoint, const char *name)
{
	const struct fsdp_span span = { (const unsigned char *)name, strlen(name) };
	uint32_t index = fsdp_tensor_find(checkpoint, span);

	assert_int_not_equal(index, FSDP_NONE);
	return index;
}

static void assert_states(const struct fsdp_checkpoint *checkpoint, struct states *states,
	uint32_t tensor, const char *expected)
{
	struct name_buffer buffer = { NULL, 0, false };
	char keys[256] = "";
	size_t count, used = 0;
	const struct state *found = states_of(states, tensor, &count);

	for (size_t i = 0; i < count; i++) {
		uint32_t name = fsdp_tensor(checkpoint, found[i].tensor).name;
		struct text text = name_text(&buffer, checkpoint, name);
		used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%.*s",
			used > 0 ? " " : "", (int)found[i].key_size,
			text.data + found[i].key_offset);
	}
	assert_string_equal(keys, expected);
	name_buffer_done(&buffer);
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
	struct states *states;

	(void)unused;
	assert_true(states_find(checkpoint, tensors, 4, &states));
	assert_states(checkpoint, states, tensors[0], "exp_avg exp_avg_sq step");
	assert_states(checkpoint, states, tensors[1], "exp_avg exp_avg_sq step");
	assert_states(checkpoint, states, tensors[2], "");
	states_free(states);
	fsdp_checkpoint_free(checkpoint);
}

/* An optimizer that counts its parameters does not name them: they are meant in the order
 * of the model, and the states fit in no other. */
static void numbers_follow_the_order_of_the_model(void **unused)
{
	struct fsdp_checkpoint *checkpoint =
		open_sample("torch-zip/nested-checkpoint/model.pt");
	size_t count = fsdp_tensor_count(checkpoint), some;
	struct states *states;
	uint32_t *all = calloc(count, sizeof *all);

	(void)unused;
	assert_non_null(all);
	for (uint32_t i = 0; i < count; i++)
		all[i] = i;
	assert_true(states_find(checkpoint, all, count, &states));
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		const struct state *found = states_of(states, i, &some);
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
	states_free(states);
	free(all);
	fsdp_checkpoint_free(checkpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_names_its_parameter),
		cmocka_unit_test(states_are_found_below_a_container),
		cmocka_unit_test(numbers_follow_the_order_of_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
