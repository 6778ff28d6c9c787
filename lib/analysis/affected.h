/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_AFFECTED_H
#define FSDP_ANALYSIS_AFFECTED_H

#include <fsdp/model.h>

#include "base/arena.h"

/*
 * Tensors and values that are affected by a finding with a file, a member or a range but without names. The ids of each
 * file's contents are listed when a finding first needs them; a finding reads only its own file. Memory: four bytes per
 * piece and value, eight per file, five per name. Names are kept in the arena, at most FSDP_AFFECTED_KEPT per finding.
 */
struct fsdp_affected {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	uint32_t *ids; /* of pieces, then of values, by file; NULL: not listed yet */
	size_t count;
	size_t *ends;   /* by file: end of its ids */
	uint32_t *seen; /* by number of a name: the last question that had it */
	bool *once;     /* by tensor that was seen: no element is stored twice */
	uint32_t question;
	uint64_t work; /* contents that were looked at */
};

void fsdp_affected_init(struct fsdp_affected *affected,
	const struct fsdp_checkpoint *checkpoint, struct fsdp_arena *arena);

/* Fills `affected` and `affected_count` of the finding if it has none and they follow
 * from its place, and with them `affected_bytes` if none of it is stored twice. False: out of
 * memory. Beyond a bounded amount of work findings stay as they are. */
bool fsdp_affected_fill(struct fsdp_affected *affected, struct fsdp_finding *finding);

#endif
