/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "syntax/json-tree.h"

struct reading {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	const struct fsdp_json *root;
	struct fsdp_error *error;
	char *bytes; /* exactly as long as the document */
	bool good;
};

static void read_sized(struct reading *reading, const void *data, size_t size,
	uint64_t depth, uint64_t memory, bool is_of_python)
{
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	fsdp_limits_set(&limits, "json-depth", depth);
	*reading = (struct reading){ .budget = { .ceiling = memory } };
	fsdp_arena_init(&reading->arena, &reading->budget);
	reading->bytes = malloc(size != 0 ? size : 1);
	if (size != 0)
		memcpy(reading->bytes, data, size);
	reading->good = (is_of_python ? fsdp_json_read_of_python : fsdp_json_read)(
		fsdp_span(reading->bytes, size), &limits, &reading->arena, &reading->root,
		&reading->error);
	free(reading->bytes); /* the tree borrows nothing from it */
}

static void read_text(struct reading *reading, const char *text)
{
	read_sized(reading, text, strlen(text), 512, UINT64_MAX, false);
}

static void read_text_of_python(struct reading *reading, const char *text)
{
	read_sized(reading, text, strlen(text), 512, UINT64_MAX, true);
}

static void reading_done(struct reading *reading)
{
	fsdp_error_free(reading->error);
	fsdp_arena_done(&reading->arena);
	assert_int_equal(reading->budget.used, 0);
}

static void values_of_every_kind(void **state)
{
	(void)state;
	struct reading reading;
	read_text(&reading,
		" {\"z\": [1, -2.5e3, true, false, null, \"x\\u00e9\\u0000y\"],"
		" \"a\": {}, \"min\": -9223372036854775808, \"e\": [] } \n");
	assert_true(reading.good);
	assert_int_equal(reading.root->kind, FSDP_JSON_OBJECT);
	assert_int_equal(reading.root->count, 4);
	assert_true(fsdp_span_is(reading.root->items[0].key, "z"));
	assert_true(fsdp_span_is(reading.root->items[1].key, "a"));
	const struct fsdp_json *items = fsdp_json_get(reading.root, "z")->items;
	assert_int_equal(items[0].integer, 1);
	assert_int_equal(items[1].kind, FSDP_JSON_REAL);
	assert_true(items[1].real < -2499 && items[1].real > -2501);
	assert_int_equal(items[2].kind, FSDP_JSON_BOOL);
	assert_int_equal(items[2].integer, 1);
	assert_int_equal(items[3].integer, 0);
	assert_int_equal(items[4].kind, FSDP_JSON_NULL);
	assert_true(fsdp_span_equal(items[5].text, FSDP_SPAN("x\xc3\xa9\0y")));
	assert_int_equal(items[5].text.data[items[5].text.size], 0);
	assert_int_equal(fsdp_json_get(reading.root, "a")->count, 0);
	assert_null(fsdp_json_get(reading.root, "a")->items);
	assert_int_equal(fsdp_json_get(reading.root, "min")->integer, INT64_MIN);
	assert_null(fsdp_json_get(reading.root, "absent"));
	assert_null(fsdp_json_get(items, "z"));
	assert_null(fsdp_json_get(NULL, "z"));
	reading_done(&reading);
}

static void what_is_no_document(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
		uint64_t offset;
	} cases[] = {
		{ "", "line 1, column 1: the document is empty", 0 },
		{ " \n", "line 2, column 1: the document is empty", 2 },
		{ "{\"a\":1,\"a\":2}", "line 1, column 8: duplicate key 'a'", 7 },
		{ "{\"\":1,\"b\":2,\"b\":3,\"\":4}",
			"line 1, column 13: duplicate key 'b'", 12 },
		{ "{\"ab\":1,\"\\u0061b\":2}", "line 1, column 9: duplicate key 'ab'",
			8 },
		{ "{\n  \"a\": 1,\n  \"a\": 2\n}", "line 3, column 3: duplicate key 'a'",
			14 },
		{ "[1e999]", "line 1, column 2: a number that is too large for a double",
			1 },
		{ "[-1e999]", "line 1, column 2: a number that is too large for a double",
			1 },
		{ "{}\nx", "line 2, column 1: more bytes after the end of the JSON", 3 },
		{ "{} {}", "line 1, column 4: more bytes after the end of the JSON", 3 },
		{ "1, 2", "line 1, column 2: more bytes after the end of the JSON", 1 },
		{ "{\"a\":", "line 1, column 6: JSON is truncated", 5 },
		{ "[\"\xff\"]", "line 1, column 2: a text that is not UTF-8", 1 },
		{ "{\"\xff\":1}", "line 1, column 2: a text that is not UTF-8", 1 },
		{ "[NaN]", "line 1, column 2: a word that JSON does not have", 1 },
		{ "[1,]", "line 1, column 4: a value is missing", 3 },
		{ "{\"a\\u0000\":1}", "line 1, column 2: a key with a zero byte", 1 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct reading reading;
		read_text(&reading, cases[i].text);
		assert_false(reading.good);
		assert_null(reading.root);
		assert_int_equal(fsdp_error_code(reading.error), FSDP_ERROR_DAMAGED);
		assert_int_equal(fsdp_error_offset(reading.error), cases[i].offset);
		assert_string_equal(fsdp_error_message(reading.error), cases[i].message);
		reading_done(&reading);
	}
}

static void integers_beyond_64_bits_are_the_nearest_double(void **state)
{
	(void)state;
	struct reading reading;
	read_text(&reading, "[9223372036854775807, -9223372036854775809, "
			    "1000000000000000019884624838656]");
	assert_true(reading.good);
	assert_int_equal(reading.root->items[0].kind, FSDP_JSON_INTEGER);
	assert_int_equal(reading.root->items[1].kind, FSDP_JSON_REAL);
	assert_true(reading.root->items[1].real == -0x1p63);
	assert_int_equal(reading.root->items[2].kind, FSDP_JSON_REAL);
	assert_true(reading.root->items[2].real == 1e30);
	reading_done(&reading);
}

static void python_reads_what_json_does_not_have(void **state)
{
	(void)state;
	struct reading reading;
	read_text_of_python(&reading,
		"{\"a\": 1, \"b\": NaN, \"\\u0061\": 2, \"c\": -1e999, "
		"\"d\": {\"a\": 3, \"a\": 4}, \"a\": 5}");
	assert_true(reading.good);
	assert_int_equal(reading.root->count, 4);
	assert_int_equal(fsdp_json_get(reading.root, "a")->integer, 5);
	assert_int_equal(fsdp_json_get(reading.root, "b")->kind, FSDP_JSON_NULL);
	assert_int_equal(fsdp_json_get(reading.root, "c")->kind, FSDP_JSON_NULL);
	const struct fsdp_json *inner = fsdp_json_get(reading.root, "d");
	assert_int_equal(inner->count, 1);
	assert_int_equal(inner->items[0].integer, 4);
	reading_done(&reading);
}

/* More members than are compared one by one; the first that came before is told. */
static void keys_of_large_objects(void **state)
{
	(void)state;
	enum { MEMBERS = 5000 };
	char *text = malloc(MEMBERS * 16);
	for (int twice = 0; twice < 2; twice++) {
		size_t at = 0, first = 0;
		for (int i = 0; i < MEMBERS; i++) {
			if (i == 3000)
				first = at + 1;
			at += (size_t)sprintf(text + at, "%c\"%d\":%d",
				i == 0 ? '{' : ',',
				twice != 0 && i >= 3000 ? i - 2000 : i, i);
		}
		strcpy(text + at, "}");
		struct reading reading;
		read_text(&reading, text);
		assert_int_equal(reading.good, !twice);
		if (twice)
			assert_int_equal(fsdp_error_offset(reading.error), first);
		else
			assert_int_equal(
				fsdp_json_get(reading.root, "4999")->integer, 4999);
		reading_done(&reading);
	}
	free(text);
}

static char *nested(size_t levels, char open, char close)
{
	char *text = malloc(levels * 2 + 1);
	memset(text, open, levels);
	memset(text + levels, close, levels);
	text[levels * 2] = '\0';
	return text;
}

static void depth_has_a_limit(void **state)
{
	(void)state;
	static const struct {
		size_t levels;
		uint64_t limit;
		bool good;
	} cases[] = { { 512, 512, true }, { 513, 512, false }, { 1, 1, true },
		{ 2, 1, false }, { 4096, UINT64_MAX, true }, { 4097, UINT64_MAX, false },
		{ 5000000, UINT64_MAX, false } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = nested(cases[i].levels, '[', ']');
		struct reading reading;
		read_sized(
			&reading, text, strlen(text), cases[i].limit, UINT64_MAX, false);
		assert_int_equal(reading.good, cases[i].good);
		if (!cases[i].good)
			assert_string_equal(
				fsdp_error_limit(reading.error), "json-depth");
		reading_done(&reading);
		free(text);
	}
	struct reading reading;
	read_sized(&reading, "[\"[[[\\\"[[\",{\"{\":\"]\"}]", 21, 2, UINT64_MAX, false);
	assert_true(reading.good);
	reading_done(&reading);
}

static void each_prefix_is_damaged(void **state)
{
	(void)state;
	static const char text[] = "{\"a\":[1,2.5,{\"b\":\"\\u20ac\"}],\"c\":null}";
	for (size_t size = 0; size < sizeof text - 1; size++) {
		struct reading reading;
		read_sized(&reading, text, size, 512, UINT64_MAX, false);
		assert_false(reading.good);
		reading_done(&reading);
	}
}

static void memory_may_end(void **state)
{
	(void)state;
	char *text = malloc(200002);
	memset(text, '0', 200001);
	for (size_t i = 0; i < 200000; i += 2)
		text[i] = i == 0 ? '[' : ',';
	text[200000] = ']';
	bool good = false;
	for (uint64_t memory = 0; !good; memory += 1 << 20) {
		struct reading reading;
		read_sized(&reading, text, 200001, 512, memory, false);
		good = reading.good;
		if (good)
			assert_int_equal(reading.root->count, 100000);
		else
			assert_int_equal(
				fsdp_error_code(reading.error), FSDP_ERROR_LIMIT);
		reading_done(&reading);
		assert_true(memory < UINT64_C(1) << 30);
	}
	free(text);
}

/* A long array of integers stays packed; offsets behind it are what they are. */
static void long_arrays(void **state)
{
	(void)state;
	struct reading reading;
	char text[2048];
	for (int count = FSDP_JSON_PACKED; count <= FSDP_JSON_PACKED + 1; count++) {
		size_t at = (size_t)snprintf(text, sizeof text, "{\"a\":[");
		for (int i = 0; i < count; i++)
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%d",
				i == 0  ? ""
				: i % 7 ? ", "
					: " ,\n",
				i - 3);
		snprintf(text + at, sizeof text - at, "],\"b\":[{}]}");
		read_text(&reading, text);
		assert_true(reading.good);
		const struct fsdp_json *list = fsdp_json_get(reading.root, "a");
		int64_t integer;
		assert_int_equal(list->kind,
			count > FSDP_JSON_PACKED ? FSDP_JSON_INTEGERS : FSDP_JSON_ARRAY);
		assert_true(fsdp_json_is_list(list));
		assert_int_equal(list->count, count);
		for (int i = 0; i < count; i++) {
			assert_true(fsdp_json_integer_at(list, (uint32_t)i, &integer));
			assert_int_equal(integer, i - 3);
		}
		assert_int_equal(fsdp_json_get(reading.root, "b")->count, 1);
		reading_done(&reading);
		text[strlen(text) - 1] = '!';
		read_text(&reading, text);
		assert_false(reading.good);
		assert_int_equal(fsdp_error_offset(reading.error), strlen(text) - 1);
		reading_done(&reading);
	}
}

/* What is not quite integers. */
static void arrays_that_are_not_packed(void **state)
{
	(void)state;
	static const char *const odd[] = { "1.5", "01", "-", "1e3", "9223372036854775808",
		"true", "\"\\u0001\"", "[1]" };
	for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
		struct reading reading;
		char text[1024];
		size_t at = (size_t)snprintf(text, sizeof text, "[[");
		for (int i = 0; i < 100; i++)
			at += (size_t)snprintf(text + at, sizeof text - at, "7,");
		snprintf(text + at, sizeof text - at, "%s]]", odd[k]);
		read_text(&reading, text);
		if (reading.good)
			assert_int_equal(reading.root->items[0].kind, FSDP_JSON_ARRAY);
		reading_done(&reading);
	}
}

static void members_of_one_kind(void **state)
{
	(void)state;
	struct reading reading;
	int64_t integer = 7;
	read_text(&reading, "{\"t\": \"\", \"i\": 5, \"b\": true, \"f\": false, "
			    "\"n\": null, \"r\": 5.0}");
	assert_true(reading.good);
	const struct fsdp_json *root = reading.root;
	assert_non_null(fsdp_json_get_text(root, "t").data);
	assert_null(fsdp_json_get_text(root, "i").data);
	assert_null(fsdp_json_get_text(root, "none").data);
	assert_false(fsdp_json_get_integer(root, "i", 6, INT64_MAX, &integer));
	assert_false(fsdp_json_get_integer(root, "i", INT64_MIN, 4, &integer));
	assert_false(fsdp_json_get_integer(root, "r", 0, INT64_MAX, &integer));
	assert_false(fsdp_json_get_integer(root, "b", 0, INT64_MAX, &integer));
	assert_int_equal(integer, 7);
	assert_true(fsdp_json_get_integer(root, "i", 5, 5, &integer));
	assert_int_equal(integer, 5);
	assert_int_equal(fsdp_json_get_truth(root, "b"), 1);
	assert_int_equal(fsdp_json_get_truth(root, "f"), 0);
	assert_int_equal(fsdp_json_get_truth(root, "n"), -1);
	assert_int_equal(fsdp_json_get_truth(NULL, "b"), -1);
	reading_done(&reading);
}

/* Values take 40 bytes each, and twice as much until the array that holds them ends. */
static void values_have_a_limit(void **state)
{
	(void)state;
	enum {
		LISTS = 1000,
		LEAST = 2 * 40 * (LISTS + 1) - FSDP_JSON_GROWTH * (3 * LISTS + 1)
	};
	char text[3 * LISTS + 2] = "[";
	for (size_t i = 0; i < LISTS; i++)
		memcpy(text + 1 + 3 * i, "[],", 3);
	text[3 * LISTS] = ']';
	for (uint64_t limit = LEAST; limit >= LEAST - 1; limit--) {
		struct reading reading;
		struct fsdp_limits limits;
		fsdp_limits_init(&limits);
		fsdp_limits_set(&limits, "json-tree", limit);
		reading = (struct reading){ .budget = { .ceiling = UINT64_MAX } };
		fsdp_arena_init(&reading.arena, &reading.budget);
		assert_int_equal(fsdp_json_read(fsdp_span(text, 3 * LISTS + 1), &limits,
					 &reading.arena, &reading.root, &reading.error),
			limit == LEAST);
		if (limit == LEAST)
			assert_int_equal(reading.root->count, LISTS);
		else
			assert_string_equal(fsdp_error_limit(reading.error), "json-tree");
		reading_done(&reading);
	}
}

static void a_zero_byte_is_nothing_that_may_stand_there(void **state)
{
	(void)state;
	static const char *const texts[] = { "[7@]", "[7@,8]", "{\"a\":7@}", "[]@", "@" };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char text[16];
		size_t size = strlen(texts[i]), at = strcspn(texts[i], "@");
		memcpy(text, texts[i], size);
		text[at] = '\0';
		struct reading reading;
		read_sized(&reading, text, size, 512, UINT64_MAX, false);
		assert_false(reading.good);
		assert_int_equal(fsdp_error_offset(reading.error), at);
		reading_done(&reading);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_every_kind),
		cmocka_unit_test(what_is_no_document),
		cmocka_unit_test(integers_beyond_64_bits_are_the_nearest_double),
		cmocka_unit_test(python_reads_what_json_does_not_have),
		cmocka_unit_test(keys_of_large_objects),
		cmocka_unit_test(depth_has_a_limit),
		cmocka_unit_test(each_prefix_is_damaged),
		cmocka_unit_test(memory_may_end),
		cmocka_unit_test(long_arrays),
		cmocka_unit_test(members_of_one_kind),
		cmocka_unit_test(arrays_that_are_not_packed),
		cmocka_unit_test(values_have_a_limit),
		cmocka_unit_test(a_zero_byte_is_nothing_that_may_stand_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
