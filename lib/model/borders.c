/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the name of a tensor the name of a container may end.
 */
#include "model/internal.h"

/* A container's key that people use where no path is stored. */
static bool is_container_word(struct fsdp_span word)
{
	static const char *const words[] = { "model", "module", "state_dict",
		"model_state_dict", "model_state", "app", "net", "network", "_orig_mod" };
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_is(word, words[i]))
			return true;
	return false;
}

bool fsdp_freeze_next_border(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, struct fsdp_span name,
	struct fsdp_border *border)
{
	const int64_t *path = fsdp_model_ints(model, tensor->path);
	size_t parts = path != NULL ? (size_t)path[0] : 1, length;
	if (++border->part >= (parts > 1 ? parts : 2))
		return false;
	if (parts > 1) {
		length = (size_t)(path[border->part] >> 1);
	} else {
		struct fsdp_span word = fsdp_span_first(name, '.');
		length = word.size;
		if (!is_container_word(word))
			return false;
	}
	if (border->at + length >= name.size)
		return false;
	border->at += length + 1;
	return true;
}
