/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_CURSOR_H
#define FSDP_BASE_CURSOR_H

#include <stdbool.h>

#include "base/span.h"

/*
 * The only way to decode bytes. A cursor walks a span; a take past the end
 * returns zero, clears `ok` and remembers where (`failed_at`); from then on every
 * take returns zero. Read a whole record, then ask `ok` once.
 */
struct fsdp_cursor {
	const unsigned char *data;
	size_t size;
	size_t at;
	size_t failed_at; /* meaningful only when !ok */
	bool ok;
};

static inline struct fsdp_cursor fsdp_cursor(struct fsdp_span span)
{
	return (struct fsdp_cursor){ span.data, span.size, 0, 0, true };
}

static inline size_t fsdp_cursor_left(const struct fsdp_cursor *cursor)
{
	return cursor->size - cursor->at;
}

static inline const unsigned char *fsdp_cursor_take(
	struct fsdp_cursor *cursor, size_t size)
{
	if (!cursor->ok || size > cursor->size - cursor->at) {
		if (cursor->ok)
			cursor->failed_at = cursor->at;
		cursor->ok = false;
		return NULL;
	}
	const unsigned char *bytes = cursor->data + cursor->at;
	cursor->at += size;
	return bytes;
}

static inline uint64_t fsdp_cursor_take_le(struct fsdp_cursor *cursor, size_t size)
{
	const unsigned char *bytes = fsdp_cursor_take(cursor, size);
	uint64_t value = 0;
	if (bytes != NULL)
		for (size_t i = 0; i < size; i++)
			value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

static inline uint8_t fsdp_cursor_take_u8(struct fsdp_cursor *cursor)
{
	return (uint8_t)fsdp_cursor_take_le(cursor, 1);
}

static inline uint16_t fsdp_cursor_take_u16le(struct fsdp_cursor *cursor)
{
	return (uint16_t)fsdp_cursor_take_le(cursor, 2);
}

static inline uint32_t fsdp_cursor_take_u32le(struct fsdp_cursor *cursor)
{
	return (uint32_t)fsdp_cursor_take_le(cursor, 4);
}

static inline uint64_t fsdp_cursor_take_u64le(struct fsdp_cursor *cursor)
{
	return fsdp_cursor_take_le(cursor, 8);
}

static inline struct fsdp_span fsdp_cursor_take_span(
	struct fsdp_cursor *cursor, size_t size)
{
	const unsigned char *bytes = fsdp_cursor_take(cursor, size);
	return fsdp_span(bytes, bytes != NULL ? size : 0);
}

static inline void fsdp_cursor_skip(struct fsdp_cursor *cursor, size_t size)
{
	(void)fsdp_cursor_take(cursor, size);
}

#endif
