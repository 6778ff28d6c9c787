/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a part of an audit says of itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/audit/judging.h"

/* What parts of one audit must have been asked alike; its first line is what merge needs of
 * it. NULL: out of memory. */
static char *request_of(const struct judging *judging)
{
	const struct audit_options *options = judging->audit->options;
	const struct audit_request *asked = &judging->verdict->asked;
	const char *const files[] = { options->manifest, options->expect };
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (stream == NULL)
		return NULL;
	fprintf(stream, "data%s\n%s", options->checks ? " checks" : "", asked->fail_on);
	for (size_t i = 0; i < asked->level_count; i++)
		fprintf(stream, "\n%s", asked->levels[i].data);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		fprintf(stream, "\n%zu %s", i, files[i] != NULL ? files[i] : "");
	for (size_t i = 0; i < options->globals.count; i++)
		fprintf(stream, "\nglobal %s", options->globals.items[i]);
	for (size_t i = 0; i < options->ignore.count; i++)
		fprintf(stream, "\n%s", options->ignore.items[i]);
	if (fclose(stream) == 0)
		return text;
	free(text);
	return NULL;
}

static bool keep_levels(struct judging *judging)
{
	struct audit_request *asked = &judging->verdict->asked;
	struct text *levels = calloc(fsdp_rule_count(), sizeof *levels);
	char line[64];

	if (!owned_add(&judging->collected->owned, (char *)levels))
		return false;
	asked->levels = levels;
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const char *word = levels_word(&judging->audit->levels, i);

		if (word == NULL)
			continue;
		snprintf(line, sizeof line, "%s=%s", fsdp_rule(i)->id, word);
		levels[asked->level_count] = collected_text(judging->collected, line);
		if (levels[asked->level_count++].data == NULL)
			return false;
	}
	return true;
}

bool name_part(struct judging *judging)
{
	const struct audit *audit = judging->audit;
	struct judgement *verdict = judging->verdict;
	char *request;
	bool good;

	verdict->asked.fail_on =
		audit->never_fails ? "none" : severity_name(audit->fail_on);
	if (!keep_levels(judging))
		return false;
	request = request_of(judging);
	good = request != NULL &&
	       partial_init(&verdict->partial, judging->run, request, NULL, NULL, 0);
	free(request);
	/* The parts of each check are adjacent. */
	for (size_t i = 0; good && i < verdict->check_count; i++)
		verdict->checks[i].number = (uint32_t)(i * verdict->partial.parts +
						       verdict->partial.part - 1);
	return good;
}
