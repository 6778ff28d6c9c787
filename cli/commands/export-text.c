/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text output of `export`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <fsdp/elements.h>

#include "commands/export.h"
#include "shared/audit-run.h"
#include "shared/stored-values.h"
#include "shared/tensor-reading.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- completeness of the source ---- */

/* All tensors of one name. Whether something that is wanted suffers. */
static bool tear(struct exporting *exporting, struct text name)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	size_t values = fsdp_value_count(checkpoint);
	uint32_t first = fsdp_tensor_find(checkpoint, span_of_text(name));
	uint32_t id = fsdp_name_find(checkpoint, span_of_text(name));
	bool wanted = false, is_value = false;

	if (first == FSDP_NONE) {
		for (uint32_t i = 0; id != FSDP_NONE && i < values && !is_value; i++)
			is_value = fsdp_value(checkpoint, i).name == id;
		/* A name without remaining tensors. Typed names must exist anyway. */
		return exporting->named == NULL && !is_value &&
		       selection_takes_name(exporting->selection, span_of_text(name));
	}
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
	size_t count = fsdp_piece_count(checkpoint);
	size_t tensors = fsdp_tensor_count(checkpoint);
	bool wanted = false;

	FOR_EACH(i, (uint32_t)count, piece, fsdp_piece(checkpoint, i)) {
		if (piece.file == FSDP_NONE || piece.tensor >= tensors ||
			!text_is(text_of_span(fsdp_file(checkpoint, piece.file).path),
				path))
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

static bool is_about_tensors(const char *id)
{
	const struct fsdp_rule *rule = id != NULL ? fsdp_rule_find(id) : NULL;

	return rule == NULL || rule->subject == FSDP_SCOPE_TENSORS;
}

/* Whether all pieces can be read: a finding may name the first of many that a file lacks.
 * Reads no elements. */
static bool is_whole(
	const struct exporting *exporting, struct fsdp_locator *locator, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_elements *elements = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_place place;

	/* A tied one has the bytes of another. */
	if (tensor.alias != FSDP_NONE) {
		index = tensor.alias;
		tensor = fsdp_tensor(checkpoint, index);
	}
	if (exporting->torn[index])
		return false;
	/* fsdp_export_new refuses what the form cannot hold, and gives the reason. */
	if (tensor.layout != NULL || tensor.component_count != 0 ||
		(tensor.flags & FSDP_TENSOR_NO_DATA) != 0)
		return true;
	bool whole = fsdp_elements_open(locator, index, NULL, &elements, &error);
	fsdp_elements_close(elements);
	for (uint32_t i = 0; whole && i < tensor.piece_count; i++)
		whole = fsdp_piece_locate(
			locator, tensor.first_piece + i, &place, &error);
	fsdp_error_free(error);
	return whole;
}

static void add_failure(struct run *run, const struct finding *finding)
{
	bool unread = strcmp(finding->rule, "FI9003") == 0;
	struct collected *collected = run->collected;
	struct text path = text_of(run->path), file = finding->file;
	struct failure *failure;
	char typed[4096];

	/* As the user would type it. */
	if (file.data != NULL && !text_is(text_last(path, '/'), file)) {
		snprintf(typed, sizeof typed, "%s/%.*s", run->path, (int)file.size,
			file.data);
		path = text_new(typed);
	}
	for (size_t i = 0; i < collected->failure_count; i++)
		if (text_is(collected->failures[i].path, path) &&
			text_is(collected->failures[i].message, finding->message))
			return;
	failure = collected_failure(collected, unread ? "system" : "unsupported");
	if (failure == NULL)
		return;
	failure->input = run->input;
	failure->rule = finding->rule;
	failure->path = path;
	failure->member = finding->member;
	failure->offset = finding->offset;
	failure->message = finding->message;
	failure->hint = finding->fix;
}

/* As an audit of the headers does. What was found while opening is found again, with the
 * names that suffer. */
static void audit(struct run *run)
{
	struct collected *collected = run->collected;
	struct passes passes = { 0 };
	struct fsdp_rule_result result;
	size_t kept = 0;

	run->input = 0;
	collected->finding_count = collected->omission_count = 0;
	passes_run(&passes, run, FSDP_LEVEL_HEADERS, NULL);
	check_weight_sets(run, false, false);
	/* Findings about unread parts become failures: those parts were not checked. */
	FOR_EACH(i, collected->finding_count, finding, collected->findings[i])
		if (finding.severity != SEVERITY_ERROR ||
			!rule_is_limit(fsdp_rule_find(finding.rule)))
			collected->findings[kept++] = finding;
		else
			add_failure(run, &finding);
	collected->finding_count = kept;
	report_failed_files(run);
	findings_sort(collected->findings, collected->finding_count);
	/* Shards that do not say of how many ranks they are may lack some. */
	for (size_t i = 0; (result = fsdp_audit_result(passes.audit, i)).rule != NULL;
		i++)
		if (result.reason == FSDP_REASON_NEEDS_PLAN &&
			strcmp(result.rule->id, "FI1008") == 0)
			run_note(run,
				"no file states the number of ranks; if some are missing, the tensors are incomplete (audit --expect)");
}

void find_repeated(struct exporting *exporting)
{
	struct run *run = exporting->run;
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	uint32_t count = (uint32_t)fsdp_tensor_count(checkpoint), first = 0;

	if (exporting->options->index_only || family == NULL ||
		strcmp(family, "hf-safetensors-sharded") != 0)
		return;
	for (uint32_t i = 1; i < count; i++) {
		struct fsdp_tensor a = fsdp_tensor(checkpoint, first),
				   b = fsdp_tensor(checkpoint, i);

		if (a.name != b.name || a.raw_name != b.raw_name) {
			first = i;
			continue;
		}
		if (!is_wanted(exporting, first) || !is_wanted(exporting, i))
			continue;
		if (exporting->repeated == NULL)
			exporting->repeated =
				run_memory(run, count, sizeof *exporting->repeated);
		exporting->repeated[i] = tensors_are_equal(run, first, i);
		exporting->repeated_count += exporting->repeated[i];
	}
}

void find_torn(struct exporting *exporting)
{
	struct run *run = exporting->run;
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	const struct collected *collected = run->collected;
	size_t count = fsdp_tensor_count(checkpoint);
	bool some = false, bad = false, unread = false;
	struct fsdp_locator *locator = NULL;

	exporting->torn = run_memory(run, count, sizeof *exporting->torn);
	audit(run);
	/* By what was found: then the checkpoint is bad. */
	FOR_EACH(i, collected->finding_count, finding, &collected->findings[i]) {
		/* What --index-only is about to write is not missing. */
		if (finding->severity == SEVERITY_ERROR &&
			is_about_tensors(finding->rule) &&
			!(exporting->options->index_only &&
				is_exported_index(finding->file.data)))
			bad |= takes_away(exporting, finding);
	}
	/* Unread parts were not checked either. */
	for (size_t i = 0; i < collected->failure_count; i++)
		unread |= is_about_tensors(collected->failures[i].rule);
	if (!bad && !unread)
		return;
	if (exporting->options->partial)
		locator = run_locator(run);
	for (uint32_t i = 0; locator != NULL && i < count; i++) {
		if (exporting->torn[i] || !is_wanted(exporting, i))
			continue;
		exporting->torn[i] = !is_whole(exporting, locator, i);
		some |= !exporting->torn[i];
	}
	exporting->refused = !some;
	exporting->status = some ? STATUS_PARTIAL : bad ? STATUS_BAD : STATUS_FAILED;
}

void refuse_damage(struct exporting *exporting)
{
	struct run *run = exporting->run;
	struct collected *collected = run->collected;
	size_t failures = collected->failure_count;

	if (fsdp_error_code(run->error) != FSDP_ERROR_DAMAGED ||
		fsdp_error_rule(run->error) == NULL)
		run_fail(run, run->error);
	collected_own_error(collected, run->error, run->input);
	run->error = NULL;
	report_failed_files(run);
	exporting->damaged = true;
	exporting->status =
		collected->failure_count == failures ? STATUS_BAD : STATUS_FAILED;
}

/* ---- machine output ---- */

struct tensor {
	struct fsdp_export_tensor facts;
	struct text name, file, sha256;
	char digits[HEX_ROOM];
};

/* The caller's own name where there is one file. */
static struct text file_name(const struct exporting *exporting, uint32_t file)
{
	if (exporting->file != NULL || exporting->to_stdout)
		return text_of(exporting->file);
	return text_of_span(fsdp_export_file(exporting->plan, file).name);
}

static const void *each_tensor(struct subject of, size_t i, void *room)
{
	const struct exporting *exporting = of.context;
	struct tensor *tensor = room;

	if (i >= exporting->tensor_count)
		return NULL;
	tensor->facts = fsdp_export_tensor(exporting->plan, i);
	tensor->name = text_of_span(tensor->facts.name);
	tensor->file = file_name(exporting, tensor->facts.file);
	tensor->sha256 = hex_text(tensor->facts.sha256, tensor->digits);
	return tensor;
}

static struct value find_source(struct subject of, uint32_t index)
{
	return value_name(exported_name(of.context, index));
}

#define TENSOR struct tensor
static const struct record tensor_written_record = OBJECT_RECORD(TENSOR,
	"exported_tensor", "A tensor that was written.",
	{ "name", NAME_AT(TENSOR, name), ALWAYS("Name under which it was written.") },
	{ "source", FOUND_AT(TENSOR, facts.source, FIELD_NAME, find_source),
		ALWAYS("Name in the checkpoint.") },
	{ "dtype", ENUM_AT(TENSOR, facts.dtype, dtype_name),
		ALWAYS("Dtype as written.") },
	{ "shape", SHAPE_AT(TENSOR, facts.shape, facts.dims), ALWAYS("Shape.") },
	{ "bytes", BYTES_AT(TENSOR, facts.bytes), ALWAYS("Bytes as written.") },
	{ "file", NAME_AT(TENSOR, file),
		ABOUT("File that contains it, relative to the directory.") },
	{ "offset", COUNT_AT(TENSOR, facts.offset),
		ALWAYS("Byte in that file where it begins.") },
	{ "sha256", TEXT_AT(TENSOR, sha256),
		ABOUT("SHA-256 of its bytes, as they were read back.") });

/* Absent where a tensor has none. */
void digest_exported(struct exporting *exporting)
{
	struct fsdp_digester **digester = digester_of_run(exporting->run);
	const struct subject of = { exporting, exporting };
	struct tensor tensor;
	bool all = true;

	for (size_t i = 0; each_tensor(of, i, &tensor) != NULL; i++) {
		all &= tensor.sha256.data != NULL;
		digest_list_add(
			*digester, &(struct digest_line){
					   .digits = tensor.sha256,
					   .dtype = dtype_name(tensor.facts.dtype),
					   .shape = tensor.facts.shape,
					   .dims = tensor.facts.dims,
					   .name = tensor.name,
				   });
	}
	digester_end(digester, exporting->sha256);
	if (all)
		exporting->digest = hex_text(exporting->sha256, exporting->digits);
}

struct file {
	struct text path, sha256;
	uint64_t bytes;
	char digits[HEX_ROOM];
};

static const void *each_file(struct subject of, size_t i, void *room)
{
	const struct exporting *exporting = of.context;
	struct file *file = room;

	if (i >= exporting->file_count)
		return NULL;
	struct fsdp_export_file facts = fsdp_export_file(exporting->plan, i);
	file->path = file_name(exporting, (uint32_t)i);
	file->bytes = facts.bytes;
	file->sha256 = hex_text(facts.sha256, file->digits);
	return file;
}

#define FILE_ROW struct file
static const struct record file_record = OBJECT_RECORD(FILE_ROW, "exported_file",
	"A file that was written.",
	{ "path", NAME_AT(FILE_ROW, path), ABOUT("Its name relative to the directory.") },
	{ "bytes", BYTES_AT(FILE_ROW, bytes), ALWAYS("Its size.") },
	{ "sha256", TEXT_AT(FILE_ROW, sha256),
		ABOUT("SHA-256 of the file, as it was read back.") });

/* ---- skipped tensors ---- */

struct left {
	uint32_t source, value; /* one of them */
	const char *why;
	struct text same_as;
	uint64_t bytes;
};

static const void *each_left(struct subject of, size_t i, void *room)
{
	const struct exporting *exporting = of.context;
	struct left *left = room;

	if (i >= exporting->left_count)
		return NULL;
	struct fsdp_export_skipped facts = fsdp_export_skipped(exporting->plan, i);
	left->source = facts.source;
	left->value = facts.value;
	left->why = fsdp_skip_reason_name(facts.why);
	left->bytes = UINT64_MAX;
	if (left->source != FSDP_NONE)
		left->bytes = fsdp_tensor(exporting->run->checkpoint, left->source).bytes;
	left->same_as = (struct text){ NULL, 0 };
	if (facts.same_as != SIZE_MAX)
		left->same_as = text_of_span(
			fsdp_export_tensor(exporting->plan, facts.same_as).name);
	return left;
}

static struct value get_left_name(struct subject of)
{
	struct exporting *exporting = of.context;
	const struct left *left = of.object;

	if (left->source != FSDP_NONE)
		return find_source(of, left->source);
	struct fsdp_value value = fsdp_value(exporting->run->checkpoint, left->value);
	return value_name(
		entry_shown_name(exporting->run, &exporting->buffers->name, &value));
}

#define LEFT struct left
static const struct record left_record = OBJECT_RECORD(LEFT, "left_out",
	"A tensor that was not written, or a value that holds some without a name.",
	{ "name", GET(FIELD_NAME, get_left_name), ALWAYS("Name in the checkpoint.") },
	{ "why", WORD_AT(LEFT, why), .always = true,
		WORDS("role", "selected", "tied", "unsupported", "incomplete",
			"unmapped"),
		ABOUT("Reason why it was skipped.") },
	{ "same_as", NAME_AT(LEFT, same_as),
		ABOUT("Of a tied one: name of what was written instead.") },
	{ "bytes", BYTES_AT(LEFT, bytes),
		ABOUT("Bytes of the tensor; absent of a value.") });

#define EXPORTING struct exporting
const struct record export_record = OBJECT_RECORD(EXPORTING, NULL,
	"Output of the export.",
	{ "written", BOOL_AT(EXPORTING, written),
		ALWAYS("Whether anything was; an incomplete checkpoint is not exported.") },
	{ "tensors",
		EACH_ITEM(EXPORTING, tensor_count, each_tensor, tensor_written_record),
		ALWAYS("Tensors that were written, in the order of the model.") },
	{ "files", EACH_OF(EXPORTING, file_count, each_file, file_record),
		ALWAYS("Files that were written; an index is the last one.") },
	{ "left_out", EACH_OF(EXPORTING, left_count, each_left, left_record),
		ALWAYS("Tensors that were not written.") },
	{ "bytes", BYTES_AT(EXPORTING, facts.tensor_bytes),
		ALWAYS("Bytes of all tensors that were written.") },
	{ "stripped", TEXT_AT(EXPORTING, facts.stripped),
		ABOUT("Segments that were removed from the front of names.") },
	{ "overflowed", COUNT_AT(EXPORTING, facts.overflowed),
		ALWAYS("Finite numbers that a cast made infinite.") },
	{ "copied", COUNT_AT(EXPORTING, copied),
		ALWAYS("Tensors that several ranks store: the first copy was written, and copies were not compared. `audit --data` compares them.") },
	{ "verified", BOOL_AT(EXPORTING, facts.verified),
		ALWAYS("Whether every byte was read back and compared with what was read from the checkpoint.") },
	{ "digest", TEXT_AT(EXPORTING, digest),
		ABOUT("SHA-256 of the list of `tensors`, one line per tensor (`SHA256 DTYPE SHAPE NAME`): equals `hash --logical` of the output, if its names were not changed. Absent with `--no-verify`, and on standard output.") });

/* Tied tensors that share data are printed elsewhere. */
static void print_skipped(struct exporting *exporting)
{
	static const char *const reasons[] = {
		[FSDP_EXPORT_ROLE] = "tensors that are not parameters or buffers",
		[FSDP_EXPORT_SELECTED] = "not selected",
		[FSDP_EXPORT_UNSUPPORTED] = "that the format cannot store",
		[FSDP_EXPORT_INCOMPLETE] = "incomplete",
		[FSDP_EXPORT_UNMAPPED] = "not in the map",
	};
	static const enum fsdp_skip_reason order[] = { FSDP_EXPORT_ROLE,
		FSDP_EXPORT_SELECTED, FSDP_EXPORT_UNSUPPORTED, FSDP_EXPORT_INCOMPLETE,
		FSDP_EXPORT_UNMAPPED };
	const struct fsdp_export_facts *facts = &exporting->facts;
	struct out *out = exporting->run->out;
	size_t values = fsdp_value_count(exporting->run->checkpoint);
	const char *before = "";

	if (facts->left_count == facts->left_tensors[FSDP_EXPORT_TIED] && values == 0)
		return;
	out_line_begin(out, "skipped");
	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		char size[HUMAN_ROOM];

		if (facts->left_tensors[order[i]] == 0)
			continue;
		out_line_text(out, "%s%" PRIu64 " %s (%s)", before,
			facts->left_tensors[order[i]],
			order[i] == FSDP_EXPORT_ROLE && facts->left_tensors[order[i]] == 1
				? "tensor that is not a parameter or buffer"
				: reasons[order[i]],
			out_bytes(out, facts->left_bytes[order[i]], size));
		before = ", ";
	}
	out_values(out, "[{}{} value{s}]", value_word(before), value_some(values));
	out_line_end(out);
}

static void print_repeated(struct exporting *exporting)
{
	if (exporting->repeated_count > 0)
		out_values_line(exporting->run->out, "repeated",
			"{} tensor{s} stored in two files with equal bytes; written once",
			value_count(exporting->repeated_count));
}

/* One line per tie, at most a few. */
static void print_ties(struct exporting *exporting)
{
	enum { SHOWN = 3 };
	struct run *run = exporting->run;
	uint64_t count = exporting->facts.left_tensors[FSDP_EXPORT_TIED], printed = 0;

	for (size_t i = 0; i < exporting->facts.left_count && printed < SHOWN; i++) {
		struct fsdp_export_skipped left = fsdp_export_skipped(exporting->plan, i);

		if (left.why != FSDP_EXPORT_TIED)
			continue;
		out_values_line(run->out, printed++ == 0 ? "tied" : "",
			"{} is tied to {}; stored once",
			value_name(exported_name(exporting, left.source)),
			value_span(
				fsdp_export_tensor(exporting->plan, left.same_as).name));
	}
	if (count > printed)
		out_line(run->out, "", "and %" PRIu64 " more", count - printed);
}

/* Wrappers add these prefixes, and loaders refuse them; but a model may have a module of
 * this name among others. */
static void print_wrapped(struct exporting *exporting)
{
	static const struct {
		const char *prefix, *what;
		bool alone;
	} wrappers[] = { { "_orig_mod.", "compiled", false },
		{ "module.", "wrapped with DistributedDataParallel", true } };

	for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
		const char *prefix = wrappers[i].prefix;
		size_t size = strlen(prefix), count = 0;

		for (size_t k = 0; k < exporting->tensor_count; k++) {
			struct fsdp_span name =
				fsdp_export_tensor(exporting->plan, k).name;

			count += name.size > size && memcmp(name.data, prefix, size) == 0;
		}
		if (count == 0 || (wrappers[i].alone && count < exporting->tensor_count))
			continue;
		out_line(exporting->run->out, "names",
			"%s is the prefix of %zu name%s; a model that is not %s does not load %s: --strip=%.*s removes it",
			prefix, count, count == 1 ? "" : "s", wrappers[i].what,
			count == 1 ? "it" : "them", (int)size - 1, prefix);
	}
}

/* An option without effect is mostly a mistake. */
static void note_idle(struct exporting *exporting)
{
	const struct export_options *options = exporting->options;
	bool strips = strcmp(options->strip, "auto") != 0 &&
		      strcmp(options->strip, "none") != 0;

	if (strips && exporting->facts.stripped.size == 0 &&
		exporting->facts.cleaned == 0)
		run_note(exporting->run, "--strip=%s: no name has this prefix",
			options->strip);
	note_idle_renames(
		exporting->run, &options->renames, exporting->facts.idle_renames);
}

static void print_companions(struct exporting *exporting)
{
	struct out *out = exporting->run->out;
	uint32_t copied = exporting->facts.companions;
	bool adapter = exporting->options->adapter || is_adapter(exporting->run);
	bool some = false, has_adapter_config = false;
	const char *name;

	if (copied == 0 && exporting->config == NULL)
		return;
	if (copied != 0)
		out_line_begin(out, "copied");
	for (size_t i = 0; (name = fsdp_export_companion_name(i)) != NULL; i++) {
		if ((copied >> i & 1) == 0)
			continue;
		out_line_text(out, "%s%s", some ? ", " : "", name);
		some = true;
		has_adapter_config |= strcmp(name, "adapter_config.json") == 0;
	}
	if (some)
		out_line_end(out);
	if (adapter && !has_adapter_config)
		out_line(out, "missing",
			"adapter_config.json (add one with --with-config=DIR; PEFT takes r, lora_alpha and target_modules from it)");
	else if (!some)
		out_line(out, "missing", "config.json (add one with --with-config=DIR)");
}

static void print_refused(struct exporting *exporting)
{
	bool partial = exporting->options->partial, is_damaged = exporting->damaged;
	struct run *run = exporting->run;
	const char *what = is_damaged && exporting->to_stdout
				   ? "delete the output: it is incomplete"
			   : !is_damaged && partial && !exporting->unmatched &&
					   exporting->torn != NULL
				   ? "nothing was written: no tensor is complete"
				   : "nothing was written";

	if (exporting->to_stdout) {
		run_note(run, "%s", what);
		return;
	}
	out_line(run->out, NULL, "%s", what);
	if (!is_damaged && (exporting->unmatched ||
				   (run->word_count > 0 && exporting->torn == NULL)))
		return;
	if (!is_damaged && exporting->refused && !partial)
		out_line(run->out, "next",
			"--partial exports the tensors that have all pieces");
	/* The source was found bad only while it was read. */
	out_line_begin(run->out, "next");
	out_line_text(run->out, "fsdp-inspect audit %s", is_damaged ? "--data " : "");
	out_line_shell(run->out, text_of(run->path));
	out_line_end(run->out);
}

/* Whether an audit of the output can be compared with the checkpoint: all tensors, with
 * their names and their bytes. */
static bool is_comparable(const struct exporting *exporting)
{
	const struct export_options *options = exporting->options;
	const struct run *run = exporting->run;
	const uint64_t *left = exporting->facts.left_tensors;

	return left[FSDP_EXPORT_UNSUPPORTED] == 0 && left[FSDP_EXPORT_INCOMPLETE] == 0 &&
	       exporting->repeated_count == 0 && exporting->file == NULL &&
	       exporting->named == NULL && selection_is_all(exporting->selection) &&
	       options->cast == NULL && options->map == NULL &&
	       options->renames.count == 0 && options->prefix == NULL &&
	       !options->adapter && !options->base && strcmp(run->path, "-") != 0 &&
	       run->path_count == 1;
}

/* What this export repaired is not printed as a finding of the input. */
static void omit_repaired(const struct exporting *exporting)
{
	const struct collected *collected = exporting->run->collected;
	const char *strip = exporting->options->strip;

	FOR_EACH(i, collected->finding_count, finding, &collected->findings[i]) {
		finding->is_printed |=
			exporting->options->index_only
				? is_exported_index(finding->file.data)
				: (finding->severity == SEVERITY_NOTE &&
					  strcmp(finding->rule, "FI1061") == 0) ||
					  (strip != NULL &&
						  strcmp(finding->rule, "FI4002") == 0 &&
						  memmem(finding->message.data,
							  finding->message.size, strip,
							  strlen(strip)) != NULL);
	}
}

void print_export(struct exporting *exporting)
{
	struct out *out = exporting->run->out;
	char size[HUMAN_ROOM];

	if (exporting->damaged || !exporting->written) {
		print_refused(exporting);
		return;
	}
	omit_repaired(exporting);
	size_t count = exporting->facts.file_count;
	if (exporting->options->index_only) {
		out_values_line(out, NULL, "{}: {} tensor{s} in {} file{s}",
			value_span(fsdp_export_file(exporting->plan, count - 1).name),
			value_count(exporting->facts.tensor_count),
			value_count(count - 1));
		return;
	}
	note_idle(exporting);
	if (exporting->to_stdout) {
		/* Standard output holds the tensors then. */
		char bytes[HUMAN_ROOM];
		run_note(exporting->run,
			"%zu tensor%s, %s written to standard output, not verified",
			exporting->facts.tensor_count,
			exporting->facts.tensor_count == 1 ? "" : "s",
			out_bytes(exporting->run->out, exporting->facts.tensor_bytes,
				bytes));
		if (exporting->copied > 0)
			run_note(exporting->run,
				"%" PRIu64
				" tensor%s replicated; exported the first copy",
				exporting->copied,
				exporting->copied == 1 ? " is" : "s are");
		return;
	}
	out_values_line(out, NULL, "{}: {} tensor{s}, {}[ in {} files and an index]",
		value_word(exporting->options->out),
		value_count(exporting->facts.tensor_count),
		value_word(out_bytes(out, exporting->facts.tensor_bytes, size)),
		value_count(
			exporting->file == NULL && count != 1 ? count - 1 : UINT64_MAX));
	print_skipped(exporting);
	const struct fsdp_export_facts *facts = &exporting->facts;
	bool strips = facts->stripped.size > 0;
	if (facts->cleaned != 0 || strips)
		out_values_line(exporting->run->out, "names",
			"[removed prefix \"{}.\"][{}{} without wrapper segments]",
			strips ? value_span(facts->stripped) : value_absent(),
			value_word(strips ? "; " : ""), value_some(facts->cleaned));
	print_wrapped(exporting);
	print_ties(exporting);
	print_repeated(exporting);
	print_companions(exporting);
	if (exporting->options->cast != NULL)
		out_values_line(out, "cast", "to {}; {} finite number{s} became infinite",
			value_word(exporting->options->cast),
			value_count(exporting->facts.overflowed));
	if (exporting->facts.as_unsigned)
		out_line(out, "dtype",
			"NumPy has no %s: unsigned integers of its width were written",
			dtype_name(fsdp_export_tensor(exporting->plan, 0).dtype));
	if (exporting->copied > 0) {
		out_line_begin(out, "replicas");
		out_line_text(out,
			"%" PRIu64
			" tensors are replicated; exported the first copy; compare: fsdp-inspect audit --data ",
			exporting->copied);
		out_line_shell(out, text_of(exporting->run->path));
		out_line_end(out);
	}
	out_line(out, "verified", "%s",
		!exporting->facts.verified ? "no: output was not read back"
		: exporting->options->cast != NULL
			? "output read back, equal to the cast tensors"
			: "output read back, no differences");
	if (is_comparable(exporting)) {
		out_line_begin(out, "next");
		out_line_text(out, "fsdp-inspect audit --merged=");
		out_line_shell(out, text_of(exporting->options->out));
		out_line_text(out, " ");
		out_line_shell(out, text_of(exporting->run->path));
		out_line_end(out);
	}
}
