/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MIX_H
#define MIX_H

#include "render/shape.h"

/*
 * A hash of several things, for finding those that may be equal: its user compares
 * them as well. What is hashed comes from files, so each table has a seed of its own and
 * no file can aim at a slot.
 */
struct mixer {
	uint64_t seed, factor;
};

struct mixer mixer_new(void);

static inline uint64_t mix(const struct mixer *mixer, uint64_t hash, uint64_t word)
{
	__extension__ unsigned __int128 product =
		(unsigned __int128)(hash ^ word ^ mixer->seed) * mixer->factor;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t mix_text(const struct mixer *mixer, uint64_t hash, struct text text);

#endif
