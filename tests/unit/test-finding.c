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

struct kept {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_findings findings;
};

/* No more than `most` for a rule and file; 0: as many as by default. */
static void begin(struct kept *kept, uint64_t most)
{
	kept->budget = (struct fsdp_budget){ .ceiling = UINT64_MAX };
	fsdp_arena_init(&kept->arena, &kept->budget);
	fsdp_limits_init(&kept->limits);
	if (most != 0)
		assert_true(fsdp_limits_set(&kept->limits, "findings", most));
	fsdp_findings_init(&kept->findings, &kept->arena, &kept->limits);
}

static void findings_beyond_the_ceiling_are_counted(void **state)
{
	(void)state;
	struct kept kept;
	begin(&kept, 3);
	assert_false(fsdp_limits_set(&kept.limits, "no-such-limit", 3));
	for (int i = 0; i < 5; i++)
		fsdp_find(&kept.findings, FSDP_RULE_CHUNK_GAP,
			FSDP_PLACE(.file = FSDP_SPAN("a")), "number %d", i);
	fsdp_find(&kept.findings, FSDP_RULE_CHUNK_GAP, FSDP_PLACE(.file = FSDP_SPAN("b")),
		"other");
	assert_int_equal(kept.findings.list.count, 4);
	assert_int_equal(fsdp_findings_omitted_count(&kept.findings), 1);
	struct fsdp_omitted omitted = fsdp_findings_omitted(&kept.findings, 0);
	assert_int_equal(omitted.count, 2);
	assert_true(fsdp_span_is(omitted.file, "a"));
	const struct fsdp_finding *finding = fsdp_vec_at(&kept.findings.list, 2);
	assert_true(fsdp_span_is(finding->message, "number 2"));
	assert_int_equal(finding->offset, FSDP_UNKNOWN);
	assert_false(kept.findings.lost);
	fsdp_arena_done(&kept.arena);
}

/* What a file says may be long; a message and a place are not. */
static void what_is_long_is_cut(void **state)
{
	(void)state;
	struct kept kept;
	begin(&kept, 0);
	for (int width = 1022; width < 1026; width++)
		fsdp_find(&kept.findings, FSDP_RULE_CHUNK_GAP,
			FSDP_PLACE(.file = FSDP_SPAN("a")), "%*d", width, 7);
	for (size_t i = 0; i < 4; i++) {
		const struct fsdp_finding *finding = fsdp_vec_at(&kept.findings.list, i);
		assert_int_equal(finding->message.size, i == 0 ? 1022 : 1023);
		assert_int_equal(finding->message.data[1021], i == 0 ? '7' : ' ');
	}
	fsdp_arena_done(&kept.arena);
}

static void many_files_are_no_quadratic_step(void **state)
{
	(void)state;
	struct kept kept;
	begin(&kept, 0);
	char name[16];
	for (int i = 0; i < 200000; i++) {
		int size = snprintf(name, sizeof name, "file-%d", i);
		fsdp_find(&kept.findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = fsdp_span(name, (size_t)size)), "absent");
	}
	assert_int_equal(kept.findings.list.count, 200000);
	assert_int_equal(fsdp_findings_omitted_count(&kept.findings), 0);
	fsdp_arena_done(&kept.arena);
}

/* Who knows where a name of a file goes can make all of them go there. */
static void slots_are_never_the_same(void **state)
{
	(void)state;
	struct kept kept[2];
	for (int i = 0; i < 2; i++) {
		begin(&kept[i], 0);
		for (char name = 'A'; name <= 'Z'; name++)
			fsdp_find(&kept[i].findings, FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = fsdp_span(&name, 1)), "absent");
	}
	const struct fsdp_findings *one = &kept[0].findings, *other = &kept[1].findings;
	assert_int_equal(one->slot_count, other->slot_count);
	assert_memory_not_equal(
		one->slots, other->slots, one->slot_count * sizeof *one->slots);
	for (int i = 0; i < 2; i++)
		fsdp_arena_done(&kept[i].arena);
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
