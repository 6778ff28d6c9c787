/* SPDX-License-Identifier: Apache-2.0 */
/* Tables on a narrow terminal: what names share is said once, and no two look alike. */
#include "capture.h"

static const struct column columns[] = {
	{ .name = "name" },
	{ .name = "bytes", .right = true },
	{ .name = "file" },
};

static void emit(struct capture *capture, int width, const char *const (*rows)[2])
{
	const struct table table = {
		.key = "rows", .columns = columns, .column_count = 3, .main = true
	};

	capture_open(capture, "text", (struct looks){ .width = width, .ascii = true });
	out_table_begin(capture->out, &table);
	for (; (*rows)[0] != NULL; rows++) {
		struct value values[] = { value_name(text_of((*rows)[0])),
			value_count(1234567), value_name(text_of((*rows)[1])) };
		out_row(capture->out, values);
	}
	out_table_end(capture->out);
}

static void what_all_share_is_said_once(void **state)
{
	static const char *const rows[][2] = {
		{ "model.layers.0.weight", "model-00001-of-00002.safetensors" },
		{ "model.layers.1.bias", "model-00002-of-00002.safetensors" },
		{ NULL },
	};
	struct capture capture;

	(void)state;
	emit(&capture, 45, rows);
	assert_captured(&capture, "each file begins with model-\n"
				  "    and ends with -of-00002.safetensors\n"
				  "NAME                     BYTES  FILE\n"
				  "model.layers.0.weight  1234567  00001\n"
				  "model.layers.1.bias    1234567  00002\n");
	emit(&capture, 30, rows);
	assert_captured(&capture, "each file begins with model-\n"
				  "    and ends with -of-00002.safetensors\n"
				  "each name begins with model.layers.\n"
				  "NAME        BYTES  FILE\n"
				  "0.weight  1234567  00001\n"
				  "1.bias    1234567  00002\n");
	emit(&capture, 90, rows);
	assert_captured(&capture,
		"NAME                     BYTES  FILE\n"
		"model.layers.0.weight  1234567  model-00001-of-00002.safetensors\n"
		"model.layers.1.bias    1234567  model-00002-of-00002.safetensors\n");
}

/* The front of one is the back of another; nothing may be taken twice. */
static void something_is_left_of_the_shortest(void **state)
{
	static const char *const rows[][2] = {
		{ "encoder.block.encoder.block", "a" },
		{ "encoder.block.of.the.other.side.encoder.block", "b" },
		{ NULL },
	};
	static const char *const same[][2] = {
		{ "a.name.that.is.long.enough.to.cut", "a" },
		{ "a.name.that.is.long.enough.to.cut", "b" },
		{ NULL },
	};
	struct capture capture;

	(void)state;
	emit(&capture, 31, rows);
	assert_captured(&capture, "each name begins with encoder.block.\n"
				  "NAME                BYTES  FILE\n"
				  "encoder.block     1234567  a\n"
				  "of.the...r.block  1234567  b\n");
	/* The head of the last column has no room: each row takes two lines. */
	emit(&capture, 30, rows);
	assert_captured(&capture, "each name begins with encoder.block.\n"
				  "NAME\n"
				  "      BYTES  FILE\n"
				  "encoder.block\n"
				  "    1234567  a\n"
				  "of.the.other.....encoder.block\n"
				  "    1234567  b\n");
	emit(&capture, 30, same);
	capture_close(&capture);
	assert_non_null(strstr(capture.data, "each name begins with a.name"));
	capture_free(&capture);
}

/* Their fronts and backs are alike. */
static void no_two_look_alike(void **state)
{
	static const char *const rows[][2] = {
		{ "aaaaaaaaaaaaaaaaaaaa0bbbbbbbbbbbbbbbbbbbb", "a" },
		{ "aaaaaaaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbb", "b" },
		{ "short", "c" },
		{ NULL },
	};
	static const char *const between[][2] = {
		{ "aaaaaaaaaaaaaaaaaaaa0bbbbbbbbbbbbbbbbbbbb", "a" },
		{ "cccccccccccccccccccccdddddddddddddddddddd", "b" },
		{ "aaaaaaaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbb", "c" },
		{ NULL },
	};
	static const char *const apart[][2] = {
		{ "0aaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbb", "a" },
		{ "1aaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbb", "b" },
		{ NULL },
	};
	struct capture capture;

	(void)state;
	emit(&capture, 36, rows);
	assert_captured(&capture, "NAME                     BYTES  FILE\n"
				  "aaaaaaaaaaaaaaaaaaaa0bbbbbbbbbbbbbbbbbbbb\n"
				  "                       1234567  a\n"
				  "aaaaaaaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbb\n"
				  "                       1234567  b\n"
				  "short                  1234567  c\n");
	emit(&capture, 36, between);
	assert_captured(&capture, "NAME                     BYTES  FILE\n"
				  "aaaaaaaaaaaaaaaaaaaa0bbbbbbbbbbbbbbbbbbbb\n"
				  "                       1234567  a\n"
				  "cccccccccccccccccccccdddddddddddddddddddd\n"
				  "                       1234567  b\n"
				  "aaaaaaaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbb\n"
				  "                       1234567  c\n");
	emit(&capture, 36, apart);
	assert_captured(&capture, "NAME                     BYTES  FILE\n"
				  "0aaaaaaaa...bbbbbbbbb  1234567  a\n"
				  "1aaaaaaaa...bbbbbbbbb  1234567  b\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_all_share_is_said_once),
		cmocka_unit_test(something_is_left_of_the_shortest),
		cmocka_unit_test(no_two_look_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
