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

enum { LAYERS_MAX = 4096, NAME_BYTES = 128, SIZE_MAX_SAID = 1 << 30 };

/* What the shapes are made of. */
struct sizes {
	int64_t vocabulary, hidden, inner, layers, heads, groups, width, positions;
	bool has_head_norms; /* of queries and keys */
	bool has_qkv_bias;   /* and of the other projections: */
	bool has_output_bias, has_mlp_bias;
	bool is_tied;
};

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

static void add_llama(struct fsdp_loading *loading, const struct sizes *of)
{
	static const char stem[] = "model.layers.";
	const int64_t queries = of->heads * of->width, keys = of->groups * of->width;
	const struct {
		const char *name;
		int64_t rows, columns;
		bool is_there;
	} rows[] = {
		{ "self_attn.q_proj.weight", queries, of->hidden, true },
		{ "self_attn.k_proj.weight", keys, of->hidden, true },
		{ "self_attn.v_proj.weight", keys, of->hidden, true },
		{ "self_attn.o_proj.weight", of->hidden, queries, true },
		{ "self_attn.q_proj.bias", queries, 0, of->has_qkv_bias },
		{ "self_attn.k_proj.bias", keys, 0, of->has_qkv_bias },
		{ "self_attn.v_proj.bias", keys, 0, of->has_qkv_bias },
		{ "self_attn.o_proj.bias", of->hidden, 0, of->has_output_bias },
		{ "self_attn.q_norm.weight", of->width, 0, of->has_head_norms },
		{ "self_attn.k_norm.weight", of->width, 0, of->has_head_norms },
		{ "mlp.gate_proj.weight", of->inner, of->hidden, true },
		{ "mlp.up_proj.weight", of->inner, of->hidden, true },
		{ "mlp.down_proj.weight", of->hidden, of->inner, true },
		{ "mlp.gate_proj.bias", of->inner, 0, of->has_mlp_bias },
		{ "mlp.up_proj.bias", of->inner, 0, of->has_mlp_bias },
		{ "mlp.down_proj.bias", of->hidden, 0, of->has_mlp_bias },
		{ "input_layernorm.weight", of->hidden, 0, true },
		{ "post_attention_layernorm.weight", of->hidden, 0, true },
	};

	add(loading, "model.embed_tokens.weight", of->vocabulary, of->hidden);
	for (int64_t layer = 0; layer < of->layers; layer++)
		for (size_t i = 0; i < FSDP_COUNT(rows); i++)
			if (rows[i].is_there)
				add_in_layer(loading, stem, layer, rows[i].name,
					rows[i].rows, rows[i].columns);
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
	struct fsdp_span type = fsdp_load_text(loading, CONFIG, "model_type");
	bool is_qwen3 = fsdp_span_is(type, "qwen3");
	bool is_qwen2 = fsdp_span_is(type, "qwen2");
	bool is_mistral = fsdp_span_is(type, "mistral");
	bool has_bias = !is_mistral && is_said(loading, "attention_bias", false);
	struct sizes of = {
		.vocabulary = size_of(loading, "vocab_size", 0),
		.hidden = size_of(loading, "hidden_size", 0),
		.inner = size_of(loading, "intermediate_size", 0),
		.layers = size_of(loading, "num_hidden_layers", 0),
		.heads = size_of(loading, "num_attention_heads", 0),
		.has_head_norms = is_qwen3,
		.has_qkv_bias = is_qwen2 || has_bias,
		.has_output_bias = !is_qwen2 && has_bias,
		.has_mlp_bias = fsdp_span_is(type, "llama") &&
				is_said(loading, "mlp_bias", false),
		.is_tied = is_said(loading, "tie_word_embeddings", false),
		.positions = 1,
	};

	of.groups = size_of(loading, "num_key_value_heads", of.heads);
	of.width = size_of(loading, "head_dim", of.heads != 0 ? of.hidden / of.heads : 0);
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
	const char *types[8];
	const char *base_prefix, *class_name, *embedding;
	size_t most_in_layer;
	struct sizes (*read)(struct fsdp_loading *loading);
	void (*add)(struct fsdp_loading *loading, const struct sizes *of);
} architectures[] = {
	{ { "llama", "mistral", "qwen2", "qwen3" }, "model.", "LlamaForCausalLM",
		"model.embed_tokens.weight", 18, read_llama, add_llama },
	{ { "gpt2" }, "transformer.", "GPT2LMHeadModel", "transformer.wte.weight", 12,
		read_gpt2, add_gpt2 },
};

static const struct architecture *find_architecture(struct fsdp_span type)
{
	for (size_t i = 0; i < FSDP_COUNT(architectures); i++)
		for (size_t k = 0; architectures[i].types[k] != NULL; k++)
			if (fsdp_span_is(type, architectures[i].types[k]))
				return &architectures[i];
	return NULL;
}

static bool make_sense(const struct sizes *of)
{
	return of->vocabulary > 0 && of->hidden > 0 && of->inner > 0 && of->layers > 0 &&
	       of->layers <= LAYERS_MAX && of->heads > 0 && of->groups > 0 &&
	       of->width > 0 && of->positions > 0 &&
	       of->heads <= SIZE_MAX_SAID / of->width;
}

/* The class, as messages have it. */
static const char *class_of(struct fsdp_loading *loading, const char *otherwise)
{
	struct fsdp_survey_document config;

	loading->failed |= !fsdp_survey_document(loading->survey, CONFIG, &config);
	for (uint32_t i = 1; i + 1 < config.count; i = config.settings[i].end)
		if (fsdp_span_is(config.settings[i].key, "architectures") &&
			config.settings[i].end > i + 1 &&
			config.settings[i + 1].value.kind == FSDP_TOKEN_TEXT)
			return (const char *)config.settings[i + 1].value.text.data;
	return otherwise;
}

static int by_name(const void *a, const void *b)
{
	const struct fsdp_load_tensor *left = a, *right = b;

	return fsdp_span_compare(left->name, right->name);
}

/* Of tied weights one is enough, whichever it is. */
static void mark_tied(struct fsdp_loading *loading, const char *embedding)
{
	for (size_t i = 0; i < loading->model.count; i++) {
		struct fsdp_load_tensor *tensor = &loading->model.items[i];
		tensor->is_optional = fsdp_span_is(tensor->name, embedding) ||
				      fsdp_span_is(tensor->name, "lm_head.weight");
	}
}

bool fsdp_load_model_of_config(struct fsdp_loading *loading)
{
	const struct architecture *found =
		find_architecture(fsdp_load_text(loading, CONFIG, "model_type"));
	struct sizes of;
	size_t most;

	if (found == NULL)
		return false;
	of = found->read(loading);
	loading->base_prefix = found->base_prefix;
	loading->architecture = class_of(loading, found->class_name);
	if (!make_sense(&of))
		return false;
	most = (size_t)of.layers * found->most_in_layer + 8;
	loading->model.items = FSDP_TAKE(loading->arena, loading->model.items, most);
	if (loading->model.items == NULL) {
		loading->failed = true;
		return false;
	}
	found->add(loading, &of);
	qsort(loading->model.items, loading->model.count, sizeof *loading->model.items,
		by_name);
	if (of.is_tied)
		mark_tied(loading, found->embedding);
	return !loading->failed;
}
