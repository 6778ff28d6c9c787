/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the checkpoints and recordings of a run, and reports how that failed.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/session.h"
#include "session/session-private.h"

/* ---- Facts of the machine: processors, and whether a path is a directory ---- */

bool path_is_folder(const char *path)
{
	enum fsdp_remote_kind kind = helper_kind(path);
	struct stat status;

	if (kind != FSDP_REMOTE_LOCAL)
		return kind == FSDP_REMOTE_FOLDER;
	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

unsigned jobs_wanted(const struct common_options *common)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (common->jobs > 0)
		return (unsigned)common->jobs;
	return cores < 1 ? 1 : cores < 8 ? (unsigned)cores : 8;
}

/* ---- inputs ---- */

static void note_plan(struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_plan_facts plan;

	if (!fsdp_checkpoint_plan(checkpoint, &plan) || plan.path == NULL)
		return;
	/* Without a checkpoint it is the input itself. */
	if (session->inputs->has_no_checkpoint)
		return;
	uint32_t record = collected_input(&session->collected, memory_text(plan.path),
		plan.from != NULL ? plan.from : "plan");
	session->collected.inputs[record].found = plan.found;
	if (plan.found && !session->command->shows_plan)
		collected_note(&session->collected, "using sharding plan %s", plan.path);
}

/* Files that were read though only another of their set was named. */
static void note_siblings(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	const char *path;

	for (size_t i = 0; (path = fsdp_checkpoint_set_file(checkpoint, i)) != NULL;
		i++) {
		uint32_t record = collected_input(
			&session->collected, memory_text(path), "checkpoint");
		session->collected.inputs[record].found = true;
	}
}

/* ---- which paths are one checkpoint ---- */

/* Status of the directory of a path. False: it does not exist, or the path is too long.
 */
static bool stat_parent(const char *path, struct stat *ret_found)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX] = ".";
	size_t size = slash != NULL ? (size_t)(slash - path) + 1 : 0;

	if (size >= sizeof parent)
		return false;
	if (size > 0) {
		memcpy(parent, path, size);
		parent[size] = '\0';
	}
	return stat(parent, ret_found) == 0;
}

static bool share_folder(const char *a, const char *b)
{
	struct stat left, right;

	return stat_parent(a, &left) && stat_parent(b, &right) &&
	       left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/* Number of paths from this one on that are one checkpoint: a directory, or its files. */
size_t session_paths_together(const struct session *session, size_t first)
{
	const struct texts *paths = &session->inputs->paths;
	size_t end = first + 1;

	/* Of a URL nothing around it is known. */
	if (session->apart || path_is_folder(paths->items[first]) ||
		helper_kind(paths->items[first]) != FSDP_REMOTE_LOCAL)
		return 1;
	while (end < paths->count &&
		share_folder(paths->items[first], paths->items[end]) &&
		!path_is_folder(paths->items[end]))
		end++;
	return end - first;
}

size_t session_count_groups(const struct session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < session->inputs->paths.count; count++)
		i += session_paths_together(session, i);
	return count;
}

size_t run_checkpoints(const struct run *run)
{
	return session_count_groups(run->session);
}

/* ---- a directory with checkpoints ---- */

enum { BELOW_NAMED = 3 };

/* Whether the error is in the log, plan or list given with the checkpoint. */
static bool is_beside(const struct session *session, const struct fsdp_error *error)
{
	const struct fsdp_options *options = &session->inputs->options;
	const char *const others[] = { options->units_path, options->plan_path,
		options->listing_path };
	const char *path = error != NULL ? fsdp_error_path(error) : NULL;

	for (size_t i = 0; path != NULL && i < sizeof others / sizeof *others; i++)
		if (others[i] != NULL && strcmp(others[i], path) == 0)
			return true;
	return false;
}

/* Whether a directory may be that of a run, although a file in it was opened. */
static bool may_lead(const char *path, size_t count, const struct fsdp_error *error)
{
	enum fsdp_error_code code =
		error != NULL ? fsdp_error_code(error) : FSDP_ERROR_MEMORY;

	return count == 1 && path_is_folder(path) &&
	       (code == FSDP_ERROR_USAGE || code == FSDP_ERROR_NOT_A_CHECKPOINT ||
		       code == FSDP_ERROR_UNSUPPORTED);
}

/* Whether what was found was saved by one run, step by step. */
static bool are_steps(const struct fsdp_discover *below)
{
	for (size_t i = 0; i < fsdp_discover_count(below); i++)
		if (fsdp_discover_step(below, i).step < 0)
			return false;
	return true;
}

/* "contains 2 checkpoints: run/step-1, run/step-2" */
static void refuse_below(struct session *session, const struct fsdp_discover *below,
	const char *path, uint32_t input)
{
	struct failure *failure = collected_failure(&session->collected, "usage");
	size_t count = fsdp_discover_count(below);
	char text[1024] = "";
	int size = snprintf(text, sizeof text, "contains %s%zu checkpoints: ",
		fsdp_discover_limit_reached(below) ? "at least " : "", count);

	for (size_t i = 0; i < count && i < BELOW_NAMED && size < (int)sizeof text; i++)
		size += snprintf(text + size, sizeof text - (size_t)size, "%s%s",
			i > 0 ? ", " : "", fsdp_discover_path(below, i));
	if (count > BELOW_NAMED && size < (int)sizeof text)
		snprintf(text + size, sizeof text - (size_t)size, ", and %zu more",
			count - BELOW_NAMED);
	failure->message = text_new(text);
	failure->hint = are_steps(below) ? text_format("fsdp-inspect latest %s", path)
					 : text_format("fsdp-inspect %s %s",
						   session->command->name,
						   fsdp_discover_path(below, count - 1));
	failure->path = text_new(path);
	failure->input = input;
}

/* The answer is partial: so many entries below the directory are missing in it. */
static void report_skipped(struct session *session, const char *path, uint32_t input,
	uint64_t count, const char *what, const char *first)
{
	if (count == 0)
		return;
	session->status = status_worse(session->status, STATUS_PARTIAL);
	struct failure *failure = collected_fail(&session->collected, "system", NULL,
		"%" PRIu64 " %s%s%s", count, what, first[0] != '\0' ? ": " : "", first);
	failure->path = text_new(path);
	failure->input = input;
}

/* Whether all of them are files of the directory itself, not of one below it. */
static bool are_its_own(const struct fsdp_discover *below, const char *path)
{
	FOR_EACH(i, fsdp_discover_count(below), name,
		fsdp_discover_path(below, i) + strlen(path))
		if (strchr(name + (*name == '/'), '/') != NULL ||
			path_is_folder(fsdp_discover_path(below, i)))
			return false;
	return true;
}

/* Whether the command lists several checkpoints below a directory, or checks each of
 * them. Files of one directory may be parts of one checkpoint: each alone says nothing of
 * it. */
static bool takes_below(const struct session *session, const struct fsdp_discover *below,
	const char *path)
{
	const struct command *command = session->command;

	return command->check_inputs != NULL
		       ? session->arguments->common.part_count == 0 &&
				 !are_its_own(below, path)
		       : command->answers_each && !session->separate;
}

/* The variant of the weights in a part of a pipeline: "fp16" of
 * diffusion_pytorch_model.fp16.safetensors. Absent: they have no variant. */
static struct text find_variant(const struct fsdp_discover *below, const char *part)
{
	static const char *const stems[] = { "diffusion_pytorch_model.", "model.",
		"pytorch_model." };
	size_t size = strlen(part);

	FOR_EACH(i, fsdp_discover_count(below), path, fsdp_discover_path(below, i)) {
		if (strncmp(path, part, size) != 0 || path[size] != '/')
			continue;
		FOR_EACH(k, sizeof stems / sizeof *stems, begin,
			path + size + 1 + strlen(stems[k])) {
			if (strncmp(path + size + 1, stems[k], strlen(stems[k])) != 0)
				continue;
			size_t length = strcspn(begin, "./");
			if (length > 0 && (strcmp(begin + length, ".safetensors") == 0 ||
						  strcmp(begin + length, ".bin") == 0))
				return (struct text){ begin, length };
		}
	}
	return (struct text){ NULL, 0 };
}

/* What a pipeline cannot be loaded without. */
static void report_lacking(struct session *session, const char *folder,
	const struct fsdp_discover *below, uint32_t input)
{
	const struct fsdp_discover_part *part;

	for (size_t i = 0; (part = fsdp_discover_lacking(below, i)) != NULL; i++) {
		size_t above = strncmp(part->path, folder, strlen(folder)) == 0
				       ? strlen(folder)
				       : 0;
		struct text path =
			text_new(part->path + above + strspn(part->path + above, "/"));
		const char *name = strrchr(part->path, '/');
		/* Pipelines load without these. */
		bool is_optional =
			name != NULL && (strcmp(name, "/safety_checker") == 0 ||
						strcmp(name, "/feature_extractor") == 0 ||
						strcmp(name, "/image_encoder") == 0);
		const struct finding about = {
			.severity = SEVERITY_ERROR, .input = input, .file = path
		};
		struct text variant = find_variant(below, part->path);

		session->status = STATUS_BAD;
		if (part->is_there && variant.size > 0) {
			int length = variant.size < 60 ? (int)variant.size : 60;

			collected_report(&session->collected, "FI1001", about,
				memory_format(
					"pass variant=\"%.*s\" to from_pretrained()",
					length, variant.data),
				"this part has weights of the variant %.*s only: from_pretrained() of the pipeline needs variant=\"%.*s\"",
				length, variant.data, length, variant.data);
			continue;
		}
		collected_report(&session->collected, "FI1001", about,
			part->is_there ? "copy the weights into this directory again"
			: is_optional
				? "copy the directory again, or pass None for this part to from_pretrained"
				: "copy the directory again",
			part->is_there
				? "weights of %s are missing (listed in model_index.json): the directory has neither diffusion_pytorch_model.safetensors nor model.safetensors"
				: "directory of %s is missing (listed in model_index.json)",
			part->class_name);
	}
}

/* A pipeline of Diffusers without missing part, of a command that checks its inputs. */
static bool is_whole_pipeline(const struct session *session, const char *folder,
	const struct fsdp_discover *below)
{
	char path[PATH_MAX];
	struct stat status;

	return session->command->check_inputs != NULL &&
	       fsdp_discover_lacking(below, 0) == NULL &&
	       snprintf(path, sizeof path, "%s/model_index.json", folder) <
		       (int)sizeof path &&
	       stat(path, &status) == 0;
}

/*
 * After a directory could not be opened: searches checkpoints below it. If it finds one,
 * *ret_only is its path, to be opened instead. If it finds several it returns true: the
 * command lists them, or a failure was added.
 */
static bool look_below(struct session *session, const char *path, uint32_t input,
	enum fsdp_error_code code, const char **ret_only)
{
	struct fsdp_options options = session->inputs->options;
	struct fsdp_discover *below;

	if (!fsdp_discover_new(path, &options, &below, NULL))
		memory_fail();
	memory_owns(below, release_discover);
	size_t count = fsdp_discover_count(below);
	if (count > 0) {
		uint64_t unread = fsdp_discover_unread(below);

		/* What could not be looked at may hold another one. */
		report_skipped(session, path, input, unread,
			unread == 1 ? "file or directory below could not be read"
				    : "files or directories below could not be read",
			"");
	}
	if (session->command->check_inputs != NULL)
		report_lacking(session, path, below, input);
	if (code == FSDP_ERROR_UNSUPPORTED && are_its_own(below, path))
		count = 0;
	if (count == 1) {
		*ret_only = fsdp_discover_path(below, 0);
		session->collected.lacks_parts = fsdp_discover_lacking(below, 0) != NULL;
		if (is_whole_pipeline(session, path, below))
			collected_note(&session->collected,
				"the directories of the other parts that model_index.json lists are present");
		else if (session->command->check_inputs == NULL &&
			 session->collected.lacks_parts)
			collected_note(&session->collected,
				"other parts of the pipeline are incomplete (fsdp-inspect audit lists them)");
	} else if (count > 1 && session->below == NULL &&
		   takes_below(session, below, path)) {
		if (session->command->check_inputs != NULL) {
			const char *first;
			uint64_t others = fsdp_discover_others(below, &first);

			/* Checks are of the directories of checkpoints only. */
			report_skipped(session, path, input, others,
				others == 1
					? "file or directory below is outside of the checkpoints' directories"
					: "files or directories below are outside of the checkpoints' directories",
				first);
		}
		session->below = below;
	} else if (count > 1) {
		refuse_below(session, below, path, input);
	}
	return count > 1;
}

/* Puts the path into the line to type. */
static void name_file(struct failure *failure, const char *path)
{
	static const char FILE_WORD[] = "FILE";
	const size_t size = sizeof FILE_WORD - 1;

	if (path == NULL || failure->hint.size < size ||
		memmem(failure->hint.data, failure->hint.size, "fsdp-inspect", 12) ==
			NULL ||
		memcmp(failure->hint.data + failure->hint.size - size, FILE_WORD, size) !=
			0)
		return;
	failure->hint = text_format(
		"%.*s%s", (int)(failure->hint.size - size), failure->hint.data, path);
}

void session_name_file(struct session *session, const char *path)
{
	size_t count = session->collected.failure_count;

	if (count != 0)
		name_file(&session->collected.failures[count - 1], path);
}

/* Of several files given the one that an error is of: what to type next is about that. */
static const char *wrong_path(
	const struct fsdp_error *error, const char *const *paths, size_t count)
{
	const char *path = error != NULL ? fsdp_error_path(error) : NULL;

	for (size_t i = 0; path != NULL && i < count; i++)
		if (strcmp(path, paths[i]) == 0)
			return paths[i];
	return paths[0];
}

/* Opens the paths for the session, which has the checkpoint, also one that failed, and
 * the error. */
static bool open_paths(struct session *session, const char *const *paths, size_t count,
	const struct fsdp_options *options, struct fsdp_checkpoint **ret_checkpoint,
	struct fsdp_error **ret_error)
{
	*ret_checkpoint = NULL;
	*ret_error = NULL;
	session->checkpoints = memory_grown(session->checkpoints,
		session->checkpoint_count, sizeof *session->checkpoints);
	bool opened =
		fsdp_checkpoint_open(paths, count, options, ret_checkpoint, ret_error);
	if (*ret_checkpoint != NULL)
		session->checkpoints[session->checkpoint_count++] = *ret_checkpoint;
	if (!opened && *ret_error == NULL)
		memory_fail();
	if (!opened)
		memory_owns(*ret_error, release_error);
	return opened;
}

/* The checkpoint that was opened last; NULL: none. */
static void close_last(struct session *session, struct fsdp_checkpoint *checkpoint)
{
	if (checkpoint != NULL)
		session->checkpoint_count--;
	fsdp_checkpoint_free(checkpoint);
}

/*
 * Opens the paths as one checkpoint and takes in all that it says of itself. first is the
 * record of the first path. NULL if it cannot be opened: that was added to the failures.
 */
struct fsdp_checkpoint *session_open(
	struct session *session, const char *const *paths, size_t count, size_t first)
{
	struct fsdp_options options = session->inputs->options;
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_error *error;
	const char *only = NULL, *base;
	size_t error_count, failure_count;
	bool opened;

	options.keep_failed = true;
	options.look_beside = session->command->looks_beside;
	options.count_beside = session->command->counts_beside;
	opened =
		open_paths(session, paths, session->inputs->has_no_checkpoint ? 0 : count,
			&options, &checkpoint, &error);
	if (!opened && !is_beside(session, error) && may_lead(paths[0], count, error)) {
		bool found_below = look_below(session, paths[0], (uint32_t)first,
			fsdp_error_code(error), &only);
		if (found_below || only != NULL)
			close_last(session, checkpoint);
		if (found_below) {
			collected_recognised(&session->collected, first, count, NULL,
				session->below != NULL ? STATUS_GOOD : STATUS_FAILED);
			return NULL;
		}
	}
	options.within = paths[0];
	if (only != NULL)
		opened = open_paths(session, &only, 1, &options, &checkpoint, &error);
	if (!opened) {
		if (checkpoint != NULL)
			collected_checkpoint(
				&session->collected, checkpoint, (uint32_t)first, true);
		close_last(session, checkpoint);
		collected_error(&session->collected, error, (uint32_t)first);
		session_name_file(session, wrong_path(error, paths, count));
		collected_recognised(
			&session->collected, first, count, NULL, STATUS_FAILED);
		return NULL;
	}
	if (session->command->check_inputs == NULL)
		collected_checkpoint(&session->collected, checkpoint, (uint32_t)first,
			session->fleeting);
	const char *note;

	for (size_t k = 0; (note = fsdp_checkpoint_message(checkpoint, k)) != NULL; k++)
		collected_note(&session->collected, "%s", note);
	error_count = fsdp_checkpoint_error_count(checkpoint);
	failure_count = session->collected.failure_count;
	for (size_t i = 0; i < error_count; i++)
		collected_error(&session->collected, fsdp_checkpoint_error(checkpoint, i),
			(uint32_t)first);
	/* Of a set some files could not be read: each line to type is about its own. */
	for (size_t n = failure_count; n < session->collected.failure_count; n++) {
		struct failure *failure = &session->collected.failures[n];

		name_file(failure, failure->path.data);
	}
	collected_recognised(&session->collected, first, count,
		fsdp_checkpoint_format(checkpoint).family,
		error_count > 0 ? STATUS_PARTIAL : STATUS_GOOD);
	base = fsdp_checkpoint_base(checkpoint);
	if (base == NULL && only != NULL && path_is_folder(only))
		base = only;
	if (fsdp_checkpoint_opened(checkpoint) != NULL)
		only = fsdp_checkpoint_opened(checkpoint);
	for (size_t i = first; i < first + count; i++)
		collected_base(&session->collected, i, base, only);
	/* A file that was opened by itself is kept already. */
	if (base != NULL || path_is_folder(paths[0]))
		outputs_keep_files(
			session->outputs, checkpoint, base != NULL ? base : paths[0]);
	note_siblings(session, checkpoint);
	note_plan(session, checkpoint);
	return checkpoint;
}

/* ---- Reads the recordings of a run, and reports their errors ---- */

static uint32_t input_of(const struct session *session, const char *path)
{
	for (size_t i = 0; i < session->inputs->paths.count; i++)
		if (strcmp(session->inputs->paths.items[i], path) == 0)
			return (uint32_t)i;
	return 0;
}

/* Findings of each recording, which make some answers partial. */
static void borrow_recordings(struct session *session)
{
	const struct fsdp_recordings *recordings = session->recordings;

	FOR_EACH(i, fsdp_recordings_finding_count(recordings), finding,
		fsdp_recordings_finding(recordings, i))
		collected_found(&session->collected, finding,
			input_of(session, (const char *)finding->file.data), false);
	FOR_EACH(i, fsdp_recordings_omitted_count(recordings), from,
		fsdp_recordings_omitted(recordings, i))
		collected_omitted(&session->collected, &from, 0, false);
	FOR_EACH(
		i, fsdp_recording_count(recordings), one, fsdp_recording(recordings, i)) {
		if (one->kind == FSDP_RECORDING_LOG &&
			one->input < session->collected.input_count)
			session->collected.inputs[one->input].kind = "log";
		collected_recognised(&session->collected, one->input, 1,
			fsdp_recording_kind_name(one->kind), STATUS_GOOD);
	}
}

/* A directory may contain recordings for several commands. */
static void note_skipped(struct session *session)
{
	const char *path = fsdp_recordings_skipped(session->recordings, 0);
	size_t count = session->inputs->paths.count -
		       fsdp_recording_count(session->recordings) -
		       fsdp_recordings_error_count(session->recordings);

	if (count == 1)
		collected_note(&session->collected,
			"skipped %s: not a recording (fsdp-inspect help trace)", path);
	else if (count > 1)
		collected_note(&session->collected,
			"skipped %s and %zu more: not read by this command (fsdp-inspect help trace)",
			path, count - 1);
}

/* Recordings that could not be read do not hide the others. */
static void collect_recording_errors(struct session *session)
{
	const struct fsdp_recordings *recordings = session->recordings;
	const struct fsdp_error *error;

	for (size_t i = 0; (error = fsdp_recordings_error(recordings, i)) != NULL; i++) {
		const char *path = fsdp_error_path(error);
		uint32_t input = path != NULL ? input_of(session, path) : 0;

		collected_error(&session->collected, error, input);
		session_name_file(session, path);
		session->collected.inputs[input].status = STATUS_FAILED;
		session->status = status_worse(session->status, STATUS_PARTIAL);
	}
}

/* The one path that was typed may be a checkpoint, which other commands are for. */
static void report_checkpoint(struct session *session, const struct fsdp_error *error)
{
	const struct texts *typed = &session->arguments->words;
	struct fsdp_options options = session->inputs->options;
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_error *other;
	struct failure *failure;
	bool opened;

	if (session->collected.failure_count == 0 || typed->count != 2 ||
		strcmp(typed->items[1], "-") == 0 || error == NULL ||
		(fsdp_error_code(error) != FSDP_ERROR_UNSUPPORTED &&
			fsdp_error_code(error) != FSDP_ERROR_NOT_A_CHECKPOINT))
		return;
	options.keep_failed = false;
	opened = open_paths(session, &typed->items[1], 1, &options, &checkpoint, &other);
	if (!opened && fsdp_error_code(other) == FSDP_ERROR_MEMORY)
		memory_fail();
	/* Any pickle is a state dict of values. */
	if (!opened || fsdp_tensor_count(checkpoint) == 0)
		return;
	failure = &session->collected.failures[session->collected.failure_count - 1];
	failure->offset = UINT64_MAX;
	failure->member = (struct text){ 0 };
	failure->message = text_format(
		"this is a checkpoint, and %s reads recordings", session->command->name);
	failure->hint = text_format("fsdp-inspect info %s", typed->items[1]);
	failure->path = text_new(typed->items[1]);
}

bool session_read_recordings(struct session *session, struct run *run)
{
	const struct common_options *common = &session->arguments->common;
	const struct texts *paths = &session->inputs->paths;
	struct fsdp_recording_progress progress = { 0 };
	struct fsdp_recording_options options = {
		.size = sizeof options,
		.remote = helper_remote(),
		.limits = session->inputs->options.limits,
		.limit_count = session->inputs->options.limit_count,
		.jobs = jobs_wanted(common),
		.progress = &progress,
		.folder = session->inputs->is_folder,
	};
	struct fsdp_error *error = NULL;

	if (session->command->prepare != NULL &&
		!session->command->prepare(run, &options))
		return false;
	progress_begin(common, &progress);
	bool good = fsdp_recordings_read(
		paths->items, paths->count, &options, &session->recordings, &error);
	session->interrupted = progress_end();
	run->recordings = session->recordings;
	if (good) {
		borrow_recordings(session);
		collect_recording_errors(session);
		note_skipped(session);
		if (session->interrupted != 0) {
			/* Whatever the form of the answer, it is to say that it is for a
			 * part. */
			const struct fsdp_recordings *recordings = session->recordings;
			uint64_t events = 0, read = progress.read;
			char share[64] = "";
			for (size_t i = 0; i < fsdp_recording_count(recordings); i++)
				events += fsdp_recording(recordings, i)->events;
			if (progress.size != 0)
				snprintf(share, sizeof share, " (%.0f %% of the %s)",
					(double)(read < progress.size ? read
								      : progress.size) *
						100 / (double)progress.size,
					session->inputs->paths.count == 1 ? "file"
									  : "files");
			collected_fail(&session->collected, "system", NULL,
				"interrupted after %" PRIu64
				" events%s: the answer is for these",
				events, share);
			session->status = status_worse(session->status, STATUS_PARTIAL);
		}
		return true;
	}
	const char *path = error != NULL ? fsdp_error_path(error) : NULL;
	collected_own_error(
		&session->collected, error, path != NULL ? input_of(session, path) : 0);
	session_name_file(session, path);
	report_checkpoint(session, error);
	collected_recognised(&session->collected, 0, paths->count, NULL, STATUS_FAILED);
	session->status = STATUS_FAILED;
	return false;
}

/* ---- in the place of a checkpoint ---- */

static bool open_printed(struct session *session, struct run *run)
{
	struct fsdp_error *error;
	struct fsdp_options options = session->inputs->options;
	struct fsdp_checkpoint *checkpoint;

	if (session->inputs->paths.count != 1 || options.units_path != NULL)
		return false;
	options.units_path = session->inputs->paths.items[0];
	options.keep_failed = false;
	if (!open_paths(session, NULL, 0, &options, &checkpoint, &error)) {
		if (fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			memory_fail();
		return false;
	}
	session->collected.failure_count = 0;
	session->collected.inputs[0].kind = "log";
	collected_checkpoint(&session->collected, checkpoint, 0, false);
	for (size_t i = 0; i < fsdp_checkpoint_error_count(checkpoint); i++)
		collected_error(
			&session->collected, fsdp_checkpoint_error(checkpoint, i), 0);
	collected_recognised(&session->collected, 0, 1,
		fsdp_checkpoint_format(checkpoint).family, STATUS_GOOD);
	run->checkpoint = checkpoint;
	return true;
}

bool session_recognise(struct session *session, struct run *run)
{
	const struct texts *paths = &session->inputs->paths;
	struct fsdp_recording_options options = {
		.size = sizeof options,
		.remote = helper_remote(),
		.limits = session->inputs->options.limits,
		.limit_count = session->inputs->options.limit_count,
		.jobs = jobs_wanted(&session->arguments->common),
	};
	struct fsdp_recordings *recordings = NULL;
	struct fsdp_error *error = NULL;
	const struct collected *collected = &session->collected;
	struct stat found;

	if (collected->failure_count != 1 || collected->finding_count != 0 ||
		(strcmp(collected->failures[0].code, "unsupported") != 0 &&
			strcmp(collected->failures[0].code, "not_a_checkpoint") != 0))
		return false;
	for (size_t i = 0; i < paths->count; i++)
		if (stat(paths->items[i], &found) != 0 || !S_ISREG(found.st_mode))
			return false;
	if (!fsdp_recordings_read(
		    paths->items, paths->count, &options, &recordings, &error)) {
		bool is_memory =
			error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY;

		/* Of a failed attempt only lack of memory is reported. */
		fsdp_error_free(error);
		if (is_memory)
			memory_fail();
		return open_printed(session, run);
	}
	if (fsdp_recordings_error_count(recordings) != 0) {
		fsdp_recordings_free(recordings);
		return false;
	}
	session->recordings = recordings;
	run->recordings = recordings;
	session->collected.failure_count = 0;
	/* Each path has its record, unless memory ran out before. */
	for (size_t i = 0; i < paths->count && i < session->collected.input_count; i++)
		session->collected.inputs[i].kind = "trace";
	borrow_recordings(session);
	return true;
}
