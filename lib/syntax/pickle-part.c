/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bytes of a pickle are at hand, and how others come.
 */
#include "base/num.h"
#include "syntax/pickle-internal.h"

enum {
	PART_BYTES = 256 << 10,
	PADDING = 16, /* no argument of fixed size is longer */
};

void fsdp_part_all(struct part *part, struct fsdp_span stream)
{
	*part = (struct part){
		.stream = stream.data,
		.begin = stream.data,
		.end = stream.data + stream.size,
		.size = stream.size,
	};
}

/* The room before stays behind in the arena: rooms double, so all of them together are
 * at most twice the last. */
static bool make_room(struct part *part, uint64_t room, struct fsdp_error **ret_error)
{
	unsigned char *buffer =
		room < SIZE_MAX - PADDING
			? fsdp_arena_take(part->scratch, (size_t)room + PADDING, 16)
			: NULL;
	if (buffer == NULL)
		return fsdp_arena_fail(part->scratch, ret_error);
	part->buffer = buffer;
	part->room = (size_t)room;
	return true;
}

bool fsdp_part_init(struct part *part, const struct fsdp_pickle_parts *from,
	struct fsdp_arena *scratch, struct fsdp_error **ret_error)
{
	size_t room = from->room != 0 ? from->room : PART_BYTES;
	*part = (struct part){ .from = from, .scratch = scratch, .size = from->size };
	return make_room(part, fsdp_min(room, from->size), ret_error) &&
	       fsdp_part_move(part, 0, UINT64_MAX, ret_error);
}

bool fsdp_part_move(
	struct part *part, uint64_t offset, uint64_t most, struct fsdp_error **ret_error)
{
	size_t size = (size_t)fsdp_min(most, part->size - offset);
	part->base = offset;
	if (part->from == NULL) {
		part->begin = part->stream + offset;
		part->end = part->begin + size;
		return true;
	}
	size = fsdp_min(size, part->room);
	part->begin = part->end = part->buffer;
	if (!part->from->read(part->from->context, offset, part->buffer, size, ret_error))
		return false;
	memset(part->buffer + size, 0, PADDING);
	part->end += size;
	return true;
}

bool fsdp_part_reach(
	struct part *part, uint64_t offset, uint64_t need, struct fsdp_error **ret_error)
{
	uint64_t most = part->size - offset, room = part->room;
	while (room < fsdp_min(need, most))
		room = fsdp_min(room * 2, most);
	if (room != part->room && !make_room(part, room, ret_error))
		return false;
	return fsdp_part_move(part, offset, UINT64_MAX, ret_error);
}
