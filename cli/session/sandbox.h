/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>

/*
 * Two locks of the kernel, one for system calls (seccomp) and one for files (Landlock).
 * Once both are shut this process, with all its threads, can read below the paths that
 * were allowed, ask what any path leads to, allocate, start threads and write to what it
 * has open. It cannot create, name, remove, connect, execute or change anything, but for the
 * files of one folder in which it was allowed to write. A lock
 * that the kernel does not have is not a failure, only a lock less.
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
 * A path as the user named it: of a folder all below it, of a file the whole folder it is
 * in, where the rest of its checkpoint may be, and what it is a link to; within the
 * snapshots of the Hugging Face hub's download cache the blobs that links lead to. Of
 * one that is not there only the names beside it, by which opening it tells so.
 */
void sandbox_allow(struct sandbox *sandbox, const char *path);

/*
 * A folder, which is there, in which files may be made, written, renamed and removed
 * besides. Without Landlock the process could do that anywhere.
 */
void sandbox_allow_writes(struct sandbox *sandbox, const char *folder);

/*
 * Shuts the locks, for good, and gives the set of those that hold. Landlock holds in this
 * thread and those that it starts, so others are to be started later.
 */
unsigned sandbox_enter(struct sandbox *sandbox);

#endif
