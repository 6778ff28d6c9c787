/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MIX_H
#define MIX_H

#include "render/shape.h"

/*
 * A hash of several things, for finding those that may be equal: whoever uses it compares
 * them as well.
 */
static inline uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static inline uint64_t mix_text(uint64_t hash, struct text text)
{
	for (size_t i = 0; i < text.size; i++)
		hash = mix(hash, (unsigned char)text.data[i]);
	return mix(hash, text.size);
}

#endif
