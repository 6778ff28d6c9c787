/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints scripts that tell shells what can be typed, from the rows of commands.
 */
#include <stdio.h>
#include <string.h>

#include <fsdp/loaders.h>

#include "front/command.h"
#include "front/help-pages.h"
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

/* Options may stand before the command, whose outputs are not known then. */
static void each_common_option(FILE *stream, put_option *put)
{
	const struct command none = { .name = "", .shapes = ~0U };

	for (const struct option_row *row = common_options; row->name != NULL; row++)
		if (!row->hidden)
			put(stream, &none, row);
}

/* ---- columns ---- */

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

/* Those of rows; what they hold in objects of its own is not a column. */
static void add_columns(struct offered *columns, const struct record *record)
{
	for (size_t i = 0; i < record->count; i++) {
		const struct column *field = &record->fields[i];

		if (field->type == FIELD_FIELDS || record->form == RECORD_ONE_OF)
			add_columns(columns, field->of);
		else if (field->name != NULL)
			add_column(columns, field->name);
	}
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

/* ---- values ---- */

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

/* Parameters of all loaders: "strict=raise_all", "tag=". */
static void put_loader_options(FILE *stream)
{
	const struct fsdp_loader_option *option;

	for (size_t i = 0; fsdp_loader_name(i) != NULL; i++)
		for (size_t k = 0;
			(option = fsdp_loader_option(fsdp_loader_name(i), k)) != NULL;
			k++) {
			if (option->words == NULL)
				fprintf(stream, " %s=", option->name);
			for (size_t w = 0;
				option->words != NULL && option->words[w] != NULL; w++)
				fprintf(stream, " %s=%s", option->name, option->words[w]);
		}
}

/* The words that can follow an option, each with a space in front. */
static void put_values(
	FILE *stream, const struct command *command, const struct option_row *row)
{
	struct offered columns = { .count = 0 };

	if (strcmp(row->name, "output") == 0) {
		for (size_t i = 0; out_format(i) != NULL; i++) {
			if ((out_format(i)->shapes & command->shapes) != 0)
				fprintf(stream, " %s", out_format(i)->name);
		}
	} else if (strcmp(row->name, "limit") == 0) {
		for (size_t i = 0; i < fsdp_limit_row_count(); i++)
			fprintf(stream, " %s=", fsdp_limit_row(i)->name);
	} else if (strcmp(row->name, "loader-option") == 0) {
		put_loader_options(stream);
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

static void put_command_names(FILE *stream, const struct command *const *commands)
{
	for (; *commands != NULL; commands++)
		fprintf(stream, " %s", (*commands)->name);
}

/* Words that a command takes instead of checkpoints. */
static void put_arguments(
	FILE *stream, const struct command *const *commands, const struct command *row)
{
	bool help = strcmp(row->name, "help") == 0;

	if (strcmp(row->name, "completion") == 0)
		fputs(" bash zsh fish", stream);
	if (help || strcmp(row->name, "schema") == 0)
		put_command_names(stream, commands);
	for (size_t i = 0; help && help_topic_name(i) != NULL; i++)
		fprintf(stream, " %s", help_topic_name(i));
	for (size_t i = 0;
		(help || strcmp(row->name, "rules") == 0) && i < fsdp_rule_count(); i++)
		fprintf(stream, " %s", fsdp_rule(i)->id);
}

/* In single quotes; our own texts may hold an apostrophe. */
static void put_quoted(FILE *stream, const char *text)
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
		put_values(stream, command, row);
		fprintf(stream, "'%s ;;\n", takes_list(row) ? " list=1" : "");
	} else {
		fprintf(stream, ") words=%s ;;\n", option_is_path(row) ? "FILES" : "");
	}
}

/*
 * The names in a checkpoint: those of a fifth of a second, read by the command itself,
 * which escapes what a terminal must not get. They are never evaluated.
 */
static const char BASH_NAMES[] =
	"_fsdp_inspect_names() {\n"
	"\tlocal name words=ls\n"
	"\t[[ $1 == UNITS ]] && words='tree --sharded-only'\n"
	"\twhile IFS= read -r name; do\n"
	"\t\tif [[ $name == \"$3\"* ]]; then\n"
	"\t\t\tprintf -v name %q \"$name\"\n"
	"\t\t\tCOMPREPLY+=(\"$name\")\n"
	"\t\tfi\n"
	"\t\t((${#COMPREPLY[@]} < 1000)) || break\n"
	"\tdone < <(timeout 0.2 fsdp-inspect $words -qq -o name -- \"$2\" 2>/dev/null)\n"
	"}\n";

static const char BASH_MAIN[] =
	"_fsdp_inspect() {\n"
	"\tlocal words= list= command= word= checkpoint= before= i\n"
	"\tlocal current=${COMP_WORDS[COMP_CWORD]}\n"
	"\tlocal previous= key= one\n"
	"\tCOMPREPLY=()\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif [[ -n $command ]]; then\n"
	"\t\t\t[[ -z $checkpoint && $word != -* && -e $word ]] && checkpoint=$word\n"
	"\t\telif [[ \" $_fsdp_inspect_commands \" == *\" $word \"* ]]; then\n"
	"\t\t\tcommand=$word\n"
	"\t\tfi\n"
	"\tdone\n"
	"\ti=$((COMP_CWORD - 1))\n"
	"\tprevious=${COMP_WORDS[i]}\n"
	"\tif [[ $current == = || $previous == = ]]; then\n"
	"\t\t[[ $current == = ]] && current= || ((i--))\n"
	"\t\tif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
	"\t\t\tkey=${COMP_WORDS[i]}=\n"
	"\t\t\t((i--))\n"
	"\t\t\t[[ ${COMP_WORDS[i]} == = ]] && ((i--))\n"
	"\t\tfi\n"
	"\t\tprevious=${COMP_WORDS[i]}\n"
	"\tfi\n"
	"\tif ! _fsdp_inspect_values \"$command\" \"$previous\"; then\n"
	"\t\tif [[ $current == -* ]]; then\n"
	"\t\t\t_fsdp_inspect_options \"$command\"\n"
	"\t\telif [[ $command == show && -n $checkpoint ]]; then\n"
	"\t\t\twords=NAMES\n"
	"\t\telse\n"
	"\t\t\t_fsdp_inspect_arguments \"$command\"\n"
	"\t\tfi\n"
	"\tfi\n"
	"\tcase $words in\n"
	"\tFILES) compopt -o default 2>/dev/null ;;\n"
	"\tNAMES | UNITS)\n"
	"\t\t[[ -z $checkpoint ]] || _fsdp_inspect_names \"$words\" \"$checkpoint\" \"$current\"\n"
	"\t\t;;\n"
	"\t*)\n"
	"\t\tif [[ -n $key ]]; then\n"
	"\t\t\tfor one in $words; do\n"
	"\t\t\t\t[[ $one == \"$key\"?* ]] && before+=\" ${one#\"$key\"}\"\n"
	"\t\t\tdone\n"
	"\t\t\twords=$before before=\n"
	"\t\tfi\n"
	"\t\tif [[ -n $list ]]; then\n"
	"\t\t\tword=${current##*,}\n"
	"\t\t\tword=${word#-}\n"
	"\t\t\tbefore=${current%\"$word\"}\n"
	"\t\t\tcurrent=$word\n"
	"\t\tfi\n"
	"\t\tCOMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"$current\"))\n"
	"\t\t[[ -z $list && ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null\n"
	"\t\t;;\n"
	"\tesac\n"
	"}\n"
	"complete -F _fsdp_inspect fsdp-inspect\n";

static void put_bash(FILE *stream, const struct command *const *commands)
{
	fputs("# fsdp-inspect completion for bash: eval \"$(fsdp-inspect completion bash)\"\n"
	      "_fsdp_inspect_commands='",
		stream);
	put_command_names(stream, commands);
	fputs("'\n"
	      "_fsdp_inspect_values() {\n"
	      "\tcase $1:$2 in\n",
		stream);
	for (size_t i = 0; commands[i] != NULL; i++)
		each_option(stream, commands[i], bash_values);
	each_common_option(stream, bash_values);
	fputs("\t*) return 1 ;;\n\tesac\n}\n"
	      "_fsdp_inspect_options() {\n"
	      "\tcase $1 in\n",
		stream);
	for (size_t i = 0; commands[i] != NULL; i++) {
		fprintf(stream, "\t%s) words='", commands[i]->name);
		each_option(stream, commands[i], bash_option);
		fputs("' ;;\n", stream);
	}
	fputs("\t*) words='", stream);
	each_common_option(stream, bash_option);
	fputs("' ;;\n\tesac\n}\n"
	      "_fsdp_inspect_arguments() {\n"
	      "\tcase $1 in\n",
		stream);
	for (size_t i = 0; commands[i] != NULL; i++) {
		if (takes_checkpoint(commands[i]->inputs))
			continue;
		fprintf(stream, "\t%s) words='", commands[i]->name);
		put_arguments(stream, commands, commands[i]);
		fputs("' ;;\n", stream);
	}
	fputs("\t'') words=$_fsdp_inspect_commands ;;\n"
	      "\t*) words=FILES ;;\n"
	      "\tesac\n"
	      "}\n",
		stream);
	fputs(BASH_NAMES, stream);
	fputs(BASH_MAIN, stream);
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
			put_values(stream, command, row);
		} else if (has_values(row)) {
			fputc('(', stream);
			put_values(stream, command, row);
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

static void put_zsh(FILE *stream, const struct command *const *commands)
{
	fputs("#compdef fsdp-inspect\n"
	      "_fsdp_inspect_names() {\n"
	      "\tlocal -a names\n"
	      "\tlocal word checkpoint= what=ls\n"
	      "\t[[ $argv[-1] == UNITS ]] && what='tree --sharded-only'\n"
	      "\tfor word in ${words[2,CURRENT-1]}; do\n"
	      "\t\t[[ -z $checkpoint && $word != -* && -e $word ]] && checkpoint=$word\n"
	      "\tdone\n"
	      "\t[[ -n $checkpoint ]] || return\n"
	      "\tnames=(${(f)\"$(timeout 0.2 fsdp-inspect ${=what} -qq -o name -- $checkpoint 2>/dev/null)\"})\n"
	      "\tcompadd \"${(@)argv[1,-2]}\" -a names\n"
	      "}\n"
	      "_fsdp_inspect() {\n"
	      "\tlocal -a commands\n"
	      "\tcommands=(\n",
		stream);
	for (size_t i = 0; commands[i] != NULL; i++) {
		fprintf(stream, "\t\t'%s:", commands[i]->name);
		zsh_text(stream, commands[i]->summary);
		fputs("'\n", stream);
	}
	fputs("\t)\n"
	      "\tlocal command= i\n"
	      "\tfor ((i = 2; i < CURRENT; i++)); do\n"
	      "\t\tif (($+commands[(r)$words[i]:*])); then command=$words[i]; break; fi\n"
	      "\tdone\n"
	      "\tif [[ -z $command ]]; then\n"
	      "\t\t_arguments -s",
		stream);
	each_common_option(stream, zsh_option);
	fputs(" \\\n\t\t'1:command:{_describe command commands}'\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\twords=(\"$words[i]\" \"${(@)words[2,i-1]}\" \"${(@)words[i+1,-1]}\")\n"
	      "\t((CURRENT--))\n"
	      "\tcase $command in\n",
		stream);
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
		put_arguments(stream, commands, commands[i]);
		fputs(" )' ;;\n", stream);
	}
	fputs("\tesac\n"
	      "}\n"
	      "if [[ $funcstack[1] == _fsdp_inspect ]]; then\n"
	      "\t_fsdp_inspect \"$@\"\n"
	      "else\n"
	      "\tcompdef _fsdp_inspect fsdp-inspect\n"
	      "fi\n",
		stream);
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
		put_values(stream, command, row);
		fputs(")'", stream);
	} else if (option_takes_value(row) && has_values(row)) {
		fputs(" -a '", stream);
		put_values(stream, command, row);
		fputc('\'', stream);
	}
	fputs(" -d '", stream);
	put_quoted(stream, row->help);
	fputs("'\n", stream);
}

static void put_fish(FILE *stream, const struct command *const *commands)
{
	fputs("# fsdp-inspect completion for fish: fsdp-inspect completion fish | source\n"
	      "set -g __fsdp_inspect_commands",
		stream);
	put_command_names(stream, commands);
	fputs("\n"
	      "function __fsdp_inspect_in\n"
	      "\tset -l command\n"
	      "\tfor word in (commandline -opc)[2..-1]\n"
	      "\t\tif contains -- $word $__fsdp_inspect_commands\n"
	      "\t\t\tset command $word\n"
	      "\t\t\tbreak\n"
	      "\t\tend\n"
	      "\tend\n"
	      "\ttest \"$command\" = \"$argv[1]\"\n"
	      "end\n"
	      "function __fsdp_inspect_checkpoint\n"
	      "\tset -l command\n"
	      "\tfor word in (commandline -opc)[2..-1]\n"
	      "\t\tif test -z \"$command\"\n"
	      "\t\t\tcontains -- $word $__fsdp_inspect_commands; and set command $word\n"
	      "\t\telse if not string match -q -- \"-*\" $word; and test -e $word\n"
	      "\t\t\tprintf \"%s\\n\" $word\n"
	      "\t\t\treturn\n"
	      "\t\tend\n"
	      "\tend\n"
	      "\treturn 1\n"
	      "end\n"
	      "function __fsdp_inspect_names\n"
	      "\tset -l what ls\n"
	      "\ttest $argv[1] = UNITS; and set what tree --sharded-only\n"
	      "\tset -l checkpoint (__fsdp_inspect_checkpoint)\n"
	      "\tand timeout 0.2 fsdp-inspect $what -qq -o name -- $checkpoint 2>/dev/null\n"
	      "end\n"
	      "complete -c fsdp-inspect -n '__fsdp_inspect_in show; and __fsdp_inspect_checkpoint >/dev/null' -f -a '(__fsdp_inspect_names NAMES)'\n",
		stream);
	each_common_option(stream, fish_option);
	for (size_t i = 0; commands[i] != NULL; i++) {
		fprintf(stream,
			"complete -c fsdp-inspect -n '__fsdp_inspect_in \"\"' -f -a %s -d '",
			commands[i]->name);
		put_quoted(stream, commands[i]->summary);
		fputs("'\n", stream);
		if (!takes_checkpoint(commands[i]->inputs)) {
			fprintf(stream,
				"complete -c fsdp-inspect -n '__fsdp_inspect_in \"%s\"' -f -a '",
				commands[i]->name);
			put_arguments(stream, commands, commands[i]);
			fputs("'\n", stream);
		}
		each_option(stream, commands[i], fish_option);
	}
}

/* ---- the command ---- */

static const struct {
	const char *name;
	void (*put)(FILE *stream, const struct command *const *commands);
} shells[] = {
	{ "bash", put_bash },
	{ "zsh", put_zsh },
	{ "fish", put_fish },
};

static bool run_completion(struct run *run, struct fsdp_error **ret_error)
{
	const char *name = run->word_count == 1 ? run->words[0] : "";

	(void)ret_error;
	for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
		if (strcmp(shells[i].name, name) == 0) {
			shells[i].put(run_stream(run), run->commands);
			return true;
		}
	}
	if (run->word_count == 1)
		run_failure(run, "usage", "one of bash, zsh, fish",
			"no completion for %s", name);
	else
		run_failure(run, "usage", "one of bash, zsh, fish",
			"completion needs the name of one shell");
	run_begin(run, run->word_count == 1 ? STATUS_BAD : STATUS_FAILED);
	return true;
}

const struct command command_completion = {
	.name = "completion",
	.group = GROUP_ABOUT,
	.summary = "completion for bash, zsh or fish",
	.synopsis = "bash | zsh | fish",
	.examples = { "completion bash", "completion zsh > _fsdp-inspect",
		"completion fish | source" },
	.exit_1 = "there is none for that shell",
	.output = "text",
	.inputs = INPUTS_WORDS,
	.run = run_completion,
};
