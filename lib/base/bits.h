/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_BITS_H
#define FSDP_BASE_BITS_H

#include "base/vec.h"

/*
 * A bit for each number, all of them clear at first. The set grows with the numbers, by
 * pages.
 */
struct fsdp_bits {
	struct fsdp_vec words; /* uint64_t */
};

static inline void fsdp_bits_init(struct fsdp_bits *bits, struct fsdp_arena *arena)
{
	fsdp_vec_init(&bits->words, arena, sizeof(uint64_t));
}

/* *ret_again: it was set before. False when out of memory. */
static inline bool fsdp_bits_set(struct fsdp_bits *bits, uint32_t number, bool *ret_again)
{
	uint64_t *word = fsdp_vec_reach(&bits->words, number / 64);
	if (word == NULL)
		return false;
	*ret_again = *word >> number % 64 & 1;
	*word |= UINT64_C(1) << number % 64;
	return true;
}

#endif
