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
 * Of replicas the first one that has bytes is read. What cannot be the tensor is refused:
 * elements that no piece holds, pieces that overlap, a sum with one summand on
 * each rank.
 *
 * Memory is bounded by 64 MiB in addition to the checkpoint, whatever the tensor. Nothing bounds
 * the length of the stream but the tensor's own numel, which a small file may claim to be
 * huge (an expanded view): stop when you have enough.
 *
 * A reader in the usual form:
 *
 *     struct fsdp_span bytes;
 *     if (!fsdp_elements_open(locator, tensor, NULL, &elements, &error))
 *             return false;
 *     while ((good = fsdp_elements_next(elements, &bytes, &error)) && bytes.size != 0)
 *             use(bytes);
 *     fsdp_elements_close(elements);
 */
struct fsdp_elements;

/** All zero but `size` and `count`: all elements of the tensor, as stored. */
struct fsdp_elements_options {
	size_t size; /* of this struct in the caller's version */
	/* The first element that is wanted, in C order. Past the end nothing comes. */
	uint64_t first;
	/* How many; 0: all after it. */
	uint64_t count;
	/* Apply the conjugate and the negative bit, so that the bytes are the tensor's
	 * values and not those of the storage it looks at. */
	bool resolve;

	/* Only pieces of these ranks, and those of no rank. NULL: of all. */
	const uint32_t *ranks;
	size_t rank_count;

	/* Sum up the stored bytes as they come by (fsdp_elements_runs). */
	bool sums;
};

/**
 * The locator must live until fsdp_elements_close, and no other thread may use it
 * meanwhile. NULL for the options: all elements. Fails if the tensor has no bytes
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

/** Consecutive stored bytes of a record, from one piece. If a
 * run covers a complete record, its checksum can be compared with the recorded one, and the
 * bytes were read once for both purposes. */
struct fsdp_elements_run {
	/* Index for fsdp_file. */
	uint32_t file;
	/* CRC-32 of the bytes of this run, as zip has it. */
	uint32_t crc;
	/* The container's value for the complete record. */
	uint32_t recorded;
	/* Where the record begins in the file, as stored. */
	uint64_t record;
	/* Of the record, after inflating. */
	uint64_t size;
	/* Position of the run in these bytes; all of it: 0 to size. */
	uint64_t begin, end;
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
 * Integers beyond 2^53 are rounded. The dtype must be one of numbers. `to` has room for
 * count numbers, twice as many of a complex dtype. */
FSDP_API void fsdp_elements_numbers(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to);

/** NULL is fine. */
FSDP_API void fsdp_elements_close(struct fsdp_elements *elements);

/** Whether a piece of the tensor is stored packed: then an element costs as much as all that
 * its storage has before it. Takes time linear in the tensor's pieces. */
FSDP_API bool fsdp_tensor_is_packed(
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor);

/**
 * What views repeat, counted for one answer before its elements are read: a view may see
 * what is stored once any number of times, and several views the same. What goes beyond the
 * stored bytes that are looked at has the limit `expanded-bytes`, which follows the input
 * unless the caller chose it: 128 MiB, and 64 bytes for each byte of the files.
 */
struct fsdp_repeats;

/** A bit for each storage; the caller frees it. Fails if memory ends. */
FSDP_API bool fsdp_repeats_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_repeats **ret_repeats, struct fsdp_error **ret_error);

/** So many bytes of elements of a tensor are to be read. Fails, and does not count them, if
 * they are too many (FSDP_ERROR_LIMIT). Takes time linear in the tensor's pieces. */
FSDP_API bool fsdp_repeats_take(struct fsdp_repeats *repeats, uint32_t tensor,
	uint64_t bytes, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_repeats_free(struct fsdp_repeats *repeats);

#ifdef __cplusplus
}
#endif

#endif
