/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether checkpoints are complete, intact and safe.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/pickle.h>

#include "commands/audit.h"
#include "render/writer.h"
#include "shared/audit-run.h"
#include "shared/part-result.h"
#include "shared/recordings.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- output of audit: verdicts, and the checks that were made ---- */

static const char *why_skipped(const struct check *check)
{
	if (check->status == CHECK_OFF)
		return "off";
	return check->status == FSDP_STATUS_NOT_EVALUATED
		       ? fsdp_rule_reason_name((enum fsdp_rule_reason)check->reason)
		       : NULL;
}

/* For outputs that show findings alone. */
static void hand_out_checks(const struct audit *audit, struct collected *collected)
{
	size_t each = audit->count > 0 ? audit->verdicts[0].check_count : 0;
	struct check_result *to = memory_new(audit->count * each, sizeof *to);

	collected->checks = to;
	collected->fail_on = audit->fail_on;
	collected->never_fails = audit->never_fails;
	for (size_t i = 0; i < audit->count; i++)
		for (size_t k = 0; k < audit->verdicts[i].check_count; k++) {
			const struct check *check = &audit->verdicts[i].checks[k];

			to[collected->check_count++] = (struct check_result){
				.input = audit->verdicts[i].input,
				.rule = check->rule,
				.slug = check->slug,
				.skipped = why_skipped(check),
				.omitted = check->status == FSDP_STATUS_NOT_APPLICABLE,
				.findings = check->findings,
			};
		}
}

/* Prints all verdicts. */
static void audit_answer(struct audit *audit, struct run *run)
{
	int status = STATUS_GOOD;

	findings_sort(run->collected->findings, run->collected->finding_count);
	hand_out_checks(audit, run->collected);
	for (size_t i = 0; i < audit->count; i++)
		status = status_worse(status, audit->verdicts[i].status);
	/* Of several checkpoints each check says whose it is. */
	for (size_t i = 0; audit->count > 1 && i < audit->count; i++)
		for (size_t k = 0; k < audit->verdicts[i].check_count; k++)
			audit->verdicts[i].checks[k].input = audit->verdicts[i].input;
	run_begin(run, status);
	audit_data(audit, run->out);
	audit_text(audit, run);
}

/* ---- combines the partial results of an audit into its verdict ---- */

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
static bool join_checks(struct verdict *verdict, const struct joined_parts *joined)
{
	for (size_t i = 0; i < joined->count; i++) {
		struct check row = { .input = UINT32_MAX },
			     *check = &verdict->checks[i / joined->parts];

		part_result_read(&check_record, joined->rows[i], &row, false);
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

/* Fills the verdict, up to what findings decide. */
static void join_verdicts(struct verdict *verdict, const struct joined_parts *joined)
{
	struct fsdp_document_value sources = { .count = 0 };

	part_result_read(&audit_record, joined->results->data, verdict, false);
	verdict->input = 0;
	verdict->partial.parts = 0;
	memset(&verdict->counts, 0, sizeof verdict->counts);
	for (size_t i = 0; i < joined->parts; i++) {
		struct fsdp_document_value scope =
			fsdp_document_get(joined->results[i].data, "scope");
		struct fsdp_document_value some =
			fsdp_document_get(scope, "digests_from");
		struct verdict part = { .bytes_read = UINT64_MAX,
			.bytes_with_digest = UINT64_MAX };

		/* Lists are those of all parts; some have zips, with checksums, too. */
		if (some.kind != FSDP_DOCUMENT_ABSENT && some.count >= sources.count)
			sources = some;
		part_result_read(&audit_record, joined->results[i].data, &part, false);
		if (i > 0 && (__builtin_add_overflow(verdict->bytes_read, part.bytes_read,
				      &verdict->bytes_read) ||
				     __builtin_add_overflow(verdict->bytes_with_digest,
					     part.bytes_with_digest,
					     &verdict->bytes_with_digest)))
			verdict->bytes_read = verdict->bytes_with_digest = UINT64_MAX;
	}
	verdict->checks = memory_new(joined->count, sizeof *verdict->checks);
	if (sources.kind != FSDP_DOCUMENT_ABSENT)
		verdict->digests_from =
			memory_new(sources.count, sizeof *verdict->digests_from);
	for (size_t i = 0; i < sources.count; i++)
		verdict->digests_from[verdict->digest_source_count++] =
			text_of_span(fsdp_document_item(sources, i).text);
}

/* False: the parts say what audits do not say. */
static bool check_whole(struct auditing *auditing, const struct joined_parts *joined)
{
	struct levels *levels = &auditing->audit->levels;
	struct verdict *verdict = auditing->verdict;
	struct fsdp_document_value request =
		fsdp_document_get(joined->results->data, "asked");
	struct fsdp_document_value words = fsdp_document_get(request, "levels");
	bool wrong = false;

	levels_init(levels);
	join_verdicts(verdict, joined);
	for (size_t i = 0; i < words.count; i++)
		wrong |= levels_set(levels,
				 (const char *)fsdp_document_item(words, i).text.data) !=
			 NULL;
	audit_set_threshold(auditing->audit, part_text(request, "fail_on"));
	wrong |= !join_checks(verdict, joined);
	count_findings(auditing);
	decide(auditing);
	wrong |= status_worse(verdict->status, joined->status) != verdict->status;
	for (size_t i = 0; i < joined->parts; i++) {
		struct verdict part = { 0 };

		/* The verdict in a partial result may be worse than its findings. */
		part_result_read(&audit_record, joined->results[i].data, &part, false);
		wrong |= part.counts.error > verdict->counts.error ||
			 part.counts.warning > verdict->counts.warning ||
			 part.counts.note > verdict->counts.note ||
			 part.counts.unsupported > verdict->counts.unsupported ||
			 (strcmp(part.word, verdict->word) != 0 &&
				 (strcmp(verdict->word, "good") == 0 ||
					 strcmp(part.word, "bad") == 0));
	}
	return !wrong;
}

/* The same for the results of all its parts. */
static void audit_join(struct run *run, const struct joined_parts *joined)
{
	const struct audit_options options = { .data = true,
		.checks = strstr(joined->results->facts.request, " checks") != NULL };
	struct audit audit = { .options = &options, .level = FSDP_LEVEL_DATA };
	struct auditing auditing = { &audit, run, run->collected,
		add_verdict(&audit, run) };

	if (!check_whole(&auditing, joined))
		run_refuse(run, "run the parts again",
			"not complete results of an audit: the header of a part disagrees with its findings");
	run->input = 0;
	run->collected->inputs[0].status = auditing.verdict->status;
	note_not_evaluated(&auditing);
	audit_answer(&audit, run);
}

/* ---- what a part of an audit says of itself ---- */

/* What parts of one audit must have been asked alike; its first line is what merge needs
 * of it. */
static char *request_of(const struct auditing *auditing)
{
	const struct audit_options *options = auditing->audit->options;
	const struct audit_request *request = &auditing->verdict->request;
	const char *const files[] = { options->manifest, options->expect };
	struct writer words;

	writer_init(&words, NULL);
	writer_text(&words, options->checks ? "data checks\n" : "data\n");
	writer_text(&words, request->fail_on);
	for (size_t i = 0; i < request->level_count; i++) {
		writer_char(&words, '\n');
		writer_text(&words, request->levels[i].data);
	}
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		writer_char(&words, '\n');
		writer_count(&words, i);
		writer_char(&words, ' ');
		writer_text(&words, files[i] != NULL ? files[i] : "");
	}
	for (size_t i = 0; i < options->globals.count; i++) {
		writer_text(&words, "\nglobal ");
		writer_text(&words, options->globals.items[i]);
	}
	for (size_t i = 0; i < options->ignore.count; i++) {
		writer_char(&words, '\n');
		writer_text(&words, options->ignore.items[i]);
	}
	writer_char(&words, '\0');
	return words.data;
}

void name_part(struct auditing *auditing)
{
	const struct audit *audit = auditing->audit;
	struct verdict *verdict = auditing->verdict;
	struct audit_request *request = &verdict->request;
	char line[64];

	request->fail_on = audit->never_fails ? "none" : severity_name(audit->fail_on);
	request->levels = memory_new(fsdp_rule_count(), sizeof *request->levels);
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const char *word = levels_word(&auditing->audit->levels, i);

		if (word == NULL)
			continue;
		snprintf(line, sizeof line, "%s=%s", fsdp_rule(i)->id, word);
		request->levels[request->level_count++] = text_new(line);
	}
	partial_init(
		&verdict->partial, auditing->run, request_of(auditing), NULL, NULL, 0);
	/* The parts of each check are adjacent. */
	for (size_t i = 0; i < verdict->check_count; i++)
		verdict->checks[i].number = (uint32_t)(i * verdict->partial.parts +
						       verdict->partial.part - 1);
}

#define AT(member) offsetof(struct audit_options, member)
static const struct option_row OPTIONS[] = {
	{ "quick", 0, OPTION_FLAG, NULL, AT(quick),
		.help = "check names, sizes and top-level metadata only" },
	{ "data", 0, OPTION_FLAG, NULL, AT(data), .help = "also read every byte" },
	{ "values", 0, OPTION_FLAG, NULL, AT(values),
		.help = "like --data, and count NaN and Inf values" },
	{ "require-checksums", 0, OPTION_FLAG, NULL, AT(require_checksums),
		.help = "with --data: partial if a file has no checksums" },
	{ "manifest", 0, OPTION_TEXT, "FILE", AT(manifest),
		.help = "with --data: compare with SHA-256 digests (sha256sum)" },
	{ "listing", 0, OPTION_TEXT, "FILE", AT(listing),
		.help = "like --quick, for files of this list (aws s3 ls, ls -lR)" },
	{ "rule", 0, OPTION_LIST, "RULE=LEVEL", AT(rules),
		.help = "change the severity of a rule: off, note, warning, error" },
	{ "allow-global", 0, OPTION_LIST, "MODULE.NAME", AT(globals),
		.help = "trust this global in pickles" },
	{ "expect", 0, OPTION_TEXT, "CHECKPOINT", AT(expect),
		.help = "compare names with a JSON file, a checkpoint or a plan" },
	{ "merged", 0, OPTION_TEXT, "CHECKPOINT", AT(merged),
		.help = "compare with a converted checkpoint; with --data all bytes" },
	{ "map", 0, OPTION_TEXT, "NAME|FILE", AT(map),
		.help = "with --merged: names of another framework (help maps)" },
	{ "size", 0, OPTION_LIST, "NAME=N", AT(sizes),
		.help = "set a number of the map: num_attention_heads=32" },
	{ "ignore", 0, OPTION_LIST, "GLOB", AT(ignore),
		.help = "names that --expect and --merged skip" },
	{ "for", 0, OPTION_WORDS, "LOADER,...", AT(loading.loaders), loader_words,
		.help = "check with these loaders; auto: the one of its format" },
	{ "world", 0, OPTION_INTEGER, "N", AT(loading.world), .minimum = 1,
		.maximum = 1048576,
		.help = "with --for: world size of the run that loads" },
	{ "loader-version", 0, OPTION_TEXT, "VERSION", AT(loading.version),
		.help = "with --for: version of the library (default: the newest)" },
	{ "loader-option", 0, OPTION_LIST, "NAME=VALUE", AT(loading.choices),
		.help = "with --for: set a parameter of the loader" },
	{ "checks", 0, OPTION_FLAG, NULL, AT(checks),
		.help = "list the result of every rule" },
	{ NULL },
};

static void set_rules(struct audit *audit, struct run *run)
{
	const struct texts *rules = &audit->options->rules;

	for (size_t i = 0; i < rules->count; i++) {
		const char *wrong = levels_set(&audit->levels, rules->items[i]);

		if (wrong != NULL)
			run_refuse(run,
				"example: --rule=FI1007=off (fsdp-inspect rules lists them)",
				"--rule=%s: %s", rules->items[i], wrong);
	}
}

static void check_globals(const struct audit_options *options, struct run *run)
{
	const char *example = "example: --allow-global=my_project.config.RunSettings";

	for (size_t i = 0; i < options->globals.count; i++) {
		const char *name = options->globals.items[i], *dot = strrchr(name, '.');

		if (dot == NULL || dot == name || dot[1] == '\0')
			run_refuse(run, example, "--allow-global=%s is not MODULE.NAME",
				name);
		if (fsdp_pickles_never_allowed(span_of_text(text_of(name))))
			run_refuse(run, example,
				"--allow-global=%s: it can run commands or code, so it is never allowed",
				name);
	}
}

/* Options that a partial run cannot answer; NULL: all can be answered. */
static const char *no_part(const struct audit_options *options, const char **ret_hint)
{
	*ret_hint = "give both: --data --part";
	if (!options->data && !options->values)
		return "--part cuts the bytes that --data reads";
	*ret_hint = "run it by itself: fsdp-inspect audit --data --values CHECKPOINT";
	if (options->values)
		return "--part excludes --values, which compares tensors of all parts";
	*ret_hint = "run it by itself: fsdp-inspect audit --data --merged=OUT CHECKPOINT";
	if (options->merged != NULL)
		return "--part excludes --merged, which reads every tensor of both checkpoints";
	*ret_hint = "fsdp-inspect audit --for=LOADER CHECKPOINT";
	return options->loading.loaders.count > 0
		       ? "--part excludes --for, which needs the headers alone: run it by itself"
		       : NULL;
}

RELEASE(release_map, fsdp_map_free)

/* The map of --merged, and its sizes. */
static void open_map(struct audit *audit, struct run *run)
{
	const struct audit_options *options = audit->options;
	struct fsdp_error *error = NULL;

	if (options->map != NULL && options->merged == NULL)
		run_refuse(run, "give both: --merged=OUT --map=NAME",
			"--map needs --merged");
	typed_names_parse(run, NULL, &options->sizes, &audit->sizes);
	if (options->map == NULL)
		return;
	if (!fsdp_map_open(helper_remote(), options->map, run->limits, run->limit_count,
		    &audit->map, &error)) {
		if (error == NULL)
			memory_fail();
		memory_owns(error, release_error);
		run_refuse(run, fsdp_error_hint(error), "%s", fsdp_error_message(error));
	}
	memory_owns(audit->map, release_map);
}

/* A listing has names and sizes only. */
static bool reads_values(const void *values)
{
	const struct audit_options *options = values;

	return !options->quick && options->listing == NULL;
}

static bool prepare(struct run *run, struct fsdp_recording_options *unused)
{
	const struct audit_options *options = run->options;
	const char *what, *hint;
	struct audit *audit;

	bool data = options->data || options->values;

	(void)unused;
	if (options->quick && data)
		run_refuse(run, "give one of them", "--quick excludes --data");
	if (options->listing != NULL &&
		(data || options->merged != NULL || options->loading.loaders.count > 0))
		run_refuse(run, "download the checkpoint, or name it at its URL",
			"a list has names and sizes only: --listing excludes --data, --merged and --for");
	if (options->require_checksums && !data)
		run_refuse(run, "give both: --data --require-checksums",
			"--require-checksums needs --data");
	if (options->manifest != NULL && !data)
		run_refuse(
			run, "give both: --data --manifest", "--manifest needs --data");
	if (run->common->part_count != 0 && (what = no_part(options, &hint)) != NULL)
		run_refuse(run, hint, "%s", what);
	audit = run->prepared = memory_new(1, sizeof *audit);
	levels_init(&audit->levels);
	audit->options = options;
	audit->level = !reads_values(options) ? FSDP_LEVEL_QUICK
		       : options->values      ? FSDP_LEVEL_VALUES
		       : options->data        ? FSDP_LEVEL_DATA
					      : FSDP_LEVEL_HEADERS;
	audit_set_threshold(audit,
		text_of(run->common->fail_on != NULL ? run->common->fail_on : "error"));
	/* They were read too. */
	const struct {
		const char *path, *kind;
	} others[] = { { options->manifest, "manifest" }, { options->expect, "expect" },
		{ options->merged, "merged" }, { options->listing, "listing" } };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i].path != NULL)
			collected_input(run->collected, others[i].path, others[i].kind);
	loading_prepare(&options->loading, run);
	set_rules(audit, run);
	check_globals(options, run);
	if (options->ignore.count > 0)
		audit->ignored = run_selection_of(run,
			&(struct select_options){ .globs = options->ignore,
				.min_bytes = UINT64_MAX,
				.max_bytes = UINT64_MAX,
				.depth = -1,
				.head = -1 },
			"--ignore: ");
	expectation_open(&audit->expected, run, options->expect, true);
	expectation_open(&audit->merged, run, options->merged, false);
	open_map(audit, run);
	return true;
}

static void check_inputs(struct run *run)
{
	struct audit *audit = run->prepared;

	if (run->common->part_count != 0 && audit->count > 0)
		run_refuse(run, "audit them separately", "--part reads one checkpoint");
	/* Each checkpoint below it is an input of its own. */
	if (run->below != NULL) {
		if (audit->level >= FSDP_LEVEL_HEADERS)
			check_weight_sets(run, audit->level >= FSDP_LEVEL_DATA, true);
		return;
	}
	if (run->checkpoint != NULL) {
		pickled_recording_report(run);
		if (audit->options->expect == NULL)
			adapter_base_report(run);
	}
	audit_check(audit, run);
}

static void run_audit(struct run *run)
{
	audit_answer(run->prepared, run);
}

const struct command command_audit = {
	.name = "audit",
	.group = GROUP_START,
	.summary = "check whether a checkpoint is complete, intact and safe",
	.synopsis =
		"[--quick | --listing=FILE | --data [--values] [--require-checksums]] [--fail-on=LEVEL] [--rule=RULE=LEVEL]... [--allow-global=MODULE.NAME]... [--expect=CHECKPOINT] [--merged=CHECKPOINT [--map=NAME|FILE]] [--for=LOADER,... [--world=N] [--loader-version=VERSION] [--loader-option=NAME=VALUE]...] [--checks] [--part=K/N|auto] CHECKPOINT...",
	.examples = { "audit step-1000/", "audit --data --fail-on=warning step-1000/",
		"audit -q step-1000/ && deploy step-1000/" },
	.exit_1 = "a finding at or above --fail-on",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_FINDINGS | SHAPE_TABLE,
	.answer = &audit_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.looks_beside = true,
	.with_base = true,
	.options_size = sizeof(struct audit_options),
	.reads_values = reads_values,
	.prepare = prepare,
	.check_inputs = check_inputs,
	.join = audit_join,
	.perform = run_audit,
};
