/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which things belong to one of several shares.
 */
#include "base/share.h"

/* Where share `part` begins: total * (part - 1) / parts, without overflow. */
static uint64_t begin_of(const struct fsdp_share *share, uint32_t part)
{
	uint64_t before = part - 1, each = share->total / share->parts;
	uint64_t rest = share->total % share->parts;
	return each * before + rest * before / share->parts;
}

bool fsdp_share_takes(struct fsdp_share *share, uint64_t bytes)
{
	uint64_t at = share->at;
	share->at += bytes;
	if (share->parts == 0)
		return true;
	/* What has no bytes may lie behind the last one. */
	if (at >= share->total)
		return share->part == share->parts;
	return at >= begin_of(share, share->part) &&
	       (share->part == share->parts || at < begin_of(share, share->part + 1));
}
