/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the rules that were not evaluated, and what they need.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/audit/judging.h"
#include "session/diagnostics.h"

/* Whether the rule needs a deeper level than the requested one. */
static bool is_deeper(enum fsdp_rule_reason reason, enum fsdp_level level)
{
	return (reason == FSDP_REASON_NEEDS_HEADERS && level < FSDP_LEVEL_HEADERS) ||
	       (reason == FSDP_REASON_NEEDS_DATA && level < FSDP_LEVEL_DATA) ||
	       (reason == FSDP_REASON_NEEDS_VALUES && level < FSDP_LEVEL_VALUES);
}

/* All bytes were read, and no checksum is stored: this is an error only if the caller requires checksums. */
static bool is_unchecked(
	enum fsdp_rule_reason reason, const struct audit_options *options)
{
	return (reason == FSDP_REASON_NO_CRC || reason == FSDP_REASON_NO_DIGEST) &&
	       (options == NULL || !options->require_checksums);
}

static const char *const wants[FSDP_REASON_COUNT] = {
	[FSDP_REASON_NEEDS_HEADERS] = "a look at all headers",
	[FSDP_REASON_NEEDS_DATA] = "--data",
	[FSDP_REASON_NEEDS_VALUES] = "--data --values",
	[FSDP_REASON_NEEDS_PLAN] = "a sharding plan",
	[FSDP_REASON_NEEDS_CONFIG] = "the configuration of the model",
	[FSDP_REASON_NO_CRC] = "recorded checksums",
	[FSDP_REASON_NO_DIGEST] = "a digest",
	[FSDP_REASON_LIMIT] = "a higher limit",
	[FSDP_REASON_UNREADABLE] = "files that can be read",
	[FSDP_REASON_UNSUPPORTED] = "a format that is read",
	[FSDP_REASON_UNLIKE] = "copies that are cut alike",
};

/* "2 rules need --data (FI2001 FI2003); 1 needs a sharding plan (FI1033)". */
static void put_wants(FILE *stream, const struct judgement *verdict)
{
	const char *before = "";

	for (size_t reason = 0; reason < FSDP_REASON_COUNT; reason++) {
		uint64_t some = verdict->not_evaluated[reason];
		const char *space = "";

		if (some == 0)
			continue;
		fprintf(stream, "%s%" PRIu64 " rule%s %s (", before, some,
			some == 1 ? " needs" : "s need", wants[reason]);
		for (size_t i = 0; i < verdict->check_count; i++) {
			if (verdict->checks[i].reason != reason)
				continue;
			fprintf(stream, "%s%s", space, verdict->checks[i].rule);
			space = " ";
		}
		fputs(")", stream);
		before = "; ";
	}
}

bool note_not_evaluated(struct judging *judging)
{
	const struct fsdp_rule *rule = fsdp_rule_find("FI9006");
	char *message = NULL;
	size_t size = 0;
	FILE *stream;

	if (levels_off(&judging->audit->levels, rule_index(rule->id)) ||
		!judging->verdict->opened)
		return true;
	stream = open_memstream(&message, &size);
	if (stream == NULL)
		return false;
	put_wants(stream, judging->verdict);
	if (fclose(stream) != 0)
		size = 0;
	message = owned_add(&judging->collected->owned, message);
	if (message == NULL)
		return false;
	if (size == 0)
		return true;
	judging->verdict->counts.note++;
	judging->verdict->level_note = true;
	collected_finding(judging->collected,
		&(struct finding){ .rule = rule->id,
			.slug = rule->slug,
			.severity = levels_severity(&judging->audit->levels,
				rule_index(rule->id), SEVERITY_NOTE),
			.input = judging->run->input,
			.offset = UINT64_MAX,
			.length = UINT64_MAX,
			.rank = UINT32_MAX,
			.affected_bytes = UINT64_MAX,
			.message = { message, size } });
	return true;
}

bool lacks_something(const struct judging *judging)
{
	const struct collected *collected = judging->collected;

	if (judging->verdict->counts.unsupported > 0)
		return true;
	for (size_t i = 0; i < FSDP_REASON_COUNT; i++)
		if (judging->verdict->not_evaluated[i] > 0 &&
			!is_deeper((enum fsdp_rule_reason)i, judging->audit->level) &&
			!is_unchecked((enum fsdp_rule_reason)i, judging->audit->options))
			return true;
	/* A reader says so too; at a lower level than its own it was not asked to look. */
	for (size_t i = judging->run->first.finding;
		judging->audit->level >= FSDP_LEVEL_HEADERS &&
		i < collected->finding_count;
		i++)
		if (finding_is_open(&collected->findings[i]))
			return true;
	return false;
}
