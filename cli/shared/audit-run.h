/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_AUDIT_RUN_H
#define SHARED_AUDIT_RUN_H

#include <fsdp/audit.h>

#include "args/parse.h"

/* Turns those failures of run->collected, from run->first on, that are results for the
 * checkpoint at run->path into findings. run->checkpoint may be NULL. */
void report_failed_files(struct run *run);

/*
 * Checks of the library on one checkpoint: a pass over its bytes, and an audit of
 * its facts. Their findings go to run->collected.
 */
struct passes {
	struct fsdp_verify *verify; /* NULL: no bytes were looked at */
	struct fsdp_audit *audit;
	struct fsdp_verify_coverage scope;
};

/* run->checkpoint must be there. False as for a command; passes_done also then. */
bool passes_run(struct passes *passes, struct run *run, enum fsdp_level level,
	const char *manifest, struct fsdp_error **ret_error);
void passes_done(struct passes *passes);

/* Checks run->checkpoint, which must be open, as audit does with default options: findings of
 * opening it, of the passes, of sets of weights and of the loader of its own kind go to
 * run->collected. `items`: reads the items of DCP, which may be in thousands of files, and
 * checks its loader, which needs them. *ret_open, unless it is NULL: checks that could not be
 * evaluated. False as for a command. */
bool opened_check(struct run *run, enum fsdp_level level, bool items, size_t *ret_open,
	struct fsdp_error **ret_error);

/* Whether NeMo's marker of an unfinished save is next to it: PATH-unfinished. */
bool path_is_unfinished(const char *path);

/* "bad", "partial" or "good": what the findings and failures come to. */
const char *collected_verdict(const struct collected *collected);

/* Finds sets of weights that differ, in the directory of the run and in those that were
 * entered from there (FI1012): each loader takes one and ignores the
 * others. `data`: compares their bytes. `others`: also checks further models, a critic
 * with its actor. False: out of memory. */
bool check_weight_sets(struct run *run, bool data, bool others);

#endif
