/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AGGREGATE_SCRATCH_H
#define FSDP_AGGREGATE_SCRATCH_H

#include <fsdp/model.h>

#include "base/arena.h"

/* A place for the text of one name at a time, which grows as names do. */
struct fsdp_scratch {
	struct fsdp_arena *arena;
	char *data;
	size_t room;
	bool failed; /* out of memory once: names are empty from then on */
};

static inline bool fsdp_scratch_reserve(struct fsdp_scratch *scratch, size_t size)
{
	if (size <= scratch->room)
		return true;
	size = 2 * size + 256;
	scratch->data = fsdp_arena_take(scratch->arena, size, 1);
	scratch->room = scratch->data != NULL ? size : 0;
	scratch->failed |= scratch->data == NULL;
	return scratch->data != NULL;
}

/* The full name, valid until the next one. */
static inline struct fsdp_span fsdp_scratch_name(struct fsdp_scratch *scratch,
	const struct fsdp_checkpoint *checkpoint, uint32_t name)
{
	size_t length = 1;

	while (fsdp_scratch_reserve(scratch, length)) {
		length = fsdp_name_write(checkpoint, name, scratch->data, scratch->room);
		if (length <= scratch->room)
			return fsdp_span(scratch->data, length);
	}
	return FSDP_SPAN("");
}

/* Whether the last segment is a number. */
static inline bool fsdp_ends_with_number(struct fsdp_span name)
{
	return fsdp_span_is_number(fsdp_span_last(name, '.'));
}

#endif
