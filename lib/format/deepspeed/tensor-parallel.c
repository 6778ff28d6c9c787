/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins slices of tensor parallelism to whole parameters, where slicing.c tells how they
 * were cut.
 *
 * A slice that lies in flat buffers is runs of them. Cut along the first dimension, these
 * are runs of the whole too; along the second they are the end of a row, whole rows and
 * the begin of a row, which are boxes.
 */
#include "base/num.h"
#include "format/deepspeed/tensor-parallel.h"

/* The slices of one name, in order of ranks. */
struct cut_slices {
	const struct fsdp_tensor_record *tensors; /* of all */
	const struct fsdp_piece_record *pieces;
	uint32_t first_piece; /* that `pieces` begin with */
	uint32_t *slice;      /* of a tensor: which it is of */
	uint32_t *next;       /* of one name, + 1 */
};

/* The parameter that a tensor is of, or of which it is a state or a copy. */
static struct fsdp_span owner_of(
	const struct fsdp_tensor_record *tensor, struct fsdp_span name)
{
	struct fsdp_span rest = name;
	if (tensor->role == FSDP_ROLE_OPTIM && fsdp_span_behind(name, "state.", &rest)) {
		const unsigned char *dot = memrchr(rest.data, '.', rest.size);
		if (dot != NULL)
			rest.size = (size_t)(dot - rest.data);
	} else if (tensor->role == FSDP_ROLE_OTHER) {
		fsdp_span_behind(name, "module.", &rest);
	}
	return rest;
}

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

/* The shape of the whole; false: they do not fit together. */
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

/* Where a slice lies in the whole. */
struct slice_place {
	uint32_t tensor;
	enum fsdp_cut cut;
	const int64_t *shape, *whole;
	uint32_t dims;
	int64_t before; /* along the dimension, in the slices before it */
};

/* Elements behind each other in the slice from `skip` on, as a run of the whole. */
static bool add_part_run(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, int64_t to, int64_t skip, int64_t count,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_piece_record piece = *from;
	int64_t run[3] = { to, count, fsdp_model_ints(model, from->box)[2] + skip };
	if (count <= 0)
		return true;
	piece.tensor = slot->tensor;
	piece.storage_offset += (uint64_t)skip;
	piece.box = fsdp_build_ints(model, run, 3, ret_error);
	return piece.box != FSDP_NONE &&
	       fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
}

/* The same as a box: `offsets`, then `sizes`. */
static bool add_part_box(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, const int64_t *box, int64_t skip,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_piece_record piece = *from;
	piece.tensor = slot->tensor;
	piece.storage_offset += (uint64_t)skip;
	piece.is_run = false;
	piece.box = fsdp_build_ints(model, box, 2 * (size_t)slot->dims, ret_error);
	return piece.box != FSDP_NONE &&
	       fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
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
static bool add_rows(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, int64_t to, int64_t first, int64_t count,
	struct fsdp_error **ret_error)
{
	int64_t box[2 * FSDP_DIMS_MAX] = { to };
	memcpy(box + slot->dims, slot->shape, slot->dims * sizeof *box);
	box[slot->dims] = count;
	return add_part_box(join, slot, from, box, first * row_of(slot), ret_error);
}

/* Elements of a slice that was cut along the second dimension: the end of a row, whole
 * rows, the begin of a row. */
static bool add_columns(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, int64_t start, int64_t count,
	struct fsdp_error **ret_error)
{
	int64_t width = slot->shape[1], done = 0;
	while (done < count) {
		int64_t at = (start + done) % width, left = count - done;
		bool whole = at == 0 && left >= width;
		int64_t rest = left < width - at ? left : width - at;
		int64_t box[4] = { (start + done) / width, slot->before + at,
			whole ? left / width : 1, whole ? width : rest };
		if (!add_part_box(join, slot, from, box, done, ret_error))
			return false;
		done += box[2] * box[3];
	}
	return true;
}

/* Two parameters one behind the other, in each slice a part of both. */
static bool add_halves(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, int64_t start, int64_t count,
	struct fsdp_error **ret_error)
{
	int64_t rows = slot->shape[0] / 2, lower = (slot->whole[0] + slot->before) / 2;
	int64_t row = row_of(slot), half = rows * row, upper = 0;
	if (!from->is_run)
		return add_rows(join, slot, from, slot->before / 2, 0, rows, ret_error) &&
		       add_rows(join, slot, from, lower, rows, rows, ret_error);
	if (start < half)
		upper = count < half - start ? count : half - start;
	return add_part_run(join, slot, from, slot->before / 2 * row + start, 0, upper,
		       ret_error) &&
	       add_part_run(join, slot, from, lower * row + (start + upper - half), upper,
		       count - upper, ret_error);
}

static bool add_slice_piece(struct fsdp_join *join, const struct slice_place *slot,
	const struct fsdp_piece_record *from, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = join->reading->model;
	const int64_t *run = from->is_run ? fsdp_model_ints(model, from->box) : NULL;
	int64_t row = row_of(slot);
	int64_t start = run != NULL ? run[0] : 0;
	int64_t count = run != NULL ? run[1] : slot->shape[0] * row;
	if (slot->cut == FSDP_CUT_COLUMNS)
		return add_columns(join, slot, from, start, count, ret_error);
	if (slot->cut == FSDP_CUT_HALVES)
		return add_halves(join, slot, from, start, count, ret_error);
	if (slot->cut == FSDP_CUT_ROWS && run != NULL)
		return add_part_run(join, slot, from, slot->before * row + start, 0,
			count, ret_error);
	if (slot->cut == FSDP_CUT_ROWS)
		return add_rows(
			join, slot, from, slot->before, 0, slot->shape[0], ret_error);
	struct fsdp_piece_record piece = *from;
	piece.tensor = slot->tensor;
	return fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
}

/* Runs and whole tensors are put together, boxes and strides are not. */
static bool are_plain(const struct cut_slices *slices, uint32_t first, enum fsdp_cut cut)
{
	for (uint32_t id = first; id != 0; id = slices->next[id - 1]) {
		const struct fsdp_tensor_record *tensor = &slices->tensors[id - 1];
		for (uint32_t i = 0; i < tensor->piece_count; i++) {
			const struct fsdp_piece_record *piece =
				&slices->pieces[tensor->first_piece -
						slices->first_piece + i];
			if (cut != FSDP_CUT_COPY &&
				((!piece->is_run && piece->box != FSDP_NONE) ||
					piece->strides != FSDP_NONE))
				return false;
		}
	}
	return true;
}

static bool add_whole(struct fsdp_join *join, const struct cut_slices *slices,
	uint32_t first, enum fsdp_cut cut, const int64_t *whole,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_tensor_record record = slices->tensors[first - 1];
	int dim = dimension_of(cut);
	record.shape = fsdp_build_ints(model, whole, record.dims, ret_error);
	struct slice_place slot = { .cut = cut, .whole = whole, .dims = record.dims };
	if (record.shape == FSDP_NONE)
		return false;
	slot.tensor = fsdp_build_tensor(model, &record, ret_error);
	if (slot.tensor == FSDP_NONE)
		return false;
	for (uint32_t id = first; id != 0; id = slices->next[id - 1]) {
		const struct fsdp_tensor_record *tensor = &slices->tensors[id - 1];
		int64_t shape[FSDP_DIMS_MAX];
		memcpy(shape, fsdp_model_ints(model, tensor->shape),
			tensor->dims * sizeof *shape);
		slot.shape = shape;
		if (slices->slice[id - 1] % join->ranks == 0)
			slot.before = 0;
		for (uint32_t i = 0; i < tensor->piece_count; i++)
			if (!add_slice_piece(join, &slot,
				    &slices->pieces[tensor->first_piece -
						    slices->first_piece + i],
				    ret_error))
				return false;
		slot.before += dim >= 0 ? shape[dim] : 0;
	}
	return true;
}

static bool add_again(struct fsdp_join *join, const struct cut_slices *slices,
	uint32_t index, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = join->reading->model;
	const struct fsdp_tensor_record *tensor = &slices->tensors[index];
	uint32_t id = fsdp_build_tensor(model, tensor, ret_error);
	for (uint32_t i = 0; i < tensor->piece_count && id != FSDP_NONE; i++) {
		struct fsdp_piece_record piece =
			slices->pieces[tensor->first_piece - slices->first_piece + i];
		piece.tensor = id;
		if (fsdp_build_piece(model, &piece, ret_error) == FSDP_NONE)
			return false;
	}
	return id != FSDP_NONE;
}

/* How the slices of a name are put together; FSDP_CUT_UNKNOWN: not at all. */
static bool find_cut(struct fsdp_join *join, const struct cut_slices *slices,
	uint32_t first, enum fsdp_cut *ret_cut, int64_t *whole,
	struct fsdp_error **ret_error)
{
	const struct fsdp_tensor_record *tensor = &slices->tensors[first - 1];
	bool everywhere, buffer = tensor->role == FSDP_ROLE_BUFFER;
	struct fsdp_span name = fsdp_model_name(
		join->reading->model, tensor->raw_name, join->reading->scratch);
	*ret_cut = FSDP_CUT_UNKNOWN;
	if (name.data == NULL)
		return fsdp_arena_fail(join->reading->scratch, ret_error);
	if (slices->next[first - 1] == 0 || tensor->dims == 0 || buffer ||
		(tensor->flags & FSDP_TENSOR_RANKS_OWN) != 0)
		return true;
	enum fsdp_cut cut =
		fsdp_slicing_of(join->slicing, owner_of(tensor, name), &everywhere);
	join->averaged += cut == FSDP_CUT_MEAN && tensor->role == FSDP_ROLE_PARAM;
	if (cut == FSDP_CUT_UNKNOWN || cut == FSDP_CUT_MEAN)
		return true;
	/* Of one rank in a stage all is whole. */
	if (join->ranks == 1)
		cut = FSDP_CUT_COPY;
	if (are_complete(join, slices, first, everywhere) &&
		measure_whole(join, slices, first, cut, whole) &&
		are_plain(slices, first, cut))
		*ret_cut = cut;
	return true;
}

static bool take_slices(
	struct fsdp_join *join, struct cut_slices *slices, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_arena *scratch = join->reading->scratch;
	size_t count = model->tensors.count - join->first_tensor;
	size_t pieces = model->pieces.count - join->first_piece;
	struct fsdp_tensor_record *tensors = FSDP_TAKE(scratch, tensors, count + 1);
	struct fsdp_piece_record *copies = FSDP_TAKE(scratch, copies, pieces + 1);
	slices->slice = FSDP_TAKE(scratch, slices->slice, count + 1);
	slices->next = FSDP_TAKE(scratch, slices->next, count + 1);
	if (tensors == NULL || copies == NULL || slices->slice == NULL ||
		slices->next == NULL)
		return fsdp_arena_fail(scratch, ret_error);
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
	return true;
}

bool fsdp_join_slices(struct fsdp_join *join, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = join->reading->model;
	struct fsdp_arena *scratch = join->reading->scratch;
	size_t count = model->tensors.count - join->first_tensor;
	size_t names = model->names.list.count;
	struct cut_slices slices = { 0 };
	int64_t whole[FSDP_DIMS_MAX];
	if (join->slices == 1 || !join->slicing->told)
		return true;
	uint32_t *last = FSDP_TAKE(scratch, last, names);
	bool *taken = fsdp_arena_take(scratch, count + 1, 1);
	if (last == NULL || taken == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	if (!take_slices(join, &slices, ret_error))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t *known = &last[slices.tensors[i].raw_name];
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
		if (!find_cut(join, &slices, i + 1, &cut, whole, ret_error))
			return false;
		if (cut != FSDP_CUT_UNKNOWN) {
			if (!add_whole(join, &slices, i + 1, cut, whole, ret_error))
				return false;
			continue;
		}
		for (uint32_t id = i + 1; id != 0; id = slices.next[id - 1])
			if (!add_again(join, &slices, id - 1, ret_error))
				return false;
	}
	return true;
}
