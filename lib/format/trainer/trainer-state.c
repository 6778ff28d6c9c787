/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of trainer_state.json what is neither a list nor an object: step, epoch, what was best.
 * Python writes losses that are not a number as NaN, so it is read leniently.
 *
 *	{"global_step": n, "epoch": x, "best_metric": x, "log_history": [{…}, …], …}
 *
 * Origin: transformers/trainer_callback.py (5.23), and files of it.
 */
#include "format/trainer/trainer-reading.h"
#include "syntax/json-scan.h"

#define FILE_NAME "trainer_state.json"
#define GROUP "trainer_state"

/* Only these: others say how often something is done, or are about this process. How far
 * training was has the name that it has in all checkpoints. */
static const struct state_key {
	const char *name;
	bool is_progress;
} keys[] = {
	{ "best_global_step", false },
	{ "best_metric", false },
	{ "best_model_checkpoint", false },
	{ "epoch", true },
	{ "global_step", true },
	{ "max_steps", false },
	{ "num_train_epochs", false },
	{ "num_input_tokens_seen", false },
	{ "total_flos", false },
	{ "train_batch_size", false },
};

struct state_reader {
	struct fsdp_reading *reading;
	struct fsdp_source_rest rest;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	uint32_t file;
};

static const struct state_key *wanted_key(const struct fsdp_json_token *token)
{
	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (fsdp_json_text_is(token, fsdp_span_text(keys[i].name)))
			return &keys[i];
	return NULL;
}

/* *ret_type NULL: no value that is shown. */
static bool set_token(struct state_reader *reader, struct fsdp_token *token,
	const char **ret_type, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = reader->reading->scratch;
	bool no_memory = false;
	*ret_type = NULL;
	if (reader->token.kind == FSDP_SCAN_TEXT) {
		token->kind = FSDP_TOKEN_TEXT;
		token->text = fsdp_json_text_copy(
			&reader->token, reader->reading->model->arena);
		*ret_type = "str";
		return token->text.data != NULL ||
		       fsdp_arena_fail(reader->reading->model->arena, ret_error);
	}
	if (reader->token.kind != FSDP_SCAN_NUMBER)
		return true;
	if (fsdp_decimal_integer(reader->token.span, &token->integer) &&
		memchr(reader->token.span.data, '.', reader->token.span.size) == NULL) {
		token->kind = FSDP_TOKEN_INTEGER;
		*ret_type = "int";
	} else if (fsdp_decimal_real(
			   reader->token.span, scratch, &token->number, &no_memory)) {
		token->kind = FSDP_TOKEN_FLOAT;
		*ret_type = "float";
	}
	return !no_memory || fsdp_arena_fail(scratch, ret_error);
}

static bool add_value(struct state_reader *reader, const struct state_key *key,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reader->reading->model;
	struct fsdp_token *token = FSDP_TAKE(model->arena, token, 1);
	struct fsdp_path_builder *path = FSDP_TAKE(reader->reading->scratch, path, 1);
	struct fsdp_value_record value = {
		.file = reader->file,
		.rank = FSDP_NONE,
		.tokens = token,
		.token_count = 1,
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
	};
	if (token == NULL || path == NULL)
		return fsdp_arena_fail(model->arena, ret_error);
	if (!set_token(reader, token, &value.type, ret_error))
		return false;
	if (value.type == NULL)
		return true;
	uint32_t parent = 0;
	if (!key->is_progress) {
		path->parts[path->count++].length = sizeof GROUP - 1;
		parent = fsdp_names_child(&model->names, 0, FSDP_SPAN(GROUP));
	}
	path->parts[path->count++].length = (uint32_t)strlen(key->name);
	if (parent == FSDP_NONE)
		return fsdp_arena_fail(model->arena, ret_error);
	return fsdp_build_names(model, parent, fsdp_span_text(key->name), false,
		       &value.name, &value.raw_name, ret_error) &&
	       fsdp_build_path(model, path, &value.path, ret_error) &&
	       fsdp_build_value(model, &value, ret_error) != FSDP_NONE;
}

/* The members of the object; *ret_whole: it is one, up to its end. */
static bool read_members(
	struct state_reader *reader, bool *ret_whole, struct fsdp_error **ret_error)
{
	struct fsdp_json_scan *scan = &reader->scan;
	struct fsdp_json_token *token = &reader->token;
	if (!fsdp_json_scan_next(scan, token, ret_error))
		return false;
	if (token->kind != FSDP_SCAN_OBJECT)
		return true;
	while (fsdp_json_scan_next(scan, token, ret_error)) {
		const struct state_key *key;
		*ret_whole = token->kind == FSDP_SCAN_OBJECT_END;
		if (token->kind != FSDP_SCAN_KEY)
			return true;
		key = wanted_key(token);
		if (key == NULL) {
			if (!fsdp_json_scan_skip(scan, token, ret_error))
				return false;
			if (token->kind == FSDP_SCAN_BAD || token->kind == FSDP_SCAN_CUT)
				return true;
			continue;
		}
		if (!fsdp_json_scan_next(scan, token, ret_error) ||
			!add_value(reader, key, ret_error))
			return false;
		if (token->kind == FSDP_SCAN_OBJECT || token->kind == FSDP_SCAN_ARRAY)
			return true;
	}
	return false;
}

static bool read_state(struct state_reader *reader, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reader->reading->model;
	bool whole = false;
	reader->rest.end = reader->rest.source.size;
	reader->file = fsdp_build_file(model, FSDP_SPAN(FILE_NAME),
		reader->rest.source.size, FSDP_NONE, ret_error);
	if (reader->file == FSDP_NONE ||
		!fsdp_json_scan_init(&reader->scan, fsdp_source_refill, &reader->rest,
			reader->reading->limits, ret_error))
		return false;
	reader->scan.lenient = true;
	/* Names of values are literals, so nothing of the window has to stay. */
	bool read = read_members(reader, &whole, ret_error);
	if (read && !whole)
		fsdp_find(&model->findings,
			reader->token.kind == FSDP_SCAN_CUT
				? FSDP_RULE_TRUNCATED_FILE
				: FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.file = FSDP_SPAN(FILE_NAME),
				.offset = reader->token.offset),
			"the state of training cannot be read to its end: a save that did not end leaves it so");
	fsdp_json_scan_done(&reader->scan);
	return read;
}

bool fsdp_trainer_state(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	struct state_reader *reader;
	struct fsdp_error *error = NULL;
	if (!fsdp_folder_has(folder, FILE_NAME, FSDP_ENTRY_FILE))
		return true;
	reader = FSDP_TAKE(reading->scratch, reader, 1);
	if (reader == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	reader->reading = reading;
	if (fsdp_folder_source(
		    folder, FSDP_SPAN(FILE_NAME), &reader->rest.source, &error) &&
		read_state(reader, &error))
		return true;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY ||
		fsdp_error_code(error) == FSDP_ERROR_LIMIT) {
		*ret_error = error;
		return false;
	}
	fsdp_error_add_path(&error, FILE_NAME);
	fsdp_reading_keep_error(reading, error);
	return true;
}
