/* SPDX-License-Identifier: Apache-2.0 */
/* Values and elements in Python's and in JSON's spelling. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/stored-values.h"

static struct fsdp_span span(const char *text)
{
	return (struct fsdp_span){ (const unsigned char *)text, strlen(text) };
}

#define TEXT(value)                                          \
	{                                                    \
		.kind = FSDP_TOKEN_TEXT, .text = span(value) \
	}
#define INTEGER(value)                                         \
	{                                                      \
		.kind = FSDP_TOKEN_INTEGER, .integer = (value) \
	}
#define OPEN(type, items)                                   \
	{                                                   \
		.kind = FSDP_TOKEN_##type, .count = (items) \
	}

static void says(const struct fsdp_token *tokens, size_t count, const char *expected)
{
	struct name_buffer buffer = { NULL, 0 };
	struct text text = tokens_text(&buffer, tokens, count);
	assert_int_equal(text.size, strlen(expected));
	assert_memory_equal(text.data, expected, text.size);
}

static void number_is(double number, const char *expected)
{
	char buffer[32];
	assert_int_equal(number_text(number, buffer, sizeof buffer), strlen(expected));
	assert_string_equal(buffer, expected);
}

static void test_numbers(void **state)
{
	(void)state;
	number_is(0, "0.0");
	number_is(-0.0, "-0.0");
	number_is(1, "1.0");
	number_is(0.1, "0.1");
	number_is(1e-5, "1e-05");
	number_is(0.0001, "0.0001");
	number_is(123456789, "123456789.0");
	number_is(1e15, "1000000000000000.0");
	number_is(1e16, "1e+16");
	number_is(5e-324, "5e-324");
	number_is(1.7976931348623157e308, "1.7976931348623157e+308");
	number_is(0.30000000000000004, "0.30000000000000004");
	number_is((double)NAN, "nan");
	number_is(-(double)INFINITY, "-inf");
}

static void test_scalars(void **state)
{
	struct fsdp_token none = { .kind = FSDP_TOKEN_NONE };
	struct fsdp_token yes = { .kind = FSDP_TOKEN_BOOL, .integer = 1 };
	struct fsdp_token integer = INTEGER(INT64_MIN);
	struct fsdp_token hostile = TEXT("a'b\x1b[31m\n\\");
	struct fsdp_token both = TEXT("'\"");
	struct fsdp_token single = TEXT("it's");
	struct fsdp_token bytes = { .kind = FSDP_TOKEN_BYTES,
		.text = span("\x80"
			     "a") };
	struct fsdp_token global = { .kind = FSDP_TOKEN_GLOBAL,
		.text = span("posix.system") };
	(void)state;
	says(&none, 1, "None");
	says(&yes, 1, "True");
	says(&integer, 1, "-9223372036854775808");
	says(&hostile, 1, "\"a'b\\x1b[31m\\n\\\\\"");
	says(&both, 1, "'\\'\"'");
	says(&single, 1, "\"it's\"");
	says(&bytes, 1, "b'\\x80a'");
	says(&global, 1, "<posix.system>");
}

static void test_containers(void **state)
{
	struct fsdp_token dict[] = { OPEN(DICT, 2), TEXT("a"), OPEN(LIST, 2), INTEGER(1),
		OPEN(TUPLE, 1), INTEGER(2), INTEGER(7), OPEN(SET, 0) };
	struct fsdp_token empties[] = { OPEN(LIST, 3), OPEN(TUPLE, 0), OPEN(DICT, 0),
		OPEN(LIST, 0) };
	struct fsdp_token object[] = { { .kind = FSDP_TOKEN_OBJECT,
					       .count = 2,
					       .text = span("pathlib.PosixPath") },
		TEXT("x"), INTEGER(1) };
	(void)state;
	says(dict, 8, "{'a': [1, (2,)], 7: set()}");
	says(empties, 4, "[(), {}, []]");
	says(object, 3, "pathlib.PosixPath('x', 1)");
}

static void test_text_is_cut(void **state)
{
	enum { COUNT = 4000, DEEP = 300 };
	struct fsdp_token *tokens = calloc(COUNT + 1, sizeof *tokens);
	struct name_buffer buffer = { NULL, 0 };
	struct text text;
	(void)state;
	assert_non_null(tokens);
	tokens[0] = (struct fsdp_token)OPEN(LIST, COUNT);
	for (size_t i = 1; i <= COUNT; i++)
		tokens[i] = (struct fsdp_token)INTEGER(7);
	text = tokens_text(&buffer, tokens, COUNT + 1);
	assert_in_range(text.size, TOKENS_TEXT_MAX - 16, TOKENS_TEXT_MAX);
	assert_memory_equal(text.data + text.size - 3, "...", 3);
	for (size_t i = 0; i < DEEP; i++)
		tokens[i] = (struct fsdp_token)OPEN(LIST, 1);
	text = tokens_text(&buffer, tokens, DEEP + 1);
	assert_memory_equal(text.data + text.size - 3, "...", 3);
	/* A list that promises more than there is. */
	tokens[0] = (struct fsdp_token)OPEN(LIST, UINT32_MAX);
	tokens[1] = (struct fsdp_token)INTEGER(7);
	text = tokens_text(&buffer, tokens, 2);
	assert_memory_equal(text.data, "[7", 2);
	assert_null(tokens_text(&buffer, NULL, 0).data);
	free(tokens);
}

static void test_json(void **state)
{
	struct fsdp_token dict[] = { OPEN(DICT, 2), INTEGER(1), OPEN(TUPLE, 2),
		INTEGER(1), TEXT("x"), TEXT("b"), OPEN(DICT, 0) };
	struct fsdp_token nested[] = { OPEN(DICT, 1), TEXT("a"), OPEN(DICT, 1),
		INTEGER(2), INTEGER(3) };
	struct json_tokens json = { NULL, 0, 0, NULL };
	struct value value = tokens_json(&json, dict, 7);
	(void)state;
	assert_int_equal(value.type, VALUE_TOKENS);
	assert_int_equal(value.tokens.count, 7);
	assert_int_equal(value.tokens.items[0].type, TOKEN_OBJECT);
	assert_int_equal(value.tokens.items[1].type, TOKEN_TEXT);
	assert_memory_equal(value.tokens.items[1].text.data, "1", 1);
	assert_int_equal(value.tokens.items[2].type, TOKEN_ARRAY);
	assert_int_equal(value.tokens.items[6].type, TOKEN_OBJECT);
	/* Keys of a dict in a dict are texts, too. */
	value = tokens_json(&json, nested, 5);
	assert_int_equal(value.type, VALUE_TOKENS);
	assert_int_equal(value.tokens.items[3].type, TOKEN_TEXT);
	assert_memory_equal(value.tokens.items[3].text.data, "2", 1);
}

static void json_cannot_say(const struct fsdp_token *tokens, size_t count)
{
	struct json_tokens json = { NULL, 0, 0, NULL };
	assert_int_equal(tokens_json(&json, tokens, count).type, VALUE_ABSENT);
}

static void test_json_cannot_say_everything(void **state)
{
	struct fsdp_token twice[] = { OPEN(DICT, 2), INTEGER(1), INTEGER(0), TEXT("1"),
		INTEGER(0) };
	struct fsdp_token set[] = { OPEN(LIST, 1), OPEN(SET, 0) };
	struct fsdp_token key[] = { OPEN(DICT, 1), OPEN(TUPLE, 0), INTEGER(1) };
	struct fsdp_token lacking[] = { OPEN(LIST, 2), INTEGER(1) };
	struct fsdp_token cut = { .kind = FSDP_TOKEN_CUT };
	struct fsdp_token large = { .kind = FSDP_TOKEN_TEXT };
	unsigned char *bytes = calloc(1, TOKENS_JSON_MAX);
	(void)state;
	json_cannot_say(twice, 5);
	json_cannot_say(set, 2);
	json_cannot_say(key, 3);
	json_cannot_say(lacking, 2);
	json_cannot_say(&cut, 1);
	json_cannot_say(NULL, 0);
	assert_non_null(bytes);
	large.text = (struct fsdp_span){ bytes, TOKENS_JSON_MAX };
	json_cannot_say(&large, 1);
	free(bytes);
}

/* ---- elements ---- */

static uint32_t dtype_of(const char *name)
{
	for (uint32_t i = 0; i < fsdp_dtype_count(); i++)
		if (strcmp(fsdp_dtype(i)->name, name) == 0)
			return i;
	fail_msg("no dtype %s", name);
	return 0;
}

static void element_is(
	const char *dtype, uint64_t low, uint64_t high, const char *expected)
{
	char buffer[ELEMENT_ROOM];
	unsigned char bytes[16];
	struct text text;
	for (int i = 0; i < 8; i++) {
		bytes[i] = (unsigned char)(low >> 8 * i);
		bytes[8 + i] = (unsigned char)(high >> 8 * i);
	}
	text = element_text(dtype_of(dtype), bytes, buffer);
	assert_int_equal(text.size, strlen(expected));
	assert_memory_equal(text.data, expected, text.size);
}

static void test_elements(void **state)
{
	(void)state;
	element_is("float32", 0x3dcccccd, 0, "0.1");
	element_is("float32", 0x7f800000, 0, "inf");
	element_is("float32", 0xffc00000, 0, "nan");
	element_is("float32", 1, 0, "1e-45");
	element_is("float32", 0x80000000, 0, "-0.0");
	element_is("float32", 0x7f7fffff, 0, "3.4028235e+38");
	element_is("float64", 0x3fb999999999999a, 0, "0.1");
	element_is("bfloat16", 0x3dcd, 0, "0.1");
	element_is("bfloat16", 0x4049, 0, "3.14");
	element_is("float16", 0x3c01, 0, "1.001");
	element_is("float16", 0x7bff, 0, "65504.0");
	element_is("float16", 1, 0, "6e-08");
	element_is("float8_e4m3fn", 0x7e, 0, "448.0");
	element_is("float8_e4m3fn", 0x7f, 0, "nan");
	element_is("float8_e5m2", 0x7c, 0, "inf");
	element_is("float8_e5m2fnuz", 0x80, 0, "nan");
	element_is("float8_e4m3fnuz", 0x40, 0, "1.0");
	element_is("float8_e8m0fnu", 127, 0, "1.0");
	element_is("complex64", 0xbf8000003f800000, 0, "1.0-1.0j");
	element_is("bool", 1, 0, "True");
	element_is("int8", 0x80, 0, "-128");
	element_is("uint8", 0x80, 0, "128");
	element_is("int64", UINT64_MAX, 0, "-1");
	element_is("uint64", UINT64_MAX, 0, "18446744073709551615");
	element_is("int16", 0xfffe, 0, "-2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_containers),
		cmocka_unit_test(test_text_is_cut),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_cannot_say_everything),
		cmocka_unit_test(test_elements),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
