/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens recordings, has them read in parallel and joined, puts the collectives of several
 * ranks on one clock, and hands out the result.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/checkpoint.h>
#include <fsdp/order.h>
#include <fsdp/trace.h>

#include "base/num.h"
#include "base/tasks.h"
#include "base/sort.h"
#include "io/directory.h"
#include "trace/flight.h"
#include "trace/event.h"

/* ---- One clock for the collectives of several ranks ---- */

/* A collective of one rank. Those with one key are one collective of several. */
struct aligned_call {
	uint32_t key, recording, collective;
	int64_t end_ns, dur_ns;
};

/* What would bring the end of a collective of a recording to that of a known one. */
struct delta {
	uint32_t recording;
	int64_t ns;
};

struct alignment {
	struct fsdp_alignment shown; /* first: callers have its address */
	const struct fsdp_recordings *set;
	size_t count;              /* of recordings */
	struct fsdp_aligned *list; /* by recording */
	bool *known;               /* by recording: its offset */
	struct aligned_call *all;  /* by key, then recording */
	size_t all_count;
	struct delta *deltas;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
};

/* Times are claims of files: what does not fit wraps around, and is drawn nowhere. */
static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* After the last one with the key of this one. */
static size_t end_of_group(const struct alignment *at, size_t first)
{
	size_t end = first + 1;
	while (end < at->all_count && at->all[end].key == at->all[first].key)
		end++;
	return end;
}

/* ---- offsets ---- */

/* Of those that are not known. */
static size_t list_deltas(struct alignment *at)
{
	size_t count = 0;
	for (size_t first = 0, end; first < at->all_count; first = end) {
		int64_t end_ns = 0;
		bool any = false;
		end = end_of_group(at, first);
		for (size_t i = first; i < end && !any; i++) {
			const struct aligned_call *one = &at->all[i];
			any = at->known[one->recording];
			end_ns = plus(one->end_ns, at->list[one->recording].offset_ns);
		}
		for (size_t i = first; any && i < end; i++)
			if (!at->known[at->all[i].recording])
				at->deltas[count++] =
					(struct delta){ at->all[i].recording,
						minus(end_ns, at->all[i].end_ns) };
	}
	FSDP_SORT(at->deltas, count, FSDP_BY(at->deltas, recording),
		FSDP_BY(at->deltas, ns));
	return count;
}

/* Ranks that share no group meet by others that share one with both. What shares nothing
 * begins where the first one does. */
static void find_offsets(struct alignment *at)
{
	for (size_t begun = 0, found; begun < at->count; begun++) {
		if (at->known[begun])
			continue;
		int64_t first = fsdp_recording(at->set, begun)->first_ts_ns;
		at->known[begun] = true;
		at->list[begun].clock = begun;
		at->list[begun].offset_ns = first != FSDP_ABSENT ? minus(0, first) : 0;
		while ((found = list_deltas(at)) != 0)
			for (size_t i = 0, end; i < found; i = end) {
				uint32_t recording = at->deltas[i].recording;
				for (end = i; end < found &&
					      at->deltas[end].recording == recording;)
					end++;
				/* The median of each. */
				at->list[recording].offset_ns =
					at->deltas[i + (end - i) / 2].ns;
				at->list[recording].clock = begun;
				at->known[recording] = true;
			}
	}
}

/* ---- waits ---- */

static int64_t begin_of(const struct alignment *at, const struct aligned_call *one)
{
	return plus(minus(one->end_ns, one->dur_ns), at->list[one->recording].offset_ns);
}

/* ---- all recordings ---- */

static void make(void *context)
{
	struct alignment *at = context;
	struct fsdp_arena *arena = &at->arena;
	size_t all = 0;
	int64_t begin = INT64_MAX, end = INT64_MIN;
	int64_t **waits = FSDP_TAKE(arena, waits, at->count);
	at->list = FSDP_TAKE(arena, at->list, at->count);
	at->known = FSDP_TAKE(arena, at->known, at->count);
	for (size_t i = 0; i < at->count; i++) {
		size_t count = fsdp_recording(at->set, i)->collective_count;
		waits[i] = FSDP_TAKE(arena, waits[i], count);
		at->list[i].waits = waits[i];
		all += count;
	}
	at->all = FSDP_TAKE(arena, at->all, all);
	at->deltas = FSDP_TAKE(arena, at->deltas, all);
	/* The key is a name of type, group, ranks and number; without a number the place
	 * among those of the recording that are alike. */
	struct fsdp_names *keys = FSDP_TAKE(&at->arena, keys, 1);
	fsdp_names_init(keys, &at->arena);
	keys->copies = &at->arena;
	for (uint32_t i = 0; i < at->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(at->set, i);
		struct fsdp_vec alike; /* uint64_t, by key: so many came before */
		fsdp_vec_init(&alike, &at->arena, sizeof(uint64_t));
		for (uint32_t j = 0; j < one->collective_count; j++) {
			struct fsdp_collective call;
			fsdp_recording_collective(one, j, &call);
			const struct fsdp_span parts[] = { call.type, call.group,
				call.ranks };
			uint32_t key = 0;
			for (size_t k = 0; k < FSDP_COUNT(parts); k++)
				key = fsdp_names_child(keys, key,
					parts[k].size != 0 ? parts[k] : FSDP_SPAN(""));
			uint64_t place = (*(uint64_t *)fsdp_vec_reach(&alike, key))++;
			key = fsdp_names_child(keys, key,
				call.seq.size != 0 ? call.seq
						   : fsdp_span(&place, sizeof place));
			at->all[at->all_count++] = (struct aligned_call){ key, i, j,
				plus(call.ts_ns, call.dur_ns), call.dur_ns };
		}
	}
	FSDP_SORT(at->all, at->all_count, FSDP_BY(at->all, key),
		FSDP_BY(at->all, recording), FSDP_BY(at->all, collective));
	find_offsets(at);
	/* From now on times count from the first start of all. */
	for (size_t i = 0; i < at->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(at->set, i);
		int64_t first = plus(one->first_ts_ns, at->list[i].offset_ns);
		int64_t last = plus(one->last_end_ns, at->list[i].offset_ns);
		if (one->first_ts_ns == FSDP_ABSENT || one->last_end_ns == FSDP_ABSENT)
			continue;
		begin = first < begin ? first : begin;
		end = last > end ? last : end;
	}
	for (size_t i = 0; i < at->count && begin <= end; i++)
		at->list[i].offset_ns = minus(at->list[i].offset_ns, begin);
	at->shown.span_ns = begin <= end ? minus(end, begin) : 0;
	at->shown.recordings = at->list;
	for (size_t first = 0, next; first < at->all_count; first = next) {
		int64_t last = INT64_MIN;
		next = end_of_group(at, first);
		for (size_t i = first; i < next; i++) {
			int64_t moment = begin_of(at, &at->all[i]);
			last = moment > last ? moment : last;
		}
		for (size_t i = first; i < next; i++) {
			const struct aligned_call *one = &at->all[i];
			int64_t wait = minus(last, begin_of(at, one));
			waits[one->recording][one->collective] =
				wait < one->dur_ns ? wait : one->dur_ns;
		}
	}
}

bool fsdp_alignment_new(const struct fsdp_recordings *recordings,
	struct fsdp_alignment **ret_alignment, struct fsdp_error **ret_error)
{
	struct alignment *at = calloc(1, sizeof *at);
	if (at == NULL)
		return fsdp_fail_memory(ret_error);
	at->set = recordings;
	at->count = fsdp_recording_count(recordings);
	at->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&at->arena, &at->budget);
	if (!fsdp_arena_try(&at->arena, make, at)) {
		fsdp_alignment_free(&at->shown);
		return fsdp_fail_memory(ret_error);
	}
	*ret_alignment = &at->shown;
	return true;
}

void fsdp_alignment_free(struct fsdp_alignment *alignment)
{
	struct alignment *at = (void *)alignment;
	if (at != NULL)
		fsdp_arena_done(&at->arena);
	free(at);
}

/* ---- Recordings ---- */

/* The set, or one run of several. */
struct fsdp_recordings {
	struct fsdp_limits limits;
	const char *const *paths;
	struct fsdp_budget budget;
	struct fsdp_arena arena;

	/* while reading */
	const struct fsdp_recording_options *options;
	struct fsdp_arena *scratch;
	struct fsdp_error **error;
	struct fsdp_trace_reading *readings; /* in the order of the paths */
	size_t reading_count, left_out_count;
	struct fsdp_recording **list; /* those that could be read, in that order */
	size_t count;
	size_t *places; /* in `list`, by rank */
	struct fsdp_joined joined;
	const struct fsdp_flight *flight; /* NULL: no dumps */
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

const char *fsdp_rank_source_name(enum fsdp_rank_source from)
{
	static const char *const names[] = { [FSDP_RANK_FROM_FILE] = "distributedInfo",
		[FSDP_RANK_FROM_REGEX] = "rank-regex",
		[FSDP_RANK_FROM_NAME] = "name",
		[FSDP_RANK_FROM_POSITION] = "position" };
	return names[from];
}

/* ---- reading ---- */

static void read_one(void *context, size_t index)
{
	struct fsdp_recordings *set = context;
	struct fsdp_trace_reading *reading = &set->readings[index];
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_recording_progress *progress = set->options->progress;
	struct fsdp_stream_options options = {
		.remote = set->options->remote,
		.ahead = true,
		.limits = &set->limits,
	};
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
	/* What is wrong with half of it does not matter then: it counts as complete. */
	if (good && stopped) {
		recording->interrupted = true;
		recording->truncated = false;
	} else if (stopped) {
		fsdp_error_free(reading->error);
		reading->error = NULL;
		fsdp_fail(&reading->error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"interrupted before it was read");
	}
	/* A dump that cannot be read is missing: its rank matters. */
	if (good || recording->kind == FSDP_RECORDING_FLIGHT)
		fsdp_trace_resolve_rank(reading, index);
	if (good) {
		fsdp_trace_check(reading);
		if (reading->findings.lost)
			fsdp_arena_fail(&reading->arena, &reading->error);
	}
	if (reading->error != NULL)
		fsdp_error_add_path(&reading->error, set->paths[index]);
	fsdp_stream_close(reading->stream);
	reading->stream = NULL;
}

/* Whether a file in a directory is not a recording at all. An empty or broken rank1.json
 * is an error, since its rank is missing among the others; JSON of something else is not.
 */
static bool is_other_file(const struct fsdp_trace_reading *reading)
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

/* The name of a file without the number that ends it. */
static struct fsdp_span stem_of(const struct fsdp_trace_reading *reading)
{
	struct fsdp_span name =
		fsdp_span_last(fsdp_span_text(reading->recording.path), '/');
	while (name.size > 0 && fsdp_is_digit(name.data[name.size - 1]))
		name.size--;
	return name;
}

/* Makes dumps of files without bytes that are called like the dumps of other ranks, so
 * that these ranks count as unreadable. */
static void name_empty_dumps(struct fsdp_recordings *set)
{
	struct fsdp_names stems;
	fsdp_names_init(&stems, set->scratch);
	for (size_t i = 0; i < set->reading_count; i++)
		if (set->readings[i].error == NULL &&
			set->readings[i].recording.kind == FSDP_RECORDING_FLIGHT)
			fsdp_names_child(&stems, 0, stem_of(&set->readings[i]));
	for (size_t i = 0; i < set->reading_count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		const char *kind =
			reading->error != NULL ? fsdp_error_kind(reading->error) : NULL;
		if (kind != NULL && strcmp(kind, "empty") == 0 &&
			fsdp_names_find_child(&stems, 0, stem_of(reading)) != FSDP_NONE) {
			reading->recording.kind = FSDP_RECORDING_FLIGHT;
			fsdp_trace_resolve_rank(reading, i);
		}
	}
}

/* Lists those that could be read; recordings of other kinds are skipped, if the set has
 * both. If there are none, or one failed by what all of them share, the first error in
 * the order of the paths is the one that is reported. */
static void add_readings(struct fsdp_recordings *set)
{
	struct fsdp_trace_reading *first = NULL, *reading;
	const struct fsdp_recording_options *options = set->options;
	unsigned kinds = options->kinds != 0 ? options->kinds : UINT_MAX;
	bool shared = false, any = false;
	set->list = FSDP_TAKE(&set->arena, set->list, set->reading_count);
	for (size_t i = 0; i < set->reading_count; i++) {
		reading = &set->readings[i];
		any |= reading->error == NULL &&
		       (kinds >> reading->recording.kind & 1) != 0;
	}
	if (any)
		name_empty_dumps(set);
	for (size_t i = 0; i < set->reading_count; i++) {
		reading = &set->readings[i];
		bool other = options->folder &&
			     !(reading->error != NULL &&
				     reading->recording.kind == FSDP_RECORDING_FLIGHT) &&
			     is_other_file(reading);
		bool is_wanted = (kinds >> reading->recording.kind & 1) != 0;
		if (any && (other || (reading->error == NULL && !is_wanted))) {
			fsdp_error_free(reading->error);
			reading->error = NULL;
			reading->left_out = true;
			set->left_out_count++;
			continue;
		}
		if (reading->error == NULL) {
			set->list[set->count++] = &reading->recording;
			continue;
		}
		/* Whether what happened to one recording is the fault of that one alone.
		 */
		enum fsdp_error_code code = fsdp_error_code(reading->error);
		bool own = code != FSDP_ERROR_MEMORY && code != FSDP_ERROR_LIMIT &&
			   code != FSDP_ERROR_INTERNAL;
		if (first == NULL || (!own && !shared))
			first = reading;
		shared |= !own;
	}
	if (first == NULL || (set->count != 0 && !shared))
		return;
	*set->error = first->error;
	first->error = NULL;
	fsdp_arena_leave(&set->arena);
}

/* ---- runs ---- */

/* Puts them in order of rank. */
static struct fsdp_recording **sort(
	struct fsdp_recordings *set, struct fsdp_arena *arena, struct fsdp_arena *scratch)
{
	struct fsdp_recording **by_rank = FSDP_TAKE(arena, by_rank, set->count);
	size_t *place_of = FSDP_TAKE(scratch, place_of, set->reading_count);
	set->places = FSDP_TAKE(arena, set->places, set->count);
	for (size_t i = 0; i < set->count; i++) {
		by_rank[i] = set->list[i];
		place_of[set->list[i]->input] = i;
	}
	fsdp_trace_sort(by_rank, set->count);
	for (size_t i = 0; i < set->count; i++)
		set->places[i] = place_of[by_rank[i]->input];
	return by_rank;
}

/* Bytes of a file as stored, compressed or not; UINT64_MAX: a pipe. */
static uint64_t size_of(struct fsdp_remote *remote, const char *path)
{
	struct fsdp_remote_file *file;
	enum fsdp_remote_kind kind;
	struct stat status;
	if (strcmp(path, "-") == 0)
		return UINT64_MAX;
	if (fsdp_remote_look(remote, path, &kind, &file, NULL) &&
		kind == FSDP_REMOTE_FILE)
		return file->size;
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
	if (fsdp_limit_is_chosen(&set->limits, FSDP_LIMIT_MEMORY))
		return most;
	for (size_t i = 0; i < set->reading_count; i++) {
		uint64_t size = size_of(set->options->remote, set->paths[i]);
		if (!fsdp_mul(size, ROOM_FACTOR, &size) ||
			!fsdp_add(size, ROOM_EACH, &size) || !fsdp_add(sum, size, &sum))
			return most;
	}
	return fsdp_min(sum, most);
}

static void read_all(void *context)
{
	struct fsdp_recordings *set = context;
	set->readings = FSDP_TAKE(&set->arena, set->readings, set->reading_count);
	for (size_t i = 0; i < set->reading_count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		*reading = (struct fsdp_trace_reading){ .limits = &set->limits,
			.options = set->options,
			.budget = &set->budget,
			.recording = { .path = set->paths[i],
				.input = i,
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
	fsdp_pool_run(set->options->jobs, set->reading_count, read_one, set);
	set->scratch = fsdp_arena_new_below(&set->arena);
	add_readings(set);
	/* What the recordings say together, run by run: the nth recording of each rank is
	 * of the nth run. The set itself has all of them in order, and says what the
	 * first run says. */
	struct fsdp_arena *arena = &set->arena;
	struct fsdp_recording **sorted = FSDP_TAKE(set->scratch, sorted, set->count);
	struct fsdp_recordings *runs = set;
	memcpy(sorted, set->list, set->count * sizeof *sorted);
	fsdp_trace_sort(sorted, set->count);
	set->run_count = fsdp_trace_number_runs(sorted, set->count);
	if (set->run_count != 1) {
		/* Each run has its own list, which is a part of one that all share. */
		struct fsdp_recording **lists = FSDP_TAKE(arena, lists, set->count);
		runs = set->runs = FSDP_TAKE(arena, set->runs, set->run_count);
		for (size_t i = 0; i < set->run_count; i++) {
			runs[i] = (struct fsdp_recordings){ .list = lists,
				.reading_count = set->reading_count,
				.run_count = 1 };
			for (size_t j = 0; j < set->count; j++)
				if (set->list[j]->run == i + 1)
					lists[runs[i].count++] = set->list[j];
			lists += runs[i].count;
		}
	}
	for (size_t i = 0; i < set->run_count; i++) {
		runs[i].joined = (struct fsdp_joined){ .arena = arena,
			.scratch = set->scratch,
			.by_rank = sort(&runs[i], arena, set->scratch),
			.count = runs[i].count };
		fsdp_trace_join(&runs[i].joined, &set->limits);
		fsdp_arena_reset(set->scratch);
	}
	if (set->runs != NULL) {
		set->joined = set->runs[0].joined;
		sort(set, arena, set->scratch);
	}
	set->flight = fsdp_flight_join_readings(
		set->readings, set->reading_count, &set->arena, set->error);
	fsdp_arena_done(set->scratch);
}

bool fsdp_recordings_read(const char *const *paths, size_t count,
	const struct fsdp_recording_options *options,
	struct fsdp_recordings **ret_recordings, struct fsdp_error **ret_error)
{
	static const struct fsdp_recording_options none = { .size = sizeof none };
	struct fsdp_recordings *set = calloc(1, sizeof *set);
	struct fsdp_error *error = NULL;
	if (set == NULL)
		return fsdp_fail_memory(ret_error);
	set->options = options != NULL ? options : &none;
	set->error = &error;
	set->paths = paths;
	set->reading_count = count;
	fsdp_arena_init(&set->arena, &set->budget);
	bool good = fsdp_limits_choose(
		&set->limits, set->options->limits, set->options->limit_count, &error);
	set->budget.ceiling = good ? ceiling_of(set) : 0;
	if (good && fsdp_arena_try(&set->arena, read_all, set)) {
		*ret_recordings = set;
		return true;
	}
	if (error == NULL)
		fsdp_arena_fail(&set->arena, &error);
	fsdp_recordings_free(set);
	return fsdp_fail_with(ret_error, error);
}

void fsdp_recordings_free(struct fsdp_recordings *set)
{
	if (set == NULL)
		return;
	for (size_t i = 0; set->readings != NULL && i < set->reading_count; i++) {
		fsdp_error_free(set->readings[i].error);
		fsdp_arena_done(&set->readings[i].arena);
	}
	fsdp_arena_done(&set->arena);
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

const char *fsdp_recordings_skipped(const struct fsdp_recordings *set, size_t nth)
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

const struct fsdp_summary *fsdp_recordings_summary(const struct fsdp_recordings *set)
{
	return &set->joined.said;
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
