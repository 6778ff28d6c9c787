/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the newest checkpoint of a run that passes an audit.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/latest/latest.h"
#include "render/human.h"
#include "run/answer.h"

static const char *const level_words[] = { "quick", "headers", "data", NULL };

#define AT(member) offsetof(struct latest_options, member)
static const struct option OPTIONS[] = {
	{ "level", 0, OPTION_WORD, "LEVEL", AT(level), level_words, .initial = "quick",
		.help = "how closely to look: names and sizes, all headers, every byte" },
	{ "explain", 0, OPTION_FLAG, NULL, AT(explain),
		.help = "a table: what newer ones lack" },
	{ "all", 0, OPTION_FLAG, NULL, AT(all),
		.help = "a table of all, with their bytes" },
	{ "count", 0, OPTION_INTEGER, "N", AT(count), .minimum = 1, .maximum = 1000000,
		.initial = "1", .help = "name the N newest that are good" },
	{ NULL },
};

static enum fsdp_level level_of(const char *word)
{
	return strcmp(word, "data") == 0      ? FSDP_LEVEL_DATA
	       : strcmp(word, "headers") == 0 ? FSDP_LEVEL_HEADERS
					      : FSDP_LEVEL_QUICK;
}

/* ---- one ---- */

static bool is_good(const struct run_candidate *candidate)
{
	return strcmp(candidate->result, "good") == 0;
}

/* All of them, for their steps: what fails here fails at any level. */
static bool judge_all(struct latest *latest, struct fsdp_error **ret_error)
{
	bool good = true;

	for (size_t i = 0; i < latest->count && good;) {
		good = candidate_judge(
			&latest->candidates[i], latest->run, FSDP_LEVEL_QUICK, ret_error);
		if (good && latest->candidates[i].is_several)
			good = candidate_divide(latest, i);
		else
			i++;
	}
	return good;
}

/* The newest first, more closely, until there are enough. */
static bool choose(struct latest *latest, struct fsdp_error **ret_error)
{
	size_t wanted = (size_t)latest->options->count;
	bool good = true;

	for (size_t i = 0; i < latest->count && good; i++) {
		struct run_candidate *candidate = &latest->candidates[i];

		if (latest->named == wanted && !latest->options->all)
			break;
		if (latest->level > FSDP_LEVEL_QUICK && is_good(candidate))
			good = candidate_judge(
				candidate, latest->run, latest->level, ret_error);
		candidate->is_named = latest->named < wanted && is_good(candidate);
		latest->named += candidate->is_named;
		latest->shown = i + 1;
	}
	return good;
}

/* ---- messages beside it ---- */

static void tell_failure(struct run *run, const struct run_candidate *candidate)
{
	const struct failure *from = &candidate->own.failures[0];
	struct failure *failure = collected_failure(run->collected, from->code);

	if (failure == NULL)
		return;
	failure->rule = from->rule;
	failure->input = candidate->input;
	failure->path = collected_text(run->collected, candidate->path);
	failure->message = collected_text(run->collected, from->message.data);
}

/* One that could not be read may be newer than its name tells, and good. */
static void tell_partial(struct latest *latest)
{
	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].own.failure_count > 0)
			tell_failure(latest->run, &latest->candidates[i]);
}

static void tell_release(struct latest *latest)
{
	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].is_named && latest->candidates[i].is_release)
			run_note(latest->run, "%s: " LATEST_RELEASE,
				latest->candidates[i].path);
}

/* Whether nothing is wrong but that classes are built which are on no list. */
static bool only_builds(const struct run_candidate *candidate)
{
	bool builds = false;

	for (size_t i = 0; i < candidate->own.finding_count; i++) {
		const struct finding *finding = &candidate->own.findings[i];

		if (finding->severity == SEVERITY_ERROR)
			return false;
		builds |= strcmp(finding->rule, "FI3018") == 0;
	}
	return builds;
}

static void tell_none(struct latest *latest)
{
	const char *path = latest->run->path;

	if (latest->named > 0)
		return;
	if (latest->count == 0) {
		run_note(latest->run,
			"no checkpoint lies below %s; fsdp-inspect info shows what a file is",
			path);
		return;
	}
	if (latest->options->explain || latest->options->all)
		return;
	run_note(latest->run, "none of %zu is good; the newest, %s, is %s: %s",
		latest->count, latest->candidates[0].path, latest->candidates[0].result,
		latest->candidates[0].why);
	if (only_builds(&latest->candidates[0]))
		run_note(latest->run,
			"nothing else is wrong with it: the program that has these classes loads it, torch.load only with weights_only=False, which runs what is in it");
	if (latest->count > 1)
		run_note(latest->run,
			"fsdp-inspect latest --explain %s lists all of them", path);
}

/* What all but the newest that is good cost. */
static void tell_cost(struct latest *latest)
{
	uint64_t all = 0, old = 0;
	char total[HUMAN_ROOM], rest[HUMAN_ROOM];

	if (!latest->options->all)
		return;
	for (size_t i = 0; i < latest->count; i++) {
		const struct run_candidate *candidate = &latest->candidates[i];
		uint64_t bytes = candidate->bytes != UINT64_MAX ? candidate->bytes : 0;

		if (__builtin_add_overflow(all, bytes, &all))
			return;
		old += candidate->is_named ? 0 : bytes;
	}
	run_total(latest->run, "%zu checkpoint%s, %s; %s of that in those without *",
		latest->count, latest->count == 1 ? "" : "s",
		out_bytes(latest->run->out, all, total),
		out_bytes(latest->run->out, old, rest));
}

/* Nothing could be judged, nothing is good, or something newer could be. */
static int status_of(const struct latest *latest)
{
	bool blind = latest->count > 0 || latest->is_blind;
	bool partial = false;

	for (size_t i = 0; i < latest->count; i++) {
		blind &= strcmp(latest->candidates[i].result, "partial") == 0 &&
			 latest->candidates[i].own.failure_count > 0;
		partial |= latest->candidates[i].own.failure_count > 0;
	}
	return blind                ? STATUS_FAILED
	       : latest->named == 0 ? STATUS_BAD
	       : partial            ? STATUS_PARTIAL
				    : STATUS_GOOD;
}

static void done(struct latest *latest)
{
	for (size_t i = 0; i < latest->count; i++)
		collected_done(&latest->candidates[i].own);
	for (size_t i = 0; i < latest->below_count; i++)
		fsdp_below_free(latest->belows[i]);
	free(latest->candidates);
	free(latest->pointers);
	free(latest->belows);
}

static bool run_latest(struct run *run, struct fsdp_error **ret_error)
{
	const struct latest_options *options = run->options;
	struct latest latest = {
		.run = run, .options = options, .level = level_of(options->level)
	};
	bool good = candidates_find(&latest) && judge_all(&latest, ret_error);

	if (good) {
		candidates_sort(&latest);
		good = choose(&latest, ret_error) && pointers_judge(&latest);
	}
	if (good) {
		int status = status_of(&latest);

		tell_partial(&latest);
		tell_release(&latest);
		if (status != STATUS_FAILED)
			tell_none(&latest);
		tell_cost(&latest);
		run_begin(run, status);
		if (run->status != STATUS_FAILED)
			latest_show(&latest);
	}
	done(&latest);
	return good;
}

const struct command command_latest = {
	.name = "latest",
	.group = GROUP_START,
	.summary = "which step can I resume from?",
	.synopsis = "[--level=LEVEL] [--explain | --all] [--count=N] [-0] RUN...",
	.example = "latest runs/exp7",
	.examples = { "latest runs/exp7", "latest --level=headers --explain runs/exp7",
		"latest --all runs/exp7" },
	.exit_1 = "no checkpoint is good",
	.options = OPTIONS,
	.selectors = (const struct option *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_TABLE | SHAPE_ITEMS,
	.answer = &latest_record,
	.output = "text",
	.inputs = INPUTS_RUNS,
	.options_size = sizeof(struct latest_options),
	.run = run_latest,
};
