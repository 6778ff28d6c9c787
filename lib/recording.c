/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens recordings, has them read side by side and joined, and hands out what they say.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include <fsdp/checkpoint.h>
#include <fsdp/trace.h>

#include "base/num.h"
#include "base/pool.h"
#include "trace/join.h"

struct fsdp_recordings {
	struct fsdp_limits limits;
	const struct fsdp_recording_options *options; /* while reading */
	const char *const *paths;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_trace_reading *readings; /* in the order of the arguments */
	size_t count;
	struct fsdp_joined joined;
};

static const char *const kind_names[FSDP_RECORDING_KIND_COUNT] = {
	[FSDP_RECORDING_PROFILE] = "simple_profiler",
	[FSDP_RECORDING_LOG] = "log",
	[FSDP_RECORDING_KINETO] = "kineto",
	[FSDP_RECORDING_FX_ORDER] = "fx_exec_order",
	[FSDP_RECORDING_EXEC_ORDER] = "exec_order",
};

const char *fsdp_recording_kind_name(enum fsdp_recording_kind kind)
{
	return kind < FSDP_RECORDING_KIND_COUNT ? kind_names[kind] : NULL;
}

const char *fsdp_rank_from_name(enum fsdp_rank_from from)
{
	switch (from) {
	case FSDP_RANK_FROM_FILE:
		return "distributedInfo";
	case FSDP_RANK_FROM_REGEX:
		return "rank-regex";
	case FSDP_RANK_FROM_NAME:
		return "name";
	case FSDP_RANK_FROM_POSITION:
		break;
	}
	return "position";
}

/* ---- reading ---- */

static void read_one(void *context, size_t index)
{
	struct fsdp_recordings *set = context;
	struct fsdp_trace_reading *reading = &set->readings[index];
	struct fsdp_recording_progress *progress = set->options->progress;
	struct fsdp_stream_options options = { .ahead = true, .limits = &set->limits };
	if (progress != NULL) {
		options.read = &progress->read;
		options.stop = &progress->stop;
	}
	if (!fsdp_stream_open(
		    set->paths[index], &options, &reading->stream, &reading->error))
		return;
	if (progress != NULL)
		__atomic_fetch_add(&progress->size, fsdp_stream_size(reading->stream),
			__ATOMIC_RELAXED);
	bool good = fsdp_trace_read(reading);
	/* What is wrong with half of it does not matter then. */
	if (!good && progress != NULL &&
		__atomic_load_n(&progress->stop, __ATOMIC_RELAXED) != 0) {
		fsdp_error_free(reading->error);
		reading->error = NULL;
		fsdp_fail(&reading->error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"interrupted before it was read");
	}
	if (good) {
		fsdp_trace_settle_rank(reading, index);
		fsdp_trace_judge(reading);
		if (reading->findings.lost)
			fsdp_trace_memory(reading);
	}
	if (reading->error != NULL)
		fsdp_error_add_path(&reading->error, set->paths[index]);
	fsdp_stream_close(reading->stream);
	reading->stream = NULL;
}

static void begin_reading(struct fsdp_recordings *set, size_t index)
{
	struct fsdp_trace_reading *reading = &set->readings[index];
	*reading = (struct fsdp_trace_reading){ .limits = &set->limits,
		.options = set->options,
		.budget = &set->budget,
		.recording = { .path = set->paths[index],
			.rank = FSDP_ABSENT,
			.world_size = FSDP_ABSENT,
			.base_ns = FSDP_ABSENT,
			.first_ts_ns = FSDP_ABSENT,
			.last_end_ns = FSDP_ABSENT,
			.trailing_data_at = FSDP_ABSENT,
			.host_comm_busy_ns = FSDP_ABSENT } };
	fsdp_arena_init_lean(&reading->arena, reading->budget);
	fsdp_findings_init(&reading->findings, &reading->arena, &set->limits);
}

/* The first error in the order of the arguments is the one that is told. */
static bool take_error(struct fsdp_recordings *set, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->readings[i].error == NULL)
			continue;
		if (ret_error != NULL && *ret_error == NULL) {
			*ret_error = set->readings[i].error;
			set->readings[i].error = NULL;
		}
		return false;
	}
	return true;
}

/* Bytes of a file as it lies there, however it is compressed; UINT64_MAX: a pipe. */
static uint64_t size_of(const char *path)
{
	struct stat status;
	if (strcmp(path, "-") == 0)
		return UINT64_MAX;
	return stat(path, &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size
							      : 0;
}

/* What the caller set counts. Otherwise memory follows what is read, for recordings are
 * summed up and not kept: some for the set, some for each of them, and ROOM_FACTOR times
 * their bytes. */
static uint64_t ceiling_of(const struct fsdp_recordings *set)
{
	enum { ROOM = 40 << 20, ROOM_EACH = 8 << 20, ROOM_FACTOR = 10 };
	uint64_t most = fsdp_limit(&set->limits, FSDP_LIMIT_MEMORY), sum = ROOM;
	for (size_t i = 0; i < set->options->limit_count; i++)
		if (strcmp(set->options->limits[i].name, "memory") == 0)
			return most;
	for (size_t i = 0; i < set->count; i++) {
		uint64_t size = size_of(set->paths[i]);
		if (!fsdp_mul(size, ROOM_FACTOR, &size) ||
			!fsdp_add(size, ROOM_EACH, &size) || !fsdp_add(sum, size, &sum))
			return most;
	}
	return fsdp_min(sum, most);
}

bool fsdp_recordings_read(const char *const *paths, size_t count,
	const struct fsdp_recording_options *options,
	struct fsdp_recordings **ret_recordings, struct fsdp_error **ret_error)
{
	static const struct fsdp_recording_options none = { .size = sizeof none };
	struct fsdp_recordings *set = calloc(1, sizeof *set);
	if (set == NULL)
		return fsdp_fail_memory(ret_error);
	set->options = options != NULL ? options : &none;
	set->paths = paths;
	set->count = count;
	set->readings = calloc(count + 1, sizeof *set->readings);
	bool good = set->readings != NULL || fsdp_fail_memory(ret_error);
	good = good && fsdp_limits_choose(&set->limits, set->options->limits,
			       set->options->limit_count, ret_error);
	set->budget.ceiling = good ? ceiling_of(set) : 0;
	fsdp_arena_init(&set->arena, &set->budget);
	if (good) {
		for (size_t i = 0; i < count; i++)
			begin_reading(set, i);
		fsdp_pool_run(set->options->jobs, count, read_one, set);
		good = take_error(set, ret_error) &&
		       fsdp_trace_join(set->readings, count, &set->limits, &set->arena,
			       &set->joined, ret_error);
	}
	if (!good) {
		fsdp_recordings_free(set);
		return false;
	}
	*ret_recordings = set;
	return true;
}

void fsdp_recordings_free(struct fsdp_recordings *set)
{
	if (set == NULL)
		return;
	for (size_t i = 0; set->readings != NULL && i < set->count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		for (size_t j = 0;
			reading->durations != NULL && j < reading->recording.type_count;
			j++)
			fsdp_durations_done(&reading->durations[j]);
		fsdp_error_free(reading->error);
		fsdp_arena_done(&reading->arena);
	}
	fsdp_arena_done(&set->arena);
	free(set->readings);
	free(set);
}

/* ---- asking ---- */

size_t fsdp_recording_count(const struct fsdp_recordings *set)
{
	return set->count;
}

const struct fsdp_recording *fsdp_recording(
	const struct fsdp_recordings *set, size_t index)
{
	return index < set->count ? &set->readings[index].recording : NULL;
}

size_t fsdp_recording_by_rank(const struct fsdp_recordings *set, size_t nth)
{
	return (size_t)(fsdp_trace_reading_of(set->joined.by_rank[nth]) - set->readings);
}

size_t fsdp_recordings_type_count(const struct fsdp_recordings *set)
{
	return set->joined.type_count;
}

struct fsdp_type_times fsdp_recordings_type(
	const struct fsdp_recordings *set, size_t index)
{
	return set->joined.types[index];
}

const struct fsdp_matching *fsdp_recordings_matching(const struct fsdp_recordings *set)
{
	return &set->joined.matching;
}

const struct fsdp_timeline *fsdp_recordings_timeline(const struct fsdp_recordings *set)
{
	return &set->joined.timeline;
}

const struct fsdp_divergence *fsdp_recordings_divergence(
	const struct fsdp_recordings *set)
{
	return &set->joined.divergence;
}

const struct fsdp_first_diff *fsdp_recordings_first_diff(
	const struct fsdp_recordings *set)
{
	return &set->joined.diff;
}

/* Those of the recordings in the order of the arguments, then those about all. */
static const struct fsdp_findings *findings_at(
	const struct fsdp_recordings *set, size_t index)
{
	return index < set->count ? &set->readings[index].findings
				  : &set->joined.findings;
}

size_t fsdp_recordings_finding_count(const struct fsdp_recordings *set)
{
	size_t count = 0;
	for (size_t i = 0; i <= set->count; i++)
		count += findings_at(set, i)->list.count;
	return count;
}

const struct fsdp_finding *fsdp_recordings_finding(
	const struct fsdp_recordings *set, size_t index)
{
	for (size_t i = 0; i <= set->count; i++) {
		const struct fsdp_findings *findings = findings_at(set, i);
		if (index < findings->list.count)
			return fsdp_vec_at(&findings->list, index);
		index -= findings->list.count;
	}
	return NULL;
}

size_t fsdp_recordings_omitted_count(const struct fsdp_recordings *set)
{
	size_t count = 0;
	for (size_t i = 0; i <= set->count; i++)
		count += fsdp_findings_omitted_count(findings_at(set, i));
	return count;
}

struct fsdp_omitted fsdp_recordings_omitted(
	const struct fsdp_recordings *set, size_t index)
{
	for (size_t i = 0; i <= set->count; i++) {
		const struct fsdp_findings *findings = findings_at(set, i);
		size_t count = fsdp_findings_omitted_count(findings);
		if (index < count)
			return fsdp_findings_omitted(findings, index);
		index -= count;
	}
	return (struct fsdp_omitted){ 0 };
}
