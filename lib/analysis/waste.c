/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the used part of each storage: views of one storage are adjacent in a sorted list, and their ranges are
 * merged.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "analysis/tally.h"
#include "base/error.h"

/* What one piece sees of its storage, in bytes. */
struct view {
	struct fsdp_span storage;
	uint64_t item; /* where the container's item begins: a storage key is unique in it
			*/
	uint64_t begin, end, storage_bytes;
	uint32_t file, tensor;
};

struct fsdp_waste {
	const struct fsdp_checkpoint *checkpoint;
	struct view *
		views; /* room for all pieces; of those asked for, when they are placed */
	size_t view_count;
	uint32_t *asked; /* pieces that have to be located */
	size_t asked_count;
	struct fsdp_waste_row *rows;
	size_t row_count;
};

/* From the first element to the end of the last one. */
static uint64_t extent(
	const struct fsdp_tensor *tensor, const struct fsdp_piece *piece, uint64_t numel)
{
	const int64_t *sizes = piece->sizes != NULL ? piece->sizes : tensor->shape;
	uint32_t dims = piece->sizes != NULL ? piece->dims : tensor->dims;
	uint64_t elements = 1;

	if (numel == 0 || piece->strides == NULL || piece->is_run)
		return numel;
	for (uint32_t i = 0; i < dims; i++) {
		uint64_t last = (uint64_t)(sizes[i] - 1);
		if (!fsdp_mul(last, (uint64_t)piece->strides[i], &last))
			return FSDP_UNKNOWN;
		fsdp_tally(&elements, last);
	}
	return elements;
}

/* What reaches beyond the storage is cut off. */
static void set_range(
	struct view *view, uint64_t item, uint64_t first_element, uint64_t elements)
{
	uint64_t size;

	if (!fsdp_mul(first_element, item, &view->begin))
		view->begin = FSDP_UNKNOWN;
	if (!fsdp_mul(elements, item, &size))
		size = FSDP_UNKNOWN;
	view->end = view->begin;
	fsdp_tally(&view->end, size);
	view->end = fsdp_min(view->end, view->storage_bytes);
	view->begin = fsdp_min(view->begin, view->end);
}

static uint64_t item_bytes(const struct fsdp_tensor *tensor)
{
	return fsdp_dtype(tensor->dtype)->storage_bytes;
}

static void add_view(struct fsdp_waste *waste, uint32_t index)
{
	struct fsdp_piece piece = fsdp_piece(waste->checkpoint, index);
	uint32_t rank;

	if (piece.file == FSDP_NONE)
		return;
	if (piece.storage_bytes == FSDP_UNKNOWN || piece.storage_offset == FSDP_UNKNOWN) {
		waste->asked[waste->asked_count++] = index;
		return;
	}
	struct fsdp_tensor tensor = fsdp_tensor(waste->checkpoint, piece.tensor);
	struct view *view = &waste->views[waste->view_count++];
	*view = (struct view){
		.storage = piece.storage,
		.file = piece.file,
		.tensor = piece.tensor,
		.storage_bytes = piece.storage_bytes,
	};
	set_range(view, item_bytes(&tensor), piece.storage_offset,
		extent(&tensor, &piece,
			fsdp_piece_numel(waste->checkpoint, index, &rank)));
}

bool fsdp_waste_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_waste **ret_waste, struct fsdp_error **ret_error)
{
	size_t pieces = fsdp_piece_count(checkpoint), room = pieces + 1;
	struct fsdp_waste *waste = calloc(1, sizeof *waste);

	if (waste == NULL)
		return fsdp_fail_memory(ret_error);
	waste->checkpoint = checkpoint;
	waste->views = reallocarray(NULL, room, sizeof *waste->views);
	waste->asked = reallocarray(NULL, room, sizeof *waste->asked);
	if (waste->views == NULL || waste->asked == NULL) {
		fsdp_waste_free(waste);
		return fsdp_fail_memory(ret_error);
	}
	for (uint32_t i = 0; i < pieces; i++)
		add_view(waste, i);
	*ret_waste = waste;
	return true;
}

void fsdp_waste_free(struct fsdp_waste *waste)
{
	if (waste == NULL)
		return;
	free(waste->views);
	free(waste->asked);
	free(waste->rows);
	free(waste);
}

const uint32_t *fsdp_waste_asks(const struct fsdp_waste *waste, size_t *ret_count)
{
	*ret_count = waste->asked_count;
	return waste->asked;
}

void fsdp_waste_place(
	struct fsdp_waste *waste, size_t position, const struct fsdp_place *place)
{
	if (position >= waste->asked_count ||
		waste->view_count >= fsdp_piece_count(waste->checkpoint))
		return;
	struct fsdp_piece piece = fsdp_piece(waste->checkpoint, waste->asked[position]);
	struct fsdp_tensor tensor = fsdp_tensor(waste->checkpoint, piece.tensor);
	uint64_t item = item_bytes(&tensor);
	struct view *view = &waste->views[waste->view_count++];
	*view = (struct view){
		.storage = place->storage,
		.item = piece.item_offset,
		.file = piece.file,
		.tensor = piece.tensor,
		.storage_bytes = place->storage_bytes,
	};
	set_range(
		view, item, place->storage_offset, place->length / (item > 0 ? item : 1));
}

static int by_storage(const struct view *left, const struct view *right)
{
	size_t size = left->storage.size < right->storage.size ? left->storage.size
							       : right->storage.size;
	int order;

	if (left->file != right->file)
		return left->file < right->file ? -1 : 1;
	if (left->item != right->item)
		return left->item < right->item ? -1 : 1;
	order = size > 0 ? memcmp(left->storage.data, right->storage.data, size) : 0;
	if (order != 0)
		return order;
	return (left->storage.size > right->storage.size) -
	       (left->storage.size < right->storage.size);
}

static int by_storage_and_begin(const void *a, const void *b)
{
	const struct view *left = a, *right = b;
	int order = by_storage(left, right);

	if (order != 0)
		return order;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	return (left->tensor > right->tensor) - (left->tensor < right->tensor);
}

/* The views of the storage that begins at `first`, their ranges joined. */
static struct fsdp_waste_row storage_at(const struct fsdp_waste *waste, size_t first)
{
	const struct view *view = &waste->views[first];
	struct fsdp_waste_row row = {
		.storage = view->storage,
		.file = view->file,
		.stored_bytes = view->storage_bytes,
		.first_view = first,
	};
	uint64_t reached = 0;

	for (; first + row.view_count < waste->view_count &&
		by_storage(view, view + row.view_count) == 0;
		row.view_count++) {
		const struct view *next = view + row.view_count;
		uint64_t begin = next->begin > reached ? next->begin : reached;
		if (next->end > begin) {
			row.used_bytes += next->end - begin;
			reached = next->end;
		}
	}
	return row;
}

static int by_loss(const void *a, const void *b)
{
	const struct fsdp_waste_row *left = a, *right = b;
	uint64_t left_lost = left->stored_bytes - left->used_bytes;
	uint64_t right_lost = right->stored_bytes - right->used_bytes;

	if (left_lost != right_lost)
		return left_lost > right_lost ? -1 : 1;
	return (left->first_view > right->first_view) -
	       (left->first_view < right->first_view);
}

/* Storages without any view, or only their number. */
static size_t find_unviewed(const struct fsdp_waste *waste, struct fsdp_waste_row *rows)
{
	struct fsdp_unviewed unviewed;
	size_t count = 0, position = 0;

	for (; fsdp_next_unviewed(waste->checkpoint, &position, &unviewed); count++)
		if (rows != NULL)
			rows[count] = (struct fsdp_waste_row){
				.storage = unviewed.storage,
				.file = unviewed.file,
				.stored_bytes = unviewed.bytes,
				.first_view = waste->view_count + count,
			};
	return count;
}

/* The rows, or only their number. */
static size_t find_rows(const struct fsdp_waste *waste, struct fsdp_waste_row *rows)
{
	size_t count = find_unviewed(waste, rows);

	for (size_t i = 0; i < waste->view_count;) {
		struct fsdp_waste_row row = storage_at(waste, i);
		i += row.view_count;
		if (row.stored_bytes == FSDP_UNKNOWN ||
			row.stored_bytes <= row.used_bytes)
			continue;
		if (rows != NULL)
			rows[count] = row;
		count++;
	}
	return count;
}

bool fsdp_waste_finish(struct fsdp_waste *waste, struct fsdp_error **ret_error)
{
	size_t count;

	if (waste->view_count > 0)
		qsort(waste->views, waste->view_count, sizeof *waste->views,
			by_storage_and_begin);
	count = find_rows(waste, NULL);
	waste->rows = reallocarray(NULL, count + 1, sizeof *waste->rows);
	if (waste->rows == NULL)
		return fsdp_fail_memory(ret_error);
	waste->row_count = find_rows(waste, waste->rows);
	qsort(waste->rows, count, sizeof *waste->rows, by_loss);
	return true;
}

size_t fsdp_waste_count(const struct fsdp_waste *waste)
{
	return waste->row_count;
}

struct fsdp_waste_row fsdp_waste_row(const struct fsdp_waste *waste, size_t index)
{
	if (index >= waste->row_count)
		return (struct fsdp_waste_row){ .file = FSDP_NONE };
	return waste->rows[index];
}

uint32_t fsdp_waste_tensor(
	const struct fsdp_waste *waste, const struct fsdp_waste_row *row, size_t n)
{
	if (n >= row->view_count)
		return FSDP_NONE;
	return waste->views[row->first_view + n].tensor;
}
