/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Understands the words that people have for dtypes.
 */
#include <string.h>
#include <strings.h>

#include <fsdp/model.h>

#include "front/dtype-word.h"

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
