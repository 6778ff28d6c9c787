/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MEASURE_SHARE_H
#define FSDP_MEASURE_SHARE_H

#include <fsdp/model.h>

/*
 * Cuts a row of things into shares of about as many bytes, the same in every process: a
 * thing belongs to the share in which its first byte lies. So a share is larger than its
 * part of the bytes by less than one thing.
 */
struct fsdp_share {
	uint32_t part, parts; /* from 1 on; 0 of 0: all there is */
	uint64_t total;       /* bytes of all things */
	uint64_t at;          /* of those before the next one; begin with 0 */
};

/* Whether the next thing, of so many bytes, belongs to the share. */
bool fsdp_share_takes(struct fsdp_share *share, uint64_t bytes);

/* Which of `count` tensors (NULL: the first ones) belong to share `part` of `parts`; shares
 * follow the order in which tensors are read, so that each reads few files. Fails only when
 * memory ends. */
bool fsdp_share_mark(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, uint32_t part, uint32_t parts, bool *ret_taken,
	struct fsdp_error **ret_error);

#endif
