/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUPS_H
#define GROUPS_H

#include "front/command.h"
#include "part/name-buffer.h"
#include "front/select.h"

/* Sums over tensors or pieces that have something in common. */
enum group_by {
	BY_RANK,
	BY_FILE,
	BY_DTYPE,
	BY_ROLE,
	BY_MODULE,
};

struct group {
	uint64_t tensors, pieces;
	uint64_t numel, bytes; /* logical; a tensor with an alias counts once */
	uint32_t last_tensor;
};

/* One group for each possible key, and a last one for what has none. */
struct grouping {
	enum group_by by;
	const struct fsdp_checkpoint *checkpoint;
	struct group *groups;
	uint32_t count;
	const uint32_t *ranks;
	int64_t depth; /* BY_MODULE: the deepest level that is a key of its own; -1: any
			*/
};

/* False: out of memory. */
bool grouping_init(struct grouping *grouping, enum group_by by,
	const struct fsdp_checkpoint *checkpoint, int64_t depth);
void grouping_done(struct grouping *grouping);

/* Adds a tensor, or those of its pieces that are selected (NULL: all). */
void grouping_add(struct grouping *grouping, uint32_t tensor,
	const struct fsdp_tensor *facts, struct selection *selection);

/* Tensors that were added up already, by dtype or by role. */
void grouping_add_sum(struct grouping *grouping, const struct fsdp_sum *sum);

/* What a group has in common; null for the last. The text lives in buffer. */
struct value grouping_key(const struct grouping *grouping, uint32_t group,
	struct name_buffer *buffer, bool raw);

#endif
