/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how much of each storage is seen through tensors: pieces of one storage lie side
 * by side in a sorted list, and their ranges are joined. Reads containers only where the
 * model does not know the storage yet (DCP items).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/places.h"
#include "part/tensor-row.h"
#include "cmd/info/waste.h"

enum { NAMES_MAX = 1000 }; /* told of one storage */

/* What one piece sees of its storage, in bytes. */
struct view {
	struct fsdp_span storage;
	uint64_t item; /* where the container's item begins: a storage key is unique in it
			*/
	uint64_t begin, end, storage_bytes;
	uint32_t file, tensor;
};

struct waste {
	struct view *views;
	size_t count;
	uint32_t *rows; /* first views of storages with waste */
	size_t row_count;
	struct row_buffers buffers;
	struct text *names;
	const struct fsdp_checkpoint *checkpoint;
};

/* From the first element to behind the last one. */
static uint64_t extent(const struct fsdp_tensor *tensor, const struct fsdp_piece *piece)
{
	const int64_t *sizes = piece->sizes != NULL ? piece->sizes : tensor->shape;
	uint32_t dims = piece->sizes != NULL ? piece->dims : tensor->dims;
	uint64_t elements = 1;

	if (piece_numel(tensor, piece) == 0)
		return 0;
	if (piece->strides == NULL || piece->is_run)
		return piece_numel(tensor, piece);
	for (uint32_t i = 0; i < dims; i++)
		elements += (uint64_t)(sizes[i] - 1) * (uint64_t)piece->strides[i];
	return elements;
}

static void set_range(struct view *view, const struct fsdp_tensor *tensor,
	uint64_t first_element, uint64_t elements)
{
	uint64_t item = fsdp_dtype(tensor->dtype)->storage_bytes;

	view->begin = first_element * item;
	view->end = view->begin + elements * item;
	if (view->end > view->storage_bytes)
		view->end = view->storage_bytes;
	if (view->begin > view->end)
		view->begin = view->end;
}

static bool keep_place(void *context, size_t position, const struct fsdp_place *place)
{
	struct waste *waste = context;
	struct view *view = &waste->views[position];
	struct fsdp_tensor tensor = fsdp_tensor(waste->checkpoint, view->tensor);

	view->storage = place->storage;
	view->storage_bytes = place->storage_bytes;
	set_range(view, &tensor, place->storage_offset,
		place->length / (fsdp_dtype(tensor.dtype)->storage_bytes > 0
						? fsdp_dtype(tensor.dtype)->storage_bytes
						: 1));
	return true;
}

/* One view a piece; *ret_asked holds those pieces that have to be located. */
static void collect(struct waste *waste, uint32_t *asked)
{
	size_t pieces = fsdp_piece_count(waste->checkpoint);

	for (uint32_t i = 0; i < pieces; i++) {
		struct fsdp_piece piece = fsdp_piece(waste->checkpoint, i);
		struct view *view = &waste->views[waste->count];
		struct fsdp_tensor tensor = fsdp_tensor(waste->checkpoint, piece.tensor);
		bool known = piece.storage_bytes != FSDP_UNKNOWN &&
			     piece.storage_offset != FSDP_UNKNOWN;
		if (piece.file == FSDP_NONE)
			continue;
		*view = (struct view){ .storage = piece.storage,
			.file = piece.file,
			.tensor = piece.tensor,
			.storage_bytes = FSDP_UNKNOWN };
		view->item = known ? 0 : piece.item_offset;
		if (known) {
			view->storage_bytes = piece.storage_bytes;
			set_range(view, &tensor, piece.storage_offset,
				extent(&tensor, &piece));
		}
		asked[waste->count++] = known ? FSDP_NONE : i;
	}
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

/* The views of the storage that begins at `first`; their union is left in *ret_used. */
static size_t storage_views(const struct waste *waste, size_t first, uint64_t *ret_used)
{
	uint64_t used = 0, reached = 0;
	size_t next = first;

	for (; next < waste->count &&
		by_storage(&waste->views[first], &waste->views[next]) == 0;
		next++) {
		const struct view *view = &waste->views[next];
		uint64_t begin = view->begin > reached ? view->begin : reached;
		if (view->end > begin) {
			used += view->end - begin;
			reached = view->end;
		}
	}
	*ret_used = used;
	return next - first;
}

static uint64_t lost(const struct waste *waste, size_t first)
{
	uint64_t used;

	storage_views(waste, first, &used);
	return waste->views[first].storage_bytes - used;
}

static int by_loss(const void *a, const void *b, void *context)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	uint64_t left_lost = lost(context, left), right_lost = lost(context, right);

	if (left_lost != right_lost)
		return left_lost > right_lost ? -1 : 1;
	return (left > right) - (left < right);
}

static void find_rows(struct waste *waste)
{
	for (size_t i = 0; i < waste->count;) {
		uint64_t used;
		size_t views = storage_views(waste, i, &used);
		if (waste->views[i].storage_bytes != FSDP_UNKNOWN &&
			waste->views[i].storage_bytes > used)
			waste->rows[waste->row_count++] = (uint32_t)i;
		i += views;
	}
	qsort_r(waste->rows, waste->row_count, sizeof *waste->rows, by_loss, waste);
}

bool waste_new(struct run *run, struct waste **ret_waste, bool *ret_partial,
	struct fsdp_error **ret_error)
{
	size_t pieces = fsdp_piece_count(run->checkpoint);
	struct waste *waste = calloc(1, sizeof *waste);
	uint32_t *asked = malloc((pieces + 1) * sizeof *asked);
	bool good = false;

	if (waste != NULL) {
		waste->checkpoint = run->checkpoint;
		waste->views = malloc((pieces + 1) * sizeof *waste->views);
		waste->rows = malloc((pieces + 1) * sizeof *waste->rows);
		waste->names = calloc(NAMES_MAX, sizeof *waste->names);
	}
	if (waste != NULL && asked != NULL && waste->views != NULL &&
		waste->rows != NULL && waste->names != NULL) {
		collect(waste, asked);
		good = places_find(run, asked, waste->count, keep_place, waste,
			ret_partial, ret_error);
	}
	free(asked);
	if (!good) {
		waste_free(waste);
		return false;
	}
	qsort(waste->views, waste->count, sizeof *waste->views, by_storage_and_begin);
	find_rows(waste);
	*ret_waste = waste;
	return true;
}

void waste_free(struct waste *waste)
{
	if (waste == NULL)
		return;
	row_buffers_done(&waste->buffers);
	free(waste->names);
	free(waste->views);
	free(waste->rows);
	free(waste);
}

/* Names of the views of one storage, one behind the other in the buffer. */
static size_t list_names(struct waste *waste, struct run *run, size_t first, size_t views,
	struct text *names)
{
	struct name_buffer *all = &waste->buffers.text;
	size_t count = views < NAMES_MAX ? views : NAMES_MAX, length = 0;

	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(run->checkpoint, waste->views[first + i].tensor);
		struct text name = tensor_shown_name(run, &waste->buffers.name, &tensor);
		name_buffer_append(all, &length, name);
		names[i].size = name.size;
	}
	length = 0;
	/* Only now: the buffer moves while it grows. */
	for (size_t i = 0; i < count && !all->failed; i++) {
		names[i].data = all->data + length;
		length += names[i].size;
	}
	return all->failed ? 0 : count;
}

static void show_row(struct waste *waste, struct run *run, size_t first)
{
	const struct view *view = &waste->views[first];
	uint64_t used;
	size_t views = storage_views(waste, first, &used);
	size_t count = list_names(waste, run, first, views, waste->names);
	struct value values[] = {
		value_text(text_of_span(view->storage)),
		value_name(text_of_span(fsdp_file(run->checkpoint, view->file).path)),
		value_bytes(view->storage_bytes),
		value_bytes(used),
		value_texts(waste->names, count),
	};

	out_row(run->out, values);
}

void waste_show(struct waste *waste, struct run *run)
{
	static const struct column COLUMNS[] = {
		{ "storage" },
		{ "file" },
		{ "stored_bytes", .right = true },
		{ "used_bytes", .right = true },
		{ "names" },
	};
	struct table table = { .key = "waste",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof COLUMNS[0],
		.indent = 2 };

	out_table_begin(run->out, &table);
	for (size_t i = 0; i < waste->row_count; i++)
		show_row(waste, run, waste->rows[i]);
	out_table_end(run->out);
}
