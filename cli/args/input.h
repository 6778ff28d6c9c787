/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGS_INPUT_H
#define ARGS_INPUT_H

#include <fsdp/checkpoint.h>

#include "args/parse.h"

/* A parsed command line: the command, its options, and the words after it. */
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

/* *arguments is all zero before, except commands and typed; arguments_done also after a failure. */
enum arguments_result arguments_read(
	int argc, char **argv, struct arguments *arguments, struct usage *usage);
void arguments_done(struct arguments *arguments);

/* What the command works on: the paths of checkpoints, and the words that are none. */
struct inputs {
	struct texts paths;
	struct texts
		near; /* of each that is not there, the path that was meant, or NULL */
	struct texts beside, near_beside; /* the same of files that options name */
	struct texts urls,
		url_names; /* paths that are URLs, whole; and as they are shown */
	struct texts words;
	struct owned owned;
	struct fsdp_options options; /* for opening, limits and all */
	bool has_no_checkpoint;      /* the one path is a log: options.units_path */
	struct fsdp_limit_setting *limits;
	bool is_folder; /* recordings: some paths are the content of a directory */
	uint32_t rank;  /* the only one that is needed; see parse.h */
};

/* *inputs is all zero before; inputs_done also after a failure. */
enum usage_result inputs_collect(
	struct inputs *inputs, const struct arguments *arguments, struct usage *usage);
/* Replaces directories of recordings at URLs by their files; options.remote is set before. */
enum usage_result inputs_list_remote(
	struct inputs *inputs, const struct arguments *arguments, struct usage *usage);
void inputs_done(struct inputs *inputs);

/* The limit of this name, which there is, as the options set it; UINT64_MAX: none. What
 * is wrong about them is reported by inputs_collect. */
uint64_t input_limit(const struct texts *texts, const char *name);

#endif
