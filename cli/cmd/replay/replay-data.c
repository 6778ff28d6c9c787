/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` says to programs: the document, in nanoseconds.
 */
#include "cmd/replay/comparison.h"
#include "cmd/replay/replay-data.h"

/* ---- recordings ---- */

static const char *layer_name(unsigned layer)
{
	return layer == FSDP_LAYER_DEVICE ? "device"
	       : layer == FSDP_LAYER_HOST ? "host"
					  : "none";
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
	return i < fsdp_recordings_timeline(replay_recordings_of(of))->cell_count
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
		.about = "Number of events that are not counted." },
	{ "launches", COUNT_AT(RECORDING, launches),
		.about = "Number of calls like `cudaLaunchKernel`." },
	{ "launches_without_kernel", COUNT_AT(RECORDING, launches_without_work),
		.about =
			"Number of these of which no kernel is recorded: the profiler lost it, or it was captured into a CUDA graph." });
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
	{ "device", OBJECT_AT(RECORDING, device, device_record), .has = replay_has_device,
		.null = true,
		.about = "Times of the device; null without events of one." },
	{ "base", OBJECT_AT(RECORDING, base, device_record), .has = replay_has_device,
		.null = true,
		.about =
			"The same within the steps, without steps within the whole recording: shares are of this." },
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

static const void *each_ranked(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	struct ranked *one = room;

	if (i == replay->count)
		return NULL;
	one->run = replay_run_of(replay, replay_by_rank(replay, i));
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
static bool has_step_host(struct subject of)
{
	return ((const struct ranked_step *)of.object)->step.step != FSDP_ABSENT;
}

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
	{ "allocator", MAP_AT(STEP, step.allocs, step.alloc_count, tally_record),
		.has = has_step_host,
		.about =
			"By name, the calls on the host that allocate or free memory, such as `cudaMalloc`; absent in what is of no step." },
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

static bool has_waits(struct subject of)
{
	return ((const struct run_cost *)of.object)->cost.waits;
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
			"The rank that waits less than half of what the others wait, if that costs them 1 % of their time or more." },
	{ "waiting_percent", NUMBER_AT(COST, cost.waiting), .has = has_waits,
		.about =
			"Share of their time that the others wait for the straggler beyond its own waits; without a straggler, that the ranks wait for each other." },
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

static bool is_by_group(struct subject of)
{
	return replay_shows_only(of.context, "group");
}

static bool is_by_kernel(struct subject of)
{
	return replay_shows_only(of.context, "kernel");
}

static bool is_by_idle(struct subject of)
{
	return replay_shows_only(of.context, "idle");
}

static bool is_compared(struct subject of)
{
	return ((const struct replay *)of.context)->baseline != NULL;
}

static bool is_compared_with_recordings(struct subject of)
{
	return ((const struct replay *)of.context)->comparison != NULL;
}

static const void *find_comparison(struct subject of, size_t i, void *room)
{
	(void)i;
	(void)room;
	return ((const struct replay *)of.context)->comparison;
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
	{ "matching", OBJECT_AT(DATA, matching, replay_matching_record), .always = true },
	{ "collectives", EACH(replay_each_collective, replay_collective_record),
		.always = true,
		.about =
			"Of several ranks those that were matched, else those of the one." },
	{ NULL, FIELDS(replay_units), .has = is_by_unit },
	{ NULL, FIELDS(replay_groups), .has = is_by_group },
	{ NULL, FIELDS(replay_kernels), .has = is_by_kernel },
	{ NULL, FIELDS(replay_idles), .has = is_by_idle },
	{ "dumps", EACH(each_dump, dump_record), .always = true,
		.about = "What `SimpleProfiler` printed, or would have." },
	{ "problems", EACH(each_problem, problem_record), .always = true,
		.about = "Uses of `SimpleProfiler` that PyTorch refuses." },
	{ "compare", OBJECT(compare_record), .has = is_compared },
	{ "comparison", .type = FIELD_OBJECT, .by = BY_EACH, .each = find_comparison,
		.of = &comparison_record, .has = is_compared_with_recordings });
static bool asks_memory(struct subject of)
{
	return ((const struct replay *)of.context)->options->memory;
}

static bool asks_growth(struct subject of)
{
	return asks_memory(of) &&
	       ((const struct replay *)of.context)->options->compare.count != 0;
}

static bool asks_moments(struct subject of)
{
	return asks_memory(of) &&
	       ((const struct replay *)of.context)->options->timeline > 0;
}

static bool asks_times(struct subject of)
{
	return !asks_memory(of);
}

static const struct record times_record = RECORD_OF(RECORD_OBJECT, DATA,
	{ NULL, FIELDS(head_record) },
	{ "types", ITEMS(replay_type_record), .always = true,
		.about =
			"By type, in the order of reports; the six of `SimpleProfiler` always." },
	{ NULL, FIELDS(rest_record) });

const struct record replay_answer = OBJECT_RECORD(DATA, NULL,
	"The answer. All times are whole nanoseconds.",
	{ NULL, FIELDS(times_record), .has = asks_times },
	{ "memory", ROWS(replay_memory_record), .has = asks_memory,
		.about = "With `--memory`, and nothing else: by rank and device." },
	{ "memory_timeline", ROWS(memory_moment_record), .has = asks_moments,
		.about =
			"With `--memory` and `--timeline`: by device, spans of its history." },
	{ "growth", ROWS(memory_growth_record), .has = asks_growth,
		.about = "With `--memory` and `--compare`: how each device changed." });

bool replay_put_data(struct replay *replay)
{
	bool good;

	struct data data = { FSDP_ABSENT, replay_collectives(replay),
		*fsdp_recordings_timeline(replay->recordings),
		*fsdp_recordings_matching(replay->recordings) };
	const struct subject of = { replay, &data };

	for (size_t i = 0; i < replay->count && data.world_size == FSDP_ABSENT; i++)
		data.world_size = replay_by_rank(replay, i)->world_size;
	out_fields(replay->run->out, &head_record, of);
	replay_put_types(replay);
	good = replay_put_rows(replay);
	out_fields(replay->run->out, &rest_record, of);
	return good;
}
