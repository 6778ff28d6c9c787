/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the lines of a log in which a model may be printed. What is found must
 * hold together: modules behind those they lie in, names that a module can have, the root
 * first.
 */
#include <stdlib.h>

#include "syntax/model-repr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

static void look_at(const struct fsdp_printed_model *model)
{
	bool fsdp = false;
	require(model->modules.count != 0 && model->line != 0);
	for (size_t i = 0; i < model->modules.count; i++) {
		const struct fsdp_printed_module *module =
			fsdp_vec_at(&model->modules, i);
		require((i == 0) == (module->parent == FSDP_NONE));
		require(i == 0 || module->parent < i);
		require((i == 0) == (module->name.size == 0));
		require(module->class_name.size != 0);
		require(memchr(module->name.data, '.', module->name.size) == NULL);
		fsdp |= fsdp_printed_is_fsdp(module->class_name);
	}
	require(fsdp);
}

static void take(struct fsdp_printed *printed, unsigned char *text, size_t size)
{
	while (size != 0) {
		unsigned char *end = memchr(text, '\n', size);
		size_t line = end != NULL ? (size_t)(end - text) : size;
		size_t used = line + (end != NULL);
		(void)fsdp_printed_take(printed, text, line);
		text += used;
		size -= used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsdp_budget budget = { .ceiling = 16 << 20 };
	struct fsdp_error *error = NULL;
	struct fsdp_printed_model model;
	struct fsdp_arena arena;
	struct fsdp_printed *printed = fsdp_printed_new(&budget);
	unsigned char *copy = malloc(size + 1);
	fsdp_arena_init_lean(&arena, &budget);
	require(printed != NULL && copy != NULL);
	if (size != 0)
		memcpy(copy, data, size);
	take(printed, copy, size);
	if (fsdp_printed_end(printed, &arena, &model, &error))
		look_at(&model);
	else
		require(error != NULL);
	fsdp_error_free(error);
	fsdp_printed_free(printed);
	fsdp_arena_done(&arena);
	free(copy);
	require(budget.used == 0);
	return 0;
}
