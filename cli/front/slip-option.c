/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers an option that the command does not have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/nearest.h"
#include "front/slip.h"
#include "front/topics.h"

/* ---- options of other commands ---- */

struct option_owners {
	char text[200];
	size_t count;
};

/* The commands that have the option which this one lacks. */
static void list_owners(struct option_owners *owners,
	const struct command *const *commands, const char *name, char letter)
{
	for (; *commands != NULL; commands++) {
		const struct command *other = *commands;
		size_t used = strlen(owners->text);
		bool has = other->options != NULL &&
			   option_find(other->options, name, letter) != NULL;

		for (size_t i = 0; command_selectors(other)[i] != NULL; i++)
			has |= option_find(command_selectors(other)[i], name, letter) !=
			       NULL;
		if (!has)
			continue;
		snprintf(owners->text + used, sizeof owners->text - used, "%s%s",
			owners->count++ > 0 ? ", " : "", other->name);
	}
}

/* The option that is most like it or, if none is, the first that has it in its name. */
static const struct option_row *nearest_option(
	const struct command *command, const char *name)
{
	const struct option_row *option, *found = NULL;
	struct nearest nearest;

	nearest_init(&nearest, name);
	for (size_t i = 0; (option = command_option(command, i)) != NULL; i++) {
		size_t distance = nearest.distance;

		nearest_try(&nearest, option->name);
		if (nearest.distance < distance)
			found = option;
	}
	for (size_t i = 0; found == NULL && strlen(name) > 3 &&
			   (option = command_option(command, i)) != NULL;
		i++)
		if (strstr(option->name, name) != NULL)
			found = option;
	return found;
}

void slip_option(struct usage *usage, const struct arguments *arguments)
{
	const struct command *command = arguments->command;
	char typed[sizeof usage->what];
	const char *name = typed + 1, *instead, *synonym;
	struct option_owners owners = { .text = "" };
	const struct option_row *option;
	bool is_long;

	memcpy(typed, usage->what, sizeof typed);
	name += typed[1] == '-';
	is_long = typed[1] != '\0' && typed[2] != '\0';
	instead = removed_word(typed, command->name);
	if (instead != NULL) {
		usage_what(usage, "%s was removed; use %s", typed, instead);
		return;
	}
	synonym = slip_synonym(typed);
	option = is_long ? nearest_option(command, name) : NULL;
	/* Of a long name behind a single dash the command has the option. */
	if (is_long ? name == typed + 2 : strchr("-", typed[1]) == NULL)
		list_owners(&owners, arguments->commands, is_long ? name : NULL, *name);
	if (owners.count > 0)
		usage_what(usage, "%s has no option %s", command->name, typed);
	else
		usage_what(usage, "unknown option %s", typed);
	if (synonym != NULL)
		usage_hint(usage, "did you mean %s? (fsdp-inspect help %s)", synonym,
			command->name);
	else if (owners.count > 0)
		usage_hint(usage, "it is an option of %s (fsdp-inspect help %s)",
			owners.text, command->name);
	else if (option != NULL)
		usage_hint(usage, "did you mean --%s? (fsdp-inspect help %s)",
			option->name, command->name);
	else
		usage_hint(usage, "fsdp-inspect help %s", command->name);
}
