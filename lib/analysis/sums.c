/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up tensors by rank, file, dtype, role, module or unit.
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "analysis/tally.h"
#include "base/error.h"

struct fsdp_sums {
	enum fsdp_sums_by by;
	const struct fsdp_checkpoint *checkpoint;
	int64_t depth;
	const uint32_t *ranks; /* by rank: the keys; else a key is its group's index */
	size_t count;          /* groups; the last is for what has no key */
	struct {
		struct fsdp_group sum;
		uint32_t last_tensor;
	} groups[];
};

static size_t key_count(const struct fsdp_checkpoint *checkpoint, enum fsdp_sums_by by)
{
	size_t count = 0;

	switch (by) {
	case FSDP_BY_RANK:
		(void)fsdp_checkpoint_ranks(checkpoint, &count);
		return count;
	case FSDP_BY_FILE:
		return fsdp_file_count(checkpoint);
	case FSDP_BY_DTYPE:
		return fsdp_dtype_count();
	case FSDP_BY_ROLE:
		return FSDP_ROLE_COUNT;
	case FSDP_BY_MODULE:
		return fsdp_module_count(checkpoint);
	case FSDP_BY_UNIT:
		return fsdp_unit_count(checkpoint);
	}
	return 0;
}

bool fsdp_sums_new(const struct fsdp_checkpoint *checkpoint, enum fsdp_sums_by by,
	int64_t depth, struct fsdp_sums **ret_sums, struct fsdp_error **ret_error)
{
	size_t keys = key_count(checkpoint, by), ranks;
	struct fsdp_sums *sums;

	sums = calloc(1, sizeof *sums + (keys + 1) * sizeof *sums->groups);
	if (sums == NULL)
		return fsdp_fail_memory(ret_error);
	sums->by = by;
	sums->checkpoint = checkpoint;
	sums->depth = depth;
	sums->count = keys + 1;
	if (by == FSDP_BY_RANK)
		sums->ranks = fsdp_checkpoint_ranks(checkpoint, &ranks);
	for (uint32_t i = 0; i < sums->count; i++) {
		sums->groups[i].sum.key =
			sums->ranks != NULL && i < keys ? sums->ranks[i] : i;
		sums->groups[i].last_tensor = FSDP_NONE;
	}
	sums->groups[keys].sum.key = FSDP_NONE;
	*ret_sums = sums;
	return true;
}

void fsdp_sums_free(struct fsdp_sums *sums)
{
	free(sums);
}

/* The visit at or above this one that has a group of its own. */
static uint32_t module_of(const struct fsdp_sums *sums, uint32_t index)
{
	while (index != FSDP_NONE && sums->depth >= 0) {
		struct fsdp_module module = fsdp_module(sums->checkpoint, index);
		if (module.shown_depth <= (uint64_t)sums->depth)
			break;
		index = module.parent;
	}
	return index;
}

static void add(struct fsdp_sums *sums, size_t group, uint32_t tensor, uint64_t pieces,
	uint64_t numel, uint64_t bytes)
{
	size_t at = group < sums->count ? group : sums->count - 1;
	struct fsdp_group *sum = &sums->groups[at].sum;

	if (sums->groups[at].last_tensor != tensor)
		sum->tensors++;
	sums->groups[at].last_tensor = tensor;
	fsdp_tally(&sum->pieces, pieces);
	fsdp_tally(&sum->numel, numel);
	fsdp_tally(&sum->bytes, bytes);
}

/* Ranks and files hold bytes: a tied name that was stored for itself has some. */
static bool has_bytes(
	const struct fsdp_sums *sums, uint32_t index, const struct fsdp_tensor *tensor)
{
	return fsdp_tensor_counts(tensor) ||
	       (tensor->alias != FSDP_NONE &&
		       fsdp_tensor_storage_next(sums->checkpoint, index) == index);
}

/* Where a piece is stored is looked at only where it matters: that is most of the cost.
 */
static void add_pieces(struct fsdp_sums *sums, uint32_t index,
	const struct fsdp_tensor *tensor, fsdp_piece_filter *takes, void *context)
{
	bool by_rank = sums->by == FSDP_BY_RANK;
	bool counts = has_bytes(sums, index, tensor);

	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		uint32_t at = tensor->first_piece + i, rank;
		uint64_t numel = fsdp_piece_numel(sums->checkpoint, at, &rank);
		size_t group = 0;
		if (!by_rank || takes != NULL) {
			struct fsdp_piece piece = fsdp_piece(sums->checkpoint, at);
			if (takes != NULL && !takes(context, &piece))
				continue;
			group = piece.file;
		}
		if (by_rank)
			group = fsdp_find_sorted(sums->ranks, sums->count - 1, rank);
		if (!counts)
			numel = 0;
		add(sums, group, index, 1, numel,
			fsdp_elements_bytes(tensor->dtype, numel));
	}
}

void fsdp_sums_add(struct fsdp_sums *sums, uint32_t index,
	const struct fsdp_tensor *tensor, fsdp_piece_filter *takes, void *context)
{
	bool counts = fsdp_tensor_counts(tensor);
	size_t group = 0;

	switch (sums->by) {
	case FSDP_BY_RANK:
	case FSDP_BY_FILE:
		add_pieces(sums, index, tensor, takes, context);
		return;
	case FSDP_BY_DTYPE:
		group = tensor->dtype;
		break;
	case FSDP_BY_ROLE:
		group = (size_t)tensor->role;
		break;
	case FSDP_BY_MODULE:
		group = module_of(sums, tensor->module);
		break;
	case FSDP_BY_UNIT:
		group = tensor->unit;
		break;
	}
	add(sums, group, index, tensor->piece_count, counts ? tensor->numel : 0,
		counts ? tensor->bytes : 0);
}

void fsdp_sums_add_counted(struct fsdp_sums *sums, const struct fsdp_sum *sum)
{
	size_t group = sums->count - 1;

	if (sums->by == FSDP_BY_DTYPE && sum->dtype < group)
		group = sum->dtype;
	if (sums->by == FSDP_BY_ROLE && (size_t)sum->role < group)
		group = (size_t)sum->role;
	fsdp_tally(&sums->groups[group].sum.tensors, sum->tensors);
	fsdp_tally(&sums->groups[group].sum.pieces, sum->tensors);
	fsdp_tally(&sums->groups[group].sum.numel, sum->numel);
	fsdp_tally(&sums->groups[group].sum.bytes, sum->bytes);
}

size_t fsdp_sums_count(const struct fsdp_sums *sums)
{
	return sums->count;
}

struct fsdp_group fsdp_sums_group(const struct fsdp_sums *sums, size_t index)
{
	if (index >= sums->count)
		return (struct fsdp_group){ .key = FSDP_NONE };
	return sums->groups[index].sum;
}

struct fsdp_balance fsdp_sums_balance(const struct fsdp_sums *sums)
{
	struct fsdp_balance balance = { .groups = sums->count - 1 };

	for (size_t i = 0; i + 1 < sums->count; i++) {
		uint64_t bytes = sums->groups[i].sum.bytes;
		if (bytes > balance.most || i == 0) {
			balance.most = bytes;
			balance.key = sums->groups[i].sum.key;
		}
		fsdp_tally(&balance.total, bytes);
	}
	balance.is_even = balance.groups > 0 && balance.total != FSDP_UNKNOWN &&
			  balance.total % balance.groups == 0 &&
			  balance.most == balance.total / balance.groups;
	return balance;
}
