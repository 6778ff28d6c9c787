/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the bytes of files, for all who want to see them.
 */
#include "sweep/pass.h"

bool fsdp_segments_add(struct fsdp_vec *segments, const struct fsdp_segment *segment)
{
	if (segments->count != 0) {
		const struct fsdp_segment *last =
			fsdp_vec_at(segments, segments->count - 1);
		if (segment->begin < last->begin + last->stored)
			return true;
	}
	return fsdp_vec_add(segments, segment);
}
