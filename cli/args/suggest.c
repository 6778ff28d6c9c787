/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggests corrections of command lines: tables of common mistakes and the lines to type
 * instead.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args/input.h"
#include "args/parse.h"

/* ---- lines to type ---- */

static void put(struct retyped *line, const char *text, size_t size)
{
	size_t room = sizeof line->text - line->size - 1;

	size = size < room ? size : room;
	memcpy(line->text + line->size, text, size);
	line->size += size;
	line->text[line->size] = '\0';
}

/* After a space. */
static void retyped_word(struct retyped *line, const char *word)
{
	bool plain =
		*word != '\0' && strpbrk(word, " \t\n'\"\\*?[]{}()<>|&;$`!#~") == NULL;
	size_t size;

	put(line, " ", 1);
	if (plain) {
		put(line, word, strlen(word));
		return;
	}
	put(line, "'", 1);
	for (; word[size = strcspn(word, "'")] != '\0'; word += size + 1) {
		put(line, word, size);
		put(line, "'\\''", 4);
	}
	put(line, word, size);
	put(line, "'", 1);
}

void retyped_line(struct retyped *line, ...)
{
	const char *word;
	va_list words;

	line->size = 0;
	put(line, "fsdp-inspect", strlen("fsdp-inspect"));
	va_start(words, line);
	while ((word = va_arg(words, const char *)) != NULL)
		retyped_word(line, word);
	va_end(words);
}

/* The line that was probably meant: a command, its required words, then the typed words
 * except the omitted ones. */
struct guess {
	const char *command;
	const char *needs[2], *skipped[2]; /* or NULL; each is omitted once */
	const struct texts *words;         /* what was typed, if only that counts */
};

static void meant(
	struct usage *usage, const struct arguments *arguments, const struct guess *guess)
{
	bool done[2] = { guess->skipped[0] == NULL, guess->skipped[1] == NULL };
	const char *word;
	struct retyped line;

	retyped_line(&line, guess->command, guess->needs[0],
		guess->needs[0] != NULL ? guess->needs[1] : NULL, NULL);
	for (size_t i = 0; (word = guess->words == NULL      ? arguments->typed[i]
				   : i < guess->words->count ? guess->words->items[i]
							     : NULL) != NULL;
		i++) {
		size_t k = !done[0] && strcmp(word, guess->skipped[0]) == 0   ? 0
			   : !done[1] && strcmp(word, guess->skipped[1]) == 0 ? 1
									      : 2;
		if (k < 2)
			done[k] = true;
		else
			retyped_word(&line, word);
	}
	usage_hint(usage, "did you mean: %s", line.text);
}

/* The typed line with other paths, which follow all other words. */
static void mean_paths(struct usage *usage, const struct arguments *arguments,
	const struct texts *typed, const char *const *paths, size_t path_count,
	bool separate, const char *why)
{
	const char *name = arguments->command->name;
	struct retyped line;

	retyped_line(&line, name, separate ? "--separate" : NULL, NULL);
	for (char *const *word = arguments->typed; *word != NULL; word++) {
		bool drop = strcmp(*word, name) == 0;

		for (size_t i = 0; !drop && i < typed->count; i++)
			drop = strcmp(*word, typed->items[i]) == 0;
		if (!drop)
			retyped_word(&line, *word);
	}
	for (size_t i = 0; i < path_count; i++)
		retyped_word(&line, paths[i]);
	usage_hint(usage, why != NULL ? "did you mean: %s (%s)" : "did you mean: %s",
		line.text, why);
}

/* ---- commands ---- */

/* Words and options of other tools, and what to type instead. */
static const struct {
	const char *typed, *instead;
} synonyms[] = {
	{ "check", "audit --data" },
	{ "compare", "diff" },
	{ "consolidate", "export" },
	{ "convert", "export" },
	{ "dcp_to_torch_save", "export" },
	{ "describe", "info" },
	{ "du", "ls --by=file" },
	{ "fsck", "audit --data" },
	{ "get", "show" },
	{ "hang", "order --first-diff" },
	{ "keys", "ls" },
	{ "last", "latest" },
	{ "layers", "tree" },
	{ "list", "ls" },
	{ "load", "info" },
	{ "modules", "tree" },
	{ "nan", "stats --nonfinite" },
	{ "open", "info" },
	{ "params", "ls" },
	{ "plan", "reshard --world=8" },
	{ "profile", "replay" },
	{ "resume", "latest" },
	{ "scan", "audit" },
	{ "sha256sum", "hash" },
	{ "summary", "info" },
	{ "trace", "replay" },
	{ "unpickle", "pickle --tree" },
	{ "verify", "audit --data" },
	{ "weights", "ls" },
	{ "zero_to_fp32", "export" },
	{ "--csv", "-o csv" },
	{ "--exclude", "-g '!GLOB'" },
	{ "--filter", "-g GLOB" },
	{ "--format", "-o FORMAT, or with export --to=FORMAT" },
	{ "--group-by", "--by=KEY" },
	{ "--max-depth", "-d N" },
	{ "--output-dir", "-o DIR" },
	{ "--pretty", "--json | jq ." },
	{ "--sort-by", "-s COLUMN" },
	{ "--top", "--head=N" },
	{ "--type", "--dtype=TYPE" },
};

static const char *synonym_of(const char *typed)
{
	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
		if (strcasecmp(synonyms[i].typed, typed) == 0)
			return synonyms[i].instead;
	return NULL;
}

/* "step-1000-weights" for runs/step-1000/, "model-weights" for model.pt. */
static void place_beside(char *place, size_t room, const char *checkpoint)
{
	size_t size = strlen(checkpoint), begin, end;

	while (size > 1 && checkpoint[size - 1] == '/')
		size--;
	for (begin = size; begin > 0 && checkpoint[begin - 1] != '/';)
		begin--;
	end = begin + strcspn(checkpoint + begin, "./");
	if (end == begin || end > size)
		end = size;
	/* A directory may be named by its parent alone. */
	if (strspn(checkpoint, "./") >= size)
		snprintf(place, room, "weights");
	else
		snprintf(place, room, "%.*s-%s", (int)(end - begin), checkpoint + begin,
			end - begin >= 7 &&
					strncmp(checkpoint + end - 7, "weights", 7) == 0
				? "export"
				: "weights");
}

static bool has_place(char *const *typed)
{
	bool has = false;

	for (; *typed != NULL && !has; typed++)
		has = strncmp(*typed, "-o", 2) == 0 || strncmp(*typed, "--out", 5) == 0;
	return has;
}

/* The line that exports what was typed: with a place to write to, which is the first word
 * after the checkpoint that is not an input, unless all these are names. */
static void suggest_export(struct usage *usage, const struct arguments *arguments,
	const struct texts *words, bool is_named)
{
	static const char *const torch[] = { ".pt", ".pth", ".bin", ".ckpt" };
	/* After the command and the checkpoint: the first that is not an input. A second
	 * checkpoint is exported by a line of its own. */
	size_t at = 2;
	char made[300];

	while (at < words->count && access(words->items[at], F_OK) == 0)
		at++;
	const char *place = !is_named && at < words->count ? words->items[at] : NULL;
	const char *second = !is_named && words->count > 2 ? words->items[2] : NULL;
	struct guess guess = { .command = "export",
		.skipped = { words->items[0], place != NULL ? place : second } };
	if (!has_place(arguments->typed)) {
		guess.needs[0] = "-o";
		guess.needs[1] = made;
	}
	if (place == NULL) {
		place_beside(made, sizeof made, words->count > 1 ? words->items[1] : ".");
	} else {
		snprintf(made, sizeof made, "%s", place);
		/* Without what says that torch.load reads it, since it will not. */
		char *dot = strrchr(made, '.');
		for (size_t i = 0;
			dot != NULL && dot != made && i < sizeof torch / sizeof *torch;
			i++)
			if (strcmp(dot, torch[i]) == 0)
				*dot = '\0';
	}
	meant(usage, arguments, &guess);
}

void suggest_needs(struct usage *usage, const struct arguments *arguments,
	const char *option, const char *word)
{
	meant(usage, arguments,
		&(struct guess){ .command = arguments->command->name,
			.needs = { option },
			.skipped = { arguments->command->name, word } });
}

bool suggest_path_as_name(
	struct usage *usage, const struct arguments *arguments, const char *word)
{
	const struct texts *words = &arguments->words;
	bool only = arguments->command->inputs == INPUTS_ONE_NAMES && words->count == 3;
	struct stat status;

	/* The sandbox lets stat through. */
	if (stat(word, &status) != 0)
		return false;
	meant(usage, arguments,
		&(struct guess){ .command = only ? "info" : words->items[0],
			.skipped = { words->items[0], only ? NULL : word },
			.words = only ? words : NULL });
	return true;
}

void suggest_several(struct usage *usage, const struct arguments *arguments,
	const struct texts *paths, bool each)
{
	mean_paths(usage, arguments, paths, paths->items, each ? paths->count : 1, each,
		each ? "an answer each" : "run it once for each");
}

/* The command that is most like the word; NULL: no similar one. */
static const char *nearest_command(
	const struct command *const *commands, const char *word)
{
	struct nearest nearest;

	nearest_init(&nearest, word);
	for (size_t i = 0; commands[i] != NULL; i++) {
		if (strcasecmp(commands[i]->name, word) == 0)
			return commands[i]->name;
		nearest_try(&nearest, commands[i]->name);
	}
	return nearest.best;
}

/* An output in the place of a command: the first command that writes it. */
static void refuse_output(
	struct usage *usage, const struct arguments *arguments, const char *word)
{
	const struct out_format *format = out_format_find(word);
	const struct command *const *all = arguments->commands;
	struct guess guess = { .skipped = { word } };

	if (access(word, F_OK) == 0)
		return;
	while (format != NULL && *all != NULL && ((*all)->shapes & format->shapes) == 0)
		all++;
	if (format == NULL || *all == NULL)
		return;
	guess.command = (*all)->name;
	if (strcmp((*all)->output, word) != 0) {
		guess.needs[0] = "-o";
		guess.needs[1] = word;
	}
	usage_what(usage, "%s is an output, not a command", word);
	meant(usage, arguments, &guess);
	usage_end(usage);
}

void suggest_command(
	struct usage *usage, const struct arguments *arguments, const struct texts *words)
{
	const char *word = words->items[0], *synonym = synonym_of(word);
	const char *instead = removed_word(word, NULL);
	struct guess guess = { .skipped = { word } };

	if (synonym == NULL)
		refuse_output(usage, arguments, word);
	if (instead != NULL)
		usage_refuse(usage, "", "%s was removed; use %s", word, instead);
	if (synonym == NULL)
		suggest_url(usage, "info", word);
	if (synonym == NULL && (strcmp(word, "-") == 0 || strpbrk(word, "/.") != NULL ||
				       access(word, F_OK) == 0)) {
		/* The path first and the command after it, or no command. */
		size_t at = 1;
		while (at < words->count &&
			command_find(arguments->commands, words->items[at]) == NULL)
			at++;
		const char *command = at < words->count ? words->items[at] : NULL;
		usage_what(usage,
			command != NULL ? "the command comes first" : "no command given");
		meant(usage, arguments,
			&(struct guess){ .command = command != NULL ? command : "info",
				.skipped = { command } });
		usage_end(usage);
	}
	usage_what(usage, "unknown command: %s", word);
	guess.command = nearest_command(arguments->commands, word);
	if (synonym != NULL) {
		size_t size = strcspn(synonym, " ");
		char command[16];

		/* The words after it are those that were typed, without options of
		 * another tool. */
		snprintf(command, sizeof command, "%.*s", (int)size, synonym);
		if (strcmp(synonym, "export") == 0)
			suggest_export(usage, arguments, words, false);
		else
			meant(usage, arguments,
				&(struct guess){ .command = command,
					.needs = { synonym[size] != '\0'
							   ? synonym + size + 1
							   : NULL },
					.skipped = { words->items[0] },
					.words = words });
	} else if (guess.command != NULL)
		meant(usage, arguments, &guess);
	else
		usage_hint(usage, "fsdp-inspect help lists the commands");
	usage_end(usage);
}

/* ---- options of other commands ---- */

/* Its own, or a selector. */
static bool has_option(const struct command *command, const char *name, char letter)
{
	bool has = command->options != NULL &&
		   option_find(command->options, name, letter) != NULL;

	for (size_t i = 0; !has && command_selectors(command)[i] != NULL; i++)
		has = option_find(command_selectors(command)[i], name, letter) != NULL;
	return has;
}

/* The option that is most like it or, without a similar one, the first that has it in its
 * name. */
static const struct option_row *nearest_option(
	const struct command *command, const char *name)
{
	const struct option_row *option, *found = NULL;
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

void suggest_option(struct usage *usage, const struct arguments *arguments)
{
	const struct command *command = arguments->command;
	char typed[sizeof usage->what], owners[200] = "";
	const char *name, *instead, *synonym;

	memcpy(typed, usage->what, sizeof typed);
	name = typed + (typed[1] == '-' ? 2 : 1);
	bool is_long = typed[1] != '\0' && typed[2] != '\0';
	instead = removed_word(typed, command->name);
	if (instead != NULL)
		usage_refuse(usage, "", "%s was removed; use %s", typed, instead);
	synonym = synonym_of(typed);
	const struct option_row *option = is_long ? nearest_option(command, name) : NULL;
	/* The commands that have it. After a single dash a long name is of this one. */
	for (size_t i = 0; arguments->commands[i] != NULL; i++) {
		size_t used = strlen(owners);

		if (is_long ? name == typed + 2 &&
					has_option(arguments->commands[i], name, '\0')
			    : typed[1] != '-' && typed[1] != '\0' &&
					has_option(arguments->commands[i], NULL, *name))
			snprintf(owners + used, sizeof owners - used, "%s%s",
				used > 0 ? ", " : "", arguments->commands[i]->name);
	}
	if (owners[0] != '\0')
		usage_what(usage, "%s has no option %s", command->name, typed);
	else
		usage_what(usage, "unknown option %s", typed);
	if (synonym != NULL)
		usage_hint(usage, "did you mean %s? (fsdp-inspect help %s)", synonym,
			command->name);
	else if (strcmp(typed, "--data") == 0 && has_option(command, "level", '\0'))
		usage_hint(usage, "%s --level=data reads the contents", command->name);
	else if (owners[0] != '\0')
		usage_hint(usage, "it is an option of %s (fsdp-inspect help %s)", owners,
			command->name);
	else if (option != NULL)
		usage_hint(usage, "did you mean --%s? (fsdp-inspect help %s)",
			option->name, command->name);
	else
		usage_hint(usage, "fsdp-inspect help %s", command->name);
	usage_end(usage);
}

/* ---- URLs ---- */

/* "user@host:/data/step-1000", as scp and rsync take it. */
static bool is_remote(const char *path)
{
	const char *colon = strchr(path, ':');

	return colon != NULL && colon != path && colon[1] == '/' && colon[2] != '/' &&
	       memchr(path, '/', (size_t)(colon - path)) == NULL &&
	       access(path, F_OK) != 0;
}

/* Commands that make a local copy. */
static const struct {
	const char *scheme;
	const char *before, *after;
	bool takes_url; /* else what follows the scheme */
} downloads[] = {
	{ "hf://", "hf download ", " --local-dir DIR", false },
	{ "s3://", "aws s3 cp --recursive ", " DIR", true },
	{ "gs://", "gcloud storage cp --recursive ", " DIR", true },
	{ "https://", "curl -fLO ", "", true },
	{ "ftp://", "curl -O ", "", true },
	{ "ssh://", "rsync -a ", " DIR", false },
	{ "wandb://", "wandb artifact get ", " --root DIR", false },
};

char *download_command(const char *url)
{
	const char *rest = strstr(url, "://") + 3, *name = strrchr(url, '/') + 1;
	const char *slash = strchr(rest, '/');
	char *text = NULL;
	size_t i = 0, size = sizeof downloads / sizeof *downloads;

	while (i < size &&
		strncmp(url, downloads[i].scheme, strlen(downloads[i].scheme)) != 0)
		i++;
	/* A file and a revision need other commands. */
	bool is_whole =
		strncmp(url, "hf://", 5) == 0
			? slash + 1 == name && strchr(url, '@') == NULL
			: strncmp(url, "s3://", 5) != 0 || strchr(name, '.') == NULL;
	if (i < size && is_whole &&
		asprintf(&text, "%s%s%s", downloads[i].before,
			downloads[i].takes_url ? url : rest, downloads[i].after) < 0)
		text = NULL;
	return text;
}

void suggest_url(struct usage *usage, const char *command, const char *path)
{
	const char *rest = strstr(path, "://");

	if (is_remote(path)) {
		usage_what(usage, "%s: URLs are not supported", path);
		usage_hint(usage, "rsync -a %s DIR, then: fsdp-inspect %s DIR", path,
			command);
		usage_end(usage);
	}
	if (rest == NULL || rest == path || strcspn(path, "/.") < (size_t)(rest - path))
		return;
	char *download = download_command(path);

	usage_what(usage, "%s: URLs are not supported", path);
	usage_hint(usage, "%s, then: fsdp-inspect %s %s",
		download != NULL ? download : "download it", command,
		download == NULL || strstr(download, " DIR") != NULL
			? "DIR"
			: strrchr(path, '/') + 1);
	free(download);
	usage_end(usage);
}

/* ---- two paths in one word ---- */

void suggest_joined(
	struct usage *usage, const struct arguments *arguments, const char *word)
{
	static const char *const signs[] = { "...", "..", ",", ":" };
	const struct command *command = arguments->command;
	/* For two it answers at once, for each, or for one. */
	bool several = command->inputs != INPUTS_ONE && command->inputs != INPUTS_FILE &&
		       command->inputs != INPUTS_ONE_NAMES &&
		       command->inputs != INPUTS_ONE_SOME;
	bool each = command->inputs == INPUTS_MANY && command->check_inputs == NULL &&
		    !command->answers_each;
	char first[PATH_MAX];

	/* It may be the name of a file all the same. */
	if (*word == '\0' || strlen(word) >= sizeof first || access(word, F_OK) == 0)
		return;
	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		for (const char *at = word; (at = strstr(at + 1, signs[i])) != NULL;) {
			const char *second = at + strlen(signs[i]);

			snprintf(first, sizeof first, "%.*s", (int)(at - word), word);
			if (access(first, F_OK) != 0 || access(second, F_OK) != 0)
				continue;
			usage_what(usage, "%s is neither a file nor a directory", word);
			mean_paths(usage, arguments, &(struct texts){ &word, 1 },
				(const char *const[]){ first, second }, several ? 2 : 1,
				each, several ? NULL : "run it once for each");
			usage_end(usage);
		}
}

/* ---- paths ---- */

enum { MOST_ENTRIES = 10000 };

/* Edits; what the name begins is a little farther than what is near. SIZE_MAX: it is
 * something else. */
static size_t distance_of(const char *name, const char *entry)
{
	struct nearest nearest;

	if (strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0)
		return SIZE_MAX;
	nearest_init(&nearest, name);
	nearest_try(&nearest, entry);
	if (nearest.best != NULL)
		return nearest.distance;
	return strlen(name) > 2 && strncmp(entry, name, strlen(name)) == 0 ? 3 : SIZE_MAX;
}

char *suggest_near_path(const char *path)
{
	char folder[PATH_MAX], name[NAME_MAX + 1], best[NAME_MAX + 1];
	size_t size = strlen(path), above;
	DIR *entries;
	struct dirent *entry;

	/* Up to the first directory that exists. */
	do {
		while (size > 1 && path[size - 1] == '/')
			size--;
		const char *slash = memrchr(path, '/', size);
		above = slash != NULL ? (size_t)(slash - path) + 1 : 0;
		if (above >= sizeof folder)
			return NULL;
		snprintf(folder, sizeof folder, "%.*s", (int)above, path);
		snprintf(name, sizeof name, "%.*s", (int)(size - above), path + above);
		entries = opendir(above > 0 ? folder : ".");
		size = above;
	} while (entries == NULL && above > 1);
	if (entries == NULL)
		return NULL;
	/* The entry that is most like the name, or "". */
	size_t least = SIZE_MAX;
	*best = '\0';
	for (int i = 0; i < MOST_ENTRIES && (entry = readdir(entries)) != NULL; i++) {
		size_t distance = distance_of(name, entry->d_name);

		/* Directories have no order: of equal ones the first by name. */
		if (distance > least || distance == SIZE_MAX ||
			(distance == least && strcmp(entry->d_name, best) > 0))
			continue;
		snprintf(best, NAME_MAX + 1, "%s", entry->d_name);
		least = distance;
	}
	closedir(entries);
	if (*best == '\0' && above == 0)
		return memory_text("./");
	return memory_format("%s%s", folder, best);
}

/* ---- names in the place of paths ---- */

static bool has_suffix_of_file(const char *word)
{
	static const char *const suffixes[] = { "bin", "ckpt", "csv", "distcp", "gz",
		"json", "jsonl", "log", "model", "npz", "pickle", "pkl", "pt", "pth",
		"py", "safetensors", "tar", "txt", "xz", "yaml", "zip", "zst" };
	const char *dot = strrchr(word, '.');

	for (size_t i = 0; dot != NULL && i < sizeof suffixes / sizeof *suffixes; i++)
		if (strcmp(dot + 1, suffixes[i]) == 0)
			return true;
	return false;
}

bool suggest_is_name(const char *word, const char *near)
{
	return near != NULL && strcmp(near, "./") == 0 && strchr(word, '/') == NULL &&
	       !has_suffix_of_file(word);
}

/* "reshard --world=3 CHECKPOINT" for a count after the checkpoint. */
static void mean_world(
	struct usage *usage, const struct arguments *arguments, const char *word)
{
	char option[32];

	if (!has_option(arguments->command, "world", '\0') || *word == '\0' ||
		strspn(word, "0123456789") != strlen(word) ||
		snprintf(option, sizeof option, "--world=%s", word) >= (int)sizeof option)
		return;
	usage_what(usage, "the number of ranks is an option");
	suggest_needs(usage, arguments, option, word);
	usage_end(usage);
}

/* The first word that is a path, before the other words. */
static void mean_swapped(struct usage *usage, const struct command *command,
	const char *name, const struct texts *words)
{
	struct retyped line;
	size_t at = 0;

	while (at < words->count && access(words->items[at], F_OK) != 0)
		at++;
	if (at == words->count)
		return;
	retyped_line(&line, command->name, words->items[at], name, NULL);
	for (size_t i = 0; i < words->count; i++)
		if (i != at)
			retyped_word(&line, words->items[i]);
	usage_hint(usage, "did you mean: %s", line.text);
	usage_refuse(usage, NULL, "the checkpoint comes first, then the names");
}

/* A directory that is named as a file of a format that is not written. */
static void mean_file(struct usage *usage, const char *place)
{
	static const char *const suffixes[] = { ".pt", ".pth", ".bin", ".ckpt", ".gguf" };
	const char *dot = strrchr(place, '.');

	for (size_t i = 0; dot != NULL && i < sizeof suffixes / sizeof *suffixes; i++) {
		if (strcmp(dot, suffixes[i]) != 0 || access(place, F_OK) == 0)
			continue;
		usage_hint(usage, "-o %.*s.safetensors", (int)(dot - place), place);
		usage_refuse(
			usage, NULL, "export writes safetensors, and no %s files", dot);
	}
}

/* What is written has no place, or one that is named as something else. */
static void mean_place(
	struct usage *usage, const struct arguments *arguments, const struct texts *paths)
{
	struct written written;

	if (arguments->command->writes(arguments->options, paths->items[0], &written)) {
		if (!written.is_file)
			mean_file(usage, written.path);
		return;
	}
	if (has_place(arguments->typed))
		return;
	usage_what(usage, "%s needs a directory or a file to write: -o OUT",
		arguments->command->name);
	suggest_export(usage, arguments, &arguments->words,
		arguments->words.count > 2 &&
			strchr(arguments->words.items[2], '.') != NULL &&
			!has_suffix_of_file(arguments->words.items[2]));
	usage_end(usage);
}

/* Whether a path is a directory, or a file that does not begin as JSON does. */
static bool is_no_json(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char first = '{';
	/* Of a pipe nothing is taken. */
	ssize_t got = fd >= 0 ? pread(fd, &first, 1, 0) : -1;
	bool is_folder = got < 0 && errno == EISDIR;

	if (fd >= 0)
		close(fd);
	return is_folder || (got == 1 && first != '{');
}

void suggest_order(struct usage *usage, const struct arguments *arguments,
	const struct texts *paths, const struct texts *near, const struct texts *words)
{
	const struct command *command = arguments->command;
	size_t there = 0;
	struct retyped line;

	/* To merge a checkpoint means to export its shards as one file. */
	if (strcmp(command->name, "merge") == 0) {
		if (paths->count == 0 || !is_no_json(paths->items[0]))
			return;
		usage_what(usage,
			"%s: merge joins results of --part, not the shards of a checkpoint",
			paths->items[0]);
		suggest_export(usage, arguments, &arguments->words, false);
		usage_end(usage);
	}
	if (command->writes != NULL)
		mean_place(usage, arguments, paths);
	if ((command->inputs == INPUTS_ONE_NAMES || command->inputs == INPUTS_ONE_SOME) &&
		near->count > 0 && near->items[0] != NULL)
		mean_swapped(usage, command, paths->items[0], words);
	if (command->inputs != INPUTS_ONE && command->inputs != INPUTS_MANY)
		return;
	while (there < paths->count && access(paths->items[there], F_OK) != 0)
		there++;
	for (size_t i = 0; there < paths->count && i < near->count; i++)
		if (suggest_is_name(paths->items[i], near->items[i])) {
			mean_world(usage, arguments, paths->items[i]);
			/* "show CHECKPOINT NAME", or "ls -g NAME CHECKPOINT" where the
			 * command has patterns. */
			if (has_option(command, "glob", '\0')) {
				retyped_line(&line, command->name, NULL);
				/* Of whole files no name can be chosen. */
				if (has_option(command, "logical", '\0'))
					retyped_word(&line, "--logical");
				retyped_word(&line, "-g");
				retyped_word(&line, paths->items[i]);
				retyped_word(&line, paths->items[there]);
			} else {
				retyped_line(&line, "show", paths->items[there],
					paths->items[i], NULL);
			}
			usage_hint(usage, "if it is a name in the checkpoint: %s",
				line.text);
			usage_refuse(usage, NULL, "%s is neither a file nor a directory",
				paths->items[i]);
		}
}
