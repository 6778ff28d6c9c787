/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_DEEPSPEED_SLICING_H
#define FSDP_FORMAT_DEEPSPEED_SLICING_H

#include "format/format.h"

/*
 * universal_checkpoint_info: what a model tells DeepSpeed's universal converter of how
 * its parameters were cut over ranks of tensor parallelism. Patterns of names, one kind
 * for each way; what no pattern takes was cut along the first dimension.
 */
enum fsdp_cut {
	FSDP_CUT_UNKNOWN, /* it is absent, or not understood */
	FSDP_CUT_ROWS,    /* along the first dimension */
	FSDP_CUT_COLUMNS, /* along the second */
	FSDP_CUT_HALVES,  /* two parameters in one, each along the first */
	FSDP_CUT_COPY,    /* every rank has all of it */
	FSDP_CUT_MEAN,    /* each its own, of which the mean counts */
};

enum { FSDP_SLICING_PATTERNS = 256 };

struct fsdp_slicing {
	bool told;               /* there are patterns */
	struct fsdp_span unread; /* a pattern or key that is not understood; or absent */
	uint64_t work;           /* that matching took; its ceiling is in the source */
	size_t count;
	struct fsdp_slicing_pattern {
		struct fsdp_span text;
		uint8_t kind;
	} patterns[FSDP_SLICING_PATTERNS];
};

/* A value below universal_checkpoint_info, by the name that it has there. */
void fsdp_slicing_take(struct fsdp_slicing *slicing, struct fsdp_span name,
	const struct fsdp_value_record *value);

/* How a parameter was cut. *ret_everywhere: each stage of a pipeline has it. */
enum fsdp_cut fsdp_slicing_of(
	struct fsdp_slicing *slicing, struct fsdp_span fqn, bool *ret_everywhere);

#endif
