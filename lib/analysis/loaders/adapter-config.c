/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What adapter_config.json says of modules: which are adapted, and with which rank.
 *
 * Origin: peft/tuners/tuners_utils.py, peft/utils/other.py (0.21).
 */
#include "analysis/loaders/adapter.h"
#include "base/num.h"

enum {
	/* Items of a list or a dict that are read, per tensor. People write a few, programs one per module. */
	ITEMS_MOST = 4096,
	LITERAL = 1024,
};

bool fsdp_adapter_ends(struct fsdp_span module, struct fsdp_span word)
{
	return word.size != 0 && fsdp_span_ends(module, word) &&
	       (module.size == word.size ||
		       module.data[module.size - word.size - 1] == '.');
}

bool fsdp_adapter_is_of_type(struct fsdp_loading *loading, const char *type)
{
	return fsdp_span_is(
		fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "peft_type"), type);
}

bool fsdp_adapter_is_list(struct fsdp_loading *loading, const char *key)
{
	return fsdp_load_setting(loading, FSDP_ADAPTER_CONFIG, key).value.kind ==
	       FSDP_TOKEN_LIST;
}

bool fsdp_adapter_is_set(struct fsdp_loading *loading, const char *key)
{
	struct fsdp_token value =
		fsdp_load_setting(loading, FSDP_ADAPTER_CONFIG, key).value;

	if (value.kind == FSDP_TOKEN_INTEGER || value.kind == FSDP_TOKEN_BOOL)
		return value.integer != 0;
	if (value.kind == FSDP_TOKEN_TEXT)
		return value.text.size != 0;
	return (value.kind == FSDP_TOKEN_LIST || value.kind == FSDP_TOKEN_DICT) &&
	       value.count != 0;
}

/* The settings that a list or a dict holds; false: it is none. */
static bool find_range(struct fsdp_loading *loading, const char *key,
	struct fsdp_survey_document *config, uint32_t *ret_at, uint32_t *ret_end)
{
	loading->failed |=
		!fsdp_survey_document(loading->survey, FSDP_ADAPTER_CONFIG, config);
	for (uint32_t i = 1; i < config->count; i = config->settings[i].end)
		if (fsdp_span_is(config->settings[i].key, key) &&
			(config->settings[i].value.kind == FSDP_TOKEN_LIST ||
				config->settings[i].value.kind == FSDP_TOKEN_DICT)) {
			*ret_at = i + 1;
			*ret_end = config->settings[i].end;
			return true;
		}
	return false;
}

bool fsdp_adapter_next(struct fsdp_loading *loading, const char *key, uint32_t *at,
	struct fsdp_span *ret_word)
{
	struct fsdp_survey_document config;
	uint32_t begin, end;

	if (!find_range(loading, key, &config, &begin, &end))
		return false;
	for (*at = *at == 0 ? begin : *at; *at < end;) {
		struct fsdp_setting item = config.settings[*at];
		*at = item.end;
		if (item.value.kind == FSDP_TOKEN_TEXT) {
			*ret_word = item.value.text;
			return true;
		}
	}
	return false;
}

static bool is_listed(
	struct fsdp_loading *loading, const char *key, struct fsdp_span module)
{
	struct fsdp_span word;

	for (uint32_t at = 0; fsdp_adapter_next(loading, key, &at, &word);)
		if (fsdp_adapter_ends(module, word))
			return true;
	return false;
}

/* Whether a whole module that is trained holds it, or is it. */
static bool is_saved_whole(struct fsdp_loading *loading, struct fsdp_span module)
{
	struct fsdp_span word, part = module;

	for (uint32_t at = 0; fsdp_adapter_next(loading, "modules_to_save", &at, &word);)
		for (part = module; part.size != 0;
			part.size -=
			fsdp_min(part.size, fsdp_span_last(part, '.').size + 1))
			if (fsdp_adapter_ends(part, word))
				return true;
	return false;
}

/* The number of the first segment that is one and has two before it; -1: none has. */
int64_t fsdp_adapter_layer(struct fsdp_span module)
{
	struct fsdp_span rest = module;

	for (size_t i = 0; rest.size != 0; i++) {
		struct fsdp_span part = fsdp_span_first(rest, '.');
		int64_t number = 0;
		size_t digits = 0;
		while (digits < part.size && digits < 9 &&
			fsdp_is_digit(part.data[digits]))
			number = number * 10 + (part.data[digits++] - '0');
		if (i >= 2 && digits == part.size && digits != 0 && part.size < rest.size)
			return number;
		rest = fsdp_span(rest.data + part.size, rest.size - part.size);
		if (rest.size != 0)
			rest = fsdp_span(rest.data + 1, rest.size - 1);
	}
	return -1;
}

static bool is_of_layers(struct fsdp_loading *loading, struct fsdp_span module)
{
	struct fsdp_token only =
		fsdp_load_setting(loading, FSDP_ADAPTER_CONFIG, "layers_to_transform")
			.value;
	struct fsdp_survey_document config;
	int64_t layer = fsdp_adapter_layer(module);
	uint32_t at, end;

	if (only.kind == FSDP_TOKEN_INTEGER)
		return only.integer == layer;
	if (!find_range(loading, "layers_to_transform", &config, &at, &end) || at == end)
		return true;
	for (; at < end; at = config.settings[at].end)
		if (config.settings[at].value.kind == FSDP_TOKEN_INTEGER &&
			config.settings[at].value.integer == layer)
			return true;
	return false;
}

/* A text is matched as a regular expression. */
static bool is_text(struct fsdp_loading *loading, const char *key)
{
	return fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, key).size != 0;
}

bool fsdp_adapter_is_named(struct fsdp_loading *loading, struct fsdp_span module)
{
	return !fsdp_adapter_is_list(loading, "target_modules") ||
	       !fsdp_adapter_is_set(loading, "target_modules") ||
	       is_listed(loading, "target_modules", module);
}

bool fsdp_adapter_is_target(
	struct fsdp_loading *loading, struct fsdp_span module, bool *ret_unknown)
{
	struct fsdp_span word;
	bool is_named = false;

	*ret_unknown = is_text(loading, "target_modules") ||
		       is_text(loading, "exclude_modules") ||
		       fsdp_adapter_is_set(loading, "layers_pattern");
	if (is_text(loading, "target_modules"))
		return true;
	if (is_listed(loading, "exclude_modules", module) ||
		is_saved_whole(loading, module) ||
		!is_listed(loading, "target_modules", module))
		return false;
	for (uint32_t at = 0;
		fsdp_adapter_next(loading, "target_modules", &at, &word) && !is_named;)
		is_named = fsdp_span_equal(word, module);
	return is_named || is_of_layers(loading, module);
}

/* The only text that a pattern matches: "\." is a dot, and "." is read as one, as people write it. False: it has
 * other metacharacters. */
static bool read_literal(
	struct fsdp_span pattern, char *text, size_t *ret_size, bool *ret_whole)
{
	size_t at = 0, size = 0;

	*ret_whole = pattern.size != 0 && pattern.data[0] == '^';
	for (at = *ret_whole; at < pattern.size && size < LITERAL; at++) {
		unsigned char c = pattern.data[at];
		if (c == '\\' && at + 1 < pattern.size && pattern.data[at + 1] == '.')
			c = pattern.data[++at];
		else if (strchr("\\^$*+?{}[]|()", c) != NULL)
			return false;
		text[size++] = (char)c;
	}
	*ret_size = size;
	return at == pattern.size;
}

/* Whether a pattern is of the module; *ret_known is false for one with other marks. */
static bool is_pattern_of(
	struct fsdp_span pattern, struct fsdp_span module, bool *ret_known)
{
	char text[LITERAL];
	size_t size;
	bool is_whole;

	*ret_known = read_literal(pattern, text, &size, &is_whole);
	if (!*ret_known)
		return false;
	return is_whole ? fsdp_span_equal(module, fsdp_span(text, size))
			: fsdp_adapter_ends(module, fsdp_span(text, size));
}

bool fsdp_adapter_rank(struct fsdp_loading *loading, const struct fsdp_adapter_form *form,
	struct fsdp_span module, int64_t *ret_rank)
{
	struct fsdp_survey_document config;
	bool is_known = true;
	uint32_t at, end;

	*ret_rank = fsdp_load_integer(
		loading, FSDP_ADAPTER_CONFIG, form->rank, form->rank_default);
	if (!find_range(loading, "rank_pattern", &config, &at, &end))
		return true;
	for (; at < end && is_known; at = config.settings[at].end) {
		struct fsdp_setting setting = config.settings[at];
		if (!is_pattern_of(setting.key, module, &is_known))
			continue;
		*ret_rank = setting.value.kind == FSDP_TOKEN_INTEGER
				    ? setting.value.integer
				    : 0;
		return true;
	}
	return is_known;
}
