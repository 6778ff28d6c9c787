/* SPDX-License-Identifier: Apache-2.0 */
/* The step that the name of a folder or file tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/format.h"

static struct fsdp_step_name name_of(const char *name)
{
	struct fsdp_step_name step;
	bool is_step = fsdp_step_name(fsdp_span_text(name), &step);

	assert_int_equal(is_step, step.step != -1 || step.epoch != -1);
	return step;
}

static void frameworks_write_steps(void **state)
{
	static const struct {
		const char *name;
		int64_t step, epoch;
	} NAMES[] = {
		{ "step-1000", 1000, -1 },
		{ "step-0", 0, -1 },
		{ "step1000-unsharded", 1000, -1 },
		{ "checkpoint-500", 500, -1 },
		{ "global_step20", 20, -1 },
		{ "global_step_20", 20, -1 },
		{ "iter_0000500", 500, -1 },
		{ "epoch=3-step=1000.ckpt", 1000, 3 },
		{ "model--val_loss=1.25-step=100-consumed_samples=800.0", 100, -1 },
		{ "ep2-ba300-rank0.pt", 300, 2 },
		{ "checkpoint_4_7000.pt", 7000, 4 },
		{ "checkpoint-12.pth.tar", 12, -1 },
		{ "epoch_7", -1, 7 },
		{ "epoch_0", -1, 0 },
		{ "model_0009999.pth", 9999, -1 },
		{ "checkpoint12.pt", -1, 12 },
		{ "checkpoint500", 500, -1 },
		{ "Step_9", 9, -1 },
		{ "step.7", 7, -1 },
		{ "STEP=7", 7, -1 },
		{ "x1step7", 7, -1 },
		{ "checkpoint-3-step-4", 4, -1 },
		{ "step-4-checkpoint-3", 4, -1 },
		{ "step-4-step-5", 4, -1 },
		{ "checkpoint-3-epoch-4", 3, 4 },
		{ "checkpoint_3.4", 3, -1 },
		{ "checkpoint_3x_4", 3, -1 },
		{ "model_0009999", 9999, -1 },
		{ "checkpoint7.x", -1, 7 },
		{ "checkpoint-7.x", 7, -1 },
		{ "ckpt7.x", 7, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
		assert_int_equal(name_of(NAMES[i].name).step, NAMES[i].step);
		assert_int_equal(name_of(NAMES[i].name).epoch, NAMES[i].epoch);
		assert_false(name_of(NAMES[i].name).is_unfinished);
	}
}

static void other_numbers_are_no_steps(void **state)
{
	static const char *const NAMES[] = { "last", "", "version_0", "rank0.pt",
		"__0_0.distcp", "model-00001-of-00002.safetensors", "model_1.pt",
		"mp_rank_00", "pytorch_model_fsdp_0", "world_size_2_rank_1.pt",
		"20241123", "stepping-4x", "step-", "events.out.tfevents.17.host", "7",
		"-7", "_7", "=", "step--7", "step:7", "step/7", "ste7", "steq7",
		"model_00099990.pth", "model_000999.pth", "epo7",
		"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzstep7" };

	(void)state;
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
		assert_int_equal(name_of(NAMES[i]).step, -1);
		assert_int_equal(name_of(NAMES[i]).epoch, -1);
	}
}

static void a_number_has_a_most(void **state)
{
	(void)state;
	assert_int_equal(
		name_of("step-999999999999999999").step, INT64_C(999999999999999999));
	assert_int_equal(name_of("step-1000000000000000000").step, -1);
	assert_int_equal(name_of("step-99999999999999999999999999999999").step, -1);
	assert_int_equal(name_of("step-99999999999999999999-step-7").step, 7);
}

static void a_save_that_goes_on_is_told(void **state)
{
	(void)state;
	assert_true(name_of("tmp-checkpoint-500").is_unfinished);
	assert_true(name_of("tmp_5").is_unfinished);
	assert_false(name_of("tmp-").is_unfinished);
	assert_true(name_of("step-500.tmp").is_unfinished);
	assert_true(name_of("step500-tmp").is_unfinished);
	assert_true(name_of("step-500.incomplete").is_unfinished);
	assert_false(name_of("tmpfs-step-5").is_unfinished);
	assert_int_equal(name_of("tmp-checkpoint-500").step, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frameworks_write_steps),
		cmocka_unit_test(other_numbers_are_no_steps),
		cmocka_unit_test(a_number_has_a_most),
		cmocka_unit_test(a_save_that_goes_on_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
