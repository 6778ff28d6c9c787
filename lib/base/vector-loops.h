/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_VECTOR_LOOPS_H
#define FSDP_BASE_VECTOR_LOOPS_H

#include <stdint.h>
#include <string.h>

/* A loop that is compiled for several kinds of processors; the program selects one when it
 * starts. Not with sanitizers, which run before that. */
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

/* Of a sign, some bits of exponent and a fraction of 10: `scale` moves the exponent to where
 * a float has it, of subnormal numbers too; what begins with `infinite` is not finite, which
 * the product would make of it. */
static inline float fsdp_float_of_f16(uint16_t half, uint16_t infinite, float scale)
{
	uint32_t bits = (uint32_t)(half & 0x7fff) << 13, scaled;
	float number = fsdp_float_of_bits(bits) * scale;
	memcpy(&scaled, &number, sizeof scaled);
	scaled = (half & 0x7fff) >= infinite ? bits | 0x7f800000 : scaled;
	return fsdp_float_of_bits(scaled | (uint32_t)(half & 0x8000) << 16);
}

#endif
