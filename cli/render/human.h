/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_HUMAN_H
#define RENDER_HUMAN_H

#include <stdint.h>

/* Numbers as people read them, the same in every locale. */
enum { HUMAN_ROOM = 32 };

enum human_sizes {
	HUMAN_BINARY,  /* 96 B, 1.5 KiB, 112.0 MiB, 12.44 GiB: powers of 1024 */
	HUMAN_DECIMAL, /* 96 B, 1.5 kB, 117.4 MB, 13.36 GB: powers of 1000 */
	HUMAN_EXACT    /* 13357113344 B */
};

/* With one decimal, from GiB and GB on with two. */
const char *human_bytes(uint64_t count, enum human_sizes sizes, char buffer[HUMAN_ROOM]);

/* 999, 12.3 k, 58.7 M, 8.03 B, 1.20 T: powers of 1000, two decimals from B on. */
const char *human_elements(uint64_t count, char buffer[HUMAN_ROOM]);

/* 12.345: milliseconds, halves away from zero. */
const char *human_ms(int64_t ns, char buffer[HUMAN_ROOM]);

#endif
