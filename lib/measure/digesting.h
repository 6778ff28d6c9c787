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

/* All zero but for its options, of which no more is read than the caller knows. */
struct fsdp_digests *fsdp_digests_begin(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_error **ret_error);

/* Memory that ended is no property of what was read. False, with the error, if it did. */
bool fsdp_digests_check(struct fsdp_digests *digests, struct fsdp_error **ret_error);

#endif
