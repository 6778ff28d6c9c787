/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_H
#define POLICY_H

#include <fsdp/document.h>

#include "cmd/audit/levels.h"
#include "front/command.h"

/* What a file says about how to judge (fsdp-inspect-policy(5)). */
struct policy {
	struct fsdp_document *document;             /* NULL: there is none */
	struct text fail_on;                        /* or absent */
	struct fsdp_document_value globals, dtypes; /* lists, or absent */
	int64_t world_size;                         /* -1: any */
};

/* Sets levels too. False: it is wrong, and refuse() was called. */
bool policy_open(
	struct policy *policy, struct run *run, const char *path, struct levels *levels);
void policy_done(struct policy *policy);

/* Whether the file lies in the folder that is judged. */
bool policy_lies_in(const char *path, const char *checkpoint);

/* Whether a global of a pickle is allowed. */
bool policy_allows(const struct policy *policy, struct text global);

/* What the checkpoint is not, though the policy wants it, as findings. */
void policy_judge(const struct policy *policy, struct run *run);

#endif
