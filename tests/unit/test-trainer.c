/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of Hugging Face's Trainer: the order of parameters, and the state of training.
 */
#include "folder-setup.h"

#include <fsdp/model.h>

#include "base/span.h"
#include "formats/format.h"

/* ---- the order of parameters ---- */

static const struct fsdp_parameter_order *of_type(const char *type)
{
	return fsdp_parameter_order_find(fsdp_span_text(type), FSDP_SPAN("x"));
}

static void expect_order(const char *type, const char *const *names)
{
	const struct fsdp_parameter_order *order = of_type(type);
	uint64_t last = 0, place;

	assert_non_null(order);
	for (size_t i = 0; names[i] != NULL; i++) {
		assert_true(fsdp_parameter_order_place(
			order, fsdp_span_text(names[i]), &place));
		assert_true(i == 0 || place > last);
		last = place;
	}
}

static void modules_come_as_they_are_made(void **state)
{
	static const char *const llama[] = { "model.embed_tokens.weight",
		"model.layers.0.self_attn.q_proj.weight",
		"model.layers.0.self_attn.q_proj.bias",
		"model.layers.0.self_attn.k_proj.weight",
		"model.layers.0.self_attn.o_proj.weight",
		"model.layers.0.mlp.gate_proj.weight",
		"model.layers.0.input_layernorm.weight",
		"model.layers.2.self_attn.q_proj.weight",
		"model.layers.10.self_attn.q_proj.weight", "model.norm.weight",
		"lm_head.weight", NULL };
	static const char *const gpt2[] = { "transformer.wte.weight",
		"transformer.wpe.weight", "transformer.h.0.ln_1.weight",
		"transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_attn.weight",
		"transformer.h.0.ln_2.weight", "transformer.h.0.mlp.c_proj.bias",
		"transformer.ln_f.weight", NULL };

	(void)state;
	expect_order("llama", llama);
	expect_order("gpt2", gpt2);
}

static void adapters_come_in_the_order_of_their_modules(void **state)
{
	static const char *const names[] = {
		"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
		"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
		"base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight",
		"base_model.model.lm_head.weight", NULL
	};

	(void)state;
	expect_order("llama", names);
	/* Without a type a name tells. */
	assert_ptr_equal(fsdp_parameter_order_find(
				 (struct fsdp_span){ 0 }, fsdp_span_text(names[0])),
		of_type("llama"));
	assert_null(fsdp_parameter_order_find(
		(struct fsdp_span){ 0 }, FSDP_SPAN("encoder.x")));
}

static void what_is_not_known_has_no_place(void **state)
{
	static const char *const names[] = { "", "model", "model.layers.",
		"model.layers..self_attn.q_proj.weight",
		"model.layers.x.self_attn.q_proj.weight", "model.layers.0",
		"model.layers.0.self_attn.q_proj",
		"model.layers.0.self_attn.q_projx.weight",
		"model.layers.0.self_attn.q_proj.weight.x",
		"model.layers.99999999999999999999.self_attn.q_proj.weight",
		"model.layers.16777216.self_attn.q_proj.weight", "model.embed_tokens",
		"lm_head.scale" };
	uint64_t place;

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		assert_false(fsdp_parameter_order_place(
			of_type("llama"), fsdp_span_text(names[i]), &place));
	assert_null(of_type("llama4"));
	assert_null(of_type(""));
}

static void biases_and_norms_do_not_decay(void **state)
{
	(void)state;
	assert_true(fsdp_parameter_decays(FSDP_SPAN("lm_head.weight")));
	assert_true(
		fsdp_parameter_decays(FSDP_SPAN("model.layers.0.mlp.up_proj.weight")));
	assert_false(fsdp_parameter_decays(FSDP_SPAN("model.norm.weight")));
	assert_false(fsdp_parameter_decays(
		FSDP_SPAN("model.layers.0.input_layernorm.weight")));
	assert_false(fsdp_parameter_decays(FSDP_SPAN("transformer.h.0.ln_1.weight")));
	assert_false(fsdp_parameter_decays(FSDP_SPAN("model.layers.0.k_norm.weight")));
	assert_false(fsdp_parameter_decays(FSDP_SPAN("transformer.h.0.mlp.c_fc.bias")));
}

static void renamed_modules_are_known(void **state)
{
	struct fsdp_span gate = FSDP_SPAN("model.layers.0.block_sparse_moe.gate.weight");

	(void)state;
	assert_true(fsdp_parameter_order_is_renamed(of_type("mixtral"), gate));
	assert_false(fsdp_parameter_order_is_renamed(of_type("llama"), gate));
}

/* ---- the state of training ---- */

static int begin(void **state)
{
	static const char model[] = "\x08\0\0\0\0\0\0\0{}      ";

	(void)state;
	folder_make();
	folder_write("model.safetensors", model, sizeof model - 1);
	return 0;
}

static void write_token(char *text, size_t size, const struct fsdp_token *token)
{
	if (token->kind == FSDP_TOKEN_INTEGER)
		snprintf(text, size, "%lld", (long long)token->integer);
	else if (token->kind == FSDP_TOKEN_FLOAT)
		snprintf(text, size, "%.2f", token->number);
	else
		snprintf(text, size, "'%.*s'", FSDP_TEXT_MOST(token->text, 64));
}

/* Values as "name 1, …", then the rules of all findings. */
static void expect_state(const char *json, const char *expected)
{
	struct fsdp_options options = { .size = sizeof options, .no_plan = true };
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;
	char found[512] = "", name[64], value[80];
	size_t at = 0;

	folder_write("trainer_state.json", json, strlen(json));
	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	assert_string_equal(fsdp_checkpoint_format(checkpoint).family, "trainer");
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value record = fsdp_value(checkpoint, i);
		size_t size = fsdp_name_write(checkpoint, record.name, name, sizeof name);
		write_token(value, sizeof value, record.tokens);
		at += (size_t)snprintf(found + at, sizeof found - at, "%s%.*s %s",
			at == 0 ? "" : ", ", (int)size, name, value);
	}
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		at += (size_t)snprintf(found + at, sizeof found - at, "; %s",
			fsdp_finding(checkpoint, i)->rule->id);
	assert_string_equal(found, expected);
	fsdp_checkpoint_free(checkpoint);
}

static void how_far_training_was_is_a_value(void **state)
{
	(void)state;
	expect_state(
		"{\"best_metric\": 3.25, \"best_model_checkpoint\": \"out\\/checkpoint-2\", \"epoch\": 0.5, \"global_step\": 4, \"log_history\": [{\"loss\": NaN, \"step\": 7}, {\"grad_norm\": Infinity}], \"max_steps\": 9, \"other\": {\"epoch\": 8}}",
		"epoch 0.50, global_step 4, trainer_state.best_metric 3.25, trainer_state.best_model_checkpoint 'out/checkpoint-2', trainer_state.max_steps 9; FI5007");
	expect_state("{\"global_step\": null, \"epoch\": 1e0}", "epoch 1.00; FI5007");
	expect_state("{}", "; FI5007");
}

static void what_is_no_state_is_told(void **state)
{
	(void)state;
	expect_state("{\"global_step\": 4", "; FI1004; FI5007");
	expect_state("{\"global_step\": 4, \"log_history\": [{",
		"global_step 4; FI1004; FI5007");
	expect_state("", "; FI5007");
	expect_state("[4]", "; FI1025; FI5007");
	expect_state("{\"global_step\": [4]}", "; FI1025; FI5007");
	expect_state("{\"global_step\": 99999999999999999999}",
		"global_step 100000000000000000000.00; FI5007");
	expect_state("\x80\x02}", "; FI1025; FI5007");
}

/* The place and the beginning of what a resume lacks, one after the other. */
static void expect_lack(const char *expected)
{
	struct fsdp_options options = { .size = sizeof options, .no_plan = true };
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;
	char found[512] = "";
	size_t at = 0;

	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		if (strcmp(finding->rule->id, "FI5007") != 0)
			continue;
		at += (size_t)snprintf(found + at, sizeof found - at, "%s%c %.*s: %.*s",
			at == 0 ? "" : "; ", "nwe"[finding->severity],
			FSDP_TEXT_MOST(finding->file, 64),
			FSDP_TEXT_MOST(finding->message, 24));
	}
	assert_string_equal(found, expected);
	fsdp_checkpoint_free(checkpoint);
}

static void what_a_resume_lacks_is_told(void **state)
{
	(void)state;
	folder_write("trainer_state.json", "{}", 2);
	expect_lack("n : only the model was saved");
	folder_write("rng_state.pth", "\x80\x02N.", 4);
	expect_lack("w : optimizer.pt and schedul");
	folder_write("scheduler.pt", "\x80\x02}.", 4);
	expect_lack("w optimizer.pt: optimizer.pt is missing:");
	folder_write("optimizer.pt", "\x80\x02}.", 4);
	expect_lack("");
	folder_write("latest", "global_step4", 12);
	expect_lack("w : global_step<N> is missin");
}

/* A near miss: a model with a file of random states is not a step of Trainer. */
static void random_states_alone_are_no_step(void **state)
{
	struct fsdp_options options = { .size = sizeof options, .no_plan = true };
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;

	(void)state;
	folder_write("rng_state.pth", "\x80\x02N.", 4);
	folder_write("config.json", "{}", 2);
	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	assert_string_equal(fsdp_checkpoint_format(checkpoint).family, "hf-safetensors");
	fsdp_checkpoint_free(checkpoint);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, begin, folder_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modules_come_as_they_are_made),
		cmocka_unit_test(adapters_come_in_the_order_of_their_modules),
		cmocka_unit_test(what_is_not_known_has_no_place),
		cmocka_unit_test(biases_and_norms_do_not_decay),
		cmocka_unit_test(renamed_modules_are_known),
		IN_FOLDER(how_far_training_was_is_a_value),
		IN_FOLDER(what_is_no_state_is_told),
		IN_FOLDER(what_a_resume_lacks_is_told),
		IN_FOLDER(random_states_alone_are_no_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
