/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_NAMING_MAPPED_ELEMENTS_H
#define FSDP_NAMING_MAPPED_ELEMENTS_H

#include <fsdp/elements.h>

#include "naming/mapping.h"

/*
 * The elements of a mapped tensor in C order of its own shape, as a stream of bytes, as
 * fsdp_elements gives those of a stored one. Long runs are passed on as they come; short
 * ones are gathered in a window, for which what they lie in is read once, or as often as it
 * is longer than the window.
 *
 * Bounds: what fsdp_elements takes, and 32 MiB.
 */
struct fsdp_mapped_elements;

/* `first` and `count` are of the mapped tensor; the blocks must live as long. */
bool fsdp_mapped_open(struct fsdp_locator *locator, const struct fsdp_mapped *mapped,
	uint64_t first, uint64_t count, struct fsdp_mapped_elements **ret_elements,
	struct fsdp_error **ret_error);

/* The next bytes, whole elements, valid until the next call; none at the end. */
bool fsdp_mapped_next(struct fsdp_mapped_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/* Told of the stored bytes that came by (fsdp_elements_runs) when a run was read to its
 * end. */
struct fsdp_mapped_sums {
	bool (*take)(void *context, const struct fsdp_elements_run *runs, size_t count,
		struct fsdp_error **ret_error);
	void *context;
};
void fsdp_mapped_sum(
	struct fsdp_mapped_elements *elements, const struct fsdp_mapped_sums *sums);

/* Bytes that reading all of it comes to: of a packed tensor a window costs all of it. */
uint64_t fsdp_mapped_cost(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_mapped *mapped);

/* NULL is fine. */
void fsdp_mapped_close(struct fsdp_mapped_elements *elements);

#endif
