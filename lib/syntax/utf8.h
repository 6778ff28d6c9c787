/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_UTF8_H
#define FSDP_SYNTAX_UTF8_H

#include "base/span.h"

/* Surrogates are written like any other code point. Up to four bytes; returns behind
 * them. */
unsigned char *fsdp_utf8_put(unsigned char *out, uint32_t point);

/* No surrogates, nothing overlong, nothing beyond U+10FFFF. */
bool fsdp_utf8_is_valid(struct fsdp_span text);

/* `count` hexadecimal digits at *at, which it moves behind them. */
bool fsdp_hex_take(const unsigned char **at, const unsigned char *end, int count,
	uint32_t *ret_value);

#endif
