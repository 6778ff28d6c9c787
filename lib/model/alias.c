/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds tensors that lie on one storage, and those that are one view of it.
 */
#include "base/mix.h"
#include "model/internal.h"

static const struct fsdp_piece_record *piece_at(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, uint32_t n)
{
	return fsdp_model_piece(model, tensor->first_piece + n);
}

/* A rank's part without elements may lie on a storage that all such parts share. */
static bool is_empty_part(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece)
{
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *run = fsdp_model_run(model, piece);
	if (run != NULL)
		return run[1] == 0;
	for (size_t i = 0; box != NULL && i < tensor->dims; i++)
		if (box[tensor->dims + i] == 0)
			return true;
	return false;
}

/* The piece that stands for its tensor: the only one, or that of the first rank that has
 * elements. A DCP item is of one tensor, which so never shares a storage. */
static const struct fsdp_piece_record *first_piece(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	uint32_t n = 0;
	if (tensor->piece_count == 0)
		return NULL;
	while (n + 1 < tensor->piece_count &&
		is_empty_part(model, tensor, piece_at(model, tensor, n)))
		n++;
	return piece_at(model, tensor, n)->extent != FSDP_NONE
		       ? piece_at(model, tensor, n)
		       : NULL;
}

static uint64_t hash_ints(const struct fsdp_hasher *hasher, uint64_t hash,
	const int64_t *items, size_t count)
{
	for (size_t i = 0; items != NULL && i < count; i++)
		hash = fsdp_hash_more(hasher, hash, (uint64_t)items[i]);
	return hash;
}

/* All that is compared: of many tensors the first pieces alone may be the same. */
static uint64_t hash_view(const struct fsdp_hasher *hasher,
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	uint64_t hash = fsdp_hash(hasher, tensor->dtype);
	hash = hash_ints(
		hasher, hash, fsdp_model_ints(model, tensor->shape), tensor->dims);
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		const struct fsdp_piece_record *piece = piece_at(model, tensor, i);
		hash = fsdp_hash_more(hasher, hash, piece->extent);
		hash = fsdp_hash_more(hasher, hash, piece->storage_offset);
		hash = hash_ints(hasher, hash, fsdp_model_box(model, piece),
			2 * (size_t)tensor->dims);
		hash = hash_ints(hasher, hash, fsdp_model_run(model, piece), 3);
		hash = hash_ints(hasher, hash, fsdp_model_ints(model, piece->strides),
			piece->is_run ? 1 : tensor->dims);
	}
	return hash;
}

static bool same_ints(const int64_t *a, const int64_t *b, size_t count)
{
	if (a == NULL || b == NULL)
		return a == b;
	return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

/* A tensor of several ranks is the same as another only if all of its pieces are: the
 * first ones may both be empty. Parts without elements lie nowhere and do not count. */
static bool same_pieces(const struct fsdp_model *model,
	const struct fsdp_tensor_record *a, const struct fsdp_tensor_record *b)
{
	if (a->piece_count != b->piece_count)
		return false;
	for (uint32_t i = 0; i < a->piece_count; i++) {
		const struct fsdp_piece_record *first = piece_at(model, a, i);
		const struct fsdp_piece_record *second = piece_at(model, b, i);
		if (first->extent != second->extent ||
			first->storage_offset != second->storage_offset ||
			!same_ints(fsdp_model_box(model, first),
				fsdp_model_box(model, second), 2 * (size_t)a->dims) ||
			!same_ints(fsdp_model_run(model, first),
				fsdp_model_run(model, second), 3) ||
			!same_ints(fsdp_model_ints(model, first->strides),
				fsdp_model_ints(model, second->strides),
				first->is_run ? 1 : a->dims))
			return false;
	}
	return true;
}

/* A run without elements is the same as no other. */
static bool is_empty_run(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	return piece_at(model, tensor, 0)->is_run && fsdp_model_numel(model, tensor) == 0;
}

static bool same_view(const struct fsdp_model *model, const struct fsdp_tensor_record *a,
	const struct fsdp_tensor_record *b)
{
	return a->dtype == b->dtype && a->dims == b->dims &&
	       ((a->flags ^ b->flags) & (FSDP_TENSOR_CONJ | FSDP_TENSOR_NEG)) == 0 &&
	       same_ints(fsdp_model_ints(model, a->shape),
		       fsdp_model_ints(model, b->shape), a->dims) &&
	       same_pieces(model, a, b);
}

/* Every tensor goes into the ring of the one before it on its storage. Returns how many
 * tensors share a storage with an earlier one. */
static size_t make_rings(struct fsdp_model *model, uint32_t *last)
{
	size_t shared = 0;
	for (size_t i = 0; i < model->tensor_count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
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
	uint32_t *last = FSDP_TAKE(scratch, last, model->extents.count + 1);
	if (last == NULL)
		return false;
	size_t shared = make_rings(model, last);
	if (shared == 0)
		return true;
	size_t slots = 16;
	while (slots < shared * 4)
		slots *= 2;
	uint32_t *table = FSDP_TAKE(scratch, table, slots);
	if (table == NULL)
		return false;
	struct fsdp_hasher hasher = fsdp_hasher_new();
	for (size_t i = 0; i < model->tensor_count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->storage_next == i || is_empty_run(model, tensor))
			continue;
		size_t slot = (size_t)hash_view(&hasher, model, tensor) & (slots - 1);
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
