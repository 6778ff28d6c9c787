/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <fsdp/checkpoint.h>
#include <fsdp/trace.h>

#include "args/input.h"
#include "args/parse.h"
#include "args/select.h"

/*
 * How the commands begin and end an answer alike.
 *
 * A command that returns false with *ret_error left NULL ran out of memory: the library's
 * static error cannot be made on this side of the wall.
 */

/* The request itself is wrong: says so, begins an answer with status 2. Always true, so
 * that a command can `return refuse(…)`. */
bool refuse(struct run *run, const char *hint, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* How the library opens something else for this run: with its limits and servers. */
struct fsdp_options run_opens(const struct run *run);

/* For memory_owns. */
release_function release_error, release_checkpoint, release_overview, release_discover,
	release_document;

/* Compiles the selectors, which belong to the run. It ends where they are wrong; the
 * message begins with `before`. */
struct selection *run_selection(struct run *run);
struct selection *run_selection_of(
	struct run *run, const struct select_options *options, const char *before);

/* After matching: a pattern that was given up makes the answer partial. */
int answer_selection_status(
	struct run *run, const struct selection *selection, int status);

/* Whether the path is a directory, or a link to one. */
bool path_is_folder(const char *path);

/* Directory of the base model in adapter_config.json of this directory, relative to it or
 * as stored. False: not named, or it does not exist. */
bool path_of_base(const char *folder, char *ret_path, size_t size);

/* Path of the checkpoint: as it was typed, or the directory below it that was
 * opened instead. Lives as long as the run and its checkpoint. */
const char *answer_place(const struct run *run);

/* Path in the first line of an answer: of what was opened, without a slash at its end. */
struct text opened_path(const struct run *run);

/* Threads: as --jobs says, else one per core, at most 8. */
unsigned jobs_wanted(const struct common_options *common);

/* Whether some output of this run is of the given format ("json"). */
bool answer_has_output(const struct run *run, const char *format);

/* Whether some output of this run is for machines: everything but text and name. */
bool answer_is_machine(const struct run *run);

static inline struct text text_of_span(struct fsdp_span span)
{
	return (struct text){ (const char *)span.data, span.size };
}

/* null where there is none. */
static inline struct value value_span(struct fsdp_span span)
{
	return span.data == NULL ? value_null() : value_text(text_of_span(span));
}

/* null for FSDP_ABSENT. */
static inline struct value value_known(int64_t number)
{
	return number == FSDP_ABSENT ? value_null() : value_integer(number);
}

static inline struct fsdp_span span_of_text(struct text text)
{
	return (struct fsdp_span){ (const unsigned char *)text.data, text.size };
}

static inline bool text_is(struct text a, struct text b)
{
	return a.size == b.size &&
	       (a.size == 0 || __builtin_memcmp(a.data, b.data, a.size) == 0);
}

struct inputs;
struct outputs;

/* Runs the command over its inputs into its outputs, prints messages to stderr, and gives
 * the exit status. Outputs are open. Without looks it runs inside of another command: it
 * prints nothing and leaves the locks as they are. */
int session_run(const struct arguments *arguments, const struct inputs *inputs,
	struct outputs *outputs, const struct looks *error_looks);

/* From here on SIGUSR1 asks for a line on stderr that says how far the work is, and ends
 * no process. Call it first. */
void progress_listen(void);

/*
 * While something long is read: a line on stderr with the progress. With `progress` it
 * shows bytes, and an interrupt ends the reading rather than the process, which has a
 * second for what is left to do; then, or with a second interrupt, the process ends by
 * the signal wherever it is. Without (NULL) it shows the time, and an interrupt does as
 * ever. With --progress=auto a line only on a terminal and after 0.7 seconds; plain, one
 * every 30 seconds.
 */
void progress_begin(
	const struct common_options *common, struct fsdp_recording_progress *progress);

/* Takes the line away. Returns the signal that interrupted, or 0. From now on another
 * ends the process. */
int progress_end(void);

/*
 * The process that reads URLs (fsdp-inspect-remote(7)): the one of this run, if some
 * input is a URL. It is started before this process locks itself up.
 */

/* Starts it and asks for each URL. Why that failed is reported when a URL is opened.
 * False: out of memory. */
bool helper_start(const struct inputs *inputs);

/* NULL: nothing is read from URLs. */
struct fsdp_remote *helper_remote(void);

/* FSDP_REMOTE_LOCAL of all paths but the URLs of this run. */
enum fsdp_remote_kind helper_kind(const char *path);

void helper_end(void);

#endif
