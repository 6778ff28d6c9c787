/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads slices, and finds the elements that they mean.
 */
#include <string.h>

#include "args/parse.h"
#include "cmd/show/slices.h"

enum { NUMBER_ROOM = 24 };

/* A part of the list, up to this many bytes; an empty one is not a number. */
static bool take_number(
	const char *text, size_t size, bool *ret_is_there, int64_t *ret_number)
{
	char number[NUMBER_ROOM];

	*ret_is_there = size > 0;
	if (size == 0)
		return true;
	if (size >= sizeof number)
		return false;
	memcpy(number, text, size);
	number[size] = '\0';
	return option_integer(number, -INT64_MAX, INT64_MAX, ret_number);
}

static bool take_slice(const char *text, size_t size, struct element_slice *ret_slice)
{
	const char *colon = memchr(text, ':', size);
	size_t front;

	*ret_slice = (struct element_slice){ .has_start = false };
	if (colon == NULL)
		return false;
	front = (size_t)(colon - text);
	return take_number(text, front, &ret_slice->has_start, &ret_slice->start) &&
	       take_number(
		       colon + 1, size - front - 1, &ret_slice->has_end, &ret_slice->end);
}

bool slices_parse(const char *text, struct element_slices *ret_slices)
{
	int64_t first;

	*ret_slices = (struct element_slices){ .count = 0 };
	if (option_integer(text, 1, INT64_MAX, &first)) {
		ret_slices->list[ret_slices->count++] =
			(struct element_slice){ .has_end = true, .end = first };
		return true;
	}
	for (;;) {
		size_t size = strcspn(text, ",");
		if (ret_slices->count == SLICES_MAX ||
			!take_slice(text, size, &ret_slices->list[ret_slices->count++]))
			return false;
		if (text[size] == '\0')
			return true;
		text += size + 1;
	}
}

/* An index from the front, at most numel. */
static uint64_t resolve(int64_t index, uint64_t numel)
{
	uint64_t back = index < 0 ? (uint64_t)-index : 0;

	if (index < 0)
		return back < numel ? numel - back : 0;
	return (uint64_t)index < numel ? (uint64_t)index : numel;
}

size_t slices_resolve(const struct element_slices *slices, uint64_t numel, uint64_t most,
	struct element_range ret_ranges[SLICES_MAX], bool *ret_cut)
{
	size_t count = 0;

	*ret_cut = false;
	for (size_t i = 0; i < slices->count; i++) {
		const struct element_slice *slice = &slices->list[i];
		uint64_t start = slice->has_start ? resolve(slice->start, numel) : 0;
		uint64_t end = slice->has_end ? resolve(slice->end, numel) : numel;
		if (end <= start)
			continue;
		if (end - start > most) {
			*ret_cut = true;
			end = start + most;
		}
		most -= end - start;
		if (end > start)
			ret_ranges[count++] = (struct element_range){ start, end - 1 };
	}
	return count;
}
