/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads "__metadata__" in the header of a safetensors file.
 */
#include "format/safetensors/safetensors-reading.h"

/* Values of the files before that are compared. */
enum { NOTES_MAX = 64 };

/* Files of one export say the same: once is enough. */
static bool is_known(
	const struct fsdp_safetensors *header, uint32_t raw_name, struct fsdp_span text)
{
	const struct fsdp_model *model = header->reading->model;
	for (size_t i = 0; i < header->first_value && i < NOTES_MAX; i++) {
		const struct fsdp_value_record *value = fsdp_model_value(model, i);
		if (value->raw_name == raw_name && value->token_count == 1 &&
			fsdp_span_equal(value->tokens->text, text))
			return true;
	}
	return false;
}

static bool add_text(struct fsdp_safetensors *header, struct fsdp_span key,
	struct fsdp_span text, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = header->reading->model;
	struct fsdp_token *token = FSDP_TAKE(model->arena, token, 1);
	struct fsdp_value_record value = {
		.file = header->file_id,
		.rank = header->reading->rank,
		.token_count = 1,
		.tokens = token,
		.type = "str",
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
	};
	static const struct fsdp_span root = { (const unsigned char *)"__metadata__",
		12 };
	struct fsdp_path_builder *path = FSDP_TAKE(header->reading->scratch, path, 1);
	if (token == NULL || path == NULL)
		return fsdp_arena_fail(model->arena, ret_error);
	*token = (struct fsdp_token){ .kind = FSDP_TOKEN_TEXT, .text = text };
	path->parts[0].length = (uint32_t)root.size;
	path->parts[1].length = (uint32_t)key.size;
	path->count = 2;
	uint32_t parent = fsdp_names_child(&model->names, 0, root);
	if (parent == FSDP_NONE)
		return fsdp_arena_fail(model->arena, ret_error);
	if (!fsdp_build_names(
		    model, parent, key, false, &value.name, &value.raw_name, ret_error))
		return false;
	return is_known(header, value.raw_name, text) ||
	       (fsdp_build_path(model, path, &value.path, ret_error) &&
		       fsdp_build_value(model, &value, ret_error) != FSDP_NONE);
}

static bool read_note(struct fsdp_safetensors *header, struct fsdp_names *seen,
	struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = header->reading->model->arena;
	struct fsdp_span key = fsdp_json_text_copy(&header->token, arena);
	size_t known = seen->list.count;
	uint64_t where = fsdp_safetensors_place(header);
	if (key.data == NULL || fsdp_names_child(seen, 0, key) == FSDP_NONE)
		return fsdp_arena_fail(arena, ret_error);
	if (seen->list.count == known)
		fsdp_find(fsdp_safetensors_findings(header), FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = header->file, .offset = where,
				.severity = FSDP_WARNING + 1),
			"the metadata has a key twice");
	if (!fsdp_safetensors_next(header, ret_error))
		return false;
	if (header->token.kind != FSDP_SCAN_TEXT)
		return fsdp_safetensors_unexpected(
			header, "the metadata is not text alone", ret_error);
	struct fsdp_span text = fsdp_json_text_copy(&header->token, arena);
	if (text.data == NULL)
		return fsdp_arena_fail(arena, ret_error);
	/* What says where the tensors lie is no note for people. */
	if (fsdp_span_is(key, "DCP_SHARDING_INFO")) {
		header->sharding = text;
		return fsdp_safetensors_has_records(header);
	}
	return fsdp_build_declared(header->reading->model, key, text, ret_error) &&
	       add_text(header, key, text, ret_error);
}

bool fsdp_safetensors_read_notes(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_names seen;
	header->entry = (struct fsdp_safetensors_entry){ .offset = fsdp_safetensors_place(
								 header) };
	if (header->has_metadata)
		FSDP_SAFETENSORS_SAY(header, FSDP_RULE_SAFETENSORS_JSON,
			fsdp_safetensors_place(header), "__metadata__ comes twice");
	header->has_metadata = true;
	if (!fsdp_names_init(&seen, header->reading->scratch))
		return fsdp_arena_fail(header->reading->scratch, ret_error);
	if (!fsdp_safetensors_next(header, ret_error))
		return false;
	if (header->token.kind == FSDP_SCAN_NULL)
		return true;
	if (header->token.kind != FSDP_SCAN_OBJECT)
		return fsdp_safetensors_unexpected(
			header, "the metadata is not a JSON object", ret_error);
	for (;;) {
		if (!fsdp_safetensors_next(header, ret_error))
			return false;
		if (header->token.kind == FSDP_SCAN_OBJECT_END)
			return true;
		if (!read_note(header, &seen, ret_error))
			return false;
	}
}
