/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <errno.h>
#include <math.h>
#include <sys/resource.h>

static const struct looks plain_looks;

static const struct column columns[] = {
	{ .name = "key" },
	{ .name = "name" },
	{ .name = "shape" },
	{ .name = "bytes", .machine_only = true },
	{ .name = "mean" },
	{ .name = "alias" },
	{ .name = "mark", .text_only = true },
};
static const struct table table = {
	.key = "tensors",
	.columns = columns,
	.column_count = 7,
	.main = true,
};

static void emit_row(struct out *out, struct value name, struct value last)
{
	static const int64_t shape[] = { 2, 3 };
	const struct value values[] = { value_integer(-1), name, value_shape(shape, 2),
		value_bytes(24), value_number((double)NAN), last, value_word("*") };
	out_row(out, values);
}

static void emit_rows(struct out *out)
{
	const struct text texts[] = { TEXT("a"), TEXT("b") };
	out_line(out, NULL, "for people");
	out_field(out, "key", value_count(1));
	out_table_begin(out, &table);
	emit_row(out, NAME("plain"), value_null());
	emit_row(out, NAME("a,\"b\""), value_texts(texts, 2));
	emit_row(out, NAME("=1+2"), value_absent());
	emit_row(out, NAME("\t\n\\\x1b\u202e\xff"), value_bool(true));
	out_table_end(out);
	struct table other = table;
	other.main = false;
	out_table_begin(out, &other);
	emit_row(out, NAME("not in the main table"), value_absent());
	out_table_end(out);
}

static void csv_is_rfc_4180(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "csv", plain_looks);
	begin_and_end(capture.out, emit_rows);
	assert_captured(&capture,
		"key,name,shape,mean,alias,mark\r\n"
		"-1,plain,2x3,NaN,,*\r\n"
		"-1,\"a,\"\"b\"\"\",2x3,NaN,\"a,b\",*\r\n"
		"-1,'=1+2,2x3,NaN,,*\r\n"
		"-1,\"'\t\n\\\\\\x1b\\u{202e}\\xff\",2x3,NaN,true,*\r\n");
}

static void tsv_is_for_awk(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "tsv", plain_looks);
	begin_and_end(capture.out, emit_rows);
	assert_captured(&capture,
		"key\tname\tshape\tmean\talias\tmark\n"
		"-1\tplain\t2x3\tNaN\t\t*\n"
		"-1\ta,\"b\"\t2x3\tNaN\ta,b\t*\n"
		"-1\t'=1+2\t2x3\tNaN\t\t*\n"
		"-1\t'\\t\\n\\\\\\x1b\\u{202e}\\xff\t2x3\tNaN\ttrue\t*\n");
}

static void emit_one_column(struct out *out)
{
	static const size_t chosen[] = { 5 };
	struct table one = table;
	one.chosen = chosen;
	one.chosen_count = 1;
	static const char *const formulas[] = { "=", "+", "-", "@", "\t", "\r", "'", "" };
	out_table_begin(out, &one);
	emit_row(out, NAME("a"), value_absent());
	for (size_t i = 0; i < 8; i++)
		emit_row(out, NAME("a"), value_word(formulas[i]));
	const struct text list[] = { TEXT("=a"), TEXT("b") };
	emit_row(out, NAME("a"), value_texts(list, 2));
	const struct token tokens[] = {
		{ .type = TOKEN_ARRAY, .count = 1 },
		{ .type = TOKEN_TEXT, .text = TEXT("x\n") },
	};
	emit_row(out, NAME("a"),
		(struct value){ .type = VALUE_TOKENS, .tokens = { tokens, 2 } });
	out_table_end(out);
}

static void formulas_are_defused_and_numbers_are_not(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "csv", plain_looks);
	begin_and_end(capture.out, emit_one_column);
	assert_captured(&capture, "alias\r\n\"\"\r\n'=\r\n'+\r\n'-\r\n'@\r\n'\t\r\n"
				  "\"'\r\"\r\n'\r\n\"\"\r\n"
				  "\"'=a,b\"\r\n\"[\"\"x\\n\"\"]\"\r\n");
}

static void names_are_one_a_line(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "name", plain_looks);
	begin_and_end(capture.out, emit_rows);
	assert_captured(
		&capture, "plain\na,\"b\"\n=1+2\n\\x09\\x0a\\\\\\x1b\\u{202e}\\xff\n");
}

static void raw_names_end_with_zero(void **state)
{
	(void)state;
	static const char expected[] = "plain\0a,\"b\"\0=1+2\0\t\n\\\x1b\u202e\xff";
	struct capture capture;
	capture_open(&capture, "name", (struct looks){ .null_names = true });
	begin_and_end(capture.out, emit_rows);
	capture_close(&capture);
	assert_int_equal(capture.size, sizeof expected);
	assert_memory_equal(capture.data, expected, sizeof expected);
	capture_free(&capture);
}

static void emit_groups(struct out *out)
{
	static const struct column group_columns[] = { { .name = "pieces" },
		{ .name = "file" } };
	const struct table groups = {
		.key = "groups", .columns = group_columns, .column_count = 2, .main = true
	};
	const struct value values[] = { value_count(3), NAME("f") };
	out_table_begin(out, &groups);
	out_row(out, values);
	out_table_end(out);
	const struct value numbers[] = { value_count(3), value_integer(-4) };
	out_table_begin(out, &groups);
	out_row(out, numbers);
	out_table_end(out);
	const struct tree_node node = { .depth = 1, .name = TEXT("shown") };
	out_table_begin(out, &groups);
	out_node(out, &node, values);
	out_table_end(out);
}

static void a_table_without_names_shows_what_it_has(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "name", plain_looks);
	begin_and_end(capture.out, emit_groups);
	assert_captured(&capture, "f\n3\nf\n");
}

static void emit_edges(struct out *out)
{
	static const struct column first[] = { { .name = "a" }, { .name = "b" } };
	struct table bare = {
		.key = "c", .columns = first, .column_count = 2, .main = true
	};
	const struct value names[] = { NAME(",x"), NAME("\rx") };
	const struct value nothing[] = { NAME("\0="), NAME("") };
	bare.no_header = true;
	out_table_begin(out, &bare);
	out_row(out, names);
	out_row(out, nothing);
	out_table_end(out);
}

static void a_cell_is_judged_by_its_first_byte(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "csv", plain_looks);
	begin_and_end(capture.out, emit_edges);
	assert_captured(&capture, "\",x\",\"'\rx\"\r\n\\x00=,\r\n");
}

static void a_full_disk_is_told(void **state)
{
	(void)state;
	FILE *stream = fopen("/dev/full", "w");
	assert_non_null(stream);
	struct out *out = out_new(out_format_find("csv"), stream, &plain_looks);
	begin_and_end(out, emit_rows);
	assert_int_equal(out_finish(out), ENOSPC);
	out_free(out);
	fclose(stream);
}

/* There if the address sanitizer is, which needs more memory than this leaves: then the
 * test is not tried (cmocka writes a skip as a failure), but it is in builds without. */
extern void __asan_init(void) __attribute__((weak));

enum { LONG_TEXT = 64 << 20 };

static struct value long_value;

static void emit_long(struct out *out)
{
	static const struct column only[] = { { .name = "a" } };
	struct table one = {
		.key = "b", .columns = only, .column_count = 1, .main = true
	};
	out_table_begin(out, &one);
	out_row(out, &long_value);
	out_table_end(out);
}

static void expect_no_memory(struct value value)
{
	struct rlimit before, little = { 128 << 20, RLIM_INFINITY };
	FILE *stream = fopen("/dev/null", "w");
	assert_non_null(stream);
	struct out *out = out_new(out_format_find("csv"), stream, &plain_looks);
	jmp_buf end;
	long_value = value;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	little.rlim_max = before.rlim_max;
	memory_escape(&end);
	if (setjmp(end) == 0) {
		assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
		begin_and_end(out, emit_long);
		fail();
	}
	memory_escape(NULL);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	memory_free_all();
	fclose(stream);
}

/* A cell is gathered before it is written, and a list before it is a cell. */
static void a_cell_without_memory_ends_the_work(void **state)
{
	(void)state;
	if (__asan_init)
		return;
	char *data = malloc(LONG_TEXT);
	struct text text = { data, LONG_TEXT };
	assert_non_null(data);
	memset(data, 'x', LONG_TEXT);
	expect_no_memory(value_text(text));
	expect_no_memory(value_texts(&text, 1));
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_is_rfc_4180),
		cmocka_unit_test(tsv_is_for_awk),
		cmocka_unit_test(formulas_are_defused_and_numbers_are_not),
		cmocka_unit_test(names_are_one_a_line),
		cmocka_unit_test(raw_names_end_with_zero),
		cmocka_unit_test(a_table_without_names_shows_what_it_has),
		cmocka_unit_test(a_cell_is_judged_by_its_first_byte),
		cmocka_unit_test(a_full_disk_is_told),
		cmocka_unit_test(a_cell_without_memory_ends_the_work),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
