/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and strings as protocol 0 writes them, as text.
 *
 * Strings are Python 2's repr (STRING) or raw-unicode-escape (UNICODE). Both only shrink,
 * or grow from Latin-1 to UTF-8 by at most half of the escape or twice the byte.
 */
#include "syntax/decimal.h"
#include "syntax/pickle-internal.h"
#include "syntax/utf8.h"

static int digit_of(unsigned char c)
{
	if (fsdp_is_digit(c))
		return c - '0';
	unsigned char low = c | 0x20;
	return low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

/* The base that a prefix names; moves *at behind it. */
static int base_of(const unsigned char **at, const unsigned char *end, bool octal)
{
	if (end - *at < 2 || **at != '0')
		return 10;
	unsigned char mark = (*at)[1] | 0x20;
	int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
	if (base != 0) {
		*at += 2;
		return base;
	}
	return octal ? 8 : 10;
}

enum number_kind fsdp_pickle_text_integer(
	struct fsdp_span line, bool octal, int64_t *ret_value)
{
	const unsigned char *at = line.data, *end = at + line.size;
	bool negative = at < end && *at == '-';
	if (at < end && (*at == '-' || *at == '+'))
		at++;
	int base = base_of(&at, end, octal);
	if (at == end)
		return NUMBER_BAD;
	uint64_t value = 0;
	bool big = false, leading = *at == '0' && end - at > 1;
	for (; at < end; at++) {
		int digit = digit_of(*at);
		if (digit >= base)
			return NUMBER_BAD;
		big |= __builtin_mul_overflow(value, (uint64_t)base, &value);
		big |= __builtin_add_overflow(value, (uint64_t)digit, &value);
	}
	if (base == 10 && leading && value != 0)
		return NUMBER_BAD;
	if (big || value > (uint64_t)INT64_MAX + negative)
		return NUMBER_BIG;
	*ret_value = (int64_t)(negative ? 0 - value : value);
	return base == 10 || value == 0 ? NUMBER_PLAIN : NUMBER_PREFIXED;
}

static bool is_word(const unsigned char *at, const unsigned char *end, const char *word)
{
	size_t size = strlen(word);
	if ((size_t)(end - at) != size)
		return false;
	for (size_t i = 0; i < size; i++)
		if ((at[i] | 0x20) != word[i])
			return false;
	return true;
}

bool fsdp_pickle_text_float(struct fsdp_span line, struct fsdp_arena *scratch,
	double *ret_value, bool *ret_memory)
{
	const unsigned char *at = line.data, *end = at + line.size;
	bool negative = at < end && *at == '-';
	if (at < end && (*at == '-' || *at == '+'))
		at++;
	double value = __builtin_inf();
	if (is_word(at, end, "nan"))
		value = __builtin_nan("");
	else if (!is_word(at, end, "inf") && !is_word(at, end, "infinity"))
		return fsdp_decimal_real(line, scratch, ret_value, ret_memory);
	*ret_value = negative ? -value : value;
	return true;
}

/* ---- STRING ---- */

/* The escape behind a backslash; what is not an escape keeps its backslash. */
static bool take_escape(
	const unsigned char **at, const unsigned char *end, unsigned char **out)
{
	static const char letters[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
	if (*at == end)
		return false;
	unsigned char c = *(*at)++;
	for (size_t i = 0; i + 1 < sizeof letters; i += 2)
		if (c == (unsigned char)letters[i]) {
			*(*out)++ = (unsigned char)letters[i + 1];
			return true;
		}
	uint32_t value;
	if (c == 'x') {
		if (!fsdp_hex_take(at, end, 2, &value))
			return false;
		*(*out)++ = (unsigned char)value;
		return true;
	}
	if (c < '0' || c > '7') {
		*(*out)++ = '\\';
		*(*out)++ = c;
		return true;
	}
	value = c - '0';
	for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++)
		value = value << 3 | (uint32_t)(*(*at)++ - '0');
	*(*out)++ = (unsigned char)value;
	return true;
}

bool fsdp_pickle_text_string(struct fsdp_span line, struct fsdp_arena *arena,
	struct fsdp_span *ret_text, bool *ret_memory)
{
	if (line.size < 2 || (line.data[0] != '\'' && line.data[0] != '"') ||
		line.data[line.size - 1] != line.data[0])
		return false;
	const unsigned char *at = line.data + 1, *end = line.data + line.size - 1;
	*ret_text = fsdp_span(at, (size_t)(end - at));
	if (memchr(at, '\\', ret_text->size) == NULL)
		return true;
	unsigned char *begin = fsdp_arena_take(arena, ret_text->size, 1), *out = begin;
	if (begin == NULL) {
		*ret_memory = true;
		return false;
	}
	while (at < end) {
		if (*at != '\\') {
			*out++ = *at++;
			continue;
		}
		at++;
		if (!take_escape(&at, end, &out))
			return false;
	}
	*ret_text = fsdp_span(begin, (size_t)(out - begin));
	return true;
}

/* ---- UNICODE ---- */

static bool needs_decoding(struct fsdp_span line)
{
	for (size_t i = 0; i < line.size; i++)
		if (line.data[i] == '\\' || line.data[i] >= 0x80)
			return true;
	return false;
}

bool fsdp_pickle_text_unicode(struct fsdp_span line, struct fsdp_arena *arena,
	struct fsdp_span *ret_text, bool *ret_memory)
{
	*ret_text = line;
	if (!needs_decoding(line))
		return true;
	unsigned char *begin = fsdp_arena_take(arena, line.size * 2, 1), *out = begin;
	if (begin == NULL) {
		*ret_memory = true;
		return false;
	}
	const unsigned char *at = line.data, *end = at + line.size;
	while (at < end) {
		uint32_t point = *at++;
		if (point == '\\' && at < end && (*at == 'u' || *at == 'U')) {
			int digits = *at++ == 'u' ? 4 : 8;
			if (!fsdp_hex_take(&at, end, digits, &point) || point > 0x10ffff)
				return false;
		} else if (point == '\\' && at < end) {
			*out++ = '\\';
			point = *at++;
		}
		out = fsdp_utf8_put(out, point);
	}
	*ret_text = fsdp_span(begin, (size_t)(out - begin));
	return true;
}
