/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a command line into a command, options and words, and says what is wrong where
 * it does not fall into them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front/arguments-private.h"
#include "front/slip.h"

enum { MOST_GROUPS = 64 };

/* ---- in order ---- */

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

static bool has_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-')
			return true;
	return false;
}

/* The command is the first word; which words there are depends on the options that take
 * a value. So all options of all commands are lexed once, and what is wrong is ignored.
 */
static enum usage_result peek(
	int argc, char **argv, struct arguments *arguments, struct texts *ret_words)
{
	struct option_group groups[MOST_GROUPS];
	enum usage_result result = USAGE_GOOD;

	if (has_options(argc, argv))
		result = options_parse(argc, argv, groups,
			every_group(arguments->commands, &arguments->common, groups),
			ret_words, &arguments->owned, NULL, NULL);
	else
		for (int i = 1; i < argc && result == USAGE_GOOD; i++)
			if (!texts_add(ret_words, argv[i]))
				result = USAGE_MEMORY;
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
	struct option_unknown unknown;
	struct texts words = { 0 };
	enum usage_result result = options_parse(argc, argv, groups,
		every_group(arguments->commands, NULL, groups), &words, &arguments->owned,
		&unknown, usage);

	free(words.items);
	if (result == USAGE_MEMORY)
		return ARGUMENTS_MEMORY;
	if (result == USAGE_UNKNOWN)
		usage_what(usage, "unknown option %s", unknown.name);
	else if (result == USAGE_GOOD)
		usage_what(usage, "no command given");
	usage_hint(usage, "fsdp-inspect help");
	return ARGUMENTS_WRONG;
}

static enum arguments_result read_words(int argc, char **argv,
	struct arguments *arguments, const struct texts *words, struct usage *usage)
{
	const char *word = words->count > 0 ? words->items[0] : NULL;
	struct option_unknown unknown;

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
	switch (arguments_fill(argc, argv, arguments, &unknown, usage)) {
	case USAGE_GOOD:
		break;
	case USAGE_UNKNOWN:
		slip_option(usage, arguments, unknown.name);
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
	return arguments_check(arguments, usage) ? ARGUMENTS_RUN : ARGUMENTS_WRONG;
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
