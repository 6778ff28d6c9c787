/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside a checkpoint: what is told of them, if they are to be looked at. */
#include "folder-setup.h"

#include <sys/stat.h>

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
static void expect_within(const char *path, const struct fsdp_options *more, bool look,
	const char *expected)
{
	struct fsdp_options options = more != NULL ? *more : (struct fsdp_options){ 0 };
	struct fsdp_checkpoint *checkpoint = NULL;
	char found[256] = "";
	size_t at = 0;

	options.size = sizeof options;
	options.look_beside = look;
	options.no_plan = true;
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

static void expect(bool look, const char *expected)
{
	expect_within(folder, NULL, look, expected);
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

#define EVIL "cposix\nsystem\n(S'true'\ntR."

static void make_folder(const char *name)
{
	char path[512];
	folder_path(name, path);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* Whatever it is called, and wherever it lies. */
static void a_pickle_that_nothing_names_is_judged(void **state)
{
	(void)state;
	FOLDER_WRITE("old_training_args.bin", EVIL);
	make_folder(".a");
	make_folder(".a/b");
	FOLDER_WRITE(".a/b/no-suffix", EVIL);
	expect(true, "FI3001 e old_training_args.bin; FI3001 e .a/b/no-suffix");
	expect(false, "");
}

/* What a program ran before the pickle broke off it ran. */
static void a_broken_pickle_is_judged_up_to_the_break(void **state)
{
	(void)state;
	FOLDER_WRITE("cut", "cposix\nsystem\n(S'true'\ntR");
	FOLDER_WRITE("more", "cposix\nsystem\n(S'true'\ntRzz");
	FOLDER_WRITE("proto", "\x80\x04" EVIL);
	FOLDER_WRITE("stack", "\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R");
	expect(true,
		"FI3001 e cut; FI3001 e more; FI3016 w proto; FI3001 e proto; FI3001 e stack");
}

static void texts_are_no_pickles(void **state)
{
	(void)state;
	FOLDER_WRITE("a", "cos\nsystem\n");
	FOLDER_WRITE("b", "include\nabc\n.");
	FOLDER_WRITE("c", "cos path\nsystem\n(S'true'\ntR and more");
	FOLDER_WRITE("d", "Git 1.7.12.1\n");
	FOLDER_WRITE("e", "abolish\nacos\nos\nsystem\n");
	FOLDER_WRITE("f", "\x80\x04\xff\xff");
	FOLDER_WRITE("g", "\x80\x04]N");
	FOLDER_WRITE("h", "x\x9c no zlib");
	expect(true, "");
}

/* A name that many files share is not what says that a pickle is one: here after 9,000
 * bytes of text. */
static void a_long_text_in_front_hides_nothing(void **state)
{
	(void)state;
	static char bytes[9100];
	memset(bytes, 'a', sizeof bytes);
	memcpy(bytes, "S'", 2);
	memcpy(bytes + 9000, "'\n0" EVIL, sizeof EVIL + 2);
	folder_write("line", bytes, 9000 + sizeof EVIL + 2);
	memcpy(bytes, "B\x23\x23\0\0", 5); /* 8,995 bytes: up to the quote */
	bytes[9000] = 'N';
	bytes[9001] = '0';
	bytes[9002] = '0';
	folder_write("count", bytes, 9000 + sizeof EVIL + 2);
	expect(true, "FI3016 w count; FI3001 e count; FI3016 w line; FI3001 e line");
	memcpy(bytes + 9003, "and so on", 9);
	folder_write("count", bytes, sizeof bytes);
	folder_write("line", bytes + 1, sizeof bytes - 1);
	expect(true, "");
}

static void expect_limited(const char *name, uint64_t value, const char *expected)
{
	const struct fsdp_limit_setting limit = { name, value };
	const struct fsdp_options options = { .limits = &limit, .limit_count = 1 };
	expect_within(folder, &options, true, expected);
}

static void limits_are_told(void **state)
{
	(void)state;
	make_folder("a");
	make_folder("a/b");
	FOLDER_WRITE("a/b/x", EVIL);
	expect_limited("beside-depth", 2, "FI3001 e a/b/x");
	expect_limited("beside-depth", 1, "FI9006 w a/b");
	expect_limited("beside-files", 3, "FI3001 e a/b/x");
	expect_limited("beside-files", 2, "FI9006 w a/b/x");
	expect_limited("beside-bytes", sizeof EVIL - 1, "FI3001 e a/b/x");
	expect_limited("beside-bytes", sizeof EVIL - 2, "FI9006 w a/b/x");
}

/* The first ones have names. */
static void of_many_that_are_not_judged_the_rest_is_counted(void **state)
{
	(void)state;
	char name[16];
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof name, "%d", i);
		FOLDER_WRITE(name, "PK\3\4 no zip, though it begins as one");
	}
	expect(true,
		"FI9006 w 0; FI9006 w 1; FI9006 w 2; FI9006 w 3; FI9006 w 4; FI9006 w 5; FI9006 w 6; FI9006 w 7; FI9006 w ");
}

/* Of what was opened as a part of another folder all of that counts. */
static void the_folder_that_was_named_counts(void **state)
{
	(void)state;
	char below[512], file[512];
	const struct fsdp_options options = { .within = folder };
	make_folder("a");
	FOLDER_WRITE("a/model.safetensors", MODEL);
	FOLDER_WRITE("a/config.json", CONFIG);
	FOLDER_WRITE("a/training_args.bin", EVIL);
	FOLDER_WRITE("x", EVIL);
	folder_path("a", below);
	folder_path("a/model.safetensors", file);
	expect_within(below, NULL, true, "FI3001 e training_args.bin");
	expect_within(below, &options, true, "FI3001 e training_args.bin; FI3001 e ../x");
	expect_within(file, &options, true, "FI3001 e ../x; FI3001 e training_args.bin");
	expect_within(file, NULL, true, "");
}

static void what_was_not_read_is_counted(void **state)
{
	(void)state;
	const struct fsdp_options options = {
		.size = sizeof options, .count_beside = true, .no_plan = true
	};
	const char *path = folder;
	struct fsdp_checkpoint *checkpoint = NULL;
	char name[32];
	bool more = true;
	make_folder("a");
	FOLDER_WRITE("a/x", EVIL);
	FOLDER_WRITE("training_args.bin", "\x80\x02N.");
	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	assert_int_equal(fsdp_checkpoint_unread(checkpoint, &more), 2);
	assert_false(more);
	assert_int_equal(fsdp_finding_count(checkpoint), 0);
	fsdp_checkpoint_free(checkpoint);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "a/%d", i);
		FOLDER_WRITE(name, "text");
	}
	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	assert_int_equal(fsdp_checkpoint_unread(checkpoint, &more), 1);
	assert_true(more);
	fsdp_checkpoint_free(checkpoint);
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
	expect(true, "FI1008 w rng_state_1.pth");
	FOLDER_WRITE("rng_state_1.pth", "\x80\x02N.");
	expect(true, "");
	FOLDER_WRITE("rng_state_3.pth", "\x80\x02N.");
	expect(true, "FI1008 w rng_state_2.pth");
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
		TEST(a_pickle_that_nothing_names_is_judged),
		TEST(a_broken_pickle_is_judged_up_to_the_break),
		TEST(texts_are_no_pickles),
		TEST(a_long_text_in_front_hides_nothing),
		TEST(limits_are_told),
		TEST(of_many_that_are_not_judged_the_rest_is_counted),
		TEST(the_folder_that_was_named_counts),
		TEST(what_was_not_read_is_counted),
		TEST(what_is_no_file_of_torch_is_told),
		TEST(a_lone_rank_has_others),
		TEST(code_that_comes_with_a_model_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
