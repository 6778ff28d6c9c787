/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the checks of the library over one checkpoint or over several sets of weights in a
 * directory, and makes findings of failures that mean a bad file.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/loaders.h>

#include "shared/audit-run.h"
#include "shared/tensor-reading.h"
#include "shared/stored-values.h"
#include "session/diagnostics.h"
#include "session/session.h"

/*
 * Makes findings of the failures that are results: those of a file so damaged that the
 * rest cannot be read, and not those of checks that could not run.
 */

/* The path under the root of what was typed, as findings have it. */
static struct text path_under(struct text path, const char *typed)
{
	size_t size = strlen(typed);

	while (size > 1 && typed[size - 1] == '/')
		size--;
	if (path.data != NULL && path.size > size + 1 &&
		memcmp(path.data, typed, size) == 0 && path.data[size] == '/') {
		while (size < path.size && path.data[size] == '/')
			size++;
		return (struct text){ path.data + size, path.size - size };
	}
	if (path.data != NULL && text_is(path, text_of(typed)))
		return path_is_folder(typed) ? (struct text){ 0 } : text_last(path, '/');
	return path;
}

static void find_failure(
	struct run *run, const struct failure *failure, const struct fsdp_rule *rule)
{
	struct collected *collected = run->collected;
	struct text file = path_under(failure->path, run->path);
	struct fsdp_finding finding = {
		.rule = rule,
		.severity = FSDP_ERROR,
		.file = span_of_text(file),
		.member = span_of_text(failure->member),
		.offset = failure->offset,
		.length = FSDP_UNKNOWN,
		.rank = FSDP_NONE,
		.affected_bytes = FSDP_UNKNOWN,
		.message = span_of_text(failure->message),
		.fix = span_of_text(failure->hint),
	};
	size_t count = run->checkpoint != NULL ? fsdp_unread_count(run->checkpoint) : 0;

	for (size_t i = run->first.finding; i < collected->finding_count; i++)
		if ((strcmp(collected->findings[i].rule, rule->id) == 0 ||
			    strcmp(collected->findings[i].rule, "FI1002") == 0) &&
			text_is(collected->findings[i].file, file))
			return;
	/* The names that an index has of a file which could not be read. */
	FOR_EACH(i, count, unread, fsdp_unread(run->checkpoint, i)) {
		if (!text_is(text_of_span(unread.file), file))
			continue;
		finding.affected = unread.names;
		finding.affected_kept = unread.kept;
		finding.affected_count = unread.count;
	}
	collected_found(collected, &finding, run->input, true);
}

void report_failed_files(struct run *run)
{
	struct collected *collected = run->collected;
	size_t kept = run->first.failure;

	for (size_t i = kept; i < collected->failure_count; i++) {
		struct failure failure = collected->failures[i];
		const struct fsdp_rule *rule =
			failure.rule != NULL ? fsdp_rule_find(failure.rule) : NULL;

		if (rule != NULL && !rule_is_limit(rule))
			find_failure(run, &failure, rule);
		else
			collected->failures[kept++] = failure;
	}
	collected->failure_count = kept;
}

/* ---- Runs the passes of the library over one checkpoint ---- */

/* ---- bytes ---- */

static void add_omitted(struct run *run, struct fsdp_omitted omitted)
{
	collected_omitted(run->collected, &omitted, run->input, true);
}

static void report_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct fsdp_recording_progress *progress = context;

	__atomic_store_n(&progress->size, total_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->read, done_bytes, __ATOMIC_RELAXED);
}

RELEASE(release_verify, fsdp_verify_free)
RELEASE(release_audit, fsdp_audit_free)
RELEASE(release_scan, fsdp_scan_free)
RELEASE(release_pairs, fsdp_weight_set_pairs_free)

/* What was found on opening it stays. */
_Noreturn static void fail_pass(struct run *run, struct fsdp_error *error)
{
	if (error == NULL)
		memory_fail();
	memory_owns(error, release_error);
	collected_checkpoint(run->collected, run->checkpoint, run->input, true);
	run_fail(run, error);
}

/* After a ceiling was reached the rest is still checked. */
static void run_verify(struct passes *passes, struct run *run, enum fsdp_level level,
	const char *manifest)
{
	struct fsdp_recording_progress progress = { 0 };
	struct fsdp_verify_options options = {
		.size = sizeof options,
		.level = level,
		.jobs = jobs_wanted(run->common),
		.manifest_path = manifest,
		.progress = report_progress,
		.progress_context = &progress,
		.part = run->common->part_number,
		.parts = level >= FSDP_LEVEL_DATA ? run->common->part_count : 0,
	};
	struct fsdp_error *error = NULL;

	if (level > FSDP_LEVEL_HEADERS)
		progress_begin(run->common, &progress);
	bool good = fsdp_verify_new(run->checkpoint, &options, &passes->verify, &error);
	if (level > FSDP_LEVEL_HEADERS)
		progress_end();
	if (good) {
		memory_owns(passes->verify, release_verify);
		passes->scope = fsdp_verify_coverage(passes->verify);
		for (size_t i = 0; i < fsdp_verify_omitted_count(passes->verify); i++)
			add_omitted(run, fsdp_verify_omitted(passes->verify, i));
	} else if (error == NULL || fsdp_error_code(error) != FSDP_ERROR_LIMIT) {
		fail_pass(run, error);
	} else {
		collected_own_error(run->collected, error, run->input);
	}
}

/* ---- facts ---- */

static enum fsdp_level level_reached(const struct passes *passes, enum fsdp_level level)
{
	if (level <= FSDP_LEVEL_HEADERS)
		return level;
	if (passes->verify == NULL ||
		(passes->scope.bytes_read == 0 && passes->scope.bytes > 0))
		return FSDP_LEVEL_HEADERS;
	return passes->scope.level;
}

/* So many bytes are compared where contents are not asked for. */
static const uint64_t COMPARED_MOST = UINT64_C(1) << 30;

/* Whether there are several tensors of this name, and all are equal. `left`: bytes that
 * may be compared. */
static bool is_repeated(struct run *run, struct fsdp_span name, uint64_t *left)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	uint32_t first = fsdp_tensor_find(checkpoint, name), i = first;

	while (i != FSDP_NONE && ++i < fsdp_tensor_count(checkpoint) &&
		fsdp_tensor(checkpoint, i).name == fsdp_tensor(checkpoint, first).name) {
		uint64_t bytes = fsdp_tensor(checkpoint, i).bytes;

		if (bytes > *left || !tensors_are_equal(run, first, i))
			return false;
		*left -= bytes;
	}
	return i != FSDP_NONE && i > first + 1;
}

/* Loaders may take any of them. Those of remote files are not read for this. */
static void excuse_repeated(struct run *run, enum fsdp_level level)
{
	uint64_t left = level >= FSDP_LEVEL_DATA ? UINT64_MAX : COMPARED_MOST;
	struct collected *collected = run->collected;

	for (size_t i = run->first.finding; i < collected->finding_count; i++) {
		struct finding *finding = &collected->findings[i];

		if (strcmp(finding->rule, "FI1061") != 0 || finding->tensor.size == 0 ||
			helper_kind(run->path) != FSDP_REMOTE_LOCAL ||
			!is_repeated(run, span_of_text(finding->tensor), &left))
			continue;
		finding->severity = SEVERITY_NOTE;
		finding->message = text_format("%.*s; both have equal bytes",
			(int)finding->message.size, finding->message.data);
		finding->fix = text_format(
			"fsdp-inspect export -o OUT %s", path_to_paste(run->path));
	}
}

static void audit_facts(struct passes *passes, struct run *run, enum fsdp_level level)
{
	struct fsdp_audit_options options = {
		.size = sizeof options,
		.level = level_reached(passes, level),
		.verify = passes->verify,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.path = answer_place(run),
	};

	if (!fsdp_audit_new(run->checkpoint, &options, &passes->audit, &run->error))
		fail_pass(run, run->error);
	memory_owns(passes->audit, release_audit);
	for (size_t i = 0; i < fsdp_audit_finding_count(passes->audit); i++)
		collected_found(run->collected, fsdp_audit_finding(passes->audit, i),
			run->input, true);
	if (level >= FSDP_LEVEL_HEADERS)
		excuse_repeated(run, level);
	for (size_t i = 0; i < fsdp_omitted_count(run->checkpoint); i++)
		add_omitted(run, fsdp_omitted(run->checkpoint, i));
	for (size_t i = 0; i < fsdp_audit_omitted_count(passes->audit); i++)
		add_omitted(run, fsdp_audit_omitted(passes->audit, i));
}

void passes_run(struct passes *passes, struct run *run, enum fsdp_level level,
	const char *manifest)
{
	if (level >= FSDP_LEVEL_HEADERS)
		run_verify(passes, run, level, manifest);
	audit_facts(passes, run, level);
}

/* ---- Checks several sets of weights in one directory ---- */

enum { PATH_BYTES = 4096 };

static bool has(const char *folder, const char *name, bool is_file)
{
	char path[PATH_BYTES];
	struct stat found;
	int size = snprintf(path, sizeof path, "%s/%s", folder, name);

	if (size < (int)sizeof path && helper_kind(path) != FSDP_REMOTE_LOCAL)
		return helper_kind(path) == FSDP_REMOTE_FILE ||
		       (!is_file && helper_kind(path) == FSDP_REMOTE_FOLDER);
	return size < (int)sizeof path && stat(path, &found) == 0 &&
	       (!is_file || S_ISREG(found.st_mode));
}

/* Most directories have one set, and are not checked any further. */
static bool has_several(const char *folder)
{
	size_t count = 0;

	for (size_t i = 0; fsdp_set_name(i) != NULL; i++)
		count += has(folder, fsdp_set_name(i), true);
	for (size_t i = 0; fsdp_set_model_name(i) != NULL && count < 2; i += 2)
		if (has(folder, fsdp_set_model_name(i), false) &&
			has(folder, fsdp_set_model_name(i + 1), false))
			return true;
	return count > 1;
}

/* A directory to search; `below` is its name under the input, and ends with a slash
 * if it is not empty. */
struct sets {
	struct run *run;
	const char *below;
	const struct fsdp_weight_set_pairs *pairs;
	bool data;   /* all bytes of both are compared */
	bool others; /* check further models in addition to the opened one */
};

/* A name in that directory as one under the input. */
static struct text name_below(const struct sets *sets, const char *name, struct text rest)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "%s%s%s%.*s", sets->below, name,
		rest.size != 0 ? "/" : "", (int)rest.size,
		rest.size != 0 ? rest.data : "");
	return text_new(path);
}

static struct finding about_set(
	const struct sets *sets, enum severity severity, const char *file)
{
	return (struct finding){ .severity = severity,
		.input = sets->run->input,
		.file = name_below(sets, file, (struct text){ 0 }) };
}

/* Two models are meant to differ: how much they have in common is worth a note. */
static void report_models(
	const struct sets *sets, const struct fsdp_weight_set_pair *pair)
{
	struct collected *collected = sets->run->collected;
	const struct fsdp_set_shares *shares = &pair->shares;
	char equal[64] = "";

	if (pair->checkpoint == NULL) {
		struct failure *failure = collected_fail(collected,
			fsdp_error_code_name(FSDP_ERROR_UNSUPPORTED), NULL,
			"it cannot be opened, and was not judged");
		failure->input = sets->run->input;
		failure->path = name_below(sets, pair->second, (struct text){ 0 });
		return;
	}
	/* Errors of the second model, which is not what was opened. */
	for (size_t i = 0; i < fsdp_finding_count(pair->checkpoint); i++) {
		struct fsdp_finding found = *fsdp_finding(pair->checkpoint, i);

		found.file = span_of_text(
			name_below(sets, pair->second, text_of_span(found.file)));
		if (found.severity == FSDP_ERROR)
			collected_found(collected, &found, sets->run->input, true);
	}
	if (shares->equal > 0)
		snprintf(equal, sizeof equal, ", and %llu of these the same bytes",
			(unsigned long long)shares->equal);
	collected_report(collected, "FI1012", about_set(sets, SEVERITY_NOTE, pair->first),
		"name the model to load; each is loaded separately",
		"%s next to it is another model: %llu of its %llu tensors have the name and shape of a tensor here%s",
		pair->second, (unsigned long long)shares->alike,
		(unsigned long long)shares->second, equal);
}

static void check_pair(const struct sets *sets, struct fsdp_weight_set_pair pair)
{
	static const struct {
		enum severity severity;
		const char *fix, *what;
	} rows[] = {
		[FSDP_SETS_DIFFER] = { SEVERITY_ERROR, NULL, " has different tensors" },
		[FSDP_SETS_NOT_STATED] = { SEVERITY_NOTE,
			"compare them completely: add --data",
			" also has weights; the bytes of both were not compared completely" },
		[FSDP_SETS_OTHER_FORMAT] = { SEVERITY_NOTE,
			"keep it if you use the program that reads it",
			" has weights in the format of another program; not compared" },
	};

	if (pair.likeness == FSDP_SETS_SAME)
		return;
	if (pair.likeness == FSDP_SETS_OTHER_MODEL) {
		if (sets->others)
			report_models(sets, &pair);
		return;
	}
	struct finding about = about_set(sets, rows[pair.likeness].severity, pair.first);
	if (pair.likeness == FSDP_SETS_DIFFER)
		about.tensor = text_of_span(pair.name);
	collected_report(sets->run->collected, "FI1012", about,
		sets->data && pair.likeness == FSDP_SETS_NOT_STATED
			? ""
			: rows[pair.likeness].fix,
		"%s%s%s%.*s; %s",
		about.tensor.size != 0 ? "weights differ from those of " : "",
		pair.second,
		about.tensor.size != 0 ? ", first in " : rows[pair.likeness].what,
		about.tensor.size < 200 ? (int)about.tensor.size : 200,
		about.tensor.size != 0 ? about.tensor.data : "",
		fsdp_weight_set_loaders(sets->pairs));
}

static void check_folder(
	struct run *run, const char *place, const char *below, bool data, bool others)
{
	struct fsdp_scan *survey = NULL;
	struct fsdp_weight_set_pairs *pairs = NULL;
	struct fsdp_error *error = NULL;
	char path[PATH_BYTES];
	size_t mark = memory_mark();

	if (snprintf(path, sizeof path, "%s%s%s", place, *below != '\0' ? "/" : "",
		    below) >= (int)sizeof path ||
		!has_several(path))
		return;
	bool good = fsdp_scan_new(
		path, run->limits, run->limit_count, run->remote, &survey, &error);
	if (good) {
		memory_owns(survey, release_scan);
		good = fsdp_weight_set_pairs_new(survey, data, &pairs, &error);
	}
	if (good) {
		const struct sets sets = { run, below, pairs, data, others };

		memory_owns(pairs, release_pairs);
		for (size_t i = 0; i < fsdp_weight_set_pair_count(pairs); i++)
			check_pair(&sets, fsdp_weight_set_pair(pairs, i));
	} else {
		collected_own_error(run->collected, error, run->input);
	}
	memory_release(mark);
}

/* An actor and a critic are in the named directory, two sets of one model in the opened
 * one; and the directories that were entered on the way to the files count, too. */
void check_weight_sets(struct run *run, bool data, bool others)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	const char *place = answer_place(run);
	struct fsdp_span file = { 0 };
	char below[PATH_BYTES];

	check_folder(run, run->path, "", data, others);
	if (place != run->path)
		check_folder(run, place, "", data, others);
	if (checkpoint != NULL && fsdp_file_count(checkpoint) > 0)
		file = fsdp_file(checkpoint, 0).path;
	for (size_t i = 0; i < file.size && i + 1 < sizeof below; i++) {
		if (file.data[i] != '/')
			continue;
		memcpy(below, file.data, i + 1);
		below[i + 1] = '\0';
		check_folder(run, place, below, data, others);
	}
}

/* ---- Checks an opened checkpoint as audit does ---- */

const char *reason_open(enum fsdp_rule_reason reason)
{
	static const char *const texts[FSDP_REASON_COUNT] = {
		[FSDP_REASON_NEEDS_PLAN] =
			"no file records the number of ranks, so files of further ranks may be missing",
		[FSDP_REASON_NEEDS_CONFIG] = "config.json is missing",
		[FSDP_REASON_NO_CRC] =
			"some files have no checksums, fsdp-inspect hash writes them",
		[FSDP_REASON_NO_DIGEST] =
			"some files have no checksums, fsdp-inspect hash writes them",
		[FSDP_REASON_LIMIT] = "a limit was reached, --limit raises it",
		[FSDP_REASON_UNREADABLE] = "some contents could not be read",
		[FSDP_REASON_UNSUPPORTED] = "some contents are not supported",
	};

	return texts[reason] != NULL ? texts[reason] : "some checks could not run";
}

void opened_check(struct run *run, enum fsdp_level level, bool items,
	enum fsdp_rule_reason *ret_open)
{
	const char *family = fsdp_checkpoint_format(run->checkpoint).family;
	bool reads = items || family == NULL || strcmp(family, "dcp") != 0;
	const struct loading_options own = { .world = -1 };
	struct loading_answer answer;
	struct passes passes = { 0 };

	for (size_t i = 0; i < fsdp_checkpoint_error_count(run->checkpoint); i++)
		collected_error(run->collected, fsdp_checkpoint_error(run->checkpoint, i),
			run->input);
	if (level >= FSDP_LEVEL_HEADERS && reads)
		run_verify(&passes, run, level, NULL);
	audit_facts(&passes, run, level);
	for (size_t i = 0; ret_open != NULL && i < fsdp_rule_count(); i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);
		struct fsdp_rule_result result = fsdp_audit_result(passes.audit, i);

		/* Of the default level, about the checkpoint alone. */
		if (result.status == FSDP_STATUS_NOT_EVALUATED &&
			result.reason != FSDP_REASON_NEEDS_DATA &&
			result.reason != FSDP_REASON_NEEDS_VALUES &&
			result.reason != FSDP_REASON_NO_CRC &&
			result.reason != FSDP_REASON_NO_DIGEST &&
			strcmp(rule->category, "recording") != 0 &&
			strcmp(rule->category, "between") != 0 && !rule_is_limit(rule))
			*ret_open = result.reason;
	}
	if (level >= FSDP_LEVEL_HEADERS)
		check_weight_sets(run, level >= FSDP_LEVEL_DATA, true);
	report_failed_files(run);
	/* Also where no headers are read, for what its own loader refuses is nothing to
	 * resume from. */
	if (reads)
		loading_check_own(&own, run, level >= FSDP_LEVEL_DATA, &answer);
}

const char *collected_verdict(const struct collected *collected)
{
	bool open = collected->failure_count > 0;

	FOR_EACH(i, collected->finding_count, finding, &collected->findings[i]) {
		if (finding->severity == SEVERITY_ERROR)
			return "bad";
		open |= finding_is_open(finding) && finding->severity > SEVERITY_NOTE;
	}
	return open ? "partial" : "good";
}

bool path_is_unfinished(const char *path)
{
	char marker[PATH_BYTES];
	struct stat found;

	return snprintf(marker, sizeof marker, "%s-unfinished", path) <
		       (int)sizeof marker &&
	       (helper_kind(marker) >= FSDP_REMOTE_FILE || stat(marker, &found) == 0);
}
