/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_GATHER_H
#define FSDP_STORE_GATHER_H

#include "base/arena.h"
#include "base/error.h"

/*
 * Bytes that arrive without saying how many they will be. They are kept in growing
 * chunks outside of the arena and moved there once, chunk by chunk, when all are
 * there: the arena never holds an outgrown half, and no claimed length is believed.
 */
struct fsdp_gather {
	struct fsdp_gather_chunk *first, *last;
	uint64_t size;
};

/* Room for at least one byte behind what is there; *ret_room says how much. */
unsigned char *fsdp_gather_room(struct fsdp_gather *gather, size_t *ret_room);

/* So many bytes of that room were filled. */
void fsdp_gather_filled(struct fsdp_gather *gather, size_t size);

bool fsdp_gather_add(struct fsdp_gather *gather, const void *bytes, size_t size);

/* Whether the arena's budget has room for what is there: asked before more comes. */
bool fsdp_gather_fits(const struct fsdp_gather *gather, const struct fsdp_arena *arena);

/* Moves everything into the arena and leaves the gather empty. */
bool fsdp_gather_take(struct fsdp_gather *gather, struct fsdp_arena *arena,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error);

void fsdp_gather_done(struct fsdp_gather *gather);

#endif
