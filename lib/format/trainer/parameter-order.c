/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders the parameters of known architectures as their modules are made.
 *
 * Origin: modeling_*.py of transformers 5.23, trainer_pt_utils.py, peft 0.21.
 */
#include "format/trainer/parameter-order.h"

#include "base/num.h"
#include "base/span.h"

struct fsdp_parameter_order {
	const char *const *types;  /* model_type */
	const char *stem;          /* what the names of layers begin with */
	const char *const *before; /* modules in front of the layers */
	const char *const *layer;  /* of a layer, below its number */
	const char *const *after;
	const char *renamed; /* a part of names that the live model does not use */
};

#define LIST(...)                 \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

/* What one of these has not, it leaves out; the order of the others is the same. */
#define LLAMA_LAYER                                                                 \
	LIST("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",            \
		"self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm",         \
		"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", \
		"post_attention_layernorm", "pre_feedforward_layernorm",            \
		"post_feedforward_layernorm")

static const struct fsdp_parameter_order orders[] = {
	{
		.types = LIST("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
			"gemma3_text", "granite", "olmo2", "smollm3"),
		.stem = "model.layers.",
		.before = LIST("model.embed_tokens"),
		.layer = LLAMA_LAYER,
		.after = LIST("model.norm", "lm_head"),
	},
	{
		.types = LIST("mixtral"),
		.stem = "model.layers.",
		.before = LIST("model.embed_tokens"),
		.layer = LLAMA_LAYER,
		.after = LIST("model.norm", "lm_head"),
		.renamed = ".block_sparse_moe.",
	},
	{
		.types = LIST("gpt2"),
		.stem = "transformer.h.",
		.before = LIST("transformer.wte", "transformer.wpe"),
		.layer = LIST("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc",
			"mlp.c_proj"),
		.after = LIST("transformer.ln_f", "lm_head"),
	},
};

/* Parameters of one module. */
static const char *const leaves[] = { "weight", "bias", "lora_A.weight",
	"lora_A.default.weight", "lora_B.weight", "lora_B.default.weight", NULL };

/* Numbers of layers are below. */
enum { LAYERS_MAX = 1 << 24, SLOTS = 256 };

/* "module.leaf": the position of both, or -1. */
static int slot_of(const char *const *modules, struct fsdp_span name)
{
	for (int i = 0; modules[i] != NULL; i++) {
		struct fsdp_span rest, leaf;
		if (!fsdp_span_behind(name, modules[i], &rest) ||
			!fsdp_span_behind(rest, ".", &leaf))
			continue;
		for (int k = 0; leaves[k] != NULL; k++)
			if (fsdp_span_is(leaf, leaves[k]))
				return i * 8 + k;
	}
	return -1;
}

/* "17.self_attn…": the number, and what follows its dot. */
static bool take_layer(struct fsdp_span *name, uint64_t *ret_layer)
{
	size_t at = 0;
	*ret_layer = 0;
	for (; at < name->size && fsdp_is_digit(name->data[at]); at++) {
		*ret_layer = *ret_layer * 10 + (uint64_t)(name->data[at] - '0');
		if (*ret_layer >= LAYERS_MAX)
			return false;
	}
	if (at == 0 || at == name->size || name->data[at] != '.')
		return false;
	*name = fsdp_span(name->data + at + 1, name->size - at - 1);
	return true;
}

bool fsdp_parameter_order_place(const struct fsdp_parameter_order *order,
	struct fsdp_span name, uint64_t *ret_place)
{
	struct fsdp_span rest;
	uint64_t layer;
	int slot;
	/* What an adapter is put round. */
	if (fsdp_span_behind(name, "base_model.model.", &rest))
		name = rest;
	if (fsdp_span_behind(name, order->stem, &rest)) {
		if (!take_layer(&rest, &layer))
			return false;
		slot = slot_of(order->layer, rest);
		*ret_place = (1 + layer) * SLOTS + (uint64_t)slot;
		return slot >= 0;
	}
	slot = slot_of(order->before, name);
	*ret_place = (uint64_t)slot;
	if (slot >= 0)
		return true;
	slot = slot_of(order->after, name);
	*ret_place = (uint64_t)(LAYERS_MAX + 1) * SLOTS + (uint64_t)slot;
	return slot >= 0;
}

bool fsdp_parameter_order_is_renamed(
	const struct fsdp_parameter_order *order, struct fsdp_span name)
{
	return order->renamed != NULL && memmem(name.data, name.size, order->renamed,
						 strlen(order->renamed)) != NULL;
}

static bool has_type(const struct fsdp_parameter_order *order, struct fsdp_span type)
{
	for (size_t i = 0; order->types[i] != NULL; i++)
		if (fsdp_span_is(type, order->types[i]))
			return true;
	return false;
}

const struct fsdp_parameter_order *fsdp_parameter_order_find(
	struct fsdp_span type, struct fsdp_span name)
{
	uint64_t place;
	for (size_t i = 0; i < FSDP_COUNT(orders); i++)
		if (type.data != NULL
				? has_type(&orders[i], type)
				: fsdp_parameter_order_place(&orders[i], name, &place))
			return &orders[i];
	return NULL;
}

bool fsdp_parameter_decays(struct fsdp_span name)
{
	static const char *const words[] = { "bias", "layernorm", "rmsnorm", "_norm.",
		".norm.", ".ln_" };
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (memmem(name.data, name.size, words[i], strlen(words[i])) != NULL)
			return false;
	return true;
}
