/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_RESHARD_H
#define FSDP_RESHARD_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What each rank of another world size would hold of a checkpoint, and what it would read:
 * PyTorch's arithmetic, done on the facts. Nothing is read and nothing written.
 *
 * FSDP2 cuts each parameter by itself along one dimension into parts of one length, the
 * last ones shorter or empty, as torch.chunk does. FSDP1 cuts the flat parameter of each
 * unit, if a plan or the files contain its layout, and pads the last shard; else
 * its parameters are assumed to be cut like those of FSDP2, as its SHARDED state dicts are.
 * States of an optimizer that have the shape of their parameter are cut like it. All
 * other tensors are whole on every rank.
 */
struct fsdp_reshard;

/** For shard_dim: as they are saved. And the most ranks that are asked about at once. */
enum { FSDP_RESHARD_AUTO = -1, FSDP_RESHARD_WORLD_MOST = 65536 };

struct fsdp_reshard_options {
	size_t size; /* of this struct in the caller's version */
	/* Ranks of the new run, at most FSDP_RESHARD_WORLD_MOST. */
	uint32_t world;
	/* Copies of the model, each sharded over world / copies ranks (HSDP, or the
	 * degree of replication of a device mesh); 0 is 1. */
	uint32_t copies;
	/* Ranks of tensor parallelism, which cut a parameter before FSDP does; 0 is 1. */
	uint32_t tp;
	/* Along which dimension all tensors are cut that have it; AUTO: as they are
	 * saved, else 0. */
	int32_t shard_dim;
};

/**
 * Takes time linear in tensors times ranks that are not copies, and in pieces. Memory is
 * linear in ranks times files, 256 MiB at most. Fails if memory ends, or (usage) if world
 * is not a multiple of copies times tp.
 */
FSDP_API bool fsdp_reshard_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_reshard_options *options, struct fsdp_reshard **ret_reshard,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_reshard_free(struct fsdp_reshard *reshard);

/** One rank of the new world. Sums saturate at FSDP_UNKNOWN. */
struct fsdp_reshard_rank {
	/* Of parameters and buffers that it would hold, */
	uint64_t param_bytes;
	/* of states of optimizers, */
	uint64_t optim_bytes;
	/* and of other tensors. */
	uint64_t other_bytes;
	/* Further bytes that only pad shards to one length. */
	uint64_t padding_bytes;
	/* Of all pieces with an element that it needs: a loader reads complete pieces. */
	uint64_t read_bytes;
	/* How many pieces these are. */
	uint64_t pieces;
	/* Files that it opens; FSDP_NONE: too many to be told apart within the memory. */
	uint32_t files;
};

/** rank must be below the world. */
FSDP_API struct fsdp_reshard_rank fsdp_reshard_rank(
	const struct fsdp_reshard *reshard, uint32_t rank);

/** The next file (fsdp_file) that a rank opens, from *position on, which is moved after
 * it; start with 0. FSDP_NONE: no more. */
FSDP_API uint32_t fsdp_reshard_file(
	const struct fsdp_reshard *reshard, uint32_t rank, uint32_t *position);

/** A tensor that does not come out even: ranks hold different numbers of its rows, some
 * of them maybe none. */
struct fsdp_reshard_cut {
	uint32_t tensor;
	/* The dimension that is cut. */
	uint32_t dim;
	/* Ranks that have some of it; the others have none. */
	uint32_t ranks;
};

/** In the order of tensors. The index must be below the count. */
FSDP_API size_t fsdp_reshard_uneven_count(const struct fsdp_reshard *reshard);
FSDP_API struct fsdp_reshard_cut fsdp_reshard_uneven(
	const struct fsdp_reshard *reshard, size_t index);

/** Whether a rank has nothing of such a tensor. `uneven` is an index for
 * fsdp_reshard_uneven. */
FSDP_API bool fsdp_reshard_is_empty(
	const struct fsdp_reshard *reshard, size_t uneven, uint32_t rank);

/** What holds for all ranks. */
struct fsdp_reshard_facts {
	/* Tensors that are cut, and tensors that every rank has whole. */
	uint64_t cut, whole;
	/* Units that are cut as flat parameters. */
	uint64_t flat_units;
	/* Of the cut ones: their tensor-parallel placement is unknown, and they are assumed
	 * to have none. */
	uint64_t tp_unknown;
	/* Uneven along another dimension than 0: FSDP2 raises. */
	uint64_t refused;
	/* Of all that are cut; AUTO: they differ, or no tensor is cut. */
	int32_t shard_dim;
	/* Of all ranks together: bytes of the checkpoint that they own, and bytes that they
	 * read. */
	uint64_t needed_bytes, read_bytes;
};
FSDP_API struct fsdp_reshard_facts fsdp_reshard_facts(const struct fsdp_reshard *reshard);

#ifdef __cplusplus
}
#endif

#endif
