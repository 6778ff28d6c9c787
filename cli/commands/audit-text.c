/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of an audit for people: findings, worst first, and the verdict.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "commands/audit.h"
#include "render/record.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- the answer of an audit for programs ---- */

static const char *const VERDICTS[] = { "good", "bad", "partial", NULL };
static const char *const DETAILS[] = { "quick", "headers", "data", "values", NULL };
static const char *const STATUSES[] = { "passed", "failed", "not_applicable",
	"not_evaluated", "off", NULL };
static const char *const REASONS[] = { "needs_headers", "needs_data", "needs_values",
	"needs_plan", "needs_config", "no_crc", "no_digest", "limit", "unreadable",
	"unsupported", "unlike", NULL };

/* Of a check that was not made its reason; NULL: none. */
static const char *reason_name(unsigned reason)
{
	return fsdp_rule_reason_name((enum fsdp_rule_reason)reason);
}

static const char *status_name(unsigned status)
{
	return status == CHECK_OFF ? "off"
				   : fsdp_rule_status_name((enum fsdp_rule_status)status);
}

#define CHECK struct check
const struct record check_record = OBJECT_RECORD(CHECK, "check",
	"Result of one rule. Rules about recordings are not listed.",
	{ "input", ID_AT(CHECK, input),
		ABOUT("`id` of the input, where several checkpoints were checked.") },
	{ "rule", WORD_AT(CHECK, rule), ALWAYS("Identifier of the rule.") },
	{ "slug", WORD_AT(CHECK, slug), ALWAYS("Its short name.") },
	{ "status", ENUM_AT(CHECK, status, status_name), .always = true,
		.words = STATUSES,
		ABOUT("Whether it found nothing (`passed`), found something, does not apply to this checkpoint, could not be checked, or was switched off.") },
	{ "findings", COUNT_AT(CHECK, findings),
		ALWAYS("Number of findings, those that were only counted included.") },
	{ "reason", ENUM_AT(CHECK, reason, reason_name), .words = REASONS,
		ABOUT("Reason why it did not run. A rule that needs a deeper level does not make an audit partial.") },
	{ "number", ID_AT(CHECK, number),
		ABOUT("Of a part: position of the row among the rows of all parts.") });

#define REQUEST struct audit_request

static const struct record request_record = OBJECT_RECORD(REQUEST, "part_request",
	"Settings of the check of a part: `merge` uses the same ones.",
	{ "fail_on", WORD_AT(REQUEST, fail_on), .always = true, .words = fail_words,
		ABOUT("Severity from which findings fail the audit.") },
	{ "levels", TEXTS_AT(REQUEST, levels, level_count),
		ALWAYS("RULE=LEVEL of rules whose level was changed.") });

#define VERDICT struct verdict

static const struct record scope_record = RECORD_OF(RECORD_OBJECT, VERDICT,
	{ "detail", WORD_AT(VERDICT, detail), .always = true, .words = DETAILS,
		ABOUT("Level of the check.") },
	{ "files", COUNT_AT(VERDICT, files),
		ALWAYS("Number of files that are present.") },
	{ "tensors", COUNT_AT(VERDICT, tensors), ALWAYS("Number of tensors.") },
	{ "pieces", COUNT_AT(VERDICT, pieces), ALWAYS("Number of pieces of tensors.") },
	{ "bytes_read", BYTES_AT(VERDICT, bytes_read),
		ABOUT("Bytes of files that were read, with `--data`.") },
	{ "bytes_with_digest", BYTES_AT(VERDICT, bytes_with_digest),
		ABOUT("Those of them that a checksum or a digest covers.") },
	{ "digests_from", TEXTS_AT(VERDICT, digests_from, digest_source_count),
		IF_SET(VERDICT, digests_from),
		ABOUT("Sources of checksums and digests.") });

static const struct record counts_record = RECORD_OF(RECORD_OBJECT, VERDICT,
	{ "error", COUNT_AT(VERDICT, counts.error),
		ALWAYS("Findings of severity error.") },
	{ "warning", COUNT_AT(VERDICT, counts.warning),
		ALWAYS("Findings of severity warning.") },
	{ "note", COUNT_AT(VERDICT, counts.note), ALWAYS("Findings of severity note.") },
	{ "unsupported", COUNT_AT(VERDICT, counts.unsupported),
		ALWAYS("Checks that could not run: entries of `errors`, and findings of rules about limits (FI9001 to FI9005).") });

static const struct record whole_record = RECORD_OF(RECORD_OBJECT, VERDICT,
	{ "opened", BOOL_AT(VERDICT, opened),
		ALWAYS("Whether the checkpoint could be opened.") },
	{ "names", COUNT_AT(VERDICT, names), ALWAYS("Number of tensors and values.") },
	{ "bytes", BYTES_AT(VERDICT, bytes), ALWAYS("Bytes of all tensors.") });

const struct record audit_record = OBJECT_RECORD(VERDICT, "verdict",
	"Result of one checkpoint. The findings are those of the envelope.",
	{ "verdict", WORD_AT(VERDICT, word), .always = true, .words = VERDICTS,
		ABOUT("`bad`: at least one error. `partial`: no error, but a check could not run.") },
	{ "complete", BOOL_AT(VERDICT, complete),
		ALWAYS("Whether all checks of this level ran.") },
	{ "scope", OBJECT(scope_record), ALWAYS("Scope of the check.") },
	{ "counts", OBJECT(counts_record),
		ALWAYS("Findings, those that were only counted included.") },
	{ "checks", ITEMS_AT(VERDICT, checks, check_count, check_record),
		ALWAYS("Every rule, in order of identifiers.") },
	{ "loaders", LIST_AT(VERDICT, loading.loaders, loading.count, loader_record),
		IF_SET(VERDICT, loading.loaders),
		ABOUT("With `--for`: verdicts of loaders.") },
	{ "partial", OBJECT_AT(VERDICT, partial, partial_record),
		IF_SET(VERDICT, partial.parts),
		ABOUT("With `--part`: which part this is.") },
	{ "asked", OBJECT_AT(VERDICT, request, request_record),
		IF_SET(VERDICT, partial.parts),
		ABOUT("With `--part`: the settings of the check.") },
	{ "whole", OBJECT(whole_record), IF_SET(VERDICT, partial.parts),
		ABOUT("With `--part`: facts about the full checkpoint.") });

void audit_data(const struct audit *audit, struct out *out)
{
	if (audit->count == 1) {
		out_fields(out, &audit_record, (struct subject){ NULL, audit->verdicts });
		return;
	}
	out_array_begin(out, "checkpoints");
	for (size_t i = 0; i < audit->count; i++) {
		out_object_begin(out, NULL);
		out_field(out, "input", value_id(audit->verdicts[i].input));
		out_fields(out, &audit_record,
			(struct subject){ NULL, &audit->verdicts[i] });
		out_object_end(out);
	}
	out_array_end(out);
}

/* -q hides notes, -qq warnings too. The verdict names what was not evaluated. */
static enum severity least(const struct run *run)
{
	int quiet = run->common->quiet - run->common->verbose;

	return quiet >= 2   ? SEVERITY_ERROR
	       : quiet >= 1 ? SEVERITY_WARNING
			    : SEVERITY_NOTE;
}

static void show_findings(
	const struct verdict *verdict, const struct run *run, bool several)
{
	const struct collected *collected = run->collected;
	struct findings_view view = {
		.findings = collected->findings,
		.count = collected->finding_count,
		.omissions = collected->omissions,
		.omission_count = collected->omission_count,
		.input = verdict->input,
		.least = least(run),
		.all = run->common->verbose > 0,
		.inputs = several ? collected->inputs : NULL,
		.lost = true,
		.names = verdict->names,
		.tensors = verdict->tensors,
		.bytes = verdict->bytes,
		.level_label = run->common->verbose == 0,
	};

	findings_print(run->out, &view);
}

/* ---- checks ---- */

GETTER(get_title, struct check, value_word(fsdp_rule_find(one->rule)->title))

GETTER(get_result, struct check,
	value_word(one->reason != FSDP_REASON_NONE ? reason_name(one->reason)
						   : status_name(one->status)))

static const struct record check_rows =
	RECORD_OF(RECORD_OBJECT, struct check, { "rule", WORD_AT(struct check, rule) },
		{ "result", GET(FIELD_WORD, get_result) },
		{ "findings", COUNT_AT(struct check, findings) },
		{ "title", GET(FIELD_WORD, get_title) });

/* First the checks that did not run, then the others. */
static void show_checks(const struct verdict *verdict, struct out *out)
{
	static const struct table table = { .key = "table", .text_only = true };
	struct check *rows = memory_new(verdict->check_count, sizeof *rows);
	size_t count = 0;

	for (int open = 1; open >= 0; open--)
		for (size_t i = 0; i < verdict->check_count; i++)
			if (open ==
				(verdict->checks[i].status == FSDP_STATUS_NOT_EVALUATED))
				rows[count++] = verdict->checks[i];
	out_records(out, &table, &check_rows, NULL, rows, count);
}

/* ---- the verdict ---- */

static void print_count(
	struct out *out, const char **before, uint64_t count, const char *what)
{
	out_values(out, "[{}{} {}{s}]", value_word(*before), value_some(count),
		value_word(what));
	if (count > 0)
		*before = ", ";
}

/* The verdict itself names what was not evaluated. */
static uint64_t other_notes(const struct verdict *verdict)
{
	return verdict->counts.note - verdict->level_note;
}

/* Loaders asked for by name that do not load it as saved, or else that were not judged.
 */
static bool print_loaders(const struct verdict *verdict, struct out *out)
{
	static const struct {
		const char *word, *text;
		int status;
	} results[] = { { "refuses", "refuses to load it", STATUS_BAD },
		{ "differs", "loads it with differences", STATUS_BAD },
		{ "not_judged", "was not judged", STATUS_PARTIAL } };
	const char *before = " ";
	size_t loads = 0;

	if (verdict->loading.is_own ||
		(verdict->loading.status == STATUS_PARTIAL && verdict->counts.error > 0))
		return false;
	for (size_t i = 0; i < verdict->loading.count; i++)
		loads += strcmp(verdict->loading.loaders[i].verdict, "loads") == 0;
	if (verdict->loading.status == STATUS_GOOD && loads < verdict->loading.count) {
		out_line_text(out, " %zu of %zu loaders load it;", loads,
			verdict->loading.count);
		return false;
	}
	for (size_t i = 0; i < verdict->loading.count; i++)
		for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
			const struct shown_loader *loader = &verdict->loading.loaders[i];

			if (verdict->loading.status != results[k].status ||
				strcmp(loader->verdict, results[k].word) != 0)
				continue;
			out_line_text(out, "%s%s %s", before, loader->result.title,
				results[k].text);
			before = ", ";
		}
	if (before[0] == ',')
		out_line_text(out, ";");
	return before[0] == ',';
}

/* What a checkpoint without errors cannot be used for: the rule of its findings, the
 * words for a checkpoint with parameters, and those for one without. */
static const char *find_limit(const struct verdict *verdict)
{
	static const char *const limits[][3] = {
		{ "FI5007", "complete for inference, but a resume needs more (FI5007)",
			"a resume needs more (FI5007)" },
		{ "FI4002", "tensor names begin with the prefix of a wrapper module", "" }
	};

	if (strcmp(verdict->word, "good") != 0)
		return NULL;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		for (size_t k = 0; k < verdict->check_count; k++)
			if (strcmp(verdict->checks[k].rule, limits[i][0]) == 0 &&
				verdict->checks[k].findings > 0 &&
				verdict->checks[k].findings >= verdict->counts.warning)
				return limits[i][verdict->of_role[FSDP_ROLE_PARAM] > 0
							 ? 1
							 : 2];
	return verdict->counts.warning > 0 ? "" : NULL;
}

static bool has_findings(const struct verdict *verdict, const char *rule)
{
	for (size_t i = 0; i < verdict->check_count; i++)
		if (strcmp(verdict->checks[i].rule, rule) == 0)
			return verdict->checks[i].findings > 0;
	return false;
}

/* The answer of the loader of the checkpoint's own family, as far as it is known. */
static void print_own_loader(const struct verdict *verdict, struct out *out)
{
	static const char *const results[][3] = { { "good", "loads", "loads it" },
		{ "bad", "differs", "loads it with differences" },
		{ "bad", "refuses", "refuses it" } };
	const struct shown_loader *own = verdict->loading.loaders;

	if (verdict->is_packed && strcmp(verdict->word, "good") == 0)
		out_line_text(out, "; unpack it before loading");
	if (verdict->loading.is_own && verdict->loading.count == 0 &&
		verdict->program != NULL && strcmp(verdict->word, "good") == 0 &&
		!has_findings(verdict, "FI5007"))
		out_line_text(
			out, "; whether %s loads it was not checked", verdict->program);
	if (!verdict->loading.is_own || verdict->loading.count == 0)
		return;
	/* The findings have the reason too, if they have FI1013. */
	bool says_how = strcmp(own->verdict, "differs") == 0 &&
			strcmp(verdict->word, "bad") == 0 &&
			!has_findings(verdict, "FI1013"),
	     is_unknown = strcmp(own->verdict, "not_judged") == 0;
	for (size_t i = 0; i < sizeof results / sizeof *results; i++)
		if (strcmp(verdict->word, results[i][0]) == 0 &&
			strcmp(own->verdict, results[i][1]) == 0)
			out_line_text(out, "; %s %s%s", own->result.title,
				says_how ? "loads it" : results[i][2],
				verdict->loading.has_base ? " on its base model" : "");
	for (size_t i = 0; i < own->reason_count && (says_how || is_unknown); i++) {
		const struct fsdp_load_reason *reason = &own->reasons[i];

		if (says_how && reason->verdict == FSDP_LOAD_DIFFERS) {
			out_line_text(out, ", but ");
			out_line_name(out, text_of(reason->message));
			out_values(out, "[ (the first of {})]",
				value_some(
					reason->all_names > 1 ? reason->all_names : 0));
			return;
		}
		if (says_how || strcmp(reason->code, "audit-error") == 0)
			continue;
		if (strcmp(reason->code, "base-model") == 0)
			out_line_text(out,
				"; not compared with its base model (add --expect=BASE)");
		else if (strcmp(reason->code, "unknown-model") == 0)
			out_line_text(out,
				"; whether %s loads it is not known for this model type",
				own->result.title);
		else {
			out_line_text(out, "; whether %s loads it is not known (",
				own->result.title);
			out_line_name(out, text_of(reason->message));
			out_line_text(out, ")");
			return;
		}
	}
}

/* " for 29 of 30 parameters (none for model.freqs)" */
static void print_owners(const struct verdict *verdict, struct out *out)
{
	if (!verdict->has_owners || verdict->with_states == 0)
		return;
	if (verdict->without_states == 0) {
		/* A missing parameter is not counted. */
		if (verdict->counts.error == 0)
			out_line_text(out, " (every parameter has its states)");
		return;
	}
	out_values(out, " for {} of {} parameters (none for {}[ and {} more])",
		value_count(verdict->with_states),
		value_count(verdict->with_states + verdict->without_states),
		value_name(verdict->without), value_some(verdict->without_states - 1));
}

/* "PyTorch distributed checkpoint (DCP), 4 ranks: 14 parameter tensors, 42 optimizer
 * states". The parts that merge reads do not have it. */
static void show_format(const struct verdict *verdict, struct out *out)
{
	static const struct {
		enum fsdp_role role;
		const char *what;
	} roles[] = { { FSDP_ROLE_PARAM, "parameter tensor" },
		{ FSDP_ROLE_BUFFER, "buffer" }, { FSDP_ROLE_OPTIM, "optimizer state" },
		{ FSDP_ROLE_OTHER, "other tensor" } };
	const char *before = ": ";

	if (verdict->format == NULL)
		return;
	out_line_begin(out, NULL);
	out_values(out, "  format: {}[, {} ranks]", value_word(verdict->format),
		verdict->ranks != FSDP_NONE && verdict->ranks > 1
			? value_id(verdict->ranks)
			: value_absent());
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
		print_count(out, &before, verdict->of_role[roles[i].role], roles[i].what);
		if (roles[i].role == FSDP_ROLE_PARAM && verdict->module_copies > 0)
			out_line_text(out, " (fp32 master weights)");
		if (roles[i].role == FSDP_ROLE_PARAM && verdict->averages > 0) {
			print_count(
				out, &before, verdict->averages, "averaged parameter");
			out_values(out, " ({})", value_name(verdict->average));
		}
		if (roles[i].role == FSDP_ROLE_OPTIM)
			print_owners(verdict, out);
	}
	if (verdict->other.size > 0 && verdict->other.size < 100) {
		out_line_text(out, " (");
		out_line_name(out, verdict->other);
		out_line_text(
			out, "%s)", verdict->of_role[FSDP_ROLE_OTHER] > 1 ? ", ..." : "");
	}
	print_count(out, &before, verdict->random_states, "RNG state");
	if (verdict->module_copies > 0)
		out_values(out, "{}{} weight{s} in training precision (module.*)",
			value_word(before), value_count(verdict->module_copies));
	for (size_t i = 0; i < verdict->part_count; i++) {
		out_line_text(out, "%s", i == 0 ? "; also stored: " : ", ");
		out_line_name(out, verdict->parts[i]);
	}
	out_values(out, "[, and {} more]", value_some(verdict->parts_left));
	/* A resume needs them. */
	if (verdict->of_role[FSDP_ROLE_OPTIM] == 0 &&
		verdict->of_role[FSDP_ROLE_PARAM] > 0 &&
		verdict->not_evaluated[FSDP_REASON_UNREADABLE] == 0)
		out_line_text(out, ", no optimizer states");
	out_line_end(out);
}

static void show_level(
	const struct verdict *verdict, struct out *out, const struct audit *audit)
{
	const enum fsdp_level level = audit->level;
	static const char *const checked[] = {
		[FSDP_LEVEL_QUICK] =
			"names, sizes and top-level metadata (without --quick also headers)",
		[FSDP_LEVEL_HEADERS] =
			"headers and metadata only (audit --data --values also checks contents, NaN and Inf)",
		[FSDP_LEVEL_DATA] =
			"headers, metadata and contents (--values also checks for NaN and Inf)",
		[FSDP_LEVEL_VALUES] = "headers, metadata, contents and values",
	};

	out_values_line(out, NULL,
		"  checked: {}[; read {}][, {} of it compared with checksums]{}{}",
		value_word(
			audit->options->listing != NULL
				? "names and sizes in the list, metadata that is here (not headers and contents)"
				: checked[level]),
		value_bytes(verdict->bytes_read),
		value_bytes(verdict->bytes_with_digest != 0 ? verdict->bytes_with_digest
							    : UINT64_MAX),
		value_word(
			level >= FSDP_LEVEL_DATA && verdict->bytes_with_digest == 0
				? "; the format has no checksums, so changed bytes would not be found"
				: ""),
		value_word(
			level >= FSDP_LEVEL_DATA &&
					verdict->not_evaluated[FSDP_REASON_UNREADABLE] > 0
				? "; some bytes are unreadable"
				: ""));
}

static void show_verdict(
	const struct verdict *verdict, const struct run *run, const struct audit *audit)
{
	struct out *out = run->out;
	const char *before = " ";
	const char *limit = find_limit(verdict);
	const bool is_partial = strcmp(verdict->word, "partial") == 0;
	bool others, strict;

	if (run->common->quiet > 0 && verdict->status == STATUS_GOOD &&
		verdict->counts.error == 0)
		return;
	out_line_begin(out, NULL);
	out_line_name(out, verdict->shown);
	if (!verdict->opened && verdict->counts.error == 0) {
		out_line_text(out, ": not judged");
		out_line_end(out);
		return;
	}
	out_line_text(out, ": ");
	out_line_painted(out, verdict->word);
	out_line_text(out, ":");
	others = print_loaders(verdict, out);
	strict = verdict->status == STATUS_BAD && !others;
	if (is_partial && !verdict->complete) {
		out_line_text(out, " %s;", reason_open(verdict->open));
		others = true;
	} else if (limit != NULL) {
		out_line_text(out, " no errors");
		before = ", ";
	}
	print_count(out, &before, verdict->counts.error, "error");
	print_count(out, &before, verdict->counts.warning, "warning");
	if (before[0] == ' ' && !strict && limit == NULL) {
		out_line_text(out, others ? " no other problems" : " no problems");
		before = ", ";
	}
	/* Other notes have lines of their own. */
	if (before[0] == ' ' || (strict && verdict->counts.error == 0))
		print_count(out, &before, other_notes(verdict), "note");
	if (strict && verdict->counts.error == 0)
		out_line_text(out, " (--fail-on=%s)",
			run->common->fail_on != NULL ? run->common->fail_on : "error");
	if (!verdict->opened) {
		out_line_text(out, "; cannot open the checkpoint");
		out_line_end(out);
		return;
	}
	/* The parts that merge reads have no loader. */
	bool is_full = verdict->format != NULL && run->common->quiet == 0;
	out_values(out, " in {} file{s}, {} tensor{s}[; {} part{s} not judged]",
		value_count(verdict->files), value_count(verdict->tensors),
		value_some(verdict->counts.unsupported));
	if (limit != NULL && limit[0] != '\0')
		out_line_text(out, "; %s", limit);
	if (is_full)
		print_own_loader(verdict, out);
	if (!verdict->complete)
		out_line_text(out,
			is_partial ? " (add --checks to list them)"
			: verdict->counts.error == 1
				? "; some checks could not run because of the error (add --checks to list them)"
				: "; some checks could not run (add --checks to list them)");
	out_line_end(out);
	show_level(verdict, out, audit);
	if (run->common->quiet == 0)
		show_format(verdict, out);
}

/* Suggests to record digests where none are. */
static void show_checksums(const struct verdict *verdict, struct out *out)
{
	char path[PATH_MAX];

	if (verdict->counts.error > 0 ||
		verdict->not_evaluated[FSDP_REASON_NO_DIGEST] == 0 ||
		verdict->path.size >= sizeof path)
		return;
	memcpy(path, verdict->path.data, verdict->path.size);
	path[verdict->path.size] = '\0';
	if (path_is_folder(path))
		out_line(out, NULL,
			"note: fsdp-inspect hash records checksums for files without them");
}

/* ---- several ---- */

static struct value get_notes(struct subject of)
{
	return value_count(other_notes(of.object));
}

GETTER(get_word, struct verdict, value_painted(one->word))

static const struct record verdict_rows =
	RECORD_OF(RECORD_OBJECT, struct verdict, { "verdict", GET(FIELD_WORD, get_word) },
		{ "errors", COUNT_AT(struct verdict, counts.error) },
		{ "warnings", COUNT_AT(struct verdict, counts.warning) },
		{ "notes", GET(FIELD_COUNT, get_notes) },
		{ "checkpoint", NAME_AT(struct verdict, path) });

/* ---- rows ---- */

/* A check of one of the checkpoints, or a finding in it. */
struct audit_row {
	struct text checkpoint;
	struct check check;
};

static const struct record check_row_record = RECORD_OF(RECORD_OBJECT, struct audit_row,
	{ "checkpoint", NAME_AT(struct audit_row, checkpoint) },
	{ NULL, FIELDS_AT(struct audit_row, check, check_rows) });

#define FINDING struct finding

static struct value get_checkpoint(struct subject of)
{
	const struct run *run = of.context;
	const FINDING *finding = of.object;

	return finding->input < run->collected->input_count
		       ? value_name(run->collected->inputs[finding->input].path)
		       : value_absent();
}

static const struct record finding_row_record = RECORD_OF(RECORD_OBJECT, FINDING,
	{ "checkpoint", GET(FIELD_NAME, get_checkpoint) },
	{ "severity", ENUM_AT(FINDING, severity, severity_name) },
	{ "rule", WORD_AT(FINDING, rule) }, { "slug", WORD_AT(FINDING, slug) },
	{ "file", NAME_AT(FINDING, file) }, { "tensor", NAME_AT(FINDING, tensor) },
	{ "offset", COUNT_AT(FINDING, offset) }, { "rank", ID_AT(FINDING, rank) },
	{ "message", TEXT_AT(FINDING, message) }, { "fix", TEXT_AT(FINDING, fix) });

/* For outputs that have rows alone: the checks with --checks, else the findings. */
static void show_rows(const struct audit *audit, struct run *run)
{
	const struct table like = { .key = "rows", .main = true, .rows_only = true };
	struct record_table table;

	record_table_init(&table, &like,
		audit->options->checks ? &check_row_record : &finding_row_record, run);
	out_records_begin(run->out, &table);
	for (size_t i = 0; audit->options->checks && i < audit->count; i++)
		for (size_t k = 0; k < audit->verdicts[i].check_count; k++) {
			struct audit_row row = { audit->verdicts[i].path,
				audit->verdicts[i].checks[k] };

			out_records_row(run->out, &table, &row);
		}
	for (size_t i = 0; !audit->options->checks && i < run->collected->finding_count;
		i++)
		out_records_row(run->out, &table, &run->collected->findings[i]);
	out_table_end(run->out);
}

/* "run: bad: 1 of 3 checkpoints is bad", of a directory that is not a checkpoint itself.
 */
static void show_total(const struct audit *audit, const struct run *run)
{
	static const char *const words[] = { "bad", "partial", "good" };
	size_t counts[3] = { 0 }, word = 0;
	uint64_t warnings = 0, errors = 0;
	const char *before = " ";
	struct out *out = run->out;

	for (size_t i = 0; i < audit->count; i++) {
		for (size_t k = 0; k < 3; k++)
			counts[k] += strcmp(audit->verdicts[i].word, words[k]) == 0;
		warnings += audit->verdicts[i].counts.warning;
	}
	while (word < 2 && counts[word] == 0)
		word++;
	/* Something below it was not checked, or is missing. */
	for (size_t i = 0; i < run->collected->failure_count; i++)
		if (word > 1 && run->collected->failures[i].input == 0)
			word = 1;
	for (size_t i = 0; i < run->collected->finding_count; i++)
		errors += run->collected->findings[i].input == 0 &&
			  run->collected->findings[i].severity == SEVERITY_ERROR;
	if (errors > 0)
		word = 0;
	out_line_begin(out, NULL);
	out_line_name(out, run->collected->inputs[0].path);
	out_line_text(out, ": ");
	out_line_painted(out, words[word]);
	if (word < 2 && counts[word] > 0) {
		out_line_text(out, ": %zu of %zu checkpoints %s %s", counts[word],
			audit->count, counts[word] == 1 ? "is" : "are", words[word]);
	} else {
		out_line_text(out, warnings + errors > 0 ? ":" : ": no problems");
		print_count(out, &before, errors, "error");
		print_count(out, &before, warnings, "warning");
		out_line_text(out, " in %zu checkpoints%s", audit->count,
			word == 1
				? "; some checks could not run (add --checks to list them)"
				: "");
	}
	out_line_end(out);
	show_level(&(struct verdict){ .bytes_read = UINT64_MAX }, out, audit);
}

void audit_text(const struct audit *audit, struct run *run)
{
	static const struct table table = { .key = "table", .text_only = true };
	bool is_below = audit->count > run_checkpoints(run), any = false;

	FOR_EACH(i, audit->count, verdict, &audit->verdicts[i]) {
		struct text first = { NULL, 0 };
		size_t refused = 0;
		char more[40] = "";

		/* The table has a line for it. */
		if (is_below && run->common->verbose == 0 &&
			verdict->counts.warning == 0 &&
			strcmp(verdict->word, "good") == 0)
			continue;
		any = true;
		/* Rejections by weights_only matter only to programs that load that file
		 * alone: one line replaces these findings. */
		const struct texts *loaders = &audit->options->loading.loaders;
		bool request = run->common->verbose > 0 || verdict->files <= 1;

		for (size_t j = 0; j < loaders->count; j++)
			request |= strcmp(loaders->items[j], "weights_only") == 0 ||
				   strcmp(loaders->items[j], "all") == 0;
		for (size_t j = 0; j < run->collected->finding_count && !request; j++) {
			struct finding *finding = &run->collected->findings[j];

			if (finding->input != verdict->input ||
				finding->severity != SEVERITY_NOTE ||
				strcmp(finding->rule, "FI3003") != 0)
				continue;
			finding->is_printed = true;
			first = refused++ == 0 ? finding->file : first;
		}
		show_findings(verdict, run, audit->count > 1);
		if (refused > 1)
			snprintf(more, sizeof more, " and %zu more file%s", refused - 1,
				refused == 2 ? "" : "s");
		/* Known loaders do not depend on the default of torch.load(). */
		bool knows_own =
			verdict->loading.is_own && verdict->loading.count > 0 &&
			strcmp(verdict->loading.loaders[0].verdict, "not_judged") != 0;

		if (refused > 0 && run->common->quiet == 0 && !knows_own)
			out_line(run->out, NULL,
				"note: torch.load() refuses %.*s%s by default: use weights_only=False or add_safe_globals() (FI3003; -v lists the classes)",
				first.size < 200 ? (int)first.size : 200,
				first.data != NULL ? first.data : "", more);
		if (audit->options->checks)
			show_checks(verdict, run->out);
		if (!verdict->loading.is_own || run->common->verbose > 0)
			loading_text(&verdict->loading, run->out);
		show_verdict(verdict, run, audit);
		if (run->common->quiet == 0 || !verdict->complete)
			show_checksums(verdict, run->out);
	}
	show_rows(audit, run);
	/* Of the directory itself: models that are next to each other in it. */
	if (is_below && run_checkpoints(run) == 1)
		show_findings(&(struct verdict){ .input = 0 }, run, true);
	if (audit->count > 1 && run->common->quiet == 0) {
		if (any)
			out_line(run->out, NULL, "%s", "");
		out_records(run->out, &table, &verdict_rows, NULL, audit->verdicts,
			audit->count);
		if (is_below && run_checkpoints(run) == 1)
			show_total(audit, run);
	}
}
