/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_TRAINER_READING_H
#define FSDP_FORMAT_TRAINER_READING_H

#include "format/format.h"

/*
 * What the files of Trainer's reader share.
 */

/* trainer-state.c: values out of trainer_state.json: how far training was, and what was
 * best. One that cannot be read is a finding. */
bool fsdp_trainer_state(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error);

/*
 * parameter-ids.c: gives the states of an optimizer that counts its parameters
 * ("state.17.exp_avg") the names of these ("state.model.norm.weight.exp_avg"): by
 * param_names, if the optimizer kept them, else by the order of the model's parameters
 * and their shapes. A state keeps its number where more than one parameter is possible;
 * all do if one shape contradicts. Of all tensors and values of the model; `ordered`:
 * parameters were read in the order in which the model has them. Takes time and memory
 * linear in both, but for sorting.
 */
bool fsdp_trainer_name_states(
	struct fsdp_reading *reading, bool ordered, struct fsdp_error **ret_error);

#endif
