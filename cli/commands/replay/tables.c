/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of `replay` by type, step, rank, collective and unit. Each is one record,
 * for people and programs.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/replay/replay.h"
#include "session/diagnostics.h"

const struct table replay_rows = {
	.key = "types", .main = true, .rows_only = true, .view = VIEW_ROWS
};

void replay_begin_table(struct replay *replay, struct record_table *table,
	const struct table *like, const struct record *record)
{
	record_table_init(table, like, record, replay);
	out_records_begin(replay->run->out, table);
}

bool replay_has_runs(struct subject of)
{
	return ((const struct replay *)of.context)->run_count > 1;
}

/* ---- rows by time ---- */

/* Indexes of the rows with the most time, or of all in their order. */
struct place {
	int64_t ns;
	size_t index;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	if (left->ns != right->ns)
		return left->ns > right->ns ? -1 : 1;
	return (left->index > right->index) - (left->index < right->index);
}

/* How many of them are shown. */
static size_t top_of(const struct replay *replay, struct place *places, size_t count)
{
	if (replay->options->top < 0)
		return count;
	qsort(places, count, sizeof *places, compare_places);
	return (uint64_t)replay->options->top < count ? (size_t)replay->options->top
						      : count;
}

/* ---- types ---- */

/* Columns by what there is to say: over ranks, of single calls, of several runs. The sets
 * of views that lack each of these hide its columns; those that would make the table
 * wider than a terminal hide what ranks need least. */
enum { VIEW_RANKS = 1, VIEW_CALLS = 2, VIEW_RUNS = 4 };
#define OF_RANKS .machine_only = 0xfd
#define OF_MOST .machine_only = 0xdd
#define OF_CALLS .machine_only = 0x33
#define OF_RUNS .machine_only = 0x0f0f
#define NOT_OF_RUN_CALLS .machine_only = 0xc0

/* Those that SimpleProfiler names: programs always see them, in this order. */
static const char *const SIX[] = { "all", "all_gather", "all_gather_object", "resharding",
	"H2D", "D2H" };
enum { SIX_COUNT = sizeof SIX / sizeof *SIX };

static const struct fsdp_times NO_TIMES = { 0, 0, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
	FSDP_ABSENT, false };

/* "1.250 (3)": with the rank, where ranks differ in what is printed. */
static void format_ranked(struct replay_ranked *ranked, const char *other)
{
	int size;

	human_ms(ranked->ns, ranked->text);
	if (strcmp(ranked->text, other) == 0)
		return;
	size = (int)strlen(ranked->text);
	snprintf(ranked->text + size, sizeof ranked->text - (size_t)size,
		" (%" PRId64 ")", ranked->rank);
}

/* A type of a run over its ranks, or (NULL) one of the six that no recording has; as a
 * share of `all`. */
static void list_type(struct replay *replay, const struct replay *run, const char *name,
	const struct fsdp_type_times *type, const struct replay_type *all)
{
	struct replay_type *row = &replay->types[replay->type_count++],
			   *first = run->nth == 1 ? row : replay->types;
	int64_t sum_ns, ranks = 0;
	char least[HUMAN_ROOM], most[HUMAN_ROOM];

	*row = (struct replay_type){ .type = { span_of_text(text_of(name)), NO_TIMES },
		.run = run->nth,
		.absent = type == NULL,
		.mean_ns = FSDP_ABSENT,
		.min = { FSDP_ABSENT, FSDP_ABSENT, "" },
		.max = { FSDP_ABSENT, FSDP_ABSENT, "" },
		.percent = -1,
		.ratio = -1 };
	if (type == NULL)
		return;
	row->type = *type;
	sum_ns = type->times.sum_ns;
	FOR_EACH(i, type->rank_count, one, &type->ranks[i]) {
		if (one->sum_ns == FSDP_ABSENT)
			continue;
		if (ranks == 0 || one->sum_ns < row->min.ns)
			row->min = (struct replay_ranked){ one->sum_ns, one->rank, "" };
		if (ranks++ == 0 || one->sum_ns > row->max.ns)
			row->max = (struct replay_ranked){ one->sum_ns, one->rank, "" };
	}
	if (ranks != 0) {
		format_ranked(&row->min, human_ms(row->max.ns, most));
		format_ranked(&row->max, human_ms(row->min.ns, least));
	}
	while (first != row && (first->absent || !text_is(text_of_span(first->type.name),
							 text_of_span(row->type.name))))
		first++;
	row->first = first;
	if (sum_ns == FSDP_ABSENT)
		return;
	row->mean_ns = ranks != 0 ? sum_ns / ranks : FSDP_ABSENT;
	/* Calls that overlap, or are outside of the steps, have no share. */
	if (all->type.times.sum_ns > 0 && sum_ns <= all->type.times.sum_ns)
		row->percent = (double)sum_ns * 100 / (double)all->type.times.sum_ns;
	if (run->nth > 1 && first->run == 1 && first->type.times.sum_ns > 0)
		row->ratio = (double)sum_ns / (double)first->type.times.sum_ns;
}

/* Of each run, in the order of reports; one of the six that no recording has is in its
 * place. */
static void list_types(struct replay *replay)
{
	size_t room = 1;

	for (size_t i = 0; i < replay->run_count; i++)
		room += SIX_COUNT + fsdp_recordings_summary(
					    fsdp_recordings_run(replay->recordings, i))
					    ->type_count;
	replay->types = run_memory(replay->run, room, sizeof *replay->types);
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		const struct replay_type *all = &replay->types[replay->type_count];
		const struct fsdp_type_times *types = run.summary->types;
		size_t count = run.summary->type_count;

		for (size_t k = 0; k < SIX_COUNT; k++)
			list_type(replay, &run, SIX[k],
				fsdp_type_find(
					types, count, span_of_text(text_of(SIX[k]))),
				all);
		for (size_t k = 0; k < count; k++)
			if (!fsdp_type_is_named(types[k].name))
				list_type(replay, &run, NULL, &types[k], all);
	}
}

#define RANK struct fsdp_type_rank
static const struct record type_of_rank_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", INTEGER_AT(RANK, rank), ALWAYS("The rank.") },
	{ "count", COUNT_AT(RANK, count), ALWAYS("Number of calls on it.") },
	{ "sum_ns", NS_AT(RANK, sum_ns), OR_NULL("Time of these calls together.") });
#undef RANK

#define TYPE struct replay_type
const struct record replay_type_record = OBJECT_RECORD(TYPE, "type", "Calls of one type.",
	{ "type", TEXT_AT(TYPE, type.name),
		ALWAYS("Its name; the same as `value_type`, which JSON Lines have alone.") },
	{ "value_type", TEXT_AT(TYPE, type.name),
		ALWAYS("Its name, under the name that JSON and JSON Lines share.") },
	RUN_ROW(TYPE, run, FOR_PROGRAMS),
	{ "count", COUNT_AT(TYPE, type.times.count), ALWAYS("Number of calls.") },
	{ "sum_ns", NS_AT(TYPE, type.times.sum_ns),
		OR_NULL("Time of all calls together.") },
	{ "min_ns", NS_AT(TYPE, type.times.min_ns),
		OR_NULL("The shortest call; this and those below are null when there is none.") },
	{ "p50_ns", NS_AT(TYPE, type.times.p50_ns),
		OR_NULL("50th percentile: half of the calls take no longer.") },
	{ "p95_ns", NS_AT(TYPE, type.times.p95_ns), OR_NULL("95th percentile.") },
	{ "max_ns", NS_AT(TYPE, type.times.max_ns), OR_NULL("The longest call.") },
	{ "approx", BOOL_AT(TYPE, type.times.approx),
		ALWAYS("Always false: the percentiles are exact.") },
	{ "ranks", LIST_AT(TYPE, type.ranks, type.rank_count, type_of_rank_record),
		ALWAYS("The same by rank, for ranks that call it.") });

/* The row `all` is of the wall clock, and counts the steps on all ranks. */
HAS(is_of_calls, TYPE, !text_is(text_of_span(one->type.name), text_of(SIX[0])))

static struct value get_type(struct subject of)
{
	const TYPE *type = of.object;

	return is_of_calls(of) ? value_name(text_of_span(type->type.name))
			       : value_word("wall time");
}

static const struct record type_row_record = RECORD_OF(RECORD_OBJECT, TYPE,
	{ "type", NAME_AT(TYPE, type.name), FOR_PROGRAMS },
	{ "type", GET(FIELD_NAME, get_type), FOR_PEOPLE },
	{ "run", COUNT_AT(TYPE, run), OF_RUNS },
	{ "count", COUNT_AT(TYPE, type.times.count), FOR_PROGRAMS },
	{ "calls", COUNT_AT(TYPE, type.times.count), .has = is_of_calls, FOR_PEOPLE },
	{ "sum_ns", NS_AT(TYPE, type.times.sum_ns), .label = "total ms" },
	{ "rank_mean_ns", NS_AT(TYPE, mean_ns), .label = "per rank", OF_RANKS },
	{ "rank_min_ns", NS_AT(TYPE, min.ns), FOR_PROGRAMS },
	{ "min_rank", INTEGER_AT(TYPE, min.rank), FOR_PROGRAMS },
	{ "min (rank)", CHARS_AT(TYPE, min.text), IF_SET(TYPE, min.text[0]), OF_RANKS,
		FOR_PEOPLE, .right = true },
	{ "rank_max_ns", NS_AT(TYPE, max.ns), FOR_PROGRAMS },
	{ "max_rank", INTEGER_AT(TYPE, max.rank), FOR_PROGRAMS },
	{ "max (rank)", CHARS_AT(TYPE, max.text), IF_SET(TYPE, max.text[0]), OF_MOST,
		FOR_PEOPLE, .right = true },
	{ "min_ns", NS_AT(TYPE, type.times.min_ns), .label = "min", OF_CALLS },
	{ "p50_ns", NS_AT(TYPE, type.times.p50_ns), .label = "p50", OF_CALLS },
	{ "p95_ns", NS_AT(TYPE, type.times.p95_ns), .label = "p95", OF_CALLS },
	{ "max_ns", NS_AT(TYPE, type.times.max_ns), .label = "max", OF_CALLS },
	{ "percent_of_all", SHARE_AT(TYPE, percent), .null = true, .label = "% of wall",
		.digits = 1, NOT_OF_RUN_CALLS },
	{ "of run 1", SHARE_AT(TYPE, ratio), .digits = 2, .times = true, OF_RUNS,
		FOR_PEOPLE });

static bool is_shown(const TYPE *type, bool regions)
{
	return type->type.times.count != 0 &&
	       (!regions || fsdp_type_is_region(type->type.name));
}

/* A type is where the first run with it has it; the other runs follow. */
void replay_show_types(struct replay *replay, bool regions)
{
	struct table like = { .key = "types",
		.text_only = true,
		.view = (replay->count > replay->run_count ? VIEW_RANKS : 0) +
			(replay->options->percentiles ? VIEW_CALLS : 0) +
			(replay->run_count > 1 ? VIEW_RUNS : 0) };
	struct place *places =
		run_memory(replay->run, replay->type_count, sizeof *places);
	const TYPE *types = replay->types, *end = types + replay->type_count;
	struct record_table table;

	replay_begin_table(replay, &table, &like, &type_row_record);
	for (const TYPE *begin = types, *next; begin < end; begin = next) {
		size_t count = 0;

		for (next = begin; next < end && next->run == begin->run; next++)
			if (!next->absent)
				places[count++] = (struct place){ next->type.times.sum_ns,
					(size_t)(next - types) };
		count = top_of(replay, places, count);
		for (size_t i = 0; i < count; i++)
			for (const TYPE *one = &types[places[i].index],
					*last = next == end ? one + 1 : end;
				one < last; one++)
				if (one->first == &types[places[i].index] &&
					is_shown(one, regions))
					out_records_row(replay->run->out, &table, one);
	}
	out_table_end(replay->run->out);
}

/* ---- types by rank and step ---- */

/* A type on a rank, or in a step of it. */
struct type_in_step {
	int64_t rank, step, step_ns;
	struct fsdp_type_times type;
	uint64_t run;
};

#define TYPED struct type_in_step
static const struct record separated_record = RECORD_OF(RECORD_OBJECT, TYPED,
	{ "rank", INTEGER_AT(TYPED, rank) }, { "step", INTEGER_AT(TYPED, step) },
	{ "type", NAME_AT(TYPED, type.name) },
	{ "count", COUNT_AT(TYPED, type.times.count) },
	{ "sum_ns", NS_AT(TYPED, type.times.sum_ns) },
	{ "min_ns", NS_AT(TYPED, type.times.min_ns) },
	{ "p50_ns", NS_AT(TYPED, type.times.p50_ns) },
	{ "p95_ns", NS_AT(TYPED, type.times.p95_ns) },
	{ "max_ns", NS_AT(TYPED, type.times.max_ns) }, { "run", COUNT_AT(TYPED, run) });

static const struct record step_type_record = RECORD_OF(RECORD_OBJECT, TYPED,
	{ "step", INTEGER_AT(TYPED, step) }, { "rank", INTEGER_AT(TYPED, rank) },
	{ "ms", NS_AT(TYPED, step_ns) }, { "type", NAME_AT(TYPED, type.name) },
	{ "calls", COUNT_AT(TYPED, type.times.count), IF_SET(TYPED, type.name.data) },
	{ "total ms", NS_AT(TYPED, type.times.sum_ns), IF_SET(TYPED, type.name.data) });

/* The types of a step; at least one row, if `empty`. */
static void print_step(struct replay *replay, const struct record_table *table, TYPED row,
	const struct fsdp_tally *types, size_t count, bool empty)
{
	for (size_t i = 0; i < count || (empty && i == 0); i++) {
		row.type = (struct fsdp_type_times){ .times = NO_TIMES };
		if (i < count) {
			row.type.name = types[i].name;
			row.type.times.count = types[i].count;
			row.type.times.sum_ns = types[i].sum_ns;
		}
		out_records_row(replay->run->out, table, &row);
	}
}

/* For programs by rank, for people by step. */
static void print_separated(
	struct replay *replay, const struct table *like, const struct record *record)
{
	bool people = record == &step_type_record;
	const struct fsdp_recording *one;
	struct record_table table;

	replay_begin_table(replay, &table, like, record);
	for (size_t i = 0; (one = fsdp_recording_by_rank(replay->recordings, i)) != NULL;
		i++) {
		TYPED row = { one->rank, FSDP_ABSENT, FSDP_ABSENT, .run = one->run };

		for (size_t j = 0; j < one->type_count && !people; j++) {
			row.type = one->types[j];
			out_records_row(replay->run->out, &table, &row);
		}
		for (size_t j = 0; j < one->step_count; j++) {
			row.step = one->steps[j].step;
			row.step_ns = one->steps[j].dur_ns;
			print_step(replay, &table, row, one->steps[j].types,
				one->steps[j].type_count, people);
		}
		row.step = row.step_ns = FSDP_ABSENT;
		if (people)
			print_step(replay, &table, row, one->outside, one->outside_count,
				false);
	}
	out_table_end(replay->run->out);
}

/* ---- steps ---- */

/* A single rank is its own worst. */
#define OF_SEVERAL .machine_only = 0x55
#define STEP struct fsdp_step_cost
static const struct record cost_record = RECORD_OF(RECORD_OBJECT, STEP,
	{ "step", INTEGER_AT(STEP, step) }, { "run", COUNT_AT(STEP, run), FOR_PROGRAMS },
	{ "mean_ns", NS_AT(STEP, mean_ns), .label = "ms" },
	{ "max_ns", NS_AT(STEP, max_ns), .label = "max", OF_SEVERAL },
	{ "max_rank", INTEGER_AT(STEP, max_rank), .label = "on rank", OF_SEVERAL },
	{ "compute_busy_ns", NS_AT(STEP, compute_ns), .label = "compute" },
	{ "comm_busy_ns", NS_AT(STEP, comm_ns), .label = "comm" },
	{ "exposed_ns", NS_AT(STEP, exposed_ns), .label = "exposed" },
	{ "idle_ns", NS_AT(STEP, idle_ns), .label = "idle" });

/* ---- ranks ---- */

struct rank_row {
	struct fsdp_recording one;
	int64_t all_ns, comm_ns;
	bool has_base, has_waits;
	double overlap;
	char late[48]; /* "3 of 16" collectives that all ranks entered */
	const char *mark;
};

/* So that the table of several runs fits 80 columns. */
#define OF_ONE_RUN .machine_only = 0xf0
#define RANK struct rank_row
#define OF_DEVICE(name, at)                                                     \
	{                                                                       \
		name, NS_AT(RANK, one.device.at), IF_SET(RANK, one.has_device), \
			FOR_PROGRAMS                                            \
	}

/* Programs see the times of the complete recording, people those within the steps. */
static const struct record rank_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", INTEGER_AT(RANK, one.rank) },
	{ "run", COUNT_AT(RANK, one.run), OF_RUNS, FOR_PEOPLE },
	{ "input", SIZE_AT(RANK, one.input), FOR_PROGRAMS },
	{ "all_ns", NS_AT(RANK, all_ns), .label = "wall ms" },
	{ "comm busy", NS_AT(RANK, comm_ns), FOR_PEOPLE },
	{ "exposed", NS_AT(RANK, one.base.exposed_ns), IF_SET(RANK, has_base),
		FOR_PEOPLE },
	{ "overlap", SHARE_AT(RANK, overlap), .digits = 1, .percent = true, OF_ONE_RUN,
		FOR_PEOPLE },
	{ "compute", NS_AT(RANK, one.base.compute_busy_ns), IF_SET(RANK, has_base),
		FOR_PEOPLE },
	{ "idle", NS_AT(RANK, one.base.idle_ns), IF_SET(RANK, has_base), FOR_PEOPLE },
	OF_DEVICE("comm_busy_ns", comm_busy_ns), OF_DEVICE("exposed_ns", exposed_ns),
	OF_DEVICE("overlap_ns", overlap_ns),
	OF_DEVICE("compute_busy_ns", compute_busy_ns), OF_DEVICE("idle_ns", idle_ns),
	{ "host_comm_busy_ns", NS_AT(RANK, one.host_comm_busy_ns), FOR_PROGRAMS },
	{ "wait_ns", NS_AT(RANK, one.wait_ns), .label = "wait ms",
		IF_SET(RANK, has_waits) },
	{ "times_last", COUNT_AT(RANK, one.times_last), IF_SET(RANK, has_waits),
		FOR_PROGRAMS },
	{ "last to enter", CHARS_AT(RANK, late), IF_SET(RANK, has_waits), FOR_PEOPLE,
		.right = true },
	{ "note", WORD_AT(RANK, mark), FOR_PEOPLE });

static void print_rank(struct replay *run, const struct record_table *table,
	const struct fsdp_recording *one, int64_t straggler)
{
	const struct fsdp_matching *matching = &run->summary->matching;
	const struct fsdp_type_times *all =
		fsdp_type_find(one->types, one->type_count, span_of_text(text_of("all")));
	const struct fsdp_device_times *base = &one->base;
	RANK row = { *one, .all_ns = all != NULL ? all->times.sum_ns : FSDP_ABSENT,
		.comm_ns = one->layer != FSDP_LAYER_HOST && one->has_device
				   ? base->comm_busy_ns
				   : one->host_comm_busy_ns,
		/* Kernels are at the end of a trace. */
		.has_base = one->has_device && !((one->interrupted || one->truncated) &&
						       base->comm_busy_ns == 0 &&
						       base->compute_busy_ns == 0),
		.has_waits = matching->by != NULL && matching->aligned,
		.overlap = one->has_device && base->comm_busy_ns > 0
				   ? (double)base->overlap_ns * 100 /
					     (double)base->comm_busy_ns
				   : -1,
		.mark = one->truncated           ? "truncated"
			: straggler == one->rank ? "straggler"
						 : "" };

	/* Next to a device, others than gloo only launch on the host. */
	if (one->has_device && one->layer == FSDP_LAYER_HOST &&
		!text_is(text_of_span(one->backend), text_of("gloo")))
		row.comm_ns = FSDP_ABSENT;
	snprintf(row.late, sizeof row.late, "%" PRIu64 " of %zu", one->times_last,
		matching->match_count);
	out_records_row(run->run->out, table, &row);
}

void replay_show_ranks(struct replay *replay)
{
	struct table like = { .key = "ranks",
		.text_only = true,
		.view = replay->run_count > 1 ? VIEW_RUNS : 0 };
	struct place *places = run_memory(replay->run, replay->count, sizeof *places);
	struct record_table table;

	replay_begin_table(replay, &table, &like, &rank_record);
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		int64_t straggler = replay->costs[i].cost.straggler;
		size_t count;

		for (size_t k = 0; k < run.count; k++)
			places[k] = (struct place){
				fsdp_recording_by_rank(run.recordings, k)->base.span_ns, k
			};
		count = top_of(&run, places, run.count);
		for (size_t k = 0; k < count; k++)
			print_rank(&run, &table,
				fsdp_recording_by_rank(run.recordings, places[k].index),
				straggler);
	}
	out_table_end(replay->run->out);
}

/* ---- collectives ---- */

/* Matched over ranks, or one of a single rank: then what both have is in `match` too. */
struct collective {
	const struct fsdp_recordings *of; /* the run */
	uint64_t run;
	size_t at; /* in it */
	bool is_match;
	struct fsdp_match match;
	struct fsdp_collective own;
	double algbw, busbw; /* below 0: absent */
};

_Static_assert(sizeof(struct collective) <= RECORD_ROOM, "room for one");

static size_t count_collectives(const struct fsdp_recordings *run)
{
	const struct fsdp_matching *matching = &fsdp_recordings_summary(run)->matching;

	return matching->by != NULL ? matching->match_count
				    : fsdp_recording_by_rank(run, 0)->collective_count;
}

/* The one at one->at of the run one->of. */
static void fill_collective(struct collective *one)
{
	const struct fsdp_matching *matching =
		&fsdp_recordings_summary(one->of)->matching;
	struct fsdp_match *match = &one->match;

	one->is_match = matching->by != NULL;
	one->own = (struct fsdp_collective){ 0 };
	if (one->is_match) {
		*match = matching->matches[one->at];
	} else {
		fsdp_recording_collective(
			fsdp_recording_by_rank(one->of, 0), one->at, &one->own);
		*match = (struct fsdp_match){ .type = one->own.type,
			.group = one->own.group,
			.seq = one->own.seq,
			.transfer_ns = one->own.dur_ns,
			.bytes = one->own.bytes,
			.group_size = one->own.group_size };
	}
	if (!fsdp_bandwidth(&match->type, match->bytes, match->group_size,
		    match->transfer_ns, &one->algbw, &one->busbw))
		match->group_size = FSDP_ABSENT;
}

const void *replay_each_collective(struct subject of, size_t i, void *room)
{
	const struct fsdp_recordings *all =
		((const struct replay *)of.context)->recordings;
	struct collective *one = room;

	if (i == 0)
		*one = (struct collective){ .of = fsdp_recordings_run(all, 0), .run = 1 };
	else
		one->at++;
	for (; one->at == count_collectives(one->of); one->at = 0) {
		if (one->run == fsdp_recordings_run_count(all))
			return NULL;
		one->of = fsdp_recordings_run(all, one->run++);
	}
	fill_collective(one);
	return one;
}

static const char *how_name(unsigned how)
{
	static const char *const names[FSDP_BY_COUNT] = { "args", "launch", "name",
		"unknown" };

	return names[how];
}

#define COLLECTIVE struct collective
HAS(is_match, COLLECTIVE, one->is_match)
HAS(is_own, COLLECTIVE, !one->is_match)
HAS(has_group, COLLECTIVE, one->is_match || one->match.group.data != NULL)

/* A number, as far as it is one; a single rank has the text. */
static struct value get_seq(struct subject of)
{
	struct text seq = text_of_span(((const struct collective *)of.object)->match.seq);
	char digits[24];

	if (seq.data == NULL)
		return is_match(of) ? value_null() : value_absent();
	if (!is_match(of) || seq.size >= sizeof digits)
		return value_text(seq);
	memcpy(digits, seq.data, seq.size);
	digits[seq.size] = '\0';
	return value_integer(strtoll(digits, NULL, 10));
}

static struct value get_group(struct subject of)
{
	struct text group =
		text_of_span(((const struct collective *)of.object)->match.group);

	return is_match(of) && group.size == 0 ? value_absent() : value_text(group);
}

static const struct record of_group_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "group", GET(FIELD_TEXT, get_group), FOR_PROGRAMS,
		OR_NULL("Process group; null where ranks were matched without one.") });
const struct record replay_collective_record = OBJECT_RECORD(COLLECTIVE, "collective",
	"A collective: matched over several ranks, or that of a single rank.",
	{ "index", COUNT_AT(COLLECTIVE, match.index), .has = is_match, IN_OBJECTS,
		ABOUT("Position among all collectives, those included that are omitted.") },
	RUN_ROW(COLLECTIVE, run, IN_OBJECTS),
	{ "ts_ns", NS_AT(COLLECTIVE, own.ts_ns), .has = is_own, IN_OBJECTS,
		ABOUT("Start, of a single rank.") },
	{ "dur_ns", NS_AT(COLLECTIVE, own.dur_ns), .has = is_own, IN_OBJECTS,
		ABOUT("Duration, of a single rank.") },
	{ "type", TEXT_AT(COLLECTIVE, match.type), ALWAYS("Its operation.") },
	{ "how", ENUM_AT(COLLECTIVE, own.how, how_name), .has = is_own, IN_OBJECTS,
		WORDS("args", "launch", "name", "unknown"),
		ABOUT("Source of its type, as in `comm_resolution`.") },
	{ NULL, FIELDS(of_group_record), .has = has_group },
	{ "group", NAME_AT(COLLECTIVE, match.group), FOR_PEOPLE },
	{ "seq", GET(FIELD_ANY, get_seq), FOR_PROGRAMS,
		ABOUT("Sequence number within the group: an integer or null, of a single rank the text.") },
	{ "seq", TEXT_AT(COLLECTIVE, match.seq), FOR_PEOPLE },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns), .label = "ms",
		NOT_IN_OBJECTS },
	{ "start_skew_ns", NS_AT(COLLECTIVE, match.start_skew_ns), .has = is_match,
		.label = "skew ms", NOT_IN_OBJECTS },
	{ "last_rank", INTEGER_AT(COLLECTIVE, match.last_rank), .has = is_match,
		.label = "last", NOT_IN_OBJECTS },
	{ "ranks", LIST_AT(COLLECTIVE, match.ranks, match.rank_count, record_integers),
		.has = is_match, IN_OBJECTS, ABOUT("Ranks that took part.") },
	{ "first_rank", INTEGER_AT(COLLECTIVE, match.first_rank), .has = is_match,
		IN_OBJECTS, ABOUT("The rank that began first.") },
	{ "last_rank", INTEGER_AT(COLLECTIVE, match.last_rank), .has = is_match,
		IN_OBJECTS, ABOUT("The rank that began last.") },
	{ "start_skew_ns", NS_AT(COLLECTIVE, match.start_skew_ns), .has = is_match,
		IN_OBJECTS, ABOUT("From the first start to the last.") },
	{ "end_skew_ns", NS_AT(COLLECTIVE, match.end_skew_ns), .has = is_match,
		IN_OBJECTS, ABOUT("From the first end to the last.") },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns), .has = is_match,
		IN_OBJECTS,
		ABOUT("The shortest duration of all ranks: the time of moving data.") },
	{ "max_dur_ns", NS_AT(COLLECTIVE, match.max_dur_ns), .has = is_match, IN_OBJECTS,
		ABOUT("The longest duration of all ranks.") },
	{ "bytes", INTEGER_AT(COLLECTIVE, match.bytes), FOR_PROGRAMS,
		ABOUT("Bytes of the output of an all-gather, of the input of others.") },
	{ "bytes", SIGNED_BYTES_AT(COLLECTIVE, match.bytes), .right = true, FOR_PEOPLE },
	{ "group_size", INTEGER_AT(COLLECTIVE, match.group_size), FOR_PROGRAMS,
		ABOUT("Number of ranks of the group.") },
	{ "algbw_GBps", SHARE_AT(COLLECTIVE, algbw), FOR_PROGRAMS,
		ABOUT("Bytes by time, in 10^9 bytes a second with six decimals: by `transfer_ns`, of a single rank by `dur_ns`.") },
	{ "busbw_GBps", SHARE_AT(COLLECTIVE, busbw), .label = "busbw GB/s", .digits = 6,
		ABOUT("The same for the bus.") },
	{ "run", COUNT_AT(COLLECTIVE, run), IN_ROWS });

static void show_collectives(struct replay *run)
{
	static const struct table like = { .key = "collectives", .text_only = true };
	struct collective one = { .of = run->recordings, .run = run->nth };
	size_t count = count_collectives(one.of);
	struct place *places = run_memory(run->run, count, sizeof *places);
	struct record_table table;

	for (one.at = 0; one.at < count; one.at++) {
		fill_collective(&one);
		places[one.at] = (struct place){ one.match.transfer_ns, one.at };
	}
	count = top_of(run, places, count);
	replay_begin_table(run, &table, &like, &replay_collective_record);
	for (size_t i = 0; i < count; i++) {
		one.at = places[i].index;
		fill_collective(&one);
		out_records_row(run->run->out, &table, &one);
	}
	out_table_end(run->run->out);
}

/* ---- units ---- */

struct replay_unit {
	struct fsdp_unit_times unit;
	uint64_t run;
	/* for people */
	const char *label;
	char label_room[FSDP_UNIT_LABEL_ROOM], ahead[48], streams[32];
};

#define UNIT struct replay_unit
/* Times on the host have no exposed part: their table lacks these columns. */
#define OF_EXPOSED .machine_only = 0x55
#define GATHERED IF_SET(UNIT, unit.gathers.kernels), FOR_PEOPLE
#define REDUCED IF_SET(UNIT, unit.reduces.kernels), FOR_PEOPLE
static const struct record unit_record = OBJECT_RECORD(UNIT, "unit_times",
	"Cost of one FSDP unit in one phase, over all ranks and steps.",
	{ "unit", TEXT_AT(UNIT, unit.unit), FOR_PROGRAMS,
		OR_NULL("Its name, empty for the root; null where it is not known. Of FSDP1 `#N`, its place in the forward.") },
	RUN_ROW(UNIT, run, FOR_PROGRAMS),
	{ "phase", ENUM_AT(UNIT, unit.phase, fsdp_unit_phase_name), FOR_PROGRAMS,
		WORDS("forward", "backward"),
		OR_NULL("Phase in which it is used; null if unknown.") },
	{ "pg", INTEGER_AT(UNIT, unit.pg), FOR_PROGRAMS,
		OR_NULL("Size of the shard mesh, where the unit has several groups of parameters.") },
	{ "gathers", COUNT_AT(UNIT, unit.gathers.count), FOR_PROGRAMS,
		ALWAYS("Number of times its parameters were gathered.") },
	{ "gather_ns", NS_AT(UNIT, unit.gathers.ns), FOR_PROGRAMS,
		ALWAYS("Time of these collectives.") },
	{ "gather_exposed_ns", NS_AT(UNIT, unit.gathers.exposed_ns), FOR_PROGRAMS,
		OR_NULL("Of that, while nothing computes; null without kernels.") },
	{ "prefetched", COUNT_AT(UNIT, unit.prefetched), FOR_PROGRAMS,
		ALWAYS("Number of gathers that were issued before its turn.") },
	{ "reduces", COUNT_AT(UNIT, unit.reduces.count), FOR_PROGRAMS,
		ALWAYS("Number of times its gradients were reduced.") },
	{ "reduce_ns", NS_AT(UNIT, unit.reduces.ns), FOR_PROGRAMS,
		ALWAYS("Time of these collectives.") },
	{ "reduce_exposed_ns", NS_AT(UNIT, unit.reduces.exposed_ns), FOR_PROGRAMS,
		OR_NULL("Of that, while nothing computes; null without kernels.") },
	{ "reshards", COUNT_AT(UNIT, unit.reshards), FOR_PROGRAMS,
		ALWAYS("Number of times it was resharded after the backward.") },
	{ "forwards", COUNT_AT(UNIT, unit.forwards), FOR_PROGRAMS,
		ALWAYS("Number of its forwards.") },
	{ "groups", LIST_AT(UNIT, unit.groups.texts, unit.groups.count, record_texts),
		IN_OBJECTS, ALWAYS("Process groups of its kernels.") },
	{ "streams", LIST_AT(UNIT, unit.streams.texts, unit.streams.count, record_texts),
		IN_OBJECTS, ALWAYS("Streams, or threads, that its kernels ran on.") },
	{ "on_compute_stream", COUNT_AT(UNIT, unit.gathers.on_compute_stream), IN_OBJECTS,
		ALWAYS("Number of kernels of gathers on the stream that computes most.") },
	{ "unit", PATH_AT(UNIT, label), FOR_PEOPLE },
	{ "phase", ENUM_AT(UNIT, unit.phase, fsdp_unit_phase_name), FOR_PEOPLE },
	{ "gather ms", NS_AT(UNIT, unit.gathers.ns), GATHERED },
	{ "exposed", NS_AT(UNIT, unit.gathers.exposed_ns), OF_EXPOSED, GATHERED },
	{ "prefetch", CHARS_AT(UNIT, ahead), .right = true,
		IF_SET(UNIT, unit.gathers.count), FOR_PEOPLE },
	{ "reduce ms", NS_AT(UNIT, unit.reduces.ns), REDUCED },
	{ "exposed", NS_AT(UNIT, unit.reduces.exposed_ns), OF_EXPOSED, REDUCED },
	{ "stream", CHARS_AT(UNIT, streams), .right = true, OF_EXPOSED,
		IF_SET(UNIT, unit.streams.count), FOR_PEOPLE });

#define REST struct fsdp_time_without_unit
static const struct record unassigned_record =
	OBJECT_RECORD(REST, "unassigned", "Collectives that are of no unit.",
		{ "gathers", COUNT_AT(REST, gathers), ALWAYS("Number of all-gathers.") },
		{ "gather_ns", NS_AT(REST, gather_ns), ALWAYS("Their time.") },
		{ "reduces", COUNT_AT(REST, reduces),
			ALWAYS("Number of reduce-scatters and all-reduces.") },
		{ "reduce_ns", NS_AT(REST, reduce_ns), ALWAYS("Their time.") });

const struct record replay_units = RECORD_OF(RECORD_OBJECT, struct replay,
	{ "units", LIST_AT(struct replay, units, unit_count, unit_record),
		ALWAYS("With `--by=unit`: units in the order of their names, forward before backward.") },
	{ "unassigned", OBJECT_AT(struct replay, totals.unassigned, unassigned_record),
		.always = true });

/* "20", "20,24"; what has no room is replaced by a mark. */
static void format_streams(const struct fsdp_unit_texts *streams, char text[32])
{
	size_t used = 0;

	FOR_EACH(i, streams->count, one, &streams->texts[i]) {
		if (used + one->size + sizeof ",…" > 32) {
			memcpy(text + used, "…", sizeof "…");
			return;
		}
		used += (size_t)snprintf(text + used, 32 - used, "%s%.*s",
			i != 0 ? "," : "", (int)one->size, (const char *)one->data);
	}
}

static void list_units(struct replay *replay)
{
	size_t count = 0;

	for (size_t i = 0; i < replay->run_count; i++)
		count += fsdp_recordings_summary(
			fsdp_recordings_run(replay->recordings, i))
				 ->unit_count;
	replay->units = run_memory(replay->run, count, sizeof *replay->units);
	for (size_t i = 0; i < replay->run_count; i++) {
		const struct fsdp_recordings *run =
			fsdp_recordings_run(replay->recordings, i);

		for (size_t k = 0; k < fsdp_recordings_summary(run)->unit_count; k++) {
			UNIT *row = &replay->units[replay->unit_count++];

			row->unit = fsdp_recordings_summary(run)->units[k];
			row->run = i + 1;
			row->label = fsdp_unit_label(&row->unit, row->label_room);
			snprintf(row->ahead, sizeof row->ahead, "%" PRIu64 " of %" PRIu64,
				row->unit.prefetched, row->unit.gathers.count);
			format_streams(&row->unit.streams, row->streams);
		}
	}
}

/* ---- what the library adds up by key: groups, kernels, idle times ---- */

/* Percent of the time, and of the idle time that a cause takes: less needs no advice. */
enum { LEAST_IDLE = 5 };

static const struct {
	const char *word, *means, *advice;
} CAUSES[FSDP_IDLE_CAUSE_COUNT] = {
	[FSDP_IDLE_SYNCHRONISATION] = { "synchronisation",
		"the host waited for the device",
		"look for .item(), .cpu() and print of tensors: torch.cuda.set_sync_debug_mode finds them" },
	[FSDP_IDLE_ALLOCATION] = { "allocation",
		"the host allocated or freed memory of the device",
		"memory is nearly full: try expandable_segments, or smaller batches" },
	[FSDP_IDLE_COPY] = { "copy", "the host was in a call that copies",
		"copy from pinned memory, with non_blocking=True" },
	[FSDP_IDLE_COLLECTIVE] = { "collective", "the host was in a collective",
		"look for barriers and all_gather_object in the step" },
	[FSDP_IDLE_DATA_LOADER] = { "data loader", "the host waited for a batch",
		"use more data loader workers, or a larger prefetch_factor" },
	[FSDP_IDLE_LAUNCH] = { "launch", "operators and launches of the host took longer",
		"launch fewer and larger kernels: torch.compile, CUDA graphs, fused optimizers" },
	[FSDP_IDLE_HOST] = { "host", "the host was outside of PyTorch calls",
		"look for Python, logging and files between operators: record with_stack=True" },
	[FSDP_IDLE_QUEUED] = { "queued", "the device started launched work late", NULL },
	[FSDP_IDLE_UNKNOWN] = { "unknown", "the launch is not recorded", NULL },
};

static const char *cause_shown(unsigned number)
{
	return CAUSES[number].word;
}

static const char *cause_meaning(unsigned number)
{
	return CAUSES[number].means;
}

#define ROW struct fsdp_row
HAS(is_communication, ROW, one->key.kind == FSDP_KERNEL_COMMUNICATION)

struct text replay_shorten(struct fsdp_span name, char buffer[REPLAY_SCRATCH])
{
	static const char *const common[] = { "void ", "at::native::" };
	enum { BYTES = 36, MARK = 3, TAIL = 13, HEAD = BYTES - MARK - TAIL };
	size_t head = HEAD, tail = TAIL, depth = 0;

	for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
		size_t size = strlen(common[i]);
		if (name.size > size && memcmp(name.data, common[i], size) == 0) {
			name.data += size;
			name.size -= size;
		}
	}
	if (name.size > BYTES && name.data[name.size - 1] == ')')
		for (size_t at = name.size; at-- > 1;) {
			depth += name.data[at] == ')';
			depth -= name.data[at] == '(';
			if (depth == 0) {
				name.size = at;
				break;
			}
		}
	if (name.size <= BYTES)
		return text_of_span(name);
	/* Not inside of a character. */
	while (head > 0 && (name.data[head] & 0xc0) == 0x80)
		head--;
	while (tail > 0 && (name.data[name.size - tail] & 0xc0) == 0x80)
		tail--;
	memcpy(buffer, name.data, head);
	memcpy(buffer + head, "...", MARK);
	memcpy(buffer + head + MARK, name.data + name.size - tail, tail);
	return (struct text){ buffer, head + MARK + tail };
}

static struct value get_short_name(struct subject of)
{
	const struct fsdp_row_key *key = &((const ROW *)of.object)->key;

	return value_name(key->name.data == NULL
				  ? text_of("other names")
				  : replay_shorten(key->name, scratch(of, 0)));
}

#define CALLS_AND_TIME                                                   \
	{ "count", COUNT_AT(ROW, count), .label = "calls",               \
		ALWAYS("Number of calls on all ranks.") },               \
	{                                                                \
		"sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms", \
					  ABOUT("Their time.")           \
	}
#define COMPUTE_ROW(text)                                                              \
	{                                                                              \
		"compute_percent", SHARE_AT(ROW, share), .label = "compute",           \
							 .digits = 1, .percent = true, \
							 .about = (text)               \
	}
#define CLASS_ROW(text)                                                                \
	{                                                                              \
		"class", ENUM_AT(ROW, key.kind, fsdp_kernel_class_name),               \
			.always = true,                                                \
			WORDS("gemm", "attention", "elementwise", "reduction", "copy", \
				"communication", "other"),                             \
			.about = (text)                                                \
	}

static const struct record group_record = OBJECT_RECORD(ROW, "group_times",
	"Collectives of one type and message size in one process group, over all ranks and steps.",
	{ "group", TEXT_AT(ROW, key.name), FOR_PROGRAMS,
		OR_NULL("The process group; null where it is not recorded.") },
	{ "group", NAME_AT(ROW, key.name), FOR_PEOPLE }, RUN_ROW(ROW, run, FOR_PROGRAMS),
	{ "type", TEXT_AT(ROW, key.type), ALWAYS("The collective.") },
	{ "bytes", INTEGER_AT(ROW, key.bytes), FOR_PROGRAMS,
		OR_NULL("Bytes of one call: of the output of an all-gather, of the input of others.") },
	{ "message", SIGNED_BYTES_AT(ROW, key.bytes), FOR_PEOPLE },
	{ "group_size", INTEGER_AT(ROW, key.size), FOR_PROGRAMS,
		OR_NULL("Number of ranks of the group.") },
	CALLS_AND_TIME,
	{ "exposed_ns", NS_AT(ROW, exposed_ns), .label = "exposed",
		OR_NULL("Of that, while nothing computes; null without kernels.") },
	{ "algbw_GBps", SHARE_AT(ROW, algbw), .label = "GB/s", .digits = 2,
		ABOUT("Bytes of all calls by their time, in 10^9 bytes a second.") },
	{ "busbw_GBps", SHARE_AT(ROW, busbw), .label = "bus GB/s", .digits = 2,
		ABOUT("The same for the bus.") });

static const struct record class_record = OBJECT_RECORD(ROW, "kernel_class",
	"All that devices ran of one class, over all ranks and steps.",
	CLASS_ROW("The class."), RUN_ROW(ROW, run, FOR_PROGRAMS), CALLS_AND_TIME,
	COMPUTE_ROW(
		"Time of those that compute by that of all kernels that compute; absent where none does."));

static const struct record kernel_record = OBJECT_RECORD(ROW, "kernel_times",
	"Device work of one name, over all ranks and steps.",
	{ "kernel", TEXT_AT(ROW, key.name), FOR_PROGRAMS,
		OR_NULL("The name, as the trace has it; null for the names beyond the limit `kernels` together.") },
	{ "kernel", GET(FIELD_NAME, get_short_name), FOR_PEOPLE },
	RUN_ROW(ROW, run, FOR_PROGRAMS), CLASS_ROW("Its operation."), CALLS_AND_TIME,
	COMPUTE_ROW(
		"Their time by that of all kernels that compute; absent for collectives and for copies that are not kernels."),
	{ "on_compute_stream", COUNT_AT(ROW, on_compute_stream), .has = is_communication,
		FOR_PROGRAMS,
		ABOUT("Of a collective, the calls on the stream that computes most on their rank: what comes next there waits for them.") });

#define CAUSE_ROWS                                                                       \
	RUN_ROW(ROW, run, FOR_PROGRAMS),                                                 \
		{ "cause", ENUM_AT(ROW, key.kind, fsdp_idle_cause_name), FOR_PROGRAMS,   \
			WORDS("synchronisation", "allocation", "copy", "collective",     \
				"data_loader", "launch", "host", "queued", "unknown"),   \
			ALWAYS("Activity of the thread that launched the next work.") }, \
		{ "cause", ENUM_AT(ROW, key.kind, cause_shown), FOR_PEOPLE },            \
		{ "gaps", COUNT_AT(ROW, count),                                          \
			ALWAYS("Number of gaps that it was a part of.") },               \
	{                                                                                \
		"sum_ns", NS_AT(ROW, ns), .always = true, .label = "ms",                 \
					  ABOUT("Time of these parts.")                  \
	}
#define LONGEST_ROW                                                                 \
	{                                                                           \
		"longest_ns", NS_AT(ROW, longest_ns), .always = true,               \
						      .label = "longest",           \
						      ABOUT("The longest of them.") \
	}
static const struct record cause_record = OBJECT_RECORD(ROW, "idle_cause",
	"Idle time of the device of one rank, by cause.",
	{ "rank", INTEGER_AT(ROW, key.rank), FOR_PROGRAMS, ALWAYS("The rank.") },
	CAUSE_ROWS,
	{ "of idle", NUMBER_AT(ROW, share), .digits = 1, .percent = true, FOR_PEOPLE },
	LONGEST_ROW, { "meaning", ENUM_AT(ROW, key.kind, cause_meaning), FOR_PEOPLE });
static const struct record idle_record = OBJECT_RECORD(ROW, "idle",
	"Idle time of devices before one kernel or copy, by cause, over all ranks.",
	{ "kernel", TEXT_AT(ROW, key.name), FOR_PROGRAMS,
		OR_NULL("The name of what the device did next, `(end)` after the last; null for the names beyond the limit `kernels` together.") },
	{ "before", GET(FIELD_NAME, get_short_name), FOR_PEOPLE }, CAUSE_ROWS,
	LONGEST_ROW);

#define REPLAY struct replay
#define ROWS_AT(list, record) \
	LIST_AT(REPLAY, list.items, list.count, record), IF_SET(REPLAY, list.items)
const struct record replay_sums_record = RECORD_OF(RECORD_OBJECT, REPLAY,
	{ "groups", ROWS_AT(groups, group_record),
		ABOUT("With `--by=group`: by process group, type and message size, the one that takes most first.") },
	{ "kernel_classes", ROWS_AT(classes, class_record),
		ABOUT("With `--by=kernel`: what devices ran by class, the one that takes most first.") },
	{ "kernels", ROWS_AT(kernels, kernel_record),
		ABOUT("With `--by=kernel`: what devices ran by name, the one that takes most first.") },
	{ "idle_causes", ROWS_AT(causes, cause_record),
		ABOUT("With `--by=idle`: why devices were idle, by rank and cause; those of a rank add up to `idle_ns` of its `base`.") },
	{ "idle", ROWS_AT(idles, idle_record),
		ABOUT("With `--by=idle`: before which kernels, what takes most first.") });

/* ---- rows of lists ---- */

enum { OF_STEPS, OF_UNITS, OF_GROUPS, OF_KERNELS, OF_IDLES, OF_CLASSES, OF_CAUSES };
#define LISTED(list, counted, from)                                      \
	offsetof(struct replay, list), offsetof(struct replay, counted), \
		offsetof(from, run)
static const struct rows_shown {
	const char *by;
	const struct record *record;
	size_t items, count, run; /* where these are: in struct replay, and in a row */
	const char *none;         /* why it has no rows */
} LISTS[] = {
	[OF_STEPS] = { "step", &cost_record, LISTED(steps, step_count, STEP),
		"no steps: schedule= and p.step() of the profiler mark them" },
	[OF_UNITS] = { "unit", &unit_record, LISTED(units, unit_count, UNIT),
		"no annotations of FSDP: its units are unknown" },
	[OF_GROUPS] = { "group", &group_record, LISTED(groups.items, groups.count, ROW),
		"no collectives were recorded" },
	[OF_KERNELS] = { "kernel", &kernel_record,
		LISTED(kernels.items, kernels.count, ROW),
		"no device events: kernels are unknown without ProfilerActivity.CUDA" },
	[OF_IDLES] = { "idle", &idle_record, LISTED(idles.items, idles.count, ROW),
		"no device events: idle times are unknown without ProfilerActivity.CUDA" },
	[OF_CLASSES] = { NULL, &class_record, LISTED(classes.items, classes.count, ROW),
		NULL },
	[OF_CAUSES] = { NULL, &cause_record,
		LISTED(idle_kinds.items, idle_kinds.count, ROW), NULL },
};
enum { LIST_COUNT = sizeof LISTS / sizeof *LISTS };

/* Of --by; LIST_COUNT: none. */
static unsigned find_list(const struct replay *replay)
{
	unsigned i = 0;

	while (i < LIST_COUNT &&
		(LISTS[i].by == NULL || !replay_shows_only(replay, LISTS[i].by)))
		i++;
	return i;
}

/* Those of a run, which follow each other; nth 0: all. */
static const char *rows_of(const struct replay *replay, const struct rows_shown *list,
	uint64_t nth, size_t *ret_count)
{
	const char *rows, *in = (const char *)replay;
	uint64_t run;
	size_t count;

	memcpy(&rows, in + list->items, sizeof rows);
	memcpy(&count, in + list->count, sizeof count);
	*ret_count = nth == 0 ? count : 0;
	for (; nth != 0 && count != 0; count--) {
		memcpy(&run, rows + *ret_count * list->record->size + list->run,
			sizeof run);
		if (run == nth)
			++*ret_count;
		else if (*ret_count == 0)
			rows += list->record->size;
		else
			break;
	}
	return rows;
}

/* The first rows of a run, at the end `last`, and the number of the others. */
static void show_rows(struct replay *run, unsigned number, unsigned view, int64_t most,
	const void *last)
{
	const struct table like = { .key = "types", .text_only = true, .view = view };
	const struct rows_shown *list = &LISTS[number];
	int64_t more_ns = 0;
	struct record_table table;
	size_t count;
	const char *row = rows_of(run, list, run->nth, &count);

	replay_begin_table(run, &table, &like, list->record);
	for (; count != 0 && most-- > 0; count--, row += list->record->size)
		out_records_row(run->run->out, &table, row);
	if (last != NULL)
		out_records_row(run->run->out, &table, last);
	out_table_end(run->run->out);
	for (size_t i = 0; i < count; i++)
		if (__builtin_add_overflow(
			    more_ns, ((const ROW *)(const void *)row)[i].ns, &more_ns))
			more_ns = INT64_MAX;
	if (count != 0)
		out_values_line(run->run->out, NULL, "... and {} more[, {} ms]",
			value_count(count),
			number == OF_GROUPS ? value_absent() : value_ns(more_ns));
}

/* ---- tables of a run, for people ---- */

int64_t replay_most_rows(const struct replay *run, int64_t initial)
{
	return run->options->top > 0 ? run->options->top : initial;
}

static void show_steps(struct replay *run)
{
	static const struct table like = { .key = "steps", .text_only = true };
	struct fsdp_loss loss;

	if (run->totals.step_count == 0)
		return;
	show_rows(run, OF_STEPS, run->count > 1, INT64_MAX, NULL);
	fsdp_recordings_allocator_loss(run->recordings, &loss);
	replay_show_advice(run, &loss);
	out_line(run->run->out, NULL, "%s", "");
	print_separated(run, &like, &step_type_record);
}

static void show_units(struct replay *run)
{
	static const char *const notes[] = {
		[FSDP_UNITS_OLD] =
			"PyTorch before 2.5 names no unit, so they cannot be distinguished",
		[FSDP_UNITS_FSDP1] =
			"FSDP1 names no unit: #0 is the root, the others in the order of the forward",
	};
	enum fsdp_unit_source from =
		fsdp_recording_by_rank(run->recordings, 0)->units_from;
	REST rest = run->totals.unassigned;
	const UNIT none = { .label = "(no unit)",
		.unit.phase = FSDP_PHASE_NONE,
		.unit.gathers = { .kernels = rest.gathers,
			.ns = rest.gather_ns,
			.exposed_ns = FSDP_ABSENT },
		.unit.reduces = { .kernels = rest.reduces,
			.ns = rest.reduce_ns,
			.exposed_ns = FSDP_ABSENT } };
	bool has_rest = rest.gathers + rest.reduces != 0, has_kernels = false;
	struct fsdp_loss loss;
	size_t count;
	const UNIT *units =
		(const void *)rows_of(run, &LISTS[OF_UNITS], run->nth, &count);

	if (from < sizeof notes / sizeof *notes && notes[from] != NULL)
		run_note(run->run, "%s", notes[from]);
	if (count == 0)
		return;
	/* Where launches are not recorded, kernels are of no unit. */
	for (size_t i = 0; i < count; i++)
		has_kernels |=
			units[i].unit.gathers.kernels + units[i].unit.reduces.kernels !=
			0;
	if (has_rest && !has_kernels)
		run_note(run->run,
			"times of units are not known: no collective was issued within an annotation of FSDP");
	show_rows(run, OF_UNITS, units->unit.gathers.exposed_ns != FSDP_ABSENT, INT64_MAX,
		has_rest ? &none : NULL);
	for (unsigned note = 0; note < FSDP_UNIT_NOTES; note++) {
		fsdp_recordings_unit_note(run->recordings, note, &loss);
		if (loss.sentence[0] != '\0')
			out_line(run->run->out, NULL, "%s", loss.sentence);
	}
	fsdp_recordings_unit_loss(run->recordings, &loss);
	replay_show_advice(run, &loss);
}

static void show_idle(struct replay *run)
{
	const ROW *worst = NULL;
	double all = 0;
	size_t count;
	ROW *kinds = (void *)(uintptr_t)rows_of(run, &LISTS[OF_CAUSES], run->nth, &count);

	for (size_t i = 0; i < count; i++)
		all += (double)kinds[i].ns;
	/* The cause that takes most, if something can be done about it. */
	for (size_t i = 0; i < count; i++) {
		kinds[i].share = 100 * (double)kinds[i].ns / all;
		if (worst == NULL && CAUSES[kinds[i].key.kind].advice != NULL)
			worst = &kinds[i];
	}
	if (!(all > 0))
		return;
	show_rows(run, OF_CAUSES, 0, INT64_MAX, NULL);
	out_line(run->run->out, NULL, "%s", "");
	show_rows(run, OF_IDLES, 0, replay_most_rows(run, REPLAY_ROWS), NULL);
	if (worst != NULL && worst->share >= LEAST_IDLE &&
		run->costs[run->nth - 1].cost.idle >= LEAST_IDLE &&
		fsdp_recordings_are_complete(run->recordings) &&
		strcmp(run->options->advice, "no") != 0)
		out_line(run->run->out, NULL, "most idle%s: %s (%.0f %%): %s",
			worst == kinds ? "" : " with a remedy",
			CAUSES[worst->key.kind].word, worst->share,
			worst->key.kind == FSDP_IDLE_ALLOCATION &&
					fsdp_recordings_map_memory(run->recordings)
				? "memory is nearly full: try smaller batches"
				: CAUSES[worst->key.kind].advice);
}

/* A table that was asked for and has no rows says why: then that is the answer, not a
 * note. */
void replay_show_table(struct replay *run)
{
	unsigned list = find_list(run);
	const char *none = NULL;
	size_t count = 0;

	if (list != LIST_COUNT) {
		none = list == OF_IDLES && run->totals.has_device ? "no device was idle"
								  : LISTS[list].none;
		rows_of(run, &LISTS[list], run->nth, &count);
	}
	if (list == OF_STEPS)
		show_steps(run);
	else if (list == OF_UNITS)
		show_units(run);
	else if (list == OF_GROUPS)
		show_rows(run, list, 0, replay_most_rows(run, INT64_MAX), NULL);
	else if (list == OF_KERNELS) {
		uint64_t counts[2] = { 0 }, on_compute_stream = 0;
		size_t kinds;
		const ROW *rows =
			(const void *)rows_of(run, &LISTS[OF_KERNELS], run->nth, &kinds);

		for (size_t i = 0; i < kinds; i++) {
			bool communicates = rows[i].key.kind == FSDP_KERNEL_COMMUNICATION;

			counts[communicates] += rows[i].count;
			on_compute_stream += communicates ? rows[i].on_compute_stream : 0;
		}
		show_rows(run, OF_CLASSES, 0, INT64_MAX, NULL);
		if (counts[0] + counts[1] != 0)
			out_line(run->run->out, NULL, "%s", "");
		show_rows(run, OF_KERNELS, 0, replay_most_rows(run, REPLAY_ROWS), NULL);
		if (on_compute_stream != 0)
			out_values_line(run->run->out, NULL,
				"{} of {} collectives ran on the compute stream: all their time is exposed",
				value_count(on_compute_stream), value_count(counts[1]));
		else if (counts[0] != 0 && counts[1] != 0)
			out_line(run->run->out, NULL,
				"no collective ran on the stream that computes");
	} else if (list == OF_IDLES)
		show_idle(run);
	else if (replay_shows_only(run, "collective")) {
		count = count_collectives(run->recordings);
		show_collectives(run);
		none = fsdp_recording_by_rank(run->recordings, 0)->collective_count == 0
			       ? LISTS[OF_GROUPS].none
			       : "no collective was matched with other ranks: one trace alone lists its own";
	} else if (replay_shows_only(run, "region")) {
		for (size_t i = 0; i < run->type_count; i++)
			count += run->types[i].run == run->nth &&
				 is_shown(&run->types[i], true);
		none = "no regions: record_function(NAME) marks them";
	}
	if (none == NULL || count != 0)
		return;
	if (!run->totals.has_traces)
		none = "SimpleProfiler records calls by type only: omit --by";
	if (answer_has_output(run->run, "text"))
		out_line(run->run->out, NULL, "%s", none);
	else
		run_note(run->run, "%s", none);
}

/* ---- all tables ---- */

static void list_costs(struct replay *replay)
{
	replay->costs = run_memory(replay->run, replay->run_count, sizeof *replay->costs);
	for (size_t i = 0; i < replay->run_count; i++) {
		const struct fsdp_recordings *run =
			fsdp_recordings_run(replay->recordings, i);
		struct replay_cost *one = &replay->costs[i];

		one->cost = fsdp_recordings_cost(run);
		one->run = i + 1;
		one->loss.rank = FSDP_ABSENT;
		if (strcmp(replay->options->advice, "no") != 0)
			fsdp_recordings_loss(run, &one->cost, &one->loss);
	}
}

bool replay_list(struct replay *replay)
{
	const struct fsdp_recordings *all = replay->recordings;

	list_types(replay);
	list_costs(replay);
	switch (find_list(replay)) {
	case OF_STEPS:
		return fsdp_recordings_steps(all, &replay->steps, &replay->step_count);
	case OF_UNITS:
		list_units(replay);
		return true;
	case OF_GROUPS:
		return fsdp_recordings_group(all, FSDP_ROWS_OF_GROUP, &replay->groups);
	case OF_KERNELS:
		return fsdp_recordings_group(
			       all, FSDP_ROWS_OF_KERNEL, &replay->kernels) &&
		       fsdp_rows_by_kind(&replay->kernels, &replay->classes);
	case OF_IDLES:
		return fsdp_recordings_group(all, FSDP_ROWS_OF_IDLE, &replay->idles) &&
		       fsdp_rows_by_kind(&replay->idles, &replay->idle_kinds) &&
		       fsdp_recordings_group(
			       all, FSDP_ROWS_OF_IDLE_CAUSE, &replay->causes);
	default:
		return true;
	}
}

void replay_put_rows(struct replay *replay)
{
	const struct fsdp_recording *one;
	unsigned list = find_list(replay);
	struct out *out = replay->run->out;
	struct record_table table;
	size_t count;

	if (replay->before != NULL) {
		comparison_put_rows(replay);
	} else if (replay->options->by == NULL) {
		print_separated(replay, &replay_rows, &separated_record);
	} else if (list != LIST_COUNT) {
		const char *rows = rows_of(replay, &LISTS[list], 0, &count);

		out_records(out, &replay_rows, LISTS[list].record, replay, rows, count);
	} else if (replay_shows_only(replay, "collective")) {
		out_each_record(out, &replay_rows, &replay_collective_record,
			(struct subject){ replay, replay }, SIZE_MAX,
			replay_each_collective);
	} else if (replay_shows_only(replay, "rank")) {
		replay_begin_table(replay, &table, &replay_rows, &rank_record);
		for (size_t i = 0;
			(one = fsdp_recording_by_rank(replay->recordings, i)) != NULL;
			i++)
			print_rank(replay, &table, one, FSDP_ABSENT);
		out_table_end(out);
	} else {
		replay_begin_table(replay, &table, &replay_rows, &type_row_record);
		for (size_t i = 0; i < replay->type_count; i++)
			if (is_shown(&replay->types[i],
				    replay_shows_only(replay, "region")))
				out_records_row(out, &table, &replay->types[i]);
		out_table_end(out);
	}
}
