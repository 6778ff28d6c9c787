/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door to earlier results: reads back parts of the JSON that the program writes.
 */
#include <stdlib.h>

#include <fsdp/result.h>

#include "base/limits.h"
#include "base/vec.h"
#include "io/stream.h"
#include "syntax/json-scan.h"

struct fsdp_result {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_vec types; /* struct fsdp_result_type */
};

struct result_reader {
	struct fsdp_result *result;
	struct fsdp_json_scan scan;
	struct fsdp_error **error;
	bool is_replay;
};

static bool next(struct result_reader *reader, struct fsdp_json_token *token)
{
	return fsdp_json_scan_next(&reader->scan, token, reader->error);
}

static bool skip(struct result_reader *reader, struct fsdp_json_token *token)
{
	return fsdp_json_scan_skip(&reader->scan, token, reader->error);
}

/* {"type": T, "count": N, "sum_ns": N, …} behind its brace. */
static bool read_type(struct result_reader *reader)
{
	struct fsdp_json_token token;
	struct fsdp_result_type *type = fsdp_vec_push(&reader->result->types);
	int64_t count = 0;
	if (type == NULL)
		return fsdp_arena_fail(&reader->result->arena, reader->error);
	*type = (struct fsdp_result_type){ .name = FSDP_SPAN(""), .sum_ns = FSDP_ABSENT };
	for (;;) {
		if (!next(reader, &token))
			return false;
		if (token.kind != FSDP_SCAN_KEY)
			return true;
		bool name = fsdp_json_text_is(&token, FSDP_SPAN("type"));
		bool counts = fsdp_json_text_is(&token, FSDP_SPAN("count"));
		bool sum = fsdp_json_text_is(&token, FSDP_SPAN("sum_ns"));
		if (!skip(reader, &token))
			return false;
		if (name && token.kind == FSDP_SCAN_TEXT) {
			type->name = fsdp_json_text_copy(&token, &reader->result->arena);
			if (type->name.data == NULL)
				return fsdp_arena_fail(
					&reader->result->arena, reader->error);
		}
		if (counts && token.kind == FSDP_SCAN_NUMBER &&
			fsdp_decimal_integer(token.span, &count) && count >= 0)
			type->count = (uint64_t)count;
		if (sum && token.kind == FSDP_SCAN_NUMBER)
			fsdp_decimal_integer(token.span, &type->sum_ns);
	}
}

/* The array of types behind its key. */
static bool read_types(struct result_reader *reader)
{
	struct fsdp_json_token token;
	if (!next(reader, &token))
		return false;
	if (token.kind != FSDP_SCAN_ARRAY)
		return skip(reader, &token);
	for (;;) {
		if (!next(reader, &token))
			return false;
		if (token.kind == FSDP_SCAN_ARRAY_END)
			return true;
		if (token.kind == FSDP_SCAN_OBJECT ? !read_type(reader)
						   : !skip(reader, &token))
			return false;
	}
}

static bool read_data(struct result_reader *reader)
{
	struct fsdp_json_token token;
	if (!next(reader, &token))
		return false;
	if (token.kind != FSDP_SCAN_OBJECT)
		return skip(reader, &token);
	for (;;) {
		if (!next(reader, &token))
			return false;
		if (token.kind != FSDP_SCAN_KEY)
			return true;
		if (fsdp_json_text_is(&token, FSDP_SPAN("types")) ? !read_types(reader)
								  : !skip(reader, &token))
			return false;
	}
}

static bool fail_other(struct result_reader *reader)
{
	fsdp_fail(reader->error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
		"this is not a result of fsdp-inspect replay --json");
	return fsdp_error_add_hint(
		reader->error, "make one: fsdp-inspect replay -o json=FILE TRACE...");
}

static bool read_root(struct result_reader *reader)
{
	struct fsdp_json_token token;
	if (!next(reader, &token))
		return false;
	if (token.kind != FSDP_SCAN_OBJECT)
		return fail_other(reader);
	for (;;) {
		if (!next(reader, &token))
			return false;
		if (token.kind != FSDP_SCAN_KEY)
			break;
		if (fsdp_json_text_is(&token, FSDP_SPAN("data"))) {
			if (!read_data(reader))
				return false;
			continue;
		}
		bool schema = fsdp_json_text_is(&token, FSDP_SPAN("schema"));
		if (!skip(reader, &token))
			return false;
		if (schema && token.kind == FSDP_SCAN_TEXT)
			reader->is_replay = fsdp_json_text_is(
				&token, FSDP_SPAN("fsdp-inspect.replay"));
	}
	return reader->is_replay || fail_other(reader);
}

static bool read_result(
	struct fsdp_result *result, const char *path, struct fsdp_error **ret_error)
{
	struct result_reader reader = { .result = result, .error = ret_error };
	struct fsdp_limits limits;
	struct fsdp_stream_options options = { .limits = &limits };
	struct fsdp_stream *stream;
	fsdp_limits_init(&limits);
	result->budget.ceiling = fsdp_limit(&limits, FSDP_LIMIT_MEMORY);
	fsdp_arena_init(&result->arena, &result->budget);
	fsdp_vec_init(&result->types, &result->arena, sizeof(struct fsdp_result_type));
	if (!fsdp_stream_open(path, &options, &stream, ret_error))
		return false;
	bool good = fsdp_json_scan_init(&reader.scan, fsdp_stream_refill, stream, &limits,
			    ret_error) &&
		    read_root(&reader);
	fsdp_json_scan_done(&reader.scan);
	fsdp_stream_close(stream);
	if (!good)
		fsdp_error_add_path(ret_error, path);
	return good;
}

bool fsdp_result_open(
	const char *path, struct fsdp_result **ret_result, struct fsdp_error **ret_error)
{
	struct fsdp_result *result = calloc(1, sizeof *result);
	if (result == NULL)
		return fsdp_fail_memory(ret_error);
	if (!read_result(result, path, ret_error)) {
		fsdp_result_free(result);
		return false;
	}
	*ret_result = result;
	return true;
}

void fsdp_result_free(struct fsdp_result *result)
{
	if (result == NULL)
		return;
	fsdp_arena_done(&result->arena);
	free(result);
}

size_t fsdp_result_type_count(const struct fsdp_result *result)
{
	return result->types.count;
}

struct fsdp_result_type fsdp_result_type(const struct fsdp_result *result, size_t index)
{
	return *(const struct fsdp_result_type *)fsdp_vec_at(&result->types, index);
}
