/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PeftModel.from_pretrained(base, folder). The base lies elsewhere: what the adapter says
 * of it is taken for true.
 *
 * Origin: peft/peft_model.py, config.py, utils/save_and_load.py (0.21).
 */
#include <stdio.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

#define CONFIG "adapter_config.json"
#define PREFIX "base_model.model."

enum {
	RANK_DEFAULT = 8,
	PARTS = 4096,
	TARGETS_MOST = 1024, /* that are looked at: modules have few names */
};

static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	return fsdp_load_list_took(loading, NULL, result);
}

static void begin(struct fsdp_loading *loading)
{
	static const char *const order[] = { "adapter_model.safetensors",
		"adapter_model.bin", NULL };
	const struct fsdp_checkpoint *checkpoint;

	loading->weights = fsdp_load_choose(loading, order);
	/* Nothing is compared with a model: only what is stored is listed. */
	loading->was_compared = true;
	checkpoint = loading->weights != NULL ? fsdp_load_open(loading, loading->weights)
					      : NULL;
	loading->knows_stored = checkpoint != NULL;
}

static const struct fsdp_checkpoint *adapter(struct fsdp_loading *loading)
{
	return loading->knows_stored ? fsdp_load_open(loading, loading->weights) : NULL;
}

/* The name of a tensor as it is stored; data NULL: too long. */
static struct fsdp_span name_at(
	const struct fsdp_checkpoint *checkpoint, uint32_t index, char *buffer)
{
	size_t size = fsdp_name_write(
		checkpoint, fsdp_tensor(checkpoint, index).raw_name, buffer, PARTS);

	return size <= PARTS ? fsdp_span(buffer, size) : (struct fsdp_span){ 0 };
}

static bool has_word(struct fsdp_span name, const char *word)
{
	return name.size != 0 && memmem(name.data, name.size, word, strlen(word)) != NULL;
}

/* Whether the loader finds a tensor of this name in the live model. */
static bool is_live(struct fsdp_span name)
{
	static const char *const wrappers[] = { "_orig_mod.", "module.",
		"_fsdp_wrapped_module.", "_checkpoint_wrapped_module." };

	if (!fsdp_span_begins(name, FSDP_SPAN(PREFIX)))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(wrappers); i++)
		if (has_word(name, wrappers[i]))
			return false;
	return true;
}

static bool lacks_config(struct fsdp_loading *loading)
{
	return !fsdp_load_has_file(loading, CONFIG);
}

static bool lacks_weights(struct fsdp_loading *loading)
{
	return loading->weights == NULL;
}

/* ---- modules ---- */

/* "….q_proj.lora_A.weight": the name of the module. */
static struct fsdp_span module_of(struct fsdp_span name)
{
	const unsigned char *at = memmem(name.data, name.size, ".lora_", 6);

	if (name.size == 0 || at == NULL)
		return (struct fsdp_span){ 0 };
	return fsdp_span_last(fsdp_span(name.data, (size_t)(at - name.data)), '.');
}

/* Members of target_modules; false: it is no list. */
static bool next_target(const struct fsdp_survey_document *config, uint32_t *at,
	uint32_t end, struct fsdp_span *ret)
{
	for (; *at < end; *at = config->settings[*at].end)
		if (config->settings[*at].value.kind == FSDP_TOKEN_TEXT) {
			*ret = config->settings[*at].value.text;
			*at = config->settings[*at].end;
			return true;
		}
	return false;
}

static bool find_targets(struct fsdp_loading *loading,
	struct fsdp_survey_document *config, uint32_t *ret_at, uint32_t *ret_end)
{
	loading->failed |= !fsdp_survey_document(loading->survey, CONFIG, config);
	for (uint32_t i = 1; i < config->count; i = config->settings[i].end)
		if (fsdp_span_is(config->settings[i].key, "target_modules") &&
			config->settings[i].value.kind == FSDP_TOKEN_LIST) {
			*ret_at = i + 1;
			*ret_end = config->settings[i].end;
			return true;
		}
	return false;
}

static bool is_target(struct fsdp_loading *loading, struct fsdp_span module)
{
	struct fsdp_survey_document config;
	struct fsdp_span target;
	uint32_t at, end;

	if (!find_targets(loading, &config, &at, &end))
		return true;
	for (size_t i = 0; i < TARGETS_MOST; i++) {
		if (!next_target(&config, &at, end, &target))
			return false;
		if (fsdp_span_equal(fsdp_span_last(target, '.'), module))
			return true;
	}
	return true;
}

/* None of the targets is a module that was adapted: the base has none of them. */
static bool has_no_target(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	struct fsdp_survey_document config;
	struct fsdp_span target;
	uint32_t at, end;
	size_t length = 0;
	char name[PARTS], *text = loading->words[0];

	if (checkpoint == NULL || fsdp_tensor_count(checkpoint) == 0 ||
		!find_targets(loading, &config, &at, &end) || at == end)
		return false;
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_span module = module_of(name_at(checkpoint, i, name));
		if (module.data == NULL || is_target(loading, module))
			return false;
	}
	*text = '\0';
	while (next_target(&config, &at, end, &target) && length < FSDP_LOAD_WORD - 256)
		length += (size_t)snprintf(text + length, FSDP_LOAD_WORD - length,
			"%s'%.*s'", length == 0 ? "" : ", ", FSDP_TEXT_MOST(target, 200));
	return true;
}

/* ---- shapes ---- */

/* What rank_pattern says of single modules is not looked at: then nothing is judged. */
static bool has_patterns(struct fsdp_loading *loading)
{
	struct fsdp_setting pattern = fsdp_load_setting(loading, CONFIG, "rank_pattern");

	return pattern.value.kind == FSDP_TOKEN_DICT && pattern.value.count > 0;
}

static bool is_other_rank(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	int64_t rank = fsdp_load_integer(loading, CONFIG, "r", RANK_DEFAULT);
	char buffer[PARTS];

	for (uint32_t i = 0; checkpoint != NULL && !has_patterns(loading) &&
			     i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span name = name_at(checkpoint, i, buffer);
		bool is_a = has_word(name, ".lora_A."), is_b = has_word(name, ".lora_B.");
		if ((!is_a && !is_b) || !is_live(name) ||
			!is_target(loading, module_of(name)))
			continue;
		int64_t stored = tensor.dims == 2 ? tensor.shape[is_a ? 0 : 1] : -1;
		if (stored == rank)
			continue;
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(name, 512));
		fsdp_load_say(loading, 1, "%lld", (long long)stored);
		fsdp_load_say(loading, 2, "%lld", (long long)rank);
		return true;
	}
	return false;
}

static bool is_empty_piece(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	char buffer[PARTS];

	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint); i++)
		if (fsdp_tensor(checkpoint, i).numel == 0) {
			fsdp_load_say(loading, 0, "%.*s",
				FSDP_TEXT_MOST(name_at(checkpoint, i, buffer), 512));
			return true;
		}
	return false;
}

/* ---- names ---- */

/* "base_model.model.x.lora_A.weight" as the live model has it. */
static void say_live(struct fsdp_loading *loading, struct fsdp_span name)
{
	const unsigned char *at = memmem(name.data, name.size, ".weight", 7);
	size_t size = at != NULL ? (size_t)(at - name.data) : name.size;

	fsdp_load_say(loading, 0, "%.*s.default.weight",
		FSDP_TEXT_MOST(fsdp_span(name.data, size), 512));
}

static bool has_no_tensors(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);

	return checkpoint != NULL && fsdp_tensor_count(checkpoint) == 0;
}

static bool has_other_names(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	char buffer[PARTS];

	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_span name = name_at(checkpoint, i, buffer);
		if (!has_word(name, "lora_") || is_live(name))
			continue;
		if (loading->all_names == 0)
			say_live(loading, name);
		struct fsdp_span copy = fsdp_arena_copy(loading->arena, name);
		loading->failed |= copy.data == NULL;
		fsdp_load_name(loading, copy);
	}
	return loading->all_names > 0;
}

/* The other half of a pair. */
static bool has_other_half(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_span name)
{
	char other[PARTS];
	const unsigned char *at = memmem(name.data, name.size, ".lora_A.", 8);

	if (at == NULL)
		at = memmem(name.data, name.size, ".lora_B.", 8);
	if (at == NULL || name.size > sizeof other)
		return true;
	memcpy(other, name.data, name.size);
	char *letter = other + (at - name.data) + 6;
	*letter = *letter == 'A' ? 'B' : 'A';
	return fsdp_tensor_find(checkpoint, fsdp_span(other, name.size)) != FSDP_NONE;
}

static bool lacks_half(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	char buffer[PARTS];

	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_span name = name_at(checkpoint, i, buffer);
		if (name.size == 0 || has_other_half(checkpoint, name))
			continue;
		unsigned char *at = memmem(buffer, name.size, ".lora_", 6);
		at[6] = at[6] == 'A' ? 'B' : 'A';
		say_live(loading, name);
		return true;
	}
	return false;
}

static bool is_no_lora(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, CONFIG, "peft_type");

	return type.data != NULL && !fsdp_span_is(type, "LORA");
}

/* Whether all layers have what one has is unknown without the base. */
static bool has_layers_without(struct fsdp_loading *loading)
{
	struct fsdp_setting some = fsdp_load_setting(loading, CONFIG, "modules_to_save");

	return some.value.kind == FSDP_TOKEN_LIST && some.value.count > 0;
}

/* ---- the base, if --expect has its names ---- */

/* "base_model.model.x.q_proj.lora_A.weight": the base's "x.q_proj.weight", or NULL. */
static const struct fsdp_load_tensor *base_of(
	struct fsdp_loading *loading, struct fsdp_span name)
{
	char text[PARTS];
	const unsigned char *at = memmem(name.data, name.size, ".lora_", 6);
	size_t prefix = sizeof PREFIX - 1, size;

	if (at == NULL || !is_live(name) || name.size > PARTS)
		return NULL;
	size = (size_t)(at - name.data) - prefix;
	memcpy(text, name.data + prefix, size);
	memcpy(text + size, ".weight", 7);
	return fsdp_load_find_expected(loading, fsdp_span(text, size + 7));
}

/* A module that is adapted is not in the base. */
static bool is_other_base(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	char buffer[PARTS];

	for (uint32_t i = 0; checkpoint != NULL && loading->options->expected != NULL &&
			     i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_span name = name_at(checkpoint, i, buffer);
		if (!has_word(name, ".lora_") || base_of(loading, name) != NULL)
			continue;
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(name, 512));
		return true;
	}
	return false;
}

static bool has_other_sizes(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	char buffer[PARTS];

	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span name = name_at(checkpoint, i, buffer);
		bool is_a = has_word(name, ".lora_A."), is_b = has_word(name, ".lora_B.");
		const struct fsdp_load_tensor *base =
			is_a || is_b ? base_of(loading, name) : NULL;
		if (base == NULL || base->shape == NULL || base->dims != 2 ||
			tensor.dims != 2 ||
			tensor.shape[is_a ? 1 : 0] == base->shape[is_a ? 1 : 0])
			continue;
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(name, 512));
		fsdp_load_say(loading, 1, "%lld", (long long)tensor.shape[is_a ? 1 : 0]);
		fsdp_load_say(loading, 2, "%lld", (long long)base->shape[is_a ? 1 : 0]);
		return true;
	}
	return false;
}

/* "x.q_proj.weight", of which "q_proj" or "x.q_proj" is a target. */
static bool is_to_adapt(const struct fsdp_survey_document *config, uint32_t at,
	uint32_t end, const struct fsdp_load_expected *wanted)
{
	struct fsdp_span module = wanted->name, target;

	if (!fsdp_span_ends(module, FSDP_SPAN(".weight")) || wanted->dims != 2)
		return false;
	module.size -= 7;
	for (size_t i = 0; i < TARGETS_MOST && next_target(config, &at, end, &target);
		i++)
		if (fsdp_span_ends(module, target) &&
			(module.size == target.size ||
				module.data[module.size - target.size - 1] == '.'))
			return true;
	return false;
}

/* The base has a target for which nothing is stored. */
static bool lacks_target(struct fsdp_loading *loading)
{
	const struct fsdp_loads_options *options = loading->options;
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	struct fsdp_setting layers =
		fsdp_load_setting(loading, CONFIG, "layers_to_transform");
	struct fsdp_survey_document config;
	char name[PARTS];
	uint32_t at, end;

	if (checkpoint == NULL || options->expected == NULL ||
		layers.value.kind == FSDP_TOKEN_LIST ||
		layers.value.kind == FSDP_TOKEN_INTEGER ||
		!find_targets(loading, &config, &at, &end))
		return false;
	for (size_t i = 0; i < options->expected_count; i++) {
		const struct fsdp_load_expected *wanted = &options->expected[i];
		if (!is_to_adapt(&config, at, end, wanted) ||
			wanted->name.size > PARTS / 2)
			continue;
		int size = snprintf(name, sizeof name, PREFIX "%.*s.lora_A.weight",
			FSDP_TEXT(fsdp_span(wanted->name.data, wanted->name.size - 7)));
		if (fsdp_tensor_find(checkpoint, fsdp_span(name, (size_t)size)) !=
			FSDP_NONE)
			continue;
		if (loading->all_names == 0)
			say_live(loading, fsdp_span(name, (size_t)size));
		fsdp_load_name(loading, wanted->name);
	}
	return loading->all_names > 0;
}

static const struct fsdp_load_rule rules[] = {
	{ "peft-no-config", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"Can't find 'adapter_config.json' at '{path}'",
		"put the adapter's configuration beside its weights", lacks_config },
	{ "peft-no-weights", NULL, NULL, FSDP_LOAD_REFUSES,
		"huggingface_hub.errors.HFValidationError",
		"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{path}'. Use `repo_type` argument if needed.",
		"put adapter_model.safetensors into the folder", lacks_weights },
	{ "peft-no-lora", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"this type of adapter is not known, only LoRA is", NULL, is_no_lora },
	{ "peft-safetensors-damaged", NULL, NULL, FSDP_LOAD_REFUSES,
		"safetensors._safetensors_rust.SafetensorError",
		"Error while deserializing header: {0}",
		"download or copy the file again", fsdp_load_is_cut_safetensors },
	{ "peft-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} cannot be read completely: {1}", NULL, fsdp_load_cannot_open },
	{ "peft-target-absent", NULL, NULL, FSDP_LOAD_REFUSES,
		"peft.utils.error.NoMatchingPeftModuleError",
		"Target modules {{0}} not found in the base model. Please check the target modules and try again.",
		"set target_modules to the modules that are stored", has_no_target },
	{ "peft-empty", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for PeftModelForCausalLM: size mismatch for {0}: it is empty, as ZeRO-3 leaves it",
		"save the adapter again with its weights gathered", is_empty_piece },
	{ "peft-rank", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for PeftModelForCausalLM: size mismatch for {0}: the rank is {1}, the configuration says {2}",
		"set r to {1} in adapter_config.json", is_other_rank },
	{ "peft-base-sizes", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for PeftModelForCausalLM: size mismatch for {0}: the adapter has {1}, the base {2}",
		"load it into the base that it was trained on", has_other_sizes },
	{ "peft-no-tensors", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: all of them; the adapter does nothing",
		NULL, has_no_tensors },
	{ "peft-names", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: ['{0}', ...]; the stored ones are not used",
		"rename the tensors: prefix base_model.model., and leave out the names of wrappers",
		has_other_names },
	{ "peft-half", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: ['{0}']",
		NULL, lacks_half },
	{ "peft-modules-to-save", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"it is not known whether modules_to_save exist in the base model", NULL,
		has_layers_without },
	{ "peft-other-set", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{1} is taken and {0} is not looked at; they differ",
		"remove the older {1}", fsdp_load_sets_differ },
	{ "peft-other-set-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{1} is loaded and {0} is ignored; use --data to see whether they differ",
		NULL, fsdp_load_sets_unread },
	{ "peft-base-targets", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: ['{0}', ...]; they begin anew and change nothing",
		"load it into the base that it was trained on", lacks_target },
	{ "peft-base-other", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} is of a module that --expect does not have; it takes the names of the base",
		NULL, is_other_base },
	{ NULL },
};

static const char *const versions[] = { "0.21.2", NULL };

const struct fsdp_loader fsdp_loader_peft = {
	.name = "peft",
	.library = "peft",
	.versions = versions,
	.begin = begin,
	.list_took = list_took,
	.rules = rules,
};
