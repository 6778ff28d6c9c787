/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a command line into a command, options and words, and says what is wrong where
 * it does not fall into them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args/arguments.h"
#include "args/slip.h"

enum { GROUPS = 2 + SELECT_TABLES, MOST_GROUPS = 64 };

/* ---- defaults from the environment ---- */

static enum usage_result apply_environment(
	struct arguments *arguments, struct usage *usage)
{
	static const struct {
		const char *variable, *option;
	} defaults[] = {
		{ "FSDP_INSPECT_COLOR", "color" },
		{ "FSDP_INSPECT_JOBS", "jobs" },
		{ "FSDP_INSPECT_PROGRESS", "progress" },
	};

	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
		const char *value = getenv(defaults[i].variable);
		const struct option_row *row =
			option_find(common_options, defaults[i].option, '\0');
		char hint[sizeof usage->hint];
		enum usage_result result;

		if (value == NULL || *value == '\0')
			continue;
		result = option_set(
			row, &arguments->common, value, &arguments->owned, usage);
		if (result == USAGE_WRONG) {
			memcpy(hint, usage->hint, sizeof hint);
			usage_what(usage,
				"the environment says %s=%s, which is not a value for it",
				defaults[i].variable, value);
			usage_hint(usage, "%s", hint);
		}
		if (result != USAGE_GOOD)
			return result;
	}
	return USAGE_GOOD;
}

/* ---- what one row alone cannot tell ---- */

static bool check_common(const struct common_options *common, struct usage *usage)
{
	uint64_t offset, length;
	int64_t width;

	if (common->plan != NULL && common->no_plan) {
		usage_what(usage, "--plan and --no-plan exclude each other");
		usage_hint(usage, "give one of them");
		return false;
	}
	if (common->width != NULL && strcmp(common->width, "none") != 0 &&
		!option_integer(common->width, 20, 100000, &width)) {
		usage_what(usage, "--width: %s is not a width", common->width);
		usage_hint(usage, "a whole number from 20 to 100000, or none");
		return false;
	}
	if (common->range != NULL && !option_range(common->range, &offset, &length)) {
		usage_what(usage, "--range: %s is not a range of bytes", common->range);
		usage_hint(usage, "OFFSET or OFFSET:LENGTH, such as 4096:1MiB");
		return false;
	}
	return true;
}

/* What is accepted has an effect: these say how a checkpoint is opened. */
static bool check_inputs(const struct command *command,
	const struct common_options *common, struct usage *usage)
{
	const char *odd = common->plan != NULL    ? "--plan"
			  : common->no_plan       ? "--no-plan"
			  : common->raw           ? "--raw"
			  : common->separate      ? "--separate"
			  : common->range != NULL ? "--range"
						  : NULL;

	if (odd == NULL ||
		(command->inputs != INPUTS_RECORDINGS && command->inputs != INPUTS_NONE &&
			command->inputs != INPUTS_WORDS))
		return true;
	usage_what(usage, "%s opens no checkpoint, so %s has no meaning", command->name,
		odd);
	usage_hint(usage, "leave it out (fsdp-inspect help %s)", command->name);
	return false;
}

/* ---- in order ---- */

static size_t groups_of(struct arguments *arguments, struct option_group *groups)
{
	const struct command *command = arguments->command;
	size_t count = 0;

	/* The command's own rows come first: of two with one name, they win. */
	if (command->options != NULL)
		groups[count++] =
			(struct option_group){ command->options, arguments->options };
	groups[count++] = (struct option_group){ common_options, &arguments->common };
	for (size_t i = 0; command_selectors(command)[i] != NULL; i++)
		groups[count++] = (struct option_group){ command_selectors(command)[i],
			&arguments->select };
	return count;
}

static enum usage_result fill(
	int argc, char **argv, struct arguments *arguments, struct usage *usage)
{
	const struct command *command = arguments->command;
	struct option_group groups[GROUPS];
	enum usage_result result;
	size_t count;

	if (command->options_size > 0) {
		arguments->options = calloc(1, command->options_size);
		if (arguments->options == NULL)
			return USAGE_MEMORY;
	}
	count = groups_of(arguments, groups);
	arguments->filled = true;
	for (size_t i = 0; i < count; i++) {
		result = options_init(&groups[i], &arguments->owned, usage);
		if (result != USAGE_GOOD)
			return result;
	}
	for (size_t i = 0; i < SELECT_TABLES; i++)
		(void)options_init(
			&(struct option_group){ select_all[i], &arguments->select },
			&arguments->owned, usage);
	result = apply_environment(arguments, usage);
	if (result != USAGE_GOOD)
		return result;
	return options_parse(
		argc, argv, groups, count, &arguments->words, &arguments->owned, usage);
}

/* Options that need no command. */
static const struct option_row first_options[] = {
	{ "help", 'h', OPTION_FLAG, .offset = offsetof(struct common_options, help) },
	{ "version", 'V', OPTION_FLAG,
		.offset = offsetof(struct common_options, version) },
	{ NULL },
};

static size_t every_group(const struct command *const *commands,
	struct common_options *first, struct option_group *groups)
{
	size_t count = 0;

	groups[count++] = (struct option_group){ first_options, first };
	groups[count++] = (struct option_group){ common_options, NULL };
	for (size_t i = 0; i < SELECT_TABLES; i++)
		groups[count++] = (struct option_group){ select_all[i], NULL };
	for (; *commands != NULL && count < MOST_GROUPS; commands++)
		if ((*commands)->options != NULL)
			groups[count++] =
				(struct option_group){ (*commands)->options, NULL };
	return count;
}

/* The command is the first word; which words there are depends on the options that take
 * a value. So all options of all commands are parsed once, and what is wrong is ignored.
 */
static enum usage_result peek(
	int argc, char **argv, struct arguments *arguments, struct texts *ret_words)
{
	struct option_group groups[MOST_GROUPS];
	enum usage_result result = options_parse(argc, argv, groups,
		every_group(arguments->commands, &arguments->common, groups), ret_words,
		&arguments->owned, NULL);

	if (ret_words->count > 0)
		arguments->command =
			command_find(arguments->commands, ret_words->items[0]);
	return result;
}

/* Options but no command: which of them is wrong, if any. */
static enum arguments_result refuse_options(
	int argc, char **argv, struct arguments *arguments, struct usage *usage)
{
	struct option_group groups[MOST_GROUPS];
	char name[sizeof usage->what];
	struct texts words = { 0 };
	enum usage_result result = options_parse(argc, argv, groups,
		every_group(arguments->commands, NULL, groups), &words, &arguments->owned,
		usage);

	free(words.items);
	if (result == USAGE_MEMORY)
		return ARGUMENTS_MEMORY;
	if (result == USAGE_UNKNOWN) {
		memcpy(name, usage->what, sizeof name);
		usage_what(usage, "unknown option %s", name);
	} else if (result == USAGE_GOOD) {
		usage_what(usage, "no command given");
	}
	usage_hint(usage, "fsdp-inspect help");
	return ARGUMENTS_WRONG;
}

static enum arguments_result read_words(int argc, char **argv,
	struct arguments *arguments, const struct texts *words, struct usage *usage)
{
	const char *word = words->count > 0 ? words->items[0] : NULL;

	if (arguments->common.help)
		return ARGUMENTS_HELP;
	if (arguments->common.version)
		return ARGUMENTS_VERSION;
	if (word == NULL && argc <= 1)
		return ARGUMENTS_NONE;
	if (word == NULL)
		return refuse_options(argc, argv, arguments, usage);
	if (arguments->command == NULL) {
		slip_command(usage, arguments, words);
		return ARGUMENTS_WRONG;
	}
	switch (fill(argc, argv, arguments, usage)) {
	case USAGE_GOOD:
		break;
	case USAGE_UNKNOWN:
		slip_option(usage, arguments);
		return ARGUMENTS_WRONG;
	case USAGE_WRONG:
		if (usage->hint[0] == '\0')
			usage_hint(
				usage, "fsdp-inspect help %s", arguments->command->name);
		return ARGUMENTS_WRONG;
	case USAGE_MEMORY:
		return ARGUMENTS_MEMORY;
	}
	/* An option that takes a value elsewhere and none here moves the words. */
	if (arguments->words.count == 0 || strcmp(arguments->words.items[0], word) != 0) {
		usage_what(
			usage, "the command is not clear from the order of the options");
		usage_hint(usage, "put the command first: fsdp-inspect %s ...", word);
		return ARGUMENTS_WRONG;
	}
	return check_inputs(arguments->command, &arguments->common, usage) &&
			       check_common(&arguments->common, usage)
		       ? ARGUMENTS_RUN
		       : ARGUMENTS_WRONG;
}

enum arguments_result arguments_read(
	int argc, char **argv, struct arguments *arguments, struct usage *usage)
{
	struct texts words = { 0 };
	enum arguments_result result =
		peek(argc, argv, arguments, &words) == USAGE_GOOD
			? read_words(argc, argv, arguments, &words, usage)
			: ARGUMENTS_MEMORY;

	free(words.items);
	return result;
}

void arguments_done(struct arguments *arguments)
{
	struct option_group groups[GROUPS];

	if (arguments->filled) {
		size_t count = groups_of(arguments, groups);

		for (size_t i = 0; i < count; i++)
			options_done(&groups[i]);
	}
	free(arguments->options);
	free(arguments->words.items);
	owned_free(&arguments->owned);
}
