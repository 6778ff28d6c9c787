/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_PLAIN_H
#define RENDER_PLAIN_H

#include "render/shape.h"
#include "render/writer.h"

/* Lists as people write them, for outputs that have no lists. */

/* 4096x14336; a scalar is []. */
void plain_shape(struct writer *writer, const int64_t *items, size_t count);

/* With blanks between. */
void plain_counts(struct writer *writer, const int64_t *items, size_t count);

/* A bar for each, as high as it is compared with the largest; of 0 none. */
void plain_bars(struct writer *writer, const int64_t *items, size_t count, bool ascii);

/* Joined, bytes as they are: escape the whole. */
void plain_texts(struct writer *writer, const struct text *items, size_t count,
	const char *separator);

#endif
