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

/* How recordings are read, while it runs. */
struct prepared {
	struct fsdp_recording_options options;
	void *pattern;
	int64_t *steps;
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

/* "3,10-19" as pairs of first and last. Returns how many; 0: it cannot be read. */
static size_t read_steps(const char *text, int64_t *range)
{
	size_t count = 0;
	char *end;

	for (; *text != '\0'; count++, range += 2) {
		if (!is_digit(*text))
			return 0;
		range[0] = range[1] = strtoll(text, &end, 10);
		if (*end == '-') {
			if (!is_digit(end[1]))
				return 0;
			range[1] = strtoll(end + 1, &end, 10);
		}
		if ((*end != ',' && *end != '\0') || range[0] > range[1])
			return 0;
		text = end + (*end == ',');
	}
	return count;
}

static bool prepare(struct run *run, struct fsdp_recording_options *options)
{
	const struct replay_options *replay = run->options;
	const char *by = replay->by != NULL ? replay->by : "";
	size_t room = replay->steps != NULL ? strlen(replay->steps) + 1 : 1;
	/* The summary advises on what is exposed; JSON has it with every table. */
	bool advises = ((replay->by == NULL && replay->compare.count == 0) ||
			       answer_has_output(run, "json") ||
			       answer_has_output(run, "jsonl")) &&
		       strcmp(replay->advice, "no") != 0;
	struct prepared *prepared;

	if (replay->compare.count > 1 && replay->memory)
		return !refuse(run, "compare with one of them",
			"--memory compares with one earlier snapshot");
	if (!checks_prepare(run, replay))
		return false;
	run->prepared = prepared = calloc(1, sizeof *prepared);
	if (prepared != NULL)
		prepared->steps = calloc(room, 2 * sizeof *prepared->steps);
	if (prepared == NULL || prepared->steps == NULL) {
		run_failure(run, "memory", NULL, "out of memory");
		return false;
	}
	if (replay->steps != NULL)
		options->step_range_count = read_steps(replay->steps, prepared->steps);
	if (replay->steps != NULL && options->step_range_count == 0)
		return !refuse(run, "numbers and ranges: 3,10-19",
			"--steps '%s' cannot be read", replay->steps);
	if (replay->timeline > 0 && replay->timeline != REPLAY_CELLS && !replay->memory)
		return !refuse(run, "leave the number out",
			"--timeline=N needs --memory: of traces it always has sixty cells");
	options->steps = prepared->steps;
	options->timeline = replay->timeline > 0;
	options->spans = out_times(run->out) || advises || strcmp(by, "group") == 0;
	options->kernels = strcmp(by, "kernel") == 0;
	options->units = advises || strcmp(by, "unit") == 0;
	options->idle = strcmp(by, "idle") == 0;
	options->by_step = replay->compare.count != 0;
	options->kinds = replay->memory ? 1u << FSDP_RECORDING_MEMORY : TIMES;
	if (!recordings_rank_regex(run, replay->rank_regex, options, &prepared->pattern))
		return false;
	prepared->options = *options;
	return true;
}

struct fsdp_recording_options replay_reads_earlier(const struct replay *replay)
{
	struct fsdp_recording_options options =
		((const struct prepared *)replay->run->prepared)->options;

	options.timeline = false;
	options.progress = NULL;
	options.folder = false;
	return options;
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

		snprintf(hint, sizeof hint, "fsdp-inspect %s %s",
			others[one->kind].command, one->path);
		if (others[one->kind].what != NULL)
			return !refuse(replay->run, hint, "%s is %s", one->path,
				others[one->kind].what);
		replay->has_traces |= one->kind == FSDP_RECORDING_KINETO;
	}
	return replay->options->steps == NULL || replay_step_count(replay) != 0 ||
	       !refuse(replay->run, "replay --by=step shows which there are",
		       "step %s is not in the recordings", replay->options->steps);
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

/* Recordings, or a result. Standard input is a result: recordings may be read twice.
 * False: *ret_error, or out of memory. *ret_refused: refuse() was called. */
static bool open_compared(
	struct replay *replay, bool *ret_refused, struct fsdp_error **ret_error)
{
	const struct texts *names = &replay->options->compare;
	struct trace_paths *paths = &replay->compared_paths;
	unsigned tables = 1u << FSDP_ROWS_OF_STEP | 1u << FSDP_ROWS_OF_TYPE;
	struct run *run = replay->run;
	struct fsdp_error *error = NULL;
	size_t count = 0;

	if (names->count == 0)
		return true;
	if (names->count == 1 && strcmp(names->items[0], "-") == 0)
		return fsdp_replay_baseline_open(NULL, "-", &replay->baseline, ret_error);
	for (size_t i = 0; i < names->count; i++)
		if (!trace_paths_add(paths, names->items[i]))
			return false;
	struct fsdp_recording_options options = replay_reads_earlier(replay);
	options.folder = paths->of_folder;
	if (!fsdp_recordings_read((const char *const *)paths->items, paths->count,
		    &options, &replay->before, &error)) {
		const char *kind = error != NULL ? fsdp_error_kind(error) : NULL;

		if (paths->count != 1 || kind == NULL ||
			strcmp(kind, "no_trace_events") != 0)
			return (*ret_error = error), false;
		fsdp_error_free(error);
		return fsdp_replay_baseline_open(
			helper_remote(), paths->items[0], &replay->baseline, ret_error);
	}
	for (size_t i = 0; i < fsdp_recording_count(replay->before); i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->before, i);

		if ((TIMES >> one->kind & 1) == 0)
			return *ret_refused = refuse(run,
				       "compare with recordings of times, or a result of replay --json",
				       "%s is not a recording of times", one->path);
	}
	/* Files that could not be read do not hide the others, and a directory may
	 * contain other files. */
	for (size_t i = 0; i < fsdp_recordings_error_count(replay->before); i++)
		collected_error(run->collected, fsdp_recordings_error(replay->before, i),
			UINT32_MAX);
	while (fsdp_recordings_skipped(replay->before, count) != NULL)
		count++;
	if (count == 1)
		run_note(run, "%s is not compared: it is not a recording of times",
			fsdp_recordings_skipped(replay->before, 0));
	else if (count > 1)
		run_note(run,
			"%s and %zu more are not compared: they are not recordings of times",
			fsdp_recordings_skipped(replay->before, 0), count - 1);
	for (unsigned i = 0; i < FSDP_ROWS_OF_COUNT; i++)
		if (replay_shows_only(
			    replay, fsdp_row_table_name((enum fsdp_row_table)i)))
			tables = 1u << i;
	return fsdp_recordings_compare(
		replay->before, replay->recordings, tables, &replay->comparison);
}

static bool run_replay(struct run *run, struct fsdp_error **ret_error)
{
	struct replay replay = { .run = run,
		.options = run->options,
		.recordings = run->recordings,
		.count = fsdp_recording_count(run->recordings),
		.run_count = fsdp_recordings_run_count(run->recordings) };
	bool good, refused = false;

	if (replay.options->memory)
		return replay_memory(&replay, ret_error);
	if (!is_answerable(&replay))
		return true;
	good = open_compared(&replay, &refused, ret_error);
	if (good && !refused) {
		fsdp_recordings_notes(replay.recordings, add_note, run);
		run_begin(run, status_of(&replay));
	}
	if (good && !refused && run->status != STATUS_FAILED) {
		good = time_lanes_write(run, replay.recordings);
		good = replay_list(&replay) && good;
		good = replay_show_text(&replay) && good;
		good = comparison_show_result(&replay) && good;
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
