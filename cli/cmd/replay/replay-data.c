/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` tells machines: the document, and one row for each rank, step and type;
 * in nanoseconds.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay.h"
#include "render/record.h"

/* Of a type that was not called the rest is null. */
static struct value get_sum(struct subject of)
{
	const struct fsdp_times *times = of.object;

	return value_known(times->count == 0 ? 0 : times->sum_ns);
}

#define TIMES struct fsdp_times
static const struct record times_record = RECORD_OF(RECORD_OBJECT, TIMES,
	{ "count", COUNT_AT(TIMES, count) }, { "sum_ns", GET(FIELD_NS, get_sum) },
	{ "min_ns", NS_AT(TIMES, min_ns), .null = true },
	{ "p50_ns", NS_AT(TIMES, p50_ns), .null = true },
	{ "p95_ns", NS_AT(TIMES, p95_ns), .null = true },
	{ "max_ns", NS_AT(TIMES, max_ns), .null = true },
	{ "approx", BOOL_AT(TIMES, approx) });

static void put_type(
	struct replay *replay, struct fsdp_span name, const struct fsdp_times *times)
{
	struct out *out = replay->run->out;

	out_object_begin(out, NULL);
	out_field(out, "type", value_text(text_of_span(name)));
	out_fields(out, &times_record, (struct subject){ NULL, times });
	out_array_begin(out, "ranks");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		const struct fsdp_type_times *type = replay_type_of(one, name);
		if (type == NULL)
			continue;
		out_object_begin(out, NULL);
		out_field(out, "rank", value_integer(one->rank));
		out_field(out, "count", value_count(type->times.count));
		out_field(out, "sum_ns", value_known(type->times.sum_ns));
		out_object_end(out);
	}
	out_array_end(out);
	out_object_end(out);
}

static void put_absent(struct replay *replay, struct fsdp_span before, size_t *at)
{
	static const struct fsdp_times none = { 0, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT, false };
	const char *absent;

	while ((absent = replay_next_absent(replay, before, at)) != NULL)
		put_type(replay, span_of_text(text_of(absent)), &none);
}

static void put_types(struct replay *replay)
{
	struct out *out = replay->run->out;
	size_t at = 0, count = replay_type_count(replay);

	out_items_begin(out, "types");
	for (size_t i = 0; i < count; i++) {
		struct fsdp_type_times type = fsdp_recordings_type(replay->recordings, i);
		put_absent(replay, type.name, &at);
		put_type(replay, type.name, &type.times);
	}
	put_absent(replay, (struct fsdp_span){ 0 }, &at);
	out_array_end(out);
}

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

static void put_resolution(struct out *out, const uint64_t counts[FSDP_BY_COUNT])
{
	out_object_begin(out, "comm_resolution");
	for (unsigned i = 0; i < FSDP_BY_COUNT; i++)
		out_field(out, how_name(i), value_count(counts[i]));
	out_object_end(out);
}

static void put_own_resolution(struct out *out, struct subject of)
{
	put_resolution(out, ((const struct fsdp_recording *)of.object)->resolution);
}

#define DEVICE struct fsdp_device_times
static const struct record device_record = RECORD_OF(RECORD_OBJECT, DEVICE,
	{ "span_ns", NS_AT(DEVICE, span_ns) }, { "busy_ns", NS_AT(DEVICE, busy_ns) },
	{ "idle_ns", NS_AT(DEVICE, idle_ns) },
	{ "comm_busy_ns", NS_AT(DEVICE, comm_busy_ns) },
	{ "compute_busy_ns", NS_AT(DEVICE, compute_busy_ns) },
	{ "mem_busy_ns", NS_AT(DEVICE, mem_busy_ns) },
	{ "overlap_ns", NS_AT(DEVICE, overlap_ns) },
	{ "exposed_ns", NS_AT(DEVICE, exposed_ns) });

#define TALLY struct fsdp_tally
static const struct record count_record = RECORD_OF(RECORD_OBJECT, TALLY,
	{ NULL, TEXT_AT(TALLY, name) }, { NULL, COUNT_AT(TALLY, count) });
static const struct record tally_record =
	RECORD_OF(RECORD_OBJECT, TALLY, { NULL, TEXT_AT(TALLY, name) },
		{ "count", COUNT_AT(TALLY, count) }, { "sum_ns", NS_AT(TALLY, sum_ns) });

static bool has_device(struct subject of)
{
	return ((const struct fsdp_recording *)of.object)->has_device;
}

#define RECORDING struct fsdp_recording
static const struct record trace_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "root", WORD_AT(RECORDING, root) },
	{ "backend", TEXT_AT(RECORDING, backend), .null = true },
	{ "world_size", INTEGER_AT(RECORDING, world_size), .null = true },
	{ "events", COUNT_AT(RECORDING, events) },
	{ "recovered", COUNT_AT(RECORDING, recovered) },
	{ "dropped", COUNT_AT(RECORDING, dropped) },
	{ "truncated", BOOL_AT(RECORDING, truncated) },
	{ "deviations", MAP_AT(RECORDING, deviations, deviation_count, count_record) },
	{ "trailing_data_at", INTEGER_AT(RECORDING, trailing_data_at), .null = true },
	{ "bad_dur", COUNT_AT(RECORDING, bad_dur) },
	{ "unpaired", COUNT_AT(RECORDING, unpaired) },
	{ "base_ns", NS_AT(RECORDING, base_ns), .null = true },
	{ "phases", MAP_AT(RECORDING, phases, phase_count, count_record) },
	{ "categories", MAP_AT(RECORDING, categories, category_count, tally_record) },
	{ "all_source", WORD_AT(RECORDING, all_source) },
	{ "comm_layer", ENUM_AT(RECORDING, layer, layer_name) },
	{ NULL, BY_HAND(put_own_resolution) },
	{ "first_ts_ns", NS_AT(RECORDING, first_ts_ns), .null = true },
	{ "last_end_ns", NS_AT(RECORDING, last_end_ns), .null = true },
	{ "device", OBJECT_AT(RECORDING, device, device_record), .has = has_device,
		.null = true },
	{ "host_comm_busy_ns", NS_AT(RECORDING, host_comm_busy_ns) },
	{ "wait_ns", NS_AT(RECORDING, wait_ns) },
	{ "times_last", COUNT_AT(RECORDING, times_last) });

#define RESULT struct fsdp_dump_result
static const struct record result_record = RECORD_OF(RECORD_TUPLE, RESULT,
	{ NULL, TEXT_AT(RESULT, type) }, { NULL, NS_AT(RESULT, ns), .null = true });

static bool is_profile(struct subject of)
{
	return ((const struct fsdp_recording *)of.object)->kind == FSDP_RECORDING_PROFILE;
}

static const struct record simple_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "debug_level", TEXT_AT(RECORDING, debug_level), .null = true },
	{ "residual", LIST_AT(RECORDING, residual, residual_count, result_record) },
	{ "still_open",
		LIST_AT(RECORDING, still_open, still_open_count, record_texts_or_null) },
	{ "skipped", COUNT_AT(RECORDING, skipped) });
static const struct record profile_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "world_size", INTEGER_AT(RECORDING, world_size), .null = true },
	{ NULL, FIELDS(simple_record), .has = is_profile },
	{ "truncated", BOOL_AT(RECORDING, truncated) },
	{ "bad_lines", LIST_AT(RECORDING, bad_lines, bad_line_count, record_counts) });

static bool is_trace(struct subject of)
{
	return ((const struct fsdp_recording *)of.object)->kind == FSDP_RECORDING_KINETO;
}

static bool is_no_trace(struct subject of)
{
	return !is_trace(of);
}

static void put_strip(struct out *out, struct subject of)
{
	const struct fsdp_recording *one = of.object;
	const struct replay *replay = of.context;
	size_t count = fsdp_recordings_timeline(replay->recordings)->cell_count;

	if (one->timeline == NULL)
		return;
	out_array_begin(out, "timeline");
	for (size_t i = 0; i < count; i++)
		out_field(out, NULL, value_span(one->timeline[i]));
	out_array_end(out);
}

struct ranked {
	struct fsdp_recording recording;
	uint64_t input;
};
#define RANKED struct ranked
static const struct record ranked_record = RECORD_OF(RECORD_OBJECT, RANKED,
	{ "rank", INTEGER_AT(RANKED, recording.rank) },
	{ "rank_from", ENUM_AT(RANKED, recording.rank_from, fsdp_rank_from_name) },
	{ "input", COUNT_AT(RANKED, input) },
	{ "kind", ENUM_AT(RANKED, recording.kind, fsdp_recording_kind_name) },
	{ NULL, FIELDS_AT(RANKED, recording, trace_record), .has = is_trace },
	{ NULL, FIELDS_AT(RANKED, recording, profile_record), .has = is_no_trace },
	{ NULL, BY_HAND(put_strip) });

#define TIMELINE struct fsdp_timeline
static const struct record timeline_record = RECORD_OF(RECORD_OBJECT, TIMELINE,
	{ "begin_ns", NS_AT(TIMELINE, begin_ns), .null = true },
	{ "cell_ns", NS_AT(TIMELINE, cell_ns) },
	{ "cells", SIZE_AT(TIMELINE, cell_count) });

static void put_ranks(struct replay *replay)
{
	const struct fsdp_timeline *timeline =
		fsdp_recordings_timeline(replay->recordings);
	struct out *out = replay->run->out;

	out_array_begin(out, "ranks");
	for (size_t i = 0; i < replay->count; i++) {
		size_t input = fsdp_recording_by_rank(replay->recordings, i);
		struct ranked one = { *fsdp_recording(replay->recordings, input), input };
		out_record(out, NULL, &ranked_record, (struct subject){ replay, &one });
	}
	out_array_end(out);
	if (timeline->cell_count != 0)
		out_record(out, "timeline", &timeline_record,
			(struct subject){ NULL, timeline });
}

struct ranked_step {
	struct fsdp_step step;
	int64_t rank;
};
#define STEP struct ranked_step
static const struct record step_record = RECORD_OF(RECORD_OBJECT, STEP,
	{ "step", INTEGER_AT(STEP, step.step) }, { "rank", INTEGER_AT(STEP, rank) },
	{ "ts_ns", NS_AT(STEP, step.ts_ns) }, { "dur_ns", NS_AT(STEP, step.dur_ns) },
	{ "types", MAP_AT(STEP, step.types, step.type_count, tally_record) });

static void put_steps(struct replay *replay)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "steps");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		for (size_t j = 0; j < one->step_count; j++)
			out_record(out, NULL, &step_record,
				(struct subject){
					NULL, &(struct ranked_step){
						      one->steps[j], one->rank } });
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

static struct value get_group(struct subject of)
{
	const struct fsdp_match *one = of.object;

	return one->group.size == 0 ? value_null() : value_span(one->group);
}

static void put_matched(struct out *out, struct subject of)
{
	const struct fsdp_match *one = of.object;

	put_seq(out, one->seq, true);
	out_array_begin(out, "ranks");
	for (size_t i = 0; i < one->recording_count; i++)
		out_field(out, NULL,
			value_integer(
				replay_by_rank(of.context, one->recordings[i])->rank));
	out_array_end(out);
}

static void put_match_bandwidth(struct out *out, struct subject of)
{
	const struct fsdp_match *one = of.object;

	put_bandwidth(out, one->type, one->bytes, one->group_size, one->transfer_ns);
}

#define MATCH struct fsdp_match
static const struct record match_record = RECORD_OF(RECORD_OBJECT, MATCH,
	{ "index", COUNT_AT(MATCH, index) }, { "type", TEXT_AT(MATCH, type) },
	{ "group", GET(FIELD_TEXT, get_group) }, { NULL, BY_HAND(put_matched) },
	{ "first_rank", INTEGER_AT(MATCH, first_rank) },
	{ "last_rank", INTEGER_AT(MATCH, last_rank) },
	{ "start_skew_ns", NS_AT(MATCH, start_skew_ns) },
	{ "end_skew_ns", NS_AT(MATCH, end_skew_ns) },
	{ "transfer_ns", NS_AT(MATCH, transfer_ns) },
	{ "max_dur_ns", NS_AT(MATCH, max_dur_ns) },
	{ NULL, BY_HAND(put_match_bandwidth) });

static void put_rest(struct out *out, struct subject of)
{
	const struct fsdp_collective *one = of.object;

	put_seq(out, one->seq, false);
	put_bandwidth(out, one->type, one->bytes, one->group_size, one->dur_ns);
}

#define COLLECTIVE struct fsdp_collective
static const struct record collective_record = RECORD_OF(RECORD_OBJECT, COLLECTIVE,
	{ "ts_ns", NS_AT(COLLECTIVE, ts_ns) }, { "dur_ns", NS_AT(COLLECTIVE, dur_ns) },
	{ "type", TEXT_AT(COLLECTIVE, type) },
	{ "how", ENUM_AT(COLLECTIVE, how, how_name) },
	{ "group", TEXT_AT(COLLECTIVE, group) }, { NULL, BY_HAND(put_rest) });

#define MATCHING struct fsdp_matching
static const struct record matching_record =
	RECORD_OF(RECORD_OBJECT, MATCHING, { "by", WORD_AT(MATCHING, by), .null = true },
		{ "stopped", INTEGER_AT(MATCHING, stopped), .null = true },
		{ "straggler", INTEGER_AT(MATCHING, straggler), .null = true });

static void put_collectives(struct replay *replay)
{
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(replay->recordings);
	const struct fsdp_recording *first = replay_by_rank(replay, 0);
	struct out *out = replay->run->out;

	out_record(out, "matching", &matching_record, (struct subject){ NULL, matching });
	out_array_begin(out, "collectives");
	for (size_t i = 0; matching->by != NULL && i < matching->match_count; i++)
		out_record(out, NULL, &match_record,
			(struct subject){ replay, &matching->matches[i] });
	for (size_t i = 0; matching->by == NULL && i < first->collective_count; i++) {
		struct fsdp_collective one;
		fsdp_recording_collective(first, i, &one);
		out_record(out, NULL, &collective_record, (struct subject){ NULL, &one });
	}
	out_array_end(out);
}

#define DUMP struct fsdp_dump
static const struct record dump_record = RECORD_OF(RECORD_OBJECT, DUMP,
	{ "line", COUNT_AT(DUMP, line) }, { "msg", TEXT_AT(DUMP, msg), .null = true },
	{ "emitted", BOOL_AT(DUMP, emitted) },
	{ "results", LIST_AT(DUMP, results, result_count, result_record) },
	{ "log_message", TEXT_AT(DUMP, log_message), .null = true });

#define PROBLEM struct fsdp_profile_problem
static const struct record problem_record = RECORD_OF(RECORD_OBJECT, PROBLEM,
	{ "line", COUNT_AT(PROBLEM, line) }, { "kind", WORD_AT(PROBLEM, kind) },
	{ "type", TEXT_AT(PROBLEM, type) }, { "message", WORD_AT(PROBLEM, message) });

static void put_dumps(struct replay *replay)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "dumps");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		for (size_t j = 0; j < one->dump_count; j++) {
			out_object_begin(out, NULL);
			out_field(out, "rank", value_integer(one->rank));
			out_fields(out, &dump_record,
				(struct subject){ NULL, &one->dumps[j] });
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
			out_object_begin(out, NULL);
			out_field(out, "input", value_count(input));
			out_field(out, "rank", value_integer(one->rank));
			out_fields(out, &problem_record,
				(struct subject){ NULL, &one->problems[j] });
			out_object_end(out);
		}
	}
	out_array_end(out);
}

static void put_head(struct replay *replay)
{
	struct replay_collectives all = replay_collectives(replay);
	int64_t world = FSDP_ABSENT;

	for (size_t i = 0; i < replay->count && world == FSDP_ABSENT; i++)
		world = replay_by_rank(replay, i)->world_size;
	out_field(replay->run->out, "world_size", value_known(world));
	out_field(replay->run->out, "comm_layer", value_word(layer_name(all.layer)));
	put_resolution(replay->run->out, all.by);
}

/* ---- one row for each rank, step and type ---- */

struct separated_row {
	int64_t rank, step; /* FSDP_ABSENT: of all steps */
	struct fsdp_span type;
	struct fsdp_times times;
};
#define ROW struct separated_row
static const struct record row_record = RECORD_OF(RECORD_OBJECT, ROW,
	{ "rank", INTEGER_AT(ROW, rank) }, { "step", INTEGER_AT(ROW, step) },
	{ "type", NAME_AT(ROW, type) }, { "count", COUNT_AT(ROW, times.count) },
	{ "sum_ns", NS_AT(ROW, times.sum_ns) }, { "min_ns", NS_AT(ROW, times.min_ns) },
	{ "p50_ns", NS_AT(ROW, times.p50_ns) }, { "p95_ns", NS_AT(ROW, times.p95_ns) },
	{ "max_ns", NS_AT(ROW, times.max_ns) });

static void put_separated(struct replay *replay)
{
	static const struct table like = {
		.key = "types", .main = true, .rows_only = true
	};
	struct out *out = replay->run->out;
	struct record_table table;

	record_table_init(&table, &like, &row_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		for (size_t j = 0; j < one->type_count; j++)
			out_records_row(out, &table,
				&(struct separated_row){ one->rank, FSDP_ABSENT,
					one->types[j].name, one->types[j].times });
		for (size_t j = 0; j < one->step_count; j++) {
			const struct fsdp_step *step = &one->steps[j];
			for (size_t k = 0; k < step->type_count; k++)
				out_records_row(out, &table,
					&(struct separated_row){ one->rank, step->step,
						step->types[k].name,
						{ step->types[k].count,
							step->types[k].sum_ns,
							FSDP_ABSENT, FSDP_ABSENT,
							FSDP_ABSENT, FSDP_ABSENT,
							false } });
		}
	}
	out_table_end(out);
}

void replay_put_data(struct replay *replay)
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
