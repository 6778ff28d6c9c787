/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_NUM_H
#define FSDP_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Checked arithmetic on numbers that a file claims. All return false on overflow
 * and then leave *ret untouched. */

static inline bool fsdp_add(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t sum;
	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*ret = sum;
	return true;
}

static inline bool fsdp_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t product;
	if (__builtin_mul_overflow(a, b, &product))
		return false;
	*ret = product;
	return true;
}

/* Elements of a shape; 1 for no dimensions, 0 as soon as one of them is 0. */
static inline bool fsdp_numel(const int64_t *shape, size_t dims, uint64_t *ret)
{
	uint64_t product = 1;
	bool overflow = false, zero = false;
	for (size_t i = 0; i < dims; i++) {
		if (shape[i] < 0)
			return false;
		if (shape[i] == 0)
			zero = true;
		if (!overflow && !fsdp_mul(product, (uint64_t)shape[i], &product))
			overflow = true;
	}
	if (overflow && !zero)
		return false;
	*ret = zero ? 0 : product;
	return true;
}

/* Moves `low` up to the first index below `high` for which `before`, a condition on
 * `middle`, is false, or to `high`. It must be true for all indices before that one. */
#define FSDP_HALVE(low, high, middle, before)           \
	while (low < high) {                            \
		size_t middle = low + (high - low) / 2; \
		if (before)                             \
			low = middle + 1;               \
		else                                    \
			high = middle;                  \
	}

/* The index of a number in an ascending list, or `count`. */
static inline size_t fsdp_find_sorted(
	const uint32_t *sorted, size_t count, uint32_t number)
{
	size_t low = 0, high = count;
	FSDP_HALVE(low, high, middle, sorted[middle] < number);
	return low < count && sorted[low] == number ? low : count;
}

/* Whether two boxes have something in common, from one dimension on; neither is empty. */
static inline bool fsdp_boxes_meet(const int64_t *a_offsets, const int64_t *a_sizes,
	const int64_t *b_offsets, const int64_t *b_sizes, uint32_t first, uint32_t dims)
{
	for (uint32_t i = first; i < dims; i++)
		if (a_offsets[i] - b_offsets[i] >= b_sizes[i] ||
			b_offsets[i] - a_offsets[i] >= a_sizes[i])
			return false;
	return true;
}

static inline uint64_t fsdp_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
