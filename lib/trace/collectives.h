/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_COLLECTIVES_H
#define FSDP_TRACE_COLLECTIVES_H

#include <fsdp/trace.h>

#include "base/arena.h"

/*
 * The collectives of one trace, packed: a long trace has a hundred thousand, and they are
 * all kept until the ranks have been set against each other. What many of them share, the
 * process group and its size, is kept once.
 */
struct fsdp_comm {
	int64_t ts_ns, dur_ns;
	int64_t bytes;   /* FSDP_ABSENT */
	int64_t host_ns; /* a moment in the step that it belongs to; before that is known,
			    the correlation of a kernel, or FSDP_ABSENT */
	uint32_t sort;   /* index of what it shares */
	uint32_t seq; /* 0: none; a number with FSDP_COMM_NUMBER; else a text's index + 1
			*/
	uint32_t order;          /* in the file */
	unsigned char type, how; /* enum fsdp_time_type, fsdp_comm_how */
	unsigned char by_name;   /* by its name, if nothing else is known */
};
#define FSDP_COMM_NUMBER (UINT32_C(1) << 31)

struct fsdp_comm_sort {
	struct fsdp_span group, description; /* data NULL: none */
	struct fsdp_span ranks;              /* of the group, as they are written */
	int64_t group_size;                  /* FSDP_ABSENT */
};

struct fsdp_collectives {
	struct fsdp_vec list;  /* struct fsdp_comm */
	struct fsdp_vec sorts; /* struct fsdp_comm_sort */
	struct fsdp_vec seqs;  /* struct fsdp_span: those that are not plain numbers */
};

static inline struct fsdp_comm *fsdp_comm_at(const struct fsdp_vec *list, size_t index)
{
	return fsdp_vec_at(list, index);
}

/* The index of the step of a recording that holds a moment, or SIZE_MAX. */
size_t fsdp_steps_index_at(const struct fsdp_step *steps, size_t count, int64_t ts_ns);

/* By start; what starts together in the order of the file. False: out of memory. */
bool fsdp_comm_sort(struct fsdp_vec *list);

#endif
