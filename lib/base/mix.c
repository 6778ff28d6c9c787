/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes of bytes with secret words.
 */
#include <string.h>

#include "base/mix.h"
#include "base/seed.h"

struct fsdp_hasher fsdp_hasher_new(void)
{
	uint64_t seeds[2];
	fsdp_seed(seeds);
	return (struct fsdp_hasher){ seeds[0], seeds[1] | UINT64_C(1) << 63 };
}

uint64_t fsdp_hash_span(
	const struct fsdp_hasher *hasher, uint64_t hash, struct fsdp_span span)
{
	uint64_t word = 0;
	hash = fsdp_hash_more(hasher, hash, span.size);
	for (; span.size >= sizeof word;
		span.data += sizeof word, span.size -= sizeof word)
		hash = fsdp_hash_more(hasher, hash, fsdp_load_eight(span.data));
	if (span.size != 0)
		memcpy(&word, span.data, span.size);
	return fsdp_hash_more(hasher, hash ^ hasher->seed, word);
}
