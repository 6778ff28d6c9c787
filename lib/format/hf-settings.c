/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a configuration as a list of nodes, so that whatever compares a model with it
 * needs no reader of JSON.
 */
#include "format/hf-settings.h"

#include "base/error.h"

bool fsdp_hf_token(struct fsdp_model *model, const struct fsdp_json *json,
	struct fsdp_token *token, struct fsdp_error **ret_error)
{
	switch (json->kind) {
	case FSDP_JSON_NULL:
		token->kind = FSDP_TOKEN_NONE;
		return true;
	case FSDP_JSON_BOOL:
	case FSDP_JSON_INTEGER:
		token->kind = json->kind == FSDP_JSON_BOOL ? FSDP_TOKEN_BOOL
							   : FSDP_TOKEN_INTEGER;
		token->integer = json->integer;
		return true;
	case FSDP_JSON_REAL:
		token->kind = FSDP_TOKEN_FLOAT;
		token->number = json->real;
		return true;
	case FSDP_JSON_TEXT:
		token->kind = FSDP_TOKEN_TEXT;
		token->text = fsdp_build_span(model, json->text, ret_error);
		return token->text.data != NULL;
	case FSDP_JSON_ARRAY:
	case FSDP_JSON_INTEGERS:
	case FSDP_JSON_OBJECT:
		break;
	}
	token->kind = FSDP_TOKEN_CUT;
	return true;
}

/* A container whose items are being added. */
struct open_node {
	const struct fsdp_json *json;
	uint32_t setting, next;
};

struct keeper {
	struct fsdp_model *model;
	uint32_t file;
	struct fsdp_vec open; /* struct open_node, the innermost last */
	size_t first;         /* setting of this document */
};

static bool is_container(const struct fsdp_json *json)
{
	return json->kind == FSDP_JSON_OBJECT || fsdp_json_is_list(json);
}

static bool open_container(struct keeper *keeper, const struct fsdp_json *json,
	struct fsdp_setting *setting, struct fsdp_error **ret_error)
{
	struct open_node *node = fsdp_vec_push(&keeper->open);

	if (node == NULL)
		return fsdp_arena_fail(keeper->open.arena, ret_error);
	*node = (struct open_node){ json, (uint32_t)(keeper->model->settings.count - 1),
		0 };
	setting->value = (struct fsdp_token){
		.kind = json->kind == FSDP_JSON_OBJECT ? FSDP_TOKEN_DICT
						       : FSDP_TOKEN_LIST,
		.count = json->count,
	};
	return true;
}

static bool add_node(struct keeper *keeper, const struct fsdp_json *json,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = keeper->model;
	uint32_t index;
	struct fsdp_setting *setting =
		fsdp_build_push(model, &model->settings, &index, ret_error);

	if (setting == NULL)
		return false;
	setting->file = keeper->file;
	setting->end = index + 1;
	if (json->key.data != NULL) {
		setting->key = fsdp_build_span(model, json->key, ret_error);
		if (setting->key.data == NULL)
			return false;
	}
	if (is_container(json))
		return open_container(keeper, json, setting, ret_error);
	return fsdp_hf_token(model, json, &setting->value, ret_error);
}

static bool add_item(
	struct keeper *keeper, struct open_node *node, struct fsdp_error **ret_error)
{
	const struct fsdp_json *json = node->json;
	uint32_t n = node->next++;
	struct fsdp_json number;

	if (json->kind != FSDP_JSON_INTEGERS)
		return add_node(keeper, &json->items[n], ret_error);
	number = (struct fsdp_json){
		.kind = FSDP_JSON_INTEGER,
		.integer = json->integers[n],
	};
	return add_node(keeper, &number, ret_error);
}

static bool is_too_long(const struct keeper *keeper)
{
	return keeper->model->settings.count - keeper->first > FSDP_SETTINGS_MOST;
}

bool fsdp_hf_settings(struct fsdp_model *model, uint32_t file,
	const struct fsdp_json *root, struct fsdp_arena *scratch,
	struct fsdp_error **ret_error)
{
	struct keeper keeper = {
		.model = model,
		.file = file,
		.first = model->settings.count,
	};

	fsdp_vec_init(&keeper.open, scratch, sizeof(struct open_node));
	if (!add_node(&keeper, root, ret_error))
		return false;
	while (keeper.open.count > 0 && !is_too_long(&keeper)) {
		struct open_node *node = fsdp_vec_at(&keeper.open, keeper.open.count - 1);

		if (node->next < node->json->count) {
			if (!add_item(&keeper, node, ret_error))
				return false;
			continue;
		}
		fsdp_model_setting(model, node->setting)->end =
			(uint32_t)model->settings.count;
		fsdp_vec_truncate(&keeper.open, keeper.open.count - 1);
	}
	if (is_too_long(&keeper)) {
		fsdp_vec_truncate(&model->settings, keeper.first + 1);
		*fsdp_model_setting(model, keeper.first) = (struct fsdp_setting){
			.value = { .kind = FSDP_TOKEN_CUT },
			.end = (uint32_t)keeper.first + 1,
			.file = file,
		};
	}
	return true;
}
