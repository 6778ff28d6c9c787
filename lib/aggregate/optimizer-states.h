/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AGGREGATE_OPTIMIZER_STATES_H
#define FSDP_AGGREGATE_OPTIMIZER_STATES_H

#include <fsdp/model.h>

#include "base/span.h"

/* One way to read a name as that of a state: parts of it. */
struct fsdp_state_name {
	struct fsdp_span parameter, key;
};

/* Where the next way begins. */
struct fsdp_state_reading {
	size_t at; /* end of the last segment "state" */
	bool key_first;
};

/* The next way to read the name; start with *reading all zero. False: no more. Takes time linear in the name over
 * all calls. */
bool fsdp_state_name_next(struct fsdp_span name, struct fsdp_state_reading *reading,
	struct fsdp_state_name *ret_state);

/* Path of a key in an optimizer file: OWNER.WORD.PART.PART…, for example "optimizer.param_groups.0.params.3". */
struct fsdp_container_path {
	size_t owner;                    /* bytes before the word, with the dot */
	struct fsdp_path_part behind[4]; /* what follows the word … */
	size_t ends[4]; /* … each up to here in the name, with the dot */
	size_t count;   /* … so many; further ones are not looked at */
};

/* Splits `raw`, the full text of the raw name, at the first part equal to `word`. The parts are borrowed from it.
 * False: no such part, or not a path. */
bool fsdp_container_path_read(const struct fsdp_checkpoint *checkpoint, uint32_t path,
	struct fsdp_span raw, const char *word, struct fsdp_container_path *ret);

#endif
