/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_STEP_SUMS_H
#define FSDP_TRACE_KINETO_STEP_SUMS_H

#include <fsdp/trace.h>

#include "base/arena.h"

/*
 * What was spent on each of some rows in each step, while a trace is read. What is of the
 * same step mostly comes one after the other, so a row looks at its last sum only; sums of
 * one step that are apart meet at the end.
 */
struct fsdp_step_sums {
	struct fsdp_vec list; /* struct fsdp_step_sum */
	struct fsdp_vec last; /* uint32_t: by row its last in the list, from 1 */
	bool overflow;        /* a sum does not fit */
};

void fsdp_step_sums_init(struct fsdp_step_sums *sums, struct fsdp_arena *arena);

/* One call. All that return bool are false when out of memory. */
bool fsdp_step_sums_add(struct fsdp_step_sums *sums, uint32_t row, int64_t step,
	int64_t ns, int64_t exposed_ns);

void fsdp_step_sums_forget(struct fsdp_step_sums *sums);

/* The sums of each row by step, in the arena: those of a row go to ret_lists of its place,
 * which several rows may share; a place of UINT32_MAX is left out. places NULL: its own. */
bool fsdp_step_sums_list(struct fsdp_step_sums *sums, const uint32_t *places,
	struct fsdp_arena *arena, struct fsdp_step_list *ret_lists);

#endif
