/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_INFLATE_H
#define FSDP_STORE_INFLATE_H

#include "store/source.h"

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

/* The same bytes through another source: descriptors do not stay open for ever. */
void fsdp_inflate_move(struct fsdp_inflate *inflate, const struct fsdp_source *source);

/* After all declared bytes: fails if the stream goes on or stored bytes are left. */
bool fsdp_inflate_finish(struct fsdp_inflate *inflate, struct fsdp_error **ret_error);

void fsdp_inflate_free(struct fsdp_inflate *inflate);

/* "1.2.13" */
const char *fsdp_inflate_version(void);

#endif
