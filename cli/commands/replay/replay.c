/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows where the time of a run went: by type, rank, step and collective. The library
 * reads recordings and adds them up.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "args/select.h"
#include "commands/replay/replay.h"
#include "shared/recordings.h"
#include "session/diagnostics.h"
#include "session/session.h"

static const char *const BY_WORDS[] = { "type", "rank", "step", "collective", "unit",
	"group", "kernel", "idle", "region", NULL };
static const char *const ADVICE_WORDS[] = { "yes", "no", NULL };
static const char *const STYLE_WORDS[] = { "default", "torch", NULL };

/* Recordings of times. */
enum {
	TIMES = 1 << FSDP_RECORDING_PROFILE | 1 << FSDP_RECORDING_LOG |
		1 << FSDP_RECORDING_KINETO
};

#define AT(field) offsetof(struct replay_options, field)
static const struct option_row OPTIONS[] = {
	{ "by", 0, OPTION_WORD, "KEY", AT(by), BY_WORDS, .help = "show only this table" },
	{ "top", 0, OPTION_INTEGER, "N", AT(top), NULL, 1, INT64_MAX,
		.help = "show the N rows with the most time in each table" },
	{ "advice", 0, OPTION_WORD, "WHEN", AT(advice), ADVICE_WORDS, .initial = "yes",
		.help = "no: do not print where most time is lost" },
	{ "memory", 0, OPTION_FLAG, NULL, AT(memory),
		.help = "read memory snapshots: used memory by stack" },
	{ "percentiles", 0, OPTION_FLAG, NULL, AT(percentiles),
		.help = "show min, p50, p95 and max time per call" },
	{ "steps", 0, OPTION_TEXT, "LIST", AT(steps),
		.help = "count these steps only: 3,10-19" },
	{ "timeline", 0, OPTION_INTEGER, "N", AT(timeline), NULL, 1, 100000, .bare = "60",
		.help = "draw one line per rank over time; with --memory N rows" },
	{ "style", 0, OPTION_WORD, "STYLE", AT(style), STYLE_WORDS, .initial = "default",
		.help = "torch: print only the lines of SimpleProfiler" },
	{ "rank-regex", 0, OPTION_TEXT, "RE", AT(rank_regex),
		.help = "read ranks from paths with this expression" },
	{ "strict", 0, OPTION_FLAG, NULL, AT(strict),
		.help = "treat every warning as a failure" },
	{ "fail-if", 0, OPTION_LIST, "EXPR", AT(fail_if),
		.help = "status 1 if exposed>20%, idle>30%, TYPE>50ms, TYPE>1.2x ..." },
	{ "compare", 0, OPTION_LIST, "FILE", AT(compare),
		.help = "compare with earlier recordings or a replay --json result" },
	{ NULL },
};
#undef AT

/* The options of reading, while it runs. */
struct prepared {
	void *pattern;
	int64_t *steps;
	size_t range_count;
};

static void release(void *context)
{
	struct prepared *prepared = context;

	if (prepared == NULL)
		return;
	rank_pattern_free(prepared->pattern);
	free(prepared->steps);
	free(prepared);
}

/* "3,10-19" as pairs of first and last. */
static bool read_steps(const char *text, struct prepared *prepared, size_t *ret_count)
{
	size_t most = strlen(text) + 1, count = 0;
	char *end;

	prepared->steps = calloc(most, 2 * sizeof *prepared->steps);
	if (prepared->steps == NULL)
		return false;
	for (; *text != '\0'; count++) {
		int64_t *range = prepared->steps + 2 * count;

		for (int i = 0; i < 2; i++) {
			if (!is_digit(*text))
				return false;
			range[i] = strtoll(text, &end, 10);
			text = end;
			if (i == 0 && *text != '-')
				range[++i] = range[0];
			else if (i == 0)
				text++;
		}
		if ((*text != ',' && *text != '\0') || range[0] > range[1])
			return false;
		text += *text == ',';
	}
	*ret_count = count;
	return count != 0;
}

static void note_missing_table(const struct run *run, const struct replay_options *replay,
	struct fsdp_recording_options *options)
{
	const char *by = replay->by != NULL ? replay->by : "";
	/* The summary advises on what is exposed; JSON has it with every table. */
	bool advises = ((replay->by == NULL && replay->compare.count == 0) ||
			       answer_has_output(run, "json") ||
			       answer_has_output(run, "jsonl")) &&
		       strcmp(replay->advice, "no") != 0;

	options->spans |= advises || strcmp(by, "group") == 0;
	options->kernels = strcmp(by, "kernel") == 0;
	options->units = advises || strcmp(by, "unit") == 0;
	options->idle = strcmp(by, "idle") == 0;
	options->by_step = replay->compare.count != 0;
	options->kinds = TIMES;
}

static bool prepare(struct run *run, struct fsdp_recording_options *options)
{
	const struct replay_options *replay = run->options;

	if (replay->compare.count > 1 && replay->memory) {
		refuse(run, "compare with one of them",
			"--memory compares with one earlier snapshot");
		return false;
	}
	if (!checks_prepare(run, replay))
		return false;
	struct prepared *prepared = calloc(1, sizeof *prepared);

	run->prepared = prepared;
	if (prepared == NULL) {
		run_failure(run, "memory", NULL, "out of memory");
		return false;
	}
	if (replay->steps != NULL &&
		!read_steps(replay->steps, prepared, &options->step_range_count)) {
		refuse(run, "numbers and ranges: 3,10-19", "--steps '%s' cannot be read",
			replay->steps);
		return false;
	}
	if (replay->timeline > 0 && replay->timeline != REPLAY_CELLS && !replay->memory) {
		refuse(run, "leave the number out",
			"--timeline=N needs --memory: of traces it always has sixty cells");
		return false;
	}
	prepared->range_count = options->step_range_count;
	options->steps = prepared->steps;
	options->timeline = replay->timeline > 0;
	options->spans = out_times(run->out);
	note_missing_table(run, replay, options);
	if (replay->memory)
		options->kinds = 1u << FSDP_RECORDING_MEMORY;
	return recordings_rank_regex(
		run, replay->rank_regex, options, &prepared->pattern);
}

static bool is_answerable(struct replay *replay)
{
	static const struct {
		const char *command, *what;
	} others[FSDP_RECORDING_KIND_COUNT] = {
		[FSDP_RECORDING_FX_ORDER] = { "order",
			"an execution-order log without timings" },
		[FSDP_RECORDING_EXEC_ORDER] = { "order",
			"an execution-order log without timings" },
		[FSDP_RECORDING_FLIGHT] = { "order",
			"a Flight Recorder dump: fsdp-inspect order shows which ranks wait" },
		[FSDP_RECORDING_WATCHDOG] = { "order",
			"a log of failed collectives: fsdp-inspect order shows which ranks wait" },
		[FSDP_RECORDING_MEMORY] = { "replay --memory",
			"a snapshot of CUDA memory: it records no times of calls" },
	};

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);
		char hint[512];

		if (others[one->kind].what != NULL) {
			snprintf(hint, sizeof hint, "fsdp-inspect %s %s",
				others[one->kind].command, one->path);
			refuse(replay->run, hint, "%s is %s", one->path,
				others[one->kind].what);
			return false;
		}
		replay->has_traces |= one->kind == FSDP_RECORDING_KINETO;
	}
	if (replay->options->steps != NULL && replay_step_count(replay) == 0) {
		refuse(replay->run, "replay --by=step shows which there are",
			"step %s is not in the recordings", replay->options->steps);
		return false;
	}
	return true;
}

static int status_of(struct replay *replay)
{
	struct replay_lack lack = replay_find_lack(replay);
	int status = STATUS_GOOD;
	bool is_unusual = false;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);

		/* Or it has events of kinds that are not known, and none of a device. */
		if (one->truncated || one->dropped != 0 ||
			one->trailing_data_at != FSDP_ABSENT ||
			one->bad_line_count != 0 ||
			(one->unknown_count != 0 && !one->has_device))
			status = status_worse(status, STATUS_PARTIAL);
		is_unusual |= one->deviation_count != 0 || one->problem_count != 0;
	}
	for (size_t i = 0; i < replay->run_count; i++)
		if (fsdp_recordings_matching(fsdp_recordings_run(replay->recordings, i))
				->stopped != FSDP_ABSENT)
			status = status_worse(status, STATUS_PARTIAL);
	if (lack.all && !lack.empty)
		status = status_worse(status, STATUS_PARTIAL);
	if (replay->options->strict && is_unusual)
		status = status_worse(status, STATUS_BAD);
	if (replay->before != NULL && fsdp_recordings_error_count(replay->before) != 0)
		status = status_worse(status, STATUS_PARTIAL);
	return status_worse(status, checks_evaluate(replay));
}

static void add_note(void *context, const char *sentence)
{
	run_note(context, "%s", sentence);
}

/* ---- something earlier ---- */

/* False: *ret_error, or out of memory. *ret_refused: refuse() was called. */
static bool open_earlier(struct replay *replay, struct trace_paths *paths,
	bool *ret_refused, struct fsdp_error **ret_error)
{
	struct run *run = replay->run;
	const struct prepared *prepared = run->prepared;
	struct fsdp_recording_options options = { .size = sizeof options,
		.remote = helper_remote(),
		.limits = run->limits,
		.limit_count = run->limit_count,
		.jobs = jobs_wanted(run->common),
		.steps = prepared->steps,
		.step_range_count = prepared->range_count,
		.rank_of = prepared->pattern != NULL ? rank_pattern_find : NULL,
		.context = prepared->pattern,
		.folder = paths->of_folder };
	struct fsdp_recordings *before = NULL;
	struct fsdp_error *error = NULL;
	unsigned tables = 1u << FSDP_ROWS_OF_STEP | 1u << FSDP_ROWS_OF_TYPE;

	note_missing_table(run, replay->options, &options);
	if (!fsdp_recordings_read((const char *const *)paths->items, paths->count,
		    &options, &before, &error)) {
		const char *kind = error != NULL ? fsdp_error_kind(error) : NULL;

		if (paths->count != 1 || kind == NULL ||
			strcmp(kind, "no_trace_events") != 0)
			return (*ret_error = error), false;
		fsdp_error_free(error);
		return fsdp_replay_baseline_open(
			helper_remote(), paths->items[0], &replay->baseline, ret_error);
	}
	for (size_t i = 0; i < fsdp_recording_count(before) && !*ret_refused; i++)
		if ((TIMES >> fsdp_recording(before, i)->kind & 1) == 0)
			*ret_refused = refuse(run,
				"compare with recordings of times, or a result of replay --json",
				"%s is not a recording of times",
				fsdp_recording(before, i)->path);
	if (*ret_refused) {
		fsdp_recordings_free(before);
		return true;
	}
	/* Files that could not be read do not hide the others, and a directory may
	 * contain other files. */
	const char *path = fsdp_recordings_skipped(before, 0);
	size_t count = 0;
	for (size_t i = 0; i < fsdp_recordings_error_count(before); i++)
		collected_error(replay->run->collected, fsdp_recordings_error(before, i),
			UINT32_MAX);
	while (fsdp_recordings_skipped(before, count) != NULL)
		count++;
	if (count == 1)
		run_note(replay->run,
			"%s is not compared: it is not a recording of times", path);
	else if (count > 1)
		run_note(replay->run,
			"%s and %zu more are not compared: they are not recordings of times",
			path, count - 1);
	replay->before = before;
	for (unsigned i = 0; i < FSDP_ROWS_OF_COUNT; i++)
		if (replay_shows_only(
			    replay, fsdp_row_table_name((enum fsdp_row_table)i)))
			tables = 1u << i;
	return fsdp_recordings_compare(
		before, replay->recordings, tables, &replay->comparison);
}

/* Standard input is a result: recordings may be read twice. */
static bool open_compared(
	struct replay *replay, bool *ret_refused, struct fsdp_error **ret_error)
{
	const struct texts *names = &replay->options->compare;
	struct trace_paths paths = { 0 };
	bool good = true;

	if (names->count == 1 && strcmp(names->items[0], "-") == 0)
		return fsdp_replay_baseline_open(NULL, "-", &replay->baseline, ret_error);
	for (size_t i = 0; good && i < names->count; i++)
		good = trace_paths_add(&paths, names->items[i]);
	if (good && names->count != 0)
		good = open_earlier(replay, &paths, ret_refused, ret_error);
	if (replay->before == NULL)
		trace_paths_done(&paths);
	else
		replay->compared_paths = paths;
	return good;
}

static bool run_replay(struct run *run, struct fsdp_error **ret_error)
{
	struct replay replay = { .run = run,
		.options = run->options,
		.recordings = run->recordings,
		.count = fsdp_recording_count(run->recordings),
		.run_count = fsdp_recordings_run_count(run->recordings) };
	bool good = true, refused = false;

	if (replay.options->memory)
		return replay_memory(&replay, ret_error);
	if (!is_answerable(&replay))
		return true;
	if (!open_compared(&replay, &refused, ret_error) || refused) {
		free(replay.comparison.rows);
		fsdp_recordings_free(replay.before);
		trace_paths_done(&replay.compared_paths);
		return refused;
	}
	fsdp_recordings_notes(replay.recordings, add_note, run);
	run_begin(run, status_of(&replay));
	if (run->status != STATUS_FAILED) {
		good = time_lanes_write(run, replay.recordings);
		good = replay_list(&replay) && good;
		good = replay_show_text(&replay) && good;
		comparison_show_result(&replay);
		replay_put_data(&replay);
	}
	replay_list_free(&replay);
	fsdp_replay_baseline_free(replay.baseline);
	free(replay.comparison.rows);
	fsdp_recordings_free(replay.before);
	trace_paths_done(&replay.compared_paths);
	return good;
}

const struct command command_replay = {
	.name = "replay",
	.group = GROUP_TRACE,
	.summary = "show where training step time is spent",
	.synopsis =
		"[--by=KEY] [--memory] [--top=N] [--percentiles] [--fail-if=EXPR] [--compare=FILE] TRACE...",
	.examples = { "replay trace-rank*.json.gz",
		"replay --fail-if 'exposed>20%' --compare last.json rank*.json",
		"replay --by=kernel --compare before/ after/" },
	.exit_1 = "a --fail-if condition is met, or (--strict) a warning",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_TABLE | SHAPE_SPANS,
	.answer = &replay_answer,
	.output = "text",
	.inputs = INPUTS_RECORDINGS,
	.options_size = sizeof(struct replay_options),
	.prepare = prepare,
	.release = release,
	.run = run_replay,
};
