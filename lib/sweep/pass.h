/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_PASS_H
#define FSDP_SWEEP_PASS_H

#include "base/vec.h"
#include "store/source.h"

/* A run of bytes of a file with one purpose: a member of a zip, or the payload of a
 * tensor. Segments ascend and do not overlap. */
struct fsdp_segment {
	uint64_t begin, stored; /* in the file */
	uint64_t size;          /* after inflating */
	uint32_t crc;
	bool has_crc, deflated;
};

/* Left out, true, if it overlaps those before. False: out of memory. */
bool fsdp_segments_add(struct fsdp_vec *segments, const struct fsdp_segment *segment);

#endif
