/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors in the files of a DeepSpeed checkpoint: takes them out of the
 * model, finds them by rank and name, and makes those of the model like them.
 */
#include "formats/deepspeed/deepspeed.h"

#include "base/num.h"

#include <stdio.h>

/* ---- stored tensors ---- */

static void build_index(struct fsdp_deepspeed *ds)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t room = 2 * ds->stored_count + 2;
	ds->indexed = FSDP_TAKE(scratch, ds->indexed, room);
	(void)fsdp_names_init(&ds->index, scratch);
	FSDP_EACH(i, ds->stored_count, stored, &ds->stored[i]) {
		if (!stored->has_piece)
			continue;
		/* The name in the index below its rank. */
		uint32_t *rank = FSDP_TAKE(scratch, rank, 1);
		*rank = stored->piece.rank;
		uint32_t parent =
			fsdp_names_child(&ds->index, 0, fsdp_span(rank, sizeof *rank));
		uint32_t id = fsdp_names_child(&ds->index, parent, stored->name);
		if (ds->indexed[id] == 0)
			ds->indexed[id] = (uint32_t)i + 1;
	}
}

static uint32_t rank_of_stored(const struct fsdp_deepspeed *ds, size_t index)
{
	const struct fsdp_deepspeed_stored *stored = &ds->stored[index];
	return stored->has_piece ? stored->piece.rank : FSDP_NONE;
}

static const struct fsdp_deepspeed_stored *find_of_rank(
	const struct fsdp_deepspeed *ds, struct fsdp_span name, uint32_t rank)
{
	uint32_t id = fsdp_names_find_child(&ds->index, 0, fsdp_span(&rank, sizeof rank));
	if (id != FSDP_NONE)
		id = fsdp_names_find_child(&ds->index, id, name);
	return id != FSDP_NONE && ds->indexed[id] != 0 ? &ds->stored[ds->indexed[id] - 1]
						       : NULL;
}

/* The checksum of its storage. */
static bool find_checksum(const struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_stored *stored, uint32_t *ret_crc)
{
	if (stored == NULL || !stored->has_piece || stored->piece.extent == FSDP_NONE)
		return false;
	const struct fsdp_extent *extent =
		fsdp_model_extent(ds->reading->model, stored->piece.extent);
	*ret_crc = extent->crc;
	return extent->has_crc && extent->size <= sizeof(int64_t);
}

/* All ranks make each step together: the files of one save have one step. Only its
 * checksum is compared. */
static void check_steps(const struct fsdp_deepspeed *ds)
{
	FSDP_EACH(i, ds->stored_count, stored, &ds->stored[i]) {
		uint32_t own, first;
		if (stored->numel != 1 ||
			!fsdp_span_begins(
				stored->name, FSDP_SPAN("optimizer_state_dict.")) ||
			!fsdp_span_ends(stored->name, FSDP_SPAN(".step")) ||
			!find_checksum(ds, stored, &own) ||
			!find_checksum(ds, find_of_rank(ds, stored->name, 0), &first) ||
			own == first)
			continue;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_STEP_DISAGREES,
			FSDP_PLACE(.rank = stored->piece.rank, .severity = FSDP_ERROR + 1,
				.fix = "copy the files of all ranks from one save"),
			"the step in the optimizer states of rank %u is not that of rank 0: the files are of two saves",
			stored->piece.rank);
		return;
	}
}

void fsdp_deepspeed_remove_stored(struct fsdp_deepspeed *ds)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t count = model->tensors.count - ds->first_tensor;
	ds->stored = FSDP_TAKE(scratch, ds->stored, count + 1);
	FSDP_EACH(i, count, stored, &ds->stored[i]) {
		stored->tensor = *fsdp_model_tensor(model, ds->first_tensor + i);
		stored->has_piece = stored->tensor.piece_count == 1;
		if (stored->has_piece)
			stored->piece =
				*fsdp_model_piece(model, stored->tensor.first_piece);
		stored->numel = fsdp_model_numel(model, &stored->tensor);
		stored->name = fsdp_model_name(model, stored->tensor.raw_name, scratch);
	}
	ds->stored_count = count;
	fsdp_build_take_back(
		model, ds->first_tensor, ds->first_piece, model->values.count);
	build_index(ds);
	fsdp_deepspeed_order(ds, count, rank_of_stored, &ds->stored_order);
	check_steps(ds);
}

/* A stored tensor with bytes, of a rank of data parallelism in the current slice; NULL:
 * none. */
static const struct fsdp_deepspeed_stored *find_stored(
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
		find_stored(ds, fsdp_span_text(name), rank);
	return stored != NULL && stored->piece.box == FSDP_NONE &&
			       stored->piece.strides == FSDP_NONE &&
			       stored->tensor.dims == 1
		       ? stored
		       : NULL;
}

uint32_t fsdp_deepspeed_add_tensor(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_target *target,
	const struct fsdp_deepspeed_stored *like)
{
	struct fsdp_model *model = ds->reading->model;
	const char *prefix = target->prefix != NULL ? target->prefix : "";
	const char *suffix = target->suffix != NULL ? target->suffix : "";
	size_t before = strlen(prefix), size = target->fqn.size, after = strlen(suffix);
	unsigned char *text = fsdp_arena_take(model->arena, before + size + after + 1, 1);
	struct fsdp_tensor_record record = like->tensor;
	memcpy(text, prefix, before);
	memcpy(text + before, target->fqn.data, size);
	memcpy(text + before + size, suffix, after);
	if (target->parameter != NULL) {
		record.shape = target->parameter->shape;
		record.dims = target->parameter->dims;
		if (target->parameter->is_list)
			record.flags |= FSDP_TENSOR_SHAPE_INFERRED;
	}
	record.path = FSDP_NONE;
	record.role = (uint8_t)target->role;
	record.flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	fsdp_build_names(model, 0, fsdp_span(text, before + size + after), false,
		&record.name, &record.raw_name);
	return fsdp_build_tensor(model, &record);
}

uint32_t fsdp_deepspeed_add_stored(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_target *target,
	const struct fsdp_deepspeed_stored *stored)
{
	struct fsdp_piece_record piece = stored->piece;
	piece.tensor = fsdp_deepspeed_add_tensor(ds, target, stored);
	fsdp_build_piece(ds->reading->model, &piece);
	return piece.tensor;
}

/* ---- whole tensors ---- */

/*
 * Adds the complete tensors of a DeepSpeed checkpoint. Of flat buffers it lists only
 * those of experts, as they are stored.
 *
 * Buffers are complete; without ZeRO all tensors are. With it the other weights are
 * copies in the dtype of training, or placeholders; before ZeRO 3 the first rank has the
 * parameters that are not trained. Other tensors of the user are separate for each rank.
 * Files of layers and of experts contain only their tensors.
 *
 * Origin: deepspeed/runtime/engine.py, runtime/pipe/module.py (0.19.8), and files of it.
 */

void fsdp_deepspeed_add_frozen(struct fsdp_deepspeed *ds)
{
	size_t end = ds->stored_order.begin[ds->slice_index + 1];
	for (size_t i = ds->stored_order.begin[ds->slice_index]; i < end; i++) {
		const struct fsdp_deepspeed_stored *stored =
			&ds->stored[ds->stored_order.indexes[i]];
		struct fsdp_deepspeed_target target = { .role = FSDP_ROLE_PARAM };
		if (fsdp_deepspeed_data_rank_of(ds, stored->piece.rank) ==
				ds->first_data &&
			fsdp_span_behind(
				stored->name, "frozen_param_fragments.", &target.fqn))
			fsdp_deepspeed_add_stored(ds, &target, stored);
	}
}

/* A second name for a tensor: the same pieces. */
static void add_alias(struct fsdp_deepspeed *ds, struct fsdp_span alias, uint32_t target)
{
	struct fsdp_model *model = ds->reading->model;
	const struct fsdp_deepspeed_stored like = { .tensor = *fsdp_model_tensor(
							    model, target) };
	const struct fsdp_deepspeed_target named = { .fqn = alias,
		.role = like.tensor.role };
	uint32_t tensor = fsdp_deepspeed_add_tensor(ds, &named, &like);
	FSDP_EACH(i, like.tensor.piece_count, piece,
		*fsdp_model_piece(model, like.tensor.first_piece + i)) {
		piece.tensor = tensor;
		fsdp_build_piece(model, &piece);
	}
}

void fsdp_deepspeed_join_shared(struct fsdp_deepspeed *ds)
{
	struct fsdp_model *model = ds->reading->model;
	size_t names = model->names.list.count;
	uint32_t *owners = FSDP_TAKE(ds->reading->scratch, owners, names);
	for (size_t i = ds->slice.first_tensor; i < model->tensors.count; i++)
		owners[fsdp_model_tensor(model, i)->raw_name] = (uint32_t)i + 1;
	FSDP_EACH(i, ds->slice.shared_count, name,
		fsdp_names_find(&model->names, 0, ds->slice.shared[i].target))
		if (name < names && owners[name] != 0)
			add_alias(ds, ds->slice.shared[i].alias, owners[name] - 1);
}

/* Owner of a stored tensor, from its name. */
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
		fsdp_deepspeed_parse_index(&rest, &group) &&
		fsdp_deepspeed_is_apart(ds, group))
		return PLACE_APART;
	return fsdp_span_behind(stored->name, "optimizer_state_dict.", &rest)
		       ? PLACE_NONE
		       : PLACE_OTHER;
}

/* Of ZeRO 3 each rank's file has all buffers. */
static void add_copies(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_stored *first, uint32_t tensor)
{
	struct fsdp_model *model = ds->reading->model;
	for (uint32_t rank = ds->first_data + 1; rank < ds->data_files; rank++) {
		const struct fsdp_deepspeed_stored *stored =
			find_stored(ds, first->name, rank);
		if (stored == NULL || stored->tensor.dtype != first->tensor.dtype ||
			stored->tensor.dims != first->tensor.dims ||
			memcmp(fsdp_model_ints(model, stored->tensor.shape),
				fsdp_model_ints(model, first->tensor.shape),
				first->tensor.dims * sizeof(int64_t)) != 0)
			continue;
		struct fsdp_piece_record piece = stored->piece;
		piece.tensor = tensor;
		fsdp_build_piece(model, &piece);
	}
}

/* In place of each parameter that it cuts ZeRO 3 saves an empty tensor, and old releases
 * one of a single element. */
static bool is_placeholder(
	const struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_stored *stored)
{
	struct fsdp_span fqn;
	return ds->stage == 3 && stored->numel <= 1 &&
	       fsdp_span_behind(stored->name, "module.", &fqn) &&
	       fsdp_names_find_child(&ds->slice.declared, 0, fqn) != FSDP_NONE;
}

void fsdp_deepspeed_add_declared(struct fsdp_deepspeed *ds)
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
		const struct fsdp_deepspeed_stored *stored =
			find_stored(ds, fsdp_span_text(name), ds->first_data);
		if (stored != NULL && is_placeholder(ds, stored))
			fsdp_deepspeed_add_tensor(ds, &target, stored);
	}
}

/* An empty tensor of ZeRO-3 without data elsewhere: releases before 0.9 did not save what
 * is not trained. */
static void check_lost(
	struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_stored *stored)
{
	struct fsdp_span fqn;
	char name[512];
	bool has_data =
		!fsdp_span_behind(stored->name, "module.", &fqn) || fqn.size > 400;
	for (size_t i = 0; i < ds->slice.shared_count; i++)
		has_data |= fsdp_span_equal(ds->slice.shared[i].alias, fqn);
	for (size_t i = 0; i < ds->slice.parameter_count && !has_data; i++)
		if (fsdp_span_equal(ds->slice.parameters[i].fqn, fqn)) {
			snprintf(name, sizeof name, "frozen_param_fragments.%.*s",
				FSDP_TEXT(fqn));
			has_data = !ds->slice.parameters[i].frozen ||
				   find_stored(ds, fsdp_span_text(name),
					   ds->first_data) != NULL;
			break;
		}
	if (!has_data)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.tensor = fqn, .severity = FSDP_ERROR + 1,
				.fix = "load these weights from the model that the run started from"),
			"frozen weights were not saved: the model states have an empty placeholder only");
}

void fsdp_deepspeed_add_module(struct fsdp_deepspeed *ds)
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
				is_placeholder(ds, stored))) {
			if (ds->stage == 3 && ds->world_size != 0 && !ds->is_mixed &&
				stored->numel == 0)
				check_lost(ds, stored);
			continue;
		}
		target.role = place != PLACE_MODULE ? roles[place]
			      : ds->world_size == 0 ? FSDP_ROLE_PARAM
						    : FSDP_ROLE_OTHER;
		uint32_t tensor = fsdp_deepspeed_add_stored(ds, &target, stored);
		if (place == PLACE_APART)
			fsdp_model_tensor(ds->reading->model, tensor)->flags |=
				FSDP_TENSOR_RANKS_OWN;
		if (place == PLACE_BUFFER)
			add_copies(ds, stored, tensor);
	}
}

/* A layer's file contains the tensor-parallel rank; the names of the masters determine
 * its stage. If masters exist, these are the copies of training. */
static void add_layer(struct fsdp_deepspeed *ds, struct fsdp_deepspeed_stored *stored,
	struct fsdp_span name)
{
	struct fsdp_span rest = name;
	uint32_t layer = 0, part = stored->piece.rank % ds->tensor_ranks;
	bool copy = ds->world_size != 0;
	const struct fsdp_deepspeed_target target = {
		.prefix = copy ? "module." : NULL,
		.fqn = name,
		.role = copy ? FSDP_ROLE_OTHER : FSDP_ROLE_PARAM,
	};
	uint32_t stage = fsdp_deepspeed_parse_index(&rest, &layer) &&
					 layer < FSDP_DEEPSPEED_LAYERS_MAX
				 ? ds->stage_of[layer]
				 : 0;
	if (stage != 0)
		stored->piece.rank = fsdp_deepspeed_rank_of(
			ds, 0, (stage - 1) * ds->tensor_ranks + part);
	else if (ds->tensor_ranks == 1)
		stored->piece.rank = FSDP_NONE;
	fsdp_deepspeed_add_stored(ds, &target, stored);
}

void fsdp_deepspeed_add_parts(struct fsdp_deepspeed *ds)
{
	FSDP_EACH(i, ds->stored_count, stored, &ds->stored[i]) {
		struct fsdp_span name;
		if (!stored->has_piece)
			continue;
		if (fsdp_span_behind(stored->name, FSDP_DEEPSPEED_EXPERT ".", &name)) {
			const struct fsdp_deepspeed_target target = { .fqn = name,
				.role = FSDP_ROLE_PARAM };
			if (ds->model_ranks == 1)
				stored->piece.rank = FSDP_NONE;
			fsdp_deepspeed_add_stored(ds, &target, stored);
		}
		if (fsdp_span_behind(stored->name, FSDP_DEEPSPEED_LAYER ".", &name))
			add_layer(ds, stored, name);
	}
}

/* ---- slices of tensor parallelism ---- */

/*
 * Joins slices of tensor parallelism to full parameters, if deepspeed-metadata.c has
 * their dimension.
 *
 * A slice in flat buffers is runs of them. Cut along the first dimension, these are runs
 * of the full parameter too; along the second they are the end of a row, full rows and
 * the start of a row, which are boxes.
 */

/* The slices of one name, in order of ranks. */
struct cut_slices {
	const struct fsdp_tensor_record *tensors; /* of all */
	const struct fsdp_piece_record *pieces;
	uint32_t first_piece; /* that `pieces` begin with */
	uint32_t *slice;      /* of a tensor: which it is of */
	uint32_t *next;       /* of one name, + 1 */
};

/* Every rank of a stage has one, and of several stages only if all have it. */
static bool are_complete(const struct fsdp_join *join, const struct cut_slices *slices,
	uint32_t first, bool everywhere)
{
	uint32_t part = 0, stages = 0;
	for (uint32_t id = first; id != 0; id = slices->next[id - 1]) {
		if (slices->slice[id - 1] % join->ranks != part)
			return false;
		stages += part == 0;
		part = (part + 1) % join->ranks;
	}
	return part == 0 && (stages == 1 || everywhere);
}

/* The dimension along which they are put together; -1: they are copies. */
static int dimension_of(enum fsdp_cut cut)
{
	return cut == FSDP_CUT_COPY ? -1 : cut == FSDP_CUT_COLUMNS ? 1 : 0;
}

/* The shape of the full parameter; false: they do not fit together. */
static bool measure_whole(const struct fsdp_join *join, const struct cut_slices *slices,
	uint32_t first, enum fsdp_cut cut, int64_t *shape)
{
	const struct fsdp_model *model = join->reading->model;
	const struct fsdp_tensor_record *head = &slices->tensors[first - 1];
	int dim = dimension_of(cut);
	int64_t sum = 0;
	uint64_t numel;
	if (dim >= head->dims || (dim == 1 && head->dims != 2))
		return false;
	memcpy(shape, fsdp_model_ints(model, head->shape), head->dims * sizeof *shape);
	for (uint32_t id = first; id != 0; id = slices->next[id - 1]) {
		const struct fsdp_tensor_record *tensor = &slices->tensors[id - 1];
		const int64_t *own = fsdp_model_ints(model, tensor->shape);
		if (tensor->dtype != head->dtype || tensor->dims != head->dims ||
			tensor->role != head->role)
			return false;
		for (int i = 0; i < head->dims; i++)
			if (i != dim && own[i] != shape[i])
				return false;
		if (dim < 0)
			continue;
		if (cut == FSDP_CUT_HALVES && (own[0] % 2 != 0 || own[0] != shape[0]))
			return false;
		if (slices->slice[id - 1] / join->ranks ==
				slices->slice[first - 1] / join->ranks &&
			__builtin_add_overflow(sum, own[dim], &sum))
			return false;
	}
	if (dim >= 0)
		shape[dim] = sum;
	return fsdp_numel(shape, head->dims, &numel) && numel <= INT64_MAX / 16;
}

/* Position of a slice in the full parameter. */
struct slice_place {
	uint32_t tensor;
	enum fsdp_cut cut;
	const int64_t *shape, *whole;
	uint32_t dims;
	int64_t before; /* along the dimension, in the slices before it */
};

/* A part of the slice from `skip` on. `box` is where it is in the full parameter:
 * offsets, then sizes; or a run, whose last number is its start in the shard. */
static void add_part(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, bool is_run, const int64_t *box,
	int64_t skip)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_piece_record piece = *from;
	piece.tensor = slot->tensor;
	piece.storage_offset += (uint64_t)skip;
	piece.is_run = is_run;
	piece.box = fsdp_build_ints(model, box, is_run ? 3 : 2 * (size_t)slot->dims);
	fsdp_build_piece(model, &piece);
}

/* Contiguous elements, as a run. */
static void add_part_run(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, int64_t to, int64_t skip, int64_t count)
{
	const int64_t *own = fsdp_model_ints(join->reading->model, from->box);
	const int64_t run[3] = { to, count, own[2] + skip };
	if (count > 0)
		add_part(join, slot, from, true, run, skip);
}

/* Elements of one row of the first dimension. */
static int64_t row_of(const struct slice_place *slot)
{
	int64_t row = 1;
	for (uint32_t i = 1; i < slot->dims; i++)
		row *= slot->shape[i];
	return row;
}

/* Rows of a slice that is whole in its file. */
static void add_rows(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, int64_t to, int64_t first, int64_t count)
{
	int64_t box[2 * FSDP_DIMS_MAX] = { to };
	memcpy(box + slot->dims, slot->shape, slot->dims * sizeof *box);
	box[slot->dims] = count;
	add_part(join, slot, from, false, box, first * row_of(slot));
}

/* Two concatenated parameters, in each slice a part of both. */
static void add_halves(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, int64_t start, int64_t count)
{
	int64_t rows = slot->shape[0] / 2, lower = (slot->whole[0] + slot->before) / 2;
	int64_t row = row_of(slot), half = rows * row, upper = 0;
	if (!from->is_run) {
		add_rows(join, slot, from, slot->before / 2, 0, rows);
		add_rows(join, slot, from, lower, rows, rows);
		return;
	}
	if (start < half)
		upper = count < half - start ? count : half - start;
	add_part_run(join, slot, from, slot->before / 2 * row + start, 0, upper);
	add_part_run(join, slot, from, lower * row + (start + upper - half), upper,
		count - upper);
}

static void add_slice_piece(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from)
{
	struct fsdp_model *model = join->reading->model;
	const int64_t *run = from->is_run ? fsdp_model_ints(model, from->box) : NULL;
	int64_t row = row_of(slot);
	int64_t start = run != NULL ? run[0] : 0;
	int64_t count = run != NULL ? run[1] : slot->shape[0] * row;
	if (slot->cut == FSDP_CUT_COLUMNS) {
		/* Elements of a slice that was cut along the second dimension: the end of
		 * a row, whole rows, the begin of a row. */
		int64_t width = slot->shape[1], done = 0;
		while (done < count) {
			int64_t at = (start + done) % width, left = count - done;
			bool whole = at == 0 && left >= width;
			int64_t rest = left < width - at ? left : width - at;
			int64_t box[4] = { (start + done) / width, slot->before + at,
				whole ? left / width : 1, whole ? width : rest };
			add_part(join, slot, from, false, box, done);
			done += box[2] * box[3];
		}
		return;
	}
	if (slot->cut == FSDP_CUT_HALVES) {
		add_halves(join, slot, from, start, count);
		return;
	}
	if (slot->cut == FSDP_CUT_ROWS && run != NULL) {
		add_part_run(join, slot, from, slot->before * row + start, 0, count);
		return;
	}
	if (slot->cut == FSDP_CUT_ROWS) {
		add_rows(join, slot, from, slot->before, 0, slot->shape[0]);
		return;
	}
	struct fsdp_piece_record piece = *from;
	piece.tensor = slot->tensor;
	fsdp_build_piece(model, &piece);
}

/* Runs and whole tensors are put together, boxes and strides are not. */
static bool are_plain(const struct cut_slices *slices, uint32_t first, enum fsdp_cut cut)
{
	for (uint32_t id = first; id != 0; id = slices->next[id - 1]) {
		const struct fsdp_tensor_record *tensor = &slices->tensors[id - 1];
		FSDP_EACH(i, tensor->piece_count, piece,
			&slices->pieces[tensor->first_piece - slices->first_piece + i])
			if (cut != FSDP_CUT_COPY &&
				((!piece->is_run && piece->box != FSDP_NONE) ||
					piece->strides != FSDP_NONE))
				return false;
	}
	return true;
}

static void add_whole(struct fsdp_join *join, const struct cut_slices *slices,
	uint32_t first, enum fsdp_cut cut, const int64_t *whole)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_tensor_record record = slices->tensors[first - 1];
	int dim = dimension_of(cut);
	record.shape = fsdp_build_ints(model, whole, record.dims);
	struct slice_place slot = { .cut = cut, .whole = whole, .dims = record.dims };
	slot.tensor = fsdp_build_tensor(model, &record);
	for (uint32_t id = first; id != 0; id = slices->next[id - 1]) {
		const struct fsdp_tensor_record *tensor = &slices->tensors[id - 1];
		int64_t shape[FSDP_DIMS_MAX];
		memcpy(shape, fsdp_model_ints(model, tensor->shape),
			tensor->dims * sizeof *shape);
		slot.shape = shape;
		if (slices->slice[id - 1] % join->ranks == 0)
			slot.before = 0;
		for (uint32_t i = 0; i < tensor->piece_count; i++)
			add_slice_piece(join, &slot,
				&slices->pieces[tensor->first_piece -
						slices->first_piece + i]);
		slot.before += dim >= 0 ? shape[dim] : 0;
	}
}

static void add_again(
	struct fsdp_join *join, const struct cut_slices *slices, uint32_t index)
{
	struct fsdp_model *model = join->reading->model;
	const struct fsdp_tensor_record *tensor = &slices->tensors[index];
	uint32_t id = fsdp_build_tensor(model, tensor);
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece_record piece =
			slices->pieces[tensor->first_piece - slices->first_piece + i];
		piece.tensor = id;
		fsdp_build_piece(model, &piece);
	}
}

/* How the slices of a name are put together; FSDP_CUT_UNKNOWN: not at all. */
static void find_cut(struct fsdp_join *join, const struct cut_slices *slices,
	uint32_t first, enum fsdp_cut *ret_cut, int64_t *whole)
{
	const struct fsdp_tensor_record *tensor = &slices->tensors[first - 1];
	bool everywhere, buffer = tensor->role == FSDP_ROLE_BUFFER;
	struct fsdp_span name = fsdp_model_name(
		join->reading->model, tensor->raw_name, join->reading->scratch);
	*ret_cut = FSDP_CUT_UNKNOWN;
	if (slices->next[first - 1] == 0 || tensor->dims == 0 || buffer ||
		(tensor->flags & FSDP_TENSOR_RANKS_OWN) != 0)
		return;
	/* The parameter of a tensor, or of a state or a copy. */
	struct fsdp_span rest = name;
	if (tensor->role == FSDP_ROLE_OPTIM && fsdp_span_behind(name, "state.", &rest)) {
		const unsigned char *dot = memrchr(rest.data, '.', rest.size);
		if (dot != NULL)
			rest.size = (size_t)(dot - rest.data);
	} else if (tensor->role == FSDP_ROLE_OTHER) {
		fsdp_span_behind(name, "module.", &rest);
	}
	enum fsdp_cut cut = fsdp_slicing_of(join->slicing, rest, &everywhere);
	join->averaged += cut == FSDP_CUT_MEAN && tensor->role == FSDP_ROLE_PARAM;
	if (cut == FSDP_CUT_UNKNOWN || cut == FSDP_CUT_MEAN)
		return;
	/* Of one rank in a stage all is whole. */
	if (join->ranks == 1)
		cut = FSDP_CUT_COPY;
	if (are_complete(join, slices, first, everywhere) &&
		measure_whole(join, slices, first, cut, whole) &&
		are_plain(slices, first, cut))
		*ret_cut = cut;
}

static void remove_slices(struct fsdp_join *join, struct cut_slices *slices)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_arena *scratch = join->reading->scratch;
	size_t count = model->tensors.count - join->first_tensor;
	size_t pieces = model->pieces.count - join->first_piece;
	struct fsdp_tensor_record *tensors = FSDP_TAKE(scratch, tensors, count + 1);
	struct fsdp_piece_record *copies = FSDP_TAKE(scratch, copies, pieces + 1);
	slices->slice = FSDP_TAKE(scratch, slices->slice, count + 1);
	slices->next = FSDP_TAKE(scratch, slices->next, count + 1);
	uint32_t slice = 0;
	for (size_t i = 0; i < count; i++) {
		tensors[i] = *fsdp_model_tensor(model, (join->first_tensor + i));
		while (slice + 1 < join->slices &&
			join->begin[slice + 1] <= join->first_tensor + i)
			slice++;
		slices->slice[i] = slice;
	}
	for (size_t i = 0; i < pieces; i++)
		copies[i] = *fsdp_model_piece(model, join->first_piece + i);
	slices->tensors = tensors;
	slices->pieces = copies;
	slices->first_piece = (uint32_t)join->first_piece;
}

void fsdp_join_slices(struct fsdp_join *join)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_arena *scratch = join->reading->scratch;
	size_t count = model->tensors.count - join->first_tensor;
	size_t names = model->names.list.count;
	struct cut_slices slices = { 0 };
	int64_t whole[FSDP_DIMS_MAX];
	if (join->slices == 1 || !join->slicing->is_patterned)
		return;
	uint32_t *last = FSDP_TAKE(scratch, last, names);
	bool *taken = fsdp_arena_take(scratch, count + 1, 1);
	remove_slices(join, &slices);
	FSDP_EACH(i, (uint32_t)count, known, &last[slices.tensors[i].raw_name]) {
		if (*known != 0)
			slices.next[*known - 1] = i + 1;
		taken[i] = *known != 0;
		*known = i + 1;
	}
	fsdp_build_take_back(
		model, join->first_tensor, join->first_piece, model->values.count);
	for (uint32_t i = 0; i < count; i++) {
		enum fsdp_cut cut;
		if (taken[i])
			continue;
		find_cut(join, &slices, i + 1, &cut, whole);
		if (cut != FSDP_CUT_UNKNOWN) {
			add_whole(join, &slices, i + 1, cut, whole);
			continue;
		}
		for (uint32_t id = i + 1; id != 0; id = slices.next[id - 1])
			add_again(join, &slices, id - 1);
	}
}
