/* SPDX-License-Identifier: Apache-2.0 */
/* A model against its configuration, and shapes against each other. */
#include "audit-by-hand.h"

static const char *const BLOCK[] = { "attn.weight", "mlp.weight", NULL };

/* ---- layers ---- */

static void put_blocks(struct fsdp_checkpoint *checkpoint, int count, const char *config)
{
	put_layers(checkpoint, "model.layers", 0, count - 1, BLOCK, NULL);
	configure(checkpoint, "config.json", config);
}

static void layers_are_missing(void **state)
{
	put_blocks(*state, 3, "{\"num_hidden_layers\": 4}");
	expect_findings(*state,
		"FI1091 error model.layers.3.attn.weight model.layers.3.mlp.weight\n");
}

static void layers_are_all_there(void **state)
{
	put_blocks(*state, 4, "{\"num_hidden_layers\": 4}");
	expect_findings(*state, "");
}

static void there_are_layers_more(void **state)
{
	put_blocks(*state, 4, "{\"num_hidden_layers\": 3}");
	expect_findings(*state, "FI1091 warning\n");
}

static void a_layer_more_predicts(void **state)
{
	put_blocks(
		*state, 4, "{\"num_hidden_layers\": 3, \"num_nextn_predict_layers\": 1}");
	expect_findings(*state, "");
}

static void the_number_may_be_anything(void **state)
{
	put_blocks(*state, 3,
		"{\"num_hidden_layers\": 9223372036854775807, \"n_layer\": -1}");
	struct fsdp_audit *audit = judge(*state);

	assert_int_equal(fsdp_audit_finding_count(audit), 1);
	assert_int_equal(fsdp_audit_finding(audit, 0)->affected_count, 128);
	fsdp_audit_free(audit);
}

static void encoder_and_decoder_are_counted_apart(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "encoder.block", 0, 3, BLOCK, NULL);
	put_layers(checkpoint, "decoder.block", 0, 1, BLOCK, NULL);
	configure(checkpoint, "config.json",
		"{\"num_layers\": 4, \"num_decoder_layers\": 3}");
	expect_findings(checkpoint,
		"FI1091 error decoder.block.2.attn.weight decoder.block.2.mlp.weight\n");
}

static void unused_vision_layers_may_be_absent(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "vision_tower.layers", 0, 4, BLOCK, NULL);
	configure(checkpoint, "config.json",
		"{\"vision_feature_layer\": -2, \"vision_config\": {\"num_hidden_layers\": 6}}");
	expect_findings(checkpoint, "");
}

/* One more than may be unused. */
static void vision_layers_are_missing(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "vision_tower.layers", 0, 3, BLOCK, NULL);
	configure(checkpoint, "config.json",
		"{\"vision_feature_layer\": -2, \"vision_config\": {\"num_hidden_layers\": 6}}");
	expect_findings(checkpoint,
		"FI1091 error vision_tower.layers.4.attn.weight vision_tower.layers.4.mlp.weight"
		" vision_tower.layers.5.attn.weight vision_tower.layers.5.mlp.weight\n");
}

/* Of two models beside each other nothing says which one it is about. */
static void two_configurations_count_nothing(void **state)
{
	put_blocks(*state, 3, "{\"num_hidden_layers\": 4}");
	configure(*state, "other/config.json", "{\"num_hidden_layers\": 5}");
	expect_findings(*state, "");
}

/* ---- experts ---- */

static void put_experts(struct fsdp_checkpoint *checkpoint, int count)
{
	char prefix[64];

	for (int i = 0; i < 3; i++) {
		snprintf(prefix, sizeof prefix, "layers.%d.experts", i);
		put_each(checkpoint, prefix, 0, count - 1, "up.weight", "float32", "8x4");
	}
}

static void experts_are_missing(void **state)
{
	put_experts(*state, 3);
	configure(*state, "config.json", "{\"num_experts\": 4}");
	expect_findings(*state,
		"FI1091 error layers.0.experts.3.up.weight layers.1.experts.3.up.weight layers.2.experts.3.up.weight\n");
}

/* The routers have as many rows as experts are stored: none is missing, and the
 * configuration is of another model. */
static void the_routers_have_as_many_rows(void **state)
{
	put_experts(*state, 3);
	for (int i = 0; i < 3; i++) {
		char name[64];

		snprintf(name, sizeof name, "layers.%d.gate.weight", i);
		put(*state, name, "float32", "3x4");
	}
	configure(*state, "config.json", "{\"num_experts\": 4}");
	expect_findings(*state, "FI1091 error\n");
}

/* The first expert of four, which the configuration counts. */
static void the_first_expert_is_judged(void **state)
{
	static const char *const PARTS[] = { "up.weight", "down.weight", NULL };

	put_layers(*state, "moe.1.experts", 0, 3, PARTS, "moe.1.experts.0.up.weight");
	configure(*state, "config.json", "{\"num_experts\": 4}");
	expect_findings(*state, "FI1090 error moe.1.experts.0.up.weight\n");
}

/* Some families count those that do nothing too. */
static void one_of_the_numbers_is_enough(void **state)
{
	put_experts(*state, 5);
	configure(*state, "config.json",
		"{\"num_experts\": 64, \"n_routed_experts\": 3, \"zero_expert_num\": 2}");
	expect_findings(*state, "");
}

static void a_fused_tensor_has_a_part_of_the_experts(void **state)
{
	put(*state, "layers.0.experts.gate_up_proj", "float32", "4x8x8");
	put(*state, "layers.1.experts.gate_up_proj", "float32", "6x8x8");
	put(*state, "layers.2.experts.gate_up_proj", "float32", "8x8x8");
	configure(*state, "config.json", "{\"num_experts\": 8}");
	expect_findings(*state, "FI1094 error layers.0.experts.gate_up_proj\n"
				"FI1091 error layers.1.experts.gate_up_proj\n");
}

/* ---- rows and columns ---- */

static void put_vocabulary(
	struct fsdp_checkpoint *checkpoint, const char *shape, const char *config)
{
	put(checkpoint, "model.embed_tokens.weight", "float32", shape);
	configure(checkpoint, "config.json", config);
}

static void rows_are_right(void **state)
{
	put_vocabulary(*state, "100x16", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "");
}

static void rows_are_padded(void **state)
{
	put_vocabulary(*state, "128x16", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI1091 note model.embed_tokens.weight\n");
}

static void rows_are_too_many(void **state)
{
	put_vocabulary(*state, "150x16", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI1091 warning model.embed_tokens.weight\n");
}

static void rows_are_too_few(void **state)
{
	put_vocabulary(*state, "99x16", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI1091 error model.embed_tokens.weight\n");
}

static void rows_are_half(void **state)
{
	put_vocabulary(*state, "50x16", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI1091 error model.embed_tokens.weight\n");
}

/* The head has all of its rows: the embedding is the piece of a rank. */
static void an_embedding_has_half_the_rows_of_the_head(void **state)
{
	put(*state, "lm_head.weight", "float32", "100x16");
	put_vocabulary(*state, "50x16", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI1094 error model.embed_tokens.weight\n");
}

/* A layer is the piece of a rank, and so is the embedding. */
static void rows_are_half_as_those_of_a_layer(void **state)
{
	put(*state, "model.layers.0.input_layernorm.weight", "float32", "8");
	put(*state, "model.layers.0.mlp.down.weight", "float32", "16x16");
	put_vocabulary(*state, "50x16", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI1094 error model.layers.0.input_layernorm.weight\n"
				"FI1094 error model.embed_tokens.weight\n");
}

static void columns_are_half(void **state)
{
	put_vocabulary(*state, "100x8", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI1094 error model.embed_tokens.weight\n");
}

static void an_embedding_is_one_row(void **state)
{
	put_vocabulary(*state, "800", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "FI4005 error model.embed_tokens.weight\n");
}

/* Packed tensors have other shapes. */
static void packed_embeddings_are_left_alone(void **state)
{
	put(*state, "model.embed_tokens.weight", "uint8", "800x1");
	configure(*state, "config.json", "{\"vocab_size\": 100, \"hidden_size\": 16}");
	expect_findings(*state, "");
}

/* Without what leads out nothing is known. */
static void a_width_stands_alone(void **state)
{
	put_each(*state, "layers", 0, 3, "mlp.up_proj.weight", "float32", "16x16");
	configure(*state, "config.json",
		"{\"hidden_size\": 16, \"intermediate_size\": 32}");
	expect_findings(*state, "");
}

static void all_of_a_stack_is_half(void **state)
{
	put_each(*state, "layers", 0, 3, "self_attn.k_proj.weight", "float32", "4x16");
	put_each(*state, "layers", 0, 3, "mlp.up_proj.weight", "float32", "32x16");
	put_each(*state, "layers", 0, 3, "ln_1.weight", "float32", "16");
	configure(*state, "config.json",
		"{\"hidden_size\": 16, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
		" \"intermediate_size\": 32}");
	expect_findings(*state,
		"FI1094 error layers.0.self_attn.k_proj.weight layers.1.self_attn.k_proj.weight layers.2.self_attn.k_proj.weight layers.3.self_attn.k_proj.weight\n");
}

/* Whatever is called so has a width that the configuration has. */
static void each_module_of_a_width_is_judged(void **unused)
{
	static const struct {
		const char *module, *half;
	} MODULES[] = {
		{ "input_layernorm", "8" },
		{ "post_attention_layernorm", "8" },
		{ "ln_1", "8" },
		{ "ln_2", "8" },
		{ "self_attn.k_proj", "4x16" },
		{ "self_attn.v_proj", "4x16" },
		{ "mlp.gate_proj", "16x16" },
		{ "mlp.up_proj", "16x16" },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof MODULES / sizeof MODULES[0]; i++) {
		struct fsdp_checkpoint *checkpoint;
		char member[64], expected[512];
		size_t at = 0;

		begin_by_hand((void **)&checkpoint);
		snprintf(member, sizeof member, "%s.weight", MODULES[i].module);
		put_each(checkpoint, "layers", 0, 3, member, "float32", MODULES[i].half);
		put_each(checkpoint, "layers", 0, 3, "mlp.down_proj.weight", "float32",
			"16x32");
		configure(checkpoint, "config.json",
			"{\"hidden_size\": 16, \"num_attention_heads\": 4,"
			" \"num_key_value_heads\": 2, \"intermediate_size\": 32}");
		at += (size_t)snprintf(expected, sizeof expected, "FI1094 error");
		for (int layer = 0; layer <= 3; layer++)
			at += (size_t)snprintf(expected + at, sizeof expected - at,
				" layers.%d.%s%s", layer, member, layer == 3 ? "\n" : "");
		expect_findings(checkpoint, expected);
		end_by_hand((void **)&checkpoint);
	}
}

/* A head of its own size, and not a part of the hidden size. */
static void heads_have_a_size_of_their_own(void **state)
{
	put_each(*state, "layers", 0, 3, "self_attn.k_proj.weight", "float32", "12x16");
	put_each(*state, "layers", 0, 3, "mlp.up_proj.weight", "float32", "32x16");
	put_each(*state, "layers", 0, 3, "ln_1.weight", "float32", "16");
	configure(*state, "config.json",
		"{\"hidden_size\": 16, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
		" \"head_dim\": 12, \"intermediate_size\": 32}");
	expect_findings(*state,
		"FI1094 error layers.0.self_attn.k_proj.weight layers.1.self_attn.k_proj.weight layers.2.self_attn.k_proj.weight layers.3.self_attn.k_proj.weight\n");
}

/* Of two sizes of heads nothing says which layer has which. */
static void heads_have_two_sizes(void **state)
{
	put_each(*state, "layers", 0, 3, "self_attn.k_proj.weight", "float32", "12x16");
	put_each(*state, "layers", 0, 3, "mlp.up_proj.weight", "float32", "32x16");
	put_each(*state, "layers", 0, 3, "ln_1.weight", "float32", "16");
	configure(*state, "config.json",
		"{\"hidden_size\": 16, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
		" \"head_dim\": 12, \"global_head_dim\": 24, \"intermediate_size\": 32}");
	expect_findings(*state, "");
}

/* Both sides of what lies between are half as wide. */
static void a_model_may_halve_a_width(void **state)
{
	put_each(*state, "layers", 0, 3, "mlp.up_proj.weight", "float32", "16x16");
	put_each(*state, "layers", 0, 3, "mlp.down_proj.weight", "float32", "16x16");
	configure(*state, "config.json",
		"{\"hidden_size\": 16, \"intermediate_size\": 32}");
	expect_findings(*state, "");
}

/* ---- shapes of siblings ---- */

static void put_odd(
	struct fsdp_checkpoint *checkpoint, const char *shape, const char *odd)
{
	put_each(checkpoint, "layers", 0, 1, "fc.weight", "float32", shape);
	put_each(checkpoint, "layers", 2, 2, "fc.weight", "float32", odd);
	put_each(checkpoint, "layers", 3, 5, "fc.weight", "float32", shape);
}

static void a_piece_is_half(void **state)
{
	put_odd(*state, "8x4", "4x4");
	expect_findings(*state, "FI1094 error layers.2.fc.weight\n");
}

static void a_vector_is_joined(void **state)
{
	put_odd(*state, "8", "32");
	expect_findings(*state, "FI1094 error layers.2.fc.weight\n");
}

static void a_matrix_is_flat(void **state)
{
	put_odd(*state, "8x4", "16");
	expect_findings(*state, "FI4005 error layers.2.fc.weight\n");
}

/* No whole number of them makes the shape. */
static void a_shape_is_only_different(void **state)
{
	put_odd(*state, "8x4", "7x3");
	expect_findings(*state, "");
}

static void two_dimensions_differ(void **state)
{
	put_odd(*state, "8x4", "4x2");
	expect_findings(*state, "");
}

static void a_list_of_widths_explains(void **state)
{
	put_odd(*state, "8x4", "4x4");
	configure(*state, "config.json", "{\"intermediate_size\": [8, 8, 4, 8, 8, 8]}");
	expect_findings(*state, "");
}

static void another_dtype_is_not_compared(void **state)
{
	put_each(*state, "layers", 0, 4, "fc.weight", "float32", "8x4");
	put_each(*state, "layers", 5, 5, "fc.weight", "int8", "4x4");
	put_each(*state, "layers", 6, 9, "fc.weight", "float32", "8x4");
	expect_findings(*state, "");
}

/* ---- ties ---- */

static void put_tied(struct fsdp_checkpoint *checkpoint, const char *tied, bool head)
{
	char text[256];

	put(checkpoint, "model.embed_tokens.weight", "float32", "100x16");
	put(checkpoint, "model.norm.weight", "float32", "16");
	if (head)
		put(checkpoint, "lm_head.weight", "float32", "50x16");
	snprintf(text, sizeof text,
		"{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 100, \"hidden_size\": 16%s}",
		tied);
	configure(checkpoint, "config.json", text);
}

static void a_head_is_missing(void **state)
{
	put_tied(*state, ", \"tie_word_embeddings\": false", false);
	expect_findings(*state, "FI1095 error lm_head.weight\n");
}

static void a_tied_head_is_not_stored(void **state)
{
	put_tied(*state, ", \"tie_word_embeddings\": true", false);
	expect_findings(*state, "");
}

/* Families have different defaults. */
static void nothing_says_that_a_head_is_due(void **state)
{
	put_tied(*state, "", false);
	expect_findings(*state, "");
}

/* Told once, and not as a piece. */
static void a_tied_head_has_another_shape(void **state)
{
	put_tied(*state, ", \"tie_word_embeddings\": true", true);
	expect_findings(*state, "FI1095 error lm_head.weight\n");
}

static void a_head_of_another_name_counts(void **state)
{
	put_tied(*state, ", \"tie_word_embeddings\": false", false);
	put(*state, "unembedding.matrix", "float32", "100x16");
	expect_findings(*state, "");
}

/* ---- parts ---- */

static void the_vision_part_is_missing(void **state)
{
	put(*state, "language_model.norm.weight", "float32", "16");
	configure(*state, "config.json",
		"{\"architectures\": [\"XForConditionalGeneration\"], \"vision_config\": {\"depth\": 2}}");
	expect_findings(*state, "FI1091 error\n");
}

/* Text models of such a family keep the key. */
static void a_text_model_has_no_vision_part(void **state)
{
	put(*state, "language_model.norm.weight", "float32", "16");
	configure(*state, "config.json",
		"{\"architectures\": [\"XForCausalLM\"], \"vision_config\": {\"depth\": 2}}");
	expect_findings(*state, "");
}

/* ---- adapters ---- */

static const char *const PAIR[] = { "q.lora_A.weight", "q.lora_B.weight", NULL };

static void put_adapter(
	struct fsdp_checkpoint *checkpoint, const char *without, const char *config)
{
	put_layers(checkpoint, "model.layers", 0, 3, PAIR, without);
	configure(checkpoint, "adapter_config.json", config);
}

static void half_of_a_pair_is_missing(void **state)
{
	put_adapter(*state, "model.layers.0.q.lora_A.weight", "{}");
	expect_findings(*state, "FI1090 error model.layers.0.q.lora_A.weight\n");
}

/* Each side of a pair, of modules and of embeddings. */
static void each_half_has_another(void **state)
{
	static const char *const HALVES[] = { "lora_A.weight", "lora_B.weight",
		"lora_embedding_A", "lora_embedding_B" };
	char name[64], expected[64];

	(void)state;
	for (size_t i = 0; i < sizeof HALVES / sizeof *HALVES; i++) {
		struct fsdp_checkpoint *checkpoint;

		begin_by_hand((void **)&checkpoint);
		snprintf(name, sizeof name, "q.%s", HALVES[i]);
		put(checkpoint, name, "float32", "4x4");
		configure(checkpoint, "adapter_config.json", "{}");
		snprintf(expected, sizeof expected, "FI1090 error q.%s\n", HALVES[i ^ 1]);
		expect_findings(checkpoint, expected);
		end_by_hand((void **)&checkpoint);
	}
}

static void pairs_are_whole(void **state)
{
	put_each(*state, "layers", 0, 3, "q.lora_A.weight", "float32", "8x4");
	put_each(*state, "layers", 0, 3, "q.lora_B.weight", "float32", "4x8");
	configure(*state, "adapter_config.json",
		"{\"r\": 8, \"target_modules\": [\"q\"], \"modules_to_save\": null,"
		" \"layers_to_transform\": [0, 3]}");
	expect_findings(*state, "");
}

/* Of one dimension by design. */
static void matrices_have_a_bias(void **state)
{
	put(*state, "q.lora_A.weight", "float32", "4x4");
	put(*state, "q.lora_B.weight", "float32", "4x4");
	put(*state, "q.lora_B.bias", "float32", "4");
	configure(*state, "adapter_config.json",
		"{\"peft_type\": \"LORA\", \"r\": 4, \"lora_bias\": true}");
	expect_findings(*state, "");
}

static void the_rank_differs(void **state)
{
	put(*state, "q.lora_A.weight", "float32", "8x4");
	put(*state, "q.lora_B.weight", "float32", "4x8");
	configure(*state, "adapter_config.json", "{\"r\": 4}");
	expect_findings(*state, "FI1091 error q.lora_A.weight q.lora_B.weight\n");
}

static void ranks_differ_by_a_pattern(void **state)
{
	put(*state, "q.lora_A.weight", "float32", "8x4");
	put(*state, "q.lora_B.weight", "float32", "4x8");
	configure(*state, "adapter_config.json",
		"{\"r\": 4, \"rank_pattern\": {\"q\": 8}}");
	expect_findings(*state, "");
}

/* AdaLoRA takes ranks away, and `r` is not where it begins. */
static void ranks_of_other_types(void **state)
{
	put(*state, "q.lora_A", "float32", "3x4");
	put(*state, "q.lora_B", "float32", "4x3");
	configure(*state, "adapter_config.json",
		"{\"peft_type\": \"ADALORA\", \"r\": 8, \"init_r\": 6}");
	expect_findings(*state, "");
}

static void groups_cut_the_rank(void **state)
{
	put(*state, "c.lora_A.weight", "float32", "4x6x3x3");
	put(*state, "c.lora_B.weight", "float32", "8x2x1x1");
	put(*state, "d.lora_A.weight", "float32", "4x6x3x3");
	put(*state, "d.lora_B.weight", "float32", "8x3x1x1");
	configure(*state, "adapter_config.json", "{\"r\": 4}");
	expect_findings(*state, "FI1091 error d.lora_B.weight\n");
}

static void one_of_two_heads(void **state)
{
	put(*state, "score.weight", "float32", "4x6");
	configure(*state, "adapter_config.json",
		"{\"modules_to_save\": [\"classifier\", \"score\"]}");
	expect_findings(*state, "");
}

static void a_magnitude_is_missing(void **state)
{
	put_layers(*state, "layers", 0, 3, PAIR, NULL);
	put_each(*state, "layers", 1, 3, "q.lora_magnitude_vector", "float32", "8");
	configure(*state, "adapter_config.json", "{\"use_dora\": true}");
	expect_findings(*state, "FI1090 error layers.0.q.lora_magnitude_vector\n");
}

/* The others show that all have one. */
static void a_magnitude_is_missing_beside_others(void **state)
{
	put_layers(*state, "layers", 0, 3, PAIR, NULL);
	put_each(
		*state, "layers", 1, 3, "q.lora_magnitude_vector.weight", "float32", "8");
	expect_findings(*state, "FI1090 error layers.0.q.lora_magnitude_vector.weight\n");
}

static void no_magnitude_is_due(void **state)
{
	put_layers(*state, "layers", 0, 3, PAIR, NULL);
	expect_findings(*state, "");
}

/* Keys of some models count something else than layers. */
static void a_key_counts_no_layers(void **state)
{
	static const char *const LAYER[] = { "attn.weight", "mlp.weight", NULL };
	static const struct {
		const char *model_type, *expected;
	} models[] = { { "dory", "" }, { "hrm_text", "" }, { "efficientnet", "" },
		{ "llama", "FI1091 error layers.4.attn.weight layers.4.mlp.weight\n" } };
	char text[96];

	end_by_hand(state);
	for (size_t i = 0; i < FSDP_COUNT(models); i++) {
		begin_by_hand(state);
		put_layers(*state, "layers", 0, 3, LAYER, NULL);
		snprintf(text, sizeof text,
			"{\"model_type\": \"%s\", \"num_hidden_layers\": 5}",
			models[i].model_type);
		configure(*state, "config.json", text);
		expect_findings(*state, models[i].expected);
		if (i + 1 < FSDP_COUNT(models))
			end_by_hand(state);
	}
}

/* A part of the model has layers and a width of its own. */
static void a_part_has_a_configuration_of_its_own(void **state)
{
	static const char *const LAYER[] = { "attn.weight", "mlp.weight", NULL };

	put_layers(*state, "model.encoder.layers", 0, 7, LAYER, NULL);
	put_layers(*state, "model.decoder.layers", 0, 1, LAYER, NULL);
	put_each(*state, "codec.layers", 0, 2, "input_layernorm.weight", "float32", "8");
	configure(*state, "config.json",
		"{\"model_type\": \"asr\", \"num_hidden_layers\": 2, \"hidden_size\": 16,"
		" \"encoder_config\": {\"num_hidden_layers\": 8},"
		" \"codec_config\": {\"hidden_size\": 8, \"num_hidden_layers\": 3}}");
	expect_findings(*state, "");
}

/* PEFT leaves out targets that match nothing, if another one matches. */
static void modules_that_are_named_are_absent(void **state)
{
	put_adapter(*state, NULL,
		"{\"target_modules\": [\"q\", \"v_proj\"], \"modules_to_save\": [\"head\"],"
		" \"layers_to_transform\": [0, 9]}");
	expect_findings(*state, "FI1091 note\nFI1091 warning\nFI1091 error\n");
}

/* ---- memory ---- */

/* At every ceiling, up to one that suffices, an audit is either made or fails. */
static void memory_ends_anywhere(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_limit_setting limit = { "memory", 0 };
	struct fsdp_audit_options options = { .size = sizeof options,
		.level = FSDP_LEVEL_HEADERS,
		.limits = &limit,
		.limit_count = 1 };
	size_t failures = 0, audits = 0;

	put_layers(checkpoint, "layers", 0, 600, PAIR, "layers.7.q.lora_A.weight");
	put_each(checkpoint, "experts", 0, 300, "up.weight", "float32", "8x4");
	put_each(checkpoint, "packed", 0, 300, "qweight", "int32", "8x4");
	put_each(checkpoint, "packed", 1, 300, "scales", "float16", "8x4");
	configure(checkpoint, "config.json",
		"{\"num_hidden_layers\": 700, \"layer_types\": [1, 2, 1], \"num_experts\": 400}");
	freeze_by_hand(checkpoint);
	for (limit.value = 1; audits < 10; limit.value += 40 << 10) {
		struct fsdp_audit *audit = NULL;
		struct fsdp_error *error = NULL;

		if (fsdp_audit_new(checkpoint, &options, &audit, &error))
			audits++;
		else
			failures += error != NULL;
		assert_true((audit != NULL) != (error != NULL));
		fsdp_audit_free(audit);
		fsdp_error_free(error);
	}
	assert_true(failures > 10);
}

static void a_model_without_tensors_is_found(void **state)
{
	tensor_by_hand(
		*state, "rng", "uint8", FSDP_ROLE_OTHER, (const int64_t[]){ 8 }, 1);
	configure(*state, "config.json", "{\"num_hidden_layers\": 4}");
	expect_findings(*state, "FI1091 error\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(layers_are_missing),
		BY_HAND(a_model_without_tensors_is_found),
		BY_HAND(layers_are_all_there),
		BY_HAND(there_are_layers_more),
		BY_HAND(a_layer_more_predicts),
		BY_HAND(the_number_may_be_anything),
		BY_HAND(encoder_and_decoder_are_counted_apart),
		BY_HAND(unused_vision_layers_may_be_absent),
		BY_HAND(vision_layers_are_missing),
		BY_HAND(two_configurations_count_nothing),
		BY_HAND(experts_are_missing),
		BY_HAND(the_routers_have_as_many_rows),
		BY_HAND(the_first_expert_is_judged),
		BY_HAND(one_of_the_numbers_is_enough),
		BY_HAND(a_fused_tensor_has_a_part_of_the_experts),
		BY_HAND(rows_are_right),
		BY_HAND(rows_are_padded),
		BY_HAND(rows_are_too_many),
		BY_HAND(rows_are_too_few),
		BY_HAND(rows_are_half),
		BY_HAND(an_embedding_has_half_the_rows_of_the_head),
		BY_HAND(rows_are_half_as_those_of_a_layer),
		BY_HAND(columns_are_half),
		BY_HAND(an_embedding_is_one_row),
		BY_HAND(packed_embeddings_are_left_alone),
		BY_HAND(a_width_stands_alone),
		BY_HAND(all_of_a_stack_is_half),
		cmocka_unit_test(each_module_of_a_width_is_judged),
		BY_HAND(heads_have_a_size_of_their_own),
		BY_HAND(heads_have_two_sizes),
		BY_HAND(a_model_may_halve_a_width),
		BY_HAND(a_piece_is_half),
		BY_HAND(a_vector_is_joined),
		BY_HAND(a_matrix_is_flat),
		BY_HAND(a_shape_is_only_different),
		BY_HAND(two_dimensions_differ),
		BY_HAND(a_list_of_widths_explains),
		BY_HAND(another_dtype_is_not_compared),
		BY_HAND(a_head_is_missing),
		BY_HAND(a_tied_head_is_not_stored),
		BY_HAND(nothing_says_that_a_head_is_due),
		BY_HAND(a_tied_head_has_another_shape),
		BY_HAND(a_head_of_another_name_counts),
		BY_HAND(the_vision_part_is_missing),
		BY_HAND(a_text_model_has_no_vision_part),
		BY_HAND(half_of_a_pair_is_missing),
		cmocka_unit_test(each_half_has_another),
		BY_HAND(pairs_are_whole),
		BY_HAND(matrices_have_a_bias),
		BY_HAND(the_rank_differs),
		BY_HAND(ranks_differ_by_a_pattern),
		BY_HAND(ranks_of_other_types),
		BY_HAND(groups_cut_the_rank),
		BY_HAND(one_of_two_heads),
		BY_HAND(a_magnitude_is_missing),
		BY_HAND(a_magnitude_is_missing_beside_others),
		BY_HAND(no_magnitude_is_due),
		BY_HAND(a_key_counts_no_layers),
		BY_HAND(a_part_has_a_configuration_of_its_own),
		BY_HAND(modules_that_are_named_are_absent),
		BY_HAND(memory_ends_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
