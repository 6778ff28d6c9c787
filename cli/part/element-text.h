/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELEMENTS_H
#define ELEMENTS_H

#include <fsdp/model.h>

#include "render/shape.h"

/* One element of a tensor, as it is stored (little-endian); one of several in a byte has
 * a byte of its own here. */
enum { ELEMENT_ROOM = 96 };

/*
 * For people: the shortest decimal that reads back in the type itself, a+bj for complex
 * numbers, True and False; types without a number of their own as hexadecimal. Lives in
 * the buffer.
 */
struct text element_text(
	uint32_t dtype, const unsigned char *bytes, char buffer[ELEMENT_ROOM]);

/* For programs: the same as a number, a truth value, or else a text that lives in buffer.
 */
struct token element_token(
	uint32_t dtype, const unsigned char *bytes, char buffer[ELEMENT_ROOM]);

#endif
