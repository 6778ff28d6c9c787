/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` tells machines: the document, and one row for each rank, step and type;
 * in nanoseconds.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay.h"

static const struct fsdp_recordings *recordings_of(struct subject of)
{
	return ((const struct replay *)of.context)->recordings;
}

/* ---- types ---- */

struct shown_type {
	struct fsdp_span name;
	struct fsdp_times times;
	uint64_t run;
};

/* Of several, which run it is. */
static bool has_runs(struct subject of)
{
	return ((const struct replay *)of.context)->run_count > 1;
}
#define RUN_ROW(from, run)                                                                     \
	{                                                                                      \
		"run", COUNT_AT(from, run),                                                    \
			.has = has_runs,                                                       \
			.about =                                                               \
				"Of several recordings of each rank, which run it is, from 1." \
	}

/* Of a type that was not called the rest is null. */
static struct value get_sum(struct subject of)
{
	const struct fsdp_times *times = &((const struct shown_type *)of.object)->times;

	return value_ns(times->count == 0 ? 0 : times->sum_ns);
}

struct type_of_rank {
	int64_t rank;
	struct fsdp_times times;
	size_t next; /* by rank */
};

static const void *each_rank_of_type(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	const struct shown_type *shown = of.object;
	struct type_of_rank *one = room;

	if (i == 0)
		one->next = 0;
	while (one->next < replay->count) {
		const struct fsdp_recording *recording =
			replay_by_rank(replay, one->next++);
		const struct fsdp_type_times *type =
			replay_type_of(recording, shown->name);
		if (type == NULL)
			continue;
		one->rank = recording->rank;
		one->times = type->times;
		return one;
	}
	return NULL;
}

#define RANK struct type_of_rank
static const struct record type_of_rank_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", INTEGER_AT(RANK, rank), .always = true, .about = "The rank." },
	{ "count", COUNT_AT(RANK, times.count), .always = true,
		.about = "Number of calls on it." },
	{ "sum_ns", NS_AT(RANK, times.sum_ns), .null = true,
		.about = "Time of these calls together." });

#define TYPE struct shown_type
static const struct record type_record = OBJECT_RECORD(TYPE, "type", "Calls of one type.",
	{ "type", TEXT_AT(TYPE, name), .always = true,
		.about =
			"Its name; the same as `value_type`, which JSON Lines have alone." },
	{ "value_type", TEXT_AT(TYPE, name), .always = true,
		.about = "Its name, under the name that JSON and JSON Lines share." },
	RUN_ROW(TYPE, run),
	{ "count", COUNT_AT(TYPE, times.count), .always = true,
		.about = "Number of calls." },
	{ "sum_ns", GET(FIELD_NS, get_sum), .null = true,
		.about = "Time of all calls together." },
	{ "min_ns", NS_AT(TYPE, times.min_ns), .null = true,
		.about =
			"The shortest call; this and those below are null when there is none." },
	{ "p50_ns", NS_AT(TYPE, times.p50_ns), .null = true,
		.about = "50th percentile: half of the calls take no longer." },
	{ "p95_ns", NS_AT(TYPE, times.p95_ns), .null = true,
		.about = "95th percentile." },
	{ "max_ns", NS_AT(TYPE, times.max_ns), .null = true,
		.about = "The longest call." },
	{ "approx", BOOL_AT(TYPE, times.approx), .always = true,
		.about =
			"True when the percentiles come from a histogram, exact to one per cent." },
	{ "ranks", EACH(each_rank_of_type, type_of_rank_record), .always = true,
		.about = "The same by rank, for ranks that call it." });

static void put_type(
	struct replay *replay, struct fsdp_span name, const struct fsdp_times *times)
{
	const struct shown_type type = { name, *times, replay->nth };

	out_record(
		replay->run->out, NULL, &type_record, (struct subject){ replay, &type });
}

static void put_absent(struct replay *replay, struct fsdp_span before, size_t *at)
{
	static const struct fsdp_times none = { 0, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT, false };
	const char *absent;

	while ((absent = replay_next_absent(replay, before, at)) != NULL)
		put_type(replay, span_of_text(text_of(absent)), &none);
}

static void put_types_of(struct replay *run)
{
	size_t at = 0, count = replay_type_count(run);

	for (size_t i = 0; i < count; i++) {
		struct fsdp_type_times type = fsdp_recordings_type(run->recordings, i);
		put_absent(run, type.name, &at);
		put_type(run, type.name, &type.times);
	}
	put_absent(run, (struct fsdp_span){ 0 }, &at);
}

static void put_types(struct replay *replay)
{
	out_items_begin(replay->run->out, "types");
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		put_types_of(&run);
	}
	out_array_end(replay->run->out);
}

/* ---- recordings ---- */

static const char *layer_name(unsigned layer)
{
	return layer == FSDP_LAYER_DEVICE ? "device"
	       : layer == FSDP_LAYER_HOST ? "host"
					  : "none";
}

static const char *how_name(unsigned how)
{
	static const char *const names[FSDP_BY_COUNT] = { "args", "launch", "name",
		"unknown" };

	return names[how];
}

#define BY(how) .type = FIELD_COUNT, .at = (how) * sizeof(uint64_t), .always = true
static const struct record resolution_record = OBJECT_RECORD(uint64_t[FSDP_BY_COUNT],
	"resolution", "How the types of collectives were found.",
	{ "args", BY(FSDP_BY_ARGS),
		.about = "Number of those found by the arguments of their kernels." },
	{ "launch", BY(FSDP_BY_LAUNCH),
		.about = "By the annotation that encloses their launch." },
	{ "name", BY(FSDP_BY_NAME), .about = "By the names of their kernels." },
	{ "unknown", BY(FSDP_BY_NONE), .about = "Not found." });

/* Of all recordings, and of each. */
#define COMM_ROWS(from, layer, counts)                                         \
	{ "comm_layer", ENUM_AT(from, layer, layer_name), .always = true,      \
		WORDS("device", "host", "none"),                               \
		.about = "Where collectives are counted, once each." },        \
	{                                                                      \
		"comm_resolution", OBJECT_AT(from, counts, resolution_record), \
			.always = true                                         \
	}

#define DEVICE struct fsdp_device_times
static const struct record device_record = OBJECT_RECORD(DEVICE, "device",
	"How long the device was busy.",
	{ "span_ns", NS_AT(DEVICE, span_ns), .always = true,
		.about = "From the first start to the last end on the device." },
	{ "busy_ns", NS_AT(DEVICE, busy_ns), .always = true,
		.about = "Busy with anything." },
	{ "idle_ns", NS_AT(DEVICE, idle_ns), .always = true,
		.about = "Busy with nothing." },
	{ "comm_busy_ns", NS_AT(DEVICE, comm_busy_ns), .always = true,
		.about = "Busy with collectives." },
	{ "compute_busy_ns", NS_AT(DEVICE, compute_busy_ns), .always = true,
		.about = "Busy with kernels that compute." },
	{ "mem_busy_ns", NS_AT(DEVICE, mem_busy_ns), .always = true,
		.about = "Busy with copying or setting memory." },
	{ "overlap_ns", NS_AT(DEVICE, overlap_ns), .always = true,
		.about = "Busy with collectives and with kernels that compute at once." },
	{ "exposed_ns", NS_AT(DEVICE, exposed_ns), .always = true,
		.about = "Busy with collectives and with no kernel that computes." });

#define TALLY struct fsdp_tally
static const struct record count_record = RECORD_OF(RECORD_OBJECT, TALLY,
	{ NULL, TEXT_AT(TALLY, name) }, { NULL, COUNT_AT(TALLY, count) });
static const struct record tally_record =
	RECORD_OF(RECORD_OBJECT, TALLY, { NULL, TEXT_AT(TALLY, name) },
		{ "count", COUNT_AT(TALLY, count), .always = true, .about = "How many." },
		{ "sum_ns", NS_AT(TALLY, sum_ns), .always = true,
			.about = "How long together." });

#define RECORDING struct fsdp_recording
static bool is_trace(struct subject of)
{
	return ((const RECORDING *)of.object)->kind == FSDP_RECORDING_KINETO;
}

static bool is_no_trace(struct subject of)
{
	return !is_trace(of);
}

static bool is_profile(struct subject of)
{
	return ((const RECORDING *)of.object)->kind == FSDP_RECORDING_PROFILE;
}

static bool has_device(struct subject of)
{
	return ((const RECORDING *)of.object)->has_device;
}

static bool is_interrupted(struct subject of)
{
	return ((const RECORDING *)of.object)->interrupted;
}

static bool has_timeline(struct subject of)
{
	return ((const RECORDING *)of.object)->timeline != NULL;
}

static const void *each_cell(struct subject of, size_t i, void *room)
{
	(void)room;
	return i < fsdp_recordings_timeline(recordings_of(of))->cell_count
		       ? &((const RECORDING *)of.object)->timeline[i]
		       : NULL;
}

#define RESULT struct fsdp_dump_result
static const struct record result_record = NAMED_RECORD(RECORD_TUPLE, RESULT, NULL,
	"A type and its time; null where the log has inf or nan.",
	{ NULL, TEXT_AT(RESULT, type) }, { NULL, NS_AT(RESULT, ns), .null = true });

static const struct record root_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "root", WORD_AT(RECORDING, root), WORDS("object", "list"),
		.about = "What the trace is: a JSON object, or a list of events." },
	{ "backend", TEXT_AT(RECORDING, backend), .null = true,
		.about = "Backend of the collectives." });
static const struct record events_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "events", COUNT_AT(RECORDING, events),
		.about = "Number of events that are counted." },
	{ "recovered", COUNT_AT(RECORDING, recovered),
		.about =
			"Number of these that are counted although something in them is not JSON." },
	{ "dropped", COUNT_AT(RECORDING, dropped),
		.about = "Number of events that are not counted." });
static const struct record simple_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "debug_level", TEXT_AT(RECORDING, debug_level), .null = true,
		.about = "Value of `TORCH_DISTRIBUTED_DEBUG`." },
	{ "residual", LIST_AT(RECORDING, residual, residual_count, result_record),
		.about = "Types that were never dumped." },
	{ "still_open", LIST_AT(RECORDING, still_open, still_open_count, record_texts),
		.about = "Types of regions that did not end." },
	{ "skipped", COUNT_AT(RECORDING, skipped),
		.about = "Number of lines of an unknown kind." });
static const struct record trace_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "deviations", MAP_AT(RECORDING, deviations, deviation_count, count_record),
		.about = "What is not JSON, and how often." },
	{ "trailing_data_at", INTEGER_AT(RECORDING, trailing_data_at), .null = true,
		.about = "Offset of bytes behind the end; null for none." },
	{ "bad_dur", COUNT_AT(RECORDING, bad_dur),
		.about = "Number of events without usable times." },
	{ "unpaired", COUNT_AT(RECORDING, unpaired),
		.about = "Number of begins without an end, and ends without a begin." },
	{ "base_ns", NS_AT(RECORDING, base_ns), .null = true,
		.about = "What the times of events count from." },
	{ "phases", MAP_AT(RECORDING, phases, phase_count, count_record),
		.about = "Number of events, by `ph`." },
	{ "categories", MAP_AT(RECORDING, categories, category_count, tally_record),
		.about = "Spans, by `cat`." },
	{ "all_source", WORD_AT(RECORDING, all_source),
		WORDS("ProfilerStep", "span", "none"),
		.about = "What the type `all` is made of." },
	COMM_ROWS(RECORDING, layer, resolution),
	{ "first_ts_ns", NS_AT(RECORDING, first_ts_ns), .null = true,
		.about = "The first start." },
	{ "last_end_ns", NS_AT(RECORDING, last_end_ns), .null = true,
		.about = "The last end." },
	{ "device", OBJECT_AT(RECORDING, device, device_record), .has = has_device,
		.null = true,
		.about = "Times of the device; null without events of one." },
	{ "host_comm_busy_ns", NS_AT(RECORDING, host_comm_busy_ns),
		.about =
			"Time the host was busy with collectives; absent where the device has them." },
	{ "wait_ns", NS_AT(RECORDING, wait_ns),
		.about = "Time it waited for the last rank of each collective." },
	{ "times_last", COUNT_AT(RECORDING, times_last),
		.about = "How often it was the last." });

static const struct record recording_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "kind", ENUM_AT(RECORDING, kind, fsdp_recording_kind_name), .always = true,
		WORDS("kineto", "simple_profiler", "log"), .about = "What was read." },
	{ NULL, FIELDS(root_record), .has = is_trace },
	{ "world_size", INTEGER_AT(RECORDING, world_size), .null = true,
		.about = "Number of ranks of the job, as this recording has it." },
	{ NULL, FIELDS(events_record), .has = is_trace },
	{ NULL, FIELDS(simple_record), .has = is_profile },
	{ "truncated", BOOL_AT(RECORDING, truncated), .always = true,
		.about = "True when it was cut off." },
	{ "interrupted", BOOL_AT(RECORDING, interrupted), .has = is_interrupted,
		.about = "True when a signal ended the reading of it." },
	{ NULL, FIELDS(trace_record), .has = is_trace },
	{ "bad_lines", LIST_AT(RECORDING, bad_lines, bad_line_count, record_counts),
		.has = is_no_trace, .about = "Numbers of lines that cannot be read." },
	{ "timeline", EACH(each_cell, record_texts_or_null), .has = has_timeline,
		.about =
			"With `--timeline`: the type that fills most of each cell, or `idle`; null where nothing is known." });

struct ranked {
	struct fsdp_recording recording;
	uint64_t input, run;
};
#define RANKED struct ranked
static const struct record rank_record = OBJECT_RECORD(RANKED, "rank", "One recording.",
	{ "rank", INTEGER_AT(RANKED, recording.rank), .always = true,
		.about = "Its rank." },
	{ "rank_from", ENUM_AT(RANKED, recording.rank_from, fsdp_rank_from_name),
		.always = true,
		WORDS("distributedInfo", "rank-regex", "name", "position"),
		.about = "What tells the rank." },
	{ "input", COUNT_AT(RANKED, input), .always = true,
		.about = "`id` of the input." },
	RUN_ROW(RANKED, run), { NULL, FIELDS_AT(RANKED, recording, recording_record) });

_Static_assert(sizeof(RANKED) <= RECORD_ROOM, "room for one");

/* The run of a recording, from 1. */
static uint64_t run_of(const struct replay *replay, const struct fsdp_recording *one)
{
	for (size_t i = 0; replay->run_count > 1 && i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		for (size_t j = 0; j < run.count; j++)
			if (fsdp_recording(run.recordings, j) == one)
				return run.nth;
	}
	return 1;
}

static const void *each_ranked(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	struct ranked *one = room;

	if (i == replay->count)
		return NULL;
	one->run = run_of(replay, replay_by_rank(replay, i));
	one->recording = *replay_by_rank(replay, i);
	one->input = one->recording.input;
	return one;
}

#define TIMELINE struct fsdp_timeline
static const struct record timeline_record = RECORD_OF(RECORD_OBJECT, TIMELINE,
	{ "begin_ns", NS_AT(TIMELINE, begin_ns), .null = true,
		.about =
			"Where the first cell begins; null: for each rank at its own start." },
	{ "cell_ns", NS_AT(TIMELINE, cell_ns), .always = true,
		.about = "How long each cell is." },
	{ "cells", SIZE_AT(TIMELINE, cell_count), .always = true,
		.about = "Number of cells." });

/* ---- lists that each recording has ---- */

/* An element of one of them, by rank. */
struct place {
	size_t nth, at;
	int64_t rank;
	uint64_t input;
};

/* Of the steps of a recording one more: what is of none of them. */
static size_t count_of(const struct fsdp_recording *one, size_t count_at)
{
	size_t count = *(const size_t *)((const char *)one + count_at);

	return count + (count_at == offsetof(struct fsdp_recording, step_count) &&
			       one->outside_count != 0);
}

/* The recording of the next one, or NULL; count_at: where a recording has the number. */
static const struct fsdp_recording *next_of(
	const struct replay *replay, size_t i, struct place *place, size_t count_at)
{
	if (i == 0)
		*place = (struct place){ 0 };
	else
		place->at++;
	for (; place->nth < replay->count; place->nth++, place->at = 0) {
		const struct fsdp_recording *one = replay_by_rank(replay, place->nth);
		place->rank = one->rank;
		place->input = one->input;
		if (place->at < count_of(one, count_at))
			return one;
	}
	return NULL;
}

struct ranked_step {
	struct place place;
	struct fsdp_step step;
};
static bool has_step_device(struct subject of)
{
	return ((const struct ranked_step *)of.object)->step.has_device;
}

#define STEP struct ranked_step
static const struct record step_record = OBJECT_RECORD(STEP, "step",
	"One `ProfilerStep`.",
	{ "step", INTEGER_AT(STEP, step.step), .null = true,
		.about =
			"Its number; null for what is of no step. Of that the times below are null." },
	{ "rank", INTEGER_AT(STEP, place.rank), .always = true, .about = "Its rank." },
	{ "input", COUNT_AT(STEP, place.input), .always = true,
		.about = "`id` of its input." },
	{ "ts_ns", NS_AT(STEP, step.ts_ns), .null = true, .about = "Its start." },
	{ "dur_ns", NS_AT(STEP, step.dur_ns), .null = true, .about = "How long it is." },
	{ "device", OBJECT_AT(STEP, step.device, device_record), .has = has_step_device,
		.about =
			"Times of the device from the first to the last work that was launched in it." },
	{ "types", MAP_AT(STEP, step.types, step.type_count, tally_record),
		.always = true,
		.about =
			"By type, what the device does that was launched in it, and what the host began in it." });

static const void *each_step(struct subject of, size_t i, void *room)
{
	struct ranked_step *step = room;
	const struct fsdp_recording *one =
		next_of(of.context, i, &step->place, offsetof(RECORDING, step_count));

	if (one == NULL)
		return NULL;
	bool outside = step->place.at == one->step_count;
	step->step = outside ? (struct fsdp_step){ .step = FSDP_ABSENT,
		.ts_ns = FSDP_ABSENT,
		.dur_ns = FSDP_ABSENT,
		.types = one->outside,
		.type_count = one->outside_count }
			     : one->steps[step->place.at];
	return step;
}

struct ranked_dump {
	struct place place;
	struct fsdp_dump dump;
};
#define DUMP struct ranked_dump
static const struct record dump_record = OBJECT_RECORD(DUMP, "dump",
	"A dump of `SimpleProfiler`.",
	{ "rank", INTEGER_AT(DUMP, place.rank), .always = true, .about = "Its rank." },
	{ "line", COUNT_AT(DUMP, dump.line), .always = true, .about = "Its line." },
	{ "msg", TEXT_AT(DUMP, dump.msg), .null = true,
		.about = "Text in front of the results." },
	{ "emitted", BOOL_AT(DUMP, dump.emitted), .always = true,
		.about = "True when PyTorch printed it." },
	{ "results", LIST_AT(DUMP, dump.results, dump.result_count, result_record),
		.always = true, .about = "In PyTorch's order." },
	{ "log_message", TEXT_AT(DUMP, dump.log_message), .null = true,
		.about = "The line that PyTorch prints." });

static const void *each_dump(struct subject of, size_t i, void *room)
{
	struct ranked_dump *dump = room;
	const struct fsdp_recording *one =
		next_of(of.context, i, &dump->place, offsetof(RECORDING, dump_count));

	if (one == NULL)
		return NULL;
	dump->dump = one->dumps[dump->place.at];
	return dump;
}

struct ranked_problem {
	struct place place;
	struct fsdp_profile_problem problem;
	uint64_t input;
};
#define PROBLEM struct ranked_problem
static const struct record problem_record = OBJECT_RECORD(PROBLEM, "problem",
	"A use of `SimpleProfiler` that PyTorch refuses.",
	{ "input", COUNT_AT(PROBLEM, input), .always = true,
		.about = "`id` of its input." },
	{ "rank", INTEGER_AT(PROBLEM, place.rank), .always = true, .about = "Its rank." },
	{ "line", COUNT_AT(PROBLEM, problem.line), .always = true, .about = "Its line." },
	{ "kind", WORD_AT(PROBLEM, problem.kind), .always = true,
		WORDS("reentry", "end_without_begin", "end_after_reset"),
		.about = "What is wrong with it." },
	{ "type", TEXT_AT(PROBLEM, problem.type), .always = true,
		.about = "The type that is used." },
	{ "message", WORD_AT(PROBLEM, problem.message), .always = true,
		.about = "What PyTorch does there." });

static const void *each_problem(struct subject of, size_t i, void *room)
{
	struct ranked_problem *problem = room;
	const struct fsdp_recording *one = next_of(
		of.context, i, &problem->place, offsetof(RECORDING, problem_count));

	if (one == NULL)
		return NULL;
	problem->problem = one->problems[problem->place.at];
	problem->input = one->input;
	return problem;
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
	double algbw, busbw; /* below 0: there is no such number */
};

_Static_assert(sizeof(struct collective) <= RECORD_ROOM, "room for one");

static double number_of(const char *digits)
{
	return digits[0] != '\0' ? strtod(digits, NULL) : -1;
}

static size_t collectives_of(const struct replay *run)
{
	const struct fsdp_matching *matching = fsdp_recordings_matching(run->recordings);

	return matching->by != NULL ? matching->match_count
				    : replay_by_rank(run, 0)->collective_count;
}

/* Goes to the next one of any run. */
static bool next_collective(const struct replay *replay, size_t i, struct collective *one)
{
	if (i == 0) {
		one->of = replay_run(replay, 0);
		one->at = 0;
	} else {
		one->at++;
	}
	while (one->at == collectives_of(&one->of)) {
		if (one->of.nth == replay->run_count)
			return false;
		one->of = replay_run(replay, one->of.nth);
		one->at = 0;
	}
	one->run = one->of.nth;
	return true;
}

static const void *each_collective(struct subject of, size_t i, void *room)
{
	struct collective *one = room;
	const struct fsdp_matching *matching;
	struct fsdp_match *match = &one->match;
	char digits[2][32];

	if (!next_collective(of.context, i, one))
		return NULL;
	matching = fsdp_recordings_matching(one->of.recordings);
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
	one->algbw = number_of(digits[0]);
	one->busbw = number_of(digits[1]);
	return one;
}

static bool has_algbw(struct subject of)
{
	return ((const struct collective *)of.object)->algbw >= 0;
}

static bool has_busbw(struct subject of)
{
	return ((const struct collective *)of.object)->busbw >= 0;
}

static bool is_match(struct subject of)
{
	return ((const struct collective *)of.object)->is_match;
}

static bool is_own(struct subject of)
{
	return !is_match(of);
}

static bool knows_group(struct subject of)
{
	return is_match(of) ||
	       ((const struct collective *)of.object)->match.group.data != NULL;
}

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
	const struct fsdp_match *match = &((const struct collective *)of.object)->match;
	int64_t *rank = room;

	if (i == match->recording_count)
		return NULL;
	*rank = replay_by_rank(
		&((const struct collective *)of.object)->of, match->recordings[i])
			->rank;
	return rank;
}

#define COLLECTIVE struct collective
static const struct record group_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "group", GET(FIELD_TEXT, get_group), .null = true,
		.about = "Process group; null where ranks were matched without one." });
static const struct record collective_record = OBJECT_RECORD(COLLECTIVE, "collective",
	"A collective: matched over several ranks, or that of a single rank.",
	{ "index", COUNT_AT(COLLECTIVE, match.index), .has = is_match,
		.about = "Place among all collectives, with those that are left out." },
	RUN_ROW(COLLECTIVE, run),
	{ "ts_ns", NS_AT(COLLECTIVE, own.ts_ns), .has = is_own,
		.about = "Start, of a single rank." },
	{ "dur_ns", NS_AT(COLLECTIVE, own.dur_ns), .has = is_own,
		.about = "Duration, of a single rank." },
	{ "type", TEXT_AT(COLLECTIVE, match.type), .always = true,
		.about = "What it does." },
	{ "how", ENUM_AT(COLLECTIVE, own.how, how_name), .has = is_own,
		WORDS("args", "launch", "name", "unknown"),
		.about = "How its type was found, as in `comm_resolution`." },
	{ NULL, FIELDS(group_record), .has = knows_group },
	{ "seq", GET(FIELD_ANY, get_seq),
		.about =
			"Sequence number within the group: an integer or null, of a single rank the text." },
	{ "ranks", EACH(each_rank, record_integers), .has = is_match,
		.about = "Ranks that took part." },
	{ "first_rank", INTEGER_AT(COLLECTIVE, match.first_rank), .has = is_match,
		.about = "The rank that began first." },
	{ "last_rank", INTEGER_AT(COLLECTIVE, match.last_rank), .has = is_match,
		.about = "The rank that began last." },
	{ "start_skew_ns", NS_AT(COLLECTIVE, match.start_skew_ns), .has = is_match,
		.about = "From the first start to the last." },
	{ "end_skew_ns", NS_AT(COLLECTIVE, match.end_skew_ns), .has = is_match,
		.about = "From the first end to the last." },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns), .has = is_match,
		.about = "The shortest duration of all ranks: the time of moving data." },
	{ "max_dur_ns", NS_AT(COLLECTIVE, match.max_dur_ns), .has = is_match,
		.about = "The longest duration of all ranks." },
	{ "bytes", INTEGER_AT(COLLECTIVE, match.bytes),
		.about =
			"Bytes of the output of an all-gather, of the input of others." },
	{ "group_size", INTEGER_AT(COLLECTIVE, match.group_size),
		.about = "Number of ranks of the group." },
	{ "algbw_GBps", NUMBER_AT(COLLECTIVE, algbw), .has = has_algbw,
		.about =
			"Bytes by time, in 10^9 bytes a second with six decimals: by `transfer_ns`, of a single rank by `dur_ns`." },
	{ "busbw_GBps", NUMBER_AT(COLLECTIVE, busbw), .has = has_busbw,
		.about = "The same for the bus." });

#define MATCHING struct fsdp_matching
static const struct record matching_record = OBJECT_RECORD(MATCHING, "matching",
	"How the collectives of ranks were matched.",
	{ "by", WORD_AT(MATCHING, by), .null = true, WORDS("seq", "group", "position"),
		.about = "By what; null for a single rank." },
	{ "stopped", INTEGER_AT(MATCHING, stopped), .null = true,
		.about = "Place from which on they could not be matched." },
	{ "straggler", INTEGER_AT(MATCHING, straggler), .null = true,
		.about =
			"The rank that waits least, so that the others wait for it; `cost` tells how much that is." },
	{ "left_out", COUNT_AT(MATCHING, left_out), .always = true,
		.about =
			"Number of collectives, of all ranks, without a process group or number to match them by." },
	{ "aligned", BOOL_AT(MATCHING, aligned), .always = true,
		.about =
			"False when the clocks of the ranks differ: then there are no waits and no straggler." });

/* ---- rows ---- */

/* For outputs that know nothing but rows: the table of --by. */
static void begin_rows(
	struct replay *replay, struct record_table *table, const struct record *record)
{
	static const struct table like = {
		.key = "types", .main = true, .rows_only = true
	};

	record_table_init(table, &like, record, replay);
	out_records_begin(replay->run->out, table);
}

struct separated_row {
	int64_t rank, step; /* FSDP_ABSENT: of all steps */
	struct fsdp_span type;
	struct fsdp_times times;
	uint64_t run;
};
#define ROW struct separated_row
static const struct record row_record = RECORD_OF(RECORD_OBJECT, ROW,
	{ "rank", INTEGER_AT(ROW, rank) }, { "step", INTEGER_AT(ROW, step) },
	{ "type", NAME_AT(ROW, type) }, { "count", COUNT_AT(ROW, times.count) },
	{ "sum_ns", NS_AT(ROW, times.sum_ns) }, { "min_ns", NS_AT(ROW, times.min_ns) },
	{ "p50_ns", NS_AT(ROW, times.p50_ns) }, { "p95_ns", NS_AT(ROW, times.p95_ns) },
	{ "max_ns", NS_AT(ROW, times.max_ns) }, { "run", COUNT_AT(ROW, run) });

/* Those of one recording, of each step too if they are wanted. */
static void rows_of_types(struct replay *replay, const struct record_table *table,
	const struct fsdp_recording *one, uint64_t run)
{
	bool regions = replay_shows_only(replay, "region");

	for (size_t j = 0; j < one->type_count; j++)
		if (!regions || replay_is_region(one->types[j].name))
			out_records_row(replay->run->out, table,
				&(struct separated_row){ one->rank, FSDP_ABSENT,
					one->types[j].name, one->types[j].times, run });
}

static void rows_of_step(struct replay *replay, const struct record_table *table,
	const struct fsdp_recording *one, int64_t step, const struct fsdp_tally *types,
	size_t count, uint64_t run)
{
	bool regions = replay_shows_only(replay, "region");

	for (size_t i = 0; i < count; i++) {
		struct fsdp_times times = { types[i].count, types[i].sum_ns, FSDP_ABSENT,
			FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, false };
		if (regions && !replay_is_region(types[i].name))
			continue;
		out_records_row(replay->run->out, table,
			&(struct separated_row){
				one->rank, step, types[i].name, times, run });
	}
}

/* What is of no step has rows where all rows are of steps. */
static void rows_of_steps(struct replay *replay, const struct record_table *table,
	const struct fsdp_recording *one, uint64_t run)
{
	for (size_t j = 0; j < one->step_count; j++)
		rows_of_step(replay, table, one, one->steps[j].step, one->steps[j].types,
			one->steps[j].type_count, run);
	if (replay_shows_only(replay, "step"))
		rows_of_step(replay, table, one, FSDP_ABSENT, one->outside,
			one->outside_count, run);
}

static void put_rows_of_types(struct replay *replay)
{
	struct record_table table;
	struct ranked one = { .run = 1 };

	begin_rows(replay, &table, &row_record);
	for (size_t i = 0; i < replay->count; i++) {
		one.run = run_of(replay, replay_by_rank(replay, i));
		one.recording = *replay_by_rank(replay, i);
		if (!replay_shows_only(replay, "step"))
			rows_of_types(replay, &table, &one.recording, one.run);
		if (!replay_shows_only(replay, "type"))
			rows_of_steps(replay, &table, &one.recording, one.run);
	}
	out_table_end(replay->run->out);
}

static struct value get_all(struct subject of)
{
	const struct fsdp_type_times *all =
		replay_type_of(of.object, span_of_text(text_of("all")));

	return all != NULL ? value_ns(all->times.sum_ns) : value_absent();
}

static bool has_waits(struct subject of)
{
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(recordings_of(of));

	return matching->by != NULL && matching->aligned;
}

/* As the text has them, under the names of json. */
static const struct record rank_row_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "rank", INTEGER_AT(RECORDING, rank) }, { "input", SIZE_AT(RECORDING, input) },
	{ "all_ns", GET(FIELD_NS, get_all) },
	{ "comm_busy_ns", NS_AT(RECORDING, device.comm_busy_ns), .has = has_device },
	{ "exposed_ns", NS_AT(RECORDING, device.exposed_ns), .has = has_device },
	{ "overlap_ns", NS_AT(RECORDING, device.overlap_ns), .has = has_device },
	{ "compute_busy_ns", NS_AT(RECORDING, device.compute_busy_ns),
		.has = has_device },
	{ "idle_ns", NS_AT(RECORDING, device.idle_ns), .has = has_device },
	{ "host_comm_busy_ns", NS_AT(RECORDING, host_comm_busy_ns) },
	{ "wait_ns", NS_AT(RECORDING, wait_ns), .has = has_waits },
	{ "times_last", COUNT_AT(RECORDING, times_last), .has = has_waits });

static void put_rows_of_ranks(struct replay *replay)
{
	struct record_table table;

	begin_rows(replay, &table, &rank_row_record);
	for (size_t i = 0; i < replay->count; i++)
		out_records_row(replay->run->out, &table, replay_by_rank(replay, i));
	out_table_end(replay->run->out);
}

static const struct record collective_row_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "type", TEXT_AT(COLLECTIVE, match.type) },
	{ "group", GET(FIELD_TEXT, get_group) }, { "seq", GET(FIELD_ANY, get_seq) },
	{ "transfer_ns", NS_AT(COLLECTIVE, match.transfer_ns) },
	{ "start_skew_ns", NS_AT(COLLECTIVE, match.start_skew_ns), .has = is_match },
	{ "last_rank", INTEGER_AT(COLLECTIVE, match.last_rank), .has = is_match },
	{ "bytes", INTEGER_AT(COLLECTIVE, match.bytes) },
	{ "group_size", INTEGER_AT(COLLECTIVE, match.group_size) },
	{ "algbw_GBps", NUMBER_AT(COLLECTIVE, algbw), .has = has_algbw },
	{ "busbw_GBps", NUMBER_AT(COLLECTIVE, busbw), .has = has_busbw },
	{ "run", COUNT_AT(COLLECTIVE, run) });

static void put_rows_of_collectives(struct replay *replay)
{
	const struct subject of = { replay, replay };
	struct record_table table;
	struct collective one;

	begin_rows(replay, &table, &collective_row_record);
	for (size_t i = 0; each_collective(of, i, &one) != NULL; i++)
		out_records_row(replay->run->out, &table, &one);
	out_table_end(replay->run->out);
}

static void put_separated(struct replay *replay)
{
	if (replay_shows_only(replay, "rank"))
		put_rows_of_ranks(replay);
	else if (replay_shows_only(replay, "collective"))
		put_rows_of_collectives(replay);
	else if (replay_shows_only(replay, "unit"))
		replay_put_unit_rows(replay);
	else
		put_rows_of_types(replay);
}

/* ---- the cost of a step ---- */

struct run_cost {
	uint64_t run;
	struct replay_cost cost;
};

static const void *each_cost(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	struct run_cost *one = room;

	if (i == replay->run_count)
		return NULL;
	struct replay run = replay_run(replay, i);
	*one = (struct run_cost){ run.nth, replay_cost(&run) };
	return one;
}

static bool has_shares(struct subject of)
{
	return ((const struct run_cost *)of.object)->cost.has_device;
}

static bool has_straggler(struct subject of)
{
	return ((const struct run_cost *)of.object)->cost.straggler != FSDP_ABSENT;
}

static bool has_cause(struct subject of)
{
	return ((const struct run_cost *)of.object)->cost.cause != STRAGGLER_UNKNOWN;
}

static const char *cause_name(unsigned cause)
{
	return straggler_cause_name(cause);
}

#define COST struct run_cost
static const struct record cost_record = OBJECT_RECORD(COST, "cost",
	"What a step costs: means over all ranks and steps.", RUN_ROW(COST, run),
	{ "steps", COUNT_AT(COST, cost.steps), .always = true,
		.about = "Number of steps of all ranks; without steps, of recordings." },
	{ "mean_ns", NS_AT(COST, cost.mean_ns), .null = true,
		.about = "How long a step is." },
	{ "min_ns", NS_AT(COST, cost.min_ns), .null = true,
		.about = "The shortest of them." },
	{ "max_ns", NS_AT(COST, cost.max_ns), .null = true,
		.about = "The longest of them." },
	{ "max_rank", INTEGER_AT(COST, cost.max_rank), .null = true,
		.about = "The rank that has the longest." },
	{ "compute_percent", NUMBER_AT(COST, cost.compute), .has = has_shares,
		.about = "Share of the time of devices in kernels that compute." },
	{ "exposed_percent", NUMBER_AT(COST, cost.exposed), .has = has_shares,
		.about = "Share in collectives while nothing computes." },
	{ "copies_percent", NUMBER_AT(COST, cost.copies), .has = has_shares,
		.about = "Share in copies and sets of memory alone." },
	{ "idle_percent", NUMBER_AT(COST, cost.idle), .has = has_shares,
		.about = "Share in which a device does nothing." },
	{ "straggler", INTEGER_AT(COST, cost.straggler), .has = has_straggler,
		.about =
			"The rank that waits least, if that costs the others 1 % or more." },
	{ "waiting_percent", NUMBER_AT(COST, cost.waiting), .has = has_straggler,
		.about = "Share of their time that the others wait for it." },
	{ "cause", ENUM_AT(COST, cost.cause, cause_name), .has = has_cause,
		WORDS("data loader", "host", "copies", "compute"),
		.about =
			"What it spends more time on than the others, where the recordings show it." });

/* ---- the answer ---- */

struct data {
	int64_t world_size;
	struct replay_collectives all;
	struct fsdp_timeline timeline;
	struct fsdp_matching matching;
};

static bool has_cells(struct subject of)
{
	return ((const struct data *)of.object)->timeline.cell_count != 0;
}

static bool is_by_unit(struct subject of)
{
	return replay_shows_only(of.context, "unit");
}

static bool is_compared(struct subject of)
{
	return ((const struct replay *)of.context)->baseline != NULL;
}

#define DATA struct data
static const struct record head_record = RECORD_OF(RECORD_OBJECT, DATA,
	{ "world_size", INTEGER_AT(DATA, world_size), .null = true,
		.about = "Number of ranks of the job." },
	COMM_ROWS(DATA, all.layer, all.by));
static const struct record rest_record = RECORD_OF(RECORD_OBJECT, DATA,
	{ "cost", EACH(each_cost, cost_record), .always = true,
		.about = "What a step costs, by run." },
	{ "ranks", EACH(each_ranked, rank_record), .always = true,
		.about = "The recordings, by rank." },
	{ "timeline", OBJECT_AT(DATA, timeline, timeline_record), .has = has_cells,
		.about =
			"With `--timeline`, where there is one: the cells in the `timeline` of each rank." },
	{ "steps", EACH(each_step, step_record), .always = true,
		.about = "Steps, by rank, then number." },
	{ "matching", OBJECT_AT(DATA, matching, matching_record), .always = true },
	{ "collectives", EACH(each_collective, collective_record), .always = true,
		.about =
			"Of several ranks those that were matched, else those of the one." },
	{ NULL, FIELDS(replay_units), .has = is_by_unit },
	{ "dumps", EACH(each_dump, dump_record), .always = true,
		.about = "What `SimpleProfiler` printed, or would have." },
	{ "problems", EACH(each_problem, problem_record), .always = true,
		.about = "Uses of `SimpleProfiler` that PyTorch refuses." },
	{ "compare", OBJECT(compare_record), .has = is_compared });
static bool asks_memory(struct subject of)
{
	return ((const struct replay *)of.context)->options->memory;
}

static bool asks_growth(struct subject of)
{
	return asks_memory(of) &&
	       ((const struct replay *)of.context)->options->compare != NULL;
}

static bool asks_times(struct subject of)
{
	return !asks_memory(of);
}

static const struct record times_record = RECORD_OF(RECORD_OBJECT, DATA,
	{ NULL, FIELDS(head_record) },
	{ "types", ITEMS(type_record), .always = true,
		.about =
			"By type, in the order of reports; the six of `SimpleProfiler` always." },
	{ NULL, FIELDS(rest_record) });

const struct record replay_answer = OBJECT_RECORD(DATA, NULL,
	"The answer. All times are whole nanoseconds.",
	{ NULL, FIELDS(times_record), .has = asks_times },
	{ "memory", ROWS(replay_memory_record), .has = asks_memory,
		.about = "With `--memory`, and nothing else: by rank and device." },
	{ "growth", ROWS(memory_growth_record), .has = asks_growth,
		.about = "With `--memory` and `--compare`: how each device changed." });

void replay_put_data(struct replay *replay)
{
	struct data data = { FSDP_ABSENT, replay_collectives(replay),
		*fsdp_recordings_timeline(replay->recordings),
		*fsdp_recordings_matching(replay->recordings) };
	const struct subject of = { replay, &data };

	for (size_t i = 0; i < replay->count && data.world_size == FSDP_ABSENT; i++)
		data.world_size = replay_by_rank(replay, i)->world_size;
	out_fields(replay->run->out, &head_record, of);
	put_types(replay);
	put_separated(replay);
	out_fields(replay->run->out, &rest_record, of);
}
