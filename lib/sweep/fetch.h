/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_FETCH_H
#define FSDP_SWEEP_FETCH_H

#include "store/inflate.h"
#include "sweep/view.h"

/*
 * The bytes of storages, whichever way their records are stored, through one window.
 * Asked in order of files and offsets, neighbours share a read. A deflated record is
 * inflated forwards: its stream waits where it stopped, one for each piece, and starts
 * anew only when it is asked for something that has left the window. One small record
 * that is wanted in no order at all may be kept whole.
 *
 * Bounds: the window, FSDP_FETCH_STREAMS streams of about 100 KiB, one kept record of
 * FSDP_FETCH_KEPT bytes; and all that is inflated together, by the ceiling.
 */
enum {
	FSDP_FETCH_PART = 256 << 10, /* the most that can be asked for at a time */
	FSDP_FETCH_WINDOW = 384 << 10,
	FSDP_FETCH_LONG = 2 << 10,  /* a row that is read where it belongs */
	FSDP_FETCH_NEAR = 16 << 10, /* a shorter gap is read, not skipped */
	FSDP_FETCH_STREAMS = 64,
	FSDP_FETCH_KEPT = 16 << 20,
};

/* A record, and for whom it is read. */
struct fsdp_fetch_record {
	uint64_t offset, stored_size; /* in the file */
	uint64_t size;                /* after inflating */
	uint32_t file, piece;
	uint32_t crc; /* that is recorded of it, if has_crc */
	bool has_crc;
	bool deflated;
	bool keep; /* wanted in no order: hold it whole if it is small */
};

struct fsdp_fetch_stream {
	struct fsdp_inflate *inflate;
	uint64_t at;   /* bytes it has given */
	uint64_t used; /* when, in turns */
	uint32_t piece;
};

struct fsdp_fetch {
	/* The source of a file; valid until others were asked for. */
	bool (*source_of)(void *context, uint32_t file, struct fsdp_source *ret_source,
		struct fsdp_error **ret_error);
	void *context;
	uint64_t inflate_ceiling, inflated;

	struct fsdp_fetch_record record;
	struct fsdp_source source;
	uint32_t source_file; /* whose it is; FSDP_NONE: of none any more */

	/* Bytes begin to end: of the file, or of the record that a piece inflates. */
	unsigned char *window;
	uint64_t begin, end;
	uint32_t file, piece; /* FSDP_NONE: it holds nothing; a file's bytes */

	struct fsdp_fetch_stream streams[FSDP_FETCH_STREAMS];
	struct fsdp_fetch_stream *stream; /* of the record, if it is inflated */
	uint64_t turns;

	unsigned char *kept;
	uint64_t kept_offset, kept_size;
	uint32_t kept_file; /* FSDP_NONE: nothing is kept */
};

/* The fields of the first block are filled in by the caller before. */
bool fsdp_fetch_init(struct fsdp_fetch *fetch, struct fsdp_error **ret_error);
void fsdp_fetch_done(struct fsdp_fetch *fetch);

/* Other sources were asked for since: the one in hand may be closed. */
void fsdp_fetch_forget_source(struct fsdp_fetch *fetch);

/* From now on bytes of this record are asked for. */
bool fsdp_fetch_turn(struct fsdp_fetch *fetch, const struct fsdp_fetch_record *record,
	struct fsdp_error **ret_error);

/*
 * `size` bytes (up to FSDP_FETCH_PART) of the storage from `at` on; what lies before
 * `until` will be asked for next. NULL on failure; valid until the next call.
 */
const unsigned char *fsdp_fetch(struct fsdp_fetch *fetch, uint64_t at, size_t size,
	uint64_t until, struct fsdp_error **ret_error);

/* Any number of bytes, into the caller's memory. */
bool fsdp_fetch_into(struct fsdp_fetch *fetch, uint64_t at, uint64_t size,
	unsigned char *to, uint64_t until, struct fsdp_error **ret_error);

#endif
