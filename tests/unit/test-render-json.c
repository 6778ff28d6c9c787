/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>

#include <jansson.h>

#include "render/output-functions.h"

static const struct looks plain_looks;

static const struct column columns[] = {
	{ .name = "name" },
	{ .name = "dtype" },
	{ .name = "shape" },
	{ .name = "bytes", .right = true },
	{ .name = "role", .machine_only = true },
	{ .name = "mark", .text_only = true },
};
static const struct table tensors = {
	.key = "tensors",
	.columns = columns,
	.column_count = 6,
	.main = true,
};

static void emit_row(struct out *out, struct value name)
{
	static const int64_t shape[] = { 2, 3 };
	const struct value values[] = { name, value_word("float32"),
		value_shape(shape, 2), value_bytes(24), value_absent(), value_word("*") };
	out_row(out, values);
}

static void emit_tensors(struct out *out)
{
	out_line(out, "label", "sentence for people");
	out_table_begin(out, &tensors);
	emit_row(out, NAME("a"));
	emit_row(out, NAME("b\xff"));
	out_table_end(out);
	out_object_begin(out, "total");
	out_field(out, "tensors", value_count(2));
	out_field(out, "unknown", value_absent());
	out_field(out, "none", value_null());
	out_object_end(out);
}

static void the_envelope_is_as_promised(void **state)
{
	(void)state;
	const struct input_record inputs[] = {
		{ .id = 0, .path = TEXT("m.pt"), .kind = "checkpoint", .format = "dcp" },
		{ .id = 1,
			.path = TEXT("p"),
			.kind = "plan",
			.status = -1,
			.found = true },
	};
	const struct out_header header = {
		.command = "ls",
		.version = "0.1.0",
		.status = 1,
		.inputs = inputs,
		.input_count = 2,
		.has_data = true,
	};
	const struct finding finding = {
		.rule = "FI1004",
		.slug = "truncated-file",
		.severity = SEVERITY_ERROR,
		.file = TEXT("f"),
		.member = TEXT("m"),
		.offset = 7,
		.length = UINT64_MAX,
		.tensor = TEXT("t"),
		.rank = 3,
		.message = TEXT("short"),
		.fix = TEXT("copy it"),
		.fingerprint = "0123456789abcdef",
	};
	const struct failure failure = {
		.code = "limit",
		.rule = "FI9001",
		.input = 0,
		.path = TEXT("m.pt"),
		.offset = UINT64_MAX,
		.limit = "members",
		.message = TEXT("too many"),
	};
	const struct omission omission = {
		.rule = "FI1004", .file = TEXT("f"), .count = 9
	};
	const struct out_footer footer = {
		.status = 1,
		.findings = &finding,
		.finding_count = 1,
		.failures = &failure,
		.failure_count = 1,
		.omissions = &omission,
		.omission_count = 1,
	};
	struct capture capture;
	capture_open(&capture, "json", plain_looks);
	out_begin(capture.out, &header);
	emit_tensors(capture.out);
	out_end(capture.out, &footer);
	assert_captured(&capture,
		"{\"schema\":\"fsdp-inspect.ls\",\"schema_version\":\"1.0\",\"tool\":"
		"{\"name\":\"fsdp-inspect\",\"version\":\"0.1.0\"},\"ok\":false,\n"
		"\"inputs\":[\n"
		"{\"id\":0,\"path\":\"m.pt\",\"kind\":\"checkpoint\",\"format\":\"dcp\","
		"\"status\":0},\n"
		"{\"id\":1,\"path\":\"p\",\"kind\":\"plan\",\"found\":true}],\n"
		"\"data\":{\n"
		"\"tensors\":[\n"
		"{\"name\":\"a\",\"dtype\":\"float32\",\"shape\":[2,3],\"bytes\":24},\n"
		"{\"name\":\"b\xef\xbf\xbd\",\"name_b64\":\"Yv8=\",\"dtype\":\"float32\","
		"\"shape\":[2,3],\"bytes\":24}],\n"
		"\"total\":{\"tensors\":2,\"none\":null}},\n"
		"\"findings\":[\n"
		"{\"rule\":\"FI1004\",\"slug\":\"truncated-file\",\"severity\":\"error\","
		"\"input\":0,\"file\":\"f\",\"member\":\"m\",\"offset\":7,\"tensor\":"
		"\"t\","
		"\"rank\":3,\"message\":\"short\",\"fix\":\"copy it\","
		"\"fingerprint\":\"0123456789abcdef\"}],\n"
		"\"errors\":[\n"
		"{\"code\":\"limit\",\"rule\":\"FI9001\",\"input\":0,\"path\":\"m.pt\","
		"\"limit\":\"members\",\"message\":\"too many\"}],\n"
		"\"omitted\":[\n"
		"{\"rule\":\"FI1004\",\"file\":\"f\",\"count\":9}]}\n");
}

static void without_an_answer_data_is_null(void **state)
{
	(void)state;
	const struct out_header header = { .command = "ls", .version = "1", .status = 2 };
	const struct out_footer footer = { .status = 2 };
	struct capture capture;
	capture_open(&capture, "json", plain_looks);
	out_begin(capture.out, &header);
	out_field(capture.out, "stray", value_count(1));
	out_end(capture.out, &footer);
	assert_captured(&capture,
		"{\"schema\":\"fsdp-inspect.ls\",\"schema_version\":\"1.0\",\"tool\":"
		"{\"name\":\"fsdp-inspect\",\"version\":\"1\"},\"ok\":false,\n"
		"\"inputs\":[],\n\"data\":null,\n\"findings\":[],\n\"errors\":[]}\n");
	capture_open(&capture, "jsonl", plain_looks);
	out_begin(capture.out, &header);
	out_field(capture.out, "stray", value_count(1));
	out_end(capture.out, &footer);
	assert_captured(&capture,
		"{\"type\":\"header\",\"schema\":\"fsdp-inspect.ls\","
		"\"schema_version\":\"1.0\",\"tool\":{\"name\":\"fsdp-inspect\","
		"\"version\":\"1\"},\"ok\":false,\"inputs\":[]}\n"
		"{\"type\":\"end\",\"items\":0,\"findings\":0,\"errors\":0,\"ok\":false,"
		"\"status\":2,\"data\":null}\n");
}

static void emit_map(struct out *out)
{
	out_array_begin_named(out, TEXT("layers.0[\"Block\"]"));
	out_field(out, NULL, NAME("layers.0.weight"));
	out_field(out, NULL, NAME("layers.0.bias"));
	out_array_end(out);
	out_field_named(out, TEXT("name"), NAME("\xff"));
}

static void a_bare_document_is_its_data(void **state)
{
	(void)state;
	struct out_header header = header_of("fqns");
	header.bare = true;
	const struct out_footer footer = { 0 };
	struct capture capture;
	capture_open(&capture, "json", plain_looks);
	out_begin(capture.out, &header);
	emit_map(capture.out);
	out_end(capture.out, &footer);
	assert_captured(&capture, "{\n\"layers.0[\\\"Block\\\"]\":[\n\"layers.0.weight\","
				  "\n\"layers.0.bias\"],\n"
				  "\"name\":\"\xef\xbf\xbd\"}\n");
}

#define LINES_HEADER                                                                  \
	"{\"type\":\"header\",\"schema\":\"fsdp-inspect.ls\",\"schema_version\":\"1." \
	"0\","                                                                        \
	"\"tool\":{\"name\":\"fsdp-inspect\",\"version\":\"0.1.0\"},\"ok\":true,"     \
	"\"inputs\":[]}\n"

static void lines_carry_the_main_array_and_end_with_the_rest(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "jsonl", plain_looks);
	begin_and_end(capture.out, emit_tensors);
	assert_captured(&capture, LINES_HEADER
		"{\"type\":\"item\",\"of\":\"tensors\",\"name\":\"a\",\"dtype\":"
		"\"float32\",\"shape\":[2,3],\"bytes\":24}\n"
		"{\"type\":\"item\",\"of\":\"tensors\",\"name\":\"b\xef\xbf\xbd\","
		"\"name_b64\":\"Yv8=\",\"dtype\":\"float32\",\"shape\":[2,3],"
		"\"bytes\":24}\n"
		"{\"type\":\"end\",\"items\":2,\"findings\":0,\"errors\":0,"
		"\"ok\":true,\"status\":0,\"data\":{\"total\":{\"tensors\":2,"
		"\"none\":null}}}\n");
}

static void emit_items(struct out *out)
{
	out_field(out, "before", value_count(1));
	out_items_begin(out, "items");
	for (uint64_t i = 0; i < 2; i++) {
		out_object_begin(out, NULL);
		out_field(out, "i", value_count(i));
		out_array_begin(out, "pieces");
		out_object_begin(out, NULL);
		out_field(out, "rank", value_count(7));
		out_object_end(out);
		out_array_end(out);
		out_object_end(out);
	}
	out_array_end(out);
	out_field(out, "after", value_bool(false));
}

static void nested_items_are_items_too(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "jsonl", plain_looks);
	begin_and_end(capture.out, emit_items);
	assert_captured(&capture, LINES_HEADER
		"{\"type\":\"item\",\"of\":\"items\",\"i\":0,\"pieces\":[{\"rank\":7}]}\n"
		"{\"type\":\"item\",\"of\":\"items\",\"i\":1,\"pieces\":[{\"rank\":7}]}\n"
		"{\"type\":\"end\",\"items\":2,\"findings\":0,\"errors\":0,\"ok\":true,"
		"\"status\":0,\"data\":{\"before\":1,\"after\":false}}\n");
}

/* A value: its fields by themselves, or as a row. */
static void emit_values(struct out *out)
{
	static const struct column of_value[] = { { .name = "name" }, { .name = "type" },
		{ .name = "value_type" } };
	const struct table table = {
		.key = "values", .columns = of_value, .column_count = 3, .main = true
	};
	const struct value row[] = { NAME("b"), value_word("str"), value_word("str") };
	out_items_begin(out, "items");
	out_object_begin(out, NULL);
	out_field(out, "type", value_word("int"));
	out_field(out, "of", value_word("x"));
	out_field(out, "value_type", value_word("int"));
	out_object_begin(out, "inner");
	out_field(out, "type", value_word("dict"));
	out_object_end(out);
	out_object_end(out);
	out_array_end(out);
	out_table_begin(out, &table);
	out_row(out, row);
	out_table_end(out);
}

static void records_keep_their_own_type(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "jsonl", plain_looks);
	begin_and_end(capture.out, emit_values);
	assert_captured(&capture,
		LINES_HEADER "{\"type\":\"item\",\"of\":\"items\",\"value_type\":\"int\","
			     "\"inner\":{\"type\":\"dict\"}}\n"
			     "{\"type\":\"item\",\"of\":\"values\",\"name\":\"b\","
			     "\"value_type\":\"str\"}\n"
			     "{\"type\":\"end\",\"items\":2,\"findings\":0,\"errors\":0,"
			     "\"ok\":true,\"status\":0,\"data\":{}}\n");
}

static void each_line_of_lines_is_an_object(void **state)
{
	(void)state;
	const struct finding finding = { .rule = "FI1",
		.slug = "s",
		.offset = 1,
		.length = 1,
		.message = TEXT("a\nb") };
	const struct failure failure = { .code = "internal", .message = TEXT("c\nd") };
	const struct out_footer footer = { .status = 3,
		.interrupted = true,
		.findings = &finding,
		.finding_count = 1,
		.failures = &failure,
		.failure_count = 1 };
	struct out_header header = header_of("ls");
	struct capture capture;
	capture_open(&capture, "jsonl", plain_looks);
	out_begin(capture.out, &header);
	emit_tensors(capture.out);
	out_end(capture.out, &footer);
	capture_close(&capture);
	static const char *const types[] = { "header", "item", "item", "finding", "error",
		"end" };
	const char *line = capture.data;
	for (size_t i = 0; i < 6; i++) {
		const char *newline = strchr(line, '\n');
		json_t *record = json_loadb(
			line, (size_t)(newline - line), JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(record);
		assert_string_equal(
			json_string_value(json_object_get(record, "type")), types[i]);
		if (i == 5)
			assert_true(json_is_true(json_object_get(record, "interrupted")));
		json_decref(record);
		line = newline + 1;
	}
	assert_int_equal(*line, '\0');
	capture_free(&capture);
}

/* ---- single values ---- */

static struct writer writer;

static int setup(void **state)
{
	(void)state;
	writer_init(&writer, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	writer_done(&writer);
	return 0;
}

static const char *spelled(struct value value)
{
	writer.size = 0;
	write_json_value(&writer, &value);
	assert_int_equal(writer.error, 0);
	writer_char(&writer, '\0');
	return writer.data;
}

static json_t *parsed(struct value value)
{
	const char *text = spelled(value);
	json_error_t error;
	json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (json == NULL)
		fail_msg("%s: %s", error.text, text);
	return json;
}

static void check_text(const char *data, size_t size)
{
	json_t *json = parsed(value_text((struct text){ data, size }));
	assert_int_equal(json_string_length(json), size);
	assert_memory_equal(json_string_value(json), data, size);
	json_decref(json);
}

static void texts_come_back_as_they_went_in(void **state)
{
	(void)state;
	check_text("", 0);
	check_text("a\0b", 3);
	check_text("\U0001f600\u202e\u2028\U000e0041\xc2\x9b\x7f", 17);
	for (size_t size = 1; size <= 40; size++)
		for (size_t at = 0; at < size; at++) {
			char data[40];
			memset(data, 'a', sizeof data);
			data[at] = "\"\\\n\x1f\x7f\x01"[at % 6];
			check_text(data, size);
		}
	assert_string_equal(spelled(NAME("\xc2\x9b\x1b\x7f\u202e")),
		"\"\\u009b\\u001b\\u007f\\u202e\"");
	assert_string_equal(spelled(NAME("\U000e0041")), "\"\\udb40\\udc41\"");
	assert_string_equal(
		spelled(NAME("\b\f\n\r\t\"\\/")), "\"\\b\\f\\n\\r\\t\\\"\\\\/\"");
}

#define BAD "\xef\xbf\xbd"

static void invalid_bytes_become_one_mark_a_subpart(void **state)
{
	(void)state;
	assert_string_equal(spelled(NAME("a\xff"
					 "b")),
		"\"a" BAD "b\"");
	assert_string_equal(spelled(NAME("\xed\xa0\x80")), "\"" BAD BAD BAD "\"");
	assert_string_equal(spelled(NAME("\xc0\xaf")), "\"" BAD BAD "\"");
	assert_string_equal(spelled(NAME("\xf0\x9f\x98")), "\"" BAD "\"");
	assert_string_equal(spelled(NAME("\xf0\x9f\x98"
					 "a")),
		"\"" BAD "a\"");
	assert_string_equal(spelled(NAME("\xe2\x82\xe2\x82\xac")), "\"" BAD "€\"");
	for (unsigned pair = 0; pair < 0x10000; pair++) {
		const char data[4] = { (char)(pair >> 8), (char)pair, '\x80', 'a' };
		json_decref(parsed(value_text((struct text){ data, 2 })));
		json_decref(parsed(value_text((struct text){ data, 4 })));
	}
}

static void base64_of_each_remainder(void **state)
{
	(void)state;
	static const char *const expected[] = { "\"\"", "\"/w==\"", "\"//4=\"",
		"\"//79\"", "\"//79AA==\"" };
	for (size_t size = 0; size <= 4; size++) {
		writer.size = 0;
		write_json_base64(&writer, (struct text){ "\xff\xfe\xfd", size });
		writer_char(&writer, '\0');
		assert_string_equal(writer.data, expected[size]);
	}
}

static void numbers_are_short_and_exact(void **state)
{
	(void)state;
	assert_string_equal(spelled(value_number(0.1)), "0.1");
	assert_string_equal(spelled(value_number(3)), "3");
	assert_string_equal(spelled(value_number(-0.0)), "-0");
	assert_string_equal(spelled(value_number(1.0 / 3)), "0.3333333333333333");
	assert_string_equal(spelled(value_number(0.1 + 0.2)), "0.30000000000000004");
	assert_string_equal(spelled(value_number(5e-324)), "5e-324");
	assert_string_equal(spelled(value_number(DBL_MAX)), "1.7976931348623157e+308");
	assert_string_equal(spelled(value_number((double)NAN)), "\"NaN\"");
	assert_string_equal(spelled(value_number((double)INFINITY)), "\"Infinity\"");
	assert_string_equal(spelled(value_number((double)-INFINITY)), "\"-Infinity\"");
	assert_string_equal(spelled(value_integer(INT64_MIN)), "-9223372036854775808");
	assert_string_equal(spelled(value_bytes(UINT64_MAX - 1)), "18446744073709551614");
	assert_string_equal(spelled(value_integer(0)), "0");
	assert_string_equal(spelled(value_integer(-10)), "-10");
	for (uint64_t power = 1, i = 0; i < 20; i++, power *= 10) {
		char text[24];
		snprintf(text, sizeof text, "%llu", (unsigned long long)power);
		assert_string_equal(spelled(value_count(power)), text);
		snprintf(text, sizeof text, "%llu", (unsigned long long)power - 1);
		assert_string_equal(spelled(value_count(power - 1)), text);
	}
}

static void no_locale_has_a_say(void **state)
{
	(void)state;
	static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8",
		"de_DE.utf8" };
	const char *set = NULL;
	for (size_t i = 0; i < 3 && set == NULL; i++)
		set = setlocale(LC_NUMERIC, locales[i]);
	/* Where no such locale is installed this says no more than the tests above. */
	assert_string_equal(spelled(value_number(-1234.5e-30)), "-1.2345e-27");
	setlocale(LC_NUMERIC, "C");
}

static void lists_are_arrays(void **state)
{
	(void)state;
	const struct text texts[] = { TEXT("a"), TEXT("\"") };
	const struct path_part path[] = {
		{ .text = TEXT("a.b") },
		{ .is_integer = true, .integer = -1 },
	};
	const int64_t shape[] = { -1, 0, INT64_MAX };
	assert_string_equal(spelled(value_shape(NULL, 0)), "[]");
	assert_string_equal(spelled(value_shape(shape, 3)), "[-1,0,9223372036854775807]");
	assert_string_equal(spelled(value_texts(texts, 2)), "[\"a\",\"\\\"\"]");
	assert_string_equal(
		spelled((struct value){ .type = VALUE_PATH, .path = { path, 2 } }),
		"[\"a.b\",-1]");
}

/* ---- tokens ---- */

static const char *spelled_tokens(const struct token *tokens, size_t count)
{
	return spelled(
		(struct value){ .type = VALUE_TOKENS, .tokens = { tokens, count } });
}

static void tokens_are_any_value(void **state)
{
	(void)state;
	const struct token tokens[] = {
		{ .type = TOKEN_OBJECT, .count = 3 },
		{ .type = TOKEN_TEXT, .text = TEXT("a") },
		{ .type = TOKEN_ARRAY, .count = 3 },
		{ .type = TOKEN_NULL },
		{ .type = TOKEN_BOOL, .integer = 1 },
		{ .type = TOKEN_ARRAY },
		{ .type = TOKEN_TEXT, .text = TEXT("b") },
		{ .type = TOKEN_NUMBER, .number = (double)NAN },
		{ .type = TOKEN_TEXT, .text = TEXT("c") },
		{ .type = TOKEN_OBJECT },
	};
	assert_string_equal(spelled_tokens(tokens, 10),
		"{\"a\":[null,true,[]],\"b\":\"NaN\",\"c\":{}}");
	assert_string_equal(spelled_tokens(tokens, 0), "null");
}

static void a_list_that_ends_early_is_closed(void **state)
{
	(void)state;
	const struct token tokens[] = {
		{ .type = TOKEN_ARRAY, .count = UINT32_MAX },
		{ .type = TOKEN_OBJECT, .count = UINT32_MAX },
		{ .type = TOKEN_TEXT, .text = TEXT("k") },
	};
	assert_string_equal(spelled_tokens(tokens, 1), "[]");
	assert_string_equal(spelled_tokens(tokens, 2), "[{}]");
	assert_string_equal(spelled_tokens(tokens, 3), "[{\"k\":null}]");
	const struct token keys[] = {
		{ .type = TOKEN_OBJECT, .count = 2 },
		{ .type = TOKEN_ARRAY, .count = 2 },
		{ .type = TOKEN_NULL },
		{ .type = TOKEN_NULL },
		{ .type = TOKEN_INTEGER, .integer = 5 },
		{ .type = TOKEN_TEXT, .text = TEXT("k") },
	};
	assert_string_equal(spelled_tokens(keys, 6), "{\"\":5,\"k\":null}");
}

static void depth_has_an_end(void **state)
{
	(void)state;
	size_t count = 100001;
	struct token *tokens = calloc(count, sizeof *tokens);
	for (size_t i = 0; i < count - 1; i++)
		tokens[i] =
			(struct token){ .type = TOKEN_ARRAY, .count = i == 0 ? 2 : 1 };
	tokens[count - 1] = (struct token){ .type = TOKEN_INTEGER, .integer = 7 };
	const char *text = spelled_tokens(tokens, count);
	assert_non_null(strstr(text, "[\"(deeper than 256 levels)\"]"));
	assert_int_equal(strspn(text, "["), 256);
	/* What follows the part that was left out is still in its place. */
	tokens[count - 1] = (struct token){ .type = TOKEN_ARRAY, .count = 0 };
	tokens[50000] = tokens[count - 1];
	tokens[50001] = (struct token){ .type = TOKEN_INTEGER, .integer = 7 };
	text = spelled_tokens(tokens, 50002);
	assert_non_null(strstr(text, "],7]"));
	free(tokens);
}

/* ---- documents as a whole ---- */

static void emit_many(struct out *out)
{
	static const char *const names[] = { "a", "\xff\xfe", "\x1b[2J", "重み", "\"" };
	out_table_begin(out, &tensors);
	for (size_t i = 0; i < 20000; i++)
		emit_row(out, value_name(text_of(names[i % 5])));
	out_table_end(out);
}

static void twenty_thousand_rows(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "json", plain_looks);
	begin_and_end(capture.out, emit_many);
	capture_close(&capture);
	json_t *document =
		json_loadb(capture.data, capture.size, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(document);
	json_t *rows = json_object_get(json_object_get(document, "data"), "tensors");
	assert_int_equal(json_array_size(rows), 20000);
	json_t *row = json_array_get(rows, 19996);
	assert_string_equal(json_string_value(json_object_get(row, "name")), BAD BAD);
	assert_string_equal(json_string_value(json_object_get(row, "name_b64")), "//4=");
	assert_null(json_object_get(json_array_get(rows, 19997), "name_b64"));
	json_decref(document);
	capture_free(&capture);
}

static void chosen_columns_come_in_their_order(void **state)
{
	(void)state;
	static const size_t chosen[] = { 3, 5, 0, 99 };
	struct table table = tensors;
	table.chosen = chosen;
	table.chosen_count = 4;
	struct out_header header = header_of("ls");
	header.bare = true;
	const struct out_footer footer = { 0 };
	struct capture capture;
	capture_open(&capture, "json", plain_looks);
	out_begin(capture.out, &header);
	out_table_begin(capture.out, &table);
	emit_row(capture.out, NAME("a"));
	out_table_end(capture.out);
	table.text_only = true;
	out_table_begin(capture.out, &table);
	emit_row(capture.out, NAME("a"));
	out_table_end(capture.out);
	out_end(capture.out, &footer);
	assert_captured(&capture, "{\n\"tensors\":[\n{\"bytes\":24,\"name\":\"a\"}]}\n");
}

static void emit_half(struct out *out)
{
	out_items_begin(out, "items");
	out_object_begin(out, NULL);
	out_array_begin(out, "pieces");
	out_object_begin(out, NULL);
}

static void emit_too_much(struct out *out)
{
	out_object_begin(out, "o");
	for (int i = 0; i < 5; i++) {
		out_object_end(out);
		out_array_end(out);
	}
	out_field(out, "x", value_count(1));
}

static void what_is_left_open_is_closed(void **state)
{
	(void)state;
	static const char *const formats[] = { "json", "jsonl" };
	void (*const emits[])(struct out *) = { emit_half, emit_too_much };
	for (size_t i = 0; i < 4; i++) {
		struct capture capture;
		capture_open(&capture, formats[i % 2], plain_looks);
		begin_and_end(capture.out, emits[i / 2]);
		capture_close(&capture);
		const char *data = capture.data;
		for (size_t left = capture.size; left != 0;) {
			json_error_t error;
			json_t *json =
				json_loadb(data, left, JSON_DISABLE_EOF_CHECK, &error);
			assert_non_null(json);
			json_decref(json);
			data += error.position;
			left -= (size_t)error.position;
			data++, left--;
		}
		capture_free(&capture);
	}
}

static void emit_nesting(struct out *out)
{
	for (int i = 0; i < 1000; i++)
		out_object_begin(out, "o");
	for (int i = 0; i < 1000; i++)
		out_object_end(out);
}

static void commands_that_nest_without_end_are_told(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "json", plain_looks);
	begin_and_end(capture.out, emit_nesting);
	assert_int_equal(out_finish(capture.out), EOVERFLOW);
	out_free(capture.out);
	fclose(capture.stream);
	capture_free(&capture);
}

static void several_outputs_at_once(void **state)
{
	(void)state;
	static const char *const formats[] = { "json", "csv", "jsonl", "text" };
	struct capture captures[4];
	struct out *outs[4];
	for (size_t i = 0; i < 4; i++) {
		capture_open(&captures[i], formats[i], plain_looks);
		outs[i] = captures[i].out;
	}
	struct out *many = out_many(outs, 4);
	assert_non_null(many);
	begin_and_end(many, emit_tensors);
	assert_int_equal(out_finish(many), 0);
	out_free(many);
	for (size_t i = 0; i < 4; i++) {
		fclose(captures[i].stream);
		struct capture alone;
		capture_open(&alone, formats[i], plain_looks);
		begin_and_end(alone.out, emit_tensors);
		assert_captured(&alone, captures[i].data);
		capture_free(&captures[i]);
	}
}

/* Something for each output: rows, parts with a weight, times, a finding, and the
 * document beside the answer. */
static void begin_and_end_all(struct out *out, void (*emit)(struct out *))
{
	const struct weighed parts[] = {
		{ .name = TEXT("root"), .total = 24 },
		{ .depth = 1,
			.name = TEXT("a"),
			.own = 24,
			.total = 24,
			.is_leaf = true },
	};
	const struct timed_span span = { .lane = "collectives",
		.name = TEXT("all_gather"),
		.dur_ns = 1000,
		.total_ns = 1000,
		.bytes = UINT64_MAX };
	const struct finding finding = { .rule = "FI1004",
		.slug = "truncated-file",
		.severity = SEVERITY_ERROR,
		.offset = UINT64_MAX,
		.length = UINT64_MAX,
		.rank = -1,
		.message = TEXT("short"),
		.fingerprint = "0123456789abcdef" };
	const struct check_result check = {
		.rule = "FI1004", .slug = "truncated-file", .findings = 1
	};
	const struct out_header header = header_of("ls");
	const struct out_footer footer = { .status = 1,
		.findings = &finding,
		.finding_count = 1,
		.checks = &check,
		.check_count = 1 };

	out_begin(out, &header);
	if (out_aside(out) != NULL)
		out_field(out_aside(out), "units", value_count(1));
	emit(out);
	out_weighed(out, &parts[0]);
	out_weighed(out, &parts[1]);
	out_timed(out, &span);
	out_verbatim(out, text_of("page\n"));
	out_end(out, &footer);
}

/* Less than a buffer holds, and more. */
static void a_full_disk_is_remembered(void **state)
{
	(void)state;
	void (*const emits[])(struct out *) = { emit_tensors, emit_many };
	for (size_t i = 0; out_format(i / 2) != NULL; i++) {
		const struct out_format *format = out_format(i / 2);
		FILE *full = fopen("/dev/full", "w");
		if (full == NULL)
			skip();
		struct out *out = out_new(format, full, &plain_looks);
		assert_non_null(out);
		begin_and_end_all(out, emits[i % 2]);
		if (out_finish(out) != ENOSPC)
			fail_msg("%s forgets a full disk", format->name);
		out_free(out);
		fclose(full);
	}
}

static void outputs_are_found_by_name(void **state)
{
	(void)state;
	size_t count = 0;
	for (; out_format(count) != NULL; count++)
		assert_ptr_equal(
			out_format_find(out_format(count)->name), out_format(count));
	assert_int_equal(count, 11);
	assert_null(out_format_find("yaml"));
	assert_null(out_format_find(""));
	out_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_envelope_is_as_promised),
		cmocka_unit_test(without_an_answer_data_is_null),
		cmocka_unit_test(a_bare_document_is_its_data),
		cmocka_unit_test(lines_carry_the_main_array_and_end_with_the_rest),
		cmocka_unit_test(nested_items_are_items_too),
		cmocka_unit_test(records_keep_their_own_type),
		cmocka_unit_test(each_line_of_lines_is_an_object),
		cmocka_unit_test(texts_come_back_as_they_went_in),
		cmocka_unit_test(invalid_bytes_become_one_mark_a_subpart),
		cmocka_unit_test(base64_of_each_remainder),
		cmocka_unit_test(numbers_are_short_and_exact),
		cmocka_unit_test(no_locale_has_a_say),
		cmocka_unit_test(lists_are_arrays),
		cmocka_unit_test(tokens_are_any_value),
		cmocka_unit_test(a_list_that_ends_early_is_closed),
		cmocka_unit_test(depth_has_an_end),
		cmocka_unit_test(twenty_thousand_rows),
		cmocka_unit_test(chosen_columns_come_in_their_order),
		cmocka_unit_test(what_is_left_open_is_closed),
		cmocka_unit_test(commands_that_nest_without_end_are_told),
		cmocka_unit_test(several_outputs_at_once),
		cmocka_unit_test(a_full_disk_is_remembered),
		cmocka_unit_test(outputs_are_found_by_name),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
