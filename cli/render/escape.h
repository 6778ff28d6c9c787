/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_ESCAPE_H
#define RENDER_ESCAPE_H

#include "render/writer.h"

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
 * A terminal that does not know UTF-8 takes the bytes of a character one by one, and
 * those from 0x80 to 0x9f are controls to it: into a writer that is `ascii` everything
 * beyond ASCII goes as \u{nnnn}.
 */
enum escape_style {
	ESCAPE_TEXT,
	ESCAPE_TSV, /* and \t \n \r, backslashes doubled always */
	ESCAPE_CSV, /* tab and line ends stay: cells are quoted */
};

void escape_put(
	struct writer *writer, const char *data, size_t size, enum escape_style style);

/* The largest size up to `limit` that does not end inside of a character. */
size_t escape_cut(const char *data, size_t size, size_t limit);

/* Whether a character must not be shown as it is. */
bool escape_needed(uint32_t character);

/*
 * The first character of `size` > 0 bytes: its length, and the character itself. Bytes
 * that are no character are taken by maximal subparts (Unicode 15, section 3.9):
 * *ret_character is then CHARACTER_NONE.
 */
#define CHARACTER_NONE UINT32_MAX
size_t character_take(const char *data, size_t size, uint32_t *ret_character);

#endif
