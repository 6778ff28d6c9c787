/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up a list of tensors as they are listed and as they are stored: names may be tied,
 * and views may see the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "analysis/addend.h"
#include "base/error.h"

/* The bytes of a storage that a tensor sees: all from its first to its last element. */
struct seen {
	uint32_t storage; /* the tensor that stands for it */
	uint64_t start, end;
	uint64_t bytes; /* of the elements */
};

struct adding {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_total *total;
	bool some_plain;    /* not all of the list are such FlatParameters */
	bool *named;        /* by tensor: some name of it was counted */
	uint32_t *storages; /* by tensor: which stands for its storage, or FSDP_NONE */
	struct seen *views;
	size_t view_count;
};

/* Elements from the first to the end of the last. */
static uint64_t extent(const struct fsdp_tensor *tensor, const struct fsdp_piece *piece)
{
	uint64_t last = 0;

	if (piece->strides == NULL)
		return tensor->numel;
	for (uint32_t i = 0; i < piece->dims && i < tensor->dims; i++) {
		int64_t stride = piece->strides[i];
		uint64_t step;
		if (tensor->shape[i] <= 1)
			continue;
		if (stride < 0 || !fsdp_mul((uint64_t)tensor->shape[i] - 1,
					  (uint64_t)stride, &step))
			return FSDP_UNKNOWN;
		fsdp_tally(&last, step);
	}
	fsdp_tally(&last, 1);
	return last;
}

/* False: its position is unknown. */
static bool find_view(
	struct adding *adding, const struct fsdp_tensor *tensor, struct seen *ret_view)
{
	uint64_t item = fsdp_dtype(tensor->dtype)->storage_bytes, length, start;
	struct fsdp_piece piece;

	if (tensor->piece_count != 1)
		return false;
	piece = fsdp_piece(adding->checkpoint, tensor->first_piece);
	length = extent(tensor, &piece);
	if (piece.storage_offset == FSDP_UNKNOWN || length == FSDP_UNKNOWN ||
		!fsdp_mul(piece.storage_offset, item, &start) ||
		!fsdp_mul(length, item, &length))
		return false;
	ret_view->start = start;
	ret_view->bytes = tensor->bytes;
	return fsdp_add(start, length, &ret_view->end);
}

/* Goes around the ring of a storage once for all that are on it. */
static uint32_t storage_of(struct adding *adding, uint32_t index)
{
	uint32_t at = index;

	if (adding->storages[index] != FSDP_NONE)
		return adding->storages[index];
	do {
		adding->storages[at] = index;
		at = fsdp_tensor_storage_next(adding->checkpoint, at);
	} while (at != index && adding->storages[at] == FSDP_NONE);
	return index;
}

static void add_tensor(struct adding *adding, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(adding->checkpoint, index);
	bool alone = fsdp_tensor_storage_next(adding->checkpoint, index) == index;
	uint32_t name = tensor.alias != FSDP_NONE ? tensor.alias : index;
	bool spread = (tensor.flags & FSDP_TENSOR_SPREAD) != 0 && adding->some_plain;
	bool again = adding->named[name];
	struct fsdp_total *total = adding->total;
	struct seen view = { 0 };

	fsdp_tally(&total->numel, tensor.numel);
	fsdp_tally(&total->bytes, tensor.bytes);
	total->shared += (again && !alone) || spread;
	total->ranks_own += (tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0;
	if ((tensor.flags & FSDP_TENSOR_NO_DATA) == 0 && !spread && (alone || !again)) {
		if (alone || !find_view(adding, &tensor, &view)) {
			fsdp_tally(&total->stored_bytes, tensor.bytes);
		} else {
			view.storage = storage_of(adding, index);
			adding->views[adding->view_count++] = view;
		}
	}
	if (fsdp_tensor_is_parameter(&tensor) && !spread && !again)
		fsdp_tally(&total->parameters, tensor.numel);
	adding->named[name] = true;
}

static int by_place(const void *a, const void *b)
{
	const struct seen *left = a, *right = b;

	if (left->storage != right->storage)
		return left->storage < right->storage ? -1 : 1;
	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->end < right->end ? -1 : left->end > right->end;
}

/* What views of one storage see together: never more than each by itself. */
static size_t add_storage(struct adding *adding, size_t first)
{
	const struct seen *views = adding->views;
	uint64_t seen = 0, bytes = 0, end = 0;
	size_t i = first;

	for (; i < adding->view_count && views[i].storage == views[first].storage; i++) {
		uint64_t begin = views[i].start > end ? views[i].start : end;
		adding->total->shared += i > first && views[i].start < end;
		if (views[i].end > begin)
			fsdp_tally(&seen, views[i].end - begin);
		if (views[i].end > end)
			end = views[i].end;
		fsdp_tally(&bytes, views[i].bytes);
	}
	fsdp_tally(&adding->total->stored_bytes, fsdp_min(seen, bytes));
	return i;
}

static void add_all(struct adding *adding, const uint32_t *tensors, size_t count)
{
	for (size_t i = 0; i < count && !adding->some_plain; i++)
		adding->some_plain = (fsdp_tensor(adding->checkpoint, tensors[i]).flags &
					     FSDP_TENSOR_SPREAD) == 0;
	for (size_t i = 0; i < count; i++)
		add_tensor(adding, tensors[i]);
	qsort(adding->views, adding->view_count, sizeof *adding->views, by_place);
	for (size_t i = 0; i < adding->view_count;)
		i = add_storage(adding, i);
}

bool fsdp_total_of(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, struct fsdp_total *ret_total, struct fsdp_error **ret_error)
{
	size_t all = fsdp_tensor_count(checkpoint);
	struct adding adding = { .checkpoint = checkpoint, .total = ret_total };
	bool good;

	*ret_total = (struct fsdp_total){ 0 };
	adding.named = calloc(all + 1, sizeof *adding.named);
	adding.storages = malloc((all + 1) * sizeof *adding.storages);
	adding.views = malloc((count + 1) * sizeof *adding.views);
	good = adding.named != NULL && adding.storages != NULL && adding.views != NULL;
	if (good) {
		memset(adding.storages, 0xff, (all + 1) * sizeof *adding.storages);
		add_all(&adding, tensors, count);
	}
	free(adding.named);
	free(adding.storages);
	free(adding.views);
	return good || fsdp_fail_memory(ret_error);
}
