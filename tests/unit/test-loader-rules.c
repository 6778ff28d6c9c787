/* SPDX-License-Identifier: Apache-2.0 */
/* What makes each of the loaders' rules hold, in folders of few and small files. */
#include "loads-setup.h"

/* What lies in a folder: bytes, or a safetensors file of so many zeros, or a file of the
 * samples. Without any text it is a folder. */
struct lying {
	const char *name, *text;
	size_t size;
	enum { BYTES, TENSORS, SAMPLE } kind;
};

#define TEXT(name, text)                            \
	{                                           \
		name, text, sizeof(text) - 1, BYTES \
	}
#define TENSORS(name, header, zeros)         \
	{                                    \
		name, header, zeros, TENSORS \
	}
#define COPIED(name, sample)            \
	{                               \
		name, sample, 0, SAMPLE \
	}
#define A_FOLDER(name)               \
	{                            \
		name, NULL, 0, BYTES \
	}

enum { LYING_MOST = 16, CHOICES_MOST = 2 };

struct folder_case {
	const char *loader, *version;
	struct lying files[LYING_MOST];
	struct fsdp_loader_setting choices[CHOICES_MOST];
	bool expects, unread; /* another model is expected; bytes are not compared */
	const char *expected, *says, *took;
	const char *cure; /* of the last reason; "": none */
};

static void put_sample(const char *name, const char *sample)
{
	char path[512];
	unsigned char bytes[32768];

	snprintf(path, sizeof path, "%s/%s", getenv("TESTDATA"), sample);
	FILE *stream = fopen(path, "rb");
	assert_non_null(stream);
	size_t size = fread(bytes, 1, sizeof bytes, stream);
	assert_true(size < sizeof bytes);
	fclose(stream);
	folder_write(name, bytes, size);
}

static void put(const struct lying *file)
{
	if (file->text == NULL)
		make_folder(file->name);
	else if (file->kind == TENSORS)
		put_tensors(file->name, file->text, file->size);
	else if (file->kind == SAMPLE)
		put_sample(file->name, file->text);
	else
		folder_write(file->name, file->text, file->size);
}

static void expect_words(
	const struct fsdp_load_result *result, const struct folder_case *of)
{
	const struct fsdp_load_reason *last = &result->reasons[result->reason_count - 1];
	char found[512] = "";
	size_t at = 0;

	if (of->says != NULL && strstr(last->message, of->says) == NULL &&
		(last->way_out == NULL || strstr(last->way_out, of->says) == NULL))
		assert_string_equal(last->message, of->says);
	if (of->cure != NULL)
		assert_string_equal(last->way_out != NULL ? last->way_out : "", of->cure);
	for (size_t i = 0; of->took != NULL && i < result->took_count; i++)
		at += (size_t)snprintf(found + at, sizeof found - at, "%s%.*s",
			i == 0 ? "" : " ", FSDP_TEXT(result->took[i]));
	if (of->took != NULL)
		assert_string_equal(found, of->took);
}

static void judge_folder(const struct folder_case *of)
{
	static const int64_t shape[] = { 7 };
	const struct fsdp_load_expected other = {
		.name = { (const unsigned char *)"other", 5 }, .shape = shape, .dims = 1
	};
	struct fsdp_load_check_options options = { .version = of->version,
		.data = !of->unread,
		.choices = of->choices,
		.expected = of->expects ? &other : NULL,
		.expected_count = of->expects ? 1 : 0 };

	for (size_t i = 0; i < LYING_MOST && of->files[i].name != NULL; i++)
		put(&of->files[i]);
	while (options.choice_count < CHOICES_MOST &&
		of->choices[options.choice_count].name != NULL)
		options.choice_count++;
	struct fsdp_load_check *loads =
		loads_of(folder, &options, of->loader, of->expected);
	expect_words(fsdp_load_check_result(loads, 0), of);
	fsdp_load_check_free(loads);
}

static void judge_all(const struct folder_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		folder_make();
		judge_folder(&cases[i]);
		folder_remove();
	}
}

#define JUDGE(cases) judge_all(cases, FSDP_COUNT(cases))

/* What pickles hold: a name that is not allowed, {b"a": 3}. */
#define NAMESPACE SAVED("cargparse\nNamespace\n")
#define OF_BYTES SAVED("}c_codecs\nencode\nX\1\0\0\0aX\6\0\0\0latin1\x86RK\3s")
#define POINTER "version https://git-lfs.github.com/spec/v1\n"
#define INDEX(name) "{\"metadata\": {}, \"weight_map\": {\"a\": \"" name "\"}}"
#define TWO_SHARDS(a, b) \
	"{\"metadata\": {}, \"weight_map\": {\"a\": \"" a "\", \"b\": \"" b "\"}}"
#define LORA                        \
	TEXT("adapter_config.json", \
		"{\"peft_type\": \"LORA\", \"target_modules\": \".*\", \"r\": 1}")
/* A stream that ends behind the number of its format. */
#define CUT "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."

static void adapters_are_refused(void **state)
{
	static const struct folder_case cases[] = {
		{ "peft", .files = { TENSORS("adapter_model.safetensors", "{}", 0) },
			.expected = "refuses missing-file",
			.says = "copy adapter_config.json of this adapter into the directory" },
		{ "peft", .files = { LORA, TEXT("adapter_model.safetensors", "x") },
			.expected = "refuses damaged-file",
			.says = "header of eight bytes or more" },
		{ "peft", .files = { LORA, TEXT("adapter_model.bin", NAMESPACE) },
			.expected = "refuses unsafe-global",
			.says = "the global argparse.Namespace, which" },
		{ "peft", .files = { LORA, TEXT("adapter_model.bin", OF_BYTES) },
			.expected = "not_judged no-state-dict" },
		{ "peft", .files = { LORA, TEXT("adapter_model.bin", CUT) },
			.expected = "not_judged unread" },
	};

	(void)state;
	JUDGE(cases);
}

/* What save_state writes beside the model. */
#define STATE                                                               \
	TEXT("random_states_0.pkl", ""), TEXT("optimizer.bin", "\200\2}."), \
		TEXT("scheduler.bin", "\200\2}.")
#define DCP(folder, file) COPIED(folder "/" file, "dcp/fsdp2-w4-small/checkpoint/" file)
#define DCP_METADATA(folder) A_FOLDER(folder), DCP(folder, ".metadata")
#define ALL_OF_DCP(folder)                                                              \
	DCP_METADATA(folder), DCP(folder, "__0_0.distcp"), DCP(folder, "__1_0.distcp"), \
		DCP(folder, "__2_0.distcp"), DCP(folder, "__3_0.distcp")

static void folders_of_accelerate(void **state)
{
	static const struct folder_case cases[] = {
		{ "accelerate",
			.files = { TEXT("model.safetensors.index.json",
					   TWO_SHARDS(
						   "a.safetensors", "gone.safetensors")),
				TENSORS("a.safetensors", "{" ONE("a", 1) "4]}}", 4) },
			.expected = "refuses missing-file",
			.says = "gone.safetensors is missing" },
		{ "accelerate", .files = { TEXT("model.safetensors", "x") },
			.expected = "refuses damaged-file",
			.says = "header of eight bytes or more" },
		{ "accelerate", .files = { TEXT("pytorch_model.bin", NAMESPACE) },
			.expected = "refuses unsafe-global",
			.says = "add_safe_globals([argparse.Namespace])" },
		/* One that is allowed, and is filled by an opcode all the same. */
		{ "accelerate",
			.files = { TEXT("pytorch_model.bin",
				SAVED("(cargparse\nNamespace\nccollections\ndeque\nt")) },
			.expected = "refuses unsafe-global", .cure = "" },
		{ "accelerate",
			.files = { TEXT("pytorch_model.bin", SAVED("cos\nsystem\n")) },
			.expected = "refuses unsafe-global", .cure = "" },
		{ "accelerate",
			.files = { TEXT(
				"pytorch_model.bin", SAVED("cmine\nSettings\n")) },
			.expected = "refuses unsafe-global", .cure = "" },
		{ "accelerate", .files = { TEXT("pytorch_model.bin", POINTER) },
			.expected = "refuses unsafe-pickle",
			.says = "pytorch_model.bin: neither a zip archive nor a pickle" },
		{ "accelerate", .files = { TEXT("pytorch_model.bin", OF_BYTES) },
			.expected = "not_judged no-state-dict" },
		{ "accelerate", .files = { STATE, TEXT("pytorch_model.bin", CUT) },
			.expected = "not_judged unread" },
		/* One of them is not looked at. */
		{ "accelerate",
			.files = { STATE,
				TENSORS("model.safetensors", "{" ONE("a", 1) "4]}}", 4),
				TENSORS("pytorch_model.bin", "{" ONE("b", 1) "4]}}", 4) },
			.expected = "differs other-weights",
			.says = "loads model.safetensors and ignores pytorch_model.bin; they differ",
			.took = "model.safetensors",
			.cure = "move the wrong one out of the directory" },
		{ "accelerate",
			.files = { STATE,
				TENSORS("model.safetensors", "{" ONE("a", 1) "4]}}", 4),
				TENSORS("pytorch_model.bin", "{" ONE("a", 1) "4]}}", 4) },
			.unread = true, .expected = "not_judged unread-weights" },
		/* Of FSDP: the type of state dict says where it looks. */
		{ "accelerate", .files = { STATE, DCP_METADATA("pytorch_model_fsdp_0") },
			.choices = { { "state_dict_type", "FULL_STATE_DICT" } },
			.expected = "refuses missing-file",
			.says = "pytorch_model_fsdp.bin is missing" },
		{ "accelerate",
			.files = { STATE, DCP_METADATA("pytorch_model_fsdp_0"),
				ALL_OF_DCP("optimizer_0") },
			.expected = "refuses missing-file",
			.says = "pytorch_model_fsdp_0/__0_0.distcp is missing" },
		{ "accelerate",
			.files = { STATE, ALL_OF_DCP("pytorch_model_fsdp_0"),
				DCP_METADATA("optimizer_0") },
			.expected = "refuses missing-file",
			.says = "optimizer_0/__0_0.distcp is missing" },
	};

	(void)state;
	JUDGE(cases);
}

#define RUN                                                                 \
	TEXT("trainer_state.json", "{}"), TEXT("optimizer.pt", "\200\2}."), \
		TEXT("scheduler.pt", "\200\2}.")

static void weights_of_the_trainer(void **state)
{
	static const struct folder_case cases[] = {
		{ "trainer",
			.files = { RUN, TENSORS("adapter_model.safetensors", "{}", 0) },
			.expected = "loads", .took = "adapter_model.safetensors" },
		{ "trainer", .files = { RUN, TEXT("adapter_model.bin", SAVED("}")) },
			.expected = "loads", .took = "adapter_model.bin" },
		{ "trainer",
			.files = { RUN,
				TEXT("pytorch_model.bin.index.json", INDEX("p.bin")),
				TEXT("p.bin", SAVED("}")) },
			.expected = "loads" },
		{ "trainer",
			.files = { RUN,
				TEXT("pytorch_model.bin.index.json", INDEX("p.bin")),
				TEXT("p.bin", "") },
			.expected = "refuses damaged-file", .says = "p.bin" },
		{ "trainer", "5.23", .expected = "refuses no-weights" },
	};

	(void)state;
	JUDGE(cases);
}

#define TAG TEXT("latest", "t"), A_FOLDER("t")
#define STATES(bytes) TEXT("t/mp_rank_00_model_states.pt", bytes)
#define OPTIMIZER(prefix, rank) \
	TEXT("t/" prefix "zero_pp_rank_" rank "_mp_rank_00_optim_states.pt", "")
#define STAGE(number) .choices = { { "zero_stage", number } }
#define OF_STAGE_3 \
	TAG, TEXT("t/zero_pp_rank_0_mp_rank_00_model_states.pt", ""), OPTIMIZER("", "0")
/* {"module": {}, "ds_config": {"zero_optimization": {"stage": 1}, "bf16": {"enabled":
 * True}}, "dp_world_size": 1} */
#define ZERO_OF_16_BITS                                                             \
	SAVED("}(X\6\0\0\0module}X\11\0\0\0ds_config}(X\21\0\0\0zero_optimization}" \
	      "X\5\0\0\0stageK\1sX\4\0\0\0bf16}X\7\0\0\0enabled\210suX\15\0\0\0"    \
	      "dp_world_sizeK\1u")
#define ROUND_ROBIN(name) \
	COPIED("t/" name, "deepspeed/zero2-roundrobin-w2/global_step2/" name)
#define SAVED_STATE(name) \
	COPIED("t/" name, "deepspeed/zero1-elastic-w2/global_step2/" name)

static void tags_of_deepspeed(void **state)
{
	static const struct folder_case cases[] = {
		{ "deepspeed", .files = { A_FOLDER("t"), STATES("") },
			.expected = "differs tag", .cure = "" },
		{ "deepspeed",
			.files = { A_FOLDER("t"),
				SAVED_STATE("mp_rank_00_model_states.pt"),
				SAVED_STATE("zero_pp_rank_0_mp_rank_00_optim_states.pt"),
				SAVED_STATE(
					"zero_pp_rank_1_mp_rank_00_optim_states.pt") },
			.expected = "differs tag",
			.cure = "pass tag='t' to load_checkpoint, or write that name into the file latest" },
		{ "deepspeed", .files = { TAG, STATES("") }, STAGE("1"),
			.expected = "refuses missing-file",
			.says = "t/zero_pp_rank_0_mp_rank_00_optim_states.pt is missing" },
		{ "deepspeed", .files = { TAG, STATES(""), OPTIMIZER("", "0") },
			STAGE("1"), .expected = "not_judged unread" },
		{ "deepspeed", .files = { TAG, STATES(""), OPTIMIZER("bf16_", "0") },
			STAGE("1"), .expected = "not_judged unread" },
		{ "deepspeed", .files = { TAG, STATES(""), OPTIMIZER("fp16_", "0") },
			STAGE("2"), .expected = "not_judged unread" },
		/* Files of ranks tell that it was saved with stage 3. */
		{ "deepspeed", .files = { OF_STAGE_3 }, STAGE("0"),
			.expected = "refuses zero-stage" },
		{ "deepspeed", .files = { OF_STAGE_3 }, STAGE("1"),
			.expected = "refuses zero-stage" },
		{ "deepspeed", .files = { OF_STAGE_3 }, STAGE("2"),
			.expected = "refuses zero-stage" },
		{ "deepspeed", .files = { OF_STAGE_3 }, STAGE("3"),
			.expected = "not_judged unread" },
		{ "deepspeed", .files = { OF_STAGE_3 }, .expects = true,
			.expected = "not_judged unread unsupported" },
		{ "deepspeed",
			.files = { TAG, SAVED_STATE("mp_rank_00_model_states.pt"),
				SAVED_STATE("zero_pp_rank_0_mp_rank_00_optim_states.pt"),
				SAVED_STATE(
					"zero_pp_rank_1_mp_rank_00_optim_states.pt") },
			.expected = "refuses elastic" },
		/* Saved with the first stage in 16 bits. */
		{ "deepspeed",
			.files = { TAG, STATES(ZERO_OF_16_BITS),
				OPTIMIZER("bf16_", "0") },
			STAGE("0"), .expected = "not_judged zero-stage" },
		/* A file of another run lies beside those of both ranks. */
		{ "deepspeed",
			.files = { TAG, ROUND_ROBIN("mp_rank_00_model_states.pt"),
				ROUND_ROBIN("zero_pp_rank_0_mp_rank_00_optim_states.pt"),
				ROUND_ROBIN("zero_pp_rank_1_mp_rank_00_optim_states.pt"),
				OPTIMIZER("bf16_", "0") },
			.expected = "not_judged unread" },
	};

	(void)state;
	JUDGE(cases);
}

#define GPT2 TEXT("config.json", CONFIG)
#define HAS(name, shape, begin, end)                            \
	"\"" name "\": {\"dtype\": \"F32\", \"shape\": [" shape \
	"], \"data_offsets\": [" #begin ", " #end "]}"
#define ONE_OF(name, shape, bytes) \
	TENSORS("model.safetensors", "{" HAS(name, shape, 0, bytes) "}", bytes)

static void weights_that_transformers_does_not_find(void **state)
{
	static const struct folder_case cases[] = {
		{ "hf", "4.57", { GPT2 }, .expected = "refuses no-weights", .cure = "" },
		{ "hf", "4.57", { GPT2, TEXT("model.pt", "") },
			.expected = "refuses no-weights",
			.cure = "rename model.pt to pytorch_model.bin" },
		{ "hf", "5", { GPT2, A_FOLDER("pytorch_model_fsdp_0") },
			.expected = "refuses no-weights", .cure = "" },
		{ "hf", "5", { GPT2, DCP_METADATA("pytorch_model_fsdp_0") },
			.expected = "refuses no-weights",
			.cure = "run accelerate merge-weights pytorch_model_fsdp_0 ." },
		{ "hf", "5", { GPT2, TEXT("model-00001-of-00002.safetensors", "") },
			.expected = "refuses no-weights",
			.cure = "write model.safetensors.index.json" },
		{ "hf",
			.files = { GPT2,
				TEXT("pytorch_model.bin.index.json",
					TWO_SHARDS("a.bin", "gone.bin")),
				TEXT("a.bin", SAVED("}")) },
			.expected = "refuses missing-file",
			.says = "gone.bin is missing" },
	};

	(void)state;
	JUDGE(cases);
}

static void pickles_that_transformers_refuses(void **state)
{
	static const struct folder_case cases[] = {
		{ "hf", "5", { GPT2, TEXT("pytorch_model.bin", NAMESPACE) },
			.expected = "refuses unsafe-global",
			.says = "the global argparse.Namespace, which" },
		{ "hf", "4.57", { GPT2, TEXT("pytorch_model.bin", NAMESPACE) },
			.expected = "refuses unsafe-global", .cure = "" },
		{ "hf", "4.57", { GPT2, TEXT("pytorch_model.bin", POINTER) },
			.expected = "refuses unsafe-pickle",
			.says = "pytorch_model.bin: neither a zip archive nor a pickle" },
	};

	(void)state;
	JUDGE(cases);
}

static void shapes_are_those_of_the_model(void **state)
{
#define LLAMA_OF(type, more)                                                                                                                                                                  \
	TEXT("config.json",                                                                                                                                                                   \
		"{\"model_type\": \"" type                                                                                                                                                    \
		"\", \"vocab_size\": 2, \"hidden_size\": 1, \"intermediate_size\": 1, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, \"head_dim\": 1" more \
		"}")
#define LLAMA LLAMA_OF("llama", "")
	static const struct folder_case cases[] = {
		{ "hf", "4.57", { LLAMA, ONE_OF("model.norm.weight", "7", 28) },
			.expected = "refuses shape",
			.says = "model.norm.weight has shape [7], config.json expects [1]",
			.cure = "" },
		{ "hf", "5", { LLAMA, ONE_OF("lm_head.weight", "3, 1", 12) },
			.expected = "refuses shape",
			.cure = "set vocab_size in config.json to 3" },
		{ "hf", "5", { LLAMA, ONE_OF("lm_head.weight", "1, 1", 4) },
			.expected = "refuses shape", .cure = "" },
		{ "hf", "5", { LLAMA, ONE_OF("lm_head.weight", "3, 2", 24) },
			.expected = "refuses shape", .cure = "" },
		/* The embedding has as many rows as the configuration says. */
		{ "hf", "5",
			{ LLAMA, TENSORS("model.safetensors",
					 "{" HAS("lm_head.weight", "3, 1", 0,
						 12) ", " HAS("model.embed_tokens.weight",
						 "2, 1", 12, 20) "}",
					 20) },
			.expected = "refuses shape",
			.cure = "model.embed_tokens.weight has 2 rows: call model.resize_token_embeddings(3), which resizes both, and save again" },
		{ "accelerate", .files = { LLAMA, ONE_OF("lm_head.weight", "3, 1", 12) },
			.expected = "refuses shape",
			.cure = "set vocab_size in config.json to 3" },
	};

	(void)state;
	JUDGE(cases);
}

/* 4.57 ties the head to the embedding, and not the embedding to the head. */
static void heads_are_stored_alone(void **state)
{
#define OF_CLASS(type, name, sizes)                                                      \
	TEXT("config.json", "{\"model_type\": \"" type "\", \"architectures\": [\"" name \
			    "\"], " sizes "}")
#define SMALL_BERT \
	OF_CLASS("bert", "BertLMHeadModel", "\"vocab_size\": 2, \"hidden_size\": 1")
#define SMALL_T5 \
	OF_CLASS("t5", "T5ForConditionalGeneration", "\"vocab_size\": 2, \"d_model\": 1")
#define TWO_OF(a, b)                 \
	TENSORS("model.safetensors", \
		"{" HAS(a, "2, 1", 0, 8) ", " HAS(b, "2, 1", 8, 16) "}", 16)
#define DECODER "cls.predictions.decoder."
	static const struct folder_case cases[] = {
		{ "hf", "4.57", { GPT2, ONE_OF("lm_head.weight", "2, 1", 8) },
			.expected = "refuses tied-weights" },
		{ "hf", "5", { GPT2, ONE_OF("lm_head.weight", "2, 1", 8) },
			.expected = "differs missing-tensor" },
		{ "hf", "4.57", { SMALL_T5, ONE_OF("lm_head.weight", "2, 1", 8) },
			.expected = "refuses tied-weights" },
		{ "hf", "4.57", { SMALL_T5, TWO_OF("lm_head.weight", "shared.weight") },
			.expected = "differs missing-tensor" },
		{ "hf", "4.57",
			{ SMALL_T5,
				TWO_OF("lm_head.weight", "encoder.embed_tokens.weight") },
			.expected = "differs missing-tensor" },
		{ "hf", "4.57", { SMALL_BERT, ONE_OF(DECODER "weight", "2, 1", 8) },
			.expected = "refuses tied-weights" },
		{ "hf", "4.57", { SMALL_BERT, ONE_OF(DECODER "bias", "2", 8) },
			.expected = "refuses tied-weights" },
		{ "hf", "4.57", { SMALL_BERT, ONE_OF("cls.predictions.bias", "2", 8) },
			.expected = "differs missing-tensor" },
		{ "hf", "4.57",
			{ SMALL_BERT, TWO_OF(DECODER "weight",
					      "bert.embeddings.word_embeddings.weight") },
			.expected = "differs missing-tensor" },
	};

	(void)state;
	JUDGE(cases);
}

/* Transformers 5 was seen to refuse each of these, and to miss all where none is there.
 */
static void experts_are_joined(void **state)
{
#define MIXTRAL LLAMA_OF("mixtral", ", \"num_local_experts\": 2")
#define EXPERT(number, part) \
	"model.layers.0.block_sparse_moe.experts." number "." part ".weight"
#define GATE(n, at, end) HAS(EXPERT(n, "w1"), "1, 1", at, end)
#define UP(n, at, end) HAS(EXPERT(n, "w3"), "1, 1", at, end)
#define DOWN(n, at, end) HAS(EXPERT(n, "w2"), "1, 1", at, end)
	static const struct folder_case cases[] = {
		{ "hf", "5",
			{ MIXTRAL, TENSORS("model.safetensors",
					   "{" GATE("0", 0, 4) ", " GATE(
						   "1", 4, 8) ", " UP("0", 8, 12) "}",
					   12) },
			.expected = "refuses shape",
			.says = "joined into model.layers.0.mlp.experts.gate_up_proj" },
		{ "hf", "5",
			{ MIXTRAL, TENSORS("model.safetensors",
					   "{" GATE("0", 0, 4) ", " UP(
						   "0", 4, 8) ", " DOWN("0", 8, 12) "}",
					   12) },
			.expected = "refuses shape",
			.says = "than model.layers.0.mlp.experts.gate_up_proj has",
			.cure = "" },
		{ "hf", "5",
			{ MIXTRAL, TENSORS("model.safetensors",
					   "{" GATE("0", 0, 4) ", " GATE("1", 4,
						   8) ", " UP("0", 8, 12) ", " UP("1", 12,
						   16) ", " DOWN("1", 16, 20) "}",
					   20) },
			.expected = "refuses shape",
			.says = "than model.layers.0.mlp.experts.down_proj has" },
		{ "hf", "5", { MIXTRAL, TENSORS("model.safetensors", "{}", 0) },
			.expected = "differs missing-tensor" },
	};

	(void)state;
	JUDGE(cases);
}

#define TYPES "{\"model_type\": \"new\", \"num_hidden_layers\": 1, \"layer_types\": []}"
#define ADAPTER(file, bytes) TEXT("adapter_config.json", "{}"), TEXT(file, bytes)

static void what_else_lies_beside_weights(void **state)
{
	static const struct folder_case cases[] = {
		{ "hf", "4.57",
			{ TEXT("config.json", TYPES),
				TENSORS("model.safetensors", "{}", 0) },
			.expected = "not_judged config unknown-model" },
		{ "hf", .files = { GPT2, ONE_OF("other.weight", "1", 4) },
			.expected = "differs other-names",
			.says = "other.weight is not a name of the model; lm_head.weight is missing and stays randomly initialized",
			.cure = "" },
		{ "hf",
			.files = { GPT2, ONE_OF("transformer.ln_f.bias", "1", 4),
				TENSORS("pytorch_model.bin", "{}", 0) },
			.expected = "differs missing-tensor other-weights",
			.says = "loads model.safetensors and ignores pytorch_model.bin; they differ",
			.took = "model.safetensors" },
		{ "hf",
			.files = { GPT2,
				TENSORS("model.safetensors",
					"{" ONE("transformer.ln_f.bias", 1) "4]}}", 4),
				TENSORS("pytorch_model.bin",
					"{" ONE("transformer.ln_f.bias", 1) "4]}}", 4) },
			.unread = true,
			.expected = "differs missing-tensor unread-weights" },
		{ "hf", "5",
			{ GPT2, TENSORS("model.safetensors", "{}", 0),
				ADAPTER("adapter_model.safetensors", "") },
			.expected = "differs missing-tensor adapter",
			.took = "model.safetensors adapter_model.safetensors" },
		{ "hf", "5",
			{ GPT2, TENSORS("model.safetensors", "{}", 0),
				ADAPTER("adapter_model.bin", "") },
			.expected = "differs missing-tensor adapter",
			.took = "model.safetensors adapter_model.bin" },
		{ "hf", "4.57",
			{ GPT2, TENSORS("model.safetensors", "{}", 0),
				ADAPTER("adapter_model.bin", "") },
			.expected = "differs missing-tensor adapter",
			.says = "base model is loaded instead",
			.took = "model.safetensors" },
		{ "hf", "4.57",
			{ GPT2, TENSORS("model.safetensors",
					"{" HAS("transformer.wte.weight", "2, 1", 0,
						8) ", " HAS("lm_head.weight", "2, 1", 8,
						16) "}",
					16) },
			.unread = true,
			.expected = "differs missing-tensor tied-weights" },
	};

	(void)state;
	JUDGE(cases);
}

static void expect_stream(const void *bytes, size_t size, const char *expected)
{
	struct fsdp_load_check_options options = { .data = true };
	char path[512];

	folder_make();
	folder_write("x.pt", bytes, size);
	folder_path("x.pt", path);
	expect_of(path, &options, "weights_only", expected);
	folder_remove();
}

/* The number that a stream of before 1.6 begins with is all of ten bytes. */
static void streams_begin_with_a_number(void **state)
{
	static const char good[] = SAVED("}");
	char bad[sizeof good];

	(void)state;
	expect_stream(good, sizeof good - 1, "loads");
	for (size_t i = 4; i < 14; i++) {
		memcpy(bad, good, sizeof good);
		bad[i] ^= 1;
		expect_stream(bad, sizeof bad - 1, "refuses format");
	}
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(adapters_are_refused),
		TEST(folders_of_accelerate),
		TEST(weights_of_the_trainer),
		TEST(tags_of_deepspeed),
		TEST(weights_that_transformers_does_not_find),
		TEST(pickles_that_transformers_refuses),
		TEST(shapes_are_those_of_the_model),
		TEST(heads_are_stored_alone),
		TEST(experts_are_joined),
		TEST(what_else_lies_beside_weights),
		TEST(streams_begin_with_a_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
