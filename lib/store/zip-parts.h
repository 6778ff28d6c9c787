/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_ZIP_PARTS_H
#define FSDP_STORE_ZIP_PARTS_H

#include "base/cursor.h"
#include "store/zip.h"

/* What the files of the zip reader share. */

enum {
	FSDP_ZIP_LOCAL_SIZE = 30,
	FSDP_ZIP_CENTRAL_SIZE = 46,
	FSDP_ZIP_STORED = 0,
	FSDP_ZIP_DEFLATED = 8,
	FSDP_ZIP_UNREADABLE = 0x2061, /* flags: encryption, patch data, masked headers */
	FSDP_ZIP_ENCRYPTED = 0x2041,  /* those of them that mean a password */
	FSDP_ZIP_UNICODE_PATH = 0x7075, /* an extra field: another name */
	FSDP_ZIP_RATIO = 1032,          /* no stream of deflate unfolds to more */
};

#define FSDP_ZIP_LOCAL_MAGIC "PK\3\4"
#define FSDP_ZIP_CENTRAL_MAGIC "PK\1\2"
#define FSDP_ZIP_DESCRIPTOR_MAGIC "PK\7\10"

/* The next extra field of an area, wherever it stands: false when none is left, or, with
 * the cursor no longer ok, when it claims more than the area has. */
bool fsdp_zip_next_extra(
	struct fsdp_cursor *area, uint16_t *ret_id, struct fsdp_cursor *ret_field);

/* Whether a field FSDP_ZIP_UNICODE_PATH gives the member the name that it has. */
bool fsdp_zip_same_unicode_path(
	struct fsdp_cursor field, const struct fsdp_zip_member *member);

/*
 * What the records at the end of a zip say, and where the directory truly lies.
 * What contradicts itself is a finding, as long as one reading is possible.
 */
struct fsdp_zip_end {
	uint64_t directory;     /* where the first entry begins */
	uint64_t directory_end; /* where the end records begin: entries lie before it */
	uint64_t size, count;   /* as claimed: to be compared with what is found */
	uint64_t base;       /* bytes in front of the zip that its offsets do not count */
	unsigned char *tail; /* of the file, as far as it was read: the caller's to free.
				NULL: the file lies in memory */
	uint64_t tail_begin;
};

bool fsdp_zip_end_read(const struct fsdp_source *source, struct fsdp_span file,
	struct fsdp_findings *findings, struct fsdp_zip_end *ret_end,
	struct fsdp_error **ret_error);

/* For a file without an end record: always false; the message says how much of its
 * front is whole. */
bool fsdp_zip_fail_cut(const struct fsdp_source *source, struct fsdp_error **ret_error);

/*
 * Judges all names and makes the index in `memory`, which lies behind the names and holds
 * at least 46 bytes a member: the index takes at most 12, a list of numbers 4 more. Gives
 * the bytes that were taken.
 */
size_t fsdp_zip_index_make(struct fsdp_zip *zip, unsigned char *memory,
	struct fsdp_span file, struct fsdp_findings *findings);

/* Whether bytes that belong to no member could do something where they are found. */
bool fsdp_zip_is_alive(struct fsdp_span head);

#endif
