/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPECT_H
#define EXPECT_H

#include <fsdp/document.h>

#include "front/command.h"
#include "front/select.h"

/* What --expect or --merged names: a list of names, or another checkpoint or plan. */
struct expectation {
	const char *path; /* NULL: there is none */
	struct fsdp_document *document;
	struct fsdp_document_value names; /* a list or an object */
	struct fsdp_checkpoint *checkpoint;
};

/* A list of names is taken only if `lists`. False: it is wrong, and refuse() was called.
 */
bool expectation_open(
	struct expectation *expectation, struct run *run, const char *path, bool lists);
void expectation_done(struct expectation *expectation);

/* The checkpoint must have these names, shapes and dtypes: FI6005, FI6007. False: out of
 * memory. Names that `ignored` (or NULL) takes are left out. */
bool judge_expected(const struct expectation *expectation, struct run *run,
	struct selection *ignored);

/* What --merged names must be the checkpoint, converted: FI6001, FI6003 and, with `values`,
 * FI6004. */
bool judge_merged(const struct expectation *expectation, struct run *run,
	struct selection *ignored, bool values);

#endif
