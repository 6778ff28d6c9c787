/* SPDX-License-Identifier: Apache-2.0 */
/* What did not open is looked through: which of its files, and at what cost. */
#include "by-hand.h"

#include <stdio.h>

#include "checkpoint/opening.h"

/* A pickle that has a loader call os.system. */
#define HARM       \
	"\x80\x02" \
	"cos\nsystem\n(X\x02\x00\x00\x00lstR."

static void pack(
	struct fsdp_checkpoint *checkpoint, const char *name, struct fsdp_span bytes)
{
	struct fsdp_packed *member = fsdp_vec_push(&checkpoint->packed);
	assert_non_null(member);
	*member = (struct fsdp_packed){
		.name = fsdp_arena_copy(&checkpoint->arena, fsdp_span_text(name)),
		.source = fsdp_source_memory(bytes),
	};
	assert_non_null(member->name.data);
}

static void look_through(struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_arena scratch;
	fsdp_arena_init(&scratch, &checkpoint->budget);
	fsdp_look_through(checkpoint, &scratch);
	fsdp_arena_done(&scratch);
}

/* How many findings of a rule name this file. */
static size_t count_found(
	const struct fsdp_checkpoint *checkpoint, const char *rule, const char *file)
{
	size_t count = 0;
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		count += strcmp(finding->rule->id, rule) == 0 &&
			 fsdp_span_is(finding->file, file);
	}
	return count;
}

static int begin(void **state)
{
	if (begin_by_hand(state) != 0)
		return -1;
	struct fsdp_checkpoint *checkpoint = *state;
	fsdp_vec_init(
		&checkpoint->packed, &checkpoint->arena, sizeof(struct fsdp_packed));
	fsdp_vec_init(
		&checkpoint->errors, &checkpoint->arena, sizeof(struct fsdp_error *));
	fsdp_vec_init(&checkpoint->notes, &checkpoint->arena, sizeof(const char *));
	checkpoint->is_folder = true;
	return 0;
}

static void files_that_were_read_are_left_out(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	file_by_hand(checkpoint, "b.pkl", FSDP_NONE);
	file_by_hand(checkpoint, "sub/c.pkl", FSDP_NONE);
	const char *const names[] = { "m/a.pkl", "m/b.pkl", "m/sub/c.pkl", "m/c.pkl",
		"m/xb.pkl" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		pack(checkpoint, names[i], FSDP_SPAN(HARM));
	look_through(checkpoint);
	assert_int_equal(count_found(checkpoint, "FI3001", "m/a.pkl"), 1);
	assert_int_equal(count_found(checkpoint, "FI3001", "m/b.pkl"), 0);
	assert_int_equal(count_found(checkpoint, "FI3001", "m/sub/c.pkl"), 0);
	assert_int_equal(count_found(checkpoint, "FI3001", "m/c.pkl"), 1);
	/* Its name ends with that of a file that was read, but it is another one. */
	assert_int_equal(count_found(checkpoint, "FI3001", "m/xb.pkl"), 1);
}

/* Steps grow with the files, not with their square. */
static void many_files_cost_few_steps_each(void **state)
{
	enum { FILES = 5000 };
	struct fsdp_checkpoint *checkpoint = *state;
	char name[32];
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof name, "m/%u.bin", i);
		file_by_hand(checkpoint, name + 2, FSDP_NONE);
		pack(checkpoint, name, FSDP_SPAN("x"));
	}
	look_through(checkpoint);
	assert_int_equal(fsdp_finding_count(checkpoint), 0);
	assert_true(checkpoint->budget.work >= FILES);
	assert_true(checkpoint->budget.work <= 4 * FILES);
}

static void too_much_work_is_told(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	checkpoint->budget.limits = &checkpoint->limits;
	checkpoint->budget.work = UINT64_C(1) << 40;
	pack(checkpoint, "a.pkl", FSDP_SPAN(HARM));
	pack(checkpoint, "b.pkl", FSDP_SPAN(HARM));
	look_through(checkpoint);
	assert_int_equal(fsdp_finding_count(checkpoint), 1);
	assert_int_equal(count_found(checkpoint, "FI9006", "a.pkl"), 1);
	assert_non_null(strstr((const char *)fsdp_finding(checkpoint, 0)->message.data,
		"those of later files were not checked: limit work"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			files_that_were_read_are_left_out, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(
			many_files_cost_few_steps_each, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(
			too_much_work_is_told, begin, end_by_hand),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
