/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_MIX_H
#define FSDP_BASE_MIX_H

#include "base/span.h"

/* A product of 128 bits folded to 64. With secret factors no file can aim at a slot of a
 * hash table. */
static inline uint64_t fsdp_mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * Hashes for tables whose keys a file chooses. Each table has secret words of its own:
 * keys that meet in one process need not meet in the next. No result may depend on a
 * hash.
 */
struct fsdp_hasher {
	uint64_t seed, factor;
};

struct fsdp_hasher fsdp_hasher_new(void);

/* Twice: one product leaves numbers of equal distance at an equal distance, which some
 * factors bring back to few slots. */
static inline uint64_t fsdp_hash(const struct fsdp_hasher *hasher, uint64_t number)
{
	uint64_t hash = fsdp_mix(hasher->seed ^ number, hasher->factor);
	return fsdp_mix(hash ^ hasher->seed, UINT64_C(0x9e3779b97f4a7c15));
}

/* What follows on `hash`: one more number, or bytes and how many they are. */
static inline uint64_t fsdp_hash_more(
	const struct fsdp_hasher *hasher, uint64_t hash, uint64_t number)
{
	return fsdp_mix(hash ^ number, hasher->factor);
}

uint64_t fsdp_hash_span(
	const struct fsdp_hasher *hasher, uint64_t hash, struct fsdp_span span);

#endif
