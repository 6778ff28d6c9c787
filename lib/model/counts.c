/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how a checkpoint is counted where nobody asks for more: one look at each tensor,
 * while all that was read of it is near, and no order, no tree. Does so only where the
 * counts cannot differ from those of the whole way (freeze.c): plain tensors that lie in
 * one piece each, on storages of their own.
 */
#include "base/num.h"
#include "model/internal.h"
#include "model/name.h"

/* Values are put into order one by one. */
enum { VALUES_MOST = 64 };

enum { SUMS_MOST = 32 }; /* of roles and dtypes */

struct counts {
	struct fsdp_model *model;
	unsigned char *marks; /* by name: it is a module */
	size_t modules;
	uint32_t next_extent; /* the first that is not counted yet */
	uint64_t payload, unused;
	struct fsdp_sum *sums[FSDP_ROLE_COUNT][UINT8_MAX + 1]; /* by dtype */

	/* What follows from the last tensor's facts: its neighbours mostly have the same.
	 */
	struct {
		fsdp_ints shape;
		uint8_t dims, dtype, role;
		const unsigned char *segment;
		uint32_t size; /* of the segment */
	} last;
	uint64_t numel, bytes;
	enum fsdp_role role;
	bool is_flat_key;
};

/* Marks a name and all above it as modules. False: one of them is a wrapper's. */
static bool mark_up(struct counts *counts, uint32_t name)
{
	const struct fsdp_names *names = &counts->model->names;
	while (name != FSDP_NONE && !counts->marks[name]) {
		if (fsdp_name_find_wrapper(fsdp_names_segment(names, name)) != 0)
			return false;
		counts->marks[name] = 1;
		counts->modules++;
		name = fsdp_names_at(names, name)->parent;
	}
	return true;
}

/* Payload, and what of it nobody views so far. */
static void count_extents(struct counts *counts, uint32_t end)
{
	struct fsdp_model *model = counts->model;
	for (; counts->next_extent < end; counts->next_extent++) {
		const struct fsdp_extent *extent = fsdp_vec_of(
			&model->extents, counts->next_extent, sizeof(struct fsdp_extent));
		if (extent->kind == FSDP_EXTENT_ITEM || extent->missing ||
			extent->is_record)
			continue;
		counts->payload += extent->length;
		counts->unused += extent->size;
	}
}

static bool count_piece(struct counts *counts, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_model *model = counts->model;
	const struct fsdp_piece_record *piece = fsdp_vec_of(
		&model->pieces, tensor->first_piece, sizeof(struct fsdp_piece_record));
	/* On a storage that no tensor before it lies on, if they go upwards. */
	if (piece->box != FSDP_NONE || piece->extent == FSDP_NONE ||
		piece->rank != FSDP_NONE || piece->extent < counts->next_extent)
		return false;
	count_extents(counts, piece->extent + 1);
	const struct fsdp_extent *extent =
		fsdp_vec_of(&model->extents, piece->extent, sizeof(struct fsdp_extent));
	if (extent->kind == FSDP_EXTENT_ITEM)
		return false;
	if (extent->missing || extent->is_record)
		return true;
	if (piece->strides == FSDP_NONE && piece->storage_offset == 0)
		counts->unused -= fsdp_min(counts->bytes, extent->size);
	else
		counts->unused -= fsdp_model_used(model, tensor, piece, extent->size);
	return true;
}

/* What follows from shape, dtype and the last segment of the name. */
static void look_at(struct counts *counts, const struct fsdp_tensor_record *tensor)
{
	const struct fsdp_model *model = counts->model;
	const struct fsdp_name *name = fsdp_names_at(&model->names, tensor->name);
	if (tensor->shape == counts->last.shape && tensor->dims == counts->last.dims &&
		tensor->dtype == counts->last.dtype &&
		tensor->role == counts->last.role && tensor->path == FSDP_NONE &&
		name->text == counts->last.segment && name->size == counts->last.size)
		return;
	counts->last.shape = tensor->path == FSDP_NONE ? tensor->shape : FSDP_NONE;
	counts->last.dims = tensor->dims;
	counts->last.dtype = tensor->dtype;
	counts->last.role = tensor->role;
	counts->last.segment = name->text;
	counts->last.size = name->size;
	counts->numel = fsdp_model_numel(model, tensor);
	counts->bytes = fsdp_model_bytes(model, tensor);
	counts->role = tensor->role == FSDP_ROLE_PARAM ? fsdp_model_role_of(model, tensor)
						       : (enum fsdp_role)tensor->role;
	counts->is_flat_key =
		fsdp_name_is_flat_parameter(fsdp_span(name->text, name->size));
}

static bool add_to_sum(struct counts *counts, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_model *model = counts->model;
	struct fsdp_sum **sum = &counts->sums[tensor->role][tensor->dtype];
	if (*sum == NULL) {
		if (model->sum_count == SUMS_MOST)
			return false;
		*sum = &model->sums[model->sum_count++];
		**sum = (struct fsdp_sum){
			.role = (enum fsdp_role)tensor->role,
			.dtype = tensor->dtype,
		};
	}
	(*sum)->tensors++;
	(*sum)->numel += counts->numel;
	(*sum)->bytes += counts->bytes;
	return true;
}

static bool count_tensor(struct counts *counts, struct fsdp_tensor_record *tensor)
{
	enum { ODD = FSDP_TENSOR_COMPONENT | FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SPREAD };
	struct fsdp_model *model = counts->model;
	if (tensor->piece_count != 1 || (tensor->flags & ODD) ||
		tensor->class_index != 0 || tensor->role == FSDP_ROLE_OPTIM)
		return false;
	look_at(counts, tensor);
	if (counts->is_flat_key)
		return false;
	if (tensor->flags & FSDP_TENSOR_ROLE_INFERRED)
		tensor->role = (uint8_t)counts->role;
	if (tensor->role != FSDP_ROLE_OTHER &&
		!mark_up(counts, fsdp_names_at(&model->names, tensor->raw_name)->parent))
		return false;
	return count_piece(counts, tensor) && add_to_sum(counts, tensor);
}

static bool count_tensors(struct counts *counts)
{
	struct fsdp_model *model = counts->model;
	size_t others = 0;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (!count_tensor(counts, tensor))
			return false;
		others += tensor->role == FSDP_ROLE_OTHER;
	}
	/* Where there is nothing else, all of them are shown as a tree. */
	return others != model->tensors.count;
}

static bool mark_hints(struct counts *counts)
{
	const struct fsdp_vec *hints = &counts->model->class_hints;
	for (size_t i = 0; i < hints->count; i++) {
		const struct fsdp_class_hint *hint = fsdp_vec_at(hints, i);
		if (!mark_up(counts, hint->raw_name))
			return false;
	}
	return true;
}

static bool sort_values(struct fsdp_model *model, bool *ret_good)
{
	size_t count = model->values.count;
	struct fsdp_value_record *sorted =
		fsdp_arena_take(model->arena, (count + 1) * sizeof *sorted, 8);
	*ret_good = sorted != NULL;
	if (!*ret_good)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_value_record *value = fsdp_vec_at(&model->values, i);
		size_t at = i;
		for (; at > 0 && fsdp_names_compare(&model->names, sorted[at - 1].name,
					 value->name) > 0;
			at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = *value;
	}
	model->sorted_values = sorted;
	return true;
}

static bool is_plain(const struct fsdp_model *model)
{
	return !model->has_plan && !model->is_set && model->values.count <= VALUES_MOST;
}

bool fsdp_model_count(
	struct fsdp_model *model, struct fsdp_arena *scratch, bool *ret_counted)
{
	struct counts counts = { .model = model, .last.shape = FSDP_NONE };
	bool good = true;
	*ret_counted = false;
	if (!is_plain(model))
		return true;
	counts.marks = fsdp_arena_take(scratch, model->names.list.count, 1);
	model->sums = fsdp_arena_take(model->arena, SUMS_MOST * sizeof *model->sums, 8);
	if (counts.marks == NULL || model->sums == NULL)
		return false;
	if (!mark_up(&counts, 0) || !mark_hints(&counts) || !count_tensors(&counts) ||
		!sort_values(model, &good)) {
		model->sum_count = 0;
		return good;
	}
	count_extents(&counts, (uint32_t)model->extents.count);
	model->payload += counts.payload;
	model->unused += counts.unused;
	model->no_visits = true;
	model->module_count = counts.modules;
	model->tensor_count = model->tensors.count;
	*ret_counted = true;
	return true;
}
