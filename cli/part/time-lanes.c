/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emits what each rank did, on one clock, for outputs that draw time.
 */
#include <stdio.h>

#include "run/answer.h"
#include "part/time-lanes.h"

/* One rank while its lanes are emitted. */
struct rank_lanes {
	struct out *out;
	const struct fsdp_recording *one;
	const struct fsdp_alignment *alignment;
	size_t index;
	int64_t offset_ns;
};

static struct timed_span span_of(const struct rank_lanes *lanes, const char *lane,
	int64_t begin_ns, int64_t dur_ns)
{
	int64_t total = fsdp_alignment_span(lanes->alignment), begin;

	if (__builtin_add_overflow(begin_ns, lanes->offset_ns, &begin) || begin < 0)
		begin = 0;
	if (begin > total)
		begin = total;
	return (struct timed_span){ .rank = lanes->one->rank,
		.lane = lane,
		.name = text_of(lane),
		.begin_ns = begin,
		.dur_ns = dur_ns < 0               ? 0
			  : dur_ns > total - begin ? total - begin
						   : dur_ns,
		.total_ns = total,
		.bytes = UINT64_MAX };
}

static void emit_steps(const struct rank_lanes *lanes)
{
	for (size_t i = 0; i < lanes->one->step_count; i++) {
		const struct fsdp_step *step = &lanes->one->steps[i];
		struct timed_span span =
			span_of(lanes, "steps", step->ts_ns, step->dur_ns);
		char name[40];

		snprintf(name, sizeof name, "step %lld", (long long)step->step);
		span.name = text_of(name);
		out_timed(lanes->out, &span);
	}
}

static void emit_busy(const struct rank_lanes *lanes, const char *lane,
	const struct fsdp_busy_span *spans, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct timed_span span = span_of(lanes, lane, spans[i].begin_ns,
			spans[i].end_ns - spans[i].begin_ns);
		out_timed(lanes->out, &span);
	}
}

static void emit_collectives(const struct rank_lanes *lanes)
{
	for (size_t i = 0; i < lanes->one->collective_count; i++) {
		struct fsdp_collective collective;
		fsdp_recording_collective(lanes->one, i, &collective);
		struct timed_span span = span_of(
			lanes, "collectives", collective.ts_ns, collective.dur_ns);

		span.name = text_of_span(collective.type);
		span.group = text_of_span(collective.group);
		if (collective.bytes != FSDP_ABSENT)
			span.bytes = (uint64_t)collective.bytes;
		out_timed(lanes->out, &span);
	}
}

/* For the last rank of each collective. */
static void emit_waits(const struct rank_lanes *lanes)
{
	for (size_t i = 0; i < lanes->one->collective_count; i++) {
		int64_t wait = fsdp_alignment_wait(lanes->alignment, lanes->index, i);
		struct fsdp_collective collective;
		struct timed_span span;

		if (wait <= 0)
			continue;
		fsdp_recording_collective(lanes->one, i, &collective);
		span = span_of(lanes, "waiting", collective.ts_ns, wait);
		span.name = text_of_span(collective.type);
		out_timed(lanes->out, &span);
	}
}

bool time_lanes_emit(struct out *out, const struct fsdp_recordings *set)
{
	struct fsdp_alignment *alignment;

	if (!out_times(out))
		return true;
	if (!fsdp_alignment_new(set, &alignment, NULL))
		return false;
	for (size_t i = 0; i < fsdp_recording_count(set); i++) {
		struct rank_lanes lanes = { .out = out,
			.index = fsdp_recording_by_rank(set, i),
			.alignment = alignment };

		lanes.one = fsdp_recording(set, lanes.index);
		lanes.offset_ns = fsdp_alignment_offset(alignment, lanes.index);
		if (lanes.one->kind != FSDP_RECORDING_KINETO)
			continue;
		emit_steps(&lanes);
		emit_busy(&lanes, "computing", lanes.one->computing,
			lanes.one->computing_count);
		emit_collectives(&lanes);
		emit_busy(
			&lanes, "exposed", lanes.one->exposed, lanes.one->exposed_count);
		emit_waits(&lanes);
	}
	fsdp_alignment_free(alignment);
	return true;
}
