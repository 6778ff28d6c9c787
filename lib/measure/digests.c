/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What digests of files and of tensors have in common, and digests of the caller's bytes.
 */
#include <stdlib.h>

#include "base/num.h"
#include "base/span.h"
#include "measure/digesting.h"
#include "sweep/content-hash.h"

/* Memory that ended is not a property of what was read. */
static bool check_memory(
	const struct fsdp_digests *digests, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < digests->count; i++) {
		const struct fsdp_error *error = digests->list[i].error;
		if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			return fsdp_fail_memory(ret_error);
	}
	return true;
}

void fsdp_digests_free(struct fsdp_digests *digests)
{
	if (digests == NULL)
		return;
	for (size_t i = 0; i < digests->count; i++)
		fsdp_error_free(digests->list[i].error);
	fsdp_arena_done(&digests->arena);
	free(digests);
}

bool fsdp_digests_make(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options,
	bool (*make)(struct fsdp_digests *digests, struct fsdp_error **ret_error),
	struct fsdp_digests **ret_digests, struct fsdp_error **ret_error)
{
	struct fsdp_digests *digests = calloc(1, sizeof *digests);
	if (digests == NULL)
		return fsdp_fail_memory(ret_error);
	memcpy(&digests->options, options,
		fsdp_min(options->size, sizeof digests->options));
	digests->checkpoint = checkpoint;
	digests->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&digests->arena, &digests->budget);
	if (!make(digests, ret_error) || !check_memory(digests, ret_error)) {
		fsdp_digests_free(digests);
		return false;
	}
	*ret_digests = digests;
	return true;
}

size_t fsdp_digest_count(const struct fsdp_digests *digests)
{
	return digests->count;
}

struct fsdp_digest fsdp_digest(const struct fsdp_digests *digests, size_t index)
{
	struct fsdp_digest digest = digests->list[index].shown;
	digest.error = digests->list[index].error;
	return digest;
}

/* ---- bytes of the caller ---- */

struct fsdp_digester *fsdp_digester_new(void)
{
	return (struct fsdp_digester *)fsdp_sha256_new();
}

void fsdp_digester_add(struct fsdp_digester *digester, const void *bytes, size_t size)
{
	(void)fsdp_sha256_add((struct fsdp_sha256 *)digester, bytes, size);
}

void fsdp_digester_end(
	struct fsdp_digester *digester, unsigned char ret_sha256[FSDP_DIGEST_BYTES])
{
	struct fsdp_sha256 *sha256 = (struct fsdp_sha256 *)digester;
	if (sha256 != NULL && ret_sha256 != NULL)
		(void)fsdp_sha256_finish(sha256, ret_sha256);
	fsdp_sha256_free(sha256);
}
