/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes which part of each module one rank stores.
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "analysis/tally.h"
#include "base/error.h"

/* Of one visit and all below: what its tensors have, and the most of it on one rank. */
struct share {
	uint64_t bytes, rank_bytes;
};

struct fsdp_shares {
	const struct fsdp_checkpoint *checkpoint;
	size_t count;
	bool unknown; /* of some tensor, and so of all */
	struct share modules[];
};

/* An even share of a tensor, or FSDP_UNKNOWN. */
static uint64_t share_of_unit(
	const struct fsdp_shares *shares, const struct fsdp_tensor *tensor)
{
	uint32_t ranks = 0;

	if (tensor->unit != FSDP_NONE)
		ranks = fsdp_unit(shares->checkpoint, tensor->unit).shard_world_size;
	if (ranks == 0 || ranks == FSDP_NONE)
		return FSDP_UNKNOWN;
	return tensor->bytes / ranks + (tensor->bytes % ranks != 0);
}

/* The most that one rank holds of a tensor, or FSDP_UNKNOWN. A flat parameter is cut
 * evenly, wherever that cuts the parameters in it: each counts with its share, for one
 * rank holds most of this and another one most of that. */
static uint64_t rank_bytes(
	const struct fsdp_shares *shares, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = shares->checkpoint;
	uint64_t most = 0;
	bool known = false;

	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		uint32_t index = tensor->first_piece + i, rank;
		uint64_t numel = fsdp_piece_numel(checkpoint, index, &rank);
		uint64_t bytes = fsdp_elements_bytes(tensor->dtype, numel);
		if (fsdp_piece(checkpoint, index).is_run)
			return share_of_unit(shares, tensor);
		known |= rank != FSDP_NONE;
		if (bytes > most)
			most = bytes;
	}
	return known ? most : share_of_unit(shares, tensor);
}

/* The lowest visit above both. */
static uint32_t meet(const struct fsdp_shares *shares, uint32_t a, uint32_t b)
{
	while (a != b) {
		struct fsdp_module left = fsdp_module(shares->checkpoint, a),
				   right = fsdp_module(shares->checkpoint, b);
		if (left.depth < right.depth)
			b = right.parent;
		else
			a = left.parent;
	}
	return a;
}

/* As parameters and bytes are counted: each name where it is, and where two names of one
 * parameter meet it is taken back. What wraps comes out right in the sum. */
static void add_tensor(
	struct fsdp_shares *shares, uint32_t module, const struct fsdp_tensor *tensor)
{
	uint64_t most = rank_bytes(shares, tensor);
	uint32_t tied = FSDP_NONE;

	if (tensor->role == FSDP_ROLE_BUFFER)
		return;
	shares->unknown |= most == FSDP_UNKNOWN;
	shares->modules[module].bytes += tensor->bytes;
	shares->modules[module].rank_bytes += most;
	if (tensor->alias != FSDP_NONE)
		tied = fsdp_tensor(shares->checkpoint, tensor->alias).module;
	if (tied == FSDP_NONE)
		return;
	tied = meet(shares, module, tied);
	shares->modules[tied].bytes -= tensor->bytes;
	shares->modules[tied].rank_bytes -= most;
}

static void add_module(struct fsdp_shares *shares, uint32_t index)
{
	struct fsdp_module module = fsdp_module(shares->checkpoint, index);

	for (uint32_t i = 0; i < module.tensor_count; i++) {
		uint32_t tensor = fsdp_module_tensor(shares->checkpoint, &module, i);
		struct fsdp_tensor facts = fsdp_tensor(shares->checkpoint, tensor);
		add_tensor(shares, index, &facts);
	}
}

bool fsdp_shares_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_shares **ret_shares, struct fsdp_error **ret_error)
{
	size_t count = fsdp_module_count(checkpoint);
	struct fsdp_shares *shares =
		calloc(1, sizeof *shares + count * sizeof *shares->modules);

	if (shares == NULL)
		return fsdp_fail_memory(ret_error);
	shares->checkpoint = checkpoint;
	shares->count = count;
	for (uint32_t i = 0; i < count && !shares->unknown; i++)
		add_module(shares, i);
	for (size_t i = count; i-- > 1;) {
		uint32_t above = fsdp_module(checkpoint, (uint32_t)i).parent;
		shares->modules[above].bytes += shares->modules[i].bytes;
		shares->modules[above].rank_bytes += shares->modules[i].rank_bytes;
	}
	*ret_shares = shares;
	return true;
}

void fsdp_shares_free(struct fsdp_shares *shares)
{
	free(shares);
}

/* If the bytes differ from those of the module, the plan lists more, or ties that no file records. */
uint64_t fsdp_shares_of(const struct fsdp_shares *shares, uint32_t module)
{
	if (module >= shares->count || shares->unknown ||
		shares->modules[module].bytes !=
			fsdp_module(shares->checkpoint, module).bytes)
		return FSDP_UNKNOWN;
	return shares->modules[module].rank_bytes;
}
