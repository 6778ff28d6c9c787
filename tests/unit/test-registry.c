/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families: no two claim an input with the same bid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "formats/format.h"

static void test_bids_are_never_equal(void **state)
{
	const struct fsdp_family *taken[101] = { NULL };
	(void)state;
	for (size_t i = 0; fsdp_registry_at(i) != NULL; i++) {
		assert_int_equal(fsdp_registry_bid(i, FSDP_SIGN_NONE), 0);
		for (enum fsdp_sign sign = FSDP_SIGN_SURE; sign <= FSDP_SIGN_WEAK;
			sign++) {
			unsigned bid = fsdp_registry_bid(i, sign);
			assert_true(bid <= 100);
			assert_true(bid == 0 || taken[bid] == NULL);
			taken[bid] = fsdp_registry_at(i);
		}
	}
}

/* One that looks at inputs has a sign that counts; one that does not has none. */
static void test_who_looks_can_win(void **state)
{
	(void)state;
	for (size_t i = 0; fsdp_registry_at(i) != NULL; i++) {
		unsigned sum = 0;
		for (enum fsdp_sign sign = FSDP_SIGN_SURE; sign <= FSDP_SIGN_WEAK; sign++)
			sum += fsdp_registry_bid(i, sign);
		assert_int_equal(sum != 0, fsdp_registry_at(i)->recognize != NULL);
	}
}

static void test_names_are_never_equal(void **state)
{
	(void)state;
	for (size_t i = 0; fsdp_registry_at(i) != NULL; i++)
		assert_ptr_equal(fsdp_registry_find(fsdp_registry_at(i)->name),
			fsdp_registry_at(i));
	assert_null(fsdp_registry_find("no such family"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bids_are_never_equal),
		cmocka_unit_test(test_who_looks_can_win),
		cmocka_unit_test(test_names_are_never_equal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
