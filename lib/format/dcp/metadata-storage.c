/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which chunk of which tensor an entry of the storage data means.
 */
#include "base/num.h"
#include "format/dcp/metadata-reading.h"

struct match {
	struct fsdp_dcp_parse *parse;
	uint32_t *slots; /* chunk + 1, by (list, offsets); made when a hint fails */
	size_t slot_count;
};

static bool same_offset(const struct fsdp_dcp *dcp, uint32_t chunk_id, uint32_t size)
{
	const struct fsdp_dcp_chunk *chunk = fsdp_vec_at(&dcp->chunks, chunk_id);
	size_t count;
	const int64_t *offset = fsdp_dcp_size_items(dcp, size, &count);
	return chunk->dims == count &&
	       fsdp_dcp_same_ints(fsdp_model_ints(dcp->model, chunk->box), offset, count);
}

/* The newest list of an item is the one of this file. */
static struct fsdp_dcp_list *own_list(
	const struct fsdp_dcp *dcp, const struct fsdp_dcp_item *item)
{
	if (item->last_list == FSDP_NONE)
		return NULL;
	struct fsdp_dcp_list *list = fsdp_vec_at(&dcp->lists, item->last_list);
	return list->file == dcp->file_number ? list : NULL;
}

/* The slot of the chunk that a run of chunks has at an offset, or the free one where it
 * belongs. Of several at one offset the first is found, so equal ones make no chain. */
static size_t find_slot(const struct match *match, uint32_t first, uint32_t count,
	const int64_t *offset, size_t dims)
{
	const struct fsdp_dcp *dcp = match->parse->dcp;
	size_t mask = match->slot_count - 1;
	size_t slot = (size_t)(fsdp_dcp_hash_ints(dcp, first, offset, dims) >> 32) & mask;
	for (; match->slots[slot] != 0; slot = (slot + 1) & mask) {
		uint32_t id = match->slots[slot] - 1;
		const struct fsdp_dcp_chunk *chunk = fsdp_vec_at(&dcp->chunks, id);
		if (id >= first && id - first < count && chunk->dims == dims &&
			fsdp_dcp_same_ints(
				fsdp_model_ints(dcp->model, chunk->box), offset, dims))
			break;
	}
	return slot;
}

/* Every chunk of every list that this file wrote out: any number of keys may share one,
 * so the table follows what was pickled and not what the keys refer to. */
static bool build_slots(struct match *match)
{
	struct fsdp_dcp *dcp = match->parse->dcp;
	size_t count = 16, listed = 0;
	for (size_t i = dcp->first_meta; i < dcp->metas.count; i++)
		listed += ((const struct fsdp_dcp_meta *)fsdp_vec_at(&dcp->metas, i))
				  ->chunk_count;
	while (count < listed * 2)
		count *= 2;
	match->slots = FSDP_TAKE(dcp->scratch, match->slots, count);
	match->slot_count = count;
	if (match->slots == NULL)
		return fsdp_arena_fail(dcp->scratch, match->parse->error);
	for (size_t i = dcp->first_meta; i < dcp->metas.count; i++) {
		const struct fsdp_dcp_meta *meta = fsdp_vec_at(&dcp->metas, i);
		for (uint32_t k = 0; k < meta->chunk_count; k++) {
			uint32_t id = meta->first_chunk + k;
			const struct fsdp_dcp_chunk *chunk =
				fsdp_vec_at(&dcp->chunks, id);
			size_t slot = find_slot(match, meta->first_chunk,
				meta->chunk_count,
				fsdp_model_ints(dcp->model, chunk->box), chunk->dims);
			if (match->slots[slot] == 0)
				match->slots[slot] = id + 1;
		}
	}
	return true;
}

static bool search_chunk(struct match *match, const struct fsdp_dcp_list *list,
	uint32_t size, uint32_t *ret_chunk)
{
	struct fsdp_dcp *dcp = match->parse->dcp;
	size_t dims;
	if (match->slots == NULL && !build_slots(match))
		return false;
	const int64_t *offset = fsdp_dcp_size_items(dcp, size, &dims);
	size_t slot = find_slot(match, list->first, list->count, offset, dims);
	*ret_chunk = match->slots[slot] != 0 ? match->slots[slot] - 1 : FSDP_NONE;
	return true;
}

/* Whether the chunk at a place of the list has the offset. */
static bool try_place(const struct fsdp_dcp *dcp, const struct fsdp_dcp_list *list,
	uint32_t place, uint32_t size, uint32_t *ret_chunk)
{
	if (place >= list->count || !same_offset(dcp, list->first + place, size))
		return false;
	*ret_chunk = list->first + place;
	return true;
}

/* The index's hint, and then the place after the one found last, are believed only if the
 * chunk there has the offset: ranks write in turn, so one of them is nearly always right
 * and spares the search. */
static bool find_chunk(struct match *match, const struct fsdp_dcp_item *item,
	const struct fsdp_dcp_index *index, uint32_t *ret_chunk)
{
	struct fsdp_dcp *dcp = match->parse->dcp;
	struct fsdp_dcp_list *list = own_list(dcp, item);
	*ret_chunk = FSDP_NONE;
	if (list == NULL || index->size == FSDP_NONE)
		return true;
	bool guessed = index->hint >= 0 && try_place(dcp, list, (uint32_t)index->hint,
						   index->size, ret_chunk);
	if (!guessed && !try_place(dcp, list, list->due, index->size, ret_chunk) &&
		!search_chunk(match, list, index->size, ret_chunk))
		return false;
	if (*ret_chunk != FSDP_NONE)
		list->due = *ret_chunk - list->first + 1;
	return true;
}

/* The item of an entry; each FQN is looked up once in a file. */
static struct fsdp_dcp_item *entry_item(struct fsdp_dcp *dcp, uint32_t fqn)
{
	struct fsdp_dcp_owner *owner = fsdp_vec_at(&dcp->owners, fqn);
	struct fsdp_dcp_item *known =
		owner->item != 0 ? fsdp_vec_at(&dcp->items, owner->item - 1) : NULL;
	if (known != NULL && fsdp_dcp_is_same_item(dcp, known, true))
		return known;
	if (fqn == 0 || owner->missing == dcp->file_number + 1)
		return NULL;
	uint32_t name = fsdp_names_find(
		&dcp->model->names, 0, fsdp_names_segment(&dcp->fqns.names, fqn));
	if (name == FSDP_NONE || fsdp_dcp_find_item(dcp, name) == NULL) {
		owner->missing = dcp->file_number + 1;
		return NULL;
	}
	owner->item = fsdp_table_get(&dcp->item_of, name) + 1;
	return fsdp_vec_at(&dcp->items, owner->item - 1);
}

static bool place(struct match *match, const struct fsdp_dcp_index *index, uint32_t info)
{
	struct fsdp_dcp *dcp = match->parse->dcp;
	struct fsdp_dcp_item *item = entry_item(dcp, index->fqn);
	uint32_t chunk = FSDP_NONE;
	if (item != NULL && item->is_object) {
		item->info = info;
		return true;
	}
	if (item != NULL && !find_chunk(match, item, index, &chunk))
		return false;
	if (chunk == FSDP_NONE) {
		fsdp_dcp_say(dcp, FSDP_RULE_METADATA_INCONSISTENT,
			fsdp_names_segment(&dcp->fqns.names, index->fqn),
			"storage is recorded for something that the state dict does not have");
		return true;
	}
	((struct fsdp_dcp_chunk *)fsdp_vec_at(&dcp->chunks, chunk))->info = info;
	return true;
}

bool fsdp_dcp_read_storage(struct fsdp_dcp_parse *parse, fsdp_ref storage)
{
	struct match match = { .parse = parse };
	if (fsdp_pickle_kind(parse->pickle, storage) != FSDP_PICKLE_DICT)
		return fsdp_dcp_damaged(parse, "it has no storage data");
	size_t known = parse->dcp->fqns.names.list.count;
	if (fsdp_vec_reach(&parse->dcp->owners, known) == NULL)
		return fsdp_arena_fail(parse->dcp->scratch, parse->error);
	struct fsdp_pickle_iterator iterator = { .ref = storage };
	fsdp_ref key, value;
	uint32_t index, info;
	while (fsdp_pickle_next(parse->pickle, &iterator, &key, &value)) {
		if (!fsdp_dcp_folded(parse->pickle, key, FSDP_DCP_INDEX, &index) ||
			!fsdp_dcp_folded(parse->pickle, value, FSDP_DCP_INFO, &info)) {
			fsdp_dcp_say(parse->dcp, FSDP_RULE_METADATA_UNREADABLE,
				(struct fsdp_span){ 0 },
				"an entry of the storage data is of no known class");
			continue;
		}
		struct fsdp_dcp_info *range = fsdp_vec_at(&parse->dcp->infos, info);
		range->named_twice = range->named;
		range->named = true;
		if (!place(&match, fsdp_vec_at(&parse->dcp->indexes, index), info))
			return false;
	}
	return true;
}
