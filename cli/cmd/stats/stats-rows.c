/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of tensors and of groups.
 */
#include <string.h>

#include "cmd/stats/stats.h"
#include "part/tensor-row.h"
#include "session/session.h"

static void fill(struct stats_row *row, const uint64_t *bins)
{
	const struct fsdp_distribution *numbers = &row->sum.numbers;

	row->inf = numbers->pos_inf + numbers->neg_inf;
	row->binned = row->sum.known && bins != NULL;
	for (size_t i = 0; row->binned && i < STATS_BINS; i++)
		row->bins[i] = (int64_t)bins[i];
}

const struct stats_row *stats_tensor_row(struct counting *counting, uint32_t number)
{
	struct run *run = counting->run;
	struct stats_row *row = &counting->row;
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, number);
	struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, counted.tensor);

	*row = (struct stats_row){
		.name = tensor_shown_name(run, &counting->name, &tensor),
		.dtype = dtype_name(tensor.dtype),
		.shape = tensor.shape,
		.dims = tensor.dims,
		.sum = { .tensors = 1,
			.numel = tensor.numel,
			.bytes = tensor.bytes,
			.known = counted.error == NULL,
			.numbers = counted.numbers },
	};
	fill(row, counted.bins);
	return row;
}

static const struct stats_row *group_row(struct counting *counting, uint32_t number)
{
	const struct run *run = counting->run;
	struct stats_row *row = &counting->row;

	*row = (struct stats_row){ .sum = counting->groups[number],
		.key = group_key(run->checkpoint, counting->by,
			fsdp_sums_group(counting->sums, number).key, &counting->name,
			run->common->raw) };
	fill(row, counting->group_bins != NULL
			  ? &counting->group_bins[(size_t)number * STATS_BINS]
			  : NULL);
	row->shown = row->key;
	if (row->key.type == VALUE_NULL)
		row->shown = value_absent();
	else if (row->key.type == VALUE_NAME && row->key.text.size == 0)
		row->shown = value_word("(root)");
	return row;
}

const struct stats_row *stats_row(struct counting *counting, uint32_t number)
{
	return counting->groups != NULL ? group_row(counting, number)
					: stats_tensor_row(counting, number);
}
