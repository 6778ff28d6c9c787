/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` shows people: a line on the input, then tables by type, rank, step and
 * collective, in milliseconds.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay.h"

/* part of whole in per cent with one decimal, or "-". */
static const char *percent_of(int64_t part, int64_t whole, struct ms *text)
{
	if (whole <= 0 || part == FSDP_ABSENT)
		return "-";
	snprintf(text->text, sizeof text->text, "%.1f",
		(double)part * 100 / (double)whole);
	return text->text;
}

/* ---- the first line ---- */

static void line_collectives(struct replay *replay)
{
	static const char *const hows[] = { "arguments", "launch", "name", "nothing" };
	struct replay_collectives all = replay_collectives(replay);
	struct out *out = replay->run->out;
	bool some = false;

	if (all.layer == FSDP_LAYER_NONE) {
		out_line_text(out, "; no collectives");
		return;
	}
	out_line_text(out, "; collectives from %s: ",
		all.layer == FSDP_LAYER_DEVICE ? "device kernels" : "the host");
	for (int j = 0; j < FSDP_BY_COUNT; j++) {
		if (all.by[j] == 0)
			continue;
		out_line_text(
			out, "%s%" PRIu64 " by %s", some ? ", " : "", all.by[j], hows[j]);
		some = true;
	}
}

static void line_inputs(struct replay *replay)
{
	const struct fsdp_recording *first = replay_by_rank(replay, 0);
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
			dumps += replay_by_rank(replay, i)->dump_count;
		out_line_text(out, "%zu recording%s of SimpleProfiler, %zu dump%s",
			replay->count, plural(replay->count), dumps, plural(dumps));
	}
	out_line_end(out);
}

/* ---- PyTorch's own lines ---- */

static void show_dumps(struct replay *replay)
{
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
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

static struct spread spread_of(const struct replay *replay, struct fsdp_span name)
{
	struct spread spread = { 0 };

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		const struct fsdp_type_times *type = replay_type_of(one, name);
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
	for (size_t i = 0; i < replay_type_count(replay); i++) {
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
		times->count == 0 ? "0" : replay_ms(times->sum_ns, &texts[TYPE_TOTAL]));
	if (times->count != 0 && spread.ranks != 0) {
		values[TYPE_MEAN] = value_word(
			replay_ms(times->sum_ns == FSDP_ABSENT
					  ? FSDP_ABSENT
					  : times->sum_ns / (int64_t)spread.ranks,
				&texts[TYPE_MEAN]));
		snprintf(min, sizeof min, "%s (%" PRId64 ")",
			replay_ms(spread.min_ns, &part), spread.min_rank);
		snprintf(max, sizeof max, "%s (%" PRId64 ")",
			replay_ms(spread.max_ns, &part), spread.max_rank);
		values[TYPE_MIN] = value_word(min);
		values[TYPE_MAX] = value_word(max);
		values[TYPE_LEAST] =
			value_word(replay_ms(times->min_ns, &texts[TYPE_LEAST]));
		values[TYPE_P50] = value_word(replay_ms(times->p50_ns, &texts[TYPE_P50]));
		values[TYPE_P95] = value_word(replay_ms(times->p95_ns, &texts[TYPE_P95]));
		values[TYPE_MOST] =
			value_word(replay_ms(times->max_ns, &texts[TYPE_MOST]));
		values[TYPE_SHARE] =
			value_word(percent_of(times->sum_ns, all, &texts[TYPE_SHARE]));
	}
	out_row(replay->run->out, values);
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

static void rows_absent(
	struct replay *replay, struct fsdp_span before, int64_t all, size_t *at)
{
	static const struct fsdp_times none = { 0 };
	const char *absent;

	while ((absent = replay_next_absent(replay, before, at)) != NULL)
		row_type(replay, span_of_text(text_of(absent)), &none, all);
}

static bool show_types(struct replay *replay, bool regions)
{
	size_t columns[TYPE_COLUMNS], count = replay_type_count(replay), at = 0;
	struct table table = { .key = "types",
		.columns = TYPE_TABLE,
		.column_count = TYPE_COLUMNS,
		.text_only = true,
		.chosen = columns };
	struct row *rows = malloc((count + 1) * sizeof *rows);
	int64_t all = sum_of_all(replay);
	bool six = !regions && replay->options->top < 0;

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
		if (six)
			rows_absent(replay, type.name, all, &at);
		row_type(replay, type.name, &type.times, all);
	}
	if (six)
		rows_absent(replay, (struct fsdp_span){ 0 }, all, &at);
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
	const struct fsdp_type_times *all =
		replay_type_of(one, span_of_text(text_of("all")));
	struct value values[RANK_COLUMNS];
	struct ms texts[RANK_COLUMNS];
	char overlap[48];

	for (int i = 0; i < RANK_COLUMNS; i++)
		values[i] = value_absent();
	values[RANK_NUMBER] = value_integer(one->rank);
	if (all != NULL)
		values[RANK_ALL] =
			value_word(replay_ms(all->times.sum_ns, &texts[RANK_ALL]));
	if (one->has_device) {
		snprintf(overlap, sizeof overlap, "%s %%",
			percent_of(device->overlap_ns, device->comm_busy_ns,
				&texts[RANK_OVERLAP]));
		values[RANK_COMM] =
			value_word(replay_ms(device->comm_busy_ns, &texts[RANK_COMM]));
		values[RANK_EXPOSED] =
			value_word(replay_ms(device->exposed_ns, &texts[RANK_EXPOSED]));
		if (device->comm_busy_ns > 0)
			values[RANK_OVERLAP] = value_word(overlap);
		values[RANK_COMPUTE] = value_word(
			replay_ms(device->compute_busy_ns, &texts[RANK_COMPUTE]));
		values[RANK_IDLE] =
			value_word(replay_ms(device->idle_ns, &texts[RANK_IDLE]));
	} else if (one->host_comm_busy_ns != FSDP_ABSENT) {
		values[RANK_COMM] =
			value_word(replay_ms(one->host_comm_busy_ns, &texts[RANK_COMM]));
	}
	if (matching->by != NULL) {
		values[RANK_WAIT] =
			value_word(replay_ms(one->wait_ns, &texts[RANK_WAIT]));
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
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		rows[i] = (struct row){ one->device.span_ns, i };
	}
	count = top_of(replay, rows, replay->count);
	for (size_t i = 0; i < count; i++)
		row_rank(replay, replay_by_rank(replay, rows[i].index));
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
		values[2] = value_word(replay_ms(step->dur_ns, &took));
		values[3] = some ? value_name(text_of_span(step->types[i].name))
				 : value_absent();
		values[4] = some ? value_count(step->types[i].count) : value_absent();
		values[5] = some ? value_word(replay_ms(step->types[i].sum_ns, &spent))
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
		const struct fsdp_recording *one = replay_by_rank(replay, i);
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
	values[3] = value_word(replay_ms(ns, &took));
	values[4] = skew == FSDP_ABSENT ? value_absent()
					: value_word(replay_ms(skew, &apart));
	values[5] = last == FSDP_ABSENT ? value_absent() : value_integer(last);
	values[6] = bytes == FSDP_ABSENT ? value_absent() : value_bytes((uint64_t)bytes);
	values[7] = busbw[0] != '\0' ? value_word(busbw) : value_absent();
	out_row(replay->run->out, values);
}

static bool show_collectives(struct replay *replay)
{
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(replay->recordings);
	const struct fsdp_recording *first = replay_by_rank(replay, 0);
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

/* ---- the timeline ---- */

static const struct {
	const char *name;
	char mark;
} MARKS[] = {
	{ "all_gather", 'G' },
	{ "reduce_scatter", 'R' },
	{ "all_reduce", 'A' },
	{ "broadcast", 'B' },
	{ "reduce", 'D' },
	{ "all_to_all", 'T' },
	{ "send_recv", 'S' },
	{ "gather", 'g' },
	{ "scatter", 's' },
	{ "barrier", 'b' },
	{ "coalesced", 'c' },
	{ "comm_unknown", '?' },
	{ "compute", '#' },
	{ "H2D", '>' },
	{ "D2H", '<' },
	{ "D2D", '=' },
	{ "P2P", '+' },
	{ "HtoH", '-' },
	{ "memset", '0' },
	{ "idle", '.' },
};
enum { MARK_COUNT = sizeof MARKS / sizeof *MARKS };

static size_t mark_of(struct fsdp_span name)
{
	size_t i = 0;

	while (i < MARK_COUNT && !text_is(text_of_span(name), text_of(MARKS[i].name)))
		i++;
	return i;
}

static void show_strip(
	struct replay *replay, const struct fsdp_recording *one, size_t count, bool *used)
{
	struct out *out = replay->run->out;
	char strip[256];
	size_t i;

	for (i = 0; i < count && i + 1 < sizeof strip; i++) {
		size_t mark = mark_of(one->timeline[i]);
		strip[i] = mark < MARK_COUNT ? MARKS[mark].mark : ' ';
		if (mark < MARK_COUNT)
			used[mark] = true;
	}
	/* Nothing follows. */
	while (i > 0 && strip[i - 1] == ' ')
		i--;
	strip[i] = '\0';
	out_line(out, NULL, "%4" PRId64 "  %s", one->rank, strip);
}

static void show_timeline(struct replay *replay)
{
	const struct fsdp_timeline *timeline =
		fsdp_recordings_timeline(replay->recordings);
	struct out *out = replay->run->out;
	bool used[MARK_COUNT] = { false };
	const char *gap = "";
	struct ms cell;

	if (timeline->cell_count == 0)
		return;
	out_line(out, NULL, "%s", "");
	out_line(out, NULL, "RANK  %zu cells of %s ms%s", timeline->cell_count,
		replay_ms(timeline->cell_ns, &cell),
		timeline->begin_ns != FSDP_ABSENT ? ""
						  : ", each rank from its own start");
	for (size_t i = 0; i < replay->count; i++)
		if (replay_by_rank(replay, i)->timeline != NULL)
			show_strip(replay, replay_by_rank(replay, i),
				timeline->cell_count, used);
	out_line_begin(out, NULL);
	out_line_text(out, "      ");
	for (size_t i = 0; i < MARK_COUNT; i++) {
		if (!used[i])
			continue;
		out_line_text(out, "%s%c %s", gap, MARKS[i].mark, MARKS[i].name);
		gap = "  ";
	}
	out_line_end(out);
}

bool replay_show_text(struct replay *replay)
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
	show_timeline(replay);
	return good;
}
