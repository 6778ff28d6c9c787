/* SPDX-License-Identifier: Apache-2.0 */
/* Small JSON files that a user names: what they hold, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fsdp/document.h>

static char path[64];

static struct fsdp_document *opened(const char *text, struct fsdp_error **ret_error)
{
	struct fsdp_document *document = NULL;
	FILE *file;

	snprintf(path, sizeof path, "document-%ld.json", (long)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
	fclose(file);
	assert_true(fsdp_document_open(NULL, path, NULL, 0, &document, ret_error) ==
		    (document != NULL));
	unlink(path);
	return document;
}

static void values_are_what_they_are(void **state)
{
	struct fsdp_document *document =
		opened("{\"a\": [1, \"x\", null, true, 2.5], \"b\": {}}", NULL);
	struct fsdp_document_value root, list, value;

	(void)state;
	assert_non_null(document);
	root = fsdp_document_root(document);
	assert_int_equal(root.kind, FSDP_DOCUMENT_OBJECT);
	assert_int_equal(root.count, 2);
	list = fsdp_document_get(root, "a");
	assert_int_equal(list.kind, FSDP_DOCUMENT_LIST);
	assert_int_equal(list.count, 5);
	assert_int_equal(fsdp_document_item(list, 0).integer, 1);
	value = fsdp_document_item(list, 1);
	assert_int_equal(value.kind, FSDP_DOCUMENT_TEXT);
	assert_memory_equal(value.text.data, "x", 1);
	assert_int_equal(fsdp_document_item(list, 2).kind, FSDP_DOCUMENT_NULL);
	assert_int_equal(fsdp_document_item(list, 3).kind, FSDP_DOCUMENT_BOOL);
	assert_int_equal(fsdp_document_item(list, 3).integer, 1);
	assert_true(fsdp_document_item(list, 4).real == 2.5);
	assert_int_equal(fsdp_document_item(list, 5).kind, FSDP_DOCUMENT_ABSENT);
	assert_int_equal(fsdp_document_get(list, "a").kind, FSDP_DOCUMENT_ABSENT);
	assert_int_equal(fsdp_document_get(root, "c").kind, FSDP_DOCUMENT_ABSENT);
	assert_memory_equal(fsdp_document_item(root, 1).key.data, "b", 1);
	fsdp_document_free(document);
}

static void long_lists_of_integers_are_lists(void **state)
{
	char text[1000] = "[0";
	struct fsdp_document *document;
	struct fsdp_document_value root;

	(void)state;
	for (int i = 1; i < 100; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), ",%d", i);
	strcat(text, "]");
	document = opened(text, NULL);
	root = fsdp_document_root(document);
	assert_int_equal(root.kind, FSDP_DOCUMENT_LIST);
	assert_int_equal(root.count, 100);
	assert_int_equal(fsdp_document_item(root, 99).kind, FSDP_DOCUMENT_INTEGER);
	assert_int_equal(fsdp_document_item(root, 99).integer, 99);
	assert_int_equal(fsdp_document_item(root, 100).kind, FSDP_DOCUMENT_ABSENT);
	fsdp_document_free(document);
}

static void what_is_no_document_is_refused(void **state)
{
	static const char *const texts[] = { "", "{", "{\"a\": 1, \"a\": 2}",
		"[99999999999999999999]", "[1] [2]", "nonsense" };

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct fsdp_error *error = NULL;

		assert_null(opened(texts[i], &error));
		assert_non_null(error);
		assert_string_equal(fsdp_error_path(error), path);
		fsdp_error_free(error);
	}
	assert_false(fsdp_document_open(
		NULL, "/nosuch/file", NULL, 0, &(struct fsdp_document *){ NULL }, NULL));
	fsdp_document_free(NULL);
}

/* On both sides of its edge: 12 bytes for each of the file are free. */
static void a_ceiling_bounds_what_it_takes(void **state)
{
	const struct fsdp_limit_setting limit = { "json-tree", 1 };
	struct fsdp_error *error = NULL;
	struct fsdp_document *document = NULL;
	FILE *file = fopen("ceiling.json", "w");

	(void)state;
	assert_non_null(file);
	fputs("[{},{},{},{},{},{},{},{},{}]", file);
	fclose(file);
	assert_false(
		fsdp_document_open(NULL, "ceiling.json", &limit, 1, &document, &error));
	assert_string_equal(fsdp_error_limit(error), "json-tree");
	fsdp_error_free(error);
	assert_true(fsdp_document_open(NULL, "ceiling.json", NULL, 0, &document, NULL));
	fsdp_document_free(document);
	unlink("ceiling.json");
}

static uint64_t sum_of(const char *text)
{
	struct fsdp_document *document = NULL;
	FILE *file = fopen("lines.jsonl", "w");
	uint64_t sum = 0;

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_true(
		fsdp_document_open_lines("lines.jsonl", NULL, 0, &document, &sum, NULL));
	assert_int_equal(fsdp_document_root(document).count, 2);
	fsdp_document_free(document);
	unlink("lines.jsonl");
	return sum;
}

/* Of what is in front of the last comma; white space between values is none of it. */
static void lines_have_a_checksum(void **state)
{
	uint64_t sum = sum_of("{\"a\":\"x, \\\"y\"}\n{\"b\":[1,2],\"checksum\":\"0\"}\n");

	(void)state;
	assert_int_equal(sum, 0x9d0037e21075fea5);
	assert_int_equal(sum,
		sum_of("{ \"a\": \"x, \\\"y\"}\r\n{\"b\": [1, 2],\t\"checksum\": \"f\"}"));
	assert_int_not_equal(
		sum, sum_of("{\"a\":\"x,\\\"y\"}\n{\"b\":[1,2],\"checksum\":\"0\"}\n"));
	assert_int_not_equal(
		sum, sum_of("{\"a\":\"x, \\\"y\"}\n{\"b\":[1,3],\"checksum\":\"0\"}\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_what_they_are),
		cmocka_unit_test(long_lists_of_integers_are_lists),
		cmocka_unit_test(a_ceiling_bounds_what_it_takes),
		cmocka_unit_test(what_is_no_document_is_refused),
		cmocka_unit_test(lines_have_a_checksum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
