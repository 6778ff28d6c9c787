/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints lie below a folder, and where the search ends. */
#include <sys/stat.h>

#include "open-bytes.h"

static void copy_model(const char *root, const char *below)
{
	char path[256];
	size_t size;
	unsigned char *data = read_sample("torch-zip/state-dict/model.pt", &size);
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", root, below);
	for (char *slash = path + strlen(root);
		(slash = strchr(slash + 1, '/')) != NULL;) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
	free(data);
}

static struct fsdp_discover *look(const char *root, uint64_t most)
{
	const struct fsdp_limit_setting limit = { "below", most };
	const struct fsdp_options options = {
		.size = sizeof options, .limits = &limit, .limit_count = 1
	};
	struct fsdp_discover *below;

	assert_true(fsdp_discover_new(root, &options, &below, NULL));
	return below;
}

/* Each test has a folder of its own. */
static int begin(void **state)
{
	static char root[64];

	snprintf(root, sizeof root, "/tmp/test-below-XXXXXX");
	*state = mkdtemp(root);
	return *state == NULL;
}

static int end(void **state)
{
	char command[128];

	snprintf(command, sizeof command, "rm -r %s", (char *)*state);
	return system(command);
}

static void expect(const struct fsdp_discover *below, size_t index, const char *root,
	const char *path)
{
	char expected[256];

	snprintf(expected, sizeof expected, "%s/%s", root, path);
	assert_string_equal(fsdp_discover_path(below, index), expected);
}

static void three_levels_are_searched(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;

	copy_model(root, "a/b/c/deep.pt");
	copy_model(root, "a/b/c/d/too-deep.pt");
	copy_model(root, "top.pt");
	copy_model(root, ".hidden/model.pt");
	below = look(root, 0);
	assert_int_equal(fsdp_discover_count(below), 2);
	expect(below, 0, root, "top.pt");
	expect(below, 1, root, "a/b/c/deep.pt");
	assert_null(fsdp_discover_path(below, 2));
	assert_false(fsdp_discover_limit_reached(below));
	fsdp_discover_free(below);
}

/* Rank files make their folder one checkpoint; code and notes make none. */
static void a_set_is_one_and_other_files_are_none(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;
	char path[256];
	FILE *file;

	copy_model(root, "step-1/rank0.pt");
	copy_model(root, "step-1/rank1.pt");
	snprintf(path, sizeof path, "%s/train.py", root);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("import torch\n", file);
	fclose(file);
	snprintf(path, sizeof path, "%s/loop", root);
	assert_int_equal(symlink(".", path), 0);
	below = look(root, 0);
	assert_int_equal(fsdp_discover_count(below), 1);
	expect(below, 0, root, "step-1");
	fsdp_discover_free(below);
}

static void the_number_of_entries_is_bounded(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;

	copy_model(root, "a/model.pt");
	copy_model(root, "b/model.pt");
	below = look(root, 4);
	assert_int_equal(fsdp_discover_count(below), 2);
	assert_false(fsdp_discover_limit_reached(below));
	fsdp_discover_free(below);
	below = look(root, 3);
	assert_int_equal(fsdp_discover_count(below), 1);
	assert_true(fsdp_discover_limit_reached(below));
	fsdp_discover_free(below);
}

/* Nothing bears on a file but the plan; one that may be of a set is not known alone. */
static void files_are_lone(void **state)
{
	const char *root = *state;
	struct fsdp_options options = { .size = sizeof options, .single_file = true };
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_discover *below;
	struct fsdp_plan_facts info;
	const char *plan, *path;
	char text[256];
	size_t size;
	unsigned char *data =
		read_sample("fsdp2/w4-empty-shard/expected/plan.fsdp-plan.json", &size);
	FILE *file;

	copy_model(root, "a/step_1.pt");
	copy_model(root, "a/step_2_rank0.pt");
	copy_model(root, "a/step_3/model.pt");
	assert_true(fsdp_discover_new_run(root, NULL, &below, NULL));
	assert_true(fsdp_discover_is_lone(below, 0, &plan));
	assert_null(plan);
	assert_false(fsdp_discover_is_lone(below, 1, &plan));
	assert_false(fsdp_discover_is_lone(below, 2, &plan));
	assert_false(fsdp_discover_is_lone(below, 3, &plan));
	assert_null(fsdp_discover_unclear(below));
	fsdp_discover_free(below);
	snprintf(text, sizeof text, "%s/a/x.fsdp-plan.json", root);
	file = fopen(text, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
	free(data);
	assert_true(fsdp_discover_new_run(root, NULL, &below, NULL));
	assert_true(fsdp_discover_is_lone(below, 0, &plan));
	assert_string_equal(plan, text);
	path = fsdp_discover_path(below, 0);
	options.plan_beside = plan;
	assert_true(fsdp_checkpoint_open(&path, 1, &options, &checkpoint, NULL));
	assert_true(fsdp_checkpoint_plan(checkpoint, &info));
	assert_string_equal(info.path, text);
	fsdp_checkpoint_free(checkpoint);
	fsdp_discover_free(below);
}

static void nothing_is_found_where_nothing_is(void **state)
{
	struct fsdp_discover *below = look(*state, 0);

	assert_int_equal(fsdp_discover_count(below), 0);
	fsdp_discover_free(below);
	below = look("/nowhere/at/all", 0);
	assert_int_equal(fsdp_discover_count(below), 0);
	fsdp_discover_free(below);
	fsdp_discover_free(NULL);
}

/* ---- the folder of a run ---- */

static struct fsdp_discover *look_at_run(const char *root)
{
	struct fsdp_discover *below;

	assert_true(fsdp_discover_new_run(root, NULL, &below, NULL));
	return below;
}

static void write_text(const char *root, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void make_folder(const char *root, const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void steps_count_whatever_they_hold(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;

	copy_model(root, "step-10/rank0.pt");
	make_folder(root, "step-20");
	make_folder(root, "logs");
	copy_model(root, "final/model.pt");
	write_text(root, "step-30.ckpt", "");
	write_text(root, "step-40.log", "");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 4);
	expect(below, 0, root, "step-10");
	expect(below, 1, root, "step-20");
	expect(below, 2, root, "step-30.ckpt");
	expect(below, 3, root, "final/model.pt");
	assert_int_equal(fsdp_discover_step(below, 1).step, 20);
	assert_int_equal(fsdp_discover_step(below, 3).step, -1);
	assert_int_equal(fsdp_discover_step(below, 4).step, -1);
	fsdp_discover_free(below);
}

static void epochs_are_searched_for_steps(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;

	make_folder(root, "epoch_0");
	make_folder(root, "epoch_1");
	make_folder(root, "epoch_0/step-5");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 2);
	expect(below, 0, root, "epoch_0/step-5");
	expect(below, 1, root, "epoch_1");
	fsdp_discover_free(below);
}

/* sft_ba512 may be the batch size of a run, or a step whose save was lost. */
static void a_run_may_be_named_as_a_step(void **state)
{
	char root[128];
	struct fsdp_discover *below;

	snprintf(root, sizeof root, "%s/sft_ba512", (char *)*state);
	make_folder(*state, "sft_ba512");
	make_folder(root, "logs");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 1);
	assert_string_equal(fsdp_discover_path(below, 0), root);
	assert_int_equal(fsdp_discover_step(below, 0).step, 512);
	fsdp_discover_free(below);
	make_folder(root, "out");
	make_folder(root, "out/checkpoint-9");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 1);
	expect(below, 0, root, "out/checkpoint-9");
	fsdp_discover_free(below);
	/* Below the folder that was named, names of epochs are believed. */
	make_folder(*state, "epoch_1");
	make_folder(*state, "epoch_1/logs");
	below = look_at_run(*state);
	assert_int_equal(fsdp_discover_count(below), 2);
	expect(below, 0, *state, "sft_ba512");
	expect(below, 1, *state, "epoch_1");
	fsdp_discover_free(below);
}

static void a_checkpoint_without_steps_is_the_only_one(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;

	copy_model(root, "rank0.pt");
	copy_model(root, "rank1.pt");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 1);
	assert_string_equal(fsdp_discover_path(below, 0), root);
	fsdp_discover_free(below);
	/* What lies beside steps belongs to the run. */
	make_folder(root, "checkpoint-5");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 1);
	expect(below, 0, root, "checkpoint-5");
	fsdp_discover_free(below);
}

static void expect_pointer(const struct fsdp_discover *below, size_t index,
	const char *name, const char *target)
{
	struct fsdp_tracker pointer = fsdp_discover_tracker(below, index);

	assert_non_null(pointer.path);
	assert_string_equal(strrchr(pointer.path, '/') + 1, name);
	assert_int_equal(pointer.target.size, strlen(target));
	assert_memory_equal(pointer.target.data, target, pointer.target.size);
}

static void pointers_are_files_and_links(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;
	char path[256];

	make_folder(root, "step-10");
	snprintf(path, sizeof path, "%s/latest-step", root);
	assert_int_equal(symlink("step-10", path), 0);
	write_text(root, "last_checkpoint", "/scratch/run/step-10/\n");
	write_text(root, "latest", "step-10");
	write_text(root, "latest_checkpointed_iteration.txt", "10\n");
	write_text(root, "latest_checkpoint", " \n");
	write_text(root, "latest.txt", "step-10\nstep-20\n");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 1);
	expect_pointer(below, 0, "last_checkpoint", "step-10");
	expect_pointer(below, 1, "latest", "step-10");
	expect_pointer(below, 2, "latest-step", "step-10");
	expect_pointer(below, 3, "latest_checkpointed_iteration.txt", "10");
	assert_null(fsdp_discover_tracker(below, 4).path);
	fsdp_discover_free(below);
}

static void files_of_ranks_are_one_step(void **state)
{
	const char *root = *state;
	struct fsdp_discover *below;

	copy_model(root, "ep0-ba10-rank0.pt");
	copy_model(root, "ep0-ba10-rank1.pt");
	copy_model(root, "ep0-ba20-rank0.pt");
	below = look_at_run(root);
	assert_int_equal(fsdp_discover_count(below), 2);
	expect(below, 0, root, "ep0-ba10-rank0.pt");
	expect(below, 1, root, "ep0-ba20-rank0.pt");
	fsdp_discover_free(below);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(three_levels_are_searched, begin, end),
		cmocka_unit_test_setup_teardown(
			a_set_is_one_and_other_files_are_none, begin, end),
		cmocka_unit_test_setup_teardown(
			the_number_of_entries_is_bounded, begin, end),
		cmocka_unit_test_setup_teardown(
			nothing_is_found_where_nothing_is, begin, end),
		cmocka_unit_test_setup_teardown(
			steps_count_whatever_they_hold, begin, end),
		cmocka_unit_test_setup_teardown(
			epochs_are_searched_for_steps, begin, end),
		cmocka_unit_test_setup_teardown(files_are_lone, begin, end),
		cmocka_unit_test_setup_teardown(a_run_may_be_named_as_a_step, begin, end),
		cmocka_unit_test_setup_teardown(
			a_checkpoint_without_steps_is_the_only_one, begin, end),
		cmocka_unit_test_setup_teardown(pointers_are_files_and_links, begin, end),
		cmocka_unit_test_setup_teardown(files_of_ranks_are_one_step, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
