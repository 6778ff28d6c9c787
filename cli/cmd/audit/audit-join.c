/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judgement on the whole of an audit, from what its parts tell.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/judging.h"
#include "run/answer.h"
#include "run/catalogue.h"
#include "run/collected.h"

/* ---- checks of all parts ---- */

static unsigned status_of(struct fsdp_document_value row)
{
	struct text word = text_of_span(joined_text(row, "status"));
	unsigned status = 0;

	while (status < CHECK_OFF &&
		!text_is(word,
			text_of(fsdp_rule_status_name((enum fsdp_rule_status)status))))
		status++;
	return status;
}

static unsigned reason_of(struct fsdp_document_value row)
{
	struct text word = text_of_span(joined_text(row, "reason"));

	for (unsigned i = FSDP_REASON_NONE + 1; i < FSDP_REASON_COUNT; i++)
		if (text_is(word,
			    text_of(fsdp_rule_reason_name((enum fsdp_rule_reason)i))))
			return i;
	return FSDP_REASON_NONE;
}

/* Which of two parts decides what became of a rule. */
static int weight_of(unsigned status, unsigned reason)
{
	static const int of_status[] = {
		[FSDP_STATUS_NOT_APPLICABLE] = 0,
		[FSDP_STATUS_PASSED] = 1,
		[FSDP_STATUS_NOT_EVALUATED] = 2,
		[FSDP_STATUS_FAILED] = 8,
		[CHECK_OFF] = 9,
	};
	static const int of_reason[FSDP_REASON_COUNT] = {
		[FSDP_REASON_LIMIT] = 1,
		[FSDP_REASON_UNREADABLE] = 2,
		[FSDP_REASON_NO_DIGEST] = 3,
		[FSDP_REASON_NO_CRC] = 4,
	};

	return of_status[status] +
	       (status == FSDP_STATUS_NOT_EVALUATED ? of_reason[reason] : 0);
}

static void join_check(struct check *check, unsigned status, unsigned reason)
{
	if (weight_of(status, reason) < weight_of(check->status, check->reason))
		return;
	check->status = status;
	check->reason = reason;
}

/* False: out of memory. */
static bool join_checks(struct judging *judging, const struct joined_parts *joined)
{
	struct judgement *verdict = judging->verdict;
	size_t parts = joined->partial.parts, count = joined->count / parts;

	verdict->checks = calloc(count + 1, sizeof *verdict->checks);
	if (verdict->checks == NULL)
		return false;
	for (size_t i = 0; i < joined->count; i++) {
		struct fsdp_document_value row = joined->rows[i];
		const struct fsdp_rule *rule =
			fsdp_rule_find((const char *)joined_text(row, "rule").data);
		struct check *check =
			&verdict->checks[verdict->check_count - (i % parts != 0)];

		if (rule == NULL)
			continue;
		if (i % parts == 0) {
			*check = (struct check){ .input = UINT32_MAX,
				.number = UINT32_MAX,
				.rule = rule->id,
				.slug = rule->slug,
				.status = FSDP_STATUS_NOT_APPLICABLE };
			verdict->check_count++;
		}
		join_check(check, status_of(row), reason_of(row));
	}
	return true;
}

/* ---- what was read ---- */

static bool knows(const struct judgement *verdict, struct text source)
{
	for (size_t i = 0; i < verdict->digest_source_count; i++)
		if (text_is(verdict->digests_from[i], source))
			return true;
	return false;
}

/* Checksums of zips come first; lists are the same in all parts. */
static bool add_source(struct judging *judging, struct fsdp_document_value source)
{
	struct judgement *verdict = judging->verdict;
	struct text text =
		collected_text(judging->collected, (const char *)source.text.data);
	size_t at = text_is(text, text_of("crc32")) ? 0 : verdict->digest_source_count;

	if (text.data == NULL || knows(verdict, text))
		return text.data != NULL;
	memmove(&verdict->digests_from[at + 1], &verdict->digests_from[at],
		(verdict->digest_source_count - at) * sizeof text);
	verdict->digests_from[at] = text;
	verdict->digest_source_count++;
	return true;
}

static bool join_scope(struct judging *judging, const struct joined_parts *joined)
{
	struct judgement *verdict = judging->verdict;
	size_t most = 1;

	for (size_t i = 0; i < joined->partial.parts; i++) {
		struct fsdp_document_value scope =
			fsdp_document_get(joined->data[i], "scope");
		if (fsdp_document_get(scope, "bytes_read").kind != FSDP_DOCUMENT_INTEGER)
			return true;
		most += fsdp_document_get(scope, "digests_from").count;
	}
	verdict->bytes_read = verdict->bytes_with_digest = 0;
	verdict->digests_from = calloc(most, sizeof *verdict->digests_from);
	if (verdict->digests_from == NULL)
		return false;
	for (size_t i = 0; i < joined->partial.parts; i++) {
		struct fsdp_document_value scope =
			fsdp_document_get(joined->data[i], "scope");
		struct fsdp_document_value sources =
			fsdp_document_get(scope, "digests_from");

		verdict->bytes_read += joined_count(scope, "bytes_read");
		verdict->bytes_with_digest += joined_count(scope, "bytes_with_digest");
		for (size_t k = 0; k < sources.count; k++)
			if (!add_source(judging, fsdp_document_item(sources, k)))
				return false;
	}
	return true;
}

/* ---- numbers ---- */

static struct fsdp_verify_seen seen_of(struct fsdp_document_value row)
{
	const char *text = (const char *)joined_text(row, "numbers").data;
	struct fsdp_verify_seen seen = { .piece = (uint32_t)joined_count(row, "piece") };
	char *end = NULL;

	if (text == NULL)
		return (struct fsdp_verify_seen){ .piece = FSDP_NONE };
	seen.how = (uint32_t)strtoul(text, &end, 16);
	for (size_t i = 0; i < FSDP_VERIFY_SEEN_WORDS; i++)
		seen.words[i] = strtoull(end, &end, 16);
	return seen;
}

/* What all parts saw, in their order, to be freed. NULL: out of memory. */
static struct fsdp_verify_seen *list_seen(
	const struct joined_parts *joined, size_t *ret_count)
{
	struct fsdp_verify_seen *list;
	size_t most = 0, count = 0;

	for (size_t i = 0; i < joined->partial.parts; i++)
		most += fsdp_document_get(joined->data[i], "seen").count;
	list = calloc(most + 1, sizeof *list);
	for (size_t i = 0; list != NULL && i < joined->partial.parts; i++) {
		struct fsdp_document_value rows =
			fsdp_document_get(joined->data[i], "seen");

		for (size_t k = 0; k < rows.count; k++)
			list[count++] = seen_of(fsdp_document_item(rows, k));
	}
	*ret_count = count;
	return list;
}

static bool is_tie(const struct fsdp_rule *rule)
{
	return strcmp(rule->id, "FI1095") == 0;
}

/* Whether numbers tell it: all else the parts have told. */
static bool is_of_numbers(const struct fsdp_rule *rule)
{
	return rule->level == FSDP_LEVEL_VALUES || is_tie(rule);
}

/* A tie may differ in its headers already. */
static bool is_told(const struct judging *judging, const struct fsdp_finding *finding)
{
	const struct collected *collected = judging->collected;

	if (!is_tie(finding->rule))
		return false;
	for (size_t i = judging->run->first.finding; i < collected->finding_count; i++)
		if (strcmp(collected->findings[i].rule, finding->rule->id) == 0 &&
			text_is(collected->findings[i].message,
				text_of_span(finding->message)))
			return true;
	return false;
}

static void take_omitted(struct judging *judging, struct fsdp_omitted omitted)
{
	if (omitted.rule != NULL && omitted.rule->level == FSDP_LEVEL_VALUES)
		collected_omitted(judging->collected, &omitted, 0, true);
}

static void take_numbers(struct judging *judging, const struct fsdp_verify *verify,
	const struct fsdp_audit *audit)
{
	struct judgement *verdict = judging->verdict;

	for (size_t i = 0; i < fsdp_verify_omitted_count(verify); i++)
		take_omitted(judging, fsdp_verify_omitted(verify, i));
	for (size_t i = 0; i < fsdp_audit_omitted_count(audit); i++)
		take_omitted(judging, fsdp_audit_omitted(audit, i));
	for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);

		if (is_of_numbers(finding->rule) && !is_told(judging, finding))
			collected_found(judging->collected, finding, 0, true);
	}
	for (size_t i = 0; i < verdict->check_count; i++) {
		size_t rule = rule_index(verdict->checks[i].rule);
		struct fsdp_rule_result result = fsdp_audit_result(audit, rule);

		if (is_of_numbers(fsdp_rule(rule)))
			join_check(&verdict->checks[i], result.status, result.reason);
	}
}

/* Judges the numbers that all parts saw. */
static bool judge_numbers(struct judging *judging, const struct joined_parts *joined,
	struct fsdp_error **ret_error)
{
	struct run *run = judging->run;
	struct fsdp_verify_options options = { .size = sizeof options,
		.level = FSDP_LEVEL_VALUES,
		.jobs = jobs_wanted(run->common) };
	struct fsdp_audit_options judged = { .size = sizeof judged,
		.level = FSDP_LEVEL_VALUES,
		.limits = run->limits,
		.limit_count = run->limit_count };
	struct fsdp_verify_seen *seen = list_seen(joined, &options.seen_count);
	struct fsdp_verify *verify = NULL;
	struct fsdp_audit *audit = NULL;
	bool good;

	options.seen = seen;
	good = seen != NULL &&
	       fsdp_verify_new(joined->checkpoint, &options, &verify, ret_error);
	judged.verify = verify;
	good = good && fsdp_audit_new(joined->checkpoint, &judged, &audit, ret_error);
	if (good)
		take_numbers(judging, verify, audit);
	fsdp_audit_free(audit);
	fsdp_verify_free(verify);
	free(seen);
	return good;
}

/* ---- the whole ---- */

static bool set_levels(struct audit *audit, struct fsdp_document_value asked)
{
	struct fsdp_document_value levels = fsdp_document_get(asked, "levels");
	struct text fail_on = text_of_span(joined_text(asked, "fail_on"));
	size_t at = 0;

	if (!levels_init(&audit->levels))
		return false;
	for (size_t i = 0; i < levels.count; i++)
		(void)levels_set(&audit->levels,
			(const char *)fsdp_document_item(levels, i).text.data);
	while (fail_words[at] != NULL && !text_is(fail_on, text_of(fail_words[at])))
		at++;
	audit->never_fails = at == 0;
	audit->fail_on = at == 0 || fail_words[at] == NULL ? SEVERITY_ERROR
							   : (enum severity)(at - 1);
	return true;
}

static void set_whole(struct judgement *verdict, struct fsdp_document_value data)
{
	struct fsdp_document_value scope = fsdp_document_get(data, "scope");
	struct fsdp_document_value whole = fsdp_document_get(data, "whole");

	verdict->opened = fsdp_document_get(whole, "opened").integer != 0;
	verdict->files = joined_count(scope, "files");
	verdict->tensors = joined_count(scope, "tensors");
	verdict->pieces = joined_count(scope, "pieces");
	verdict->names = joined_count(whole, "names");
	verdict->bytes = joined_count(whole, "bytes");
}

bool audit_join(
	struct run *run, const struct joined_parts *joined, struct fsdp_error **ret_error)
{
	const char *request = joined->partial.request;
	const struct audit_options options = { .data = true,
		.values = strstr(request, " values") != NULL,
		.baseline = strstr(request, " baseline") != NULL ? "" : NULL,
		.checks = strstr(request, " checks") != NULL };
	struct audit audit = { .options = &options,
		.level = options.values ? FSDP_LEVEL_VALUES : FSDP_LEVEL_DATA };
	struct fsdp_document_value asked = fsdp_document_get(joined->data[0], "asked");
	struct judging judging = { .audit = &audit,
		.run = run,
		.collected = run->collected,
		.verdict = add_verdict(&audit, run) };
	bool good = judging.verdict != NULL;

	if (good) {
		judging.verdict->input = 0;
		judging.verdict->detail = fsdp_level_name(audit.level);
		set_whole(judging.verdict, joined->data[0]);
	}
	run->input = 0;
	good = good && set_levels(&audit, asked) &&
	       baseline_take(&audit.baseline, fsdp_document_get(asked, "known")) &&
	       join_checks(&judging, joined) && join_scope(&judging, joined) &&
	       (joined->checkpoint == NULL || judge_numbers(&judging, joined, ret_error));
	if (good) {
		drop_findings(&judging);
		count_findings(&judging);
		decide(&judging);
		run->collected->inputs[0].status = judging.verdict->status;
		good = note_not_evaluated(&judging) && audit_answer(&audit, run);
	}
	audit_done(&audit);
	return good;
}
