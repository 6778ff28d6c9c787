/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the name of an id into a buffer.
 */
#include <stdlib.h>
#include <string.h>

#include "part/name-buffer.h"

enum { FIRST_SIZE = 256 };

void name_buffer_done(struct name_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct name_buffer){ NULL, 0, false };
}

char *name_buffer_reserve(struct name_buffer *buffer, size_t size)
{
	size_t larger = buffer->size < FIRST_SIZE ? FIRST_SIZE : buffer->size;
	char *data;

	if (size <= buffer->size && buffer->data != NULL)
		return buffer->data;
	while (larger < size && larger <= SIZE_MAX / 2)
		larger *= 2;
	data = larger < size ? NULL : realloc(buffer->data, larger);
	if (data == NULL) {
		buffer->failed = true;
		return NULL;
	}
	buffer->data = data;
	buffer->size = larger;
	return data;
}

struct text name_text(struct name_buffer *buffer,
	const struct fsdp_checkpoint *checkpoint, uint32_t name)
{
	size_t length;

	if (name == FSDP_NONE)
		return (struct text){ NULL, 0 };
	if (name_buffer_reserve(buffer, FIRST_SIZE) == NULL)
		return (struct text){ "", 0 };
	length = fsdp_name_write(checkpoint, name, buffer->data, buffer->size);
	if (length > buffer->size) {
		if (name_buffer_reserve(buffer, length) == NULL)
			return (struct text){ "", 0 };
		length = fsdp_name_write(checkpoint, name, buffer->data, buffer->size);
	}
	return (struct text){ buffer->data, length };
}

void name_buffer_append(struct name_buffer *buffer, size_t *length, struct text text)
{
	if (text.size > SIZE_MAX - *length - 1 ||
		name_buffer_reserve(buffer, *length + text.size + 1) == NULL)
		return;
	if (text.size > 0)
		memcpy(buffer->data + *length, text.data, text.size);
	*length += text.size;
}

struct text text_last(struct text text, char separator)
{
	size_t begin = text.size;

	while (begin > 0 && text.data[begin - 1] != separator)
		begin--;
	if (begin == 0)
		return text;
	return (struct text){ text.data + begin, text.size - begin };
}
