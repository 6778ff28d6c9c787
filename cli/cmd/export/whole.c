/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether the source has all that is to be written, as an audit judges it.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/export/export.h"
#include "run/answer.h"
#include "run/collected.h"

static bool is_one_of(const struct fsdp_rule *rule, const char *const *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(rule->id, ids[i]) == 0)
			return true;
	return false;
}

/* Errors of the structure say that something lacks, but for some that an audit tells and
 * that stop nothing here: which step is the latest, what a plan says of another model. Of
 * those of safety, the ones that say that another reader may find other bytes: what a
 * pickle would run is not run and not written, and stops nothing. */
static bool is_about_bytes(const struct fsdp_rule *rule)
{
	static const char *const others[] = { "FI1011", "FI1080", "FI1091", "FI1095" };
	static const char *const ambiguous[] = { "FI3014", "FI3040", "FI3041", "FI3044",
		"FI3047", "FI3050", "FI3051" };

	if (strcmp(rule->category, "structure") == 0)
		return !is_one_of(rule, others, sizeof others / sizeof *others);
	return is_one_of(rule, ambiguous, sizeof ambiguous / sizeof *ambiguous);
}

static bool is_value(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name)
{
	size_t count = fsdp_value_count(checkpoint);
	uint32_t id = fsdp_name_find(checkpoint, name);

	for (uint32_t i = 0; id != FSDP_NONE && i < count; i++)
		if (fsdp_value(checkpoint, i).name == id)
			return true;
	return false;
}

/* A name of which no tensor is left. Names that are typed must be there anyway. */
static bool misses(struct exporting *exporting, struct fsdp_span name)
{
	return exporting->named == NULL &&
	       selection_takes_name(exporting->selection, name) &&
	       !is_value(exporting->run->checkpoint, name);
}

/* All tensors of one name. */
static bool tear(struct exporting *exporting, struct fsdp_span name)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	uint32_t first = fsdp_tensor_find(checkpoint, name);
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
static bool tear_file(struct exporting *exporting, struct fsdp_span path)
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
		if (!text_is(file, text_of_span(path)))
			continue;
		exporting->torn[piece.tensor] = true;
		wanted |= is_wanted(exporting, piece.tensor);
	}
	return wanted;
}

/* Whether something that is wanted suffers from it. */
static bool takes_away(struct exporting *exporting, const struct fsdp_finding *finding)
{
	bool wanted = false;

	for (size_t i = 0; i < finding->affected_kept; i++)
		wanted |= tear(exporting, finding->affected[i]);
	if (finding->affected_count > finding->affected_kept &&
		finding->file.data != NULL)
		wanted |= tear_file(exporting, finding->file);
	if (finding->affected_count == 0 && finding->tensor.data != NULL)
		wanted |= tear(exporting, finding->tensor);
	/* Of what names no tensor nothing is known. */
	if (finding->affected_count == 0 && finding->tensor.data == NULL)
		wanted = true;
	return wanted;
}

/* What --index-only is about to mend. */
static bool is_index(
	const struct exporting *exporting, const struct fsdp_finding *finding)
{
	static const char name[] = "model.safetensors.index.json";

	return exporting->options->index_only &&
	       strcmp(finding->rule->id, "FI1001") == 0 &&
	       text_is(text_of_span(finding->file), text_of(name));
}

/* In place of those of the checkpoint, which lack the names that suffer. */
static void show_findings(struct run *run, const struct fsdp_audit *audit)
{
	run->collected->finding_count = 0;
	for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++)
		collected_found(
			run->collected, fsdp_audit_finding(audit, i), run->input, true);
}

/* What such a file holds is not known. Of the only file, which gave tensors, all are known:
 * a failure says that something beside them, such as code, is not read. */
static bool has_unread_file(const struct run *run)
{
	return run->collected->failure_count != 0 && fsdp_file_count(run->checkpoint) > 1;
}

/* Shards that do not say of how many ranks they are may lack some. */
static void note_ranks(struct run *run, const struct fsdp_audit *audit)
{
	struct fsdp_rule_result result;

	for (size_t i = 0; (result = fsdp_audit_result(audit, i)).rule != NULL; i++)
		if (result.reason == FSDP_REASON_NEEDS_PLAN &&
			strcmp(result.rule->id, "FI1008") == 0)
			run_note(run,
				"no file says of how many ranks it is; if some are missing, the tensors are only parts (audit --expect)");
}

static bool judge(struct exporting *exporting, const struct fsdp_audit *audit)
{
	bool lacks = has_unread_file(exporting->run);

	exporting->torn = calloc(fsdp_tensor_count(exporting->run->checkpoint) + 1,
		sizeof *exporting->torn);
	if (exporting->torn == NULL)
		return false;
	for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);
		if (finding->severity == FSDP_ERROR && is_about_bytes(finding->rule) &&
			!is_index(exporting, finding))
			lacks |= takes_away(exporting, finding);
	}
	if (!lacks) {
		note_ranks(exporting->run, audit);
		return true;
	}
	show_findings(exporting->run, audit);
	exporting->refused = !exporting->options->partial;
	exporting->status = exporting->refused ? STATUS_BAD : STATUS_PARTIAL;
	return true;
}

bool find_torn(struct exporting *exporting, struct fsdp_error **ret_error)
{
	struct run *run = exporting->run;
	struct fsdp_audit_options options = {
		.size = sizeof options,
		.level = FSDP_LEVEL_HEADERS,
		.limits = run->limits,
		.limit_count = run->limit_count,
	};
	struct fsdp_audit *audit = NULL;
	bool good;

	if (!fsdp_audit_new(run->checkpoint, &options, &audit, ret_error))
		return false;
	good = judge(exporting, audit);
	fsdp_audit_free(audit);
	return good;
}
