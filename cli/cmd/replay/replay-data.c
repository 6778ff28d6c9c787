/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` tells machines: the document, and one row for each rank, step and type;
 * in nanoseconds.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay.h"

static void put_times(struct out *out, const struct fsdp_times *times)
{
	out_field(out, "count", value_count(times->count));
	out_field(out, "sum_ns",
		times->count == 0 ? value_integer(0) : value_known(times->sum_ns));
	out_field(out, "min_ns",
		times->count == 0 ? value_null() : value_known(times->min_ns));
	out_field(out, "p50_ns",
		times->count == 0 ? value_null() : value_known(times->p50_ns));
	out_field(out, "p95_ns",
		times->count == 0 ? value_null() : value_known(times->p95_ns));
	out_field(out, "max_ns",
		times->count == 0 ? value_null() : value_known(times->max_ns));
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
	static const struct fsdp_times none = { 0 };
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
	out_field(out, "world_size", value_known(one->world_size));
	out_field(out, "events", value_count(one->events));
	out_field(out, "recovered", value_count(one->recovered));
	out_field(out, "dropped", value_count(one->dropped));
	out_field(out, "truncated", value_bool(one->truncated));
	put_tallies(out, "deviations", one->deviations, one->deviation_count, false);
	out_field(out, "trailing_data_at", value_known(one->trailing_data_at));
	out_field(out, "bad_dur", value_count(one->bad_dur));
	out_field(out, "unpaired", value_count(one->unpaired));
	out_field(out, "base_ns", value_known(one->base_ns));
	put_tallies(out, "phases", one->phases, one->phase_count, false);
	put_tallies(out, "categories", one->categories, one->category_count, true);
	out_field(out, "all_source", value_word(one->all_source));
	out_field(out, "comm_layer", value_word(layer_name(one->layer)));
	put_resolution(out, one->resolution);
	out_field(out, "first_ts_ns", value_known(one->first_ts_ns));
	out_field(out, "last_end_ns", value_known(one->last_end_ns));
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
		out_field(out, NULL, value_known(results[i].ns));
		out_array_end(out);
	}
	out_array_end(out);
}

static void put_profile(struct out *out, const struct fsdp_recording *one)
{
	out_field(out, "world_size", value_known(one->world_size));
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

static void put_strip(struct replay *replay, const struct fsdp_recording *one)
{
	size_t count = fsdp_recordings_timeline(replay->recordings)->cell_count;

	if (one->timeline == NULL)
		return;
	out_array_begin(replay->run->out, "timeline");
	for (size_t i = 0; i < count; i++)
		out_field(replay->run->out, NULL, value_span(one->timeline[i]));
	out_array_end(replay->run->out);
}

static void put_timeline(struct replay *replay)
{
	const struct fsdp_timeline *timeline =
		fsdp_recordings_timeline(replay->recordings);
	struct out *out = replay->run->out;

	if (timeline->cell_count == 0)
		return;
	out_object_begin(out, "timeline");
	out_field(out, "begin_ns", value_known(timeline->begin_ns));
	out_field(out, "cell_ns", value_integer(timeline->cell_ns));
	out_field(out, "cells", value_count(timeline->cell_count));
	out_object_end(out);
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
		put_strip(replay, one);
		out_object_end(out);
	}
	out_array_end(out);
}

static void put_steps(struct replay *replay)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "steps");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
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
			value_integer(replay_by_rank(replay, one->recordings[i])->rank));
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
	const struct fsdp_recording *first = replay_by_rank(replay, 0);
	struct out *out = replay->run->out;

	out_object_begin(out, "matching");
	out_field(out, "by",
		matching->by != NULL ? value_word(matching->by) : value_null());
	out_field(out, "stopped", value_known(matching->stopped));
	out_field(out, "straggler", value_known(matching->straggler));
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
		const struct fsdp_recording *one = replay_by_rank(replay, i);
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
	struct replay_collectives all = replay_collectives(replay);
	int64_t world = FSDP_ABSENT;

	for (size_t i = 0; i < replay->count && world == FSDP_ABSENT; i++)
		world = replay_by_rank(replay, i)->world_size;
	out_field(replay->run->out, "world_size", value_known(world));
	out_field(replay->run->out, "comm_layer", value_word(layer_name(all.layer)));
	put_resolution(replay->run->out, all.by);
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
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		for (size_t j = 0; j < one->type_count; j++) {
			const struct fsdp_times *times = &one->types[j].times;
			const struct value values[] = { value_integer(one->rank),
				value_absent(),
				value_name(text_of_span(one->types[j].name)),
				value_count(times->count), value_known(times->sum_ns),
				value_known(times->min_ns), value_known(times->p50_ns),
				value_known(times->p95_ns), value_known(times->max_ns) };
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

void replay_put_data(struct replay *replay)
{
	put_head(replay);
	put_types(replay);
	put_separated(replay);
	put_ranks(replay);
	put_timeline(replay);
	put_steps(replay);
	put_collectives(replay);
	put_dumps(replay);
	put_problems(replay);
}
