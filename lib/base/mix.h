/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_MIX_H
#define FSDP_BASE_MIX_H

#include <stdint.h>

/* A product of 128 bits folded to 64. With secret factors nobody can aim at a slot of a
 * hash table. */
static inline uint64_t fsdp_mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
