/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEMPORARY_H
#define TEMPORARY_H

#include <stdbool.h>

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
 * From now on the process itself makes files in this directory, with names that begin with
 * temporary_prefix. With `make` a missing directory is made. However the process ends, its
 * remaining files are removed, and the directory too if it was made here and is empty. For
 * one directory only, before temporary_hand_over.
 */
void temporary_watch(const char *folder, bool make);

/* Why that directory could not be made, as errno; 0: it exists. */
int temporary_why(void);

/* Of no other run: process numbers of several containers that write in one directory are
 * alike. Static; NULL before temporary_watch. */
const char *temporary_prefix(void);

/* Starts the process that names and removes all that are open now, and watches the directory;
 * none if there is nothing to do. No other may be opened after it. False with errno, and
 * nothing has changed. */
bool temporary_hand_over(void);

/* For an end that was not planned: removes all that are not done. May be called in a
 * signal handler. */
void temporary_abandon_all(void);

/* Removes all that are not done, and ends the process as the signal does that is not
 * caught. May be called in a signal handler. */
_Noreturn void temporary_die(int signal_number);

#endif
