/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the results of all parts of a run, and answers as one run would have.
 */
#include <search.h>
#include <string.h>

#include "shared/part-result.h"

/* A finding, an error, or a count of omitted findings. */
struct part_line {
	struct fsdp_document_value value;
	size_t part;
};

static int compare_lines(const void *left, const void *right)
{
	static const char *const keys[] = { "code", "rule", "fingerprint", "message",
		"path", "file" };
	const struct part_line *a = left, *b = right;
	int64_t c = part_integer(a->value, "count"), d = part_integer(b->value, "count");
	int order = (c > d) - (c < d);

	for (size_t i = 0; order == 0 && i < sizeof keys / sizeof *keys; i++)
		order = strcmp(
			part_word(a->value, keys[i]), part_word(b->value, keys[i]));
	return order;
}

static void forget(void *line)
{
	(void)line;
}

static void release_tree(void *tree)
{
	tdestroy(*(void **)tree, forget);
}

/* A finding of an earlier part is reported once. */
static void join_lines(struct run *run, const struct joined_parts *joined)
{
	void **tree = run_memory(run, 1, sizeof *tree);

	run_owns(run, tree, release_tree);
	FOR_EACH(i, joined->parts, result, &joined->results[i]) {
		struct fsdp_document_value omitted =
			fsdp_document_get(result->end, "omitted");
		size_t end = result->lines.count - 1 + omitted.count;

		for (size_t k = 1 + result->counts[LINE_ITEM]; k < end; k++) {
			size_t beyond = k - (result->lines.count - 1);
			struct part_line *line = memory_new(1, sizeof *line);
			struct part_line *const *found;

			line->part = i;
			line->value = fsdp_document_item(
				beyond < omitted.count ? omitted : result->lines,
				beyond < omitted.count ? beyond : k);
			found = tsearch(line, tree, compare_lines);
			if (found == NULL)
				memory_fail();
			if (*found == line || (*found)->part == i)
				part_result_report(run->collected, line->value);
		}
	}
}

static bool has_note(const struct part_result *result, struct fsdp_span note)
{
	struct fsdp_document_value notes = fsdp_document_get(result->end, "notes");

	for (size_t i = 0; i < notes.count; i++)
		if (text_is(text_of_span(fsdp_document_item(notes, i).text),
			    text_of_span(note)))
			return true;
	return false;
}

static void run_merge(struct run *run)
{
	struct joined_parts joined = { .parts = run->path_count };
	struct fsdp_document_value notes;

	parts_open(&joined, run);
	const struct command *command = joined.results->command;
	const char *unfit = run_answer_as(run, command);
	if (unfit != NULL)
		run_refuse(run, "fsdp-inspect help outputs", "%s has no output %s",
			command->name, unfit);
	join_lines(run, &joined);
	/* What a part notes about itself, the others do not. */
	notes = fsdp_document_get(joined.results[0].end, "notes");
	FOR_EACH(i, notes.count, note, fsdp_document_item(notes, i).text) {
		size_t parts = 0;

		while (parts < joined.parts && has_note(&joined.results[parts], note))
			parts++;
		if (parts == joined.parts)
			run_note(run, "%.*s", (int)note.size, (const char *)note.data);
	}
	if (run->collected->failure_count > 0)
		run->status = STATUS_PARTIAL;
	command->join(run, &joined);
}

const struct command command_merge = {
	.name = "merge",
	.group = GROUP_BYTES,
	.summary = "merge the results of a run split with --part",
	.synopsis = "[--columns=LIST] RESULT.jsonl...",
	.examples = { "merge part-*.jsonl", "merge --json part-*.jsonl" },
	.exit_1 = "as for the command that wrote the parts",
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_FINDINGS | SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_FILE,
	.shows_plan = true,
	.perform = run_merge,
};
