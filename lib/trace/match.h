/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_MATCH_H
#define FSDP_TRACE_MATCH_H

#include <fsdp/trace.h>

#include "base/arena.h"

/*
 * What several ranks did at the same time. `recordings` are in order of rank; those of
 * other kinds are skipped. False: out of memory.
 */

/* Sets the collectives of traces against each other; fills wait_ns and times_last of each
 * recording. */
bool fsdp_match_collectives(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_matching *ret_matching);

/* As PyTorch compares the first iteration; and where ranks diverge first in any. */
bool fsdp_match_orders(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_divergence *ret_divergence,
	struct fsdp_first_diff *ret_diff);

#endif
