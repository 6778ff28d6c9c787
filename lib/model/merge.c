/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how the tensors of several rank files become one: pieces of equal names meet;
 * knows nothing of files.
 *
 * A tensor that is whole in several files keeps one piece a rank: replicas. Runs of a
 * flattened parameter (LOCAL state dicts with use_orig_params) have one name, one
 * dimension and a length of their own in every file: they are put behind each other in
 * order of ranks, which is the parameter in its flattened form.
 */
#include "model/build.h"
#include "model/internal.h"

struct merge {
	struct fsdp_model *model;
	uint32_t *first;  /* of a raw name: its first tensor, or FSDP_NONE */
	uint32_t *target; /* of a tensor: the one it becomes part of */
	bool *fragments;  /* of a first tensor: its parts are runs */
};

static bool same_shape(const struct fsdp_model *model, const struct fsdp_tensor_record *a,
	const struct fsdp_tensor_record *b)
{
	return a->dims == b->dims &&
	       (a->dims == 0 || memcmp(fsdp_model_ints(model, a->shape),
					fsdp_model_ints(model, b->shape),
					a->dims * sizeof(int64_t)) == 0);
}

/* Whole in its file and of one dimension: what a run looks like. */
static bool may_be_run(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	if (tensor->dims != 1 || tensor->piece_count > 1 ||
		(tensor->flags & FSDP_TENSOR_FLATTENED))
		return false;
	if (tensor->piece_count == 0)
		return true;
	const struct fsdp_piece_record *piece =
		fsdp_vec_at(&model->pieces, tensor->first_piece);
	return piece->box == FSDP_NONE;
}

static bool holds_flat_parameters(const struct fsdp_model *model)
{
	for (uint32_t i = 0; i < model->tensors.count; i++)
		if (fsdp_model_tensor(model, i)->flags & FSDP_TENSOR_FLATTENED)
			return true;
	return false;
}

/* Text of a name for a finding. */
static struct fsdp_span name_of(
	struct fsdp_model *model, uint32_t name, struct fsdp_arena *scratch)
{
	struct fsdp_span text = fsdp_model_name(model, name, scratch);
	if (text.data == NULL)
		model->findings.lost = true;
	return text;
}

static void meet(
	struct merge *merge, uint32_t index, bool flat, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	uint32_t first = merge->first[tensor->raw_name];
	if (first == FSDP_NONE) {
		merge->first[tensor->raw_name] = index;
		merge->fragments[index] = flat && may_be_run(model, tensor);
		return;
	}
	const struct fsdp_tensor_record *known = fsdp_model_tensor(model, first);
	merge->target[index] = first;
	merge->fragments[first] &= may_be_run(model, tensor);
	if (tensor->dtype == known->dtype &&
		(same_shape(model, tensor, known) || merge->fragments[first]))
		return;
	merge->target[index] = index;
	fsdp_find(&model->findings, FSDP_RULE_SHARDS_DISAGREE,
		FSDP_PLACE(.tensor = name_of(model, tensor->name, scratch)),
		"rank files disagree about the tensor's shape or dtype");
}

static uint32_t extent_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	if (tensor->piece_count == 0)
		return FSDP_NONE;
	const struct fsdp_piece_record *piece =
		fsdp_vec_at(&model->pieces, tensor->first_piece);
	return piece->extent;
}

/*
 * Runs are views of their file's flat shard; a vector that lies on no such storage in any
 * file is a replica (a buffer). Only runs without elements may lie elsewhere.
 */
static bool keep_backed(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	bool *flat = fsdp_arena_take(scratch, model->extents.count + 1, 1);
	bool *backed = fsdp_arena_take(scratch, (size_t)count + 1, 1);
	if (flat == NULL || backed == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		uint32_t extent = extent_of(model, tensor);
		if ((tensor->flags & FSDP_TENSOR_FLATTENED) && extent != FSDP_NONE)
			flat[extent] = true;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t extent = extent_of(model, fsdp_model_tensor(model, i));
		if (extent != FSDP_NONE && flat[extent])
			backed[merge->target[i]] = true;
	}
	for (uint32_t i = 0; i < count; i++)
		merge->fragments[i] &= backed[i];
	return true;
}

/* Pieces in order of the tensors they now belong to. */
static bool regroup(struct merge *merge, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	uint32_t *begin =
		fsdp_arena_take(scratch, ((size_t)count + 1) * sizeof *begin, 4);
	struct fsdp_vec pieces;
	fsdp_vec_init(&pieces, model->arena, sizeof(struct fsdp_piece_record));
	if (begin == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		begin[merge->target[i] + 1] += fsdp_model_tensor(model, i)->piece_count;
	for (uint32_t i = 0; i < count; i++)
		begin[i + 1] += begin[i];
	for (size_t i = 0; i < model->pieces.count; i++)
		if (fsdp_vec_push(&pieces) == NULL)
			return false;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		uint32_t target = merge->target[i];
		for (uint32_t k = 0; k < tensor->piece_count; k++) {
			struct fsdp_piece_record piece =
				*(const struct fsdp_piece_record *)fsdp_vec_at(
					&model->pieces, tensor->first_piece + k);
			piece.tensor = target;
			*(struct fsdp_piece_record *)fsdp_vec_at(
				&pieces, begin[target]++) = piece;
		}
	}
	uint32_t end = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		tensor->first_piece = end;
		tensor->piece_count = begin[i] - end;
		end = begin[i];
	}
	model->pieces = pieces;
	return true;
}

/* The runs of one parameter behind each other, in order of ranks. */
static bool line_up(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const int64_t *lengths)
{
	struct fsdp_error *error = NULL;
	int64_t at = 0;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece_record *piece =
			fsdp_vec_at(&model->pieces, tensor->first_piece + i);
		int64_t box[2] = { at, lengths[i] };
		piece->box = fsdp_build_ints(model, box, 2, &error);
		if (piece->box == FSDP_NONE ||
			__builtin_add_overflow(at, lengths[i], &at)) {
			fsdp_error_free(error);
			return false;
		}
	}
	tensor->shape = fsdp_build_ints(model, &at, 1, &error);
	tensor->flags |= FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SHAPE_INFERRED;
	fsdp_error_free(error);
	return tensor->shape != FSDP_NONE;
}

static bool line_up_runs(
	struct merge *merge, const fsdp_ints *old_shapes, struct fsdp_arena *scratch)
{
	struct fsdp_model *model = merge->model;
	uint32_t count = (uint32_t)model->tensors.count;
	uint32_t *filled =
		fsdp_arena_take(scratch, ((size_t)count + 1) * sizeof *filled, 4);
	int64_t *lengths =
		fsdp_arena_take(scratch, (model->pieces.count + 1) * sizeof *lengths, 8);
	if (filled == NULL || lengths == NULL)
		return false;
	/* Tensors were met in order of files, and so are the pieces of their targets. */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t target = merge->target[i];
		const struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, target);
		if (merge->fragments[target] && filled[target] < tensor->piece_count)
			lengths[tensor->first_piece + filled[target]++] =
				fsdp_model_ints(model, old_shapes[i])[0];
	}
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (merge->fragments[i] && merge->target[i] == i &&
			tensor->piece_count != 0 &&
			!line_up(model, tensor, lengths + tensor->first_piece))
			return false;
	}
	return true;
}

/* Takes out the tensors that became part of others. */
static void compact(struct merge *merge)
{
	struct fsdp_model *model = merge->model;
	uint32_t at = 0, count = (uint32_t)model->tensors.count;
	for (uint32_t i = 0; i < count; i++) {
		if (merge->target[i] != i)
			continue;
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, at);
		*tensor = *fsdp_model_tensor(model, i);
		tensor->storage_next = at;
		for (uint32_t k = 0; k < tensor->piece_count; k++)
			((struct fsdp_piece_record *)fsdp_vec_at(
				 &model->pieces, tensor->first_piece + k))
				->tensor = at;
		at++;
	}
	fsdp_vec_truncate(&model->tensors, at);
}

/* A value that every rank has is shown once. */
static void merge_values(struct fsdp_model *model, uint32_t *first)
{
	size_t at = 0;
	for (size_t i = 0; i < model->values.count; i++) {
		struct fsdp_value_record *value = fsdp_vec_at(&model->values, i);
		if (first[value->raw_name] != FSDP_NONE)
			continue;
		first[value->raw_name] = (uint32_t)at;
		*(struct fsdp_value_record *)fsdp_vec_at(&model->values, at++) = *value;
	}
	fsdp_vec_truncate(&model->values, at);
}

bool fsdp_freeze_merge(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	if (!model->is_set)
		return true;
	size_t names = model->names.list.count;
	uint32_t count = (uint32_t)model->tensors.count;
	struct merge merge = {
		.model = model,
		.first = fsdp_arena_take(scratch, names * sizeof(uint32_t), 4),
		.target = fsdp_arena_take(
			scratch, ((size_t)count + 1) * sizeof(uint32_t), 4),
		.fragments = fsdp_arena_take(scratch, (size_t)count + 1, 1),
	};
	fsdp_ints *shapes =
		fsdp_arena_take(scratch, ((size_t)count + 1) * sizeof *shapes, 4);
	if (merge.first == NULL || merge.target == NULL || merge.fragments == NULL ||
		shapes == NULL)
		return false;
	bool flat = holds_flat_parameters(model);
	memset(merge.first, 0xff, names * sizeof *merge.first);
	for (uint32_t i = 0; i < count; i++) {
		merge.target[i] = i;
		shapes[i] = fsdp_model_tensor(model, i)->shape;
		if (!(fsdp_model_tensor(model, i)->flags & FSDP_TENSOR_COMPONENT))
			meet(&merge, i, flat, scratch);
	}
	if (!keep_backed(&merge, scratch) || !regroup(&merge, scratch) ||
		!line_up_runs(&merge, shapes, scratch))
		return false;
	compact(&merge);
	memset(merge.first, 0xff, names * sizeof *merge.first);
	merge_values(model, merge.first);
	return true;
}
