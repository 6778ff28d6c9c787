/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration as settings: what lies in what, and where it ends. */
#include "audit-by-hand.h"

static void what_lies_in_what_is_kept(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_setting setting;

	configure(checkpoint, "config.json",
		"{\"a\": 1, \"b\": [\"x\", null, {}], \"c\": {\"d\": true}}");
	assert_int_equal(fsdp_setting_count(checkpoint), 8);
	setting = fsdp_setting(checkpoint, 0);
	assert_null(setting.key.data);
	assert_int_equal(setting.value.kind, FSDP_TOKEN_DICT);
	assert_int_equal(setting.value.count, 3);
	assert_int_equal(setting.end, 8);
	setting = fsdp_setting(checkpoint, 2);
	assert_memory_equal(setting.key.data, "b", 2);
	assert_int_equal(setting.value.kind, FSDP_TOKEN_LIST);
	assert_int_equal(setting.end, 6);
	setting = fsdp_setting(checkpoint, 3);
	assert_null(setting.key.data);
	assert_memory_equal(setting.value.text.data, "x", 2);
	assert_int_equal(fsdp_setting(checkpoint, 5).end, 6);
	setting = fsdp_setting(checkpoint, 7);
	assert_int_equal(setting.value.kind, FSDP_TOKEN_BOOL);
	assert_int_equal(setting.value.integer, 1);
	assert_int_equal(setting.file, 0);
}

static void a_second_file_follows(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	configure(checkpoint, "config.json", "[1, 2]");
	configure(checkpoint, "config.json", "7");
	assert_int_equal(fsdp_setting_count(checkpoint), 4);
	assert_int_equal(fsdp_setting(checkpoint, 0).end, 3);
	assert_int_equal(fsdp_setting(checkpoint, 3).file, 1);
	assert_int_equal(fsdp_setting(checkpoint, 3).value.integer, 7);
	freeze_by_hand(checkpoint);
}

/* [[0, …, 0], …]: `count` numbers, in lists that are packed. */
static void keep_numbers(struct fsdp_checkpoint *checkpoint, size_t count)
{
	char *text = malloc(2 * count + 16), *at = text;

	if (text == NULL)
		fail_msg("no memory");
	else
		at += sprintf(at, "[[0");
	for (size_t i = 1; i < count; i++)
		at += sprintf(at, ",0");
	sprintf(at, "]]");
	configure(checkpoint, "config.json", text);
	free(text);
}

static void too_many_are_cut(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	keep_numbers(checkpoint, FSDP_SETTINGS_MOST - 2);
	assert_int_equal(fsdp_setting_count(checkpoint), FSDP_SETTINGS_MOST);
	keep_numbers(checkpoint, FSDP_SETTINGS_MOST - 1);
	assert_int_equal(fsdp_setting_count(checkpoint), FSDP_SETTINGS_MOST + 1);
	assert_int_equal(
		fsdp_setting(checkpoint, FSDP_SETTINGS_MOST).value.kind, FSDP_TOKEN_CUT);
	freeze_by_hand(checkpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_lies_in_what_is_kept, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			a_second_file_follows, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			too_many_are_cut, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
