/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AutoModelForCausalLM.from_pretrained(directory).
 *
 * Origin: transformers/modeling_utils.py, core_model_loading.py, loading_report.py
 * (5.23, 5.24); modeling_utils.py (4.57).
 */
#include <stdio.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

static void begin(struct fsdp_loading *loading)
{
	static const char *const order[] = { "model.safetensors",
		"model.safetensors.index.json", "pytorch_model.bin",
		"pytorch_model.bin.index.json", NULL };

	loading->weights = fsdp_load_choose(loading, order);
	loading->adds_prefix = loading->converts = true;
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

/* The configured dtype, by its name in torch; half, float and double are aliases. Word 0 is a name that torch lacks. */
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

/* A member of the dict at this place, unless it is null. */
static const struct fsdp_setting *find_inner(
	const struct fsdp_survey_document *config, size_t at, const char *key)
{
	const struct fsdp_setting *outer = &config->settings[at], *found;

	if (config->count == 0 || outer->value.kind != FSDP_TOKEN_DICT)
		return NULL;
	for (size_t i = at + 1; i < outer->end; i = found->end) {
		found = &config->settings[i];
		if (fsdp_span_is(found->key, key))
			return found->value.kind != FSDP_TOKEN_NONE ? found : NULL;
	}
	return NULL;
}

/* A kind of rotary positions without a number that it needs. Words 0 to 2: where, the kind, the number. */
static bool lacks_rope_number(struct fsdp_loading *loading)
{
	static const char *const kinds[][4] = { { "linear", "factor" },
		{ "dynamic", "factor" }, { "yarn", "factor" },
		{ "llama3", "factor", "low_freq_factor", "high_freq_factor" },
		{ "longrope", "short_factor", "long_factor" } };
	static const char *const places[] = { "rope_scaling", "rope_parameters" };
	static const char *const types[] = { "rope_type", "type" };
	struct fsdp_survey_document config;
	const struct fsdp_setting *place = NULL, *type = NULL;

	loading->failed |= !fsdp_survey_document(loading->survey, "config.json", &config);
	for (size_t i = 0; i < FSDP_COUNT(places) && place == NULL; i++)
		place = find_inner(&config, 0, places[i]);
	for (size_t i = 0; place != NULL && i < FSDP_COUNT(types) && type == NULL; i++)
		type = find_inner(&config, (size_t)(place - config.settings), types[i]);
	/* Phi-3 gives its kinds other names. */
	if (type == NULL || type->value.kind != FSDP_TOKEN_TEXT ||
		fsdp_span_is(
			fsdp_load_text(loading, "config.json", "model_type"), "phi3") ||
		!fsdp_load_compare(loading))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(kinds); i++)
		for (size_t k = 1; k < FSDP_COUNT(kinds[i]) && kinds[i][k] != NULL; k++) {
			if (!fsdp_span_is(type->value.text, kinds[i][0]) ||
				find_inner(&config, (size_t)(place - config.settings),
					kinds[i][k]) != NULL)
				continue;
			fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(place->key, 40));
			fsdp_load_say(loading, 1, "%s", kinds[i][0]);
			fsdp_load_say(loading, 2, "%s", kinds[i][k]);
			return true;
		}
	return false;
}

/* ---- what else than a dict of tensors a pickle may be ---- */

/* Then 5.x takes the type of the first tensor. */
static bool tells_no_type(struct fsdp_loading *loading)
{
	return fsdp_load_text(loading, "config.json", "dtype").data == NULL &&
	       fsdp_load_text(loading, "config.json", "torch_dtype").data == NULL;
}

/* Number of elements that dict.update finds in the first item of a list of tensors, or of a tensor, where it expects
 * a key and a value; 0: unknown. */
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

/* A dict is not made from one value, nor from items that are not pairs. */
static bool refuses_root(struct fsdp_loading *loading)
{
	static const char *const values[] = { "NoneType", "bool", "int", "float" };
	struct fsdp_survey_root root = fsdp_load_root(loading);
	bool has_tensor = root.first_class != NULL && !root.is_dict &&
			  strcmp(root.first_class, "Tensor") == 0;
	int64_t length = root.is_tensor || has_tensor ? length_of_first(loading) : 0;

	if (!fsdp_load_is_no_dict(loading))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(values); i++)
		if (strcmp(root.class_name, values[i]) == 0)
			return true;
	return tells_no_type(loading) || (length != 0 && length != 2);
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

static bool is_nested_untyped(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	if (!root.is_dict || root.first_class == NULL || !tells_no_type(loading) ||
		strcmp(root.first_class, "Tensor") == 0 ||
		strcmp(root.first_class, "Parameter") == 0)
		return false;
	fsdp_load_say(loading, 0, "%s", loading->weights);
	fsdp_load_say(loading, 1, "a value of class %s", root.first_class);
	return true;
}

/* ---- the index: three keys are read by name ---- */

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

/* Word 0: what is wrong. */
static bool has_no_type(struct fsdp_loading *loading)
{
	fsdp_load_say(loading, 0, "config.json %s",
		fsdp_load_has_file(loading, "config.json") ? "has no model_type"
							   : "is missing");
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
	       fsdp_load_has_file(loading, "pytorch_model_fsdp_0/.metadata");
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

/* From 5 on it also applies an adapter in the same directory. */
static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	static const char *const adapters[] = { "adapter_model.safetensors",
		"adapter_model.bin", NULL };
	bool takes_adapter = has_adapter(loading) &&
			     fsdp_load_compare_versions(result->version, "5") >= 0;

	return fsdp_load_list_took(loading,
		takes_adapter ? fsdp_load_choose(loading, adapters) : NULL, result);
}

/* The configured dtype is narrower than a stored one. */
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

/* The prefix is missing, and not because the head is not stored: 4.57 adds none there. */
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

/* Without quantization_config nothing asks for the scale of an FP8 weight. Word 0: one. */
static bool leaves_out_scales(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint;

	if (!fsdp_load_compare(loading) ||
		fsdp_load_setting(loading, "config.json", "quantization_config")
				.value.kind == FSDP_TOKEN_DICT)
		return false;
	checkpoint = fsdp_load_open(loading, loading->weights);
	for (size_t i = 0; i < loading->model.count; i++) {
		const struct fsdp_load_tensor *weight = &loading->model.items[i];
		const struct fsdp_load_tensor *stored =
			fsdp_load_find_stored(loading, checkpoint, weight->name);
		char name[512];

		if (stored == NULL ||
			strncmp(fsdp_dtype(stored->dtype)->name, "float8_e", 8) != 0)
			continue;
		snprintf(name, sizeof name, "%.*s_scale",
			FSDP_TEXT_MOST(weight->name, sizeof name - 16));
		if (fsdp_load_find_stored(loading, checkpoint, fsdp_span_text(name)) ==
			NULL)
			continue;
		fsdp_load_say(loading, 0, "%s", name);
		return true;
	}
	return false;
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

#define NO_WEIGHTS \
	"the directory has no model.safetensors, pytorch_model.bin or index of either"

/* Of a class whose names are not known, too: no model of transformers has such names. */
static bool has_wrapped_names(struct fsdp_loading *loading)
{
	static const char *const words[] = { "module.", "_orig_mod." };
	const struct fsdp_checkpoint *checkpoint;

	if (!fsdp_load_knows_no_model(loading) || loading->weights == NULL ||
		fsdp_load_setting(loading, "config.json", "auto_map").end != 0 ||
		fsdp_load_text(loading, "config.json", "model_type").size == 0)
		return false;
	checkpoint = fsdp_load_open(loading, loading->weights);
	(void)fsdp_load_find_stored(loading, checkpoint, FSDP_SPAN(""));
	for (size_t i = 0; checkpoint != NULL && i < FSDP_COUNT(words); i++) {
		size_t k = 0;
		while (k < loading->stored.count &&
			fsdp_span_begins(
				loading->stored.items[k].name, fsdp_span_text(words[i])))
			k++;
		if (k > 0 && k == loading->stored.count) {
			fsdp_load_say(loading, 0, "%s", words[i]);
			return true;
		}
	}
	return false;
}

static bool is_quantized(struct fsdp_loading *loading)
{
	return fsdp_load_setting(loading, "config.json", "quantization_config")
			       .value.kind == FSDP_TOKEN_DICT &&
	       fsdp_load_knows_no_model(loading);
}

static bool is_unknown(struct fsdp_loading *loading)
{
	return fsdp_load_knows_no_model(loading) && !is_quantized(loading);
}

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(ADAPTER, is_adapter,
		"the directory contains an adapter, and its base model is stored elsewhere; use --for=peft",
		.ends = true),
	FSDP_REFUSES(CONFIG, has_bad_config, "config.json is not valid JSON",
		"put the model's config.json next to the weights"),
	FSDP_REFUSES(CONFIG, has_no_type_but_tensors, "{0}",
		"run fsdp-inspect export -o OUT {path}, and put the model's config.json into OUT"),
	FSDP_REFUSES(CONFIG, has_no_type, "{0}",
		"put the model's config.json next to the weights"),
	FSDP_REFUSES(CONFIG, counts_other_layers,
		"config.json has num_hidden_layers {1} and {0} layer_types",
		"set num_hidden_layers in config.json, which is {1}, to the {0} layers of layer_types, or correct that list",
		.since = "5"),
	FSDP_NOT_JUDGED(CONFIG, counts_other_layers,
		"config.json has num_hidden_layers {1} and {0} layer_types, which some model types refuse",
		.until = "5"),
	FSDP_REFUSES(CONFIG, lacks_rope_number,
		"{0} in config.json is of kind {1} and has no {2}",
		"put {0} of the source model's config.json in its place", .since = "5"),
	FSDP_REFUSES(NO_WEIGHTS, has_other_name, NO_WEIGHTS, "rename {0} to {1}"),
	FSDP_REFUSES(NO_WEIGHTS, has_fsdp_folder, NO_WEIGHTS,
		"run accelerate merge-weights pytorch_model_fsdp_0 ."),
	FSDP_REFUSES(NO_WEIGHTS, has_shards_alone, NO_WEIGHTS,
		"write model.safetensors.index.json"),
	FSDP_REFUSES(NO_WEIGHTS, has_no_weights, NO_WEIGHTS),
	FSDP_REFUSES(INDEX, fsdp_load_is_bad_index, "the index is not valid JSON", "{0}"),
	FSDP_REFUSES(INDEX, has_no_map, "the index has no weight_map"),
	FSDP_REFUSES(INDEX, has_odd_map,
		"weight_map of the index has values that are not file names"),
	FSDP_REFUSES(INDEX, has_no_metadata, "the index has no metadata",
		"add \"metadata\": {} to the index"),
	FSDP_REFUSES(
		INDEX, has_empty_map, "weight_map of the index is empty", .since = "5"),
	FSDP_REFUSES(DTYPE, has_unknown_type,
		"dtype {0} in config.json is not one of torch",
		"set dtype in config.json to one of torch", .since = "5"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_shard),
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_cut_safetensors),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, .since = "5"),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, NULL, FSDP_NO_FIX,
		.until = "5"),
	FSDP_REFUSES(UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode),
	FSDP_REFUSES(NO_STATE_DICT, refuses_root, .since = "5"),
	FSDP_NOT_JUDGED(NO_STATE_DICT, is_other_root, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, is_nested_untyped, NULL,
		"save only the inner dict, which holds the tensors", .since = "5"),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_odd_key, .since = "5"),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_DIFFERS(OTHER_NAMES, has_wrapped_names,
		"all names begin with {0}, which a wrapper adds: every weight stays randomly initialized",
		"fsdp-inspect export --strip={0}"),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, is_quantized,
		"quantization_config changes the names of the parameters; give them with --expect"),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, is_unknown),
	FSDP_REFUSES(TIED_WEIGHTS, stores_head_alone,
		"the output head is stored, and the embedding that is tied to it is missing",
		.until = "5"),
	FSDP_REFUSES(INDEX, .finding = "FI1060", .until = "5",
		.message = "the index does not match the shards: {0}",
		.fix = "copy the index and the shards of one export again"),
	FSDP_REFUSES(OTHER_NAMES, has_bare_base_and_head,
		"names of tensors lack the prefix of the base model, and the head is stored",
		"rename the tensors to the names of the model", .until = "5"),
	FSDP_DIFFERS(INDEX, .finding = "FI1062", .until = "5",
		.message = "{0} is not in the index: it stays randomly initialized"),
	FSDP_REFUSES(SHAPE, fsdp_load_cannot_join_experts,
		"the stored experts cannot be joined into {0}: their numbers or shapes differ",
		FSDP_NO_FIX, .since = "5"),
	FSDP_REFUSES(SHAPE, fsdp_load_has_fewer_experts,
		"fewer experts are stored than {0} has", FSDP_NO_FIX, .since = "5"),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped),
	FSDP_DIFFERS(OTHER_NAMES, leaves_out_scales,
		"{0} is not a name of the model: FP8 weights are used without their scales, as config.json has no quantization_config",
		"put quantization_config back into config.json, as the model that it was made from has it"),
	FSDP_DIFFERS(OTHER_NAMES, fsdp_load_leaves_out),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses_unsaid, NULL, FSDP_NO_FIX),
	FSDP_DIFFERS(OTHER_WEIGHTS, fsdp_load_sets_differ),
	FSDP_NOT_JUDGED(UNREAD_WEIGHTS, fsdp_load_sets_unread),
	FSDP_DIFFERS(ADAPTER, has_adapter,
		"the adapter next to the model is put on it: weights get names with base_layer",
		"move adapter_config.json away", .since = "5"),
	FSDP_NOT_JUDGED(ADAPTER, has_adapter,
		"the adapter's base model is loaded instead of this one", .until = "5"),
	FSDP_DIFFERS(DTYPE, is_narrowed, "values are cast to {0} (dtype in config.json)",
		"call from_pretrained(dtype=...) with the stored dtype", .since = "5"),
	FSDP_DIFFERS(TIED_WEIGHTS, fsdp_load_ties_contradict,
		"the output head is replaced by the embedding; both are stored and differ",
		FSDP_LOAD_UNTIE, .until = "5"),
	FSDP_NOT_JUDGED(TIED_WEIGHTS, fsdp_load_ties_unread, .until = "5"),
	{ 0 },
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
