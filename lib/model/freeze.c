/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps by which a model is sorted, linked, joined and counted, in their order; and
 * two that only count names and ranks.
 */
#include "model/check.h"
#include "model/internal.h"
#include "model/fqn.h"

/* In how many tensors each wrapper segment occurs: flags travel from names to the names
 * below them, so each segment is compared once. */
static bool count_prefixes(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t names = model->names.list.count;
	size_t kinds = 0;
	while (fsdp_name_wrapper_segment(kinds) != NULL)
		kinds++;
	unsigned char *flags = fsdp_arena_take(scratch, names, 1);
	model->prefixes = FSDP_TAKE(model->arena, model->prefixes, kinds);
	if (flags == NULL || model->prefixes == NULL)
		return false;
	for (uint32_t id = 1; id < names; id++) {
		size_t found =
			fsdp_name_find_wrapper(fsdp_names_segment(&model->names, id));
		flags[id] = flags[fsdp_names_at(&model->names, id)->parent];
		if (found != 0)
			flags[id] |= (unsigned char)(1u << (found - 1));
	}
	uint64_t counts[8] = { 0 };
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		uint32_t parent = fsdp_names_at(&model->names, tensor->raw_name)->parent;
		if (tensor->role == FSDP_ROLE_OTHER)
			continue; /* of no module, so nothing wraps it */
		for (size_t k = 0; k < kinds && flags[parent] != 0; k++)
			counts[k] += flags[parent] >> k & 1;
	}
	for (size_t k = 0; k < kinds; k++)
		if (counts[k] != 0)
			model->prefixes[model->prefix_count++] =
				(struct fsdp_prefix){ fsdp_name_wrapper_segment(k),
					counts[k] };
	return true;
}

static bool list_ranks(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t highest = 0;
	bool any = false;
	for (uint32_t i = 0; i < model->pieces.count; i++) {
		const struct fsdp_piece_record *piece = fsdp_model_piece(model, i);
		if (piece->rank == FSDP_NONE)
			continue;
		any = true;
		if (piece->rank > highest)
			highest = piece->rank;
	}
	if (!any)
		return true;
	/* fsdp_model_check refuses ranks from FSDP_RANKS_MAX on, so this is bounded. */
	unsigned char *seen = fsdp_arena_take(scratch, (size_t)highest + 1, 1);
	if (seen == NULL)
		return false;
	size_t count = 0;
	for (uint32_t i = 0; i < model->pieces.count; i++) {
		const struct fsdp_piece_record *piece = fsdp_model_piece(model, i);
		if (piece->rank == FSDP_NONE || seen[piece->rank])
			continue;
		seen[piece->rank] = 1;
		count++;
	}
	model->ranks = FSDP_TAKE(model->arena, model->ranks, count);
	if (model->ranks == NULL)
		return false;
	for (uint32_t rank = 0; rank <= highest; rank++)
		if (seen[rank])
			model->ranks[model->rank_count++] = rank;
	return true;
}

static void count_files(struct fsdp_model *model)
{
	for (uint32_t i = 0; i < model->files.count; i++) {
		const struct fsdp_file_record *file = fsdp_model_file(model, i);
		if (file->size != FSDP_UNKNOWN)
			model->on_disk += file->size;
	}
}

typedef bool (*freeze_step)(struct fsdp_model *model, struct fsdp_arena *scratch);

static const freeze_step steps[] = {
	fsdp_freeze_roles,
	fsdp_freeze_merge,
	fsdp_freeze_visits,
	fsdp_freeze_keys,
	fsdp_freeze_local,
	fsdp_freeze_names,
	fsdp_freeze_order,
	fsdp_freeze_aliases,
	fsdp_freeze_join,
	fsdp_freeze_tree,
	count_prefixes,
	list_ranks,
	fsdp_freeze_storages,
};

bool fsdp_model_freeze(struct fsdp_model *model, struct fsdp_budget *budget,
	struct fsdp_error **ret_error)
{
	bool done = true, counted = false;
	if (!fsdp_model_check(model, ret_error))
		return false;
	if (model->only_counts)
		done = fsdp_model_count(model, &counted);
	if (done && model->wants_records)
		return false;
	for (size_t i = 0; done && !counted && i < FSDP_COUNT(steps); i++) {
		/* What one step needed is gone before the next: at a million tensors the
		 * steps together would take as much again as the model. */
		struct fsdp_arena scratch;
		fsdp_arena_init(&scratch, budget);
		done = steps[i](model, &scratch);
		fsdp_arena_done(&scratch);
	}
	if (done && !counted)
		model->module_count = model->modules.count;
	if (done)
		count_files(model);
	if (!done || model->findings.lost)
		return fsdp_arena_fail(model->arena, ret_error);
	return true;
}
