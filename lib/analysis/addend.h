/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_ADDEND_H
#define FSDP_ANALYSIS_ADDEND_H

#include <fsdp/analysis.h>

#include "analysis/tally.h"

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

#endif
