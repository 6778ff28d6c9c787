/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the recordings of a run, and tells what is wrong with them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "session/answer.h"
#include "session/progress.h"
#include "session/session-private.h"

static uint32_t input_of(const struct session *session, const char *path)
{
	for (size_t i = 0; i < session->inputs->paths.count; i++)
		if (strcmp(session->inputs->paths.items[i], path) == 0)
			return (uint32_t)i;
	return 0;
}

/* What each recording says of itself, by which some answers are partial. */
static void take_recordings(struct session *session)
{
	const struct fsdp_recordings *recordings = session->recordings;

	for (size_t i = 0; i < fsdp_recordings_finding_count(recordings); i++) {
		const struct fsdp_finding *finding =
			fsdp_recordings_finding(recordings, i);

		collected_found(&session->collected, finding,
			input_of(session, (const char *)finding->file.data), false);
	}
	for (size_t i = 0; i < fsdp_recordings_omitted_count(recordings); i++) {
		struct fsdp_omitted from = fsdp_recordings_omitted(recordings, i);

		collected_omitted(&session->collected, &from, 0, false);
	}
	for (size_t i = 0; i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(recordings, i);

		if (one->kind == FSDP_RECORDING_LOG &&
			one->input < session->collected.input_count)
			session->collected.inputs[one->input].kind = "log";
		collected_recognised(&session->collected, one->input, 1,
			fsdp_recording_kind_name(one->kind), STATUS_GOOD);
	}
}

/* Whatever the form of the answer, it is to say that it is for a part. */
static void tell_interrupted(
	struct session *session, const struct fsdp_recording_progress *progress)
{
	const struct fsdp_recordings *recordings = session->recordings;
	struct failure *failure = collected_failure(&session->collected, "system");
	uint64_t events = 0, read = progress->read;
	char share[64] = "", message[160];

	for (size_t i = 0; i < fsdp_recording_count(recordings); i++)
		events += fsdp_recording(recordings, i)->events;
	if (progress->size != 0)
		snprintf(share, sizeof share, " (%.0f %% of the %s)",
			(double)(read < progress->size ? read : progress->size) * 100 /
				(double)progress->size,
			session->inputs->paths.count == 1 ? "file" : "files");
	snprintf(message, sizeof message,
		"interrupted after %" PRIu64 " events%s: the answer is for these", events,
		share);
	if (failure != NULL)
		failure->message = collected_text(&session->collected, message);
	session->status = status_worse(session->status, STATUS_PARTIAL);
}

/* A folder may hold recordings for several commands. */
static void note_left_out(struct session *session)
{
	const char *path = fsdp_recordings_left_out(session->recordings, 0);
	size_t count = session->inputs->paths.count -
		       fsdp_recording_count(session->recordings) -
		       fsdp_recordings_error_count(session->recordings);

	if (count == 1)
		collected_note(&session->collected,
			"%s is left out: this command does not read it (fsdp-inspect help trace)",
			path);
	else if (count > 1)
		collected_note(&session->collected,
			"%s and %zu more are left out: this command does not read them (fsdp-inspect help trace)",
			path, count - 1);
}

/* Recordings that could not be read do not hide the others. */
static void take_recording_errors(struct session *session)
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

/* Of a failed attempt only lack of memory is reported. Always false. */
static bool forget(struct session *session, struct fsdp_error *error)
{
	session->collected.out_of_memory |=
		error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	return false;
}

/* The one path that was typed may be a checkpoint, which other commands are for. */
static void tell_checkpoint(struct session *session, const struct fsdp_error *error)
{
	const struct texts *typed = &session->arguments->words;
	struct fsdp_options options = session->inputs->options;
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *other = NULL;
	struct failure *failure;
	char text[1024];

	if (session->collected.failure_count == 0 || typed->count != 2 ||
		strcmp(typed->items[1], "-") == 0 || error == NULL ||
		(fsdp_error_code(error) != FSDP_ERROR_UNSUPPORTED &&
			fsdp_error_code(error) != FSDP_ERROR_NOT_A_CHECKPOINT))
		return;
	options.keep_failed = false;
	if (!fsdp_checkpoint_open(&typed->items[1], 1, &options, &checkpoint, &other)) {
		forget(session, other);
		return;
	}
	/* Any pickle is a state dict of values. */
	if (fsdp_tensor_count(checkpoint) == 0) {
		fsdp_checkpoint_free(checkpoint);
		return;
	}
	failure = &session->collected.failures[session->collected.failure_count - 1];
	failure->offset = UINT64_MAX;
	failure->member = (struct text){ 0 };
	snprintf(text, sizeof text, "this is a checkpoint, and %s reads recordings",
		session->command->name);
	failure->message = collected_text(&session->collected, text);
	snprintf(text, sizeof text, "fsdp-inspect info %s", typed->items[1]);
	failure->hint = collected_text(&session->collected, text);
	failure->path = collected_text(&session->collected, typed->items[1]);
	fsdp_checkpoint_free(checkpoint);
}

bool session_read_recordings(struct session *session, struct run *run)
{
	const struct common_options *common = &session->arguments->common;
	const struct texts *paths = &session->inputs->paths;
	struct fsdp_recording_progress progress = { 0 };
	struct fsdp_recording_options options = {
		.size = sizeof options,
		.limits = session->inputs->options.limits,
		.limit_count = session->inputs->options.limit_count,
		.jobs = jobs_wanted(common),
		.progress = &progress,
		.folder = session->inputs->is_folder,
	};
	struct fsdp_error *error = NULL;
	const char *path;
	bool good;

	if (session->command->prepare != NULL &&
		!session->command->prepare(run, &options))
		return false;
	progress_begin(common, &progress);
	good = fsdp_recordings_read(
		paths->items, paths->count, &options, &session->recordings, &error);
	session->interrupted = progress_end();
	run->recordings = session->recordings;
	if (good) {
		take_recordings(session);
		take_recording_errors(session);
		note_left_out(session);
		if (session->interrupted != 0)
			tell_interrupted(session, &progress);
		return true;
	}
	path = error != NULL ? fsdp_error_path(error) : NULL;
	collected_error(
		&session->collected, error, path != NULL ? input_of(session, path) : 0);
	session_name_file(session, path);
	tell_checkpoint(session, error);
	fsdp_error_free(error);
	collected_recognised(&session->collected, 0, paths->count, NULL, STATUS_FAILED);
	session->status = STATUS_FAILED;
	return false;
}

/* ---- in the place of a checkpoint ---- */

/* Whether opening says that this is something else, and the files can be read again. */
static bool may_be_recordings(const struct session *session)
{
	const struct texts *paths = &session->inputs->paths;
	const struct collected *collected = &session->collected;
	struct stat found;

	if (collected->failure_count != 1 || collected->finding_count != 0 ||
		(strcmp(collected->failures[0].code, "unsupported") != 0 &&
			strcmp(collected->failures[0].code, "not_a_checkpoint") != 0))
		return false;
	for (size_t i = 0; i < paths->count; i++)
		if (stat(paths->items[i], &found) != 0 || !S_ISREG(found.st_mode))
			return false;
	return true;
}

static bool open_printed(struct session *session, struct run *run)
{
	struct fsdp_error *error = NULL;
	struct fsdp_options options = session->inputs->options;
	struct fsdp_checkpoint **list, *checkpoint = NULL;

	if (session->inputs->paths.count != 1 || options.units_path != NULL)
		return false;
	list = list_grown(session->checkpoints, session->checkpoint_count, sizeof *list);
	if (list == NULL)
		return forget(session, NULL);
	session->checkpoints = list;
	options.units_path = session->inputs->paths.items[0];
	options.keep_failed = false;
	if (!fsdp_checkpoint_open(NULL, 0, &options, &checkpoint, &error))
		return forget(session, error);
	list[session->checkpoint_count++] = checkpoint;
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
		.limits = session->inputs->options.limits,
		.limit_count = session->inputs->options.limit_count,
		.jobs = jobs_wanted(&session->arguments->common),
	};
	struct fsdp_recordings *recordings = NULL;
	struct fsdp_error *error = NULL;

	if (!may_be_recordings(session))
		return false;
	if (!fsdp_recordings_read(
		    paths->items, paths->count, &options, &recordings, &error)) {
		forget(session, error);
		return !session->collected.out_of_memory && open_printed(session, run);
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
	take_recordings(session);
	return true;
}
