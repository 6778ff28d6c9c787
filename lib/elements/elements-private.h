/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ELEMENTS_ELEMENTS_PRIVATE_H
#define FSDP_ELEMENTS_ELEMENTS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fsdp/elements.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/span.h"
#include "checkpoint/model.h"
#include "io/source.h"

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
 * Asked in order of files and offsets, neighbors share a read. A deflated record is
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

/* Which elements of a chunk are there: a bit each. */
struct fsdp_marks {
	uint64_t *words;
	size_t room; /* words */
	uint64_t count;
};

/* `count` bits, none set. Zero it before the first time; free it with marks_done. */
bool fsdp_marks_reset(
	struct fsdp_marks *marks, uint64_t count, struct fsdp_error **ret_error);
void fsdp_marks_done(struct fsdp_marks *marks);

/* Sets them; false if one of them was set already. */
bool fsdp_marks_set(struct fsdp_marks *marks, uint64_t first, uint64_t count);

/* The first run of bits that are not set. False: all are set. */
bool fsdp_marks_lacking(
	const struct fsdp_marks *marks, uint64_t *ret_first, uint64_t *ret_count);

/* The bytes of records in order, and their CRC-32: a run for each record, as long as no
 * byte is skipped. */
struct fsdp_stored_runs {
	struct fsdp_elements_run *list;
	size_t count, room;
};

/* Zero is none yet; what a piece is at. */
struct fsdp_stored_at {
	size_t run; /* its number, from 1 */
	bool broken;
};

/*
 * The elements of one tensor in C order of its global shape, out of its pieces, as a
 * stream of bytes in bounded memory. Of pieces with the same place the first one that
 * has bytes is taken; elements that no piece holds, and pieces that overlap otherwise,
 * are refused.
 *
 * The tensor is made chunk by chunk. A chunk is a box of the global shape whose elements
 * follow each other in C order, so that what a piece gives to it are nested loops. All
 * pieces of a chunk are read in the order of their files.
 *
 * Bounds: 64 MiB and about 100 bytes a piece that a chunk touches, 16 a piece else.
 */

/* Where a piece is in the tensor: a box, or a run of the elements in C order. */
struct fsdp_part {
	const int64_t *offsets, *sizes; /* NULL: it is a run */
	uint64_t start, count;          /* of a run */
	bool missing;                   /* it has no bytes */
};

struct fsdp_assemble_input {
	uint32_t dtype, dims;
	const int64_t *shape;
	uint64_t numel;
	bool resolve; /* apply what the views say of conjugates and signs */
	bool sums;    /* the stored bytes are to be summed up: fsdp_assembly_runs */
	uint32_t piece_count;
	uint64_t first, count; /* the elements that are wanted */
	uint64_t inflate_ceiling;

	/* Facts of the public function. Pieces count from 0; a source is valid until
	 * others were asked for. The shape of a run's view has one dimension. */
	void *context;
	struct fsdp_part (*part)(void *context, uint32_t piece);
	bool (*view)(void *context, uint32_t piece, struct fsdp_view *ret_view,
		struct fsdp_error **ret_error);
	bool (*source)(void *context, uint32_t file, struct fsdp_source *ret_source,
		struct fsdp_error **ret_error);
};

struct fsdp_assembly;

/* The input is copied; what it points to stays the caller's. */
bool fsdp_assembly_new(const struct fsdp_assemble_input *input,
	struct fsdp_assembly **ret_assembly, struct fsdp_error **ret_error);

/* The next bytes, little-endian; valid until the next call. None at the end. After a
 * failure there is nothing more to be had. */
bool fsdp_assembly_next(struct fsdp_assembly *assembly, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/* The file that was read last, or FSDP_NONE: whose it is if that failed. */
uint32_t fsdp_assembly_file(const struct fsdp_assembly *assembly);

/* What was summed up so far. */
const struct fsdp_stored_runs *fsdp_assembly_runs(const struct fsdp_assembly *assembly);

/* NULL is fine. */
void fsdp_assembly_free(struct fsdp_assembly *assembly);

/* The CRC-32 of zip and gzip. Begin with 0; what comes next is added to what was. */
uint32_t fsdp_crc32(uint32_t crc, const unsigned char *bytes, size_t size);

/* Of two consecutive runs, the second one `size` bytes long. */
uint32_t fsdp_crc32_join(uint32_t first, uint32_t second, uint64_t size);

/* SHA-256 of bytes that come in order. */
struct fsdp_sha256;

enum { FSDP_SHA256_BYTES = 32 };

/* NULL when out of memory. */
struct fsdp_sha256 *fsdp_sha256_new(void);
void fsdp_sha256_free(struct fsdp_sha256 *sha256);

/* False: the library refused, which counts as out of memory. */
bool fsdp_sha256_add(struct fsdp_sha256 *sha256, const void *bytes, size_t size);
bool fsdp_sha256_finish(
	struct fsdp_sha256 *sha256, unsigned char ret_digest[FSDP_SHA256_BYTES]);

/*
 * 128 bits that identify a run of bytes: much faster than memory, and not
 * cryptographic. A long run comes in pieces; the same bytes in other pieces have other
 * bits, so who compares must cut alike.
 */
struct fsdp_trait {
	uint64_t words[2];
};

/* What comes next; begin with all zero. */
void fsdp_trait_add(struct fsdp_trait *trait, const unsigned char *bytes, size_t size);

/* What follows on the pieces that made `trait`, as it was made from zero. */
void fsdp_trait_join(struct fsdp_trait *trait, const struct fsdp_trait *next);

/*
 * A line as sha256sum writes it: 64 hex digits, a space, a space or "*", the name. A "\"
 * before the line says that the name has "\\", "\n" and "\r" instead of these bytes.
 *
 * Origin: coreutils, digest.c.
 */
enum { FSDP_SHA256_DIGEST = 32, FSDP_SHA256_HEX = 64 };

struct fsdp_sha256_line {
	unsigned char sha256[FSDP_SHA256_DIGEST];
	struct fsdp_span name; /* within the line */
	bool escaped;          /* fsdp_sha256_unescape makes the name of it */
};

/* The line has no newline at its end. False: it is none. */
bool fsdp_sha256_line_read(struct fsdp_span line, struct fsdp_sha256_line *ret_line);

/* The next line of a text, without its newline and a carriage return before that; the
 * text is moved after it. False: no more lines. */
bool fsdp_sha256_line_next(struct fsdp_span *text, struct fsdp_span *ret_line);

/* The name as it is meant, without "./" in front; room for as many bytes as it has. */
struct fsdp_span fsdp_sha256_unescape(
	const struct fsdp_sha256_line *line, unsigned char *room);

/* The first 64 bytes as hex digits. False: they are not. */
bool fsdp_sha256_digits(
	struct fsdp_span text, unsigned char ret_sha256[FSDP_SHA256_DIGEST]);

/* Of floats so many bytes are a block, and where some will do, one of so many is seen. */
enum { FSDP_SAMPLE_BYTES = 8 << 10, FSDP_SAMPLE_OF = 16 };

/*
 * What is counted of numbers as they come by. Sums are made of sixteen partial ones that
 * the place of a number in its run decides, so equal runs give equal digits, whatever
 * adds them on which machine.
 */
struct fsdp_moments {
	uint64_t count, nan, pos_inf, neg_inf;
	uint64_t bad_index;  /* of the first that is not finite; FSDP_UNKNOWN */
	double min, max;     /* of the finite ones; +inf and -inf if there are none */
	double sum, squares; /* of these; of numbers of 16 bits to six digits */
	/* Set it before the first numbers come: of floats, only blocks of the sample are
	 * added up, which the place in the run decides: of narrow ones fewer, so that as
	 * many numbers are. `summed` are then fewer. */
	bool samples;
	uint64_t summed;            /* finite numbers in the sums */
	uint64_t zeros, subnormals; /* of these */
};

void fsdp_moments_init(struct fsdp_moments *moments);

/* Whether the bytes of a dtype are numbers that can be counted. */
bool fsdp_moments_takes(uint32_t dtype);

/* Little-endian numbers of such a dtype, `count` elements of it: a complex one is two. */
void fsdp_moments_decode(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to);

/* Consecutive numbers of a storage, from byte `at` of their run on. A complex number is
 * two. */
void fsdp_moments_add(struct fsdp_moments *moments, uint32_t dtype, bool big_endian,
	const unsigned char *bytes, size_t size, uint64_t at);

/* The statistics of the next run: its indices already continue. */
void fsdp_moments_join(struct fsdp_moments *moments, const struct fsdp_moments *next);

/*
 * One pass over the bytes of files, for all their consumers: each byte is read once,
 * front to back, into a buffer that fits into the cache, and there it is summed up,
 * inflated, hashed and counted.
 *
 * A file is cut into parts of up to 64 MiB, which threads take in order. Where it is cut
 * follows from its segments alone: one that fits into a part, or into a buffer, is never
 * cut, a longer one only at multiples of these sizes from its beginning. So the
 * counts of a segment do not depend on its position or on the number of threads.
 *
 * Bounds: a buffer of 256 KiB and an inflater a thread; 100 bytes a part.
 */
enum { FSDP_PASS_BUFFER = 256 << 10, FSDP_PASS_PART = 64 << 20, FSDP_PASS_THREADS = 64 };

/* A run of bytes of a file with one purpose: a member of a zip, or the payload of a
 * tensor. Segments ascend and do not overlap. */
struct fsdp_segment {
	uint64_t begin, stored; /* in the file */
	uint64_t size;          /* after inflating */
	uint32_t crc;
	uint32_t owner; /* the caller's */
	bool has_crc, deflated;
};

/* Skipped, true, if it overlaps those before. False: out of memory. */
bool fsdp_segments_add(struct fsdp_vec *segments, const struct fsdp_segment *segment);

/* Bytes of a segment's content that are one piece of a tensor. */
struct fsdp_pass_view {
	uint64_t begin, end; /* within the content */
	size_t segment;
	uint64_t tag;   /* the caller's, */
	uint32_t owner; /* and this */
	uint8_t dtype;
	bool big_endian;
	bool counted; /* its moments are wanted … */
	bool sampled; /* … with sums of some of its numbers: fsdp_moments.samples */
	bool traced;  /* the trait of all of its bytes is wanted */
};

/* What was seen of a view. */
struct fsdp_pass_result {
	struct fsdp_trait trait;     /* if it is wanted */
	struct fsdp_trait sample;    /* of a view that is sampled: of those blocks */
	struct fsdp_moments moments; /* if they are wanted */
};

/* A segment that is not what it should be. */
struct fsdp_pass_bad {
	size_t segment;
	uint32_t crc;             /* kind */
	struct fsdp_error *error; /* NULL: only the CRC differs */
};

struct fsdp_pass_file {
	struct fsdp_source source;
	struct fsdp_segment (*segment)(const void *context, size_t index);
	const void *context;
	size_t segment_count;
	const struct fsdp_pass_view *views; /* by segment, then by begin */
	struct fsdp_pass_result *results;   /* one per view */
	size_t view_count;
	bool hashed; /* the SHA-256 of the file is wanted: one thread reads it */

	/* Afterwards; segments and views that an error truncated are unknown. */
	struct fsdp_error *error;  /* why bytes could not be read, or NULL */
	struct fsdp_pass_bad *bad; /* in order of segments */
	size_t bad_count, bad_room;
	unsigned char digest[FSDP_SHA256_BYTES];
};

struct fsdp_pass_options {
	unsigned jobs;        /* at least 1 */
	uint64_t done, total; /* bytes; `done` is added to */
	void (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
};

/* Fails only if memory ends. The caller releases each file with fsdp_pass_file_done, also
 * after a failure. */
bool fsdp_pass_run(struct fsdp_pass_file *files, size_t count,
	struct fsdp_pass_options *options, struct fsdp_error **ret_error);

void fsdp_pass_file_done(struct fsdp_pass_file *file);

#endif
