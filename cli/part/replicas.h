/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLICAS_H
#define REPLICAS_H

#include <fsdp/model.h>

#include "render/shape.h"

/*
 * Which pieces of a tensor are copies of each other: they have the same place in it.
 * Each of them has a number, from 0; a piece without copies, or without elements, has
 * none.
 */
struct replicas {
	uint32_t *numbers; /* of the first `count` pieces */
	size_t count, room;
};

/* All zero is empty. False: out of memory. */
bool replicas_find(struct replicas *replicas, const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, bool *ret_some);

/* Of the piece with this position among the tensor's. */
struct value replicas_value(const struct replicas *replicas, uint32_t position);

void replicas_done(struct replicas *replicas);

#endif
