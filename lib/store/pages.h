/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_PAGES_H
#define FSDP_STORE_PAGES_H

#include "base/vec.h"
#include "store/source.h"

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

/* Room for at least one byte behind what is there, and that so many of it were filled. */
unsigned char *fsdp_pager_room(struct fsdp_pager *pager, size_t *ret_room);
bool fsdp_pager_filled(
	struct fsdp_pager *pager, size_t size, struct fsdp_error **ret_error);

bool fsdp_pager_add(struct fsdp_pager *pager, const void *bytes, size_t size,
	struct fsdp_error **ret_error);

/* All that came since the last take; it lives as long as the arena. */
bool fsdp_pager_take(struct fsdp_pager *pager, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error);

#endif
