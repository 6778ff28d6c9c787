/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGS_SUGGEST_H
#define ARGS_SUGGEST_H

#include "args/parse.h"

struct arguments;

/* What people type by habit or by mistake, and what to type instead. */

/*
 * A line to type instead of the one that was typed: "fsdp-inspect" and words, each quoted
 * as a shell takes it. What does not fit is cut off.
 */
struct retyped {
	char text[300];
	size_t size;
};

/* Begins with these words, up to NULL. */
void retyped_line(struct retyped *line, ...) __attribute__((sentinel));

/* Answers a first word that is not a command. `words` are all that were typed but options, the
 * wrong one first. */
void suggest_command(struct usage *usage, const struct arguments *arguments,
	const struct texts *words);

/* Answers an option that the command does not have: "--name", "-x", or "-name" for "--name".
 * usage->what is it, as options_parse left it. */
void suggest_option(struct usage *usage, const struct arguments *arguments);

/* The line that was typed, with another option in it, in the place of a word unless that is
 * NULL. */
void suggest_needs(struct usage *usage, const struct arguments *arguments,
	const char *option, const char *word);

/* Several checkpoints for a command that answers for one: the line for an answer each or,
 * if that does not exist, the one for the first. */
void suggest_several(struct usage *usage, const struct arguments *arguments,
	const struct texts *paths, bool each);

/* A path in the place of a name, which the checkpoint does not have: the line without it or,
 * if there is no other name, one that answers for both. False: the path does not exist, or
 * no line fits. */
bool suggest_path_as_name(
	struct usage *usage, const struct arguments *arguments, const char *word);

/* Whether a word that is not a path is two of them, such as A..B and A,B. */
bool suggest_joined(
	struct usage *usage, const struct arguments *arguments, const char *word);

/* Whether a path is a URL: those are refused, since URLs are not supported. */
bool suggest_url(struct usage *usage, const char *command, const char *path);

/* The path that is most like a missing one: a name in its directory or, if that is missing
 * too, a path like the directory. Without a similar one, the first existing directory of the
 * path, with a slash at its end. A path from malloc; NULL: out of memory. At most 10,000
 * entries of one directory are compared. */
char *suggest_near_path(const char *path);

/* Whether a word in the place of a path may be the name of a tensor or module: it has
 * neither a slash nor the suffix of a file. `near` is what suggest_near_path found. */
bool suggest_is_name(const char *word, const char *near);

/* Answers names in the place of checkpoints, and checkpoints after names. `paths` and
 * `words` are the typed words after the command, `near` as above for each path. */
bool suggest_order(struct usage *usage, const struct arguments *arguments,
	const struct texts *paths, const struct texts *near, const struct texts *words);

#endif
