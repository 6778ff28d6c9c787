/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings: which files an option names, pickles that are recordings, and what each
 * rank did on one clock, for outputs that draw time.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args/parse.h"
#include "args/select.h"
#include "shared/recordings.h"
#include "shared/tensor-row.h"
#include "session/diagnostics.h"
#include "session/session.h"

bool recordings_rank_regex(struct run *run, const char *regex,
	struct fsdp_recording_options *options, void **ret_pattern)
{
	if (regex == NULL)
		return true;
	*ret_pattern = rank_pattern_new(regex);
	if (*ret_pattern == NULL)
		refuse(run, "a PCRE2 expression with one group: rank-([0-9]+)",
			"--rank-regex '%s' cannot be read", regex);
	options->rank_of = rank_pattern_find;
	options->context = *ret_pattern;
	return *ret_pattern != NULL;
}

void recordings_show_run(struct out *out, const struct fsdp_recordings *run, uint64_t nth)
{
	size_t count = fsdp_recording_count(run);

	out_values_line(out, NULL, "run {}: {}[ and {} more]", value_count(nth),
		value_name(text_of(fsdp_recording(run, 0)->path)),
		count > 1 ? value_count(count - 1) : value_absent());
}

void recordings_show_frame(
	struct out *out, struct fsdp_span file, int64_t line, struct fsdp_span function)
{
	const unsigned char *slash =
		file.size != 0 ? memrchr(file.data, '/', file.size) : NULL;

	if (slash != NULL) {
		file.size -= (size_t)(slash + 1 - file.data);
		file.data = slash + 1;
	}
	out_line_name(out, text_of_span(file));
	out_values(out, "[:{}] ",
		line == FSDP_ABSENT ? value_absent() : value_integer(line));
	out_line_name(out, text_of_span(function));
}

/* ---- Files of an option that names a recording or a directory of them ---- */

enum { TRACES_MOST = 10000 };

static bool add_path(struct trace_paths *paths, const char *folder, const char *name)
{
	char **items = list_grown(paths->items, paths->count, sizeof *paths->items);
	const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";

	if (items == NULL)
		return false;
	paths->items = items;
	if (name == NULL)
		items[paths->count] = strdup(folder);
	else if (asprintf(&items[paths->count], "%s%s%s", folder, slash, name) < 0)
		items[paths->count] = NULL;
	return items[paths->count++] != NULL;
}

static int is_visible(const struct dirent *entry)
{
	return *entry->d_name != '.';
}

bool trace_paths_add(struct trace_paths *paths, const char *path)
{
	struct dirent **entries;
	int count = *path != '\0' ? scandir(path, &entries, is_visible, alphasort) : -1;
	bool good = true;

	if (count < 0)
		return add_path(paths, path, NULL);
	for (int i = 0; i < count; i++) {
		if (good && paths->count < TRACES_MOST)
			good = add_path(paths, path, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	paths->of_folder = true;
	return good;
}

void trace_paths_done(struct trace_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->items[i]);
	free(paths->items);
}

/* ---- What a pickle without tensors is, by the names in it, and which command takes it
 * ---- */

struct pickled_recording pickled_recording_find(
	const struct run *run, struct name_buffer *buffer)
{
	static const char SNAPSHOT[] =
		"CUDA memory snapshot (torch.cuda.memory._snapshot)";
	static const char DUMP[] = "dump of the Flight Recorder (NCCL)";
	static const struct {
		const char *word, *title, *command;
	} KNOWN[] = {
		{ "device_traces", SNAPSHOT, "replay --memory" },
		{ ".segment_type", SNAPSHOT, "replay --memory" },
		{ ".collective_seq_id", DUMP, "order" },
		{ "pg_status.", DUMP, "order" },
	};
	enum { LOOKED_AT = 64 };
	size_t count = fsdp_value_count(run->checkpoint);

	if (fsdp_tensor_count(run->checkpoint) != 0)
		return (struct pickled_recording){ 0 };
	for (uint32_t i = 0; i < count && i < LOOKED_AT; i++) {
		struct fsdp_value value = fsdp_value(run->checkpoint, i);
		struct text name = entry_shown_name(run, buffer, &value);
		for (size_t k = 0; k < sizeof KNOWN / sizeof *KNOWN; k++)
			if (text_is(name, text_of(KNOWN[k].word)) ||
				(strchr(KNOWN[k].word, '.') != NULL &&
					memmem(name.data, name.size, KNOWN[k].word,
						strlen(KNOWN[k].word)) != NULL))
				return (struct pickled_recording){ KNOWN[k].title,
					KNOWN[k].command };
	}
	return (struct pickled_recording){ 0 };
}

void pickled_recording_report(struct run *run)
{
	struct name_buffer buffer = { 0 };
	struct pickled_recording found = pickled_recording_find(run, &buffer);

	run->collected->out_of_memory |= buffer.failed;
	name_buffer_done(&buffer);
	if (found.title != NULL)
		run_note(run, "%s is a %s: fsdp-inspect %s %s", run->path, found.title,
			found.command, run->path);
}

/* ---- Emits what each rank did, on one clock, for outputs that draw time ---- */

/* One rank while its lanes are emitted. */
struct rank_lanes {
	struct out *out;
	const struct fsdp_recording *one;
	const struct fsdp_alignment *alignment;
	size_t index;
	int64_t offset_ns;
	int64_t begin_ns, total_ns; /* of its run; of all */
};

static struct timed_span span_of(const struct rank_lanes *lanes, const char *lane,
	int64_t begin_ns, int64_t dur_ns)
{
	int64_t total = lanes->total_ns, begin;

	if (__builtin_add_overflow(begin_ns, lanes->offset_ns, &begin) || begin < 0)
		begin = 0;
	if (__builtin_add_overflow(begin, lanes->begin_ns, &begin) || begin > total)
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

static void write_steps(const struct rank_lanes *lanes)
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

static void write_busy(const struct rank_lanes *lanes, const char *lane,
	const struct fsdp_busy_span *spans, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct timed_span span = span_of(lanes, lane, spans[i].begin_ns,
			spans[i].end_ns - spans[i].begin_ns);
		out_timed(lanes->out, &span);
	}
}

/* Collectives, or what each rank waits in them for the last one. */
static void write_calls(const struct rank_lanes *lanes, bool waits)
{
	for (size_t i = 0; i < lanes->one->collective_count; i++) {
		struct fsdp_collective collective;
		fsdp_recording_collective(lanes->one, i, &collective);
		int64_t ns =
			waits ? fsdp_alignment_wait(lanes->alignment, lanes->index, i)
			      : collective.dur_ns;
		struct timed_span span = span_of(
			lanes, waits ? "waiting" : "collectives", collective.ts_ns, ns);

		if (waits && ns <= 0)
			continue;
		span.name = text_of_span(collective.type);
		if (!waits)
			span.group = text_of_span(collective.group);
		if (!waits && collective.bytes != FSDP_ABSENT)
			span.bytes = (uint64_t)collective.bytes;
		out_timed(lanes->out, &span);
	}
}

static const struct fsdp_recording *by_rank(const struct fsdp_recordings *set, size_t nth)
{
	return fsdp_recording(set, fsdp_recording_by_rank(set, nth));
}

/* Those of a run. Runs follow each other: the first begins at 0, and `begin_ns` is the
 * end of the ones before. */
struct run_lanes {
	struct run *run;
	const struct fsdp_recordings *set;
	struct fsdp_alignment *alignment;
	int64_t begin_ns, total_ns, number;
};

static void write_clocks(const struct run_lanes *lanes)
{
	const struct fsdp_recording *first = NULL;
	size_t common = 0;

	for (size_t i = 0; i < fsdp_recording_count(lanes->set); i++) {
		size_t index = fsdp_recording_by_rank(lanes->set, i);
		const struct fsdp_recording *one = fsdp_recording(lanes->set, index);
		size_t own = fsdp_alignment_clock(lanes->alignment, index);
		struct timed_clock clock = { one->rank, text_of(one->path),
			fsdp_alignment_offset(lanes->alignment, index), lanes->number,
			lanes->begin_ns, true };

		if (fsdp_recording(lanes->set, index)->kind != FSDP_RECORDING_KINETO)
			continue;
		common = first == NULL ? own : common;
		first = first == NULL ? one : first;
		clock.shared = own == common;
		if (__builtin_add_overflow(
			    clock.offset_ns, lanes->begin_ns, &clock.offset_ns))
			clock.offset_ns = 0;
		out_clock(lanes->run->out, &clock);
		if (!clock.shared)
			run_note(lanes->run,
				"rank %" PRId64 " shares no collective with rank %" PRId64
				", nor by way of others: it is drawn as if both began at once",
				one->rank, first->rank);
	}
}

enum { STEPS, COMPUTING, COLLECTIVES, EXPOSED, WAITS, LANES };

/* Rank by rank, lane by lane, run by run. */
static void write_ranks(const struct run_lanes *runs, const struct fsdp_recordings *set)
{
	size_t count = fsdp_recording_count(set);

	for (size_t i = 0, next; i < count; i = next) {
		const struct fsdp_recording *one = by_rank(set, i);
		for (next = i + 1; next < count && by_rank(set, next)->rank == one->rank;)
			next++;
		for (unsigned lane = 0; lane < LANES; lane++)
			for (size_t j = i; j < next; j++) {
				const struct run_lanes *of =
					&runs[by_rank(set, j)->run - 1];
				size_t index = 0;

				one = by_rank(set, j);
				while (fsdp_recording(of->set, index) != one)
					index++;
				const struct rank_lanes lanes = { of->run->out, one,
					of->alignment, index,
					fsdp_alignment_offset(of->alignment, index),
					of->begin_ns, of->total_ns };
				if (one->kind != FSDP_RECORDING_KINETO)
					continue;
				if (lane == STEPS)
					write_steps(&lanes);
				else if (lane == COMPUTING)
					write_busy(&lanes, "computing", one->computing,
						one->computing_count);
				else if (lane == EXPOSED)
					write_busy(&lanes, "exposed", one->exposed,
						one->exposed_count);
				else
					write_calls(&lanes, lane == WAITS);
			}
	}
}

/* Aligns each run. Returns how many; the last is missing if memory ran out. */
static size_t align_runs(struct run *run, const struct fsdp_recordings *set,
	struct run_lanes *lanes, size_t count)
{
	int64_t end = 0;

	for (size_t i = 0; i < count; i++) {
		lanes[i] = (struct run_lanes){ run, fsdp_recordings_run(set, i), NULL,
			end, 0, (int64_t)i + 1 };
		if (!fsdp_alignment_new(lanes[i].set, &lanes[i].alignment, NULL))
			return i;
		if (__builtin_add_overflow(
			    end, fsdp_alignment_span(lanes[i].alignment), &end))
			end = INT64_MAX;
	}
	for (size_t i = 0; i < count; i++)
		lanes[i].total_ns = end;
	return count;
}

bool time_lanes_write(struct run *run, const struct fsdp_recordings *set)
{
	size_t count = fsdp_recordings_run_count(set), made;
	struct run_lanes *lanes;

	if (!out_times(run->out))
		return true;
	lanes = calloc(count + 1, sizeof *lanes);
	if (lanes == NULL)
		return false;
	made = align_runs(run, set, lanes, count);
	for (size_t i = 0; made == count && i < count; i++)
		write_clocks(&lanes[i]);
	if (made == count)
		write_ranks(lanes, set);
	for (size_t i = 0; i < made; i++)
		fsdp_alignment_free(lanes[i].alignment);
	free(lanes);
	return made == count;
}
