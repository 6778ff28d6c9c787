/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEX_H
#define HEX_H

#include "render/shape.h"

enum { HEX_BYTES = 32, HEX_ROOM = 2 * HEX_BYTES + 1 };

/* A SHA-256 as digits, in the buffer. Absent where there is none. */
struct text hex_text(const unsigned char *digest, char buffer[HEX_ROOM]);

/* The bytes of 64 digits. False: it is none. */
bool hex_bytes(struct text digits, unsigned char ret_digest[HEX_BYTES]);

#endif
