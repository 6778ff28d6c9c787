/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ELEMENTS_DATA_SCAN_H
#define FSDP_ELEMENTS_DATA_SCAN_H

#include "base/arena.h"
#include "base/error.h"
#include "elements/content-hash.h"
#include "elements/element-statistics.h"
#include "io/source.h"

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

/* Left out, true, if it overlaps those before. False: out of memory. */
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

	/* Afterwards; of segments and views that were cut off by an error nothing is
	 * known. */
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
