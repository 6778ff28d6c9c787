/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>

/*
 * Two locks of the kernel, one for system calls (seccomp) and one for files (Landlock).
 * Once both are shut this process, with all its threads, can read below the paths that
 * were allowed, ask what any path leads to, allocate, start threads and write to what it
 * has open. It cannot create, name, remove, connect, execute or change anything, except the
 * files of one directory in which it was allowed to write. A lock
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

#endif
