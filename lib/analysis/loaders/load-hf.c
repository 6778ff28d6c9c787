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

#define FILE_NAME "config.json"

/* Of the directory, its configuration and its index. */
enum {
	CONFIG = 1 << 0,
	ADAPTER = 1 << 1,
	FSDP = 1 << 2,
	SHARDS = 1 << 3,
	BAD_CONFIG = 1 << 4,
	NO_TYPE = 1 << 5,
	QUANTIZED = 1 << 6,
	/* Then 5.x takes the type of the first tensor. */
	NO_DTYPE = 1 << 7,
	NO_MAP = 1 << 8,
	ODD_MAP = 1 << 9,
	EMPTY_MAP = 1 << 10,
	NO_METADATA = 1 << 11
};

static const struct fsdp_load_fact facts[] = {
	{ CONFIG, { FILE_NAME } },
	{ ADAPTER, { "adapter_config.json" } },
	{ FSDP, { "pytorch_model_fsdp_0/.metadata" } },
	{ SHARDS, { "model-0*.safetensors" } },
	{ 0 },
};

static uint32_t read_config(struct fsdp_loading *loading)
{
	struct fsdp_survey_document config;
	struct fsdp_span text = fsdp_survey_text(loading->survey, FILE_NAME);
	uint32_t is = 0;

	loading->failed |= !fsdp_survey_document(loading->survey, FILE_NAME, &config);
	while (text.size != 0 && memchr(" \t\r\n", text.data[0], 4) != NULL)
		text = fsdp_span(text.data + 1, text.size - 1);
	/* A list is read, and then has no type. */
	if (config.is_there && !config.is_valid &&
		!fsdp_span_begins(text, FSDP_SPAN("[")))
		is |= BAD_CONFIG;
	if (fsdp_load_text(loading, FILE_NAME, "model_type").data == NULL)
		is |= NO_TYPE;
	if (fsdp_load_setting(loading, FILE_NAME, "quantization_config").value.kind ==
		FSDP_TOKEN_DICT)
		is |= QUANTIZED;
	return is | (fsdp_load_dtype(loading).data == NULL ? NO_DTYPE : 0);
}

/* Three keys of the index are read by name. */
static uint32_t read_index(struct fsdp_loading *loading)
{
	struct fsdp_survey_document index;
	uint32_t is = NO_MAP | NO_METADATA;

	if (loading->weights == NULL ||
		!fsdp_span_ends(fsdp_span_text(loading->weights), FSDP_SPAN(".json")))
		return 0;
	loading->failed |=
		!fsdp_survey_document(loading->survey, loading->weights, &index);
	for (uint32_t i = 1; i < index.count; i = index.settings[i].end) {
		const struct fsdp_setting *of = &index.settings[i];
		if (of->value.kind == FSDP_TOKEN_NONE)
			continue;
		if (fsdp_span_is(of->key, "metadata"))
			is &= ~(uint32_t)NO_METADATA;
		if (!fsdp_span_is(of->key, "weight_map"))
			continue;
		is &= ~(uint32_t)NO_MAP;
		is |= of->value.count == 0 ? EMPTY_MAP : 0;
		for (uint32_t k = i + 1; k < of->end; k = index.settings[k].end)
			if (index.settings[k].value.kind == FSDP_TOKEN_INTEGER)
				is |= ODD_MAP;
	}
	return is;
}

static void begin(struct fsdp_loading *loading)
{
	static const char *const adapters[] = { "adapter_model.safetensors",
		"adapter_model.bin", NULL };

	loading->is |= read_config(loading) | read_index(loading);
	loading->adds_prefix = loading->converts = loading->lists_weights = true;
	/* From 5 on it also applies an adapter in the same directory. */
	if (loading->transformers != NULL &&
		fsdp_load_compare_versions(loading->transformers, "5") >= 0 &&
		(loading->is & ADAPTER) != 0)
		loading->listed_beside = fsdp_load_choose(loading, adapters);
}

/* ---- the configuration ---- */

/* The configured dtype, by its name in torch; half, float and double are aliases. Word 0 is a name that torch lacks. */
static bool has_unknown_type(struct fsdp_loading *loading)
{
	static const char *const others[] = { "half", "float", "double" };
	struct fsdp_span name = fsdp_load_dtype(loading);

	for (uint32_t i = 1; i < fsdp_dtype_count(); i++)
		if (fsdp_span_is(name, fsdp_dtype(i)->name))
			return false;
	for (size_t i = 0; i < FSDP_COUNT(others); i++)
		if (fsdp_span_is(name, others[i]))
			return false;
	fsdp_load_set_word(loading, 0, name);
	return true;
}

/* Words 0 and 1: the numbers of layer_types and of layers. */
static bool counts_other_layers(struct fsdp_loading *loading)
{
	struct fsdp_setting types = fsdp_load_setting(loading, FILE_NAME, "layer_types");
	int64_t layers = fsdp_load_integer(loading, FILE_NAME, "num_hidden_layers", -1);

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

	loading->failed |= !fsdp_survey_document(loading->survey, FILE_NAME, &config);
	for (size_t i = 0; i < FSDP_COUNT(places) && place == NULL; i++)
		place = find_inner(&config, 0, places[i]);
	for (size_t i = 0; place != NULL && i < FSDP_COUNT(types) && type == NULL; i++)
		type = find_inner(&config, (size_t)(place - config.settings), types[i]);
	/* Phi-3 gives its kinds other names. */
	if (type == NULL || type->value.kind != FSDP_TOKEN_TEXT ||
		fsdp_span_is(fsdp_load_text(loading, FILE_NAME, "model_type"), "phi3") ||
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
	return (loading->is & NO_DTYPE) != 0 || (length != 0 && length != 2);
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

	if (!root.is_dict || root.first_class == NULL ||
		strcmp(root.first_class, "Tensor") == 0 ||
		strcmp(root.first_class, "Parameter") == 0)
		return false;
	fsdp_load_say(loading, 0, "%s", loading->weights);
	fsdp_load_say(loading, 1, "a value of class %s", root.first_class);
	return true;
}

/* ---- files ---- */

/* A checkpoint of another kind, which can be written as one of this. */
static bool has_tensors(struct fsdp_loading *loading)
{
	return fsdp_load_open(loading, "") != NULL;
}

/* A file that is called otherwise than the loader asks for. If there are several, which of them is
 * meant is not known. */
static bool has_other_name(struct fsdp_loading *loading)
{
	static const char *const names[] = { "consolidated.safetensors",
		"model.fp16.safetensors", "model.bf16.safetensors",
		"model.fp32.safetensors", "pytorch_model.safetensors", "pytorch_model.pt",
		"model.pt", "model (*).safetensors", "pytorch_model (*).bin", NULL };
	const char *found = fsdp_load_choose(loading, names);

	if (found == NULL || fsdp_load_count(loading, names) > 1)
		return false;
	fsdp_load_say(loading, 0, "%s", found);
	fsdp_load_say(loading, 1, "%s",
		fsdp_span_ends(fsdp_span_text(found), FSDP_SPAN(".safetensors"))
			? "model.safetensors"
			: "pytorch_model.bin");
	return true;
}

/* ---- tensors ---- */

/* The configured dtype is narrower than a stored one. */
static bool is_narrowed(struct fsdp_loading *loading)
{
	struct fsdp_span wanted = fsdp_load_dtype(loading);
	const struct fsdp_dtype *to = NULL;

	for (uint32_t i = 1; i < fsdp_dtype_count() && wanted.data != NULL; i++)
		if (fsdp_span_is(wanted, fsdp_dtype(i)->name))
			to = fsdp_dtype(i);
	if (to == NULL || !to->is_floating || !fsdp_load_compare(loading))
		return false;
	for (size_t i = 0; i < loading->stored.count; i++) {
		const struct fsdp_load_tensor *tensor = &loading->stored.items[i];
		const struct fsdp_dtype *from = fsdp_dtype(tensor->dtype);
		if (tensor->match != NULL && from->is_floating && from != to &&
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
		bare |= tensor->match != NULL &&
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

	if (!fsdp_load_compare(loading))
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
		if (tensor->match != NULL)
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

	if (!fsdp_load_knows_no_model(loading) ||
		fsdp_load_setting(loading, FILE_NAME, "auto_map").end != 0 ||
		fsdp_load_text(loading, FILE_NAME, "model_type").size == 0)
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

#define PUT_CONFIG "put the model's config.json next to the weights"
#define EXPORT \
	"run fsdp-inspect export -o OUT {path}, and put the model's config.json into OUT"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(ADAPTER, .when = ADAPTER | FSDP_LOAD_NONE, .unless = CONFIG,
		.ends = true,
		.message =
			"the directory contains an adapter, and its base model is stored elsewhere; use --for=peft"),
	FSDP_REFUSES(CONFIG, .when = BAD_CONFIG, .fix = PUT_CONFIG,
		.message = "config.json is not valid JSON"),
	FSDP_REFUSES(CONFIG, has_tensors, "config.json is missing", EXPORT,
		.when = FSDP_LOAD_NONE, .unless = CONFIG),
	FSDP_REFUSES(CONFIG, .unless = CONFIG, .fix = PUT_CONFIG,
		.message = "config.json is missing"),
	FSDP_REFUSES(CONFIG, has_tensors, "config.json has no model_type", EXPORT,
		.when = NO_TYPE | FSDP_LOAD_NONE),
	FSDP_REFUSES(CONFIG, .when = NO_TYPE, .fix = PUT_CONFIG,
		.message = "config.json has no model_type"),
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
	FSDP_REFUSES(NO_WEIGHTS, has_other_name, NO_WEIGHTS, "rename {0} to {1}",
		.when = FSDP_LOAD_NONE),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP | FSDP_LOAD_NONE, .message = NO_WEIGHTS,
		.fix = "run accelerate merge-weights pytorch_model_fsdp_0 ."),
	FSDP_REFUSES(NO_WEIGHTS, .when = SHARDS | FSDP_LOAD_NONE, .message = NO_WEIGHTS,
		.fix = "write model.safetensors.index.json"),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP_LOAD_NONE, .message = NO_WEIGHTS),
	FSDP_REFUSES(INDEX, fsdp_load_is_bad_index, "the index is not valid JSON", "{0}"),
	FSDP_REFUSES(INDEX, .when = NO_MAP, .message = "the index has no weight_map"),
	FSDP_REFUSES(INDEX, .when = ODD_MAP,
		.message = "weight_map of the index has values that are not file names"),
	FSDP_REFUSES(INDEX, .when = NO_METADATA, .message = "the index has no metadata",
		.fix = "add \"metadata\": {} to the index"),
	FSDP_REFUSES(INDEX, .when = EMPTY_MAP, .since = "5",
		.message = "weight_map of the index is empty"),
	FSDP_REFUSES(DTYPE, has_unknown_type,
		"dtype {0} in config.json is not one of torch",
		"set dtype in config.json to one of torch", .unless = NO_DTYPE,
		.since = "5"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_shard),
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_cut_safetensors),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, .since = "5"),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, NULL, FSDP_NO_FIX,
		.until = "5"),
	FSDP_REFUSES(UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode),
	FSDP_REFUSES(NO_STATE_DICT, refuses_root, .since = "5"),
	FSDP_NOT_JUDGED(NO_STATE_DICT, is_other_root, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, is_nested_untyped, NULL,
		"save only the inner dict, which holds the tensors", .when = NO_DTYPE,
		.since = "5"),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_odd_key, .since = "5"),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_DIFFERS(OTHER_NAMES, has_wrapped_names,
		"all names begin with {0}, which a wrapper adds: every weight stays randomly initialized",
		"fsdp-inspect export --strip={0}"),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_knows_no_model,
		"quantization_config changes the names of the parameters; give them with --expect",
		.when = QUANTIZED),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_knows_no_model, .unless = QUANTIZED),
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
		"put quantization_config back into config.json, as the model that it was made from has it",
		.unless = QUANTIZED),
	FSDP_DIFFERS(OTHER_NAMES, fsdp_load_leaves_out),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses_unsaid, NULL, FSDP_NO_FIX),
	FSDP_COMPARES_SETS(0),
	FSDP_DIFFERS(ADAPTER, .when = ADAPTER, .since = "5",
		.message =
			"the adapter next to the model is put on it: weights get names with base_layer",
		.fix = "move adapter_config.json away"),
	FSDP_NOT_JUDGED(ADAPTER, .when = ADAPTER, .until = "5",
		.message = "the adapter's base model is loaded instead of this one"),
	FSDP_DIFFERS(DTYPE, is_narrowed, "values are cast to {0} (dtype in config.json)",
		"call from_pretrained(dtype=...) with the stored dtype", .since = "5"),
	FSDP_DIFFERS(TIED_WEIGHTS, fsdp_load_ties_contradict,
		"the output head is replaced by the embedding; both are stored and differ",
		FSDP_LOAD_UNTIE, .until = "5"),
	FSDP_NOT_JUDGED(TIED_WEIGHTS, fsdp_load_ties_unread, .until = "5"),
	{ 0 },
};

static const char *const versions[] = { "5.24.0", "5.23.0", "4.57.6", NULL };

static const char *const order[] = { "model.safetensors", "model.safetensors.index.json",
	"pytorch_model.bin", "pytorch_model.bin.index.json", NULL };

const struct fsdp_loader fsdp_loader_hf = {
	.name = "hf",
	.library = "transformers",
	.versions = versions,
	.order = order,
	.facts = facts,
	.begin = begin,
	.rules = rules,
};
