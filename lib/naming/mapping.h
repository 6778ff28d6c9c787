/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_NAMING_MAPPING_H
#define FSDP_NAMING_MAPPING_H

#include <fsdp/model.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"
#include <fsdp/elements.h>

/*
 * Tensors of one naming scheme as another one has them: under other names, cut, joined, with
 * rows in another order or transposed. Its blocks contain the positions
 * of its elements in tensors of the checkpoint.
 */

/* Positions of the elements of one tensor, as nested loops over runs: the outermost loop
 * is that of the block, the innermost a run of contiguous elements. */
struct fsdp_strand {
	uint32_t tensor; /* of the checkpoint */
	uint64_t first;  /* element where it begins, and … */
	uint64_t step;   /* … how much later in each turn of the block */
	uint64_t counts[2], steps[2];
	uint64_t run;
};

/* Turns; in each of them strands follow in order. */
struct fsdp_block {
	uint64_t turns;
	uint64_t turn_numel; /* elements of a turn */
	struct fsdp_strand *strands;
	size_t count;
};

enum { FSDP_MAP_RANKS = 65536 };

/* A tensor that goes in, or comes out. */
struct fsdp_mapped {
	struct fsdp_span name;
	uint32_t tensor; /* of the checkpoint; where several are joined, the first */
	uint32_t dtype;
	const int64_t *shape;
	uint32_t dims;
	uint64_t numel;
	const struct fsdp_block *blocks; /* NULL: it is the tensor as it is stored */
	size_t block_count;

	bool own;      /* goes in: each rank has a slice of its own under this name */
	uint32_t rank; /* whose slice it is */
	unsigned cut;  /* between the two: enum fsdp_map_ranks */
};

/* Whether it is the slice of a rank, and its rank. */
static inline void fsdp_mapped_find_rank(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_mapped *mapped)
{
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, mapped->tensor);
	mapped->own = (tensor.flags & FSDP_TENSOR_RANKS_OWN) && tensor.piece_count != 0;
	if (mapped->own)
		mapped->rank = fsdp_piece(checkpoint, tensor.first_piece).rank;
	mapped->own = mapped->own && mapped->rank < FSDP_MAP_RANKS;
}

/* Where sizes that a map speaks of are looked for, in this order. */
struct fsdp_map_sizes {
	const struct fsdp_named_size *given;
	size_t given_count;
	const struct fsdp_checkpoint *checkpoints[2]; /* their configurations; or NULL */
};

/*
 * Maps a list of tensors, which belong to one checkpoint and are as they are stored. The
 * result is in the order of its sources. With `strict` a tensor that the map has
 * no row for is a failure; else it stays as it is. Slices that ranks have of their own are
 * joined, where the row says how. All is taken from the arena.
 */
bool fsdp_mapping_apply(const struct fsdp_map *map, const struct fsdp_map_sizes *sizes,
	const struct fsdp_mapped *list, size_t count, bool strict,
	struct fsdp_arena *arena, struct fsdp_mapped **ret_list, size_t *ret_count,
	struct fsdp_error **ret_error);

/*
 * The elements of a mapped tensor in C order of its own shape, as a stream of bytes, as
 * fsdp_elements gives those of a stored one. Long runs are passed on as they come; short
 * ones are gathered in a window; their source is read once, or repeatedly if it is longer
 * than the window.
 *
 * Bounds: what fsdp_elements takes, and 32 MiB.
 */
struct fsdp_mapped_elements;

/* `first` and `count` are of the mapped tensor; the blocks must live as long. */
bool fsdp_mapped_open(struct fsdp_locator *locator, const struct fsdp_mapped *mapped,
	uint64_t first, uint64_t count, struct fsdp_mapped_elements **ret_elements,
	struct fsdp_error **ret_error);

/* The next bytes, whole elements, valid until the next call; none at the end. */
bool fsdp_mapped_next(struct fsdp_mapped_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/* Called with the stored bytes that were read (fsdp_elements_runs) when a run was read to its
 * end. */
struct fsdp_mapped_sums {
	bool (*take)(void *context, const struct fsdp_elements_run *runs, size_t count,
		struct fsdp_error **ret_error);
	void *context;
};
void fsdp_mapped_sum(
	struct fsdp_mapped_elements *elements, const struct fsdp_mapped_sums *sums);

/* Bytes that reading all of it comes to: of a packed tensor a window costs all of it. */
uint64_t fsdp_mapped_cost(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_mapped *mapped);

/* NULL is fine. */
void fsdp_mapped_close(struct fsdp_mapped_elements *elements);

#endif
