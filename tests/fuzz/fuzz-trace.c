/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a recording, through the door: native ones, logs and traces alike. What is
 * said of it must hold together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/trace.h>

#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

static bool is_of_units(struct fsdp_span name)
{
	static const char *const types[] = { "all_gather", "reduce_scatter",
		"all_reduce" };
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (name.size == strlen(types[i]) &&
			memcmp(name.data, types[i], name.size) == 0)
			return true;
	return false;
}

/* What is added up by unit and what is of none is what there is of the type. */
static void look_at_units(const struct fsdp_recording *one)
{
	uint64_t kernels = one->unassigned.gathers + one->unassigned.reduces, all = 0;
	for (size_t i = 0; i < one->unit_count; i++) {
		const struct fsdp_unit_times *unit = &one->units[i];
		kernels += unit->gathers.kernels + unit->reduces.kernels;
		require(unit->prefetched <= unit->gathers.count);
		require(unit->gathers.on_compute_stream <= unit->gathers.kernels);
		require(unit->gathers.exposed_ns <= unit->gathers.ns &&
			unit->reduces.exposed_ns <= unit->reduces.ns);
		for (size_t j = 0; j < unit->groups.count; j++)
			require(unit->groups.texts[j].size != 0);
	}
	for (size_t i = 0; i < one->type_count; i++) {
		struct fsdp_span name = one->types[i].name;
		if (is_of_units(name))
			all += one->types[i].times.count;
	}
	require(one->kind != FSDP_RECORDING_KINETO || kernels == all);
}

static void look_at(const struct fsdp_recording *one)
{
	for (size_t i = 0; i < one->type_count; i++) {
		const struct fsdp_times *times = &one->types[i].times;
		require(times->count != 0);
		require(times->min_ns <= times->p50_ns &&
			times->p50_ns <= times->p95_ns && times->p95_ns <= times->max_ns);
	}
	look_at_units(one);
	if (one->has_device) {
		const struct fsdp_device_times *device = &one->device;
		require(device->idle_ns >= 0 && device->overlap_ns >= 0 &&
			device->exposed_ns >= 0);
		require(device->busy_ns + device->idle_ns == device->span_ns);
	}
	for (size_t i = 0; i < one->collective_count; i++) {
		struct fsdp_collective before, now;
		fsdp_recording_collective(one, i, &now);
		fsdp_recording_collective(one, i != 0 ? i - 1 : 0, &before);
		require(before.ts_ns <= now.ts_ns && now.type.size != 0);
	}
}

/* The same file twice has no skew: of two ranks in one run, of one rank in two. */
static void look_at_runs(const struct fsdp_recordings *set)
{
	size_t count = 0, runs = fsdp_recordings_run_count(set);
	require(runs == 1 || runs == 2);
	for (size_t i = 0; i < runs; i++) {
		const struct fsdp_recordings *run = fsdp_recordings_run(set, i);
		const struct fsdp_matching *matching =
			&fsdp_recordings_summary(run)->matching;
		count += fsdp_recording_count(run);
		require((runs == 1) == (run == set));
		require(runs == 1 || matching->match_count == 0);
		require(matching->aligned && matching->most_skew_ns == 0);
		for (size_t j = 0; j < matching->match_count; j++)
			require(matching->matches[j].start_skew_ns == 0);
	}
	require(count == fsdp_recording_count(set));
}

static void look_at_spans(const struct fsdp_busy_span *spans, size_t count)
{
	for (size_t i = 0; i < count; i++)
		require(spans[i].begin_ns < spans[i].end_ns &&
			(i == 0 || spans[i - 1].end_ns <= spans[i].begin_ns));
}

/* No wait is longer than what it is in. */
static void look_at_alignment(const struct fsdp_recordings *set)
{
	for (size_t i = 0; i < fsdp_recording_count(set); i++) {
		const struct fsdp_recording *one = fsdp_recording(set, i);
		look_at_spans(one->computing, one->computing_count);
		look_at_spans(one->exposed, one->exposed_count);
		for (size_t k = 0; k < one->collective_count; k++) {
			struct fsdp_collective collective;
			fsdp_recording_collective(one, k, &collective);
			require(one->call_waits[k] <= collective.dur_ns);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct walk_file file = walk_file_new(data, size);
	const char *const paths[] = { file.path, file.path };
	struct fsdp_recordings *set = NULL;
	struct fsdp_error *error = NULL;
	const struct fsdp_recording_options options = { .size = sizeof options,
		.jobs = 1,
		.units = true,
		.spans = true,
		.clocks = true };
	bool good = fsdp_recordings_read(paths, 2, &options, &set, &error);
	require(good == (error == NULL) && good == (set != NULL));
	for (size_t i = 0; good && i < fsdp_recording_count(set); i++)
		look_at(fsdp_recording(set, i));
	if (good) {
		look_at_runs(set);
		look_at_alignment(set);
	}
	fsdp_recordings_free(set);
	fsdp_error_free(error);
	close(file.fd);
	return 0;
}
