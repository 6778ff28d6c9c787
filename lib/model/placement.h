/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MODEL_PLACEMENT_H
#define FSDP_MODEL_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/*
 * Which part of a tensor a rank holds under a list of placements: pure integers in and
 * out. The rule is torch.chunk's: ceil(length / ranks) elements each, the last ones short
 * or empty; an empty part is at the end of its dimension.
 *
 * Origin: torch/distributed/tensor/placement_types.py and _utils.py, PyTorch 2.13.
 */
enum fsdp_placement_kind {
	FSDP_REPLICATE,
	FSDP_SHARD,
	FSDP_STRIDED_SHARD, /* first cut into `factor` parts; each is sharded */
	FSDP_PARTIAL,       /* the full shape, but only a summand */
};

struct fsdp_placed {
	enum fsdp_placement_kind kind;
	int64_t dim;    /* of SHARD and STRIDED_SHARD */
	int64_t factor; /* of STRIDED_SHARD */
};

/* A run of indices along one dimension. */
struct fsdp_run {
	int64_t begin, count;
};

/* The runs of one dimension that a rank owns, in the order in which it stores them. */
struct fsdp_runs {
	struct fsdp_run *runs;
	size_t count;
	int64_t total;
};

/* Bounds the runs of one dimension: more is refused. */
enum { FSDP_RUNS_MAX = 65536 };

/*
 * What the rank at `coordinates` owns along dimension `dim` of length `length`, mesh
 * dimensions taken from left to right. False when memory or FSDP_RUNS_MAX ends, or when
 * the placements make no sense (factor below 1, a mesh size below 1).
 */
bool fsdp_placement_runs(int64_t length, int64_t dim, const struct fsdp_placed *placed,
	const int64_t *mesh_shape, const int64_t *coordinates, size_t mesh_dims,
	struct fsdp_arena *arena, struct fsdp_runs *ret_runs);

#endif
