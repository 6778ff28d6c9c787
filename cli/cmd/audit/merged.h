/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MERGED_H
#define MERGED_H

#include "args/parse.h"
#include "args/select.h"
#include "part/expectation.h"

/* With what --merged is compared. */
struct merged_options {
	const struct fsdp_map *map; /* or NULL */
	struct typed_names sizes;
	bool values;
	unsigned jobs;
};

/* What --merged names must be the checkpoint, converted: FI6001, FI6003 and, with `values`,
 * FI6004. False: out of memory, or *ret_error. Names that `ignored` (or NULL) takes are
 * left out. */
bool judge_merged(const struct expectation *expectation, struct run *run,
	struct selection *ignored, const struct merged_options *options,
	struct fsdp_error **ret_error);

#endif
