/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what is reported beside an answer: notes, totals, failures and findings.
 */
#include <stdarg.h>
#include <string.h>

#include "session/answer.h"
#include "session/session-private.h"

/* Running out of memory needs no memory to be reported. */
void session_out_of_memory(struct session *session, struct failure *failure)
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
