/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which tensors lie on one storage and which are one view of it; knows nothing of
 * what that means.
 */
#include "model/internal.h"

/* The piece that stands for its tensor: the only one, or the first rank's. A DCP item is
 * nobody else's, so its tensors never share a storage. */
static const struct fsdp_piece_record *first_piece(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	if (tensor->piece_count == 0)
		return NULL;
	const struct fsdp_piece_record *piece =
		fsdp_vec_at(&model->pieces, tensor->first_piece);
	return piece->extent != FSDP_NONE ? piece : NULL;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
	return hash ^ (hash >> 32);
}

static uint64_t hash_view(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece)
{
	uint64_t hash = mix(mix(model->names.seed ^ piece->extent, piece->storage_offset),
		tensor->dtype);
	const int64_t *shape = fsdp_model_ints(model, tensor->shape);
	const int64_t *strides = fsdp_model_ints(model, piece->strides);
	for (size_t i = 0; i < tensor->dims; i++)
		hash = mix(mix(hash, (uint64_t)shape[i]),
			strides != NULL ? (uint64_t)strides[i] : 0);
	return hash;
}

static bool same_ints(const int64_t *a, const int64_t *b, size_t count)
{
	if (a == NULL || b == NULL)
		return a == b;
	return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

static bool same_view(const struct fsdp_model *model, const struct fsdp_tensor_record *a,
	const struct fsdp_tensor_record *b)
{
	const struct fsdp_piece_record *first =
		fsdp_vec_at(&model->pieces, a->first_piece);
	const struct fsdp_piece_record *second =
		fsdp_vec_at(&model->pieces, b->first_piece);
	return first->extent == second->extent && a->piece_count == b->piece_count &&
	       first->storage_offset == second->storage_offset && a->dtype == b->dtype &&
	       a->dims == b->dims &&
	       ((a->flags ^ b->flags) & (FSDP_TENSOR_CONJ | FSDP_TENSOR_NEG)) == 0 &&
	       same_ints(fsdp_model_ints(model, a->shape),
		       fsdp_model_ints(model, b->shape), a->dims) &&
	       same_ints(fsdp_model_ints(model, first->strides),
		       fsdp_model_ints(model, second->strides), a->dims);
}

/* Every tensor goes into the ring of the one before it on its storage. Returns how many
 * tensors share a storage with an earlier one. */
static size_t make_rings(struct fsdp_model *model, uint32_t *last)
{
	size_t shared = 0;
	for (size_t i = 0; i < model->tensor_count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, (uint32_t)i);
		const struct fsdp_piece_record *piece = first_piece(model, tensor);
		if (piece == NULL)
			continue;
		uint32_t before = last[piece->extent];
		last[piece->extent] = (uint32_t)i + 1;
		if (before == 0)
			continue;
		struct fsdp_tensor_record *other = fsdp_model_tensor(model, before - 1);
		tensor->storage_next = other->storage_next;
		other->storage_next = (uint32_t)i;
		shared++;
	}
	return shared;
}

bool fsdp_freeze_aliases(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t *last =
		fsdp_arena_take(scratch, (model->extents.count + 1) * sizeof *last, 4);
	if (last == NULL)
		return false;
	size_t shared = make_rings(model, last);
	if (shared == 0)
		return true;
	size_t slots = 16;
	while (slots < shared * 4)
		slots *= 2;
	uint32_t *table = fsdp_arena_take(scratch, slots * sizeof *table, 4);
	if (table == NULL)
		return false;
	for (size_t i = 0; i < model->tensor_count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, (uint32_t)i);
		if (tensor->storage_next == i)
			continue;
		const struct fsdp_piece_record *piece = first_piece(model, tensor);
		size_t slot = hash_view(model, tensor, piece) & (slots - 1);
		while (table[slot] != 0 &&
			!same_view(
				model, fsdp_model_tensor(model, table[slot] - 1), tensor))
			slot = (slot + 1) & (slots - 1);
		if (table[slot] != 0)
			tensor->alias = table[slot] - 1;
		else
			table[slot] = (uint32_t)i + 1;
	}
	return true;
}
