/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezes a model: sorts, links, joins and counts what was read; or only counts it.
 */
#include "base/num.h"
#include "checkpoint/build.h"

/* ---- Ranks of the pieces of a tensor ---- */

static uint32_t piece_rank(const struct fsdp_model *model, uint32_t piece)
{
	return fsdp_model_piece(model, piece)->rank;
}

/* Replicas are on several ranks too, but each of them is complete. */
bool fsdp_model_is_sharded(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	bool parts = false, ranks = false;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		parts |= fsdp_model_piece(model, tensor->first_piece + i)->box !=
			 FSDP_NONE;
		ranks |= piece_rank(model, tensor->first_piece + i) !=
			 piece_rank(model, tensor->first_piece);
	}
	return parts && ranks;
}

uint32_t fsdp_model_shard_count(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	uint32_t count = 0;
	uint32_t last = FSDP_NONE;
	FSDP_EACH(i, tensor->piece_count, rank,
		piece_rank(model, tensor->first_piece + i)) {
		count += i == 0 || rank != last;
		last = rank;
	}
	return count;
}

/* ---- Bytes of storages, and those that tensors use ---- */

struct use {
	uint64_t begin, end;
};

/* A view without elements begins nowhere. */
static struct use use_of(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	uint64_t size)
{
	struct use use = { 0 };
	uint64_t numel = fsdp_model_numel(model, tensor);
	if (numel == 0)
		return use;
	if (tensor->dtype == FSDP_DTYPE_UNKNOWN)
		return (struct use){ 0, size };
	(void)fsdp_dtype_bytes(tensor->dtype, piece->storage_offset, &use.begin);
	/* Bytes of one view: from its first element to the end of its last. */
	const int64_t *shape = fsdp_model_ints(model, tensor->shape);
	const int64_t *strides = fsdp_model_ints(model, piece->strides);
	const int64_t *run = fsdp_model_run(model, piece);
	uint64_t reach = 1, step, end, bytes;
	bool fits = true;
	if (run != NULL) {
		reach = (uint64_t)run[1];
	} else if (strides == NULL) {
		reach = numel;
	} else {
		for (size_t i = 0; fits && i < tensor->dims; i++)
			fits = fsdp_mul((uint64_t)shape[i] - 1, (uint64_t)strides[i],
				       &step) &&
			       fsdp_add(reach, step, &reach);
	}
	fits = fits && fsdp_add(piece->storage_offset, reach, &end) &&
	       fsdp_dtype_bytes(tensor->dtype, end, &bytes);
	use.end = fsdp_min(fits ? bytes : UINT64_MAX, size);
	return use.end > use.begin ? use : (struct use){ 0 };
}

uint64_t fsdp_model_used(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	uint64_t size)
{
	struct use use = use_of(model, tensor, piece, size);
	return use.end - use.begin;
}

/* freeze.c: payload, and what of it no tensor views. Payload and what of it no tensor
 * views. A storage counts as used from the first byte of its lowest view to the last byte
 * of its highest; the inside of strided views counts too. */
static void freeze_storages(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->extents.count;
	struct use *uses = FSDP_TAKE(scratch, uses, count + 1);
	FSDP_EACH(i, model->pieces.count, piece, fsdp_model_piece(model, i)) {
		if (piece->extent == FSDP_NONE)
			continue;
		struct fsdp_extent *extent = fsdp_model_extent(model, piece->extent);
		const struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, piece->tensor);
		extent->viewed = true;
		if (extent->kind == FSDP_EXTENT_ITEM) {
			uint64_t numel = fsdp_model_numel(model, tensor), bytes = 0;
			const int64_t *box = fsdp_model_box(model, piece);
			if (box != NULL)
				(void)fsdp_numel(
					box + tensor->dims, tensor->dims, &numel);
			(void)fsdp_dtype_bytes(tensor->dtype, numel, &bytes);
			model->payload += fsdp_min(bytes, extent->length);
			continue;
		}
		struct use *use = &uses[piece->extent];
		struct use view = use_of(model, tensor, piece, extent->size);
		if (view.end == 0)
			continue;
		if (use->end == 0 || view.begin < use->begin)
			use->begin = view.begin;
		if (view.end > use->end)
			use->end = view.end;
	}
	FSDP_EACH(i, count, extent, fsdp_model_extent(model, i)) {
		if (extent->kind == FSDP_EXTENT_ITEM || extent->missing ||
			extent->is_record)
			continue;
		model->payload += extent->length;
		model->unused += extent->size - (uses[i].end - uses[i].begin);
	}
}

/* ---- Tensors on one storage, and those that are one view of it ---- */

static const struct fsdp_piece_record *piece_at(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, uint32_t n)
{
	return fsdp_model_piece(model, tensor->first_piece + n);
}

/* A rank's part without elements may use a storage that all such parts share. */
static bool is_empty_part(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece)
{
	const int64_t *box = fsdp_model_box(model, piece);
	const int64_t *run = fsdp_model_run(model, piece);
	if (run != NULL)
		return run[1] == 0;
	for (size_t i = 0; box != NULL && i < tensor->dims; i++)
		if (box[tensor->dims + i] == 0)
			return true;
	return false;
}

/* The piece that stands for its tensor: the only one, or that of the first rank that has
 * elements. A DCP item is of one tensor, which so never shares a storage. */
static const struct fsdp_piece_record *first_piece(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	uint32_t n = 0;
	if (tensor->piece_count == 0)
		return NULL;
	while (n + 1 < tensor->piece_count &&
		is_empty_part(model, tensor, piece_at(model, tensor, n)))
		n++;
	return piece_at(model, tensor, n)->extent != FSDP_NONE
		       ? piece_at(model, tensor, n)
		       : NULL;
}

static uint64_t hash_ints(const struct fsdp_hasher *hasher, uint64_t hash,
	const int64_t *items, size_t count)
{
	for (size_t i = 0; items != NULL && i < count; i++)
		hash = fsdp_hash_more(hasher, hash, (uint64_t)items[i]);
	return hash;
}

static bool same_ints(const int64_t *a, const int64_t *b, size_t count)
{
	if (a == NULL || b == NULL)
		return a == b;
	return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

static bool same_view(const struct fsdp_model *model, const struct fsdp_tensor_record *a,
	const struct fsdp_tensor_record *b)
{
	if (a->dtype != b->dtype || a->dims != b->dims ||
		((a->flags ^ b->flags) & (FSDP_TENSOR_CONJ | FSDP_TENSOR_NEG)) != 0 ||
		!same_ints(fsdp_model_ints(model, a->shape),
			fsdp_model_ints(model, b->shape), a->dims))
		return false;
	/* A tensor of several ranks is the same as another only if all of its pieces are:
	 * the first ones may both be empty. Parts without elements have no position and
	 * do not count. */
	if (a->piece_count != b->piece_count)
		return false;
	FSDP_EACH(i, a->piece_count, first, piece_at(model, a, i)) {
		const struct fsdp_piece_record *second = piece_at(model, b, i);
		if (first->extent != second->extent ||
			first->storage_offset != second->storage_offset ||
			!same_ints(fsdp_model_box(model, first),
				fsdp_model_box(model, second), 2 * (size_t)a->dims) ||
			!same_ints(fsdp_model_run(model, first),
				fsdp_model_run(model, second), 3) ||
			!same_ints(fsdp_model_ints(model, first->strides),
				fsdp_model_ints(model, second->strides),
				first->is_run ? 1 : a->dims))
			return false;
	}
	return true;
}

/* freeze.c: which tensors share storages and views. */
static void freeze_aliases(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t *last = FSDP_TAKE(scratch, last, model->extents.count + 1);
	/* Every tensor goes into the ring of the one before it on its storage. Returns
	 * how many tensors share a storage with an earlier one. */
	size_t shared = 0;
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		const struct fsdp_piece_record *piece = first_piece(model, tensor);
		if (piece == NULL)
			continue;
		uint32_t before = last[piece->extent];
		last[piece->extent] = (uint32_t)i + 1;
		if (before == 0)
			continue;
		struct fsdp_tensor_record *other = fsdp_model_tensor(model, before - 1);
		tensor->storage_next = other->storage_next;
		other->storage_next = (uint32_t)i;
		shared++;
	}
	if (shared == 0)
		return;
	size_t slots = 16;
	while (slots < shared * 4)
		slots *= 2;
	uint32_t *table = FSDP_TAKE(scratch, table, slots);
	struct fsdp_hasher hasher = fsdp_hasher_new();
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		/* A run without elements is the same as no other. */
		if (tensor->storage_next == i ||
			(piece_at(model, tensor, 0)->is_run &&
				fsdp_model_numel(model, tensor) == 0))
			continue;
		/* All that is compared: of many tensors the first pieces alone may be the
		 * same. */
		uint64_t hash = fsdp_hash(&hasher, tensor->dtype);
		hash = hash_ints(&hasher, hash, fsdp_model_ints(model, tensor->shape),
			tensor->dims);
		FSDP_EACH(k, tensor->piece_count, piece, piece_at(model, tensor, k)) {
			hash = fsdp_hash_more(&hasher, hash, piece->extent);
			hash = fsdp_hash_more(&hasher, hash, piece->storage_offset);
			hash = hash_ints(&hasher, hash, fsdp_model_box(model, piece),
				2 * (size_t)tensor->dims);
			hash = hash_ints(&hasher, hash, fsdp_model_run(model, piece), 3);
			hash = hash_ints(&hasher, hash,
				fsdp_model_ints(model, piece->strides),
				piece->is_run ? 1 : tensor->dims);
		}
		size_t slot = (size_t)hash & (slots - 1);
		while (table[slot] != 0 &&
			!same_view(
				model, fsdp_model_tensor(model, table[slot] - 1), tensor))
			slot = (slot + 1) & (slots - 1);
		if (table[slot] != 0)
			tensor->alias = table[slot] - 1;
		else
			table[slot] = (uint32_t)i + 1;
	}
}

/* ---- Natural order of names, tensors and values ---- */

/* Names below one parent, in natural order. Files mostly list them so already. */
static bool is_sorted(const struct fsdp_names *names, const uint32_t *ids, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (fsdp_natural_compare(fsdp_names_segment(names, ids[i - 1]),
			    fsdp_names_segment(names, ids[i])) > 0)
			return false;
	return true;
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
			size_t left = begin, right = middle;
			for (size_t at = begin; at < end; at++) {
				bool take_left =
					left < middle &&
					(right >= end ||
						fsdp_natural_compare(
							fsdp_names_segment(
								names, from[left]),
							fsdp_names_segment(names,
								from[right])) <= 0);
				to[at] = take_left ? from[left++] : from[right++];
			}
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
static void freeze_names(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	const struct fsdp_names *names = &model->names;
	size_t count = names->list.count;
	uint32_t *rank = FSDP_TAKE(model->arena, rank, count);
	uint32_t *begin = FSDP_TAKE(scratch, begin, count + 1);
	uint32_t *children = FSDP_TAKE(scratch, children, count);
	uint32_t *spare = FSDP_TAKE(scratch, spare, count);
	uint32_t *below = FSDP_TAKE(scratch, below, count);
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

/* Components keep their order and follow all others. */
static void sort_tensors(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t count = (uint32_t)model->tensors.count;
	struct order order = { model, tensor_name, count };
	bool has_components = false;
	model->tensor_count = count;
	for (size_t i = 0; i < model->extras.count && !has_components; i++)
		has_components = fsdp_model_extra(model, i)->component_count != 0;
	if (!has_components && in_order(&order))
		return;
	uint32_t *sorted = sort_by_rank(&order, scratch);
	uint32_t *new_index = FSDP_TAKE(scratch, new_index, (size_t)count + 1);
	uint32_t at = 0;
	for (uint32_t i = 0; i < count; i++)
		if (!(fsdp_model_tensor(model, sorted[i])->flags & FSDP_TENSOR_COMPONENT))
			new_index[sorted[i]] = at++;
	model->tensor_count = at;
	for (uint32_t i = 0; i < count; i++)
		if (fsdp_model_tensor(model, i)->flags & FSDP_TENSOR_COMPONENT)
			new_index[i] = at++;
	/* New numbers for everything that names a tensor by its old one. */
	FSDP_EACH(i, model->pieces.count, piece, fsdp_model_piece(model, i))
		piece->tensor = new_index[piece->tensor];
	FSDP_EACH(i, model->extras.count, extra, fsdp_model_extra(model, i))
		if (extra->component_count != 0)
			extra->first_component = new_index[extra->first_component];
	/* Moves every record to its new place, cycle by cycle, without a second array of
	 * them. A place that is done keeps its own number in new_index. */
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
	for (uint32_t i = 0; i < count; i++)
		fsdp_model_tensor(model, i)->storage_next = i;
}

/* Natural order of all names, then of tensors and values. */
static void freeze_order(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	sort_tensors(model, scratch);
	size_t names = model->names.list.count;
	for (uint32_t i = (uint32_t)model->tensor_count; i-- > 0;) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->raw_name == tensor->name)
			continue;
		if (model->by_raw_name == NULL) {
			model->by_raw_name =
				FSDP_TAKE(model->arena, model->by_raw_name, names);
			for (size_t id = 0; id < names; id++)
				model->by_raw_name[id] = FSDP_NONE;
		}
		model->by_raw_name[tensor->raw_name] = i;
	}
	size_t count = model->values.count;
	struct order order = { model, value_name, count };
	if (in_order(&order))
		return;
	uint32_t *sorted = sort_by_rank(&order, scratch);
	model->sorted_values = FSDP_TAKE(model->arena, model->sorted_values, count + 1);
	for (size_t i = 0; i < count; i++)
		model->sorted_values[i] = *fsdp_model_value(model, sorted[i]);
}

/*
 * Counts a checkpoint if only counts are requested: each tensor is read once, when
 * all of them are read or (fsdp_model_counting) as soon as one is, and no order, no tree.
 * Does so only if the counts cannot differ from those of a full freeze
 * (freeze.c): plain tensors of one piece each, on separate storages.
 */

/* Values are put into order one by one. */
enum { VALUES_MOST = 64 };

enum { SUMS_MOST = 32 }; /* of roles and dtypes */

struct fsdp_counts {
	struct fsdp_model *model;
	struct fsdp_bits marks; /* names of modules */
	size_t tensors, others, modules;
	uint32_t next_extent; /* the first that is not counted yet */
	uint64_t payload, unused;
	struct fsdp_sum *sums[FSDP_ROLE_COUNT][UINT8_MAX + 1]; /* by dtype */

	/* What follows from the last tensor's facts: its neighbors mostly have the same.
	 */
	struct {
		fsdp_ints shape;
		uint8_t dims, dtype, role;
		const unsigned char *segment;
		uint32_t size; /* of the segment */
	} last;
	uint64_t numel, bytes;
	enum fsdp_role role;
	bool is_flat_key;
};

/* Marks a name and all above it as modules. False: one of them is a wrapper's. */
static bool mark_up(struct fsdp_counts *counts, uint32_t name)
{
	const struct fsdp_names *names = &counts->model->names;
	for (; name != FSDP_NONE; name = fsdp_names_at(names, name)->parent) {
		bool again = false;
		(void)fsdp_bits_set(&counts->marks, name, &again);
		if (again)
			return true;
		if (fsdp_name_find_wrapper(fsdp_names_segment(names, name)) != 0)
			return false;
		counts->modules++;
	}
	return true;
}

/* Payload, and what of it no tensor views so far. */
static bool count_extent(struct fsdp_counts *counts, const struct fsdp_extent *extent)
{
	if (extent->kind == FSDP_EXTENT_ITEM || extent->missing || extent->is_record)
		return false;
	counts->payload += extent->length;
	counts->unused += extent->size;
	return true;
}

/* Storages without a tensor. */
static void count_extents(struct fsdp_counts *counts, uint32_t end)
{
	for (; counts->next_extent < end; counts->next_extent++)
		(void)count_extent(
			counts, fsdp_model_extent(counts->model, counts->next_extent));
}

static bool count_piece(struct fsdp_counts *counts,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	const struct fsdp_extent *extent)
{
	if (piece->box != FSDP_NONE || piece->rank != FSDP_NONE ||
		extent->kind == FSDP_EXTENT_ITEM)
		return false;
	if (!count_extent(counts, extent))
		return true;
	if (piece->strides == FSDP_NONE && piece->storage_offset == 0)
		counts->unused -= fsdp_min(counts->bytes, extent->size);
	else
		counts->unused -=
			fsdp_model_used(counts->model, tensor, piece, extent->size);
	return true;
}

static void look_at(struct fsdp_counts *counts, const struct fsdp_tensor_record *tensor)
{
	const struct fsdp_model *model = counts->model;
	const struct fsdp_name *name = fsdp_names_at(&model->names, tensor->name);
	if (tensor->shape == counts->last.shape && tensor->dims == counts->last.dims &&
		tensor->dtype == counts->last.dtype &&
		tensor->role == counts->last.role && tensor->path == FSDP_NONE &&
		name->text == counts->last.segment && name->size == counts->last.size &&
		!fsdp_model_may_be_random(tensor))
		return;
	counts->last.shape = tensor->path == FSDP_NONE ? tensor->shape : FSDP_NONE;
	counts->last.dims = tensor->dims;
	counts->last.dtype = tensor->dtype;
	counts->last.role = tensor->role;
	counts->last.segment = name->text;
	counts->last.size = name->size;
	counts->numel = fsdp_model_numel(model, tensor);
	counts->bytes = fsdp_model_bytes(model, tensor);
	counts->role = tensor->role == FSDP_ROLE_PARAM ? fsdp_model_role_of(model, tensor)
						       : (enum fsdp_role)tensor->role;
	counts->is_flat_key =
		fsdp_name_is_flat_parameter(fsdp_span(name->text, name->size));
}

/* False: it is not plain. */
static bool count_tensor(struct fsdp_counts *counts, struct fsdp_tensor_record *tensor,
	const struct fsdp_piece_record *piece, const struct fsdp_extent *extent)
{
	enum {
		FLAGS = FSDP_TENSOR_COMPONENT | FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SPREAD
	};
	struct fsdp_model *model = counts->model;
	if (tensor->piece_count != 1 || tensor->dtype == FSDP_DTYPE_UNKNOWN ||
		(tensor->flags & FLAGS) || tensor->class_index != 0 ||
		tensor->role == FSDP_ROLE_OPTIM)
		return false;
	look_at(counts, tensor);
	if (counts->is_flat_key)
		return false;
	if (tensor->flags & FSDP_TENSOR_ROLE_INFERRED)
		tensor->role = (uint8_t)counts->role;
	counts->tensors++;
	counts->others += tensor->role == FSDP_ROLE_OTHER;
	if (!count_piece(counts, tensor, piece, extent))
		return false;
	struct fsdp_sum **sum = &counts->sums[tensor->role][tensor->dtype];
	if (*sum == NULL) {
		if (model->sum_count == SUMS_MOST)
			return false;
		*sum = &model->sums[model->sum_count++];
		**sum = (struct fsdp_sum){
			.role = (enum fsdp_role)tensor->role,
			.dtype = tensor->dtype,
		};
	}
	(*sum)->tensors++;
	(*sum)->numel += counts->numel;
	if (tensor->role == FSDP_ROLE_PARAM && !fsdp_model_is_lone_count(tensor))
		(*sum)->parameters += counts->numel;
	(*sum)->bytes += counts->bytes;
	return tensor->role == FSDP_ROLE_OTHER ||
	       mark_up(counts, fsdp_names_at(&model->names, tensor->raw_name)->parent);
}

static bool count_tensors(struct fsdp_counts *counts)
{
	struct fsdp_model *model = counts->model;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->piece_count == 0)
			return false;
		const struct fsdp_piece_record *piece =
			fsdp_model_piece(model, tensor->first_piece);
		/* On a storage that no earlier tensor uses, if they are in ascending
		 * order. */
		if (piece->extent == FSDP_NONE || piece->extent < counts->next_extent)
			return false;
		count_extents(counts, piece->extent);
		counts->next_extent++;
		if (!count_tensor(counts, tensor, piece,
			    fsdp_model_extent(model, piece->extent)))
			return false;
	}
	count_extents(counts, (uint32_t)model->extents.count);
	return true;
}

static bool mark_hints(struct fsdp_counts *counts)
{
	const struct fsdp_vec *hints = &counts->model->class_hints;
	bool good = mark_up(counts, 0);
	for (size_t i = 0; good && i < hints->count; i++) {
		const struct fsdp_class_hint *hint = fsdp_vec_at(hints, i);
		good = mark_up(counts, hint->raw_name);
	}
	return good;
}

static void sort_counted_values(struct fsdp_model *model)
{
	size_t count = model->values.count;
	struct fsdp_value_record *sorted = FSDP_TAKE(model->arena, sorted, count + 1);
	FSDP_EACH(i, count, value, fsdp_model_value(model, i)) {
		/* After all of the sorted values that it is not before: few comparisons,
		 * for names may be long. */
		size_t low = 0, high = i;
		while (low < high) {
			/* Most come in order. */
			size_t middle = high == i ? high - 1 : low + (high - low) / 2;
			if (fsdp_names_compare(
				    &model->names, sorted[middle].name, value->name) > 0)
				high = middle;
			else
				low = middle + 1;
		}
		size_t at = low;
		memmove(&sorted[at + 1], &sorted[at], (i - at) * sizeof *sorted);
		sorted[at] = *value;
	}
	model->sorted_values = sorted;
}

static struct fsdp_counts *new_counts(struct fsdp_model *model)
{
	struct fsdp_counts *counts = FSDP_TAKE(model->arena, counts, 1);
	model->sums = FSDP_TAKE(model->arena, model->sums, SUMS_MOST);
	counts->model = model;
	counts->last.shape = FSDP_NONE;
	fsdp_bits_init(&counts->marks, model->arena);
	return counts;
}

void fsdp_model_counting(struct fsdp_model *model)
{
	model->counting = new_counts(model);
}

bool fsdp_model_count_plain(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const struct fsdp_piece_record *piece, const struct fsdp_extent *extent)
{
	bool plain = count_tensor(model->counting, tensor, piece, extent);
	model->needs_records |= !plain;
	return plain;
}

size_t fsdp_model_counted(const struct fsdp_model *model)
{
	return model->counting->tensors;
}

/* What can be counted without order and tree, if the model is so plain that it makes no
 * difference; else nothing was counted. */
static bool model_count(struct fsdp_model *model)
{
	bool begun = model->counting != NULL;
	struct fsdp_counts *counts = begun ? model->counting : new_counts(model);
	size_t tensors = begun ? counts->tensors : model->tensors.count;
	bool plain = !model->has_plan && !model->is_set &&
		     model->values.count <= VALUES_MOST && tensors >= model->counts_from;
	if (plain && !begun)
		plain = count_tensors(counts);
	/* Where there is nothing else, all of them are shown as a tree. */
	if (!plain || !mark_hints(counts) || counts->others == counts->tensors) {
		model->sum_count = 0;
		model->needs_records |= begun;
		return false;
	}
	sort_counted_values(model);
	model->payload += counts->payload;
	model->unused += counts->unused;
	model->no_visits = true;
	model->module_count = counts->modules;
	model->tensor_count = counts->tensors;
	return true;
}

/*
 * The steps by which a model is sorted, linked, joined and counted, in their order; and
 * two that only count names and ranks.
 */

/* In how many tensors each wrapper segment occurs: flags travel from names to the names
 * below them, so each segment is compared once. */
static void count_prefixes(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t names = model->names.list.count;
	size_t kinds = 0;
	while (fsdp_name_wrapper_segment(kinds) != NULL)
		kinds++;
	unsigned char *flags = fsdp_arena_take(scratch, names, 1);
	model->prefixes = FSDP_TAKE(model->arena, model->prefixes, kinds);
	for (uint32_t id = 1; id < names; id++) {
		size_t found =
			fsdp_name_find_wrapper(fsdp_names_segment(&model->names, id));
		flags[id] = flags[fsdp_names_at(&model->names, id)->parent];
		if (found != 0)
			flags[id] |= (unsigned char)(1u << (found - 1));
	}
	uint64_t counts[8] = { 0 };
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
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
}

static void list_ranks(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t highest = 0;
	bool any = false;
	FSDP_EACH(i, model->pieces.count, piece, fsdp_model_piece(model, i)) {
		if (piece->rank == FSDP_NONE)
			continue;
		any = true;
		if (piece->rank > highest)
			highest = piece->rank;
	}
	if (!any)
		return;
	/* fsdp_model_check refuses ranks from FSDP_RANKS_MAX on, so this is bounded. */
	unsigned char *seen = fsdp_arena_take(scratch, (size_t)highest + 1, 1);
	size_t count = 0;
	FSDP_EACH(i, model->pieces.count, piece, fsdp_model_piece(model, i)) {
		if (piece->rank == FSDP_NONE || seen[piece->rank])
			continue;
		seen[piece->rank] = 1;
		count++;
	}
	model->ranks = FSDP_TAKE(model->arena, model->ranks, count);
	for (uint32_t rank = 0; rank <= highest; rank++)
		if (seen[rank])
			model->ranks[model->rank_count++] = rank;
}

typedef void (*freeze_step)(struct fsdp_model *model, struct fsdp_arena *scratch);

static const freeze_step steps[] = {
	fsdp_freeze_roles,
	fsdp_freeze_merge,
	fsdp_freeze_visits,
	fsdp_freeze_keys,
	fsdp_freeze_local,
	freeze_names,
	freeze_order,
	freeze_aliases,
	fsdp_freeze_join,
	fsdp_freeze_tree,
	count_prefixes,
	list_ranks,
	freeze_storages,
};

struct freezing {
	struct fsdp_model *model;
	struct fsdp_arena scratch;
};

static void freeze(void *context)
{
	struct freezing *freezing = context;
	struct fsdp_model *model = freezing->model;
	if ((model->only_counts && model_count(model)) || model->needs_records)
		return;
	for (size_t i = 0; i < FSDP_COUNT(steps); i++) {
		/* What one step needed is gone before the next: at a million tensors the
		 * steps together would take as much again as the model. */
		struct fsdp_arena *scratch = &freezing->scratch;
		fsdp_arena_done(scratch);
		fsdp_arena_init(scratch, model->arena->budget);
		scratch->escape = model->arena->escape;
		steps[i](model, scratch);
	}
	model->module_count = model->modules.count;
}

bool fsdp_model_freeze(struct fsdp_model *model, struct fsdp_error **ret_error)
{
	struct freezing freezing = { .model = model };
	if (!fsdp_model_check(model, ret_error))
		return false;
	fsdp_arena_init(&freezing.scratch, model->arena->budget);
	bool done =
		fsdp_model_try(model, &freezing.scratch, freeze, &freezing, ret_error);
	fsdp_arena_done(&freezing.scratch);
	if (!done || model->needs_records)
		return false;
	FSDP_EACH(k, model->files.count, file, fsdp_model_file(model, k))
		if (file->size != FSDP_UNKNOWN)
			model->on_disk += file->size;
	return !model->findings.lost || fsdp_arena_fail(model->arena, ret_error);
}
