/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGS_INPUT_H
#define ARGS_INPUT_H

#include <fsdp/checkpoint.h>

#include "args/parse.h"

/*
 * URLs in the place of paths: s3://, gs://, az://, abfss://, hf://, https://, and http://
 * of this machine. What follows a question mark is a secret, and is asked for but never
 * shown.
 */

/* Whether the text has the form of one that can be read. */
bool url_is(const char *text);

/* The path of file:///PATH and file://localhost/PATH; another text is returned itself. */
const char *url_local(const char *text);

/* Refuses one that cannot be read. */
void url_check(struct usage *usage, const char *command, const char *url);

/* Whether its files are in directories: all but those of web servers are. */
bool url_has_directories(const char *url);

/* Cuts off in place what is not shown: a query, and slashes at the end. */
void url_clean(char *url);

struct arguments;

/* What people type by habit or by mistake, and what to type instead. The functions that
 * refuse a line do not return. */

/*
 * A line to type instead of the one that was typed: "fsdp-inspect" and words, each quoted
 * as a shell takes it. What does not fit is truncated.
 */
struct retyped {
	char text[300];
	size_t size;
};

/* Begins with these words, up to NULL. */
void retyped_line(struct retyped *line, ...) __attribute__((sentinel));

/* Answers a first word that is not a command. `words` are all that were typed but
 * options, the wrong one first. */
_Noreturn void suggest_command(struct usage *usage, const struct arguments *arguments,
	const struct texts *words);

/* Answers an option that the command does not have: "--name", "-x", or "-name" for
 * "--name". usage->what is it, as options_parse left it. */
_Noreturn void suggest_option(struct usage *usage, const struct arguments *arguments);

/* The line that was typed, with another option in it, in the place of a word unless that
 * is NULL. */
void suggest_needs(struct usage *usage, const struct arguments *arguments,
	const char *option, const char *word);

/* Several checkpoints for a command that answers for one: the line for an answer each or,
 * if that does not exist, the one for the first. */
void suggest_several(struct usage *usage, const struct arguments *arguments,
	const struct texts *paths, bool each);

/* A path in the place of a name, which the checkpoint does not have: the line without it
 * or, if there is no other name, one that answers for both. False: the path does not
 * exist, or no line fits. */
bool suggest_path_as_name(
	struct usage *usage, const struct arguments *arguments, const char *word);

/* Refuses a word that is not a path but two of them, such as A..B and A,B. */
void suggest_joined(
	struct usage *usage, const struct arguments *arguments, const char *word);

/* A command that makes a local copy of what a URL names; NULL if no program is known.
 * The caller owns it. */
char *download_command(const char *url);

/* Refuses a path that is a URL, if it cannot be read. */
void suggest_url(struct usage *usage, const char *command, const char *path);

/* The path that is most like a missing one: a name in its directory or, if that is
 * missing too, a path like the directory. Without a similar one, the first existing
 * directory of the path, with a slash at its end; or NULL. At most 10,000 entries of one
 * directory are compared. */
char *suggest_near_path(const char *path);

/* Whether a word in the place of a path may be the name of a tensor or module: it has
 * neither a slash nor the suffix of a file. `near` is what suggest_near_path found. */
bool suggest_is_name(const char *word, const char *near);

/* Refuses names in the place of checkpoints, and checkpoints after names. `paths` and
 * `words` are the typed words after the command, `near` as above for each path. */
void suggest_order(struct usage *usage, const struct arguments *arguments,
	const struct texts *paths, const struct texts *near, const struct texts *words);

/* A parsed command line: the command, its options, and the words after it. */
struct arguments {
	const struct command *const *commands; /* all; the last is NULL */
	char *const *typed;                    /* all words but the first; NULL ends */
	const struct command *command;         /* NULL: none was named */
	struct common_options common;
	struct select_options select;
	void *options;      /* command->options_size bytes, or NULL */
	struct texts words; /* first the command itself */
};

enum arguments_result {
	ARGUMENTS_RUN,
	ARGUMENTS_HELP,    /* -h was somewhere: of the command, or of all */
	ARGUMENTS_VERSION, /* --version was */
	ARGUMENTS_NONE,    /* no command at all */
};

/* *arguments is all zero before, except commands and typed. */
enum arguments_result arguments_read(
	int argc, char **argv, struct arguments *arguments, struct usage *usage);

/* What the command works on: the paths of checkpoints, and the words that are none. */
struct inputs {
	struct texts paths;
	struct texts
		near; /* of each that is not there, the path that was meant, or NULL */
	struct texts beside, near_beside; /* the same of files that options name */
	struct texts urls,
		url_names; /* paths that are URLs, whole; and as they are shown */
	struct texts words;
	struct fsdp_options options; /* for opening, limits and all */
	bool has_no_checkpoint;      /* the one path is a log: options.units_path */
	struct fsdp_limit_setting *limits;
	bool is_folder; /* recordings: some paths are the content of a directory */
	uint32_t rank;  /* the only one that is needed; see parse.h */
};

/* *inputs is all zero before. */
void inputs_collect(
	struct inputs *inputs, const struct arguments *arguments, struct usage *usage);
/* Replaces directories of recordings at URLs by their files; options.remote is set
 * before. */
void inputs_list_remote(
	struct inputs *inputs, const struct arguments *arguments, struct usage *usage);

/* The limit of this name, which there is, as the options set it; UINT64_MAX: none. What
 * is wrong about them is reported by inputs_collect. */
uint64_t input_limit(const struct texts *texts, const char *name);

#endif
