/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_EIGHT_H
#define RENDER_EIGHT_H

#include <stdint.h>
#include <string.h>

/* Eight bytes of a text at once, wherever they begin. */

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t load_eight(const char *data)
{
	uint64_t word;
	memcpy(&word, data, sizeof word);
	return word;
}

#endif
