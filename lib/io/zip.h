/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_ZIP_H
#define FSDP_IO_ZIP_H

#include <stdbool.h>
#include "base/finding.h"
#include "io/source.h"
#include "base/span.h"

/*
 * The directory of a zip, read from its end as PyTorch's reader (miniz) reads it:
 * end record, ZIP64 records, central directory. Local headers are visited only when
 * it is asked where a member's bytes begin. What other readers would see
 * otherwise is a finding.
 *
 * Origin: APPNOTE 6.3.10; caffe2/serialize/inline_container.cc and miniz as
 * PyTorch 2.13 builds it.
 */
struct fsdp_zip_member {
	struct fsdp_span
		name;    /* borrowed from the directory's bytes, which the arena holds */
	uint64_t header; /* offset of the local header in the source */
	uint64_t stored_size; /* compressed size */
	uint64_t size;        /* after inflating */
	uint32_t crc;
	uint16_t method; /* 0 stored, 8 deflated */
	uint16_t flags;
};

struct fsdp_zip {
	struct fsdp_source source;
	struct fsdp_vec members; /* struct fsdp_zip_member, in central order */
	uint64_t directory_offset, directory_size,
		end_size;     /* end_size: records after it */
	uint64_t members_end; /* of the last member's stored bytes, as far as is known */
	bool no_crc;          /* all CRCs are 0 although members have bytes */

	/* An index of names, and the order of headers if it is not the central one. Both
	 * reuse the memory of the directory's entries: a member needs only those and its
	 * 48 bytes. */
	struct fsdp_zip_index {
		uint32_t *slots;
		size_t mask;
		uint64_t seed[3];
		unsigned bits; /* of a slot that hold a member's number */
		bool folded;   /* the hash takes no notice of ASCII case */
	} index;
	uint32_t *by_header; /* or NULL */
};

/*
 * Reads the directory. `file` is the path in findings. Fails (damaged) if the end record
 * is missing or the directory cannot be parsed; the message of a truncated file has the
 * number of intact local headers at its front.
 */
bool fsdp_zip_open(const struct fsdp_source *source, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_span file,
	struct fsdp_findings *findings, struct fsdp_zip *ret_zip,
	struct fsdp_error **ret_error);

static inline const struct fsdp_zip_member *fsdp_zip_member(
	const struct fsdp_zip *zip, size_t index)
{
	return fsdp_vec_at(&zip->members, index);
}

/* By exact name; NULL if it is not there. Of two equal ones the later in central order.
 * A look-up in the hash table that opening made: it cannot fail. */
const struct fsdp_zip_member *fsdp_zip_find(
	const struct fsdp_zip *zip, struct fsdp_span name);

/* Where the member's (stored) bytes begin: reads its local header. */
bool fsdp_zip_locate(const struct fsdp_source *source,
	const struct fsdp_zip_member *member, uint64_t *ret_offset,
	struct fsdp_error **ret_error);

/*
 * Reads in windows: for many members requested in the order of their headers, headers
 * within 64 KiB of each other share one read. Zero it, set source; free nothing.
 */
struct fsdp_zip_window {
	struct fsdp_source source;
	uint64_t begin, end;  /* what `bytes` holds */
	unsigned char *bytes; /* window_size bytes, owned by the caller's arena */
	size_t window_size;
};
bool fsdp_zip_locate_in(struct fsdp_zip_window *window, uint64_t header,
	uint64_t stored_size, uint64_t *ret_offset, struct fsdp_error **ret_error);

/*
 * Visits every local header once, in order and in windows, and finds where it contradicts
 * the directory (name, method, flags, CRC, sizes), local headers that the directory does
 * not list, and bytes between members that are not padding. ret_offsets, if not NULL, has
 * an entry per member: the offset of its stored bytes, or FSDP_UNKNOWN if its header is
 * broken. Fails only if the file cannot be read.
 */
bool fsdp_zip_check_headers(const struct fsdp_zip *zip, struct fsdp_span file,
	struct fsdp_findings *findings, uint64_t *ret_offsets,
	struct fsdp_error **ret_error);

/* All bytes of a member, inflated if need be, into the arena. Refuses a declared size
 * above `ceiling`, of a deflated one also above `inflate-record` and what the arena's
 * budget says, and a ratio that deflate cannot reach. The CRC is not checked. */
bool fsdp_zip_read(const struct fsdp_zip *zip, const struct fsdp_zip_member *member,
	uint64_t ceiling, struct fsdp_arena *arena, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/* Whether a member of this method can be read; its bytes begin at `offset`. */
bool fsdp_zip_check_method(
	uint16_t method, uint64_t offset, struct fsdp_error **ret_error);

/* The first `size` bytes from `skip` on of a member, inflated if need be. */
bool fsdp_zip_read_part(const struct fsdp_source *source, uint64_t data_offset,
	uint64_t stored_size, uint16_t method, uint64_t skip, void *buffer, size_t size,
	struct fsdp_error **ret_error);

/* ---- zip.c and zip-local.c: records ---- */

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

/* The next extra field of an area, at any position: false at the end, or, with the cursor
 * no longer ok, when it claims more than the area has. */
bool fsdp_zip_next_extra(
	struct fsdp_cursor *area, uint16_t *ret_id, struct fsdp_cursor *ret_field);

/* Whether a field FSDP_ZIP_UNICODE_PATH gives the member the name that it has. */
bool fsdp_zip_same_unicode_path(
	struct fsdp_cursor field, const struct fsdp_zip_member *member);

/*
 * The records at the end of a zip, and the real position of the directory. A
 * contradiction is a finding, as long as one reading is possible.
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
