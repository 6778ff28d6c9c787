/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_STATES_H
#define FSDP_ANALYSIS_STATES_H

#include <stdbool.h>

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

#endif
