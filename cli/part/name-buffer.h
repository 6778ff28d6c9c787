/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NAMES_H
#define NAMES_H

#include <fsdp/model.h>

#include "render/shape.h"

/*
 * A place for one name at a time, which grows as names do. Running out of memory is
 * remembered: texts are empty from then on, and the command asks once at its end.
 * All zero is an empty buffer.
 */
struct name_buffer {
	char *data;
	size_t size; /* allocated */
	bool failed;
};

void name_buffer_done(struct name_buffer *buffer);

/* The name, valid until the buffer's next use. FSDP_NONE gives an absent text. */
struct text name_text(struct name_buffer *buffer,
	const struct fsdp_checkpoint *checkpoint, uint32_t name);

/* A place for at least `size` bytes; what was there is kept. NULL: out of memory. */
char *name_buffer_reserve(struct name_buffer *buffer, size_t size);

/* Appends to the text of *length bytes that the buffer holds. */
void name_buffer_append(struct name_buffer *buffer, size_t *length, struct text text);

/* What stands behind the last separator: all of it if there is none. */
struct text text_last(struct text text, char separator);

#endif
