/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the pieces of a tensor cover it once: gaps, overlaps, and what looks alike. */
#include <fsdp/audit.h>

#include "by-hand.h"

enum { ROWS = 6, COLUMNS = 4 };

static uint32_t add(struct fsdp_checkpoint *checkpoint)
{
	static const int64_t SHAPE[] = { ROWS, COLUMNS };

	return tensor_by_hand(checkpoint, "w", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
}

static void cut(struct fsdp_checkpoint *checkpoint, uint32_t tensor, int64_t row,
	int64_t column, int64_t rows, int64_t columns)
{
	const int64_t box[] = { row, column, rows, columns };

	piece_by_hand(checkpoint, tensor, 0, box, 2);
}

/* The rule of the only finding that the check gives, and its message; "" for none. */
static void judge_frozen(
	struct fsdp_checkpoint *checkpoint, const char *rule, const char *text)
{
	struct fsdp_audit_options options = { .size = sizeof options,
		.level = FSDP_LEVEL_HEADERS };
	struct fsdp_audit *audit = NULL;
	size_t found = 0;

	assert_true(fsdp_audit_new(checkpoint, &options, &audit, NULL));
	for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);
		if (strcmp(finding->rule->id, "FI1021") != 0 &&
			strcmp(finding->rule->id, "FI1022") != 0)
			continue;
		found++;
		assert_string_equal(finding->rule->id, rule);
		assert_int_equal(finding->message.size, strlen(text));
		assert_memory_equal(finding->message.data, text, strlen(text));
	}
	assert_int_equal(found, *rule != '\0');
	fsdp_audit_free(audit);
}

static void judge(struct fsdp_checkpoint *checkpoint, const char *rule, const char *text)
{
	freeze_by_hand(checkpoint);
	judge_frozen(checkpoint, rule, text);
}

static void a_grid_covers_in_any_order(void **state)
{
	uint32_t tensor = add(*state);

	for (int64_t i = 6; i-- > 0;)
		cut(*state, tensor, i / 2 * 2, i % 2 * 2, 2, 2);
	judge(*state, "", "");
}

static void a_lost_cell_is_a_gap(void **state)
{
	uint32_t tensor = add(*state);

	for (int64_t i = 0; i < 5; i++)
		cut(*state, tensor, i / 2 * 2, i % 2 * 2, 2, 2);
	judge(*state, "FI1021", "pieces cover 20 of 24 elements of the tensor");
}

static void lost_rows_are_named(void **state)
{
	uint32_t tensor = add(*state);

	cut(*state, tensor, 0, 0, 2, COLUMNS);
	cut(*state, tensor, 5, 0, 1, COLUMNS);
	judge(*state, "FI1021",
		"pieces cover 12 of 24 elements of the tensor: rows 2:5 are missing");
}

static void lost_rows_at_the_end_are_named(void **state)
{
	uint32_t tensor = add(*state);

	cut(*state, tensor, 0, 0, 5, COLUMNS);
	judge(*state, "FI1021",
		"pieces cover 20 of 24 elements of the tensor: rows 5:6 are missing");
}

/* As many elements as there are, so that only the boxes tell. */
static void an_overlap_that_fills_a_gap_is_found(void **state)
{
	uint32_t tensor = add(*state);

	cut(*state, tensor, 0, 0, 3, COLUMNS);
	cut(*state, tensor, 2, 0, 3, COLUMNS);
	judge(*state, "FI1022", "pieces [0:3, 0:4] and [2:5, 0:4] overlap");
}

static void an_overlap_in_the_second_dimension_is_found(void **state)
{
	uint32_t tensor = add(*state);

	cut(*state, tensor, 0, 0, ROWS, 3);
	cut(*state, tensor, 0, 2, ROWS, 2);
	judge(*state, "FI1022", "pieces [0:6, 0:3] and [0:6, 2:4] overlap");
}

static void replicas_and_empty_pieces_are_no_overlap(void **state)
{
	uint32_t tensor = add(*state);

	for (int i = 0; i < 3; i++) {
		cut(*state, tensor, 0, 0, 4, COLUMNS);
		cut(*state, tensor, 4, 0, 2, COLUMNS);
		cut(*state, tensor, 6, 0, 0, COLUMNS);
	}
	judge(*state, "", "");
}

/* Neither dimension alone tells these apart. */
static void bricks_that_lie_across_each_other_cover(void **state)
{
	uint32_t tensor = add(*state);

	cut(*state, tensor, 0, 0, 4, 2);
	cut(*state, tensor, 4, 0, 2, 2);
	cut(*state, tensor, 0, 2, 2, 2);
	cut(*state, tensor, 2, 2, 4, 2);
	cut(*state, tensor, 2, 2, 4, 2);
	judge(*state, "", "");
}

static void runs_cover_or_do_not(void **state)
{
	uint32_t tensor = add(*state);

	run_by_hand(*state, tensor, 0, 0, 10);
	run_by_hand(*state, tensor, 1, 10, 10);
	judge(*state, "FI1021",
		"pieces cover 20 of 24 elements of the tensor: elements 20:24 are missing");
}

static void runs_that_overlap_are_found(void **state)
{
	uint32_t tensor = add(*state);

	run_by_hand(*state, tensor, 0, 0, 13);
	run_by_hand(*state, tensor, 1, 11, 13);
	judge(*state, "FI1022", "pieces [0:13] and [11:24] overlap");
}

/* What is absent is told once: by the file, the rank or the list that lacks it. */
static void a_gap_that_is_explained_is_not_told(void **state)
{
	static const enum fsdp_rule_index reasons[] = { FSDP_RULE_RANK_MISSING,
		FSDP_RULE_MISSING_FILE, FSDP_RULE_EMPTY_FILE, FSDP_RULE_RANK_IDENTITY,
		FSDP_RULE_CHUNK_BOUNDS, FSDP_RULE_SHARDS_DISAGREE,
		FSDP_RULE_DTENSOR_LAYOUT, FSDP_RULE_NOT_EVALUATED,
		FSDP_RULE_NOT_A_CHECKPOINT, FSDP_RULE_TRUNCATED_FILE };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_vec *list = &checkpoint->model.findings.list;
	size_t count = list->count;

	cut(checkpoint, add(checkpoint), 0, 0, 5, COLUMNS);
	freeze_by_hand(checkpoint);
	for (size_t i = 0; i < FSDP_COUNT(reasons); i++) {
		fsdp_find(&checkpoint->model.findings, reasons[i],
			FSDP_PLACE(.file = FSDP_SPAN("a")), "it is absent");
		judge_frozen(checkpoint, "", "");
		fsdp_vec_truncate(list, count);
	}
	judge_frozen(checkpoint, "FI1021",
		"pieces cover 20 of 24 elements of the tensor: rows 5:6 are missing");
}

static void one_whole_piece_is_enough(void **state)
{
	uint32_t tensor = add(*state);

	cut(*state, tensor, 0, 0, 2, COLUMNS);
	piece_by_hand(*state, tensor, 1, NULL, 2);
	judge(*state, "", "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_by_hand, end_by_hand)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_grid_covers_in_any_order),
		TEST(a_lost_cell_is_a_gap),
		TEST(lost_rows_are_named),
		TEST(lost_rows_at_the_end_are_named),
		TEST(an_overlap_that_fills_a_gap_is_found),
		TEST(an_overlap_in_the_second_dimension_is_found),
		TEST(replicas_and_empty_pieces_are_no_overlap),
		TEST(bricks_that_lie_across_each_other_cover),
		TEST(runs_cover_or_do_not),
		TEST(runs_that_overlap_are_found),
		TEST(a_gap_that_is_explained_is_not_told),
		TEST(one_whole_piece_is_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
