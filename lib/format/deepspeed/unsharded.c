/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the tensors of a DeepSpeed checkpoint that are whole. Of flat buffers it lists only
 * those of experts, as they are stored.
 *
 * Buffers are whole; without ZeRO so is everything. With it the other weights are copies
 * in the dtype of training, or placeholders; before ZeRO 3 the first rank has the
 * parameters that are not trained. What the user kept besides is each rank's own. Files
 * of layers and of experts hold nothing but their tensors.
 *
 * Origin: deepspeed/runtime/engine.py, runtime/pipe/module.py (0.19.8), and files of it.
 */
#include <stdio.h>

#include "format/deepspeed/deepspeed-reading.h"

bool fsdp_deepspeed_add_frozen(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	size_t end = ds->stored_order.begin[ds->slice_index + 1];
	for (size_t i = ds->stored_order.begin[ds->slice_index]; i < end; i++) {
		const struct fsdp_deepspeed_stored *stored =
			&ds->stored[ds->stored_order.indexes[i]];
		struct fsdp_deepspeed_target target = { .role = FSDP_ROLE_PARAM };
		if (fsdp_deepspeed_data_rank_of(ds, stored->piece.rank) ==
				ds->first_data &&
			fsdp_span_behind(
				stored->name, "frozen_param_fragments.", &target.fqn) &&
			fsdp_deepspeed_add_stored(ds, &target, stored, ret_error) ==
				FSDP_NONE)
			return false;
	}
	return true;
}

/* A second name for a tensor: the same pieces. */
static bool add_alias(struct fsdp_deepspeed *ds, struct fsdp_span alias, uint32_t target,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	const struct fsdp_deepspeed_stored like = { .tensor = *fsdp_model_tensor(
							    model, target) };
	const struct fsdp_deepspeed_target named = { .fqn = alias,
		.role = like.tensor.role };
	uint32_t tensor = fsdp_deepspeed_add_tensor(ds, &named, &like, ret_error);
	if (tensor == FSDP_NONE)
		return false;
	for (uint32_t i = 0; i < like.tensor.piece_count; i++) {
		struct fsdp_piece_record piece =
			*fsdp_model_piece(model, like.tensor.first_piece + i);
		piece.tensor = tensor;
		if (fsdp_build_piece(model, &piece, ret_error) == FSDP_NONE)
			return false;
	}
	return true;
}

bool fsdp_deepspeed_join_shared(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	size_t names = model->names.list.count;
	uint32_t *owners = FSDP_TAKE(ds->reading->scratch, owners, names);
	if (owners == NULL)
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	for (size_t i = ds->slice.first_tensor; i < model->tensors.count; i++)
		owners[fsdp_model_tensor(model, i)->raw_name] = (uint32_t)i + 1;
	for (size_t i = 0; i < ds->slice.shared_count; i++) {
		uint32_t name =
			fsdp_names_find(&model->names, 0, ds->slice.shared[i].target);
		if (name < names && owners[name] != 0 &&
			!add_alias(ds, ds->slice.shared[i].alias, owners[name] - 1,
				ret_error))
			return false;
	}
	return true;
}

/* Where a stored tensor belongs whose name says it. */
enum stored_place {
	PLACE_NONE,
	PLACE_MODULE,
	PLACE_BUFFER,
	PLACE_OPTIM,
	PLACE_APART,
	PLACE_OTHER
};

static enum stored_place place_of(const struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_stored *stored, struct fsdp_span *ret_name)
{
	struct fsdp_span rest;
	uint32_t group;
	*ret_name = stored->name;
	if (fsdp_span_behind(stored->name, FSDP_DEEPSPEED_LAYER ".", &rest) ||
		fsdp_span_behind(stored->name, FSDP_DEEPSPEED_EXPERT ".", &rest) ||
		fsdp_span_behind(stored->name, "frozen_param_fragments.", &rest))
		return PLACE_NONE;
	if (fsdp_span_behind(stored->name, "module.", &rest)) {
		bool buffer =
			fsdp_names_find_child(&ds->slice.buffers, 0, rest) != FSDP_NONE;
		if (buffer || ds->world_size == 0)
			*ret_name = rest;
		return buffer ? PLACE_BUFFER : PLACE_MODULE;
	}
	if (fsdp_span_behind(stored->name, FSDP_DEEPSPEED_RANK ".", ret_name))
		return PLACE_APART;
	/* Rank 0's once more, where the ranks have files. */
	if (fsdp_span_behind(stored->name, "optimizer.", &rest))
		return ds->expert_ranks == 0 ? PLACE_OPTIM : PLACE_NONE;
	if ((fsdp_span_behind(stored->name, FSDP_ZERO_GROUPS, &rest) ||
		    fsdp_span_behind(stored->name, FSDP_ZERO_STATES, &rest)) &&
		fsdp_deepspeed_take_index(&rest, &group) &&
		fsdp_deepspeed_is_apart(ds, group))
		return PLACE_APART;
	return fsdp_span_behind(stored->name, "optimizer_state_dict.", &rest)
		       ? PLACE_NONE
		       : PLACE_OTHER;
}

/* Of ZeRO 3 each rank's file has all buffers. */
static bool add_copies(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_stored *first, uint32_t tensor,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	for (uint32_t rank = ds->first_data + 1; rank < ds->data_files; rank++) {
		const struct fsdp_deepspeed_stored *stored =
			fsdp_deepspeed_find_stored(ds, first->name, rank);
		if (stored == NULL || stored->tensor.dtype != first->tensor.dtype ||
			stored->tensor.dims != first->tensor.dims ||
			memcmp(fsdp_model_ints(model, stored->tensor.shape),
				fsdp_model_ints(model, first->tensor.shape),
				first->tensor.dims * sizeof(int64_t)) != 0)
			continue;
		struct fsdp_piece_record piece = stored->piece;
		piece.tensor = tensor;
		if (fsdp_build_piece(model, &piece, ret_error) == FSDP_NONE)
			return false;
	}
	return true;
}

/* In place of each parameter that it cuts ZeRO 3 saves an empty tensor, and old
 * releases one of a single element. */
static bool is_placeholder(
	const struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_stored *stored)
{
	struct fsdp_span fqn;
	return ds->stage == 3 && stored->numel <= 1 &&
	       fsdp_span_behind(stored->name, "module.", &fqn) &&
	       fsdp_names_find_child(&ds->slice.declared, 0, fqn) != FSDP_NONE;
}

bool fsdp_deepspeed_add_declared(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_target target = {
			.fqn = ds->slice.parameters[i].fqn,
			.parameter = &ds->slice.parameters[i],
			.role = FSDP_ROLE_PARAM,
		};
		char name[512];
		if (target.fqn.size > 400)
			continue;
		snprintf(name, sizeof name, "module.%.*s", FSDP_TEXT(target.fqn));
		const struct fsdp_deepspeed_stored *stored = fsdp_deepspeed_find_stored(
			ds, fsdp_span_text(name), ds->first_data);
		if (stored != NULL && is_placeholder(ds, stored) &&
			fsdp_deepspeed_add_tensor(ds, &target, stored, ret_error) ==
				FSDP_NONE)
			return false;
	}
	return true;
}

bool fsdp_deepspeed_add_module(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	static const int roles[] = {
		[PLACE_BUFFER] = FSDP_ROLE_BUFFER,
		[PLACE_OPTIM] = FSDP_ROLE_OPTIM,
		[PLACE_APART] = FSDP_ROLE_OPTIM,
		[PLACE_OTHER] = FSDP_ROLE_OTHER,
	};
	size_t end = ds->stored_order.begin[ds->slice_index + 1];
	for (size_t i = ds->stored_order.begin[ds->slice_index]; i < end; i++) {
		const struct fsdp_deepspeed_stored *stored =
			&ds->stored[ds->stored_order.indexes[i]];
		struct fsdp_deepspeed_target target = { .suffix = NULL };
		enum stored_place place = place_of(ds, stored, &target.fqn);
		bool first = fsdp_deepspeed_data_rank_of(ds, stored->piece.rank) ==
			     ds->first_data;
		bool model = place == PLACE_MODULE || place == PLACE_BUFFER;
		if (place == PLACE_NONE || (model && !first))
			continue;
		if (place == PLACE_MODULE &&
			((ds->world_size != 0 && stored->numel == 0) ||
				is_placeholder(ds, stored)))
			continue;
		target.role = place != PLACE_MODULE ? roles[place]
			      : ds->world_size == 0 ? FSDP_ROLE_PARAM
						    : FSDP_ROLE_OTHER;
		uint32_t tensor =
			fsdp_deepspeed_add_stored(ds, &target, stored, ret_error);
		if (tensor == FSDP_NONE)
			return false;
		if (place == PLACE_APART)
			fsdp_model_tensor(ds->reading->model, tensor)->flags |=
				FSDP_TENSOR_RANKS_OWN;
		if (place == PLACE_BUFFER && !add_copies(ds, stored, tensor, ret_error))
			return false;
	}
	return true;
}

/* No name says whose the file of an expert is. */
static bool add_expert(struct fsdp_deepspeed *ds, struct fsdp_deepspeed_stored *stored,
	struct fsdp_span name, struct fsdp_error **ret_error)
{
	const struct fsdp_deepspeed_target target = { .fqn = name,
		.role = FSDP_ROLE_PARAM };
	if (ds->model_ranks == 1)
		stored->piece.rank = FSDP_NONE;
	return fsdp_deepspeed_add_stored(ds, &target, stored, ret_error) != FSDP_NONE;
}

/* A layer's file tells the tensor-parallel rank; which stage it is of tell the names of
 * the masters. Where there are masters, these are the copies of training. */
static bool add_layer(struct fsdp_deepspeed *ds, struct fsdp_deepspeed_stored *stored,
	struct fsdp_span name, struct fsdp_error **ret_error)
{
	struct fsdp_span rest = name;
	uint32_t layer = 0, part = stored->piece.rank % ds->tensor_ranks;
	bool copy = ds->world_size != 0;
	const struct fsdp_deepspeed_target target = {
		.prefix = copy ? "module." : NULL,
		.fqn = name,
		.role = copy ? FSDP_ROLE_OTHER : FSDP_ROLE_PARAM,
	};
	uint32_t stage = fsdp_deepspeed_take_index(&rest, &layer) &&
					 layer < FSDP_DEEPSPEED_LAYERS_MAX
				 ? ds->stage_of[layer]
				 : 0;
	if (stage != 0)
		stored->piece.rank = fsdp_deepspeed_rank_of(
			ds, 0, (stage - 1) * ds->tensor_ranks + part);
	else if (ds->tensor_ranks == 1)
		stored->piece.rank = FSDP_NONE;
	return fsdp_deepspeed_add_stored(ds, &target, stored, ret_error) != FSDP_NONE;
}

bool fsdp_deepspeed_add_parts(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->stored_count; i++) {
		struct fsdp_deepspeed_stored *stored = &ds->stored[i];
		struct fsdp_span name;
		if (!stored->has_piece)
			continue;
		if (fsdp_span_behind(stored->name, FSDP_DEEPSPEED_EXPERT ".", &name) &&
			!add_expert(ds, stored, name, ret_error))
			return false;
		if (fsdp_span_behind(stored->name, FSDP_DEEPSPEED_LAYER ".", &name) &&
			!add_layer(ds, stored, name, ret_error))
			return false;
	}
	return true;
}
