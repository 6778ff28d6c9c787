/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_ESCAPE_H
#define RENDER_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "render/writer.h"

/* Eight bytes of a text at once, wherever they begin. */

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t load_eight(const char *data)
{
	uint64_t word;
	memcpy(&word, data, sizeof word);
	return word;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What Unicode says of a character, up to U+10FFFF. */

/* Columns that it takes on a terminal: 0, 1 or 2. */
unsigned character_columns(uint32_t character);

/* Whether it is a control, a format or otherwise invisible character, a separator of lines
 * or paragraphs, half of a surrogate pair, or none that is assigned. */
bool character_is_hidden(uint32_t character);

/* internal to escape.c; gen-characters.c writes it while the program is built: where
 * a range begins, times eight, plus its columns, plus 4 if its characters are hidden. */
extern const uint32_t character_ranges[];
extern const size_t character_range_count;

/*
 * Names come from files that may have been made to hurt their reader. What leaves
 * through here is valid UTF-8 that cannot steer a terminal, reorder a line or hide:
 *
 *	invalid byte                        \xNN
 *	control below U+0080                \xNN
 *	other control, format, invisible,
 *	unassigned, line or paragraph mark  \u{nnnn}
 *	backslash                           \\, but only if anything was escaped
 *
 * A terminal without UTF-8 takes the bytes of a character one by one, and
 * those from 0x80 to 0x9f are controls to it: into a writer that is `ascii` everything
 * beyond ASCII goes as \u{nnnn}.
 */
enum escape_style {
	ESCAPE_TEXT,
	ESCAPE_TSV, /* and \t \n \r, backslashes doubled always */
	ESCAPE_CSV, /* tab and line ends stay: cells are quoted */
};

void escape_write(
	struct writer *writer, const char *data, size_t size, enum escape_style style);

/* The largest size up to `limit` that does not end inside of a character. */
size_t escape_cut(const char *data, size_t size, size_t limit);

/* Whether a character must not be shown as it is. */
bool escape_needed(uint32_t character);

/*
 * The first character of `size` > 0 bytes: its length, and the character itself. Invalid bytes
 * are taken by maximal subparts (Unicode 15, section 3.9):
 * *ret_character is then CHARACTER_NONE.
 */
#define CHARACTER_NONE UINT32_MAX
size_t character_decode(const char *data, size_t size, uint32_t *ret_character);

/* Columns that escaped text takes on a terminal. */
size_t width_of(const char *data, size_t size);

/* Bytes of the longest beginning, or of the longest end, that fits into `columns`. */
size_t width_front(const char *data, size_t size, size_t columns);
size_t width_back(const char *data, size_t size, size_t columns);

/* Stands for a space at which no line is broken: between a number and its unit. Escaped
 * text never holds it. */
enum { WRAP_GLUE = '\x1f' };

/*
 * Writes a sentence in lines of at most `width` columns, broken at spaces only, so that a
 * word that is longer than a line sticks out (on the first line if it begins at `hang`). Lines after the first begin with `hang`
 * spaces. Colours take no columns. width 0: one line. Without a newline at the end. The
 * line has `column` columns already.
 */
void wrap_write(struct writer *to, const char *data, size_t size, size_t width,
	size_t hang, size_t column);

#endif
