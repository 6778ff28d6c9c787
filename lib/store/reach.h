/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_REACH_H
#define FSDP_STORE_REACH_H

#include "base/arena.h"

/*
 * How far back compressed bytes may refer: so much of what it gave the unpacker keeps in
 * memory of its own, up to 128 MiB (zstd) or 1 GiB (xz) for a file of a few bytes. What
 * is kept is counted in a budget as it grows. The other compressions keep 8 MiB at most.
 *
 * Zero it, set the budget and what to look for; NULL: nothing.
 */
struct fsdp_reach {
	struct fsdp_budget *budget;
	const struct fsdp_reach_look *look;
	uint64_t most;          /* that any header so far declares */
	uint64_t charged;       /* in the budget */
	unsigned char tail[16]; /* the end of what was seen before */
	size_t tail_size;
};

extern const struct fsdp_reach_look fsdp_reach_zstd, fsdp_reach_xz;

/* Compressed bytes in their order, before they are unpacked. */
void fsdp_reach_see(struct fsdp_reach *reach, struct fsdp_span bytes);

/* `unpacked` bytes came out so far. False: the budget refuses what is kept of them. */
bool fsdp_reach_charge(struct fsdp_reach *reach, uint64_t unpacked);

void fsdp_reach_done(struct fsdp_reach *reach);

#endif
