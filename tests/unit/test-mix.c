/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/names.h"

enum { KEYS = 4096, SLOTS = 4 * KEYS };

static uint64_t keys[KEYS][2];
static unsigned char taken[SLOTS];

static size_t count_slots(const struct fsdp_hasher *hasher)
{
	size_t slots = 0;
	memset(taken, 0, sizeof taken);
	for (size_t i = 0; i < KEYS; i++) {
		uint64_t hash = fsdp_hash_span(
			hasher, hasher->seed, fsdp_span(keys[i], sizeof keys[i]));
		slots += taken[hash % SLOTS] == 0;
		taken[hash % SLOTS] = 1;
	}
	return slots;
}

/* Random keys would take some 3,600 of the slots. */
static void check_that_they_spread(void)
{
	for (size_t i = 0; i < 8; i++) {
		struct fsdp_hasher hasher = fsdp_hasher_new();
		assert_in_range(count_slots(&hasher), KEYS * 3 / 4, KEYS);
	}
}

/* All have one FNV-1a hash, as far as slots go, or nearly: they differ where a
 * multiplication carries a difference out at the top. */
static void keys_that_met_do_not(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < KEYS; i++) {
		keys[i][0] = i << 52;
		keys[i][1] = (i << 52) >> 32;
	}
	check_that_they_spread();
	for (uint64_t i = 0; i < KEYS; i++) {
		keys[i][0] = i << 32;
		keys[i][1] = 0;
	}
	check_that_they_spread();
}

static void numbers_spread(void **state)
{
	(void)state;
	for (unsigned shift = 0; shift <= 52; shift += 4) {
		struct fsdp_hasher hasher = fsdp_hasher_new();
		size_t slots = 0;
		memset(taken, 0, sizeof taken);
		for (uint64_t i = 0; i < KEYS; i++) {
			uint64_t hash = fsdp_hash(&hasher, i << shift);
			slots += taken[hash % SLOTS] == 0;
			taken[hash % SLOTS] = 1;
		}
		assert_in_range(slots, KEYS / 2, KEYS);
	}
}

static void each_seed_has_its_own_order(void **state)
{
	(void)state;
	struct fsdp_hasher one = fsdp_hasher_new(), other = fsdp_hasher_new();
	assert_int_not_equal(fsdp_hash(&one, 1), fsdp_hash(&other, 1));
	assert_int_not_equal(fsdp_hash_span(&one, 0, FSDP_SPAN("weight")),
		fsdp_hash_span(&other, 0, FSDP_SPAN("weight")));
}

static void all_bytes_count(void **state)
{
	(void)state;
	struct fsdp_hasher hasher = fsdp_hasher_new();
	unsigned char text[24] = { 0 };
	for (size_t size = 0; size < sizeof text; size++) {
		uint64_t hash = fsdp_hash_span(&hasher, 0, fsdp_span(text, size));
		assert_int_not_equal(
			hash, fsdp_hash_span(&hasher, 0, fsdp_span(text, size + 1)));
		for (size_t i = 0; i < size; i++) {
			text[i] = 1;
			assert_int_not_equal(
				hash, fsdp_hash_span(&hasher, 0, fsdp_span(text, size)));
			text[i] = 0;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_met_do_not),
		cmocka_unit_test(numbers_spread),
		cmocka_unit_test(each_seed_has_its_own_order),
		cmocka_unit_test(all_bytes_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
