/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_H
#define FSDP_ANALYSIS_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What follows from the facts of a checkpoint. An analysis is an object that is made from
 * an open checkpoint with `_new`, owns its memory and is released with one `_free`, which
 * takes NULL. It reads no file, and the checkpoint stays as it is: any number of analyses
 * may exist at once, but each belongs to one thread. The checkpoint must outlive it.
 *
 * Memory is linear in the tensors, pieces or modules that are looked at; the checkpoint's
 * own `memory` limit has bounded those. So the only failure is FSDP_ERROR_MEMORY, and an
 * object whose function failed may only be freed.
 *
 * Sums saturate: one that does not fit into 64 bits is FSDP_UNKNOWN, and stays so.
 */

/* ---- copies ---- */

/**
 * Which pieces of a tensor are copies of each other: those of one place, whether or not
 * their bytes are equal. A place is a box, or a run of a flattened parameter. Copies are
 * numbered from 0 in the order of pieces. One object serves many tensors, one after the
 * other, and reuses its memory.
 */
struct fsdp_replicas;

/** Without a tensor yet: every piece is without a copy. */
FSDP_API bool fsdp_replicas_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_replicas **ret_replicas, struct fsdp_error **ret_error);

/**
 * Looks at the pieces of this tensor, which may be a component, and forgets the one
 * before. *ret_some tells whether any of them has a copy. Takes n log n comparisons for n
 * pieces, n where each piece lies behind the one before.
 */
FSDP_API bool fsdp_replicas_find(struct fsdp_replicas *replicas,
	const struct fsdp_tensor *tensor, bool *ret_some, struct fsdp_error **ret_error);

/**
 * The number of the piece with this position among the tensor's. FSDP_NONE: it has no
 * copy, it has no elements, or the position is past the end.
 */
FSDP_API uint32_t fsdp_replicas_number(
	const struct fsdp_replicas *replicas, uint32_t position);

FSDP_API void fsdp_replicas_free(struct fsdp_replicas *replicas);

#ifdef __cplusplus
}
#endif

#endif
