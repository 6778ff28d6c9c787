/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies tensors, window by window, to where they lie in the files.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "export/writing.h"
#include "naming/mapping.h"

/* ---- writes ---- */

bool fsdp_export_write_at(int descriptor, const void *bytes, size_t size, uint64_t offset,
	struct fsdp_error **ret_error)
{
	const unsigned char *at = bytes;
	while (size != 0) {
		ssize_t done = pwrite(descriptor, at, size, (off_t)offset);
		if (done < 0 && errno != EINTR)
			return fsdp_fail_errno(ret_error, errno, offset, "cannot write");
		if (done <= 0)
			continue;
		at += done;
		size -= (size_t)done;
		offset += (uint64_t)done;
	}
	return true;
}

bool fsdp_export_write_on(
	int descriptor, const void *bytes, size_t size, struct fsdp_error **ret_error)
{
	const unsigned char *at = bytes;
	while (size != 0) {
		ssize_t done = write(descriptor, at, size);
		if (done < 0 && errno != EINTR)
			return fsdp_fail_errno(
				ret_error, errno, FSDP_UNKNOWN, "cannot write");
		if (done <= 0)
			continue;
		at += done;
		size -= (size_t)done;
	}
	return true;
}

/* ---- one thread's ---- */

struct copier {
	struct fsdp_locator *locator;
	struct fsdp_export_blocks blocks;
	unsigned char *cast;
	size_t cast_room;
};

static void end_copier(void *own)
{
	struct copier *copier = own;
	fsdp_locator_free(copier->locator);
	free(copier->blocks.rest);
	free(copier->cast);
	free(copier);
}

static void *begin_copier(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct copier *copier = calloc(1, sizeof *copier);
	if (copier == NULL)
		return NULL;
	copier->blocks.rest = malloc(FSDP_EXPORT_BLOCK);
	if (copier->blocks.rest == NULL || !fsdp_locator_new(writing->plan->checkpoint,
						   &copier->locator, ret_error)) {
		end_copier(copier);
		return NULL;
	}
	return copier;
}

/* ---- a range ---- */

/* Where the bytes of a range go. */
struct place {
	const struct fsdp_export_item *item;
	uint64_t offset;
	int descriptor;
	bool forwards;
};

static bool cast_bytes(struct fsdp_writing *writing, struct copier *copier,
	const struct fsdp_export_item *item, struct fsdp_span *bytes,
	struct fsdp_error **ret_error)
{
	uint32_t from = fsdp_tensor(writing->plan->checkpoint, item->tensor).dtype;
	size_t count = bytes->size / item->width_read, size = count * item->width;
	if (from == item->dtype)
		return true;
	if (size > copier->cast_room) {
		free(copier->cast);
		copier->cast = malloc(size);
		copier->cast_room = copier->cast != NULL ? size : 0;
		if (copier->cast == NULL)
			return fsdp_fail_memory(ret_error);
	}
	uint64_t overflowed =
		fsdp_cast(from, item->dtype, bytes->data, count, copier->cast);
	atomic_fetch_add(&writing->overflowed, overflowed);
	*bytes = fsdp_span(copier->cast, size);
	return true;
}

static bool put_bytes(struct fsdp_writing *writing, struct place *place,
	struct fsdp_span bytes, struct fsdp_error **ret_error)
{
	const struct fsdp_export_out *file = &writing->plan->files[place->item->file];
	bool good = place->forwards ? fsdp_export_write_on(place->descriptor, bytes.data,
					      bytes.size, ret_error)
				    : fsdp_export_write_at(place->descriptor, bytes.data,
					      bytes.size, place->offset, ret_error);
	if (!good)
		return fsdp_export_blame(writing, file->name, ret_error);
	place->offset += bytes.size;
	return fsdp_export_advance(writing, bytes.size, ret_error);
}

static bool drain(struct fsdp_writing *writing, struct copier *copier,
	struct fsdp_mapped_elements *elements, struct place *place, uint64_t size,
	struct fsdp_error **ret_error)
{
	uint64_t copied = 0;
	for (;;) {
		struct fsdp_span bytes;
		if (!fsdp_mapped_next(elements, &bytes, ret_error))
			return false;
		if (bytes.size == 0)
			break;
		if (!cast_bytes(writing, copier, place->item, &bytes, ret_error))
			return false;
		fsdp_export_blocks_add(&copier->blocks, bytes.data, bytes.size);
		copied += bytes.size;
		if (copied > size)
			break;
		if (!put_bytes(writing, place, bytes, ret_error))
			return false;
	}
	if (copied == size)
		return true;
	return fsdp_fail(ret_error, FSDP_ERROR_INTERNAL, FSDP_UNKNOWN,
		"a tensor gave %llu bytes instead of %llu", FSDP_LLU(copied),
		FSDP_LLU(size));
}

/* What is read of stored records goes to the range. */
struct summing {
	struct fsdp_writing *writing;
	struct fsdp_export_range *range;
};

static bool take_sums(void *context, const struct fsdp_elements_run *runs, size_t count,
	struct fsdp_error **ret_error)
{
	struct summing *summing = context;
	return fsdp_export_note_runs(
		summing->writing, summing->range, runs, count, ret_error);
}

static bool copy_range(struct fsdp_writing *writing, struct copier *copier,
	struct fsdp_export_range *range, struct place *place,
	struct fsdp_error **ret_error)
{
	const struct fsdp_export_item *item = &writing->plan->items[range->item];
	struct summing summing = { writing, range };
	const struct fsdp_mapped_sums sums = { take_sums, &summing };
	const struct fsdp_mapped mapped = {
		.tensor = item->tensor,
		.dtype = fsdp_tensor(writing->plan->checkpoint, item->tensor).dtype,
		.numel = item->numel,
		.blocks = item->blocks,
		.block_count = item->block_count,
	};
	struct fsdp_mapped_elements *elements = NULL;
	uint64_t at, count = fsdp_export_range_numel(item, range->part, &at);
	place->item = item;
	place->offset = item->offset + at * item->width;
	copier->blocks.trait = (struct fsdp_trait){ { 0 } };
	copier->blocks.size = 0;
	if (!fsdp_mapped_open(copier->locator, &mapped, at, count, &elements, ret_error))
		return false;
	fsdp_mapped_sum(elements, &sums);
	bool good =
		drain(writing, copier, elements, place, count * item->width, ret_error);
	fsdp_mapped_close(elements);
	fsdp_export_blocks_end(&copier->blocks);
	range->trait = copier->blocks.trait;
	return good;
}

static bool copy_one(struct fsdp_writing *writing, void *own, size_t index,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_range *range = &writing->ranges[index];
	uint32_t file = writing->plan->items[range->item].file;
	struct place place = { .descriptor = writing->files[file].descriptor };
	return copy_range(writing, own, range, &place, ret_error);
}

bool fsdp_export_copy(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	const struct fsdp_export_step step = {
		.count = writing->range_count,
		.begin = begin_copier,
		.work = copy_one,
		.end = end_copier,
	};
	return fsdp_export_run(writing, &step, ret_error) &&
	       fsdp_export_check_sums(writing, ret_error);
}

/* ---- forwards ---- */

/* One range after the other, which share what is kept of the checksums. */
static bool copy_items(struct fsdp_writing *writing, struct copier *copier,
	struct fsdp_error **ret_error)
{
	const struct fsdp_export *plan = writing->plan;
	struct place place = { .descriptor = writing->target->stream, .forwards = true };
	struct fsdp_export_range range = { 0 };
	bool good = true;
	for (size_t i = 0; good && i < plan->item_count; i++) {
		uint64_t parts = fsdp_export_parts(&plan->items[plan->order[i]]);
		range.item = plan->order[i];
		for (range.part = 0; good && range.part < parts; range.part++)
			good = copy_range(writing, copier, &range, &place, ret_error);
	}
	writing->ranges = &range;
	writing->range_count = 1;
	good = good && fsdp_export_check_sums(writing, ret_error);
	fsdp_export_forget_runs(writing);
	writing->ranges = NULL;
	writing->range_count = 0;
	return good;
}

bool fsdp_export_copy_forwards(
	struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export_text head = { 0 };
	bool good = fsdp_export_head(writing->plan, 0, &head, ret_error) &&
		    fsdp_export_write_on(
			    writing->target->stream, head.bytes, head.size, ret_error);
	free(head.bytes);
	if (!good)
		return false;
	struct copier *copier = begin_copier(writing, ret_error);
	if (copier == NULL)
		return fsdp_fail_memory(ret_error);
	good = copy_items(writing, copier, ret_error);
	end_copier(copier);
	return good;
}
