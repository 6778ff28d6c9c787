/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the bytes of storages, and those that tensors use.
 */
#include "base/num.h"
#include "model/dtype.h"
#include "model/internal.h"

/* Bytes of one view: from its first element to the end of its last. */
static uint64_t view_end(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	uint64_t numel)
{
	const int64_t *shape = fsdp_model_ints(model, tensor->shape);
	const int64_t *strides = fsdp_model_ints(model, piece->strides);
	const int64_t *run = fsdp_model_run(model, piece);
	uint64_t reach = 1, step, end, bytes;
	bool fits = true;
	if (run != NULL) {
		reach = (uint64_t)run[1];
	} else if (strides == NULL) {
		reach = numel;
	} else {
		for (size_t i = 0; fits && i < tensor->dims; i++)
			fits = fsdp_mul((uint64_t)shape[i] - 1, (uint64_t)strides[i],
				       &step) &&
			       fsdp_add(reach, step, &reach);
	}
	fits = fits && fsdp_add(piece->storage_offset, reach, &end) &&
	       fsdp_dtype_bytes(tensor->dtype, end, &bytes);
	return fits ? bytes : UINT64_MAX;
}

struct use {
	uint64_t begin, end;
};

/* A view without elements begins nowhere. */
static struct use use_of(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	uint64_t size)
{
	struct use use = { 0 };
	uint64_t numel = fsdp_model_numel(model, tensor);
	if (numel == 0)
		return use;
	if (tensor->dtype == FSDP_DTYPE_UNKNOWN)
		return (struct use){ 0, size };
	(void)fsdp_dtype_bytes(tensor->dtype, piece->storage_offset, &use.begin);
	use.end = fsdp_min(view_end(model, tensor, piece, numel), size);
	return use.end > use.begin ? use : (struct use){ 0 };
}

uint64_t fsdp_model_used(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	uint64_t size)
{
	struct use use = use_of(model, tensor, piece, size);
	return use.end - use.begin;
}

/*
 * Payload and what of it no tensor views. A storage counts as used from the first byte of
 * its lowest view to the last byte of its highest; the inside of strided views counts
 * too.
 */
bool fsdp_freeze_storages(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->extents.count;
	struct use *uses = FSDP_TAKE(scratch, uses, count + 1);
	if (uses == NULL)
		return false;
	for (uint32_t i = 0; i < model->pieces.count; i++) {
		const struct fsdp_piece_record *piece = fsdp_model_piece(model, i);
		if (piece->extent == FSDP_NONE)
			continue;
		struct fsdp_extent *extent = fsdp_model_extent(model, piece->extent);
		const struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, piece->tensor);
		extent->viewed = true;
		if (extent->kind == FSDP_EXTENT_ITEM) {
			uint64_t numel = fsdp_model_numel(model, tensor), bytes = 0;
			const int64_t *box = fsdp_model_box(model, piece);
			if (box != NULL)
				(void)fsdp_numel(
					box + tensor->dims, tensor->dims, &numel);
			(void)fsdp_dtype_bytes(tensor->dtype, numel, &bytes);
			model->payload += fsdp_min(bytes, extent->length);
			continue;
		}
		struct use *use = &uses[piece->extent];
		struct use view = use_of(model, tensor, piece, extent->size);
		if (view.end == 0)
			continue;
		if (use->end == 0 || view.begin < use->begin)
			use->begin = view.begin;
		if (view.end > use->end)
			use->end = view.end;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct fsdp_extent *extent = fsdp_model_extent(model, i);
		if (extent->kind == FSDP_EXTENT_ITEM || extent->missing ||
			extent->is_record)
			continue;
		model->payload += extent->length;
		model->unused += extent->size - (uses[i].end - uses[i].begin);
	}
	return true;
}
