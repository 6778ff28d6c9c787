/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where answers go: which outputs were asked for, how they look, which files they may not
 * replace, and the share of the work that a launcher gives to this process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <langinfo.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args/input.h"
#include "args/parse.h"
#include "render/writer.h"
#include "session/session-private.h"

/*
 * Finds out which of several processes this one is.
 *
 * Origin: sbatch(1) and srun(1) of Slurm 23, torch/distributed/run.py, parallel(1).
 */

enum { PARTS_MOST = 1000000 };
static const char K_OF_N[] = "name the part: --part=K/N";

/* What a launcher says in its variables. `first` is what the numbers begin with: a
 * number, or the name of a variable. */
struct launcher {
	const char *name;
	const char *number, *count;
	const char *first, *step;
};

static const struct launcher launchers[] = {
	{ "a Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT",
		"SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP" },
	{ "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, NULL },
	{ "torchrun", "RANK", "WORLD_SIZE", NULL, NULL },
	{ "GNU parallel", "PARALLEL_SEQ", NULL, "1", NULL },
};

static bool number_of(const char *text, int64_t *ret_number)
{
	return text != NULL && option_integer(text, 0, PARTS_MOST, ret_number);
}

/* A variable's number, or the number that it is. */
static int64_t number_in(const char *name, int64_t otherwise)
{
	int64_t number;

	if (name == NULL)
		return otherwise;
	if (number_of(name, &number) || number_of(getenv(name), &number))
		return number;
	return otherwise;
}

/* False: it did not start this process. */
static bool ask(const struct launcher *launcher, int64_t *ret_number, int64_t *ret_count)
{
	int64_t number, first = number_in(launcher->first, 0);
	int64_t step = number_in(launcher->step, 1);

	if (!number_of(getenv(launcher->number), &number))
		return false;
	*ret_count = number_in(launcher->count, 0);
	if (launcher->count != NULL && *ret_count == 0)
		return false;
	if (step < 1 || number < first || (number - first) % step != 0)
		return false;
	*ret_number = (number - first) / step + 1;
	return true;
}

/* If a launcher started one process, other variables may have more. */
static void find_launcher(
	struct common_options *common, int64_t count, struct usage *usage)
{
	const struct launcher *is_printed = NULL;
	int64_t number = 0;

	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
		int64_t its_number, its_count;

		if (!ask(&launchers[i], &its_number, &its_count) || its_count == 1)
			continue;
		if ((is_printed != NULL && its_number != number) ||
			(its_count != 0 && count != 0 && its_count != count))
			usage_refuse(usage, K_OF_N, "--part=auto: %s and %s disagree",
				is_printed != NULL ? is_printed->name
						   : "the number of parts",
				launchers[i].name);
		if (is_printed == NULL)
			is_printed = &launchers[i];
		number = its_number;
		count = its_count != 0 ? its_count : count;
	}
	if (is_printed == NULL && count <= 1)
		usage_refuse(usage, K_OF_N,
			"--part=auto: no launcher sets the number of this part");
	if (is_printed == NULL || count == 0)
		usage_refuse(usage, "give their number: --part=auto/N",
			"--part=auto: %s does not set the number of parts",
			is_printed != NULL ? is_printed->name : "the environment");
	if (number > count)
		usage_refuse(usage, K_OF_N,
			"--part=auto: %s sets part %" PRId64 " of %" PRId64,
			is_printed->name, number, count);
	common->part_number = (uint32_t)number;
	common->part_count = (uint32_t)count;
	common->part_from = is_printed->name;
}

_Noreturn static void refuse_part(const char *text, struct usage *usage)
{
	usage_refuse(usage, "example: --part=3/8, the third of eight parts",
		"--part=%s is not K/N, auto or auto/N", text);
}

void launcher_part(
	const struct command *command, struct common_options *common, struct usage *usage)
{
	const char *text = common->part, *slash;
	int64_t number = 0, count = 0;
	char front[16];

	if (text == NULL)
		return;
	if (command->join == NULL) {
		usage_hint(usage, "omit it: %s reads with as many threads as -j sets",
			command->name);
		usage_refuse(usage, NULL,
			"%s has no --part: only hash and audit --data have parts",
			command->name);
	}
	slash = strchr(text, '/');
	if (slash != NULL && (!option_integer(slash + 1, 1, PARTS_MOST, &count) ||
				     (size_t)(slash - text) >= sizeof front))
		refuse_part(text, usage);
	if (strcmp(text, "auto") == 0 || strncmp(text, "auto/", 5) == 0) {
		find_launcher(common, count, usage);
		return;
	}
	if (slash == NULL)
		refuse_part(text, usage);
	memcpy(front, text, (size_t)(slash - text));
	front[slash - text] = '\0';
	if (!option_integer(front, 1, count, &number))
		refuse_part(text, usage);
	common->part_number = (uint32_t)number;
	common->part_count = (uint32_t)count;
}

/*
 * Decides about color, width and characters: by options, environment, terminal, locale,
 * in this order.
 */

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value != NULL && *value != '\0';
}

static bool is_on(const char *variable)
{
	return is_set(variable) && strcmp(getenv(variable), "0") != 0;
}

static bool has_color_option(const struct common_options *common, bool terminal)
{
	if (common->no_color)
		return false;
	if (common->color != NULL && strcmp(common->color, "auto") != 0)
		return strcmp(common->color, "always") == 0;
	if (is_set("NO_COLOR"))
		return false;
	if (is_on("FORCE_COLOR") || is_on("CLICOLOR_FORCE"))
		return true;
	if (is_set("CLICOLOR") && !is_on("CLICOLOR"))
		return false;
	return terminal && is_set("TERM") && strcmp(getenv("TERM"), "dumb") != 0;
}

/* 0: none. A pipe has no width, so nothing is ever shortened in it. */
static int width_of_text(
	const struct common_options *common, int descriptor, bool terminal)
{
	struct winsize size;
	int64_t width;

	if (common->width != NULL)
		return option_integer(common->width, 20, 100000, &width) ? (int)width : 0;
	if (!terminal)
		return 0;
	if (is_set("COLUMNS") && option_integer(getenv("COLUMNS"), 20, 100000, &width))
		return (int)width;
	if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
		return size.ws_col;
	return 80;
}

/* The name of the locale says what the terminal shows, also after a login from another
 * machine, whose locale this one does not have. */
bool locale_is_utf8(void)
{
	const char *name = is_set("LC_ALL")     ? getenv("LC_ALL")
			   : is_set("LC_CTYPE") ? getenv("LC_CTYPE")
			   : is_set("LANG")     ? getenv("LANG")
						: "";

	return strcasestr(name, ".UTF-8") != NULL || strcasestr(name, ".utf8") != NULL;
}

struct looks looks_for(
	const struct common_options *common, int descriptor, bool for_program)
{
	bool terminal = isatty(descriptor) == 1;
	bool utf8 = locale_is_utf8() || strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	int verbosity = common->verbose - common->quiet;

	return (struct looks){
		.width = width_of_text(common, descriptor, terminal),
		.color = has_color_option(common, terminal),
		.ascii = common->ascii || !utf8,
		.seven_bits = !utf8 && (terminal || !for_program),
		.sizes = common->bytes ? HUMAN_EXACT
			 : common->si  ? HUMAN_DECIMAL
				       : HUMAN_BINARY,
		.null_names = common->null,
		.name_bytes = (size_t)input_limit(&common->limits, "name-bytes"),
		.verbosity = verbosity,
	};
}

/* ---- places ---- */

/* Directory of an existing or planned file, and its name there, of *ret_size bytes.
 * False: the directory does not exist. */
static bool kept_place(const char *file, struct stat *ret_folder, const char **ret_name,
	size_t *ret_size)
{
	size_t end = strlen(file), begin;

	while (end > 1 && file[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && file[begin - 1] != '/';)
		begin--;
	char *folder = begin == 0 ? memory_text(".") : memory_copy(file, begin);
	bool good = stat(folder, ret_folder) == 0;
	memory_free(folder);
	*ret_name = file + begin;
	*ret_size = end - begin;
	return good;
}

/*
 * List of files that must not be replaced: by device and inode, not by their paths.
 *
 * A link has two places: its own, and that of the file it leads to. Replacing the link
 * removes it from a directory that is read; following it replaces the file.
 */

struct kept_place {
	dev_t device;
	ino_t inode;
	char *stem; /* what the paths of a file's set have in common, or NULL */
};

/* What the paths of a set have in common, in the place of one without links: a number in
 * a name is one digit, a shard has no part "-1-of-2", and an index is called like what it
 * lists. Of ranks with a directory each ("mp_rank_00") that is a part of the name. */
static void make_stem(char *path)
{
	static const char part[] = "-0-of-0";
	char *slash = strrchr(path, '/'), *to = slash + 1, *above = NULL;

	*slash = '\0';
	above = strrchr(path, '/');
	if (above != NULL && strstr(above, "rank") != NULL)
		to = above + 1;
	*slash = '/';
	for (const char *at = to; *at != '\0'; at++)
		if (!is_digit(*at))
			*to++ = *at;
		else if (at == path || to[-1] != '0' || !is_digit(at[-1]))
			*to++ = '0';
	*to = '\0';
	const char *suffix = ".index.json";
	size_t size = strlen(path), less = strlen(suffix);

	if (size > less && strcmp(path + size - less, suffix) == 0)
		path[size - less] = '\0';
	to = strstr(strrchr(path, '/'), part);
	if (to != NULL)
		memmove(to, to + sizeof part - 1, strlen(to + sizeof part - 1) + 1);
}

/* The path without links, or NULL. */
static char *real_path(const char *path)
{
	char real[PATH_MAX];

	if (realpath(path, real) != NULL)
		return memory_text(real);
	if (errno == ENOMEM)
		memory_fail();
	return NULL;
}

/* The real path of the directory of a file, and its name; or NULL. */
static char *own_place(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *real = real_path(
		slash != NULL ? memory_copy(path, (size_t)(slash + 1 - path)) : ".");

	return real != NULL ? memory_format("%s/%s", strcmp(real, "/") != 0 ? real : "",
				      slash != NULL ? slash + 1 : path)
			    : NULL;
}

/* ---- the list ---- */

/* With the stem of a path, unless that is NULL. */
static void add(struct kept *kept, const struct stat *status, char *path)
{
	if (path != NULL)
		make_stem(path);
	kept->places = memory_grown(kept->places, kept->count, sizeof *kept->places);
	kept->places[kept->count++] =
		(struct kept_place){ status->st_dev, status->st_ino, path };
}

/* The files of a snapshot in a download cache are links to …/blobs, next to …/snapshots.
 */
static void add_blobs(struct kept *kept, const char *folder)
{
	static const char below[] = "/snapshots/";
	char *real = real_path(folder), *found = NULL;
	struct stat status;

	for (char *at = real; at != NULL && (at = strstr(at, below)) != NULL; at++)
		found = at;
	if (found != NULL) {
		/* Shorter than what it takes the place of. */
		strcpy(found, "/blobs");
		if (stat(real, &status) == 0 && S_ISDIR(status.st_mode))
			add(kept, &status, NULL);
	}
}

/* Adds the file at the path, or all files of a directory; "-" is the source of stdin.
 * With `has_set` also the set of a file: the files in its directory whose names differ
 * from its own in numbers only, and their index. A path that leads nowhere adds nothing.
 */
static void kept_add(struct kept *kept, const char *path, bool has_set)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat status;

	if ((is_stdin ? fstat(STDIN_FILENO, &status) : stat(path, &status)) != 0)
		return;
	if (S_ISREG(status.st_mode) && has_set) {
		add(kept, &status, is_stdin ? NULL : own_place(path));
		add(kept, &status, real_path(is_stdin ? "/proc/self/fd/0" : path));
	} else if (S_ISREG(status.st_mode)) {
		add(kept, &status, NULL);
	} else if (S_ISDIR(status.st_mode)) {
		add(kept, &status, NULL);
		add_blobs(kept, path);
	}
}

/* ---- asking ---- */

static bool is_listed(const struct kept *kept, const struct stat *status)
{
	for (size_t i = 0; i < kept->count; i++)
		if (kept->places[i].device == status->st_dev &&
			kept->places[i].inode == status->st_ino)
			return true;
	return false;
}

/* Whether the directory of the real path, or one above it, is listed. Cuts it. */
static bool is_below(const struct kept *kept, char *real)
{
	struct stat status;
	char *slash;

	while ((slash = strrchr(real, '/')) != NULL) {
		slash[slash == real] = '\0';
		if (stat(real, &status) == 0 && is_listed(kept, &status))
			return true;
		if (slash == real)
			break;
	}
	return false;
}

/* Of a path without links but in its last part, or NULL. Cuts it. */
static enum kept_why compare_kept(const struct kept *kept, char *real)
{
	if (real == NULL)
		return KEPT_NOT;
	char *stem = memory_text(real);
	make_stem(stem);
	if (is_below(kept, real))
		return KEPT_READ;
	for (size_t i = 0; i < kept->count; i++)
		if (kept->places[i].stem != NULL &&
			strcmp(kept->places[i].stem, stem) == 0)
			return KEPT_SET;
	return KEPT_NOT;
}

/* Whether replacing the file at this path, or the target of its link, would remove a file
 * of the list. Pipes and devices are not replaced. Reads the file system on each call. */
static enum kept_why kept_find(const struct kept *kept, const char *path)
{
	enum kept_why why = KEPT_NOT;
	struct stat own, status = { 0 };

	if (kept->count == 0 || lstat(path, &own) != 0)
		return KEPT_NOT;
	if (stat(path, &status) == 0) {
		if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
			return KEPT_NOT;
		if (is_listed(kept, &status))
			return KEPT_READ;
		why = compare_kept(kept, real_path(path));
	}
	/* Files in a directory are replaced, not the link to it. */
	if (why == KEPT_NOT && S_ISLNK(own.st_mode) && !S_ISDIR(status.st_mode))
		why = compare_kept(kept, own_place(path));
	return why;
}

/* ---- choosing ---- */

static bool fits(const struct out_format *format, const struct command *command)
{
	return (format->shapes & command->shapes) != 0;
}

const char *outputs_unfit(const struct outputs *outputs, const struct command *command)
{
	for (size_t i = 0; i < outputs->count; i++)
		if (!fits(outputs->sinks[i].format, command))
			return outputs->sinks[i].format->name;
	return NULL;
}

_Noreturn static void refuse_format(
	struct usage *usage, const struct command *command, const char *name, bool exists)
{
	char fitting[200] = "";
	struct nearest nearest;
	const char *instead = removed_word(name, command->name);

	if (instead != NULL)
		usage_refuse(usage, "", "output %s was removed; use %s", name, instead);
	if (exists)
		usage_what(usage, "%s has no output %s", command->name, name);
	else
		usage_what(usage, "unknown output %s", name);
	if (command->shapes == 0) {
		usage_hint(usage, "%s prints text only", command->name);
		usage_end(usage);
	}
	size_t size = sizeof fitting;
	size_t used = 0;

	for (size_t i = 0; out_format(i) != NULL && used < size; i++) {
		if (fits(out_format(i), command))
			used += (size_t)snprintf(fitting + used, size - used, "%s%s",
				used > 0 ? ", " : "", out_format(i)->name);
	}
	nearest_init(&nearest, name);
	for (size_t i = 0; !exists && out_format(i) != NULL; i++) {
		if (fits(out_format(i), command))
			nearest_try(&nearest, out_format(i)->name);
	}
	if (nearest.best != NULL)
		usage_hint(usage, "did you mean %s? (one of %s)", nearest.best, fitting);
	else
		usage_hint(usage, "one of %s", fitting);
	usage_end(usage);
}

_Noreturn static void refuse_shared(struct usage *usage, const char *file)
{
	usage_refuse(usage, "give each a file of its own",
		"two outputs have the same file, %s", file);
}

static void add_sink(struct outputs *outputs, const struct command *command,
	const char *name, const char *file, struct usage *usage)
{
	const struct out_format *format = out_format_find(name);

	if (command->shapes == 0 && file == NULL && strcmp(name, "text") == 0)
		return;
	if (format == NULL || !fits(format, command))
		refuse_format(usage, command, name, format != NULL);
	FOR_EACH(i, outputs->count, other, outputs->sinks[i].file) {
		if (file == NULL && other == NULL) {
			usage_hint(usage, "give the other a file: -o %s=FILE", name);
			usage_refuse(
				usage, NULL, "only one output can go to standard output");
		}
		if (file != NULL && other != NULL && strcmp(file, other) == 0)
			refuse_shared(usage, file);
	}
	outputs->sinks =
		memory_grown(outputs->sinks, outputs->count, sizeof *outputs->sinks);
	outputs->sinks[outputs->count++] =
		(struct sink){ .format = format, .file = file };
}

/* The format in the name of a file: sarif.json, names.csv. NULL: not a format of the
 * command. */
static const struct out_format *named_format(
	const struct command *command, const char *file)
{
	const struct out_format *found = NULL;
	const char *dot = strrchr(file, '.');

	for (size_t i = 0; dot != NULL && out_format(i) != NULL; i++) {
		const char *name = out_format(i)->name;
		size_t size = strlen(name);

		if (!fits(out_format(i), command))
			continue;
		if (size == (size_t)(dot - file) && memcmp(file, name, size) == 0)
			return out_format(i);
		if (strcmp(dot + 1, name) == 0)
			found = out_format(i);
	}
	return found;
}

/* FORMAT, FORMAT=FILE or FORMAT=-. */
static void add_typed(struct outputs *outputs, const struct command *command,
	const char *typed, struct usage *usage)
{
	const char *equals = strchr(typed, '=');

	if (equals == NULL) {
		const struct out_format *format = named_format(command, typed);

		/* Formats have no dots in their names. */
		if (format != NULL) {
			usage_what(usage, "unknown output %s", typed);
			usage_hint(usage, "did you mean: -o %s=%s", format->name, typed);
			usage_end(usage);
		}
		add_sink(outputs, command, typed, NULL, usage);
		return;
	}
	if (equals[1] == '\0')
		usage_refuse(usage, "FORMAT=FILE, or FORMAT alone for standard output",
			"-o %s names no file", typed);
	add_sink(outputs, command, memory_copy(typed, (size_t)(equals - typed)),
		strcmp(equals + 1, "-") != 0 ? equals + 1 : NULL, usage);
}

/* A page does not go to a terminal: that of runs/step-1000 goes to step-1000.html. */
static const char *page_file(const struct texts *inputs)
{
	const char *path = inputs->count > 0 ? inputs->items[inputs->count - 1] : "";
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (start = end; start > 0 && path[start - 1] != '/';)
		start--;
	if (end - start == strspn(path + start, "-.")) /* ".", "..", "-" */
		path = "report", start = 0, end = strlen(path);
	return memory_format("%.*s.html", (int)(end - start), path + start);
}

/* Whether a file that was not named may be replaced: it is missing, or a page that report
 * wrote. */
static bool is_own_page(const char *path)
{
	static const char head[] =
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\"";
	char found[sizeof head - 1];
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is_own = file < 0 ? errno == ENOENT
			       : read(file, found, sizeof found) == sizeof found &&
					 memcmp(found, head, sizeof found) == 0;

	if (file >= 0)
		close(file);
	return is_own;
}

void outputs_choose(struct outputs *outputs, const struct command *command,
	const struct common_options *common, const struct texts *inputs,
	struct usage *usage)
{
	const struct out_format *names = out_format_find("name");

	for (size_t i = 0; i < common->outputs.count; i++) {
		/* In the names of files %p is the number of the part. */
		const char *typed = common->outputs.items[i], *at = strstr(typed, "%p");

		if (common->part_count != 0 && at != NULL)
			typed = memory_format("%.*s%" PRIu32 "%s", (int)(at - typed),
				typed, common->part_number, at + 2);
		add_typed(outputs, command, typed, usage);
	}
	if (common->json)
		add_sink(outputs, command, "json", NULL, usage);
	if (common->jsonl)
		add_sink(outputs, command, "jsonl", NULL, usage);
	if (outputs->count == 0 && (command->shapes & SHAPE_PAGE) != 0 &&
		isatty(STDOUT_FILENO) == 1) {
		outputs->page = page_file(inputs);
		if (!is_own_page(outputs->page))
			usage_refuse(usage, "name another file: -o html=FILE",
				"%s exists and is not a page of report", outputs->page);
	}
	/* Raw names are asked for: those are an output of their own. */
	if (outputs->count == 0)
		add_sink(outputs, command,
			common->null && fits(names, command) ? names->name
							     : command->output,
			outputs->page, usage);
	/* Two checkpoints in one answer need an output that nests. */
	for (size_t i = 0;
		common->separate && command->check_inputs == NULL && i < outputs->count;
		i++) {
		const char *name = outputs->sinks[i].format->name;

		if (strcmp(name, "text") != 0 && strcmp(name, "json") != 0)
			usage_refuse(usage, "one of text, json",
				"--separate cannot be shown as %s", name);
	}
}

/* ---- what is read ---- */

static bool guards(const struct outputs *outputs)
{
	return outputs_have_files(outputs) || outputs->written.path != NULL;
}

static void keep(struct outputs *outputs, const char *path, bool has_set)
{
	if (guards(outputs))
		kept_add(&outputs->kept, path, has_set);
}

/* A name of so many bytes, in a directory or (of 0 bytes) in the working directory. */
static void keep_in(struct outputs *outputs, const char *folder, int folder_size,
	const char *name, int size)
{
	char *path = memory_format("%.*s%s%.*s", folder_size, folder,
		folder_size != 0 && folder[folder_size - 1] != '/' ? "/" : "", size,
		name);

	keep(outputs, path, false);
	memory_free(path);
}

void outputs_keep(void *context, const char *path)
{
	struct outputs *outputs = context;
	jmp_buf end, *before = memory_escape(&end);

	/* The library calls this. What cannot be remembered could be replaced: then
	 * nothing is. */
	if (setjmp(end) == 0)
		keep(outputs, path, true);
	else
		outputs->forgetful = true;
	memory_escape(before);
}

static void keep_options(
	struct outputs *outputs, const struct option_row *rows, const void *values)
{
	const char *path;

	for (; rows != NULL && rows->name != NULL; rows++)
		for (size_t i = 0; (path = option_path(rows, values, i)) != NULL; i++)
			keep(outputs, path, false);
}

void outputs_keep_files(struct outputs *outputs, const struct fsdp_checkpoint *checkpoint,
	const char *folder)
{
	if (outputs->keeper != NULL)
		outputs = outputs->keeper;
	size_t count = guards(outputs) ? fsdp_file_count(checkpoint) : 0;

	for (size_t i = 0; i < count; i++) {
		struct fsdp_span path = fsdp_file(checkpoint, i).path;

		keep_in(outputs, folder, (int)strlen(folder), (const char *)path.data,
			(int)path.size);
	}
}

static bool same_place(const char *a, const char *b)
{
	struct stat one, other;
	const char *name, *other_name;
	size_t size, other_size;

	return kept_place(a, &one, &name, &size) &&
	       kept_place(b, &other, &other_name, &other_size) && size == other_size &&
	       memcmp(name, other_name, size) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

/* A file that stdout was led into would lose its name to the other output. */
static bool is_stdout(const char *file)
{
	struct stat a, b;

	return stat(file, &a) == 0 && S_ISREG(a.st_mode) &&
	       fstat(STDOUT_FILENO, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* The file of this sink, which is open, is not that of another. */
static bool is_alone(const struct outputs *outputs, const struct sink *sink)
{
	const char *file = sink->temporary.target;

	for (size_t i = 0; file != NULL && i < outputs->count; i++) {
		const struct sink *other = &outputs->sinks[i];
		const char *taken = other->temporary.target;

		if (other->file == NULL && is_stdout(file))
			return false;
		if (other != sink && taken != NULL && same_place(file, taken))
			return false;
	}
	return true;
}

/* ---- what must stay ---- */

static void refuse_kept(const struct outputs *outputs, const char *path, const char *hint,
	struct usage *usage)
{
	enum kept_why why = kept_find(&outputs->kept, path);

	if (why != KEPT_NOT)
		usage_refuse(usage, hint,
			why == KEPT_READ
				? "%s: belongs to the input, so it is never replaced"
				: "%s: by its name belongs to the input, so it is never replaced: only a number differs",
			path);
}

static void refuse_target(
	const struct outputs *outputs, const char *path, struct usage *usage)
{
	refuse_kept(outputs, path,
		outputs->written.adds
			? "move it away first to have it made again"
			: "choose another path with -o: --force never replaces an input",
		usage);
}

/* An output in the directory that the command writes, under a name that it may write. */
static void check_shared_folder(const struct outputs *outputs, struct usage *usage)
{
	const struct written *written = &outputs->written;
	struct stat folder, other;
	const char *name;
	size_t size;

	for (size_t i = 0; i < outputs->count; i++) {
		const char *file = outputs->sinks[i].file;

		if (file == NULL || stat(written->path, &folder) != 0 ||
			!kept_place(file, &other, &name, &size) ||
			folder.st_dev != other.st_dev || folder.st_ino != other.st_ino ||
			!written->replaces(name))
			continue;
		usage_refuse(usage, "give the output another name",
			"%s: the command may write a file of this name", file);
	}
}

/* Files in the directory that the command writes. A directory that is read may get
 * subdirectories and new files. */
static void check_folder(const struct outputs *outputs, struct usage *usage)
{
	const char *path = outputs->written.path;
	bool is_input = kept_find(&outputs->kept, path) != KEPT_NOT;
	DIR *folder = opendir(path);
	size_t mark = memory_mark();
	const struct dirent *entry;

	if (folder == NULL && (errno == ENOENT || errno == ENOTDIR))
		return;
	if (folder == NULL)
		usage_refuse(usage, "name another directory", "%s: cannot be listed: %s",
			path, strerror(errno));
	memory_owns(folder, release_folder);
	while ((entry = readdir(folder)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (is_input && !outputs->written.adds)
			refuse_target(outputs, path, usage);
		else if (outputs->written.replaces(entry->d_name))
			refuse_target(outputs,
				memory_format("%s/%s", path, entry->d_name), usage);
	}
	memory_release(mark);
}

void outputs_check(const struct outputs *outputs, struct usage *usage)
{
	const struct written *written = &outputs->written;

	if (written->path == NULL)
		return;
	if (outputs->forgetful)
		memory_fail();
	if (strcmp(written->path, "-") == 0) {
		struct stat status;

		/* A shell has emptied what ">" names; what has bytes is added to. */
		if (fstat(STDOUT_FILENO, &status) != 0 || !S_ISREG(status.st_mode) ||
			status.st_size == 0 ||
			kept_find(&outputs->kept, "/proc/self/fd/1") == KEPT_NOT)
			return;
		usage_refuse(usage, "redirect it to another file",
			"standard output is a file of the input");
	}
	/* If the command itself writes a file where an output goes. */
	const char *file = written->path;
	FOR_EACH(i, outputs->count, other, outputs->sinks[i].file) {
		struct stat a, b;

		if (other == NULL ||
			(!same_place(file, other) &&
				(stat(file, &a) != 0 || stat(other, &b) != 0 ||
					a.st_dev != b.st_dev || a.st_ino != b.st_ino)))
			continue;
		refuse_shared(usage, other);
	}
	if (written->is_file) {
		refuse_target(outputs, written->path, usage);
	} else {
		check_shared_folder(outputs, usage);
		check_folder(outputs, usage);
	}
}

/* ---- opening ---- */

static void open_file(
	const struct outputs *outputs, struct sink *sink, struct usage *usage)
{
	refuse_kept(outputs, sink->file, "give the output another name", usage);
	sink->has_temporary = true;
	if (!temporary_open(&sink->temporary, sink->file)) {
		int why = errno;
		const char *slash = strrchr(sink->file, '/');

		if (why == ENOENT && slash != NULL)
			usage_hint(usage, "make the directory first: mkdir -p %.*s",
				(int)(slash - sink->file), sink->file);
		usage_refuse(usage, NULL, "%s: cannot be written: %s", sink->file,
			strerror(why));
	}
	sink->stream = fdopen(sink->temporary.descriptor, "w");
	if (sink->stream == NULL) {
		close(sink->temporary.descriptor);
		memory_fail();
	}
	if (!is_alone(outputs, sink))
		refuse_shared(usage, sink->file);
}

void outputs_open(struct outputs *outputs, const struct arguments *arguments,
	const struct texts *inputs, struct usage *usage)
{
	const struct common_options *common = &arguments->common;
	struct out **outs = memory_new(outputs->count, sizeof *outs);

	if (inputs->count != 0 && arguments->command->writes != NULL)
		arguments->command->writes(
			arguments->options, inputs->items[0], &outputs->written);
	for (size_t i = 0; i < inputs->count; i++)
		outputs_keep(outputs, inputs->items[i]);
	if (inputs->count != 0) {
		/* Files next to an input that are read with it. */
		const char *file = inputs->items[0];
		const char *slash = strrchr(file, '/'), *name;
		int folder = slash != NULL ? (int)(slash + 1 - file) : 0;

		for (size_t i = 0; outputs->written.reads != NULL &&
				   (name = outputs->written.reads(i)) != NULL;
			i++)
			keep_in(outputs, file, folder, name, (int)strlen(name));
	}
	keep_options(outputs, common_options, common);
	keep_options(outputs, arguments->command->options, arguments->options);
	outputs_check(outputs, usage);
	FOR_EACH(i, outputs->count, sink, &outputs->sinks[i]) {
		struct looks looks;

		if (sink->file != NULL)
			open_file(outputs, sink, usage);
		else
			sink->stream = stdout;
		looks = looks_for(common, fileno(sink->stream), sink->format->machine);
		outs[i] = out_new(sink->format, sink->stream, &looks);
	}
	if (outputs->count > 0)
		outputs->out =
			outputs->count == 1 ? outs[0] : out_many(outs, outputs->count);
}

/* ---- finishing ---- */

/* 0, the errno, or OUTPUT_IS_INPUT. What belongs to the input is only known now. */
static int commit_sink(const struct outputs *outputs, struct sink *sink)
{
	if (sink->temporary.target != NULL &&
		kept_find(&outputs->kept, sink->temporary.target) != KEPT_NOT)
		return OUTPUT_IS_INPUT;
	return temporary_commit(&sink->temporary) ? 0 : errno;
}

bool outputs_finish(struct outputs *outputs, bool answered,
	void (*complain)(void *context, const char *file, int error), void *context)
{
	int out_error = outputs->out != NULL ? out_finish(outputs->out) : 0;
	bool good = true, is_printed = false;

	FOR_EACH(i, outputs->count, sink, &outputs->sinks[i]) {
		/* The errno of what went wrong with the stream, or 0. */
		FILE *stream = sink->stream;
		int error = 0;
		errno = 0;
		if (ferror(stream) || fflush(stream) != 0 || ferror(stream))
			error = errno != 0 ? errno : out_error != 0 ? out_error : EIO;
		sink->stream = NULL;
		if (stream != stdout && fclose(stream) != 0 && error == 0)
			error = errno;

		if (sink->has_temporary && error == 0 && outputs->forgetful)
			error = ENOMEM;
		if (sink->has_temporary && error == 0 && !outputs->spoilt &&
			(answered || sink->format->has_failure))
			error = commit_sink(outputs, sink);
		if (sink->has_temporary) {
			temporary_done(&sink->temporary);
			sink->has_temporary = false;
		}
		if (error == EPIPE && sink->file == NULL)
			outputs->broken_pipe = is_printed = true;
		else if (error != 0) {
			complain(context, sink->file, error);
			is_printed = true;
			good = false;
		}
	}
	if (out_error != 0 && !is_printed) {
		complain(context, NULL, out_error);
		good = false;
	}
	return good;
}

bool outputs_have_text(const struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++) {
		if (outputs->sinks[i].file == NULL &&
			strcmp(outputs->sinks[i].format->name, "text") == 0)
			return true;
	}
	return false;
}

bool outputs_have_files(const struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++) {
		if (outputs->sinks[i].file != NULL)
			return true;
	}
	return false;
}

void outputs_done(struct outputs *outputs)
{
	out_free(outputs->out);
	FOR_EACH(i, outputs->count, sink, &outputs->sinks[i]) {
		if (sink->stream != NULL && sink->stream != stdout)
			fclose(sink->stream);
		if (sink->has_temporary)
			temporary_done(&sink->temporary);
	}
}
