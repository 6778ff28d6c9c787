/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what numbers come to: a table for all outputs.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/stats/stats.h"
#include "part/tensor-row.h"
#include "render/writer.h"
#include "session/session.h"

static const struct stats_row *row_of(struct subject of)
{
	return of.object;
}

static bool is_finite(const struct stats_row *row)
{
	return row->sum.known && fsdp_distribution_finite(&row->sum.numbers) > 0;
}

static struct value known_number(const struct stats_row *row, double number)
{
	return is_finite(row) ? value_number(number) : value_absent();
}

static struct value get_min(struct subject of)
{
	return known_number(row_of(of), row_of(of)->sum.numbers.min);
}

static struct value get_max(struct subject of)
{
	return known_number(row_of(of), row_of(of)->sum.numbers.max);
}

static struct value get_mean(struct subject of)
{
	return known_number(row_of(of), row_of(of)->sum.numbers.mean);
}

static struct value get_std(struct subject of)
{
	return known_number(
		row_of(of), fsdp_distribution_deviation(&row_of(of)->sum.numbers));
}

static struct value count_of(const struct stats_row *row, uint64_t count)
{
	return row->sum.known ? value_count(count) : value_absent();
}

static struct value get_zeros(struct subject of)
{
	return count_of(row_of(of), row_of(of)->sum.numbers.zeros);
}

static struct value get_nan(struct subject of)
{
	return count_of(row_of(of), row_of(of)->sum.numbers.nan);
}

static struct value get_inf(struct subject of)
{
	return count_of(row_of(of), row_of(of)->inf);
}

/* ---- histograms ---- */

enum { WITHOUT_HIST, WITH_HIST }; /* views */

static struct value get_bins(struct subject of)
{
	return row_of(of)->binned ? value_counts(row_of(of)->bins, STATS_BINS)
				  : value_absent();
}

#define HISTOGRAM                                                                                                                                                                                                                      \
	{                                                                                                                                                                                                                              \
		"bins", GET(FIELD_SHAPE, get_bins),                                                                                                                                                                                    \
			.label = "hist", .machine_only = 1U << WITHOUT_HIST,                                                                                                                                                           \
			ABOUT("With `--hist`: number of finite values in each of 16 equal ranges from `min` to `max`. A value on a border belongs to the upper range, `max` to the last; if `min` is `max`, all belong to the first.") \
	}

#define ROW struct stats_row
#define NUMBERS                                                                                                                                             \
	{ "numel", COUNT_AT(ROW, sum.numel), HIDDEN, .sort = SORT_SHOWN, .always = true,                                                                    \
		ABOUT("Number of elements.") },                                                                                                             \
		{ "bytes", BYTES_AT(ROW, sum.bytes), HIDDEN, .sort = SORT_SHOWN,                                                                            \
			.always = true, ABOUT("Bytes of the full tensors.") },                                                                              \
		{ "min", GET(FIELD_NUMBER, get_min), .right = true, .null = true,                                                                           \
			.sort = SORT_SHOWN,                                                                                                                 \
			ABOUT("Least finite number; null where there is none.") },                                                                          \
		{ "max", GET(FIELD_NUMBER, get_max), .right = true, .null = true,                                                                           \
			.sort = SORT_SHOWN, ABOUT("Largest finite number.") },                                                                              \
		{ "mean", GET(FIELD_NUMBER, get_mean), .right = true, .null = true,                                                                         \
			.sort = SORT_SHOWN, ABOUT("Mean of the finite numbers.") },                                                                         \
		{ "std", GET(FIELD_NUMBER, get_std), .right = true, .null = true,                                                                           \
			.sort = SORT_SHOWN,                                                                                                                 \
			ABOUT("Their standard deviation: the root of the mean square of what they differ from the mean by (`correction=0` in PyTorch).") }, \
		{ "zeros", GET(FIELD_COUNT, get_zeros), .sort = SORT_SHOWN,                                                                                 \
			ABOUT("Zeros, of both signs.") },                                                                                                   \
		{ "nan", GET(FIELD_COUNT, get_nan), .sort = SORT_SHOWN,                                                                                     \
			ABOUT("Numbers that are NaN.") },                                                                                                   \
	{                                                                                                                                                   \
		"inf", GET(FIELD_COUNT, get_inf), .sort = SORT_SHOWN,                                                                                       \
						  ABOUT("Infinities, of both signs.")                                                                       \
	}

static const struct record tensor_stats_record = OBJECT_RECORD(ROW, "tensor_stats",
	"What the numbers of a tensor come to. Of a complex element both parts are numbers. Absent counts: they could not be read.",
	{ "name", NAME_AT(ROW, name), .always = true, .sort = SORT_ROW,
		ABOUT("Name as shown: clean, or as stored with `--raw`.") },
	{ "dtype", WORD_AT(ROW, dtype), .always = true,
		ABOUT("Element type as torch spells it.") },
	{ "shape", SHAPE_AT(ROW, shape, dims), HIDDEN, .always = true,
		ABOUT("Global shape.") },
	NUMBERS, HISTOGRAM);

static const struct record group_stats_record = OBJECT_RECORD(ROW, "group_stats",
	"What the numbers of several tensors come to. A tied name counts as a tensor and not again as numbers.",
	{ "by", VALUE_AT(ROW, shown), .text_only = EVERY_VIEW, .sort = SORT_ROW },
	{ "key", KEY_AT(ROW, key), HIDDEN, .null = true, .sort = SORT_ROW,
		ABOUT("What the tensors have in common: a module, layer, unit, dtype or role; null for those without one.") },
	{ "tensors", COUNT_AT(ROW, sum.tensors), .sort = SORT_SHOWN, .always = true,
		ABOUT("Number of tensors.") },
	NUMBERS, HISTOGRAM);

#define COUNTING struct counting
static const struct record total_record = OBJECT_RECORD(COUNTING, "stats_total",
	"Sums over what was selected and could be read.",
	{ "tensors", COUNT_AT(COUNTING, total.tensors), .always = true,
		ABOUT("Number of tensors.") },
	{ "bytes", BYTES_AT(COUNTING, total.bytes), .always = true,
		ABOUT("Bytes of the full tensors.") },
	{ "nan", COUNT_AT(COUNTING, total.nan), .always = true,
		ABOUT("Numbers that are NaN.") },
	{ "inf", COUNT_AT(COUNTING, total.inf), .always = true, ABOUT("Infinities.") });

static const struct record tensors_record = OBJECT_RECORD(COUNTING, "tensor_statistics",
	"Without `--by`: one element for each tensor.",
	{ "tensors", ITEMS(tensor_stats_record), .always = true, ABOUT("Tensors.") },
	{ "total", OBJECT(total_record), .always = true });

static const struct record groups_record = OBJECT_RECORD(COUNTING, "group_statistics",
	"With `--by`: one element for each group.",
	{ "groups", ITEMS(group_stats_record), .always = true, ABOUT("Groups.") },
	{ "total", OBJECT(total_record), .always = true });

const struct record stats_record = RECORD_OF(RECORD_ONE_OF, COUNTING,
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

/* What is the same in each row is written once below the table. */
static void leave_out(
	const struct counting *counting, struct record_table *table, const char *common)
{
	uint64_t *left_out = &table->table.left_out;

	if (counting->run->select->columns.count > 0)
		return;
	if (common != NULL)
		*left_out |= UINT64_C(1) << record_table_find(table, "dtype");
	if (counting->total.nan + counting->total.inf == 0)
		*left_out |= UINT64_C(1) << record_table_find(table, "nan") |
			     UINT64_C(1) << record_table_find(table, "inf");
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
		common != NULL ? "; every row: " : "", common != NULL ? common : "");
}

bool stats_show(struct counting *counting)
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
	const char *common;
	bool memory;

	record_table_init(&table, &like, of, NULL);
	if (!choose_columns(run, &table))
		return true;
	if (!sort_rows(run, &table, NULL, object_of, counting, counting->rows,
		    counting->row_count, &memory))
		return !memory;
	common = common_dtype(counting, head);
	leave_out(counting, &table, common);
	run_begin(run, counting->status);
	out_records_begin(run->out, &table);
	for (size_t i = 0; i < head; i++)
		out_records_row(run->out, &table, stats_row(counting, counting->rows[i]));
	out_table_end(run->out);
	show_total(counting, common);
	return true;
}
