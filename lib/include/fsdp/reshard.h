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
 * unit, where a plan or the files tell what lies in it, and fills the last shard up; else
 * its parameters are taken to be cut like those of FSDP2, as its SHARDED state dicts are.
 * States of an optimizer that have the shape of their parameter are cut like it. All
 * other tensors are whole on every rank.
 */
struct fsdp_reshard;

enum { FSDP_RESHARD_AUTO = -1, FSDP_RESHARD_WORLD_MOST = 65536 };

struct fsdp_reshard_options {
	size_t size;     /* of this struct, as the caller knows it */
	uint32_t world;  /* ranks, at most FSDP_RESHARD_WORLD_MOST */
	uint32_t copies; /* of the model (HSDP); 0 is 1 */
	uint32_t tp;     /* ranks of tensor parallelism; 0 is 1 */
	int32_t shard_dim; /* of all tensors that have it; AUTO: as they are saved, else 0 */
};

/**
 * Takes time linear in tensors times ranks that are no copies, and in pieces. Memory is
 * linear in ranks times files, 256 MiB at most. Fails if memory ends, or (usage) if world
 * is no multiple of copies times tp.
 */
FSDP_API bool fsdp_reshard_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_reshard_options *options, struct fsdp_reshard **ret_reshard,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_reshard_free(struct fsdp_reshard *reshard);

/** One rank of the new world. Sums saturate at FSDP_UNKNOWN. */
struct fsdp_reshard_rank {
	uint64_t param_bytes;   /* of parameters and buffers */
	uint64_t optim_bytes;   /* of states of optimizers */
	uint64_t other_bytes;   /* of other tensors */
	uint64_t padding_bytes; /* that fill shards up to one length, beside these */
	uint64_t read_bytes;    /* of all pieces of which it needs an element */
	uint64_t pieces;        /* so many */
	uint32_t files;         /* that it opens; FSDP_NONE: too many to be told apart */
};

/** rank must be below the world. */
FSDP_API struct fsdp_reshard_rank fsdp_reshard_rank(
	const struct fsdp_reshard *reshard, uint32_t rank);

/** The next file (fsdp_file) that a rank opens, from *position on, which is moved behind
 * it; begin with 0. FSDP_NONE: there are no more. */
FSDP_API uint32_t fsdp_reshard_file(
	const struct fsdp_reshard *reshard, uint32_t rank, uint32_t *position);

/** A tensor that does not come out even. */
struct fsdp_reshard_cut {
	uint32_t tensor;
	uint32_t dim;   /* that is cut */
	uint32_t ranks; /* that have some of it; the others have none */
};

/** In the order of tensors. */
FSDP_API size_t fsdp_reshard_uneven_count(const struct fsdp_reshard *reshard);
FSDP_API struct fsdp_reshard_cut fsdp_reshard_uneven(
	const struct fsdp_reshard *reshard, size_t index);

/** Whether a rank has nothing of such a tensor. */
FSDP_API bool fsdp_reshard_is_empty(
	const struct fsdp_reshard *reshard, size_t uneven, uint32_t rank);

/** What holds for all ranks. */
struct fsdp_reshard_facts {
	uint64_t cut, whole; /* tensors that are cut, and that every rank has whole */
	uint64_t flat_units; /* units that are cut as flat parameters */
	uint64_t tp_unknown; /* of the cut ones: nothing tells how tp would cut them */
	uint64_t refused;    /* uneven along another dimension than 0: FSDP2 raises */
	int32_t shard_dim;   /* of all that are cut; AUTO: they differ, or none is */
	uint64_t needed_bytes, read_bytes; /* of all ranks together */
};
FSDP_API struct fsdp_reshard_facts fsdp_reshard_facts(const struct fsdp_reshard *reshard);

#ifdef __cplusplus
}
#endif

#endif
