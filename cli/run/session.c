/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command: opens, answers, ends, tells.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fsdp/version.h>

#include "run/answer.h"
#include "run/catalogue.h"
#include "run/collected.h"
#include "run/message.h"
#include "run/progress.h"
#include "run/sandbox.h"
#include "run/session.h"
#include "run/temporary.h"

struct session {
	const struct command *command;
	const struct arguments *arguments;
	const struct inputs *inputs;
	struct outputs *outputs;
	const struct looks *error_looks;

	/* Checkpoints that are open; their facts are borrowed below, so they stay. */
	struct fsdp_checkpoint **checkpoints;
	size_t checkpoint_count;
	struct fsdp_recordings *recordings; /* in their place */
	struct fsdp_below *below;           /* or what the folder that was named holds */

	struct collected collected; /* what is told beside the answer */

	int status;
	uint32_t input; /* whose checkpoint is answered for, or UINT32_MAX */
	bool apart;     /* each input is a checkpoint of its own */
	bool separate;  /* there are several, and an answer for each */
	bool fleeting; /* checkpoints are closed before the answer: nothing is borrowed */
	bool judged;   /* all of them were */
	bool begun;    /* the envelope's head is written */
	bool answered; /* there is data */
	int interrupted; /* by this signal */
	unsigned locks;  /* that hold: a set of enum sandbox_lock */
};

/* ---- what is reported beside the answer ---- */

/* Running out of memory needs no memory to be told. */
static void add_out_of_memory(struct session *session, struct failure *failure)
{
	static const struct failure fixed = {
		.code = "memory",
		.input = UINT32_MAX,
		.offset = UINT64_MAX,
		.message = { "out of memory", sizeof "out of memory" - 1 },
	};

	*failure = fixed;
	session->status = STATUS_FAILED;
}

void run_note(struct run *run, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	collected_line(&run->session->collected, &run->session->collected.notes, format,
		arguments);
	va_end(arguments);
}

void run_total(struct run *run, const char *format, ...)
{
	va_list arguments;

	if (!outputs_show_text(run->session->outputs))
		return;
	va_start(arguments, format);
	collected_line(&run->session->collected, &run->session->collected.totals, format,
		arguments);
	va_end(arguments);
}

void run_failure(
	struct run *run, const char *code, const char *hint, const char *format, ...)
{
	struct session *session = run->session;
	bool typed = strcmp(code, "usage") == 0;
	struct failure *failure;
	va_list arguments;
	char *message;

	if (strcmp(code, "memory") == 0) {
		session->collected.out_of_memory = true;
		session->status = run->status = STATUS_FAILED;
		return;
	}
	session->status = status_worse(session->status, STATUS_PARTIAL);
	run->status = status_worse(run->status, STATUS_PARTIAL);
	va_start(arguments, format);
	message = collected_format(&session->collected, format, arguments);
	va_end(arguments);
	if (message == NULL ||
		(typed && collected_was_told(&session->collected, code, message)))
		return;
	failure = collected_failure(&session->collected, code);
	if (failure == NULL)
		return;
	failure->message = text_of(message);
	failure->hint = hint != NULL ? collected_text(&session->collected, hint)
				     : collected_hint(code);
	/* What was typed wrong is no fault of the checkpoint. */
	if (typed || run->path == NULL)
		return;
	failure->path = collected_text(&session->collected, run->path);
	failure->input = session->input;
}

void run_interrupted(struct run *run, int signal_number)
{
	run->session->interrupted = signal_number;
}

FILE *run_stream(struct run *run)
{
	(void)run;
	return stdout;
}

void run_finding(struct run *run, const char *rule, const char *format, ...)
{
	const struct fsdp_rule *row = fsdp_rule_find(rule);
	struct session *session = run->session;
	va_list arguments;
	char *message;

	va_start(arguments, format);
	message = collected_format(&session->collected, format, arguments);
	va_end(arguments);
	collected_finding(&session->collected,
		&(struct finding){ .rule = row->id,
			.slug = row->slug,
			.severity = collected_severity(row->severity),
			.input = session->input != UINT32_MAX ? session->input : 0,
			.offset = UINT64_MAX,
			.length = UINT64_MAX,
			.rank = UINT32_MAX,
			.lost_bytes = UINT64_MAX,
			.message = text_of(message),
			.next = text_of(row->fix) });
}

/* ---- inputs ---- */

static void note_plan(struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_plan_facts plan;
	uint32_t record;

	if (!fsdp_checkpoint_plan(checkpoint, &plan) || plan.path == NULL)
		return;
	record = collected_input(&session->collected,
		collected_text(&session->collected, plan.path).data, "plan");
	if (record == UINT32_MAX)
		return;
	session->collected.inputs[record].found = plan.found;
	if (plan.found && !session->command->shows_plan)
		collected_note(
			&session->collected, "classes and marks from %s", plan.path);
}

/* Files that were read though only another of their set was named. */
static void note_siblings(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	const char *path;

	for (size_t i = 0; (path = fsdp_checkpoint_sibling(checkpoint, i)) != NULL; i++) {
		uint32_t record = collected_input(&session->collected,
			collected_text(&session->collected, path).data, "checkpoint");
		if (record == UINT32_MAX)
			return;
		session->collected.inputs[record].found = true;
	}
}

static void note_opening(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	const char *note;

	for (size_t i = 0; (note = fsdp_checkpoint_note(checkpoint, i)) != NULL; i++)
		collected_note(&session->collected, "%s", note);
}

static bool is_folder(const char *path)
{
	struct stat found;

	return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* ---- which paths are one checkpoint ---- */

/* Of the folder that a path lies in. False: it is not there, or the path is too long. */
static bool stat_parent(const char *path, struct stat *ret_found)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX] = ".";
	size_t size = slash != NULL ? (size_t)(slash - path) + 1 : 0;

	if (size >= sizeof parent)
		return false;
	if (size > 0) {
		memcpy(parent, path, size);
		parent[size] = '\0';
	}
	return stat(parent, ret_found) == 0;
}

static bool share_folder(const char *a, const char *b)
{
	struct stat left, right;

	return stat_parent(a, &left) && stat_parent(b, &right) &&
	       left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/* So many paths from this one on are one checkpoint: a folder, or files of one. */
static size_t paths_together(const struct session *session, size_t first)
{
	const struct texts *paths = &session->inputs->paths;
	size_t end = first + 1;

	if (session->apart || is_folder(paths->items[first]))
		return 1;
	while (end < paths->count &&
		share_folder(paths->items[first], paths->items[end]) &&
		!is_folder(paths->items[end]))
		end++;
	return end - first;
}

static size_t count_groups(const struct session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < session->inputs->paths.count; count++)
		i += paths_together(session, i);
	return count;
}

/* ---- a folder that holds checkpoints ---- */

enum { BELOW_NAMED = 3 };

/* Whether a folder may be one of a run, of which something in it was judged. */
static bool may_lead(const char *path, size_t count, const struct fsdp_error *error)
{
	enum fsdp_error_code code =
		error != NULL ? fsdp_error_code(error) : FSDP_ERROR_MEMORY;

	return count == 1 && is_folder(path) &&
	       (code == FSDP_ERROR_USAGE || code == FSDP_ERROR_NOT_A_CHECKPOINT ||
		       code == FSDP_ERROR_UNSUPPORTED);
}

/* "2 checkpoints below: run/step-1, run/step-2" */
static void refuse_below(
	struct session *session, const struct fsdp_below *below, uint32_t input)
{
	struct failure *failure = collected_failure(&session->collected, "usage");
	size_t count = fsdp_below_count(below);
	char text[1024] = "";
	int size = snprintf(text, sizeof text,
		"%s%zu checkpoints below: ", fsdp_below_is_cut(below) ? "at least " : "",
		count);

	if (failure == NULL)
		return;
	for (size_t i = 0; i < count && i < BELOW_NAMED && size < (int)sizeof text; i++)
		size += snprintf(text + size, sizeof text - (size_t)size, "%s%s",
			i > 0 ? ", " : "", fsdp_below_path(below, i));
	if (count > BELOW_NAMED && size < (int)sizeof text)
		snprintf(text + size, sizeof text - (size_t)size, ", and %zu more",
			count - BELOW_NAMED);
	failure->message = collected_text(&session->collected, text);
	snprintf(text, sizeof text, "fsdp-inspect %s %s", session->command->name,
		fsdp_below_path(below, count - 1));
	failure->hint = collected_text(&session->collected, text);
	failure->path =
		collected_text(&session->collected, session->inputs->paths.items[input]);
	failure->input = input;
}

/* What could not be looked at may hold another one. */
static void tell_unread(struct session *session, const struct fsdp_below *below,
	const char *path, uint32_t input)
{
	uint64_t unread = fsdp_below_unread(below);
	struct failure *failure;
	char text[120];

	if (unread == 0)
		return;
	snprintf(text, sizeof text,
		"%" PRIu64 " files or folders below could not be read", unread);
	session->status = status_worse(session->status, STATUS_PARTIAL);
	failure = collected_failure(&session->collected, "system");
	if (failure == NULL)
		return;
	failure->message = collected_text(&session->collected, text);
	failure->path = collected_text(&session->collected, path);
	failure->input = input;
}

/* Of a folder that is something else as a whole its own files are no checkpoints. */
static bool are_its_own(const struct fsdp_below *below, const char *path)
{
	for (size_t i = 0; i < fsdp_below_count(below); i++) {
		const char *name = fsdp_below_path(below, i) + strlen(path);
		if (strchr(name + (*name == '/'), '/') != NULL ||
			is_folder(fsdp_below_path(below, i)))
			return false;
	}
	return true;
}

/*
 * After a folder could not be opened: looks for checkpoints below it. Of one the path is
 * in *ret_only, to be opened instead. Of several true is returned: the command lists them,
 * or that was added to the failures.
 */
static bool look_below(struct session *session, const char *path, uint32_t input,
	enum fsdp_error_code code, const char **ret_only)
{
	struct fsdp_options options = session->inputs->options;
	struct fsdp_below *below;
	size_t count;

	if (!fsdp_below_new(path, &options, &below, NULL))
		return false;
	count = fsdp_below_count(below);
	if (count > 0)
		tell_unread(session, below, path, input);
	if (code == FSDP_ERROR_UNSUPPORTED && are_its_own(below, path))
		count = 0;
	if (count == 1) {
		*ret_only = collected_text(&session->collected, fsdp_below_path(below, 0))
				    .data;
		if (*ret_only != NULL)
			collected_note(&session->collected,
				"opened %s, the only checkpoint in %s", *ret_only, path);
	} else if (count > 1 && session->command->answers_each &&
		   session->below == NULL && !session->separate) {
		session->below = below;
		return true;
	} else if (count > 1) {
		refuse_below(session, below, input);
	}
	fsdp_below_free(below);
	return count > 1;
}

/* The library does not know what was typed: a hint names it FILE. */
static void name_file_in_hint(struct session *session, const char *path)
{
	static const char FILE_WORD[] = "FILE";
	const size_t size = sizeof FILE_WORD - 1;
	struct failure *failure;
	char hint[1024];

	if (session->collected.failure_count == 0)
		return;
	failure = &session->collected.failures[session->collected.failure_count - 1];
	if (failure->hint.size < size ||
		memmem(failure->hint.data, failure->hint.size, "fsdp-inspect", 12) ==
			NULL ||
		memcmp(failure->hint.data + failure->hint.size - size, FILE_WORD, size) !=
			0)
		return;
	snprintf(hint, sizeof hint, "%.*s%s", (int)(failure->hint.size - size),
		failure->hint.data, path);
	failure->hint = collected_text(&session->collected, hint);
}

/*
 * Opens the paths as one checkpoint and takes in all that it says of itself. first is the
 * record of the first path. NULL if it cannot be opened: that was added to the failures.
 */
static struct fsdp_checkpoint *open_checkpoint(
	struct session *session, const char *const *paths, size_t count, size_t first)
{
	struct fsdp_options options = session->inputs->options;
	struct fsdp_checkpoint *checkpoint = NULL, **checkpoints;
	struct fsdp_error *error = NULL;
	const char *only = NULL;
	size_t error_count;
	bool opened;

	checkpoints = reallocarray(
		session->checkpoints, session->checkpoint_count + 1, sizeof *checkpoints);
	if (checkpoints == NULL) {
		session->collected.out_of_memory = true;
		return NULL;
	}
	session->checkpoints = checkpoints;
	options.keep_failed = true;
	options.look_beside = session->command->looks_beside;
	opened = fsdp_checkpoint_open(paths, count, &options, &checkpoint, &error);
	if (!opened && may_lead(paths[0], count, error)) {
		bool told = look_below(session, paths[0], (uint32_t)first,
			fsdp_error_code(error), &only);
		if (told || only != NULL) {
			fsdp_checkpoint_free(checkpoint);
			checkpoint = NULL;
			fsdp_error_free(error);
			error = NULL;
		}
		if (told) {
			collected_recognised(&session->collected, first, count, NULL,
				session->below != NULL ? STATUS_GOOD : STATUS_FAILED);
			return NULL;
		}
	}
	if (only != NULL)
		opened = fsdp_checkpoint_open(&only, 1, &options, &checkpoint, &error);
	if (!opened) {
		if (checkpoint != NULL)
			collected_checkpoint(
				&session->collected, checkpoint, (uint32_t)first, true);
		fsdp_checkpoint_free(checkpoint);
		collected_error(&session->collected, error, (uint32_t)first);
		fsdp_error_free(error);
		name_file_in_hint(session, paths[0]);
		collected_recognised(
			&session->collected, first, count, NULL, STATUS_FAILED);
		return NULL;
	}
	checkpoints[session->checkpoint_count++] = checkpoint;
	if (session->command->judge == NULL)
		collected_checkpoint(&session->collected, checkpoint, (uint32_t)first,
			session->fleeting);
	note_opening(session, checkpoint);
	error_count = fsdp_checkpoint_error_count(checkpoint);
	for (size_t i = 0; i < error_count; i++)
		collected_error(&session->collected, fsdp_checkpoint_error(checkpoint, i),
			(uint32_t)first);
	collected_recognised(&session->collected, first, count,
		fsdp_checkpoint_format(checkpoint).family,
		error_count > 0 ? STATUS_PARTIAL : STATUS_GOOD);
	for (size_t i = first; i < first + count; i++)
		collected_base(&session->collected, i, fsdp_checkpoint_base(checkpoint));
	note_siblings(session, checkpoint);
	note_plan(session, checkpoint);
	return checkpoint;
}

/* ---- the answer ---- */

static struct run new_run(struct session *session)
{
	return (struct run){
		.command = session->command,
		.commands = session->arguments->commands,
		.options = session->arguments->options,
		.common = &session->arguments->common,
		.select = &session->arguments->select,
		.limits = session->inputs->options.limits,
		.limit_count = session->inputs->options.limit_count,
		.words = session->inputs->words,
		.word_count = session->inputs->word_count,
		.out = session->outputs->out,
		.locks = session->locks,
		.collected = &session->collected,
		.input = UINT32_MAX,
		.session = session,
	};
}

/* With --separate each answer is an element of a document. */
static bool is_bare(const struct session *session)
{
	return session->command->is_bare != NULL && !session->separate &&
	       session->command->is_bare(session->arguments->options);
}

static void begin(struct session *session, bool has_data)
{
	struct out_header header = {
		.command = session->command->name,
		.version = fsdp_version(),
		.status = session->status,
		.inputs = session->collected.inputs,
		.input_count = session->collected.input_count,
		.rule = catalogue_rule,
		.has_data = has_data,
		.bare = is_bare(session),
	};

	/* The answer is written from here on. */
	progress_end();
	session->begun = true;
	session->answered = has_data;
	/* Without its envelope a failure has nothing to say. */
	session->outputs->spoilt |= header.bare && !has_data;
	if (session->outputs->out != NULL)
		out_begin(session->outputs->out, &header);
}

/* Whether a finding of this checkpoint is as bad as --fail-on says. A command that judges
 * has looked at it by itself. */
static bool fails(const struct session *session)
{
	const struct collected *collected = &session->collected;
	const char *word = session->arguments->common.fail_on;
	size_t level = 0;

	if (word == NULL || session->command->judge != NULL)
		return false;
	while (fail_words[level] != NULL && strcmp(fail_words[level], word) != 0)
		level++;
	for (size_t i = 0; level > 0 && i < collected->finding_count; i++)
		if ((size_t)collected->findings[i].severity + 1 >= level &&
			(!session->separate ||
				collected->findings[i].input == session->input))
			return true;
	return false;
}

void run_begin(struct run *run, int status)
{
	struct session *session = run->session;

	if (fails(session))
		status = status_worse(status, STATUS_BAD);
	run->status = status_worse(run->status, status);
	session->status = status_worse(session->status, status);
	/* With several checkpoints the head was written before the first. */
	if (session->begun)
		return;
	for (size_t i = 0; !session->judged && i < session->collected.input_count; i++) {
		int *told = &session->collected.inputs[i].status;

		/* One that could not be read does not become better by the others. */
		if (*told >= 0 && *told != STATUS_FAILED)
			*told = session->status;
	}
	begin(session, session->judged || session->status != STATUS_FAILED);
}

static void call(struct session *session, struct run *run)
{
	struct fsdp_error *error = NULL;
	bool done = session->command->run(run, &error);

	fsdp_locator_free(run->locator);
	run->locator = NULL;
	if (!done) {
		collected_error(&session->collected, error, session->input);
		fsdp_error_free(error);
		session->status = STATUS_FAILED;
		session->outputs->spoilt |= session->answered;
		return;
	}
	/* An answer that nothing began is an empty one. */
	if (!session->begun)
		run_begin(run, STATUS_GOOD);
}

static void add_records(struct session *session)
{
	const struct texts *paths = &session->inputs->paths;

	const char *kind = session->command->inputs == INPUTS_RECORDINGS ? "trace"
			   : session->command->inputs == INPUTS_FILE     ? "pickle"
									 : "checkpoint";

	for (size_t i = 0; i < paths->count; i++)
		collected_input(&session->collected, paths->items[i], kind);
}

/* ---- recordings ---- */

static uint32_t input_of(const struct session *session, const char *path)
{
	for (size_t i = 0; i < session->inputs->paths.count; i++)
		if (strcmp(session->inputs->paths.items[i], path) == 0)
			return (uint32_t)i;
	return 0;
}

/* What each recording says of itself, by which some answers are partial. */
static void take_recordings(struct session *session)
{
	const struct fsdp_recordings *recordings = session->recordings;

	for (size_t i = 0; i < fsdp_recordings_finding_count(recordings); i++) {
		const struct fsdp_finding *finding =
			fsdp_recordings_finding(recordings, i);

		collected_found(&session->collected, finding,
			input_of(session, (const char *)finding->file.data), false);
	}
	for (size_t i = 0; i < fsdp_recordings_omitted_count(recordings); i++) {
		struct fsdp_omitted from = fsdp_recordings_omitted(recordings, i);

		collected_omitted(&session->collected, &from, 0, false);
	}
	for (size_t i = 0; i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(recordings, i);

		if (one->kind == FSDP_RECORDING_LOG &&
			one->input < session->collected.input_count)
			session->collected.inputs[one->input].kind = "log";
		collected_recognised(&session->collected, one->input, 1,
			fsdp_recording_kind_name(one->kind), STATUS_GOOD);
	}
}

/* Whatever the form of the answer, it is to say that it is for a part. */
static void tell_interrupted(
	struct session *session, const struct fsdp_recording_progress *progress)
{
	const struct fsdp_recordings *recordings = session->recordings;
	struct failure *failure = collected_failure(&session->collected, "system");
	uint64_t events = 0, read = progress->read;
	char share[64] = "", message[160];

	for (size_t i = 0; i < fsdp_recording_count(recordings); i++)
		events += fsdp_recording(recordings, i)->events;
	if (progress->size != 0)
		snprintf(share, sizeof share, " (%.0f %% of the %s)",
			(double)(read < progress->size ? read : progress->size) * 100 /
				(double)progress->size,
			session->inputs->paths.count == 1 ? "file" : "files");
	snprintf(message, sizeof message,
		"interrupted after %" PRIu64 " events%s: the answer is for these", events,
		share);
	if (failure != NULL)
		failure->message = collected_text(&session->collected, message);
	session->status = status_worse(session->status, STATUS_PARTIAL);
}

/* A folder may hold recordings for several commands. */
static void note_left_out(struct session *session)
{
	const char *path = fsdp_recordings_left_out(session->recordings, 0);
	size_t count = session->inputs->paths.count -
		       fsdp_recording_count(session->recordings) -
		       fsdp_recordings_error_count(session->recordings);

	if (count == 1)
		collected_note(&session->collected,
			"%s is left out: it is for another command (fsdp-inspect help trace)",
			path);
	else if (count > 1)
		collected_note(&session->collected,
			"%s and %zu more are left out: they are for another command (fsdp-inspect help trace)",
			path, count - 1);
}

/* Recordings that could not be read do not hide the others. */
static void take_recording_errors(struct session *session)
{
	const struct fsdp_recordings *recordings = session->recordings;
	const struct fsdp_error *error;

	for (size_t i = 0; (error = fsdp_recordings_error(recordings, i)) != NULL; i++) {
		const char *path = fsdp_error_path(error);
		uint32_t input = path != NULL ? input_of(session, path) : 0;

		collected_error(&session->collected, error, input);
		session->collected.inputs[input].status = STATUS_FAILED;
		session->status = status_worse(session->status, STATUS_PARTIAL);
	}
}

static bool read_recordings(struct session *session, struct run *run)
{
	const struct common_options *common = &session->arguments->common;
	const struct texts *paths = &session->inputs->paths;
	struct fsdp_recording_progress progress = { 0 };
	struct fsdp_recording_options options = {
		.size = sizeof options,
		.limits = session->inputs->options.limits,
		.limit_count = session->inputs->options.limit_count,
		.jobs = jobs_wanted(common),
		.progress = &progress,
	};
	struct fsdp_error *error = NULL;
	const char *path;
	bool good;

	if (session->command->prepare != NULL &&
		!session->command->prepare(run, &options))
		return false;
	progress_begin(common, &progress);
	good = fsdp_recordings_read(
		paths->items, paths->count, &options, &session->recordings, &error);
	session->interrupted = progress_end();
	run->recordings = session->recordings;
	if (good) {
		take_recordings(session);
		take_recording_errors(session);
		note_left_out(session);
		if (session->interrupted != 0)
			tell_interrupted(session, &progress);
		return true;
	}
	path = error != NULL ? fsdp_error_path(error) : NULL;
	collected_error(
		&session->collected, error, path != NULL ? input_of(session, path) : 0);
	fsdp_error_free(error);
	collected_recognised(&session->collected, 0, paths->count, NULL, STATUS_FAILED);
	session->status = STATUS_FAILED;
	return false;
}

static void answer_each(struct session *session);

/* Files of one folder that are no checkpoint together are answered for one by one. */
static bool part_files(struct session *session, size_t failures)
{
	const struct failure *failure = &session->collected.failures[failures];

	if (!session->command->answers_each || session->inputs->paths.count < 2 ||
		session->collected.failure_count != failures + 1 ||
		session->collected.finding_count > 0 ||
		(strcmp(failure->code, "usage") != 0 &&
			strcmp(failure->code, "unsupported") != 0))
		return false;
	session->collected.failure_count = failures;
	session->apart = session->separate = true;
	answer_each(session);
	return true;
}

static void release(struct run *run)
{
	if (run->command->release != NULL)
		run->command->release(run->prepared);
}

static void answer_one(struct session *session)
{
	const struct texts *paths = &session->inputs->paths;
	struct run run = new_run(session);

	if (session->command->inputs == INPUTS_RECORDINGS) {
		run.path = paths->items[0];
		run.path_count = paths->count;
		session->input = 0;
		if (!read_recordings(session, &run) || session->collected.out_of_memory) {
			session->status = STATUS_FAILED;
			release(&run);
			return;
		}
	} else if (session->command->inputs == INPUTS_FILE) {
		run.path = paths->items[0];
		run.path_count = paths->count;
		session->input = 0;
	} else if (takes_checkpoint(session->command->inputs)) {
		run.path = paths->items[0];
		run.path_count = paths->count;
		run.checkpoint = open_checkpoint(session, paths->items, paths->count, 0);
		run.below = session->below;
		if (run.checkpoint == NULL && part_files(session, 0))
			return;
		if ((run.checkpoint == NULL && run.below == NULL) ||
			session->collected.out_of_memory) {
			session->status = STATUS_FAILED;
			return;
		}
		if (session->collected.failure_count > 0)
			session->status = STATUS_PARTIAL;
		session->input = 0;
	}
	call(session, &run);
	release(&run);
}

/* ---- judging ---- */

static void set_status(struct session *session, size_t first, size_t count, int status)
{
	/* There may be fewer, if memory ended. */
	for (size_t i = first; i < first + count && i < session->collected.input_count;
		i++)
		session->collected.inputs[i].status = status;
	session->status = status_worse(session->status, status);
}

/* False: there will be no answer. */
static bool judge(struct session *session, struct run *run, size_t first, size_t count)
{
	const struct collected *collected = &session->collected;
	struct fsdp_error *error = NULL;
	bool good;

	run->first.finding = collected->finding_count;
	run->first.failure = collected->failure_count;
	run->first.omission = collected->omission_count;
	run->path = session->inputs->paths.items[first];
	run->path_count = count;
	run->input = session->input = (uint32_t)first;
	run->status = STATUS_GOOD;
	run->checkpoint = open_checkpoint(
		session, &session->inputs->paths.items[first], count, first);
	good = !collected->out_of_memory && session->command->judge(run, &error) &&
	       !session->begun;
	if (!good && !collected->out_of_memory && !session->begun)
		collected_error(&session->collected, error, session->input);
	fsdp_error_free(error);
	fsdp_locator_free(run->locator);
	run->locator = NULL;
	if (session->fleeting && run->checkpoint != NULL)
		fsdp_checkpoint_free(session->checkpoints[--session->checkpoint_count]);
	run->checkpoint = NULL;
	set_status(session, first, count, good ? run->status : STATUS_FAILED);
	return good;
}

static void answer_judged(struct session *session)
{
	size_t path_count = session->inputs->paths.count, together;
	struct run run = new_run(session);
	bool good = session->command->prepare == NULL ||
		    session->command->prepare(&run, NULL);

	session->fleeting = path_count > paths_together(session, 0);
	for (size_t i = 0; good && i < path_count; i += together) {
		together = paths_together(session, i);
		good = judge(session, &run, i, together);
	}
	if (good) {
		session->judged = true;
		call(session, &run);
	}
	release(&run);
}

/* ---- separate answers ---- */

static void answer_input(struct session *session, struct fsdp_checkpoint *checkpoint,
	size_t input, struct out *out)
{
	struct run run = new_run(session);

	run.out = out;
	run.path = session->inputs->paths.items[input];
	run.path_count = 1;
	run.checkpoint = checkpoint;
	session->input = (uint32_t)input;
	call(session, &run);
}

/* Opens each input, makes its answer and throws it away; messages are reported here. Sets
 * the status of each; those without an answer are NULL in `opened`. */
static bool rehearse(struct session *session, struct fsdp_checkpoint **opened)
{
	struct out *discard = out_many(NULL, 0);
	int worst = STATUS_GOOD;
	size_t together;

	if (discard == NULL)
		return false;
	session->begun = true;
	for (size_t i = 0;
		i < session->inputs->paths.count && !session->collected.out_of_memory;
		i += together) {
		size_t failures = session->collected.failure_count;
		session->status = STATUS_GOOD;
		together = paths_together(session, i);
		opened[i] = open_checkpoint(
			session, &session->inputs->paths.items[i], together, i);
		if (session->collected.failure_count > failures)
			session->status = STATUS_PARTIAL;
		if (opened[i] != NULL)
			answer_input(session, opened[i], i, discard);
		else
			session->status = STATUS_FAILED;
		if (session->status == STATUS_FAILED)
			opened[i] = NULL;
		worst = status_worse(worst, session->status);
		set_status(session, i, together, session->status);
	}
	session->begun = false;
	session->status = worst;
	out_free(discard);
	return !session->collected.out_of_memory;
}

static void show_each(struct session *session, struct fsdp_checkpoint *const *opened)
{
	struct out *out = session->outputs->out;
	bool some = false;

	out_array_begin(out, "checkpoints");
	for (size_t i = 0; i < session->inputs->paths.count; i++) {
		if (opened[i] == NULL)
			continue;
		if (some)
			out_line(out, NULL, "%s", "");
		some = true;
		out_object_begin(out, NULL);
		out_field(out, "input", value_count(i));
		answer_input(session, opened[i], i, out);
		out_object_end(out);
	}
	out_array_end(out);
}

/*
 * --separate: {"checkpoints": [{"input": 0, …}, …]}, and in text one block after another.
 * The head holds the status of all, which only the answers decide, and those do not fit
 * into memory: so each is made twice, and thrown away the first time.
 */
static void answer_each(struct session *session)
{
	struct fsdp_checkpoint **opened =
		calloc(session->inputs->paths.count, sizeof *opened);
	size_t failures, notes, totals;
	bool any = false;
	int status;

	if (opened == NULL || !rehearse(session, opened)) {
		session->collected.out_of_memory = true;
		free(opened);
		return;
	}
	for (size_t i = 0; i < session->inputs->paths.count; i++)
		any |= opened[i] != NULL;
	failures = session->collected.failure_count;
	notes = session->collected.notes.count;
	totals = session->collected.totals.count;
	status = session->status;
	if (any) {
		begin(session, true);
		show_each(session, opened);
		/* All was said before. */
		session->collected.failure_count = failures;
		session->collected.notes.count = notes;
		session->collected.totals.count = totals;
		session->status = status;
	}
	free(opened);
}

/* The envelope's tail; and its head, if there is no answer. */
static void end(struct session *session)
{
	struct failure memory;
	struct out_footer footer;

	if (session->collected.out_of_memory) {
		add_out_of_memory(session, &memory);
		session->outputs->spoilt |= session->answered;
	}
	if (session->outputs->out == NULL)
		return;
	if (!session->begun)
		begin(session, false);
	footer = (struct out_footer){
		.status = session->status,
		.interrupted = session->interrupted != 0,
		.findings = session->collected.findings,
		.finding_count = session->collected.finding_count,
		.failures = session->collected.out_of_memory
				    ? &memory
				    : session->collected.failures,
		.failure_count = session->collected.out_of_memory
					 ? 1
					 : session->collected.failure_count,
		.omissions = session->collected.omissions,
		.omission_count = session->collected.omission_count,
		.checks = session->collected.checks,
		.check_count = session->collected.check_count,
		.fail_on = session->collected.fail_on,
		.never_fails = session->collected.never_fails,
	};
	out_end(session->outputs->out, &footer);
}

/* ---- what was probably meant ---- */

static const char *near_of(const struct session *session, const char *path)
{
	const struct texts *paths = &session->inputs->paths;
	const struct texts *near = &session->inputs->near;

	for (size_t i = 0; i < near->count; i++)
		if (near->items[i] != NULL && strcmp(paths->items[i], path) == 0)
			return near->items[i];
	return NULL;
}

/* Paths that are not there, but others that are like them. */
static void hint_near(struct session *session)
{
	for (size_t i = 0; i < session->collected.failure_count; i++) {
		struct failure *failure = &session->collected.failures[i];
		const char *near =
			failure->hint.data == NULL && failure->path.data != NULL
				? near_of(session, failure->path.data)
				: NULL;
		char hint[512];

		if (near == NULL)
			continue;
		snprintf(hint, sizeof hint, "did you mean: fsdp-inspect %s %s",
			session->command->name, near);
		failure->hint = collected_text(&session->collected, hint);
	}
}

/* ---- after the answer ---- */

static void complain(void *context, const char *file, int error)
{
	struct session *session = context;
	struct failure *failure;

	session->status = STATUS_FAILED;
	session->collected.totals.count = 0; /* of an answer that is not shown */
	failure = collected_failure(&session->collected, "system");
	if (failure == NULL)
		return;
	failure->path = collected_text(
		&session->collected, file != NULL ? file : "standard output");
	if (error != OUTPUT_IS_INPUT) {
		failure->message = collected_text(&session->collected, strerror(error));
		return;
	}
	failure->message = collected_text(
		&session->collected, "belongs to the input, so it was not replaced");
	failure->hint =
		collected_text(&session->collected, "give the output another name");
}

static void tell(struct session *session)
{
	const struct looks *looks = session->error_looks;
	const struct collected *collected = &session->collected;
	struct findings_view view = {
		.findings = collected->findings,
		.count = collected->finding_count,
		.omissions = collected->omissions,
		.omission_count = collected->omission_count,
		.input = UINT32_MAX,
		.inputs = session->separate ? collected->inputs : NULL,
		/* What is ordinary is for those who ask; info counts it. */
		.least = looks->verbosity >= 1   ? SEVERITY_NOTE
			 : looks->verbosity < -1 ? SEVERITY_ERROR
						 : SEVERITY_WARNING,
		.all = looks->verbosity >= 1,
	};
	bool good = true;

	for (size_t i = 0; i < session->collected.totals.count; i++)
		good &= message_total(looks, session->collected.totals.items[i]);
	for (size_t i = 0; i < session->collected.notes.count; i++)
		good &= message_note(looks, session->collected.notes.items[i]);
	/* An answer that judges has shown them. */
	if (!session->judged)
		good &= message_findings(looks, &view);
	if (!good || session->collected.out_of_memory) {
		message_out_of_memory();
		session->status = STATUS_FAILED;
	} else {
		message_failures(looks, session->collected.failures,
			session->collected.failure_count);
	}
}

static void session_done(struct session *session)
{
	for (size_t i = 0; i < session->checkpoint_count; i++)
		fsdp_checkpoint_free(session->checkpoints[i]);
	fsdp_recordings_free(session->recordings);
	fsdp_below_free(session->below);
	free(session->checkpoints);
	collected_done(&session->collected);
}

/* Not only the arguments are read: options may name something too. */
static void allow_files(
	struct sandbox *sandbox, const struct option *rows, const void *values)
{
	for (; rows != NULL && rows->name != NULL; rows++) {
		const char *path = option_path(rows, values);

		if (path != NULL)
			sandbox_allow(sandbox, path);
	}
}

/* The folder that the command writes into, which is made here; NULL: there is none. It is
 * freed by the caller. */
static char *claim_folder(const struct session *session)
{
	struct rlimit open_files;
	struct written written;
	const char *slash;
	char *folder;

	if (session->command->writes == NULL || session->inputs->paths.count == 0 ||
		!session->command->writes(session->arguments->options,
			session->inputs->paths.items[0], &written))
		return NULL;
	slash = strrchr(written.path, '/');
	folder = !written.is_file ? strdup(written.path)
		 : slash == NULL  ? strdup(".")
		 : slash == written.path
			 ? strdup("/")
			 : strndup(written.path, (size_t)(slash - written.path));
	if (folder != NULL)
		temporary_watch(folder, !written.is_file);
	/* All files are open until each is whole. */
	if (getrlimit(RLIMIT_NOFILE, &open_files) == 0) {
		open_files.rlim_cur = open_files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &open_files);
	}
	return folder;
}

static void lock_up(struct session *session)
{
	const struct texts *paths = &session->inputs->paths;
	const struct common_options *common = &session->arguments->common;
	char *folder = claim_folder(session);
	bool open = common->no_sandbox || sandbox_built() == 0;
	struct sandbox sandbox;

	/* What it may leave behind is removed by another process in any case. */
	if ((open && folder == NULL) || !temporary_hand_over() || open) {
		free(folder);
		return;
	}
	sandbox = sandbox_begin();
	if (folder != NULL)
		sandbox_allow_writes(&sandbox, folder);
	free(folder);
	for (size_t i = 0; i < paths->count; i++)
		sandbox_allow(&sandbox, paths->items[i]);
	allow_files(&sandbox, common_options, common);
	allow_files(&sandbox, session->command->options, session->arguments->options);
	session->locks = sandbox_enter(&sandbox);
}

/* What is typed wrong is told before the locks are shut, which would hide it. */
static bool refuse_several(struct session *session)
{
	const struct command *command = session->command;
	struct failure *failure;
	char text[160];

	if (command->judge != NULL || command->inputs != INPUTS_MANY ||
		session->separate || count_groups(session) < 2)
		return false;
	snprintf(text, sizeof text, "%s answers for one checkpoint, and %zu were given",
		command->name, count_groups(session));
	failure = collected_failure(&session->collected, "usage");
	if (failure != NULL) {
		failure->message = collected_text(&session->collected, text);
		failure->hint = collected_text(&session->collected,
			"give one path, or --separate for an answer each");
	}
	return true;
}

int session_run(const struct arguments *arguments, const struct inputs *inputs,
	struct outputs *outputs, const struct looks *error_looks)
{
	struct session session = {
		.command = arguments->command,
		.arguments = arguments,
		.inputs = inputs,
		.outputs = outputs,
		.error_looks = error_looks,
		.input = UINT32_MAX,
		.apart = arguments->common.separate &&
			 arguments->command->inputs == INPUTS_MANY,
	};
	bool refused;
	int status;

	session.separate = session.apart ||
			   (session.command->answers_each && count_groups(&session) > 1);
	refused = refuse_several(&session);
	lock_up(&session);
	if (error_looks->verbosity >= 1)
		collected_note(
			&session.collected, "sandbox: %s", sandbox_text(session.locks));
	add_records(&session);
	progress_begin(&arguments->common, NULL);
	if (refused)
		session.status = STATUS_FAILED;
	else if (session.command->judge != NULL)
		answer_judged(&session);
	else if (session.separate)
		answer_each(&session);
	else
		answer_one(&session);
	outputs->interrupted = session.interrupted;
	outputs->spoilt |= session.interrupted != 0;
	progress_end();
	hint_near(&session);
	end(&session);
	if (!outputs_finish(outputs, session.answered, complain, &session))
		session.status = STATUS_FAILED;
	tell(&session);
	status = session.status;
	session_done(&session);
	return status;
}
