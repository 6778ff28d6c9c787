/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_UNITS_H
#define FSDP_TRACE_KINETO_UNITS_H

#include <fsdp/trace.h>

#include "base/arena.h"
#include "io/stream.h"

/* Without the segments that torch.compile, activation checkpointing and FSDP1 leave in
 * names; `buffer` has room for all of it. Returns the length. */
size_t fsdp_kineto_unit_clean(struct fsdp_span unit, unsigned char *buffer);

/*
 * The interval that contains another one. Only those of the same lane count: a thread, or
 * a process. Of several the shortest is the innermost; of equally long ones that which
 * begins later, then the one with the lower index.
 */
struct fsdp_enclosed {
	int64_t begin, end;
	uint32_t lane;
	uint32_t index; /* the caller's; of those that are asked for, of the answer */
};

/* An interval contains a moment if it begins at it or before and ends after it. */
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

/* Adds up the rows of several recordings; the lists are in the arena. False: out of
 * memory. */
bool fsdp_unit_rows_join(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_unit_times **ret_rows, size_t *ret_count);

/* Whether a file with this beginning is a trace: JSON. Lines of a log may begin with
 * brackets too. */
bool fsdp_trace_is_json(struct fsdp_span head);

/*
 * The names of the units of FSDP in a trace, each once, in order of first appearance and
 * without segments of wrappers: struct fsdp_span, in the arena; the root is empty. Only
 * annotations are looked at, so a trace of any length costs its names. Reading ends at
 * damage.
 *
 * Fails with the kind `no_units` where no unit is named: before PyTorch 2.5, of FSDP1, or
 * without FSDP.
 */
bool fsdp_trace_unit_names(struct fsdp_stream *stream, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_vec *ret_names,
	struct fsdp_error **ret_error);

#endif
