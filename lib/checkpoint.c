/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open checkpoint: where its files are, and its end.
 */
#include <stdlib.h>
#include <unistd.h>

#include <fsdp/checkpoint.h>

#include "base/num.h"
#include "checkpoint-private.h"

bool fsdp_checkpoint_source_in(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_folder *folder, uint32_t file, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	const struct fsdp_file_record *record = fsdp_model_file(&checkpoint->model, file);
	if (record->size == FSDP_UNKNOWN)
		return fsdp_fail(
			ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "the file is absent");
	if (!checkpoint->is_folder || record->is_tar) {
		*ret_source = checkpoint->source;
		return true;
	}
	if (fsdp_folder_source(folder, record->path, ret_source, ret_error))
		return true;
	return fsdp_error_add_path(ret_error, (const char *)record->path.data);
}

bool fsdp_checkpoint_source(const struct fsdp_checkpoint *checkpoint, uint32_t file,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	return fsdp_checkpoint_source_in(
		checkpoint, &checkpoint->folder, file, ret_source, ret_error);
}

uint64_t fsdp_checkpoint_holes(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_source source;
	uint64_t total = 0, begin, end;
	for (uint32_t i = 0; i < checkpoint->model.files.count; i++)
		if (fsdp_checkpoint_source(checkpoint, i, &source, NULL))
			for (end = 0; fsdp_source_find_hole(&source, end, &begin, &end);)
				total += end - begin;
	return total;
}

uint64_t fsdp_checkpoint_room(
	const struct fsdp_checkpoint *const *checkpoints, size_t count)
{
	const struct fsdp_budget *budgets[2];
	for (size_t i = 0; i < count && i < FSDP_COUNT(budgets); i++)
		budgets[i] = &checkpoints[i]->budget;
	return fsdp_budget_room(budgets, fsdp_min(count, FSDP_COUNT(budgets)));
}

const struct fsdp_folder *fsdp_checkpoint_place(const struct fsdp_checkpoint *checkpoint)
{
	bool any = checkpoint->is_folder ||
		   (checkpoint->has_dir && checkpoint->folder.dir != NULL);
	return any ? &checkpoint->folder : NULL;
}

void fsdp_checkpoint_keep_open(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_source source;
	if (checkpoint->is_folder || checkpoint->model.files.count == 0)
		return;
	(void)fsdp_folder_source(fsdp_checkpoint_place(checkpoint),
		fsdp_model_file(&checkpoint->model, 0)->path, &source, NULL);
}

void fsdp_checkpoint_free(struct fsdp_checkpoint *checkpoint)
{
	if (checkpoint == NULL)
		return;
	for (size_t i = 0; i < checkpoint->errors.count; i++)
		fsdp_error_free(
			*(struct fsdp_error **)fsdp_vec_at(&checkpoint->errors, i));
	if (checkpoint->has_dir)
		fsdp_dir_close(&checkpoint->dir);
	else if (checkpoint->source.fd >= 0)
		close(checkpoint->source.fd);
	fsdp_arena_done(&checkpoint->arena);
	free(checkpoint);
}
