/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks all names in natural order and sorts tensors and values by it.
 */
#include "model/internal.h"

/* Names below one parent, in natural order. Files mostly list them so already. */
static bool is_sorted(const struct fsdp_names *names, const uint32_t *ids, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (fsdp_natural_compare(fsdp_names_segment(names, ids[i - 1]),
			    fsdp_names_segment(names, ids[i])) > 0)
			return false;
	return true;
}

static void merge(const struct fsdp_names *names, const uint32_t *from, uint32_t *to,
	size_t begin, size_t middle, size_t end)
{
	size_t left = begin, right = middle;
	for (size_t at = begin; at < end; at++) {
		bool take_left =
			left < middle &&
			(right >= end ||
				fsdp_natural_compare(
					fsdp_names_segment(names, from[left]),
					fsdp_names_segment(names, from[right])) <= 0);
		to[at] = take_left ? from[left++] : from[right++];
	}
}

/* Bottom-up, so that a million siblings cost no stack. `spare` is as long as ids. */
static void sort_siblings(
	const struct fsdp_names *names, uint32_t *ids, uint32_t *spare, size_t count)
{
	if (is_sorted(names, ids, count))
		return;
	uint32_t *from = ids, *to = spare;
	for (size_t width = 1; width < count; width *= 2) {
		for (size_t begin = 0; begin < count; begin += 2 * width) {
			size_t middle = begin + width < count ? begin + width : count;
			size_t end =
				begin + 2 * width < count ? begin + 2 * width : count;
			merge(names, from, to, begin, middle, end);
		}
		uint32_t *swap = from;
		from = to;
		to = swap;
	}
	if (from != ids)
		memcpy(ids, from, count * sizeof *ids);
}

/* A name's id is above its parent's, so one pass up counts subtrees and one pass down
 * hands out ranks in pre-order: no stack, whatever the depth. */
bool fsdp_freeze_names(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	const struct fsdp_names *names = &model->names;
	size_t count = names->list.count;
	uint32_t *rank = FSDP_TAKE(model->arena, rank, count);
	uint32_t *begin = FSDP_TAKE(scratch, begin, count + 1);
	uint32_t *children = FSDP_TAKE(scratch, children, count);
	uint32_t *spare = FSDP_TAKE(scratch, spare, count);
	uint32_t *below = FSDP_TAKE(scratch, below, count);
	if (rank == NULL || begin == NULL || children == NULL || spare == NULL ||
		below == NULL)
		return false;
	for (size_t id = 1; id < count; id++)
		begin[fsdp_names_at(names, (uint32_t)id)->parent + 1]++;
	for (size_t id = 0; id < count; id++)
		begin[id + 1] += begin[id];
	for (size_t id = 1; id < count; id++) {
		uint32_t parent = fsdp_names_at(names, (uint32_t)id)->parent;
		children[begin[parent] + spare[parent]++] = (uint32_t)id;
	}
	for (size_t id = count; id-- > 1;)
		below[fsdp_names_at(names, (uint32_t)id)->parent] += below[id] + 1;
	for (size_t id = 0; id < count; id++) {
		uint32_t first = begin[id], last = begin[id + 1];
		if (last - first > 1)
			sort_siblings(names, children + first, spare, last - first);
		uint32_t next = rank[id] + 1;
		for (uint32_t i = first; i < last; i++) {
			rank[children[i]] = next;
			next += below[children[i]] + 1;
		}
	}
	model->name_rank = rank;
	return true;
}

/* A stable counting sort of `count` things by the rank of their names. */
struct order {
	const struct fsdp_model *model;
	uint32_t (*name_of)(const struct fsdp_model *model, uint32_t index);
	size_t count;
};

static bool in_order(const struct order *order)
{
	uint32_t last = 0;
	for (size_t i = 0; i < order->count; i++) {
		uint32_t rank =
			order->model
				->name_rank[order->name_of(order->model, (uint32_t)i)];
		if (rank < last)
			return false;
		last = rank;
	}
	return true;
}

static uint32_t *sort_by_rank(const struct order *order, struct fsdp_arena *scratch)
{
	size_t ranks = order->model->names.list.count;
	uint32_t *place = FSDP_TAKE(scratch, place, ranks + 1);
	uint32_t *sorted = FSDP_TAKE(scratch, sorted, order->count + 1);
	if (place == NULL || sorted == NULL)
		return NULL;
	for (size_t i = 0; i < order->count; i++)
		place[order->model->name_rank[order->name_of(order->model, (uint32_t)i)] +
			1]++;
	for (size_t rank = 0; rank < ranks; rank++)
		place[rank + 1] += place[rank];
	for (size_t i = 0; i < order->count; i++) {
		uint32_t rank =
			order->model
				->name_rank[order->name_of(order->model, (uint32_t)i)];
		sorted[place[rank]++] = (uint32_t)i;
	}
	return sorted;
}

static uint32_t tensor_name(const struct fsdp_model *model, uint32_t index)
{
	return fsdp_model_tensor(model, index)->name;
}

static uint32_t value_name(const struct fsdp_model *model, uint32_t index)
{
	return fsdp_model_value(model, index)->name;
}

static bool has_components(const struct fsdp_model *model)
{
	for (size_t i = 0; i < model->extras.count; i++) {
		if (fsdp_model_extra(model, i)->component_count != 0)
			return true;
	}
	return false;
}

/* New numbers for everything that names a tensor by its old one. */
static void renumber(struct fsdp_model *model, const uint32_t *new_index)
{
	for (size_t i = 0; i < model->pieces.count; i++) {
		struct fsdp_piece_record *piece = fsdp_model_piece(model, i);
		piece->tensor = new_index[piece->tensor];
	}
	for (size_t i = 0; i < model->extras.count; i++) {
		struct fsdp_extra *extra = fsdp_model_extra(model, i);
		if (extra->component_count != 0)
			extra->first_component = new_index[extra->first_component];
	}
}

/* Moves every record to its new place, cycle by cycle, without a second array of them.
 * A place that is done keeps its own number in new_index. */
static void permute(struct fsdp_model *model, uint32_t *new_index)
{
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		while (new_index[i] != i) {
			uint32_t to = new_index[i];
			struct fsdp_tensor_record *here = fsdp_model_tensor(model, i);
			struct fsdp_tensor_record *there = fsdp_model_tensor(model, to);
			struct fsdp_tensor_record moved = *there;
			*there = *here;
			*here = moved;
			new_index[i] = new_index[to];
			new_index[to] = to;
		}
	}
}

/* Components keep their order and go behind all others. */
static bool sort_tensors(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t count = (uint32_t)model->tensors.count;
	struct order order = { model, tensor_name, count };
	model->tensor_count = count;
	if (in_order(&order) && !has_components(model))
		return true;
	uint32_t *sorted = sort_by_rank(&order, scratch);
	uint32_t *new_index = FSDP_TAKE(scratch, new_index, (size_t)count + 1);
	if (sorted == NULL || new_index == NULL)
		return false;
	uint32_t at = 0;
	for (uint32_t i = 0; i < count; i++)
		if (!(fsdp_model_tensor(model, sorted[i])->flags & FSDP_TENSOR_COMPONENT))
			new_index[sorted[i]] = at++;
	model->tensor_count = at;
	for (uint32_t i = 0; i < count; i++)
		if (fsdp_model_tensor(model, i)->flags & FSDP_TENSOR_COMPONENT)
			new_index[i] = at++;
	renumber(model, new_index);
	permute(model, new_index);
	for (uint32_t i = 0; i < count; i++)
		fsdp_model_tensor(model, i)->storage_next = i;
	return true;
}

static bool sort_values(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->values.count;
	struct order order = { model, value_name, count };
	if (in_order(&order))
		return true;
	uint32_t *sorted = sort_by_rank(&order, scratch);
	model->sorted_values = FSDP_TAKE(model->arena, model->sorted_values, count + 1);
	if (sorted == NULL || model->sorted_values == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		model->sorted_values[i] = *fsdp_model_value(model, sorted[i]);
	return true;
}

bool fsdp_freeze_order(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	return sort_tensors(model, scratch) && sort_values(model, scratch);
}
