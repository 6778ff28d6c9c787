/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WRAP_H
#define WRAP_H

#include "render/writer.h"

/* Stands for a space at which no line is broken: between a number and its unit. Escaped
 * text never holds it. */
enum { WRAP_GLUE = '\x1f' };

/*
 * Writes a sentence in lines of at most `width` columns, broken at spaces only, so that a
 * word that is longer than a line sticks out (on the first line if it begins at `hang`). Lines after the first begin with `hang`
 * spaces. Colours take no columns. width 0: one line. Without a newline at the end. The
 * line has `column` columns already.
 */
void wrap_put(struct writer *to, const char *data, size_t size, size_t width, size_t hang,
	size_t column);

#endif
