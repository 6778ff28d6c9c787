/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small JSON files that a user names, which jansson parses, and earlier results read from
 * them. JSON of a checkpoint is hostile, has limits of its own and is read by the scanner
 * (lib/syntax).
 */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include <fsdp/document.h>
#include <fsdp/error.h>

#include "base/arena.h"
#include "base/num.h"
#include "io/archive.h"
#include "io/directory.h"
#include "io/source.h"
#include "syntax/json-scan.h"

/* ---- Earlier results: parts of the JSON that the program writes ---- */

struct fsdp_replay_baseline {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_vec types; /* struct fsdp_replay_baseline_type */
};

struct result_reader {
	struct fsdp_replay_baseline *result;
	struct fsdp_json_walk json;
	bool is_replay;
};

/* {"type": T, "count": N, "sum_ns": N, …} after its brace. */
static void read_type(struct result_reader *reader)
{
	struct fsdp_json_token *token = &reader->json.token;
	struct fsdp_replay_baseline_type type = { .name = FSDP_SPAN(""),
		.sum_ns = FSDP_ABSENT };
	int64_t count = 0;
	while (fsdp_json_walk_more(&reader->json)) {
		bool name = fsdp_json_text_is(token, FSDP_SPAN("type"));
		bool counts = fsdp_json_text_is(token, FSDP_SPAN("count"));
		bool sum = fsdp_json_text_is(token, FSDP_SPAN("sum_ns"));
		fsdp_json_walk_skip(&reader->json);
		if (name && token->kind == FSDP_SCAN_TEXT)
			type.name = fsdp_json_text_copy(token, &reader->result->arena);
		if (counts && token->kind == FSDP_SCAN_NUMBER &&
			fsdp_decimal_integer(token->span, &count) && count >= 0)
			type.count = (uint64_t)count;
		if (sum && token->kind == FSDP_SCAN_NUMBER)
			fsdp_decimal_integer(token->span, &type.sum_ns);
	}
	fsdp_vec_append(&reader->result->types, &type);
}

/* The array of types after its key. */
static void read_types(struct result_reader *reader)
{
	fsdp_json_walk_next(&reader->json);
	if (reader->json.token.kind != FSDP_SCAN_ARRAY) {
		fsdp_json_walk_skip(&reader->json);
		return;
	}
	while (fsdp_json_walk_more(&reader->json))
		if (reader->json.token.kind == FSDP_SCAN_OBJECT)
			read_type(reader);
		else
			fsdp_json_walk_skip(&reader->json);
}

static void read_data(struct result_reader *reader)
{
	fsdp_json_walk_next(&reader->json);
	if (reader->json.token.kind != FSDP_SCAN_OBJECT) {
		fsdp_json_walk_skip(&reader->json);
		return;
	}
	while (fsdp_json_walk_more(&reader->json))
		if (fsdp_json_text_is(&reader->json.token, FSDP_SPAN("types")))
			read_types(reader);
		else
			fsdp_json_walk_skip(&reader->json);
}

static void read_root(void *context)
{
	struct result_reader *reader = context;
	struct fsdp_json_token *token = &reader->json.token;
	fsdp_json_walk_next(&reader->json);
	bool is_object = token->kind == FSDP_SCAN_OBJECT;
	while (is_object && fsdp_json_walk_more(&reader->json)) {
		if (fsdp_json_text_is(token, FSDP_SPAN("data"))) {
			read_data(reader);
			continue;
		}
		bool schema = fsdp_json_text_is(token, FSDP_SPAN("schema"));
		fsdp_json_walk_skip(&reader->json);
		if (schema && token->kind == FSDP_SCAN_TEXT)
			reader->is_replay = fsdp_json_text_is(
				token, FSDP_SPAN("fsdp-inspect.replay"));
	}
	if (reader->is_replay)
		return;
	fsdp_fail(reader->json.error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
		"this is not a result of fsdp-inspect replay --json");
	fsdp_error_add_hint(reader->json.error,
		"make one: fsdp-inspect replay -o json=FILE TRACE...");
	fsdp_arena_leave(&reader->result->arena);
}

static bool read_result(struct fsdp_replay_baseline *result, struct fsdp_remote *remote,
	const char *path, struct fsdp_error **ret_error)
{
	struct result_reader reader = { .result = result,
		.json = { .arena = &result->arena, .error = ret_error } };
	struct fsdp_limits limits;
	struct fsdp_stream_options options = { .remote = remote, .limits = &limits };
	struct fsdp_stream *stream;
	fsdp_limits_init(&limits);
	result->budget.ceiling = fsdp_limit(&limits, FSDP_LIMIT_MEMORY);
	fsdp_arena_init(&result->arena, &result->budget);
	fsdp_vec_init(
		&result->types, &result->arena, sizeof(struct fsdp_replay_baseline_type));
	if (!fsdp_stream_open(path, &options, &stream, ret_error))
		return false;
	bool good = fsdp_json_scan_init(&reader.json.scan, fsdp_stream_refill, stream,
			    &limits, ret_error) &&
		    (fsdp_arena_try(&result->arena, read_root, &reader) ||
			    fsdp_arena_fail(&result->arena, ret_error));
	fsdp_json_scan_done(&reader.json.scan);
	fsdp_stream_close(stream);
	return good || fsdp_error_add_path(ret_error, path);
}

bool fsdp_replay_baseline_open(struct fsdp_remote *remote, const char *path,
	struct fsdp_replay_baseline **ret_result, struct fsdp_error **ret_error)
{
	struct fsdp_replay_baseline *result = calloc(1, sizeof *result);
	if (result == NULL)
		return fsdp_fail_memory(ret_error);
	if (!read_result(result, remote, path, ret_error)) {
		fsdp_replay_baseline_free(result);
		return false;
	}
	*ret_result = result;
	return true;
}

void fsdp_replay_baseline_free(struct fsdp_replay_baseline *result)
{
	if (result == NULL)
		return;
	fsdp_arena_done(&result->arena);
	free(result);
}

size_t fsdp_replay_baseline_type_count(const struct fsdp_replay_baseline *result)
{
	return result->types.count;
}

struct fsdp_replay_baseline_type fsdp_replay_baseline_type(
	const struct fsdp_replay_baseline *result, size_t index)
{
	return *(const struct fsdp_replay_baseline_type *)fsdp_vec_at(
		&result->types, index);
}

/* ---- Documents ---- */

enum {
	DOCUMENT_BYTES = 64 << 20,
	LINES_BYTES = 1 << 30,
	VALUE_BYTES = 160, /* that a value takes at most, its texts apart */
	FREE_FACTOR = 12,  /* so many times its bytes a document may take in any case */
};

/* A member of the outermost object. */
struct root_member {
	const char *key;
	json_t *value;
};

struct fsdp_document {
	struct fsdp_budget budget;
	struct fsdp_arena arena; /* of the bytes and the members */
	json_t *root;
	bool lines;
	size_t flags; /* of jansson */
	uint64_t sum; /* of lines */
	const struct root_member *members;
};

/* Each value except the first follows a bracket, a comma or a colon. */
static bool check_size(struct fsdp_span bytes, const struct fsdp_limits *limits,
	struct fsdp_error **ret_error)
{
	uint64_t values = 1, limit = fsdp_limit(limits, FSDP_LIMIT_JSON_TREE);
	for (size_t i = 0; i < bytes.size; i++)
		values += bytes.data[i] == ',' || bytes.data[i] == '[' ||
			  bytes.data[i] == ':';
	if (values * VALUE_BYTES <= FREE_FACTOR * (uint64_t)bytes.size ||
		values * VALUE_BYTES <= limit)
		return true;
	return fsdp_fail_limit(ret_error, FSDP_LIMIT_JSON_TREE, limit);
}

static json_t *parse_value(
	struct fsdp_span bytes, int line, size_t flags, struct fsdp_error **ret_error)
{
	json_error_t error;
	json_t *value = json_loadb((const char *)bytes.data, bytes.size,
		JSON_REJECT_DUPLICATES | flags, &error);
	if (value != NULL)
		return value;
	if (json_error_code(&error) == json_error_out_of_memory)
		fsdp_fail_memory(ret_error);
	else
		fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, (uint64_t)error.position,
			"line %d, column %d: %s", line + error.line, error.column,
			error.text);
	return NULL;
}

static bool parse_lines(struct fsdp_document *document, struct fsdp_span bytes,
	struct fsdp_error **ret_error)
{
	document->root = json_array();
	if (document->root == NULL)
		return fsdp_fail_memory(ret_error);
	/* FNV-1a of the text before the last comma, without white space between values.
	 */
	uint64_t sum = UINT64_C(14695981039346656037), in_front = sum;
	bool in_text = false, escaped = false;

	FSDP_EACH(i, bytes.size, byte, bytes.data[i]) {
		if (!in_text && memchr(" \t\r\n", byte, 4) != NULL)
			continue;
		if (!in_text && byte == ',')
			in_front = sum;
		if (byte == '"' && !escaped)
			in_text = !in_text;
		escaped = in_text && byte == '\\' && !escaped;
		sum = (sum ^ byte) * UINT64_C(1099511628211);
	}
	document->sum = in_front;
	for (int number = 0; bytes.size != 0; number++) {
		struct fsdp_span line = fsdp_span_first(bytes, '\n');
		size_t skip = line.size < bytes.size ? line.size + 1 : line.size;
		bytes = fsdp_span(bytes.data + skip, bytes.size - skip);
		json_t *value = parse_value(line, number, document->flags, ret_error);
		if (value == NULL)
			return false;
		if (json_array_append_new(document->root, value) != 0)
			return fsdp_fail_memory(ret_error);
	}
	return true;
}

static bool parse(struct fsdp_document *document, struct fsdp_span bytes,
	struct fsdp_error **ret_error)
{
	if (document->lines)
		return parse_lines(document, bytes, ret_error);
	document->root = parse_value(bytes, 0, document->flags, ret_error);
	if (document->root == NULL)
		return false;
	/* So that each of many is found by its number. */
	struct root_member *members = FSDP_TAKE(
		&document->arena, members, json_object_size(document->root) + 1);
	const char *key;
	json_t *value;
	size_t count = 0;

	if (members == NULL)
		return fsdp_arena_fail(&document->arena, ret_error);
	json_object_foreach(document->root, key, value) members[count++] =
		(struct root_member){ key, value };
	document->members = members;
	return true;
}

static bool read_file(struct fsdp_document *document, struct fsdp_remote *remote,
	const char *path, const struct fsdp_limits *limits, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	if (!fsdp_file_open(remote, path, &source, ret_error))
		return false;
	int most = document->lines ? LINES_BYTES : DOCUMENT_BYTES;
	struct fsdp_span bytes;
	bool good = source.size > (uint64_t)most
			    ? fsdp_fail(ret_error, FSDP_ERROR_LIMIT, FSDP_UNKNOWN,
				      "the file has %llu bytes, at most %d are read",
				      (unsigned long long)source.size, most)
			    : fsdp_source_read_all(&source, 0, source.size,
				      &document->arena, &bytes, ret_error) &&
				      check_size(bytes, limits, ret_error) &&
				      parse(document, bytes, ret_error);
	if (source.fd >= 0)
		close(source.fd);
	return good || fsdp_error_add_path(ret_error, path);
}

bool fsdp_document_is(struct fsdp_remote *remote, const char *path)
{
	enum { LOOK = 8 };
	struct fsdp_source source;
	char bytes[LOOK];
	size_t at = 0;

	if (!fsdp_file_open(remote, path, &source, NULL))
		return false;
	size_t size = (size_t)fsdp_min(source.size, LOOK);
	bool good = fsdp_source_read(&source, 0, bytes, size, NULL);
	if (source.fd >= 0)
		close(source.fd);
	while (at < size && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
		at++;
	return good && size > 0 && memchr(bytes, '\0', size) == NULL &&
	       (at == size || bytes[at] == '[' || bytes[at] == '{');
}

/* Without its content. */
static struct fsdp_document *new_document(const struct fsdp_limits *limits)
{
	struct fsdp_document *document = calloc(1, sizeof *document);
	if (document == NULL)
		return NULL;
	document->budget.ceiling = fsdp_limit(limits, FSDP_LIMIT_MEMORY);
	fsdp_arena_init(&document->arena, &document->budget);
	return document;
}

bool fsdp_document_parse(struct fsdp_span text, struct fsdp_document **ret_document,
	struct fsdp_error **ret_error)
{
	struct fsdp_limits limits;
	fsdp_limits_init(&limits);
	struct fsdp_document *document = new_document(&limits);
	if (document == NULL)
		return fsdp_fail_memory(ret_error);
	document->flags = JSON_ALLOW_NUL;
	if (!check_size(text, &limits, ret_error) || !parse(document, text, ret_error)) {
		fsdp_document_free(document);
		return false;
	}
	*ret_document = document;
	return true;
}

static bool open_document(struct fsdp_remote *remote, const char *path, bool lines,
	const struct fsdp_limit_setting *settings, size_t setting_count,
	struct fsdp_document **ret_document, struct fsdp_error **ret_error)
{
	struct fsdp_limits limits;
	if (!fsdp_limits_choose(&limits, settings, setting_count, ret_error))
		return false;
	struct fsdp_document *document = new_document(&limits);
	if (document == NULL)
		return fsdp_fail_memory(ret_error);
	document->lines = lines;
	if (!read_file(document, remote, path, &limits, ret_error)) {
		fsdp_document_free(document);
		return false;
	}
	*ret_document = document;
	return true;
}

bool fsdp_document_open(struct fsdp_remote *remote, const char *path,
	const struct fsdp_limit_setting *settings, size_t setting_count,
	struct fsdp_document **ret_document, struct fsdp_error **ret_error)
{
	return open_document(
		remote, path, false, settings, setting_count, ret_document, ret_error);
}

bool fsdp_document_open_lines(const char *path, const struct fsdp_limit_setting *settings,
	size_t setting_count, struct fsdp_document **ret_document, uint64_t *ret_sum,
	struct fsdp_error **ret_error)
{
	if (!open_document(
		    NULL, path, true, settings, setting_count, ret_document, ret_error))
		return false;
	*ret_sum = (*ret_document)->sum;
	return true;
}

void fsdp_document_free(struct fsdp_document *document)
{
	if (document == NULL)
		return;
	json_decref(document->root);
	fsdp_arena_done(&document->arena);
	free(document);
}

/* ---- values ---- */

static struct fsdp_document_value value_of(const char *key, json_t *json)
{
	static const enum fsdp_document_kind kinds[] = {
		[JSON_OBJECT] = FSDP_DOCUMENT_OBJECT,
		[JSON_ARRAY] = FSDP_DOCUMENT_LIST,
		[JSON_STRING] = FSDP_DOCUMENT_TEXT,
		[JSON_INTEGER] = FSDP_DOCUMENT_INTEGER,
		[JSON_REAL] = FSDP_DOCUMENT_REAL,
		[JSON_TRUE] = FSDP_DOCUMENT_BOOL,
		[JSON_FALSE] = FSDP_DOCUMENT_BOOL,
		[JSON_NULL] = FSDP_DOCUMENT_NULL,
	};
	struct fsdp_document_value value = { 0 };
	if (json == NULL)
		return value;
	value.kind = kinds[json_typeof(json)];
	value.node = json;
	if (key != NULL)
		value.key = fsdp_span_text(key);
	if (json_is_string(json))
		value.text = fsdp_span(json_string_value(json), json_string_length(json));
	value.integer = json_is_true(json) ? 1 : json_integer_value(json);
	value.real = json_real_value(json);
	value.count =
		json_is_array(json) ? json_array_size(json) : json_object_size(json);
	return value;
}

struct fsdp_document_value fsdp_document_root(const struct fsdp_document *document)
{
	struct fsdp_document_value value = value_of(NULL, document->root);
	value.members = document->members;
	return value;
}

struct fsdp_document_value fsdp_document_item(
	struct fsdp_document_value value, size_t index)
{
	const struct root_member *members = value.members;
	if (index >= value.count)
		return (struct fsdp_document_value){ 0 };
	if (value.kind == FSDP_DOCUMENT_LIST)
		return value_of(NULL, json_array_get(value.node, index));
	if (members != NULL)
		return value_of(members[index].key, members[index].value);
	void *at = json_object_iter(value.node);

	for (size_t i = 0; i < index; i++)
		at = json_object_iter_next(value.node, at);
	return value_of(json_object_iter_key(at), json_object_iter_value(at));
}

struct fsdp_document_value fsdp_document_get(
	struct fsdp_document_value value, const char *key)
{
	return value.kind == FSDP_DOCUMENT_OBJECT
		       ? value_of(key, json_object_get(value.node, key))
		       : (struct fsdp_document_value){ 0 };
}

/* ---- Versions of the library and of linked libraries ---- */

const char *fsdp_version(void)
{
	return FSDP_VERSION;
}

/* "libarchive 3.6.2" without its name. */
static const char *behind_blank(const char *text)
{
	const char *blank = strchr(text, ' ');
	return blank != NULL ? blank + 1 : text;
}

size_t fsdp_library_count(void)
{
	return 3;
}

struct fsdp_library fsdp_library(size_t index)
{
	switch (index) {
	case 0:
		/* The version of the library that parses documents. */
		return (struct fsdp_library){ "jansson", behind_blank(JANSSON_VERSION) };
	case 1:
		return (struct fsdp_library){ "libarchive",
			behind_blank(fsdp_archive_version()) };
	case 2:
		return (struct fsdp_library){ "zlib", fsdp_inflate_version() };
	default:
		return (struct fsdp_library){ 0 };
	}
}
