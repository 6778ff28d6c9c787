/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vllm.LLM(directory) or sglang.Engine(directory) with load_format auto and without
 * tensor parallelism, or a LoRA adapter that is given to it. They choose files and cut
 * weights alike. What SGLang's model has no name for it ignores, except in some classes,
 * and it never checks that a parameter was loaded.
 *
 * Origin: vllm/model_executor/model_loader/{default_loader,weight_utils}.py,
 * model_executor/models/{utils,llama,qwen2,qwen3,phi3,granite}.py,
 * model_executor/layers/{linear, vocab_parallel_embedding}.py,
 * lora/{peft_helper,lora_model,utils}.py (0.33); sglang/srt/
 * model_loader/{loader,weight_utils}.py, models/{llama,qwen2,qwen3,granite}.py,
 * layers/{linear, vocab_parallel_embedding}.py, configs/model_config.py,
 * lora/{lora,lora_config,lora_manager}.py (0.5.23).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/loading.h"
#include "base/num.h"

#define CONFIG_FILE "config.json"
#define ADAPTER_FILE "adapter_config.json"
#define INDEX_FILE "model.safetensors.index.json"
#define MAX_RANK "max_lora_rank"

/* Of the directory: a model, or else an adapter; which files of weights vLLM reads. */
enum {
	MODEL = 1 << 0,
	ADAPTER = 1 << 1,
	ADAPTER_WEIGHTS = 1 << 2,
	CONSOLIDATED = 1 << 3, /* taken before all others */
	INDEX = 1 << 4,
	SEVERAL = 1 << 5, /* all files of one kind, without an index */
	KNOWN = 1 << 6,   /* a class whose names and loader are known */
	QUANTIZED = 1 << 7,
	TIED = 1 << 8,
	FLOAT32 = 1 << 9,
	SGLANG = 1 << 10,
	/* Of SGLang's class: it raises at the name of a layer's projection that it does
	 * not have, or at any such name. */
	RAISES_PROJECTIONS = 1 << 11,
	RAISES_ALL = 1 << 12,
	NO_MAP = 1 << 13, /* the index lists no files */
	/* Of the adapter. */
	LACKS_KEY = 1 << 14,
	NO_RANK = 1 << 15,
	FEATURE = 1 << 16, /* it changes the adapter in a way that vLLM does not have */
	DORA = 1 << 17,
	WHOLE = 1 << 18, /* a module that is not the head of a classifier */
	ABOVE_RANK = 1 << 19,
	BAD_INDEX = 1 << 20,
	PACKS = 1 << 21,
	PACKS_SOME = 1 << 22 /* all of them may be plain */
};

/* Kept words: the class that config.json lists first, or a key that is missing; the
 * largest rank, that of the server, what helps;
 * a feature, or a whole module. */
enum { CLASS = FSDP_LOAD_WORDS, KEY = CLASS, RANK, MOST, SERVER, FEATURED };

static const struct fsdp_load_fact facts[] = {
	{ MODEL, CONFIG_FILE },
	{ ADAPTER, ADAPTER_FILE },
	{ ADAPTER_WEIGHTS, "adapter_model.safetensors" },
	{ CONSOLIDATED, "consolidated*.safetensors" },
	{ INDEX, INDEX_FILE },
	{ BAD_INDEX, .document = INDEX_FILE },
	{ NO_MAP, .document = INDEX_FILE, .keys = "weight_map", .kind = FSDP_LOAD_DICT,
		.is_lacking = true },
	{ QUANTIZED, .document = CONFIG_FILE, .keys = "quantization_config",
		.kind = FSDP_LOAD_DICT },
	/* With such a method linear layers have no parameter named weight. */
	{ PACKS, .document = CONFIG_FILE, .keys = "quantization_config.quant_method",
		.kind = FSDP_LOAD_TEXT, .values = "gptq awq" },
	{ PACKS_SOME, .document = CONFIG_FILE,
		.keys = "quantization_config.modules_to_not_convert quantization_config.dynamic",
		.kind = FSDP_LOAD_SET },
	{ TIED, .document = CONFIG_FILE, .keys = "tie_word_embeddings",
		.kind = FSDP_LOAD_SET },
	{ DORA, .document = ADAPTER_FILE, .keys = "use_dora", .kind = FSDP_LOAD_SET },
	{ 0 },
};

/* Those that are known take exactly
 * the names of transformers, without a map of other prefixes. */
static const struct {
	const char *name;
	uint32_t is;
} classes[] = {
	{ "LlamaForCausalLM", KNOWN },
	{ "Qwen2ForCausalLM", KNOWN },
	{ "Phi3ForCausalLM", KNOWN },
	{ "Qwen3ForCausalLM", KNOWN | RAISES_PROJECTIONS },
	{ "GraniteForCausalLM", KNOWN | RAISES_ALL },
};

/* Reads the configuration of an adapter. */
static void read_adapter(struct fsdp_loading *loading)
{
	static const char *const keys[] = { "target_modules", "lora_alpha", "r" };
	static const int64_t allowed[] = { 512, 320, 256, 128, 64, 32, 16, 8, 1 };
	static const char *const starts[] = { "gaussian", "eva", "orthogonal", "mica",
		"lora_ga" };
	const char *chosen = fsdp_loader_setting(loading, MAX_RANK);
	int64_t most = chosen != NULL ? strtol(chosen, NULL, 10) : 16;
	int64_t rank = fsdp_load_integer(loading, ADAPTER_FILE, "r", 0);
	struct fsdp_load_items patterns =
		fsdp_load_items(loading, ADAPTER_FILE, "rank_pattern");
	struct fsdp_load_items whole =
		fsdp_load_items(loading, ADAPTER_FILE, "modules_to_save");
	struct fsdp_span bias = fsdp_load_text(loading, ADAPTER_FILE, "bias");
	struct fsdp_span start =
		fsdp_load_text(loading, ADAPTER_FILE, "init_lora_weights");
	const struct fsdp_setting *item,
		*feature = fsdp_load_find_set(loading, ADAPTER_FILE,
			"use_dora lora_bias alora_invocation_tokens layer_replication use_bdlora use_qalora");
	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (fsdp_load_setting(loading, ADAPTER_FILE, keys[i]).end == 0) {
			loading->is |= LACKS_KEY;
			fsdp_load_report(loading, KEY, "%s", keys[i]);
		}
	if (fsdp_load_integer(loading, ADAPTER_FILE, "r", 1) <= 0)
		loading->is |= NO_RANK;
	/* Only heads of classifiers may be whole. */
	while ((item = fsdp_load_next_item(&whole)) != NULL &&
		(item->value.kind != FSDP_TOKEN_TEXT ||
			fsdp_span_is_any(item->value.text, "classifier score")))
		;
	if (item != NULL) {
		loading->is |= WHOLE;
		fsdp_load_set_word(loading, FEATURED, item->value.text);
	}
	for (size_t i = 0; i < FSDP_COUNT(starts); i++)
		if (start.size == strlen(starts[i]) &&
			strncasecmp((const char *)start.data, starts[i], start.size) == 0)
			start.data = NULL;
	if (feature != NULL || start.data != NULL ||
		(bias.size != 0 && !fsdp_span_is(bias, "none")))
		loading->is |= FEATURE;
	if (feature != NULL)
		fsdp_load_set_word(loading, FEATURED, feature->key);
	else if (start.data != NULL)
		fsdp_load_report(loading, FEATURED, "init_lora_weights %.*s",
			FSDP_TEXT_MOST(start, 64));
	else if ((loading->is & FEATURE) != 0)
		fsdp_load_report(
			loading, FEATURED, "bias %.*s", FSDP_TEXT_MOST(bias, 64));
	while ((item = fsdp_load_next_item(&patterns)) != NULL)
		if (item->value.kind == FSDP_TOKEN_INTEGER && item->value.integer > rank)
			rank = item->value.integer;
	if (rank > most)
		loading->is |= ABOVE_RANK;
	fsdp_load_report(loading, RANK, "%" PRId64, rank);
	fsdp_load_report(loading, MOST, "%" PRId64, most);
	for (size_t i = 0; i < FSDP_COUNT(allowed) && allowed[i] >= rank; i++)
		fsdp_load_report(loading, SERVER,
			"start vLLM with --max-lora-rank %" PRId64, allowed[i]);
}

static void begin(struct fsdp_loading *loading)
{
	/* Files of the first kind that is there. */
	static const char *const kinds[] = { "*.safetensors", "*.bin", "*.pt" };
	static const char others[] =
		"training_args.bin optimizer.bin optimizer.pt scheduler.pt scaler.pt";
	struct fsdp_load_items list =
		fsdp_load_items(loading, CONFIG_FILE, "architectures");
	const struct fsdp_setting *first = fsdp_load_next_item(&list);
	const struct fsdp_scan_entry *entry;
	size_t count = 0, kind = 0;
	loading->lists_weights = true;
	if ((loading->is & MODEL) == 0 && (loading->is & ADAPTER) != 0) {
		loading->weights = fsdp_load_choose(loading,
			"adapter_model.safetensors adapter_model.bin adapter_model.pt");
		read_adapter(loading);
		return;
	}
	for (; kind < FSDP_COUNT(kinds) && count == 0; kind++)
		for (size_t at = 0;
			(entry = fsdp_load_next(loading, &at, kinds[kind])) != NULL;) {
			if (entry->is_folder || fsdp_span_ends_any(entry->name, others))
				continue;
			loading->weights = (const char *)entry->name.data;
			count++;
		}
	/* The index is read of safetensors only. Pickles of the last kind are not looked
	 * into. */
	if (count > 0 && kind == 1 && (loading->is & INDEX) != 0)
		loading->weights = INDEX_FILE;
	else if (count > 1 || (count > 0 && kind == FSDP_COUNT(kinds)))
		loading->is |= SEVERAL;
	loading->is &= ~(uint64_t)(ADAPTER | DORA);
	fsdp_load_set_word(loading, CLASS,
		first != NULL ? first->value.text
			      : FSDP_SPAN("of config.json, which lists none,"));
	for (size_t i = 0; i < FSDP_COUNT(classes) && first != NULL; i++)
		if (fsdp_span_is(first->value.text, classes[i].name))
			loading->is |= classes[i].is;
	if (fsdp_span_is(fsdp_load_dtype(loading), "float32") ||
		((loading->is & SGLANG) != 0 && fsdp_load_dtype(loading).size == 0))
		loading->is |= FLOAT32;
}

/* ---- a model ---- */

/* All weights are plain, and there are some. */
static bool is_not_packed(struct fsdp_loading *loading)
{
	const struct fsdp_load_tensors *stored = fsdp_load_list_all(loading);
	bool has_weight = false;
	for (size_t i = 0; i < stored->count; i++) {
		if (fsdp_span_ends(stored->items[i].name, FSDP_SPAN(".qweight")))
			return false;
		has_weight |=
			fsdp_span_ends(stored->items[i].name, FSDP_SPAN("_proj.weight"));
	}
	return has_weight && fsdp_load_set_word(loading, 0,
				     fsdp_load_text(loading, CONFIG_FILE,
					     "quantization_config.quant_method"));
}

/* This class puts "model." before names that lack it. */
static bool adds_prefix(struct fsdp_loading *loading)
{
	static const char *const begins[] = { "layers.", "embed_tokens.", "norm." };
	if (!fsdp_load_compare(loading))
		return false;
	for (size_t i = 0; i < 3 * loading->stored.count; i++)
		if (fsdp_span_begins(loading->stored.items[i / 3].name,
			    fsdp_span_text(begins[i % 3])))
			return true;
	return false;
}

/* What the model has no name for, except a bias and tables of rotary positions, as word
 * 1. Some classes of SGLang raise at such a name; layers beyond those of config.json they
 * skip. */
static bool has_unexpected(struct fsdp_loading *loading)
{
	static const char ignored[] =
		".bias rotary_emb.inv_freq rotary_emb.cos_cached rotary_emb.sin_cached";
	int64_t layers =
		fsdp_load_integer(loading, CONFIG_FILE, "num_hidden_layers", INT32_MAX);
	if (!fsdp_load_compare(loading))
		return false;
	FSDP_EACH(i, loading->stored.count, item, &loading->stored.items[i]) {
		struct fsdp_span name = item->name, rest;
		const unsigned char *at = fsdp_span_find(name, FSDP_SPAN("layers."));
		bool is_skipped = false, raises = true;
		uint64_t number;
		/* A head that is tied is skipped. */
		if (item->match != NULL || fsdp_span_ends_any(name, ignored) ||
			((loading->is & TIED) != 0 &&
				fsdp_span_is(name, "lm_head.weight")))
			continue;
		if (at != NULL) {
			rest = fsdp_span(
				at + 7, name.size - (size_t)(at + 7 - name.data));
			is_skipped = fsdp_span_number(&rest, INT32_MAX, &number) &&
				     (int64_t)number >= layers;
		}
		if ((loading->is & SGLANG) != 0 && (loading->is & RAISES_ALL) != 0)
			raises = fsdp_span_find(name, FSDP_SPAN("projector")) == NULL &&
				 !fsdp_span_ends(name, FSDP_SPAN(".kv_scale"));
		else if ((loading->is & SGLANG) != 0)
			raises = (loading->is & RAISES_PROJECTIONS) != 0 && !is_skipped &&
				 fsdp_span_has_any(
					 name, "q_proj k_proj v_proj gate_proj up_proj");
		if (!raises)
			continue;
		(void)fsdp_load_misses(loading);
		loading->name_count = 0;
		loading->all_names = 0;
		fsdp_load_set_word(loading, 1, name);
		return fsdp_load_name(loading, name);
	}
	return false;
}

/* Linear layers cut a part out of a tensor that is larger, in the dimensions that tensor
 * parallelism divides; whether it does was not tried. */
static bool is_misshaped(struct fsdp_loading *loading)
{
	const struct fsdp_load_tensor *found, *wanted;
	if (!fsdp_load_is_misshaped(loading))
		return false;
	found = loading->first_misshaped;
	wanted = found->match;
	if (found->dims != wanted->dims || found->dims != 2 ||
		fsdp_span_is(wanted->name, "model.embed_tokens.weight") ||
		fsdp_span_is(wanted->name, "lm_head.weight"))
		return true;
	return found->shape[0] < wanted->shape[0] || found->shape[1] < wanted->shape[1];
}

/* Of parameters without a method of quantization vLLM checks that they were loaded: of
 * norms. Others keep the memory as it was. */
static bool lacks_norm(struct fsdp_loading *loading)
{
	if (!fsdp_load_compare(loading))
		return false;
	FSDP_EACH(i, loading->model.count, tensor, &loading->model.items[i]) {
		if (tensor->match == NULL && tensor->tie == FSDP_LOAD_UNTIED &&
			fsdp_span_find(tensor->name, FSDP_SPAN("norm")) != NULL)
			fsdp_load_name(loading, tensor->name);
	}
	return loading->all_names > 0;
}

/* ---- an adapter ---- */

/* A tensor whose name is not read, as word 0. */
static bool has_other_tensor(struct fsdp_loading *loading)
{
	static const char ends[] =
		".lora_A.weight .lora_B.weight .lora_embedding_A .lora_embedding_B "
		".score.weight .score.bias .classifier.weight .classifier.bias "
		".embed_tokens.base_layer.weight .lm_head.base_layer.weight";
	const struct fsdp_load_tensors *stored = fsdp_load_list_all(loading);
	for (size_t i = 0; i < stored->count; i++)
		if (!fsdp_span_ends_any(stored->items[i].name, ends))
			fsdp_load_name(loading, stored->items[i].name);
	return loading->all_names > 0;
}

static const struct fsdp_load_rule rules[] = {
	/* ---- an adapter ---- */
	FSDP_REFUSES(CONFIG, .when = LACKS_KEY, .fix = FSDP_NO_FIX,
		.message = ADAPTER_FILE " has no {5}"),
	FSDP_REFUSES(ADAPTER_RANK, .when = NO_RANK, .fix = FSDP_NO_FIX,
		.message = "r in " ADAPTER_FILE " is not above 0"),
	FSDP_REFUSES(ADAPTER_TYPE, .when = FEATURE, .unless = SGLANG, .fix = FSDP_NO_FIX,
		.message = "vLLM has no adapters with {9}"),
	FSDP_REFUSES(ADAPTER_TYPE, .when = DORA | SGLANG, .fix = FSDP_NO_FIX,
		.message = "SGLang has no adapters with use_dora"),
	FSDP_REFUSES(ADAPTER_MODULES, .when = WHOLE, .unless = SGLANG, .fix = FSDP_NO_FIX,
		.message =
			"{9} (modules_to_save) is fully trained: vLLM loads only classifier and score"),
	FSDP_REFUSES(ADAPTER_RANK, .when = ABOVE_RANK, .unless = SGLANG, .fix = "{8}",
		.message = "the largest rank is {6}, and " MAX_RANK " is {7}"),
	FSDP_REFUSES(NO_WEIGHTS, .when = ADAPTER | FSDP_LOAD_NONE,
		.message =
			"the directory has no adapter_model.safetensors, adapter_model.bin or adapter_model.pt"),
	FSDP_READS_WEIGHTS(ADAPTER),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open, .when = ADAPTER, .ends = true),
	FSDP_REFUSES(OTHER_NAMES, has_other_tensor,
		"{0} is not a name of a LoRA tensor that vLLM reads", FSDP_NO_FIX,
		.when = ADAPTER, .unless = SGLANG),
	FSDP_NOT_JUDGED(BASE_MODEL, .when = ADAPTER, .ends = true, .fix = FSDP_NO_FIX,
		.message = "modules of the adapter are not compared with the base model"),
	/* ---- a model ---- */
	FSDP_REFUSES(CONFIG, .when = FSDP_LOAD_NONE, .unless = MODEL, .fix = FSDP_NO_FIX,
		.message = CONFIG_FILE " is missing"),
	FSDP_REFUSES(CONFIG, .unless = MODEL, .message = CONFIG_FILE " is missing",
		.fix = "put the model's config.json next to the weights"),
	FSDP_NOT_JUDGED(OTHER_WEIGHTS, .when = CONSOLIDATED, .unless = SGLANG,
		.ends = true, .fix = FSDP_NO_FIX,
		.message =
			"vLLM loads consolidated*.safetensors, which has Mistral's names"),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP_LOAD_NONE,
		.message =
			"the directory has no file of weights that ends with .safetensors, .bin or .pt"),
	FSDP_REFUSES(INDEX, .when = BAD_INDEX,
		.message = "the index is not a JSON object", .fix = "{copy}"),
	FSDP_REFUSES(
		INDEX, .when = INDEX | NO_MAP, .message = "the index has no weight_map"),
	FSDP_READS_WEIGHTS(0),
	FSDP_REFUSES(ADAPTER, .when = SEVERAL | ADAPTER_WEIGHTS | KNOWN, .unless = SGLANG,
		.message =
			"vLLM reads all .safetensors files: tensors of adapter_model.safetensors do not belong to the model",
		.fix = "move the adapter to a directory of its own"),
	FSDP_NOT_JUDGED(UNREAD_WEIGHTS, .when = SEVERAL, .ends = true, .fix = FSDP_NO_FIX,
		.message =
			"it reads all files of this kind in the directory, and no index lists them"),
	FSDP_REFUSES(NO_STATE_DICT, .when = FSDP_LOAD_NO_DICT),
	FSDP_NOT_JUDGED(NO_STATE_DICT, .when = FSDP_LOAD_NESTED, .ends = true),
	FSDP_NOT_JUDGED(NO_STATE_DICT, .when = FSDP_LOAD_OTHER_ROOT, .ends = true),
	FSDP_NOT_JUDGED(NO_STATE_DICT, .when = FSDP_LOAD_UNUSUAL_KEY, .ends = true),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open, .ends = true),
	FSDP_REFUSES(DTYPE, is_not_packed,
		"quantization_config of config.json has the method {0}, and no weight is packed",
		"remove quantization_config from config.json",
		.when = QUANTIZED | PACKS | KNOWN, .unless = SGLANG | PACKS_SOME),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, .when = QUANTIZED, .ends = true,
		.message = "names and shapes of quantized models are not known"),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, .unless = KNOWN, .ends = true,
		.message = "names of the class {5} are not known"),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_has_no_model, .ends = true),
	FSDP_REFUSES(TIED_WEIGHTS, fsdp_load_has_only_head,
		"the output head is stored, and the embedding that is tied to it is missing",
		"store it as model.embed_tokens.weight", .when = TIED, .unless = SGLANG),
	FSDP_NOT_JUDGED(OTHER_NAMES, adds_prefix,
		"SGLang puts model. before names of this class that lack it",
		.when = SGLANG | RAISES_PROJECTIONS, .ends = true),
	FSDP_REFUSES(OTHER_NAMES, has_unexpected, "{1} is not a name of the model"),
	FSDP_REFUSES(SHAPE, is_misshaped),
	FSDP_NOT_JUDGED(SHAPE, fsdp_load_is_misshaped,
		"{0} has shape [{1}], {4} expects [{2}]: vLLM may load a part of it",
		.ends = true),
	FSDP_REFUSES(MISSING_TENSOR, lacks_norm, "{0} is missing", FSDP_NO_FIX,
		.unless = SGLANG),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses,
		"{0} is missing: its memory stays uninitialized", FSDP_NO_FIX),
	FSDP_DIFFERS(TIED_WEIGHTS, fsdp_load_ties_contradict,
		"the output head is ignored for the embedding; both are stored and differ",
		FSDP_LOAD_UNTIE, .when = TIED),
	FSDP_NOT_JUDGED(TIED_WEIGHTS, fsdp_load_ties_unread, .when = TIED),
	FSDP_DIFFERS(DTYPE, .when = FLOAT32,
		.message =
			"values are cast to bfloat16 or float16, as config.json has dtype float32 or none",
		.fix = "start the server with --dtype float32"),
	{ 0 },
};

static const struct fsdp_loader_option options[] = {
	{ MAX_RANK, NULL, true, "largest adapter rank that the server accepts" },
	{ NULL },
};

FSDP_LOADER(vllm, "vLLM", "vllm", ("0.33.0"), .options = options);

FSDP_LOADER(sglang, "SGLang", "sglang", ("0.5.23"), .is = SGLANG);
