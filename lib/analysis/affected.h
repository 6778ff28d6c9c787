/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_AFFECTED_H
#define FSDP_ANALYSIS_AFFECTED_H

#include <fsdp/model.h>

#include "base/arena.h"

/*
 * Which tensors and values suffer from a finding that tells a file, a member or a range
 * and no names. What lies in each file is listed once, sorted by its place; a finding
 * looks at its own file only. Memory is linear in pieces and values, names are kept in
 * the arena, as many as FSDP_AFFECTED_KEPT for each finding.
 */
struct fsdp_affected {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	struct fsdp_content *contents; /* of all files, by file; NULL: not listed yet */
	size_t count;
	uint32_t *seen; /* by number of a name: the last question that had it */
	uint32_t question;
	uint64_t work; /* contents that were looked at */
};

void fsdp_affected_init(struct fsdp_affected *affected,
	const struct fsdp_checkpoint *checkpoint, struct fsdp_arena *arena);

/* Fills `affected` and `affected_count` of the finding if it has none and they follow
 * from its place, and with them `lost_bytes` if none of it is stored twice. False: out of memory. Beyond a bounded amount of work findings stay as
 * they are. */
bool fsdp_affected_fill(struct fsdp_affected *affected, struct fsdp_finding *finding);

#endif
