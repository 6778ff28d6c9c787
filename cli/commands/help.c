/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the tables of commands, options, outputs and limits as help. It has almost no
 * text of its own, so help cannot drift from what is true.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <fsdp/model.h>
#include <fsdp/error.h>

#include "args/parse.h"

/* ---- overview ---- */

static const char *const group_titles[GROUP_COUNT] = {
	[GROUP_START] = "Start here",
	[GROUP_LOOK] = "Look closer",
	[GROUP_BYTES] = "Bytes and values",
	[GROUP_TRACE] = "Recordings",
	[GROUP_ABOUT] = "About",
};

void help_overview(FILE *stream, const struct command *const *commands)
{
	fprintf(stream,
		"fsdp-inspect %s - inspect sharded PyTorch checkpoints without running them\n\n"
		"usage: fsdp-inspect COMMAND [OPTION...] CHECKPOINT...\n\n",
		fsdp_version());
	for (unsigned group = 0; group < GROUP_COUNT; group++) {
		fprintf(stream, "%s\n", group_titles[group]);
		for (size_t i = 0; commands[i] != NULL; i++)
			if (commands[i]->group == group)
				fprintf(stream, "  %-11s %s\n", commands[i]->name,
					commands[i]->summary);
	}
	fputs("\nExamples: fsdp-inspect tree step-1000/\n"
	      "          fsdp-inspect ls -g 'layers.*.self_attn.**' -s -bytes step-1000/\n"
	      "Exit status: 0 success, 1 check failed, 2 error, 3 partial result.\n"
	      "More: fsdp-inspect help COMMAND, man fsdp-inspect, or help on:",
		stream);
	for (size_t i = 0; help_topic_name(i) != NULL; i++)
		fprintf(stream, "%s%s", i % 8 == 0 ? "\n  " : " ", help_topic_name(i));
	fputc('\n', stream);
}

const char *help_kind_name(unsigned kind)
{
	static const char *const names[] = {
		[OPTION_FLAG] = "flag",
		[OPTION_COUNTED] = "count",
		[OPTION_INTEGER] = "integer",
		[OPTION_SIZE] = "size",
		[OPTION_WORD] = "word",
		[OPTION_TEXT] = "text",
		[OPTION_LIST] = "text",
		[OPTION_WORDS] = "words",
	};

	return names[kind];
}

/* Text from column `from` on, broken between words before column 80. */
static void print_broken(FILE *stream, int from, const char *text)
{
	int column = from;

	while (*text != '\0') {
		int word = (int)strcspn(text, " "), gap = column > from;

		if (gap && column + gap + word > 80) {
			fprintf(stream, "\n%*s", from, "");
			column = from;
			gap = 0;
		}
		fprintf(stream, "%s%.*s", gap ? " " : "", word, text);
		column += gap + word;
		text += word;
		text += *text == ' ';
	}
	fputc('\n', stream);
}

static void print_option(FILE *stream, const struct option_row *row)
{
	char left[64], letter[8] = "    ";
	char text[512];

	if (row->letter != '\0')
		snprintf(letter, sizeof letter, "-%c, ", row->letter);
	snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name,
		row->argument != NULL ? "=" : "",
		row->argument != NULL ? row->argument : "");
	/* Description, then the values and the default. */
	int from = fprintf(stream, "  %-29s ", left);
	size_t size = (size_t)snprintf(text, sizeof text, "%s", row->help);
	for (size_t i = 0; row->words != NULL && row->words[i] != NULL; i++)
		if (size < sizeof text)
			size += (size_t)snprintf(text + size, sizeof text - size, "%s%s",
				i > 0 ? ", " : ": ", row->words[i]);
	/* A word that is called default says so by itself. */
	if (row->initial != NULL && strcmp(row->initial, "default") != 0 &&
		size < sizeof text)
		snprintf(text + size, sizeof text - size, " (default %s)", row->initial);
	print_broken(stream, from, text);
}

static void print_options(FILE *stream, const char *title, const struct option_row *rows)
{
	bool any = false;

	for (; rows != NULL && rows->name != NULL; rows++) {
		if (rows->hidden)
			continue;
		if (!any && title != NULL)
			fprintf(stream, "\n%s\n", title);
		any = true;
		print_option(stream, rows);
	}
}

enum { WIDTH = 80 };

/* Words of a text from `column` on, in lines that fit a screen and begin with `indent`
 * spaces. */
static void print_words(FILE *stream, const char *text, size_t column, size_t indent)
{
	bool is_new = true;

	while (*text != '\0') {
		size_t size = strcspn(text, " ");

		if (!is_new && column + 1 + size > WIDTH) {
			fprintf(stream, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!is_new) {
			fputc(' ', stream);
			column++;
		}
		fprintf(stream, "%.*s", (int)size, text);
		column += size;
		is_new = false;
		text += size + (text[size] == ' ');
	}
}

static void print_outputs(FILE *stream, const struct command *row)
{
	static const char TITLE[] = "Outputs (-o): ";
	size_t column = strlen(TITLE);
	const char *gap = "";

	if (row->shapes == 0)
		return;
	fprintf(stream, "\n%s", TITLE);
	for (size_t i = 0; out_format(i) != NULL; i++) {
		const struct out_format *format = out_format(i);

		if ((format->shapes & row->shapes) == 0)
			continue;
		const char *is_default =
			strcmp(format->name, row->output) == 0 ? " (default)" : "";
		/* With the comma that may follow. */
		size_t size = strlen(format->name) + strlen(is_default) + 1;
		if (column + size > WIDTH) {
			fprintf(stream, ",\n%*s", (int)strlen(TITLE), "");
			column = strlen(TITLE);
			gap = "";
		}
		fprintf(stream, "%s%s%s", gap, format->name, is_default);
		column += size + 1;
		gap = ", ";
	}
	fputc('\n', stream);
}

/* Its own options come last: they stay on a screen that the rest has left. */
void help_command(FILE *stream, const struct command *row)
{
	const struct topic *topic = topic_find(row->name);

	fprintf(stream, "fsdp-inspect %s - %s\n\n", row->name, row->summary);
	int from = fprintf(stream, "usage: fsdp-inspect %s%s", row->name,
		row->synopsis[0] != '\0' ? " " : "");
	print_broken(stream, from, row->synopsis);
	if (topic != NULL)
		fprintf(stream, "\n%s", topic->text);
	for (size_t i = 0; i < 3 && row->examples[i] != NULL; i++)
		fprintf(stream, "%s  fsdp-inspect %s\n", i == 0 ? "\nExamples\n" : "",
			row->examples[i]);
	print_outputs(stream, row);
	if (row->exit_1 != NULL)
		print_broken(
			stream, fprintf(stream, "\nExit status 1: ") - 1, row->exit_1);
	if (row->exit_4 != NULL)
		print_broken(
			stream, fprintf(stream, "\nExit status 4: ") - 1, row->exit_4);
	/* Names alone: what they mean is a topic. */
	const struct option_row *const *tables = command_selectors(row);
	const char *gap = "\nSelectors (fsdp-inspect help selectors):\n ";
	size_t width = 0;
	for (size_t i = 0; tables[i] != NULL; i++)
		for (const struct option_row *one = tables[i]; one->name != NULL; one++) {
			char name[48];
			int size =
				one->letter != '\0'
					? snprintf(name, sizeof name, " -%c, --%s",
						  one->letter, one->name)
					: snprintf(name, sizeof name, " --%s", one->name);

			if (one->hidden)
				continue;
			if (width + (size_t)size > 76) {
				gap = "\n ";
				width = 0;
			}
			fprintf(stream, "%s%s", gap, name);
			width += (size_t)size;
			gap = "";
		}
	if (*gap == '\0')
		fputc('\n', stream);
	fputs("\nCommon options: fsdp-inspect help options\n", stream);
	print_options(stream, "Options", row->options);
}

/* ---- topics ---- */

static void topic_limits(FILE *stream)
{
	fputs("Limits. --limit NAME=VALUE changes one; 0: no limit. Sizes: 4096, 4K, 4KiB, 4KB.\n\n",
		stream);
	FOR_EACH(i, fsdp_limit_row_count(), row, fsdp_limit_row(i)) {
		int size = fprintf(stream, "  %-17s %12" PRIu64 " %-6s ", row->name,
			row->value, row->unit);

		print_words(stream, row->what, size > 0 ? (size_t)size : 0, 40);
		fputc('\n', stream);
	}
}

static void topic_selectors(FILE *stream)
{
	fputs("Selectors choose tensors and modules. A name must match each kind of selector;\n"
	      "of several -g and -e one match suffices. Exclusions have priority.\n\n"
	      "  -g 'layers.*.mlp'        * is any text within a segment\n"
	      "  -g 'layers.**.weight'    ** is any number of segments, even 0\n"
	      "  -g 'layers.[0-3].**'     one of these characters; ? is any character\n"
	      "  -g '!**.bias'            exclude these\n"
	      "  -e 'proj$'               PCRE2, found anywhere in the name\n\n"
	      "A pattern that names a module selects everything below it. A plain name that\n"
	      "no entry has is searched in all names; a note says so.\n"
	      "Sizes: 4096, 4K or 1.5KiB (1024s), 4KB (1000s). Ranks: 0,4-7.\n",
		stream);
	/* Of several tables, under one title. */
	for (size_t i = 0; select_all[i] != NULL; i++)
		print_options(stream, i == 0 ? "Options" : NULL, select_all[i]);
}

static void topic_options(FILE *stream)
{
	fputs("Common options, before or after the command.\n", stream);
	print_options(stream, "Options", common_options);
	fputs("\nThe environment sets some defaults: fsdp-inspect help environment\n",
		stream);
}

static void topic_outputs(FILE *stream)
{
	fputs("-o FORMAT writes to standard output, -o FORMAT=FILE to a file that appears\n"
	      "complete or not at all. May be repeated; at most one output has no FILE.\n"
	      "--json and --jsonl are -o json and -o jsonl.\n\n",
		stream);
	for (size_t i = 0; out_format(i) != NULL; i++)
		fprintf(stream, "  %-6s %s\n", out_format(i)->name,
			out_format(i)->summary);
	fputs("\nOutputs of a command: fsdp-inspect help COMMAND.\n"
	      "Schemas of json: fsdp-inspect schema COMMAND.\n",
		stream);
}

static void topic_status(FILE *stream)
{
	fputs("  0      success\n"
	      "  1      check failed; or a selector matched nothing, or a name is missing\n"
	      "  2      error: usage, input, output, damage, an unsupported format, a limit,\n"
	      "         out of memory\n"
	      "  3      partial result: something could not be read or checked\n"
	      "  4      nothing here: the run of latest is empty\n"
	      "  128+n  ended by signal n\n\n"
	      "With several checkpoints, 2 has priority over 1, 1 over 3, and 3 over 0.\n"
	      "Findings change the status of audit, and of other commands with --fail-on.\n\n",
		stream);
}

static void topic_maps(FILE *stream)
{
	struct fsdp_map_facts map;

	fputs("Maps of names, for diff --map, export --map and audit --merged=OUT --map. A word\n"
	      "selects the target scheme; the map for the stored names is chosen\n"
	      "automatically. FSDP checkpoints of verl have the names of transformers (hf),\n"
	      "its Megatron workers those of Megatron-core. A FILE is a map of your own.\n",
		stream);
	for (size_t i = 0; fsdp_map_builtin(i, &map); i++) {
		fprintf(stream, "\n  %s", map.name);
		fputs("\n    ", stream);
		print_words(stream, map.about, 4, 4);
		fputs("\n    ", stream);
		print_words(stream, map.words, 4, 4);
		fputc('\n', stream);
	}
	fputs("\nFormat of a map: the manual page fsdp-inspect-map(5)\n", stream);
}

static const struct {
	const char *name;
	void (*put)(FILE *stream);
} topics[] = {
	{ "limits", topic_limits },
	{ "selectors", topic_selectors },
	{ "options", topic_options },
	{ "outputs", topic_outputs },
	{ "status", topic_status },
	{ "maps", topic_maps },
};

const char *help_topic_name(size_t index)
{
	const size_t count = sizeof topics / sizeof *topics;

	if (index < count)
		return topics[index].name;
	const struct topic *topic = topic_at(index - count);
	return topic != NULL ? topic->name : NULL;
}

/* Also a rule's id or slug. False if the topic is unknown. */
static bool print_topic(
	FILE *stream, const struct command *const *commands, const char *topic)
{
	const struct fsdp_rule *rule = rule_of_name(topic);
	const char *instead = removed_word(topic, NULL);

	for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
		if (strcmp(topics[i].name, topic) == 0) {
			topics[i].put(stream);
			if (topics[i].put == topic_status)
				for (; *commands != NULL; commands++) {
					if ((*commands)->exit_1 == NULL)
						continue;
					fprintf(stream,
						"  %-11s 1 means: ", (*commands)->name);
					print_words(stream, (*commands)->exit_1, 24, 14);
					fputc('\n', stream);
				}
			return true;
		}
	}
	if (topic_find(topic) != NULL)
		fputs(topic_find(topic)->text, stream);
	else if (rule != NULL)
		fprintf(stream, "%s %s (%s, %s)\n  %s\n  cause: %s\n  fix: %s\n",
			rule->id, rule->slug, fsdp_severity_name(rule->severity),
			rule->category, rule->title, rule->cause, rule->fix);
	else if (instead != NULL)
		fprintf(stream, "%s was removed; use %s\n", topic, instead);
	return topic_find(topic) != NULL || rule != NULL || instead != NULL;
}

static void fail_topic(struct run *run, const char *topic)
{
	struct nearest nearest;
	char hint[320] = "topics:";

	nearest_init(&nearest, topic);
	for (size_t i = 0; run->commands[i] != NULL; i++)
		nearest_try(&nearest, run->commands[i]->name);
	for (size_t i = 0; help_topic_name(i) != NULL; i++)
		nearest_try(&nearest, help_topic_name(i));
	rule_nearest(&nearest);
	if (nearest.best != NULL)
		snprintf(hint, sizeof hint, "did you mean: fsdp-inspect help %s",
			nearest.best);
	for (size_t i = 0; nearest.best == NULL && help_topic_name(i) != NULL; i++) {
		size_t used = strlen(hint);
		snprintf(hint + used, sizeof hint - used, " %s", help_topic_name(i));
	}
	run_failure(run, "usage", hint, "no help on %s", topic);
	run_begin(run, STATUS_BAD);
}

static void run_help(struct run *run)
{
	FILE *stream = run_stream(run);

	if (run->word_count == 0)
		help_overview(stream, run->commands);
	FOR_EACH(i, run->word_count, row, command_find(run->commands, run->words[i])) {
		if (i > 0)
			fputc('\n', stream);
		if (row != NULL)
			help_command(stream, row);
		else if (!print_topic(stream, run->commands, run->words[i]))
			fail_topic(run, run->words[i]);
	}
}

const struct command command_help = {
	.name = "help",
	.group = GROUP_ABOUT,
	.summary = "explain a command, a rule or a topic",
	.synopsis = "[COMMAND | TOPIC | RULE]...",
	.examples = { "help tree", "help plan", "help FI1004" },
	.exit_1 = "unknown topic",
	.output = "text",
	.inputs = INPUTS_WORDS,
	.perform = run_help,
};
