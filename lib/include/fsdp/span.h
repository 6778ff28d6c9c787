/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SPAN_H
#define FSDP_SPAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks what the shared library exports; everything else is hidden. */
#if defined(__GNUC__)
#define FSDP_API __attribute__((visibility("default")))
#else
#define FSDP_API
#endif

/**
 * Bytes as they were found in a file: not terminated, not escaped, not
 * necessarily UTF-8. Escape them before you show them. A span owns
 * nothing: the bytes belong to an error, a checkpoint, a buffer of the caller.
 *
 * An absent span has data == NULL; an empty one has data != NULL, size == 0.
 */
struct fsdp_span {
	const unsigned char *data;
	size_t size;
};

/** What a 64-bit number means when it is not known: a size, an offset, a sum. */
#define FSDP_UNKNOWN UINT64_MAX

/** What an id (module, unit, tensor, file, rank …) means when there is none. */
#define FSDP_NONE UINT32_MAX

#ifdef __cplusplus
}
#endif

#endif
