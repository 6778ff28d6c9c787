/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of one tensor in C order, out of its boxes and runs. Missing or
 * overlapping parts end it; they are reported elsewhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "elements/elements-private.h"
#include "io/zip.h"

bool fsdp_marks_reset(
	struct fsdp_marks *marks, uint64_t count, struct fsdp_error **ret_error)
{
	size_t words = (size_t)(count / 64 + 1);
	if (words > marks->room) {
		free(marks->words);
		marks->room = 0;
		marks->words = malloc(words * sizeof *marks->words);
		if (marks->words == NULL)
			return fsdp_fail_memory(ret_error);
		marks->room = words;
	}
	memset(marks->words, 0, words * sizeof *marks->words);
	marks->count = count;
	return true;
}

void fsdp_marks_done(struct fsdp_marks *marks)
{
	free(marks->words);
}

bool fsdp_marks_set(struct fsdp_marks *marks, uint64_t first, uint64_t count)
{
	uint64_t seen = 0;
	while (count != 0) {
		unsigned bit = (unsigned)(first % 64);
		uint64_t part = count < 64 - bit ? count : 64 - bit;
		uint64_t mask = (part == 64 ? UINT64_MAX : (UINT64_C(1) << part) - 1)
				<< bit;
		uint64_t *word = &marks->words[first / 64];
		seen |= *word & mask;
		*word |= mask;
		first += part;
		count -= part;
	}
	return seen == 0;
}

static bool is_set(const struct fsdp_marks *marks, uint64_t bit)
{
	return (marks->words[bit / 64] >> bit % 64 & 1) != 0;
}

bool fsdp_marks_lacking(
	const struct fsdp_marks *marks, uint64_t *ret_first, uint64_t *ret_count)
{
	uint64_t first = 0;
	while (first < marks->count && is_set(marks, first))
		first += first % 64 == 0 && marks->words[first / 64] == UINT64_MAX ? 64
										   : 1;
	if (first >= marks->count)
		return false;
	uint64_t end = first;
	while (end < marks->count && !is_set(marks, end))
		end++;
	*ret_first = first;
	*ret_count = end - first;
	return true;
}

/*
 * Sums up stored bytes as they come by.
 */

static bool begin_run(struct fsdp_stored_runs *runs, struct fsdp_stored_at *place,
	const struct fsdp_fetch_record *record, uint64_t at,
	struct fsdp_error **ret_error)
{
	if (runs->count == runs->room) {
		size_t room = 2 * runs->room + 8;
		void *list = realloc(runs->list, room * sizeof *runs->list);
		if (list == NULL)
			return fsdp_fail_memory(ret_error);
		runs->list = list;
		runs->room = room;
	}
	runs->list[runs->count++] = (struct fsdp_elements_run){
		.file = record->file,
		.record = record->offset,
		.size = record->size,
		.begin = at,
		.end = at,
		.recorded = record->crc,
	};
	place->run = runs->count;
	return true;
}

/* Bytes of the record from `at` on. What does not follow on those before ends the run. */
static bool stored_runs_add(struct fsdp_stored_runs *runs, struct fsdp_stored_at *place,
	const struct fsdp_fetch_record *record, uint64_t at, const unsigned char *bytes,
	size_t size, struct fsdp_error **ret_error)
{
	if (!record->has_crc || place->broken)
		return true;
	if (place->run == 0 && !begin_run(runs, place, record, at, ret_error))
		return false;
	struct fsdp_elements_run *run = &runs->list[place->run - 1];
	if (at != run->end) {
		place->broken = true;
		return true;
	}
	run->crc = fsdp_crc32(run->crc, bytes, size);
	run->end += size;
	return true;
}

enum {
	CHUNK_LEAST = 256 << 10, /* of what is read in order: it stays in the cache */
	CHUNK_A_PIECE = 128 << 10,
	CHUNK_MOST = 32 << 20,
	PAGE = 4096,
	SUMMED_ROW = 64,           /* shorter ones cost more than they are worth */
	CHUNK_INFLATED = 48 << 20, /* each inflates the complete record again */
};

struct place {
	uint64_t first; /* element */
	uint32_t piece;
};

/* A piece that chunks touch, once it is located. */
struct active {
	uint64_t first, last; /* elements */
	struct fsdp_part part;
	struct fsdp_fetch_record record;
	uint64_t base; /* of its first element in the storage, bytes */
	uint32_t piece;
	struct fsdp_stored_at summed;
	bool located, big_endian, conj, neg;
	uint64_t steps[]; /* of each dimension in the storage, bytes */
};

struct task {
	struct active *active;
	uint64_t at, end; /* in the file, or in the inflated record */
	uint64_t until;   /* as far as it is worth reading ahead */
	bool dense;
};

/* Elements first to first + count - 1: the box low to high. */
struct chunk {
	uint64_t first, count;
	uint64_t low[FSDP_DIMS_MAX], high[FSDP_DIMS_MAX];
};

struct fsdp_assembly {
	struct fsdp_assemble_input input;
	int64_t shape[FSDP_DIMS_MAX];
	uint64_t steps[FSDP_DIMS_MAX]; /* of each dimension in the tensor, elements */
	unsigned width;                /* bytes of an element */
	unsigned packed;               /* elements in a byte, which is then the element */
	uint64_t at, end;              /* elements: next, and after the last one */

	struct place *places; /* in order */
	uint32_t place_count, place_next;
	struct active **active;
	struct task *tasks;
	size_t active_count, active_room, task_count, task_room;

	struct fsdp_marks marks;
	struct fsdp_stored_runs runs;
	struct fsdp_fetch fetch;
	struct fsdp_budget budget;
	struct fsdp_arena
		arena; /* of the chunk alone: large pages are cheap to scatter to */
	unsigned char *chunk;
	size_t chunk_room, chunk_most;
	uint32_t file; /* in work */
	bool big_endian, order_known, failed;
};

/* ---- where pieces are ---- */

static struct fsdp_part part_at(const struct fsdp_assembly *assembly, uint32_t piece)
{
	const struct fsdp_assemble_input *input = &assembly->input;
	struct fsdp_part part = input->part(input->context, piece);
	if (assembly->packed != 0)
		part = (struct fsdp_part){
			.count = (uint64_t)assembly->shape[0],
			.missing = part.missing,
		};
	return part;
}

/* False: it is not in the tensor. */
static bool is_inside(const struct fsdp_assembly *assembly, const struct fsdp_part *part)
{
	uint64_t numel = assembly->input.numel;
	if (part->offsets == NULL)
		return part->start <= numel && part->count <= numel - part->start;
	for (size_t i = 0; i < assembly->input.dims; i++)
		if (part->offsets[i] < 0 || part->sizes[i] < 0 ||
			part->offsets[i] > assembly->shape[i] ||
			part->sizes[i] > assembly->shape[i] - part->offsets[i])
			return false;
	return true;
}

static uint64_t first_offset(
	const struct fsdp_assembly *assembly, const struct fsdp_part *part)
{
	uint64_t first = part->start;
	for (size_t i = 0; part->offsets != NULL && i < assembly->input.dims; i++)
		first += (uint64_t)part->offsets[i] * assembly->steps[i];
	return first;
}

static uint64_t last_offset(
	const struct fsdp_assembly *assembly, const struct fsdp_part *part)
{
	uint64_t last = first_offset(assembly, part);
	if (part->offsets == NULL)
		return last + part->count - 1;
	for (size_t i = 0; i < assembly->input.dims; i++)
		last += ((uint64_t)part->sizes[i] - 1) * assembly->steps[i];
	return last;
}

static int compare_parts(const struct fsdp_assembly *assembly, const struct fsdp_part *a,
	const struct fsdp_part *b)
{
	if (a->offsets == NULL || b->offsets == NULL) {
		if ((a->offsets == NULL) != (b->offsets == NULL))
			return a->offsets == NULL ? -1 : 1;
		return a->count < b->count ? -1 : a->count > b->count;
	}
	for (size_t i = 0; i < assembly->input.dims; i++)
		if (a->offsets[i] != b->offsets[i] || a->sizes[i] != b->sizes[i])
			return a->offsets[i] < b->offsets[i] ||
					       (a->offsets[i] == b->offsets[i] &&
						       a->sizes[i] < b->sizes[i])
				       ? -1
				       : 1;
	return 0;
}

/* In order of their first elements; equal positions are adjacent, those with bytes before
 * those without. */
static int compare_places(const void *left, const void *right, void *context)
{
	const struct place *a = left, *b = right;
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	struct fsdp_part of_a = part_at(context, a->piece),
			 of_b = part_at(context, b->piece);
	int order = compare_parts(context, &of_a, &of_b);
	if (order != 0)
		return order;
	if (of_a.missing != of_b.missing)
		return of_a.missing ? 1 : -1;
	return a->piece < b->piece ? -1 : a->piece > b->piece;
}

/* ---- making one ---- */

/* Several elements per byte: the bytes are what is assembled, and only as they are. */
static bool pack(struct fsdp_assembly *assembly, struct fsdp_error **ret_error)
{
	struct fsdp_assemble_input *input = &assembly->input;
	assembly->packed = 8 / fsdp_dtype(input->dtype)->item_bits;
	for (uint32_t i = 0; i < input->piece_count; i++) {
		struct fsdp_part part = input->part(input->context, i);
		bool whole = part.offsets != NULL ||
			     (part.start == 0 && part.count == input->numel);
		for (size_t k = 0; part.offsets != NULL && k < input->dims; k++)
			whole = whole && part.offsets[k] == 0 &&
				part.sizes[k] == assembly->shape[k];
		if (!whole)
			return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"tensors with several elements per byte in several pieces are not supported");
	}
	if (input->first % assembly->packed != 0)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"element %" PRIu64 " does not begin a byte", input->first);
	uint64_t end = assembly->end;
	assembly->at = input->first / assembly->packed;
	assembly->end = end / assembly->packed + (end % assembly->packed != 0);
	input->numel =
		input->numel / assembly->packed + (input->numel % assembly->packed != 0);
	input->dims = 1;
	assembly->shape[0] = (int64_t)input->numel;
	return true;
}

static bool prepare(struct fsdp_assembly *assembly, struct fsdp_error **ret_error)
{
	const struct fsdp_assemble_input *input = &assembly->input;
	const struct fsdp_dtype *dtype = fsdp_dtype(input->dtype);
	uint64_t bytes;
	if (dtype->storage_bytes == 0)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"elements of this dtype have no known size");
	if (!fsdp_mul(input->numel, dtype->storage_bytes, &bytes) || bytes > INT64_MAX)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"size of the tensor overflows");
	assembly->width = dtype->storage_bytes;
	assembly->at = fsdp_min(input->first, input->numel);
	assembly->end =
		assembly->at + fsdp_min(input->count, input->numel - assembly->at);
	if (dtype->item_bits < 8 && !pack(assembly, ret_error))
		return false;
	uint64_t step = 1; /* may wrap without elements */
	for (size_t i = assembly->input.dims; i-- > 0;) {
		assembly->steps[i] = step;
		step *= (uint64_t)assembly->shape[i];
	}
	if (assembly->at == assembly->end)
		return true;
	if (input->piece_count == 0)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"the tensor has no bytes of its own");
	uint32_t count = assembly->input.piece_count;
	bool rows = true, sorted = true;
	assembly->places = malloc(((size_t)count + 1) * sizeof *assembly->places);
	if (assembly->places == NULL)
		return fsdp_fail_memory(ret_error);
	FSDP_EACH(i, count, part, part_at(assembly, i)) {
		if (!is_inside(assembly, &part))
			return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				"a piece is outside of the tensor's shape");
		bool is_empty = part.offsets == NULL && part.count == 0;
		for (size_t k = 0; part.offsets != NULL && k < assembly->input.dims; k++)
			is_empty |= part.sizes[k] == 0;
		if (is_empty)
			continue;
		struct place *place = &assembly->places[assembly->place_count++];
		*place = (struct place){ first_offset(assembly, &part), i };
		/* The piece is a part of one run of the tensor. */
		for (size_t k = 1; part.offsets != NULL && k < assembly->input.dims; k++)
			rows = rows && part.sizes[k] == assembly->shape[k];
		sorted =
			sorted && (assembly->place_count == 1 ||
					  compare_places(place - 1, place, assembly) < 0);
	}
	if (!sorted)
		qsort_r(assembly->places, assembly->place_count, sizeof *assembly->places,
			compare_places, assembly);
	uint64_t most = rows ? 0 : (uint64_t)assembly->place_count * CHUNK_A_PIECE;
	assembly->chunk_most =
		(size_t)fsdp_min(most < CHUNK_LEAST ? CHUNK_LEAST : most, CHUNK_MOST);
	return fsdp_fetch_init(&assembly->fetch, ret_error);
}

bool fsdp_assembly_new(const struct fsdp_assemble_input *input,
	struct fsdp_assembly **ret_assembly, struct fsdp_error **ret_error)
{
	struct fsdp_assembly *assembly = calloc(1, sizeof *assembly);
	if (assembly == NULL)
		return fsdp_fail_memory(ret_error);
	assembly->input = *input;
	assembly->file = FSDP_NONE;
	assembly->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&assembly->arena, &assembly->budget);
	if (input->dims != 0)
		memcpy(assembly->shape, input->shape, input->dims * sizeof *input->shape);
	assembly->fetch.source_of = input->source;
	assembly->fetch.context = input->context;
	assembly->fetch.inflate_ceiling = input->inflate_ceiling;
	if (!prepare(assembly, ret_error)) {
		fsdp_assembly_free(assembly);
		return false;
	}
	*ret_assembly = assembly;
	return true;
}

void fsdp_assembly_free(struct fsdp_assembly *assembly)
{
	if (assembly == NULL)
		return;
	for (size_t i = 0; i < assembly->active_count; i++)
		free(assembly->active[i]);
	free(assembly->active);
	free(assembly->tasks);
	free(assembly->places);
	fsdp_arena_done(&assembly->arena);
	fsdp_marks_done(&assembly->marks);
	free(assembly->runs.list);
	assembly->runs = (struct fsdp_stored_runs){ 0 };
	fsdp_fetch_done(&assembly->fetch);
	free(assembly);
}

uint32_t fsdp_assembly_file(const struct fsdp_assembly *assembly)
{
	return assembly->file;
}

/* ---- chunks ---- */

/* ---- pieces in work ---- */

static bool make_room(void **list, size_t *room, size_t count, size_t size,
	struct fsdp_error **ret_error)
{
	if (count < *room)
		return true;
	size_t more = *room == 0 ? 64 : *room * 2;
	void *grown = realloc(*list, more * size);
	if (grown == NULL)
		return fsdp_fail_memory(ret_error);
	*list = grown;
	*room = more;
	return true;
}

static bool activate(struct fsdp_assembly *assembly, const struct place *place,
	const struct fsdp_part *part, struct fsdp_error **ret_error)
{
	size_t dims = part->offsets != NULL ? assembly->input.dims : 1;
	void *list = assembly->active;
	bool room = make_room(&list, &assembly->active_room, assembly->active_count,
		sizeof *assembly->active, ret_error);
	assembly->active = list;
	if (!room)
		return false;
	struct active *active = malloc(sizeof *active + dims * sizeof *active->steps);
	if (active == NULL)
		return fsdp_fail_memory(ret_error);
	*active = (struct active){
		.first = place->first,
		.last = last_offset(assembly, part),
		.part = *part,
		.piece = place->piece,
	};
	assembly->active[assembly->active_count++] = active;
	return true;
}

/* Whether the next piece has the place of the one before. */
static bool is_replica(const struct fsdp_assembly *assembly, const struct fsdp_part *part,
	uint64_t first)
{
	if (assembly->place_next == assembly->place_count ||
		assembly->places[assembly->place_next].first != first)
		return false;
	struct fsdp_part next =
		part_at(assembly, assembly->places[assembly->place_next].piece);
	return compare_parts(assembly, part, &next) == 0;
}

/* Whether a view has the shape that its part says. */
static bool has_shape(const struct fsdp_assembly *assembly, const struct fsdp_part *part,
	const struct fsdp_view *view)
{
	if (view->dtype != assembly->input.dtype)
		return false;
	if (part->offsets == NULL)
		return view->dims == 1 && (uint64_t)view->shape[0] == part->count;
	return view->dims == assembly->input.dims &&
	       (view->dims == 0 || memcmp(view->shape, part->sizes,
					   view->dims * sizeof *view->shape) == 0);
}

static bool unpack(const struct fsdp_assembly *assembly, struct fsdp_view *view,
	struct fsdp_error **ret_error)
{
	if (!fsdp_view_is_contiguous(view) ||
		view->storage_offset % assembly->packed != 0)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, view->record,
			"strided views with several elements per byte are not supported");
	view->storage_offset /= assembly->packed;
	view->dims = 1;
	view->shape[0] = assembly->shape[0];
	view->strides[0] = 1;
	return true;
}

/* Whether C order goes back and forth in the storage. */
static bool is_scattered(
	const struct active *active, const struct fsdp_view *view, unsigned width)
{
	uint64_t span = width;
	for (size_t i = view->dims; i-- > 0;) {
		if (view->shape[i] == 1)
			continue;
		if (active->steps[i] < span)
			return true;
		span += ((uint64_t)view->shape[i] - 1) * active->steps[i];
	}
	return false;
}

static bool locate(struct fsdp_assembly *assembly, struct active *active,
	struct fsdp_error **ret_error)
{
	const struct fsdp_assemble_input *input = &assembly->input;
	struct fsdp_view view;
	if (!input->view(input->context, active->piece, &view, ret_error))
		return false;
	assembly->file = view.file;
	uint64_t end;
	if (!fsdp_view_bytes(&view, &active->base, &end))
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, view.record,
			"the tensor reaches beyond its storage");
	if (!fsdp_zip_check_method(view.method, view.record, ret_error))
		return false;
	if (view.method == 0 && end > view.stored_size)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, view.record,
			"the storage's record is shorter than the tensor");
	if (assembly->packed != 0 && !unpack(assembly, &view, ret_error))
		return false;
	if (assembly->packed == 0 && !has_shape(assembly, &active->part, &view))
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, view.record,
			"the piece has another shape or dtype than its tensor");
	for (size_t i = 0; i < view.dims; i++)
		active->steps[i] = view.shape[i] > 1
					   ? (uint64_t)view.strides[i] * assembly->width
					   : 0;
	bool scattered = is_scattered(active, &view, assembly->width);
	active->record = (struct fsdp_fetch_record){
		.offset = view.record,
		.stored_size = view.stored_size,
		.size = view.storage_bytes,
		.file = view.file,
		.piece = active->piece,
		.crc = view.crc,
		.has_crc = view.has_crc && assembly->packed == 0,
		.deflated = view.method != 0,
		.keep = scattered,
	};
	if (assembly->order_known && view.big_endian != assembly->big_endian)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, view.record,
			"the pieces differ in their byte order");
	assembly->big_endian = view.big_endian;
	assembly->order_known = true;
	active->conj =
		input->resolve && view.conj && fsdp_dtype(input->dtype)->is_complex;
	active->neg = input->resolve && view.neg;
	if (scattered && assembly->chunk_most < CHUNK_MOST)
		assembly->chunk_most = CHUNK_MOST;
	if (scattered && view.method != 0 && view.storage_bytes > FSDP_FETCH_KEPT)
		assembly->chunk_most = CHUNK_INFLATED;
	active->located = true;
	return true;
}

/* ---- what a piece gives to a chunk ---- */

/* Loops with the steps of the tensor alone: `mark` counts elements. False: nothing. */
static bool make_nest(const struct fsdp_assembly *assembly, const struct active *active,
	const struct chunk *chunk, bool mark, struct fsdp_nest *nest)
{
	const struct fsdp_part *part = &active->part;
	uint64_t width = mark ? 1 : assembly->width;
	uint64_t from = active->base, to = 0;
	fsdp_nest_init(nest, 0, 0, (size_t)width);
	if (part->offsets == NULL) {
		uint64_t begin = part->start > chunk->first ? part->start : chunk->first;
		uint64_t end =
			fsdp_min(part->start + part->count, chunk->first + chunk->count);
		if (begin >= end)
			return false;
		uint64_t step = mark ? 1 : active->steps[0];
		fsdp_nest_add(nest, end - begin, step, width);
		from += (begin - part->start) * step;
		to = begin;
	}
	for (size_t i = 0; part->offsets != NULL && i < assembly->input.dims; i++) {
		uint64_t offset = (uint64_t)part->offsets[i];
		uint64_t begin = offset > chunk->low[i] ? offset : chunk->low[i];
		uint64_t end =
			fsdp_min(offset + (uint64_t)part->sizes[i], chunk->high[i]);
		if (begin >= end)
			return false;
		uint64_t step = mark ? assembly->steps[i] : active->steps[i];
		fsdp_nest_add(nest, end - begin, step, assembly->steps[i] * width);
		from += (begin - offset) * step;
		to += begin * assembly->steps[i];
	}
	nest->from = from;
	nest->to = (to - chunk->first) * width;
	fsdp_nest_finish(nest);
	return true;
}

static int compare_tasks(const void *left, const void *right)
{
	const struct task *a = left, *b = right;
	const struct fsdp_fetch_record *of_a = &a->active->record,
				       *of_b = &b->active->record;
	if (of_a->file != of_b->file)
		return of_a->file < of_b->file ? -1 : 1;
	if (of_a->deflated != of_b->deflated)
		return of_a->deflated ? 1 : -1;
	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return of_a->piece < of_b->piece ? -1 : of_a->piece > of_b->piece;
}

/* Which pieces the chunk is made of. *ret_again: it should be another chunk. */
static bool list_tasks(struct fsdp_assembly *assembly, const struct chunk *chunk,
	bool *ret_again, struct fsdp_error **ret_error)
{
	size_t most = assembly->chunk_most;
	assembly->task_count = 0;
	*ret_again = false;
	/* Drops parts before the chunk, and adds parts that begin before the end of
	 * the chunk: of equal positions the first. */
	size_t kept = 0;
	for (size_t i = 0; i < assembly->active_count; i++) {
		struct active *active = assembly->active[i];
		if (active->last < chunk->first)
			free(active);
		else
			assembly->active[kept++] = active;
	}
	assembly->active_count = kept;
	while (assembly->place_next < assembly->place_count) {
		const struct place *place = &assembly->places[assembly->place_next];
		if (place->first >= chunk->first + chunk->count)
			break;
		struct fsdp_part part = part_at(assembly, place->piece);
		if (last_offset(assembly, &part) >= chunk->first &&
			!activate(assembly, place, &part, ret_error))
			return false;
		do
			assembly->place_next++;
		while (is_replica(assembly, &part, place->first));
	}
	for (size_t i = 0; i < assembly->active_count; i++) {
		struct active *active = assembly->active[i];
		struct fsdp_nest nest;
		if (!make_nest(assembly, active, chunk, true, &nest))
			continue;
		if (!active->located && !locate(assembly, active, ret_error))
			return false;
		make_nest(assembly, active, chunk, false, &nest);
		void *list = assembly->tasks;
		bool room = make_room(&list, &assembly->task_room, assembly->task_count,
			sizeof *assembly->tasks, ret_error);
		assembly->tasks = list;
		if (!room)
			return false;
		struct task *task = &assembly->tasks[assembly->task_count++];
		uint64_t base = active->record.deflated ? 0 : active->record.offset;
		*task = (struct task){ .active = active, .at = base + nest.from };
		task->end = task->until = base + fsdp_nest_end(&nest, &task->dense);
	}
	*ret_again = assembly->chunk_most > most;
	return true;
}

/* ---- whether nothing lacks ---- */

static const char *index_text(
	const struct fsdp_assembly *assembly, uint64_t element, char *buffer, size_t size)
{
	size_t length = 0;
	if (assembly->input.dims > 8) {
		snprintf(buffer, size, "number %" PRIu64, element);
		return buffer;
	}
	buffer[length++] = '[';
	for (size_t i = 0; i < assembly->input.dims; i++) {
		length += (size_t)snprintf(buffer + length, size - length, "%s%" PRIu64,
			i > 0 ? ", " : "", element / assembly->steps[i]);
		element %= assembly->steps[i];
	}
	snprintf(buffer + length, size - length, "]");
	return buffer;
}

static bool check_tasks(struct fsdp_assembly *assembly, const struct chunk *chunk,
	struct fsdp_error **ret_error)
{
	uint64_t first, count;
	char text[192];
	/* One piece that holds all of it needs no marks. */
	struct fsdp_nest nest;
	if (assembly->task_count == 1 &&
		make_nest(assembly, assembly->tasks[0].active, chunk, true, &nest) &&
		nest.loop_count == 0 && nest.row == chunk->count)
		return true;
	assembly->file = FSDP_NONE;
	if (!fsdp_marks_reset(&assembly->marks, chunk->count, ret_error))
		return false;
	for (size_t i = 0; i < assembly->task_count; i++) {
		const struct active *active = assembly->tasks[i].active;
		struct fsdp_nest piece_nest;
		struct fsdp_odometer odometer;
		make_nest(assembly, active, chunk, true, &piece_nest);
		fsdp_odometer_init(&odometer, piece_nest.loops, piece_nest.loop_count);
		do {
			uint64_t at = piece_nest.to + odometer.to;
			if (!fsdp_marks_set(&assembly->marks, at, piece_nest.row))
				return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED,
					"FI1022", FSDP_UNKNOWN,
					"two different pieces have element %s, or a later one",
					index_text(assembly, chunk->first + at, text,
						sizeof text));
		} while (fsdp_odometer_next(&odometer));
	}
	if (fsdp_marks_lacking(&assembly->marks, &first, &count)) {
		char from[192], to[192];
		index_text(assembly, chunk->first + first, from, sizeof from);
		index_text(assembly, (chunk->first + first) + count - 1, to, sizeof to);
		if (count == 1)
			fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				"no piece has element %s", from);
		else
			fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				"no piece has the %" PRIu64 " elements from %s to %s",
				count, from, to);
		fsdp_error_add_rule(ret_error, "FI1021");
		return fsdp_error_add_hint(ret_error,
			"look for files of other ranks, or use an earlier checkpoint");
	}
	return true;
}

/* ---- sums ---- */

const struct fsdp_stored_runs *fsdp_assembly_runs(const struct fsdp_assembly *assembly)
{
	return &assembly->runs;
}

/* ---- bytes ---- */

/* The sign is the highest bit of the last byte. */
static void flip_signs(unsigned char *bytes, uint64_t count, size_t width, size_t every)
{
	for (uint64_t i = 0; i < count; i++, bytes += every)
		bytes[width - 1] ^= 0x80;
}

static void resolve_row(const struct fsdp_assembly *assembly, const struct active *active,
	uint64_t at, uint64_t size)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(assembly->input.dtype);
	size_t width = assembly->width, part = dtype->is_complex ? width / 2 : width;
	unsigned char *bytes = assembly->chunk + at;
	uint64_t count = size / width;
	if (active->conj)
		flip_signs(bytes + part, count, part, width);
	if (!active->neg)
		return;
	if (dtype->is_complex || dtype->is_floating)
		flip_signs(bytes, count * (width / part), part, part);
	else {
		/* Little-endian two's complement. */
		for (uint64_t i = 0; i < count; i++, bytes += width) {
			unsigned carry = 1;
			for (size_t k = 0; k < width; k++) {
				unsigned byte = (unsigned char)~bytes[k] + carry;
				bytes[k] = (unsigned char)byte;
				carry = byte >> 8;
			}
		}
	}
}

static void resolve(const struct fsdp_assembly *assembly, const struct chunk *chunk)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(assembly->input.dtype);
	size_t width = assembly->width, part = dtype->is_complex ? width / 2 : width;
	if (assembly->big_endian) {
		unsigned char *bytes = assembly->chunk;
		uint64_t count = chunk->count * (width / part);
		for (uint64_t i = 0; i < count; i++, bytes += part)
			for (size_t a = 0, b = part - 1; a < b; a++, b--) {
				unsigned char byte = bytes[a];
				bytes[a] = bytes[b];
				bytes[b] = byte;
			}
	}
	for (size_t i = 0; i < assembly->task_count; i++) {
		const struct active *active = assembly->tasks[i].active;
		struct fsdp_nest nest;
		struct fsdp_odometer odometer;
		if (!active->conj && !active->neg)
			continue;
		make_nest(assembly, active, chunk, false, &nest);
		fsdp_odometer_init(&odometer, nest.loops, nest.loop_count);
		do
			resolve_row(assembly, active, nest.to + odometer.to, nest.row);
		while (fsdp_odometer_next(&odometer));
	}
}

static bool make_chunk(struct fsdp_assembly *assembly, const struct chunk *chunk,
	struct fsdp_error **ret_error)
{
	size_t size = (size_t)chunk->count * assembly->width;
	if (!check_tasks(assembly, chunk, ret_error))
		return false;
	if (size > assembly->chunk_room) {
		fsdp_arena_done(&assembly->arena);
		fsdp_arena_init(&assembly->arena, &assembly->budget);
		assembly->chunk_room = 0;
		assembly->chunk = fsdp_arena_take(&assembly->arena, size, PAGE);
		if (assembly->chunk == NULL)
			return fsdp_arena_fail(&assembly->arena, ret_error);
		assembly->chunk_room = size;
	}
	if (assembly->task_count > 1)
		qsort(assembly->tasks, assembly->task_count, sizeof *assembly->tasks,
			compare_tasks);
	/* Pieces that are close to each other in a file are read together. */
	for (size_t i = assembly->task_count; i-- > 1;) {
		struct task *before = &assembly->tasks[i - 1], *task = before + 1;
		const struct fsdp_fetch_record *record = &task->active->record;
		if (record->file == before->active->record.file && !record->deflated &&
			!before->active->record.deflated && before->dense &&
			task->until > before->until &&
			task->at <= before->end + FSDP_FETCH_NEAR)
			before->until = task->until;
	}
	fsdp_fetch_forget_source(&assembly->fetch);
	FSDP_EACH(i, assembly->task_count, task, &assembly->tasks[i]) {
		const struct fsdp_fetch_record *record = &task->active->record;
		uint64_t base = record->deflated ? 0 : record->offset;
		struct fsdp_nest nest;
		assembly->file = record->file;
		make_nest(assembly, task->active, chunk, false, &nest);
		if (!fsdp_fetch_turn(&assembly->fetch, record, ret_error) ||
			!fsdp_nest_run(&nest, &assembly->fetch, task->until - base,
				assembly->chunk, ret_error))
			return false;
	}
	for (size_t i = 0; assembly->input.sums && i < assembly->task_count; i++) {
		/* In the order of the storage, out of the chunk that was made of it. */
		struct active *active = assembly->tasks[i].active;
		struct fsdp_nest nest;
		struct fsdp_odometer odometer;
		make_nest(assembly, active, chunk, false, &nest);
		if (nest.row < SUMMED_ROW && nest.loop_count != 0)
			active->summed.broken = true;
		fsdp_odometer_init(&odometer, nest.loops, nest.loop_count);
		do {
			if (active->summed.broken)
				break;
			if (!stored_runs_add(&assembly->runs, &active->summed,
				    &active->record, nest.from + odometer.from,
				    assembly->chunk + nest.to + odometer.to, nest.row,
				    ret_error))
				return false;
		} while (fsdp_odometer_next(&odometer));
	}
	resolve(assembly, chunk);
	return true;
}

bool fsdp_assembly_next(struct fsdp_assembly *assembly, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error)
{
	struct chunk chunk;
	bool again = true;
	if (assembly->failed)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"the elements before these could not be read");
	if (assembly->at == assembly->end) {
		*ret_bytes = (struct fsdp_span){ 0 };
		return true;
	}
	while (again) {
		/* The largest box that begins at `at`, has contiguous elements in C order
		 * and is at most as large as a chunk. */
		size_t dims = assembly->input.dims;
		uint64_t most = fsdp_min(assembly->end - assembly->at,
			assembly->chunk_most / assembly->width);
		uint64_t rest = assembly->at;
		chunk.first = assembly->at;
		chunk.count = 1;
		for (size_t i = 0; i < dims; i++) {
			chunk.low[i] = rest / assembly->steps[i];
			chunk.high[i] = chunk.low[i] + 1;
			rest %= assembly->steps[i];
		}
		for (size_t i = dims; i-- > 0;) {
			uint64_t size = (uint64_t)assembly->shape[i], low = chunk.low[i];
			uint64_t turns = fsdp_min(size - low, most / chunk.count);
			chunk.high[i] = low + turns;
			chunk.count *= turns;
			if (low != 0 || turns < size)
				break;
		}
		if (!list_tasks(assembly, &chunk, &again, ret_error)) {
			assembly->failed = true;
			return false;
		}
	}
	if (!make_chunk(assembly, &chunk, ret_error)) {
		assembly->failed = true;
		return false;
	}
	assembly->at += chunk.count;
	*ret_bytes = fsdp_span(assembly->chunk, (size_t)chunk.count * assembly->width);
	return true;
}
