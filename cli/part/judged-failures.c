/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes findings of the failures that are judgements: those of a file that is so bad that
 * nothing behind it can be read, and not those of what could not be judged.
 */
#include <string.h>

#include "part/judged-failures.h"
#include "part/value-text.h"
#include "run/answer.h"
#include "run/catalogue.h"
#include "run/collected.h"

static const struct fsdp_rule *judged_by(const struct failure *failure)
{
	const struct fsdp_rule *rule =
		failure->rule != NULL ? fsdp_rule_find(failure->rule) : NULL;

	return rule != NULL && !rule_is_limit(rule) ? rule : NULL;
}

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

static bool was_found(const struct run *run, const char *rule, struct text file)
{
	const struct collected *collected = run->collected;

	for (size_t i = run->first.finding; i < collected->finding_count; i++)
		if (strcmp(collected->findings[i].rule, rule) == 0 &&
			text_is(collected->findings[i].file, file))
			return true;
	return false;
}

/* The names that an index has of a file which could not be read. */
static void add_unread(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_finding *finding)
{
	size_t count = checkpoint != NULL ? fsdp_unread_count(checkpoint) : 0;

	for (size_t i = 0; i < count; i++) {
		struct fsdp_unread unread = fsdp_unread(checkpoint, i);

		if (!text_is(text_of_span(unread.file), text_of_span(finding->file)))
			continue;
		finding->affected = unread.names;
		finding->affected_kept = unread.kept;
		finding->affected_count = unread.count;
	}
}

static void find_failure(
	struct run *run, const struct failure *failure, const struct fsdp_rule *rule)
{
	struct text file = path_under(failure->path, run->path);

	struct fsdp_finding finding = {
		.rule = rule,
		.severity = FSDP_ERROR,
		.file = span_of_text(file),
		.member = span_of_text(failure->member),
		.offset = failure->offset,
		.length = FSDP_UNKNOWN,
		.rank = FSDP_NONE,
		.lost_bytes = FSDP_UNKNOWN,
		.message = span_of_text(failure->message),
		.next = span_of_text(failure->hint),
	};

	if (was_found(run, rule->id, file))
		return;
	add_unread(run->checkpoint, &finding);
	collected_found(run->collected, &finding, run->input, true);
}

void judged_failures_take(struct run *run)
{
	struct collected *collected = run->collected;
	size_t kept = run->first.failure;

	for (size_t i = kept; i < collected->failure_count; i++) {
		struct failure failure = collected->failures[i];
		const struct fsdp_rule *rule = judged_by(&failure);

		if (rule != NULL)
			find_failure(run, &failure, rule);
		else
			collected->failures[kept++] = failure;
	}
	collected->failure_count = kept;
}
