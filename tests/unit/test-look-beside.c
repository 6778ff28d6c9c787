/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside a checkpoint: what is told of them, if they are to be looked at. */
#include "folder-setup.h"

#include <fsdp/checkpoint.h>

#include "base/span.h"

/* A folder with a model of no tensors and a configuration. */
#define CONFIG "{\"model_type\": \"llama\"}"
#define MODEL "\x08\0\0\0\0\0\0\0{}      "

static int begin(void **state)
{
	(void)state;
	folder_make();
	FOLDER_WRITE("model.safetensors", MODEL);
	FOLDER_WRITE("config.json", CONFIG);
	return 0;
}

/* The rules of all findings, "FI1004 config.json" each; "" for none. */
static void expect(bool look, const char *expected)
{
	struct fsdp_options options = {
		.size = sizeof options, .look_beside = look, .no_plan = true
	};
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;
	char found[256] = "";
	size_t at = 0;

	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		at += (size_t)snprintf(found + at, sizeof found - at, "%s%s %c %.*s",
			at == 0 ? "" : "; ", finding->rule->id,
			fsdp_severity_name(finding->severity)[0],
			FSDP_TEXT_MOST(finding->file, 64));
	}
	assert_string_equal(found, expected);
	fsdp_checkpoint_free(checkpoint);
}

static void nothing_is_told_of_a_sound_folder(void **state)
{
	(void)state;
	FOLDER_WRITE("generation_config.json", "{\"log\": [[1, 2], {\"loss\": 3}]}");
	FOLDER_WRITE("README.md", "not JSON");
	FOLDER_WRITE("notes.json", "not JSON either, but nothing loads it");
	expect(true, "");
}

static void a_document_that_was_cut_is_told(void **state)
{
	(void)state;
	FOLDER_WRITE("tokenizer.json", "{\"log\": [[1, 2], {\"loss\"");
	expect(true, "FI1004 e tokenizer.json");
	expect(false, "");
}

/* Of a document of more than 16 MiB only the end is read. */
static void of_a_large_document_the_end_is_judged(void **state)
{
	(void)state;
	size_t size = (16u << 20) + 8;
	char *text = malloc(size);
	assert_non_null(text);
	memset(text, ' ', size);
	memcpy(text, "{\"a\": no JSON", 13);
	memcpy(text + size - 8, "}\n\n", 3);
	folder_write("tokenizer.json", text, size);
	expect(true, "");
	text[size - 8] = ']';
	folder_write("tokenizer.json", text, size);
	expect(true, "");
	text[size - 8] = ',';
	folder_write("tokenizer.json", text, size);
	expect(true, "FI1004 e tokenizer.json");
	text[size - 8] = ' ';
	folder_write("tokenizer.json", text, size);
	expect(true, "FI1004 e tokenizer.json");
	free(text);
}

static void an_empty_file_is_told(void **state)
{
	(void)state;
	FOLDER_WRITE("scheduler.pt", "");
	expect(true, "FI1002 e scheduler.pt");
}

static void arguments_that_run_a_command_are_told(void **state)
{
	(void)state;
	FOLDER_WRITE("training_args.bin", "cposix\nsystem\n(S'true'\ntR.");
	expect(true, "FI3001 e training_args.bin");
	expect(false, "");
}

/* The same name elsewhere belongs to nothing. */
static void other_files_are_left_alone(void **state)
{
	(void)state;
	FOLDER_WRITE("old_training_args.bin", "cposix\nsystem\n(S'true'\ntR.");
	expect(true, "");
}

static void what_is_no_file_of_torch_is_told(void **state)
{
	(void)state;
	FOLDER_WRITE("optimizer.pt", "\x01\x02\x03");
	FOLDER_WRITE("rng_state.pth",
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
	expect(true,
		"FI5007 w trainer_state.json; FI1004 e optimizer.pt; FI4001 e rng_state.pth");
}

static void a_lone_rank_has_others(void **state)
{
	(void)state;
	FOLDER_WRITE("rng_state_0.pth", "\x80\x02N.");
	expect(true, "FI1008 w rng_state_0.pth");
	FOLDER_WRITE("rng_state_1.pth", "\x80\x02N.");
	expect(true, "");
	FOLDER_WRITE("rng_state_3.pth", "\x80\x02N.");
	expect(true, "FI1008 w rng_state_0.pth");
}

static void code_that_comes_with_a_model_is_told(void **state)
{
	(void)state;
	FOLDER_WRITE("config.json",
		"{\"model_type\": \"x\", \"auto_map\": {\"AutoModel\": \"m.Model\"}}");
	expect(true, "FI3066 w config.json");
	FOLDER_WRITE("config.json",
		"{\"a\": {\"b\": [{\"_target_\": \"os.system\"}]}, \"trust_remote_code\": false}");
	expect(true, "FI3066 w config.json");
	FOLDER_WRITE("config.json",
		"{\"auto_map\": {}, \"trust_remote_code\": false, \"target\": \"m\"}");
	expect(true, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, folder_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_told_of_a_sound_folder),
		TEST(a_document_that_was_cut_is_told),
		TEST(of_a_large_document_the_end_is_judged),
		TEST(an_empty_file_is_told),
		TEST(arguments_that_run_a_command_are_told),
		TEST(other_files_are_left_alone),
		TEST(what_is_no_file_of_torch_is_told),
		TEST(a_lone_rank_has_others),
		TEST(code_that_comes_with_a_model_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
