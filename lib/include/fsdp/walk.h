/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_WALK_H
#define FSDP_WALK_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Reads the elements of many tensors on several threads, in the order of
 * their files, and shows them to the caller in C order of their global shapes. What the
 * caller sees of a tensor does not depend on how it was cut and stored, nor on the number
 * of threads: blocks are cut at multiples of FSDP_WALK_BLOCK bytes from its first element.
 *
 * A second checkpoint may be read with the first, tensor by tensor, so that the two can
 * be compared.
 *
 * Memory: for each thread and checkpoint 64 MiB and two blocks; 32 bytes a range.
 */
enum { FSDP_WALK_BLOCK = 64 << 10 };

/** A run of elements of one tensor that one thread reads from front to back. */
struct fsdp_walk_range {
	/* Position of the tensor in the list that was given. */
	size_t index;
	/* Of the range among all; those of one tensor ascend, so that partial results can
	 * be joined in their order whatever thread they came from. */
	size_t number;
	/* First element, in C order; a multiple of what range_bytes holds. */
	uint64_t first;
	/* Of elements; 0: the tensor has none, and is visited once nevertheless. */
	uint64_t count;
};

/** What a range is read with. It is the visitor's, for the length of the visit. */
struct fsdp_walker;

/** All zero but `size` and `visit` reads all tensors whole, on one thread. The struct and
 * what it points to are looked at until fsdp_walk returns. */
struct fsdp_walk_options {
	size_t size; /* of this struct in the caller's version */

	/* Which tensors, or components; each may be there more than once. NULL: all
	 * tensors. */
	const uint32_t *tensors;
	size_t tensor_count;

	/* For each of them its counterpart in another checkpoint, of as many elements, or
	 * FSDP_NONE. NULL: no counterparts. */
	const struct fsdp_checkpoint *other;
	const uint32_t *others;

	/* Tensors are cut into ranges of so many bytes, a multiple of FSDP_WALK_BLOCK, if
	 * they can be read from there; 0: not cut. */
	uint64_t range_bytes;

	/* Threads, at most 64; 0: one. What visitors are shown does not depend on it. */
	unsigned jobs;

	/* Called once, before the first visit, with the number of ranges. False: out of
	 * memory. NULL: it is not asked. */
	bool (*prepare)(void *context, size_t range_count);

	/*
	 * Called for each range on any of the threads, for several at a time, in no
	 * order. It asks for the elements with fsdp_walk_next until there are no more, or
	 * leaves the rest.
	 */
	void (*visit)(void *context, struct fsdp_walker *walker,
		const struct fsdp_walk_range *range);
	void *context;

	/* Called with how many bytes of how many were read, on one thread at a time. False:
	 * stop; ranges that are not started are not visited. NULL: not called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Visits all ranges, and returns when all visits are over. Fails if memory ends before the
 * first one, or, with FSDP_ERROR_SYSTEM, when `progress` stopped it. What cannot be read
 * is the visitor's to keep. The checkpoints must have no sums (fsdp_sum_count).
 */
FSDP_API bool fsdp_walk(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_walk_options *options, struct fsdp_error **ret_error);

/**
 * The next elements of the range, little-endian, conjugate and negative bits applied: one
 * block, less of it at the end of the tensor, nothing when the range is over. Valid until
 * the next call. Of dtypes with several elements in a byte the bytes come as they are.
 * Fails as fsdp_elements_open and fsdp_elements_next do, or, with FSDP_ERROR_LIMIT, if the
 * tensor claims more elements than are stored, beyond the limit `expanded-bytes`. After a
 * failure nothing more can be had.
 */
FSDP_API bool fsdp_walk_next(struct fsdp_walker *walker, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/** The same of the counterpart, which must be there: the k-th call gives as many elements
 * as the k-th call of fsdp_walk_next. A block holds FSDP_WALK_BLOCK bytes of the wider
 * ones then. */
FSDP_API bool fsdp_walk_next_other(struct fsdp_walker *walker,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error);

/**
 * The tensors in the order in which they are read: by the file and the place of their first
 * piece. `order` has `count` positions in the list, which it is filled with. Fails only
 * when memory ends.
 */
FSDP_API bool fsdp_walk_order(const struct fsdp_checkpoint *checkpoint,
	const uint32_t *tensors, size_t count, size_t *ret_order,
	struct fsdp_error **ret_error);

#ifdef __cplusplus
}
#endif

#endif
