/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_NUM_H
#define FSDP_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Checked arithmetic on numbers that a file claims. All return false on overflow and then
 * leave *ret untouched. */

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

/* A loop that is compiled for several kinds of processors; the program selects one when
 * it starts. Not with sanitizers, which run before that. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && \
	!defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&          \
	!defined(__SANITIZE_THREAD__)
#define FSDP_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define FSDP_CLONES
#endif

/* The number that floats of 16 bits are, for loops that the compiler makes vectors of. */

static inline float fsdp_float_of_bits(uint32_t bits)
{
	float number;
	memcpy(&number, &bits, sizeof number);
	return number;
}

static inline float fsdp_float_of_bf16(uint16_t bits)
{
	return fsdp_float_of_bits((uint32_t)bits << 16);
}

/* Of a sign, some bits of exponent and a fraction of 10: `scale` moves the exponent to
 * where a float has it, of subnormal numbers too; what begins with `infinite` is not
 * finite, which the product would make of it. */
static inline float fsdp_float_of_f16(uint16_t half, uint16_t infinite, float scale)
{
	uint32_t bits = (uint32_t)(half & 0x7fff) << 13, scaled;
	float number = fsdp_float_of_bits(bits) * scale;
	memcpy(&scaled, &number, sizeof scaled);
	scaled = (half & 0x7fff) >= infinite ? bits | 0x7f800000 : scaled;
	return fsdp_float_of_bits(scaled | (uint32_t)(half & 0x8000) << 16);
}

#endif
