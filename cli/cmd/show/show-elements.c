/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the elements that were asked for.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "run/answer.h"
#include "cmd/show/show.h"
#include "part/places.h"

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

static bool copy_elements(struct show *show, struct item *item, uint64_t wanted,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.count = wanted,
	};
	const struct fsdp_dtype *dtype = fsdp_dtype(item->tensor.dtype);
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	size_t size = 0;
	bool good = true;

	if (wanted > 0)
		good = fsdp_elements_open(
			show->run->locator, item->index, &options, &elements, ret_error);
	while (good && elements != NULL && bytes.size > 0) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (good && bytes.size > 0)
			memcpy(item->elements + size, bytes.data, bytes.size);
		size += bytes.size;
	}
	fsdp_elements_close(elements);
	if (good && dtype->item_bits < 8)
		unpack_elements(item->elements, wanted, dtype->item_bits);
	item->element_count = wanted;
	return good;
}

static bool read_elements(
	struct show *show, struct item *item, struct fsdp_error **ret_error)
{
	const struct fsdp_tensor *tensor = &item->tensor;
	uint64_t wanted = (uint64_t)show->options->values;
	struct fsdp_error *error = NULL;

	if (!stores_elements(tensor))
		return true;
	if (show->run->locator == NULL &&
		!fsdp_locator_new(show->run->checkpoint, &show->run->locator, ret_error))
		return false;
	if (wanted > tensor->numel)
		wanted = tensor->numel;
	item->elements = malloc(wanted * fsdp_dtype(tensor->dtype)->storage_bytes + 1);
	if (item->elements == NULL)
		return false;
	if (copy_elements(show, item, wanted, &error))
		return true;
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

	for (size_t i = 0; i < show->asked_count && show->options->values > 0 && good;
		i++)
		if (!show->items[i].is_value)
			good = read_elements(show, &show->items[i], ret_error);
	return good;
}
