/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_JOIN_H
#define FSDP_TRACE_JOIN_H

#include "trace/event.h"

/* What the recordings of a set say together. Lives in the arena. */
struct fsdp_joined {
	struct fsdp_arena *arena;
	struct fsdp_recording **by_rank; /* in order of rank */
	size_t count;
	struct fsdp_type_times *types;
	size_t type_count;
	struct fsdp_matching matching;
	struct fsdp_timeline timeline;
	struct fsdp_divergence divergence;
	struct fsdp_first_diff diff;
	struct fsdp_findings findings; /* about all of them */
};

/* Joins at least one recording that was read. False: out of memory. */
bool fsdp_trace_join(struct fsdp_trace_reading *readings, size_t count,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_joined *ret_joined, struct fsdp_error **ret_error);

/* What a recording is part of. */
const struct fsdp_trace_reading *fsdp_trace_reading_of(
	const struct fsdp_recording *recording);

#endif
