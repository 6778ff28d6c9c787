/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are paired, how a tensor may have come of another one, and what is left. */
#include <fsdp/compare.h>

#include "by-hand.h"

/* Two checkpoints, and what was found. */
struct both {
	struct fsdp_checkpoint *sides[2];
	struct fsdp_compare *compare;
};

static int begin(void **state)
{
	struct both *both = calloc(1, sizeof *both);
	assert_non_null(both);
	for (unsigned i = 0; i < 2; i++) {
		void *made;
		begin_by_hand(&made);
		both->sides[i] = made;
	}
	*state = both;
	return 0;
}

static int end(void **state)
{
	struct both *both = *state;
	fsdp_compare_free(both->compare);
	for (unsigned i = 0; i < 2; i++) {
		void *made = both->sides[i];
		end_by_hand(&made);
	}
	free(both);
	return 0;
}

static void put(struct both *both, unsigned side, const char *name, const int64_t *shape,
	uint8_t dims)
{
	uint32_t tensor = tensor_by_hand(
		both->sides[side], name, "float32", FSDP_ROLE_PARAM, shape, dims);
	piece_by_hand(both->sides[side], tensor, FSDP_NONE, NULL, dims);
}

static void put_rows(struct both *both, unsigned side, const char *name, int64_t rows)
{
	const int64_t shape[] = { rows };
	put(both, side, name, shape, 1);
}

static struct fsdp_compare_facts compare(struct both *both)
{
	const struct fsdp_compare_options options = {
		.size = sizeof options,
		.sides = { { .checkpoint = both->sides[0] },
			{ .checkpoint = both->sides[1] } },
	};
	freeze_by_hand(both->sides[0]);
	freeze_by_hand(both->sides[1]);
	assert_true(fsdp_compare_new(&options, &both->compare, NULL));
	return fsdp_compare_facts(both->compare);
}

static void names_are_paired(void **state)
{
	struct both *both = *state;
	put_rows(both, 0, "a", 3);
	put_rows(both, 0, "b", 3);
	put_rows(both, 1, "b", 3);
	put_rows(both, 1, "c", 4);
	struct fsdp_compare_facts facts = compare(both);
	assert_int_equal(facts.same, 1);
	assert_int_equal(facts.changed, 0);
	assert_int_equal(facts.rename_count, 0);
	assert_int_equal(facts.only_count[0], 1);
	assert_int_equal(facts.only_count[1], 1);
	assert_memory_equal(fsdp_compare_only(both->compare, 0, 0).name.data, "a", 1);
	assert_memory_equal(fsdp_compare_only(both->compare, 1, 0).name.data, "c", 1);
}

static void first_segments_may_differ(void **state)
{
	struct both *both = *state;
	put_rows(both, 0, "module.x.w", 3);
	put_rows(both, 0, "module.y.w", 4);
	put_rows(both, 0, "old.z.w", 5);
	put_rows(both, 1, "x.w", 3);
	put_rows(both, 1, "y.w", 4);
	put_rows(both, 1, "new.z.w", 5);
	struct fsdp_compare_facts facts = compare(both);
	assert_int_equal(facts.rename_count, 3);
	assert_int_equal(facts.only_count[0] + facts.only_count[1], 0);
	struct fsdp_compare_rename rename = fsdp_compare_rename(both->compare, 0);
	assert_int_equal(rename.why, FSDP_RENAMED_PREFIX);
	assert_int_equal(rename.from.size, strlen("module."));
	assert_int_equal(rename.to.size, 0);
}

/* A prefix is no reason where the shapes say otherwise. */
static void shapes_contradict_a_rename(void **state)
{
	struct both *both = *state;
	put_rows(both, 0, "norm.w", 3);
	put_rows(both, 1, "model.norm.w", 4);
	struct fsdp_compare_facts facts = compare(both);
	assert_int_equal(facts.rename_count, 0);
	assert_int_equal(facts.only_count[0], 1);
}

static void check_hint(const int64_t *a, uint8_t a_dims, const int64_t *b, uint8_t b_dims,
	enum fsdp_probable_cause hint, uint64_t parts, uint32_t dim)
{
	void *state;
	begin(&state);
	struct both *both = state;
	put(both, 0, "w", a, a_dims);
	put(both, 1, "w", b, b_dims);
	struct fsdp_compare_facts facts = compare(both);
	assert_int_equal(facts.changed, 1);
	struct fsdp_compare_pair pair = fsdp_compare_pair(both->compare, 0);
	assert_int_equal(pair.what, FSDP_DIFFERS_SHAPE);
	assert_int_equal(pair.hint, hint);
	assert_int_equal(pair.parts, parts);
	assert_int_equal(pair.dim, dim);
	end(&state);
}

static void shapes_tell_how_one_came_of_the_other(void **state)
{
	(void)state;
	check_hint((const int64_t[]){ 4096 }, 1, (const int64_t[]){ 512 }, 1,
		FSDP_HINT_PIECE, 8, 0);
	/* Of ten rows over four ranks each has three, the last one less. */
	check_hint((const int64_t[]){ 10, 4 }, 2, (const int64_t[]){ 3, 4 }, 2,
		FSDP_HINT_PIECE, 4, 0);
	check_hint((const int64_t[]){ 10, 4 }, 2, (const int64_t[]){ 10, 2 }, 2,
		FSDP_HINT_PIECE, 2, 1);
	check_hint((const int64_t[]){ 12 }, 1, (const int64_t[]){ 24 }, 1,
		FSDP_HINT_JOINED, 2, 0);
	check_hint((const int64_t[]){ 20, 12 }, 2, (const int64_t[]){ 120 }, 1,
		FSDP_HINT_FLAT_PIECE, 2, 0);
	check_hint((const int64_t[]){ 20, 12 }, 2, (const int64_t[]){ 240 }, 1,
		FSDP_HINT_FLATTENED, 0, 0);
	check_hint((const int64_t[]){ 20, 12 }, 2, (const int64_t[]){ 12, 20 }, 2,
		FSDP_HINT_TRANSPOSED, 0, 0);
	check_hint((const int64_t[]){ 20, 12 }, 2, (const int64_t[]){ 1, 20, 12 }, 3,
		FSDP_HINT_RESHAPED, 0, 0);
	check_hint((const int64_t[]){ 20, 12 }, 2, (const int64_t[]){ 0 }, 1,
		FSDP_HINT_PLACEHOLDER, 0, 0);
	check_hint((const int64_t[]){ 20, 12 }, 2, (const int64_t[]){ 7, 5 }, 2,
		FSDP_HINT_NONE, 0, 0);
	check_hint((const int64_t[]){ 20 }, 1, (const int64_t[]){ 11 }, 1, FSDP_HINT_NONE,
		0, 0);
}

static void what_one_side_has_alone_is_folded(void **state)
{
	struct both *both = *state;
	size_t prefix;
	put_rows(both, 0, "model.w", 3);
	put_rows(both, 0, "model.x", 3);
	put_rows(both, 0, "optim.a.w", 3);
	put_rows(both, 0, "optim.b.w", 4);
	put_rows(both, 1, "model.w", 3);
	struct fsdp_compare_facts facts = compare(both);
	assert_int_equal(facts.only_count[0], 3);
	assert_int_equal(fsdp_compare_only_below(both->compare, 0, 0, &prefix), 1);
	assert_int_equal(prefix, 0);
	assert_int_equal(fsdp_compare_only_below(both->compare, 0, 1, &prefix), 2);
	assert_int_equal(prefix, strlen("optim."));
}

static void a_list_asks_for_names(void **state)
{
	struct both *both = *state;
	const int64_t shape[] = { 4 };
	const struct fsdp_compare_name names[] = {
		{ .name = FSDP_SPAN("a") },
		{ .name = FSDP_SPAN("b"), .shape = shape, .dims = 1 },
		{ .name = FSDP_SPAN("c") },
	};
	const struct fsdp_compare_options options = {
		.size = sizeof options,
		.sides = { { .checkpoint = both->sides[0] },
			{ .names = names, .name_count = 3 } },
	};
	put_rows(both, 0, "a", 3);
	put_rows(both, 0, "b", 3);
	freeze_by_hand(both->sides[0]);
	assert_true(fsdp_compare_new(&options, &both->compare, NULL));
	struct fsdp_compare_facts facts = fsdp_compare_facts(both->compare);
	assert_int_equal(facts.same, 1);
	assert_int_equal(facts.changed, 1);
	assert_int_equal(facts.only_count[1], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_are_paired, begin, end),
		cmocka_unit_test_setup_teardown(first_segments_may_differ, begin, end),
		cmocka_unit_test_setup_teardown(shapes_contradict_a_rename, begin, end),
		cmocka_unit_test(shapes_tell_how_one_came_of_the_other),
		cmocka_unit_test_setup_teardown(
			what_one_side_has_alone_is_folded, begin, end),
		cmocka_unit_test_setup_teardown(a_list_asks_for_names, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
