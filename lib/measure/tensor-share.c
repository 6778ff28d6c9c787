/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors belong to one of several shares.
 */
#include <stdlib.h>

#include <fsdp/walk.h>

#include "base/error.h"
#include "base/share.h"
#include "measure/tensor-share.h"

static uint64_t bytes_of(
	const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors, size_t index)
{
	uint32_t tensor = tensors != NULL ? tensors[index] : (uint32_t)index;
	return fsdp_tensor(checkpoint, tensor).bytes;
}

bool fsdp_share_mark(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, uint32_t part, uint32_t parts, bool *ret_taken,
	struct fsdp_error **ret_error)
{
	struct fsdp_share share = { .part = part, .parts = parts };
	size_t *order = malloc((count + 1) * sizeof *order);
	if (order == NULL)
		return fsdp_fail_memory(ret_error);
	bool good = fsdp_walk_order(checkpoint, tensors, count, order, ret_error);
	for (size_t i = 0; good && i < count; i++)
		share.total += bytes_of(checkpoint, tensors, i);
	for (size_t i = 0; good && i < count; i++)
		ret_taken[order[i]] =
			fsdp_share_takes(&share, bytes_of(checkpoint, tensors, order[i]));
	free(order);
	return good;
}
