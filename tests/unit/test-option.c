/* SPDX-License-Identifier: Apache-2.0 */
/* How the words of a command line become values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "args/parse.h"

struct values {
	bool flag;
	int counted;
	int64_t integer;
	uint64_t size;
	const char *word;
	const char *text;
	struct texts list;
	struct texts words;
};

static const char *const colours[] = { "red", "green", "blue", NULL };

#define AT(field) offsetof(struct values, field)
static const struct option_row rows[] = {
	{ "help", 'h', OPTION_FLAG, .offset = AT(flag), .help = "" },
	{ "version", 'V', OPTION_FLAG, .offset = AT(flag), .help = "" },
	{ "counted", 'c', OPTION_COUNTED, .offset = AT(counted), .help = "" },
	{ "integer", 'i', OPTION_INTEGER, "N", AT(integer), NULL, 1, 8, .help = "" },
	{ "size", 0, OPTION_SIZE, "SIZE", AT(size), .help = "" },
	{ "word", 'w', OPTION_WORD, "WORD", AT(word), colours, .initial = "blue",
		.help = "" },
	{ "text", 't', OPTION_TEXT, "TEXT", AT(text), .help = "" },
	{ "list", 'l', OPTION_LIST, "TEXT", AT(list), .help = "" },
	{ "words", 0, OPTION_WORDS, "LIST", AT(words), colours, .help = "" },
	{ 0 },
};

/* What one command line came to. */
struct outcome {
	struct values values;
	struct texts words;
	struct usage usage;
	enum { GOOD, UNKNOWN, WRONG } result;
};

static void parse(struct outcome *outcome, int argc, const char *const *arguments)
{
	struct option_group group = { rows, &outcome->values };
	char **argv = memory_new((size_t)argc + 2, sizeof *argv);
	jmp_buf end;

	*outcome = (struct outcome){ .usage.end = &end, .result = WRONG };
	argv[0] = memory_text("test");
	for (int i = 0; i < argc; i++)
		argv[1 + i] = memory_text(arguments[i]);
	if (setjmp(end) != 0)
		return;
	options_init(&group, &outcome->usage);
	outcome->result =
		options_parse(1 + argc, argv, &group, 1, &outcome->words, &outcome->usage)
			? GOOD
			: UNKNOWN;
}

static void done(struct outcome *outcome)
{
	*outcome = (struct outcome){ .result = GOOD };
	memory_free_all();
}

#define PARSE(outcome, ...)                                                   \
	do {                                                                  \
		const char *const arguments_[] = { __VA_ARGS__ };             \
		parse(outcome, (int)(sizeof arguments_ / sizeof *arguments_), \
			arguments_);                                          \
	} while (0)

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "4K", 4096 },
		{ "4KiB", 4096 },
		{ "4KB", 4000 },
		{ "3M", 3u << 20 },
		{ "1GB", 1000000000 },
		{ "5k", 5 << 10 },
		{ "5mb", 5000000 },
		{ "2gib", UINT64_C(2) << 30 },
		{ "1.5K", 1536 },
		{ "0.25MB", 250000 },
		{ "1.000000001KB", 1000 },
		{ "7.999999999E", UINT64_C(9223372035701854303) },
		{ "8E", UINT64_C(8) << 60 },
		{ "18446744073709551614", UINT64_MAX - 1 },
	};
	static const char *const bad[] = { "", "-1", "+1", " 1", "1 ", "K", "4B", "4KiBs",
		"1.5", "1.K", ".5K", "1.5.5K", "1.0000000001K", "15.9x", "0x10", "16E",
		"15.9999999999E", "4KiB ", "18446744073709551615", "18446744073709551616",
		"99999999999999999999999" };
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_true(option_size(good[i].text, &value));
		assert_int_equal(value, good[i].value);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(option_size(bad[i], &value));
}

static void integers(void **state)
{
	int64_t value;

	(void)state;
	assert_true(option_integer("1", 1, 1024, &value));
	assert_int_equal(value, 1);
	assert_true(option_integer("1024", 1, 1024, &value));
	assert_false(option_integer("0", 1, 1024, &value));
	assert_false(option_integer("1025", 1, 1024, &value));
	assert_false(option_integer("", 0, 9, &value));
	assert_false(option_integer("-", -9, 9, &value));
	assert_false(option_integer("1x", 0, 9, &value));
	assert_true(option_integer("-5", -9, 9, &value));
	assert_int_equal(value, -5);
	assert_true(option_integer("9223372036854775807", 0, INT64_MAX, &value));
	assert_false(option_integer("9223372036854775808", 0, INT64_MAX, &value));
}

static void ranges(void **state)
{
	uint64_t offset, length;

	(void)state;
	assert_true(option_range("4K", &offset, &length));
	assert_int_equal(offset, 4096);
	assert_true(length == UINT64_MAX);
	assert_true(option_range("0:1MiB", &offset, &length));
	assert_int_equal(offset, 0);
	assert_int_equal(length, 1 << 20);
	assert_false(option_range("", &offset, &length));
	assert_false(option_range(":5", &offset, &length));
	assert_false(option_range("5:", &offset, &length));
	assert_false(option_range("5:6:7", &offset, &length));
	assert_false(option_range("-5:6", &offset, &length));
	assert_false(option_range(
		"0000000000000000000000000000000000000005", &offset, &length));
}

static void assignments(void **state)
{
	const char *value;
	size_t size;

	(void)state;
	assert_true(option_assignment("memory=4G", &size, &value));
	assert_int_equal(size, 6);
	assert_string_equal(value, "4G");
	assert_false(option_assignment("memory", &size, &value));
	assert_false(option_assignment("=4G", &size, &value));
	assert_false(option_assignment("memory=", &size, &value));
}

static void defaults(void **state)
{
	struct outcome outcome;

	(void)state;
	parse(&outcome, 0, NULL);
	assert_int_equal(outcome.result, GOOD);
	assert_false(outcome.values.flag);
	assert_int_equal(outcome.values.integer, -1);
	assert_true(outcome.values.size == UINT64_MAX);
	assert_string_equal(outcome.values.word, "blue");
	assert_null(outcome.values.text);
	assert_int_equal(outcome.values.list.count, 0);
	done(&outcome);
}

static void any_order(void **state)
{
	struct outcome outcome;

	(void)state;
	PARSE(&outcome, "one", "-cc", "--integer=8", "two", "--text", "-x", "-l", "a",
		"--list=", "-wred", "--words", "red,blue", "-", "--", "-c", "--nope");
	assert_int_equal(outcome.result, GOOD);
	assert_int_equal(outcome.values.counted, 2);
	assert_int_equal(outcome.values.integer, 8);
	assert_string_equal(outcome.values.text, "-x");
	assert_string_equal(outcome.values.word, "red");
	assert_int_equal(outcome.values.list.count, 2);
	assert_string_equal(outcome.values.list.items[0], "a");
	assert_string_equal(outcome.values.list.items[1], "");
	assert_int_equal(outcome.values.words.count, 2);
	assert_string_equal(outcome.values.words.items[1], "blue");
	assert_int_equal(outcome.words.count, 5);
	assert_string_equal(outcome.words.items[2], "-");
	assert_string_equal(outcome.words.items[4], "--nope");
	done(&outcome);
}

static void last_one_wins(void **state)
{
	struct outcome outcome;

	(void)state;
	PARSE(&outcome, "-i", "3", "-i4", "-ci=5", "--word=red", "--word=green");
	assert_int_equal(outcome.result, GOOD);
	assert_int_equal(outcome.values.integer, 5);
	assert_string_equal(outcome.values.word, "green");
	done(&outcome);
}

static void unknown_options(void **state)
{
	static const struct {
		const char *typed, *name;
	} cases[] = {
		{ "--nope", "--nope" },
		{ "--nope=3", "--nope" },
		{ "--integ=3", "--integ" }, /* no prefixes */
		{ "-x", "-x" },
		{ "-cx", "-x" },
		{ "-integer=3", "-integer" }, /* which is not -i nteger=3 */
		{ "-words", "-words" },
		{ "--=", "--" },
	};
	struct outcome outcome;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		PARSE(&outcome, cases[i].typed);
		assert_int_equal(outcome.result, UNKNOWN);
		assert_string_equal(outcome.usage.what, cases[i].name);
		done(&outcome);
	}
}

static void wrong_values(void **state)
{
	static const char *const cases[] = { "--integer=0", "--integer=9",
		"--integer=", "--integer=x", "--size=-1", "--size=4Q", "--word=pink",
		"--word=", "--words=red,", "--words=red,,blue", "--words=pink",
		"--help=1", "--text", "-i" };
	struct outcome outcome;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		PARSE(&outcome, cases[i]);
		assert_int_equal(outcome.result, WRONG);
		assert_true(outcome.usage.what[0] != '\0');
		done(&outcome);
	}
}

static void a_near_word_is_offered(void **state)
{
	struct outcome outcome;

	(void)state;
	PARSE(&outcome, "--word=gren");
	assert_int_equal(outcome.result, WRONG);
	assert_non_null(strstr(outcome.usage.hint, "did you mean green?"));
	done(&outcome);
}

/* A long value may cut the message, never overrun it. */
static void long_values(void **state)
{
	char argument[2000] = "--word=";
	struct outcome outcome;

	(void)state;
	memset(argument + strlen("--word="), 'a', sizeof argument - sizeof "--word=");
	PARSE(&outcome, argument);
	assert_int_equal(outcome.result, WRONG);
	assert_true(strlen(outcome.usage.what) < sizeof outcome.usage.what);
	done(&outcome);
	argument[0] = '-';
	argument[2] = 'z';
	PARSE(&outcome, argument);
	assert_int_equal(outcome.result, UNKNOWN);
	done(&outcome);
}

static void a_peek_forgives(void **state)
{
	char program[] = "test", bad[] = "--nope", value[] = "-t", text[] = "word",
	     help[] = "-ch", name[] = "name";
	char *argv[] = { program, bad, value, text, help, name, NULL };
	static const struct option_row first[] = { { "help", 'h', OPTION_FLAG },
		{ NULL } };
	bool wants_help = false;
	struct option_group groups[] = { { first, &wants_help }, { rows, NULL } };
	struct texts words = { 0 };

	(void)state;
	assert_true(options_parse(6, argv, groups, 2, &words, NULL));
	assert_true(wants_help);
	assert_int_equal(words.count, 1);
	assert_string_equal(words.items[0], "name");
	memory_free_all();
}

static void nearest_words(void **state)
{
	static const char *const candidates[] = { "info", "tree", "ls", "show", "fqns" };
	static const struct {
		const char *word, *best;
	} cases[] = {
		{ "treee", "tree" },
		{ "rtee", "tree" },
		{ "inof", "info" },
		{ "s", NULL },
		{ "sl", "ls" },
		{ "", NULL },
		{ "reshard", NULL },
		{ "show", "show" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct nearest nearest;

		nearest_init(&nearest, cases[i].word);
		for (size_t j = 0; j < sizeof candidates / sizeof *candidates; j++)
			nearest_try(&nearest, candidates[j]);
		if (cases[i].best == NULL)
			assert_null(nearest.best);
		else
			assert_string_equal(nearest.best, cases[i].best);
	}
}

/* Of a million elements that come one by one few are copied, and a list that shrank has
 * room again. */
static void lists_double(void **state)
{
	unsigned *items = NULL, moves = 0;
	size_t count = 0;

	(void)state;
	while (count < 1000000) {
		items = memory_grown(items, count, sizeof *items);
		moves += (count & (count - 1)) == 0;
		items[count] = (unsigned)count;
		count++;
		if (count == 700 && moves < 20)
			count = 300;
	}
	assert_true(moves < 50);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(items[i], i);
	memory_free(items);
}

static unsigned released;

static void release(void *number)
{
	released = 10 * released + *(const unsigned *)number;
}

/* What cannot be had ends the work at hand; what is owned is released from the last one
 * to the mark. */
static void memory_that_cannot_be_had(void **state)
{
	unsigned numbers[] = { 1, 2, 3 };
	jmp_buf end;
	size_t mark;

	(void)state;
	memory_escape(&end);
	if (setjmp(end) == 0) {
		memory_owns(&numbers[0], release);
		mark = memory_mark();
		memory_owns(&numbers[1], release);
		memory_owns(&numbers[2], release);
		memory_release(mark);
		assert_int_equal(released, 32);
		(void)memory_new(SIZE_MAX / 2 + 1, 2);
		fail();
	}
	assert_ptr_equal(memory_escape(NULL), &end);
	memory_free_all();
	assert_int_equal(released, 321);
	assert_memory_equal(memory_format("%d-%s", 7, "x"), "7-x", 4);
	memory_free_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(integers),
		cmocka_unit_test(ranges),
		cmocka_unit_test(assignments),
		cmocka_unit_test(defaults),
		cmocka_unit_test(any_order),
		cmocka_unit_test(last_one_wins),
		cmocka_unit_test(unknown_options),
		cmocka_unit_test(wrong_values),
		cmocka_unit_test(a_near_word_is_offered),
		cmocka_unit_test(long_values),
		cmocka_unit_test(a_peek_forgives),
		cmocka_unit_test(nearest_words),
		cmocka_unit_test(lists_double),
		cmocka_unit_test(memory_that_cannot_be_had),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
