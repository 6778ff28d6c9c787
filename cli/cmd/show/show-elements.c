/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the elements that were asked for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "run/answer.h"
#include "part/element-text.h"
#include "cmd/show/show.h"
#include "part/places.h"

enum { VALUES_MAX = 1 << 20 }; /* elements that are read of a tensor */

static bool stores_elements(const struct fsdp_tensor *tensor)
{
	/* Sparse and meta tensors have no elements of their own in any file. */
	return fsdp_dtype(tensor->dtype)->storage_bytes > 0 && tensor->layout == NULL &&
	       (tensor->flags & FSDP_TENSOR_NO_DATA) == 0;
}

/* The rest of the answer stands. */
static void tell_unread(struct show *show, const struct fsdp_tensor *tensor,
	const struct fsdp_error *error)
{
	struct text name = tensor_shown_name(show->run, &show->buffers.name, tensor);
	char *message = place_error_text(show->run, error);

	run_failure(show->run, fsdp_error_code_name(fsdp_error_code(error)),
		fsdp_error_hint(error), "%s (elements of %.*s)",
		message != NULL ? message : fsdp_error_message(error), (int)name.size,
		name.data);
	free(message);
}

/* Several elements a byte become one each, the first from the lowest bits: from the end
 * on, for they lie where they come from. */
static void unpack_elements(unsigned char *elements, uint64_t count, unsigned bits)
{
	unsigned mask = (1u << bits) - 1;

	for (uint64_t i = count; i-- > 0;) {
		uint64_t bit = i * bits;
		elements[i] = (unsigned char)(elements[bit / 8] >> bit % 8 & mask);
	}
}

/* One range, behind what was read before. */
static bool copy_range(struct show *show, struct item *item,
	const struct element_range *range, struct fsdp_error **ret_error)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(item->tensor.dtype);
	uint64_t in_byte = dtype->item_bits < 8 ? 8 / dtype->item_bits : 1;
	uint64_t skipped = range->start % in_byte, count = range->end - range->start + 1;
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.first = range->start - skipped,
		.count = count + skipped,
	};
	unsigned char *to = item->elements + item->element_count * dtype->storage_bytes;
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	bool good = fsdp_elements_open(
		show->run->locator, item->index, &options, &elements, ret_error);
	size_t size = 0;

	while (good && bytes.size > 0) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (good && bytes.size > 0)
			memcpy(to + size, bytes.data, bytes.size);
		size += bytes.size;
	}
	fsdp_elements_close(elements);
	if (good && dtype->item_bits < 8) {
		unpack_elements(to, count + skipped, dtype->item_bits);
		memmove(to, to + skipped, count);
	}
	item->element_count += count;
	return good;
}

static bool copy_elements(
	struct show *show, struct item *item, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < item->range_count; i++)
		if (!copy_range(show, item, &item->ranges[i], ret_error))
			return false;
	return true;
}

/* Its number, which may be infinite or none. False: it is of a kind without order. */
static bool number_of(const struct item *item, size_t i, double *ret_number)
{
	size_t size = fsdp_dtype(item->tensor.dtype)->storage_bytes;
	char buffer[ELEMENT_ROOM], *end;
	struct text text =
		element_text(item->tensor.dtype, item->elements + i * size, buffer);
	char number[ELEMENT_ROOM + 1];

	memcpy(number, text.data, text.size);
	number[text.size] = '\0';
	*ret_number = strtod(number, &end);
	/* What has no number of its own is written in hexadecimal. */
	return end != number && *end == '\0' && strchr(number, 'x') == NULL;
}

static void add_up(struct item *item)
{
	struct element_stats stats = { .min = (double)INFINITY,
		.max = -(double)INFINITY };
	double number, sum = 0;

	for (; stats.count < item->element_count; stats.count++) {
		if (!number_of(item, stats.count, &number))
			return;
		if (isnan(number)) {
			stats.nans++;
		} else if (isinf(number)) {
			stats.infinities++;
		} else {
			stats.min = number < stats.min ? number : stats.min;
			stats.max = number > stats.max ? number : stats.max;
			sum += number;
		}
	}
	stats.mean = sum / (double)(stats.count - stats.nans - stats.infinities);
	item->stats = stats;
	item->has_stats = stats.count > 0;
}

static bool read_elements(
	struct show *show, struct item *item, struct fsdp_error **ret_error)
{
	const struct fsdp_tensor *tensor = &item->tensor;
	struct fsdp_error *error = NULL;
	uint64_t wanted = 0;
	bool cut;

	if (!stores_elements(tensor))
		return true;
	if (show->run->locator == NULL &&
		!fsdp_locator_new(show->run->checkpoint, &show->run->locator, ret_error))
		return false;
	item->range_count = slices_resolve(
		&show->slices, tensor->numel, VALUES_MAX, item->ranges, &cut);
	if (cut)
		run_note(show->run,
			"only the first %d elements that were asked for are read",
			VALUES_MAX);
	for (size_t i = 0; i < item->range_count; i++)
		wanted += item->ranges[i].end - item->ranges[i].start + 1;
	/* Those before the first in its byte come with it. */
	item->elements =
		malloc((wanted + 8) * fsdp_dtype(tensor->dtype)->storage_bytes + 1);
	if (item->elements == NULL)
		return false;
	if (copy_elements(show, item, &error)) {
		add_up(item);
		return true;
	}
	free(item->elements);
	item->elements = NULL;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		*ret_error = error;
		return false;
	}
	tell_unread(show, tensor, error);
	fsdp_error_free(error);
	return true;
}

bool show_read_elements(struct show *show, struct fsdp_error **ret_error)
{
	bool good = true;

	for (size_t i = 0; i < show->asked_count && show->slices.count > 0 && good; i++)
		if (!show->items[i].is_value)
			good = read_elements(show, &show->items[i], ret_error);
	return good;
}
