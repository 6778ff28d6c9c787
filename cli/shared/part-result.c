/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results of parts of a run (--part): the digest that identifies parts of one run, and
 * their reader, which uses the records that wrote them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/elements.h>
#include <fsdp/error.h>

#include "shared/part-result.h"
#include "shared/stored-values.h"
#include "render/output-functions.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- What makes the results of parts known to each other ---- */

static void add_text(struct fsdp_digester *digester, const char *text)
{
	fsdp_digester_add(digester, text, strlen(text) + 1);
}

static void add_number(struct fsdp_digester *digester, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, number);
	add_text(digester, text);
}

/* Sizes, and when they were last written. */
static void add_files(struct fsdp_digester *digester,
	const struct fsdp_checkpoint *checkpoint, const char *path)
{
	const char *base = fsdp_checkpoint_base(checkpoint);
	struct stat status;
	char full[4096];

	FOR_EACH(i, fsdp_file_count(checkpoint), file, fsdp_file(checkpoint, i)) {
		fsdp_digester_add(digester, file.path.data, file.path.size);
		add_number(digester, file.size);
		snprintf(full, sizeof full, "%s/%.*s", base != NULL ? base : path,
			(int)file.path.size, (const char *)file.path.data);
		if (stat(full, &status) != 0 && stat(path, &status) != 0)
			continue;
		add_number(digester, (uint64_t)status.st_mtim.tv_sec);
		add_number(digester, (uint64_t)status.st_mtim.tv_nsec);
	}
}

/* The first half of the digest. */
static const char *end_digest(struct fsdp_digester *digester)
{
	unsigned char digest[FSDP_DIGEST_BYTES];
	char hex[HEX_ROOM];

	fsdp_digester_end(digester, digest);
	return memory_copy(hex_text(digest, hex).data, 16);
}

const char *files_state(struct run *run)
{
	struct fsdp_digester *digester = fsdp_digester_new();

	if (digester == NULL)
		memory_fail();
	add_files(digester, run->checkpoint, run->path);
	return end_digest(digester);
}

void partial_init(struct part_facts *partial, struct run *run, const char *request,
	const struct selection *selection, const uint32_t *tensors, size_t count)
{
	const struct common_options *common = run->common;

	*partial = (struct part_facts){ .part = common->part_number,
		.parts = common->part_count };
	if (common->part_count == 0)
		return;
	if (common->part_from != NULL)
		run_note(run, "part %" PRIu32 " of %" PRIu32 " (from %s)",
			common->part_number, common->part_count, common->part_from);
	struct fsdp_digester *digester = fsdp_digester_new();
	if (digester == NULL)
		memory_fail();
	add_text(digester, fsdp_version());
	add_text(digester, run->command->name);
	add_text(digester, request);
	add_number(digester, common->raw);
	add_number(digester, common->part_count);
	add_text(digester, run->path);
	add_number(digester, run->path_count);
	if (run->checkpoint != NULL)
		add_files(digester, run->checkpoint, run->path);
	partial->selects = selection != NULL && !selection_is_all(selection);
	add_number(digester, !partial->selects);
	for (size_t i = 0; i < count; i++)
		add_number(digester, tensors[i]);
	for (size_t i = 0; i < run->select->files.count; i++)
		add_text(digester, run->select->files.items[i]);
	for (size_t i = 0; i < run->limit_count; i++) {
		add_text(digester, run->limits[i].name);
		add_number(digester, run->limits[i].value);
	}
	partial->of = end_digest(digester);
	partial->request = memory_copy(request, strcspn(request, "\n"));
}

#define PARTIAL struct part_facts
const struct record partial_record = OBJECT_RECORD(PARTIAL, "partial",
	"Of one part of a run (`--part`): what `merge` joins parts by. The rows have a field `number`, their position in the full result.",
	{ "part", COUNT_AT(PARTIAL, part), ALWAYS("Number of the part, from 1.") },
	{ "parts", COUNT_AT(PARTIAL, parts), ALWAYS("Number of parts.") },
	{ "of", WORD_AT(PARTIAL, of),
		ALWAYS("Digest of what parts of one run have in common: version, command, request, path, files with their sizes and times.") },
	{ "request", WORD_AT(PARTIAL, request), ALWAYS("Kind of the rows.") },
	{ "selects", BOOL_AT(PARTIAL, selects),
		ALWAYS("Whether selectors were given.") });

static bool fits_record(
	const struct record *record, struct fsdp_document_value from, size_t others);

static bool is_one_of(const char *const *words, struct text text)
{
	while (*words != NULL && !text_is(text_of(*words), text))
		words++;
	return *words != NULL;
}

/* What fields that results have are in JSON; those of other types no result has. */
static const enum fsdp_document_kind of_types[] = {
	[FIELD_BOOL] = FSDP_DOCUMENT_BOOL,
	[FIELD_COUNT] = FSDP_DOCUMENT_INTEGER,
	[FIELD_BYTES] = FSDP_DOCUMENT_INTEGER,
	[FIELD_ID] = FSDP_DOCUMENT_INTEGER,
	[FIELD_INTEGER] = FSDP_DOCUMENT_INTEGER,
	[FIELD_WORD] = FSDP_DOCUMENT_TEXT,
	[FIELD_TEXT] = FSDP_DOCUMENT_TEXT,
	[FIELD_NAME] = FSDP_DOCUMENT_TEXT,
	[FIELD_SHAPE] = FSDP_DOCUMENT_LIST,
	[FIELD_TEXTS] = FSDP_DOCUMENT_LIST,
	[FIELD_LIST] = FSDP_DOCUMENT_LIST,
	[FIELD_ROWS] = FSDP_DOCUMENT_LIST,
	[FIELD_OBJECT] = FSDP_DOCUMENT_OBJECT,
	[FIELD_ITEMS] = FSDP_DOCUMENT_ABSENT,
};

/* Whether a value, which is there, is what a field holds. */
static bool fits(const struct column *field, struct fsdp_document_value from)
{
	const struct record *each = field->type == FIELD_SHAPE   ? &record_integers
				    : field->type == FIELD_TEXTS ? &record_texts
								 : field->of;
	bool good = of_types[field->type] == from.kind;

	if (field->type == FIELD_ANY)
		return true;
	if (from.kind == FSDP_DOCUMENT_INTEGER)
		good &= from.integer >= 0 &&
			(field->type != FIELD_ID || from.integer < UINT32_MAX);
	if (good && from.kind == FSDP_DOCUMENT_TEXT)
		good = (field->words == NULL ||
			       is_one_of(field->words, text_of_span(from.text))) &&
		       (field->name == NULL || strcmp(field->name, "rule") != 0 ||
			       fsdp_rule_find((const char *)from.text.data) != NULL);
	if (good && field->type == FIELD_OBJECT)
		good = fits_record(each, from, 0);
	for (size_t i = 0; good && from.kind == FSDP_DOCUMENT_LIST && i < from.count; i++)
		good = fits_record(each, fsdp_document_item(from, i), 0);
	return good;
}

/* Adds up the members that are fields of the record. False: one is not as it should be.
 */
static bool count_members(
	const struct record *record, struct fsdp_document_value from, size_t *count)
{
	bool good = true;

	for (size_t i = 0; good && i < record->count; i++) {
		const struct column *field = &record->fields[i];
		struct fsdp_document_value value = fsdp_document_get(from, field->name);

		if (field->type == FIELD_FIELDS)
			good = count_members(field->of, from, count);
		else if (value.kind == FSDP_DOCUMENT_ABSENT)
			good = !field->always || field->type == FIELD_ITEMS;
		else
			good = fits(field, value) && ++*count > 0;
	}
	return good;
}

/* Whether it is such an object: its members, all but `others`, are fields of the record
 * that hold what they should, and none that is always there lacks. */
static bool fits_record(
	const struct record *record, struct fsdp_document_value from, size_t others)
{
	return record->form == RECORD_PLAIN
		       ? fits(&record->fields[0], from)
		       : from.kind == FSDP_DOCUMENT_OBJECT &&
				 count_members(record, from, &others) &&
				 others == from.count;
}

void part_result_read(const struct record *record, struct fsdp_document_value from,
	void *object, bool copies)
{
	FOR_EACH(i, record->count, field, &record->fields[i]) {
		struct fsdp_document_value value = fsdp_document_get(from, field->name);
		void *at = (char *)object + field->at;
		struct text text = text_of_span(value.text);
		unsigned number = 0;

		if (text.data != NULL && copies)
			text = text_new(text.data);
		if (field->type == FIELD_FIELDS)
			part_result_read(field->of, from, at, copies);
		else if (value.kind == FSDP_DOCUMENT_ABSENT || field->by == BY_GET)
			continue;
		else if (field->type == FIELD_OBJECT)
			part_result_read(field->of, value, at, copies);
		else if (field->type == FIELD_BOOL)
			*(bool *)at = value.integer != 0;
		else if (field->type == FIELD_ID)
			*(uint32_t *)at = (uint32_t)value.integer;
		else if (field->type == FIELD_COUNT || field->type == FIELD_BYTES)
			*(uint64_t *)at = (uint64_t)value.integer;
		else if (field->type == FIELD_TEXT || field->type == FIELD_NAME)
			*(struct text *)at = text;
		else if (field->type == FIELD_WORD && field->by == BY_MEMBER)
			*(const char **)at = text.data;
		while (field->by == BY_WORD &&
			!text_is(text_of(field->word(number)), text_of_span(value.text)))
			*(unsigned *)at = ++number;
	}
}

/* ---- lines ---- */

static const struct {
	const char *type, *total; /* the member of the last line that counts them */
	const struct record *record;
} kinds[LINE_KINDS] = {
	[LINE_HEADER] = { "header", NULL, &jsonl_header },
	[LINE_ITEM] = { "item", "items", NULL },
	[LINE_FINDING] = { "finding", "findings", &jsonl_finding },
	[LINE_ERROR] = { "error", "errors", &jsonl_error },
	[LINE_END] = { "end", NULL, &jsonl_end },
};

static bool fits_kind(
	const struct record *answer, struct fsdp_document_value line, size_t kind)
{
	if (kind != LINE_ITEM)
		return fits_record(kinds[kind].record, line, 0);
	for (size_t i = 0; i < answer->count; i++)
		if (answer->fields[i].type == FIELD_ITEMS &&
			text_is(text_of(answer->fields[i].name), part_text(line, "of")))
			return fits_record(answer->fields[i].of, line, 2);
	return false;
}

static bool check_lines(struct part_result *result)
{
	size_t kind = LINE_HEADER;

	for (size_t i = 0; i < result->lines.count; i++) {
		result->end = fsdp_document_item(result->lines, i);
		while (kind < LINE_KINDS && !text_is(text_of(kinds[kind].type),
						    part_text(result->end, "type")))
			kind++;
		if (kind == LINE_KINDS || (kind == LINE_HEADER) != (i == 0) ||
			!fits_kind(result->command->answer, result->end, kind))
			return false;
		result->counts[kind]++;
	}
	for (kind = 0; kind < LINE_KINDS; kind++)
		if (kinds[kind].total != NULL &&
			(uint64_t)part_integer(result->end, kinds[kind].total) !=
				result->counts[kind])
			return false;
	return result->counts[LINE_END] == 1;
}

/* Whether the last line is that of a part whose work was done. */
static bool check_end(struct part_result *result, uint64_t sum)
{
	char digits[17];

	snprintf(digits, sizeof digits, "%016" PRIx64, sum);
	result->data = fsdp_document_get(result->end, "data");
	struct fsdp_document_value partial = fsdp_document_get(result->data, "partial");
	result->status = (int)part_integer(result->end, "status");
	if (!text_is(part_text(result->end, "checksum"), text_of(digits)) ||
		!fits_record(result->command->answer, result->data, 0) ||
		partial.kind != FSDP_DOCUMENT_OBJECT ||
		part_integer(result->end, "interrupted") != 0 ||
		(result->status != STATUS_GOOD && result->status != STATUS_BAD &&
			result->status != STATUS_PARTIAL))
		return false;
	part_result_read(&partial_record, partial, &result->facts, NULL);
	return result->facts.part - 1 < result->facts.parts;
}

/* Whether it is the complete result of a part. */
static bool open_result(struct part_result *result, struct run *run)
{
	uint64_t sum;

	if (!fsdp_document_open_lines(result->path, run->limits, run->limit_count,
		    &result->document, &sum, &run->error)) {
		if (run->error == NULL ||
			fsdp_error_code(run->error) != FSDP_ERROR_DAMAGED)
			run_fail(run, run->error);
		fsdp_error_free(run->error);
		run->error = NULL;
		return false;
	}
	run_owns(run, result->document, release_document);
	result->lines = fsdp_document_root(result->document);
	struct fsdp_document_value header = fsdp_document_item(result->lines, 0);
	/* NULL: its results are not joined. */
	static const char family[] = "fsdp-inspect.";
	struct text schema = part_text(header, "schema");
	const struct command *command = NULL;
	if (schema.size >= sizeof family &&
		memcmp(schema.data, family, sizeof family - 1) == 0)
		command = command_find(run->commands, schema.data + sizeof family - 1);
	result->command = command != NULL && command->join != NULL ? command : NULL;
	return result->command != NULL && check_lines(result) && check_end(result, sum) &&
	       fsdp_document_get(header, "inputs").count > 0;
}

/* ---- all results ---- */

static int compare_parts(const void *left, const void *right)
{
	const struct part_result *a = left, *b = right;

	return (a->facts.part > b->facts.part) - (a->facts.part < b->facts.part);
}

/* They are to be the parts of one run, each once. */
static void check_parts(struct joined_parts *joined, struct run *run)
{
	const struct part_result *results = joined->results;
	size_t i = 0;

	qsort(joined->results, joined->parts, sizeof *results, compare_parts);
	for (; i < joined->parts; i++) {
		const struct part_facts *first = &results->facts;
		const struct part_facts *facts = &results[i].facts;

		if (results[i].command != results->command ||
			facts->parts != first->parts ||
			strcmp(facts->of, first->of) != 0 ||
			strcmp(facts->request, first->request) != 0)
			run_refuse(run, "use the results of one run",
				"%s and %s are not of one run: checkpoint, command, options or number of parts differ",
				results->path, results[i].path);
		if (facts->part <= i)
			run_refuse(run, "omit one of them",
				"%s and %s are both part %" PRIu64, results[i - 1].path,
				results[i].path, facts->part);
		if (facts->part != i + 1)
			break;
	}
	if (i < results->facts.parts)
		run_refuse(run, "run it, or give its result too",
			"part %zu of %" PRIu64 " is missing", i + 1,
			results->facts.parts);
}

/* Puts all rows in the order of their numbers; each number must occur once. */
static void order_rows(struct joined_parts *joined, struct run *run)
{
	for (size_t i = 0; i < joined->parts; i++)
		joined->count += joined->results[i].counts[LINE_ITEM];
	joined->rows = run_memory(run, joined->count, sizeof *joined->rows);
	FOR_EACH(i, joined->parts, result, &joined->results[i]) {
		joined->status = status_worse(joined->status, result->status);
		for (size_t k = 1; k <= result->counts[LINE_ITEM]; k++) {
			struct fsdp_document_value row =
				fsdp_document_item(result->lines, k);
			struct fsdp_document_value number =
				fsdp_document_get(row, "number");

			if (number.kind != FSDP_DOCUMENT_INTEGER ||
				(uint64_t)number.integer >= joined->count ||
				joined->rows[number.integer].count != 0)
				run_refuse(run, "run the parts again",
					"%s: not a complete result of a part: rows are missing, or in two parts",
					result->path);
			joined->rows[number.integer] = row;
		}
	}
}

void parts_open(struct joined_parts *joined, struct run *run)
{
	joined->results = run_memory(run, joined->parts, sizeof *joined->results);
	FOR_EACH(i, joined->parts, result, &joined->results[i]) {
		result->path = run->paths[i];
		if (!open_result(result, run))
			run_refuse(run,
				"hash or audit --data, with --part=K/N -o jsonl=FILE, writes one",
				"%s: not a complete result of a part", result->path);
	}
	check_parts(joined, run);
	order_rows(joined, run);
	struct fsdp_document_value inputs = fsdp_document_get(
		fsdp_document_item(joined->results->lines, 0), "inputs");
	struct collected *collected = run->collected;

	collected->input_count = 0;
	FOR_EACH(i, inputs.count, from, fsdp_document_item(inputs, i)) {
		uint32_t id = collected_input(collected, "", "");

		part_result_read(&input_object, from, &collected->inputs[id], collected);
		collected->inputs[id].id = id;
		if (fsdp_document_get(from, "status").kind != FSDP_DOCUMENT_ABSENT)
			collected->inputs[id].status = STATUS_GOOD;
	}
	run->path = collected->inputs[0].path.data;
}

/* ---- other parts of the document ---- */

void part_result_report(struct collected *collected, struct fsdp_document_value line)
{
	struct fsdp_document_value from = fsdp_document_get(line, "affected");
	struct fsdp_omitted omitted = { .rule = NULL };

	if (fsdp_document_get(line, "code").kind == FSDP_DOCUMENT_TEXT) {
		struct failure *failure = collected_failure(collected, "");
		part_result_read(&failure_record, line, failure, true);
	} else if (fsdp_document_get(line, "fingerprint").kind == FSDP_DOCUMENT_TEXT) {
		struct text *names = memory_new(from.count, sizeof *names);
		struct finding finding = { .offset = UINT64_MAX,
			.length = UINT64_MAX,
			.rank = UINT32_MAX,
			.affected = names,
			.affected_kept = from.count,
			.affected_count = UINT64_MAX,
			.affected_bytes = UINT64_MAX };

		for (size_t i = 0; i < finding.affected_kept; i++)
			names[i] = text_new(
				(const char *)fsdp_document_item(from, i).text.data);
		part_result_read(&finding_record, line, &finding, true);
		collected_finding(collected, &finding);
	} else {
		omitted.rule = fsdp_rule_find(part_text(line, "rule").data);
		omitted.file = fsdp_document_get(line, "file").text;
		omitted.count = (uint64_t)part_integer(line, "count");
		collected_omitted(collected, &omitted, 0, true);
	}
}
