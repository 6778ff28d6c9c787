/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` shows people: a line on the input, then tables by type, rank, step and
 * collective, in milliseconds.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

struct type_row {
	struct text name;
	uint64_t calls;
	struct value total;
	int64_t mean_ns, least_ns, p50_ns, p95_ns, most_ns;
	const char *min, *max, *share;
};

/* Columns by what there is to say: over ranks, or of single calls. */
enum { VIEW_RANKS = 1, VIEW_CALLS = 2 };
#define OF_RANKS .machine_only = 1 << 0 | 1 << VIEW_CALLS
#define OF_CALLS .machine_only = 1 << 0 | 1 << VIEW_RANKS
#define TYPE struct type_row
static const struct record type_record = RECORD_OF(RECORD_OBJECT, TYPE,
	{ "type", NAME_AT(TYPE, name) }, { "calls", COUNT_AT(TYPE, calls) },
	{ "total ms", VALUE_AT(TYPE, total), .right = true },
	{ "rank mean", NS_AT(TYPE, mean_ns), OF_RANKS },
	{ "min (rank)", WORD_AT(TYPE, min), OF_RANKS, .right = true },
	{ "max (rank)", WORD_AT(TYPE, max), OF_RANKS, .right = true },
	{ "call min", NS_AT(TYPE, least_ns), OF_CALLS },
	{ "p50", NS_AT(TYPE, p50_ns), OF_CALLS },
	{ "p95", NS_AT(TYPE, p95_ns), OF_CALLS },
	{ "call max", NS_AT(TYPE, most_ns), OF_CALLS },
	{ "% of all", WORD_AT(TYPE, share), .right = true });

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

static void row_type(struct replay *replay, const struct record_table *table,
	struct fsdp_span name, const struct fsdp_times *times, int64_t all)
{
	struct spread spread = spread_of(replay, name);
	char shown[256], min[64], max[64];
	struct ms part, share;
	struct type_row row = { .calls = times->count,
		.total = times->count == 0 ? value_word("0") : value_ns(times->sum_ns),
		.mean_ns = FSDP_ABSENT,
		.least_ns = FSDP_ABSENT,
		.p50_ns = FSDP_ABSENT,
		.p95_ns = FSDP_ABSENT,
		.most_ns = FSDP_ABSENT };

	snprintf(shown, sizeof shown, "%s%.*s", fsdp_type_is_named(name) ? "" : "  ",
		(int)name.size, name.data != NULL ? (const char *)name.data : "");
	row.name = text_of(shown);
	if (times->count != 0 && spread.ranks != 0) {
		if (times->sum_ns != FSDP_ABSENT)
			row.mean_ns = times->sum_ns / (int64_t)spread.ranks;
		snprintf(min, sizeof min, "%s (%" PRId64 ")",
			replay_ms(spread.min_ns, &part), spread.min_rank);
		snprintf(max, sizeof max, "%s (%" PRId64 ")",
			replay_ms(spread.max_ns, &part), spread.max_rank);
		row.min = min;
		row.max = max;
		row.least_ns = times->min_ns;
		row.p50_ns = times->p50_ns;
		row.p95_ns = times->p95_ns;
		row.most_ns = times->max_ns;
		row.share = percent_of(times->sum_ns, all, &share);
	}
	out_records_row(replay->run->out, table, &row);
}

static void rows_absent(struct replay *replay, const struct record_table *table,
	struct fsdp_span before, int64_t all, size_t *at)
{
	static const struct fsdp_times none = { 0 };
	const char *absent;

	while ((absent = replay_next_absent(replay, before, at)) != NULL)
		row_type(replay, table, span_of_text(text_of(absent)), &none, all);
}

static bool show_types(struct replay *replay, bool regions)
{
	size_t count = replay_type_count(replay), at = 0;
	struct table like = { .key = "types", .text_only = true };
	struct record_table table;
	struct row *rows = malloc((count + 1) * sizeof *rows);
	int64_t all = sum_of_all(replay);
	bool six = !regions && replay->options->top < 0;

	if (rows == NULL)
		return false;
	like.view = (replay->count > 1 ? VIEW_RANKS : 0) +
		    (replay->options->percentiles ? VIEW_CALLS : 0);
	record_table_init(&table, &like, &type_record, NULL);
	out_records_begin(replay->run->out, &table);
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
			rows_absent(replay, &table, type.name, all, &at);
		row_type(replay, &table, type.name, &type.times, all);
	}
	if (six)
		rows_absent(replay, &table, (struct fsdp_span){ 0 }, all, &at);
	out_table_end(replay->run->out);
	free(rows);
	return true;
}

/* ---- ranks ---- */

struct rank_row {
	struct fsdp_recording one;
	int64_t all_ns, comm_ns;
	const char *overlap, *mark;
};

static bool has_device(struct subject of)
{
	return ((const struct rank_row *)of.object)->one.has_device;
}

static bool is_matched(struct subject of)
{
	return fsdp_recordings_matching(((const struct replay *)of.context)->recordings)
		       ->by != NULL;
}

/* The mark stands in a view of its own. */
enum { VIEW_ALIKE, VIEW_STRAGGLER };
#define RANK struct rank_row
static const struct record rank_record =
	RECORD_OF(RECORD_OBJECT, RANK, { "rank", INTEGER_AT(RANK, one.rank) },
		{ "all", NS_AT(RANK, all_ns) }, { "comm", NS_AT(RANK, comm_ns) },
		{ "exposed", NS_AT(RANK, one.device.exposed_ns), .has = has_device },
		{ "overlap", WORD_AT(RANK, overlap), .right = true },
		{ "compute", NS_AT(RANK, one.device.compute_busy_ns), .has = has_device },
		{ "idle", NS_AT(RANK, one.device.idle_ns), .has = has_device },
		{ "wait", NS_AT(RANK, one.wait_ns), .has = is_matched },
		{ "last", COUNT_AT(RANK, one.times_last), .has = is_matched },
		{ "note", WORD_AT(RANK, mark), .machine_only = 1 << VIEW_ALIKE });

static void row_rank(struct replay *replay, const struct record_table *table,
	const struct fsdp_recording *one)
{
	const struct fsdp_device_times *device = &one->device;
	const struct fsdp_type_times *all =
		replay_type_of(one, span_of_text(text_of("all")));
	struct rank_row row = { .one = *one,
		.all_ns = all != NULL ? all->times.sum_ns : FSDP_ABSENT,
		.comm_ns =
			one->has_device ? device->comm_busy_ns : one->host_comm_busy_ns };
	struct ms share;
	char overlap[48];

	if (one->has_device && device->comm_busy_ns > 0) {
		snprintf(overlap, sizeof overlap, "%s %%",
			percent_of(device->overlap_ns, device->comm_busy_ns, &share));
		row.overlap = overlap;
	}
	row.mark = fsdp_recordings_matching(replay->recordings)->straggler == one->rank
			   ? "straggler: others wait for it"
			   : "";
	out_records_row(replay->run->out, table, &row);
}

static bool show_ranks(struct replay *replay)
{
	struct table like = { .key = "ranks", .text_only = true };
	struct record_table table;
	struct row *rows = malloc((replay->count + 1) * sizeof *rows);
	size_t count;

	if (rows == NULL)
		return false;
	if (fsdp_recordings_matching(replay->recordings)->straggler != FSDP_ABSENT)
		like.view = VIEW_STRAGGLER;
	record_table_init(&table, &like, &rank_record, replay);
	out_records_begin(replay->run->out, &table);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		rows[i] = (struct row){ one->device.span_ns, i };
	}
	count = top_of(replay, rows, replay->count);
	for (size_t i = 0; i < count; i++)
		row_rank(replay, &table, replay_by_rank(replay, rows[i].index));
	out_table_end(replay->run->out);
	free(rows);
	return true;
}

/* ---- steps ---- */

struct step_row {
	int64_t rank;
	struct fsdp_step step;
	struct fsdp_tally type; /* no name: none */
};
static bool has_type(struct subject of)
{
	return ((const struct step_row *)of.object)->type.name.data != NULL;
}

#define STEP struct step_row
static const struct record step_record = RECORD_OF(RECORD_OBJECT, STEP,
	{ "step", INTEGER_AT(STEP, step.step) }, { "rank", INTEGER_AT(STEP, rank) },
	{ "ms", NS_AT(STEP, step.dur_ns) }, { "type", NAME_AT(STEP, type.name) },
	{ "calls", COUNT_AT(STEP, type.count), .has = has_type },
	{ "total ms", NS_AT(STEP, type.sum_ns), .has = has_type });

static void show_steps(struct replay *replay)
{
	static const struct table like = { .key = "steps", .text_only = true };
	struct record_table table;

	record_table_init(&table, &like, &step_record, NULL);
	out_records_begin(replay->run->out, &table);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		for (size_t j = 0; j < one->step_count; j++) {
			struct step_row row = { one->rank, one->steps[j], { { 0 } } };
			for (size_t k = 0; k == 0 || k < row.step.type_count; k++) {
				if (k < row.step.type_count)
					row.type = row.step.types[k];
				out_records_row(replay->run->out, &table, &row);
			}
		}
	}
	out_table_end(replay->run->out);
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
