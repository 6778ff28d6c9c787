/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands the pieces of a tensor to the assembler, which puts their elements together.
 */
#include <stdlib.h>

#include <fsdp/elements.h>

#include "base/num.h"
#include "checkpoint-private.h"
#include "elements/element-statistics.h"
#include "elements/gather.h"

struct fsdp_elements {
	struct fsdp_locator *locator;
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_tensor_record *tensor;
	const int64_t *shape;
	uint64_t numel;
	int64_t none[FSDP_DIMS_MAX]; /* the offsets of what is whole */
	uint32_t *pieces;            /* of the ranks that are wanted; NULL: all */
	struct fsdp_assembly *assembly;
};

static uint32_t piece_id(const struct fsdp_elements *elements, uint32_t index)
{
	return elements->pieces != NULL ? elements->pieces[index]
					: elements->tensor->first_piece + index;
}

static const struct fsdp_piece_record *piece_at(
	const struct fsdp_elements *elements, uint32_t index)
{
	return fsdp_model_piece(&elements->checkpoint->model, piece_id(elements, index));
}

/* ---- what the assembler asks ---- */

static bool has_bytes(
	const struct fsdp_model *model, const struct fsdp_piece_record *piece)
{
	const struct fsdp_extent *extent =
		piece->extent != FSDP_NONE ? fsdp_model_extent(model, piece->extent)
					   : NULL;
	return extent != NULL && !extent->missing;
}

static struct fsdp_part part_of(void *context, uint32_t index)
{
	const struct fsdp_elements *elements = context;
	const struct fsdp_model *model = &elements->checkpoint->model;
	const struct fsdp_piece_record *piece = piece_at(elements, index);
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *run = fsdp_model_run(model, piece);
	size_t dims = elements->tensor->dims;
	if (run != NULL)
		return (struct fsdp_part){
			.start = (uint64_t)run[0],
			.count = (uint64_t)run[1],
			.missing = !has_bytes(model, piece),
		};
	return (struct fsdp_part){
		.offsets = box != NULL ? box : elements->none,
		.sizes = box != NULL ? box + dims : elements->shape,
		.missing = !has_bytes(model, piece),
	};
}

static bool view_of(void *context, uint32_t index, struct fsdp_view *ret_view,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements *elements = context;
	return fsdp_locator_view(
		elements->locator, piece_id(elements, index), ret_view, ret_error);
}

static bool source_of(void *context, uint32_t file, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements *elements = context;
	return fsdp_locator_source(elements->locator, file, ret_source, ret_error);
}

/* ---- which pieces ---- */

static bool is_wanted(const struct fsdp_elements_options *options, uint32_t rank)
{
	if (rank == FSDP_NONE)
		return true;
	for (size_t i = 0; i < options->rank_count; i++)
		if (options->ranks[i] == rank)
			return true;
	return false;
}

static bool choose_pieces(struct fsdp_elements *elements,
	const struct fsdp_elements_options *options, uint32_t *ret_count,
	struct fsdp_error **ret_error)
{
	uint32_t count = elements->tensor->piece_count, kept = 0;
	*ret_count = count;
	if (options->ranks == NULL)
		return true;
	uint32_t *pieces = malloc(((size_t)count + 1) * sizeof *pieces);
	if (pieces == NULL)
		return fsdp_fail_memory(ret_error);
	for (uint32_t i = 0; i < count; i++)
		if (is_wanted(options, piece_at(elements, i)->rank))
			pieces[kept++] = piece_id(elements, i);
	elements->pieces = pieces;
	*ret_count = kept;
	return true;
}

static bool is_sum(const struct fsdp_elements *elements)
{
	const struct fsdp_model *model = &elements->checkpoint->model;
	if (elements->tensor->extra == FSDP_NONE)
		return false;
	const struct fsdp_extra *extra = fsdp_model_extra(model, elements->tensor->extra);
	if (extra->placement == FSDP_NONE)
		return false;
	const struct fsdp_placement_record *placement =
		fsdp_model_placement(model, extra->placement);
	for (uint32_t i = 0; i < placement->count; i++)
		if (fsdp_span_begins(placement->texts[i], FSDP_SPAN("Partial(")))
			return true;
	return false;
}

static bool open_assembly(struct fsdp_elements *elements,
	const struct fsdp_elements_options *options, struct fsdp_error **ret_error)
{
	const struct fsdp_tensor_record *tensor = elements->tensor;
	struct fsdp_assemble_input input = {
		.dtype = tensor->dtype,
		.dims = tensor->dims,
		.shape = elements->shape,
		.numel = elements->numel,
		.resolve = options->resolve,
		.sums = options->sums,
		.first = options->first,
		.count = options->count != 0 ? options->count : UINT64_MAX,
		.inflate_ceiling = fsdp_limit(
			&elements->checkpoint->limits, FSDP_LIMIT_INFLATE_BYTES),
		.context = elements,
		.part = part_of,
		.view = view_of,
		.source = source_of,
	};
	if (is_sum(elements))
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"every rank holds a summand of it (Partial): the sum is stored nowhere");
	return choose_pieces(elements, options, &input.piece_count, ret_error) &&
	       fsdp_assembly_new(&input, &elements->assembly, ret_error);
}

bool fsdp_elements_open(struct fsdp_locator *locator, uint32_t tensor,
	const struct fsdp_elements_options *options, struct fsdp_elements **ret_elements,
	struct fsdp_error **ret_error)
{
	struct fsdp_elements_options whole = { .size = sizeof whole };
	struct fsdp_elements *elements = calloc(1, sizeof *elements);
	if (elements == NULL)
		return fsdp_fail_memory(ret_error);
	if (options != NULL)
		memcpy(&whole, options, fsdp_min(options->size, sizeof whole));
	elements->locator = locator;
	elements->checkpoint = fsdp_locator_checkpoint(locator);
	const struct fsdp_model *model = &elements->checkpoint->model;
	elements->tensor = fsdp_model_tensor(model, tensor);
	elements->shape = fsdp_model_ints(model, elements->tensor->shape);
	elements->numel = fsdp_model_numel(model, elements->tensor);
	if (!open_assembly(elements, &whole, ret_error)) {
		fsdp_elements_close(elements);
		return false;
	}
	*ret_elements = elements;
	return true;
}

bool fsdp_elements_next(struct fsdp_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	if (fsdp_assembly_next(elements->assembly, ret_bytes, ret_error))
		return true;
	uint32_t file = fsdp_locator_file(
		elements->locator, fsdp_assembly_file(elements->assembly));
	if (file != FSDP_NONE) {
		const struct fsdp_file_record *record =
			fsdp_model_file(&elements->checkpoint->model, file);
		fsdp_error_add_path(ret_error, (const char *)record->path.data);
	}
	return false;
}

const struct fsdp_elements_run *fsdp_elements_runs(
	const struct fsdp_elements *elements, size_t *ret_count)
{
	const struct fsdp_stored_runs *runs = fsdp_assembly_runs(elements->assembly);
	*ret_count = runs->count;
	return runs->list;
}

bool fsdp_elements_are_numbers(uint32_t dtype)
{
	return fsdp_moments_takes(dtype);
}

void fsdp_elements_numbers(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to)
{
	fsdp_moments_decode(dtype, bytes, count, to);
}

void fsdp_elements_close(struct fsdp_elements *elements)
{
	if (elements == NULL)
		return;
	fsdp_assembly_free(elements->assembly);
	free(elements->pieces);
	free(elements);
}

/* ---- what views repeat ---- */

/* An ordinary bias that was expanded has some MiB. */
enum { REPEATED_FREE = 128 << 20, REPEATED_PER_BYTE = 64 };

struct fsdp_repeats {
	const struct fsdp_checkpoint *checkpoint;
	uint64_t most;         /* that may be repeated */
	uint64_t read, stored; /* so far */
	uint64_t plain;       /* of `stored` what is not packed: no more than the files */
	unsigned char seen[]; /* a bit for each extent */
};

uint64_t fsdp_checkpoint_repeatable(const struct fsdp_checkpoint *checkpoint)
{
	uint64_t most = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_EXPANDED_BYTES), free;
	if (fsdp_limit_is_chosen(&checkpoint->limits, FSDP_LIMIT_EXPANDED_BYTES) ||
		!fsdp_mul(checkpoint->model.on_disk, REPEATED_PER_BYTE, &free) ||
		!fsdp_add(free, REPEATED_FREE, &free))
		return most;
	return fsdp_min(most, free);
}

bool fsdp_repeats_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_repeats **ret_repeats, struct fsdp_error **ret_error)
{
	struct fsdp_repeats *repeats =
		calloc(1, sizeof *repeats + checkpoint->model.extents.count / 8 + 1);
	if (repeats == NULL)
		return fsdp_fail_memory(ret_error);
	repeats->checkpoint = checkpoint;
	repeats->most = fsdp_checkpoint_repeatable(checkpoint);
	*ret_repeats = repeats;
	return true;
}

void fsdp_repeats_free(struct fsdp_repeats *repeats)
{
	free(repeats);
}

static bool is_packed(const struct fsdp_extent *extent)
{
	return extent->size != FSDP_UNKNOWN && extent->method != 0;
}

static bool is_zstd(const struct fsdp_model *model, const struct fsdp_extent *extent)
{
	return fsdp_model_file(model, extent->file)->is_zstd;
}

bool fsdp_tensor_is_packed(const struct fsdp_checkpoint *checkpoint, uint32_t tensor)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_tensor_record *record = fsdp_model_tensor(model, tensor);
	for (uint32_t i = 0; i < record->piece_count; i++) {
		uint32_t index = fsdp_model_piece(model, record->first_piece + i)->extent;
		const struct fsdp_extent *extent =
			index != FSDP_NONE ? fsdp_model_extent(model, index) : NULL;
		if (extent != NULL && (extent->method != 0 || is_zstd(model, extent)))
			return true;
	}
	return false;
}

/* How long it is after unpacking, of a tensor of so many bytes; of zstd only the ratio that
 * may be is known. */
static uint64_t unpacked_size(const struct fsdp_repeats *repeats,
	const struct fsdp_extent *extent, uint64_t bytes)
{
	uint64_t size;
	if (is_packed(extent))
		return extent->size;
	if (!is_zstd(&repeats->checkpoint->model, extent))
		return extent->length;
	if (!fsdp_mul(extent->length,
		    fsdp_limit(&repeats->checkpoint->limits, FSDP_LIMIT_INFLATE_RATIO),
		    &size))
		return bytes;
	return fsdp_min(size, bytes);
}

/* Counts what is stored of it, once. */
static void see_extent(struct fsdp_repeats *repeats, uint32_t index, uint64_t bytes)
{
	const struct fsdp_model *model = &repeats->checkpoint->model;
	const struct fsdp_extent *extent = fsdp_model_extent(model, index);
	uint64_t size = unpacked_size(repeats, extent, bytes);
	if ((repeats->seen[index / 8] >> index % 8 & 1) != 0)
		return;
	repeats->seen[index / 8] |= (unsigned char)(1u << index % 8);
	if (!is_packed(extent) && !is_zstd(model, extent)) {
		size = fsdp_min(size, model->on_disk - repeats->plain);
		repeats->plain += size;
	}
	if (!fsdp_add(repeats->stored, size, &repeats->stored))
		repeats->stored = UINT64_MAX;
}

/* Bytes of a storage from the first element of a piece to its last one, and of a packed
 * one those before them: what is passed to see these. */
static uint64_t passed(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece)
{
	const struct fsdp_extent *extent = fsdp_model_extent(model, piece->extent);
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *sizes =
		box != NULL ? box + tensor->dims : fsdp_model_ints(model, tensor->shape);
	const int64_t *strides = fsdp_model_ints(model, piece->strides);
	uint64_t size = is_packed(extent) ? extent->size : extent->length;
	uint64_t width = fsdp_dtype(tensor->dtype)->storage_bytes, last = 0, step;
	for (uint32_t i = 0; strides != NULL && !piece->is_run && i < tensor->dims; i++) {
		if (sizes[i] < 1)
			return 0;
		uint64_t stride =
			strides[i] < 0 ? -(uint64_t)strides[i] : (uint64_t)strides[i];
		if (!fsdp_mul(stride, (uint64_t)sizes[i] - 1, &step) ||
			!fsdp_add(last, step, &last))
			return size;
	}
	if (is_packed(extent) && !fsdp_add(last, piece->storage_offset, &last))
		return size;
	return fsdp_mul(last, width, &last) ? fsdp_min(last, size) : size;
}

bool fsdp_repeats_take(struct fsdp_repeats *repeats, uint32_t tensor, uint64_t bytes,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &repeats->checkpoint->model;
	const struct fsdp_tensor_record *record = fsdp_model_tensor(model, tensor);
	uint64_t span = 0, read, most;
	bool some = false;
	for (uint32_t i = 0; i < record->piece_count; i++) {
		const struct fsdp_piece_record *piece =
			fsdp_model_piece(model, record->first_piece + i);
		if (piece->extent == FSDP_NONE)
			continue;
		see_extent(repeats, piece->extent, bytes);
		if (!fsdp_add(span, passed(model, record, piece), &span))
			span = UINT64_MAX;
		some = true;
	}
	/* Nothing is read of it. */
	if (!some)
		return true;
	if (!fsdp_add(repeats->stored, repeats->most, &most))
		most = UINT64_MAX;
	if (!fsdp_add(repeats->read, bytes > span ? bytes : span, &read) || read > most)
		return fsdp_fail_limit(
			ret_error, FSDP_LIMIT_EXPANDED_BYTES, repeats->most);
	repeats->read = read;
	return true;
}
