/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_PRIVATE_H
#define SESSION_PRIVATE_H

/* What session.c and open-inputs.c share; commands see session.h. */
#include <fsdp/checkpoint.h>

#include "args/input.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/output.h"
#include "session/session.h"

/*
 * Who ran the program: what `--provenance` adds to answers for machines. Without it two
 * runs write the same bytes.
 */
struct provenance_source {
	struct provenance shown;
	struct text *arguments; /* owned: shown.arguments */
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
	struct fsdp_below *below;           /* or the content of the named directory */

	struct collected collected;          /* reports in addition to the answer */
	struct provenance_source provenance; /* with --provenance */

	int status;
	uint32_t input; /* whose checkpoint is answered for, or UINT32_MAX */
	bool apart;     /* each input is a checkpoint of its own */
	bool separate;  /* there are several, and an answer for each */
	bool fleeting; /* checkpoints are closed before the answer: nothing is borrowed */
	bool judged;   /* all of them were */
	bool begun;    /* the envelope's head is written */
	bool answered; /* there is data */
	int interrupted; /* by this signal */
	unsigned locks;  /* that hold: a set of enum sandbox_lock */
};

/* ---- session.c ---- */

/* Needs no memory. */
void session_out_of_memory(struct session *session, struct failure *failure);

/* ---- open-inputs.c ---- */

/* How many paths from the first on are one checkpoint; and how many there are of these. */
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

/* After the inputs could not be opened as a checkpoint: whether all of them are recordings
 * that can be read; then run->recordings are these, and what failed before is forgotten.
 * Where a log holds no recording but a printed model, run->checkpoint is that. */
bool session_recognise(struct session *session, struct run *run);

#endif
