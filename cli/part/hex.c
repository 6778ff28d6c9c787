/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes digests as people know them.
 */
#include "part/hex.h"

struct text hex_text(const unsigned char *digest, char buffer[HEX_ROOM])
{
	static const char digits[] = "0123456789abcdef";

	if (digest == NULL)
		return (struct text){ NULL, 0 };
	for (size_t i = 0; i < HEX_BYTES; i++) {
		buffer[2 * i] = digits[digest[i] >> 4];
		buffer[2 * i + 1] = digits[digest[i] & 15];
	}
	buffer[HEX_ROOM - 1] = '\0';
	return (struct text){ buffer, HEX_ROOM - 1 };
}

static int digit_of(char byte)
{
	if (is_digit(byte))
		return byte - '0';
	return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

bool hex_bytes(struct text digits, unsigned char ret_digest[HEX_BYTES])
{
	if (digits.size != HEX_ROOM - 1)
		return false;
	for (size_t i = 0; i < HEX_BYTES; i++) {
		int high = digit_of(digits.data[2 * i]);
		int low = digit_of(digits.data[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		ret_digest[i] = (unsigned char)(high * 16 + low);
	}
	return true;
}
