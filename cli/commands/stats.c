/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints statistics of tensors, per tensor or folded by name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <fsdp/analysis.h>
#include <fsdp/elements.h>
#include <fsdp/trace.h>

#include "args/select.h"
#include "shared/shown-names.h"
#include "shared/tensor-reading.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"
#include "render/writer.h"
#include "session/session.h"

/*
 * What `stats` works with.
 */
struct stats_options {
	bool nonfinite, hist;
	const char *by;
};

enum { STATS_BINS = FSDP_STATISTICS_BINS };

struct stats_sum {
	uint64_t tensors, numel, bytes;
	bool known; /* the numbers */
	struct fsdp_value_statistics numbers;
};

/* A tensor, or a group of them. */
struct stats_row {
	struct value key, shown; /* of a group */
	struct text name;
	const char *dtype;
	const int64_t *shape;
	uint32_t dims;
	struct stats_sum sum;
	struct value min, max, mean, std; /* absent: no finite number */
	uint64_t zeros, nan, inf;         /* UINT64_MAX: unknown; inf of both signs */
	struct value bins;                /* absent: not counted */
	int64_t counts[STATS_BINS];
};

struct counting {
	struct run *run;
	const struct stats_options *options;
	struct selection *selection;
	struct name_buffer *name;
	uint32_t *tensors; /* that are selected */
	size_t tensor_count;
	struct fsdp_statistics *statistics;
	struct fsdp_recording_progress progress; /* of them */
	/* With --by. */
	enum fsdp_group_key by;
	struct fsdp_sums *sums;
	struct stats_sum *groups; /* NULL: a row per tensor */
	uint64_t *group_bins;     /* with --hist: STATS_BINS of each group */
	size_t group_count;

	uint32_t *rows; /* numbers of tensors or of groups, as they are shown */
	size_t row_count;
	struct stats_row row; /* in hand */
	struct {
		uint64_t tensors, bytes, nan, inf; /* that were read */
	} total;
	int status;
};

/* ---- the rows of tensors and of groups ---- */

static void fill(struct stats_row *row, const uint64_t *bins)
{
	const struct fsdp_value_statistics *numbers = &row->sum.numbers;
	bool known = row->sum.known;

	row->zeros = known ? numbers->zeros : UINT64_MAX;
	row->nan = known ? numbers->nan : UINT64_MAX;
	row->inf = known ? numbers->pos_inf + numbers->neg_inf : UINT64_MAX;
	if (known && fsdp_value_statistics_finite(numbers) > 0) {
		row->min = value_number(numbers->min);
		row->max = value_number(numbers->max);
		row->mean = value_number(numbers->mean);
		row->std = value_number(fsdp_value_statistics_deviation(numbers));
	}
	if (known && bins != NULL) {
		for (size_t i = 0; i < STATS_BINS; i++)
			row->counts[i] = (int64_t)bins[i];
		row->bins = value_counts(row->counts, STATS_BINS);
	}
}

/* The row of a tensor, until the next one. */
static const struct stats_row *stats_tensor_row(
	struct counting *counting, uint32_t number)
{
	struct run *run = counting->run;
	struct stats_row *row = &counting->row;
	struct fsdp_statistics_row counted =
		fsdp_statistics_row(counting->statistics, number);
	struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, counted.tensor);

	*row = (struct stats_row){
		.name = tensor_shown_name(run, counting->name, &tensor),
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
			fsdp_sums_group(counting->sums, number).key, counting->name,
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

/* The same of what is shown: of groups where tensors are folded. */
static const struct stats_row *stats_row(struct counting *counting, uint32_t number)
{
	return counting->groups != NULL ? group_row(counting, number)
					: stats_tensor_row(counting, number);
}

/* ---- shows what numbers come to: a table for all outputs ---- */

enum { WITHOUT_HIST, WITH_HIST }; /* views */

#define HISTOGRAM                                                                                                                                                                                                                      \
	{                                                                                                                                                                                                                              \
		"bins", HELD_AT(FIELD_SHAPE, ROW, bins),                                                                                                                                                                               \
			.label = "hist", .machine_only = 1U << WITHOUT_HIST,                                                                                                                                                           \
			ABOUT("With `--hist`: number of finite values in each of 16 equal ranges from `min` to `max`. A value on a border belongs to the upper range, `max` to the last; if `min` is `max`, all belong to the first.") \
	}

#define ROW struct stats_row
#define NUMBERS                                                                                                                                             \
	{ "numel", COUNT_AT(ROW, sum.numel), HIDDEN, .sort = SORT_SHOWN,                                                                                    \
		ALWAYS("Number of elements.") },                                                                                                            \
		{ "bytes", BYTES_AT(ROW, sum.bytes), HIDDEN, .sort = SORT_SHOWN,                                                                            \
			ALWAYS("Bytes of the full tensors.") },                                                                                             \
		{ "min", HELD_AT(FIELD_NUMBER, ROW, min), .right = true, .null = true,                                                                      \
			.sort = SORT_SHOWN,                                                                                                                 \
			ABOUT("Least finite number; null where there is none.") },                                                                          \
		{ "max", HELD_AT(FIELD_NUMBER, ROW, max), .right = true, .null = true,                                                                      \
			.sort = SORT_SHOWN, ABOUT("Largest finite number.") },                                                                              \
		{ "mean", HELD_AT(FIELD_NUMBER, ROW, mean), .right = true, .null = true,                                                                    \
			.sort = SORT_SHOWN, ABOUT("Mean of the finite numbers.") },                                                                         \
		{ "std", HELD_AT(FIELD_NUMBER, ROW, std), .right = true, .null = true,                                                                      \
			.sort = SORT_SHOWN,                                                                                                                 \
			ABOUT("Their standard deviation: the root of the mean square of what they differ from the mean by (`correction=0` in PyTorch).") }, \
		{ "zeros", COUNT_AT(ROW, zeros), .sort = SORT_SHOWN,                                                                                        \
			ABOUT("Zeros, of both signs.") },                                                                                                   \
		{ "nan", COUNT_AT(ROW, nan), .sort = SORT_SHOWN,                                                                                            \
			ABOUT("Numbers that are NaN.") },                                                                                                   \
	{                                                                                                                                                   \
		"inf", COUNT_AT(ROW, inf), .sort = SORT_SHOWN,                                                                                              \
					   ABOUT("Infinities, of both signs.")                                                                              \
	}

static const struct record tensor_stats_record = OBJECT_RECORD(ROW, "tensor_stats",
	"Statistics of a tensor. A complex element counts as two numbers. Counts are absent if the tensor could not be read.",
	{ "name", NAME_AT(ROW, name), .always = true, .sort = SORT_ROW,
		ABOUT("Name as shown: clean, or as stored with `--raw`.") },
	{ "dtype", WORD_AT(ROW, dtype), ALWAYS("Element type as torch spells it.") },
	{ "shape", SHAPE_AT(ROW, shape, dims), HIDDEN, ALWAYS("Global shape.") }, NUMBERS,
	HISTOGRAM);

static const struct record group_stats_record = OBJECT_RECORD(ROW, "group_stats",
	"Statistics of several tensors. A tied name counts as a tensor, but its numbers count once.",
	{ "by", VALUE_AT(ROW, shown), .text_only = EVERY_VIEW, .sort = SORT_ROW },
	{ "key", KEY_AT(ROW, key), HIDDEN, .null = true, .sort = SORT_ROW,
		ABOUT("Common property of the tensors: a module, layer, unit, dtype or role; null for those without one.") },
	{ "tensors", COUNT_AT(ROW, sum.tensors), .sort = SORT_SHOWN,
		ALWAYS("Number of tensors.") },
	NUMBERS, HISTOGRAM);

#define COUNTING struct counting
static const struct record total_record = OBJECT_RECORD(COUNTING, "stats_total",
	"Sums over what was selected and could be read.",
	{ "tensors", COUNT_AT(COUNTING, total.tensors), ALWAYS("Number of tensors.") },
	{ "bytes", BYTES_AT(COUNTING, total.bytes),
		ALWAYS("Bytes of the full tensors.") },
	{ "nan", COUNT_AT(COUNTING, total.nan), ALWAYS("Numbers that are NaN.") },
	{ "inf", COUNT_AT(COUNTING, total.inf), ALWAYS("Infinities.") });

static const struct record tensors_record = OBJECT_RECORD(COUNTING, "tensor_statistics",
	"Without `--by`: one element for each tensor.",
	{ "tensors", ITEMS(tensor_stats_record), ALWAYS("Tensors.") },
	{ "total", OBJECT(total_record), .always = true });

static const struct record groups_record = OBJECT_RECORD(COUNTING, "group_statistics",
	"With `--by`: one element for each group.",
	{ "groups", ITEMS(group_stats_record), ALWAYS("Groups.") },
	{ "total", OBJECT(total_record), .always = true });

static const struct record stats_record = RECORD_OF(RECORD_ONE_OF, COUNTING,
	{ NULL, OBJECT(tensors_record) }, { NULL, OBJECT(groups_record) });

static const void *object_of(void *context, uint32_t number, uint32_t *ret_order)
{
	*ret_order = number;
	return stats_row(context, number);
}

/* What all tensors that are shown have in common; NULL: nothing, or there is one. */
static const char *common_dtype(struct counting *counting, size_t head)
{
	const char *common = NULL, *dtype;

	for (size_t i = 0; i < head; i++) {
		dtype = stats_row(counting, counting->rows[i])->dtype;
		if (common != NULL && strcmp(common, dtype) != 0)
			return NULL;
		common = dtype;
	}
	return head > 1 && counting->sums == NULL &&
			       counting->run->select->columns.count == 0
		       ? common
		       : NULL;
}

static void show_total(struct counting *counting, const char *common)
{
	struct run *run = counting->run;
	char size[HUMAN_ROOM], finite[32] = "no";

	out_record(run->out, "total", &total_record, (struct subject){ NULL, counting });
	if (counting->row_count == 0)
		return;
	if (counting->total.nan + counting->total.inf > 0)
		snprintf(finite, sizeof finite, "%" PRIu64,
			counting->total.nan + counting->total.inf);
	run_total(run, "%" PRIu64 " tensor%s, %s, %s NaN or Inf%s%s",
		counting->total.tensors, counting->total.tensors == 1 ? "" : "s",
		out_bytes(run->out, counting->total.bytes, size), finite,
		common != NULL ? "; all listed tensors: " : "",
		common != NULL ? common : "");
}

/* Puts rows in order and shows them; sets the status. */
static void stats_show(struct counting *counting)
{
	struct run *run = counting->run;
	const struct record *of =
		counting->groups != NULL ? &group_stats_record : &tensor_stats_record;
	const struct table like = { .key = counting->groups != NULL ? "groups"
								    : "tensors",
		.main = true,
		.view = counting->options->hist ? WITH_HIST : WITHOUT_HIST };
	size_t head = head_of(run, counting->row_count);
	struct record_table table;

	record_table_init(&table, &like, of, NULL);
	choose_columns(run, &table);
	sort_rows(run, &table, NULL, object_of, counting, counting->rows,
		counting->row_count);
	const char *common = common_dtype(counting, head);
	/* What is the same in each row is written once below the table. */
	uint64_t *omitted = &table.table.omitted;
	if (counting->run->select->columns.count <= 0) {
		if (common != NULL)
			*omitted |= UINT64_C(1) << record_table_find(&table, "dtype");
		if (counting->total.nan + counting->total.inf == 0)
			*omitted |= UINT64_C(1) << record_table_find(&table, "nan") |
				    UINT64_C(1) << record_table_find(&table, "inf");
	}
	run_begin(run, counting->status);
	out_records_begin(run->out, &table);
	for (size_t i = 0; i < head; i++)
		out_records_row(run->out, &table, stats_row(counting, counting->rows[i]));
	out_table_end(run->out);
	show_total(counting, common);
}

static const struct {
	const char *word;
	enum fsdp_group_key by;
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

RELEASE(release_sums, fsdp_sums_free)
RELEASE(release_statistics, fsdp_statistics_free)

static void fold_all(struct counting *counting)
{
	struct run *run = counting->run;
	size_t at = 0;

	while (strcmp(KEYS[at].word, counting->options->by) != 0)
		at++;
	counting->by = KEYS[at].by;
	run_must(run, fsdp_sums_new(run->checkpoint, counting->by, run->select->depth,
			      &counting->sums, &run->error));
	run_owns(run, counting->sums, release_sums);
	counting->group_count = fsdp_sums_count(counting->sums);
	counting->groups =
		run_memory(run, counting->group_count, sizeof *counting->groups);
	FOR_EACH(i, fsdp_statistics_count(counting->statistics), counted,
		fsdp_statistics_row(counting->statistics, i)) {
		struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, counted.tensor);
		struct stats_sum *group = &counting->groups[fsdp_sums_group_of(
			counting->sums, counted.tensor, &tensor)];

		/* One tensor more; what could not be read is not in the numbers. */
		group->tensors++;
		/* Tied names share their numbers. */
		if (tensor.alias != FSDP_NONE)
			continue;
		group->numel += tensor.numel;
		group->bytes += tensor.bytes;
		if (counted.error != NULL)
			continue;
		group->known = true;
		fsdp_value_statistics_join(&group->numbers, &counted.numbers);
	}
}

/* ---- histograms ---- */

static size_t group_of(const struct counting *counting, size_t index, bool *ret_tied)
{
	uint32_t id = fsdp_statistics_row(counting->statistics, index).tensor;
	struct fsdp_tensor tensor = fsdp_tensor(counting->run->checkpoint, id);

	*ret_tied = tensor.alias != FSDP_NONE;
	return fsdp_sums_group_of(counting->sums, id, &tensor);
}

/* The span of a group is that of all its tensors. */
static void read_bins(struct counting *counting)
{
	struct run *run = counting->run;
	struct fsdp_recording_progress *progress = &counting->progress;
	size_t count = fsdp_statistics_count(counting->statistics);
	struct fsdp_statistics_span *spans = NULL;
	bool tied, good;

	if (counting->groups != NULL) {
		spans = run_memory(run, count, sizeof *spans);
		counting->group_bins = run_memory(run, counting->group_count,
			STATS_BINS * sizeof *counting->group_bins);
		FOR_EACH(i, count, group, &counting->groups[group_of(counting, i, &tied)])
			spans[i] = (struct fsdp_statistics_span){ group->numbers.min,
				group->numbers.max };
	}
	*progress = (struct fsdp_recording_progress){ 0 };
	progress_begin(run->common, progress);
	good = fsdp_statistics_bin(counting->statistics, spans, &run->error);
	run_interrupted(run, progress_end());
	run_must(run, good);
	for (size_t i = 0; counting->groups != NULL && i < count; i++) {
		struct fsdp_statistics_row counted =
			fsdp_statistics_row(counting->statistics, i);
		size_t group = group_of(counting, i, &tied);

		for (size_t k = 0; !tied && counted.error == NULL && k < STATS_BINS; k++)
			counting->group_bins[group * STATS_BINS + k] += counted.bins[k];
	}
}

static void read_numbers(struct counting *counting)
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

	progress_begin(run->common, &counting->progress);
	bool good = fsdp_statistics_new(
		run->checkpoint, &options, &counting->statistics, &run->error);
	run_interrupted(run, progress_end());
	run_must(run, good);
	run_owns(run, counting->statistics, release_statistics);
}

static void run_stats(struct run *run)
{
	struct row_buffers *buffers = run_memory(run, 1, sizeof *buffers);
	struct counting all = {
		.run = run, .options = run->options, .name = &buffers->name
	};
	struct counting *counting = &all;
	size_t count, unread = 0;

	if (run->select->depth >= 0 &&
		(counting->options->by == NULL ||
			strcmp(counting->options->by, "module") != 0))
		run_refuse(run, "give both: --by=module -d N", "-d needs --by=module");
	counting->selection = run_selection(run);
	counting->tensors = reading_choose(
		run, counting->selection, counting->name, &counting->tensor_count);
	read_numbers(counting);
	if (counting->options->by != NULL)
		fold_all(counting);
	if (counting->options->hist)
		read_bins(counting);
	for (uint32_t i = 0; i < fsdp_statistics_count(counting->statistics); i++) {
		const struct stats_row *row = stats_tensor_row(counting, i);
		const struct fsdp_error *error =
			fsdp_statistics_row(counting->statistics, i).error;

		if (error != NULL) {
			reading_failed(run, row->name, error, &unread);
			continue;
		}
		counting->total.tensors++;
		counting->total.bytes += row->sum.bytes;
		counting->total.nan += row->sum.numbers.nan;
		counting->total.inf += row->inf;
	}
	reading_failed_end(run, unread);
	if (unread > 0)
		counting->status = status_worse(counting->status, STATUS_PARTIAL);
	count = counting->groups != NULL ? counting->group_count
					 : fsdp_statistics_count(counting->statistics);
	counting->rows = run_memory(run, count, sizeof *counting->rows);
	FOR_EACH(i, (uint32_t)count, row, stats_row(counting, i)) {
		bool has_nonfinite = row->sum.known && row->nan + row->inf > 0;
		if (row->sum.tensors > 0 &&
			(!counting->options->nonfinite || has_nonfinite))
			counting->rows[counting->row_count++] = i;
	}
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
	stats_show(counting);
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
	.perform = run_stats,
};
