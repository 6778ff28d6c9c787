/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads how many steps an optimizer did: the one element of a tensor that a family named
 * as the counter. Adds that as a value, or nothing where it cannot be read: the tensor
 * itself is listed in any case.
 */
#include "checkpoint-private.h"
#include "counter.h"
#include "model/build.h"

enum { NUMBER_BYTES = 8 };

/* Counted are whole numbers, whatever they are stored as. */
static bool decode(const char *dtype, uint64_t bits, int64_t *ret_count)
{
	double number = 0;
	float single;
	uint32_t low = (uint32_t)bits;
	if (strcmp(dtype, "int64") == 0) {
		*ret_count = (int64_t)bits;
		return *ret_count >= 0;
	}
	if (strcmp(dtype, "int32") == 0) {
		*ret_count = (int32_t)low;
		return *ret_count >= 0;
	}
	if (strcmp(dtype, "float64") == 0) {
		memcpy(&number, &bits, sizeof number);
	} else if (strcmp(dtype, "float32") == 0) {
		memcpy(&single, &low, sizeof single);
		number = (double)single;
	} else {
		return false;
	}
	if (!(number >= 0 && number < (double)(INT64_C(1) << 53)))
		return false;
	*ret_count = (int64_t)number;
	return (double)*ret_count >= number;
}

static bool read_count(struct fsdp_locator *locator, uint32_t piece, int64_t *ret_count,
	struct fsdp_error **ret_error)
{
	struct fsdp_view view;
	struct fsdp_source source;
	unsigned char bytes[NUMBER_BYTES];
	uint64_t begin, end, bits = 0;
	if (!fsdp_locator_view(locator, piece, &view, ret_error) || view.method != 0 ||
		!fsdp_view_bytes(&view, &begin, &end) || end - begin > sizeof bytes ||
		!fsdp_locator_source(locator, view.file, &source, ret_error) ||
		!fsdp_source_read(&source, view.record + begin, bytes,
			(size_t)(end - begin), ret_error))
		return false;
	for (size_t i = 0; i < end - begin; i++)
		bits |= (uint64_t)bytes[view.big_endian ? end - begin - 1 - i : i]
			<< 8 * i;
	return decode(fsdp_dtype(view.dtype)->name, bits, ret_count);
}

bool fsdp_counter_read(struct fsdp_checkpoint *checkpoint, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = &checkpoint->model;
	struct fsdp_locator *locator;
	struct fsdp_error *error = NULL;
	int64_t count = 0;
	if (model->counter == FSDP_NONE)
		return true;
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(model, model->counter);
	if (tensor->piece_count == 0)
		return true;
	const struct fsdp_piece_record *piece =
		fsdp_model_piece(model, tensor->first_piece);
	if (piece->extent == FSDP_NONE)
		return true;
	const struct fsdp_extent *extent = fsdp_model_extent(model, piece->extent);
	if (!fsdp_locator_new(checkpoint, &locator, ret_error))
		return false;
	bool read = read_count(locator, tensor->first_piece, &count, &error);
	bool fatal =
		!read && error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_locator_free(locator);
	if (fatal) {
		*ret_error = error;
		return false;
	}
	fsdp_error_free(error);
	return !read || fsdp_build_integer(model, FSDP_SPAN("steps"), extent->file, count,
				ret_error);
}
