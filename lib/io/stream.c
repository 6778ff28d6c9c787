/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the layers of a stream together: descriptor, decompressor, a thread that reads
 * ahead.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "io/directory.h"
#include "io/source.h"

/*
 * Reads one step ahead: a thread fills a ring of blocks from another stream while the
 * caller uses them. The bytes are the same, and the error too, which follows the bytes
 * before it.
 */
struct fsdp_ahead;

/*
 * Reads ahead in a thread, through a ring of blocks.
 *
 * Each block is owned by one side: `filled` blocks from `first` on are the reader's, the
 * rest the thread's. Ownership changes under the lock, but bytes are copied outside of
 * it. A side that has to wait waits for several blocks: otherwise the faster side would
 * wake for each block, which costs the slower one more than the block.
 */

enum { BLOCKS = 8, BATCH = 4, BLOCK = 128 << 10 };

struct fsdp_ahead {
	fsdp_refill refill;
	void *context;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t sizes[BLOCKS];
	unsigned first, filled;
	size_t taken; /* of the first block */
	bool ended, stop;
	struct fsdp_error *error;
	unsigned char blocks[BLOCKS][BLOCK];
};

/* A block that neither side owns yet, or -1 when there is nothing more to do. */
static int wait_for_room(struct fsdp_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	if (ahead->filled == BLOCKS)
		while (ahead->filled > BLOCKS - BATCH && !ahead->stop)
			pthread_cond_wait(&ahead->changed, &ahead->lock);
	int block = ahead->stop ? -1 : (int)((ahead->first + ahead->filled) % BLOCKS);
	pthread_mutex_unlock(&ahead->lock);
	return block;
}

/* Small pieces are put together, so that the other side is not woken for each. */
static size_t fill(struct fsdp_ahead *ahead, unsigned char *block, bool *good)
{
	size_t size = 0, part = 1;
	while (size < BLOCK && part != 0) {
		part = 0;
		*good = ahead->refill(
			ahead->context, block + size, BLOCK - size, &part, &ahead->error);
		if (!*good)
			break;
		size += part;
	}
	return size;
}

static void *run(void *context)
{
	struct fsdp_ahead *ahead = context;
	bool good = true;
	for (int block; good && (block = wait_for_room(ahead)) >= 0;) {
		size_t size = fill(ahead, ahead->blocks[block], &good);
		pthread_mutex_lock(&ahead->lock);
		ahead->sizes[block] = size;
		if (size != 0)
			ahead->filled++;
		if (size < BLOCK)
			good = false;
		ahead->ended = !good;
		if (ahead->filled == BATCH || ahead->ended)
			pthread_cond_signal(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
	}
	return NULL;
}

/* A fsdp_refill; context is the struct fsdp_ahead. */
static bool ahead_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_ahead *ahead = context;
	/* Without a thread it goes as well, only not ahead. */
	if (!ahead->started)
		return ahead->refill(ahead->context, buffer, size, ret_size, ret_error);
	*ret_size = 0;
	/* False at the end. */
	pthread_mutex_lock(&ahead->lock);
	if (ahead->filled == 0)
		while (ahead->filled < BATCH && !ahead->ended)
			pthread_cond_wait(&ahead->changed, &ahead->lock);
	bool some = ahead->filled != 0;
	pthread_mutex_unlock(&ahead->lock);
	if (!some) {
		if (ahead->error == NULL)
			return true;
		if (ret_error != NULL && *ret_error == NULL) {
			*ret_error = ahead->error;
			ahead->error = NULL;
		}
		return false;
	}
	size_t there = ahead->sizes[ahead->first] - ahead->taken;
	*ret_size = (size_t)fsdp_min(size, there);
	memcpy(buffer, ahead->blocks[ahead->first] + ahead->taken, *ret_size);
	ahead->taken += *ret_size;
	if (*ret_size == there) {
		pthread_mutex_lock(&ahead->lock);
		ahead->first = (ahead->first + 1) % BLOCKS;
		ahead->filled--;
		ahead->taken = 0;
		if (ahead->filled == BLOCKS - BATCH)
			pthread_cond_signal(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
	}
	return true;
}

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

/* Stored bytes: the head first, then the rest. */
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

static bool read_head(struct fsdp_stream *stream, struct fsdp_error **ret_error)
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

/* Unpacked bytes are counted before they are handed on. */
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

static bool open_layers(struct fsdp_stream *stream, struct fsdp_error **ret_error)
{
	struct fsdp_span head = fsdp_span(stream->head, stream->head_size);
	/* Of a file all that is stored is known; a pipe gives as it is read. */
	stream->budget = (struct fsdp_budget){ .ceiling = UINT64_MAX };
	if (stream->options.limits != NULL)
		fsdp_budget_init(&stream->budget, stream->options.limits);
	fsdp_budget_give(
		&stream->budget, stream->is_file ? stream->file.size : stream->head_size);
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
	if (!stream->options.ahead)
		return true;
	/* The stream belongs to the thread until free. */
	struct fsdp_ahead *ahead = malloc(sizeof *ahead);
	if (ahead == NULL)
		return fsdp_fail_memory(ret_error);
	ahead->refill = refill_unpacked;
	ahead->context = stream;
	ahead->first = ahead->filled = 0;
	ahead->taken = 0;
	ahead->ended = ahead->stop = false;
	ahead->error = NULL;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	ahead->started = pthread_create(&ahead->thread, NULL, run, ahead) == 0;
	stream->ahead = ahead;
	return true;
}

static bool open_descriptor(
	struct fsdp_stream *stream, const char *path, struct fsdp_error **ret_error)
{
	struct stat status;
	if (strcmp(path, "-") != 0) {
		stream->is_file = fsdp_file_open(
			stream->options.remote, path, &stream->file, ret_error);
		return stream->is_file;
	}
	if (fstat(STDIN_FILENO, &status) != 0)
		return fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN, "cannot look at");
	if (S_ISDIR(status.st_mode))
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			"a directory is not a recording");
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
	if (!open_descriptor(stream, path, ret_error) || !read_head(stream, ret_error) ||
		!open_layers(stream, ret_error)) {
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
		return ahead_refill(stream->ahead, buffer, size, ret_size, ret_error);
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
	/* Waits until the thread is done with the block at hand. NULL is fine. */
	if (stream->ahead != NULL) {
		if (stream->ahead->started) {
			pthread_mutex_lock(&stream->ahead->lock);
			stream->ahead->stop = true;
			pthread_cond_signal(&stream->ahead->changed);
			pthread_mutex_unlock(&stream->ahead->lock);
			pthread_join(stream->ahead->thread, NULL);
		}
		pthread_cond_destroy(&stream->ahead->changed);
		pthread_mutex_destroy(&stream->ahead->lock);
		fsdp_error_free(stream->ahead->error);
		free(stream->ahead);
	}
	fsdp_gunzip_free(stream->gunzip);
	fsdp_unpack_free(stream->unpack);
	stream->ahead = NULL;
	stream->gunzip = NULL;
	stream->unpack = NULL;
	if (stream->is_file)
		close(stream->file.fd);
	free(stream);
}
