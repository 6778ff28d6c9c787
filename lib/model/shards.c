/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which ranks the pieces of a tensor lie.
 */
#include "model/internal.h"

static uint32_t piece_rank(const struct fsdp_model *model, uint32_t piece)
{
	return fsdp_model_piece(model, piece)->rank;
}

/* Replicas lie on several ranks too, but each of them is whole. */
bool fsdp_model_is_sharded(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	bool parts = false, ranks = false;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		parts |= fsdp_model_piece(model, tensor->first_piece + i)->box !=
			 FSDP_NONE;
		ranks |= piece_rank(model, tensor->first_piece + i) !=
			 piece_rank(model, tensor->first_piece);
	}
	return parts && ranks;
}

uint32_t fsdp_model_shard_count(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	uint32_t count = 0;
	uint32_t last = FSDP_NONE;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		uint32_t rank = piece_rank(model, tensor->first_piece + i);
		count += i == 0 || rank != last;
		last = rank;
	}
	return count;
}
