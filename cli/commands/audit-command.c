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

/* Frees the contents. */
static void audit_done(struct audit *audit)
{
	for (size_t i = 0; i < audit->count; i++) {
		free(audit->verdicts[i].checks);
		free(audit->verdicts[i].digests_from);
		loading_done(&audit->verdicts[i].loading);
	}
	free(audit->verdicts);
	free(audit->levels.of);
	expectation_done(&audit->expected);
	expectation_done(&audit->merged);
	fsdp_map_free(audit->map);
	typed_names_done(&audit->sizes);
	selection_free(audit->ignored);
}

static const char *why_skipped(const struct check *check)
{
	if (check->status == CHECK_OFF)
		return "off";
	return check->status == FSDP_STATUS_NOT_EVALUATED
		       ? fsdp_rule_reason_name((enum fsdp_rule_reason)check->reason)
		       : NULL;
}

/* For outputs that show findings alone. */
static bool hand_out_checks(const struct audit *audit, struct collected *collected)
{
	size_t each = audit->count > 0 ? audit->verdicts[0].check_count : 0;
	struct check_result *to = calloc(audit->count * each + 1, sizeof *to);

	if (to == NULL)
		return false;
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
	return true;
}

/* Prints all verdicts. False: out of memory. */
static bool audit_answer(struct audit *audit, struct run *run)
{
	int status = STATUS_GOOD;

	if (!findings_sort(run->collected->findings, run->collected->finding_count) ||
		!hand_out_checks(audit, run->collected))
		return false;
	for (size_t i = 0; i < audit->count; i++)
		status = status_worse(status, audit->verdicts[i].status);
	/* Of several checkpoints each check says whose it is. */
	for (size_t i = 0; audit->count > 1 && i < audit->count; i++)
		for (size_t k = 0; k < audit->verdicts[i].check_count; k++)
			audit->verdicts[i].checks[k].input = audit->verdicts[i].input;
	run_begin(run, status);
	audit_data(audit, run->out);
	return audit_text(audit, run);
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
static bool join_verdicts(struct verdict *verdict, const struct joined_parts *joined)
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
		struct verdict part = { .bytes_read = UINT64_MAX,
			.bytes_with_digest = UINT64_MAX };

		/* Lists are those of all parts; some have zips, with checksums, too. */
		if (some.kind != FSDP_DOCUMENT_ABSENT && some.count >= sources.count)
			sources = some;
		part_result_read(&audit_record, joined->results[i].data, &part, NULL);
		if (i > 0 && (__builtin_add_overflow(verdict->bytes_read, part.bytes_read,
				      &verdict->bytes_read) ||
				     __builtin_add_overflow(verdict->bytes_with_digest,
					     part.bytes_with_digest,
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

/* *ret_wrong: the parts say what audits do not say. False: out of memory. */
static bool check_whole(
	struct auditing *auditing, const struct joined_parts *joined, bool *ret_wrong)
{
	struct levels *levels = &auditing->audit->levels;
	struct verdict *verdict = auditing->verdict;
	struct fsdp_document_value request =
		fsdp_document_get(joined->results->data, "asked");
	struct fsdp_document_value words = fsdp_document_get(request, "levels");

	if (verdict == NULL || !levels_init(levels) || !join_verdicts(verdict, joined))
		return false;
	for (size_t i = 0; i < words.count; i++)
		*ret_wrong |=
			levels_set(levels,
				(const char *)fsdp_document_item(words, i).text.data) !=
			NULL;
	audit_set_threshold(auditing->audit, part_text(request, "fail_on"));
	*ret_wrong |= !join_checks(verdict, joined);
	count_findings(auditing);
	decide(auditing);
	*ret_wrong |= status_worse(verdict->status, joined->status) != verdict->status;
	for (size_t i = 0; i < joined->parts; i++) {
		struct verdict part = { 0 };

		/* The verdict in a partial result may be worse than its findings. */
		part_result_read(&audit_record, joined->results[i].data, &part, NULL);
		*ret_wrong |= part.counts.error > verdict->counts.error ||
			      part.counts.warning > verdict->counts.warning ||
			      part.counts.note > verdict->counts.note ||
			      part.counts.unsupported > verdict->counts.unsupported ||
			      (strcmp(part.word, verdict->word) != 0 &&
				      (strcmp(verdict->word, "good") == 0 ||
					      strcmp(part.word, "bad") == 0));
	}
	return true;
}

/* The same for the results of all its parts. */
static void audit_join(struct run *run, const struct joined_parts *joined)
{
	const struct audit_options options = { .data = true,
		.checks = strstr(joined->results->facts.request, " checks") != NULL };
	struct audit audit = { .options = &options, .level = FSDP_LEVEL_DATA };
	struct auditing auditing = { &audit, run, run->collected,
		add_verdict(&audit, run) };
	bool wrong = false, good = check_whole(&auditing, joined, &wrong);

	run->input = 0;
	if (good && wrong) {
		refuse(run, "run the parts again",
			"not complete results of an audit: the header of a part disagrees with its findings");
	} else if (good) {
		run->collected->inputs[0].status = auditing.verdict->status;
		good = note_not_evaluated(&auditing) && audit_answer(&audit, run);
	}
	audit_done(&audit);
	run_must(run, good);
}

/* ---- what a part of an audit says of itself ---- */

/* What parts of one audit must have been asked alike; its first line is what merge needs
 * of it. NULL: out of memory. */
static char *request_of(const struct auditing *auditing)
{
	const struct audit_options *options = auditing->audit->options;
	const struct audit_request *request = &auditing->verdict->request;
	const char *const files[] = { options->manifest, options->expect };
	struct writer words;

	if (!writer_init(&words, NULL))
		return NULL;
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
	if (words.error == 0)
		return words.data;
	writer_done(&words);
	return NULL;
}

bool name_part(struct auditing *auditing)
{
	const struct audit *audit = auditing->audit;
	struct verdict *verdict = auditing->verdict;
	char *words;
	bool good;
	char line[64];
	struct audit_request *request;
	struct text *levels;

	verdict->request.fail_on =
		audit->never_fails ? "none" : severity_name(audit->fail_on);
	request = &auditing->verdict->request;
	levels = calloc(fsdp_rule_count(), sizeof *levels);
	if (!owned_add(&auditing->collected->owned, (char *)levels))
		return false;
	request->levels = levels;
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const char *word = levels_word(&auditing->audit->levels, i);

		if (word == NULL)
			continue;
		snprintf(line, sizeof line, "%s=%s", fsdp_rule(i)->id, word);
		levels[request->level_count] = collected_text(auditing->collected, line);
		if (levels[request->level_count++].data == NULL)
			return false;
	}
	words = request_of(auditing);
	good = words != NULL &&
	       partial_init(&verdict->partial, auditing->run, words, NULL, NULL, 0);
	free(words);
	/* The parts of each check are adjacent. */
	for (size_t i = 0; good && i < verdict->check_count; i++)
		verdict->checks[i].number = (uint32_t)(i * verdict->partial.parts +
						       verdict->partial.part - 1);
	return good;
}

#define AT(member) offsetof(struct audit_options, member)
static const struct option_row OPTIONS[] = {
	{ "quick", 0, OPTION_FLAG, NULL, AT(quick),
		.help = "check names, sizes and top-level metadata only" },
	{ "data", 0, OPTION_FLAG, NULL, AT(data), .help = "also read every byte" },
	{ "values", 0, OPTION_FLAG, NULL, AT(values),
		.help = "like --data, and count NaN and Inf values" },
	{ "require-checksums", 0, OPTION_FLAG, NULL, AT(require_checksums),
		.help = "with --data: files without checksums are partial" },
	{ "manifest", 0, OPTION_TEXT, "FILE", AT(manifest),
		.help = "with --data: compare with SHA-256 digests (sha256sum)" },
	{ "listing", 0, OPTION_TEXT, "FILE", AT(listing),
		.help = "as --quick, of the files in this list (aws s3 ls, ls -lR)" },
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
		.help = "check whether these loaders accept it; auto: its own" },
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

static bool set_rules(struct audit *audit, struct run *run)
{
	const struct texts *rules = &audit->options->rules;

	for (size_t i = 0; i < rules->count; i++) {
		const char *wrong = levels_set(&audit->levels, rules->items[i]);

		if (wrong != NULL)
			return !refuse(run,
				"example: --rule=FI1007=off (fsdp-inspect rules lists them)",
				"--rule=%s: %s", rules->items[i], wrong);
	}
	return true;
}

static bool check_globals(const struct audit_options *options, struct run *run)
{
	const char *example = "example: --allow-global=my_project.config.RunSettings";

	for (size_t i = 0; i < options->globals.count; i++) {
		const char *name = options->globals.items[i], *dot = strrchr(name, '.');

		if (dot == NULL || dot == name || dot[1] == '\0')
			return !refuse(run, example,
				"--allow-global=%s is not MODULE.NAME", name);
		if (fsdp_pickles_never_allowed(span_of_text(text_of(name))))
			return !refuse(run, example,
				"--allow-global=%s: it can run commands or code, so it is never allowed",
				name);
	}
	return true;
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

static bool out_of_memory(struct run *run)
{
	run_failure(run, "memory", NULL, "out of memory");
	run_begin(run, STATUS_FAILED);
	return false;
}

static bool set_ignored(struct audit *audit, struct run *run)
{
	struct select_options select = { .globs = audit->options->ignore,
		.min_bytes = UINT64_MAX,
		.max_bytes = UINT64_MAX,
		.depth = -1,
		.head = -1 };
	char *message = NULL;

	if (select.globs.count == 0 || selection_new(&select, &audit->ignored, &message))
		return true;
	if (message == NULL)
		return out_of_memory(run);
	refuse(run, "fsdp-inspect help selectors", "--ignore: %s", message);
	free(message);
	return false;
}

/* The map of --merged, and its sizes. */
static bool open_map(struct audit *audit, struct run *run)
{
	const struct audit_options *options = audit->options;
	const struct texts none = { NULL, 0 };
	struct fsdp_error *error = NULL;
	const char *wrong = NULL;
	bool good;

	if (options->map != NULL && options->merged == NULL)
		return !refuse(run, "give both: --merged=OUT --map=NAME",
			"--map needs --merged");
	if (!typed_names_parse(&audit->sizes, &none, &options->sizes, &wrong))
		return out_of_memory(run);
	if (wrong != NULL)
		return !refuse(run, "example: --size=num_attention_heads=32",
			"%s is not NAME=N of --size", wrong);
	if (options->map == NULL)
		return true;
	good = fsdp_map_open(helper_remote(), options->map, run->limits, run->limit_count,
		&audit->map, &error);
	if (!good)
		refuse(run, error != NULL ? fsdp_error_hint(error) : NULL, "%s",
			error != NULL ? fsdp_error_message(error) : "out of memory");
	fsdp_error_free(error);
	return good;
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
		return !refuse(run, "give one of them", "--quick excludes --data");
	if (options->listing != NULL &&
		(data || options->merged != NULL || options->loading.loaders.count > 0))
		return !refuse(run, "download the checkpoint, or name it at its URL",
			"a list has names and sizes only: --listing excludes --data, --merged and --for");
	if (options->require_checksums && !data)
		return !refuse(run, "give both: --data --require-checksums",
			"--require-checksums needs --data");
	if (options->manifest != NULL && !data)
		return !refuse(
			run, "give both: --data --manifest", "--manifest needs --data");
	if (run->common->part_count != 0 && (what = no_part(options, &hint)) != NULL)
		return !refuse(run, hint, "%s", what);
	audit = run->prepared = calloc(1, sizeof *audit);
	if (audit == NULL || !levels_init(&audit->levels))
		return out_of_memory(run);
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
	return loading_prepare(&options->loading, run) && set_rules(audit, run) &&
	       check_globals(options, run) && set_ignored(audit, run) &&
	       expectation_open(&audit->expected, run, options->expect, true) &&
	       expectation_open(&audit->merged, run, options->merged, false) &&
	       open_map(audit, run);
}

static void release(void *prepared)
{
	if (prepared != NULL)
		audit_done(prepared);
	free(prepared);
}

static bool check_inputs(struct run *run, struct fsdp_error **ret_error)
{
	struct audit *audit = run->prepared;

	if (run->common->part_count != 0 && audit->count > 0)
		return refuse(
			run, "audit them separately", "--part reads one checkpoint");
	/* Each checkpoint below it is an input of its own. */
	if (run->below != NULL)
		return audit->level < FSDP_LEVEL_HEADERS ||
		       check_weight_sets(run, audit->level >= FSDP_LEVEL_DATA, true);
	if (run->checkpoint != NULL) {
		pickled_recording_report(run);
		if (audit->options->expect == NULL)
			adapter_base_report(run);
	}
	return audit_check(audit, run, ret_error);
}

static bool run_audit(struct run *run, struct fsdp_error **ret_error)
{
	(void)ret_error;
	return audit_answer(run->prepared, run);
}

const struct command command_audit = {
	.name = "audit",
	.group = GROUP_START,
	.summary = "check whether it is complete, intact and safe",
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
	.release = release,
	.check_inputs = check_inputs,
	.join = audit_join,
	.run = run_audit,
};
