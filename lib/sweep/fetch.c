/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a storage with few reads; what is asked for in order is inflated once.
 */
#include <stdlib.h>

#include "base/limits.h"
#include "base/num.h"
#include "sweep/fetch.h"

/* What stays in front of a place in a window of inflated bytes: the next question may
 * be for a little before it. */
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
	for (size_t i = 0; i < FSDP_FETCH_STREAMS; i++) {
		struct fsdp_fetch_stream *stream = &fetch->streams[i];
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

/* Moves the window so that it begins at `from`, nowhere behind the stream; what is there
 * already stays. */
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

static bool is_kept(const struct fsdp_fetch *fetch)
{
	return fetch->kept_file == fetch->record.file &&
	       fetch->kept_offset == fetch->record.offset;
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
		return is_kept(fetch) || keep_record(fetch, ret_error);
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
