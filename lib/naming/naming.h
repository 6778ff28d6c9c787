/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_NAMING_NAMING_H
#define FSDP_NAMING_NAMING_H

#include <fsdp/naming.h>

#include "base/arena.h"
#include "base/error.h"

/* A tensor of a checkpoint, and what it is called. */
struct fsdp_named {
	struct fsdp_span name;
	uint32_t tensor;
};

/* The tensors of a checkpoint that are to be named, each of which may be there once.
 * Names are taken from the arena and live as long. */
struct fsdp_naming {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	struct fsdp_named *list;
	size_t count;
	bool weights_only;     /* parameters and buffers alone lose their container */
	uint64_t idle_renames; /* bit n: the n-th of the first 64 met no name */
};

/* Names as they are stored, or clean. *ret_cleaned: how many lost segments of wrappers.
 * False: out of memory. */
bool fsdp_naming_take(struct fsdp_naming *naming, bool stored, uint64_t *ret_cleaned,
	struct fsdp_error **ret_error);

/* The key under which a training program keeps its model ("model", "state_dict"): all of
 * the list lies below it, and that it is a key is recorded, or an optimizer lies beside it.
 * Absent: there is none. */
struct fsdp_span fsdp_naming_container(const struct fsdp_naming *naming);

/* Removes these segments from the front of each name that has them and more. False: none
 * has. */
bool fsdp_naming_strip(struct fsdp_naming *naming, struct fsdp_span above);

/* Renames in order: each is applied to what the one before left. False: out of memory. */
bool fsdp_naming_rename(struct fsdp_naming *naming, const struct fsdp_rename *renames,
	size_t count, struct fsdp_error **ret_error);

#endif
