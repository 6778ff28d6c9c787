/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of an audit for programs.
 */
#include "cmd/audit/audit.h"
#include "render/record.h"

static const char *const VERDICTS[] = { "good", "bad", "partial", NULL };
static const char *const DETAILS[] = { "quick", "headers", "data", "values", NULL };
static const char *const STATUSES[] = { "passed", "failed", "not_applicable",
	"not_evaluated", "off", NULL };
static const char *const REASONS[] = { "needs_headers", "needs_data", "needs_values",
	"needs_plan", "needs_config", "no_crc", "no_digest", "limit", "unreadable",
	"unsupported", "unlike", NULL };

static const char *status_name(unsigned status)
{
	return status == CHECK_OFF ? "off"
				   : fsdp_rule_status_name((enum fsdp_rule_status)status);
}

static const char *reason_name(unsigned reason)
{
	return fsdp_rule_reason_name((enum fsdp_rule_reason)reason);
}

#define CHECK struct check
const struct record check_record = OBJECT_RECORD(CHECK, "check",
	"Result of one rule. Rules about recordings are not listed.",
	{ "input", ID_AT(CHECK, input),
		ABOUT("`id` of the input, where several checkpoints were checked.") },
	{ "rule", WORD_AT(CHECK, rule), .always = true,
		ABOUT("Identifier of the rule.") },
	{ "slug", WORD_AT(CHECK, slug), .always = true, ABOUT("Its short name.") },
	{ "status", ENUM_AT(CHECK, status, status_name), .always = true,
		.words = STATUSES,
		ABOUT("Whether it found nothing (`passed`), found something, does not apply to this checkpoint, could not be checked, or was switched off.") },
	{ "findings", COUNT_AT(CHECK, findings), .always = true,
		ABOUT("Number of findings, those that were only counted included.") },
	{ "reason", ENUM_AT(CHECK, reason, reason_name), .words = REASONS,
		ABOUT("Why it was not evaluated. Those that need a deeper level leave an audit complete.") },
	{ "number", ID_AT(CHECK, number),
		ABOUT("Of a part: place of the row in those of all parts.") });

#define REQUEST struct audit_request
static struct value get_levels(struct subject of)
{
	const struct audit_request *asked = of.object;

	return value_texts(asked->levels, asked->level_count);
}

static const struct record request_record = OBJECT_RECORD(REQUEST, "part_request",
	"How a part was checked: `merge` checks all parts the same way.",
	{ "fail_on", WORD_AT(REQUEST, fail_on), .always = true, .words = fail_words,
		ABOUT("Severity from which findings fail the audit.") },
	{ "levels", GET(FIELD_TEXTS, get_levels), .always = true,
		ABOUT("RULE=LEVEL of rules whose level was changed.") });

static const void *each_check(struct subject of, size_t i, void *room)
{
	(void)room;
	return &((const struct judgement *)of.object)->checks[i];
}

#define VERDICT struct judgement
static struct value get_digests(struct subject of)
{
	const struct judgement *verdict = of.object;

	return value_texts(verdict->digests_from, verdict->digest_source_count);
}

static bool has_digests(struct subject of)
{
	return ((const struct judgement *)of.object)->digests_from != NULL;
}

static const struct record scope_record = RECORD_OF(RECORD_OBJECT, VERDICT,
	{ "detail", WORD_AT(VERDICT, detail), .always = true, .words = DETAILS,
		ABOUT("Level of the check.") },
	{ "files", COUNT_AT(VERDICT, files), .always = true, ABOUT("Number of files.") },
	{ "tensors", COUNT_AT(VERDICT, tensors), .always = true,
		ABOUT("Number of tensors.") },
	{ "pieces", COUNT_AT(VERDICT, pieces), .always = true,
		ABOUT("Number of pieces of tensors.") },
	{ "bytes_read", BYTES_AT(VERDICT, bytes_read),
		ABOUT("Bytes of files that were read, with `--data`.") },
	{ "bytes_with_digest", BYTES_AT(VERDICT, bytes_with_digest),
		ABOUT("Those of them that a checksum or a digest covers.") },
	{ "digests_from", GET(FIELD_TEXTS, get_digests), .has = has_digests,
		ABOUT("Where checksums and digests were found.") });

static const struct record counts_record = RECORD_OF(RECORD_OBJECT, VERDICT,
	{ "error", COUNT_AT(VERDICT, counts.error), .always = true,
		ABOUT("Findings of severity error.") },
	{ "warning", COUNT_AT(VERDICT, counts.warning), .always = true,
		ABOUT("Findings of severity warning.") },
	{ "note", COUNT_AT(VERDICT, counts.note), .always = true,
		ABOUT("Findings of severity note.") },
	{ "unsupported", COUNT_AT(VERDICT, counts.unsupported), .always = true,
		ABOUT("Checks that could not run: entries of `errors`, and findings of rules about limits (FI9001 to FI9005).") });

static bool has_part(struct subject of)
{
	return ((const struct judgement *)of.object)->partial.parts != 0;
}

static const struct record whole_record = RECORD_OF(RECORD_OBJECT, VERDICT,
	{ "opened", BOOL_AT(VERDICT, opened), .always = true,
		ABOUT("Whether the checkpoint could be opened.") },
	{ "names", COUNT_AT(VERDICT, names), .always = true,
		ABOUT("Number of tensors and values.") },
	{ "bytes", BYTES_AT(VERDICT, bytes), .always = true,
		ABOUT("Bytes of all tensors.") });

static const void *each_loader(struct subject of, size_t i, void *room)
{
	(void)room;
	return &((const struct judgement *)of.object)->loading.loaders[i];
}

static bool has_loaders(struct subject of)
{
	return ((const struct judgement *)of.object)->loading.loaders != NULL;
}

const struct record audit_record = OBJECT_RECORD(VERDICT, "verdict",
	"Result of one checkpoint. The findings are those of the envelope.",
	{ "verdict", WORD_AT(VERDICT, word), .always = true, .words = VERDICTS,
		ABOUT("`bad`: at least one error. `partial`: no error, but a check could not run.") },
	{ "complete", BOOL_AT(VERDICT, complete), .always = true,
		ABOUT("Whether all checks of this level ran.") },
	{ "scope", OBJECT(scope_record), .always = true, ABOUT("Scope of the check.") },
	{ "counts", OBJECT(counts_record), .always = true,
		ABOUT("Findings, those that were only counted included.") },
	{ "checks", EACH_ITEM(VERDICT, check_count, each_check, check_record),
		.always = true, ABOUT("Every rule, in order of identifiers.") },
	{ "loaders", EACH_OF(VERDICT, loading.count, each_loader, loader_record),
		.has = has_loaders,
		ABOUT("What loaders would do with it, with `--for`.") },
	{ "partial", OBJECT_AT(VERDICT, partial, partial_record), .has = has_part,
		ABOUT("With `--part`: which part this is.") },
	{ "asked", OBJECT_AT(VERDICT, asked, request_record), .has = has_part,
		ABOUT("With `--part`: the settings of the check.") },
	{ "whole", OBJECT(whole_record), .has = has_part,
		ABOUT("With `--part`: facts about the full checkpoint.") });

void audit_data(const struct audit *audit, struct out *out)
{
	if (audit->count == 1) {
		out_fields(
			out, &audit_record, (struct subject){ NULL, audit->judgements });
		return;
	}
	out_array_begin(out, "checkpoints");
	for (size_t i = 0; i < audit->count; i++) {
		out_object_begin(out, NULL);
		out_field(out, "input", value_id(audit->judgements[i].input));
		out_fields(out, &audit_record,
			(struct subject){ NULL, &audit->judgements[i] });
		out_object_end(out);
	}
	out_array_end(out);
}
