/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTAINER_H
#define CONTAINER_H

#include <fsdp/model.h>

/*
 * Files may store names in a container, "model.fc.weight", of which a sharding plan knows
 * nothing: "fc.weight". The container with the dot behind it, of the first parameter of
 * which that is known; empty without a plan or where the names are the same. The
 * prefix is for the caller to free, and may be NULL. False: out of memory.
 */
bool container_find(
	const struct fsdp_checkpoint *checkpoint, char **ret_prefix, size_t *ret_size);

#endif
