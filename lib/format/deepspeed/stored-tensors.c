/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors that lie in the files of a DeepSpeed checkpoint: takes them out of the
 * model, finds them by rank and name, and makes those of the model like them.
 */
#include <stdio.h>

#include "format/deepspeed/deepspeed-reading.h"

/* The name in the index below its rank; FSDP_NONE: memory ended. */
static uint32_t index_stored(
	struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_stored *stored)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	char text[16];
	int size = snprintf(text, sizeof text, "%u", stored->piece.rank);
	struct fsdp_span rank = fsdp_arena_copy(scratch, fsdp_span(text, (size_t)size));
	uint32_t parent =
		rank.data != NULL ? fsdp_names_child(&ds->index, 0, rank) : FSDP_NONE;
	return parent != FSDP_NONE ? fsdp_names_child(&ds->index, parent, stored->name)
				   : FSDP_NONE;
}

static bool make_index(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t room = 2 * ds->stored_count + 2;
	ds->indexed = FSDP_TAKE(scratch, ds->indexed, room);
	if (ds->indexed == NULL || !fsdp_names_init(&ds->index, scratch))
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < ds->stored_count; i++) {
		const struct fsdp_deepspeed_stored *stored = &ds->stored[i];
		if (!stored->has_piece)
			continue;
		uint32_t id = index_stored(ds, stored);
		if (id == FSDP_NONE)
			return fsdp_arena_fail(scratch, ret_error);
		if (ds->indexed[id] == 0)
			ds->indexed[id] = (uint32_t)i + 1;
	}
	return true;
}

static uint32_t rank_of_stored(const struct fsdp_deepspeed *ds, size_t index)
{
	const struct fsdp_deepspeed_stored *stored = &ds->stored[index];
	return stored->has_piece ? stored->piece.rank : FSDP_NONE;
}

bool fsdp_deepspeed_take_stored(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t count = model->tensors.count - ds->first_tensor;
	ds->stored = FSDP_TAKE(scratch, ds->stored, count + 1);
	if (ds->stored == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_deepspeed_stored *stored = &ds->stored[i];
		stored->tensor = *fsdp_model_tensor(model, ds->first_tensor + i);
		stored->has_piece = stored->tensor.piece_count == 1;
		if (stored->has_piece)
			stored->piece =
				*fsdp_model_piece(model, stored->tensor.first_piece);
		stored->numel = fsdp_model_numel(model, &stored->tensor);
		stored->name = fsdp_model_name(model, stored->tensor.raw_name, scratch);
		if (stored->name.data == NULL)
			return fsdp_arena_fail(scratch, ret_error);
	}
	ds->stored_count = count;
	fsdp_build_take_back(
		model, ds->first_tensor, ds->first_piece, model->values.count);
	return make_index(ds, ret_error) &&
	       fsdp_deepspeed_order(
		       ds, count, rank_of_stored, &ds->stored_order, ret_error);
}

static const struct fsdp_deepspeed_stored *find_of_rank(
	const struct fsdp_deepspeed *ds, struct fsdp_span name, uint32_t rank)
{
	char text[16];
	int size = snprintf(text, sizeof text, "%u", rank);
	uint32_t id = fsdp_names_find_child(&ds->index, 0, fsdp_span(text, (size_t)size));
	if (id != FSDP_NONE)
		id = fsdp_names_find_child(&ds->index, id, name);
	return id != FSDP_NONE && ds->indexed[id] != 0 ? &ds->stored[ds->indexed[id] - 1]
						       : NULL;
}

const struct fsdp_deepspeed_stored *fsdp_deepspeed_find_stored(
	const struct fsdp_deepspeed *ds, struct fsdp_span name, uint32_t rank)
{
	return find_of_rank(ds, name, fsdp_deepspeed_rank_of(ds, rank, ds->slice_index));
}

/* A parameter's copy for training: of the first rank, or in the file of a layer, which
 * goes by the rank of tensor parallelism alone. */
const struct fsdp_deepspeed_stored *fsdp_deepspeed_find_copy(
	const struct fsdp_deepspeed *ds, struct fsdp_span fqn)
{
	static const char *const places[] = { "module.", FSDP_DEEPSPEED_LAYER "." };
	uint32_t ranks[] = { ds->slice_index, ds->slice_index % ds->tensor_ranks };
	const struct fsdp_deepspeed_stored *found = NULL;
	char name[512];
	for (size_t i = 0; i < 2 && found == NULL; i++) {
		int size = snprintf(name, sizeof name, "%s%.*s", places[i],
			FSDP_TEXT_MOST(fqn, sizeof name));
		if ((size_t)size < sizeof name)
			found = find_of_rank(ds, fsdp_span(name, (size_t)size),
				fsdp_deepspeed_rank_of(ds, 0, ranks[i]));
	}
	return found;
}

const struct fsdp_deepspeed_stored *fsdp_deepspeed_find_flat(
	const struct fsdp_deepspeed *ds, const char *name, uint32_t rank)
{
	const struct fsdp_deepspeed_stored *stored =
		fsdp_deepspeed_find_stored(ds, fsdp_span_text(name), rank);
	return stored != NULL && stored->piece.box == FSDP_NONE &&
			       stored->piece.strides == FSDP_NONE &&
			       stored->tensor.dims == 1
		       ? stored
		       : NULL;
}

uint32_t fsdp_deepspeed_add_tensor(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_target *target,
	const struct fsdp_deepspeed_stored *like, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	const char *prefix = target->prefix != NULL ? target->prefix : "";
	const char *suffix = target->suffix != NULL ? target->suffix : "";
	size_t before = strlen(prefix), size = target->fqn.size, after = strlen(suffix);
	unsigned char *text = fsdp_arena_take(model->arena, before + size + after + 1, 1);
	struct fsdp_tensor_record record = like->tensor;
	if (text == NULL) {
		fsdp_arena_fail(model->arena, ret_error);
		return FSDP_NONE;
	}
	memcpy(text, prefix, before);
	memcpy(text + before, target->fqn.data, size);
	memcpy(text + before + size, suffix, after);
	if (target->parameter != NULL) {
		record.shape = target->parameter->shape;
		record.dims = target->parameter->dims;
	}
	record.path = FSDP_NONE;
	record.role = (uint8_t)target->role;
	record.flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	if (!fsdp_build_names(model, 0, fsdp_span(text, before + size + after), false,
		    &record.name, &record.raw_name, ret_error))
		return FSDP_NONE;
	return fsdp_build_tensor(model, &record, ret_error);
}

uint32_t fsdp_deepspeed_add_stored(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_target *target,
	const struct fsdp_deepspeed_stored *stored, struct fsdp_error **ret_error)
{
	struct fsdp_piece_record piece = stored->piece;
	piece.tensor = fsdp_deepspeed_add_tensor(ds, target, stored, ret_error);
	if (piece.tensor == FSDP_NONE ||
		fsdp_build_piece(ds->reading->model, &piece, ret_error) == FSDP_NONE)
		return FSDP_NONE;
	return piece.tensor;
}
