/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Understands the words that people have for rules and dtypes, and measures how alike two
 * short words are, for "did you mean".
 */
#include <string.h>
#include <strings.h>

#include <fsdp/model.h>

#include "args/nearest.h"

enum { LONGEST = 48 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Three rows of the usual table: swaps look two rows back. */
static size_t edits(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t rows[3][LONGEST + 1];

	for (size_t j = 0; j <= b_size; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_size; i++) {
		const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
		size_t *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_size; j++) {
			row[j] = least(least(above[j], row[j - 1]) + 1,
				above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1])
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[a_size % 3][b_size];
}

void nearest_init(struct nearest *nearest, const char *word)
{
	size_t size = strlen(word), third = size > 3 ? size / 3 : size / 2;

	*nearest = (struct nearest){ .word = word, .distance = least(third, 2) + 1 };
}

void nearest_try(struct nearest *nearest, const char *candidate)
{
	size_t word_size = strlen(nearest->word), size = strlen(candidate);

	if (word_size > LONGEST || size > LONGEST)
		return;
	size_t distance = edits(nearest->word, word_size, candidate, size);
	if (distance < nearest->distance) {
		nearest->distance = distance;
		nearest->best = candidate;
	}
}

const struct fsdp_rule *rule_of_name(const char *name)
{
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);

		if (strcasecmp(rule->id, name) == 0 || strcasecmp(rule->slug, name) == 0)
			return rule;
	}
	return NULL;
}

void rule_nearest(struct nearest *nearest)
{
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		nearest_try(nearest, fsdp_rule(i)->id);
		nearest_try(nearest, fsdp_rule(i)->slug);
	}
}

/* How people write dtypes: numpy, JAX and safetensors say f32, much of the field fp32. */
static const struct {
	const char *typed, *dtype;
} SPELLINGS[] = {
	{ "bf16", "bfloat16" },
	{ "fp16", "float16" },
	{ "f16", "float16" },
	{ "half", "float16" },
	{ "fp32", "float32" },
	{ "f32", "float32" },
	{ "float", "float32" },
	{ "fp64", "float64" },
	{ "f64", "float64" },
	{ "double", "float64" },
	{ "c64", "complex64" },
	{ "c128", "complex128" },
	{ "i8", "int8" },
	{ "i16", "int16" },
	{ "short", "int16" },
	{ "i32", "int32" },
	{ "int", "int32" },
	{ "i64", "int64" },
	{ "long", "int64" },
	{ "u8", "uint8" },
	{ "byte", "uint8" },
	{ "u16", "uint16" },
	{ "u32", "uint32" },
	{ "u64", "uint64" },
	{ "f8_e4m3", "float8_e4m3fn" },
	{ "e4m3", "float8_e4m3fn" },
	{ "f8_e5m2", "float8_e5m2" },
	{ "e5m2", "float8_e5m2" },
};

size_t dtype_of_word(const char *word)
{
	size_t count = fsdp_dtype_count(), found = 0;

	if (strncmp(word, "torch.", 6) == 0)
		word += 6;
	for (size_t i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS; i++)
		if (strcasecmp(SPELLINGS[i].typed, word) == 0)
			word = SPELLINGS[i].dtype;
	while (found < count && strcasecmp(fsdp_dtype((uint32_t)found)->name, word) != 0)
		found++;
	return found;
}
