/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which schema documents were built in; knows nothing of what they say.
 */
#include <stdio.h>
#include <string.h>

#include "front/command.h"
#include "front/nearest.h"
#include "cmd/schemas.h"

struct schema_options {
	int64_t major;
};

static const struct option options[] = {
	{ "schema", 0, OPTION_INTEGER, "N", offsetof(struct schema_options, major), NULL,
		1, 1000, .help = "this major version, instead of the newest" },
	{ 0 },
};

/* The newest, if major is -1. */
static const struct schema *find(const char *name, int64_t major)
{
	const struct schema *best = NULL;

	for (const struct schema *row = schemas; row->command != NULL; row++) {
		if (strcmp(row->command, name) != 0 ||
			(major != -1 && row->major != major))
			continue;
		if (best == NULL || row->major > best->major)
			best = row;
	}
	return best;
}

static void fail(struct run *run, const char *name, int64_t major)
{
	struct nearest nearest;
	char hint[120] = "fsdp-inspect schema lists them";

	nearest_init(&nearest, name);
	for (const struct schema *row = schemas; row->command != NULL; row++)
		nearest_try(&nearest, row->command);
	if (nearest.best != NULL && nearest.distance > 0)
		snprintf(hint, sizeof hint, "did you mean: fsdp-inspect schema %s",
			nearest.best);
	if (major != -1)
		run_failure(run, "usage", hint, "there is no schema %s of version %lld",
			name, (long long)major);
	else
		run_failure(run, "usage", hint, "there is no schema %s", name);
	run_begin(run, STATUS_BAD);
}

static bool run_schema(struct run *run, struct fsdp_error **ret_error)
{
	const struct schema_options *given = run->options;
	FILE *stream = run_stream(run);

	(void)ret_error;
	for (const struct schema *row = schemas;
		run->word_count == 0 && row->command != NULL; row++)
		fprintf(stream, "%s %d\n", row->command, row->major);
	for (size_t i = 0; i < run->word_count; i++) {
		const struct schema *schema = find(run->words[i], given->major);

		if (schema == NULL)
			fail(run, run->words[i], given->major);
		else
			fwrite(schema->text, 1, schema->size, stream);
	}
	return true;
}

const struct command command_schema = {
	.name = "schema",
	.group = GROUP_ABOUT,
	.summary = "JSON Schema of a command's output",
	.synopsis = "[--schema=N] [COMMAND]...",
	.examples = { "schema", "schema ls" },
	.exit_1 = "there is no such schema",
	.options = options,
	.options_size = sizeof(struct schema_options),
	.output = "text",
	.inputs = INPUTS_WORDS,
	.run = run_schema,
};
