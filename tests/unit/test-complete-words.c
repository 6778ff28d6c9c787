/* SPDX-License-Identifier: Apache-2.0 */
/* The words by which completeness knows layers, experts, embeddings and towers, each
 * once: with it something is found, or is not, that another word leaves the other way
 * round. */
#include "audit-by-hand.h"

static const char *const MEMBERS[] = { "attn.weight", "mlp.weight", NULL };

/* What is put in before the configuration is judged. */
struct tensor_row {
	const char *name, *shape;
};

/* Layers of two tensors below each prefix, those tensors, and the configuration. */
static uint64_t count_found(const char *rule, const char *const prefixes[2], int layers,
	const struct tensor_row *tensors, const char *config)
{
	struct fsdp_rule_result result;
	struct fsdp_audit *audit;
	void *state;

	begin_by_hand(&state);
	for (size_t i = 0; i < 2 && prefixes != NULL && prefixes[i] != NULL; i++)
		put_layers(state, prefixes[i], 0, layers - 1, MEMBERS, NULL);
	for (; tensors != NULL && tensors->name != NULL; tensors++)
		put(state, tensors->name, "float32", tensors->shape);
	configure(state, "config.json", config);
	audit = judge(state);
	result = result_of(audit, rule);
	fsdp_audit_free(audit);
	end_by_hand(&state);
	return result.findings;
}

/* The word stands between these two parts of the configuration, which says six of five
 * layers. */
static void expect_keys(const char *const *words, const char *const prefixes[2],
	const char *before, const char *after)
{
	char text[256];

	for (; *words != NULL; words++) {
		snprintf(text, sizeof text, "%s%s%s", before, *words, after);
		if (count_found("FI1091", prefixes, 5, NULL, text) == 0)
			fail_msg("%s", *words);
	}
	snprintf(text, sizeof text, "%snum_other%s", before, after);
	assert_int_equal(count_found("FI1091", prefixes, 5, NULL, text), 0);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void numbers_of_layers(void **state)
{
	const char *const main_stack[2] = { "model.layers" };
	const char *const both[2] = { "model.encoder.layers", "model.decoder.layers" };
	const char *const tower[2] = { "model.layers", "vision_tower.layers" };

	(void)state;
	expect_keys(WORDS("num_hidden_layers", "n_layer", "n_layers", "num_layers",
			    "num_hidden_groups"),
		main_stack, "{\"", "\": 6}");
	expect_keys(WORDS("encoder_layers", "encoder_num_hidden_layers",
			    "num_encoder_layers", "num_layers"),
		both, "{\"decoder_layers\": 5, \"", "\": 6}");
	expect_keys(WORDS("decoder_layers", "decoder_num_hidden_layers",
			    "num_decoder_layers", "num_layers"),
		both, "{\"encoder_layers\": 5, \"", "\": 6}");
	expect_keys(WORDS("num_hidden_layers", "depth", "num_layers"), tower,
		"{\"num_hidden_layers\": 5, \"vision_config\": {\"", "\": 6}}");
}

static void parts_of_the_configuration(void **state)
{
	const char *const prefixes[2] = { "model.layers" };

	(void)state;
	expect_keys(WORDS("text_config", "llm_config", "language_config",
			    "thinker_config", "lm_config", "decoder_config"),
		prefixes, "{\"", "\": {\"num_hidden_layers\": 6}}");
}

static void names_of_stacks(void **state)
{
	static const char *const words[] = { "layers", "layer", "h", "block", "blocks",
		"groups" };
	char name[64];
	const char *const prefixes[2] = { name };

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(name, sizeof name, "model.%s", words[i]);
		if (count_found("FI1091", prefixes, 5, NULL,
			    "{\"num_hidden_layers\": 6}") == 0)
			fail_msg("%s", words[i]);
	}
	snprintf(name, sizeof name, "model.others");
	assert_int_equal(
		count_found("FI1091", prefixes, 5, NULL, "{\"num_hidden_layers\": 6}"),
		0);
}

static void numbers_of_experts(void **state)
{
	static const char *const words[] = { "num_local_experts", "num_experts",
		"n_routed_experts", "moe_num_experts", "n_experts", "num_moe_experts",
		"ffn_num_experts", "num_other" };
	static const struct tensor_row tensors[] = {
		{ "layers.0.mlp.experts.0.up.weight", "4x4" },
		{ "layers.0.mlp.experts.1.up.weight", "4x4" },
		{ "layers.0.mlp.experts.2.up.weight", "4x4" },
		{ "layers.1.mlp.experts.0.up.weight", "4x4" },
		{ "layers.1.mlp.experts.1.up.weight", "4x4" },
		{ "layers.1.mlp.experts.2.up.weight", "4x4" },
		{ NULL },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(text, sizeof text, "{\"%s\": 4}", words[i]);
		if ((count_found("FI1091", NULL, 0, tensors, text) > 0) !=
			(i + 1 < FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
	}
}

/* Half as many rows as the vocabulary. */
static void names_of_embeddings_and_heads(void **state)
{
	static const char *const words[] = { "model.embed_tokens", "wte",
		"word_embeddings", "embed_in", "tok_embeddings", "shared", "lm_head",
		"embed_out", "output_projection", "other" };
	char name[64];
	const struct tensor_row tensors[] = { { name, "32x8" }, { NULL } };

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(name, sizeof name, "%s.weight", words[i]);
		if ((count_found("FI1091", NULL, 0, tensors,
			     "{\"vocab_size\": 64, \"hidden_size\": 8}") > 0) !=
			(i + 1 < FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
	}
}

static void widths(void **state)
{
	static const char *const words[] = { "hidden_size", "d_model", "n_embd", "dim",
		"other" };
	static const struct tensor_row tensors[] = { { "wte.weight", "64x4" }, { NULL } };
	char text[64];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(text, sizeof text, "{\"vocab_size\": 64, \"%s\": 8}", words[i]);
		if ((count_found("FI1094", NULL, 0, tensors, text) > 0) !=
			(i + 1 < FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
	}
}

/* A head of any of these names is one; with none of them it is missing. */
static void names_of_heads(void **state)
{
	static const char *const words[] = { "lm_head", "embed_out", "lm_heads.0",
		"output", "output_layer", "proj_out", "head", "predictions", "ff_out",
		"output_projection", "generator", "score", "cls", "other" };
	char name[64];
	const struct tensor_row tensors[] = { { "model.embed_tokens.weight", "64x8" },
		{ name, "16x8" }, { NULL } };

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(name, sizeof name, "%s.weight", words[i]);
		if ((count_found("FI1095", NULL, 0, tensors,
			     "{\"vocab_size\": 64, \"hidden_size\": 8, \"tie_word_embeddings\": false, \"architectures\": [\"AForCausalLM\"]}") ==
			    0) != (i + 1 < FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
	}
}

static void expect_tower(const char *key, const char *const *words)
{
	char text[160], name[64] = "x.weight";
	const struct tensor_row tensors[] = { { "text_model.norm.weight", "8" },
		{ name, "8" }, { NULL } };

	snprintf(text, sizeof text,
		"{\"architectures\": [\"AForConditionalGeneration\"], \"%s\": {\"width\": 8}}",
		key);
	assert_int_not_equal(count_found("FI1091", NULL, 0, tensors, text), 0);
	for (; *words != NULL; words++) {
		snprintf(name, sizeof name, "a.%s_b.weight", *words);
		if (count_found("FI1091", NULL, 0, tensors, text) != 0)
			fail_msg("%s", *words);
	}
}

static void words_of_towers(void **state)
{
	(void)state;
	expect_tower("vision_config",
		WORDS("vis", "image", "img", "siglip", "clip", "vpm", "vit", "patch"));
	expect_tower("audio_config", WORDS("audio", "speech", "whisper", "sound", "wav",
					     "mel", "codec", "acoustic"));
}

static void classes_with_towers(void **state)
{
	static const char *const words[] = { "CLIPModel", "SiglipModel", "Siglip2Model",
		"AltCLIPModel", "ChineseCLIPModel", "ClapModel", "OtherModel" };
	static const struct tensor_row tensors[] = { { "text_model.norm.weight", "8" },
		{ NULL } };
	char text[160];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(text, sizeof text,
			"{\"architectures\": [\"%s\"], \"vision_config\": {\"width\": 8}}",
			words[i]);
		if ((count_found("FI1091", NULL, 0, tensors, text) > 0) !=
			(i + 1 < FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
	}
}

/* Layers of a tower are not those that the configuration counts. */
static void words_of_stacks_in_towers(void **state)
{
	static const char *const words[] = { "vision", "visual", "image", "siglip",
		"clip", "vpm", "audio", "speech", "whisper", "qformer", "talker", "mtp",
		"eagle", "nextn", "draft", "other" };
	char name[64];
	const char *const prefixes[2] = { name };

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(name, sizeof name, "%s_part.layers", words[i]);
		if ((count_found("FI1091", prefixes, 5, NULL,
			     "{\"num_hidden_layers\": 6}") == 0) !=
			(i + 1 < FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
	}
}

/* ---- packed weights ---- */

static enum fsdp_rule_reason reason_with(const char *key, const char *method)
{
	struct fsdp_rule_result result;
	struct fsdp_audit *audit;
	char text[128];
	void *state;

	begin_by_hand(&state);
	put(state, "a.weight", "uint8", "8x16");
	snprintf(text, sizeof text, "{\"%s\": {\"quant_method\": \"%s\"}}", key, method);
	configure(state, "config.json", text);
	audit = judge(state);
	result = result_of(audit, "FI1092");
	fsdp_audit_free(audit);
	end_by_hand(&state);
	return result.reason;
}

static void methods_that_are_not_judged(void **state)
{
	static const char *const methods[] = { "aqlm", "hqq", "quanto", "eetq", "vptq",
		"spqr", "torchao", "bitnet" };
	static const char *const keys[] = { "quantization_config", "compression_config",
		"quantization" };

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(methods); i++)
		if (reason_with(keys[0], methods[i]) != FSDP_REASON_UNSUPPORTED)
			fail_msg("%s", methods[i]);
	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (reason_with(keys[i], "hqq") != FSDP_REASON_UNSUPPORTED)
			fail_msg("%s", keys[i]);
	assert_int_equal(reason_with(keys[0], "modelopt"), FSDP_REASON_NONE);
	assert_int_equal(reason_with("other", "hqq"), FSDP_REASON_NONE);
}

/* Beside three modules that are packed, one that has a scale and no weight. */
static void scales_without_a_weight(void **state)
{
	static const char *const words[] = { "weight_scale", "weight_scale_inv",
		"weight_scale_2", "weight_global_scale", "weight_zero_point",
		"weight_shape", "scales", "qzeros", "SCB", "other" };

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		struct fsdp_audit *audit;
		char name[64];
		void *own;

		begin_by_hand(&own);
		for (char module = 'a'; module <= 'c'; module++) {
			snprintf(name, sizeof name, "%c.weight", module);
			put(own, name, "int8", "8x4");
			snprintf(name, sizeof name, "%c.SCB", module);
			put(own, name, "float32", "8");
		}
		snprintf(name, sizeof name, "d.%s", words[i]);
		put(own, name, "float32", "8");
		audit = judge(own);
		if ((result_of(audit, "FI1092").findings > 0) !=
			(i + 1 < FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
		fsdp_audit_free(audit);
		end_by_hand(&own);
	}
}

/* The number is that of layers at one end: dense ones before those with experts, and
 * layers that share the keys and values of others. */
static void words_that_count_layers(void **state)
{
	static const char *const words[] = { "dense_layers", "my_first", "start_k",
		"layer_offset", "num_kv_shared_layers", "other" };
	char config[64];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		struct fsdp_rule_result result;
		struct fsdp_audit *audit;
		void *own;

		begin_by_hand(&own);
		put_layers(own, "layers", 0, 7, MEMBERS, "layers.7.mlp.weight");
		snprintf(config, sizeof config, "{\"%s\": 7, \"num_hidden_layers\": 8}",
			words[i]);
		configure(own, "config.json", config);
		audit = judge(own);
		result = result_of(audit, "FI1090");
		if ((result.findings > 0) != (i + 1 == FSDP_COUNT(words)))
			fail_msg("%s", words[i]);
		fsdp_audit_free(audit);
		end_by_hand(&own);
	}
}

/* Two stacks of one kind, and a number of one of them in any key that counts layers: the
 * other number is about neither. */
static void keys_that_explain_a_stack(void **state)
{
	static const char *const keys[] = { "num_hidden_groups", "encoder_layers",
		"num_decoder_layers", "depth", "other" };
	const char *const both[2] = { "one.layers", "two.layers" };
	char config[96];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(keys); i++) {
		snprintf(config, sizeof config,
			"{\"num_hidden_layers\": 6, \"a\": {\"%s\": 5}}", keys[i]);
		if ((count_found("FI1091", both, 5, NULL, config) > 0) !=
			(i + 1 == FSDP_COUNT(keys)))
			fail_msg("%s", keys[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_layers),
		cmocka_unit_test(parts_of_the_configuration),
		cmocka_unit_test(names_of_stacks),
		cmocka_unit_test(numbers_of_experts),
		cmocka_unit_test(names_of_embeddings_and_heads),
		cmocka_unit_test(widths),
		cmocka_unit_test(names_of_heads),
		cmocka_unit_test(words_of_towers),
		cmocka_unit_test(classes_with_towers),
		cmocka_unit_test(words_of_stacks_in_towers),
		cmocka_unit_test(methods_that_are_not_judged),
		cmocka_unit_test(scales_without_a_weight),
		cmocka_unit_test(words_that_count_layers),
		cmocka_unit_test(keys_that_explain_a_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
