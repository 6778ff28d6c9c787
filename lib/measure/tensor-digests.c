/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of each tensor's elements.
 */
#include <stdlib.h>

#include <fsdp/walk.h>

#include "base/error.h"
#include "base/share.h"
#include "measure/digesting.h"
#include "sweep/content-hash.h"

static bool digest_range(struct fsdp_walker *walker, struct fsdp_sha256 *sha256,
	struct fsdp_error **ret_error)
{
	struct fsdp_span bytes;
	do {
		if (!fsdp_walk_next(walker, &bytes, ret_error))
			return false;
		if (!fsdp_sha256_add(sha256, bytes.data, bytes.size))
			return fsdp_fail_memory(ret_error);
	} while (bytes.size != 0);
	return true;
}

/* Of a whole tensor: none is cut. */
static void visit(
	void *context, struct fsdp_walker *walker, const struct fsdp_walk_range *range)
{
	struct fsdp_digests *digests = context;
	struct fsdp_made_digest *digest = &digests->list[range->index];
	struct fsdp_sha256 *sha256 = fsdp_sha256_new();
	struct fsdp_error *error = NULL;
	if (sha256 == NULL)
		fsdp_fail_memory(&error);
	else if (digest_range(walker, sha256, &error) &&
		 !fsdp_sha256_finish(sha256, digest->shown.sha256))
		fsdp_fail_memory(&error);
	fsdp_sha256_free(sha256);
	digest->error = error;
}

/* ---- which ---- */

static uint64_t bytes_of(
	const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors, size_t index)
{
	uint32_t tensor = tensors != NULL ? tensors[index] : (uint32_t)index;
	return fsdp_tensor(checkpoint, tensor).bytes;
}

/* Which of `count` tensors (NULL: the first ones) belong to share `part` of `parts`; shares
 * follow the order in which tensors are read, so that each reads few files. */
static bool mark_share(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, uint32_t part, uint32_t parts, bool *ret_taken,
	struct fsdp_error **ret_error)
{
	struct fsdp_share share = { .part = part, .parts = parts };
	size_t *order = malloc((count + 1) * sizeof *order);
	if (order == NULL)
		return fsdp_fail_memory(ret_error);
	bool good = fsdp_walk_order(checkpoint, tensors, count, order, ret_error);
	for (size_t i = 0; good && i < count; i++)
		share.total += bytes_of(checkpoint, tensors, i);
	for (size_t i = 0; good && i < count; i++)
		ret_taken[order[i]] =
			fsdp_share_takes(&share, bytes_of(checkpoint, tensors, order[i]));
	free(order);
	return good;
}

static bool list_tensors(struct fsdp_digests *digests, uint32_t **ret_tensors,
	struct fsdp_error **ret_error)
{
	const struct fsdp_digests_options *options = &digests->options;
	size_t count = options->tensors != NULL ? options->tensor_count
						: fsdp_tensor_count(digests->checkpoint);
	bool *taken = FSDP_TAKE(&digests->arena, taken, count + 1);
	uint32_t *tensors = FSDP_TAKE(&digests->arena, tensors, count + 1);
	digests->list = FSDP_TAKE(&digests->arena, digests->list, count + 1);
	if (taken == NULL || tensors == NULL || digests->list == NULL)
		return fsdp_arena_fail(&digests->arena, ret_error);
	if (!mark_share(digests->checkpoint, options->tensors, count, options->part,
		    options->parts, taken, ret_error))
		return false;
	for (size_t i = 0; i < count; i++) {
		uint32_t tensor =
			options->tensors != NULL ? options->tensors[i] : (uint32_t)i;
		if (!taken[i])
			continue;
		tensors[digests->count] = tensor;
		digests->list[digests->count++] = (struct fsdp_made_digest){
			.shown.tensor = tensor,
			.shown.position = i,
			.shown.bytes = fsdp_tensor(digests->checkpoint, tensor).bytes,
		};
	}
	*ret_tensors = tensors;
	return true;
}

static bool make(struct fsdp_digests *digests, struct fsdp_error **ret_error)
{
	uint32_t *tensors = NULL;
	if (!list_tensors(digests, &tensors, ret_error))
		return false;
	const struct fsdp_walk_options walk = {
		.size = sizeof walk,
		.tensors = tensors,
		.tensor_count = digests->count,
		.jobs = digests->options.jobs,
		.visit = visit,
		.context = digests,
		.progress = digests->options.progress,
		.progress_context = digests->options.progress_context,
	};
	return fsdp_walk(digests->checkpoint, &walk, ret_error);
}

bool fsdp_digests_of_tensors(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_digests **ret_digests,
	struct fsdp_error **ret_error)
{
	return fsdp_digests_make(checkpoint, options, make, ret_digests, ret_error);
}
