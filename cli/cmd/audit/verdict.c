/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks one checkpoint: runs the audit of the library, gives each finding its requested level, and computes the
 * verdict.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/judging.h"
#include "part/audit-run.h"
#include "session/diagnostics.h"
#include "session/session.h"

static struct check *find_check(struct judgement *verdict, const char *rule)
{
	size_t low = 0, high = verdict->check_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(verdict->checks[middle].rule, rule);

		if (order == 0)
			return &verdict->checks[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* A number from the result of a part may be any. */
static void add_to(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

static void fail_check(struct judgement *verdict, const char *rule, uint64_t findings)
{
	struct check *check = find_check(verdict, rule);

	if (check == NULL)
		return;
	add_to(&check->findings, findings);
	check->status = FSDP_STATUS_FAILED;
	check->reason = FSDP_REASON_NONE;
}

/* What is expected says better which names must be there, and a checkpoint or plan which
 * shapes they have, than what follows from their siblings. */
static bool is_expected(const struct audit *audit, const char *rule)
{
	static const char *const of_names[] = { "FI1090", "FI1092" };
	static const char *const of_shapes[] = { "FI1093", "FI1094", "FI4005" };
	bool found = false;

	for (size_t i = 0; audit->expected.path != NULL && i < 2; i++)
		found |= strcmp(rule, of_names[i]) == 0;
	for (size_t i = 0; audit->expected.checkpoint != NULL && i < 3; i++)
		found |= strcmp(rule, of_shapes[i]) == 0;
	return found;
}

/* The same of one finding: --ignore leaves names out of what is expected. */
static bool is_judged_better(const struct audit *audit, const struct finding *finding)
{
	struct text name =
		finding->affected_kept > 0 ? finding->affected[0] : finding->tensor;

	return is_expected(audit, finding->rule) &&
	       (audit->ignored == NULL ||
		       !selection_takes_name(audit->ignored, span_of_text(name)));
}

/* Its code is trusted. */
static bool is_allowed(const struct audit_options *options, const struct finding *finding)
{
	bool found = false;

	if (strcmp(finding->rule, "FI3002") != 0 && strcmp(finding->rule, "FI3018") != 0)
		return false;
	for (size_t i = 0; i < options->globals.count; i++)
		found |= text_is(finding->tensor, text_of(options->globals.items[i]));
	return found;
}

/* Whether the finding is kept; sets its severity. */
static bool keeps(const struct judging *judging, struct finding *finding)
{
	const struct audit *audit = judging->audit;
	size_t rule = rule_index(finding->rule);

	finding->severity = levels_severity(&audit->levels, rule, finding->severity);
	return !levels_off(&audit->levels, rule) && !is_judged_better(audit, finding) &&
	       !is_allowed(audit->options, finding);
}

void drop_findings(struct judging *judging)
{
	struct collected *collected = judging->collected;
	const struct levels *levels = &judging->audit->levels;
	size_t kept = judging->run->first.finding;

	for (size_t i = kept; i < collected->finding_count; i++) {
		struct finding finding = collected->findings[i];

		if (keeps(judging, &finding))
			collected->findings[kept++] = finding;
	}
	collected->finding_count = kept;
	kept = judging->run->first.omission;
	for (size_t i = kept; i < collected->omission_count; i++)
		if (!levels_off(levels, rule_index(collected->omissions[i].rule)))
			collected->omissions[kept++] = collected->omissions[i];
	collected->omission_count = kept;
}

void audit_set_threshold(struct audit *audit, struct text word)
{
	size_t at = 0;

	while (!text_is(word, text_of(fail_words[at])))
		at++;
	audit->never_fails = at == 0;
	audit->fail_on = at == 0 ? SEVERITY_ERROR : (enum severity)(at - 1);
}

/* Rules of recordings, and rules about checks that could not run, are not checks of a checkpoint. */
static bool is_check(const struct fsdp_rule *rule)
{
	return strcmp(rule->category, "recording") != 0 && !rule_is_limit(rule);
}

/* Rules that compare with something else need it. */
static bool is_asked(const struct audit_options *options, const struct fsdp_rule *rule)
{
	if (strcmp(rule->id, "FI6005") == 0 || strcmp(rule->id, "FI6007") == 0)
		return options->expect != NULL;
	if (strcmp(rule->id, "FI6008") == 0)
		return options->manifest != NULL;
	return strcmp(rule->category, "between") != 0 || options->merged != NULL;
}

/* What no file states is stated by what the checkpoint is compared with. */
static bool is_stated(const struct audit_options *options, enum fsdp_rule_reason reason)
{
	return reason == FSDP_REASON_NEEDS_PLAN &&
	       (options->expect != NULL || options->merged != NULL);
}

static bool set_checks(struct judging *judging, const struct passes *passes)
{
	struct judgement *verdict = judging->verdict;
	size_t count = fsdp_rule_count();

	verdict->checks = calloc(count, sizeof *verdict->checks);
	if (verdict->checks == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);
		struct fsdp_rule_result result = { .status = FSDP_STATUS_NOT_EVALUATED,
			.reason = FSDP_REASON_UNREADABLE };
		bool off = levels_off(&judging->audit->levels, i);

		if (!is_check(rule))
			continue;
		if (passes->audit != NULL)
			result = fsdp_audit_result(passes->audit, i);
		if (!is_asked(judging->audit->options, rule) ||
			(judging->audit->ignored == NULL &&
				is_expected(judging->audit, rule->id)) ||
			is_stated(judging->audit->options, result.reason))
			result = (struct fsdp_rule_result){
				.status = FSDP_STATUS_NOT_APPLICABLE
			};
		verdict->checks[verdict->check_count++] = (struct check){
			.input = UINT32_MAX,
			.number = UINT32_MAX,
			.rule = rule->id,
			.slug = rule->slug,
			.status = off ? CHECK_OFF : result.status,
			.reason = off ? FSDP_REASON_NONE : result.reason,
		};
	}
	return true;
}

static bool keep_scope(struct judging *judging, const struct passes *passes)
{
	struct judgement *verdict = judging->verdict;
	size_t count = passes->scope.digest_source_count;

	if (judging->audit->level < FSDP_LEVEL_DATA || passes->verify == NULL)
		return true;
	verdict->bytes_read = passes->scope.bytes_read;
	verdict->bytes_with_digest = passes->scope.bytes_with_digest;
	verdict->digests_from = calloc(count + 1, sizeof *verdict->digests_from);
	if (verdict->digests_from == NULL)
		return false;
	for (; verdict->digest_source_count < count; verdict->digest_source_count++)
		verdict->digests_from[verdict->digest_source_count] = collected_text(
			judging->collected, fsdp_verify_digest_source(passes->verify,
						    verdict->digest_source_count));
	return true;
}

static bool run_passes(struct judging *judging, struct fsdp_error **ret_error)
{
	struct passes passes = { 0 };
	bool good = judging->run->checkpoint == NULL ||
		    passes_run(&passes, judging->run, judging->audit->level,
			    judging->audit->options->manifest, ret_error);

	good = good && set_checks(judging, &passes) && keep_scope(judging, &passes);
	passes_done(&passes);
	return good;
}

/* A check that a limit or a failed read prevented is not evidence against the checkpoint. */
static void count(struct judgement *verdict, const char *rule, enum severity severity,
	uint64_t count)
{
	bool is_limit = rule_is_limit(fsdp_rule(rule_index(rule)));
	uint64_t *const counts[] = {
		[SEVERITY_NOTE] = &verdict->counts.note,
		[SEVERITY_WARNING] = &verdict->counts.warning,
		[SEVERITY_ERROR] = &verdict->counts.error,
	};

	add_to(is_limit && severity == SEVERITY_ERROR ? &verdict->counts.unsupported
						      : counts[severity],
		count);
	fail_check(verdict, rule, count);
}

void count_findings(struct judging *judging)
{
	const struct collected *collected = judging->collected;
	struct judgement *verdict = judging->verdict;

	for (size_t i = judging->run->first.finding; i < collected->finding_count; i++) {
		const struct finding *finding = &collected->findings[i];

		count(verdict, finding->rule, finding->severity, 1);
	}
	for (size_t i = judging->run->first.omission; i < collected->omission_count;
		i++) {
		const struct omission *omission = &collected->omissions[i];
		size_t rule = rule_index(omission->rule);

		count(verdict, omission->rule,
			levels_severity(&judging->audit->levels, rule,
				collected_severity(fsdp_rule(rule)->severity)),
			omission->count);
	}
	verdict->counts.unsupported +=
		collected->failure_count - judging->run->first.failure;
	for (size_t i = 0; i < verdict->check_count; i++)
		verdict->not_evaluated[verdict->checks[i].reason]++;
	verdict->not_evaluated[FSDP_REASON_NONE] = 0;
}

static void set_scope(struct judging *judging)
{
	const struct fsdp_checkpoint *checkpoint = judging->run->checkpoint;
	struct judgement *verdict = judging->verdict;

	verdict->detail = fsdp_level_name(judging->audit->level);
	if (checkpoint == NULL)
		return;
	verdict->files = fsdp_file_count(checkpoint);
	verdict->tensors = fsdp_tensor_count(checkpoint);
	verdict->pieces = fsdp_piece_count(checkpoint);
	verdict->names = verdict->tensors + fsdp_value_count(checkpoint);
	for (uint32_t i = 0; i < verdict->tensors; i++) {
		uint64_t bytes = fsdp_tensor(checkpoint, i).bytes;

		verdict->bytes = verdict->bytes + bytes < bytes ? UINT64_MAX
								: verdict->bytes + bytes;
	}
}

/* Nothing to check: the input is of another kind, or empty. */
static bool is_nothing(const struct judging *judging)
{
	const struct collected *collected = judging->collected;
	size_t first = judging->run->first.finding;

	if (judging->verdict->opened)
		return false;
	for (size_t i = first; i < collected->finding_count; i++) {
		const struct finding *finding = &collected->findings[i];

		if (strcmp(finding->rule, "FI4001") == 0 &&
			text_is(finding->file, text_last(judging->verdict->path, '/')))
			return true;
	}
	return false;
}

static bool fails(const struct judging *judging)
{
	const struct audit *audit = judging->audit;
	const struct judgement *verdict = judging->verdict;

	if (audit->never_fails)
		return false;
	return verdict->counts.error > 0 ||
	       (audit->fail_on <= SEVERITY_WARNING && verdict->counts.warning > 0) ||
	       (audit->fail_on <= SEVERITY_NOTE && verdict->counts.note > 0);
}

void decide(struct judging *judging)
{
	struct judgement *verdict = judging->verdict;
	int status = STATUS_GOOD;

	verdict->complete = verdict->opened && !lacks_something(judging);
	verdict->word = verdict->counts.error > 0 || fails(judging) ? "bad"
			: verdict->complete                         ? "good"
								    : "partial";
	if (fails(judging))
		status = STATUS_BAD;
	else if (!verdict->complete)
		status = STATUS_PARTIAL;
	if (is_nothing(judging) ||
		(!verdict->opened && (verdict->counts.error == 0 ||
					     (verdict->counts.unsupported > 0 &&
						     verdict->loading.count == 0))))
		status = STATUS_FAILED;
	verdict->status = judging->run->status = status;
}

struct judgement *add_verdict(struct audit *audit, const struct run *run)
{
	struct judgement *verdicts =
		list_grown(audit->judgements, audit->count, sizeof *verdicts);

	if (verdicts == NULL)
		return NULL;
	audit->judgements = verdicts;
	verdicts = &verdicts[audit->count++];
	*verdicts = (struct judgement){
		.input = run->input,
		.path = text_of(run->path),
		.opened = run->checkpoint != NULL,
		.bytes_read = UINT64_MAX,
		.bytes_with_digest = UINT64_MAX,
	};
	while (verdicts->path.size > 1 &&
		verdicts->path.data[verdicts->path.size - 1] == '/')
		verdicts->path.size--;
	return verdicts;
}

/* With what was expected of it. */
static bool compare_others(
	const struct audit *audit, struct run *run, struct fsdp_error **ret_error)
{
	const struct merged_options options = {
		.map = audit->map,
		.sizes = audit->sizes,
		.values = audit->level >= FSDP_LEVEL_DATA,
		.jobs = jobs_wanted(run->common),
	};

	/* Of an actor and a critic neither represents the directory. */
	if (audit->level >= FSDP_LEVEL_HEADERS && run->common->part_number <= 1 &&
		!check_weight_sets(run, audit->level >= FSDP_LEVEL_DATA, true))
		return false;
	if (run->checkpoint == NULL)
		return true;
	if (audit->expected.path != NULL &&
		!judge_expected(&audit->expected, run, audit->ignored))
		return false;
	return audit->merged.path == NULL ||
	       judge_merged(&audit->merged, run, audit->ignored, &options, ret_error);
}

/* A loader that refuses it, or loads something else, fails the audit. */
static bool judge_loading(struct judging *judging, struct fsdp_error **ret_error)
{
	const struct audit *audit = judging->audit;
	struct judgement *verdict = judging->verdict;

	if (loading_is_own(&audit->options->loading))
		return true;
	if (!loading_check(&audit->options->loading, judging->run, &audit->expected,
		    audit->options->data, &verdict->loading, ret_error))
		return false;
	if (verdict->loading.status == STATUS_BAD)
		verdict->word = "bad";
	else if (verdict->loading.status == STATUS_PARTIAL &&
		 strcmp(verdict->word, "good") == 0)
		verdict->word = "partial";
	if (!audit->never_fails)
		verdict->status = status_worse(verdict->status, verdict->loading.status);
	return true;
}

bool audit_judge(struct audit *audit, struct run *run, struct fsdp_error **ret_error)
{
	struct judging judging = { .audit = audit,
		.run = run,
		.collected = run->collected,
		.verdict = add_verdict(audit, run) };

	if (judging.verdict == NULL)
		return false;
	if (!run_passes(&judging, ret_error) || !compare_others(audit, run, ret_error))
		return false;
	report_failed_files(run);
	drop_findings(&judging);
	if (audit->level >= FSDP_LEVEL_HEADERS && run->common->part_count == 0 &&
		!loading_judge_own(&audit->options->loading, run, audit->options->data,
			&judging.verdict->loading))
		return false;
	drop_findings(&judging);
	set_scope(&judging);
	count_findings(&judging);
	decide(&judging);
	/* For parts, merge reports it. */
	if (run->common->part_count != 0)
		return name_part(&judging);
	return note_not_evaluated(&judging) && judge_loading(&judging, ret_error);
}
