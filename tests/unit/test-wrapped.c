/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a loader will not look for, and names in each other's way. */
#include "audit-by-hand.h"

static void wrappers_are_found(void **state)
{
	put(*state, "_orig_mod.a.weight", "float32", "4");
	put(*state, "_orig_mod.b.weight", "float32", "4");
	expect_findings(*state, "FI4002 warning _orig_mod.a.weight _orig_mod.b.weight\n");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(wrappers_are_found),
		BY_HAND(only_some_are_wrapped),
		BY_HAND(near_misses_are_left_alone),
		BY_HAND(names_conflict),
		BY_HAND(names_do_not_conflict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
