/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_SOURCE_H
#define FSDP_IO_SOURCE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

/*
 * A source answers: which bytes are at this offset? A file, a remote one, memory, or a
 * part of another source. Short reads and EINTR end in here: a read gives all bytes or
 * fails with the offset. Inputs are never mapped. A source is a small value; it owns
 * nothing but the descriptor that its `file` says it owns.
 */
struct fsdp_source {
	int fd;                    /* -1: memory */
	const unsigned char *data; /* memory, borrowed; NULL: none, or not in one piece */
	uint64_t base;             /* where this part begins in the file or memory */
	uint64_t size;
	const unsigned char *const *pages; /* memory by pages, borrowed */
	struct fsdp_remote_file
		*remote; /* of another process (io/directory.h); NULL: none */
	bool *failed; /* set when bytes cannot be read, by callers who ask for no error; NULL */
};

/* Memory is borrowed: the caller keeps it. */
static inline struct fsdp_source fsdp_source_memory(struct fsdp_span bytes)
{
	return (struct fsdp_source){ .fd = -1, .data = bytes.data, .size = bytes.size };
}

/* Whether only its size is known: a file of a list. */
static inline bool fsdp_source_is_listed(const struct fsdp_source *source)
{
	return source->fd < 0 && source->data == NULL && source->pages == NULL &&
	       source->remote == NULL && source->size != 0;
}

/* Of a file that is open; size comes from fstat. Fails if it is not a regular file. */
bool fsdp_source_file(
	int fd, struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/* The bytes in memory, if all are contiguous there; NULL: they must be read. The source
 * has at least `offset` bytes. */
const unsigned char *fsdp_source_bytes(const struct fsdp_source *source, uint64_t offset);

/* A part of a source; fails (damaged, offset) if it is not inside. */
bool fsdp_source_slice(const struct fsdp_source *source, uint64_t offset, uint64_t length,
	struct fsdp_source *ret_slice, struct fsdp_error **ret_error);

/* Exactly `size` bytes or failure. Offsets in errors count from this source's start. */
bool fsdp_source_read(const struct fsdp_source *source, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error);

/* A hint: these bytes will be read, after what was expected before. Of a local file it
 * does nothing. */
void fsdp_source_expect(const struct fsdp_source *source, uint64_t offset, uint64_t size);

/* The first run at or after `at` that was never written and reads as zero. False: none,
 * or the file system does not report holes. */
bool fsdp_source_find_hole(const struct fsdp_source *source, uint64_t at,
	uint64_t *ret_begin, uint64_t *ret_end);

/* Whether it begins as a safetensors file does: a length, then the brace of a header, and
 * no zip. False too if it cannot be read: then with an error. */
bool fsdp_source_begins_safetensors(
	const struct fsdp_source *source, struct fsdp_error **ret_error);

/* Rows that follow each other, `row` bytes each, put into memory `step` bytes apart: what
 * is to be scattered in long rows needs no copy on the way. */
bool fsdp_source_read_rows(const struct fsdp_source *source, uint64_t offset,
	unsigned char *to, size_t row, size_t step, size_t count,
	struct fsdp_error **ret_error);

/* Exactly that, into memory of the arena. `limit` (base/arena.h) bounds the size. */
bool fsdp_source_read_all(const struct fsdp_source *source, uint64_t offset,
	uint64_t size, struct fsdp_arena *arena, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/* A part of a source from front to back, as a fsdp_refill of it; context is the struct.
 */
struct fsdp_source_rest {
	struct fsdp_source source;
	uint64_t at, end;
};
bool fsdp_source_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error);

/* All of a descriptor that cannot seek (a pipe), up to `ceiling` bytes into the arena,
 * whose budget is given them as input. */
bool fsdp_source_drain(int fd, uint64_t ceiling, struct fsdp_arena *arena,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/*
 * Bytes that arrive without saying how many they will be, kept in the arena by pages: no
 * claimed length is believed and nothing is moved when it grows. A page that repeats the
 * one before it costs only its place in a list, so that long runs of zeros, or of any
 * short pattern, stay as small as they were packed.
 */
enum { FSDP_PAGE_BYTES = 64 << 10 };

struct fsdp_pager {
	struct fsdp_arena *arena;
	unsigned char *filling;  /* FSDP_PAGE_BYTES, of the arena */
	size_t filled;           /* of these */
	struct fsdp_span before; /* the page that was kept last */
	struct fsdp_vec list;    /* const unsigned char *, whole ones */
};

bool fsdp_pager_init(struct fsdp_pager *pager, struct fsdp_arena *arena,
	struct fsdp_error **ret_error);

/* Space for at least one byte after the present ones, and then how many of it were
 * filled. */
unsigned char *fsdp_pager_room(struct fsdp_pager *pager, size_t *ret_room);
bool fsdp_pager_filled(
	struct fsdp_pager *pager, size_t size, struct fsdp_error **ret_error);

bool fsdp_pager_add(struct fsdp_pager *pager, const void *bytes, size_t size,
	struct fsdp_error **ret_error);

/* All that came since the last take; it lives as long as the arena. */
bool fsdp_pager_take(struct fsdp_pager *pager, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error);

/*
 * Raw deflate out of a source, forwards only, never more than the declared size: the
 * byte after it is asked for only to see whether there is one.
 */
struct fsdp_inflate;

bool fsdp_inflate_new(const struct fsdp_source *source, uint64_t offset,
	uint64_t stored_size, uint64_t size, struct fsdp_inflate **ret_inflate,
	struct fsdp_error **ret_error);

/* Exactly `size` bytes, or failure (damaged: broken data, ends early). */
bool fsdp_inflate_read(struct fsdp_inflate *inflate, void *buffer, size_t size,
	struct fsdp_error **ret_error);

/* The same bytes through another source: descriptors are closed after a while. */
void fsdp_inflate_move(struct fsdp_inflate *inflate, const struct fsdp_source *source);

/* After all declared bytes: fails if the stream continues or stored bytes are left. */
bool fsdp_inflate_finish(struct fsdp_inflate *inflate, struct fsdp_error **ret_error);

void fsdp_inflate_free(struct fsdp_inflate *inflate);

/*
 * A gzip file read from another stream, with concatenated members as one; or the output
 * of zlib. If it is truncated or a checksum is wrong, it ends after the last readable
 * byte.
 */
struct fsdp_gunzip;

bool fsdp_gunzip_is(struct fsdp_span head);
bool fsdp_gunzip_is_zlib(struct fsdp_span head);
bool fsdp_gunzip_new(fsdp_refill refill, void *context, struct fsdp_gunzip **ret_gunzip,
	struct fsdp_error **ret_error);
/* A fsdp_refill; context is the struct fsdp_gunzip. */
bool fsdp_gunzip_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error);
bool fsdp_gunzip_is_cut(const struct fsdp_gunzip *gunzip);
void fsdp_gunzip_free(struct fsdp_gunzip *gunzip);

/* "1.2.13" */
const char *fsdp_inflate_version(void);

/*
 * A file or a pipe read once from its first byte to its last, whatever it is compressed
 * with (gz of several members, zst, xz, bz2, lz4). Compressed ones are inflated one step
 * ahead in a thread of their own.
 *
 * A compressed stream that is truncated, or whose checksum is wrong, gives what it gave
 * and then ends: fsdp_stream_is_cut.
 */
struct fsdp_stream;

struct fsdp_stream_options {
	struct fsdp_remote *remote; /* for paths that are URLs, or NULL */
	bool ahead;                 /* in a thread */
	uint64_t *read;             /* grows by the bytes that are read, or NULL */
	const int *stop;            /* once set, the stream ends early, or NULL */
	/* What is unpacked is bounded by `inflate-bytes` and `inflate-ratio`, what that
	 * takes by `memory`; NULL: by nothing. They stay as long as the stream. */
	const struct fsdp_limits *limits;
};

/* "-" is standard input. Fails if it is neither a regular file nor a pipe. */
bool fsdp_stream_open(const char *path, const struct fsdp_stream_options *options,
	struct fsdp_stream **ret_stream, struct fsdp_error **ret_error);

/* A fsdp_refill; context is the struct fsdp_stream. */
bool fsdp_stream_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error);

/* What it begins with, uncompressed, up to FSDP_STREAM_PEEK bytes. Before the first
 * refill only. */
enum { FSDP_STREAM_PEEK = 4096 };
bool fsdp_stream_peek(struct fsdp_stream *stream, struct fsdp_span *ret_head,
	struct fsdp_error **ret_error);

/* Meaningful at the end. */
bool fsdp_stream_is_cut(const struct fsdp_stream *stream);

/* The file itself, if it is neither a pipe nor compressed; NULL: it is. */
struct fsdp_source;
const struct fsdp_source *fsdp_stream_plain(const struct fsdp_stream *stream);

/* Bytes as stored; 0: a pipe. */
uint64_t fsdp_stream_size(const struct fsdp_stream *stream);

void fsdp_stream_close(struct fsdp_stream *stream);

#endif
