/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strided elements: the arithmetic of a view, bytes of its storage with few reads, and
 * the order in which they are moved best.
 */
#include <stdlib.h>

#include "base/num.h"
#include "elements/elements-private.h"

void fsdp_view_set_contiguous(struct fsdp_view *view)
{
	uint64_t stride = 1; /* may wrap without elements: it is never followed */
	for (size_t i = view->dims; i-- > 0;) {
		view->strides[i] = (int64_t)stride;
		stride *= view->shape[i] > 0 ? (uint64_t)view->shape[i] : 1;
	}
}

bool fsdp_view_is_contiguous(const struct fsdp_view *view)
{
	uint64_t stride = 1; /* may wrap: such a view has no bytes to be read */
	for (size_t i = 0; i < view->dims; i++)
		if (view->shape[i] == 0)
			return true;
	for (size_t i = view->dims; i-- > 0;) {
		if (view->shape[i] != 1 && (uint64_t)view->strides[i] != stride)
			return false;
		stride *= (uint64_t)view->shape[i];
	}
	return true;
}

bool fsdp_view_bytes(const struct fsdp_view *view, uint64_t *ret_begin, uint64_t *ret_end)
{
	uint64_t end = view->storage_offset;
	*ret_begin = *ret_end = 0;
	for (size_t i = 0; i < view->dims; i++)
		if (view->shape[i] == 0)
			return true;
	for (size_t i = 0; i < view->dims; i++) {
		uint64_t reach;
		if (!fsdp_mul((uint64_t)view->shape[i] - 1, (uint64_t)view->strides[i],
			    &reach) ||
			!fsdp_add(end, reach, &end))
			return false;
	}
	uint64_t begin;
	if (!fsdp_add(end, 1, &end) ||
		!fsdp_dtype_bytes(view->dtype, view->storage_offset, &begin) ||
		!fsdp_dtype_bytes(view->dtype, end, ret_end) ||
		*ret_end > view->storage_bytes)
		return false;
	*ret_begin = begin;
	return true;
}

/*
 * Bytes of a storage with few reads; what is asked for in order is inflated once.
 */

/* Bytes that stay before a position in a window of inflated bytes: the next request may
 * start a little before it. */
enum { BEHIND = 64 << 10 };

bool fsdp_fetch_init(struct fsdp_fetch *fetch, struct fsdp_error **ret_error)
{
	fetch->file = fetch->piece = fetch->kept_file = FSDP_NONE;
	fetch->source_file = FSDP_NONE;
	fetch->window = malloc(FSDP_FETCH_WINDOW);
	return fetch->window != NULL || fsdp_fail_memory(ret_error);
}

static void close_stream(struct fsdp_fetch_stream *stream)
{
	fsdp_inflate_free(stream->inflate);
	*stream = (struct fsdp_fetch_stream){ 0 };
}

void fsdp_fetch_done(struct fsdp_fetch *fetch)
{
	for (size_t i = 0; i < FSDP_FETCH_STREAMS; i++)
		close_stream(&fetch->streams[i]);
	free(fetch->window);
	free(fetch->kept);
}

static void forget_window(struct fsdp_fetch *fetch)
{
	fetch->file = fetch->piece = FSDP_NONE;
	fetch->begin = fetch->end = 0;
}

/* ---- inflated records ---- */

static bool start(struct fsdp_fetch *fetch, struct fsdp_error **ret_error)
{
	const struct fsdp_fetch_record *record = &fetch->record;
	struct fsdp_fetch_stream *stream = fetch->stream;
	close_stream(stream);
	stream->piece = record->piece;
	stream->used = fetch->turns;
	return fsdp_inflate_new(&fetch->source, record->offset, record->stored_size,
		record->size, &stream->inflate, ret_error);
}

/* The piece's own stream, or the place of the one that waited longest. */
static bool find_stream(struct fsdp_fetch *fetch, struct fsdp_error **ret_error)
{
	struct fsdp_fetch_stream *oldest = &fetch->streams[0];
	FSDP_EACH(i, FSDP_FETCH_STREAMS, stream, &fetch->streams[i]) {
		if (stream->inflate != NULL && stream->piece == fetch->record.piece) {
			stream->used = fetch->turns;
			fetch->stream = stream;
			fsdp_inflate_move(stream->inflate, &fetch->source);
			return true;
		}
		if (stream->used < oldest->used)
			oldest = stream;
	}
	fetch->stream = oldest;
	return start(fetch, ret_error);
}

static bool inflate_next(struct fsdp_fetch *fetch, unsigned char *to, size_t size,
	struct fsdp_error **ret_error)
{
	if (size > fetch->inflate_ceiling - fetch->inflated)
		return fsdp_fail_limit(
			ret_error, FSDP_LIMIT_INFLATE_BYTES, fetch->inflate_ceiling);
	fetch->inflated += size;
	fetch->stream->at += size;
	return fsdp_inflate_read(fetch->stream->inflate, to, size, ret_error);
}

/* Moves the window so that it begins at `from`, never after the stream; bytes that are
 * there already stay. */
static bool slide(struct fsdp_fetch *fetch, uint64_t from, struct fsdp_error **ret_error)
{
	if (from < fetch->end) {
		size_t stays = (size_t)(fetch->end - from);
		memmove(fetch->window, fetch->window + (from - fetch->begin), stays);
		fetch->begin = from;
		return true;
	}
	while (fetch->stream->at < from) {
		size_t part =
			(size_t)fsdp_min(from - fetch->stream->at, FSDP_FETCH_WINDOW);
		if (!inflate_next(fetch, fetch->window, part, ret_error))
			return false;
	}
	fetch->begin = fetch->end = from;
	return true;
}

static bool fill_inflated(struct fsdp_fetch *fetch, uint64_t at, uint64_t end,
	uint64_t until, struct fsdp_error **ret_error)
{
	struct fsdp_fetch_stream *stream = fetch->stream;
	bool follows = fetch->piece == fetch->record.piece && fetch->end == stream->at;
	if (!follows) {
		forget_window(fetch);
		if (at < stream->at && !start(fetch, ret_error))
			return false;
		fetch->begin = fetch->end = stream->at;
	} else if (at < fetch->begin) {
		forget_window(fetch);
		if (!start(fetch, ret_error))
			return false;
	}
	fetch->piece = FSDP_NONE; /* until it is whole again */
	uint64_t keep_from = at > BEHIND ? at - BEHIND : 0;
	if (keep_from > fetch->begin && !slide(fetch, keep_from, ret_error))
		return false;
	uint64_t most = fsdp_min(until, fetch->begin + FSDP_FETCH_WINDOW);
	uint64_t fill_to = end > most ? end : most;
	size_t used = (size_t)(fetch->end - fetch->begin);
	size_t size = (size_t)(fill_to - fetch->end);
	if (!inflate_next(fetch, fetch->window + used, size, ret_error))
		return false;
	fetch->end = fill_to;
	fetch->piece = fetch->record.piece;
	return true;
}

static bool keep_record(struct fsdp_fetch *fetch, struct fsdp_error **ret_error)
{
	const struct fsdp_fetch_record *record = &fetch->record;
	fetch->kept_file = FSDP_NONE;
	if (record->size > fetch->kept_size) {
		free(fetch->kept);
		fetch->kept_size = 0;
		fetch->kept = malloc((size_t)record->size);
		if (fetch->kept == NULL)
			return fsdp_fail_memory(ret_error);
		fetch->kept_size = record->size;
	}
	if (!find_stream(fetch, ret_error) ||
		(fetch->stream->at != 0 && !start(fetch, ret_error)) ||
		!inflate_next(fetch, fetch->kept, (size_t)record->size, ret_error))
		return false;
	close_stream(fetch->stream);
	fetch->kept_file = record->file;
	fetch->kept_offset = record->offset;
	return true;
}

/* ---- stored records ---- */

static bool fill_stored(struct fsdp_fetch *fetch, uint64_t at, uint64_t end,
	uint64_t until, struct fsdp_error **ret_error)
{
	uint64_t most = fsdp_min(until, at + FSDP_FETCH_WINDOW);
	uint64_t fill_to = end > most ? end : most;
	forget_window(fetch);
	if (!fsdp_source_read(
		    &fetch->source, at, fetch->window, (size_t)(fill_to - at), ret_error))
		return false;
	fetch->file = fetch->record.file;
	fetch->begin = at;
	fetch->end = fill_to;
	return true;
}

/* ---- both ---- */

void fsdp_fetch_forget_source(struct fsdp_fetch *fetch)
{
	fetch->source_file = FSDP_NONE;
}

bool fsdp_fetch_turn(struct fsdp_fetch *fetch, const struct fsdp_fetch_record *record,
	struct fsdp_error **ret_error)
{
	fetch->record = *record;
	fetch->turns++;
	if (fetch->source_file != record->file) {
		fetch->source_file = FSDP_NONE;
		if (!fetch->source_of(
			    fetch->context, record->file, &fetch->source, ret_error))
			return false;
		fetch->source_file = record->file;
	}
	if (!record->deflated)
		return true;
	if (record->keep && record->size <= FSDP_FETCH_KEPT)
		return (fetch->kept_file == fetch->record.file &&
			       fetch->kept_offset == fetch->record.offset) ||
		       keep_record(fetch, ret_error);
	fetch->record.keep = false;
	return find_stream(fetch, ret_error);
}

static const unsigned char *in_window(
	const struct fsdp_fetch *fetch, uint64_t at, uint64_t end)
{
	bool mine = fetch->record.deflated ? fetch->piece == fetch->record.piece
					   : fetch->file == fetch->record.file;
	if (!mine || at < fetch->begin || end > fetch->end)
		return NULL;
	return fetch->window + (at - fetch->begin);
}

const unsigned char *fsdp_fetch(struct fsdp_fetch *fetch, uint64_t at, size_t size,
	uint64_t until, struct fsdp_error **ret_error)
{
	const struct fsdp_fetch_record *record = &fetch->record;
	if (record->deflated && record->keep)
		return fetch->kept + at;
	if (!record->deflated) {
		at += record->offset;
		until += record->offset;
	}
	const unsigned char *bytes = in_window(fetch, at, at + size);
	if (bytes != NULL)
		return bytes;
	bool filled = record->deflated
			      ? fill_inflated(fetch, at, at + size, until, ret_error)
			      : fill_stored(fetch, at, at + size, until, ret_error);
	return filled ? in_window(fetch, at, at + size) : NULL;
}

bool fsdp_fetch_into(struct fsdp_fetch *fetch, uint64_t at, uint64_t size,
	unsigned char *to, uint64_t until, struct fsdp_error **ret_error)
{
	const struct fsdp_fetch_record *record = &fetch->record;
	if (until < at + size)
		until = at + size;
	if (!record->deflated && size > FSDP_FETCH_PART / 8)
		return fsdp_source_read(
			&fetch->source, record->offset + at, to, (size_t)size, ret_error);
	while (size != 0) {
		size_t part = (size_t)fsdp_min(size, FSDP_FETCH_PART);
		const unsigned char *bytes =
			fsdp_fetch(fetch, at, part, until, ret_error);
		if (bytes == NULL)
			return false;
		memcpy(to, bytes, part);
		at += part;
		to += part;
		size -= part;
	}
	return true;
}

/*
 * The order in which strided elements are moved best. Reads through strides.c alone.
 */

/* A loop of fewer turns is not worth being the innermost. */
enum { SHORT_LOOP = 16 };

/* ---- making ---- */

void fsdp_nest_init(struct fsdp_nest *nest, uint64_t from, uint64_t to, size_t width)
{
	nest->from = from;
	nest->to = to;
	nest->row = width;
	nest->loop_count = 0;
}

void fsdp_nest_add(struct fsdp_nest *nest, uint64_t count, uint64_t from, uint64_t to)
{
	if (count > 1)
		nest->loops[nest->loop_count++] =
			(struct fsdp_nest_loop){ count, from, to };
}

static void remove_loop(struct fsdp_nest *nest, size_t index)
{
	nest->loop_count--;
	memmove(&nest->loops[index], &nest->loops[index + 1],
		(nest->loop_count - index) * sizeof *nest->loops);
}

static bool runs_before(const struct fsdp_nest_loop *a, const struct fsdp_nest_loop *b)
{
	return a->from != b->from ? a->from > b->from : a->to > b->to;
}

static void sort(struct fsdp_nest_loop *loops, size_t count,
	bool (*before)(const struct fsdp_nest_loop *, const struct fsdp_nest_loop *))
{
	for (size_t i = 1; i < count; i++) {
		struct fsdp_nest_loop loop = loops[i];
		size_t at = i;
		for (; at > 0 && before(&loop, &loops[at - 1]); at--)
			loops[at] = loops[at - 1];
		loops[at] = loop;
	}
}

void fsdp_nest_finish(struct fsdp_nest *nest)
{
	/* Loops that go on where the row ends, in both, make it longer. */
	for (size_t i = 0; i < nest->loop_count;) {
		const struct fsdp_nest_loop *loop = &nest->loops[i];
		if (loop->from != nest->row || loop->to != nest->row) {
			i++;
			continue;
		}
		nest->row *= (size_t)loop->count;
		remove_loop(nest, i);
		i = 0;
	}
	sort(nest->loops, nest->loop_count, runs_before);
	/* Two loops that are one in both. */
	for (size_t i = 0; i + 1 < nest->loop_count;) {
		struct fsdp_nest_loop *outer = &nest->loops[i], *inner = outer + 1;
		uint64_t from, to;
		if (!fsdp_mul(inner->from, inner->count, &from) || outer->from != from ||
			!fsdp_mul(inner->to, inner->count, &to) || outer->to != to) {
			i++;
			continue;
		}
		inner->count *= outer->count;
		remove_loop(nest, i);
		i = i > 0 ? i - 1 : 0;
	}
}

/* ---- reach ---- */

/* Whether the gap between two turns is read rather than skipped. */
static bool is_near(const struct fsdp_nest_loop *loop, uint64_t span)
{
	return loop->from <= span || loop->from - span <= FSDP_FETCH_NEAR;
}

static uint64_t widened(const struct fsdp_nest_loop *loop, uint64_t span)
{
	return (loop->count - 1) * loop->from + span;
}

/* The first loop from which on gaps are short, and the bytes they span. */
static size_t dense_from(const struct fsdp_nest *nest, bool all, uint64_t *ret_span)
{
	size_t first = nest->loop_count;
	*ret_span = nest->row;
	while (first > 0 && (all || is_near(&nest->loops[first - 1], *ret_span)))
		*ret_span = widened(&nest->loops[--first], *ret_span);
	return first;
}

uint64_t fsdp_nest_end(const struct fsdp_nest *nest, bool *ret_dense)
{
	uint64_t span;
	*ret_dense = dense_from(nest, false, &span) == 0;
	dense_from(nest, true, &span);
	return nest->from + span;
}

/* ---- elements of a window ---- */

/* Inlined with a constant width. */
static inline void move_each(unsigned char *memory, uint64_t to,
	const unsigned char *bytes, uint64_t from, uint64_t count, size_t width)
{
	for (uint64_t i = 0; i < count; i++) {
		memcpy(memory, bytes, width);
		memory += to;
		bytes += from;
	}
}

static void move_rows(unsigned char *memory, uint64_t to, const unsigned char *bytes,
	uint64_t from, uint64_t count, size_t row)
{
	switch (row) {
	case 1:
		move_each(memory, to, bytes, from, count, 1);
		break;
	case 2:
		move_each(memory, to, bytes, from, count, 2);
		break;
	case 4:
		move_each(memory, to, bytes, from, count, 4);
		break;
	case 8:
		move_each(memory, to, bytes, from, count, 8);
		break;
	case 16:
		move_each(memory, to, bytes, from, count, 16);
		break;
	default:
		move_each(memory, to, bytes, from, count, row);
	}
}

void fsdp_odometer_init(
	struct fsdp_odometer *odometer, const struct fsdp_nest_loop *loops, size_t count)
{
	odometer->loops = loops;
	odometer->count = count;
	odometer->from = odometer->to = 0;
	memset(odometer->turns, 0, count * sizeof *odometer->turns);
}

bool fsdp_odometer_next(struct fsdp_odometer *odometer)
{
	for (size_t i = odometer->count; i-- > 0;) {
		const struct fsdp_nest_loop *loop = &odometer->loops[i];
		if (++odometer->turns[i] < loop->count) {
			odometer->from += loop->from;
			odometer->to += loop->to;
			return true;
		}
		odometer->turns[i] = 0;
		odometer->from -= (loop->count - 1) * loop->from;
		odometer->to -= (loop->count - 1) * loop->to;
	}
	return false;
}

static bool is_before(const struct fsdp_nest_loop *a, const struct fsdp_nest_loop *b)
{
	return a->to > b->to;
}

/* All loops over bytes that are here; `loops` is in order for memory. */
static void move_block(unsigned char *memory, const unsigned char *bytes,
	const struct fsdp_nest_loop *loops, size_t count, size_t row)
{
	if (count == 0) {
		memcpy(memory, bytes, row);
		return;
	}
	const struct fsdp_nest_loop *inner = &loops[count - 1];
	struct fsdp_odometer odometer;
	fsdp_odometer_init(&odometer, loops, count - 1);
	do
		move_rows(memory + odometer.to, inner->to, bytes + odometer.from,
			inner->from, inner->count, row);
	while (fsdp_odometer_next(&odometer));
}

/* ---- running ---- */

/*
 * How a nest is cut: loops[0] to loops[split - 1] run outside; of loop `split`, if there
 * is one, `portion` turns at a time together with all loops within make a block that
 * fits a window.
 */
struct cut {
	size_t split;
	uint64_t portion;
	uint64_t span; /* of the loops within */
	bool whole;    /* a block is all loops: nothing is left to cut */
};

static struct cut cut_nest(const struct fsdp_nest *nest, bool all)
{
	struct cut cut = { .split = nest->loop_count, .span = nest->row };
	while (cut.split > 0) {
		const struct fsdp_nest_loop *loop = &nest->loops[cut.split - 1];
		if (!all && !is_near(loop, cut.span))
			break;
		uint64_t span = widened(loop, cut.span);
		if (span > FSDP_FETCH_PART)
			break;
		cut.span = span;
		cut.split--;
	}
	if (cut.split == 0) {
		cut.whole = true;
		return cut;
	}
	const struct fsdp_nest_loop *loop = &nest->loops[--cut.split];
	bool near = all || is_near(loop, cut.span);
	cut.portion = 1;
	if (near && cut.span <= FSDP_FETCH_PART)
		cut.portion += (FSDP_FETCH_PART - cut.span) / loop->from;
	return cut;
}

struct runner {
	const struct fsdp_nest *nest;
	struct fsdp_fetch *fetch;
	unsigned char *memory;
	struct cut cut;
	struct fsdp_nest_loop block[FSDP_DIMS_MAX]; /* in order for memory */
	size_t block_count;
	struct fsdp_error **error;
};

/* The loops of a block, `turns` of the one that is cut. */
static void make_block(struct runner *runner, uint64_t turns)
{
	const struct fsdp_nest *nest = runner->nest;
	size_t first = runner->cut.split;
	runner->block_count = 0;
	for (size_t i = first; i < nest->loop_count; i++) {
		struct fsdp_nest_loop loop = nest->loops[i];
		if (i == first && !runner->cut.whole)
			loop.count = turns;
		if (loop.count > 1)
			runner->block[runner->block_count++] = loop;
	}
	/* The innermost loop is the one that writes forwards, or a long one. */
	struct fsdp_nest_loop *loops = runner->block;
	size_t count = runner->block_count;
	sort(loops, count, is_before);
	if (count < 2 || loops[count - 1].count >= SHORT_LOOP)
		return;
	size_t longest = count - 1;
	for (size_t i = 0; i < count; i++)
		if (loops[i].count > loops[longest].count)
			longest = i;
	struct fsdp_nest_loop last = loops[longest];
	memmove(&loops[longest], &loops[longest + 1],
		(count - 1 - longest) * sizeof *loops);
	loops[count - 1] = last;
}

static bool run_block(
	struct runner *runner, uint64_t from, uint64_t to, uint64_t span, uint64_t until)
{
	/* Long rows that follow each other in the file. */
	if (runner->block_count == 1 && !runner->fetch->record.deflated &&
		runner->block[0].from == runner->nest->row &&
		runner->nest->row >= FSDP_FETCH_LONG)
		return fsdp_source_read_rows(&runner->fetch->source,
			runner->fetch->record.offset + from, runner->memory + to,
			runner->nest->row, (size_t)runner->block[0].to,
			(size_t)runner->block[0].count, runner->error);
	if (runner->block_count == 0)
		return fsdp_fetch_into(runner->fetch, from, span, runner->memory + to,
			until, runner->error);
	const unsigned char *bytes =
		fsdp_fetch(runner->fetch, from, (size_t)span, until, runner->error);
	if (bytes == NULL)
		return false;
	move_block(runner->memory + to, bytes, runner->block, runner->block_count,
		runner->nest->row);
	return true;
}

bool fsdp_nest_run(const struct fsdp_nest *nest, struct fsdp_fetch *fetch, uint64_t until,
	unsigned char *memory, struct fsdp_error **ret_error)
{
	bool all = fetch->record.deflated; /* whatever is skipped is inflated anyway */
	struct runner runner = {
		.nest = nest,
		.fetch = fetch,
		.memory = memory,
		.cut = cut_nest(nest, all),
		.error = ret_error,
	};
	if (runner.cut.whole) {
		make_block(&runner, 0);
		return run_block(&runner, nest->from, nest->to, runner.cut.span, until);
	}
	/* Reading ahead ends where a long gap begins. */
	uint64_t span;
	size_t dense = dense_from(nest, all, &span);
	struct fsdp_odometer odometer;
	fsdp_odometer_init(&odometer, nest->loops, runner.cut.split);
	uint64_t begin = 0;
	do {
		uint64_t from = nest->from + odometer.from;
		bool fresh = true;
		for (size_t i = dense; i < runner.cut.split; i++)
			fresh = fresh && odometer.turns[i] == 0;
		if (fresh)
			begin = from;
		/* The loop that is cut, portion by portion. */
		const struct fsdp_nest_loop *loop = &runner.nest->loops[runner.cut.split];
		uint64_t turns = runner.cut.portion;
		make_block(&runner, fsdp_min(turns, loop->count));
		for (uint64_t done = 0; done < loop->count; done += turns) {
			if (turns > loop->count - done) {
				turns = loop->count - done;
				make_block(&runner, turns);
			}
			if (!run_block(&runner, from + done * loop->from,
				    (nest->to + odometer.to) + done * loop->to,
				    (turns - 1) * loop->from + runner.cut.span,
				    dense == 0                  ? until
				    : dense <= runner.cut.split ? begin + span
								: 0))
				return false;
		}
	} while (fsdp_odometer_next(&odometer));
	return true;
}
