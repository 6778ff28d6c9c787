/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the collectives of a trace in little room, and shows them as they were.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "trace/collectives.h"
#include "trace/types.h"

static int compare(const void *a, const void *b)
{
	const struct fsdp_comm *left = a, *right = b;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

bool fsdp_comm_sort(struct fsdp_vec *list)
{
	return fsdp_vec_sort(list, compare);
}

size_t fsdp_steps_index_at(const struct fsdp_step *steps, size_t count, int64_t ts_ns)
{
	size_t low = 0, high = count;
	FSDP_HALVE(low, high, middle, steps[middle].ts_ns <= ts_ns);
	return low != 0 && ts_ns < steps[low - 1].ts_ns + steps[low - 1].dur_ns
		       ? low - 1
		       : SIZE_MAX;
}

/* The number of the step that holds a moment. */
static int64_t step_at(const struct fsdp_recording *recording, int64_t moment_ns)
{
	size_t at =
		fsdp_steps_index_at(recording->steps, recording->step_count, moment_ns);
	return at != SIZE_MAX ? recording->steps[at].step : FSDP_ABSENT;
}

void fsdp_recording_collective(const struct fsdp_recording *recording, size_t index,
	struct fsdp_collective *ret_collective)
{
	const struct fsdp_collectives *all = recording->collectives;
	const struct fsdp_comm *comm = fsdp_comm_at(&all->list, index);
	const struct fsdp_comm_sort *sort = fsdp_vec_at(&all->sorts, comm->sort);
	struct fsdp_collective *one = ret_collective;
	*one = (struct fsdp_collective){ .ts_ns = comm->ts_ns,
		.dur_ns = comm->dur_ns,
		.type = fsdp_time_type_name((enum fsdp_time_type)comm->type),
		.how = (enum fsdp_comm_how)comm->how,
		.group = sort->group,
		.ranks = sort->ranks,
		.bytes = comm->bytes,
		.group_size = sort->group_size,
		.step = step_at(recording, comm->host_ns) };
	if ((comm->seq & FSDP_COMM_NUMBER) != 0) {
		snprintf(one->digits, sizeof one->digits, "%u",
			(unsigned)(comm->seq & ~FSDP_COMM_NUMBER));
		one->seq = fsdp_span_text(one->digits);
	} else if (comm->seq != 0) {
		one->seq = *(struct fsdp_span *)fsdp_vec_at(&all->seqs, comm->seq - 1);
	}
}
