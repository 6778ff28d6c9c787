/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/arena.h"
#include "base/names.h"

static void pieces_are_aligned_zeroed_and_apart(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 1 << 20 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	unsigned char *a = fsdp_arena_take(&arena, 3, 1);
	unsigned char *b = fsdp_arena_take(&arena, 8, 8);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal((uintptr_t)b % 8, 0);
	assert_true(b >= a + 3 || a >= b + 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(b[i], 0);
	assert_non_null(fsdp_arena_take(&arena, 0, 1));
	fsdp_arena_done(&arena);
	assert_int_equal(budget.used, 0);
}

/* What a round took is given again, zeroed; of many blocks only a small one stays. */
static void a_reset_keeps_one_small_block(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 1 << 30 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	for (size_t round = 0; round < 3; round++) {
		for (size_t i = 0; i < 300; i++) {
			unsigned char *piece = fsdp_arena_take(&arena, 1000, 64);
			assert_non_null(piece);
			assert_int_equal((uintptr_t)piece % 64, 0);
			for (size_t k = 0; k < 1000; k++)
				assert_int_equal(piece[k], 0);
			memset(piece, 0xff, 1000);
		}
		assert_true(budget.used > 256 << 10);
		fsdp_arena_reset(&arena);
		assert_int_equal(budget.used, 64 << 10);
	}
	fsdp_arena_done(&arena);
	assert_int_equal(budget.used, 0);
}

static void ceiling_holds_on_both_sides_of_its_edge(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 64 << 10 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	assert_non_null(fsdp_arena_take(&arena, 1, 1));
	assert_int_equal(budget.used, 16 << 10);
	assert_null(fsdp_arena_take(&arena, 48 << 10, 1));
	struct fsdp_error *error = NULL;
	assert_false(fsdp_arena_fail(&arena, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_LIMIT);
	assert_string_equal(fsdp_error_limit(error), "memory");
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	assert_null(fsdp_arena_take(&arena, SIZE_MAX - 8, 1));
}

/* The ceiling follows what is given, unless the caller chose one. */
static void the_budget_follows_the_input(void **state)
{
	(void)state;
	const uint64_t mib = 1 << 20;
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	fsdp_limits_init(&limits);
	fsdp_budget_init(&budget, &limits);
	uint64_t floor = budget.ceiling;
	assert_true(floor >= 32 * mib && floor <= 48 * mib);
	fsdp_budget_give(&budget, 3 * mib);
	assert_int_equal(budget.ceiling, floor + 8 * 3 * mib);
	fsdp_budget_give(&budget, mib);
	assert_int_equal(budget.ceiling, floor + 8 * 4 * mib);
	fsdp_budget_give(&budget, UINT64_MAX);
	fsdp_budget_give(&budget, UINT64_MAX);
	assert_true(budget.ceiling <= UINT64_C(8) << 30);
	assert_true(fsdp_limits_set(&limits, "memory", 100 * mib));
	fsdp_budget_init(&budget, &limits);
	fsdp_budget_give(&budget, 1);
	assert_int_equal(budget.ceiling, 100 * mib);
	assert_true(fsdp_limits_set(&limits, "memory", 0));
	fsdp_budget_init(&budget, &limits);
	assert_true(budget.ceiling == UINT64_MAX);
}

static void memory_outside_of_arenas_counts(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 100 };
	assert_true(fsdp_budget_spend(&budget, 100));
	assert_false(fsdp_budget_spend(&budget, 1));
	assert_true(budget.over);
	fsdp_budget_return(&budget, 1);
	assert_true(fsdp_budget_spend(&budget, 1));
}

static void copies_end_with_a_zero_byte(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 1 << 20 };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_span copy = fsdp_arena_copy(&arena, FSDP_SPAN("a\0b"));
	assert_int_equal(copy.size, 3);
	assert_int_equal(copy.data[3], 0);
	assert_memory_equal(copy.data, "a\0b", 3);
	fsdp_arena_done(&arena);
}

static void a_vec_keeps_its_items_while_it_grows(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_vec vec;
	fsdp_vec_init(&vec, &arena, sizeof(uint64_t));
	uint64_t *first = fsdp_vec_push(&vec);
	*first = 7;
	for (uint64_t i = 1; i < 1000000; i++) {
		uint64_t *item = fsdp_vec_push(&vec);
		assert_non_null(item);
		*item = i;
	}
	assert_ptr_equal(first, fsdp_vec_at(&vec, 0));
	for (uint64_t i = 1; i < 1000000; i += 997)
		assert_int_equal(*(uint64_t *)fsdp_vec_at(&vec, i), i);
	size_t index;
	uint64_t *run = fsdp_vec_push_run(&vec, 8192, &index);
	assert_non_null(run);
	assert_ptr_equal(fsdp_vec_at(&vec, index + 8191), run + 8191);
	assert_null(fsdp_vec_push_run(&vec, 8193, &index));
	fsdp_arena_done(&arena);
}

static void a_table_holds_numbers_far_apart(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	struct fsdp_table table;
	fsdp_table_init(&table, &arena);
	assert_int_equal(fsdp_table_get(&table, 0), FSDP_NONE);
	assert_true(fsdp_table_set(&table, 1000000, 0));
	assert_true(fsdp_table_set(&table, 3, 7));
	assert_int_equal(fsdp_table_get(&table, 1000000), 0);
	assert_int_equal(fsdp_table_get(&table, 3), 7);
	assert_int_equal(fsdp_table_get(&table, 4), FSDP_NONE);
	assert_int_equal(fsdp_table_get(&table, 1000001), FSDP_NONE);
	assert_true(fsdp_table_set(&table, 3, FSDP_NONE));
	assert_int_equal(fsdp_table_get(&table, 3), FSDP_NONE);
	assert_int_equal(fsdp_table_get(&table, UINT32_MAX - 1), FSDP_NONE);
	/* A page that there is no memory for. */
	budget.ceiling = budget.used;
	bool good = true;
	for (uint32_t i = 2000000; good && i < 64000000; i += 10000)
		good = fsdp_table_set(&table, i, i);
	assert_false(good);
	assert_int_equal(fsdp_table_get(&table, 1000000), 0);
	fsdp_arena_done(&arena);
}

/* At least a megabyte counts, and every byte beyond. */
static void work_follows_the_input(void **state)
{
	(void)state;
	struct fsdp_limits limits;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX }, free = budget;
	struct fsdp_error *error = NULL;
	fsdp_limits_init(&limits);
	assert_true(fsdp_limits_set(&limits, "work", 2));
	budget.limits = &limits;
	assert_true(fsdp_budget_work(&budget, 2 << 20, &error));
	assert_false(fsdp_budget_work(&budget, 1, &error));
	assert_string_equal(fsdp_error_limit(error), "work");
	fsdp_error_free(error);
	error = NULL;
	fsdp_budget_give(&budget, (1 << 20) + 1);
	assert_true(fsdp_budget_work(&budget, 1, &error));
	assert_false(fsdp_budget_work(&budget, 1, &error));
	fsdp_error_free(error);
	error = NULL;
	fsdp_budget_give(&budget, UINT64_MAX);
	assert_true(fsdp_budget_work(&budget, UINT64_MAX, &error));
	assert_true(fsdp_budget_work(&free, UINT64_MAX, &error));
	/* What gives up without a word of its own says the same. */
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	assert_false(fsdp_arena_fail(&arena, &error));
	assert_string_equal(fsdp_error_limit(error), "work");
	fsdp_error_free(error);
}

/* ---- where memory runs out ---- */

struct escape {
	struct fsdp_arena *arena;
	size_t steps, *released;
	bool nested;
};

static void count_release(void *object)
{
	++*(size_t *)object;
}

static void take_too_much(void *context)
{
	struct escape *escape = context;
	struct fsdp_arena *below = fsdp_arena_new_below(escape->arena);
	fsdp_arena_own(escape->arena, count_release, escape->released);
	escape->steps++;
	if (escape->nested) {
		struct escape inner = { .arena = escape->arena,
			.released = escape->released };
		assert_false(fsdp_arena_try(escape->arena, take_too_much, &inner));
		assert_int_equal(inner.steps, 1);
		escape->steps++;
	}
	assert_non_null(fsdp_arena_take(below, 100, 1));
	(void)!fsdp_arena_take(below, 1 << 20, 1);
	escape->steps += 100; /* not reached */
}

static void take_a_little(void *context)
{
	struct escape *escape = context;
	assert_non_null(fsdp_arena_take(escape->arena, 100, 1));
}

static void what_runs_is_left_where_memory_runs_out(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 256 << 10 };
	struct fsdp_arena arena;
	for (int nested = 0; nested < 2; nested++) {
		size_t released = 0;
		struct escape escape = {
			.arena = &arena, .released = &released, .nested = nested != 0
		};
		struct fsdp_error *error = NULL;
		fsdp_arena_init(&arena, &budget);
		assert_true(fsdp_arena_try(&arena, take_a_little, &escape));
		assert_false(fsdp_arena_try(&arena, take_too_much, &escape));
		assert_int_equal(escape.steps, 1 + nested);
		assert_int_equal(released, 0);
		/* Outside, what cannot be had is NULL again. */
		assert_null(fsdp_arena_take(&arena, 1 << 20, 1));
		assert_false(fsdp_arena_fail(&arena, &error));
		assert_int_equal(fsdp_error_code(error), FSDP_ERROR_LIMIT);
		fsdp_error_free(error);
		fsdp_arena_done(&arena);
		assert_int_equal(released, 1 + nested);
		assert_int_equal(budget.used, 0);
	}
}

/* A second arena leaves with the first, to the innermost place; while they are held, none
 * does. */
static void take_together(void *context)
{
	struct escape *escape = context;
	struct fsdp_arena *other = FSDP_TAKE(escape->arena, other, 1);
	fsdp_arena_init_below(other, escape->arena);
	assert_true(fsdp_arena_leaves(other));
	if (!escape->nested) {
		struct escape inner = { .arena = other, .nested = true };
		fsdp_arena_hold(other);
		assert_false(fsdp_arena_leaves(escape->arena));
		assert_null(fsdp_arena_take(escape->arena, 1 << 20, 1));
		/* What tries again is not held. */
		assert_false(fsdp_arena_try(escape->arena, take_together, &inner));
		assert_int_equal(inner.steps, 1);
		assert_false(fsdp_arena_leaves(other));
		fsdp_arena_resume(other);
		fsdp_arena_done(other);
	}
	escape->steps++;
	(void)!fsdp_arena_take(escape->arena, 1 << 20, 1);
	escape->steps += 100; /* not reached */
}

static void arenas_leave_together_unless_they_are_held(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 256 << 10 };
	struct fsdp_arena arena;
	struct escape escape = { .arena = &arena };
	fsdp_arena_init(&arena, &budget);
	assert_false(fsdp_arena_try(&arena, take_together, &escape));
	assert_int_equal(escape.steps, 1);
	assert_false(fsdp_arena_leaves(&arena));
	fsdp_arena_hold(&arena); /* of one that does not leave: nothing */
	fsdp_arena_resume(&arena);
	fsdp_arena_done(&arena);
	assert_int_equal(budget.used, 0);
}

static void name_what_is_too_long(void *context)
{
	struct escape *escape = context;
	struct fsdp_names names;
	fsdp_names_init(&names, escape->arena);
	escape->steps++;
	fsdp_names_child(&names, 0, fsdp_span(context, UINT32_MAX));
	escape->steps++; /* not reached */
}

static void names_that_are_too_long_are_left_too(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 1 << 20 };
	struct fsdp_arena arena;
	struct escape escape = { .arena = &arena };
	fsdp_arena_init(&arena, &budget);
	assert_false(fsdp_arena_try(&arena, name_what_is_too_long, &escape));
	assert_int_equal(escape.steps, 1);
	fsdp_arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_aligned_zeroed_and_apart),
		cmocka_unit_test(a_reset_keeps_one_small_block),
		cmocka_unit_test(ceiling_holds_on_both_sides_of_its_edge),
		cmocka_unit_test(the_budget_follows_the_input),
		cmocka_unit_test(memory_outside_of_arenas_counts),
		cmocka_unit_test(copies_end_with_a_zero_byte),
		cmocka_unit_test(a_vec_keeps_its_items_while_it_grows),
		cmocka_unit_test(a_table_holds_numbers_far_apart),
		cmocka_unit_test(work_follows_the_input),
		cmocka_unit_test(what_runs_is_left_where_memory_runs_out),
		cmocka_unit_test(arenas_leave_together_unless_they_are_held),
		cmocka_unit_test(names_that_are_too_long_are_left_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
