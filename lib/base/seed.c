/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secret words for hash tables, from the system.
 */
#include <sys/random.h>

#include "base/seed.h"

void fsdp_seed(uint64_t ret_seeds[2])
{
	uint64_t seeds[2] = { (uint64_t)(uintptr_t)ret_seeds,
		UINT64_C(0x9E3779B97F4A7C15) };
	if (getrandom(seeds, sizeof seeds, GRND_NONBLOCK) < 0)
		seeds[1] ^= (uint64_t)(uintptr_t)seeds;
	ret_seeds[0] = seeds[0];
	ret_seeds[1] = seeds[1] | 1;
}
