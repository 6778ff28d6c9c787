/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the index of shards that have none: tensors stay where they are.
 */
#include "export/exporting.h"

static bool fail_place(struct fsdp_error **ret_error, struct fsdp_span name)
{
	return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"%.*s does not lie as a whole in one file of the folder",
		FSDP_TEXT_MOST(name, 200));
}

/* The file of an item, among those of the checkpoint. */
static bool find_file(const struct fsdp_export *plan, const struct fsdp_export_item *item,
	uint32_t *ret_file, struct fsdp_error **ret_error)
{
	struct fsdp_tensor tensor = fsdp_tensor(plan->checkpoint, item->tensor);
	struct fsdp_span path = FSDP_SPAN("/");
	uint32_t file = FSDP_NONE;
	if (tensor.piece_count == 1)
		file = fsdp_piece(plan->checkpoint, tensor.first_piece).file;
	if (file != FSDP_NONE)
		path = fsdp_file(plan->checkpoint, file).path;
	if (!fsdp_span_ends(path, FSDP_SPAN(".safetensors")) ||
		fsdp_span_first(path, '/').size != path.size)
		return fail_place(ret_error, item->name);
	*ret_file = file;
	return true;
}

static bool add_index(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	plan->files[plan->file_count++].name = FSDP_SPAN("model.safetensors.index.json");
	plan->has_index = true;
	return fsdp_export_count(plan, ret_error);
}

bool fsdp_export_take_files(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	size_t count = fsdp_file_count(plan->checkpoint);
	uint32_t *places = FSDP_TAKE(&plan->arena, places, count + 1);
	plan->files = FSDP_TAKE(&plan->arena, plan->files, count + 1);
	if (places == NULL || plan->files == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (size_t i = 0; i < plan->item_count; i++) {
		struct fsdp_export_item *item = &plan->items[i];
		uint32_t file = 0;
		if (!find_file(plan, item, &file, ret_error))
			return false;
		/* Counted from 1: 0 is none yet. */
		if (places[file] == 0) {
			struct fsdp_file facts = fsdp_file(plan->checkpoint, file);
			plan->files[plan->file_count++] =
				(struct fsdp_export_out){ .name = facts.path,
					.bytes = facts.size };
			places[file] = (uint32_t)plan->file_count;
		}
		item->file = places[file] - 1;
	}
	return add_index(plan, ret_error);
}
