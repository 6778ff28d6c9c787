/* SPDX-License-Identifier: Apache-2.0 */
/* Storages that are seen in part: through one view or many, past their ends, and known
 * only when their container was read. */
#include <fsdp/analysis.h>

#include "by-hand.h"

static struct fsdp_unused *waste_new(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_unused *waste = NULL;

	assert_true(fsdp_unused_new(checkpoint, &waste, NULL));
	assert_int_equal(fsdp_unused_count(waste), 0);
	return waste;
}

static void assert_row(const struct fsdp_unused *waste, size_t index, const char *key,
	uint64_t stored, uint64_t used, size_t views)
{
	struct fsdp_unused_row row = fsdp_unused_row(waste, index);

	assert_true(fsdp_span_is(row.storage, key));
	assert_int_equal(row.stored_bytes, stored);
	assert_int_equal(row.used_bytes, used);
	assert_int_equal(row.view_count, views);
	assert_int_equal(fsdp_unused_tensor(waste, &row, views), FSDP_NONE);
}

static void ranges_of_views_are_joined(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "f", FSDP_NONE);
	uint32_t a = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "a", 100);
	uint32_t b = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "b", 400);
	uint32_t c = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "c", 8);
	struct fsdp_unused *waste;
	struct fsdp_unused_row row;
	size_t asked;

	view_by_hand(checkpoint, "a.1", a, 5, 0, 1);
	view_by_hand(checkpoint, "a.2", a, 5, 3, 1);
	view_by_hand(checkpoint, "a.3", a, 0, 20, 1);
	view_by_hand(checkpoint, "b.1", b, 2, 10, 20);
	view_by_hand(checkpoint, "c.1", c, 2, 0, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	(void)fsdp_unused_to_locate(waste, &asked);
	assert_int_equal(asked, 0);
	assert_true(fsdp_unused_finish(waste, NULL));
	assert_int_equal(fsdp_unused_count(waste), 2);
	/* From the first element to the last one, gaps included. */
	assert_row(waste, 0, "b", 400, 84, 1);
	assert_row(waste, 1, "a", 100, 32, 3);
	row = fsdp_unused_row(waste, 1);
	assert_int_equal(fsdp_unused_tensor(waste, &row, 0), 0);
	assert_int_equal(fsdp_unused_tensor(waste, &row, 1), 1);
	row = fsdp_unused_row(waste, 2);
	assert_int_equal(row.file, FSDP_NONE);
	assert_int_equal(fsdp_unused_tensor(waste, &row, 0), FSDP_NONE);
	fsdp_unused_free(waste);
}

/* A storage of which nothing is a view is all waste; one of an empty view is told once.
 */
static void storages_without_views_are_waste(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "f", FSDP_NONE);
	uint32_t a = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "a", 100);
	struct fsdp_unused *waste;

	(void)storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "b", 200);
	(void)storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "none", 0);
	view_by_hand(checkpoint, "a.1", a, 0, 0, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	assert_true(fsdp_unused_finish(waste, NULL));
	assert_int_equal(fsdp_unused_count(waste), 2);
	assert_row(waste, 0, "b", 200, 0, 0);
	assert_row(waste, 1, "a", 100, 0, 1);
	fsdp_unused_free(waste);
}

/* Whatever a file claims, no more is seen than is stored. */
static void huge_views_end_with_their_storage(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "f", FSDP_NONE);
	uint32_t a = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "a", 100);
	uint32_t b = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "b", 100);
	uint32_t c = storage_by_hand(checkpoint, file, FSDP_EXTENT_BYTES, "c", 100);
	struct fsdp_unused *waste;

	view_by_hand(checkpoint, "a", a, 3, 5, INT64_MAX);
	view_by_hand(checkpoint, "b", b, 2, UINT64_C(1) << 62, 1);
	view_by_hand(checkpoint, "c", c, INT64_C(1) << 60, 24, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	assert_true(fsdp_unused_finish(waste, NULL));
	assert_int_equal(fsdp_unused_count(waste), 3);
	assert_row(waste, 0, "b", 100, 0, 1);
	assert_row(waste, 1, "c", 100, 4, 1);
	assert_row(waste, 2, "a", 100, 80, 1);
	fsdp_unused_free(waste);
}

/* Items of a DCP file: one storage key in each, and all may be called "0". */
static void unknown_storages_are_asked_for(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "f", FSDP_NONE);
	uint32_t a =
		storage_by_hand(checkpoint, file, FSDP_EXTENT_ITEM, NULL, FSDP_UNKNOWN);
	uint32_t b =
		storage_by_hand(checkpoint, file, FSDP_EXTENT_ITEM, NULL, FSDP_UNKNOWN);
	const struct fsdp_place place = {
		.length = 8,
		.storage = FSDP_SPAN("0"),
		.storage_offset = 1,
		.storage_bytes = 40,
	};
	struct fsdp_unused *waste;
	const uint32_t *asked;
	size_t count;

	view_by_hand(checkpoint, "a", a, 2, 0, 1);
	view_by_hand(checkpoint, "b", b, 2, 0, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	asked = fsdp_unused_to_locate(waste, &count);
	assert_int_equal(count, 2);
	assert_int_equal(fsdp_piece(checkpoint, asked[1]).tensor, 1);
	fsdp_unused_place(waste, 1, &place);
	fsdp_unused_place(waste, 2, &place);
	fsdp_unused_place(waste, SIZE_MAX, &place);
	assert_true(fsdp_unused_finish(waste, NULL));
	/* The other one was not located. */
	assert_int_equal(fsdp_unused_count(waste), 1);
	assert_row(waste, 0, "0", 40, 8, 1);
	fsdp_unused_free(waste);
}

static void nothing_is_not_wasted(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_unused *waste;

	view_by_hand(checkpoint, "no bytes", FSDP_NONE, 2, 0, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	assert_true(fsdp_unused_finish(waste, NULL));
	assert_int_equal(fsdp_unused_count(waste), 0);
	fsdp_unused_free(waste);
	fsdp_unused_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			ranges_of_views_are_joined, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			storages_without_views_are_waste, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			huge_views_end_with_their_storage, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			unknown_storages_are_asked_for, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			nothing_is_not_wasted, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
