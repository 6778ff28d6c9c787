/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of `replay` by type, step, rank and collective. Each is one record, for
 * people and programs.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/replay/replay.h"

void replay_begin_table(struct replay *replay, struct record_table *table,
	const struct table *like, const struct record *record)
{
	record_table_init(table, like, record, replay);
	out_records_begin(replay->run->out, table);
}

const struct table replay_rows = { .key = "types", .main = true, .rows_only = true };

bool replay_has_runs(struct subject of)
{
	return ((const struct replay *)of.context)->run_count > 1;
}

/* ---- rows by time ---- */

static int compare_numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

/* Indexes of the rows with the most time, or of all in their order. */
struct place {
	int64_t ns;
	size_t index;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *left = a, *right = b;
	int order = compare_numbers(right->ns, left->ns);

	return order != 0 ? order
			  : (left->index > right->index) - (left->index < right->index);
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

static struct replay_type type_row(
	const struct replay *run, const struct fsdp_type_times *type, int64_t all_ns)
{
	struct replay_type row = { .name = type->name,
		.times = type->times,
		.run = run->nth,
		.rank = FSDP_ABSENT,
		.step = FSDP_ABSENT,
		.mean_ns = FSDP_ABSENT,
		.min_ns = FSDP_ABSENT,
		.min_rank = FSDP_ABSENT,
		.max_ns = FSDP_ABSENT,
		.max_rank = FSDP_ABSENT,
		.percent = -1 };
	int64_t ranks = 0;

	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);
		const struct fsdp_type_times *of = replay_type_of(
			one, (const char *)type->name.data, type->name.size);
		int64_t ns = of != NULL ? of->times.sum_ns : FSDP_ABSENT;

		if (ns == FSDP_ABSENT)
			continue;
		if (ranks == 0 || ns < row.min_ns) {
			row.min_ns = ns;
			row.min_rank = one->rank;
		}
		if (ranks++ == 0 || ns > row.max_ns) {
			row.max_ns = ns;
			row.max_rank = one->rank;
		}
	}
	if (type->times.sum_ns == FSDP_ABSENT)
		return row;
	if (ranks != 0)
		row.mean_ns = type->times.sum_ns / ranks;
	/* Calls that overlap, or are outside of the steps, have no share. */
	if (all_ns > 0 && type->times.sum_ns <= all_ns)
		row.percent = (double)type->times.sum_ns * 100 / (double)all_ns;
	return row;
}

static void list_absent(struct replay *replay, const struct replay *run,
	struct fsdp_span before, size_t *at)
{
	struct fsdp_type_times type;

	for (; *at < sizeof SIX / sizeof *SIX; (*at)++) {
		struct fsdp_span name = span_of_text(text_of(SIX[*at]));

		if (text_is(text_of_span(before), text_of_span(name))) {
			(*at)++;
			return;
		}
		if (!replay_find_type(run, name, &type))
			replay->types[replay->type_count++] = (struct replay_type){
				.name = name,
				.times = { 0, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
					FSDP_ABSENT, FSDP_ABSENT, false },
				.run = run->nth,
				.absent = true
			};
	}
}

/* Of each run, in the order of reports; one of the six that no recording has is in its
 * place. */
static bool list_types(struct replay *replay)
{
	size_t room = 1;

	for (size_t i = 0; i < replay->run_count; i++)
		room += sizeof SIX / sizeof *SIX +
			fsdp_recordings_type_count(
				fsdp_recordings_run(replay->recordings, i));
	replay->types = calloc(room, sizeof *replay->types);
	for (size_t i = 0; replay->types != NULL && i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		struct fsdp_type_times all = { 0 }, type;
		size_t at = 0;

		replay_find_type(&run, span_of_text(text_of("all")), &all);
		for (size_t k = 0; k < fsdp_recordings_type_count(run.recordings); k++) {
			type = fsdp_recordings_type(run.recordings, k);
			list_absent(replay, &run, type.name, &at);
			replay->types[replay->type_count++] =
				type_row(&run, &type, all.times.sum_ns);
		}
		list_absent(replay, &run, (struct fsdp_span){ 0 }, &at);
	}
	return replay->types != NULL;
}

#define TYPE_OF(of) ((const struct replay_type *)(of).object)

/* Of a type that was not called the rest is null. */
static struct value get_sum(struct subject of)
{
	return value_ns(TYPE_OF(of)->times.count == 0 ? 0 : TYPE_OF(of)->times.sum_ns);
}

struct type_of_rank {
	int64_t rank;
	struct fsdp_times times;
	size_t next; /* by rank */
};

static const void *each_rank_of_type(struct subject of, size_t i, void *room)
{
	const struct replay_type *type = of.object;
	struct replay run = replay_run(of.context, type->run - 1);
	struct type_of_rank *one = room;

	if (i == 0)
		one->next = 0;
	while (one->next < run.count) {
		const struct fsdp_recording *recording =
			replay_by_rank(&run, one->next++);
		const struct fsdp_type_times *found = replay_type_of(
			recording, (const char *)type->name.data, type->name.size);

		if (found == NULL)
			continue;
		one->rank = recording->rank;
		one->times = found->times;
		return one;
	}
	return NULL;
}

#define RANK struct type_of_rank
static const struct record type_of_rank_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", INTEGER_AT(RANK, rank), ALWAYS("The rank.") },
	{ "count", COUNT_AT(RANK, times.count), ALWAYS("Number of calls on it.") },
	{ "sum_ns", NS_AT(RANK, times.sum_ns),
		OR_NULL("Time of these calls together.") });
#undef RANK

#define TYPE struct replay_type
const struct record replay_type_record = OBJECT_RECORD(TYPE, "type", "Calls of one type.",
	{ "type", TEXT_AT(TYPE, name),
		ALWAYS("Its name; the same as `value_type`, which JSON Lines have alone.") },
	{ "value_type", TEXT_AT(TYPE, name),
		ALWAYS("Its name, under the name that JSON and JSON Lines share.") },
	RUN_ROW(TYPE, run),
	{ "count", COUNT_AT(TYPE, times.count), ALWAYS("Number of calls.") },
	{ "sum_ns", GET(FIELD_NS, get_sum), OR_NULL("Time of all calls together.") },
	{ "min_ns", NS_AT(TYPE, times.min_ns),
		OR_NULL("The shortest call; this and those below are null when there is none.") },
	{ "p50_ns", NS_AT(TYPE, times.p50_ns),
		OR_NULL("50th percentile: half of the calls take no longer.") },
	{ "p95_ns", NS_AT(TYPE, times.p95_ns), OR_NULL("95th percentile.") },
	{ "max_ns", NS_AT(TYPE, times.max_ns), OR_NULL("The longest call.") },
	{ "approx", BOOL_AT(TYPE, times.approx),
		ALWAYS("Always false: the percentiles are exact.") },
	{ "ranks", EACH(each_rank_of_type, type_of_rank_record),
		ALWAYS("The same by rank, for ranks that call it.") });

HAS(has_percent, TYPE, one->percent >= 0)
HAS(has_ratio, TYPE, one->ratio >= 0)

/* "1.250 (3)" */
static struct value format_ranked(struct subject of, int nth, int64_t ns, int64_t rank)
{
	struct ms ms;

	if (ns == FSDP_ABSENT)
		return value_absent();
	if (rank == FSDP_ABSENT)
		snprintf(scratch(of, nth), REPLAY_SCRATCH, "%s", replay_ms(ns, &ms));
	else
		snprintf(scratch(of, nth), REPLAY_SCRATCH, "%s (%" PRId64 ")",
			replay_ms(ns, &ms), rank);
	return value_word(scratch(of, nth));
}

static struct value get_min(struct subject of)
{
	const TYPE *type = TYPE_OF(of);

	return format_ranked(of, 0, type->min_ns,
		type->min_ns != type->max_ns ? type->min_rank : FSDP_ABSENT);
}

static struct value get_max(struct subject of)
{
	const TYPE *type = TYPE_OF(of);

	return format_ranked(of, 1, type->max_ns,
		type->min_ns != type->max_ns ? type->max_rank : FSDP_ABSENT);
}

static const struct record sum_record = RECORD_OF(RECORD_OBJECT, TYPE,
	{ "type", NAME_AT(TYPE, name) }, { "run", COUNT_AT(TYPE, run), OF_RUNS },
	{ "count", COUNT_AT(TYPE, times.count), .label = "calls" },
	{ "sum_ns", NS_AT(TYPE, times.sum_ns), .label = "total ms" },
	{ "rank_mean_ns", NS_AT(TYPE, mean_ns), .label = "rank mean", OF_RANKS },
	{ "rank_min_ns", NS_AT(TYPE, min_ns), FOR_PROGRAMS },
	{ "min_rank", INTEGER_AT(TYPE, min_rank), FOR_PROGRAMS },
	{ "min (rank)", GET(FIELD_WORD, get_min), OF_RANKS, FOR_PEOPLE, .right = true },
	{ "rank_max_ns", NS_AT(TYPE, max_ns), FOR_PROGRAMS },
	{ "max_rank", INTEGER_AT(TYPE, max_rank), FOR_PROGRAMS },
	{ "max (rank)", GET(FIELD_WORD, get_max), OF_MOST, FOR_PEOPLE, .right = true },
	{ "min_ns", NS_AT(TYPE, times.min_ns), .label = "min", OF_CALLS },
	{ "p50_ns", NS_AT(TYPE, times.p50_ns), .label = "p50", OF_CALLS },
	{ "p95_ns", NS_AT(TYPE, times.p95_ns), .label = "p95", OF_CALLS },
	{ "max_ns", NS_AT(TYPE, times.max_ns), .label = "max", OF_CALLS },
	{ "percent_of_all", NUMBER_AT(TYPE, percent), .has = has_percent, .null = true,
		.label = "%", .digits = 1, NOT_OF_RUN_CALLS },
	{ "of run 1", NUMBER_AT(TYPE, ratio), .has = has_ratio, .digits = 2,
		.times = true, OF_RUNS, FOR_PEOPLE });

static void print_sums(struct replay *replay, bool regions)
{
	struct record_table table;

	replay_begin_table(replay, &table, &replay_rows, &sum_record);
	for (size_t i = 0; i < replay->type_count; i++)
		if (replay->types[i].times.count != 0 &&
			(!regions || fsdp_type_is_region(replay->types[i].name)))
			out_records_row(replay->run->out, &table, &replay->types[i]);
	out_table_end(replay->run->out);
}

static const struct replay_type *find_row(
	const struct replay *replay, uint64_t nth, struct fsdp_span name)
{
	for (size_t i = 0; i < replay->type_count; i++)
		if (replay->types[i].run == nth && !replay->types[i].absent &&
			text_is(text_of_span(replay->types[i].name), text_of_span(name)))
			return &replay->types[i];
	return NULL;
}

/* A type is where the first run with it has it; the other runs follow. */
bool replay_show_types(struct replay *replay, bool regions)
{
	struct table like = { .key = "types",
		.text_only = true,
		.view = (replay->count > replay->run_count ? VIEW_RANKS : 0) +
			(replay->options->percentiles ? VIEW_CALLS : 0) +
			(replay->run_count > 1 ? VIEW_RUNS : 0) };
	struct place *places = malloc((replay->type_count + 1) * sizeof *places);
	struct record_table table;

	if (places == NULL)
		return false;
	replay_begin_table(replay, &table, &like, &sum_record);
	for (uint64_t nth = 1; nth <= replay->run_count; nth++) {
		size_t count = 0;

		for (size_t i = 0; i < replay->type_count; i++)
			if (replay->types[i].run == nth && !replay->types[i].absent)
				places[count++] =
					(struct place){ replay->types[i].times.sum_ns,
						i };
		count = top_of(replay, places, count);
		for (size_t i = 0; i < count; i++) {
			struct fsdp_span name = replay->types[places[i].index].name;
			bool before = regions && !fsdp_type_is_region(name);

			for (uint64_t k = 1; k < nth && !before; k++)
				before = find_row(replay, k, name) != NULL;
			for (uint64_t k = nth; k <= replay->run_count && !before; k++) {
				const struct replay_type *type =
					find_row(replay, k, name);

				if (type != NULL && type->times.count != 0)
					out_records_row(replay->run->out, &table, type);
			}
		}
	}
	out_table_end(replay->run->out);
	free(places);
	return true;
}

/* ---- types by rank and step ---- */

static const struct record separated_record = RECORD_OF(RECORD_OBJECT, TYPE,
	{ "rank", INTEGER_AT(TYPE, rank) }, { "step", INTEGER_AT(TYPE, step) },
	{ "type", NAME_AT(TYPE, name) }, { "count", COUNT_AT(TYPE, times.count) },
	{ "sum_ns", NS_AT(TYPE, times.sum_ns) }, { "min_ns", NS_AT(TYPE, times.min_ns) },
	{ "p50_ns", NS_AT(TYPE, times.p50_ns) }, { "p95_ns", NS_AT(TYPE, times.p95_ns) },
	{ "max_ns", NS_AT(TYPE, times.max_ns) }, { "run", COUNT_AT(TYPE, run) });

static void print_separated(struct replay *replay)
{
	struct record_table table;

	replay_begin_table(replay, &table, &replay_rows, &separated_record);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		struct replay_type row = {
			.rank = one->rank, .step = FSDP_ABSENT, .run = one->run
		};

		for (size_t j = 0; j < one->type_count; j++) {
			row.name = one->types[j].name;
			row.times = one->types[j].times;
			out_records_row(replay->run->out, &table, &row);
		}
		for (size_t j = 0; j < one->step_count; j++) {
			const struct fsdp_step *step = &one->steps[j];

			row.step = step->step;
			for (size_t k = 0; k < step->type_count; k++) {
				row.name = step->types[k].name;
				row.times = (struct fsdp_times){ step->types[k].count,
					step->types[k].sum_ns, FSDP_ABSENT, FSDP_ABSENT,
					FSDP_ABSENT, FSDP_ABSENT, false };
				out_records_row(replay->run->out, &table, &row);
			}
		}
	}
	out_table_end(replay->run->out);
}

/* ---- steps ---- */

/* What a step costs over all ranks, and the rank that takes longest; or a type in a step
 * of one rank. */
struct step_row {
	int64_t step, rank, mean_ns, max_ns, worst;
	int64_t compute_ns, comm_ns, exposed_ns, idle_ns; /* or FSDP_ABSENT */
	uint64_t run;
	struct fsdp_tally type;
};

/* A step of one rank. */
struct step_of_rank {
	const struct fsdp_step *step;
	int64_t rank;
};

static int compare_steps(const void *a, const void *b)
{
	const struct step_of_rank *left = a, *right = b;
	int order = compare_numbers(left->step->step, right->step->step);

	if (order == 0)
		order = compare_numbers(left->rank, right->rank);
	return order != 0 ? order
			  : compare_numbers(left->step->ts_ns, right->step->ts_ns);
}

/* A single rank is its own worst. */
#define OF_SEVERAL .machine_only = 0x55
#define STEP struct step_row
static const struct record cost_record = RECORD_OF(RECORD_OBJECT, STEP,
	{ "step", INTEGER_AT(STEP, step) }, { "run", COUNT_AT(STEP, run), FOR_PROGRAMS },
	{ "mean_ns", NS_AT(STEP, mean_ns), .label = "ms" },
	{ "max_ns", NS_AT(STEP, max_ns), .label = "max", OF_SEVERAL },
	{ "max_rank", INTEGER_AT(STEP, worst), .label = "on rank", OF_SEVERAL },
	{ "compute_busy_ns", NS_AT(STEP, compute_ns), .label = "compute" },
	{ "comm_busy_ns", NS_AT(STEP, comm_ns), .label = "comm" },
	{ "exposed_ns", NS_AT(STEP, exposed_ns), .label = "exposed" },
	{ "idle_ns", NS_AT(STEP, idle_ns), .label = "idle" });

static const struct record step_type_record = RECORD_OF(RECORD_OBJECT, STEP,
	{ "step", INTEGER_AT(STEP, step) }, { "rank", INTEGER_AT(STEP, rank) },
	{ "ms", NS_AT(STEP, mean_ns) }, { "type", NAME_AT(STEP, type.name) },
	{ "calls", COUNT_AT(STEP, type.count), IF_SET(STEP, type.name.data) },
	{ "total ms", NS_AT(STEP, type.sum_ns), IF_SET(STEP, type.name.data) });

/* Sums fit: each is less than a week, and there is one a rank. */
static struct step_row step_cost(const struct step_of_rank *list, size_t count)
{
	struct step_row row = { .step = list->step->step, .max_ns = -1 };
	int64_t *const parts[] = { &row.compute_ns, &row.comm_ns, &row.exposed_ns,
		&row.idle_ns };
	int64_t devices = 0;

	for (size_t i = 0; i < count; i++) {
		const struct fsdp_step *step = list[i].step;

		row.mean_ns += step->dur_ns;
		if (step->dur_ns > row.max_ns) {
			row.max_ns = step->dur_ns;
			row.worst = list[i].rank;
		}
		if (!step->has_device)
			continue;
		devices++;
		row.compute_ns += step->device.compute_busy_ns;
		row.comm_ns += step->device.comm_busy_ns;
		row.exposed_ns += step->device.exposed_ns;
		row.idle_ns += step->idle_ns;
	}
	row.mean_ns /= (int64_t)count;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		*parts[i] = devices != 0 ? *parts[i] / devices : FSDP_ABSENT;
	return row;
}

/* One row per step of a run. False: out of memory. */
static bool print_steps(struct replay *run, const struct record_table *table)
{
	struct step_of_rank *list = malloc((replay_step_count(run) + 1) * sizeof *list);
	size_t count = 0;

	if (list == NULL)
		return false;
	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);

		for (size_t j = 0; j < one->step_count; j++)
			list[count++] =
				(struct step_of_rank){ &one->steps[j], one->rank };
	}
	if (count != 0)
		qsort(list, count, sizeof *list, compare_steps);
	for (size_t i = 0, next; i < count; i = next) {
		struct step_row row;

		for (next = i + 1;
			next < count && list[next].step->step == list[i].step->step;)
			next++;
		row = step_cost(&list[i], next - i);
		row.run = run->nth;
		out_records_row(run->run->out, table, &row);
	}
	free(list);
	return true;
}

static bool show_steps(struct replay *run)
{
	struct table like = { .key = "steps", .text_only = true, .view = run->count > 1 };
	struct record_table table;
	struct fsdp_loss loss;
	bool good;

	replay_begin_table(run, &table, &like, &cost_record);
	good = print_steps(run, &table);
	out_table_end(run->run->out);
	if (!good)
		return false;
	fsdp_recordings_allocator_loss(run->recordings, &loss);
	if (strcmp(run->options->advice, "no") != 0)
		replay_show_loss(run, &loss);
	out_line(run->run->out, NULL, "%s", "");
	like.view = 0;
	replay_begin_table(run, &table, &like, &step_type_record);
	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);

		for (size_t j = 0; j < one->step_count + (one->outside_count != 0); j++) {
			bool inside = j < one->step_count;
			const struct fsdp_step *step = inside ? &one->steps[j] : NULL;
			size_t count = inside ? step->type_count : one->outside_count;
			struct step_row row = { .step = inside ? step->step : FSDP_ABSENT,
				.rank = one->rank,
				.mean_ns = inside ? step->dur_ns : FSDP_ABSENT };

			for (size_t k = 0; k == 0 || k < count; k++) {
				if (k < count)
					row.type =
						inside ? step->types[k] : one->outside[k];
				out_records_row(run->run->out, &table, &row);
			}
		}
	}
	out_table_end(run->run->out);
	return true;
}

/* ---- ranks ---- */

struct rank_row {
	const struct fsdp_recording *one;
	struct fsdp_device_times device, base;
	int64_t rank, run, all_ns, comm_ns, host_comm_busy_ns, wait_ns;
	uint64_t times_last;
	size_t input;
	bool has_base, has_waits;
	double overlap;
	const char *mark;
};

static bool has_waits(const struct replay *run)
{
	const struct fsdp_matching *matching = fsdp_recordings_matching(run->recordings);

	return matching->by != NULL && matching->aligned;
}

/* So that the table of several runs fits 80 columns. */
#define OF_ONE_RUN .machine_only = 0xf0
#define RANK struct rank_row
HAS(has_device, RANK, one->one->has_device)
HAS(has_overlap, RANK, one->one->has_device && one->base.comm_busy_ns > 0)

/* Programs see the times of the complete recording, people those within the steps. */
static const struct record rank_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", INTEGER_AT(RANK, rank) },
	{ "run", INTEGER_AT(RANK, run), OF_RUNS, FOR_PEOPLE },
	{ "input", SIZE_AT(RANK, input), FOR_PROGRAMS },
	{ "all_ns", NS_AT(RANK, all_ns), .label = "all ms" },
	{ "comm", NS_AT(RANK, comm_ns), FOR_PEOPLE },
	{ "exposed", NS_AT(RANK, base.exposed_ns), FOR_PEOPLE, IF_SET(RANK, has_base) },
	{ "overlap", NUMBER_AT(RANK, overlap), .has = has_overlap, .digits = 1,
		.percent = true, OF_ONE_RUN, FOR_PEOPLE },
	{ "compute", NS_AT(RANK, base.compute_busy_ns), FOR_PEOPLE,
		IF_SET(RANK, has_base) },
	{ "idle", NS_AT(RANK, base.idle_ns), FOR_PEOPLE, IF_SET(RANK, has_base) },
	{ "comm_busy_ns", NS_AT(RANK, device.comm_busy_ns), FOR_PROGRAMS,
		.has = has_device },
	{ "exposed_ns", NS_AT(RANK, device.exposed_ns), FOR_PROGRAMS, .has = has_device },
	{ "overlap_ns", NS_AT(RANK, device.overlap_ns), FOR_PROGRAMS, .has = has_device },
	{ "compute_busy_ns", NS_AT(RANK, device.compute_busy_ns), FOR_PROGRAMS,
		.has = has_device },
	{ "idle_ns", NS_AT(RANK, device.idle_ns), FOR_PROGRAMS, .has = has_device },
	{ "host_comm_busy_ns", NS_AT(RANK, host_comm_busy_ns), FOR_PROGRAMS },
	{ "wait_ns", NS_AT(RANK, wait_ns), .label = "wait", IF_SET(RANK, has_waits) },
	{ "times_last", COUNT_AT(RANK, times_last), .label = "times late",
		IF_SET(RANK, has_waits) },
	{ "note", WORD_AT(RANK, mark), FOR_PEOPLE });

static void print_rank(struct replay *run, const struct record_table *table,
	const struct fsdp_recording *one, bool waits, const struct fsdp_cost *cost)
{
	const struct fsdp_type_times *all = replay_type_of(one, "all", 3);
	const struct fsdp_device_times *base = &one->base;
	struct rank_row row = { .one = one,
		.device = one->device,
		.base = *base,
		.rank = one->rank,
		.run = (int64_t)run->nth,
		.all_ns = all != NULL ? all->times.sum_ns : FSDP_ABSENT,
		.comm_ns = one->has_device ? base->comm_busy_ns : one->host_comm_busy_ns,
		.host_comm_busy_ns = one->host_comm_busy_ns,
		.wait_ns = one->wait_ns,
		.times_last = one->times_last,
		.input = one->input,
		/* Kernels are at the end of a trace. */
		.has_base = one->has_device && !((one->interrupted || one->truncated) &&
						       base->comm_busy_ns == 0 &&
						       base->compute_busy_ns == 0),
		.has_waits = waits,
		.mark = "" };

	row.overlap = (double)base->overlap_ns * 100 / (double)base->comm_busy_ns;
	if (one->truncated)
		row.mark = "truncated";
	else if (cost != NULL && cost->straggler == one->rank)
		row.mark = "straggler";
	out_records_row(run->run->out, table, &row);
}

bool replay_show_ranks(struct replay *replay)
{
	struct table like = { .key = "ranks", .text_only = true };
	struct place *places = malloc((replay->count + 1) * sizeof *places);
	struct record_table table;

	if (places == NULL)
		return false;
	if (replay->run_count > 1)
		like.view = VIEW_RUNS;
	replay_begin_table(replay, &table, &like, &rank_record);
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		struct fsdp_cost cost = fsdp_recordings_cost(run.recordings);
		size_t count;

		for (size_t k = 0; k < run.count; k++)
			places[k] = (struct place){ replay_by_rank(&run, k)->base.span_ns,
				k };
		count = top_of(&run, places, run.count);
		for (size_t k = 0; k < count; k++)
			print_rank(&run, &table, replay_by_rank(&run, places[k].index),
				has_waits(&run), &cost);
	}
	out_table_end(replay->run->out);
	free(places);
	return true;
}

/* ---- collectives ---- */

/* Matched over ranks, or one of a single rank: then what both have is in `match` too. */
struct collective {
	bool is_match;
	struct replay of; /* the run */
	uint64_t run;
	size_t at; /* in it */
	struct fsdp_match match;
	struct fsdp_collective own;
	double algbw, busbw;   /* below 0: absent */
	int64_t skew_ns, last; /* of a match, else FSDP_ABSENT */
};

_Static_assert(sizeof(struct collective) <= RECORD_ROOM, "room for one");

static size_t collectives_of(const struct replay *run)
{
	const struct fsdp_matching *matching = fsdp_recordings_matching(run->recordings);

	return matching->by != NULL ? matching->match_count
				    : replay_by_rank(run, 0)->collective_count;
}

/* The one at one->at of the run one->of. */
static void fill_collective(struct collective *one)
{
	char digits[2][32];
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(one->of.recordings);
	struct fsdp_match *match = &one->match;

	one->run = one->of.nth;
	one->is_match = matching->by != NULL;
	one->own = (struct fsdp_collective){ 0 };
	if (one->is_match) {
		*match = matching->matches[one->at];
	} else {
		fsdp_recording_collective(
			replay_by_rank(&one->of, 0), one->at, &one->own);
		*match = (struct fsdp_match){ .type = one->own.type,
			.group = one->own.group,
			.seq = one->own.seq,
			.transfer_ns = one->own.dur_ns,
			.bytes = one->own.bytes,
			.group_size = one->own.group_size };
	}
	if (!fsdp_bandwidth(&match->type, match->bytes, match->group_size,
		    match->transfer_ns, digits[0], digits[1]))
		match->group_size = FSDP_ABSENT;
	one->algbw = digits[0][0] != '\0' ? strtod(digits[0], NULL) : -1;
	one->busbw = digits[1][0] != '\0' ? strtod(digits[1], NULL) : -1;
	one->skew_ns = one->is_match ? match->start_skew_ns : FSDP_ABSENT;
	one->last = one->is_match ? match->last_rank : FSDP_ABSENT;
}

const void *replay_each_collective(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	struct collective *one = room;

	if (i == 0) {
		one->of = replay_run(replay, 0);
		one->at = 0;
	} else {
		one->at++;
	}
	for (; one->at == collectives_of(&one->of); one->at = 0) {
		if (one->of.nth == replay->run_count)
			return NULL;
		one->of = replay_run(replay, one->of.nth);
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
HAS(has_alg, COLLECTIVE, one->algbw >= 0)
HAS(has_bus, COLLECTIVE, one->busbw >= 0)
HAS(is_match, COLLECTIVE, one->is_match)
HAS(is_own, COLLECTIVE, !one->is_match)
HAS(has_group_column, COLLECTIVE, one->is_match || one->match.group.data != NULL)

static struct value get_group(struct subject of)
{
	struct text group =
		text_of_span(((const struct collective *)of.object)->match.group);

	return is_match(of) && group.size == 0 ? value_absent() : value_text(group);
}

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

static const void *each_rank(struct subject of, size_t i, void *room)
{
	const struct collective *one = of.object;

	if (i == one->match.recording_count)
		return NULL;
	*(int64_t *)room = replay_by_rank(&one->of, one->match.recordings[i])->rank;
	return room;
}

static const struct record of_group_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "group", GET(FIELD_TEXT, get_group),
		OR_NULL("Process group; null where ranks were matched without one.") });
const struct record replay_collective_record = OBJECT_RECORD(COLLECTIVE, "collective",
	"A collective: matched over several ranks, or that of a single rank.",
	{ "index", COUNT_AT(COLLECTIVE, match.index), .has = is_match,
		ABOUT("Position among all collectives, those included that are omitted.") },
	RUN_ROW(COLLECTIVE, run),
	{ "ts_ns", NS_AT(COLLECTIVE, own.ts_ns), .has = is_own,
		ABOUT("Start, of a single rank.") },
	{ "dur_ns", NS_AT(COLLECTIVE, own.dur_ns), .has = is_own,
		ABOUT("Duration, of a single rank.") },
	{ "type", TEXT_AT(COLLECTIVE, match.type), ALWAYS("Its operation.") },
	{ "how", ENUM_AT(COLLECTIVE, own.how, how_name), .has = is_own,
		WORDS("args", "launch", "name", "unknown"),
		ABOUT("How its type was found, as in `comm_resolution`.") },
	{ NULL, FIELDS(of_group_record), .has = has_group_column },
	{ "seq", GET(FIELD_ANY, get_seq),
		ABOUT("Sequence number within the group: an integer or null, of a single rank the text.") },
	{ "ranks", EACH(each_rank, record_integers), .has = is_match,
		ABOUT("Ranks that took part.") },
	{ "first_rank", INTEGER_AT(COLLECTIVE, match.first_rank), .has = is_match,
		ABOUT("The rank that began first.") },
	{ "last_rank", INTEGER_AT(COLLECTIVE, match.last_rank), .has = is_match,
		ABOUT("The rank that began last.") },
	{ "start_skew_ns", NS_AT(COLLECTIVE, match.start_skew_ns), .has = is_match,
		ABOUT("From the first start to the last.") },
	{ "end_skew_ns", NS_AT(COLLECTIVE, match.end_skew_ns), .has = is_match,
		ABOUT("From the first end to the last.") },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns), .has = is_match,
		ABOUT("The shortest duration of all ranks: the time of moving data.") },
	{ "max_dur_ns", NS_AT(COLLECTIVE, match.max_dur_ns), .has = is_match,
		ABOUT("The longest duration of all ranks.") },
	{ "bytes", INTEGER_AT(COLLECTIVE, match.bytes),
		ABOUT("Bytes of the output of an all-gather, of the input of others.") },
	{ "group_size", INTEGER_AT(COLLECTIVE, match.group_size),
		ABOUT("Number of ranks of the group.") },
	{ "algbw_GBps", NUMBER_AT(COLLECTIVE, algbw), .has = has_alg,
		ABOUT("Bytes by time, in 10^9 bytes a second with six decimals: by `transfer_ns`, of a single rank by `dur_ns`.") },
	{ "busbw_GBps", NUMBER_AT(COLLECTIVE, busbw), .has = has_bus,
		ABOUT("The same for the bus.") });

#define MATCHING struct fsdp_matching
const struct record replay_matching_record = OBJECT_RECORD(MATCHING, "matching",
	"How the collectives of ranks were matched.",
	{ "by", WORD_AT(MATCHING, by), WORDS("seq", "group", "position"),
		OR_NULL("By what; null for a single rank.") },
	{ "stopped", INTEGER_AT(MATCHING, stopped),
		OR_NULL("Place from which on they could not be matched.") },
	{ "straggler", INTEGER_AT(MATCHING, straggler),
		OR_NULL("The rank that waits less than half of the average of the others; null: no such rank. `cost` has the price.") },
	{ "left_out", COUNT_AT(MATCHING, left_out),
		ALWAYS("Number of collectives, of all ranks, without a process group or number to match them by.") },
	{ "aligned", BOOL_AT(MATCHING, aligned),
		ALWAYS("False if the clocks of the ranks differ: then waits and stragglers are unknown.") });

static const struct record collective_row_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "type", TEXT_AT(COLLECTIVE, match.type) },
	{ "group", GET(FIELD_TEXT, get_group), FOR_PROGRAMS },
	{ "seq", GET(FIELD_ANY, get_seq), FOR_PROGRAMS },
	{ "group", NAME_AT(COLLECTIVE, match.group), FOR_PEOPLE },
	{ "seq", TEXT_AT(COLLECTIVE, match.seq), FOR_PEOPLE },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns), .label = "ms" },
	{ "start_skew_ns", NS_AT(COLLECTIVE, skew_ns), .label = "skew ms" },
	{ "last_rank", INTEGER_AT(COLLECTIVE, last), .label = "last" },
	{ "bytes", INTEGER_AT(COLLECTIVE, match.bytes), FOR_PROGRAMS },
	{ "bytes", SIGNED_BYTES_AT(COLLECTIVE, match.bytes), .right = true, FOR_PEOPLE },
	{ "group_size", INTEGER_AT(COLLECTIVE, match.group_size), FOR_PROGRAMS },
	{ "algbw_GBps", NUMBER_AT(COLLECTIVE, algbw), .has = has_alg, FOR_PROGRAMS },
	{ "busbw_GBps", NUMBER_AT(COLLECTIVE, busbw), .has = has_bus,
		.label = "busbw GB/s", .digits = 6 },
	{ "run", COUNT_AT(COLLECTIVE, run), FOR_PROGRAMS });

static bool show_collectives(struct replay *run)
{
	static const struct table like = { .key = "collectives", .text_only = true };
	struct collective one = { .of = *run };
	size_t count = collectives_of(run);
	struct place *places = malloc((count + 1) * sizeof *places);
	struct record_table table;

	if (places == NULL)
		return false;
	for (one.at = 0; one.at < count; one.at++) {
		fill_collective(&one);
		places[one.at] = (struct place){ one.match.transfer_ns, one.at };
	}
	count = top_of(run, places, count);
	replay_begin_table(run, &table, &like, &collective_row_record);
	for (size_t i = 0; i < count; i++) {
		one.at = places[i].index;
		fill_collective(&one);
		out_records_row(run->run->out, &table, &one);
	}
	out_table_end(run->run->out);
	free(places);
	return true;
}

/* ---- units ---- */

struct replay_unit {
	struct fsdp_unit_times unit;
	uint64_t run;
	/* for people; times FSDP_ABSENT: it has no such collectives */
	struct text label;
	const char *phase, *ahead, *stream;
	int64_t gather_ns, gather_exposed_ns, reduce_ns, reduce_exposed_ns;
	char label_room[FSDP_UNIT_LABEL_ROOM], ahead_room[48], stream_room[32];
};

#define UNIT struct replay_unit
static const struct record key_record = RECORD_OF(RECORD_OBJECT, UNIT,
	{ "unit", TEXT_AT(UNIT, unit.unit), FOR_PROGRAMS,
		OR_NULL("Its name, empty for the root; null where it is not known. Of FSDP1 `#N`, its place in the forward.") },
	RUN_ROW(UNIT, run),
	{ "phase", ENUM_AT(UNIT, unit.phase, fsdp_unit_phase_name), FOR_PROGRAMS,
		WORDS("forward", "backward"),
		OR_NULL("When it is used; null where that is not known.") },
	{ "pg", INTEGER_AT(UNIT, unit.pg), FOR_PROGRAMS,
		OR_NULL("Size of the shard mesh, where the unit has several groups of parameters.") });

static const struct record sums_record = RECORD_OF(RECORD_OBJECT, UNIT,
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
		ALWAYS("Number of its forwards.") });

static const struct record unit_record = OBJECT_RECORD(UNIT, "unit_times",
	"What one unit of FSDP costs in one phase, over all ranks and steps.",
	{ NULL, FIELDS(key_record) }, { NULL, FIELDS(sums_record) },
	{ "groups", LIST_AT(UNIT, unit.groups.texts, unit.groups.count, record_texts),
		ALWAYS("Process groups of its kernels.") },
	{ "streams", LIST_AT(UNIT, unit.streams.texts, unit.streams.count, record_texts),
		ALWAYS("Streams, or threads, that its kernels ran on.") },
	{ "on_compute_stream", COUNT_AT(UNIT, unit.gathers.on_compute_stream),
		ALWAYS("Number of kernels of gathers on the stream that computes most.") });

/* Times on the host have no exposed part: their table lacks these columns. */
#define OF_EXPOSED .machine_only = 0x55
HAS(is_exposed, UNIT, one->unit.gathers.exposed_ns != FSDP_ABSENT)
static const struct record unit_row_record = RECORD_OF(RECORD_OBJECT, UNIT,
	{ NULL, FIELDS(key_record) }, { NULL, FIELDS(sums_record) },
	{ "unit", NAME_AT(UNIT, label), FOR_PEOPLE },
	{ "phase", WORD_AT(UNIT, phase), FOR_PEOPLE },
	{ "gather ms", NS_AT(UNIT, gather_ns), FOR_PEOPLE },
	{ "exposed", NS_AT(UNIT, gather_exposed_ns), .has = is_exposed, OF_EXPOSED,
		FOR_PEOPLE },
	{ "prefetch", WORD_AT(UNIT, ahead), .right = true, FOR_PEOPLE },
	{ "reduce ms", NS_AT(UNIT, reduce_ns), FOR_PEOPLE },
	{ "exposed", NS_AT(UNIT, reduce_exposed_ns), .has = is_exposed, OF_EXPOSED,
		FOR_PEOPLE },
	{ "stream", WORD_AT(UNIT, stream), .right = true, OF_EXPOSED, FOR_PEOPLE });

static struct fsdp_time_without_unit unassigned_of(const struct replay *replay)
{
	struct fsdp_time_without_unit sum = { 0 };

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_time_without_unit *one =
			&replay_by_rank(replay, i)->unassigned;
		sum.gathers += one->gathers;
		sum.reduces += one->reduces;
		sum.gather_ns += one->gather_ns;
		sum.reduce_ns += one->reduce_ns;
	}
	return sum;
}

#define REST struct fsdp_time_without_unit
static const struct record unassigned_record =
	OBJECT_RECORD(REST, "unassigned", "Collectives that are of no unit.",
		{ "gathers", COUNT_AT(REST, gathers), ALWAYS("Number of all-gathers.") },
		{ "gather_ns", NS_AT(REST, gather_ns), ALWAYS("Their time.") },
		{ "reduces", COUNT_AT(REST, reduces),
			ALWAYS("Number of reduce-scatters and all-reduces.") },
		{ "reduce_ns", NS_AT(REST, reduce_ns), ALWAYS("Their time.") });

static const void *get_unassigned(struct subject of, size_t i, void *room)
{
	(void)i;
	*(REST *)room = unassigned_of(of.context);
	return room;
}

const struct record replay_units = RECORD_OF(RECORD_OBJECT, struct replay,
	{ "units", LIST_AT(struct replay, units, unit_count, unit_record),
		ALWAYS("With `--by=unit`: units in the order of their names, forward before backward.") },
	{ "unassigned", .type = FIELD_OBJECT, .by = BY_EACH, .each = get_unassigned,
		.of = &unassigned_record, .always = true });

/* "20", "20,24"; what has no room is replaced by a mark. */
static const char *format_streams(
	const struct fsdp_unit_texts *streams, char *text, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < streams->count; i++) {
		const struct fsdp_span *one = &streams->texts[i];
		if (used + one->size + sizeof ",…" > room) {
			memcpy(text + used, "…", sizeof "…");
			return text;
		}
		used += (size_t)snprintf(text + used, room - used, "%s%.*s",
			i != 0 ? "," : "", (int)one->size, (const char *)one->data);
	}
	return text;
}

static bool list_units(struct replay *replay)
{
	size_t count = 0;

	for (size_t i = 0; i < replay->run_count; i++)
		count += fsdp_recordings_unit_count(
			fsdp_recordings_run(replay->recordings, i));
	replay->units = calloc(count + 1, sizeof *replay->units);
	for (size_t i = 0; replay->units != NULL && i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);

		for (size_t k = 0; k < fsdp_recordings_unit_count(run.recordings); k++) {
			UNIT *row = &replay->units[replay->unit_count++];
			const struct fsdp_unit_times *unit =
				fsdp_recordings_unit(run.recordings, k);
			bool gathers = unit->gathers.kernels != 0,
			     reduces = unit->reduces.kernels != 0;
			row->unit = *unit;
			row->run = run.nth;
			row->label = text_of(fsdp_unit_label(unit, row->label_room));
			row->phase = fsdp_unit_phase_name(unit->phase);
			row->gather_ns = gathers ? unit->gathers.ns : FSDP_ABSENT;
			row->gather_exposed_ns =
				gathers ? unit->gathers.exposed_ns : FSDP_ABSENT;
			row->reduce_ns = reduces ? unit->reduces.ns : FSDP_ABSENT;
			row->reduce_exposed_ns =
				reduces ? unit->reduces.exposed_ns : FSDP_ABSENT;
			if (unit->gathers.count != 0) {
				snprintf(row->ahead_room, sizeof row->ahead_room,
					"%" PRIu64 " of %" PRIu64, unit->prefetched,
					unit->gathers.count);
				row->ahead = row->ahead_room;
			}
			if (unit->streams.count != 0)
				row->stream = format_streams(&unit->streams,
					row->stream_room, sizeof row->stream_room);
		}
	}
	return replay->units != NULL;
}

/* Where launches are not recorded, kernels are of no unit. */
static void print_unplaced(struct replay *run, const struct fsdp_time_without_unit *rest)
{
	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_times *unit =
			fsdp_recordings_unit(run->recordings, i);
		if (unit->gathers.kernels + unit->reduces.kernels != 0)
			return;
	}
	if (rest->gathers + rest->reduces != 0)
		run_note(run->run,
			"times of units are not known: no collective was issued within an annotation of FSDP");
}

static void show_units(struct replay *run)
{
	struct table like = { .key = "types", .text_only = true };
	struct fsdp_time_without_unit rest = unassigned_of(run);
	struct record_table table;
	struct fsdp_loss loss;
	enum fsdp_unit_source from = replay_by_rank(run, 0)->units_from;
	if (from == FSDP_UNITS_OLD)
		run_note(run->run,
			"PyTorch before 2.5 names no unit, so they cannot be distinguished");
	if (from == FSDP_UNITS_FSDP1)
		run_note(run->run,
			"FSDP1 names no unit: #0 is the root, the others in the order of the forward");
	if (fsdp_recordings_unit_count(run->recordings) == 0)
		return;
	print_unplaced(run, &rest);
	like.view = fsdp_recordings_unit(run->recordings, 0)->gathers.exposed_ns !=
		    FSDP_ABSENT;
	replay_begin_table(run, &table, &like, &unit_row_record);
	for (size_t i = 0; i < run->unit_count; i++)
		if (run->units[i].run == run->nth)
			out_records_row(run->run->out, &table, &run->units[i]);
	if (rest.gathers + rest.reduces != 0)
		out_records_row(run->run->out, &table,
			&(UNIT){ .label = text_of("(no unit)"),
				.unit.gathers.exposed_ns = FSDP_ABSENT,
				.gather_ns =
					rest.gathers != 0 ? rest.gather_ns : FSDP_ABSENT,
				.reduce_ns = rest.reduces != 0 ? rest.reduce_ns
							       : FSDP_ABSENT });
	out_table_end(run->run->out);
	for (unsigned note = 0; note < FSDP_UNIT_NOTES; note++) {
		fsdp_recordings_unit_note(run->recordings, note, &loss);
		replay_show_loss(run, &loss);
	}
	fsdp_recordings_unit_loss(run->recordings, &loss);
	if (strcmp(run->options->advice, "no") != 0)
		replay_show_loss(run, &loss);
}

/* ---- all tables ---- */

bool replay_list(struct replay *replay)
{
	if (!list_types(replay))
		return false;
	/* Times compared to the first run. */
	for (size_t i = 0; i < replay->type_count; i++) {
		struct replay_type *row = &replay->types[i];
		const struct replay_type *first = find_row(replay, 1, row->name);
		row->ratio =
			row->run > 1 && first != NULL && first->times.sum_ns > 0 &&
					row->times.sum_ns != FSDP_ABSENT
				? (double)row->times.sum_ns / (double)first->times.sum_ns
				: -1;
	}
	return replay_list_sums(replay) &&
	       (!replay_shows_only(replay, "unit") || list_units(replay));
}

void replay_list_free(struct replay *replay)
{
	free(replay->types);
	free(replay->units);
	free(replay->groups.items);
	free(replay->classes.items);
	free(replay->kernels.items);
	free(replay->causes.items);
	free(replay->idles.items);
	free(replay->idle_kinds.items);
}

static size_t rows_of_run(const struct replay *run, const struct fsdp_row_list *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->count; i++)
		count += rows->items[i].run == run->nth;
	return count;
}

/* A table that was asked for and has no rows says why: then that is the answer, not a
 * note. */
static void print_empty(struct replay *run)
{
	bool has_device = false;
	size_t regions = 0;

	for (size_t i = 0; i < run->count; i++)
		has_device |= replay_by_rank(run, i)->has_device;
	for (size_t i = 0; i < run->type_count; i++)
		regions += run->types[i].run == run->nth &&
			   run->types[i].times.count != 0 &&
			   fsdp_type_is_region(run->types[i].name);
	const struct {
		const char *by;
		size_t rows;
		const char *sentence;
	} tables[] = {
		{ "step", replay_step_count(run),
			"no steps: schedule= and p.step() of the profiler mark them" },
		{ "collective", collectives_of(run),
			replay_by_rank(run, 0)->collective_count == 0
				? "no collectives were recorded"
				: "no collective was matched with other ranks: one trace alone lists its own" },
		{ "group", rows_of_run(run, &run->groups),
			"no collectives were recorded" },
		{ "unit", fsdp_recordings_unit_count(run->recordings),
			"no annotations of FSDP: its units are unknown" },
		{ "kernel", rows_of_run(run, &run->kernels),
			"no device events: kernels are unknown without ProfilerActivity.CUDA" },
		{ "idle", rows_of_run(run, &run->idle_kinds),
			has_device
				? "no device was idle"
				: "no device events: idle times are unknown without ProfilerActivity.CUDA" },
		{ "region", regions, "no regions: record_function(NAME) marks them" },
	};

	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		if (!replay_shows_only(run, tables[i].by) || tables[i].rows != 0)
			continue;
		const char *sentence =
			run->has_traces
				? tables[i].sentence
				: "SimpleProfiler records calls by type alone: leave --by out";

		if (answer_has_output(run->run, "text"))
			out_line(run->run->out, NULL, "%s", sentence);
		else
			run_note(run->run, "%s", sentence);
	}
}

bool replay_show_table(struct replay *run)
{
	bool good = true;

	if (replay_shows_only(run, "step") && replay_step_count(run) != 0)
		good = show_steps(run);
	if (replay_shows_only(run, "collective"))
		good = show_collectives(run);
	if (replay_shows_only(run, "unit"))
		show_units(run);
	replay_show_sums(run);
	print_empty(run);
	return good;
}

bool replay_put_rows(struct replay *replay)
{
	struct record_table table;
	bool good = true;

	if (replay->before != NULL) {
		comparison_put_rows(replay);
	} else if (replay_shows_only(replay, "step")) {
		replay_begin_table(replay, &table, &replay_rows, &cost_record);
		for (size_t i = 0; good && i < replay->run_count; i++) {
			struct replay run = replay_run(replay, i);

			good = print_steps(&run, &table);
		}
		out_table_end(replay->run->out);
	} else if (replay->options->by == NULL) {
		print_separated(replay);
	} else if (replay_shows_only(replay, "rank")) {
		replay_begin_table(replay, &table, &replay_rows, &rank_record);
		for (size_t i = 0; i < replay->count; i++)
			print_rank(replay, &table, replay_by_rank(replay, i),
				has_waits(replay), NULL);
		out_table_end(replay->run->out);
	} else if (replay_shows_only(replay, "collective")) {
		out_each_record(replay->run->out, &replay_rows, &collective_row_record,
			(struct subject){ replay, replay }, SIZE_MAX,
			replay_each_collective);
	} else if (replay_shows_only(replay, "unit")) {
		out_records(replay->run->out, &replay_rows, &unit_row_record, replay,
			replay->units, replay->unit_count);
	} else if (!replay_put_sums(replay)) {
		print_sums(replay, replay_shows_only(replay, "region"));
	}
	return good;
}
