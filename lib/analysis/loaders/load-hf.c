/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AutoModelForCausalLM.from_pretrained(folder).
 *
 * Origin: transformers/modeling_utils.py, core_model_loading.py, loading_report.py
 * (5.23, 5.24); modeling_utils.py (4.57).
 */
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

static void begin(struct fsdp_loading *loading)
{
	static const char *const order[] = { "model.safetensors",
		"model.safetensors.index.json", "pytorch_model.bin",
		"pytorch_model.bin.index.json", NULL };

	loading->weights = fsdp_load_choose(loading, order);
	loading->adds_prefix = loading->knows_experts = true;
}

/* A list is read, and then has no type. */
static bool has_bad_config(struct fsdp_loading *loading)
{
	struct fsdp_survey_document config;
	struct fsdp_span text = fsdp_survey_text(loading->survey, "config.json");

	loading->failed |= !fsdp_survey_document(loading->survey, "config.json", &config);
	while (text.size != 0 && memchr(" \t\r\n", text.data[0], 4) != NULL)
		text = fsdp_span(text.data + 1, text.size - 1);
	return config.is_there && !config.is_valid &&
	       !fsdp_span_begins(text, FSDP_SPAN("["));
}

/* The type that the model is to have, by its name in torch; half, float and double are
 * other names of some. Word 0 is one that torch has not. */
static bool has_unknown_type(struct fsdp_loading *loading)
{
	static const char *const others[] = { "half", "float", "double" };
	struct fsdp_setting told = fsdp_load_setting(loading, "config.json", "dtype");

	if (told.value.kind != FSDP_TOKEN_TEXT)
		told = fsdp_load_setting(loading, "config.json", "torch_dtype");
	if (told.value.kind != FSDP_TOKEN_TEXT)
		return false;
	for (uint32_t i = 1; i < fsdp_dtype_count(); i++)
		if (fsdp_span_is(told.value.text, fsdp_dtype(i)->name))
			return false;
	for (size_t i = 0; i < FSDP_COUNT(others); i++)
		if (fsdp_span_is(told.value.text, others[i]))
			return false;
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(told.value.text, 200));
	return true;
}

/* Words 0 and 1: the numbers of layer_types and of layers. */
static bool counts_other_layers(struct fsdp_loading *loading)
{
	struct fsdp_setting types =
		fsdp_load_setting(loading, "config.json", "layer_types");
	int64_t layers =
		fsdp_load_integer(loading, "config.json", "num_hidden_layers", -1);

	if (types.value.kind != FSDP_TOKEN_LIST || layers < 0 ||
		types.value.count == layers)
		return false;
	fsdp_load_say(loading, 0, "%u", types.value.count);
	fsdp_load_say(loading, 1, "%lld", (long long)layers);
	return true;
}

/* ---- what else than a dict of tensors a pickle may be ---- */

/* Then 5.x takes the type of the first tensor. */
static bool tells_no_type(struct fsdp_loading *loading)
{
	return fsdp_load_text(loading, "config.json", "dtype").data == NULL &&
	       fsdp_load_text(loading, "config.json", "torch_dtype").data == NULL;
}

static bool is_tensor_untyped(struct fsdp_loading *loading)
{
	return fsdp_load_root(loading).is_tensor && tells_no_type(loading);
}

static bool is_no_dict_untyped(struct fsdp_loading *loading)
{
	return fsdp_load_is_no_dict(loading) && tells_no_type(loading);
}

static bool is_one_value(struct fsdp_loading *loading)
{
	static const char *const classes[] = { "NoneType", "bool", "int", "float" };

	for (size_t i = 0; i < FSDP_COUNT(classes); i++)
		if (fsdp_load_is_no_dict(loading) &&
			strcmp(loading->words[0], classes[i]) == 0)
			return true;
	return false;
}

/* The number of elements that dict.update finds in the first item of a list of tensors, or
 * of a tensor, where it wants a key and a value; 0: it is not known. */
static int64_t length_of_first(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint =
		fsdp_load_open(loading, loading->weights);
	uint32_t dim = fsdp_load_root(loading).is_tensor;
	struct fsdp_tensor first;

	if (checkpoint == NULL || fsdp_tensor_count(checkpoint) == 0)
		return 0;
	first = fsdp_tensor(checkpoint, 0);
	return first.dims > dim && first.numel > 0 ? first.shape[dim] : 0;
}

/* Word 2: that length. */
static bool is_sequence(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);
	bool has_tensor = root.first_class != NULL && !root.is_dict &&
			  strcmp(root.first_class, "Tensor") == 0;
	int64_t length = root.is_tensor || has_tensor ? length_of_first(loading) : 0;

	fsdp_load_say(loading, 2, "%lld", (long long)length);
	return length != 0 && length != 2;
}

/* An empty list adds nothing to a dict. */
static bool is_other_root(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);
	bool is_empty = root.class_name != NULL && root.count == 0 &&
			(strcmp(root.class_name, "list") == 0 ||
				strcmp(root.class_name, "tuple") == 0);

	return !is_empty && fsdp_load_is_unknown_root(loading);
}

/* Word 0: the class of the first value. */
static bool is_nested_untyped(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	if (!root.is_dict || root.first_class == NULL || !tells_no_type(loading) ||
		strcmp(root.first_class, "Tensor") == 0 ||
		strcmp(root.first_class, "Parameter") == 0)
		return false;
	fsdp_load_say(loading, 0, "%s", root.first_class);
	return true;
}

/* ---- the index, of which three things are asked for by name ---- */

static struct fsdp_setting in_index(struct fsdp_loading *loading, const char *key)
{
	const char *name = loading->weights;
	struct fsdp_setting none = { .value = { .kind = FSDP_TOKEN_DICT, .count = 1 } };

	return name != NULL && fsdp_span_ends(fsdp_span_text(name), FSDP_SPAN(".json"))
		       ? fsdp_load_setting(loading, name, key)
		       : none;
}

static bool has_no_map(struct fsdp_loading *loading)
{
	return in_index(loading, "weight_map").value.kind == FSDP_TOKEN_NONE;
}

static bool has_odd_map(struct fsdp_loading *loading)
{
	struct fsdp_survey_document index;

	if (in_index(loading, "weight_map").end == 0)
		return false;
	loading->failed |=
		!fsdp_survey_document(loading->survey, loading->weights, &index);
	for (uint32_t i = 1; i < index.count; i = index.settings[i].end) {
		if (!fsdp_span_is(index.settings[i].key, "weight_map"))
			continue;
		for (uint32_t k = i + 1; k < index.settings[i].end;
			k = index.settings[k].end)
			if (index.settings[k].value.kind == FSDP_TOKEN_INTEGER)
				return true;
	}
	return false;
}

static bool has_no_metadata(struct fsdp_loading *loading)
{
	return in_index(loading, "metadata").value.kind == FSDP_TOKEN_NONE;
}

static bool has_empty_map(struct fsdp_loading *loading)
{
	return in_index(loading, "weight_map").value.count == 0;
}

/* 4.57 adds no prefix where the head is stored. */
static bool has_no_type(struct fsdp_loading *loading)
{
	return fsdp_load_text(loading, "config.json", "model_type").data == NULL;
}

/* A checkpoint of another kind, which can be written as one of this. */
static bool has_no_type_but_tensors(struct fsdp_loading *loading)
{
	return loading->weights == NULL && has_no_type(loading) &&
	       fsdp_load_open(loading, "") != NULL;
}

static bool is_adapter(struct fsdp_loading *loading)
{
	return loading->weights == NULL && !fsdp_load_has_file(loading, "config.json") &&
	       fsdp_load_has_file(loading, "adapter_config.json");
}

static bool has_no_weights(struct fsdp_loading *loading)
{
	return loading->weights == NULL;
}

/* A file that is called otherwise than the loader asks for. */
static bool has_other_name(struct fsdp_loading *loading)
{
	static const char *const names[] = { "consolidated.safetensors",
		"model.fp16.safetensors", "model.bf16.safetensors",
		"model.fp32.safetensors", "pytorch_model.pt", "model.pt", NULL };
	const char *found;

	if (loading->weights != NULL)
		return false;
	found = fsdp_load_choose(loading, names);
	if (found == NULL)
		return false;
	fsdp_load_say(loading, 0, "%s", found);
	fsdp_load_say(loading, 1, "%s",
		fsdp_span_ends(fsdp_span_text(found), FSDP_SPAN(".safetensors"))
			? "model.safetensors"
			: "pytorch_model.bin");
	return true;
}

static bool has_fsdp_folder(struct fsdp_loading *loading)
{
	return loading->weights == NULL &&
	       fsdp_load_has_folder(loading, "pytorch_model_fsdp_0");
}

static bool has_shards_alone(struct fsdp_loading *loading)
{
	for (size_t i = 0;
		loading->weights == NULL && i < fsdp_survey_entry_count(loading->survey);
		i++) {
		const struct fsdp_survey_entry *entry =
			fsdp_survey_entry(loading->survey, i);
		if (fsdp_span_begins(entry->name, FSDP_SPAN("model-0")) &&
			fsdp_span_ends(entry->name, FSDP_SPAN(".safetensors")))
			return true;
	}
	return false;
}

static bool has_adapter(struct fsdp_loading *loading)
{
	return loading->weights != NULL &&
	       fsdp_load_has_file(loading, "adapter_config.json");
}

/* From 5 on it puts an adapter that lies there on the model. */
static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	static const char *const adapters[] = { "adapter_model.safetensors",
		"adapter_model.bin", NULL };
	bool takes_adapter = has_adapter(loading) &&
			     fsdp_load_compare_versions(result->version, "5") >= 0;

	return fsdp_load_list_took(loading,
		takes_adapter ? fsdp_load_choose(loading, adapters) : NULL, result);
}

/* The type that the configuration asks for is narrower than a stored one. */
static bool is_narrowed(struct fsdp_loading *loading)
{
	struct fsdp_span wanted = fsdp_load_text(loading, "config.json", "dtype");
	const struct fsdp_dtype *to = NULL;

	if (wanted.data == NULL)
		wanted = fsdp_load_text(loading, "config.json", "torch_dtype");
	for (uint32_t i = 1; i < fsdp_dtype_count() && wanted.data != NULL; i++)
		if (fsdp_span_is(wanted, fsdp_dtype(i)->name))
			to = fsdp_dtype(i);
	if (to == NULL || !to->is_floating || !fsdp_load_compare(loading))
		return false;
	for (size_t i = 0; i < loading->stored.count; i++) {
		const struct fsdp_load_tensor *tensor = &loading->stored.items[i];
		const struct fsdp_dtype *from = fsdp_dtype(tensor->dtype);
		if (tensor->has_match && from->is_floating && from != to &&
			from->item_bits >= to->item_bits)
			fsdp_load_name(loading, tensor->name);
	}
	fsdp_load_say(loading, 0, "%s", to->name);
	return loading->all_names > 0;
}

/* "Qwen2" of "Qwen2ForCausalLM", which the class of its norms begins with. */
static struct fsdp_span model_name(const struct fsdp_loading *loading)
{
	const char *name = loading->architecture != NULL ? loading->architecture : "";
	const char *end = strstr(name, "For");

	return fsdp_span(name, end != NULL ? (size_t)(end - name) : 0);
}

/* 4.57 loads module by module: word 0 is the class of this one. */
static bool is_misshaped_in_module(struct fsdp_loading *loading)
{
	static const struct {
		const char *word, *class_name;
		bool is_of_model; /* each has one that is called like it */
	} classes[] = { { ".LayerNorm.", "LayerNorm" }, { "embed", "Embedding" },
		{ ".wte.", "Embedding" }, { ".wpe.", "Embedding" }, { ".c_", "Conv1D" },
		{ ".ln_", "LayerNorm" }, { "norm.", "RMSNorm", true }, { "", "Linear" } };
	size_t i = 0;

	if (!fsdp_load_is_misshaped(loading))
		return false;
	while (strstr(loading->words[1], classes[i].word) == NULL)
		i++;
	fsdp_load_say(loading, 0, "%.*s%s",
		FSDP_TEXT(classes[i].is_of_model ? model_name(loading) : FSDP_SPAN("")),
		classes[i].class_name);
	return true;
}

/* The prefix is missing, and not because the head is not stored. */
static bool has_bare_base_and_head(struct fsdp_loading *loading)
{
	bool bare = false, head = false;

	if (!fsdp_load_compare(loading) || loading->base_prefix == NULL)
		return false;
	for (size_t i = 0; i < loading->stored.count; i++) {
		const struct fsdp_load_tensor *tensor = &loading->stored.items[i];
		head |= fsdp_span_is(tensor->name, "lm_head.weight");
		bare |= tensor->has_match &&
			!fsdp_span_begins(
				tensor->name, fsdp_span_text(loading->base_prefix)) &&
			!fsdp_span_is(tensor->name, "lm_head.weight");
	}
	return bare && head;
}

static bool is_index(const struct fsdp_loading *loading)
{
	return loading->weights != NULL &&
	       fsdp_span_ends(fsdp_span_text(loading->weights), FSDP_SPAN(".index.json"));
}

/* Tensors that a finding of this rule is about. */
static bool has_finding(struct fsdp_loading *loading, const char *rule)
{
	const struct fsdp_checkpoint *checkpoint =
		is_index(loading) ? fsdp_load_open(loading, loading->weights) : NULL;

	for (size_t i = 0; checkpoint != NULL && i < fsdp_finding_count(checkpoint); i++)
		if (strcmp(fsdp_finding(checkpoint, i)->rule->id, rule) == 0)
			fsdp_load_name(loading, fsdp_finding(checkpoint, i)->tensor);
	if (loading->all_names > 0)
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(loading->names[0], 512));
	return loading->all_names > 0;
}

static bool has_ghost(struct fsdp_loading *loading)
{
	return has_finding(loading, "FI1060");
}

static bool has_unindexed(struct fsdp_loading *loading)
{
	return has_finding(loading, "FI1062");
}

/* 4.57 gives the head what the embedding has, and nothing the other way round. */
static bool is_of_head(struct fsdp_span name)
{
	return fsdp_span_is(name, "lm_head.weight") ||
	       fsdp_span_begins(name, FSDP_SPAN("cls.predictions.decoder."));
}

static bool stores_head_alone(struct fsdp_loading *loading)
{
	bool heads[FSDP_LOAD_TIE_COUNT] = { false },
	     others[FSDP_LOAD_TIE_COUNT] = { false };

	if (!fsdp_load_compare(loading))
		return false;
	for (size_t i = 0; i < loading->model.count; i++) {
		const struct fsdp_load_tensor *tensor = &loading->model.items[i];
		if (tensor->has_match)
			(is_of_head(tensor->name) ? heads : others)[tensor->tie] = true;
	}
	return (heads[FSDP_LOAD_TIED_WEIGHT] && !others[FSDP_LOAD_TIED_WEIGHT]) ||
	       (heads[FSDP_LOAD_TIED_BIAS] && !others[FSDP_LOAD_TIED_BIAS]);
}

static const struct fsdp_load_rule rules[] = {
	{ "hf-adapter-alone", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the folder holds an adapter, and its base model is stored elsewhere; use --for=peft",
		NULL, is_adapter, true },
	{ "hf-config-no-json", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.OSError",
		"It looks like the config file at '{path}/config.json' is not a valid JSON file.",
		"put the model's config.json beside the weights", has_bad_config },
	{ "hf-no-model-type", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"Unrecognized model in {path}. Should have a `model_type` key in its config.json.",
		"run fsdp-inspect export -o OUT {path}, and put the model's config.json into OUT",
		has_no_type_but_tensors },
	{ "hf-no-model-type", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"Unrecognized model in {path}. Should have a `model_type` key in its config.json.",
		"put the model's config.json beside the weights", has_no_type },
	{ "hf-layer-types", "5", NULL, FSDP_LOAD_REFUSES,
		"huggingface_hub.errors.StrictDataclassClassValidationError",
		"Class validation error for validator 'validate_layer_type':",
		"set num_hidden_layers in config.json, which is {1}, to the {0} layers of layer_types, or correct that list",
		counts_other_layers },
	{ "hf-layer-types", NULL, "5", FSDP_LOAD_NOT_JUDGED, NULL,
		"num_hidden_layers in config.json is {1}, and layer_types has {0}: some model types refuse that",
		NULL, counts_other_layers },
	{ "hf-other-name", "5", NULL, FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named model.safetensors, or pytorch_model.bin, found in directory {path}.",
		"rename {0} to {1}", has_other_name },
	{ "hf-other-name", NULL, "5", FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory {path}.",
		"rename {0} to {1}", has_other_name },
	{ "hf-fsdp-folder", "5", NULL, FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named model.safetensors, or pytorch_model.bin, found in directory {path}.",
		"run accelerate merge-weights pytorch_model_fsdp_0 .", has_fsdp_folder },
	{ "hf-fsdp-folder", NULL, "5", FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory {path}.",
		"run accelerate merge-weights pytorch_model_fsdp_0 .", has_fsdp_folder },
	{ "hf-no-index", "5", NULL, FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named model.safetensors, or pytorch_model.bin, found in directory {path}.",
		"write model.safetensors.index.json", has_shards_alone },
	{ "hf-no-index", NULL, "5", FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory {path}.",
		"write model.safetensors.index.json", has_shards_alone },
	{ "hf-no-weights", "5", NULL, FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named model.safetensors, or pytorch_model.bin, found in directory {path}.",
		NULL, has_no_weights },
	{ "hf-no-weights", NULL, "5", FSDP_LOAD_REFUSES, "builtins.OSError",
		"Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory {path}.",
		NULL, has_no_weights },
	{ "hf-index-no-json", NULL, NULL, FSDP_LOAD_REFUSES,
		"json.decoder.JSONDecodeError",
		"Expecting value: line 1 column 1 (char 0)",
		"download the file itself, for example with git lfs pull",
		fsdp_load_is_bad_index },
	{ "hf-index-no-map", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.KeyError",
		"'weight_map'", "write the index anew", has_no_map },
	{ "hf-index-odd-map", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.TypeError",
		"'<' not supported between instances of 'str' and 'int'",
		"write the index anew: weight_map holds names of files", has_odd_map },
	{ "hf-index-no-metadata", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.KeyError",
		"'metadata'", "add \"metadata\": {} to the index", has_no_metadata },
	{ "hf-index-empty", "5", NULL, FSDP_LOAD_REFUSES, "builtins.IndexError",
		"list index out of range", "write the index anew", has_empty_map },
	{ "hf-dtype", "5", NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"module 'torch' has no attribute '{0}'",
		"set dtype in config.json to one of torch", has_unknown_type },
	{ "hf-shard-absent", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.FileNotFoundError",
		"No such file or directory: {path}/{0}", FSDP_LOAD_COPY,
		fsdp_load_lacks_shard },
	{ "hf-safetensors-damaged", NULL, NULL, FSDP_LOAD_REFUSES,
		"safetensors._safetensors_rust.SafetensorError",
		"Error while deserializing header: {0}",
		"download or copy the file again", fsdp_load_is_cut_safetensors },
	{ "hf-unpickling-global", "5", NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_GLOBAL, "{2}", fsdp_load_weights_refuse_global },
	{ "hf-unpickling", "5", NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_OPCODE,
		"download the file itself, for example with git lfs pull",
		fsdp_load_weights_refuse_opcode },
	{ "hf-unpickling-global", NULL, "5", FSDP_LOAD_REFUSES, "builtins.OSError",
		"Unable to load weights from pytorch checkpoint file for '{path}/pytorch_model.bin'",
		NULL, fsdp_load_weights_refuse_global },
	{ "hf-unpickling", NULL, "5", FSDP_LOAD_REFUSES, "builtins.OSError",
		"You seem to have cloned a repository without having git-lfs installed.",
		"download the file itself, for example with git lfs pull",
		fsdp_load_weights_refuse_opcode },
	{ "hf-no-dict", "5", NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"values expected sparse tensor layout but got Strided",
		FSDP_LOAD_SAVE_DICT, is_tensor_untyped },
	{ "hf-no-dict", "5", NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"'{0}' object has no attribute 'values'", FSDP_LOAD_SAVE_DICT,
		is_no_dict_untyped },
	{ "hf-no-dict", "5", NULL, FSDP_LOAD_REFUSES, "builtins.TypeError",
		"'{0}' object is not iterable", FSDP_LOAD_SAVE_DICT, is_one_value },
	{ "hf-no-dict", "5", NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"dictionary update sequence element #0 has length {2}; 2 is required",
		FSDP_LOAD_SAVE_DICT, is_sequence },
	{ "hf-no-dict-other", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL, FSDP_LOAD_NO_DICT,
		FSDP_LOAD_SAVE_DICT, is_other_root, true },
	{ "hf-nested", "5", NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"'{0}' object has no attribute 'is_floating_point'",
		"save only the inner dict, which holds the tensors", is_nested_untyped },
	{ "hf-odd-key", "5", NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"'{0}' object has no attribute 'split'", FSDP_LOAD_SAVE_DICT,
		fsdp_load_has_odd_key },
	{ "hf-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} cannot be read completely: {1}", NULL, fsdp_load_cannot_open },
	{ "hf-model-unknown", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the parameter names of this model type are not known; give them with --expect",
		NULL, fsdp_load_knows_no_model },
	{ "hf-head-alone", NULL, "5", FSDP_LOAD_REFUSES, "builtins.NotImplementedError",
		"Cannot copy out of meta tensor; no data!", NULL, stores_head_alone },
	{ "hf-ghost", NULL, "5", FSDP_LOAD_REFUSES, "builtins.NotImplementedError",
		"Cannot copy out of meta tensor; no data!",
		"write the index anew: no shard holds {0}", has_ghost },
	{ "hf-bare-base", NULL, "5", FSDP_LOAD_REFUSES, "builtins.ValueError",
		"The state dictionary of the model you are trying to load is corrupted.",
		"rename the tensors to the names of the model", has_bare_base_and_head },
	{ "hf-unindexed", NULL, "5", FSDP_LOAD_DIFFERS, NULL,
		"{0} is not in the index, so it is not read: newly initialised",
		"write the index anew from the shards", has_unindexed },
	{ "hf-experts-conversion", "5", NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"We encountered some issues during automatic conversion of the weights. For details look at the `CONVERSION` entries of the above report! {0} | CONVERSION",
		NULL, fsdp_load_cannot_join_experts },
	{ "hf-experts-fewer", "5", NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"You set `ignore_mismatched_sizes` to `False`, thus raising an error. For details look at the above report! {0} | MISMATCH",
		NULL, fsdp_load_has_fewer_experts },
	{ "hf-shape", "5", NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"You set `ignore_mismatched_sizes` to `False`, thus raising an error. For details look at the above report! {1} | MISMATCH | {2}",
		"{3}", fsdp_load_is_misshaped },
	{ "hf-shape", NULL, "5", FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for {0}: size mismatch for {1}: {2}",
		"{3}", is_misshaped_in_module },
	{ "hf-unexpected", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{1} | UNEXPECTED |, {0} | MISSING |: what is missing is newly initialised",
		"{3}", fsdp_load_leaves_out },
	{ "hf-missing", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{0} | MISSING |: newly initialised", NULL, fsdp_load_misses_unsaid },
	{ "hf-other-set", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{1} is taken and {0} is not looked at; they differ",
		"move the one that is not meant out of the folder",
		fsdp_load_sets_differ },
	{ "hf-other-set-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{1} is loaded and {0} is ignored; use --data to see whether they differ",
		NULL, fsdp_load_sets_unread },
	{ "hf-adapter-beside", "5", NULL, FSDP_LOAD_DIFFERS, NULL,
		"the adapter beside the model is put on it: weights get names with base_layer",
		"move adapter_config.json away", has_adapter },
	{ "hf-adapter-beside", NULL, "5", FSDP_LOAD_NOT_JUDGED, NULL,
		"the adapter's base model is loaded instead of this one", NULL,
		has_adapter },
	{ "hf-cast", "5", NULL, FSDP_LOAD_DIFFERS, NULL,
		"values are cast to {0}, as config.json asks",
		"call from_pretrained(dtype=...) with the stored dtype", is_narrowed },
	{ "hf-tie-contradicts", NULL, "5", FSDP_LOAD_DIFFERS, NULL,
		"the head is replaced by the embedding without a word; both are stored and differ",
		FSDP_LOAD_UNTIE, fsdp_load_ties_contradict },
	{ "hf-tie-unread", NULL, "5", FSDP_LOAD_NOT_JUDGED, NULL, FSDP_LOAD_TIE_UNREAD,
		NULL, fsdp_load_ties_unread },
	{ NULL },
};

static const char *const versions[] = { "5.24.0", "5.23.0", "4.57.6", NULL };

const struct fsdp_loader fsdp_loader_hf = {
	.name = "hf",
	.library = "transformers",
	.versions = versions,
	.begin = begin,
	.list_took = list_took,
	.rules = rules,
};
