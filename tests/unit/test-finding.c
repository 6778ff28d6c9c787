/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/finding.h"

static void rules_are_in_order_and_found_by_id_and_slug(void **state)
{
	(void)state;
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);
		assert_ptr_equal(fsdp_rule_find(rule->id), rule);
		assert_ptr_equal(fsdp_rule_find(rule->slug), rule);
		if (i > 0)
			assert_true(strcmp(fsdp_rule(i - 1)->id, rule->id) < 0);
	}
	assert_null(fsdp_rule(fsdp_rule_count()));
	assert_null(fsdp_rule_find("FI0000"));
}

static void findings_beyond_the_ceiling_are_counted(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	assert_true(fsdp_limits_set(&limits, "findings", 3));
	assert_false(fsdp_limits_set(&limits, "no-such-limit", 3));
	struct fsdp_findings findings;
	fsdp_findings_init(&findings, &arena, &limits);
	for (int i = 0; i < 5; i++)
		fsdp_find(&findings, FSDP_RULE_CHUNK_GAP,
			FSDP_PLACE(.file = FSDP_SPAN("a")), "number %d", i);
	fsdp_find(&findings, FSDP_RULE_CHUNK_GAP, FSDP_PLACE(.file = FSDP_SPAN("b")),
		"other");
	assert_int_equal(findings.list.count, 4);
	assert_int_equal(fsdp_findings_omitted_count(&findings), 1);
	struct fsdp_omitted omitted = fsdp_findings_omitted(&findings, 0);
	assert_int_equal(omitted.count, 2);
	assert_true(fsdp_span_is(omitted.file, "a"));
	const struct fsdp_finding *finding = fsdp_vec_at(&findings.list, 2);
	assert_true(fsdp_span_is(finding->message, "number 2"));
	assert_int_equal(finding->offset, FSDP_UNKNOWN);
	assert_false(findings.lost);
	fsdp_arena_done(&arena);
}

/* What a file says may be long; a message and a place are not. */
static void what_is_long_is_cut(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	struct fsdp_findings findings;
	fsdp_findings_init(&findings, &arena, &limits);
	for (int width = 1022; width < 1026; width++)
		fsdp_find(&findings, FSDP_RULE_CHUNK_GAP,
			FSDP_PLACE(.file = FSDP_SPAN("a")), "%*d", width, 7);
	for (size_t i = 0; i < 4; i++) {
		const struct fsdp_finding *finding = fsdp_vec_at(&findings.list, i);
		assert_int_equal(finding->message.size, i == 0 ? 1022 : 1023);
		assert_int_equal(finding->message.data[1021], i == 0 ? '7' : ' ');
	}
	fsdp_arena_done(&arena);
}

static void many_files_are_no_quadratic_step(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	struct fsdp_findings findings;
	fsdp_findings_init(&findings, &arena, &limits);
	char name[16];
	for (int i = 0; i < 200000; i++) {
		int size = snprintf(name, sizeof name, "file-%d", i);
		fsdp_find(&findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = fsdp_span(name, (size_t)size)), "absent");
	}
	assert_int_equal(findings.list.count, 200000);
	assert_int_equal(fsdp_findings_omitted_count(&findings), 0);
	fsdp_arena_done(&arena);
}

/* Who knows where a name of a file goes can make all of them go there. */
static void slots_are_never_the_same(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	struct fsdp_findings findings[2];
	for (int i = 0; i < 2; i++) {
		fsdp_findings_init(&findings[i], &arena, &limits);
		for (char name = 'A'; name <= 'Z'; name++)
			fsdp_find(&findings[i], FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = fsdp_span(&name, 1)), "absent");
	}
	assert_int_equal(findings[0].slot_count, findings[1].slot_count);
	assert_memory_not_equal(findings[0].slots, findings[1].slots,
		findings[0].slot_count * sizeof *findings[0].slots);
	fsdp_arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_in_order_and_found_by_id_and_slug),
		cmocka_unit_test(findings_beyond_the_ceiling_are_counted),
		cmocka_unit_test(what_is_long_is_cut),
		cmocka_unit_test(many_files_are_no_quadratic_step),
		cmocka_unit_test(slots_are_never_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
