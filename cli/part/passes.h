/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PASSES_H
#define PASSES_H

#include <fsdp/audit.h>
#include <fsdp/verify.h>

#include "front/command.h"

/*
 * What the library does to judge one checkpoint: a pass over its bytes, and an audit of
 * its facts. Their findings go to run->collected.
 */
struct passes {
	struct fsdp_verify *verify; /* NULL: no bytes were looked at */
	struct fsdp_audit *audit;
	struct fsdp_verify_scope scope;
};

/* run->checkpoint must be there. False as for a command; passes_done also then. */
bool passes_run(struct passes *passes, struct run *run, enum fsdp_level level,
	const char *manifest, struct fsdp_error **ret_error);
void passes_done(struct passes *passes);

#endif
