/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include "render/output-functions.h"

#define NONE struct capture /* nothing is read */

static const struct record leaf = OBJECT_RECORD(NONE, "leaf", "A leaf.",
	{ "name", .type = FIELD_NAME, .always = true },
	{ "type", .type = FIELD_WORD, .null = true },
	{ "value_type", .type = FIELD_WORD, .null = true },
	{ "hidden", .type = FIELD_COUNT, .text_only = EVERY_VIEW });
static const struct record pair = RECORD_OF(
	RECORD_TUPLE, NONE, { NULL, .type = FIELD_INTEGER }, { NULL, .type = FIELD_ANY });
static const struct record entry = RECORD_OF(RECORD_OBJECT, NONE,
	{ NULL, .type = FIELD_TEXT }, { NULL, .type = FIELD_NUMBER });
static const struct record sized = RECORD_OF(RECORD_OBJECT, NONE,
	{ NULL, .type = FIELD_TEXT }, { "size", .type = FIELD_BYTES, .always = true },
	{ "odd", .type = FIELD_BOOL });
static const struct record shared =
	RECORD_OF(RECORD_OBJECT, NONE, { "note", .type = FIELD_TEXT, .always = true });

static const struct record extra =
	RECORD_OF(RECORD_OBJECT, NONE, { "more", .type = FIELD_TEXT, .always = true });

static bool maybe(struct subject of)
{
	return of.object != NULL;
}

static const struct record answer = OBJECT_RECORD(NONE, "answer", "All of it.",
	{ "leaves", ITEMS(leaf), .always = true, .about = "Its \"leaves\"." },
	{ "leaf", OBJECT(leaf), .null = true }, { "pairs", ROWS(pair) },
	{ "shape", .type = FIELD_SHAPE, .null = true }, { "path", .type = FIELD_PATH },
	{ "key", .type = FIELD_KEY, .null = true }, { "words", .type = FIELD_TEXTS },
	{ "sides", .type = FIELD_TEXTS, WORDS("left", "right") },
	{ "side", .type = FIELD_WORD,
		.words = (const char *const[]){ "left", "right", NULL } },
	{ "by_name", .type = FIELD_MAP, .of = &entry },
	{ "sizes", .type = FIELD_MAP, .of = &sized }, { NULL, FIELDS(shared) },
	{ NULL, FIELDS(extra), .has = maybe });

static const struct record other =
	RECORD_OF(RECORD_OBJECT, NONE, { "good", .type = FIELD_BOOL, .always = true });
static const struct record one_of =
	RECORD_OF(RECORD_ONE_OF, NONE, { NULL, OBJECT(answer) }, { NULL, OBJECT(other) });

/* The document without white space. */
static char *schema_of(const struct record *record, bool separate)
{
	struct schema_of of = { "x", record, separate };
	size_t size, kept = 0;
	bool quoted = false;
	char *text;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	schema_write(stream, &of);
	fclose(stream);
	assert_int_equal(text[size - 1], '\n');
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '"' && text[i - 1] != '\\')
			quoted = !quoted;
		if (quoted || (text[i] != ' ' && text[i] != '\n'))
			text[kept++] = text[i];
	}
	text[kept] = '\0';
	return text;
}

static void assert_has(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		puts(text), fail();
}

static void each_type_has_its_schema(void **state)
{
	char *text = schema_of(&answer, false);

	(void)state;
	assert_has(text,
		"\"answer\":{\"description\":\"All of it.\",\"type\":\"object\",\"required\":[\"leaves\",\"leaf\",\"shape\",\"key\",\"note\"],\"properties\":{"
		"\"leaves\":{\"description\":\"Its \\\"leaves\\\".\",\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/leaf\"}},"
		"\"leaf\":{\"anyOf\":[{\"$ref\":\"#/$defs/leaf\"},{\"type\":\"null\"}]},"
		"\"pairs\":{\"type\":\"array\",\"items\":{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{}]}},"
		"\"shape\":{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"integer\"}},"
		"\"path\":{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"integer\"]}},"
		"\"key\":{\"type\":[\"string\",\"integer\",\"null\"]},"
		"\"words\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
		"\"sides\":{\"type\":\"array\",\"items\":{\"enum\":[\"left\",\"right\"]}},"
		"\"side\":{\"enum\":[\"left\",\"right\"]},"
		"\"by_name\":{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"number\",\"string\"]}},"
		"\"sizes\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"required\":[\"size\"],\"properties\":{\"size\":{\"type\":\"integer\",\"minimum\":0},\"odd\":{\"type\":\"boolean\"}}}},"
		"\"note\":{\"type\":\"string\"},\"more\":{\"type\":\"string\"}}}");
	assert_has(text,
		"\"leaf\":{\"description\":\"A leaf.\",\"type\":\"object\",\"required\":[\"name\",\"type\",\"value_type\"],\"properties\":{"
		"\"name\":{\"type\":\"string\"},\"name_b64\":{\"description\":");
	assert_null(strstr(text, "hidden"));
	free(text);
}

/* An element that has a type of its own has it under a second key, which is the one of
 * lines. */
static void a_line_says_what_it_is(void **state)
{
	char *text = schema_of(&answer, false);

	(void)state;
	assert_has(text,
		"\"record\":{\"description\":\"A line of the output `jsonl`.\",\"oneOf\":[{\"description\":\"JSON Lines: the first line.\",\"type\":\"object\",\"required\":[\"type\",\"schema\",");
	assert_has(text,
		"\"required\":[\"type\",\"of\",\"name\",\"value_type\"],\"properties\":{\"type\":{\"const\":\"item\"},\"of\":{\"description\":\"The array of `data` it is an element of.\",\"const\":\"leaves\"},\"name\":");
	assert_has(text,
		"\"required\":[\"type\",\"items\",\"findings\",\"errors\",\"ok\",\"status\",\"data\"]");
	free(text);
	text = schema_of(&other, false);
	assert_null(strstr(text, "jsonl"));
	free(text);
}

static const struct record item =
	RECORD_OF(RECORD_ONE_OF, NONE, { NULL, OBJECT(leaf) }, { NULL, OBJECT(extra) });
static const struct record items =
	RECORD_OF(RECORD_OBJECT, NONE, { "items", ITEMS(item), .always = true });

static void each_kind_of_item_has_a_line(void **state)
{
	char *text = schema_of(&items, false);

	(void)state;
	assert_has(text,
		"\"items\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"$ref\":\"#/$defs/leaf\"},{\"type\":\"object\"");
	assert_has(text, "\"required\":[\"type\",\"of\",\"name\",\"value_type\"]");
	assert_has(text, "\"required\":[\"type\",\"of\",\"more\"]");
	free(text);
}

static void several_inputs_have_an_answer_each(void **state)
{
	char *text = schema_of(&one_of, true);

	(void)state;
	assert_has(text,
		"\"data\":{\"description\":\"The answer; null when the work failed.\",\"anyOf\":[{\"anyOf\":[{\"$ref\":\"#/$defs/answer\"},"
		"{\"type\":\"object\",\"required\":[\"good\"],\"properties\":{\"good\":{\"type\":\"boolean\"}}},{");
	assert_has(text, "\"checkpoints\":{\"description\":");
	assert_has(text,
		"{\"type\":\"object\",\"required\":[\"input\",\"good\"],\"properties\":{\"input\":{\"description\":\"`id` of the input.\",\"type\":\"integer\",\"minimum\":0},\"good\"");
	assert_has(text, "},{\"type\":\"null\"}]},\"findings\":{");
	free(text);
}

static void a_document_says_what_it_is_of(void **state)
{
	char *text = schema_of(&answer, false);

	(void)state;
	assert_has(text,
		"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$id\":\"urn:fsdp-inspect:schema:x:1\",\"title\":\"fsdp-inspect x, major version 1\",\"description\":\"Output of `fsdp-inspect x -o json`.\",\"type\":\"object\",\"required\":[\"schema\",\"schema_version\",\"tool\",\"ok\",\"inputs\",\"data\",\"findings\",\"errors\"],");
	assert_has(text,
		"\"inputs\":{\"description\":\"Inputs that were read.\",\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/input\"}}");
	assert_has(text,
		"\"kind\":{\"description\":\"Role of the input.\",\"enum\":[\"checkpoint\",");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_type_has_its_schema),
		cmocka_unit_test(a_line_says_what_it_is),
		cmocka_unit_test(each_kind_of_item_has_a_line),
		cmocka_unit_test(several_inputs_have_an_answer_each),
		cmocka_unit_test(a_document_says_what_it_is_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
