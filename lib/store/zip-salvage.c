/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands at the front of a zip that was cut off, so that the message can say how
 * much of it arrived.
 *
 *	local header  "PK\3\4"  needed u16  flags u16  method u16  time u16  date u16
 *	              crc u32  stored size u32  size u32  name length u16
 *	              extra length u16
 *	descriptor    "PK\7\10"  crc u32  stored size u32 or u64  size u32 or u64
 *
 * PyTorch leaves the sizes of local headers zero, so the end of a record is where a
 * descriptor says exactly as many bytes as lie before it.
 */
#include <stdlib.h>

#include "base/num.h"
#include "store/zip-parts.h"

enum {
	WINDOW = 256 << 10,
	MOST = 64 << 20, /* bytes looked at: a message is not worth more */
	DESCRIPTOR = 24,
};

struct front {
	const struct fsdp_source *source;
	struct fsdp_error **error;
	unsigned char *window;
	uint64_t begin;
	size_t size;
	uint64_t looked_at;
	uint64_t records, end; /* whole ones, and where the last of them ends */
	bool at_directory, bounded;
};

/* What lies from `at` on: at least `need` bytes, or all that are left, or none once too
 * much was looked at. */
static bool see(
	struct front *front, uint64_t at, size_t need, struct fsdp_span *ret_bytes)
{
	uint64_t left = front->source->size - at;
	need = (size_t)fsdp_min(need, left);
	if (at < front->begin || at + need > front->begin + front->size) {
		front->bounded = front->looked_at >= MOST;
		front->size = front->bounded ? 0 : (size_t)fsdp_min(left, WINDOW);
		front->begin = at;
		front->looked_at += front->size;
		if (!fsdp_source_read(
			    front->source, at, front->window, front->size, front->error))
			return false;
	}
	size_t skip = (size_t)(at - front->begin);
	*ret_bytes = fsdp_span(front->window + skip, front->size - skip);
	return true;
}

/* Length of a descriptor that tells just as many stored bytes as lie before it, or 0. A
 * narrow one taken for a wide one has its other size in the upper half of the first, or,
 * if that is 0, the header that follows in the second. */
static size_t descriptor_size(struct fsdp_span bytes, uint64_t before)
{
	struct fsdp_cursor narrow = fsdp_cursor(bytes), wide = fsdp_cursor(bytes);
	fsdp_cursor_skip(&narrow, 8);
	fsdp_cursor_skip(&wide, 8);
	uint64_t size = fsdp_cursor_take_u64le(&wide);
	uint64_t whole = fsdp_cursor_take_u64le(&wide);
	if (wide.ok && size == before && (whole >> 32 == 0 || size >> 32 != 0))
		return wide.at;
	size = fsdp_cursor_take_u32le(&narrow);
	fsdp_cursor_skip(&narrow, 4);
	return narrow.ok && size == before ? narrow.at : 0;
}

static bool find_descriptor(struct front *front, uint64_t data, uint64_t *ret_end)
{
	uint64_t at = data;
	for (;;) {
		struct fsdp_span bytes;
		if (!see(front, at, DESCRIPTOR, &bytes))
			return false;
		const unsigned char *hit =
			memmem(bytes.data, bytes.size, FSDP_ZIP_DESCRIPTOR_MAGIC, 4);
		size_t skip = hit != NULL      ? (size_t)(hit - bytes.data)
			      : bytes.size > 3 ? bytes.size - 3
					       : 0;
		if (hit == NULL && (skip == 0 || at + bytes.size == front->source->size))
			return true;
		at += skip;
		if (hit == NULL)
			continue;
		if (!see(front, at, DESCRIPTOR, &bytes))
			return false;
		size_t size = descriptor_size(bytes, at - data);
		if (size != 0) {
			*ret_end = at + size;
			return true;
		}
		at += 4;
	}
}

/* *ret_end stays 0 if no whole record begins here. */
static bool pass_record(struct front *front, uint64_t *ret_end)
{
	struct fsdp_span bytes;
	if (!see(front, front->end, FSDP_ZIP_LOCAL_SIZE, &bytes))
		return false;
	front->at_directory = fsdp_span_begins(bytes, FSDP_SPAN(FSDP_ZIP_CENTRAL_MAGIC));
	if (!fsdp_span_begins(bytes, FSDP_SPAN(FSDP_ZIP_LOCAL_MAGIC)))
		return true;
	struct fsdp_cursor cursor = fsdp_cursor(bytes);
	fsdp_cursor_skip(&cursor, 6);
	bool described = (fsdp_cursor_take_u16le(&cursor) & 8) != 0;
	fsdp_cursor_skip(&cursor, 10);
	uint64_t stored_size = fsdp_cursor_take_u32le(&cursor);
	fsdp_cursor_skip(&cursor, 4);
	uint64_t data = front->end + FSDP_ZIP_LOCAL_SIZE;
	data += fsdp_cursor_take_u16le(&cursor);
	data += fsdp_cursor_take_u16le(&cursor);
	if (!cursor.ok || data > front->source->size)
		return true;
	if (described)
		return find_descriptor(front, data, ret_end);
	if (stored_size <= front->source->size - data)
		*ret_end = data + stored_size;
	return true;
}

static bool walk(struct front *front)
{
	for (;;) {
		uint64_t end = 0;
		if (!pass_record(front, &end))
			return false;
		if (end == 0)
			return true;
		front->records++;
		front->end = end;
	}
}

bool fsdp_zip_fail_cut(const struct fsdp_source *source, struct fsdp_error **ret_error)
{
	struct front front = {
		.source = source, .error = ret_error, .window = malloc(WINDOW)
	};
	if (front.window == NULL)
		return fsdp_fail_memory(ret_error);
	bool walked = walk(&front);
	free(front.window);
	if (!walked)
		return false;
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1040", front.end,
		"the zip has no end record; its front holds %s%llu whole record%s, up to byte %llu of %llu%s",
		front.bounded ? "at least " : "", FSDP_LLU(front.records),
		front.records == 1 ? "" : "s", FSDP_LLU(front.end),
		FSDP_LLU(source->size),
		front.at_directory ? ", where its directory begins" : "");
	return fsdp_error_add_hint(ret_error, "copy this file again");
}
