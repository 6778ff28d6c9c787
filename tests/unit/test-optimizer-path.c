/* SPDX-License-Identifier: Apache-2.0 */
/* Which names are those of an optimizer's states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/format.h"

static bool is_state(const char *path)
{
	return fsdp_path_is_of_optimizer(fsdp_span_text(path));
}

static void states_lie_at_any_depth(void **state)
{
	(void)state;
	assert_true(is_state("optim.state.0.weight.exp_avg"));
	assert_true(is_state("optimizer_state.weight.exp_avg"));
	assert_true(is_state("app.optim.state.0.weight.exp_avg"));
	assert_true(is_state("a.b.optimizers.1.state.weight.exp_avg"));
	assert_true(is_state("a.optimizer.0.state"));
	assert_true(is_state("a.optimizer_states.9.10.state.x"));
	assert_true(is_state("a..optimizer_state.state"));
	assert_true(is_state("optim"));
}

static void modules_are_no_optimizers(void **state)
{
	(void)state;
	assert_false(is_state(""));
	assert_false(is_state("state.weight"));
	assert_false(is_state("app.model.optim.weight"));
	assert_false(is_state("app.model.optim.block.state.weight"));
	assert_false(is_state("app.optimal.state.weight"));
	assert_false(is_state("app.optim"));
	assert_false(is_state("app.optim."));
	assert_false(is_state("app.optim./.state"));
	assert_false(is_state("app.optim.:.state"));
	assert_false(is_state("app.optim..state"));
	assert_false(is_state("app.optim.0"));
	assert_false(is_state("app.optim.0.x.state"));
	assert_false(is_state("app.xoptim.state"));
	assert_false(is_state("opti.state"));
	assert_false(is_state("app."));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_lie_at_any_depth),
		cmocka_unit_test(modules_are_no_optimizers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
