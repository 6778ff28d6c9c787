/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON and JSON Lines: values, answers in their envelope, and the sharding plan,
 * which has none.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "render/writer.h"
#include "render/output-functions.h"
#include "render/record.h"

/* ---- Spells one value in JSON (RFC 8259) ---- */

/* Zero if none of the eight bytes is a control, a quote, a backslash, DEL or not
 * ASCII. A subtraction borrows from the next byte only where one of them is. */
static uint64_t special(uint64_t word)
{
	uint64_t control = word - EACH_BYTE(0x20);
	uint64_t quote = (word ^ EACH_BYTE('"')) - EACH_BYTE(1);
	uint64_t backslash = (word ^ EACH_BYTE('\\')) - EACH_BYTE(1);
	uint64_t delete = (word ^ EACH_BYTE(0x7f)) - EACH_BYTE(1);
	return (control | quote | backslash | delete | word) & EACH_BYTE(0x80);
}

/* How many bytes from the beginning stand for themselves. */
static size_t plain_run(const char *data, size_t size)
{
	size_t at = 0;
	while (size - at >= 16 && (special(load_eight(data + at)) |
					  special(load_eight(data + at + 8))) == 0)
		at += 16;
	if (size - at >= 8 && special(load_eight(data + at)) == 0)
		at += 8;
	/* The last word once more rather than its bytes one by one. */
	if (size >= 8 && size - at < 8 && special(load_eight(data + size - 8)) == 0)
		return size;
	while (at < size && data[at] >= 0x20 && data[at] < 0x7f && data[at] != '"' &&
		data[at] != '\\')
		at++;
	return at;
}

static void write_unit(struct writer *writer, unsigned unit)
{
	static const char digits[] = "0123456789abcdef";
	const char text[6] = { '\\', 'u', digits[unit >> 12 & 15], digits[unit >> 8 & 15],
		digits[unit >> 4 & 15], digits[unit & 15] };
	writer_put(writer, text, sizeof text);
}

/* The first character, which is not plain. Returns its length; *ret_valid becomes false
 * if it was none. */
static size_t write_special(
	struct writer *writer, const char *data, size_t size, bool *ret_valid)
{
	uint32_t character;
	size_t length = character_decode(data, size, &character);
	if (character == CHARACTER_NONE) {
		if (writer->ascii)
			write_unit(writer, 0xfffd);
		else
			writer_put(writer, "\xef\xbf\xbd", 3);
		*ret_valid = false;
	} else if (character == '\\' && writer->no_double_backslash) {
		write_unit(writer, character);
	} else if (character == '"' || character == '\\') {
		writer_char(writer, '\\');
		writer_char(writer, (char)character);
	} else if (writer->ascii || escape_needed(character)) {
		static const char letters[0x20] = {
			['\b'] = 'b',
			['\t'] = 't',
			['\n'] = 'n',
			['\f'] = 'f',
			['\r'] = 'r',
		};
		if (character < 0x20 && letters[character] != 0) {
			writer_char(writer, '\\');
			writer_char(writer, letters[character]);
		} else if (character < 0x10000) {
			write_unit(writer, character);
		} else {
			write_unit(writer, 0xd800 + ((character - 0x10000) >> 10));
			write_unit(writer, 0xdc00 + ((character - 0x10000) & 0x3ff));
		}
	} else {
		writer_put(writer, data, length);
	}
	return length;
}

bool write_json_string(struct writer *writer, const char *data, size_t size)
{
	bool valid = true;
	writer_char(writer, '"');
	while (size != 0) {
		size_t length = plain_run(data, size);
		if (length != 0)
			writer_put(writer, data, length);
		else
			length = write_special(writer, data, size, &valid);
		data += length;
		size -= length;
	}
	writer_char(writer, '"');
	return valid;
}

void write_json_base64(struct writer *writer, struct text text)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	writer_char(writer, '"');
	for (size_t at = 0; at < text.size; at += 3) {
		size_t left = text.size - at;
		uint32_t group = (uint32_t)(unsigned char)text.data[at] << 16;
		if (left > 1)
			group |= (uint32_t)(unsigned char)text.data[at + 1] << 8;
		if (left > 2)
			group |= (uint32_t)(unsigned char)text.data[at + 2];
		const char quad[4] = {
			digits[group >> 18],
			digits[group >> 12 & 63],
			left > 1 ? digits[group >> 6 & 63] : '=',
			left > 2 ? digits[group & 63] : '=',
		};
		writer_put(writer, quad, sizeof quad);
	}
	writer_char(writer, '"');
}

static void write_number(struct writer *writer, double number)
{
	/* Inf - Inf and NaN - NaN are not 0. */
	bool finite = number - number == 0;
	if (!finite)
		writer_char(writer, '"');
	writer_number(writer, number);
	if (!finite)
		writer_char(writer, '"');
}

static void write_bool(struct writer *writer, bool boolean)
{
	if (boolean)
		writer_put(writer, "true", 4);
	else
		writer_put(writer, "false", 5);
}

/*
 * Tokens are a tree in pre-order, as deep as in the file that they come from. Open
 * containers are on a stack of fixed size; readers of JSON give up at about 1,000
 * levels, we write 256 and say so. A list that ends early is closed as if
 * nulls followed.
 */
enum { VALUE_LEVELS = 256 };

struct open {
	uint64_t left; /* members, keys counted too */
	bool object;
	bool filled;
};

struct walk {
	struct writer *writer;
	const struct token *token, *end;
	size_t depth;
	bool valid;
	struct open open[VALUE_LEVELS];
};

static const struct token *next_token(struct walk *walk)
{
	return walk->token == walk->end ? NULL : walk->token++;
}

/* Over all that the token holds. */
static void skip(struct walk *walk, const struct token *token)
{
	uint64_t left = 0;
	do {
		if (token->type == TOKEN_ARRAY)
			left += token->count;
		if (token->type == TOKEN_OBJECT)
			left += (uint64_t)token->count * 2;
		if (left == 0)
			return;
		left--;
		token = next_token(walk);
	} while (token != NULL);
}

static void open_token(struct walk *walk, const struct token *token)
{
	bool object = token->type == TOKEN_OBJECT;
	if (walk->depth == VALUE_LEVELS) {
		walk->valid &=
			write_json_string(walk->writer, "(deeper than 256 levels)", 24);
		skip(walk, token);
		return;
	}
	writer_char(walk->writer, object ? '{' : '[');
	walk->open[walk->depth++] = (struct open){
		.left = object ? (uint64_t)token->count * 2 : token->count,
		.object = object,
	};
}

static void write_token(struct walk *walk, const struct token *token)
{
	switch (token->type) {
	case TOKEN_NULL:
		writer_put(walk->writer, "null", 4);
		break;
	case TOKEN_BOOL:
		write_bool(walk->writer, token->integer != 0);
		break;
	case TOKEN_INTEGER:
		writer_integer(walk->writer, token->integer);
		break;
	case TOKEN_NUMBER:
		write_number(walk->writer, token->number);
		break;
	case TOKEN_TEXT:
		walk->valid &= write_json_string(
			walk->writer, token->text.data, token->text.size);
		break;
	case TOKEN_ARRAY:
	case TOKEN_OBJECT:
		open_token(walk, token);
		break;
	}
}

/* The next member of the innermost container, or its end. */
static void write_member(struct walk *walk)
{
	struct open *open = &walk->open[walk->depth - 1];
	if (open->left == 0 || walk->token == walk->end) {
		writer_char(walk->writer, open->object ? '}' : ']');
		walk->depth--;
		return;
	}
	if (open->filled)
		writer_char(walk->writer, ',');
	open->filled = true;
	if (open->object) {
		open->left--;
		const struct token *token = next_token(walk);
		bool text = token != NULL && token->type == TOKEN_TEXT;
		walk->valid &= write_json_string(walk->writer,
			text ? token->text.data : "", text ? token->text.size : 0);
		if (token != NULL && !text)
			skip(walk, token);
		writer_char(walk->writer, ':');
	}
	open->left--;
	const struct token *token = next_token(walk);
	if (token != NULL)
		write_token(walk, token);
	else
		writer_put(walk->writer, "null", 4);
}

bool write_json_value(struct writer *writer, const struct value *value)
{
	switch (value->type) {
	case VALUE_ABSENT:
	case VALUE_NULL:
		writer_put(writer, "null", 4);
		return true;
	case VALUE_BOOL:
		write_bool(writer, value->boolean);
		return true;
	case VALUE_COUNT:
	case VALUE_BYTES:
	case VALUE_ELEMENTS:
		writer_count(writer, value->count);
		return true;
	case VALUE_INTEGER:
	case VALUE_NS:
		writer_integer(writer, value->integer);
		return true;
	case VALUE_NUMBER:
		write_number(writer, value->number);
		return true;
	case VALUE_TEXT:
	case VALUE_NAME:
		return write_json_string(writer, value->text.data, value->text.size);
	case VALUE_SHAPE:
	case VALUE_COUNTS:
		writer_char(writer, '[');
		for (size_t i = 0; i < value->shape.count; i++) {
			if (i != 0)
				writer_char(writer, ',');
			writer_integer(writer, value->shape.items[i]);
		}
		writer_char(writer, ']');
		return true;
	case VALUE_TEXTS: {
		bool valid = true;
		writer_char(writer, '[');
		for (size_t i = 0; i < value->texts.count; i++) {
			if (i != 0)
				writer_char(writer, ',');
			valid &= write_json_string(writer, value->texts.items[i].data,
				value->texts.items[i].size);
		}
		writer_char(writer, ']');
		return valid;
	}
	case VALUE_PATH: {
		bool sound = true;
		writer_char(writer, '[');
		for (size_t i = 0; i < value->path.count; i++) {
			if (i != 0)
				writer_char(writer, ',');
			if (value->path.items[i].is_integer)
				writer_integer(writer, value->path.items[i].integer);
			else
				sound &= write_json_string(writer,
					value->path.items[i].text.data,
					value->path.items[i].text.size);
		}
		writer_char(writer, ']');
		return sound;
	}
	case VALUE_TOKENS: {
		if (value->tokens.count == 0) {
			writer_put(writer, "null", 4);
			return true;
		}
		struct walk walk;
		walk.writer = writer;
		walk.token = value->tokens.items + 1;
		walk.end = value->tokens.items + value->tokens.count;
		walk.depth = 0;
		walk.valid = true;
		write_token(&walk, value->tokens.items);
		while (walk.depth != 0)
			write_member(&walk);
		return walk.valid;
	}
	}
	return true;
}

enum { LEVELS = 64, IN_ENVELOPE = 1, IN_DATA = 2 };

struct json {
	struct out base;
	bool lines; /* jsonl */
	bool bare;  /* no envelope */
	bool has_data;
	struct writer stream; /* what leaves */
	struct writer rest;   /* jsonl: data without its main array */
	struct writer *to;    /* one of the two */

	unsigned depth;
	bool filled[LEVELS];
	char closers[LEVELS];

	/* The table that is open: `,"key":` of each column, concatenated. */
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
		json->base.error = EOVERFLOW;
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
	write_json_string(json->to, key.data, key.size);
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
	write_json_value(json->to, &value);
}

static void write_known(struct json *json, const char *key, uint64_t count)
{
	put(json, key, value_count(count));
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

static void write_record(
	struct json *json, const struct record *record, const void *object)
{
	const struct subject of = { NULL, object };

	FOR_EACH(i, record->count, field, &record->fields[i])
		if (field->type != FIELD_OBJECT) {
			put(json, field->name, field_value(field, of));
		} else if (field->has(of)) {
			member(json, text_of(field->name), false);
			level_begin(json, '{', '}', false);
			write_record(json, field->of, (const char *)object + field->at);
			level_end(json);
		}
}

/* Records in addition to the data: an array of the document, or separate records. */
static void write_beside(struct json *json, const char *key, const char *type,
	const struct record *record, const void *objects, size_t count)
{
	if (type == NULL) {
		member(json, text_of(key), true);
		level_begin(json, '[', ']', false);
	}
	for (size_t i = 0; i < count; i++) {
		element_begin(json, type);
		write_record(json, record, (const char *)objects + i * record->size);
		if (type == NULL)
			level_end(json);
		else
			record_end(json);
	}
	if (type == NULL)
		level_end(json);
}

static void write_head(struct json *json, const struct out_header *header)
{
	member(json, text_of("schema"), false);
	writer_text(json->to, "\"fsdp-inspect.");
	writer_text(json->to, header->command);
	writer_char(json->to, '"');
	put(json, "schema_version", value_word("1.0"));
	member(json, text_of("tool"), false);
	level_begin(json, '{', '}', false);
	put(json, "name", value_word("fsdp-inspect"));
	put(json, "version", value_word(header->version));
	level_end(json);
	if (header->provenance != NULL) {
		member(json, text_of("provenance"), false);
		level_begin(json, '{', '}', false);
		write_record(json, &provenance_record, header->provenance);
		level_end(json);
	}
	put(json, "ok", value_bool(header->status == 0));
	write_beside(
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
		write_head(json, header);
		record_end(json);
	} else if (!json->bare) {
		level_begin(json, '{', '}', false);
		write_head(json, header);
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

static void write_omissions(struct json *json, const struct out_footer *footer)
{
	if (footer->omission_count != 0)
		write_beside(json, "omitted", NULL, &omission_record, footer->omissions,
			footer->omission_count);
}

static void write_notes(struct json *json, const struct out_footer *footer)
{
	if (footer->note_count == 0)
		return;
	member(json, text_of("notes"), true);
	level_begin(json, '[', ']', false);
	for (size_t i = 0; i < footer->note_count; i++)
		put(json, NULL, value_text(text_of(footer->notes[i])));
	level_end(json);
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

static void write_interrupted(struct json *json, const struct out_footer *footer)
{
	if (footer->interrupted)
		put(json, "interrupted", value_bool(true));
}

static void end(struct out *out, const struct out_footer *footer)
{
	struct json *json = json_of(out);
	if (json->lines) {
		close_data(json);
		json->to = &json->stream;
		json->depth = 0;
		write_beside(json, NULL, "finding", &finding_record, footer->findings,
			footer->finding_count);
		write_beside(json, NULL, "error", &failure_record, footer->failures,
			footer->failure_count);
		element_begin(json, "end");
		write_known(json, "items", json->items);
		write_known(json, "findings", footer->finding_count);
		write_known(json, "errors", footer->failure_count);
		put(json, "ok", value_bool(footer->status == 0));
		put(json, "status", value_integer(footer->status));
		write_interrupted(json, footer);
		write_omissions(json, footer);
		write_notes(json, footer);
		member(json, text_of("data"), false);
		if (json->has_data && !footer->broken)
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
	} else {
		close_data(json);
		json->to = &json->stream;
		if (!json->bare) {
			write_beside(json, "findings", NULL, &finding_record,
				footer->findings, footer->finding_count);
			write_beside(json, "errors", NULL, &failure_record,
				footer->failures, footer->failure_count);
			write_omissions(json, footer);
			write_notes(json, footer);
			write_interrupted(json, footer);
			level_end(json);
		}
		if (!json->bare || json->has_data)
			writer_char(json->to, '\n');
	}
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
	write_json_string(json->to, json->of, strlen(json->of));
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
	bool valid = write_json_value(json->to, value);
	bool is_name = value->type == VALUE_NAME && !named && key.size == 4 &&
		       memcmp(key.data, "name", 4) == 0;
	if (!valid && is_name) {
		member(json, text_of("name_b64"), false);
		write_json_base64(json->to, value->text);
	}
	if (item)
		item_end(json);
}

/* ---- tables ---- */

static void table_begin(struct out *out, const struct table *table)
{
	struct json *json = json_of(out);
	json->hidden = table->text_only || table->rows_only;
	if (json->hidden)
		return;
	columns_for_machine(table, &json->columns);
	json->row_is_item = json->lines && table->main;
	if (json->row_is_item) {
		size_t kept = 0;

		for (size_t i = 0; i < json->columns.count; i++)
			if (!is_of_line(
				    text_of(table->columns[json->columns.items[i]].name)))
				json->columns.items[kept++] = json->columns.items[i];
		json->columns.count = kept;
	}
	json->keys.size = 0;
	for (size_t i = 0; i < json->columns.count; i++) {
		const char *name = table->columns[json->columns.items[i]].name;
		writer_char(&json->keys, ',');
		write_json_string(&json->keys, name, strlen(name));
		writer_char(&json->keys, ':');
		json->key_ends[i] = json->keys.size;
		json->is_name[i] = strcmp(name, "name") == 0;
	}
	if (json->row_is_item)
		items_begin(out, text_of(table->key));
	else
		array_begin(out, text_of(table->key), false);
}

static void write_columns(struct json *json, const struct value *values)
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
		bool valid = write_json_value(to, value);
		if (!valid && json->is_name[i] && value->type == VALUE_NAME) {
			writer_text(to, ",\"name_b64\":");
			write_json_base64(to, value->text);
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
		write_columns(json, values);
		item_end(json);
	} else {
		comma(json, json->depth == IN_DATA + 1);
		level_begin(json, '{', '}', false);
		write_columns(json, values);
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

static void start(struct out *out, FILE *stream, const struct looks *looks)
{
	struct json *json = json_of(out);

	(void)stream;
	json->lines = out->functions == &jsonl_functions;
	json->to = &json->stream;
	json->stream.ascii = json->rest.ascii = json->keys.ascii = looks->seven_bits;
}

static int finish(struct out *out)
{
	struct json *json = json_of(out);
	writer_flush(&json->stream);
	return json->stream.error != 0 ? json->stream.error : json->base.error;
}

#define JSON_FUNCTIONS                                                                  \
	.size = sizeof(struct json),                                                    \
	.writers = { offsetof(struct json, stream), offsetof(struct json, rest),        \
		offsetof(struct json, keys) },                                          \
	.start = start, .finish = finish, .begin = begin, .end = end,                   \
	.object_begin = object_begin, .object_end = object_end,                         \
	.array_begin = array_begin, .items_begin = items_begin, .array_end = array_end, \
	.field = field, .shows = columns_for_machine, .table_begin = table_begin,       \
	.row = row, .table_end = table_end

const struct out_functions json_functions = { JSON_FUNCTIONS };
const struct out_functions jsonl_functions = { JSON_FUNCTIONS };

/*
 * A document in addition to an answer: objects that are emitted only for it are written
 * as JSON without an envelope.
 */

struct plan_file {
	struct out base;
	struct out *json;
};

static struct out *inner(struct out *out)
{
	return ((struct plan_file *)out)->json;
}

static void plan_begin(struct out *out, const struct out_header *header)
{
	struct out_header bare = *header;

	bare.bare = true;
	out_begin(inner(out), &bare);
}

static void plan_end(struct out *out, const struct out_footer *footer)
{
	out_end(inner(out), footer);
}

static int plan_finish(struct out *out)
{
	return out_finish(inner(out));
}

static void plan_free(struct out *out)
{
	out_free(inner(out));
}

static void plan_start(struct out *out, FILE *stream, const struct looks *looks)
{
	struct plan_file *plan = (struct plan_file *)out;

	plan->json = out_start(&json_functions, stream, looks);
}

const struct out_functions plan_functions = {
	.size = sizeof(struct plan_file),
	.start = plan_start,
	.finish = plan_finish,
	.free = plan_free,
	.begin = plan_begin,
	.end = plan_end,
	.aside = inner,
};
