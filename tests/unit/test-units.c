/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/trace.h>

#include "base/arena.h"
#include "trace/kineto.h"

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* ---- names ---- */

static void check_name(const char *name, unsigned traits, const char *unit, int64_t pg)
{
	struct fsdp_kineto_unit_note note = fsdp_kineto_unit_read(fsdp_span_text(name));
	assert_int_equal(note.traits, traits);
	if (traits == 0)
		return;
	assert_true(fsdp_span_is(note.unit, unit));
	assert_int_equal(note.pg, pg);
}

static void annotations_tell_kind_unit_and_group(void **state)
{
	enum {
		gathers = FSDP_UNIT_OF_FSDP2 | FSDP_UNIT_GATHERS,
		turn = FSDP_UNIT_OF_FSDP2 | FSDP_UNIT_TURN,
	};
	(void)state;
	check_name("FSDP::all_gather (layers.0)", gathers, "layers.0", FSDP_ABSENT);
	check_name("FSDP::all_gather", gathers, "", FSDP_ABSENT);
	check_name("FSDP::all_gather ()", gathers, "", FSDP_ABSENT);
	check_name("FSDP::all_gather (a.x [pg=2])", gathers, "a.x [pg=2]", FSDP_ABSENT);
	check_name("FSDP::all_gather (a.x) [pg=2]", gathers, "a.x", 2);
	check_name("FSDP::pre_forward [pg=16]",
		turn | FSDP_UNIT_FORWARDS | FSDP_UNIT_IN_FORWARD, "", 16);
	check_name("FSDP::pre_backward (a (b) c)", turn, "a (b) c", FSDP_ABSENT);
	check_name("FSDP::forward_prefetch for a.b",
		turn | FSDP_UNIT_AHEAD | FSDP_UNIT_IN_FORWARD, "a.b", FSDP_ABSENT);
	check_name("FSDP::backward_prefetch", turn | FSDP_UNIT_AHEAD, "", FSDP_ABSENT);
	check_name(
		"FSDP::backward_prefetch for ", turn | FSDP_UNIT_AHEAD, "", FSDP_ABSENT);
	check_name("FSDP::post_backward_rs_wait ()", FSDP_UNIT_OF_FSDP2, "", FSDP_ABSENT);
	check_name("FullyShardedDataParallel._post_backward_hook",
		FSDP_UNIT_OF_FSDP1 | FSDP_UNIT_REDUCES1, "", FSDP_ABSENT);
	static const char *const others[] = { "", "FSDP::", "FSDP::all_gather x",
		"FSDP::all_gather (x", "FSDP::all_gather (x) ", "FSDP::all_gather [pg=]",
		"FSDP::all_gather [pg=99999999999999999999]", "FSDP::all_gathers",
		"FSDP::forward_prefetch of x", "FSDP::root_pre_forward",
		"FullyShardedDataParallel.", "FullyShardedDataParallel.forward x",
		"unknown", "] [pg=1]", "FSDP:: [pg=1]", "FSDP::all_gather (" };
	for (size_t i = 0; i < FSDP_COUNT(others); i++)
		check_name(others[i], 0, "", 0);
}

static void names_lose_what_wrappers_put_in(void **state)
{
	static const char *const pairs[][2] = { { "", "" }, { "a.b", "a.b" },
		{ "_orig_mod", "" }, { "_orig_mod.a", "a" }, { "a._orig_mod", "a" },
		{ "a._checkpoint_wrapped_module.b", "a.b" },
		{ "a._orig_mod._fsdp_wrapped_module.b", "a.b" },
		{ "a._orig_mods.b", "a._orig_mods.b" }, { "a..b", "a..b" } };
	unsigned char buffer[64];
	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++) {
		size_t size = fsdp_kineto_unit_clean(fsdp_span_text(pairs[i][0]), buffer);
		assert_true(fsdp_span_is(fsdp_span(buffer, size), pairs[i][1]));
	}
}

/* ---- the innermost ---- */

enum { AROUND = 40, INNER = 60 };

static bool is_better(const struct fsdp_enclosed *a, const struct fsdp_enclosed *b)
{
	if (a->end - a->begin != b->end - b->begin)
		return a->end - a->begin < b->end - b->begin;
	if (a->begin != b->begin)
		return a->begin > b->begin;
	return a->index < b->index;
}

static uint32_t look(const struct fsdp_enclosed *around, const struct fsdp_enclosed *one)
{
	const struct fsdp_enclosed *best = NULL;
	for (size_t i = 0; i < AROUND; i++)
		if (around[i].lane == one->lane && around[i].begin <= one->begin &&
			around[i].end >= one->end &&
			(best == NULL || is_better(&around[i], best)))
			best = &around[i];
	return best != NULL ? best->index : FSDP_NONE;
}

static void the_innermost_is_the_shortest_around(void **state)
{
	uint32_t random = 1, found[INNER], want[INNER];
	struct fsdp_enclosed around[AROUND], inner[INNER];
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	(void)state;
	fsdp_arena_init(&arena, &budget);
	for (int round = 0; round < 200; round++) {
		for (uint32_t i = 0; i < AROUND; i++) {
			int64_t begin = next_random(&random) % 40;
			around[i] = (struct fsdp_enclosed){ begin,
				begin + next_random(&random) % 12,
				1 + next_random(&random) % 3, i };
		}
		for (uint32_t i = 0; i < INNER; i++) {
			int64_t begin = next_random(&random) % 40;
			inner[i] =
				fsdp_enclosed_moment(begin, next_random(&random) % 5, i);
			if (i % 2 == 0)
				inner[i].end = begin + next_random(&random) % 6;
			want[i] = look(around, &inner[i]);
		}
		fsdp_enclosing_find(around, AROUND, inner, INNER, found, &arena);
		assert_memory_equal(found, want, sizeof want);
	}
	fsdp_enclosing_find(NULL, 0, inner, INNER, found, &arena);
	for (size_t i = 0; i < INNER; i++)
		assert_int_equal(found[i], FSDP_NONE);
	fsdp_arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(annotations_tell_kind_unit_and_group),
		cmocka_unit_test(names_lose_what_wrappers_put_in),
		cmocka_unit_test(the_innermost_is_the_shortest_around),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
