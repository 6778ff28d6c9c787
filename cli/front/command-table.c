/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which commands there are, in the order of the overview; knows nothing of what any
 * of them does.
 */
#include <string.h>

#include "front/command.h"

extern const struct command command_info;
extern const struct command command_tree;
extern const struct command command_ls;
extern const struct command command_show;
extern const struct command command_fqns;
extern const struct command command_flat;
extern const struct command command_order;
extern const struct command command_replay;
extern const struct command command_help;
extern const struct command command_version;
extern const struct command command_commands;
extern const struct command command_schema;
extern const struct command command_completion;

static const struct command *const table[] = {
	&command_info,
	&command_tree,
	&command_ls,
	&command_show,
	&command_fqns,
	&command_flat,
	&command_order,
	&command_replay,
	&command_help,
	&command_version,
	&command_commands,
	&command_schema,
	&command_completion,
};

const struct command *command(size_t index)
{
	return index < sizeof table / sizeof *table ? table[index] : NULL;
}

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (strcmp(table[i]->name, name) == 0)
			return table[i];
	}
	return NULL;
}

int status_worse(int a, int b)
{
	/* How bad each status is: 2 beats 1 beats 3 beats 0. */
	static const int weight[] = { 0, 2, 3, 1 };

	return weight[a] >= weight[b] ? a : b;
}
