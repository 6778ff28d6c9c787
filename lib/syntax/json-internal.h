/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_INTERNAL_H
#define FSDP_SYNTAX_JSON_INTERNAL_H

#include "base/characters.h"
#include "syntax/json-scan.h"

/* Classes of the bytes of JSON, and loops that pass many at once. All of these may read
 * up to the zero bytes after a window, and stop there at the latest. */

enum { BLANK = 1, DIGIT = 2, NUMBER = 4, WORD = 8 };

/* clang-format off */
static const unsigned char classes[256] = {
	[' '] = BLANK, ['\t'] = BLANK, ['\n'] = BLANK, ['\r'] = BLANK,
	['0'] = DIGIT | NUMBER | WORD, ['1'] = DIGIT | NUMBER | WORD,
	['2'] = DIGIT | NUMBER | WORD, ['3'] = DIGIT | NUMBER | WORD,
	['4'] = DIGIT | NUMBER | WORD, ['5'] = DIGIT | NUMBER | WORD,
	['6'] = DIGIT | NUMBER | WORD, ['7'] = DIGIT | NUMBER | WORD,
	['8'] = DIGIT | NUMBER | WORD, ['9'] = DIGIT | NUMBER | WORD,
	['+'] = NUMBER, ['-'] = NUMBER, ['.'] = NUMBER,
	['A'] = WORD, ['B'] = WORD, ['C'] = WORD, ['D'] = WORD, ['E'] = NUMBER | WORD,
	['F'] = WORD, ['G'] = WORD, ['H'] = WORD, ['I'] = WORD, ['J'] = WORD,
	['K'] = WORD, ['L'] = WORD, ['M'] = WORD, ['N'] = WORD, ['O'] = WORD,
	['P'] = WORD, ['Q'] = WORD, ['R'] = WORD, ['S'] = WORD, ['T'] = WORD,
	['U'] = WORD, ['V'] = WORD, ['W'] = WORD, ['X'] = WORD, ['Y'] = WORD,
	['Z'] = WORD, ['_'] = WORD, ['/'] = WORD,
	['a'] = WORD, ['b'] = WORD, ['c'] = WORD, ['d'] = WORD, ['e'] = NUMBER | WORD,
	['f'] = WORD, ['g'] = WORD, ['h'] = WORD, ['i'] = WORD, ['j'] = WORD,
	['k'] = WORD, ['l'] = WORD, ['m'] = WORD, ['n'] = WORD, ['o'] = WORD,
	['p'] = WORD, ['q'] = WORD, ['r'] = WORD, ['s'] = WORD, ['t'] = WORD,
	['u'] = WORD, ['v'] = WORD, ['w'] = WORD, ['x'] = WORD, ['y'] = WORD,
	['z'] = WORD,
};
/* clang-format on */

static inline bool is(unsigned char c, unsigned char class)
{
	return (classes[c] & class) != 0;
}

/* Length of a JSON number here; 0: none. */
static inline size_t number_size(const unsigned char *text)
{
	const unsigned char *at = text;
	if (*at == '-')
		at++;
	if (*at == '0')
		at++;
	else if (is(*at, DIGIT))
		while (is(*at, DIGIT))
			at++;
	else
		return 0;
	if (*at == '.') {
		if (!is(*++at, DIGIT))
			return 0;
		while (is(*at, DIGIT))
			at++;
	}
	if (*at == 'e' || *at == 'E') {
		at++;
		if (*at == '+' || *at == '-')
			at++;
		if (!is(*at, DIGIT))
			return 0;
		while (is(*at, DIGIT))
			at++;
	}
	return (size_t)(at - text);
}

/* Length of the escape after the backslash at `text`; 0: not a JSON escape. */
static inline size_t escape_size(const unsigned char *text)
{
	if (text[1] != 'u')
		return text[1] != '\0' && strchr("\"\\/bfnrt", text[1]) != NULL ? 2 : 0;
	const unsigned char *digits = text + 2;
	uint32_t value;
	return fsdp_hex_take(&digits, text + 6, 4, &value) ? 6 : 0;
}

/* ---- many bytes at once ---- */

#if defined __SSE2__
/* The compilers' own vectors: what they make of these is SSE2. */
typedef unsigned char sixteen __attribute__((vector_size(16)));
typedef char chars __attribute__((vector_size(16)));
typedef signed char signs __attribute__((vector_size(16)));

static inline sixteen load(const unsigned char *at)
{
	sixteen bytes;
	memcpy(&bytes, at, sizeof bytes);
	return bytes;
}

/* A bit a byte. */
static inline unsigned bits(sixteen bytes)
{
	return (unsigned)__builtin_ia32_pmovmskb128((chars)bytes);
}

/* Quotes, backslashes, control bytes and those with the eighth bit. */
static inline unsigned find_deviation(sixteen bytes)
{
	return bits((sixteen)((bytes == '"') | (bytes == '\\') | ((signs)bytes < 0x20)));
}

static inline unsigned find_not_digits(sixteen bytes)
{
	return bits((sixteen)((bytes - '0') >= 10));
}

/* The next quote, backslash, control byte or zero. *high: bytes before it with the eighth
 * bit. */
static inline const unsigned char *find_special(const unsigned char *at, unsigned *high)
{
	for (;; at += 16) {
		sixteen bytes = load(at);
		unsigned special = bits(
			(sixteen)((bytes == '"') | (bytes == '\\') | (bytes < 0x20)));
		if (special != 0) {
			unsigned count = (unsigned)__builtin_ctz(special);
			*high |= bits(bytes) & ((1u << count) - 1);
			return at + count;
		}
		*high |= bits(bytes);
	}
}

static inline const unsigned char *find_not_blank(const unsigned char *at)
{
	for (;; at += 16) {
		sixteen bytes = load(at);
		unsigned other = ~bits((sixteen)((bytes == ' ') | (bytes == '\n') |
						 (bytes == '\r') | (bytes == '\t'))) &
				 0xffff;
		if (other != 0)
			return at + __builtin_ctz(other);
	}
}
#else
static inline const unsigned char *find_special(const unsigned char *at, unsigned *high)
{
	for (; *at != '"' && *at != '\\' && *at >= 0x20; at++)
		*high |= *at & 0x80;
	return at;
}

static inline const unsigned char *find_not_blank(const unsigned char *at)
{
	while (is(*at, BLANK))
		at++;
	return at;
}
#endif

enum { /* what may come next */
	EXPECT_VALUE,
	EXPECT_FIRST_KEY, /* or the end of the object */
	EXPECT_KEY,
	EXPECT_FIRST_ELEMENT, /* or the end of the array */
	EXPECT_ELEMENT,
	EXPECT_COMMA, /* or the end of what is open */
	EXPECT_NOTHING,
};

/* After the brace or bracket that ended the innermost container. */
void fsdp_json_leave(struct fsdp_json_scan *scan);

/* What was seen inside a string. */
struct text_marks {
	bool escaped, bad_escape, control;
	unsigned high; /* not 0: bytes with the eighth bit */
};

/* A quote follows the text. */
void fsdp_json_text_marks(struct fsdp_span text, struct text_marks *marks);

#endif
