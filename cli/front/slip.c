/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of slips, and the lines to type that follow from them.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front/nearest.h"
#include "front/slip.h"

/* ---- lines to type ---- */

/* Cut where it does not fit. */
struct typed {
	char text[240];
	size_t size;
};

static void put(struct typed *line, const char *text)
{
	size_t room = sizeof line->text - line->size - 1, size = strlen(text);

	size = size < room ? size : room;
	memcpy(line->text + line->size, text, size);
	line->size += size;
	line->text[line->size] = '\0';
}

/* As a shell takes it. */
static void put_word(struct typed *line, const char *word)
{
	bool plain =
		*word != '\0' && strpbrk(word, " \t\n'\"\\*?[]{}()<>|&;$`!#~") == NULL;

	put(line, " ");
	put(line, plain ? "" : "'");
	put(line, word);
	put(line, plain ? "" : "'");
}

/* ---- commands ---- */

struct synonym {
	const char *typed;
	const char *command;
	const char *rest;    /* of the line to type, or NULL */
	const char *instead; /* where there is no such command */
};

#define DATA "--data"
static const struct synonym synonyms[] = {
	{ "analyze", "info", NULL, NULL },
	{ "cat", "export", NULL, "show --values=8" },
	{ "check", "audit", DATA, NULL },
	{ "checksum", "hash", NULL, "audit --data" },
	{ "cmp", "diff", NULL, NULL },
	{ "columns", "help", "ls", NULL },
	{ "compare", "diff", NULL, NULL },
	{ "convert", "export", NULL, "show --values=8" },
	{ "count", "info", NULL, NULL },
	{ "describe", "info", NULL, NULL },
	{ "doctor", "audit", DATA, NULL },
	{ "du", "ls", "--by=file", NULL },
	{ "dump", "ls", NULL, NULL },
	{ "export", "export", NULL, "show --values=8" },
	{ "extract", "export", NULL, "show --values=8" },
	{ "files", "ls", "--by=file", NULL },
	{ "find", "ls", "-g PATTERN", NULL },
	{ "fsck", "audit", DATA, NULL },
	{ "get", "show", NULL, NULL },
	{ "globals", "pickle", "--globals", NULL },
	{ "grep", "ls", "-g PATTERN", NULL },
	{ "head", "ls", "--head=10", NULL },
	{ "inspect", "info", NULL, NULL },
	{ "keys", "ls", NULL, NULL },
	{ "last", "latest", NULL, NULL },
	{ "layers", "tree", NULL, NULL },
	{ "list", "ls", NULL, NULL },
	{ "load", "info", NULL, NULL },
	{ "log", "latest", "--all", NULL },
	{ "logs", "latest", "--all", NULL },
	{ "man", "help", NULL, NULL },
	{ "manifest", "hash", NULL, "audit --data" },
	{ "map", "fqns", NULL, NULL },
	{ "metadata", "info", NULL, NULL },
	{ "modules", "tree", NULL, NULL },
	{ "names", "ls", NULL, NULL },
	{ "open", "info", NULL, NULL },
	{ "params", "ls", NULL, NULL },
	{ "perf", "replay", NULL, NULL },
	{ "plan", "reshard", "--world=N", NULL },
	{ "print", "show", NULL, NULL },
	{ "profile", "replay", NULL, NULL },
	{ "ranks", "ls", "--by=rank", NULL },
	{ "rescale", "reshard", "--world=N", NULL },
	{ "resume", "latest", NULL, NULL },
	{ "scan", "audit", NULL, NULL },
	{ "sha256", "hash", NULL, "audit --data" },
	{ "shards", "ls", "--by=file", NULL },
	{ "size", "ls", "--by=file", NULL },
	{ "stat", "info", NULL, NULL },
	{ "status", "info", NULL, NULL },
	{ "summary", "info", NULL, NULL },
	{ "tensors", "ls", NULL, NULL },
	{ "test", "audit", DATA, NULL },
	{ "time", "replay", NULL, NULL },
	{ "timeline", "replay", "--timeline", NULL },
	{ "trace", "replay", NULL, NULL },
	{ "units", "tree", NULL, NULL },
	{ "unpickle", "pickle", "--tree", NULL },
	{ "usage", "help", NULL, NULL },
	{ "validate", "audit", DATA, NULL },
	{ "verify", "audit", DATA, NULL },
	{ "view", "info", NULL, NULL },
	{ "weights", "ls", NULL, NULL },
	{ "what", "info", NULL, NULL },
};

static const struct synonym *synonym_find(const char *typed)
{
	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
		if (strcmp(synonyms[i].typed, typed) == 0)
			return &synonyms[i];
	}
	return NULL;
}

static bool looks_like_path(const char *word)
{
	return strcmp(word, "-") == 0 || strpbrk(word, "/.") != NULL ||
	       access(word, F_OK) == 0;
}

/* "fsdp-inspect COMMAND REST" and what was typed behind the word at `left_out`. */
static void meant(struct usage *usage, const struct texts *words, size_t left_out,
	const char *command, const char *rest)
{
	struct typed line = { .size = 0 };

	put(&line, "fsdp-inspect ");
	put(&line, command);
	if (rest != NULL) {
		put(&line, " ");
		put(&line, rest);
	}
	/* A line that needs other words than these has them in capitals. */
	for (size_t i = 0; i < words->count && strstr(line.text, " CHECKPOINT") == NULL;
		i++)
		if (i != left_out)
			put_word(&line, words->items[i]);
	usage_hint(usage, "did you mean: %s", line.text);
}

/* The path first and the command behind it, or none at all. */
static void answer_path(struct usage *usage, const struct command *const *commands,
	const struct texts *words)
{
	size_t at = 1;

	while (at < words->count && command_find(commands, words->items[at]) == NULL)
		at++;
	if (at == words->count) {
		usage_what(usage, "no command given");
		meant(usage, words, SIZE_MAX, "info", NULL);
		return;
	}
	usage_what(usage, "the command comes first");
	meant(usage, words, at, words->items[at], NULL);
}

static void mean_synonym(struct usage *usage, const struct command *const *commands,
	const struct texts *words, const struct synonym *synonym)
{
	if (command_find(commands, synonym->command) != NULL)
		meant(usage, words, 0, synonym->command, synonym->rest);
	else
		meant(usage, words, 0, synonym->instead, NULL);
}

void slip_command(struct usage *usage, const struct command *const *commands,
	const struct texts *words)
{
	const char *word = words->items[0];
	const struct synonym *synonym = synonym_find(word);
	struct nearest nearest;

	if (synonym != NULL) {
		usage_what(usage, "unknown command: %s", synonym->typed);
		mean_synonym(usage, commands, words, synonym);
		return;
	}
	if (slip_url(usage, "info", word))
		return;
	if (looks_like_path(word)) {
		answer_path(usage, commands, words);
		return;
	}
	usage_what(usage, "unknown command: %s", word);
	nearest_init(&nearest, word);
	for (size_t i = 0; commands[i] != NULL; i++)
		nearest_try(&nearest, commands[i]->name);
	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
		nearest_try(&nearest, synonyms[i].typed);
	synonym = nearest.best != NULL ? synonym_find(nearest.best) : NULL;
	if (nearest.best == NULL)
		usage_hint(usage, "fsdp-inspect help lists the commands");
	else if (synonym == NULL)
		meant(usage, words, 0, nearest.best, NULL);
	else
		mean_synonym(usage, commands, words, synonym);
}

/* ---- options ---- */

static const struct {
	const char *typed, *instead;
} other_options[] = {
	{ "-R", "info FOLDER lists the checkpoints below it" },
	{ "-a", "all of them are listed; --columns=all has every column" },
	{ "--all", "-v tells all, ls -l shows every piece" },
	{ "--brief", "-q, and the status: 1 where they differ" },
	{ "--contains", "-g '**WORD**' or -e WORD" },
	{ "--csv", "-o csv" },
	{ "--exclude", "-g '!PATTERN'" },
	{ "--filter", "-g PATTERN, -e REGEX, --dtype, --role, --rank" },
	{ "--fix",
		"nothing is changed here; what to do stands below each finding (audit -v)" },
	{ "--format",
		"-o FORMAT: text, json, jsonl, csv, tsv (fsdp-inspect help outputs)" },
	{ "--grep", "-e REGEX" },
	{ "--human", "sizes are for people already; --bytes for plain integers" },
	{ "--human-readable",
		"sizes are for people already; --bytes for plain integers" },
	{ "--include", "-g PATTERN" },
	{ "--level", "-d N, the depth" },
	{ "--match", "-g PATTERN or -e REGEX" },
	{ "--max-depth", "-d N" },
	{ "--name", "-g PATTERN, or show CHECKPOINT NAME" },
	{ "--name-only", "diff --names, or -o name" },
	{ "--no-color", "--color=never" },
	{ "--no-colour", "--color=never" },
	{ "--no-header", "-o name, or -o tsv | tail -n +2" },
	{ "--order-by", "-s COLUMN" },
	{ "--out", "-o FORMAT=FILE" },
	{ "--pattern", "-g PATTERN" },
	{ "--pretty", "--json | jq ." },
	{ "--recursive", "folders are searched already" },
	{ "--silent", "-q" },
	{ "--sha1", "hash has SHA-256: fsdp-inspect hash CHECKPOINT" },
	{ "--sha256", "it is the default: fsdp-inspect hash CHECKPOINT" },
	{ "--sort-by", "-s COLUMN" },
	{ "--summarize", "info" },
	{ "--threads", "-j N" },
	{ "--tsv", "-o tsv" },
	{ "--watch", "watch fsdp-inspect ..." },
	{ "--workers", "-j N" },
	{ "--world-size", "--world=N" },
	{ "--yaml", "-o json" },
};

bool slip_option(struct usage *usage, const char *typed)
{
	for (size_t i = 0; i < sizeof other_options / sizeof *other_options; i++)
		if (strcmp(other_options[i].typed, typed) == 0) {
			usage_what(usage, "unknown option %s", typed);
			usage_hint(usage, "use %s", other_options[i].instead);
			return true;
		}
	return false;
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

/* What fetches them; %s is what follows the scheme. */
static const struct {
	const char *scheme;
	const char *before, *after; /* of the line that fetches it */
	bool whole;                 /* it takes the URL, else what follows the scheme */
} schemes[] = {
	{ "https://huggingface.co/", "hf download ", " --local-dir DIR", false },
	{ "hf://", "hf download ", " --local-dir DIR", false },
	{ "s3://", "aws s3 cp --recursive ", " DIR", true },
	{ "gs://", "gcloud storage cp --recursive ", " DIR", true },
	{ "https://", "curl -LO ", "", true },
	{ "http://", "curl -LO ", "", true },
	{ "ftp://", "curl -O ", "", true },
	{ "ssh://", "rsync -a ", " DIR", false },
	{ "az://", "azcopy copy --recursive ", " DIR", true },
	{ "abfss://", "azcopy copy --recursive ", " DIR", true },
	{ "wandb://", "wandb artifact get ", " --root DIR", false },
};

bool slip_url(struct usage *usage, const char *command, const char *path)
{
	const char *rest = strstr(path, "://");

	if (is_remote(path)) {
		usage_what(usage, "%s: nothing is read over a network", path);
		usage_hint(usage, "rsync -a %s DIR, then: fsdp-inspect %s DIR", path,
			command);
		return true;
	}
	if (rest == NULL || rest == path || strcspn(path, "/.") < (size_t)(rest - path))
		return false;
	if (strncmp(path, "file://", 7) == 0) {
		usage_what(usage, "%s: give the path, not a URL", path);
		usage_hint(usage, "fsdp-inspect %s %s", command, path + 7);
		return true;
	}
	usage_what(usage, "%s: nothing is read over a network", path);
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
		size_t size = strlen(schemes[i].scheme);

		if (strncmp(path, schemes[i].scheme, size) != 0)
			continue;
		usage_hint(usage, "%s%s%s, then: fsdp-inspect %s %s", schemes[i].before,
			path + (schemes[i].whole ? 0 : size), schemes[i].after, command,
			*schemes[i].after != '\0' ? "DIR" : "the file");
		return true;
	}
	usage_hint(usage, "download it, then: fsdp-inspect %s DIR", command);
	return true;
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

/* The entry that is most like the name; from malloc, or NULL. */
static char *nearest_entry(DIR *folder, const char *name)
{
	size_t least = SIZE_MAX;
	struct dirent *entry;
	char *best = NULL;

	for (int i = 0; i < MOST_ENTRIES && (entry = readdir(folder)) != NULL; i++) {
		size_t distance = distance_of(name, entry->d_name);

		/* Folders have no order: of equal ones the first by name. */
		if (distance > least || distance == SIZE_MAX ||
			(distance == least && best != NULL &&
				strcmp(entry->d_name, best) > 0))
			continue;
		free(best);
		best = strdup(entry->d_name);
		least = distance;
	}
	return best;
}

/* Looks into the folder that is `above` bytes of the path, for a name that ends at `size`.
 * False: there is no such folder. */
static bool look_into(const char *path, size_t above, size_t size, char **ret_found)
{
	char *folder = above != 0 ? strndup(path, above) : strdup(".");
	char *name = strndup(path + above, size - above), *best = NULL;
	DIR *entries = folder != NULL && name != NULL ? opendir(folder) : NULL;

	if (entries != NULL) {
		best = nearest_entry(entries, name);
		closedir(entries);
	}
	*ret_found = NULL;
	if (best == NULL && above == 0)
		best = strdup("./");
	if (entries != NULL && asprintf(ret_found, "%.*s%s", (int)above, path,
				       best != NULL ? best : "") < 0)
		*ret_found = NULL;
	free(best);
	free(name);
	free(folder);
	return entries != NULL;
}

char *slip_near_path(const char *path)
{
	size_t size = strlen(path), above;
	char *found;

	/* Up to the first folder that is there. */
	do {
		while (size > 1 && path[size - 1] == '/')
			size--;
		const char *slash = memrchr(path, '/', size);
		above = slash != NULL ? (size_t)(slash - path) + 1 : 0;
		if (look_into(path, above, size, &found))
			return found;
		size = above;
	} while (above > 1);
	return NULL;
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

bool slip_is_name(const char *word, const char *near)
{
	return near != NULL && strcmp(near, "./") == 0 && strchr(word, '/') == NULL &&
	       !has_suffix_of_file(word);
}

static bool takes_patterns(const struct command *command)
{
	for (size_t i = 0; command_selectors(command)[i] != NULL; i++)
		if (option_find(command_selectors(command)[i], "glob", '\0') != NULL)
			return true;
	return false;
}

/* "show CHECKPOINT NAME", or "ls -g NAME CHECKPOINT" where the command has patterns. */
static void mean_name(struct usage *usage, const struct command *command,
	const char *checkpoint, const char *name)
{
	struct typed line = { .size = 0 };

	put(&line, "fsdp-inspect ");
	if (takes_patterns(command)) {
		put(&line, command->name);
		/* Of whole files no name can be chosen. */
		if (command->options != NULL &&
			option_find(command->options, "logical", '\0') != NULL)
			put(&line, " --logical");
		put(&line, " -g");
		put_word(&line, name);
		put_word(&line, checkpoint);
	} else {
		put(&line, "show");
		put_word(&line, checkpoint);
		put_word(&line, name);
	}
	usage_what(usage, "%s is neither a file nor a folder", name);
	usage_hint(usage, "if it is a name in the checkpoint: %s", line.text);
}

/* The first word that is a path, in front of the other words. */
static bool mean_swapped(struct usage *usage, const struct command *command,
	const char *name, char *const *words, size_t count)
{
	struct typed line = { .size = 0 };
	size_t at = 0;

	while (at < count && access(words[at], F_OK) != 0)
		at++;
	if (at == count)
		return false;
	put(&line, "fsdp-inspect ");
	put(&line, command->name);
	put_word(&line, words[at]);
	put_word(&line, name);
	for (size_t i = 0; i < count; i++)
		if (i != at)
			put_word(&line, words[i]);
	usage_what(usage, "the checkpoint comes first, then the names");
	usage_hint(usage, "did you mean: %s", line.text);
	return true;
}

bool slip_order(struct usage *usage, const struct command *command,
	const struct texts *paths, const struct texts *near, char *const *words,
	size_t word_count)
{
	size_t there = 0;

	if (command->inputs == INPUTS_ONE_NAMES || command->inputs == INPUTS_ONE_SOME)
		return near->count > 0 && near->items[0] != NULL &&
		       mean_swapped(usage, command, paths->items[0], words, word_count);
	if (command->inputs != INPUTS_ONE && command->inputs != INPUTS_MANY)
		return false;
	while (there < paths->count && access(paths->items[there], F_OK) != 0)
		there++;
	for (size_t i = 0; there < paths->count && i < near->count; i++)
		if (slip_is_name(paths->items[i], near->items[i])) {
			mean_name(usage, command, paths->items[there], paths->items[i]);
			return true;
		}
	return false;
}
