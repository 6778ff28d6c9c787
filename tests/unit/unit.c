/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unit NAME : runs the unit tests of test-NAME.c, whose main() is compiled as
 * test_NAME(). Status 2 if there are none of that name.
 */
#include <stdio.h>
#include <string.h>

#define UNIT_TEST(name, function) int function(void);
#include "unit-tests.def"
#undef UNIT_TEST

static const struct {
	const char *name;
	int (*run)(void);
} unit_tests[] = {
#define UNIT_TEST(name, function) { name, function },
#include "unit-tests.def"
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof unit_tests / sizeof *unit_tests; i++) {
		if (strcmp(argv[1], unit_tests[i].name) == 0)
			return unit_tests[i].run();
	}
	fprintf(stderr, "usage: unit NAME, of a file test-NAME.c\n");
	return 2;
}
