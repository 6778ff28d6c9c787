/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ELEMENTS_H
#define FSDP_ELEMENTS_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The elements of one tensor in C order of its global shape, whichever way it was cut and
 * stored, as a stream of bytes: little-endian, each as wide as the dtype's storage has
 * it. Of dtypes with several elements in a byte the bytes come as they are.
 *
 * Of replicas the first one that has bytes is read. What cannot be the tensor is
 * refused: elements that no piece holds, pieces that overlap, a sum of which every rank
 * holds a summand.
 *
 * Memory is bounded by 64 MiB beside the checkpoint, whatever the tensor. Nothing bounds
 * the length of the stream but the tensor's own numel, which a small file may claim to be
 * huge (an expanded view): stop when you have enough.
 */
struct fsdp_elements;

/** All zero but `size` and `count` is the whole tensor, as its bytes are. */
struct fsdp_elements_options {
	size_t size;    /* of this struct, as the caller knows it */
	uint64_t first; /* the first element that is wanted, in C order */
	uint64_t count; /* 0: all behind it */
	bool resolve;   /* apply the conjugate and the negative bit */

	/* Only pieces of these ranks, and those of no rank. NULL: of all. */
	const uint32_t *ranks;
	size_t rank_count;

	bool sums; /* sum up the stored bytes as they come by: fsdp_elements_runs */
};

/**
 * The locator must live until fsdp_elements_close, and no other thread may use it
 * meanwhile. A NULL for the options is the whole tensor. Fails if the tensor has no bytes
 * of its own (sparse, or on no device) or its pieces make no sense.
 */
FSDP_API bool fsdp_elements_open(struct fsdp_locator *locator, uint32_t tensor,
	const struct fsdp_elements_options *options, struct fsdp_elements **ret_elements,
	struct fsdp_error **ret_error);

/**
 * The next bytes, always whole elements; they are valid until the next call. At the end
 * there are none. After a failure nothing more can be had.
 */
FSDP_API bool fsdp_elements_next(struct fsdp_elements *elements,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error);

/** Stored bytes of a record that came by one behind the other, out of one piece. */
struct fsdp_elements_run {
	uint32_t file;       /* index for fsdp_file */
	uint32_t crc;        /* CRC-32 of these bytes */
	uint32_t recorded;   /* that the container has for the whole record */
	uint64_t record;     /* where it begins in the file, as stored */
	uint64_t size;       /* of the record, after inflating */
	uint64_t begin, end; /* of the run in there */
};

/**
 * With `sums`: the runs so far, of records with a recorded checksum alone; valid until the
 * next call. A piece that is not read from front to back has none, or a short one. Without
 * it there are none.
 */
FSDP_API const struct fsdp_elements_run *fsdp_elements_runs(
	const struct fsdp_elements *elements, size_t *ret_count);

/** Whether elements of this dtype are numbers: fsdp_elements_numbers. */
FSDP_API bool fsdp_elements_are_numbers(uint32_t dtype);

/** Elements as they come from fsdp_elements_next, as numbers; a complex one is two.
 * Integers beyond 2^53 are rounded. The dtype must be one of numbers. */
FSDP_API void fsdp_elements_numbers(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to);

/** NULL is fine. */
FSDP_API void fsdp_elements_close(struct fsdp_elements *elements);

#ifdef __cplusplus
}
#endif

#endif
