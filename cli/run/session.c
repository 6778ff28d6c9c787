/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command: opens, answers, ends, tells; collects what is said beside the answer
 * (inputs, findings, failures, notes) for the envelope and for stderr.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fsdp/version.h>

#include "run/answer.h"
#include "run/fingerprint.h"
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

	struct input_record *records;
	size_t record_count;
	struct finding *findings;
	size_t finding_count;
	struct omission *omissions;
	size_t omission_count;
	struct failure *failures;
	size_t failure_count;
	struct texts notes, totals;
	struct owned owned;

	int status;
	uint32_t input; /* whose checkpoint is answered for, or UINT32_MAX */
	bool separate;  /* each input is a checkpoint of its own */
	bool begun;     /* the envelope's head is written */
	bool answered;  /* there is data */
	bool out_of_memory;
	int interrupted; /* by this signal */
	unsigned locks;  /* that hold: a set of enum sandbox_lock */
};

/* The list with room for `more` zeroed elements, or NULL. */
static void *grown(
	struct session *session, void *items, size_t count, size_t more, size_t size)
{
	char *bigger = reallocarray(items, count + more, size);

	if (bigger == NULL)
		session->out_of_memory = true;
	else
		memset(bigger + count * size, 0, more * size);
	return bigger;
}

/* ---- what is said beside the answer ---- */

static struct text kept(struct session *session, const char *text)
{
	if (text == NULL)
		return (struct text){ 0 };
	text = owned_copy(&session->owned, text, strlen(text));
	if (text == NULL)
		session->out_of_memory = true;
	return text_of(text);
}

static struct failure *add_failure(struct session *session, const char *code)
{
	struct failure *failures = grown(
		session, session->failures, session->failure_count, 1, sizeof *failures);

	if (failures == NULL)
		return NULL;
	session->failures = failures;
	failures = &failures[session->failure_count++];
	failures->code = code;
	failures->input = UINT32_MAX;
	failures->offset = UINT64_MAX;
	return failures;
}

/* What helps in most cases, where nothing better is known. */
static const char *const usual_hints[FSDP_ERROR_CODE_COUNT] = {
	[FSDP_ERROR_DAMAGED] = "copy this file again, or use an earlier checkpoint",
	[FSDP_ERROR_UNSUPPORTED] = "see fsdp-inspect(1) for the formats that are read",
};

static struct text usual_hint(const char *code)
{
	for (size_t i = 0; i < FSDP_ERROR_CODE_COUNT; i++)
		if (strcmp(fsdp_error_code_name((enum fsdp_error_code)i), code) == 0)
			return text_of(usual_hints[i]);
	return (struct text){ 0 };
}

static void add_error(
	struct session *session, const struct fsdp_error *error, uint32_t input)
{
	struct failure *failure;

	if (error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		session->out_of_memory = true;
		return;
	}
	failure = add_failure(session, fsdp_error_code_name(fsdp_error_code(error)));
	if (failure == NULL)
		return;
	failure->input = input;
	failure->rule = fsdp_error_rule(error);
	failure->limit = fsdp_error_limit(error);
	failure->path = kept(session, fsdp_error_path(error));
	failure->member = kept(session, fsdp_error_member(error));
	failure->offset = fsdp_error_offset(error);
	failure->message = kept(session, fsdp_error_message(error));
	failure->hint = kept(session, fsdp_error_hint(error));
	if (failure->hint.data == NULL)
		failure->hint = usual_hint(failure->code);
}

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

__attribute__((format(printf, 3, 0))) static void add_line(struct session *session,
	struct texts *texts, const char *format, va_list arguments)
{
	char *line;

	if (vasprintf(&line, format, arguments) < 0)
		line = NULL;
	line = owned_take(&session->owned, line);
	/* Of several checkpoints, or by a command and here: once is enough. */
	for (size_t i = 0; texts == &session->notes && line != NULL && i < texts->count;
		i++) {
		if (strcmp(texts->items[i], line) == 0)
			return;
	}
	if (line == NULL || !texts_add(texts, line))
		session->out_of_memory = true;
}

__attribute__((format(printf, 2, 3))) static void add_note(
	struct session *session, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add_line(session, &session->notes, format, arguments);
	va_end(arguments);
}

void run_note(struct run *run, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add_line(run->session, &run->session->notes, format, arguments);
	va_end(arguments);
}

void run_total(struct run *run, const char *format, ...)
{
	va_list arguments;

	if (!outputs_show_text(run->session->outputs))
		return;
	va_start(arguments, format);
	add_line(run->session, &run->session->totals, format, arguments);
	va_end(arguments);
}

/* Of several checkpoints, each refuses what was typed wrong. */
static bool was_told(const struct session *session, const char *code, const char *message)
{
	for (size_t i = 0; i < session->failure_count; i++) {
		const struct failure *failure = &session->failures[i];
		if (failure->path.data == NULL && strcmp(failure->code, code) == 0 &&
			strcmp(failure->message.data, message) == 0)
			return true;
	}
	return false;
}

/* NULL: out of memory, which the session knows then. */
static char *__attribute__((format(printf, 2, 0)))
format_owned(struct session *session, const char *format, va_list arguments)
{
	char *message;

	if (vasprintf(&message, format, arguments) < 0)
		message = NULL;
	message = owned_take(&session->owned, message);
	if (message == NULL)
		session->out_of_memory = true;
	return message;
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
		session->out_of_memory = true;
		session->status = run->status = STATUS_FAILED;
		return;
	}
	session->status = status_worse(session->status, STATUS_PARTIAL);
	run->status = status_worse(run->status, STATUS_PARTIAL);
	va_start(arguments, format);
	message = format_owned(session, format, arguments);
	va_end(arguments);
	if (message == NULL || (typed && was_told(session, code, message)))
		return;
	failure = add_failure(session, code);
	if (failure == NULL)
		return;
	failure->message = text_of(message);
	failure->hint = hint != NULL ? kept(session, hint) : usual_hint(code);
	/* What was typed wrong is no fault of the checkpoint. */
	if (typed || run->path == NULL)
		return;
	failure->path = kept(session, run->path);
	failure->input = session->input;
}

FILE *run_stream(struct run *run)
{
	(void)run;
	return stdout;
}

/* ---- findings of a checkpoint ---- */

static enum severity severity_of(enum fsdp_severity severity)
{
	switch (severity) {
	case FSDP_ERROR:
		return SEVERITY_ERROR;
	case FSDP_WARNING:
		return SEVERITY_WARNING;
	case FSDP_NOTE:
	case FSDP_SEVERITY_COUNT:
		break;
	}
	return SEVERITY_NOTE;
}

static struct finding finding_of(const struct fsdp_finding *from, uint32_t input)
{
	return (struct finding){
		.rule = from->rule->id,
		.slug = from->rule->slug,
		.severity = severity_of(from->severity),
		.input = input,
		.file = text_of_span(from->file),
		.member = text_of_span(from->member),
		.tensor = text_of_span(from->tensor),
		.module = text_of_span(from->module),
		.offset = from->offset,
		.length = from->length,
		.rank = from->rank,
		.message = text_of_span(from->message),
		.next = text_of_span(from->next),
	};
}

static void add_finding(struct session *session, struct finding finding)
{
	struct finding *findings = grown(
		session, session->findings, session->finding_count, 1, sizeof *findings);

	if (findings == NULL)
		return;
	session->findings = findings;
	fingerprint_set(&finding);
	findings[session->finding_count++] = finding;
}

static void add_omission(struct session *session, const struct fsdp_omitted *from)
{
	struct omission *omissions = grown(session, session->omissions,
		session->omission_count, 1, sizeof *omissions);

	if (omissions == NULL)
		return;
	session->omissions = omissions;
	omissions[session->omission_count++] = (struct omission){
		.rule = from->rule->id,
		.file = text_of_span(from->file),
		.count = from->count,
	};
}

static void add_findings(
	struct session *session, const struct fsdp_checkpoint *checkpoint, uint32_t input)
{
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		add_finding(session, finding_of(fsdp_finding(checkpoint, i), input));
}

static struct text kept_span(struct session *session, struct fsdp_span span)
{
	const char *copy = NULL;

	if (span.data == NULL)
		return (struct text){ 0 };
	copy = owned_copy(&session->owned, (const char *)span.data, span.size);
	if (copy == NULL)
		session->out_of_memory = true;
	return (struct text){ copy, copy != NULL ? span.size : 0 };
}

/* What was found in something that did not open, which goes. */
static void take_findings(
	struct session *session, struct fsdp_checkpoint *failed, uint32_t input)
{
	size_t count = failed != NULL ? fsdp_finding_count(failed) : 0;

	for (size_t i = 0; i < count; i++) {
		struct fsdp_finding from = *fsdp_finding(failed, i);
		struct finding finding = finding_of(&from, input);
		finding.file = kept_span(session, from.file);
		finding.member = kept_span(session, from.member);
		finding.tensor = kept_span(session, from.tensor);
		finding.module = kept_span(session, from.module);
		finding.message = kept_span(session, from.message);
		finding.next = kept_span(session, from.next);
		add_finding(session, finding);
	}
	count = failed != NULL ? fsdp_omitted_count(failed) : 0;
	for (size_t i = 0; i < count; i++) {
		struct fsdp_omitted from = fsdp_omitted(failed, i);
		struct text file = kept_span(session, from.file);

		from.file =
			(struct fsdp_span){ (const unsigned char *)file.data, file.size };
		add_omission(session, &from);
	}
	fsdp_checkpoint_free(failed);
}

static void add_omissions(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	for (size_t i = 0; i < fsdp_omitted_count(checkpoint); i++) {
		struct fsdp_omitted from = fsdp_omitted(checkpoint, i);

		add_omission(session, &from);
	}
}

void run_finding(struct run *run, const char *rule, const char *format, ...)
{
	const struct fsdp_rule *row = fsdp_rule_find(rule);
	struct session *session = run->session;
	va_list arguments;
	char *message;

	va_start(arguments, format);
	message = format_owned(session, format, arguments);
	va_end(arguments);
	add_finding(session,
		(struct finding){ .rule = row->id,
			.slug = row->slug,
			.severity = severity_of(row->severity),
			.input = session->input != UINT32_MAX ? session->input : 0,
			.offset = UINT64_MAX,
			.length = UINT64_MAX,
			.rank = UINT32_MAX,
			.message = text_of(message),
			.next = text_of(row->fix) });
}

/* ---- inputs ---- */

static uint32_t add_record(struct session *session, const char *path, const char *kind)
{
	struct input_record *records = grown(
		session, session->records, session->record_count, 1, sizeof *records);

	if (records == NULL)
		return UINT32_MAX;
	session->records = records;
	records[session->record_count] = (struct input_record){
		.id = (uint32_t)session->record_count,
		.path = text_of(path),
		.kind = kind,
		.status = -1,
	};
	return (uint32_t)session->record_count++;
}

static void set_records(struct session *session, size_t first, size_t count,
	const char *format, int status)
{
	for (size_t i = first; i < first + count && i < session->record_count; i++) {
		session->records[i].format = format;
		session->records[i].status = status;
	}
}

static void note_plan(struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_plan_facts plan;
	uint32_t record;

	if (!fsdp_checkpoint_plan(checkpoint, &plan) || plan.path == NULL)
		return;
	record = add_record(session, plan.path, "plan");
	if (record == UINT32_MAX)
		return;
	session->records[record].found = plan.found;
	if (plan.found && !session->command->shows_plan)
		add_note(session, "classes and marks from %s", plan.path);
}

/* Files that were read though only another of their set was named. */
static void note_siblings(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	const char *path;

	for (size_t i = 0; (path = fsdp_checkpoint_sibling(checkpoint, i)) != NULL; i++) {
		uint32_t record = add_record(session, path, "checkpoint");
		if (record == UINT32_MAX)
			return;
		session->records[record].found = true;
	}
}

static void note_opening(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	const char *note;

	for (size_t i = 0; (note = fsdp_checkpoint_note(checkpoint, i)) != NULL; i++)
		add_note(session, "%s", note);
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
	size_t error_count;

	checkpoints = grown(session, session->checkpoints, session->checkpoint_count, 1,
		sizeof *checkpoints);
	if (checkpoints == NULL)
		return NULL;
	session->checkpoints = checkpoints;
	options.keep_failed = true;
	if (!fsdp_checkpoint_open(paths, count, &options, &checkpoint, &error)) {
		take_findings(session, checkpoint, (uint32_t)first);
		add_error(session, error, (uint32_t)first);
		fsdp_error_free(error);
		set_records(session, first, count, NULL, STATUS_FAILED);
		return NULL;
	}
	checkpoints[session->checkpoint_count++] = checkpoint;
	add_findings(session, checkpoint, (uint32_t)first);
	add_omissions(session, checkpoint);
	note_opening(session, checkpoint);
	error_count = fsdp_checkpoint_error_count(checkpoint);
	for (size_t i = 0; i < error_count; i++)
		add_error(session, fsdp_checkpoint_error(checkpoint, i), (uint32_t)first);
	set_records(session, first, count, fsdp_checkpoint_format(checkpoint).family,
		error_count > 0 ? STATUS_PARTIAL : STATUS_GOOD);
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
		.words = session->inputs->words,
		.word_count = session->inputs->word_count,
		.out = session->outputs->out,
		.locks = session->locks,
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
		.inputs = session->records,
		.input_count = session->record_count,
		.has_data = has_data,
		.bare = is_bare(session),
	};

	session->begun = true;
	session->answered = has_data;
	/* Without its envelope a failure has nothing to say. */
	session->outputs->spoilt |= header.bare && !has_data;
	if (session->outputs->out != NULL)
		out_begin(session->outputs->out, &header);
}

void run_begin(struct run *run, int status)
{
	struct session *session = run->session;

	run->status = status_worse(run->status, status);
	session->status = status_worse(session->status, status);
	/* With several checkpoints the head was written before the first. */
	if (session->begun)
		return;
	for (size_t i = 0; i < session->record_count; i++) {
		if (session->records[i].status >= 0)
			session->records[i].status = session->status;
	}
	begin(session, session->status != STATUS_FAILED);
}

static void call(struct session *session, struct run *run)
{
	struct fsdp_error *error = NULL;
	bool done = session->command->run(run, &error);

	fsdp_locator_free(run->locator);
	run->locator = NULL;
	if (!done) {
		add_error(session, error, session->input);
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

	const char *kind =
		session->command->inputs == INPUTS_RECORDINGS ? "trace" : "checkpoint";

	for (size_t i = 0; i < paths->count; i++)
		add_record(session, paths->items[i], kind);
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

		add_finding(session,
			finding_of(finding,
				input_of(session, (const char *)finding->file.data)));
	}
	for (size_t i = 0; i < fsdp_recordings_omitted_count(recordings); i++) {
		struct fsdp_omitted from = fsdp_recordings_omitted(recordings, i);

		add_omission(session, &from);
	}
	for (size_t i = 0; i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(recordings, i);

		if (one->kind == FSDP_RECORDING_LOG && i < session->record_count)
			session->records[i].kind = "log";
		set_records(
			session, i, 1, fsdp_recording_kind_name(one->kind), STATUS_GOOD);
	}
}

/* Whatever the form of the answer, it is to say that it is for a part. */
static void tell_interrupted(struct session *session)
{
	struct failure *failure = add_failure(session, "system");

	if (failure != NULL)
		failure->message =
			text_of("interrupted: the answer is for what was read so far");
	session->status = status_worse(session->status, STATUS_PARTIAL);
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
		.jobs = (unsigned)common->jobs,
		.progress = &progress,
	};
	struct fsdp_error *error = NULL;
	const char *path;
	bool good;

	if (common->jobs <= 0) {
		long cpus = sysconf(_SC_NPROCESSORS_ONLN);

		options.jobs = cpus < 1 ? 1 : cpus < 8 ? (unsigned)cpus : 8;
	}
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
		if (session->interrupted != 0)
			tell_interrupted(session);
		return true;
	}
	path = error != NULL ? fsdp_error_path(error) : NULL;
	add_error(session, error, path != NULL ? input_of(session, path) : 0);
	fsdp_error_free(error);
	set_records(session, 0, paths->count, NULL, STATUS_FAILED);
	session->status = STATUS_FAILED;
	return false;
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
		if (!read_recordings(session, &run) || session->out_of_memory) {
			session->status = STATUS_FAILED;
			release(&run);
			return;
		}
	} else if (takes_checkpoint(session->command->inputs)) {
		run.path = paths->items[0];
		run.path_count = paths->count;
		run.checkpoint = open_checkpoint(session, paths->items, paths->count, 0);
		if (run.checkpoint == NULL || session->out_of_memory) {
			session->status = STATUS_FAILED;
			return;
		}
		if (session->failure_count > 0)
			session->status = STATUS_PARTIAL;
		session->input = 0;
	}
	call(session, &run);
	release(&run);
}

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

/* Opens each input and answers for it to nobody; what there is to say is said here. Sets
 * the status of each; those without an answer are NULL in `opened`. */
static bool rehearse(struct session *session, struct fsdp_checkpoint **opened)
{
	struct out *nobody = out_many(NULL, 0);
	int worst = STATUS_GOOD;

	if (nobody == NULL)
		return false;
	session->begun = true;
	for (size_t i = 0; i < session->inputs->paths.count && !session->out_of_memory;
		i++) {
		size_t failures = session->failure_count;
		session->status = STATUS_GOOD;
		opened[i] =
			open_checkpoint(session, &session->inputs->paths.items[i], 1, i);
		if (session->failure_count > failures)
			session->status = STATUS_PARTIAL;
		if (opened[i] != NULL)
			answer_input(session, opened[i], i, nobody);
		else
			session->status = STATUS_FAILED;
		if (session->status == STATUS_FAILED)
			opened[i] = NULL;
		session->records[i].status = session->status;
		worst = status_worse(worst, session->status);
	}
	session->begun = false;
	session->status = worst;
	out_free(nobody);
	return !session->out_of_memory;
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
 * into memory: so each is given twice, the first time to nobody.
 */
static void answer_each(struct session *session)
{
	struct fsdp_checkpoint **opened =
		calloc(session->inputs->paths.count, sizeof *opened);
	size_t failures, notes, totals;
	bool any = false;
	int status;

	if (opened == NULL || !rehearse(session, opened)) {
		session->out_of_memory = true;
		free(opened);
		return;
	}
	for (size_t i = 0; i < session->inputs->paths.count; i++)
		any |= opened[i] != NULL;
	failures = session->failure_count;
	notes = session->notes.count;
	totals = session->totals.count;
	status = session->status;
	if (any) {
		begin(session, true);
		show_each(session, opened);
		/* All was said before. */
		session->failure_count = failures;
		session->notes.count = notes;
		session->totals.count = totals;
		session->status = status;
	}
	free(opened);
}

/* The envelope's tail; and its head, if there is no answer. */
static void end(struct session *session)
{
	struct failure memory;
	struct out_footer footer;

	if (session->out_of_memory) {
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
		.findings = session->findings,
		.finding_count = session->finding_count,
		.failures = session->out_of_memory ? &memory : session->failures,
		.failure_count = session->out_of_memory ? 1 : session->failure_count,
		.omissions = session->omissions,
		.omission_count = session->omission_count,
	};
	out_end(session->outputs->out, &footer);
}

/* ---- after the answer ---- */

static void complain(void *context, const char *file, int error)
{
	struct session *session = context;
	struct failure *failure;

	session->status = STATUS_FAILED;
	session->totals.count = 0; /* of an answer that nobody has */
	failure = add_failure(session, "system");
	if (failure == NULL)
		return;
	failure->path = kept(session, file != NULL ? file : "standard output");
	if (error != OUTPUT_IS_INPUT) {
		failure->message = kept(session, strerror(error));
		return;
	}
	failure->message = kept(session, "belongs to the input, so it was not replaced");
	failure->hint = kept(session, "give the output another name");
}

static void tell(struct session *session)
{
	const struct looks *looks = session->error_looks;

	for (size_t i = 0; i < session->totals.count; i++)
		message_total(looks, session->totals.items[i]);
	for (size_t i = 0; i < session->notes.count; i++)
		message_note(looks, session->notes.items[i]);
	if (!message_findings(looks, session->findings, session->finding_count,
		    session->omissions, session->omission_count,
		    session->separate ? session->records : NULL))
		session->out_of_memory = true;
	if (session->out_of_memory) {
		message_out_of_memory();
		session->status = STATUS_FAILED;
	} else {
		message_failures(looks, session->failures, session->failure_count);
	}
}

static void session_done(struct session *session)
{
	for (size_t i = 0; i < session->checkpoint_count; i++)
		fsdp_checkpoint_free(session->checkpoints[i]);
	fsdp_recordings_free(session->recordings);
	free(session->checkpoints);
	free(session->records);
	free(session->findings);
	free(session->omissions);
	free(session->failures);
	free(session->notes.items);
	free(session->totals.items);
	owned_free(&session->owned);
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

static void lock_up(struct session *session)
{
	const struct texts *paths = &session->inputs->paths;
	const struct common_options *common = &session->arguments->common;
	struct sandbox sandbox;

	if (common->no_sandbox || sandbox_built() == 0 || !temporary_hand_over())
		return;
	sandbox = sandbox_begin();
	for (size_t i = 0; i < paths->count; i++)
		sandbox_allow(&sandbox, paths->items[i]);
	allow_files(&sandbox, common_options, common);
	allow_files(&sandbox, session->command->options, session->arguments->options);
	session->locks = sandbox_enter(&sandbox);
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
		.separate = arguments->common.separate &&
			    arguments->command->inputs == INPUTS_MANY,
	};
	int status;

	lock_up(&session);
	if (error_looks->verbosity >= 1)
		add_note(
			&session, "locks of the kernel: %s", sandbox_text(session.locks));
	add_records(&session);
	if (session.separate)
		answer_each(&session);
	else
		answer_one(&session);
	outputs->interrupted = session.interrupted;
	outputs->spoilt |= session.interrupted != 0;
	end(&session);
	if (!outputs_finish(outputs, session.answered, complain, &session))
		session.status = STATUS_FAILED;
	tell(&session);
	status = session.status;
	session_done(&session);
	return status;
}
