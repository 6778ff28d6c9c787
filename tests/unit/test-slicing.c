/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/deepspeed/deepspeed.h"

#define COPY "tp_replicated_parameter_patterns.0"
#define MEAN "parameter_to_average_patterns.0"
#define HALVES "parameter_with_2_sub_params_cat_dim_0.0"
#define COLUMNS "parameter_with_row_parallelism_patterns.0"
#define STAGES "pipeline_replicated_parameter_patterns.0"

static void tell(struct fsdp_slicing *slicing, const char *name, struct fsdp_span text)
{
	/* Patterns are kept where the value has them; literals live long enough. */
	struct fsdp_token token = { .kind = FSDP_TOKEN_TEXT, .text = text };
	struct fsdp_value_record value = { .tokens = &token, .token_count = 1 };
	fsdp_slicing_take(slicing, fsdp_span_text(name), &value);
}

static enum fsdp_cut cut_of(struct fsdp_slicing *slicing, const char *fqn)
{
	bool everywhere;
	return fsdp_slicing_of(slicing, fsdp_span_text(fqn), &everywhere);
}

/* As Python's re.match answers. */
static void a_pattern_matches_from_the_start(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = {
		{ "a.weight", "a.weight", true },
		{ "a.weight", "a_weight", true },
		{ "a\\.weight", "a_weight", false },
		{ "a", "a.weight", true },
		{ "weight", "a.weight", false },
		{ ".*weight", "a.weight", true },
		{ ".*weight", "a.bias", false },
		{ "^a.weight$", "a.weight", true },
		{ "a.weight$", "a.weight2", false },
		{ "", "anything", true },
		{ "$", "anything", false },
		{ "$", "", true },
		{ "layers.\\d+.w", "layers.12.w", true },
		{ "layers.\\d+.w", "layers..w", false },
		{ "layers.\\d*.w", "layers..w", true },
		{ "\\d+.bias", "3.bias", true },
		{ "ab?c", "ac", true },
		{ "ab?c", "abbc", false },
		{ "ab+c", "ac", false },
		{ "ab+c", "abbbc", true },
		{ "a.*?c", "a.b.c", true },
		{ "\\w+\\.bias", "fc_1.bias", true },
		{ "\\w+\\.bias", "fc-1.bias", false },
		{ "a*a*a*b", "aaaaaaaa", false },
		{ "a*a*a*b", "aaaaaaaab", true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fsdp_slicing slicing = { .is_patterned = false };
		tell(&slicing, COLUMNS, fsdp_span_text(cases[i].pattern));
		assert_null(slicing.unread.data);
		assert_int_equal(cut_of(&slicing, cases[i].name),
			cases[i].matches ? FSDP_CUT_COLUMNS : FSDP_CUT_ROWS);
	}
}

static void what_is_not_understood_joins_nothing(void **state)
{
	static const char *const patterns[] = { "(a|b)", "[ab]", "a{2}", "a|b", "*a",
		"a**", "+", "a\\", "\\bword", "\\1", "a^b", "a$b" };
	(void)state;
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
		struct fsdp_slicing slicing = { .is_patterned = false };
		tell(&slicing, COPY, FSDP_SPAN("norm"));
		tell(&slicing, COLUMNS, fsdp_span_text(patterns[i]));
		assert_true(fsdp_span_is(slicing.unread, patterns[i]));
		assert_int_equal(cut_of(&slicing, "norm"), FSDP_CUT_UNKNOWN);
	}
	struct fsdp_slicing slicing = { .is_patterned = false };
	tell(&slicing, "parameter_with_sub_params.0", FSDP_SPAN("x"));
	assert_int_equal(cut_of(&slicing, "x"), FSDP_CUT_UNKNOWN);
}

static void the_first_kind_decides(void **state)
{
	(void)state;
	struct fsdp_slicing slicing = { .is_patterned = false };
	bool everywhere;
	assert_int_equal(cut_of(&slicing, "w"), FSDP_CUT_UNKNOWN);
	tell(&slicing, "universal_checkpoint_version", FSDP_SPAN("0.2"));
	tell(&slicing, "vocabulary_parameter_patterns", FSDP_SPAN("[]"));
	assert_int_equal(cut_of(&slicing, "w"), FSDP_CUT_UNKNOWN);
	tell(&slicing, COLUMNS, FSDP_SPAN("w"));
	assert_int_equal(cut_of(&slicing, "w"), FSDP_CUT_COLUMNS);
	assert_int_equal(cut_of(&slicing, "v"), FSDP_CUT_ROWS);
	tell(&slicing, HALVES, FSDP_SPAN("w"));
	assert_int_equal(cut_of(&slicing, "w"), FSDP_CUT_HALVES);
	tell(&slicing, MEAN, FSDP_SPAN("w"));
	assert_int_equal(cut_of(&slicing, "w"), FSDP_CUT_MEAN);
	tell(&slicing, COPY, FSDP_SPAN("w"));
	assert_int_equal(cut_of(&slicing, "w"), FSDP_CUT_COPY);
	tell(&slicing, STAGES, FSDP_SPAN("v"));
	assert_int_equal(
		fsdp_slicing_of(&slicing, FSDP_SPAN("v"), &everywhere), FSDP_CUT_ROWS);
	assert_true(everywhere);
	fsdp_slicing_of(&slicing, FSDP_SPAN("w"), &everywhere);
	assert_false(everywhere);
}

static void patterns_are_bounded(void **state)
{
	static unsigned char signs[257];
	(void)state;
	memset(signs, 'a', sizeof signs);
	struct fsdp_slicing slicing = { .is_patterned = false };
	tell(&slicing, COPY, fsdp_span(signs, 256));
	assert_null(slicing.unread.data);
	tell(&slicing, COPY, fsdp_span(signs, 257));
	assert_non_null(slicing.unread.data);

	struct fsdp_slicing many = { .is_patterned = false };
	for (size_t i = 0; i < FSDP_SLICING_PATTERNS; i++)
		tell(&many, MEAN, FSDP_SPAN("a"));
	assert_int_equal(cut_of(&many, "a"), FSDP_CUT_MEAN);
	tell(&many, MEAN, FSDP_SPAN("a"));
	assert_int_equal(cut_of(&many, "a"), FSDP_CUT_UNKNOWN);

	struct fsdp_slicing tired = { .work = UINT64_C(1) << 40 };
	tell(&tired, MEAN, FSDP_SPAN("a"));
	assert_int_equal(cut_of(&tired, "a"), FSDP_CUT_UNKNOWN);
}

/* Each of them may be left out, so all places are open at every letter. */
static void a_pattern_takes_its_length_for_each_letter(void **state)
{
	enum { ATOMS = 256, NAME = 2000 };
	char pattern[2 * ATOMS + 1] = "", *name = malloc(NAME + 1);
	struct fsdp_slicing slicing = { .is_patterned = false };
	(void)state;
	assert_non_null(name);
	for (int i = 0; i < ATOMS; i++)
		memcpy(pattern + 2 * i, i + 1 < ATOMS ? "a*" : "b$", 2);
	memset(name, 'a', NAME);
	name[NAME] = '\0';
	tell(&slicing, COLUMNS, fsdp_span_text(pattern));
	assert_null(slicing.unread.data);
	for (int i = 0; i < 5; i++)
		assert_int_equal(cut_of(&slicing, name), FSDP_CUT_ROWS);
	name[NAME - 1] = 'b';
	assert_int_equal(cut_of(&slicing, name), FSDP_CUT_COLUMNS);
	assert_true(slicing.work != 0 && slicing.work < 7 * (ATOMS + 1) * (NAME + 1));
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pattern_matches_from_the_start),
		cmocka_unit_test(what_is_not_understood_joins_nothing),
		cmocka_unit_test(the_first_kind_decides),
		cmocka_unit_test(patterns_are_bounded),
		cmocka_unit_test(a_pattern_takes_its_length_for_each_letter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
