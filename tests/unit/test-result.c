/* SPDX-License-Identifier: Apache-2.0 */
/* What is read back of an earlier replay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <fsdp/document.h>

static void put_file(char *path, const char *text)
{
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* NAME COUNT SUM, or why it cannot be read. */
static void check(const char *json, const char *expected)
{
	char path[] = "/tmp/test-result-XXXXXX", *text;
	struct fsdp_replay_baseline *result = NULL;
	struct fsdp_error *error = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	put_file(path, json);
	if (fsdp_replay_baseline_open(NULL, path, &result, &error)) {
		for (size_t i = 0; i < fsdp_replay_baseline_type_count(result); i++) {
			struct fsdp_replay_baseline_type type =
				fsdp_replay_baseline_type(result, i);
			fprintf(out, "%.*s %llu", (int)type.name.size,
				(const char *)type.name.data,
				(unsigned long long)type.count);
			if (type.sum_ns != FSDP_ABSENT)
				fprintf(out, " %lld", (long long)type.sum_ns);
			fprintf(out, "\n");
		}
		fsdp_replay_baseline_free(result);
	} else {
		assert_string_equal(fsdp_error_path(error), path);
		fprintf(out, "%d %s", fsdp_error_code(error), fsdp_error_message(error));
		fsdp_error_free(error);
	}
	fclose(out);
	unlink(path);
	assert_string_equal(text, expected);
	free(text);
}

#define REPLAY "\"schema\":\"fsdp-inspect.replay\","

static void types_are_read(void **state)
{
	(void)state;
	check("{" REPLAY "\"data\":{\"types\":["
	      "{\"type\":\"all_gather\",\"count\":3,\"sum_ns\":-5},"
	      "{\"sum_ns\":7,\"more\":{\"type\":\"x\"},\"count\":0,\"type\":\"b\\u0063\"}]}}",
		"all_gather 3 -5\nbc 0 7\n");
	/* The schema may come last, and what is of no use is passed over. */
	check("{\"x\":[{\"types\":[]}],\"data\":{\"a\":{\"types\":[1]},\"types\":"
	      "[1,[{\"type\":\"no\"}],{\"type\":\"a\"},\"text\"],\"z\":null},"
	      "\"schema\":\"fsdp-inspect.replay\"}",
		"a 0\n");
}

static void other_kinds_of_values_do_not_count(void **state)
{
	(void)state;
	check("{" REPLAY "\"data\":{\"types\":["
	      "{\"type\":3,\"count\":\"3\",\"sum_ns\":\"4\"},"
	      "{\"type\":\"a\",\"count\":-1,\"sum_ns\":null},"
	      "{\"type\":\"b\",\"count\":1.5,\"sum_ns\":99999999999999999999},"
	      "{}]}}",
		" 0\na 0\nb 0\n 0\n");
	check("{" REPLAY "\"data\":{\"types\":{\"type\":\"a\"}}}", "");
	check("{" REPLAY "\"data\":[{\"types\":[{\"type\":\"a\"}]}]}", "");
	check("{" REPLAY "\"data\":1}", "");
	check("{" REPLAY "\"more\":1}", "");
}

static void other_files_are_refused(void **state)
{
	static const char *const other[] = { "{}", "[]", "1", "{\"data\":{\"types\":[]}}",
		"{\"schema\":\"fsdp-inspect.info\",\"data\":{\"types\":[]}}",
		"{\"schema\":[\"fsdp-inspect.replay\"]}",
		"{\"data\":{\"schema\":\"fsdp-inspect.replay\"}}" };
	static const char *const cut[] = { "{", "{" REPLAY,
		"{" REPLAY "\"data\":", "{" REPLAY "\"data\":{",
		"{" REPLAY "\"data\":{\"types\":[", "{" REPLAY "\"data\":{\"types\":[{",
		"{" REPLAY "\"data\":{\"types\":[{\"type\"",
		"{" REPLAY "\"data\":{\"types\":[1,", "{" REPLAY "\"more\":[" };
	char expected[100];
	(void)state;
	snprintf(expected, sizeof expected,
		"%d this is not a result of fsdp-inspect replay --json",
		FSDP_ERROR_NOT_A_CHECKPOINT);
	for (size_t i = 0; i < sizeof other / sizeof *other; i++)
		check(other[i], expected);
	for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
		struct fsdp_replay_baseline *result;
		struct fsdp_error *error = NULL;
		char path[] = "/tmp/test-result-XXXXXX";
		put_file(path, cut[i]);
		assert_false(fsdp_replay_baseline_open(NULL, path, &result, &error));
		assert_int_equal(fsdp_error_code(error), FSDP_ERROR_DAMAGED);
		fsdp_error_free(error);
		unlink(path);
	}
}

static void a_file_has_to_be_there(void **state)
{
	struct fsdp_replay_baseline *result;
	struct fsdp_error *error = NULL;
	(void)state;
	assert_false(
		fsdp_replay_baseline_open(NULL, "/tmp/no-such-result", &result, &error));
	assert_string_equal(fsdp_error_path(error), "/tmp/no-such-result");
	fsdp_error_free(error);
	fsdp_replay_baseline_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_are_read),
		cmocka_unit_test(other_kinds_of_values_do_not_count),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(a_file_has_to_be_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
