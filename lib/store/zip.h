/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_ZIP_H
#define FSDP_STORE_ZIP_H

#include "base/finding.h"
#include "store/source.h"

/*
 * The directory of a zip, read from its end as PyTorch's reader (miniz) reads it:
 * end record, ZIP64 records, central directory. Local headers are visited only when
 * somebody asks where a member's bytes begin. What other readers would see
 * otherwise is a finding.
 *
 * Origin: APPNOTE 6.3.10; caffe2/serialize/inline_container.cc and miniz as
 * PyTorch 2.13 builds it.
 */
struct fsdp_zip_member {
	struct fsdp_span name; /* borrowed from the directory's bytes, which the arena holds */
	uint64_t header;       /* offset of the local header in the source */
	uint64_t stored_size;  /* compressed size */
	uint64_t size;         /* after inflating */
	uint32_t crc;
	uint16_t method; /* 0 stored, 8 deflated */
	uint16_t flags;
};

struct fsdp_zip {
	struct fsdp_source source;
	struct fsdp_vec members; /* struct fsdp_zip_member, in central order */
	uint64_t directory_offset, directory_size, end_size; /* end_size: records behind it */
	uint32_t *by_name; /* members sorted by name, made by the first find */
	bool no_crc;       /* all CRCs are 0 although members have bytes */
};

/*
 * Reads the directory. `file` is the path that findings carry. Fails (damaged) if there
 * is no end record or the directory cannot be parsed; the message of a truncated file
 * says how many intact local headers its front holds.
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
 * The first call sorts (the arena must have room: false through *ret_ok otherwise). */
const struct fsdp_zip_member *fsdp_zip_find(struct fsdp_zip *zip, struct fsdp_arena *arena,
	struct fsdp_span name, bool *ret_ok);

/* Where the member's (stored) bytes begin: reads its local header. */
bool fsdp_zip_locate(const struct fsdp_source *source, const struct fsdp_zip_member *member,
	uint64_t *ret_offset, struct fsdp_error **ret_error);

/*
 * Reads window-wise: for many members asked in order of their headers, headers that lie
 * within 64 KiB of each other share one read. Zero it, set source; free nothing.
 */
struct fsdp_zip_window {
	struct fsdp_source source;
	uint64_t begin, end; /* what `bytes` holds */
	unsigned char *bytes; /* window_size bytes, owned by the caller's arena */
	size_t window_size;
};
bool fsdp_zip_locate_in(struct fsdp_zip_window *window, uint64_t header, uint64_t stored_size,
	uint64_t *ret_offset, struct fsdp_error **ret_error);

/* All bytes of a member, inflated if need be, into the arena. Refuses a declared size
 * above `ceiling` and a ratio that deflate cannot reach. The CRC is not checked. */
bool fsdp_zip_read(const struct fsdp_zip *zip, const struct fsdp_zip_member *member,
	uint64_t ceiling, struct fsdp_arena *arena, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/* The first `size` bytes from `skip` on of a member, inflated if need be. */
bool fsdp_zip_read_part(const struct fsdp_source *source, uint64_t data_offset,
	uint64_t stored_size, uint16_t method, uint64_t skip, void *buffer, size_t size,
	struct fsdp_error **ret_error);

#endif
