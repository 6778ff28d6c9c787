/* SPDX-License-Identifier: Apache-2.0 */
/* Selecting by name: what globs and expressions take, and what is no pattern at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "args/select.h"

/* Options with nothing given, as the front makes them. */
static struct select_options nothing(void)
{
	return (struct select_options){
		.min_bytes = UINT64_MAX, .max_bytes = UINT64_MAX, .depth = -1, .head = -1
	};
}

static struct selection *selection_of(const char **globs, const char **regexes)
{
	struct select_options options = nothing();
	jmp_buf end;
	struct usage usage = { .end = &end };

	options.globs.items = globs;
	while (globs != NULL && globs[options.globs.count] != NULL)
		options.globs.count++;
	options.regexes.items = regexes;
	while (regexes != NULL && regexes[options.regexes.count] != NULL)
		options.regexes.count++;
	if (setjmp(end) != 0)
		fail_msg("%s", usage.what);
	return selection_new(&options, &usage);
}

static bool takes(struct selection *selection, const char *name)
{
	struct fsdp_span span = { (const unsigned char *)name, strlen(name) };
	return selection_takes_name(selection, span);
}

static bool glob_takes(const char *glob, const char *name)
{
	const char *globs[] = { glob, NULL };
	struct selection *selection = selection_of(globs, NULL);
	bool taken = takes(selection, name);
	return taken;
}

static void test_nothing_takes_all(void **state)
{
	struct selection *selection = selection_of(NULL, NULL);
	(void)state;
	assert_true(selection_is_all(selection));
	assert_true(selection_is_by_name(selection));
	assert_true(takes(selection, ""));
	assert_true(takes(selection, "a.b"));
}

static void test_star_stays_in_its_segment(void **state)
{
	(void)state;
	assert_true(glob_takes("layers.*.weight", "layers.0.weight"));
	assert_false(glob_takes("layers.*.weight", "layers.0.mlp.weight"));
	assert_false(glob_takes("layers.*.weight", "layers.weight"));
	assert_true(glob_takes("layers.1*", "layers.12"));
	assert_false(glob_takes("layers.1*", "layers.2"));
}

static void test_two_stars_cross_segments(void **state)
{
	(void)state;
	assert_true(glob_takes("layers.**.weight", "layers.weight"));
	assert_true(glob_takes("layers.**.weight", "layers.0.weight"));
	assert_true(glob_takes("layers.**.weight", "layers.0.mlp.weight"));
	assert_false(glob_takes("layers.**.weight", "layers.0.mlp.bias"));
	assert_true(glob_takes("**.bias", "bias"));
	assert_true(glob_takes("**.bias", "a.b.bias"));
	assert_false(glob_takes("**.bias", "a.b.unbias"));
	assert_true(glob_takes("a.**", "a"));
	assert_true(glob_takes("a.**", "a.b.c"));
	assert_false(glob_takes("a.**", "ab.c"));
	assert_true(glob_takes("**", ""));
	assert_true(glob_takes("**", "a.b"));
	assert_true(glob_takes("a.**.**", "a"));
	assert_true(glob_takes("**.**", "a.b"));
	assert_true(glob_takes("lay**ght", "layers.0.weight"));
}

static void test_a_module_takes_what_is_below(void **state)
{
	(void)state;
	assert_true(glob_takes("layers.0", "layers.0"));
	assert_true(glob_takes("layers.0", "layers.0.mlp.weight"));
	assert_false(glob_takes("layers.0", "layers.01"));
	assert_false(glob_takes("layers.0", "model.layers.0"));
	assert_true(glob_takes("layers.31.mlp.*", "layers.31.mlp.down_proj.weight"));
}

/* Over the names of a checkpoint. */
static void test_each_form(void **state)
{
	static const char *const NAMES[] = {
		"blocks.0.down.weight",
		"blocks.0.ln.bias",
		"blocks.0.ln.weight",
		"blocks.0.up.bias",
		"blocks.0.up.weight",
		"blocks.1.down.weight",
		"blocks.1.ln.bias",
		"blocks.1.ln.weight",
		"blocks.1.up.bias",
		"blocks.1.up.weight",
		"embed.weight",
		"head.weight",
		"norm.bias",
		"norm.weight",
		"scale",
	};
	static const struct {
		const char *glob, *names;
	} FORMS[] = {
		{ "**.**.scale", "scale " },
		{ "blocks.***.up.*",
			"blocks.0.up.bias blocks.0.up.weight blocks.1.up.bias blocks.1.up.weight " },
		{ "blocks.**.**.up.**",
			"blocks.0.up.bias blocks.0.up.weight blocks.1.up.bias blocks.1.up.weight " },
		{ "norm.**", "norm.bias norm.weight " },
		{ "norm.***", "norm.bias norm.weight " },
		{ "n**", "norm.bias norm.weight " },
		{ "**m.bias", "norm.bias " },
		{ "**.bias",
			"blocks.0.ln.bias blocks.0.up.bias blocks.1.ln.bias blocks.1.up.bias norm.bias " },
		{ "blocks.[0].up.b*", "blocks.0.up.bias " },
		{ "blocks.[!0].up.b*", "blocks.1.up.bias " },
		{ "blocks.[^1].up.b*", "blocks.0.up.bias " },
		{ "norm[!x]bias", "" },
		{ "norm[.]bias", "norm.bias " },
		{ "[a-f]mbed.*", "embed.weight " },
		{ "[f-z]mbed.*", "" },
		{ "[-e]mbed.*", "embed.weight " },
		{ "[e-]mbed.*", "embed.weight " },
		{ "[]e]mbed.*", "embed.weight " },
		{ "[!]]mbed.*", "embed.weight " },
		{ "[\\e]mbed.*", "embed.weight " },
		{ "norm\\.bias", "norm.bias " },
		{ "norm.bia?", "norm.bias " },
		{ "norm?bias", "" },
		{ "norm.?ias", "norm.bias " },
		{ "scal\\e", "scale " },
		{ "scale\\", "" },
		{ "norm", "norm.bias norm.weight " },
		{ "blocks.0",
			"blocks.0.down.weight blocks.0.ln.bias blocks.0.ln.weight blocks.0.up.bias blocks.0.up.weight " },
		{ "*.weight", "embed.weight head.weight norm.weight " },
		{ "*.*.*.bias",
			"blocks.0.ln.bias blocks.0.up.bias blocks.1.ln.bias blocks.1.up.bias " },
	};
	(void)state;
	for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
		char found[1024] = "";
		for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++)
			if (glob_takes(FORMS[i].glob, NAMES[k]))
				strcat(strcat(found, NAMES[k]), " ");
		assert_string_equal(found, FORMS[i].names);
	}
	static const char *const ALL[] = { "**", "***", "**.**" };
	for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
		for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++)
			assert_true(glob_takes(ALL[i], NAMES[k]));
}

static void test_question_and_classes(void **state)
{
	(void)state;
	assert_true(glob_takes("layers.?", "layers.7"));
	assert_false(glob_takes("layers.?", "layers.17"));
	assert_false(glob_takes("a?b", "a.b"));
	assert_true(glob_takes("layers.[0-3]", "layers.2"));
	assert_false(glob_takes("layers.[0-3]", "layers.4"));
	assert_true(glob_takes("layers.[!0-3]", "layers.4"));
	assert_false(glob_takes("a[!b]c", "a.c"));
	assert_true(glob_takes("x[]]", "x]"));
	assert_true(glob_takes("x[a-]", "x-"));
}

static void test_all_else_stands_for_itself(void **state)
{
	(void)state;
	assert_true(glob_takes("a+b(c)|{d}^$", "a+b(c)|{d}^$"));
	assert_false(glob_takes("a+", "aa"));
	assert_false(glob_takes("a.b", "axb"));
	assert_true(glob_takes("a\\*", "a*"));
	assert_false(glob_takes("a\\*", "ab"));
	assert_true(glob_takes("\xff\xfe", "\xff\xfe"));
	assert_true(glob_takes("a\nb", "a\nb"));
}

static void test_an_exclude_wins(void **state)
{
	const char *globs[] = { "layers.**", "!layers.0", NULL };
	const char *only[] = { "!**.bias", NULL };
	struct selection *selection = selection_of(globs, NULL);
	(void)state;
	assert_true(takes(selection, "layers.1.weight"));
	assert_false(takes(selection, "layers.0.weight"));
	assert_false(takes(selection, "head.weight"));
	selection = selection_of(only, NULL);
	assert_true(takes(selection, "head.weight"));
	assert_false(takes(selection, "head.bias"));
}

static void test_an_expression_is_searched(void **state)
{
	const char *regexes[] = { "q_proj|k_proj", NULL };
	const char *globs[] = { "head", NULL };
	struct selection *selection = selection_of(NULL, regexes);
	(void)state;
	assert_true(takes(selection, "layers.0.q_proj.weight"));
	assert_false(takes(selection, "layers.0.v_proj.weight"));
	selection = selection_of(globs, regexes);
	assert_true(takes(selection, "head.weight"));
	assert_true(takes(selection, "k_proj"));
	assert_false(takes(selection, "tail"));
}

/* Nested repeats over a long name end, and say that they did not. */
static void test_a_match_that_never_ends_is_given_up(void **state)
{
	const char *regexes[] = { "^(a+)+$", NULL };
	struct selection *selection = selection_of(NULL, regexes);
	char name[64];
	(void)state;
	memset(name, 'a', sizeof name);
	name[sizeof name - 2] = 'b';
	name[sizeof name - 1] = '\0';
	assert_false(takes(selection, name));
	assert_true(selection_gave_up(selection));
}

/* Whether it is refused, and why. */
static bool is_refused(const struct select_options *options, struct usage *usage)
{
	jmp_buf end;

	usage->end = &end;
	if (setjmp(end) != 0)
		return true;
	selection_new(options, usage);
	return false;
}

static void refuses(const struct select_options *options, const char *part)
{
	struct usage usage = { "" };
	assert_true(is_refused(options, &usage));
	assert_non_null(strstr(usage.what, part));
}

static void test_what_is_wrong_is_said(void **state)
{
	const char *open[] = { "a[b", "[a", "a[]", "a[!]", "[", "[a\\" },
		   *empty[] = { "!", NULL }, *bad[] = { "a(", NULL };
	const char *dtype[] = { "float33", NULL }, *role[] = { "weights", NULL };
	struct select_options options = nothing();
	(void)state;
	for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
		options.globs = (struct texts){ open + i, 1 };
		refuses(&options, "[ without ]");
	}
	options.globs = (struct texts){ empty, 1 };
	refuses(&options, "empty");
	options = nothing();
	options.regexes = (struct texts){ bad, 1 };
	refuses(&options, "a(");
	options = nothing();
	options.dtypes = (struct texts){ dtype, 1 };
	refuses(&options, "float33");
	options = nothing();
	options.roles = (struct texts){ role, 1 };
	refuses(&options, "weights");
	for (const char *const *list = (const char *const[]){ "", "1,", "2-1", "a", "-1",
		     "1--2", "4294967295", "99999999999999999999", NULL };
		*list != NULL; list++) {
		options = nothing();
		options.ranks = *list;
		refuses(&options, "--rank");
	}
}

static void test_ranks(void **state)
{
	struct select_options options = nothing();
	struct usage usage = { "" };
	struct selection *selection;
	struct fsdp_piece piece = { .file = FSDP_NONE };
	static const struct {
		uint32_t rank;
		bool taken;
	} cases[] = { { 0, true }, { 1, false }, { 4, true }, { 7, true }, { 8, false },
		{ FSDP_NONE, false } };
	(void)state;
	options.ranks = "0,4-7";
	selection = selection_new(&options, &usage);
	assert_false(selection_is_by_name(selection));
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		piece.rank = cases[i].rank;
		assert_int_equal(
			selection_takes_piece(selection, NULL, &piece), cases[i].taken);
	}
}

/* Whether the words are dtypes, and which dtype the only one is. */
static bool dtype_is_taken(const char *word, struct usage *usage)
{
	struct select_options options = nothing();

	options.dtypes = (struct texts){ &word, 1 };
	return !is_refused(&options, usage);
}

static void test_dtypes_as_people_write_them(void **state)
{
	static const char *const good[] = { "bfloat16", "torch.bfloat16", "bf16", "BF16",
		"fp16", "fp32", "f32", "F32", "i64", "torch.long", "e4m3", "F6_E2M3" };
	static const char *const bad[] = { "", "bf", "bf160", "fp128", "i63", "float8" };
	struct usage usage;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(dtype_is_taken(good[i], &usage));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_false(dtype_is_taken(bad[i], &usage));
		assert_non_null(strstr(usage.what, bad[i]));
	}
}

static int64_t rank_in(const char *expression, const char *path)
{
	void *pattern = rank_pattern_new(expression);

	assert_non_null(pattern);
	return rank_pattern_find(pattern, path);
}

static void test_a_rank_is_the_first_group_or_all(void **state)
{
	(void)state;
	assert_int_equal(rank_in("host(\\d+)-(\\d+)", "runs/host12-3.json"), 12);
	assert_int_equal(rank_in("\\d+", "runs/host12-3.json"), 12);
	assert_int_equal(rank_in("", "12"), INT64_MIN);
	assert_int_equal(rank_in("node\\d+", "runs/host12-3.json"), INT64_MIN);
	assert_int_equal(rank_in("(host)?\\d+", "12.json"), 12);
	assert_int_equal(rank_in("(host)", "runs/host12-3.json"), INT64_MIN);
	assert_int_equal(rank_in("\\d+", "2147483647"), INT32_MAX);
	assert_int_equal(rank_in("\\d+", "2147483648"), INT64_MIN);
	assert_int_equal(rank_in("\\d+", "0000000000000012"), INT64_MIN);
	assert_null(rank_pattern_new("(host"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_rank_is_the_first_group_or_all),
		cmocka_unit_test(test_nothing_takes_all),
		cmocka_unit_test(test_dtypes_as_people_write_them),
		cmocka_unit_test(test_star_stays_in_its_segment),
		cmocka_unit_test(test_two_stars_cross_segments),
		cmocka_unit_test(test_a_module_takes_what_is_below),
		cmocka_unit_test(test_each_form),
		cmocka_unit_test(test_question_and_classes),
		cmocka_unit_test(test_all_else_stands_for_itself),
		cmocka_unit_test(test_an_exclude_wins),
		cmocka_unit_test(test_an_expression_is_searched),
		cmocka_unit_test(test_a_match_that_never_ends_is_given_up),
		cmocka_unit_test(test_what_is_wrong_is_said),
		cmocka_unit_test(test_ranks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
