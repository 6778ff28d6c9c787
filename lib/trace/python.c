/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints strings and floats as Python does.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "trace/event.h"

static void make_room(struct fsdp_python *python, size_t size)
{
	if (python->room - python->size > size)
		return;
	python->room = 2 * (python->size + size) + 64;
	unsigned char *text = fsdp_arena_take(python->arena, python->room, 1);
	if (python->size != 0)
		memcpy(text, python->text, python->size);
	python->text = text;
}

void fsdp_python_add(struct fsdp_python *python, struct fsdp_span text)
{
	make_room(python, text.size);
	if (text.size != 0)
		memcpy(python->text + python->size, text.data, text.size);
	python->size += text.size;
}

void fsdp_python_put(struct fsdp_python *python, const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (size > 0)
		fsdp_python_add(python,
			fsdp_span(text, (size_t)size < sizeof text ? (size_t)size
								   : sizeof text - 1));
}

struct fsdp_span fsdp_python_take(struct fsdp_python *python)
{
	make_room(python, 1);
	python->text[python->size] = '\0';
	return fsdp_span(python->text, python->size);
}

static const struct {
	uint32_t first, last;
} unprintable[] = {
#define UNPRINTABLE(first, last) { first, last },
#include "trace/python-unprintable.def"
#undef UNPRINTABLE
};

static bool is_printable(uint32_t point)
{
	size_t low = 0, high = FSDP_COUNT(unprintable);
	FSDP_HALVE(low, high, middle, unprintable[middle].last < point)
	return low == FSDP_COUNT(unprintable) || point < unprintable[low].first;
}

/* The bytes of one code point; surrogates are written like any other. 1 and the byte: it
 * is not UTF-8. */
static size_t decode_point(const unsigned char *at, size_t left, uint32_t *ret_point)
{
	size_t size = *at >= 0xf0 && *at < 0xf8 ? 4
		      : *at >= 0xe0             ? 3
		      : *at >= 0xc0             ? 2
						: 1;
	uint32_t point = size == 1 ? *at : *at & (0x7fu >> size);
	*ret_point = *at;
	if (*at >= 0xf8 || size > left)
		return 1;
	for (size_t i = 1; i < size; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 1;
		point = point << 6 | (at[i] & 0x3f);
	}
	*ret_point = point;
	return size;
}

void fsdp_python_repr(struct fsdp_python *python, struct fsdp_span text)
{
	bool single = text.size != 0 && memchr(text.data, '\'', text.size) != NULL;
	bool twice = text.size != 0 && memchr(text.data, '"', text.size) != NULL;
	unsigned char quote = single && !twice ? '"' : '\'';
	fsdp_python_put(python, "%c", quote);
	for (size_t i = 0; i < text.size;) {
		uint32_t point;
		size_t size = decode_point(text.data + i, text.size - i, &point);
		if (text.data[i] < 0x80) {
			unsigned char c = text.data[i];
			if (c == quote || c == '\\')
				fsdp_python_put(python, "\\%c", c);
			else if (c == '\n' || c == '\r' || c == '\t')
				fsdp_python_put(python, "\\%c",
					c == '\n'   ? 'n'
					: c == '\r' ? 'r'
						    : 't');
			else if (c < 0x20 || c == 0x7f)
				fsdp_python_put(python, "\\x%02x", c);
			else
				fsdp_python_add(python, fsdp_span(&c, 1));
		} else {
			/* One character beyond ASCII: as it is, or by its number. */
			struct fsdp_span bytes = fsdp_span(text.data + i, size);
			if (bytes.size == 1 || point > 0x10ffff || is_printable(point))
				fsdp_python_add(python, bytes);
			else if (point < 0x100)
				fsdp_python_put(python, "\\x%02x", point);
			else if (point < 0x10000)
				fsdp_python_put(python, "\\u%04x", point);
			else
				fsdp_python_put(python, "\\U%08x", point);
		}
		i += size;
	}
	fsdp_python_put(python, "%c", quote);
}

/*
 * A float prints as the shortest decimal that reads back the same, which is the decimal
 * with nine places itself: such a number of seconds has at most sixteen digits for four
 * months.
 */
void fsdp_python_seconds(struct fsdp_python *python, int64_t ns)
{
	char digits[24];
	uint64_t left = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	int places = 9;
	if (ns < 0)
		fsdp_python_put(python, "-");
	if (left == 0) {
		fsdp_python_put(python, "0.0");
		return;
	}
	for (; places > 0 && left % 10 == 0; places--)
		left /= 10;
	int size = snprintf(digits, sizeof digits, "%llu", FSDP_LLU(left));
	int point = size - places; /* so many digits are before it */
	if (point > 0) {
		fsdp_python_put(python, "%.*s.%s", point, digits,
			places > 0 ? digits + point : "0");
	} else if (point > -4) {
		fsdp_python_put(python, "0.%.*s%s", -point, "0000", digits);
	} else {
		fsdp_python_put(python, "%c%s%se-%02d", digits[0], size > 1 ? "." : "",
			digits + 1, 1 - point);
	}
}
