/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens what the inputs name: which paths are one checkpoint, and what lies below a folder
 * that is none.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "session/answer.h"
#include "session/session-private.h"

/* ---- inputs ---- */

static void note_plan(struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_plan_facts plan;
	uint32_t record;

	if (!fsdp_checkpoint_plan(checkpoint, &plan) || plan.path == NULL)
		return;
	/* Without a checkpoint it is the input itself. */
	if (session->inputs->has_no_checkpoint)
		return;
	record = collected_input(&session->collected,
		collected_text(&session->collected, plan.path).data,
		plan.from != NULL ? plan.from : "plan");
	if (record == UINT32_MAX)
		return;
	session->collected.inputs[record].found = plan.found;
	if (plan.found && !session->command->shows_plan)
		collected_note(
			&session->collected, "classes and marks from %s", plan.path);
}

/* Files that were read though only another of their set was named. */
static void note_siblings(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	const char *path;

	for (size_t i = 0; (path = fsdp_checkpoint_sibling(checkpoint, i)) != NULL; i++) {
		uint32_t record = collected_input(&session->collected,
			collected_text(&session->collected, path).data, "checkpoint");
		if (record == UINT32_MAX)
			return;
		session->collected.inputs[record].found = true;
	}
}

static void note_opening(
	struct session *session, const struct fsdp_checkpoint *checkpoint)
{
	const char *note;

	for (size_t i = 0; (note = fsdp_checkpoint_note(checkpoint, i)) != NULL; i++)
		collected_note(&session->collected, "%s", note);
}

/* ---- which paths are one checkpoint ---- */

/* Of the folder that a path lies in. False: it is not there, or the path is too long. */
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

/* So many paths from this one on are one checkpoint: a folder, or files of one. */
size_t session_paths_together(const struct session *session, size_t first)
{
	const struct texts *paths = &session->inputs->paths;
	size_t end = first + 1;

	if (session->apart || path_is_folder(paths->items[first]))
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

/* ---- a folder that holds checkpoints ---- */

enum { BELOW_NAMED = 3 };

/* Whether what failed is the log or the plan beside the checkpoint. */
static bool is_beside(const struct session *session, const struct fsdp_error *error)
{
	const char *log = session->inputs->options.units_path;
	const char *plan = session->inputs->options.plan_path;
	const char *path = error != NULL ? fsdp_error_path(error) : NULL;

	return path != NULL && ((log != NULL && strcmp(log, path) == 0) ||
				       (plan != NULL && strcmp(plan, path) == 0));
}

/* Whether a folder may be one of a run, of which something in it was judged. */
static bool may_lead(const char *path, size_t count, const struct fsdp_error *error)
{
	enum fsdp_error_code code =
		error != NULL ? fsdp_error_code(error) : FSDP_ERROR_MEMORY;

	return count == 1 && path_is_folder(path) &&
	       (code == FSDP_ERROR_USAGE || code == FSDP_ERROR_NOT_A_CHECKPOINT ||
		       code == FSDP_ERROR_UNSUPPORTED);
}

/* Whether what was found was saved by one run, step by step. */
static bool are_steps(const struct fsdp_below *below)
{
	for (size_t i = 0; i < fsdp_below_count(below); i++)
		if (fsdp_below_step(below, i).step < 0)
			return false;
	return true;
}

/* "2 checkpoints below: run/step-1, run/step-2" */
static void refuse_below(
	struct session *session, const struct fsdp_below *below, uint32_t input)
{
	struct failure *failure = collected_failure(&session->collected, "usage");
	size_t count = fsdp_below_count(below);
	char text[1024] = "";
	int size = snprintf(text, sizeof text,
		"%s%zu checkpoints below: ", fsdp_below_is_cut(below) ? "at least " : "",
		count);

	if (failure == NULL)
		return;
	for (size_t i = 0; i < count && i < BELOW_NAMED && size < (int)sizeof text; i++)
		size += snprintf(text + size, sizeof text - (size_t)size, "%s%s",
			i > 0 ? ", " : "", fsdp_below_path(below, i));
	if (count > BELOW_NAMED && size < (int)sizeof text)
		snprintf(text + size, sizeof text - (size_t)size, ", and %zu more",
			count - BELOW_NAMED);
	failure->message = collected_text(&session->collected, text);
	if (are_steps(below))
		snprintf(text, sizeof text, "fsdp-inspect latest %s",
			session->inputs->paths.items[input]);
	else
		snprintf(text, sizeof text, "fsdp-inspect %s %s", session->command->name,
			fsdp_below_path(below, count - 1));
	failure->hint = collected_text(&session->collected, text);
	failure->path =
		collected_text(&session->collected, session->inputs->paths.items[input]);
	failure->input = input;
}

/* What could not be looked at may hold another one. */
static void tell_unread(struct session *session, const struct fsdp_below *below,
	const char *path, uint32_t input)
{
	uint64_t unread = fsdp_below_unread(below);
	struct failure *failure;
	char text[120];

	if (unread == 0)
		return;
	snprintf(text, sizeof text,
		unread == 1 ? "%" PRIu64 " file or folder below could not be read"
			    : "%" PRIu64 " files or folders below could not be read",
		unread);
	session->status = status_worse(session->status, STATUS_PARTIAL);
	failure = collected_failure(&session->collected, "system");
	if (failure == NULL)
		return;
	failure->message = collected_text(&session->collected, text);
	failure->path = collected_text(&session->collected, path);
	failure->input = input;
}

/* Of a folder that is something else as a whole its own files are no checkpoints. */
static bool are_its_own(const struct fsdp_below *below, const char *path)
{
	for (size_t i = 0; i < fsdp_below_count(below); i++) {
		const char *name = fsdp_below_path(below, i) + strlen(path);
		if (strchr(name + (*name == '/'), '/') != NULL ||
			path_is_folder(fsdp_below_path(below, i)))
			return false;
	}
	return true;
}

/*
 * After a folder could not be opened: looks for checkpoints below it. Of one the path is
 * in *ret_only, to be opened instead. Of several true is returned: the command lists them,
 * or that was added to the failures.
 */
static bool look_below(struct session *session, const char *path, uint32_t input,
	enum fsdp_error_code code, const char **ret_only)
{
	struct fsdp_options options = session->inputs->options;
	struct fsdp_below *below;
	size_t count;

	if (!fsdp_below_new(path, &options, &below, NULL))
		return false;
	count = fsdp_below_count(below);
	if (count > 0)
		tell_unread(session, below, path, input);
	if (code == FSDP_ERROR_UNSUPPORTED && are_its_own(below, path))
		count = 0;
	if (count == 1) {
		*ret_only = collected_text(&session->collected, fsdp_below_path(below, 0))
				    .data;
		if (*ret_only != NULL)
			collected_note(&session->collected,
				"opened %s, the only checkpoint in %s", *ret_only, path);
	} else if (count > 1 && session->command->answers_each &&
		   session->below == NULL && !session->separate) {
		session->below = below;
		return true;
	} else if (count > 1) {
		refuse_below(session, below, input);
	}
	fsdp_below_free(below);
	return count > 1;
}

/* Puts the path into the line to type. */
static void name_file(struct session *session, struct failure *failure, const char *path)
{
	static const char FILE_WORD[] = "FILE";
	const size_t size = sizeof FILE_WORD - 1;
	char hint[1024];

	if (path == NULL || failure->hint.size < size ||
		memmem(failure->hint.data, failure->hint.size, "fsdp-inspect", 12) ==
			NULL ||
		memcmp(failure->hint.data + failure->hint.size - size, FILE_WORD, size) !=
			0)
		return;
	snprintf(hint, sizeof hint, "%.*s%s", (int)(failure->hint.size - size),
		failure->hint.data, path);
	failure->hint = collected_text(&session->collected, hint);
}

void session_name_file(struct session *session, const char *path)
{
	size_t count = session->collected.failure_count;

	if (count != 0)
		name_file(session, &session->collected.failures[count - 1], path);
}

/* Of a set some files could not be read: each line to type is about its own. */
static void name_files(struct session *session, size_t first)
{
	for (size_t i = first; i < session->collected.failure_count; i++) {
		struct failure *failure = &session->collected.failures[i];

		name_file(session, failure, failure->path.data);
	}
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

/*
 * Opens the paths as one checkpoint and takes in all that it says of itself. first is the
 * record of the first path. NULL if it cannot be opened: that was added to the failures.
 */
struct fsdp_checkpoint *session_open(
	struct session *session, const char *const *paths, size_t count, size_t first)
{
	struct fsdp_options options = session->inputs->options;
	struct fsdp_checkpoint *checkpoint = NULL, **checkpoints;
	struct fsdp_error *error = NULL;
	const char *only = NULL, *base;
	size_t error_count, failure_count;
	bool opened, alone;

	checkpoints = list_grown(
		session->checkpoints, session->checkpoint_count, sizeof *checkpoints);
	if (checkpoints == NULL) {
		session->collected.out_of_memory = true;
		return NULL;
	}
	session->checkpoints = checkpoints;
	options.keep_failed = true;
	options.look_beside = session->command->looks_beside;
	options.count_beside = session->command->counts_beside;
	alone = session->inputs->has_no_checkpoint;
	opened = fsdp_checkpoint_open(
		paths, alone ? 0 : count, &options, &checkpoint, &error);
	if (!opened && !is_beside(session, error) && may_lead(paths[0], count, error)) {
		bool told = look_below(session, paths[0], (uint32_t)first,
			fsdp_error_code(error), &only);
		if (told || only != NULL) {
			fsdp_checkpoint_free(checkpoint);
			checkpoint = NULL;
			fsdp_error_free(error);
			error = NULL;
		}
		if (told) {
			collected_recognised(&session->collected, first, count, NULL,
				session->below != NULL ? STATUS_GOOD : STATUS_FAILED);
			return NULL;
		}
	}
	options.within = paths[0];
	if (only != NULL)
		opened = fsdp_checkpoint_open(&only, 1, &options, &checkpoint, &error);
	if (!opened) {
		if (checkpoint != NULL)
			collected_checkpoint(
				&session->collected, checkpoint, (uint32_t)first, true);
		fsdp_checkpoint_free(checkpoint);
		collected_error(&session->collected, error, (uint32_t)first);
		session_name_file(session, wrong_path(error, paths, count));
		fsdp_error_free(error);
		collected_recognised(
			&session->collected, first, count, NULL, STATUS_FAILED);
		return NULL;
	}
	checkpoints[session->checkpoint_count++] = checkpoint;
	if (session->command->judge == NULL)
		collected_checkpoint(&session->collected, checkpoint, (uint32_t)first,
			session->fleeting);
	note_opening(session, checkpoint);
	error_count = fsdp_checkpoint_error_count(checkpoint);
	failure_count = session->collected.failure_count;
	for (size_t i = 0; i < error_count; i++)
		collected_error(&session->collected, fsdp_checkpoint_error(checkpoint, i),
			(uint32_t)first);
	name_files(session, failure_count);
	collected_recognised(&session->collected, first, count,
		fsdp_checkpoint_format(checkpoint).family,
		error_count > 0 ? STATUS_PARTIAL : STATUS_GOOD);
	base = fsdp_checkpoint_base(checkpoint);
	if (base == NULL && only != NULL && path_is_folder(only))
		base = only;
	for (size_t i = first; i < first + count; i++)
		collected_base(&session->collected, i, base);
	/* A file that was opened by itself is kept already. */
	if (base != NULL || path_is_folder(paths[0]))
		outputs_keep_files(
			session->outputs, checkpoint, base != NULL ? base : paths[0]);
	note_siblings(session, checkpoint);
	note_plan(session, checkpoint);
	return checkpoint;
}
