/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the layers of a stream together: descriptor, decompressor, a thread that reads
 * ahead.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "store/ahead.h"
#include "store/archive.h"
#include "store/dir.h"
#include "store/inflate.h"
#include "store/stream.h"

enum { HEAD = 512, PART = 256 << 10 };

struct fsdp_stream {
	struct fsdp_stream_options options;
	struct fsdp_source file; /* of a pipe only the descriptor */
	bool is_file;
	uint64_t at;
	unsigned char head[HEAD]; /* looked at before it is handed out */
	size_t head_size, head_at;
	struct fsdp_budget budget; /* of what is unpacked */
	struct fsdp_gunzip *gunzip;
	struct fsdp_unpack *unpack;
	struct fsdp_ahead *ahead;
	unsigned char peeked[FSDP_STREAM_PEEK]; /* handed out once more */
	size_t peeked_size, peeked_at;
};

static bool is_stopped(const struct fsdp_stream *stream)
{
	return stream->options.stop != NULL &&
	       __atomic_load_n(stream->options.stop, __ATOMIC_RELAXED) != 0;
}

static bool read_file(struct fsdp_stream *stream, void *buffer, size_t size,
	size_t *ret_size, struct fsdp_error **ret_error)
{
	size_t part = (size_t)fsdp_min(size, stream->file.size - stream->at);
	*ret_size = part;
	return fsdp_source_read(&stream->file, stream->at, buffer, part, ret_error);
}

static bool read_pipe(struct fsdp_stream *stream, void *buffer, size_t size,
	size_t *ret_size, struct fsdp_error **ret_error)
{
	*ret_size = 0;
	for (;;) {
		ssize_t got = read(stream->file.fd, buffer, size);
		if (got >= 0) {
			*ret_size = (size_t)got;
			return true;
		}
		if (errno != EINTR)
			return fsdp_fail_errno(
				ret_error, errno, stream->at, "cannot read");
		if (is_stopped(stream))
			return true;
	}
}

static bool read_raw(struct fsdp_stream *stream, void *buffer, size_t size,
	size_t *ret_size, struct fsdp_error **ret_error)
{
	if (!(stream->is_file ? read_file : read_pipe)(
		    stream, buffer, size, ret_size, ret_error))
		return false;
	stream->at += *ret_size;
	if (!stream->is_file)
		fsdp_budget_give(&stream->budget, *ret_size);
	if (stream->options.read != NULL)
		__atomic_fetch_add(stream->options.read, *ret_size, __ATOMIC_RELAXED);
	return true;
}

/* What is stored: the head first, then what follows it. */
static bool refill_raw(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_stream *stream = context;
	if (is_stopped(stream)) {
		*ret_size = 0;
		return true;
	}
	if (stream->head_at < stream->head_size) {
		*ret_size = (size_t)fsdp_min(size, stream->head_size - stream->head_at);
		memcpy(buffer, stream->head + stream->head_at, *ret_size);
		stream->head_at += *ret_size;
		return true;
	}
	return read_raw(
		stream, buffer, (size_t)fsdp_min(size, PART), ret_size, ret_error);
}

static bool take_head(struct fsdp_stream *stream, struct fsdp_error **ret_error)
{
	size_t part = 1;
	while (part != 0 && stream->head_size < HEAD) {
		if (!read_raw(stream, stream->head + stream->head_size,
			    HEAD - stream->head_size, &part, ret_error))
			return false;
		stream->head_size += part;
	}
	return true;
}

static void take_apart(struct fsdp_stream *stream)
{
	fsdp_ahead_free(stream->ahead);
	fsdp_gunzip_free(stream->gunzip);
	fsdp_unpack_free(stream->unpack);
	stream->ahead = NULL;
	stream->gunzip = NULL;
	stream->unpack = NULL;
}

/* What comes out counts before it is handed on. */
static bool refill_unpacked(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_stream *stream = context;
	bool good = stream->gunzip != NULL ? fsdp_gunzip_refill(stream->gunzip, buffer,
						     size, ret_size, ret_error)
					   : fsdp_unpack_refill(stream->unpack, buffer,
						     size, ret_size, ret_error);
	return good && fsdp_budget_unpack(&stream->budget, *ret_size, ret_error);
}

/* Of a file all that is stored is known; a pipe gives as it is read. */
static void begin_budget(struct fsdp_stream *stream)
{
	stream->budget = (struct fsdp_budget){ .ceiling = UINT64_MAX };
	if (stream->options.limits != NULL)
		fsdp_budget_init(&stream->budget, stream->options.limits);
	fsdp_budget_give(
		&stream->budget, stream->is_file ? stream->file.size : stream->head_size);
}

static bool put_together(struct fsdp_stream *stream, struct fsdp_error **ret_error)
{
	struct fsdp_span head = fsdp_span(stream->head, stream->head_size);
	begin_budget(stream);
	if (fsdp_gunzip_is(head)) {
		if (!fsdp_gunzip_new(refill_raw, stream, &stream->gunzip, ret_error))
			return false;
	} else if (fsdp_archive_is_compressed(head)) {
		if (!fsdp_unpack_new(head, refill_raw, stream, &stream->budget,
			    &stream->unpack, ret_error))
			return false;
	} else {
		return true;
	}
	return !stream->options.ahead ||
	       fsdp_ahead_new(refill_unpacked, stream, &stream->ahead, ret_error);
}

static bool open_descriptor(
	struct fsdp_stream *stream, const char *path, struct fsdp_error **ret_error)
{
	struct stat status;
	if (strcmp(path, "-") != 0) {
		stream->is_file = fsdp_file_open(path, &stream->file, ret_error);
		return stream->is_file;
	}
	if (fstat(STDIN_FILENO, &status) != 0)
		return fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot look at");
	if (S_ISDIR(status.st_mode))
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			"a folder is not a recording");
	stream->file.fd = STDIN_FILENO;
	return true;
}

bool fsdp_stream_open(const char *path, const struct fsdp_stream_options *options,
	struct fsdp_stream **ret_stream, struct fsdp_error **ret_error)
{
	struct fsdp_stream *stream = malloc(sizeof *stream);
	if (stream == NULL)
		return fsdp_fail_memory(ret_error);
	*stream = (struct fsdp_stream){ .options = *options, .file.fd = -1 };
	if (!open_descriptor(stream, path, ret_error) || !take_head(stream, ret_error) ||
		!put_together(stream, ret_error)) {
		fsdp_error_add_path(ret_error, path);
		fsdp_stream_close(stream);
		return false;
	}
	*ret_stream = stream;
	return true;
}

static bool refill(struct fsdp_stream *stream, void *buffer, size_t size,
	size_t *ret_size, struct fsdp_error **ret_error)
{
	if (stream->ahead != NULL)
		return fsdp_ahead_refill(
			stream->ahead, buffer, size, ret_size, ret_error);
	if (stream->gunzip != NULL || stream->unpack != NULL)
		return refill_unpacked(stream, buffer, size, ret_size, ret_error);
	return refill_raw(stream, buffer, size, ret_size, ret_error);
}

bool fsdp_stream_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_stream *stream = context;
	if (stream->peeked_at == stream->peeked_size)
		return refill(stream, buffer, size, ret_size, ret_error);
	*ret_size = (size_t)fsdp_min(size, stream->peeked_size - stream->peeked_at);
	memcpy(buffer, stream->peeked + stream->peeked_at, *ret_size);
	stream->peeked_at += *ret_size;
	return true;
}

bool fsdp_stream_peek(struct fsdp_stream *stream, struct fsdp_span *ret_head,
	struct fsdp_error **ret_error)
{
	size_t part = 1;
	while (part != 0 && stream->peeked_size < FSDP_STREAM_PEEK) {
		if (!refill(stream, stream->peeked + stream->peeked_size,
			    FSDP_STREAM_PEEK - stream->peeked_size, &part, ret_error))
			return false;
		stream->peeked_size += part;
	}
	*ret_head = fsdp_span(stream->peeked, stream->peeked_size);
	return true;
}

bool fsdp_stream_is_cut(const struct fsdp_stream *stream)
{
	return (stream->gunzip != NULL && fsdp_gunzip_is_cut(stream->gunzip)) ||
	       (stream->unpack != NULL && fsdp_unpack_is_cut(stream->unpack));
}

bool fsdp_stream_can_rewind(const struct fsdp_stream *stream)
{
	return stream->is_file;
}

bool fsdp_stream_rewind(struct fsdp_stream *stream, struct fsdp_error **ret_error)
{
	if (!stream->is_file)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"a pipe cannot be read twice");
	take_apart(stream);
	stream->at = stream->head_size;
	stream->head_at = 0;
	stream->peeked_size = stream->peeked_at = 0;
	return put_together(stream, ret_error);
}

const struct fsdp_source *fsdp_stream_plain(const struct fsdp_stream *stream)
{
	return stream->is_file && stream->gunzip == NULL && stream->unpack == NULL
		       ? &stream->file
		       : NULL;
}

uint64_t fsdp_stream_size(const struct fsdp_stream *stream)
{
	return stream->file.size;
}

void fsdp_stream_close(struct fsdp_stream *stream)
{
	if (stream == NULL)
		return;
	take_apart(stream);
	if (stream->is_file)
		close(stream->file.fd);
	free(stream);
}
