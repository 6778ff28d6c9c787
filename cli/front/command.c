/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks things up in the rows of commands.
 */
#include <string.h>

#include "front/command.h"

const struct command *command_find(
	const struct command *const *commands, const char *name)
{
	while (*commands != NULL && strcmp((*commands)->name, name) != 0)
		commands++;
	return *commands;
}

const struct option *command_option(const struct command *command, size_t index)
{
	const struct option *const tables[] = { command->options,
		command->selectors ? select_options : NULL, common_options };

	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct option *row = tables[i];
			row != NULL && row->name != NULL; row++)
			if (!row->hidden && index-- == 0)
				return row;
	return NULL;
}

int status_worse(int a, int b)
{
	/* How bad each status is: 2 beats 1 beats 3 beats 0. */
	static const int weight[] = { 0, 2, 3, 1 };

	return weight[a] >= weight[b] ? a : b;
}
