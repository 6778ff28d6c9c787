/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells programs what was wrong with their command line.
 */
#include <string.h>

#include <fsdp/version.h>

#include "render/out.h"
#include "session/refusal.h"

/* The format that a word asks for, or NULL. */
static const char *format_of(const char *word, const char *next)
{
	if (strcmp(word, "--json") == 0 || strcmp(word, "--jsonl") == 0)
		return word + 2;
	if (strncmp(word, "--output=", 9) == 0)
		return word + 9;
	if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0)
		return next;
	return strncmp(word, "-o", 2) == 0 ? word + 2 : NULL;
}

/* Which of the two is asked for on standard output, and nothing else; NULL: none. The
 * line was not understood, so its words are looked at one by one. */
static const char *wanted(char *const *words)
{
	const char *wanted = NULL;

	for (size_t i = 0; words[i] != NULL && strcmp(words[i], "--") != 0; i++) {
		const char *format = format_of(words[i], words[i + 1]);

		/* Into a file. */
		if (format == NULL || strchr(format, '=') != NULL)
			continue;
		if (strcmp(format, "json") != 0 && strcmp(format, "jsonl") != 0)
			return NULL;
		wanted = format;
	}
	return wanted;
}

void refusal_put(FILE *stream, char *const *words, const struct command *command,
	const struct usage *usage)
{
	const char *format = wanted(words);
	const struct looks looks = { 0 };
	const struct failure failure = { .code = "usage",
		.input = UINT32_MAX,
		.offset = UINT64_MAX,
		.message = text_of(usage->what),
		.hint = text_of(usage->hint[0] != '\0' ? usage->hint : NULL) };
	const struct out_header header = { .command = command != NULL ? command->name
								      : "usage",
		.version = fsdp_version(),
		.status = STATUS_FAILED };
	const struct out_footer footer = {
		.status = STATUS_FAILED, .failures = &failure, .failure_count = 1
	};
	struct out *out =
		format != NULL ? out_new(out_format_find(format), stream, &looks) : NULL;

	if (out == NULL)
		return;
	out_begin(out, &header);
	out_end(out, &footer);
	(void)out_finish(out);
	out_free(out);
}
