/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins an answer when the request itself is wrong, and tells which kinds of output were
 * asked for, and where the checkpoint lies.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/answer.h"
#include "session/diagnostics.h"

bool refuse(struct run *run, const char *hint, const char *format, ...)
{
	char *message = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&message, format, arguments) < 0)
		message = NULL;
	va_end(arguments);
	run_failure(run, message != NULL ? "usage" : "memory", hint, "%s",
		message != NULL ? message : "out of memory");
	free(message);
	run_begin(run, STATUS_FAILED);
	return true;
}

bool answer_selection(struct run *run, struct selection **ret_selection)
{
	char *message = NULL;

	if (selection_new(run->select, ret_selection, &message)) {
		if (run->checkpoint == NULL ||
			selection_know(*ret_selection, run->checkpoint))
			return true;
		selection_free(*ret_selection);
		*ret_selection = NULL;
	}
	if (message != NULL) {
		refuse(run, "fsdp-inspect help selectors", "%s", message);
	} else {
		run_failure(run, "memory", NULL, "out of memory");
		run_begin(run, STATUS_FAILED);
	}
	free(message);
	return false;
}

int answer_selection_status(
	struct run *run, const struct selection *selection, int status)
{
	if (selection_ran_out_of_memory(selection)) {
		run_failure(run, "memory", NULL, "out of memory");
		return STATUS_FAILED;
	}
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
	const char *base = NULL;

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
	for (size_t i = 0; i < common->outputs.count; i++) {
		const char *output = common->outputs.items[i];
		if (!names_format(output, "text") && !names_format(output, "name"))
			return true;
	}
	return common->outputs.count == 0 && strcmp(run->command->output, "text") != 0;
}
