/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the pickles of a file without loading them.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/pickle/listing.h"
#include "part/recordings.h"
#include "session/helper.h"
#include "session/session.h"

#define AT(member) offsetof(struct pickle_options, member)
static const struct option_row OPTIONS[] = {
	{ "globals", 0, OPTION_FLAG, NULL, AT(globals),
		.help = "list globals and their use (default)" },
	{ "tree", 0, OPTION_FLAG, NULL, AT(tree), .help = "the values, unresolved" },
	{ "member", 0, OPTION_TEXT, "NAME", AT(member),
		.help = "only this member of a zip" },
	{ "check", 0, OPTION_FLAG, NULL, AT(check),
		.help = "list globals that torch.load(weights_only=True) refuses" },
	{ NULL },
};

/* A pickle that ends too early is listed as far as it goes. */
static void tell_damage(struct run *run, const struct fsdp_pickles_stream *stream)
{
	if (stream->error == NULL)
		return;
	run_failure(run, fsdp_error_code_name(fsdp_error_code(stream->error)), NULL,
		"%.*s%s%s", (int)(stream->member.size < 256 ? stream->member.size : 256),
		stream->member.data != NULL ? (const char *)stream->member.data : "",
		stream->member.data != NULL ? ": " : "",
		fsdp_error_message(stream->error));
}

static bool is_metadata(const char *path)
{
	const char *last = strrchr(path, '/');

	return strcmp(last != NULL ? last + 1 : path, ".metadata") == 0;
}

static bool answer(struct run *run, const struct fsdp_pickles *pickles)
{
	const struct pickle_options *options = run->options;
	struct pickle_listing listing = {
		.pickles = pickles,
		.count = fsdp_pickles_count(pickles),
		.globals = options->globals || !options->tree,
		.tree = options->tree,
		.check = options->check,
	};
	size_t refusals = 0;

	if (options->check && is_metadata(run->path))
		run_note(run,
			"distributed checkpoints read .metadata with pickle.load, which refuses nothing");
	for (size_t i = 0; i < listing.count; i++) {
		struct fsdp_pickles_stream stream = fsdp_pickles_stream(pickles, i);
		refusals += stream.refusal_count;
		tell_damage(run, &stream);
	}
	run_begin(run, options->check && refusals > 0 ? STATUS_BAD : STATUS_GOOD);
	pickle_text(run, &listing);
	out_fields(run->out, &pickle_record, (struct subject){ &listing, &listing });
	pickle_rows(run->out, &listing);
	fsdp_pickles_walk_free(listing.walk);
	return !listing.failed;
}

/* Whether a file begins with a pickle of protocol 2 or later, or is a zip archive. */
static bool may_hold_pickle(const char *path)
{
	unsigned char head[4] = { 0 };
	FILE *file = fopen(path, "re");
	size_t size = file != NULL ? fread(head, 1, sizeof head, file) : 0;

	if (file != NULL)
		fclose(file);
	return size == sizeof head &&
	       ((head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) ||
		       memcmp(head, "PK\3\4", 4) == 0);
}

/* A directory has many files: names the first one with a pickle. */
static bool refuse_folder(struct run *run, const struct trace_paths *files)
{
	const char *first = NULL;
	char hint[PATH_MAX + 64];
	struct stat found;

	for (size_t i = 0; first == NULL && i < files->count; i++) {
		if (helper_kind(files->items[i]) != FSDP_REMOTE_FILE &&
			(stat(files->items[i], &found) != 0 || !S_ISREG(found.st_mode) ||
				!may_hold_pickle(files->items[i])))
			continue;
		first = files->items[i];
	}
	if (first == NULL)
		return refuse(run, "give a file", "%s is a directory without a pickle",
			run->path);
	snprintf(hint, sizeof hint, "fsdp-inspect pickle %s", first);
	return refuse(run, hint, "%s is a directory: pickle lists one file", run->path);
}

/* Without names that start with a dot, except the metadata of a checkpoint. */
static bool list_folder(const char *path, struct trace_paths *ret_files)
{
	struct stat found;
	char metadata[PATH_MAX];
	int size = snprintf(metadata, sizeof metadata, "%s/.metadata", path);

	return (size < 0 || (size_t)size >= sizeof metadata ||
		       (helper_kind(metadata) != FSDP_REMOTE_FILE &&
			       stat(metadata, &found) != 0) ||
		       trace_paths_add(ret_files, metadata)) &&
	       trace_paths_add(ret_files, path);
}

static bool run_pickle(struct run *run, struct fsdp_error **ret_error)
{
	const struct pickle_options *options = run->options;
	const struct fsdp_pickles_options opening = {
		.size = sizeof opening,
		.member = options->member,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.remote = run->remote,
	};
	struct fsdp_pickles *pickles = NULL;
	bool done;

	if (run->path_count != 1)
		return refuse(run, "run it once for each", "pickle takes one file");
	if (path_is_folder(run->path)) {
		struct trace_paths files = { 0 };
		done = list_folder(run->path, &files) && refuse_folder(run, &files);
		trace_paths_done(&files);
		return done;
	}
	if (!fsdp_pickles_open(run->path, &opening, &pickles, ret_error))
		return false;
	done = answer(run, pickles);
	fsdp_pickles_free(pickles);
	return done;
}

const struct command command_pickle = {
	.name = "pickle",
	.group = GROUP_BYTES,
	.summary = "show globals and values of a pickle",
	.synopsis = "[--globals | --tree] [--member=NAME] [--check] FILE",
	.examples = { "pickle model.pt", "pickle --check model.pt",
		"pickle --tree step-1000/.metadata" },
	.exit_1 = "with --check: torch.load(weights_only=True) would refuse the file",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &pickle_record,
	.output = "text",
	.inputs = INPUTS_FILE,
	.options_size = sizeof(struct pickle_options),
	.run = run_pickle,
};
