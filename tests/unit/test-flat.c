/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of FlatParameters against the tables that PyTorch 2.13 makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "checkpoint/model.h"

enum { MOST = 8, NONE = -1 };

struct expected_part {
	int shard_start, numel, param_start; /* shard_start NONE: not in the shard */
};

/* One unit: its parameters, and what PyTorch says of them. */
struct unit {
	bool use_orig_params;
	uint32_t item_bytes, shards, group;
	size_t count;
	uint64_t numels[MOST];
	/* PyTorch's _numels_with_padding; 0 ends. */
	uint64_t with_padding[2 * MOST + 1];
	uint64_t shard_numel;
	uint64_t padding[4];
	struct expected_part parts[4][MOST];
};

static void lay_out(const struct unit *unit, struct fsdp_flat_cut *cut, uint64_t *starts)
{
	struct fsdp_flat_layout layout = {
		fsdp_flat_rules(unit->use_orig_params, unit->item_bytes, unit->group), 0
	};
	size_t entry = 0;
	for (size_t i = 0; i < unit->count; i++) {
		uint64_t gap = fsdp_flat_gap(&layout);
		if (gap != 0)
			assert_int_equal(unit->with_padding[entry++], gap);
		assert_true(fsdp_flat_add(&layout, gap));
		starts[i] = layout.numel;
		assert_int_equal(unit->with_padding[entry++], unit->numels[i]);
		assert_true(fsdp_flat_add(&layout, unit->numels[i]));
	}
	uint64_t rest = fsdp_flat_rest(&layout);
	if (rest != 0)
		assert_int_equal(unit->with_padding[entry++], rest);
	assert_true(fsdp_flat_add(&layout, rest));
	assert_int_equal(unit->with_padding[entry], 0);
	*cut = fsdp_flat_cut(layout.numel, unit->shards);
}

static void check(const struct unit *unit)
{
	struct fsdp_flat_cut cut;
	uint64_t starts[MOST];
	lay_out(unit, &cut, starts);
	assert_int_equal(cut.shard_numel, unit->shard_numel);
	for (uint32_t rank = 0; rank < unit->shards; rank++) {
		assert_int_equal(fsdp_flat_padding(&cut, rank), unit->padding[rank]);
		for (size_t i = 0; i < unit->count; i++) {
			const struct expected_part *expected = &unit->parts[rank][i];
			struct fsdp_flat_part part;
			bool held = fsdp_flat_part(
				&cut, rank, starts[i], unit->numels[i], &part);
			assert_int_equal(held, expected->shard_start != NONE);
			if (!held)
				continue;
			assert_int_equal(part.shard_start, expected->shard_start);
			assert_int_equal(part.numel, expected->numel);
			assert_int_equal(part.param_start, expected->param_start);
		}
	}
}

/* a.weight [3,5], a.bias [3], b.weight [7,3], bn.weight [7], bn.bias [7], float32. */
static void test_without_padding(void **state)
{
	(void)state;
	check(&(struct unit){
		.item_bytes = 4, .shards = 2, .group = 2, .count = 5,
		.numels = { 15, 3, 21, 7, 7 },
		.with_padding = { 15, 3, 21, 7, 7 },
		.shard_numel = 27, .padding = { 0, 1 },
		.parts = {
			{ { 0, 15, 0 }, { 15, 3, 0 }, { 18, 9, 0 }, { NONE }, { NONE } },
			{ { NONE }, { NONE }, { 0, 12, 9 }, { 12, 7, 0 }, { 19, 7, 0 } },
		},
	});
}

static void test_with_original_parameters(void **state)
{
	(void)state;
	check(&(struct unit){
		.use_orig_params = true, .item_bytes = 4, .shards = 2, .group = 2,
		.count = 5,
		.numels = { 15, 3, 21, 7, 7 },
		.with_padding = { 15, 1, 3, 1, 21, 3, 7, 1, 7, 1 },
		.shard_numel = 30, .padding = { 0, 0 },
		.parts = {
			{ { 0, 15, 0 }, { 16, 3, 0 }, { 20, 10, 0 }, { NONE }, { NONE } },
			{ { NONE }, { NONE }, { 0, 11, 10 }, { 14, 7, 0 }, { 22, 7, 0 } },
		},
	});
}

/* The last rank owns nothing, or nothing but padding. */
static void test_more_ranks_than_elements(void **state)
{
	(void)state;
	check(&(struct unit){
		.item_bytes = 4, .shards = 4, .group = 4, .count = 2,
		.numels = { 6, 1 }, .with_padding = { 6, 1 },
		.shard_numel = 2, .padding = { 0, 0, 0, 1 },
		.parts = {
			{ { 0, 2, 0 }, { NONE } }, { { 0, 2, 2 }, { NONE } },
			{ { 0, 2, 4 }, { NONE } }, { { NONE }, { 0, 1, 0 } },
		},
	});
	check(&(struct unit){
		.use_orig_params = true, .item_bytes = 4, .shards = 4, .group = 4,
		.count = 2,
		.numels = { 6, 1 }, .with_padding = { 6, 2, 1, 3 },
		.shard_numel = 3,
		.parts = {
			{ { 0, 3, 0 }, { NONE } }, { { 0, 3, 3 }, { NONE } },
			{ { NONE }, { 2, 1, 0 } }, { { NONE }, { NONE } },
		},
	});
	check(&(struct unit){
		.item_bytes = 4,
		.shards = 3,
		.group = 3,
		.count = 1,
		.numels = { 1 },
		.with_padding = { 1 },
		.shard_numel = 1,
		.padding = { 0, 1, 1 },
		.parts = { { { 0, 1, 0 } }, { { NONE } }, { { NONE } } },
	});
}

/* 16 bytes of what is computed in, not of what is stored. */
static void test_alignment(void **state)
{
	(void)state;
	assert_int_equal(fsdp_flat_rules(true, 8, 2).alignment, 2);
	assert_int_equal(fsdp_flat_rules(true, 4, 2).alignment, 4);
	assert_int_equal(fsdp_flat_rules(true, 2, 2).alignment, 8);
	assert_int_equal(fsdp_flat_rules(true, 1, 2).alignment, 16);
	assert_int_equal(fsdp_flat_rules(true, 0, 2).alignment, 0);
	assert_int_equal(fsdp_flat_rules(true, 32, 2).alignment, 0);
	assert_int_equal(fsdp_flat_rules(false, 2, 2).alignment, 0);
	assert_int_equal(fsdp_flat_rules(false, 2, 2).multiple, 0);
}

/* NO_SHARD: one shard, but the process group still counts. */
static void test_no_shard(void **state)
{
	(void)state;
	check(&(struct unit){
		.use_orig_params = true,
		.item_bytes = 4,
		.shards = 1,
		.group = 2,
		.count = 1,
		.numels = { 5 },
		.with_padding = { 5, 1 },
		.shard_numel = 6,
		.parts = { { { 0, 5, 0 } } },
	});
}

/* A parameter without elements is nowhere, wherever it stands. */
static void test_empty_parameters(void **state)
{
	(void)state;
	check(&(struct unit){
		.item_bytes = 4, .shards = 2, .group = 2, .count = 3,
		.numels = { 2, 3, 3 }, .with_padding = { 2, 3, 3 },
		.shard_numel = 4, .padding = { 0, 0 },
		.parts = {
			{ { 0, 2, 0 }, { 2, 2, 0 }, { NONE } },
			{ { NONE }, { 0, 1, 2 }, { 1, 3, 0 } },
		},
	});
	struct fsdp_flat_cut cut = fsdp_flat_cut(8, 2), nothing = fsdp_flat_cut(0, 3);
	struct fsdp_flat_part part;
	for (uint64_t start = 0; start <= 8; start++)
		for (uint32_t rank = 0; rank < 2; rank++)
			assert_false(fsdp_flat_part(&cut, rank, start, 0, &part));
	for (uint32_t rank = 0; rank < 3; rank++) {
		assert_false(fsdp_flat_part(&nothing, rank, 0, 0, &part));
		assert_int_equal(fsdp_flat_padding(&nothing, rank), 0);
	}
}

/* Every element of every shard is found there, and the shards follow one another. */
static void test_both_ways(void **state)
{
	(void)state;
	for (uint64_t numel = 0; numel < 40; numel++)
		for (uint32_t shards = 1; shards < 12; shards++) {
			struct fsdp_flat_cut cut = fsdp_flat_cut(numel, shards);
			uint64_t offset, found = 0;
			uint32_t rank;
			for (uint32_t r = 0; r < shards; r++) {
				struct fsdp_flat_range shard = fsdp_flat_shard(&cut, r);
				assert_int_equal(shard.begin, found);
				for (; found < shard.end; found++) {
					assert_true(fsdp_flat_find(
						&cut, found, &rank, &offset));
					assert_int_equal(rank, r);
					assert_int_equal(offset, found - shard.begin);
				}
			}
			assert_int_equal(found, numel);
			assert_false(fsdp_flat_find(&cut, numel, &rank, &offset));
		}
}

static void test_edges(void **state)
{
	(void)state;
	struct fsdp_flat_layout layout = { { 4, 0 }, 0 };
	assert_true(fsdp_flat_add(&layout, FSDP_FLAT_MAX));
	assert_false(fsdp_flat_add(&layout, 1));
	assert_true(fsdp_flat_add(&layout, 0));
	assert_false(fsdp_flat_add(&layout, UINT64_MAX));
	struct fsdp_flat_cut cut = fsdp_flat_cut(FSDP_FLAT_MAX, 1u << 24);
	struct fsdp_flat_part part;
	assert_true(fsdp_flat_part(&cut, (1u << 24) - 1, FSDP_FLAT_MAX - 1, 1, &part));
	assert_int_equal(part.numel, 1);
	assert_int_equal(part.shard_start, cut.shard_numel - 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_padding),
		cmocka_unit_test(test_with_original_parameters),
		cmocka_unit_test(test_more_ranks_than_elements),
		cmocka_unit_test(test_alignment),
		cmocka_unit_test(test_no_shard),
		cmocka_unit_test(test_empty_parameters),
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_edges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
