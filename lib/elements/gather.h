/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ELEMENTS_GATHER_H
#define FSDP_ELEMENTS_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fsdp/elements.h>

#include "base/error.h"
#include "elements/strides.h"
#include "io/source.h"

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

	/* Facts of the public function. Pieces count from 0; a source is valid until others were
	 * asked for. The shape of a run's view has one dimension. */
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

#endif
