/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a command line into a command, options and words, and finds out which words and
 * options are inputs, with the limits under which they are opened.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fsdp/checkpoint.h>

#include "args/input.h"
#include "args/parse.h"

/*
 * Splits a command line into a command, options and words, and says what is wrong where
 * it does not fall into them.
 */

enum { GROUPS = 2 + SELECT_TABLES, MOST_GROUPS = 64 };

/* ---- defaults from the environment ---- */

static void apply_environment(struct arguments *arguments, struct usage *usage)
{
	static const struct {
		const char *variable, *option;
	} defaults[] = {
		{ "FSDP_INSPECT_COLOR", "color" },
		{ "FSDP_INSPECT_JOBS", "jobs" },
		{ "FSDP_INSPECT_PROGRESS", "progress" },
	};

	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
		const char *value = getenv(defaults[i].variable);
		const struct option_row *row =
			option_find(common_options, defaults[i].option, '\0');
		jmp_buf end, *before = usage->end;

		if (value == NULL || *value == '\0')
			continue;
		usage->end = &end;
		if (setjmp(end) == 0) {
			option_set(row, &arguments->common, value, usage);
			usage->end = before;
			continue;
		}
		usage->end = before;
		usage_refuse(usage, NULL,
			"environment variable %s=%s: not a value for this option",
			defaults[i].variable, value);
	}
}

/* ---- checks across rows ---- */

static void check_common(const struct common_options *common, struct usage *usage)
{
	uint64_t offset, length;
	int64_t width;

	if (common->plan != NULL && common->no_plan)
		usage_refuse(usage, "give one of them",
			"--plan and --no-plan exclude each other");
	if (common->width != NULL && strcmp(common->width, "none") != 0 &&
		!option_integer(common->width, 20, 100000, &width))
		usage_refuse(usage, "a whole number from 20 to 100000, or none",
			"--width: %s is not a width", common->width);
	if (common->range != NULL && !option_range(common->range, &offset, &length))
		usage_refuse(usage, "OFFSET or OFFSET:LENGTH, such as 4096:1MiB",
			"--range: %s is not a range of bytes", common->range);
}

/* What is accepted has an effect: these say how a checkpoint is opened. */
static void check_inputs(const struct command *command,
	const struct common_options *common, struct usage *usage)
{
	const char *chosen = common->plan != NULL    ? "--plan"
			     : common->no_plan       ? "--no-plan"
			     : common->raw           ? "--raw"
			     : common->separate      ? "--separate"
			     : common->range != NULL ? "--range"
						     : NULL;

	if (chosen == NULL ||
		(command->inputs != INPUTS_RECORDINGS && command->inputs != INPUTS_NONE &&
			command->inputs != INPUTS_WORDS))
		return;
	usage_hint(usage, "omit it (fsdp-inspect help %s)", command->name);
	usage_refuse(usage, NULL, "%s does not open a checkpoint: %s cannot be used",
		command->name, chosen);
}

/* ---- in order ---- */

static size_t groups_of(struct arguments *arguments, struct option_group *groups)
{
	const struct command *command = arguments->command;
	size_t count = 0;

	/* The command's own rows come first: of two with one name, they win. */
	if (command->options != NULL)
		groups[count++] =
			(struct option_group){ command->options, arguments->options };
	groups[count++] = (struct option_group){ common_options, &arguments->common };
	for (size_t i = 0; command_selectors(command)[i] != NULL; i++)
		groups[count++] = (struct option_group){ command_selectors(command)[i],
			&arguments->select };
	return count;
}

static void fill(int argc, char **argv, struct arguments *arguments, struct usage *usage)
{
	const struct command *command = arguments->command;
	struct option_group groups[GROUPS];

	if (command->options_size > 0)
		arguments->options = memory_new(1, command->options_size);
	size_t count = groups_of(arguments, groups);
	/* Unless what is wrong has a hint of its own. */
	usage_hint(usage, "fsdp-inspect help %s", command->name);
	for (size_t i = 0; i < count; i++)
		options_init(&groups[i], usage);
	for (size_t i = 0; i < SELECT_TABLES; i++)
		options_init(&(struct option_group){ select_all[i], &arguments->select },
			usage);
	apply_environment(arguments, usage);
	if (!options_parse(argc, argv, groups, count, &arguments->words, usage))
		suggest_option(usage, arguments);
	usage->hint[0] = '\0';
}

/* Options that need no command. */
static const struct option_row first_options[] = {
	{ "help", 'h', OPTION_FLAG, .offset = offsetof(struct common_options, help) },
	{ "version", 'V', OPTION_FLAG,
		.offset = offsetof(struct common_options, version) },
	{ NULL },
};

static size_t every_group(const struct command *const *commands,
	struct common_options *first, struct option_group *groups)
{
	size_t count = 0;

	groups[count++] = (struct option_group){ first_options, first };
	groups[count++] = (struct option_group){ common_options, NULL };
	for (size_t i = 0; i < SELECT_TABLES; i++)
		groups[count++] = (struct option_group){ select_all[i], NULL };
	for (; *commands != NULL && count < MOST_GROUPS; commands++)
		if ((*commands)->options != NULL)
			groups[count++] =
				(struct option_group){ (*commands)->options, NULL };
	return count;
}

/* The command is the first word; which words there are depends on the options that take
 * a value. So all options of all commands are parsed once, and what is wrong is ignored.
 */
static void peek(
	int argc, char **argv, struct arguments *arguments, struct texts *ret_words)
{
	struct option_group groups[MOST_GROUPS];

	options_parse(argc, argv, groups,
		every_group(arguments->commands, &arguments->common, groups), ret_words,
		NULL);
	if (ret_words->count > 0)
		arguments->command =
			command_find(arguments->commands, ret_words->items[0]);
}

/* Options but no command: which of them is wrong, if any. */
_Noreturn static void refuse_options(
	int argc, char **argv, struct arguments *arguments, struct usage *usage)
{
	struct option_group groups[MOST_GROUPS];
	char name[sizeof usage->what];
	struct texts words = { 0 };

	usage_hint(usage, "fsdp-inspect help");
	bool known = options_parse(argc, argv, groups,
		every_group(arguments->commands, NULL, groups), &words, usage);
	memcpy(name, usage->what, sizeof name);
	usage_refuse(usage, "fsdp-inspect help", "%s%s",
		known ? "no command given" : "unknown option ", known ? "" : name);
}

/* A path that exists or a URL, and no command. */
static bool is_path_alone(const struct arguments *arguments, const struct texts *words)
{
	for (size_t i = 0; i < words->count; i++)
		if (command_find(arguments->commands, words->items[i]) != NULL)
			return false;
	return words->count > 0 &&
	       (url_is(words->items[0]) || access(words->items[0], F_OK) == 0);
}

enum arguments_result arguments_read(
	int argc, char **argv, struct arguments *arguments, struct usage *usage)
{
	static char info[] = "info";
	struct texts words = { 0 };

	peek(argc, argv, arguments, &words);
	if (is_path_alone(arguments, &words)) {
		/* The same line with the command info. */
		char **made = memory_new((size_t)argc + 2, sizeof *made);

		made[0] = argv[0];
		made[1] = info;
		memcpy(&made[2], &argv[1], (size_t)(argc - 1) * sizeof *made);
		argv = made;
		argc++;
		words.count = 0;
		peek(argc, argv, arguments, &words);
	}
	if (arguments->common.help)
		return ARGUMENTS_HELP;
	if (arguments->common.version)
		return ARGUMENTS_VERSION;
	if (words.count == 0 && argc <= 1)
		return ARGUMENTS_NONE;
	if (words.count == 0)
		refuse_options(argc, argv, arguments, usage);
	if (arguments->command == NULL)
		suggest_command(usage, arguments, &words);
	fill(argc, argv, arguments, usage);
	/* An option that takes a value elsewhere and none here moves the words. */
	if (arguments->words.count == 0 ||
		strcmp(arguments->words.items[0], words.items[0]) != 0) {
		usage_hint(usage, "put the command first: fsdp-inspect %s ...",
			words.items[0]);
		usage_refuse(usage, NULL,
			"the command is not clear from the order of the options");
	}
	check_inputs(arguments->command, &arguments->common, usage);
	check_common(&arguments->common, usage);
	return ARGUMENTS_RUN;
}

/* ---- limits ---- */

static const struct fsdp_limit_row *find_limit(const char *name, size_t size)
{
	FOR_EACH(i, fsdp_limit_row_count(), row, fsdp_limit_row(i))
		if (strlen(row->name) == size && memcmp(row->name, name, size) == 0)
			return row;
	return NULL;
}

static void set_limit(
	struct fsdp_limit_setting *setting, const char *text, struct usage *usage)
{
	const char *value;
	size_t name_size;
	struct nearest nearest;
	char name[64];

	if (!option_assignment(text, &name_size, &value))
		usage_refuse(usage,
			"--head=N for the first rows; for a ceiling --limit memory=4GiB (fsdp-inspect help limits)",
			"--limit: %s is not NAME=VALUE", text);
	const struct fsdp_limit_row *row = find_limit(text, name_size);
	if (row == NULL) {
		snprintf(name, sizeof name, "%.*s", (int)name_size, text);
		nearest_init(&nearest, name);
		for (size_t i = 0; i < fsdp_limit_row_count(); i++)
			nearest_try(&nearest, fsdp_limit_row(i)->name);
		if (nearest.best != NULL)
			usage_hint(usage, "did you mean %s? (fsdp-inspect help limits)",
				nearest.best);
		else
			usage_hint(usage, "fsdp-inspect help limits");
		usage_refuse(usage, NULL, "--limit: no limit is named %s", name);
	}
	if (!option_size(value, &setting->value))
		usage_refuse(usage,
			"a number, or 4K, 4KiB (1024s), 4KB (1000s); 0 is none",
			"--limit %s: %s is not a number", row->name, value);
	setting->name = row->name;
}

uint64_t input_limit(const struct texts *texts, const char *name)
{
	size_t size = strlen(name), name_size;
	uint64_t value = find_limit(name, size)->value, number;
	const char *text;

	for (size_t i = 0; i < texts->count; i++)
		if (option_assignment(texts->items[i], &name_size, &text) &&
			name_size == size && memcmp(texts->items[i], name, size) == 0 &&
			option_size(text, &number))
			value = number;
	return value != 0 ? value : UINT64_MAX;
}

/* ---- lists of files ---- */

/* One entry into buffer, without its zero byte: its size, -1 at the end, -2 if it is too
 * long to be a path. */
static int next_entry(FILE *stream, char buffer[PATH_MAX])
{
	int size = 0, byte;

	while ((byte = getc_unlocked(stream)) != EOF && byte != '\0') {
		if (size == PATH_MAX - 1)
			return -2;
		buffer[size++] = (char)byte;
	}
	buffer[size] = '\0';
	return byte == EOF && size == 0 ? -1 : size;
}

/* The ceiling of directories is good enough for lists: a million. */
static void read_entries(struct inputs *inputs, FILE *stream, const char *list,
	uint64_t most, struct usage *usage)
{
	uint64_t count = 0;
	char buffer[PATH_MAX];
	int size;

	while ((size = next_entry(stream, buffer)) != -1) {
		if (size == 0 || size == -2 || ++count > most)
			usage_refuse(usage,
				"a list of NUL-terminated paths: find -print0",
				"%s: entry %llu %s", list,
				(unsigned long long)(count + (size <= 0)),
				size == 0  ? "is empty"
				: size < 0 ? "is too long for a path"
					   : "is beyond the limit files");
		texts_add(&inputs->paths, memory_copy(buffer, (size_t)size));
	}
	if (ferror(stream))
		usage_refuse(usage, "give --files0-from a file that can be read",
			"%s: %s", list, strerror(errno));
}

static void close_list(void *stream)
{
	fclose(stream);
}

static void read_list(
	struct inputs *inputs, const struct common_options *common, struct usage *usage)
{
	const char *list = common->files0_from;
	bool is_stdin = strcmp(list, "-") == 0;
	FILE *stream = is_stdin ? stdin : fopen(list, "re");
	size_t mark = memory_mark();

	if (stream == NULL)
		usage_refuse(usage, "give --files0-from a file that can be read",
			"%s: %s", list, strerror(errno));
	if (!is_stdin)
		memory_owns(stream, close_list);
	read_entries(inputs, stream, is_stdin ? "standard input" : list,
		input_limit(&common->limits, "files"), usage);
	memory_release(mark);
}

/* ---- directories of recordings ---- */

enum { MOST_ENTRIES = 10000, MOST_MISSING = 16 };

static bool ends_with(
	const char *name, size_t size, const char *const *ends, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t end = strlen(ends[i]);

		if (size > end && memcmp(name + size - end, ends[i], end) == 0)
			return true;
	}
	return false;
}

/* What recorders and torch.profiler write, also compressed; and compressed dumps, which
 * their first bytes do not identify: they end as pickles do, or with the number of the
 * rank. */
static bool is_recording_name(const char *name)
{
	static const char *const packed[] = { ".gz", ".zst", ".xz", ".bz2", ".lz4" };
	static const char *const recordings[] = { ".json", ".jsonl", ".log" };
	static const char *const dumps[] = { ".pickle", ".pkl", ".pt" };
	size_t size = strlen(name), bare = size;

	if (*name == '.')
		return false;
	if (ends_with(name, size, packed, sizeof packed / sizeof *packed))
		bare = (size_t)(strrchr(name, '.') - name);
	return ends_with(
		       name, bare, recordings, sizeof recordings / sizeof *recordings) ||
	       (bare < size &&
		       (ends_with(name, bare, dumps, sizeof dumps / sizeof *dumps) ||
			       is_digit(name[bare - 1])));
}

/* Up to `size` bytes from the beginning of an open file; -1: they cannot be read. */
static ssize_t read_head(int file, unsigned char *head, size_t size)
{
	size_t had = 0;

	while (had < size) {
		ssize_t got = read(file, head + had, size - had);

		if (got == 0)
			break;
		if (got < 0 && errno != EINTR)
			return -1;
		had += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)had;
}

/*
 * Dumps of PyTorch have names of many sorts, and begin as pickles do. An unreadable or
 * truncated file may be one: the library reports why it is not read.
 */
static bool may_be_dump(const char *path, off_t size)
{
	unsigned char head[2] = { 0 };
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t had = file >= 0 ? read_head(file, head, sizeof head) : -1;

	if (file >= 0)
		close(file);
	/* The dump of a rank that stopped while it wrote. */
	if (had == 0 && size == 0)
		return is_digit(path[strlen(path) - 1]);
	if (had < (ssize_t)sizeof head)
		return had < 0 || size >= (off_t)sizeof head;
	return head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

_Noreturn static void refuse_many(const char *path, struct usage *usage)
{
	usage_refuse(usage, "name the files that belong to one run",
		"%s contains more than %d recordings", path, MOST_ENTRIES);
}

/* torchrun --log-dir makes RUN/attempt_N/RANK/stderr.log. Finds the last attempt in a
 * directory, or in one below it. */
static void find_attempt(const char *path, bool is_top, char best[PATH_MAX], int *number)
{
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		char below[PATH_MAX];
		int found = -1, end = 0;

		if (*entry->d_name == '.' || snprintf(below, sizeof below, "%s/%s", path,
						     entry->d_name) >= (int)sizeof below)
			continue;
		(void)sscanf(entry->d_name, "attempt_%9d%n", &found, &end);
		if (found > *number && entry->d_name[end] == '\0') {
			*number = found;
			strcpy(best, below);
		} else if (is_top &&
			   (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)) {
			find_attempt(below, false, best, number);
		}
	}
	if (folder != NULL)
		closedir(folder);
}

/* Adds the logs of the ranks of the last attempt. */
static void add_attempt(struct inputs *inputs, const char *path, struct usage *usage)
{
	char best[PATH_MAX] = "", log[PATH_MAX];
	int number = -1;
	struct dirent *entry;
	struct stat status;

	/* The directory may be that of an attempt itself. */
	const char *slash = strrchr(path, '/');
	if (sscanf(slash != NULL ? slash + 1 : path, "attempt_%9d", &number) == 1)
		snprintf(best, sizeof best, "%s", path);
	else
		find_attempt(path, true, best, &number);
	DIR *folder = number >= 0 ? opendir(best) : NULL;
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		if (!is_digit(*entry->d_name) ||
			snprintf(log, sizeof log, "%s/%s/stderr.log", best,
				entry->d_name) >= (int)sizeof log ||
			stat(log, &status) != 0 || status.st_size == 0)
			continue;
		if (inputs->paths.count == MOST_ENTRIES)
			refuse_many(path, usage);
		texts_add(&inputs->paths, memory_copy(log, strlen(log)));
	}
	if (folder != NULL)
		closedir(folder);
}

/* Adds the recordings in a directory, by name. */
static void add_folder(
	struct inputs *inputs, const char *path, DIR *folder, struct usage *usage)
{
	size_t first = inputs->paths.count, size = strlen(path);
	const char *slash = size > 0 && path[size - 1] == '/' ? "" : "/";
	struct dirent *entry;

	while ((entry = readdir(folder)) != NULL) {
		char found[PATH_MAX];
		int length = snprintf(
			found, sizeof found, "%s%s%s", path, slash, entry->d_name);
		struct stat status;

		if (*entry->d_name == '.' || length >= (int)sizeof found ||
			stat(found, &status) != 0 || !S_ISREG(status.st_mode) ||
			(!is_recording_name(entry->d_name) &&
				!may_be_dump(found, status.st_size)))
			continue;
		if (inputs->paths.count - first == MOST_ENTRIES)
			refuse_many(path, usage);
		texts_add(&inputs->paths, memory_copy(found, (size_t)length));
	}
	if (inputs->paths.count == first)
		add_attempt(inputs, path, usage);
	inputs->is_folder |= inputs->paths.count != first;
	/* Without any it is opened as it is, which reports the reason. */
	if (inputs->paths.count == first)
		texts_add(&inputs->paths, path);
	qsort(inputs->paths.items + first, inputs->paths.count - first,
		sizeof *inputs->paths.items, compare_texts);
}

/* By names alone: dumps end as pickles do, or with the number of the rank. */
static bool may_be_remote_recording(const char *name)
{
	static const char *const dumps[] = { ".pickle", ".pkl", ".pt" };
	size_t size = strlen(name);

	return is_recording_name(name) ||
	       (*name != '.' &&
		       (ends_with(name, size, dumps, 3) || is_digit(name[size - 1])));
}

void inputs_list_remote(
	struct inputs *inputs, const struct arguments *arguments, struct usage *usage)
{
	struct fsdp_remote *remote = inputs->options.remote;
	struct texts typed = inputs->paths, near = inputs->near;

	if (remote == NULL || arguments->command->inputs != INPUTS_RECORDINGS)
		return;
	inputs->paths = inputs->near = (struct texts){ 0 };
	for (size_t i = 0; i < typed.count; i++) {
		const char *path = typed.items[i], *name;
		bool is_folder = fsdp_remote_kind(remote, path) == FSDP_REMOTE_FOLDER;
		size_t first = inputs->paths.count;
		enum fsdp_remote_kind kind;

		for (size_t j = 0; is_folder && (name = fsdp_remote_name(
							 remote, path, j, &kind)) != NULL;
			j++) {
			if (kind != FSDP_REMOTE_FILE || !may_be_remote_recording(name))
				continue;
			if (inputs->paths.count - first == MOST_ENTRIES)
				refuse_many(path, usage);
			texts_add(&inputs->paths, memory_format("%s/%s", path, name));
			texts_add(&inputs->near, NULL);
		}
		inputs->is_folder |= inputs->paths.count != first;
		if (inputs->paths.count == first) {
			texts_add(&inputs->paths, path);
			texts_add(&inputs->near, near.items[i]);
		}
	}
}

/* Once the process is locked to its inputs, it is too late to look around. */
static void look_near(struct texts *near, const char *path)
{
	bool is_missing = strcmp(path, "-") != 0 && !url_is(path) &&
			  access(path, F_OK) != 0 && errno == ENOENT &&
			  near->count < MOST_MISSING;

	texts_add(near, is_missing ? suggest_near_path(path) : NULL);
}

/* What is not to be shown is removed where it was typed, so that nothing can show it. */
static void add_url(struct inputs *inputs, const struct arguments *arguments,
	const char *url, struct usage *usage)
{
	char *whole = memory_text(url), *shown = NULL;

	url_check(usage, arguments->command->name, url);
	for (size_t i = 0; arguments->typed[i] != NULL; i++)
		if (url >= arguments->typed[i] &&
			url <= arguments->typed[i] + strlen(arguments->typed[i]))
			url_clean(shown = arguments->typed[i] +
					  (url - arguments->typed[i]));
	texts_add(&inputs->urls, whole);
	texts_add(&inputs->url_names, shown);
}

/* Of the files that options name some may be URLs. */
static void add_option_url(struct inputs *inputs, const struct arguments *arguments,
	const char *option, const char *url, struct usage *usage)
{
	static const char *const remote[] = { "plan", "expect", "merged", "manifest",
		"listing", "check", "with-config", "trace", "names", "map", "compare",
		"units-from" };

	for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
		if (strcmp(option, remote[i]) == 0) {
			add_url(inputs, arguments, url, usage);
			return;
		}
	usage_refuse(usage, "download the file first",
		"--%s takes a local file, not a URL", option);
}

/* Options may name files too. */
static void look_near_options(struct inputs *inputs, const struct arguments *arguments,
	const struct option_row *rows, const void *values, struct usage *usage)
{
	const char *path;

	for (; rows != NULL && rows->name != NULL; rows++)
		for (size_t i = 0; (path = option_path(rows, values, i)) != NULL; i++) {
			if (url_is(path))
				add_option_url(
					inputs, arguments, rows->name, path, usage);
			texts_add(&inputs->beside, path);
			look_near(&inputs->near_beside, path);
		}
}

/* A directory of recordings means its files. */
static void open_folders(struct inputs *inputs, struct usage *usage)
{
	struct texts typed = inputs->paths;

	inputs->paths = (struct texts){ 0 };
	for (size_t i = 0; i < typed.count; i++) {
		DIR *folder = opendir(typed.items[i]);
		size_t mark = memory_mark();

		if (folder == NULL) {
			texts_add(&inputs->paths, typed.items[i]);
			continue;
		}
		memory_owns(folder, release_folder);
		add_folder(inputs, typed.items[i], folder, usage);
		memory_release(mark);
	}
}

/*
 * Names of standard input; and the pipe that a shell makes of <(...), which takes its
 * place.
 */
static bool is_standard_input(const char *path)
{
	static const char *const names[] = { "/dev/stdin", "/dev/fd/0",
		"/proc/self/fd/0" };
	static const char pipes[] = "/dev/fd/";
	struct stat status;
	int64_t descriptor;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(path, names[i]) == 0)
			return fstat(STDIN_FILENO, &status) == 0 &&
			       !S_ISREG(status.st_mode);
	return strncmp(path, pipes, sizeof pipes - 1) == 0 &&
	       option_integer(path + sizeof pipes - 1, 3, INT_MAX, &descriptor) &&
	       fstat((int)descriptor, &status) == 0 && S_ISFIFO(status.st_mode) &&
	       dup2((int)descriptor, STDIN_FILENO) == STDIN_FILENO;
}

/* words[0] is the command. */
static void split_words(
	struct inputs *inputs, const struct arguments *arguments, struct usage *usage)
{
	const struct texts *words = &arguments->words;
	size_t path_count = words->count - 1;

	if (!takes_checkpoint(arguments->command->inputs))
		path_count = 0;
	else if ((arguments->command->inputs == INPUTS_ONE_NAMES ||
			 arguments->command->inputs == INPUTS_ONE_SOME) &&
		 path_count > 1)
		path_count = 1;
	for (size_t i = 1 + path_count; i < words->count; i++)
		texts_add(&inputs->words, memory_text(words->items[i]));
	FOR_EACH(i, path_count, path, url_local(words->items[1 + i])) {
		if (url_is(path)) {
			add_url(inputs, arguments, path, usage);
			path = inputs->url_names.items[inputs->url_names.count - 1];
		} else {
			suggest_url(usage, arguments->command->name, path);
			suggest_joined(usage, arguments, path);
		}
		texts_add(&inputs->paths, is_standard_input(path) ? "-" : path);
	}
}

static void check_words(const struct inputs *inputs, const struct arguments *arguments,
	struct usage *usage)
{
	const struct command *command = arguments->command;
	const struct common_options *common = &arguments->common;
	const struct select_options *select = &arguments->select;

	if (command->inputs == INPUTS_NONE && inputs->words.count > 0) {
		usage_hint(usage, "fsdp-inspect help %s", command->name);
		usage_refuse(usage, NULL, "%s takes no arguments", command->name);
	}
	if (!takes_checkpoint(command->inputs))
		return;
	if (inputs->paths.count == 0 && inputs->options.units_path == NULL) {
		usage_hint(usage, "example: fsdp-inspect %s (fsdp-inspect help %s)",
			command->examples[0], command->name);
		usage_refuse(usage, NULL, "%s needs a %s", command->name,
			command->inputs == INPUTS_RECORDINGS ? "recording"
			: command->inputs == INPUTS_FILE     ? "file"
			: command->inputs == INPUTS_RUNS     ? "directory of a run"
							     : "checkpoint");
	}
	if (command->inputs == INPUTS_ONE_NAMES && inputs->words.count == 0 &&
		select->globs.count + select->regexes.count == 0) {
		usage_hint(usage, "fsdp-inspect ls %s lists the names",
			inputs->paths.items[0]);
		usage_refuse(usage, NULL,
			"%s needs a name after the checkpoint, or a pattern (-g)",
			command->name);
	}
	if (command->inputs == INPUTS_PAIR && inputs->paths.count != 2) {
		usage_hint(usage, "fsdp-inspect %s %s %s (fsdp-inspect help %s)",
			command->name, inputs->paths.items[0],
			inputs->paths.count > 1 ? inputs->paths.items[1] : "OTHER",
			command->name);
		usage_refuse(usage, NULL, "%s needs two checkpoints, not %zu",
			command->name, inputs->paths.count);
	}
	if (common->separate && command->inputs == INPUTS_ONE && inputs->paths.count > 1)
		usage_refuse(usage, "run it once for each",
			"--separate needs several checkpoints; %s reads one",
			command->name);
	if (common->range != NULL && inputs->paths.count != 1)
		usage_refuse(
			usage, "run it once for each", "--range needs exactly one file");
	if (common->plan != NULL && inputs->options.units_path != NULL)
		usage_refuse(usage, "a plan contains the units: omit --units-from",
			"--plan and --units-from exclude each other");
	size_t count =
		common->files0_from != NULL && strcmp(common->files0_from, "-") == 0;
	for (size_t i = 0; i < inputs->paths.count; i++)
		count += strcmp(inputs->paths.items[i], "-") == 0;
	count += common->plan != NULL && strcmp(common->plan, "-") == 0;
	count += inputs->options.units_path != NULL &&
		 strcmp(inputs->options.units_path, "-") == 0;
	if (count > 1)
		usage_refuse(usage, "give a file instead of one -",
			"standard input can be read only once");
}

/* Path that an option of the command names. NULL: not given, or no such option. */
static const char *named_path(const struct arguments *arguments, const char *option)
{
	const struct option_row *rows = arguments->command->options;
	const struct option_row *row = rows != NULL ? option_find(rows, option, 0) : NULL;

	return row != NULL ? option_path(row, arguments->options, 0) : NULL;
}

static void set_options(struct inputs *inputs, const struct arguments *arguments)
{
	const struct common_options *common = &arguments->common;
	const struct command *command = arguments->command;

	inputs->options.size = sizeof inputs->options;
	inputs->options.plan_path = common->plan;
	inputs->options.no_plan = common->no_plan;
	inputs->options.single_file = common->separate;
	inputs->options.units_path = named_path(arguments, "units-from");
	inputs->options.read_values = command->reads_values != NULL &&
				      command->reads_values(arguments->options);
	inputs->options.listing_path = named_path(arguments, "listing");
	inputs->options.only_counts =
		command->only_counts != NULL && command->only_counts(arguments->options);
	inputs->options.only_counts_from = command->counts_from;
	if (command->needs_rank != NULL && command->needs_rank(arguments->options,
						   &arguments->select, &inputs->rank)) {
		inputs->options.only_ranks = true;
		inputs->options.ranks = &inputs->rank;
		inputs->options.rank_count = inputs->rank != FSDP_NONE;
	}
	/* Whether it is a range was asked with the other options. */
	if (common->range != NULL)
		inputs->options.slice = option_range(common->range,
			&inputs->options.slice_offset, &inputs->options.slice_length);
}

void inputs_collect(
	struct inputs *inputs, const struct arguments *arguments, struct usage *usage)
{
	const struct texts *limits = &arguments->common.limits;

	split_words(inputs, arguments, usage);
	set_options(inputs, arguments);
	inputs->limits = memory_new(limits->count, sizeof *inputs->limits);
	for (size_t i = 0; i < limits->count; i++)
		set_limit(&inputs->limits[i], limits->items[i], usage);
	inputs->options.limits = inputs->limits;
	inputs->options.limit_count = limits->count;
	if (arguments->common.files0_from != NULL)
		read_list(inputs, &arguments->common, usage);
	check_words(inputs, arguments, usage);
	/* Without a checkpoint a log is an input by itself. */
	inputs->has_no_checkpoint =
		inputs->paths.count == 0 && inputs->options.units_path != NULL;
	if (inputs->has_no_checkpoint)
		texts_add(&inputs->paths, inputs->options.units_path);
	if (arguments->command->inputs == INPUTS_RECORDINGS)
		open_folders(inputs, usage);
	for (size_t i = 0; i < inputs->paths.count; i++)
		look_near(&inputs->near, inputs->paths.items[i]);
	look_near_options(inputs, arguments, common_options, &arguments->common, usage);
	look_near_options(inputs, arguments, arguments->command->options,
		arguments->options, usage);
	suggest_order(usage, arguments, &inputs->paths, &inputs->near, &inputs->words);
	/* They name all that is shown; the rest need not be read. */
	if (arguments->command->inputs == INPUTS_ONE_NAMES) {
		inputs->options.value_names = inputs->words.items;
		inputs->options.value_name_count = inputs->words.count;
	}
}
