/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are told first: near misses beside each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/stored-values.h"

static const struct fsdp_token seven = { .kind = FSDP_TOKEN_INTEGER, .integer = 7 };

static enum notable of(const char *name)
{
	return notable_value(text_of(name), &seven);
}

static void progress_is_found_wherever_it_lies(void **state)
{
	(void)state;
	assert_int_equal(of("step"), NOTABLE_PROGRESS);
	assert_int_equal(of("train_state.step"), NOTABLE_PROGRESS);
	assert_int_equal(of("a.b.c.ntokens_seen"), NOTABLE_PROGRESS);
	assert_int_equal(of("trainer_state.global_step"), NOTABLE_PROGRESS);
	assert_int_equal(of("iteration"), NOTABLE_PROGRESS);
	assert_int_equal(of("train_state.steps_left"), NOTABLE_OTHER);
	assert_int_equal(of("step.size"), NOTABLE_OTHER);
	assert_int_equal(of("trainstep"), NOTABLE_OTHER);
}

static void counters_of_parts_are_no_progress(void **state)
{
	(void)state;
	assert_int_equal(of("optimizer.state.0.step"), NOTABLE_OTHER);
	assert_int_equal(of("state.0.step"), NOTABLE_OTHER);
	assert_int_equal(of("optim.layers.0.weight.step"), NOTABLE_OTHER);
	assert_int_equal(of("lr_scheduler.step"), NOTABLE_OTHER);
	assert_int_equal(of("dataloader.0.epoch"), NOTABLE_OTHER);
	assert_int_equal(of("random_states.step"), NOTABLE_OTHER);
	/* Begins like one of them, and is the run's. */
	assert_int_equal(of("states.step"), NOTABLE_PROGRESS);
	assert_int_equal(of("state_dict.step"), NOTABLE_PROGRESS);
}

static void settings_come_next(void **state)
{
	(void)state;
	assert_int_equal(of("config.quantization_config.quant_method"), NOTABLE_METHOD);
	assert_int_equal(of("adapter_config.r"), NOTABLE_METHOD);
	assert_int_equal(of("lora_config.r"), NOTABLE_METHOD);
	assert_int_equal(of("rng.r"), NOTABLE_OTHER);
	assert_int_equal(of("args.tensor_model_parallel_size"), NOTABLE_PARALLEL);
	assert_int_equal(of("config.hidden_size"), NOTABLE_OTHER);
}

static void of_an_optimizer_the_rate_comes_first(void **state)
{
	(void)state;
	assert_int_equal(of("optim.param_groups.0.lr"), NOTABLE_RATE);
	assert_int_equal(of("args.learning_rate"), NOTABLE_RATE);
	assert_int_equal(of("optim.param_groups.0.amsgrad"), NOTABLE_SETTING);
	assert_int_equal(of("param_groups"), NOTABLE_OTHER);
	assert_int_equal(of("scheduler.last_lr"), NOTABLE_OTHER);
}

static void what_says_nothing_comes_last(void **state)
{
	static const struct fsdp_token nothing = { .kind = FSDP_TOKEN_NONE };
	static const struct fsdp_token bytes = { .kind = FSDP_TOKEN_BYTES };

	(void)state;
	assert_int_equal(notable_value(text_of("step"), &nothing), NOTABLE_OPAQUE);
	assert_int_equal(notable_value(text_of("blob"), &bytes), NOTABLE_OPAQUE);
	assert_int_equal(notable_value(text_of("step"), NULL), NOTABLE_PROGRESS);
}

static void odd_names_are_no_trouble(void **state)
{
	(void)state;
	assert_int_equal(of(""), NOTABLE_OTHER);
	assert_int_equal(of("."), NOTABLE_OTHER);
	assert_int_equal(of("..step"), NOTABLE_PROGRESS);
	assert_int_equal(of("r"), NOTABLE_OTHER);
	assert_int_equal(notable_value((struct text){ 0 }, NULL), NOTABLE_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress_is_found_wherever_it_lies),
		cmocka_unit_test(counters_of_parts_are_no_progress),
		cmocka_unit_test(settings_come_next),
		cmocka_unit_test(of_an_optimizer_the_rate_comes_first),
		cmocka_unit_test(what_says_nothing_comes_last),
		cmocka_unit_test(odd_names_are_no_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
