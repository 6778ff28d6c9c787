/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks things up in the configuration of a model.
 */
#include "analysis/checks/complete.h"

static struct fsdp_setting at(const struct fsdp_complete *complete, uint32_t index)
{
	return fsdp_setting(complete->checkpoint, index);
}

uint32_t fsdp_complete_get(
	const struct fsdp_complete *complete, uint32_t object, const char *key)
{
	struct fsdp_setting container, setting;

	if (object == FSDP_NONE)
		return FSDP_NONE;
	container = at(complete, object);
	if (container.value.kind != FSDP_TOKEN_DICT)
		return FSDP_NONE;
	for (uint32_t i = object + 1; i < container.end; i = setting.end) {
		setting = at(complete, i);
		if (fsdp_span_is(setting.key, key))
			return i;
	}
	return FSDP_NONE;
}

bool fsdp_complete_get_integer(const struct fsdp_complete *complete, uint32_t object,
	const char *key, uint64_t *ret)
{
	uint32_t index = fsdp_complete_get(complete, object, key);
	struct fsdp_token value;

	if (index == FSDP_NONE)
		return false;
	value = at(complete, index).value;
	if (value.kind != FSDP_TOKEN_INTEGER || value.integer < 0)
		return false;
	*ret = (uint64_t)value.integer;
	return true;
}

struct fsdp_span fsdp_complete_get_text(
	const struct fsdp_complete *complete, uint32_t object, const char *key)
{
	uint32_t index = fsdp_complete_get(complete, object, key);
	struct fsdp_token value = { 0 };

	if (index != FSDP_NONE)
		value = at(complete, index).value;
	return value.kind == FSDP_TOKEN_TEXT ? value.text : (struct fsdp_span){ 0 };
}

bool fsdp_complete_config_has(
	const struct fsdp_complete *complete, const char *word, uint64_t n)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer >= 0 &&
			(uint64_t)setting.value.integer == n &&
			(word == NULL || fsdp_complete_contains(setting.key, word)))
			return true;
	}
	return false;
}

bool fsdp_complete_config_names(const struct fsdp_complete *complete, const char *word)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	for (uint32_t i = 0; i < count; i++)
		if (fsdp_complete_contains(at(complete, i).key, word))
			return true;
	return false;
}

bool fsdp_complete_is_model(const struct fsdp_complete *complete, const char *model_type)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (fsdp_span_is(setting.key, "model_type") &&
			setting.value.kind == FSDP_TOKEN_TEXT &&
			fsdp_span_is(setting.value.text, model_type))
			return true;
	}
	return false;
}

bool fsdp_complete_first_lacks(
	const struct fsdp_complete *complete, struct fsdp_span segment)
{
	static const struct {
		const char *model_type, *segment;
	} firsts[] = {
		{ "modernbert", "attn_norm" },
		{ "modernbert-decoder", "attn_norm" },
		{ "zaya", "router_states_scale" },
	};

	for (size_t i = 0; i < FSDP_COUNT(firsts); i++)
		if (fsdp_span_is(segment, firsts[i].segment) &&
			fsdp_complete_is_model(complete, firsts[i].model_type))
			return true;
	return false;
}

/* The innermost part that describes the language model. */
static uint32_t find_text(const struct fsdp_complete *complete, uint32_t object)
{
	static const char *const keys[] = { "text_config", "llm_config",
		"language_config", "thinker_config", "lm_config", "decoder_config" };

	for (bool deeper = object != FSDP_NONE; deeper;) {
		deeper = false;
		for (size_t i = 0; i < FSDP_COUNT(keys) && !deeper; i++) {
			uint32_t inner = fsdp_complete_get(complete, object, keys[i]);

			if (inner == FSDP_NONE ||
				at(complete, inner).value.kind != FSDP_TOKEN_DICT)
				continue;
			object = inner;
			deeper = true;
		}
	}
	return object;
}

void fsdp_complete_read_config(struct fsdp_complete *complete)
{
	size_t count = fsdp_setting_count(complete->checkpoint), files = 0;
	struct fsdp_complete_config *config = &complete->config;

	*config = (struct fsdp_complete_config){ FSDP_NONE, FSDP_NONE, FSDP_NONE };
	for (uint32_t i = 0; i < count; i = at(complete, i).end, files++) {
		struct fsdp_span path =
			fsdp_file(complete->checkpoint, at(complete, i).file).path;

		if (fsdp_span_ends(path, FSDP_SPAN("adapter_config.json")))
			config->adapter = i;
		else
			config->root = i;
	}
	/* Of several models no one describes them all. */
	if (files > 1)
		config->root = config->adapter = FSDP_NONE;
	config->text = find_text(complete, config->root);
	fsdp_complete_find_lists(complete);
}
