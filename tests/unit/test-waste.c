/* SPDX-License-Identifier: Apache-2.0 */
/* Storages that are seen in part: through one view or many, past their ends, and known
 * only when their container was read. */
#include <fsdp/analysis.h>

#include "by-hand.h"

static uint32_t storage(struct fsdp_checkpoint *checkpoint, uint32_t file,
	enum fsdp_extent_kind kind, const char *key, uint64_t size)
{
	const struct fsdp_extent extent = {
		.offset = checkpoint->model.extents.count * 10,
		.length = 10,
		.size = size,
		.file = file,
		.kind = (uint8_t)kind,
	};
	uint32_t id = fsdp_build_extent(&checkpoint->model, &extent,
		key != NULL ? fsdp_span_text(key) : (struct fsdp_span){ 0 }, NULL);

	assert_int_not_equal(id, FSDP_NONE);
	return id;
}

/* A float32 tensor of `numel` elements from `offset` on, `stride` apart. */
static void view(struct fsdp_checkpoint *checkpoint, const char *name, uint32_t extent,
	int64_t numel, uint64_t offset, int64_t stride)
{
	uint32_t tensor =
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_PARAM, &numel, 1);
	struct fsdp_piece_record piece = whole_by_hand(tensor, FSDP_NONE, extent);

	piece.storage_offset = offset;
	if (stride != 1)
		piece.strides = fsdp_build_ints(&checkpoint->model, &stride, 1, NULL);
	assert_int_not_equal(
		fsdp_build_piece(&checkpoint->model, &piece, NULL), FSDP_NONE);
}

static struct fsdp_waste *waste_new(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_waste *waste = NULL;

	assert_true(fsdp_waste_new(checkpoint, &waste, NULL));
	assert_int_equal(fsdp_waste_count(waste), 0);
	return waste;
}

static void assert_row(const struct fsdp_waste *waste, size_t index, const char *key,
	uint64_t stored, uint64_t used, size_t views)
{
	struct fsdp_waste_row row = fsdp_waste_row(waste, index);

	assert_true(fsdp_span_is(row.storage, key));
	assert_int_equal(row.stored_bytes, stored);
	assert_int_equal(row.used_bytes, used);
	assert_int_equal(row.view_count, views);
	assert_int_equal(fsdp_waste_tensor(waste, &row, views), FSDP_NONE);
}

static void ranges_of_views_are_joined(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "f", FSDP_NONE);
	uint32_t a = storage(checkpoint, file, FSDP_EXTENT_BYTES, "a", 100);
	uint32_t b = storage(checkpoint, file, FSDP_EXTENT_BYTES, "b", 400);
	uint32_t c = storage(checkpoint, file, FSDP_EXTENT_BYTES, "c", 8);
	struct fsdp_waste *waste;
	struct fsdp_waste_row row;
	size_t asked;

	view(checkpoint, "a.1", a, 5, 0, 1);
	view(checkpoint, "a.2", a, 5, 3, 1);
	view(checkpoint, "a.3", a, 0, 20, 1);
	view(checkpoint, "b.1", b, 2, 10, 20);
	view(checkpoint, "c.1", c, 2, 0, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	(void)fsdp_waste_asks(waste, &asked);
	assert_int_equal(asked, 0);
	assert_true(fsdp_waste_finish(waste, NULL));
	assert_int_equal(fsdp_waste_count(waste), 2);
	/* From the first element to the last one, gaps included. */
	assert_row(waste, 0, "b", 400, 84, 1);
	assert_row(waste, 1, "a", 100, 32, 3);
	row = fsdp_waste_row(waste, 1);
	assert_int_equal(fsdp_waste_tensor(waste, &row, 0), 0);
	assert_int_equal(fsdp_waste_tensor(waste, &row, 1), 1);
	row = fsdp_waste_row(waste, 2);
	assert_int_equal(row.file, FSDP_NONE);
	assert_int_equal(fsdp_waste_tensor(waste, &row, 0), FSDP_NONE);
	fsdp_waste_free(waste);
}

/* Whatever a file claims, no more is seen than is stored. */
static void huge_views_end_with_their_storage(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "f", FSDP_NONE);
	uint32_t a = storage(checkpoint, file, FSDP_EXTENT_BYTES, "a", 100);
	uint32_t b = storage(checkpoint, file, FSDP_EXTENT_BYTES, "b", 100);
	uint32_t c = storage(checkpoint, file, FSDP_EXTENT_BYTES, "c", 100);
	struct fsdp_waste *waste;

	view(checkpoint, "a", a, 3, 5, INT64_MAX);
	view(checkpoint, "b", b, 2, UINT64_C(1) << 62, 1);
	view(checkpoint, "c", c, INT64_C(1) << 60, 24, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	assert_true(fsdp_waste_finish(waste, NULL));
	assert_int_equal(fsdp_waste_count(waste), 3);
	assert_row(waste, 0, "b", 100, 0, 1);
	assert_row(waste, 1, "c", 100, 4, 1);
	assert_row(waste, 2, "a", 100, 80, 1);
	fsdp_waste_free(waste);
}

/* Items of a DCP file: one storage key in each, and all may be called "0". */
static void unknown_storages_are_asked_for(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t file = file_by_hand(checkpoint, "f", FSDP_NONE);
	uint32_t a = storage(checkpoint, file, FSDP_EXTENT_ITEM, NULL, FSDP_UNKNOWN);
	uint32_t b = storage(checkpoint, file, FSDP_EXTENT_ITEM, NULL, FSDP_UNKNOWN);
	const struct fsdp_place place = {
		.length = 8,
		.storage = FSDP_SPAN("0"),
		.storage_offset = 1,
		.storage_bytes = 40,
	};
	struct fsdp_waste *waste;
	const uint32_t *asked;
	size_t count;

	view(checkpoint, "a", a, 2, 0, 1);
	view(checkpoint, "b", b, 2, 0, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	asked = fsdp_waste_asks(waste, &count);
	assert_int_equal(count, 2);
	assert_int_equal(fsdp_piece(checkpoint, asked[1]).tensor, 1);
	fsdp_waste_place(waste, 1, &place);
	fsdp_waste_place(waste, 2, &place);
	fsdp_waste_place(waste, SIZE_MAX, &place);
	assert_true(fsdp_waste_finish(waste, NULL));
	/* The other one was not located. */
	assert_int_equal(fsdp_waste_count(waste), 1);
	assert_row(waste, 0, "0", 40, 8, 1);
	fsdp_waste_free(waste);
}

static void nothing_is_not_wasted(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_waste *waste;

	view(checkpoint, "no bytes", FSDP_NONE, 2, 0, 1);
	freeze_by_hand(checkpoint);
	waste = waste_new(checkpoint);
	assert_true(fsdp_waste_finish(waste, NULL));
	assert_int_equal(fsdp_waste_count(waste), 0);
	fsdp_waste_free(waste);
	fsdp_waste_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			ranges_of_views_are_joined, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			huge_views_end_with_their_storage, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			unknown_storages_are_asked_for, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			nothing_is_not_wasted, begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
