/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how to add up tensors by rank, file, dtype, role or module. Knows nothing of how
 * sums are shown.
 */
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/groups.h"
#include "part/tensor-row.h"

static size_t key_count(struct grouping *grouping)
{
	size_t count = 0;

	switch (grouping->by) {
	case BY_RANK:
		grouping->ranks = fsdp_checkpoint_ranks(grouping->checkpoint, &count);
		return count;
	case BY_FILE:
		return fsdp_file_count(grouping->checkpoint);
	case BY_DTYPE:
		return fsdp_dtype_count();
	case BY_ROLE:
		return FSDP_ROLE_COUNT;
	case BY_MODULE:
		return fsdp_module_count(grouping->checkpoint);
	}
	return 0;
}

bool grouping_init(struct grouping *grouping, enum group_by by,
	const struct fsdp_checkpoint *checkpoint, int64_t depth)
{
	*grouping =
		(struct grouping){ .by = by, .checkpoint = checkpoint, .depth = depth };
	grouping->count = (uint32_t)key_count(grouping) + 1;
	grouping->groups = calloc(grouping->count, sizeof *grouping->groups);
	if (grouping->groups == NULL)
		return false;
	for (uint32_t i = 0; i < grouping->count; i++)
		grouping->groups[i].last_tensor = FSDP_NONE;
	return true;
}

void grouping_done(struct grouping *grouping)
{
	free(grouping->groups);
	grouping->groups = NULL;
}

static uint32_t rank_slot(const struct grouping *grouping, uint32_t rank)
{
	uint32_t low = 0, high = grouping->count - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (grouping->ranks[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < grouping->count - 1 && grouping->ranks[low] == rank)
		return low;
	return grouping->count - 1;
}

static uint32_t module_slot(const struct grouping *grouping, uint32_t index)
{
	while (index != FSDP_NONE && grouping->depth >= 0) {
		struct fsdp_module module = fsdp_module(grouping->checkpoint, index);
		if (module.shown_depth <= (uint64_t)grouping->depth)
			break;
		index = module.parent;
	}
	return index;
}

static void add(struct grouping *grouping, uint32_t slot, uint32_t tensor,
	uint64_t pieces, uint64_t numel, uint64_t bytes)
{
	struct group *group =
		&grouping->groups[slot < grouping->count ? slot : grouping->count - 1];

	if (group->last_tensor != tensor)
		group->tensors++;
	group->last_tensor = tensor;
	group->pieces += pieces;
	group->numel += numel;
	group->bytes += bytes;
}

/* Ranks and files hold bytes: a tied name that was stored for itself has some. */
static bool has_bytes(
	const struct grouping *grouping, uint32_t tensor, const struct fsdp_tensor *facts)
{
	return tensor_counts(facts) ||
	       (facts->alias != FSDP_NONE &&
		       fsdp_tensor_storage_next(grouping->checkpoint, tensor) == tensor);
}

/* Where a piece is stored is looked at only if somebody asks. */
static void add_pieces(struct grouping *grouping, uint32_t tensor,
	const struct fsdp_tensor *facts, struct selection *selection)
{
	bool by_rank = grouping->by == BY_RANK;
	bool counts = has_bytes(grouping, tensor, facts);

	for (uint32_t i = 0; i < facts->piece_count; i++) {
		uint32_t index = facts->first_piece + i, rank, file = FSDP_NONE;
		uint64_t numel = fsdp_piece_numel(grouping->checkpoint, index, &rank);
		if (!by_rank || selection != NULL) {
			struct fsdp_piece piece = fsdp_piece(grouping->checkpoint, index);
			if (selection != NULL && !selection_takes_piece(selection,
							 grouping->checkpoint, &piece))
				continue;
			file = piece.file;
		}
		if (!counts)
			numel = 0;
		add(grouping, by_rank ? rank_slot(grouping, rank) : file, tensor, 1,
			numel, elements_bytes(facts->dtype, numel));
	}
}

void grouping_add(struct grouping *grouping, uint32_t tensor,
	const struct fsdp_tensor *facts, struct selection *selection)
{
	uint32_t slot;

	if (grouping->by == BY_RANK || grouping->by == BY_FILE) {
		add_pieces(grouping, tensor, facts, selection);
		return;
	}
	slot = grouping->by == BY_DTYPE  ? facts->dtype
	       : grouping->by == BY_ROLE ? (uint32_t)facts->role
					 : module_slot(grouping, facts->module);
	add(grouping, slot, tensor, facts->piece_count,
		tensor_counts(facts) ? facts->numel : 0,
		tensor_counts(facts) ? facts->bytes : 0);
}

void grouping_add_sum(struct grouping *grouping, const struct fsdp_sum *sum)
{
	struct group *group =
		&grouping->groups[grouping->by == BY_DTYPE ? sum->dtype
							   : (uint32_t)sum->role];

	group->tensors += sum->tensors;
	group->pieces += sum->tensors;
	group->numel += sum->numel;
	group->bytes += sum->bytes;
}

struct value grouping_key(const struct grouping *grouping, uint32_t group,
	struct name_buffer *buffer, bool raw)
{
	struct fsdp_module module;

	if (group + 1 >= grouping->count)
		return value_null();
	switch (grouping->by) {
	case BY_RANK:
		return value_id(grouping->ranks[group]);
	case BY_FILE:
		return value_name(
			text_of_span(fsdp_file(grouping->checkpoint, group).path));
	case BY_DTYPE:
		return value_word(fsdp_dtype(group)->name);
	case BY_ROLE:
		return value_word(fsdp_role_name((enum fsdp_role)group));
	case BY_MODULE:
		break;
	}
	module = fsdp_module(grouping->checkpoint, group);
	return value_name(name_text(
		buffer, grouping->checkpoint, raw ? module.raw_name : module.name));
}
