/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers what is reported beside an answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/answer.h"
#include "session/collected.h"
#include "session/fingerprint.h"

/* The list with room for one more zeroed element, or NULL. */
static void *grown(struct collected *collected, void *items, size_t count, size_t size)
{
	char *bigger = list_grown(items, count, size);

	if (bigger == NULL)
		collected->out_of_memory = true;
	else
		memset(bigger + count * size, 0, size);
	return bigger;
}

void collected_done(struct collected *collected)
{
	free(collected->inputs);
	free(collected->findings);
	free(collected->omissions);
	free(collected->failures);
	free(collected->checks);
	free(collected->notes.items);
	free(collected->reasons.items);
	free(collected->totals.items);
	owned_free(&collected->owned);
}

/* ---- texts ---- */

static struct text kept(struct collected *collected, struct text text)
{
	const char *copy;

	if (text.data == NULL)
		return text;
	copy = owned_copy(&collected->owned, text.data, text.size);
	if (copy == NULL)
		collected->out_of_memory = true;
	return (struct text){ copy, copy != NULL ? text.size : 0 };
}

struct text collected_text(struct collected *collected, const char *text)
{
	return kept(collected, text_of(text));
}

char *collected_format(struct collected *collected, const char *format, va_list arguments)
{
	char *message;

	if (vasprintf(&message, format, arguments) < 0)
		message = NULL;
	message = owned_take(&collected->owned, message);
	if (message == NULL)
		collected->out_of_memory = true;
	return message;
}

void collected_line(struct collected *collected, struct texts *texts, const char *format,
	va_list arguments)
{
	char *line = collected_format(collected, format, arguments);

	/* Of several checkpoints, or by a command and here: once is enough. */
	for (size_t i = 0; texts == &collected->notes && line != NULL && i < texts->count;
		i++)
		if (strcmp(texts->items[i], line) == 0)
			return;
	if (line != NULL && !texts_add(texts, line))
		collected->out_of_memory = true;
}

void collected_note(struct collected *collected, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	collected_line(collected, &collected->notes, format, arguments);
	va_end(arguments);
}

/* ---- inputs ---- */

uint32_t collected_input(struct collected *collected, const char *path, const char *kind)
{
	struct input_record *inputs = grown(
		collected, collected->inputs, collected->input_count, sizeof *inputs);

	if (inputs == NULL)
		return UINT32_MAX;
	collected->inputs = inputs;
	inputs[collected->input_count] = (struct input_record){
		.id = (uint32_t)collected->input_count,
		.path = text_of(path),
		.kind = kind,
		.status = -1,
	};
	return (uint32_t)collected->input_count++;
}

void collected_base(struct collected *collected, size_t input, const char *base)
{
	if (base != NULL && input < collected->input_count)
		collected->inputs[input].base = collected_text(collected, base);
}

void collected_recognised(struct collected *collected, size_t first, size_t count,
	const char *format, int status)
{
	for (size_t i = first; i < first + count && i < collected->input_count; i++) {
		collected->inputs[i].format = format;
		collected->inputs[i].status = status;
	}
}

/* ---- failures ---- */

struct failure *collected_failure(struct collected *collected, const char *code)
{
	struct failure *failures = grown(collected, collected->failures,
		collected->failure_count, sizeof *failures);

	if (failures == NULL)
		return NULL;
	collected->failures = failures;
	failures = &failures[collected->failure_count++];
	failures->code = code;
	failures->input = UINT32_MAX;
	failures->offset = UINT64_MAX;
	return failures;
}

static const char *const usual_hints[FSDP_ERROR_CODE_COUNT] = {
	[FSDP_ERROR_DAMAGED] = "copy this file again, or use an earlier checkpoint",
	[FSDP_ERROR_UNSUPPORTED] = "see fsdp-inspect(1) for the formats that are read",
};

struct text collected_hint(const char *code)
{
	for (size_t i = 0; i < FSDP_ERROR_CODE_COUNT; i++)
		if (strcmp(fsdp_error_code_name((enum fsdp_error_code)i), code) == 0)
			return text_of(usual_hints[i]);
	return (struct text){ 0 };
}

void collected_error(
	struct collected *collected, const struct fsdp_error *error, uint32_t input)
{
	struct failure *failure;

	if (error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		collected->out_of_memory = true;
		return;
	}
	failure = collected_failure(
		collected, fsdp_error_code_name(fsdp_error_code(error)));
	if (failure == NULL)
		return;
	failure->input = input;
	failure->rule = fsdp_error_rule(error);
	failure->limit = fsdp_error_limit(error);
	failure->kind = fsdp_error_kind(error);
	failure->path = collected_text(collected, fsdp_error_path(error));
	failure->member = collected_text(collected, fsdp_error_member(error));
	failure->offset = fsdp_error_offset(error);
	failure->message = collected_text(collected, fsdp_error_message(error));
	failure->hint = collected_text(collected, fsdp_error_hint(error));
	if (failure->hint.data == NULL)
		failure->hint = collected_hint(failure->code);
}

bool collected_was_told(
	const struct collected *collected, const char *code, const char *message)
{
	for (size_t i = 0; i < collected->failure_count; i++) {
		const struct failure *failure = &collected->failures[i];

		if (failure->path.data == NULL && strcmp(failure->code, code) == 0 &&
			strcmp(failure->message.data, message) == 0)
			return true;
	}
	return false;
}

/* ---- findings ---- */

enum severity collected_severity(enum fsdp_severity severity)
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

void collected_finding(struct collected *collected, const struct finding *finding)
{
	struct finding *findings = grown(collected, collected->findings,
		collected->finding_count, sizeof *findings);

	if (findings == NULL)
		return;
	collected->findings = findings;
	findings[collected->finding_count] = *finding;
	fingerprint_set(&findings[collected->finding_count++]);
}

static void keep_affected(struct collected *collected, struct finding *finding,
	const struct fsdp_finding *from, bool copy)
{
	struct text *names;

	if (from->affected_kept == 0)
		return;
	names = calloc(from->affected_kept, sizeof *names);
	if (owned_take(&collected->owned, (char *)names) == NULL) {
		collected->out_of_memory = true;
		return;
	}
	for (size_t i = 0; i < from->affected_kept; i++) {
		names[i] = text_of_span(from->affected[i]);
		if (copy)
			names[i] = kept(collected, names[i]);
	}
	finding->affected = names;
	finding->affected_kept = from->affected_kept;
}

bool finding_is_open(const struct finding *finding)
{
	return strcmp(finding->rule, "FI9006") == 0 ||
	       strcmp(finding->rule, "FI4008") == 0 ||
	       (strcmp(finding->rule, "FI3018") == 0 &&
		       finding->severity >= SEVERITY_WARNING);
}

bool collected_judged(struct collected *collected, const char *rule, struct finding about,
	const char *next, const char *format, va_list arguments)
{
	const struct fsdp_rule *row = fsdp_rule_find(rule);
	char *message = collected_format(collected, format, arguments);
	char *name = owned_copy(&collected->owned, about.tensor.data, about.tensor.size);

	if (message == NULL || name == NULL)
		return false;
	if (about.tensor.data != NULL)
		about.tensor.data = name;
	about.rule = row->id;
	about.slug = row->slug;
	about.offset = about.length = about.lost_bytes = UINT64_MAX;
	about.rank = UINT32_MAX;
	about.message = text_of(message);
	about.next = collected_text(collected, next != NULL ? next : row->fix);
	collected_finding(collected, &about);
	return true;
}

void collected_found(struct collected *collected, const struct fsdp_finding *from,
	uint32_t input, bool copy)
{
	struct finding finding = {
		.rule = from->rule->id,
		.slug = from->rule->slug,
		.severity = collected_severity(from->severity),
		.input = input,
		.file = text_of_span(from->file),
		.member = text_of_span(from->member),
		.tensor = text_of_span(from->tensor),
		.module = text_of_span(from->module),
		.offset = from->offset,
		.length = from->length,
		.rank = from->rank,
		.affected_count = from->affected_count,
		.lost_bytes = from->lost_bytes,
		.message = text_of_span(from->message),
		.next = text_of_span(from->next),
	};
	struct text *const texts[] = { &finding.file, &finding.member, &finding.tensor,
		&finding.module, &finding.message, &finding.next };

	for (size_t i = 0; copy && i < sizeof texts / sizeof *texts; i++)
		*texts[i] = kept(collected, *texts[i]);
	keep_affected(collected, &finding, from, copy);
	collected_finding(collected, &finding);
}

void collected_omitted(struct collected *collected, const struct fsdp_omitted *from,
	uint32_t input, bool copy)
{
	struct omission *omissions = grown(collected, collected->omissions,
		collected->omission_count, sizeof *omissions);
	struct text file = text_of_span(from->file);

	if (omissions == NULL)
		return;
	collected->omissions = omissions;
	omissions[collected->omission_count++] = (struct omission){
		.rule = from->rule->id,
		.input = input,
		.file = copy ? kept(collected, file) : file,
		.count = from->count,
	};
}

void collected_checkpoint(struct collected *collected,
	const struct fsdp_checkpoint *checkpoint, uint32_t input, bool copy)
{
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		collected_found(collected, fsdp_finding(checkpoint, i), input, copy);
	for (size_t i = 0; i < fsdp_omitted_count(checkpoint); i++) {
		struct fsdp_omitted omitted = fsdp_omitted(checkpoint, i);

		collected_omitted(collected, &omitted, input, copy);
	}
}
