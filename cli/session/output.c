/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which outputs are written and where they go.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args/parse.h"
#include "args/topics.h"
#include "session/launcher.h"
#include "session/output.h"
#include "session/style.h"

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

static void list_fitting(const struct command *command, char *buffer, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; out_format(i) != NULL && used < size; i++) {
		if (fits(out_format(i), command))
			used += (size_t)snprintf(buffer + used, size - used, "%s%s",
				used > 0 ? ", " : "", out_format(i)->name);
	}
}

static enum usage_result usage_format(
	struct usage *usage, const struct command *command, const char *name, bool exists)
{
	char fitting[200] = "";
	struct nearest nearest;
	const char *instead = removed_word(name, command->name);

	if (instead != NULL) {
		usage_what(usage, "output %s was removed; use %s", name, instead);
		return USAGE_WRONG;
	}
	if (exists)
		usage_what(usage, "%s has no output %s", command->name, name);
	else
		usage_what(usage, "unknown output %s", name);
	if (command->shapes == 0) {
		usage_hint(usage, "%s prints its text as it is", command->name);
		return USAGE_WRONG;
	}
	list_fitting(command, fitting, sizeof fitting);
	nearest_init(&nearest, name);
	for (size_t i = 0; !exists && out_format(i) != NULL; i++) {
		if (fits(out_format(i), command))
			nearest_try(&nearest, out_format(i)->name);
	}
	if (nearest.best != NULL)
		usage_hint(usage, "did you mean %s? (one of %s)", nearest.best, fitting);
	else
		usage_hint(usage, "one of %s", fitting);
	return USAGE_WRONG;
}

static enum usage_result add_sink(struct outputs *outputs, const struct command *command,
	const char *name, const char *file, struct usage *usage)
{
	const struct out_format *format = out_format_find(name);
	struct sink *sinks;

	if (command->shapes == 0 && file == NULL && strcmp(name, "text") == 0)
		return USAGE_GOOD;
	if (format == NULL || !fits(format, command))
		return usage_format(usage, command, name, format != NULL);
	for (size_t i = 0; i < outputs->count; i++) {
		const char *other = outputs->sinks[i].file;

		if (file == NULL && other == NULL) {
			usage_what(usage, "only one output can go to standard output");
			usage_hint(usage, "give the other a file: -o %s=FILE", name);
			return USAGE_WRONG;
		}
		if (file != NULL && other != NULL && strcmp(file, other) == 0) {
			usage_what(usage, "two outputs have the same file, %s", file);
			usage_hint(usage, "give each a file of its own");
			return USAGE_WRONG;
		}
	}
	sinks = list_grown(outputs->sinks, outputs->count, sizeof *sinks);
	if (sinks == NULL)
		return USAGE_MEMORY;
	outputs->sinks = sinks;
	sinks[outputs->count++] = (struct sink){ .format = format, .file = file };
	return USAGE_GOOD;
}

/* The format that the name of a file tells: sarif.json, names.csv. NULL: none
 * that the command has. */
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
static enum usage_result add_typed(struct outputs *outputs, const struct command *command,
	const char *typed, struct owned *owned, struct usage *usage)
{
	const char *equals = strchr(typed, '=');
	const char *file = NULL;
	char *name;

	if (equals == NULL) {
		enum usage_result result = add_sink(outputs, command, typed, NULL, usage);
		const struct out_format *format = named_format(command, typed);

		if (result == USAGE_WRONG && format != NULL)
			usage_hint(usage, "did you mean: -o %s=%s", format->name, typed);
		return result;
	}
	if (equals[1] == '\0') {
		usage_what(usage, "-o %s names no file", typed);
		usage_hint(usage, "FORMAT=FILE, or FORMAT alone for standard output");
		return USAGE_WRONG;
	}
	if (strcmp(equals + 1, "-") != 0)
		file = equals + 1;
	name = owned_copy(owned, typed, (size_t)(equals - typed));
	if (name == NULL)
		return USAGE_MEMORY;
	return add_sink(outputs, command, name, file, usage);
}

/* Two checkpoints in one answer need an output that nests. */
/* Raw names are asked for: those are an output of their own. */
static const char *default_output(
	const struct command *command, const struct common_options *common)
{
	const struct out_format *names = out_format_find("name");

	return common->null && (command->shapes & names->shapes) != 0 ? names->name
								      : command->output;
}

static enum usage_result check_separate(const struct outputs *outputs,
	const struct common_options *common, const struct command *command,
	struct usage *usage)
{
	bool nests = common->separate && command->judge == NULL;

	for (size_t i = 0; nests && i < outputs->count; i++) {
		const char *name = outputs->sinks[i].format->name;

		if (strcmp(name, "text") != 0 && strcmp(name, "json") != 0) {
			usage_what(usage, "--separate cannot be shown as %s", name);
			usage_hint(usage, "one of text, json");
			return USAGE_WRONG;
		}
	}
	return USAGE_GOOD;
}

/* In the names of files %p is the number of the part. */
static enum usage_result add_named(struct outputs *outputs, const struct command *command,
	const struct common_options *common, size_t index, struct owned *owned,
	struct usage *usage)
{
	const char *typed = launcher_name(common, common->outputs.items[index], owned);

	return typed != NULL ? add_typed(outputs, command, typed, owned, usage)
			     : USAGE_MEMORY;
}

enum usage_result outputs_choose(struct outputs *outputs, const struct command *command,
	const struct common_options *common, struct owned *owned, struct usage *usage)
{
	enum usage_result result = USAGE_GOOD;

	for (size_t i = 0; result == USAGE_GOOD && i < common->outputs.count; i++)
		result = add_named(outputs, command, common, i, owned, usage);
	if (result == USAGE_GOOD && common->json)
		result = add_sink(outputs, command, "json", NULL, usage);
	if (result == USAGE_GOOD && common->jsonl)
		result = add_sink(outputs, command, "jsonl", NULL, usage);
	if (result == USAGE_GOOD && outputs->count == 0)
		result = add_sink(
			outputs, command, default_output(command, common), NULL, usage);
	if (result == USAGE_GOOD)
		result = check_separate(outputs, common, command, usage);
	return result;
}

/* ---- what is read ---- */

static bool guards(const struct outputs *outputs)
{
	return outputs_have_files(outputs) || outputs->written.path != NULL;
}

static void keep(struct outputs *outputs, const char *path, bool has_set)
{
	/* What cannot be remembered could be replaced: then nothing is. */
	if (guards(outputs) && !kept_add(&outputs->kept, path, has_set))
		outputs->forgetful = true;
}

/* A name of so many bytes, in a folder or (of no bytes) where the process is. */
static void keep_in(struct outputs *outputs, const char *folder, int folder_size,
	const char *name, int size)
{
	char *path;

	if (asprintf(&path, "%.*s%s%.*s", folder_size, folder,
		    folder_size != 0 && folder[folder_size - 1] != '/' ? "/" : "", size,
		    name) < 0) {
		outputs->forgetful = true;
		return;
	}
	keep(outputs, path, false);
	free(path);
}

void outputs_keep(void *context, const char *path)
{
	struct outputs *outputs = context;

	keep(outputs, path, true);
}

static void keep_options(
	struct outputs *outputs, const struct option_row *rows, const void *values)
{
	const char *path;

	for (; rows != NULL && rows->name != NULL; rows++)
		for (size_t i = 0; (path = option_path(rows, values, i)) != NULL; i++)
			keep(outputs, path, false);
}

/* What is beside a file that is read, and is read with it. */
static void keep_beside(struct outputs *outputs, const char *file)
{
	const char *slash = strrchr(file, '/'), *name;
	int folder = slash != NULL ? (int)(slash + 1 - file) : 0;

	for (size_t i = 0; outputs->written.reads != NULL &&
			   (name = outputs->written.reads(i)) != NULL;
		i++)
		keep_in(outputs, file, folder, name, (int)strlen(name));
}

void outputs_keep_files(struct outputs *outputs, const struct fsdp_checkpoint *checkpoint,
	const char *folder)
{
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

static bool is_kept(const struct outputs *outputs, const char *path, const char *hint,
	struct usage *usage)
{
	switch (kept_holds(&outputs->kept, path)) {
	case KEPT_NOT:
		return false;
	case KEPT_READ:
		usage_what(
			usage, "%s: belongs to the input, so it is never replaced", path);
		break;
	case KEPT_SET:
		usage_what(usage,
			"%s: by its name belongs to the input, so it is never replaced: only a number differs",
			path);
		break;
	}
	usage_hint(usage, "%s", hint);
	return true;
}

/* What the command itself would replace. */
static bool is_kept_target(
	const struct outputs *outputs, const char *path, struct usage *usage)
{
	return is_kept(outputs, path,
		outputs->written.adds
			? "move it away first to have it made again"
			: "name another place with -o: --force replaces nothing that is read",
		usage);
}

/* Whether the command itself writes a file where an output goes. */
static bool is_shared(
	const struct outputs *outputs, const char *file, struct usage *usage)
{
	for (size_t i = 0; i < outputs->count; i++) {
		const char *other = outputs->sinks[i].file;
		struct stat a, b;

		if (other == NULL ||
			(!same_place(file, other) &&
				(stat(file, &a) != 0 || stat(other, &b) != 0 ||
					a.st_dev != b.st_dev || a.st_ino != b.st_ino)))
			continue;
		usage_what(usage, "two outputs have the same file, %s", other);
		usage_hint(usage, "give each a file of its own");
		return true;
	}
	return false;
}

/* An output in the folder that the command writes, under a name that it may write. */
static bool shares_folder(const struct outputs *outputs, struct usage *usage)
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
		usage_what(usage, "%s: the command may write a file of this name", file);
		usage_hint(usage, "give the output another name");
		return true;
	}
	return false;
}

/* What is in the folder that the command writes. */
static bool keeps_entry(const struct outputs *outputs, const char *name, bool is_input,
	struct usage *usage, bool *ret_keeps)
{
	char *path;

	*ret_keeps = strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
	if (!*ret_keeps)
		return true;
	if (is_input && !outputs->written.adds)
		return is_kept_target(outputs, outputs->written.path, usage);
	*ret_keeps = outputs->written.replaces(name);
	if (!*ret_keeps)
		return true;
	if (asprintf(&path, "%s/%s", outputs->written.path, name) < 0)
		return false;
	*ret_keeps = is_kept_target(outputs, path, usage);
	free(path);
	return true;
}

/* A folder that is read may get others below it, and new files. */
static enum usage_result check_folder(const struct outputs *outputs, struct usage *usage)
{
	const char *path = outputs->written.path;
	bool is_input = kept_holds(&outputs->kept, path) != KEPT_NOT, keeps = false;
	bool good = true;
	DIR *folder = opendir(path);
	const struct dirent *entry;

	if (folder == NULL && (errno == ENOENT || errno == ENOTDIR))
		return USAGE_GOOD;
	if (folder == NULL) {
		usage_what(usage, "%s: cannot be listed: %s", path, strerror(errno));
		usage_hint(usage, "name another directory");
		return USAGE_WRONG;
	}
	while (good && !keeps && (entry = readdir(folder)) != NULL)
		good = keeps_entry(outputs, entry->d_name, is_input, usage, &keeps);
	closedir(folder);
	return !good ? USAGE_MEMORY : keeps ? USAGE_WRONG : USAGE_GOOD;
}

static enum usage_result check_stdout(const struct outputs *outputs, struct usage *usage)
{
	struct stat status;

	/* A shell has emptied what ">" names; what has bytes is added to. */
	if (fstat(STDOUT_FILENO, &status) != 0 || !S_ISREG(status.st_mode) ||
		status.st_size == 0 ||
		kept_holds(&outputs->kept, "/proc/self/fd/1") == KEPT_NOT)
		return USAGE_GOOD;
	usage_what(usage, "standard output is a file of the input");
	usage_hint(usage, "redirect it to another file");
	return USAGE_WRONG;
}

enum usage_result outputs_check(const struct outputs *outputs, struct usage *usage)
{
	const struct written *written = &outputs->written;

	if (written->path == NULL)
		return USAGE_GOOD;
	if (outputs->forgetful)
		return USAGE_MEMORY;
	if (strcmp(written->path, "-") == 0)
		return check_stdout(outputs, usage);
	if (is_shared(outputs, written->path, usage))
		return USAGE_WRONG;
	if (written->is_file)
		return is_kept_target(outputs, written->path, usage) ? USAGE_WRONG
								     : USAGE_GOOD;
	return shares_folder(outputs, usage) ? USAGE_WRONG : check_folder(outputs, usage);
}

/* ---- opening ---- */

static enum usage_result open_file(
	const struct outputs *outputs, struct sink *sink, struct usage *usage)
{
	if (is_kept(outputs, sink->file, "give the output another name", usage))
		return USAGE_WRONG;
	sink->has_temporary = true;
	if (!temporary_open(&sink->temporary, sink->file)) {
		int why = errno;
		const char *slash = strrchr(sink->file, '/');

		usage_what(usage, "%s: cannot be written: %s", sink->file, strerror(why));
		if (why == ENOENT && slash != NULL)
			usage_hint(usage, "make the folder first: mkdir -p %.*s",
				(int)(slash - sink->file), sink->file);
		return USAGE_WRONG;
	}
	sink->stream = fdopen(sink->temporary.descriptor, "w");
	if (sink->stream == NULL) {
		close(sink->temporary.descriptor);
		return USAGE_MEMORY;
	}
	if (!is_alone(outputs, sink)) {
		usage_what(usage, "two outputs have the same file, %s", sink->file);
		usage_hint(usage, "give each a file of its own");
		return USAGE_WRONG;
	}
	return USAGE_GOOD;
}

enum usage_result outputs_open(struct outputs *outputs, const struct arguments *arguments,
	const struct texts *inputs, struct usage *usage)
{
	const struct common_options *common = &arguments->common;
	struct out **outs = calloc(outputs->count + 1, sizeof *outs);
	enum usage_result result = outs != NULL ? USAGE_GOOD : USAGE_MEMORY;

	if (inputs->count != 0 && arguments->command->writes != NULL)
		arguments->command->writes(
			arguments->options, inputs->items[0], &outputs->written);
	for (size_t i = 0; i < inputs->count; i++)
		outputs_keep(outputs, inputs->items[i]);
	if (inputs->count != 0)
		keep_beside(outputs, inputs->items[0]);
	keep_options(outputs, common_options, common);
	keep_options(outputs, arguments->command->options, arguments->options);
	if (result == USAGE_GOOD)
		result = outputs_check(outputs, usage);
	for (size_t i = 0; result == USAGE_GOOD && i < outputs->count; i++) {
		struct sink *sink = &outputs->sinks[i];
		struct looks looks;

		if (sink->file != NULL)
			result = open_file(outputs, sink, usage);
		else
			sink->stream = stdout;
		if (result != USAGE_GOOD)
			break;
		looks = looks_for(common, fileno(sink->stream), sink->format->machine);
		outs[i] = out_new(sink->format, sink->stream, &looks);
		if (outs[i] == NULL)
			result = USAGE_MEMORY;
	}
	if (result != USAGE_GOOD) {
		for (size_t i = 0; outs != NULL && i < outputs->count; i++)
			out_free(outs[i]);
	} else if (outputs->count > 0) {
		/* Takes them over, also when it fails. */
		outputs->out =
			outputs->count == 1 ? outs[0] : out_many(outs, outputs->count);
		if (outputs->out == NULL)
			result = USAGE_MEMORY;
	}
	free(outs);
	return result;
}

/* ---- finishing ---- */

/* The errno of what went wrong with the stream, or 0. Files are closed. */
static int finish_stream(struct sink *sink, int out_error)
{
	FILE *stream = sink->stream;
	int error = 0;

	errno = 0;
	if (ferror(stream) || fflush(stream) != 0 || ferror(stream))
		error = errno != 0 ? errno : out_error != 0 ? out_error : EIO;
	sink->stream = NULL;
	if (stream != stdout && fclose(stream) != 0 && error == 0)
		error = errno;
	return error;
}

/* 0, the errno, or OUTPUT_IS_INPUT. What belongs to the input is only known now. */
static int put_in_place(const struct outputs *outputs, struct sink *sink)
{
	if (sink->temporary.target != NULL &&
		kept_holds(&outputs->kept, sink->temporary.target) != KEPT_NOT)
		return OUTPUT_IS_INPUT;
	return temporary_commit(&sink->temporary) ? 0 : errno;
}

bool outputs_finish(struct outputs *outputs, bool answered,
	void (*complain)(void *context, const char *file, int error), void *context)
{
	int out_error = outputs->out != NULL ? out_finish(outputs->out) : 0;
	bool good = true, told = false;

	for (size_t i = 0; i < outputs->count; i++) {
		struct sink *sink = &outputs->sinks[i];
		int error = finish_stream(sink, out_error);

		if (sink->has_temporary && error == 0 && outputs->forgetful)
			error = ENOMEM;
		if (sink->has_temporary && error == 0 && !outputs->spoilt &&
			(answered || sink->format->tells_failure))
			error = put_in_place(outputs, sink);
		if (sink->has_temporary) {
			temporary_done(&sink->temporary);
			sink->has_temporary = false;
		}
		if (error == EPIPE && sink->file == NULL)
			outputs->broken_pipe = told = true;
		else if (error != 0) {
			complain(context, sink->file, error);
			told = true;
			good = false;
		}
	}
	if (out_error != 0 && !told) {
		complain(context, NULL, out_error);
		good = false;
	}
	return good;
}

bool outputs_show_text(const struct outputs *outputs)
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
	for (size_t i = 0; i < outputs->count; i++) {
		struct sink *sink = &outputs->sinks[i];

		if (sink->stream != NULL && sink->stream != stdout)
			fclose(sink->stream);
		if (sink->has_temporary)
			temporary_done(&sink->temporary);
	}
	free(outputs->sinks);
	kept_done(&outputs->kept);
	outputs->sinks = NULL;
}
