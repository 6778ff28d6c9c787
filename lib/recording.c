/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens recordings, has them read side by side and joined, and hands out what they say.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/checkpoint.h>
#include <fsdp/trace.h>

#include "base/num.h"
#include "base/pool.h"
#include "trace/flight.h"
#include "trace/cycles.h"
#include "trace/join.h"

/* The set, or one run of several. */
struct fsdp_recordings {
	struct fsdp_limits limits;
	const struct fsdp_recording_options *options; /* while reading */
	const char *const *paths;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_trace_reading *readings; /* in the order of the paths */
	size_t reading_count, left_out_count;
	struct fsdp_recording **list; /* those that could be read, in that order */
	size_t count;
	size_t *places; /* in `list`, by rank */
	struct fsdp_joined joined;
	const struct fsdp_flight *flight; /* NULL: there are no dumps */
	struct fsdp_recordings *runs;     /* NULL: the set is one run */
	size_t run_count;
};

static const char *const kind_names[FSDP_RECORDING_KIND_COUNT] = {
	[FSDP_RECORDING_PROFILE] = "simple_profiler",
	[FSDP_RECORDING_LOG] = "log",
	[FSDP_RECORDING_KINETO] = "kineto",
	[FSDP_RECORDING_FX_ORDER] = "fx_exec_order",
	[FSDP_RECORDING_EXEC_ORDER] = "exec_order",
	[FSDP_RECORDING_FLIGHT] = "flight_recorder",
	[FSDP_RECORDING_MEMORY] = "memory_snapshot",
	[FSDP_RECORDING_WATCHDOG] = "nccl_watchdog",
};

const char *fsdp_recording_kind_name(enum fsdp_recording_kind kind)
{
	return kind < FSDP_RECORDING_KIND_COUNT ? kind_names[kind] : NULL;
}

const char *fsdp_unit_phase_name(enum fsdp_unit_phase phase)
{
	return phase == FSDP_PHASE_FORWARD    ? "forward"
	       : phase == FSDP_PHASE_BACKWARD ? "backward"
					      : NULL;
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
		    set->paths[index], &options, &reading->stream, &reading->error)) {
		const char *kind = fsdp_error_kind(reading->error);
		reading->unopened = true;
		if (kind != NULL && strcmp(kind, "folder") == 0)
			fsdp_error_add_hint(&reading->error,
				"recordings are files *.json, *.jsonl and *.log and dumps of PyTorch, also compressed");
		return;
	}
	if (progress != NULL)
		__atomic_fetch_add(&progress->size, fsdp_stream_size(reading->stream),
			__ATOMIC_RELAXED);
	bool good = fsdp_trace_read(reading);
	bool stopped = fsdp_trace_is_stopped(reading);
	/* What is wrong with half of it does not matter then. */
	if (good && stopped)
		fsdp_trace_interrupted(reading);
	if (!good && stopped) {
		fsdp_error_free(reading->error);
		reading->error = NULL;
		fsdp_fail(&reading->error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"interrupted before it was read");
	}
	/* A dump that cannot be read is missing: its rank matters. */
	if (good || reading->recording.kind == FSDP_RECORDING_FLIGHT)
		fsdp_trace_settle_rank(reading, index);
	if (good) {
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
			.input = index,
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

/* Whether what happened to one recording is the fault of that one alone. */
static bool is_own_fault(const struct fsdp_error *error)
{
	enum fsdp_error_code code = fsdp_error_code(error);
	return code != FSDP_ERROR_MEMORY && code != FSDP_ERROR_LIMIT &&
	       code != FSDP_ERROR_INTERNAL;
}

static bool is_wanted(
	const struct fsdp_recordings *set, const struct fsdp_trace_reading *reading)
{
	unsigned kinds = set->options->kinds;
	return kinds == 0 || (kinds >> reading->recording.kind & 1) != 0;
}

/* Whether it is not a recording at all. An empty or broken rank1.json is an error, since
 * its rank is missing among the others; JSON of something else is not. */
static bool is_none(const struct fsdp_trace_reading *reading)
{
	struct fsdp_span name =
		fsdp_span_last(fsdp_span_text(reading->recording.path), '/');
	if (reading->error == NULL ||
		fsdp_error_code(reading->error) != FSDP_ERROR_NOT_A_CHECKPOINT)
		return false;
	const char *kind = fsdp_error_kind(reading->error);
	return memmem(name.data, name.size, ".json", 5) == NULL ||
	       (kind != NULL && strcmp(kind, "no_trace_events") == 0);
}

/* Leaves out recordings of other kinds, if there are others. */
static void choose_kinds(struct fsdp_recordings *set)
{
	size_t wanted = 0;
	for (size_t i = 0; i < set->reading_count; i++)
		wanted += set->readings[i].error == NULL &&
			  is_wanted(set, &set->readings[i]);
	for (size_t i = 0; wanted != 0 && i < set->reading_count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		if (!set->options->folder || !is_none(reading))
			continue;
		fsdp_error_free(reading->error);
		reading->error = NULL;
		reading->left_out = true;
		set->left_out_count++;
	}
	for (size_t i = 0; wanted != 0 && i < set->reading_count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		if (reading->left_out || reading->error != NULL ||
			is_wanted(set, reading))
			continue;
		reading->left_out = true;
		set->left_out_count++;
	}
}

/* Lists those that could be read. If there are none, or one failed by what all of them
 * share, the first error in the order of the paths is the one that is reported. */
static bool take_readings(struct fsdp_recordings *set, struct fsdp_error **ret_error)
{
	struct fsdp_trace_reading *first = NULL;
	bool shared = false;
	set->list = calloc(set->reading_count + 1, sizeof(struct fsdp_recording *));
	if (set->list == NULL)
		return fsdp_fail_memory(ret_error);
	choose_kinds(set);
	for (size_t i = 0; i < set->reading_count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		if (reading->left_out)
			continue;
		if (reading->error == NULL) {
			set->list[set->count++] = &reading->recording;
			continue;
		}
		bool own = is_own_fault(reading->error);
		if (first == NULL || (!own && !shared))
			first = reading;
		shared |= !own;
	}
	if (first == NULL || (set->count != 0 && !shared))
		return true;
	if (ret_error != NULL && *ret_error == NULL) {
		*ret_error = first->error;
		first->error = NULL;
	}
	return false;
}

/* ---- runs ---- */

/* Puts them in order of rank, in the arena. NULL: out of memory. */
static struct fsdp_recording **sort(struct fsdp_recordings *set, struct fsdp_arena *arena)
{
	struct fsdp_recording **by_rank = FSDP_TAKE(arena, by_rank, set->count);
	size_t *place_of = calloc(set->reading_count + 1, sizeof *place_of);
	set->places = FSDP_TAKE(arena, set->places, set->count);
	if (by_rank == NULL || place_of == NULL || set->places == NULL) {
		free(place_of);
		return NULL;
	}
	for (size_t i = 0; i < set->count; i++) {
		by_rank[i] = set->list[i];
		place_of[set->list[i]->input] = i;
	}
	fsdp_trace_sort(by_rank, set->count);
	for (size_t i = 0; i < set->count; i++)
		set->places[i] = place_of[by_rank[i]->input];
	free(place_of);
	return by_rank;
}

static bool join(struct fsdp_recordings *set, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	struct fsdp_recording **by_rank = sort(set, arena);
	if (by_rank == NULL)
		return fsdp_arena_fail(arena, ret_error);
	return fsdp_trace_join(
		by_rank, set->count, limits, arena, &set->joined, ret_error);
}

/* The nth recording of each rank is of the nth run: that of each recording, by the index
 * of its path. Only times of traces and orders of units are set against each other so. */
static bool number_runs(struct fsdp_recordings *set, size_t *run_of)
{
	struct fsdp_recording **sorted = calloc(set->count + 1, sizeof *sorted);
	if (sorted == NULL)
		return false;
	for (size_t i = 0; i < set->count; i++)
		sorted[i] = set->list[i];
	fsdp_trace_sort(sorted, set->count);
	set->run_count = fsdp_trace_number_runs(sorted, set->count, run_of);
	free(sorted);
	return true;
}

/* Each run has its own list, which is a part of one that all share. */
static bool split(struct fsdp_recordings *set, const size_t *run_of)
{
	struct fsdp_recording **lists = FSDP_TAKE(&set->arena, lists, set->count);
	set->runs = FSDP_TAKE(&set->arena, set->runs, set->run_count);
	if (lists == NULL || set->runs == NULL)
		return false;
	for (size_t i = 0; i < set->run_count; i++)
		set->runs[i] =
			(struct fsdp_recordings){ .reading_count = set->reading_count,
				.run_count = 1 };
	for (size_t i = 0; i < set->count; i++)
		set->runs[run_of[set->list[i]->input]].count++;
	for (size_t i = 0; i < set->run_count; i++) {
		set->runs[i].list = lists;
		lists += set->runs[i].count;
		set->runs[i].count = 0;
	}
	for (size_t i = 0; i < set->count; i++) {
		struct fsdp_recordings *run = &set->runs[run_of[set->list[i]->input]];
		run->list[run->count++] = set->list[i];
	}
	return true;
}

/* What the recordings say together, run by run. The set itself has all of them in order,
 * and says what the first run says. */
static bool join_runs(struct fsdp_recordings *set, struct fsdp_error **ret_error)
{
	size_t *run_of = calloc(set->reading_count + 1, sizeof *run_of);
	bool good = run_of != NULL && number_runs(set, run_of) &&
		    (set->run_count == 1 || split(set, run_of));
	free(run_of);
	if (!good)
		return fsdp_arena_fail(&set->arena, ret_error);
	if (set->runs == NULL)
		return join(set, &set->limits, &set->arena, ret_error);
	for (size_t i = 0; i < set->run_count; i++)
		if (!join(&set->runs[i], &set->limits, &set->arena, ret_error))
			return false;
	set->joined = set->runs[0].joined;
	return sort(set, &set->arena) != NULL || fsdp_arena_fail(&set->arena, ret_error);
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
	for (size_t i = 0; i < set->reading_count; i++) {
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
	set->reading_count = count;
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
		good = take_readings(set, ret_error) && join_runs(set, ret_error) &&
		       fsdp_flight_join_readings(set->readings, count, &set->arena,
			       &set->flight, ret_error);
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
	for (size_t i = 0; set->readings != NULL && i < set->reading_count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		for (size_t j = 0;
			reading->durations != NULL && j < reading->recording.type_count;
			j++)
			fsdp_durations_done(&reading->durations[j]);
		fsdp_error_free(reading->error);
		fsdp_arena_done(&reading->arena);
	}
	fsdp_arena_done(&set->arena);
	free(set->list);
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
	return index < set->count ? set->list[index] : NULL;
}

size_t fsdp_recording_by_rank(const struct fsdp_recordings *set, size_t nth)
{
	return set->places[nth];
}

size_t fsdp_recordings_run_count(const struct fsdp_recordings *set)
{
	return set->run_count;
}

const struct fsdp_recordings *fsdp_recordings_run(
	const struct fsdp_recordings *set, size_t nth)
{
	return set->runs != NULL ? &set->runs[nth] : set;
}

size_t fsdp_recordings_error_count(const struct fsdp_recordings *set)
{
	return set->readings == NULL
		       ? 0
		       : set->reading_count - set->count - set->left_out_count;
}

const char *fsdp_recordings_left_out(const struct fsdp_recordings *set, size_t nth)
{
	for (size_t i = 0; set->readings != NULL && i < set->reading_count; i++)
		if (set->readings[i].left_out && nth-- == 0)
			return set->readings[i].recording.path;
	return NULL;
}

const struct fsdp_error *fsdp_recordings_error(
	const struct fsdp_recordings *set, size_t nth)
{
	for (size_t i = 0; set->readings != NULL && i < set->reading_count; i++)
		if (set->readings[i].error != NULL && nth-- == 0)
			return set->readings[i].error;
	return NULL;
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

size_t fsdp_recordings_unit_count(const struct fsdp_recordings *set)
{
	return set->joined.unit_count;
}

const struct fsdp_unit_times *fsdp_recordings_unit(
	const struct fsdp_recordings *set, size_t index)
{
	return &set->joined.units[index];
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

const struct fsdp_flight *fsdp_recordings_flight(const struct fsdp_recordings *set)
{
	return set->flight;
}

/* Those of the recordings in the order of the paths, then those about each run. */
static const struct fsdp_findings *findings_at(
	const struct fsdp_recordings *set, size_t index)
{
	if (index < set->count)
		return &fsdp_trace_reading_of(set->list[index])->findings;
	return set->runs != NULL ? &set->runs[index - set->count].joined.findings
				 : &set->joined.findings;
}

static size_t findings_lists(const struct fsdp_recordings *set)
{
	return set->count + set->run_count;
}

size_t fsdp_recordings_finding_count(const struct fsdp_recordings *set)
{
	size_t count = 0;
	for (size_t i = 0; i < findings_lists(set); i++)
		count += findings_at(set, i)->list.count;
	return count;
}

const struct fsdp_finding *fsdp_recordings_finding(
	const struct fsdp_recordings *set, size_t index)
{
	for (size_t i = 0; i < findings_lists(set); i++) {
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
	for (size_t i = 0; i < findings_lists(set); i++)
		count += fsdp_findings_omitted_count(findings_at(set, i));
	return count;
}

struct fsdp_omitted fsdp_recordings_omitted(
	const struct fsdp_recordings *set, size_t index)
{
	for (size_t i = 0; i < findings_lists(set); i++) {
		const struct fsdp_findings *findings = findings_at(set, i);
		size_t count = fsdp_findings_omitted_count(findings);
		if (index < count)
			return fsdp_findings_omitted(findings, index);
		index -= count;
	}
	return (struct fsdp_omitted){ 0 };
}
