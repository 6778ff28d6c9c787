/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the JSON Schema of an answer from the rows of its records.
 */
#include <string.h>

#include "render/output-functions.h"

enum { DEFINITIONS_MAX = 128, LEVELS = 64, ALTERNATIVES_MAX = 8 };

struct printer {
	struct writer writer;
	char name[64];        /* of the documents: "fsdp-inspect.ls" */
	const char *words[2]; /* the name alone */
	const struct record *definitions[DEFINITIONS_MAX]; /* printed, or still to be */
	size_t definition_count;
	bool in_line;  /* of JSON Lines */
	unsigned view; /* of the record that is described */
	unsigned depth;
	bool filled[LEVELS];
};

/* ---- JSON, indented ---- */

static void key(struct printer *printer, const char *name)
{
	if (printer->filled[printer->depth])
		writer_char(&printer->writer, ',');
	printer->filled[printer->depth] = true;
	writer_char(&printer->writer, '\n');
	writer_spaces(&printer->writer, 2 * (size_t)printer->depth);
	if (name != NULL) {
		write_json_string(&printer->writer, name, strlen(name));
		writer_text(&printer->writer, ": ");
	}
}

static void begin(struct printer *printer, const char *name, char opener)
{
	if (printer->depth != 0)
		key(printer, name);
	writer_char(&printer->writer, opener);
	printer->depth++;
	printer->filled[printer->depth] = false;
}

static void end(struct printer *printer, char closer)
{
	printer->depth--;
	writer_char(&printer->writer, '\n');
	writer_spaces(&printer->writer, 2 * (size_t)printer->depth);
	writer_char(&printer->writer, closer);
}

static void put(struct printer *printer, const char *name, const char *text)
{
	key(printer, name);
	write_json_string(&printer->writer, text, strlen(text));
}

/* ["a", "b"], on one line; null may be one of them. */
static void write_words(
	struct printer *printer, const char *name, const char *const *words, bool null)
{
	key(printer, name);
	writer_char(&printer->writer, '[');
	for (size_t i = 0; words[i] != NULL; i++) {
		if (i != 0)
			writer_text(&printer->writer, ", ");
		write_json_string(&printer->writer, words[i], strlen(words[i]));
	}
	writer_text(&printer->writer, null ? ", null]" : "]");
}

static void write_types(
	struct printer *printer, const char *type, const char *or_type, bool null)
{
	write_words(printer, "type",
		(const char *const[]){ type, or_type, null ? "null" : NULL, NULL },
		false);
}

static void write_type(struct printer *printer, const char *type, bool null)
{
	if (null)
		write_types(printer, type, "null", false);
	else
		put(printer, "type", type);
}

/* ---- what a field holds: keywords of the schema that is open ---- */

static void write_record(struct printer *printer, const struct record *record);

static void write_nullable(
	struct printer *printer, const struct record *record, bool null)
{
	if (!null) {
		write_record(printer, record);
		return;
	}
	begin(printer, "anyOf", '[');
	begin(printer, NULL, '{');
	write_record(printer, record);
	end(printer, '}');
	begin(printer, NULL, '{');
	put(printer, "type", "null");
	end(printer, '}');
	end(printer, ']');
}

static void write_elements(
	struct printer *printer, const char *name, const struct record *record)
{
	begin(printer, name, '{');
	write_record(printer, record);
	end(printer, '}');
}

static void write_scalars(struct printer *printer, const struct column *field,
	const char *type, const char *or_type)
{
	write_type(printer, "array", field->null);
	begin(printer, "items", '{');
	if (field->words != NULL)
		write_words(printer, "enum", field->words, false);
	else if (or_type != NULL)
		write_types(printer, type, or_type, false);
	else
		put(printer, "type", type);
	end(printer, '}');
}

static void write_keywords(struct printer *printer, const struct column *field)
{
	switch (field->type) {
	case FIELD_BOOL:
	case FIELD_MAYBE:
	case FIELD_FLAG:
		write_type(printer, "boolean", field->null);
		break;
	case FIELD_COUNT:
	case FIELD_SIZE:
	case FIELD_BYTES:
	case FIELD_ID:
		write_type(printer, "integer", field->null);
		key(printer, "minimum");
		writer_char(&printer->writer, '0');
		break;
	case FIELD_INTEGER:
	case FIELD_NS:
		write_type(printer, "integer", field->null);
		break;
	case FIELD_NUMBER: /* infinities are texts */
		write_types(printer, "number", "string", field->null);
		break;
	case FIELD_WORD:
	case FIELD_TEXT:
	case FIELD_NAME:
		if (field->words != NULL && field->words[1] == NULL)
			put(printer, "const", field->words[0]);
		else if (field->words != NULL)
			write_words(printer, "enum", field->words, field->null);
		else if (field->listed) {
			/* The same words from a function. */
			key(printer, "enum");
			writer_char(&printer->writer, '[');
			for (size_t i = 0; field->list_words(i) != NULL; i++) {
				if (i != 0)
					writer_text(&printer->writer, ", ");
				write_json_string(&printer->writer, field->list_words(i),
					strlen(field->list_words(i)));
			}
			writer_char(&printer->writer, ']');
		} else
			write_type(printer, "string", field->null);
		break;
	case FIELD_SHAPE:
		write_scalars(printer, field, "integer", NULL);
		break;
	case FIELD_TEXTS:
		write_scalars(printer, field, "string", NULL);
		break;
	case FIELD_PATH:
		write_scalars(printer, field, "string", "integer");
		break;
	case FIELD_KEY:
		write_types(printer, "string", "integer", field->null);
		break;
	case FIELD_ANY:
		break;
	case FIELD_OBJECT:
	case FIELD_FIELDS:
	case FIELD_POINTED:
		write_nullable(printer, field->of, field->null);
		break;
	case FIELD_LIST:
	case FIELD_ARRAY:
	case FIELD_ROWS:
	case FIELD_ITEMS:
		write_type(printer, "array", field->null);
		write_elements(printer, "items", field->of);
		break;
	case FIELD_MAP: {
		/* What a map has for each key: the second field, or an object of all but
		 * the first. */
		struct record rest = *field->of;
		rest.fields++;
		rest.count--;
		rest.name = NULL;
		rest.form = rest.count == 1 ? RECORD_PLAIN : RECORD_OBJECT;
		write_type(printer, "object", field->null);
		write_elements(printer, "additionalProperties", &rest);
	} break;
	}
}

static void write_field(
	struct printer *printer, const char *name, const struct column *field)
{
	begin(printer, name, '{');
	if (field->about != NULL)
		put(printer, "description", field->about);
	write_keywords(printer, field);
	end(printer, '}');
}

/* ---- records ---- */

/* Fields that are inlined into the object. */
static bool is_inline(const struct column *field)
{
	return field->type == FIELD_FIELDS || field->type == FIELD_POINTED;
}

static bool is_for_machines(const struct printer *printer, const struct column *field)
{
	return (field->text_only >> printer->view & 1) == 0 &&
	       (field->name != NULL || field->of != NULL);
}

/* In a line of JSON Lines `type` and `of` are of the line; the members of the element
 * with these names are not written (json.c). */
static bool is_skipped(const struct column *field, bool in_line)
{
	return in_line && field->name != NULL &&
	       (strcmp(field->name, "type") == 0 || strcmp(field->name, "of") == 0);
}

/* The names of fields that are always present. An object that may be missing has no such
 * fields. */
static void write_required(
	struct printer *printer, const struct record *record, bool in_line, bool *comma)
{
	FOR_EACH(i, record->count, field, &record->fields[i]) {
		if (is_inline(field) && field->has == NULL &&
			(field->type == FIELD_FIELDS || field->always))
			write_required(printer, field->of, printer->in_line, comma);
		if (!is_for_machines(printer, field) || is_inline(field) ||
			is_skipped(field, in_line) || (!field->always && !field->null))
			continue;
		if (*comma)
			writer_text(&printer->writer, ", ");
		*comma = true;
		write_json_string(&printer->writer, field->name, strlen(field->name));
	}
}

static void write_properties(
	struct printer *printer, const struct record *record, bool in_line)
{
	static const struct column base64 = {
		.type = FIELD_WORD,
		ABOUT("Bytes of the stored name in base64, when they are not valid UTF-8.")
	};

	FOR_EACH(i, record->count, field, &record->fields[i]) {
		if (!is_for_machines(printer, field) || is_skipped(field, in_line))
			continue;
		if (is_inline(field)) {
			write_properties(printer, field->of, printer->in_line);
			continue;
		}
		write_field(printer, field->name, field);
		if (field->type == FIELD_NAME && strcmp(field->name, "name") == 0)
			write_field(printer, "name_b64", &base64);
	}
}

/* All that the record says, where it is defined. */
static void write_definition(struct printer *printer, const struct record *record)
{
	unsigned outer = printer->view;
	bool comma = false;

	printer->view = record->view;
	if (record->about != NULL)
		put(printer, "description", record->about);
	switch (record->form) {
	case RECORD_OBJECT:
		put(printer, "type", "object");
		key(printer, "required");
		writer_char(&printer->writer, '[');
		write_required(printer, record, false, &comma);
		writer_char(&printer->writer, ']');
		begin(printer, "properties", '{');
		write_properties(printer, record, false);
		end(printer, '}');
		break;
	case RECORD_TUPLE:
		put(printer, "type", "array");
		begin(printer, "prefixItems", '[');
		for (size_t i = 0; i < record->count; i++)
			write_field(printer, NULL, &record->fields[i]);
		end(printer, ']');
		break;
	case RECORD_PLAIN:
		write_keywords(printer, &record->fields[0]);
		break;
	case RECORD_ONE_OF:
		if (record->count == 1) {
			write_record(printer, record->fields[0].of);
			break;
		}
		begin(printer, "anyOf", '[');
		for (size_t i = 0; i < record->count; i++)
			write_elements(printer, NULL, record->fields[i].of);
		end(printer, ']');
		break;
	}
	printer->view = outer;
}

static void write_record(struct printer *printer, const struct record *record)
{
	size_t i = 0;

	if (record->name == NULL) {
		write_definition(printer, record);
		return;
	}
	key(printer, "$ref");
	writer_text(&printer->writer, "\"#/$defs/");
	writer_text(&printer->writer, record->name);
	writer_char(&printer->writer, '"');
	while (i < printer->definition_count && printer->definitions[i] != record)
		i++;
	if (i == printer->definition_count && i < DEFINITIONS_MAX)
		printer->definitions[printer->definition_count++] = record;
}

/* ---- the document ---- */

#define NONE struct schema_of /* no object is read: these rows are only printed */
#define IS_ALWAYS(kind) .type = (kind), .always = true
#define WORD_OF(...)                                          \
	IS_ALWAYS(FIELD_WORD), .words = (const char *const[]) \
	{                                                     \
		__VA_ARGS__, NULL                             \
	}

static const struct record tool_record = OBJECT_RECORD(NONE, "tool",
	"The program that wrote the document.",
	{ "name", IS_ALWAYS(FIELD_WORD), ABOUT("Its name, always `fsdp-inspect`.") },
	{ "version", IS_ALWAYS(FIELD_WORD),
		ABOUT("Its version, as `version` prints it.") });

#define OK                                                                            \
	{                                                                             \
		"ok", IS_ALWAYS(FIELD_BOOL), ABOUT("True when the exit status is 0.") \
	}
static const struct record head_record = RECORD_OF(RECORD_OBJECT, NONE,
	{ "schema_version", IS_ALWAYS(FIELD_WORD),
		ABOUT("MAJOR.MINOR of the document. Minor versions only add; readers skip unknown fields.") },
	{ "tool", OBJECT(tool_record), .always = true },
	{ "provenance", OBJECT(provenance_record) }, OK,
	{ "inputs", ROWS(input_object), ALWAYS("Inputs that were read.") });

#define OMITTED                                                                                        \
	{                                                                                              \
		"omitted", ROWS(omission_record),                                                      \
			.about =                                                                       \
				"Findings that were counted and not kept. Absent when there are none." \
	}

#define NOTES                                                                          \
	{                                                                              \
		"notes", .type = FIELD_LIST, .of = &record_texts,                      \
			 ABOUT("Notes on standard error. Absent when there are none.") \
	}

#define INTERRUPTED                                                                \
	{                                                                          \
		"interrupted",                                                     \
			.type = FIELD_BOOL,                                        \
			ABOUT("True when a signal stopped the work, else absent.") \
	}

const struct record jsonl_finding =
	OBJECT_RECORD(NONE, "finding_line", "JSON Lines: one finding.",
		{ "type", WORD_OF("finding") }, { NULL, FIELDS(finding_record) });
const struct record jsonl_error =
	OBJECT_RECORD(NONE, "error_line", "JSON Lines: one error.",
		{ "type", WORD_OF("error") }, { NULL, FIELDS(failure_record) });
const struct record jsonl_end = OBJECT_RECORD(NONE, "end_line",
	"JSON Lines: the last line. A file without it is truncated.",
	{ "type", WORD_OF("end") },
	{ "items", IS_ALWAYS(FIELD_COUNT), ABOUT("Number of item lines.") },
	{ "findings", IS_ALWAYS(FIELD_COUNT), ABOUT("Number of finding lines.") },
	{ "errors", IS_ALWAYS(FIELD_COUNT), ABOUT("Number of error lines.") }, OK,
	{ "status", IS_ALWAYS(FIELD_COUNT), ABOUT("Exit status.") }, INTERRUPTED, OMITTED,
	NOTES,
	{ "data", IS_ALWAYS(FIELD_ANY),
		ABOUT("The answer without the content of the item lines; null when the work failed.") },
	{ "checksum", .type = FIELD_WORD,
		ABOUT("Of a part: FNV-1a, 64 bits, of all lines up to this member, without white space between values.") });
const struct record jsonl_header =
	RECORD_OF(RECORD_OBJECT, NONE, { "type", WORD_OF("header") },
		{ "schema", IS_ALWAYS(FIELD_WORD) }, { NULL, FIELDS(head_record) });

static struct column schema_field(const struct printer *printer)
{
	return (struct column){ "schema", IS_ALWAYS(FIELD_WORD), .words = printer->words,
		ABOUT("Command that wrote the document.") };
}

/* The nth list with elements in separate lines, or NULL: of the answer, or of an inlined
 * record. */
static const struct column *items_of(const struct record *answer, size_t n)
{
	FOR_EACH(i, answer->count, field, &answer->fields[i]) {
		const struct record *within = is_inline(field) ? field->of : NULL;

		if (field->type == FIELD_ITEMS && n-- == 0)
			return field;
		for (size_t k = 0; within != NULL && k < within->count; k++)
			if (within->fields[k].type == FIELD_ITEMS && n-- == 0)
				return &within->fields[k];
	}
	return NULL;
}

static const struct record *alternative(const struct record *record, size_t i)
{
	if (record->form == RECORD_ONE_OF)
		return i < record->count ? record->fields[i].of : NULL;
	return i == 0 ? record : NULL;
}

/* A line of JSON Lines with its kind. */
static void write_lines(struct printer *printer, const struct schema_of *of)
{
	const struct record *answer, *item;
	const struct column *items;

	begin(printer, "record", '{');
	put(printer, "description", "A line of the output `jsonl`.");
	begin(printer, "oneOf", '[');
	const struct column header[] = { { "type", WORD_OF("header") },
		schema_field(printer), { NULL, FIELDS(head_record) } };
	const struct record header_line =
		RECORD(NONE, header, NULL, "JSON Lines: the first line.");
	write_elements(printer, NULL, &header_line);
	printer->in_line = true;
	for (size_t i = 0; (answer = alternative(of->answer, i)) != NULL; i++)
		for (size_t n = 0; (items = items_of(answer, n)) != NULL; n++)
			for (size_t k = 0; (item = alternative(items->of, k)) != NULL;
				k++) {
				const char *const name[] = { items->name, NULL };
				const struct column fields[] = {
					{ "type", WORD_OF("item") },
					{ "of", IS_ALWAYS(FIELD_WORD), .words = name,
						ABOUT("The array of `data` it is an element of.") },
					{ NULL, FIELDS(*item) }
				};
				const struct record line = RECORD(NONE, fields, NULL,
					"JSON Lines: one element.", item->view);

				write_elements(printer, NULL, &line);
			}
	printer->in_line = false;
	write_elements(printer, NULL, &jsonl_finding);
	write_elements(printer, NULL, &jsonl_error);
	write_elements(printer, NULL, &jsonl_end);
	end(printer, ']');
	end(printer, '}');
}

static bool has_items(const struct record *answer)
{
	const struct record *one;

	for (size_t i = 0; (one = alternative(answer, i)) != NULL; i++)
		if (items_of(one, 0) != NULL)
			return true;
	return false;
}

/* `data` of several inputs has an answer for each. */
static void write_document(struct printer *printer, const struct schema_of *of)
{
	struct column parts[ALTERNATIVES_MAX][2], elements[ALTERNATIVES_MAX];
	struct column choices[ALTERNATIVES_MAX + 1];
	struct record each[ALTERNATIVES_MAX];
	size_t count = 0;

	for (; count < ALTERNATIVES_MAX; count++) {
		const struct record *answer = alternative(of->answer, count);
		if (answer == NULL)
			break;
		parts[count][0] = (struct column){ "input", IS_ALWAYS(FIELD_ID),
			ABOUT("`id` of the input.") };
		parts[count][1] = (struct column){ NULL, FIELDS(*answer) };
		each[count] = (struct record)RECORD(NONE, parts[count], NULL, NULL);
		elements[count] = (struct column){ NULL, OBJECT(each[count]) };
		choices[count] = (struct column){ NULL, OBJECT(*answer) };
	}
	const struct record element = { elements, count, 0, RECORD_ONE_OF, NULL, NULL };
	const struct column checkpoints[] = {
		{ "checkpoints", ROWS(element),
			ALWAYS("In the order in which they were named. One that could not be read is omitted; `errors` has the reason.") }
	};
	const struct record answers = RECORD(NONE, checkpoints, NULL,
		"With `--separate`: the answer for each checkpoint.");
	choices[count] = (struct column){ NULL, OBJECT(answers) };
	const struct record data = { choices, count + of->separate, 0, RECORD_ONE_OF,
		NULL, NULL };
	const struct column fields[] = { schema_field(printer),
		{ NULL, FIELDS(head_record) },
		{ "data", OBJECT(data), .null = true,
			ABOUT("The answer; null when the work failed.") },
		{ "findings", ROWS(finding_record),
			ALWAYS("Findings, in a fixed order.") },
		{ "errors", ROWS(failure_record),
			ALWAYS("Failures, and checks that could not run.") },
		OMITTED, NOTES, INTERRUPTED };
	const struct record document = RECORD(NONE, fields, NULL, NULL);

	write_definition(printer, &document);
	begin(printer, "$defs", '{');
	if (has_items(of->answer))
		write_lines(printer, of);
	for (size_t i = 0; i < printer->definition_count; i++) {
		begin(printer, printer->definitions[i]->name, '{');
		write_definition(printer, printer->definitions[i]);
		end(printer, '}');
	}
	end(printer, '}');
}

void schema_write(FILE *stream, const struct schema_of *of)
{
	struct printer printer = { .words = { printer.name } };

	writer_init(&printer.writer, stream);
	snprintf(printer.name, sizeof printer.name, "fsdp-inspect.%s", of->command);
	begin(&printer, NULL, '{');
	char text[160];

	put(&printer, "$schema", "https://json-schema.org/draft/2020-12/schema");
	snprintf(text, sizeof text, "urn:fsdp-inspect:schema:%s:1", of->command);
	put(&printer, "$id", text);
	snprintf(text, sizeof text, "fsdp-inspect %s, major version 1", of->command);
	put(&printer, "title", text);
	snprintf(text, sizeof text, "Output of `fsdp-inspect %s -o json`.", of->command);
	put(&printer, "description", text);
	write_document(&printer, of);
	end(&printer, '}');
	writer_char(&printer.writer, '\n');
	writer_flush(&printer.writer);
	writer_done(&printer.writer);
}
