/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two items share bytes of a data file. A writer puts items one behind the other
 * and records them in that order, so nearly always one look at each range proves that none
 * does; only the ranges of files where it does not are put in order.
 *
 * Origin: torch/distributed/checkpoint/filesystem.py (_write_item), PyTorch 1.13 to 2.13.
 */
#include <stdlib.h>

#include "base/num.h"
#include "format/dcp/metadata.h"

/* A range, and who it is of. */
struct item_range {
	uint64_t offset, length;
	uint32_t path, info, item;
	uint32_t chunk; /* FSDP_NONE: an object */
};

/* What is known of a data file, by the id of its path. */
struct file_ranges {
	uint64_t reach; /* where the ranges so far end */
	bool mixed;     /* one of them began before that, or is named twice */
};

struct range_walk {
	struct fsdp_dcp *dcp;
	const struct fsdp_folder *folder;
	struct file_ranges *files;
	uint64_t *shared;          /* by the id of a path */
	struct item_range *ranges; /* of the files that are mixed */
	size_t count;
};

static bool is_range(const struct fsdp_dcp_info *info)
{
	uint64_t end;
	return !info->bad && info->length != 0 &&
	       fsdp_add(info->offset, info->length, &end);
}

bool fsdp_dcp_is_one_item(const struct fsdp_folder *folder, struct fsdp_span path)
{
	struct fsdp_source source;
	return fsdp_folder_source(folder, path, &source, NULL) &&
	       fsdp_source_begins_safetensors(&source);
}

/* In the order in which they were recorded. True: some file wants a closer look. */
static bool find_mixed(struct range_walk *walk)
{
	size_t paths = walk->dcp->paths.names.list.count;
	bool any = false;
	for (size_t i = 0; i < walk->dcp->infos.count; i++) {
		const struct fsdp_dcp_info *info = fsdp_vec_at(&walk->dcp->infos, i);
		struct file_ranges *file = &walk->files[info->path];
		if (!is_range(info))
			continue;
		if (info->offset < file->reach || info->named_twice)
			file->mixed = true;
		else
			file->reach = info->offset + info->length;
	}
	for (uint32_t id = 1; id < paths; id++) {
		struct file_ranges *file = &walk->files[id];
		file->mixed = file->mixed && !fsdp_dcp_is_one_item(walk->folder,
						     fsdp_dcp_path(walk->dcp, id));
		any |= file->mixed;
	}
	return any;
}

/* Counts the range, and keeps it where there is room for it already. */
static void take(struct range_walk *walk, uint32_t info_id, uint32_t item, uint32_t chunk)
{
	if (info_id == FSDP_NONE)
		return;
	const struct fsdp_dcp_info *info = fsdp_vec_at(&walk->dcp->infos, info_id);
	if (!is_range(info) || !walk->files[info->path].mixed)
		return;
	if (walk->ranges != NULL)
		walk->ranges[walk->count] = (struct item_range){ info->offset,
			info->length, info->path, info_id, item, chunk };
	walk->count++;
}

static void collect(struct range_walk *walk)
{
	struct fsdp_dcp *dcp = walk->dcp;
	walk->count = 0;
	for (uint32_t i = 0; i < dcp->items.count; i++) {
		const struct fsdp_dcp_item *item = fsdp_vec_at(&dcp->items, i);
		if (item->is_object)
			take(walk, item->info, i, FSDP_NONE);
		for (uint32_t id = item->is_object ? FSDP_NONE : item->first_list;
			id != FSDP_NONE;) {
			const struct fsdp_dcp_list *list = fsdp_vec_at(&dcp->lists, id);
			for (uint32_t k = list->first; k - list->first < list->count; k++)
				take(walk,
					((const struct fsdp_dcp_chunk *)fsdp_vec_at(
						 &dcp->chunks, k))
						->info,
					i, k);
			id = list->next;
		}
	}
}

static int by_place(const void *a, const void *b)
{
	const struct item_range *left = a, *right = b;
	if (left->path != right->path)
		return left->path < right->path ? -1 : 1;
	if (left->offset != right->offset)
		return left->offset < right->offset ? -1 : 1;
	if (left->item != right->item)
		return left->item < right->item ? -1 : 1;
	return left->chunk < right->chunk ? -1 : left->chunk > right->chunk;
}

/* Copies of a piece that the metadata names twice, and keys that share a list of chunks. */
static bool may_share(const struct range_walk *walk, const struct item_range *a,
	const struct item_range *b)
{
	const struct fsdp_dcp *dcp = walk->dcp;
	if (a->length != b->length || a->offset != b->offset || a->chunk == FSDP_NONE ||
		b->chunk == FSDP_NONE)
		return false;
	const struct fsdp_dcp_chunk *first = fsdp_vec_at(&dcp->chunks, a->chunk);
	const struct fsdp_dcp_chunk *second = fsdp_vec_at(&dcp->chunks, b->chunk);
	return a->chunk == b->chunk ||
	       (a->item == b->item && first->dims == second->dims &&
		       memcmp(fsdp_model_ints(dcp->model, first->box),
			       fsdp_model_ints(dcp->model, second->box),
			       2 * first->dims * sizeof(int64_t)) == 0);
}

static void say(const struct range_walk *walk, const struct item_range *one,
	const struct item_range *before)
{
	const struct fsdp_dcp *dcp = walk->dcp;
	const struct fsdp_dcp_item *item = fsdp_vec_at(&dcp->items, one->item);
	const struct fsdp_dcp_item *other = fsdp_vec_at(&dcp->items, before->item);
	fsdp_find(&dcp->model->findings, FSDP_RULE_STORAGE_OVERLAP,
		FSDP_PLACE(.file = fsdp_dcp_path(dcp, one->path), .offset = one->offset,
			.length = one->length, .tensor = item->text),
		"its %llu bytes from byte %llu on share bytes with %s%.*s, which has %llu from byte %llu on",
		FSDP_LLU(one->length), FSDP_LLU(one->offset),
		one->item == before->item ? "another piece of " : "",
		FSDP_TEXT_MOST(other->text, 200), FSDP_LLU(before->length),
		FSDP_LLU(before->offset));
}

static void judge(const struct range_walk *walk)
{
	const struct item_range *last = NULL; /* that reaches furthest in its file */
	for (size_t i = 0; i < walk->count; i++) {
		const struct item_range *range = &walk->ranges[i];
		uint64_t end = range->offset + range->length, reach = 0;
		if (last != NULL && last->path == range->path)
			reach = last->offset + last->length;
		if (range->offset < reach) {
			if (!may_share(walk, range, last))
				say(walk, range, last);
			if (range->info != last->info)
				walk->shared[range->path] +=
					fsdp_min(end, reach) - range->offset;
		}
		if (end > reach)
			last = range;
	}
}

bool fsdp_dcp_judge_ranges(struct fsdp_dcp *dcp, const struct fsdp_folder *folder,
	uint64_t *shared, struct fsdp_error **ret_error)
{
	struct range_walk walk = { .dcp = dcp, .folder = folder, .shared = shared };
	walk.files = FSDP_TAKE(dcp->scratch, walk.files, dcp->paths.names.list.count + 1);
	if (walk.files == NULL)
		return fsdp_arena_fail(dcp->scratch, ret_error);
	if (!find_mixed(&walk))
		return true;
	collect(&walk);
	walk.ranges = FSDP_TAKE(dcp->scratch, walk.ranges, walk.count + 1);
	if (walk.ranges == NULL)
		return fsdp_arena_fail(dcp->scratch, ret_error);
	collect(&walk);
	qsort(walk.ranges, walk.count, sizeof *walk.ranges, by_place);
	judge(&walk);
	return true;
}
