/* SPDX-License-Identifier: Apache-2.0 */
/* Many siblings written as one, and names that look like one that is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/shown-names.h"

/* Joins all of them. */
static void joins(const char *const *names, size_t count, const char *expected)
{
	struct join join = { .members = 0 };
	struct name_buffer buffer = { NULL, 0 };
	size_t length = 0;

	join_begin(&join, text_of(names[0]));
	for (size_t i = 1; i < count; i++)
		assert_true(join_add(&join, text_of(names[i])));
	join_write(&join, &buffer, &length);
	assert_int_equal(length, strlen(expected));
	assert_memory_equal(buffer.data, expected, length);
}

static bool two_join(const char *a, const char *b)
{
	struct join join = { .members = 0 };
	bool joined;
	join_begin(&join, text_of(a));
	joined = join_add(&join, text_of(b));
	return joined;
}

#define JOINS(expected, ...)                                            \
	do {                                                            \
		const char *const names[] = { __VA_ARGS__ };            \
		joins(names, sizeof names / sizeof names[0], expected); \
	} while (0)

static void test_numbers(void **state)
{
	(void)state;
	JOINS("0", "0");
	JOINS("{0-2}", "0", "1", "2");
	JOINS("{8-11}", "8", "9", "10", "11");
	JOINS("{0-1,5,7-8}", "0", "1", "5", "7", "8");
	JOINS("norm{1-2}", "norm1", "norm2");
	JOINS("w{1,3}_proj", "w1_proj", "w3_proj");
	JOINS("layer.{9-10}.mlp", "layer.9.mlp", "layer.10.mlp");
}

static void test_words(void **state)
{
	(void)state;
	JOINS("{q,k,v,o}_proj", "q_proj", "k_proj", "v_proj", "o_proj");
	JOINS("{gate,up,down}_proj", "gate_proj", "up_proj", "down_proj");
	JOINS("{gate_up,down}_proj", "gate_up_proj", "down_proj");
	JOINS("to_{q,k}", "to_q", "to_k");
	JOINS("{key,value}", "key", "value");
}

static void test_what_does_not_join(void **state)
{
	struct join join = { .members = 0 };
	char name[16];
	(void)state;
	assert_false(two_join("a.b", "c.d"));
	assert_false(two_join("", "a"));
	assert_false(two_join("a", "a"));
	assert_false(two_join("x_proj", "_proj"));
	assert_false(two_join("{a}", "b"));
	/* A name with a leading zero is not a number: it would be lost in a range. */
	JOINS("{00,01}", "00", "01");
	/* More than fit into one pair of braces. */
	join_begin(&join, text_of("w0"));
	for (int i = 1; i < JOIN_MAX; i++) {
		snprintf(name, sizeof name, "w%d", 2 * i);
		assert_true(join_add(&join, text_of(name)));
	}
	assert_false(join_add(&join, text_of("w100")));
	assert_true(join_add(&join, text_of("w31")));
	assert_false(join_add(&join, text_of("v32")));
}

static uint32_t best_of(const char *word, const char *const *names, size_t count)
{
	struct similar similar;
	similar_init(&similar, text_of(word));
	for (size_t i = 0; i < count; i++)
		similar_try(&similar, (uint32_t)i, text_of(names[i]));
	return similar.count > 0 ? similar.best[0].name : FSDP_NONE;
}

static void test_similar(void **state)
{
	static const char *const NAMES[] = { "layers.0.mlp.up_proj.weight",
		"layers.0.mlp.down_proj.weight", "head.bias", "model.head.weight", "x" };
	struct similar similar;
	(void)state;
	assert_int_equal(best_of("layers.0.mlp.dwon_proj.weight", NAMES, 5), 1);
	assert_int_equal(best_of("head.weight", NAMES, 5), 3);
	assert_int_equal(best_of("model.head.bias", NAMES, 5), 2);
	assert_int_equal(best_of("up_proj", NAMES, 5), 0);
	assert_int_equal(best_of("zzzzzzzzzzzzzzzz", NAMES, 5), FSDP_NONE);
	assert_int_equal(best_of("", NAMES, 5), FSDP_NONE);
	similar_init(&similar, text_of("head.bias"));
	for (uint32_t i = 0; i < 100; i++)
		similar_try(&similar, i, text_of(i == 99 ? "head.bias" : "hed.bia"));
	assert_int_equal(similar.count, SIMILAR_MAX);
	assert_int_equal(similar.best[0].name, 99);
	assert_int_equal(similar.best[1].name, 0);
	assert_int_equal(similar.best[4].name, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_what_does_not_join),
		cmocka_unit_test(test_similar),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
