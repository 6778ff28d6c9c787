/* SPDX-License-Identifier: Apache-2.0 */
/* What loaders would do with folders that are odd, hostile or nearly right. */
#include "loads-setup.h"

#include <unistd.h>

/* What is said to help against the first reason. */
static void expect_way_out(const char *loader, const char *expected)
{
	struct fsdp_load_check_options options = { .size = sizeof options,
		.loaders = &loader,
		.loader_count = 1,
		.data = true };
	struct fsdp_scan *survey = NULL;
	struct fsdp_load_check *loads = NULL;

	assert_true(fsdp_scan_new(folder, NULL, 0, NULL, &survey, NULL));
	assert_true(fsdp_load_check_new(survey, &options, &loads, NULL));
	fsdp_scan_free(survey);
	const char *way_out = fsdp_load_check_result(loads, 0)->reasons[0].way_out;
	assert_string_equal(way_out != NULL ? way_out : "", expected);
	fsdp_load_check_free(loads);
}

/* Each file that a loader might have been given under another name, alone in its folder.
 */
static void files_of_another_name_are_named(void **state)
{
	static const char *const names[] = { "consolidated.safetensors",
		"model.fp16.safetensors", "model.bf16.safetensors",
		"model.fp32.safetensors", "pytorch_model.pt", "model.pt" };
	static const char *const weights[] = { "a.safetensors", "a.bin", "a.pt", "a.pth",
		"a.ckpt" };
	char expected[128];

	(void)state;
	FOLDER_WRITE("config.json", CONFIG);
	expect("hf", "refuses no-weights");
	expect_way_out("accelerate", "");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		put_tensors(names[i], "{}", 0);
		expect("hf", "refuses no-weights");
		snprintf(expected, sizeof expected, "rename %s to %s", names[i],
			i < 4 ? "model.safetensors" : "pytorch_model.bin");
		expect_way_out("hf", expected);
		folder_unlink(names[i]);
	}
	for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
		put_tensors(weights[i], "{}", 0);
		expect_way_out(
			"accelerate", "rename the file of weights to one of these names");
		folder_unlink(weights[i]);
	}
}

/* One file of a run is enough to say that others of it are gone. */
static void files_of_a_run_tell_that_there_was_one(void **state)
{
	static const char *const names[] = { "optimizer.pt", "optimizer.bin",
		"scheduler.pt", "training_args.bin", "rng_state.pth", "rng_state_3.pth" };

	(void)state;
	put_tensors("model.safetensors", "{}", 0);
	expect("trainer", "refuses missing-file");
	expect_way_out("trainer",
		"start a new run from this model, without resume_from_checkpoint");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		FOLDER_WRITE(names[i], "x");
		expect_way_out("trainer",

			"copy trainer_state.json from where the checkpoint was written, or resume from an earlier checkpoint");
		folder_unlink(names[i]);
	}
}

static void an_empty_folder_is_refused_by_all(void **state)
{
	(void)state;
	expect("hf", "refuses config");
	expect("trainer", "refuses no-weights");
	expect("peft", "refuses missing-file");
	expect("accelerate", "refuses no-weights");
	expect("dcp", "refuses missing-file");
	expect("deepspeed", "differs tag");
	expect("megatron", "refuses missing-file");
	expect("weights_only", "not_judged format");
}

static void what_is_not_known_is_never_said_to_load(void **state)
{
	(void)state;
	FOLDER_WRITE("config.json", "{\"model_type\": \"new\"}");
	put_tensors("model.safetensors", "{}", 0);
	expect("hf", "not_judged unknown-model");
	expect("accelerate", "not_judged unknown-model");
	FOLDER_WRITE("config.json", "{\"model_type\": [\"gpt2\"]}");
	expect("hf", "refuses config");
	FOLDER_WRITE("config.json", "{\"model_type\": \"gpt2\"");
	expect("hf", "refuses config");
	FOLDER_WRITE("config.json", " [\"gpt2\"]");
	expect("hf", "refuses config");
	/* Sizes are claims. */
	FOLDER_WRITE("config.json",
		"{\"model_type\": \"llama\", \"vocab_size\": 9223372036854775807, \"hidden_size\": -1, \"intermediate_size\": 1, \"num_hidden_layers\": 1, \"num_attention_heads\": 1}");
	expect("hf", "not_judged unknown-model");
	FOLDER_WRITE("config.json",
		"{\"model_type\": \"llama\", \"vocab_size\": 1, \"hidden_size\": 1, \"intermediate_size\": 1, \"num_hidden_layers\": 1000000000, \"num_attention_heads\": 1}");
	expect("hf", "not_judged unknown-model");
}

static void types_are_those_of_torch(void **state)
{
	(void)state;
	put_tensors("model.safetensors", "{}", 0);
	FOLDER_WRITE("config.json",
		"{\"model_type\": \"gpt2\", \"torch_dtype\": \"float99\"}");
	expect("hf", "refuses dtype");
	FOLDER_WRITE("config.json", "{\"model_type\": \"new\", \"dtype\": \"half\"}");
	expect("hf", "not_judged unknown-model");
	FOLDER_WRITE("config.json", "{\"model_type\": \"new\", \"dtype\": \"float\"}");
	expect("hf", "not_judged unknown-model");
	FOLDER_WRITE("config.json", "{\"model_type\": \"new\", \"dtype\": \"double\"}");
	expect("hf", "not_judged unknown-model");
	FOLDER_WRITE("config.json", "{\"model_type\": \"new\", \"dtype\": \"bfloat16\"}");
	expect("hf", "not_judged unknown-model");
}

static void layers_have_one_type_each(void **state)
{
	(void)state;
	put_tensors("model.safetensors", "{}", 0);
	FOLDER_WRITE("config.json",
		"{\"model_type\": \"new\", \"num_hidden_layers\": 1, \"layer_types\": [\"full_attention\", \"full_attention\"]}");
	expect("hf", "refuses config");
	FOLDER_WRITE("config.json",
		"{\"model_type\": \"new\", \"num_hidden_layers\": 1, \"layer_types\": [\"full_attention\"]}");
	expect("hf", "not_judged unknown-model");
	FOLDER_WRITE("config.json",
		"{\"model_type\": \"new\", \"layer_types\": [\"full_attention\"]}");
	expect("hf", "not_judged unknown-model");
}

/* Each loader has a way of its own with two weights that the configuration ties. */
static void tied_weights_are_compared(void **state)
{
	struct fsdp_load_check_options unread = { .data = false };
	struct fsdp_load_check_options old = { .data = true, .version = "4.57.6" };

	(void)state;
	FOLDER_WRITE("config.json", CONFIG);
	put_gpt2(0);
	expect("accelerate", "loads");
	expect_of(folder, &old, "hf", "loads");
	expect_of(folder, &unread, "accelerate", "not_judged tied-weights");
	put_gpt2(1);
	expect("accelerate", "differs tied-weights");
	expect("hf", "loads");
	expect_of(folder, &old, "hf", "differs tied-weights");
	/* The state of a run is loaded as it was saved. */
	FOLDER_WRITE("optimizer.bin", "\200\2}.");
	FOLDER_WRITE("scheduler.bin", "\200\2}.");
	expect("accelerate", "loads");
}

static void what_is_missing_is_told(void **state)
{
	(void)state;
	FOLDER_WRITE("config.json", CONFIG);
	put_tensors("model.safetensors", "{}", 0);
	expect("hf", "differs missing-tensor");
	expect("accelerate", "differs missing-tensor");
	put_tensors("model.safetensors", "{" ONE("transformer.ln_f.bias", 2) "8]}}", 8);
	expect("hf", "refuses shape");
	expect("accelerate", "refuses shape");
	/* The prefix is put in front by one of them only. */
	put_tensors("model.safetensors", "{" ONE("ln_f.bias", 2) "8]}}", 8);
	expect("hf", "refuses shape");
	expect("accelerate", "differs other-names");
}

#define PUT_SAVED(value) FOLDER_WRITE("pytorch_model.bin", SAVED(value))
#define TYPED "{\"model_type\": \"gpt2\", \"dtype\": \"float32\"}"

static void pickles_may_be_anything(void **state)
{
	(void)state;
	FOLDER_WRITE("trainer_state.json", "{}");
	FOLDER_WRITE("config.json", CONFIG);
	/* [], 3, {"a": 3}, {3: 3} */
	PUT_SAVED("]");
	expect("hf", "refuses no-state-dict");
	expect("accelerate", "refuses no-state-dict");
	expect("trainer", "refuses no-state-dict");
	PUT_SAVED("}(X\x01\0\0\0aK\x03u");
	expect("hf", "refuses no-state-dict");
	expect("accelerate", "differs no-state-dict");
	expect("trainer", "differs missing-tensor optimizer");
	PUT_SAVED("}(K\x03K\x03u");
	expect("hf", "refuses no-state-dict");
	expect("accelerate", "refuses no-state-dict");
	expect("trainer", "refuses no-state-dict");
	/* With a type in the configuration none is looked for in the file. */
	FOLDER_WRITE("config.json", TYPED);
	expect("hf", "refuses no-state-dict");
	/* 3, None, True, 0.0 */
	PUT_SAVED("K\x03");
	expect("hf", "refuses no-state-dict");
	PUT_SAVED("N");
	expect("hf", "refuses no-state-dict");
	PUT_SAVED("\x88");
	expect("hf", "refuses no-state-dict");
	PUT_SAVED("G\0\0\0\0\0\0\0\0");
	expect("hf", "refuses no-state-dict");
	PUT_SAVED("](K\003e");
	expect("hf", "not_judged no-state-dict");
	PUT_SAVED("c__builtin__\nset\n]\x85R");
	expect("hf", "not_judged no-state-dict");
	/* The state of a run is loaded strictly. */
	FOLDER_WRITE("random_states_0.pkl", "");
	FOLDER_WRITE("optimizer.bin", "\200\2}.");
	FOLDER_WRITE("scheduler.bin", "\200\2}.");
	PUT_SAVED("]");
	expect("accelerate", "refuses no-state-dict");
	PUT_SAVED("}(X\x01\0\0\0aK\x03u");
	expect("accelerate", "refuses no-state-dict");
	FOLDER_WRITE("adapter_config.json",
		"{\"peft_type\": \"LORA\", \"target_modules\": \".*\"}");
	FOLDER_WRITE("adapter_model.bin", SAVED("]"));
	expect("peft", "refuses no-state-dict");
	FOLDER_WRITE("adapter_model.bin", SAVED("}(K\x03K\x03u"));
	expect("peft", "refuses no-state-dict");
	FOLDER_WRITE("adapter_model.bin", SAVED("}(X\x01\0\0\0aK\x03u"));
	expect("peft", "differs missing-tensor");
	FOLDER_WRITE("adapter_model.bin", "version");
	expect("peft", "refuses unsafe-pickle");
}

static void headers_are_claims(void **state)
{
	(void)state;
	FOLDER_WRITE("config.json", CONFIG);
	FOLDER_WRITE("model.safetensors", "1234567");
	expect("hf", "refuses damaged-file");
	FOLDER_WRITE("model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}");
	expect("hf", "refuses damaged-file");
	FOLDER_WRITE("model.safetensors", "\x40\0\0\0\0\0\0\0{}");
	expect("hf", "refuses damaged-file");
	FOLDER_WRITE("model.safetensors", "");
	expect("trainer", "refuses missing-file");
	FOLDER_WRITE("trainer_state.json", "{}");
	expect("trainer", "refuses damaged-file");
}

static void an_index_may_be_anything(void **state)
{
	(void)state;
	FOLDER_WRITE("config.json", CONFIG);
	FOLDER_WRITE("model.safetensors.index.json", "");
	expect("hf", "refuses index");
	FOLDER_WRITE("model.safetensors.index.json", "[]");
	expect("hf", "refuses index");
	FOLDER_WRITE(
		"model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../b\"}}");
	expect("hf", "refuses index");
	FOLDER_WRITE("model.safetensors.index.json", "{\"metadata\": {}}");
	expect("hf", "refuses index");
	FOLDER_WRITE(
		"model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {}}");
	expect("hf", "refuses index");
	FOLDER_WRITE("model.safetensors.index.json",
		"{\"metadata\": {}, \"weight_map\": {\"a\": 3, \"b\": \"c\"}}");
	expect("hf", "refuses index");
	FOLDER_WRITE("model.safetensors.index.json",
		"{\"metadata\": {}, \"weight_map\": {\"a\": \"../b\"}}");
	expect("hf", "not_judged unread");
	FOLDER_WRITE("pytorch_model.bin.index.json", "{}");
	expect("accelerate", "refuses index");
}

static void two_sets_are_compared(void **state)
{
	struct fsdp_load_check_options shapes = { .data = false };
	static const char header[] =
		"{" ONE("base_model.model.a.lora_A.weight", 1) "4]}}";

	(void)state;
	FOLDER_WRITE("adapter_config.json",
		"{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 1}");
	put_tensors("adapter_model.safetensors", header, 4);
	put_tensors("adapter_model.bin", header, 4);
	expect("peft", "refuses adapter-rank");
	put_tensors("adapter_model.safetensors",
		"{" ONE("base_model.model.a.lora_B.bias", 1) "4]}}", 4);
	expect("peft", "differs other-weights");
	put_tensors("adapter_model.bin",
		"{" ONE("base_model.model.a.lora_B.bias", 1) "4]}}", 4);
	expect("peft", "loads");
	expect_of(folder, &shapes, "peft", "not_judged unread-weights");
}

/* "DIFFER a|b name; takers" for each pair. */
static void expect_pairs(bool data, const char *expected)
{
	static const char *const words[] = { "same", "differ", "not told", "other format",
		"another model" };
	struct fsdp_scan *survey = NULL;
	struct fsdp_weight_set_pairs *pairs = NULL;
	char found[512] = "";
	size_t at = 0;

	assert_true(fsdp_scan_new(folder, NULL, 0, NULL, &survey, NULL));
	assert_true(fsdp_weight_set_pairs_new(survey, data, &pairs, NULL));
	for (size_t i = 0; i < fsdp_weight_set_pair_count(pairs); i++) {
		struct fsdp_weight_set_pair pair = fsdp_weight_set_pair(pairs, i);
		at += (size_t)snprintf(found + at, sizeof found - at, "%s %s %s %.*s; ",
			words[pair.likeness], pair.first, pair.second,
			FSDP_TEXT_MOST(pair.name, 64));
	}
	snprintf(found + at, sizeof found - at, "%s", fsdp_weight_set_loaders(pairs));
	assert_string_equal(found, expected);
	fsdp_weight_set_pairs_free(pairs);
	fsdp_scan_free(survey);
}

static void each_pair_of_sets_is_told(void **state)
{
	(void)state;
	expect_pairs(true, "");
	put_tensors("model.safetensors", "{" ONE("a", 1) "4]}}", 4);
	expect_pairs(true, "");
	put_tensors("adapter_model.safetensors", "{" ONE("b", 1) "4]}}", 4);
	expect_pairs(true, "");
	put_tensors("pytorch_model.bin", "{" ONE("a", 1) "4]}}", 4);
	expect_pairs(true,
		"same model.safetensors pytorch_model.bin ; from_pretrained and Trainer load model.safetensors; Accelerate loads pytorch_model.bin");
	expect_pairs(false,
		"not told model.safetensors pytorch_model.bin ; from_pretrained and Trainer load model.safetensors; Accelerate loads pytorch_model.bin");
	put_tensors("pytorch_model.bin", "{" ONE("c", 1) "4]}}", 4);
	expect_pairs(false,
		"differ model.safetensors pytorch_model.bin a; from_pretrained and Trainer load model.safetensors; Accelerate loads pytorch_model.bin");
	FOLDER_WRITE("pytorch_model.bin", "x");
	expect_pairs(true,
		"not told model.safetensors pytorch_model.bin ; from_pretrained and Trainer load model.safetensors; Accelerate loads pytorch_model.bin");
	folder_unlink("model.safetensors");
	folder_unlink("pytorch_model.bin");
	put_tensors("adapter_model.bin", "{" ONE("b", 1) "4]}}", 4);
	expect_pairs(true,
		"same adapter_model.safetensors adapter_model.bin ; Trainer and PEFT load adapter_model.safetensors");
	assert_null(fsdp_set_name(100));
}

static void sets_of_other_programs_are_told(void **state)
{
	(void)state;
	put_tensors("model.safetensors", "{" ONE("a", 1) "4]}}", 4);
	put_tensors("consolidated.safetensors", "{" ONE("a", 1) "4]}}", 4);
	expect_pairs(true,
		"same model.safetensors consolidated.safetensors ; from_pretrained, Trainer and Accelerate load model.safetensors; mistral_inference and vLLM (load_format mistral) load consolidated.safetensors");
	put_tensors("consolidated.safetensors", "{" ONE("a", 2) "8]}}", 8);
	expect_pairs(true,
		"differ model.safetensors consolidated.safetensors a; from_pretrained, Trainer and Accelerate load model.safetensors; mistral_inference and vLLM (load_format mistral) load consolidated.safetensors");
	put_tensors("consolidated.safetensors", "{" ONE("b", 2) "8]}}", 8);
	expect_pairs(true,
		"other format model.safetensors consolidated.safetensors ; from_pretrained, Trainer and Accelerate load model.safetensors; mistral_inference and vLLM (load_format mistral) load consolidated.safetensors");
	folder_unlink("consolidated.safetensors");
	put_tensors("consolidated.00.pth", "{" ONE("a", 2) "8]}}", 8);
	expect_pairs(true,
		"differ model.safetensors consolidated.00.pth a; from_pretrained, Trainer and Accelerate load model.safetensors; Meta's llama loads consolidated.00.pth");
	put_tensors("consolidated.01.pth", "{" ONE("a", 2) "8]}}", 8);
	expect_pairs(true,
		"other format model.safetensors consolidated.00.pth ; from_pretrained, Trainer and Accelerate load model.safetensors; Meta's llama loads consolidated.00.pth");
}

static void tags_do_not_lead_out(void **state)
{
	struct fsdp_load_check_options three = { .world = 3 };

	(void)state;
	FOLDER_WRITE("latest", "../../../etc");
	expect("deepspeed", "refuses tag");
	FOLDER_WRITE("latest", "");
	expect("deepspeed", "refuses tag");
	FOLDER_WRITE("latest", "%s%n%s%n");
	expect("deepspeed", "refuses tag");
	FOLDER_WRITE("latest", "t");
	make_folder("t");
	expect_of(folder, &three, "deepspeed", "refuses missing-file");
	FOLDER_WRITE("latest_checkpointed_iteration.txt", "../../x");
	expect("megatron", "refuses missing-file");
	FOLDER_WRITE("metadata.json", "{\"sharded_backend\": 7}");
	expect("megatron", "refuses missing-file");
}

static void backends_are_named(void **state)
{
	(void)state;
	FOLDER_WRITE("metadata.json", "{\"sharded_backend\": 7}");
	expect("megatron", "refuses format missing-file");
	/* From 0.19 on its name is not looked at. */
	FOLDER_WRITE("metadata.json", "{\"sharded_backend\": \"zarr\"}");
	expect("megatron", "refuses missing-file");
	FOLDER_WRITE("metadata.json", "{\"sharded_backend\": \"torch_dist\"}");
	FOLDER_WRITE("common.pt", "");
	expect("megatron", "refuses missing-file");
}

/* ---- one file ---- */

static void expect_file(const void *bytes, size_t size, const char *expected)
{
	struct fsdp_load_check_options options = { .data = true };
	char path[128];

	folder_write("x.pt", bytes, size);
	snprintf(path, sizeof path, "%s/x.pt", folder);
	expect_of(path, &options, "weights_only", expected);
	/* No other loader takes a file; none of them may stumble. */
	for (size_t i = 0; fsdp_loader_name(i) != NULL; i++) {
		const char *loader = fsdp_loader_name(i);
		struct fsdp_scan *survey = NULL;
		struct fsdp_load_check *loads = NULL;
		struct fsdp_load_check_options one = {
			.size = sizeof one, .loaders = &loader, .loader_count = 1
		};

		assert_true(fsdp_scan_new(path, NULL, 0, NULL, &survey, NULL));
		assert_true(fsdp_load_check_new(survey, &one, &loads, NULL));
		if (strcmp(loader, "weights_only") != 0)
			assert_int_not_equal(
				fsdp_load_check_result(loads, 0)->verdict, FSDP_LOADS);
		fsdp_load_check_free(loads);
		fsdp_scan_free(survey);
	}
}
#define FILE_IS(text, expected) expect_file(text, sizeof(text) - 1, expected)

static void files_that_are_none_of_torch(void **state)
{
	(void)state;
	FILE_IS("", "refuses damaged-file");
	FILE_IS("<!DOCTYPE html>", "refuses unsafe-pickle");
	FILE_IS("PK\3\4", "refuses damaged-file");
	FILE_IS("\x80\2}.", "refuses format");
	FILE_IS("\x80\4}.", "refuses unsafe-pickle");
	FILE_IS("\x80\2cargparse\nNamespace\n.", "refuses unsafe-global");
	FILE_IS("\x80\2ccollections\ndeque\n.", "refuses unsafe-global");
	FILE_IS("\x80", "refuses unsafe-pickle");
}

static void releases_are_known(void **state)
{
	(void)state;
	assert_true(fsdp_loader_has_version("hf", "5.24.0"));
	assert_true(fsdp_loader_has_version("hf", "5.23"));
	assert_true(fsdp_loader_has_version("hf", "4.57"));
	assert_false(fsdp_loader_has_version("hf", "4.5"));
	assert_false(fsdp_loader_has_version("hf", "6"));
	assert_false(fsdp_loader_has_version("nothing", "1"));
	assert_string_equal(
		fsdp_load_verdict_name((enum fsdp_load_verdict)99), "not_judged");
}

/* With one parameter of the loader. */
static void expect_with(
	const char *loader, const char *name, const char *value, const char *expected)
{
	const struct fsdp_loader_setting choice = { name, value };
	struct fsdp_load_check_options options = {
		.data = true, .choices = &choice, .choice_count = 1
	};

	expect_of(folder, &options, loader, expected);
}

static void expect_shares(
	bool data, uint64_t first, uint64_t second, uint64_t alike, uint64_t equal)
{
	struct fsdp_scan *survey = NULL;
	struct fsdp_weight_set_pairs *pairs = NULL;

	assert_true(fsdp_scan_new(folder, NULL, 0, NULL, &survey, NULL));
	assert_true(fsdp_weight_set_pairs_new(survey, data, &pairs, NULL));
	assert_int_equal(fsdp_weight_set_pair_count(pairs), 1);
	struct fsdp_weight_set_pair pair = fsdp_weight_set_pair(pairs, 0);
	assert_int_equal(pair.likeness, FSDP_SETS_OTHER_MODEL);
	assert_int_equal(pair.shares.first, first);
	assert_int_equal(pair.shares.second, second);
	assert_int_equal(pair.shares.alike, alike);
	assert_int_equal(pair.shares.equal, equal);
	fsdp_weight_set_pairs_free(pairs);
	fsdp_scan_free(survey);
}

static void an_actor_is_compared_with_its_critic(void **state)
{
	static const char *const models[] = { "actor", "critic", "actor.safetensors",
		"critic.safetensors", "actor.pt", "critic.pt", "actor.pth", "critic.pth",
		"actor.bin", "critic.bin" };

	(void)state;
	put_tensors("actor.safetensors",
		"{" ONE("a",
			1) "4]}, \"b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
		8);
	expect_pairs(true, "");
	put_tensors("critic.safetensors", "{" ONE("a", 1) "4]}}", 4);
	expect_shares(true, 2, 1, 1, 1);
	expect_shares(false, 2, 1, 1, 0);
	put_tensors("critic.safetensors", "{" ONE("a", 2) "8]}}", 8);
	expect_shares(true, 2, 1, 0, 0);
	put_tensors("critic.safetensors", "{" ONE("value", 1) "4]}}", 4);
	expect_shares(true, 2, 1, 0, 0);
	/* One that cannot be opened is not compared, and known to be there. */
	FOLDER_WRITE("critic.safetensors", "x");
	expect_pairs(true, "another model actor.safetensors critic.safetensors ; ");
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		assert_string_equal(fsdp_set_model_name(i), models[i]);
	assert_null(fsdp_set_model_name(sizeof models / sizeof *models));
}

static void parameters_of_a_loader_change_its_answer(void **state)
{
	(void)state;
	expect_with("deepspeed", "load_universal", "true", "refuses tag");
	expect_with("deepspeed", "tag", "gone", "refuses tag");
	expect_with("dcp", "storage_reader", "HuggingFaceStorageReader",
		"not_judged no-weights");
	expect_with("trainer", "deepspeed", "true", "refuses no-weights");
	expect_with("trainer", "fsdp", "true", "not_judged other-run");
	FOLDER_WRITE("pytorch_model_fsdp.bin", "");
	expect_with("trainer", "fsdp", "false", "refuses other-run");
	expect_with("trainer", "deepspeed", "true", "not_judged other-run");
	FOLDER_WRITE("optimizer.bin", "\200\2}.");
	expect_with("accelerate", "state_dict_type", "SHARDED_STATE_DICT",
		"refuses missing-file");
	/* No file shows that there was a scheduler. */
	expect_with("accelerate", "state_dict_type", "FULL_STATE_DICT",
		"not_judged missing-file");
	/* What it does not have, or not so, changes nothing. */
	expect_with("accelerate", "strict", "raise_all", "not_judged missing-file");
	expect_with("accelerate", "state_dict_type", "LOCAL_STATE_DICT",
		"not_judged missing-file");
	folder_unlink("pytorch_model_fsdp.bin");
	expect_with("accelerate", "state_dict_type", "FULL_STATE_DICT",
		"refuses missing-file");
}

static void dcp_reads_other_storage(void **state)
{
	static const struct {
		const char *type;
		size_t bits; /* of an element: bytes of eight */
	} foreign[] = { { "F8_E8M0", 8 }, { "F4", 4 }, { "F6_E2M3", 6 },
		{ "F6_E3M2", 6 } };
	char header[128];

	(void)state;
	put_tensors("shard-00001-model-00001-of-00001.safetensors", "{}", 0);
	expect("dcp", "loads requirement");
	expect_with("dcp", "storage_reader", "HuggingFaceStorageReader", "loads");
	expect_with("dcp", "storage_reader", "FileSystemReader", "refuses format");
	put_tensors("model-00001-of-00002.safetensors", "{" ONE("a", 1) "4]}}", 4);
	put_tensors("model-00002-of-00002.safetensors", "{" ONE("b", 1) "4]}}", 4);
	expect("dcp", "loads requirement");
	put_tensors("model-00002-of-00002.safetensors", "{" ONE("a", 1) "4]}}", 4);
	expect("dcp", "refuses requirement pieces");
	put_tensors("model-00002-of-00002.safetensors", "{" ONE("b", 1) "4]}}", 3);
	expect("dcp", "refuses requirement damaged-file");
	for (size_t i = 0; i < FSDP_COUNT(foreign); i++) {
		snprintf(header, sizeof header,
			"{\"b\": {\"dtype\": \"%s\", \"shape\": [8], \"data_offsets\": [0, %zu]}}",
			foreign[i].type, foreign[i].bits);
		put_tensors("model-00002-of-00002.safetensors", header, foreign[i].bits);
		expect("dcp", "refuses requirement dtype");
	}
	folder_unlink("model-00002-of-00002.safetensors");
	folder_unlink("shard-00001-model-00001-of-00001.safetensors");
	FOLDER_WRITE("model.safetensors.index.json",
		"{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", \"b\": \"model-00002-of-00002.safetensors\"}}");
	expect("dcp", "refuses requirement missing-file");
	/* Such a directory does not open; an earlier release asks who wrote it. */
	FOLDER_WRITE("model.safetensors.index.json", "version https://git-lfs");
	struct fsdp_load_check_options earlier = { .version = "2.13" };
	expect_of(folder, &earlier, "dcp", "not_judged requirement unread");
	/* What is left of a folder of the default writer. */
	FOLDER_WRITE("__0_0.distcp", "");
	expect("dcp", "refuses format");
}

static void parameters_are_known_by_name_and_value(void **state)
{
	const struct fsdp_loader_option *option = fsdp_loader_option("megatron", 0);

	(void)state;
	assert_string_equal(option->name, "strict");
	assert_true(fsdp_loader_option_takes(option, "raise_all"));
	assert_false(fsdp_loader_option_takes(option, "raise"));
	assert_null(fsdp_loader_option("megatron", 2));
	assert_null(fsdp_loader_option("hf", 0));
	assert_null(fsdp_loader_option("nothing", 0));
	option = fsdp_loader_option("deepspeed", 0);
	assert_string_equal(option->name, "tag");
	assert_true(fsdp_loader_option_takes(option, "step 3"));
	assert_false(fsdp_loader_option_takes(option, ""));
	option = fsdp_loader_option("deepspeed", 7);
	assert_string_equal(option->name, "param_groups");
	assert_true(fsdp_loader_option_takes(option, "12"));
	assert_false(fsdp_loader_option_takes(option, "0"));
	assert_false(fsdp_loader_option_takes(option, "1x"));
	assert_false(fsdp_loader_option_takes(option, "1000000000000"));
}

/* Of a document without room for its name nothing is said, least of all what another one
 * has. */
static void documents_are_absent_where_memory_runs_out(void **state)
{
	(void)state;
	const struct fsdp_limit_setting limit = { "memory", 512 << 10 };
	struct fsdp_scan *survey = NULL;
	struct fsdp_scan_document document;
	char name[200];
	bool failed = false;
	FOLDER_WRITE("config.json", "{\"model_type\": \"llama\"}");
	assert_true(fsdp_scan_new(folder, &limit, 1, NULL, &survey, NULL));
	for (int i = 0; i < 63; i++) {
		snprintf(name, sizeof name, "%d.json", i);
		assert_true(fsdp_scan_document(survey, name, &document));
	}
	assert_true(fsdp_scan_document(survey, "config.json", &document));
	assert_int_equal(document.count, 2);
	for (int i = 0; i < 10000 && !failed; i++) {
		snprintf(name, sizeof name, "%0180d.json", i);
		failed = !fsdp_scan_document(survey, name, &document);
	}
	assert_false(document.is_there);
	assert_int_equal(document.count, 0);
	assert_true(failed);
	fsdp_scan_free(survey);
}

static void what_is_not_there_cannot_be_listed(void **state)
{
	struct fsdp_scan *survey = NULL;
	struct fsdp_error *error = NULL;

	(void)state;
	assert_false(fsdp_scan_new("/nonexistent/x", NULL, 0, NULL, &survey, &error));
	assert_null(survey);
	fsdp_error_free(error);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_begin, folder_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_of_another_name_are_named),
		TEST(files_of_a_run_tell_that_there_was_one),
		TEST(an_empty_folder_is_refused_by_all),
		TEST(what_is_not_known_is_never_said_to_load),
		TEST(types_are_those_of_torch),
		TEST(layers_have_one_type_each),
		TEST(tied_weights_are_compared),
		TEST(what_is_missing_is_told),
		TEST(pickles_may_be_anything),
		TEST(headers_are_claims),
		TEST(an_index_may_be_anything),
		TEST(two_sets_are_compared),
		TEST(each_pair_of_sets_is_told),
		TEST(sets_of_other_programs_are_told),
		TEST(tags_do_not_lead_out),
		TEST(backends_are_named),
		TEST(files_that_are_none_of_torch),
		TEST(releases_are_known),
		TEST(an_actor_is_compared_with_its_critic),
		TEST(parameters_of_a_loader_change_its_answer),
		TEST(dcp_reads_other_storage),
		TEST(parameters_are_known_by_name_and_value),
		TEST(documents_are_absent_where_memory_runs_out),
		TEST(what_is_not_there_cannot_be_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
