/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the newest checkpoint of a run that passes an audit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/latest-answer.h"
#include "shared/stored-values.h"
#include "render/record.h"
#include "render/writer.h"
#include "session/session.h"

/* ---- trackers: files and links that name the newest checkpoint ---- */

/* Length of the path of its directory, with the slash. */
size_t folder_size(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static bool share_folder(const char *a, const char *b)
{
	size_t size = folder_size(a);

	return size == folder_size(b) && memcmp(a, b, size) == 0;
}

/* Whether a path is in the directory of a pointer, or further below. */
static bool is_below(const struct run_pointer *pointer, const char *path)
{
	size_t size = folder_size(pointer->path);

	return size <= folder_size(path) && memcmp(pointer->path, path, size) == 0;
}

/* False: it is not a number. */
static bool read_number(struct text tracker_target, int64_t *ret_number)
{
	char digits[20] = "";

	if (tracker_target.size >= sizeof digits)
		return false;
	memcpy(digits, tracker_target.data, tracker_target.size);
	return option_integer(digits, 0, INT64_MAX, ret_number);
}

/* A name, or the number of a step. */
static bool leads_to(
	const struct run_pointer *pointer, const struct run_candidate *candidate)
{
	struct text name = text_last(text_of(candidate->path), '/');
	int64_t number;

	return (text_is(pointer->target, name) ||
		       (read_number(pointer->target, &number) &&
			       candidate->step_name.step == number)) &&
	       is_below(pointer, candidate->path);
}

/* Finds the candidates that pointers name. */
static void pointers_follow(struct latest *latest)
{
	for (size_t i = 0; i < latest->pointer_count; i++) {
		struct run_pointer *pointer = &latest->pointers[i];

		pointer->to = NULL;
		for (size_t k = 0; k < latest->count && pointer->to == NULL; k++)
			if (leads_to(pointer, &latest->candidates[k]))
				pointer->to = &latest->candidates[k];
	}
}

/* "latest points to step-30 (bad); newest good step: step-20". `good` is below the
 * directory of the pointer, or NULL; `has_other`: another run has a good one. */
static void find_stale(struct latest *latest, const struct run_pointer *pointer,
	const struct run_candidate *good, bool has_other)
{
	const struct text run = latest->run->collected->inputs[pointer->input].path;
	const char *below = strncmp(pointer->path, run.data, run.size) == 0
				    ? pointer->path + run.size
				    : pointer->path + folder_size(pointer->path);
	const struct finding about = {
		.severity = good != NULL || has_other ? SEVERITY_WARNING : SEVERITY_ERROR,
		.input = pointer->input,
		.file = text_of(below + (*below == '/'))
	};
	const char *is = pointer->to == NULL
				 ? pointer->leads ? "not a checkpoint" : "missing"
			 : is_good(pointer->to) ? "good, but not the newest"
			 : strcmp(pointer->to->result, "bad") == 0 ? "bad"
								   : "not judged";
	const char *newest = good != NULL ? text_last(text_of(good->path), '/').data : "";
	const bool is_plain =
		!url_is(pointer->path) && is_plain_path(text_of(pointer->path));
	char fix[1024] = "";
	struct stat status;
	int64_t number;

	/* Trackers of some programs hold a number, those of others and links a name. */
	if (good == NULL || !share_folder(pointer->path, good->path))
		fix[0] = '\0';
	else if (read_number(pointer->target, &number))
		snprintf(fix, sizeof fix,
			is_plain ? "echo %lld > %s" : "write %lld into %s",
			(long long)good->step_name.step, pointer->path);
	else
		snprintf(fix, sizeof fix,
			lstat(pointer->path, &status) == 0 && S_ISLNK(status.st_mode)
				? "point the link to %s: %s"
			: is_plain && is_plain_path(text_of(newest)) ? "echo %s > %s"
								     : "write %s into %s",
			newest, pointer->path);
	collected_report(latest->run->collected, "FI1011", about, fix,
		"%s points to %.*s (%s)%s%s", about.file.data, (int)pointer->target.size,
		pointer->target.data, is,
		good != NULL ? "; newest good checkpoint: " : "", newest);
}

/* A link to something that exists and is outside of the checkpoints, in a run without
 * other links: wandb's latest-run. */
static bool is_other(const struct latest *latest, const struct run_pointer *pointer)
{
	const char *run = latest->run->collected->inputs[pointer->input].path.data;
	bool is_other = pointer->leads && pointer->to == NULL &&
			folder_size(pointer->path) > strlen(run) + 1;

	for (size_t i = 0; i < latest->count && is_other; i++)
		is_other = !share_folder(pointer->path, latest->candidates[i].path);
	return is_other;
}

/* Compares what pointers say with what was named, and adds a finding for each
 * that is wrong. */
static void trackers_check(struct latest *latest)
{
	size_t kept = 0;

	pointers_follow(latest);
	for (size_t i = 0; i < latest->pointer_count; i++)
		if (!is_other(latest, &latest->pointers[i]))
			latest->pointers[kept++] = latest->pointers[i];
	latest->pointer_count = kept;
	for (size_t i = 0; i < kept; i++) {
		struct run_pointer *pointer = &latest->pointers[i];
		const struct run_candidate *newest = NULL;
		bool has_other = false;

		for (size_t k = 0; k < latest->count && newest == NULL; k++) {
			const struct run_candidate *one = &latest->candidates[k];

			if (one->input != pointer->input || !is_good(one))
				continue;
			has_other = true;
			if (is_below(pointer, one->path))
				newest = one;
		}
		pointer->agrees = newest != NULL && pointer->to == newest;
		/* The weights that a model is released with have no step. */
		if (!pointer->agrees && !text_is(pointer->target, text_of("release")))
			find_stale(latest, pointer, newest, has_other);
	}
}

/* ---- lists the contents of run directories, and sorts them by step ---- */

static void add_candidate(struct latest *latest, const char *path, uint32_t input)
{
	struct run_candidate *added;

	latest->candidates = run_grown(latest->run, latest->candidates, latest->count,
		sizeof *latest->candidates);
	added = &latest->candidates[latest->count++];
	*added = (struct run_candidate){
		.path = path, .step = FSDP_ABSENT, .epoch = FSDP_ABSENT, .input = input
	};
	/* Of a path that ends with a slash all of it. */
	path += path[folder_size(path)] != '\0' ? folder_size(path) : 0;
	fsdp_step_name(span_of_text(text_of(path)), &added->step_name);
}

static void add_below(
	struct latest *latest, const struct fsdp_discover *below, uint32_t input)
{
	for (size_t i = 0; i < fsdp_discover_count(below); i++) {
		struct run_candidate *added;

		add_candidate(latest, fsdp_discover_path(below, i), input);
		added = &latest->candidates[latest->count - 1];
		added->is_lone = fsdp_discover_is_lone(below, i, &added->plan);
	}
}

RELEASE(release_discover, fsdp_discover_free)

static void look_in(struct latest *latest, const char *path, uint32_t input)
{
	struct run *run = latest->run;
	struct fsdp_options options = run_opens(run);
	size_t first = latest->count;
	struct fsdp_discover *below;
	struct fsdp_tracker from;
	bool has_steps = false;
	uint64_t unread;

	run_must(run, fsdp_discover_new_run(path, &options, &below, NULL));
	run_owns(run, below, release_discover);
	latest->folders[input].below = below;
	add_below(latest, below, input);
	for (size_t i = 0; (from = fsdp_discover_tracker(below, i)).path != NULL; i++) {
		latest->pointers = run_grown(run, latest->pointers, latest->pointer_count,
			sizeof *latest->pointers);
		latest->pointers[latest->pointer_count++] = (struct run_pointer){
			.path = from.path,
			.target = text_of_span(from.target),
			.leads = from.leads,
			.input = input,
		};
	}
	/* Steps decide the order, or epochs if no name has a step: one without may be the
	 * newest. */
	for (size_t i = first; i < latest->count; i++)
		has_steps |= latest->candidates[i].step_name.step >= 0;
	for (size_t i = first; i < latest->count; i++) {
		const struct fsdp_step_name *name = &latest->candidates[i].step_name;

		latest->candidates[i].by_name =
			has_steps ? name->step >= 0 : name->epoch >= 0;
	}
	unread = fsdp_discover_unread(below);
	latest->is_blind |= unread > 0 && fsdp_discover_count(below) == 0;
	if (unread > 0)
		run_failure(run, "system", NULL,
			unread == 1 ? "%s: %llu file or directory could not be read"
				    : "%s: %llu files or directories could not be read",
			path, (unsigned long long)unread);
	if (fsdp_discover_limit_reached(below))
		run_note(run,
			"%s: there may be more: --limit below=N looks at more entries",
			path);
}

/* Finds the checkpoints of all runs. */
static void candidates_find(struct latest *latest)
{
	struct collected *collected = latest->run->collected;
	size_t count = collected->input_count;

	latest->folders = run_memory(latest->run, count, sizeof *latest->folders);
	for (size_t i = 0; i < count; i++) {
		struct text typed = collected->inputs[i].path;
		const char *path;

		/* Names of files below it have a slash of their own. */
		while (typed.size > 1 && typed.data[typed.size - 1] == '/')
			typed.size--;
		path = collected_copy(collected, typed).data;
		run_must(latest->run, path != NULL);
		(path_is_folder(path) ? look_in : add_candidate)(
			latest, path, (uint32_t)i);
	}
}

/* ---- order ---- */

/* Order: with a step, then with an epoch, then others. For the same step the name
 * decides, else the shorter name is first. Unchecked ones are older than the rest. */
static int compare(const void *left, const void *right)
{
	const struct run_candidate *a = left, *b = right;
	const int64_t keys[][2] = { { b->result == NULL, a->result == NULL },
		{ a->step, b->step }, { a->epoch, b->epoch },
		{ a->step_name.step, b->step_name.step } };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] > keys[i][1] ? -1 : 1;
	return a->step != FSDP_ABSENT ? strverscmp(a->path, b->path)
				      : strverscmp(b->path, a->path);
}

static int compare_names(const void *left, const void *right)
{
	const struct run_candidate *a = left, *b = right;
	const struct fsdp_step_name *is = &a->step_name, *other = &b->step_name;

	if (is->step != other->step)
		return is->step > other->step ? -1 : 1;
	if (is->epoch != other->epoch)
		return is->epoch > other->epoch ? -1 : 1;
	return strverscmp(a->path, b->path);
}

/* Sorts the newest first: by names, or by all known facts. */
static void candidates_sort(struct latest *latest, bool by_name)
{
	if (latest->count > 1)
		qsort(latest->candidates, latest->count, sizeof *latest->candidates,
			by_name ? compare_names : compare);
}

/* ---- output ---- */

enum { VIEW_EXPLAIN, VIEW_ALL };

static const char *const RESULTS[] = { "good", "bad", "partial", NULL };
static const char *const LEVELS[] = { "quick", "headers", "data", NULL };
static const char *const SOURCES[] = { "checkpoint", "name", NULL };

#define CANDIDATE struct run_candidate

/* Steps are more precise. */
static struct value get_bare_epoch(struct subject of)
{
	const struct run_candidate *candidate = of.object;

	return candidate->step == FSDP_ABSENT && candidate->epoch != FSDP_ABSENT
		       ? value_integer(candidate->epoch)
		       : value_absent();
}

static struct value get_why(struct subject of)
{
	const char *why = ((const struct run_candidate *)of.object)->why;

	return value_word(why != NULL ? why : "");
}

static struct value get_mark(struct subject of)
{
	return value_word(((const struct run_candidate *)of.object)->is_named ? "*" : "");
}

static const struct record candidate_record = OBJECT_RECORD(CANDIDATE, "candidate",
	"A directory or file of a run that may be a checkpoint.",
	{ "step", INTEGER_AT(CANDIDATE, step), .null = true,
		ALWAYS("Step of the run in which it was saved.") },
	{ "step_from", WORD_AT(CANDIDATE, step_from), .words = SOURCES,
		ABOUT("Source of the step. Absent if unknown.") },
	{ "epoch", INTEGER_AT(CANDIDATE, epoch),
		ABOUT("Epoch in which it was saved, if it or its name contains it.") },
	{ "path", PATH_AT(CANDIDATE, path), ALWAYS("Its path, as it would be typed.") },
	{ "result", WORD_AT(CANDIDATE, result), .always = true, .words = RESULTS,
		ABOUT("`good`: no error, and all checks ran. `partial`: no error, but a check could not run.") },
	{ "level", WORD_AT(CANDIDATE, level), .always = true, .words = LEVELS,
		ABOUT("Level of the check: that of `--level`, or `quick` if that decides already, or if a newer one is good.") },
	{ "bytes", BYTES_AT(CANDIDATE, bytes),
		ABOUT("Bytes of its files. Absent where they are unknown.") },
	{ "weight_bytes", BYTES_AT(CANDIDATE, weights),
		ABOUT("Bytes of parameters and buffers.") },
	{ "optimizer_bytes", BYTES_AT(CANDIDATE, optimizer),
		ABOUT("Bytes of the states of optimizers.") },
	{ "other_bytes", BYTES_AT(CANDIDATE, rest),
		ABOUT("Bytes of its files that are neither.") },
	{ "findings", LIST_AT(CANDIDATE, own.findings, own.finding_count, finding_record),
		ALWAYS("What was noticed about it.") },
	{ "errors", LIST_AT(CANDIDATE, own.failures, own.failure_count, failure_record),
		ALWAYS("Checks that could not run.") });

static const struct record row_record = RECORD_OF(RECORD_OBJECT, CANDIDATE,
	{ "mark", GET(FIELD_WORD, get_mark), .text_only = EVERY_VIEW, .label = " " },
	{ "step", INTEGER_AT(CANDIDATE, step), .right = true },
	{ "bare_epoch", GET(FIELD_INTEGER, get_bare_epoch), .text_only = EVERY_VIEW,
		.label = "epoch", .right = true },
	{ "epoch", INTEGER_AT(CANDIDATE, epoch), .machine_only = EVERY_VIEW },
	{ "path", PATH_AT(CANDIDATE, path) }, { "result", WORD_AT(CANDIDATE, result) },
	{ "bytes", BYTES_AT(CANDIDATE, bytes), .machine_only = EVERY_VIEW },
	{ "weight_bytes", BYTES_AT(CANDIDATE, weights), .label = "weights",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "optimizer_bytes", BYTES_AT(CANDIDATE, optimizer), .label = "optimizer",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "other_bytes", BYTES_AT(CANDIDATE, rest), .label = "rest",
		.machine_only = 1 << VIEW_EXPLAIN },
	{ "why", GET(FIELD_WORD, get_why) });

#define POINTER struct run_pointer

static const struct record pointer_record = OBJECT_RECORD(POINTER, "pointer",
	"A file or link of a run that names a checkpoint.",
	{ "file", PATH_AT(POINTER, path), ALWAYS("Its path.") },
	{ "says", TEXT_AT(POINTER, target),
		ALWAYS("Its target: a directory, or the number of a step.") },
	{ "agrees", BOOL_AT(POINTER, agrees),
		ALWAYS("Whether that is the newest one that is good.") });

static struct value get_newest(struct subject of)
{
	const struct latest *latest = of.object;

	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].is_named)
			return value_name(text_of(latest->candidates[i].path));
	return value_null();
}

#define LATEST struct latest
static const struct record latest_record = OBJECT_RECORD(LATEST, "latest",
	"Which checkpoint of a run is the newest that is good.",
	{ "newest", GET(FIELD_NAME, get_newest), .always = true, .null = true,
		ABOUT("Its path; `null`: none.") },
	{ "candidates", ITEMS_AT(LATEST, candidates, count, candidate_record),
		ALWAYS("All that may be checkpoints, newest first.") },
	{ "pointers", LIST_AT(LATEST, pointers, pointer_count, pointer_record),
		ALWAYS("Files and links that name one.") });

/* ---- showing ---- */

static bool is_table(const struct latest *latest)
{
	return latest->options->explain || latest->options->all;
}

/* The checked candidates; without a table those that are named. */
static void write_rows(const struct latest *latest, const struct table *like)
{
	struct record_table table;

	record_table_init(&table, like, &row_record, NULL);
	out_records_begin(latest->run->out, &table);
	for (size_t i = 0; i < latest->shown; i++)
		if (is_table(latest) || latest->candidates[i].is_named)
			out_records_row(latest->run->out, &table, &latest->candidates[i]);
	out_table_end(latest->run->out);
}

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

/* ---- one ---- */

/* False: other names of the run may be wrong about the order too. */
static bool name_is_right(const struct run_candidate *candidate)
{
	const struct fsdp_step_name *name = &candidate->step_name;
	int64_t number = name->step >= 0 ? name->step : name->epoch;

	return candidate->step == number || candidate->epoch == number ||
	       (candidate->step == FSDP_ABSENT && candidate->epoch == FSDP_ABSENT);
}

/* Whether it was a directory that is not a checkpoint, and whose files took its place. */
static bool check_candidate(struct latest *latest, size_t index)
{
	struct run *run = latest->run;
	struct run_candidate *candidate = &latest->candidates[index];
	struct fsdp_options options = run_opens(run);
	struct fsdp_discover *below;

	candidate_check(candidate, run, FSDP_LEVEL_QUICK);
	latest->folders[candidate->input].is_misnamed |=
		candidate->by_name && !name_is_right(candidate);
	if (!candidate->is_several)
		return false;
	struct run_candidate folder = *candidate;
	run_must(run, fsdp_discover_new(folder.path, &options, &below, NULL));
	run_owns(run, below, release_discover);
	*candidate = latest->candidates[--latest->count];
	collected_done(&folder.own);
	add_below(latest, below, folder.input);
	return true;
}

/* The newest of each run by their names, until so many are good. What fails here fails at
 * any level. */
static void check_newest(struct latest *latest, size_t wanted)
{
	candidates_sort(latest, true);
	for (size_t i = 0; i < latest->count && i < wanted; i++)
		fsdp_remote_expect_directory(
			helper_remote(), latest->candidates[i].path, true);
	for (size_t i = 0; i < latest->run->collected->input_count; i++)
		latest->folders[i].good = 0;
	for (size_t i = 0; i < latest->count; i++) {
		const struct run_candidate *candidate = &latest->candidates[i];
		struct run_folder *folder = &latest->folders[candidate->input];
		const struct fsdp_step_name *name = &candidate->step_name;
		bool is_wanted = folder->is_misnamed || folder->good < wanted ||
				 (name->step == folder->last.step &&
					 name->epoch == folder->last.epoch);

		if (!candidate->by_name || !is_wanted)
			continue;
		if (candidate->result == NULL)
			check_candidate(latest, i);
		folder->last = *name;
		folder->good += is_good(candidate);
	}
	candidates_sort(latest, false);
}

/* A file of the trainer's state, in a directory with weights in other files: checks that
 * one of them has the same step. */
static void check_weights(struct latest *latest, struct run_candidate *candidate)
{
	const char *example = NULL, *end;

	/* What follows the first word of a file's name: ".0.20.pt" of checkpoint.0.20.pt.
	 */
	end = candidate->path + folder_size(candidate->path);
	end += strcspn(end, "0123456789");
	if (!is_good(candidate) || !candidate->is_lone || candidate->weights != 0 ||
		candidate->bytes == UINT64_MAX || *end == '\0')
		return;
	for (size_t i = 0; i < latest->count; i++) {
		const struct run_candidate *file = &latest->candidates[i];
		const char *name = file->path + folder_size(file->path);

		if (!file->is_lone || file->result == NULL || file->weights == 0 ||
			file->bytes == UINT64_MAX ||
			!share_folder(file->path, candidate->path))
			continue;
		if (strcmp(name + strcspn(name, "0123456789"), end) == 0)
			return;
		example = name;
	}
	if (example != NULL)
		set_bad(candidate,
			"it has no weights, and no file with weights has its numbers (%.200s has others)",
			example);
}

/* Looks at the newest more closely, until there are enough. */
static void choose(struct latest *latest)
{
	size_t wanted = (size_t)latest->options->count;

	latest->named = latest->unjudged = 0;
	for (size_t i = 0; i < latest->count; i++)
		latest->unjudged += latest->candidates[i].result == NULL;
	for (size_t i = 0; i < latest->count; i++) {
		struct run_candidate *candidate = &latest->candidates[i];

		if (latest->named == wanted && !latest->options->all)
			break;
		if (is_good(candidate) &&
			strcmp(candidate->level, fsdp_level_name(latest->level)) != 0)
			candidate_check(candidate, latest->run, latest->level);
		check_weights(latest, candidate);
		siblings_check(latest, candidate);
		candidate->is_named = latest->named < wanted && is_good(candidate);
		latest->named += candidate->is_named;
		latest->shown = i + 1;
	}
}

/* Names usually show the newest, so that most checkpoints of a long run are not opened.
 * Listing all needs all. */
static void check_inputs(struct latest *latest)
{
	bool all = latest->options->all || answer_is_machine(latest->run);
	size_t wanted = all ? SIZE_MAX : (size_t)latest->options->count;

	/* Those that may be the newest whatever the others are, and those that pointers
	 * name. */
	for (size_t i = 0; i < latest->count;)
		if (latest->candidates[i].by_name || !check_candidate(latest, i))
			i++;
	pointers_follow(latest);
	for (size_t i = 0; i < latest->pointer_count; i++) {
		const struct run_candidate *to = latest->pointers[i].to;

		if (to != NULL && to->result == NULL)
			check_candidate(latest, (size_t)(to - latest->candidates));
	}
	do {
		check_newest(latest, wanted);
		choose(latest);
		wanted = wanted < SIZE_MAX / 2 ? wanted * 2 : SIZE_MAX;
	} while (latest->unjudged > 0 && latest->named < (size_t)latest->options->count);
}

/* ---- messages ---- */

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
			unclear = fsdp_discover_unclear(latest->folders[i].below);
	return unclear;
}

/* The directories could be listed to their ends, and nothing in them is of a save. */
static bool is_empty(const struct latest *latest)
{
	bool empty = latest->count == 0 && latest->pointer_count == 0 &&
		     unclear(latest) == NULL;

	for (size_t i = 0; i < latest->run->collected->input_count && empty; i++)
		empty = latest->folders[i].below != NULL &&
			fsdp_discover_unread(latest->folders[i].below) == 0 &&
			!fsdp_discover_limit_reached(latest->folders[i].below);
	return empty;
}

static void print_none(struct latest *latest)
{
	if (latest->count == 0) {
		const char *path = latest->run->path, *part = unclear(latest);

		if (part != NULL)
			run_reason(latest->run,
				"%s: no checkpoint, but '%s' may be a part of one: see fsdp-inspect info",
				path, part);
		else if (is_empty(latest))
			run_note(latest->run,
				"%s: no checkpoint, tracker file or unfinished save",
				path);
		else
			run_reason(latest->run, "%s: no checkpoint", path);
	} else if (latest->named == 0 && !is_table(latest))
		run_reason(latest->run, "%s: no good checkpoint (%zu checked)",
			latest->run->path, latest->count);
	if (!is_table(latest)) {
		struct run *run = latest->run;
		size_t skipped = 0;

		/* Newer than what is named, or all if nothing is. */
		for (size_t i = 0; i < latest->shown; i++) {
			const struct run_candidate *candidate = &latest->candidates[i];

			if (candidate->is_named || is_good(candidate) ||
				++skipped > SKIPPED_MOST)
				continue;
			if (latest->named > 0)
				run_note(run, "%s skipped: %s", candidate->path,
					candidate->why);
			else
				run_reason(run, "%s: %s: %s", candidate->path,
					candidate->result, candidate->why);
		}
		if (skipped > SKIPPED_MOST)
			(latest->named > 0 ? run_note : run_reason)(run,
				"%zu more skipped: fsdp-inspect latest --explain %s",
				skipped - SKIPPED_MOST, run->path);
	}
	if (latest->count > 0 && latest->named == 0 && !is_table(latest) &&
		only_builds(&latest->candidates[0]))
		run_note(latest->run,
			"no other problems: a program with these classes can load it; torch.load needs weights_only=False, which runs code from the file");
}

static void print_cost(struct latest *latest)
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
			? "%zu checkpoint%s, %s (* marks the newest good; the rest: %s)"
			: "%zu checkpoint%s, %s",
		latest->count, latest->count == 1 ? "" : "s",
		out_bytes(latest->run->out, all, total),
		out_bytes(latest->run->out, old, rest));
}

/* Nothing could be checked, the run is empty, nothing is good, or something newer may be.
 */
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

static void release_latest(void *object)
{
	const struct latest *latest = object;

	for (size_t i = 0; i < latest->count; i++)
		collected_done(&latest->candidates[i].own);
}

static void run_latest(struct run *run)
{
	const struct latest_options *options = run->options;
	struct latest *latest = run_memory(run, 1, sizeof *latest);
	struct table table = { .key = "candidates",
		.main = true,
		.rows_only = true,
		.view = options->all ? VIEW_ALL : VIEW_EXPLAIN };
	int status;

	*latest = (struct latest){ .run = run,
		.options = options,
		.level = (strcmp(options->level, "data") == 0      ? FSDP_LEVEL_DATA
			  : strcmp(options->level, "headers") == 0 ? FSDP_LEVEL_HEADERS
								   : FSDP_LEVEL_QUICK) };
	run_owns(run, latest, release_latest);
	candidates_find(latest);
	check_inputs(latest);
	trackers_check(latest);
	status = status_of(latest);
	/* An unreadable one may be newer than its name shows, and good. */
	for (size_t i = 0; i < latest->count; i++) {
		const struct run_candidate *candidate = &latest->candidates[i];
		const struct failure *from = candidate->own.failures;
		struct failure *failure =
			candidate->own.failure_count > 0
				? collected_failure(run->collected, from->code)
				: NULL;

		if (failure == NULL)
			continue;
		failure->rule = from->rule;
		failure->input = candidate->input;
		failure->path = collected_text(run->collected, candidate->path);
		failure->message = collected_text(run->collected, from->message.data);
	}
	for (size_t i = 0; i < latest->count; i++)
		if (latest->candidates[i].is_named && latest->candidates[i].is_release)
			run_note(run, "%s: " LATEST_RELEASE, latest->candidates[i].path);
	if (status != STATUS_FAILED)
		print_none(latest);
	if (latest->named > 0 && latest->level != FSDP_LEVEL_DATA)
		run_note(run,
			"%schecked %s; fsdp-inspect audit --data also checks contents",
			latest->named == 1 && !latest->options->all
				? "this is the newest good checkpoint; "
				: "",
			latest->level == FSDP_LEVEL_QUICK ? "names and sizes"
							  : "headers");
	print_cost(latest);
	run_begin(run, status);
	if (run->status == STATUS_FAILED)
		return;
	out_fields(run->out, &latest_record, (struct subject){ NULL, latest });
	write_rows(latest, &table);
	table.rows_only = false;
	table.text_only = true;
	if (is_table(latest))
		write_rows(latest, &table);
	for (size_t i = 0; !is_table(latest) && i < latest->count; i++) {
		if (!latest->candidates[i].is_named)
			continue;
		out_verbatim(run->out, text_of(latest->candidates[i].path));
		out_verbatim(run->out, text_of("\n"));
	}
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
	.perform = run_latest,
};
