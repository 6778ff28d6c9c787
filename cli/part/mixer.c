/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeds hashes and mixes texts into them.
 */
#include <string.h>
#include <sys/random.h>

#include "part/mixer.h"

struct mixer mixer_new(void)
{
	struct mixer mixer = { 0, 0x9e3779b97f4a7c15u };

	/* Where the system has no random numbers at hand, only speed is at stake. */
	if (getrandom(&mixer, sizeof mixer, GRND_NONBLOCK) < 0)
		mixer.seed = (uint64_t)(uintptr_t)&mixer;
	mixer.factor |= (uint64_t)1 << 63 | 1;
	return mixer;
}

uint64_t mix_text(const struct mixer *mixer, uint64_t hash, struct text text)
{
	uint64_t word;

	hash = mix(mixer, hash, text.size);
	for (; text.size >= sizeof word;
		text.data += sizeof word, text.size -= sizeof word) {
		memcpy(&word, text.data, sizeof word);
		hash = mix(mixer, hash, word);
	}
	word = 0;
	if (text.size > 0)
		memcpy(&word, text.data, text.size);
	return mix(mixer, hash, word);
}
