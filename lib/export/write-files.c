/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files under temporary names, until all of them are on the disk and were read
 * back; then gives them their names. On failure none of them stays.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fsdp/elements.h>

#include "base/tasks.h"
#include "base/sort.h"
#include "elements/elements-private.h"
#include "export/exporting.h"
#include "io/directory.h"
#include "naming/naming.h"

/* Tensors are copied range by range, each at its own place in its file, so the order in
 * which threads take them does not show. */
enum {
	FSDP_EXPORT_RANGE = 64 << 20, /* bytes of a tensor that are one piece of work */
	FSDP_EXPORT_BLOCK = 64 << 10, /* that the trait of a range is made of */
	FSDP_EXPORT_BUFFER = 256 << 10,
	FSDP_EXPORT_COMPANIONS =
		16, /* names of files that are copied in addition to weights */
};

/* Digests of the files of a directory, in the form of sha256sum. */
#define FSDP_EXPORT_SUMS "SHA256SUMS"

/* Elements of an item, and what their bytes were when they were written. */
struct fsdp_export_range {
	uint32_t item, part;
	struct fsdp_trait trait;
	struct fsdp_elements_run *runs; /* parts of stored records that it read */
	size_t run_count;
};

/* A file under its temporary name. */
struct fsdp_export_temporary {
	char path[64]; /* below the directory; empty: no file, or no file any more */
	int descriptor;
};

struct fsdp_writing {
	struct fsdp_export *plan;
	const struct fsdp_export_target *target;
	int folder;
	struct fsdp_dir config; /* empty: nothing is copied from there */
	struct fsdp_export_temporary
		*files; /* one per file of the plan, sums, a placeholder */
	struct fsdp_export_temporary companions[FSDP_EXPORT_COMPANIONS];
	unsigned char companion_digests[FSDP_EXPORT_COMPANIONS][FSDP_EXPORT_DIGEST];
	struct fsdp_export_range *ranges; /* in the order of their sources */
	size_t range_count;
	uint64_t total; /* bytes to be copied and read back */

	_Atomic uint64_t done, overflowed;
	_Atomic size_t next;
	_Atomic(struct fsdp_error *) error; /* the first one */
};

/* The work of one step: `count` pieces of it, taken in order by the threads. Each thread
 * has an object of its own, which `begin` makes and `end` takes. False of `work`: stop.
 */
struct fsdp_export_step {
	size_t count;
	void *(*begin)(struct fsdp_writing *writing, struct fsdp_error **ret_error);
	bool (*work)(struct fsdp_writing *writing, void *own, size_t index,
		struct fsdp_error **ret_error);
	void (*end)(void *own);
};

/* Bytes of a range as they come, cut into blocks for the trait. */
struct fsdp_export_blocks {
	struct fsdp_trait trait;
	unsigned char *rest; /* FSDP_EXPORT_BLOCK bytes */
	size_t size;         /* that wait there */
};

/*
 * Copies tensors, range by range, to their positions in the files: casts, threads, and
 * the checksums that the source records.
 */

/*
 * Turns floating numbers of one width into another: to the nearest, ties to even; a NaN
 * stays one with the upper bits of its payload, and what is too large becomes infinite,
 * as the hardware and torch do it. All goes through the bits of a double, which
 * represents each of them exactly: rounding happens once.
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

bool fsdp_cast_is_supported(uint32_t from, uint32_t to)
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
		uint64_t bits = 0;
		memcpy(&bits, bytes + i * in.bytes, in.bytes);
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

static uint64_t export_parts(const struct fsdp_export_item *item)
{
	uint64_t most = numel_a_part(item);
	return item->numel / most + (item->numel % most != 0);
}

/* Elements of a range, and their positions in its item. */
static uint64_t export_range_numel(
	const struct fsdp_export_item *item, uint32_t part, uint64_t *ret_first)
{
	uint64_t most = numel_a_part(item);
	*ret_first = part * most;
	return fsdp_min(most, item->numel - *ret_first);
}

/* Position of the first piece of an item: its file, and its offset in it. */
struct source {
	uint64_t order;
	uint32_t file, item;
};

/* Lists the ranges in the order of their sources. */
static bool export_list_ranges(
	struct fsdp_writing *writing, struct fsdp_error **ret_error)
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
	FSDP_SORT(sources, plan->item_count, FSDP_BY(sources, file),
		FSDP_BY(sources, order), FSDP_BY(sources, item));
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

static void export_blocks_end(struct fsdp_export_blocks *blocks)
{
	if (blocks->size != 0)
		fsdp_trait_add(&blocks->trait, blocks->rest, blocks->size);
	blocks->size = 0;
}

static void export_blocks_add(
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
			export_blocks_end(blocks);
	}
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

static bool export_run(struct fsdp_writing *writing, const struct fsdp_export_step *step,
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

/* Reports progress to the caller. False: the caller stops the export. */
static bool export_advance(
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
 * Compares what was read from the source with the checksums that it records: at once
 * where a range holds all of a stored record, else when everything was read and what
 * several ranges saw of a record can be joined.
 */

static bool fail_sum(struct fsdp_writing *writing, const struct fsdp_elements_run *run,
	struct fsdp_error **ret_error)
{
	struct fsdp_span path = fsdp_file(writing->plan->checkpoint, run->file).path;
	char text[4096];
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI2001", run->record,
		"checksum mismatch: CRC-32 of %llu bytes is %08x, the zip lists %08x",
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
	FSDP_SORT(all, count, FSDP_BY(all, file), FSDP_BY(all, record),
		FSDP_BY(all, begin), FSDP_BY(all, end));
	for (size_t i = 0; good && i < count;) {
		/* Joins those of one record as far as they follow each other from its
		 * begin on, and gives how many there were. What was seen twice counts
		 * once. */
		const struct fsdp_elements_run *runs = all + i;
		size_t k = 0;
		struct fsdp_elements_run joined = runs[0];
		joined.crc = 0;
		joined.end = 0;
		for (; k < (count - i) && runs[k].file == runs[0].file &&
			runs[k].record == runs[0].record;
			k++) {
			if (runs[k].begin != joined.end || runs[k].end == runs[k].begin)
				continue;
			joined.crc = fsdp_crc32_join(
				joined.crc, runs[k].crc, runs[k].end - runs[k].begin);
			joined.end = runs[k].end;
		}
		joined.begin = 0;
		i += k;
		if (is_whole(&joined) && joined.crc != joined.recorded)
			good = fail_sum(writing, &joined, ret_error);
	}
	free(all);
	return good;
}

/* What a range read of stored records is compared with their checksums, or kept until all
 * was read. */
static void export_forget_runs(struct fsdp_writing *writing)
{
	for (size_t i = 0; i < writing->range_count; i++) {
		free(writing->ranges[i].runs);
		writing->ranges[i].runs = NULL;
	}
}

/* ---- Copies, window by window ---- */

/* ---- writes ---- */

/* All bytes, wherever the kernel stops in between; at `offset`, or where the stream is.
 */
static bool export_write_at(int descriptor, const void *bytes, size_t size,
	uint64_t offset, struct fsdp_error **ret_error)
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

/* The path of a file as the user would type it goes into the error. Always false. */
static bool export_blame(const struct fsdp_writing *writing, struct fsdp_span name,
	struct fsdp_error **ret_error)
{
	const struct fsdp_export_target *target = writing->target;
	char path[4096];
	if (target->folder == NULL)
		return false;
	if (name.size == 0 && target->file != NULL)
		name = fsdp_span_text(target->file);
	snprintf(path, sizeof path, "%s%s%.*s", target->folder, name.size != 0 ? "/" : "",
		FSDP_TEXT(name));
	fsdp_error_add_path(ret_error, path);
	return false;
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
		export_blocks_add(&copier->blocks, bytes.data, bytes.size);
		copied += bytes.size;
		if (copied > size)
			break;
		const struct fsdp_export_out *file =
			&writing->plan->files[place->item->file];
		bool good = place->forwards
				    ? export_write_on(place->descriptor, bytes.data,
					      bytes.size, ret_error)
				    : export_write_at(place->descriptor, bytes.data,
					      bytes.size, place->offset, ret_error);
		if (!good)
			return export_blame(writing, file->name, ret_error);
		place->offset += bytes.size;
		if (!export_advance(writing, bytes.size, ret_error))
			return false;
	}
	if (copied == size)
		return true;
	return fsdp_fail(ret_error, FSDP_ERROR_INTERNAL, FSDP_UNKNOWN,
		"a tensor gave %llu bytes instead of %llu", FSDP_LLU(copied),
		FSDP_LLU(size));
}

struct summing {
	struct fsdp_writing *writing;
	struct fsdp_export_range *range;
};

static bool add_sums(void *context, const struct fsdp_elements_run *runs, size_t count,
	struct fsdp_error **ret_error)
{
	struct summing *summing = context;
	size_t partial = 0;
	for (size_t i = 0; i < count; i++) {
		if (is_whole(&runs[i]) && runs[i].crc != runs[i].recorded)
			return fail_sum(summing->writing, &runs[i], ret_error);
		partial += !is_whole(&runs[i]);
	}
	if (partial == 0)
		return true;
	struct fsdp_elements_run *grown = realloc(summing->range->runs,
		(summing->range->run_count + partial) * sizeof *summing->range->runs);
	if (grown == NULL)
		return fsdp_fail_memory(ret_error);
	summing->range->runs = grown;
	for (size_t i = 0; i < count; i++)
		if (!is_whole(&runs[i]))
			summing->range->runs[summing->range->run_count++] = runs[i];
	return true;
}

static bool copy_range(struct fsdp_writing *writing, struct copier *copier,
	struct fsdp_export_range *range, struct place *place,
	struct fsdp_error **ret_error)
{
	const struct fsdp_export_item *item = &writing->plan->items[range->item];
	struct summing summing = { writing, range };
	const struct fsdp_mapped_sums sums = { add_sums, &summing };
	const struct fsdp_mapped mapped = {
		.tensor = item->tensor,
		.dtype = fsdp_tensor(writing->plan->checkpoint, item->tensor).dtype,
		.numel = item->numel,
		.blocks = item->blocks,
		.block_count = item->block_count,
	};
	struct fsdp_mapped_elements *elements = NULL;
	uint64_t at, count = export_range_numel(item, range->part, &at);
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
	export_blocks_end(&copier->blocks);
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
	export_forget_runs(writing);
	writing->ranges = NULL;
	writing->range_count = 0;
	return good;
}

/* ---- Temporary names, and errors with the paths of files ---- */

enum { ATTEMPTS = 1000, PREFIX_MOST = 32 };

/* A file under a temporary name that this number makes its own. */
static bool export_open_temporary(struct fsdp_writing *writing,
	struct fsdp_export_temporary *file, size_t number, struct fsdp_error **ret_error)
{
	const char *given = writing->target->prefix;
	char prefix[PREFIX_MOST + 1];
	snprintf(prefix, sizeof prefix, ".fsdp-inspect-%ld-", (long)getpid());
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		char path[sizeof file->path];
		snprintf(path, sizeof path, "%.*s%zu-%u.tmp", PREFIX_MOST,
			given != NULL ? given : prefix, number, attempt);
		file->descriptor = openat(writing->folder, path,
			O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (file->descriptor >= 0) {
			memcpy(file->path, path, sizeof path);
			return true;
		}
		if (errno != EEXIST)
			break;
	}
	fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot make a file");
	return export_blame(writing, FSDP_SPAN(""), ret_error);
}

/*
 * Gives files that are whole and on the disk their names, so that a loader finds all of
 * them or fails, wherever the process is killed.
 */

const char *const fsdp_export_stems[] = { "model", "adapter_model",
	"diffusion_pytorch_model", NULL };

/* Whether a loader would take a file for weights of this directory: model.safetensors, a
 * shard, or their index. */
static bool is_weights(const char *name)
{
	struct fsdp_span rest;
	size_t i = 0;
	while (fsdp_export_stems[i] != NULL &&
		!fsdp_span_behind(fsdp_span_text(name), fsdp_export_stems[i], &rest))
		i++;
	if (fsdp_export_stems[i] == NULL)
		return false;
	if (rest.size >= 15 && rest.data[0] == '-' &&
		fsdp_span_equal(fsdp_span(rest.data + 6, 4), FSDP_SPAN("-of-")))
		rest = fsdp_span(rest.data + 15, rest.size - 15);
	return fsdp_span_is(rest, ".safetensors") ||
	       fsdp_span_is(rest, ".safetensors.index.json");
}

bool fsdp_export_replaces(const char *name)
{
	const char *companion;
	for (size_t i = 0; (companion = fsdp_export_companion_name(i)) != NULL; i++)
		if (strcmp(name, companion) == 0)
			return true;
	return is_weights(name) || strcmp(name, FSDP_EXPORT_SUMS) == 0;
}

/* Renames the file to its final name in the directory, if it has one; an earlier file of
 * that name is replaced. */
static bool export_name_file(struct fsdp_writing *writing,
	struct fsdp_export_temporary *file, const char *name,
	struct fsdp_error **ret_error)
{
	if (file->path[0] == '\0')
		return true;
	if (renameat(writing->folder, file->path, writing->folder, name) != 0) {
		fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot name the file");
		return export_blame(writing, fsdp_span_text(name), ret_error);
	}
	file->path[0] = '\0';
	return true;
}

static const char *name_of(const struct fsdp_writing *writing, size_t index)
{
	const struct fsdp_export *plan = writing->plan;
	return index == plan->file_count ? FSDP_EXPORT_SUMS
	       : writing->target->file != NULL
		       ? writing->target->file
		       : (const char *)plan->files[index].name.data;
}

static bool sync_folder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	if (fsync(writing->folder) == 0)
		return true;
	fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	return export_blame(writing, FSDP_SPAN(""), ret_error);
}

/* ---- a directory ---- */

/* The file that comes last: the last one that holds tensors. */
static size_t last_of(const struct fsdp_export *plan)
{
	return plan->file_count - 1 - plan->has_index;
}

/*
 * Transformers takes what the index names, and nothing of shards without one; vLLM,
 * SGLang, MLX and llama.cpp take every file of weights that is there. So an empty file,
 * on which each of them fails, has the name of the last one before any other is
 * removed or appears. The last one replaces it once all others exist, in one step.
 */
static bool write_placeholder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = writing->plan->file_count;
	struct fsdp_export_temporary *empty = &writing->files[count + 1];
	return export_open_temporary(writing, empty, count + 1, ret_error) &&
	       export_name_file(writing, empty, name_of(writing, last_of(writing->plan)),
		       ret_error);
}

static bool name_others(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	size_t count = writing->plan->file_count, last = last_of(writing->plan);
	if (writing->target->force) {
		/* All but one of this name. */
		const char *but = name_of(writing, last);
		int descriptor =
			openat(writing->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
		const struct dirent *entry;
		for (size_t i = 0; fsdp_export_stems[i] != NULL; i++) {
			char index[64];
			snprintf(index, sizeof index, "%s" FSDP_EXPORT_INDEX,
				fsdp_export_stems[i]);
			unlinkat(writing->folder, index, 0);
		}
		unlinkat(writing->folder, FSDP_EXPORT_SUMS, 0);
		while (folder != NULL && (entry = readdir(folder)) != NULL)
			if (is_weights(entry->d_name) && strcmp(entry->d_name, but) != 0)
				unlinkat(writing->folder, entry->d_name, 0);
		if (folder != NULL)
			closedir(folder);
		else if (descriptor >= 0)
			close(descriptor);
	}
	bool good = export_name_file(
		writing, &writing->files[count], FSDP_EXPORT_SUMS, ret_error);
	for (size_t i = 0; good && i < FSDP_EXPORT_COMPANIONS; i++)
		good = export_name_file(writing, &writing->companions[i],
			fsdp_export_companion_name(i), ret_error);
	for (size_t i = 0; good && i < count; i++)
		good = i == last || export_name_file(writing, &writing->files[i],
					    name_of(writing, i), ret_error);
	return good;
}

static void remove_if_named(struct fsdp_writing *writing,
	const struct fsdp_export_temporary *file, const char *name)
{
	if (file->descriptor >= 0 && file->path[0] == '\0')
		unlinkat(writing->folder, name, 0);
}

/* All files get theirs, the last shard last; on failure none of them stays. */
static bool export_name_files(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export_temporary *only = &writing->files[0];
	if (writing->target->file == NULL) {
		size_t last = last_of(writing->plan);
		if (write_placeholder(writing, ret_error) &&
			sync_folder(writing, ret_error) &&
			name_others(writing, ret_error) &&
			sync_folder(writing, ret_error) &&
			export_name_file(writing, &writing->files[last],
				name_of(writing, last), ret_error) &&
			sync_folder(writing, ret_error))
			return true;
		/* The placeholder goes last. */
		size_t count = writing->plan->file_count;
		for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
			remove_if_named(writing, &writing->companions[i],
				fsdp_export_companion_name(i));
		for (size_t i = 0; i <= count; i++)
			if (i != last)
				remove_if_named(
					writing, &writing->files[i], name_of(writing, i));
		remove_if_named(
			writing, &writing->files[count + 1], name_of(writing, last));
		return false;
	}
	if (export_name_file(writing, only, name_of(writing, 0), ret_error) &&
		sync_folder(writing, ret_error))
		return true;
	remove_if_named(writing, only, name_of(writing, 0));
	return false;
}

/* ---- Configuration and tokenizer, copied as they are ---- */

/* Larger ones are not a configuration or a tokenizer. */
#define COMPANION_BYTES (UINT64_C(256) << 20)

static const char *const names[] = { "config.json", "generation_config.json",
	"preprocessor_config.json", "processor_config.json", "tokenizer.json",
	"tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
	"chat_template.jinja", "chat_template.json", "adapter_config.json" };
_Static_assert(FSDP_COUNT(names) == FSDP_EXPORT_COMPANIONS, "one name per companion");

const char *fsdp_export_companion_name(size_t index)
{
	return index < FSDP_COUNT(names) ? names[index] : NULL;
}

/* Directories may be a stranger's: a link that leads out of one is none of its files. */
static const struct fsdp_entry *find_companion(
	const struct fsdp_writing *writing, size_t index)
{
	const struct fsdp_entry *entry =
		fsdp_dir_find(&writing->config, fsdp_span_text(names[index]));
	return entry != NULL && entry->kind == FSDP_ENTRY_FILE &&
			       entry->size <= COMPANION_BYTES
		       ? entry
		       : NULL;
}

static bool copy_bytes(struct fsdp_writing *writing, const struct fsdp_source *from,
	size_t index, unsigned char *buffer, struct fsdp_error **ret_error)
{
	struct fsdp_export_temporary *file = &writing->companions[index];
	struct fsdp_sha256 *sha256 = fsdp_sha256_new();
	bool good = sha256 != NULL || fsdp_fail_memory(ret_error);
	for (uint64_t at = 0; good && at < from->size;) {
		size_t size = (size_t)fsdp_min(FSDP_EXPORT_BUFFER, from->size - at);
		good = fsdp_source_read(from, at, buffer, size, ret_error) &&
		       (fsdp_sha256_add(sha256, buffer, size) ||
			       fsdp_fail_memory(ret_error)) &&
		       export_write_at(file->descriptor, buffer, size, at, ret_error);
		at += size;
	}
	good = good && (fsdp_sha256_finish(sha256, writing->companion_digests[index]) ||
			       fsdp_fail_memory(ret_error));
	fsdp_sha256_free(sha256);
	if (good && fsync(file->descriptor) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	return good || fsdp_error_add_path(ret_error, names[index]);
}

/* ---- What was written is read back: headers, ranges, digests ---- */

struct rereader {
	unsigned char *buffer;
	struct fsdp_export_blocks blocks;
	struct fsdp_sha256 *sha256;
};

static void end_reader(void *own)
{
	struct rereader *reader = own;
	fsdp_sha256_free(reader->sha256);
	free(reader->blocks.rest);
	free(reader->buffer);
	free(reader);
}

static void *begin_reader(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct rereader *reader = calloc(1, sizeof *reader);
	(void)writing;
	(void)ret_error;
	if (reader == NULL)
		return NULL;
	reader->buffer = malloc(FSDP_EXPORT_BUFFER);
	reader->blocks.rest = malloc(FSDP_EXPORT_BLOCK);
	if (reader->buffer != NULL && reader->blocks.rest != NULL)
		return reader;
	end_reader(reader);
	return NULL;
}

static bool read_back(int descriptor, void *buffer, size_t size, uint64_t offset,
	struct fsdp_error **ret_error)
{
	unsigned char *at = buffer;
	while (size != 0) {
		ssize_t got = pread(descriptor, at, size, (off_t)offset);
		if (got == 0)
			return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, offset,
				"output file is truncated here: %zu bytes are missing",
				size);
		if (got < 0 && errno != EINTR)
			return fsdp_fail_errno(
				ret_error, errno, offset, "cannot read back");
		if (got <= 0)
			continue;
		at += got;
		size -= (size_t)got;
		offset += (uint64_t)got;
	}
	return true;
}

/* ---- reading a stretch ---- */

/* Some bytes of a file, for the trait or the digest of this thread. */
struct stretch {
	int descriptor;
	uint64_t offset, size;
	bool hashed;
};

static bool sweep(struct fsdp_writing *writing, struct rereader *reader,
	struct stretch stretch, struct fsdp_error **ret_error)
{
	while (stretch.size != 0) {
		size_t part = (size_t)fsdp_min(stretch.size, FSDP_EXPORT_BUFFER);
		if (!read_back(stretch.descriptor, reader->buffer, part, stretch.offset,
			    ret_error))
			return false;
		if (!stretch.hashed)
			export_blocks_add(&reader->blocks, reader->buffer, part);
		else if (!fsdp_sha256_add(reader->sha256, reader->buffer, part))
			return fsdp_fail_memory(ret_error);
		stretch.offset += part;
		stretch.size -= part;
		if (!export_advance(writing, stretch.hashed ? 0 : part, ret_error))
			return false;
	}
	return true;
}

static bool digest(struct fsdp_writing *writing, struct rereader *reader,
	struct stretch stretch, unsigned char *ret_digest, struct fsdp_error **ret_error)
{
	stretch.hashed = true;
	fsdp_sha256_free(reader->sha256);
	reader->sha256 = fsdp_sha256_new();
	if (reader->sha256 == NULL)
		return fsdp_fail_memory(ret_error);
	return sweep(writing, reader, stretch, ret_error) &&
	       (fsdp_sha256_finish(reader->sha256, ret_digest) ||
		       fsdp_fail_memory(ret_error));
}

/* ---- pieces of work ---- */

static bool check_range(struct fsdp_writing *writing, struct rereader *reader,
	const struct fsdp_export_range *range, struct fsdp_error **ret_error)
{
	const struct fsdp_export_item *item = &writing->plan->items[range->item];
	uint64_t first, count = export_range_numel(item, range->part, &first);
	struct stretch stretch = {
		.descriptor = writing->files[item->file].descriptor,
		.offset = item->offset + first * item->width,
		.size = count * item->width,
	};
	reader->blocks.trait = (struct fsdp_trait){ { 0 } };
	reader->blocks.size = 0;
	if (!sweep(writing, reader, stretch, ret_error))
		return false;
	export_blocks_end(&reader->blocks);
	const struct fsdp_trait *found = &reader->blocks.trait;
	if (found->words[0] == range->trait.words[0] &&
		found->words[1] == range->trait.words[1])
		return true;
	return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, stretch.offset,
		"bytes of %.*s that were read back differ from those that were written",
		FSDP_TEXT_MOST(item->name, 200));
}

/* Files take longest and come first, then ranges, then tensors. */
static bool reread_one(struct fsdp_writing *writing, void *own, size_t index,
	struct fsdp_error **ret_error)
{
	size_t files = writing->plan->file_count;
	if (index < files) {
		struct fsdp_export_out *file = &writing->plan->files[index];
		struct stretch all = {
			.descriptor = writing->files[index].descriptor,
			.size = file->bytes,
		};
		return digest(writing, own, all, file->sha256, ret_error);
	}
	index -= files;
	if (index < writing->range_count)
		return check_range(writing, own, &writing->ranges[index], ret_error);
	struct fsdp_export_item *item =
		&writing->plan->items[index - writing->range_count];
	struct stretch whole = {
		.descriptor = writing->files[item->file].descriptor,
		.offset = item->offset,
		.size = item->bytes,
	};
	return digest(writing, own, whole, item->sha256, ret_error);
}

static bool check_head(struct fsdp_writing *writing, size_t index, unsigned char *buffer,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_text head = { 0 };
	bool good = fsdp_export_head(writing->plan, index, &head, ret_error);
	for (size_t at = 0; good && at < head.size; at += FSDP_EXPORT_BUFFER) {
		size_t part = (size_t)fsdp_min(head.size - at, FSDP_EXPORT_BUFFER);
		good = read_back(
			writing->files[index].descriptor, buffer, part, at, ret_error);
		if (good && memcmp(buffer, head.bytes + at, part) != 0)
			good = fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, at,
				"bytes of a header that were read back differ from those that were written");
	}
	free(head.bytes);
	return good;
}

/* Reads everything back and compares it; makes digests. */
static bool export_reread(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export *plan = writing->plan;
	bool digests = writing->target->digests;
	const struct fsdp_export_step step = {
		.count = plan->file_count + writing->range_count +
			 (digests ? plan->item_count : 0),
		.begin = begin_reader,
		.work = reread_one,
		.end = end_reader,
	};
	if (!export_run(writing, &step, ret_error))
		return false;
	unsigned char *buffer = malloc(FSDP_EXPORT_BUFFER);
	bool good = buffer != NULL || fsdp_fail_memory(ret_error);
	for (size_t i = 0; good && i < writing->plan->file_count; i++)
		good = check_head(writing, i, buffer, ret_error);
	free(buffer);
	if (!good)
		return false;
	plan->facts.verified = true;
	plan->facts.digested = digests;
	return true;
}

/* ---- The steps ---- */

static bool blame_folder(struct fsdp_writing *writing, int number, const char *what,
	struct fsdp_error **ret_error)
{
	fsdp_fail_errno(ret_error, number, FSDP_UNKNOWN, what);
	return export_blame(writing, FSDP_SPAN(""), ret_error);
}

/* ---- what must be so before ---- */

static bool check_empty(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	int descriptor = openat(writing->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
	const struct dirent *entry;
	bool empty = true;
	if (folder == NULL) {
		int number = errno;
		if (descriptor >= 0)
			close(descriptor);
		return blame_folder(writing, number, "cannot look into", ret_error);
	}
	while (empty && (entry = readdir(folder)) != NULL)
		empty = strcmp(entry->d_name, ".") == 0 ||
			strcmp(entry->d_name, "..") == 0;
	closedir(folder);
	if (empty)
		return true;
	fsdp_fail(
		ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "the directory is not empty");
	fsdp_error_add_hint(
		ret_error, "name another one, or replace its weights (--force)");
	return export_blame(writing, FSDP_SPAN(""), ret_error);
}

static bool check_absent(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct stat status;
	if (fstatat(writing->folder, writing->target->file, &status,
		    AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "the file exists already");
	fsdp_error_add_hint(ret_error, "name another one, or replace it (--force)");
	return export_blame(writing, FSDP_SPAN(""), ret_error);
}

static bool open_folder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	const struct fsdp_export_target *target = writing->target;
	writing->folder = open(target->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (writing->folder < 0)
		return blame_folder(writing, errno, "cannot open", ret_error);
	if (!target->force && target->file == NULL && !check_empty(writing, ret_error))
		return false;
	if (!target->force && target->file != NULL && !check_absent(writing, ret_error))
		return false;
	uint64_t needed = writing->plan->facts.file_bytes, room;
	struct statvfs status;
	/* Bytes of those that are there. */
	uint64_t bytes = 0;
	FSDP_EACH(i, FSDP_COUNT(names), entry, find_companion(writing, i))
		bytes += entry != NULL ? entry->size : 0;
	if (!fsdp_add(needed, bytes, &needed))
		needed = FSDP_UNKNOWN;
	if (fstatvfs(writing->folder, &status) != 0 ||
		!fsdp_mul(status.f_bavail, status.f_frsize, &room) || room >= needed)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
		"%llu bytes are needed here, and %llu are free", FSDP_LLU(needed),
		FSDP_LLU(room));
	fsdp_error_add_hint(
		ret_error, "name a directory of a file system with more room");
	return export_blame(writing, FSDP_SPAN(""), ret_error);
}

/* ---- temporary files ---- */

static void remove_temporary(
	struct fsdp_writing *writing, struct fsdp_export_temporary *file)
{
	if (file->descriptor >= 0)
		close(file->descriptor);
	if (file->path[0] != '\0')
		unlinkat(writing->folder, file->path, 0);
}

/* ---- heads, sums, the disk ---- */

static bool write_heads(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < writing->plan->file_count; i++) {
		struct fsdp_export_text head = { 0 };
		bool good = fsdp_export_head(writing->plan, i, &head, ret_error) &&
			    export_write_at(writing->files[i].descriptor, head.bytes,
				    head.size, 0, ret_error);
		free(head.bytes);
		if (!good)
			return export_blame(
				writing, writing->plan->files[i].name, ret_error);
	}
	return true;
}

/* In the form of sha256sum. */
static void write_sum(struct fsdp_export_text *text,
	const unsigned char digest[FSDP_EXPORT_DIGEST], struct fsdp_span name)
{
	for (size_t i = 0; i < FSDP_EXPORT_DIGEST; i++)
		fsdp_export_put_text(text, "%02x", digest[i]);
	fsdp_export_put_text(text, "  ");
	fsdp_export_put(text, name.data, name.size);
	fsdp_export_put_text(text, "\n");
}

static bool write_sums(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	const struct fsdp_export *plan = writing->plan;
	struct fsdp_export_text text = { 0 };
	if (!export_open_temporary(writing, &writing->files[plan->file_count],
		    plan->file_count, ret_error))
		return false;
	for (size_t i = 0; i < plan->file_count; i++)
		write_sum(&text, plan->files[i].sha256, plan->files[i].name);
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		if (writing->companions[i].path[0] != '\0')
			write_sum(&text, writing->companion_digests[i],
				fsdp_span_text(fsdp_export_companion_name(i)));
	int descriptor = writing->files[plan->file_count].descriptor;
	bool good = text.failed ? fsdp_fail_memory(ret_error)
				: export_write_at(descriptor, text.bytes, text.size, 0,
					  ret_error);
	free(text.bytes);
	if (good && fsync(descriptor) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	return good || export_blame(writing, fsdp_span_text(FSDP_EXPORT_SUMS), ret_error);
}

static bool sync_files(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < writing->plan->file_count; i++)
		if (fsync(writing->files[i].descriptor) != 0) {
			fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
			return export_blame(
				writing, writing->plan->files[i].name, ret_error);
		}
	return true;
}

/* ---- all of it ---- */

static bool write_folder(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	bool verify = !writing->target->no_verify;
	bool sums = verify && writing->target->file == NULL;
	writing->total = writing->plan->facts.tensor_bytes * (verify ? 2 : 1);
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	if (writing->target->config_folder != NULL &&
		!fsdp_dir_open(writing->target->remote, writing->target->config_folder,
			&writing->plan->arena, &limits, &writing->config, ret_error))
		return false;
	if (!open_folder(writing, ret_error))
		return false;
	size_t count = writing->plan->file_count;
	writing->files = calloc(count + 2, sizeof *writing->files);
	if (writing->files == NULL)
		return fsdp_fail_memory(ret_error);
	for (size_t i = 0; i < count + 2; i++)
		writing->files[i].descriptor = -1;
	for (size_t i = 0; i < count; i++)
		if (!export_open_temporary(writing, &writing->files[i], i, ret_error))
			return false;
	if (!export_list_ranges(writing, ret_error))
		return false;
	/* Copies files of configuration and tokenizer, if there are any. */
	unsigned char *buffer = malloc(FSDP_EXPORT_BUFFER);
	bool good = buffer != NULL || fsdp_fail_memory(ret_error);
	for (size_t i = 0; good && i < FSDP_COUNT(names); i++) {
		struct fsdp_source from;
		if (find_companion(writing, i) == NULL)
			continue;
		good = fsdp_dir_source(&writing->config, fsdp_span_text(names[i]), &from,
			       ret_error) &&
		       export_open_temporary(writing, &writing->companions[i],
			       writing->plan->file_count + 1 + i, ret_error) &&
		       copy_bytes(writing, &from, i, buffer, ret_error);
		writing->plan->facts.companions |= UINT32_C(1) << i;
	}
	free(buffer);
	if (!good)
		return false;
	/* Copies all ranges into their files. */
	const struct fsdp_export_step step = {
		.count = writing->range_count,
		.begin = begin_copier,
		.work = copy_one,
		.end = end_copier,
	};
	return export_run(writing, &step, ret_error) &&
	       export_check_sums(writing, ret_error) && write_heads(writing, ret_error) &&
	       sync_files(writing, ret_error) &&
	       (!verify || export_reread(writing, ret_error)) &&
	       (!sums || write_sums(writing, ret_error)) &&
	       export_name_files(writing, ret_error);
}

/* The files are there; the last one is their index. */
static bool write_index(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	struct fsdp_export_target target = *writing->target;
	size_t index = writing->plan->file_count - 1;
	struct fsdp_export_temporary file = { .descriptor = -1 };
	struct fsdp_export_text head = { 0 };
	target.file = (const char *)writing->plan->files[index].name.data;
	writing->target = &target;
	bool good = open_folder(writing, ret_error) &&
		    fsdp_export_head(writing->plan, index, &head, ret_error) &&
		    export_open_temporary(writing, &file, 0, ret_error) &&
		    export_write_at(file.descriptor, head.bytes, head.size, 0, ret_error);
	if (good && fsync(file.descriptor) != 0)
		good = fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot write");
	good = good && export_name_file(writing, &file, target.file, ret_error);
	remove_temporary(writing, &file);
	free(head.bytes);
	return good;
}

static bool write_stream(struct fsdp_writing *writing, struct fsdp_error **ret_error)
{
	writing->total = writing->plan->facts.tensor_bytes;
	if (writing->plan->file_count == 1) {
		/* The same forwards into a stream, heads too. */
		struct fsdp_export_text head = { 0 };
		bool good = fsdp_export_head(writing->plan, 0, &head, ret_error) &&
			    export_write_on(writing->target->stream, head.bytes,
				    head.size, ret_error);
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
	return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"several files cannot be written to one stream");
}

bool fsdp_export_write(struct fsdp_export *plan, const struct fsdp_export_target *target,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_target known = { .size = sizeof known };
	memcpy(&known, target, fsdp_min(target->size, sizeof known));
	struct fsdp_writing writing = {
		.plan = plan, .target = &known, .folder = -1, .config.fd = -1
	};
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		writing.companions[i].descriptor = -1;
	bool good = plan->index_only       ? write_index(&writing, ret_error)
		    : known.folder != NULL ? write_folder(&writing, ret_error)
					   : write_stream(&writing, ret_error);
	plan->facts.overflowed = atomic_load(&writing.overflowed);
	for (size_t i = 0; writing.files != NULL && i < writing.plan->file_count + 2; i++)
		remove_temporary(&writing, &writing.files[i]);
	for (size_t i = 0; i < FSDP_EXPORT_COMPANIONS; i++)
		remove_temporary(&writing, &writing.companions[i]);
	free(writing.files);
	writing.files = NULL;
	export_forget_runs(&writing);
	if (writing.folder >= 0)
		close(writing.folder);
	fsdp_dir_close(&writing.config);
	return good;
}
