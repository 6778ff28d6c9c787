/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints JSON Schemas of what commands write, and lists which there are.
 */
#include "args/parse.h"
#include "render/output-functions.h"

enum { MAJOR = 1 };

struct schema_options {
	int64_t major;
};

static const struct option_row options[] = {
	{ "schema", 0, OPTION_INTEGER, "N", offsetof(struct schema_options, major), NULL,
		1, 1000, .help = "use this major version (default: the newest)" },
	{ 0 },
};

static void fail(struct run *run, const char *name, int64_t major)
{
	struct nearest nearest;
	char hint[120] = "fsdp-inspect schema lists them";

	nearest_init(&nearest, name);
	for (size_t i = 0; run->commands[i] != NULL; i++)
		if (run->commands[i]->answer != NULL)
			nearest_try(&nearest, run->commands[i]->name);
	if (nearest.best != NULL && nearest.distance > 0)
		snprintf(hint, sizeof hint, "did you mean: fsdp-inspect schema %s",
			nearest.best);
	if (major != -1)
		run_failure(run, "usage", hint, "unknown schema %s, version %lld", name,
			(long long)major);
	else
		run_failure(run, "usage", hint, "unknown schema %s", name);
	run_begin(run, STATUS_BAD);
}

static void run_schema(struct run *run)
{
	const struct schema_options *given = run->options;
	FILE *stream = run_stream(run);

	for (size_t i = 0; run->word_count == 0 && run->commands[i] != NULL; i++)
		if (run->commands[i]->answer != NULL)
			fprintf(stream, "%s %d\n", run->commands[i]->name, MAJOR);
	FOR_EACH(i, run->word_count, of, command_find(run->commands, run->words[i]))
		if (of == NULL || of->answer == NULL ||
			(given->major != -1 && given->major != MAJOR))
			fail(run, run->words[i], given->major);
		else
			schema_write(stream, &(struct schema_of){ of->name, of->answer,
						     of->inputs == INPUTS_MANY });
}

const struct command command_schema = {
	.name = "schema",
	.group = GROUP_ABOUT,
	.summary = "print the JSON Schema of a command's output",
	.synopsis = "[--schema=N] [COMMAND]...",
	.examples = { "schema", "schema ls" },
	.exit_1 = "unknown schema",
	.options = options,
	.options_size = sizeof(struct schema_options),
	.output = "text",
	.inputs = INPUTS_WORDS,
	.perform = run_schema,
};
