/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings: which files an option names, pickles that are recordings, and what each
 * rank did on one clock, for outputs that draw time.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static void add_path(struct trace_paths *paths, char *path)
{
	paths->items = memory_grown(paths->items, paths->count, sizeof *paths->items);
	paths->items[paths->count++] = path;
}

void trace_paths_add(struct trace_paths *paths, const char *path)
{
	DIR *folder = *path != '\0' ? opendir(path) : NULL;
	size_t mark = memory_mark(), first = paths->count;
	const struct dirent *entry;

	if (folder == NULL) {
		add_path(paths, memory_text(path));
		return;
	}
	memory_owns(folder, release_folder);
	while ((entry = readdir(folder)) != NULL)
		if (*entry->d_name != '.')
			add_path(paths, memory_format("%s%s%s", path,
						path[strlen(path) - 1] == '/' ? "" : "/",
						entry->d_name));
	memory_release(mark);
	qsort(paths->items + first, paths->count - first, sizeof *paths->items,
		compare_texts);
	if (paths->count > TRACES_MOST)
		paths->count = TRACES_MOST;
	paths->of_folder = true;
}

/* ---- What a pickle without tensors is, by the names in it, and which command takes it
 * ---- */

struct pickled_recording pickled_recording_find(
	const struct run *run, struct name_buffer *buffer)
{
	static const char SNAPSHOT[] =
		"CUDA memory snapshot (torch.cuda.memory._snapshot)";
	static const char DUMP[] = "dump of the Flight Recorder";
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

	if (found.title != NULL)
		run_note(run, "%s is a %s: fsdp-inspect %s %s", run->path, found.title,
			found.command, path_to_paste(run->path));
}

/* ---- The base model of an adapter ---- */

void adapter_base_report(struct run *run)
{
	struct name_buffer buffer = { 0 };
	size_t count = fsdp_value_count(run->checkpoint);

	FOR_EACH(i, (uint32_t)count, value, fsdp_value(run->checkpoint, i)) {
		struct stat status; /* the sandbox refuses access() */
		char path[PATH_MAX];

		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_TEXT ||
			!text_is(entry_shown_name(run, &buffer, &value),
				text_of("adapter_config.base_model_name_or_path")))
			continue;
		snprintf(path, sizeof path, "%.*s", (int)value.tokens->text.size,
			(const char *)value.tokens->text.data);
		if (path[0] == '/' && stat(path, &status) != 0 && errno == ENOENT)
			run_note(run,
				"base model %s is not on this machine; with a copy of it in DIR, 'fsdp-inspect audit --expect=DIR %s' compares the adapter with it",
				path, path_to_paste(run->path));
	}
}

/* ---- Emits what each rank did, on one clock, for outputs that draw time ---- */

/* Those of a run. Runs follow each other: the first begins at 0, and `begin_ns` is the
 * end of the ones before. */
struct run_lanes {
	struct run *run;
	const struct fsdp_recordings *set;
	int64_t begin_ns, total_ns, number;
};

enum { STEPS, COMPUTING, COLLECTIVES, EXPOSED, WAITS, LANES };

static void write_lane(
	const struct run_lanes *of, const struct fsdp_recording *one, unsigned lane)
{
	static const char *const names[] = { "steps", "computing", "collectives",
		"exposed", "waiting" };
	const size_t counts[] = { one->step_count, one->computing_count,
		one->collective_count, one->exposed_count, one->collective_count };
	const struct fsdp_busy_span *busy =
		lane == COMPUTING ? one->computing : one->exposed;

	for (size_t i = 0; i < counts[lane]; i++) {
		struct timed_span span = { .rank = one->rank,
			.lane = names[lane],
			.name = text_of(names[lane]),
			.total_ns = of->total_ns,
			.bytes = UINT64_MAX };
		struct fsdp_collective collective;
		int64_t begin;
		char name[40];

		if (lane == STEPS) {
			snprintf(name, sizeof name, "step %" PRId64, one->steps[i].step);
			span.name = text_of(name);
			begin = one->steps[i].ts_ns;
			span.dur_ns = one->steps[i].dur_ns;
		} else if (lane == COMPUTING || lane == EXPOSED) {
			begin = busy[i].begin_ns;
			span.dur_ns = busy[i].end_ns - begin;
		} else {
			fsdp_recording_collective(one, i, &collective);
			begin = collective.ts_ns;
			span.dur_ns = lane == COLLECTIVES ? collective.dur_ns
							  : one->call_waits[i];
			span.name = text_of_span(collective.type);
			if (lane == COLLECTIVES)
				span.group = text_of_span(collective.group);
			else if (span.dur_ns <= 0)
				continue;
			if (lane == COLLECTIVES && collective.bytes != FSDP_ABSENT)
				span.bytes = (uint64_t)collective.bytes;
		}
		if (__builtin_add_overflow(begin, one->offset_ns, &begin) || begin < 0)
			begin = 0;
		if (__builtin_add_overflow(begin, of->begin_ns, &span.begin_ns) ||
			span.begin_ns > of->total_ns)
			span.begin_ns = of->total_ns;
		if (span.dur_ns > of->total_ns - span.begin_ns)
			span.dur_ns = of->total_ns - span.begin_ns;
		if (span.dur_ns < 0)
			span.dur_ns = 0;
		out_timed(of->run->out, &span);
	}
}

static void write_clocks(const struct run_lanes *lanes)
{
	const struct fsdp_recording *first = NULL;
	size_t common = 0;

	for (size_t i = 0; i < fsdp_recording_count(lanes->set); i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(lanes->set, i);
		size_t own = one->clock;
		struct timed_clock clock = { one->rank, text_of(one->path),
			one->offset_ns, lanes->number, lanes->begin_ns, true };

		if (one->kind != FSDP_RECORDING_KINETO)
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
				", even through other ranks: both are drawn with the same start",
				one->rank, first->rank);
	}
}

/* Rank by rank, lane by lane, run by run. */
static void write_ranks(const struct run_lanes *runs, const struct fsdp_recordings *set)
{
	size_t count = fsdp_recording_count(set);

	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1;
			next < count && fsdp_recording_by_rank(set, next)->rank ==
						fsdp_recording_by_rank(set, i)->rank;)
			next++;
		for (unsigned lane = 0; lane < LANES; lane++)
			for (size_t j = i; j < next; j++) {
				const struct fsdp_recording *one =
					fsdp_recording_by_rank(set, j);
				const struct run_lanes *of = &runs[one->run - 1];

				if (one->kind == FSDP_RECORDING_KINETO)
					write_lane(of, one, lane);
			}
	}
}

void time_lanes_write(struct run *run, const struct fsdp_recordings *set)
{
	size_t count = fsdp_recordings_run_count(set);
	struct run_lanes *lanes;
	int64_t end = 0;

	if (!out_times(run->out))
		return;
	lanes = run_memory(run, count, sizeof *lanes);
	FOR_EACH(i, count, one, fsdp_recordings_run(set, i)) {
		lanes[i] = (struct run_lanes){ run, one, end, 0, (int64_t)i + 1 };
		if (__builtin_add_overflow(
			    end, fsdp_recordings_summary(one)->span_ns, &end))
			end = INT64_MAX;
	}
	for (size_t i = 0; i < count; i++) {
		lanes[i].total_ns = end;
		write_clocks(&lanes[i]);
	}
	write_ranks(lanes, set);
}
