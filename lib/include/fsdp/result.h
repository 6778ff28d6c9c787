/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_RESULT_H
#define FSDP_RESULT_H

#include <fsdp/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An earlier JSON result of this program, read back: what `replay --json` wrote.
 */
struct fsdp_result;

struct fsdp_result_type {
	struct fsdp_span name;
	uint64_t count;
	int64_t sum_ns; /* FSDP_ABSENT if it did not fit */
};

/** Fails if it is something else, or the result of another command. */
FSDP_API bool fsdp_result_open(
	const char *path, struct fsdp_result **ret_result, struct fsdp_error **ret_error);
FSDP_API void fsdp_result_free(struct fsdp_result *result);

FSDP_API size_t fsdp_result_type_count(const struct fsdp_result *result);
FSDP_API struct fsdp_result_type fsdp_result_type(
	const struct fsdp_result *result, size_t index);

#ifdef __cplusplus
}
#endif

#endif
