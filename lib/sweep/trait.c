/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multiplies halves of words with each other, eight words side by side, as XXH3 does: the
 * compiler makes vectors of it.
 */
#include <string.h>

#include "base/clones.h"
#include "base/mix.h"
#include "sweep/trait.h"

enum { LANES = 8, STRIPE = 8 * LANES, ROUND = 16 /* stripes */ };

#define PRIME_A UINT64_C(0x9E3779B185EBCA87)
#define PRIME_B UINT64_C(0xC2B2AE3D27D4EB4F)

/* Any words would do. */
static const uint64_t secret[LANES + ROUND] = {
	UINT64_C(0x2d358dccaa6c78a5),
	UINT64_C(0x8bb84b93962eacc9),
	UINT64_C(0x4b33a62ed433d4a3),
	UINT64_C(0x4d5a2da51de1aa47),
	UINT64_C(0xa0761d6478bd642f),
	UINT64_C(0xe7037ed1a0b428db),
	UINT64_C(0x90ed1765281c388c),
	UINT64_C(0x452821e638d01377),
	UINT64_C(0xbe5466cf34e90c6c),
	UINT64_C(0xc0ac29b7c97c50dd),
	UINT64_C(0x3f84d5b5b5470917),
	UINT64_C(0x9216d5d98979fb1b),
	UINT64_C(0xd1310ba698dfb5ac),
	UINT64_C(0x2ffd72dbd01adfb7),
	UINT64_C(0xb8e1afed6a267e96),
	UINT64_C(0xba7c9045f12c7f99),
	UINT64_C(0x24a19947b3916cf7),
	UINT64_C(0x0801f2e2858efc16),
	UINT64_C(0x636920d871574e69),
	UINT64_C(0xa458fea3f4933d7e),
	UINT64_C(0x0d95748f728eb658),
	UINT64_C(0x718bcd5882154aee),
	UINT64_C(0x7b54a41dc25a59b5),
	UINT64_C(0x9c30d5392af26013),
};

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

/* A word goes, as it is, to its neighbour's lane: so nothing is lost where a product is
 * zero. */
static inline void add_stripe(
	lanes *sum, const unsigned char *bytes, const uint64_t *keys)
{
	lanes word, key;
	memcpy(&word, bytes, sizeof word);
	memcpy(&key, keys, sizeof key);
	key ^= word;
	*sum += (key & UINT32_MAX) * (key >> 32) +
		__builtin_shufflevector(word, word, 1, 0, 3, 2, 5, 4, 7, 6);
}

static inline void scramble(lanes *sum)
{
	lanes key;
	memcpy(&key, secret + ROUND, sizeof key);
	*sum ^= *sum >> 47;
	*sum ^= key;
	*sum *= UINT64_C(0x9E3779B1);
}

FSDP_CLONES
static size_t add_rounds(lanes *sum, const unsigned char *bytes, size_t size)
{
	lanes all = *sum;
	size_t done = 0;
	for (; size - done >= ROUND * STRIPE; done += ROUND * STRIPE) {
		for (size_t i = 0; i < ROUND; i++)
			add_stripe(&all, bytes + done + i * STRIPE, secret + i);
		scramble(&all);
	}
	*sum = all;
	return done;
}

void fsdp_trait_add(struct fsdp_trait *trait, const unsigned char *bytes, size_t size)
{
	lanes sum;
	unsigned char last[STRIPE] = { 0 };
	memcpy(&sum, secret + LANES, sizeof sum);
	size_t done = size >= ROUND * STRIPE ? add_rounds(&sum, bytes, size) : 0;
	for (size_t i = 0; size - done >= STRIPE; i++, done += STRIPE)
		add_stripe(&sum, bytes + done, secret + i);
	memcpy(last, bytes + done, size - done);
	add_stripe(&sum, last, secret + ROUND - 1);
	scramble(&sum);
	struct fsdp_trait next = { { size * PRIME_A, ~size * PRIME_B } };
	for (size_t i = 0; i < LANES; i += 2) {
		next.words[0] += fsdp_mix(sum[i] ^ secret[i], sum[i + 1] ^ secret[i + 1]);
		next.words[1] +=
			fsdp_mix(sum[i] ^ secret[i + 9], sum[i + 1] ^ secret[i + 10]);
	}
	fsdp_trait_join(trait, &next);
}

void fsdp_trait_join(struct fsdp_trait *trait, const struct fsdp_trait *next)
{
	uint64_t first = trait->words[0], second = trait->words[1];
	trait->words[0] = fsdp_mix(first ^ PRIME_A, next->words[0] ^ secret[2]) + second;
	trait->words[1] =
		fsdp_mix(second ^ PRIME_B, next->words[1] ^ secret[3]) + next->words[0];
}
