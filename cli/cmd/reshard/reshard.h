/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RESHARD_H
#define RESHARD_H

#include <fsdp/reshard.h>

#include "args/parse.h"
#include "part/load-answer.h"
#include "part/tensor-row.h"

struct reshard_options {
	int64_t world, tp; /* -1: not given */
	const char *mesh;
	const char *shard_dim;
	uint64_t fit; /* UINT64_MAX: not given */
};

/* A way of sharding, before or after. */
struct ways {
	int64_t world;
	int64_t mesh[2];
	uint32_t mesh_dims; /* 0: not known */
	int64_t tp;         /* FSDP_ABSENT: none */
	int32_t dim;        /* FSDP_RESHARD_AUTO: they differ */
};

/* What goes to no other rank. */
struct staying {
	uint32_t name; /* of a tensor or value */
	const char *why;
};

/* Position in the list of a rank, read in order. */
struct list_cursor {
	uint32_t rank;
	size_t next;
	uint32_t at;
};

struct resharding {
	struct run *run;
	const struct reshard_options *options;
	struct fsdp_reshard *to;
	struct ways is, will;
	size_t rank_count; /* of the new run */
	struct loading_answer loading;
	struct staying *stays;
	size_t stay_count;
	uint64_t most_now; /* bytes on a rank as saved; FSDP_UNKNOWN: not known */
	uint32_t unfit;    /* ranks that need more than --fit */
	struct list_cursor files, empty;
	struct row_buffers buffers;
};

static inline uint64_t reshard_rank_bytes(const struct fsdp_reshard_rank *rank)
{
	uint64_t sum;

	return __builtin_add_overflow(rank->param_bytes, rank->optim_bytes, &sum) ||
			       __builtin_add_overflow(sum, rank->other_bytes, &sum)
		       ? UINT64_MAX
		       : sum;
}

/* With what fills shards up. */
static inline uint64_t reshard_rank_needs(const struct fsdp_reshard_rank *rank)
{
	uint64_t sum;

	return __builtin_add_overflow(reshard_rank_bytes(rank), rank->padding_bytes, &sum)
		       ? UINT64_MAX
		       : sum;
}

/* reshard-data.c */
extern const struct record reshard_record;
void reshard_data(struct resharding *resharding);

/* reshard-text.c */
void reshard_text(struct resharding *resharding);

#endif
