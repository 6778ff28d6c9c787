/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of an audit: what one says of itself, and the judgement on the whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/judging.h"
#include "run/answer.h"
#include "run/collected.h"

/* ---- one part ---- */

/* What parts of one audit must have been asked alike; its first line is what merge needs of
 * it. NULL: out of memory. */
static char *request_of(const struct judging *judging)
{
	const struct audit_options *options = judging->audit->options;
	const struct audit_request *asked = &judging->verdict->asked;
	const char *const files[] = { options->manifest, options->policy,
		options->expect };
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (stream == NULL)
		return NULL;
	fprintf(stream, "data%s\n%s", options->checks ? " checks" : "", asked->fail_on);
	for (size_t i = 0; i < asked->level_count; i++)
		fprintf(stream, "\n%s", asked->levels[i].data);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		fprintf(stream, "\n%zu %s", i, files[i] != NULL ? files[i] : "");
	for (size_t i = 0; i < options->ignore.count; i++)
		fprintf(stream, "\n%s", options->ignore.items[i]);
	if (fclose(stream) == 0)
		return text;
	free(text);
	return NULL;
}

static bool keep_levels(struct judging *judging)
{
	struct audit_request *asked = &judging->verdict->asked;
	struct text *levels = calloc(fsdp_rule_count(), sizeof *levels);
	char line[64];

	if (!owned_take(&judging->collected->owned, (char *)levels))
		return false;
	asked->levels = levels;
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const char *word = levels_word(&judging->audit->levels, i);

		if (word == NULL)
			continue;
		snprintf(line, sizeof line, "%s=%s", fsdp_rule(i)->id, word);
		levels[asked->level_count] = collected_text(judging->collected, line);
		if (levels[asked->level_count++].data == NULL)
			return false;
	}
	return true;
}

bool name_part(struct judging *judging)
{
	const struct audit *audit = judging->audit;
	struct judgement *verdict = judging->verdict;
	char *request;
	bool good;

	verdict->asked.fail_on =
		audit->never_fails ? "none" : severity_name(audit->fail_on);
	if (!keep_levels(judging))
		return false;
	request = request_of(judging);
	good = request != NULL &&
	       partial_init(&verdict->partial, judging->run, request, NULL, NULL, 0);
	free(request);
	/* Of each check the parts lie one behind the other. */
	for (size_t i = 0; good && i < verdict->check_count; i++)
		verdict->checks[i].number = (uint32_t)(i * verdict->partial.parts +
						       verdict->partial.part - 1);
	return good;
}

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

static void join_check(struct check *check, struct fsdp_document_value row)
{
	unsigned status = status_of(row), reason = reason_of(row);

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
		join_check(check, row);
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

	verdict->detail = fsdp_level_name(FSDP_LEVEL_DATA);
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
	const struct audit_options options = { .data = true,
		.checks = strstr(joined->partial.request, " checks") != NULL };
	struct audit audit = { .options = &options, .level = FSDP_LEVEL_DATA };
	struct judging judging = { .audit = &audit,
		.run = run,
		.collected = run->collected,
		.verdict = add_verdict(&audit, run) };
	bool good = judging.verdict != NULL;

	(void)ret_error;
	if (good) {
		judging.verdict->input = 0;
		set_whole(judging.verdict, joined->data[0]);
	}
	run->input = 0;
	good = good && set_levels(&audit, fsdp_document_get(joined->data[0], "asked")) &&
	       join_checks(&judging, joined) && join_scope(&judging, joined);
	if (good) {
		count_findings(&judging);
		decide(&judging);
		run->collected->inputs[0].status = judging.verdict->status;
		good = note_not_evaluated(&judging) && audit_answer(&audit, run);
	}
	audit_done(&audit);
	return good;
}
