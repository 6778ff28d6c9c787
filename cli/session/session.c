/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command over its inputs: opens them, hands each to the command, writes the
 * envelope, reports what went wrong, and decides the exit status.
 */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fsdp/analysis.h>
#include <fsdp/document.h>
#include <fsdp/error.h>

#include "args/input.h"
#include "render/out.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/session.h"
#include "session/session-private.h"

/* ---- Arguments, host and time of this run ---- */

/* Of the words after the program's name, which the list borrows; NULL ends them. */
static void provenance_collect(struct provenance_source *source, char *const *words)
{
	char date[DATE_SIZE];
	struct text *arguments;
	size_t count = 0;

	while (words[count] != NULL)
		count++;
	arguments = memory_new(count, sizeof *arguments);
	for (size_t i = 0; i < count; i++)
		arguments[i] = text_of(words[i]);
	/* A longer name is cut, and may lack its end. */
	if (gethostname(source->host, sizeof source->host - 1) != 0)
		source->host[0] = '\0';
	date_format(date, time(NULL), 'T');
	if (date[0] != '\0')
		snprintf(source->started, sizeof source->started, "%sZ", date);
	source->shown = (struct provenance){
		.arguments = arguments,
		.argument_count = count,
		.host = text_of(source->host),
		.started = text_of(source->started),
	};
}

/* ---- Collects reports in addition to an answer: notes, totals, failures and findings
 * ---- */

void run_note(struct run *run, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	collected_line(&run->session->collected, &run->session->collected.notes, format,
		arguments);
	va_end(arguments);
}

void run_reason(struct run *run, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	collected_line(&run->session->collected, &run->session->collected.reasons, format,
		arguments);
	va_end(arguments);
}

void run_total(struct run *run, const char *format, ...)
{
	va_list arguments;

	if (!outputs_have_text(run->session->outputs))
		return;
	va_start(arguments, format);
	collected_line(&run->session->collected, &run->session->collected.totals, format,
		arguments);
	va_end(arguments);
}

struct fsdp_options run_opens(const struct run *run)
{
	return (struct fsdp_options){ .size = sizeof(struct fsdp_options),
		.limits = run->limits,
		.limit_count = run->limit_count,
		.remote = run->remote };
}

void run_failure(
	struct run *run, const char *code, const char *hint, const char *format, ...)
{
	struct session *session = run->session;
	bool typed = strcmp(code, "usage") == 0;
	va_list arguments;

	session->status = status_worse(session->status, STATUS_PARTIAL);
	run->status = status_worse(run->status, STATUS_PARTIAL);
	va_start(arguments, format);
	char *message = memory_vformat(format, arguments);
	va_end(arguments);
	if (typed && collected_has_failure(&session->collected, code, message))
		return;
	struct failure *failure = collected_failure(&session->collected, code);
	failure->message = text_of(message);
	failure->hint = hint != NULL ? text_of(memory_text(hint)) : collected_hint(code);
	/* A typing error is not a fault of the checkpoint. */
	if (typed || run->path == NULL)
		return;
	failure->path = text_of(memory_text(run->path));
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

void run_finding(
	struct run *run, const char *rule, const char *fix, const char *format, ...)
{
	struct session *session = run->session;
	const struct finding about = {
		.severity = collected_severity(fsdp_rule_find(rule)->severity),
		.input = session->input != UINT32_MAX ? session->input : 0,
	};
	va_list arguments;

	va_start(arguments, format);
	collected_report(&session->collected, rule, about, fix, "%s",
		memory_vformat(format, arguments));
	va_end(arguments);
}

static void refuse_with(
	struct run *run, const char *hint, const char *format, va_list arguments)
{
	run_failure(run, "usage", hint, "%s", memory_vformat(format, arguments));
	run_begin(run, STATUS_FAILED);
}

/* ---- what a command owns, and how it ends from within ---- */

void release_error(void *object)
{
	fsdp_error_free(object);
}

void release_checkpoint(void *object)
{
	fsdp_checkpoint_free(object);
}

void release_overview(void *object)
{
	fsdp_overview_free(object);
}

void release_discover(void *object)
{
	fsdp_discover_free(object);
}

void release_document(void *object)
{
	fsdp_document_free(object);
}

enum { RUN_REFUSED = ESCAPE_MEMORY + 1, RUN_FAILED };

void run_fail(struct run *run, struct fsdp_error *error)
{
	run->session->error = error;
	longjmp(*run->session->end, RUN_FAILED);
}

void run_refuse(struct run *run, const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	refuse_with(run, hint, format, arguments);
	va_end(arguments);
	longjmp(*run->session->end, RUN_REFUSED);
}

void run_owns(struct run *run, void *object, release_function *release)
{
	(void)run;
	memory_owns(object, release);
}

void *run_memory(struct run *run, size_t count, size_t size)
{
	void *memory = memory_new(count, size);

	run_owns(run, memory, memory_free);
	return memory;
}

void *run_grown(struct run *run, void *items, size_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return items;
	void *more = run_memory(run, 2 * count, size);
	if (count > 0)
		memcpy(more, items, count * size);
	return more;
}

bool run_try(struct run *run, void (*step)(struct run *run))
{
	struct session *session = run->session;
	jmp_buf end, *outer = session->end, *before = memory_escape(&end);

	session->end = &end;
	session->error = NULL;
	int code = setjmp(end);
	if (code == 0)
		step(run);
	session->end = outer;
	memory_escape(before);
	if (code == ESCAPE_MEMORY ||
		(code == RUN_FAILED &&
			(session->error == NULL ||
				fsdp_error_code(session->error) == FSDP_ERROR_MEMORY)))
		memory_fail();
	return code != RUN_FAILED;
}

static void run_fallible(struct run *run)
{
	run_must(run, run->command->run(run, &run->error));
}

static void prepare(struct run *run)
{
	if (run->command->prepare != NULL && !run->command->prepare(run, NULL))
		longjmp(*run->session->end, RUN_REFUSED);
}

/* Of a step before the answer: whether there is to be one. */
static bool completes(struct run *run, void (*step)(struct run *run))
{
	struct session *session = run->session;

	if (!run_try(run, step))
		collected_own_error(&session->collected, session->error, session->input);
	return !session->begun && session->error == NULL;
}

/*
 * Begins an answer when the request itself is wrong; the requested kinds of output; the
 * place of the checkpoint.
 */

bool refuse(struct run *run, const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	refuse_with(run, hint, format, arguments);
	va_end(arguments);
	return true;
}

struct selection *run_selection_of(
	struct run *run, const struct select_options *options, const char *before)
{
	jmp_buf end;
	struct usage usage = { .end = &end };

	if (setjmp(end) != 0)
		run_refuse(run, usage.hint, "%s%s", before, usage.what);
	return selection_new(options, &usage);
}

struct selection *run_selection(struct run *run)
{
	const struct texts *globs = &run->select->globs;
	struct selection *selection = run_selection_of(run, run->select, "");

	if (run->checkpoint == NULL)
		return selection;
	selection_resolve(selection, run->checkpoint);
	run->widened_first = run->collected->notes.count;
	/* What is written is what was named. */
	for (size_t i = 0; i < globs->count && run->session->command->writes == NULL; i++)
		if (selection_widen(selection, globs, i, run->checkpoint))
			run_note(run,
				"no name is exactly '%s': using all names that contain it",
				globs->items[i]);
	run->widened_count = run->collected->notes.count - run->widened_first;
	return selection;
}

int answer_selection_status(
	struct run *run, const struct selection *selection, int status)
{
	if (!selection_gave_up(selection))
		return status;
	run_failure(run, "limit", "use a simpler pattern, with fewer ** in it",
		"a pattern took too many steps on some names, which count as not matched");
	return status_worse(status, STATUS_PARTIAL);
}

/* A file that stands for its set, and an archive, are their own place. */
const char *answer_place(const struct run *run)
{
	const struct collected *collected = run->collected;
	const char *base =
		run->checkpoint != NULL ? fsdp_checkpoint_base(run->checkpoint) : NULL;

	for (size_t i = run->input != UINT32_MAX ? run->input : 0;
		base == NULL && i < collected->input_count; i++) {
		if (collected->inputs[i].path.data == run->path)
			base = collected->inputs[i].base.data;
		if (run->input != UINT32_MAX)
			break;
	}
	return base != NULL && path_is_folder(run->path) && path_is_folder(base)
		       ? base
		       : run->path;
}

struct text opened_path(const struct run *run)
{
	const struct collected *collected = run->collected;
	struct text path = text_of(run->path);

	for (size_t i = 0; i < collected->input_count; i++)
		if (collected->inputs[i].path.data == run->path &&
			collected->inputs[i].opened.data != NULL)
			path = collected->inputs[i].opened;
	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	return path;
}

static bool names_format(const char *output, const char *format)
{
	size_t size = strcspn(output, "=");
	return strlen(format) == size && memcmp(output, format, size) == 0;
}

bool answer_has_output(const struct run *run, const char *format)
{
	const struct common_options *common = run->common;

	if (strcmp(format, "json") == 0 && common->json)
		return true;
	if (strcmp(format, "jsonl") == 0 && common->jsonl)
		return true;
	for (size_t i = 0; i < common->outputs.count; i++)
		if (names_format(common->outputs.items[i], format))
			return true;
	return !common->json && !common->jsonl && common->outputs.count == 0 &&
	       strcmp(run->command->output, format) == 0;
}

bool answer_is_machine(const struct run *run)
{
	const struct common_options *common = run->common;

	if (common->json || common->jsonl)
		return true;
	FOR_EACH(i, common->outputs.count, output, common->outputs.items[i])
		if (!names_format(output, "text") && !names_format(output, "name"))
			return true;
	return common->outputs.count == 0 && strcmp(run->command->output, "text") != 0;
}

/* ---- the answer ---- */

static struct run new_run(struct session *session)
{
	return (struct run){
		.command = session->command,
		.commands = session->arguments->commands,
		.arguments = session->arguments,
		.options = session->arguments->options,
		.common = &session->arguments->common,
		.select = &session->arguments->select,
		.limits = session->inputs->options.limits,
		.limit_count = session->inputs->options.limit_count,
		.remote = session->inputs->options.remote,
		.words = session->inputs->words.items,
		.word_count = session->inputs->words.count,
		.out = session->outputs->out,
		.locks = session->locks,
		.paths = session->inputs->paths.items,
		.collected = &session->collected,
		.input = UINT32_MAX,
		.session = session,
	};
}

static void begin(struct session *session, bool has_data)
{
	struct out_header header = {
		.command = session->answers_as != NULL ? session->answers_as->name
						       : session->command->name,
		.version = fsdp_version(),
		.status = session->status,
		.inputs = session->collected.inputs,
		.input_count = session->collected.input_count,
		.provenance = session->arguments->common.provenance
				      ? &session->provenance.shown
				      : NULL,
		.rule = catalogue_rule,
		.has_data = has_data,
		/* With --separate each answer is an element of a document. */
		.bare = session->command->is_bare != NULL && !session->separate &&
			session->command->is_bare(session->arguments->options),
		.summed = session->arguments->common.part_count != 0,
	};

	if (header.provenance != NULL && helper_remote() != NULL) {
		session->provenance.remote = fsdp_remote_counts(helper_remote());
		session->provenance.shown.remote = (struct requests){
			session->provenance.remote.backend,
			session->provenance.remote.lists,
			session->provenance.remote.gets,
			session->provenance.remote.heads,
			session->provenance.remote.retries,
			session->provenance.remote.bytes,
		};
	}
	/* The answer is written from here on. */
	progress_end();
	session->begun = true;
	session->answered = has_data;
	/* Without its envelope a failure has nothing to say. */
	session->outputs->spoilt |= header.bare && !has_data;
	if (session->outputs->out != NULL)
		out_begin(session->outputs->out, &header);
}

/* Whether a finding of this checkpoint is as bad as --fail-on says. A command with a
 * verdict checks it itself. */
static bool fails(const struct session *session)
{
	const struct collected *collected = &session->collected;
	const char *word = session->arguments->common.fail_on;
	size_t level = 0;

	if (word == NULL || session->command->check_inputs != NULL)
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

const char *run_answer_as(struct run *run, const struct command *command)
{
	run->session->answers_as = command;
	run->session->checked = command->check_inputs != NULL;
	return outputs_unfit(run->session->outputs, command);
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
	for (size_t i = 0; !session->checked && i < session->collected.input_count; i++) {
		int *input_status = &session->collected.inputs[i].status;

		/* One that could not be read does not become better by the others. */
		if (*input_status >= 0 && *input_status != STATUS_FAILED)
			*input_status = session->status;
	}
	begin(session, session->checked || session->status != STATUS_FAILED);
}

const struct fsdp_checkpoint *run_open(struct run *run, size_t input)
{
	struct session *session = run->session;
	size_t failures = session->collected.failure_count;
	const struct fsdp_checkpoint *checkpoint =
		session_open(session, &session->inputs->paths.items[input], 1, input);

	if (checkpoint == NULL || session->collected.failure_count > failures)
		session->status = status_worse(session->status,
			checkpoint == NULL ? STATUS_FAILED : STATUS_PARTIAL);
	return checkpoint;
}

static void call(struct session *session, struct run *run)
{
	size_t mark = memory_mark();
	bool done;

	done = run_try(run, session->command->perform != NULL ? session->command->perform
							      : run_fallible);
	memory_release(mark);
	run->locator = NULL;
	if (!done) {
		collected_own_error(&session->collected, session->error, session->input);
		if (session->command->inputs == INPUTS_FILE)
			session_name_file(session, run->path);
		session->status = STATUS_FAILED;
		session->outputs->spoilt |= session->answered;
		return;
	}
	/* An answer that nothing began is an empty one. */
	if (!session->begun)
		run_begin(run, STATUS_GOOD);
}

static void answer_each(struct session *session);

/* Files of one directory that are not one checkpoint get an answer each. */
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

/* The files of an input are known after it is open. */
static bool refuse_target(struct session *session)
{
	jmp_buf end;
	struct usage usage = { .end = &end };

	if (setjmp(end) == 0) {
		outputs_check(session->outputs, &usage);
		return false;
	}
	collected_fail(&session->collected, "usage", usage.hint, "%s", usage.what);
	session->status = STATUS_FAILED;
	return true;
}

static void answer_one(struct session *session)
{
	const struct texts *paths = &session->inputs->paths;
	struct run run = new_run(session);

	if (session->command->inputs == INPUTS_RECORDINGS) {
		run.path = paths->items[0];
		run.path_count = paths->count;
		session->input = 0;
		if (!session_read_recordings(session, &run)) {
			session->status = STATUS_FAILED;
			return;
		}
	} else if (session->command->inputs == INPUTS_FILE ||
		   session->command->inputs == INPUTS_RUNS) {
		run.path = paths->items[0];
		run.path_count = paths->count;
		session->input = 0;
	} else if (takes_checkpoint(session->command->inputs)) {
		run.path = paths->items[0];
		run.path_count = session->apart ? 1 : paths->count;
		run.checkpoint = session_open(session, paths->items, run.path_count, 0);
		if (session->command->inputs == INPUTS_PAIR)
			run.other_path = paths->items[1];
		run.below = session->below;
		if (run.checkpoint == NULL && run.below == NULL &&
			session->command->reads_recordings)
			session_recognise(session, &run);
		if (run.checkpoint == NULL && run.recordings == NULL &&
			part_files(session, 0))
			return;
		if (run.checkpoint == NULL && run.below == NULL &&
			run.recordings == NULL && !session->command->answers_unopened) {
			session->status = STATUS_FAILED;
			return;
		}
		if (session->collected.failure_count > 0 && run.checkpoint != NULL)
			session->status = STATUS_PARTIAL;
		session->input = 0;
		if (refuse_target(session))
			return;
	}
	call(session, &run);
}

/* ---- verdicts ---- */

static void set_status(struct session *session, size_t first, size_t count, int status)
{
	/* There may be fewer, if memory ended. */
	for (size_t i = first; i < first + count && i < session->collected.input_count;
		i++)
		session->collected.inputs[i].status = status;
	session->status = status_worse(session->status, status);
}

/* Opens the paths as one checkpoint and checks it. False: there will be no answer. */
static bool check_inputs(struct session *session, struct run *run,
	const char *const *paths, size_t count, size_t first)
{
	const struct collected *collected = &session->collected;
	bool is_listed = session->below != NULL, good;

	run->first.finding = collected->finding_count;
	run->first.failure = collected->failure_count;
	run->first.omission = collected->omission_count;
	run->path = paths[0];
	run->path_count = count;
	run->input = session->input = (uint32_t)first;
	run->status = STATUS_GOOD;
	run->checkpoint = session_open(session, paths, count, first);
	run->below = is_listed ? NULL : session->below;
	good = completes(run, session->command->check_inputs);
	run->locator = NULL;
	if (session->fleeting && run->checkpoint != NULL)
		fsdp_checkpoint_free(session->checkpoints[--session->checkpoint_count]);
	run->checkpoint = NULL;
	run->below = NULL;
	set_status(session, first, count, good ? run->status : STATUS_FAILED);
	return good;
}

struct listed_path {
	const char *path;
	int64_t step; /* negative: none */
};

/* Runs by their names, and of each its checkpoints by step. */
static int by_step(const void *left, const void *right)
{
	const struct listed_path *a = left, *b = right;
	const char *a_end = strrchr(a->path, '/'), *b_end = strrchr(b->path, '/');
	int order = text_compare(
		(struct text){ a->path, a_end != NULL ? (size_t)(a_end - a->path) : 0 },
		(struct text){ b->path, b_end != NULL ? (size_t)(b_end - b->path) : 0 });

	if (order != 0)
		return order;
	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	return strcmp(a->path, b->path);
}

/* Whether the file was read with an earlier one of its set. */
static bool was_read(const struct collected *collected, const char *path)
{
	for (size_t i = 0; i < collected->input_count; i++)
		if (collected->inputs[i].found &&
			text_is(collected->inputs[i].path, text_of(path)))
			return true;
	return false;
}

/* Checks each checkpoint below a directory, which is input `parent`, by step. */
static bool check_below(struct session *session, struct run *run, size_t parent)
{
	struct collected *collected = &session->collected;
	size_t count = fsdp_discover_count(session->below);
	struct listed_path *listed = memory_new(count, sizeof *listed);
	bool fleeting = session->fleeting, good = true;
	int status = STATUS_GOOD;

	for (size_t i = 0; i < count; i++)
		listed[i] = (struct listed_path){ memory_text(fsdp_discover_path(
							  session->below, i)),
			fsdp_discover_step(session->below, i).step };
	qsort(listed, count, sizeof *listed, by_step);
	if (fsdp_discover_limit_reached(session->below)) {
		run_note(run, "there may be more: --limit below=N looks at more entries");
		status = STATUS_PARTIAL;
	}
	session->fleeting = true;
	for (size_t i = 0; i < count; i++)
		fsdp_remote_expect_directory(helper_remote(), listed[i].path, true);
	for (size_t i = 0; good && i < count; i++) {
		if (was_read(collected, listed[i].path))
			continue;
		uint32_t input = collected_input(collected, listed[i].path, "checkpoint");
		collected->inputs[input].found = true;
		good = check_inputs(session, run, &listed[i].path, 1, input);
		status = status_worse(status, run->status);
	}
	session->fleeting = fleeting;
	session->below = NULL;
	set_status(session, parent, 1, status);
	return good;
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
static void rehearse(struct session *session, struct fsdp_checkpoint **opened)
{
	struct out *discard = out_many(NULL, 0);
	int worst = STATUS_GOOD;
	size_t together;

	session->begun = true;
	for (size_t i = 0; i < session->inputs->paths.count; i += together) {
		size_t failures = session->collected.failure_count;
		session->status = STATUS_GOOD;
		together = session_paths_together(session, i);
		opened[i] = session_open(
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
}

/*
 * --separate: {"checkpoints": [{"input": 0, …}, …]}, and in text one block after another.
 * The head holds the status of all, which only the answers decide, and those do not fit
 * into memory: so each is made twice, and thrown away the first time.
 */
static void answer_each(struct session *session)
{
	struct fsdp_checkpoint **opened =
		memory_new(session->inputs->paths.count, sizeof *opened);
	size_t failures, notes, totals;
	bool any = false;
	struct out *out = session->outputs->out;
	bool some = false;

	rehearse(session, opened);
	for (size_t i = 0; i < session->inputs->paths.count; i++)
		any |= opened[i] != NULL;
	failures = session->collected.failure_count;
	notes = session->collected.notes.count;
	totals = session->collected.totals.count;
	int status = session->status;
	if (any) {
		begin(session, true);
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
		/* All was reported before. */
		session->collected.failure_count = failures;
		session->collected.notes.count = notes;
		session->collected.totals.count = totals;
		session->status = status;
	}
}

/* The envelope's tail; and its head, without an answer. */
static void end(struct session *session)
{
	static const struct failure memory = {
		.code = "memory",
		.input = UINT32_MAX,
		.offset = UINT64_MAX,
		.message = { "out of memory", sizeof "out of memory" - 1 },
	};

	if (session->out_of_memory) {
		session->status = STATUS_FAILED;
		session->outputs->is_incomplete = true;
		session->outputs->spoilt |= session->answered;
	}
	if (session->outputs->out == NULL)
		return;
	if (!session->begun)
		begin(session, false);
	struct out_footer footer = (struct out_footer){
		.status = session->status,
		.interrupted = session->interrupted != 0,
		.broken = session->out_of_memory,
		.findings = session->collected.findings,
		.finding_count = session->collected.finding_count,
		.failures =
			session->out_of_memory ? &memory : session->collected.failures,
		.failure_count =
			session->out_of_memory ? 1 : session->collected.failure_count,
		.omissions = session->collected.omissions,
		.omission_count = session->collected.omission_count,
		.notes = (const char *const *)session->collected.notes.items,
		.note_count = session->collected.notes.count,
		.checks = session->collected.checks,
		.check_count = session->collected.check_count,
		.fail_on = session->collected.fail_on,
		.never_fails = session->collected.never_fails,
	};
	out_end(session->outputs->out, &footer);
}

/* ---- what was probably meant ---- */

static const char *near_of(
	const struct texts *paths, const struct texts *near, const char *path)
{
	for (size_t i = 0; i < near->count; i++)
		if (near->items[i] != NULL && strcmp(paths->items[i], path) == 0)
			return near->items[i];
	return NULL;
}

/* Missing paths: similar ones, or the directory to list. */
static void hint_near(struct session *session)
{
	const struct inputs *inputs = session->inputs;

	FOR_EACH(i, session->collected.failure_count, failure,
		&session->collected.failures[i]) {
		const char *path = failure->path.data, *near;

		if (failure->hint.data != NULL || path == NULL)
			continue;
		near = near_of(&inputs->paths, &inputs->near, path);
		bool is_input = near != NULL;
		if (!is_input)
			near = near_of(&inputs->beside, &inputs->near_beside, path);
		if (near == NULL)
			continue;
		if (is_input && suggest_is_name(path, near) &&
			strchr(path, '.') != NULL && strpbrk(path, "*?[") == NULL)
			failure->hint = text_format(
				"if it is a name in a checkpoint: fsdp-inspect show CHECKPOINT %s",
				path);
		else if (near[strlen(near) - 1] == '/')
			failure->hint = text_format("ls %s", near);
		else if (is_input)
			failure->hint = text_format("did you mean: fsdp-inspect %s %s",
				session->command->name, near);
		else
			failure->hint = text_format("did you mean %s?", near);
	}
}

/* --columns=NAME of no table that was shown. */
static void check_columns(struct session *session)
{
	const struct texts *names = &session->arguments->select.columns;
	struct out *out = session->outputs->out;
	static const char hint[] = "-o csv --columns=all shows which there are";

	if (names->count == 0 || out == NULL || !session->answered ||
		(out_unknown_column(out) == NULL && out_has_chosen(out)))
		return;
	session->status = STATUS_FAILED;
	if (out_unknown_column(out) != NULL)
		collected_fail(&session->collected, "usage", hint,
			"--columns: unknown column '%.80s'", out_unknown_column(out));
	else
		collected_fail(&session->collected, "usage", hint,
			"--columns: this output of %s has no table of rows",
			session->command->name);
}

/* ---- after the answer ---- */

static void complain(void *context, const char *file, int error)
{
	struct session *session = context;
	struct failure *failure;

	session->status = STATUS_FAILED;
	session->collected.totals.count = 0; /* of an answer that is not shown */
	failure = error == OUTPUT_IS_INPUT
			  ? collected_fail(&session->collected, "system",
				    "give the output another name",
				    "belongs to the input, so it was not replaced")
			  : collected_fail(&session->collected, "system", NULL, "%s",
				    strerror(error));
	failure->path = text_of(file != NULL ? file : "standard output");
}

/* partial: the answer was, whether or not it could be written. */
static void print_result(struct session *session, bool partial)
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

	for (size_t i = 0; i < session->collected.totals.count; i++)
		message_total(looks, session->collected.totals.items[i]);
	for (size_t i = 0; i < session->collected.notes.count; i++)
		message_note(looks, session->collected.notes.items[i]);
	for (size_t i = 0; i < session->collected.reasons.count; i++)
		message_reason(looks, session->collected.reasons.items[i]);
	/* An answer with a verdict has printed them. */
	if (!session->checked)
		message_findings(looks, &view);
	if (session->out_of_memory)
		memory_fail();
	message_failures(looks, session->collected.failures,
		session->collected.failure_count, partial);
}

/* Not only the arguments are read: options may name something too. */
static void allow_files(
	struct sandbox *sandbox, const struct option_row *rows, const void *values)
{
	const char *path;

	for (; rows != NULL && rows->name != NULL; rows++)
		for (size_t i = 0; (path = option_path(rows, values, i)) != NULL; i++)
			sandbox_allow(sandbox, path);
}

/* The output directory of the command, which is made here; NULL: none. */
static char *claim_folder(const struct session *session)
{
	struct rlimit open_files;
	const struct written written = session->outputs->written;

	if (written.path == NULL || strcmp(written.path, "-") == 0)
		return NULL;
	const char *slash = strrchr(written.path, '/');
	char *folder = !written.is_file        ? memory_text(written.path)
		       : slash == NULL         ? memory_text(".")
		       : slash == written.path ? memory_text("/")
					       : memory_copy(written.path,
							 (size_t)(slash - written.path));
	temporary_watch(folder, !written.is_file && !written.adds);
	/* All files are open until each is whole. */
	if (getrlimit(RLIMIT_NOFILE, &open_files) == 0) {
		open_files.rlim_cur = open_files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &open_files);
	}
	return folder;
}

/* Nothing is parsed, for this is asked before the locks are shut: the text after the key
 * is taken as it is. */
bool path_of_base(const char *folder, char *ret_path, size_t size)
{
	static const char KEY[] = "\"base_model_name_or_path\"";
	char text[16384], path[4096];
	const char *at, *end;
	size_t read = 0;
	int length = snprintf(path, sizeof path, "%s/adapter_config.json", folder);
	FILE *stream =
		length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;

	if (stream == NULL)
		return false;
	read = fread(text, 1, sizeof text - 1, stream);
	fclose(stream);
	text[read] = '\0';
	at = strstr(text, KEY);
	if (at == NULL)
		return false;
	at += strlen(KEY);
	at += strspn(at, " \t\r\n:");
	end = *at == '"' ? at + 1 + strcspn(at + 1, "\"\\\n") : at;
	if (end == at || *end != '"' || end == at + 1)
		return false;
	at++;
	for (int alone = at[0] == '/'; alone < 2; alone++) {
		length = snprintf(ret_path, size, "%s%s%.*s", alone ? "" : folder,
			alone ? "" : "/", (int)(end - at), at);
		if (length > 0 && (size_t)length < size && path_is_folder(ret_path))
			return true;
	}
	return false;
}

static void lock_up(struct session *session)
{
	char base[4096];

	const struct texts *paths = &session->inputs->paths;
	const struct common_options *common = &session->arguments->common;
	char *folder = claim_folder(session);
	bool open = common->no_sandbox || sandbox_built() == 0;

	/* Another process removes its remaining files in any case. */
	if ((open && folder == NULL) || !temporary_hand_over() || open)
		return;
	struct sandbox sandbox = sandbox_begin();
	if (folder != NULL)
		sandbox_allow_writes(&sandbox, folder);
	for (size_t i = 0; i < paths->count; i++) {
		sandbox_allow(&sandbox, paths->items[i]);
		if (session->command->with_base &&
			path_of_base(paths->items[i], base, sizeof base))
			sandbox_allow(&sandbox, base);
	}
	allow_files(&sandbox, common_options, common);
	allow_files(&sandbox, session->command->options, session->arguments->options);
	session->locks = sandbox_enter(&sandbox);
}

/* What is typed wrong is reported before the locks are shut, which would hide it. */
static bool refuse_several(struct session *session)
{
	const struct command *command = session->command;
	const struct texts *paths = &session->inputs->paths;
	size_t count = session_count_groups(session);
	struct usage usage;

	if (command->check_inputs != NULL || session->separate || count < 2 ||
		(command->inputs != INPUTS_MANY && command->inputs != INPUTS_ONE))
		return false;
	suggest_several(
		&usage, session->arguments, paths, command->inputs == INPUTS_MANY);
	collected_fail(&session->collected, "usage", usage.hint,
		"%s reads one checkpoint, but %zu were given", command->name, count);
	return true;
}

/* Opens the inputs and answers. */
static void answer(struct session *session)
{
	const struct command *command = session->command;
	const struct texts *paths = &session->inputs->paths;
	const struct looks *looks = session->error_looks;
	bool refused = refuse_several(session);
	const char *kind = command->inputs == INPUTS_RECORDINGS ? "trace"
			   : command->inputs == INPUTS_FILE     ? "pickle"
			   : session->inputs->has_no_checkpoint ? "log"
								: "checkpoint";

	if (session->arguments->common.provenance)
		provenance_collect(&session->provenance, session->arguments->typed);
	if (looks != NULL)
		lock_up(session);
	if (looks != NULL && looks->verbosity >= 1)
		collected_note(
			&session->collected, "sandbox: %s", sandbox_text(session->locks));
	for (size_t k = 0; k < paths->count; k++)
		collected_input(&session->collected, paths->items[k], kind);
	if (session->outputs->out != NULL)
		out_choose(session->outputs->out,
			session->arguments->select.columns.items,
			session->arguments->select.columns.count);
	if (looks != NULL)
		progress_begin(&session->arguments->common, NULL);
	if (refused) {
		session->status = STATUS_FAILED;
	} else if (command->check_inputs != NULL) {
		struct run run = new_run(session);
		bool good = completes(&run, prepare);
		size_t together;

		session->fleeting = paths->count > session_paths_together(session, 0);
		for (size_t i = 0; good && i < paths->count; i += together) {
			together = session_paths_together(session, i);
			good = check_inputs(session, &run, &paths->items[i], together, i);
			if (session->below != NULL)
				good = check_below(session, &run, i);
		}
		if (good) {
			session->checked = true;
			call(session, &run);
		}
	} else if (session->separate) {
		answer_each(session);
	} else {
		answer_one(session);
	}
	if (looks != NULL && looks->verbosity >= 1 && helper_remote() != NULL) {
		struct fsdp_remote_counts counts = fsdp_remote_counts(helper_remote());
		char size[HUMAN_ROOM];

		collected_note(&session->collected,
			"remote: %s, %" PRIu64 " LIST, %" PRIu64 " GET, %" PRIu64
			" HEAD, %" PRIu64 " retries, %s",
			counts.backend[0] != '\0' ? counts.backend : "nothing",
			counts.lists, counts.gets, counts.heads, counts.retries,
			human_bytes(counts.bytes, HUMAN_BINARY, size));
	}
}

/* Ends the answer, and reports. */
static void finish(struct session *session)
{
	check_columns(session);
	hint_near(session);
	end(session);
	bool partial = session->status == STATUS_PARTIAL;
	if (!outputs_finish(session->outputs, session->answered, complain, session)) {
		session->status = STATUS_FAILED;
		session->outputs->is_incomplete = true;
	}
	if (session->error_looks != NULL)
		print_result(session, partial);
}

/* Whether memory sufficed for it. */
static bool suffices(struct session *session, void (*step)(struct session *session))
{
	jmp_buf end, *before = memory_escape(&end);
	bool good = setjmp(end) == 0;

	if (good)
		step(session);
	memory_escape(before);
	return good;
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
		.apart = arguments->command->inputs == INPUTS_PAIR ||
			 (arguments->common.separate &&
				 arguments->command->inputs == INPUTS_MANY),
	};
	size_t mark = memory_mark();

	session.separate = arguments->command->inputs != INPUTS_PAIR &&
			   (session.apart || (session.command->answers_each &&
						     session_count_groups(&session) > 1));
	session.out_of_memory = !suffices(&session, answer);
	outputs->interrupted = session.interrupted;
	outputs->spoilt |= session.interrupted != 0;
	progress_end();
	if (!suffices(&session, finish)) {
		session.status = STATUS_FAILED;
		outputs->is_incomplete = outputs->spoilt = true;
		if (error_looks != NULL)
			message_out_of_memory();
	}
	/* What is owned may read the checkpoints. */
	memory_release(mark);
	for (size_t i = 0; i < session.checkpoint_count; i++)
		fsdp_checkpoint_free(session.checkpoints[i]);
	fsdp_recordings_free(session.recordings);
	return session.status;
}

struct text run_document(struct run *run, const char *format, char **words, int count)
{
	struct arguments arguments = { .commands = run->commands, .typed = words + 1 };
	struct usage usage = { .end = run->session->end };
	struct inputs inputs = { 0 };
	const struct looks looks = { 0 };
	struct outputs outputs = { .keeper = run->session->outputs,
		.out = out_new(out_format_find(format), NULL, &looks) };

	arguments_read(count, words, &arguments, &usage);
	inputs_collect(&inputs, &arguments, &usage);
	inputs.options.remote = helper_remote();
	inputs.options.belongs = outputs_keep;
	inputs.options.belongs_context = outputs.keeper;
	session_run(&arguments, &inputs, &outputs, NULL);
	if (outputs.is_incomplete)
		memory_fail();
	struct text text = out_take(outputs.out);
	out_free(outputs.out);
	return text;
}
