/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include "render/writer.h"

static const struct looks pipe_looks;

static void emit_facts(struct out *out)
{
	out_field(out, "machines", value_count(1));
	out_line(out, NULL, "%s: %d ranks", "step-1000", 8);
	out_line(out, "plan", "%s", "a.fsdp-plan.json");
	out_line_begin(out, "parameters");
	out_line_value(out, value_elements(UINT64_C(8030261248)));
	out_line_text(out, " in %d tensors, ", 291);
	out_line_value(out, value_bytes(UINT64_C(16060522496)));
	out_line_end(out);
	out_line_begin(out, "names");
	out_line_name(out, TEXT("a\x1b]0;x\x07\\"));
	out_line_end(out);
	out_line(out, "a label that is long", "text");
	out_line(out, "", "below");
	out_line(out, "nothing", "%s", "");
	out_line(out, NULL, "%s", "");
	out_line(out, NULL, "no %s here", "new\nline");
}

static void facts_are_labels_and_sentences(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_facts);
	assert_captured(&capture, "step-1000: 8 ranks\n"
				  "  plan         a.fsdp-plan.json\n"
				  "  parameters   8.03 B in 291 tensors, 14.96 GiB\n"
				  "  names        a\\x1b]0;x\\x07\\\\\n"
				  "  a label that is long  text\n"
				  "               below\n"
				  "  nothing\n"
				  "\n"
				  "no new\\x0aline here\n");
}

static void emit_values(struct out *out)
{
	out_values_line(out, "model", "{} tensor{s}[, {} in {} part{s}], {}",
		value_count(1), value_bytes(2048), value_count(2), value_word("x"));
	out_values_line(out, "model", "{} tensor{s}[, {} in {} part{s}], {}",
		value_count(2), value_bytes(UINT64_MAX), value_count(2), value_word("x"));
	out_values_line(out, NULL, "{[}{}{]}[ ({})] of {} element{s}",
		value_name(TEXT("a\n")), value_null(), value_shape((int64_t[]){ 1 }, 1));
	out_fill_line(out, NULL, "not run {(audit)}[.]", NULL);
}

static void values_fill_formats(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_values);
	assert_captured(&capture, "  model        1 tensor, 2.0 KiB in 2 parts, x\n"
				  "  model        2 tensors, x\n"
				  "[a\\x0a] of 1 element\n"
				  "not run (audit).\n");
}

static void emit_long_line(struct out *out)
{
	char text[2001];
	memset(text, 'x', 2000);
	text[2000] = '\0';
	out_line(out, NULL, "%s", text);
	text[511] = '\0';
	out_line(out, NULL, "%s", text);
	text[512] = '\0';
	out_line(out, NULL, "%s%s", text, "");
}

static void a_sentence_may_be_of_any_length(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_long_line);
	capture_close(&capture);
	assert_int_equal(capture.size, 2001 + 512 + 512);
	assert_int_equal(capture.data[2000], '\n');
	capture_free(&capture);
}

static void emit_verbatim(struct out *out)
{
	out_verbatim(out, TEXT("a\n  b\x1b\\\n\nc\\d"));
	out_verbatim(out, TEXT("\n"));
	out_verbatim(out, TEXT(""));
}

static void verbatim_keeps_its_lines(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_verbatim);
	assert_captured(&capture, "a\n  b\\x1b\\\\\n\nc\\d\n");
}

static const struct column columns[] = {
	{ .name = "name" },
	{ .name = "dtype" },
	{ .name = "shape" },
	{ .name = "bytes", .right = true },
	{ .name = "file_name", .machine_only = true },
	{ .name = "alias" },
};

static const struct table tensors = {
	.key = "tensors",
	.columns = columns,
	.column_count = 6,
	.main = true,
};

static void emit_row(struct out *out, struct value name, size_t dims, struct value last)
{
	static const int64_t shape[] = { 4096, 14336 };
	const struct value values[] = { name, value_word("bfloat16"),
		value_shape(shape, dims), value_bytes(dims == 2 ? 117440512 : 96),
		value_word("f"), last };
	out_row(out, values);
}

static void emit_table(struct out *out, const struct table *table)
{
	const struct text texts[] = { TEXT("x"), TEXT("y\n") };
	out_table_begin(out, table);
	emit_row(out, NAME("layers.31.mlp.down_proj.weight"), 2, value_texts(texts, 2));
	emit_row(out, NAME("重み"), 0, value_absent());
	emit_row(out, NAME("\x1b[2J"), 1, value_word(""));
	out_table_end(out);
}

static void emit_tensors(struct out *out)
{
	emit_table(out, &tensors);
}

static void tables_line_up(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_tensors);
	assert_captured(&capture,
		"NAME                            DTYPE     SHAPE           BYTES  ALIAS\n"
		"layers.31.mlp.down_proj.weight  bfloat16  4096x14336  112.0 MiB  "
		"x,y\\x0a\n"
		"重み                            bfloat16  []               96 B  -\n"
		"\\x1b[2J                         bfloat16  4096             96 B\n");
	capture_open(&capture, "text", (struct looks){ .sizes = HUMAN_EXACT });
	static const size_t chosen[] = { 3, 4 };
	struct table table = tensors;
	table.chosen = chosen;
	table.chosen_count = 2;
	table.indent = 2;
	emit_table(capture.out, &table);
	table.no_header = true;
	emit_table(capture.out, &table);
	table.machine_only = true;
	emit_table(capture.out, &table);
	assert_captured(&capture, "      BYTES  FILE_NAME\n"
				  "  117440512  f\n"
				  "         96  f\n"
				  "         96  f\n"
				  "  117440512  f\n"
				  "         96  f\n"
				  "         96  f\n");
}

static void an_empty_table_is_nothing(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	out_table_begin(capture.out, &tensors);
	out_table_end(capture.out);
	emit_table(capture.out, &tensors);
	capture_close(&capture);
	assert_int_equal(strncmp(capture.data, "NAME  ", 6), 0);
	capture_free(&capture);
}

static void names_lose_their_middle_on_a_terminal(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", (struct looks){ .width = 60 });
	begin_and_end(capture.out, emit_tensors);
	assert_captured(&capture,
		"NAME                DTYPE     SHAPE           BYTES  ALIAS\n"
		"layers.3…oj.weight  bfloat16  4096x14336  112.0 MiB  x,y\\x0a\n"
		"重み                bfloat16  []               96 B  -\n"
		"\\x1b[2J             bfloat16  4096             96 B\n");
}

static void emit_wide_names(struct out *out)
{
	out_table_begin(out, &tensors);
	emit_row(out, NAME("重み重み重み重み重み重み重み重み重み"), 2, value_absent());
	emit_row(out, NAME("a重み重み重み重み重み重み重み重み重み"), 2, value_absent());
	out_table_end(out);
}

static void half_a_wide_character_is_a_space(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", (struct looks){ .width = 58 });
	begin_and_end(capture.out, emit_wide_names);
	assert_captured(&capture,
		"NAME                       DTYPE     SHAPE           BYTES\n"
		"重み重み重み…重み重み重み  bfloat16  4096x14336  112.0 MiB\n"
		"a重み重み重…重み重み重み   bfloat16  4096x14336  112.0 MiB\n");
}

static void emit_many_rows(struct out *out)
{
	out_table_begin(out, &tensors);
	for (size_t i = 0; i < 20000; i++) {
		char name[200];
		int size = snprintf(name, sizeof name, "layers.%zu.weight", i);
		if (i > 2000)
			memset(name + size, 'x', (size_t)(i % 100));
		emit_row(out,
			value_name((struct text){
				name, (size_t)size + (i > 2000 ? i % 100 : 0) }),
			i % 3, value_absent());
	}
	out_table_end(out);
}

static void check_lines(const char *data, size_t lines, size_t width)
{
	size_t count = 0;
	for (const char *line = data; *line != '\0'; count++) {
		const char *newline = strchr(line, '\n');
		assert_non_null(newline);
		assert_true(newline == line || newline[-1] != ' ');
		assert_true(
			width == 0 || width_of(line, (size_t)(newline - line)) <= width);
		line = newline + 1;
	}
	assert_int_equal(count, lines);
}

static void twenty_thousand_rows(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_many_rows);
	capture_close(&capture);
	check_lines(capture.data, 20001, 0);
	capture_free(&capture);
	capture_open(&capture, "text", (struct looks){ .width = 80, .ascii = true });
	begin_and_end(capture.out, emit_many_rows);
	capture_close(&capture);
	check_lines(capture.data, 20001, 80);
	assert_null(strstr(capture.data, "…"));
	capture_free(&capture);
}

static void emit_long_names(struct out *out)
{
	static char name[5000];
	memset(name, 'n', sizeof name);
	memcpy(name + 4095, "\xc3\xa9", 2);
	static const struct column one[] = { { .name = "name" } };
	const struct table table = {
		.columns = one, .column_count = 1, .main = true, .no_header = true
	};
	const struct value value = value_name((struct text){ name, sizeof name });
	out_table_begin(out, &table);
	out_row(out, &value);
	out_table_end(out);
}

static void names_beyond_the_limit_are_cut_in_text_only(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_long_names);
	capture_close(&capture);
	assert_string_equal(capture.data + 4095, "…(5000 bytes)\n");
	capture_free(&capture);
	struct looks shorter = pipe_looks;
	shorter.name_bytes = 5000;
	capture_open(&capture, "text", shorter);
	begin_and_end(capture.out, emit_long_names);
	capture_close(&capture);
	assert_int_equal(capture.size, 5001);
	capture_free(&capture);
	shorter.name_bytes = 4999;
	capture_open(&capture, "text", shorter);
	begin_and_end(capture.out, emit_long_names);
	capture_close(&capture);
	assert_non_null(strstr(capture.data, "(5000 bytes)"));
	capture_free(&capture);
	capture_open(&capture, "name", pipe_looks);
	begin_and_end(capture.out, emit_long_names);
	capture_close(&capture);
	assert_int_equal(capture.size, 5001);
	capture_free(&capture);
}

static void emit_node(struct out *out, struct tree_node node)
{
	const struct value value = value_name(node.name);
	out_node(out, &node, &value);
}

static void emit_tree(struct out *out, bool sizes)
{
	static const struct column one[] = { { .name = "name" } };
	const struct table table = {
		.key = "modules", .columns = one, .column_count = 1, .tree = true
	};
	const struct value large[] = { value_elements(58720256), value_bytes(117440512) };
	const struct value small[] = { value_elements(7), value_absent() };
	out_table_begin(out, &table);
	emit_node(out, (struct tree_node){ .class_name = TEXT("Transformer"),
			       .mark = "FULLY SHARDED",
			       .trail = large,
			       .trail_count = sizes ? 2 : 0 });
	emit_node(out, (struct tree_node){ .depth = 1,
			       .name = TEXT("embed\x1b"),
			       .class_name = TEXT("Embedding"),
			       .class_guessed = true,
			       .trail = small,
			       .trail_count = sizes ? 2 : 0 });
	emit_node(out, (struct tree_node){ .depth = 2, .name = TEXT("layers.0") });
	emit_node(out, (struct tree_node){ .depth = 256, .name = TEXT("deep") });
	emit_node(out, (struct tree_node){ .depth = 300, .name = TEXT("deeper") });
	emit_node(out, (struct tree_node){ .depth = 0 });
	out_table_end(out);
}

static void trees_are_indented_until_they_are_too_deep(void **state)
{
	(void)state;
	struct capture capture;
	char expected[2000];
	snprintf(expected, sizeof expected,
		"[Transformer] FULLY SHARDED\n"
		"    embed\\x1b[~Embedding]\n"
		"        layers.0\n"
		"%1024sdeep\n"
		"{300} deeper\n"
		"(root)\n",
		"");
	capture_open(&capture, "text", pipe_looks);
	emit_tree(capture.out, false);
	assert_captured(&capture, expected);
}

static void emit_sized_tree(struct out *out, struct text name)
{
	static const struct column one[] = { { .name = "name" } };
	const struct table table = {
		.key = "modules", .columns = one, .column_count = 1, .tree = true
	};
	const struct value large[] = { value_elements(58720256), value_bytes(117440512) };
	const struct value small[] = { value_elements(7), value_absent() };
	out_table_begin(out, &table);
	emit_node(out, (struct tree_node){ .name = name,
			       .class_name = TEXT("Linear"),
			       .trail = large,
			       .trail_count = 2 });
	emit_node(out, (struct tree_node){ .depth = 1,
			       .name = TEXT("a"),
			       .trail = small,
			       .trail_count = 2 });
	emit_node(out, (struct tree_node){ .depth = 1, .name = TEXT("b") });
	out_table_end(out);
}

static void sizes_stand_at_the_right(void **state)
{
	char long_name[400];

	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	emit_sized_tree(capture.out, TEXT("model"));
	assert_captured(&capture, "model[Linear]  58.7 M  112.0 MiB\n"
				  "    a               7\n"
				  "    b\n");
	/* Names of modules are shortened only where they would fill lines; sizes go below
	 * names that leave them no room. */
	capture_open(&capture, "text", (struct looks){ .width = 30, .ascii = true });
	emit_sized_tree(capture.out, TEXT("a.name.that.is.longer.than.the.line"));
	assert_captured(&capture, "a.name.that.is.longer.than.the.line[Linear]\n"
				  "    58.7 M  112.0 MiB\n"
				  "    a\n"
				  "         7\n"
				  "    b\n");
	memset(long_name, 'x', sizeof long_name);
	capture_open(&capture, "text", (struct looks){ .width = 30, .ascii = true });
	emit_sized_tree(capture.out, (struct text){ long_name, sizeof long_name });
	capture_close(&capture);
	assert_int_equal(strcspn(capture.data, "["), 160);
	assert_non_null(strstr(capture.data, "x...x"));
	capture_free(&capture);
}

static void what_leads_a_tree_has_heads(void **state)
{
	static const char *const heads[] = { "PARAMS", "BYTES", NULL };
	static const struct column one[] = { { .name = "name" } };
	const struct table table = { .key = "modules",
		.columns = one,
		.column_count = 1,
		.tree = true,
		.heads = heads };
	const struct value large[] = { value_elements(58720256), value_bytes(117440512) };
	const struct value small[] = { value_elements(7), value_absent() };
	struct capture capture;

	(void)state;
	capture_open(&capture, "text", pipe_looks);
	out_table_begin(capture.out, &table);
	emit_node(capture.out,
		(struct tree_node){
			.class_name = TEXT("Net"), .name = TEXT(""), .lead = large });
	emit_node(capture.out,
		(struct tree_node){ .depth = 1, .name = TEXT("a"), .lead = small });
	emit_node(capture.out, (struct tree_node){ .depth = 2, .name = TEXT("w") });
	out_table_end(capture.out);
	assert_captured(&capture, "PARAMS      BYTES  MODULE\n"
				  "58.7 M  112.0 MiB  [Net]\n"
				  "     7          -    a\n"
				  "                       w\n");
}

static void colour_adds_and_takes_nothing(void **state)
{
	(void)state;
	struct capture plain, coloured;
	capture_open(&plain, "text", pipe_looks);
	begin_and_end(plain.out, emit_tensors);
	emit_tree(plain.out, true);
	capture_close(&plain);
	capture_open(&coloured, "text", (struct looks){ .color = true });
	begin_and_end(coloured.out, emit_tensors);
	emit_tree(coloured.out, true);
	capture_close(&coloured);
	size_t size = 0;
	for (const char *c = coloured.data; *c != '\0'; c++) {
		while (*c == '\033')
			c = strchr(c, 'm') + 1;
		coloured.data[size++] = *c;
	}
	coloured.data[size] = '\0';
	assert_true(coloured.size > size);
	assert_string_equal(coloured.data, plain.data);
	capture_free(&plain);
	capture_free(&coloured);
}

static void emit_deep_value(struct out *out)
{
	const struct token tokens[] = {
		{ .type = TOKEN_OBJECT, .count = 1 },
		{ .type = TOKEN_TEXT, .text = TEXT("k\x1b") },
		{ .type = TOKEN_ARRAY, .count = 2 },
		{ .type = TOKEN_NUMBER, .number = 0.5 },
		{ .type = TOKEN_NULL },
	};
	const struct path_part path[] = {
		{ .text = TEXT("a.b") },
		{ .is_integer = true, .integer = 3 },
	};
	out_line_begin(out, "value");
	out_line_value(
		out, (struct value){ .type = VALUE_TOKENS, .tokens = { tokens, 5 } });
	out_line_text(out, " at ");
	out_line_value(out, (struct value){ .type = VALUE_PATH, .path = { path, 2 } });
	out_line_end(out);
}

static void values_are_compact(void **state)
{
	(void)state;
	struct capture capture;
	capture_open(&capture, "text", pipe_looks);
	begin_and_end(capture.out, emit_deep_value);
	assert_captured(
		&capture, "  value        {\"k\\u001b\":[0.5,null]} at [\"a.b\",3]\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_are_labels_and_sentences),
		cmocka_unit_test(values_fill_formats),
		cmocka_unit_test(a_sentence_may_be_of_any_length),
		cmocka_unit_test(verbatim_keeps_its_lines),
		cmocka_unit_test(tables_line_up),
		cmocka_unit_test(an_empty_table_is_nothing),
		cmocka_unit_test(names_lose_their_middle_on_a_terminal),
		cmocka_unit_test(half_a_wide_character_is_a_space),
		cmocka_unit_test(twenty_thousand_rows),
		cmocka_unit_test(names_beyond_the_limit_are_cut_in_text_only),
		cmocka_unit_test(trees_are_indented_until_they_are_too_deep),
		cmocka_unit_test(sizes_stand_at_the_right),
		cmocka_unit_test(what_leads_a_tree_has_heads),
		cmocka_unit_test(colour_adds_and_takes_nothing),
		cmocka_unit_test(values_are_compact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
