/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MEASURE_DIGESTING_H
#define FSDP_MEASURE_DIGESTING_H

#include <fsdp/digest.h>

#include "base/arena.h"
#include "base/error.h"

struct fsdp_made_digest {
	struct fsdp_digest shown; /* without the error */
	struct fsdp_error *error; /* owned */
};

/* Digests while they are made. */
struct fsdp_digests {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_digests_options options;
	struct fsdp_made_digest *list;
	size_t count;
};

/* Digests that `make` fills: it is given them all zero but for the options, of which no
 * more is read than the caller knows. */
bool fsdp_digests_make(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options,
	bool (*make)(struct fsdp_digests *digests, struct fsdp_error **ret_error),
	struct fsdp_digests **ret_digests, struct fsdp_error **ret_error);

#endif
