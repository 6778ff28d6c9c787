/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of `replay` for programs: the document, in nanoseconds. What all answers ask
 * of recordings.
 */
#include <inttypes.h>
#include <string.h>

#include "commands/replay/replay.h"
#include "session/diagnostics.h"

/* ---- what all answers ask of recordings ---- */

struct replay replay_run(const struct replay *replay, size_t nth)
{
	struct replay run = *replay;

	run.recordings = fsdp_recordings_run(replay->recordings, nth);
	run.summary = fsdp_recordings_summary(run.recordings);
	run.totals = fsdp_recordings_totals(run.recordings);
	run.count = fsdp_recording_count(run.recordings);
	run.nth = nth + 1;
	return run;
}

bool replay_shows_only(const struct replay *replay, const char *table)
{
	return replay->options->by != NULL && strcmp(replay->options->by, table) == 0;
}

void replay_show_advice(const struct replay *run, const struct fsdp_loss *loss)
{
	if (loss->sentence[0] != '\0' && strcmp(run->options->advice, "no") != 0)
		out_line(run->run->out, NULL, "%s", loss->sentence);
}

/* ---- recordings ---- */

static const char *layer_name(unsigned layer)
{
	return layer == FSDP_LAYER_DEVICE ? "device"
	       : layer == FSDP_LAYER_HOST ? "host"
					  : "none";
}

#define BY(how) .type = FIELD_COUNT, .at = (how) * sizeof(uint64_t), .always = true
static const struct record resolution_record = OBJECT_RECORD(uint64_t[FSDP_BY_COUNT],
	"resolution", "Sources of the types of collectives.",
	{ "args", BY(FSDP_BY_ARGS),
		ABOUT("Number of those found by the arguments of their kernels.") },
	{ "launch", BY(FSDP_BY_LAUNCH),
		ABOUT("By the annotation that encloses their launch.") },
	{ "name", BY(FSDP_BY_NAME), ABOUT("By the names of their kernels.") },
	{ "unknown", BY(FSDP_BY_NONE), ABOUT("Not found.") });

#define COMM_ROWS(from, layer, counts)                                           \
	{ "comm_layer", ENUM_AT(from, layer, layer_name),                        \
		WORDS("device", "host", "none"),                                 \
		ALWAYS("Number of collectives by source, each counted once.") }, \
	{                                                                        \
		"comm_resolution", OBJECT_AT(from, counts, resolution_record),   \
			.always = true                                           \
	}

#define DEVICE struct fsdp_device_times
static const struct record device_record = OBJECT_RECORD(DEVICE, "device",
	"Busy times of the device.",
	{ "span_ns", NS_AT(DEVICE, span_ns),
		ALWAYS("From the first start to the last end on the device.") },
	{ "busy_ns", NS_AT(DEVICE, busy_ns), ALWAYS("Busy with anything.") },
	{ "idle_ns", NS_AT(DEVICE, idle_ns), ALWAYS("Busy with nothing.") },
	{ "comm_busy_ns", NS_AT(DEVICE, comm_busy_ns), ALWAYS("Busy with collectives.") },
	{ "compute_busy_ns", NS_AT(DEVICE, compute_busy_ns),
		ALWAYS("Busy with kernels that compute.") },
	{ "mem_busy_ns", NS_AT(DEVICE, mem_busy_ns),
		ALWAYS("Busy with copying or setting memory.") },
	{ "overlap_ns", NS_AT(DEVICE, overlap_ns),
		ALWAYS("Busy with collectives and with kernels that compute at once.") },
	{ "exposed_ns", NS_AT(DEVICE, exposed_ns),
		OR_NULL("Busy with collectives and with no kernel that computes; null where only the host has collectives.") });

#define TALLY struct fsdp_tally
static const struct record count_record = RECORD_OF(RECORD_OBJECT, TALLY,
	{ NULL, TEXT_AT(TALLY, name) }, { NULL, COUNT_AT(TALLY, count) });
static const struct record tally_record =
	RECORD_OF(RECORD_OBJECT, TALLY, { NULL, TEXT_AT(TALLY, name) },
		{ "count", COUNT_AT(TALLY, count), ALWAYS("Number of calls.") },
		{ "sum_ns", NS_AT(TALLY, sum_ns), ALWAYS("Total time.") });

#define RECORDING struct fsdp_recording
HAS(is_trace, RECORDING, one->kind == FSDP_RECORDING_KINETO)
HAS(is_no_trace, RECORDING, one->kind != FSDP_RECORDING_KINETO)
HAS(is_profile, RECORDING, one->kind == FSDP_RECORDING_PROFILE)
static const void *each_cell(struct subject of, size_t i, void *room)
{
	(void)room;
	return i < ((const struct replay *)of.context)->summary->timeline.cell_count
		       ? &((const RECORDING *)of.object)->timeline[i]
		       : NULL;
}

#define RESULT struct fsdp_dump_result
static const struct record result_record = NAMED_RECORD(RECORD_TUPLE, RESULT, NULL,
	"A type and its time; null where the log has inf or nan.",
	{ NULL, TEXT_AT(RESULT, type) }, { NULL, NS_AT(RESULT, ns), .null = true });

static const struct record root_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "root", WORD_AT(RECORDING, root), WORDS("object", "list"),
		ABOUT("Form of the trace: a JSON object, or a list of events.") },
	{ "backend", TEXT_AT(RECORDING, backend),
		OR_NULL("Backend of the collectives.") });
static const struct record events_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "events", COUNT_AT(RECORDING, events),
		ABOUT("Number of events that are counted.") },
	{ "recovered", COUNT_AT(RECORDING, recovered),
		ABOUT("Number of these that are counted although something in them is not JSON.") },
	{ "dropped", COUNT_AT(RECORDING, dropped),
		ABOUT("Number of events that are not counted.") },
	{ "launches", COUNT_AT(RECORDING, launches),
		ABOUT("Number of calls like `cudaLaunchKernel`.") },
	{ "launches_without_kernel", COUNT_AT(RECORDING, launches_without_work),
		ABOUT("Number of these whose kernel is not recorded: the profiler lost it, or it was captured into a CUDA graph.") });
static const struct record simple_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "debug_level", TEXT_AT(RECORDING, debug_level),
		OR_NULL("Value of `TORCH_DISTRIBUTED_DEBUG`.") },
	{ "residual", LIST_AT(RECORDING, residual, residual_count, result_record),
		ABOUT("Types that were never dumped.") },
	{ "still_open", LIST_AT(RECORDING, still_open, still_open_count, record_texts),
		ABOUT("Types of regions that did not end.") },
	{ "skipped", COUNT_AT(RECORDING, skipped),
		ABOUT("Number of lines of an unknown kind.") });
static const struct record trace_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "deviations", MAP_AT(RECORDING, deviations, deviation_count, count_record),
		ABOUT("Counts of invalid JSON by kind.") },
	{ "trailing_data_at", INTEGER_AT(RECORDING, trailing_data_at),
		OR_NULL("Offset of bytes after the end; null for none.") },
	{ "bad_dur", COUNT_AT(RECORDING, bad_dur),
		ABOUT("Number of events without usable times.") },
	{ "unpaired", COUNT_AT(RECORDING, unpaired),
		ABOUT("Number of begins without an end, and ends without a begin.") },
	{ "base_ns", NS_AT(RECORDING, base_ns),
		OR_NULL("Origin of the times of events.") },
	{ "phases", MAP_AT(RECORDING, phases, phase_count, count_record),
		ABOUT("Number of events, by `ph`.") },
	{ "categories", MAP_AT(RECORDING, categories, category_count, tally_record),
		ABOUT("Spans, by `cat`.") },
	{ "all_source", WORD_AT(RECORDING, all_source),
		WORDS("ProfilerStep", "span", "none"),
		ABOUT("Components of the type `all`.") },
	COMM_ROWS(RECORDING, layer, resolution),
	{ "first_ts_ns", NS_AT(RECORDING, first_ts_ns), OR_NULL("The first start.") },
	{ "last_end_ns", NS_AT(RECORDING, last_end_ns), OR_NULL("The last end.") },
	{ "device", OBJECT_AT(RECORDING, device, device_record),
		IF_SET(RECORDING, has_device),
		OR_NULL("Times of the device; null without events of one.") },
	{ "base", OBJECT_AT(RECORDING, base, device_record),
		IF_SET(RECORDING, has_device),
		OR_NULL("The same within the steps, without steps within the full recording: shares refer to this.") },
	{ "host_comm_busy_ns", NS_AT(RECORDING, host_comm_busy_ns),
		ABOUT("Time the host was busy with collectives; absent where the device has them.") },
	{ "wait_ns", NS_AT(RECORDING, wait_ns),
		ABOUT("Time it waited for the last rank of each collective.") },
	{ "times_last", COUNT_AT(RECORDING, times_last),
		ABOUT("Number of collectives that it entered last.") });

static const struct record recording_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "kind", ENUM_AT(RECORDING, kind, fsdp_recording_kind_name),
		WORDS("kineto", "simple_profiler", "log"),
		ALWAYS("Inputs that were read.") },
	{ NULL, FIELDS(root_record), .has = is_trace },
	{ "world_size", INTEGER_AT(RECORDING, world_size),
		OR_NULL("Number of ranks of the job, as this recording has it.") },
	{ NULL, FIELDS(events_record), .has = is_trace },
	{ NULL, FIELDS(simple_record), .has = is_profile },
	{ "truncated", BOOL_AT(RECORDING, truncated),
		ALWAYS("True if it is truncated.") },
	{ "interrupted", BOOL_AT(RECORDING, interrupted), IF_SET(RECORDING, interrupted),
		ABOUT("True when a signal ended the reading of it.") },
	{ NULL, FIELDS(trace_record), .has = is_trace },
	{ "bad_lines", LIST_AT(RECORDING, bad_lines, bad_line_count, record_counts),
		.has = is_no_trace, ABOUT("Numbers of lines that cannot be read.") },
	{ "timeline", EACH(each_cell, record_texts_or_null), IF_SET(RECORDING, timeline),
		ABOUT("With `--timeline`: the type that fills most of each cell, or `idle`; null if unknown.") });

static const struct record rank_record = OBJECT_RECORD(RECORDING, "rank",
	"One recording.", { "rank", INTEGER_AT(RECORDING, rank), ALWAYS("Its rank.") },
	{ "rank_from", ENUM_AT(RECORDING, rank_from, fsdp_rank_source_name),
		WORDS("distributedInfo", "rank-regex", "name", "position"),
		ALWAYS("Source of the rank.") },
	{ "input", SIZE_AT(RECORDING, input), ALWAYS("`id` of the input.") },
	RUN_ROW(RECORDING, run, FOR_PROGRAMS), { NULL, FIELDS(recording_record) });

static const void *each_ranked(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;

	(void)room;
	return i < replay->count ? fsdp_recording_by_rank(replay->recordings, i) : NULL;
}

#define TIMELINE struct fsdp_timeline
static const struct record timeline_record = RECORD_OF(RECORD_OBJECT, TIMELINE,
	{ "begin_ns", NS_AT(TIMELINE, begin_ns),
		OR_NULL("Start of the first cell; null: each rank has its own start.") },
	{ "cell_ns", NS_AT(TIMELINE, cell_ns), ALWAYS("Length of a cell.") },
	{ "cells", SIZE_AT(TIMELINE, cell_count), ALWAYS("Number of cells.") });

/* ---- lists that each recording has ---- */

/* An element of one of them, by rank. */
struct ranked {
	size_t nth, at; /* recording by rank, and place in its list */
	int64_t rank;
	uint64_t input, run;
	union {
		struct fsdp_step step;
		struct fsdp_dump dump;
		struct fsdp_profile_problem problem;
	};
};
_Static_assert(sizeof(struct ranked) <= RECORD_ROOM, "room for one");

/* The next of those at `items`, so many as at `count`. outside: what is of no step comes
 * after the steps. */
static const void *each_ranked_in(struct subject of, size_t i, struct ranked *one,
	size_t items, size_t count, size_t size, bool outside)
{
	const struct fsdp_recording *from;
	const char *list;

	if (i == 0)
		*one = (struct ranked){ 0 };
	else
		one->at++;
	for (; (from = fsdp_recording_by_rank(
			((const struct replay *)of.context)->recordings, one->nth)) !=
		NULL;
		one->nth++, one->at = 0) {
		size_t listed = *(const size_t *)((const char *)from + count);

		if (one->at == listed + (outside && from->outside_count != 0))
			continue;
		one->rank = from->rank;
		one->input = from->input;
		one->run = from->run;
		memcpy(&list, (const char *)from + items, sizeof list);
		if (one->at < listed)
			memcpy(&one->step, list + one->at * size, size);
		else
			one->step = (struct fsdp_step){ .step = FSDP_ABSENT,
				.ts_ns = FSDP_ABSENT,
				.dur_ns = FSDP_ABSENT,
				.types = from->outside,
				.type_count = from->outside_count };
		return one;
	}
	return NULL;
}

#define EACH_RANKED(name, items, count, outside)                                     \
	static const void *name(struct subject of, size_t i, void *room)             \
	{                                                                            \
		return each_ranked_in(of, i, room, offsetof(RECORDING, items),       \
			offsetof(RECORDING, count), sizeof *((RECORDING *)0)->items, \
			outside);                                                    \
	}
EACH_RANKED(each_step, steps, step_count, true)
EACH_RANKED(each_dump, dumps, dump_count, false)
EACH_RANKED(each_problem, problems, problem_count, false)

#define RANKED struct ranked
HAS(has_step_host, RANKED, one->step.step != FSDP_ABSENT)
static const struct record step_record = OBJECT_RECORD(RANKED, "step",
	"One `ProfilerStep`.",
	{ "step", INTEGER_AT(RANKED, step.step),
		OR_NULL("Its number; null for what is of no step. Of that the times below are null.") },
	{ "rank", INTEGER_AT(RANKED, rank), ALWAYS("Its rank.") },
	{ "input", COUNT_AT(RANKED, input), ALWAYS("`id` of its input.") },
	RUN_ROW(RANKED, run, FOR_PROGRAMS),
	{ "ts_ns", NS_AT(RANKED, step.ts_ns), OR_NULL("Its start.") },
	{ "dur_ns", NS_AT(RANKED, step.dur_ns), OR_NULL("Length.") },
	{ "device", OBJECT_AT(RANKED, step.device, device_record),
		IF_SET(RANKED, step.has_device),
		ABOUT("Times of the device from the first to the last work that was launched in it.") },
	{ "allocator", MAP_AT(RANKED, step.allocs, step.alloc_count, tally_record),
		.has = has_step_host,
		ABOUT("By name, the calls on the host that allocate or free memory, such as `cudaMalloc`; absent in what is of no step.") },
	{ "types", MAP_AT(RANKED, step.types, step.type_count, tally_record),
		ALWAYS("By type, what the device does that was launched in it, and what the host began in it.") });

static const struct record dump_record = OBJECT_RECORD(RANKED, "dump",
	"A dump of `SimpleProfiler`.",
	{ "rank", INTEGER_AT(RANKED, rank), ALWAYS("Its rank.") },
	{ "line", COUNT_AT(RANKED, dump.line), ALWAYS("Its line.") },
	{ "msg", TEXT_AT(RANKED, dump.msg), OR_NULL("Text before the results.") },
	{ "emitted", BOOL_AT(RANKED, dump.emitted),
		ALWAYS("True when PyTorch printed it.") },
	{ "results", LIST_AT(RANKED, dump.results, dump.result_count, result_record),
		ALWAYS("In PyTorch's order.") },
	{ "log_message", TEXT_AT(RANKED, dump.log_message),
		OR_NULL("The line that PyTorch prints.") });

static const struct record problem_record = OBJECT_RECORD(RANKED, "problem",
	"A use of `SimpleProfiler` that PyTorch refuses.",
	{ "input", COUNT_AT(RANKED, input), ALWAYS("`id` of its input.") },
	{ "rank", INTEGER_AT(RANKED, rank), ALWAYS("Its rank.") },
	{ "line", COUNT_AT(RANKED, problem.line), ALWAYS("Its line.") },
	{ "kind", WORD_AT(RANKED, problem.kind),
		WORDS("reentry", "end_without_begin", "end_after_reset"),
		ALWAYS("The problem.") },
	{ "type", TEXT_AT(RANKED, problem.type), ALWAYS("The type that is used.") },
	{ "message", WORD_AT(RANKED, problem.message), ALWAYS("Reaction of PyTorch.") });

/* ---- the cost of a step ---- */

#define COST struct replay_cost
HAS(has_straggler, COST, one->cost.straggler != FSDP_ABSENT)
HAS(has_size, COST, one->loss.percent > 0)
HAS(has_exposed, COST, one->cost.has_device && !one->cost.comm_on_host)
static const struct record loss_record = OBJECT_RECORD(COST, "loss",
	"Largest loss of time.",
	{ "kind", WORD_AT(COST, loss.kind),
		WORDS("waiting", "data_loader", "copies", "idle", "exposed", "none"),
		ALWAYS("`waiting` for other ranks, `exposed` communication; `none`: no loss of 5 % or more.") },
	{ "rank", INTEGER_AT(COST, loss.rank),
		ABOUT("The rank that the others wait for.") },
	{ "percent", NUMBER_AT(COST, loss.percent), .has = has_size,
		ABOUT("Share of the time.") },
	{ "sentence", CHARS_AT(COST, loss.sentence),
		ALWAYS("Meaning of the last line of the text.") });
static const struct record cost_record = OBJECT_RECORD(COST, "cost",
	"Cost of a step: means over all ranks and steps.",
	RUN_ROW(COST, run, FOR_PROGRAMS),
	{ "steps", COUNT_AT(COST, cost.steps),
		ALWAYS("Number of steps of all ranks; without steps, of recordings.") },
	{ "mean_ns", NS_AT(COST, cost.mean_ns), OR_NULL("Mean length of a step.") },
	{ "min_ns", NS_AT(COST, cost.min_ns), OR_NULL("The shortest of them.") },
	{ "max_ns", NS_AT(COST, cost.max_ns), OR_NULL("The longest of them.") },
	{ "max_rank", INTEGER_AT(COST, cost.max_rank),
		OR_NULL("The rank that has the longest.") },
	{ "compute_percent", NUMBER_AT(COST, cost.compute), IF_SET(COST, cost.has_device),
		ABOUT("Share of the time of devices in kernels that compute.") },
	{ "exposed_percent", NUMBER_AT(COST, cost.exposed), .has = has_exposed,
		ABOUT("Share in collectives while nothing computes; absent where only the host has them.") },
	{ "copies_percent", NUMBER_AT(COST, cost.copies), IF_SET(COST, cost.has_device),
		ABOUT("Share in copies and sets of memory alone.") },
	{ "idle_percent", NUMBER_AT(COST, cost.idle), IF_SET(COST, cost.has_device),
		ABOUT("Share in which a device does nothing.") },
	{ "straggler", INTEGER_AT(COST, cost.straggler), .has = has_straggler,
		ABOUT("The rank that waits less than half of what the others wait, if that costs them 1 % of their time or more.") },
	{ "waiting_percent", NUMBER_AT(COST, cost.waiting), IF_SET(COST, cost.waits),
		ABOUT("Share of their time that the others wait for the straggler beyond its own waits; without a straggler, that the ranks wait for each other.") },
	{ "cause", ENUM_AT(COST, cost.cause, fsdp_straggler_cause_name),
		WORDS("data loader", "host", "copies", "compute"),
		ABOUT("Activity that takes it longer than the others, if the recordings show it.") },
	{ "loss", OBJECT(loss_record), IF_SET(COST, loss.kind),
		ABOUT("Absent where losses are not known, and with `--advice=no`.") });

/* ---- the answer ---- */

#define MATCHING struct fsdp_matching
static const struct record matching_record = OBJECT_RECORD(MATCHING, "matching",
	"Matching of the collectives of ranks.",
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

#define ANSWER struct replay
HAS(is_by_unit, ANSWER, replay_shows_only(one, "unit"))
HAS(has_times_option, ANSWER, !one->options->memory)
HAS(has_memory_option, ANSWER, one->options->memory)

#define SUMMARY struct fsdp_summary
static const struct record axis_record = RECORD_OF(RECORD_OBJECT, SUMMARY,
	{ "timeline", OBJECT_AT(SUMMARY, timeline, timeline_record),
		IF_SET(SUMMARY, timeline.cell_count),
		ABOUT("With `--timeline`, where there is one: the cells in the `timeline` of each rank.") });
static const struct record matched_record = RECORD_OF(RECORD_OBJECT, SUMMARY,
	{ "matching", OBJECT_AT(SUMMARY, matching, matching_record), .always = true });

static const struct record times_record = RECORD_OF(RECORD_OBJECT, ANSWER,
	{ "world_size", INTEGER_AT(ANSWER, totals.world_size),
		OR_NULL("Number of ranks of the job.") },
	COMM_ROWS(ANSWER, totals.layer, totals.resolution),
	{ "types", ITEMS_AT(ANSWER, types, type_count, replay_type_record),
		ALWAYS("By type, in the order of reports; the six of `SimpleProfiler` always.") },
	{ "cost", LIST_AT(ANSWER, costs, run_count, cost_record),
		ALWAYS("Cost of a step, by run.") },
	{ "ranks", EACH(each_ranked, rank_record), ALWAYS("The recordings, by rank.") },
	{ NULL, POINTED_AT(ANSWER, summary, axis_record) },
	{ "steps", EACH(each_step, step_record), ALWAYS("Steps, by rank, then number.") },
	{ NULL, POINTED_AT(ANSWER, summary, matched_record), .always = true },
	{ "collectives", EACH(replay_each_collective, replay_collective_record),
		ALWAYS("Of several ranks those that were matched, else those of the one.") },
	{ NULL, FIELDS(replay_units), .has = is_by_unit },
	{ NULL, FIELDS(replay_sums_record) },
	{ "dumps", EACH(each_dump, dump_record),
		ALWAYS("Output of `SimpleProfiler`, printed or computed.") },
	{ "problems", EACH(each_problem, problem_record),
		ALWAYS("Uses of `SimpleProfiler` that PyTorch refuses.") },
	{ "compare", OBJECT(compare_record), IF_SET(ANSWER, baseline) },
	{ "comparison", OBJECT_AT(ANSWER, comparison, comparison_record),
		IF_SET(ANSWER, before) });

const struct record replay_answer =
	OBJECT_RECORD(ANSWER, NULL, "The answer. All times are whole nanoseconds.",
		{ NULL, FIELDS(times_record), .has = has_times_option },
		{ NULL, FIELDS(replay_snapshots_record), .has = has_memory_option });

void replay_put_data(struct replay *replay)
{
	out_fields(replay->run->out, &times_record, (struct subject){ replay, replay });
	replay_put_rows(replay);
}
