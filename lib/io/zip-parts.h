/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_ZIP_PARTS_H
#define FSDP_IO_ZIP_PARTS_H

#include <stdbool.h>

#include "base/span.h"
#include "io/zip.h"

/*
 * The only way to decode bytes. A cursor walks a span; a read past the end
 * returns zero, clears `ok` and remembers where (`failed_at`); from then on every
 * read returns zero. Read a whole record, then ask `ok` once.
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

static inline const unsigned char *fsdp_cursor_read(
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

static inline uint64_t fsdp_cursor_read_le(struct fsdp_cursor *cursor, size_t size)
{
	const unsigned char *bytes = fsdp_cursor_read(cursor, size);
	uint64_t value = 0;
	if (bytes != NULL)
		for (size_t i = 0; i < size; i++)
			value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

static inline uint8_t fsdp_cursor_read_u8(struct fsdp_cursor *cursor)
{
	return (uint8_t)fsdp_cursor_read_le(cursor, 1);
}

static inline uint16_t fsdp_cursor_read_u16le(struct fsdp_cursor *cursor)
{
	return (uint16_t)fsdp_cursor_read_le(cursor, 2);
}

static inline uint32_t fsdp_cursor_read_u32le(struct fsdp_cursor *cursor)
{
	return (uint32_t)fsdp_cursor_read_le(cursor, 4);
}

static inline uint64_t fsdp_cursor_read_u64le(struct fsdp_cursor *cursor)
{
	return fsdp_cursor_read_le(cursor, 8);
}

static inline struct fsdp_span fsdp_cursor_read_span(
	struct fsdp_cursor *cursor, size_t size)
{
	const unsigned char *bytes = fsdp_cursor_read(cursor, size);
	return fsdp_span(bytes, bytes != NULL ? size : 0);
}

static inline void fsdp_cursor_skip(struct fsdp_cursor *cursor, size_t size)
{
	(void)fsdp_cursor_read(cursor, size);
}

/* What the files of the zip reader share. */

enum {
	FSDP_ZIP_LOCAL_SIZE = 30,
	FSDP_ZIP_CENTRAL_SIZE = 46,
	FSDP_ZIP_STORED = 0,
	FSDP_ZIP_DEFLATED = 8,
	FSDP_ZIP_UNREADABLE = 0x2061, /* flags: encryption, patch data, masked headers */
	FSDP_ZIP_ENCRYPTED = 0x2041,  /* those of them that mean a password */
	FSDP_ZIP_UNICODE_PATH = 0x7075, /* an extra field: another name */
	FSDP_ZIP_RATIO = 1032,          /* maximum ratio of a deflate stream */
};

#define FSDP_ZIP_LOCAL_MAGIC "PK\3\4"
#define FSDP_ZIP_CENTRAL_MAGIC "PK\1\2"
#define FSDP_ZIP_DESCRIPTOR_MAGIC "PK\7\10"

/* The next extra field of an area, at any position: false at the end, or, with the cursor no longer ok, when it
 * claims more than the area has. */
bool fsdp_zip_next_extra(
	struct fsdp_cursor *area, uint16_t *ret_id, struct fsdp_cursor *ret_field);

/* Whether a field FSDP_ZIP_UNICODE_PATH gives the member the name that it has. */
bool fsdp_zip_same_unicode_path(
	struct fsdp_cursor field, const struct fsdp_zip_member *member);

/*
 * The records at the end of a zip, and the real position of the directory. A contradiction is a finding, as long as one
 * reading is possible.
 */
struct fsdp_zip_end {
	uint64_t directory;     /* where the first entry begins */
	uint64_t directory_end; /* start of the end records: entries are before it */
	uint64_t size, count;   /* as claimed: to be compared with what is found */
	uint64_t base;          /* bytes before the zip that its offsets do not count */
	unsigned char *
		tail; /* of the file, as far as it was read: the caller's to free. NULL: the file is in memory */
	uint64_t tail_begin;
};

#endif
