/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_NAMING_JOIN_RANKS_H
#define FSDP_NAMING_JOIN_RANKS_H

#include "naming/mapping.h"

/*
 * Joins slices that ranks of tensor parallelism have under one name, those of which `cut`
 * says how: what is left stands where the first of them stood. Each of `ranks` ranks must
 * have one, of the same dtype and shape. Of what all ranks have whole, the first is taken.
 */
bool fsdp_mapping_join_ranks(struct fsdp_mapped *list, size_t *count, uint32_t ranks,
	struct fsdp_arena *arena, struct fsdp_error **ret_error);

#endif
