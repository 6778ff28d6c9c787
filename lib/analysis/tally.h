/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_TALLY_H
#define FSDP_ANALYSIS_TALLY_H

#include <fsdp/model.h>

#include "base/num.h"

/* What analyses share about adding up. Sums saturate at FSDP_UNKNOWN. */

static inline void fsdp_tally(uint64_t *sum, uint64_t more)
{
	if (!fsdp_add(*sum, more, sum))
		*sum = FSDP_UNKNOWN;
}

/* Bytes of so many elements of the logical tensor, those smaller than a byte packed. */
static inline uint64_t fsdp_elements_bytes(uint32_t dtype, uint64_t numel)
{
	uint64_t bits = fsdp_dtype(dtype)->item_bits, bytes;

	/* Whole bytes first: numel * bits may not fit. */
	if (!fsdp_mul(numel / 8, bits, &bytes))
		return FSDP_UNKNOWN;
	fsdp_tally(&bytes, (numel % 8 * bits + 7) / 8);
	return bytes;
}

/* Whether its elements are counted: each once, though tied names share them and a
 * FlatParameter's are those of the parameters in it. */
static inline bool fsdp_tensor_counts(const struct fsdp_tensor *tensor)
{
	return tensor->alias == FSDP_NONE && (tensor->flags & FSDP_TENSOR_SPREAD) == 0;
}

#endif
