/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys by which tensors and pieces are grouped (fsdp_keys), sums by one key (fsdp_sums),
 * the total of a list of tensors (fsdp_storage_total), and bytes of each module per rank
 * (fsdp_rank_bytes).
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "aggregate/aggregate.h"
#include "base/error.h"
#include "base/num.h"
#include "base/sort.h"

static size_t key_count(const struct fsdp_checkpoint *checkpoint, enum fsdp_group_key by)
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
	case FSDP_BY_LAYER:
		return fsdp_module_count(checkpoint);
	case FSDP_BY_UNIT:
		return fsdp_unit_count(checkpoint);
	case FSDP_BY_PREFIX:
		return fsdp_tensor_count(checkpoint);
	}
	return 0;
}

static size_t cut_at(struct fsdp_span name, int64_t segments)
{
	size_t size = 0;
	if (segments <= 0)
		return 0;
	for (; size < name.size; size++)
		if (name.data[size] == '.' && --segments == 0)
			break;
	return size;
}

/* Tensors are in natural order, so those with the same prefix are adjacent: their key is
 * the first of them. */
static void map_names(
	struct fsdp_keys *keys, struct fsdp_scratch *scratch, struct fsdp_scratch *last)
{
	struct fsdp_span head = FSDP_SPAN("");
	uint32_t first = FSDP_NONE;
	for (uint32_t i = 0; i < keys->count; i++) {
		struct fsdp_span name = fsdp_scratch_name(
			scratch, keys->checkpoint, fsdp_tensor(keys->checkpoint, i).name);
		name.size = cut_at(name, keys->depth);
		if (first == FSDP_NONE || !fsdp_span_equal(name, head)) {
			struct fsdp_scratch kept = *last;
			first = i;
			head = name;
			/* The next name goes where this one is not. */
			*last = *scratch;
			*scratch = kept;
		}
		keys->map[i] = first;
	}
}

static bool map_keys(struct fsdp_keys *keys, struct fsdp_error **ret_error)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	struct fsdp_scratch names = { .arena = &arena }, last = { .arena = &arena };
	keys->map = malloc((keys->count + 1) * sizeof *keys->map);
	if (keys->map == NULL)
		return fsdp_fail_memory(ret_error);
	fsdp_arena_init_lean(&arena, &budget);
	if (keys->by == FSDP_BY_LAYER) {
		/* The topmost visit that is called a number, of each visit at or below
		 * one. */
		FSDP_EACH(i, (uint32_t)keys->count, module,
			fsdp_module(keys->checkpoint, i)) {
			uint32_t above = FSDP_NONE;
			if (module.parent < i)
				above = keys->map[module.parent];
			if (above == FSDP_NONE &&
				fsdp_ends_with_number(fsdp_scratch_name(
					&names, keys->checkpoint, module.name)))
				above = i;
			keys->map[i] = above;
		}
	} else
		map_names(keys, &names, &last);
	fsdp_arena_done(&arena);
	if (names.failed || last.failed)
		return fsdp_fail_memory(ret_error);
	return true;
}

bool fsdp_keys_init(struct fsdp_keys *keys, const struct fsdp_checkpoint *checkpoint,
	enum fsdp_group_key by, int64_t depth, struct fsdp_error **ret_error)
{
	size_t ranks;
	*keys = (struct fsdp_keys){ .checkpoint = checkpoint,
		.by = by,
		.depth = depth,
		.count = key_count(checkpoint, by) };
	if (by == FSDP_BY_RANK)
		keys->ranks = fsdp_checkpoint_ranks(checkpoint, &ranks);
	return (by != FSDP_BY_LAYER && by != FSDP_BY_PREFIX) || map_keys(keys, ret_error);
}

void fsdp_keys_done(struct fsdp_keys *keys)
{
	free(keys->map);
	keys->map = NULL;
}

uint32_t fsdp_keys_at(const struct fsdp_keys *keys, size_t position)
{
	if (position >= keys->count)
		return FSDP_NONE;
	return keys->ranks != NULL ? keys->ranks[position] : (uint32_t)position;
}

/* The visit at or above this one that has a key of its own. */
static uint32_t module_of(const struct fsdp_keys *keys, uint32_t index)
{
	while (index != FSDP_NONE && keys->depth >= 0) {
		struct fsdp_module module = fsdp_module(keys->checkpoint, index);
		if (module.shown_depth <= (uint64_t)keys->depth)
			break;
		index = module.parent;
	}
	return index;
}

size_t fsdp_keys_of_tensor(
	const struct fsdp_keys *keys, uint32_t index, const struct fsdp_tensor *tensor)
{
	size_t key = FSDP_NONE;
	switch (keys->by) {
	case FSDP_BY_DTYPE:
		key = tensor->dtype;
		break;
	case FSDP_BY_ROLE:
		key = (size_t)tensor->role;
		break;
	case FSDP_BY_MODULE:
		key = module_of(keys, tensor->module);
		break;
	case FSDP_BY_LAYER:
		if (tensor->module < keys->count)
			key = keys->map[tensor->module];
		break;
	case FSDP_BY_UNIT:
		key = tensor->unit;
		break;
	case FSDP_BY_PREFIX:
		key = index < keys->count ? keys->map[index] : FSDP_NONE;
		break;
	case FSDP_BY_RANK:
	case FSDP_BY_FILE:
		break;
	}
	return fsdp_min(key, keys->count);
}

size_t fsdp_keys_of_piece(const struct fsdp_keys *keys, uint32_t piece, uint32_t rank)
{
	size_t key = FSDP_NONE;
	if (keys->by == FSDP_BY_RANK)
		key = fsdp_find_sorted(keys->ranks, keys->count, rank);
	else if (keys->by == FSDP_BY_FILE)
		key = fsdp_piece(keys->checkpoint, piece).file;
	return fsdp_min(key, keys->count);
}

/*
 * Adds up tensors by a common property.
 */

struct fsdp_sums {
	struct fsdp_keys keys;
	size_t count; /* groups; the last is for what has no key */
	struct {
		struct fsdp_group sum;
		uint32_t last_tensor;
	} groups[];
};

bool fsdp_sums_new(const struct fsdp_checkpoint *checkpoint, enum fsdp_group_key by,
	int64_t depth, struct fsdp_sums **ret_sums, struct fsdp_error **ret_error)
{
	struct fsdp_keys keys;
	struct fsdp_sums *sums;
	if (!fsdp_keys_init(&keys, checkpoint, by, depth, ret_error)) {
		fsdp_keys_done(&keys);
		return false;
	}
	sums = calloc(1, sizeof *sums + (keys.count + 1) * sizeof *sums->groups);
	if (sums == NULL) {
		fsdp_keys_done(&keys);
		return fsdp_fail_memory(ret_error);
	}
	sums->keys = keys;
	sums->count = keys.count + 1;
	for (uint32_t i = 0; i < sums->count; i++) {
		sums->groups[i].sum.key = fsdp_keys_at(&keys, i);
		sums->groups[i].last_tensor = FSDP_NONE;
	}
	*ret_sums = sums;
	return true;
}

void fsdp_sums_free(struct fsdp_sums *sums)
{
	if (sums != NULL)
		fsdp_keys_done(&sums->keys);
	free(sums);
}

static void add(struct fsdp_sums *sums, size_t group, uint32_t tensor,
	const struct fsdp_addend *part)
{
	struct fsdp_group *sum = &sums->groups[group].sum;
	if (sums->groups[group].last_tensor != tensor)
		sum->tensors++;
	sums->groups[group].last_tensor = tensor;
	fsdp_addend_tally(sum, part);
}

void fsdp_sums_add(struct fsdp_sums *sums, uint32_t index,
	const struct fsdp_tensor *tensor, fsdp_piece_filter *takes, void *context)
{
	struct fsdp_addend part = fsdp_addend_of_tensor(tensor);
	if (fsdp_keys_of_pieces(&sums->keys)) {
		/* Where a piece is stored is looked at only where it matters: that is
		 * most of the cost. */
		const struct fsdp_checkpoint *checkpoint = sums->keys.checkpoint;
		bool counts = fsdp_tensor_has_bytes(checkpoint, index, tensor);
		for (uint32_t i = 0; i < tensor->piece_count; i++) {
			uint32_t at = tensor->first_piece + i, rank;
			struct fsdp_addend addend = fsdp_addend_of_piece(
				checkpoint, tensor, at, counts, &rank);
			if (takes != NULL) {
				struct fsdp_piece piece = fsdp_piece(checkpoint, at);
				if (!takes(context, &piece))
					continue;
			}
			add(sums, fsdp_keys_of_piece(&sums->keys, at, rank), index,
				&addend);
		}
	} else
		add(sums, fsdp_keys_of_tensor(&sums->keys, index, tensor), index, &part);
}

size_t fsdp_sums_group_of(
	const struct fsdp_sums *sums, uint32_t index, const struct fsdp_tensor *tensor)
{
	return fsdp_keys_of_tensor(&sums->keys, index, tensor);
}

void fsdp_sums_add_counted(struct fsdp_sums *sums, const struct fsdp_sum *sum)
{
	size_t group = sums->count - 1;
	if (sums->keys.by == FSDP_BY_DTYPE && sum->dtype < group)
		group = sum->dtype;
	if (sums->keys.by == FSDP_BY_ROLE && (size_t)sum->role < group)
		group = (size_t)sum->role;
	fsdp_tally(&sums->groups[group].sum.tensors, sum->tensors);
	fsdp_tally(&sums->groups[group].sum.pieces, sum->tensors);
	fsdp_tally(&sums->groups[group].sum.numel, sum->numel);
	fsdp_tally(&sums->groups[group].sum.bytes, sum->bytes);
	fsdp_tally(&sums->groups[group].sum.parameters, sum->parameters);
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

/*
 * Adds up a list of tensors as they are listed and as they are stored: names may be tied,
 * and views may see the same bytes.
 */

/* The bytes of a storage that a tensor sees: all from its first to its last element. */
struct seen {
	uint32_t storage; /* the tensor that stands for it */
	uint64_t start, end;
	uint64_t bytes; /* of the elements */
};

struct adding {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_total *total;
	bool some_plain;    /* not all of the list are such FlatParameters */
	bool *named;        /* by tensor: some name of it was counted */
	uint32_t *storages; /* by tensor: which stands for its storage, or FSDP_NONE */
	struct seen *views;
	size_t view_count;
};

/* Elements from the first to the end of the last. */
static uint64_t extent(const struct fsdp_tensor *tensor, const struct fsdp_piece *piece)
{
	uint64_t last = 0;
	if (piece->strides == NULL)
		return tensor->numel;
	for (uint32_t i = 0; i < piece->dims && i < tensor->dims; i++) {
		int64_t stride = piece->strides[i];
		uint64_t step;
		if (tensor->shape[i] <= 1)
			continue;
		if (stride < 0 || !fsdp_mul((uint64_t)tensor->shape[i] - 1,
					  (uint64_t)stride, &step))
			return FSDP_UNKNOWN;
		fsdp_tally(&last, step);
	}
	fsdp_tally(&last, 1);
	return last;
}

/* False: its position is unknown. */
static bool find_view(
	struct adding *adding, const struct fsdp_tensor *tensor, struct seen *ret_view)
{
	uint64_t item = fsdp_dtype(tensor->dtype)->storage_bytes, length, start;
	if (tensor->piece_count != 1)
		return false;
	struct fsdp_piece piece = fsdp_piece(adding->checkpoint, tensor->first_piece);
	length = extent(tensor, &piece);
	if (piece.storage_offset == FSDP_UNKNOWN || length == FSDP_UNKNOWN ||
		!fsdp_mul(piece.storage_offset, item, &start) ||
		!fsdp_mul(length, item, &length))
		return false;
	ret_view->start = start;
	ret_view->bytes = tensor->bytes;
	return fsdp_add(start, length, &ret_view->end);
}

/* Goes around the ring of a storage once for all that are on it. */
static uint32_t storage_of(struct adding *adding, uint32_t index)
{
	uint32_t at = index;
	if (adding->storages[index] != FSDP_NONE)
		return adding->storages[index];
	do {
		adding->storages[at] = index;
		at = fsdp_tensor_storage_next(adding->checkpoint, at);
	} while (at != index && adding->storages[at] == FSDP_NONE);
	return index;
}

static void add_tensor(struct adding *adding, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(adding->checkpoint, index);
	bool alone = fsdp_tensor_storage_next(adding->checkpoint, index) == index;
	uint32_t name = tensor.alias != FSDP_NONE ? tensor.alias : index;
	bool spread = (tensor.flags & FSDP_TENSOR_SPREAD) != 0 && adding->some_plain;
	bool again = adding->named[name];
	struct fsdp_total *total = adding->total;
	struct seen view = { 0 };
	fsdp_tally(&total->numel, tensor.numel);
	fsdp_tally(&total->bytes, tensor.bytes);
	total->shared += (again && !alone) || spread;
	total->ranks_own += (tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0;
	if ((tensor.flags & FSDP_TENSOR_NO_DATA) == 0 && !spread && (alone || !again)) {
		if (alone || !find_view(adding, &tensor, &view)) {
			fsdp_tally(&total->stored_bytes, tensor.bytes);
		} else {
			view.storage = storage_of(adding, index);
			adding->views[adding->view_count++] = view;
		}
	}
	if (fsdp_tensor_is_parameter(&tensor) && !spread && !again)
		fsdp_tally(&total->parameters, tensor.numel);
	adding->named[name] = true;
}

bool fsdp_storage_total(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, struct fsdp_total *ret_total, struct fsdp_error **ret_error)
{
	size_t all = fsdp_tensor_count(checkpoint);
	struct adding adding = { .checkpoint = checkpoint, .total = ret_total };
	bool good;
	*ret_total = (struct fsdp_total){ 0 };
	adding.named = calloc(all + 1, sizeof *adding.named);
	adding.storages = malloc((all + 1) * sizeof *adding.storages);
	adding.views = malloc((count + 1) * sizeof *adding.views);
	good = adding.named != NULL && adding.storages != NULL && adding.views != NULL;
	if (good) {
		memset(adding.storages, 0xff, (all + 1) * sizeof *adding.storages);
		for (size_t i = 0; i < count && !adding.some_plain; i++)
			adding.some_plain =
				(fsdp_tensor(adding.checkpoint, tensors[i]).flags &
					FSDP_TENSOR_SPREAD) == 0;
		for (size_t i = 0; i < count; i++)
			add_tensor(&adding, tensors[i]);
		FSDP_SORT(adding.views, adding.view_count, FSDP_BY(adding.views, storage),
			FSDP_BY(adding.views, start), FSDP_BY(adding.views, end));
		for (size_t i = 0; i < adding.view_count;) {
			/* What views of one storage see together: never more than each by
			 * itself. */
			const struct seen *views = adding.views;
			uint64_t seen = 0, bytes = 0, end = 0;
			size_t k = i;
			for (; k < adding.view_count &&
				views[k].storage == views[i].storage;
				k++) {
				uint64_t begin =
					views[k].start > end ? views[k].start : end;
				adding.total->shared += k > i && views[k].start < end;
				if (views[k].end > begin)
					fsdp_tally(&seen, views[k].end - begin);
				if (views[k].end > end)
					end = views[k].end;
				fsdp_tally(&bytes, views[k].bytes);
			}
			fsdp_tally(&adding.total->stored_bytes, fsdp_min(seen, bytes));
			i = k;
		}
	}
	free(adding.named);
	free(adding.storages);
	free(adding.views);
	return good || fsdp_fail_memory(ret_error);
}

/*
 * Computes which part of each module one rank stores.
 */

/* Of one visit and all below: what its tensors have, and the most of it on one rank. */
struct share {
	uint64_t bytes, rank_bytes;
};

struct fsdp_rank_bytes {
	const struct fsdp_checkpoint *checkpoint;
	size_t count;
	bool unknown; /* of some tensor, and so of all */
	struct share modules[];
};

/* An even share of a tensor, or FSDP_UNKNOWN. */
static uint64_t share_of_unit(
	const struct fsdp_rank_bytes *shares, const struct fsdp_tensor *tensor)
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
	const struct fsdp_rank_bytes *shares, const struct fsdp_tensor *tensor)
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

static void add_module(struct fsdp_rank_bytes *shares, uint32_t index)
{
	struct fsdp_module module = fsdp_module(shares->checkpoint, index);
	for (uint32_t i = 0; i < module.tensor_count; i++) {
		uint32_t tensor = fsdp_module_tensor(shares->checkpoint, &module, i);
		struct fsdp_tensor facts = fsdp_tensor(shares->checkpoint, tensor);
		/* As parameters and bytes are counted: each name where it is, and where
		 * two names of one parameter meet it is taken back. What wraps comes out
		 * right in the sum. */
		uint64_t most = rank_bytes(shares, &facts);
		uint32_t tied = FSDP_NONE;
		if (facts.role == FSDP_ROLE_BUFFER)
			continue;
		shares->unknown |= most == FSDP_UNKNOWN;
		shares->modules[index].bytes += facts.bytes;
		shares->modules[index].rank_bytes += most;
		if (facts.alias != FSDP_NONE)
			tied = fsdp_tensor(shares->checkpoint, facts.alias).module;
		if (tied == FSDP_NONE)
			continue;
		/* The lowest visit above both. */
		uint32_t a = index;
		uint32_t b = tied;
		while (a != b) {
			struct fsdp_module left = fsdp_module(shares->checkpoint, a),
					   right = fsdp_module(shares->checkpoint, b);
			if (left.depth < right.depth)
				b = right.parent;
			else
				a = left.parent;
		}
		tied = a;
		shares->modules[tied].bytes -= facts.bytes;
		shares->modules[tied].rank_bytes -= most;
	}
}

bool fsdp_rank_bytes_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_rank_bytes **ret_shares, struct fsdp_error **ret_error)
{
	size_t count = fsdp_module_count(checkpoint);
	struct fsdp_rank_bytes *shares =
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

void fsdp_rank_bytes_free(struct fsdp_rank_bytes *shares)
{
	free(shares);
}

/* If the bytes differ from those of the module, the plan lists more, or ties that no file
 * records. */
uint64_t fsdp_rank_bytes_of(const struct fsdp_rank_bytes *shares, uint32_t module)
{
	if (module >= shares->count || shares->unknown ||
		shares->modules[module].bytes !=
			fsdp_module(shares->checkpoint, module).bytes)
		return FSDP_UNKNOWN;
	return shares->modules[module].rank_bytes;
}
