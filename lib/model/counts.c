/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts a checkpoint of which only the counts are wanted: one look at each tensor, when
 * all of them are read or (fsdp_model_counting) as soon as one is, and no order, no tree.
 * Does so only where the counts cannot differ from those of the whole way
 * (freeze.c): plain tensors that lie in one piece each, on storages of their own.
 */
#include "base/bits.h"
#include "base/num.h"
#include "model/build.h"
#include "model/dtype.h"
#include "model/internal.h"
#include "model/fqn.h"

/* Values are put into order one by one. */
enum { VALUES_MOST = 64 };

enum { SUMS_MOST = 32 }; /* of roles and dtypes */

struct fsdp_counts {
	struct fsdp_model *model;
	struct fsdp_bits marks; /* names of modules */
	size_t tensors, others, modules;
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

/* What ended the counting. */
enum outcome { COUNTED, ODD, NO_MEMORY };

/* Marks a name and all above it as modules. ODD: one of them is a wrapper's. */
static enum outcome mark_up(struct fsdp_counts *counts, uint32_t name)
{
	const struct fsdp_names *names = &counts->model->names;
	for (; name != FSDP_NONE; name = fsdp_names_at(names, name)->parent) {
		bool again;
		if (!fsdp_bits_set(&counts->marks, name, &again))
			return NO_MEMORY;
		if (again)
			return COUNTED;
		if (fsdp_name_find_wrapper(fsdp_names_segment(names, name)) != 0)
			return ODD;
		counts->modules++;
	}
	return COUNTED;
}

/* Payload, and what of it no tensor views so far. */
static bool count_extent(struct fsdp_counts *counts, const struct fsdp_extent *extent)
{
	if (extent->kind == FSDP_EXTENT_ITEM || extent->missing || extent->is_record)
		return false;
	counts->payload += extent->length;
	counts->unused += extent->size;
	return true;
}

/* Those that no tensor lies on. */
static void count_extents(struct fsdp_counts *counts, uint32_t end)
{
	for (; counts->next_extent < end; counts->next_extent++)
		(void)count_extent(
			counts, fsdp_model_extent(counts->model, counts->next_extent));
}

static bool count_piece(struct fsdp_counts *counts,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	const struct fsdp_extent *extent)
{
	if (piece->box != FSDP_NONE || piece->rank != FSDP_NONE ||
		extent->kind == FSDP_EXTENT_ITEM)
		return false;
	if (!count_extent(counts, extent))
		return true;
	if (piece->strides == FSDP_NONE && piece->storage_offset == 0)
		counts->unused -= fsdp_min(counts->bytes, extent->size);
	else
		counts->unused -=
			fsdp_model_used(counts->model, tensor, piece, extent->size);
	return true;
}

/* What follows from shape, dtype and the last segment of the name. */
static void look_at(struct fsdp_counts *counts, const struct fsdp_tensor_record *tensor)
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

static bool add_to_sum(
	struct fsdp_counts *counts, const struct fsdp_tensor_record *tensor)
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
	if (tensor->role == FSDP_ROLE_PARAM && !fsdp_model_is_lone_count(tensor))
		(*sum)->parameters += counts->numel;
	(*sum)->bytes += counts->bytes;
	return true;
}

static enum outcome count_tensor(struct fsdp_counts *counts,
	struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	const struct fsdp_extent *extent)
{
	enum {
		FLAGS = FSDP_TENSOR_COMPONENT | FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SPREAD
	};
	struct fsdp_model *model = counts->model;
	if (tensor->piece_count != 1 || tensor->dtype == FSDP_DTYPE_UNKNOWN ||
		(tensor->flags & FLAGS) || tensor->class_index != 0 ||
		tensor->role == FSDP_ROLE_OPTIM)
		return ODD;
	look_at(counts, tensor);
	if (counts->is_flat_key)
		return ODD;
	if (tensor->flags & FSDP_TENSOR_ROLE_INFERRED)
		tensor->role = (uint8_t)counts->role;
	counts->tensors++;
	counts->others += tensor->role == FSDP_ROLE_OTHER;
	if (!count_piece(counts, tensor, piece, extent) || !add_to_sum(counts, tensor))
		return ODD;
	return tensor->role == FSDP_ROLE_OTHER
		       ? COUNTED
		       : mark_up(counts,
				 fsdp_names_at(&model->names, tensor->raw_name)->parent);
}

static enum outcome count_tensors(struct fsdp_counts *counts)
{
	struct fsdp_model *model = counts->model;
	enum outcome outcome = COUNTED;
	for (uint32_t i = 0; outcome == COUNTED && i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->piece_count == 0)
			return ODD;
		const struct fsdp_piece_record *piece =
			fsdp_model_piece(model, tensor->first_piece);
		/* On a storage that no tensor before it lies on, if they go upwards. */
		if (piece->extent == FSDP_NONE || piece->extent < counts->next_extent)
			return ODD;
		count_extents(counts, piece->extent);
		counts->next_extent++;
		outcome = count_tensor(
			counts, tensor, piece, fsdp_model_extent(model, piece->extent));
	}
	count_extents(counts, (uint32_t)model->extents.count);
	return outcome;
}

static enum outcome mark_hints(struct fsdp_counts *counts)
{
	const struct fsdp_vec *hints = &counts->model->class_hints;
	enum outcome outcome = mark_up(counts, 0);
	for (size_t i = 0; outcome == COUNTED && i < hints->count; i++) {
		const struct fsdp_class_hint *hint = fsdp_vec_at(hints, i);
		outcome = mark_up(counts, hint->raw_name);
	}
	return outcome;
}

/* Behind all of the sorted values that it is not before: few comparisons, for names may
 * be long. */
static size_t place_of(const struct fsdp_model *model,
	const struct fsdp_value_record *sorted, size_t count, uint32_t name)
{
	size_t low = 0, high = count;
	while (low < high) {
		/* Most come in order. */
		size_t middle = high == count ? high - 1 : low + (high - low) / 2;
		if (fsdp_names_compare(&model->names, sorted[middle].name, name) > 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool sort_values(struct fsdp_model *model, bool *ret_good)
{
	size_t count = model->values.count;
	struct fsdp_value_record *sorted = FSDP_TAKE(model->arena, sorted, count + 1);
	*ret_good = sorted != NULL;
	if (!*ret_good)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_value_record *value = fsdp_model_value(model, i);
		size_t at = place_of(model, sorted, i, value->name);
		memmove(&sorted[at + 1], &sorted[at], (i - at) * sizeof *sorted);
		sorted[at] = *value;
	}
	model->sorted_values = sorted;
	return true;
}

static bool is_plain(const struct fsdp_model *model)
{
	return !model->has_plan && !model->is_set && model->values.count <= VALUES_MOST;
}

static struct fsdp_counts *new_counts(struct fsdp_model *model)
{
	struct fsdp_counts *counts = FSDP_TAKE(model->arena, counts, 1);
	model->sums = FSDP_TAKE(model->arena, model->sums, SUMS_MOST);
	if (counts == NULL || model->sums == NULL)
		return NULL;
	counts->model = model;
	counts->last.shape = FSDP_NONE;
	fsdp_bits_init(&counts->marks, model->arena);
	return counts;
}

bool fsdp_model_counting(struct fsdp_model *model, struct fsdp_error **ret_error)
{
	model->counting = new_counts(model);
	return model->counting != NULL || fsdp_arena_fail(model->arena, ret_error);
}

bool fsdp_model_count_plain(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const struct fsdp_piece_record *piece, const struct fsdp_extent *extent,
	struct fsdp_error **ret_error)
{
	enum outcome outcome = count_tensor(model->counting, tensor, piece, extent);
	model->wants_records |= outcome == ODD;
	if (outcome == NO_MEMORY)
		fsdp_arena_fail(model->arena, ret_error);
	return outcome == COUNTED;
}

size_t fsdp_model_counted(const struct fsdp_model *model)
{
	return model->counting->tensors;
}

static void keep(struct fsdp_model *model, const struct fsdp_counts *counts)
{
	model->payload += counts->payload;
	model->unused += counts->unused;
	model->no_visits = true;
	model->module_count = counts->modules;
	model->tensor_count = counts->tensors;
}

bool fsdp_model_count(struct fsdp_model *model, bool *ret_counted)
{
	bool plain = is_plain(model), begun = model->counting != NULL, good = true;
	struct fsdp_counts *counts = model->counting;
	enum outcome outcome = plain ? COUNTED : ODD;
	*ret_counted = false;
	if (plain && !begun) {
		counts = new_counts(model);
		outcome = counts != NULL ? count_tensors(counts) : NO_MEMORY;
	}
	if (outcome == COUNTED)
		outcome = mark_hints(counts);
	/* Where there is nothing else, all of them are shown as a tree. */
	if (outcome == COUNTED && counts->others == counts->tensors)
		outcome = ODD;
	if (outcome == COUNTED && sort_values(model, &good)) {
		keep(model, counts);
		*ret_counted = true;
		return true;
	}
	model->sum_count = 0;
	model->wants_records |= begun && outcome == ODD;
	return good && outcome != NO_MEMORY;
}
