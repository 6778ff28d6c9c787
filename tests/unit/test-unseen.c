/* SPDX-License-Identifier: Apache-2.0 */
/* Storages that hold more than is seen of them, and tensors with several names. */
#include "audit-by-hand.h"

static uint32_t stored(struct fsdp_checkpoint *checkpoint, uint64_t bytes)
{
	return storage_by_hand(checkpoint, file_by_hand(checkpoint, "a.pt", FSDP_NONE),
		FSDP_EXTENT_MEMBER, "0", bytes);
}

/* 256 KiB of numbers out of 2 MiB. */
static void a_slice_keeps_its_storage(void **state)
{
	uint32_t extent = stored(*state, UINT64_C(2) << 20);

	view_by_hand(*state, "a", extent, 1 << 16, 0, 1);
	expect_findings(*state, "FI4006 note a\n");
}

static void much_waste_is_a_warning(void **state)
{
	uint32_t extent = stored(*state, UINT64_C(1) << 30);

	view_by_hand(*state, "a", extent, 1 << 16, 0, 1);
	expect_findings(*state, "FI4006 warning a\n");
}

/* Less than 1 MiB; more than half of it in use; and all of it through two views. */
static void little_waste_is_left_alone(void **state)
{
	view_by_hand(*state, "a", stored(*state, (1 << 20) - 4), 1 << 10, 0, 1);
	expect_findings(*state, "");
}

static void most_of_it_is_in_use(void **state)
{
	uint32_t extent = stored(*state, UINT64_C(2) << 20);

	view_by_hand(*state, "a", extent, 1 << 17, 0, 1);
	view_by_hand(*state, "b", extent, (1 << 17) + 1, 1 << 18, 1);
	expect_findings(*state, "");
}

static void two_names_are_one_tensor(void **state)
{
	uint32_t extent = stored(*state, 64);

	view_by_hand(*state, "embed.weight", extent, 16, 0, 1);
	view_by_hand(*state, "head.weight", extent, 16, 0, 1);
	expect_findings(*state, "FI4007 note embed.weight head.weight\n");
}

/* An EMA that is the model itself: one finding for all of them. */
static void tied_state_dicts_are_one_finding(void **state)
{
	static const char *const NAMES[] = { "ema.a", "model.a", "ema.b", "model.b" };
	uint32_t extent = 0;

	for (size_t i = 0; i < FSDP_COUNT(NAMES); i++) {
		extent = i % 2 == 0 ? stored(*state, 64) : extent;
		view_by_hand(*state, NAMES[i], extent, 16, 0, 1);
	}
	expect_findings(*state, "FI4007 note ema.a model.a ema.b model.b\n");
}

/* Other parts of one storage, and scalars. */
static void views_are_not_ties(void **state)
{
	uint32_t extent = stored(*state, 64);

	view_by_hand(*state, "a", extent, 8, 0, 1);
	view_by_hand(*state, "b", extent, 8, 8, 1);
	view_by_hand(*state, "c", extent, 1, 3, 1);
	view_by_hand(*state, "d", extent, 1, 3, 1);
	expect_findings(*state, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(a_slice_keeps_its_storage),
		BY_HAND(much_waste_is_a_warning),
		BY_HAND(little_waste_is_left_alone),
		BY_HAND(most_of_it_is_in_use),
		BY_HAND(two_names_are_one_tensor),
		BY_HAND(tied_state_dicts_are_one_finding),
		BY_HAND(views_are_not_ties),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
