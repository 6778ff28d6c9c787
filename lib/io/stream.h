/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_STREAM_H
#define FSDP_IO_STREAM_H

#include "base/arena.h"

/*
 * A file or a pipe read once from its first byte to its last, whatever it is compressed
 * with (gz of several members, zst, xz, bz2, lz4). Compressed ones are inflated one step
 * ahead in a thread of their own.
 *
 * A compressed stream that breaks off, or whose checksum is wrong, gives what it gave and
 * then ends: fsdp_stream_is_cut.
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
