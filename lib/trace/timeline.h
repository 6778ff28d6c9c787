/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_TIMELINE_H
#define FSDP_TRACE_TIMELINE_H

#include <fsdp/trace.h>

#include "base/arena.h"
#include "trace/types.h"

/*
 * What the time of one rank went to, in a fixed number of cells however long it took: a
 * sum for each type, and one for idle time. The ranks of a set are shown on one axis of
 * fewer cells, so that these are fine enough to be put there.
 */
enum { FSDP_STRIP_CELLS = 512, FSDP_STRIP_IDLE = FSDP_TIME_COUNT, FSDP_STRIP_TYPES };

struct fsdp_strip {
	int64_t begin_ns, end_ns, cell_ns; /* cell_ns 0: unknown */
	int64_t (*sums)[FSDP_STRIP_TYPES];
};

/* Zeroed sums from begin to end, which comes after it. False: out of memory. */
bool fsdp_strip_init(struct fsdp_strip *strip, int64_t begin_ns, int64_t end_ns,
	struct fsdp_arena *arena);

/* Times outside are skipped. */
void fsdp_strip_add(struct fsdp_strip *strip, unsigned type, int64_t begin, int64_t end);

/* What was added as FSDP_STRIP_IDLE was busy; the rest of each cell is idle. */
void fsdp_strip_settle_idle(struct fsdp_strip *strip);

/* Puts the strips of recordings that have one on the axis they share, each from its own
 * start unless clocks agree; those of others are of 0 ns. False: out of memory. */
bool fsdp_timeline_make(struct fsdp_recording *const *recordings,
	const struct fsdp_strip *const *strips, size_t count, bool clocks_agree,
	struct fsdp_arena *arena, struct fsdp_timeline *ret_timeline);

#endif
