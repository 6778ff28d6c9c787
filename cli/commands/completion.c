/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints completion scripts for shells, from the table of commands and the templates of
 * data/completion. Names in a checkpoint come from the command itself, limited to a fifth
 * of a second; it escapes control characters, and the shell never evaluates them.
 */
#include <stdio.h>
#include <string.h>

#include <fsdp/loaders.h>

#include "args/parse.h"
#include "render/record.h"

/* Calls `put` for each option of a command. */
typedef void put_option(
	FILE *stream, const struct command *command, const struct option_row *row);

static void each_option(FILE *stream, const struct command *command, put_option *put)
{
	const struct option_row *row;

	for (size_t i = 0; (row = command_option(command, i)) != NULL; i++)
		put(stream, command, row);
}

/* Options may precede the command, whose outputs are unknown then. */
static void each_common_option(FILE *stream, put_option *put)
{
	const struct command none = { .name = "", .shapes = ~0U };

	for (const struct option_row *row = common_options; row->name != NULL; row++)
		if (!row->hidden)
			put(stream, &none, row);
}

struct offered {
	const char *names[2 * COLUMNS_MAX];
	size_t count;
};

static void add_column(struct offered *columns, const char *name)
{
	for (size_t i = 0; i < columns->count; i++)
		if (strcmp(columns->names[i], name) == 0)
			return;
	if (columns->count < sizeof columns->names / sizeof *columns->names)
		columns->names[columns->count++] = name;
}

/* Columns of rows; members of nested objects are not columns. */
static void add_columns(struct offered *columns, const struct record *record)
{
	FOR_EACH(i, record->count, field, &record->fields[i])
		if (field->type == FIELD_FIELDS || record->form == RECORD_ONE_OF)
			add_columns(columns, field->of);
		else if (field->name != NULL)
			add_column(columns, field->name);
}

/* Of the main arrays that an answer may have. */
static void find_columns(struct offered *columns, const struct record *answer)
{
	for (size_t i = 0; answer != NULL && i < answer->count; i++) {
		const struct column *field = &answer->fields[i];

		if (field->type == FIELD_ITEMS)
			add_columns(columns, field->of);
		else if (answer->form == RECORD_ONE_OF)
			find_columns(columns, field->of);
	}
}

static bool takes_columns(const struct option_row *row)
{
	return strcmp(row->name, "columns") == 0 || strcmp(row->name, "sort") == 0;
}

/* What is in the checkpoint, if there is one on the line: "NAMES", "UNITS"; or NULL. */
static const char *looked_up(const struct option_row *row)
{
	static const char *const names[] = { "glob", "regex", "param" };

	if (strcmp(row->name, "unit") == 0)
		return "UNITS";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(row->name, names[i]) == 0)
			return "NAMES";
	return NULL;
}

/* The words that can follow an option, each with a space in front. */
static void print_values(
	FILE *stream, const struct command *command, const struct option_row *row)
{
	struct offered columns = { .count = 0 };
	const struct fsdp_loader_option *option;

	if (strcmp(row->name, "output") == 0) {
		for (size_t i = 0; out_format(i) != NULL; i++) {
			if ((out_format(i)->shapes & command->shapes) != 0)
				fprintf(stream, " %s", out_format(i)->name);
		}
	} else if (strcmp(row->name, "limit") == 0) {
		for (size_t i = 0; i < fsdp_limit_row_count(); i++)
			fprintf(stream, " %s=", fsdp_limit_row(i)->name);
	} else if (strcmp(row->name, "loader-option") == 0) {
		/* Parameters of all loaders: "strict=raise_all", "tag=". */
		for (size_t i = 0; fsdp_loader_name(i) != NULL; i++)
			for (size_t k = 0; (option = fsdp_loader_option(
						    fsdp_loader_name(i), k)) != NULL;
				k++) {
				if (option->words == NULL)
					fprintf(stream, " %s=", option->name);
				for (size_t w = 0;
					option->words != NULL && option->words[w] != NULL;
					w++)
					fprintf(stream, " %s=%s", option->name,
						option->words[w]);
			}
	} else if (strcmp(row->name, "rule") == 0) {
		for (size_t i = 0; i < fsdp_rule_count(); i++)
			fprintf(stream, " %s= %s=", fsdp_rule(i)->id, fsdp_rule(i)->slug);
	} else if (strcmp(row->name, "dtype") == 0) {
		for (size_t i = 0; i < fsdp_dtype_count(); i++)
			fprintf(stream, " %s", fsdp_dtype((uint32_t)i)->name);
	} else if (takes_columns(row)) {
		find_columns(&columns, command->answer);
		/* The column of sums is called as the word that follows --by. */
		for (size_t i = 0; i < columns.count; i++)
			if (strcmp(columns.names[i], "by") != 0)
				fprintf(stream, " %s", columns.names[i]);
	} else if (row->words != NULL) {
		for (size_t i = 0; row->words[i] != NULL; i++)
			fprintf(stream, " %s", row->words[i]);
	}
}

static bool has_values(const struct option_row *row)
{
	return row->words != NULL || strcmp(row->name, "output") == 0 ||
	       strcmp(row->name, "limit") == 0 || strcmp(row->name, "dtype") == 0 ||
	       strcmp(row->name, "rule") == 0 ||
	       strcmp(row->name, "loader-option") == 0 || takes_columns(row);
}

/* Words that may be joined by commas. */
static bool takes_list(const struct option_row *row)
{
	return row->kind == OPTION_WORDS;
}

static void print_command_names(FILE *stream, const struct command *const *commands)
{
	for (; *commands != NULL; commands++)
		fprintf(stream, " %s", (*commands)->name);
}

/* Words that a command takes instead of checkpoints. */
static void print_arguments(
	FILE *stream, const struct command *const *commands, const struct command *row)
{
	bool help = strcmp(row->name, "help") == 0;

	if (strcmp(row->name, "completion") == 0)
		fputs(" bash zsh fish", stream);
	if (help || strcmp(row->name, "schema") == 0)
		print_command_names(stream, commands);
	for (size_t i = 0; help && help_topic_name(i) != NULL; i++)
		fprintf(stream, " %s", help_topic_name(i));
	for (size_t i = 0;
		(help || strcmp(row->name, "rules") == 0) && i < fsdp_rule_count(); i++)
		fprintf(stream, " %s", fsdp_rule(i)->id);
}

/* In single quotes; our own texts may hold an apostrophe. */
static void print_quoted(FILE *stream, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			fputs("'\\''", stream);
		else
			fputc(*text, stream);
	}
}

/* ---- bash, and the functions that zsh shares ---- */

static void bash_option(
	FILE *stream, const struct command *command, const struct option_row *row)
{
	(void)command;
	fprintf(stream, " --%s%s", row->name, option_takes_value(row) ? "=" : "");
	if (row->letter != '\0')
		fprintf(stream, " -%c", row->letter);
}

static void bash_values(
	FILE *stream, const struct command *command, const struct option_row *row)
{
	if (!option_takes_value(row))
		return;
	fprintf(stream, "\t%s:--%s", command->name, row->name);
	if (row->letter != '\0')
		fprintf(stream, " | %s:-%c", command->name, row->letter);
	if (looked_up(row) != NULL) {
		fprintf(stream, ") words=%s ;;\n", looked_up(row));
	} else if (has_values(row)) {
		fputs(") words='", stream);
		print_values(stream, command, row);
		fprintf(stream, "'%s ;;\n", takes_list(row) ? " list=1" : "");
	} else {
		fprintf(stream, ") words=%s ;;\n", option_is_path(row) ? "FILES" : "");
	}
}

static void print_bash_commands(FILE *stream, const struct command *const *commands)
{
	fputs("_fsdp_inspect_commands='", stream);
	print_command_names(stream, commands);
	fputs("'\n", stream);
}

static void print_bash_values(FILE *stream, const struct command *const *commands)
{
	for (; *commands != NULL; commands++)
		each_option(stream, *commands, bash_values);
	each_common_option(stream, bash_values);
}

static void print_bash_options(FILE *stream, const struct command *const *commands)
{
	for (; *commands != NULL; commands++) {
		fprintf(stream, "\t%s) words='", (*commands)->name);
		each_option(stream, *commands, bash_option);
		fputs("' ;;\n", stream);
	}
	fputs("\t*) words='", stream);
	each_common_option(stream, bash_option);
	fputs("' ;;\n", stream);
}

static void print_bash_arguments(FILE *stream, const struct command *const *commands)
{
	for (size_t i = 0; commands[i] != NULL; i++) {
		if (takes_checkpoint(commands[i]->inputs))
			continue;
		fprintf(stream, "\t%s) words='", commands[i]->name);
		print_arguments(stream, commands, commands[i]);
		fputs("' ;;\n", stream);
	}
}

/* ---- zsh ---- */

/* Inside brackets and colons of an _arguments specification. */
static void zsh_text(FILE *stream, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			fputs("'\\''", stream);
		else if (strchr("[]:\\", *text) != NULL)
			fprintf(stream, "\\%c", *text);
		else
			fputc(*text, stream);
	}
}

static void zsh_specification(FILE *stream, const struct command *command,
	const struct option_row *row, const char *dashes, const char *name)
{
	bool repeats = row->kind == OPTION_LIST || row->kind == OPTION_WORDS ||
		       row->kind == OPTION_COUNTED;

	fprintf(stream, " \\\n\t\t'%s%s%s%s[", repeats ? "*" : "", dashes, name,
		!option_takes_value(row) ? ""
		: dashes[1] == '\0'      ? "+"
					 : "=");
	zsh_text(stream, row->help);
	fputc(']', stream);
	if (option_takes_value(row)) {
		fputc(':', stream);
		zsh_text(stream, row->argument != NULL ? row->argument : "value");
		fputc(':', stream);
		if (option_is_path(row)) {
			fputs("_files", stream);
		} else if (looked_up(row) != NULL) {
			fprintf(stream, "_fsdp_inspect_names %s", looked_up(row));
		} else if (has_values(row) && takes_list(row)) {
			fputs("_values -s , word", stream);
			print_values(stream, command, row);
		} else if (has_values(row)) {
			fputc('(', stream);
			print_values(stream, command, row);
			fputs(" )", stream);
		}
	}
	fputc('\'', stream);
}

static void zsh_option(
	FILE *stream, const struct command *command, const struct option_row *row)
{
	char letter[2] = { row->letter, '\0' };

	zsh_specification(stream, command, row, "--", row->name);
	if (row->letter != '\0')
		zsh_specification(stream, command, row, "-", letter);
}

static void print_zsh_commands(FILE *stream, const struct command *const *commands)
{
	for (; *commands != NULL; commands++) {
		fprintf(stream, "\t\t'%s:", (*commands)->name);
		zsh_text(stream, (*commands)->summary);
		fputs("'\n", stream);
	}
}

static void print_zsh_common(FILE *stream, const struct command *const *commands)
{
	(void)commands;
	fputs("\t\t_arguments -s", stream);
	each_common_option(stream, zsh_option);
	fputs(" \\\n\t\t'1:command:{_describe command commands}'\n", stream);
}

static void print_zsh_cases(FILE *stream, const struct command *const *commands)
{
	for (size_t i = 0; commands[i] != NULL; i++) {
		fprintf(stream, "\t%s)\n\t\t_arguments -s", commands[i]->name);
		each_option(stream, commands[i], zsh_option);
		if (commands[i]->inputs == INPUTS_ONE_NAMES) {
			fputs(" \\\n\t\t':file:_files'"
			      " \\\n\t\t'*:name:_fsdp_inspect_names NAMES' ;;\n",
				stream);
			continue;
		}
		if (takes_checkpoint(commands[i]->inputs)) {
			fputs(" \\\n\t\t'*:file:_files' ;;\n", stream);
			continue;
		}
		fputs(" \\\n\t\t'*:word:(", stream);
		print_arguments(stream, commands, commands[i]);
		fputs(" )' ;;\n", stream);
	}
}

/* ---- fish ---- */

static void fish_option(
	FILE *stream, const struct command *command, const struct option_row *row)
{
	fprintf(stream, "complete -c fsdp-inspect -n '__fsdp_inspect_in \"%s\"' -l %s",
		command->name, row->name);
	if (row->letter != '\0')
		fprintf(stream, " -s %c", row->letter);
	if (option_takes_value(row))
		fprintf(stream, " -%s", option_is_path(row) ? "r" : "x");
	if (looked_up(row) != NULL) {
		fprintf(stream, " -a '(__fsdp_inspect_names %s)'", looked_up(row));
	} else if (option_takes_value(row) && takes_list(row) && has_values(row)) {
		fputs(" -a '(__fish_append , ", stream);
		print_values(stream, command, row);
		fputs(")'", stream);
	} else if (option_takes_value(row) && has_values(row)) {
		fputs(" -a '", stream);
		print_values(stream, command, row);
		fputc('\'', stream);
	}
	fputs(" -d '", stream);
	print_quoted(stream, row->help);
	fputs("'\n", stream);
}

static void print_fish_commands(FILE *stream, const struct command *const *commands)
{
	fputs("set -g __fsdp_inspect_commands", stream);
	print_command_names(stream, commands);
	fputc('\n', stream);
}

static void print_fish_options(FILE *stream, const struct command *const *commands)
{
	each_common_option(stream, fish_option);
	for (size_t i = 0; commands[i] != NULL; i++) {
		fprintf(stream,
			"complete -c fsdp-inspect -n '__fsdp_inspect_in \"\"' -f -a %s -d '",
			commands[i]->name);
		print_quoted(stream, commands[i]->summary);
		fputs("'\n", stream);
		if (!takes_checkpoint(commands[i]->inputs)) {
			fprintf(stream,
				"complete -c fsdp-inspect -n '__fsdp_inspect_in \"%s\"' -f -a '",
				commands[i]->name);
			print_arguments(stream, commands, commands[i]);
			fputs("'\n", stream);
		}
		each_option(stream, commands[i], fish_option);
	}
}

/* Made by the build. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

static const struct {
	const char *name, *template;
} shells[] = {
	{ "bash", completion_bash },
	{ "zsh", completion_zsh },
	{ "fish", completion_fish },
};

/* A line "#: MARK" of a template stands for what is put there. */
static const struct {
	const char *mark;
	void (*put)(FILE *stream, const struct command *const *commands);
} marks[] = {
	{ "#: bash-commands\n", print_bash_commands },
	{ "#: bash-values\n", print_bash_values },
	{ "#: bash-options\n", print_bash_options },
	{ "#: bash-arguments\n", print_bash_arguments },
	{ "#: zsh-commands\n", print_zsh_commands },
	{ "#: zsh-common\n", print_zsh_common },
	{ "#: zsh-cases\n", print_zsh_cases },
	{ "#: fish-commands\n", print_fish_commands },
	{ "#: fish-options\n", print_fish_options },
};

static void run_completion(struct run *run)
{
	const char *name = run->word_count == 1 ? run->words[0] : "";

	for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
		if (strcmp(shells[i].name, name) == 0) {
			FILE *stream = run_stream(run);
			const char *line = shells[i].template;
			for (size_t size; *line != '\0'; line += size) {
				size_t at = 0;
				size = strcspn(line, "\n") + 1;
				while (at < sizeof marks / sizeof *marks &&
					strncmp(marks[at].mark, line, size) != 0)
					at++;
				if (at < sizeof marks / sizeof *marks)
					marks[at].put(stream, run->commands);
				else
					fwrite(line, 1, size, stream);
			}
			return;
		}
	}
	if (run->word_count == 1)
		run_failure(run, "usage", "one of bash, zsh, fish",
			"no completion for %s", name);
	else
		run_failure(run, "usage", "one of bash, zsh, fish",
			"completion needs the name of one shell");
	run_begin(run, run->word_count == 1 ? STATUS_BAD : STATUS_FAILED);
}

const struct command command_completion = {
	.name = "completion",
	.group = GROUP_ABOUT,
	.summary = "print completion for bash, zsh or fish",
	.synopsis = "bash | zsh | fish",
	.examples = { "completion bash", "completion zsh > _fsdp-inspect",
		"completion fish | source" },
	.exit_1 = "unknown shell",
	.output = "text",
	.inputs = INPUTS_WORDS,
	.perform = run_completion,
};
