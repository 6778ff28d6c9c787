/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGS_PARSE_H
#define ARGS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fsdp/error.h>
#include <fsdp/model.h>
#include <fsdp/trace.h>

#include "render/out.h"

/*
 * An option is a row: its name, its argument, and the place of its value. Long names
 * are not abbreviated; options may follow words, up to "--".
 */
enum option_kind {
	OPTION_FLAG,    /* bool */
	OPTION_COUNTED, /* int, how often */
	OPTION_INTEGER, /* int64_t, within minimum … maximum */
	OPTION_SIZE,    /* uint64_t: 4096, 4K, 1.5GiB, 4kb */
	OPTION_WORD,    /* const char *, one of words */
	OPTION_TEXT,    /* const char * */
	OPTION_LIST,    /* struct texts, repeatable */
	OPTION_WORDS,   /* struct texts, split at commas, each one of words (if any) */
};

struct texts {
	const char **items;
	size_t count;
};

struct option_row {
	const char *name; /* long, without dashes */
	char letter;      /* or 0 */
	enum option_kind kind;
	const char *argument;     /* "N", "FILE"; NULL for flags */
	size_t offset;            /* in the options struct */
	const char *const *words; /* NULL ends */
	int64_t minimum, maximum; /* OPTION_INTEGER */
	const char *initial;      /* default, as text, or NULL */
	const char *bare; /* what --name alone stands for; NULL: it needs a value */
	const char *help; /* one line */
	bool hidden;
	bool is_once; /* another value after the first is refused, not used */
};

/* One -o FORMAT[=FILE]. */
struct output_choice {
	const char *format;
	const char *file; /* NULL: stdout */
};

/* What every command has. */
struct common_options {
	bool help, version;
	struct texts outputs; /* as typed: FORMAT[=FILE] */
	bool json, jsonl;
	const char *plan;
	bool no_plan;
	bool raw;
	int quiet, verbose;
	const char *color; /* auto, always, never */
	bool no_color;
	bool ascii;
	const char *width; /* N, none or NULL */
	bool bytes, si;
	bool provenance;
	const char *progress; /* auto, always, never, plain */
	int64_t jobs;
	const char *part; /* K/N, auto, auto/N or NULL */
	/* Which that is: 0 of 0 is all; and which launcher said so, or NULL. */
	uint32_t part_number, part_count;
	const char *part_from;
	const char *files0_from;
	struct texts limits; /* NAME=VALUE */
	bool no_sandbox;
	bool separate;
	const char *
		range; /* OFFSET[:LENGTH]: read the checkpoint from this part of the file */
	bool null;     /* -0 */
	const char *fail_on; /* one of fail_words, or NULL: as the command does */
};

/* Selectors; select.h says what they mean. */
struct select_options {
	struct texts globs;   /* -g, a leading ! excludes */
	struct texts regexes; /* -e */
	struct texts dtypes, roles;
	const char *ranks; /* 0,4-7 */
	struct texts files;
	uint64_t min_bytes, max_bytes; /* UINT64_MAX: not given */
	int64_t depth;                 /* -1: not given */
	struct texts sort;             /* column names, - reverses */
	bool largest;                  /* sort by bytes, the most first */
	bool reverse;                  /* after sorting */
	struct texts columns;
	int64_t head; /* -1: not given */
};

extern const struct option_row common_options[];

/* "none", then severities, the least first; the last is NULL. */
extern const char *const fail_words[];

/* Selectors, in tables of what commands take together; and all of them, the last NULL. */
extern const struct option_row select_names[], select_tensors[], select_ranks[],
	select_files[], select_depth[], select_rows[], select_columns[];
enum { SELECT_TABLES = 7 };
extern const struct option_row *const select_all[SELECT_TABLES + 1];

/* Whether a value follows it. */
bool option_takes_value(const struct option_row *row);

/* Whether its value is the path of something that is read. */
bool option_is_path(const struct option_row *row);

/* That path, or of an option that repeats the one with this index; NULL past the last,
 * and where the value is not a path. */
const char *option_path(const struct option_row *row, const void *values, size_t index);

/* Rows and the struct they fill. */
struct option_group {
	const struct option_row *rows;
	void *values;
};

/* A wrong command line: what is wrong, and what was probably meant. Both are cut
 * rather than allocated, so they can always be shown. hint is "" if there is none. */
struct usage {
	char what[320];
	char hint[320];
	jmp_buf *end; /* where a refused line continues, by longjmp with ESCAPE_USAGE */
};
enum { ESCAPE_USAGE = ESCAPE_MEMORY + 1 };

void usage_what(struct usage *usage, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void usage_hint(struct usage *usage, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Refuses the line with what usage says. */
_Noreturn void usage_end(struct usage *usage);

/* Refuses the line, from any depth. hint NULL: it is filled in already. */
_Noreturn void usage_refuse(struct usage *usage, const char *hint, const char *format,
	...) __attribute__((format(printf, 3, 4)));

/*
 * Defaults. Without `initial`: false, 0 times, NULL, no texts; -1 for OPTION_INTEGER and
 * UINT64_MAX for OPTION_SIZE, which mean "not given".
 */
void options_init(const struct option_group *group, struct usage *usage);

/*
 * Lexes argv and fills the groups. Words are all that is not an option, in order; after
 * `--` everything is a word. With values NULL in a group its options are lexed and
 * forgotten. With usage NULL nothing is wrong; then only flags may have values. False:
 * an option is unknown, and usage->what is it, without its value.
 */
bool options_parse(int argc, char **argv, const struct option_group *groups,
	size_t group_count, struct texts *ret_words, struct usage *usage);

/* The row of that long name or, if name is NULL, of that letter; or NULL. */
const struct option_row *option_find(
	const struct option_row *rows, const char *name, char letter);

/* One more value for one option, as if it had been typed. text belongs to the caller. */
void option_set(const struct option_row *row, void *values, const char *text,
	struct usage *usage);

/* The text is borrowed. */
void texts_add(struct texts *texts, const char *text);

/* For qsort of pointers to texts. */
int compare_texts(const void *left, const void *right);

/* For memory_owns: closes a directory that opendir opened. */
release_function release_folder;

/* 4096, 4K, 1.5KiB (powers of 1024), 4KB (powers of 1000), up to E, in either case. What
 * is left of a byte is dropped. */
bool option_size(const char *text, uint64_t *ret_size);
bool option_integer(
	const char *text, int64_t minimum, int64_t maximum, int64_t *ret_integer);
/* OFFSET[:LENGTH], both sizes. Without LENGTH: UINT64_MAX. */
bool option_range(const char *text, uint64_t *ret_offset, uint64_t *ret_length);
/* NAME=VALUE; the name is the first *ret_name_size bytes. */
bool option_assignment(const char *text, size_t *ret_name_size, const char **ret_value);

/*
 * "Did you mean": feed it candidates, it keeps the one with the fewest edits (insert,
 * delete, replace, swap of neighbors), the first among equals. Farther than two edits,
 * or than a third of the word, is not a resemblance; of two or three letters one may
 * differ.
 */
struct nearest {
	const char *word;
	const char *best; /* NULL: nothing is near */
	size_t distance;
};

void nearest_init(struct nearest *nearest, const char *word);
void nearest_try(struct nearest *nearest, const char *candidate);

/* The rule with this id or slug, in any case; NULL if there is none. */
const struct fsdp_rule *rule_of_name(const char *name);

/* Tries all ids and slugs. */
void rule_nearest(struct nearest *nearest);

/* The dtype of a word, in torch's spelling or another; fsdp_dtype_count(): unknown.
 */
size_t dtype_of_word(const char *word);

/*
 * A command is a row: its name, its inputs and options, its answer, and its functions.
 * Each file or directory of cli/commands exports one; main has the table of them. Help,
 * completion, `commands --json`, "did you mean" and the drift test of the manual read
 * these rows.
 */
enum command_group {
	GROUP_START, /* Start here */
	GROUP_LOOK,  /* Look closer */
	GROUP_BYTES, /* Bytes and values */
	GROUP_TRACE, /* Recordings */
	GROUP_ABOUT, /* About */
	GROUP_COUNT
};

/* How many inputs the command takes. */
enum command_inputs {
	INPUTS_NONE,       /* no arguments at all */
	INPUTS_WORDS,      /* only words of its own */
	INPUTS_ONE,        /* one checkpoint: all arguments together */
	INPUTS_ONE_NAMES,  /* the first argument; the rest are names (show) */
	INPUTS_ONE_SOME,   /* the same, but there need not be any */
	INPUTS_PAIR,       /* two checkpoints, the second by run_open */
	INPUTS_MANY,       /* one checkpoint; with --separate each argument is its own */
	INPUTS_RECORDINGS, /* recordings of a run: all arguments together */
	INPUTS_FILE,       /* one file, which the command opens itself */
	INPUTS_RUNS,       /* directories of runs, which the command searches itself */
};

/* Or recordings: files in any case. */
static inline bool takes_checkpoint(enum command_inputs inputs)
{
	return inputs != INPUTS_NONE && inputs != INPUTS_WORDS;
}

enum {
	STATUS_GOOD = 0,
	STATUS_BAD = 1,
	STATUS_FAILED = 2,
	STATUS_PARTIAL = 3,
	STATUS_NOTHING = 4, /* only of latest: the run is empty */
};

/* 2 beats 1 beats 4 beats 3 beats 0. */
int status_worse(int a, int b);

/* For a command that needs something whatever its options are. */
static inline bool always(const void *options)
{
	(void)options;
	return true;
}

struct run;
struct arguments;
struct collected;
struct joined_parts;

/* Files that a command writes itself, in addition to its outputs. */
struct written {
	const char *path;
	bool is_file; /* else a directory, which is made if it does not exist */
	bool adds;    /* to a directory that is read and kept completely */
	/* For a directory: whether a file of this name in it may be replaced or removed.
	 */
	bool (*replaces)(const char *name);
	/* Names of files next to an input that are read with it; NULL past the end. */
	const char *(*reads)(size_t index);
};

struct command {
	const char *name;
	enum command_group group;
	const char *summary;     /* one line, lower case: "describe a checkpoint" */
	const char *synopsis;    /* "[-d N] [--sizes] CHECKPOINT" */
	const char *example;     /* of GROUP_START, for the overview: "info step-1000/" */
	const char *examples[3]; /* for COMMAND --help; NULL ends */
	const char *exit_1;      /* what status 1 means, or NULL: never */
	const char *exit_4;      /* the same of status 4 */
	const struct option_row *options;          /* its own; the last has name NULL */
	const struct option_row *const *selectors; /* tables of them; the last is NULL */
	unsigned shapes;                           /* SHAPE_… that it emits */
	const struct record *answer; /* `data` of its JSON, for schema and manual */
	const char *output;          /* default: "text", "json" */
	enum command_inputs inputs;
	bool shows_plan;       /* says itself which plan is used: no note about it */
	bool looks_beside;     /* at the files that are loaded with the tensors */
	bool with_base;        /* an adapter with the model that it names */
	bool counts_beside;    /* of these, and all other, the pickles */
	bool answers_unopened; /* for a checkpoint that could not be opened too: then
				  run->checkpoint is NULL */
	bool answers_each;     /* several checkpoints in order, and a directory of
				them (run->below) */
	bool reads_recordings; /* if the inputs are not a checkpoint but recordings, it answers
				  for run->recordings */
	size_t options_size; /* of the struct that `options` point into */

	/* Whether it needs the values of entries that are not tensors; each may cost a
	 * read. NULL: never. */
	bool (*reads_values)(const void *options);

	/* Whether it only counts: asks for no order of tensors and no module. NULL: it
	 * asks. */
	bool (*only_counts)(const void *options);
	uint64_t counts_from; /* of fewer tensors more than counts is wanted */

	/* Whether its json is the members of `data` alone, without the envelope. NULL:
	 * never. */
	bool (*is_bare)(const void *options);

	/* Before anything is opened: looks at its options. INPUTS_RECORDINGS: fills the
	 * request for reading; else `options` is NULL. False: they are wrong, and
	 * refuse() was called. NULL: nothing. */
	bool (*prepare)(struct run *run, struct fsdp_recording_options *options);

	/* Of a command whose answer is a verdict. Called for each checkpoint once it was
	 * opened, or could not be (then run->checkpoint is NULL), before `perform`
	 * answers for all of them at once, with no checkpoint. It adds the findings of an
	 * opened checkpoint to run->collected itself. What failed, and the findings of
	 * one that could not be opened, are there from run->first on, and may be changed.
	 * Sets run->status, that of this checkpoint. Ends as `perform` does. */
	void (*check_inputs)(struct run *run);

	/* Whether it writes files by itself, and which: the process may write only in
	 * their directory, and none of them replaces an input. "-" is standard output;
	 * `path` is the first input. NULL: never. */
	bool (*writes)(
		const void *options, const char *path, struct written *ret_written);

	/* Whether one rank of a set is enough, and which; FSDP_NONE: any. NULL: never. */
	bool (*needs_rank)(const void *options, const struct select_options *select,
		uint32_t *ret_rank);

	/* Answers for results of all parts of a run, as `perform` would without parts.
	 * NULL: it takes no --part. */
	void (*join)(struct run *run, const struct joined_parts *joined);

	/* Answers for an opened checkpoint: decides the status, calls run_begin, emits.
	 * False: out of memory or a read failed, *ret_error says which (left NULL: out of
	 * memory); the caller reports it. STATUS_FAILED in run_begin: no answer. Without
	 * inputs run->checkpoint is NULL. */
	bool (*run)(struct run *run, struct fsdp_error **ret_error);

	/* Instead of `run`: the same, but what cannot go on ends the run from where it is
	 * (run_fail), and memory is the run's own. */
	void (*perform)(struct run *run);
};

/* Of all commands; the last one is NULL. NULL: unknown name. */
const struct command *command_find(
	const struct command *const *commands, const char *name);

/* The tables of selectors that it takes; the last is NULL. */
static inline const struct option_row *const *command_selectors(
	const struct command *command)
{
	return command->selectors != NULL ? command->selectors
					  : &select_all[SELECT_TABLES];
}

/* The options that help shows: its own, the selectors, those of every command. NULL past
 * the end. */
const struct option_row *command_option(const struct command *command, size_t index);

/* What a command is handed. */
struct run {
	const struct command *command;
	const struct command *const *commands; /* all; the last is NULL */
	const struct arguments *arguments;     /* as it was typed */
	const void *options;                   /* the command's own struct, filled */
	const struct common_options *common;
	const struct select_options *select; /* zero if it takes no selectors */
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_recordings *recordings;
	void *prepared;              /* the command's own, from prepare */
	struct collected *collected; /* what is reported in addition to the answer */
	struct {
		size_t finding, failure, omission;
	} first; /* of those of this checkpoint, for its verdict */
	size_t widened_first, widened_count; /* notes about patterns that were widened */
	uint32_t input;                      /* whose checkpoint it is, or UINT32_MAX */
	struct fsdp_locator *locator;        /* made on first use, freed after the run */
	const char *path;  /* of the checkpoint as the user typed it: the first … */
	size_t path_count; /* … of so many */
	const char *const *paths; /* all of them */
	const char *other_path;   /* of INPUTS_PAIR: the second */
	const struct fsdp_discover
		*below; /* instead of a checkpoint: those in its directory */
	const struct fsdp_limit_setting *limits; /* that were typed */
	size_t limit_count;
	struct fsdp_remote *remote; /* reads the URLs that were typed, or NULL */
	const char *const *words;   /* arguments that are not checkpoints */
	size_t word_count;
	struct out *out;
	int status;     /* set by run_begin */
	unsigned locks; /* of the kernel, that hold: a set of enum sandbox_lock */
	struct fsdp_error *error; /* for run_must */

	/* internal to session.c */
	struct session *session;
};

/*
 * A command with `perform` ends its run from any depth, and all that it owns ends with
 * the run. Not in a function that the library calls: its memory and locks would stay.
 */

/* Ends it with an error of the library; NULL: out of memory. */
_Noreturn void run_fail(struct run *run, struct fsdp_error *error);

/* Ends it with run->error, which a call of the library that was not good has filled. */
static inline void run_must(struct run *run, bool good)
{
	if (!good)
		run_fail(run, run->error);
}

/* Takes a step that may end in these ways, and ends alone then. False: with an error,
 * which is the session's until the next step. */
bool run_try(struct run *run, void (*step)(struct run *run));

/* Ends it as a request that is wrong, as refuse() does. */
_Noreturn void run_refuse(struct run *run, const char *hint, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Zeroed memory for `count` elements, at least one; released after the run. */
void *run_memory(struct run *run, size_t count, size_t size);

/* A list of the run with room for one more element. */
void *run_grown(struct run *run, void *items, size_t count, size_t size);

/* What is to be released after the run, as memory_owns does. */
void run_owns(struct run *run, void *object, release_function *release);

/* Of INPUTS_PAIR: opens the second checkpoint, which lives as long as the first. Call it
 * before run_begin. NULL: it cannot be opened, and that will be reported. */
const struct fsdp_checkpoint *run_open(struct run *run, size_t input);

/* The answer begins: its status is known. Writes the envelope's head. */
void run_begin(struct run *run, int status);

/* The document that another command writes in this format ("json"), for the words of a
 * command line, the program's name first. Nothing is printed, and what it reads is not
 * replaced by outputs of this command. Freed by memory_free. */
struct text run_document(struct run *run, const char *format, char **words, int count);

/* Number of checkpoints that the arguments are: files of one set are one. */
size_t run_checkpoints(const struct run *run);

/* The answer is that of another command. Before run_begin. */
const char *run_answer_as(struct run *run, const struct command *command);

/*
 * Commands with no shapes (help, schema, completion) print a text of their own making as
 * it is: here. Their run->out is NULL.
 */
FILE *run_stream(struct run *run);

/* A remark on stderr (a note; -q hides it): one line without a full stop. */
void run_note(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A finding of the command's own, by rule; call it before run_begin. `fix` NULL: that of
 * the rule. */
void run_finding(struct run *run, const char *rule, const char *fix, const char *format,
	...) __attribute__((format(printf, 4, 5)));

/* Signal that interrupted the work; it ends the process after the answer. 0: not
 * interrupted. */
void run_interrupted(struct run *run, int signal_number);

/* Why the answer is bad, on stderr, whatever -q says. */
void run_reason(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The totals of a table, on stderr, only for text outputs on stdout. */
void run_total(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * An error that did not prevent the answer: on stderr and in `errors`. Call it before
 * run_begin if possible, so that the head of the answer contains it; a status of
 * 0 becomes 3.
 */
void run_failure(struct run *run, const char *code, const char *hint, const char *format,
	...) __attribute__((format(printf, 4, 5)));

/* All commands on one screen. */
void help_overview(FILE *stream, const struct command *const *commands);

/* One command: what it answers, its options, outputs and examples. */
void help_command(FILE *stream, const struct command *command);

/* The n-th topic that is not a rule; NULL past the end. */
const char *help_topic_name(size_t index);

/* Of an enum option_kind: "flag", "count", "integer", "size", "word", "text", "words". */
const char *help_kind_name(unsigned kind);

/* Help that is not a table of the program: one row per topic. */
struct topic {
	const char *name;
	const char *text; /* lines of at most 80 columns, the last ended too */
};

/* NULL past the end. */
const struct topic *topic_at(size_t index);

/* NULL: unknown name. */
const struct topic *topic_find(const char *name);

/* What to type instead of a command, an option ("--name") or an output of an earlier
 * version; NULL: it is none. `command` has the option or output; NULL: any, and dashes
 * may lack. */
const char *removed_word(const char *word, const char *command);

#endif
