/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_KEYS_H
#define FSDP_ANALYSIS_KEYS_H

#include <fsdp/analysis.h>

/*
 * What tensors are grouped by: the keys that a checkpoint has of one kind, as positions
 * from 0 in the order of the keys. A tensor without a key has position `count`.
 */
struct fsdp_keys {
	const struct fsdp_checkpoint *checkpoint;
	enum fsdp_sums_by by;
	int64_t depth;
	const uint32_t *ranks; /* by rank: the keys; else a key is its position */
	size_t count;
	uint32_t *map; /* owned: by layer of each visit, by name of each tensor */
};

/* False: out of memory. */
bool fsdp_keys_init(struct fsdp_keys *keys, const struct fsdp_checkpoint *checkpoint,
	enum fsdp_sums_by by, int64_t depth, struct fsdp_error **ret_error);
void fsdp_keys_done(struct fsdp_keys *keys);

/* The key at a position; FSDP_NONE past the last one. */
uint32_t fsdp_keys_at(const struct fsdp_keys *keys, size_t position);

/* Whether pieces have the keys, not tensors. */
static inline bool fsdp_keys_of_pieces(const struct fsdp_keys *keys)
{
	return keys->by == FSDP_BY_RANK || keys->by == FSDP_BY_FILE;
}

/* Position of the key of a tensor, or of a piece with a known rank. */
size_t fsdp_keys_of_tensor(
	const struct fsdp_keys *keys, uint32_t index, const struct fsdp_tensor *tensor);
size_t fsdp_keys_of_piece(const struct fsdp_keys *keys, uint32_t piece, uint32_t rank);

#endif
