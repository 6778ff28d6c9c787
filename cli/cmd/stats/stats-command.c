/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the numbers of tensors come to, one by one or folded.
 */
#include <inttypes.h>
#include <stdio.h>
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

/* ---- folding ---- */

/* One tensor more; what could not be read is not in the numbers. */
static void fold_row(struct stats_row *group, const struct stats_row *row)
{
	group->tensors++;
	/* Tied names share their numbers. */
	if (row->tied)
		return;
	group->numel += row->numel;
	group->bytes += row->bytes;
	if (!row->known)
		return;
	group->known = true;
	fsdp_distribution_join(&group->numbers, &row->numbers);
	group->inf = group->numbers.pos_inf + group->numbers.neg_inf;
}

static void fold(struct counting *counting, size_t index)
{
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, index);
	struct fsdp_tensor tensor =
		fsdp_tensor(counting->run->checkpoint, counted.tensor);
	struct stats_row *group = &counting->groups[fsdp_sums_group_of(
		counting->sums, counted.tensor, &tensor)];

	const struct stats_row row = {
		.numel = tensor.numel,
		.bytes = tensor.bytes,
		.tied = tensor.alias != FSDP_NONE,
		.known = counted.error == NULL,
		.numbers = counted.numbers,
	};

	fold_row(group, &row);
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
	if (counting->partial.parts != 0)
		return true;
	counting->group_count = fsdp_sums_count(counting->sums);
	counting->groups = calloc(counting->group_count, sizeof *counting->groups);
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

	if (counting->groups != NULL) {
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
	for (size_t i = 0; good && counting->groups != NULL && i < count; i++)
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
	size_t count = counting->groups != NULL ? counting->group_count
						: stats_tensor_rows(counting);

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

	for (uint32_t i = 0; i < stats_tensor_rows(counting); i++) {
		const struct stats_row *row = stats_tensor_row(counting, i);

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
enum { REQUEST = 64 };
static const char *request_of(const struct counting *counting, char text[REQUEST])
{
	const char *by = counting->options->by;

	snprintf(text, REQUEST, "%s%s%s%s", counting->nonfinite ? "nonfinite" : "tensors",
		counting->hist ? " hist" : "", by != NULL ? " by=" : "",
		by != NULL ? by : "");
	if (counting->run->select->depth >= 0)
		snprintf(text + strlen(text), REQUEST - strlen(text), " depth=%" PRId64,
			(int64_t)counting->run->select->depth);
	return text;
}

static bool answer(struct counting *counting, struct fsdp_error **ret_error)
{
	char request[REQUEST];

	if (!reading_choose(counting->run, counting->selection, &counting->name,
		    &counting->tensors, &counting->tensor_count) ||
		!partial_init(&counting->partial, counting->run,
			request_of(counting, request), counting->selection,
			counting->tensors, counting->tensor_count) ||
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
	name_buffer_done(&counting->key_name);
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
		(run->select->sort.count > 0 || run->select->largest ||
			run->select->reverse || run->select->columns.count > 0 ||
			run->select->head >= 0))
		return refuse(run, "give --sort, --columns and --head to merge",
			"--part takes no --sort, --columns and --head: it writes a row for each tensor");
	if (run->common->part_count != 0 && counting.options->by != NULL &&
		counting.options->hist)
		return refuse(run, "leave out --by, or --hist",
			"--part excludes --hist with --by: how wide a histogram is, only all parts know");
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

struct grouped_row {
	uint32_t group, row;
};

static int compare_groups(const void *left, const void *right)
{
	const struct grouped_row *a = left, *b = right;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

/* Rows of one group lie one behind the other. */
static void fold_sorted(struct counting *counting, const struct grouped_row *sorted)
{
	for (size_t i = 0; i < counting->joined->count; i++) {
		struct fsdp_document_value from = counting->joined->rows[sorted[i].row];
		struct fsdp_document_value key = fsdp_document_get(from, "key");
		struct stats_row *row = &counting->row, *group;

		if (i == 0 || sorted[i].group != sorted[i - 1].group)
			counting->group_count++;
		group = &counting->groups[counting->group_count - 1];
		stats_tensor_row(counting, sorted[i].row);
		row->tied = fsdp_document_get(from, "tied").integer != 0;
		fold_row(group, row);
		group->key =
			key.kind != FSDP_DOCUMENT_TEXT ? value_null()
			: counting->by == FSDP_BY_DTYPE || counting->by == FSDP_BY_ROLE
				? value_text(text_of_span(key.text))
				: value_name(text_of_span(key.text));
	}
}

/* As fold_all, of what parts have told. False: out of memory. */
static bool fold_joined(struct counting *counting)
{
	const char *by = strstr(counting->joined->partial.request, " by=");
	size_t count = counting->joined->count;
	struct grouped_row *sorted = calloc(count + 1, sizeof *sorted);

	counting->groups = calloc(count + 1, sizeof *counting->groups);
	for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
		if (strncmp(by + 4, KEYS[i].word, strlen(KEYS[i].word)) == 0)
			counting->by = KEYS[i].by;
	for (size_t i = 0; sorted != NULL && i < count; i++)
		sorted[i] = (struct grouped_row){
			(uint32_t)joined_count(counting->joined->rows[i], "group"),
			(uint32_t)i
		};
	if (sorted != NULL && counting->groups != NULL) {
		qsort(sorted, count, sizeof *sorted, compare_groups);
		fold_sorted(counting, sorted);
	}
	free(sorted);
	return sorted != NULL && counting->groups != NULL;
}

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
	good = (strstr(joined->partial.request, " by=") == NULL ||
		       fold_joined(&counting)) &&
	       list_rows(&counting);
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
