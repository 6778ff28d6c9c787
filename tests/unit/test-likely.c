/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that repeat below a module that is sharded, and what only looks like some. */
#include <fsdp/analysis.h>

#include "by-hand.h"

static void put(struct fsdp_checkpoint *checkpoint, const char *name, bool sharded)
{
	static const int64_t SHAPE[] = { 4 }, FIRST[] = { 0, 2 }, LAST[] = { 2, 2 };
	uint32_t tensor =
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_PARAM, SHAPE, 1);

	if (!sharded) {
		piece_by_hand(checkpoint, tensor, 0, NULL, 1);
		return;
	}
	piece_by_hand(checkpoint, tensor, 0, FIRST, 1);
	piece_by_hand(checkpoint, tensor, 1, LAST, 1);
}

/* The names of the likely units, one after the other. */
static const char *units(struct fsdp_checkpoint *checkpoint, char text[512])
{
	struct fsdp_inferred_units *likely;
	size_t used = 0;

	freeze_by_hand(checkpoint);
	assert_true(fsdp_inferred_units_new(checkpoint, &likely, NULL));
	for (uint32_t i = 0; i < fsdp_module_count(checkpoint); i++) {
		if (!fsdp_inferred_unit(likely, i))
			continue;
		used += fsdp_name_write(checkpoint, fsdp_module(checkpoint, i).name,
			text + used, 500 - used);
		text[used++] = ' ';
	}
	text[used] = '\0';
	assert_false(fsdp_inferred_unit(likely, UINT32_MAX));
	fsdp_inferred_units_free(likely);
	return text;
}

static void blocks_repeat(void **state)
{
	char text[512];

	put(*state, "layers.0.mlp.w", true);
	put(*state, "layers.0.mlp.experts.0.e.w", true);
	put(*state, "layers.0.mlp.experts.1.e.w", true);
	put(*state, "layers.1.mlp.w", true);
	put(*state, "layers.1.mlp.experts.0.e.w", true);
	put(*state, "layers.1.mlp.experts.1.e.w", true);
	put(*state, "norm.w", true);
	assert_string_equal(units(*state, text), "layers.0 layers.1 ");
}

/* The experts repeat, where the layers do not. */
static void what_is_not_alike_is_no_block(void **state)
{
	char text[512];

	put(*state, "layers.0.mlp.w", true);
	put(*state, "layers.1.experts.0.e.w", true);
	put(*state, "layers.1.experts.1.e.w", true);
	put(*state, "layers.1.mlp.w", true);
	assert_string_equal(
		units(*state, text), "layers.1.experts.0 layers.1.experts.1 ");
}

static void plain_layers_are_no_blocks(void **state)
{
	char text[512];

	put(*state, "mlp.0.w", true);
	put(*state, "mlp.1.w", true);
	put(*state, "one.0.mlp.w", true);
	assert_string_equal(units(*state, text), "");
}

static void nothing_sharded_has_no_units(void **state)
{
	char text[512];

	put(*state, "layers.0.mlp.w", false);
	put(*state, "layers.1.mlp.w", false);
	assert_string_equal(units(*state, text), "");
}

static void other_names_below_are_another_block(void **state)
{
	char text[512];

	put(*state, "layers.0.mlp.w", true);
	put(*state, "layers.1.ffn.w", true);
	assert_string_equal(units(*state, text), "");
	fsdp_inferred_units_free(NULL);
}

/* What differs is the block itself, not what lies below it. */
static void a_tensor_of_its_own_makes_another_block(void **state)
{
	char text[512];

	put(*state, "layers.0.mlp.w", true);
	put(*state, "layers.1.mlp.w", true);
	put(*state, "layers.1.scale", true);
	assert_string_equal(units(*state, text), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			blocks_repeat, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			what_is_not_alike_is_no_block, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			plain_layers_are_no_blocks, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			nothing_sharded_has_no_units, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(
			other_names_below_are_another_block, begin_by_hand, end_by_hand),
		cmocka_unit_test_setup_teardown(a_tensor_of_its_own_makes_another_block,
			begin_by_hand, end_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
