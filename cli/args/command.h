/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_H
#define COMMAND_H

#include <fsdp/model.h>
#include <fsdp/trace.h>

#include "args/option.h"
#include "render/out.h"

/*
 * A command is a row: what it is called, what it takes, what it emits, and the function
 * that does it. Each file or folder of cli/cmd exports one; main has the table of them. Help, completion,
 * `commands --json`, "did you mean" and the drift test of the manual read these rows.
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
	INPUTS_RUNS,       /* folders of runs, which the command looks through itself */
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

struct run;
struct arguments;
struct collected;
struct joined_parts;

/* What a command writes by itself, beside its outputs. */
struct written {
	const char *path;
	bool is_file; /* else a folder, which is made if it is not there */
	bool adds;    /* to a folder that is read, all of which stays */
	/* Of a folder: whether a file of this name in it may be replaced or removed. */
	bool (*replaces)(const char *name);
	/* Names of files beside an input that are read with it; NULL past the end. */
	const char *(*reads)(size_t index);
};

struct command {
	const char *name;
	enum command_group group;
	const char *summary;     /* one line, lower case: "what is this checkpoint?" */
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
	bool counts_beside;    /* of these, and all other, the pickles */
	bool answers_unopened; /* for a checkpoint that could not be opened too: then
				  run->checkpoint is NULL */
	bool answers_each;     /* several checkpoints one after the other, and a folder of
				them (run->below) */
	bool knows_recordings; /* if the inputs are not a checkpoint but recordings, it answers
				  for run->recordings */
	size_t options_size; /* of the struct that `options` point into */

	/* Whether it needs the values of entries that are not tensors, each of which may
	 * cost a read. NULL: never. */
	bool (*wants_values)(const void *options);

	/* Whether it only counts: asks for no order of tensors and no module. NULL: it
	 * asks. */
	bool (*only_counts)(const void *options);

	/* Whether its json is the members of `data` alone, without the envelope. NULL:
	 * never. */
	bool (*is_bare)(const void *options);

	/* Before anything is opened: looks at its options. INPUTS_RECORDINGS: fills what
	 * they say about reading; else `options` is NULL. False: they are wrong, and
	 * refuse() was called. NULL: nothing. */
	bool (*prepare)(struct run *run, struct fsdp_recording_options *options);
	void (*release)(void *prepared); /* what it made; NULL: nothing */

	/* Of a command whose answer is a judgement. Called for each checkpoint once it
	 * was opened, or could not be (then run->checkpoint is NULL), before `run`
	 * answers for all of them at once, with no checkpoint. It adds the findings of an
	 * opened checkpoint to run->collected itself. What failed, and the findings of one
	 * that could not be opened, are there from run->first on, and may be changed.
	 * Sets run->status, that of this checkpoint. False as for `run`. */
	bool (*judge)(struct run *run, struct fsdp_error **ret_error);

	/* Whether it writes files by itself, and which: the process may write in their
	 * folder alone, and none of them takes the place of what is read. "-" is standard
	 * output; `path` is the first input. NULL: never. */
	bool (*writes)(
		const void *options, const char *path, struct written *ret_written);

	/* The log or trace whose units and classes are to be used, or NULL. With a log
	 * there need be no checkpoint. NULL: it takes none. */
	const char *(*units_from)(const void *options);

	/* Whether one rank of a set is enough, and which; FSDP_NONE: any. NULL: never. */
	bool (*wants_rank)(const void *options, const struct select_options *select,
		uint32_t *ret_rank);

	/* Answers for results of all parts of a run, as `run` would have for the whole.
	 * NULL: it takes no --part. */
	bool (*join)(struct run *run, const struct joined_parts *joined,
		struct fsdp_error **ret_error);

	/* Answers for an opened checkpoint: decides the status, calls run_begin, emits.
	 * False: out of memory or a read failed, *ret_error says which (left NULL: out of
	 * memory); the caller reports it. STATUS_FAILED in run_begin: there is no answer.
	 * Without inputs run->checkpoint is NULL. */
	bool (*run)(struct run *run, struct fsdp_error **ret_error);
};

/* Of all commands, the last of which is NULL. NULL: there is none of that name. */
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
	struct collected *collected; /* what is reported beside the answer */
	struct {
		size_t finding, failure, omission;
	} first;        /* of those of this checkpoint, for `judge` */
	uint32_t input; /* whose checkpoint it is, or UINT32_MAX */
	struct fsdp_locator
		*locator;  /* made by the first who needs it, freed behind the run */
	const char *path;  /* of the checkpoint as the user typed it: the first … */
	size_t path_count; /* … of so many */
	const char *const *paths;       /* all of them */
	const char *other_path;         /* of INPUTS_PAIR: the second */
	const struct fsdp_below *below; /* instead of a checkpoint: those in its folder */
	const struct fsdp_limit_setting *limits; /* that were typed */
	size_t limit_count;
	char *const *words; /* arguments that are not checkpoints */
	size_t word_count;
	struct out *out;
	int status;     /* set by run_begin */
	unsigned locks; /* of the kernel, that hold: a set of enum sandbox_lock */

	/* internal to session.c */
	struct session *session;
};

/* Of INPUTS_PAIR: opens the second checkpoint, which lives as long as the first. Call it
 * before run_begin. NULL: it cannot be opened, and that will be reported. */
const struct fsdp_checkpoint *run_open(struct run *run, size_t input);

/* The answer begins: its status is known. Writes the envelope's head. */
void run_begin(struct run *run, int status);

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

/* A finding of the command's own, by rule; call it before run_begin. */
void run_finding(struct run *run, const char *rule, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* What was done was stopped by this signal, which ends the process behind the answer; 0:
 * it was not. */
void run_interrupted(struct run *run, int signal_number);

/* Why the answer is bad, on stderr, whatever -q says. */
void run_reason(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The totals of a table, on stderr, only for text outputs on stdout. */
void run_total(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * An error that did not prevent the answer: on stderr and in `errors`. Call it before
 * run_begin where that can be, so that the head of the answer already tells; a status of
 * 0 becomes 3.
 */
void run_failure(struct run *run, const char *code, const char *hint, const char *format,
	...) __attribute__((format(printf, 4, 5)));

#endif
