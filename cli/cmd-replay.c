/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of a run went: by type, rank, step and collective. Knows what is shown
 * of a recording; how it was read and added up is the library's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "checks.h"
#include "rank-pattern.h"

struct replay_options {
	const char *by;
	int64_t top;
	bool percentiles;
	const char *steps;
	const char *style;
	const char *rank_regex;
	bool strict;
	struct texts fail_if;
	const char *compare;
};

static const char *const BY_WORDS[] = { "type", "rank", "step", "collective", "region",
	NULL };
static const char *const STYLE_WORDS[] = { "default", "torch", NULL };

#define AT(field) offsetof(struct replay_options, field)
static const struct option OPTIONS[] = {
	{ "by", 0, OPTION_WORD, "KEY", AT(by), BY_WORDS, .help = "show only this table" },
	{ "top", 0, OPTION_INTEGER, "N", AT(top), NULL, 1, INT64_MAX,
		.help = "of each table the N rows with the most time" },
	{ "percentiles", 0, OPTION_FLAG, NULL, AT(percentiles),
		.help = "how long each call took: least, half, 95 %, most" },
	{ "steps", 0, OPTION_TEXT, "LIST", AT(steps),
		.help = "count these steps only: 3,10-19" },
	{ "style", 0, OPTION_WORD, "STYLE", AT(style), STYLE_WORDS, .initial = "default",
		.help = "torch: the lines that SimpleProfiler prints, and nothing else" },
	{ "rank-regex", 0, OPTION_TEXT, "RE", AT(rank_regex),
		.help = "take ranks from the paths: the first group, or all that "
			"matches" },
	{ "strict", 0, OPTION_FLAG, NULL, AT(strict),
		.help = "whatever was not as it should be makes the status 1" },
	{ "fail-if", 0, OPTION_LIST, "EXPR", AT(fail_if),
		.help = "status 1 if exposed>20%, idle>30%, TYPE>50ms, TYPE>1.2x …" },
	{ "compare", 0, OPTION_TEXT, "FILE", AT(compare),
		.help = "an earlier result of replay --json" },
	{ NULL },
};
#undef AT

/* What one run of this command has at hand. */
struct replay {
	struct run *run;
	const struct replay_options *options;
	const struct fsdp_recordings *recordings;
	struct fsdp_result *baseline;
	size_t count;
	bool has_traces, has_dumps;
};

static const struct fsdp_recording *by_rank(const struct replay *replay, size_t nth)
{
	return fsdp_recording(
		replay->recordings, fsdp_recording_by_rank(replay->recordings, nth));
}

static struct value value_ns(int64_t ns)
{
	return ns == FSDP_ABSENT ? value_null() : value_integer(ns);
}

static struct value value_span(struct fsdp_span span)
{
	return span.data == NULL ? value_null() : value_text(text_of_span(span));
}

/* ---- times as people read them ---- */

/* Milliseconds with three decimals, halves away from zero. */
struct ms {
	char text[32];
};

static const char *ms_of(int64_t ns, struct ms *ms)
{
	uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	uint64_t us = size / 1000 + (size % 1000 >= 500);

	if (ns == FSDP_ABSENT)
		return "-";
	snprintf(ms->text, sizeof ms->text, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "",
		us / 1000, us % 1000);
	return ms->text;
}

/* part of whole in per cent with one decimal, or "-". */
static const char *percent_of(int64_t part, int64_t whole, struct ms *text)
{
	if (whole <= 0 || part == FSDP_ABSENT)
		return "-";
	snprintf(text->text, sizeof text->text, "%.1f",
		(double)part * 100 / (double)whole);
	return text->text;
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* ---- the first line ---- */

static void line_collectives(struct replay *replay)
{
	static const char *const hows[] = { "arguments", "launch", "name", "nothing" };
	uint64_t counts[FSDP_BY_COUNT] = { 0 };
	enum fsdp_comm_layer layer = FSDP_LAYER_NONE;
	struct out *out = replay->run->out;
	bool some = false;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		if (one->layer > layer)
			layer = one->layer;
		for (int j = 0; j < FSDP_BY_COUNT; j++)
			counts[j] += one->resolution[j];
	}
	if (layer == FSDP_LAYER_NONE) {
		out_line_text(out, "; no collectives");
		return;
	}
	out_line_text(out, "; collectives from %s: ",
		layer == FSDP_LAYER_DEVICE ? "device kernels" : "the host");
	for (int j = 0; j < FSDP_BY_COUNT; j++) {
		if (counts[j] == 0)
			continue;
		out_line_text(
			out, "%s%" PRIu64 " by %s", some ? ", " : "", counts[j], hows[j]);
		some = true;
	}
}

static void line_inputs(struct replay *replay)
{
	const struct fsdp_recording *first = by_rank(replay, 0);
	struct out *out = replay->run->out;

	out_line_begin(out, NULL);
	if (replay->has_traces) {
		out_line_text(out, "%zu rank%s", replay->count, plural(replay->count));
		if (first->backend.data != NULL) {
			out_line_text(out, " (");
			out_line_name(out, text_of_span(first->backend));
			out_line_text(out, ")");
		}
		out_line_text(out, ", %zu step%s", first->step_count,
			plural(first->step_count));
		line_collectives(replay);
	} else {
		size_t dumps = 0;
		for (size_t i = 0; i < replay->count; i++)
			dumps += by_rank(replay, i)->dump_count;
		out_line_text(out, "%zu recording%s of SimpleProfiler, %zu dump%s",
			replay->count, plural(replay->count), dumps, plural(dumps));
	}
	out_line_end(out);
}

/* ---- PyTorch's own lines ---- */

static void show_dumps(struct replay *replay)
{
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		for (size_t j = 0; j < one->dump_count; j++) {
			out_verbatim(replay->run->out,
				text_of_span(one->dumps[j].log_message));
			out_verbatim(replay->run->out, text_of("\n"));
		}
	}
}

/* ---- rows by time ---- */

/* Indexes of the rows with the most time, or of all in their order. */
struct row {
	int64_t ns;
	size_t index;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	if (left->ns != right->ns)
		return left->ns > right->ns ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* How many of them are shown. */
static size_t top_of(const struct replay *replay, struct row *rows, size_t count)
{
	if (replay->options->top < 0)
		return count;
	qsort(rows, count, sizeof *rows, compare_rows);
	return (uint64_t)replay->options->top < count ? (size_t)replay->options->top
						      : count;
}

static bool shows(const struct replay *replay, const char *table)
{
	return replay->options->by == NULL || strcmp(replay->options->by, table) == 0;
}

/* ---- types ---- */

enum {
	TYPE_NAME,
	TYPE_CALLS,
	TYPE_TOTAL,
	TYPE_MEAN,
	TYPE_MIN,
	TYPE_MAX,
	TYPE_LEAST,
	TYPE_P50,
	TYPE_P95,
	TYPE_MOST,
	TYPE_SHARE,
	TYPE_COLUMNS,
};

static const struct column TYPE_TABLE[TYPE_COLUMNS] = {
	[TYPE_NAME] = { "type" },
	[TYPE_CALLS] = { "calls", .right = true },
	[TYPE_TOTAL] = { "total ms", .right = true },
	[TYPE_MEAN] = { "rank mean", .right = true },
	[TYPE_MIN] = { "min (rank)", .right = true },
	[TYPE_MAX] = { "max (rank)", .right = true },
	[TYPE_LEAST] = { "call min", .right = true },
	[TYPE_P50] = { "p50", .right = true },
	[TYPE_P95] = { "p95", .right = true },
	[TYPE_MOST] = { "call max", .right = true },
	[TYPE_SHARE] = { "% of all", .right = true },
};

/* One type over all ranks: who spent least and most. */
struct spread {
	uint64_t ranks;
	int64_t min_ns, max_ns, min_rank, max_rank;
};

static const struct fsdp_type_times *type_of(
	const struct fsdp_recording *recording, struct fsdp_span name)
{
	for (size_t i = 0; i < recording->type_count; i++)
		if (text_is(text_of_span(recording->types[i].name), text_of_span(name)))
			return &recording->types[i];
	return NULL;
}

static struct spread spread_of(const struct replay *replay, struct fsdp_span name)
{
	struct spread spread = { 0 };

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		const struct fsdp_type_times *type = type_of(one, name);
		int64_t ns = type != NULL ? type->times.sum_ns : FSDP_ABSENT;

		if (ns == FSDP_ABSENT)
			continue;
		if (spread.ranks == 0 || ns < spread.min_ns) {
			spread.min_ns = ns;
			spread.min_rank = one->rank;
		}
		if (spread.ranks == 0 || ns > spread.max_ns) {
			spread.max_ns = ns;
			spread.max_rank = one->rank;
		}
		spread.ranks++;
	}
	return spread;
}

/* All types, the six first even where nothing was spent on them. */
static size_t type_count(const struct replay *replay)
{
	return fsdp_recordings_type_count(replay->recordings);
}

static bool is_region(struct fsdp_span name)
{
	static const char *const others[] = { "reduce_scatter", "all_reduce", "broadcast",
		"reduce", "all_to_all", "send_recv", "gather", "scatter", "barrier",
		"coalesced", "comm_unknown", "compute", "D2D", "P2P", "HtoH", "memset" };

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (text_is(text_of_span(name), text_of(others[i])))
			return false;
	return !fsdp_type_is_named(name);
}

static int64_t sum_of_all(const struct replay *replay)
{
	for (size_t i = 0; i < type_count(replay); i++) {
		struct fsdp_type_times type = fsdp_recordings_type(replay->recordings, i);
		if (text_is(text_of_span(type.name), text_of("all")))
			return type.times.sum_ns;
	}
	return 0;
}

static void row_type(struct replay *replay, struct fsdp_span name,
	const struct fsdp_times *times, int64_t all)
{
	struct value values[TYPE_COLUMNS];
	struct ms texts[TYPE_COLUMNS];
	char shown[256], min[64], max[64];
	struct spread spread = spread_of(replay, name);
	struct ms part;
	bool named = fsdp_type_is_named(name);

	for (int i = 0; i < TYPE_COLUMNS; i++)
		values[i] = value_absent();
	snprintf(shown, sizeof shown, "%s%.*s", named ? "" : "  ", (int)name.size,
		name.data != NULL ? (const char *)name.data : "");
	values[TYPE_NAME] = value_name(text_of(shown));
	values[TYPE_CALLS] = value_count(times->count);
	values[TYPE_TOTAL] = value_word(
		times->count == 0 ? "0" : ms_of(times->sum_ns, &texts[TYPE_TOTAL]));
	if (times->count != 0 && spread.ranks != 0) {
		values[TYPE_MEAN] =
			value_word(ms_of(times->sum_ns == FSDP_ABSENT
						 ? FSDP_ABSENT
						 : times->sum_ns / (int64_t)spread.ranks,
				&texts[TYPE_MEAN]));
		snprintf(min, sizeof min, "%s (%" PRId64 ")", ms_of(spread.min_ns, &part),
			spread.min_rank);
		snprintf(max, sizeof max, "%s (%" PRId64 ")", ms_of(spread.max_ns, &part),
			spread.max_rank);
		values[TYPE_MIN] = value_word(min);
		values[TYPE_MAX] = value_word(max);
		values[TYPE_LEAST] = value_word(ms_of(times->min_ns, &texts[TYPE_LEAST]));
		values[TYPE_P50] = value_word(ms_of(times->p50_ns, &texts[TYPE_P50]));
		values[TYPE_P95] = value_word(ms_of(times->p95_ns, &texts[TYPE_P95]));
		values[TYPE_MOST] = value_word(ms_of(times->max_ns, &texts[TYPE_MOST]));
		values[TYPE_SHARE] =
			value_word(percent_of(times->sum_ns, all, &texts[TYPE_SHARE]));
	}
	out_row(replay->run->out, values);
}

static const char *const SIX[] = { "all", "all_gather", "all_gather_object", "resharding",
	"H2D", "D2H" };

static bool has_type(const struct replay *replay, const char *name)
{
	for (size_t i = 0; i < type_count(replay); i++)
		if (text_is(text_of_span(
				    fsdp_recordings_type(replay->recordings, i).name),
			    text_of(name)))
			return true;
	return false;
}

/* Columns by what there is to say: over ranks, or of single calls. */
static size_t choose_type_columns(const struct replay *replay, size_t *columns)
{
	size_t count = 0;
	bool many = replay->count > 1;

	columns[count++] = TYPE_NAME;
	columns[count++] = TYPE_CALLS;
	columns[count++] = TYPE_TOTAL;
	if (many) {
		columns[count++] = TYPE_MEAN;
		columns[count++] = TYPE_MIN;
		columns[count++] = TYPE_MAX;
	}
	if (replay->options->percentiles)
		for (size_t i = TYPE_LEAST; i <= TYPE_MOST; i++)
			columns[count++] = i;
	columns[count++] = TYPE_SHARE;
	return count;
}

static bool show_types(struct replay *replay, bool regions)
{
	static const struct fsdp_times none = { 0 };
	size_t columns[TYPE_COLUMNS], count = type_count(replay), next = 0;
	struct table table = { .key = "types",
		.columns = TYPE_TABLE,
		.column_count = TYPE_COLUMNS,
		.text_only = true,
		.chosen = columns };
	struct row *rows = malloc((count + 1) * sizeof *rows);
	int64_t all = sum_of_all(replay);
	bool sorted = replay->options->top >= 0;

	if (rows == NULL)
		return false;
	table.chosen_count = choose_type_columns(replay, columns);
	out_table_begin(replay->run->out, &table);
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct row){
			fsdp_recordings_type(replay->recordings, i).times.sum_ns, i
		};
	count = top_of(replay, rows, count);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_type_times type =
			fsdp_recordings_type(replay->recordings, rows[i].index);

		if (regions && !is_region(type.name))
			continue;
		/* Those of the six that are absent stand in their places. */
		for (; !regions && !sorted && next < 6 &&
			!text_is(text_of_span(type.name), text_of(SIX[next]));
			next++)
			if (!has_type(replay, SIX[next]))
				row_type(replay, span_of_text(text_of(SIX[next])), &none,
					all);
		next += next < 6;
		row_type(replay, type.name, &type.times, all);
	}
	for (; !regions && !sorted && next < 6; next++)
		if (!has_type(replay, SIX[next]))
			row_type(replay, span_of_text(text_of(SIX[next])), &none, all);
	out_table_end(replay->run->out);
	free(rows);
	return true;
}

/* ---- ranks ---- */

enum {
	RANK_NUMBER,
	RANK_ALL,
	RANK_COMM,
	RANK_EXPOSED,
	RANK_OVERLAP,
	RANK_COMPUTE,
	RANK_IDLE,
	RANK_WAIT,
	RANK_LAST,
	RANK_MARK,
	RANK_COLUMNS,
};

static const struct column RANK_TABLE[RANK_COLUMNS] = {
	[RANK_NUMBER] = { "rank", .right = true },
	[RANK_ALL] = { "all", .right = true },
	[RANK_COMM] = { "comm", .right = true },
	[RANK_EXPOSED] = { "exposed", .right = true },
	[RANK_OVERLAP] = { "overlap", .right = true },
	[RANK_COMPUTE] = { "compute", .right = true },
	[RANK_IDLE] = { "idle", .right = true },
	[RANK_WAIT] = { "wait", .right = true },
	[RANK_LAST] = { "last", .right = true },
	[RANK_MARK] = { "note" },
};

static void row_rank(struct replay *replay, const struct fsdp_recording *one)
{
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(replay->recordings);
	const struct fsdp_device_times *device = &one->device;
	const struct fsdp_type_times *all = type_of(one, span_of_text(text_of("all")));
	struct value values[RANK_COLUMNS];
	struct ms texts[RANK_COLUMNS];
	char overlap[48];

	for (int i = 0; i < RANK_COLUMNS; i++)
		values[i] = value_absent();
	values[RANK_NUMBER] = value_integer(one->rank);
	if (all != NULL)
		values[RANK_ALL] = value_word(ms_of(all->times.sum_ns, &texts[RANK_ALL]));
	if (one->has_device) {
		snprintf(overlap, sizeof overlap, "%s %%",
			percent_of(device->overlap_ns, device->comm_busy_ns,
				&texts[RANK_OVERLAP]));
		values[RANK_COMM] =
			value_word(ms_of(device->comm_busy_ns, &texts[RANK_COMM]));
		values[RANK_EXPOSED] =
			value_word(ms_of(device->exposed_ns, &texts[RANK_EXPOSED]));
		if (device->comm_busy_ns > 0)
			values[RANK_OVERLAP] = value_word(overlap);
		values[RANK_COMPUTE] =
			value_word(ms_of(device->compute_busy_ns, &texts[RANK_COMPUTE]));
		values[RANK_IDLE] = value_word(ms_of(device->idle_ns, &texts[RANK_IDLE]));
	} else if (one->host_comm_busy_ns != FSDP_ABSENT) {
		values[RANK_COMM] =
			value_word(ms_of(one->host_comm_busy_ns, &texts[RANK_COMM]));
	}
	if (matching->by != NULL) {
		values[RANK_WAIT] = value_word(ms_of(one->wait_ns, &texts[RANK_WAIT]));
		values[RANK_LAST] = value_count(one->times_last);
	}
	values[RANK_MARK] = value_word(
		matching->straggler == one->rank ? "straggler: others wait for it" : "");
	out_row(replay->run->out, values);
}

static bool show_ranks(struct replay *replay)
{
	size_t columns[RANK_COLUMNS];
	struct table table = { .key = "ranks",
		.columns = RANK_TABLE,
		.column_count = RANK_COLUMNS,
		.text_only = true,
		.chosen = columns };
	struct row *rows = malloc((replay->count + 1) * sizeof *rows);
	size_t count;

	if (rows == NULL)
		return false;
	for (size_t i = 0; i < RANK_COLUMNS; i++)
		columns[table.chosen_count++] = i;
	if (fsdp_recordings_matching(replay->recordings)->straggler == FSDP_ABSENT)
		table.chosen_count--;
	out_table_begin(replay->run->out, &table);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		rows[i] = (struct row){ one->device.span_ns, i };
	}
	count = top_of(replay, rows, replay->count);
	for (size_t i = 0; i < count; i++)
		row_rank(replay, by_rank(replay, rows[i].index));
	out_table_end(replay->run->out);
	free(rows);
	return true;
}

/* ---- steps ---- */

static const struct column STEP_TABLE[] = {
	{ "step", .right = true },
	{ "rank", .right = true },
	{ "ms", .right = true },
	{ "type" },
	{ "calls", .right = true },
	{ "total ms", .right = true },
};

static void rows_step(struct replay *replay, const struct fsdp_recording *one,
	const struct fsdp_step *step)
{
	struct ms took, spent;

	for (size_t i = 0; i == 0 || i < step->type_count; i++) {
		struct value values[6];
		bool some = i < step->type_count;

		values[0] = value_integer(step->step);
		values[1] = value_integer(one->rank);
		values[2] = value_word(ms_of(step->dur_ns, &took));
		values[3] = some ? value_name(text_of_span(step->types[i].name))
				 : value_absent();
		values[4] = some ? value_count(step->types[i].count) : value_absent();
		values[5] = some ? value_word(ms_of(step->types[i].sum_ns, &spent))
				 : value_absent();
		out_row(replay->run->out, values);
	}
}

static void show_steps(struct replay *replay)
{
	struct table table = { .key = "steps",
		.columns = STEP_TABLE,
		.column_count = sizeof STEP_TABLE / sizeof *STEP_TABLE,
		.text_only = true };

	out_table_begin(replay->run->out, &table);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		for (size_t j = 0; j < one->step_count; j++)
			rows_step(replay, one, &one->steps[j]);
	}
	out_table_end(replay->run->out);
}

/* ---- collectives ---- */

static const struct column COLLECTIVE_TABLE[] = {
	{ "type" },
	{ "group" },
	{ "seq" },
	{ "ms", .right = true },
	{ "skew ms", .right = true },
	{ "last", .right = true },
	{ "bytes", .right = true },
	{ "busbw GB/s", .right = true },
};

static void row_collective(struct replay *replay, struct fsdp_span type,
	struct fsdp_span group, struct fsdp_span seq, int64_t ns, int64_t skew,
	int64_t last, int64_t bytes, int64_t size)
{
	struct ms took, apart;
	char algbw[32], busbw[32];
	struct value values[8];

	fsdp_bandwidth(&type, bytes, size, ns, algbw, busbw);
	values[0] = value_name(text_of_span(type));
	values[1] = group.data != NULL ? value_name(text_of_span(group)) : value_absent();
	values[2] = seq.data != NULL ? value_text(text_of_span(seq)) : value_absent();
	values[3] = value_word(ms_of(ns, &took));
	values[4] =
		skew == FSDP_ABSENT ? value_absent() : value_word(ms_of(skew, &apart));
	values[5] = last == FSDP_ABSENT ? value_absent() : value_integer(last);
	values[6] = bytes == FSDP_ABSENT ? value_absent() : value_bytes((uint64_t)bytes);
	values[7] = busbw[0] != '\0' ? value_word(busbw) : value_absent();
	out_row(replay->run->out, values);
}

static bool show_collectives(struct replay *replay)
{
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(replay->recordings);
	const struct fsdp_recording *first = by_rank(replay, 0);
	bool matched = matching->by != NULL;
	struct fsdp_collective one;
	size_t count = matched ? matching->match_count : first->collective_count;
	struct row *rows = malloc((count + 1) * sizeof *rows);
	struct table table = { .key = "collectives",
		.columns = COLLECTIVE_TABLE,
		.column_count = sizeof COLLECTIVE_TABLE / sizeof *COLLECTIVE_TABLE,
		.text_only = true };

	if (rows == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		rows[i] = (struct row){ 0, i };
		if (matched) {
			rows[i].ns = matching->matches[i].transfer_ns;
			continue;
		}
		fsdp_recording_collective(first, i, &one);
		rows[i].ns = one.dur_ns;
	}
	count = top_of(replay, rows, count);
	out_table_begin(replay->run->out, &table);
	for (size_t i = 0; i < count; i++) {
		if (matched) {
			const struct fsdp_match *match =
				&matching->matches[rows[i].index];
			row_collective(replay, match->type, match->group, match->seq,
				match->transfer_ns, match->start_skew_ns,
				match->last_rank, match->bytes, match->group_size);
		} else {
			fsdp_recording_collective(first, rows[i].index, &one);
			row_collective(replay, one.type, one.group, one.seq, one.dur_ns,
				FSDP_ABSENT, FSDP_ABSENT, one.bytes, one.group_size);
		}
	}
	out_table_end(replay->run->out);
	free(rows);
	return true;
}

static bool show_text(struct replay *replay)
{
	struct out *out = replay->run->out;
	bool good = true;

	show_dumps(replay);
	if (strcmp(replay->options->style, "torch") == 0)
		return true;
	line_inputs(replay);
	if (shows(replay, "type"))
		good = show_types(replay, false);
	if (replay->options->by != NULL && shows(replay, "region"))
		good = good && show_types(replay, true);
	if (replay->has_traces && shows(replay, "rank")) {
		if (replay->options->by == NULL)
			out_line(out, NULL, "%s", "");
		good = good && show_ranks(replay);
	}
	if (replay->options->by != NULL && shows(replay, "step"))
		show_steps(replay);
	if (replay->options->by != NULL && shows(replay, "collective"))
		good = good && show_collectives(replay);
	return good;
}

/* ---- machine outputs ---- */

static void put_times(struct out *out, const struct fsdp_times *times)
{
	out_field(out, "count", value_count(times->count));
	out_field(out, "sum_ns",
		times->count == 0 ? value_integer(0) : value_ns(times->sum_ns));
	out_field(out, "min_ns",
		times->count == 0 ? value_null() : value_ns(times->min_ns));
	out_field(out, "p50_ns",
		times->count == 0 ? value_null() : value_ns(times->p50_ns));
	out_field(out, "p95_ns",
		times->count == 0 ? value_null() : value_ns(times->p95_ns));
	out_field(out, "max_ns",
		times->count == 0 ? value_null() : value_ns(times->max_ns));
	out_field(out, "approx", value_bool(times->approx));
}

static void put_type(
	struct replay *replay, struct fsdp_span name, const struct fsdp_times *times)
{
	struct out *out = replay->run->out;

	out_object_begin(out, NULL);
	out_field(out, "type", value_text(text_of_span(name)));
	put_times(out, times);
	out_array_begin(out, "ranks");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		const struct fsdp_type_times *type = type_of(one, name);
		if (type == NULL)
			continue;
		out_object_begin(out, NULL);
		out_field(out, "rank", value_integer(one->rank));
		out_field(out, "count", value_count(type->times.count));
		out_field(out, "sum_ns", value_ns(type->times.sum_ns));
		out_object_end(out);
	}
	out_array_end(out);
	out_object_end(out);
}

static void put_types(struct replay *replay)
{
	static const struct fsdp_times none = { 0 };
	struct out *out = replay->run->out;
	size_t next = 0, count = type_count(replay);

	out_items_begin(out, "types");
	for (size_t i = 0; i < count; i++) {
		struct fsdp_type_times type = fsdp_recordings_type(replay->recordings, i);
		for (; next < 6 && !text_is(text_of_span(type.name), text_of(SIX[next]));
			next++)
			if (!has_type(replay, SIX[next]))
				put_type(replay, span_of_text(text_of(SIX[next])), &none);
		next += next < 6;
		put_type(replay, type.name, &type.times);
	}
	for (; next < 6; next++)
		if (!has_type(replay, SIX[next]))
			put_type(replay, span_of_text(text_of(SIX[next])), &none);
	out_array_end(out);
}

static const char *layer_name(enum fsdp_comm_layer layer)
{
	return layer == FSDP_LAYER_DEVICE ? "device"
	       : layer == FSDP_LAYER_HOST ? "host"
					  : "none";
}

static const char *const HOWS[FSDP_BY_COUNT] = { "args", "launch", "name", "unknown" };

static void put_resolution(struct out *out, const uint64_t counts[FSDP_BY_COUNT])
{
	out_object_begin(out, "comm_resolution");
	for (int i = 0; i < FSDP_BY_COUNT; i++)
		out_field(out, HOWS[i], value_count(counts[i]));
	out_object_end(out);
}

static void put_device(struct out *out, const struct fsdp_recording *one)
{
	const struct fsdp_device_times *device = &one->device;

	if (!one->has_device) {
		out_field(out, "device", value_null());
		return;
	}
	out_object_begin(out, "device");
	out_field(out, "span_ns", value_integer(device->span_ns));
	out_field(out, "busy_ns", value_integer(device->busy_ns));
	out_field(out, "idle_ns", value_integer(device->idle_ns));
	out_field(out, "comm_busy_ns", value_integer(device->comm_busy_ns));
	out_field(out, "compute_busy_ns", value_integer(device->compute_busy_ns));
	out_field(out, "mem_busy_ns", value_integer(device->mem_busy_ns));
	out_field(out, "overlap_ns", value_integer(device->overlap_ns));
	out_field(out, "exposed_ns", value_integer(device->exposed_ns));
	out_object_end(out);
}

static void put_tallies(struct out *out, const char *key,
	const struct fsdp_tally *tallies, size_t count, bool sums)
{
	out_object_begin(out, key);
	for (size_t i = 0; i < count; i++) {
		struct text name = text_of_span(tallies[i].name);
		if (!sums) {
			out_field_named(out, name, value_count(tallies[i].count));
			continue;
		}
		out_object_begin_named(out, name);
		out_field(out, "count", value_count(tallies[i].count));
		out_field(out, "sum_ns", value_integer(tallies[i].sum_ns));
		out_object_end(out);
	}
	out_object_end(out);
}

static void put_trace(struct out *out, const struct fsdp_recording *one)
{
	out_field(out, "root", value_word(one->root));
	out_field(out, "backend", value_span(one->backend));
	out_field(out, "world_size", value_ns(one->world_size));
	out_field(out, "events", value_count(one->events));
	out_field(out, "recovered", value_count(one->recovered));
	out_field(out, "dropped", value_count(one->dropped));
	out_field(out, "truncated", value_bool(one->truncated));
	put_tallies(out, "deviations", one->deviations, one->deviation_count, false);
	out_field(out, "trailing_data_at", value_ns(one->trailing_data_at));
	out_field(out, "bad_dur", value_count(one->bad_dur));
	out_field(out, "unpaired", value_count(one->unpaired));
	out_field(out, "base_ns", value_ns(one->base_ns));
	put_tallies(out, "phases", one->phases, one->phase_count, false);
	put_tallies(out, "categories", one->categories, one->category_count, true);
	out_field(out, "all_source", value_word(one->all_source));
	out_field(out, "comm_layer", value_word(layer_name(one->layer)));
	put_resolution(out, one->resolution);
	out_field(out, "first_ts_ns", value_ns(one->first_ts_ns));
	out_field(out, "last_end_ns", value_ns(one->last_end_ns));
	put_device(out, one);
	if (one->host_comm_busy_ns != FSDP_ABSENT)
		out_field(
			out, "host_comm_busy_ns", value_integer(one->host_comm_busy_ns));
	out_field(out, "wait_ns", value_integer(one->wait_ns));
	out_field(out, "times_last", value_count(one->times_last));
}

static void put_results(struct out *out, const char *key,
	const struct fsdp_dump_result *results, size_t count)
{
	out_array_begin(out, key);
	for (size_t i = 0; i < count; i++) {
		out_array_begin(out, NULL);
		out_field(out, NULL, value_text(text_of_span(results[i].type)));
		out_field(out, NULL, value_ns(results[i].ns));
		out_array_end(out);
	}
	out_array_end(out);
}

static void put_profile(struct out *out, const struct fsdp_recording *one)
{
	out_field(out, "world_size", value_ns(one->world_size));
	if (one->kind == FSDP_RECORDING_PROFILE) {
		out_field(out, "debug_level", value_span(one->debug_level));
		put_results(out, "residual", one->residual, one->residual_count);
		out_array_begin(out, "still_open");
		for (size_t i = 0; i < one->still_open_count; i++)
			out_field(
				out, NULL, value_text(text_of_span(one->still_open[i])));
		out_array_end(out);
		out_field(out, "skipped", value_count(one->skipped));
	}
	out_field(out, "truncated", value_bool(one->truncated));
	out_array_begin(out, "bad_lines");
	for (size_t i = 0; i < one->bad_line_count; i++)
		out_field(out, NULL, value_count(one->bad_lines[i]));
	out_array_end(out);
}

static void put_ranks(struct replay *replay)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "ranks");
	for (size_t i = 0; i < replay->count; i++) {
		size_t input = fsdp_recording_by_rank(replay->recordings, i);
		const struct fsdp_recording *one =
			fsdp_recording(replay->recordings, input);
		out_object_begin(out, NULL);
		out_field(out, "rank", value_integer(one->rank));
		out_field(out, "rank_from",
			value_word(fsdp_rank_from_name(one->rank_from)));
		out_field(out, "input", value_count(input));
		out_field(out, "kind", value_word(fsdp_recording_kind_name(one->kind)));
		if (one->kind == FSDP_RECORDING_KINETO)
			put_trace(out, one);
		else
			put_profile(out, one);
		out_object_end(out);
	}
	out_array_end(out);
}

static void put_steps(struct replay *replay)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "steps");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		for (size_t j = 0; j < one->step_count; j++) {
			const struct fsdp_step *step = &one->steps[j];
			out_object_begin(out, NULL);
			out_field(out, "step", value_integer(step->step));
			out_field(out, "rank", value_integer(one->rank));
			out_field(out, "ts_ns", value_integer(step->ts_ns));
			out_field(out, "dur_ns", value_integer(step->dur_ns));
			put_tallies(out, "types", step->types, step->type_count, true);
			out_object_end(out);
		}
	}
	out_array_end(out);
}

static void put_bandwidth(
	struct out *out, struct fsdp_span type, int64_t bytes, int64_t size, int64_t ns)
{
	char algbw[32], busbw[32];

	if (bytes != FSDP_ABSENT)
		out_field(out, "bytes", value_integer(bytes));
	if (!fsdp_bandwidth(&type, bytes, size, ns, algbw, busbw))
		return;
	out_field(out, "group_size", value_integer(size));
	out_field(out, "algbw_GBps", value_word(algbw));
	if (busbw[0] != '\0')
		out_field(out, "busbw_GBps", value_word(busbw));
}

static void put_seq(struct out *out, struct fsdp_span seq, bool number)
{
	char text[24];

	if (seq.data == NULL) {
		if (number)
			out_field(out, "seq", value_null());
		return;
	}
	if (!number || seq.size >= sizeof text) {
		out_field(out, "seq", value_text(text_of_span(seq)));
		return;
	}
	memcpy(text, seq.data, seq.size);
	text[seq.size] = '\0';
	out_field(out, "seq", value_integer(strtoll(text, NULL, 10)));
}

static void put_match(struct replay *replay, const struct fsdp_match *one)
{
	struct out *out = replay->run->out;

	out_object_begin(out, NULL);
	out_field(out, "index", value_count(one->index));
	out_field(out, "type", value_text(text_of_span(one->type)));
	out_field(out, "group",
		one->group.size == 0 ? value_null() : value_span(one->group));
	put_seq(out, one->seq, true);
	out_array_begin(out, "ranks");
	for (size_t i = 0; i < one->recording_count; i++)
		out_field(out, NULL,
			value_integer(by_rank(replay, one->recordings[i])->rank));
	out_array_end(out);
	out_field(out, "first_rank", value_integer(one->first_rank));
	out_field(out, "last_rank", value_integer(one->last_rank));
	out_field(out, "start_skew_ns", value_integer(one->start_skew_ns));
	out_field(out, "end_skew_ns", value_integer(one->end_skew_ns));
	out_field(out, "transfer_ns", value_integer(one->transfer_ns));
	out_field(out, "max_dur_ns", value_integer(one->max_dur_ns));
	put_bandwidth(out, one->type, one->bytes, one->group_size, one->transfer_ns);
	out_object_end(out);
}

static void put_collective(struct out *out, const struct fsdp_collective *one)
{
	out_object_begin(out, NULL);
	out_field(out, "ts_ns", value_integer(one->ts_ns));
	out_field(out, "dur_ns", value_integer(one->dur_ns));
	out_field(out, "type", value_text(text_of_span(one->type)));
	out_field(out, "how", value_word(HOWS[one->how]));
	if (one->group.data != NULL)
		out_field(out, "group", value_text(text_of_span(one->group)));
	put_seq(out, one->seq, false);
	put_bandwidth(out, one->type, one->bytes, one->group_size, one->dur_ns);
	out_object_end(out);
}

static void put_collectives(struct replay *replay)
{
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(replay->recordings);
	const struct fsdp_recording *first = by_rank(replay, 0);
	struct out *out = replay->run->out;

	out_object_begin(out, "matching");
	out_field(out, "by",
		matching->by != NULL ? value_word(matching->by) : value_null());
	out_field(out, "stopped", value_ns(matching->stopped));
	out_field(out, "straggler", value_ns(matching->straggler));
	out_object_end(out);
	out_array_begin(out, "collectives");
	for (size_t i = 0; matching->by != NULL && i < matching->match_count; i++)
		put_match(replay, &matching->matches[i]);
	for (size_t i = 0; matching->by == NULL && i < first->collective_count; i++) {
		struct fsdp_collective one;
		fsdp_recording_collective(first, i, &one);
		put_collective(out, &one);
	}
	out_array_end(out);
}

static void put_dumps(struct replay *replay)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "dumps");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		for (size_t j = 0; j < one->dump_count; j++) {
			const struct fsdp_dump *dump = &one->dumps[j];
			out_object_begin(out, NULL);
			out_field(out, "rank", value_integer(one->rank));
			out_field(out, "line", value_count(dump->line));
			out_field(out, "msg", value_span(dump->msg));
			out_field(out, "emitted", value_bool(dump->emitted));
			put_results(out, "results", dump->results, dump->result_count);
			out_field(out, "log_message", value_span(dump->log_message));
			out_object_end(out);
		}
	}
	out_array_end(out);
}

static void put_problems(struct replay *replay)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "problems");
	for (size_t i = 0; i < replay->count; i++) {
		size_t input = fsdp_recording_by_rank(replay->recordings, i);
		const struct fsdp_recording *one =
			fsdp_recording(replay->recordings, input);
		for (size_t j = 0; j < one->problem_count; j++) {
			const struct fsdp_profile_problem *problem = &one->problems[j];
			out_object_begin(out, NULL);
			out_field(out, "input", value_count(input));
			out_field(out, "rank", value_integer(one->rank));
			out_field(out, "line", value_count(problem->line));
			out_field(out, "kind", value_word(problem->kind));
			out_field(out, "type", value_text(text_of_span(problem->type)));
			out_field(out, "message", value_word(problem->message));
			out_object_end(out);
		}
	}
	out_array_end(out);
}

static void put_head(struct replay *replay)
{
	uint64_t counts[FSDP_BY_COUNT] = { 0 };
	enum fsdp_comm_layer layer = FSDP_LAYER_NONE;
	int64_t world = FSDP_ABSENT;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		if (one->layer > layer)
			layer = one->layer;
		if (world == FSDP_ABSENT)
			world = one->world_size;
		for (int j = 0; j < FSDP_BY_COUNT; j++)
			counts[j] += one->resolution[j];
	}
	out_field(replay->run->out, "world_size", value_ns(world));
	out_field(replay->run->out, "comm_layer", value_word(layer_name(layer)));
	put_resolution(replay->run->out, counts);
}

/* ---- one row for each rank, step and type ---- */

static const struct column SEPARATED_TABLE[] = { { "rank" }, { "step" }, { "type" },
	{ "count" }, { "sum_ns" }, { "min_ns" }, { "p50_ns" }, { "p95_ns" },
	{ "max_ns" } };

static void put_separated(struct replay *replay)
{
	struct out *out = replay->run->out;
	struct table table = { .key = "types",
		.columns = SEPARATED_TABLE,
		.column_count = sizeof SEPARATED_TABLE / sizeof *SEPARATED_TABLE,
		.main = true,
		.rows_only = true };

	out_table_begin(out, &table);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = by_rank(replay, i);
		for (size_t j = 0; j < one->type_count; j++) {
			const struct fsdp_times *times = &one->types[j].times;
			const struct value values[] = { value_integer(one->rank),
				value_absent(),
				value_name(text_of_span(one->types[j].name)),
				value_count(times->count), value_ns(times->sum_ns),
				value_ns(times->min_ns), value_ns(times->p50_ns),
				value_ns(times->p95_ns), value_ns(times->max_ns) };
			out_row(out, values);
		}
		for (size_t j = 0; j < one->step_count; j++) {
			const struct fsdp_step *step = &one->steps[j];
			for (size_t k = 0; k < step->type_count; k++) {
				const struct value values[] = { value_integer(one->rank),
					value_integer(step->step),
					value_name(text_of_span(step->types[k].name)),
					value_count(step->types[k].count),
					value_integer(step->types[k].sum_ns),
					value_absent(), value_absent(), value_absent(),
					value_absent() };
				out_row(out, values);
			}
		}
	}
	out_table_end(out);
}

/* ---- an earlier result ---- */

struct change {
	struct fsdp_span name;
	int64_t sum_ns, before_ns;
	uint64_t count, before;
};

static bool find_before(const struct replay *replay, struct fsdp_span name,
	struct fsdp_result_type *ret_type)
{
	for (size_t i = 0; i < fsdp_result_type_count(replay->baseline); i++) {
		*ret_type = fsdp_result_type(replay->baseline, i);
		if (text_is(text_of_span(ret_type->name), text_of_span(name)))
			return ret_type->count != 0;
	}
	return false;
}

static void tell_change(struct replay *replay, const struct change *change)
{
	struct out *out = replay->run->out;
	struct ms now, before;

	out_object_begin(out, NULL);
	out_field(out, "type", value_text(text_of_span(change->name)));
	out_field(out, "count", value_count(change->count));
	out_field(out, "sum_ns", value_ns(change->sum_ns));
	out_field(out, "before_count", value_count(change->before));
	out_field(out, "before_sum_ns", value_ns(change->before_ns));
	out_object_end(out);
	out_line_begin(out, NULL);
	out_line_text(out, "~ ");
	out_line_name(out, text_of_span(change->name));
	out_line_text(out, ": %" PRIu64 " call%s, %s ms before, now %" PRIu64 ", %s ms",
		change->before, plural(change->before),
		change->before == 0 ? "0" : ms_of(change->before_ns, &before),
		change->count, change->count == 0 ? "0" : ms_of(change->sum_ns, &now));
	if (change->before_ns > 0 && change->sum_ns != FSDP_ABSENT)
		out_line_text(out, " (%.2fx)",
			(double)change->sum_ns / (double)change->before_ns);
	out_line_end(out);
}

static void put_comparison(struct replay *replay)
{
	struct out *out = replay->run->out;
	uint64_t same = 0;
	struct fsdp_result_type before;

	if (replay->baseline == NULL)
		return;
	out_object_begin(out, "compare");
	out_array_begin(out, "changed");
	for (size_t i = 0; i < type_count(replay); i++) {
		struct fsdp_type_times type = fsdp_recordings_type(replay->recordings, i);
		struct change change = { type.name, type.times.sum_ns, 0,
			type.times.count, 0 };
		if (find_before(replay, type.name, &before)) {
			change.before_ns = before.sum_ns;
			change.before = before.count;
		}
		if (change.before == change.count && change.before_ns == change.sum_ns)
			same++;
		else
			tell_change(replay, &change);
	}
	for (size_t i = 0; i < fsdp_result_type_count(replay->baseline); i++) {
		before = fsdp_result_type(replay->baseline, i);
		struct change change = { before.name, 0, before.sum_ns, 0, before.count };
		char name[256];
		snprintf(name, sizeof name, "%.*s", (int)before.name.size,
			(const char *)before.name.data);
		if (before.count != 0 && !has_type(replay, name))
			tell_change(replay, &change);
	}
	out_array_end(out);
	out_field(out, "same", value_count(same));
	out_object_end(out);
}

/* ---- the command ---- */

/* What reading needs to know, as long as it lasts. */
struct prepared {
	void *pattern;
	int64_t *steps;
};

static void release(void *context)
{
	struct prepared *prepared = context;

	if (prepared == NULL)
		return;
	rank_pattern_free(prepared->pattern);
	free(prepared->steps);
	free(prepared);
}

/* One number or range of a list; moves *at behind it and its comma. */
static bool take_range(const char **at, int64_t range[2])
{
	char *end;

	for (int i = 0; i < 2; i++) {
		if (**at < '0' || **at > '9')
			return false;
		range[i] = strtoll(*at, &end, 10);
		*at = end;
		if (i == 0 && **at != '-')
			range[++i] = range[0];
		else if (i == 0)
			(*at)++;
	}
	if (**at != ',' && **at != '\0')
		return false;
	*at += **at == ',';
	return range[0] <= range[1];
}

/* "3,10-19" as pairs of first and last. */
static bool read_steps(const char *text, struct prepared *prepared, size_t *ret_count)
{
	size_t most = strlen(text) + 1, count = 0;

	prepared->steps = calloc(most, 2 * sizeof *prepared->steps);
	if (prepared->steps == NULL)
		return false;
	while (*text != '\0')
		if (!take_range(&text, prepared->steps + 2 * count++))
			return false;
	*ret_count = count;
	return count != 0;
}

static bool prepare(struct run *run, struct fsdp_recording_options *options)
{
	const struct replay_options *replay = run->options;
	struct check check;

	for (size_t i = 0; i < replay->fail_if.count; i++) {
		if (check_read(replay->fail_if.items[i], &check)) {
			if (check.unit != CHECK_FACTOR || replay->compare != NULL)
				continue;
			refuse(run, "add --compare=FILE, a result of replay --json",
				"--fail-if '%s' needs an earlier result",
				replay->fail_if.items[i]);
			return false;
		}
		refuse(run,
			"exposed>20%, idle>30%, straggler>50%, dropped>0, TYPE>50ms, "
			"TYPE>1.2x",
			"--fail-if '%s' cannot be read", replay->fail_if.items[i]);
		return false;
	}
	struct prepared *prepared = calloc(1, sizeof *prepared);

	run->prepared = prepared;
	if (prepared == NULL) {
		run_failure(run, "memory", NULL, "out of memory");
		return false;
	}
	if (replay->steps != NULL &&
		!read_steps(replay->steps, prepared, &options->step_range_count)) {
		refuse(run, "numbers and ranges: 3,10-19", "--steps '%s' cannot be read",
			replay->steps);
		return false;
	}
	options->steps = prepared->steps;
	if (replay->rank_regex == NULL)
		return true;
	prepared->pattern = rank_pattern_new(replay->rank_regex);
	if (prepared->pattern == NULL) {
		refuse(run, "a PCRE2 expression with one group: rank-([0-9]+)",
			"--rank-regex '%s' cannot be read", replay->rank_regex);
		return false;
	}
	options->rank_of = rank_pattern_find;
	options->context = prepared->pattern;
	return true;
}

/* What is no recording of times has a command of its own. */
static bool is_answerable(struct replay *replay)
{
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);
		if (one->fx != NULL || one->order != NULL) {
			refuse(replay->run, "fsdp-inspect order takes it",
				"%s records an order, no times", one->path);
			return false;
		}
		replay->has_traces |= one->kind == FSDP_RECORDING_KINETO;
		replay->has_dumps |= one->dump_count != 0;
	}
	return true;
}

/* Something was lost on the way: the answer is of a part. */
static bool is_partial(const struct fsdp_recording *one)
{
	return one->truncated || one->dropped != 0 ||
	       one->trailing_data_at != FSDP_ABSENT || one->bad_line_count != 0 ||
	       one->steps_incomplete;
}

static int status_of(struct replay *replay)
{
	int status = STATUS_GOOD;
	bool odd = false;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);
		if (is_partial(one))
			status = status_worse(status, STATUS_PARTIAL);
		odd |= one->deviation_count != 0 || one->problem_count != 0;
	}
	if (fsdp_recordings_matching(replay->recordings)->stopped != FSDP_ABSENT)
		status = status_worse(status, STATUS_PARTIAL);
	if (replay->options->strict && odd)
		status = status_worse(status, STATUS_BAD);
	return status_worse(status,
		checks_judge(replay->run, &replay->options->fail_if, replay->baseline));
}

static void tell_notes(struct replay *replay)
{
	const struct fsdp_recording *first = by_rank(replay, 0);

	if (first->layer == FSDP_LAYER_HOST && first->backend.data != NULL &&
		!text_is(text_of_span(first->backend), text_of("gloo")))
		run_note(replay->run, "the times of collectives are those of issuing "
				      "them on the host, not of moving data");
	if (first->reduce_scatter_as_all_reduce)
		run_note(replay->run, "reduce_scatter was asked for; the backend carried "
				      "it out as all_reduce, and that is shown");
	if (replay->count > 1 &&
		fsdp_recordings_matching(replay->recordings)->by != NULL &&
		strcmp(fsdp_recordings_matching(replay->recordings)->by, "position") == 0)
		run_note(replay->run, "collectives name no process groups: they are "
				      "matched by position");
}

static void put_all(struct replay *replay)
{
	put_head(replay);
	put_types(replay);
	put_separated(replay);
	put_ranks(replay);
	put_steps(replay);
	put_collectives(replay);
	put_dumps(replay);
	put_problems(replay);
}

static bool run_replay(struct run *run, struct fsdp_error **ret_error)
{
	struct replay replay = { .run = run,
		.options = run->options,
		.recordings = run->recordings,
		.count = fsdp_recording_count(run->recordings) };
	bool good = true;

	if (!is_answerable(&replay))
		return true;
	if (replay.options->compare != NULL &&
		!fsdp_result_open(replay.options->compare, &replay.baseline, ret_error))
		return false;
	tell_notes(&replay);
	run_begin(run, status_of(&replay));
	if (run->status != STATUS_FAILED) {
		good = show_text(&replay);
		put_all(&replay);
		put_comparison(&replay);
	}
	fsdp_result_free(replay.baseline);
	return good;
}

const struct command command_replay = {
	.name = "replay",
	.group = GROUP_TRACE,
	.summary = "where did the time go?",
	.synopsis = "[--by=KEY] [--top=N] [--percentiles] [--fail-if=EXPR] "
		    "[--compare=FILE] TRACE...",
	.example = "replay trace-rank*.json.gz",
	.examples = { "replay trace-rank*.json.gz",
		"replay --fail-if 'exposed>20%' --compare last.json rank*.json" },
	.exit_1 = "a --fail-if holds, or with --strict anything odd",
	.options = OPTIONS,
	.shapes = SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_RECORDINGS,
	.options_size = sizeof(struct replay_options),
	.prepare = prepare,
	.release = release,
	.run = run_replay,
};
