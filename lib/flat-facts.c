/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door's getters of FlatParameters: entries and ranks as plain values, worked out as
 * they are asked for. Allocates nothing.
 */
#include "checkpoint-private.h"
#include "model/flat-entries.h"

static const struct fsdp_flat_record *record_of(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_flat *flat)
{
	return fsdp_model_flat(&checkpoint->model, flat->record);
}

bool fsdp_unit_flat(const struct fsdp_checkpoint *checkpoint, uint32_t unit,
	struct fsdp_flat *ret_flat)
{
	const struct fsdp_unit_record *record = fsdp_model_unit(&checkpoint->model, unit);
	if (record->flat == FSDP_NONE)
		return false;
	const struct fsdp_flat_record *flat =
		fsdp_model_flat(&checkpoint->model, record->flat);
	struct fsdp_flat_cut cut = fsdp_ledger_cut(flat);
	*ret_flat = (struct fsdp_flat){
		.unit = unit,
		.dtype = flat->dtype,
		.requires_grad = flat->requires_grad,
		.shards = flat->shards,
		.unpadded_unsharded_numel = flat->numel,
		.unsharded_numel = cut.shard_numel * cut.shards,
		.sharded_numel = cut.shard_numel,
		.entry_count = flat->entry_count,
		.tie_count = flat->tie_count,
		.from_plan = flat->from_plan,
		.from_files = flat->from_files,
		.record = record->flat,
	};
	return true;
}

struct fsdp_flat_entry fsdp_flat_entry(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t n)
{
	const struct fsdp_flat_entry_record *entry =
		fsdp_ledger_entry(&checkpoint->model, record_of(checkpoint, flat), n);
	return (struct fsdp_flat_entry){
		.fqn = entry->fqn,
		.shape = fsdp_model_ints(&checkpoint->model, entry->shape),
		.dims = entry->dims,
		.start = entry->start,
		.numel = entry->numel,
	};
}

struct fsdp_flat_tie fsdp_flat_tie(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t n)
{
	const struct fsdp_flat_record *record = record_of(checkpoint, flat);
	const struct fsdp_flat_tie_record *tie =
		fsdp_model_flat_tie(&checkpoint->model, record->first_tie + n);
	return (struct fsdp_flat_tie){ tie->fqn, tie->same_as };
}

bool fsdp_flat_span_next(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t rank, uint32_t *state,
	struct fsdp_flat_span *ret_span)
{
	struct fsdp_flat_part part;
	if (!fsdp_ledger_next(
		    &checkpoint->model, record_of(checkpoint, flat), rank, state, &part))
		return false;
	*ret_span = (struct fsdp_flat_span){ *state, part.shard_start, part.param_start,
		part.numel };
	++*state;
	return true;
}

uint64_t fsdp_flat_fill(const struct fsdp_flat *flat, uint32_t rank)
{
	struct fsdp_flat_cut cut =
		fsdp_flat_cut(flat->unpadded_unsharded_numel, flat->shards);
	return fsdp_flat_padding(&cut, rank);
}

/* What the entry at the place's element is; an unknown layout has none. */
static void set_entry(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat_record *flat, struct fsdp_flat_place *place)
{
	uint32_t n = fsdp_ledger_entry_at(&checkpoint->model, flat, place->flat_offset);
	place->entry = FSDP_NONE;
	if (n == flat->entry_count)
		return;
	const struct fsdp_flat_entry_record *entry =
		fsdp_ledger_entry(&checkpoint->model, flat, n);
	place->entry = n;
	place->param_offset = place->flat_offset - entry->start;
	place->is_padding = entry->fqn == FSDP_NONE;
}

bool fsdp_flat_place_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t entry, uint64_t param_offset,
	struct fsdp_flat_place *ret_place)
{
	const struct fsdp_flat_record *record = record_of(checkpoint, flat);
	const struct fsdp_flat_entry_record *held =
		fsdp_ledger_entry(&checkpoint->model, record, entry);
	struct fsdp_flat_cut cut = fsdp_ledger_cut(record);
	struct fsdp_flat_place place = {
		.entry = entry,
		.param_offset = param_offset,
		.flat_offset = held->start + param_offset,
		.is_padding = held->fqn == FSDP_NONE,
	};
	if (param_offset >= held->numel || !fsdp_flat_find(&cut, place.flat_offset,
						   &place.rank, &place.shard_offset))
		return false;
	*ret_place = place;
	return true;
}

bool fsdp_flat_place_at(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t rank, uint64_t shard_offset,
	struct fsdp_flat_place *ret_place)
{
	struct fsdp_flat_cut cut = fsdp_ledger_cut(record_of(checkpoint, flat));
	struct fsdp_flat_place place = {
		.entry = FSDP_NONE,
		.rank = rank,
		.shard_offset = shard_offset,
	};
	if (rank >= cut.shards || shard_offset >= cut.shard_numel)
		return false;
	place.flat_offset = cut.shard_numel * rank + shard_offset;
	if (place.flat_offset >= cut.numel)
		place.is_padding = true;
	else
		set_entry(checkpoint, record_of(checkpoint, flat), &place);
	*ret_place = place;
	return true;
}

/* ---- ranks of the job ---- */

static bool fills_the_world(
	const struct fsdp_model *model, const struct fsdp_unit_record *unit)
{
	uint32_t world = model->world_size != FSDP_NONE ? model->world_size
			 : model->has_plan              ? model->plan.world_size
							: FSDP_NONE;
	return unit->shard_world_size != FSDP_NONE && world != FSDP_NONE &&
	       (uint64_t)unit->shard_world_size * unit->replicate_world_size == world;
}

uint32_t fsdp_unit_global_rank(const struct fsdp_checkpoint *checkpoint, uint32_t unit,
	uint32_t shard_rank, uint32_t copy)
{
	const struct fsdp_unit_record *record = fsdp_model_unit(&checkpoint->model, unit);
	if (shard_rank >= record->shard_world_size ||
		copy >= record->replicate_world_size ||
		!fills_the_world(&checkpoint->model, record))
		return FSDP_NONE;
	return copy * record->shard_world_size + shard_rank;
}

uint32_t fsdp_unit_shard_rank(
	const struct fsdp_checkpoint *checkpoint, uint32_t unit, uint32_t global_rank)
{
	const struct fsdp_unit_record *record = fsdp_model_unit(&checkpoint->model, unit);
	if (!fills_the_world(&checkpoint->model, record) ||
		global_rank / record->shard_world_size >= record->replicate_world_size)
		return FSDP_NONE;
	return global_rank % record->shard_world_size;
}
