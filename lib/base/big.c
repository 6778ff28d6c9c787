/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers too large for 64 bits, as text.
 */
#include "base/big.h"

enum { DECIMAL_BYTES = 512, WORDS = DECIMAL_BYTES / 4, GROUP = 9, HEX_BYTES = 4096 };

static const uint32_t group_value = 1000000000;

/* The absolute value as 32-bit words, least first; returns how many. */
static size_t magnitude(struct fsdp_span bytes, bool negative, uint32_t *words)
{
	uint64_t carry = negative;
	size_t count = (bytes.size + 3) / 4;
	for (size_t i = 0; i < count; i++) {
		uint32_t word = 0;
		for (size_t b = 0; b < 4; b++) {
			size_t at = i * 4 + b;
			uint32_t byte = at < bytes.size ? bytes.data[at]
					: negative      ? 0xff
							: 0;
			word |= byte << (8 * b);
		}
		carry += negative ? ~word : word;
		words[i] = (uint32_t)carry;
		carry >>= 32;
	}
	return count;
}

/* Divides by 10^9 and gives the rest. */
static uint32_t take_group(uint32_t *words, size_t *count)
{
	uint64_t rest = 0;
	for (size_t i = *count; i-- > 0;) {
		rest = rest << 32 | words[i];
		words[i] = (uint32_t)(rest / group_value);
		rest %= group_value;
	}
	while (*count != 0 && words[*count - 1] == 0)
		--*count;
	return (uint32_t)rest;
}

static struct fsdp_span decimal(
	struct fsdp_span bytes, bool negative, struct fsdp_arena *arena)
{
	uint32_t words[WORDS];
	char text[DECIMAL_BYTES * 3 + 16];
	size_t count = magnitude(bytes, negative, words);
	size_t at = sizeof text;
	while (count != 0) {
		uint32_t group = take_group(words, &count);
		for (size_t i = 0; i < GROUP && (count != 0 || group != 0); i++) {
			text[--at] = (char)('0' + group % 10);
			group /= 10;
		}
	}
	if (at == sizeof text)
		text[--at] = '0';
	if (negative)
		text[--at] = '-';
	return fsdp_arena_copy(arena, fsdp_span(text + at, sizeof text - at));
}

static struct fsdp_span hexadecimal(
	struct fsdp_span bytes, bool negative, struct fsdp_arena *arena)
{
	static const char digits[] = "0123456789abcdef";
	size_t size = bytes.size < HEX_BYTES ? bytes.size : HEX_BYTES;
	char *text = fsdp_arena_take(arena, 2 * size + 8, 1);
	size_t at = 0;
	if (text == NULL)
		return (struct fsdp_span){ 0 };
	if (negative)
		text[at++] = '~'; /* the bits as stored, not their value */
	text[at++] = '0';
	text[at++] = 'x';
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = bytes.data[bytes.size - 1 - i];
		text[at++] = digits[byte >> 4];
		text[at++] = digits[byte & 15];
	}
	return fsdp_span(text, at);
}

struct fsdp_span fsdp_big_text(struct fsdp_span bytes, struct fsdp_arena *arena)
{
	bool negative = bytes.size != 0 && bytes.data[bytes.size - 1] & 0x80;
	if (bytes.size <= DECIMAL_BYTES)
		return decimal(bytes, negative, arena);
	return hexadecimal(bytes, negative, arena);
}
