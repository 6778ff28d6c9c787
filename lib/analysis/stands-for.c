/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the tensor that a name stands for though no file stores it under that name.
 */
#include <string.h>

#include <fsdp/analysis.h>

#include "analysis/scratch.h"
#include "base/error.h"

/* Of weights with several names safetensors stores one, and says so in __metadata__. */
static bool find_declared(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name,
	struct fsdp_scratch *scratch, uint32_t *ret_tensor)
{
	size_t count = fsdp_value_count(checkpoint);

	for (uint32_t i = 0; i < count && !scratch->failed; i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		struct fsdp_span own;
		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_TEXT)
			continue;
		own = fsdp_scratch_name(scratch, checkpoint, value.name);
		if (!fsdp_span_behind(own, "__metadata__.", &own) ||
			!fsdp_span_equal(own, name))
			continue;
		*ret_tensor = fsdp_tensor_find(checkpoint, value.tokens->text);
		return *ret_tensor != FSDP_NONE;
	}
	return false;
}

/* ---- settings of a configuration ---- */

static bool is_one_of(struct fsdp_span name, const char *const *ends, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_ends(name, fsdp_span_text(ends[i])))
			return true;
	return false;
}

static bool says_tied(const struct fsdp_checkpoint *checkpoint)
{
	size_t count = fsdp_setting_count(checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = fsdp_setting(checkpoint, i);
		if (setting.value.kind == FSDP_TOKEN_BOOL && setting.value.integer != 0 &&
			fsdp_span_is(setting.key, "tie_word_embeddings"))
			return true;
	}
	return false;
}

static bool find_embedding(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_span name, struct fsdp_scratch *scratch, uint32_t *ret_tensor)
{
	static const char *const HEADS[] = { "lm_head.weight", "embed_out.weight",
		"output_layer.weight", "output.weight" };
	static const char *const EMBEDDINGS[] = { "embed_tokens.weight", "wte.weight",
		"word_embeddings.weight", "tok_embeddings.weight", "shared.weight",
		"embed_in.weight" };
	size_t count = fsdp_tensor_count(checkpoint);

	if (!is_one_of(name, HEADS, FSDP_COUNT(HEADS)) || !says_tied(checkpoint))
		return false;
	for (uint32_t i = 0; i < count && !scratch->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		if (tensor.role != FSDP_ROLE_PARAM || tensor.dims != 2 ||
			!is_one_of(fsdp_scratch_name(scratch, checkpoint, tensor.name),
				EMBEDDINGS, FSDP_COUNT(EMBEDDINGS)))
			continue;
		*ret_tensor = i;
		return true;
	}
	return false;
}

bool fsdp_tied_find(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name,
	struct fsdp_tie *ret_tie, struct fsdp_error **ret_error)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	struct fsdp_scratch scratch = { .arena = &arena };
	struct fsdp_tie tie = { .tensor = FSDP_NONE };
	bool good;

	fsdp_arena_init_lean(&arena, &budget);
	tie.declared = find_declared(checkpoint, name, &scratch, &tie.tensor);
	if (!tie.declared)
		find_embedding(checkpoint, name, &scratch, &tie.tensor);
	good = !scratch.failed;
	fsdp_arena_done(&arena);
	if (good)
		*ret_tie = tie;
	return good || fsdp_fail_memory(ret_error);
}
