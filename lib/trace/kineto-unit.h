/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_UNIT_H
#define FSDP_TRACE_KINETO_UNIT_H

#include <stdint.h>

#include "base/span.h"

/*
 * What FSDP is busy with, as its annotations say it ("FSDP::all_gather (layers.0)").
 * FSDP2 writes which unit it is since PyTorch 2.5, FSDP1 never.
 */
enum fsdp_kineto_unit_kind {
	FSDP_UNIT_NONE, /* no annotation of FSDP that tells of units */

	/* FSDP2 */
	FSDP_UNIT_ALL_GATHER,
	FSDP_UNIT_PRE_FORWARD,
	FSDP_UNIT_FORWARD_PREFETCH,
	FSDP_UNIT_PRE_BACKWARD,
	FSDP_UNIT_BACKWARD_PREFETCH,
	FSDP_UNIT_POST_BACKWARD_REDUCE,
	FSDP_UNIT_POST_BACKWARD_RESHARD,
	FSDP_UNIT_STATION, /* any other that only says that it is FSDP2 */

	/* FSDP1 */
	FSDP_UNIT1_FORWARD,
	FSDP_UNIT1_PRE_FORWARD,
	FSDP_UNIT1_PRE_FORWARD_PREFETCH,
	FSDP_UNIT1_PRE_BACKWARD,
	FSDP_UNIT1_PRE_BACKWARD_PREFETCH,
	FSDP_UNIT1_POST_BACKWARD,
	FSDP_UNIT1_POST_BACKWARD_PREFETCH,
	FSDP_UNIT1_RESHARD_ONLY,
	FSDP_UNIT_KINDS
};

struct fsdp_kineto_unit_note {
	enum fsdp_kineto_unit_kind kind;
	struct fsdp_span unit; /* as it is written; empty: the root, or not written */
	int64_t pg;            /* size of the shard mesh, or FSDP_ABSENT */
};

/* Any name is fine; borrows from it. */
struct fsdp_kineto_unit_note fsdp_kineto_unit_read(struct fsdp_span name);

/* Without the segments that torch.compile, activation checkpointing and FSDP1 leave in
 * names; `buffer` has room for all of it. Returns the length. */
size_t fsdp_kineto_unit_clean(struct fsdp_span unit, unsigned char *buffer);

#endif
