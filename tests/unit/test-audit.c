/* SPDX-License-Identifier: Apache-2.0 */
/* An audit: what its checks find in facts put in by hand, and what became of each rule.
 */
#include <string.h>

#include "audit-by-hand.h"

static struct fsdp_audit *audit_of(
	const struct fsdp_checkpoint *checkpoint, enum fsdp_level level)
{
	struct fsdp_audit_options options = { .size = sizeof options, .level = level };
	struct fsdp_audit *audit = NULL;

	assert_true(fsdp_audit_new(checkpoint, &options, &audit, NULL));
	return audit;
}

static void parameters_without_elements_are_found(void **state)
{
	static const int64_t FULL[] = { 4, 2 }, NONE[] = { 0 }, INNER[] = { 1, 0, 4 },
			     RANK[] = { 0, 4 }, LEFT[] = { 4, 0 };
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_finding *finding;
	struct fsdp_audit *audit;
	uint32_t guessed;

	tensor_by_hand(checkpoint, "b.bias", "float32", FSDP_ROLE_PARAM, FULL, 1);
	tensor_by_hand(checkpoint, "a.weight", "float32", FSDP_ROLE_PARAM, FULL, 2);
	tensor_by_hand(checkpoint, "b.weight", "float32", FSDP_ROLE_PARAM, NONE, 1);
	tensor_by_hand(checkpoint, "c.registers", "float32", FSDP_ROLE_PARAM, INNER, 3);
	tensor_by_hand(checkpoint, "d.buffer", "float32", FSDP_ROLE_BUFFER, NONE, 1);
	/* AdaLoRA leaves no rank to some modules. */
	tensor_by_hand(checkpoint, "q.lora_A", "float32", FSDP_ROLE_PARAM, RANK, 2);
	tensor_by_hand(checkpoint, "q.lora_B", "float32", FSDP_ROLE_PARAM, LEFT, 2);
	tensor_by_hand(checkpoint, "q.lora_E", "float32", FSDP_ROLE_PARAM, RANK, 2);
	guessed = tensor_by_hand(checkpoint, "e", "float32", FSDP_ROLE_PARAM, NONE, 1);
	fsdp_model_tensor(&checkpoint->model, guessed)->flags |=
		FSDP_TENSOR_ROLE_INFERRED;
	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	assert_int_equal(fsdp_audit_finding_count(audit), 1);
	finding = fsdp_audit_finding(audit, 0);
	assert_string_equal(finding->rule->id, "FI4004");
	assert_int_equal(finding->severity, FSDP_WARNING);
	assert_int_equal(finding->affected_count, 1);
	assert_memory_equal(finding->affected[0].data, "b.weight", 8);
	assert_int_equal(result_of(audit, "FI4004").status, FSDP_STATUS_FAILED);
	assert_int_equal(result_of(audit, "FI4004").findings, 1);
	assert_null(fsdp_audit_finding(audit, 1));
	fsdp_audit_free(audit);
}

/* Parameters without elements may be by design, as those of e3nn are: a note, unless most
 * are so. */
static void empty_parameters_may_be_by_design(void **state)
{
	static const int64_t FULL[] = { 6, 6 }, NONE[] = { 0 };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_audit *audit;

	tensor_by_hand(checkpoint, "a.lin.bias", "float32", FSDP_ROLE_PARAM, NONE, 1);
	tensor_by_hand(checkpoint, "a.lin.weight", "float32", FSDP_ROLE_PARAM, FULL, 2);
	tensor_by_hand(checkpoint, "a.tp.weight", "float32", FSDP_ROLE_PARAM, NONE, 1);
	tensor_by_hand(checkpoint, "b.lin.weight", "float32", FSDP_ROLE_PARAM, FULL, 2);
	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	assert_int_equal(fsdp_audit_finding_count(audit), 1);
	assert_int_equal(fsdp_audit_finding(audit, 0)->severity, FSDP_NOTE);
	assert_true(fsdp_span_is(
		fsdp_audit_finding(audit, 0)->message, "2 of 4 parameters are empty"));
	assert_int_equal(fsdp_audit_finding(audit, 0)->fix.size, 0);
	fsdp_audit_free(audit);
}

static void what_was_not_looked_at_has_not_passed(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_audit *audit;

	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_QUICK);
	assert_int_equal(result_of(audit, "FI1001").status, FSDP_STATUS_PASSED);
	assert_int_equal(result_of(audit, "FI4004").status, FSDP_STATUS_NOT_EVALUATED);
	assert_int_equal(result_of(audit, "FI4004").reason, FSDP_REASON_NEEDS_HEADERS);
	fsdp_audit_free(audit);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	assert_int_equal(result_of(audit, "FI4004").status, FSDP_STATUS_NOT_APPLICABLE);
	assert_int_equal(result_of(audit, "FI2003").reason, FSDP_REASON_NEEDS_DATA);
	assert_int_equal(result_of(audit, "FI2008").reason, FSDP_REASON_NEEDS_VALUES);
	assert_int_equal(result_of(audit, "FI7001").status, FSDP_STATUS_NOT_APPLICABLE);
	assert_null(fsdp_audit_result(audit, fsdp_rule_count()).rule);
	fsdp_audit_free(audit);
}

static enum fsdp_rule_status status_for(
	struct fsdp_checkpoint *checkpoint, const char *family, const char *rule)
{
	enum fsdp_rule_status status;
	struct fsdp_audit *audit;

	checkpoint->model.format.family = family;
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	status = result_of(audit, rule).status;
	fsdp_audit_free(audit);
	return status;
}

static void rules_of_other_formats_do_not_apply(void **state)
{
	static const int64_t FULL[] = { 4, 2 };
	struct fsdp_checkpoint *checkpoint = *state;

	tensor_by_hand(checkpoint, "a.weight", "float32", FSDP_ROLE_PARAM, FULL, 2);
	freeze_by_hand(checkpoint);
	assert_int_equal(status_for(checkpoint, "hf-safetensors", "FI3042"),
		FSDP_STATUS_NOT_APPLICABLE);
	assert_int_equal(
		status_for(checkpoint, "hf-safetensors", "FI1052"), FSDP_STATUS_PASSED);
	assert_int_equal(
		status_for(checkpoint, "torch-zip", "FI3042"), FSDP_STATUS_PASSED);
	assert_int_equal(status_for(checkpoint, "torch-zip", "FI1029"),
		FSDP_STATUS_NOT_APPLICABLE);
	assert_int_equal(status_for(checkpoint, "dcp", "FI1029"), FSDP_STATUS_PASSED);
	assert_int_equal(
		status_for(checkpoint, "dcp", "FI1081"), FSDP_STATUS_NOT_APPLICABLE);
	assert_int_equal(
		status_for(checkpoint, "some-new-family", "FI3042"), FSDP_STATUS_PASSED);
	assert_int_equal(status_for(checkpoint, "some-new-family", "FI1081"),
		FSDP_STATUS_NOT_APPLICABLE);
	assert_int_equal(
		status_for(checkpoint, "torch-zip", "FI1001"), FSDP_STATUS_PASSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(parameters_without_elements_are_found,
			begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			rules_of_other_formats_do_not_apply, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			empty_parameters_may_be_by_design, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(what_was_not_looked_at_has_not_passed,
			begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
