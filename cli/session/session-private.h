/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_PRIVATE_H
#define SESSION_PRIVATE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include <fsdp/checkpoint.h>

#include "args/input.h"
#include "args/parse.h"
#include "render/out.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/session.h"

/*
 * Two locks of the kernel, one for system calls (seccomp) and one for files (Landlock).
 * Once both are shut this process, with all its threads, can read below the paths that
 * were allowed, ask what any path leads to, allocate, start threads and write to what it
 * has open. It cannot create, name, remove, connect, execute or change anything, except
 * the files of one directory in which it was allowed to write. A lock that the kernel
 * does not have is not a failure, only a lock less.
 */
enum sandbox_lock {
	SANDBOX_CALLS = 1 << 0,
	SANDBOX_FILES = 1 << 1,
};

struct sandbox {
	int rules;   /* the kernel's list of what may be read; -1: it keeps none */
	bool writes; /* files may be made somewhere */
};

/* Which locks this program was built with: a set of enum sandbox_lock. */
unsigned sandbox_built(void);

/* A set of locks in words. Never NULL. */
const char *sandbox_text(unsigned locks);

/* Nothing is locked yet. What is allowed are the tables of the C library. */
struct sandbox sandbox_begin(void);

/*
 * A path as the user named it: for a directory all files below it; for a file its
 * directory, which may contain the rest of its checkpoint, and the target of its link;
 * within the snapshots of the Hugging Face hub's download cache the blobs that links lead
 * to. For a missing path only the names in its directory, so that opening it fails.
 */
void sandbox_allow(struct sandbox *sandbox, const char *path);

/*
 * An existing directory. Files in it may be made, written, renamed and removed as well.
 * Without Landlock the process could do that anywhere.
 */
void sandbox_allow_writes(struct sandbox *sandbox, const char *folder);

/*
 * Shuts the locks, for good, and gives the set of those that hold. Landlock holds in this
 * thread and those that it starts, so others are to be started later.
 */
unsigned sandbox_enter(struct sandbox *sandbox);

/*
 * A file that appears complete or not at all: written under a name of its own in
 * the directory where it belongs, renamed when it is done. SIGHUP, SIGINT and SIGTERM
 * remove all that are not done, then end the process as they would have.
 *
 * A process that locks itself up cannot do that any more. Before, it hands its files over
 * to another, which can do nothing but name each once or remove it, and which removes
 * what is left when the first one ends, however that is.
 *
 * What exists and is not a regular file (a pipe, a terminal, /dev/null) is written
 * to directly, because nothing is replaced.
 */
struct temporary {
	char *target;   /* where it will be */
	char *path;     /* where it is now; NULL: written directly, or done */
	int descriptor; /* to be written to; closed by the caller */
	unsigned number;
	struct temporary *next;
};

/* False with errno. The struct stays where it is until commit or remove. */
bool temporary_open(struct temporary *temporary, const char *target);

/* The bytes are written and the descriptor closed: gives the file its name. False with
 * errno; the temporary file is gone then. */
bool temporary_commit(struct temporary *temporary);

/* Not wanted after all. Fine after commit too: then nothing is removed. */
void temporary_done(struct temporary *temporary);

/*
 * From now on the process itself makes files in this directory, with names that begin
 * with temporary_prefix. With `make` a missing directory is made. However the process
 * ends, its remaining files are removed, and the directory too if it was made here and is
 * empty. For one directory only, before temporary_hand_over.
 */
void temporary_watch(const char *folder, bool make);

/* Why that directory could not be made, as errno; 0: it exists. */
int temporary_why(void);

/* Of no other run: process numbers of several containers that write in one directory are
 * alike. Static; NULL before temporary_watch. */
const char *temporary_prefix(void);

/* Starts the process that names and removes all that are open now, and watches the
 * directory; none if there is nothing to do. No other may be opened after it. False with
 * errno, and nothing has changed. */
bool temporary_hand_over(void);

/* For an end that was not planned: removes all that are not done. May be called in a
 * signal handler. */
void temporary_abandon_all(void);

/* Removes all that are not done, and ends the process as the signal does that is not
 * caught. May be called in a signal handler. */
_Noreturn void temporary_die(int signal_number);

/* What the files of this room and main.c share; commands see session.h. */

/* ---- outputs ---- */

/* Files that a run reads, and their directories, which no output may replace. All zero is
 * an empty list. */
struct kept {
	struct kept_place *places;
	size_t count;
};

enum kept_why {
	KEPT_NOT,
	KEPT_READ, /* it is read, or is below a directory that is read */
	KEPT_SET,  /* its name is that of a file of the same set as one that is read */
};

/*
 * How an answer should look on a descriptor. Reads the environment and asks the terminal.
 * Bytes for a program are the same in every locale, unless a terminal would show them.
 */
struct looks looks_for(
	const struct common_options *common, int descriptor, bool for_program);

/* Whether the environment names a locale of UTF-8. If not, the locale must be asked, once
 * it is set. */
bool locale_is_utf8(void);

/*
 * --part=K/N, --part=auto and --part=auto/N: which share of the work is this process's.
 * With auto the launcher that started it sets both: Slurm (arrays, srun) or torchrun; GNU
 * parallel sets K alone.
 */

/* Fills part_number, part_count and part_from of the options; nothing without --part. */
void launcher_part(const struct command *command, struct common_options *common,
	struct usage *usage);

/* Where one answer goes: a format, and stdout or a file. */
struct sink {
	const struct out_format *format;
	const char *file; /* as typed; NULL: stdout */
	FILE *stream;
	struct temporary temporary;
	bool has_temporary;
};

/* All outputs of a run. */
struct outputs {
	struct sink *sinks;
	size_t count;
	struct kept kept;       /* what is read */
	struct outputs *keeper; /* those of the command that runs this one, or NULL */
	struct written written; /* by the command itself; path NULL: nothing */
	struct out *out;        /* one that feeds them all; NULL if there are none */
	bool forgetful; /* of what not to replace, for lack of memory: nothing is replaced
			 */
	bool spoilt;    /* the head promised an answer that broke off: no file stays */
	bool is_incomplete; /* memory or room ended before all was written */
	bool broken_pipe;   /* stdout was closed by its reader */
	const char *page; /* file of a page that would have gone to a terminal, or NULL */
	int interrupted;  /* by this signal, while reading; 0: not */
};

/* Which outputs were asked for; refuses those that do not fit the command. */
void outputs_choose(struct outputs *outputs, const struct command *command,
	const struct common_options *common, const struct texts *inputs,
	struct usage *usage);

/* The name of one that does not fit this command; NULL: all do. */
const char *outputs_unfit(const struct outputs *outputs, const struct command *command);

/* Opens them. No output replaces what the arguments name, and no two are one file. */
void outputs_open(struct outputs *outputs, const struct arguments *arguments,
	const struct texts *inputs, struct usage *usage);

/* Refuses what the command writes by itself if it does not leave alone what is kept, and
 * the files of other outputs. To be asked again when more is. */
void outputs_check(const struct outputs *outputs, struct usage *usage);

/* From now on no output replaces the file at this path, or files below it if it is a
 * directory. `outputs` is a struct outputs. A path that does not exist is not kept. */
void outputs_keep(void *outputs, const char *path);

/* Nor a file of an open checkpoint, which is in this directory, under any name. */
void outputs_keep_files(struct outputs *outputs, const struct fsdp_checkpoint *checkpoint,
	const char *folder);

/*
 * Flushes and closes all; files get their names, those of formats that cannot say
 * "failed" only if there was an answer. One that failed is reported through `complain`,
 * unless it is a stdout that its reader closed, with its errno or OUTPUT_IS_INPUT.
 * False if any failed.
 */
enum { OUTPUT_IS_INPUT = -1 };
bool outputs_finish(struct outputs *outputs, bool answered,
	void (*complain)(void *context, const char *file, int error), void *context);

/* Whether text goes to stdout. */
bool outputs_have_text(const struct outputs *outputs);
bool outputs_have_files(const struct outputs *outputs);

/* Whatever is unfinished is removed. All zero is fine. */
void outputs_done(struct outputs *outputs);

/* ---- the run ---- */

/*
 * Who ran the program: what `--provenance` adds to answers for machines. Without it two
 * runs write the same bytes.
 */
struct provenance_source {
	struct provenance shown;
	char host[256], started[DATE_SIZE + 1];
	struct fsdp_remote_counts remote; /* when the answer begins */
};

struct session {
	const struct command *command;
	const struct command *answers_as; /* whose answer it is, if not its own */
	const struct arguments *arguments;
	const struct inputs *inputs;
	struct outputs *outputs;
	const struct looks *error_looks;

	/* Checkpoints that are open; their facts are borrowed below, so they stay. */
	struct fsdp_checkpoint **checkpoints;
	size_t checkpoint_count;
	struct fsdp_recordings *recordings; /* in their place */
	struct fsdp_discover *below;        /* or the content of the named directory */

	struct collected collected;          /* reports in addition to the answer */
	struct provenance_source provenance; /* with --provenance */

	int status;
	uint32_t input; /* whose checkpoint is answered for, or UINT32_MAX */
	bool apart;     /* each input is a checkpoint of its own */
	bool separate;  /* there are several, and an answer for each */
	bool fleeting; /* checkpoints are closed before the answer: nothing is borrowed */
	bool checked;  /* all of them were */
	bool begun;    /* the envelope's head is written */
	bool answered; /* there is data */
	int interrupted; /* by this signal */
	unsigned locks;  /* that hold: a set of enum sandbox_lock */

	jmp_buf *end;             /* where the command ends */
	struct fsdp_error *error; /* why it ended there; NULL: out of memory */
	bool out_of_memory;
};

/* ---- session.c ---- */

/* ---- open-inputs.c ---- */

/* How many paths from the first on are one checkpoint; and how many there are of these.
 */
size_t session_paths_together(const struct session *session, size_t first);
size_t session_count_groups(const struct session *session);

/* Opens so many paths as one checkpoint, which belongs to the session. NULL: it failed,
 * and that was collected. */
struct fsdp_checkpoint *session_open(
	struct session *session, const char *const *paths, size_t count, size_t first);

/* The library does not have the typed paths: a hint of the last failure that ends with
 * FILE means this path. NULL: none. */
void session_name_file(struct session *session, const char *path);

/* Recordings. */

/* False: none can be answered for, and that was collected. */
bool session_read_recordings(struct session *session, struct run *run);

/* After the inputs could not be opened as a checkpoint: whether all of them are
 * recordings that can be read; then run->recordings are these, and what failed before is
 * forgotten. Where a log holds no recording but a printed model, run->checkpoint is that.
 */
bool session_recognise(struct session *session, struct run *run);

#endif
