/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the results of all parts of a run, and answers as one run would have.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fsdp/document.h>
#include <fsdp/finding.h>

#include "cmd/merge/merge.h"
#include "front/slip.h"
#include "part/partial.h"
#include "run/answer.h"
#include "run/collected.h"

/* A result of one part. */
struct part_result {
	const char *path;
	struct fsdp_document *document;
	struct fsdp_document_value lines, header, data; /* data: of the last line */
	struct part_facts partial;
};

struct merge_work {
	struct run *run;
	struct part_result *results;
	size_t count;
	const struct command *command;
	struct joined_parts joined;
};

/* ---- one result ---- */

static bool is_type(struct fsdp_document_value line, const char *type)
{
	return text_is(text_of_span(joined_text(line, "type")), text_of(type));
}

static const char *spoilt(
	const struct part_result *result, struct fsdp_document_value last)
{
	struct fsdp_document_value status = fsdp_document_get(last, "status");

	if (result->lines.count < 2 || !is_type(result->header, "header"))
		return "this is not a result in JSON Lines";
	if (!is_type(last, "end"))
		return "the result is cut off: run this part again";
	if (status.kind != FSDP_DOCUMENT_INTEGER || status.integer == STATUS_FAILED ||
		fsdp_document_get(last, "interrupted").integer != 0)
		return "this part failed: run it again";
	if (fsdp_document_get(result->data, "partial").kind != FSDP_DOCUMENT_OBJECT)
		return "this is the result of no part (--part)";
	return NULL;
}

static void copy_text(char *to, size_t size, struct fsdp_span text)
{
	size_t length = text.size < size - 1 ? text.size : size - 1;

	if (length != 0)
		memcpy(to, text.data, length);
	to[length] = '\0';
}

static void read_partial(struct part_result *result)
{
	struct fsdp_document_value from = fsdp_document_get(result->data, "partial");
	struct part_facts *partial = &result->partial;

	partial->part = joined_count(from, "part");
	partial->parts = joined_count(from, "parts");
	copy_text(partial->of, sizeof partial->of, joined_text(from, "of"));
	copy_text(partial->files, sizeof partial->files, joined_text(from, "files"));
	copy_text(
		partial->request, sizeof partial->request, joined_text(from, "request"));
	partial->selects = fsdp_document_get(from, "selects").integer != 0;
	partial->errors_before = joined_count(from, "errors_before");
}

/* Whether it is the result of --json, which is one document over many lines. */
static bool is_document(const struct merge_work *merging, const char *path)
{
	struct fsdp_document *document = NULL;
	struct fsdp_error *error = NULL;
	bool found = fsdp_document_open(path, merging->run->limits,
			     merging->run->limit_count, &document, &error) &&
		     fsdp_document_get(fsdp_document_root(document), "schema").kind ==
			     FSDP_DOCUMENT_TEXT;

	fsdp_error_free(error);
	fsdp_document_free(document);
	return found;
}

/* Who merges a checkpoint wants one of its shards. */
static bool refuse_checkpoint(struct run *run, const char *path)
{
	struct usage usage;

	slip_export(&usage, run->arguments, &run->arguments->words, false);
	return refuse(run, usage.hint,
		"%s: merge joins results of --part, not the shards of a checkpoint",
		path);
}

/* Whether a file cannot be a result, since it does not begin as one does. */
static bool is_no_json(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char first = '{';
	/* Of a pipe nothing is taken. */
	ssize_t got = fd >= 0 ? pread(fd, &first, 1, 0) : -1;

	if (fd >= 0)
		close(fd);
	return got == 1 && first != '{';
}

/* False: *ret_error, or refuse() was called and *ret_wrong is set. */
static bool open_result(struct merge_work *merging, struct part_result *result,
	bool *ret_wrong, struct fsdp_error **ret_error)
{
	struct run *run = merging->run;
	struct fsdp_document_value last;
	const char *wrong;

	if (strcmp(result->path, "-") != 0 && is_no_json(result->path)) {
		*ret_wrong = true;
		return refuse_checkpoint(run, result->path);
	}
	if (!fsdp_document_open_lines(result->path, run->limits, run->limit_count,
		    &result->document, ret_error)) {
		if (!is_document(merging, result->path))
			return false;
		fsdp_error_free(*ret_error);
		*ret_error = NULL;
		*ret_wrong = true;
		return refuse(run, "write each part with -o jsonl=part-%p.jsonl",
			"%s: this is one JSON document, and merge reads JSON Lines",
			result->path);
	}
	result->lines = fsdp_document_root(result->document);
	result->header = fsdp_document_item(result->lines, 0);
	last = fsdp_document_item(
		result->lines, result->lines.count > 0 ? result->lines.count - 1 : 0);
	result->data = fsdp_document_get(last, "data");
	wrong = spoilt(result, last);
	if (wrong != NULL) {
		*ret_wrong = true;
		return refuse(
			run, "fsdp-inspect help merge", "%s: %s", result->path, wrong);
	}
	read_partial(result);
	return true;
}

/* ---- all results ---- */

/* NULL: they are all parts of one run. */
static const char *disagreement(
	const struct part_result *first, const struct part_result *other)
{
	if (strcmp(first->partial.of, other->partial.of) != 0 ||
		strcmp(first->partial.request, other->partial.request) != 0)
		return "is a part of another run: of another checkpoint, command or request";
	if (first->partial.parts != other->partial.parts)
		return "is one of another number of parts";
	return NULL;
}

static int compare_parts(const void *left, const void *right)
{
	const struct part_result *a = left, *b = right;

	return a->partial.part < b->partial.part ? -1 : a->partial.part > b->partial.part;
}

static bool check_parts(struct merge_work *merging, bool *ret_wrong)
{
	struct run *run = merging->run;
	const struct part_result *first = &merging->results[0];
	uint64_t parts = first->partial.parts;

	*ret_wrong = true;
	for (size_t i = 0; i < merging->count; i++) {
		const struct part_result *result = &merging->results[i];
		const char *why = disagreement(first, result);
		if (why == NULL &&
			(result->partial.part < 1 || result->partial.part > parts))
			why = "has a part number that is not one of its parts";
		if (why != NULL)
			return refuse(run, "give the results of one run", "%s %s",
				result->path, why);
		for (size_t k = 0; k < i; k++)
			if (merging->results[k].partial.part == result->partial.part)
				return refuse(run, "leave one of them out",
					"%s and %s are both part %" PRIu64,
					merging->results[k].path, result->path,
					result->partial.part);
	}
	for (uint64_t part = 1; part <= parts; part++) {
		size_t i = 0;
		while (i < merging->count && merging->results[i].partial.part != part)
			i++;
		if (i == merging->count)
			return refuse(run, "run it, or give its result too",
				"part %" PRIu64 " of %" PRIu64 " is missing", part,
				parts);
	}
	*ret_wrong = false;
	qsort(merging->results, merging->count, sizeof *merging->results, compare_parts);
	return true;
}

static bool find_command(struct merge_work *merging, bool *ret_wrong)
{
	static const char prefix[] = "fsdp-inspect.";
	struct fsdp_span schema = joined_text(merging->results[0].header, "schema");
	const char *name = (const char *)schema.data;

	if (schema.size > sizeof prefix - 1 &&
		memcmp(name, prefix, sizeof prefix - 1) == 0)
		merging->command =
			command_find(merging->run->commands, name + sizeof prefix - 1);
	if (merging->command != NULL && merging->command->join != NULL)
		return true;
	*ret_wrong = true;
	return refuse(merging->run, "fsdp-inspect help merge",
		"%s: results of this command cannot be joined", merging->results[0].path);
}

/* ---- rows ---- */

static int compare_rows(const void *left, const void *right)
{
	uint64_t a = joined_count(*(const struct fsdp_document_value *)left, "number");
	uint64_t b = joined_count(*(const struct fsdp_document_value *)right, "number");

	return a < b ? -1 : a > b;
}

static size_t count_rows(
	const struct merge_work *merging, struct fsdp_document_value *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < merging->count; i++) {
		struct fsdp_document_value lines = merging->results[i].lines;
		for (size_t k = 0; k < lines.count; k++) {
			struct fsdp_document_value line = fsdp_document_item(lines, k);
			if (!is_type(line, "item"))
				continue;
			if (rows != NULL)
				rows[count] = line;
			count++;
		}
	}
	return count;
}

/* False: out of memory. */
static bool take_rows(struct merge_work *merging, bool *ret_wrong)
{
	struct joined_parts *joined = &merging->joined;

	joined->count = count_rows(merging, NULL);
	joined->rows = calloc(joined->count + 1, sizeof *joined->rows);
	joined->data = calloc(merging->count + 1, sizeof *joined->data);
	if (joined->rows == NULL || joined->data == NULL)
		return false;
	for (size_t i = 0; i < merging->count; i++)
		joined->data[i] = merging->results[i].data;
	count_rows(merging, joined->rows);
	qsort(joined->rows, joined->count, sizeof *joined->rows, compare_rows);
	for (size_t i = 0; i < joined->count; i++)
		if (joined_count(joined->rows[i], "number") != i) {
			*ret_wrong = true;
			return refuse(merging->run, "run the parts again",
				"row %zu is in no part, or in two", i);
		}
	return true;
}

/* ---- what stands beside ---- */

/* A word that outlives the documents. */
static const char *kept(
	struct collected *collected, struct fsdp_document_value from, const char *key)
{
	return collected_text(collected, (const char *)joined_text(from, key).data).data;
}

static struct text kept_text(
	struct collected *collected, struct fsdp_document_value from, const char *key)
{
	return collected_text(collected, (const char *)joined_text(from, key).data);
}

static uint64_t kept_count(struct fsdp_document_value from, const char *key)
{
	return fsdp_document_get(from, key).kind == FSDP_DOCUMENT_INTEGER
		       ? joined_count(from, key)
		       : UINT64_MAX;
}

static void take_inputs(struct merge_work *merging)
{
	struct collected *collected = merging->run->collected;
	struct fsdp_document_value inputs =
		fsdp_document_get(merging->results[0].header, "inputs");

	collected->input_count = 0;
	for (size_t i = 0; i < inputs.count; i++) {
		struct fsdp_document_value from = fsdp_document_item(inputs, i);
		const char *path = kept(collected, from, "path");
		const char *kind = kept(collected, from, "kind");
		uint32_t id;

		if (path == NULL || kind == NULL)
			continue;
		id = collected_input(collected, path, kind);
		if (id == UINT32_MAX)
			return;
		collected->inputs[id].base = kept_text(collected, from, "base");
		collected->inputs[id].format = kept(collected, from, "format");
		collected->inputs[id].found =
			fsdp_document_get(from, "found").integer != 0;
		if (fsdp_document_get(from, "status").kind == FSDP_DOCUMENT_INTEGER)
			collected->inputs[id].status = STATUS_GOOD;
		if (i == 0)
			merging->run->path = path;
	}
}

static enum severity severity_of(struct fsdp_document_value from)
{
	struct text word = text_of_span(joined_text(from, "severity"));

	return text_is(word, text_of("error"))     ? SEVERITY_ERROR
	       : text_is(word, text_of("warning")) ? SEVERITY_WARNING
						   : SEVERITY_NOTE;
}

static void take_finding(struct collected *collected, struct fsdp_document_value from)
{
	struct fsdp_document_value affected = fsdp_document_get(from, "affected");
	struct text *names = calloc(affected.count + 1, sizeof *names);
	struct finding finding = {
		.rule = kept(collected, from, "rule"),
		.slug = kept(collected, from, "slug"),
		.severity = severity_of(from),
		.input = (uint32_t)joined_count(from, "input"),
		.file = kept_text(collected, from, "file"),
		.member = kept_text(collected, from, "member"),
		.tensor = kept_text(collected, from, "tensor"),
		.module = kept_text(collected, from, "module"),
		.offset = kept_count(from, "offset"),
		.length = kept_count(from, "length"),
		.rank = (uint32_t)kept_count(from, "rank"),
		.affected = names,
		.affected_kept = affected.count,
		.affected_count = kept_count(from, "affected_count"),
		.lost_bytes = kept_count(from, "lost_bytes"),
		.message = kept_text(collected, from, "message"),
		.next = kept_text(collected, from, "next"),
	};

	if (names == NULL) {
		collected->out_of_memory = true;
		return;
	}
	owned_take(&collected->owned, (char *)names);
	for (size_t i = 0; i < affected.count; i++)
		names[i] = collected_text(collected,
			(const char *)fsdp_document_item(affected, i).text.data);
	if (finding.rule != NULL && finding.slug != NULL)
		collected_finding(collected, &finding);
}

static void take_omission(struct collected *collected, struct fsdp_document_value from)
{
	const char *id = (const char *)joined_text(from, "rule").data;
	const struct fsdp_omitted omitted = {
		.rule = id != NULL ? fsdp_rule_find(id) : NULL,
		.file = joined_text(from, "file"),
		.count = joined_count(from, "count"),
	};

	if (omitted.rule != NULL)
		collected_omitted(collected, &omitted, 0, true);
}

/* Lines of one kind of a result, the first `most` of them; NULL: out of memory. */
static struct fsdp_document_value *list_lines(const struct part_result *result,
	const char *type, uint64_t most, size_t *ret_count)
{
	struct fsdp_document_value *list = calloc(result->lines.count + 1, sizeof *list);

	*ret_count = 0;
	for (size_t i = 0; list != NULL && i < result->lines.count; i++) {
		struct fsdp_document_value line = fsdp_document_item(result->lines, i);
		if (is_type(line, type) && *ret_count < most)
			list[(*ret_count)++] = line;
	}
	return list;
}

/* Findings that were left out: they stand in the last line. */
static struct fsdp_document_value *list_omitted(
	const struct part_result *result, size_t *ret_count)
{
	struct fsdp_document_value omitted = fsdp_document_get(
		fsdp_document_item(result->lines, result->lines.count - 1), "omitted");
	struct fsdp_document_value *list = calloc(omitted.count + 1, sizeof *list);

	*ret_count = 0;
	for (; list != NULL && *ret_count < omitted.count; (*ret_count)++)
		list[*ret_count] = fsdp_document_item(omitted, *ret_count);
	return list;
}

enum beside_kind { BESIDE_FINDINGS, BESIDE_ERRORS, BESIDE_OMITTED };

static struct fsdp_document_value *list_of(
	const struct part_result *result, enum beside_kind what, size_t *ret_count)
{
	switch (what) {
	case BESIDE_FINDINGS:
		return list_lines(result, "finding", UINT64_MAX, ret_count);
	case BESIDE_ERRORS:
		return list_lines(
			result, "error", result->partial.errors_before, ret_count);
	case BESIDE_OMITTED:
		break;
	}
	return list_omitted(result, ret_count);
}

/* What stands in all parts once, and what one of them has alone. False: out of memory. */
static bool take_union(struct merge_work *merging, enum beside_kind what,
	void (*take)(struct collected *, struct fsdp_document_value))
{
	struct line_list *lists = calloc(merging->count + 1, sizeof *lists);
	struct line_list all = { 0 };
	bool good = lists != NULL;

	for (size_t i = 0; good && i < merging->count; i++) {
		lists[i].lines = list_of(&merging->results[i], what, &lists[i].count);
		good = lists[i].lines != NULL;
	}
	good = good && lines_union(lists, merging->count, &all);
	for (size_t i = 0; good && i < all.count; i++)
		take(merging->run->collected, all.lines[i]);
	for (size_t i = 0; lists != NULL && i < merging->count; i++)
		free(lists[i].lines);
	free(lists);
	free(all.lines);
	return good;
}

static bool take_beside(struct merge_work *merging)
{
	take_inputs(merging);
	if (!take_union(merging, BESIDE_OMITTED, take_omission) ||
		!take_union(merging, BESIDE_FINDINGS, take_finding) ||
		!take_union(merging, BESIDE_ERRORS, joined_failure))
		return false;
	if (merging->run->collected->failure_count > 0)
		merging->run->status = STATUS_PARTIAL;
	return true;
}

/* ---- the checkpoint ---- */

struct merge_options {
	const char *checkpoint;
};

/* Opens it, if the results ask for it. False: it is not there, or is another one, and
 * refuse() was called. */
static bool open_checkpoint(
	struct merge_work *merging, struct fsdp_checkpoint **ret_checkpoint)
{
	struct run *run = merging->run;
	const char *path = ((const struct merge_options *)run->options)->checkpoint;
	const char *wanted = merging->joined.partial.files;
	const struct fsdp_options options = { .size = sizeof options,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.look_beside = true };
	struct fsdp_error *error = NULL;
	char files[17];
	bool good;

	if (wanted[0] == '\0' && path != NULL)
		return !refuse(run, "leave it out",
			"--checkpoint is for results of audit --data --values");
	if (wanted[0] == '\0' || strcmp(wanted, "none") == 0)
		return true;
	if (path == NULL)
		return !refuse(run,
			"fsdp-inspect merge --checkpoint=CHECKPOINT RESULT...",
			"tensors of all parts are compared with each other: name the checkpoint, whose headers are read again");
	if (!fsdp_checkpoint_open(&path, 1, &options, ret_checkpoint, &error)) {
		refuse(run, error != NULL ? fsdp_error_hint(error) : NULL, "%s: %s", path,
			error != NULL ? fsdp_error_message(error) : "out of memory");
		fsdp_error_free(error);
		return false;
	}
	good = partial_files(*ret_checkpoint, path, files) && strcmp(files, wanted) == 0;
	if (!good)
		refuse(run, "run the parts again, or name theirs",
			"%s is not the checkpoint of the parts, or it was changed since",
			path);
	return good;
}

/* ---- the command ---- */

/* *ret_wrong: refuse() was called. False: out of memory, or *ret_error. */
static bool read_results(
	struct merge_work *merging, bool *ret_wrong, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < merging->count && !*ret_wrong; i++) {
		merging->results[i].path = merging->run->paths[i];
		if (!open_result(merging, &merging->results[i], ret_wrong, ret_error))
			return false;
	}
	if (!*ret_wrong)
		check_parts(merging, ret_wrong);
	if (!*ret_wrong)
		find_command(merging, ret_wrong);
	return *ret_wrong || take_rows(merging, ret_wrong);
}

static bool answer(struct merge_work *merging, struct fsdp_error **ret_error)
{
	struct run *run = merging->run;
	const char *unfit = run_answer_as(run, merging->command);
	struct fsdp_checkpoint *checkpoint = NULL;
	bool good;

	if (unfit != NULL)
		return refuse(run, "fsdp-inspect help outputs", "%s has no output %s",
			merging->command->name, unfit);
	if (!open_checkpoint(merging, &checkpoint)) {
		fsdp_checkpoint_free(checkpoint);
		return true;
	}
	merging->joined.checkpoint = checkpoint;
	good = take_beside(merging) &&
	       merging->command->join(run, &merging->joined, ret_error);
	fsdp_checkpoint_free(checkpoint);
	return good;
}

static bool run_merge(struct run *run, struct fsdp_error **ret_error)
{
	struct merge_work merging = { .run = run, .count = run->path_count };
	bool wrong = false, good;

	merging.results = calloc(merging.count + 1, sizeof *merging.results);
	if (merging.results == NULL)
		return false;
	good = read_results(&merging, &wrong, ret_error);
	if (good && !wrong) {
		merging.joined.run = run;
		merging.joined.partial = merging.results[0].partial;
		good = answer(&merging, ret_error);
	}
	for (size_t i = 0; i < merging.count; i++)
		fsdp_document_free(merging.results[i].document);
	free(merging.joined.rows);
	free(merging.joined.data);
	free(merging.results);
	return good;
}

static const struct option OPTIONS[] = {
	{ "checkpoint", 0, OPTION_TEXT, "CHECKPOINT",
		offsetof(struct merge_options, checkpoint),
		.help = "of results of audit --data --values: what they are of" },
	{ NULL },
};

const struct command command_merge = {
	.name = "merge",
	.group = GROUP_BYTES,
	.summary = "results of all parts of a run, joined",
	.synopsis = "[--checkpoint=CHECKPOINT] [--columns=LIST] RESULT.jsonl...",
	.examples = { "merge part-*.jsonl", "merge --json part-*.jsonl" },
	.exit_1 = "as the command whose results are joined says",
	.options = OPTIONS,
	.selectors = (const struct option *const[]){ select_columns, NULL },
	.shapes = SHAPE_PAGE | SHAPE_FACTS | SHAPE_ITEMS | SHAPE_FINDINGS | SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_FILE,
	.shows_plan = true,
	.options_size = sizeof(struct merge_options),
	.run = run_merge,
};
