/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NUMBERED_H
#define NUMBERED_H

#include "cmd/show/states.h"

/*
 * An optimizer of plain torch does not name its parameters: it counts them, in the order
 * in which the model lists them. "optimizer.state.3.exp_avg" is a state of the fourth
 * parameter of a model in the same file, if there is one with as many parameters as the
 * optimizer's groups name and whose shapes are those of the states. If several fit, or
 * none, nobody can tell.
 */
struct numbered;

/* Looks through all tensors and values once. False: out of memory. */
bool numbered_find(
	const struct fsdp_checkpoint *checkpoint, struct numbered **ret_numbered);

/* NULL is fine. */
void numbered_free(struct numbered *numbered);

/* States of a parameter, in the order of tensors. */
const struct state *numbered_of(
	const struct numbered *numbered, uint32_t tensor, size_t *ret_count);

#endif
