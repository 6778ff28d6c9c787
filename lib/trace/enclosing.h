/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_ENCLOSING_H
#define FSDP_TRACE_ENCLOSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which interval another one lies in. Only those of the same lane count: a thread, or a
 * process. Of several the shortest is the innermost; of equally long ones that which
 * begins later, then the one with the lower index.
 */
struct fsdp_enclosed {
	int64_t begin, end;
	uint32_t lane;
	uint32_t index; /* the caller's; of those that are asked for, of the answer */
};

/* A moment lies in what begins at it or before and ends behind it. */
static inline struct fsdp_enclosed fsdp_enclosed_moment(
	int64_t moment, uint32_t lane, uint32_t index)
{
	return (struct fsdp_enclosed){ moment, moment + 1, lane, index };
}

/* Sets ret_around[inner.index] to the index of the innermost one around each, or to
 * FSDP_NONE. Sorts both lists. Takes time for n of both like n log n, however they are
 * nested. False: out of memory. */
bool fsdp_enclosing_find(struct fsdp_enclosed *around, size_t around_count,
	struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around);

#endif
