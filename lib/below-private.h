/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BELOW_PRIVATE_H
#define FSDP_BELOW_PRIVATE_H

#include "opening.h"

/*
 * The search below a folder, for below.c, below-places.c and below-run.c. Folders are
 * looked at one after the other; those found on the way stand at the end of the list.
 */
enum { FSDP_BELOW_LEVELS = 3, FSDP_BELOW_SMALL = 64 };

/* A folder that is still to be looked at. */
struct fsdp_below_place {
	const char *path;
	unsigned level; /* the folder that was named has 0 */
	bool is_named; /* by its epoch: a checkpoint, if no steps lie in it. Not the folder
			 * that was named: a run may be called sft_ba512 */
};

struct fsdp_below_found {
	const char *path;
	struct fsdp_step_name step;
	/* A file that no other file of its folder bears on, but this plan (or NULL). */
	bool is_lone;
	const char *plan;
};

struct fsdp_below {
	struct fsdp_budget budget;
	struct fsdp_limits limits;
	struct fsdp_arena arena;
	struct fsdp_vec places;   /* struct fsdp_below_place */
	struct fsdp_vec deep;     /* those too deep for a run, which is not known empty */
	struct fsdp_vec found;    /* struct fsdp_below_found */
	struct fsdp_vec pointers; /* struct fsdp_pointer */
	uint64_t seen, most;      /* entries */
	uint64_t unread;          /* folders and files that could not be opened */
	const char *plan;         /* the only one of the folder that is looked at */
	const char *unclear;      /* the first entry that may be a part of a save */
	bool is_run;              /* what is named by its step counts, and pointers */
	bool is_cut, failed;
};

/* "folder/name". NULL: out of memory, which is remembered. */
const char *fsdp_below_join(
	struct fsdp_below *below, const char *folder, struct fsdp_span name);

/* What could not be looked at is counted, unless memory is all that was missing. Takes
 * the error. */
void fsdp_below_pass_over(struct fsdp_below *below, struct fsdp_error *error);

/* Adds what was found, or a folder that is to be looked at; a path that is NULL is out of
 * memory. */
void fsdp_below_add(struct fsdp_below *below, const char *path, bool is_file);
void fsdp_below_add_place(
	struct fsdp_below *below, const char *path, unsigned level, bool is_named);

/* Whether the folder is a checkpoint, or only leads to one; by its names. */
bool fsdp_below_is_checkpoint(const struct fsdp_folder *folder);

/* Whether the file holds tensors, and is not a plan, a bare pickle or something to
 * refuse: by its first bytes. */
bool fsdp_below_is_file(struct fsdp_below *below, const struct fsdp_folder *folder,
	const struct fsdp_entry *entry);

/* Whether the file is of a format that is recognized and not read. */
bool fsdp_below_is_refused(
	const struct fsdp_folder *folder, const struct fsdp_entry *entry);

/* below-run.c: looks at one folder of a run. */
void fsdp_below_look_at_run(struct fsdp_below *below,
	const struct fsdp_below_place *place, const struct fsdp_folder *folder);

/* Looks in one that is too deep for what a step may be called. */
void fsdp_below_look_deep(struct fsdp_below *below, const struct fsdp_below_place *place,
	const struct fsdp_folder *folder);

#endif
