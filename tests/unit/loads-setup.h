/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_LOADS_SETUP_H
#define TESTS_LOADS_SETUP_H

/* Folders of weights made by hand, and what loaders would do with them. */
#include "folder-setup.h"

#include <sys/stat.h>

#include <fsdp/loaders.h>

#include "base/num.h"
#include "base/span.h"

static inline void make_folder(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	assert_int_equal(mkdir(path, 0777), 0);
}

/* A safetensors file of these members, whose tensors are zeros. */
static inline void put_tensors(const char *name, const char *header, size_t zeros)
{
	unsigned char bytes[4096] = { 0 };
	size_t size = strlen(header);

	assert_true(8 + size + zeros <= sizeof bytes);
	bytes[0] = (unsigned char)size;
	bytes[1] = (unsigned char)(size >> 8);
	memcpy(bytes + 8, header, size);
	folder_write(name, bytes, 8 + size + zeros);
}

/* What one loader would do: "refuses hf-no-weights", or of several reasons all. */
static inline struct fsdp_load_check *loads_of(const char *path,
	struct fsdp_load_check_options *options, const char *loader, const char *expected)
{
	struct fsdp_scan *survey = NULL;
	struct fsdp_load_check *loads = NULL;
	char found[512];
	size_t at;

	assert_true(fsdp_scan_new(path, NULL, 0, NULL, &survey, NULL));
	options->size = sizeof *options;
	options->loaders = &loader;
	options->loader_count = 1;
	options->path = "PATH";
	assert_true(fsdp_load_check_new(survey, options, &loads, NULL));
	fsdp_scan_free(survey);
	assert_int_equal(fsdp_load_check_count(loads), 1);
	const struct fsdp_load_result *result = fsdp_load_check_result(loads, 0);
	at = (size_t)snprintf(
		found, sizeof found, "%s", fsdp_load_verdict_name(result->verdict));
	for (size_t i = 0; i < result->reason_count; i++) {
		assert_non_null(result->reasons[i].message);
		assert_null(strstr(result->reasons[i].message, "{path}"));
		at += (size_t)snprintf(
			found + at, sizeof found - at, " %s", result->reasons[i].code);
	}
	assert_string_equal(found, expected);
	return loads;
}

static inline void expect_of(const char *path, struct fsdp_load_check_options *options,
	const char *loader, const char *expected)
{
	fsdp_load_check_free(loads_of(path, options, loader, expected));
}

static inline void expect(const char *loader, const char *expected)
{
	struct fsdp_load_check_options options = { .data = true };

	expect_of(folder, &options, loader, expected);
}

#define CONFIG \
	"{\"model_type\": \"gpt2\", \"vocab_size\": 2, \"n_embd\": 1, \"n_layer\": 1, \"n_positions\": 1, \"tie_word_embeddings\": true}"
#define ONE(name, n) \
	"\"" name "\": {\"dtype\": \"F32\", \"shape\": [" #n "], \"data_offsets\": [0, "

/* A stream of torch.save before 1.6 without storages, and what is in it. */
#define SAVED(value)                                                \
	"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." \
	"\x80\x02M\xe9\x03."                                        \
	"\x80\x02}."                                                \
	"\x80\x02" value "."                                        \
	"\x80\x02]."

/* A GPT-2 of one layer, as CONFIG has it, and a head; all zeros but the head's last byte.
 */
static inline void put_gpt2(unsigned char last)
{
	static const struct {
		const char *name, *shape;
		size_t size;
	} tensors[] = {
		{ "transformer.wte.weight", "2,1", 8 },
		{ "transformer.wpe.weight", "1,1", 4 },
		{ "transformer.h.0.ln_1.weight", "1", 4 },
		{ "transformer.h.0.ln_1.bias", "1", 4 },
		{ "transformer.h.0.attn.c_attn.weight", "1,3", 12 },
		{ "transformer.h.0.attn.c_attn.bias", "3", 12 },
		{ "transformer.h.0.attn.c_proj.weight", "1,1", 4 },
		{ "transformer.h.0.attn.c_proj.bias", "1", 4 },
		{ "transformer.h.0.ln_2.weight", "1", 4 },
		{ "transformer.h.0.ln_2.bias", "1", 4 },
		{ "transformer.h.0.mlp.c_fc.weight", "1,4", 16 },
		{ "transformer.h.0.mlp.c_fc.bias", "4", 16 },
		{ "transformer.h.0.mlp.c_proj.weight", "4,1", 16 },
		{ "transformer.h.0.mlp.c_proj.bias", "1", 4 },
		{ "transformer.ln_f.weight", "1", 4 },
		{ "transformer.ln_f.bias", "1", 4 },
		{ "lm_head.weight", "2,1", 8 },
	};
	char header[2048];
	unsigned char bytes[4096] = { 0 };
	size_t size = 0, end = 0;

	for (size_t i = 0; i < FSDP_COUNT(tensors); i++) {
		size += (size_t)snprintf(header + size, sizeof header - size,
			"%s\"%s\": {\"dtype\": \"F32\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}",
			i == 0 ? "{" : ", ", tensors[i].name, tensors[i].shape, end,
			end + tensors[i].size);
		end += tensors[i].size;
	}
	size += (size_t)snprintf(header + size, sizeof header - size, "}");
	bytes[0] = (unsigned char)size;
	bytes[1] = (unsigned char)(size >> 8);
	memcpy(bytes + 8, header, size);
	bytes[8 + size + end - 1] = last;
	folder_write("model.safetensors", bytes, 8 + size + end);
}

#endif
