/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the bytes of files once and passes them to all consumers.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/num.h"
#include "base/tasks.h"
#include "elements/elements-private.h"
#include "io/source.h"

enum { RATIO = 1032 /* no stream of deflate inflates to more */ };

struct partial {
	size_t view;
	struct fsdp_pass_result result;
};

/* A part of a file. If it begins inside of a segment, or ends inside of the one that it
 * begins with, `crc` is that of the bytes it has. */
struct pass_part {
	struct fsdp_pass_file *file;
	uint64_t begin, end;
	size_t segment; /* the first that ends after `begin` */
	bool cut;       /* that one is cut */
	uint32_t crc;
	struct fsdp_error *error;
	struct fsdp_pass_bad *bad;
	size_t bad_count, bad_room;
	struct partial *partials;
	size_t partial_count, partial_room;
};

/* Parts that one thread takes: one, or all of a file that is hashed. */
struct pass_task {
	size_t first, count;
};

struct slot {
	_Atomic bool taken;
	unsigned char *buffer; /* NULL until it is needed */
};

struct pass_run {
	struct fsdp_pass_options *options;
	struct pass_part *parts;
	struct pass_task *tasks;
	size_t part_count, part_room, task_count, task_room;
	struct slot slots[FSDP_PASS_THREADS + 1];
	_Atomic uint64_t done;
	_Atomic bool telling;
};

/* One part while it is read. */
struct pass_reader {
	struct pass_run *pass;
	struct pass_part *part;
	struct fsdp_pass_file *file;
	struct fsdp_sha256 *sha256; /* or NULL */
	unsigned char *buffer;
	uint64_t at;
	size_t segment, view; /* the first that are not done */
	uint32_t crc;         /* of the segment so far */
};

bool fsdp_segments_add(struct fsdp_vec *segments, const struct fsdp_segment *segment)
{
	if (segments->count != 0) {
		const struct fsdp_segment *last =
			fsdp_vec_at(segments, segments->count - 1);
		if (segment->begin < last->begin + last->stored)
			return true;
	}
	return fsdp_vec_add(segments, segment);
}

/* Room for one more item; NULL when out of memory. */
static void *one_more(void **list, size_t *count, size_t *room, size_t size)
{
	if (*count == *room) {
		size_t more = *room == 0 ? 8 : *room * 2;
		void *longer = realloc(*list, more * size);
		if (longer == NULL)
			return NULL;
		*list = longer;
		*room = more;
	}
	return (char *)*list + (*count)++ * size;
}

/* ---- plan ---- */

static struct pass_part *add_part(struct pass_run *pass, struct fsdp_pass_file *file,
	uint64_t begin, size_t segment)
{
	void *list = pass->parts;
	struct pass_part *part =
		one_more(&list, &pass->part_count, &pass->part_room, sizeof *pass->parts);
	pass->parts = list;
	if (part != NULL)
		*part = (struct pass_part){
			.file = file, .begin = begin, .segment = segment
		};
	return part;
}

/* Ends the part in hand and begins another one. */
static bool cut_at(
	struct pass_run *pass, struct pass_part **part, uint64_t at, size_t segment)
{
	struct fsdp_pass_file *file = (*part)->file;
	(*part)->end = at;
	*part = add_part(pass, file, at, segment);
	return *part != NULL;
}

/* Bytes that belong to no segment, from `at` on, may be cut anywhere. */
static bool cut_gap(struct pass_run *pass, struct pass_part **part, uint64_t at,
	uint64_t until, size_t segment)
{
	while (until - (*part)->begin > FSDP_PASS_PART) {
		uint64_t next = (*part)->begin + FSDP_PASS_PART;
		if (!cut_at(pass, part, next > at ? next : at, segment))
			return false;
	}
	return true;
}

static bool cut_segment(struct pass_run *pass, struct pass_part **part,
	const struct fsdp_segment *segment, size_t index)
{
	uint64_t end = segment->begin + segment->stored;
	if (end - (*part)->begin <= FSDP_PASS_PART)
		return true;
	if (segment->begin > (*part)->begin && !cut_at(pass, part, segment->begin, index))
		return false;
	if (segment->deflated)
		return true;
	while (end - (*part)->begin > FSDP_PASS_PART) {
		(*part)->cut = true;
		if (!cut_at(pass, part, (*part)->begin + FSDP_PASS_PART, index))
			return false;
		(*part)->cut = true;
	}
	return true;
}

static bool plan_file(struct pass_run *pass, struct fsdp_pass_file *file)
{
	size_t first = pass->part_count;
	struct pass_part *part = add_part(pass, file, 0, 0);
	if (part == NULL)
		return false;
	uint64_t at = 0;
	for (size_t i = 0; i < file->segment_count; i++) {
		struct fsdp_segment segment = file->segment(file->context, i);
		if (segment.begin - at > FSDP_PASS_BUFFER &&
			!cut_gap(pass, &part, at, segment.begin, i))
			return false;
		if (!cut_segment(pass, &part, &segment, i))
			return false;
		at = segment.begin + segment.stored;
	}
	if (!cut_gap(pass, &part, at, file->source.size, file->segment_count))
		return false;
	part->end = file->source.size;
	for (size_t i = first; i < pass->part_count;
		i += file->hashed ? pass->part_count : 1) {
		void *list = pass->tasks;
		struct pass_task *task = one_more(
			&list, &pass->task_count, &pass->task_room, sizeof *pass->tasks);
		pass->tasks = list;
		if (task == NULL)
			return false;
		*task = (struct pass_task){ i,
			file->hashed ? pass->part_count - first : 1 };
	}
	return true;
}

/* ---- views ---- */

static void begin_result(struct fsdp_pass_result *result)
{
	result->trait = result->sample = (struct fsdp_trait){ { 0, 0 } };
	fsdp_moments_init(&result->moments);
}

/* What was begun in a part before is joined at the end. Such views are met in order. */
static struct fsdp_pass_result *find_partial(struct pass_reader *reader, size_t view)
{
	struct pass_part *part = reader->part;
	size_t low = 0, high = part->partial_count;
	FSDP_HALVE(low, high, middle, part->partials[middle].view < view);
	if (low < part->partial_count && part->partials[low].view == view)
		return &part->partials[low].result;
	void *list = part->partials;
	struct partial *partial = one_more(
		&list, &part->partial_count, &part->partial_room, sizeof *partial);
	part->partials = list;
	if (partial == NULL) {
		fsdp_fail_memory(&part->error);
		return NULL;
	}
	partial->view = view;
	begin_result(&partial->result);
	return &partial->result;
}

static void add_to_view(struct pass_reader *reader, size_t index,
	const struct fsdp_segment *segment, const unsigned char *bytes, size_t size,
	uint64_t at)
{
	const struct fsdp_pass_view *view = &reader->file->views[index];
	struct fsdp_pass_result *result = &reader->file->results[index];
	if (!segment->deflated && segment->begin + view->begin < reader->part->begin) {
		result = find_partial(reader, index);
		if (result == NULL)
			return;
	} else if (at == view->begin) {
		begin_result(result);
	}
	if (view->traced)
		fsdp_trait_add(&result->trait, bytes, size);
	if (view->sampled) {
		/* The bytes of each block of the sample, where they are there; the first
		 * one is `at` of the view. */
		uint64_t place = at - view->begin;
		const uint64_t step = FSDP_SAMPLE_BYTES * FSDP_SAMPLE_OF;
		for (uint64_t block = place - place % step; block < place + size;
			block += step) {
			uint64_t begin = block > place ? block : place;
			uint64_t end = fsdp_min(block + FSDP_SAMPLE_BYTES, place + size);
			if (begin < end)
				fsdp_trait_add(&result->sample, bytes + (begin - place),
					(size_t)(end - begin));
		}
	}
	result->moments.samples = view->sampled;
	if (view->counted)
		fsdp_moments_add(&result->moments, view->dtype, view->big_endian, bytes,
			size, at - view->begin);
}

/* Content from `at` on, for all views of it. */
static void show_views(struct pass_reader *reader, size_t index,
	const struct fsdp_segment *segment, const unsigned char *bytes, size_t size,
	uint64_t at)
{
	const struct fsdp_pass_file *file = reader->file;
	const struct fsdp_pass_view *views = file->views;
	size_t view = reader->view;
	while (view < file->view_count &&
		(views[view].segment < index ||
			(views[view].segment == index && views[view].end <= at)))
		view++;
	reader->view = view;
	for (; view < file->view_count && views[view].segment == index &&
		views[view].begin < at + size;
		view++) {
		uint64_t begin = views[view].begin > at ? views[view].begin : at;
		uint64_t end = fsdp_min(views[view].end, at + size);
		if (begin < end)
			add_to_view(reader, view, segment, bytes + (begin - at),
				(size_t)(end - begin), begin);
	}
}

/* ---- segments ---- */

static void add_bad(struct pass_reader *reader, size_t segment, uint32_t crc,
	struct fsdp_error *error)
{
	struct pass_part *part = reader->part;
	void *list = part->bad;
	struct fsdp_pass_bad *bad =
		one_more(&list, &part->bad_count, &part->bad_room, sizeof *bad);
	part->bad = list;
	if (bad != NULL) {
		*bad = (struct fsdp_pass_bad){ segment, crc, error };
		return;
	}
	fsdp_error_free(error);
	fsdp_fail_memory(&part->error);
}

/* What the buffer has of the segments, from `at` to `end` of the file. */
static void show_segments(struct pass_reader *reader, uint64_t end)
{
	const struct fsdp_pass_file *file = reader->file;
	for (; reader->segment < file->segment_count; reader->segment++) {
		struct fsdp_segment segment =
			file->segment(file->context, reader->segment);
		if (segment.begin >= end)
			return;
		uint64_t last = segment.begin + segment.stored;
		uint64_t from = segment.begin > reader->at ? segment.begin : reader->at;
		uint64_t to = fsdp_min(last, end);
		const unsigned char *bytes = reader->buffer + (from - reader->at);
		if (segment.has_crc)
			reader->crc = fsdp_crc32(from == segment.begin ? 0 : reader->crc,
				bytes, to - from);
		show_views(reader, reader->segment, &segment, bytes, to - from,
			from - segment.begin);
		if (to < last)
			return;
		if (reader->part->cut && reader->segment == reader->part->segment)
			reader->part->crc = reader->crc;
		else if (segment.has_crc && reader->crc != segment.crc)
			add_bad(reader, reader->segment, reader->crc, NULL);
		reader->crc = 0;
	}
}

static bool inflate_all(struct pass_reader *reader, struct fsdp_inflate *stream,
	const struct fsdp_segment *segment, uint32_t *ret_crc,
	struct fsdp_error **ret_error)
{
	uint64_t at = 0;
	while (at < segment->size) {
		size_t size = (size_t)fsdp_min(segment->size - at, FSDP_PASS_BUFFER);
		if (!fsdp_inflate_read(stream, reader->buffer, size, ret_error))
			return false;
		*ret_crc = fsdp_crc32(*ret_crc, reader->buffer, size);
		show_views(reader, reader->segment, segment, reader->buffer, size, at);
		at += size;
	}
	return fsdp_inflate_finish(stream, ret_error);
}

static bool may_inflate(const struct fsdp_segment *segment, struct fsdp_error **ret_error)
{
	if (segment->size / RATIO <= segment->stored)
		return true;
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3053", segment->begin,
		"%llu stored bytes cannot inflate to %llu", FSDP_LLU(segment->stored),
		FSDP_LLU(segment->size));
}

/* ---- reading ---- */

/* Where the buffer that begins at `at` ends: before a segment that would be cut though it
 * need not be, and before one that is deflated, unless it begins there. */
static uint64_t buffer_end(const struct pass_reader *reader, bool *ret_deflated)
{
	const struct fsdp_pass_file *file = reader->file;
	uint64_t at = reader->at;
	uint64_t most = fsdp_min(at + FSDP_PASS_BUFFER, reader->part->end);
	*ret_deflated = false;
	for (size_t i = reader->segment; i < file->segment_count; i++) {
		struct fsdp_segment segment = file->segment(file->context, i);
		uint64_t end = segment.begin + segment.stored;
		if (segment.begin >= most)
			return most;
		if (segment.deflated && segment.begin <= at) {
			*ret_deflated = true;
			return end;
		}
		if (segment.begin > at && (segment.deflated || end > most))
			return segment.begin;
		if (end > most)
			return most;
	}
	return most;
}

static bool read_raw(struct pass_reader *reader, uint64_t begin, uint64_t end)
{
	size_t size = (size_t)(end - begin);
	if (!fsdp_source_read(&reader->file->source, begin, reader->buffer, size,
		    &reader->part->error))
		return false;
	if (reader->sha256 != NULL &&
		!fsdp_sha256_add(reader->sha256, reader->buffer, size))
		return fsdp_fail_memory(&reader->part->error);
	return true;
}

static void read_part(struct pass_run *pass, struct pass_part *part,
	struct fsdp_sha256 *sha256, unsigned char *buffer)
{
	/* The first view that may end after the start of the part. */
	size_t low = 0, high = part->file->view_count;
	FSDP_HALVE(low, high, middle, part->file->views[middle].segment < part->segment);
	struct pass_reader reader = {
		.pass = pass,
		.part = part,
		.file = part->file,
		.sha256 = sha256,
		.buffer = buffer,
		.at = part->begin,
		.segment = part->segment,
		.view = low,
	};
	while (reader.at < part->end && part->error == NULL) {
		bool deflated;
		uint64_t end = buffer_end(&reader, &deflated);
		if (deflated) {
			/* The inflater reads for itself; who hashes the file sees the
			 * stored bytes too. */
			struct fsdp_segment segment = reader.file->segment(
				reader.file->context, reader.segment);
			struct fsdp_error *error = NULL;
			struct fsdp_inflate *stream = NULL;
			uint32_t crc = 0;
			bool good =
				may_inflate(&segment, &error) &&
				fsdp_inflate_new(&reader.file->source, segment.begin,
					segment.stored, segment.size, &stream, &error) &&
				inflate_all(&reader, stream, &segment, &crc, &error);
			fsdp_inflate_free(stream);
			if (!good)
				add_bad(&reader, reader.segment, crc, error);
			else if (segment.has_crc && crc != segment.crc)
				add_bad(&reader, reader.segment, crc, NULL);
			reader.segment++;
			for (uint64_t at = reader.at;
				reader.sha256 != NULL && at < end;) {
				uint64_t next = fsdp_min(at + FSDP_PASS_BUFFER, end);
				if (!read_raw(&reader, at, next))
					return;
				at = next;
			}
			if (reader.part->error != NULL)
				return;
		} else {
			if (!read_raw(&reader, reader.at, end))
				return;
			show_segments(&reader, end);
		}
		reader.at = end;
	}
	if (part->cut && reader.segment == part->segment)
		part->crc = reader.crc;
	uint64_t size = part->end - part->begin;
	const struct fsdp_pass_options *options = pass->options;
	uint64_t done = atomic_fetch_add(&pass->done, size) + size;
	if (options->progress == NULL || atomic_exchange(&pass->telling, true))
		return;
	options->progress(options->context, done, options->total);
	atomic_store(&pass->telling, false);
}

static struct slot *next_slot(struct pass_run *pass)
{
	for (size_t i = 0;; i = (i + 1) % FSDP_COUNT(pass->slots))
		if (!atomic_exchange(&pass->slots[i].taken, true))
			return &pass->slots[i];
}

static void run_task(void *context, size_t index)
{
	struct pass_run *pass = context;
	const struct pass_task *task = &pass->tasks[index];
	struct slot *slot = next_slot(pass);
	if (slot->buffer == NULL)
		slot->buffer = malloc(FSDP_PASS_BUFFER);
	if (slot->buffer == NULL)
		fsdp_fail_memory(&pass->parts[task->first].error);
	else {
		struct pass_part *parts = &pass->parts[task->first];
		struct fsdp_pass_file *file = parts[0].file;
		struct fsdp_sha256 *sha256 = NULL;
		if (file->hashed) {
			sha256 = fsdp_sha256_new();
			if (sha256 == NULL)
				fsdp_fail_memory(&parts[0].error);
		}
		for (size_t i = 0; i < task->count && parts[0].error == NULL; i++) {
			read_part(pass, &parts[i], sha256, slot->buffer);
			if (i != 0 && parts[i].error != NULL)
				break;
		}
		if (sha256 != NULL && !fsdp_sha256_finish(sha256, file->digest))
			fsdp_fail_memory(&parts[0].error);
		fsdp_sha256_free(sha256);
	}
	atomic_store(&slot->taken, false);
}

/* ---- what the parts say together ---- */

static bool keep_bad(struct fsdp_pass_file *file, const struct fsdp_pass_bad *bad)
{
	void *list = file->bad;
	struct fsdp_pass_bad *place =
		one_more(&list, &file->bad_count, &file->bad_room, sizeof *place);
	file->bad = list;
	if (place == NULL)
		return false;
	*place = *bad;
	return true;
}

/* The CRC of a segment that was cut, when its last part is there. */
static bool join_segment(struct pass_part *part, uint32_t *crc)
{
	struct fsdp_segment segment =
		part->file->segment(part->file->context, part->segment);
	uint64_t end = segment.begin + segment.stored;
	uint64_t size = fsdp_min(end, part->end) - part->begin;
	*crc = part->begin == segment.begin ? part->crc
					    : fsdp_crc32_join(*crc, part->crc, size);
	if (end > part->end || !segment.has_crc || *crc == segment.crc)
		return true;
	struct fsdp_pass_bad bad = { part->segment, *crc, NULL };
	return keep_bad(part->file, &bad);
}

/* The first error of a file counts; the data after it is unknown. */
static bool join_parts(struct pass_run *pass)
{
	uint32_t crc = 0;
	bool good = true;
	FSDP_EACH(i, pass->part_count, part, &pass->parts[i]) {
		struct fsdp_pass_file *file = part->file;
		if (part->error != NULL && file->error == NULL) {
			file->error = part->error;
			part->error = NULL;
		}
		if (file->error == NULL && part->cut)
			good = good && join_segment(part, &crc);
		for (size_t k = 0; k < part->bad_count; k++) {
			if (good && keep_bad(file, &part->bad[k]))
				part->bad[k].error = NULL;
			else
				good = false;
		}
		if (file->error == NULL) {
			FSDP_EACH(j, part->partial_count, partial, &part->partials[j]) {
				struct fsdp_pass_result *result =
					&part->file->results[partial->view];
				fsdp_trait_join(&result->trait, &partial->result.trait);
				fsdp_trait_join(&result->sample, &partial->result.sample);
				fsdp_moments_join(
					&result->moments, &partial->result.moments);
			}
		}
	}
	return good;
}

bool fsdp_pass_run(struct fsdp_pass_file *files, size_t count,
	struct fsdp_pass_options *options, struct fsdp_error **ret_error)
{
	struct pass_run pass = { .options = options };
	bool good = true;
	pass.done = options->done;
	for (size_t i = 0; i < count && good; i++)
		good = plan_file(&pass, &files[i]);
	if (good) {
		fsdp_pool_run(options->jobs, pass.task_count, run_task, &pass);
		good = join_parts(&pass);
	}
	options->done = pass.done;
	FSDP_EACH(i, pass.part_count, part, &pass.parts[i]) {
		for (size_t k = 0; k < part->bad_count; k++)
			fsdp_error_free(part->bad[k].error);
		fsdp_error_free(part->error);
		free(part->bad);
		free(part->partials);
	}
	for (size_t i = 0; i < FSDP_COUNT(pass.slots); i++)
		free(pass.slots[i].buffer);
	free(pass.parts);
	free(pass.tasks);
	return good || fsdp_fail_memory(ret_error);
}

void fsdp_pass_file_done(struct fsdp_pass_file *file)
{
	for (size_t i = 0; i < file->bad_count; i++)
		fsdp_error_free(file->bad[i].error);
	free(file->bad);
	fsdp_error_free(file->error);
	file->bad = NULL;
	file->bad_count = 0;
	file->error = NULL;
}
