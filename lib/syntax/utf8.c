/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code points to UTF-8, and which bytes are UTF-8.
 */
#include "syntax/utf8.h"

unsigned char *fsdp_utf8_put(unsigned char *out, uint32_t point)
{
	if (point < 0x80) {
		*out++ = (unsigned char)point;
		return out;
	}
	if (point < 0x800) {
		*out++ = (unsigned char)(0xc0 | point >> 6);
	} else {
		if (point < 0x10000) {
			*out++ = (unsigned char)(0xe0 | point >> 12);
		} else {
			*out++ = (unsigned char)(0xf0 | point >> 18);
			*out++ = (unsigned char)(0x80 | (point >> 12 & 0x3f));
		}
		*out++ = (unsigned char)(0x80 | (point >> 6 & 0x3f));
	}
	*out++ = (unsigned char)(0x80 | (point & 0x3f));
	return out;
}

/* Bytes of the character that begins here, or 0. Which second bytes are good depends on
 * the first: that keeps out what is overlong, surrogates, and the end of the range. */
static size_t character(const unsigned char *at, size_t left)
{
	unsigned char first = at[0];
	size_t size = first < 0x80   ? 1
		      : first < 0xc2 ? 0
		      : first < 0xe0 ? 2
		      : first < 0xf0 ? 3
		      : first < 0xf5 ? 4
				     : 0;
	if (size < 2 || size > left)
		return size > left ? 0 : size;
	unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < size; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return size;
}

bool fsdp_utf8_is_valid(struct fsdp_span text)
{
	const uint64_t high = UINT64_C(0x8080808080808080);
	for (size_t at = 0; at < text.size;) {
		size_t left = text.size - at, size = sizeof high;
		if (left < size || (fsdp_load_eight(text.data + at) & high) != 0)
			size = character(text.data + at, left);
		if (size == 0)
			return false;
		at += size;
	}
	return true;
}

static int digit_of(unsigned char c)
{
	if (fsdp_is_digit(c))
		return c - '0';
	unsigned char low = c | 0x20;
	return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

bool fsdp_hex_take(const unsigned char **at, const unsigned char *end, int count,
	uint32_t *ret_value)
{
	if (end - *at < count)
		return false;
	uint32_t value = 0;
	for (int i = 0; i < count; i++) {
		int digit = digit_of((*at)[i]);
		if (digit < 0)
			return false;
		value = value << 4 | (uint32_t)digit;
	}
	*at += count;
	*ret_value = value;
	return true;
}
