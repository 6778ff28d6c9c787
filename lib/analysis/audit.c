/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the checks over an open checkpoint and records the result of each rule.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/applies.h"
#include "analysis/affected.h"
#include "analysis/checks/checking.h"
#include "analysis/tally.h"
#include "base/error.h"

/* Nothing refers to the order but that of the findings. */
static const struct fsdp_check *const checks[] = {
	&fsdp_check_boxes,
	&fsdp_check_wrapped,
	&fsdp_check_make_up,
	&fsdp_check_sparse,
	&fsdp_check_parameters,
	&fsdp_check_values,
	&fsdp_check_complete,
	&fsdp_check_unseen,
	&fsdp_check_ties,
	&fsdp_check_optim_groups,
	&fsdp_check_optimizer,
	&fsdp_check_unstated,
	&fsdp_check_folder_step,
	&fsdp_check_no_meta,
};
enum { CHECK_COUNT = sizeof checks / sizeof checks[0] };

struct fsdp_audit {
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	struct fsdp_arena arena;       /* of the findings */
	struct fsdp_findings findings; /* of its own checks */
	struct fsdp_finding *all;
	size_t count; /* of all */
	struct fsdp_rule_result results[FSDP_RULE_COUNT];
};

/* What is known of a rule before any check ran. */
static struct fsdp_rule_result before_any_check(
	size_t index, unsigned subjects, const struct fsdp_audit_options *options)
{
	static const enum fsdp_rule_reason reasons[FSDP_LEVEL_COUNT] = {
		[FSDP_LEVEL_HEADERS] = FSDP_REASON_NEEDS_HEADERS,
		[FSDP_LEVEL_DATA] = FSDP_REASON_NEEDS_DATA,
		[FSDP_LEVEL_VALUES] = FSDP_REASON_NEEDS_VALUES,
	};
	const struct fsdp_rule *rule = fsdp_rule(index);
	struct fsdp_rule_result result = { .rule = rule };

	if (!fsdp_rule_applies(rule, subjects)) {
		result.status = FSDP_STATUS_NOT_APPLICABLE;
	} else if (rule->level > options->level && rule->level != FSDP_LEVEL_ANY) {
		result.status = FSDP_STATUS_NOT_EVALUATED;
		result.reason = reasons[rule->level];
	} else if (options->verify != NULL) {
		fsdp_verify_result(options->verify, index, &result);
	}
	return result;
}

static void count_findings(
	struct fsdp_audit *audit, const struct fsdp_rule *rule, uint64_t count)
{
	fsdp_tally(&audit->results[rule - fsdp_rule(0)].findings, count);
}

static void count_omitted(struct fsdp_audit *audit, struct fsdp_omitted omitted)
{
	count_findings(audit, omitted.rule, omitted.count);
}

/* All findings, with the names that suffer. */
static bool gather(struct fsdp_audit *audit, const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_verify *verify)
{
	size_t found = fsdp_finding_count(checkpoint), own = audit->findings.list.count;
	size_t bytes = verify != NULL ? fsdp_verify_finding_count(verify) : 0;
	struct fsdp_affected affected;

	audit->all = FSDP_TAKE(&audit->arena, audit->all, found + bytes + own + 1);
	if (audit->all == NULL)
		return false;
	for (size_t i = 0; i < found; i++)
		audit->all[audit->count++] = *fsdp_finding(checkpoint, i);
	for (size_t i = 0; i < bytes; i++)
		audit->all[audit->count++] = *fsdp_verify_finding(verify, i);
	for (size_t i = 0; i < own; i++)
		audit->all[audit->count++] = *(const struct fsdp_finding *)fsdp_vec_at(
			&audit->findings.list, i);
	fsdp_affected_init(&affected, checkpoint, &audit->arena);
	for (size_t i = 0; i < audit->count; i++)
		if (!fsdp_affected_fill(&affected, &audit->all[i]))
			return false;
	return true;
}

static void end_results(struct fsdp_audit *audit,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_verify *verify)
{
	for (size_t i = 0; i < audit->count; i++)
		count_findings(audit, audit->all[i].rule, 1);
	for (size_t i = 0; i < fsdp_omitted_count(checkpoint); i++)
		count_omitted(audit, fsdp_omitted(checkpoint, i));
	for (size_t i = 0; verify != NULL && i < fsdp_verify_omitted_count(verify); i++)
		count_omitted(audit, fsdp_verify_omitted(verify, i));
	for (size_t i = 0; i < fsdp_audit_omitted_count(audit); i++)
		count_omitted(audit, fsdp_audit_omitted(audit, i));
	for (size_t i = 0; i < FSDP_RULE_COUNT; i++)
		if (audit->results[i].findings > 0) {
			audit->results[i].status = FSDP_STATUS_FAILED;
			audit->results[i].reason = FSDP_REASON_NONE;
		}
}

/* Callers that were compiled before it was there do not set it. */
static const char *path_of(const struct fsdp_audit_options *options)
{
	return options->size >= offsetof(struct fsdp_audit_options, path) +
					sizeof options->path
		       ? options->path
		       : NULL;
}

static bool is_due(const struct fsdp_check *check, enum fsdp_level level)
{
	for (size_t i = 0; i < check->rule_count; i++)
		if (fsdp_rule(check->rules[i])->level <= level)
			return true;
	return false;
}

static bool run_checks(struct fsdp_audit *audit, const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_audit_options *options, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < CHECK_COUNT; i++) {
		struct fsdp_arena arena;
		struct fsdp_checking checking = {
			.checkpoint = checkpoint,
			.verify = options->verify,
			.level = options->level,
			.path = path_of(options),
			.limits = &audit->limits,
			.findings = &audit->findings,
			.arena = &arena,
			.name = { .arena = &arena },
			.results = audit->results,
		};
		bool good;

		if (!is_due(checks[i], options->level))
			continue;
		fsdp_arena_init(&arena, &audit->budget);
		good = checks[i]->run(&checking, ret_error);
		if (good && (checking.name.failed || audit->findings.lost))
			good = fsdp_arena_fail(&arena, ret_error);
		fsdp_arena_done(&arena);
		if (!good)
			return false;
	}
	return true;
}

bool fsdp_audit_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_audit_options *options, struct fsdp_audit **ret_audit,
	struct fsdp_error **ret_error)
{
	struct fsdp_audit *audit = calloc(1, sizeof *audit);
	unsigned subjects = fsdp_subjects_of(checkpoint);
	bool known, good;

	if (audit == NULL)
		return fsdp_fail_memory(ret_error);
	known = fsdp_limits_choose(
		&audit->limits, options->limits, options->limit_count, ret_error);
	audit->budget.ceiling = fsdp_limit(&audit->limits, FSDP_LIMIT_MEMORY);
	fsdp_arena_init(&audit->arena, &audit->budget);
	fsdp_findings_init(&audit->findings, &audit->arena, &audit->limits);
	for (size_t i = 0; i < FSDP_RULE_COUNT; i++)
		audit->results[i] = before_any_check(i, subjects, options);
	good = known && run_checks(audit, checkpoint, options, ret_error);
	if (good && !gather(audit, checkpoint, options->verify))
		good = fsdp_arena_fail(&audit->arena, ret_error);
	if (!good) {
		fsdp_audit_free(audit);
		return false;
	}
	end_results(audit, checkpoint, options->verify);
	*ret_audit = audit;
	return true;
}

void fsdp_audit_free(struct fsdp_audit *audit)
{
	if (audit == NULL)
		return;
	fsdp_arena_done(&audit->arena);
	free(audit);
}

size_t fsdp_audit_finding_count(const struct fsdp_audit *audit)
{
	return audit->count;
}

const struct fsdp_finding *fsdp_audit_finding(
	const struct fsdp_audit *audit, size_t index)
{
	return index < audit->count ? &audit->all[index] : NULL;
}

size_t fsdp_audit_omitted_count(const struct fsdp_audit *audit)
{
	return fsdp_findings_omitted_count(&audit->findings);
}

struct fsdp_omitted fsdp_audit_omitted(const struct fsdp_audit *audit, size_t index)
{
	return fsdp_findings_omitted(&audit->findings, index);
}

struct fsdp_rule_result fsdp_audit_result(const struct fsdp_audit *audit, size_t rule)
{
	return rule < FSDP_RULE_COUNT ? audit->results[rule]
				      : (struct fsdp_rule_result){ 0 };
}
