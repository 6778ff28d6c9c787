/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_PLAIN_H
#define RENDER_PLAIN_H

#include "render/shape.h"
#include "render/writer.h"

/* Lists as people write them, for outputs that have no lists. */

/* 4096x14336; a scalar is []. */
void plain_shape(struct writer *writer, const int64_t *items, size_t count);

/* Joined, bytes as they are: escape the whole. */
void plain_texts(struct writer *writer, const struct text *items, size_t count,
	const char *separator);

#endif
