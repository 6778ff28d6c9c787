/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the numbers of tensors come to, one by one or folded.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/stats/stats.h"
#include "part/shown-names.h"
#include "part/tensor-reading.h"
#include "part/tensor-row.h"
#include "session/progress.h"
#include "session/session.h"

static const struct {
	const char *word;
	enum fsdp_sums_by by;
} KEYS[] = { { "module", FSDP_BY_MODULE }, { "layer", FSDP_BY_LAYER },
	{ "unit", FSDP_BY_UNIT }, { "dtype", FSDP_BY_DTYPE }, { "role", FSDP_BY_ROLE } };
static const char *const BY[] = { "module", "layer", "unit", "dtype", "role", NULL };

#define AT(member) offsetof(struct stats_options, member)
static const struct option_row OPTIONS[] = {
	{ "nonfinite", 0, OPTION_FLAG, NULL, AT(nonfinite),
		.help = "list only tensors with NaN or Inf; then exit with 1" },
	{ "hist", 0, OPTION_FLAG, NULL, AT(hist),
		.help = "print a histogram of each; reads the bytes twice" },
	{ "by", 0, OPTION_WORD, "KEY", AT(by), BY, .help = "group tensors by this" },
	{ NULL },
};

/* One tensor more; what could not be read is not in the numbers. */
static void fold(struct counting *counting, size_t index)
{
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, index);
	struct fsdp_tensor tensor =
		fsdp_tensor(counting->run->checkpoint, counted.tensor);
	struct stats_sum *group = &counting->groups[fsdp_sums_group_of(
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
	counting->group_count = fsdp_sums_count(counting->sums);
	counting->groups = calloc(counting->group_count, sizeof *counting->groups);
	if (counting->groups == NULL)
		return false;
	for (size_t i = 0; i < fsdp_statistics_count(counting->statistics); i++)
		fold(counting, i);
	return true;
}

/* ---- histograms ---- */

static size_t group_of(const struct counting *counting, size_t index, bool *ret_tied)
{
	uint32_t id = fsdp_statistics_row(counting->statistics, index).tensor;
	struct fsdp_tensor tensor = fsdp_tensor(counting->run->checkpoint, id);

	*ret_tied = tensor.alias != FSDP_NONE;
	return fsdp_sums_group_of(counting->sums, id, &tensor);
}

static void add_bins(struct counting *counting, size_t index)
{
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, index);
	bool tied;
	size_t group = group_of(counting, index, &tied);

	for (size_t i = 0; !tied && counted.error == NULL && i < STATS_BINS; i++)
		counting->group_bins[group * STATS_BINS + i] += counted.bins[i];
}

/* The span of a group is that of all its tensors. False: out of memory, or *ret_error. */
static bool read_bins(struct counting *counting, struct fsdp_error **ret_error)
{
	struct run *run = counting->run;
	struct fsdp_recording_progress *progress = &counting->progress;
	size_t count = fsdp_statistics_count(counting->statistics);
	struct fsdp_statistics_span *spans = NULL;
	bool tied, good;

	if (counting->groups != NULL) {
		spans = calloc(count + 1, sizeof *spans);
		counting->group_bins = calloc(
			counting->group_count, STATS_BINS * sizeof *counting->group_bins);
		if (spans == NULL || counting->group_bins == NULL) {
			free(spans);
			return false;
		}
		for (size_t i = 0; i < count; i++) {
			const struct stats_sum *group =
				&counting->groups[group_of(counting, i, &tied)];
			spans[i] = (struct fsdp_statistics_span){ group->numbers.min,
				group->numbers.max };
		}
	}
	*progress = (struct fsdp_recording_progress){ 0 };
	progress_begin(run->common, progress);
	good = fsdp_statistics_bin(counting->statistics, spans, ret_error);
	run_interrupted(run, progress_end());
	free(spans);
	for (size_t i = 0; good && counting->groups != NULL && i < count; i++)
		add_bins(counting, i);
	return good;
}

static bool is_wanted(const struct counting *counting, const struct stats_row *row)
{
	return row->sum.tensors > 0 &&
	       (!counting->options->nonfinite ||
		       (row->sum.known && row->sum.numbers.nan + row->inf > 0));
}

static bool list_rows(struct counting *counting)
{
	size_t count = counting->groups != NULL
			       ? counting->group_count
			       : fsdp_statistics_count(counting->statistics);

	counting->rows = malloc((count + 1) * sizeof *counting->rows);
	for (uint32_t i = 0; counting->rows != NULL && i < count; i++)
		if (is_wanted(counting, stats_row(counting, i)))
			counting->rows[counting->row_count++] = i;
	return counting->rows != NULL;
}

static bool read_numbers(struct counting *counting, struct fsdp_error **ret_error)
{
	struct run *run = counting->run;
	const struct fsdp_statistics_options options = {
		.size = sizeof options,
		.tensors = counting->tensors,
		.tensor_count = counting->tensor_count,
		.jobs = jobs_wanted(run->common),
		.progress = reading_progress,
		.progress_context = &counting->progress,
	};
	bool good;

	progress_begin(run->common, &counting->progress);
	good = fsdp_statistics_new(
		run->checkpoint, &options, &counting->statistics, ret_error);
	run_interrupted(run, progress_end());
	return good;
}

static void add_up(struct counting *counting)
{
	size_t told = 0;

	for (uint32_t i = 0; i < fsdp_statistics_count(counting->statistics); i++) {
		const struct stats_row *row = stats_tensor_row(counting, i);
		const struct fsdp_error *error =
			fsdp_statistics_row(counting->statistics, i).error;

		if (error != NULL) {
			reading_failed(counting->run, row->name, error, &told);
			continue;
		}
		counting->total.tensors++;
		counting->total.bytes += row->sum.bytes;
		counting->total.nan += row->sum.numbers.nan;
		counting->total.inf += row->inf;
	}
	reading_failed_end(counting->run, told);
	if (told > 0)
		counting->status = status_worse(counting->status, STATUS_PARTIAL);
}

static void judge(struct counting *counting)
{
	struct run *run = counting->run;

	if (counting->tensor_count == 0 && !selection_is_all(counting->selection)) {
		print_no_match(run, NAMEABLE_TENSORS);
		counting->status = status_worse(counting->status, STATUS_BAD);
	} else if (counting->options->nonfinite &&
		   counting->total.nan + counting->total.inf > 0) {
		counting->status = status_worse(counting->status, STATUS_BAD);
	} else if (counting->options->nonfinite) {
		run_note(run, "all numbers are finite");
	}
	counting->status =
		answer_selection_status(run, counting->selection, counting->status);
}

static bool answer(struct counting *counting, struct fsdp_error **ret_error)
{
	if (!reading_choose(counting->run, counting->selection, &counting->name,
		    &counting->tensors, &counting->tensor_count) ||
		!read_numbers(counting, ret_error))
		return false;
	if (counting->options->by != NULL && !fold_all(counting, ret_error))
		return false;
	if (counting->options->hist && !read_bins(counting, ret_error))
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
	free(counting->group_bins);
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
	if (!answer_selection(run, &counting.selection))
		return true;
	good = answer(&counting, ret_error);
	counting_done(&counting);
	return good;
}

const struct command command_stats = {
	.name = "stats",
	.group = GROUP_BYTES,
	.summary = "print min, max, mean, deviation, NaN and Inf counts",
	.synopsis = "[--nonfinite] [--hist] [--by=KEY] [SELECTORS] CHECKPOINT",
	.examples = { "stats --role=param step-1000/", "stats --by=layer step-1000/",
		"stats --nonfinite step-1000/" },
	.exit_1 =
		"with --nonfinite: a value is NaN or infinite; or a selector matched nothing",
	.options = OPTIONS,
	.selectors = select_all,
	.answer = &stats_record,
	.shapes = SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_ONE,
	.shows_plan = true, /* JSON names it */
	.options_size = sizeof(struct stats_options),
	.run = run_stats,
};
