/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the passes of the library over one checkpoint.
 */
#include "part/passes.h"
#include "run/answer.h"
#include "run/collected.h"
#include "run/progress.h"

/* ---- bytes ---- */

static void add_omitted(struct run *run, struct fsdp_omitted omitted)
{
	collected_omitted(run->collected, &omitted, run->input, true);
}

static void tell_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct fsdp_recording_progress *progress = context;

	__atomic_store_n(&progress->size, total_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->read, done_bytes, __ATOMIC_RELAXED);
}

/* A ceiling that was reached leaves the rest to be judged. */
static bool run_verify(struct passes *passes, struct run *run, enum fsdp_level level,
	const char *manifest, struct fsdp_error **ret_error)
{
	struct fsdp_recording_progress progress = { 0 };
	struct fsdp_verify_options options = {
		.size = sizeof options,
		.level = level,
		.jobs = jobs_wanted(run->common),
		.manifest_path = manifest,
		.progress = tell_progress,
		.progress_context = &progress,
		.part = run->common->part_number,
		.parts = level >= FSDP_LEVEL_DATA ? run->common->part_count : 0,
	};
	struct fsdp_error *error = NULL;
	bool good;

	if (level > FSDP_LEVEL_HEADERS)
		progress_begin(run->common, &progress);
	good = fsdp_verify_new(run->checkpoint, &options, &passes->verify, &error);
	if (level > FSDP_LEVEL_HEADERS)
		progress_end();
	if (good) {
		passes->scope = fsdp_verify_scope(passes->verify);
		for (size_t i = 0; i < fsdp_verify_omitted_count(passes->verify); i++)
			add_omitted(run, fsdp_verify_omitted(passes->verify, i));
		return true;
	}
	if (error == NULL || fsdp_error_code(error) != FSDP_ERROR_LIMIT) {
		*ret_error = error;
		return false;
	}
	collected_error(run->collected, error, run->input);
	fsdp_error_free(error);
	return true;
}

/* ---- facts ---- */

/* What was not read was not judged, whatever was asked for. */
static enum fsdp_level level_reached(const struct passes *passes, enum fsdp_level level)
{
	if (level <= FSDP_LEVEL_HEADERS)
		return level;
	if (passes->verify == NULL ||
		(passes->scope.bytes_read == 0 && passes->scope.bytes > 0))
		return FSDP_LEVEL_HEADERS;
	return passes->scope.level;
}

static bool audit_facts(struct passes *passes, struct run *run, enum fsdp_level level,
	struct fsdp_error **ret_error)
{
	struct fsdp_audit_options options = {
		.size = sizeof options,
		.level = level_reached(passes, level),
		.verify = passes->verify,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.path = answer_place(run),
	};

	if (!fsdp_audit_new(run->checkpoint, &options, &passes->audit, ret_error))
		return false;
	for (size_t i = 0; i < fsdp_audit_finding_count(passes->audit); i++)
		collected_found(run->collected, fsdp_audit_finding(passes->audit, i),
			run->input, true);
	for (size_t i = 0; i < fsdp_omitted_count(run->checkpoint); i++)
		add_omitted(run, fsdp_omitted(run->checkpoint, i));
	for (size_t i = 0; i < fsdp_audit_omitted_count(passes->audit); i++)
		add_omitted(run, fsdp_audit_omitted(passes->audit, i));
	return true;
}

bool passes_run(struct passes *passes, struct run *run, enum fsdp_level level,
	const char *manifest, struct fsdp_error **ret_error)
{
	bool good = level < FSDP_LEVEL_HEADERS ||
		    run_verify(passes, run, level, manifest, ret_error);

	if (good && audit_facts(passes, run, level, ret_error))
		return true;
	collected_checkpoint(run->collected, run->checkpoint, run->input, true);
	return false;
}

void passes_done(struct passes *passes)
{
	fsdp_audit_free(passes->audit);
	fsdp_verify_free(passes->verify);
}
