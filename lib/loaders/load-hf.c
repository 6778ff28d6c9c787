/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AutoModelForCausalLM.from_pretrained(directory).
 *
 * Origin: transformers/modeling_utils.py, core_model_loading.py, loading_report.py
 * (5.23, 5.24); modeling_utils.py (4.57).
 */
#include <stdio.h>
#include <string.h>

#include "loaders/loading.h"
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
	UNUSUAL_MAP = 1 << 9,
	EMPTY_MAP = 1 << 10,
	NO_METADATA = 1 << 11,
	OTHER_DTYPE = 1 << 12,
	OTHER_LAYERS = 1 << 13,
	ADAPTER_WEIGHTS = 1 << 14,
	BAD_INDEX = 1 << 15,
	OWN_CODE = 1 << 16,
	NO_METHOD = 1 << 17
};

/* Kept words: the dtype; numbers of layer_types and of layers. */
enum { DTYPE = FSDP_LOAD_WORDS, TYPES, LAYERS };

static const struct fsdp_load_fact facts[] = {
	{ CONFIG, FILE_NAME },
	{ ADAPTER, "adapter_config.json" },
	{ ADAPTER_WEIGHTS, "adapter_model.safetensors adapter_model.bin" },
	{ FSDP, "pytorch_model_fsdp_0/.metadata" },
	{ SHARDS, "model-0*.safetensors" },
	{ BAD_CONFIG, .document = FILE_NAME },
	{ NO_TYPE, .document = FILE_NAME, .keys = "model_type", .kind = FSDP_LOAD_TEXT,
		.is_lacking = true },
	{ NO_DTYPE, .document = FILE_NAME, .keys = "dtype torch_dtype",
		.kind = FSDP_LOAD_TEXT, .is_lacking = true },
	{ QUANTIZED, .document = FILE_NAME, .keys = "quantization_config",
		.kind = FSDP_LOAD_DICT },
	{ NO_METHOD, .document = FILE_NAME,
		.keys = "quantization_config.quant_method quantization_config.load_in_8bit quantization_config.load_in_4bit",
		.is_lacking = true },
	{ OWN_CODE, .document = FILE_NAME, .keys = "auto_map" },
	{ BAD_INDEX, .document = FSDP_LOAD_OF_INDEX },
	{ NO_METADATA, .document = FSDP_LOAD_OF_INDEX, .keys = "metadata",
		.is_lacking = true },
	{ NO_MAP, .document = FSDP_LOAD_OF_INDEX, .keys = "weight_map",
		.is_lacking = true },
	{ EMPTY_MAP, .document = FSDP_LOAD_OF_INDEX, .keys = "weight_map",
		.kind = FSDP_LOAD_SET, .is_lacking = true },
	{ 0 },
};

/* The configured dtype; 0: unknown. */
static uint32_t find_dtype(struct fsdp_loading *loading)
{
	struct fsdp_span name = fsdp_load_dtype(loading);
	uint32_t i = (uint32_t)fsdp_dtype_count();
	while (--i > 0 && !fsdp_span_is(name, fsdp_dtype(i)->name))
		;
	return i;
}

static void begin(struct fsdp_loading *loading)
{
	struct fsdp_token types =
		fsdp_load_setting(loading, FILE_NAME, "layer_types").value;
	int64_t layers = fsdp_load_integer(loading, FILE_NAME, "num_hidden_layers", -1);
	struct fsdp_span dtype = fsdp_load_dtype(loading);
	const char *index = fsdp_load_index(loading);
	struct fsdp_load_items map = { 0 };
	const struct fsdp_setting *item;
	/* torch has three other names of its own. */
	if (dtype.data != NULL && find_dtype(loading) == 0 &&
		!fsdp_span_is_any(dtype, "half float double"))
		loading->is |= OTHER_DTYPE;
	if (types.kind == FSDP_TOKEN_LIST && layers >= 0 && types.count != layers)
		loading->is |= OTHER_LAYERS;
	fsdp_load_set_word(loading, DTYPE, dtype);
	fsdp_load_report(loading, TYPES, "%u", types.count);
	fsdp_load_report(loading, LAYERS, "%lld", (long long)layers);
	if (index != NULL)
		map = fsdp_load_items(loading, index, "weight_map");
	while ((item = fsdp_load_next_item(&map)) != NULL)
		if (item->value.kind == FSDP_TOKEN_INTEGER)
			loading->is |= UNUSUAL_MAP;
	loading->adds_prefix = loading->converts = loading->lists_weights = true;
	/* From 5 on it also applies an adapter in the same directory. */
	if (!loading->is_before_5 && (loading->is & ADAPTER) != 0)
		loading->listed_beside = fsdp_load_choose(
			loading, "adapter_model.safetensors adapter_model.bin");
}

/* ---- the configuration ---- */

static struct fsdp_token find_rope(
	struct fsdp_loading *loading, const char *place, const char *key)
{
	char path[64];
	snprintf(path, sizeof path, "%s.%s", place, key);
	return fsdp_load_setting(loading, FILE_NAME, path).value;
}

/* A kind of rotary positions without a number that it needs. Words 0 to 2: where, the
 * kind, the number. */
static bool lacks_rope_number(struct fsdp_loading *loading)
{
	static const char *const kinds[][2] = { { "linear", "factor" },
		{ "dynamic", "factor" }, { "yarn", "factor" }, { "llama3", "factor" },
		{ "llama3", "low_freq_factor" }, { "llama3", "high_freq_factor" },
		{ "longrope", "short_factor" }, { "longrope", "long_factor" } };
	const char *place =
		fsdp_load_setting(loading, FILE_NAME, "rope_scaling").value.count > 0
			? "rope_scaling"
			: "rope_parameters";
	struct fsdp_token type = find_rope(loading, place, "rope_type");
	if (type.kind == FSDP_TOKEN_NONE)
		type = find_rope(loading, place, "type");
	/* Phi-3 gives its kinds other names. */
	if (fsdp_span_is(fsdp_load_text(loading, FILE_NAME, "model_type"), "phi3") ||
		!fsdp_load_compare(loading))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(kinds); i++)
		if (fsdp_span_is(type.text, kinds[i][0]) &&
			find_rope(loading, place, kinds[i][1]).kind == FSDP_TOKEN_NONE)
			return fsdp_load_report(loading, 0, "%s", place) &&
			       fsdp_load_report(loading, 1, "%s", kinds[i][0]) &&
			       fsdp_load_report(loading, 2, "%s", kinds[i][1]);
	return false;
}

/* ---- what else than a dict of tensors a pickle may be ---- */

/* A dict is not made from one value, nor from items that are not pairs: dict.update finds
 * a key and a value in the first item of a list of tensors, or of a tensor. */
static bool rejects_root(struct fsdp_loading *loading)
{
	const struct fsdp_scan_root *root = &loading->root;
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	struct fsdp_tensor first;
	if (fsdp_span_is_any(
		    fsdp_span_text(root->class_name), "NoneType bool int float") ||
		(loading->is & NO_DTYPE) != 0)
		return true;
	if (checkpoint == NULL || fsdp_tensor_count(checkpoint) == 0 ||
		(!root->is_tensor && (root->first_class == NULL ||
					     strcmp(root->first_class, "Tensor") != 0)))
		return false;
	first = fsdp_tensor(checkpoint, 0);
	return first.dims > root->is_tensor && first.numel > 0 &&
	       first.shape[root->is_tensor] != 2;
}

/* An empty list adds nothing to a dict. */
static bool has_items(struct fsdp_loading *loading)
{
	const struct fsdp_scan_root *root = &loading->root;
	return root->class_name == NULL || root->count != 0 ||
	       !fsdp_span_is_any(fsdp_span_text(root->class_name), "list tuple");
}

static bool has_other_value(struct fsdp_loading *loading)
{
	const struct fsdp_scan_root *root = &loading->root;
	return root->is_dict && root->first_class != NULL &&
	       !fsdp_span_is_any(fsdp_span_text(root->first_class), "Tensor Parameter") &&
	       fsdp_load_report(loading, 0, "%s", root->first_class);
}

/* ---- files ---- */

/* A checkpoint of another kind, which can be written as one of this. */
static bool has_tensors(struct fsdp_loading *loading)
{
	return fsdp_load_open(loading, "") != NULL;
}

/* Shards that only lack their index. */
static bool has_all_shards(struct fsdp_loading *loading)
{
	return fsdp_load_is_sound(fsdp_load_open(loading, ""));
}

/* A file that is called otherwise than the loader asks for. If there are several, which
 * of them is meant is not known. */
static bool has_other_name(struct fsdp_loading *loading)
{
	static const char names[] =
		"consolidated.safetensors model.fp16.safetensors model.bf16.safetensors "
		"model.fp32.safetensors pytorch_model.safetensors pytorch_model.pt model.pt "
		"model?(*).safetensors pytorch_model?(*).bin";
	const struct fsdp_scan_entry *entry, *found = NULL;
	size_t count = 0;
	for (size_t at = 0; (entry = fsdp_load_next(loading, &at, names)) != NULL;)
		if (!entry->is_folder && count++ == 0)
			found = entry;
	if (count != 1)
		return false;
	fsdp_load_set_word(loading, 0, found->name);
	return fsdp_load_report(loading, 1, "%s",
		fsdp_span_ends(found->name, FSDP_SPAN(".safetensors"))
			? "model.safetensors"
			: "pytorch_model.bin");
}

/* Weights in one subdirectory, where the loader does not look. */
static bool has_weights_below(struct fsdp_loading *loading)
{
	const char *found =
		fsdp_load_choose(loading, "*/model*.safetensors */pytorch_model*.bin");
	return found != NULL && fsdp_load_report(loading, 0, "%s", found);
}

/* ---- tensors ---- */

/* The configured dtype is narrower than a stored one. */
static bool is_narrowed(struct fsdp_loading *loading)
{
	const struct fsdp_dtype *to = fsdp_dtype(find_dtype(loading));
	if (!to->is_floating || !fsdp_load_compare(loading))
		return false;
	fsdp_load_report(loading, 0, "%s", to->name);
	FSDP_EACH(i, loading->stored.count, tensor, &loading->stored.items[i]) {
		const struct fsdp_dtype *from = fsdp_dtype(tensor->dtype);
		if (tensor->match != NULL && from->is_floating && from != to &&
			from->item_bits >= to->item_bits)
			fsdp_load_name(loading, tensor->name);
	}
	return loading->all_names > 0;
}

/* The prefix is missing, and not because the head is not stored: 4.57 adds none there. */
static bool has_bare_base_and_head(struct fsdp_loading *loading)
{
	bool bare = false, head = false;
	if (!fsdp_load_compare(loading) || loading->base_prefix == NULL)
		return false;
	FSDP_EACH(i, loading->stored.count, tensor, &loading->stored.items[i]) {
		head |= fsdp_span_is(tensor->name, "lm_head.weight");
		bare |= tensor->match != NULL &&
			!fsdp_span_equal(tensor->name, tensor->match->name);
	}
	return bare && head;
}

/* Without quantization_config nothing asks for the scale of an FP8 weight. Word 0: one.
 */
static bool omits_scales(struct fsdp_loading *loading)
{
	if (!fsdp_load_compare(loading))
		return false;
	for (size_t i = 0; i < loading->model.count; i++) {
		struct fsdp_span name = loading->model.items[i].name;
		const struct fsdp_load_tensor *stored =
			fsdp_load_find_stored(loading, name);
		fsdp_load_report(loading, 0, "%.*s_scale", FSDP_TEXT_MOST(name, 500));
		if (stored != NULL &&
			strncmp(fsdp_dtype(stored->dtype)->name, "float8_e", 8) == 0 &&
			fsdp_load_find_stored(
				loading, fsdp_span_text(loading->words[0])) != NULL)
			return true;
	}
	return false;
}

#define NO_WEIGHTS \
	"the directory has no model.safetensors, pytorch_model.bin or index of either"

/* Of a class whose names are not known, too: no model of transformers has such names. The
 * first ones are also a module's own name further in. Word 0: the segments, in a row. */
static bool has_wrapped_names(struct fsdp_loading *loading)
{
	enum { FIRST_ONLY = 2 };
	static const char *const words[] = { "module.", "base_model.model.", "_orig_mod.",
		"_fsdp_wrapped_module.", "_checkpoint_wrapped_module." };
	const struct fsdp_load_tensors *stored;
	char row[128]; /* each word fits once more */
	size_t size;

	if (!fsdp_load_has_no_model(loading))
		return false;
	stored = fsdp_load_list_all(loading);
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		for (size_t k = 0; k < stored->count; k++)
			if (i < FIRST_ONLY ? fsdp_span_begins(stored->items[k].name,
						     fsdp_span_text(words[i]))
					   : fsdp_span_has_any(
						     stored->items[k].name, words[i]))
				fsdp_load_name(loading, stored->items[k].name);
		if (loading->all_names == 0 ||
			(i < FIRST_ONLY && loading->all_names < stored->count)) {
			fsdp_load_clear(loading);
			continue;
		}
		size = (size_t)snprintf(row, sizeof row, "%s", words[i]);
		for (size_t k = 0; k < FSDP_COUNT(words); k++) {
			size_t count = 0;
			snprintf(row + size, sizeof row - size, "%s", words[k]);
			for (size_t j = 0; j < stored->count; j++)
				count += fsdp_span_has_any(stored->items[j].name, row);
			if (count == loading->all_names)
				size += strlen(words[k]);
			row[size] = '\0';
		}
		return fsdp_load_report(loading, 0, "%s", row);
	}
	return false;
}

#define SAVE_INNER "save only the inner dict with the tensors"
#define PUT_CONFIG "put the model's config.json next to the weights"
#define EXPORT \
	"run fsdp-inspect export -o OUT {path}, and put the model's config.json into OUT"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(ADAPTER, .when = ADAPTER | FSDP_LOAD_NONE, .unless = CONFIG,
		.ends = true,
		.message =
			"the directory contains an adapter, and its base model is stored elsewhere; use --for=peft"),
	FSDP_REFUSES(CONFIG, .when = BAD_CONFIG, .fix = PUT_CONFIG,
		.message = "config.json is not a JSON object"),
	FSDP_REFUSES(CONFIG, has_tensors, "config.json is missing", EXPORT,
		.when = FSDP_LOAD_NONE, .unless = CONFIG),
	FSDP_REFUSES(CONFIG, .unless = CONFIG, .fix = PUT_CONFIG,
		.message = "config.json is missing"),
	FSDP_REFUSES(CONFIG, has_tensors, "config.json has no model_type", EXPORT,
		.when = NO_TYPE | FSDP_LOAD_NONE),
	FSDP_REFUSES(CONFIG, .when = NO_TYPE, .fix = PUT_CONFIG,
		.message = "config.json has no model_type"),
	FSDP_REFUSES(CONFIG, .when = OTHER_LAYERS, .since = "5",
		.message = "config.json has num_hidden_layers {7} and {6} layer_types",
		.fix = "set num_hidden_layers in config.json, which is {7}, to the {6} layers of layer_types, or correct that list"),
	FSDP_NOT_JUDGED(CONFIG, .when = OTHER_LAYERS, .until = "5",
		.message =
			"config.json has num_hidden_layers {7} and {6} layer_types, which some model types refuse"),
	FSDP_REFUSES(CONFIG, lacks_rope_number,
		"{0} in config.json is of kind {1} and has no {2}",
		"put {0} of the source model's config.json in its place", .since = "5"),
	FSDP_REFUSES(NO_WEIGHTS, has_other_name, NO_WEIGHTS, "rename {0} to {1}",
		.when = FSDP_LOAD_NONE),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP | FSDP_LOAD_NONE, .message = NO_WEIGHTS,
		.fix = "run accelerate merge-weights pytorch_model_fsdp_0 ."),
	FSDP_REFUSES(NO_WEIGHTS, has_all_shards, NO_WEIGHTS,
		"fsdp-inspect export --index-only {path}",
		.when = SHARDS | FSDP_LOAD_NONE),
	FSDP_REFUSES(NO_WEIGHTS, .when = SHARDS | FSDP_LOAD_NONE, .message = NO_WEIGHTS,
		.fix = "write model.safetensors.index.json"),
	FSDP_REFUSES(NO_WEIGHTS, has_weights_below, NO_WEIGHTS "; {0} is below it",
		"move the weights next to config.json", .when = FSDP_LOAD_NONE),
	FSDP_REFUSES(NO_WEIGHTS, has_tensors, NO_WEIGHTS,
		"fsdp-inspect export -o OUT {path}", .when = FSDP_LOAD_NONE),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP_LOAD_NONE, .message = NO_WEIGHTS),
	FSDP_REFUSES(INDEX, .when = BAD_INDEX, .fix = "{copy}",
		.message = "the index is not a JSON object"),
	FSDP_REFUSES(INDEX, .when = NO_MAP, .message = "the index has no weight_map"),
	FSDP_REFUSES(INDEX, .when = UNUSUAL_MAP,
		.message = "weight_map of the index has values that are not file names"),
	FSDP_REFUSES(INDEX, .when = NO_METADATA, .message = "the index has no metadata",
		.fix = "add \"metadata\": {} to the index"),
	FSDP_REFUSES(INDEX, .when = EMPTY_MAP, .since = "5",
		.message = "weight_map of the index is empty"),
	FSDP_REFUSES(DTYPE, .when = OTHER_DTYPE, .since = "5",
		.message = "dtype {5} in config.json is not one of torch",
		.fix = "set dtype in config.json to one of torch"),
	FSDP_REFUSES(CONFIG, fsdp_load_may_be_quantized,
		"quantization_config in config.json has no quant_method",
		.when = QUANTIZED | NO_METHOD, .since = "5", .ends = true),
	FSDP_REFUSES(CONFIG, .when = QUANTIZED | NO_METHOD, .since = "5", .ends = true,
		.message =
			"quantization_config in config.json has no quant_method, and the weights are not quantized",
		.fix = "remove quantization_config from config.json"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_shard),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, .since = "5"),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, NULL, FSDP_NO_FIX,
		.until = "5"),
	FSDP_REFUSES(UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode),
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_damaged),
	FSDP_REFUSES(
		NO_STATE_DICT, rejects_root, .when = FSDP_LOAD_NO_DICT, .since = "5"),
	FSDP_NOT_JUDGED(
		NO_STATE_DICT, has_items, .when = FSDP_LOAD_OTHER_ROOT, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, has_other_value,
		"{weights} contains a value of class {0}, not only tensors", SAVE_INNER,
		.when = NO_DTYPE, .since = "5"),
	FSDP_REFUSES(NO_STATE_DICT, .when = FSDP_LOAD_UNUSUAL_KEY, .since = "5"),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_DIFFERS(NO_STATE_DICT, .when = FSDP_LOAD_NESTED, .unless = NO_TYPE,
		.ends = true, .fix = SAVE_INNER,
		.message =
			"{weights} contains {root}: all weights stay randomly initialized"),
	FSDP_DIFFERS(OTHER_NAMES, has_wrapped_names,
		"names have the segment {0}, which a wrapper adds: their weights stay randomly initialized",
		"fsdp-inspect export --strip={0} -o OUT {path}",
		.unless = NO_TYPE | OWN_CODE),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_has_no_model,
		"quantization_config changes the names of the parameters; give them with --expect",
		.when = QUANTIZED),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_has_no_model, .unless = QUANTIZED),
	/* It gives the head what the embedding has, and nothing the other way round. */
	FSDP_REFUSES(TIED_WEIGHTS, fsdp_load_has_only_head,
		"the output head is stored, and the embedding that is tied to it is missing",
		.until = "5"),
	FSDP_REFUSES(INDEX, .finding = "FI1060", .until = "5",
		.message = "the index does not match the shards: {0}",
		.fix = "copy the index and the shards of one export again"),
	FSDP_REFUSES(OTHER_NAMES, has_bare_base_and_head,
		"tensor names lack the prefix of the base model, but the head is stored",
		"rename the tensors to the names of the model", .until = "5"),
	FSDP_DIFFERS(INDEX, .finding = "FI1062", .until = "5",
		.message = "{0} is not in the index: it stays randomly initialized"),
	FSDP_REFUSES(SHAPE, fsdp_load_has_other_experts,
		"the stored experts cannot be joined into {0}: their numbers or shapes differ",
		FSDP_NO_FIX, .since = "5"),
	FSDP_REFUSES(SHAPE, fsdp_load_has_other_experts,
		"fewer experts are stored than {0} has", FSDP_NO_FIX, .arg = 1,
		.since = "5"),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped),
	FSDP_DIFFERS(OTHER_NAMES, omits_scales,
		"{0} is not a name of the model: FP8 weights are used without their scales, as config.json has no quantization_config",
		"copy quantization_config into config.json from the quantized model that it was made from",
		.unless = QUANTIZED),
	FSDP_DIFFERS(OTHER_NAMES, fsdp_load_misses, .arg = FSDP_LOAD_ALSO_OTHERS),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses, NULL, FSDP_NO_FIX,
		.arg = FSDP_LOAD_ONLY_MISSING),
	FSDP_COMPARES_SETS(0),
	FSDP_REFUSES(ADAPTER, .when = ADAPTER, .unless = ADAPTER_WEIGHTS, .since = "5",
		.message =
			"adapter_config.json is next to the model, and the adapter's weights are missing",
		.fix = "move adapter_config.json away, or put the adapter's weights next to it"),
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

FSDP_LOADER(hf, "from_pretrained", "transformers", ("5.24.0", "5.23.0", "4.57.6"),
	.order = "model.safetensors model.safetensors.index.json pytorch_model.bin "
		 "pytorch_model.bin.index.json");
