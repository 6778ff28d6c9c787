/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies tensors, range by range, to where they lie in the files: casts, threads, and the checksums
 * that the source records.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pool.h"
#include "export/exporting.h"
#include "export/writing.h"
#include "naming/mapping.h"
#include "elements/content-hash.h"

/*
 * Turns floating numbers of one width into another: to the nearest, ties to even; a NaN
 * stays one with the upper bits of its payload, and what is too large becomes infinite, as
 * the hardware and torch do it. All goes through the bits of a double, in which each of
 * them is exact: rounding happens once.
 */

/* A binary floating format: how many bits. */
struct float_form {
	const char *name;
	unsigned bytes, exponent, fraction;
};

static const struct float_form float_forms[] = {
	{ "float64", 8, 11, 52 },
	{ "float32", 4, 8, 23 },
	{ "bfloat16", 2, 8, 7 },
	{ "float16", 2, 5, 10 },
};

static const struct float_form *form_of(uint32_t dtype)
{
	const char *name = fsdp_dtype(dtype)->name;
	for (size_t i = 0; i < FSDP_COUNT(float_forms); i++)
		if (strcmp(float_forms[i].name, name) == 0)
			return &float_forms[i];
	return NULL;
}

bool fsdp_cast_knows(uint32_t from, uint32_t to)
{
	return form_of(from) != NULL && form_of(to) != NULL;
}

enum { WIDE_FRACTION = 52, WIDE_BIAS = 1023 };
#define WIDE_ONES UINT64_C(0x7ff)

static uint64_t mask(unsigned bits)
{
	return (UINT64_C(1) << bits) - 1;
}

/* The bits of the double that has the same value. */
static inline uint64_t widen(uint64_t bits, struct float_form from)
{
	unsigned up = WIDE_FRACTION - from.fraction;
	uint64_t sign = bits >> (from.exponent + from.fraction) << 63;
	uint64_t exponent = bits >> from.fraction & mask(from.exponent);
	uint64_t fraction = bits & mask(from.fraction);
	if (from.bytes == 8)
		return bits;
	if (exponent == mask(from.exponent))
		return sign | WIDE_ONES << WIDE_FRACTION | fraction << up;
	uint64_t bias = (UINT64_C(1) << (from.exponent - 1)) - 1;
	if (exponent != 0)
		return sign | (exponent + WIDE_BIAS - bias) << WIDE_FRACTION |
		       fraction << up;
	if (fraction == 0)
		return sign;
	/* A subnormal: its highest bit becomes the one that is not stored. */
	unsigned shift = (unsigned)__builtin_clzll(fraction) - (63 - from.fraction);
	fraction = fraction << shift & mask(from.fraction);
	return sign | (WIDE_BIAS - bias + 1 - shift) << WIDE_FRACTION | fraction << up;
}

/* Drops the last bits of a number, to nearest even. */
static inline uint64_t round_off(uint64_t number, unsigned drop)
{
	if (drop > 63)
		return 0;
	uint64_t half = drop != 0 ? UINT64_C(1) << (drop - 1) : 0;
	uint64_t kept = number >> drop, rest = number & mask(drop);
	return kept + (rest > half || (rest == half && drop != 0 && (kept & 1) != 0));
}

/* The bits of the nearest number of the narrower format. */
static inline uint64_t narrow(uint64_t bits, struct float_form to)
{
	if (to.bytes == 8)
		return bits;
	unsigned down = WIDE_FRACTION - to.fraction;
	uint64_t sign = bits >> 63 << (to.exponent + to.fraction);
	int64_t exponent = (int64_t)(bits >> WIDE_FRACTION & WIDE_ONES);
	uint64_t fraction = bits & mask(WIDE_FRACTION);
	uint64_t infinity = mask(to.exponent) << to.fraction;
	if (exponent == (int64_t)WIDE_ONES) {
		uint64_t quiet = UINT64_C(1) << (to.fraction - 1);
		return sign | infinity | (fraction != 0 ? fraction >> down | quiet : 0);
	}
	if (exponent == 0)
		return sign; /* far below what the narrower ones can hold */
	int64_t bias = (INT64_C(1) << (to.exponent - 1)) - 1;
	exponent += bias - WIDE_BIAS;
	if (exponent >= (int64_t)mask(to.exponent))
		return sign | infinity;
	if (exponent > 0)
		/* Rounding up may carry into the exponent, up to infinity. */
		return sign |
		       round_off((uint64_t)exponent << WIDE_FRACTION | fraction, down);
	return sign | round_off(fraction | UINT64_C(1) << WIDE_FRACTION,
			      down + 1 + (unsigned)-exponent);
}

static inline uint64_t load(const unsigned char *bytes, unsigned size)
{
	uint64_t bits = 0;
	memcpy(&bits, bytes, size);
	return bits;
}

static inline bool is_infinite(uint64_t bits, struct float_form form)
{
	return (bits & mask(form.exponent + form.fraction)) == mask(form.exponent)
								       << form.fraction;
}

uint64_t fsdp_cast(uint32_t from, uint32_t to, const unsigned char *bytes, uint64_t count,
	unsigned char *out)
{
	struct float_form in = *form_of(from), narrower = *form_of(to);
	uint64_t overflowed = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t bits = load(bytes + i * in.bytes, in.bytes);
		uint64_t made = narrow(widen(bits, in), narrower);
		overflowed += is_infinite(made, narrower) && !is_infinite(bits, in);
		memcpy(out + i * narrower.bytes, &made, narrower.bytes);
	}
	return overflowed;
}

/* ---- Ranges, and the threads that take them ---- */

enum { THREADS = 64 };

/* ---- ranges ---- */

static uint64_t numel_a_part(const struct fsdp_export_item *item)
{
	uint32_t width = item->width > item->width_read ? item->width : item->width_read;
	/* Who begins in the middle of what is packed unpacks all that is before. */
	return item->packed ? UINT64_MAX : FSDP_EXPORT_RANGE / width;
}

/* How many ranges an item has. */
static uint64_t export_parts(const struct fsdp_export_item *item)
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

bool fsdp_export_list_ranges(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export *plan = writing->plan;
	struct source *sources = malloc(plan->item_count * sizeof *sources);
	uint64_t count = 0;
	for (size_t i = 0; i < plan->item_count; i++)
		count += export_parts(&plan->items[i]);
	writing->ranges = FSDP_TAKE(&plan->arena, writing->ranges, (size_t)count + 1);
	if (sources == NULL || writing->ranges == NULL) {
		free(sources);
		return fsdp_arena_fail(&plan->arena, ret_error);
	}
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
	qsort(sources, plan->item_count, sizeof *sources, compare_sources);
	for (size_t i = 0; i < plan->item_count; i++) {
		uint64_t parts = export_parts(&plan->items[sources[i].item]);
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
	if (!good) {
		/* The first error is kept, whichever thread met it. */
		struct fsdp_error *none = NULL;
		if (error == NULL)
			fsdp_fail_memory(&error);
		if (!atomic_compare_exchange_strong(&writing->error, &none, error))
			fsdp_error_free(error);
	}
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

/*
 * Compares what was read from the source with the checksums that it records: at once where
 * a range holds all of a stored record, else when everything was read and what several
 * ranges saw of a record can be joined.
 */

static bool fail_sum(struct fsdp_writing *writing, const struct fsdp_elements_run *run,
	struct fsdp_error **ret_error)
{
	struct fsdp_span path = fsdp_file(writing->plan->checkpoint, run->file).path;
	char text[4096];
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI2001", run->record,
		"the CRC-32 of %llu bytes is %08x, but the file records %08x",
		FSDP_LLU(run->size), run->crc, run->recorded);
	fsdp_error_add_hint(ret_error, "copy this file again from where it was written");
	if (path.size < sizeof text) {
		memcpy(text, path.data, path.size);
		text[path.size] = '\0';
		fsdp_error_add_path(ret_error, text);
	}
	return false;
}

static bool is_whole(const struct fsdp_elements_run *run)
{
	return run->begin == 0 && run->end == run->size;
}

static bool export_note_runs(struct fsdp_writing *writing,
	struct fsdp_export_range *range, const struct fsdp_elements_run *runs,
	size_t count, struct fsdp_error **ret_error)
{
	size_t partial = 0;
	for (size_t i = 0; i < count; i++) {
		if (is_whole(&runs[i]) && runs[i].crc != runs[i].recorded)
			return fail_sum(writing, &runs[i], ret_error);
		partial += !is_whole(&runs[i]);
	}
	if (partial == 0)
		return true;
	struct fsdp_elements_run *grown =
		realloc(range->runs, (range->run_count + partial) * sizeof *range->runs);
	if (grown == NULL)
		return fsdp_fail_memory(ret_error);
	range->runs = grown;
	for (size_t i = 0; i < count; i++)
		if (!is_whole(&runs[i]))
			range->runs[range->run_count++] = runs[i];
	return true;
}

static int compare_runs(const void *left, const void *right)
{
	const struct fsdp_elements_run *a = left, *b = right;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->record != b->record)
		return a->record < b->record ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

/* Joins those of one record as far as they follow each other from its begin on, and gives
 * how many there were. What was seen twice counts once. */
static size_t join_record(const struct fsdp_elements_run *runs, size_t count,
	struct fsdp_elements_run *ret_joined)
{
	size_t i = 0;
	*ret_joined = runs[0];
	ret_joined->crc = 0;
	ret_joined->end = 0;
	for (; i < count && runs[i].file == runs[0].file &&
		runs[i].record == runs[0].record;
		i++) {
		if (runs[i].begin != ret_joined->end || runs[i].end == runs[i].begin)
			continue;
		ret_joined->crc = fsdp_crc32_join(
			ret_joined->crc, runs[i].crc, runs[i].end - runs[i].begin);
		ret_joined->end = runs[i].end;
	}
	ret_joined->begin = 0;
	return i;
}

static size_t gather(const struct fsdp_writing *writing, struct fsdp_elements_run *all)
{
	size_t count = 0;
	for (size_t i = 0; i < writing->range_count; i++)
		for (size_t k = 0; k < writing->ranges[i].run_count; k++, count++)
			if (all != NULL)
				all[count] = writing->ranges[i].runs[k];
	return count;
}

static bool export_check_sums(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = gather(writing, NULL);
	bool good = true;
	if (count == 0)
		return true;
	struct fsdp_elements_run *all = malloc(count * sizeof *all);
	if (all == NULL)
		return fsdp_fail_memory(ret_error);
	gather(writing, all);
	qsort(all, count, sizeof *all, compare_runs);
	for (size_t i = 0; good && i < count;) {
		struct fsdp_elements_run joined;
		i += join_record(all + i, count - i, &joined);
		if (is_whole(&joined) && joined.crc != joined.recorded)
			good = fail_sum(writing, &joined, ret_error);
	}
	free(all);
	return good;
}

void fsdp_export_forget_runs(struct fsdp_writing *writing)
{
	for (size_t i = 0; i < writing->range_count; i++) {
		free(writing->ranges[i].runs);
		writing->ranges[i].runs = NULL;
	}
}

/* ---- Copies, window by window ---- */

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

static bool export_write_on(
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
	bool good = place->forwards ? export_write_on(place->descriptor, bytes.data,
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
	return export_note_runs(summing->writing, summing->range, runs, count, ret_error);
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
	       export_check_sums(writing, ret_error);
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
		uint64_t parts = export_parts(&plan->items[plan->order[i]]);
		range.item = plan->order[i];
		for (range.part = 0; good && range.part < parts; range.part++)
			good = copy_range(writing, copier, &range, &place, ret_error);
	}
	writing->ranges = &range;
	writing->range_count = 1;
	good = good && export_check_sums(writing, ret_error);
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
		    export_write_on(
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
