/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` shows people: a line on the input, then tables by type, rank, step and
 * collective, in milliseconds.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/comparison.h"
#include "cmd/replay/replay.h"
#include "render/record.h"

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
	struct replay_collectives all = replay_collectives(replay);
	struct out *out = replay->run->out;
	uint64_t count = 0;

	for (int i = 0; i < FSDP_BY_COUNT; i++)
		count += all.by[i];
	if (all.layer == FSDP_LAYER_NONE) {
		out_line_text(out, "; no collectives");
		return;
	}
	out_line_text(out, "; %" PRIu64 " collective%s, timed on the %s", count,
		plural(count), all.layer == FSDP_LAYER_DEVICE ? "GPU" : "host");
	if (all.by[FSDP_BY_NONE] != 0)
		out_line_text(
			out, ", %" PRIu64 " of an unknown type", all.by[FSDP_BY_NONE]);
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
		if (first->step_count == 0)
			out_line_text(
				out, ", no steps (schedule= and p.step() mark them)");
		else
			out_line_text(out, ", %zu step%s", first->step_count,
				plural(first->step_count));
		line_collectives(replay);
	} else {
		size_t dumps = 0;
		for (size_t i = 0; i < replay->count; i++)
			dumps += replay_by_rank(replay, i)->dump_count;
		out_line_text(out, "%zu recording%s of SimpleProfiler, %zu dump%s",
			replay->count, plural(replay->count), dumps, plural(dumps));
		if (dumps > 0)
			out_line_text(out, " (--style=torch prints %s)",
				dumps == 1 ? "it" : "them");
	}
	out_line_end(out);
}

/* Of several runs, which files they are. */
static void line_run(struct replay *run)
{
	struct out *out = run->run->out;

	out_line_begin(out, NULL);
	out_line_text(out, "run %" PRIu64 ": ", run->nth);
	out_line_name(out, text_of(fsdp_recording(run->recordings, 0)->path));
	if (run->count > 1)
		out_line_text(out, " and %zu more", run->count - 1);
	out_line_end(out);
}

static void show_costs(struct replay *replay)
{
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		struct replay_cost cost = replay_cost(&run);

		if (replay->run_count > 1)
			line_run(&run);
		if (replay->has_traces)
			replay_tell_cost(&run, &cost);
		line_inputs(&run);
	}
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
	return replay->options->by == NULL || replay_shows_only(replay, table);
}

/* ---- types ---- */

struct type_row {
	struct text name;
	uint64_t calls;
	struct value total;
	int64_t run, mean_ns, least_ns, p50_ns, p95_ns, most_ns;
	const char *min, *max, *share, *ratio;
};

/* Columns by what there is to say: over ranks, of single calls, of several runs. The sets
 * of views that lack each of these hide its columns; those that would make the table wider
 * than a terminal hide what ranks need least. */
enum { VIEW_RANKS = 1, VIEW_CALLS = 2, VIEW_RUNS = 4 };
#define OF_RANKS .machine_only = 0xfd
#define OF_MOST .machine_only = 0xdd
#define OF_CALLS .machine_only = 0x33
#define OF_RUNS .machine_only = 0x0f0f
#define NOT_OF_RUN_CALLS .machine_only = 0xc0
#define TYPE struct type_row
static const struct record type_record = RECORD_OF(RECORD_OBJECT, TYPE,
	{ "type", NAME_AT(TYPE, name) }, { "run", INTEGER_AT(TYPE, run), OF_RUNS },
	{ "calls", COUNT_AT(TYPE, calls) },
	{ "total ms", VALUE_AT(TYPE, total), .right = true },
	{ "rank mean", NS_AT(TYPE, mean_ns), OF_RANKS },
	{ "min (rank)", WORD_AT(TYPE, min), OF_RANKS, .right = true },
	{ "max (rank)", WORD_AT(TYPE, max), OF_MOST, .right = true },
	{ "min", NS_AT(TYPE, least_ns), OF_CALLS },
	{ "p50", NS_AT(TYPE, p50_ns), OF_CALLS },
	{ "p95", NS_AT(TYPE, p95_ns), OF_CALLS },
	{ "max", NS_AT(TYPE, most_ns), OF_CALLS },
	{ "%", WORD_AT(TYPE, share), NOT_OF_RUN_CALLS, .right = true },
	{ "of run 1", WORD_AT(TYPE, ratio), OF_RUNS, .right = true });

static int64_t sum_of_all(const struct replay *run)
{
	struct fsdp_type_times all;

	return replay_find_type(run, span_of_text(text_of("all")), &all)
		       ? all.times.sum_ns
		       : 0;
}

/* How its time compares to that of the first run. */
static const char *ratio_of(
	const struct replay *run, struct fsdp_span name, int64_t ns, char text[32])
{
	struct replay first = replay_run(run, 0);
	struct fsdp_type_times before;

	if (run->nth == 1 || !replay_find_type(&first, name, &before) ||
		before.times.sum_ns <= 0 || ns == FSDP_ABSENT)
		return NULL;
	snprintf(text, 32, "%.2fx", (double)ns / (double)before.times.sum_ns);
	return text;
}

/* Text cuts what is longer. */
enum { LONGEST_TYPE = 4200 };

/* A name may hold zero bytes, and ends where it ends or the room does. */
static struct text indented(
	struct fsdp_span name, size_t spaces, char *room, size_t room_size)
{
	size_t size = name.size < room_size - spaces ? name.size : room_size - spaces;

	memset(room, ' ', spaces);
	if (size != 0)
		memcpy(room + spaces, name.data, size);
	return (struct text){ room, spaces + size };
}

static void row_type(struct replay *replay, const struct replay *run,
	const struct record_table *table, const struct fsdp_type_times *type)
{
	const struct fsdp_times *times = &type->times;
	struct fsdp_span name = type->name;
	struct replay_spread spread = replay_spread_of(run, name);
	char shown[LONGEST_TYPE], min[64], max[64], ratio[32];
	struct ms part, share;
	struct type_row row = { .run = (int64_t)run->nth,
		.calls = times->count,
		.total = value_ns(times->sum_ns),
		.mean_ns = FSDP_ABSENT,
		.least_ns = times->min_ns,
		.p50_ns = times->p50_ns,
		.p95_ns = times->p95_ns,
		.most_ns = times->max_ns,
		.share = percent_of(times->sum_ns, sum_of_all(run), &share) };

	row.name = indented(name, fsdp_type_is_named(name) ? 0 : 2, shown, sizeof shown);
	if (replay->run_count > 1)
		row.ratio = ratio_of(&(struct replay){ .recordings = replay->recordings,
					     .nth = run->nth },
			name, times->sum_ns, ratio);
	if (spread.ranks != 0) {
		if (times->sum_ns != FSDP_ABSENT)
			row.mean_ns = times->sum_ns / (int64_t)spread.ranks;
		snprintf(min, sizeof min, "%s (%" PRId64 ")",
			replay_ms(spread.min_ns, &part), spread.min_rank);
		snprintf(max, sizeof max, "%s (%" PRId64 ")",
			replay_ms(spread.max_ns, &part), spread.max_rank);
		row.min = min;
		row.max = max;
	}
	out_records_row(replay->run->out, table, &row);
}

/* The type in each run from this one on; those before it lack it. */
static void rows_of_type(struct replay *replay, const struct record_table *table,
	size_t first, struct fsdp_span name)
{
	struct fsdp_type_times type;

	for (size_t i = first; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		if (replay_find_type(&run, name, &type) && type.times.count != 0)
			row_type(replay, &run, table, &type);
	}
}

static bool is_in_before(struct replay *replay, size_t nth, struct fsdp_span name)
{
	struct fsdp_type_times type;

	for (size_t i = 0; i < nth; i++) {
		struct replay run = replay_run(replay, i);
		if (replay_find_type(&run, name, &type))
			return true;
	}
	return false;
}

/* Types that this run is the first to have. */
static bool rows_of_run(
	struct replay *replay, const struct record_table *table, size_t nth, bool regions)
{
	struct replay run = replay_run(replay, nth);
	size_t count = replay_type_count(&run);
	struct row *rows = malloc((count + 1) * sizeof *rows);

	if (rows == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct row){
			fsdp_recordings_type(run.recordings, i).times.sum_ns, i
		};
	count = top_of(replay, rows, count);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_span name =
			fsdp_recordings_type(run.recordings, rows[i].index).name;

		if ((!regions || replay_is_region(name)) &&
			!is_in_before(replay, nth, name))
			rows_of_type(replay, table, nth, name);
	}
	free(rows);
	return true;
}

static bool show_types(struct replay *replay, bool regions)
{
	struct table like = { .key = "types", .text_only = true };
	struct record_table table;
	bool good = true;

	like.view = (replay->count > replay->run_count ? VIEW_RANKS : 0) +
		    (replay->options->percentiles ? VIEW_CALLS : 0) +
		    (replay->run_count > 1 ? VIEW_RUNS : 0);
	record_table_init(&table, &like, &type_record, NULL);
	out_records_begin(replay->run->out, &table);
	for (size_t i = 0; good && i < replay->run_count; i++)
		good = rows_of_run(replay, &table, i, regions);
	out_table_end(replay->run->out);
	return good;
}

/* ---- ranks ---- */

struct rank_row {
	struct fsdp_recording one;
	int64_t run, all_ns, comm_ns;
	const char *overlap, *mark;
	bool matched;
};

static bool has_device(struct subject of)
{
	return ((const struct rank_row *)of.object)->one.has_device;
}

static bool is_matched(struct subject of)
{
	return ((const struct rank_row *)of.object)->matched;
}

/* What only some runs have stands in views of its own. */
enum { VIEW_STRAGGLER = 1, VIEW_WAITS = 2, VIEW_DEVICE = 8 };
#define OF_STRAGGLERS .machine_only = 0x5555
#define OF_WAITS .machine_only = 0x3333
#define OF_DEVICES .machine_only = 0x00ff
#define OF_ONE_RUN .machine_only = 0xf0ff
#define RANK struct rank_row
static const struct record rank_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", INTEGER_AT(RANK, one.rank) }, { "run", INTEGER_AT(RANK, run), OF_RUNS },
	{ "all", NS_AT(RANK, all_ns) }, { "comm", NS_AT(RANK, comm_ns) },
	{ "exposed", NS_AT(RANK, one.device.exposed_ns), OF_DEVICES, .has = has_device },
	{ "overlap", WORD_AT(RANK, overlap), OF_ONE_RUN, .right = true },
	{ "compute", NS_AT(RANK, one.device.compute_busy_ns), OF_DEVICES,
		.has = has_device },
	{ "idle", NS_AT(RANK, one.device.idle_ns), OF_DEVICES, .has = has_device },
	{ "wait", NS_AT(RANK, one.wait_ns), .has = is_matched, OF_WAITS },
	{ "last", COUNT_AT(RANK, one.times_last), .has = is_matched, OF_WAITS },
	{ "note", WORD_AT(RANK, mark), OF_STRAGGLERS });

static bool has_waits(const struct replay *run)
{
	const struct fsdp_matching *matching = fsdp_recordings_matching(run->recordings);

	return matching->by != NULL && matching->aligned;
}

static void row_rank(struct replay *run, const struct record_table *table,
	const struct fsdp_recording *one, const struct replay_cost *cost)
{
	const struct fsdp_device_times *device = &one->base;
	const struct fsdp_type_times *all =
		replay_type_of(one, span_of_text(text_of("all")));
	struct rank_row row = { .one = *one,
		.run = (int64_t)run->nth,
		.matched = has_waits(run),
		.all_ns = all != NULL ? all->times.sum_ns : FSDP_ABSENT,
		.comm_ns =
			one->has_device ? device->comm_busy_ns : one->host_comm_busy_ns };
	struct ms share;
	char overlap[48], mark[64];

	row.one.device = one->base;
	/* Kernels stand at the end of a trace. */
	if ((one->interrupted || one->truncated) && device->comm_busy_ns == 0 &&
		device->compute_busy_ns == 0)
		row.one.has_device = false;
	if (one->has_device && device->comm_busy_ns > 0) {
		snprintf(overlap, sizeof overlap, "%s %%",
			percent_of(device->overlap_ns, device->comm_busy_ns, &share));
		row.overlap = overlap;
	}
	row.mark = "";
	if (cost->straggler == one->rank) {
		snprintf(mark, sizeof mark, "straggler (%.0f %%)", cost->waiting);
		row.mark = mark;
	}
	out_records_row(run->run->out, table, &row);
}

static bool rows_of_ranks(struct replay *run, const struct record_table *table)
{
	struct replay_cost cost = replay_cost(run);
	struct row *rows = malloc((run->count + 1) * sizeof *rows);
	size_t count;

	if (rows == NULL)
		return false;
	for (size_t i = 0; i < run->count; i++)
		rows[i] = (struct row){ replay_by_rank(run, i)->base.span_ns, i };
	count = top_of(run, rows, run->count);
	for (size_t i = 0; i < count; i++)
		row_rank(run, table, replay_by_rank(run, rows[i].index), &cost);
	free(rows);
	return true;
}

static bool show_ranks(struct replay *replay)
{
	struct table like = { .key = "ranks", .text_only = true };
	struct record_table table;
	bool good = true;

	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);

		if (replay_cost(&run).straggler != FSDP_ABSENT)
			like.view |= VIEW_STRAGGLER;
		if (has_waits(&run))
			like.view |= VIEW_WAITS;
		for (size_t k = 0; k < run.count; k++)
			if (replay_by_rank(&run, k)->has_device)
				like.view |= VIEW_DEVICE;
	}
	if (replay->run_count > 1)
		like.view |= VIEW_RUNS;
	record_table_init(&table, &like, &rank_record, replay);
	out_records_begin(replay->run->out, &table);
	for (size_t i = 0; good && i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		good = rows_of_ranks(&run, &table);
	}
	out_table_end(replay->run->out);
	return good;
}

/* ---- collectives ---- */

struct collective_row {
	struct fsdp_span type, group, seq;
	int64_t ns, skew_ns, last, bytes, size;
	struct value shown_bytes;
	char algbw[32], busbw[32];
	const char *shown_busbw;
};
#define COLLECTIVE struct collective_row
static const struct record collective_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "type", NAME_AT(COLLECTIVE, type) }, { "group", NAME_AT(COLLECTIVE, group) },
	{ "seq", TEXT_AT(COLLECTIVE, seq) }, { "ms", NS_AT(COLLECTIVE, ns) },
	{ "skew ms", NS_AT(COLLECTIVE, skew_ns) },
	{ "last", INTEGER_AT(COLLECTIVE, last) },
	{ "bytes", VALUE_AT(COLLECTIVE, shown_bytes), .right = true },
	{ "busbw GB/s", WORD_AT(COLLECTIVE, shown_busbw), .right = true });

static void row_collective(
	struct out *out, const struct record_table *table, struct collective_row row)
{
	fsdp_bandwidth(&row.type, row.bytes, row.size, row.ns, row.algbw, row.busbw);
	row.shown_bytes = row.bytes == FSDP_ABSENT ? value_absent()
						   : value_bytes((uint64_t)row.bytes);
	row.shown_busbw = row.busbw[0] != '\0' ? row.busbw : NULL;
	out_records_row(out, table, &row);
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
	static const struct table like = { .key = "collectives", .text_only = true };
	struct record_table table;
	struct out *out = replay->run->out;

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
	record_table_init(&table, &like, &collective_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < count; i++) {
		if (matched) {
			const struct fsdp_match *match =
				&matching->matches[rows[i].index];
			row_collective(out, &table,
				(struct collective_row){ match->type, match->group,
					match->seq, match->transfer_ns,
					match->start_skew_ns, match->last_rank,
					match->bytes, match->group_size });
			continue;
		}
		fsdp_recording_collective(first, rows[i].index, &one);
		row_collective(out, &table,
			(struct collective_row){ one.type, one.group, one.seq, one.dur_ns,
				FSDP_ABSENT, FSDP_ABSENT, one.bytes, one.group_size });
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

static void show_strip(
	struct replay *replay, const struct fsdp_recording *one, size_t count, bool *used)
{
	struct out *out = replay->run->out;
	char strip[256];
	size_t i;

	for (i = 0; i < count && i + 1 < sizeof strip; i++) {
		size_t mark = 0;
		while (mark < MARK_COUNT && !text_is(text_of_span(one->timeline[i]),
						    text_of(MARKS[mark].name)))
			mark++;
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

	if (timeline->cell_count == 0 && replay->options->timeline > 0)
		out_line(out, NULL,
			"there is no timeline: no kernel, copy or collective was timed (fsdp-inspect help trace)");
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

/* Tables that each run has for itself. */
static bool show_run(struct replay *run)
{
	bool good = true;

	if (run->run_count > 1 &&
		(replay_shows_only(run, "step") || replay_shows_only(run, "collective") ||
			replay_shows_only(run, "unit") ||
			replay_shows_only(run, "group") ||
			replay_shows_only(run, "kernel") ||
			replay_shows_only(run, "idle") || run->options->timeline > 0))
		line_run(run);
	if (replay_shows_only(run, "step"))
		good = replay_show_steps(run);
	if (good && replay_shows_only(run, "collective"))
		good = show_collectives(run);
	if (replay_shows_only(run, "unit"))
		replay_show_units(run, replay_advises(run));
	if (replay_shows_only(run, "group"))
		replay_show_groups(run);
	if (replay_shows_only(run, "kernel"))
		replay_show_kernels(run);
	if (replay_shows_only(run, "idle"))
		replay_show_idle(run);
	show_timeline(run);
	return good;
}

bool replay_show_text(struct replay *replay)
{
	struct out *out = replay->run->out;
	bool good = true;

	if (strcmp(replay->options->style, "torch") == 0) {
		show_dumps(replay);
		return true;
	}
	if (replay_says_nothing(replay)) {
		replay_tell_nothing(replay);
		return true;
	}
	show_costs(replay);
	if (replay->comparison != NULL) {
		comparison_show(replay);
		return true;
	}
	if (shows(replay, "type"))
		good = show_types(replay, false);
	if (replay_shows_only(replay, "region"))
		good = good && show_types(replay, true);
	if (replay->has_traces && shows(replay, "rank")) {
		if (replay->options->by == NULL)
			out_line(out, NULL, "%s", "");
		good = good && show_ranks(replay);
	}
	for (size_t i = 0; good && i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		good = show_run(&run);
	}
	if (good && replay->has_traces && replay->run_count == 1 &&
		replay->options->by == NULL) {
		struct replay_cost cost = replay_cost(replay);
		replay_tell_advice(replay, &cost);
	}
	return good;
}
