/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the newest checkpoint of a run that passes an audit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/latest/latest.h"
#include "render/writer.h"
#include "session/session.h"

enum { SKIPPED_MOST = 10 };

static const char *const level_words[] = { "quick", "headers", "data", NULL };

#define AT(member) offsetof(struct latest_options, member)
static const struct option_row OPTIONS[] = {
	{ "level", 0, OPTION_WORD, "LEVEL", AT(level), level_words, .initial = "quick",
		.help = "check level: names and sizes, all headers, every byte" },
	{ "explain", 0, OPTION_FLAG, NULL, AT(explain),
		.help = "show why newer checkpoints were rejected" },
	{ "all", 0, OPTION_FLAG, NULL, AT(all),
		.help = "list all checkpoints with their sizes" },
	{ "count", 0, OPTION_INTEGER, "N", AT(count), .minimum = 1, .maximum = 1000000,
		.initial = "1", .help = "print the N newest good checkpoints" },
	{ NULL },
};

static enum fsdp_level level_of(const char *word)
{
	return strcmp(word, "data") == 0      ? FSDP_LEVEL_DATA
	       : strcmp(word, "headers") == 0 ? FSDP_LEVEL_HEADERS
					      : FSDP_LEVEL_QUICK;
}

/* ---- one ---- */

/* False: other names of the run may be wrong about the order too. */
static bool name_is_right(const struct run_candidate *candidate)
{
	const struct fsdp_step_name *name = &candidate->step_name;
	int64_t number = name->step >= 0 ? name->step : name->epoch;

	return candidate->step == number || candidate->epoch == number ||
	       (candidate->step == FSDP_ABSENT && candidate->epoch == FSDP_ABSENT);
}

static bool judge_one(struct latest *latest, size_t index, bool *ret_several,
	struct fsdp_error **ret_error)
{
	struct run_candidate *candidate = &latest->candidates[index];

	if (!candidate_judge(candidate, latest->run, FSDP_LEVEL_QUICK, ret_error))
		return false;
	*ret_several = candidate->is_several;
	latest->folders[candidate->input].is_misnamed |=
		candidate->by_name && !name_is_right(candidate);
	return !*ret_several || candidate_divide(latest, index);
}

/* Those that may be the newest whatever the others are, and those that pointers name. */
static bool judge_unsure(struct latest *latest, struct fsdp_error **ret_error)
{
	bool good = true, is_several = false;

	for (size_t i = 0; i < latest->count && good; i += !is_several) {
		is_several = false;
		if (!latest->candidates[i].by_name)
			good = judge_one(latest, i, &is_several, ret_error);
	}
	pointers_follow(latest);
	for (size_t i = 0; i < latest->pointer_count && good; i++) {
		const struct run_candidate *to = latest->pointers[i].to;

		if (to != NULL && to->result == NULL)
			good = judge_one(latest, (size_t)(to - latest->candidates),
				&is_several, ret_error);
	}
	return good;
}

/* The newest of each run by their names, until so many are good. What fails here fails at
 * any level. */
static bool judge_newest(
	struct latest *latest, size_t wanted, struct fsdp_error **ret_error)
{
	bool good = true, is_several;

	candidates_sort(latest, true);
	for (size_t i = 0; i < latest->run->collected->input_count; i++)
		latest->folders[i].good = 0;
	for (size_t i = 0; i < latest->count && good; i++) {
		const struct run_candidate *candidate = &latest->candidates[i];
		struct run_folder *folder = &latest->folders[candidate->input];
		const struct fsdp_step_name *name = &candidate->step_name;
		bool is_wanted = folder->is_misnamed || folder->good < wanted ||
				 (name->step == folder->last.step &&
					 name->epoch == folder->last.epoch);

		if (!candidate->by_name || !is_wanted)
			continue;
		if (candidate->result == NULL)
			good = judge_one(latest, i, &is_several, ret_error);
		folder->last = *name;
		folder->good += is_good(candidate);
	}
	candidates_sort(latest, false);
	return good;
}

/* What follows the first word of a file's name: ".0.20.pt" of checkpoint.0.20.pt. */
static struct text numbered_end(const char *path, size_t *ret_folder)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;

	*ret_folder = (size_t)(name - path);
	return text_of(name + strcspn(name, "0123456789"));
}

/* A file of the trainer's state, in a directory with weights in other files: checks that one of them has the same
 * step. */
static void judge_weights(struct latest *latest, struct run_candidate *candidate)
{
	size_t folder, its;
	char why[320];
	struct text end = numbered_end(candidate->path, &folder), other;
	const char *example = NULL;

	if (!is_good(candidate) || !candidate->is_lone || candidate->weights != 0 ||
		candidate->bytes == UINT64_MAX || end.size == 0)
		return;
	for (size_t i = 0; i < latest->count; i++) {
		const struct run_candidate *file = &latest->candidates[i];

		if (!file->is_lone || file->result == NULL || file->weights == 0 ||
			file->bytes == UINT64_MAX)
			continue;
		other = numbered_end(file->path, &its);
		if (its != folder || strncmp(file->path, candidate->path, folder) != 0)
			continue;
		if (text_is(other, end))
			return;
		example = file->path + folder;
	}
	if (example == NULL)
		return;
	candidate->result = "bad";
	snprintf(why, sizeof why,
		"it has no weights, and no file with weights has its numbers (%.200s has others)",
		example);
	candidate->why = collected_text(&candidate->own, why).data;
}

/* Looks at the newest more closely, until there are enough. */
static bool choose(struct latest *latest, struct fsdp_error **ret_error)
{
	size_t wanted = (size_t)latest->options->count;
	bool good = true;

	latest->named = latest->unjudged = 0;
	for (size_t i = 0; i < latest->count; i++)
		latest->unjudged += latest->candidates[i].result == NULL;
	for (size_t i = 0; i < latest->count && good; i++) {
		struct run_candidate *candidate = &latest->candidates[i];

		if (latest->named == wanted && !latest->options->all)
			break;
		if (is_good(candidate) &&
			strcmp(candidate->level, fsdp_level_name(latest->level)) != 0)
			good = candidate_judge(
				candidate, latest->run, latest->level, ret_error);
		judge_weights(latest, candidate);
		good = good && siblings_judge(latest, candidate, ret_error);
		candidate->is_named = latest->named < wanted && is_good(candidate);
		latest->named += candidate->is_named;
		latest->shown = i + 1;
	}
	return good;
}

/* Names usually show the newest, so that most checkpoints of a long run are not opened. Listing all needs all. */
static bool judge(struct latest *latest, struct fsdp_error **ret_error)
{
	bool all = latest->options->all || answer_is_machine(latest->run);
	size_t wanted = all ? SIZE_MAX : (size_t)latest->options->count;
	bool good = judge_unsure(latest, ret_error);

	do {
		good = good && judge_newest(latest, wanted, ret_error) &&
		       choose(latest, ret_error);
		wanted = wanted < SIZE_MAX / 2 ? wanted * 2 : SIZE_MAX;
	} while (good && latest->unjudged > 0 &&
		 latest->named < (size_t)latest->options->count);
	return good;
}

/* ---- messages ---- */

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

/* An unreadable one may be newer than its name shows, and good. */
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

/* The first entry of a run without candidates that may be a part of a checkpoint. */
static const char *unclear(const struct latest *latest)
{
	const char *unclear = NULL;

	for (size_t i = 0; i < latest->run->collected->input_count && unclear == NULL;
		i++)
		if (latest->folders[i].below != NULL)
			unclear = fsdp_below_unclear(latest->folders[i].below);
	return unclear;
}

/* The directories could be listed to their ends, and nothing in them is of a save. */
static bool is_empty(const struct latest *latest)
{
	bool empty = latest->count == 0 && latest->pointer_count == 0 &&
		     unclear(latest) == NULL;

	for (size_t i = 0; i < latest->run->collected->input_count && empty; i++)
		empty = latest->folders[i].below != NULL &&
			fsdp_below_unread(latest->folders[i].below) == 0 &&
			!fsdp_below_is_cut(latest->folders[i].below);
	return empty;
}

static void tell_no_candidate(struct latest *latest)
{
	const char *path = latest->run->path, *part = unclear(latest);

	if (part != NULL)
		run_reason(latest->run,
			"%s: no checkpoint, but '%s' may be a part of one: see fsdp-inspect info",
			path, part);
	else if (is_empty(latest))
		run_note(latest->run,
			"%s: no checkpoint, tracker file or unfinished save", path);
	else
		run_reason(latest->run, "%s: no checkpoint", path);
}

/* Newer than what is named, or all if nothing is. */
static void tell_skipped(struct latest *latest)
{
	struct run *run = latest->run;
	size_t skipped = 0;

	for (size_t i = 0; i < latest->shown; i++) {
		const struct run_candidate *candidate = &latest->candidates[i];

		if (candidate->is_named || is_good(candidate) || ++skipped > SKIPPED_MOST)
			continue;
		if (latest->named > 0)
			run_note(run, "%s skipped: %s", candidate->path, candidate->why);
		else
			run_reason(run, "%s: %s: %s", candidate->path, candidate->result,
				candidate->why);
	}
	if (skipped > SKIPPED_MOST)
		(latest->named > 0 ? run_note : run_reason)(run,
			"%zu more skipped: fsdp-inspect latest --explain %s",
			skipped - SKIPPED_MOST, run->path);
}

static void tell_none(struct latest *latest)
{
	bool is_table = latest->options->explain || latest->options->all;

	if (latest->count == 0)
		tell_no_candidate(latest);
	else if (latest->named == 0 && !is_table)
		run_reason(latest->run, "%s: no good checkpoint (%zu checked)",
			latest->run->path, latest->count);
	if (!is_table)
		tell_skipped(latest);
	if (latest->count > 0 && latest->named == 0 && !is_table &&
		only_builds(&latest->candidates[0]))
		run_note(latest->run,
			"nothing else is wrong with it: the program that has these classes loads it, torch.load only with weights_only=False, which runs what is in it");
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
	if (all == 0)
		return;
	run_total(latest->run,
		latest->named > 0 && old > 0
			? "%zu checkpoint%s, %s (* marks the newest good); the others use %s"
			: "%zu checkpoint%s, %s",
		latest->count, latest->count == 1 ? "" : "s",
		out_bytes(latest->run->out, all, total),
		out_bytes(latest->run->out, old, rest));
}

/* Nothing could be checked, the run is empty, nothing is good, or something newer may be. */
static int status_of(const struct latest *latest)
{
	bool blind = latest->count > 0 || latest->is_blind;
	bool partial = false;

	for (size_t i = 0; i < latest->count; i++) {
		const struct run_candidate *candidate = &latest->candidates[i];

		blind &= candidate->result != NULL &&
			 strcmp(candidate->result, "partial") == 0 &&
			 candidate->own.failure_count > 0;
		partial |= candidate->own.failure_count > 0;
	}
	return blind                ? STATUS_FAILED
	       : is_empty(latest)   ? STATUS_NOTHING
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
	for (size_t i = 0;
		latest->folders != NULL && i < latest->run->collected->input_count; i++)
		fsdp_below_free(latest->folders[i].below);
	free(latest->folders);
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
	bool good = candidates_find(&latest) && judge(&latest, ret_error) &&
		    pointers_judge(&latest);

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
	.summary = "print the newest good checkpoint of a run",
	.synopsis = "[--level=LEVEL] [--explain | --all] [--count=N] [-0] RUN...",
	.examples = { "latest runs/exp7", "latest --level=headers --explain runs/exp7",
		"latest --all runs/exp7" },
	.exit_1 = "no checkpoint is good",
	.exit_4 = "the run is empty: no checkpoint, tracker file or unfinished save",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_TABLE | SHAPE_ITEMS,
	.answer = &latest_record,
	.output = "text",
	.inputs = INPUTS_RUNS,
	.options_size = sizeof(struct latest_options),
	.run = run_latest,
};
