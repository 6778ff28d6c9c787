/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts what a checkpoint holds in order of the slices it belongs to.
 */
#include "format/deepspeed/deepspeed-reading.h"

/* A counting sort: how many each slice has, where it begins then, and who lies there. */
bool fsdp_deepspeed_order(struct fsdp_deepspeed *ds, size_t count,
	uint32_t (*rank)(const struct fsdp_deepspeed *ds, size_t index),
	struct fsdp_deepspeed_order *ret_order, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	uint32_t *indexes = FSDP_TAKE(scratch, indexes, count + 1);
	size_t *begin = FSDP_TAKE(scratch, begin, (size_t)ds->model_ranks + 2);
	if (indexes == NULL || begin == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < count; i++) {
			uint32_t of = rank(ds, i);
			if (of == FSDP_NONE)
				continue;
			size_t *place = &begin[fsdp_deepspeed_slice_of(ds, of) + 1];
			if (pass == 0)
				place[1]++;
			else
				indexes[(*place)++] = (uint32_t)i;
		}
		for (uint32_t i = 0; pass == 0 && i < ds->model_ranks; i++)
			begin[i + 2] += begin[i + 1];
	}
	*ret_order = (struct fsdp_deepspeed_order){ indexes, begin };
	return true;
}
