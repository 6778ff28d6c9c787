/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_BIG_H
#define FSDP_BASE_BIG_H

#include "base/arena.h"

/*
 * An integer too large for 64 bits, as text: decimal up to 512 bytes of it, hexadecimal
 * ("0x…"; negative ones as their bits, "~0x…") beyond, so that the work stays in
 * proportion to the input. `bytes` is little-endian two's complement. data NULL: out of
 * memory.
 */
struct fsdp_span fsdp_big_text(struct fsdp_span bytes, struct fsdp_arena *arena);

#endif
