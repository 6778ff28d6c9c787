/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts tensors into ranges, hands these out to threads, and cuts what is read of them
 * into blocks.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <fsdp/elements.h>

#include "base/num.h"
#include "base/tasks.h"
#include "base/sort.h"
#include "checkpoint/checkpoint-private.h"

enum { THREADS = 64, LONG_SHARE = 4 };

struct walk_range {
	struct fsdp_walk_range shown;
	bool over; /* the tensor claims more than may be */
};

struct walk {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_walk_options options;
	size_t tensor_count;
	struct walk_range *ranges; /* in the order of the files */
	size_t range_count, range_room;
	uint64_t total;
	_Atomic uint64_t done;
	_Atomic size_t next;
	_Atomic bool telling, stopped;
	_Atomic(struct fsdp_error *) error; /* a thread could not begin */
};

/* One tensor while it is read, of one of the checkpoints. */
struct side {
	struct fsdp_locator *locator;
	struct fsdp_elements *elements; /* of the range; NULL: not begun */
	struct fsdp_span chunk;         /* what is left of what came last */
	unsigned char *rest;            /* room for a block that comes in parts */
};

struct fsdp_walker {
	struct walk *walk;
	const struct walk_range *range;
	struct side side, other;
	bool failed;
};

static uint32_t tensor_of(const struct fsdp_walk_options *options, size_t index)
{
	return options->tensors != NULL ? options->tensors[index] : (uint32_t)index;
}

/* Of an element, or of a byte that holds several. */
static uint64_t width_of(const struct fsdp_checkpoint *checkpoint, uint32_t tensor)
{
	uint32_t dtype = fsdp_model_tensor(&checkpoint->model, tensor)->dtype;
	uint64_t width = fsdp_dtype(dtype)->storage_bytes;
	return width != 0 ? width : 1;
}

/* ---- order ---- */

struct walk_source {
	uint64_t order;
	size_t index;
	uint32_t file;
};

bool fsdp_walk_order(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, size_t *ret_order, struct fsdp_error **ret_error)
{
	struct walk_source *sources = malloc((count + 1) * sizeof *sources);
	if (sources == NULL)
		return fsdp_fail_memory(ret_error);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint, tensors != NULL ? tensors[i] : (uint32_t)i);
		sources[i] = (struct walk_source){ .file = FSDP_NONE, .index = i };
		if (tensor.piece_count == 0)
			continue;
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor.first_piece);
		sources[i].file = piece.file;
		sources[i].order = piece.order;
	}
	FSDP_SORT(sources, count, FSDP_BY(sources, file), FSDP_BY(sources, order),
		FSDP_BY(sources, index));
	for (size_t i = 0; i < count; i++)
		ret_order[i] = sources[i].index;
	free(sources);
	return true;
}

/* ---- ranges ---- */

static uint32_t other_of(const struct fsdp_walk_options *options, size_t index)
{
	return options->others != NULL ? options->others[index] : FSDP_NONE;
}

static uint64_t widest(const struct walk *walk, size_t index)
{
	uint32_t other = other_of(&walk->options, index);
	uint64_t width = width_of(walk->checkpoint, tensor_of(&walk->options, index));
	uint64_t beside = other != FSDP_NONE ? width_of(walk->options.other, other) : 0;
	return beside > width ? beside : width;
}

static uint64_t block_numel(const struct walk *walk, size_t index)
{
	uint32_t tensor = tensor_of(&walk->options, index);
	uint32_t dtype = fsdp_model_tensor(&walk->checkpoint->model, tensor)->dtype;
	unsigned bits = fsdp_dtype(dtype)->item_bits;
	return FSDP_WALK_BLOCK / widest(walk, index) *
	       (bits != 0 && bits < 8 ? 8 / bits : 1);
}

/* A start in the middle of deflated data inflates all data before it. */
static uint64_t range_numel(const struct walk *walk, size_t index)
{
	const struct fsdp_walk_options *options = &walk->options;
	uint32_t other = other_of(options, index);
	if (options->range_bytes == 0 ||
		fsdp_tensor_is_packed(walk->checkpoint, tensor_of(options, index)) ||
		(other != FSDP_NONE && fsdp_tensor_is_packed(options->other, other)))
		return UINT64_MAX;
	uint64_t blocks = options->range_bytes / FSDP_WALK_BLOCK;
	return (blocks != 0 ? blocks : 1) * block_numel(walk, index);
}

static bool cut(struct walk *walk, size_t index, bool over)
{
	struct fsdp_tensor tensor =
		fsdp_tensor(walk->checkpoint, tensor_of(&walk->options, index));
	uint64_t most = over ? UINT64_MAX : range_numel(walk, index), at = 0;
	do {
		uint64_t count = fsdp_min(most, tensor.numel - at);
		struct walk_range range = {
			{ .index = index, .first = at, .count = count }, over
		};
		if (walk->range_count == walk->range_room) {
			size_t room = walk->range_room * 2 + 64;
			struct walk_range *grown =
				realloc(walk->ranges, room * sizeof *grown);
			if (grown == NULL)
				return false;
			walk->ranges = grown;
			walk->range_room = room;
		}
		walk->ranges[walk->range_count] = range;
		walk->ranges[walk->range_count].shown.number = walk->range_count;
		walk->range_count++;
		at += count;
	} while (at < tensor.numel);
	return true;
}

static uint64_t bytes_of(const struct walk *walk, size_t index)
{
	return fsdp_tensor(walk->checkpoint, tensor_of(&walk->options, index)).bytes;
}

/* In the order of their sources, but first those that would keep one thread busy when the
 * others are done. */
static bool cut_in_order(struct walk *walk, const size_t *order, const bool *over)
{
	const struct fsdp_walk_options *options = &walk->options;
	uint64_t jobs = options->jobs != 0 ? options->jobs : 1;
	uint64_t is_long = options->range_bytes == 0 && jobs > 1
				   ? walk->total / (LONG_SHARE * jobs)
				   : UINT64_MAX;
	for (unsigned pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < walk->tensor_count; i++) {
			bool first = bytes_of(walk, order[i]) >= is_long;
			if (first == (pass == 0) && !cut(walk, order[i], over[order[i]]))
				return false;
		}
	return true;
}

static bool list_ranges(struct walk *walk, struct fsdp_error **ret_error)
{
	size_t count = walk->tensor_count;
	size_t *order = malloc((count + 1) * sizeof *order);
	bool *over = malloc((count + 1) * sizeof *over);
	struct fsdp_repeats *repeats = NULL;
	bool good = order != NULL && over != NULL &&
		    fsdp_walk_order(walk->checkpoint, walk->options.tensors, count, order,
			    ret_error) &&
		    fsdp_repeats_new(walk->checkpoint, &repeats, ret_error);
	for (size_t i = 0; good && i < count; i++) {
		over[i] = !fsdp_repeats_take(
			repeats, tensor_of(&walk->options, i), bytes_of(walk, i), NULL);
		if (!over[i] && !fsdp_add(walk->total, bytes_of(walk, i), &walk->total))
			walk->total = UINT64_MAX;
	}
	good = good && cut_in_order(walk, order, over);
	fsdp_repeats_free(repeats);
	free(order);
	free(over);
	return good || fsdp_fail_memory(ret_error);
}

/* ---- blocks ---- */

static void end_side(struct side *side)
{
	fsdp_elements_close(side->elements);
	side->elements = NULL;
	side->chunk = (struct fsdp_span){ 0 };
}

static void side_done(struct side *side)
{
	end_side(side);
	fsdp_locator_free(side->locator);
	free(side->rest);
}

static bool side_init(struct side *side, const struct fsdp_checkpoint *checkpoint,
	struct fsdp_error **ret_error)
{
	side->rest = malloc(FSDP_WALK_BLOCK);
	if (side->rest == NULL)
		return fsdp_fail_memory(ret_error);
	return fsdp_locator_new(checkpoint, &side->locator, ret_error);
}

static bool begin_side(const struct fsdp_walker *walker, struct side *side,
	uint32_t tensor, struct fsdp_error **ret_error)
{
	const struct fsdp_walk_range *range = &walker->range->shown;
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.first = range->first,
		.count = range->count,
		.resolve = true,
	};
	if (walker->range->over)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_EXPANDED_BYTES,
			fsdp_checkpoint_repeatable(walker->walk->checkpoint));
	return side->elements != NULL || fsdp_elements_open(side->locator, tensor,
						 &options, &side->elements, ret_error);
}

/* Up to `size` bytes, together: as they came, or copied where they came in parts. */
static bool read_block(struct side *side, size_t size, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	size_t kept = 0;
	for (;;) {
		if (side->chunk.size == 0 &&
			!fsdp_elements_next(side->elements, &side->chunk, ret_error))
			return false;
		size_t part = (size_t)fsdp_min(size - kept, side->chunk.size);
		const unsigned char *bytes = side->chunk.data;
		if (part == 0) {
			*ret_bytes = fsdp_span(side->rest, kept);
			return true;
		}
		side->chunk = fsdp_span(bytes + part, side->chunk.size - part);
		if (part == size) {
			*ret_bytes = fsdp_span(bytes, part);
			return true;
		}
		memcpy(side->rest + kept, bytes, part);
		kept += part;
		if (kept == size) {
			*ret_bytes = fsdp_span(side->rest, kept);
			return true;
		}
	}
}

static bool next_block(struct fsdp_walker *walker, struct side *side,
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error)
{
	const struct walk *walk = walker->walk;
	size_t index = walker->range->shown.index;
	size_t size = (size_t)(FSDP_WALK_BLOCK / widest(walk, index) *
			       width_of(checkpoint, tensor));
	if (walker->failed)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"the elements before these could not be read");
	walker->failed = !begin_side(walker, side, tensor, ret_error) ||
			 !read_block(side, size, ret_bytes, ret_error);
	return !walker->failed;
}

static bool fail_stopped(struct fsdp_error **ret_error)
{
	return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "interrupted");
}

bool fsdp_walk_next(struct fsdp_walker *walker, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	struct walk *walk = walker->walk;
	if (atomic_load(&walk->stopped))
		return fail_stopped(ret_error);
	if (!next_block(walker, &walker->side, walk->checkpoint,
		    tensor_of(&walk->options, walker->range->shown.index), ret_bytes,
		    ret_error))
		return false;
	const struct fsdp_walk_options *options = &walk->options;
	uint64_t done = atomic_fetch_add(&walk->done, ret_bytes->size) + ret_bytes->size;
	if (options->progress != NULL && !atomic_exchange(&walk->telling, true)) {
		if (!options->progress(options->progress_context, done, walk->total))
			atomic_store(&walk->stopped, true);
		atomic_store(&walk->telling, false);
	}
	return true;
}

bool fsdp_walk_next_other(struct fsdp_walker *walker, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	const struct fsdp_walk_options *options = &walker->walk->options;
	return next_block(walker, &walker->other, options->other,
		other_of(options, walker->range->shown.index), ret_bytes, ret_error);
}

/* ---- threads ---- */

static bool walker_init(struct fsdp_walker *walker, struct fsdp_error **ret_error)
{
	const struct walk *walk = walker->walk;
	return side_init(&walker->side, walk->checkpoint, ret_error) &&
	       (walk->options.others == NULL ||
		       side_init(&walker->other, walk->options.other, ret_error));
}

static void visit_all(struct fsdp_walker *walker)
{
	struct walk *walk = walker->walk;
	while (!atomic_load(&walk->stopped)) {
		size_t index = atomic_fetch_add(&walk->next, 1);
		if (index >= walk->range_count)
			return;
		walker->range = &walk->ranges[index];
		walker->failed = false;
		walk->options.visit(walk->options.context, walker, &walker->range->shown);
		end_side(&walker->side);
		end_side(&walker->other);
	}
}

static void work(void *context, size_t thread)
{
	struct walk *walk = context;
	struct fsdp_walker walker = { .walk = walk };
	struct fsdp_error *error = NULL, *none = NULL;
	(void)thread;
	if (atomic_load(&walk->next) >= walk->range_count)
		return;
	if (walker_init(&walker, &error)) {
		visit_all(&walker);
	} else if (!atomic_compare_exchange_strong(&walk->error, &none, error)) {
		fsdp_error_free(error);
	} else {
		atomic_store(&walk->stopped, true);
	}
	side_done(&walker.side);
	side_done(&walker.other);
}

bool fsdp_walk(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_walk_options *options, struct fsdp_error **ret_error)
{
	struct walk walk = { .checkpoint = checkpoint };
	memcpy(&walk.options, options, fsdp_min(options->size, sizeof walk.options));
	walk.tensor_count = walk.options.tensors != NULL ? walk.options.tensor_count
							 : fsdp_tensor_count(checkpoint);
	bool good = list_ranges(&walk, ret_error);
	if (good && walk.options.prepare != NULL)
		good = walk.options.prepare(walk.options.context, walk.range_count) ||
		       fsdp_fail_memory(ret_error);
	if (!good) {
		free(walk.ranges);
		return false;
	}
	unsigned jobs = (unsigned)fsdp_min(walk.options.jobs, THREADS);
	jobs = (unsigned)fsdp_min(jobs != 0 ? jobs : 1, walk.range_count);
	fsdp_pool_run(jobs, jobs, work, &walk);
	free(walk.ranges);
	struct fsdp_error *error = atomic_load(&walk.error);
	if (error == NULL)
		return !atomic_load(&walk.stopped) || fail_stopped(ret_error);
	if (ret_error != NULL)
		*ret_error = error;
	else
		fsdp_error_free(error);
	return false;
}
