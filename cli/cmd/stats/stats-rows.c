/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of tensors and of groups: what was counted in this run, or what parts have told.
 */
#include <string.h>

#include "cmd/stats/stats.h"
#include "part/groups.h"
#include "run/answer.h"

static void fill(struct stats_row *row, const struct fsdp_statistics_row *from)
{
	row->known = from->error == NULL;
	row->numbers = from->numbers;
	row->inf = from->numbers.pos_inf + from->numbers.neg_inf;
	row->binned = row->known && from->bins != NULL;
	for (size_t i = 0; row->binned && i < STATS_BINS; i++)
		row->bins[i] = (int64_t)from->bins[i];
}

/* Of a part, which does not fold: merge does. */
static void fill_group(struct counting *counting, struct stats_row *row, uint32_t index,
	const struct fsdp_tensor *tensor)
{
	const struct run *run = counting->run;
	size_t group = fsdp_sums_group_of(counting->sums, index, tensor);

	row->group = (uint32_t)group;
	row->tied = tensor->alias != FSDP_NONE;
	row->key = group_key(run->checkpoint, counting->by,
		fsdp_sums_group(counting->sums, group).key, &counting->key_name,
		run->common->raw);
}

static void fill_counted(struct counting *counting, uint32_t number)
{
	struct run *run = counting->run;
	struct stats_row *row = &counting->row;
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, number);
	struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, counted.tensor);

	row->name = tensor_shown_name(run, &counting->name, &tensor);
	row->dtype = dtype_name(tensor.dtype);
	row->shape = tensor.shape;
	row->dims = tensor.dims;
	row->numel = tensor.numel;
	row->bytes = tensor.bytes;
	fill(row, &counted);
	if (counting->sums != NULL)
		fill_group(counting, row, counted.tensor, &tensor);
	if (!partial_row_init(
		    &row->part, run, &counting->partial, counted.position, counted.error))
		counting->name.failed = true;
}

static void take_bins(struct stats_row *row, struct fsdp_document_value bins)
{
	row->binned = bins.kind == FSDP_DOCUMENT_LIST && bins.count == STATS_BINS;
	for (size_t i = 0; row->binned && i < STATS_BINS; i++)
		row->bins[i] = fsdp_document_item(bins, i).integer;
}

/* As a part has told it. */
static void fill_joined(struct counting *counting, uint32_t number)
{
	struct stats_row *row = &counting->row;
	struct fsdp_document_value from = counting->joined->rows[number];
	struct fsdp_span dtype = joined_text(from, "dtype");

	row->name = text_of_span(joined_text(from, "name"));
	row->dtype = dtype.data != NULL ? (const char *)dtype.data : "";
	row->dims = joined_shape(from, row->room);
	row->shape = row->room;
	row->numel = joined_count(from, "numel");
	row->bytes = joined_count(from, "bytes");
	row->known = fsdp_document_get(from, "zeros").kind == FSDP_DOCUMENT_INTEGER;
	row->inf = joined_count(from, "inf");
	row->numbers = (struct fsdp_distribution){
		.count = joined_count(from, "count"),
		.nan = joined_count(from, "nan"),
		.pos_inf = row->inf,
		.zeros = joined_count(from, "zeros"),
		.min = joined_number(from, "min"),
		.max = joined_number(from, "max"),
		.mean = joined_number(from, "mean"),
		.squares = joined_number(from, "squares"),
	};
	take_bins(row, fsdp_document_get(from, "bins"));
}

const struct stats_row *stats_tensor_row(struct counting *counting, uint32_t number)
{
	counting->row = (struct stats_row){
		.tensors = 1, .part.number = UINT32_MAX, .group = UINT32_MAX
	};
	if (counting->joined != NULL)
		fill_joined(counting, number);
	else
		fill_counted(counting, number);
	return &counting->row;
}

static const struct stats_row *group_row(struct counting *counting, uint32_t number)
{
	const struct run *run = counting->run;
	struct stats_row *row = &counting->row;

	*row = counting->groups[number];
	if (counting->sums != NULL)
		row->key = group_key(run->checkpoint, counting->by,
			fsdp_sums_group(counting->sums, number).key, &counting->name,
			run->common->raw);
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

size_t stats_tensor_rows(const struct counting *counting)
{
	return counting->joined != NULL ? counting->joined->count
					: fsdp_statistics_count(counting->statistics);
}
