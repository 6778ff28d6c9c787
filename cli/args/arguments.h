/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include "args/parse.h"

/* A command line, understood: the command and its options, and the words behind it. */
struct arguments {
	const struct command *const *commands; /* all; the last is NULL */
	char *const *typed;                    /* all words but the first; NULL ends */
	const struct command *command;         /* NULL: none was named */
	struct common_options common;
	struct select_options select;
	void *options;      /* command->options_size bytes, or NULL */
	struct texts words; /* first the command itself */
	struct owned owned;
	bool filled;
};

enum arguments_result {
	ARGUMENTS_RUN,
	ARGUMENTS_HELP,    /* -h was somewhere: of the command, or of all */
	ARGUMENTS_VERSION, /* --version was */
	ARGUMENTS_NONE,    /* no command at all */
	ARGUMENTS_WRONG,   /* usage says what */
	ARGUMENTS_MEMORY,
};

/* *arguments is all zero before, but for commands and typed; arguments_done also after a failure. */
enum arguments_result arguments_read(
	int argc, char **argv, struct arguments *arguments, struct usage *usage);
void arguments_done(struct arguments *arguments);

#endif
