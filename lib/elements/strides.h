/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ELEMENTS_STRIDES_H
#define FSDP_ELEMENTS_STRIDES_H

#include "io/inflate.h"
#include "checkpoint/model.h"

/* Layout of a piece in a storage, and position of that storage's record in a file. */
struct fsdp_view {
	uint64_t record, stored_size; /* bytes of the file, as stored */
	uint64_t storage_bytes;       /* after inflating */
	uint64_t storage_offset;      /* elements */
	uint32_t
		file; /* of the model; or a part of it that was unpacked: fsdp_locator_file */
	uint32_t crc; /* recorded of the record after inflating, if has_crc */
	bool has_crc;
	uint16_t method; /* of a zip: 0 stored, 8 deflated */
	bool big_endian;
	bool conj, neg; /* what Tensor.conj() and torch._neg_view() make of the bytes */
	uint32_t dtype, dims;
	int64_t shape[FSDP_DIMS_MAX], strides[FSDP_DIMS_MAX]; /* elements */
};

/* Strides of the shape in C order. */
void fsdp_view_set_contiguous(struct fsdp_view *view);
bool fsdp_view_is_contiguous(const struct fsdp_view *view);

/* First byte of the view within its storage and the one after its last; 0 and 0 without
 * elements. False: it is not in the storage. */
bool fsdp_view_bytes(
	const struct fsdp_view *view, uint64_t *ret_begin, uint64_t *ret_end);

/*
 * The bytes of storages, whichever way their records are stored, through one window.
 * Asked in order of files and offsets, neighbours share a read. A deflated record is
 * inflated forwards: its stream waits where it stopped, one per piece, and restarts
 * only for bytes that have left the window. One small record
 * that is read in random order may be kept completely.
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
	uint32_t source_file; /* its piece; FSDP_NONE: no piece any more */

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
 * `size` bytes (up to FSDP_FETCH_PART) of the storage from `at` on; bytes before
 * `until` will be requested next. NULL on failure; valid until the next call.
 */
const unsigned char *fsdp_fetch(struct fsdp_fetch *fetch, uint64_t at, size_t size,
	uint64_t until, struct fsdp_error **ret_error);

/* Any number of bytes, into the caller's memory. */
bool fsdp_fetch_into(struct fsdp_fetch *fetch, uint64_t at, uint64_t size,
	unsigned char *to, uint64_t until, struct fsdp_error **ret_error);

/*
 * Nested loops that move elements from a storage to memory: each loop takes a step in
 * both. In which order they run is free, so they run in the order of the storage, which
 * is read forwards; what fits into a window is then moved in the order of the memory.
 */
struct fsdp_nest_loop {
	uint64_t count;
	uint64_t from, to; /* steps, bytes */
};

struct fsdp_nest {
	uint64_t from; /* of the first element in the storage, bytes */
	uint64_t to;   /* in memory */
	size_t row;    /* contiguous bytes in both */
	size_t loop_count;
	struct fsdp_nest_loop loops[FSDP_DIMS_MAX]; /* outermost first */
};

/* An element of so many bytes, without loops. */
void fsdp_nest_init(struct fsdp_nest *nest, uint64_t from, uint64_t to, size_t width);

/* One more loop; count is at least 1. */
void fsdp_nest_add(struct fsdp_nest *nest, uint64_t count, uint64_t from, uint64_t to);

/* Brings the loops in order when all are there. */
void fsdp_nest_finish(struct fsdp_nest *nest);

/* One after the last byte in the storage; *ret_dense: whether all gaps before it are
 * short. */
uint64_t fsdp_nest_end(const struct fsdp_nest *nest, bool *ret_dense);

/* A counter of the turns of several loops, the last one fastest, and how far they have
 * come in both. */
struct fsdp_odometer {
	const struct fsdp_nest_loop *loops;
	size_t count;
	uint64_t turns[FSDP_DIMS_MAX];
	uint64_t from, to;
};

void fsdp_odometer_init(
	struct fsdp_odometer *odometer, const struct fsdp_nest_loop *loops, size_t count);

/* False: that was the last turn. */
bool fsdp_odometer_next(struct fsdp_odometer *odometer);

/* Runs them over the current window of `fetch`. Bytes before `until` in the storage
 * will be requested next, by this nest or by another. */
bool fsdp_nest_run(const struct fsdp_nest *nest, struct fsdp_fetch *fetch, uint64_t until,
	unsigned char *memory, struct fsdp_error **ret_error);

#endif
