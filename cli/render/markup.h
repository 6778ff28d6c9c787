/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_MARKUP_H
#define RENDER_MARKUP_H

#include "render/shape.h"
#include "render/writer.h"

/* A text as XML and HTML have it, in elements and in quoted attributes. What may not be
 * shown as it is, is spelled out as on a terminal (escape.h). */
void markup_put(struct writer *to, struct text text);

#endif
