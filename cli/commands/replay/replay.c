/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows where the time of a run went: by type, rank, step and collective. The library
 * reads recordings and adds them up. People see lines on the input and tables in
 * milliseconds.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args/select.h"
#include "commands/replay/replay.h"
#include "shared/recordings.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- thresholds: everything is compared as integers ---- */

enum { MILLION = 1000000 };

/* Sums and products of times that 64 bits do not hold. */
__extension__ typedef __int128 wide;

/*
 * What --fail-if says: NAME>VALUE. NAME is exposed, idle, straggler (VALUE in %), dropped
 * (a number), or a type (a time, or a factor of an earlier result: 50ms, 1.2x).
 */
enum check_unit { CHECK_PERCENT, CHECK_TIME, CHECK_FACTOR, CHECK_NUMBER };

struct check {
	const char *text; /* as typed */
	struct text name;
	enum check_unit unit;
	int64_t value; /* millionths; of a time nanoseconds */
};

/* A decimal in millionths of it; places beyond these do not count. */
static bool read_decimal(const char **at, int64_t *ret_millionths)
{
	const char *begin = *at;
	wide value = 0, place = MILLION;
	bool point = false;

	for (; is_digit(**at) || (**at == '.' && !point && *at != begin); (*at)++) {
		if (**at == '.')
			point = true;
		else if (point)
			value += (**at - '0') * (place /= 10);
		else
			value = value * 10 + (**at - '0') * MILLION;
		if (value > INT64_MAX)
			return false;
	}
	*ret_millionths = (int64_t)value;
	return *at != begin;
}

/* What follows a value; ns: of one. */
static const struct {
	const char *name;
	enum check_unit unit;
	int64_t ns;
} UNITS[] = { { "%", CHECK_PERCENT, 0 }, { "x", CHECK_FACTOR, 0 },
	{ "", CHECK_NUMBER, 0 }, { "ns", CHECK_TIME, 1 }, { "us", CHECK_TIME, 1000 },
	{ "ms", CHECK_TIME, 1000000 }, { "s", CHECK_TIME, 1000000000 } };

/* Names with a unit of their own; types have a time or a factor. */
static const struct {
	const char *name;
	enum check_unit unit;
} NAMES[] = { { "exposed", CHECK_PERCENT }, { "idle", CHECK_PERCENT },
	{ "straggler", CHECK_PERCENT }, { "dropped", CHECK_NUMBER } };

static bool read_check(const char *text, struct check *check)
{
	const char *sign = strrchr(text, '>'), *at = sign;
	size_t i = 0;
	wide ns;

	if (sign == NULL || sign == text)
		return false;
	*check = (struct check){ .text = text, .name = { text, (size_t)(sign - text) } };
	while (check->name.size > 0 && check->name.data[check->name.size - 1] == ' ')
		check->name.size--;
	at += 1 + strspn(at + 1, " ");
	if (!read_decimal(&at, &check->value))
		return false;
	while (i < sizeof UNITS / sizeof *UNITS && strcmp(at, UNITS[i].name) != 0)
		i++;
	if (i == sizeof UNITS / sizeof *UNITS)
		return false;
	check->unit = UNITS[i].unit;
	ns = (wide)check->value * UNITS[i].ns / MILLION;
	if (ns > INT64_MAX)
		return false;
	if (check->unit == CHECK_TIME)
		check->value = (int64_t)ns;
	for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++)
		if (text_is(check->name, text_of(NAMES[k].name)))
			return check->unit == NAMES[k].unit;
	return check->unit == CHECK_TIME || check->unit == CHECK_FACTOR;
}

enum { MOST_RANKS = 8, MOST_LOSSES = 4 };

/* The checked value, and by how much each rank exceeds it. */
struct threshold {
	const struct replay *replay;
	const struct check *check;
	bool known; /* something was compared */
	char text[480];
	size_t used, bad_count;
};

/* One comparison; the words are for a value that exceeds. */
__attribute__((format(printf, 3, 4))) static void compare(
	struct threshold *limit, bool exceeds, const char *format, ...)
{
	size_t room = sizeof limit->text - limit->used;
	va_list arguments;
	int size;

	limit->known = true;
	if (!exceeds || limit->bad_count++ >= MOST_RANKS)
		return;
	if (limit->bad_count > 1 && room > 3) {
		memcpy(limit->text + limit->used, ", ", 3);
		limit->used += 2;
		room -= 2;
	}
	va_start(arguments, format);
	size = vsnprintf(limit->text + limit->used, room, format, arguments);
	va_end(arguments);
	limit->used += size < 0 ? 0 : (size_t)size < room ? (size_t)size : room - 1;
}

static double percent_of(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part * 100 / (double)whole : 0;
}

/* part / whole > percent, in millionths. */
static bool is_above(int64_t part, int64_t whole, int64_t percent)
{
	return (wide)part * 100 * MILLION > (wide)percent * (wide)whole;
}

/* Of each rank: a share of the time of the device, lost events, the sum of a type. */
static void check_ranks(struct threshold *limit)
{
	const struct check *check = limit->check;
	bool idle = text_is(check->name, text_of("idle"));
	char part[HUMAN_ROOM], whole[HUMAN_ROOM];

	for (size_t i = 0; i < limit->replay->count; i++) {
		const struct fsdp_recording *one =
			fsdp_recording_by_rank(limit->replay->recordings, i);
		const struct fsdp_device_times *base = &one->base;
		const struct fsdp_type_times *type = fsdp_type_find(
			one->types, one->type_count, span_of_text(check->name));
		int64_t ns = idle ? base->idle_ns : base->exposed_ns; /* or absent */

		if (check->unit == CHECK_NUMBER)
			compare(limit, one->dropped > (uint64_t)(check->value / MILLION),
				"rank %" PRId64 " %" PRIu64 " of %" PRIu64 " events",
				one->rank, one->dropped, one->events + one->dropped);
		else if (check->unit == CHECK_PERCENT && one->has_device &&
			 ns != FSDP_ABSENT)
			compare(limit, is_above(ns, base->span_ns, check->value),
				"rank %" PRId64 " %.1f %% (%s of %s ms)", one->rank,
				percent_of(ns, base->span_ns), human_ms(ns, part),
				human_ms(base->span_ns, whole));
		else if (check->unit == CHECK_TIME && type != NULL &&
			 type->times.sum_ns != FSDP_ABSENT)
			compare(limit, type->times.sum_ns > check->value,
				"rank %" PRId64 " %s ms", one->rank,
				human_ms(type->times.sum_ns, part));
	}
}

/* What a type took before, and takes now: of recordings in a step, of results in all. */
static void check_factor(struct threshold *limit)
{
	const struct replay *replay = limit->replay;
	struct text name = limit->check->name;
	int64_t before = FSDP_ABSENT, now = FSDP_ABSENT;
	struct fsdp_replay_baseline_type earlier;
	const struct fsdp_type_times *type = fsdp_type_find(
		replay->summary->types, replay->summary->type_count, span_of_text(name));
	char shown[2][HUMAN_ROOM];

	if (replay->before == NULL ||
		!comparison_find_type(&replay->comparison, name, &before, &now)) {
		before = now = FSDP_ABSENT;
		if (comparison_find_earlier(replay, name, &earlier))
			before = earlier.sum_ns;
		if (type != NULL)
			now = type->times.sum_ns;
	}
	if (before == FSDP_ABSENT || now == FSDP_ABSENT)
		return;
	compare(limit, (wide)now * MILLION > (wide)before * (wide)limit->check->value,
		"%s ms now, %s ms before (%.2fx)", human_ms(now, shown[0]),
		human_ms(before, shown[1]),
		before > 0 ? (double)now / (double)before : 0);
}

/* Those that hold are findings. Returns the status: bad, or failed where something is
 * asked of what is not there. */
static int evaluate_checks(struct replay *replay)
{
	const struct texts *texts = &replay->options->fail_if;
	int status = STATUS_GOOD;

	for (size_t i = 0; i < texts->count; i++) {
		struct check check;
		struct threshold limit = { .replay = replay, .check = &check };
		char more[48] = "";

		if (!read_check(texts->items[i], &check))
			continue;
		if (text_is(check.name, text_of("straggler"))) {
			/* Of each run: what the others wait for the straggler, as a share
			 * of their time. */
			const struct fsdp_recordings *all = limit.replay->recordings;

			for (size_t k = 0; k < fsdp_recordings_run_count(all); k++) {
				const struct fsdp_recordings *one =
					fsdp_recordings_run(all, k);
				const struct fsdp_matching *matching =
					&fsdp_recordings_summary(one)->matching;
				struct fsdp_cost cost = fsdp_recordings_cost(one);

				if (matching->match_count == 0 || !matching->aligned)
					continue;
				compare(&limit,
					cost.least_waiting != FSDP_ABSENT &&
						is_above(cost.waits_ns, cost.waiting_ns,
							limit.check->value),
					"the others wait for rank %" PRId64
					" %.1f %% of their time",
					cost.least_waiting,
					percent_of(cost.waits_ns, cost.waiting_ns));
			}
		} else if (check.unit == CHECK_FACTOR)
			check_factor(&limit);
		else
			check_ranks(&limit);
		if (limit.bad_count > MOST_RANKS)
			snprintf(more, sizeof more, ", and %zu more rank%s",
				limit.bad_count - MOST_RANKS,
				limit.bad_count - MOST_RANKS == 1 ? "" : "s");
		if (limit.bad_count != 0) {
			run_finding(replay->run, "FI7031", NULL, "%s: %s%s", check.text,
				limit.text, more);
			status = status_worse(status, STATUS_BAD);
		}
		if (limit.known)
			continue;
		run_failure(replay->run, "usage", NULL,
			"cannot evaluate --fail-if '%s': no %.*s %s", check.text,
			(int)check.name.size, check.name.data,
			check.unit == CHECK_FACTOR ? "here or in the result of --compare"
						   : "here");
		status = STATUS_FAILED;
	}
	return status;
}

/* Whether --fail-if can be read, and what it needs is there; else it is refused. */
static bool prepare_checks(struct run *run, const struct replay_options *options)
{
	for (size_t i = 0; i < options->fail_if.count; i++) {
		const char *text = options->fail_if.items[i];
		struct check check;

		if (!read_check(text, &check))
			return !refuse(run,
				"exposed>20%, idle>30%, straggler>50%, dropped>0, TYPE>50ms, TYPE>1.2x",
				"--fail-if '%s' cannot be read", text);
		if (check.unit == CHECK_FACTOR && options->compare.count == 0)
			return !refuse(run,
				"add --compare=FILE: earlier recordings, or a result of replay --json",
				"--fail-if '%s' needs --compare and earlier results",
				text);
	}
	return true;
}

/* ---- options ---- */

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
		.help = "print where most time is lost" },
	{ "memory", 0, OPTION_FLAG, NULL, AT(memory),
		.help = "read memory snapshots: used memory by stack" },
	{ "percentiles", 0, OPTION_FLAG, NULL, AT(percentiles),
		.help = "show min, p50, p95 and max time per call" },
	{ "steps", 0, OPTION_TEXT, "LIST", AT(steps),
		.help = "use only these steps: 3,10-19" },
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
	if (!prepare_checks(run, replay))
		return false;
	run->prepared = prepared = memory_new(1, sizeof *prepared);
	prepared->steps = memory_new(room, 2 * sizeof *prepared->steps);
	if (replay->steps != NULL)
		options->step_range_count = read_steps(replay->steps, prepared->steps);
	if (replay->steps != NULL && options->step_range_count == 0)
		return !refuse(run, "numbers and ranges: 3,10-19",
			"--steps '%s' cannot be read", replay->steps);
	if (replay->timeline > 0 && replay->timeline != REPLAY_CELLS && !replay->memory)
		return !refuse(run, "omit the number",
			"--timeline=N needs --memory: a timeline of a trace has sixty cells");
	options->steps = prepared->steps;
	options->timeline = replay->timeline > 0;
	options->spans = out_times(run->out) || advises || strcmp(by, "group") == 0;
	options->clocks = out_times(run->out);
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

/* ---- the first lines ---- */

/* Three digits, in the unit that suits `like`. */
static const char *format_time(int64_t ns, int64_t like, bool unit, char buffer[32])
{
	static const struct {
		double ns;
		const char *name;
	} units[] = { { 1e9, " s" }, { 1e6, " ms" }, { 1e3, " us" }, { 1, " ns" } };
	size_t i = 0;
	double value;

	while (i < 3 && (double)like < units[i].ns)
		i++;
	value = (double)ns / units[i].ns;
	snprintf(buffer, 32, "%.*f%s",
		value >= 100  ? 0
		: value >= 10 ? 1
			      : 2,
		value, unit ? units[i].name : "");
	return buffer;
}

static void show_cost(struct replay *replay, const struct fsdp_cost *cost)
{
	const struct fsdp_recording *one;
	struct out *out = replay->run->out;
	char mean[32], least[32], most[32];
	size_t longest = 0;
	bool is_single = true;

	if (cost->steps == 0)
		return;
	/* One rank is the slow one if no other has a step that is nearly as long. */
	for (size_t i = 0; (one = fsdp_recording_by_rank(replay->recordings, i)) != NULL;
		i++) {
		const struct fsdp_type_times *steps = fsdp_type_find(
			one->types, one->type_count, span_of_text(text_of("all")));

		longest += steps != NULL &&
			   steps->times.max_ns >= cost->max_ns - cost->max_ns / 20;
		is_single &= steps != NULL && steps->times.count == 1;
	}
	format_time(cost->min_ns, cost->mean_ns, false, least);
	format_time(cost->max_ns, cost->mean_ns, false, most);
	out_line_begin(out, NULL);
	out_line_text(out, "%s %s", cost->marked ? "step time" : "recorded",
		format_time(cost->mean_ns, cost->mean_ns, true, mean));
	if (cost->steps > 1 && strcmp(least, most) == 0)
		out_line_text(
			out, is_single ? " (equal on all ranks)" : " (all steps equal)");
	else if (cost->steps > 1)
		out_values(out, " (min {}, max {}[ on rank {}])", value_word(least),
			value_word(most),
			replay->count > 1 && longest == 1 ? value_integer(cost->max_rank)
							  : value_absent());
	if (!cost->has_device)
		out_line_text(out,
			": no GPU kernels%s in the trace, so compute and idle time are unknown",
			cost->only_calls ? " but those of collectives" : "");
	if (cost->has_device && !cost->marked)
		out_line_text(out, ": the GPU worked in %s of %s",
			format_time(cost->busy_ns, cost->span_ns, false, least),
			format_time(cost->span_ns, cost->span_ns, true, most));
	const struct {
		const char *name;
		double share;
		bool hidden;
	} shares[] = { { cost->marked ? ": compute" : "; compute", cost->compute, false },
		{ ", exposed communication", cost->exposed, cost->comm_on_host },
		{ ", copies", cost->copies, cost->copies < 0.5 },
		{ ", idle", cost->idle, false } };
	for (size_t i = 0; cost->has_device && i < sizeof shares / sizeof *shares; i++)
		if (!shares[i].hidden)
			out_line_text(out, "%s %.0f %%", shares[i].name, shares[i].share);
	for (size_t i = 0; (one = fsdp_recording_by_rank(replay->recordings, i)) != NULL;
		i++)
		if (one->truncated)
			out_line_text(out, "; rank %" PRId64 " is truncated", one->rank);
	out_line_end(out);
}

static void line_inputs(struct replay *replay)
{
	const struct fsdp_recording *first =
		fsdp_recording_by_rank(replay->recordings, 0);
	const struct fsdp_totals *all = &replay->totals;
	struct out *out = replay->run->out;

	if (!all->has_traces)
		out_values_line(out, NULL,
			"{} recording{s} of SimpleProfiler, {} dump{s}[ (--style=torch prints {})]",
			value_count(replay->count), value_count(all->dumps),
			value_word(all->dumps == 0   ? NULL
				   : all->dumps == 1 ? "it"
						     : "them"));
	else
		out_values_line(out, NULL,
			"{} rank{s}[ ({})], [{} step{s}]{}; [{} collective call{s}{}, timed on the {}]{}[, {} of an unknown type]",
			value_count(replay->count),
			value_name(text_of_span(first->backend)),
			value_some(first->step_count),
			value_word(
				first->step_count != 0
					? ""
					: "no steps (schedule= and p.step() mark them)"),
			value_count(all->collectives),
			value_word(replay->count > 1 ? " of all ranks" : ""),
			value_word(all->layer == FSDP_LAYER_NONE     ? NULL
				   : all->layer == FSDP_LAYER_DEVICE ? "GPU"
								     : "host"),
			value_word(all->layer != FSDP_LAYER_NONE ? "" : "no collectives"),
			all->layer == FSDP_LAYER_NONE
				? value_absent()
				: value_some(all->resolution[FSDP_BY_NONE]));
}

/* ---- the timeline ---- */

static const struct {
	const char *name;
	char mark;
} MARKS[] = {
	{ "all_gather", 'G' },
	{ "reduce_scatter", 'R' },
	{ "all_reduce", 'A' },
	{ "broadcast", 'B' },
	{ "reduce", 'D' },
	{ "all_to_all", 'T' },
	{ "send_recv", 'S' },
	{ "gather", 'g' },
	{ "scatter", 's' },
	{ "barrier", 'b' },
	{ "coalesced", 'c' },
	{ "comm_unknown", '?' },
	{ "compute", '#' },
	{ "H2D", '>' },
	{ "D2H", '<' },
	{ "D2D", '=' },
	{ "P2P", '+' },
	{ "HtoH", '-' },
	{ "memset", '0' },
	{ "idle", '.' },
};
enum { MARK_COUNT = sizeof MARKS / sizeof *MARKS };

static void show_timeline(struct replay *replay)
{
	const struct fsdp_timeline *timeline = &replay->summary->timeline;
	struct out *out = replay->run->out;
	bool used[MARK_COUNT + 1] = { false };
	const struct fsdp_recording *one;
	const char *gap = "";

	if (timeline->cell_count == 0 && replay->options->timeline > 0)
		out_line(out, NULL,
			"no timeline: no kernel, copy or collective was timed (fsdp-inspect help trace)");
	if (timeline->cell_count == 0)
		return;
	out_line(out, NULL, "%s", "");
	out_values_line(out, NULL, "RANK  {} cells of {} ms{}",
		value_count(timeline->cell_count), value_ns(timeline->cell_ns),
		value_word(timeline->begin_ns != FSDP_ABSENT
				   ? ""
				   : ", each rank from its own start"));
	for (size_t i = 0; (one = fsdp_recording_by_rank(replay->recordings, i)) != NULL;
		i++) {
		char strip[256];
		size_t size = 0, mark;

		if (one->timeline == NULL)
			continue;
		/* Nothing follows the last mark. */
		for (size_t k = 0; k < timeline->cell_count && k < sizeof strip; k++) {
			for (mark = 0; mark < MARK_COUNT &&
				       !text_is(text_of_span(one->timeline[k]),
					       text_of(MARKS[mark].name));)
				mark++;
			strip[k] = mark < MARK_COUNT ? MARKS[mark].mark : ' ';
			size = mark < MARK_COUNT ? k + 1 : size;
			used[mark] = true;
		}
		out_line(out, NULL, "%4" PRId64 "  %.*s", one->rank, (int)size, strip);
	}
	out_line_begin(out, NULL);
	out_line_text(out, "      ");
	for (size_t i = 0; i < MARK_COUNT; i++) {
		if (!used[i])
			continue;
		out_line_text(out, "%s%c %s", gap, MARKS[i].mark, MARKS[i].name);
		gap = "  ";
	}
	out_line_end(out);
}

/* Whether calls of a rank overlap, so that their times add up to more than the time in
 * which any of them ran. */
static bool do_calls_overlap(const struct replay *replay)
{
	const struct fsdp_recording *one;

	for (size_t i = 0; (one = fsdp_recording_by_rank(replay->recordings, i)) != NULL;
		i++) {
		/* Calls outside of steps are in the sums of types too. */
		int64_t busy_ns = one->layer == FSDP_LAYER_DEVICE
					  ? one->device.comm_busy_ns
					  : one->host_comm_busy_ns;
		double sum_ns = 0;

		for (size_t k = 0; strcmp(MARKS[k].name, "compute") != 0; k++) {
			const struct fsdp_type_times *times = fsdp_type_find(one->types,
				one->type_count, span_of_text(text_of(MARKS[k].name)));

			if (times != NULL && times->times.count != 0)
				sum_ns += (double)times->times.sum_ns;
		}
		if (busy_ns != FSDP_ABSENT && sum_ns > (double)busy_ns * 1.02)
			return true;
	}
	return false;
}

static void show_text(struct replay *replay)
{
	bool all = replay->options->by == NULL,
	     regions = replay_shows_only(replay, "region");
	struct out *out = replay->run->out;

	if (strcmp(replay->options->style, "torch") == 0) {
		for (size_t i = 0; i < replay->count; i++) {
			const struct fsdp_recording *one =
				fsdp_recording_by_rank(replay->recordings, i);
			for (size_t j = 0; j < one->dump_count; j++) {
				out_verbatim(replay->run->out,
					text_of_span(one->dumps[j].log_message));
				out_verbatim(replay->run->out, text_of("\n"));
			}
		}
		return;
	}
	const struct fsdp_totals *totals = &replay->totals;
	bool traces = totals->has_traces;
	if (!totals->has_times) {
		bool empty = traces && totals->events == 0;

		if (empty && totals->dropped != 0)
			out_values_line(out, NULL, "none of its {} elements is an event",
				value_count(totals->dropped));
		else
			out_values_line(out, NULL,
				"{}[: {} {} without category, as other profilers (XLA, rocprof) write them]",
				value_word(
					empty ? "trace has no events: was the profiler stopped before its first step?"
					: traces
						? "no operators, kernels or collectives were recorded: step times are unknown"
						: "log has no times of training steps: SimpleProfiler times optim_state_dict() and loading only"),
				value_some(traces && !empty ? totals->bare : 0),
				value_word(
					totals->bare == 1 ? "event is" : "events are"));
		out_line(out, NULL,
			"record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]); fsdp-inspect help trace");
		return;
	}
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		if (replay->run_count > 1)
			recordings_show_run(run.run->out, run.recordings, run.nth);
		if (traces)
			show_cost(&run, &replay->costs[i].cost);
		line_inputs(&run);
	}
	if (replay->before != NULL) {
		comparison_show(replay);
		return;
	}
	if (all || replay_shows_only(replay, "type") || regions)
		replay_show_types(replay, regions);
	if (traces && all)
		out_line(out, NULL, "%s", "");
	if (traces && (all || replay_shows_only(replay, "rank")))
		replay_show_ranks(replay);
	if (traces && all && do_calls_overlap(replay))
		out_line(out, NULL,
			"calls overlap: COMM BUSY counts such time once, TOTAL MS once per call");
	/* Tables that each run has for itself. */
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);

		if (replay->run_count > 1 &&
			(replay->options->timeline > 0 ||
				(!all && !regions && !replay_shows_only(replay, "type") &&
					!replay_shows_only(replay, "rank"))))
			recordings_show_run(run.run->out, run.recordings, run.nth);
		replay_show_table(&run);
		show_timeline(&run);
	}
	for (size_t i = replay->run_count > MOST_LOSSES ? replay->run_count - MOST_LOSSES
							: 0;
		traces && all && i < replay->run_count; i++) {
		const struct fsdp_loss *loss = &replay->costs[i].loss;

		if (loss->sentence[0] == '\0')
			continue;
		out_line_begin(out, NULL);
		out_values(out, "[run {}: ]{}",
			replay->run_count > 1 ? value_count(i + 1) : value_absent(),
			value_word(loss->kind != NULL && strcmp(loss->kind, "none") != 0
					   ? "most time lost: "
					   : ""));
		out_line_text(out, "%s", loss->sentence);
		out_line_end(out);
	}
}

/* ---- whether there is an answer ---- */

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

		if (others[one->kind].what == NULL)
			continue;
		/* Dumps of all ranks are compared. */
		const char *slash = strrchr(one->path, '/');
		snprintf(hint, sizeof hint, "fsdp-inspect %s %.*s",
			others[one->kind].command,
			one->kind == FSDP_RECORDING_FLIGHT && replay->count > 1 &&
					slash != NULL
				? (int)(slash - one->path)
				: (int)strlen(one->path),
			one->path);
		return !refuse(
			replay->run, hint, "%s is %s", one->path, others[one->kind].what);
	}
	return replay->options->steps == NULL || replay->totals.step_count != 0 ||
	       !refuse(replay->run, "replay --by=step shows which there are",
		       "step %s is not in the recordings", replay->options->steps);
}

static int status_of(struct replay *replay)
{
	const struct fsdp_totals *totals = &replay->totals;
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
		if (fsdp_recordings_summary(fsdp_recordings_run(replay->recordings, i))
				->matching.stopped != FSDP_ABSENT)
			status = status_worse(status, STATUS_PARTIAL);
	if (!totals->has_times && !(totals->has_traces && totals->events == 0))
		status = status_worse(status, STATUS_PARTIAL);
	if (replay->options->strict && is_unusual)
		status = status_worse(status, STATUS_BAD);
	if (replay->before != NULL && fsdp_recordings_error_count(replay->before) != 0)
		status = status_worse(status, STATUS_PARTIAL);
	return status_worse(status, evaluate_checks(replay));
}

static void add_note(void *context, const char *sentence)
{
	run_note(context, "%s", sentence);
}

/* ---- something earlier ---- */

/* Recordings, or a result. Standard input is a result: recordings may be read twice.
 * False: *ret_error, or out of memory. */
static bool open_compared(struct replay *replay, struct fsdp_error **ret_error)
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
		trace_paths_add(paths, names->items[i]);
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
			run_refuse(run,
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

/* All inputs are memory snapshots, and no option is about times. */
static bool is_memory_alone(const struct replay *replay)
{
	const struct replay_options *options = replay->options;
	bool is_alone = replay->count > 0 && options->by == NULL &&
			options->steps == NULL && options->compare.count == 0;

	for (size_t i = 0; i < replay->count; i++)
		is_alone = is_alone && fsdp_recording(replay->recordings, i)->kind ==
					       FSDP_RECORDING_MEMORY;
	return is_alone;
}

static void release_replay(void *object)
{
	struct replay *replay = object;

	free(replay->steps);
	free(replay->groups.items);
	free(replay->classes.items);
	free(replay->kernels.items);
	free(replay->causes.items);
	free(replay->idles.items);
	free(replay->idle_kinds.items);
	fsdp_replay_baseline_free(replay->baseline);
	free(replay->comparison.rows);
	fsdp_recordings_free(replay->before);
}

static bool run_replay(struct run *run, struct fsdp_error **ret_error)
{
	struct replay *replay = run_memory(run, 1, sizeof *replay);

	*replay = (struct replay){ .run = run,
		.options = run->options,
		.recordings = run->recordings,
		.summary = fsdp_recordings_summary(run->recordings),
		.totals = fsdp_recordings_totals(run->recordings),
		.count = fsdp_recording_count(run->recordings),
		.run_count = fsdp_recordings_run_count(run->recordings) };
	run_owns(run, replay, release_replay);
	if (replay->options->memory || is_memory_alone(replay))
		return replay_memory(replay, ret_error);
	if (!is_answerable(replay))
		return true;
	if (!open_compared(replay, ret_error))
		return false;
	fsdp_recordings_notes(replay->recordings, add_note, run);
	run_begin(run, status_of(replay));
	if (run->status == STATUS_FAILED)
		return true;
	time_lanes_write(run, replay->recordings);
	if (!replay_list(replay))
		return false;
	show_text(replay);
	comparison_show_result(replay);
	replay_put_data(replay);
	return true;
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
	.run = run_replay,
};
