/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "syntax/json-template.h"

/* A stream that gives no more than `step` bytes at a time. */
struct stream {
	struct fsdp_span bytes;
	size_t at, step;
};

static bool refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct stream *stream = context;
	(void)ret_error;
	size_t left = stream->bytes.size - stream->at;
	*ret_size = (size_t)fsdp_min(fsdp_min(size, left), stream->step);
	memcpy(buffer, stream->bytes.data + stream->at, *ret_size);
	stream->at += *ret_size;
	return true;
}

static const size_t steps[] = { 1, 2, 7, 16, 1000, SIZE_MAX };
enum { STEPS = sizeof steps / sizeof *steps };

struct reading {
	struct stream stream;
	struct fsdp_json_scan scan;
	struct fsdp_error *error;
	struct fsdp_limits limits;
};

static void open_sized(
	struct reading *reading, const void *data, size_t size, size_t step)
{
	*reading = (struct reading){
		.stream = { .bytes = fsdp_span(data, size), .step = step },
	};
	fsdp_limits_init(&reading->limits);
	assert_true(fsdp_json_scan_init(&reading->scan, refill, &reading->stream,
		&reading->limits, &reading->error));
}

static void open_text(struct reading *reading, const char *text, size_t step)
{
	open_sized(reading, text, strlen(text), step);
}

static void reading_done(struct reading *reading)
{
	fsdp_json_scan_done(&reading->scan);
	fsdp_error_free(reading->error);
}

/* All tokens in short: what they are and what they hold. */
static bool spell(struct reading *reading, char *out)
{
	static const char marks[] = ".{}[]kt#TFNw!?";
	struct fsdp_json_token token;
	do {
		if (!fsdp_json_scan_next(&reading->scan, &token, &reading->error))
			return false;
		*out++ = marks[token.kind];
		if (token.kind == FSDP_SCAN_KEY || token.kind == FSDP_SCAN_TEXT ||
			token.kind == FSDP_SCAN_NUMBER || token.kind == FSDP_SCAN_WORD) {
			memcpy(out, token.span.data, token.span.size);
			out += token.span.size;
			*out++ = token.not_utf8 ? '*' : token.escaped ? '~' : ' ';
		}
		*out = '\0';
	} while (token.kind != FSDP_SCAN_END && token.kind != FSDP_SCAN_BAD &&
		 token.kind != FSDP_SCAN_CUT);
	return true;
}

static void expect(const char *text, bool lenient, const char *expected)
{
	for (size_t i = 0; i < STEPS; i++) {
		struct reading reading;
		char out[2048];
		open_text(&reading, text, steps[i]);
		reading.scan.lenient = lenient;
		assert_true(spell(&reading, out));
		assert_string_equal(out, expected);
		reading_done(&reading);
	}
}

static void tokens_of_every_kind(void **state)
{
	(void)state;
	expect("{}", false, "{}.");
	expect(" [ ] \n", false, "[].");
	expect("5", false, "#5 .");
	expect("-0.5e+10 ", false, "#-0.5e+10 .");
	expect("\"\"", false, "t .");
	expect("{\"a\": [1, -2.5E3, true, false, null, \"x\\u00e9\\\"y\"],\r\n\t"
	       "\"a long key \xc3\xa9 of more than sixteen bytes\" : {\"b\":{}}}",
		false,
		"{ka [#1 #-2.5E3 TFNtx\\u00e9\\\"y~]ka long key \xc3\xa9 of more than "
		"sixteen bytes {kb {}}}.");
	expect("[\"\xff\xfe\", \"\xed\xa0\x80\", \"\xf0\x9f\x98\x80\"]", false,
		"[t\xff\xfe*t\xed\xa0\x80*t\xf0\x9f\x98\x80 ].");
}

static void offsets_count_from_the_start_of_the_stream(void **state)
{
	(void)state;
	enum { COUNT = 100000 };
	char *text = malloc(16 * COUNT), *at = text;
	*at++ = '[';
	for (int i = 0; i < COUNT; i++)
		at += sprintf(at, "%s{\"k\": %7d}", i == 0 ? "" : ",", i);
	*at++ = ']';
	struct reading reading;
	open_sized(&reading, text, (size_t)(at - text), 5000);
	struct fsdp_json_token token;
	for (uint64_t i = 0; i < 4 * COUNT + 3; i++) {
		assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
		if (token.kind != FSDP_SCAN_NUMBER)
			continue;
		int64_t value, here = strtol(text + token.offset, NULL, 10);
		assert_true(fsdp_decimal_integer(token.span, &value));
		assert_int_equal(value, here);
		assert_int_equal(value, i / 4);
	}
	assert_int_equal(token.kind, FSDP_SCAN_END);
	assert_int_equal(reading.scan.window.room, FSDP_WINDOW_BYTES);
	reading_done(&reading);
	free(text);
}

static void refuses_what_is_not_json(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t offset;
	} cases[] = {
		{ "", 0 },
		{ "  ", 2 },
		{ "{", 1 },
		{ "[1", 2 },
		{ "\"abc", 4 },
		{ "\"abc\\", 5 },
		{ "{\"a\"}", 4 },
		{ "{\"a\" 1}", 5 },
		{ "{\"a\":1,}", 7 },
		{ "{1:1}", 1 },
		{ "{\"a\":}", 5 },
		{ "[1,]", 3 },
		{ "[,1]", 1 },
		{ "[1 2]", 3 },
		{ "[1}", 2 },
		{ "{\"a\":1]", 6 },
		{ "]", 0 },
		{ "01", 0 },
		{ "[1.]", 1 },
		{ "[.5]", 1 },
		{ "[+1]", 1 },
		{ "[-]", 1 },
		{ "[1e]", 1 },
		{ "[1-2]", 1 },
		{ "[--1]", 1 },
		{ "[tru]", 1 },
		{ "[nulll]", 1 },
		{ "[NaN]", 1 },
		{ "[-Infinity]", 1 },
		{ "[\"\t\"]", 2 },
		{ "[\"\\x\"]", 2 },
		{ "[\"\\u12g4\"]", 2 },
		{ "[\"\\u12\"]", 2 },
		{ "{} {}", 3 },
		{ "[1]]", 3 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (size_t j = 0; j < STEPS; j++) {
			struct reading reading;
			char out[256];
			open_text(&reading, cases[i].text, steps[j]);
			assert_false(spell(&reading, out));
			assert_int_equal(
				fsdp_error_code(reading.error), FSDP_ERROR_DAMAGED);
			assert_int_equal(
				fsdp_error_offset(reading.error), cases[i].offset);
			reading_done(&reading);
		}
	}
	struct reading reading;
	char out[64];
	open_sized(&reading, "[1\0]", 4, SIZE_MAX);
	assert_false(spell(&reading, out));
	assert_int_equal(fsdp_error_offset(reading.error), 2);
	reading_done(&reading);
}

static void depth_has_a_limit(void **state)
{
	(void)state;
	for (int over = 0; over < 2; over++) {
		struct reading reading;
		char text[26], out[64];
		size_t deep = 12 + (size_t)over;
		memset(text, '[', deep);
		memset(text + deep, ']', deep);
		open_sized(&reading, text, 2 * deep, 1);
		reading.scan.depth_limit = 12;
		assert_int_equal(spell(&reading, out), over == 0);
		if (over == 1)
			assert_string_equal(
				fsdp_error_limit(reading.error), "json-depth");
		reading_done(&reading);
	}
}

static void skips_what_is_not_wanted(void **state)
{
	(void)state;
	for (size_t i = 0; i < STEPS; i++) {
		struct reading reading;
		struct fsdp_json_token token;
		open_text(&reading, "{\"a\":{\"b\":[1,{}]},\"c\":[[],2],\"d\":3}",
			steps[i]);
		struct fsdp_json_scan *scan = &reading.scan;
		assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
		for (const char *key = "acd"; *key != '\0'; key++) {
			assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
			assert_int_equal(token.kind, FSDP_SCAN_KEY);
			assert_int_equal(token.span.data[0], *key);
			if (*key == 'c')
				assert_true(fsdp_json_scan_next(
					scan, &token, &reading.error));
			assert_true(fsdp_json_scan_skip(scan, &token, &reading.error));
			if (*key == 'd')
				assert_int_equal(token.kind, FSDP_SCAN_NUMBER);
		}
		assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
		assert_int_equal(token.kind, FSDP_SCAN_OBJECT_END);
		reading_done(&reading);

		open_text(&reading, "[[1,x]]", steps[i]);
		assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
		assert_false(fsdp_json_scan_skip(scan, &token, &reading.error));
		reading_done(&reading);
	}
}

static const struct fsdp_span outer[] = { FSDP_SPAN_INIT("name"), FSDP_SPAN_INIT("ts"),
	FSDP_SPAN_INIT("args") };
static const struct fsdp_span inner[] = { FSDP_SPAN_INIT("stream"),
	FSDP_SPAN_INIT("kind") };
static const struct fsdp_json_wanted wanted = {
	.keys = outer,
	.inner = inner,
	.key_count = 3,
	.inner_count = 2,
	.inner_of = 2,
};

static bool is_value(const struct fsdp_json_value *value, enum fsdp_json_token_kind kind,
	const char *text)
{
	return value->kind == kind &&
	       (kind == FSDP_SCAN_END || fsdp_span_is(value->span, text));
}

/* The next object; its two begins were not read yet. */
static bool pass_one(struct fsdp_json_quick *quick, struct reading *reading)
{
	struct fsdp_json_token token;
	assert_true(fsdp_json_scan_next(&reading->scan, &token, &reading->error));
	assert_int_equal(token.kind, FSDP_SCAN_OBJECT);
	return fsdp_json_quick_object(quick, &reading->scan);
}

static void passes_objects_that_look_alike(void **state)
{
	(void)state;
	static const char text[] =
		"[{\"name\": \"x\", \"ts\": -1.5e3, \"args\": {\"stream\": 7}}, "
		"{\"name\": \"a\\n\", \"ts\": 12.25, \"args\": {\"stream\": 8}},"
		"{\"name\": \"x\", \"ts\": 0, \"args\": {\"a\": [1, [], {\"kind\": 2}], "
		"\"kind\": \"k\"}, \"ts\": 3, \"z\": [{}, null, true]},"
		"{\"args\": {\"kind\": 1}, \"args\": {\"stream\": 2}},"
		"{\"args\": 5 , \"stream\": 1}, {}, 9]";
	struct reading reading;
	struct fsdp_json_token token;
	struct fsdp_json_quick *quick = fsdp_json_quick_new(&wanted);
	const struct fsdp_json_value *values = quick->values, *args;
	open_text(&reading, text, SIZE_MAX);
	assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
	assert_false(fsdp_json_quick_object(quick, &reading.scan));
	assert_true(pass_one(quick, &reading));
	assert_true(is_value(&values[0], FSDP_SCAN_TEXT, "x"));
	assert_true(is_value(&values[1], FSDP_SCAN_NUMBER, "-1.5e3"));
	assert_true(is_value(&values[2], FSDP_SCAN_OBJECT, "{\"stream\": 7}"));
	args = fsdp_json_quick_inner(quick);
	assert_true(is_value(&args[0], FSDP_SCAN_NUMBER, "7"));
	assert_true(is_value(&args[1], FSDP_SCAN_END, ""));

	assert_true(pass_one(quick, &reading));
	assert_true(is_value(&values[0], FSDP_SCAN_TEXT, "a\\n") && values[0].escaped);
	assert_true(is_value(&values[1], FSDP_SCAN_NUMBER, "12.25"));
	assert_true(is_value(fsdp_json_quick_inner(quick), FSDP_SCAN_NUMBER, "8"));

	assert_true(pass_one(quick, &reading));
	assert_false(values[0].escaped);
	assert_true(is_value(&values[1], FSDP_SCAN_NUMBER, "3"));
	args = fsdp_json_quick_inner(quick);
	assert_true(is_value(&args[0], FSDP_SCAN_END, ""));
	assert_true(is_value(&args[1], FSDP_SCAN_TEXT, "k"));

	/* The last one counts, and nothing is left of the one before. */
	assert_true(pass_one(quick, &reading));
	assert_true(is_value(&values[0], FSDP_SCAN_END, ""));
	assert_true(is_value(&values[2], FSDP_SCAN_OBJECT, "{\"stream\": 2}"));
	args = fsdp_json_quick_inner(quick);
	assert_true(is_value(&args[0], FSDP_SCAN_NUMBER, "2"));
	assert_true(is_value(&args[1], FSDP_SCAN_END, ""));

	assert_true(pass_one(quick, &reading));
	assert_true(is_value(&values[2], FSDP_SCAN_NUMBER, "5"));
	assert_true(is_value(fsdp_json_quick_inner(quick), FSDP_SCAN_END, ""));
	assert_true(pass_one(quick, &reading));
	assert_true(is_value(&values[2], FSDP_SCAN_END, ""));
	assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
	assert_int_equal(token.kind, FSDP_SCAN_NUMBER);
	fsdp_json_quick_free(quick);
	reading_done(&reading);
}

/* The quote that ends a text stands anywhere in what is looked at at once, and so does
 * what is escaped before it. */
static void passes_texts_of_any_length(void **state)
{
	(void)state;
	enum { MOST = 150 };
	struct fsdp_json_quick *quick = fsdp_json_quick_new(&wanted);
	const struct fsdp_json_value *name = &quick->values[0];
	for (int size = 0; size < MOST; size++)
		for (int escaped = -1; escaped < size - 1; escaped += 7) {
			char text[2 * MOST + 64], string[MOST + 1];
			struct reading reading;
			struct fsdp_json_token token;
			memset(string, 'x', (size_t)size);
			string[size] = '\0';
			if (escaped >= 0)
				memcpy(string + escaped, "\\n", 2);
			snprintf(text, sizeof text,
				"[{\"name\": \"%s\", \"other\": \"y\"}]", string);
			open_text(&reading, text, SIZE_MAX);
			assert_true(fsdp_json_scan_next(
				&reading.scan, &token, &reading.error));
			assert_true(pass_one(quick, &reading));
			assert_true(is_value(name, FSDP_SCAN_TEXT, string));
			assert_int_equal(name->escaped, escaped >= 0);
			reading_done(&reading);
		}
	fsdp_json_quick_free(quick);
}

/* What lies in an object counts as deep as it may be. */
static void passes_no_object_near_the_limit_of_depth(void **state)
{
	(void)state;
	for (uint32_t over = 0; over < 2; over++) {
		struct reading reading;
		struct fsdp_json_token token;
		struct fsdp_json_quick *quick = fsdp_json_quick_new(&wanted);
		open_text(&reading, "[[{\"name\": \"x\"}]]", SIZE_MAX);
		reading.scan.depth_limit = 3 + FSDP_QUICK_LEVELS - over;
		for (int i = 0; i < 2; i++)
			assert_true(fsdp_json_scan_next(
				&reading.scan, &token, &reading.error));
		assert_int_equal(pass_one(quick, &reading), over == 0);
		fsdp_json_quick_free(quick);
		reading_done(&reading);
	}
}

/* Not where an object has begun already. */
static void passes_objects_from_their_begin_only(void **state)
{
	(void)state;
	struct reading reading;
	struct fsdp_json_token token;
	struct fsdp_json_quick *quick = fsdp_json_quick_new(&wanted);
	open_text(&reading,
		"[{\"ts\": 1, \"name\": \"x\"}, {\"ts\": 2, \"name\": \"y\"}]", SIZE_MAX);
	assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
	assert_true(pass_one(quick, &reading));
	for (int i = 0; i < 3; i++) {
		assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
		assert_true(i == 0 || !fsdp_json_quick_object(quick, &reading.scan));
	}
	assert_int_equal(token.kind, FSDP_SCAN_NUMBER);
	fsdp_json_quick_free(quick);
	reading_done(&reading);
}

/* Seen before or not: what follows here is for the other way. */
static void leaves_alone_what_is_not_plain(void **state)
{
	(void)state;
	static const char *const odd[] = { "\"caf\xc3\xa9\"", "NaN", "01", "1.", "1.5.2",
		".5", "-", "1e", "\"a\\x\"", "\"a\nb\"", "[1,]", "[1 2]", "{1:2}",
		"{\"a\" 2}", "nul", "truey", "+1", "1 \"b\"", "[1}", "0x1", "\"\\ud8\"" };
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		char text[256];
		struct reading reading;
		struct fsdp_json_token token;
		struct fsdp_json_quick *quick = fsdp_json_quick_new(&wanted);
		snprintf(text, sizeof text,
			"[{\"ts\": 1, \"b\": \"c\"}, {\"ts\": 2, \"b\": \"\"}, "
			"{\"ts\": 3, \"b\": %s}, {\"ts\": 4, \"b\": 5}]",
			odd[i]);
		open_text(&reading, text, SIZE_MAX);
		reading.scan.lenient = true;
		assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
		assert_true(pass_one(quick, &reading));
		assert_true(pass_one(quick, &reading));
		size_t at = reading.scan.at + 3;
		assert_false(pass_one(quick, &reading));
		assert_int_equal(reading.scan.at, at);
		fsdp_json_quick_free(quick);
		reading_done(&reading);
	}
}

/* More kinds of text between values than are remembered, and longer ones. */
static void passes_objects_that_do_not_look_alike(void **state)
{
	(void)state;
	enum { OBJECTS = 3000, ROOM = 400 };
	char *text = malloc((size_t)OBJECTS * ROOM);
	size_t size = 0;
	text[size++] = '[';
	for (int i = 0; i < OBJECTS; i++)
		size += (size_t)snprintf(text + size, ROOM,
			"%s{%*s\"x%d\": [%d], \"ts\": %d,%*s\"args\": {\"stream\": %d}}",
			i == 0 ? "" : ",", i % 50, "", i % 700, i, i, i % 150, "", i % 9);
	memcpy(text + size, "]", 2);
	struct reading reading;
	struct fsdp_json_token token;
	struct fsdp_json_quick *quick = fsdp_json_quick_new(&wanted);
	open_text(&reading, text, SIZE_MAX);
	assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
	for (int i = 0; i < OBJECTS; i++) {
		char digits[16];
		snprintf(digits, sizeof digits, "%d", i);
		bool cut = !pass_one(quick, &reading);
		if (cut) {
			/* The window ends in it. */
			assert_true(fsdp_json_scan_skip(
				&reading.scan, &token, &reading.error));
			while (reading.scan.depth > 1)
				assert_true(fsdp_json_scan_next(
					&reading.scan, &token, &reading.error));
			continue;
		}
		assert_true(is_value(&quick->values[1], FSDP_SCAN_NUMBER, digits));
		digits[0] = (char)('0' + i % 9);
		digits[1] = '\0';
		assert_true(
			is_value(fsdp_json_quick_inner(quick), FSDP_SCAN_NUMBER, digits));
	}
	assert_int_equal(quick->pieces.count, FSDP_QUICK_PIECES);
	fsdp_json_quick_free(quick);
	reading_done(&reading);
	free(text);
}

static void holds_what_is_long_up_to_the_limit(void **state)
{
	(void)state;
	size_t size = 5 << 20;
	char *text = malloc(size);
	memset(text, 'x', size);
	memcpy(text, "[\"first\", \"", 11);
	memcpy(text + size - 2, "\"]", 2);
	for (int small = 0; small < 2; small++) {
		struct reading reading;
		struct fsdp_json_token token;
		open_sized(&reading, text, size, 100000);
		reading.scan.window.ceiling = (small ? 5 : 6) << 20;
		struct fsdp_json_scan *scan = &reading.scan;
		assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
		assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
		fsdp_json_scan_keep(scan);
		assert_int_equal(
			fsdp_json_scan_next(scan, &token, &reading.error), !small);
		if (small) {
			assert_string_equal(
				fsdp_error_limit(reading.error), "event-bytes");
		} else {
			assert_int_equal(token.span.size, size - 13);
			assert_true(
				fsdp_span_is(fsdp_json_scan_span(scan, 2, 5), "first"));
			fsdp_json_scan_release(scan);
			assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
		}
		reading_done(&reading);
	}
	free(text);
}

static void decodes_escapes(void **state)
{
	(void)state;
	static const struct {
		const char *raw, *text;
	} cases[] = {
		{ "plain", "plain" },
		{ "\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t" },
		{ "\\u0041\\u00e9\\u20AC", "A\xc3\xa9\xe2\x82\xac" },
		{ "\\ud83d\\ude00", "\xf0\x9f\x98\x80" },
		{ "\\ud83d", "\xef\xbf\xbd" },
		{ "\\ud83dx", "\xef\xbf\xbdx" },
		{ "\\ud83d\\u0041", "\xef\xbf\xbd"
				    "A" },
		{ "\\ude00\\ud83d", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "C:\\cuda\\x", "C:\\cuda\\x" },
		{ "\\u12", "\\u12" },
		{ "end\\", "end\\" },
	};
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fsdp_json_token token = { .span = fsdp_span_text(cases[i].raw),
			.escaped = true };
		struct fsdp_span text = fsdp_json_text_copy(&token, &arena);
		assert_true(fsdp_span_is(text, cases[i].text));
		assert_true(fsdp_json_text_is(&token, text));
		text.size--;
		assert_false(fsdp_json_text_is(&token, text));
		assert_false(fsdp_json_text_is(&token, FSDP_SPAN("something else")));
	}
	fsdp_arena_done(&arena);
}

/* ---- lenient ---- */

static const struct fsdp_span keys[] = { FSDP_SPAN_INIT("ph"), FSDP_SPAN_INIT("name"),
	FSDP_SPAN_INIT("args"), { 0 } };

static void reads_and_counts_what_others_write(void **state)
{
	(void)state;
	static const struct {
		const char *text, *expected;
		enum fsdp_json_deviation oddity;
		unsigned count;
	} cases[] = {
		{ "[NaN, -inf, N/A, nan] ", "[wNaN w-inf wN/A wnan ].",
			FSDP_DEVIATION_BARE_WORD, 4 },
		{ "[01., +.5, .5, 1e999, -007] ", "[#01. #+.5 #.5 #1e999 #-007 ].",
			FSDP_DEVIATION_NUMBER, 4 },
		{ "[\"a\tb\nc\", \"d\"]", "[ta\tb\nc td ].", FSDP_DEVIATION_CONTROL_CHAR,
			1 },
		{ "[\"C:\\cuda\\_\\q\"]", "[tC:\\cuda\\_\\q~].",
			FSDP_DEVIATION_BAD_ESCAPE, 1 },
		{ "[\"caf\xe9\"]", "[tcaf\xe9*].", FSDP_DEVIATION_NOT_UTF8, 1 },
		{ "{\"a\":[1,],}", "{ka [#1 ]}.", FSDP_DEVIATION_TRAILING_COMMA, 2 },
		{ "{\"a\":\"x \"y\" {\"b\": 1}\", \"name\":1}",
			"{ka tx \"y\" {\"b\": 1} kname #1 }.", FSDP_DEVIATION_BARE_QUOTE,
			1 },
		{ "{\"a\":\"f(\"x\", y)\"}", "{ka tf(\"x\", y) }.",
			FSDP_DEVIATION_BARE_QUOTE, 1 },
		{ "{\"a\":\"f(\"x\")}, y\"}", "{ka tf(\"x\")}, y }.",
			FSDP_DEVIATION_BARE_QUOTE, 1 },
		{ "{\"a\": 1= }", "{ka #1 !", FSDP_DEVIATION_BARE_WORD, 0 },
		{ "{\"a\": \"x\" y\n\"}", "{ka !", FSDP_DEVIATION_BARE_QUOTE, 0 },
		{ "{\"a\": --1}", "{ka !", FSDP_DEVIATION_NUMBER, 0 },
		{ "{\"a\": [1", "{ka [?", FSDP_DEVIATION_NUMBER, 0 },
		{ "{\"a\": \"b", "{ka ?", FSDP_DEVIATION_NUMBER, 0 },
		{ "{} {}", "{}.", FSDP_DEVIATION_MISSING_COMMA, 0 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (size_t j = 0; j < STEPS; j++) {
			struct reading reading;
			char out[256];
			open_text(&reading, cases[i].text, steps[j]);
			reading.scan.lenient = true;
			reading.scan.event_keys = keys;
			assert_true(spell(&reading, out));
			assert_string_equal(out, cases[i].expected);
			assert_int_equal(
				reading.scan.deviations[cases[i].oddity], cases[i].count);
			assert_int_equal(reading.scan.deviation_sum, cases[i].count);
			reading_done(&reading);
		}
	}
}

/* Reads an array of events, going on after whatever is wrong. */
static unsigned salvage(const char *text, size_t step, uint64_t *ret_missing)
{
	struct reading reading;
	struct fsdp_json_token token;
	unsigned bad = 0, events = 0;
	bool found = true;
	open_text(&reading, text, step);
	reading.scan.lenient = true;
	reading.scan.event_keys = keys;
	assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
	reading.scan.events_depth = 1;
	while (found) {
		assert_true(fsdp_json_scan_next(&reading.scan, &token, &reading.error));
		if (token.kind == FSDP_SCAN_END || token.kind == FSDP_SCAN_CUT)
			break;
		events += token.kind == FSDP_SCAN_OBJECT && reading.scan.depth == 2;
		if (token.kind != FSDP_SCAN_BAD)
			continue;
		bad++;
		assert_true(fsdp_json_scan_resync(&reading.scan, &found, &reading.error));
	}
	*ret_missing = reading.scan.deviations[FSDP_DEVIATION_MISSING_COMMA];
	reading_done(&reading);
	return events * 10 + bad;
}

static void goes_on_at_the_next_event(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned events, bad, missing;
	} cases[] = {
		{ "[{\"ph\":1},{\"ph\":2}]", 2, 0, 0 },
		{ "[{\"ph\":1}{\"ph\":2}]", 2, 0, 1 },
		{ "[{\"ph\":=},{\"ph\":2}]", 2, 1, 0 },
		{ "[{\"ph\":=, \"args\": {\"name\": 1}},{\"ph\":2}]", 2, 1, 0 },
		{ "[{\"ph\":=, \"args\" \t: {\"name\": 1}},{\"ph\":2}]", 2, 1, 0 },
		{ "[Traceback (most):\n{\"ph\":1}]", 1, 1, 0 },
		{ "[{\"ph\":1},{\"ph\":=}]", 2, 1, 0 },
		{ "[{\"ph\":1},{\"ph\":=} , ]", 2, 1, 0 },
		{ "[{\"ph\":1, {\"ph\":2}]", 2, 1, 0 },
		{ "[{\"ph\":1, {\"other\":2}}", 1, 1, 0 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (size_t j = 0; j < STEPS; j++) {
			uint64_t missing;
			assert_int_equal(salvage(cases[i].text, steps[j], &missing),
				cases[i].events * 10 + cases[i].bad);
			assert_int_equal(missing, cases[i].missing);
		}
	}
}

static void seeks_a_member(void **state)
{
	(void)state;
	struct reading reading;
	char out[64];
	bool found;
	open_text(&reading, "{\"x\" 1, \"name\" : [2]}", 1);
	reading.scan.lenient = true;
	assert_true(spell(&reading, out));
	assert_string_equal(out, "{!");
	assert_true(fsdp_json_scan_seek(
		&reading.scan, FSDP_SPAN("name"), &found, &reading.error));
	assert_true(found);
	assert_true(spell(&reading, out));
	assert_string_equal(out, "kname [#2 ]}.");
	assert_true(fsdp_json_scan_seek(
		&reading.scan, FSDP_SPAN("name"), &found, &reading.error));
	assert_false(found);
	reading_done(&reading);
}

/* ---- numbers ---- */

static void fixed_point_is_exact(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int power;
		bool good;
		int64_t value;
	} cases[] = {
		{ "1712195495519689.047", 3, true, 1712195495519689047 },
		{ "0.0005", 3, true, 1 },
		{ "0.00049999", 3, true, 0 },
		{ "-0.0005", 3, true, -1 },
		{ "1.5e-3", 3, true, 2 },
		{ "2E2", 3, true, 200000 },
		{ "+.5", 0, true, 1 },
		{ "0.05", 0, true, 0 },
		{ "5.", 0, true, 5 },
		{ "9223372036854775807", 0, true, INT64_MAX },
		{ "-9223372036854775808", 0, true, INT64_MIN },
		{ "9223372036854775808", 0, false, 0 },
		{ "9223372036854775.8079", 3, false, 0 },
		{ "0e999999999999", 3, true, 0 },
		{ "1e999999999999", 3, false, 0 },
		{ "1e-999999999999", 3, true, 0 },
		{ "", 3, false, 0 },
		{ ".", 3, false, 0 },
		{ "1e", 3, false, 0 },
		{ "1.2.3", 3, false, 0 },
		{ "0x10", 0, false, 0 },
		{ "12345678", 0, true, 12345678 },
		{ "12345678.5", 1, true, 123456785 },
		{ "-", 0, false, 0 },
		{ "1e+", 0, false, 0 },
		{ "1e+2", 0, true, 100 },
		{ "1d2", 0, false, 0 },
		{ "1e12x", 0, false, 0 },
		{ "1e1:", 0, false, 0 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t value = 0;
		/* Without a byte behind it, so that a sanitizer sees a look there. */
		size_t size = strlen(cases[i].text);
		char *text = malloc(size + (size == 0));
		assert_non_null(text);
		memcpy(text, cases[i].text, size);
		assert_int_equal(
			fsdp_decimal_fixed(fsdp_span(text, size), cases[i].power, &value),
			cases[i].good);
		assert_int_equal(value, cases[i].value);
		free(text);
	}
	int64_t value;
	assert_true(fsdp_decimal_integer(FSDP_SPAN("-12.00"), &value));
	assert_int_equal(value, -12);
	assert_false(fsdp_decimal_integer(FSDP_SPAN("+1"), &value));
	assert_false(fsdp_decimal_integer(FSDP_SPAN("1.5"), &value));
	assert_false(fsdp_decimal_integer(FSDP_SPAN("1e3"), &value));
	assert_false(fsdp_decimal_integer(FSDP_SPAN("-"), &value));
	assert_false(fsdp_decimal_integer(FSDP_SPAN("-9223372036854775809"), &value));
}

/* 64 of them. */
#define FOUR(text) text text text text
#define MANY(text) FOUR(FOUR(FOUR(text)))

struct alike {
	struct fsdp_json_quick *quick;
	struct fsdp_json_list lists[3];
	struct fsdp_json_member member;
	char key[16], text[20];
	uint32_t meaning;
	uint64_t text_offset;
	int arrays; /* around the object */
};

static const struct fsdp_span list_keys[] = { FSDP_SPAN_INIT("s"), FSDP_SPAN_INIT("o"),
	FSDP_SPAN_INIT("t") };
static const struct fsdp_json_wanted of_lists = {
	.keys = list_keys,
	.key_count = 3,
	.members = true,
	.list_count = 2,
};
static const struct fsdp_json_wanted of_texts = { .members = true };

/* Whether the second member of an object is plain; what is behind it is then read on by
 * tokens. */
static bool fit(struct alike *alike, const char *second)
{
	struct reading reading;
	struct fsdp_json_token token;
	char text[400], rest[400], end[67];
	snprintf(text, sizeof text, "%.*s{\"a\":[{}]%s%.*s", alike->arrays, MANY("["),
		second, alike->arrays, MANY("]"));
	snprintf(end, sizeof end, "}%.*s.", alike->arrays, MANY("]"));
	open_text(&reading, text, SIZE_MAX);
	struct fsdp_json_scan *scan = &reading.scan;
	struct fsdp_json_member *member = &alike->member;
	for (int i = 0; i < alike->arrays; i++)
		assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
	for (size_t i = 0; i < 2; i++) {
		assert_true(fsdp_json_scan_next(scan, &token, &reading.error));
		assert_false(
			fsdp_json_quick_member(alike->quick, scan, alike->lists, member));
	}
	assert_true(fsdp_json_scan_skip(scan, &token, &reading.error));
	size_t at = scan->at;
	bool fits = fsdp_json_quick_member(alike->quick, scan, alike->lists, member);
	assert_int_equal(scan->at, at);
	if (fits) {
		snprintf(alike->key, sizeof alike->key, "%.*s", FSDP_TEXT(member->key));
		snprintf(
			alike->text, sizeof alike->text, "%.*s", FSDP_TEXT(member->text));
		alike->text_offset = fsdp_json_scan_offset(scan, member->text.data);
		alike->meaning = *member->meaning;
		fsdp_json_quick_accept(scan, member);
		assert_true(spell(&reading, rest));
		assert_string_equal(rest, end);
	}
	reading_done(&reading);
	return fits;
}

static void passes_members_that_look_alike(void **state)
{
	(void)state;
	static const char *const others[] = {
		",\"b\":{\"t\":\"x\",\"s\":[01],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1.0],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1e1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[-1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[12345678901234567],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1,],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[,1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1 2],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1},\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[[1]],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":1,\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1],\"p\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1],\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"t\":\"x\",\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1],\"o\":[4,8],\"x\":0}}",
		",\"b\":{\"t\":\"x\",\"s\":[1],\"o\":[4,8],}}",
		",\"b\":{,\"t\":\"x\",\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"\",\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{\"t\":7,\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"\\u0078\",\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"\xc3\xa4\",\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{}}",
		",\"b\":[]}",
		",\"b\":\"x\"}",
		",\"\\u0062\":{\"t\":\"x\",\"s\":[1],\"o\":[4,8]}}",
		",\"\xc3\xa4\":{\"t\":\"x\",\"s\":[1],\"o\":[4,8]}}",
		",\"b\":{\"t\":\"x\",\"s\":[1],\"o\":[4,8]",
		",\"b\":{\"t\":\"x\",\"s\":[1],\"o\":[4,8",
		",\"b\":{\"t\":\"x",
		",\"b",
		",",
		"}",
		"",
	};
	struct alike alike = { fsdp_json_quick_new(&of_lists) };
	const struct fsdp_json_list *lists = alike.lists;
	for (size_t round = 0; round < 2; round++) {
		assert_true(fit(&alike,
			",\"bc\":{\"t\":\"x\",\"s\":[1234567890123456, 0],\"o\":[4,8]}}"));
		assert_string_equal(alike.key, "bc");
		assert_string_equal(alike.text, "x");
		assert_int_equal(alike.text_offset, 21);
		assert_int_equal(alike.meaning, round);
		*alike.member.meaning = 1;
		assert_int_equal(lists[0].size, 2);
		assert_int_equal(lists[0].counts[0], 1234567890123456);
		assert_int_equal(lists[0].counts[1], 0);
		assert_int_equal(lists[1].size, 2);
		assert_int_equal(lists[1].counts[1], 8);
		assert_true(fit(&alike,
			" ,\n \"\" : { \"o\": [12345678], \"t\": \"yz\", \"s\":[] } }"));
		assert_string_equal(alike.key, "");
		assert_string_equal(alike.text, "yz");
		assert_int_equal(alike.meaning, 0);
		assert_int_equal(lists[0].size, 0);
		assert_int_equal(lists[1].size, 1);
		assert_int_equal(lists[1].counts[0], 12345678);
		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			assert_false(fit(&alike, others[i]));
	}
	fsdp_json_quick_free(alike.quick);
}

/* Kinds of levels are kept in words of 64 bits. */
static void passes_members_deep_inside(void **state)
{
	(void)state;
	struct alike alike = { fsdp_json_quick_new(&of_texts) };
	for (alike.arrays = 61; alike.arrays <= 64; alike.arrays++)
		assert_true(fit(&alike, ",\"b\":\"file\"}"));
	fsdp_json_quick_free(alike.quick);
}

static void passes_members_that_are_texts(void **state)
{
	(void)state;
	static const char *const others[] = { ",\"b\":{}}", ",\"b\":\"\"}", ",\"b\":7}",
		",\"b\":\"\\n\"}", ",\"b\" \"x\"}", ",\"b\":\"x" };
	struct alike alike = { fsdp_json_quick_new(&of_texts) };
	for (uint32_t round = 0; round < 3; round++) {
		assert_true(fit(&alike, ", \"b\" : \"file\" }"));
		assert_string_equal(alike.text, "file");
		assert_int_equal(alike.text_offset, 18);
		assert_int_equal(alike.meaning, round);
		*alike.member.meaning = round + 1;
		assert_true(fit(&alike, ", \"b\" : \"other\" }"));
		assert_int_equal(alike.meaning, 0);
		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			assert_false(fit(&alike, others[i]));
	}
	/* The same but for the last byte of a piece. */
	assert_true(fit(&alike, ",\"b\":\"01234567890123\"}"));
	assert_true(fit(&alike, ",\"b\":\"01234567890123x\"}"));
	assert_string_equal(alike.text, "01234567890123x");
	/* Longer than what is remembered: it has no meaning for long. */
	for (uint32_t round = 0; round < 2; round++) {
		assert_true(
			fit(&alike, ",\"b\":\"0123456789012345678901234567890123456789"
				    "01234567890123456789012345678901234567890\"}"));
		assert_int_equal(alike.meaning, 0);
		*alike.member.meaning = 1;
	}
	fsdp_json_quick_free(alike.quick);
}

static void counts_of_a_list_have_their_room(void **state)
{
	(void)state;
	struct alike alike = { fsdp_json_quick_new(&of_lists) };
	for (int count = FSDP_QUICK_COUNTS; count <= FSDP_QUICK_COUNTS + 1; count++) {
		char text[300];
		int at = snprintf(
			text, sizeof text, ",\"b\":{\"t\":\"x\",\"s\":[],\"o\":[");
		for (int i = 0; i < count; i++)
			at += snprintf(text + at, sizeof text - (size_t)at, "%d,", i);
		memcpy(text + at - 1, "]}}", 4);
		assert_int_equal(fit(&alike, text), count == FSDP_QUICK_COUNTS);
		assert_int_equal(alike.lists[1].size, FSDP_QUICK_COUNTS);
		assert_int_equal(alike.lists[1].counts[63], 63);
	}
	fsdp_json_quick_free(alike.quick);
}

/* The same text between two lists, and not the same keys before it. */
static void each_key_comes_once(void **state)
{
	(void)state;
	static const struct fsdp_span abct[] = { FSDP_SPAN_INIT("a"), FSDP_SPAN_INIT("b"),
		FSDP_SPAN_INIT("c"), FSDP_SPAN_INIT("t") };
	static const struct fsdp_json_wanted of_three = {
		.keys = abct,
		.key_count = 4,
		.members = true,
		.list_count = 3,
	};
	struct alike alike = { fsdp_json_quick_new(&of_three) };
	assert_true(fit(&alike, ",\"k\":{\"t\":\"x\",\"a\":[],\"b\":[],\"c\":[]}}"));
	assert_true(fit(&alike, ",\"k\":{\"t\":\"x\",\"c\":[],\"b\":[],\"a\":[]}}"));
	assert_false(fit(&alike, ",\"k\":{\"t\":\"x\",\"c\":[],\"b\":[],\"c\":[]}}"));
	fsdp_json_quick_free(alike.quick);
}

/* More of them than are remembered. */
static void passes_members_that_do_not_look_alike(void **state)
{
	(void)state;
	struct alike alike = { fsdp_json_quick_new(&of_texts) };
	for (int i = 0; i < 3 * FSDP_QUICK_PIECES; i++) {
		char text[32], file[16];
		snprintf(file, sizeof file, "%d", i);
		snprintf(text, sizeof text, ",\"k\":\"%d\"}", i);
		assert_true(fit(&alike, text));
		assert_string_equal(alike.text, file);
	}
	assert_int_equal(alike.quick->pieces.count, FSDP_QUICK_PIECES);
	fsdp_json_quick_free(alike.quick);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_of_every_kind),
		cmocka_unit_test(offsets_count_from_the_start_of_the_stream),
		cmocka_unit_test(refuses_what_is_not_json),
		cmocka_unit_test(depth_has_a_limit),
		cmocka_unit_test(skips_what_is_not_wanted),
		cmocka_unit_test(passes_objects_that_look_alike),
		cmocka_unit_test(leaves_alone_what_is_not_plain),
		cmocka_unit_test(passes_texts_of_any_length),
		cmocka_unit_test(passes_no_object_near_the_limit_of_depth),
		cmocka_unit_test(passes_objects_from_their_begin_only),
		cmocka_unit_test(passes_objects_that_do_not_look_alike),
		cmocka_unit_test(holds_what_is_long_up_to_the_limit),
		cmocka_unit_test(decodes_escapes),
		cmocka_unit_test(reads_and_counts_what_others_write),
		cmocka_unit_test(goes_on_at_the_next_event),
		cmocka_unit_test(seeks_a_member),
		cmocka_unit_test(fixed_point_is_exact),
		cmocka_unit_test(passes_members_that_look_alike),
		cmocka_unit_test(passes_members_deep_inside),
		cmocka_unit_test(passes_members_that_are_texts),
		cmocka_unit_test(counts_of_a_list_have_their_room),
		cmocka_unit_test(each_key_comes_once),
		cmocka_unit_test(passes_members_that_do_not_look_alike),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
