/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how the rows of commands and options become data: for completion scripts,
 * editors, and the test that compares them with the manual.
 */
#include <string.h>

#include "front/command.h"
#include "front/help-pages.h"

enum { MOST_WORDS = 64 };

static const char *const group_names[GROUP_COUNT] = {
	[GROUP_START] = "start",
	[GROUP_LOOK] = "look",
	[GROUP_TRACE] = "recordings",
	[GROUP_ABOUT] = "about",
};

static struct value default_of(const struct option *row)
{
	int64_t integer;

	if (row->initial == NULL)
		return value_absent();
	if (row->kind == OPTION_INTEGER &&
		option_integer(row->initial, row->minimum, row->maximum, &integer))
		return value_integer(integer);
	return value_word(row->initial);
}

static struct value words_of(const struct option *row, struct text words[MOST_WORDS])
{
	size_t count = 0;

	if (row->words == NULL)
		return value_absent();
	while (count < MOST_WORDS && row->words[count] != NULL) {
		words[count] = text_of(row->words[count]);
		count++;
	}
	return value_texts(words, count);
}

static void emit_option(struct out *out, const struct option *row)
{
	struct text words[MOST_WORDS];
	bool repeatable = row->kind == OPTION_COUNTED || row->kind == OPTION_LIST ||
			  row->kind == OPTION_WORDS;

	out_object_begin(out, NULL);
	out_field(out, "name", value_word(row->name));
	if (row->letter != '\0')
		out_field(out, "letter", value_text((struct text){ &row->letter, 1 }));
	out_field(out, "kind", value_word(help_kind_name(row->kind)));
	out_field(out, "argument", value_word(row->argument));
	out_field(out, "words", words_of(row, words));
	out_field(out, "default", default_of(row));
	out_field(out, "repeatable", value_bool(repeatable));
	out_field(out, "help", value_word(row->help));
	out_object_end(out);
}

static void emit_options(struct out *out, const struct option *rows)
{
	for (; rows != NULL && rows->name != NULL; rows++) {
		if (!rows->hidden)
			emit_option(out, rows);
	}
}

static void emit_outputs(struct out *out, const struct command *row)
{
	out_array_begin(out, "outputs");
	for (size_t i = 0; out_format(i) != NULL; i++) {
		if ((out_format(i)->shapes & row->shapes) != 0)
			out_field(out, NULL, value_word(out_format(i)->name));
	}
	if (row->shapes == 0)
		out_field(out, NULL, value_word("text"));
	out_array_end(out);
}

static void emit_command(struct out *out, const struct command *row)
{
	out_line(out, row->name, "%s", row->summary);
	out_object_begin(out, NULL);
	out_field(out, "name", value_word(row->name));
	out_field(out, "group", value_word(group_names[row->group]));
	out_field(out, "summary", value_word(row->summary));
	out_field(out, "synopsis", value_word(row->synopsis));
	out_array_begin(out, "options");
	emit_options(out, row->options);
	if (row->selectors)
		emit_options(out, select_options);
	emit_options(out, common_options);
	out_array_end(out);
	emit_outputs(out, row);
	out_field(out, "exit_1", value_word(row->exit_1));
	out_object_end(out);
}

static bool run_commands(struct run *run, struct fsdp_error **ret_error)
{
	(void)ret_error;
	run_begin(run, STATUS_GOOD);
	out_items_begin(run->out, "commands");
	for (size_t i = 0; command(i) != NULL; i++)
		emit_command(run->out, command(i));
	out_array_end(run->out);
	return true;
}

const struct command command_commands = {
	.name = "commands",
	.group = GROUP_ABOUT,
	.summary = "every command, option and word",
	.synopsis = "",
	.examples = { "commands", "commands --json" },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS,
	.output = "text",
	.inputs = INPUTS_NONE,
	.run = run_commands,
};
