/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combines the partial results of an audit into its verdict.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/judging.h"
#include "part/part-result.h"
#include "session/session.h"

/* Which of two parts decides the result of a rule. */
static unsigned weight_of(const struct check *check)
{
	static const unsigned weights[] = {
		[FSDP_STATUS_NOT_APPLICABLE] = 0,
		[FSDP_STATUS_PASSED] = 1,
		[FSDP_STATUS_NOT_EVALUATED] = 2,
		[FSDP_STATUS_FAILED] = 3 + FSDP_REASON_COUNT,
		[CHECK_OFF] = 4 + FSDP_REASON_COUNT,
	};

	return weights[check->status] +
	       (check->status == FSDP_STATUS_NOT_EVALUATED
			       ? FSDP_REASON_COUNT - check->reason
			       : 0);
}

/* Sorts the rows of all parts by rule. False: the parts have different rules. */
static bool join_checks(struct judgement *verdict, const struct joined_parts *joined)
{
	for (size_t i = 0; i < joined->count; i++) {
		struct check row = { .input = UINT32_MAX },
			     *check = &verdict->checks[i / joined->parts];

		part_result_read(&check_record, joined->rows[i], &row, NULL);
		row.number = UINT32_MAX;
		row.rule = fsdp_rule_find(row.rule)->id;
		row.slug = fsdp_rule_find(row.rule)->slug;
		row.findings = 0;
		if (i % joined->parts != 0 && row.rule != check->rule)
			return false;
		if (i % joined->parts == 0 || weight_of(&row) > weight_of(check))
			*check = row;
	}
	verdict->check_count = joined->count / joined->parts;
	return joined->count % joined->parts == 0;
}

/* Fills the verdict, up to what findings decide. False: out of memory. */
static bool join_verdicts(struct judgement *verdict, const struct joined_parts *joined)
{
	struct fsdp_document_value sources = { .count = 0 };

	part_result_read(&audit_record, joined->results->data, verdict, NULL);
	verdict->input = 0;
	verdict->partial.parts = 0;
	memset(&verdict->counts, 0, sizeof verdict->counts);
	for (size_t i = 0; i < joined->parts; i++) {
		struct fsdp_document_value scope =
			fsdp_document_get(joined->results[i].data, "scope");
		struct fsdp_document_value some =
			fsdp_document_get(scope, "digests_from");
		struct judgement told = { .bytes_read = UINT64_MAX,
			.bytes_with_digest = UINT64_MAX };

		/* Lists are those of all parts; some have zips, with checksums, too. */
		if (some.kind != FSDP_DOCUMENT_ABSENT && some.count >= sources.count)
			sources = some;
		part_result_read(&audit_record, joined->results[i].data, &told, NULL);
		if (i > 0 && (__builtin_add_overflow(verdict->bytes_read, told.bytes_read,
				      &verdict->bytes_read) ||
				     __builtin_add_overflow(verdict->bytes_with_digest,
					     told.bytes_with_digest,
					     &verdict->bytes_with_digest)))
			verdict->bytes_read = verdict->bytes_with_digest = UINT64_MAX;
	}
	verdict->checks = calloc(joined->count + 1, sizeof *verdict->checks);
	if (sources.kind != FSDP_DOCUMENT_ABSENT)
		verdict->digests_from =
			calloc(sources.count + 1, sizeof *verdict->digests_from);
	if (verdict->checks == NULL ||
		(sources.count > 0 && verdict->digests_from == NULL))
		return false;
	for (size_t i = 0; i < sources.count; i++)
		verdict->digests_from[verdict->digest_source_count++] =
			text_of_span(fsdp_document_item(sources, i).text);
	return true;
}

/* Whether the verdict in a partial result is worse than its findings. */
static bool contradicts(const struct judgement *verdict, struct fsdp_document_value data)
{
	struct judgement told = { 0 };

	part_result_read(&audit_record, data, &told, NULL);
	return told.counts.error > verdict->counts.error ||
	       told.counts.warning > verdict->counts.warning ||
	       told.counts.note > verdict->counts.note ||
	       told.counts.unsupported > verdict->counts.unsupported ||
	       (strcmp(told.word, verdict->word) != 0 &&
		       (strcmp(verdict->word, "good") == 0 ||
			       strcmp(told.word, "bad") == 0));
}

/* *ret_wrong: the parts say what audits do not say. False: out of memory. */
static bool judge_whole(
	struct judging *judging, const struct joined_parts *joined, bool *ret_wrong)
{
	struct levels *levels = &judging->audit->levels;
	struct judgement *verdict = judging->verdict;
	struct fsdp_document_value asked =
		fsdp_document_get(joined->results->data, "asked");
	struct fsdp_document_value words = fsdp_document_get(asked, "levels");

	if (verdict == NULL || !levels_init(levels) || !join_verdicts(verdict, joined))
		return false;
	for (size_t i = 0; i < words.count; i++)
		*ret_wrong |=
			levels_set(levels,
				(const char *)fsdp_document_item(words, i).text.data) !=
			NULL;
	audit_set_threshold(judging->audit, told_text(asked, "fail_on"));
	*ret_wrong |= !join_checks(verdict, joined);
	count_findings(judging);
	decide(judging);
	*ret_wrong |= status_worse(verdict->status, joined->status) != verdict->status;
	for (size_t i = 0; i < joined->parts; i++)
		*ret_wrong |= contradicts(verdict, joined->results[i].data);
	return true;
}

bool audit_join(
	struct run *run, const struct joined_parts *joined, struct fsdp_error **ret_error)
{
	const struct audit_options options = { .data = true,
		.checks = strstr(joined->results->facts.request, " checks") != NULL };
	struct audit audit = { .options = &options, .level = FSDP_LEVEL_DATA };
	struct judging judging = { &audit, run, run->collected,
		add_verdict(&audit, run) };
	bool wrong = false, good = judge_whole(&judging, joined, &wrong);

	(void)ret_error;
	run->input = 0;
	if (good && wrong) {
		refuse(run, "run the parts again",
			"not complete results of an audit: the header of a part disagrees with its findings");
	} else if (good) {
		run->collected->inputs[0].status = judging.verdict->status;
		good = note_not_evaluated(&judging) && audit_answer(&audit, run);
	}
	audit_done(&audit);
	return good;
}
