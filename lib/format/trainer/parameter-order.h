/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_TRAINER_PARAMETER_ORDER_H
#define FSDP_FORMAT_TRAINER_PARAMETER_ORDER_H

#include "base/arena.h"

/*
 * The order in which a model lists its parameters, which a file that is sorted by name
 * does not keep: a table for architectures whose modules are known.
 */
struct fsdp_parameter_order;

/* Of a model of this type (model_type of config.json). `type` absent: the one that takes
 * this name of a parameter. NULL: none is known. */
const struct fsdp_parameter_order *fsdp_parameter_order_find(
	struct fsdp_span type, struct fsdp_span name);

/* Where it comes: smaller numbers first, no two names of a model have the same. False:
 * no module of the architecture has such a parameter. */
bool fsdp_parameter_order_place(const struct fsdp_parameter_order *order,
	struct fsdp_span name, uint64_t *ret_place);

/* Whether the live model has this parameter under another name, or as part of one. */
bool fsdp_parameter_order_is_renamed(
	const struct fsdp_parameter_order *order, struct fsdp_span name);

/* Whether Trainer puts it into the group that decays: no bias, no norm. */
bool fsdp_parameter_decays(struct fsdp_span name);

#endif
