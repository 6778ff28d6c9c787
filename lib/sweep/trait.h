/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_TRAIT_H
#define FSDP_SWEEP_TRAIT_H

#include <stddef.h>
#include <stdint.h>

/*
 * 128 bits that identify a run of bytes: much faster than memory, and not
 * cryptographic. A long run comes in pieces; the same bytes in other pieces have other
 * bits, so who compares must cut alike.
 */
struct fsdp_trait {
	uint64_t words[2];
};

/* What comes next; begin with all zero. */
void fsdp_trait_add(struct fsdp_trait *trait, const unsigned char *bytes, size_t size);

/* What follows on the pieces that made `trait`, as it was made from zero. */
void fsdp_trait_join(struct fsdp_trait *trait, const struct fsdp_trait *next);

#endif
