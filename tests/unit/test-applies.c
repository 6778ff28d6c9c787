/* SPDX-License-Identifier: Apache-2.0 */
/* Which rules are about something that a checkpoint is not: all families, all rules. */
#include <stdio.h>
#include <string.h>

#include "audit/checking.h"
#include "by-hand.h"

/* Runs of rules, as they stand in the table, that are about something else. Rules of
 * recordings, which are about no checkpoint, are left out. */
static const struct {
	const char *family, *others;
} rows[] = {
	{ "dcp", "1047-1082 3061 4012-5008" },
	{ "dcp-safetensors",
		"1020-1029 1040-1047 1060-1082 2001-2003 3001-3054 3061-3062 4009 5001-5008" },
	{ "deepspeed-zero0", "1020-1029 1047-1063 1073-1082 3061 4012-5007" },
	{ "deepspeed-zero1", "1020-1029 1047-1063 1073-1082 3061 4012-5007" },
	{ "deepspeed-zero2", "1020-1029 1047-1063 1073-1082 3061 4012-5007" },
	{ "deepspeed-zero3", "1020-1029 1047-1063 1073-1082 3061 4012-5007" },
	{ "deepspeed-universal", "1020-1029 1047-1063 1073-1082 3061 4012-5007" },
	{ "fsdp-plan", "1008-1009 1020-1073 2001-2003 3001-3054 3061-3062 4009-5008" },
	{ "hf-bin", "1008-1009 1020-1033 1050-1082 3061 4012-5008" },
	{ "hf-bin-sharded", "1008-1009 1020-1033 1050-1052 1070-1082 3061 4012-5008" },
	{ "hf-safetensors",
		"1008-1009 1020-1047 1060-1082 2001-2003 3001-3054 3061-3062 4009 5001-5008" },
	{ "hf-safetensors-sharded",
		"1008-1009 1020-1047 1070-1082 2001-2003 3001-3054 3061-3062 4009 5001-5008" },
	{ "lightning-ckpt", "1008-1009 1020-1033 1047-1082 3061 4012-5008" },
	{ "megatron-legacy", "1020-1029 1050-1071 1080-1082 3061 4012-5008" },
	{ "peft-adapter",
		"1008-1009 1020-1047 1060-1082 2001-2003 3001-3054 3061-3062 4009 5001-5008" },
	{ "pickle",
		"1008-1009 1020-1041 1047-1082 2001-2003 3040-3054 3061-3062 4009 4012-5008" },
	{ "rank-set", "1020-1029 1050-1082 3061 4012-5008" },
	{ "safetensors",
		"1008-1009 1020-1047 1060-1082 2001-2003 3001-3054 3061-3062 4009 5001-5008" },
	{ "torch-legacy",
		"1008-1009 1020-1041 1050-1082 2001-2003 3040-3054 3061-3062 4009 4012-5008" },
	{ "torch-tar",
		"1008-1009 1020-1041 1050-1082 2001-2003 3040-3042 3044-3054 3062 4009 4012-5008" },
	{ "torch-zip", "1008-1009 1020-1033 1047-1082 3061 4012-5008" },
	{ "torchscript", "1008-1009 1020-1033 1047-1082 3061 4012-5008" },
	{ "some-new-family", "1080-1082 5001-5005" },
};

static void put_run(char *text, size_t size, const char *first, const char *last)
{
	size_t at = strlen(text);

	if (first == NULL)
		return;
	snprintf(text + at, size - at, "%s%s", at > 0 ? " " : "", first + 2);
	at = strlen(text);
	if (strcmp(first, last) != 0)
		snprintf(text + at, size - at, "-%s", last + 2);
}

static void spell_others(unsigned subjects, char *text, size_t size)
{
	const char *first = NULL, *last = NULL;

	text[0] = '\0';
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);

		if (strcmp(rule->category, "recording") == 0) {
			assert_false(fsdp_rule_applies(rule, ~0u));
			continue;
		}
		if (fsdp_rule_applies(rule, subjects)) {
			put_run(text, size, first, last);
			first = NULL;
			continue;
		}
		first = first != NULL ? first : rule->id;
		last = rule->id;
	}
	put_run(text, size, first, last);
}

static void each_family_has_rules_of_its_own(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	char text[1024];

	freeze_by_hand(checkpoint);
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		checkpoint->model.format.family = rows[i].family;
		spell_others(fsdp_subjects_of(checkpoint), text, sizeof text);
		if (strcmp(text, rows[i].others) != 0)
			fail_msg("%s: \"%s\"", rows[i].family, text);
	}
}

static void files_of_other_kinds_bring_their_rules(void **state)
{
	static const char *const names[] = { "optimizer.bin", "a.ckpt", "__0_0.distcp",
		"a.pkl", "rng_state.pt", "a.pth" };
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_rule *rule = fsdp_rule_find("FI3002");

	checkpoint->model.format.family = "safetensors";
	file_by_hand(checkpoint, "config.json", FSDP_NONE);
	freeze_by_hand(checkpoint);
	assert_false(fsdp_rule_applies(rule, fsdp_subjects_of(checkpoint)));
	for (size_t i = 0; i < FSDP_COUNT(names); i++) {
		fsdp_model_file(&checkpoint->model, 0)->path = fsdp_span_text(names[i]);
		if (!fsdp_rule_applies(rule, fsdp_subjects_of(checkpoint)))
			fail_msg("%s", names[i]);
	}
}

static void states_bring_the_rules_of_optimizers(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	checkpoint->model.format.family = "safetensors";
	tensor_by_hand(checkpoint, "a.exp_avg", "float32", FSDP_ROLE_OPTIM, NULL, 0);
	freeze_by_hand(checkpoint);
	assert_true(fsdp_rule_applies(
		fsdp_rule_find("FI5003"), fsdp_subjects_of(checkpoint)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			each_family_has_rules_of_its_own, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(files_of_other_kinds_bring_their_rules,
			begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			states_bring_the_rules_of_optimizers, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
