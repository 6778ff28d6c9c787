/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door to small JSON files that a user names.
 */
#include <stdlib.h>
#include <unistd.h>

#include <fsdp/document.h>

#include "base/limits.h"
#include "store/dir.h"
#include "syntax/json-tree.h"

enum { DOCUMENT_BYTES = 64 << 20 };

struct fsdp_document {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	const struct fsdp_json *root;
};

static bool read_source(struct fsdp_document *document, const struct fsdp_source *source,
	const struct fsdp_limits *limits, struct fsdp_error **ret_error)
{
	struct fsdp_span bytes;

	if (source->size > DOCUMENT_BYTES)
		return fsdp_fail(ret_error, FSDP_ERROR_LIMIT, FSDP_UNKNOWN,
			"the file has %llu bytes, at most %d are read",
			(unsigned long long)source->size, DOCUMENT_BYTES);
	return fsdp_source_read_all(
		       source, 0, source->size, &document->arena, &bytes, ret_error) &&
	       fsdp_json_read(
		       bytes, limits, &document->arena, &document->root, ret_error);
}

static bool read_file(struct fsdp_document *document, const char *path,
	const struct fsdp_limits *limits, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	bool good;

	if (!fsdp_file_open(path, &source, ret_error))
		return false;
	good = read_source(document, &source, limits, ret_error);
	close(source.fd);
	return good || fsdp_error_add_path(ret_error, path);
}

bool fsdp_document_open(const char *path, const struct fsdp_limit_setting *settings,
	size_t setting_count, struct fsdp_document **ret_document,
	struct fsdp_error **ret_error)
{
	struct fsdp_document *document = calloc(1, sizeof *document);
	struct fsdp_limits limits;

	if (document == NULL)
		return fsdp_fail_memory(ret_error);
	fsdp_limits_init(&limits);
	for (size_t i = 0; i < setting_count; i++)
		fsdp_limits_set(&limits, settings[i].name, settings[i].value);
	document->budget.ceiling = fsdp_limit(&limits, FSDP_LIMIT_MEMORY);
	fsdp_arena_init(&document->arena, &document->budget);
	if (!read_file(document, path, &limits, ret_error)) {
		fsdp_document_free(document);
		return false;
	}
	*ret_document = document;
	return true;
}

void fsdp_document_free(struct fsdp_document *document)
{
	if (document == NULL)
		return;
	fsdp_arena_done(&document->arena);
	free(document);
}

/* ---- values ---- */

static struct fsdp_document_value value_of(const struct fsdp_json *json)
{
	static const enum fsdp_document_kind kinds[] = {
		[FSDP_JSON_NULL] = FSDP_DOCUMENT_NULL,
		[FSDP_JSON_BOOL] = FSDP_DOCUMENT_BOOL,
		[FSDP_JSON_INTEGER] = FSDP_DOCUMENT_INTEGER,
		[FSDP_JSON_REAL] = FSDP_DOCUMENT_REAL,
		[FSDP_JSON_TEXT] = FSDP_DOCUMENT_TEXT,
		[FSDP_JSON_ARRAY] = FSDP_DOCUMENT_LIST,
		[FSDP_JSON_OBJECT] = FSDP_DOCUMENT_OBJECT,
		[FSDP_JSON_INTEGERS] = FSDP_DOCUMENT_LIST,
	};
	struct fsdp_document_value value = { 0 };

	if (json == NULL)
		return value;
	value = (struct fsdp_document_value){
		.kind = kinds[json->kind],
		.key = json->key,
		.node = json,
	};
	if (value.kind == FSDP_DOCUMENT_LIST || value.kind == FSDP_DOCUMENT_OBJECT)
		value.count = json->count;
	else if (value.kind == FSDP_DOCUMENT_TEXT)
		value.text = json->text;
	else if (value.kind == FSDP_DOCUMENT_REAL)
		value.real = json->real;
	else if (value.kind != FSDP_DOCUMENT_NULL)
		value.integer = json->integer;
	return value;
}

struct fsdp_document_value fsdp_document_root(const struct fsdp_document *document)
{
	return value_of(document->root);
}

struct fsdp_document_value fsdp_document_item(
	struct fsdp_document_value value, size_t index)
{
	const struct fsdp_json *json = value.node;

	if (index >= value.count)
		return (struct fsdp_document_value){ 0 };
	if (json->kind == FSDP_JSON_INTEGERS)
		return (struct fsdp_document_value){ .kind = FSDP_DOCUMENT_INTEGER,
			.integer = json->integers[index] };
	return value_of(&json->items[index]);
}

struct fsdp_document_value fsdp_document_get(
	struct fsdp_document_value value, const char *key)
{
	return value.kind == FSDP_DOCUMENT_OBJECT
		       ? value_of(fsdp_json_get(value.node, key))
		       : (struct fsdp_document_value){ 0 };
}
