/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows the envelope, as one document (json) or as one object a line (jsonl), and where
 * commas and newlines stand; independent of what the members mean.
 *
 * Levels of a document: 1 the envelope, 2 `data`, 3 what is in data. Each member of data
 * and each element of an array in it begins a line, so that two results can be compared
 * by lines. In jsonl rows of the main array leave at once and everything else that
 * belongs to data waits in `rest` for the last record.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "render/functions.h"
#include "render/json-value.h"
#include "render/record.h"

enum { LEVELS = 64, IN_ENVELOPE = 1, IN_DATA = 2 };

struct json {
	struct out base;
	bool lines; /* jsonl */
	bool bare;  /* no envelope */
	bool has_data;
	int error;            /* beyond LEVELS */
	struct writer stream; /* what leaves */
	struct writer rest;   /* jsonl: data without its main array */
	struct writer *to;    /* one of the two */

	unsigned depth;
	bool filled[LEVELS];
	char closers[LEVELS];

	/* The table that is open: `,"key":` of each column, one behind the other. */
	struct columns columns;
	struct writer keys;
	size_t key_ends[COLUMNS_MAX];
	bool is_name[COLUMNS_MAX];
	const char *of; /* jsonl: key of the main array that is open, or NULL */
	unsigned of_depth;
	bool row_is_item;
	bool hidden; /* the table is for people */
	uint64_t items;
};

static struct json *json_of(struct out *out)
{
	return (struct json *)out;
}

/* ---- levels, commas, keys ---- */

static void level_begin(struct json *json, char opener, char closer, bool filled)
{
	writer_char(json->to, opener);
	if (json->depth + 1 < LEVELS)
		json->depth++;
	else
		json->error = EOVERFLOW;
	json->filled[json->depth] = filled;
	json->closers[json->depth] = closer;
}

static void level_end(struct json *json)
{
	if (json->depth == 0)
		return;
	writer_char(json->to, json->closers[json->depth]);
	json->depth--;
}

static void comma(struct json *json, bool newline)
{
	if (json->filled[json->depth])
		writer_char(json->to, ',');
	json->filled[json->depth] = true;
	if (newline && !json->lines)
		writer_char(json->to, '\n');
}

static void member(struct json *json, struct text key, bool newline)
{
	comma(json, newline);
	if (key.data == NULL)
		return;
	spell_string(json->to, key.data, key.size);
	writer_char(json->to, ':');
}

/* Whether a member of the innermost level begins a line. */
static bool own_line(const struct json *json, struct text key, bool named)
{
	return json->depth == IN_DATA ||
	       (json->depth == IN_DATA + 1 && (key.data == NULL || named));
}

static void put(struct json *json, const char *key, struct value value)
{
	if (value.type == VALUE_ABSENT)
		return;
	member(json, text_of(key), false);
	spell_value(json->to, &value);
}

static void put_known(struct json *json, const char *key, uint64_t count)
{
	put(json, key, value_count(count));
}

static void array(struct json *json, const char *key)
{
	member(json, text_of(key), true);
	level_begin(json, '[', ']', false);
}

/* An element that is an object: a line of its own, in jsonl a record of its own. */
static void element_begin(struct json *json, const char *type)
{
	if (type == NULL) {
		comma(json, true);
		level_begin(json, '{', '}', false);
		return;
	}
	level_begin(json, '{', '}', false);
	put(json, "type", value_word(type));
}

static void record_end(struct json *json)
{
	level_end(json);
	writer_char(json->to, '\n');
}

/* ---- the envelope ---- */

static void put_record(struct json *json, const struct record *record, const void *object)
{
	for (size_t i = 0; i < record->count; i++)
		put(json, record->fields[i].name,
			field_value(
				&record->fields[i], (struct subject){ NULL, object }));
}

/* What stands beside the data: an array of the document, or records of their own. */
static void put_beside(struct json *json, const char *key, const char *type,
	const struct record *record, const void *objects, size_t count)
{
	if (type == NULL)
		array(json, key);
	for (size_t i = 0; i < count; i++) {
		element_begin(json, type);
		put_record(json, record, (const char *)objects + i * record->size);
		if (type == NULL)
			level_end(json);
		else
			record_end(json);
	}
	if (type == NULL)
		level_end(json);
}

static void put_schema(struct json *json, const char *command)
{
	member(json, text_of("schema"), false);
	writer_text(json->to, "\"fsdp-inspect.");
	writer_text(json->to, command);
	writer_char(json->to, '"');
	put(json, "schema_version", value_word("1.0"));
}

static void put_head(struct json *json, const struct out_header *header)
{
	put_schema(json, header->command);
	member(json, text_of("tool"), false);
	level_begin(json, '{', '}', false);
	put(json, "name", value_word("fsdp-inspect"));
	put(json, "version", value_word(header->version));
	level_end(json);
	if (header->provenance != NULL) {
		member(json, text_of("provenance"), false);
		level_begin(json, '{', '}', false);
		put_record(json, &provenance_record, header->provenance);
		level_end(json);
	}
	put(json, "ok", value_bool(header->status == 0));
	put_beside(
		json, "inputs", NULL, &input_object, header->inputs, header->input_count);
}

static void begin(struct out *out, const struct out_header *header)
{
	struct json *json = json_of(out);
	json->bare = header->bare && !json->lines;
	json->has_data = header->has_data;
	json->depth = 0;
	json->stream.summed = json->lines && header->summed;
	json->stream.sum = WRITER_NO_SUM;
	if (json->lines) {
		element_begin(json, "header");
		put_head(json, header);
		record_end(json);
	} else if (!json->bare) {
		level_begin(json, '{', '}', false);
		put_head(json, header);
		member(json, text_of("data"), true);
	}
	if (!json->lines && !json->bare && !header->has_data)
		writer_text(json->to, "null");
	/* Without data, whatever is emitted all the same goes to `rest` and is dropped.
	 */
	if (json->lines || !header->has_data)
		json->to = &json->rest;
	json->depth = IN_ENVELOPE;
	level_begin(json, '{', '}', false);
}

static void put_omissions(struct json *json, const struct out_footer *footer)
{
	if (footer->omission_count != 0)
		put_beside(json, "omitted", NULL, &omission_record, footer->omissions,
			footer->omission_count);
}

static void item_end(struct json *json)
{
	record_end(json);
	json->to = &json->rest;
	json->items++;
}

/* Whatever a command that failed half-way left open. */
static void close_data(struct json *json)
{
	if (json->of != NULL && json->depth > json->of_depth) {
		while (json->depth > json->of_depth + 1)
			level_end(json);
		item_end(json);
	}
	while (json->depth >= IN_DATA)
		level_end(json);
}

static void put_interrupted(struct json *json, const struct out_footer *footer)
{
	if (footer->interrupted)
		put(json, "interrupted", value_bool(true));
}

static void end_document(struct json *json, const struct out_footer *footer)
{
	close_data(json);
	json->to = &json->stream;
	if (!json->bare) {
		put_beside(json, "findings", NULL, &finding_record, footer->findings,
			footer->finding_count);
		put_beside(json, "errors", NULL, &failure_record, footer->failures,
			footer->failure_count);
		put_omissions(json, footer);
		put_interrupted(json, footer);
		level_end(json);
	}
	if (!json->bare || json->has_data)
		writer_char(json->to, '\n');
}

static void end_lines(struct json *json, const struct out_footer *footer)
{
	close_data(json);
	json->to = &json->stream;
	json->depth = 0;
	put_beside(json, NULL, "finding", &finding_record, footer->findings,
		footer->finding_count);
	put_beside(json, NULL, "error", &failure_record, footer->failures,
		footer->failure_count);
	element_begin(json, "end");
	put_known(json, "items", json->items);
	put_known(json, "findings", footer->finding_count);
	put_known(json, "errors", footer->failure_count);
	put(json, "ok", value_bool(footer->status == 0));
	put(json, "status", value_integer(footer->status));
	put_interrupted(json, footer);
	put_omissions(json, footer);
	member(json, text_of("data"), false);
	if (json->has_data && json->rest.error == 0)
		writer_put(json->to, json->rest.data, json->rest.size);
	else
		writer_text(json->to, "null");
	if (json->stream.summed) {
		char digits[17];
		writer_flush(json->to);
		snprintf(digits, sizeof digits, "%016" PRIx64, json->stream.sum);
		put(json, "checksum", value_word(digits));
	}
	record_end(json);
}

static void end(struct out *out, const struct out_footer *footer)
{
	struct json *json = json_of(out);
	if (json->lines)
		end_lines(json, footer);
	else
		end_document(json, footer);
	writer_flush(&json->stream);
}

/* ---- data ---- */

/* jsonl: whether what comes now is an element of the main array. */
static bool at_items(const struct json *json)
{
	return json->of != NULL && json->depth == json->of_depth;
}

/* A line has a `type` and an `of` of its own. An element that has one too (a value: its
 * type in Python) has it under another name as well (`value_type`), which is the one that
 * a line shows. */
static bool is_of_line(struct text key)
{
	return (key.size == 4 && memcmp(key.data, "type", 4) == 0) ||
	       (key.size == 2 && memcmp(key.data, "of", 2) == 0);
}

static void item_begin(struct json *json)
{
	json->to = &json->stream;
	level_begin(json, '{', '}', true);
	writer_text(json->to, "\"type\":\"item\",\"of\":");
	spell_string(json->to, json->of, strlen(json->of));
}

static void object_begin(struct out *out, struct text key, bool named)
{
	struct json *json = json_of(out);
	if (at_items(json)) {
		item_begin(json);
		return;
	}
	member(json, key, own_line(json, key, named));
	level_begin(json, '{', '}', false);
}

static void object_end(struct out *out)
{
	struct json *json = json_of(out);
	if (json->of != NULL && json->depth == json->of_depth + 1)
		item_end(json);
	else if (json->depth > IN_DATA)
		level_end(json);
}

static void array_begin(struct out *out, struct text key, bool named)
{
	struct json *json = json_of(out);
	member(json, key, own_line(json, key, named));
	level_begin(json, '[', ']', false);
}

static void items_begin(struct out *out, struct text key)
{
	struct json *json = json_of(out);
	if (json->lines) {
		json->of = key.data;
		json->of_depth = json->depth;
	} else {
		array_begin(out, key, false);
	}
}

static void array_end(struct out *out)
{
	struct json *json = json_of(out);
	if (at_items(json))
		json->of = NULL;
	else if (json->depth > IN_DATA)
		level_end(json);
}

static void field(struct out *out, struct text key, const struct value *value, bool named)
{
	struct json *json = json_of(out);
	if (value->type == VALUE_ABSENT)
		return;
	bool item = at_items(json);
	if (item) {
		item_begin(json);
		key = text_of("value");
	} else if (json->of != NULL && json->depth == json->of_depth + 1 &&
		   is_of_line(key)) {
		return;
	}
	member(json, key, own_line(json, key, named));
	bool valid = spell_value(json->to, value);
	bool is_name = value->type == VALUE_NAME && !named && key.size == 4 &&
		       memcmp(key.data, "name", 4) == 0;
	if (!valid && is_name) {
		member(json, text_of("name_b64"), false);
		spell_base64(json->to, value->text);
	}
	if (item)
		item_end(json);
}

/* ---- tables ---- */

static void spell_keys(struct json *json, const struct table *table)
{
	json->keys.size = 0;
	for (size_t i = 0; i < json->columns.count; i++) {
		const char *name = table->columns[json->columns.items[i]].name;
		writer_char(&json->keys, ',');
		spell_string(&json->keys, name, strlen(name));
		writer_char(&json->keys, ':');
		json->key_ends[i] = json->keys.size;
		json->is_name[i] = strcmp(name, "name") == 0;
	}
	if (json->keys.error != 0) {
		json->error = json->keys.error;
		json->columns.count = 0;
	}
}

static void drop_columns_of_line(const struct table *table, struct columns *columns)
{
	size_t kept = 0;

	for (size_t i = 0; i < columns->count; i++)
		if (!is_of_line(text_of(table->columns[columns->items[i]].name)))
			columns->items[kept++] = columns->items[i];
	columns->count = kept;
}

static void table_begin(struct out *out, const struct table *table)
{
	struct json *json = json_of(out);
	json->hidden = table->text_only || table->rows_only;
	if (json->hidden)
		return;
	columns_for_machine(table, &json->columns);
	json->row_is_item = json->lines && table->main;
	if (json->row_is_item)
		drop_columns_of_line(table, &json->columns);
	spell_keys(json, table);
	if (json->row_is_item)
		items_begin(out, text_of(table->key));
	else
		array_begin(out, text_of(table->key), false);
}

static void put_columns(struct json *json, const struct value *values)
{
	struct writer *to = json->to;
	const char *keys = json->keys.data;
	size_t skipped = json->filled[json->depth] ? 0 : 1; /* the first comma */
	size_t key = 0;
	for (size_t i = 0; i < json->columns.count; key = json->key_ends[i++]) {
		const struct value *value = &values[json->columns.items[i]];
		if (value->type == VALUE_ABSENT)
			continue;
		writer_put(to, keys + key + skipped, json->key_ends[i] - key - skipped);
		skipped = 0;
		bool valid = spell_value(to, value);
		if (!valid && json->is_name[i] && value->type == VALUE_NAME) {
			writer_text(to, ",\"name_b64\":");
			spell_base64(to, value->text);
		}
	}
}

static void row(struct out *out, const struct value *values)
{
	struct json *json = json_of(out);
	if (json->hidden)
		return;
	if (json->row_is_item) {
		item_begin(json);
		put_columns(json, values);
		item_end(json);
	} else {
		comma(json, json->depth == IN_DATA + 1);
		level_begin(json, '{', '}', false);
		put_columns(json, values);
		level_end(json);
	}
}

static void table_end(struct out *out)
{
	struct json *json = json_of(out);
	json->row_is_item = false;
	if (!json->hidden)
		array_end(out);
	json->hidden = false;
}

/* ---- life ---- */

static void free_json(struct out *out)
{
	struct json *json = json_of(out);
	writer_done(&json->stream);
	writer_done(&json->rest);
	writer_done(&json->keys);
	free(json);
}

static struct out *new_json(const struct out_functions *functions, FILE *stream,
	const struct looks *looks, bool lines)
{
	struct json *json = calloc(1, sizeof *json);
	if (json == NULL)
		return NULL;
	json->base.functions = functions;
	json->lines = lines;
	bool ok = writer_init(&json->stream, stream);
	ok = writer_init(&json->rest, NULL) && ok;
	ok = writer_init(&json->keys, NULL) && ok;
	json->to = &json->stream;
	json->stream.ascii = json->rest.ascii = json->keys.ascii = looks->seven_bits;
	if (ok)
		return &json->base;
	free_json(&json->base);
	return NULL;
}

static struct out *new_document(FILE *stream, const struct looks *looks)
{
	return new_json(&json_functions, stream, looks, false);
}

static struct out *new_lines(FILE *stream, const struct looks *looks)
{
	return new_json(&jsonl_functions, stream, looks, true);
}

static int finish(struct out *out)
{
	struct json *json = json_of(out);
	writer_flush(&json->stream);
	if (json->stream.error != 0)
		return json->stream.error;
	return json->rest.error != 0 && json->lines ? json->rest.error : json->error;
}

#define SHARED_FUNCTIONS                                                                \
	.finish = finish, .free = free_json, .begin = begin, .end = end,                \
	.object_begin = object_begin, .object_end = object_end,                         \
	.array_begin = array_begin, .items_begin = items_begin, .array_end = array_end, \
	.field = field, .shows = columns_for_machine, .table_begin = table_begin,       \
	.row = row, .table_end = table_end

const struct out_functions json_functions = { .new = new_document, SHARED_FUNCTIONS };
const struct out_functions jsonl_functions = { .new = new_lines, SHARED_FUNCTIONS };
