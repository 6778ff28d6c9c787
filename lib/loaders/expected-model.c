/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and shapes of the model that config.json describes: a table of tensors for each
 * architecture, whose sizes the configuration has. Names are those that save_pretrained
 * writes.
 *
 * Origin: configuration_*.py and modeling_*.py of transformers 5.23 and 5.24, and runs of
 * them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/loading.h"
#include "base/num.h"

#define CONFIG "config.json"

enum {
	LAYERS_MAX = 4096,
	EXPERTS_MAX = 1024,
	ALL_EXPERTS_MAX = 1 << 18,
	SIZE_MAX_STATED = 1 << 30,
	NAME_BYTES = 192,
	DIMS = 4
};

/* ---- sizes ---- */

/* A letter for each size that shapes are made of, in the order in which they are found:
 * the first of the keys that is a number, else the default of the architecture, else the
 * expression. An expression is letters and numbers with * / + between them, from left to
 * right. */
static const struct size_key {
	char letter;
	const char *keys, *otherwise;
} size_keys[] = {
	{ 'V', "vocab_size|text_config.vocab_size", NULL },
	{ 'H', "hidden_size|n_embd|d_model|dim|text_config.hidden_size", NULL },
	{ 'L', "num_hidden_layers|n_layer|num_layers|n_layers|encoder_layers|text_config.num_hidden_layers",
		NULL },
	{ 'D', "num_decoder_layers|decoder_layers", "L" },
	{ 'A', "num_attention_heads|n_head|num_heads|n_heads|encoder_attention_heads",
		NULL },
	{ 'K', "num_key_value_heads|num_kv_heads", "A" },
	{ 'w', "head_dim|d_kv", "H/A" },
	{ 'I', "intermediate_size|ffn_dim|d_ff|n_inner|hidden_dim|encoder_ffn_dim|ffn_hidden_size|text_config.intermediate_size",
		NULL },
	{ 'J', "decoder_ffn_dim", "I" },
	{ 'E', "num_local_experts|num_experts", NULL },
	{ 'M', "moe_intermediate_size", NULL },
	{ 'S', "shared_expert_intermediate_size", NULL },
	{ 'P', "max_position_embeddings|n_positions|max_target_positions|text_config.max_position_embeddings",
		NULL },
	{ 'X', "max_source_positions", NULL },
	{ 'Y', "num_mel_bins", NULL },
	{ 'B', "relative_attention_num_buckets", NULL },
	{ 'T', "type_vocab_size", NULL },
	{ 'W', "word_embed_proj_dim", "H" },
	{ 'G', "image_size|vision_config.image_size", NULL },
	{ 'Z', "patch_size|vision_config.patch_size", NULL },
	{ 'C', "num_channels|vision_config.num_channels", "3" },
	{ 'N', "num_labels", "2" },
	{ 'h', "vision_config.hidden_size", NULL },
	{ 'i', "vision_config.intermediate_size", NULL },
	{ 'l', "vision_config.num_hidden_layers", NULL },
	{ 'p', "projection_dim", NULL },
	{ 'q', NULL, "A*w" },
	{ 'k', NULL, "K*w" },
	{ 'g', NULL, "G/Z" },
};

enum {
	QKV_BIAS = 1 << 0,
	OUT_BIAS = 1 << 1,
	MLP_BIAS = 1 << 2,
	BIAS = 1 << 3,
	GATED = 1 << 4,
	TIED = 1 << 5,
	MULTI_QUERY = 1 << 6,
	NEW_DECODER = 1 << 7,
	PARALLEL = 1 << 8,
	/* Of the class. */
	LANGUAGE = 1 << 9,  /* with a head of the vocabulary */
	SEQUENCE = 1 << 10, /* of labels */
	TOKEN = 1 << 11,
	IMAGE = 1 << 12,
	BARE = 1 << 13, /* without a head, and its names without the prefix */
	/* Of the architecture. */
	FUSED = 1 << 14,      /* queries, keys and values are one, gate and up too */
	INNER_NORM = 1 << 15, /* before the attention */
	POST_NORM = 1 << 16,  /* before the MLP, or after the attention */
	PRE_MLP = 1 << 17,
	POST_MLP = 1 << 18,
	HEAD_NORMS = 1 << 19,
	ALL_NORMS = 1 << 20,
	LAST_NORM = 1 << 21,
	EXPERTS = 1 << 22,
	MIXTRAL = 1 << 23,
	SHARED = 1 << 24,
	PROJECTED = 1 << 25,
	/* Of the files: the experts of this layer are stored as two tensors. */
	JOINED = 1 << 26,
	/* Again of the architecture. */
	UNGATED = 1 << 27,
	GATE_UP = 1 << 28, /* both are one */
	AROUND = 1 << 29,  /* norms after attention and MLP, named as in GLM-4 */
	NORM_BIAS = 1 << 30,
	HEADS = LANGUAGE | SEQUENCE | TOKEN | IMAGE | BARE,
};

static const struct flag_key {
	uint32_t flag;
	const char *key;
} flag_keys[] = {
	{ QKV_BIAS, "attention_bias" },
	{ QKV_BIAS, "qkv_bias" },
	{ QKV_BIAS, "use_qkv_bias" },
	{ OUT_BIAS, "attention_bias" },
	{ MLP_BIAS, "mlp_bias" },
	{ BIAS, "bias" },
	{ BIAS, "use_bias" },
	{ TIED, "tie_word_embeddings" },
	{ MULTI_QUERY, "multi_query" },
	{ NEW_DECODER, "new_decoder_architecture" },
	{ PARALLEL, "parallel_attn" },
};

/* Whether one of several stored names is enough. */
enum sharing {
	APART,
	EMBEDDING, /* with the head, if the configuration ties it */
	ALWAYS,
	HEAD, /* of T5: in any case from transformers 5 on */
	HEAD_BIAS,
	EITHER,   /* one of two names of an untied head */
	OPTIONAL, /* a buffer that has its value without a file */
};

/* In a name: @: the layer, as the family has it; %L, %D, %l: the number of a layer; %E:
 * of an expert; {a,b}: both; .*: weight and bias. A shape is expressions with spaces
 * between. */
struct row {
	const char *name, *shape;
	uint32_t when, unless;
	uint8_t tie, expert;
};

#define ATTENDING                                                    \
	{ "model.embed_tokens.weight", "V H", .tie = EMBEDDING },    \
		{ "@self_attn.q_proj.weight", "q H", 0, FUSED },     \
		{ "@self_attn.{k,v}_proj.weight", "k H", 0, FUSED }, \
		{ "@self_attn.o_proj.weight", "H q" },               \
		{ "@self_attn.q_proj.bias", "q", QKV_BIAS },         \
		{ "@self_attn.{k,v}_proj.bias", "k", QKV_BIAS },     \
	{                                                            \
		"@self_attn.o_proj.bias", "H", OUT_BIAS              \
	}
static const struct row decoder[] = {
	ATTENDING,
	{ "@self_attn.qkv_proj.weight", "q+k+k H", FUSED },
	{ "@self_attn.{q,k}_norm.weight", "w", HEAD_NORMS },
	{ "@self_attn.q_norm.weight", "q", ALL_NORMS, EXPERTS },
	{ "@self_attn.k_norm.weight", "k", ALL_NORMS, EXPERTS },
	{ "@self_attn.q_norm.weight", "H", ALL_NORMS | EXPERTS },
	{ "@self_attn.k_norm.weight", "H/A*K", ALL_NORMS | EXPERTS },
	{ "@mlp.gate_proj.weight", "I H", 0, GATE_UP | EXPERTS | UNGATED },
	{ "@mlp.up_proj.weight", "I H", 0, GATE_UP | EXPERTS },
	{ "@mlp.gate_up_proj.weight", "2*I H", GATE_UP },
	{ "@mlp.down_proj.weight", "H I", 0, EXPERTS },
	{ "@mlp.gate_proj.bias", "I", MLP_BIAS, UNGATED },
	{ "@mlp.up_proj.bias", "I", MLP_BIAS },
	{ "@mlp.down_proj.bias", "H", MLP_BIAS },
	{ "@mlp.gate.weight", "E H", EXPERTS, MIXTRAL },
	{ "@mlp.experts.gate_up_proj", "E 2*M H", EXPERTS | JOINED, MIXTRAL },
	{ "@mlp.experts.down_proj", "E H M", EXPERTS | JOINED, MIXTRAL },
	{ "@mlp.experts.%E.gate_proj.weight", "M H", EXPERTS, MIXTRAL | JOINED,
		.expert = FSDP_LOAD_EXPERT_GATE },
	{ "@mlp.experts.%E.up_proj.weight", "M H", EXPERTS, MIXTRAL | JOINED,
		.expert = FSDP_LOAD_EXPERT_UP },
	{ "@mlp.experts.%E.down_proj.weight", "H M", EXPERTS, MIXTRAL | JOINED,
		.expert = FSDP_LOAD_EXPERT_DOWN },
	{ "@mlp.shared_expert.{gate,up}_proj.weight", "S H", SHARED },
	{ "@mlp.shared_expert.down_proj.weight", "H S", SHARED },
	{ "@mlp.shared_expert_gate.weight", "1 H", SHARED },
	{ "@block_sparse_moe.gate.weight", "E H", MIXTRAL },
	{ "@block_sparse_moe.experts.%E.w1.weight", "I H", MIXTRAL,
		.expert = FSDP_LOAD_EXPERT_GATE },
	{ "@block_sparse_moe.experts.%E.w3.weight", "I H", MIXTRAL,
		.expert = FSDP_LOAD_EXPERT_UP },
	{ "@block_sparse_moe.experts.%E.w2.weight", "H I", MIXTRAL,
		.expert = FSDP_LOAD_EXPERT_DOWN },
	{ "@input_layernorm.weight", "H", INNER_NORM },
	{ "@post_attention_layernorm.weight", "H", POST_NORM },
	{ "@pre_feedforward_layernorm.weight", "H", PRE_MLP },
	{ "@post_feedforward_layernorm.weight", "H", POST_MLP },
	{ "@{post_self_attn,post_mlp}_layernorm.weight", "H", AROUND },
	{ "model.norm.weight", "H", LAST_NORM },
	{ "{@input_layernorm,@post_attention_layernorm,model.norm}.bias", "H",
		NORM_BIAS },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "score.weight", "N H", SEQUENCE },
};

#define ENDING                                                                     \
	{ "{@input_layernorm,@post_attention_layernorm,model.norm}.weight", "H" }, \
	{                                                                          \
		"lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING                \
	}
static const struct row granitemoe[] = {
	ATTENDING,
	{ "@block_sparse_moe.input_linear.weight", "E 2*I H" },
	{ "@block_sparse_moe.output_linear.weight", "E H I" },
	{ "@block_sparse_moe.router.layer.weight", "E H" },
	ENDING,
};

static const struct row gpt_oss[] = {
	ATTENDING,
	{ "@self_attn.sinks", "A" },
	{ "@mlp.router.weight", "E H" },
	{ "@mlp.router.bias", "E" },
	{ "@mlp.experts.gate_up_proj", "E H 2*I" },
	{ "@mlp.experts.gate_up_proj_bias", "E 2*I" },
	{ "@mlp.experts.down_proj", "E I H" },
	{ "@mlp.experts.down_proj_bias", "E H" },
	ENDING,
};

static const struct row starcoder2[] = {
	{ "model.embed_tokens.weight", "V H", .tie = EMBEDDING },
	{ "@self_attn.q_proj.weight", "q H" },
	{ "@self_attn.q_proj.bias", "q", BIAS },
	{ "@self_attn.{k,v}_proj.weight", "k H" },
	{ "@self_attn.{k,v}_proj.bias", "k", BIAS },
	{ "@self_attn.o_proj.weight", "H q" },
	{ "@mlp.c_fc.weight", "I H" },
	{ "@mlp.c_fc.bias", "I", BIAS },
	{ "@mlp.c_proj.weight", "H I" },
	{ "@{self_attn.o_proj,mlp.c_proj}.bias", "H", BIAS },
	{ "@{input,post_attention}_layernorm.*", "H" },
	{ "model.norm.*", "H" },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING },
};

static const struct row phi[] = {
	{ "model.embed_tokens.weight", "V H", .tie = EMBEDDING },
	{ "@self_attn.q_proj.*", "q H" },
	{ "@self_attn.{k,v}_proj.*", "k H" },
	{ "@self_attn.dense.*", "H q" },
	{ "@mlp.fc1.*", "I H" },
	{ "@mlp.fc2.*", "H I" },
	{ "{@input,model.final}_layernorm.*", "H" },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "lm_head.bias", "V", LANGUAGE },
};

static const struct row gpt2[] = {
	{ "transformer.wte.weight", "V H", .tie = EMBEDDING },
	{ "transformer.wpe.weight", "P H" },
	{ "@attn.c_attn.weight", "H 3*H" },
	{ "@attn.c_attn.bias", "3*H" },
	{ "@attn.c_proj.*", "H H" },
	{ "@mlp.c_fc.weight", "H I" },
	{ "@mlp.c_fc.bias", "I" },
	{ "@mlp.c_proj.weight", "I H" },
	{ "@mlp.c_proj.bias", "H" },
	{ "{@ln_1,@ln_2,transformer.ln_f}.*", "H" },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "score.weight", "N H", SEQUENCE },
};

static const struct row gptj[] = {
	{ "transformer.wte.weight", "V H", .tie = EMBEDDING },
	{ "@attn.{q_proj,k_proj,v_proj,out_proj}.weight", "H H" },
	{ "@mlp.fc_in.*", "I H" },
	{ "@mlp.fc_out.*", "H I" },
	{ "{@ln_1,transformer.ln_f}.*", "H" },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "lm_head.bias", "V", LANGUAGE },
};

static const struct row bloom[] = {
	{ "transformer.word_embeddings.weight", "V H", .tie = EMBEDDING },
	{ "{transformer.word_embeddings_layernorm,transformer.ln_f}.*", "H" },
	{ "@{input,post_attention}_layernorm.*", "H" },
	{ "@self_attention.query_key_value.*", "3*H H" },
	{ "@self_attention.dense.*", "H H" },
	{ "@mlp.dense_h_to_4h.*", "4*H H" },
	{ "@mlp.dense_4h_to_h.*", "H 4*H" },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "score.weight", "N H", SEQUENCE },
};

#define FALCON "@self_attention.query_key_value."
static const struct row falcon[] = {
	{ "transformer.word_embeddings.weight", "V H", .tie = EMBEDDING },
	{ FALCON "weight", "H+w+w H", MULTI_QUERY, NEW_DECODER },
	{ FALCON "weight", "3*H H", 0, MULTI_QUERY | NEW_DECODER },
	{ FALCON "weight", "k*2+H H", NEW_DECODER },
	{ FALCON "bias", "H+w+w", BIAS | MULTI_QUERY, NEW_DECODER },
	{ FALCON "bias", "3*H", BIAS, MULTI_QUERY | NEW_DECODER },
	{ FALCON "bias", "k*2+H", BIAS | NEW_DECODER },
	{ "@self_attention.dense.weight", "H H" },
	{ "@mlp.dense_h_to_4h.weight", "I H" },
	{ "@mlp.dense_h_to_4h.bias", "I", BIAS },
	{ "@mlp.dense_4h_to_h.weight", "H I" },
	{ "@{self_attention.dense,mlp.dense_4h_to_h}.bias", "H", BIAS },
	{ "@input_layernorm.*", "H", 0, NEW_DECODER },
	{ "@post_attention_layernorm.*", "H", 0, NEW_DECODER | PARALLEL },
	{ "@{ln_attn,ln_mlp}.*", "H", NEW_DECODER },
	{ "transformer.ln_f.*", "H" },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "score.weight", "N H", SEQUENCE },
};

static const struct row gpt_neox[] = {
	{ "gpt_neox.embed_in.weight", "V H", .tie = EMBEDDING },
	{ "@{input,post_attention}_layernorm.*", "H" },
	{ "@attention.query_key_value.weight", "3*H H" },
	{ "@attention.query_key_value.bias", "3*H", QKV_BIAS },
	{ "@attention.dense.weight", "H H" },
	{ "@attention.dense.bias", "H", OUT_BIAS },
	{ "@mlp.dense_h_to_4h.*", "I H" },
	{ "@mlp.dense_4h_to_h.*", "H I" },
	{ "gpt_neox.final_layer_norm.*", "H" },
	{ "{embed_out,lm_head}.weight", "V H", LANGUAGE, .tie = EITHER },
};

static const struct row opt[] = {
	{ "model.decoder.embed_tokens.weight", "V W", .tie = EMBEDDING },
	{ "model.decoder.embed_positions.weight", "P+2 H" },
	{ "model.decoder.project_in.weight", "H W", PROJECTED },
	{ "model.decoder.project_out.weight", "W H", PROJECTED },
	{ "@self_attn.{q_proj,k_proj,v_proj,out_proj}.*", "H H" },
	{ "@fc1.*", "I H" },
	{ "@fc2.*", "H I" },
	{ "{@self_attn,@final,model.decoder.final}_layer_norm.*", "H" },
	{ "lm_head.weight", "V W", LANGUAGE, .tie = EMBEDDING },
};

/* Keys have no bias. */
static const struct row whisper[] = {
	{ "model.encoder.conv1.weight", "H Y 3" },
	{ "model.encoder.conv2.weight", "H H 3" },
	{ "model.encoder.{conv1,conv2}.bias", "H" },
	{ "model.encoder.embed_positions.weight", "X H" },
	{ "@self_attn.{q_proj,v_proj,out_proj}.*", "H H" },
	{ "@self_attn.k_proj.weight", "H H" },
	{ "@fc1.*", "I H" },
	{ "@fc2.*", "H I" },
	{ "@{self_attn,final}_layer_norm.*", "H" },
	{ "model.{encoder,decoder}.layer_norm.*", "H" },
	{ "model.decoder.embed_tokens.weight", "V H", .tie = EMBEDDING },
	{ "model.decoder.embed_positions.weight", "P H" },
	{ "model.decoder.layers.%D.self_attn.{q_proj,v_proj,out_proj}.*", "H H" },
	{ "model.decoder.layers.%D.encoder_attn.{q_proj,v_proj,out_proj}.*", "H H" },
	{ "model.decoder.layers.%D.{self,encoder}_attn.k_proj.weight", "H H" },
	{ "model.decoder.layers.%D.fc1.*", "J H" },
	{ "model.decoder.layers.%D.fc2.*", "H J" },
	{ "model.decoder.layers.%D.{self_attn,encoder_attn,final}_layer_norm.*", "H" },
	{ "proj_out.weight", "V H", LANGUAGE, .tie = EMBEDDING },
};

#define BART(stack, count, attention, inner)                                           \
	{ "model." stack ".embed_tokens.weight", "V H", .tie = ALWAYS },               \
		{ "model." stack ".embed_positions.weight", "P+2 H" },                 \
		{ "model." stack ".layernorm_embedding.*", "H" },                      \
		{ "model." stack ".layer_norm.*", "H", LAST_NORM },                    \
		{ "model." stack ".layers." count "." attention                        \
		  ".{q_proj,k_proj,v_proj,out_proj}.*",                                \
			"H H" },                                                       \
		{ "model." stack ".layers." count ".fc1.*", inner " H" },              \
		{ "model." stack ".layers." count ".fc2.*", "H " inner },              \
	{                                                                              \
		"model." stack ".layers." count ".{self_attn,final}_layer_norm.*", "H" \
	}
#define CROSS "model.decoder.layers.%D.encoder_attn"
static const struct row bart[] = {
	{ "model.shared.weight", "V H", .tie = ALWAYS },
	BART("encoder", "%L", "self_attn", "I"),
	BART("decoder", "%D", "self_attn", "J"),
	{ CROSS ".{q_proj,k_proj,v_proj,out_proj}.*", "H H" },
	{ CROSS "_layer_norm.*", "H" },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = ALWAYS },
	{ "final_logits_bias", "1 V", LANGUAGE, .tie = OPTIONAL },
	{ "classification_head.dense.*", "H H", SEQUENCE },
	{ "classification_head.out_proj.*", "N H", SEQUENCE },
};

#define SEEN "vision_model.encoder.layers.%l."
static const struct row clip[] = {
	{ "logit_scale", "" },
	{ "text_model.embeddings.token_embedding.weight", "V H" },
	{ "text_model.embeddings.position_embedding.weight", "P H" },
	{ "@self_attn.{q_proj,k_proj,v_proj,out_proj}.*", "H H" },
	{ "@mlp.fc1.*", "I H" },
	{ "@mlp.fc2.*", "H I" },
	{ "{@layer_norm1,@layer_norm2,text_model.final_layer_norm}.*", "H" },
	{ "vision_model.embeddings.class_embedding", "h" },
	{ "vision_model.embeddings.patch_embedding.weight", "h C Z Z" },
	{ "vision_model.embeddings.position_embedding.weight", "g*g+1 h" },
	{ SEEN "self_attn.{q_proj,k_proj,v_proj,out_proj}.*", "h h" },
	{ SEEN "mlp.fc1.*", "i h" },
	{ SEEN "mlp.fc2.*", "h i" },
	{ SEEN "{layer_norm1,layer_norm2}.*", "h" },
	{ "vision_model.{pre_layrnorm,post_layernorm}.*", "h" },
	{ "visual_projection.weight", "p h" },
	{ "text_projection.weight", "p H" },
};

#define RELATIVE "{encoder,decoder}.block.0.layer.0.SelfAttention.relative_attention_bias"
#define DECODING "decoder.block.%D."
static const struct row t5[] = {
	{ "shared.weight", "V H", .tie = ALWAYS },
	{ "{encoder,decoder}.embed_tokens.weight", "V H", .tie = ALWAYS },
	{ "lm_head.weight", "V H", LANGUAGE, .tie = HEAD },
	{ RELATIVE ".weight", "B A" },
	{ "@layer.0.SelfAttention.{q,k,v}.weight", "q H" },
	{ "@layer.0.SelfAttention.o.weight", "H q" },
	{ "@layer.1.DenseReluDense.wi.weight", "I H", 0, GATED },
	{ "@layer.1.DenseReluDense.{wi_0,wi_1}.weight", "I H", GATED },
	{ "@layer.1.DenseReluDense.wo.weight", "H I" },
	{ "@{layer.0,layer.1}.layer_norm.weight", "H" },
	{ "{encoder,decoder}.final_layer_norm.weight", "H" },
	{ DECODING "layer.0.SelfAttention.{q,k,v}.weight", "q H" },
	{ DECODING "layer.1.EncDecAttention.{q,k,v}.weight", "q H" },
	{ DECODING "layer.{0.SelfAttention,1.EncDecAttention}.o.weight", "H q" },
	{ DECODING "layer.2.DenseReluDense.wi.weight", "I H", 0, GATED },
	{ DECODING "layer.2.DenseReluDense.{wi_0,wi_1}.weight", "I H", GATED },
	{ DECODING "layer.2.DenseReluDense.wo.weight", "H I" },
	{ DECODING "{layer.0,layer.1,layer.2}.layer_norm.weight", "H" },
};

#define BERT(of)                                                                  \
	{ of ".embeddings.word_embeddings.weight", "V H", .tie = EMBEDDING },     \
		{ of ".embeddings.position_embeddings.weight", "P H" },           \
		{ of ".embeddings.token_type_embeddings.weight", "T H" },         \
		{ "@attention.self.{query,key,value}.*", "H H" },                 \
		{ "@attention.output.dense.*", "H H" },                           \
		{ "@intermediate.dense.*", "I H" }, { "@output.dense.*", "H I" }, \
	{                                                                         \
		"{" of ".embeddings,@attention.output,@output}.LayerNorm.*", "H"  \
	}
static const struct row bert[] = {
	BERT("bert"),
	{ "bert.pooler.dense.*", "H H", SEQUENCE },
	{ "classifier.*", "N H", SEQUENCE },
	{ "classifier.*", "N H", TOKEN },
	{ "cls.predictions.decoder.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "cls.{predictions.decoder,predictions}.bias", "V", LANGUAGE, .tie = HEAD_BIAS },
	{ "cls.predictions.transform.dense.*", "H H", LANGUAGE },
	{ "cls.predictions.transform.LayerNorm.*", "H", LANGUAGE },
};

static const struct row roberta[] = {
	BERT("roberta"),
	{ "classifier.dense.*", "H H", SEQUENCE },
	{ "classifier.out_proj.*", "N H", SEQUENCE },
	{ "classifier.*", "N H", TOKEN },
	{ "lm_head.decoder.weight", "V H", LANGUAGE, .tie = EMBEDDING },
	{ "{lm_head.decoder,lm_head}.bias", "V", LANGUAGE, .tie = HEAD_BIAS },
	{ "lm_head.dense.*", "H H", LANGUAGE },
	{ "lm_head.layer_norm.*", "H", LANGUAGE },
};

static const struct row distilbert[] = {
	{ "distilbert.embeddings.word_embeddings.weight", "V H" },
	{ "distilbert.embeddings.position_embeddings.weight", "P H" },
	{ "@attention.{q,k,v,out}_lin.*", "H H" },
	{ "@ffn.lin1.*", "I H" },
	{ "@ffn.lin2.*", "H I" },
	{ "{distilbert.embeddings.LayerNorm,@sa_layer_norm,@output_layer_norm}.*", "H" },
	{ "pre_classifier.*", "H H", SEQUENCE },
	{ "classifier.*", "N H", SEQUENCE },
	{ "classifier.*", "N H", TOKEN },
};

static const struct row vit[] = {
	{ "vit.embeddings.cls_token", "1 1 H" },
	{ "vit.embeddings.position_embeddings", "1 g*g+1 H" },
	{ "vit.embeddings.patch_embeddings.projection.weight", "H C Z Z" },
	{ "vit.embeddings.patch_embeddings.projection.bias", "H" },
	{ "@attention.attention.{query,key,value}.weight", "H H" },
	{ "@attention.attention.{query,key,value}.bias", "H", QKV_BIAS },
	{ "@attention.output.dense.*", "H H" },
	{ "@intermediate.dense.*", "I H" },
	{ "@output.dense.*", "H I" },
	{ "{@layernorm_before,@layernorm_after,vit.layernorm}.*", "H" },
	{ "classifier.*", "N H", IMAGE },
};

/* ---- architectures ---- */

static const struct model_family {
	const struct row *rows;
	size_t row_count;
	const char *prefix, *layer; /* of the base model; of its layers, "@" */
	uint32_t heads;             /* classes that are known */
	bool needs_class;           /* it has no language model by default */
	bool needs_tie;             /* untied before transformers 5: not known */
	bool is_tied;               /* untied: not known */
	bool is_renamed;            /* names in memory are others */
#define ROWS(of) of, FSDP_COUNT(of)
} of_decoder = { ROWS(decoder), "model.", "model.layers.%L.",
	LANGUAGE | SEQUENCE | BARE },
  of_granitemoe = { ROWS(granitemoe), "model.", "model.layers.%L.", LANGUAGE | BARE },
  of_gpt_oss = { ROWS(gpt_oss), "model.", "model.layers.%L.", LANGUAGE | BARE },
  of_bart = { ROWS(bart), "model.", NULL, LANGUAGE | SEQUENCE | BARE, .needs_class = true,
	  .is_tied = true },
  of_starcoder2 = { ROWS(starcoder2), "model.", "model.layers.%L.", LANGUAGE | BARE },
  of_phi = { ROWS(phi), "model.", "model.layers.%L.", LANGUAGE | BARE },
  of_gpt2 = { ROWS(gpt2), "transformer.", "transformer.h.%L.",
	  LANGUAGE | SEQUENCE | BARE },
  of_gptj = { ROWS(gptj), "transformer.", "transformer.h.%L.", LANGUAGE | BARE },
  of_bloom = { ROWS(bloom), "transformer.", "transformer.h.%L.",
	  LANGUAGE | SEQUENCE | BARE },
  of_falcon = { ROWS(falcon), "transformer.", "transformer.h.%L.",
	  LANGUAGE | SEQUENCE | BARE },
  of_neox = { ROWS(gpt_neox), "gpt_neox.", "gpt_neox.layers.%L.", LANGUAGE | BARE,
	  .is_renamed = true },
  of_opt = { ROWS(opt), "model.", "model.decoder.layers.%L.", LANGUAGE },
  of_whisper = { ROWS(whisper), "model.", "model.encoder.layers.%L.", LANGUAGE,
	  .needs_class = true },
  of_clip = { ROWS(clip), "clip.", "text_model.encoder.layers.%L.", BARE,
	  .needs_class = true },
  of_t5 = { ROWS(t5), "transformer.", "encoder.block.%L.", LANGUAGE,
	  .needs_class = true },
  of_bert = { ROWS(bert), "bert.", "bert.encoder.layer.%L.", LANGUAGE | SEQUENCE | TOKEN,
	  .needs_class = true, .needs_tie = true },
  of_roberta = { ROWS(roberta), "roberta.", "roberta.encoder.layer.%L.",
	  LANGUAGE | SEQUENCE | TOKEN, .needs_class = true, .needs_tie = true },
  of_distilbert = { ROWS(distilbert), "distilbert.", "distilbert.transformer.layer.%L.",
	  SEQUENCE | TOKEN, .needs_class = true },
  of_vit = { ROWS(vit), "vit.", "vit.encoder.layer.%L.", IMAGE, .needs_class = true,
	  .is_renamed = true };

#define LLAMA (INNER_NORM | POST_NORM | LAST_NORM)
#define OUTER (LLAMA | PRE_MLP | POST_MLP | TIED)
#define OLMO (POST_NORM | POST_MLP | LAST_NORM | ALL_NORMS)
#define ATTENTION (QKV_BIAS | OUT_BIAS | TIED)

static const struct architecture {
	const char *type; /* model_type */
	const struct model_family *family;
	uint32_t has, asks;   /* of a configuration without these keys; about
				 which it has one */
	const char *defaults; /* of sizes */
} architectures[] = {
	{ "llama", &of_decoder, LLAMA, ATTENTION | MLP_BIAS },
	{ "granite", &of_decoder, LLAMA, ATTENTION | MLP_BIAS },
	{ "mistral", &of_decoder, LLAMA, TIED, "K=8" },
	{ "qwen2", &of_decoder, LLAMA | QKV_BIAS, TIED, "K=32" },
	{ "qwen3", &of_decoder, LLAMA | HEAD_NORMS, ATTENTION, "w=128 K=32" },
	{ "mixtral", &of_decoder, LLAMA | EXPERTS | MIXTRAL, TIED, "K=8 E=8 I=14336" },
	{ "qwen3_moe", &of_decoder, LLAMA | EXPERTS | HEAD_NORMS, ATTENTION,
		"K=4 E=128 M=768" },
	{ "qwen2_moe", &of_decoder, LLAMA | EXPERTS | SHARED | QKV_BIAS, QKV_BIAS | TIED,
		"K=16 E=60 M=1408 S=5632" },
	{ "olmoe", &of_decoder, LLAMA | EXPERTS | ALL_NORMS, ATTENTION, "E=64 M=I" },
	{ "phi3", &of_decoder, LLAMA | FUSED | GATE_UP, TIED },
	{ "glm", &of_decoder, LLAMA | GATE_UP | QKV_BIAS, QKV_BIAS | TIED, "w=128 K=2" },
	{ "glm4", &of_decoder, LLAMA | GATE_UP | AROUND | QKV_BIAS, QKV_BIAS | TIED,
		"w=128 K=2" },
	{ "helium", &of_decoder, LLAMA, QKV_BIAS | MLP_BIAS | TIED, "w=128 K=20" },
	{ "seed_oss", &of_decoder, LLAMA | QKV_BIAS, QKV_BIAS | MLP_BIAS | TIED,
		"w=128 K=8" },
	{ "arcee", &of_decoder, LLAMA | UNGATED, ATTENTION | MLP_BIAS },
	{ "nemotron", &of_decoder, LLAMA | UNGATED | NORM_BIAS, ATTENTION | MLP_BIAS },
	{ "exaone4", &of_decoder, POST_NORM | POST_MLP | HEAD_NORMS | LAST_NORM, TIED,
		"K=32" },
	{ "gemma", &of_decoder, LLAMA | TIED, ATTENTION, "w=256 K=16" },
	{ "gemma2", &of_decoder, OUTER, ATTENTION, "w=256 K=4" },
	{ "gemma3_text", &of_decoder, OUTER | HEAD_NORMS, ATTENTION, "w=256 K=4" },
	{ "smollm3", &of_decoder, LLAMA | TIED, ATTENTION | MLP_BIAS, "K=4" },
	{ "cohere", &of_decoder, INNER_NORM | LAST_NORM | TIED, ATTENTION },
	{ "cohere2", &of_decoder, INNER_NORM | LAST_NORM | TIED, ATTENTION },
	{ "granitemoe", &of_granitemoe, 0, ATTENTION, "E=8" },
	{ "gpt_oss", &of_gpt_oss, QKV_BIAS | OUT_BIAS, ATTENTION, "w=64 K=8 E=128" },
	{ "bart", &of_bart, TIED, TIED },
	{ "mbart", &of_bart, TIED | LAST_NORM, TIED },
	{ "olmo", &of_decoder, 0, ATTENTION },
	{ "olmo2", &of_decoder, OLMO, ATTENTION },
	{ "olmo3", &of_decoder, OLMO, ATTENTION },
	{ "starcoder2", &of_starcoder2, BIAS | TIED, BIAS | TIED, "K=2" },
	{ "phi", &of_phi, 0, TIED },
	{ "gpt2", &of_gpt2, TIED, TIED, "I=4*H" },
	{ "gptj", &of_gptj, 0, TIED, "I=4*H" },
	{ "bloom", &of_bloom, TIED, TIED },
	{ "falcon", &of_falcon, TIED | MULTI_QUERY | PARALLEL,
		TIED | MULTI_QUERY | PARALLEL | NEW_DECODER | BIAS, "I=4*H" },
	{ "gpt_neox", &of_neox, QKV_BIAS | OUT_BIAS, ATTENTION },
	{ "opt", &of_opt, TIED, TIED },
	{ "whisper", &of_whisper, TIED, TIED, "P=448 X=1500 Y=80" },
	{ "clip", &of_clip },
	{ "t5", &of_t5, TIED, TIED | GATED, "V=32128 H=512 w=64 A=8 I=2048 L=6 B=32" },
	{ "mt5", &of_t5, GATED, TIED | GATED },
	{ "bert", &of_bert, TIED, TIED, "V=30522 H=768 I=3072 L=12 P=512 T=2" },
	{ "roberta", &of_roberta, TIED, TIED },
	{ "xlm-roberta", &of_roberta, TIED, TIED },
	{ "camembert", &of_roberta, TIED, TIED },
	{ "distilbert", &of_distilbert },
	{ "vit", &of_vit, QKV_BIAS, QKV_BIAS, "H=768 I=3072 L=12 G=224 Z=16 C=3" },
};

static const struct class_end {
	const char *end;
	uint32_t head;
} class_ends[] = {
	{ "ForCausalLM", LANGUAGE },
	{ "LMHeadModel", LANGUAGE },
	{ "ForConditionalGeneration", LANGUAGE },
	{ "ForMaskedLM", LANGUAGE },
	{ "ForSequenceClassification", SEQUENCE },
	{ "ForTokenClassification", TOKEN },
	{ "ForImageClassification", IMAGE },
	{ "Model", BARE },
};

/* ---- reading the configuration ---- */

/* One that is asked about, and what was read. */
struct building {
	struct fsdp_loading *loading;
	const struct architecture *of;
	uint32_t flags;
	int64_t sizes[128]; /* by letter; 0: not known */
	bool keeps;         /* tensors; else they are counted */
	size_t count;
};

/* Left to right; 0: a size of it is not known, or too large. */
static int64_t evaluate(
	const struct building *building, const char *text, const char **ret_end)
{
	int64_t value = 1;
	char sign = '*';

	for (;; text++) {
		int64_t operand = 0;
		bool good = true;

		if (fsdp_is_digit(*text))
			while (fsdp_is_digit(*text))
				operand = 10 * operand + *text++ - '0';
		else
			operand = building->sizes[(unsigned char)*text++ & 127];
		if (operand <= 0)
			value = 0;
		else if (sign == '*')
			good = !__builtin_mul_overflow(value, operand, &value);
		else if (sign == '/')
			value /= operand;
		else if (value != 0)
			good = !__builtin_add_overflow(value, operand, &value);
		if (!good)
			value = 0;
		sign = *text;
		if (sign != '*' && sign != '/' && sign != '+')
			break;
	}
	*ret_end = text;
	return value;
}

static bool read_sizes(struct building *building)
{
	struct fsdp_load_items config = fsdp_load_members(building->loading, CONFIG);
	struct fsdp_token labels =
		fsdp_load_setting(building->loading, CONFIG, "id2label").value;
	const char *end;

	for (size_t i = 0; i < FSDP_COUNT(size_keys); i++) {
		const struct size_key *key = &size_keys[i];
		const char *otherwise = key->otherwise, *at = building->of->defaults;
		int64_t size = -1;

		/* "K=8 w=256" */
		for (; at != NULL && *at != '\0';
			at += strcspn(at, " "), at += *at == ' ')
			if (*at == key->letter)
				otherwise = at + 2;
		/* A key, or "outer.key"; null is the default. */
		for (at = key->keys; at != NULL && size < 0;) {
			struct fsdp_span name = fsdp_span(at, strcspn(at, "|")), rest;
			struct fsdp_span outer = fsdp_span_first(name, '.');
			const struct fsdp_setting *item =
				fsdp_load_find_item(config, outer);

			if (item != NULL && outer.size < name.size) {
				rest = fsdp_span(name.data + outer.size + 1,
					name.size - outer.size - 1);
				item = fsdp_load_find_item(
					fsdp_load_items_of(config, item), rest);
			}
			if (item != NULL && item->value.kind == FSDP_TOKEN_INTEGER)
				size = item->value.integer;
			else if (item != NULL && item->value.kind != FSDP_TOKEN_NONE)
				return false;
			at = at[name.size] == '|' ? at + name.size + 1 : NULL;
		}
		if (size < 0)
			size = otherwise != NULL ? evaluate(building, otherwise, &end)
						 : 0;
		if (key->keys != NULL && size > SIZE_MAX_STATED)
			return false;
		building->sizes[(unsigned char)key->letter] = size;
	}
	if (labels.kind == FSDP_TOKEN_DICT && labels.count > 0)
		building->sizes['N'] = labels.count;
	return building->sizes['L'] <= LAYERS_MAX && building->sizes['D'] <= LAYERS_MAX &&
	       building->sizes['l'] <= LAYERS_MAX;
}

/* What changes names of modules, or is asked for in few architectures: other values of
 * these are not known. */
static const struct {
	const char *key;
	int64_t known;
} module_keys[] = { { "qk_layernorm", 0 }, { "use_qk_norm", 0 },
	{ "attention_out_bias", 0 }, { "add_cross_attention", 0 },
	{ "_remove_final_layer_norm", 0 }, { "do_layer_norm_before", 1 },
	{ "enable_bias", 1 }, { "num_ln_in_parallel_attn", 2 } };

static bool read_flags(struct building *building)
{
	struct fsdp_loading *loading = building->loading;
	const struct architecture *of = building->of;
	struct fsdp_load_items list = fsdp_load_items(loading, CONFIG, "architectures");
	const struct fsdp_setting *first = fsdp_load_next_item(&list);
	struct fsdp_span name = { 0 };
	uint32_t flags = of->has, head = 0;

	for (size_t i = 0; i < FSDP_COUNT(flag_keys); i++) {
		int64_t value =
			(of->asks & flag_keys[i].flag) != 0
				? fsdp_load_integer(loading, CONFIG, flag_keys[i].key, -1)
				: -1;

		if (value >= 0)
			flags = value != 0 ? flags | flag_keys[i].flag
					   : flags & ~flag_keys[i].flag;
	}
	struct fsdp_span inner = fsdp_load_text(loading, CONFIG, "feed_forward_proj");
	if ((of->asks & GATED) != 0 && inner.data != NULL)
		flags = fsdp_span_begins(inner, FSDP_SPAN("gated")) ? flags | GATED
								    : flags & ~GATED;
	if (building->sizes['W'] != building->sizes['H'])
		flags |= PROJECTED;
	/* The class that config.json lists first; without one a decoder has its head. */
	if (first != NULL && first->value.kind == FSDP_TOKEN_TEXT)
		name = first->value.text;
	if (name.data == NULL && !of->family->needs_class)
		head = LANGUAGE;
	for (size_t i = FSDP_COUNT(class_ends); i-- > 0;)
		if (fsdp_span_ends(name, fsdp_span_text(class_ends[i].end)))
			head = class_ends[i].head;
	/* Its decoder alone. */
	if ((of->family == &of_whisper || of->family == &of_bart) &&
		fsdp_span_ends(name, FSDP_SPAN("ForCausalLM")))
		head = 0;
	building->flags = flags | (head & of->family->heads);
	for (size_t i = 0; i < FSDP_COUNT(module_keys); i++)
		if (fsdp_load_integer(loading, CONFIG, module_keys[i].key,
			    module_keys[i].known) != module_keys[i].known)
			return false;
	/* Of experts: a loader that joins them, in every layer, in a number that may be.
	 */
	if ((flags & EXPERTS) != 0 &&
		(!loading->converts || building->sizes['E'] <= 0 ||
			building->sizes['E'] > EXPERTS_MAX ||
			building->sizes['L'] * building->sizes['E'] > ALL_EXPERTS_MAX ||
			fsdp_load_integer(loading, CONFIG, "decoder_sparse_step", 1) !=
				1 ||
			fsdp_load_find_set(loading, CONFIG, "mlp_only_layers") != NULL))
		return false;
	return (building->flags & HEADS) != 0 &&
	       ((flags & TIED) != 0 ||
		       (!of->family->is_tied &&
			       (!of->family->needs_tie || !loading->is_before_5)));
}

/* ---- adding ---- */

/* A tensor, with `dims` of its shape at most. False: its shape is not known. */
static bool add(struct building *building, struct fsdp_span name, const struct row *row,
	uint32_t dims, int64_t layer)
{
	static const uint8_t tied[][2] = {
		[APART] = { FSDP_LOAD_UNTIED, FSDP_LOAD_UNTIED },
		[EMBEDDING] = { FSDP_LOAD_UNTIED, FSDP_LOAD_TIED_WEIGHT },
		[ALWAYS] = { FSDP_LOAD_TIED_WEIGHT, FSDP_LOAD_TIED_WEIGHT },
		[HEAD] = { FSDP_LOAD_UNTIED, FSDP_LOAD_TIED_WEIGHT },
		[HEAD_BIAS] = { FSDP_LOAD_UNTIED, FSDP_LOAD_TIED_BIAS },
		[EITHER] = { FSDP_LOAD_EITHER, FSDP_LOAD_TIED_WEIGHT },
		[OPTIONAL] = { FSDP_LOAD_OPTIONAL, FSDP_LOAD_OPTIONAL },
	};
	struct fsdp_loading *loading = building->loading;
	const char *prefix = building->of->family->prefix;
	bool is_tied = (building->flags & TIED) != 0 ||
		       (row->tie == HEAD && !loading->is_before_5);
	struct fsdp_load_tensor *tensor;
	int64_t shape[DIMS], *kept;
	uint32_t count = 0;

	for (const char *at = row->shape; *at != '\0' && count < dims;) {
		shape[count] = evaluate(building, at, &at);
		if (shape[count++] <= 0)
			return false;
		at += *at == ' ';
	}
	if (building->count++, !building->keeps)
		return true;
	if ((building->flags & BARE) != 0 && prefix != NULL)
		(void)fsdp_span_behind(name, prefix, &name);
	tensor = &loading->model.items[loading->model.count++];
	kept = FSDP_TAKE(loading->arena, kept, DIMS);
	*tensor = (struct fsdp_load_tensor){
		.name = fsdp_arena_copy(loading->arena, name),
		.shape = kept,
		.dims = count,
		.tie = tied[row->tie][is_tied],
		.expert = row->expert,
		.layer = (uint32_t)layer,
	};
	loading->failed |= kept == NULL || tensor->name.data == NULL;
	if (kept != NULL)
		memcpy(kept, shape, count * sizeof *shape);
	return !loading->failed;
}

/* Each of the names that its braces stand for, with the layer for its "@". */
static bool add_row(struct building *building, const struct row *row)
{
	const char *open = strchr(row->name, '{'), *close = strchr(row->name, '}');
	const char *at = open != NULL ? open + 1 : "",
		   *layer_name = building->of->family->layer;
	static const char *const parts[] = { "gate_up_proj", "down_proj" };
	bool is_either = ((row->when | row->unless) & JOINED) != 0;
	const struct fsdp_loading *loading = building->loading;
	const struct fsdp_checkpoint *checkpoint =
		is_either && loading->weights != NULL && !loading->is_before_5
			? fsdp_load_opened(building->loading)
			: NULL;
	char name[NAME_BYTES], whole[NAME_BYTES];
	size_t length;

	if ((row->when & ~(uint32_t)JOINED & ~building->flags) != 0 ||
		(row->unless & building->flags) != 0)
		return true;
	do {
		size_t size = strcspn(at, ",}");

		if (open == NULL)
			snprintf(name, sizeof name, "%s", row->name);
		else
			snprintf(name, sizeof name, "%.*s%.*s%s", (int)(open - row->name),
				row->name, (int)size, at, close + 1);
		const char *mark = strchr(name, '@');
		snprintf(whole, sizeof whole, "%s%s", mark != NULL ? layer_name : "",
			mark != NULL ? mark + 1 : name);
		mark = strchr(whole, '%');
		int64_t layers =
			mark != NULL ? building->sizes[(unsigned char)mark[1]] : 1;
		int64_t experts = strstr(whole, "%E") != NULL ? building->sizes['E'] : 1;
		for (int64_t layer = 0; layer < layers; layer++) {
			bool is_joined = false;
			/* From 5 on transformers keeps all experts of a layer in two
			 * tensors, and takes those from a file as it takes single ones.
			 */
			for (size_t i = 0; i < FSDP_COUNT(parts) && checkpoint != NULL;
				i++) {
				snprintf(name, sizeof name,
					"model.layers.%lld.mlp.experts.%s",
					(long long)layer, parts[i]);
				is_joined |= fsdp_tensor_find(checkpoint,
						     fsdp_span_text(name)) != FSDP_NONE;
			}
			if (is_either && is_joined != ((row->when & JOINED) != 0))
				continue;
			for (int64_t expert = 0; expert < experts; expert++) {
				bool is_pair = whole[strlen(whole) - 1] == '*';

				length = 0;
				for (mark = whole; *mark != '\0' && *mark != '*'; mark++)
					if (*mark == '%')
						length += (size_t)snprintf(name + length,
							sizeof name - length, "%lld",
							(long long)(*++mark == 'E'
									    ? expert
									    : layer));
					else
						name[length++] = *mark;
				if (is_pair)
					memcpy(name + length, "weight", 6);
				if (!add(building,
					    fsdp_span(name, length + (is_pair ? 6 : 0)),
					    row, DIMS, layer))
					return false;
				if (is_pair)
					memcpy(name + length, "bias", 4);
				if (is_pair && !add(building, fsdp_span(name, length + 4),
						       row, 1, layer))
					return false;
			}
		}
		if (layers <= 0)
			return false;
		at += size;
	} while (*at++ == ',');
	return true;
}

bool fsdp_load_model_of_config(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, CONFIG, "model_type");
	struct building building = { .loading = loading };

	for (size_t i = 0; i < FSDP_COUNT(architectures); i++)
		if (fsdp_span_is(type, architectures[i].type))
			building.of = &architectures[i];
	/* What quantises makes other modules of them. */
	if (building.of == NULL ||
		(building.of->family->is_renamed && !loading->converts) ||
		fsdp_load_setting(loading, CONFIG, "quantization_config").value.kind ==
			FSDP_TOKEN_DICT ||
		!read_sizes(&building) || !read_flags(&building))
		return false;
	loading->base_prefix = building.of->family->prefix;
	for (unsigned turn = 0; turn < 2; turn++) {
		for (size_t i = 0; i < building.of->family->row_count; i++)
			if (!add_row(&building, &building.of->family->rows[i]))
				return false;
		if (turn == 0)
			loading->model.items = FSDP_TAKE(
				loading->arena, loading->model.items, building.count + 1);
		loading->failed |= loading->model.items == NULL;
		if (loading->failed)
			return false;
		building.keeps = true;
	}
	qsort(loading->model.items, loading->model.count, sizeof *loading->model.items,
		fsdp_load_by_name);
	return true;
}
