/* SPDX-License-Identifier: Apache-2.0 */
/* What an optimizer keeps for parameters, against the parameters. */
#include "audit-by-hand.h"

static void put_as(struct fsdp_checkpoint *checkpoint, const char *name,
	enum fsdp_role role, int64_t rows, int64_t columns)
{
	const int64_t shape[2] = { rows, columns };

	tensor_by_hand(checkpoint, name, "float32", role, shape, columns > 0 ? 2 : 0);
}

/* Parameters a to d with the states of Adam, but for one. */
static void put_adam(struct fsdp_checkpoint *checkpoint, const char *without)
{
	static const char *const KEYS[] = { "exp_avg", "exp_avg_sq", "step" };
	char name[64];

	for (char parameter = 'a'; parameter <= 'd'; parameter++) {
		snprintf(name, sizeof name, "%c.weight", parameter);
		put_as(checkpoint, name, FSDP_ROLE_PARAM, 8, 4);
		for (size_t k = 0; k < 3; k++) {
			snprintf(name, sizeof name, "optim.state.%c.weight.%s", parameter,
				KEYS[k]);
			if (without == NULL || strcmp(name, without) != 0)
				put_as(checkpoint, name, FSDP_ROLE_OPTIM, 8,
					k < 2 ? 4 : 0);
		}
	}
}

static void all_states_are_there(void **state)
{
	put_adam(*state, NULL);
	expect_findings(*state, "");
}

static void a_moment_is_missing(void **state)
{
	put_adam(*state, "optim.state.b.weight.exp_avg_sq");
	expect_findings(*state, "FI5001 warning b.weight\n");
}

/* Only the step is left: another optimizer's moments have other names. */
static void both_moments_are_missing(void **state)
{
	put_adam(*state, NULL);
	put_as(*state, "e.weight", FSDP_ROLE_PARAM, 8, 4);
	put_as(*state, "optim.state.e.weight.step", FSDP_ROLE_OPTIM, 8, 0);
	put_as(*state, "f.weight", FSDP_ROLE_PARAM, 8, 4);
	put_as(*state, "optim.state.f.weight.step", FSDP_ROLE_OPTIM, 8, 0);
	put_as(*state, "optim.state.f.weight.momentum_buffer", FSDP_ROLE_OPTIM, 8, 4);
	expect_findings(*state, "FI5001 warning e.weight\n");
}

static void a_step_is_missing(void **state)
{
	put_adam(*state, "optim.state.c.weight.step");
	expect_findings(*state, "FI5004 warning c.weight\n");
}

static void a_state_of_no_parameter_is_found(void **state)
{
	put_adam(*state, NULL);
	put_as(*state, "optim.state.gone.weight.exp_avg", FSDP_ROLE_OPTIM, 8, 4);
	expect_findings(*state, "FI5002 warning optim.state.gone.weight.exp_avg\n");
}

/* Numbers, factored states, and an optimizer of something else altogether. */
static void other_states_are_no_orphans(void **state)
{
	put_adam(*state, NULL);
	put_as(*state, "optim.state.7.exp_avg", FSDP_ROLE_OPTIM, 8, 4);
	put_as(*state, "optim.state.gone.weight.exp_avg_sq_row", FSDP_ROLE_OPTIM, 8, 0);
	expect_findings(*state, "");
}

static void most_states_of_another_model_are_not_told_one_by_one(void **state)
{
	char name[64];

	put_as(*state, "a.weight", FSDP_ROLE_PARAM, 8, 4);
	put_as(*state, "optim.state.a.weight.exp_avg", FSDP_ROLE_OPTIM, 8, 4);
	for (char other = 'b'; other < 'f'; other++) {
		snprintf(name, sizeof name, "optim.state.%c.weight.exp_avg", other);
		put_as(*state, name, FSDP_ROLE_OPTIM, 8, 4);
	}
	expect_findings(*state, "");
}

static void each_moment_has_the_shape_of_its_parameter(void **state)
{
	static const char *const MOMENTS[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
		"momentum_buffer", "square_avg", "grad_avg", "acc_delta",
		"exp_avg_sq_row" };
	char name[64];

	for (size_t i = 0; i < FSDP_COUNT(MOMENTS); i++) {
		struct fsdp_audit *audit;
		void *own;

		begin_by_hand(&own);
		put_as(own, "a.weight", FSDP_ROLE_PARAM, 8, 4);
		snprintf(name, sizeof name, "optim.state.a.weight.%s", MOMENTS[i]);
		put_as(own, name, FSDP_ROLE_OPTIM, 4, 4);
		audit = judge(own);
		if (result_of(audit, "FI5003").findings != (i + 1 < FSDP_COUNT(MOMENTS)))
			fail_msg("%s", MOMENTS[i]);
		fsdp_audit_free(audit);
		end_by_hand(&own);
	}
	(void)state;
}

static void states_without_a_model_are_not_judged(void **state)
{
	static const char *const RULES[] = { "FI5001", "FI5002", "FI5003", "FI5004" };
	struct fsdp_audit *audit;

	put_as(*state, "optim.state.a.weight.exp_avg", FSDP_ROLE_OPTIM, 8, 4);
	audit = judge(*state);
	for (size_t i = 0; i < FSDP_COUNT(RULES); i++)
		assert_int_equal(
			result_of(audit, RULES[i]).status, FSDP_STATUS_NOT_APPLICABLE);
	fsdp_audit_free(audit);
}

/* A frozen parameter has no state at all. */
static void a_parameter_may_have_no_state(void **state)
{
	put_adam(*state, NULL);
	put_as(*state, "e.weight", FSDP_ROLE_PARAM, 8, 4);
	expect_findings(*state, "");
}

static void a_moment_has_another_shape(void **state)
{
	put_adam(*state, "optim.state.b.weight.exp_avg");
	put_as(*state, "optim.state.b.weight.exp_avg", FSDP_ROLE_OPTIM, 4, 4);
	expect_findings(*state, "FI5003 error optim.state.b.weight.exp_avg\n");
}

/* A placeholder of ZeRO has no elements, a parameter of one element is no placeholder,
 * and what is flat or one rank's own has a shape of its own. */
static void parameters_without_a_shape_are_not_compared(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	static const char *const NAMES[] = { "a.weight", "b.weight", "c.weight" };
	char name[64];

	for (size_t i = 0; i < FSDP_COUNT(NAMES); i++) {
		put_as(checkpoint, NAMES[i], FSDP_ROLE_PARAM, i == 0 ? 0 : 1, 1);
		snprintf(name, sizeof name, "optim.state.%s.exp_avg", NAMES[i]);
		put_as(checkpoint, name, FSDP_ROLE_OPTIM, 8, 4);
	}
	fsdp_model_tensor(&checkpoint->model, 4)->flags |= FSDP_TENSOR_FLATTENED;
	expect_findings(checkpoint, "FI4004 warning a.weight\n"
				    "FI5003 error optim.state.b.weight.exp_avg\n");
}

/* States that are factored have names and shapes of their own. */
static void a_factored_state_has_another_shape(void **state)
{
	put_adam(*state, NULL);
	put_as(*state, "optim.state.b.weight.exp_avg_sq_row", FSDP_ROLE_OPTIM, 8, 1);
	expect_findings(*state, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(all_states_are_there),
		BY_HAND(a_moment_is_missing),
		BY_HAND(both_moments_are_missing),
		BY_HAND(a_step_is_missing),
		BY_HAND(a_state_of_no_parameter_is_found),
		BY_HAND(other_states_are_no_orphans),
		BY_HAND(most_states_of_another_model_are_not_told_one_by_one),
		BY_HAND(each_moment_has_the_shape_of_its_parameter),
		BY_HAND(states_without_a_model_are_not_judged),
		BY_HAND(a_parameter_may_have_no_state),
		BY_HAND(a_moment_has_another_shape),
		BY_HAND(parameters_without_a_shape_are_not_compared),
		BY_HAND(a_factored_state_has_another_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
