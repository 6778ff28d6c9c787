/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_INFLATE_H
#define FSDP_IO_INFLATE_H

#include "base/arena.h"
#include "io/source.h"

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
 * A gzip file read from another stream, with concatenated members as one; or the output of zlib. If it is truncated or
 * a checksum is wrong, it ends after the last readable byte.
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

#endif
