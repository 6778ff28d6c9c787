/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and shapes of models that are no decoders alone, by their class: a table of
 * tensors for each, whose sizes config.json has.
 *
 * Origin: configuration_*.py and modeling_*.py of t5, bert and vit in transformers 5.23.
 */
#include <stdio.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

#define CONFIG "config.json"

enum { REPEATS_MAX = 4096, SIZE_MAX_STATED = 1 << 30, NAME_BYTES = 128, DIMS = 4 };

/* What shapes are made of; NO ends a shape. */
enum size {
	NO,
	ONE,
	VOCABULARY,
	HIDDEN,
	INNER,
	HEADS,
	HEAD,
	ATTENTION, /* of all heads */
	LAYERS,
	DECODERS, /* layers of a decoder */
	BUCKETS,
	POSITIONS,
	TYPES,
	IMAGE,
	PATCH,
	CHANNELS,
	LABELS,
	SIZES
};

/* In which models a tensor is, and whether it is there in others' stead. */
enum when { ALWAYS, GATED, PLAIN, BIASED, TIED, TIED_BIAS, HEAD_WEIGHT };

struct class_tensor {
	const char *name; /* "%d": the number of the layer */
	uint8_t shape[DIMS];
	enum size repeat; /* so many layers have it; NO: it is there once */
	enum when when;   /* TIED: one of these is enough, all of them are one tensor; the
			     weight of a head is one of them if the configuration ties it,
			     and from transformers 5 on in any case.
			     The biases of a head are another one */
};

struct class_size {
	enum size size;
	const char *key;
	int64_t otherwise; /* what the class has; 0: as many as there are layers */
};

/* ---- T5 ---- */

static const struct class_size t5_sizes[] = {
	{ VOCABULARY, "vocab_size", 32128 },
	{ HIDDEN, "d_model", 512 },
	{ HEAD, "d_kv", 64 },
	{ HEADS, "num_heads", 8 },
	{ INNER, "d_ff", 2048 },
	{ LAYERS, "num_layers", 6 },
	{ DECODERS, "num_decoder_layers", 0 },
	{ BUCKETS, "relative_attention_num_buckets", 32 },
};

#define T5_ATTENTION(stem, repeat)                                           \
	{ stem ".q.weight", { ATTENTION, HIDDEN }, repeat, ALWAYS },         \
		{ stem ".k.weight", { ATTENTION, HIDDEN }, repeat, ALWAYS }, \
		{ stem ".v.weight", { ATTENTION, HIDDEN }, repeat, ALWAYS }, \
	{                                                                    \
		stem ".o.weight", { HIDDEN, ATTENTION }, repeat, ALWAYS      \
	}
#define T5_INNER(stem, repeat)                                             \
	{ stem ".wi.weight", { INNER, HIDDEN }, repeat, PLAIN },           \
		{ stem ".wi_0.weight", { INNER, HIDDEN }, repeat, GATED }, \
		{ stem ".wi_1.weight", { INNER, HIDDEN }, repeat, GATED }, \
	{                                                                  \
		stem ".wo.weight", { HIDDEN, INNER }, repeat, ALWAYS       \
	}

static const struct class_tensor t5_tensors[] = {
	{ "shared.weight", { VOCABULARY, HIDDEN }, NO, TIED },
	{ "encoder.embed_tokens.weight", { VOCABULARY, HIDDEN }, NO, TIED },
	{ "decoder.embed_tokens.weight", { VOCABULARY, HIDDEN }, NO, TIED },
	{ "lm_head.weight", { VOCABULARY, HIDDEN }, NO, HEAD_WEIGHT },
	{ "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
		{ BUCKETS, HEADS }, NO, ALWAYS },
	{ "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
		{ BUCKETS, HEADS }, NO, ALWAYS },
	T5_ATTENTION("encoder.block.%d.layer.0.SelfAttention", LAYERS),
	{ "encoder.block.%d.layer.0.layer_norm.weight", { HIDDEN }, LAYERS, ALWAYS },
	T5_INNER("encoder.block.%d.layer.1.DenseReluDense", LAYERS),
	{ "encoder.block.%d.layer.1.layer_norm.weight", { HIDDEN }, LAYERS, ALWAYS },
	{ "encoder.final_layer_norm.weight", { HIDDEN }, NO, ALWAYS },
	T5_ATTENTION("decoder.block.%d.layer.0.SelfAttention", DECODERS),
	{ "decoder.block.%d.layer.0.layer_norm.weight", { HIDDEN }, DECODERS, ALWAYS },
	T5_ATTENTION("decoder.block.%d.layer.1.EncDecAttention", DECODERS),
	{ "decoder.block.%d.layer.1.layer_norm.weight", { HIDDEN }, DECODERS, ALWAYS },
	T5_INNER("decoder.block.%d.layer.2.DenseReluDense", DECODERS),
	{ "decoder.block.%d.layer.2.layer_norm.weight", { HIDDEN }, DECODERS, ALWAYS },
	{ "decoder.final_layer_norm.weight", { HIDDEN }, NO, ALWAYS },
};

/* ---- BERT ---- */

static const struct class_size bert_sizes[] = {
	{ VOCABULARY, "vocab_size", 30522 },
	{ HIDDEN, "hidden_size", 768 },
	{ INNER, "intermediate_size", 3072 },
	{ LAYERS, "num_hidden_layers", 12 },
	{ POSITIONS, "max_position_embeddings", 512 },
	{ TYPES, "type_vocab_size", 2 },
};

#define PAIR(stem, rows, columns, repeat, when)              \
	{ stem ".weight", { rows, columns }, repeat, when }, \
	{                                                    \
		stem ".bias", { rows }, repeat, when         \
	}

static const struct class_tensor bert_tensors[] = {
	{ "bert.embeddings.word_embeddings.weight", { VOCABULARY, HIDDEN }, NO, TIED },
	{ "cls.predictions.decoder.weight", { VOCABULARY, HIDDEN }, NO, TIED },
	{ "cls.predictions.decoder.bias", { VOCABULARY }, NO, TIED_BIAS },
	{ "bert.embeddings.position_embeddings.weight", { POSITIONS, HIDDEN }, NO,
		ALWAYS },
	{ "bert.embeddings.token_type_embeddings.weight", { TYPES, HIDDEN }, NO, ALWAYS },
	PAIR("bert.embeddings.LayerNorm", HIDDEN, NO, NO, ALWAYS),
	PAIR("bert.encoder.layer.%d.attention.self.query", HIDDEN, HIDDEN, LAYERS,
		ALWAYS),
	PAIR("bert.encoder.layer.%d.attention.self.key", HIDDEN, HIDDEN, LAYERS, ALWAYS),
	PAIR("bert.encoder.layer.%d.attention.self.value", HIDDEN, HIDDEN, LAYERS,
		ALWAYS),
	PAIR("bert.encoder.layer.%d.attention.output.dense", HIDDEN, HIDDEN, LAYERS,
		ALWAYS),
	PAIR("bert.encoder.layer.%d.attention.output.LayerNorm", HIDDEN, NO, LAYERS,
		ALWAYS),
	PAIR("bert.encoder.layer.%d.intermediate.dense", INNER, HIDDEN, LAYERS, ALWAYS),
	PAIR("bert.encoder.layer.%d.output.dense", HIDDEN, INNER, LAYERS, ALWAYS),
	PAIR("bert.encoder.layer.%d.output.LayerNorm", HIDDEN, NO, LAYERS, ALWAYS),
	{ "cls.predictions.bias", { VOCABULARY }, NO, TIED_BIAS },
	PAIR("cls.predictions.transform.dense", HIDDEN, HIDDEN, NO, ALWAYS),
	PAIR("cls.predictions.transform.LayerNorm", HIDDEN, NO, NO, ALWAYS),
};

/* ---- ViT ---- */

static const struct class_size vit_sizes[] = {
	{ HIDDEN, "hidden_size", 768 },
	{ INNER, "intermediate_size", 3072 },
	{ LAYERS, "num_hidden_layers", 12 },
	{ IMAGE, "image_size", 224 },
	{ PATCH, "patch_size", 16 },
	{ CHANNELS, "num_channels", 3 },
};

#define VIT "vit.encoder.layer.%d."
#define VIT_ATTENTION(which)                                                         \
	{ VIT "attention.attention." which ".weight", { HIDDEN, HIDDEN }, LAYERS,    \
		ALWAYS },                                                            \
	{                                                                            \
		VIT "attention.attention." which ".bias", { HIDDEN }, LAYERS, BIASED \
	}

static const struct class_tensor vit_tensors[] = {
	{ "vit.embeddings.cls_token", { ONE, ONE, HIDDEN }, NO, ALWAYS },
	{ "vit.embeddings.position_embeddings", { ONE, POSITIONS, HIDDEN }, NO, ALWAYS },
	{ "vit.embeddings.patch_embeddings.projection.weight",
		{ HIDDEN, CHANNELS, PATCH, PATCH }, NO, ALWAYS },
	{ "vit.embeddings.patch_embeddings.projection.bias", { HIDDEN }, NO, ALWAYS },
	VIT_ATTENTION("query"),
	VIT_ATTENTION("key"),
	VIT_ATTENTION("value"),
	PAIR(VIT "attention.output.dense", HIDDEN, HIDDEN, LAYERS, ALWAYS),
	PAIR(VIT "intermediate.dense", INNER, HIDDEN, LAYERS, ALWAYS),
	PAIR(VIT "output.dense", HIDDEN, INNER, LAYERS, ALWAYS),
	PAIR(VIT "layernorm_before", HIDDEN, NO, LAYERS, ALWAYS),
	PAIR(VIT "layernorm_after", HIDDEN, NO, LAYERS, ALWAYS),
	PAIR("vit.layernorm", HIDDEN, NO, NO, ALWAYS),
	PAIR("classifier", LABELS, HIDDEN, NO, ALWAYS),
};

/* ---- classes ---- */

static const struct model_class {
	const char *name; /* as config.json has it in `architectures` */
	const char *base_prefix;
	bool may_be_untied; /* what it has then is known */
	const struct class_size *sizes;
	size_t size_count;
	const struct class_tensor *tensors;
	size_t tensor_count;
} classes[] = {
	{ "T5ForConditionalGeneration", NULL, true, t5_sizes, FSDP_COUNT(t5_sizes),
		t5_tensors, FSDP_COUNT(t5_tensors) },
	{ "BertLMHeadModel", "bert.", false, bert_sizes, FSDP_COUNT(bert_sizes),
		bert_tensors, FSDP_COUNT(bert_tensors) },
	{ "BertForMaskedLM", "bert.", false, bert_sizes, FSDP_COUNT(bert_sizes),
		bert_tensors, FSDP_COUNT(bert_tensors) },
	{ "ViTForImageClassification", "vit.", true, vit_sizes, FSDP_COUNT(vit_sizes),
		vit_tensors, FSDP_COUNT(vit_tensors) },
};

static const struct model_class *find_class(const char *name)
{
	for (size_t i = 0; name != NULL && i < FSDP_COUNT(classes); i++)
		if (strcmp(classes[i].name, name) == 0)
			return &classes[i];
	return NULL;
}

/* False: a size is not a number, or cannot be one. */
static bool read_sizes(struct fsdp_loading *loading, const struct model_class *class,
	int64_t sizes[SIZES])
{
	struct fsdp_setting labels = fsdp_load_setting(loading, CONFIG, "id2label");
	int64_t across;

	for (size_t i = 0; i < SIZES; i++)
		sizes[i] = 1;
	for (size_t i = 0; i < class->size_count; i++) {
		const struct class_size *of = &class->sizes[i];
		struct fsdp_setting setting = fsdp_load_setting(loading, CONFIG, of->key);
		sizes[of->size] = setting.value.kind == FSDP_TOKEN_INTEGER
					  ? setting.value.integer
				  : setting.value.kind != FSDP_TOKEN_NONE ? 0
				  : of->otherwise != 0                    ? of->otherwise
									  : sizes[LAYERS];
		if (sizes[of->size] <= 0 || sizes[of->size] > SIZE_MAX_STATED)
			return false;
	}
	across = sizes[IMAGE] / sizes[PATCH];
	sizes[ATTENTION] = sizes[HEADS] * sizes[HEAD];
	if (sizes[IMAGE] > 1)
		sizes[POSITIONS] = across * across + 1;
	sizes[LABELS] = labels.value.kind == FSDP_TOKEN_DICT && labels.value.count > 0
				? (int64_t)labels.value.count
				: 2;
	return sizes[LAYERS] <= REPEATS_MAX && sizes[DECODERS] <= REPEATS_MAX;
}

static void add(struct fsdp_loading *loading, const struct class_tensor *row,
	const int64_t sizes[SIZES], int64_t layer, enum fsdp_load_tie tie)
{
	struct fsdp_load_tensor *tensor = &loading->model.items[loading->model.count++];
	int64_t *shape = FSDP_TAKE(loading->arena, shape, DIMS);
	const char *mark = strstr(row->name, "%d");
	char name[NAME_BYTES];

	if (mark == NULL)
		snprintf(name, sizeof name, "%s", row->name);
	else
		snprintf(name, sizeof name, "%.*s%lld%s", (int)(mark - row->name),
			row->name, (long long)layer, mark + 2);
	*tensor = (struct fsdp_load_tensor){
		.name = fsdp_arena_copy(loading->arena, fsdp_span_text(name)),
		.shape = shape,
		.tie = (uint8_t)tie,
	};
	loading->failed |= shape == NULL || tensor->name.data == NULL;
	for (size_t i = 0; shape != NULL && i < DIMS && row->shape[i] != NO; i++)
		shape[tensor->dims++] = sizes[row->shape[i]];
}

static bool is_there(struct fsdp_loading *loading, enum when when)
{
	bool is_gated = fsdp_span_begins(
		fsdp_load_text(loading, CONFIG, "feed_forward_proj"), FSDP_SPAN("gated"));

	return (when != GATED || is_gated) && (when != PLAIN || !is_gated) &&
	       (when != BIASED || fsdp_load_integer(loading, CONFIG, "qkv_bias", 1) != 0);
}

static enum fsdp_load_tie tie_of(enum when when, bool is_tied)
{
	if (when == TIED || (when == HEAD_WEIGHT && is_tied))
		return FSDP_LOAD_TIED_WEIGHT;
	return when == TIED_BIAS ? FSDP_LOAD_TIED_BIAS : FSDP_LOAD_UNTIED;
}

bool fsdp_load_model_of_class(struct fsdp_loading *loading, const char *name)
{
	const struct model_class *class = find_class(name);
	int64_t sizes[SIZES];
	bool is_tied = fsdp_load_integer(loading, CONFIG, "tie_word_embeddings", 1) != 0;
	bool is_new = loading->transformers == NULL ||
		      fsdp_load_compare_versions(loading->transformers, "5") >= 0;

	if (class == NULL || (!is_tied && !class->may_be_untied) ||
		!read_sizes(loading, class, sizes))
		return false;
	loading->base_prefix = class->base_prefix;
	loading->model.items = FSDP_TAKE(loading->arena, loading->model.items,
		class->tensor_count * (size_t)(sizes[LAYERS] + sizes[DECODERS]));
	if (loading->model.items == NULL) {
		loading->failed = true;
		return false;
	}
	for (size_t i = 0; i < class->tensor_count && !loading->failed; i++) {
		const struct class_tensor *row = &class->tensors[i];
		int64_t count = row->repeat != NO ? sizes[row->repeat] : 1;
		if (!is_there(loading, row->when))
			continue;
		for (int64_t layer = 0; layer < count; layer++)
			add(loading, row, sizes, layer,
				tie_of(row->when, is_tied || is_new));
	}
	return !loading->failed;
}
