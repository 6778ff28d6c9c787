/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the source has all tensors to be written, as audit does. The table of rules selects the findings: those
 * about tensors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "cmd/export/export.h"
#include "part/audit-run.h"
#include "part/value-text.h"
#include "session/diagnostics.h"
#include "session/session.h"

static bool is_value(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name)
{
	size_t count = fsdp_value_count(checkpoint);
	uint32_t id = fsdp_name_find(checkpoint, name);

	for (uint32_t i = 0; id != FSDP_NONE && i < count; i++)
		if (fsdp_value(checkpoint, i).name == id)
			return true;
	return false;
}

/* A name without remaining tensors. Typed names must exist anyway. */
static bool misses(struct exporting *exporting, struct text name)
{
	return exporting->named == NULL &&
	       selection_takes_name(exporting->selection, span_of_text(name)) &&
	       !is_value(exporting->run->checkpoint, span_of_text(name));
}

/* All tensors of one name. */
static bool tear(struct exporting *exporting, struct text name)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	uint32_t first = fsdp_tensor_find(checkpoint, span_of_text(name));
	bool wanted = false;

	if (first == FSDP_NONE)
		return misses(exporting, name);
	for (uint32_t i = first; i < count; i++) {
		if (fsdp_tensor(checkpoint, i).name !=
			fsdp_tensor(checkpoint, first).name)
			break;
		exporting->torn[i] = true;
		wanted |= is_wanted(exporting, i);
	}
	return wanted;
}

/* Pieces of a file that no finding lists one by one. */
static bool tear_file(struct exporting *exporting, struct text path)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	size_t count = fsdp_piece_count(checkpoint), tensors;
	bool wanted = false;

	tensors = fsdp_tensor_count(checkpoint);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		struct text file;
		if (piece.file == FSDP_NONE || piece.tensor >= tensors)
			continue;
		file = text_of_span(fsdp_file(checkpoint, piece.file).path);
		if (!text_is(file, path))
			continue;
		exporting->torn[piece.tensor] = true;
		wanted |= is_wanted(exporting, piece.tensor);
	}
	return wanted;
}

/* Whether something that is wanted suffers from it. */
static bool takes_away(struct exporting *exporting, const struct finding *finding)
{
	bool wanted = false;

	for (size_t i = 0; i < finding->affected_kept; i++)
		wanted |= tear(exporting, finding->affected[i]);
	if (finding->affected_count > finding->affected_kept &&
		finding->file.data != NULL)
		wanted |= tear_file(exporting, finding->file);
	if (finding->affected_kept == 0 && finding->tensor.data != NULL)
		wanted |= tear(exporting, finding->tensor);
	/* A finding without tensor names may affect any tensor. */
	return wanted || (finding->affected_kept == 0 && finding->tensor.data == NULL);
}

/* What --index-only is about to write. */
static bool is_index(const struct exporting *exporting, const struct finding *finding)
{
	static const char name[] = "model.safetensors.index.json";

	return exporting->options->index_only && text_is(finding->file, text_of(name));
}

static bool is_about_tensors(const char *id)
{
	const struct fsdp_rule *rule = id != NULL ? fsdp_rule_find(id) : NULL;

	return rule == NULL || rule->subject == FSDP_SUBJECT_TENSORS;
}

/* By what was found: then the checkpoint is bad. */
static bool lacks_something(struct exporting *exporting)
{
	const struct collected *collected = exporting->run->collected;
	bool lacks = false;

	for (size_t i = 0; i < collected->finding_count; i++) {
		const struct finding *finding = &collected->findings[i];

		if (finding->severity == SEVERITY_ERROR &&
			is_about_tensors(finding->rule) && !is_index(exporting, finding))
			lacks |= takes_away(exporting, finding);
	}
	return lacks;
}

/* Unread parts were not checked either. */
static bool misses_something(const struct collected *collected)
{
	bool misses = false;

	for (size_t i = 0; i < collected->failure_count; i++)
		misses |= is_about_tensors(collected->failures[i].rule);
	return misses;
}

/* A finding may name the first of many that a file lacks. Reads no elements. */
static bool can_be_read(struct fsdp_locator *locator, uint32_t index,
	const struct fsdp_tensor *tensor, struct fsdp_error **ret_error)
{
	struct fsdp_elements *elements = NULL;
	struct fsdp_place place;

	if (!fsdp_elements_open(locator, index, NULL, &elements, ret_error))
		return false;
	fsdp_elements_close(elements);
	for (uint32_t i = 0; i < tensor->piece_count; i++)
		if (!fsdp_piece_locate(
			    locator, tensor->first_piece + i, &place, ret_error))
			return false;
	return true;
}

/* fsdp_export_new refuses what the form cannot hold, and gives the reason. */
static bool is_plain(const struct fsdp_tensor *tensor)
{
	return tensor->layout == NULL && tensor->component_count == 0 &&
	       (tensor->flags & FSDP_TENSOR_NO_DATA) == 0;
}

static bool is_whole(
	const struct exporting *exporting, struct fsdp_locator *locator, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_error *error = NULL;
	bool whole;

	/* A tied one has the bytes of another. */
	if (tensor.alias != FSDP_NONE) {
		index = tensor.alias;
		tensor = fsdp_tensor(checkpoint, index);
	}
	if (exporting->torn[index])
		return false;
	whole = !is_plain(&tensor) || can_be_read(locator, index, &tensor, &error);
	fsdp_error_free(error);
	return whole;
}

/* Tears the others. *ret_some: one is left. */
static bool find_whole(
	struct exporting *exporting, bool *ret_some, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	struct fsdp_locator *locator = NULL;
	size_t count = fsdp_tensor_count(checkpoint);

	*ret_some = false;
	if (!fsdp_locator_new(checkpoint, &locator, ret_error))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (exporting->torn[i] || !is_wanted(exporting, i))
			continue;
		exporting->torn[i] = !is_whole(exporting, locator, i);
		*ret_some |= !exporting->torn[i];
	}
	fsdp_locator_free(locator);
	return true;
}

/* Shards that do not say of how many ranks they are may lack some. */
static void note_ranks(struct run *run, const struct fsdp_audit *audit)
{
	struct fsdp_rule_result result;

	for (size_t i = 0; (result = fsdp_audit_result(audit, i)).rule != NULL; i++)
		if (result.reason == FSDP_REASON_NEEDS_PLAN &&
			strcmp(result.rule->id, "FI1008") == 0)
			run_note(run,
				"no file states the number of ranks; if some are missing, the tensors are incomplete (audit --expect)");
}

static bool is_judgement(const struct finding *finding)
{
	return finding->severity != SEVERITY_ERROR ||
	       !rule_is_limit(fsdp_rule_find(finding->rule));
}

/* As the user would type it. */
static struct text typed_path(struct run *run, struct text file)
{
	struct text typed = text_of(run->path);
	char path[4096];

	if (file.data == NULL || text_is(text_last(typed, '/'), file))
		return typed;
	snprintf(path, sizeof path, "%s/%.*s", run->path, (int)file.size, file.data);
	return collected_text(run->collected, path);
}

static bool was_told(const struct collected *collected, struct text path,
	const struct finding *finding)
{
	for (size_t i = 0; i < collected->failure_count; i++)
		if (text_is(collected->failures[i].path, path) &&
			text_is(collected->failures[i].message, finding->message))
			return true;
	return false;
}

static bool add_failure(struct run *run, const struct finding *finding)
{
	bool unread = strcmp(finding->rule, "FI9003") == 0;
	struct text path = typed_path(run, finding->file);
	struct failure *failure;

	if (was_told(run->collected, path, finding))
		return true;
	failure = collected_failure(run->collected, unread ? "system" : "unsupported");
	if (failure == NULL)
		return false;
	failure->input = run->input;
	failure->rule = finding->rule;
	failure->path = path;
	failure->member = finding->member;
	failure->offset = finding->offset;
	failure->message = finding->message;
	failure->hint = finding->fix;
	return true;
}

/* Findings about unread parts become failures: those parts were not checked. */
static bool part_failures(struct run *run)
{
	struct collected *collected = run->collected;
	size_t kept = 0;
	bool good = true;

	for (size_t i = 0; i < collected->finding_count; i++) {
		const struct finding finding = collected->findings[i];

		if (is_judgement(&finding))
			collected->findings[kept++] = finding;
		else
			good = add_failure(run, &finding) && good;
	}
	collected->finding_count = kept;
	return good;
}

/* As an audit of the headers does. What was found while opening is found again, with the
 * names that suffer. */
static bool audit(struct run *run, struct fsdp_error **ret_error)
{
	struct collected *collected = run->collected;
	struct passes passes = { 0 };
	bool good;

	run->input = 0;
	collected->finding_count = collected->omission_count = 0;
	good = passes_run(&passes, run, FSDP_LEVEL_HEADERS, NULL, ret_error) &&
	       check_weight_sets(run, false, false) && part_failures(run);
	if (good) {
		report_failed_files(run);
		good = findings_sort(collected->findings, collected->finding_count);
		note_ranks(run, passes.audit);
	}
	passes_done(&passes);
	return good;
}

bool find_torn(struct exporting *exporting, struct fsdp_error **ret_error)
{
	size_t count = fsdp_tensor_count(exporting->run->checkpoint);
	bool some = false, bad;

	exporting->torn = calloc(count + 1, sizeof *exporting->torn);
	if (exporting->torn == NULL || !audit(exporting->run, ret_error))
		return false;
	bad = lacks_something(exporting);
	if (!bad && !misses_something(exporting->run->collected))
		return true;
	if (exporting->options->partial && !find_whole(exporting, &some, ret_error))
		return false;
	exporting->refused = !some;
	exporting->status = some ? STATUS_PARTIAL : bad ? STATUS_BAD : STATUS_FAILED;
	return true;
}

bool refuse_damage(struct exporting *exporting, struct fsdp_error **error)
{
	struct run *run = exporting->run;
	struct collected *collected = run->collected;
	size_t failures = collected->failure_count;

	if (fsdp_error_code(*error) != FSDP_ERROR_DAMAGED ||
		fsdp_error_rule(*error) == NULL)
		return false;
	collected_error(collected, *error, run->input);
	fsdp_error_free(*error);
	*error = NULL;
	report_failed_files(run);
	exporting->damaged = true;
	exporting->status =
		collected->failure_count == failures ? STATUS_BAD : STATUS_FAILED;
	return true;
}
