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
 * Bytes as they were found in a file: not terminated, not escaped, not necessarily UTF-8.
 * Print them with "%.*s" only after they were escaped: they may hold zero bytes, newlines
 * and the control sequences of terminals.
 *
 * A span owns nothing: the bytes belong to an error, a checkpoint or a buffer of the
 * caller, and the function that hands a span out says how long they stay.
 *
 * An absent span has data == NULL; an empty one has data != NULL, size == 0. So a name
 * that is empty can be told apart from a name that is not there.
 */
struct fsdp_span {
	/* The first byte, or NULL if the span is absent. */
	const unsigned char *data;
	/* In bytes; 0 if the span is absent. */
	size_t size;
};

/** What a 64-bit number means when it is not known: a size, an offset, a sum that does
 * not fit. No real one can have this value, since no file is that long. */
#define FSDP_UNKNOWN UINT64_MAX

/** What an id (module, unit, tensor, file, rank …) means when there is none. Lists never
 * hold so many entries that an index could be equal to it. */
#define FSDP_NONE UINT32_MAX

#ifdef __cplusplus
}
#endif

#endif
