/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands the pieces of a tensor to the assembler, which puts their elements together.
 */
#include <stdlib.h>

#include <fsdp/elements.h>

#include "base/num.h"
#include "checkpoint-private.h"
#include "sweep/assemble.h"
#include "sweep/moments.h"

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
