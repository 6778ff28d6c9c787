/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLICES_H
#define SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which elements --values asks for: "8", the first eight, or slices as Python has them,
 * "0:8,-4:", of the elements in C order.
 */
enum { SLICES_MAX = 16 };

struct element_slices {
	size_t count;
	struct element_slice {
		bool has_start, has_end;
		int64_t start, end; /* negative: from the end on */
	} list[SLICES_MAX];
};

/* Elements, both inclusive. */
struct element_range {
	uint64_t start, end;
};

/* False: the text is not a list of slices, or has more than SLICES_MAX. */
bool slices_parse(const char *text, struct element_slices *ret_slices);

/* The ranges of a tensor with so many elements, without empty ones; together at most `most` elements. *ret_cut: more
 * exist. Returns the number of ranges. */
size_t slices_resolve(const struct element_slices *slices, uint64_t numel, uint64_t most,
	struct element_range ret_ranges[SLICES_MAX], bool *ret_cut);

#endif
