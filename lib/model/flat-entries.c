/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where the entries of a FlatParameter lie, by the arithmetic of flat-parameter.c.
 */
#include "model/flat-entries.h"

struct fsdp_flat_cut fsdp_ledger_cut(const struct fsdp_flat_record *flat)
{
	return fsdp_flat_cut(flat->numel, flat->shards);
}

const struct fsdp_flat_entry_record *fsdp_ledger_entry(
	const struct fsdp_model *model, const struct fsdp_flat_record *flat, uint32_t n)
{
	return fsdp_model_flat_entry(model, flat->first_entry + n);
}

/* Entries without elements end where they begin, so they are never the answer. */
uint32_t fsdp_ledger_entry_at(const struct fsdp_model *model,
	const struct fsdp_flat_record *flat, uint64_t element)
{
	uint32_t low = 0, high = flat->entry_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct fsdp_flat_entry_record *entry =
			fsdp_ledger_entry(model, flat, middle);
		if (entry->start + entry->numel <= element)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool fsdp_ledger_next(const struct fsdp_model *model, const struct fsdp_flat_record *flat,
	uint32_t rank, uint32_t *entry, struct fsdp_flat_part *ret_part)
{
	struct fsdp_flat_cut cut = fsdp_ledger_cut(flat);
	struct fsdp_flat_range shard = fsdp_flat_shard(&cut, rank);
	if (*entry == 0)
		*entry = fsdp_ledger_entry_at(model, flat, shard.begin);
	for (; *entry < flat->entry_count; ++*entry) {
		const struct fsdp_flat_entry_record *record =
			fsdp_ledger_entry(model, flat, *entry);
		if (record->start >= shard.end)
			return false;
		if (fsdp_flat_part(&cut, rank, record->start, record->numel, ret_part))
			return true;
	}
	return false;
}
