/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STATISTICS_H
#define FSDP_STATISTICS_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What the numbers of tensors come to. They are read in C order of the global shape and
 * added up in blocks that depend on the tensor alone, so the same digits come out for every
 * sharding and any number of threads. It does not change once it is made; it borrows from
 * the checkpoint, which must outlive it.
 */
struct fsdp_statistics;

/** All zero but `size`: all tensors, on one thread. */
struct fsdp_statistics_options {
	size_t size; /* of this struct in the caller's version */

	/* Which tensors, or which components; NULL: all tensors. */
	const uint32_t *tensors;
	size_t tensor_count;

	/* Threads, at most 64; 0: one. */
	unsigned jobs;

	/* Called with how many bytes of how many were read, on one thread at a time. False:
	 * stop. NULL: not called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Tensors that cannot be read, or are not numbers, have an error instead; it fails only if
 * memory ends or `progress` stopped it. Memory: as fsdp_walk, 150 bytes a tensor and as
 * many for each 64 MiB of one. Not of a checkpoint that has sums
 * (fsdp_sum_count). The caller owns *ret_statistics.
 */
FSDP_API bool fsdp_statistics_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_statistics_options *options,
	struct fsdp_statistics **ret_statistics, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_statistics_free(struct fsdp_statistics *statistics);

/** Of numbers: a complex element is two numbers. All zero: no numbers. */
struct fsdp_distribution {
	/* Numbers that were looked at, finite or not. */
	uint64_t count;
	/* Of these: not numbers, and infinities of both signs. */
	uint64_t nan, pos_inf, neg_inf;
	/* Of both signs. */
	uint64_t zeros;
	/* Of the finite ones; 0 if there are none. */
	double min, max;
	/* Of the finite ones; 0 if there are none. */
	double mean;
	/* Sum of the squared differences from the mean; the deviation is computed from
	 * it. */
	double squares;
};

/** Finite ones: those of two disjoint runs of numbers together. The order counts, in the
 * last digits. */
FSDP_API void fsdp_distribution_join(
	struct fsdp_distribution *numbers, const struct fsdp_distribution *more);

/** How many are finite. */
FSDP_API uint64_t fsdp_distribution_finite(const struct fsdp_distribution *numbers);

/** The standard deviation of all finite numbers: the root of the mean square. 0 if no
 * number is finite. */
FSDP_API double fsdp_distribution_deviation(const struct fsdp_distribution *numbers);

/** Parts of a histogram. */
enum { FSDP_STATISTICS_BINS = 16 };

struct fsdp_statistics_row {
	/* Index for fsdp_tensor. */
	uint32_t tensor;
	struct fsdp_distribution numbers;
	/* Why the row has no numbers, or NULL. The object owns it. */
	const struct fsdp_error *error;
	/* FSDP_STATISTICS_BINS counts; NULL: fsdp_statistics_bin was not called. */
	const uint64_t *bins;
};

/** From the least number that is counted to the largest. */
struct fsdp_statistics_span {
	double low, high;
};

/**
 * Reads all tensors once more and counts the finite numbers in each of
 * FSDP_STATISTICS_BINS equal parts of a span: spans[i] for the row i, or (NULL) from its own
 * least number to its largest. A number on a border is in the upper part, the largest in
 * the last one; if a span is a single number, all are in the first. Numbers outside of the
 * span are not counted. The counts are the same on any number of threads. Call it once. A row that
 * cannot be read again has an error; it fails if memory ends or `progress` stopped it.
 */
FSDP_API bool fsdp_statistics_bin(struct fsdp_statistics *statistics,
	const struct fsdp_statistics_span *spans, struct fsdp_error **ret_error);

/** Tensors in the order in which they were given. */
FSDP_API size_t fsdp_statistics_count(const struct fsdp_statistics *statistics);

/** What the numbers of one tensor come to. */
FSDP_API struct fsdp_statistics_row fsdp_statistics_row(
	const struct fsdp_statistics *statistics, size_t index);

#ifdef __cplusplus
}
#endif

#endif
