/* SPDX-License-Identifier: Apache-2.0 */
/* Which names suffer from a finding that tells only a file, a member or a range. */
#include <string.h>

#include "audit-by-hand.h"

static struct fsdp_audit *audit_of(
	const struct fsdp_checkpoint *checkpoint, enum fsdp_level level)
{
	struct fsdp_audit_options options = { .size = sizeof options, .level = level };
	struct fsdp_audit *audit = NULL;

	assert_true(fsdp_audit_new(checkpoint, &options, &audit, NULL));
	return audit;
}

/* ---- how much is lost ---- */

/* A tensor of 16 bytes whose pieces are in these files. */
static void spread_over(
	struct fsdp_checkpoint *checkpoint, const char *name, const uint32_t files[2])
{
	static const int64_t FULL[] = { 4 };
	uint32_t tensor =
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_PARAM, FULL, 1);

	for (uint32_t i = 0; i < 2; i++) {
		struct fsdp_piece_record piece = whole_by_hand(tensor, i,
			storage_by_hand(
				checkpoint, files[i], FSDP_EXTENT_BYTES, NULL, 8));
		const int64_t box[] = { 2 * i, 2 };

		piece.box = fsdp_build_ints(&checkpoint->model, box, 2);
		assert_int_not_equal(
			fsdp_build_piece(&checkpoint->model, &piece), FSDP_NONE);
	}
}

static void what_a_lost_file_held_is_named_and_counted(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t first = file_by_hand(checkpoint, "a", 0);
	uint32_t second = file_by_hand(checkpoint, "b", 1);
	const struct fsdp_finding *finding;
	struct fsdp_audit *audit;

	spread_over(checkpoint, "t", (uint32_t[]){ first, second });
	spread_over(checkpoint, "u", (uint32_t[]){ second, second });
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_A_CHECKPOINT,
		FSDP_PLACE(.file = FSDP_SPAN("a")), "a page");
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_A_CHECKPOINT,
		FSDP_PLACE(.file = FSDP_SPAN("b")), "another page");
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_A_CHECKPOINT,
		FSDP_PLACE(.file = FSDP_SPAN("c")), "another page");
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_RANK_MISSING,
		FSDP_PLACE(.rank = 7), "no rank 7");
	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	finding = fsdp_audit_finding(audit, 0);
	assert_int_equal(finding->affected_count, 1);
	assert_memory_equal(finding->affected[0].data, "t", 1);
	assert_int_equal(finding->affected_bytes, 8);
	/* Two files with one cause are one finding. */
	finding = fsdp_audit_finding(audit, 1);
	assert_true(fsdp_span_is(finding->message, "another page; also c"));
	assert_int_equal(finding->affected_count, 2);
	assert_int_equal(finding->affected_bytes, 24);
	finding = fsdp_audit_finding(audit, 2);
	assert_int_equal(finding->affected_count, 2);
	assert_int_equal(finding->affected_bytes, FSDP_UNKNOWN);
	fsdp_audit_free(audit);
}

/* The other rank has all of it, too. */
static void what_is_stored_twice_is_not_counted_as_lost(void **state)
{
	static const int64_t FULL[] = { 4 };
	struct fsdp_checkpoint *checkpoint = *state;
	const struct fsdp_finding *finding;
	struct fsdp_audit *audit;
	uint32_t tensor =
		tensor_by_hand(checkpoint, "t", "float32", FSDP_ROLE_PARAM, FULL, 1);

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t file = file_by_hand(checkpoint, i == 0 ? "a" : "b", i);
		struct fsdp_piece_record piece = whole_by_hand(tensor, i,
			storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, NULL, 16));

		assert_int_not_equal(
			fsdp_build_piece(&checkpoint->model, &piece), FSDP_NONE);
	}
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_A_CHECKPOINT,
		FSDP_PLACE(.file = FSDP_SPAN("a")), "a page");
	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	finding = fsdp_audit_finding(audit, 0);
	assert_int_equal(finding->affected_count, 1);
	assert_int_equal(finding->affected_bytes, FSDP_UNKNOWN);
	fsdp_audit_free(audit);
}

/* ---- every rule that has such findings ---- */

/* An item of 16 bytes at this place of the file. */
static void put_item(struct fsdp_checkpoint *checkpoint, const char *name, uint32_t file,
	uint64_t offset)
{
	static const int64_t FULL[] = { 4 };
	const struct fsdp_extent extent = { .offset = offset,
		.length = 16,
		.size = 16,
		.file = file,
		.kind = FSDP_EXTENT_ITEM };
	uint32_t tensor =
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_PARAM, FULL, 1);
	struct fsdp_piece_record piece = whole_by_hand(tensor, FSDP_NONE,
		fsdp_build_extent(&checkpoint->model, &extent, (struct fsdp_span){ 0 }));

	assert_int_not_equal(fsdp_build_piece(&checkpoint->model, &piece), FSDP_NONE);
}

/* Of a file "a" of 100 bytes, in which `first` lies at 10, `second` at 50 and `last` at
 * 90, and a file "b" with `other`; the finding is at byte 55 of "a". */
static const struct {
	enum fsdp_rule_index rule;
	const char *names;
} rows[] = {
	{ FSDP_RULE_MISSING_FILE, "first last second" },
	{ FSDP_RULE_EMPTY_FILE, "first last second" },
	{ FSDP_RULE_TRUNCATED_FILE, "last" },
	{ FSDP_RULE_RANK_MISSING, "first last second other" },
	{ FSDP_RULE_RANK_IDENTITY, "first last second" },
	{ FSDP_RULE_STORAGE_RANGE, "last" },
	{ FSDP_RULE_ZIP_UNREADABLE, "first last second" },
	{ FSDP_RULE_TORCH_RECORD, "second" },
	{ FSDP_RULE_STORAGE_SIZE, "second" },
	{ FSDP_RULE_SAFETENSORS_HEADER, "first last second" },
	{ FSDP_RULE_CRC_MISMATCH, "second" },
	{ FSDP_RULE_INFLATE_ERROR, "second" },
	{ FSDP_RULE_DIGEST_MISMATCH, "first last second" },
	{ FSDP_RULE_MANIFEST_MISMATCH, "first last second" },
	{ FSDP_RULE_NOT_A_CHECKPOINT, "first last second" },
	{ FSDP_RULE_ORPHAN_FILE, "" },
	{ FSDP_RULE_FILE_HOLE, "" },
};

static void each_rule_names_what_lies_there(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t a = file_by_hand(checkpoint, "a", FSDP_NONE);
	uint32_t b = file_by_hand(checkpoint, "b", FSDP_NONE);
	struct fsdp_audit *audit;

	put_item(checkpoint, "first", a, 10);
	put_item(checkpoint, "second", a, 50);
	put_item(checkpoint, "last", a, 90);
	put_item(checkpoint, "other", b, 0);
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		fsdp_find(&checkpoint->model.findings, rows[i].rule,
			FSDP_PLACE(.file = FSDP_SPAN("a"), .offset = 55), "a finding");
	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);
		char names[256] = "";

		for (size_t k = 0; k < finding->affected_count; k++)
			snprintf(names + strlen(names), sizeof names - strlen(names),
				"%s%.*s", k > 0 ? " " : "",
				FSDP_TEXT(finding->affected[k]));
		if (strcmp(names, rows[i].names) != 0)
			fail_msg("%s: \"%s\"", finding->rule->id, names);
	}
	fsdp_audit_free(audit);
}

/* Such as random states of other ranks. */
static void nothing_suffers_from_what_is_only_noted(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	put_item(checkpoint, "t", file_by_hand(checkpoint, "a", 0), 0);
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_RANK_MISSING,
		FSDP_PLACE(.rank = 7, .severity = FSDP_NOTE + 1), "no rank 7");
	freeze_by_hand(checkpoint);
	struct fsdp_audit *audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	assert_int_equal(fsdp_audit_finding(audit, 0)->affected_count, 0);
	fsdp_audit_free(audit);
}

/* ---- values ---- */

static void put_value(struct fsdp_checkpoint *checkpoint, const char *name, uint32_t file)
{
	struct fsdp_token *token = FSDP_TAKE(checkpoint->model.arena, token, 1);
	uint32_t id = name_by_hand(checkpoint, name);
	const struct fsdp_value_record value = {
		.name = id,
		.raw_name = id,
		.path = FSDP_NONE,
		.file = file,
		.rank = FSDP_NONE,
		.token_count = 1,
		.tokens = token,
		.type = "int",
	};

	assert_non_null(token);
	*token = (struct fsdp_token){ .kind = FSDP_TOKEN_INTEGER, .integer = 1 };
	assert_int_not_equal(fsdp_build_value(&checkpoint->model, &value), FSDP_NONE);
}

/* They are named behind the tensors of their file, and are no shards. */
static void values_of_a_lost_file_suffer_with_its_tensors(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t first = file_by_hand(checkpoint, "a", 0);
	uint32_t second = file_by_hand(checkpoint, "b", 1);
	const struct fsdp_finding *finding;
	struct fsdp_audit *audit;

	put_value(checkpoint, "epoch", first);
	put_value(checkpoint, "step", second);
	put_value(checkpoint, "unplaced", FSDP_NONE);
	put_item(checkpoint, "t", second, 0);
	put_item(checkpoint, "u", first, 0);
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_A_CHECKPOINT,
		FSDP_PLACE(.file = FSDP_SPAN("b")), "another page");
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_A_CHECKPOINT,
		FSDP_PLACE(.file = FSDP_SPAN("c")), "another page");
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_RANK_MISSING,
		FSDP_PLACE(.rank = 7), "no rank 7");
	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	finding = fsdp_audit_finding(audit, 0);
	assert_int_equal(finding->affected_count, 2);
	assert_memory_equal(finding->affected[0].data, "t", 1);
	assert_memory_equal(finding->affected[1].data, "step", 4);
	assert_int_equal(finding->affected_bytes, 16);
	assert_int_equal(fsdp_audit_finding(audit, 1)->affected_count, 2);
	fsdp_audit_free(audit);
}

/* A global is not a tensor, whatever its name. */
static void a_global_is_no_name_that_suffers(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_audit *audit;

	fsdp_find(&checkpoint->model.findings, FSDP_RULE_PICKLE_GLOBAL,
		FSDP_PLACE(.tensor = FSDP_SPAN("os.system")), "a global");
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_INDEX_MISSING,
		FSDP_PLACE(.tensor = FSDP_SPAN("a.weight")), "no file has it");
	freeze_by_hand(checkpoint);
	audit = audit_of(checkpoint, FSDP_LEVEL_HEADERS);
	assert_int_equal(fsdp_audit_finding(audit, 0)->affected_count, 0);
	assert_int_equal(fsdp_audit_finding(audit, 1)->affected_count, 1);
	fsdp_audit_free(audit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(what_a_lost_file_held_is_named_and_counted),
		BY_HAND(what_is_stored_twice_is_not_counted_as_lost),
		BY_HAND(each_rule_names_what_lies_there),
		BY_HAND(nothing_suffers_from_what_is_only_noted),
		BY_HAND(values_of_a_lost_file_suffer_with_its_tensors),
		BY_HAND(a_global_is_no_name_that_suffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
