/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up what a checkpoint holds: tensors by role, what optimizers keep, how tensors are
 * sharded. One pass over all tensors, or over the sums of those that were only counted.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "analysis/scratch.h"
#include "analysis/tally.h"
#include "base/error.h"

struct fsdp_overview {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name;
	struct fsdp_sums *by_dtype, *by_role, *by_rank;
	struct fsdp_overview_facts facts;
	bool has_ranks; /* some piece tells whose it is */
};

static void add_role(struct fsdp_overview *overview, enum fsdp_role role, uint32_t dtype,
	uint64_t tensors, uint64_t numel, uint64_t bytes)
{
	struct fsdp_role_total *total = &overview->facts.roles[role];

	if (total->tensors == 0)
		total->dtype = dtype;
	else if (total->dtype != dtype)
		total->dtype = FSDP_NONE;
	fsdp_tally(&total->tensors, tensors);
	fsdp_tally(&total->numel, numel);
	fsdp_tally(&total->bytes, bytes);
}

/* ---- kinds of states ---- */

static void add_state(struct fsdp_overview *overview, const struct fsdp_tensor *tensor)
{
	struct fsdp_overview_facts *facts = &overview->facts;
	struct fsdp_span name =
		fsdp_scratch_name(&overview->name, overview->checkpoint, tensor->name);
	struct fsdp_state_kind kind = {
		.dtype = tensor->dtype,
		.is_scalar = tensor->dims == 0,
	};
	struct fsdp_span key = fsdp_span_last(name, '.');
	size_t i;

	memcpy(kind.key, key.data, fsdp_min(key.size, sizeof kind.key - 1));
	for (i = 0; i < facts->state_count; i++)
		if (strcmp(facts->states[i].key, kind.key) == 0 &&
			facts->states[i].dtype == kind.dtype &&
			facts->states[i].is_scalar == kind.is_scalar)
			break;
	if (i == FSDP_OVERVIEW_KINDS) {
		facts->other_states++;
		return;
	}
	if (i == facts->state_count)
		facts->states[facts->state_count++] = kind;
	facts->states[i].tensors++;
}

/* ---- ways of sharding ---- */

/* How the first piece is cut: in which dimension, if it is one. */
static enum fsdp_sharding_how cut_of(const struct fsdp_tensor *tensor,
	const struct fsdp_piece *piece, uint32_t *ret_dim)
{
	uint32_t cuts = 0;

	*ret_dim = FSDP_NONE;
	if (piece->is_run)
		return FSDP_SHARDING_FLAT;
	for (uint32_t i = 0; piece->sizes != NULL && i < piece->dims && i < tensor->dims;
		i++) {
		if (piece->sizes[i] == tensor->shape[i])
			continue;
		*ret_dim = cuts++ == 0 ? i : FSDP_NONE;
	}
	return cuts == 0   ? FSDP_SHARDING_REPLICATED
	       : cuts == 1 ? FSDP_SHARDING_DIM
			   : FSDP_SHARDING_DIMS;
}

/* Pieces with the box of the first one, if each box has as many. */
static uint32_t copies_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, const struct fsdp_piece *first)
{
	size_t size = first->dims * sizeof *first->offsets;
	uint32_t copies = 1, rank;

	if (first->offsets == NULL || first->sizes == NULL)
		return 1;
	/* An even cut: its pieces fill the tensor, so none is there twice. */
	if (tensor->numel % tensor->piece_count == 0 &&
		fsdp_piece_numel(checkpoint, tensor->first_piece, &rank) ==
			tensor->numel / tensor->piece_count)
		return 1;
	for (uint32_t i = 1; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		copies += piece.offsets != NULL && piece.sizes != NULL &&
			  memcmp(piece.offsets, first->offsets, size) == 0 &&
			  memcmp(piece.sizes, first->sizes, size) == 0;
	}
	return tensor->piece_count % copies == 0 ? copies : 1;
}

static void add_whole(struct fsdp_overview *overview, uint32_t rank)
{
	struct fsdp_overview_facts *facts = &overview->facts;

	if (facts->whole == 0)
		facts->whole_rank = rank;
	else if (facts->whole_rank != rank)
		facts->whole_rank = FSDP_NONE;
	facts->whole++;
}

static void count_sharding(struct fsdp_overview *overview, struct fsdp_sharding sharding)
{
	struct fsdp_overview_facts *facts = &overview->facts;
	struct fsdp_sharding *known = facts->shardings;
	size_t i = 0;

	for (; i < facts->sharding_count; i++, known++)
		if (known->how == sharding.how && known->dim == sharding.dim &&
			known->over == sharding.over && known->copies == sharding.copies)
			break;
	if (i == FSDP_OVERVIEW_KINDS) {
		facts->other_shardings++;
		return;
	}
	if (i == facts->sharding_count) {
		*known = sharding;
		facts->sharding_count++;
		return;
	}
	known->tensors++;
	fsdp_tally(&known->pieces, sharding.pieces);
}

static void add_sharding(struct fsdp_overview *overview, const struct fsdp_tensor *tensor)
{
	struct fsdp_sharding sharding = {
		.over = tensor->piece_count,
		.copies = 1,
		.tensors = 1,
		.pieces = tensor->piece_count,
	};
	struct fsdp_piece piece;
	uint32_t rank = FSDP_NONE;

	if (tensor->piece_count == 0)
		return;
	if (tensor->piece_count == 1) {
		if (overview->has_ranks)
			(void)fsdp_piece_numel(
				overview->checkpoint, tensor->first_piece, &rank);
		add_whole(overview, rank);
		return;
	}
	piece = fsdp_piece(overview->checkpoint, tensor->first_piece);
	sharding.how = cut_of(tensor, &piece, &sharding.dim);
	if (sharding.how != FSDP_SHARDING_REPLICATED)
		sharding.copies = copies_of(overview->checkpoint, tensor, &piece);
	sharding.over /= sharding.copies;
	count_sharding(overview, sharding);
}

/* ---- all of it ---- */

static void add_tensors(struct fsdp_overview *overview)
{
	const struct fsdp_checkpoint *checkpoint = overview->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		bool counts = fsdp_tensor_counts(&tensor);
		add_role(overview, tensor.role, tensor.dtype, 1,
			counts ? tensor.numel : 0, counts ? tensor.bytes : 0);
		if (tensor.role == FSDP_ROLE_OPTIM)
			add_state(overview, &tensor);
		add_sharding(overview, &tensor);
		fsdp_sums_add(overview->by_dtype, i, &tensor, NULL, NULL);
		fsdp_sums_add(overview->by_role, i, &tensor, NULL, NULL);
		if (overview->has_ranks)
			fsdp_sums_add(overview->by_rank, i, &tensor, NULL, NULL);
	}
}

/* The same for tensors that are so plain that they were added up while reading. */
static void add_counted(struct fsdp_overview *overview, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct fsdp_sum sum = fsdp_sum(overview->checkpoint, i);
		add_role(
			overview, sum.role, sum.dtype, sum.tensors, sum.numel, sum.bytes);
		fsdp_tally(&overview->facts.whole, sum.tensors);
		fsdp_sums_add_counted(overview->by_dtype, &sum);
		fsdp_sums_add_counted(overview->by_role, &sum);
	}
}

bool fsdp_overview_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_overview **ret_overview, struct fsdp_error **ret_error)
{
	struct fsdp_overview *overview = calloc(1, sizeof *overview);
	size_t sums = fsdp_sum_count(checkpoint), ranks;

	if (overview == NULL)
		return fsdp_fail_memory(ret_error);
	overview->checkpoint = checkpoint;
	overview->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&overview->arena, &overview->budget);
	overview->name.arena = &overview->arena;
	overview->facts.whole_rank = FSDP_NONE;
	(void)fsdp_checkpoint_ranks(checkpoint, &ranks);
	overview->has_ranks = ranks > 0;
	if (!fsdp_sums_new(
		    checkpoint, FSDP_BY_DTYPE, -1, &overview->by_dtype, ret_error) ||
		!fsdp_sums_new(
			checkpoint, FSDP_BY_ROLE, -1, &overview->by_role, ret_error) ||
		!fsdp_sums_new(
			checkpoint, FSDP_BY_RANK, -1, &overview->by_rank, ret_error)) {
		fsdp_overview_free(overview);
		return false;
	}
	if (sums > 0)
		add_counted(overview, sums);
	else
		add_tensors(overview);
	if (overview->name.failed) {
		fsdp_overview_free(overview);
		return fsdp_fail_memory(ret_error);
	}
	*ret_overview = overview;
	return true;
}

void fsdp_overview_free(struct fsdp_overview *overview)
{
	if (overview == NULL)
		return;
	fsdp_sums_free(overview->by_dtype);
	fsdp_sums_free(overview->by_role);
	fsdp_sums_free(overview->by_rank);
	fsdp_arena_done(&overview->arena);
	free(overview);
}

const struct fsdp_overview_facts *fsdp_overview_facts(
	const struct fsdp_overview *overview)
{
	return &overview->facts;
}

const struct fsdp_sums *fsdp_overview_sums(
	const struct fsdp_overview *overview, enum fsdp_sums_by by)
{
	switch (by) {
	case FSDP_BY_DTYPE:
		return overview->by_dtype;
	case FSDP_BY_ROLE:
		return overview->by_role;
	case FSDP_BY_RANK:
		return overview->by_rank;
	case FSDP_BY_FILE:
	case FSDP_BY_MODULE:
	case FSDP_BY_UNIT:
	case FSDP_BY_LAYER:
	case FSDP_BY_PREFIX:
		break;
	}
	return NULL;
}
