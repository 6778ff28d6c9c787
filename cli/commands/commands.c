/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists all commands with their options, for completion scripts, editors, and the test
 * that compares them with the manual.
 */
#include "args/parse.h"
#include "render/record.h"

static const char *group_name(unsigned group)
{
	static const char *const names[GROUP_COUNT] = {
		[GROUP_START] = "start",
		[GROUP_LOOK] = "look",
		[GROUP_BYTES] = "bytes",
		[GROUP_TRACE] = "recordings",
		[GROUP_ABOUT] = "about",
	};

	return names[group];
}

static struct value get_letter(struct subject of)
{
	const struct option_row *row = of.object;

	return row->letter == '\0' ? value_absent()
				   : value_text((struct text){ &row->letter, 1 });
}

static const void *each_word(struct subject of, size_t i, void *room)
{
	const char *const *word = &((const struct option_row *)of.object)->words[i];

	(void)room;
	return *word != NULL ? word : NULL;
}

static struct value get_default(struct subject of)
{
	const struct option_row *row = of.object;
	int64_t integer;

	if (row->kind == OPTION_INTEGER && row->initial != NULL &&
		option_integer(row->initial, row->minimum, row->maximum, &integer))
		return value_integer(integer);
	return value_word(row->initial);
}

static struct value get_repeatable(struct subject of)
{
	enum option_kind kind = ((const struct option_row *)of.object)->kind;

	return value_bool(
		kind == OPTION_COUNTED || kind == OPTION_LIST || kind == OPTION_WORDS);
}

#define OPTION struct option_row
static const struct record option_record = OBJECT_RECORD(OPTION, "option",
	"An option of a command.",
	{ "name", WORD_AT(OPTION, name), ALWAYS("Long name, without dashes.") },
	{ "letter", GET(FIELD_TEXT, get_letter), ABOUT("Short form, without the dash.") },
	{ "kind", ENUM_AT(OPTION, kind, help_kind_name),
		ALWAYS("Kind of its value: `flag`, `count` (a flag that may be repeated), `integer`, `size`, `word` (one of `words`), `text` or `words` (several, separated by commas).") },
	{ "argument", WORD_AT(OPTION, argument),
		ABOUT("Name of its value in help; absent for flags.") },
	{ "words", EACH(each_word, record_words), IF_SET(struct option_row, words),
		ABOUT("Words that it takes, where they are fixed.") },
	{ "default", GET(FIELD_ANY, get_default),
		ABOUT("Value without the option, where there is one.") },
	{ "repeatable", GET(FIELD_BOOL, get_repeatable),
		ALWAYS("Whether it may be given several times.") },
	{ "help", WORD_AT(OPTION, help), ALWAYS("One line.") });

/* ---- commands ---- */

static const void *each_option(struct subject of, size_t i, void *room)
{
	(void)room;
	return command_option(of.object, i);
}

/* A command without shapes writes text of its own. */
static const void *each_output(struct subject of, size_t i, void *room)
{
	unsigned shapes = ((const struct command *)of.object)->shapes;
	const struct out_format *format;

	(void)room;
	for (size_t at = 0; (format = out_format(at)) != NULL; at++)
		if (((format->shapes & shapes) != 0 ||
			    (shapes == 0 && !format->machine)) &&
			i-- == 0)
			return &format->name;
	return NULL;
}

#define COMMAND struct command
static const struct record command_record = OBJECT_RECORD(COMMAND, "command",
	"A command.", { "name", WORD_AT(COMMAND, name), ALWAYS("Its name.") },
	{ "group", ENUM_AT(COMMAND, group, group_name),
		ALWAYS("Heading under which `help` lists it: `start`, `look`, `recordings` or `about`.") },
	{ "summary", WORD_AT(COMMAND, summary), ALWAYS("One line.") },
	{ "synopsis", WORD_AT(COMMAND, synopsis),
		ALWAYS("Options and arguments that it takes.") },
	{ "options", EACH(each_option, option_record),
		ALWAYS("All options that it takes.") },
	{ "outputs", EACH(each_output, record_words),
		ALWAYS("Output formats that it writes.") },
	{ "exit_1", WORD_AT(COMMAND, exit_1),
		ABOUT("Meaning of exit status 1; absent if it never ends with 1.") },
	{ "exit_4", WORD_AT(COMMAND, exit_4), ABOUT("The same of exit status 4.") });

static const struct record commands_record =
	OBJECT_RECORD(COMMAND, NULL, "The command line, for programs.",
		{ "commands", ITEMS(command_record),
			ALWAYS("Commands in the order of the overview.") });

static void run_commands(struct run *run)
{
	run_begin(run, STATUS_GOOD);
	out_items_begin(run->out, "commands");
	for (size_t i = 0; run->commands[i] != NULL; i++) {
		const struct command *row = run->commands[i];
		out_line(run->out, row->name, "%s", row->summary);
		out_record(
			run->out, NULL, &command_record, (struct subject){ NULL, row });
	}
	out_array_end(run->out);
}

const struct command command_commands = {
	.name = "commands",
	.group = GROUP_ABOUT,
	.summary = "list all commands, options and their values",
	.synopsis = "",
	.examples = { "commands", "commands --json" },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS,
	.answer = &commands_record,
	.output = "text",
	.inputs = INPUTS_NONE,
	.perform = run_commands,
};
