/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts by fields. A file of its own because no other file of lib/base uses it.
 */
#include <stdlib.h>

#include "base/sort.h"

static uint64_t load(const unsigned char *at, size_t size)
{
	if (size == 8)
		return fsdp_load_eight(at);
	return size == 4 ? fsdp_load_four(at) : *at;
}

static int compare(const void *a, const void *b, void *fields)
{
	for (const struct fsdp_sort_field *field = fields; field->kind != FSDP_SORT_END;
		field++) {
		const unsigned char *x = a, *y = b;
		if (field->pointed) {
			memcpy(&x, a, sizeof x);
			memcpy(&y, b, sizeof y);
		}
		x += field->offset;
		y += field->offset;
		int order;
		if (field->kind == FSDP_SORT_TEXT) {
			struct fsdp_span left, right;
			memcpy(&left, x, sizeof left);
			memcpy(&right, y, sizeof right);
			order = fsdp_span_compare(left, right);
		} else {
			uint64_t left = load(x, field->size);
			uint64_t right = load(y, field->size);
			/* A flipped sign bit puts negative numbers before others. */
			uint64_t sign = field->kind == FSDP_SORT_SIGNED
						? UINT64_C(1) << (8 * field->size - 1)
						: 0;
			left ^= sign;
			right ^= sign;
			order = left < right ? -1 : left > right;
		}
		if (order != 0)
			return field->descends ? -order : order;
	}
	return 0;
}

void fsdp_sort(
	void *items, size_t count, size_t item_size, const struct fsdp_sort_field *fields)
{
	union {
		const void *is;
		void *was; /* nothing is written */
	} context = { fields };
	size_t sorted = 1;
	/* Many lists are in order already. */
	while (sorted < count &&
		compare((const unsigned char *)items + (sorted - 1) * item_size,
			(const unsigned char *)items + sorted * item_size,
			context.was) <= 0)
		sorted++;
	if (sorted < count)
		qsort_r(items, count, item_size, compare, context.was);
}
