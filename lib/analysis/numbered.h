/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_NUMBERED_H
#define FSDP_ANALYSIS_NUMBERED_H

#include <fsdp/analysis.h>

#include "base/arena.h"

/*
 * An optimizer of plain torch does not name its parameters: it counts them, in the order
 * in which the model lists them. "optimizer.state.3.exp_avg" is a state of the fourth
 * parameter of a model in the same file, if there is one with as many parameters as the
 * optimizer's groups name and whose shapes are those of the states. If several fit, or
 * none, it is unknown.
 */
struct fsdp_numbered;

/* Looks through all tensors and values once. All of it lives in the arena. False: out of
 * memory (fsdp_arena_fail). */
bool fsdp_numbered_new(const struct fsdp_checkpoint *checkpoint, struct fsdp_arena *arena,
	struct fsdp_numbered **ret_numbered);

/* States of a parameter, in the order of tensors; NULL and 0: none. */
const struct fsdp_state *fsdp_numbered_of(
	const struct fsdp_numbered *numbered, uint32_t tensor, size_t *ret_count);

#endif
