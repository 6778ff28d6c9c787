/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The terminal that the process runs on, while a view fills it. There is one, so its
 * state is that of the process.
 *
 * terminal_claim reads terminfo, so it must be called before the sandbox is entered. While
 * a view is shown, every signal that ends or stops the process, a crash included, restores
 * the terminal first; a stopped process shows the view again when it is continued.
 */

/* Whether this program was built with it. */
bool terminal_built(void);

/*
 * Asks whether there is a terminal that a view can fill, and reads terminfo. NULL: there
 * is one. Else why there is none, a sentence without its full stop; nothing was changed.
 */
const char *terminal_claim(void);

/* Switches to the alternate screen and to reading keys. False: the modes of the terminal
 * cannot be set. */
bool terminal_open(void);

/* Restores the terminal and frees all rows. Harmless if it is not open. */
void terminal_close(void);

struct terminal_size {
	int rows, columns;
};

/* Never less than one of each. */
struct terminal_size terminal_size(void);

enum terminal_style { STYLE_PLAIN, STYLE_BAR, STYLE_CURSOR, STYLE_HEAD };

/*
 * Sets the text of a row, counted from 0; terminal_show writes the rows that changed. `data`
 * is copied. It must be printable and no wider than the screen. False: out of memory.
 */
bool terminal_put(int row, enum terminal_style style, const char *data, size_t size);
void terminal_show(void);

/* Forgets what was shown, so that all of it is shown anew. */
void terminal_redraw(void);

/* What was typed: a character, or one of these. */
enum terminal_key {
	TERMINAL_NOTHING = -1, /* the time is over, or the size has changed */
	TERMINAL_GONE = -2,    /* there will be nothing more */
	TERMINAL_UP = 0x100,
	TERMINAL_DOWN,
	TERMINAL_LEFT,
	TERMINAL_RIGHT,
	TERMINAL_HOME,
	TERMINAL_END,
	TERMINAL_PAGE_UP,
	TERMINAL_PAGE_DOWN,
	TERMINAL_ENTER,
	TERMINAL_BACKSPACE,
	TERMINAL_ESCAPE,
	TERMINAL_OTHER, /* a key that is none of these */
};

/* Waits for so many milliseconds; below 0: for ever. */
int terminal_key(int timeout_ms);

#endif
