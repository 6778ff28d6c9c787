/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/names.h"

static struct fsdp_budget budget = { .ceiling = UINT64_MAX };
static struct fsdp_arena arena;
static struct fsdp_names names;

static int setup(void **state)
{
	(void)state;
	fsdp_arena_init(&arena, &budget);
	return fsdp_names_init(&names, &arena) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	fsdp_arena_done(&arena);
	return 0;
}

static void check_round_trip(const char *text)
{
	char buffer[64];
	uint32_t id = fsdp_names_intern(&names, 0, fsdp_span_text(text));
	assert_int_not_equal(id, FSDP_NONE);
	assert_int_equal(
		fsdp_names_write(&names, id, buffer, sizeof buffer), strlen(text));
	assert_memory_equal(buffer, text, strlen(text));
	assert_int_equal(fsdp_names_find(&names, 0, fsdp_span_text(text)), id);
	assert_int_equal(fsdp_names_intern(&names, 0, fsdp_span_text(text)), id);
}

static void names_come_back_as_they_went_in(void **state)
{
	(void)state;
	check_round_trip("");
	check_round_trip(".");
	check_round_trip("..");
	check_round_trip("a");
	check_round_trip("a.b");
	check_round_trip("a..b");
	check_round_trip(".a");
	check_round_trip("a.");
	assert_int_equal(fsdp_names_find(&names, 0, FSDP_SPAN("a.c")), FSDP_NONE);
	assert_int_equal(fsdp_names_length(&names, 0), 0);
	assert_int_not_equal(fsdp_names_find(&names, 0, FSDP_SPAN("")), 0);
}

/* Interning remembers the last name: every pair of neighbours must come out right. */
static void neighbours_do_not_mislead(void **state)
{
	(void)state;
	static const char *const texts[] = { "a.b.c", "a.b", "a.b.c", "a.bc", "a.b.cd",
		"a.b.", "a.b..c", "", "a", "a.", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s",
		"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.t", "ab.c", "a.b.c" };
	size_t count = sizeof texts / sizeof *texts;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < count; j++) {
			check_round_trip(texts[i]);
			check_round_trip(texts[j]);
		}
	uint32_t below = fsdp_names_intern(&names, 0, FSDP_SPAN("x"));
	uint32_t first = fsdp_names_intern(&names, 0, FSDP_SPAN("a.b.c"));
	uint32_t second = fsdp_names_intern(&names, below, FSDP_SPAN("a.b.c"));
	assert_int_not_equal(first, second);
	assert_int_equal(fsdp_names_length(&names, second), 7);
}

static void intern_longer_than_memory(void *context)
{
	static char text[1 << 20] = "a.c.";
	memset(text + 4, 'x', sizeof text - 4);
	*(bool *)context = true;
	fsdp_names_intern(&names, 0, fsdp_span(text, sizeof text));
	*(bool *)context = false; /* not reached */
}

static void a_name_that_memory_ends_in_does_not_mislead(void **state)
{
	(void)state;
	bool begun = false;
	names.copies = &arena;
	uint32_t before = fsdp_names_intern(&names, 0, FSDP_SPAN("a.b.d"));
	budget.ceiling = budget.used + 4096;
	assert_false(fsdp_arena_try(&arena, intern_longer_than_memory, &begun));
	budget.ceiling = UINT64_MAX;
	assert_true(begun);
	assert_int_equal(fsdp_names_intern(&names, 0, FSDP_SPAN("a.b.d")), before);
	check_round_trip("a.b.e");
	check_round_trip("a.c");
}

static void prefixes_are_shared(void **state)
{
	(void)state;
	uint32_t a = fsdp_names_intern(&names, 0, FSDP_SPAN("layers.0.weight"));
	size_t count = names.list.count;
	uint32_t b = fsdp_names_intern(&names, 0, FSDP_SPAN("layers.0.bias"));
	assert_int_equal(names.list.count, count + 1);
	assert_int_equal(
		fsdp_names_at(&names, a)->parent, fsdp_names_at(&names, b)->parent);
}

static void a_name_of_4096_segments_is_no_deeper_stack(void **state)
{
	(void)state;
	uint32_t id = 0;
	for (int i = 0; i < 4096; i++)
		id = fsdp_names_child(&names, id, FSDP_SPAN("x"));
	assert_int_equal(fsdp_names_length(&names, id), 2 * 4096 - 1);
	assert_int_equal(fsdp_names_depth(&names, id), 4096);
}

static void many_siblings_are_found_again(void **state)
{
	(void)state;
	static char texts[100000][16];
	for (int i = 0; i < 100000; i++) {
		snprintf(texts[i], sizeof texts[i], "%d", i);
		fsdp_names_child(&names, 0, fsdp_span_text(texts[i]));
	}
	char text[16];
	for (int i = 0; i < 100000; i += 77) {
		snprintf(text, sizeof text, "%d", i);
		uint32_t id = fsdp_names_find(&names, 0, fsdp_span_text(text));
		assert_int_equal(id, i + 1);
	}
}

static int order(const char *a, const char *b)
{
	int result = fsdp_natural_compare(fsdp_span_text(a), fsdp_span_text(b));
	int opposite = fsdp_natural_compare(fsdp_span_text(b), fsdp_span_text(a));
	assert_int_equal(result<0, opposite> 0);
	return result < 0 ? -1 : result > 0;
}

/* Families of every size around that at which the list ends and the table begins, made
 * in turns, so that no family lies together. */
static void small_and_large_families_are_alike(void **state)
{
	(void)state;
	enum { FAMILIES = 12 };
	uint32_t parents[FAMILIES], children[FAMILIES][FAMILIES];
	char letters[FAMILIES] = "abcdefghijkl";
	for (size_t i = 0; i < FAMILIES; i++)
		parents[i] = fsdp_names_child(&names, 0, fsdp_span(letters + i, 1));
	for (size_t k = 0; k < FAMILIES; k++)
		for (size_t i = k; i < FAMILIES; i++)
			children[i][k] = fsdp_names_child(
				&names, parents[i], fsdp_span(letters + k, 1));
	for (size_t i = 0; i < FAMILIES; i++) {
		for (size_t k = 0; k < FAMILIES; k++) {
			struct fsdp_span name = fsdp_span(letters + k, 1);
			uint32_t found = fsdp_names_find_child(&names, parents[i], name);
			if (k > i) {
				assert_int_equal(found, FSDP_NONE);
				continue;
			}
			assert_int_equal(found, children[i][k]);
			assert_int_equal(
				fsdp_names_child(&names, parents[i], name), found);
			assert_int_equal(
				fsdp_names_at(&names, found)->parent, parents[i]);
		}
	}
	assert_int_equal(names.list.count, 1 + FAMILIES + FAMILIES * (FAMILIES + 1) / 2);
}

static void order_is_natural(void **state)
{
	(void)state;
	assert_int_equal(order("2", "10"), -1);
	assert_int_equal(order("layer2", "layer10"), -1);
	assert_int_equal(order("a", "b"), -1);
	assert_int_equal(order("a", "a"), 0);
	assert_int_equal(order("a", "a1"), -1);
	assert_int_equal(order("007", "8"), -1);
	assert_int_equal(order("01", "1"), -1);
	assert_int_equal(order("", "a"), -1);
	assert_int_equal(order("a1", "a01b"), -1);
	assert_int_equal(order("a01", "a1b"), -1);
	assert_int_equal(order("a1b", "a01c"), -1);
	assert_int_equal(order("99999999999999999999", "100000000000000000000"), -1);
}

/* What is interned from memory that does not stay is copied, each word once. */
static void borrowed_memory_may_go(void **state)
{
	(void)state;
	char text[400], buffer[400];
	names.copies = &arena;
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 1000; i++) {
			int size = snprintf(text, sizeof text, "layers.%d.%s.weight%s",
				i % 100, i % 3 ? "query" : "key", i % 7 ? "" : ".x");
			if (i % 50 == 0)
				size += snprintf(text + size, sizeof text - (size_t)size,
					".%0300d", i);
			uint32_t id = fsdp_names_intern(
				&names, 0, fsdp_span(text, (size_t)size));
			memcpy(buffer, text, (size_t)size);
			memset(text, '.', sizeof text);
			assert_int_equal(fsdp_names_find(&names, 0,
						 fsdp_span(buffer, (size_t)size)),
				id);
			assert_int_equal(
				fsdp_names_write(&names, id, text, sizeof text), size);
			assert_memory_equal(text, buffer, (size_t)size);
		}
	/* Bytes that were not copied yet are zeros too. */
	assert_int_not_equal(
		fsdp_names_intern(&names, 0, fsdp_span("\0.a", 3)), FSDP_NONE);
	uint32_t zeros = fsdp_names_intern(&names, 0, fsdp_span("\0\0", 2));
	assert_int_equal(fsdp_names_at(&names, zeros)->parent, 0);
	uint32_t first = fsdp_names_find(&names, 0, FSDP_SPAN("layers.1.query.weight"));
	uint32_t second = fsdp_names_find(&names, 0, FSDP_SPAN("layers.2.query.weight"));
	assert_int_not_equal(first, FSDP_NONE);
	assert_ptr_equal(
		fsdp_names_at(&names, first)->text, fsdp_names_at(&names, second)->text);
}

static int compare(const char *a, const char *b)
{
	return fsdp_names_compare(&names,
		a[0] == '\0' ? 0 : fsdp_names_intern(&names, 0, fsdp_span_text(a)),
		b[0] == '\0' ? 0 : fsdp_names_intern(&names, 0, fsdp_span_text(b)));
}

static void whole_names_have_an_order(void **state)
{
	(void)state;
	static const char *const ordered[] = { "", "a", "a.2", "a.2.b", "a.10", "a.b",
		"b.a.z", "b.b", "c" };
	enum { COUNT = sizeof ordered / sizeof *ordered };
	for (int i = 0; i < COUNT; i++)
		for (int j = 0; j < COUNT; j++) {
			int order = compare(ordered[i], ordered[j]);
			assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			names_come_back_as_they_went_in, setup, teardown),
		cmocka_unit_test_setup_teardown(
			neighbours_do_not_mislead, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_name_that_memory_ends_in_does_not_mislead, setup, teardown),
		cmocka_unit_test_setup_teardown(prefixes_are_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_name_of_4096_segments_is_no_deeper_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(
			many_siblings_are_found_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			small_and_large_families_are_alike, setup, teardown),
		cmocka_unit_test_setup_teardown(borrowed_memory_may_go, setup, teardown),
		cmocka_unit_test_setup_teardown(
			whole_names_have_an_order, setup, teardown),
		cmocka_unit_test(order_is_natural),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
