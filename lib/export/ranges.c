/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the work into ranges of tensors, and shares it out to threads.
 */
#include <stdlib.h>

#include "base/pool.h"
#include "export/writing.h"

enum { THREADS = 64 };

/* ---- ranges ---- */

static uint64_t numel_a_part(const struct fsdp_export_item *item)
{
	uint32_t width = item->width > item->width_read ? item->width : item->width_read;
	/* Who begins in the middle of what is packed unpacks all that is before. */
	return item->packed ? UINT64_MAX : FSDP_EXPORT_RANGE / width;
}

uint64_t fsdp_export_parts(const struct fsdp_export_item *item)
{
	uint64_t most = numel_a_part(item);
	return item->numel / most + (item->numel % most != 0);
}

uint64_t fsdp_export_range_numel(
	const struct fsdp_export_item *item, uint32_t part, uint64_t *ret_first)
{
	uint64_t most = numel_a_part(item);
	*ret_first = part * most;
	return fsdp_min(most, item->numel - *ret_first);
}

/* Where the first piece of an item lies: its file, and its place in there. */
struct source {
	uint64_t order;
	uint32_t file, item;
};

static int compare_sources(const void *left, const void *right)
{
	const struct source *a = left, *b = right;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static void fill_sources(const struct fsdp_export *plan, struct source *sources)
{
	for (size_t i = 0; i < plan->item_count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(plan->checkpoint, plan->items[i].tensor);
		sources[i] = (struct source){ .file = FSDP_NONE, .item = (uint32_t)i };
		if (tensor.piece_count == 0)
			continue;
		struct fsdp_piece piece =
			fsdp_piece(plan->checkpoint, tensor.first_piece);
		sources[i].file = piece.file;
		sources[i].order = piece.order;
	}
}

bool fsdp_export_list_ranges(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export *plan = writing->plan;
	struct source *sources = malloc(plan->item_count * sizeof *sources);
	uint64_t count = 0;
	for (size_t i = 0; i < plan->item_count; i++)
		count += fsdp_export_parts(&plan->items[i]);
	writing->ranges = FSDP_TAKE(&plan->arena, writing->ranges, (size_t)count + 1);
	if (sources == NULL || writing->ranges == NULL) {
		free(sources);
		return fsdp_arena_fail(&plan->arena, ret_error);
	}
	fill_sources(plan, sources);
	qsort(sources, plan->item_count, sizeof *sources, compare_sources);
	for (size_t i = 0; i < plan->item_count; i++) {
		uint64_t parts = fsdp_export_parts(&plan->items[sources[i].item]);
		for (uint32_t k = 0; k < parts; k++)
			writing->ranges[writing->range_count++] =
				(struct fsdp_export_range){ .item = sources[i].item,
					.part = k };
	}
	free(sources);
	return true;
}

/* ---- traits ---- */

void fsdp_export_blocks_add(
	struct fsdp_export_blocks *blocks, const unsigned char *bytes, size_t size)
{
	while (size != 0) {
		if (blocks->size == 0 && size >= FSDP_EXPORT_BLOCK) {
			fsdp_trait_add(&blocks->trait, bytes, FSDP_EXPORT_BLOCK);
			bytes += FSDP_EXPORT_BLOCK;
			size -= FSDP_EXPORT_BLOCK;
			continue;
		}
		size_t part = (size_t)fsdp_min(size, FSDP_EXPORT_BLOCK - blocks->size);
		memcpy(blocks->rest + blocks->size, bytes, part);
		blocks->size += part;
		bytes += part;
		size -= part;
		if (blocks->size == FSDP_EXPORT_BLOCK)
			fsdp_export_blocks_end(blocks);
	}
}

void fsdp_export_blocks_end(struct fsdp_export_blocks *blocks)
{
	if (blocks->size != 0)
		fsdp_trait_add(&blocks->trait, blocks->rest, blocks->size);
	blocks->size = 0;
}

/* ---- threads ---- */

struct shared {
	struct fsdp_writing *writing;
	const struct fsdp_export_step *step;
};

/* The first error is kept, whichever thread met it. */
static void keep_error(struct fsdp_writing *writing, struct fsdp_error *error)
{
	struct fsdp_error *none = NULL;
	if (error == NULL)
		fsdp_fail_memory(&error);
	if (!atomic_compare_exchange_strong(&writing->error, &none, error))
		fsdp_error_free(error);
}

static void work(void *context, size_t thread)
{
	struct shared *shared = context;
	struct fsdp_writing *writing = shared->writing;
	const struct fsdp_export_step *step = shared->step;
	struct fsdp_error *error = NULL;
	void *own = NULL;
	bool good = true;
	(void)thread;
	if (atomic_load(&writing->next) >= step->count)
		return;
	own = step->begin(writing, &error);
	good = own != NULL;
	while (good && atomic_load(&writing->error) == NULL) {
		size_t index = atomic_fetch_add(&writing->next, 1);
		if (index >= step->count)
			break;
		good = step->work(writing, own, index, &error);
	}
	if (own != NULL)
		step->end(own);
	if (!good)
		keep_error(writing, error);
}

bool fsdp_export_run(struct fsdp_writing *writing, const struct fsdp_export_step *step,
	struct fsdp_error **ret_error)
{
	unsigned jobs = writing->target->jobs;
	struct shared shared = { writing, step };
	atomic_store(&writing->next, 0);
	jobs = jobs == 0 ? 1 : jobs < THREADS ? jobs : THREADS;
	fsdp_pool_run(jobs, jobs, work, &shared);
	struct fsdp_error *error = atomic_exchange(&writing->error, NULL);
	return error == NULL || fsdp_fail_with(ret_error, error);
}

bool fsdp_export_advance(
	struct fsdp_writing *writing, uint64_t bytes, struct fsdp_error **ret_error)
{
	const struct fsdp_export_target *target = writing->target;
	uint64_t done = atomic_fetch_add(&writing->done, bytes) + bytes;
	if (target->progress == NULL ||
		target->progress(target->progress_context, done, writing->total))
		return true;
	return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
		"interrupted: nothing was written");
}
