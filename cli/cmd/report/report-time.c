/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows in a report what its recordings say: times by rank and by unit, and lanes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/report.h"
#include "part/recordings.h"
#include "session/diagnostics.h"

/* ---- files ---- */

/* Recordings of another kind beside the traces. */
static void note_left_out(struct run *run, const struct fsdp_recordings *recordings)
{
	const char *path;

	for (size_t i = 0; (path = fsdp_recordings_left_out(recordings, i)) != NULL; i++)
		run_note(run, "%s is left out: it is not a trace", path);
}

bool report_read_traces(struct report *report, struct fsdp_error **ret_error)
{
	const struct report_options *options = report->run->options;
	struct run *run = report->run;
	struct trace_paths *paths = &report->traces;

	for (size_t i = 0; i < options->traces.count; i++) {
		const char *path = options->traces.items[i];
		collected_input(run->collected, path, "trace");
		if (!trace_paths_add(paths, path))
			return false;
	}
	if (paths->count == 0)
		return true;
	const struct fsdp_recording_options how = { .size = sizeof how,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.jobs = jobs_wanted(run->common),
		.units = true,
		.spans = true,
		.kinds = 1U << FSDP_RECORDING_KINETO,
		.folder = paths->of_folder };
	if (!fsdp_recordings_read((const char *const *)paths->items, paths->count, &how,
		    &report->recordings, ret_error))
		return false;
	for (size_t i = 0; i < fsdp_recordings_error_count(report->recordings); i++)
		collected_error(run->collected,
			fsdp_recordings_error(report->recordings, i), UINT32_MAX);
	report->is_partial = fsdp_recordings_error_count(report->recordings) > 0;
	note_left_out(run, report->recordings);
	return true;
}

void report_done(struct report *report)
{
	loading_done(&report->loading);
	fsdp_recordings_free(report->recordings);
	trace_paths_done(&report->traces);
	row_buffers_done(&report->buffers);
}

/* ---- by rank ---- */

/* Three decimals, as replay has. */
static struct value milliseconds(int64_t ns, char buffer[32])
{
	if (ns == FSDP_ABSENT)
		return value_absent();
	snprintf(buffer, 32, "%.3f", (double)ns / 1e6);
	return value_word(buffer);
}

static struct value share(int64_t part, int64_t whole, char buffer[32])
{
	if (part == FSDP_ABSENT || whole <= 0)
		return value_absent();
	snprintf(buffer, 32, "%.1f", 100.0 * (double)part / (double)whole);
	return value_word(buffer);
}

static void show_ranks(struct report *report)
{
	static const struct column columns[] = { { .name = "rank", .right = true },
		{ .name = "steps", .right = true }, { .name = "ms", .right = true },
		{ .name = "compute %", .right = true },
		{ .name = "collectives %", .right = true },
		{ .name = "exposed %", .right = true },
		{ .name = "idle %", .right = true } };
	const struct table table = {
		.key = "time by rank", .columns = columns, .column_count = 7
	};
	struct out *out = report->run->out;

	out_table_begin(out, &table);
	for (size_t i = 0; i < fsdp_recording_count(report->recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(report->recordings,
			fsdp_recording_by_rank(report->recordings, i));
		const struct fsdp_device_times *device = &one->device;
		char buffers[5][32];
		struct value values[7] = { value_integer(one->rank),
			value_count(one->step_count) };

		if (one->has_device) {
			values[2] = milliseconds(device->span_ns, buffers[0]);
			values[3] = share(
				device->compute_busy_ns, device->span_ns, buffers[1]);
			values[4] =
				share(device->comm_busy_ns, device->span_ns, buffers[2]);
			values[5] =
				share(device->exposed_ns, device->span_ns, buffers[3]);
			values[6] = share(device->idle_ns, device->span_ns, buffers[4]);
		}
		out_row(out, values);
	}
	out_table_end(out);
}

/* ---- by unit ---- */

static void show_units(struct report *report)
{
	static const struct column columns[] = { { .name = "unit" }, { .name = "phase" },
		{ .name = "gathers", .right = true }, { .name = "ms", .right = true },
		{ .name = "exposed ms", .right = true },
		{ .name = "prefetched", .right = true },
		{ .name = "reductions", .right = true },
		{ .name = "reduction ms", .right = true } };
	const struct table table = {
		.key = "time by unit", .columns = columns, .column_count = 8
	};
	struct out *out = report->run->out;
	size_t count = fsdp_recordings_unit_count(report->recordings);

	if (count == 0)
		return;
	out_table_begin(out, &table);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_unit_times *unit =
			fsdp_recordings_unit(report->recordings, i);
		char buffers[3][32];
		const struct value values[] = {
			unit->unit.data == NULL ? value_absent()
			: unit->unit.size == 0  ? value_word("(root)")
						: value_name(text_of_span(unit->unit)),
			value_word(fsdp_unit_phase_name(unit->phase)),
			value_count(unit->gathers.count),
			milliseconds(unit->gathers.ns, buffers[0]),
			milliseconds(unit->gathers.exposed_ns, buffers[1]),
			value_count(unit->prefetched), value_count(unit->reduces.count),
			milliseconds(unit->reduces.ns, buffers[2])
		};

		out_row(out, values);
	}
	out_table_end(out);
}

bool report_show_times(struct report *report)
{
	if (report->recordings == NULL)
		return true;
	show_ranks(report);
	show_units(report);
	return time_lanes_emit(report->run, report->recordings);
}
