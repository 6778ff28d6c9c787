/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_AFFECTED_H
#define FSDP_ANALYSIS_AFFECTED_H

#include <fsdp/model.h>

#include "base/arena.h"

/*
 * Which tensors and values suffer from a finding that tells a file, a member or a range
 * and no names. The ids of what lies in each file are listed when a finding first asks,
 * file by file; a finding looks at its own file only. Memory is four bytes for each piece
 * and value, eight for each file and five for each name; names are kept in the arena, as
 * many as FSDP_AFFECTED_KEPT for each finding.
 */
struct fsdp_affected {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	uint32_t *ids; /* of pieces, then of values, by file; NULL: not listed yet */
	size_t count;
	size_t *ends;   /* by file: behind the last of its ids */
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
