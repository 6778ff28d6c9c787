/* SPDX-License-Identifier: Apache-2.0 */
/* The expected runs were asked of torch 2.13 (Shard and _StridedShard on an arange). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "checkpoint/model.h"

enum { AXES = 2, RUNS = 3 };

/* A cut: 0 none, 1 Shard(0), otherwise _StridedShard(0) with so many parts less one. */
struct expectation {
	int64_t length;
	int cuts[AXES];
	int64_t mesh[AXES], coordinates[AXES];
	struct fsdp_run runs[RUNS]; /* up to one of no elements */
};

static const struct expectation expectations[] = {
	{ 10, { 1 }, { 4, 1 }, { 0 }, { { 0, 3 } } },
	{ 10, { 1 }, { 4, 1 }, { 2 }, { { 6, 3 } } },
	{ 10, { 1 }, { 4, 1 }, { 3 }, { { 9, 1 } } },
	{ 3, { 1 }, { 4, 1 }, { 2 }, { { 2, 1 } } },
	{ 3, { 1 }, { 4, 1 }, { 3 }, { { 3, 0 } } },
	{ 1, { 1 }, { 3, 1 }, { 2 }, { { 1, 0 } } },
	{ 0, { 1 }, { 3, 1 }, { 0 }, { { 0, 0 } } },
	{ 8, { 1, 1 }, { 2, 2 }, { 0, 1 }, { { 2, 2 } } },
	{ 8, { 1, 1 }, { 2, 2 }, { 1, 0 }, { { 4, 2 } } },
	{ 10, { 1, 1 }, { 2, 3 }, { 0, 2 }, { { 4, 1 } } },
	{ 10, { 1, 1 }, { 2, 3 }, { 1, 1 }, { { 7, 2 } } },
	{ 10, { 3 }, { 2, 1 }, { 0 }, { { 0, 3 }, { 5, 3 } } },
	{ 10, { 3 }, { 2, 1 }, { 1 }, { { 3, 2 }, { 8, 2 } } },
	{ 10, { 4 }, { 2, 1 }, { 0 }, { { 0, 2 }, { 4, 2 }, { 8, 1 } } },
	{ 10, { 4 }, { 2, 1 }, { 1 }, { { 2, 2 }, { 6, 2 }, { 9, 1 } } },
	{ 16, { 3, 1 }, { 2, 2 }, { 0, 1 }, { { 8, 4 } } },
	{ 16, { 3, 1 }, { 2, 2 }, { 1, 0 }, { { 4, 4 } } },
	{ 7, { 0, 1 }, { 2, 3 }, { 1, 1 }, { { 3, 3 } } },
	{ 7, { 0, 1 }, { 2, 3 }, { 0, 2 }, { { 6, 1 } } },
};

static void setup_arena(struct fsdp_budget *budget, struct fsdp_arena *arena)
{
	*budget = (struct fsdp_budget){ .ceiling = 64 << 20 };
	fsdp_arena_init(arena, budget);
}

static struct fsdp_placed placed_of(int cut)
{
	return (struct fsdp_placed){
		.kind = cut == 0   ? FSDP_REPLICATE
			: cut == 1 ? FSDP_SHARD
				   : FSDP_STRIDED_SHARD,
		.factor = cut - 1,
	};
}

static void test_against_torch(void **state)
{
	(void)state;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	setup_arena(&budget, &arena);
	for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
		const struct expectation *expected = &expectations[i];
		struct fsdp_placed placed[AXES];
		struct fsdp_runs runs;
		int64_t total = 0;
		for (size_t k = 0; k < AXES; k++)
			placed[k] = placed_of(expected->cuts[k]);
		assert_true(fsdp_placement_runs(expected->length, 0, placed,
			expected->mesh, expected->coordinates, AXES, &arena, &runs));
		for (size_t k = 0; k < runs.count; k++) {
			assert_int_equal(runs.runs[k].begin, expected->runs[k].begin);
			assert_int_equal(runs.runs[k].count, expected->runs[k].count);
			total += runs.runs[k].count;
		}
		assert_true(runs.count == RUNS || expected->runs[runs.count].count == 0);
		assert_int_equal(runs.total, total);
	}
	fsdp_arena_done(&arena);
}

/* Another dimension is left alone. */
static void test_other_dimension(void **state)
{
	(void)state;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_runs runs;
	struct fsdp_placed placed = { .kind = FSDP_SHARD, .dim = 1 };
	setup_arena(&budget, &arena);
	assert_true(fsdp_placement_runs(
		9, 0, &placed, &(int64_t){ 2 }, &(int64_t){ 1 }, 1, &arena, &runs));
	assert_int_equal(runs.count, 1);
	assert_int_equal(runs.runs[0].count, 9);
	fsdp_arena_done(&arena);
}

static bool runs_of(int64_t length, int64_t factor, int64_t ranks, int64_t rank)
{
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_runs runs;
	struct fsdp_placed placed = { .kind = FSDP_STRIDED_SHARD, .factor = factor };
	setup_arena(&budget, &arena);
	bool made =
		fsdp_placement_runs(length, 0, &placed, &ranks, &rank, 1, &arena, &runs);
	fsdp_arena_done(&arena);
	return made;
}

static void test_nonsense(void **state)
{
	(void)state;
	assert_false(runs_of(8, 0, 2, 0));
	assert_false(runs_of(8, -1, 2, 0));
	assert_false(runs_of(8, INT64_MAX, 2, 0));
	assert_false(runs_of(8, 2, 0, 0));
	assert_false(runs_of(8, 2, -1, 0));
	assert_false(runs_of(8, 2, 2, 2));
	assert_false(runs_of(8, 2, 2, -1));
	assert_false(runs_of(INT64_MAX, FSDP_RUNS_MAX + 1, 2, 0));
	assert_true(runs_of(INT64_MAX, FSDP_RUNS_MAX, 2, 1));
	assert_true(runs_of(INT64_MAX, 1, INT64_MAX, INT64_MAX - 1));
}

/* Two cuts of the most parts each: linear, or this takes minutes. */
static void test_many_runs(void **state)
{
	(void)state;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_runs runs;
	struct fsdp_placed placed[2] = {
		{ .kind = FSDP_STRIDED_SHARD, .factor = FSDP_RUNS_MAX },
		{ .kind = FSDP_STRIDED_SHARD, .factor = FSDP_RUNS_MAX },
	};
	setup_arena(&budget, &arena);
	assert_true(fsdp_placement_runs((int64_t)FSDP_RUNS_MAX * 4, 0, placed,
		(int64_t[]){ 2, 2 }, (int64_t[]){ 0, 0 }, 2, &arena, &runs));
	assert_int_equal(runs.count, FSDP_RUNS_MAX);
	assert_int_equal(runs.total, FSDP_RUNS_MAX);
	assert_int_equal(runs.runs[1].begin, 4);
	fsdp_arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_torch),
		cmocka_unit_test(test_other_dimension),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_many_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
