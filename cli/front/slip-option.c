/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of other tools and of other commands, and what to type instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/nearest.h"
#include "front/retype.h"
#include "front/slip.h"
#include "front/topics.h"

/* ---- a line with another option in it ---- */

struct swap {
	const struct arguments *arguments;
	const char *typed;   /* the option that is wrong: --name, -x, or a whole word */
	const char *command; /* that is meant */
	const char *instead; /* words, where % is the value; "": nothing */
	const char *why;     /* or NULL */
	struct texts line;
	struct owned owned;
};

static bool is_letter(const char *typed)
{
	return typed[1] != '-' && typed[1] != '\0' && typed[2] == '\0';
}

/* Whether it is that option, and where its value is if that stands in the same word. */
static bool is_it(const struct swap *swap, const char *word, const char **ret_value)
{
	size_t size = strlen(swap->typed);

	*ret_value = NULL;
	if (is_letter(swap->typed)) {
		const char *at = word[0] == '-' && word[1] != '-'
					 ? strchr(word + 1, swap->typed[1])
					 : NULL;

		if (at == word + 1 && at[1] != '\0' && strchr(swap->instead, '%') != NULL)
			*ret_value = at + 1;
		return at != NULL;
	}
	if (strncmp(word, swap->typed, size) != 0 ||
		(word[size] != '\0' && word[size] != '='))
		return false;
	if (word[size] == '=')
		*ret_value = word + size + 1;
	return true;
}

static bool add(struct swap *swap, char *word)
{
	return owned_take(&swap->owned, word) != NULL && texts_add(&swap->line, word);
}

/* One word of what is typed instead. */
static bool add_part(
	struct swap *swap, const char *part, size_t size, const char *value, bool is_last)
{
	const char *place = memchr(part, '%', size);
	size_t before = place != NULL ? (size_t)(place - part) : size;
	char *word;

	if (asprintf(&word, "%.*s%s%.*s", (int)before, part, place != NULL ? value : "",
		    (int)(place != NULL ? size - before - 1 : 0),
		    part + before + (place != NULL)) < 0)
		return false;
	/* An option without a value that was given one: -o csv=FILE. */
	if (place == NULL && is_last && value != NULL &&
		strchr(swap->instead, '%') == NULL) {
		char *whole;
		int length = asprintf(&whole, "%s=%s", word, value);

		free(word);
		if (length < 0)
			return false;
		word = whole;
	}
	return add(swap, word);
}

static bool add_instead(struct swap *swap, const char *value)
{
	const char *part = swap->instead;

	while (*part != '\0') {
		size_t size = strcspn(part, " ");

		if (!add_part(swap, part, size, value, part[size] == '\0'))
			return false;
		part += size + (part[size] == ' ');
	}
	return true;
}

/* The letters of a word that are left without the wrong one. */
static bool add_rest(struct swap *swap, const char *word)
{
	const char *at = strchr(word, swap->typed[1]);
	char *rest;

	if (strlen(word) <= 2)
		return true;
	if (asprintf(&rest, "%.*s%s", (int)(at - word), word, at + 1) < 0)
		return false;
	return add(swap, rest);
}

/* False: out of memory, or there is no value where one is needed. */
static bool compose(struct swap *swap)
{
	char *const *typed = swap->arguments->typed;
	bool named = false, swapped = false;
	const char *value;

	if (!texts_add(&swap->line, swap->command))
		return false;
	for (size_t i = 0; typed[i] != NULL; i++) {
		const char *word = typed[i];

		if (!named && strcmp(word, swap->arguments->command->name) == 0) {
			named = true;
			continue;
		}
		if (swapped || !is_it(swap, word, &value)) {
			if (!texts_add(&swap->line, word))
				return false;
			continue;
		}
		swapped = true;
		if (is_letter(swap->typed) && value == NULL && !add_rest(swap, word))
			return false;
		if (value == NULL && strchr(swap->instead, '%') != NULL) {
			if (typed[i + 1] == NULL)
				return false;
			value = typed[++i];
		}
		if (!add_instead(swap, value))
			return false;
	}
	return true;
}

/* Whether there is such a line that the command takes; then it is the hint. */
static bool swap_option(struct usage *usage, struct swap *swap)
{
	bool good =
		compose(swap) && arguments_fit(swap->arguments->commands, &swap->line);

	if (good)
		retyped_hint(usage, &swap->line, swap->why);
	free(swap->line.items);
	owned_free(&swap->owned);
	return good;
}

/* ---- options of other tools ---- */

static const struct {
	const char *typed;
	const char *command; /* NULL: any */
	const char *instead; /* as in struct swap; NULL: no option says that */
	const char *why;     /* NULL: the line tells enough */
} other_options[] = {
	{ "-1", NULL, "-o name", NULL },
	{ "-?", NULL, "--help", NULL },
	{ "-C", NULL, "--color=always", NULL },
	{ "-I", NULL, "-g !%", NULL },
	{ "-P", NULL, "-g %", NULL },
	{ "-R", "ls", NULL, "info FOLDER lists the checkpoints below it" },
	{ "-a", "hash", NULL, "hash has SHA-256: fsdp-inspect hash CHECKPOINT" },
	{ "-a", NULL, "", "all of them are listed" },
	{ "-c", "hash", "--check=%", NULL },
	{ "-d", "export", "-o %", NULL },
	{ "-f", "tree", "--full", NULL },
	{ "-n", "latest", "--count=%", NULL },
	{ "-n", "reshard", "--world=%", NULL },
	{ "-r", NULL, "", "folders are searched already" },
	{ "-s", "tree", "--sizes", NULL },
	{ "-t", "ls", "", "tensors have no times; -s COLUMN sorts" },
	{ "-u", "diff", "", NULL },
	{ "--all", "audit", "-v", NULL },
	{ "--all", "info", "-v", NULL },
	{ "--all", "ls", "", "all of them are listed" },
	{ "--all", "schema", "", "it lists them" },
	{ "--atol", "diff", "--values --tol=%,0", NULL },
	{ "--bins", "stats", NULL, "it has no histogram: fsdp-inspect help stats" },
	{ "--brief", NULL, "-q", "the status is 1 where they differ" },
	{ "--contains", NULL, "-e %", NULL },
	{ "--count", NULL, "--head=%", NULL },
	{ "--csv", NULL, "-o csv", NULL },
	{ "--deep", NULL, "--data", NULL },
	{ "--diff", "order", "--first-diff", NULL },
	{ "--dirsfirst", NULL, "", NULL },
	{ "--disable", "audit", "--rule=%=off", NULL },
	{ "--du", NULL, "--sizes", NULL },
	{ "--exclude", NULL, "-g !%", NULL },
	{ "--filter", NULL, "-g %", "also -e REGEX, --dtype, --role, --rank" },
	{ "--fix", NULL, NULL,
		"nothing is changed here; what to do stands below each finding (audit -v)" },
	{ "--format", "export", "--to=%", NULL },
	{ "--format", NULL, "-o %", NULL },
	{ "--format", NULL, NULL,
		"use -o FORMAT: text, json, jsonl, csv, tsv (fsdp-inspect help outputs)" },
	{ "--full", "audit", "--data", NULL },
	{ "--gpus", "reshard", "--world=%", NULL },
	{ "--grep", NULL, "-e %", NULL },
	{ "--group-by", NULL, "--by=%", NULL },
	{ "--head", "show", "--values=%", NULL },
	{ "--histogram", "stats", "", "it has no histogram" },
	{ "--html", NULL, "-o html", NULL },
	{ "--human", NULL, "",
		"sizes are for people already; --bytes for plain integers" },
	{ "--human-readable", NULL, "",
		"sizes are for people already; --bytes for plain integers" },
	{ "--ignore", "diff", "-g !%", NULL },
	{ "--include", NULL, "-g %", NULL },
	{ "--json-lines", NULL, "--jsonl", NULL },
	{ "--level", NULL, "-d %", NULL },
	{ "--list", "pickle", "--globals", NULL },
	{ "--match", NULL, "-e %", NULL },
	{ "--max-depth", NULL, "-d %", NULL },
	{ "--max-size", NULL, "--max-bytes=%", NULL },
	{ "--md5", "hash", "", "hash has SHA-256" },
	{ "--min-size", NULL, "--min-bytes=%", NULL },
	{ "--name", NULL, "-g %", NULL },
	{ "--name-only", "diff", "--names", NULL },
	{ "--name-only", NULL, "-o name", NULL },
	{ "--name-status", "diff", "--names", NULL },
	{ "--nan", "stats", "--nonfinite", NULL },
	{ "--newest", "latest", "", "it is the default" },
	{ "--no-colour", NULL, "--color=never", NULL },
	{ "--no-header", NULL, "-o name", "or -o tsv | tail -n +2" },
	{ "--nproc", "reshard", "--world=%", NULL },
	{ "--numstat", "diff", "--stat", NULL },
	{ "--order-by", NULL, "-s %", NULL },
	{ "--out", NULL, "-o json=%", NULL },
	{ "--out", NULL, NULL, "use -o FORMAT=FILE" },
	{ "--output-dir", "export", "-o %", NULL },
	{ "--pattern", NULL, "-g %", NULL },
	{ "--pretty", NULL, NULL, "use --json | jq ." },
	{ "--ranks", "reshard", "--world=%", NULL },
	{ "--recursive", NULL, "", "folders are searched already" },
	{ "--rtol", "diff", "--values --tol=0,%", NULL },
	{ "--sarif", NULL, "-o sarif", NULL },
	{ "--sha1", "hash", "", "hash has SHA-256" },
	{ "--sha256", "hash", "", "it is the default" },
	{ "--silent", NULL, "-q", NULL },
	{ "--size", "ls", "-S", NULL },
	{ "--size", "tree", "--sizes", NULL },
	{ "--skip", "audit", "--rule=%=off", NULL },
	{ "--slice", "show", "--values=%", NULL },
	{ "--sort-by", NULL, "-s %", NULL },
	{ "--strip-prefix", NULL, "--strip=%", NULL },
	{ "--summarize", NULL, NULL, "use fsdp-inspect info CHECKPOINT" },
	{ "--summary", NULL, "", NULL },
	{ "--threads", NULL, "-j %", NULL },
	{ "--tolerance", "diff", "--values --tol=%,0", NULL },
	{ "--top", NULL, "--head=%", NULL },
	{ "--tsv", NULL, "-o tsv", NULL },
	{ "--type", NULL, "--dtype=%", NULL },
	{ "--verify", "hash", "--check=%", NULL },
	{ "--watch", NULL, NULL, "use watch fsdp-inspect ..." },
	{ "--workers", NULL, "-j %", NULL },
	{ "--world-size", NULL, "--world=%", NULL },
	{ "--yaml", NULL, "--json", NULL },
};

static bool answer_other(
	struct usage *usage, const struct arguments *arguments, const char *typed)
{
	for (size_t i = 0; i < sizeof other_options / sizeof *other_options; i++) {
		struct swap swap = { .arguments = arguments,
			.typed = typed,
			.command = arguments->command->name,
			.instead = other_options[i].instead,
			.why = other_options[i].why };

		if (strcmp(other_options[i].typed, typed) != 0 ||
			(other_options[i].command != NULL &&
				strcmp(other_options[i].command, swap.command) != 0))
			continue;
		if (swap.instead == NULL)
			usage_hint(usage, "%s", swap.why);
		if (swap.instead == NULL || swap_option(usage, &swap))
			return true;
	}
	return false;
}

/* ---- options of other commands ---- */

struct option_owners {
	char text[200];
	size_t count;
	const char *first;
};

/* The commands that have the option which this one lacks. */
static void list_owners(struct option_owners *owners,
	const struct command *const *commands, const char *name, char letter)
{
	for (; *commands != NULL; commands++) {
		const struct command *other = *commands;
		size_t used = strlen(owners->text);
		bool has = other->options != NULL &&
			   option_find(other->options, name, letter) != NULL;

		for (size_t i = 0; command_selectors(other)[i] != NULL; i++)
			has |= option_find(command_selectors(other)[i], name, letter) !=
			       NULL;
		if (!has)
			continue;
		snprintf(owners->text + used, sizeof owners->text - used, "%s%s",
			owners->count++ > 0 ? ", " : "", other->name);
		if (owners->first == NULL)
			owners->first = other->name;
	}
}

static void answer_owners(struct usage *usage, const struct arguments *arguments,
	const char *typed, const struct option_owners *owners)
{
	struct swap swap = { .arguments = arguments,
		.typed = typed,
		.command = owners->first,
		.instead = typed };

	if (owners->count == 1 && swap_option(usage, &swap))
		return;
	usage_hint(usage, "it is an option of %s (fsdp-inspect help %s)", owners->text,
		arguments->command->name);
}

/* ---- a slip of the keys ---- */

/* "-level" where an option is named so, and "-10". */
static bool answer_word(
	struct usage *usage, const struct arguments *arguments, const char *word)
{
	const struct option *option;
	char instead[80];
	struct swap swap = { .arguments = arguments,
		.typed = word,
		.command = arguments->command->name,
		.instead = instead };
	size_t i = 0;

	while ((option = command_option(arguments->command, i)) != NULL &&
		strcmp(option->name, word + 1) != 0)
		i++;
	if (option != NULL)
		snprintf(instead, sizeof instead, "--%s%s", option->name,
			option_takes_value(option) ? "=%" : "");
	else if (strcmp(word, "-1") != 0 && word[1] != '\0' &&
		 word[1 + strspn(word + 1, "0123456789")] == '\0')
		snprintf(instead, sizeof instead, "--head=%s", word + 1);
	else
		return false;
	return swap_option(usage, &swap);
}

bool slip_dash(struct usage *usage, const struct arguments *arguments)
{
	char *const *typed = arguments->typed;
	bool answered = false;

	for (; *typed != NULL && !answered; typed++)
		answered = (*typed)[0] == '-' && (*typed)[1] != '-' &&
			   answer_word(usage, arguments, *typed);
	return answered;
}

/* The option that is most like it or, if none is, the first that has it in its name. */
static const struct option *nearest_option(
	const struct command *command, const char *name)
{
	const struct option *option, *found = NULL;
	struct nearest nearest;

	nearest_init(&nearest, name);
	for (size_t i = 0; (option = command_option(command, i)) != NULL; i++) {
		size_t distance = nearest.distance;

		nearest_try(&nearest, option->name);
		if (nearest.distance < distance)
			found = option;
	}
	for (size_t i = 0; found == NULL && strlen(name) > 3 &&
			   (option = command_option(command, i)) != NULL;
		i++)
		if (strstr(option->name, name) != NULL)
			found = option;
	return found;
}

static bool answer_nearest(
	struct usage *usage, const struct arguments *arguments, const char *typed)
{
	const struct command *command = arguments->command;
	const struct option *option = nearest_option(command, typed + 2);
	char instead[80];
	struct swap swap = { .arguments = arguments,
		.typed = typed,
		.command = command->name,
		.instead = instead };

	if (option == NULL)
		return false;
	snprintf(instead, sizeof instead, "--%s%s", option->name,
		option_takes_value(option) && option->bare == NULL ? "=%" : "");
	if (!swap_option(usage, &swap))
		usage_hint(usage, "did you mean --%s? (fsdp-inspect help %s)",
			option->name, command->name);
	return true;
}

void slip_option(
	struct usage *usage, const struct arguments *arguments, const char *typed)
{
	const struct command *command = arguments->command;
	bool is_long = strncmp(typed, "--", 2) == 0 && typed[2] != '\0';
	struct option_owners owners = { .text = "" };
	const char *instead = removed_word(typed, command->name);

	if (instead != NULL) {
		usage_what(usage, "%s was removed; use %s", typed, instead);
		return;
	}

	if (is_long || typed[1] != '\0')
		list_owners(&owners, arguments->commands, is_long ? typed + 2 : NULL,
			is_long ? '\0' : typed[1]);
	if (owners.count > 0)
		usage_what(usage, "%s has no option %s", command->name, typed);
	else
		usage_what(usage, "unknown option %s", typed);
	if ((!is_long && slip_dash(usage, arguments)) ||
		answer_other(usage, arguments, typed))
		return;
	if (owners.count > 0)
		answer_owners(usage, arguments, typed, &owners);
	else if (!is_long || !answer_nearest(usage, arguments, typed))
		usage_hint(usage, "fsdp-inspect help %s", command->name);
}
