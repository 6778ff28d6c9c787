/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the names and shapes of a model from its configuration, for architectures whose
 * modules are known.
 *
 * Origin: configuration_*.py and modeling_*.py of transformers 5.23.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

#define CONFIG "config.json"

enum {
	LAYERS_MAX = 4096,
	EXPERTS_MAX = 1024,
	ALL_EXPERTS_MAX = 1 << 18,
	NAME_BYTES = 128,
	SIZE_MAX_SAID = 1 << 30
};

/* What the shapes are made of. */
struct sizes {
	int64_t vocabulary, hidden, inner, layers, heads, groups, width, positions;
	bool has_qkv_bias; /* and of the other projections: */
	bool has_output_bias, has_mlp_bias;
	bool is_tied;
	int64_t experts, expert_inner; /* of each layer, instead of an MLP */
	const struct decoder *decoder; /* of the architectures like Llama */
};

/* How a decoder differs from Llama's. What a configuration does not say is what its class
 * has: 0 of a width is the share of a head, of groups the number of heads. */
enum head_norms { NO_NORMS, NORMS_OF_A_HEAD, NORMS_OF_ALL };

struct decoder {
	const char *type;
	int64_t width, groups;
	enum head_norms norms;
	bool is_tied;
	bool may_have_bias, has_qkv_bias, may_have_mlp_bias;
	bool is_fused;          /* queries, keys and values are one, gate and up too */
	bool has_outer_norms;   /* behind the attention and behind the MLP as well */
	bool lacks_inner_norms; /* in front of them */
	const struct experts *experts; /* in each layer; NULL: there are none */
};

/* Under which key a configuration has their size, and what the class has. */
struct experts {
	const char *inner_key, *module;
	int64_t count, inner;
	const char *parts[FSDP_LOAD_EXPERT_COUNT];
};

static const struct experts of_mixtral = { "intermediate_size", "block_sparse_moe", 8,
	14336, { NULL, "w1", "w3", "w2" } };
static const struct experts of_qwen3 = { "moe_intermediate_size", "mlp", 128, 768,
	{ NULL, "gate_proj", "up_proj", "down_proj" } };

static const struct decoder decoders[] = {
	{ "llama", .may_have_bias = true, .may_have_mlp_bias = true },
	{ "granite", .may_have_bias = true, .may_have_mlp_bias = true },
	{ "mistral", .groups = 8 },
	{ "qwen2", .groups = 32, .has_qkv_bias = true },
	{ "qwen3", .width = 128, .groups = 32, .norms = NORMS_OF_A_HEAD,
		.may_have_bias = true },
	{ "mixtral", .groups = 8, .experts = &of_mixtral },
	{ "qwen3_moe", .width = 128, .groups = 4, .norms = NORMS_OF_A_HEAD,
		.may_have_bias = true, .experts = &of_qwen3 },
	{ "phi3", .is_fused = true },
	{ "gemma2", .width = 256, .groups = 4, .is_tied = true, .may_have_bias = true,
		.has_outer_norms = true },
	{ "gemma3_text", .width = 256, .groups = 4, .norms = NORMS_OF_A_HEAD,
		.is_tied = true, .may_have_bias = true, .has_outer_norms = true },
	{ "olmo2", .norms = NORMS_OF_ALL, .may_have_bias = true, .has_outer_norms = true,
		.lacks_inner_norms = true },
};

static const struct decoder *find_decoder(struct fsdp_span type)
{
	for (size_t i = 0; i < FSDP_COUNT(decoders); i++)
		if (fsdp_span_is(type, decoders[i].type))
			return &decoders[i];
	return NULL;
}

/* ---- adding ---- */

static void add(
	struct fsdp_loading *loading, const char *name, int64_t rows, int64_t columns)
{
	struct fsdp_load_tensor *tensor = &loading->model.items[loading->model.count];
	int64_t *shape = FSDP_TAKE(loading->arena, shape, 2);

	tensor->name = fsdp_arena_copy(loading->arena, fsdp_span_text(name));
	if (shape == NULL || tensor->name.data == NULL) {
		loading->failed = true;
		return;
	}
	shape[0] = rows;
	shape[1] = columns;
	tensor->shape = shape;
	tensor->dims = columns == 0 ? 1 : 2;
	loading->model.count++;
}

static void add_in_layer(struct fsdp_loading *loading, const char *stem, int64_t layer,
	const char *rest, int64_t rows, int64_t columns)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof name, "%s%lld.%s", stem, (long long)layer, rest);
	add(loading, name, rows, columns);
}

/* ---- architectures ---- */

/* From 5 on transformers keeps all experts of a layer in two tensors, and takes those from a file
 * as it takes single ones. False: they are not stored so. */
static bool add_fused(struct fsdp_loading *loading, const struct sizes *of, int64_t layer)
{
	const struct {
		const char *name;
		int64_t rows, columns;
	} parts[] = { { "gate_up_proj", 2 * of->expert_inner, of->hidden },
		{ "down_proj", of->hidden, of->expert_inner } };
	const struct fsdp_checkpoint *checkpoint =
		loading->weights != NULL ? fsdp_load_open(loading, loading->weights)
					 : NULL;
	char names[FSDP_COUNT(parts)][NAME_BYTES];
	bool is_stored = false;

	if (checkpoint == NULL || loading->transformers == NULL ||
		fsdp_load_compare_versions(loading->transformers, "5") < 0 ||
		strcmp(of->decoder->experts->module, "mlp") != 0)
		return false;
	for (size_t i = 0; i < FSDP_COUNT(parts); i++) {
		snprintf(names[i], sizeof names[i], "model.layers.%lld.mlp.experts.%s",
			(long long)layer, parts[i].name);
		is_stored |= fsdp_tensor_find(checkpoint, fsdp_span_text(names[i])) !=
			     FSDP_NONE;
	}
	for (size_t i = 0; i < FSDP_COUNT(parts) && is_stored; i++) {
		struct fsdp_load_tensor *tensor =
			&loading->model.items[loading->model.count];
		int64_t *shape = FSDP_TAKE(loading->arena, shape, 3);

		add(loading, names[i], of->experts, 0);
		loading->failed |= shape == NULL;
		if (loading->failed)
			return true;
		shape[0] = of->experts;
		shape[1] = parts[i].rows;
		shape[2] = parts[i].columns;
		tensor->shape = shape;
		tensor->dims = 3;
	}
	return is_stored;
}

static void add_experts(
	struct fsdp_loading *loading, const struct sizes *of, int64_t layer)
{
	const struct experts *experts = of->decoder->experts;
	char rest[NAME_BYTES / 2];

	snprintf(rest, sizeof rest, "%s.gate.weight", experts->module);
	add_in_layer(loading, "model.layers.", layer, rest, of->experts, of->hidden);
	if (add_fused(loading, of, layer))
		return;
	for (int64_t i = 0; i < of->experts; i++)
		for (uint8_t part = 1; part < FSDP_LOAD_EXPERT_COUNT; part++) {
			struct fsdp_load_tensor *tensor =
				&loading->model.items[loading->model.count];
			bool is_down = part == FSDP_LOAD_EXPERT_DOWN;
			snprintf(rest, sizeof rest, "%s.experts.%lld.%s.weight",
				experts->module, (long long)i, experts->parts[part]);
			add_in_layer(loading, "model.layers.", layer, rest,
				is_down ? of->hidden : of->expert_inner,
				is_down ? of->expert_inner : of->hidden);
			tensor->expert = part;
			tensor->layer = (uint32_t)layer;
		}
}

static void add_llama(struct fsdp_loading *loading, const struct sizes *of)
{
	static const char stem[] = "model.layers.";
	const struct decoder *decoder = of->decoder;
	const int64_t queries = of->heads * of->width, keys = of->groups * of->width;
	const bool apart = !decoder->is_fused, outer = decoder->has_outer_norms;
	const bool inner = !decoder->lacks_inner_norms;
	const bool of_all = decoder->norms == NORMS_OF_ALL;
	const bool dense = decoder->experts == NULL;
	const struct {
		const char *name;
		int64_t rows, columns;
		bool is_there;
	} rows[] = {
		{ "self_attn.q_proj.weight", queries, of->hidden, apart },
		{ "self_attn.k_proj.weight", keys, of->hidden, apart },
		{ "self_attn.v_proj.weight", keys, of->hidden, apart },
		{ "self_attn.qkv_proj.weight", queries + 2 * keys, of->hidden, !apart },
		{ "self_attn.o_proj.weight", of->hidden, queries, true },
		{ "self_attn.q_proj.bias", queries, 0, of->has_qkv_bias },
		{ "self_attn.k_proj.bias", keys, 0, of->has_qkv_bias },
		{ "self_attn.v_proj.bias", keys, 0, of->has_qkv_bias },
		{ "self_attn.o_proj.bias", of->hidden, 0, of->has_output_bias },
		{ "self_attn.q_norm.weight", of_all ? queries : of->width, 0,
			decoder->norms != NO_NORMS },
		{ "self_attn.k_norm.weight", of_all ? keys : of->width, 0,
			decoder->norms != NO_NORMS },
		{ "mlp.gate_proj.weight", of->inner, of->hidden, apart && dense },
		{ "mlp.up_proj.weight", of->inner, of->hidden, apart && dense },
		{ "mlp.gate_up_proj.weight", 2 * of->inner, of->hidden, !apart },
		{ "mlp.down_proj.weight", of->hidden, of->inner, dense },
		{ "mlp.gate_proj.bias", of->inner, 0, of->has_mlp_bias },
		{ "mlp.up_proj.bias", of->inner, 0, of->has_mlp_bias },
		{ "mlp.down_proj.bias", of->hidden, 0, of->has_mlp_bias },
		{ "input_layernorm.weight", of->hidden, 0, inner },
		{ "post_attention_layernorm.weight", of->hidden, 0, true },
		{ "pre_feedforward_layernorm.weight", of->hidden, 0, outer && inner },
		{ "post_feedforward_layernorm.weight", of->hidden, 0, outer },
	};

	add(loading, "model.embed_tokens.weight", of->vocabulary, of->hidden);
	for (int64_t layer = 0; layer < of->layers; layer++) {
		for (size_t i = 0; i < FSDP_COUNT(rows); i++)
			if (rows[i].is_there)
				add_in_layer(loading, stem, layer, rows[i].name,
					rows[i].rows, rows[i].columns);
		if (!dense)
			add_experts(loading, of, layer);
	}
	add(loading, "model.norm.weight", of->hidden, 0);
	add(loading, "lm_head.weight", of->vocabulary, of->hidden);
}

static void add_gpt2(struct fsdp_loading *loading, const struct sizes *of)
{
	const struct {
		const char *name;
		int64_t rows, columns;
	} rows[] = {
		{ "ln_1.weight", of->hidden, 0 },
		{ "ln_1.bias", of->hidden, 0 },
		{ "attn.c_attn.weight", of->hidden, 3 * of->hidden },
		{ "attn.c_attn.bias", 3 * of->hidden, 0 },
		{ "attn.c_proj.weight", of->hidden, of->hidden },
		{ "attn.c_proj.bias", of->hidden, 0 },
		{ "ln_2.weight", of->hidden, 0 },
		{ "ln_2.bias", of->hidden, 0 },
		{ "mlp.c_fc.weight", of->hidden, of->inner },
		{ "mlp.c_fc.bias", of->inner, 0 },
		{ "mlp.c_proj.weight", of->inner, of->hidden },
		{ "mlp.c_proj.bias", of->hidden, 0 },
	};

	add(loading, "transformer.wte.weight", of->vocabulary, of->hidden);
	add(loading, "transformer.wpe.weight", of->positions, of->hidden);
	for (int64_t layer = 0; layer < of->layers; layer++)
		for (size_t i = 0; i < FSDP_COUNT(rows); i++)
			add_in_layer(loading, "transformer.h.", layer, rows[i].name,
				rows[i].rows, rows[i].columns);
	add(loading, "transformer.ln_f.weight", of->hidden, 0);
	add(loading, "transformer.ln_f.bias", of->hidden, 0);
	add(loading, "lm_head.weight", of->vocabulary, of->hidden);
}

/* ---- sizes ---- */

static int64_t size_of(struct fsdp_loading *loading, const char *key, int64_t otherwise)
{
	int64_t size = fsdp_load_integer(loading, CONFIG, key, otherwise);

	return size > 0 && size <= SIZE_MAX_SAID ? size : 0;
}

static bool is_said(struct fsdp_loading *loading, const char *key, bool otherwise)
{
	return fsdp_load_integer(loading, CONFIG, key, otherwise) != 0;
}

static struct sizes read_llama(struct fsdp_loading *loading)
{
	const struct decoder *decoder =
		find_decoder(fsdp_load_text(loading, CONFIG, "model_type"));
	bool has_bias =
		decoder->may_have_bias && is_said(loading, "attention_bias", false);
	struct sizes of = {
		.vocabulary = size_of(loading, "vocab_size", 0),
		.hidden = size_of(loading, "hidden_size", 0),
		.inner = size_of(loading, "intermediate_size", 0),
		.layers = size_of(loading, "num_hidden_layers", 0),
		.heads = size_of(loading, "num_attention_heads", 0),
		.has_qkv_bias = decoder->has_qkv_bias || has_bias,
		.has_output_bias = has_bias,
		.has_mlp_bias =
			decoder->may_have_mlp_bias && is_said(loading, "mlp_bias", false),
		.is_tied = is_said(loading, "tie_word_embeddings", decoder->is_tied),
		.positions = 1,
		.decoder = decoder,
	};
	const struct experts *experts = decoder->experts;
	int64_t share = of.heads != 0 ? of.hidden / of.heads : 0;

	of.groups = size_of(loading, "num_key_value_heads",
		decoder->groups != 0 ? decoder->groups : of.heads);
	of.width = size_of(
		loading, "head_dim", decoder->width != 0 ? decoder->width : share);
	if (experts != NULL) {
		/* 5.x writes the first and reads both. */
		of.experts = size_of(loading, "num_local_experts",
			size_of(loading, "num_experts", experts->count));
		of.expert_inner = size_of(loading, experts->inner_key, experts->inner);
	}
	return of;
}

static struct sizes read_gpt2(struct fsdp_loading *loading)
{
	struct sizes of = {
		.vocabulary = size_of(loading, "vocab_size", 0),
		.hidden = size_of(loading, "n_embd", 0),
		.layers = size_of(loading, "n_layer", 0),
		.heads = 1,
		.groups = 1,
		.width = 1,
		.positions = size_of(loading, "n_positions", 0),
		.is_tied = is_said(loading, "tie_word_embeddings", true),
	};

	of.inner = size_of(loading, "n_inner", 4 * of.hidden);
	return of;
}

static const struct architecture {
	const char *type; /* NULL: those like Llama's */
	const char *base_prefix, *embedding;
	size_t most_in_layer;
	struct sizes (*read)(struct fsdp_loading *loading);
	void (*add)(struct fsdp_loading *loading, const struct sizes *of);
} architectures[] = {
	{ NULL, "model.", "model.embed_tokens.weight", 22, read_llama, add_llama },
	{ "gpt2", "transformer.", "transformer.wte.weight", 12, read_gpt2, add_gpt2 },
};

static const struct architecture *find_architecture(struct fsdp_span type)
{
	for (size_t i = 0; i < FSDP_COUNT(architectures); i++)
		if (architectures[i].type != NULL
				? fsdp_span_is(type, architectures[i].type)
				: find_decoder(type) != NULL)
			return &architectures[i];
	return NULL;
}

/* What is known of: a loader that joins them, in every layer, in a number that may be. */
static bool knows_experts(struct fsdp_loading *loading, const struct sizes *of)
{
	struct fsdp_setting dense;

	if (of->decoder == NULL || of->decoder->experts == NULL)
		return true;
	dense = fsdp_load_setting(loading, CONFIG, "mlp_only_layers");
	return loading->knows_experts && of->experts > 0 && of->experts <= EXPERTS_MAX &&
	       of->expert_inner > 0 && of->layers * of->experts <= ALL_EXPERTS_MAX &&
	       size_of(loading, "decoder_sparse_step", 1) == 1 &&
	       (dense.value.kind != FSDP_TOKEN_LIST || dense.value.count == 0);
}

static bool make_sense(const struct sizes *of)
{
	return of->vocabulary > 0 && of->hidden > 0 && of->inner > 0 && of->layers > 0 &&
	       of->layers <= LAYERS_MAX && of->heads > 0 && of->groups > 0 &&
	       of->width > 0 && of->positions > 0 &&
	       of->heads <= SIZE_MAX_SAID / of->width &&
	       of->groups <= SIZE_MAX_SAID / of->width;
}

/* The class that config.json lists first, or NULL. */
static const char *class_of(struct fsdp_loading *loading)
{
	struct fsdp_survey_document config;

	loading->failed |= !fsdp_survey_document(loading->survey, CONFIG, &config);
	for (uint32_t i = 1; i + 1 < config.count; i = config.settings[i].end)
		if (fsdp_span_is(config.settings[i].key, "architectures") &&
			config.settings[i].end > i + 1 &&
			config.settings[i + 1].value.kind == FSDP_TOKEN_TEXT)
			return (const char *)config.settings[i + 1].value.text.data;
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct fsdp_load_tensor *left = a, *right = b;

	return fsdp_span_compare(left->name, right->name);
}

static void sort_model(struct fsdp_loading *loading)
{
	qsort(loading->model.items, loading->model.count, sizeof *loading->model.items,
		by_name);
}

/* Of tied weights one is enough, whichever it is. */
static void mark_tied(struct fsdp_loading *loading, const char *embedding)
{
	for (size_t i = 0; i < loading->model.count; i++) {
		struct fsdp_load_tensor *tensor = &loading->model.items[i];
		if (fsdp_span_is(tensor->name, embedding) ||
			fsdp_span_is(tensor->name, "lm_head.weight"))
			tensor->tie = FSDP_LOAD_TIED_WEIGHT;
	}
}

bool fsdp_load_model_of_config(struct fsdp_loading *loading)
{
	const struct architecture *found =
		find_architecture(fsdp_load_text(loading, CONFIG, "model_type"));
	struct sizes of;
	size_t most;

	/* What quantises makes other modules of them. */
	if (fsdp_load_setting(loading, CONFIG, "quantization_config").value.kind ==
		FSDP_TOKEN_DICT)
		return false;
	if (found == NULL) {
		if (!fsdp_load_model_of_class(loading, class_of(loading)))
			return false;
		sort_model(loading);
		return true;
	}
	of = found->read(loading);
	loading->base_prefix = found->base_prefix;
	if (!make_sense(&of) || !knows_experts(loading, &of))
		return false;
	most = (size_t)of.layers * (found->most_in_layer + 1 + 3 * (size_t)of.experts) +
	       8;
	loading->model.items = FSDP_TAKE(loading->arena, loading->model.items, most);
	if (loading->model.items == NULL) {
		loading->failed = true;
		return false;
	}
	found->add(loading, &of);
	sort_model(loading);
	if (of.is_tied)
		mark_tied(loading, found->embedding);
	return !loading->failed;
}
