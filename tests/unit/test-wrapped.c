/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a loader will not look for, and names in each other's way. */
#include "audit-by-hand.h"

static void wrappers_are_found(void **state)
{
	put(*state, "_orig_mod.a.weight", "float32", "4");
	put(*state, "_orig_mod.b.weight", "float32", "4");
	expect_findings(*state, "FI4002 warning _orig_mod.a.weight _orig_mod.b.weight\n");
}

/* Each with what takes it away, and with the words of load_state_dict. */
static void each_wrapper_has_a_cure(void **state)
{
	static const char *const segments[] = { "_orig_mod", "module", "_forward_module",
		"_fpw_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
		"lightning_module" };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_audit *audit;
	char name[64];

	for (size_t i = 0; i < FSDP_COUNT(segments); i++) {
		snprintf(name, sizeof name, "%s.w%zu.weight", segments[i], i);
		put(checkpoint, name, "float32", "4");
	}
	audit = judge(checkpoint);
	assert_int_equal(fsdp_audit_finding_count(audit), FSDP_COUNT(segments));
	for (size_t i = 0; i < FSDP_COUNT(segments); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);

		snprintf(name, sizeof name, "%s.w%zu.weight", segments[i], i);
		assert_non_null(memmem(finding->fix.data, finding->fix.size, segments[i],
			strlen(segments[i])));
		assert_non_null(memmem(finding->message.data, finding->message.size, name,
			strlen(name)));
		assert_non_null(memmem(finding->message.data, finding->message.size,
			"load_state_dict of an unwrapped model rejects", 45));
	}
	fsdp_audit_free(audit);
}

static void only_some_are_wrapped(void **state)
{
	put(*state, "a._checkpoint_wrapped_module.weight", "float32", "4");
	put(*state, "module.b.weight", "float32", "4");
	put(*state, "c.weight", "float32", "4");
	expect_findings(*state, "FI4002 warning module.b.weight\n"
				"FI4002 warning a._checkpoint_wrapped_module.weight\n");
}

/* A module may be called so, further in; and a tensor anywhere. */
static void near_misses_are_left_alone(void **state)
{
	put(*state, "encoder.module.weight", "float32", "4");
	put(*state, "modules.weight", "float32", "4");
	put(*state, "module", "float32", "4");
	put(*state, "x_orig_mod.weight", "float32", "4");
	expect_findings(*state, "");
}

/* torch.optim.swa_utils.AveragedModel has the model below "module", and loads it so. */
static void an_average_is_not_wrapped(void **state)
{
	put(*state, "module.a.weight", "float32", "4");
	put(*state, "module.b.weight", "float32", "4");
	put(*state, "n_averaged", "int64", "");
	expect_findings(*state, "");
}

static void names_conflict(void **state)
{
	put(*state, "a", "float32", "4");
	put(*state, "a.b", "float32", "4");
	put(*state, "c..d", "float32", "4");
	expect_findings(*state, "FI4003 warning a a.b\nFI4003 warning c..d\n");
}

/* What bitsandbytes puts below a weight is no conflict, nor is a common beginning. */
static void names_do_not_conflict(void **state)
{
	put(*state, "a.weight", "uint8", "32x1");
	put(*state, "a.weight.absmax", "float32", "1");
	put(*state, "a.weight.quant_map", "float32", "16");
	put(*state, "a.weight.quant_state.bitsandbytes__nf4", "uint8", "90");
	put(*state, "a.weight_too", "float32", "4");
	expect_findings(*state, "");
}

/* Whatever else of it is missing. */
static void no_part_of_packing_conflicts(void **state)
{
	static const char *const parts[] = { "absmax", "quant_map",
		"quant_state.bitsandbytes__nf4", "nested_absmax", "nested_quant_map" };
	struct fsdp_audit *audit;
	char name[64];

	for (size_t i = 0; i < FSDP_COUNT(parts); i++) {
		snprintf(name, sizeof name, "w%zu.weight", i);
		put(*state, name, "uint8", "32x1");
		snprintf(name, sizeof name, "w%zu.weight.%s", i, parts[i]);
		put(*state, name, "uint8", "16");
	}
	audit = judge(*state);
	assert_int_equal(result_of(audit, "FI4003").findings, 0);
	fsdp_audit_free(audit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(wrappers_are_found),
		BY_HAND(each_wrapper_has_a_cure),
		BY_HAND(only_some_are_wrapped),
		BY_HAND(near_misses_are_left_alone),
		BY_HAND(an_average_is_not_wrapped),
		BY_HAND(names_conflict),
		BY_HAND(names_do_not_conflict),
		BY_HAND(no_part_of_packing_conflicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
