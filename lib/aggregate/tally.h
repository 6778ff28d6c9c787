/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AGGREGATE_TALLY_H
#define FSDP_AGGREGATE_TALLY_H

#include <fsdp/analysis.h>
#include <fsdp/model.h>

#include "base/num.h"

/* What analyses share about adding up. Sums saturate at FSDP_UNKNOWN. */

static inline void fsdp_tally(uint64_t *sum, uint64_t more)
{
	if (!fsdp_add(*sum, more, sum))
		*sum = FSDP_UNKNOWN;
}

/* Bytes of so many elements of the logical tensor, those smaller than a byte packed. */
static inline uint64_t fsdp_elements_bytes(uint32_t dtype, uint64_t numel)
{
	uint64_t bits = fsdp_dtype(dtype)->item_bits, bytes;

	/* Whole bytes first: numel * bits may not fit. */
	if (!fsdp_mul(numel / 8, bits, &bytes))
		return FSDP_UNKNOWN;
	fsdp_tally(&bytes, (numel % 8 * bits + 7) / 8);
	return bytes;
}

/* Whether its elements are counted: each once, though tied names share them and a
 * FlatParameter's are those of the parameters in it. */
static inline bool fsdp_tensor_counts(const struct fsdp_tensor *tensor)
{
	return tensor->alias == FSDP_NONE && (tensor->flags & FSDP_TENSOR_SPREAD) == 0;
}

/* What a tensor, or one piece of it, adds to a group. */
struct fsdp_addend {
	uint64_t pieces, numel, parameters, bytes;
};

static inline struct fsdp_addend fsdp_addend_of_tensor(const struct fsdp_tensor *tensor)
{
	struct fsdp_addend part = { .pieces = tensor->piece_count };

	if (!fsdp_tensor_counts(tensor))
		return part;
	part.numel = tensor->numel;
	part.bytes = tensor->bytes;
	if (fsdp_tensor_is_parameter(tensor))
		part.parameters = tensor->numel;
	return part;
}

/* Ranks and files hold bytes: a tied name that was stored for itself has some. */
static inline bool fsdp_tensor_has_bytes(const struct fsdp_checkpoint *checkpoint,
	uint32_t index, const struct fsdp_tensor *tensor)
{
	return fsdp_tensor_counts(tensor) ||
	       (tensor->alias != FSDP_NONE &&
		       fsdp_tensor_storage_next(checkpoint, index) == index);
}

/* counts: its elements are counted (fsdp_tensor_has_bytes). Parameters are counted once
 * for all names. */
static inline struct fsdp_addend fsdp_addend_of_piece(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor,
	uint32_t piece, bool counts, uint32_t *ret_rank)
{
	uint64_t numel = fsdp_piece_numel(checkpoint, piece, ret_rank);
	struct fsdp_addend part = { .pieces = 1 };

	if (!counts)
		return part;
	part.numel = numel;
	part.bytes = fsdp_elements_bytes(tensor->dtype, numel);
	if (fsdp_tensor_is_parameter(tensor) && fsdp_tensor_counts(tensor))
		part.parameters = numel;
	return part;
}

static inline void fsdp_addend_tally(
	struct fsdp_group *sum, const struct fsdp_addend *part)
{
	fsdp_tally(&sum->pieces, part->pieces);
	fsdp_tally(&sum->numel, part->numel);
	fsdp_tally(&sum->parameters, part->parameters);
	fsdp_tally(&sum->bytes, part->bytes);
}

/*
 * What tensors are grouped by: the keys that a checkpoint has of one kind, as positions
 * from 0 in the order of the keys. A tensor without a key has position `count`.
 */
struct fsdp_keys {
	const struct fsdp_checkpoint *checkpoint;
	enum fsdp_group_key by;
	int64_t depth;
	const uint32_t *ranks; /* by rank: the keys; else a key is its position */
	size_t count;
	uint32_t *map; /* owned: by layer of each visit, by name of each tensor */
};

/* False: out of memory. */
bool fsdp_keys_init(struct fsdp_keys *keys, const struct fsdp_checkpoint *checkpoint,
	enum fsdp_group_key by, int64_t depth, struct fsdp_error **ret_error);
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
