/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_JSON_VALUE_H
#define RENDER_JSON_VALUE_H

#include "render/shape.h"
#include "render/writer.h"

/*
 * None of these is called json_something: that is how jansson names its own, and both
 * may be in one program.
 *
 * A string with its quotes. Always valid UTF-8: each maximal run of bytes that is no
 * character becomes U+FFFD, and false is returned. What may not be shown on a terminal is
 * written as \uNNNN, and so is all beyond ASCII into a writer that is `ascii`.
 */
bool spell_string(struct writer *writer, const char *data, size_t size);

/* Any value; absent is null. False: a text was repaired. */
bool spell_value(struct writer *writer, const struct value *value);

/* A string with its quotes: base64 of the bytes as they are. */
void spell_base64(struct writer *writer, struct text text);

#endif
