/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the elements of a tensor in one checkpoint with those in another.
 */
#include <string.h>

#include "cmd/audit/expect-values.h"

/* Both streams come in spans of their own length. */
static bool compare_streams(struct fsdp_elements *streams[2], uint32_t item,
	struct difference *ret, struct fsdp_error **ret_error)
{
	struct fsdp_span spans[2] = { { NULL, 0 }, { NULL, 0 } };

	*ret = (struct difference){ .first = UINT64_MAX };
	for (;;) {
		size_t size;

		for (size_t i = 0; i < 2; i++)
			if (spans[i].size == 0 &&
				!fsdp_elements_next(streams[i], &spans[i], ret_error))
				return false;
		size = spans[0].size < spans[1].size ? spans[0].size : spans[1].size;
		if (size == 0)
			return true;
		for (size_t at = 0; at < size; at += item) {
			bool equal =
				memcmp(spans[0].data + at, spans[1].data + at, item) == 0;

			if (!equal && ret->first == UINT64_MAX)
				ret->first = ret->elements;
			ret->count += !equal;
			ret->elements++;
		}
		for (size_t i = 0; i < 2; i++) {
			spans[i].data += size;
			spans[i].size -= size;
		}
	}
}

static bool is_too_long(const struct compared_tensor pair[2])
{
	for (size_t i = 0; i < 2; i++)
		if (fsdp_tensor(pair[0].checkpoint, pair[0].tensor).bytes / 16 <=
			fsdp_checkpoint_bytes(pair[i].checkpoint).on_disk)
			return false;
	return true;
}

bool compare_elements(const struct compared_tensor pair[2], struct difference *ret,
	struct fsdp_error **ret_error)
{
	struct fsdp_tensor tensor = fsdp_tensor(pair[0].checkpoint, pair[0].tensor);
	uint32_t item = fsdp_dtype(tensor.dtype)->storage_bytes;
	struct fsdp_elements *streams[2] = { NULL, NULL };
	bool good = item > 0 && !is_too_long(pair);

	for (size_t i = 0; good && i < 2; i++)
		good = fsdp_elements_open(
			pair[i].locator, pair[i].tensor, NULL, &streams[i], ret_error);
	good = good && compare_streams(streams, item, ret, ret_error);
	fsdp_elements_close(streams[0]);
	fsdp_elements_close(streams[1]);
	return good;
}
