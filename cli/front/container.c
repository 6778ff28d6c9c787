/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what stored names have in front of those of a plan.
 */
#include <stdlib.h>
#include <string.h>

#include "front/container.h"

/* The whole name, to be freed, with a zero byte behind it. NULL: out of memory. */
static char *name_new(
	const struct fsdp_checkpoint *checkpoint, uint32_t name, size_t *ret_size)
{
	size_t size = fsdp_name_write(checkpoint, name, NULL, 0);
	char *text = malloc(size + 1);

	if (text == NULL)
		return NULL;
	(void)fsdp_name_write(checkpoint, name, text, size);
	text[size] = '\0';
	*ret_size = size;
	return text;
}

/* How much of a stored name stands in front of what its module's name makes of it.
 * SIZE_MAX: the two do not belong together. */
static size_t front_of(
	const char *stored, size_t stored_size, const char *module, size_t module_size)
{
	size_t leaf = 0, planned;

	while (leaf < stored_size && stored[stored_size - 1 - leaf] != '.')
		leaf++;
	planned = module_size > 0 ? module_size + 1 + leaf : leaf;
	if (planned > stored_size ||
		memcmp(stored + stored_size - planned, module, module_size) != 0)
		return SIZE_MAX;
	if (planned < stored_size && stored[stored_size - planned - 1] != '.')
		return SIZE_MAX;
	return stored_size - planned;
}

/* What is in front of this parameter, if that is known. */
static bool look_at(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, char **ret_prefix, size_t *ret_size)
{
	size_t stored_size = 0, module_size = 0, front = SIZE_MAX;
	char *stored = name_new(checkpoint, tensor->name, &stored_size);
	char *module = name_new(
		checkpoint, fsdp_module(checkpoint, tensor->module).name, &module_size);
	bool good = stored != NULL && module != NULL;

	if (good)
		front = front_of(stored, stored_size, module, module_size);
	free(module);
	if (!good || front == SIZE_MAX) {
		free(stored);
		return good;
	}
	*ret_prefix = stored;
	*ret_size = front;
	return true;
}

bool container_find(
	const struct fsdp_checkpoint *checkpoint, char **ret_prefix, size_t *ret_size)
{
	size_t count;
	struct fsdp_plan_facts plan;

	*ret_prefix = NULL;
	*ret_size = 0;
	if (fsdp_sum_count(checkpoint) != 0 || !fsdp_checkpoint_plan(checkpoint, &plan))
		return true;
	count = fsdp_tensor_count(checkpoint);
	for (uint32_t i = 0; i < count && *ret_prefix == NULL; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		if (tensor.role == FSDP_ROLE_PARAM && tensor.module != FSDP_NONE &&
			!look_at(checkpoint, &tensor, ret_prefix, ret_size))
			return false;
	}
	return true;
}
