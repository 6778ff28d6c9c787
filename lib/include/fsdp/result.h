/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_RESULT_H
#define FSDP_RESULT_H

#include <fsdp/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An earlier JSON result of this program, read back: what `replay --json` wrote. It does
 * not change once it is open, so any number of threads may look. Only what a comparison
 * of two runs needs is kept. */
struct fsdp_result;

/** What was spent on one type of call, over all ranks. */
struct fsdp_result_type {
	/* "all_gather", "compute", …; lives as long as the result. */
	struct fsdp_span name;
	/* Calls of it. */
	uint64_t count;
	/* What they took together, in nanoseconds; FSDP_ABSENT if it did not fit. */
	int64_t sum_ns;
};

/**
 * Reads the file, plain or compressed; "-" is standard input. The caller owns
 * *ret_result. Fails, with the path in the error, if it cannot be read, is not a result of
 * this program, or that of another command. Memory is bounded by the default of the limit
 * `memory`.
 */
FSDP_API bool fsdp_result_open(
	const char *path, struct fsdp_result **ret_result, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_result_free(struct fsdp_result *result);

/** Types, in the order of the result. 0 of a result in which nothing was timed. */
FSDP_API size_t fsdp_result_type_count(const struct fsdp_result *result);

/** The index must be below the count. */
FSDP_API struct fsdp_result_type fsdp_result_type(
	const struct fsdp_result *result, size_t index);

#ifdef __cplusplus
}
#endif

#endif
