/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks things up in the rows of commands.
 */
#include <string.h>

#include "args/command.h"

const struct command *command_find(
	const struct command *const *commands, const char *name)
{
	while (*commands != NULL && strcmp((*commands)->name, name) != 0)
		commands++;
	return *commands;
}

/* Of the rows of a table that are shown, the one that is `index` further; or counts. */
static const struct option_row *shown_row(const struct option_row *row, size_t *index)
{
	for (; row != NULL && row->name != NULL; row++)
		if (!row->hidden && (*index)-- == 0)
			return row;
	return NULL;
}

const struct option_row *command_option(const struct command *command, size_t index)
{
	const struct option_row *row = shown_row(command->options, &index);

	for (size_t i = 0; row == NULL && command_selectors(command)[i] != NULL; i++)
		row = shown_row(command_selectors(command)[i], &index);
	return row != NULL ? row : shown_row(common_options, &index);
}

int status_worse(int a, int b)
{
	/* How bad each status is: 2 beats 1 beats 4 beats 3 beats 0. */
	static const int weight[] = { 0, 3, 4, 1, 2 };

	return weight[a] >= weight[b] ? a : b;
}
