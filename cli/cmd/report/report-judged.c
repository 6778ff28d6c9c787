/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says in a report whether the checkpoint is good, and which loaders take it.
 */
#include <string.h>

#include "cmd/report/report.h"
#include "part/audit-run.h"
#include "session/diagnostics.h"

/* Rules that no deeper look would judge either. */
static bool is_incomplete(const struct passes *passes)
{
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		struct fsdp_rule_result result = fsdp_audit_result(passes->audit, i);

		if (result.status == FSDP_STATUS_NOT_EVALUATED &&
			result.reason != FSDP_REASON_NEEDS_DATA &&
			result.reason != FSDP_REASON_NEEDS_VALUES)
			return true;
	}
	return false;
}

static void decide(struct report *report, bool incomplete)
{
	const struct collected *collected = report->run->collected;

	incomplete |= collected->failure_count > 0;
	for (size_t i = 0; i < collected->finding_count; i++) {
		const struct finding *finding = &collected->findings[i];

		report->errors += finding->severity == SEVERITY_ERROR;
		report->warnings += finding->severity == SEVERITY_WARNING;
		incomplete |= finding_is_open(finding);
	}
	report->verdict = report->errors > 0 ? "bad" : incomplete ? "partial" : "good";
}

static bool ask_loaders(struct report *report, struct fsdp_error **ret_error)
{
	static const char *all[] = { "all" };
	const struct loading_options options = { .loaders = { all, 1 }, .world = -1 };
	const struct expectation nothing = { 0 };

	return loading_judge(
		&options, report->run, &nothing, false, &report->loading, ret_error);
}

bool report_judge(struct report *report, struct fsdp_error **ret_error)
{
	struct collected *collected = report->run->collected;
	struct passes passes = { 0 };
	bool good;

	/* The audit has those of the opened checkpoint as well. */
	collected->finding_count = collected->omission_count = 0;
	good = passes_run(&passes, report->run, FSDP_LEVEL_HEADERS, NULL, ret_error) &&
	       judge_sets(report->run, false, true);

	if (good) {
		judged_failures_take(report->run);
		decide(report, is_incomplete(&passes));
	}
	passes_done(&passes);
	return good && ask_loaders(report, ret_error);
}

void report_tell_verdict(struct report *report)
{
	struct out *out = report->run->out;

	out_line_begin(out, "verdict");
	out_line_text(out, "%s: %zu error%s, %zu warning%s", report->verdict,
		report->errors, report->errors == 1 ? "" : "s", report->warnings,
		report->warnings == 1 ? "" : "s");
	out_line_text(
		out, " (headers and metadata; every byte: fsdp-inspect audit --data ");
	out_line_shell(out, text_of(report->run->path));
	out_line_text(out, ")");
	out_line_end(out);
}

void report_show_loaders(struct report *report)
{
	static const struct column columns[] = { { .name = "loader" },
		{ .name = "library" }, { .name = "version" }, { .name = "verdict" },
		{ .name = "why" }, { .name = "fix" } };
	const struct table table = {
		.key = "loaders", .columns = columns, .column_count = 6
	};
	struct out *out = report->run->out;

	if (report->loading.count == 0)
		return;
	out_table_begin(out, &table);
	for (size_t i = 0; i < report->loading.count; i++) {
		const struct shown_loader *loader = &report->loading.loaders[i];
		const struct shown_reason *first =
			loader->reason_count > 0 ? &loader->reasons[0] : NULL;
		const struct value values[] = { value_word(loader->loader),
			value_word(loader->library), value_word(loader->version),
			value_word(loader->verdict),
			first != NULL ? value_name(first->message) : value_absent(),
			first != NULL && first->way_out.data != NULL
				? value_name(first->way_out)
				: value_absent() };

		out_row(out, values);
	}
	out_table_end(out);
}
