/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_H
#define STATES_H

#include "part/name-buffer.h"

/*
 * Which tensors an optimizer keeps for a parameter: KEY of "….state.<parameter>.KEY", or
 * of "….state.KEY.<parameter>". A parameter is called there as in the model, without the
 * container of a checkpoint: "optim.state.fc.bias.exp_avg" is a state of "model.fc.bias".
 * An optimizer that counts its parameters is read as numbered.h says.
 */

/* One way to read a name as that of a state: parts of it. */
struct state_name {
	struct text parameter, key;
};

/* The next way; start with *state all zero. False: there is none left. */
struct state_reading {
	size_t at; /* behind the last segment "state" */
	bool key_first;
};
bool state_name_next(
	struct text name, struct state_reading *reading, struct state_name *ret_state);

struct states;

struct state {
	uint32_t tensor;
	size_t key_offset, key_size; /* within its clean name */
};

/* Looks through all tensors once for the states of those that are named. False: out of
 * memory. */
bool states_find(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, struct states **ret_states);

/* NULL is fine. */
void states_free(struct states *states);

/* In the order of tensors. */
const struct state *states_of(struct states *states, uint32_t tensor, size_t *ret_count);

#endif
