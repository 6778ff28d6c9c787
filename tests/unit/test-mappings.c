/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/deepspeed/deepspeed.h"

/* fragment_address(numel=…, start=…) */
static bool reads(const char *type, int64_t numel, int64_t start)
{
	const struct fsdp_token tokens[] = {
		{ .kind = FSDP_TOKEN_TEXT, .text = FSDP_SPAN("numel") },
		{ .kind = FSDP_TOKEN_INTEGER, .integer = numel },
		{ .kind = FSDP_TOKEN_TEXT, .text = FSDP_SPAN("start") },
		{ .kind = FSDP_TOKEN_INTEGER, .integer = start },
	};
	const struct fsdp_value_record value = {
		.type = type,
		.tokens = tokens,
		.token_count = FSDP_COUNT(tokens),
	};
	struct fsdp_mapping mapping = { .next = 0 };
	bool read = fsdp_mapping_read(&value, &mapping);
	assert_true(!read || (mapping.numel == (uint64_t)numel &&
				     mapping.start == (uint64_t)start));
	return read;
}

static void lengths_are_bounded(void **state)
{
	(void)state;
	int64_t most = (int64_t)FSDP_MAPPING_MAX;
	assert_true(reads("fragment_address", 3, 0));
	assert_true(reads("fragment_address", most, most));
	assert_false(reads("fragment_address", most + 1, 0));
	assert_false(reads("fragment_address", 0, most + 1));
	assert_false(reads("fragment_address", -1, 0));
	assert_false(reads("other", 3, 0));
	assert_false(reads(NULL, 3, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
