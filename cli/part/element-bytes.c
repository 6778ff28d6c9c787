/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a few elements of a tensor.
 */
#include <string.h>

#include <fsdp/elements.h>

#include "part/element-bytes.h"

bool elements_are_stored(const struct fsdp_tensor *tensor)
{
	return fsdp_dtype(tensor->dtype)->storage_bytes > 0 && tensor->layout == NULL &&
	       (tensor->flags & FSDP_TENSOR_NO_DATA) == 0;
}

/* Those before the first in its byte come with it. */
size_t elements_room(const struct fsdp_tensor *tensor, uint64_t count)
{
	return (size_t)(count + 8) * fsdp_dtype(tensor->dtype)->storage_bytes + 1;
}

/* Several elements a byte become one each, the first from the lowest bits: from the end
 * on, for they lie where they come from. */
static void unpack(unsigned char *elements, uint64_t count, unsigned bits)
{
	unsigned mask = (1u << bits) - 1;

	for (uint64_t i = count; i-- > 0;) {
		uint64_t bit = i * bits;
		elements[i] = (unsigned char)(elements[bit / 8] >> bit % 8 & mask);
	}
}

bool elements_copy(struct fsdp_locator *locator, uint32_t index,
	const struct fsdp_tensor *tensor, uint64_t first, uint64_t count,
	unsigned char *to, struct fsdp_error **ret_error)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor->dtype);
	uint64_t in_byte = dtype->item_bits < 8 ? 8 / dtype->item_bits : 1;
	uint64_t skipped = first % in_byte;
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.first = first - skipped,
		.count = count + skipped,
	};
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	bool good = fsdp_elements_open(locator, index, &options, &elements, ret_error);
	size_t size = 0;

	while (good && bytes.size > 0) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (good && bytes.size > 0)
			memcpy(to + size, bytes.data, bytes.size);
		size += bytes.size;
	}
	fsdp_elements_close(elements);
	if (good && dtype->item_bits < 8) {
		unpack(to, count + skipped, dtype->item_bits);
		memmove(to, to + skipped, count);
	}
	return good;
}
