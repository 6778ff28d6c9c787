/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_WIDTH_H
#define RENDER_WIDTH_H

#include <stddef.h>

/* Columns that escaped text takes on a terminal. */
size_t width_of(const char *data, size_t size);

/* Bytes of the longest beginning, or of the longest end, that fits into `columns`. */
size_t width_front(const char *data, size_t size, size_t columns);
size_t width_back(const char *data, size_t size, size_t columns);

#endif
