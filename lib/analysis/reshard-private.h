/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_RESHARD_PRIVATE_H
#define FSDP_ANALYSIS_RESHARD_PRIVATE_H

#include <fsdp/reshard.h>

#include "base/arena.h"

/* For reshard.c and reshard-cut.c. */

/* How one tensor would be cut: by tensor parallelism first, then among the shards. */
struct fsdp_new_cut {
	bool is_cut;
	uint32_t dim;    /* among the shards */
	uint32_t tp_dim; /* FSDP_NONE: whole on all ranks of tensor parallelism */
	bool tp_unknown; /* it may be sharded, in an unknown dimension */
};

/* A run of rows: what one rank has of a dimension. */
struct fsdp_rows {
	int64_t start, count;
};

/* What torch.chunk gives part `index` of `parts`. */
struct fsdp_rows fsdp_chunk(struct fsdp_rows rows, uint32_t parts, uint32_t index);

/* How the parameters of a checkpoint were cut. */
struct fsdp_old_cuts {
	bool some;      /* some are in several pieces */
	bool along_0;   /* some along dimension 0 and no other */
	bool along_one; /* some along one other dimension */
	bool along_two; /* some along two */
};

/* Adds what the pieces of one parameter show. */
void fsdp_note_old_cut(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *param, struct fsdp_old_cuts *cuts);

struct fsdp_new_cut fsdp_cut_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, const struct fsdp_reshard_options *options,
	const struct fsdp_old_cuts *old, struct fsdp_span name);

/* Whether a tensor has pieces that hold parts of it. */
bool fsdp_is_in_parts(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor);

#endif
