/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves out the middle of a text that is too long.
 */
#include "render/escape.h"
#include "render/grid.h"

size_t grid_put_short(
	struct writer *writer, const char *data, size_t size, size_t columns, bool ascii)
{
	const char *mark = ascii ? "..." : "\xe2\x80\xa6";
	size_t mark_width = ascii ? 3 : 1;
	size_t room = columns > mark_width ? columns - mark_width : 0;
	/* Names differ at their ends more often than at their beginnings. */
	size_t front = width_front(data, size, room / 2);
	size_t back = width_back(data, size, room - room / 2);
	writer_put(writer, data, front);
	writer_text(writer, mark);
	writer_put(writer, data + size - back, back);
	return width_of(data, front) + mark_width + width_of(data + size - back, back);
}
