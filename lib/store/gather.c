/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how bytes of unknown number are collected and moved to one place; knows
 * nothing of where they come from.
 */
#include <stdlib.h>

#include "store/gather.h"

enum { FIRST_CHUNK = 64 << 10, LARGEST_CHUNK = 32 << 20 };

struct fsdp_gather_chunk {
	struct fsdp_gather_chunk *next;
	size_t room, used;
	unsigned char bytes[];
};

static bool add_chunk(struct fsdp_gather *gather)
{
	size_t room = gather->last == NULL ? FIRST_CHUNK : gather->last->room * 2;
	if (room > LARGEST_CHUNK)
		room = LARGEST_CHUNK;
	struct fsdp_gather_chunk *chunk = malloc(sizeof *chunk + room);
	if (chunk == NULL)
		return false;
	*chunk = (struct fsdp_gather_chunk){ .room = room };
	if (gather->last == NULL)
		gather->first = chunk;
	else
		gather->last->next = chunk;
	gather->last = chunk;
	return true;
}

unsigned char *fsdp_gather_room(struct fsdp_gather *gather, size_t *ret_room)
{
	struct fsdp_gather_chunk *last = gather->last;
	if ((last == NULL || last->used == last->room) && !add_chunk(gather))
		return NULL;
	last = gather->last;
	*ret_room = last->room - last->used;
	return last->bytes + last->used;
}

void fsdp_gather_filled(struct fsdp_gather *gather, size_t size)
{
	gather->last->used += size;
	gather->size += size;
}

bool fsdp_gather_add(struct fsdp_gather *gather, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;
	while (size != 0) {
		size_t room;
		unsigned char *to = fsdp_gather_room(gather, &room);
		if (to == NULL)
			return false;
		size_t part = size < room ? size : room;
		memcpy(to, from, part);
		fsdp_gather_filled(gather, part);
		from += part;
		size -= part;
	}
	return true;
}

bool fsdp_gather_fits(const struct fsdp_gather *gather, const struct fsdp_arena *arena)
{
	const struct fsdp_budget *budget = arena->budget;
	return budget->used <= budget->ceiling &&
	       gather->size <= budget->ceiling - budget->used;
}

bool fsdp_gather_take(struct fsdp_gather *gather, struct fsdp_arena *arena,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error)
{
	size_t size = (size_t)gather->size;
	unsigned char *bytes = fsdp_arena_take(arena, size, 64);
	if (bytes == NULL)
		return fsdp_arena_fail(arena, ret_error);
	size_t at = 0;
	while (gather->first != NULL) {
		struct fsdp_gather_chunk *chunk = gather->first;
		memcpy(bytes + at, chunk->bytes, chunk->used);
		at += chunk->used;
		gather->first = chunk->next;
		free(chunk);
	}
	*gather = (struct fsdp_gather){ 0 };
	*ret_bytes = fsdp_span(bytes, size);
	return true;
}

void fsdp_gather_done(struct fsdp_gather *gather)
{
	while (gather->first != NULL) {
		struct fsdp_gather_chunk *chunk = gather->first;
		gather->first = chunk->next;
		free(chunk);
	}
	*gather = (struct fsdp_gather){ 0 };
}
