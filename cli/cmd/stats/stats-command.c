/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the numbers of tensors come to, one by one or folded.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/stats/stats.h"
#include "part/groups.h"
#include "part/nothing.h"
#include "part/tensor-reading.h"
#include "run/answer.h"
#include "run/progress.h"

static const struct {
	const char *word;
	enum fsdp_sums_by by;
} KEYS[] = { { "module", FSDP_BY_MODULE }, { "layer", FSDP_BY_LAYER },
	{ "unit", FSDP_BY_UNIT }, { "dtype", FSDP_BY_DTYPE }, { "role", FSDP_BY_ROLE } };
static const char *const BY[] = { "module", "layer", "unit", "dtype", "role", NULL };

#define AT(member) offsetof(struct stats_options, member)
static const struct option OPTIONS[] = {
	{ "nonfinite", 0, OPTION_FLAG, NULL, AT(nonfinite),
		.help = "only what holds NaN or infinities; status 1 if there is any" },
	{ "hist", 0, OPTION_FLAG, NULL, AT(hist),
		.help = "a small histogram of each; reads everything twice" },
	{ "by", 0, OPTION_WORD, "KEY", AT(by), BY, .help = "fold tensors by this" },
	{ NULL },
};

/* ---- rows ---- */

static void fill(struct stats_row *row, const struct fsdp_statistics_row *from)
{
	row->known = from->error == NULL;
	row->numbers = from->numbers;
	row->inf = from->numbers.pos_inf + from->numbers.neg_inf;
	row->binned = row->known && from->bins != NULL;
	for (size_t i = 0; row->binned && i < STATS_BINS; i++)
		row->bins[i] = (int64_t)from->bins[i];
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

static const struct stats_row *tensor_row(struct counting *counting, uint32_t number)
{
	counting->row = (struct stats_row){ .tensors = 1, .part.number = UINT32_MAX };
	if (counting->joined != NULL)
		fill_joined(counting, number);
	else
		fill_counted(counting, number);
	return &counting->row;
}

static size_t tensor_rows(const struct counting *counting)
{
	return counting->joined != NULL ? counting->joined->count
					: fsdp_statistics_count(counting->statistics);
}

static const struct stats_row *group_row(struct counting *counting, uint32_t number)
{
	const struct run *run = counting->run;
	struct stats_row *row = &counting->row;

	*row = counting->groups[number];
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
	return counting->sums != NULL ? group_row(counting, number)
				      : tensor_row(counting, number);
}

/* ---- folding ---- */

/* One tensor more; what could not be read is not in the numbers. */
static void fold(struct counting *counting, size_t index)
{
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, index);
	struct fsdp_tensor tensor =
		fsdp_tensor(counting->run->checkpoint, counted.tensor);
	struct stats_row *group = &counting->groups[fsdp_sums_group_of(
		counting->sums, counted.tensor, &tensor)];

	group->tensors++;
	/* Tied names share their numbers. */
	if (tensor.alias != FSDP_NONE)
		return;
	group->numel += tensor.numel;
	group->bytes += tensor.bytes;
	if (counted.error != NULL)
		return;
	group->known = true;
	fsdp_distribution_join(&group->numbers, &counted.numbers);
	group->inf = group->numbers.pos_inf + group->numbers.neg_inf;
}

/* False: out of memory, or *ret_error. */
static bool fold_all(struct counting *counting, struct fsdp_error **ret_error)
{
	size_t at = 0;

	while (strcmp(KEYS[at].word, counting->options->by) != 0)
		at++;
	counting->by = KEYS[at].by;
	if (!fsdp_sums_new(counting->run->checkpoint, counting->by,
		    counting->run->select->depth, &counting->sums, ret_error))
		return false;
	counting->groups =
		calloc(fsdp_sums_count(counting->sums), sizeof *counting->groups);
	if (counting->groups == NULL)
		return false;
	for (size_t i = 0; i < fsdp_statistics_count(counting->statistics); i++)
		fold(counting, i);
	return true;
}

/* ---- histograms ---- */

static struct stats_row *group_of(struct counting *counting, size_t index, bool *ret_tied)
{
	uint32_t id = fsdp_statistics_row(counting->statistics, index).tensor;
	struct fsdp_tensor tensor = fsdp_tensor(counting->run->checkpoint, id);

	*ret_tied = tensor.alias != FSDP_NONE;
	return &counting->groups[fsdp_sums_group_of(counting->sums, id, &tensor)];
}

static void add_bins(struct counting *counting, size_t index)
{
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, index);
	bool tied;
	struct stats_row *group = group_of(counting, index, &tied);

	if (tied || counted.error != NULL)
		return;
	group->binned = true;
	for (size_t i = 0; i < STATS_BINS; i++)
		group->bins[i] += (int64_t)counted.bins[i];
}

/* The span of a group is that of all its tensors. False: out of memory, or *ret_error. */
static bool read_bins(struct counting *counting, struct fsdp_error **ret_error)
{
	struct run *run = counting->run;
	struct fsdp_recording_progress *progress = &counting->progress;
	size_t count = fsdp_statistics_count(counting->statistics);
	struct fsdp_statistics_span *spans = NULL;
	bool tied, good;

	if (counting->sums != NULL) {
		spans = calloc(count + 1, sizeof *spans);
		if (spans == NULL)
			return false;
		for (size_t i = 0; i < count; i++) {
			const struct stats_row *group = group_of(counting, i, &tied);
			spans[i] = (struct fsdp_statistics_span){ group->numbers.min,
				group->numbers.max };
		}
	}
	*progress = (struct fsdp_recording_progress){ 0 };
	progress_begin(run->common, progress);
	good = fsdp_statistics_bin(counting->statistics, spans, ret_error);
	run_interrupted(run, progress_end());
	free(spans);
	for (size_t i = 0; good && counting->sums != NULL && i < count; i++)
		add_bins(counting, i);
	return good;
}

/* ---- which rows ---- */

static bool is_wanted(const struct counting *counting, const struct stats_row *row)
{
	if (row->tensors == 0)
		return false;
	/* Parts tell all: what is left out of the whole, merge decides. */
	return !counting->nonfinite || counting->partial.parts != 0 ||
	       (row->known && row->numbers.nan + row->inf > 0);
}

static bool list_rows(struct counting *counting)
{
	size_t count = counting->sums != NULL ? fsdp_sums_count(counting->sums)
					      : tensor_rows(counting);

	counting->rows = malloc((count + 1) * sizeof *counting->rows);
	for (uint32_t i = 0; counting->rows != NULL && i < count; i++)
		if (is_wanted(counting, stats_row(counting, i)))
			counting->rows[counting->row_count++] = i;
	return counting->rows != NULL;
}

/* ---- reading ---- */

static bool read_numbers(struct counting *counting, struct fsdp_error **ret_error)
{
	struct run *run = counting->run;
	const struct fsdp_statistics_options options = {
		.size = sizeof options,
		.tensors = counting->tensors,
		.tensor_count = counting->tensor_count,
		READING_SHARE(run->common, &counting->progress),
	};
	bool good;

	progress_begin(run->common, &counting->progress);
	good = fsdp_statistics_new(
		run->checkpoint, &options, &counting->statistics, ret_error);
	run_interrupted(run, progress_end());
	return good;
}

/* Tells why a row has no numbers, if it has none. */
static bool tell_error(struct counting *counting, uint32_t number, size_t *told)
{
	const struct fsdp_error *error;
	struct fsdp_document_value row;

	if (counting->joined == NULL) {
		error = fsdp_statistics_row(counting->statistics, number).error;
		if (error != NULL)
			reading_failed(counting->run, counting->row.name, error, told);
		return error != NULL;
	}
	row = counting->joined->rows[number];
	if (joined_code(row) == NULL)
		return false;
	reading_told(counting->run, counting->row.name, joined_code(row),
		(const char *)joined_text(row, "hint").data,
		(const char *)joined_text(row, "error").data, told);
	return true;
}

static void add_up(struct counting *counting)
{
	size_t told = 0;

	for (uint32_t i = 0; i < tensor_rows(counting); i++) {
		const struct stats_row *row = tensor_row(counting, i);

		if (tell_error(counting, i, &told))
			continue;
		counting->total.tensors++;
		counting->total.bytes += row->bytes;
		counting->total.nan += row->numbers.nan;
		counting->total.inf += row->inf;
	}
	reading_failed_end(counting->run, told);
	if (told > 0)
		counting->status = status_worse(counting->status, STATUS_PARTIAL);
}

/* ---- the command ---- */

static void judge(struct counting *counting)
{
	struct run *run = counting->run;

	if (counting->tensor_count == 0 && counting->selects) {
		if (counting->joined == NULL)
			tell_nothing(run, NAMEABLE_TENSORS);
		counting->status = status_worse(counting->status, STATUS_BAD);
	} else if (counting->nonfinite && counting->total.nan + counting->total.inf > 0) {
		counting->status = status_worse(counting->status, STATUS_BAD);
	} else if (counting->nonfinite && counting->partial.parts == 0) {
		run_note(run, "all numbers are finite");
	}
	if (counting->selection != NULL)
		counting->status = answer_selection_status(
			run, counting->selection, counting->status);
}

/* What rows of parts must have alike. */
static const char *request_of(const struct counting *counting)
{
	static const char *const requests[] = { "tensors", "nonfinite", "tensors hist",
		"nonfinite hist" };

	return requests[2 * counting->hist + counting->nonfinite];
}

static bool answer(struct counting *counting, struct fsdp_error **ret_error)
{
	if (!reading_choose(counting->run, counting->selection, &counting->name,
		    &counting->tensors, &counting->tensor_count) ||
		!partial_init(&counting->partial, counting->run, request_of(counting),
			counting->selection, counting->tensors, counting->tensor_count) ||
		!read_numbers(counting, ret_error))
		return false;
	if (counting->options->by != NULL && !fold_all(counting, ret_error))
		return false;
	if (counting->hist && !read_bins(counting, ret_error))
		return false;
	add_up(counting);
	if (!list_rows(counting))
		return false;
	judge(counting);
	return stats_show(counting) && !counting->name.failed;
}

static void counting_done(struct counting *counting)
{
	fsdp_statistics_free(counting->statistics);
	fsdp_sums_free(counting->sums);
	selection_free(counting->selection);
	name_buffer_done(&counting->name);
	free(counting->groups);
	free(counting->tensors);
	free(counting->rows);
}

static bool run_stats(struct run *run, struct fsdp_error **ret_error)
{
	struct counting counting = { .run = run, .options = run->options };
	bool good;

	if (run->select->depth >= 0 &&
		(counting.options->by == NULL ||
			strcmp(counting.options->by, "module") != 0))
		return refuse(run, "give both: --by=module -d N", "-d needs --by=module");
	if (run->common->part_count != 0 &&
		(counting.options->by != NULL || run->select->sort.count > 0 ||
			run->select->largest || run->select->reverse ||
			run->select->columns.count > 0 || run->select->head >= 0))
		return refuse(run, "give --sort, --columns and --head to merge",
			"--part tells all of each tensor: it takes no --by, --sort, --columns and --head");
	if (!answer_selection(run, &counting.selection))
		return true;
	counting.nonfinite = counting.options->nonfinite;
	counting.hist = counting.options->hist;
	counting.selects = !selection_is_all(counting.selection);
	good = answer(&counting, ret_error);
	counting_done(&counting);
	return good;
}

/* ---- parts ---- */

static bool join(
	struct run *run, const struct joined_parts *joined, struct fsdp_error **ret_error)
{
	struct counting counting = { .run = run,
		.joined = joined,
		.tensor_count = joined->count,
		.selects = joined->partial.selects,
		.nonfinite = strncmp(joined->partial.request, "nonfinite", 9) == 0,
		.hist = strstr(joined->partial.request, " hist") != NULL };
	bool good;

	(void)ret_error;
	add_up(&counting);
	good = list_rows(&counting);
	if (good) {
		judge(&counting);
		good = stats_show(&counting);
	}
	counting_done(&counting);
	return good;
}

const struct command command_stats = {
	.name = "stats",
	.group = GROUP_BYTES,
	.summary = "min, max, mean, deviation, what is not finite",
	.synopsis =
		"[--nonfinite] [--hist] [--by=KEY] [--part=K/N|auto] [SELECTORS] CHECKPOINT",
	.examples = { "stats --role=param step-1000/", "stats --by=layer step-1000/",
		"stats --nonfinite step-1000/" },
	.exit_1 =
		"with --nonfinite: there is a NaN or an infinity; or a selector matched nothing",
	.options = OPTIONS,
	.selectors = select_all,
	.answer = &stats_record,
	.shapes = SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_ONE,
	.shows_plan = true, /* JSON names it */
	.options_size = sizeof(struct stats_options),
	.join = join,
	.run = run_stats,
};
