/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows what must be read to say where the payload of a piece begins: the local header of
 * a zip member, or the directory and the pickle of a DCP item. Changes nothing in the
 * checkpoint.
 */
#include <stdlib.h>

#include "base/num.h"
#include "checkpoint-private.h"
#include "format/torch-value.h"
#include "model/dtype.h"
#include "store/zip.h"

enum { WINDOW = 256 << 10, SMALL_PICKLE = 16 << 20 };

struct fsdp_locator {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena; /* of one item; reset before the next */
	struct fsdp_arena kept;  /* keys of storages, the window */
	struct fsdp_names keys;  /* keys seen, so that each is kept once */
	struct fsdp_zip_window window;
	uint32_t window_file;
};

bool fsdp_locator_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_locator **ret_locator, struct fsdp_error **ret_error)
{
	struct fsdp_locator *locator = calloc(1, sizeof *locator);
	if (locator == NULL)
		return fsdp_fail_memory(ret_error);
	locator->checkpoint = checkpoint;
	locator->window_file = FSDP_NONE;
	locator->budget.ceiling = checkpoint->budget.ceiling;
	fsdp_arena_init(&locator->arena, &locator->budget);
	fsdp_arena_init(&locator->kept, &locator->budget);
	locator->window.window_size = WINDOW;
	locator->window.bytes = fsdp_arena_take(&locator->kept, WINDOW, 16);
	if (locator->window.bytes == NULL ||
		!fsdp_names_init(&locator->keys, &locator->kept)) {
		fsdp_locator_free(locator);
		return fsdp_arena_fail(&locator->kept, ret_error);
	}
	*ret_locator = locator;
	return true;
}

void fsdp_locator_free(struct fsdp_locator *locator)
{
	if (locator == NULL)
		return;
	fsdp_arena_done(&locator->arena);
	fsdp_arena_done(&locator->kept);
	free(locator);
}

/* ---- views ---- */

/* A view of a storage whose record begins at `record`. */
struct view {
	uint64_t record, stored_size;
	uint64_t storage_bytes, storage_offset; /* bytes, elements */
	uint16_t method;
	uint32_t dtype, dims;
	int64_t shape[FSDP_DIMS_MAX], strides[FSDP_DIMS_MAX];
};

/* First and last byte of the view within its storage; false: overflow. */
static bool view_bytes(const struct view *view, uint64_t *ret_begin, uint64_t *ret_end)
{
	uint64_t end = view->storage_offset;
	*ret_begin = *ret_end = 0;
	for (size_t i = 0; i < view->dims; i++)
		if (view->shape[i] == 0)
			return true;
	for (size_t i = 0; i < view->dims; i++) {
		uint64_t reach;
		if (!fsdp_mul((uint64_t)view->shape[i] - 1, (uint64_t)view->strides[i],
			    &reach) ||
			!fsdp_add(end, reach, &end))
			return false;
	}
	uint64_t begin;
	if (!fsdp_add(end, 1, &end) ||
		!fsdp_dtype_bytes(view->dtype, view->storage_offset, &begin) ||
		!fsdp_dtype_bytes(view->dtype, end, ret_end) ||
		*ret_end > view->storage_bytes)
		return false;
	*ret_begin = begin;
	return true;
}

static void set_contiguous(struct view *view)
{
	uint64_t stride = 1; /* may wrap if there are no elements: nobody follows it */
	for (size_t i = view->dims; i-- > 0;) {
		view->strides[i] = (int64_t)stride;
		stride *= view->shape[i] > 0 ? (uint64_t)view->shape[i] : 1;
	}
}

static bool is_contiguous(const struct view *view)
{
	int64_t stride = 1;
	for (size_t i = 0; i < view->dims; i++)
		if (view->shape[i] == 0)
			return true;
	for (size_t i = view->dims; i-- > 0;) {
		if (view->shape[i] != 1 && view->strides[i] != stride)
			return false;
		stride *= view->shape[i];
	}
	return true;
}

static bool fill_place(
	const struct view *view, struct fsdp_place *place, struct fsdp_error **ret_error)
{
	uint64_t begin, end;
	if (!view_bytes(view, &begin, &end))
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, view->record,
			"the tensor reaches beyond its storage");
	place->item_offset = view->record;
	place->item_length = view->stored_size;
	place->storage_offset = view->storage_offset;
	place->storage_bytes = view->storage_bytes;
	place->dims = view->dims;
	place->strided = !is_contiguous(view);
	memcpy(place->strides, view->strides, view->dims * sizeof *view->strides);
	if (end == 0)
		return true;
	if (view->method != 0) {
		place->method = "deflate";
		place->offset = view->record;
		place->length = view->stored_size;
		return true;
	}
	place->offset = view->record + begin;
	place->length = end - begin;
	return true;
}

/* ---- zip members ---- */

static void piece_view(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_piece_record *piece, struct view *view)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, piece->tensor);
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *run = fsdp_model_run(model, piece);
	const int64_t *shape = run != NULL   ? run + 1
			       : box != NULL ? box + tensor->dims
					     : fsdp_model_ints(model, tensor->shape);
	const int64_t *strides = fsdp_model_ints(model, piece->strides);
	view->dims = run != NULL ? 1 : tensor->dims;
	view->dtype = tensor->dtype;
	view->storage_offset = piece->storage_offset;
	memcpy(view->shape, shape, view->dims * sizeof *shape);
	if (strides != NULL)
		memcpy(view->strides, strides, view->dims * sizeof *strides);
	else
		set_contiguous(view);
}

static bool locate_member(struct fsdp_locator *locator, const struct fsdp_extent *extent,
	struct view *view, struct fsdp_error **ret_error)
{
	/* The same file is asked for many times in a row: keep its source. */
	if (locator->window_file != extent->file || locator->checkpoint->is_folder) {
		struct fsdp_source source;
		if (!fsdp_checkpoint_source(
			    locator->checkpoint, extent->file, &source, ret_error))
			return false;
		if (locator->window_file != extent->file)
			locator->window.begin = locator->window.end = 0;
		locator->window.source = source;
		locator->window_file = extent->file;
	}
	view->stored_size = extent->length;
	view->storage_bytes = extent->size;
	view->method = extent->method;
	view->record = extent->offset;
	if (extent->kind == FSDP_EXTENT_BYTES)
		return true;
	return fsdp_zip_locate_in(&locator->window, extent->offset, extent->length,
		&view->record, ret_error);
}

/* ---- DCP items ---- */

/* What the item's pickle says of its one tensor. */
static bool read_item_view(struct fsdp_locator *locator, struct fsdp_torch *torch,
	struct view *view, uint32_t *ret_storage)
{
	uint32_t number;
	(void)locator;
	if (!fsdp_pickle_folded(torch->pickle, fsdp_pickle_top(torch->pickle), &number) ||
		fsdp_torch_kind(number) != FSDP_TORCH_TENSOR)
		return false;
	const struct fsdp_torch_tensor *tensor =
		fsdp_torch_tensor(torch, fsdp_torch_index(number));
	if (tensor->broken != NULL || tensor->storage == FSDP_NONE)
		return false;
	const int64_t *shape = fsdp_model_ints(torch->model, tensor->shape);
	view->dims = tensor->dims;
	view->dtype = tensor->dtype;
	view->storage_offset = tensor->offset;
	memcpy(view->shape, shape, view->dims * sizeof *shape);
	if (tensor->contiguous)
		set_contiguous(view);
	else
		memcpy(view->strides, shape + view->dims, view->dims * sizeof *shape);
	*ret_storage = tensor->storage;
	return true;
}

static const struct fsdp_zip_member *find_member(
	const struct fsdp_zip *zip, const char *folder, struct fsdp_span name)
{
	size_t size = strlen(folder);
	for (size_t i = 0; i < zip->members.count; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, i);
		const unsigned char *slash =
			memchr(member->name.data, '/', member->name.size);
		if (slash == NULL)
			continue;
		size_t skip = (size_t)(slash - member->name.data) + 1;
		struct fsdp_span rest =
			fsdp_span(member->name.data + skip, member->name.size - skip);
		if (rest.size == size + name.size &&
			memcmp(rest.data, folder, size) == 0 &&
			memcmp(rest.data + size, name.data, name.size) == 0)
			return member;
	}
	return NULL;
}

/* The key outlives the item. */
static bool keep_key(struct fsdp_locator *locator, struct fsdp_span key,
	struct fsdp_span *ret_key, struct fsdp_error **ret_error)
{
	uint32_t id = fsdp_names_find_child(&locator->keys, 0, key);
	if (id == FSDP_NONE) {
		struct fsdp_span copy = fsdp_arena_copy(&locator->kept, key);
		id = copy.data != NULL ? fsdp_names_child(&locator->keys, 0, copy)
				       : FSDP_NONE;
	}
	if (id == FSDP_NONE)
		return fsdp_arena_fail(&locator->kept, ret_error);
	*ret_key = fsdp_names_segment(&locator->keys, id);
	return true;
}

static bool item_error(
	struct fsdp_error **ret_error, const struct fsdp_extent *extent, const char *what)
{
	fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, extent->offset, "%s", what);
	fsdp_error_add_rule(ret_error, "FI1029");
	return false;
}

static bool open_item(struct fsdp_locator *locator, const struct fsdp_extent *extent,
	struct fsdp_model *model, struct fsdp_source *item, struct fsdp_zip *zip,
	struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	const struct fsdp_file_record *file =
		fsdp_vec_at(&locator->checkpoint->model.files, extent->file);
	fsdp_arena_reset(&locator->arena);
	if (!fsdp_build_init(
		    model, &locator->arena, &locator->checkpoint->limits, ret_error) ||
		!fsdp_checkpoint_source(
			locator->checkpoint, extent->file, &source, ret_error) ||
		!fsdp_source_slice(
			&source, extent->offset, extent->length, item, ret_error))
		return false;
	if (fsdp_zip_open(item, &locator->arena, &locator->checkpoint->limits, file->path,
		    &model->findings, zip, ret_error))
		return true;
	fsdp_error_add_rule(ret_error, "FI1029");
	fsdp_error_shift_offset(ret_error, extent->offset);
	return false;
}

static bool locate_item(struct fsdp_locator *locator, const struct fsdp_extent *extent,
	struct view *view, struct fsdp_span *ret_key, struct fsdp_error **ret_error)
{
	struct fsdp_model model;
	struct fsdp_source item;
	struct fsdp_zip zip;
	struct fsdp_torch torch;
	struct fsdp_span stream;
	uint32_t storage;
	uint64_t begin;
	if (!open_item(locator, extent, &model, &item, &zip, ret_error))
		return false;
	const struct fsdp_zip_member *pickle =
		find_member(&zip, "", FSDP_SPAN("data.pkl"));
	if (pickle == NULL)
		return item_error(ret_error, extent, "the item holds no data.pkl");
	if (!fsdp_zip_read(
		    &zip, pickle, SMALL_PICKLE, &locator->arena, &stream, ret_error) ||
		!fsdp_torch_init(&torch, &model, &locator->arena, &locator->arena,
			(struct fsdp_span){ 0 }, pickle->name, ret_error) ||
		!fsdp_torch_read(&torch, stream, extent->offset, false, ret_error))
		return false;
	if (!read_item_view(locator, &torch, view, &storage))
		return item_error(ret_error, extent, "the item is no tensor");
	struct fsdp_span key = fsdp_torch_key(&torch, storage);
	const struct fsdp_zip_member *member = find_member(&zip, "data/", key);
	if (member == NULL)
		return item_error(
			ret_error, extent, "the item lacks the record of its storage");
	if (!fsdp_zip_locate(&item, member, &begin, ret_error)) {
		fsdp_error_shift_offset(ret_error, extent->offset);
		return false;
	}
	view->record = extent->offset + begin;
	view->stored_size = member->stored_size;
	view->storage_bytes = member->size;
	view->method = member->method;
	return keep_key(locator, key, ret_key, ret_error);
}

/* The item must hold what the metadata says. */
static bool check_item(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_piece_record *piece, const struct fsdp_extent *extent,
	const struct view *view, struct fsdp_error **ret_error)
{
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(&checkpoint->model, piece->tensor);
	const int64_t *box = fsdp_model_ints(&checkpoint->model, piece->box);
	const int64_t *sizes =
		box != NULL ? box + tensor->dims
			    : fsdp_model_ints(&checkpoint->model, tensor->shape);
	if (view->dims != tensor->dims || view->dtype != tensor->dtype ||
		(view->dims != 0 &&
			memcmp(view->shape, sizes, view->dims * sizeof *sizes) != 0))
		return item_error(ret_error, extent,
			"the item's shape or dtype is not what the metadata says");
	return true;
}

static bool make_view(struct fsdp_locator *locator, uint32_t index, struct view *view,
	struct fsdp_span *ret_key, const struct fsdp_extent **ret_extent,
	struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = locator->checkpoint;
	const struct fsdp_piece_record *piece =
		fsdp_vec_at(&checkpoint->model.pieces, index);
	if (piece->extent == FSDP_NONE)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"the piece has no usable storage");
	const struct fsdp_extent *extent =
		fsdp_vec_at(&checkpoint->model.extents, piece->extent);
	const struct fsdp_file_record *file =
		fsdp_vec_at(&checkpoint->model.files, extent->file);
	bool found;
	*ret_extent = extent;
	*ret_key = extent->key;
	if (extent->missing)
		found = fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"the file does not hold these bytes");
	else if (extent->kind == FSDP_EXTENT_ITEM)
		found = locate_item(locator, extent, view, ret_key, ret_error) &&
			check_item(checkpoint, piece, extent, view, ret_error);
	else {
		piece_view(checkpoint, piece, view);
		found = locate_member(locator, extent, view, ret_error);
	}
	if (!found)
		fsdp_error_add_path(ret_error, (const char *)file->path.data);
	return found;
}

bool fsdp_piece_locate(struct fsdp_locator *locator, uint32_t piece,
	struct fsdp_place *ret_place, struct fsdp_error **ret_error)
{
	struct view view;
	struct fsdp_span key;
	const struct fsdp_extent *extent;
	struct fsdp_place place = { 0 };
	if (!make_view(locator, piece, &view, &key, &extent, ret_error) ||
		!fill_place(&view, &place, ret_error))
		return false;
	place.storage = key;
	place.big_endian = extent->big_endian;
	*ret_place = place;
	return true;
}

/* ---- the first elements ---- */

struct reader {
	struct fsdp_locator *locator;
	const struct fsdp_tensor_record *tensor;
	uint32_t current; /* piece that `view` is of, or FSDP_NONE */
	struct view view;
	const struct fsdp_extent *extent;
	int64_t offsets[FSDP_DIMS_MAX];
	bool is_run; /* the view has one dimension, whatever the tensor has */
	struct fsdp_source source;
};

static void unravel(const int64_t *shape, size_t dims, uint64_t linear, int64_t *index)
{
	for (size_t i = dims; i-- > 0;) {
		index[i] = (int64_t)(linear % (uint64_t)shape[i]);
		linear /= (uint64_t)shape[i];
	}
}

static bool box_holds(const int64_t *box, size_t dims, const int64_t *index)
{
	if (box == NULL)
		return true;
	for (size_t i = 0; i < dims; i++)
		if (index[i] < box[i] || index[i] - box[i] >= box[dims + i])
			return false;
	return true;
}

static bool run_holds(const int64_t *run, uint64_t linear)
{
	return linear >= (uint64_t)run[0] && linear - (uint64_t)run[0] < (uint64_t)run[1];
}

/* Makes the piece that holds this element the current one. */
static bool turn_to(struct reader *reader, const int64_t *index, uint64_t linear,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &reader->locator->checkpoint->model;
	size_t dims = reader->tensor->dims;
	for (uint32_t i = 0; i < reader->tensor->piece_count; i++) {
		uint32_t piece_id = reader->tensor->first_piece + i;
		const struct fsdp_piece_record *piece =
			fsdp_vec_at(&model->pieces, piece_id);
		const int64_t *box = fsdp_model_box(model, piece);
		const int64_t *run = fsdp_model_run(model, piece);
		if (run != NULL ? !run_holds(run, linear) : !box_holds(box, dims, index))
			continue;
		if (piece_id == reader->current)
			return true;
		struct fsdp_span key;
		if (!make_view(reader->locator, piece_id, &reader->view, &key,
			    &reader->extent, ret_error))
			return false;
		for (size_t k = 0; k < dims; k++)
			reader->offsets[k] = box != NULL ? box[k] : 0;
		reader->is_run = run != NULL;
		if (run != NULL)
			reader->offsets[0] = run[0];
		reader->current = piece_id;
		return fsdp_checkpoint_source(reader->locator->checkpoint,
			reader->extent->file, &reader->source, ret_error);
	}
	return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
		"no piece of the tensor holds this element");
}

/* How many elements from here on lie one behind the other in the current piece. */
static uint64_t run_length(const struct reader *reader, const int64_t *index)
{
	size_t dims = reader->view.dims;
	if (dims == 0)
		return 1;
	size_t last = dims - 1;
	if (reader->view.strides[last] != 1)
		return 1;
	return (uint64_t)(reader->view.shape[last] -
			  (index[last] - reader->offsets[last]));
}

/* False: beyond anything that a storage could hold. */
static bool element_at(
	const struct reader *reader, const int64_t *index, uint64_t *ret_element)
{
	uint64_t at = reader->view.storage_offset;
	for (size_t i = 0; i < reader->view.dims; i++) {
		uint64_t steps = (uint64_t)(index[i] - reader->offsets[i]), reach;
		if (!fsdp_mul(steps, (uint64_t)reader->view.strides[i], &reach) ||
			!fsdp_add(at, reach, &at))
			return false;
	}
	*ret_element = at;
	return true;
}

static void swap_bytes(unsigned char *bytes, size_t count, size_t width)
{
	for (size_t i = 0; i < count; i++, bytes += width)
		for (size_t a = 0, b = width - 1; a < b; a++, b--) {
			unsigned char byte = bytes[a];
			bytes[a] = bytes[b];
			bytes[b] = byte;
		}
}

bool fsdp_tensor_read_first(struct fsdp_locator *locator, uint32_t tensor, uint64_t count,
	void *buffer, uint64_t *ret_count, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &locator->checkpoint->model;
	struct reader reader = {
		.locator = locator,
		.tensor = fsdp_model_tensor(model, tensor),
		.current = FSDP_NONE,
	};
	const int64_t *shape = fsdp_model_ints(model, reader.tensor->shape);
	const struct fsdp_dtype *dtype = fsdp_dtype(reader.tensor->dtype);
	uint64_t numel = fsdp_model_numel(model, reader.tensor);
	size_t width = dtype->storage_bytes;
	unsigned char *out = buffer;
	if (dtype->item_bits < 8 || reader.tensor->piece_count == 0)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			reader.tensor->piece_count == 0
				? "the tensor has no bytes of its own"
				: "elements of this dtype are not shown");
	if (count > numel)
		count = numel;
	for (uint64_t done = 0; done < count;) {
		int64_t index[FSDP_DIMS_MAX];
		unravel(shape, reader.tensor->dims, done, index);
		if (!turn_to(&reader, index, done, ret_error))
			return false;
		if (reader.is_run)
			index[0] = (int64_t)done;
		uint64_t run = fsdp_min(run_length(&reader, index), count - done);
		uint64_t from, end;
		if (!element_at(&reader, index, &from) || !fsdp_add(from, run, &end) ||
			!fsdp_mul(end, width, &end) || end > reader.view.storage_bytes)
			return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED,
				reader.view.record,
				"the tensor reaches beyond its storage");
		if (!fsdp_zip_read_part(&reader.source, reader.view.record,
			    reader.view.stored_size, reader.view.method, from * width,
			    out, (size_t)run * width, ret_error))
			return false;
		if (reader.extent->big_endian)
			swap_bytes(out, (size_t)run * (dtype->is_complex ? 2 : 1),
				dtype->is_complex ? width / 2 : width);
		out += run * width;
		done += run;
	}
	*ret_count = count;
	return true;
}
