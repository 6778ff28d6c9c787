/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a world have no file, and whether those that have are of one node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/build.h"

/* The message, then the rank if there is but one, and the next step if it is not that of
 * the rule; "" for no finding. */
static void expect(const char *list, struct fsdp_ranks_here here, const char *expected)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	uint32_t ranks[256];
	char found[1024] = "";
	size_t at = 0;

	fsdp_arena_init(&arena, &budget);
	fsdp_limits_init(&limits);
	fsdp_findings_init(&findings, &arena, &limits);
	here.list = ranks;
	for (char *end; *list != '\0'; list = end)
		ranks[here.count++] = (uint32_t)strtoul(list, &end, 10);
	fsdp_find_missing_ranks(&findings, &here, FSDP_PLACE(.file = FSDP_SPAN("a")));
	for (size_t i = 0; i < findings.list.count; i++) {
		const struct fsdp_finding *finding = fsdp_vec_at(&findings.list, i);
		at += (size_t)snprintf(found + at, sizeof found - at, "%.*s\n",
			FSDP_TEXT(finding->message));
		if (finding->rank != FSDP_NONE)
			at += (size_t)snprintf(found + at, sizeof found - at, "rank %u\n",
				finding->rank);
		if (!fsdp_span_is(finding->fix,
			    finding->rank != FSDP_NONE
				    ? "copy the file of this rank from where the checkpoint was written"
				    : "copy the files of these ranks from where the checkpoint was written"))
			at += (size_t)snprintf(found + at, sizeof found - at,
				"next: %.*s\n", FSDP_TEXT(finding->fix));
	}
	assert_string_equal(found, expected);
	fsdp_arena_done(&arena);
}

#define WORLD(...) ((struct fsdp_ranks_here){ .what = "file", .world_size = __VA_ARGS__ })

static void ranks_without_a_file_are_listed(void **state)
{
	(void)state;
	expect("0 1 2 3", WORLD(4), "");
	expect("3 3 1 9 0 2", WORLD(4), "");
	expect("3 0 1", WORLD(4),
		"file of rank 2 is missing (world size is 4)\nrank 2\n");
	expect("0", WORLD(2), "file of rank 1 is missing (world size is 2)\nrank 1\n");
	expect("1", WORLD(2), "file of rank 0 is missing (world size is 2)\nrank 0\n");
	expect("0 2", WORLD(4), "files of ranks 1, 3 are missing (world size is 4)\n");
	expect("2 2", WORLD(4), "files of ranks 0-1, 3 are missing (world size is 4)\n");
	expect("", WORLD(3), "files of ranks 0-2 are missing (world size is 3)\n");
	expect("4 5", WORLD(4), "files of ranks 0-3 are missing (world size is 4)\n");
	expect("0 1 2", WORLD(5, .at_least = true),
		"files of ranks 3-4 are missing (world size is at least 5)\n");
	expect("0", WORLD(4294967295),
		"files of ranks 1-4294967294 are missing (world size is 4294967295)\n");
	expect("0 2", WORLD(4, .named = true),
		"files of ranks 1, 3 were not named (world size is 4)\nnext: name the files of these ranks too\n");
	expect("0 1 2", WORLD(4, .named = true, .at_least = true),
		"file of rank 3 was not named (world size is at least 4)\nrank 3\nnext: name the file of this rank too\n");
}

static void a_long_list_breaks_off(void **state)
{
	char list[1024] = "", *at = list;

	(void)state;
	for (int i = 0; i < 200; i += 2)
		at += sprintf(at, " %d", i);
	expect(list, WORLD(200),
		"files of ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63, 65, 67, 69, 71, 73, 75, 77, 79, 81, 83, 85, 87, 89, 91, 93, 95, 97, 99, … are missing (world size is 200)\n");
	at = list + sprintf(list, "1 3");
	for (int i = 0; i < 200; i += 2)
		at += sprintf(at, " %d", i);
	expect(list, WORLD(200),
		"files of ranks 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63, 65, 67, 69, 71, 73, 75, 77, 79, 81, 83, 85, 87, 89, 91, 93, 95, 97, 99, 101, 103, … are missing (world size is 200)\n");
}

static void those_of_one_node_are_told_apart(void **state)
{
	(void)state;
	static const char next[] =
		"\nnext: copy the files of all nodes into one directory\n";
	static const struct {
		const char *list, *only, *none;
	} nodes[] = {
		{ "8 9 10 11 12 13 14 15", "8-15", "0-7" },
		{ "0 1 2 3 4 5 6 7", "0-7", "8-15" },
		{ "4 7 6 5 5", "4-7", "0-3, 8-15" },
		{ "14 15", "14-15", "0-13" },
	};
	for (size_t i = 0; i < FSDP_COUNT(nodes); i++)
		for (int at_least = 0; at_least < 2; at_least++) {
			char expected[512];
			snprintf(expected, sizeof expected,
				"files of ranks %s are missing; only ranks %s of %s16 are present, probably those of one node%s",
				nodes[i].none, nodes[i].only, at_least ? "at least " : "",
				next);
			expect(nodes[i].list, WORLD(16, .at_least = at_least), expected);
		}
	expect("0 1", WORLD(4, .named = true),
		"files of ranks 2-3 were not named (world size is 4)\nnext: name the files of these ranks too\n");
	/* Not as many in each, or not one block, or not where a node begins. */
	expect("0 1", WORLD(3), "file of rank 2 is missing (world size is 3)\nrank 2\n");
	expect("1 2", WORLD(4), "files of ranks 0, 3 are missing (world size is 4)\n");
	expect("0 1 4 5", WORLD(8),
		"files of ranks 2-3, 6-7 are missing (world size is 8)\n");
	expect("0 1 7", WORLD(8), "files of ranks 2-6 are missing (world size is 8)\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_without_a_file_are_listed),
		cmocka_unit_test(a_long_list_breaks_off),
		cmocka_unit_test(those_of_one_node_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
